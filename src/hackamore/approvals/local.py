"""The page of approvals on the loopback interface, for one person: the address has a token that can be used once.

The browser that opens it first gets a cookie in its place. A cookie is sent to each port of a host, so its name has the port.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from hackamore.approvals.page import MOST_BYTES, Page, Person, Request, refused
from hackamore.runtime.loopback import LoopbackHandler, LoopbackServer

if TYPE_CHECKING:
    from hackamore.approvals.approvals import Approvals

_HINT = "Open the address that `hackamore approvals serve` printed, once; start it again for another browser."


class ApprovalsServer(LoopbackServer):
    """Serves the page to one person, at a port of 127.0.0.1; `url` is the address with its token."""

    def __init__(self, approvals: Approvals, person: Person, port: int = 0) -> None:
        super().__init__(_Handler, port)
        self.page: Page = Page(approvals, self.hosts, self.origins, _HINT)
        self.person: Person = person
        self.cookie: str = secrets.token_urlsafe(32)
        self.cookie_name: str = f"hackamore-approvals-{self.port}"
        self._entries = [secrets.token_urlsafe(24)]
        self._entering = threading.Lock()
        self.url: str = f"http://127.0.0.1:{self.port}/enter/{self._entries[0]}"

    def enters(self, token: str) -> bool:
        """Return whether a token is that of the address, and use it up."""
        with self._entering:
            right = bool(self._entries) and _same(token, self._entries[0])
            if right:
                self._entries.clear()
            return right


class _Handler(LoopbackHandler):
    server: ApprovalsServer

    def do_GET(self) -> None:  # noqa: N802 - the name of the base class
        self._answer(b"")

    def do_POST(self) -> None:  # noqa: N802
        size = self.headers.get("Content-Length", "")
        if size.isascii() and size.isdigit() and len(size) < 9 and int(size) <= MOST_BYTES:
            self._answer(self.rfile.read(int(size)))
            return
        self.arrived()
        self.send(*refused(413, f"An answer needs the header Content-Length, and has at most {MOST_BYTES:,} bytes."))

    def _answer(self, body: bytes) -> None:
        self.arrived()
        path = self.path.partition("?")[0].removeprefix("/")
        headers = [(name.lower(), value) for name, value in self.headers.items()]
        response = self.server.page.respond(Request(self.command, path, headers, body), lambda: self._person(path))
        if path.startswith("enter/") and response.status == 200:
            cookie = f"{self.server.cookie_name}={self.server.cookie}; HttpOnly; SameSite=Strict; Path=/"
            response.headers["Set-Cookie"] = cookie
        self.send(*response)

    def _person(self, path: str) -> Person | None:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie_name)
        except CookieError:
            return None
        known = found is not None and _same(found.value, self.server.cookie)
        enters = path.startswith("enter/") and self.command == "GET"
        return self.server.person if known or (enters and self.server.enters(path.removeprefix("enter/"))) else None


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())
