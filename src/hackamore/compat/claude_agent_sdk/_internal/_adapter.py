"""A transport of the official package as a transport of Hackamore: dicts and lines there, bytes here."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import anyio

from hackamore.compat.claude_agent_sdk._internal._task_compat import TaskHandle, spawn_detached
from hackamore.compat.claude_agent_sdk._internal.transport import Transport
from hackamore.transports.base import LaunchPlan


class TransportAdapter:
    """Reads a transport in a task of its own, because an iterator does not survive a cancelled `receive`.

    Attributes:
        failure: the exception that ended the iterator, or refused a connection or a frame; None without one.
    """

    pid: int | None = None
    stderr_tail: bytes = b""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.failure: Exception | None = None
        self._lines: deque[bytes] = deque()
        self._change = anyio.Event()
        self.sent = 0  # writes, refused ones included
        self._ended = False
        self._reader: TaskHandle | None = None
        self._stopped = False

    async def taken(self, before: int) -> None:
        """Wait until the transport has taken more than `before` writes, or is over; raise its exception if it refused."""
        while self.sent <= before and not self._ended and not self._stopped:
            await self._change.wait()
        if self.failure is not None and not self._ended:
            raise self.failure

    def _changed(self) -> None:
        self._change.set()
        self._change = anyio.Event()

    async def start(self, plan: LaunchPlan) -> None:
        """Connect; the reader starts with it."""
        try:
            await self.transport.connect()
        except Exception as error:
            self.failure = error
            raise
        self._reader = spawn_detached(self._read())

    async def _read(self) -> None:
        try:
            async for frame in self.transport.read_messages():
                self._lines.append(json.dumps(frame).encode() + b"\n")
                self._changed()
        except Exception as error:
            self.failure = error
        finally:
            self._ended = True
            self._changed()

    async def send(self, data: bytes) -> None:
        try:
            for line in data.split(b"\n")[:-1]:  # U+2028 is not a line end
                await self.transport.write(f"{line.decode()}\n")
        except Exception as error:
            self.failure = self.failure or error
            raise
        finally:
            self.sent += 1
            self._changed()

    async def end_input(self) -> None:
        """Close the input."""
        await self.transport.end_input()

    async def receive(self) -> bytes:
        while not self._lines and not self._ended:
            await self._change.wait()
        data = b"".join(self._lines)
        self._lines.clear()
        return data

    async def wait_exit(self) -> int | None:
        """Return the exit code that the exception of the iterator has; 0 without an exception."""
        code: Any = getattr(self.failure, "exit_code", 1 if self.failure is not None else 0)
        return code if isinstance(code, int) else 1

    async def stop(self, *, turn_open: bool) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._changed()
        with anyio.CancelScope(shield=True):
            if self._reader is not None:
                self._reader.cancel()
                await self._reader.wait()
            await self.transport.close()

    def abandon(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
