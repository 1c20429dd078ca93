"""A list shows titles, prompts, directories and times, from the ends of the files alone."""

from __future__ import annotations

import errno
import os
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import TranscriptError, transcripts
from hackamore.storage import places
from tests.contract import shows
from tests.support.patience import patience
from tests.transcripts.disk import Writer, line, some_id

if TYPE_CHECKING:
    from pathlib import Path

    from hackamore.transcripts import TranscriptInfo


def only(tmp_path: Path, writer: Writer, text: str | None = None) -> TranscriptInfo:
    writer.save(tmp_path, text=text)
    return transcripts.info(writer.session_id, config_dir=tmp_path)


def talk(prompt: str = "first", filler: int = 0) -> Writer:
    writer = Writer()
    writer.note("queue-operation", operation="enqueue", timestamp="2026-11-01T00:00:00.500Z")
    writer.user(prompt)
    if filler:
        writer.add("attachment", attachment={"type": "file", "content": "x" * filler})
    writer.assistant("answer")
    return writer


TITLES: list[tuple[list[tuple[str, dict[str, Any]]], str, str]] = [
    ([], "first", "first_prompt"),
    ([("summary", {"summary": "the summary"})], "the summary", "summary"),
    ([("summary", {"summary": "s"}), ("last-prompt", {"lastPrompt": "later"})], "later", "last_prompt"),
    ([("ai-title", {"aiTitle": "made"}), ("last-prompt", {"lastPrompt": "later"})], "made", "ai"),
    ([("custom-title", {"customTitle": "mine"}), ("ai-title", {"aiTitle": "made"})], "mine", "custom"),
    (
        [("custom-title", {"customTitle": "one"}), ("custom-title", {"customTitle": 'tw"o \u00e9'})],
        'tw"o \u00e9',
        "custom",
    ),
    ([("custom-title", {"customTitle": "one"}), ("custom-title", {"customTitle": ""})], "first", "first_prompt"),
]


@shows("transcripts.read.titles")
@pytest.mark.parametrize(("notes", "title", "source"), TITLES)
def test_a_title_comes_from_the_best_source(
    tmp_path: Path, notes: list[tuple[str, dict[str, Any]]], title: str, source: str
) -> None:
    writer = talk()
    for kind, fields in notes:
        writer.note(kind, **fields)
    found = only(tmp_path, writer)
    assert (found.title, found.title_source) == (title, source)


