"""The names of the official package in docs/guides/migrate.md: each is there, and each counterpart runs as it is written."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import messages, transcripts
from hackamore.transcripts import stores
from tests.conftest import PROJECT
from tests.transcripts.disk import Writer

if TYPE_CHECKING:
    from pathlib import Path

NAMES = (
    "list_sessions",
    "get_session_info",
    "get_session_messages",
    "list_subagents",
    "get_subagent_messages",
    "SDKSessionInfo",
    "SessionMessage",
    "SessionKey",
    "SessionStore",
    "SessionStoreEntry",
    "SessionStoreFlushMode",
    "SessionStoreListEntry",
    "SessionSummaryEntry",
    "SessionListSubkeysKey",
    "InMemorySessionStore",
    "fold_session_summary",
    "MirrorErrorMessage",
    "project_key_for_directory",
    "import_session_to_store",
    "list_sessions_from_store",
    "get_session_info_from_store",
    "get_session_messages_from_store",
    "list_subagents_from_store",
    "get_subagent_messages_from_store",
    "rename_session",
    "tag_session",
    "delete_session",
    "fork_session",
    "ForkSessionResult",
    "rename_session_via_store",
    "tag_session_via_store",
    "delete_session_via_store",
    "fork_session_via_store",
)
_SPAN = re.compile(r"`([^`]+)`")


def table(heading: str) -> list[tuple[str, str]]:
    page = (PROJECT / "docs" / "guides" / "migrate.md").read_text(encoding="utf-8")
    part = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [each.strip("| ").split(" | ") for each in part.splitlines() if each.startswith("| `")]
    return [(official, here) for official, here in rows]


DISK, STORES = table("Conversations on the disk"), table("Conversations in stores")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names that the counterparts use, with a conversation with a subagent on the disk."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    writer = Writer(cwd=str(tmp_path))
    first = writer.user("one")
    writer.assistant("first")
    path = writer.save(tmp_path / "config")
    agent = Writer(session_id=writer.session_id)
    agent.user("look", isSidechain=True, agentId="a1")
    (path.with_suffix("") / "subagents").mkdir(parents=True)
    (path.with_suffix("") / "subagents" / "agent-a1.jsonl").write_text(agent.text)
    own = {name: getattr(transcripts, name) for name in transcripts.__all__}
    own |= {name: getattr(stores, name) for name in stores.__all__}
    own |= {"Any": Any, "Options": hackamore.Options, "UserMessage": hackamore.UserMessage}
    own |= {"AssistantMessage": hackamore.AssistantMessage, "MirrorErrorMessage": messages.MirrorErrorMessage}
    key = {"project_key": transcripts.project_key(tmp_path), "session_id": writer.session_id}
    given = {"directory": tmp_path, "session_id": writer.session_id, "agent_id": "a1", "uuid": first}
    return (
        own
        | given
        | {"key": key, "store": stores.MemoryStore(), "title": "Title", "tag": transcripts.tag, "path": path}
    )


async def run(code: str, names: dict[str, Any]) -> Any:
    value = eval(compile(code, "migrate.md", "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    return await value if inspect.isawaitable(value) else value


def test_every_name_has_a_line() -> None:
    named = [
        name for official, _ in (*DISK, *STORES) for span in _SPAN.findall(official) for name in [span.split("(")[0]]
    ]
    assert {*NAMES} <= {*named}
    assert len([*DISK, *STORES]) >= len(NAMES) - 1


def test_counterparts_on_the_disk_run(place: dict[str, Any]) -> None:
    found = {}
    for official, here in DISK:
        found[_SPAN.findall(official)[0]] = asyncio.run(run(_SPAN.findall(here)[0], place))
    assert [each.session_id for each in found["list_sessions()"]] == [place["session_id"]]
    assert found["get_session_info(session_id)"].title == "one"
    assert [*found["list_subagents(session_id)"]] == ["a1"]
    assert not place["path"].exists()
    info = found["get_session_info(session_id)"]
    (row,) = [pair for pair in DISK if pair[0].startswith("`SDKSessionInfo")]
    assert all(hasattr(info, name) for name in _SPAN.findall(row[1])[1:])


def test_counterparts_in_stores_run(place: dict[str, Any]) -> None:
    found: dict[str, Any] = {}
    for official, here in STORES:
        found[_SPAN.findall(official)[0].split("(")[0]] = asyncio.run(run(_SPAN.findall(here)[0], place))
        if official.startswith("`tag_session_via_store"):
            info = transcripts.info(place["session_id"], project=place["directory"], store=place["store"])
            assert (info.title, info.tag) == ("Title", "billed")
            entries = asyncio.run(place["store"].load(place["key"]))
            original = [json.loads(each) for each in place["path"].read_bytes().splitlines()]
            assert entries[: len(original)] == original
    assert [each.session_id for each in found["list_sessions_from_store"]] == [place["session_id"]]
    assert found["get_session_info_from_store"].title == "one"
    assert len(found["get_session_messages_from_store"]) == 2
    assert found["list_subagents_from_store"] == ["a1"]
    assert len(found["get_subagent_messages_from_store"]) == 1
    assert found["fork_session_via_store"] != place["session_id"]
    assert asyncio.run(place["store"].load(place["key"])) is None
