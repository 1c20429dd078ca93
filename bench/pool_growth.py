"""How the cost of a pool grows with its callers, its processes and the processes of the machine: `python bench/pool_growth.py`.

Each function returns the cost of one unit for a given size: it stays the same, or grows with the logarithm. The CLIs are simulated;
`PYTHONPATH=<another clone>/src` measures that clone. `--quick` leaves the largest sizes out.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import subprocess
import time
from collections import deque
from typing import Any

import hackamore
from hackamore.pool.core import PoolCore
from hackamore.pool.differences import Split
from hackamore.pool.members import Acquire, PoolLimits, Release, Save, Start
from hackamore.pool.memory import resident
from hackamore.pool.registry import Held
from hackamore.testing import Script, SimulatedCLI

PLAIN = Split({}, {})
MAX_LIVE = 16


def _core(max_live: int) -> PoolCore:
    ids = itertools.count()
    limits = PoolLimits(0, max_live, max_live, None, 300.0, 1.0, 15.0, 0.5)
    return PoolCore(hackamore.Options(), limits, lambda: f"session-{next(ids)}")


def _carry_out(core: PoolCore) -> None:
    """Carry all jobs out at once, as a shell would with a fast registry and a fast CLI."""
    while jobs := core.take(time.monotonic()):
        core.next_time()
        for job in jobs:
            now = time.monotonic()
            match job:
                case Acquire():
                    core.acquired(job.conv, Held(taken=True), now)
                case Save():
                    core.saved(job.conv, job.record, kept=True)
                case Release():
                    core.released(job.conv)
                case Start():
                    core.started(job.slot, now, cwd="/", resumed=job.resume)
                case _:
                    core.gone(job.slot)


def decisions(waiting: int) -> float:
    """Return the seconds that the core decides for each of so many callers, each of a conversation of its own."""
    core = _core(MAX_LIVE)
    began = time.process_time()
    callers: deque[Any] = deque()
    for number in range(waiting):
        callers.append(core.ask(f"user-{number}", PLAIN, time.monotonic()))
        _carry_out(core)
    while callers:
        caller = callers.popleft()
        if caller.slot is None:
            raise AssertionError("the first caller has no session")
        core.returned(caller.slot, time.monotonic(), quiet=True, said=True)
        _carry_out(core)
        core.take_events()
    return (time.process_time() - began) / waiting


def check_outs(live: int, times: int = 200) -> float:
    """Return the seconds that the core decides for one check-out and return, with so many idle conversations."""
    core = _core(live)
    for number in range(live):
        caller = core.ask(f"user-{number}", PLAIN, time.monotonic())
        _carry_out(core)
        assert caller.slot is not None
        core.returned(caller.slot, time.monotonic(), quiet=True, said=True)
        _carry_out(core)
    began = time.process_time()
    for number in range(times):
        caller = core.ask(f"user-{number * 7 % live}", PLAIN, time.monotonic())
        _carry_out(core)
        assert caller.slot is not None
        core.returned(caller.slot, time.monotonic(), quiet=True, said=True)
        _carry_out(core)
    return (time.process_time() - began) / times


class _Blocks:
    """Measures how long the event loop does nothing but one round of its tasks, in seconds of the processor: other programs do not count.

    Attributes:
        longest: the longest time.
        collecting: the longest time that a full collection of garbage took; it is not in `longest`: Python collects, the pool or not.
    """

    def __init__(self) -> None:
        self.longest = self.collecting = self._paused = self._began = 0.0

    def _collected(self, phase: str, facts: dict[str, int]) -> None:
        if facts["generation"] < 2:
            return
        if phase == "start":
            self._began = time.thread_time()
        else:
            seconds = time.thread_time() - self._began
            self._paused += seconds
            self.collecting = max(self.collecting, seconds)

    async def watch(self, over: asyncio.Event) -> None:
        gc.callbacks.append(self._collected)
        before = time.thread_time()
        while not over.is_set():
            await asyncio.sleep(0)
            now = time.thread_time() - self._paused
            self.longest, before = max(self.longest, now - before), now
        gc.callbacks.remove(self._collected)


async def _burst(callers: int, *, keyed: bool) -> tuple[float, _Blocks]:
    script = Script(forever=True).user().says("Done.")
    with SimulatedCLI(script, per_session=True) as cli:
        pool = hackamore.SessionPool(warm=0, max_live=MAX_LIVE, max_starting=MAX_LIVE, timeout=None, transport=cli)

        async def call(number: int) -> None:
            async with pool.conversation(f"user-{number}") if keyed else pool.session() as session:
                await (await session.send("Hello")).result()

        async with pool:
            over, blocks = asyncio.Event(), _Blocks()
            watch = asyncio.create_task(blocks.watch(over))
            await asyncio.sleep(0)
            began = time.process_time()
            await asyncio.gather(*(call(number) for number in range(callers)))
            used = time.process_time() - began
            over.set()
            await watch
            return used / callers, blocks


def burst(callers: int, *, keyed: bool = True) -> tuple[float, _Blocks]:
    """Let so many callers come at once to a pool of 16 simulated CLIs.

    Args:
        callers: their number.
        keyed: True if each wants a conversation of its own, False if each wants any session.

    Returns:
        The seconds of the processor for each, and the longest times for which the event loop did nothing else.
    """
    return asyncio.run(_burst(callers, keyed=keyed))


def measurements(processes: int, times: int = 5) -> float:
    """Return the seconds of the processor that one measurement of the memory takes for each of so many trees of two processes."""
    with_children: list[subprocess.Popen[Any]] = []
    try:
        for _ in range(processes):
            command = ["sh", "-c", "echo; sh -c 'cat; true'; true"]
            each = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert each.stdout is not None
            each.stdout.readline()
            with_children.append(each)
        pids = {number: each.pid for number, each in enumerate(with_children)}
        began = time.process_time()
        for _ in range(times):
            assert all(resident(pids).values())
        return (time.process_time() - began) / times / processes
    finally:
        for each in with_children:
            each.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for waiting in (30, 250, 1000, *(() if quick else (10_000,))):
        print(f"{waiting:6} callers of the core alone: {decisions(waiting) * 1000:.3f} ms for each", flush=True)
    for live in (25, 100, 400):
        print(f"{live:6} live sessions: {check_outs(live) * 1000:.3f} ms for a check-out and a return", flush=True)
    for keyed in (True, False):
        for callers in (30, 250, *(() if quick else (1000,))):
            each, blocks = burst(callers, keyed=keyed)
            kind = "conversations" if keyed else "new sessions"
            print(
                f"{callers:6} callers at once, {kind}: {each * 1000:.2f} ms for each; longest block {blocks.longest * 1000:.0f} ms, "
                f"longest collection of garbage {blocks.collecting * 1000:.0f} ms",
                flush=True,
            )
    for processes in (16, 50, 100, 200):
        print(f"{processes:6} trees: {measurements(processes) * 1000:.3f} ms to measure each", flush=True)


if __name__ == "__main__":
    main()
