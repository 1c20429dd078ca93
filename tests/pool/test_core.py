"""The core of a pool alone: its decisions, and a model that plays shell, registry and callers at random."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from hackamore import ConversationInUseError, Options, OptionsError, PoolClosedError, RegistryError, StartError
from hackamore._engine.protocol.control_rows import OPERATIONS
from hackamore.pool import CallerQueued, ConversationHibernated, PoolStats, PoolWarned, ProcessStarted
from hackamore.pool.core import AFFINITY_SECONDS, INTERRUPT_SECONDS, PoolCore
from hackamore.pool.differences import APPLIED, HARMLESS, Split, changes, check_base, checked, split
from hackamore.pool.members import Acquire, Finish, Job, PoolLimits, Release, Save, Slot, Start, Stop, Waiter
from hackamore.pool.registry import Beat, Held, MemoryRegistry
from hackamore.pool.states import LEASE, LIVE, QUIET, SLOT, Lease, LeaseTrigger, State, Trigger
from hackamore.pool.stats import Meter, WaitTimes
from hackamore.runtime.flags import Flag
from tests.contract import shows
from tests.protocol.test_deadlines import Operations
from tests.support.examples import examples
from tests.support.seeds import seeded

PLAIN = Split({}, {})
MB = 2**20

SPOILING = {
    "initialize",
    "set_mcp_permission_mode_override",
    "register_repo_root",
    "mcp_set_servers",
    "mcp_toggle",
    "apply_flag_settings",
    "update_settings",
    "reload_plugins",
    "reload_skills",
    "reload_output_styles",
    "set_color",
    "set_has_subscribers",
}


class Bench:
    """A core, with a registry, and jobs that end when the test says so."""

    def __init__(self, registry: MemoryRegistry | None = None, name: str = "me", **limits: Any) -> None:
        chosen = {"warm": 0, "max_live": 2, "max_starting": 9, "memory": None, "idle": 100.0, "beat": 1.0, "lease": 9.0}
        chosen["refill"] = 0.0
        ids = (f"{name}-{number}" for number in itertools.count())
        jitter = limits.pop("jitter", 1.0)
        self.core = PoolCore(
            Options(model="base"), PoolLimits(**{**chosen, **limits}), lambda: next(ids), lambda _, most: jitter * most
        )
        self.registry = registry or MemoryRegistry()
        self.held: set[str] = set()
        self.name = name
        self.now = 0.0
        self.jobs: list[Job] = []
        self.failing: tuple[type[Job], ...] = ()  # the calls of the registry that fail

    def take(self) -> None:
        """Take jobs until there are none; those of the registry are done immediately."""
        while taken := self.core.take(self.now):
            for job in taken:
                match job:
                    case Acquire() | Save() | Release() if isinstance(job, self.failing):
                        self.core.registry_failed(job.conv, RegistryError("the disk is full"), self.now)
                    case Acquire():
                        held = self.registry.acquire(job.conv.key, self.name)
                        self.held |= {job.conv.key} if held.taken else set()
                        self.core.acquired(job.conv, held, self.now)
                    case Save():
                        kept = self.registry.save(job.conv.key, self.name, job.record)
                        self.core.saved(job.conv, job.record, kept=kept)
                    case Release():
                        if job.record is not None:
                            self.registry.save(job.conv.key, self.name, job.record)
                        self.registry.release(job.conv.key, self.name)
                        self.held.discard(job.conv.key)
                        self.core.released(job.conv)
                    case _:
                        self.jobs.append(job)

    def end(self, job: Job, error: StartError | None = None) -> None:
        """Report the outcome of a job of a process."""
        self.jobs.remove(job)
        self.now += 0.01
        match job:
            case Start():
                if error is not None:
                    self.core.start_failed(job.slot, error, self.now)
                else:
                    self.core.started(job.slot, self.now, cwd="/", resumed=job.resume)
            case Finish() | Stop():
                self.core.gone(job.slot)
        self.take()

    def end_all(self) -> None:
        while self.jobs:
            self.end(self.jobs[0])

    def ask(self, key: str | None = None, differences: Split = PLAIN) -> Waiter:
        waiter = self.core.ask(key, differences, self.now)
        self.take()
        return waiter

    def give_back(self, slot: Slot | None, **facts: Any) -> None:
        assert slot is not None
        self.core.returned(slot, self.now, **{"quiet": True, "said": True, **facts})
        self.take()

    def kinds(self) -> list[str]:
        return [type(job).__name__ for job in self.jobs]


def test_a_start_that_fails_while_the_pool_stops_leaves_no_process() -> None:
    bench = Bench()
    bench.ask("a")
    [start] = bench.jobs
    bench.core.close()
    bench.core.stop_all()
    bench.take()
    bench.end(start, StartError("stopped"))
    assert bench.core.stats().live == 0


def test_every_cell_leads_to_a_state_that_has_cells() -> None:
    assert {state for state, _ in SLOT} == set(State)
    assert set(SLOT.values()) <= set(State)
    assert {trigger for _, trigger in SLOT} == set(Trigger)
    assert State.GONE not in LIVE
    assert all(then is State.GONE for (state, _), then in SLOT.items() if state is State.GONE)
    assert {(state, Trigger.STOP) for state in State} <= SLOT.keys()


def test_every_call_about_a_lease_ends_also_if_it_fails() -> None:
    assert {state for state, _ in LEASE} == set(LEASE.values()) == set(Lease)
    assert {trigger for _, trigger in LEASE} == set(LeaseTrigger)
    for state in set(Lease) - QUIET:
        assert {LEASE[state, LeaseTrigger.FAILED], LEASE[state, LeaseTrigger.FAILED_AT_THE_END]} <= QUIET


def test_every_operation_is_sorted() -> None:
    operations = {row.subtype for rows in OPERATIONS.values() for row in rows}
    applied = {subtype for subtype, _ in APPLIED.values()}
    assert operations == HARMLESS | SPOILING | applied
    assert not HARMLESS & (SPOILING | applied)


@shows("pool.warm.refilled")
def test_warm_processes_are_refilled() -> None:
    bench = Bench(warm=2, max_live=4)
    bench.take()
    assert bench.kinds() == ["Start", "Start"]
    bench.end_all()
    waiter = bench.ask()
    assert waiter.slot is not None
    assert bench.kinds() == ["Start"]
    assert bench.core.stats().hits == 1
    bench.give_back(waiter.slot)
    assert bench.kinds() == ["Start", "Stop"]  # it was used: nobody else gets it
    bench.end_all()
    assert bench.core.stats().warm == 2


@shows("pool.warm.refilled")
def test_warm_processes_are_refilled_after_the_first_moments_of_their_use() -> None:
    bench = Bench(warm=2, max_live=6, refill=0.5)
    bench.take()
    bench.end_all()
    bench.now = 1.0
    assert bench.ask().slot is not None
    assert bench.kinds() == []
    assert bench.core.next_time() == 1.5
    bench.now = 1.3
    assert bench.ask().slot is not None
    assert bench.core.next_time() == 1.5, "the next check-out put it off again"
    bench.now = 1.5
    bench.take()
    assert bench.kinds() == ["Start", "Start"]


def test_a_caller_that_waits_and_wait_warm_have_warm_processes_refilled_immediately() -> None:
    bench = Bench(warm=1, max_live=6, refill=0.5)
    bench.take()
    bench.end_all()
    assert bench.ask().slot is not None
    assert bench.kinds() == []
    assert bench.ask().slot is None
    assert bench.kinds() == ["Start", "Start"], "one for the caller, one to be warm"
    bench.end_all()
    assert bench.ask().slot is not None
    assert bench.kinds() == []
    bench.core.pace.hurry()
    bench.take()
    assert bench.kinds() == ["Start"]


@shows("pool.warm.starting")
def test_only_so_many_start_at_once() -> None:
    bench = Bench(warm=5, max_live=9, max_starting=2)
    bench.take()
    assert bench.kinds() == ["Start"] * 2
    bench.end(bench.jobs[0])
    assert bench.kinds() == ["Start"] * 2
    bench.end_all()
    assert bench.core.stats().warm == 5


@shows("pool.conversations.one-holder")
def test_a_conversation_has_one_holder_at_a_time() -> None:
    bench = Bench()
    first = bench.ask("a")
    bench.end_all()
    second = bench.ask("a")
    assert first.slot is not None
    assert second.slot is None
    bench.give_back(first.slot)
    assert second.slot is first.slot


@shows("pool.limits.lru")
def test_the_conversation_that_was_used_least_recently_hibernates() -> None:
    bench = Bench(max_live=2)
    for key in ("a", "b", "a"):
        bench.now += 1
        waiter = bench.ask(key)
        bench.end_all()
        bench.give_back(waiter.slot)
    waiter = bench.ask("c")
    assert [(type(job).__name__, job.slot.key) for job in bench.jobs if isinstance(job, Finish)] == [("Finish", "b")]
    bench.end_all()
    assert waiter.slot is not None
    assert bench.core.stats().evictions == 1
    assert bench.core.stats().hibernated == 1
    again = bench.ask("b")
    bench.give_back(waiter.slot)
    bench.end_all()
    assert again.slot is not None
    assert (again.slot.session_id, again.slot.resumed) == ("me-1", True)
    assert bench.core.stats().resumes == 1


@shows("pool.limits.one-start")
def test_a_fresh_process_is_reserved_until_its_caller_has_it() -> None:
    bench = Bench(max_live=4, warm=1)
    bench.take()
    bench.end_all()
    waiters = [bench.ask(f"user-{number}") for number in range(30)]
    served: set[int] = set()
    while len(served) < len(waiters):
        bench.end_all()
        for number, waiter in enumerate(waiters):
            if waiter.slot is not None and number not in served:
                served.add(number)
                bench.give_back(waiter.slot)
    assert sum(isinstance(event, ProcessStarted) for event in bench.core.take_events()) == 30
    assert bench.core.stats().cold_starts + bench.core.stats().hits == 30


def test_a_reserved_process_is_released_when_its_last_caller_leaves() -> None:
    bench = Bench(max_live=1)
    waiter = bench.core.ask("a", PLAIN, 0.0)
    for job in bench.core.take(0.0):
        assert isinstance(job, Acquire)
        bench.core.acquired(job.conv, bench.registry.acquire("a", "me"), 0.0)
    (start,) = bench.core.take(0.0)
    assert isinstance(start, Start)
    bench.core.started(start.slot, 0.0, cwd="/", resumed=False)
    assert str(start.slot.state) == str(State.RESERVED)
    other = bench.core.ask("b", PLAIN, 0.0)
    bench.core.leave(waiter)
    assert start.slot.state is State.IDLE
    bench.take()
    bench.end_all()
    assert other.slot is not None, "the process without a caller made room"


@pytest.mark.parametrize("quiet", [True, False])
def test_a_conversation_that_its_caller_did_not_use_is_free(quiet: bool) -> None:
    bench = Bench(max_live=1)
    gone = bench.ask("a")
    bench.end_all()
    next_one = bench.ask("a")
    assert gone.slot is not None
    bench.core.unused(gone.slot, bench.now, quiet=quiet)
    assert gone.slot.state is (State.IDLE if quiet else State.SETTLING)
    bench.take()
    assert next_one.slot is gone.slot


def test_a_session_that_its_caller_did_not_use_is_as_good_as_new() -> None:
    bench = Bench(warm=1, max_live=1)
    bench.take()
    bench.end_all()
    gone = bench.ask()
    assert gone.slot is not None
    bench.core.unused(gone.slot, bench.now, quiet=True)
    assert bench.ask().slot is gone.slot
    assert not bench.jobs


def test_a_pool_that_is_full_of_holders_has_nothing_to_do() -> None:
    """A keeper that is called for a time that has passed looks again immediately: it took a whole processor."""
    bench = Bench(warm=1, max_live=2)
    for key in ("a", "b"):
        bench.ask(key)
        bench.end_all()
    assert bench.core.stats().busy == 2
    at = bench.core.next_time()
    assert at is None or at > bench.now


@shows("pool.limits.queue")
def test_a_caller_that_waits_hears_its_place() -> None:
    bench = Bench(max_live=1)
    holder = bench.ask("a")
    bench.end_all()
    bench.ask("b")
    bench.ask("c")
    last = bench.ask()
    places = [
        (event.key, event.place) for event in bench.core.take_events(places=True) if isinstance(event, CallerQueued)
    ]
    assert places == [("b", 1), ("c", 2), (None, 3)]
    assert bench.core.take_events(places=True) == []
    bench.give_back(holder.slot)
    bench.end_all()
    assert last.slot is None
    places = [
        (event.key, event.place) for event in bench.core.take_events(places=True) if isinstance(event, CallerQueued)
    ]
    assert places == [("c", 1), (None, 2)]


@shows("pool.death.warned")
def test_a_conversation_that_is_not_resumed_is_reported_if_it_had_a_prompt() -> None:
    bench = Bench(max_live=1)
    for key, said in (("silent", False), ("spoken", True)):
        waiter = bench.ask(key)
        bench.end_all()
        bench.give_back(waiter.slot, said=said)
    for key in ("silent", "spoken"):
        waiter = bench.ask(key)
        while bench.jobs:
            job = bench.jobs.pop(0)
            if isinstance(job, Start):
                bench.core.started(job.slot, bench.now, cwd="/", resumed=False)
            elif isinstance(job, Finish | Stop):
                bench.core.gone(job.slot)
            bench.take()
        bench.give_back(waiter.slot)
    reported = [event for event in bench.core.take_events() if isinstance(event, PoolWarned)]
    assert [(event.key, event.warning.code) for event in reported] == [("spoken", "NOT_RESUMED")]


@shows("pool.limits.too-small")
def test_a_pool_that_is_too_small_says_so_once() -> None:
    bench = Bench(max_live=2)
    for _ in range(15):
        for key in ("a", "b", "c", "d"):
            bench.now += 1
            waiter = bench.ask(key)
            bench.end_all()
            bench.give_back(waiter.slot)
            bench.end_all()
    warnings = [event.warning for event in bench.core.take_events() if isinstance(event, PoolWarned)]
    assert [warning.code for warning in warnings] == ["POOL_TOO_SMALL"]
    assert "Raise `max_live` (`max_live` is 2)" in str(warnings[0])
    enough = Bench(max_live=4)
    for _ in range(15):
        for key in ("a", "b", "c", "d"):
            waiter = enough.ask(key)
            enough.end_all()
            enough.give_back(waiter.slot)
    assert not [event for event in enough.core.take_events() if isinstance(event, PoolWarned)]


@shows("pool.limits.timeout")
def test_the_error_of_a_timeout_names_the_obstacle() -> None:
    """Nobody holds a session: the caller is not told to return sessions sooner."""
    bench = Bench(max_live=1)
    waiter = bench.ask("a")
    error = bench.core.timed_out(waiter, 5.0)
    assert (error.cause, error.busy, error.starting) == ("starting", 0, 1)
    assert str(error) == (
        "The conversation 'a' was not available within 5 s: its process was still starting. Of 1 processes (`max_live` is 1) "
        "0 had a holder, 1 were starting and 0 ending; 1 callers waited. Raise `timeout` or `max_starting`, or try again later."
    )
    error = bench.core.timed_out(bench.ask("b"), 5.0)
    assert error.cause == "full"
    assert "processes for callers before it were starting or ending" in str(error)
    bench.end_all()
    holder = bench.ask("a")
    bench.end_all()
    assert "there was no place for another process" in str(bench.core.timed_out(bench.ask("b"), 5.0))
    error = bench.core.timed_out(bench.ask("a"), 5.0)
    assert (error.cause, error.busy) == ("held", 1)
    bench.give_back(holder.slot)
    bench.ask("b")
    assert bench.kinds() == ["Finish"]
    assert bench.core.timed_out(bench.ask("a"), 5.0).cause == "leaving"
    other = Bench(bench.registry, "other")
    error = other.core.timed_out(other.ask("a"), 5.0)
    assert (error.cause, error.holder) == ("elsewhere", "'me'")
    alone = PoolCore(Options(), bench.core.limits, str)
    waiter, other_waiter = alone.ask("new", PLAIN, 0.0), alone.ask("new", PLAIN, 0.0)
    (acquire,) = alone.take(0.0)
    error = alone.timed_out(waiter, 5.0)
    assert (error.cause, error.holder) == ("registry", None)
    assert isinstance(acquire, Acquire)
    alone.acquired(acquire.conv, Held(taken=False), 0.0)
    error = alone.timed_out(other_waiter, 5.0)
    assert (error.cause, error.holder) == ("elsewhere", None), "the registry does not say who has it"


def test_a_process_that_ignores_its_interrupt_is_stopped() -> None:
    bench = Bench(max_live=1)
    waiter = bench.ask("a")
    bench.end_all()
    bench.give_back(waiter.slot, quiet=False, interrupted=True)
    assert not bench.jobs
    at = bench.core.next_time()
    assert at is not None
    bench.now += INTERRUPT_SECONDS
    bench.take()
    assert bench.kinds() == ["Stop"]
    again = bench.ask("a")
    bench.end_all()
    assert again.slot is not None
    assert again.slot.resumed


@shows("pool.callers.leave")
@pytest.mark.parametrize("ends", [True, False])
def test_the_next_holder_waits_for_the_end_of_interrupted_turns(ends: bool) -> None:
    bench = Bench(max_live=1)
    bench.ask("a")
    bench.end_all()
    (slot,) = bench.core.slots.values()
    bench.give_back(slot, quiet=False, interrupted=True)
    again = bench.ask("a")
    assert (again.slot, bench.jobs) == (None, [])
    if ends:
        bench.core.interrupted(slot)  # a background command runs on
        bench.take()
        assert again.slot is slot
    else:
        bench.now += INTERRUPT_SECONDS
        bench.take()
        assert bench.kinds() == ["Stop"]
        bench.end_all()
        assert again.slot is not None
        assert again.slot.resumed


@shows("pool.limits.affinity")
def test_a_conversation_that_was_just_returned_is_not_the_first_victim() -> None:
    bench = Bench(warm=1, max_live=2)
    for key in ("b", "a"):
        bench.now += 100
        waiter = bench.ask(key)
        bench.end_all()
        bench.give_back(waiter.slot)
        bench.end_all()
    live = {slot.key: slot.state for slot in bench.core.slots.values()}
    assert live == {"a": State.IDLE, None: State.WARM}
    bench.now += 1
    waiter = bench.ask("b")
    assert bench.kinds() == ["Stop"], "the warm process makes room, because `a` was returned a moment ago"
    bench.end_all()
    bench.now += 1
    bench.give_back(waiter.slot)
    assert not bench.jobs, "no warm process takes the place of `a` or `b`"
    at = bench.core.next_time()
    assert at is not None
    bench.now += AFFINITY_SECONDS
    bench.take()
    assert [job.slot.key for job in bench.jobs if isinstance(job, Finish)] == ["a"]


@shows("pool.limits.fifo")
@pytest.mark.parametrize("key", ["user-{}", None], ids=["conversations", "sessions"])
def test_the_work_for_a_caller_does_not_grow_with_the_number_of_those_that_wait(key: str | None) -> None:
    work = []
    for waiting in (20, 80):
        bench = Bench(max_live=1)
        callers = [bench.ask(key and key.format(number)) for number in range(waiting)]
        bench.end_all()
        operations = Operations()
        with operations:
            for number in range(3):
                bench.give_back(callers[number].slot)
                bench.end_all()
                bench.core.leave(callers[-1 - number])
                bench.ask(key and key.format(waiting + number))
                bench.core.next_time()
        work.append(operations.count)
    assert work[1] < work[0] * 1.1


def test_callers_queue_first_in_first_out() -> None:
    bench = Bench(max_live=1)
    holder = bench.ask("a")
    bench.end_all()
    queue = [bench.ask(key) for key in ("b", "a", None, "c")]
    for _ in range(4):
        bench.give_back(holder.slot)
        bench.end_all()
        served = [waiter for waiter in queue if waiter.slot is not None]
        assert served == queue[:1]
        holder = queue.pop(0)


@shows("pool.conversations.idle")
def test_an_idle_conversation_hibernates() -> None:
    bench = Bench(idle=10.0)
    waiter = bench.ask("a")
    bench.end_all()
    bench.give_back(waiter.slot)
    assert bench.core.next_time() == pytest.approx(10.01)
    bench.now = 9.0
    bench.take()
    assert not bench.jobs
    bench.now = 10.02
    bench.take()
    assert bench.kinds() == ["Finish"]


@shows("pool.conversations.settles")
def test_one_that_is_not_quiet_does_not_hibernate() -> None:
    bench = Bench(idle=10.0, max_live=1)
    waiter = bench.ask("a")
    bench.end_all()
    slot = waiter.slot
    assert slot is not None
    bench.give_back(slot, quiet=False)
    other = bench.ask("b")
    bench.now = 99.0
    bench.take()
    assert not bench.jobs
    again = bench.ask("a")  # it is the caller's conversation
    assert again.slot is slot
    bench.give_back(slot, quiet=False)
    bench.core.quiet(slot)
    bench.take()
    assert bench.kinds() == ["Finish"]
    bench.end_all()
    assert other.slot is not None


@shows("pool.death.resumed")
def test_what_dies() -> None:
    bench = Bench(warm=1, max_live=4)
    bench.take()
    bench.end_all()
    (warm,) = bench.core.slots.values()
    bench.core.died(warm, bench.now)
    bench.take()
    assert not bench.jobs  # a pause comes first
    bench.now = 1.0
    bench.take()
    bench.end_all()
    waiter = bench.ask("a")
    bench.end_all()
    slot = waiter.slot
    assert slot is not None
    bench.core.died(slot, bench.now)
    assert slot.state is State.LOST
    assert bench.core.live == 1  # the warm one
    again = bench.ask("a")
    assert again.slot is None  # its holder has not returned it
    bench.give_back(slot)
    start = next(job for job in bench.jobs if isinstance(job, Start) and job.slot.key == "a")
    assert (start.session_id, start.resume) == (slot.session_id, True)
    bench.end_all()
    assert again.slot is not None
    assert again.slot is not slot
    assert bench.core.stats().deaths == 2


@shows("pool.start.errors")
@pytest.mark.parametrize("jitter", [1.0, 1.25])
def test_start_failures(jitter: float) -> None:
    bench = Bench(warm=1, max_live=2, jitter=jitter)
    bench.take()
    pauses = []
    for _ in range(9):
        bench.end(bench.jobs[0], StartError("no"))
        assert not bench.jobs
        at = bench.core.next_time()
        assert at is not None
        pauses.append(at - bench.now)
        bench.now = at
        bench.take()
    assert pauses == pytest.approx([jitter * pause for pause in (0.5, 1, 2, 4, 8, 16, 30, 30, 30)])
    bench.end(bench.jobs[0], StartError("no"))
    waiter = bench.ask()  # a caller does not wait for the pause
    assert bench.kinds() == ["Start"]
    bench.end(bench.jobs[0], StartError("his"))
    assert str(waiter.error) == "his"
    keyed = [bench.ask("a"), bench.ask("a")]
    start = next(job for job in bench.jobs if isinstance(job, Start) and job.slot.key == "a")
    bench.end(start, StartError("hers"))
    assert str(keyed[0].error) == "hers"
    bench.end_all()
    assert keyed[1].slot is not None
    stats = bench.core.stats()
    assert (stats.start_failures, stats.live, stats.memory) == (12, 1, 0), "without a limit no memory is counted"


@shows("pool.limits.memory")
def test_memory() -> None:
    bench = Bench(max_live=9, memory=1000 * MB)
    slots = []
    for key in ("a", "b", "c"):
        bench.now += 1
        waiter = bench.ask(key)
        bench.end_all()
        bench.give_back(waiter.slot)
        slots.append(waiter.slot)
        bench.core.slots.measured({slot.number: 300 * MB for slot in bench.core.slots.values()})
    assert bench.core.stats().live == 3
    waiter = bench.ask("d")
    assert [job.slot.key for job in bench.jobs if isinstance(job, Finish)] == ["a"]
    bench.end_all()
    assert waiter.slot is not None
    bench.core.slots.measured({slot.number: 600 * MB for slot in bench.core.slots.values()})
    bench.take()
    assert [job.slot.key for job in bench.jobs if isinstance(job, Finish)] == ["b", "c"]


def test_one_process_runs_whatever_the_memory() -> None:
    bench = Bench(warm=1, max_live=9, memory=10)
    bench.take()
    assert not bench.jobs
    waiter = bench.ask("a")
    bench.end_all()
    assert waiter.slot is not None
    other = bench.ask()
    assert not bench.jobs
    bench.give_back(waiter.slot)
    bench.end_all()
    assert other.slot is not None


@shows("pool.differences.applied", "pool.differences.undone")
def test_differences() -> None:
    """A difference is applied to a running process, and undone for its next holder; else the process is not used again."""
    base = Options(model="base")
    options = base.replace(model="other", title="t", max_turns=None)
    same_first = ("max_turns", "model", "title")
    assert split(base, options, same_first) == Split({"model": "other"}, {"title": "t"})
    assert [tuple(change) for change in changes(base, {}, {"model": "x"}) or ()] == [
        ("model", "set_model", {"model": "x"})
    ]
    assert [tuple(change) for change in changes(base, {}, {"max_thinking_tokens": 5}) or ()] == [
        ("max_thinking_tokens", "set_max_thinking_tokens", {"max_thinking_tokens": 5})
    ]
    assert [tuple(change) for change in changes(base, {"model": "x"}, {}) or ()] == [
        ("model", "set_model", {"model": "base"})
    ]
    assert changes(base, {"model": "x"}, {"model": "x"}) == []
    assert changes(base, {"permission_mode": "plan"}, {}) is None  # the mode before is not known
    assert changes(base, {"permission_mode": "plan"}, {"permission_mode": "plan"}) == []
    for allowed in (False, True):
        base = base.replace(allow_dangerously_skip_permissions=allowed)
        bypass = {"permission_mode": "bypassPermissions"}
        found = split(base, base.replace(**bypass), ("permission_mode",))
        assert found == (Split(bypass, {}) if allowed else Split({}, bypass)), "the CLI has to be started for it"


OWNED = ("session_id", "resume", "continue_conversation", "fork_session", "resume_session_at", "resume_drops_turn")


@pytest.mark.parametrize("name", OWNED)
def test_sessions_are_chosen_by_the_pool_alone(name: str) -> None:
    why = "The pool chooses the session, and `pool.conversation(key)` continues one by key."
    check_base(Options())
    given: Any = SimpleNamespace(**{**dict.fromkeys(OWNED), name: "x"})
    with pytest.raises(OptionsError) as caught:
        check_base(given)
    assert (str(caught.value), caught.value.field) == (
        f"`{name}` must not be set in the options of a pool. {why}",
        name,
    )
    with pytest.raises(OptionsError) as caught:
        checked(Options(), {name: "x"}, keyed=False)
    assert (str(caught.value), caught.value.field) == (f"`{name}` must not differ in a pool. {why}", name)


def test_a_conversation_needs_a_transcript() -> None:
    base = Options(persist_session=False)
    assert checked(base, {}, keyed=False) is base
    with pytest.raises(OptionsError, match="the CLI would keep no transcript to resume from") as caught:
        checked(base, {"model": "x"}, keyed=True)
    assert caught.value.field == "persist_session"
    assert checked(base, {"persist_session": True}, keyed=True).persist_session


@shows("pool.differences.cold")
def test_a_process_with_differences_of_its_own() -> None:
    bench = Bench(warm=1, max_live=2)
    bench.take()
    bench.end_all()
    waiter = bench.ask(None, Split({}, {"title": "mine"}))
    assert bench.kinds() == ["Start"]
    bench.end_all()
    assert waiter.slot is not None
    assert waiter.slot.cold == {"title": "mine"}
    assert bench.core.stats().cold_starts == 1
    bench.give_back(waiter.slot)
    bench.end_all()
    first = bench.ask("a", Split({}, {"title": "mine"}))
    bench.end_all()
    bench.give_back(first.slot)
    same = bench.ask("a", Split({}, {"title": "mine"}))
    assert same.slot is first.slot
    bench.give_back(same.slot)
    other = bench.ask("a")
    assert other.slot is None
    bench.end_all()
    assert other.slot is not None
    assert other.slot.cold == {}
    bench.give_back(other.slot, spoiled=True)
    assert bench.kinds() == ["Finish"]


@shows("pool.registry.lease")
def test_two_pools_with_one_registry() -> None:
    registry = MemoryRegistry()
    one, two = Bench(registry, "one"), Bench(registry, "two")
    first = one.ask("a")
    one.end_all()
    second = two.ask("a")
    two.end_all()
    assert first.slot is not None
    assert second.slot is None
    one.core.beaten(registry.beat("one", ["a"]), one.now)
    one.give_back(first.slot)  # it is wanted: it hibernates, and the lease goes
    assert [
        event.reason for event in one.core.take_events(places=False) if isinstance(event, ConversationHibernated)
    ] == ["wanted"]
    one.end_all()
    two.now = 9.0
    two.take()
    two.end_all()
    assert second.slot is not None
    assert (second.slot.session_id, second.slot.resumed) == (first.slot.session_id, True)


def test_a_caller_that_gave_up_keeps_the_conversation_from_no_other_program() -> None:
    registry = MemoryRegistry()
    registry.sightings.clock = lambda: 0.0  # what is not taken back counts for ever
    one, two = Bench(registry, "one"), Bench(registry, "two")
    first = one.ask("a")
    one.end_all()
    second = two.ask("a")
    two.now = 9.0
    two.take()
    two.core.leave(second)
    two.take()
    assert registry.beat("one", ["a"]) == Beat()
    one.give_back(first.slot)
    one.core.stop_all()
    one.take()
    one.end_all()
    third = Bench(registry, "three")
    again = third.ask("a")
    third.end_all()
    assert again.slot is not None
    two.core.close()
    two.take()
    assert two.core.over


@shows("pool.registry.lost")
def test_a_lost_lease_stops_the_process() -> None:
    bench = Bench()
    waiter = bench.ask("a")
    bench.end_all()
    bench.core.beaten(Beat(lost=("a",)), bench.now)
    bench.take()
    assert bench.kinds() == ["Stop"]
    bench.end_all()
    again = bench.ask("a")
    bench.end_all()
    assert again.slot is not None
    bench.give_back(waiter.slot)
    bench.core.beat_failed(5.0)
    bench.take()
    assert not bench.jobs
    bench.core.beat_failed(99.0)
    bench.take()
    assert bench.kinds() == ["Stop"]


@pytest.mark.parametrize("failing", [Acquire, Save])
def test_a_registry_that_fails_ends_one_caller_and_is_called_again_later(failing: type[Job]) -> None:
    bench = Bench()
    bench.failing = (failing,)
    first, second = bench.core.ask("a", PLAIN, 0.0), bench.core.ask("a", PLAIN, 0.0)
    bench.take()
    bench.end_all()
    assert str(first.error) == "the disk is full"
    assert (second.error, second.slot) == (None, None), "what is not stored is given to nobody"
    at = bench.core.next_time()
    assert at is not None
    assert at > bench.now, "a pause comes first"
    bench.failing = ()
    bench.now = at
    bench.take()
    bench.end_all()
    assert second.slot is not None
    assert bench.registry.conversations("a")


@pytest.mark.parametrize("closing", [False, True])
def test_a_lease_that_could_not_be_given_back_is_given_back_later(closing: bool) -> None:
    bench = Bench()
    waiter = bench.ask("a")
    bench.end_all()
    bench.give_back(waiter.slot)
    slot = waiter.slot
    assert slot is not None
    bench.failing = (Release,)
    bench.core.close() if closing else bench.core.died(slot, bench.now)
    bench.take()
    bench.end_all()
    if closing:
        assert bench.core.over, "the end does not wait for a registry"
        return
    assert not bench.registry.acquire("a", "other").taken
    bench.failing = ()
    at = bench.core.next_time()
    assert at is not None
    assert at > bench.now
    bench.now = at
    bench.take()
    assert bench.registry.acquire("a", "other").taken


@shows("pool.end.drain")
def test_the_end() -> None:
    bench = Bench(warm=1, max_live=3)
    bench.take()
    bench.end_all()
    idle, busy = bench.ask("idle"), bench.ask("busy")
    bench.end_all()
    bench.give_back(idle.slot)
    waiting = bench.ask("busy")
    bench.core.close()
    bench.take()
    assert isinstance(waiting.error, PoolClosedError)
    with pytest.raises(PoolClosedError):
        bench.ask()
    bench.end_all()
    assert not bench.core.emptied.is_set
    bench.give_back(busy.slot)
    bench.end_all()
    assert bench.core.emptied.is_set
    assert bench.core.live == 0


def told(bench: Bench) -> list[tuple[Any, ...]]:
    """Return what has happened: kind, key and session of each event, and its reason or source."""
    return [
        (type(event).__name__, event.key, event.session_id, getattr(event, "reason", getattr(event, "source", None)))
        for event in bench.core.take_events()
    ]


def test_what_happens_is_told() -> None:
    bench = Bench(idle=5.0)
    waiter = bench.ask("a")
    bench.end_all()
    bench.give_back(waiter.slot, spoiled=True, session_id="named")
    assert told(bench) == [
        ("ProcessStarted", "a", "me-0", None),
        ("SessionCheckedOut", "a", "me-0", "started"),
        ("SessionReturned", "a", "named", None),
        ("ConversationHibernated", "a", "named", "settings"),
    ]
    bench.end_all()
    waiter = bench.ask("a")
    bench.end_all()
    bench.give_back(waiter.slot)
    other = bench.ask("a", Split({}, {"title": "t"}))
    assert told(bench) == [
        ("ProcessStarted", "a", "named", None),
        ("SessionCheckedOut", "a", "named", "resumed"),
        ("SessionReturned", "a", "named", None),
        ("ConversationHibernated", "a", "named", "settings"),
    ]
    bench.end_all()
    assert other.slot is not None
    bench.give_back(other.slot)
    bench.core.died(other.slot, bench.now)
    bench.ask("a")
    bench.end(bench.jobs[0], StartError("no"))
    assert told(bench)[2:] == [
        ("SessionReturned", "a", "named", None),
        ("ProcessDied", "a", "named", None),
        ("ProcessStartFailed", "a", "named", None),
    ]
    for key in ("b", "c"):
        waiter = bench.ask(key)
        bench.end_all()
        bench.give_back(waiter.slot)
        if key == "b":
            bench.now += 5.0
            bench.take()
            bench.end_all()
        bench.core.close() if key == "c" else None
    assert [event for event in told(bench) if event[0] == "ConversationHibernated"] == [
        ("ConversationHibernated", "b", "me-1", "idle"),
        ("ConversationHibernated", "c", "me-2", "drain"),
    ]


@shows("pool.warm.refilled")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_caller_that_waits_for_a_holder_keeps_no_warm_process_from_being_replaced(elsewhere: bool) -> None:
    registry = MemoryRegistry()
    bench = Bench(registry, warm=1, max_live=4)
    bench.take()
    bench.end_all()
    if elsewhere:
        assert registry.acquire("a", "he").taken
    else:
        bench.ask("a")
        bench.end_all()
    assert bench.ask("a").slot is None
    assert bench.ask().slot is not None
    assert bench.kinds() == ["Start"]


@shows("pool.death.resumed")
def test_a_session_whose_process_dies_before_it_is_quiet_is_resumed() -> None:
    bench = Bench()
    first = bench.ask("a")
    bench.end_all()
    assert first.slot is not None
    bench.give_back(first.slot, quiet=False)
    bench.core.died(first.slot, bench.now)
    bench.take()
    assert bench.core.live == 0
    again = bench.ask("a")
    [start] = bench.jobs
    assert isinstance(start, Start)
    assert (start.session_id, start.resume) == (first.slot.session_id, True)
    bench.end_all()
    assert again.slot is not None


def test_a_conversation_that_was_left_to_another_holder_is_soon_requested_again() -> None:
    registry = MemoryRegistry()
    bench = Bench(registry)
    first = bench.ask("a")
    bench.end_all()
    assert not registry.acquire("a", "he").taken
    bench.core.beaten(registry.beat("me", ["a"]), bench.now)
    again = bench.ask("a")
    bench.give_back(first.slot)
    assert bench.kinds() == ["Finish"]
    bench.end_all()
    following = bench.core.next_time()
    assert following == near(bench.now + 0.05)
    assert registry.acquire("a", "he").taken
    registry.release("a", "he")
    bench.now += 0.05
    bench.take()
    bench.end_all()
    assert again.slot is not None


def near(value: float) -> Any:
    return pytest.approx(value)


def test_the_numbers_of_a_pool() -> None:
    bench = Bench(warm=1, max_live=5, memory=2000 * MB)
    bench.take()
    bench.end_all()
    bench.now = 1.0
    one = bench.ask("a")
    bench.end_all()
    bench.now = 2.0
    two = bench.ask("b", Split({}, {"title": "t"}))
    bench.now = 2.5
    bench.end_all()
    bench.give_back(one.slot)
    bench.now = 3.0
    assert bench.core.timed_out(bench.ask("b"), 1.0).cause == "held"
    three, last = bench.ask("c"), bench.ask("d", Split({}, {"title": "t"}))
    bench.core.slots.measured({0: 300 * MB, 1: 100 * MB, 77: MB})
    assert two.slot is not None
    bench.core.died(two.slot, bench.now)
    waiting = bench.ask("b")
    assert bench.core.stats() == PoolStats(
        live=4,
        starting=2,
        warm=0,
        busy=2,
        idle=1,
        waiting=2,
        hibernated=0,
        memory=(300 + 100 + 2 * 200) * MB,
        hits=2,
        cold_starts=1,
        resumes=0,
        evictions=0,
        hibernations=0,
        deaths=1,
        start_failures=0,
        timeouts=1,
        waits=WaitTimes(3, near(0.51), near(0.51), (2, 0, 0, 1, 0, 0)),
    )
    assert bench.core.stats().waits.mean == pytest.approx(0.17)
    assert {key: state for key, (_, state) in bench.core.standing.items()} == {"a": "live", "b": "held", "c": "held"}
    bench.end_all()
    bench.give_back(two.slot)
    bench.give_back(three.slot)
    bench.end_all()
    bench.now = 30.0
    bench.take()
    bench.end_all()
    assert waiting.slot is not None
    assert (waiting.slot.session_id, waiting.source, last.source) == (two.slot.session_id, "resumed", "started")
    stats = bench.core.stats()
    assert (stats.busy, stats.idle, stats.deaths, stats.waits.count) == (2, 2, 1, 5)


def test_waits_are_counted_in_classes() -> None:
    meter = Meter()
    assert (meter.waits, meter.waits.mean) == (WaitTimes(), 0.0)
    for seconds in (0.001, 0.0011, 0.01, 0.1, 1.0, 0.5, 10.0, 11.0):
        meter.waited(seconds)
    assert meter.waits == WaitTimes(8, near(22.6121), 11.0, (1, 2, 1, 2, 1, 1))


@pytest.mark.parametrize("key", ["a", None])
@pytest.mark.parametrize("closing", [False, True])
def test_a_caller_that_got_a_dead_process_waits_again_before_all_others(key: str | None, closing: bool) -> None:
    bench = Bench(max_live=1)
    first = bench.ask(key)
    bench.end_all()
    others = [bench.ask(key), bench.ask("b")]
    assert first.slot is not None
    bench.core.died(first.slot, bench.now)
    if closing:
        bench.core.close()
    slot, flag = first.slot, first.flag
    bench.give_back(slot)
    bench.core.again(first)
    if closing:
        assert isinstance(first.error, PoolClosedError)
        assert first.flag.is_set
        return
    assert first.error is None
    assert first.flag is not flag
    places = [event.place for event in bench.core.take_events(places=True) if isinstance(event, CallerQueued)]
    assert places == [1, 2, 3]
    for waiter in (first, *others):
        bench.take()
        bench.end_all()
        assert waiter.slot is not None
        assert waiter.slot is not slot
        bench.give_back(waiter.slot)
        bench.end_all()


def test_a_caller_that_got_a_dead_process_waits_with_those_that_have_come_since() -> None:
    bench = Bench(max_live=1)
    first = bench.ask("a")
    bench.end_all()
    assert first.slot is not None
    bench.core.died(first.slot, bench.now)
    bench.give_back(first.slot)  # nothing is left of the conversation here
    second = bench.ask("a")
    bench.core.again(first)
    for waiter in (first, second):
        bench.take()
        bench.end_all()
        bench.give_back(waiter.slot)


def test_a_conversation_is_claimed_when_nobody_has_it() -> None:
    bench = Bench()
    waiter = bench.ask("a")
    with pytest.raises(ConversationInUseError, match="'a'"):
        bench.core.claim("a")  # a caller waits
    bench.end_all()
    with pytest.raises(ConversationInUseError):
        bench.core.claim("a")  # it has a holder
    bench.give_back(waiter.slot)
    flag = bench.core.claim("a")
    assert isinstance(flag, Flag)
    bench.take()
    assert [event.reason for event in bench.core.take_events() if isinstance(event, ConversationHibernated)] == [
        "forgotten"
    ]
    assert bench.core.claim("a") is flag, "its process has to end first"
    bench.end_all()
    assert bench.core.stats().hibernated == 1
    claimed = bench.core.claim("a")
    assert not isinstance(claimed, Flag)
    assert bench.core.stats().hibernated == 0
    waiter = bench.ask("a")
    assert (waiter.slot, bench.jobs) == (None, []), "it is kept from all callers"
    bench.core.released(claimed)
    bench.take()
    bench.end_all()
    assert waiter.slot is not None
    bench.core.close()
    with pytest.raises(PoolClosedError):
        bench.core.claim("b")


def test_a_conversation_that_another_program_runs_is_requested_ever_less_often() -> None:
    registry = MemoryRegistry()
    assert registry.acquire("a", "he").taken
    bench = Bench(registry)
    waiter = bench.ask("a")
    pauses = []
    for _ in range(6):
        at = bench.core.next_time()
        assert at is not None
        pauses.append(at - bench.now)
        bench.now = at
        bench.take()
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.5, 0.5])
    assert waiter.slot is None
    registry.release("a", "he")
    bench.now += 0.5
    bench.take()
    bench.end_all()
    assert waiter.slot is not None


@pytest.mark.parametrize(
    ("held_at", "working", "stopped"), [(1.0, False, True), (2.0, False, True), (2.1, False, False), (1.0, True, False)]
)
def test_a_lease_that_a_heartbeat_has_not_found_is_lost_if_it_is_older(
    held_at: float, working: bool, stopped: bool
) -> None:
    bench = Bench()
    bench.now = held_at
    waiter = bench.ask("a")
    bench.end_all()
    assert waiter.conv is not None
    if working:
        waiter.conv.move(LeaseTrigger.SAVE)
    bench.core.beaten(Beat(lost=("a", "unknown"), wanted=("unknown",)), 2.0)
    bench.take()
    assert bench.kinds() == (["Stop"] if stopped else [])


def test_a_lease_that_no_conversation_has_is_given_back() -> None:
    bench = Bench()
    for key in ("left", "used"):
        assert bench.registry.acquire(key, "me").taken
    waiter = bench.ask("used")
    bench.core.beaten(Beat(), 1.0, {"left", "used"})
    bench.take()
    bench.end_all()
    assert waiter.slot is not None
    assert bench.registry.acquire("left", "other").taken
    assert not bench.registry.acquire("used", "other").taken


@pytest.mark.parametrize(("age", "stopped"), [(9.0, False), (9.01, True)])
@pytest.mark.parametrize("beaten", [0.0, 5.0])
def test_without_heartbeats_a_lease_is_lost_after_its_time(age: float, stopped: bool, beaten: float) -> None:
    bench = Bench()
    bench.now = 3.0
    bench.ask("a")
    bench.end_all()
    bench.core.beaten(Beat(), beaten)
    bench.core.beat_failed(max(3.0, beaten) + age)
    bench.take()
    assert bench.kinds() == (["Stop"] if stopped else [])


@shows("pool.limits.too-small")
@pytest.mark.parametrize(("crowded", "warns"), [(9, False), (10, True)])
@pytest.mark.parametrize("limit", ["max_live", "memory_limit"])
def test_a_pool_is_too_small_if_every_second_caller_waits_for_a_place(crowded: int, warns: bool, limit: str) -> None:
    bench = Bench(max_live=1) if limit == "max_live" else Bench(max_live=5, memory=300 * MB)
    for number in range(20):
        waiter = bench.ask("a" if number < 20 - crowded else str(number))
        bench.end_all()
        assert waiter.slot is not None
        bench.core.take_events() if number < 19 else None
        bench.give_back(waiter.slot)
    warnings = [event.warning for event in bench.core.take_events() if isinstance(event, PoolWarned)]
    context = {"limit": limit, "waited": 10, "of": 20, "max_live": bench.core.limits.max_live}
    assert [warning.context for warning in warnings] == ([context] if warns else [])


@shows("pool.limits.memory")
def test_a_process_that_was_not_measured_counts_as_much_as_the_others() -> None:
    bench = Bench(max_live=9, memory=1000 * MB)
    assert bench.core.slots.memory == 0
    for key, size in (("a", 100), ("b", 500), ("c", None)):
        bench.ask(key)
        bench.end_all()
        if size is not None:
            bench.core.slots.measured({slot.number: size * MB for slot in bench.core.slots.values() if slot.key == key})
    assert bench.core.slots.memory == (100 + 500 + 300) * MB
    bench.ask("d")
    assert not bench.jobs, "there is no room for 300 MB"
    bench.core.slots.measured({slot.number: 100 * MB for slot in bench.core.slots.values() if slot.key == "b"})
    bench.take()
    assert bench.kinds() == ["Start"]
    bench.end_all()
    assert bench.core.slots.memory == 400 * MB


def test_a_process_that_is_not_measured_and_leaves_needs_no_memory() -> None:
    bench = Bench(max_live=9, memory=1000 * MB)
    waiters = [bench.ask("b"), bench.ask("c")]
    bench.end_all()
    before = bench.core.slots.memory
    bench.give_back(waiters[0].slot, spoiled=True)
    assert bench.kinds() == ["Finish"]
    assert bench.core.slots.memory < before
    bench.end_all()
    assert bench.core.slots.memory < before


class Play:
    """Callers, processes and registries at random; after each step the promises are checked."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seeded(seed))
        registry = MemoryRegistry()
        names = ["one", "two"][: dice.choice((1, 1, 2))]
        warm = dice.randrange(3)
        limits = {
            "warm": warm,
            "max_live": dice.randrange(max(1, warm), 5),
            "max_starting": dice.randrange(1, 4),
            "idle": dice.choice((5.0, 50.0)),
            "memory": dice.choice((None, None, 700 * MB)),
        }
        self.benches = [Bench(registry, name, **limits) for name in names]
        registry.sightings.clock = lambda: max(bench.now for bench in self.benches)
        self.waiting: dict[Waiter, tuple[Bench, str | None]] = {}
        self.holding: dict[Waiter, Bench] = {}
        self.used: Counter[int] = Counter()
        self.asked = self.ended = 0

    def differences(self) -> Split:
        dice = self.dice
        hot = {"model": "x"} if dice.random() < 0.2 else {}
        return Split(hot, {"title": "t"} if dice.random() < 0.1 else {})

    def step(self) -> None:
        dice = self.dice
        bench = dice.choice(self.benches)
        bench.core.take_events()
        match dice.randrange(12):
            case 0 | 1 | 2:
                key = dice.choice([None, None, "a", "b", "c", "d", "e", "f"])
                self.waiting[bench.ask(key, self.differences())] = (bench, key)
                self.asked += 1
            case 3 | 4 | 5 if bench.jobs:
                failed = dice.random() < 0.1
                bench.end(dice.choice(bench.jobs), StartError("chance") if failed else None)
            case 6 | 7 if self.holding:
                self.give_back(dice.choice(list(self.holding)))
            case 8 if self.waiting and dice.random() < 0.2:
                waiter = dice.choice(list(self.waiting))
                owner, _ = self.waiting.pop(waiter)
                owner.core.leave(waiter)
                if waiter.slot is not None:
                    owner.core.unused(waiter.slot, owner.now, quiet=True)
                owner.take()
                self.ended += 1
            case 9 if bench.core.slots:
                slot = dice.choice(list(bench.core.slots.values()))
                if slot.state is State.SETTLING:
                    bench.core.quiet(slot)
                elif dice.random() < 0.3:
                    bench.core.died(slot, bench.now)
                bench.take()
            case 10:
                self.pass_time(bench)
            case 11 if bench.core.slots:
                bench.core.slots.measured({number: dice.randrange(100, 400) * MB for number in bench.core.slots})
                bench.take()
        self.look()

    def pass_time(self, bench: Bench) -> None:
        at = bench.core.next_time()
        bench.now = max(bench.now + self.dice.random(), at or 0.0)
        bench.core.beaten(bench.registry.beat(bench.name, bench.held), bench.now)
        bench.take()

    def give_back(self, waiter: Waiter) -> None:
        dice, bench = self.dice, self.holding.pop(waiter)
        applied = {"model": dice.choice(("x", "y"))} if dice.random() < 0.2 else {}
        bench.give_back(waiter.slot, quiet=dice.random() < 0.8, applied=applied, spoiled=dice.random() < 0.05)
        self.ended += 1

    def look(self) -> None:
        for waiter, (bench, key) in list(self.waiting.items()):
            if waiter.error is not None:
                del self.waiting[waiter]
                self.ended += 1
            elif waiter.slot is not None:
                del self.waiting[waiter]
                self.holding[waiter] = bench
                assert waiter.slot.key == key
                assert waiter.slot.cold == waiter.differences.cold
        slots = [(bench.name, waiter.slot.number) for waiter, bench in self.holding.items() if waiter.slot is not None]
        assert len(slots) == len(set(slots)), "a slot has two holders"
        keys = [waiter.conv.key for waiter in self.holding if waiter.conv is not None]
        assert len(keys) == len(set(keys)), "a conversation has two holders"
        for bench in self.benches:
            core = bench.core
            assert core.live == sum(slot.state in LIVE for slot in core.slots.values()) <= core.limits.max_live
            assert core.stats().starting <= core.limits.max_starting

    def finish(self) -> None:
        """Every caller ends: with a session, or with an error."""
        for _ in range(10_000):
            if not self.waiting and not self.holding:
                break
            for waiter in list(self.holding):
                self.give_back(waiter)
            for bench in self.benches:
                bench.end_all()
                for slot in list(bench.core.slots.values()):
                    bench.core.quiet(slot)
                self.pass_time(bench)
            self.look()
        assert not self.waiting, "a caller waits for ever"
        assert self.ended == self.asked
        for bench in self.benches:
            bench.core.stop_all()
            bench.take()
            bench.end_all()
            assert bench.core.over
            assert bench.core.emptied.is_set
            assert not bench.core.live


@shows("pool.limits.max-live", "pool.sessions.exclusive")
@pytest.mark.parametrize("block", range(4))
def test_random_interleavings(block: int) -> None:
    for seed in range(block * 25, block * 25 + examples(25)):
        play = Play(seed)
        try:
            for _ in range(300):
                play.step()
            play.finish()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
