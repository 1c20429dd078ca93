"""The fault matrix is complete: each line has tests, which exist, run on every shell, and are on the page."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.testing.faults.matrix import ALL, BEGIN, END, LINES, MATRIX, Row, table

TESTS = Path(__file__).resolve().parents[2]
PAGE = TESTS.parent / "docs" / "guides" / "testing" / "faults.md"
# What is shown without the fixture `shell`.
SHELLS = {
    "test_nothing_is_left": ALL,
    "test_a_client_that_disconnects_while_an_answer_streams": ("asyncio", "trio"),
    "test_a_client_that_disconnects_without_an_event_loop": ("threads",),
    "test_a_cancelled_read_loses_nothing": ("asyncio", "trio"),
    "test_a_stop_from_another_event_loop": ("asyncio", "trio"),
}


@cache
def functions(file: str) -> dict[str, list[str]]:
    """The test functions of a file, with their arguments."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {
        node.name: [argument.arg for argument in node.args.args]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.fault[:50])
def test_its_tests_exist_and_run_on_every_shell(row: Row) -> None:
    shells: set[str] = set()
    for test in row.tests:
        file, _, name = test.partition("::")
        assert name in functions(file), test
        shells |= set(ALL if "shell" in functions(file)[name] else SHELLS[name])
    assert shells == set(ALL)


def test_every_line_is_there_in_order() -> None:
    groups = [row.group for row in MATRIX]
    assert groups == sorted(groups)
    assert set(groups) == set(range(1, LINES + 1))


def test_the_page_shows_the_matrix() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = text.partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == table(), (
        "run `python -m tests.testing.faults.matrix` and put the table into docs/guides/testing/faults.md"
    )


def test_every_test_of_this_folder_is_in_the_matrix() -> None:
    named = {test.rpartition("::")[2] for row in MATRIX for test in row.tests}
    here = {
        name
        for file in ("test_wire.py", "test_turns.py", "test_leaving.py")
        for name in functions(f"testing/faults/{file}")
    }
    others = {
        "test_options_reach_a_cli_behind_faults",
        "test_texts_of_turns_are_whole",
        "test_threads_each_with_a_loop_of_their_own",
    }
    assert {name for name in here if name.startswith("test_")} - others <= named
