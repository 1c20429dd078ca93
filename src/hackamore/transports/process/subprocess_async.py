"""A local child process for asyncio and trio.

It holds no task, no scope and no loop between calls, so a stream may be opened in one task and closed in another. Waiting is
`wait_readable` on the child's one descriptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from hackamore.runtime.event_loops import call_when_readable, wait_readable
from hackamore.runtime.threads import Call, Wakeup
from hackamore.transports.process.child import ChildProcess
from hackamore.transports.process.spawn import spawn_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.launch.plan import LaunchPlan
    from hackamore.transports.process.child import Child

_POLL_SECONDS = 0.02
_LARGE_READ = 16_384
"""After a read of this size the next one is tried without a wait; after a smaller one that would be in vain."""


class AsyncChildProcess(ChildProcess):
    """Runs the CLI as a child process; an `AsyncPushTransport`. Arguments: those of `ChildProcess`."""

    _starting: Call[None] | None = None
    _started_ahead = False
    _more_is_likely = False

    async def start(self, plan: LaunchPlan) -> None:
        """Start the process, off the event loop: a fork of a large host takes long enough to be felt by an event loop."""
        if self._started_ahead:
            return
        # Called again after a cancellation, it continues the start that is under way.
        if self._starting is None:
            try:
                self._starting = Call(lambda: self._spawn(plan))
            except (OSError, RuntimeError) as error:  # no descriptor or no thread is available
                raise spawn_error(plan.argv[0], plan.cwd, error) from error
        with anyio.CancelScope(shield=True):
            await self._starting.wait()

    def start_ahead(self, plan: LaunchPlan) -> None:
        """Start the process in a thread that prepared it, unless it was stopped; `start` then returns immediately."""
        self._spawn(plan, unless_stopped=True)
        self._started_ahead = self._child is not None

    async def send(self, data: bytes) -> None:
        """Queue `data` for stdin; reading writes the part that the pipe does not take immediately."""
        self._started().queue(data)
        await anyio.lowlevel.checkpoint()

    async def end_input(self) -> None:
        self._started().end_input()
        await anyio.lowlevel.checkpoint()

    async def receive(self) -> bytes:
        """Return the next bytes of stdout; b"" at their end, or half a second after the exit."""
        child = self._started()
        # One turn of the loop for each read, not for each frame: other tasks must get their time. Before the read, never after it:
        # a cancellation here must not throw away what was taken. A wait is also such a turn.
        if self._more_is_likely:
            await anyio.lowlevel.checkpoint()
        else:
            await self._wait(child)
        data = child.take()
        while data is None:
            await self._wait(child)
            data = child.take()
        self._more_is_likely = not data or len(data) >= _LARGE_READ  # the end is there again without a wait
        return data

    async def push_to(self, take: Callable[[bytes], bool]) -> bytes | None:
        """Call `take` with output as it arrives, from the event loop itself: no task is woken for it.

        Args:
            take: gets the bytes; returns whether to continue. It must not wait.

        Returns:
            b"" at the end of the output; None after `take` returned False, or if stdin broke.
        """
        child = self._started()
        while True:
            # A state that was seen once, the end above all, does not make the descriptor readable again.
            waits = not self._more_is_likely and child.wait_limit() is None
            descriptor = child.wait_descriptor() if waits else None
            if descriptor is not None:
                try:
                    if await call_when_readable(descriptor, lambda: self._hand_over(child, take)):
                        return None
                finally:
                    child.waited()
            data = await self.receive()  # it has ended, or exited, or is being stopped
            if not data:
                return data
            if not take(data):
                return None

    def _hand_over(self, child: Child, take: Callable[[bytes], bool]) -> bool | None:
        """Hand over the available output; return None to continue, True to return to the caller, False at the end."""
        data = child.take()
        if data is None:
            child.serve()
            data = child.take()
        if data:
            return None if take(data) else True
        if data is None and not child.stopping and child.wait_limit() is None:
            return True if self._has_just_broken() else None
        self._more_is_likely = True  # the next call must not wait: the end is there again
        return False

    async def wait_exit(self) -> int | None:
        """Wait for the exit status; None if the process is being stopped, or was stopped before it was started."""
        if self._child is None and self._stopped_early:
            return None
        child = self._started()
        while not child.poll_exit() and not child.stopping:
            await self._wait(child)
        return child.exit_code

    async def _wait(self, child: Child) -> None:
        limit = child.wait_limit()
        descriptor = child.wait_descriptor()
        if descriptor is None:
            return
        try:
            if limit is None:
                await wait_readable(descriptor)
            else:
                with anyio.move_on_after(limit):
                    await wait_readable(descriptor)
        finally:
            child.waited()

    async def stop(self, *, turn_open: bool) -> None:
        child = self._stop_early()
        if child is None:
            return
        child.stop(turn_open=turn_open, here=True)
        if child.done.is_set():
            return
        left = self.seconds_left()
        until = float("inf") if left is None else anyio.current_time() + left
        try:
            wakeup = Wakeup()
        except OSError:  # no descriptor is left: the end is looked for from time to time
            with anyio.CancelScope(shield=True, deadline=until):
                while not child.done.is_set():  # noqa: ASYNC110 - there is nothing left to be woken by
                    await anyio.sleep(_POLL_SECONDS)
            return
        try:
            child.add_done_wakeup(wakeup)
            cancelled: BaseException | None = None
            with anyio.CancelScope(shield=True, deadline=until) as scope:
                while not (child.done.is_set() or scope.cancel_called):
                    try:
                        await wait_readable(wakeup.fileno())
                    except anyio.get_cancelled_exc_class() as error:
                        if scope.cancel_called:
                            raise
                        cancelled = error  # a scope does not shield from asyncio's `Task.cancel`; the time is bounded
            if cancelled is not None:
                raise cancelled
        finally:
            child.remove_done_wakeup(wakeup)
            wakeup.close()
