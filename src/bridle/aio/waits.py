"""What a query and a start wait for on an event loop: the launch plan, output, the exit. `bridle.sync.waits` has the same for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from bridle.transports.process.prepare import child_settings
from bridle.transports.process.subprocess_async import AsyncChildProcess
from bridle.waiting.offload import Call

if TYPE_CHECKING:
    from bridle.launch import LaunchPlan
    from bridle.options.options import Options
    from bridle.transports.base import AsyncTransport
    from bridle.transports.process.prepare import Preparation

__all__ = ["Preparing", "checkpoint", "child_process", "is_cancellation", "receive", "wait_exit"]


class Preparing:
    """A preparation that may be cancelled while it is awaited, and awaited again."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._call: Call[LaunchPlan] | None = None

    async def plan(self) -> LaunchPlan:
        """Return the launch plan. The next call continues one that was cancelled.

        Raises:
            BridleError: as `Preparation.run`.
        """
        if not self._preparation.may_block:
            return self._preparation.run()
        if self._call is None:
            self._call = Call(self._preparation.run)
        return await self._call.wait()


def child_process(options: Options) -> AsyncChildProcess:
    """Return the local child process that the options ask for."""
    return AsyncChildProcess(**child_settings(options))


async def receive(transport: AsyncTransport, seconds: float | None) -> bytes | None:
    """Return the next output, b"" at its end; None after `seconds`."""
    if seconds is None:
        return await transport.receive()
    with anyio.move_on_after(seconds):
        return await transport.receive()
    return None


async def wait_exit(transport: AsyncTransport, seconds: float | None) -> tuple[bool, int | None]:
    """Wait `seconds` at most; return whether the process has exited, and its exit status, if there is one."""
    with anyio.move_on_after(seconds):
        return True, await transport.wait_exit()
    return False, None


async def checkpoint() -> None:
    """Let other tasks run, and take a cancellation."""
    await anyio.lowlevel.checkpoint()


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the task."""
    return isinstance(error, anyio.get_cancelled_exc_class())
