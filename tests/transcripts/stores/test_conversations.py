"""Conversations in stores: the functions for files say the same of a copy in a store, and change it there."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio.lowlevel
import pytest
from anyio import to_thread

from hackamore import SessionNotFoundError, StoreError, Timeouts, TranscriptError, transcripts
from hackamore.transcripts import aio, stored
from hackamore.transcripts.stores import MemoryStore, StoreKey
from tests.contract import shows
from tests.support.patience import patience
from tests.transcripts.disk import Writer, some_id, tool_use

if TYPE_CHECKING:
    from tests.transcripts.stores.conftest import Make


class Talk(NamedTuple):
    """A conversation on the disk, with the folder that has it."""

    session_id: str
    config: Path
    project: Path

    def key(self) -> StoreKey:
        return {"project_key": transcripts.project_key(self.project), "session_id": self.session_id}


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Return a conversation with parallel calls, a second branch, a title, a tag, a subagent and a nested one."""
    project, config = tmp_path / "work", tmp_path / "config"
    project.mkdir()
    writer = Writer(cwd=str(project))
    first = writer.user("Read both")
    one = writer.assistant(tool_use("toolu_1", "Read", file_path="/a"), id="msg_1")
    two = writer.assistant(tool_use("toolu_2", "Write", file_path="/b", content="\u00e9 \u202e"), id="msg_1")
    writer.result("toolu_1", "ok", parent=one)
    writer.result("toolu_2", "ok", parent=two, toolUseResult={"type": "create"})
    writer.assistant("Both read")
    writer.user("Another way", parent=first)
    writer.assistant("Other answer")
    writer.note("ai-title", aiTitle="Two files")
    writer.note("tag", tag="billed")
    path = writer.save(config)
    for name, meta in (
        ("subagents/agent-a1", {"agentType": "general-purpose", "toolUseId": "toolu_1"}),
        ("subagents/workflows/run-1/agent-b2", {"agentType": "Explore", "toolUseId": "t", "parentAgentId": "a1"}),
    ):
        agent = Writer(session_id=writer.session_id, cwd=str(project))
        agent.user("look", isSidechain=True, agentId=name[-2:])
        agent.assistant(f"seen by {name}", isSidechain=True, agentId=name[-2:])
        file = path.with_suffix("") / f"{name}.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(agent.text)
        file.with_suffix(".meta.json").write_text(json.dumps(meta))
    return Talk(writer.session_id, config, project)


def facts(info: transcripts.TranscriptInfo) -> dict[str, Any]:
    """Return the facts of a list that do not depend on the place."""
    names = "session_id title title_source first_prompt cwd git_branch created tag model sidechain project_key"
    return {name: getattr(info, name) for name in names.split()}


def content(conversation: transcripts.Transcript) -> dict[str, Any]:
    """Return everything that a conversation says of itself."""
    return {
        "messages": [(type(each), each.data) for each in conversation.messages],
        "turns": [(turn.text, turn.usage, len(turn.messages)) for turn in conversation.turns],
        "branches": [(each.leaf, each.current, len(each.messages)) for each in conversation.branches],
        "entries": [each.data for each in conversation.entries],
        "usage": conversation.usage,
        "changed": conversation.files_changed,
        "subagents": [
            [each.agent_id, each.agent_type, each.tool_use_id, each.parent_agent_id, each.meta, each.usage]
            for each in conversation.subagents.values()
        ],
        "of them": [[message.data for message in each.messages] for each in conversation.subagents.values()],
    }


