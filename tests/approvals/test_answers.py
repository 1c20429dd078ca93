"""Answers: who may give one, which one counts, and for which call."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from hackamore import Allow, ApprovalError, Approvals, Deny
from hackamore.checked.functions import Reach
from hackamore.errors import DecodeError
from hackamore.permissions import decode_permission_request
from tests.approvals.asking import answered_with, asked, first_pending, running
from tests.contract import shows
from tests.support.forking import Fork
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.approvals import ApprovalRequest

PROJECT = Path(__file__).resolve().parents[2]
SECRET = "the-secret-of-the-input"

ANSWERING = """
import sys
from hackamore import Allow, ApprovalError, Approvals
approvals = Approvals(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    approvals.answer(sys.argv[2], Allow(), by=sys.argv[3])
except ApprovalError as error:
    print("refused", error.request.answered_by, error)
else:
    print("counted")
"""


def cold(approvals: Approvals, **given: Any) -> ApprovalRequest:
    """Return a request whose callback is gone."""

    async def ask() -> None:
        answer = await approvals.permit(asked(**given))
        assert isinstance(answer, Deny)
        assert answer.interrupt

    anyio.run(ask)
    return approvals.pending()[-1]


@shows("approvals.first")
def test_two_people_answer_from_two_processes(opened_at: Callable[..., Approvals], address: str) -> None:
    approvals = opened_at(hold=0)
    for _ in range(3):
        request = cold(approvals, command=f"make {os.urandom(4).hex()}")
        people = [
            subprocess.Popen(
                [sys.executable, "-c", ANSWERING, address, request.id, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=PROJECT,
            )
            for name in ("ada", "bob")
        ]
        for person in people:
            assert person.stdout is not None
            assert person.stdout.readline() == "ready\n"
        for person in people:
            assert person.stdin is not None
            person.stdin.write("\n")
            person.stdin.flush()
        said = {
            name: person.communicate(timeout=patience(30))[0]
            for name, person in zip(("ada", "bob"), people, strict=False)
        }
        [first] = [name for name, text in said.items() if text == "counted\n"]
        [other] = {"ada", "bob"} - {first}
        assert said[other].startswith(f"refused {first} The request '{request.id}' was allowed by '{first}' before.")
        assert approvals.get(request.id).answered_by == first


@shows("approvals.late")
@pytest.mark.parametrize("when", ["used", "deadline", "withdrawn"])
def test_a_late_answer_is_refused(opened_at: Callable[..., Approvals], when: str) -> None:
    async def scenario() -> None:
        request = asked()
        if when == "used":
            assert await answered_with(approvals, request, Deny("No.")) == Deny("No.")
        elif when == "deadline":
            assert await approvals.permit(request) == Deny("No person answered in time.")
        else:
            result: list[object] = []
            async with anyio.create_task_group() as group:

                async def ask() -> None:
                    result.append(await approvals.permit(request))

                group.start_soon(ask)
                approvals.withdraw((await first_pending(approvals)).id)
            assert result == [Deny("The request for this call was cancelled. It has not run.")]

    approvals = opened_at(timeout=0.2 if when == "deadline" else 60)
    anyio.run(scenario)
    [record] = approvals.history()
    with pytest.raises(ApprovalError) as caught:
        approvals.answer(record.id, Allow(), by="bob")
    error = caught.value
    wanted = {
        "used": ("ada", "was answered by 'ada' before"),
        "deadline": ("deadline", f"The request '{record.id}' timed out"),
        "withdrawn": (None, "is withdrawn, so `answer` is not possible"),
    }[when]
    assert error.request.answered_by == wanted[0]
    assert wanted[1] in str(error)
    assert approvals.get(record.id) == record


@shows("approvals.deadline")
def test_a_deadline_that_nobody_waited_for(
    opened_at: Callable[..., Approvals], monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals = opened_at(hold=0, timeout=1_000, otherwise="interrupt")
    request = cold(approvals)
    later = SimpleNamespace(time=lambda: time.time() + 1_000, monotonic=time.monotonic)
    monkeypatch.setattr("hackamore.approvals.approvals.time", later)
    assert approvals.pending() == []
    assert approvals.get(request.id).answer == Deny("No person answered in time.", interrupt=True)
    with pytest.raises(ApprovalError, match="timed out") as caught:
        approvals.answer(request.id, Allow(), by="bob")
    assert caught.value.request.answered_by == "deadline"


@shows("approvals.people")
def test_a_stranger_sees_nothing(opened_at: Callable[..., Approvals]) -> None:
    approvals = opened_at(hold=0, approvers=lambda request: ["ada", "admins"])
    request = cold(approvals)
    assert approvals.pending(by="eve") == approvals.history(by="eve") == []
    assert approvals.pending(by="ada") == approvals.pending(by="bob", groups=["admins"]) == [request]
    with pytest.raises(ApprovalError) as foreign:
        approvals.answer(request.id, Allow(), by="eve", groups=["ad"])
    with pytest.raises(ApprovalError) as unknown:
        approvals.answer("nothing", Allow(), by="eve")
    assert str(foreign.value).replace(request.id, "nothing") == str(unknown.value)
    assert foreign.value.request is None
    assert approvals.answer(request.id, Allow(), by="bob", groups=["admins"]).answered_by == "bob"


@shows("approvals.people")
@pytest.mark.parametrize("by", ["", "deadline", "a\0b", "a\nb", 7, None])
def test_names_that_nobody_has(opened: Callable[..., Approvals], by: Any) -> None:
    approvals = opened(hold=0)
    with pytest.raises(ValueError, match="must be the name of the person"):
        approvals.answer(cold(approvals).id, Allow(), by=by)


@pytest.mark.parametrize("what", ["approvers", "tags"])
@pytest.mark.parametrize("found", ["ada", b"ada", [7], {"a": 1}, 7])
def test_approvers_and_tags_of_another_type(opened: Callable[..., Approvals], what: str, found: Any) -> None:
    if what == "approvers" and isinstance(found, dict):
        found = [None]
    with pytest.raises((TypeError, ValueError)):
        opened(**{what: found})
    approvals = opened(**{what: lambda request: found})
    with pytest.raises((TypeError, ValueError)):
        anyio.run(approvals.permit, asked())
    assert approvals.pending() == []


# -- the call that the person saw --------------------------------------------------------------------------------------


def in_place(path: Path) -> None:
    before = path.stat()
    path.write_text("B" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def retarget(link: Path) -> None:
    link.unlink()
    link.symlink_to("b")


def into_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a link leads elsewhere": ("link/new", lambda at: retarget(at / "link")),
    "the content of a file": ("file", lambda at: (at / "file").write_text("changed")),
    "the content, with the time of before": ("file", lambda at: in_place(at / "file")),
    "a large file, with the time of before": ("large", lambda at: in_place(at / "large")),
    "a file appears": ("missing", lambda at: (at / "missing").write_text("x")),
    "a file appears in a command": ("cat missing", lambda at: (at / "missing").write_text("x")),
    "a quoted name in a command": ('cat "a name"', lambda at: (at / "a name").write_text("changed")),
    "a file among many": (f"ls {'x ' * 5_000} file", lambda at: (at / "file").write_text("changed")),
    "a file is gone": ("file", lambda at: (at / "file").unlink()),
    "a file becomes a folder": ("file", lambda at: into_folder(at / "file")),
    "a file of a list": ("files", lambda at: (at / "file").write_text("changed")),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (at := tmp_path / "at").mkdir()
    for name in ("a", "b"):
        (at / name).mkdir()
    os.symlink("a", at / "link")
    (at / "file").write_text("A" * 100)
    (at / "a name").write_text("A")
    with (at / "large").open("wb") as large:
        large.truncate(9 * 1024 * 1024)
    return at


@shows("approvals.changed")
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_call_is_asked_again(opened: Callable[..., Approvals], change: str, place: Path) -> None:
    name, do = CHANGES[change]
    given: dict[str, Any] = {"command": name} if " " in name else {"path": name}
    if name == "files":
        given = {"files": ["a", {"more": ["file"]}]}
    approvals = opened()
    answer = anyio.run(
        partial(
            answered_with,
            approvals,
            asked("mcp__tools__do", **given),
            Allow(),
            Deny("No."),
            before=lambda: do(place),
            cwd=str(place),
        )
    )
    assert answer == Deny("No.")
    second, first = approvals.history()
    assert (first.state, first.used_at, second.state) == ("changed", None, "used")
    assert second.follows == first.id


@shows("approvals.changed")
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Read", {"file_path": "file"}),
        ("Bash", {"command": "cat /proc/uptime /proc/meminfo"}),
        ("Bash", {"command": "wc /dev/null fifo"}),
    ],
)
def test_a_file_that_always_changes_can_be_allowed(
    opened: Callable[..., Approvals], tool: str, given: dict[str, Any], place: Path
) -> None:
    os.mkfifo(place / "fifo")
    approvals = opened()
    grows = lambda: (place / "file").write_text("more")  # noqa: E731
    answer = anyio.run(partial(answered_with, approvals, asked(tool, **given), Allow(), before=grows, cwd=str(place)))
    assert answer == Allow()


@shows("approvals.same")
def test_which_call_of_a_resumed_conversation_has_the_answer(opened_at: Callable[..., Approvals]) -> None:
    approvals = opened_at(hold=0)
    first = cold(approvals, command="make")
    assert cold(opened_at(hold=0), command="make") == approvals.get(first.id)  # equal: the same request
    other = cold(approvals, command="make clean")
    assert (other.follows, other.id == first.id) == (first.id, False)
    assert cold(approvals, tool="Write", file_path="x").follows is None
    elsewhere = cold(approvals, conversation="another", command="make")
    assert elsewhere.id != first.id
    approvals.answer(first.id, Allow(), by="ada")
    assert anyio.run(opened_at(hold=0).permit, asked(command="make")) == Allow()
    assert cold(approvals, command="make").id != first.id  # a yes counts once


@shows("approvals.same")
def test_equal_calls_at_the_same_time_are_two_requests(opened_at: Callable[..., Approvals]) -> None:
    approvals, other = opened_at(), opened_at()

    async def scenario() -> list[object]:
        answers: list[object] = []

        async def ask(broker: Approvals) -> None:
            answers.append(await broker.permit(asked(command="make")))

        async with anyio.create_task_group() as group:
            group.start_soon(ask, approvals)
            await first_pending(approvals)
            group.start_soon(ask, other)
            await first_pending(approvals, 2)
            one, two = approvals.pending()
            await anyio.to_thread.run_sync(partial(approvals.answer, one.id, Allow(), by="ada"))
            while not answers:
                await anyio.sleep(0.01)
            assert [each.id for each in approvals.pending()] == [two.id]
            approvals.answer(two.id, Deny("Once."), by="ada")
        return answers

    assert anyio.run(scenario) == [Allow(), Deny("Once.")]


@shows("approvals.same")
def test_sessions_of_no_known_conversation_share_nothing(opened: Callable[..., Approvals]) -> None:
    unknown: Any = SimpleNamespace(session_id=None, state=SimpleNamespace(name="READY"))
    approvals = opened(hold=0)  # without a conversation no later call can have the answer: it is held

    async def scenario() -> None:
        request = partial(asked, conversation=None, session=unknown)
        with anyio.move_on_after(patience(0.5)):
            await approvals.permit(request())
        assert await answered_with(approvals, request(), Deny("No.")) == Deny("No.")

    anyio.run(scenario)
    assert len(approvals.history()) == 2
    assert approvals.claim() is None


# -- texts -------------------------------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@shows("approvals.unshowable")
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"content": "x" * 10_000_000}, "has 10,000,014 bytes, more than the 1,048,576 that a person can review"),
        ({"content": nested(100_000)}, "deep"),
        ({"content": float("inf")}, "has a number that is too large"),
    ],
    ids=["large", "deep", "large number"],
)
def test_inputs_that_no_person_can_be_shown(opened_at: Callable[..., Approvals], given: Any, problem: str) -> None:
    approvals = opened_at(hold=0)
    text = json.dumps({"content": "P"}).replace(
        '"P"',
        json.dumps(given["content"]).replace("Infinity", "1e400")
        if problem != "deep"
        else "[" * 100_000 + "]" * 100_000,
    )
    frame = b'{"tool_name": "Write", "tool_use_id": "c", "input": ' + text.encode() + b"}"

    async def ask() -> object:
        request = decode_permission_request(frame, session=Reach(running, "talk"))
        return await approvals.permit(request)

    with pytest.raises((ApprovalError, DecodeError, ValueError, RecursionError)) as caught:
        anyio.run(ask)
    assert problem in str(caught.value)
    assert approvals.pending() == []


@shows("approvals.unshowable")
@pytest.mark.parametrize(
    "given", [{"a\0b": "\0"}, {"x": "\u202e\x1b[2J"}, {"deep": nested(400)}, {"n": [2**63, -(2**63), 1e300, 10**400]}]
)
def test_awkward_inputs_are_kept_as_they_are(opened_at: Callable[..., Approvals], given: Any) -> None:
    approvals = opened_at(hold=0)
    request = cold(approvals, **given)
    assert request.input == given
    approvals.answer(request.id, Allow({**given, "more": 1}), by="ada")
    assert anyio.run(opened_at(hold=0).permit, asked(**given)) == Allow({**given, "more": 1})


@shows("approvals.private")
def test_errors_and_logs_show_no_input_and_no_password(postgres_address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = postgres_address.replace("tester@", "tester:the-password@")
    approvals = Approvals(url, hold=0)
    request = cold(approvals, command=SECRET)
    approvals.answer(request.id, Allow(), by="ada")
    with pytest.raises(ApprovalError) as caught:
        approvals.answer(request.id, Allow(), by="bob")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (str(error), error.request) == (str(caught.value), caught.value.request)
    assert error.request.input == {"command": SECRET}
    with pytest.raises(ApprovalError) as lost:
        Approvals(url.replace("127.0.0.1", "nowhere.invalid"))
    shown = repr([approvals, error, request, lost.value, str(lost.value)]) + caplog.text
    assert SECRET not in shown
    assert "the-password" not in shown
    assert request.id in shown
    approvals.close()


def test_a_fork_shares_the_database(opened_at: Callable[..., Approvals]) -> None:
    approvals = opened_at(hold=0)
    request = cold(approvals)

    def child() -> None:
        assert approvals.answer(request.id, Allow(), by="child").answered_by == "child"
        assert anyio.run(approvals.permit, asked()) == Allow()

    Fork(lambda _: child()).wait()
    [record] = approvals.history()
    assert (record.state, record.answered_by) == ("used", "child")
