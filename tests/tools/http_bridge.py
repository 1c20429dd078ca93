"""Streamable HTTP in front of a program with an MCP server on its standard streams: one program for each session of a client.

It copies messages and looks at ids alone, so that a client sees the program's own words. For tests: it checks no origin.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION = "mcp-session-id"


class Program:
    """One run of the program."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = threading.Lock()
        self._open: dict[Any, SimpleQueue[bytes]] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def write(self, body: bytes) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(body.replace(b"\n", b" ") + b"\n")
            self._process.stdin.flush()

    def answers(self, body: bytes, identifier: Any) -> Iterator[bytes]:
        """Yield the notifications until the answer of a request, and the answer."""
        arrived = self._open[identifier] = SimpleQueue[bytes]()
        self.write(body)
        while True:
            line = arrived.get()
            if not line:
                return
            yield line
            if json.loads(line).get("id") == identifier:
                del self._open[identifier]
                return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            identifier = json.loads(line).get("id")
            # A notification does not say which request it belongs to, and clients know their tokens.
            for arrived in [self._open[identifier]] if identifier in self._open else tuple(self._open.values()):
                arrived.put(line.strip())
        for arrived in tuple(self._open.values()):
            arrived.put(b"")

    def end(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        code = self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        return code


@contextmanager
def bridge(command: list[str]) -> Iterator[tuple[str, list[int]]]:
    """Serve on a port of this machine; yield the address, and a list that gets the exit codes of the programs at the end."""
    programs: dict[str, Program] = {}
    codes: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            message = json.loads(body)
            session = self.headers.get(SESSION)
            if message.get("method") == "initialize":
                session = f"session-{len(programs) + 1}"
                programs[session] = Program(command)
            if session is None or session not in programs:
                self._say(404 if session else 400)
            elif "id" not in message or "method" not in message:
                programs[session].write(body)
                self._say(202)
            else:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header(SESSION, session)
                self.send_header("connection", "close")
                self.end_headers()
                for line in programs[session].answers(body, message["id"]):
                    self.wfile.write(b"event: message\ndata: " + line + b"\n\n")
                    self.wfile.flush()
                self.close_connection = True

        def do_GET(self) -> None:
            self._say(405)

        do_DELETE = do_GET

        def _say(self, status: int) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            if not isinstance(sys.exc_info()[1], ConnectionError):  # clients leave as they like
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    with Server(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", codes
        finally:
            server.shutdown()
            serving.join()
            codes += [program.end() for program in programs.values()]
