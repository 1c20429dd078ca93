"""A server of pages on the loopback interface. Connections and times are limited.

A client that sends slowly loses its connection when another one needs it, and in any case after a while.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader
from typing import TYPE_CHECKING, Any

from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedIOBase

    from _typeshed import WriteableBuffer

_MOST_CONNECTIONS = 16
REQUEST_SECONDS = 10.0
"""How long a whole request may take to arrive, and an answer to be taken."""


class LoopbackServer(ThreadingHTTPServer):
    """Serves pages at a port of 127.0.0.1, 0 for a free one; OSError if it is taken. Requests name one of `hosts`."""

    request_queue_size = _MOST_CONNECTIONS
    allow_reuse_address = True

    def __init__(self, handler: type[LoopbackHandler], port: int = 0) -> None:
        self._lock = threading.Condition()
        self._open: dict[socket.socket, bool] = {}  # the connections, and whether they have sent a whole request
        super().__init__(("127.0.0.1", port), handler)
        self.port: int = int(self.server_address[1])
        self.hosts: frozenset[str] = frozenset((f"127.0.0.1:{self.port}", f"localhost:{self.port}"))
        self.origins: frozenset[str] = frozenset(f"http://{host}" for host in self.hosts)

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
            args = (request, client_address)
            threading.Thread(target=self.process_request_thread, args=args, name="hackamore-page", daemon=True).start()

    def server_close(self) -> None:
        """Close the port and all connections, and wait for their requests: what they look at may be closed next."""
        super().server_close()
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._lock.wait_for(lambda: not self._open, REQUEST_SECONDS)

    def asked(self, connection: socket.socket) -> None:
        """Mark a connection that has sent a whole request."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)
                self._lock.notify_all()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Log an error of a request. Those of the connection are none: a browser that went away."""
        error = sys.exception()
        if not isinstance(error, OSError):
            logger.error("a request for a page failed: %s", type(error).__name__, exc_info=error)


class _Arriving(socket.SocketIO):
    """The bytes that a connection sends, for a limited time altogether: a timeout of a socket begins again with each byte."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, "r")
        self._connection = connection
        self._until = time.monotonic() + REQUEST_SECONDS

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._connection.settimeout(max(0.001, self._until - time.monotonic()))
        return super().readinto(buffer)


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers a request."""

    server: LoopbackServer
    rfile: BufferedIOBase
    server_version = "hackamore"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = BufferedReader(_Arriving(self.connection))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: a token is part of requests."""

    def arrived(self) -> None:
        """Mark the whole request as arrived: its answer has as much time again."""
        self.server.asked(self.connection)
        self.connection.settimeout(REQUEST_SECONDS)

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
