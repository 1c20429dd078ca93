"""The page of approvals by HTTP: who may see and answer, and which requests are refused."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from hackamore import Allow, Approvals, Deny, ElicitationResult
from hackamore.permissions import decision_wire
from tests.approvals.pages import SUGGESTED, Asking, Served, elicitation, serving
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def served(approvals: Approvals) -> Iterator[Served]:
    with serving(approvals) as served:
        yield served


def state_of(served: Served, name: str) -> str:
    return str(served.get(f"request/{name}")["state"])


def answered(asking: Asking, count: int = 1) -> list[Any]:
    for thread in asking.threads[:count]:
        thread.join(patience(20))
    return asking.answers


ANSWERS: list[tuple[str, dict[str, Any], Any]] = [
    ("Bash", {"action": "allow"}, Allow()),
    ("Bash", {"action": "allow", "input": {"command": "ls -l"}}, Allow({"command": "ls -l"})),
    ("Bash", {"action": "deny", "message": "Not on Friday."}, Deny("Not on Friday.")),
    ("Bash", {"action": "deny", "message": " ", "interrupt": True}, Deny("The user denied this.", interrupt=True)),
    ("ExitPlanMode", {"action": "allow"}, Allow()),
    (
        "AskUserQuestion",
        {"action": "allow", "answers": {"Tea?": "Yes, Later"}},
        Allow({"questions": [{"question": "Tea?"}], "answers": {"Tea?": "Yes, Later"}}),
    ),
]
GIVEN: dict[str, dict[str, Any]] = {
    "Bash": {"command": "ls"},
    "ExitPlanMode": {"plan": "1. Tea."},
    "AskUserQuestion": {"questions": [{"question": "Tea?"}]},
}


@shows("approvals.page.answers")
@pytest.mark.parametrize(("tool", "sent", "answer"), ANSWERS)
def test_an_answer_of_the_page_reaches_the_call(
    served: Served, asking: Asking, tool: str, sent: dict[str, Any], answer: Any
) -> None:
    request = asking.permit(tool, GIVEN[tool])
    assert served.ids() == [request.id]
    status, body, _ = served.request("POST", f"request/{request.id}", sent)
    found = json.loads(body)
    assert (status, found["error"], found["request"]["answered_by"]) == (200, "", "ada")
    assert answered(asking) == [answer]
    assert (served.ids(), served.ids("history")) == ([], [request.id])


def test_always_adds_the_suggested_rules(served: Served, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "make all"}, permission_suggestions=SUGGESTED)
    assert served.get(f"request/{request.id}")["rules"] == ["Bash(make:*)"]
    sent = {"action": "always", "destination": "projectSettings"}
    assert served.request("POST", f"request/{request.id}", sent)[0] == 200
    [answer] = answered(asking)
    assert decision_wire(answer) == decision_wire(request.always("projectSettings"))


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ({"action": "accept", "content": {"name": "Ann"}}, ElicitationResult.accept({"name": "Ann"})),
        ({"action": "decline"}, ElicitationResult.decline()),
        ({"action": "cancel"}, ElicitationResult.cancel()),
    ],
)
def test_a_form_of_a_server_is_answered(served: Served, asking: Asking, sent: dict[str, Any], answer: Any) -> None:
    request = asking.ask(elicitation("Your name?"))
    assert served.request("POST", f"request/{request.id}", {"action": "allow"})[0] == 400
    assert served.request("POST", f"request/{request.id}", sent)[0] == 200
    assert answered(asking) == [answer]


@shows("approvals.page.not-understood")
@pytest.mark.parametrize(
    "sent",
    [
        b"", b"allow", b"[]", b"{}", b'{"action": "yes"}', b'{"action": ["allow"]}', b'{"action": "allow", "answer": "no"}',
        b'{"action": "allow", "message": "no"}', b'{"action": "allow", "input": "ls"}', b'{"action": "allow", "input": []}',
        b'{"action": "deny", "input": {}}', b'{"action": "always"}', b'{"action": "accept"}', b'{"action": "allow"',
        b'{"action": "allow", "input": {"command": "\\ud800"}}', b'{"action": "always", "destination": "cliArg"}', b"\xff",
    ],
)  # fmt: skip
def test_an_answer_that_is_not_understood_is_no_answer(served: Served, asking: Asking, sent: bytes) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    status, body, _ = served.request("POST", f"request/{request.id}", sent)
    assert (status, body[:28]) == (400, b"The answer is not understood")
    assert state_of(served, request.id) == "waiting"


@pytest.mark.parametrize(
    "answers",
    [None, {}, {"Tea?": " "}, {"Coffee?": "Yes"}, {"Tea?": "Yes", "Coffee?": "No"}, {"Tea?": 1}, {"Tea?": None}],
)
def test_each_question_needs_an_answer(served: Served, asking: Asking, answers: Any) -> None:
    request = asking.permit("AskUserQuestion", GIVEN["AskUserQuestion"])
    assert served.request("POST", f"request/{request.id}", {"action": "allow", "answers": answers})[0] == 400
    assert served.request("POST", f"request/{request.id}", {"action": "allow"})[0] == 400
    assert state_of(served, request.id) == "waiting"


@shows("approvals.page.foreign")
def test_a_stranger_does_not_learn_that_a_request_exists(tmp_path: Path) -> None:
    with (
        closing(Approvals(tmp_path / "approvals.db", approvers=["ada", "operators"])) as approvals,
        closing(Asking(approvals)) as asking,
    ):
        request = asking.permit("Bash", {"command": "secret"})
        with serving(approvals, "eve") as eve, serving(approvals, "bob", "operators") as bob:
            assert (eve.ids(), eve.ids("history"), bob.ids()) == ([], [], [request.id])
            for method, sent in (("GET", None), ("POST", {"action": "allow"})):
                mine, other = (eve.request(method, f"request/{name}", sent) for name in (request.id, "no-such-request"))
                assert mine[:2] == other[:2] == (404, b"Not found.\n")
                del mine[2]["Date"], other[2]["Date"]
                assert mine[2] == other[2]
            assert approvals.get(request.id).state == "waiting"
            assert bob.request("POST", f"request/{request.id}", {"action": "deny"})[0] == 200
            late = eve.request("POST", f"request/{request.id}", {"action": "allow"})
            assert late[:2] == (404, b"Not found.\n")


@shows("approvals.page.late")
def test_a_late_answer_names_who_was_first(served: Served, asking: Asking, tmp_path: Path) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    with closing(Approvals(tmp_path / "approvals.db")) as other:
        other.answer(request.id, Deny("No."), by="bob")
    status, body, _ = served.request("POST", f"request/{request.id}", {"action": "allow"})
    found = json.loads(body)
    assert status == 409
    assert "was answered by 'bob' before" in found["error"]
    assert (found["request"]["answered_by"], found["request"]["outcome"]) == ("bob", "deny")
    assert answered(asking) == [Deny("No.")]


def test_two_people_answer_at_the_same_time(approvals: Approvals, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    with serving(approvals, "ada") as ada, serving(approvals, "bob") as bob:
        start, found = threading.Barrier(2), []

        def answer(person: Served, action: str) -> None:
            start.wait(patience(10))
            found.append(person.request("POST", f"request/{request.id}", {"action": action})[0])

        threads = [threading.Thread(target=answer, args=each) for each in ((ada, "allow"), (bob, "deny"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience(20))
    assert sorted(found) == [200, 409]
    [answer_] = answered(asking)
    assert isinstance(answer_, Allow) == (approvals.get(request.id).answered_by == "ada")


def test_a_list_that_is_known_is_not_sent_again(served: Served, asking: Asking, tmp_path: Path) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    status, _, headers = served.request("GET", "requests")
    tag = headers["ETag"]
    assert (status, served.request("GET", "requests", If_None_Match=tag)[:2]) == (200, (304, b""))
    with closing(Approvals(tmp_path / "approvals.db")) as other:  # as another process
        other.answer(request.id, Allow(), by="bob")
    until = threading.Event()
    for _ in range(200):
        status, body, _ = served.request("GET", "requests", If_None_Match=tag)
        if status == 200:
            break
        until.wait(0.05)
    assert json.loads(body)["rows"] == []


@shows("approvals.page.entry")
def test_the_address_opens_the_page_once(approvals: Approvals) -> None:
    with serving(approvals) as served:
        path = urlsplit(served.server.url).path[1:]
        assert served.request("GET", "", known=False)[0] == 403
        assert served.request("GET", path[:-1], known=False)[0] == 403
        assert served.request("POST", path, {}, known=False)[0] == 403
        status, _, headers = served.request("GET", path, known=False)
        assert (status, headers["Refresh"]) == (200, "0; url=../")
        name, *flags = headers["Set-Cookie"].split("; ")
        assert name == f"hackamore-approvals-{served.server.port}={served.server.cookie}"
        assert sorted(flags) == ["HttpOnly", "Path=/", "SameSite=Strict"]
        status, body, _ = served.request("GET", path, known=False)
        assert (status, b"once" in body) == (403, True)
        assert served.request("GET", path)[0] == 200  # the browser that has the cookie
        for cookie in (
            "",
            "x",
            f"{served.server.cookie_name}=x",
            f"{served.server.cookie_name}=",
            f"other={served.server.cookie}",
        ):
            for known in ("", "requests", "history", "page.js", "request/x", "enter/"):
                assert served.request("GET", known, known=False, Cookie=cookie)[0] == 403, cookie
        assert served.server.server_address[0] == "127.0.0.1"


@shows("approvals.page.other-sites")
def test_other_sites_are_refused(served: Served, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    port, path, sent = served.server.port, f"request/{request.id}", {"action": "allow"}
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"[::1]:{port}", ""):
        assert served.request("GET", "requests", Host=host)[0] == 421, host
        assert served.request("POST", path, sent, Host=host)[0] == 421, host
    for origin in ("", "null", "http://evil.example", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"):
        assert served.request("POST", path, sent, Origin=origin)[0] == 403, origin
    for site in ("cross-site", "same-site"):
        assert served.request("POST", path, sent, Sec_Fetch_Site=site)[0] == 403
        assert served.request("GET", "requests", Sec_Fetch_Site=site)[0] == 403
        assert served.request("GET", path, Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate")[0] == 403
        assert served.request("GET", "", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate")[0] == 200  # a link
        assert served.request("GET", "", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0] == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert served.request("POST", path, sent, Content_Type=kind)[0] == 415, kind
    assert state_of(served, request.id) == "waiting"
    assert served.request("POST", path, sent, Origin=f"http://localhost:{port}", Sec_Fetch_Site="same-origin")[0] == 200


def test_headers(served: Served, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    nonces = set()
    for path in ("", "", "page.js", "page.css", "requests", "history", f"request/{request.id}", "nothing"):
        _, body, headers = served.request("GET", path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert not {"unsafe-inline", "unsafe-eval", "http:", "https:", "*", "data:"} & set(
            policy.replace("'", " ").split()
        )
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers
        assert headers["Server"].strip() == "hackamore"
        if path == "":
            [nonce] = {part.split("'nonce-")[1].split("'")[0] for part in policy.split("; ") if "nonce" in part}
            assert body.count(nonce.encode()) == 2
            assert b"style=" not in body
            nonces.add(nonce)
    assert len(nonces) == 2


def test_limits_of_an_answer(served: Served, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    path, most = f"request/{request.id}", 64 * 1024
    for size in (str(most + 1), "9" * 12, "-1", "x", ""):
        assert served.request("POST", path, b"{}", Content_Length=size)[0] == 413, size
    body = json.dumps({"action": "deny", "message": "x"}).encode()
    assert served.request("POST", path, body + b" " * (most - len(body)))[0] == 200
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
        assert served.request(method, "requests")[0] == 501


def test_many_requests_are_listed_short(served: Served, asking: Asking) -> None:
    request = asking.permit("Write", {"file_path": "a.txt", "content": "x" * 1_000_000})
    status, body, _ = served.request("GET", "requests")
    assert (status, len(body) < 1_000, json.loads(body)["rows"][0]["summary"]) == (200, True, "a.txt")
    assert json.loads(served.get(f"request/{request.id}")["text"])["content"] == "x" * 1_000_000


def test_numbers_are_exact(served: Served, asking: Asking) -> None:
    request = asking.permit("mcp__shop__pay", {"account": 12345678901234567891, "amount": 1.0})
    assert '"account": 12345678901234567891' in served.get(f"request/{request.id}")["text"]
    assert '"amount": 1.0' in served.get(f"request/{request.id}")["text"]


def test_a_slow_client_does_not_keep_others_out(served: Served) -> None:
    opened = [socket.create_connection(("127.0.0.1", served.server.port), patience(10)) for _ in range(30)]
    for each in opened:
        each.send(b"POST /request/x HTTP/1.1\r\nContent-Length: 9\r\n")
    for _ in range(10):
        assert served.request("GET", "requests")[0] == 200
    for each in opened:
        each.close()


def test_no_request_uses_the_database_of_a_server_that_is_closed(approvals: Approvals) -> None:
    over: list[int] = []
    with serving(approvals) as served:
        respond, port = served.server.page.respond, served.server.port
        begun = threading.Event()

        def slowly(*given: Any) -> Any:
            begun.set()
            until = time.monotonic() + patience(5)
            while port_is_open(port) and time.monotonic() < until:
                time.sleep(0.001)  # another thread closes it
            responses = [respond(*given) for _ in range(20)]
            over.append(responses[-1].status)
            return responses[-1]

        served.server.page.respond = slowly  # type: ignore[assignment, method-assign]
        connection = socket.create_connection(("127.0.0.1", port), patience(20))
        cookie = served.headers["Cookie"]
        connection.sendall(f"GET /requests HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
        assert begun.wait(patience(20))
    assert over == [200]
    connection.close()


def port_is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_a_database_that_fails_is_reported_without_its_place(
    served: Served, asking: Asking, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served.server.page._approvals = broken = Approvals(tmp_path / "other.db")  # noqa: SLF001 - a database that breaks while it is served
    broken.close()
    for each in tmp_path.glob("other.db*"):
        each.unlink()
    (tmp_path / "other.db").write_bytes(b"not a database" * 100)
    status, body, _ = served.request("GET", "requests")
    assert (status, str(tmp_path).encode() in body) == (503, False)
    assert "other.db" in caplog.text
