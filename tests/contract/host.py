"""A program that opens sessions and ends without stopping them. Run as a program: backend, way of ending, options as JSON, how many."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from hackamore import Options, Session
from hackamore.sync import Session as SyncSession

PROMPT = json.dumps([["ignore_term"], ["text", "a"], ["hang"]])


def leave(way: str, sessions: list[Any]) -> None:
    print(json.dumps([session.pid for session in sessions]), flush=True)
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "exception":
        raise RuntimeError("nobody catches it")
    if way == "exit":
        sys.exit(0)


def blocking(way: str, options: Options, count: int) -> None:
    sessions = [SyncSession(options) for _ in range(count)]
    for session in sessions:
        session.start()
        next(iter(session.send(PROMPT)))
    leave(way, sessions)


async def waiting(way: str, options: Options, count: int) -> None:
    sessions = [Session(options) for _ in range(count)]
    for session in sessions:
        await session.start()
        await anext(aiter(await session.send(PROMPT)))
    leave(way, sessions)


if __name__ == "__main__":
    backend, ending, wire, number = sys.argv[1:5]
    chosen = Options(**json.loads(wire))
    if backend == "threads":
        blocking(ending, chosen, int(number))
    else:
        import anyio

        anyio.run(waiting, ending, chosen, int(number), backend=backend)