@shows("transcripts.stores.equal")
def test_a_copy_in_a_store_reads_as_the_file(talk: Talk, make_store: Make) -> None:
    store = make_store()
    lines = sum(file.read_text().count("\n") for file in talk.config.rglob("*.jsonl"))
    assert (
        transcripts.copy_to_store(talk.session_id, store, config_dir=talk.config) == lines + 2
    )  # the notes on subagents
    here: Any = {"project": talk.project, "store": store}
    there: Any = {"project": talk.project, "config_dir": talk.config}
    assert facts(transcripts.info(talk.session_id, **here)) == facts(transcripts.info(talk.session_id, **there))
    copy, file = (transcripts.read(talk.session_id, **place) for place in (here, there))
    assert content(copy) == content(file)
    assert facts(copy.info) == facts(file.info)
    leaf = copy.branches[1].leaf
    assert [each.data for each in transcripts.read(talk.session_id, leaf=leaf, **here).messages] == [
        each.data for each in transcripts.read(talk.session_id, leaf=leaf, **there).messages
    ]
    assert transcripts.list_subagents(talk.session_id, **here) == ["a1", "b2"]
    assert transcripts.list_subagents(talk.session_id, **there) == ["a1", "b2"]
    nested = transcripts.read_subagent(talk.session_id, "b2", **here)
    assert (nested.agent_type, nested.parent_agent_id) == ("Explore", "a1")
    assert [each.data for each in nested.messages] == [
        each.data for each in transcripts.read_subagent(talk.session_id, "b2", **there).messages
    ]
    assert (
        transcripts.export(talk.session_id, **here).partition("- modified")[0]
        == (transcripts.export(talk.session_id, **there).partition("- modified")[0])
    )
    listed, file_info = transcripts.list(talk.project, store=store)[0], transcripts.info(talk.session_id, **there)
    assert facts(listed) == facts(file_info) | {"model": listed.model}  # summaries have no model


@shows("transcripts.stores.changes")
def test_changes_in_a_store_are_listed_and_refuse_no_writer(talk: Talk, make_store: Make) -> None:
    store = make_store()
    transcripts.copy_to_store(talk.session_id, store, config_dir=talk.config)
    writer: Any = store if isinstance(store, MemoryStore) else make_store()
    entries = asyncio.run(writer.load(talk.key()))
    place: Any = {"project": talk.project, "store": store}
    transcripts.rename(talk.session_id, " Release\tnotes ", **place)
    transcripts.tag(talk.session_id, "open", **place)
    asyncio.run(writer.append(talk.key(), [{**entries[-4], "uuid": some_id(9)}]))  # it may go on
    (found,) = transcripts.list(talk.project, store=store, tag="open")
    assert (found.title, found.title_source, found.tag) == ("Release notes", "custom", "open")
    assert transcripts.list(talk.project, store=store, tag="billed") == []
    transcripts.tag(talk.session_id, None, **place)
    assert transcripts.info(talk.session_id, **place).tag is None
    transcripts.delete(talk.session_id, **place)
    assert transcripts.list(talk.project, store=store) == []
    assert transcripts.list_subagents(talk.session_id, **place) == []
    for change in (
        lambda: transcripts.rename(talk.session_id, "title", **place),
        lambda: transcripts.tag(talk.session_id, "tag", **place),
        lambda: transcripts.delete(talk.session_id, **place),
        lambda: transcripts.fork(talk.session_id, **place),
        lambda: transcripts.read(talk.session_id, **place),
        lambda: transcripts.info(talk.session_id, **place),
        lambda: transcripts.read_subagent(talk.session_id, "a1", **place),
    ):
        with pytest.raises(SessionNotFoundError, match="of the session store"):
            change()


@shows("transcripts.stores.changes")
def test_a_fork_in_a_store_is_the_fork_of_the_file(talk: Talk, make_store: Make) -> None:
    store = make_store()
    transcripts.copy_to_store(talk.session_id, store, config_dir=talk.config)
    places: list[Any] = [{"store": store, "project": talk.project}, {"config_dir": talk.config}]
    before = asyncio.run(store.load(talk.key()))
    for at, title in ((None, None), (transcripts.read(talk.session_id, **places[0]).messages[0], "First prompt")):
        forks = []
        for place in places:
            copy = transcripts.fork(talk.session_id, at=at, title=title, **place)
            conversation = transcripts.read(copy, **place)
            origins = [
                (each.type, (each.data.get("forkedFrom") or {}).get("messageUuid")) for each in conversation.entries
            ]
            messages = [each.data["message"] for each in conversation.messages]
            forks.append((transcripts.info(copy, **place).title, messages, origins))
        assert forks[0] == forks[1]
        assert forks[0][0] == title or "Two files (fork)"
    assert asyncio.run(store.load(talk.key())) == before
    with pytest.raises(TranscriptError, match="has no message"):
        transcripts.fork(talk.session_id, at=some_id(1), **places[0])


