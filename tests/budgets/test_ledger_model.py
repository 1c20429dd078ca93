"""The ledger of budgets against a simple model: programs on one file that take turns, and are killed after any statement."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hackamore.budgets import ledger as module
from hackamore.budgets.ledger import NANO, Bounds, Ledger, Row
from hackamore.storage import leases
from tests.support.examples import examples
from tests.support.mortal import KilledError, Mortal

ELSEWHERE = 600.0
"""How long a reservation counts without a sign of its turn, where its process cannot be looked at."""
WEIGHT = 0.2
"""The weight of the newest calls in the mean."""
PLACES = ["here", "here", "there"]
"""The container that each program runs in."""
FREE = Bounds(None, None)
FIRST = (NANO // 20, 20_000)
Limits = list[tuple[str, Bounds]]


@dataclass
class Account:
    """What was spent for a key, and the points that warnings came at."""

    spent: tuple[int, int] = (0, 0)
    warned: list[int] = field(default_factory=lambda: [-1, -1])


@dataclass
class Reservation:
    """What a turn has reserved for a key."""

    usd: int
    tokens: int
    holder: str
    seen: int


@dataclass
class Model:
    """A ledger, as it should be.

    Attributes:
        dead: programs whose process is gone.
        place: the container that somebody looks from.
        sightings: the sign of a program that cannot be looked at, and the boot and time at which anybody saw it first.
        boot: the name of the machine's present boot; empty if it is not known.
        now: the time since then.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    reservations: dict[tuple[str, str], Reservation] = field(default_factory=dict)
    mean: tuple[float, float] | None = None
    dead: set[str] = field(default_factory=set)
    place: str = ""
    sightings: dict[str, tuple[int, str, float]] = field(default_factory=dict)
    boot: str = ""
    now: float = 1000.0
    signs: int = 0

    def runs(self, holder: str, *, local: bool = True) -> bool | None:
        return holder not in self.dead if holder.startswith(self.place) else None

    def is_gone(self, holder: str, sign: int) -> bool:
        if (running := self.runs(holder)) is not None:
            return not running
        seen, boot, since = self.sightings.get(holder, (sign, self.boot, self.now))
        if (seen, boot) != (sign, self.boot) or since > self.now:
            since = self.now
        self.sightings[holder] = sign, self.boot, since
        return self.now - since >= ELSEWHERE

    def release_dead(self, me: str) -> None:
        latest: dict[str, int] = {}
        for each in self.reservations.values():
            latest[each.holder] = max(each.seen, latest.get(each.holder, 0))
        self.sightings = {holder: seen for holder, seen in self.sightings.items() if holder in latest}
        gone = {holder for holder, sign in latest.items() if holder != me and self.is_gone(holder, sign)}
        self.reservations = {at: each for at, each in self.reservations.items() if each.holder not in gone}

    def row(self, key: str) -> Row:
        held = [each for (_, name), each in self.reservations.items() if name == key]
        spent = self.accounts.get(key, Account()).spent
        return Row(key, *spent, sum(each.usd for each in held), sum(each.tokens for each in held), len(held))

    def reserve(self, me: str, turn: str, limits: Limits, fixed: int | None, first: tuple[int, int]) -> Row | None:
        self.release_dead(me)
        for key, limit in limits:
            row = self.row(key)
            used = row.usd + row.reserved_usd, row.tokens + row.reserved_tokens
            if any(most is not None and most <= each for each, most in zip(used, limit, strict=True)):
                return row
        usd, tokens = map(int, self.mean or first)
        for key, _ in limits:
            self.reservations[turn, key] = Reservation(usd if fixed is None else fixed, tokens, me, self.signs)
        return None

    def release(self, _: str, turn: str) -> None:
        self.reservations = {at: each for at, each in self.reservations.items() if at[0] != turn}

    def charge(
        self,
        _: str,
        turns: list[str],
        keys: Limits,
        usd: int,
        tokens: int,
        call: tuple[float, float] | None,
    ) -> tuple[list[Row], list[tuple[str, str]]]:
        for (turn, _key), each in self.reservations.items():
            each.seen = self.signs if turn in turns else each.seen
        if call is not None:
            old = self.mean or call
            self.mean = old[0] + WEIGHT * (call[0] - old[0]), old[1] + WEIGHT * (call[1] - old[1])
        rows, due = [], []
        for key, points in keys:
            account = self.accounts.setdefault(key, Account())
            account.spent = max(account.spent[0] + usd, 0), max(account.spent[1] + tokens, 0)
            rows.append(Row(key, *account.spent))
            for at, (unit, point) in enumerate(zip(("usd", "tokens"), points, strict=True)):
                if point is not None and account.spent[at] >= point > account.warned[at]:
                    account.warned[at] = point
                    due.append((key, unit))
        return rows, due

    def rows(self, me: str, keys: list[str] | None) -> list[Row]:
        self.release_dead(me)
        every = {*self.accounts, *(key for _, key in self.reservations)}
        return [self.row(key) for key in (sorted(every) if keys is None else keys)]

    def spent(self, _: str, keys: list[str]) -> list[Row]:
        return [Row(key, *self.accounts.get(key, Account()).spent) for key in keys]

    def reset(self, _: str, key: str | None) -> None:
        for each in list(self.accounts) if key is None else [key]:
            self.accounts.pop(each, None)


