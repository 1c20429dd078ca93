"""The changes that mutation makes in SQL, the tests that it chooses for tables, and its table of rates."""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import libcst
import pytest
from libcst import matchers

from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parent.parent.parent
TABLES = PROJECT / "src" / "hackamore" / "fleet" / "journal" / "tables.py"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_under_test", PROJECT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found: ModuleType = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, found)  # dataclasses look for their module
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> Any:
    return script("mutations", monkeypatch)


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> Any:
    return script("mutate", monkeypatch)


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT a, b FROM t WHERE a = ? AND (b > ? OR b IS NOT NULL) ORDER BY a DESC LIMIT ? OFFSET ?", (1, 2, 3, 0)),
        ("UPDATE t SET a = ?, b = max(b, ?) WHERE a = ?", (1, 2, 3)),
        ("DELETE FROM t WHERE a IN (?, ?) AND NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)", (1, 2)),
        ("INSERT INTO u VALUES (?, ?) ON CONFLICT (a) DO UPDATE SET b = ?, a = a + 1 WHERE b <> ?", (1, 2, 3, 4)),
        ("SELECT t.a, u.b FROM t LEFT JOIN u ON u.a = t.a AND u.b = ? UNION SELECT a, b FROM t", (1,)),
        ("CREATE TABLE v (a TEXT PRIMARY KEY, b INTEGER DEFAULT 0) WITHOUT ROWID", ()),
    ],
)
def test_a_changed_statement_is_one_with_the_same_values(
    mutations: Any, statement: str, values: tuple[int, ...]
) -> None:
    changes = mutations.sql_changes(statement)
    assert len(changes) >= 2
    for changed in (statement, *changes):
        database = sqlite3.connect(":memory:")
        database.execute("CREATE TABLE t (a, b)")
        database.execute("CREATE TABLE u (a PRIMARY KEY, b)")
        database.execute(changed, values)
        database.close()


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("a = ? AND b = ?", "sqlite", "a = ? AND (b = ? OR 1 = 1)"),
        ("SELECT a FROM t WHERE a = ?", "sqlite", "SELECT a FROM t WHERE (a = ? OR 1 = 1)"),
        ("SELECT a FROM t LEFT JOIN u ON u.a = t.a", "sqlite", "SELECT a FROM t JOIN u ON u.a = t.a"),
        ("t.a FROM t JOIN u ON u.a = t.a", "sqlite", " t.a FROM t JOIN u ON u.a <> t.a"),
        (", said = 0, feedback = NULL", "sqlite", ", feedback = NULL"),
        (" WHERE id = :task", "sqlite", " WHERE (id = :task OR 1 = 1)"),
        ("AND id = :task ", "sqlite", " AND id <> :task"),
        ("ORDER BY number LIMIT 500", "sqlite", " LIMIT 500"),
        (" AND ", "sqlite", " OR "),
        ("DELETE FROM t", "sqlite", "DELETE FROM t WHERE 1 = 0"),
        ("SELECT a FROM t WHERE a = %s FOR UPDATE", "postgres", "SELECT a FROM t WHERE a = %s"),
        ("SELECT pg_advisory_lock(%s)", "postgres", "SELECT (%s)"),
        ("SET a = 'b'; SELECT 1", "postgres", " SELECT 1"),
        (
            "CREATE TABLE t (a bigint UNIQUE, text text NOT NULL, c DOUBLE PRECISION)",
            "postgres",
            "CREATE TABLE t (a bigint, text text NOT NULL, c DOUBLE PRECISION)",
        ),
        (
            "CREATE TABLE t (a BIGINT UNIQUE, b INTEGER PRIMARY KEY)",
            "sqlite",
            "CREATE TABLE t (a BIGINT, b INTEGER PRIMARY KEY)",
        ),
    ],
)
def test_sql_is_changed_in_its_dialect(mutations: Any, text: str, dialect: str, expected: str) -> None:
    assert expected in mutations.sql_changes(text, dialect)


@pytest.mark.parametrize("text", ["Where it is: %s", "the id of a task", "AND so on", "FROM here to there", ""])
def test_prose_is_no_sql(mutations: Any, text: str) -> None:
    assert mutations.sql_changes(text) == []


