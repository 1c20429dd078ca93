"""A receiver of webhooks on this machine, and a program that delivers."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from standardwebhooks import Webhook as Checker

from hackamore import Approvals
from hackamore.approvals import Webhook
from tests.support.patience import patience
from tests.support.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw9r8GKYqrTwg="


class Received(NamedTuple):
    """A request that the receiver got: `standardwebhooks` has accepted its signature."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> tuple[str, str]:
        return self.body["data"]["id"], self.body["data"]["event"]


class Receiver:
    """An HTTP server whose answers a test chooses.

    Attributes:
        statuses: the next answers; 200 if there is none.
        got: all requests, in the order of their arrival.
        hold: requests are answered while this is set.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/hook?key=geheim"
        self.statuses: deque[int | Callable[[Any], None]] = deque()
        self.got: list[Received] = []
        self.hold = threading.Event()
        self.hold.set()
        self._arrived: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Receiver:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                Checker(SECRET).verify(raw, headers)
                found = Received(self.path, headers, json.loads(raw))
                receiver.got.append(found)
                receiver._arrived.put(found)
                receiver.hold.wait(patience(60))
                answer = receiver.statuses.popleft() if receiver.statuses else 200
                if callable(answer):
                    answer(self)
                    return
                self.send_response(answer)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:  # the other side is gone
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = False
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def stop(self) -> None:
        self.hold.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = None

    def wait(self, number: int = 1) -> list[Received]:
        """Return the next requests."""
        until = time.monotonic() + patience(30)
        return [self._arrived.get(timeout=max(0.01, until - time.monotonic())) for _ in range(number)]


if __name__ == "__main__":
    with_place, with_url = sys.argv[1:]
    delivering = Approvals(with_place, notify=[Webhook(with_url, SECRET, name="hook", timeout=60)])
    print("ready", os.getpid(), flush=True)
    delivering.deliver()
