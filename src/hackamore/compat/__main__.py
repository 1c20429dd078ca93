"""`python -m hackamore.compat program.py [ARGUMENTS]`: run a program of `claude_agent_sdk` unchanged. `-m MODULE` runs a module."""

from __future__ import annotations

import os
import runpy
import sys

from hackamore.compat import install

USAGE = "usage: python -m hackamore.compat [-m MODULE | PROGRAM] [ARGUMENTS]\n"


def main(arguments: list[str]) -> int:
    """Run the program; return 2 if none is named."""
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.stderr.write(USAGE)
        return 0 if arguments and arguments[0] != "-m" else 2
    install()
    as_module = arguments[0] == "-m"
    sys.argv = arguments[as_module:]
    sys.path.insert(0, os.getcwd() if as_module else os.path.dirname(os.path.abspath(arguments[0])))
    if as_module:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
