"""A program whose policy never decides: for tests that kill it meanwhile. Arguments: the backend, and the options as JSON."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import hackamore
import hackamore.sync
from hackamore import Options


class Deciding:
    """Prints that it decides, and does not."""

    def decide(self, tool_name: str, tool_input: object, **around: object) -> Any:
        print("decides", flush=True)
        threading.Event().wait(60)
        raise AssertionError("the program was not killed")


async def waiting(options: Options) -> None:
    async with hackamore.Session(options) as session:
        print(session.pid, flush=True)
        await (await session.send("Go.")).result()


def main() -> None:
    options = Options(policy=Deciding(), **json.loads(sys.argv[2]))
    if sys.argv[1] == "threads":
        with hackamore.sync.Session(options) as session:
            print(session.pid, flush=True)
            session.send("Go.").result()
    else:
        import anyio

        anyio.run(waiting, options, backend=sys.argv[1])


if __name__ == "__main__":
    main()
