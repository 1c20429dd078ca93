"""The transports of a replay: they wait, and `Player` decides."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from bridle.launch.plan import LaunchPlan
    from bridle.testing.cassettes.player import Player

__all__ = ["ReplayAsync", "ReplaySync"]

_POLL_SECONDS = 1.0
"""A stop may come from another event loop, whose signals do not cross."""


class _Replay:
    def __init__(self, player: Player) -> None:
        self.player = player

    @property
    def pid(self) -> int | None:
        """There is no process."""
        return None

    @property
    def stderr_tail(self) -> bytes:
        """The recorded end of stderr."""
        return self.player.stderr_tail

    def abandon(self) -> None:
        """End it."""
        self.player.stopped()


class ReplayAsync(_Replay):
    """A replayed session, for asyncio and trio."""

    def __init__(self, player: Player) -> None:
        super().__init__(player)
        self._event: anyio.Event | None = None
        self._thread = 0
        player.changed = self._wake

    def _wake(self) -> None:
        if self._event is not None and self._thread == threading.get_ident():
            self._event.set()

    async def start(self, plan: LaunchPlan) -> None:
        """Find the recorded session."""
        await anyio.lowlevel.checkpoint()
        self.player.begin(plan)

    async def send(self, data: bytes) -> None:
        """Compare what the host sends."""
        self.player.sent(data)
        await anyio.lowlevel.cancel_shielded_checkpoint()

    async def end_input(self) -> None:
        """Take that the host sends nothing more."""
        self.player.input_ended()
        await anyio.lowlevel.cancel_shielded_checkpoint()

    async def receive(self) -> bytes:
        """Return what the CLI sent next."""
        await anyio.lowlevel.checkpoint()
        while True:
            data, seconds = self.player.next(time.monotonic())
            if data is not None:
                return data
            self._event, self._thread = anyio.Event(), threading.get_ident()
            with anyio.move_on_after(_POLL_SECONDS if seconds is None else min(seconds, _POLL_SECONDS)):
                await self._event.wait()

    async def wait_exit(self) -> int | None:
        """Return the recorded exit status."""
        await anyio.lowlevel.checkpoint()
        self.player.tell_stderr()
        return self.player.exit_code

    async def stop(self, *, turn_open: bool) -> None:
        """End it."""
        self.player.stopped()
        self.player.tell_stderr()
        await anyio.lowlevel.cancel_shielded_checkpoint()


class ReplaySync(_Replay):
    """A replayed session, for `bridle.sync`."""

    def __init__(self, player: Player) -> None:
        super().__init__(player)
        self._event = threading.Event()
        player.changed = self._event.set

    def start(self, plan: LaunchPlan) -> None:
        """Find the recorded session."""
        self.player.begin(plan)

    def send(self, data: bytes) -> None:
        """Compare what the host sends."""
        self.player.sent(data)

    def end_input(self) -> None:
        """Take that the host sends nothing more."""
        self.player.input_ended()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return what the CLI sent next."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self._event.clear()
            now = time.monotonic()
            data, seconds = self.player.next(now)
            if data is not None:
                return data
            if until is not None:
                if now >= until:
                    return None
                seconds = until - now if seconds is None else min(seconds, until - now)
            self._event.wait(seconds)

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Return the recorded exit status."""
        self.player.tell_stderr()
        code = self.player.exit_code
        if code is None and timeout and not self.player.over:
            self._event.wait(timeout)  # there was none, and it was waited for
        return code

    def stop(self, *, turn_open: bool) -> None:
        """End it."""
        self.player.stopped()
        self.player.tell_stderr()