class Counting(MemoryStore):
    """Counts what is loaded; cannot load `broken`; knows no summaries if `plain`."""

    def __init__(self, *, plain: bool = False, broken: str = "") -> None:
        super().__init__()
        self.plain = plain
        self.broken = broken
        self.loaded: list[str] = []
        self.at_a_time = self.most = 0

    async def load(self, key: StoreKey) -> list[Any] | None:
        self.loaded.append(key["session_id"])
        if key["session_id"] == self.broken:
            raise ConnectionError("postgresql://agent:secret@host/db")
        self.at_a_time += 1
        self.most = max(self.most, self.at_a_time)
        await anyio.lowlevel.checkpoint()
        self.at_a_time -= 1
        return await super().load(key)

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        if self.plain:
            raise NotImplementedError
        return await super().list_session_summaries(project_key)


def filled(store: MemoryStore, count: int, project: Path) -> list[str]:
    """Add conversations, the last one the newest; return their ids, newest first."""
    ids = [some_id(number) for number in range(count)]
    for session_id in ids:
        writer = Writer(session_id=session_id, cwd=str(project))
        writer.user(f"prompt {session_id}")
        key: StoreKey = {"project_key": transcripts.project_key(project), "session_id": session_id}
        asyncio.run(store.append(key, [json.loads(line) for line in writer.lines]))
    return ids[::-1]


@shows("transcripts.stores.summaries")
def test_a_list_loads_only_conversations_without_a_current_summary(tmp_path: Path) -> None:
    store = Counting()
    ids = filled(store, 5, tmp_path)
    assert [each.session_id for each in transcripts.list(tmp_path, store=store, limit=2, offset=1)] == ids[1:3]
    assert store.loaded == []
    stale = store.list_session_summaries

    async def old(project_key: str) -> list[Any]:
        found = await stale(project_key)
        return [
            {**each, "mtime": 1} if each["session_id"] == ids[0] else each
            for each in found
            if each["session_id"] != ids[1]
        ]

    store.list_session_summaries = old  # type: ignore[method-assign]
    assert [each.title for each in transcripts.list(tmp_path, store=store, limit=3)] == [
        f"prompt {each}" for each in ids[:3]
    ]
    assert sorted(store.loaded) == sorted(ids[:2])


def test_a_list_of_a_store_without_summaries_loads_a_few_at_a_time(tmp_path: Path) -> None:
    store = Counting(plain=True)
    ids = filled(store, 40, tmp_path)
    assert [each.session_id for each in transcripts.list(tmp_path, store=store)] == ids
    assert 1 < store.most <= 16
    store.loaded.clear()
    assert [each.session_id for each in transcripts.list(tmp_path, store=store, limit=3)] == ids[:3]
    assert len(store.loaded) == 3
    times = [each.modified for each in transcripts.list(tmp_path, store=store)]
    later = transcripts.list(tmp_path, store=store, since=times[9], until=times[4])
    assert [each.session_id for each in later] == ids[5:10]


def test_a_conversation_that_cannot_be_loaded_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Counting(plain=True, broken=some_id(1))
    ids = filled(store, 3, tmp_path)
    found = transcripts.list(tmp_path, store=store)
    assert [(each.session_id, bool(each.title)) for each in found] == [(ids[0], True), (ids[1], False), (ids[2], True)]
    assert "secret" not in caplog.records[0].getMessage()
    with pytest.raises(StoreError, match=r"`load` .*ConnectionError: postgresql://agent:\.\.\.@host/db") as raised:
        transcripts.read(ids[1], project=tmp_path, store=store)
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert raised.value.session_id == ids[1]


def test_lists_leave_out_subagents_and_empty_conversations(tmp_path: Path) -> None:
    for plain in (True, False):
        store = Counting(plain=plain)
        ids = filled(store, 2, tmp_path)
        folder = transcripts.project_key(tmp_path)
        for number, entry in (
            (7, {"type": "user", "isSidechain": True, "message": {"content": "x"}}),
            (8, {"type": "x"}),
        ):
            asyncio.run(store.append({"project_key": folder, "session_id": some_id(number)}, [entry]))
        assert [each.session_id for each in transcripts.list(tmp_path, store=store, limit=2)] == ids
    with pytest.raises(ValueError, match="a store lists one project"):
        transcripts.list(all_projects=True, store=store)


