"""The page of approvals as an ASGI app, to be mounted behind the login of a web service. It needs no framework."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from hackamore.runtime.asgi import (
    BODY_SECONDS,
    App,
    Hosts,
    Identity,
    Receive,
    Scope,
    Send,
    body_of,
    caller_of,
    checked_origins,
    headers_of,
    other_than_http,
    path_of,
    reply,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.approvals.approvals import Approvals
    from hackamore.approvals.page import Page, Person, Response

_THREADS = 8
_MOST_REQUESTS = 64
"""Requests of an event loop that may be open; further ones are refused."""
_HINT = "Sign in first, and use an address that `approvals_app` got as `origins`."


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

    named = checked_origins(origins)
    return _App(Page(approvals, Hosts(named), named, _HINT), identity)


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
        else:
            await other_than_http(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        from hackamore.approvals.page import MOST_BYTES, Request, refused

        path = path_of(scope)
        if path is None:
            return refused(HTTPStatus.PERMANENT_REDIRECT, "The page is here.", Location=f"{scope['root_path']}/")
        load = self._load_of_loop()
        if load.requests >= _MOST_REQUESTS:
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests wait. Try again.")
        load.requests += 1
        try:
            body: bytes | None = b""
            if scope["method"] == "POST":
                with anyio.move_on_after(BODY_SECONDS) as limit:
                    body = await body_of(receive, MOST_BYTES)
                if limit.cancelled_caught:
                    return refused(HTTPStatus.REQUEST_TIMEOUT, "The answer did not arrive in time.")
            if body is None:
                return None
            if len(body) > MOST_BYTES:
                return refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"An answer has at most {MOST_BYTES:,} bytes.")
            request = Request(scope["method"], path, headers_of(scope), body)
            identify = partial(self._person, scope)
            return await anyio.to_thread.run_sync(self._page.respond, request, identify, limiter=load.threads)
        finally:
            load.requests -= 1

    def _person(self, scope: Scope) -> Person | None:
        """Return the person that the function of the service names, in a worker thread."""
        from hackamore.approvals.page import Person

        found = caller_of(self._identity, scope)
        return None if found is None else Person(*found)

    def _load_of_loop(self) -> _Load:
        try:
            return self._loads.get()
        except LookupError:
            self._loads.set(load := _Load())
            return load
