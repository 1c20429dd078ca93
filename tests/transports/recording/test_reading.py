"""Recordings are read as far as they can be: whole, interrupted, damaged, written anew by another tool, or of a later version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hackamore.transports.recording.reading import Entry, entry_of, frame_of, object_of, read_recording

if TYPE_CHECKING:
    from pathlib import Path

HEADER = b'{"format":"hackamore-cassette","version":1,"cli":"2.1.330"}\n'


def taken(line: bytes) -> tuple[int | str, Entry]:
    found = entry_of(7, line)
    assert isinstance(found, tuple)
    return found


@pytest.mark.parametrize(
    ("line", "key", "entry"),
    [
        (b'{"s":"a1","t":1.5,"k":"exit","code":3}', "a1", Entry("exit", 1.5, 7, fields={"code": 3})),
        (b'{"s":0,"t":0,"k":"eof"}\r\n', 0, Entry("eof", 0.0, 7)),
        (b'{"s":0,"t":"2","k":"in","f":{"a": 1}}\n', 0, Entry("in", 2.0, 7, b'{"a": 1}', True)),
        (b'{"s":0,"t":0,"k":"in","f":{"a":"}"}}', 0, Entry("in", 0.0, 7, b'{"a":"}"}', True)),
        (b'{"s":0,"t":0,"k":"in","f":"\\ud83d"}', 0, Entry("in", 0.0, 7, b'"\\ud83d"', True)),
        (b'{"s":0,"t":0,"k":"in","f":"\xc3\xa9"}', 0, Entry("in", 0.0, 7, '"é"'.encode(), True)),
        # Somebody's tool has written it anew: in another order, with spaces.
        (b'{"f": {"a": [1, 2]}, "s": 0, "t": 0, "k": "out"}', 0, Entry("out", 0.0, 7, b'{"a":[1,2]}', True)),
        (b'{"s":0,"t":0,"k":"in","f":{"a":1},"x":2}', 0, Entry("in", 0.0, 7, b'{"a":1}', True, {"x": 2})),
        # What is no frame: text on a pipe, its bytes, or what somebody said.
        (b'{"s":0,"t":0,"k":"in","text":"caf\xc3\xa9"}', 0, Entry("in", 0.0, 7, "café".encode())),
        (b'{"s":0,"t":0,"k":"out","text":"\\ud83d"}', 0, Entry("out", 0.0, 7, b"\xed\xa0\xbd")),
        (b'{"s":0,"t":0,"k":"prompt","text":"hi"}', 0, Entry("prompt", 0.0, 7, fields={"text": "hi"})),
        (b'{"s":0,"t":0,"k":"in","base64":"//4="}', 0, Entry("in", 0.0, 7, b"\xff\xfe")),
        (b'{"s":0,"t":0,"k":"in","cut":true,"text":"x"}', 0, Entry("in", 0.0, 7, b"x", False, {"cut": True})),
        (b'{"s":0,"t":999999999.0,"k":"eof"}', 0, Entry("eof", 999_999_999.0, 7)),
    ],
)
def test_a_event_is_read_with_the_bytes_that_went_over_the_wire(line: bytes, key: int | str, entry: Entry) -> None:
    assert taken(line) == (key, entry)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"[]", "it is not an object"),
        (b'{"format":"another"}', "it is the header of something else"),
        (b'{"t":0,"k":"in"}', "'s' is missing"),
        (b'{"s":0,"k":"in"}', "'t' is missing"),
        (b'{"s":0,"t":0}', "'k' is missing"),
        (b'{"s":null,"t":0,"k":"in"}', "its marks have wrong types"),
        (b'{"s":0,"t":0,"k":5}', "its marks have wrong types"),
        (b'{"s":0,"t":-0.5,"k":"in"}', "its time is out of range"),
        (b'{"s":0,"t":1e9,"k":"in"}', "its time is out of range"),
        (b'{"s":0,"t":NaN,"k":"in"}', "its time is out of range"),
        (b'{"s":0,"t":"soon","k":"in"}', "could not convert string to float"),
        (b'{"s":0,"t":null,"k":"in"}', "float"),
        (b'{"s":0,"t":0,"k":"in","base64":"\xc3\xa9"}', "ASCII"),
        (b'{"s":0,"t":0,"k":"in","f":{"a":}}', "Expecting value"),
        (b'{"s":0,"t":0,"k":"in","f":"\xff"}', "utf-8"),
        (b'{"s":0,"t":0,"k":"in"', "delimiter"),
        (b'{"s":0,"t":0,"k":' + b"[" * 100_000, ""),
        (b'{"s":0,"t":1' + b"0" * 5_000 + b',"k":"in"}', ""),
    ],
)
def test_what_cannot_be_read_says_why(line: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem or None):
        entry_of(1, line)


def test_sessions_are_told_apart_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        HEADER
        + b'{"s":"a","t":0,"k":"start","cwd":"/srv","name":null}\n'
        + b"\n"
        + b'{"s":"b","t":0,"k":"start"}\n'
        + b"nonsense\n"
        + b'{"s":"a","t":1,"k":"in","f":{}}\n'
        + b'{"s":"a","t":2,"k":"end"}\n'
        + HEADER.replace(b"2.1.330", b"2.1.331")
        + b'{"s":"a","t":0,"k":"start"}\n'
        + b'{"s":"c","t":0,"k":"in","f":{}}\n'
        + b'{"s":"b","t":1,"k'
    )
    found = read_recording(path)
    assert found.path == str(path)
    assert found.header["cli"] == "2.1.330"
    assert (found.newer, found.cut) == (False, True)
    assert [problem.partition(":")[0] for problem in found.problems] == [
        "line 5 cannot be read",
        "line 11 cannot be read",
    ]
    assert [(one.index, one.key, one.complete, [entry.line for entry in one.entries]) for one in found.sessions] == [
        (0, "a", True, [2, 6, 7]),
        (1, "b", False, [4]),
        (2, "a", False, [9]),
        (3, "c", False, [10]),
    ]
    first, last = found.sessions[0], found.sessions[3]
    assert first.first("in") is first.entries[1]
    assert first.first("exit") is None
    assert (first.start_field("cwd"), first.start_field("name", "x"), first.start_field("y", 5)) == ("/srv", None, 5)
    assert (last.start_field("cwd"), last.start_field("cwd", 5)) == (None, 5)


@pytest.mark.parametrize(
    ("content", "cut"),
    [
        (b"nonsense", True),
        (b"nonsense\n", False),
        (b'{"s":0,"t":0,"k":"eof"}', False),
        (b"", False),
        (b"x\n\n  ", False),
    ],
)
def test_a_file_without_a_header_is_something_else_or_damaged(tmp_path: Path, content: bytes, cut: bool) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    found = read_recording(path)
    assert found.problems[0] == "it has no header: it is neither a cassette nor a trace, or its beginning is lost"
    assert (found.header, found.cut, found.newer) == ({}, cut, False)


def test_many_problems_are_not_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(HEADER + b"nonsense\n" * 200)
    found = read_recording(path).problems
    assert len(found) == 50
    assert found[-1].startswith("line 51 cannot be read: ")


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        (b"1", None),
        (b"0", None),
        (b"2", "line 1: format version 2, and 1 is known here"),
        (b'"1"', "line 1: format version '1', and 1 is known here"),
        (b"null", "line 1: format version None, and 1 is known here"),
        (b'"' + b"x" * 100 + b'"', f"line 1: format version '{'x' * 39}, and 1 is known here"),
    ],
)
def test_a_later_version_is_read_and_named(tmp_path: Path, version: bytes, problem: str | None) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"format":"hackamore-cassette","version":' + version + b"}\n" + b'{"s":0,"t":0,"k":"eof"}\n')
    found = read_recording(path)
    assert found.problems == ([problem] if problem else [])
    assert found.newer is (problem is not None)
    assert len(found.sessions) == 1


@pytest.mark.parametrize(
    ("line", "value"),
    [(b'{"a":1}', {"a": 1}), (b"[1]", {}), (b"nonsense", {}), (b"[" * 100_000, {}), (b"\xff", {})],
)
def test_a_frame_that_is_no_object_is_an_empty_one(line: bytes, value: dict[str, Any]) -> None:
    assert object_of(line) == value
    assert frame_of(Entry("in", 0.0, 1, line, True)) == value
    assert frame_of(Entry("in", 0.0, 1, line, False)) == {}
