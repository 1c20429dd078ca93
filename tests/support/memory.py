"""A peer in memory, for both kinds of shells: plays bytes, and keeps what it is sent."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import anyio.lowlevel


class Memory:
    """A transport source. Each of its connections plays the same."""

    def __init__(self, data: bytes = b"", *, until_input_ends: bool = False) -> None:
        self.data = data
        self.until_input_ends = until_input_ends
        self.written = b""
        self.input_ended = False

    def for_async(self) -> Any:
        return AsyncMemory(self)

    def for_sync(self) -> Any:
        return SyncMemory(self)


class _Memory:
    pid = None
    stderr_tail = b""

    def __init__(self, source: Memory) -> None:
        self.source = source
        self.left = source.data
        self.stopped = False

    def take(self) -> bytes | None:
        if self.stopped:
            return b""
        if self.source.until_input_ends and not self.source.input_ended:
            return None
        data, self.left = self.left[:1000], self.left[1000:]
        return data

    def abandon(self) -> None:
        self.stopped = True


class AsyncMemory(_Memory):
    async def start(self, plan: object) -> None:
        pass

    async def send(self, data: bytes) -> None:
        self.source.written += data

    async def end_input(self) -> None:
        self.source.input_ended = True

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while (data := self.take()) is None:
            await anyio.sleep(0.001)
        return data

    async def wait_exit(self) -> int | None:
        return 0

    async def stop(self, *, turn_open: bool) -> None:
        self.stopped = True


class SyncMemory(_Memory):
    def start(self, plan: object) -> None:
        pass

    def send(self, data: bytes) -> None:
        self.source.written += data

    def end_input(self) -> None:
        self.source.input_ended = True

    def receive(self, timeout: float | None = None) -> bytes | None:
        until = None if timeout is None else time.monotonic() + timeout
        while (data := self.take()) is None:
            if until is not None and time.monotonic() >= until:
                return None
            threading.Event().wait(0.001)
        return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        return 0

    def stop(self, *, turn_open: bool) -> None:
        self.stopped = True
