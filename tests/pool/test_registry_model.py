"""The SQLite registry against a simple model: objects on one file that take turns, and programs that are killed after any statement."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from hackamore.pool import SQLiteRegistry, registry
from hackamore.pool.registry import Beat, Held, Record, RegistryRow
from hackamore.storage import leases
from tests.support.examples import examples
from tests.support.mortal import KilledError, Mortal

LEASE, WAIT = 15.0, 3.0
FAR = ["far one", "far two"]
NEAR = ["near one", "near two"]
KEYS = ["a", "b"]


@dataclass
class Row:
    """A conversation, as it should be."""

    record: Record | None = None
    holder: str | None = None
    waiter: str | None = None
    asked: object = None


@dataclass
class Model:
    """A registry, as it should be.

    Attributes:
        signs: the last sign of each holder.
        dead: holders near by whose process is gone.
        seen: what each observer saw of another one, and since when.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    signs: dict[str, object] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    seen: dict[tuple[object, str], tuple[object, float]] = field(default_factory=dict)
    now: float = 1000.0

    def runs(self, holder: str, *, local: bool = True) -> bool | None:
        return None if holder in FAR else holder not in self.dead

    def silence(self, observer: object, name: str, sign: object) -> float:
        if self.seen.get((observer, name), (None, 0.0))[0] is not sign:
            self.seen[observer, name] = sign, self.now
        return self.now - self.seen[observer, name][1]

    def waits(self, observer: object, key: str, me: str) -> bool:
        """Whether another one has asked for it within the last seconds, as far as the observer can know."""
        row = self.rows[key]
        if row.waiter in (None, me) or self.runs(row.waiter or "") is False:
            return False
        return self.silence(observer, f"wanted {key}", row.asked) < WAIT

    def is_gone(self, observer: object, holder: str) -> bool:
        if self.runs(holder) is None:
            return self.silence(observer, holder, self.signs[holder]) >= LEASE
        return not self.runs(holder)

    def acquire(self, observer: object, key: str, me: str) -> Held:
        row = self.rows.setdefault(key, Row())
        waits, owner = self.waits(observer, key, me), row.holder
        free = owner in (None, me) or self.is_gone(observer, owner or "")
        if waits:
            return Held(taken=False, holder=owner)
        if not free:
            row.waiter, row.asked = me, object()
            return Held(taken=False, holder=owner)
        row.holder, row.waiter = me, None
        self.signs[me] = object()
        return Held(taken=True, record=row.record)

    def save(self, _: object, key: str, me: str, record: Record) -> bool:
        if key not in self.rows or self.rows[key].holder != me:
            return False
        self.rows[key].record = record
        return True

    def release(self, _: object, key: str, me: str) -> None:
        row = self.rows.get(key, Row())
        if row.holder == me:
            row.holder = None
        if row.waiter == me:
            row.waiter = None
        if row.holder is None and row.record is None:
            self.rows.pop(key, None)

    def beat(self, observer: object, me: str, keys: list[str]) -> Beat:
        self.signs[me] = object()
        mine = [key for key in sorted(self.rows) if self.rows[key].holder == me]
        wanted = tuple(key for key in mine if self.waits(observer, key, me))
        return Beat(wanted=wanted, lost=tuple(key for key in keys if key not in mine))

    def forget(self, _: object, key: str) -> None:
        self.rows.pop(key, None)

    def conversations(self, _: object, key: str | None) -> list[RegistryRow]:
        return [
            RegistryRow(name, row.record, row.holder)
            for name, row in sorted(self.rows.items())
            if row.record is not None and key in (None, name)
        ]


keys = st.sampled_from(KEYS)
programs = st.integers(0, 2)
mostly = st.sampled_from([True, True, False])
holders = st.sampled_from([*FAR, *NEAR])
records = st.builds(
    Record, st.sampled_from(["s1", "s2"]), st.sampled_from(["/", "/x"]), st.booleans(), st.sampled_from([None, "p"])
)
killed_after = st.one_of(st.just(0), st.just(0), st.integers(1, 9))


