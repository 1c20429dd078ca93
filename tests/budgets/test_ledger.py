"""The ledger by itself: what its rows are after reservations, charges and resets."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hackamore import Budget, BudgetError
from hackamore.budgets import Spend
from hackamore.budgets import ledger as module
from hackamore.budgets.ledger import Bounds, Ledger, Row
from tests.support.connections import opened, steps
from tests.support.forking import Baton, Fork

# What a Hackamore of version 2 of the tables has left.
VERSION_2 = """
    CREATE TABLE accounts (key TEXT PRIMARY KEY, usd INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0,
        warned_usd INTEGER NOT NULL DEFAULT -1, warned_tokens INTEGER NOT NULL DEFAULT -1) WITHOUT ROWID;
    CREATE TABLE reservations (turn TEXT NOT NULL, key TEXT NOT NULL, usd INTEGER NOT NULL, tokens INTEGER NOT NULL,
        holder TEXT NOT NULL, seen INTEGER NOT NULL, PRIMARY KEY (turn, key)) WITHOUT ROWID;
    CREATE TABLE sightings (holder TEXT PRIMARY KEY, seen INTEGER NOT NULL, boot TEXT NOT NULL, since REAL NOT NULL)
        WITHOUT ROWID;
    CREATE TABLE calls (id INTEGER PRIMARY KEY CHECK (id = 1), usd REAL NOT NULL, tokens REAL NOT NULL);
    INSERT INTO accounts VALUES ('', 2500000000, 7, -1, 5);
    INSERT INTO accounts (key, usd) VALUES ('tenant=a', 0);
    INSERT INTO reservations VALUES ('turn', '', 250000000, 4, 'machine|boot|space|1|1|abc', 1);
    INSERT INTO reservations VALUES ('more', '', 250000000, 4, 'machine|boot|space|1|1|abc', 1);
    INSERT INTO reservations VALUES ('more', 'tenant=a', 1000000000, 1, 'machine|boot|space|1|1|abc', 1);
    PRAGMA user_version = 2;