def test_the_facts_of_a_conversation(tmp_path: Path) -> None:
    writer = talk()
    writer.lines.append('{"type":"tag","tag":"bill\\u0065d","sessionId":"x"}')
    path = writer.save(tmp_path)
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    found = transcripts.info(writer.session_id, config_dir=tmp_path)
    assert found.first_prompt == "first"
    assert found.cwd == writer.cwd
    assert found.git_branch == "main"
    assert found.created == datetime(2026, 11, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert found.modified == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert found.bytes == path.stat().st_size
    assert (found.tag, found.model, found.sidechain, found.path) == ("billed", "claude-opus-5-5", False, path)
    assert (found.project_key, found.files.path) == (path.parent.name, path)


def test_a_field_inside_of_a_tool_call_is_not_a_field_of_the_session(tmp_path: Path) -> None:
    writer = talk()
    nested = {
        "cwd": "/evil",
        "customTitle": "evil",
        "lastPrompt": "evil",
        "gitBranch": "evil",
        "timestamp": "1999",
        "summary": "evil",
    }
    writer.assistant({"type": "tool_use", "id": "t", "name": "mcp__x__y", "input": nested})
    writer.user([{"type": "tool_result", "tool_use_id": "t", "content": line(nested)}], toolUseResult=nested)
    writer.user('{"type":"tag","tag":"evil"}')
    found = only(tmp_path, writer)
    assert "evil" not in repr(found)
    assert (found.title, found.cwd, found.git_branch) == ("first", writer.cwd, "main")
    first = line({"type": "note", "nested": nested}) + "\n\n"
    found = only(tmp_path, writer, "\n" + first + writer.text)
    assert "evil" not in repr(found)
    assert (found.title, found.cwd, found.git_branch) == ("first", writer.cwd, "main")
    assert found.created == datetime(2026, 11, 1, 0, 0, 0, 500_000, tzinfo=UTC)


def test_a_tag_can_be_taken_away(tmp_path: Path) -> None:
    writer = talk()
    writer.lines.append('{"type":"tag","tag":"a"}')
    assert only(tmp_path, writer).tag == "a"
    writer.lines.append('{"type":"tag","tag":""}')
    assert only(tmp_path, writer).tag is None


def test_the_model_is_that_of_the_last_reply(tmp_path: Path) -> None:
    writer = talk()
    writer.assistant("other", model="the-last")
    writer.assistant("Failed", model="<synthetic>")
    writer.user("x", toolUseResult={"type": "assistant", "message": {"model": "evil"}})
    writer.lines += ['{"type":"assistant","message":{"model":7}}', '{"type":"assistant","message":{"model":""}}']
    assert only(tmp_path, writer).model == "the-last"
    writer.add("attachment", attachment={"type": "file", "content": "x" * 300_000})
    assert only(tmp_path, writer).model == "the-last"  # far from the end of the file
    other = Writer()
    other.user("no reply")
    assert only(tmp_path, other).model is None


@pytest.mark.parametrize(
    ("half", "tag"),
    [
        ('{"type":"tag","tag":"b\\u00e9","sessionId":"5e', "b\u00e9"),
        ('{"type":"tag", "tag": "b\\"c", "ses', 'b"c'),
        ('{"type":"tag","tag":"","ses', None),
        ('[{"type":"tag","tag":"b"}]', "a"),
        ('{"type":"tagged","tag":"b"}', "a"),
    ],
)
def test_a_half_written_tag_counts_if_it_is_there(tmp_path: Path, half: str, tag: str | None) -> None:
    writer = talk()
    writer.lines.append('{"type":"tag","tag":"a"}')
    assert only(tmp_path, writer, writer.text + half).tag == tag


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_half_written_last_line_changes_nothing_else(tmp_path: Path, cut: int) -> None:
    writer = talk()
    writer.note("last-prompt", lastPrompt="later")
    whole = only(tmp_path, writer)
    half = only(
        tmp_path, writer, writer.text + line({"type": "user", "message": {"role": "user", "content": "half" * 9}})[:cut]
    )
    assert (half.title, half.cwd, half.created, half.model) == (whole.title, whole.cwd, whole.created, whole.model)


def test_lines_that_the_windows_cut_still_tell(tmp_path: Path) -> None:
    writer = talk(filler=300_000)
    writer.note("custom-title", customTitle="early")
    writer.add("attachment", attachment={"type": "file", "content": "y" * 300_000})
    found = only(tmp_path, writer)
    assert (found.title, found.git_branch, found.cwd) == ("first", "main", writer.cwd)
    # The title stands in neither window; in the last one it counts, as in the first one.
    writer.note("custom-title", customTitle="late")
    assert only(tmp_path, writer).title == "late"
    first = Writer()
    first.note("custom-title", customTitle="early")
    first.lines += writer.lines[:-1]
    assert only(tmp_path, first).title == "early"


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ("x" * 250, "x" * 200 + "\u2026"),
        ("two\nlines ", "two lines"),
        ([{"type": "image", "source": {}}, {"type": "text", "text": "look"}], "look"),
        ("<local-command-stdout>no</local-command-stdout>", "next"),
        ("[Request interrupted by user for tool use]", "next"),
        ("<ide_opened_file>a\nb</ide_opened_file>", "next"),
        ("<command-name>/compact</command-name>", "next"),
        ("  ", "next"),
    ],
)
def test_the_first_prompt_is_one_that_a_user_typed(tmp_path: Path, content: Any, prompt: str) -> None:
    writer = Writer()
    writer.user("meta", isMeta=True)
    writer.user("summary", isCompactSummary=True)
    writer.result("t")
    writer.user(content)
    writer.user("next")
    assert only(tmp_path, writer).first_prompt == prompt


