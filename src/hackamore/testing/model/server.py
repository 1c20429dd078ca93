"""The HTTP side of a scripted model: a server on the loopback interface, in threads of its own.

Plain sockets instead of `http.server`: answers break off in the middle, wait for a test to release them, and are all
ended immediately by `close()`, which returns when every thread and socket is gone. The rules: one thread accepts, one
thread serves each connection, nothing but `close()` and the peer ends them; a peer that goes away is normal and never
an error.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from hackamore.testing.model.events import encode_event, message_events, whole_message
from hackamore.testing.model.steps import Dropped, HTTPFailure, Reply, Stall, UntilInterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO

    from hackamore.testing.model.steps import PlainStep

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
_LONGEST_LINE = 65_536
_MOST_HEADERS = 200
# How often a silent connection is looked at to see whether the CLI hung up.
_HANGUP_LOOK = 0.02
_JOIN_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Static:
    """An answer that is not a message: a token count, a probe's answer."""

    status: int
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A step, and what is needed to carry it out for one request."""

    step: PlainStep | Static
    message_id: str
    asked_model: str
    stream: bool
    new_tool_id: Callable[[], str]


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One HTTP request, header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Respond: TypeAlias = "Callable[[RawRequest], Delivery]"


class ModelServer:
    """Serves what `respond` decides, from `start()` to `close()`; on a free port if `wanted` is 0."""

    def __init__(self, respond: Respond, wanted: int = 0) -> None:
        self._respond = respond
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._wanted = wanted
        self._busy = 0
        self.port: int = 0

    @property
    def url(self) -> str:
        """The address that the CLI talks to."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def idle(self) -> bool:
        """Whether every answer was sent."""
        with self._lock:
            return self._busy == 0

    def _count(self, one: int) -> None:
        with self._lock:
            self._busy += one

    def start(self) -> None:
        """Listen on a port of 127.0.0.1."""
        listener = socket.create_server(("127.0.0.1", self._wanted), backlog=128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._acceptor = threading.Thread(target=self._accept, args=(listener,), name="scripted-model", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """End every answer and connection immediately, and return when their threads are gone."""
        listener, acceptor = self._listener, self._acceptor
        if listener is None or acceptor is None:
            return
        self._listener = None
        self._closing.set()
        # A connection is the portable way to wake a thread that accepts.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        acceptor.join(_JOIN_TIMEOUT)
        listener.close()
        with self._lock:
            connections = list(self._connections.items())
            for _, connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        deadline = monotonic() + _JOIN_TIMEOUT
        for thread, _ in connections:
            thread.join(max(0.0, deadline - monotonic()))

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if self._closing.is_set():
                connection.close()
                return
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="scripted-model-connection", daemon=True
            )
            with self._lock:
                self._connections[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            # A peer that disconnects, or does not send HTTP, ends only its own connection.
            with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as reader:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while not self._closing.is_set():
                    request = read_request(reader)
                    if request is None:
                        return
                    self._count(1)
                    try:
                        if not self._deliver(connection, request, self._respond(request)):
                            return
                    finally:
                        self._count(-1)
        finally:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)
                connection.close()

    def _deliver(self, connection: socket.socket, request: RawRequest, delivery: Delivery) -> bool:
        """Carry out one step; return False if the connection is to be closed."""
        step = delivery.step
        match step:
            case Static():
                payload = json.dumps(step.body).encode()
                connection.sendall(_head(step.status, {"content-type": "application/json"}, len(payload)))
                if request.method != "HEAD":
                    connection.sendall(payload)
                return True
            case HTTPFailure():
                payload = step.payload()
                headers = {"content-type": "application/json", **step.all_headers()}
                connection.sendall(_head(step.status, headers, len(payload)) + payload)
                return True
            case Reply():
                return self._send_reply(connection, step, delivery)
            case Dropped():
                if step.after_events:
                    self._send_reply(connection, step.reply, delivery, until=step.after_events)
                return False
            case Stall():
                return self._stall(connection, request, step, delivery)

    def _stall(self, connection: socket.socket, request: RawRequest, stall: Stall, delivery: Delivery) -> bool:
        then = stall.then
        if isinstance(then, Reply) and stall.after_events:
            return self._send_reply(connection, then, delivery, pause=stall)
        if not self._wait(connection, stall) or then is None:
            return False
        following = Delivery(then, delivery.message_id, delivery.asked_model, delivery.stream, delivery.new_tool_id)
        return self._deliver(connection, request, following)

    def _wait(self, connection: socket.socket, stall: Stall) -> bool:
        """Return True when the stall is over, False if the peer or the server went first."""
        deadline = None if stall.seconds is None else monotonic() + stall.seconds
        stall.started.set()
        while True:
            look = _HANGUP_LOOK if deadline is None else max(0.0, min(_HANGUP_LOOK, deadline - monotonic()))
            if stall.released.wait(look):
                return not self._closing.is_set()
            if self._closing.is_set():
                return False
            if _hung_up(connection):
                if isinstance(stall, UntilInterrupted):
                    stall.given_up.set()
                return False
            if deadline is not None and monotonic() >= deadline:
                return True

    def _send_reply(
        self,
        connection: socket.socket,
        reply: Reply,
        delivery: Delivery,
        *,
        until: int | None = None,
        pause: Stall | None = None,
    ) -> bool:
        facts: dict[str, Any] = {
            "message_id": delivery.message_id,
            "asked_model": delivery.asked_model,
            "new_tool_id": delivery.new_tool_id,
        }
        if not delivery.stream:
            if pause is not None and not self._wait(connection, pause):
                return False
            payload = json.dumps(whole_message(reply, **facts)).encode()
            head = _head(200, {"content-type": "application/json", **reply.headers}, len(payload))
            connection.sendall(head + (payload if until is None else payload[: len(payload) // 2]))
            return until is None
        events = [encode_event(event) for event in message_events(reply, **facts)]
        # Events without a wait are sent together, the end of the answer with its last event: a CLI that had read the event and not the end
        # would already run a tool, and still take an interrupt for one of the answer.
        waiting = _head(200, {"content-type": "text/event-stream", **reply.headers}, None)
        for position, piece in _grouped(events[:until], reply.delay, pause.after_events if pause else 0):
            paused = pause if pause is not None and position == pause.after_events else None
            delayed = bool(position and reply.delay)
            if paused is not None or delayed:
                connection.sendall(waiting)
                waiting = b""
            if paused is not None and not self._wait(connection, paused):
                return False
            if delayed and self._closing.wait(reply.delay):
                return False
            if piece:
                waiting += b"%x\r\n%b\r\n" % (len(piece), piece)
        if pause is not None and not pause.started.is_set():
            connection.sendall(waiting)
            waiting = b""
            if not self._wait(connection, pause):
                return False
        connection.sendall(waiting + (b"0\r\n\r\n" if until is None else b""))
        return until is None


def _grouped(events: list[bytes], delay: float, pause_at: int) -> Iterator[tuple[int, bytes]]:
    """Yield (position, bytes) to send: event by event if there is a delay, else as few pieces as the pause allows."""
    if delay:
        yield from enumerate(events)
    elif pause_at:
        yield 0, b"".join(events[:pause_at])
        yield pause_at, b"".join(events[pause_at:])
    else:
        yield 0, b"".join(events)


def _hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _head(status: int, headers: Mapping[str, str], length: int | None) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append("transfer-encoding: chunked" if length is None else f"content-length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def read_request(reader: BinaryIO) -> RawRequest | None:
    """Return the next request, or None at the end of the connection (or of anything that is not HTTP)."""
    parts = reader.readline(_LONGEST_LINE).split()
    if len(parts) != 3:
        return None
    headers: dict[str, str] = {}
    for _ in range(_MOST_HEADERS):
        line = reader.readline(_LONGEST_LINE)
        if line in (b"\r\n", b"\n", b""):
            break
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _read_chunked(reader)
    else:
        body = reader.read(int(headers.get("content-length") or 0))
    return RawRequest(parts[0].decode("latin-1"), parts[1].decode("latin-1"), headers, body)


def _read_chunked(reader: BinaryIO) -> bytes:
    pieces = []
    while size := int(reader.readline(_LONGEST_LINE).split(b";")[0] or b"0", 16):
        pieces.append(reader.read(size))
        reader.readline(_LONGEST_LINE)
    while reader.readline(_LONGEST_LINE) not in (b"\r\n", b"\n", b""):
        pass
    return b"".join(pieces)
