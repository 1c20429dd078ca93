"""Several objects of one program on one file; other programs open and close it, fork, stop and are killed: nothing is lost."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest

from tests.storage.noting import locks
from tests.storage.players import KINDS, Player, Playing
from tests.support.connections import opened
from tests.support.seeds import seeded
from tests.support.sizes import size

__all__ = ["opened"]

INTERLEAVINGS = size("interleavings of objects")
STEPS = 24
CLOCKS = [-86_400, -61, 0, 16, 86_400]
"""Seconds that the clock of a program is wrong."""


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux")
@pytest.mark.parametrize("count", [2, 3])
def test_an_object_keeps_the_locks_of_the_others(kind: str, count: int, tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first = KINDS[kind](str(path))
    first.put(1)
    before = locks(str(path))
    assert len(before) == 2  # one that says that the log is in use, one that says the same of the shared memory
    for _ in range(count - 1):
        another = KINDS[kind](str(path))
        assert another.kept() == [1]
        assert locks(str(path)) == before
        another.close()
        assert locks(str(path)) == before
    first.close()


@pytest.mark.parametrize(
    ("kind", "level"), [("registry", "NORMAL"), ("budget", "NORMAL"), ("store", "FULL"), ("journal", "FULL")]
)
def test_a_transcript_or_a_task_is_on_the_disk_when_the_call_returns(
    kind: str, level: str, tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    first = KINDS[kind](str(tmp_path / "kept.db"))
    first.put(1)
    [connection] = opened
    assert connection.execute("PRAGMA synchronous").fetchone() == (["OFF", "NORMAL", "FULL"].index(level),)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    first.close()


@pytest.mark.parametrize("count", [2, 3])
def test_nothing_is_lost_while_others_open_and_close(kind: str, count: int, tmp_path: Path) -> None:
    path = str(tmp_path / "kept.db")
    objects = [KINDS[kind](path) for _ in range(count)]
    other = Player(kind)
    try:
        for number in range(30):
            objects[number % count].put(number)
            other.ask("open", 0, path)
            assert other.ask("kept", 0) == list(range(number + 1))
            other.ask("close", 0)
            assert all(each.kept() == list(range(number + 1)) for each in objects)
    finally:
        other.kill()
        for each in objects:
            each.close()


class Interleaving:
    """One order of calls on one file, by objects of this program and of others; a model says what has to be kept.

    Args:
        kind: the kind of the objects.
        folder: the folder of the file.
        seed: chooses the calls.
    """

    def __init__(self, kind: str, folder: Path, seed: int) -> None:
        self.chance = random.Random(seeded(seed))
        self.kind = kind
        self.path = folder / f"{seed}.db"
        self.link = folder / f"{seed}.link"
        self.link.symlink_to(self.path.name)
        self.here = Playing(kind)
        self.others: dict[int, tuple[Player, set[int]]] = {}
        self.next = 0
        self.kept: set[int] = set()
        self.perhaps: set[int] = set()
        self.kills = 0
        self.calls: list[str] = []  # for the report of a failure

    def _number(self) -> int:
        self.next += 1
        return self.next

    def _place(self) -> str:
        return self.chance.choice([str(self.path), str(self.link), os.path.relpath(self.path)])

    def play(self) -> None:
        """Make the calls, and compare after each."""
        try:
            for _ in range(STEPS):
                self.chance.choice([self._here, self._here, self._there])()
            self.here.open(0, str(self.path))
            self._compare(self.here.kept(0))
        finally:
            for player, _ in self.others.values():
                player.kill()
            self.here.step(0)
            for each in self.here.objects.values():
                each.close()
        with sqlite3.connect(self.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()

    def _compare(self, found: list[int]) -> None:
        assert sorted(set(found)) == found, "kept twice"
        self.kept |= self.perhaps & set(found)
        self.perhaps -= self.kept  # an append that was seen cannot vanish any more
        assert set(found) - self.kept == set()
        assert self.kept - set(found) == set(), "lost"

    def _here(self) -> None:
        number = self.chance.randrange(3)
        call = self.chance.choice(["open", "put", "put", "put", "kept", "close", "drop", "fork", "step"])
        self.calls.append(f"here {number} {call}")
        if call == "open" or (number not in self.here.objects and call != "step"):
            self.here.open(number, self._place())
        elif call in ("put", "fork"):
            getattr(self.here, call)(number, value := self._number())
            self.kept.add(value)
        elif call == "kept":
            self._compare(self.here.kept(number))
        elif call == "step":
            self.here.step(self.chance.choice(CLOCKS))
        else:
            getattr(self.here, call)(number)

    def _there(self) -> None:
        number, each = self.chance.randrange(2), self.chance.randrange(2)
        if number not in self.others:
            self.others[number] = Player(self.kind), set()
        player, objects = self.others[number]
        player.go_on()
        call = self.chance.choice(
            ["open", "put", "put", "kept", "close", "close", "drop", "fork", "kill", "stop", "step"]
        )
        self.calls.append(f"program {number} {each} {call}")
        if call == "open" or (each not in objects and call not in ("kill", "stop", "step")):
            objects.add(each)
            player.ask("open", each, self._place())
        elif call in ("put", "fork"):
            player.ask(call, each, value := self._number())
            self.kept.add(value)
        elif call == "kept":
            self._compare(player.ask("kept", each))
        elif call == "kill":
            if each in objects:
                player.tell("put", each, value := self._number())
                self.perhaps.add(value)
            player.kill()
            self.kills += 1
            del self.others[number]
        elif call == "stop":
            player.stop()  # until its next call
        elif call == "step":
            player.ask("step", self.chance.choice(CLOCKS))
        else:
            player.ask(call, each)
            if call == "drop":
                objects.discard(each)


@pytest.mark.timeout(600 + 15 * INTERLEAVINGS)
def test_random_interleavings(kind: str, tmp_path: Path) -> None:
    kills = 0
    for seed in range(INTERLEAVINGS):
        interleaving = Interleaving(kind, tmp_path, seed)
        try:
            interleaving.play()
        except BaseException as error:
            error.add_note(f"seed {seed}: {', '.join(interleaving.calls)}")
            raise
        kills += interleaving.kills
    print(f"{kind}: {INTERLEAVINGS} interleavings, {kills} kills")
