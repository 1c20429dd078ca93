"""Announcements of requests: signed webhooks and notifiers, delivered at least once."""

from __future__ import annotations

import json
import logging
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from standardwebhooks import Webhook as Checker
from standardwebhooks import WebhookVerificationError

from hackamore import Allow, ApprovalError, Approvals, Deny
from hackamore.approvals import Webhook
from hackamore.approvals.delivering import Courier, named
from hackamore.approvals.requests import KIND
from hackamore.runtime import private_loop
from hackamore.storage.postgres_store import open_store
from tests.approvals.announced import COMMAND, REASON, ask, call
from tests.approvals.receiving import SECRET, Receiver
from tests.contract import shows
from tests.support.leaks import join_library_threads, nothing_left
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.approvals import ApprovalRequest
    from tests.support.servers import Postgres

PROJECT = Path(__file__).resolve().parents[2]
OTHER = "whsec_" + "QUJD" * 11 + "QUI="


class Noting:
    """A notifier that keeps its messages, and raises as often as asked."""

    def __init__(self, failures: int = 0, *, content: bool = False) -> None:
        self.failures = failures
        self.content = content
        self.got: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("POST https://hooks.example/T1/geheim failed")
        self.got.append(message)

    @property
    def events(self) -> list[str]:
        return [each["event"] for each in self.got]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "approvals.db")
    server: Postgres = request.getfixturevalue("postgres_server")
    return f"{server.url}?schema=test_{secrets.token_hex(6)}"


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if a test leaves a thread or a descriptor; servers and the loop of async notifiers stay for the next tests."""
    private_loop.run(anyio.sleep, 0)
    if "postgres" in request.node.name:
        request.getfixturevalue("postgres_server")
    with nothing_left():
        yield


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Approvals]]:
    """Return a function that opens a database, as another program does."""
    with ExitStack() as stack:

        def opens(at: str = str(tmp_path / "approvals.db"), **more: Any) -> Approvals:
            return stack.enter_context(closing(Approvals(at, **more)))

        yield opens


@pytest.fixture
def later(tmp_path: Path) -> Iterator[Callable[..., Courier]]:
    """Return a function that opens what delivers in another process, whose clock is set."""
    with ExitStack() as stack:

        def opens(notifier: Any, clock: Callable[[], float], at: str = str(tmp_path / "approvals.db")) -> Courier:
            store = stack.enter_context(closing(open_store(KIND, at)))
            courier = Courier(store, named([notifier]), lambda: None)
            courier.clock = clock
            return courier

        yield opens


def rows(place: object, statement: str) -> list[Any]:
    with closing(open_store(KIND, str(place))) as store:
        return store.transaction(lambda cursor: cursor.rows(statement))


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Receiver()
    yield found
    found.stop()


@contextmanager
def waiting(approvals: Approvals) -> Iterator[ApprovalRequest]:
    """Ask a person about a call that waits during the block."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(anyio.run(approvals.permit, call())), daemon=True)
    thread.start()
    until = time.monotonic() + patience(30)
    while not (found := approvals.pending()):
        assert time.monotonic() < until
        time.sleep(0.02)  # another thread asks
    try:
        yield found[0]
    finally:
        if approvals.pending():
            approvals.answer(found[0].id, Deny("The test is over."), by="test")
        thread.join(patience(30))
    assert answers


@shows("approvals.notify.signed")
def test_a_webhook_is_signed_by_the_standard_and_has_no_content(opened: Any, receiver: Receiver) -> None:
    receiver.start()
    approvals = opened(
        hold=0, notify=[Webhook(receiver.url, [OTHER, SECRET], links="https://agents.example/approvals/")]
    )
    request = ask(approvals)
    [got] = receiver.wait()  # `standardwebhooks` has accepted its signature
    assert got.path == "/hook?key=geheim"
    assert got.body["type"] == "approval.asked"
    assert got.body["data"] == {
        "event": "asked",
        "id": request.id,
        "kind": "tool",
        "tool": "Bash",
        "conversation": request.conversation,
        "reason": "The rule 'net' asks about `...`.",
        "approvers": None,
        "asked_at": request.asked_at,
        "deadline": request.deadline,
        "link": f"https://agents.example/approvals/#{request.id}",
    }
    assert "geheim" not in json.dumps(got.body)
    # A receiver with one of the two secrets accepts the message, and no other.
    body = json.dumps(got.body, separators=(",", ":"))
    Checker(OTHER).verify(body, got.headers)
    with pytest.raises(WebhookVerificationError):
        Checker(OTHER).verify(body.replace("Bash", "Read"), got.headers)
    with pytest.raises(WebhookVerificationError):
        Checker("whsec_" + "QUJE" * 11).verify(body, got.headers)


