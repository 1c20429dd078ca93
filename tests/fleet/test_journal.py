"""The journal of a fleet in SQLite and in Postgres: what each call changes, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hackamore import OptionsError
from hackamore.errors import JournalError, TaskChangedError
from hackamore.fleet import Task
from hackamore.fleet.journal import Journal, Lease, open_journal
from hackamore.fleet.journal.journal import LEASE_SECONDS, MOST_LOSSES
from hackamore.fleet.states import HELD, OPENING, OVER, TASK, Cause, Opening, State, Trigger
from hackamore.fleet.task import Spec
from hackamore.fleet.worker import BEAT_SECONDS
from hackamore.storage.holders import holder_name
from tests.fleet import racing
from tests.support.forking import Baton, Fork
from tests.support.journals import next_due, open_tasks
from tests.support.patience import patience
from tests.support.seeds import seeded

ME, OTHER = holder_name(), holder_name()
ELSEWHERE = "linux:elsewhere:pid:[4026531836]|7|9|0badcafe"
"""A worker on another machine, which cannot be looked at."""
LATER = 1e12
PROJECT = Path(__file__).resolve().parents[2]
ENDINGS = (Trigger.ACCEPTED, Trigger.POSTPONED, Trigger.GIVEN_BACK, Trigger.GAVE_UP, Trigger.CANCELLED)


def add(journal: Journal, *names: str) -> None:
    journal.add([(name, Spec(prompt=f"Do {name}")) for name in names])


def take(journal: Journal, task: str, holder: str = ME) -> Lease:
    [lease] = journal.lease(holder, 1, {task}, time.time())
    return lease


def begun(journal: Journal, task: str, holder: str = ME) -> Lease:
    lease = take(journal, task, holder)
    assert journal.begin(lease, holder, trace=None)
    return lease


def answered(journal: Journal, task: str) -> Lease:
    lease = begun(journal, task)
    assert journal.answer(lease, ME, text="Done.", output=None)
    return lease


def everything(journal: Journal, task: str) -> Any:
    """What the journal has of a task."""
    found = journal.store.look(lambda cursor: cursor.rows("SELECT * FROM tasks WHERE id = :task", task=task))
    changes = [change for change in journal.changes(most=100_000) if change.task == task]
    return found, journal.attempts(task), changes, journal.spent()


def state_of(journal: Journal, task: str) -> str:
    [row] = journal.rows(task=task)
    return row.state


# -- the table of states -----------------------------------------------------------------------------------------------


def bring(journal: Journal, task: str, state: State) -> Lease:
    """Bring a new task into a state; return its last attempt."""
    add(journal, task)
    lease = Lease(
        task=task, attempt=1, holder=ME, session_id="none", opening=Opening.NEW, prompt=None, before=None,
        text=None, output=None, failures=0, process=None,
    )  # fmt: skip
    match state:
        case State.QUEUED:
            pass
        case State.LEASED:
            lease = take(journal, task)
        case State.RUNNING:
            lease = begun(journal, task)
        case State.WAITING:
            lease = begun(journal, task)
            journal.finish(lease, ME, Trigger.POSTPONED, cause=Cause.CRASH, counted=True)
        case _:
            lease = answered(journal, task)
    match state:
        case State.SUCCEEDED:
            journal.finish(lease, ME, Trigger.ACCEPTED)
        case State.FAILED:
            journal.finish(lease, ME, Trigger.GAVE_UP, cause=Cause.VERIFY, error="No.", counted=True)
        case State.CANCELLED:
            journal.finish(lease, ME, Trigger.CANCELLED, cause=Cause.CANCELLED)
    assert state_of(journal, task) == state.word
    return lease


def happens(journal: Journal, lease: Lease, state: State, trigger: Trigger) -> bool:
    """Have something happen to a task; return whether the journal took it."""
    try:
        match trigger:
            case Trigger.LEASED:
                return bool(journal.lease(ME, 1, {lease.task}, time.time()))
            case Trigger.BEGUN:
                return journal.begin(lease, ME, trace=None)
            case Trigger.ANSWERED:
                return journal.answer(lease, ME, text="Done.", output=None, usd=1)
            case Trigger.RETRIED:
                return journal.retry([lease.task]) == 1
            case Trigger.CANCELLED if state not in HELD:
                return journal.cancel([lease.task]) == 1
            case _:
                return journal.finish(lease, ME, trigger, usd=1, tokens=1)
    except KeyError:
        return False


@pytest.mark.parametrize("state", State)
def test_every_cell_of_the_table(journal: Journal, state: State) -> None:
    for trigger in Trigger:
        task = trigger.name
        lease = bring(journal, task, state)
        before = everything(journal, task)
        taken = happens(journal, lease, state, trigger)
        after = everything(journal, task)
        assert taken == ((state, trigger) in TASK)
        if not taken:
            assert after == before
            continue
        assert state_of(journal, task) == TASK[state, trigger].word
        assert [change.state for change in after[2][len(before[2]) :]] == [TASK[state, trigger].word]
        holder = after[0][0][9]
        assert (holder == ME) == (TASK[state, trigger] in HELD)
    numbers = [change.number for change in journal.changes(most=100_000)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert journal.last_change() == len(numbers)


# -- adding ------------------------------------------------------------------------------------------------------------


def test_tasks_are_added_once(journal: Journal) -> None:
    add(journal, *(f"task-{number}" for number in range(1_200)))
    journal.finish(answered(journal, "task-7"), ME, Trigger.ACCEPTED)
    names = [f"task-{number}" for number in range(1_300)]
    unfinished = journal.add([(name, Spec(prompt=f"Do {name}")) for name in names])
    assert unfinished == set(names) - {"task-7"}
    assert [row.task for row in journal.rows()] == names
    assert journal.counts()["queued"] == 1_299


def test_a_changed_task_is_refused_with_the_difference(journal: Journal) -> None:
    journal.add([(name, Spec(prompt="One", options={"model": "opus"}, tags={"a": "b"})) for name in "abcdefgh"])
    now = Spec(prompt="Two", options={"model": "sonnet"}, tags={"other": "tags"}, resume=False)
    with pytest.raises(TaskChangedError) as caught:
        journal.add([("new", now), *((name, now) for name in "abcdefgh")])
    assert caught.value.count == 8
    assert (
        caught.value.differences[0]
        == "'a': `prompt` was 'One', and is 'Two'; `options.model` was 'opus', and is 'sonnet'"
    )
    assert len(caught.value.differences) == 5
    assert "and 3 more" in str(caught.value)
    assert [row.task for row in journal.rows()] == list("abcdefgh")
    same = Spec(prompt="One", options={"model": "opus"}, resume=False)
    assert journal.add([("a", same)]) == {"a"}


NAMES = (
    "O'Brien \"x\"; DROP TABLE tasks; --", "100% %s %(task)s %%", ":task :name", "a::text", "$1 $$", "日本語 🎉 é", "\\", "'",
    " spaced out ", "a" * 200,
)  # fmt: skip


def test_names_are_any_text(journal: Journal) -> None:
    for name in NAMES:
        Task(name, name)
    add(journal, *NAMES)
    for name in NAMES:
        lease = begun(journal, name)
        journal.note(lease, ME, folder=name, prompt=name, process=name)
        assert journal.answer(lease, ME, text=name, output=msgspec.json.encode(name).decode())
        assert journal.finish(lease, ME, Trigger.ACCEPTED, folder=name, branch=name, error=name)
        [row] = journal.rows(task=name)
        assert (row.task, row.text, row.output, row.folder, row.branch, row.error) == (name,) * 6
        assert [(each.task, each.folder) for each in journal.attempts(name)] == [(name, name)]
        assert journal.fact(name, name) == journal.fact(name) == name
    assert [row.task for row in journal.rows()] == list(NAMES)


@pytest.mark.parametrize("name", ["a\0b", "\0", "line\nbreak", "half \ud83c", "", "  ", "a" * 201])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(OptionsError, match="`id` of a task must be"):
        Task(name, "Do it")


def test_an_answer_with_characters_that_databases_refuse(journal: Journal) -> None:
    add(journal, "task")
    lease = begun(journal, "task")
    with pytest.raises(JournalError, match="cannot store a text with half of a surrogate pair") as caught:
        journal.answer(lease, ME, text="\ud83c", output=None)
    assert not caught.value.retryable
    assert journal.answer(lease, ME, text="a\0b", output='"\\u0000"')
    [row] = journal.rows(task="task")
    assert (row.text, row.output) == ("a\ufffdb", "\0")


def test_a_task_that_is_not_there(journal: Journal) -> None:
    add(journal, "a")
    for call in (journal.cancel, journal.retry):
        with pytest.raises(JournalError, match="has no task 'b', 'c'"):
            call(["c", "a", "b"])
    assert state_of(journal, "a") == "queued"
    assert list(journal.rows(task="b")) == []
    assert journal.attempts("b") == []


# -- leases ------------------------------------------------------------------------------------------------------------


def test_leases_keep_the_order_of_the_tasks(journal: Journal) -> None:
    names = [f"task-{number}" for number in range(300)]
    add(journal, *names)
    for name in ("task-1", "task-150", "task-299"):  # these wait, and are due
        journal.finish(begun(journal, name), ME, Trigger.POSTPONED, cause=Cause.CRASH, not_before=time.time() - 1)
    journal.finish(begun(journal, "task-2"), ME, Trigger.POSTPONED, cause=Cause.CRASH, not_before=LATER)
    assert next_due(journal) is not None
    assert journal.lease(ME, 0, set(names), time.time()) == []
    assert journal.lease(ME, 5, set(), time.time()) == []
    first = journal.lease(ME, 3, names, time.time())
    assert [(lease.task, lease.attempt) for lease in first] == [("task-0", 1), ("task-1", 2), ("task-3", 1)]
    far = {"task-2", "task-148", "task-150", "task-298", "task-299"}
    last = journal.lease(OTHER, 10, far, time.time())
    assert [(lease.task, lease.attempt) for lease in last] == [
        ("task-148", 1),
        ("task-150", 2),
        ("task-298", 1),
        ("task-299", 2),
    ]
    assert [lease.task for lease in journal.lease(ME, 300, far, LATER + 1)] == ["task-2"]
    assert len(journal.lease(ME, 1_000, names, time.time())) == 300 - 8
    assert journal.held(OTHER) == {lease.task: (lease.attempt, None) for lease in last}
    assert next_due(journal) is None
    assert open_tasks(journal).keys() == set(names)


def test_leases_pass_over_tasks_that_the_caller_cannot_run(journal: Journal) -> None:
    names = [f"task-{number}" for number in range(70)]
    add(journal, *names)
    assert [lease.task for lease in journal.lease(OTHER, 9, set(names[:3]), time.time())] == names[:3]
    journal.leave(OTHER)  # they are queued again, in their place
    leases = journal.lease(ME, 66, ["task-0", *names[2:]], time.time())
    assert [lease.task for lease in leases] == ["task-0", *names[2:67]]


def test_a_stale_attempt_changes_nothing(journal: Journal) -> None:
    add(journal, "task")
    stale = begun(journal, "task", ELSEWHERE)
    assert journal.reclaim(ME) == 1
    fresh = take(journal, "task")
    before = everything(journal, "task")
    for holder in (ELSEWHERE, ME):
        assert not journal.begin(stale, holder, trace=None)
        assert (
            journal.note(stale, holder, said=True, process="p", folder="f", prompt="q", session_id="s", usd=1, tokens=1)
            is Cause.LOST
        )
        assert not journal.answer(stale, holder, text="No.", output=None, usd=1)
        for ending in ENDINGS:
            assert not journal.finish(stale, holder, ending, cause=Cause.CRASH, usd=1, tokens=1, counted=True)
    assert not journal.answer(fresh, OTHER, text="No.", output=None)
    assert everything(journal, "task") == before
    assert journal.begin(fresh, ME, trace=None)
    assert not journal.begin(fresh, ME, trace=None)


def test_a_worker_takes_over_from_a_driver(journal: Journal) -> None:
    add(journal, "a", "b")
    lease, kept = journal.lease(ME, 2, {"a", "b"}, time.time())
    assert journal.begin(lease, OTHER, trace="a.jsonl")
    assert journal.note(lease, ME) is Cause.LOST
    assert journal.note(lease, OTHER) is None
    assert journal.held(OTHER) == {"a": (1, None)}
    assert journal.give_back(ME) == [("b", 1)]
    assert not journal.begin(kept, OTHER, trace=None)
    assert journal.give_back(OTHER) == []
    [attempt] = journal.attempts("a")
    assert attempt.trace == "a.jsonl"
    assert attempt.begun is not None


@pytest.mark.timeout(180)
def test_processes_race_for_tasks(address: str, journal: Journal) -> None:
    count = 500
    add(journal, *(f"task-{number}" for number in range(count)))
    command = [sys.executable, "-m", racing.__name__, address, "4", str(count)]
    programs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT, text=True)
        for _ in range(4)
    ]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.close()
        program.stdin = None
    taken = [tuple(each) for program in programs for each in json.loads(program.communicate(timeout=patience(150))[0])]
    assert sorted(taken) == sorted((f"task-{number}", 1) for number in range(count))
    counts = journal.counts()
    assert journal.spent() == (counts["failed"] * 3 / 10**9, counts["failed"])
    assert journal.reclaim(ME) == counts["running"] == count - counts["failed"]
    changes = journal.changes(most=10_000)
    assert [change.number for change in changes] == list(range(1, 2 * count + count + 1))
    assert journal.counts()["queued"] == counts["running"]


# -- drivers and workers that are gone ---------------------------------------------------------------------------------

HOLDS = """
import sys, time
from hackamore.fleet.journal import open_journal
from hackamore.storage.holders import holder_name

