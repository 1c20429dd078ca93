"""Signed links: a person answers one request with a link, once and without a login.

A token has the request, the person and the end of its time, signed by HMAC-SHA256. The answer uses it up: a request is answered once, and
the same call later is another request. Opening a link shows the request, so that a program that looks at links in messages answers
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from html import escape
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import anyio.to_thread
import msgspec

from hackamore.approvals.requests import denial, exact
from hackamore.errors import ApprovalError, escape_unsafe
from hackamore.permissions import Allow
from hackamore.runtime.asgi import body_of, reply
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hackamore.approvals.approvals import Approvals
    from hackamore.approvals.requests import AnswerTo, ApprovalRequest

_MOST_BYTES = 65_536
_DOMAIN = b"hackamore approvals link\0"
_ALLOWABLE = ("tool", "plan")
"""Kinds of requests that a yes is a whole answer to."""


class Link(NamedTuple):
    """The content of a token."""

    request: str
    person: str
    expires: float  # seconds since 1970


class LinkError(Exception):
    """A link cannot be used: it is changed, over, used, or that of another person. `status` is for HTTP."""

    def __init__(self, message: str, status: int) -> None:
        self.status: int = status
        super().__init__(message)


class Links:
    """Signed links for messages of notifiers: one for each approver of a request.

    Args:
        secret: at least 32 characters or bytes; the same as that of `link_app`.
        url: the address of the page without `/link`, such as `https://agents.example/approvals`.

    Raises:
        ValueError: the secret is too short.
    """

    def __init__(self, secret: str | bytes, url: str) -> None:
        self._secret = _key(secret)
        self._url = url.rstrip("/")

    def of(self, message: Mapping[str, Any]) -> dict[str, str]:
        """Return the links for a message of a notifier.

        Args:
            message: the message.

        Returns:
            The link of each approver, by name; none without approvers, and for a request that is over.
        """
        if message.get("event") not in ("asked", "reminder"):
            return {}
        people, ends = message.get("approvers") or (), message["deadline"]
        return {each: f"{self._url}/link/{sign(self._secret, message['id'], each, ends)}" for each in people}


def sign(secret: str | bytes, request: str, person: str, expires: float) -> str:
    """Return a token for a link: letters, digits, `-`, `_` and a dot. `expires` is in seconds since 1970, as `deadline` of a request."""
    payload = base64.urlsafe_b64encode(msgspec.json.encode((request, person, float(expires)))).decode().rstrip("=")
    return f"{payload}.{_mac(_key(secret), payload)}"


def verify(secret: str | bytes, token: str, *, person: str | None = None, now: float | None = None) -> Link:
    """Return the content of a token; raise LinkError if it is changed, over, or not that of `person`, whom a login knows."""
    payload, _, given = token.partition(".")
    if not hmac.compare_digest(_mac(_key(secret), payload).encode(), given.encode("utf-8", "replace")):
        raise LinkError("This link is not valid. Copy it whole from its message.", 404)
    link = Link(*msgspec.json.decode(base64.urlsafe_b64decode(payload + "=="), type=tuple[str, str, float]))
    if (time.time() if now is None else now) >= link.expires:
        raise LinkError("The time of this link is over.", 410)
    if person is not None and not hmac.compare_digest(person.encode(), link.person.encode()):
        raise LinkError("This link is for another person. Log in as that person, or use your own link.", 403)
    return link


def link_app(
    approvals: Approvals, secret: str | bytes, *, identity: Callable[[Mapping[str, Any]], str | None] | None = None
) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """Return an ASGI app for the route `/link/TOKEN`: GET shows the request, POST answers it.

    Args:
        approvals: the requests.
        secret: the secret that signs the links.
        identity: returns the name of the caller for an ASGI scope, from a login: links of other people are refused. None for no login.

    Returns:
        The app.

    Raises:
        ValueError: the secret is too short.
    """
    key = _key(secret)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the app of links does not know the scope {scope['type']!r}")
        fields: dict[str, list[str]] = {}
        if scope["method"] == "POST":
            body = await body_of(receive, _MOST_BYTES) or b""
            with suppress(ValueError):
                fields = parse_qs(body[:_MOST_BYTES].decode(), max_num_fields=200)
        person = None if identity is None else identity(scope) or ""
        token = scope["path"].rpartition("/")[2]
        work = partial(_respond, approvals, key, token, scope["method"], fields=fields, person=person)
        status, page = await anyio.to_thread.run_sync(work)
        content = page.encode("utf-8", "replace")
        headers = {**_headers(), "content-length": str(len(content)), "allow": "GET, HEAD, POST"}
        await reply(send, status, headers, b"" if scope["method"] == "HEAD" else content)

    return app


def _respond(
    approvals: Approvals, key: bytes, token: str, method: str, *, fields: dict[str, list[str]], person: str | None
) -> tuple[int, str]:
    try:
        if method not in ("GET", "HEAD", "POST"):
            raise LinkError("This method is not possible.", 405)
        link = verify(key, token, person=person)
        request = approvals.get(link.request)
        if not request.may_be_answered_by(link.person):
            raise LinkError("This link is not valid any more.", 404)
        if request.state != "waiting":
            who = f"answered by {request.answered_by}" if request.answered_by else request.state
            raise LinkError(f"Nothing was changed: the request was {who} before.", 409)
        if method != "POST":
            return 200, _page(f"Allow {request.tool}?", _form(request))
        answer = _answer(request, fields)
        approvals.answer(request.id, answer, by=link.person)
        return 200, _page("Answered", f"<p>Your answer is on record, as that of {_shown(link.person)}.</p>")
    except (ApprovalError, LinkError) as error:
        status, text = error.status if isinstance(error, LinkError) else 409 if error.request else 503, str(error)
        if status == 503:
            logger.warning("A link could not be used: %s", error, extra={"code": "LINK_FAILED"})
            text = "The requests cannot be read now. Nothing was changed. Try again."
        return status, _page("Not possible", f"<p>{_shown(text)}</p>")


def _answer(request: ApprovalRequest, fields: dict[str, list[str]]) -> AnswerTo:
    """Return the answer of a form; anything that is not understood is an error."""
    answer, message = fields.get("answer"), fields.get("message", [""])[0]
    if answer == ["deny"]:
        return denial(request.kind, message)
    if answer != ["allow"] or request.kind not in _ALLOWABLE:
        raise LinkError("The answer must be one of those that the form offers. Nothing was changed.", 422)
    return Allow()


def _form(request: ApprovalRequest) -> str:
    ends = datetime.fromtimestamp(request.deadline, UTC)
    facts = [request.reason, f"Conversation: {request.conversation}", f"Answer before {ends:%Y-%m-%d %H:%M} UTC."]
    if request.kind not in _ALLOWABLE:
        facts.append(
            "This link can only deny it: a yes needs fields that the page and `hackamore approvals answer` have."
        )
    return _asset(
        "link-form.html",
        facts="".join(f"<p>{_shown(fact)}</p>" for fact in facts if fact),
        input=_shown(exact(request)),
        yes=_asset("link-yes.html") if request.kind in _ALLOWABLE else "",
    )


def _page(title: str, body: str) -> str:
    return _asset("link.html", title=_shown(title), style=_asset("link.css"), body=body)


def _asset(name: str, **values: str) -> str:
    from hackamore.runtime.pages import asset

    return Template(asset("hackamore.approvals", name)).substitute(values)


@cache
def _headers() -> dict[str, str]:
    style = base64.b64encode(hashlib.sha256(_asset("link.css").encode()).digest()).decode()
    return {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",  # the address is the permission to answer
        "x-content-type-options": "nosniff",
        "x-robots-tag": "noindex, nofollow",
        "content-security-policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        f"style-src 'sha256-{style}'",
    }


def _shown(text: str) -> str:
    return escape(escape_unsafe(text))


def _key(secret: str | bytes) -> bytes:
    key = secret.encode() if isinstance(secret, str) else secret
    if len(key) < 32:
        raise ValueError(
            "`secret` of links must have at least 32 bytes. Make one: python -c 'import secrets; print(secrets.token_hex())'"
        )
    return key


def _mac(key: bytes, payload: str) -> str:
    signed = hmac.digest(key, _DOMAIN + payload.encode("utf-8", "replace"), "sha256")
    return base64.urlsafe_b64encode(signed).decode().rstrip("=")