def test_a_command_counts_if_nothing_else_was_typed(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("<command-name>/init</command-name> <command-args></command-args>")
    assert only(tmp_path, writer).first_prompt == "/init"


def test_a_prompt_of_commands_that_do_not_end_takes_no_time(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("<command-name>" * 4_000)
    began = time.process_time()
    assert only(tmp_path, writer).first_prompt is not None
    assert time.process_time() - began < patience(0.3)


def test_a_list_is_newest_first_and_leaves_out_what_is_no_conversation(tmp_path: Path) -> None:
    times = {}
    for number in range(1, 6):
        writer = talk(f"prompt {number}")
        writer.session_id = some_id(number)
        if number == 2:
            writer.lines.append('{"type":"tag","tag":"kept"}')
        os.utime(writer.save(tmp_path), (number, number))
        times[number] = writer
    folder = tmp_path / "projects" / transcripts.project_key(times[1].cwd)
    (folder / f"{some_id(6)}.jsonl").write_text("")
    (folder / f"{some_id(7)}.jsonl").write_text('{"type":"mode"}\n')
    (folder / "agent-1.jsonl").write_text(times[1].text)
    side = Writer(some_id(8))
    side.user("x", isSidechain=True)
    side.save(tmp_path)
    (folder / f"{some_id(9)}.jsonl").mkdir()
    os.mkfifo(folder / f"{some_id(10)}.jsonl")

    def ids(**options: Any) -> list[int]:
        found = transcripts.list(times[1].cwd, config_dir=tmp_path, **options)
        return [number for each in found for number in range(1, 11) if each.session_id == some_id(number)]

    assert ids() == [5, 4, 3, 2, 1]
    assert ids(limit=2) == [5, 4]
    assert ids(limit=2, offset=1) == [4, 3]
    assert (ids(limit=0), ids(offset=9)) == ([], [])
    assert ids(tag="kept", limit=1) == [2]
    assert ids(since=datetime.fromtimestamp(3, UTC)) == [5, 4, 3]
    assert ids(since=datetime.fromtimestamp(3, UTC), until=datetime.fromtimestamp(5, UTC)) == [4, 3]
    assert transcripts.list("/other", config_dir=tmp_path) == []
    assert transcripts.list("/other", config_dir=tmp_path / "nothing") == []
    assert transcripts.info(some_id(8), config_dir=tmp_path).sidechain
    assert transcripts.info(some_id(7), config_dir=tmp_path).title == ""


def test_a_file_that_cannot_be_read_is_not_a_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any, *_: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    info = only(tmp_path, talk())
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        assert transcripts.list(all_projects=True, config_dir=tmp_path) == []
        with pytest.raises(TranscriptError, match=f"{info.session_id}.jsonl could not be read: Permission denied"):
            transcripts.info(info.session_id, config_dir=tmp_path)


def test_a_list_of_all_projects_has_each_session_once(tmp_path: Path) -> None:
    for number, cwd in enumerate(("/a", "/b")):
        writer = talk(f"in {cwd}")
        writer.session_id, writer.cwd = some_id(1), cwd
        os.utime(writer.save(tmp_path), (number, number))
    (found,) = transcripts.list(all_projects=True, config_dir=tmp_path)
    assert (found.title, found.modified) == ("in /b", datetime.fromtimestamp(1, UTC))
    with pytest.raises(ValueError, match="exclude each other"):
        transcripts.list("/a", all_projects=True)
    with pytest.raises(ValueError, match="at least 0"):
        transcripts.list(limit=-1)
    with pytest.raises(ValueError, match="at least 0"):
        transcripts.list(offset=-1)


def test_find_gives_one_conversation(tmp_path: Path) -> None:
    writer = talk()
    writer.save(tmp_path)
    assert transcripts.find(writer.session_id[:5], config_dir=tmp_path) == transcripts.info(
        writer.session_id, config_dir=tmp_path
    )


def test_a_session_that_vanishes_is_not_an_error_of_the_list(tmp_path: Path) -> None:
    path = talk().save(tmp_path)
    files = places.SessionFiles(path.stem, path)
    path.unlink()
    from hackamore.transcripts.listing import info_of

    assert info_of(files) is None
    path.symlink_to(path)
    assert transcripts.list(Writer().cwd, config_dir=tmp_path) == []


@pytest.mark.parametrize(
    ("stamp", "created"),
    [
        ("2026-11-01T10:00:00+02:00", datetime(2026, 11, 1, 10, tzinfo=timezone(timedelta(hours=2)))),
        ("2026-11-01T10:00:00Z", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01T10:00:00", datetime(2026, 11, 1, 10).astimezone()),
        ("yesterday", None),
        ("", None),
    ],
)
def test_the_time_of_the_first_entry(tmp_path: Path, stamp: str, created: datetime | None) -> None:
    writer = Writer()
    writer.user("x", timestamp=stamp)
    found = only(tmp_path, writer).created
    assert found == created
    assert found is None or created is None or found.utcoffset() == created.utcoffset(), "the zone of the file stays"


def test_a_list_of_many_has_few_files_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        writer = talk()
        writer.session_id = some_id(number)
        os.utime(writer.save(tmp_path), (number, number))
    opened, most = set(), 0
    really_open, really_close = os.open, os.close

    def count(*arguments: Any) -> int:
        nonlocal most
        opened.add(descriptor := really_open(*arguments))
        most = max(most, len(opened))
        return descriptor

    def close(descriptor: int) -> None:
        opened.discard(descriptor)
        really_close(descriptor)

    monkeypatch.setattr(os, "open", count)
    monkeypatch.setattr(os, "close", close)
    found = transcripts.list(all_projects=True, config_dir=tmp_path)
    assert [each.session_id for each in found] == [some_id(number) for number in reversed(range(100))]
    assert len(transcripts.list(all_projects=True, limit=1, config_dir=tmp_path)) == 1
    assert (opened, most <= 32) == (set(), True)


@pytest.mark.parametrize("space", ["", " "])
def test_a_conversation_of_a_subagent_is_known_by_its_first_line(tmp_path: Path, space: str) -> None:
    side, main = Writer(), talk()
    side.user("x", isSidechain=True)
    side.lines[0] = side.lines[0].replace('"isSidechain":', f'"isSidechain":{space}')
    main.user("x", isSidechain=True)
    assert (only(tmp_path, side).sidechain, only(tmp_path, main).sidechain) == (True, False)


def test_a_field_of_a_line_that_a_window_cuts_counts_where_it_is_found(tmp_path: Path) -> None:
    size = places.HEAD_BYTES
    writer = Writer()
    start = '{"type":"user","cwd":"/a \\"b","timestamp":"2026-11-01T00:00:00Z","gitBranch":7,"x":"'
    end = '","gitBranch":"the \\u00e9nd","customTitle": "cut"}\n'
    found = only(tmp_path, writer, start + "x" * (3 * size) + end)
    assert (found.cwd, found.git_branch, found.title) == ('/a "b', "the \u00e9nd", "cut")
    assert found.created == datetime(2026, 11, 1, tzinfo=UTC)


def test_local_times_count_as_local(tmp_path: Path) -> None:
    path = talk().save(tmp_path)
    moment = datetime.fromtimestamp(path.stat().st_mtime)
    project = Writer().cwd
    assert transcripts.list(project, config_dir=tmp_path, since=moment - timedelta(seconds=1))
    assert not transcripts.list(project, config_dir=tmp_path, since=moment + timedelta(seconds=1))
