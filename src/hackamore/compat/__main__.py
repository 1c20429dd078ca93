"""`python -m hackamore.compat PROGRAM [ARGUMENTS]`: run a program of `claude_agent_sdk` unchanged. `-m MODULE` runs a module."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

import hackamore
from hackamore.compat import install
from hackamore.compat._use import PREFIX, USED

FLAGS = {
    "trace": ("FILE", "Record each frame in FILE."),
    "budget": ("USD", "Stop when the cost reaches USD."),
    "simulate": ("SCRIPT", "Play a script (JSON, TOML) as the CLI."),
    "cli": ("PATH", "Run this CLI."),
}
"""Flags with their metavars and texts; each is a variable, so that child processes get it."""


NO_CLI = (
    "/--simulate is for programs on hackamore.compat; play another with `hackamore simulate SCRIPT -- python PROGRAM`"
)


def main(arguments: list[str]) -> int:
    """Run the program; return 1 if it did not play its script, 2 if the command line is wrong."""
    parser = argparse.ArgumentParser(
        "python -m hackamore.compat", description="Run a program of claude_agent_sdk unchanged."
    )
    for name, (metavar, text) in FLAGS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument("-m", action="store_true", dest="as_module", help="Run a module.")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="The program, or the module, and its arguments.")
    given = parser.parse_args(arguments)
    if not given.program:
        parser.error("there is no program")
    for name in FLAGS:
        if (value := getattr(given, name)) is not None:
            os.environ[f"{PREFIX}{'BUDGET_USD' if name == 'budget' else name.upper()}"] = value
    if given.simulate is not None:  # a program on Hackamore itself would start a real CLI, with the account of the user
        os.environ["HACKAMORE_CLI_PATH"] = NO_CLI
    try:
        simulated = USED.transport
    except hackamore.OptionsError as error:
        parser.error(str(error))
    install()
    first = given.program[0]
    if not given.as_module and not os.path.exists(first):
        parser.error(f"there is no program {first}")
    sys.argv = given.program
    sys.path.insert(0, os.getcwd() if given.as_module else os.path.dirname(os.path.abspath(first)))
    try:
        if given.as_module:
            runpy.run_module(first, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        if simulated is None or end.code not in (0, None):
            raise
    if simulated is None or (report := simulated.report()).ok:
        return 0
    sys.stderr.write(f"{report.to_text()}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
