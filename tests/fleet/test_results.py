"""Rows of a fleet as CSV, which people open in spreadsheets and print in terminals, and as JSON, which programs read."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from bridle.fleet import FleetRow, write_results
from bridle.fleet.results import result_pieces


def row(text: str, **tags: str) -> FleetRow:
    return FleetRow(
        task="a", state="succeeded", attempt=1, failures=0, text=text, output={"n": 1}, cost=0.5, tokens=7, seconds=1.0,
        session_id=None, branch=None, folder=None, cause=None, error=text, not_before=None, unknown_calls=0, tags=tags,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\x00\x7f\x9b31m\u202eb", "a\\x00\\x7f\\x9b31m\\u202eb"),
        ("a\r\nb\tc", "a\\x0d\nb\tc"),
        ("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"),
        ("  +1", "'  +1"),
        ("\u00a0=1", "'\u00a0=1"),
        ("\uff1dSUM(A1)", "'\uff1dSUM(A1)"),
        ("\n=1", "'\n=1"),
        ("\t-1", "'\t-1"),
        ("\x1b=1", "\\x1b=1"),
        ("a\ud800", "a\\ud800"),
        ("1 = 1, \u00e4\u4e2d", "1 = 1, \u00e4\u4e2d"),
    ],
)
def test_csv_has_no_control_characters_and_no_formulas(text: str, shown: str) -> None:
    written = b"".join(result_pieces([row(text, **{text: text})], "csv")).decode()
    assert not {character for character in written if not character.isprintable()} - set("\r\n\t\u00a0")
    [found] = csv.DictReader(io.StringIO(written, newline=""))
    assert (found["text"], found["error"], found[f"tag.{shown.removeprefix(chr(39))}"]) == (shown, shown, shown)


def test_json_has_each_text_as_it_is(tmp_path: Path) -> None:
    text = "=1\x1b[2J\r"
    assert write_results([row(text)], tmp_path / "r.jsonl") == 1
    assert json.loads((tmp_path / "r.jsonl").read_text())["text"] == text
