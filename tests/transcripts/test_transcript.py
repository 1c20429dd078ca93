"""A conversation is read as the CLI continues it: parallel tool calls, branches, compactions, damage, and growth."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import AssistantMessage, SessionNotFoundError, TranscriptError, UserMessage, transcripts
from hackamore.transcripts import entries
from hackamore.transcripts import transcript as transcript_module
from hackamore.transcripts.transcript import source_of
from tests.contract import shows
from tests.transcripts.disk import Writer, some_id, tool_use

if TYPE_CHECKING:
    from pathlib import Path

    from hackamore.transcripts import Messages, Transcript


def opened(tmp_path: Path, writer: Writer, text: str | None = None, leaf: str | None = None) -> Transcript:
    writer.save(tmp_path, text=text)
    return transcripts.read(writer.session_id, leaf=leaf, config_dir=tmp_path)


def ids(messages: Messages) -> list[str | None]:
    return [message.uuid for message in messages]


def parallel(count: int = 3) -> tuple[Writer, list[str]]:
    """A reply with several calls; the next reply follows the result of the first one, as the CLI writes it."""
    writer = Writer()
    first = writer.user("go")
    calls = [writer.assistant(tool_use(f"t{number}"), id="m1") for number in range(count)]
    results = [
        writer.result(f"t{n}", parent=calls[n], sourceToolAssistantUUID=calls[n]) for n in reversed(range(count))
    ]
    last = writer.assistant("done")
    return writer, [first, calls[0], *calls[1:], *results, last]


def test_messages_are_those_of_a_live_session(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("meta", isMeta=True)
    asked = writer.user([{"type": "text", "text": "go"}, {"type": "image", "source": {"type": "url"}}])
    writer.add("attachment", attachment={"type": "date"})
    called = writer.assistant("Let me see.", tool_use("t1", command="ls"), requestId="req_1")
    got = writer.result("t1", "files", toolUseResult={"stdout": "files"})
    ended = writer.assistant("Overloaded", isApiErrorMessage=True, error="overloaded")
    transcript = opened(tmp_path, writer)
    prompt, call, result, end = transcript.messages
    assert [asked, called, got, ended] == ids(transcript.messages)
    assert isinstance(prompt, UserMessage)
    assert prompt.text == "go"
    assert isinstance(call, AssistantMessage)
    assert (call.text, call.session_id, call.request_id) == ("Let me see.", writer.session_id, "req_1")
    assert isinstance(result, UserMessage)
    assert result.tool_use_result == {"stdout": "files"}
    assert isinstance(end, AssistantMessage)
    assert (end.is_api_error_message, end.error) == (True, "overloaded")
    assert prompt.data["cwd"] == writer.cwd
    assert transcript.leaf == ended
    assert transcript.info.title == "go"


def test_a_view_of_messages_is_a_sequence(tmp_path: Path) -> None:
    writer = Writer()
    expected: list[str | None] = [writer.user(f"{number} " + "x" * (number * 9000)) for number in range(40)]
    messages = opened(tmp_path, writer).messages
    assert len(messages) == 40
    assert ids(messages) == expected
    assert [message.uuid for message in reversed(messages)] == expected[::-1]
    assert messages[-1].uuid == expected[-1]
    assert ids(messages[3:30:5]) == expected[3:30:5]
    assert len(messages[40:]) == 0
    with pytest.raises(IndexError):
        messages[40]


@shows("transcripts.read.parallel")
@pytest.mark.parametrize("count", [2, 3, 5])
def test_parallel_calls_come_back_with_all_results(tmp_path: Path, count: int) -> None:
    writer, expected = parallel(count)
    assert ids(opened(tmp_path, writer).messages) == expected
    assert len(opened(tmp_path, writer).branches) == 1


def test_a_result_that_follows_another_entry_is_found_by_its_call(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("go")
    one = writer.assistant(tool_use("t1"), id="m1")
    two = writer.assistant(tool_use("t2"), id="m1")
    note = writer.add("attachment", attachment={}, parent=two)
    stray = writer.result("t2", parent=note)
    taken = writer.result("t1", parent=one)
    writer.assistant("done")
    repeated = writer.result("t2", parent=note)  # answered already
    writer.lines.insert(-1, writer.lines.pop())
    seen = ids(opened(tmp_path, writer).messages)
    assert stray in seen or repeated in seen
    assert not {stray, repeated} <= set(seen) or writer.last == repeated
    assert taken in seen or writer.last == repeated


@shows("transcripts.read.parallel")
@pytest.mark.parametrize(
    ("stray", "claimed", "belongs"),
    [
        ({}, False, True),
        ({"isSidechain": True}, False, False),
        ({"agentId": "a1"}, False, False),
        ({}, True, False),  # two replies have a call of this id
        ({"isMeta": True}, False, False),
    ],
)
def test_a_result_behind_another_entry_belongs_to_the_one_call_of_its_conversation(
    tmp_path: Path, stray: dict[str, Any], *, claimed: bool, belongs: bool
) -> None:
    writer = Writer()
    before = [writer.user("go")]
    if claimed:
        before.append(writer.assistant(tool_use("t2"), id="m0"))
    one = writer.assistant(tool_use("t1"), id="m1")
    two = writer.assistant(tool_use("t2"), id="m1")
    note = writer.add("attachment", attachment={}, parent=two)
    found = writer.result("t2", parent=note, **stray)
    writer.result("t2", "again", parent=note, agentId="a1")
    taken = writer.result("t1", parent=one)
    end = writer.assistant("done")
    assert ids(opened(tmp_path, writer).messages) == [*before, one, two, *([found] * belongs), taken, end]


@shows("transcripts.read.branches")
def test_a_rewound_conversation_has_branches(tmp_path: Path) -> None:
    writer = Writer()
    start = writer.user("start")
    answer = writer.assistant("answer")
    writer.user("first way")
    old = writer.assistant("old end")
    writer.user("second way", parent=answer)
    new = writer.assistant("new end")
    transcript = opened(tmp_path, writer)
    assert [message.text for message in transcript.messages] == ["start", "answer", "second way", "new end"]
    current, other = transcript.branches
    assert (current.leaf, current.current, other.leaf, other.current) == (new, True, old, False)
    assert [message.text for message in other.messages] == ["start", "answer", "first way", "old end"]
    assert ids(opened(tmp_path, writer, leaf=old).messages) == ids(other.messages)
    assert ids(opened(tmp_path, writer, leaf=start).messages) == [start]
    for name, shown in (("x", "'x'"), ("\x1b" + "y" * 300, f"[... 106 characters left out] {'y' * 199}'")):
        with pytest.raises(TranscriptError) as caught:
            opened(tmp_path, writer, leaf=name)
        assert f"{writer.session_id} has no message {shown}. `branches`" in str(caught.value)


class Steps(dict[str, Any]):
    """Entries by id; counts how often one was looked up."""

    count = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)


@shows("transcripts.read.branches")
def test_many_branches_cost_no_square(tmp_path: Path) -> None:
    writer = Writer()
    last, ends = writer.user("start"), []
    for number in range(200):
        ends.append(writer.assistant(f"dead end {number}", parent=last))
        last = writer.assistant(f"answer {number}", parent=writer.user("on", parent=last))
    for _ in range(200):
        writer.add("progress", parent=last)
        last = writer.add("progress", parent=last)
    transcript = opened(tmp_path, writer)
    links = source_of(transcript).links
    links.by_uuid = steps = Steps(links.by_uuid)
    assert [branch.leaf for branch in transcript.branches][1:] == ends[::-1]
    assert steps.count < 5 * len(steps)
    assert len(transcript.branches[-1].messages) == 2


@shows("transcripts.read.branches")
def test_a_compaction_begins_again_with_its_summary(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("early")
    end = writer.assistant("answer")
    boundary = writer.add("system", parent=None, subtype="compact_boundary", logicalParentUuid=end, content="x")
    writer.user("the summary", isCompactSummary=True, parent=boundary)
    writer.user("later")
    writer.assistant("end")
    transcript = opened(tmp_path, writer)
    assert [message.text for message in transcript.messages] == ["the summary", "later", "end"]
    assert [(turn.has_prompt, len(turn.messages)) for turn in transcript.turns] == [(False, 1), (True, 2)]
    assert [(branch.current, branch.compacted) for branch in transcript.branches] == [(True, False), (False, True)]
    assert [message.text for message in transcript.branches[1].messages] == ["early", "answer"]


def test_a_session_without_a_message_has_no_turns(tmp_path: Path) -> None:
    writer = Writer()
    writer.note("file-history-snapshot", snapshot={})
    transcript = opened(tmp_path, writer)
    assert (len(transcript.messages), transcript.turns, transcript.leaf) == (0, [], None)


def test_turns_begin_with_prompts(tmp_path: Path) -> None:
    writer, _ = parallel(2)
    writer.user([{"type": "text", "text": "[Request interrupted by user]"}])
    writer.user("<command-name>/init</command-name>")
    writer.user("<local-command-stdout>x</local-command-stdout>")
    writer.assistant("two")
    first, second = opened(tmp_path, writer).turns
    assert first.prompt is not None
    assert (first.prompt.text, first.text, len(first.messages)) == ("go", "done", 7)
    assert (second.text, len(second.messages)) == ("two", 3)
    assert first.usage.replies == 2
    assert first.usage.input == 20


def test_sidechains_and_teams_are_left_out(tmp_path: Path) -> None:
    writer = Writer()
    seen = [writer.user("one"), writer.assistant("two")]
    writer.user("side", isSidechain=True)
    writer.assistant("side", isSidechain=True)
    writer.assistant("team", teamName="x", parent=seen[-1])
    assert ids(opened(tmp_path, writer).messages) == seen


def test_subagents_have_conversations_of_their_own(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("delegate")
    writer.assistant(tool_use("t1", "Agent"))
    path = writer.save(tmp_path)
    agent, inner = parallel(2)
    agent.lines = [json.dumps(json.loads(each) | {"isSidechain": True, "agentId": "a1"}) for each in agent.lines]
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_text(agent.text)
    meta = {"agentType": "Explore", "toolUseId": "t1", "parentAgentId": "a0", "spawnDepth": 1}
    (folder / "agent-a1.meta.json").write_text(json.dumps(meta))
    (folder / "agent-a2.jsonl").write_text("")
    transcript = transcripts.read(writer.session_id, config_dir=tmp_path)
    assert list(transcript.subagents) == ["a1", "a2"]
    found = transcript.subagents["a1"]
    assert (found.agent_type, found.tool_use_id, found.parent_agent_id, found.meta) == ("Explore", "t1", "a0", meta)
    assert set(ids(found.messages)) == set(inner)
    assert {message.parent_tool_use_id for message in found.messages} == {"t1"}
    assert {message.agent_id for message in found.messages} == {"a1"}
    assert (len(transcript.subagents["a2"].messages), transcript.subagents["a2"].meta) == (0, {})
    assert transcript.usage.replies == 3
    assert found.usage.replies == 2


@shows("transcripts.read.damage")
def test_entries_keep_everything(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("one")
    writer.note("from-the-future", new={"a": [1]})
    writer.lines += ["[1]", "null", "not json", '{"type":5,"uuid":[],"x":1}', ""]
    entries = list(opened(tmp_path, writer).entries)
    assert [entry.type for entry in entries] == ["user", "from-the-future", ""]
    assert entries[1].data["new"] == {"a": [1]}
    assert entries[2].raw == b'{"type":5,"uuid":[],"x":1}'
    data = writer.save(tmp_path).read_bytes()
    assert all(data[entry.offset : entry.offset + len(entry.raw)] == entry.raw for entry in entries)


@shows("transcripts.read.damage")
def test_a_name_that_is_not_utf_8_costs_no_other_field(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("one")
    path = writer.save(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"type":"mode","\xff":1,"cwd":"/a"}\n')
    _, entry = transcripts.read(writer.session_id, config_dir=tmp_path).entries
    assert (entry.type, entry.cwd) == ("mode", "/a")


@shows("transcripts.read.damage")
@pytest.mark.parametrize(
    "damage",
    [
        '{"type":"user"',
        '{"type":"user","uuid":"u","message":{"role":"user","content":7}}',
        '{"type":"assistant","uuid":"u","parentUuid":5,"message":[1]}',
        '{"type":"assistant","uuid":"u","message":{"id":7,"content":[{"type":7},3,{"type":"text","text":7}]}}',
        '{"type":"user","uuid":"u","message":{"content":"' + "\\ud800" + '"}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "\x00\x01",
    ],
)
def test_damaged_lines_cost_no_other_line(tmp_path: Path, damage: str) -> None:
    writer = Writer()
    seen = [writer.user("one"), writer.assistant("two")]
    lines = [writer.lines[0], damage, writer.lines[1]]
    transcript = opened(tmp_path, writer, "".join(f"{each}\n" for each in lines))
    assert ids(transcript.messages) == seen
    assert [message.text for branch in transcript.branches for message in branch.messages][:2] == ["one", "two"]
    assert transcript.usage.replies == 1
    assert transcripts.search("two", config_dir=tmp_path, cache_dir=tmp_path / "cache")


@shows("transcripts.read.damage")
def test_what_a_damaged_line_still_says_counts(tmp_path: Path) -> None:
    """Each of these lines has a field of a wrong shape, and a place in the conversation all the same."""
    writer = Writer()

    def damaged(**fields: Any) -> dict[str, Any]:
        return {"agentId": 7, **fields}

    expected = [
        writer.user("one", **damaged()),
        called := writer.assistant(tool_use("t1"), 3, id="m1", **damaged()),
        parallel := writer.assistant(
            tool_use("t2"), tool_use("t3"), id="m1", **damaged(timestamp="2026-11-01T00:00:09Z")
        ),
    ]
    late = writer.result("t2", parent=parallel, **damaged(timestamp="2026-11-01T00:00:14Z"))
    early = writer.result("t3", parent=parallel, **damaged(timestamp="2026-11-01T00:00:12Z"))
    expected += [early, late, writer.result("t1", parent=called, **damaged(timestamp="2026-11-01T00:00:15Z"))]
    expected.append(writer.assistant("done"))
    expected += [writer.user("two", **damaged()), writer.assistant("end", **damaged())]
    transcript = opened(tmp_path, writer)
    assert ids(transcript.messages) == expected
    assert [(turn.prompt and turn.prompt.text, turn.text) for turn in transcript.turns] == [
        ("one", "done"),
        ("two", "end"),
    ]


def test_a_prompt_may_begin_with_a_picture(tmp_path: Path) -> None:
    writer = Writer()
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}}
    writer.user([picture, {"type": "text", "text": "[Request interrupted by user, says the sign] What is it?"}])
    writer.assistant("A sign.")
    writer.user([{"type": "tool_use", "id": "t"}, picture])
    writer.assistant("Another one.")
    first, second = opened(tmp_path, writer).turns
    assert [turn.has_prompt for turn in (first, second)] == [True, True]
    assert (first.text, second.text) == ("A sign.", "Another one.")


def test_every_cut_of_a_file_can_be_read(tmp_path: Path) -> None:
    writer, _ = parallel(2)
    data = writer.text.encode()
    whole = len(opened(tmp_path, writer).messages)
    counts = []
    for cut in range(1, len(data), 37):
        path = writer.save(tmp_path)
        path.write_bytes(data[:cut])
        counts.append(len(list(transcripts.read(writer.session_id, config_dir=tmp_path).messages)))
    assert counts[0] == 0
    assert max(counts) <= whole
    assert counts == sorted(counts)


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    writer = Writer()
    one, two = some_id(1), some_id(2)
    writer.user("a", uuid=one, parent=two)
    writer.user("b", uuid=two, parent=one)
    writer.user("c", uuid=some_id(3), parent=two)
    assert [message.text for message in opened(tmp_path, writer).messages] == ["a", "b", "c"]


@shows("transcripts.read.grows")
def test_a_file_can_grow_while_it_is_read(tmp_path: Path) -> None:
    writer = Writer()
    seen = [writer.user("one"), writer.assistant("two")]
    transcript = opened(tmp_path, writer)
    reading = iter(transcript.messages)
    assert next(reading).uuid == seen[0]
    writer.user("three")
    with transcript.path.open("a") as file:
        file.write(writer.lines[-1] + "\n")
    assert [message.uuid for message in reading] == seen[1:]
    assert len(list(transcript.entries)) == 3


@shows("transcripts.read.grows")
def test_a_file_that_vanishes_or_is_replaced_is_an_error_with_a_fix(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("one")
    writer.user("two")
    transcript = opened(tmp_path, writer)
    other = transcript.path.with_name("x")
    other.write_text(writer.text)
    other.replace(transcript.path)
    with pytest.raises(TranscriptError, match="Call `read` again"):
        list(transcript.messages)
    transcript = opened(tmp_path, writer)
    transcript.path.write_text(writer.lines[0] + "\n")
    with pytest.raises(TranscriptError, match="was replaced"):
        list(transcript.messages)
    transcript.path.unlink()
    for take in (lambda: list(transcript.messages), lambda: list(transcript.entries), lambda: transcript.info):
        with pytest.raises(SessionNotFoundError):
            take()
    with pytest.raises(SessionNotFoundError):
        transcripts.read(writer.session_id, config_dir=tmp_path)


def test_what_is_shown_of_a_conversation(tmp_path: Path) -> None:
    writer = Writer(some_id(1))
    own = writer.user("one")
    path = writer.save(tmp_path)
    (path.with_suffix("") / "subagents").mkdir(parents=True)
    (path.with_suffix("") / "subagents" / "agent-a1.jsonl").write_text(writer.text)
    (path.with_suffix("") / "subagents" / "agent-a1.meta.json").write_text('{"agentType":7}')
    transcript = transcripts.read(writer.session_id, config_dir=tmp_path)
    (entry,) = transcript.entries
    assert [repr(each) for each in (transcript, transcript.messages, transcript.subagents["a1"], entry)] == [
        f"<Transcript {writer.session_id}: 1 messages>",
        f"<Messages: 1 of session {writer.session_id}>",
        "<Subagent a1 (None): 1 messages>",
        f"Entry(type='user', uuid='{own}', {len(entry.raw)} bytes)",
    ]


@pytest.mark.parametrize("size", [1, 700, 5_000])
def test_messages_are_the_same_however_much_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(transcript_module, "READ_BYTES", size)
    writer = Writer()
    sent = ["x" * (number % 7 * 300) + str(number) for number in range(30)]
    for text in sent:
        writer.user(text)
    messages = opened(tmp_path, writer).messages
    assert [message.text for message in messages] == sent
    assert [message.text for message in reversed(messages)] == sent[::-1]


@pytest.mark.parametrize("size", [*range(1, 24), 1 << 20])
def test_lines_are_the_same_however_much_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(entries, "CHUNK_BYTES", size)
    text = b'{"a":1}\n\n  \n [1] \n{"b":"longer"}\r\nx\n'
    lines = [(0, b'{"a":1}'), (12, b"[1]"), (18, b'{"b":"longer"}\r'), (34, b"x")]
    for end, last in ((b"", []), (b'{"half', []), (b'{"c":3}', [(36, b'{"c":3}')])):
        for start in (0, 12, 18):
            file = io.BytesIO(text + end)
            file.seek(start)
            found = [(each.offset, each.raw) for each in entries.lines_of(file, start)]
            assert found == [each for each in lines if each[0] >= start] + last


def test_files_that_tools_changed(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("go")

    def call(id: str, name: str, result: Any = None, **arguments: Any) -> None:  # noqa: A002
        writer.assistant(tool_use(id, name, **arguments))
        content = [{"type": "tool_result", "tool_use_id": id, "content": "x", "is_error": result is None}]
        writer.user(content, toolUseResult=result)

    call("1", "Write", {"type": "create"}, file_path="/a")
    call("2", "Edit", {"type": "update"}, file_path="/a")
    call("3", "Edit", None, file_path="/failed")
    call("4", "NotebookEdit", {}, notebook_path="/n")
    call("5", "Bash", {}, command="touch /b")
    call("6", "MultiEdit", {"type": "create"}, file_path="/m")
    call("7", "Write", {"type": "create"}, file_path=7)
    call("8", "Write", "no object", file_path="/a")
    writer.user([{"type": "tool_result", "tool_use_id": "1", "content": "again"}])
    writer.assistant(tool_use("9", "Write", file_path="/no-result"))
    path = writer.save(tmp_path)
    agent = Writer()
    agent.assistant(tool_use("1", "Write", file_path="/of-the-subagent"), isSidechain=True)
    agent.result("1", isSidechain=True)
    (path.with_suffix("") / "subagents").mkdir(parents=True)
    (path.with_suffix("") / "subagents" / "agent-a1.jsonl").write_text(agent.text)
    changes = opened(tmp_path, writer).files_changed
    assert [(change.path, change.changes, change.created) for change in changes] == [
        ("/a", 3, True),
        ("/n", 1, False),
        ("/m", 1, True),
        ("/of-the-subagent", 1, False),
    ]


@shows("transcripts.read.memory")
def test_reading_a_large_conversation_needs_little_memory(tmp_path: Path) -> None:
    writer = Writer()
    for number in range(300):
        writer.user(f"{number} " + "x" * 100_000)
    writer.save(tmp_path)
    writer.lines.clear()
    tracemalloc.start()
    transcript = transcripts.read(writer.session_id, config_dir=tmp_path)
    assert sum(len(message.text) for message in transcript.messages) > 30_000_000
    transcripts.fork(writer.session_id, config_dir=tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6_000_000