KEYS = ["", "tenant=a", "tenant=b"]
# Each amount fits into a float, and sums with the largest one do not.
AMOUNTS = [0, 0, 1, 2, 3, NANO // 20, NANO, 10**17]
amounts = st.sampled_from(AMOUNTS)
changes = st.sampled_from([*AMOUNTS, -1, -NANO])
bounds = st.one_of(st.just(FREE), st.builds(Bounds, *[st.one_of(st.none(), amounts, st.integers(0, 9))] * 2))
some_keys = st.lists(st.sampled_from(KEYS), unique=True)
limits = st.lists(st.tuples(st.sampled_from(KEYS), bounds), min_size=1, unique_by=lambda pair: pair[0])
prices = st.sampled_from([0.0, 0.5, 1.0, 4.0, 0.05 * NANO, 1e17])
programs = st.sampled_from(range(len(PLACES)))
observers = st.sampled_from([[0], [2], [0, 1, 2]])
turns = st.sampled_from(["one", "two", "three"])
times = st.sampled_from([0.5, ELSEWHERE / 2, ELSEWHERE / 2, ELSEWHERE - 0.5, ELSEWHERE])
killed_after = st.one_of(st.just(0), st.just(0), st.integers(1, 16))


class LedgerMachine(RuleBasedStateMachine):
    """Programs that use one file in turn, in two containers of a machine."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.number = 0
        self.named = ""
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "budget.db"
        self.patches = pytest.MonkeyPatch()
        Mortal.use(self.patches)
        self.patches.setattr(module, "holder_name", lambda: self.named)
        self.patches.setattr(module, "sign", lambda: self.model.signs)
        self.patches.setattr(leases, "runs", self.model.runs)
        self.patches.setattr(module, "boot", lambda: self.model.boot)
        self.patches.setattr(leases, "time", SimpleNamespace(monotonic=lambda: self.model.now))
        self.holders: dict[int, str] = {}
        self.programs: dict[int, Ledger] = {}
        for at in range(len(PLACES)):
            self.start(at)

    @initialize(known=st.booleans())
    def find_boot(self, known: bool) -> None:
        self.model.boot = "first" if known else ""

    def start(self, at: int) -> None:
        """Start a program; the one before it is gone."""
        self.model.dead.add(self.holders.get(at, ""))
        self.number += 1
        self.named = self.holders[at] = f"{PLACES[at]} {self.number}"
        self.programs[at] = Ledger(str(self.path))

    def both(self, at: int, killed: int, call: str, *values: Any) -> None:
        """Make a call on both, and compare what they return; a program that is killed returns nothing."""
        self.model.place = PLACES[at]
        self.model.signs += 1
        expected = partial(getattr(self.model, call), self.holders[at], *values)
        Mortal.left = killed or -1
        try:
            found = getattr(self.programs[at], call)(*values)
        except KilledError as error:
            if str(error) == "COMMIT":
                expected()
            Mortal.left = -1
            self.start(at)
        else:
            Mortal.left = -1
            assert found == expected()

    @rule(at=programs, killed=killed_after, turn=turns, limits=limits, fixed=st.one_of(st.none(), amounts))
    def reserve(self, at: int, killed: int, turn: str, limits: Limits, fixed: int | None) -> None:
        self.both(at, killed, "reserve", turn, limits, fixed, FIRST)

    @rule(at=programs, turn=turns, keys=some_keys)
    def reserve_without_limits(self, at: int, turn: str, keys: list[str]) -> None:
        self.both(at, 0, "reserve", turn, [(key, FREE) for key in keys], None, FIRST)

    @rule(at=programs, killed=killed_after, turn=turns)
    def release(self, at: int, killed: int, turn: str) -> None:
        self.both(at, killed, "release", turn)

    @rule(
        at=programs,
        killed=killed_after,
        turns=st.one_of(turns.map(lambda turn: [turn]), st.lists(turns, unique=True)),
        keys=limits,
        usd=changes,
        tokens=changes,
        call=st.one_of(st.none(), st.tuples(prices, prices)),
    )
    def charge(
        self,
        at: int,
        killed: int,
        turns: list[str],
        keys: Limits,
        usd: int,
        tokens: int,
        call: tuple[float, float] | None,
    ) -> None:
        self.both(at, killed, "charge", turns, keys, usd, tokens, call)

    @rule(at=programs, killed=killed_after, key=st.one_of(st.none(), st.sampled_from(KEYS)))
    def reset(self, at: int, killed: int, key: str | None) -> None:
        self.both(at, killed, "reset", key)

    @rule(at=programs, killed=killed_after, keys=st.one_of(st.none(), some_keys))
    def look(self, at: int, killed: int, keys: list[str] | None) -> None:
        self.both(at, killed, "rows", keys)

    @rule(at=programs, keys=some_keys)
    def look_at_spending(self, at: int, keys: list[str]) -> None:
        self.both(at, 0, "spent", keys)

    @rule(seconds=times, observers=observers)
    def pass_time(self, seconds: float, observers: list[int]) -> None:
        """Time passes while some look."""
        self.look_from(observers)
        self.model.now += seconds
        self.look_from(observers)

    def look_from(self, observers: list[int]) -> None:
        for at in observers:
            self.both(at, 0, "rows", None)

    @rule(at=programs, turn=turns, seconds=times)
    def work(self, at: int, turn: str, seconds: float) -> None:
        """A turn goes on for a while, after one that has ended."""
        self.both(at, 0, "reserve", turn, [("", FREE)], None, FIRST)
        for _ in range(2):
            self.look_from(list(self.programs))
            self.model.now += seconds
            self.both(at, 0, "charge", ["ended", turn], [("", FREE)], 1, 1, None)
        self.pass_time(seconds, list(self.programs))

    @rule(at=programs, ends=st.booleans())
    def close(self, at: int, ends: bool) -> None:
        self.programs[at].close()  # the next call opens it again
        if ends:
            self.start(at)

    @rule(observers=observers, happens=st.sampled_from([False, False, True]), later=st.booleans())
    def begin_again(self, observers: list[int], happens: bool, later: bool) -> None:
        """The machine starts again; its clock begins anew, and is anywhere when the first of some programs looks."""
        if happens:
            for at in self.programs:
                self.both(at, 0, "reserve", f"of {at}", [("", FREE)], None, FIRST)
            self.look_from(observers)
            self.model.boot = f"boot {self.number}" if self.model.boot else ""
            self.model.now = self.model.now + ELSEWHERE if later else 0.0
            for at in self.programs:
                self.close(at, ends=True)
            self.pass_time(ELSEWHERE, observers)

    def teardown(self) -> None:
        """Compare once more, and look for rows that are left in the file: sightings go with their reservations."""
        try:
            self.both(2, 0, "reserve", "last", [("", FREE)], 0, FIRST)
            for _ in range(2):  # the first one may release some
                self.both(0, 0, "rows", None)
            for program in self.programs.values():
                program.close()
            with closing(sqlite3.connect(self.path)) as connection:
                left = connection.execute("SELECT holder FROM sightings").fetchall()
            holders = {each.holder for each in self.model.reservations.values()}
            assert {each for each in holders if each.startswith("there")} <= {each for (each,) in left} <= holders
        finally:
            self.patches.undo()
            self.folder.cleanup()


TestLedgerMachine: Callable[..., Any] = LedgerMachine.TestCase
LedgerMachine.TestCase.settings = settings(
    max_examples=max(examples(30), 3),
    stateful_step_count=50,
    # Without "shrink": it would take minutes, and an example is short.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
