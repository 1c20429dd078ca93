"""Who may use the app, and bodies that are not runs: nothing crashes or hangs, and each refusal has its status and code."""

from __future__ import annotations

import gc
import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from hackamore import Approvals
from hackamore.approvals import ApprovalRequest
from hackamore.runtime import asgi
from hackamore.serving import agui
from hackamore.serving.agui import service
from hackamore.testing import Script
from tests.approvals.pages import permission
from tests.contract import shows
from tests.serving.agui.calling import Answer, Client
from tests.serving.agui.conftest import Serve
from tests.support.examples import examples
from tests.support.patience import patience

pytestmark = pytest.mark.anyio
HELLO = Script().user().says("1").user().says("2")


def user(scope: Mapping[str, Any]) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


@shows("agui.threads")
async def test_users_have_threads_of_their_own(serve: Serve) -> None:
    async with serve(HELLO, identity=user) as ada:
        eve = Client(ada.app, "eve", "203.0.113.7")
        ada.user = "ada"
        given = ada.given()
        assert (await ada.request(given)).run.text == "1"
        assert (await eve.post()).run.text == "1"  # not the second answer of ada's thread
        assert (await ada.post()).run.text == "2"
        assert (await eve.again(given["runId"], 0)).code == "run_unknown"
        stop = await eve.request(b"", method="DELETE", query=f"threadId=t&runId={given['runId']}")
        assert (stop.status, stop.code) == (404, "run_unknown")
        stranger = await Client(ada.app).post()
        assert (stranger.status, stranger.code) == (401, "unauthenticated")


def test_no_two_threads_share_a_key() -> None:
    people, threads = ["", "a", "a/b", "a%2Fb", "é", "%"], ["b", "a/b", "/b", "b/c", "%2Fb"]
    keys = [agui.thread_key(person, thread) for person in people for thread in threads]
    assert len(set(keys)) == len(keys)
    assert agui.thread_key(None, "b") == agui.thread_key("", "b")


async def test_an_identity_that_fails_lets_nobody_in(serve: Serve) -> None:
    def broken(scope: Mapping[str, Any]) -> Any:
        raise KeyError("session")

    async with serve(HELLO, identity=broken) as client:
        answer = await client.post()
        assert (answer.status, answer.code) == (500, "internal_error")

    async with serve(HELLO, identity=lambda scope: 5) as client:
        assert (await client.post()).status == 500


@shows("agui.threads")
async def test_without_identity_only_this_machine_is_served(serve: Serve) -> None:
    async with serve(HELLO) as client:
        assert (await Client(client.app, address="10.0.0.5").post()).code == "forbidden"
        for host, status in (("localhost:3", 200), ("evil.example", 421), ("127.0.0.1.evil.example", 421)):
            assert (await client.request(client.given(thread=host), host=host)).status == status, host


async def test_pages_of_other_sites_are_refused(serve: Serve) -> None:
    async with serve(HELLO, origins=["http://localhost:3000"]) as client:
        for origin, status in (
            ("http://evil.example", 403),
            ("null", 403),
            ("http://localhost:3000", 200),
            ("http://127.0.0.1:8000", 200),
        ):
            assert (await client.request(client.given(thread=origin), origin=origin)).status == status, origin
        image = await client.request(b"", method="GET", query="threadId=t&runId=r", sec_fetch_site="cross-site")
        assert (image.status, image.code) == (403, "forbidden")
        plain = await client.request(client.given(), content_type="text/plain")  # a form of another site can send it
        assert plain.status == 415


@shows("agui.bodies")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"threadId": 1, "runId": "r", "messages": []}', 400),
        (b'{"threadId": "", "runId": "r", "messages": []}', 400),
        (b'{"threadId": "a\\nb", "runId": "r", "messages": []}', 400),
        (b'{"threadId": "t", "runId": "r", "messages": []}', 400),
        (b'{"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": ""}]}', 400),
        (b'{"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "nobody", "content": "x"}]}', 400),
        (b'{"threadId": "\\ud800", "runId": "r", "messages": []}', 400),
        (b"x" * 2_000_000, 413),
    ],
    ids=lambda value: f"{len(value)}-{value[:20]!r}" if isinstance(value, bytes) else None,
)
async def test_bodies_that_are_not_runs(serve: Serve, body: bytes, status: int) -> None:
    async with serve(HELLO) as client:
        answer = await client.request(body)
        assert answer.status == status
        assert answer.code in ("invalid_request", "too_large")
        long = await client.request(b"{}", content_length="9" * 30)
        assert long.status == 413
        assert not client.app.runs


