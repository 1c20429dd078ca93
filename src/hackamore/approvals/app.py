"""The page of approvals as an ASGI app, to be mounted behind the login of a web service. It needs no framework."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import RunVar

if TYPE_CHECKING:
    from hackamore.approvals.approvals import Approvals
    from hackamore.approvals.page import Page, Person, Response

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Named: TypeAlias = str | tuple[str, Sequence[str]] | None
Identity: TypeAlias = Callable[[Mapping[str, Any]], Named | Awaitable[Named]]

_THREADS = 8
_MOST_REQUESTS = 64
"""Requests of an event loop that may be open; further ones are refused."""
_BODY_SECONDS = 10.0
_HINT = "Sign in first, and use an address that `approvals_app` got as `origins`."
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class _Hosts:
    """The hosts that a request may name: those of the origins, and the loopback address with any port, as of a proxy on this machine."""

    def __init__(self, origins: frozenset[str]) -> None:
        self._named = {urlsplit(origin).netloc for origin in origins}

    def __contains__(self, host: object) -> bool:
        return host in self._named or host in _LOOPBACK or str(host).rpartition(":")[0] in _LOOPBACK


def approvals_app(approvals: Approvals, identity: Identity, *, origins: Sequence[str] = ()) -> App:
    """Return the page of approvals as an ASGI app.

    A person sees and answers requests without `approvers`, and those whose `approvers` have their name or one of their groups. Answers are
    accepted from the page itself alone: the `Origin` of a request must be one of `origins`.

    Args:
        approvals: the requests.
        identity: a function of the ASGI scope that returns the name of the person, or the name and groups; None refuses the request.
            It decides who may answer, so it must only use what the login has checked. It runs in a worker thread, and may be async.
        origins: the addresses under which browsers reach the app, such as `https://ops.example.com`. Without them it can be used on the
            loopback address only.

    Returns:
        The app. Mount it under a path, or serve it alone.

    Raises:
        ValueError: an origin is not `https://host` or `http://host`, with or without a port.

    Example:
        ::

            def person(scope):
                user = scope["user"]  # of the login
                return (user.username, user.groups) if user.is_authenticated else None

            app.mount("/approvals", approvals_app(approvals, person, origins=["https://ops.example.com"]))
    """
    from hackamore.approvals.page import Page

    if isinstance(origins, str):
        raise TypeError("`origins` must be a list of addresses, not a str")
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}" or "@" in origin:
            raise ValueError(f"`origins` must be addresses such as 'https://ops.example.com', got {origin!r}")
    named = frozenset(origin.lower() for origin in origins)
    return _App(Page(approvals, _Hosts(named), named, _HINT), identity)


class _Load:
    """The requests of an event loop."""

    def __init__(self) -> None:
        self.threads = anyio.CapacityLimiter(_THREADS)
        self.requests = 0


class _App:
    def __init__(self, page: Page, identity: Identity) -> None:
        self._page = page
        self._identity = identity
        self._loads: RunVar[_Load] = RunVar("load of the page of approvals")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._answer(scope, receive)
            if response is not None:
                await reply(send, response.status, response.headers, response.body)
        elif scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        from hackamore.approvals.page import MOST_BYTES, Request, refused

        path = _path(scope)
        if path is None:
            return refused(HTTPStatus.PERMANENT_REDIRECT, "The page is here.", Location=f"{scope['root_path']}/")
        load = self._load_of_loop()
        if load.requests >= _MOST_REQUESTS:
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests wait. Try again.")
        load.requests += 1
        try:
            body: bytes | None = b""
            if scope["method"] == "POST":
                with anyio.move_on_after(_BODY_SECONDS) as limit:
                    body = await body_of(receive, MOST_BYTES)
                if limit.cancelled_caught:
                    return refused(HTTPStatus.REQUEST_TIMEOUT, "The answer did not arrive in time.")
            if body is None:
                return None
            if len(body) > MOST_BYTES:
                return refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"An answer has at most {MOST_BYTES:,} bytes.")
            headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
            request = Request(scope["method"], path, headers, body)
            identify = partial(self._person, scope)
            return await anyio.to_thread.run_sync(self._page.respond, request, identify, limiter=load.threads)
        finally:
            load.requests -= 1

    def _person(self, scope: Scope) -> Person | None:
        """Return the person that the function of the service names, in a worker thread."""
        from hackamore.approvals.page import Person

        named: Any = self._identity(scope)
        if inspect.isawaitable(named):
            from hackamore.approvals.delivering import awaited

            named = anyio.from_thread.run(awaited, named)
        if named is None or named == "":
            return None
        name, groups = (named, ()) if isinstance(named, str) else named
        if not isinstance(name, str) or not name or isinstance(groups, str):
            raise TypeError(f"`identity` must return a name, a name and a list of groups, or None, got {named!r:.200}")
        return Person(name, tuple(groups))

    def _load_of_loop(self) -> _Load:
        try:
            return self._loads.get()
        except LookupError:
            self._loads.set(load := _Load())
            return load


def _path(scope: Scope) -> str | None:
    """Return the path inside the app; None for its address without the slash at the end."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    # By the specification the path contains that of the mount; some servers leave it out.
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path.removeprefix("/") if path else None


async def body_of(receive: Receive, most: int) -> bytes | None:
    """Return the body of a request, or so much of it that it is too long; None if the client went away."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most or not message.get("more_body", False):
            return bytes(body)


async def reply(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Send an answer."""
    wire = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": wire})
    await send({"type": "http.response.body", "body": body})
