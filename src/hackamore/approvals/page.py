"""The page of approvals: what it answers to a request of a person, without a network. `app` and `local` carry the bytes.

Everything that the model, a server or the CLI wrote leaves as JSON, and the script of the page shows it as text. Files are never read: a
person sees what is on record, and the answer counts for that record alone. A request that a person may not see does not exist for them.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from http import HTTPStatus
from string import Template
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hackamore.approvals.requests import AnswerTo, ApprovalRequest, encode_answer, exact, text_of_json, verdict
from hackamore.dialogs import ElicitationResult
from hackamore.errors import ApprovalError, text_of
from hackamore.permissions import AddRules, Allow, Deny
from hackamore.runtime.log import logger
from hackamore.runtime.pages import OWN_SITE, asset, refusal, security_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping, Sequence

    from hackamore.approvals.approvals import Approvals

MOST_BYTES = 64 * 1024
"""The largest answer of a person."""
_FRESH_SECONDS = 0.5
"""Pages that poll share one look at the database: many of them cost no more than one."""
_MOST_ROWS = 500
_HISTORY = 200
_SUMMARY = 200
_NAMING = ("command", "file_path", "notebook_path", "url", "pattern", "query", "description", "prompt", "message")
_ROW = ("id", "kind", "tool", "conversation", "state", "asked_at", "deadline", "answered_by", "answered_at")
_PACKAGE = "hackamore.approvals"
_OPENS = ("", "enter")


class Person(NamedTuple):
    """A person whose name was checked, and the groups that count for it."""

    name: str
    groups: tuple[str, ...] = ()


class Request(NamedTuple):
    """A request to the page; `path` is relative to its address, and the names of headers are in lower case."""

    method: str
    path: str
    headers: Sequence[tuple[str, str]]
    body: bytes = b""


class Response(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    headers: dict[str, str]


class Given(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The answer of a person, as the page sends it."""

    action: Literal["allow", "always", "deny", "accept", "decline", "cancel"]
    message: str = ""
    interrupt: bool = False
    input: dict[str, Any] | None = None
    answers: dict[str, str] | None = None
    destination: Literal["session", "localSettings", "projectSettings", "userSettings"] = "session"
    content: dict[str, Any] | None = None


_FIELDS = {
    "tool": {"allow": {"input"}, "always": {"destination"}, "deny": {"message", "interrupt"}},
    "plan": {"allow": {"input"}, "always": {"destination"}, "deny": {"message", "interrupt"}},
    "question": {"allow": {"answers"}, "deny": {"message", "interrupt"}},
    "elicitation": {"accept": {"content"}, "decline": set[str](), "cancel": set[str]()},
}
"""Answers to each kind of request, and the fields that may come with each."""


