"""A program whose permission callback never answers: for tests that kill it meanwhile. Arguments: the backend, and the options as JSON."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING

import hackamore
import hackamore.sync
from hackamore import Deny, Options

if TYPE_CHECKING:
    from hackamore import PermissionRequest


def waits(request: PermissionRequest) -> Deny:
    print("asked", flush=True)
    threading.Event().wait(60)
    raise AssertionError("the program was not killed")


async def waiting(options: Options) -> None:
    async with hackamore.Session(options) as session:
        print(session.pid, flush=True)
        await (await session.send("Go.")).result()


def main() -> None:
    options = Options(can_use_tool=waits, **json.loads(sys.argv[2]))
    if sys.argv[1] == "threads":
        with hackamore.sync.Session(options) as session:
            print(session.pid, flush=True)
            session.send("Go.").result()
    else:
        import anyio

        anyio.run(waiting, options, backend=sys.argv[1])


if __name__ == "__main__":
    main()