class RegistryMachine(RuleBasedStateMachine):
    """Three programs use one file in turn, each for any holder: which holder asks is all that may count."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.names = {name: name for name in (*FAR, *NEAR)}
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "registry.db"
        self.patches = pytest.MonkeyPatch()
        dice = random.Random(0)
        Mortal.use(self.patches)
        self.patches.setattr(registry, "sign", lambda: dice.getrandbits(60))  # of many machines: none is later
        for module in (registry, leases):
            self.patches.setattr(module, "runs", self.model.runs)
        self.programs = [self.started() for _ in range(3)]

    def started(self) -> SQLiteRegistry:
        made = SQLiteRegistry(self.path, lease_seconds=LEASE)
        made.sightings.clock = lambda: self.model.now
        return made

    def both(self, at: int, killed: int, call: str, *values: Any) -> None:
        """Make a call on both, and compare what they return; a program that is killed returns nothing."""
        program, expected = self.programs[at], partial(getattr(self.model, call), self.programs[at], *values)
        Mortal.left = killed or -1
        try:
            found = getattr(program, call)(*values)
        except KilledError as error:
            if str(error) == "COMMIT":
                expected()
            Mortal.left = -1
            self.programs[at] = self.started()
        else:
            Mortal.left = -1
            assert found == expected()

    @rule(at=programs, killed=killed_after, key=keys, holder=holders)
    def acquire(self, at: int, killed: int, key: str, holder: str) -> None:
        self.both(at, killed, "acquire", key, self.names[holder])

    def mostly_owner(self, key: str, holder: str, *, owner: bool) -> str:
        """Return the holder of a conversation, or another one, which has nothing to say there."""
        has_it = self.model.rows.get(key, Row()).holder
        return has_it if owner and has_it in self.names.values() and has_it else self.names[holder]

    @rule(at=programs, killed=killed_after, key=keys, holder=holders, record=records, owner=mostly)
    def save(self, at: int, killed: int, key: str, holder: str, record: Record, owner: bool) -> None:
        self.both(at, killed, "save", key, self.mostly_owner(key, holder, owner=owner), record)

    @rule(at=programs, killed=killed_after, key=keys, holder=holders, owner=mostly)
    def release(self, at: int, killed: int, key: str, holder: str, owner: bool) -> None:
        self.both(at, killed, "release", key, self.mostly_owner(key, holder, owner=owner))

    @rule(at=programs, killed=killed_after, holder=holders, believed=st.lists(keys, unique=True))
    def beat(self, at: int, killed: int, holder: str, believed: list[str]) -> None:
        self.both(at, killed, "beat", self.names[holder], believed)

    @rule(at=programs, killed=killed_after, key=keys)
    def forget(self, at: int, killed: int, key: str) -> None:
        self.both(at, killed, "forget", key)

    @rule(at=programs, key=st.one_of(st.none(), keys))
    def look(self, at: int, key: str | None) -> None:
        self.both(at, 0, "conversations", key)

    @rule(at=programs)
    def close(self, at: int) -> None:
        self.programs[at].close()  # the next call opens it again

    @rule(seconds=st.sampled_from([0.1, WAIT - 0.5, WAIT, LEASE - WAIT, LEASE]))
    def pass_time(self, seconds: float) -> None:
        self.model.now += seconds

    @rule(holder=st.sampled_from(NEAR))
    def die(self, holder: str) -> None:
        """The process of a holder near by ends; another one begins."""
        self.model.dead.add(self.names[holder])
        self.names[holder] = f"{holder} {len(self.model.dead)}"

    def teardown(self) -> None:
        """Compare once more, and look for rows that are left in the file: there is one for each conversation, and each holder of any."""
        try:
            self.look(0, None)
            for program in self.programs:
                program.close()
            connection = sqlite3.connect(self.path)
            keys, holders = (connection.execute(f"SELECT * FROM {table}") for table in ("conversations", "holders"))
            assert {key for key, *_ in keys} == self.model.rows.keys()
            assert {holder for holder, _ in holders} == {row.holder for row in self.model.rows.values()} - {None}
            connection.close()
        finally:
            self.patches.undo()
            self.folder.cleanup()


TestRegistryMachine: Callable[..., Any] = RegistryMachine.TestCase
RegistryMachine.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=40)
