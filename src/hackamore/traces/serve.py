"""Serves the page of a trace that still grows, on the loopback interface.

The address has a random token, which every request must have. The `Host` header must name the loopback address, so that a web page that
points a name of its own at 127.0.0.1 reaches nothing. Requests from other origins are refused. Answers, connections and times are limited:
a client that sends slowly loses its connection when another one needs it, and in any case after a while.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from hackamore.runtime.log import logger
from hackamore.traces.page import index_of, page_headers, page_pieces
from hackamore.traces.reading import GrowingTrace

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from hackamore.traces.reading import Trace

_MOST_ITEMS = 5_000
_MOST_LINES = 50_000
_MOST_CONNECTIONS = 16
REQUEST_SECONDS = 10.0
"""How long a whole request may take to arrive, and an answer to be taken."""


class Live:
    """A growing trace, and the moment at which each of its items changed last."""

    def __init__(self, source: GrowingTrace) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._epoch = 0
        self._clock = 0
        self._changed: dict[int, int] = {}
        self.error: str = ""

    def _update(self) -> None:
        try:
            self._source.update()
            self.error = ""
        except OSError as error:
            self.error = f"the file cannot be read: {error.strerror or error}"
        if self._epoch != self._source.epoch:
            self._epoch = self._source.epoch
            self._changed = {}
        builder = self._source.trace.builder
        for number in sorted(builder.changed):
            self._clock += 1
            self._changed.pop(number, None)
            self._changed[number] = self._clock  # in the order of their changes
        builder.changed.clear()
        for session in builder.sessions:
            session.live = True

    def index(self, epoch: int, since: int, lines: int, samples: int) -> bytes:
        """Return everything that is new, as JSON; there is a limit, and `more` tells that it was reached.

        Args:
            epoch: the epoch of the caller's data; another one counts from the beginning.
            since: the version of it.
            lines: how many lines the caller knows.
            samples: how many samples the caller keeps.
        """
        with self._lock:
            self._update()
            trace = self._source.trace
            builder = trace.builder
            if epoch != self._epoch:
                since = lines = samples = 0
            numbers: list[int] = []
            version = since
            more = False
            for number, moment in reversed(self._changed.items()):
                if moment <= since:
                    break
                numbers.append(number)
            numbers.reverse()
            if len(numbers) > _MOST_ITEMS:
                numbers, more = numbers[:_MOST_ITEMS], True
            if numbers:
                version = self._changed[numbers[-1]]
            end = min(len(builder.lines), lines + _MOST_LINES)
            more = more or end < len(builder.lines)
            samples = min(samples, len(builder.samples))
            answer = {
                **index_of(trace),
                "epoch": self._epoch,
                "version": version,
                "more": more,
                "problems": [*builder.problems, *([self.error] if self.error else [])],
                "samples_from": samples,
                "numbers": numbers,
                "items": [builder.items[number] for number in numbers],
                "samples": builder.samples[samples:],
                "table": builder.lines.table[4 * lines : 4 * end],
            }
            return msgspec.json.encode(answer)

    def chunk(self, number: int) -> bytes | None:
        """Return a chunk of lines, compressed; None for one that does not exist."""
        with self._lock:
            return self._source.trace.builder.lines.chunk(number)


class PageServer(ThreadingHTTPServer):
    """Serves one page.

    Args:
        source: a file that grows, or a trace that was read.
        port: the port; 0 for a free one.

    Raises:
        OSError: the port is taken.

    Attributes:
        url: the address, with its token.
    """

    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS
    allow_reuse_address = True

    def __init__(self, source: GrowingTrace | Trace, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        grows = isinstance(source, GrowingTrace)
        trace = source.trace if isinstance(source, GrowingTrace) else source
        self.live: Live | None = Live(source) if isinstance(source, GrowingTrace) else None
        self.page: bytes = b"".join(page_pieces(None if grows else trace, trace.title, live=grows))
        self.token: str = secrets.token_urlsafe(24)
        self.port: int = int(self.server_address[1])
        self.url: str = f"http://127.0.0.1:{self.port}/{self.token}/"
        self._lock = threading.Lock()
        self._open: dict[socket.socket, bool] = {}  # the connections, and whether they have sent a whole request

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread. If there are too many, close the oldest one without a request, or this one."""
        with self._lock:
            closed: Any = None
            if len(self._open) >= _MOST_CONNECTIONS:
                closed = next((one for one, asked in self._open.items() if not asked), request)
                self._open.pop(closed, None)
                with suppress(OSError):
                    closed.shutdown(socket.SHUT_RDWR)  # its thread ends
            if closed is not request:
                self._open[request] = False
        if closed is request:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def asked(self, connection: socket.socket) -> None:
        """Mark a connection that has sent a whole request."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Log an error of a request. Those of the connection are none: a browser that went away."""
        error = sys.exception()
        if not isinstance(error, OSError):
            logger.error("a request for the trace page failed: %s", type(error).__name__, exc_info=error)


class _Arriving(socket.SocketIO):
    """The bytes that a connection sends, for a limited time altogether: a timeout of a socket begins again with each byte."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, "r")
        self._connection = connection
        self._until = time.monotonic() + REQUEST_SECONDS

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._connection.settimeout(max(0.001, self._until - time.monotonic()))
        return super().readinto(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "hackamore"
    sys_version = ""

    def setup(self) -> None:
        """Read with a limit of time."""
        super().setup()
        self.rfile.close()
        self.rfile = BufferedReader(_Arriving(self.connection))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: the token is part of each request."""

    def do_GET(self) -> None:
        self.server.asked(self.connection)
        self.connection.settimeout(REQUEST_SECONDS)
        port = self.server.port
        allowed = {f"127.0.0.1:{port}", f"localhost:{port}"}
        try:
            parts = urlsplit(self.path)
            given = parse_qs(parts.query, max_num_fields=8)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "The target of the request is not a URL of this server.")
            return
        named = self.headers.get_all("Host", [])
        if named not in [[host] for host in allowed] or parts.netloc not in {"", *allowed}:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "The Host header must name the loopback address.")
            return
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if (origin is not None and origin not in {f"http://{host}" for host in allowed}) or site == "cross-site":
            self._refuse(HTTPStatus.FORBIDDEN, "Requests of other sites are refused.")
            return
        token, *rest = parts.path.removeprefix("/").split("/", 2)
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            self._refuse(HTTPStatus.NOT_FOUND, "Not found. Use the address that `hackamore trace inspect` printed.")
            return
        live = self.server.live
        match rest:
            case [""]:
                self._send(self.server.page, "text/html; charset=utf-8")
            case ["index"] if live is not None:
                numbers = [_number(given, name) for name in ("epoch", "since", "lines", "samples")]
                self._send(live.index(*numbers), "application/json")
            case ["chunk", number] if live is not None and number.isascii() and number.isdigit() and len(number) < 9:
                chunk = live.chunk(int(number))
                if chunk is None:
                    self._refuse(HTTPStatus.NOT_FOUND, "Not found.")
                else:
                    self._send(chunk, "application/octet-stream")
            case _:
                self._refuse(HTTPStatus.NOT_FOUND, "Not found.")

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._send(f"{text}\n".encode(), "text/plain; charset=utf-8", status)

    def _send(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in page_headers().items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _number(given: dict[str, list[str]], name: str) -> int:
    text = given.get(name, ["0"])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
