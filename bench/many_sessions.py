"""What many sessions at once cost: `python bench/many_sessions.py [COUNT]`. Needs a checkout: the stand-in CLI is that of the tests.

All are open at the same time, each with a hook and a conversation, and each with a process of its own; every shell is measured in a fresh
interpreter. Memory is what this process occupies more than before, divided by the number of sessions; the stand-in CLIs are not counted.
Descriptors and threads are also those of this process, when all sessions are idle. The last column has the threads immediately after the
turn: those of plain hooks end two seconds after their last call. The limits of the machine are checked first, and the soft limit of
descriptors is raised.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
AT_ONCE = 20
DESCRIPTORS_EACH = 6
CLI_BYTES = 7_000_000
"""Memory of a stand-in CLI that it shares with no other process."""
SECONDS_EACH = 0.5
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
    print(
        "| shell | memory, descriptors, threads for each | open all | one turn of all | stop all | threads after the turn |"
    )
    print("|---|---|---|---|---|---|")
    for backend in ("asyncio", "trio", "threads"):
        command = [sys.executable, __file__, str(count), backend]
        limit = 120 + count * SECONDS_EACH
        made = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=limit).stdout)
        seconds = " | ".join(f"{made[name]:.1f} s" for name in ("start", "turn", "stop"))
        each = f"{made['bytes'] / 1000:,.0f} kB, {made['descriptors']:.2f}, {made['threads']:.2f}"
        print(f"| {backend} | {each} | {seconds} | {made['busy']} |", flush=True)


def make_room(count: int) -> None:
    """Raise the soft limit of descriptors, and exit with the reason if this machine cannot run so many sessions."""
    wanted = count * DESCRIPTORS_EACH + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(f"{count} sessions need {wanted} descriptors, but `ulimit -Hn` is {hard}.")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most != resource.RLIM_INFINITY and most < count + 100 and os.geteuid() != 0:
        raise SystemExit(f"{count} sessions need as many processes, but `ulimit -u` is {most}.")
    with open("/proc/sys/kernel/pid_max") as file:
        pids = int(file.read())
    if pids < 2 * count:
        raise SystemExit(f"{count} sessions need as many processes, but /proc/sys/kernel/pid_max is {pids}.")
    with open("/proc/meminfo") as file:
        fields = dict(line.split(":") for line in file)
    free, needed = int(fields["MemAvailable"].split()[0]) * 1024, count * CLI_BYTES
    if free < needed:
        raise SystemExit(
            f"{count} stand-in CLIs need {needed / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB are free."
        )


def measure(count: int, backend: str) -> None:
    sys.path.insert(0, str(PROJECT))
    import threading

    import hackamore
    from hackamore.runtime.threads import IDLE_SECONDS
    from hackamore.sync import Session as SyncSession
    from tests.support.leaks import open_descriptors
    from tests.support.light import light, resident

    called: list[str] = []

    def hook(asked: Any, context: Any) -> None:
        called.append(asked.hook_event_name)

    with tempfile.TemporaryDirectory(prefix="hackamore-many-") as folder:
        options = light(Path(folder))(hooks={"PreToolUse": [hackamore.HookMatcher(hooks=[hook])]})
        made: dict[str, float] = {}

        def note(name: str, began: float) -> float:
            made[name] = time.perf_counter() - began
            return time.perf_counter()

        def holds() -> dict[str, float]:
            gc.collect()
            return {"bytes": resident(), "descriptors": len(open_descriptors()), "threads": threading.active_count()}

        def weigh(before: dict[str, float]) -> None:
            made["busy"] = threading.active_count()
            until = time.monotonic() + IDLE_SECONDS + 10
            while time.monotonic() < until and any(one.name == "hackamore-callback" for one in threading.enumerate()):
                time.sleep(0.1)
            made.update({name: (value - before[name]) / count for name, value in holds().items()})

        def blocking() -> None:
            with SyncSession(options) as warm:  # what is loaded once is not the price of a session
                warm.send(PROMPT).result()
            before = holds()
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

            async with hackamore.Session(options) as warm:
                await (await warm.send(PROMPT)).result()
            limit = anyio.Semaphore(AT_ONCE)

            async def each(work: Any) -> None:
                async def one(session: hackamore.Session) -> None:
                    async with limit:
                        await work(session)

                async with anyio.create_task_group() as group:
                    for session in sessions:
                        group.start_soon(one, session)

            async def talk(session: hackamore.Session) -> None:
                await (await session.send(PROMPT)).result()

            before = holds()
            sessions = [hackamore.Session(options) for _ in range(count)]
            began = time.perf_counter()
            await each(hackamore.Session.start)
            began = note("start", began)
            await each(talk)
            began = note("turn", began)
            weigh(before)
            began = time.perf_counter()
            await each(hackamore.Session.stop)
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
        make_room(number)
        main(number)
