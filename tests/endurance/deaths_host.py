"""A host whose CLI makes a Bash call: a program for `deaths.py`, which kills it or its CLI.

Arguments: the backend, the options as JSON, the prompt. Prints the pid of the CLI, then the outcome of the turn and of the stop. Its stdin
keeps it from ending by itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from hackamore import HackamoreError, Options, Timeouts
from tests.support.shell import Shell
from tests.support.talking import got, make


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(backend: Any, options: dict[str, Any], prompt: str) -> None:
    shell = Shell(backend)

    async def scenario() -> None:
        session = make(shell, Options(**options, timeouts=Timeouts(stop_grace=2, kill_grace=2)))
        outcome = "completed"
        try:
            await got(session.start())
            say(cli=session.pid)
            await got((await got(session.send(prompt))).result())
        except HackamoreError as error:
            outcome = type(error).__name__
        finally:
            await got(session.stop())
        say(outcome=outcome)

    shell.play(scenario)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
    sys.stdin.read()
