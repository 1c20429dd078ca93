"""A simple model of a journal: each call is made on both, and its result compared."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from hackamore.errors import TaskChangedError
from hackamore.fleet.journal import Journal, Lease
from hackamore.fleet.states import HELD, OVER, TASK, Cause, Opening, State, Trigger
from hackamore.fleet.task import Spec
from hackamore.storage.holders import holder_name
from tests.support.journals import open_tasks

FAR = "linux:elsewhere:pid:[4026531836]|{}|9|0badcafe"
HOLDERS = [holder_name(), holder_name(), FAR.format(7), FAR.format(8)]
"""Two that run, and two on another machine, which run only as far as their heartbeats say."""
NAMES = [f"task-{number}" for number in range(5)]
LATER = 4e9
ENDINGS = [
    (Trigger.ACCEPTED, None),
    (Trigger.POSTPONED, Cause.CRASH),
    (Trigger.POSTPONED, Cause.VERIFY),
    (Trigger.POSTPONED, Cause.THROTTLED),
    (Trigger.GIVEN_BACK, Cause.STOPPED),
    (Trigger.GAVE_UP, Cause.MODEL),
    (Trigger.CANCELLED, Cause.CANCELLED),
]


@dataclass
class Try:
    """An attempt, as it should be."""

    session: str
    resumed: bool
    usd: int = 0
    tokens: int = 0
    begun: bool = False
    ended: bool = False
    settled: bool = False
    cause: str | None = None


@dataclass
class Item:
    """A task, as it should be."""

    name: str
    state: State = State.QUEUED
    holder: str | None = None
    tries: list[Try] = field(default_factory=list)
    failures: int = 0
    cancel: Cause | None = None
    not_before: float = 0.0
    said: bool = False
    text: str | None = None
    answered: bool = False
    feedback: str | None = None
    unknown: int = 0
    cause: str | None = None


class Model:
    """What a journal should hold. Each call takes three numbers that choose its arguments: from 0 to 7, 0 to 31 and 0 to 99."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.items: dict[str, Item] = {}
        self.log: list[tuple[str, int, str]] = []
        self.beats: set[str] = set()
        self.leases: list[Lease] = []

    # -- the model -----------------------------------------------------------------------------------------------------

    def move(self, item: Item, trigger: Trigger, holder: str | None = None) -> None:
        item.state = TASK[item.state, trigger]
        item.holder = holder if item.state in HELD else None
        self.log.append((item.name, len(item.tries), item.state.word))

    def end(self, item: Item, trigger: Trigger, cause: Cause | None, **more: Any) -> None:
        last, killed = item.tries[-1], cause is Cause.LOST
        if item.cancel is Cause.CANCELLED and trigger in (Trigger.GIVEN_BACK, Trigger.POSTPONED):
            trigger, cause = Trigger.CANCELLED, Cause.CANCELLED
        self.move(item, trigger)
        last.ended, last.settled = True, last.settled or not killed
        item.cause = last.cause = None if cause is None else cause.word
        item.answered = item.answered and cause is not Cause.VERIFY
        item.cancel, item.feedback = None, more.get("feedback")
        item.failures += more.get("counted", False)
        item.not_before = more.get("not_before", 0.0)

    def held(self, holder: str) -> list[Item]:
        return [item for item in self.items.values() if item.holder == holder]

    def chosen(self, bits: int) -> list[str]:
        return [name for at, name in enumerate(self.items) if bits >> at & 1]

    def pick(self, who: int, which: int) -> tuple[Lease, Item, str, bool] | None:
        """Return a lease, its task, a holder, and whether this one has it; mostly it has."""
        if not self.leases:
            return None
        lease = self.leases[-1 - which % min(len(self.leases), 6)]
        item = self.items[lease.task]
        holder = HOLDERS[who] if who < 2 else item.holder or lease.holder
        return lease, item, holder, item.holder == holder and len(item.tries) == lease.attempt

    # -- calls ---------------------------------------------------------------------------------------------------------

    def add(self, who: int, which: int, number: int) -> None:
        names = [name for at, name in enumerate(NAMES) if which >> at & 1]
        if number < 5 and any(name in self.items for name in names):
            with pytest.raises(TaskChangedError):
                self.journal.add([(name, Spec(prompt="Another")) for name in names])
            return
        for name in names:
            self.items.setdefault(name, Item(name))
        wanted = {name for name in names if self.items[name].state not in OVER}
        assert self.journal.add([(name, Spec(prompt="Work")) for name in names]) == wanted

    def lease(self, who: int, which: int, number: int) -> None:
        holder, most, now = HOLDERS[who % 4], 1 + number % 3, time.time() if number < 50 else LATER
        ready = [
            item
            for item in self.items.values()
            if item.state in (State.QUEUED, State.WAITING) and item.not_before <= now
        ][:most]
        found = self.journal.lease(holder, most, set(NAMES), now)
        assert [lease.task for lease in found] == [item.name for item in ready]
        for lease, item in zip(found, ready, strict=True):
            resumed = item.said or item.answered
            assert (lease.attempt, lease.resumed) == (len(item.tries) + 1, resumed)
            assert (lease.opening is Opening.CHECK, lease.text) == (item.answered, item.text if item.answered else None)
            assert lease.failures == item.failures
            assert not (resumed and item.feedback) or lease.prompt == item.feedback
            assert (lease.session_id in {each.session for each in item.tries}) == resumed
            assert not resumed or lease.session_id == item.tries[-1].session
            item.tries.append(Try(lease.session_id, resumed))
            item.said, item.feedback = resumed, None
            self.move(item, Trigger.LEASED, holder)
        self.leases += found

    def begin(self, who: int, which: int, number: int) -> None:
        if chosen := self.pick(5, which):
            lease, item, _, _ = chosen
            can = len(item.tries) == lease.attempt and item.state is State.LEASED
            assert self.journal.begin(lease, HOLDERS[who % 4], trace=None) == can
            if can:
                item.tries[-1].begun = True
                self.move(item, Trigger.BEGUN, HOLDERS[who % 4])

    def note(self, who: int, which: int, number: int) -> None:
        if chosen := self.pick(who, which):
            lease, item, holder, has = chosen
            said = number % 2 == 0
            found = self.journal.note(lease, holder, said=said, usd=number, tokens=number // 2)
            assert found is (item.cancel if has else Cause.LOST)
            if has:
                item.said = item.said or said
                self.spend(item, number)

    def spend(self, item: Item, number: int) -> None:
        item.tries[-1].usd += number
        item.tries[-1].tokens += number // 2

    def answer(self, who: int, which: int, number: int) -> None:
        if chosen := self.pick(who, which):
            lease, item, holder, has = chosen
            text = f"{item.name} {number}"
            if has and item.state is not State.RUNNING:
                with pytest.raises(KeyError):
                    self.journal.answer(lease, holder, text=text, output=None, usd=5)
                return
            assert self.journal.answer(lease, holder, text=text, output=None, usd=number, tokens=number // 2) == has
            if has:
                item.text, item.answered = text, True
                self.spend(item, number)
                self.move(item, Trigger.ANSWERED, holder)

    def finish(self, who: int, which: int, number: int) -> None:
        if chosen := self.pick(who, which):
            lease, item, holder, has = chosen
            trigger, cause = ENDINGS[number % len(ENDINGS)]
            more: dict[str, Any] = {"counted": cause is Cause.CRASH, "feedback": "Go on." if number % 2 else None}
            more["not_before"] = LATER if cause is Cause.THROTTLED else 0.0
            if has and (item.state, trigger) not in TASK:
                with pytest.raises(KeyError):
                    self.journal.finish(lease, holder, trigger, cause=cause, usd=5)
                return
            more |= {"usd": number, "tokens": number // 2}
            assert self.journal.finish(lease, holder, trigger, cause=cause, **more) == has
            if has:
                self.spend(item, number)
                self.end(item, trigger, cause, **more)

    def settle(self, who: int, which: int, number: int) -> None:
        if (chosen := self.pick(who, which)) and chosen[1].tries[chosen[0].attempt - 1].ended:
            lease, item, _, _ = chosen
            self.journal.settle(item.name, lease.attempt, number, number // 2, 1)
            done = item.tries[lease.attempt - 1]
            if not done.settled:
                done.usd, done.tokens, done.settled = number, number // 2, True
                item.unknown += 1

    def beat(self, who: int, which: int, number: int) -> None:
        self.journal.beat(HOLDERS[who % 4])
        self.beats.add(HOLDERS[who % 4])

    def give_back(self, who: int, which: int, number: int) -> None:
        leased = [item for item in self.held(HOLDERS[who % 4]) if item.state is State.LEASED]
        assert self.journal.give_back(HOLDERS[who % 4]) == [(item.name, len(item.tries)) for item in leased]
        for item in leased:
            self.end(item, Trigger.GIVEN_BACK, Cause.STOPPED)

    def leave(self, who: int, which: int, number: int) -> None:
        self.journal.leave(HOLDERS[who % 4])
        self.forget(HOLDERS[who % 4], Cause.STOPPED)

    def forget(self, holder: str, cause: Cause) -> int:
        found = self.held(holder)
        for item in found:
            self.end(item, Trigger.GIVEN_BACK, cause)
        self.beats.discard(holder)
        return len(found)

    def reclaim(self, who: int, which: int, number: int) -> None:
        gone = [holder for holder in HOLDERS[2:] if holder not in self.beats and self.held(holder)]
        before = len(self.log)
        found = self.journal.reclaim(HOLDERS[who % 2])
        assert found == sum(self.forget(holder, Cause.LOST) for holder in gone)
        # The order of the holders is that of the database.
        new = self.journal.changes(before)
        assert sorted((each.task, each.attempt, each.state) for each in new) == sorted(self.log[before:])
        self.log[before:] = [(each.task, each.attempt, each.state) for each in new]

    def cancel(self, who: int, which: int, number: int) -> None:
        names = self.chosen(which)
        items = [self.items[name] for name in names if self.items[name].state not in OVER]
        assert self.journal.cancel(names) == len(items)
        for item in items:
            if item.state in HELD:
                item.cancel = Cause.CANCELLED
            else:
                item.cause = Cause.CANCELLED.word
                self.move(item, Trigger.CANCELLED)

    def halt(self, who: int, which: int, number: int) -> None:
        self.journal.halt(self.chosen(which))
        for item in (self.items[name] for name in self.chosen(which)):
            if item.holder is not None:
                item.cancel = item.cancel or Cause.STOPPED

    def retry(self, who: int, which: int, number: int) -> None:
        names, fresh = self.chosen(which), number < 50
        items = [self.items[name] for name in names if self.items[name].state in (State.FAILED, State.CANCELLED)]
        assert self.journal.retry(names, fresh=fresh) == len(items)
        for item in items:
            item.failures, item.not_before, item.cause = 0, 0.0, None
            if fresh:
                item.said, item.answered, item.feedback = False, False, None
            self.move(item, Trigger.RETRIED)

    # -- comparison ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        journal, items = self.journal, self.items.values()
        assert [
            (row.task, row.state, row.attempt, row.failures, row.text, row.cause, row.unknown_calls)
            for row in journal.rows()
        ] == [
            (item.name, item.state.word, len(item.tries), item.failures, item.text, item.cause, item.unknown)
            for item in items
        ]
        assert [(round(row.cost * 1e9), row.tokens) for row in journal.rows()] == [
            (sum(each.usd for each in item.tries), sum(each.tokens for each in item.tries)) for item in items
        ]
        states = Counter(item.state.word for item in items)
        assert journal.counts() == {state.word: states[state.word] for state in State}
        for holder in HOLDERS:
            wanted = {item.name: (len(item.tries), item.cancel) for item in self.held(holder)}
            assert journal.held(holder) == wanted

    def check_all(self) -> None:
        journal, items = self.journal, list(self.items.values())
        for item in items:
            assert [
                (each.session_id, each.resumed, each.cause, each.ended is not None, round(each.cost * 1e9), each.tokens)
                for each in journal.attempts(item.name)
            ] == [(each.session, each.resumed, each.cause, each.ended, each.usd, each.tokens) for each in item.tries]
            left = [
                (at, each.session, None) for at, each in enumerate(item.tries, 1) if each.begun and not each.settled
            ]
            assert journal.unsettled(item.name, 1_000) == left
        usd, tokens = journal.spent()
        tries = [each for item in items for each in item.tries]
        assert (round(usd * 1e9), tokens) == (sum(each.usd for each in tries), sum(each.tokens for each in tries))
        assert [(each.task, each.attempt, each.state) for each in journal.changes(most=10_000)] == self.log
        assert open_tasks(journal) == {item.name: item.not_before for item in items if item.state not in OVER}
