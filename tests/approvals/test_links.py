"""Signed links: one answer of one person to one request."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import anyio
import pytest

from hackamore import Allow, Approvals, Deny, ElicitationRequest, ElicitationResult
from hackamore.approvals.links import Link, LinkError, Links, link_app, sign, verify
from hackamore.permissions import PermissionRequest
from tests.approvals.announced import ask, call
from tests.contract import shows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "a secret of thirty-two characters"
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x00"


class Page:
    """What a browser gets of a link."""

    def __init__(self, approvals: Approvals, **more: Any) -> None:
        self._app = link_app(approvals, SECRET, **more)

    def __call__(self, token: str, method: str = "GET", body: bytes | None = None, **fields: Any) -> tuple[int, str]:
        sent: list[Any] = []
        pieces = [urlencode(fields, doseq=True).encode() if body is None else body]

        async def receive() -> Any:
            piece = pieces.pop(0)
            pieces.append(piece[10:])
            return {"type": "http.request", "body": piece[:10], "more_body": bool(piece[10:])}

        async def send(event: Any) -> None:
            sent.append(event)

        scope = {"type": "http", "method": method, "path": f"/approvals/link/{token}", "headers": []}
        anyio.run(self._app, scope, receive, send)
        start, content = sent
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], content["body"].decode()


@pytest.fixture
def approvals(tmp_path: Path) -> Iterator[Approvals]:
    with closing(Approvals(tmp_path / "approvals.db", hold=0, approvers=["ada", "bob"])) as made:
        yield made


def token_of(approvals: Approvals, person: str = "ada", request: Any = None) -> str:
    asked = ask(approvals, request)
    return sign(SECRET, asked.id, person, asked.deadline)


@shows("approvals.link.signed")
def test_a_token_says_who_may_answer_what_and_until_when() -> None:
    token = sign(SECRET, "abc", "ada", 2_000.0)
    assert re.fullmatch(r"[\w-]+\.[\w-]+", token)
    assert verify(SECRET, token, now=1_999.9) == Link("abc", "ada", 2_000.0)
    assert verify(SECRET.encode(), token, person="ada", now=0) == Link("abc", "ada", 2_000.0)
    with pytest.raises(LinkError, match="over") as late:
        verify(SECRET, token, now=2_000.0)
    with pytest.raises(LinkError, match="another person") as other:
        verify(SECRET, token, person="bob", now=0)
    assert (late.value.status, other.value.status) == (410, 403)


@shows("approvals.link.signed")
def test_a_token_that_was_changed_in_one_place_is_not_valid() -> None:
    token = sign(SECRET, "abc", "ada", 2_000.0)
    wrong = [f"{token[:at]}{'A' if token[at] != 'A' else 'B'}{token[at + 1 :]}" for at in range(len(token))]
    wrong += [
        "",
        ".",
        token[:-1],
        token + "A",
        token + "=",
        token.partition(".")[0],
        f"{token}.{token}",
        "\ud800",
        "é.é",
    ]
    wrong += [sign("another secret of thirty-two bytes", "abc", "ada", 2_000.0)]
    for each in wrong:
        with pytest.raises(LinkError) as caught:
            verify(SECRET, each, now=0)
        assert caught.value.status == 404
    with pytest.raises(ValueError, match="32 bytes"):
        sign("short", "abc", "ada", 2_000.0)


@shows("approvals.link.once")
def test_a_get_shows_the_request_and_a_post_answers_it_once(approvals: Approvals) -> None:
    page, token = Page(approvals), token_of(approvals)
    for method in ("GET", "HEAD", "GET"):  # a program that looks at links in messages
        status, html = page(token, method)
        assert status == 200
    assert "curl -H" in html
    assert '<form method="post">' in html
    [request] = approvals.pending()
    assert page(token, "POST", answer="allow")[0] == 200
    assert approvals.get(request.id).answer == Allow()
    assert approvals.get(request.id).answered_by == "ada"
    for method in ("POST", "GET"):
        status, html = page(token, method, answer="deny")
        assert (status, "answered by ada" in html) == (409, True)
    # The link of the other person is for the same request.
    status, html = page(sign(SECRET, request.id, "bob", request.deadline), "POST", answer="deny")
    assert (status, "answered by ada" in html) == (409, True)
    assert approvals.get(request.id).answer == Allow()


@shows("approvals.link.refused")
def test_links_that_are_over_changed_of_a_stranger_or_of_another_person_answer_nothing(approvals: Approvals) -> None:
    request = ask(approvals)
    page, of_bob = Page(approvals), Page(approvals, identity=lambda scope: "bob")
    token = sign(SECRET, request.id, "ada", request.deadline)
    refused = [
        (page, sign(SECRET, request.id, "ada", time.time() - 1), 410),
        (page, token[:-2], 404),
        (page, sign(SECRET, request.id, "eve", request.deadline), 404),
        (of_bob, token, 403),
        (Page(approvals, identity=lambda scope: None), token, 403),
    ]
    for each, given, status in refused:
        for method in ("GET", "POST"):
            found, html = each(given, method, answer="allow")
            assert found == status
            assert "geheim" not in html
    assert page(token, "PUT")[0] == 405
    for fields in ({}, {"answer": "yes"}, {"answer": ["allow", "deny"]}, {"answer": ""}):
        assert page(token, "POST", **fields)[0] == 422
    for body in (b"\xff", b"answer=" + b"a" * 100_000, b"{}", b"&" * 1_000):
        assert page(token, "POST", body)[0] == 422
    assert approvals.get(request.id).state == "waiting"
    assert of_bob(sign(SECRET, request.id, "bob", request.deadline), "POST", answer="deny", message="No.")[0] == 200
    assert approvals.get(request.id).answer == Deny("No.")


@shows("approvals.link.refused")
def test_a_withdrawn_request_and_a_database_that_fails_answer_nothing(approvals: Approvals, tmp_path: Path) -> None:
    page, token = Page(approvals), token_of(approvals)
    [request] = approvals.pending()
    approvals.withdraw(request.id)
    assert page(token, "POST", answer="allow")[0] == 409
    (tmp_path / "approvals.db").unlink()
    status, html = page(token, "POST", answer="allow")
    assert status == 503
    assert str(tmp_path) not in html


@shows("approvals.link.safe")
def test_hostile_texts_stay_texts_and_the_address_stays_secret(approvals: Approvals) -> None:
    hostile = PermissionRequest(tool_name=HOSTILE, input_raw=call(HOSTILE).input_raw, decision_reason=HOSTILE)
    page, token = Page(approvals), token_of(approvals, request=hostile)
    status, html = page(token)
    assert status == 200
    for part in ("<script", "<img", "\u202e", "\x00"):
        assert part not in html
    assert html.count("&lt;script&gt;") >= 3
    assert page.headers["content-security-policy"].startswith("default-src 'none'; form-action 'self'")
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert token not in html


@shows("approvals.link.kinds")
def test_questions_and_elicitations_are_only_denied(approvals: Approvals) -> None:
    page = Page(approvals)
    question = call(tool="AskUserQuestion", given={"questions": [{"question": "Tea?", "options": []}]})
    form = ElicitationRequest(mcp_server_name="forms", message="Name?")
    for request, answer in ((question, Deny("No tea.")), (form, ElicitationResult.decline())):
        token = token_of(approvals, request=request)
        assert 'value="allow"' not in page(token)[1]
        assert page(token, "POST", answer="allow")[0] == 422
        [asked] = approvals.pending()
        assert page(token, "POST", answer="deny", message="No tea.")[0] == 200
        assert approvals.get(asked.id).answer == answer
    plan = token_of(approvals, request=call(tool="ExitPlanMode", given={"plan": "Do it."}))
    assert page(plan, "POST", answer="allow")[0] == 200


@shows("approvals.link.messages")
def test_messages_get_a_link_for_each_approver_of_a_request_that_waits() -> None:
    links = Links(SECRET, "https://agents.example/approvals/")
    deadline = time.time() + 60
    message = {"event": "asked", "id": "abc", "approvers": ["ada", "bob"], "deadline": deadline}
    found = links.of(message)
    assert set(found) == {"ada", "bob"}
    address, _, token = found["bob"].rpartition("/")
    assert address == "https://agents.example/approvals/link"
    assert verify(SECRET, token) == Link("abc", "bob", deadline)
    assert links.of({**message, "approvers": None}) == links.of({**message, "event": "answered"}) == {}
    assert SECRET not in repr(links)
