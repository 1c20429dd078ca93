"""The page of approvals as an ASGI app, called as a server does."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from hackamore import Approvals, Deny
from hackamore.approvals import app as module
from hackamore.approvals import approvals_app
from tests.approvals.pages import Asking
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Caller:
    """Calls an ASGI app as a server does."""

    def __init__(self, app: Any, root: str = "/approvals") -> None:
        self.app = app
        self.root = root

    async def call(self, method: str, path: str, body: list[bytes] | None = None, **headers: str) -> tuple[int, bytes]:
        named = {"host": "ops.example.com", **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "root_path": self.root,
            "headers": [(name.encode(), value.encode()) for name, value in named.items() if value],
        }
        parts = body if body is not None else [b""]
        messages = [
            {"type": "http.request", "body": part, "more_body": place < len(parts) - 1}
            for place, part in enumerate(parts)
        ]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not messages:
                await anyio.sleep_forever()
            return messages.pop(0)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]
        return sent[0]["status"], sent[1]["body"]

    async def answer(self, request: str, given: dict[str, Any], **headers: str) -> tuple[int, bytes]:
        more = {"content_type": "application/json", "origin": "https://ops.example.com", **headers}
        return await self.call("POST", f"{self.root}/request/{request}", [json.dumps(given).encode()], **more)


ORIGIN = "https://ops.example.com"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@shows("approvals.page.mounted")
@pytest.mark.anyio
async def test_only_the_named_origins_answer(approvals: Approvals, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    caller = Caller(approvals_app(approvals, lambda scope: "ada", origins=[ORIGIN]))
    assert (await caller.call("GET", "/approvals/requests"))[0] == 200
    assert (await caller.call("GET", "/approvals/requests", host="127.0.0.1:8000"))[0] == 200  # a proxy on this machine
    for host in ("evil.example", "ops.example.com:8443", "127.0.0.1.evil.example", "x.127.0.0.1", ""):
        assert (await caller.call("GET", "/approvals/requests", host=host))[0] == 421, host
    for origin in (
        "",
        "null",
        "http://ops.example.com",
        "https://ops.example.com:8443",
        "https://evil.example",
        "http://127.0.0.1",
    ):
        for host in ("ops.example.com", "127.0.0.1"):
            assert (await caller.answer(request.id, {"action": "allow"}, origin=origin, host=host))[0] == 403, origin
    assert (await caller.answer(request.id, {"action": "allow"}, sec_fetch_site="same-site"))[0] == 403
    assert approvals.get(request.id).state == "waiting"
    assert (await caller.answer(request.id, {"action": "deny", "message": "No."}, sec_fetch_site="same-origin"))[
        0
    ] == 200
    assert approvals.get(request.id).answer == Deny("No.")


@pytest.mark.anyio
async def test_without_origins_only_the_loopback_address_is_served(approvals: Approvals, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    caller = Caller(approvals_app(approvals, lambda scope: "ada"))
    status, body = await caller.call("GET", "/approvals/")
    assert (status, b"origins" in body) == (421, True)
    local = {"host": "localhost:8000", "origin": "http://localhost:8000"}
    for other in ("http://localhost:8001", "https://localhost:8000", "http://evil.example"):
        assert (await caller.answer(request.id, {"action": "allow"}, host="localhost:8000", origin=other))[0] == 403
    assert (await caller.answer(request.id, {"action": "allow"}, **local))[0] == 200


def test_origins_are_checked(approvals: Approvals) -> None:
    for origin in ("ops.example.com", "https://ops.example.com/", "https://a@ops.example.com", "*", "file://x"):
        with pytest.raises(ValueError, match="addresses such as"):
            approvals_app(approvals, lambda scope: "ada", origins=[origin])
    with pytest.raises(TypeError, match="list"):
        approvals_app(approvals, lambda scope: "ada", origins=ORIGIN)


async def later(scope: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    await anyio.sleep(0)
    return "bob", ("operators",)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("identity", "status"),
    [
        (lambda scope: "ada", 200), (later, 200), (lambda scope: ("eve", ["operators"]), 200), (lambda scope: "eve", 404),
        (lambda scope: None, 403), (lambda scope: "", 403), (lambda scope: ("", ["operators"]), 500), (lambda scope: 7, 500),
        (lambda scope: ("eve", "operators"), 500), (lambda scope: scope["user"], 500),
    ],
)  # fmt: skip
async def test_the_function_names_the_person(
    tmp_path: Path, identity: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    approvals = Approvals(tmp_path / "approvals.db", approvers=["ada", "operators"])
    asking = Asking(approvals)
    request = asking.permit("Bash", {"command": "secret"})
    caller = Caller(approvals_app(approvals, identity, origins=[ORIGIN]))
    found, body = await caller.call("GET", f"/approvals/request/{request.id}")
    assert (found, b"secret" in body) == (status, status == 200)
    assert (await caller.answer(request.id, {"action": "allow"}))[0] == status
    assert bool(caplog.records) == (status == 500)
    await anyio.to_thread.run_sync(asking.close)
    approvals.close()


@shows("approvals.page.loop")
@pytest.mark.anyio
async def test_a_slow_login_does_not_hold_up_the_event_loop(approvals: Approvals) -> None:
    go_on = threading.Event()

    def slow(scope: Mapping[str, Any]) -> str:
        assert go_on.wait(patience(20))
        return "ada"

    caller = Caller(approvals_app(approvals, slow, origins=[ORIGIN]))
    found: list[int] = []

    async def call() -> None:
        found.append((await caller.call("GET", "/approvals/requests"))[0])

    with anyio.fail_after(patience(20)):
        async with anyio.create_task_group() as group:
            for _ in range(module._MOST_REQUESTS + 5):  # noqa: SLF001
                group.start_soon(call)
            while len(found) < 5:  # of the requests beyond the limit, which do not wait
                await anyio.sleep(0.001)
            go_on.set()  # the event loop runs: this line is reached
    assert (found.count(503), found.count(200)) == (5, module._MOST_REQUESTS)  # noqa: SLF001


@pytest.mark.anyio
async def test_bodies_are_limited(approvals: Approvals, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    caller = Caller(approvals_app(approvals, lambda scope: "ada", origins=[ORIGIN]))
    path, headers = f"/approvals/request/{request.id}", {"content_type": "application/json", "origin": ORIGIN}
    assert (await caller.call("POST", path, [b" " * 40_000] * 3, **headers))[0] == 413
    monkeypatch.setattr(module, "BODY_SECONDS", 0.05)
    endless = Caller(caller.app)
    with anyio.fail_after(patience(20)):
        assert (await endless.call("POST", path, [], **headers))[0] == 408
    assert approvals.get(request.id).state == "waiting"
    assert (await caller.call("POST", path, [b'{"action"', b': "allow"}'], **headers))[0] == 200


@pytest.mark.anyio
@pytest.mark.parametrize("root", ["", "/approvals", "/a/b"])
@pytest.mark.parametrize("whole", [True, False], ids=["the path contains the mount", "it does not"])
async def test_paths_of_mounts(approvals: Approvals, root: str, whole: bool) -> None:
    caller = Caller(approvals_app(approvals, lambda scope: "ada", origins=[ORIGIN]), root)
    before = root if whole else ""
    assert (await caller.call("GET", f"{before}/"))[0] == 200
    assert (await caller.call("GET", f"{before}/requests"))[0] == 200
    assert (await caller.call("GET", f"{before}/../requests"))[0] == 404
    assert (await caller.call("PUT", f"{before}/requests"))[0] == 405
    if root:
        assert (await caller.call("GET", before))[0] == 308


@pytest.mark.anyio
async def test_a_client_that_goes_away_and_other_protocols(approvals: Approvals) -> None:
    app = approvals_app(approvals, lambda scope: "ada", origins=[ORIGIN])
    for kind, events, answers in (
        ("http", ["http.disconnect"], []),
        (
            "lifespan",
            ["lifespan.startup", "lifespan.shutdown"],
            ["lifespan.startup.complete", "lifespan.shutdown.complete"],
        ),
        ("websocket", ["websocket.connect"], ["websocket.close"]),
    ):
        waiting = [{"type": event} for event in events]
        sent: list[str] = []

        async def receive(waiting: list[dict[str, str]] = waiting) -> dict[str, str]:
            return waiting.pop(0)

        async def send(message: Any, sent: list[str] = sent) -> None:
            sent.append(message["type"])

        await app({"type": kind, "method": "POST", "path": "/x", "headers": []}, receive, send)
        assert (sent, waiting) == (answers, [])
