"""A program that uses the library and ends in some way: for what can only be seen from outside of it.

Arguments: backend (asyncio, trio, threads), ending, the options as JSON, the file that tells that the tool call runs. It prints the
CLI's pid and the watchdog's, goes through the ending, prints `ended`, and stays until its stdin closes (or it is killed).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import hackamore
import hackamore.sync
from hackamore import Options
from hackamore.transports.process.watchdog import watchdog


class Wanted(Exception):
    """Raised on purpose."""


def wait_for(path: str) -> None:
    until = time.monotonic() + 30
    while not os.path.exists(path):
        if time.monotonic() > until:
            raise TimeoutError(path)
        threading.Event().wait(0.01)


def report(stream: Any) -> None:
    print(json.dumps({"cli": stream.pid, "watchdog": watchdog.pid}), flush=True)


def pid_of(stream: Any) -> Callable[[], int | None]:
    """Ask for the pid later, without keeping the stream alive."""
    weak = weakref.ref(stream)

    def pid() -> int | None:
        stream = weak()
        return None if stream is None else stream.pid

    return pid


def tell_when_at_work(stream_pid: Callable[[], int | None], mark: str) -> None:
    wait_for(mark)
    print(json.dumps({"cli": stream_pid(), "watchdog": watchdog.pid}), flush=True)
    print("ready", flush=True)


def stay() -> None:
    print("ended", flush=True)
    sys.stdin.read()


def end_here(ending: str) -> None:
    """The endings that happen in the middle of the loop's body."""
    match ending:
        case "exception":
            raise Wanted
        case "exit":
            sys.exit(0)
        case "hard-exit":
            os._exit(0)
        case "ctrl-c" | "sigterm" | "sigkill":
            print("ready", flush=True)
            while True:
                signal.pause()
        case "fork":
            child = os.fork()
            if child == 0:
                gc.collect()
                sys.exit(0)
            os.waitpid(child, 0)
            print("forked", flush=True)
            sys.stdin.readline()


def blocking(ending: str, options: Options, mark: str) -> None:
    stream = hackamore.sync.query("go", options)
    if ending == "close":
        with stream:
            stream.next_item()
            wait_for(mark)
            report(stream)
        return
    if ending == "waiting-ctrl-c":
        threading.Thread(target=tell_when_at_work, args=(pid_of(stream), mark), daemon=True).start()
        for _ in stream:
            pass
    for _ in stream:
        wait_for(mark)
        report(stream)
        if ending in {"break", "cancel", "task-cancel"}:
            break
        if ending == "gc":
            cycle: list[Any] = [stream]
            cycle.append(cycle)
            break
        end_here(ending)


async def waiting(ending: str, options: Options, mark: str) -> None:
    import anyio

    stream = hackamore.query("go", options)
    if ending == "close":
        async with stream:
            await stream.next_item()
            wait_for(mark)
            report(stream)
        return
    if ending == "waiting-ctrl-c":
        threading.Thread(target=tell_when_at_work, args=(pid_of(stream), mark), daemon=True).start()
        async for _ in stream:
            pass
    if ending == "cancel":
        with anyio.CancelScope() as scope:
            async for _ in stream:
                wait_for(mark)
                report(stream)
                scope.cancel()
    elif ending == "task-cancel":
        import asyncio

        async def read() -> None:
            async for _ in stream:
                wait_for(mark)

        task = asyncio.create_task(read())
        while not os.path.exists(mark):
            await asyncio.sleep(0.01)
        report(stream)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        del task
    else:
        async for _ in stream:
            wait_for(mark)
            report(stream)
            if ending == "break":
                break
            if ending == "gc":
                cycle: list[Any] = [stream]
                cycle.append(cycle)
                break
            if ending == "ctrl-c":
                # The loop has to run: asyncio turns the signal into a cancellation of the main task.
                print("ready", flush=True)
                await anyio.sleep_forever()
            end_here(ending)


def main() -> None:
    backend, ending, wire, mark = sys.argv[1:5]
    options = Options(**json.loads(wire))
    try:
        if backend == "threads":
            blocking(ending, options, mark)
        else:
            import anyio

            anyio.run(waiting, ending, options, mark, backend=backend)
    except Wanted:
        pass
    gc.collect()
    stay()


if __name__ == "__main__":
    main()