@shows("approvals.notify.content")
def test_content_is_sent_only_if_asked_for(opened: Any) -> None:
    brief, whole = Noting(), Noting(content=True)
    whole.name = "whole"  # type: ignore[attr-defined]
    approvals = opened(hold=0, notify=[brief, whole], tags={"team": "web"})
    ask(approvals)
    approvals.close()
    assert "geheim" not in json.dumps(brief.got)
    assert "input" not in brief.got[0]
    assert whole.got[0]["input"] == {"command": COMMAND}
    assert (whole.got[0]["reason"], whole.got[0]["tags"]) == (REASON, {"team": "web"})


@shows("approvals.notify.events")
def test_question_and_answer_are_announced_while_a_callback_waits_and_no_thread_is_left(opened: Any) -> None:
    notifier = Noting()
    approvals = opened(notify=[notifier])
    with waiting(approvals) as request:
        until = time.monotonic() + patience(30)
        while not notifier.got:
            assert time.monotonic() < until
            time.sleep(0.02)  # a thread of the object sends
        # This program has no notifier.
        opened().answer(request.id, Allow(), by="ada")
    approvals.close()
    assert not [each.name for each in threading.enumerate() if each.name == "hackamore-heart"]
    assert notifier.events == ["asked", "answered"]
    assert (notifier.got[1]["answer"], notifier.got[1]["answered_by"]) == ("allow", "ada")


@shows("approvals.notify.events")
def test_a_request_that_nobody_answers_is_announced_again_and_its_end_too(
    opened: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=time.time(), monotonic=time.monotonic)
    clock.time = lambda: clock.now
    monkeypatch.setattr("hackamore.approvals.approvals.time", clock)
    notifier = Noting()
    approvals = opened(place, hold=0, notify=[notifier], remind=100, timeout=1_000)
    approvals._courier.clock = clock.time  # noqa: SLF001
    ask(approvals)
    for seconds, event in ((0, "asked"), (100, "reminder"), (900, "expired")):
        clock.now += seconds
        until = time.monotonic() + patience(30)
        while event not in notifier.events:
            assert time.monotonic() < until
            approvals.deliver(0)  # a thread of the callback may have been faster
    assert notifier.events == ["asked", "reminder", "expired"]
    assert (notifier.got[2]["answer"], notifier.got[2]["answered_by"]) == ("deny", "deadline")
    assert approvals.deliver(0) == 0


@shows("approvals.notify.events")
def test_an_answer_that_no_callback_waits_for_is_announced_by_close(opened: Any) -> None:
    notifier = Noting()
    approvals = opened(hold=0, notify=[notifier])
    request = ask(approvals)
    assert join_library_threads() == []  # those of the callback rest
    approvals.answer(request.id, Allow(), by="ada")
    approvals.close()
    assert notifier.events == ["asked", "answered"]


@shows("approvals.notify.events")
def test_there_is_no_reminder_of_a_request_that_was_answered_or_withdrawn(opened: Any, later: Any) -> None:
    notifier = Noting()
    approvals = opened(hold=0, notify=[notifier], remind=1_000)
    first, second = ask(approvals, call("one")), ask(approvals, call("two"))
    approvals.answer(first.id, Allow(), by="ada")
    approvals.withdraw(second.id)
    approvals.close()
    later(notifier, lambda: time.time() + 2_000).deliver(0)
    assert sorted(notifier.events) == ["answered", "asked", "asked", "withdrawn"]


@shows("approvals.notify.down")
def test_a_receiver_that_was_down_for_an_hour_gets_everything_afterwards(
    opened: Any, receiver: Receiver, place: str, later: Any
) -> None:
    hook = Webhook(receiver.url, SECRET, name="hook")
    approvals = opened(place, hold=0, notify=[hook])
    requests = [ask(approvals, call(f"echo {number}")) for number in range(3)]
    approvals.answer(requests[0].id, Allow(), by="ada")
    approvals.close()  # also its last round finds nobody
    began, passed = time.time(), 0.0
    worker, tries = later(hook, lambda: began + passed, place), []
    while passed < 3_600:
        worker.deliver(0)
        passed += 10
        [(number,)] = rows(place, "SELECT SUM(tries) FROM deliveries")
        tries.append(number)
    assert receiver.got == []
    assert 3 * 12 <= tries[-1] <= 3 * 45  # back-off: seconds in the beginning, minutes later
    receiver.start()
    passed += 300
    worker.deliver(0)
    events = [each.event for each in receiver.got]
    assert sorted(events) == sorted([*((each.id, "asked") for each in requests), (requests[0].id, "answered")])
    assert events.index((requests[0].id, "asked")) < events.index((requests[0].id, "answered"))