def test_parts_of_a_statement_that_are_joined_are_changed_one_by_one(mutations: Any) -> None:
    source = 'def f(more):\n    return g("UPDATE t SET a = 0" + (", b = 1" if more else "") + f" WHERE {KEY} = :key")\n'
    module = libcst.parse_module(source)
    changed = [module.deep_replace(one.original_node, one.mutated_node).code for one in mutations.extra_changes(module)]
    for one in changed:
        compile(one, "<changed>", "exec")
    assert any('", b = 1' in one and "KEY} <> :key" in one for one in changed)
    assert any(", b = 2" in one for one in changed)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "rows('SELECT a FROM {}b WHERE c = %s'.format(more))",
            'rows("""SELECT a FROM {}b WHERE c <> %s """.format(more))',
        ),
        ("rows(f'SELECT a FROM {{}}b WHERE {KEY} = %s')", 'rows(f"""SELECT a FROM {{}}b WHERE {KEY} <> %s """)'),
    ],
)
def test_the_names_that_a_statement_gets_later_stay_open(mutations: Any, source: str, expected: str) -> None:
    module = libcst.parse_module(f"def f():\n    {source}\n")
    changed = [
        module.deep_replace(one.original_node, one.mutated_node).code.splitlines()[1].strip()
        for one in mutations.extra_changes(module)
    ]
    assert expected in changed


def occurs(change: str, lines: list[str]) -> bool:
    """Return whether the lines that a listed change removes stand in a file, in their order, each group of them together."""
    groups = re.findall(r"(?:^- ?.*\n?)+", change, re.MULTILINE)
    at = 0
    for group in groups:
        removed = [line[2:] for line in group.splitlines()]
        found = (start for start in range(at, len(lines)) if lines[start : start + len(removed)] == removed)
        at = next(found, len(lines)) + len(removed)
    return bool(groups) and at <= len(lines)


def test_each_listed_change_is_one_of_the_source(mutate: Any) -> None:
    rows = tomllib.loads(mutate.EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    assert len(mutate.equivalent()) == len(rows), "a change is listed twice"
    sources = {
        name: [line.strip() for line in (PROJECT / name).read_text(encoding="utf-8").splitlines()]
        for name in {row["file"] for row in rows}
        if (PROJECT / name).exists()
    }
    stale = [row for row in rows if not occurs(row["change"].strip(), sources.get(row["file"], []))]
    assert stale == [], "delete these rows, or give them the present lines"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("- b\n+ x", True),
        ("- a\n- b\n+ x", True),
        ("- a\n+ x\n- c\n+ y", True),
        ("- c\n+ x\n- a\n+ y", False),
        ("- a\n- c\n+ x", False),
        ("- d\n+ x", False),
        ("- c\n- d\n+ x", False),
        ("+ x", False),
    ],
)
def test_a_listed_change_of_other_lines_is_stale(change: str, expected: bool) -> None:
    assert occurs(change, ["a", "b", "c"]) is expected


def test_defaults_take_effect_at_import(mutate: Any, mutations: Any, tmp_path: Path) -> None:
    text = "def f(a=1):\n    def g():\n        return a + 2\n\n    return g\n"
    module = libcst.parse_module(text)
    numbers = matchers.findall(module, matchers.Integer())
    changes = [mutations.Change(each, each.with_changes(value="7"), module.body[0], "code") for each in numbers]
    source = mutate.Source(tmp_path / "some.py", text, module, changes)
    found = {mutant.text: mutant.at_import for mutant in (mutate.Mutant(source, number) for number in range(2))}
    assert found == {text.replace("1", "7"): True, text.replace("2", "7"): False}


TRY_ONE = """
import argparse, sys
from pathlib import Path

project, folder = sys.argv[1:]
sys.path[:0] = [project, f"{project}/scripts", folder, f"{folder}/src"]

import libcst, mutate, mutations, pytest
from libcst import matchers

mutate.PROJECT = Path(folder)
path = Path(folder, "src", "counted.py")
module = libcst.parse_module(path.read_text())
(one,) = matchers.findall(module, matchers.Integer())
change = mutations.Change(one, one.with_changes(value="7"), module.body[0], "code")
mutant = mutate.Mutant(mutate.Source(path, path.read_text(), module, [change]), 0)
trial = mutate.Trial([mutant], argparse.Namespace(each=20.0, minutes=None, workers=1), lambda: None)
pytest.main([*mutate.ARGUMENTS, f"--rootdir={folder}", f"{folder}/test_counted.py"], [trial])
print("outcome:", mutant.outcome)
"""


