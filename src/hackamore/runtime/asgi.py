"""Parts of all ASGI apps of this library: their types, the body of a request, an answer, the path inside a mount, the caller."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.from_thread

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Named: TypeAlias = str | tuple[str, Sequence[str]] | None
Identity: TypeAlias = Callable[[Mapping[str, Any]], Named | Awaitable[Named]]

BODY_SECONDS = 10.0
"""How long the body of a request may take."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Hosts:
    """The hosts that a request may name: those of the origins, and the loopback address with any port, as of a proxy on this machine."""

    def __init__(self, origins: frozenset[str]) -> None:
        self._named = {urlsplit(origin).netloc for origin in origins}

    def __contains__(self, host: object) -> bool:
        return host in self._named or host in LOOPBACK or str(host).rpartition(":")[0] in LOOPBACK


def checked_origins(origins: Sequence[str]) -> frozenset[str]:
    """Return the addresses of browsers in lower case; raise ValueError or TypeError for another value."""
    if isinstance(origins, str):
        raise TypeError("`origins` must be a list of addresses, not a str")
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}" or "@" in origin:
            raise ValueError(f"`origins` must be addresses such as 'https://ops.example.com', got {origin!r}")
    return frozenset(origin.lower() for origin in origins)


def caller_of(identity: Identity, scope: Scope) -> tuple[str, tuple[str, ...]] | None:
    """Return the name and the groups that the function of a service returns, in a worker thread; None if it refuses the request."""
    named: Any = identity(scope)
    if inspect.isawaitable(named):
        named = anyio.from_thread.run(awaited, named)
    if named is None or named == "":
        return None
    name, groups = (named, ()) if isinstance(named, str) else named
    if not isinstance(name, str) or not name or isinstance(groups, str):
        raise TypeError(f"`identity` must return a name, a name and a list of groups, or None, got {named!r:.200}")
    return name, tuple(groups)


async def awaited(result: Awaitable[Any]) -> Any:
    """Return the value of an awaitable."""
    return await result


def path_of(scope: Scope) -> str | None:
    """Return the path inside the app; None for its address without the slash at the end."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    # By the specification the path contains that of the mount; some servers leave it out.
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path.removeprefix("/") if path else None


def headers_of(scope: Scope) -> list[tuple[str, str]]:
    """Return the headers of a request, with names in lower case."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]


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
    await send({"type": "http.response.start", "status": int(status), "headers": wire_headers(headers)})
    await send({"type": "http.response.body", "body": body})


def wire_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as a server takes them."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


async def other_than_http(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the lifespan of a server, and close a WebSocket."""
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})
    else:
        await receive()
        await send({"type": "websocket.close", "code": 1000})
