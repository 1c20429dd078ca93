"""Signed links: a person answers one request with a link, once and without a login.

A token has the request, the person and the end of its time, signed by HMAC-SHA256. The answer uses it up: a request is answered once, and
the same call later is another request. Opening a link shows the request, so that a program that looks at links in messages answers
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import anyio.to_thread
import msgspec

from hackamore.dialogs import ElicitationResult
from hackamore.errors import ApprovalError, escape_unsafe
from hackamore.permissions import Allow, Deny
from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hackamore.approvals.approvals import Approvals
    from hackamore.approvals.requests import AnswerTo, ApprovalRequest

_MOST_BYTES = 65_536
_DOMAIN = b"hackamore approvals link\0"
_STYLE = (
    ":root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}body{max-width:44rem;margin:2rem auto;padding:0 1rem}"
    "pre{overflow:auto;border:1px solid;padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    "button,input[name=message]{font:inherit;padding:.6rem 1.2rem;margin:.25rem .5rem .25rem 0}"
)
_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",  # the address is the permission to answer
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex, nofollow",
    "content-security-policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; style-src "
    f"'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
}


class Link(NamedTuple):
    """The content of a token."""

    request: str
    person: str
    expires: float  # seconds since 1970


class LinkError(ApprovalError):
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

    def __repr__(self) -> str:
        return f"Links({self._url!r})"

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
            body, more = b"", True
            while more and len(body) <= _MOST_BYTES:
                event = await receive()
                body, more = body + event.get("body", b""), event.get("more_body", False)
            with suppress(ValueError):
                fields = parse_qs(body[:_MOST_BYTES].decode(), max_num_fields=200)
        person = None if identity is None else identity(scope) or ""
        token = scope["path"].rpartition("/")[2]
        work = partial(_respond, approvals, key, token, scope["method"], fields=fields, person=person)
        status, page = await anyio.to_thread.run_sync(work)
        content = page.encode("utf-8", "replace")
        headers = {
            **_HEADERS,
            "content-length": str(len(content)),
            **({"allow": "GET, HEAD, POST"} if status == 405 else {}),
        }
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

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
    except LinkError as error:
        return error.status, _page("Not possible", f"<p>{_shown(str(error))}</p>")
    except ApprovalError as error:
        if error.request is not None:  # another person was first
            return 409, _page("Not possible", f"<p>{_shown(str(error))}</p>")
        logger.warning("A link could not be used: %s", error, extra={"code": "LINK_FAILED"})
        return 503, _page("Not possible", "<p>The requests cannot be read now. Nothing was changed. Try again.</p>")


def _answer(request: ApprovalRequest, fields: dict[str, list[str]]) -> AnswerTo:
    """Return the answer of a form; anything that is not understood is an error."""
    answer, message = fields.get("answer"), fields.get("message", [""])[0]
    if answer == ["deny"]:
        return ElicitationResult.decline() if request.kind == "elicitation" else Deny(message or "A person denied it.")
    if answer != ["allow"] or not _allowable(request):
        raise LinkError("The answer must be one of those that the form offers. Nothing was changed.", 422)
    return Allow()


def _allowable(request: ApprovalRequest) -> bool:
    """Return whether a yes is a whole answer."""
    return request.kind in ("tool", "plan")


def _form(request: ApprovalRequest) -> str:
    ends = datetime.fromtimestamp(request.deadline, UTC)
    facts = [request.reason, f"Conversation: {request.conversation}", f"Answer before {ends:%Y-%m-%d %H:%M} UTC."]
    yes = '<button name="answer" value="allow">Allow</button>'
    if not _allowable(request):
        yes, facts = (
            "",
            [
                *facts,
                "This link can only deny it: a yes needs fields that the page and `hackamore approvals answer` have.",
            ],
        )
    return (
        "".join(f"<p>{_shown(fact)}</p>" for fact in facts if fact)
        + f"<pre>{_shown(json.dumps(request.input, indent=2, ensure_ascii=False))}</pre>"
        + '<form method="post"><p><input name="message" maxlength="2000" placeholder="Reason of a denial" '
        + f'aria-label="Reason of a denial"></p>{yes}<button name="answer" value="deny">Deny</button></form>'
    )


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{_shown(title)}</title><style>{_STYLE}</style></head><body><h1>{_shown(title)}</h1>{body}</body></html>"
    )


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