"""
__all__ = ["opened"]

FREE = Bounds(None, None)
FIRST = (40, 4)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with closing(Ledger(None)) as ledger:
        yield ledger


def reserved(ledger: Ledger, turn: str, fixed: int | None = None) -> tuple[int, int]:
    """Reserve a call for a turn with a key of its own; return what was reserved."""
    assert ledger.reserve(turn, [(turn, FREE)], fixed, FIRST) is None
    [row] = ledger.rows([turn])
    return row.reserved_usd, row.reserved_tokens


@pytest.mark.parametrize("limit", [Bounds(100, None), Bounds(None, 100)], ids=["dollars", "tokens"])
def test_spending_and_all_reservations_count_towards_a_limit(ledger: Ledger, limit: Bounds) -> None:
    limits = [("tenant=a", limit), ("", FREE)]
    ledger.charge([], limits, 20, 20)
    for turn in ("one", "two"):
        assert ledger.reserve(turn, limits, 40, (1, 40)) is None
    full = Row("tenant=a", 20, 20, 80, 80, 2)
    assert ledger.reserve("three", limits, 40, (1, 40)) == full
    assert ledger.reserve("three", [("tenant=b", limit), *limits], 40, (1, 40)) == full  # and nothing for `b`
    assert ledger.rows() == [Row("", 20, 20, 80, 80, 2), full]
    assert ledger.reserve("three", [("tenant=b", limit), ("", FREE)], 1, (1, 1)) is None
    ledger.release("one")
    assert ledger.rows() == [
        Row("", 20, 20, 41, 41, 2),
        Row("tenant=a", 20, 20, 40, 40, 1),
        Row("tenant=b", 0, 0, 1, 1, 1),
    ]
    assert ledger.reserve("four", limits, 40, (1, 40)) is None
    assert ledger.reserve("five", limits, 40, (1, 40)) == full


def test_a_turn_reserves_the_mean_of_recent_calls(ledger: Ledger) -> None:
    assert reserved(ledger, "first") == FIRST
    assert reserved(ledger, "fixed", 7) == (7, 4)
    for call, mean in (
        ((100.0, 10.0), (100, 10)),
        ((200.0, 60.0), (120, 20)),  # the newest has a weight of a fifth
        ((20.0, 120.0), (100, 40)),
    ):
        ledger.charge([], [("", FREE)], 1, 1, call)
        assert reserved(ledger, f"after {call}") == mean
    assert reserved(ledger, "fixed again", 7) == (7, 40)


def test_a_turn_that_reserves_again_has_one_reservation(ledger: Ledger) -> None:
    assert reserved(ledger, "turn", 5) == (5, 4)
    ledger.charge(["turn"], [("", FREE)], 1, 1, (9.0, 9.0))
    assert reserved(ledger, "turn", 6) == (6, 9)
    ledger.release("turn")
    assert ledger.rows() == [Row("", 1, 1)]


def test_a_correction_leaves_nothing_below_zero(ledger: Ledger) -> None:
    keys = [("a", FREE), ("", FREE)]
    ledger.charge([], keys, 10, 20)
    ledger.charge([], [("b", FREE)], 7, 7)
    rows, due = ledger.charge([], keys, -4, -30)
    assert (rows, due) == ([Row("a", 6, 0), Row("", 6, 0)], [])
    ledger.charge([], keys, -10, 5)
    assert ledger.rows() == [Row("", 0, 5), Row("a", 0, 5), Row("b", 7, 7)]


def test_each_point_of_a_warning_is_due_once(ledger: Ledger) -> None:
    def due(usd: int, tokens: int, key: str = "a", point: Bounds = Bounds(10, 20)) -> list[tuple[str, str]]:  # noqa: B008
        return ledger.charge([], [(key, point)], usd, tokens)[1]

    assert due(9, 19) == []
    assert due(1, 0) == [("a", "usd")]
    assert due(1, 0) == []
    assert due(0, 1) == [("a", "tokens")]
    assert due(0, 0) == []
    assert due(10, 20, "b") == [("b", "usd"), ("b", "tokens")]  # another key
    assert due(0, 0, point=Bounds(5, 5)) == []  # a lower point
    assert due(1, 1, point=Bounds(12, 22)) == [("a", "usd")]  # a higher one
    assert due(0, 1, point=Bounds(12, 22)) == [("a", "tokens")]
    assert due(0, 0, "none", Bounds(0, 0)) == [("none", "usd"), ("none", "tokens")]
    assert due(0, 0, "none", Bounds(0, 0)) == []
    ledger.reset("a")
    assert due(12, 22, point=Bounds(12, 22)) == [("a", "usd"), ("a", "tokens")]


def test_a_reset_forgets_one_key_or_all_and_keeps_reservations(ledger: Ledger) -> None:
    ledger.charge([], [("a", FREE), ("b", FREE)], 1, 2)
    assert reserved(ledger, "a", 5) == (5, 4)
    ledger.reset("a")
    assert ledger.rows() == [Row("a", 0, 0, 5, 4, 1), Row("b", 1, 2)]
    assert ledger.spent(["a", "b", "c"]) == [("a", 0, 0, 0, 0, 0), ("b", 1, 2, 0, 0, 0), ("c", 0, 0, 0, 0, 0)]
    ledger.reset(None)
    assert ledger.rows() == [Row("a", 0, 0, 5, 4, 1)]


def test_objects_on_one_file_see_each_others_turns(tmp_path: Path) -> None:
    path = str(tmp_path / "budget.db")
    with closing(Ledger(path)) as one, closing(Ledger(path)) as other:
        for turn, ledger in (("one", one), ("two", other)):
            assert ledger.reserve(turn, [("", Bounds(100, None))], 50, FIRST) is None
        assert one.reserve("three", [("", Bounds(100, None))], 50, FIRST) == Row("", 0, 0, 100, 8, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda ledger: ledger.reserve("turn", [("a", Bounds(100, None)), ("", FREE)], 10, FIRST),
        lambda ledger: ledger.charge(["one"], [("a", FREE), ("", FREE)], 10, 1, (5.0, 5.0)),
    ],
    ids=["reserve", "charge"],
)
def test_no_other_program_comes_in_between_and_a_call_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Ledger], object]
) -> None:
    path = str(tmp_path / "budget.db")

    def locked() -> int:
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        raise KeyboardInterrupt

    with closing(Ledger(path)) as ledger:
        assert ledger.reserve("one", [("a", FREE), ("", FREE)], 10, FIRST) is None
        before = ledger.rows()
        with monkeypatch.context() as patch:
            patch.setattr(module, "sign", locked)
            with pytest.raises(KeyboardInterrupt):
                call(ledger)
        assert ledger.rows() == before
        assert reserved(ledger, "next") == FIRST
        call(ledger)
        assert ledger.rows() != before


@pytest.mark.parametrize("name", ["budget.db", None])
def test_an_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    def fail() -> int:
        raise sqlite3.OperationalError("disk I/O error")

    path = name and str(tmp_path / name)
    with closing(Ledger(path)) as ledger:
        monkeypatch.setattr(module, "sign", fail)
        with pytest.raises(BudgetError) as caught:
            ledger.charge(["turn"], [("", FREE)], 1, 1)
        assert str(caught.value).startswith(f"The budget file {path or ':memory:'!r} cannot be used: disk I/O error. ")
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert ledger.rows() == []


def test_a_reservation_of_a_forked_process_ends_with_it_and_not_with_its_parent(tmp_path: Path) -> None:
    with closing(Ledger(str(tmp_path / "budget.db"))) as ledger:
        assert ledger.reserve("parent", [("", FREE)], 1, FIRST) is None

        def child(baton: Baton) -> None:
            assert ledger.reserve("child", [("", FREE)], 1, FIRST) is None
            assert ledger.rows()[0].turns == 2
            baton.pass_on()
            baton.take()

        fork = Fork(child)
        fork.baton.take()
        assert ledger.rows()[0].turns == 2
        fork.baton.pass_on()
        fork.wait()
        assert ledger.rows()[0].turns == 1


def test_spending_is_looked_up_while_another_program_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "budget.db")
    with closing(Ledger(path)) as ledger, closing(sqlite3.connect(path, isolation_level=None)) as other:
        ledger.charge([], [("a", FREE)], 3, 4)
        other.execute("BEGIN IMMEDIATE")
        assert ledger.spent(["a", "b"]) == [Row("a", 3, 4), Row("b", 0, 0)]


def test_a_file_of_an_older_hackamore_is_refused_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_2 + "PRAGMA user_version = 1;")
    with pytest.raises(BudgetError, match=r"budget\.db' has version 1, which is too old for this Hackamore"):
        Ledger(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_file_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(VERSION_2)
    with Budget(usd=100.0, per={"tenant": None}, path=path) as budget:
        budget.charge(0.5, 1)
        assert budget.spent == Spend(3.0, 8)
        assert budget.account().reserved == Spend(0.5, 8)
        assert budget.account(tenant="a").reserved == Spend(1.0, 1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM accounts WHERE key = ''").fetchall() == [("", 3_000_000_000, 8, -1, 5)]
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)


def test_each_key_warns_once_whatever_others_did(ledger: Ledger) -> None:
    points = {key: [(key, Bounds(50, 50))] for key in ("tenant=a", "tenant=b")}
    ledger.charge([], points["tenant=b"], 10, 10)
    both = [("tenant=a", "usd"), ("tenant=a", "tokens")]
    assert ledger.charge([], points["tenant=a"], 60, 60)[1] == both
    assert ledger.charge([], points["tenant=a"], 1, 1)[1] == []
    assert ledger.charge([], points["tenant=b"], 60, 60)[1] == [("tenant=b", "usd"), ("tenant=b", "tokens")]
    assert ledger.rows() == [Row("tenant=a", 61, 61), Row("tenant=b", 70, 70)], "one row for each key"


def test_the_cost_of_a_reservation_does_not_grow_with_the_open_turns(opened: list[sqlite3.Connection]) -> None:
    limits = [("", FREE), ("tenant=a", FREE)]

    def work() -> None:
        spending.reserve("one", limits, 10, FIRST)
        spending.charge(["one"], limits, 3, 4)
        spending.release("one")
        spending.rows(["", "tenant=a"])

    with closing(Ledger(None)) as spending:
        work()
        few = steps(opened[0], work)
        for number in range(2_000):
            spending.reserve(str(number), limits, 10, FIRST)
        assert steps(opened[0], work) < few * 1.5