ENTRIES: list[dict[str, Any]] = [
    {"type": "user", "isMeta": True, "message": {"content": "caveat"}, "timestamp": "2026-11-01T00:00:00.000Z"},
    {"type": "user", "message": {"content": "<command-name>/init</command-name>"}, "cwd": "/work"},
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]}},
    {"type": "user", "message": {"content": [{"type": "text", "text": "x" * 300}]}, "gitBranch": "main", "cwd": "/x"},
    {"type": "tag", "tag": "one"},
    {"type": "custom-title", "customTitle": "Mine"},
    {"type": "assistant", "message": {"content": []}, "gitBranch": "next", "tag": "an argument"},
    {"type": "tag", "tag": "two"},
]


@shows("transcripts.stores.summaries")
@pytest.mark.parametrize("cut", range(len(ENTRIES) + 1))
def test_a_summary_folds_entries_in_any_pieces(tmp_path: Path, cut: int) -> None:
    key: StoreKey = {"project_key": transcripts.project_key(tmp_path), "session_id": some_id(1)}
    first = transcripts.fold_summary(None, key, ENTRIES[:cut])
    kept = json.dumps(first)
    folded = transcripts.fold_summary(first, key, ENTRIES[cut:])
    assert json.dumps(first) == kept
    assert folded == transcripts.fold_summary(None, key, ENTRIES)
    assert folded["data"]["command_fallback"] == "/init"

    class Summaries:
        def append(self, key: StoreKey, entries: list[Any]) -> None:
            """Keep nothing."""

        def load(self, key: StoreKey) -> list[Any]:
            return ENTRIES

        def list_session_summaries(self, project_key: str) -> list[Any]:
            return [folded]

    (listed,) = transcripts.list(tmp_path, store=Summaries())
    loaded = transcripts.info(some_id(1), project=tmp_path, store=Summaries())
    assert facts(listed) == facts(loaded)
    assert (listed.title, listed.tag, listed.first_prompt) == ("Mine", "two", "x" * 200 + "\u2026")


class Bound:
    """An async store that belongs to the event loop that made it; it has the required methods alone."""

    def __init__(self) -> None:
        self.home = threading.get_ident()
        self.kept: dict[tuple[str, str], list[Any]] = {}

    async def append(self, key: StoreKey, entries: list[Any]) -> None:
        assert threading.get_ident() == self.home
        await anyio.lowlevel.checkpoint()
        self.kept.setdefault((key["session_id"], key.get("subpath", "")), []).extend(entries)

    async def load(self, key: StoreKey) -> list[Any] | None:
        assert threading.get_ident() == self.home
        return self.kept.get((key["session_id"], key.get("subpath", "")))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@shows("transcripts.stores.loop")
async def test_awaited_functions_call_a_store_in_the_event_loop_of_the_caller(talk: Talk) -> None:
    store = Bound()
    place: Any = {"project": talk.project, "store": store}
    await aio.copy_to_store(talk.session_id, store, config_dir=talk.config)
    await aio.rename(talk.session_id, "New", **place)
    copy = await aio.fork(talk.session_id, **place)
    assert (await aio.info(copy, **place)).title == "New (fork)"
    conversation = await aio.read(talk.session_id, **place)
    assert len([message async for message in aio.stream(conversation.messages)]) == 3
    assert await aio.list_subagents(talk.session_id, **place) == []  # a store without `list_subkeys`
    assert (await aio.read_subagent(talk.session_id, "a1", **place)).tool_use_id == "toolu_1"
    for call, method in ((aio.delete(copy, **place), "delete"), (aio.list(talk.project, store=store), "list_sessions")):
        with pytest.raises(StoreError, match=f"`{method}` .*Bound has no such method"):
            await call


