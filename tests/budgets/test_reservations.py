"""Reservations of processes that cannot be looked at: they count until their signs have not changed for ten minutes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hackamore.budgets.ledger import Bounds, Ledger
from hackamore.storage.holders import boot

ELSEWHERE = "machine|boot|space|1|1|abc"
MINUTES = 60.0
LIMITS = [("", Bounds(None, None))]


class File:
    """The file of a ledger, with a reservation of another container in it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        with closing(Ledger(self.path)) as ledger:
            assert ledger.reserve("turn", LIMITS, 10, (10, 1)) is None
        self.change("UPDATE reservations SET holder = ?, seen = 1", ELSEWHERE)

    def change(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(text, values).fetchall()

    def sightings(self) -> list[tuple[Any, ...]]:
        return self.change("SELECT holder, seen, boot FROM sightings")

    def pass_time(self, seconds: float) -> None:
        self.change("UPDATE sightings SET since = since - ?", seconds)

    def turns(self) -> int:
        """Return the reservations that a program counts which looks once."""
        with closing(Ledger(self.path)) as ledger:
            return sum(row.turns for row in ledger.rows())


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = File(tmp_path / "budget.db")
    assert file.turns() == 1
    assert file.sightings() == [(ELSEWHERE, 1, boot())]
    yield file
    assert file.change("PRAGMA integrity_check") == [("ok",)]


def test_programs_that_look_once_each_release_it_together(file: File) -> None:
    for _ in range(3):
        file.pass_time(3 * MINUTES)
        assert file.turns() == 1
    file.pass_time(MINUTES)
    assert file.turns() == 0
    assert file.change("SELECT * FROM reservations") == []


def test_a_sign_begins_the_time_again(file: File) -> None:
    file.pass_time(9 * MINUTES)
    file.change("UPDATE reservations SET seen = 0")  # another sign is a sign, also a smaller one
    assert file.turns() == 1
    file.pass_time(9 * MINUTES)
    assert file.turns() == 1
    file.pass_time(MINUTES)
    assert file.turns() == 0


@pytest.mark.parametrize("change", ["boot = 'another'", "since = since + 86400"])
def test_times_of_another_boot_begin_again(file: File, change: str) -> None:
    """The monotonic clock began anew."""
    file.pass_time(11 * MINUTES)
    file.change(f"UPDATE sightings SET {change}")
    assert file.turns() == 1
    assert file.sightings() == [(ELSEWHERE, 1, boot())]
    file.pass_time(10 * MINUTES)
    assert file.turns() == 0


def test_the_turn_that_goes_on_keeps_it(file: File) -> None:
    file.pass_time(9 * MINUTES)
    with closing(Ledger(file.path)) as ledger:
        ledger.charge(["turn"], LIMITS, 5, 1)
        assert ledger.rows()[0].turns == 1
        file.pass_time(9 * MINUTES)
        assert ledger.rows()[0].turns == 1


def test_a_turn_that_goes_on_keeps_those_of_its_program_and_no_others(file: File) -> None:
    with closing(Ledger(file.path)) as ledger:
        for turn, holder in (("idle", ELSEWHERE), ("older", ELSEWHERE + "d")):
            assert ledger.reserve(turn, LIMITS, 10, (10, 1)) is None
            file.change("UPDATE reservations SET holder = ?, seen = 1 WHERE turn = ?", holder, turn)
        assert ledger.rows()[0].turns == 3
        for turns, left in (
            (["turn"], 3),
            (["turn"], 2),
            (["idle"], 2),
        ):  # the sign of `turn` is then older than that of `idle`
            file.pass_time(6 * MINUTES)
            ledger.charge(turns, LIMITS, 5, 1)
            assert ledger.rows()[0].turns == left
        assert {holder for holder, _, _ in file.sightings()} == {ELSEWHERE}
        file.pass_time(10 * MINUTES)
        assert ledger.rows()[0].turns == 0


def test_a_sighting_goes_with_its_reservation(file: File) -> None:
    with closing(Ledger(file.path)) as ledger:
        ledger.release("turn")
        assert ledger.reserve("another", LIMITS, 10, (10, 1)) is None
        file.change("UPDATE reservations SET holder = ?", ELSEWHERE + "d")
        assert ledger.rows()[0].turns == 1
    assert [row[0] for row in file.sightings()] == [ELSEWHERE + "d"]


def test_a_process_of_an_earlier_boot_is_gone_at_once(file: File) -> None:
    with closing(Ledger(file.path)) as ledger:
        assert ledger.reserve("own", LIMITS, 10, (10, 1)) is None
        [(mine,)] = file.change("SELECT holder FROM reservations WHERE turn = 'own'")
    machine, _, rest = mine.split("|", 2)
    file.change("UPDATE reservations SET holder = ? WHERE turn = 'own'", f"{machine}|before|{rest}")
    assert file.turns() == (1 if machine else 2)
