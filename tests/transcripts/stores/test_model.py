"""Any calls of several objects over the same data, against a dict."""

from __future__ import annotations

import copy
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from hackamore import StoreConflictError
from tests.support.examples import examples
from tests.transcripts.stores.conftest import Make

Place = tuple[str, str, str]
Entries = list[dict[str, Any]]

FIRST = ("-work", "s", "")
OTHERS = (
    ("-work", "s", "subagents/agent-1"),
    ("-work", "s", "subagents/agent-2"),
    ("-work", "t", ""),
    ("-work-2", "s", ""),
)
OBJECTS = 2
BEGAN = 1_700_000_000_000

places = st.sampled_from([FIRST] * 8 + [*OTHERS])  # most calls are about the same one
objects = st.integers(0, OBJECTS - 1)
# An empty id is none.
entries = st.builds(
    lambda uuid, n: {"type": "user", "n": n} | ({} if uuid is None else {"uuid": uuid}),
    st.sampled_from([None, "", "a", "b", "c", "d"]),
    st.integers(0, 3),
)


@dataclass
class Kept:
    """A transcript."""

    entries: Entries = field(default_factory=list)
    appends: int = 0
    last: str = ""
    mtime: int = 0


class Model:
    """What all objects together promise."""

    def __init__(self) -> None:
        self.kept: dict[Place, Kept] = {}
        self.seen: dict[tuple[int, Place], int] = {}

    def append(self, writer: int, place: Place, batch: Entries, now: int) -> bool:
        """Return whether the writer may append."""
        found = self.kept.get(place, Kept())
        talks = any(entry.get("uuid") for entry in batch)
        text = json.dumps(batch)
        if talks and text != found.last:
            if self.seen.get((writer, place), found.appends) != found.appends:
                return False
            found.appends += 1
        elif talks or not batch:
            text = ""
        if talks:
            self.seen[writer, place] = found.appends
        if text:
            known = {entry.get("uuid") for entry in found.entries} - {None, ""}
            for entry in batch:
                if entry.get("uuid") not in known:
                    found.entries.append(entry)
                known |= {entry["uuid"]} if entry.get("uuid") else set()
            found.last = text if talks else found.last
            found.mtime = max(found.mtime, now)
            self.kept[place] = found
        return True

    def load(self, reader: int, place: Place) -> Entries | None:
        """Return the entries; the reader has seen them."""
        found = self.kept.get(place)
        self.seen[reader, place] = found.appends if found is not None else 0
        return found.entries if found is not None else None

    def delete(self, by: int, place: Place) -> None:
        """Remove a transcript, or a session with all its parts."""
        for each in [place] if place[2] else [each for each in (FIRST, *OTHERS) if each[:2] == place[:2]]:
            self.kept.pop(each, None)
            self.seen.pop((by, each), None)

    def forget(self, who: int) -> None:
        """Take that a new object is in the place of one."""
        self.seen = {each: position for each, position in self.seen.items() if each[0] != who}


class Clock:
    """The time of this machine, in milliseconds."""

    def __init__(self) -> None:
        self.now = BEGAN


class Machine(RuleBasedStateMachine):
    """Two objects that write and read, and one that only looks."""

    count = itertools.count()

    def __init__(self, make: Make, stores: list[Any], clock: Clock) -> None:
        super().__init__()
        self.make = make
        self.stores = stores
        self.clock = clock
        clock.now = BEGAN
        self.model = Model()
        self.said = 0
        self.example = next(self.count)  # the data of earlier examples stay

    def key(self, place: Place) -> Any:
        project, session, part = place
        key = {"project_key": f"{project}:{self.example}", "session_id": f"{session}:{self.example}"}
        return {**key, "subpath": part} if part else key

    def looked_at(self, place: Place) -> Entries | None:
        """Return the entries as a new program finds them."""
        found: Entries | None = anyio.run(self.stores[OBJECTS].load, self.key(place))
        return found

    @rule(who=objects, place=places)
    def says(self, who: int, place: Place) -> None:
        self.said += 1
        self.appends(who, place, [{"type": "user", "uuid": f"new {self.said}"}])

    @rule(who=objects, place=places)
    def repeats(self, who: int, place: Place) -> None:
        if (found := self.model.kept.get(place)) is not None and found.last:
            self.appends(who, place, json.loads(found.last))  # its answer was lost

    @rule(who=objects, place=places, batch=st.lists(entries, max_size=3))
    def appends(self, who: int, place: Place, batch: Entries) -> None:
        expected = self.model.append(who, place, copy.deepcopy(batch), self.clock.now)
        try:
            anyio.run(self.stores[who].append, self.key(place), batch)
        except StoreConflictError:
            assert not expected
        else:
            assert expected
        found = self.model.kept.get(place)
        assert self.looked_at(place) == (found and found.entries)

    @rule(who=objects, place=places)
    def loads(self, who: int, place: Place) -> None:
        assert anyio.run(self.stores[who].load, self.key(place)) == self.model.load(who, place)

    @rule(who=objects, place=places)
    def deletes(self, who: int, place: Place) -> None:
        anyio.run(self.stores[who].delete, self.key(place))
        self.model.delete(who, place)

    @rule(who=objects, place=places)
    def lists(self, who: int, place: Place) -> None:
        project, session, _ = place
        store, key, kept = self.stores[who], self.key(place), self.model.kept
        listed = anyio.run(store.list_sessions, key["project_key"])
        assert sorted((each["session_id"], each["mtime"]) for each in listed) == sorted(
            (self.key(each)["session_id"], found.mtime)
            for each, found in kept.items()
            if (each[0], each[2]) == (project, "")
        )
        parts = [each[2] for each in kept if each[:2] == (project, session) and each[2]]
        assert anyio.run(store.list_subkeys, key) == sorted(parts)
        times = {
            self.key(each)["project_key"]: found.mtime for each, found in kept.items() if each[1:] == (session, "")
        }
        homes = [each["project_key"] for each in anyio.run(store.find_session, key["session_id"])]
        assert sorted(homes) == sorted(times)
        assert [times[each] for each in homes] == sorted(times.values(), reverse=True)

    @rule(milliseconds=st.integers(-5_000, 10_000))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.now += milliseconds  # or the clock is set

    @rule(who=objects, anew=st.booleans())
    def closes(self, who: int, anew: bool) -> None:
        self.stores[who].close()
        if anew:
            self.stores[who] = self.make()
            self.model.forget(who)

    def teardown(self) -> None:
        for place in (FIRST, *OTHERS):
            found = self.model.kept.get(place)
            assert self.looked_at(place) == (found and found.entries)


@pytest.mark.parametrize(("kind", "number"), [("sqlite", 30), ("redis", 10), ("postgres", 8)])
def test_objects_over_the_same_data_are_like_a_dict(
    making: Callable[[str], Make], kind: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, clock = making(kind), Clock()
    monkeypatch.setattr(time, "time_ns", lambda: clock.now * 1_000_000)
    stores = [make() for _ in range(OBJECTS + 1)]

    class Here(Machine):
        def __init__(self) -> None:
            super().__init__(make, stores, clock)

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=max(examples(number), 3),
            stateful_step_count=50,
            # Without "shrink": it would take minutes, and an example is short.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
        ),
    )