async def test_methods_addresses_and_ids_that_do_not_exist(serve: Serve) -> None:
    async with serve(HELLO) as client:
        put = await client.request(b"", method="PUT")
        assert (put.status, put.headers["allow"]) == (405, "POST, GET, DELETE")
        assert (await client.request(b"", method="GET", path="/other")).status == 404
        assert (await client.again("r", 0)).code == "run_unknown"
        for last in ("x", "-1", "1" * 30, "¹"):
            answer = await client.request(client.given(), last_event_id=last)
            assert (answer.status, answer.code) == (400, "invalid_request"), last
        resumed = await client.post(None, resume=[{"interruptId": "x", "status": "resolved"}])
        assert (resumed.status, resumed.code) == (404, "interrupt_unknown")


async def test_a_body_that_does_not_arrive_is_408(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_SECONDS", 0.02)
    async with serve(HELLO) as client:
        answer = Answer()

        async def receive() -> dict[str, Any]:
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            answer.status = message.get("status", answer.status)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "client": ("127.0.0.1", 1)}
        await client.app(scope, receive, send)
        assert answer.status == 408


def test_arguments_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    pool: Any = None
    for wrong in ({"on_disconnect": "stop"}, {"max_runs": 0}, {"body_bytes": -1}, {"origins": ["example.com"]}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            agui.app(pool, **wrong)
    monkeypatch.setitem(sys.modules, "ag_ui", None)
    monkeypatch.setitem(sys.modules, "ag_ui.core", None)
    with pytest.raises(ImportError, match=r"pip install 'hackamore\[agui\]'"):
        agui.app(pool)


async def test_a_person_who_may_not_answer_sees_that_a_call_waits(serve: Serve, tmp_path: Path) -> None:
    approvals = Approvals(tmp_path / "approvals.db", hold=0, approvers=["boss"])
    await approvals.permit(permission("Bash", {"command": "secret"}), own=agui.thread_key("eve", "t"))
    [waiting] = approvals.pending()
    async with serve(HELLO, identity=user, approvals=approvals) as eve:
        eve.user = "eve"
        answer = await eve.post()
        assert (answer.status, answer.code) == (409, "interrupt_pending")
        [interrupt] = json.loads(answer.body)["error"]["interrupts"]
        assert interrupt["metadata"] == {"answerable": False}
        assert b"secret" not in answer.body
        resume = [{"interruptId": waiting.id, "status": "resolved", "payload": {"approved": True}}]
        refused = await eve.post(None, resume=resume)
        assert (refused.status, refused.code) == (403, "forbidden")
        boss = await Client(eve.app, "boss").post(None, resume=resume)
        assert (boss.status, boss.code) == (404, "interrupt_unknown")  # it is in the thread of another user
    found: ApprovalRequest = approvals.get(waiting.id)
    assert found.state == "waiting"
    approvals.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("threadId", "runId", "messages", "tools", "context", "state", "forwardedProps", "resume", "parentRunId")


@cases(changes=st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1, max_size=3), role=JSON, content=JSON)
@settings(max_examples=examples(60))
async def test_values_of_any_type_are_answered(changes: dict[str, Any], role: Any, content: Any) -> None:
    class Pool:
        def conversation(self, key: str, **more: Any) -> Any:
            raise LookupError("no session here")

    pool: Any = Pool()
    client = Client(agui.app(pool))
    base = client.given(messages=[{"id": "1", "role": role, "content": content}])
    for body in (base, {**client.given(), **changes}):
        with anyio.fail_after(patience(10)):
            answer = await client.request(json.dumps(body).encode("utf-8", "surrogatepass"))
        assert answer.status in (400, 404, 500), (body, answer.body)
        assert answer.code in ("invalid_request", "interrupt_unknown", "internal_error")
    assert (client.app.active, client.app.requests, client.app.runs) == (0, 0, {})


@shows("agui.bodies")
@pytest.mark.timeout(300)
async def test_memory_is_flat_over_many_requests(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "KEEP_SECONDS", 0.0)
    chance = random.Random(5)
    bodies: list[Any] = [b"", b"{", b"x" * 5_000, {"threadId": 5}, {"threadId": "t", "runId": "r", "messages": []}]

    async with serve(Script(forever=True).user().says("Hi."), body_bytes=4_000, max_runs=8) as client:

        async def requests(count: int) -> None:
            for number in range(count):
                if number % 20 == 0:
                    assert (await client.post(thread="one")).status == 200
                else:
                    method = chance.choice(["POST", "POST", "GET", "DELETE", "PUT"])
                    query = "threadId=t&runId=" + "r" * chance.randrange(50)
                    await client.request(chance.choice(bodies), method=method, query=query)

        total = 10_000 if os.environ.get("HACKAMORE_TEST_THOROUGH") == "1" else 1_000
        await requests(total // 4)
        gc.collect()
        before = len(gc.get_objects())
        await requests(total)
        gc.collect()
        assert len(gc.get_objects()) < before + 2_000
        assert len(client.app.runs) <= 9