@shows("approvals.notify.down")
@pytest.mark.parametrize("status", [500, 429, 301, 307])
def test_a_message_that_is_not_accepted_is_sent_again_with_its_id(
    opened: Any, receiver: Receiver, status: int, later: Any
) -> None:
    receiver.start().statuses.append(status)
    hook = Webhook(receiver.url, SECRET)
    approvals = opened(hold=0, notify=[hook])
    ask(approvals)
    receiver.wait()
    approvals.close()
    later(hook, lambda: time.time() + 60).deliver(0)
    first, second = receiver.got
    assert first.id == second.id
    assert first.path == second.path  # a redirect is not followed
    later(hook, lambda: time.time() + 6_000).deliver(0)
    assert len(receiver.got) == 2


@shows("approvals.notify.gone")
def test_a_receiver_that_answers_410_gets_the_message_not_again(
    opened: Any, receiver: Receiver, caplog: pytest.LogCaptureFixture, later: Any
) -> None:
    receiver.start().statuses.append(410)
    hook = Webhook(receiver.url, SECRET)
    approvals = opened(hold=0, notify=[hook])
    ask(approvals)
    receiver.wait()
    approvals.close()
    later(hook, lambda: time.time() + 6_000).deliver(0)
    assert len(receiver.got) == 1
    assert "410" in caplog.text


