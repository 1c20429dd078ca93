"""What many sessions at once cost: `python bench/many_sessions.py [COUNT]`. Needs a checkout: the stand-in CLI is that of the tests.

All are open at the same time, each with a hook and a conversation, and each with a process of its own; every shell is measured in a fresh
interpreter. Memory is what this process occupies more than before, divided by the number of sessions; the stand-in CLIs are not counted.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
AT_ONCE = 20
PROMPT = json.dumps(
    [
        [
            "ask",
            "hook_callback",
            {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash"}},
        ],
        ["text", "done"],
    ]
)


def main(count: int) -> None:
    print(f"{count} sessions at once, each with a hook, against stand-in CLIs\n")
    print("| shell | memory for each | open all | one turn of all | stop all | threads |")
    print("|---|---|---|---|---|---|")
    for backend in ("asyncio", "trio", "threads"):
        command = [sys.executable, __file__, str(count), backend]
        made = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
        seconds = " | ".join(f"{made[name]:.2f} s" for name in ("start", "turn", "stop"))
        print(f"| {backend} | {made['bytes'] / 1000:,.0f} kB | {seconds} | {made['threads']} |")


def measure(count: int, backend: str) -> None:
    sys.path.insert(0, str(PROJECT))
    import threading

    import bridle
    from bridle.sync import Session as SyncSession
    from tests.support.light import light, resident

    called: list[str] = []

    def hook(asked: Any, context: Any) -> None:
        called.append(asked.hook_event_name)

    with tempfile.TemporaryDirectory(prefix="bridle-many-") as folder:
        options = light(Path(folder))(hooks={"PreToolUse": [bridle.HookMatcher(hooks=[hook])]})
        made: dict[str, float] = {}

        def note(name: str, began: float) -> float:
            made[name] = time.perf_counter() - began
            return time.perf_counter()

        def weigh(before: int) -> None:
            gc.collect()
            made["bytes"] = (resident() - before) / count
            made["threads"] = threading.active_count()

        def blocking() -> None:
            with SyncSession(options) as warm:  # what is loaded once is not the price of a session
                warm.send(PROMPT).result()
            gc.collect()
            before = resident()
            sessions = [SyncSession(options) for _ in range(count)]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                began = time.perf_counter()
                list(pool.map(SyncSession.start, sessions))
                began = note("start", began)
                list(pool.map(lambda session: session.send(PROMPT).result(), sessions))
                began = note("turn", began)
                weigh(before)
                began = time.perf_counter()
                list(pool.map(SyncSession.stop, sessions))
                note("stop", began)

        async def waiting() -> None:
            import anyio

            async with bridle.Session(options) as warm:
                await (await warm.send(PROMPT)).result()
            limit = anyio.Semaphore(AT_ONCE)

            async def each(work: Any) -> None:
                async def one(session: bridle.Session) -> None:
                    async with limit:
                        await work(session)

                async with anyio.create_task_group() as group:
                    for session in sessions:
                        group.start_soon(one, session)

            async def talk(session: bridle.Session) -> None:
                await (await session.send(PROMPT)).result()

            gc.collect()
            before = resident()
            sessions = [bridle.Session(options) for _ in range(count)]
            began = time.perf_counter()
            await each(bridle.Session.start)
            began = note("start", began)
            await each(talk)
            began = note("turn", began)
            weigh(before)
            began = time.perf_counter()
            await each(bridle.Session.stop)
            note("stop", began)

        if backend == "threads":
            blocking()
        else:
            import anyio

            anyio.run(waiting, backend=backend)
    if len(called) != count + 1:
        raise SystemExit(f"{len(called)} hooks were called, not {count + 1}")
    print(json.dumps(made))


if __name__ == "__main__":
    os.chdir(PROJECT)
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    if len(sys.argv) > 2:
        measure(number, sys.argv[2])
    else:
        main(number)
