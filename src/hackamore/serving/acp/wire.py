"""The messages of a connection: JSON-RPC on the standard streams of a program, or on a WebSocket.

The package `agent-client-protocol` gets only messages that it can answer: anything else has its error here.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

from hackamore.runtime.event_loops import Loop
from hackamore.runtime.stdio import Pipes

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a message; a longer one is dropped, and answered with an error."""
_WAITING = 64  # answers that may wait for a slow client before no further request is read
_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603


class Wire:
    """Messages in both directions, each written before the next. `ended` is set when the client is gone."""

    def __init__(self) -> None:
        self.ended: asyncio.Event = asyncio.Event()
        self._writing = asyncio.Lock()
        self._waiting = self._open = 0
        self._room, self._quiet = asyncio.Event(), asyncio.Event()
        self._count(0, 0)

    def _count(self, waiting: int, opened: int) -> None:
        self._waiting += waiting
        self._open += opened
        (self._room.set if self._waiting < _WAITING else self._room.clear)()
        (self._quiet.clear if self._open > 0 else self._quiet.set)()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; return when the client can read it. Raise ConnectionError if it is gone."""
        self._count(1, 0)
        try:
            async with self._writing:
                await self._write(encode(message))
        finally:
            self._count(-1, -("method" not in message))

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message that the package can handle; None when the client is gone."""
        while True:
            await self._room.wait()
            data = await self._read()
            if data is None:
                self.ended.set()
                return None
            message, problem = decode(data)
            if problem is not None:
                self._count(0, 1)
                try:
                    await self.send(problem)
                except ConnectionError:
                    self.ended.set()
                    return None
            elif message is not None:
                self._count(0, "id" in message and "method" in message)
                return message

    async def answered(self) -> None:
        """Wait until all requests have an answer."""
        await self._quiet.wait()

    async def close(self) -> None:
        """Stop reading and writing."""
        self.ended.set()

    async def _read(self) -> bytes | None:
        """Return the next message as bytes: empty for one that was too long; None at the end."""
        raise NotImplementedError

    async def _write(self, data: bytes) -> None:
        raise NotImplementedError


class StdioWire(Wire):
    """Lines on two descriptors, which this closes. They stay blocking: a thread moves the bytes."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._too_long = self._over = self._lost = False
        self._news, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._pipes = Pipes(source, target, Loop(), received=self._take, written=self._idle.set, lost=self._lose)

    async def close(self) -> None:
        """Stop the thread."""
        self.ended.set()
        self._pipes.close()

    def _take(self, data: bytes) -> None:
        if not data:
            self._over = True
            self.ended.set()
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._rest += line
            dropped = self._too_long or len(self._rest) > LONGEST_LINE
            self._lines.append(b"" if dropped else bytes(self._rest) or b" ")
            self._too_long = False
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > LONGEST_LINE:
            self._too_long = True
            self._rest.clear()
        self._news.set()

    def _lose(self) -> None:
        self._lost = self._over = True
        for event in (self.ended, self._idle, self._news):
            event.set()

    async def _read(self) -> bytes | None:
        while not self._lines:
            if self._over:
                return None
            self._news.clear()
            self._pipes.read_on()
            await self._news.wait()
        return self._lines.popleft()

    async def _write(self, data: bytes) -> None:
        await self._idle.wait()  # a cancelled write may still be under way
        if not self._lost:
            self._idle.clear()
            self._pipes.write(data)
            await self._idle.wait()
        if self._lost:
            raise ConnectionError("The client is gone.")


class SocketWire(Wire):
    """Text frames of an ASGI WebSocket that was accepted."""

    def __init__(self, receive: Any, send: Any) -> None:
        super().__init__()
        self._take, self._give = receive, send

    async def _read(self) -> bytes | None:
        event = await self._take()
        if event["type"] == "websocket.disconnect":
            return None
        data: bytes = (event.get("text") or "").encode("utf-8", "surrogatepass") or event.get("bytes") or b" "
        return b"" if len(data) > LONGEST_LINE else data

    async def _write(self, data: bytes) -> None:
        try:
            await self._give({"type": "websocket.send", "text": data.decode().rstrip("\n")})
        except (OSError, RuntimeError) as error:  # servers raise either after a disconnect
            self.ended.set()
            raise ConnectionError("The client is gone.") from error


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as one line. Errors of pydantic lose the parts that repeat the request, or that JSON cannot hold."""
    data = message["error"].get("data") if isinstance(message.get("error"), dict) else None
    for each in (data.get("errors") or ()) if isinstance(data, dict) else ():
        for name in ("input", "ctx", "url"):
            each.pop(name, None)
    try:
        text = json.dumps(message, separators=(",", ":"), default=str, allow_nan=False)
    except (ValueError, RecursionError):
        text = json.dumps(_error(message.get("id"), _INTERNAL_ERROR, "The message cannot be written as JSON."))
    return f"{text}\n".encode()


def decode(data: bytes) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return a message, or the error that answers it; neither of them for an empty line, and for a response without an id."""
    if data.isspace():
        return None, None
    try:
        message = json.loads(data, parse_constant=int)  # NaN is not JSON: it raises
    except (ValueError, RecursionError):
        return None, _error(None, _PARSE_ERROR, f"The message is not JSON, or longer than {LONGEST_LINE:,} bytes.")
    if not isinstance(message, dict):
        return None, _error(None, _INVALID_REQUEST, "Send one JSON object a line. Batches are not supported.")
    identifier = message.get("id")
    known = isinstance(identifier, (str, int)) and not isinstance(identifier, bool)
    if "method" not in message and ("result" in message or "error" in message):
        if not isinstance(message.get("error", {}), dict):
            message["error"] = {"code": _INTERNAL_ERROR, "message": "The client sent a malformed error."}
        return (message if known else None), None
    if ("id" in message and not known) or not isinstance(message.get("method"), str):
        about = "`method` must be a string, and `id` a string or an integer."
        return None, _error(identifier if known else None, _INVALID_REQUEST, about)
    if isinstance(message.get("params"), dict):
        message["params"].pop("_meta", None)  # the package lets names in it replace arguments that were checked
    return message, None


def _error(identifier: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": text}}