@shows("approvals.notify.hangs")
@pytest.mark.parametrize("slowly", [False, True], ids=["silent", "one byte at a time"])
def test_a_receiver_that_hangs_holds_up_no_other_and_no_answer(
    opened: Any, receiver: Receiver, slowly: bool, tmp_path: Path
) -> None:
    over = threading.Event()

    def trickle(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
        while not over.wait(0.05):
            handler.wfile.write(b"y")

    if slowly:
        receiver.statuses.append(trickle)
    else:
        receiver.hold.clear()
    receiver.start()
    notifier = Noting()
    approvals = opened(notify=[Webhook(receiver.url, SECRET, timeout=0.5), notifier])
    with waiting(approvals) as request:
        receiver.wait()
        approvals.answer(request.id, Allow(), by="ada")
    approvals.close()
    over.set()
    assert notifier.events == ["asked", "answered"]
    [asked] = rows(tmp_path / "approvals.db", "SELECT tries, claimed, error FROM deliveries WHERE event = 'asked'")
    assert asked[0] >= 1
    assert asked[1] is None
    assert "cannot be reached" in asked[2]


@shows("approvals.notify.errors")
def test_errors_of_notifiers_are_logged_without_addresses_and_break_nothing(
    opened: Any, caplog: pytest.LogCaptureFixture, later: Any
) -> None:
    class Ending(Noting):
        def send(self, message: dict[str, Any]) -> None:
            super().send(message)
            if len(self.got) == 1:
                raise SystemExit(3)

    notifier, ending = Noting(failures=1), Ending()
    approvals = opened(notify=[notifier, ending])
    with caplog.at_level(logging.WARNING), waiting(approvals) as request:
        approvals.answer(request.id, Allow(), by="ada")
    approvals.close()
    for each in (notifier, ending):
        later(each, lambda: time.time() + 600).deliver(0)
    assert notifier.events == ["asked", "answered"]
    assert ending.events == ["asked", "asked", "answered"]
    assert "RuntimeError: POST https://hooks.example/... failed" in caplog.text
    assert "geheim" not in caplog.text


@shows("approvals.notify.errors")
def test_an_async_notifier_runs_in_one_loop(opened: Any) -> None:
    got: list[tuple[int, str]] = []

    class Client:
        async def send(self, message: dict[str, Any]) -> None:
            import asyncio

            await asyncio.sleep(0)
            got.append((id(asyncio.get_running_loop()), message["event"]))

    approvals = opened(hold=0, notify=[Client()])
    approvals.answer(ask(approvals).id, Allow(), by="ada")
    approvals.close()
    assert [event for _, event in got] == ["asked", "answered"]
    assert len({loop for loop, _ in got}) == 1


def program(place: str, receiver: Receiver) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.approvals.receiving", place, receiver.url]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PROJECT, text=True)
    assert started.stdout is not None
    assert started.stdout.readline().startswith("ready")
    return started


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    with process:
        process.wait()


@shows("approvals.notify.killed")
def test_a_message_of_a_process_that_was_killed_with_sigkill_is_sent_by_another_one(
    opened: Any, receiver: Receiver, place: str
) -> None:
    quiet = Noting(failures=1)
    quiet.name = "hook"  # type: ignore[attr-defined]
    approvals = opened(place, hold=0, notify=[quiet])
    ask(approvals)
    approvals.close()
    rows(place, "UPDATE deliveries SET due = 0 WHERE event = 'asked'")
    receiver.hold.clear()
    receiver.start()
    killed = program(place, receiver)
    [first] = receiver.wait()
    # It is being delivered: no other process sends it.
    assert opened(place, notify=[Webhook(receiver.url, SECRET, name="hook")]).deliver(0) == 0
    ended(killed)  # SIGKILL, before the answer of the receiver
    receiver.hold.set()
    assert opened(place, notify=[Webhook(receiver.url, SECRET, name="hook")]).deliver(0) == 1
    [second] = receiver.wait()
    assert first.id == second.id
    assert opened(place, notify=[Webhook(receiver.url, SECRET, name="hook")]).deliver(0) == 0


@shows("approvals.notify.once")
def test_of_two_processes_that_deliver_one_sends_each_message_once(opened: Any, receiver: Receiver, place: str) -> None:
    quiet = Noting(failures=10**6)
    quiet.name = "hook"  # type: ignore[attr-defined]
    approvals = opened(place, hold=0, notify=[quiet])
    requests = [ask(approvals, call(f"echo {number}")) for number in range(12)]
    approvals.close()
    for each in requests:
        approvals.answer(each.id, Allow(), by="ada")
    rows(place, "UPDATE deliveries SET due = 0")
    receiver.start()
    both = [program(place, receiver) for _ in range(2)]
    try:
        got = receiver.wait(2 * len(requests))
        opened(place, notify=[Webhook(receiver.url, SECRET, name="hook")]).deliver(0)
    finally:
        for process in both:
            ended(process)
    assert set(Counter(each.id for each in got).values()) == {1}
    assert len(receiver.got) == 2 * len(requests)


@shows("approvals.notify.signed")
def test_errors_and_texts_of_a_webhook_show_neither_secret_nor_address(receiver: Receiver) -> None:
    hook = Webhook(receiver.url, SECRET)
    assert "geheim" not in repr(hook)
    with pytest.raises(ApprovalError) as caught:
        hook.send({"id": "a", "event": "asked"})
    shown = f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    assert "geheim" not in shown
    assert SECRET not in shown
    unusable: list[Any] = ["", "geheim", "whsec_geheim", "whsec_c2hvcnQ=", SECRET.removeprefix("whsec_"), []]
    for secret in unusable:
        with pytest.raises(ValueError) as refused:
            Webhook(receiver.url, secret)
        assert "geheim" not in str(refused.value)
    for url in (
        "ftp://a.example/",
        "https://",
        "https://a:geheim@b.example/",
        "https://a.example/\r\nx: y",
        "a.example",
    ):
        with pytest.raises(ValueError) as refused:
            Webhook(url, SECRET)
        assert "geheim" not in str(refused.value)
    times: list[Any] = [0, None, -1, 61, float("inf")]
    for seconds in times:
        with pytest.raises(ValueError, match="timeout"):
            Webhook(receiver.url, SECRET, timeout=seconds)


def refused(hook: Webhook) -> None:
    with pytest.raises(ApprovalError):
        hook.send({"id": "a", "event": "asked"})


@shows("approvals.notify.signed")
def test_a_webhook_goes_through_the_proxy_of_the_environment(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.start()
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{receiver.port}")
    Webhook("http://hooks.example/approvals?a=b", SECRET).send({"id": "a", "event": "asked"})
    assert [each.path for each in receiver.got] == ["http://hooks.example/approvals?a=b"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("https_proxy", f"http://ada:p%40ss@127.0.0.1:{listening.getsockname()[1]}")
        hook = Webhook("https://hooks.example/x", SECRET, timeout=10)
        thread = threading.Thread(target=refused, args=(hook,))
        thread.start()
        connection, _ = listening.accept()
        with connection:
            head = connection.recv(65_536).decode()
        thread.join()
    assert head.startswith("CONNECT hooks.example:443 ")
    assert "Proxy-Authorization: Basic YWRhOnBAc3M=" in head


def test_notifiers_need_a_method_and_names_of_their_own(opened: Any) -> None:
    with pytest.raises(TypeError, match="send"):
        opened(notify=[object()])
    with pytest.raises(ValueError, match="'Noting'"):
        opened(notify=[Noting(), Noting()])