journal = open_journal(sys.argv[1])
me = holder_name()
journal.beat(me)
first, second = journal.lease(me, 2, {"a", "b"}, time.time())
journal.begin(first, me, trace=None)
journal.note(first, me, said=True, process="cli", usd=5, tokens=2)
print(me, flush=True)
sys.stdin.read()
"""


def test_tasks_of_a_killed_process_are_reclaimed(address: str, journal: Journal) -> None:
    add(journal, "a", "b", "c")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        holder = program.stdout.readline().strip()
        assert journal.reclaim(ME) == 0
        assert journal.held(holder) == {"a": (1, None), "b": (1, None)}
        assert [lease.task for lease in journal.lease(ME, 5, {"a", "b", "c"}, time.time())] == ["c"]
        program.send_signal(signal.SIGKILL)
        program.wait(patience(30))
    assert journal.reclaim(ME) == 2
    assert journal.reclaim(ME) == 0
    a, b, _ = journal.rows()
    assert (a.state, a.cause, a.failures, a.tokens) == ("queued", "lost", 0, 2)
    assert (b.state, b.cause, b.failures) == ("queued", "lost", 0)
    again, fresh = journal.lease(ME, 5, {"a", "b"}, time.time())
    assert (again.resumed, again.session_id, again.process) == (True, a.session_id, "cli")
    assert (fresh.resumed, fresh.process) == (False, None)
    assert fresh.session_id != b.session_id
    assert journal.unsettled("a", 2) == [(1, a.session_id, "cli")]
    assert journal.unsettled("b", 2) == []


@pytest.mark.skipif(not os.path.exists("/etc/machine-id"), reason="needs the id of the machine")
def test_a_boot_that_is_over_ends_the_workers_of_a_file_alone(journal: Journal, address: str) -> None:
    """A database on a server may have workers on a copy of this machine."""
    machine, _, *rest = ME.split("|")
    other = "|".join((machine, "before", *rest))
    now = 0.0
    journal.sightings.clock = lambda: now
    add(journal, "a")
    journal.beat(other)
    begun(journal, "a", other)
    assert journal.reclaim(ME) == (0 if "://" in address else 1)
    now = LEASE_SECONDS
    assert journal.reclaim(ME) == (1 if "://" in address else 0)


def test_a_worker_on_another_machine_counts_by_its_heartbeat(journal: Journal) -> None:
    add(journal, "a")
    journal.beat(ELSEWHERE)
    begun(journal, "a", ELSEWHERE)
    assert journal.reclaim(ME) == 0
    now = 0.0
    journal.sightings.clock = lambda: now
    journal.sightings.clear()
    assert LEASE_SECONDS == 15  # as the documentation says
    assert LEASE_SECONDS >= 3 * BEAT_SECONDS  # a heartbeat that comes late is not the end
    for _ in range(5):
        assert journal.reclaim(ME) == 0
        now += LEASE_SECONDS - 1
        assert journal.lost() == []
        journal.beat(ELSEWHERE)
    assert journal.reclaim(ME) == 0
    now += LEASE_SECONDS
    assert journal.reclaim(ELSEWHERE) == 0  # it is not gone, if it asks
    assert journal.reclaim(ME) == 1
    assert journal.store.look(lambda cursor: cursor.rows("SELECT * FROM holders")) == []


def test_signs_that_come_late_count(journal: Journal) -> None:
    add(journal, "a")
    journal.beat(ELSEWHERE)
    begun(journal, "a", ELSEWHERE)
    now = 0.0
    journal.sightings.clock = lambda: now
    assert journal.reclaim(ME) == 0

    def failing(_: object) -> Any:
        raise JournalError("The database is gone.")

    def after_a_sign(work: Any) -> Any:
        patch.undo()
        journal.beat(ELSEWHERE)
        return journal.store.transaction(work)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(JournalError):
        patch.setattr(journal.store, "look", failing)
        journal.reclaim(ME)
    now = LEASE_SECONDS
    assert journal.reclaim(ME) == 0  # while the database was gone, no sign could come
    now += LEASE_SECONDS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.store, "transaction", after_a_sign)
        assert journal.reclaim(ME) == 0
    assert journal.held(ELSEWHERE) == {"a": (1, None)}


def test_a_task_that_ends_its_workers_fails(journal: Journal) -> None:
    assert MOST_LOSSES == 30  # as the documentation says
    add(journal, "deadly", "lucky")
    for number in range(1, MOST_LOSSES + 1):
        assert state_of(journal, "deadly") == "queued"
        lease = begun(journal, "deadly", ELSEWHERE)
        if number == 1:
            take_only = take(journal, "lucky", ELSEWHERE)
        assert lease.attempt == number
        assert journal.reclaim(ME) == (2 if number == 1 else 1)
    [row] = journal.rows(task="deadly")
    assert (row.state, row.cause, row.failures) == ("failed", "lost", 0)
    assert f"{MOST_LOSSES} drivers or workers ended" in str(row.error)
    assert take_only.attempt == 1
    for _ in range(MOST_LOSSES + 2):  # nothing was begun: it cannot be what ended them
        take(journal, "lucky", ELSEWHERE)
        journal.reclaim(ME)
    for _ in range(MOST_LOSSES + 2):  # a reply shows that it gets further
        journal.note(begun(journal, "lucky", ELSEWHERE), ELSEWHERE, usd=1)
        journal.reclaim(ME)
    assert state_of(journal, "lucky") == "queued"
    assert journal.retry(["deadly"]) == 1
    begun(journal, "deadly", ELSEWHERE)
    assert journal.reclaim(ME) == 1
    assert state_of(journal, "deadly") == "queued"


def test_a_worker_that_ends_gives_everything_back(journal: Journal) -> None:
    add(journal, "a", "b", "c")
    journal.beat(ME)
    begun(journal, "a")
    take(journal, "b")
    begun(journal, "c", OTHER)
    journal.cancel(["a"])
    journal.leave(ME)
    assert {row.task: (row.state, row.cause) for row in journal.rows()} == {
        "a": ("cancelled", "cancelled"),
        "b": ("queued", "stopped"),
        "c": ("running", None),
    }
    assert journal.held(ME) == {}
    assert [lease.task for lease in journal.lease(OTHER, 9, {"a", "b", "c"}, time.time())] == ["b"]


# -- requests ----------------------------------------------------------------------------------------------------------


def test_cancel_and_halt(journal: Journal) -> None:
    add(journal, *"abcdef")
    held = {name: begun(journal, name) for name in "abc"}
    journal.finish(answered(journal, "d"), ME, Trigger.ACCEPTED)
    journal.finish(begun(journal, "e"), ME, Trigger.POSTPONED, cause=Cause.CRASH, error="x", not_before=LATER)
    journal.halt(["a", "b", "d", "f"])
    assert journal.note(held["a"], ME) is Cause.STOPPED
    assert journal.cancel(["b", "c"]) == 2
    journal.halt(["b"])
    assert [journal.note(held[name], ME) for name in "abc"] == [Cause.STOPPED, Cause.CANCELLED, Cause.CANCELLED]
    assert journal.held(ME) == {"a": (1, Cause.STOPPED), "b": (1, Cause.CANCELLED), "c": (1, Cause.CANCELLED)}
    assert journal.finish(held["a"], ME, Trigger.GIVEN_BACK, cause=Cause.STOPPED)
    assert journal.finish(held["b"], ME, Trigger.POSTPONED, cause=Cause.CRASH, error="x", not_before=LATER)
    assert journal.answer(held["c"], ME, text="In time.", output=None)
    assert journal.finish(held["c"], ME, Trigger.ACCEPTED)  # it was there before
    assert journal.cancel(None) == 3
    assert {row.task: row.state for row in journal.rows()} == {
        "a": "cancelled", "b": "cancelled", "c": "succeeded", "d": "succeeded", "e": "cancelled", "f": "cancelled",
    }  # fmt: skip
    assert {row.cause for row in journal.rows(["cancelled"])} == {"cancelled"}
    assert journal.cancel(None) == 0


def test_retry(journal: Journal) -> None:
    add(journal, "a", "b", "c")
    for name in "ab":
        lease = begun(journal, name)
        journal.note(lease, ME, said=True, usd=4, tokens=2)
        journal.finish(lease, ME, Trigger.GAVE_UP, cause=Cause.VERIFY, error="No.", counted=True, feedback="Again.")
    assert journal.retry(["a"]) == 1
    assert journal.retry(["b"], fresh=True) == 1
    assert journal.retry(None) == 0
    a, b = journal.lease(ME, 2, {"a", "b"}, time.time())
    assert (a.attempt, a.failures, a.resumed, a.prompt) == (2, 0, True, "Again.")
    assert (b.attempt, b.failures, b.resumed, b.prompt) == (2, 0, False, None)
    assert a.session_id == journal.attempts("a")[0].session_id
    [row] = journal.rows(task="a")
    assert (row.cost, row.tokens, row.cause, row.error) == (4e-9, 2, None, None)
    journal.leave(ME)
    assert (journal.cancel(None), journal.retry(None)) == (3, 3)


def test_each_attempt_has_one_way_to_begin() -> None:
    """An answer that is written down is never asked for again, and a session without its prompt is not resumed."""
    assert set(OPENING) == set(product((False, True), repeat=3))
    for (has_answer, reachable, unsent), opening in OPENING.items():
        assert (opening is Opening.CHECK) is has_answer
        assert (opening is Opening.NEW) is (not has_answer and not reachable)
        assert (opening is Opening.CORRECT) is (not has_answer and reachable and unsent)


def test_an_answer_is_kept_for_its_check(journal: Journal) -> None:
    add(journal, "kept", "refused")
    for name in ("kept", "refused"):
        answered(journal, name)
    journal.leave(ME)
    again = take(journal, "kept")
    assert (again.opening, again.text) == (Opening.CHECK, "Done.")
    refused = begun(journal, "refused")
    journal.answer(refused, ME, text="Done.", output=None)
    journal.finish(refused, ME, Trigger.POSTPONED, cause=Cause.VERIFY, counted=True, feedback="Correct it.")
    after = take(journal, "refused")
    assert (after.opening, after.text, after.failures) == (Opening.CORRECT, None, 1)
    assert (after.session_id, after.prompt) == (refused.session_id, "Correct it.")


# -- spending ----------------------------------------------------------------------------------------------------------


def test_sums_of_spending_are_exact(journal: Journal) -> None:
    add(journal, *(f"task-{number}" for number in range(8)))
    leases = [begun(journal, f"task-{number}") for number in range(8)]
    given = random.Random(seeded(7))
    parts = [[(given.randrange(1, 10**12), given.randrange(1, 10**9)) for _ in range(12)] for _ in leases]

    def spend(lease: Lease, amounts: list[tuple[int, int]]) -> None:
        for usd, tokens in amounts:
            journal.note(lease, ME, usd=usd, tokens=tokens)
        journal.finish(lease, ME, Trigger.POSTPONED, usd=1, tokens=1)

    threads = [threading.Thread(target=spend, args=each) for each in zip(leases, parts, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sums = [(sum(usd for usd, _ in each) + 1, sum(tokens for _, tokens in each) + 1) for each in parts]
    assert [(round(row.cost * 1e9), row.tokens) for row in journal.rows()] == sums
    for lease, (usd, tokens) in zip(leases, sums, strict=True):
        assert journal.session_spending(lease.task, lease.session_id, 2) == (usd, tokens)
        assert journal.session_spending(lease.task, lease.session_id, 1) == (0, 0)
    assert journal.spent() == (sum(usd for usd, _ in sums) / 10**9, sum(tokens for _, tokens in sums))


def test_an_attempt_is_settled_once(journal: Journal) -> None:
    add(journal, "killed", "ended")
    killed = begun(journal, "killed", ELSEWHERE)
    journal.note(killed, ELSEWHERE, usd=10, tokens=5)
    journal.reclaim(ME)
    for _ in range(3):
        journal.settle("killed", 1, 25, 4, 2)
    [row] = journal.rows(task="killed")
    assert (row.cost, row.tokens, row.unknown_calls) == (25e-9, 4, 2)
    assert journal.unsettled("killed", 9) == []
    ended = begun(journal, "ended")
    journal.finish(ended, ME, Trigger.GAVE_UP, cause=Cause.CRASH, usd=3, tokens=1)
    journal.settle("ended", 1, 100, 100, 1)
    journal.settle("missing", 1, 100, 100, 1)
    [row] = journal.rows(task="ended")
    assert (row.cost, row.tokens, row.unknown_calls) == (3e-9, 1, 0)
    assert journal.spent() == (28e-9, 5)


def test_an_attempt_that_was_cancelled_and_killed_is_settled_when_its_task_is_retried(journal: Journal) -> None:
    add(journal, "a")
    lease = begun(journal, "a", ELSEWHERE)
    journal.note(lease, ELSEWHERE, said=True, process="cli", usd=10, tokens=5)
    assert journal.cancel({"a"}) == 1
    assert journal.reclaim(ME) == 1
    assert state_of(journal, "a") == "cancelled"
    assert journal.retry({"a"}) == 1
    assert journal.unsettled("a", take(journal, "a").attempt) == [(1, lease.session_id, "cli")]
    journal.settle("a", 1, 25, 9, 0)
    assert journal.spent() == (25e-9, 9)


# -- forks and threads -------------------------------------------------------------------------------------------------


def test_both_sides_of_a_fork_write(address: str, journal: Journal) -> None:
    add(journal, "before")

    def child(baton: Baton) -> None:
        add(journal, "child 1")
        baton.pass_on()
        baton.take()
        begun(journal, "parent", OTHER)
        assert [row.task for row in journal.rows()] == ["before", "child 1", "parent"]
        journal.close()

    fork = Fork(child)
    fork.baton.take()
    add(journal, "parent")
    fork.baton.pass_on()
    fork.wait()
    add(journal, "after")
    assert [(row.task, row.state) for row in open_journal(address).rows()] == [
        ("before", "queued"), ("child 1", "queued"), ("parent", "running"), ("after", "queued"),
    ]  # fmt: skip


def test_changes_are_read_in_parts(journal: Journal) -> None:
    assert (journal.last_change(), journal.changes()) == (0, [])
    add(journal, "a", "b")
    for name in "ab":
        answered(journal, name)
    every = journal.changes()
    assert [change.number for change in every] == [1, 2, 3, 4, 5, 6]
    assert journal.changes(most=2) == every[:2]
    assert journal.changes(2, most=3) == every[2:5]
    assert journal.changes(journal.last_change()) == []


def test_facts_are_the_same_for_all(address: str, journal: Journal) -> None:
    other = open_journal(address)
    assert (other.id, other.salt) == (journal.id, journal.salt)
    assert other.fact("plan") is None
    journal.fact("plan", "one")
    assert other.fact("plan") == "one"
    other.fact("plan", "two")
    assert journal.fact("plan") == "two"
    other.close()
    assert other.fact("plan") == "two"  # a closed journal is opened again
    other.close()


def test_over_states_are_final(journal: Journal) -> None:
    add(journal, *(state.name for state in OVER))
    for state, ending in (
        (State.SUCCEEDED, Trigger.ACCEPTED),
        (State.FAILED, Trigger.GAVE_UP),
        (State.CANCELLED, Trigger.CANCELLED),
    ):
        journal.finish(answered(journal, state.name), ME, ending)
    assert journal.lease(ME, 9, {state.name for state in OVER}, LATER) == []
    assert open_tasks(journal) == {}
    assert journal.cancel(None) == 0
    journal.halt([state.name for state in OVER])
    assert journal.held(ME) == {}
