"""Serves the page of a trace that still grows, on the loopback interface.

The address has a random token, which every request must have. The `Host` header must name the loopback address, so that a web page that
points a name of its own at 127.0.0.1 reaches nothing. Requests from other origins are refused. Answers are limited.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import msgspec

from hackamore.runtime.loopback import LoopbackHandler, LoopbackServer
from hackamore.runtime.pages import OWN_SITE, refusal
from hackamore.traces.page import index_of, page_headers, page_pieces
from hackamore.traces.reading import GrowingTrace

if TYPE_CHECKING:
    from hackamore.traces.reading import Trace

_MOST_ITEMS = 5_000
_MOST_LINES = 50_000


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


class PageServer(LoopbackServer):
    """Serves one page.

    Args:
        source: a file that grows, or a trace that was read.
        port: the port; 0 for a free one.

    Raises:
        OSError: the port is taken.

    Attributes:
        url: the address, with its token.
    """

    def __init__(self, source: GrowingTrace | Trace, port: int = 0) -> None:
        super().__init__(_Handler, port)
        grows = isinstance(source, GrowingTrace)
        trace = source.trace if isinstance(source, GrowingTrace) else source
        self.live: Live | None = Live(source) if isinstance(source, GrowingTrace) else None
        self.page: bytes = b"".join(page_pieces(None if grows else trace, trace.title, live=grows))
        self.token: str = secrets.token_urlsafe(24)
        self.url: str = f"http://127.0.0.1:{self.port}/{self.token}/"


class _Handler(LoopbackHandler):
    server: PageServer

    def do_GET(self) -> None:  # noqa: N802 - the name of the base class
        self.arrived()
        hosts = self.server.hosts
        try:
            parts = urlsplit(self.path)
            given = parse_qs(parts.query, max_num_fields=8)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "The target of the request is not a URL of this server.")
            return
        named = self.headers.get_all("Host", []) if parts.netloc in {"", *hosts} else []
        origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site", "none")
        refused = refusal(named, hosts, origin, self.server.origins, site=site, sites=(*OWN_SITE, "same-site"))
        if refused is not None:
            self._refuse(*refused)
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
        self.send(status, body, {**page_headers(), "Content-Type": kind, "Content-Length": str(len(body))})


def _number(given: dict[str, list[str]], name: str) -> int:
    text = given.get(name, ["0"])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
