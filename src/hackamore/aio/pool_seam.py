"""The seam between a pool and asyncio or trio: how it waits, starts jobs, and calls functions that block.

`hackamore.sync.pool_seam` has the same methods for threads. The core of a pool is only touched in the thread of its event loop.
"""

from __future__ import annotations

import contextvars
import time
from collections import deque
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel

from hackamore.aio.waits import check_loop
from hackamore.runtime.event_loops import Loop, woken
from hackamore.runtime.threads import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

    from hackamore.runtime.flags import Flag

T = TypeVar("T")

ROUND = 16
"""How many callers may have the core decide before other tasks of the event loop run."""


class PoolSeam:
    """Waits, starts and calls for a pool on the event loop where it is created. The `lock` of the core does nothing here."""

    def __init__(self, name: str = "pool") -> None:
        check_loop()
        self._name = name
        self.lock: AbstractContextManager[object] = nullcontext()
        self._loop = Loop()
        self._context = contextvars.copy_context()
        self._nudged: anyio.Event = anyio.Event()
        self._turns = ROUND
        self._line: deque[anyio.Event] = deque()

    def check(self) -> None:
        """Raise RuntimeError if the pool belongs to another event loop."""
        if not self._loop.is_current:
            raise RuntimeError(f"This {self._name} belongs to another event loop. Use it in the loop that started it.")

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a job, which must not raise, outside all task groups."""
        self._loop.spawn(job, self._context.copy(), name=f"hackamore {self._name}")

    async def work(self, function: Callable[[], T]) -> T:
        """Call a function that blocks, in a worker thread."""
        return await Call(function).wait()

    async def wait(self, flag: Flag, seconds: float | None = None, *, since: int | None = None) -> bool:
        """Wait until a flag is set, or woken since it had `since` wakes, `seconds` at most; return False if the time passed."""
        return flag.is_set or (since is not None and flag.wakes != since) or await woken(flag, seconds)

    async def finish(self, flag: Flag) -> None:
        """Wait until a flag is set. Cancellation does not shorten it: what is waited for has a time limit of its own."""
        cancelled: BaseException | None = None
        with anyio.CancelScope(shield=True):
            while not flag.is_set:
                try:
                    await self.wait(flag)
                except anyio.get_cancelled_exc_class() as error:
                    cancelled = error  # asyncio's own `Task.cancel` ignores shields
        if cancelled is not None:
            raise cancelled

    async def give_way(self) -> None:
        """Let other tasks run once, without a cancellation: the caller has something to return."""
        await anyio.lowlevel.cancel_shielded_checkpoint()

    async def turn(self) -> None:
        """Let `ROUND` callers continue, and further ones after other tasks of the loop have run: first in, first out."""
        self._turns -= 1
        if self._turns < 0:
            self._line.append(anyio.Event())
            if self._turns == -1:
                self.spawn(self._call_in)
            await self._line[-1].wait()

    async def _call_in(self) -> None:
        """Let callers in line continue until there are none; in that order, because no caller passes before the last ones have run."""
        try:
            await self._loop.turn()
            while self._line:
                for event in [self._line.popleft() for _ in range(min(ROUND, len(self._line)))]:
                    event.set()
                await self._loop.turn()
        finally:
            self._turns = ROUND

    # -- the keeper ----------------------------------------------------------------------------------------------------

    async def sleep(self, until: float | None) -> None:
        """Wait until `nudge` is called, or a time has come."""
        with anyio.move_on_after(None if until is None else max(0.0, until - time.monotonic())):
            await self._nudged.wait()
        self._nudged = anyio.Event()

    def nudge(self) -> bool:
        """End the sleep of the keeper; from any thread. Return False if the loop has ended."""
        if self._loop.is_current:
            self._wake()
            return True
        return self._loop.post(self._wake)

    def _wake(self) -> None:
        self._nudged.set()

    def end(self) -> None:
        """Do nothing: jobs are tasks that end by themselves."""
