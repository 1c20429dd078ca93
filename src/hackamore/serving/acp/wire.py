"""The messages of a connection: JSON-RPC on the standard streams of a program, or on a WebSocket.

The package `agent-client-protocol` takes messages from here. It gets only those that it can answer: anything else has its error here.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any

from hackamore.runtime.event_loops import Loop
from hackamore.runtime.stdio import Pipes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a message; a longer one is dropped, and answered with an error."""
_WAITING = 64
"""Answers that may wait for a slow client before no further request is read."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603


class Wire:
    """Messages in both directions, each written before the next.

    Attributes:
        ended: set when the client is gone.
        open: requests of the client without an answer.
    """

    def __init__(self) -> None:
        self.ended: asyncio.Event = asyncio.Event()
        self.open: int = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._writing = asyncio.Lock()
        self._waiting = 0
        self._room = asyncio.Event()
        self._room.set()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; return when the client can read it.

        Raises:
            ConnectionError: the client is gone.
        """
        is_answer = "method" not in message
        self._waiting += 1
        if self._waiting >= _WAITING:
            self._room.clear()
        try:
            async with self._writing:
                if self.ended.is_set() and not self._drains():
                    raise ConnectionError("The client is gone.")
                await self._write(encode(message))
        finally:
            self._waiting -= 1
            if is_answer:
                self._count(-1)
            if self._waiting < _WAITING:
                self._room.set()

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
                self._count(1)
                try:
                    await self.send(problem)
                except ConnectionError:
                    self.ended.set()
                    return None
            elif message is not None:
                self._count("id" in message and "method" in message)
                return message

    async def close(self) -> None:
        """Stop reading and writing."""
        self.ended.set()

    async def answered(self) -> None:
        """Wait until all requests have an answer."""
        await self._quiet.wait()

    def _count(self, more: int) -> None:
        self.open += more
        (self._quiet.clear if self.open > 0 else self._quiet.set)()

    def _drains(self) -> bool:
        """Return whether a client that sends nothing more may still read."""
        return False

    async def _read(self) -> bytes | None:
        """Return the next message as bytes: empty for one that was too long; None at the end."""
        raise NotImplementedError

    async def _write(self, data: bytes) -> None:
        raise NotImplementedError


class StdioWire(Wire):
    """Lines on two descriptors, which this closes. The descriptors stay blocking: a thread moves the bytes."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._too_long = self._over = self._lost = False
        self._news, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._pipes = Pipes(source, target, Loop(), received=self._received, written=self._idle.set, lost=self._lose)

    async def close(self) -> None:
        """Stop the thread. Output that is written already can still be read."""
        await super().close()
        self._pipes.close()

    def _drains(self) -> bool:
        return not self._lost

    def _received(self, data: bytes) -> None:
        if not data:
            self._over = True
            self.ended.set()
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._rest += line
            self._lines.append(
                b"" if self._too_long or len(self._rest) > LONGEST_LINE else bytes(self._rest).strip() or b" "
            )
            self._too_long = False
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > LONGEST_LINE:
            self._too_long = True
            self._rest.clear()
        self._news.set()

    def _lose(self) -> None:
        self._lost = self._over = True
        self.ended.set()
        self._idle.set()
        self._news.set()

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
        if self._lost:
            raise ConnectionError("The client is gone.")
        self._idle.clear()
        self._pipes.write(data)
        await self._idle.wait()
        if self._lost:
            raise ConnectionError("The client is gone.")


class SocketWire(Wire):
    """Text frames of an ASGI WebSocket that was accepted."""

    def __init__(
        self,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._take, self._give = receive, send

    async def _read(self) -> bytes | None:
        while True:
            event = await self._take()
            if event["type"] == "websocket.disconnect":
                return None
            if event["type"] == "websocket.receive":
                data: bytes = (event.get("text") or "").encode("utf-8", "surrogatepass") or event.get("bytes") or b" "
                return b"" if len(data) > LONGEST_LINE else data

    async def _write(self, data: bytes) -> None:
        try:
            await self._give({"type": "websocket.send", "text": data.decode().rstrip("\n")})
        except (OSError, RuntimeError) as error:  # servers raise either after a disconnect
            self.ended.set()
            raise ConnectionError("The client is gone.") from error


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as one line. A part that JSON cannot hold becomes text, or the answer an error."""
    error = message.get("error")
    if isinstance(error, dict) and isinstance(error.get("data"), dict):
        _shorten(error["data"])
    try:
        text = json.dumps(message, separators=(",", ":"), default=str, allow_nan=False)
    except (ValueError, RecursionError) as problem:
        if "id" not in message or "method" in message:
            raise ConnectionError(f"The message cannot be sent: {problem}") from problem
        text = json.dumps(_error(message["id"], INTERNAL_ERROR, "The answer cannot be written as JSON."))
    return f"{text}\n".encode()


def _shorten(data: dict[str, Any]) -> None:
    """Take out of the errors of pydantic what repeats the whole request, or is not JSON."""
    for each in data.get("errors") or ():
        if isinstance(each, dict):
            for name in ("input", "ctx", "url"):
                each.pop(name, None)


def decode(data: bytes) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return a message, or the error that answers it; neither of them for an empty line, and for a response that is malformed."""
    if data.isspace():
        return None, None
    if not data:
        return None, _error(None, PARSE_ERROR, f"The message is longer than {LONGEST_LINE:,} bytes.")
    try:
        message = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None, _error(None, PARSE_ERROR, "Parse error")
    if isinstance(message, list):
        return None, _error(None, INVALID_REQUEST, "Batches are not supported: send one message a line.")
    if not isinstance(message, dict):
        return None, _error(None, INVALID_REQUEST, "A message must be a JSON object.")
    identifier = message.get("id")
    known = isinstance(identifier, (str, int)) and not isinstance(identifier, bool)
    if "method" not in message:
        # A response. One without a usable id answers nothing.
        wrong = "error" in message and not isinstance(message["error"], dict)
        if wrong:
            message["error"] = {"code": INTERNAL_ERROR, "message": "The client sent a malformed error."}
        if "result" in message or "error" in message:
            return (message if known else None), None
        return None, _error(identifier if known else None, INVALID_REQUEST, "The message has no `method`.")
    if "id" in message and not known:
        return None, _error(None, INVALID_REQUEST, "`id` must be a string or an integer.")
    if not isinstance(message["method"], str):
        return None, _error(identifier, INVALID_REQUEST, "`method` must be a string.")
    if isinstance(message.get("params"), dict):
        # The package would let names in it replace arguments that were checked.
        message["params"].pop("_meta", None)
    return message, None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _error(identifier: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": text}}