def test_a_change_is_tried_on_frozen_functions_and_behind_a_test_that_sets_a_profile(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "counted.py").write_text("def one():\n    return 1\n", encoding="utf-8")
    tests = [
        "import gc, sys",
        "import counted",
        "gc.freeze()",  # as `tests/conftest.py` does
        "def test_with_a_profile(): sys.setprofile(None)",
        "def test_one(): assert counted.one() == 1",
    ]
    (tmp_path / "test_counted.py").write_text("\n".join(tests), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", TRY_ONE, PROJECT, tmp_path],
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=True,
        cwd=tmp_path,
    )
    assert ran.stdout.splitlines()[-1] == "outcome: killed", ran.stderr


def test_a_module_of_tables_has_the_tests_that_import_it(mutate: Any) -> None:
    assert PROJECT / "src" / "hackamore" / "fleet" / "journal" / "journal.py" in mutate.importers(TABLES)
    direct = {
        file.relative_to(PROJECT).as_posix()
        for file in (PROJECT / "tests").rglob("test_*.py")
        if "\nfrom hackamore.fleet.journal.tables import" in file.read_text(encoding="utf-8")
    }
    found = mutate.tests_of(TABLES)
    assert found[0] == "tests/fleet"
    assert direct <= set(found)


def test_the_loops_of_trio_and_threads_are_measured_on_their_shells(mutate: Any) -> None:
    names = ("runtime/event_loops.py", "launch", "testing")
    waiting, launch, testing = (PROJECT / "src" / "hackamore" / name for name in names)
    without = ["-m", "not real_cli"]
    assert mutate.shells([waiting]) == mutate.shells([launch, waiting]) == without
    assert mutate.shells([launch]) == ["--shell=asyncio", *without]
    assert mutate.shells([testing]) == ["--shell=asyncio"], "what simulates the CLI is judged beside the real one"


def test_rates_of_several_runs_are_pooled(mutate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, listed = tmp_path / "page.md", tmp_path / "equivalent.toml"
    page.write_text(f"Before.\n\n{mutate.TABLE_BEGINS}\n\nold\n\n{mutate.TABLE_ENDS}\n\nAfter.\n", encoding="utf-8")
    listed.write_text(
        '[[mutant]]\nfile = "src/hackamore/a/b.py"\nchange = "- 1\\n+ 2"\nreason = "why"\n', encoding="utf-8"
    )
    monkeypatch.setattr(mutate, "PAGE", page)
    monkeypatch.setattr(mutate, "EQUIVALENT", listed)
    runs: list[dict[str, list[str]]] = [
        {"src/hackamore/a/b.py #1": ["code", "killed", ""], "src/hackamore/a/b.py #2": ["sql", "survived", "- 3\n+ 4"]},
        {
            "src/hackamore/a/b.py #1": ["code", "killed", ""],
            "src/hackamore/a/b.py #3": ["code", "survived", "- 1\n+ 2"],
        },
        {
            "src/hackamore/a/b.py #4": ["regex", "no tests", "- 5\n+ 6"],
            "src/hackamore/a/b.py #5": ["sql", "killed", ""],
        },
    ]
    for number, tried in enumerate(runs):
        found = {"src/hackamore/a": {"of": 9, "tried": tried}, "src/hackamore/none": {"of": 0, "tried": {}}}
        text = json.dumps({"date": f"2026-01-0{number + 1}", "command": "./dev mutate PATH --seed 1 2", "paths": found})
        (tmp_path / f"{number}.json").write_text(text, encoding="utf-8")
    mutate.table([tmp_path / f"{number}.json" for number in range(len(runs))])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "Measured on 2026-01-01 to 2026-01-03 with `./dev mutate PATH --seed 1 2`:" in text
    assert "| package | tried | survived | survived, by kind |" in text
    assert (
        "| `a` | 4 of 9, 1 equivalent | 2 of 4 (50 %) | `code` 0 of 1 (0 %); `sql` 1 of 2 (50 %); `regex` 1 of 1 (100 %) |"
        in text
    )
    assert "`none`" not in text
    assert "old" not in text


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"SELECT a FROM t"', '"select a from t"', True),
        ('"SELECT a FROM t"', '"XXSELECT a FROM tXX"', False),
        ('"a = excluded.a"', '"A = EXCLUDED.A"', True),
        ('"selected from a list"', '"SELECTED FROM A LIST"', False),
    ],
)
def test_sql_in_upper_or_lower_case_is_no_change(mutations: Any, old: str, new: str, same: bool) -> None:
    change = mutations.Change(libcst.parse_expression(old), libcst.parse_expression(new), None, "code")
    assert mutations.changes_only_case_of_sql(change) is same
