"""Each call of the journal writes what it is for, and nothing else: neither of other attempts nor of other tasks."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from hackamore.fleet.journal import Lease
from hackamore.fleet.journal import journal as module
from hackamore.fleet.states import Cause, Opening, Trigger
from hackamore.fleet.task import Spec
from hackamore.storage.holders import holder_name
from tests.support.journals import next_due

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.fleet.journal import Journal

ME, OTHER = holder_name(), holder_name()
ELSEWHERE = "linux:elsewhere:pid:[4026531836]|7|9|0badcafe"
"""A worker on another machine, which is gone: it sends no heartbeats."""
KEYS = {"tasks": 1, "attempts": 2, "totals": 1, "holders": 1, "facts": 1}
"""Tables, and the number of columns that name a row."""
Rows: TypeAlias = "dict[tuple[object, ...], dict[str, object]]"
Writes: TypeAlias = "tuple[dict[tuple[object, ...], dict[str, object] | None], list[tuple[object, ...]]]"


def snapshot(journal: Journal) -> Rows:
    """Return each row of the journal, by its table and key."""

    def rows(statement: str, **values: object) -> list[tuple[Any, ...]]:
        return journal.store.look(lambda cursor: cursor.rows(statement, **values))

    names = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = :table "
        "ORDER BY ordinal_position"
        if "://" in journal.store.address
        else "SELECT name FROM pragma_table_info(:table) ORDER BY cid"
    )
    found: Rows = {}
    for table, size in KEYS.items():
        columns = [name for (name,) in rows(names, table=table)]
        for row in rows(f"SELECT * FROM {table}"):
            values = dict(zip(columns, row, strict=True))
            values.pop("number", None)
            key = [values.pop("id")] if "id" in values else [values.pop(name) for name in list(values)[:size]]
            found[table, *key] = values
    return found


def writes(journal: Journal, call: Callable[[], object]) -> Writes:
    """Return the values that a call changes, and the changes of states that it records."""
    before, last = snapshot(journal), journal.last_change()
    call()
    after = snapshot(journal)
    found: dict[tuple[object, ...], dict[str, object] | None] = {key: None for key in before if key not in after}
    for key, row in after.items():
        old = before.get(key)
        changed = {name: value for name, value in row.items() if (value != old[name] if old else value)}
        if changed:
            found[key] = changed
    return found, [
        (each.at, each.task, each.attempt, each.state, each.cause, each.note) for each in journal.changes(last)
    ]


class Clock:
    """The time that the journal writes down."""

    now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock, sessions, signs = Clock(), itertools.count(1), itertools.count(1)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "sign", lambda: next(signs))
    monkeypatch.setattr(module, "uuid", SimpleNamespace(uuid4=lambda: f"session-{next(sessions)}"))
    return clock


def take(journal: Journal, task: str, holder: str, now: float = 1e9) -> Lease:
    [lease] = journal.lease(holder, 1, {task}, now)
    return lease


def begun(journal: Journal, task: str, holder: str = ME) -> Lease:
    lease = take(journal, task, holder)
    assert journal.begin(lease, holder, trace=f"{task}.jsonl")
    return lease


@pytest.fixture
def crowd(journal: Journal, clock: Clock) -> dict[str, Lease]:
    """Return the last attempts of tasks in all states. Workers elsewhere were killed while they made the first of `a`, `b` and `c`."""
    journal.add([(name, Spec(prompt=f"Do {name}")) for name in ("a", "b", "c", "waits", "failed", "done", "queued")])
    for name in "abc":
        lease = begun(journal, name, ELSEWHERE)
        journal.note(lease, ELSEWHERE, said=True, process=f"cli {name}", folder=f"/{name}", usd=5, tokens=3)
    assert journal.reclaim(ME) == 3
    clock.now = 1005.0
    found = {"a": begun(journal, "a", OTHER)}
    clock.now = 1010.0
    found |= {"b": begun(journal, "b"), "c": take(journal, "c", ME)}
    crashed: dict[str, Any] = {"cause": Cause.CRASH, "error": "It crashed.", "counted": True, "not_before": 5000.0}
    refused: dict[str, Any] = {"cause": Cause.VERIFY, "error": "Wrong.", "counted": True, "feedback": "Correct it."}
    for name, trigger, more in (
        ("waits", Trigger.POSTPONED, crashed),
        ("failed", Trigger.GAVE_UP, refused),
        ("done", Trigger.ACCEPTED, {}),
    ):
        lease = found[name] = begun(journal, name)
        journal.note(lease, ME, said=True)
        journal.answer(lease, ME, text="Done.", output=None, usd=1, tokens=1)
        journal.finish(lease, ME, trigger, **more)
    for holder in (ME, OTHER):
        journal.beat(holder)
    clock.now = 1100.0
    return found


def test_a_lease_writes_its_attempt(journal: Journal, crowd: dict[str, Lease]) -> None:
    leases: list[Lease] = []
    journal.retry(["failed"])
    names = {"waits", "failed", "queued", "done"}
    assert writes(journal, lambda: leases.extend(journal.lease(OTHER, 5, names, 1200.0))) == (
        {
            ("tasks", "failed"): {"state": "leased", "attempt": 2, "holder": OTHER, "driver": OTHER, "feedback": None},
            ("attempts", "failed", 2): {
                "holder": OTHER, "session_id": "session-5", "resumed": 1, "prompt": "Correct it.", "leased": 1200.0,
            },
            ("tasks", "queued"): {
                "state": "leased", "attempt": 1, "holder": OTHER, "driver": OTHER, "session_id": "session-7",
            },
            ("attempts", "queued", 1): {"holder": OTHER, "session_id": "session-7", "leased": 1200.0},
        },
        [(1200.0, "failed", 2, "leased", None, None), (1200.0, "queued", 1, "leased", None, None)],
    )  # fmt: skip
    for lease in leases:
        assert writes(journal, partial(journal.begin, lease, ME, trace="t.jsonl")) == (
            {
                ("tasks", lease.task): {"state": "running", "holder": ME},
                ("attempts", lease.task, lease.attempt): {"holder": ME, "begun": 1100.0, "trace": "t.jsonl"},
            },
            [(1100.0, lease.task, lease.attempt, "running", None, None)],
        )


def test_the_attempt_after_a_refused_answer_continues_its_session(journal: Journal, crowd: dict[str, Lease]) -> None:
    assert journal.lease(ME, 1, {"waits"}, 4999.0) == []
    again = take(journal, "waits", ME, 5000.0)  # it crashed while its answer was checked
    assert (again.session_id, again.opening, again.prompt) == ("session-4", Opening.CHECK, None)
    journal.retry(["failed"])
    refused = begun(journal, "failed")
    assert (refused.session_id, refused.opening, refused.prompt) == ("session-5", Opening.CORRECT, "Correct it.")
    journal.finish(refused, ME, Trigger.GIVEN_BACK, cause=Cause.STOPPED)  # before its prompt was sent
    unsent = begun(journal, "failed")
    assert unsent.opening is Opening.CORRECT
    assert (unsent.session_id, unsent.prompt, unsent.before) == ("session-5", "Correct it.", "Correct it.")
    journal.note(unsent, ME, process="cli")
    journal.finish(unsent, ME, Trigger.GIVEN_BACK, cause=Cause.STOPPED)
    sent = begun(journal, "failed")
    assert sent.opening is Opening.CONTINUE
    assert (sent.session_id, sent.prompt, sent.before) == ("session-5", None, "Correct it.")
    # The session is gone, and so is the new one before its prompt was sent.
    journal.note(sent, ME, process="cli", session_id="session-8")
    journal.finish(sent, ME, Trigger.GIVEN_BACK, cause=Cause.STOPPED)
    fresh = take(journal, "failed", ME)
    assert (fresh.session_id, fresh.opening, fresh.prompt, fresh.before) == ("session-7", Opening.NEW, None, None)


def test_a_note_is_of_one_attempt(journal: Journal, crowd: dict[str, Lease]) -> None:
    lease = crowd["b"]
    attempt, task = ("attempts", "b", 2), ("tasks", "b")
    notes: list[tuple[dict[str, Any], dict[tuple[object, ...], dict[str, object]]]] = [
        ({}, {}),
        ({"process": "cli"}, {attempt: {"process": "cli"}}),
        ({"folder": "/new"}, {attempt: {"folder": "/new"}, task: {"folder": "/new"}}),
        ({"prompt": "Go on."}, {attempt: {"prompt": "Go on."}}),
        (
            {"session_id": "new"},
            {attempt: {"session_id": "new", "resumed": 0, "prompt": None}, task: {"session_id": "new", "said": 0}},
        ),
        ({"said": True}, {task: {"said": 1}}),
        (
            {"usd": 7, "tokens": 2},
            {
                attempt: {"usd": 7, "tokens": 2},
                task: {"usd": 12, "tokens": 5, "losses": 0},  # a reply shows that it gets further
                ("totals", 1): {"usd": 25, "tokens": 14},
            },
        ),
        ({"usd": -2}, {attempt: {"usd": 5}, task: {"usd": 10}, ("totals", 1): {"usd": 23}}),
        ({"tokens": 1}, {attempt: {"tokens": 3}, task: {"tokens": 6}, ("totals", 1): {"tokens": 15}}),
    ]
    for note, wanted in notes:
        assert writes(journal, partial(journal.note, lease, ME, **note)) == (wanted, []), note


def test_an_end_is_of_one_attempt(journal: Journal, crowd: dict[str, Lease], clock: Clock) -> None:
    lease = crowd["b"]
    assert writes(journal, lambda: journal.answer(lease, ME, text="Yes.", output="1", usd=1, tokens=2)) == (
        {
            ("attempts", "b", 2): {"usd": 1, "tokens": 2},
            ("tasks", "b"): {
                "state": "verifying", "text": "Yes.", "output": "1", "answered": 1, "losses": 0, "usd": 6, "tokens": 5,
            },
            ("totals", 1): {"usd": 19, "tokens": 14},
        },
        [(1100.0, "b", 2, "verifying", None, None)],
    )  # fmt: skip
    refused: dict[str, Any] = {"cause": Cause.VERIFY, "error": "No.", "counted": True, "feedback": "Again."}
    more: dict[str, Any] = {"not_before": 1150.0, "folder": "/kept", "branch": "agent/b", "usd": 1, "tokens": 1}
    assert writes(journal, lambda: journal.finish(lease, ME, Trigger.POSTPONED, **refused, **more)) == (
        {
            ("attempts", "b", 2): {
                "ended": 1100.0, "cause": "verify", "error": "No.", "settled": 1, "usd": 2, "tokens": 3,
            },
            ("tasks", "b"): {
                "state": "waiting", "holder": None, "cause": "verify", "error": "No.", "failures": 1, "not_before": 1150.0,
                "answered": 0, "feedback": "Again.", "seconds": 90.0, "folder": "/kept", "branch": "agent/b",
                "usd": 7, "tokens": 6,
            },
            ("totals", 1): {"usd": 20, "tokens": 15},
        },
        [(1100.0, "b", 2, "waiting", "verify", "No.")],
    )  # fmt: skip
    assert next_due(journal) == 1150.0  # another one waits until 5000
    clock.now = 1200.0
    again = begun(journal, "b")
    journal.answer(again, ME, text="Yes.", output=None)
    clock.now = 1201.5
    assert writes(journal, lambda: journal.finish(again, ME, Trigger.ACCEPTED, folder=None, keep_folder=True)) == (
        {
            ("attempts", "b", 3): {"ended": 1201.5, "settled": 1},
            ("tasks", "b"): {
                "state": "succeeded", "holder": None, "cause": None, "error": None, "not_before": 0.0, "seconds": 91.5,
            },
        },
        [(1201.5, "b", 3, "succeeded", None, None)],
    )  # fmt: skip
    [row] = journal.rows(task="b")
    assert (row.failures, row.folder, row.branch, row.output) == (1, "/kept", "agent/b", None)


def test_a_folder_that_was_removed_is_not_named(journal: Journal, crowd: dict[str, Lease]) -> None:
    journal.answer(crowd["b"], ME, text="Yes.", output=None)
    found, _ = writes(
        journal,
        lambda: journal.finish(crowd["b"], ME, Trigger.ACCEPTED, folder="/gone", branch="agent/b", keep_folder=False),
    )
    task = found["tasks", "b"]
    assert task is not None
    assert (task["folder"], task["branch"]) == (None, "agent/b")


def test_settling_is_of_one_attempt(journal: Journal, crowd: dict[str, Lease]) -> None:
    assert journal.unsettled("b", 2) == [(1, "session-2", "cli b")]
    assert writes(journal, lambda: journal.settle("b", 1, 25, 2, 2)) == (
        {
            ("attempts", "b", 1): {"usd": 25, "tokens": 2, "settled": 1},
            ("tasks", "b"): {"usd": 25, "tokens": 2, "losses": 0, "unknown_calls": 2},
            ("totals", 1): {"usd": 38, "tokens": 11},
        },
        [],
    )
    assert writes(journal, lambda: journal.settle("b", 1, 50, 50, 5)) == ({}, [])
    assert [each.attempt for each in journal.attempts("b")] == [1, 2]
    assert writes(journal, lambda: journal.settle("c", 1, None, None, 1)) == (
        {("attempts", "c", 1): {"settled": 1}, ("tasks", "c"): {"unknown_calls": 1}},
        [],
    )
    found, _ = writes(journal, lambda: journal.settle("c", 2, 3, 4, 1))  # one that still runs
    assert found["attempts", "c", 2] == {"usd": 3, "tokens": 4, "settled": 1}
    assert found["tasks", "c"] == {"usd": 8, "tokens": 7, "losses": 0, "unknown_calls": 2}


def test_what_a_killed_attempt_spent_is_sought_in_its_own_session(journal: Journal, crowd: dict[str, Lease]) -> None:
    journal.note(crowd["b"], ME, process="cli 2", usd=100, tokens=10)
    journal.note(crowd["a"], OTHER, session_id="other")
    journal.note(crowd["a"], OTHER, usd=100, tokens=10)
    assert journal.unsettled("b", 3) == [(1, "session-2", "cli b"), (2, "session-2", "cli 2")]
    assert journal.unsettled("b", 2) == [(1, "session-2", "cli b")]
    assert journal.unsettled("c", 3) == [(1, "session-3", "cli c")]  # the second was not begun
    assert journal.session_spending("b", "session-2", 3) == (105, 13)
    assert journal.session_spending("b", "session-2", 2) == (5, 3)
    assert journal.session_spending("a", "session-1", 9) == (5, 3)
    assert journal.session_spending("a", "other", 9) == (100, 10)
    assert journal.session_spending("a", "session-2", 9) == (0, 0)


def test_a_driver_gives_back_what_is_its_own(journal: Journal, crowd: dict[str, Lease]) -> None:
    stopped = {"state": "queued", "holder": None, "cause": "stopped", "error": None}
    assert writes(journal, lambda: journal.give_back(ME)) == (
        {("attempts", "c", 2): {"ended": 1100.0, "cause": "stopped", "settled": 1}, ("tasks", "c"): stopped},
        [(1100.0, "c", 2, "queued", "stopped", None)],
    )
    assert writes(journal, lambda: journal.leave(ME)) == (
        {
            ("attempts", "b", 2): {"ended": 1100.0, "cause": "stopped", "settled": 1},
            ("tasks", "b"): {**stopped, "seconds": 90.0, "driver": None},
            ("tasks", "c"): {"driver": None},
            ("tasks", "waits"): {"driver": None},
            ("holders", ME): None,
        },
        [(1100.0, "b", 2, "queued", "stopped", None)],
    )
    assert writes(journal, lambda: journal.beat(OTHER)) == ({("holders", OTHER): {"beat": 3}}, [])
    assert writes(journal, lambda: journal.beat(ME)) == ({("holders", ME): {"beat": 4}}, [])


def test_tasks_of_a_worker_that_is_gone_are_given_back_and_no_others(journal: Journal, crowd: dict[str, Lease]) -> None:
    journal.retry(["failed"])
    lost, unbegun = begun(journal, "queued", ELSEWHERE), take(journal, "failed", ELSEWHERE)
    take(journal, "waits", ELSEWHERE.replace("|7|", "|8|"))
    assert journal.lost() == ["waits", "failed", "queued"]
    journal.beat(ELSEWHERE.replace("|7|", "|8|"))
    assert journal.lost() == ["failed", "queued"]
    error = "its driver or worker is gone"
    queued = {"state": "queued", "holder": None, "driver": None, "cause": "lost", "error": error}
    assert writes(journal, lambda: journal.reclaim(ME)) == (
        {
            ("attempts", "failed", 2): {"ended": 1100.0, "cause": "lost", "error": error},
            ("attempts", "queued", 1): {"ended": 1100.0, "cause": "lost", "error": error},
            ("tasks", "failed"): queued,
            ("tasks", "queued"): {**queued, "losses": 1},
        },
        [(1100.0, each.task, each.attempt, "queued", "lost", error) for each in (unbegun, lost)],
    )
    assert journal.lost() == []


def test_requests_are_of_the_tasks_that_they_name(journal: Journal, crowd: dict[str, Lease]) -> None:
    names = ["a", "waits", "done", "queued"]
    assert writes(journal, lambda: journal.halt(names)) == ({("tasks", "a"): {"cancel": 2}}, [])
    cancelled = {"state": "cancelled", "cause": "cancelled"}
    changes = [(1100.0, name, number, "cancelled", "cancelled", None) for name, number in (("waits", 1), ("queued", 0))]
    assert writes(journal, lambda: journal.cancel(names)) == (
        {
            ("tasks", "a"): {"cancel": 1},
            ("tasks", "waits"): {**cancelled, "error": None},
            ("tasks", "queued"): cancelled,
        },
        changes,
    )
    assert writes(journal, lambda: journal.halt(["a", "b"])) == ({("tasks", "b"): {"cancel": 2}}, [])
    journal.finish(crowd["b"], ME, Trigger.GIVEN_BACK, cause=Cause.STOPPED)
    assert journal.note(begun(journal, "b"), ME) is None  # the request was for the attempt that has ended
    queued = {"state": "queued", "cause": None}
    assert writes(journal, lambda: journal.retry(["waits"])) == (
        {("tasks", "waits"): {**queued, "failures": 0, "not_before": 0.0}},
        [(1100.0, "waits", 1, "queued", None, None)],
    )
    journal.cancel(["waits"])
    fresh = {**queued, "said": 0}
    assert writes(journal, lambda: journal.retry(None, fresh=True)) == (
        {
            ("tasks", "waits"): {**fresh, "answered": 0},
            ("tasks", "failed"): {**fresh, "error": None, "failures": 0, "feedback": None},
            ("tasks", "queued"): queued,
        },
        [(1100.0, name, number, "queued", None, None) for name, number in (("waits", 1), ("failed", 1), ("queued", 0))],
    )


def test_the_end_of_a_task_is_reported_by_one_driver(journal: Journal, crowd: dict[str, Lease]) -> None:
    assert writes(journal, lambda: journal.take_report("done", OTHER)) == ({}, [])
    assert (journal.take_report("done", ME), journal.take_report("done", OTHER)) == (True, False)
    assert journal.take_report("a", OTHER)  # the driver of its last attempt
    journal.leave(ME)
    assert writes(journal, lambda: journal.take_report("b", OTHER)) == ({("tasks", "b"): {"driver": OTHER}}, [])
    assert (journal.take_report("b", ME), journal.take_report("b", OTHER)) == (False, True)

    def after_another(work: Any) -> Any:
        patch.undo()
        assert journal.take_report("c", ME)
        return journal.store.transaction(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.store, "transaction", after_another)
        assert not journal.take_report("c", OTHER)
    # Nothing was taken from a driver that left: it has reported what was over.
    assert (journal.take_report("done", ME), journal.take_report("done", OTHER)) == (True, False)


def test_adding_writes_new_tasks_only(journal: Journal, crowd: dict[str, Lease]) -> None:
    new = Spec(prompt="More", resume=False)
    found, changes = writes(journal, lambda: journal.add([("b", Spec(prompt="Do b")), ("new", new)]))
    assert (list(found), changes) == ([("tasks", "new")], [])
    assert [row.task for row in journal.rows()][-2:] == ["queued", "new"]
    lease = begun(journal, "new")
    journal.note(lease, ME, said=True)
    journal.finish(lease, ME, Trigger.POSTPONED, cause=Cause.CRASH)
    assert not take(journal, "new", ME).resumed