class Silent:
    """A store whose `load` does not return; for the async kind before it is cancelled, for the other before `close`."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.closed = threading.Event()

    async def append(self, key: StoreKey, entries: list[Any]) -> None: ...

    def load(self, key: StoreKey) -> Any:
        return self.closed.wait(patience(30)) if self.plain else anyio.sleep_forever()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("plain", [True, False])
async def test_a_store_that_does_not_return_is_an_error(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "Timeouts", partial(Timeouts, store=0.05))
    store = Silent(plain)
    try:
        with pytest.raises(StoreError, match=r"`load`.* did not return within 0\.05 s") as raised:
            await aio.read(some_id(1), store=store)
        assert raised.value.session_id == some_id(1)
        assert raised.value.retryable
        with pytest.raises(StoreError, match=r"`load`.* did not return within 0\.05 s"):
            await to_thread.run_sync(partial(transcripts.read, some_id(1), store=store))
    finally:
        store.closed.set()


def test_blocking_functions_share_one_event_loop_for_async_stores(talk: Talk) -> None:
    names: set[str] = set()

    class Named(MemoryStore):
        async def load(self, key: StoreKey) -> list[Any] | None:
            names.add(threading.current_thread().name)
            return await super().load(key)

    store = Named()
    transcripts.copy_to_store(talk.session_id, store, config_dir=talk.config)
    subagents = transcripts.read(talk.session_id, project=talk.project, store=store).subagents
    assert [*subagents] == ["a1", "b2"]
    assert names == {"hackamore-stores"}


def test_without_a_project_a_session_is_found_in_any(
    talk: Talk, make_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    transcripts.copy_to_store(talk.session_id, store, config_dir=talk.config)
    assert transcripts.info(talk.session_id, store=store).title == "Two files"
    transcripts.tag(talk.session_id, "far", store=store)
    assert transcripts.read(talk.session_id, store=store).info.tag == "far"
    with pytest.raises(SessionNotFoundError):
        transcripts.info(talk.session_id, project=talk.config, store=store)


def test_a_copy_leaves_out_damaged_lines_and_ends_appends_at_a_size(tmp_path: Path) -> None:
    writer = Writer(cwd=str(tmp_path))
    for number in range(5):
        writer.user(str(number))
    writer.lines.insert(2, '{"type":"user", half')
    writer.save(tmp_path / "config")
    sizes: list[int] = []

    class Sizes(MemoryStore):
        async def append(self, key: StoreKey, entries: list[Any]) -> None:
            sizes.append(len(entries))
            await super().append(key, entries)

    store = Sizes()
    copy: Callable[..., int] = transcripts.copy_to_store
    assert copy(writer.session_id, store, batch_size=2, config_dir=tmp_path / "config") == 5
    assert sizes == [2, 2, 1]
    assert copy(writer.session_id, store, config_dir=tmp_path / "config") == 5  # the ids are known: nothing is doubled
    (kept,) = store.transcripts().values()
    assert len(kept) == 5
    with pytest.raises(SessionNotFoundError):
        copy(some_id(3), store, config_dir=tmp_path / "config")


def test_half_a_character_in_a_store_reads_as_in_a_file(tmp_path: Path) -> None:
    writer = Writer(cwd=str(tmp_path))
    writer.user("whole")
    entry = json.loads(writer.lines[0]) | {"uuid": some_id(1), "parentUuid": writer.last}
    entry["message"] = {"role": "user", "content": "half \ud83d"}
    writer.lines.append(json.dumps(entry, separators=(",", ":")))
    writer.save(tmp_path / "config")

    class Halves(Counting):
        async def load(self, key: StoreKey) -> list[Any] | None:
            return [json.loads(line) for line in writer.lines]

    key: StoreKey = {"project_key": transcripts.project_key(tmp_path), "session_id": writer.session_id}
    file = transcripts.read(writer.session_id, config_dir=tmp_path / "config")
    copy = transcripts.read(writer.session_id, project=tmp_path, store=Halves())
    assert [each.raw for each in copy.messages] == [each.raw for each in file.messages]
    assert transcripts.fold_summary(None, key, [entry])["session_id"] == writer.session_id


def test_the_times_of_a_conversation_in_a_store_are_those_of_its_entries(talk: Talk) -> None:
    store = MemoryStore()
    transcripts.copy_to_store(talk.session_id, store, config_dir=talk.config)
    info = transcripts.info(talk.session_id, project=talk.project, store=store)
    assert info.created == datetime.fromtimestamp(1_793_491_201, UTC)
    assert info.modified - info.created == timedelta(seconds=7)
    assert str(info.path) == f"{transcripts.project_key(talk.project)}/{talk.session_id}.jsonl"
