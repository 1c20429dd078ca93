"""Rows of a fleet as CSV, which people open in spreadsheets and print in terminals, and as JSON, which programs read."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import msgspec
import pydantic
import pytest

from hackamore import OptionsError
from hackamore.fleet import FleetRow, write_results
from hackamore.fleet.results import result_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = [
    "task", "state", "attempt", "failures", "cost", "tokens", "seconds", "session_id", "branch", "folder", "cause", "error", "not_before",
    "unknown_calls", "text", "output",
]  # fmt: skip


def row(text: str | None, **tags: str) -> FleetRow:
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


class Sum(pydantic.BaseModel):
    """An output of the user's own type."""

    value: int
    at: datetime
    key: bytes = b"k"


def test_csv_has_a_column_for_each_fact_and_tag(tmp_path: Path) -> None:
    waits = msgspec.structs.replace(
        row(None, a="1"), task="b", state="waiting", not_before=datetime(2026, 11, 23, tzinfo=UTC), cause="crash"
    )
    typed = msgspec.structs.replace(row("x", b="2"), output=Sum(value=4, at=datetime(2026, 11, 23, tzinfo=UTC)))
    assert write_results([waits, typed, msgspec.structs.replace(typed, output=None)], tmp_path / "r.CSV") == 3
    header, *found = csv.reader(io.StringIO((tmp_path / "r.CSV").read_text(), newline=""))
    assert header == [*COLUMNS, "tag.a", "tag.b"]
    output = '{"value":4,"at":"2026-11-23T00:00:00Z","key":"k"}'
    assert found == [
        ["b", "waiting", "1", "0", "0.5", "7", "1.0", *[""] * 3, "crash", "", "2026-11-23T00:00:00+00:00", "0", "", '{"n":1}', "1", ""],
        ["a", "succeeded", "1", "0", "0.5", "7", "1.0", *[""] * 4, "x", "", "0", "x", output, "", "2"],
        ["a", "succeeded", "1", "0", "0.5", "7", "1.0", *[""] * 4, "x", "", "0", "x", "", "", "2"],
    ]  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_form_has_all_rows(tmp_path: Path, count: int) -> None:
    states = ["succeeded", "failed", "cancelled"]
    rows = [
        msgspec.structs.replace(
            row("Two\nlines"), task=f"{number}", state=states[number], cause="verify", output=Path("/x")
        )
        for number in range(count)
    ]
    for ending in ("jsonl", "json", "xml"):
        assert write_results(iter(rows), str(tmp_path / f"r.{ending}")) == count
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert json.loads((tmp_path / "r.json").read_text()) == lines
    assert [(line["task"], line["output"], line["tags"]) for line in lines] == [(each.task, "/x", {}) for each in rows]
    suite = ElementTree.parse(tmp_path / "r.xml").getroot()[0]
    shown = [(case.attrib["name"], *((each.tag, each.attrib, each.text) for each in case)) for case in suite]
    assert shown == [
        ("0",),
        ("1", ("failure", {"message": "verify: Two"}, "Two\nlines")),
        ("2", ("skipped", {}, None)),
    ][:count]  # fmt: skip


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "r.jsonl"
    target.write_text("earlier")

    def rows() -> Iterator[FleetRow]:
        yield row("x")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_results(rows(), target)
    for name in ("r", "r.txt", "r.jsonl.gz"):
        with pytest.raises(OptionsError, match=r"must end in .jsonl, .csv, .json or .xml, got .*r") as caught:
            write_results([row("x")], tmp_path / name)
        assert caught.value.field == "path"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("r.jsonl", "earlier")]
    assert write_results([row("x")], target) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]