class Page:
    """The page of the requests of a database. `respond` blocks: call it in threads.

    Requests name one of `hosts`. Answers come from `origins`, or without any from the host that they name. `hint` names the way in.
    """

    def __init__(self, approvals: Approvals, hosts: Container[str], origins: Collection[str], hint: str) -> None:
        self._approvals = approvals
        self._hosts = hosts
        self._origins = origins
        self._hint = hint
        self._lock = threading.Lock()
        self._pending: list[ApprovalRequest] = []
        self._read_at = float("-inf")

    def respond(self, request: Request, identify: Callable[[], Person | None]) -> Response:
        """Return the answer to a request; `identify` is called for requests of this page alone."""
        try:
            return self._refused(request) or self._respond(request, dict(request.headers), identify())
        except ApprovalError as error:
            logger.error("the page of approvals: %s", text_of(error))
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "The database of approvals cannot be used. The log has why.")
        except Exception as error:
            logger.error("a request for the page of approvals failed: %s", type(error).__name__, exc_info=error)
            return refused(HTTPStatus.INTERNAL_SERVER_ERROR, "The request failed. The log has why.")

    def _refused(self, request: Request) -> Response | None:
        headers, writes = dict(request.headers), request.method == "POST"
        named = [value.lower() for name, value in request.headers if name == "host"]
        origin = headers.get("origin")
        # A link in a message may open the page, and the site that it stands on reads nothing of it.
        opens = not writes and headers.get("sec-fetch-mode") == "navigate" and request.path.partition("/")[0] in _OPENS
        sites = (*OWN_SITE, "same-site", "cross-site") if opens else OWN_SITE
        own = self._origins or [f"http://{host}" for host in named]
        site = headers.get("sec-fetch-site", "none")
        problem = refusal(named, self._hosts, origin, own, site=site, sites=sites, hint=self._hint)
        if problem is None and writes and origin is None:
            problem = HTTPStatus.FORBIDDEN, "An answer needs the header Origin: it is accepted from this page alone."
        return problem and refused(*problem)

    def _respond(self, request: Request, headers: dict[str, str], person: Person | None) -> Response:
        if person is None:
            return refused(HTTPStatus.FORBIDDEN, f"You are not known here. {self._hint}")
        known = headers.get("if-none-match")
        match request.method, request.path.split("/"):
            case "GET", [""]:
                return _page()
            case "GET", ["enter", _]:
                # A redirect would not get the cookie from another site.
                return _send(b"", "text/plain", Refresh="0; url=../")
            case "GET", ["page.js"]:
                return _asset("text.js", "page.js", "text/javascript; charset=utf-8")
            case "GET", ["page.css"]:
                return _asset("base.css", "page.css", "text/css; charset=utf-8")
            case "GET", ["requests" | "history" as name]:
                return _json(self._listed(person, history=name == "history"), known)
            case "GET", ["request", name] if found := self._found(name, person):
                return _json(self._details(found, person), known)
            case "POST", ["request", name] if found := self._found(name, person):
                if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                    return refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The answer must be sent as application/json.")
                return self._answer(found, request.body, person)
            case (("GET" | "POST"), _):
                return refused(HTTPStatus.NOT_FOUND, "Not found.")
        return refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and POST are allowed.")

    def _listed(self, person: Person, *, history: bool) -> dict[str, Any]:
        if history:
            mine = self._approvals.history(by=person.name, groups=person.groups, limit=2 * _HISTORY)[:_HISTORY]
        else:
            mine = [each for each in self._waiting() if each.may_be_answered_by(*person)]
        rows = [_row(each) for each in mine[:_MOST_ROWS]]
        return {"person": person.name, "rows": rows, "more": len(mine) - len(rows)}

    def _waiting(self) -> list[ApprovalRequest]:
        with self._lock:
            now = time.monotonic()
            if now - self._read_at > _FRESH_SECONDS:
                self._pending = self._approvals.pending()
                self._read_at = time.monotonic()
            return self._pending

    def _found(self, name: str, person: Person) -> ApprovalRequest | None:
        """Return a request that the person may see."""
        try:
            found = self._approvals.get(name)
        except ApprovalError as error:
            if not error.unknown:
                raise
            return None
        return found if found.may_be_answered_by(*person) else None

    def _details(self, request: ApprovalRequest, person: Person) -> dict[str, Any]:
        earlier = self._found(request.follows, person) if request.follows else None
        answer = request.answer and msgspec.Raw(encode_answer(request.answer, request.kind).encode())
        return {
            **msgspec.structs.asdict(request),
            **_row(request),
            "input": None,
            "text": exact(request),
            "details": {name: value for name, value in request.details.items() if name != "suggestions"},
            "reason": request.reason,
            "rules": _rules(request.always()) if "always" in _FIELDS[request.kind] else [],
            "answer": answer,
            "follows": earlier and {**_row(earlier), "text": exact(earlier)},
        }

    def _answer(self, request: ApprovalRequest, body: bytes, person: Person) -> Response:
        try:
            answer = answer_of(request, msgspec.json.decode(body, type=Given))
            encode_answer(answer, request.kind)
        except (ValueError, ApprovalError) as error:
            text = f"The answer is not understood, and nothing was changed: {text_of(error)}"
            return refused(HTTPStatus.BAD_REQUEST, text)
        status, text = HTTPStatus.OK, ""
        try:
            request = self._approvals.answer(request.id, answer, by=person.name, groups=person.groups)
        except ApprovalError as error:
            if error.request is None:
                raise
            request, status, text = error.request, HTTPStatus.CONFLICT, text_of(error)
        with self._lock:
            self._read_at = float("-inf")  # the list without the request is there immediately
        return _json({"error": text, "request": self._details(request, person)}, None, status)


