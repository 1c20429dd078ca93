"""Requests in any order of questions, answers, withdrawals, timeouts and claims, compared with a model."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, Future, wait
from contextlib import ExitStack, closing
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from anyio.from_thread import start_blocking_portal

from hackamore import Allow, ApprovalError, Approvals, Deny
from tests.approvals.asking import asked, running
from tests.contract import shows
from tests.support.forking import Fork
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.sizes import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anyio.from_thread import BlockingPortal

    from hackamore.approvals import Continuation

TALKS = ("one", "two")
CALLS = ("make", "make clean")
NO = Deny("No.")
TIMED_OUT = Deny("No person answered in time.")
TAKEN_BACK = Deny("The request for this call was cancelled. It has not run.")
TIMEOUT = 1_000.0


class Record:
    """A request as it should be."""

    def __init__(self, talk: str, call: str, now: float) -> None:
        self.talk, self.call = talk, call
        self.id = ""
        self.state = "waiting"
        self.answer: Any = None
        self.by: str | None = None
        self.deadline = now + TIMEOUT
        self.claimed = False
        self.callback: Future[Any] | None = None
        self.session: Any = None
        self.left = threading.Event()

    @property
    def is_open(self) -> bool:
        return self.state in ("waiting", "answered")


class World:
    """Programs that share a database, and the model of it."""

    def __init__(self, address: str, portal: BlockingPortal, clock: SimpleNamespace, chance: random.Random) -> None:
        self._stack = ExitStack()
        self.programs = [
            self._stack.enter_context(closing(Approvals(address, timeout=TIMEOUT, hold=None))) for _ in range(3)
        ]
        self._portal, self._clock, self.chance = portal, clock, chance
        self.records: list[Record] = []
        self._continuations: list[Continuation] = []
        self.log: list[str] = []

    def close(self) -> None:
        for record in self.records:
            if record.callback is not None:
                record.session.state.name = "STOPPING"
                record.callback.cancel()
        callbacks = [record.callback for record in self.records if record.callback is not None]
        assert not wait(callbacks, patience(20)).not_done
        self._stack.close()

    @property
    def program(self) -> Approvals:
        return self.chance.choice(self.programs)

    def some(self, *, live: bool = False) -> Record | None:
        found = [each for each in self.records if not live or each.callback is not None]
        return self.chance.choice(found) if found else None

    def _expire(self) -> None:
        """Any call that changes something does it first."""
        for each in self.records:
            if each.state == "waiting" and each.deadline <= self._clock.now:
                each.state, each.answer, each.by = "answered", TIMED_OUT, "deadline"

    def _settle(self) -> None:
        """Let callbacks take the answers of their requests."""
        for each in self.records:
            if each.callback is None or each.state == "waiting":
                continue
            result = each.callback.result(patience(20))
            each.callback = None
            if each.state == "answered":
                each.state = "used"
                assert result == each.answer, self.log
            else:
                assert (each.state, result) == ("withdrawn", TAKEN_BACK), self.log

    # -- what may happen ---------------------------------------------------------------------------------------------

    def ask(self) -> None:
        talk, call = self.chance.choice(TALKS), self.chance.choice(CALLS)
        self._clock.now += 0.001  # two requests of one moment would have no order
        self._expire()
        left = [each for each in self.records if (each.talk, each.call) == (talk, call) and each.is_open]
        record = min((each for each in left if each.callback is None), key=lambda each: each.deadline, default=None)
        if record is None:
            record = Record(talk, call, self._clock.now)
            self.records.append(record)
        record.session = running()
        request = asked(conversation=talk, session=record.session, command=call)
        record.left.clear()
        record.callback = self._portal.start_task_soon(self._permit, self.program, record, request)
        known = {each.id for each in self.records}
        until = time.monotonic() + patience(20)
        while not record.id:
            assert time.monotonic() < until, self.log
            new = [each.id for each in self.programs[0].pending() if each.id not in known]
            record.id = new[0] if new else ""
        # A callback that comes after the next step would find the request of an earlier one in another state.
        while self.programs[0].get(record.id).call != request.tool_use_id:
            assert time.monotonic() < until, self.log

    async def _permit(self, program: Approvals, record: Record, request: Any) -> Any:
        try:
            return await program.permit(request)
        finally:
            record.left.set()

    def answer(self) -> None:
        if (record := self.some()) is None:
            return
        self._expire()
        answers: list[Allow | Deny] = [Allow(), NO]
        answer, by = self.chance.choice(answers), self.chance.choice(["ada", "bob"])
        try:
            self.program.answer(record.id, answer, by=by)
        except ApprovalError as error:
            assert record.state != "waiting", self.log
            assert error.request.answered_by == record.by, self.log
            assert record.by is None or repr(record.by) in str(error) or "timed out" in str(error)
        else:
            assert record.state == "waiting", self.log
            record.state, record.answer, record.by = "answered", answer, by

    def withdraw(self) -> None:
        if (record := self.some()) is None:
            return
        try:
            self.program.withdraw(record.id)
        except ApprovalError:
            assert not record.is_open, self.log
        else:
            assert record.is_open, self.log
            record.state = "withdrawn"

    def interrupt(self, *, stops: bool = False) -> None:
        """End a callback: its turn was interrupted, or its session stops gracefully."""
        if (record := self.some(live=True)) is None:
            return
        assert record.callback is not None
        if stops:
            record.session.state.name = "STOPPING"
        record.callback.cancel()
        with pytest.raises(CancelledError):
            record.callback.result(patience(20))
        record.callback = None
        # The future of a cancelled callback is done at once. Until the callback has left its request, an equal call makes another one.
        assert record.left.wait(patience(20)), self.log
        record.state = "waiting" if stops else "withdrawn"
        # A thread that was still writing the request down takes it back a little later.
        until = time.monotonic() + patience(20)
        while self.programs[0].get(record.id).state != record.state:
            assert time.monotonic() < until, self.log

    def stop(self) -> None:
        self.interrupt(stops=True)

    def forward(self) -> None:
        self._clock.now += TIMEOUT * self.chance.choice([0.4, 1.1])

    def back(self) -> None:
        self._clock.now -= TIMEOUT * self.chance.choice([0.3, 2])

    def claim(self) -> None:
        self._claim(self.program.claim())

    def claim_and_die(self) -> None:
        """Claim in a process that ends before it has continued the conversation."""
        self._expire()
        free = self._free()
        program = self.program

        def child() -> None:
            found = program.claim()
            assert (found is None) == (not free)
            assert found is None or found.conversation in free

        Fork(lambda _: child()).wait()

    def _free(self) -> set[str]:
        waiting = {each.talk for each in self.records if each.state == "waiting"}
        return {
            each.talk
            for each in self.records
            if each.state == "answered" and not each.claimed and each.talk not in waiting
        }

    def _claim(self, found: Continuation | None) -> None:
        self._expire()
        free = self._free()
        assert (found is None) == (not free), self.log
        if found is not None:
            assert found.conversation in free, self.log
            mine = [each for each in self.records if each.talk == found.conversation and each.state == "answered"]
            assert {each.id for each in found.requests} == {each.id for each in mine}, self.log
            for each in mine:
                each.claimed = True
            self._continuations.append(found)

    def done(self) -> None:
        if self._continuations:
            found = self._continuations.pop()
            self.program.done(found)
            for each in self.records:
                if each.id in {one.id for one in found.requests} and each.state == "answered":
                    each.state = "lapsed"

    def step(self) -> None:
        do: Callable[[], None] = self.chance.choice(
            [self.ask] * 4
            + [self.answer] * 4
            + [self.claim] * 2
            + [self.withdraw, self.interrupt, self.stop, self.forward, self.back, self.claim_and_die, self.done]
        )
        self.log.append(do.__name__)
        do()
        self._expire()
        self._settle()
        self.compare()

    def compare(self) -> None:
        found = {each.id: each for each in [*self.program.pending(), *self.program.history()]}
        self._expire()
        assert len(found) == len(self.records), self.log
        for each in self.records:
            record = found[each.id]
            assert (record.state, record.answered_by, record.answer) == (each.state, each.by, each.answer), self.log


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch, backend: str) -> Iterator[BlockingPortal]:
    monkeypatch.setattr("hackamore.approvals.approvals._POLL_SECONDS", 0.01)
    with start_blocking_portal(backend) as portal:
        yield portal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=time.time(), monotonic=time.monotonic)
    clock.time = lambda: clock.now
    monkeypatch.setattr("hackamore.approvals.approvals.time", clock)
    return clock


@shows("approvals.states")
@pytest.mark.parametrize("number", range(size("interleavings of approvals")))
def test_any_order_follows_the_model(address: str, portal: BlockingPortal, clock: SimpleNamespace, number: int) -> None:
    with closing(World(address, portal, clock, random.Random(seeded(number)))) as world:
        for _ in range(40):
            world.step()


@shows("approvals.states")
def test_threads_that_answer_and_withdraw_at_the_same_time(address: str, portal: BlockingPortal) -> None:
    asking = 24
    with ExitStack() as stack:
        brokers = [stack.enter_context(closing(Approvals(address, hold=None))) for _ in range(3)]
        callbacks = [
            portal.start_task_soon(brokers[each % 2].permit, asked(conversation=f"talk {each}", command="make"))
            for each in range(asking)
        ]
        until = time.monotonic() + patience(30)
        while len(pending := brokers[2].pending()) < asking:
            assert time.monotonic() < until
        counted: Counter[str] = Counter()
        barrier = threading.Barrier(6)

        def person(number: int) -> None:
            barrier.wait()
            for each in pending:
                change = (
                    partial(brokers[number % 3].withdraw, each.id)
                    if number == 5
                    else partial(brokers[number % 3].answer, each.id, Allow(), by=f"person {number}")
                )
                try:
                    change()
                except ApprovalError as error:
                    assert error.request.state != "waiting"
                else:
                    counted[f"{each.id} {'withdrawn' if number == 5 else 'answered'}"] += 1

        people = [threading.Thread(target=person, args=(number,)) for number in range(6)]
        for each in people:
            each.start()
        for each in people:
            each.join()
        results = [callback.result(patience(30)) for callback in callbacks]
        records = brokers[0].history()
    assert set(counted.values()) == {1}
    assert results.count(Allow()) == sum(record.state == "used" for record in records)
    assert results.count(TAKEN_BACK) == sum(record.state == "withdrawn" for record in records)
    assert len(records) == len(results) == asking