def answer_of(request: ApprovalRequest, given: Given) -> AnswerTo:
    """Return the answer that a person gave; raise ValueError for one that does not fit the request."""
    allowed = _FIELDS[request.kind].get(given.action)
    if allowed is None:
        raise ValueError(f"{given.action!r} is not an answer to a {request.kind}")
    if extra := set(msgspec.to_builtins(given)) - allowed - {"action"}:
        raise ValueError(f"{given.action!r} does not go with {', '.join(sorted(extra))}")
    match given.action:
        case "deny":
            return Deny(given.message.strip() or "The user denied this.", interrupt=given.interrupt)
        case "accept":
            return ElicitationResult.accept(given.content)
        case "decline" | "cancel":
            return ElicitationResult(given.action)
        case "always":
            always = request.always(given.destination)
            if not always.updated_permissions:
                raise ValueError("the CLI suggests no rule for this call")
            return always
    if request.kind == "question":
        names = _questions(request)
        answers = {name: text for name, text in (given.answers or {}).items() if text.strip()}
        if not names or set(answers) != set(names):
            raise ValueError("each question needs an answer, and nothing else does")
        return Allow({**request.input, "answers": answers})
    return Allow(given.input)


def _row(request: ApprovalRequest) -> dict[str, Any]:
    """Return what the list shows of a request."""
    given = request.input
    if request.kind == "question" and (names := _questions(request)):
        given = {"description": names[0]}
    found = (value for name in _NAMING if isinstance(value := given.get(name), str) and value)
    text = next(found, None) or text_of_json(given)
    return {
        **{name: getattr(request, name) for name in _ROW},
        "summary": text if len(text) <= _SUMMARY else f"{text[:_SUMMARY]}…",
        "outcome": verdict(request),
    }


def _questions(request: ApprovalRequest) -> list[str]:
    """Return the questions of the model; none if one of them has no text, as such a request can only be denied."""
    asked = request.input.get("questions")
    asked = asked if isinstance(asked, list) else []
    names = [each["question"] for each in asked if isinstance(each, dict) and isinstance(each.get("question"), str)]
    return names if len(names) == len(asked) else []


def _rules(answer: Allow) -> list[str]:
    """Return the rules that an answer adds, as settings spell them."""
    updates: Sequence[Any] = answer.updated_permissions
    rules = [rule for update in updates if isinstance(update, AddRules) for rule in update.rules]
    return [each.tool_name if each.rule_content is None else f"{each.tool_name}({each.rule_content})" for each in rules]


def _headers(nonce: str = "") -> dict[str, str]:
    """Return the headers of an answer. Only the page itself has a nonce: nothing else of its origin can run in it."""
    source, connect = (f"'nonce-{nonce}'", "'self'") if nonce else ("'none'", "'none'")
    return security_headers(
        f"default-src 'none'; script-src {source}; style-src {source}; connect-src {connect}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _page() -> Response:
    nonce = secrets.token_urlsafe(18)
    text = Template(asset(_PACKAGE, "page.html")).substitute(nonce=nonce)
    response = _send(text.encode(), "text/html; charset=utf-8")
    return response._replace(headers={**response.headers, **_headers(nonce)})


def _asset(shared: str, own: str, kind: str) -> Response:
    return _send(f"{asset('hackamore.runtime', shared)}\n{asset(_PACKAGE, own)}".encode(), kind)


def _send(body: bytes, kind: str, status: int = HTTPStatus.OK, **more: str) -> Response:
    return Response(status, body, {**_headers(), "Content-Type": kind, "Content-Length": str(len(body)), **more})


def _json(value: Mapping[str, Any], known: str | None, status: int = HTTPStatus.OK) -> Response:
    body = msgspec.json.encode(value)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if known == tag and status == HTTPStatus.OK:
        return Response(HTTPStatus.NOT_MODIFIED, b"", {**_headers(), "ETag": tag})
    return _send(body, "application/json", status, ETag=tag)


def refused(status: int, text: str, **more: str) -> Response:
    """Return an answer that is only a text."""
    return _send(f"{text}\n".encode("utf-8", "replace"), "text/plain; charset=utf-8", status, **more)
