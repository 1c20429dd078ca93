"""Sessions that the real CLI wrote are read as they happened, and as the official package reads them.

Differences from the official package 0.2.184 to 0.2.187, all deliberate:

- The key of a directory: a character outside the basic plane becomes two dashes, as the CLI does it (`ODD` below). The official package
  makes one, and does not find such a project.
- Fields inside of tool calls and results never count as fields of the session (test_listing.py).
- Parallel tool calls of subagents are put back (test_transcript.py); there they are missing.
- A missing session is an error, and a session without a title can be read by its id.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from bridle import AssistantMessage, ToolResultBlock, ToolUseBlock, transcripts
from tests.conftest import PROJECT, pinned_cli_path
from tests.contract import shows
from tests.support.patience import patience
from tests.transcripts.written import LONG, ODD, Written, write_all

if TYPE_CHECKING:
    from bridle.transcripts import Transcript

B = TypeVar("B", ToolUseBlock, ToolResultBlock)

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(600)]

PIN = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))
VERSIONS = [str(PIN["version"]), "2.1.328"]
OFFICIAL = PROJECT / ".dev" / "bench" / "bin" / "python"


@pytest.fixture(scope="module", params=VERSIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    version = str(request.param)
    path = pinned_cli_path() if version == PIN["version"] else PROJECT / ".dev" / "claude" / version / "claude"
    if not os.access(path, os.X_OK):
        pytest.skip(f"Claude Code CLI {version} is not at {path}; `python scripts/install_older.py` installs it")
    # Processes of one run share what one of them writes.
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    with (root / f"written-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = root / f"written-{version}.json"
        if not note.exists():
            folder = Path(tempfile.mkdtemp(dir=root))
            note.write_text(json.dumps([str(folder), write_all(str(path), folder).ids]))
        place, ids = json.loads(note.read_text())
    return Written(Path(place) / "claude-config", Path(place) / "work", ids)


def opened(written: Written, kind: str) -> Transcript:
    return transcripts.read(written.ids[kind], config_dir=written.config)


def blocks(transcript: Transcript, kind: type[B]) -> list[B]:
    contents = (message.content for message in transcript.messages)
    return [
        block for content in contents if not isinstance(content, str) for block in content if isinstance(block, kind)
    ]


def texts(transcript: Transcript) -> list[str]:
    return [message.text for message in transcript.messages if message.text]


def test_conversations_are_read_as_they_happened(written: Written) -> None:
    tools = opened(written, "tools")
    assert texts(tools) == ["Say hi", "Said hi.", "Say both", "Both done.", "And \u00e9?", "More.", "Resumed", "More."]
    assert [len(turn.messages) for turn in tools.turns] == [4, 6, 2, 2]
    assert {block.text for block in blocks(tools, ToolResultBlock)} == {"hi", "one", "two"}
    assert texts(opened(written, "fork"))[-2:] == ["A fork", "More."]
    assert texts(opened(written, "fork"))[:6] == texts(tools)[:6]
    compacted = opened(written, "compaction")
    assert texts(compacted)[-2:] == ["Three", "Fine."]
    assert [branch.compacted for branch in compacted.branches] == [False, True]
    assert [message.text for message in compacted.branches[1].messages] == ["One", "Fine.", "Two", "Fine."]
    # The CLI keeps the beginning of an interrupted reply, if it came before the interrupt.
    interrupted = [text for text in texts(opened(written, "interrupt")) if not "Partly answered.".startswith(text)]
    assert interrupted[:3] == ["Before", "First.", "Interrupted"]
    assert interrupted[3:] == ["[Request interrupted by user]", "Afterwards", "After."]
    (agent,) = opened(written, "subagent").subagents.values()
    assert agent.agent_type == "general-purpose"
    assert [message.text for message in agent.messages if message.text] == ["Look around.", "Seen."]
    assert [call.id for call in blocks(opened(written, "subagent"), ToolUseBlock)] == [agent.tool_use_id]
    last = opened(written, "background").turns[-1].prompt
    assert last is not None
    assert last.origin is not None
    assert last.origin.kind == "task-notification"
    for message in tools.messages:
        assert message.session_id == tools.session_id
        assert message.uuid
        assert not isinstance(message, AssistantMessage) or message.usage is not None


@shows("transcripts.read.places")
def test_lists_show_what_the_cli_wrote(written: Written) -> None:
    every = {each.session_id: each for each in transcripts.list(all_projects=True, config_dir=written.config)}
    assert every.keys() == set(written.ids.values())
    renamed = every[written.ids["rename"]]
    assert (renamed.title, renamed.title_source) == ('A "title" \u00e9', "custom")
    odd, long = written.work.parent / ODD, written.work.parent / LONG
    for kind, directory in (("odd", odd), ("long", long)):
        (found,) = transcripts.list(directory, config_dir=written.config)
        assert (found.session_id, found.cwd) == (written.ids[kind], str(directory))
        assert found.project_key == transcripts.project_key(directory)
    both = {written.ids["repository"], written.ids["worktree"]}
    for name in ("repository", "work tree"):
        assert {
            each.session_id for each in transcripts.list(written.work.parent / name, config_dir=written.config)
        } == both
    (alone,) = transcripts.list(written.work.parent / "work tree", include_worktrees=False, config_dir=written.config)
    assert (alone.session_id, alone.git_branch) == (written.ids["worktree"], "side")


def test_usage_is_that_of_the_cli(written: Written) -> None:
    report = transcripts.usage("session", config_dir=written.config)
    rows = {row.key: row for row in report.rows}
    # Each reply of the scripted model has 10 and 5 tokens. The fork added one, and the compaction left none.
    replies = {"tools": 6, "fork": 1, "subagent": 4, "background": 3, "compaction": 3, "rename": 1}
    assert {kind: rows[written.ids[kind]].tokens.replies for kind in replies} == replies
    assert all(rows[written.ids[kind]].tokens.total == 15 * count for kind, count in replies.items())
    assert report.unpriced == {}
    entries = opened(written, "tools").entries
    recorded = [entry.data["totalCostUSD"] for entry in entries if entry.type == "cost-state"]
    assert rows[written.ids["tools"]].cost == pytest.approx(recorded[-1])


def test_a_search_finds_all_kinds(written: Written, tmp_path: Path) -> None:
    def found(text: str, **more: Any) -> set[str]:
        hits = transcripts.search(text, config_dir=written.config, cache_dir=tmp_path, **more)
        return {hit.session_id for hit in hits}

    assert written.ids["tools"] in found('"echo hi"', tool="Bash") | found("Resumed")
    assert found("Resumed") == {written.ids["tools"]}
    assert found("delegate", role="user") == {written.ids["subagent"]}
    assert found("look around", role="user") == {written.ids["subagent"]}
    assert found("worktree", role="user") == {written.ids["worktree"]}


def facts(each: transcripts.TranscriptInfo) -> dict[str, Any]:
    titled = each.title_source in ("custom", "ai")
    return {
        "session_id": each.session_id,
        "summary": each.title,
        "last_modified": int(each.path.stat().st_mtime * 1000),
        "file_size": each.bytes,
        "custom_title": each.title if titled else None,
        "first_prompt": each.first_prompt,
        "git_branch": each.git_branch,
        "cwd": each.cwd,
        "tag": each.tag,
        "created_at": int(each.created.timestamp() * 1000) if each.created is not None else None,
    }


def test_everything_is_read_as_by_the_official_package(written: Written) -> None:
    folder = written.work.parent
    odd = str(folder / ODD)
    directories = [str(folder / name) for name in ("work", "repository", "work tree", LONG, ODD, "none")]
    script = str(PROJECT / "tests" / "transcripts" / "official.py")
    done = subprocess.run(
        [str(OFFICIAL), script, str(written.config), *directories],
        capture_output=True,
        text=True,
        check=True,
        timeout=patience(60),
    )
    theirs = json.loads(done.stdout)

    def ours(*project: str, **options: Any) -> list[dict[str, Any]]:
        return [facts(each) for each in transcripts.list(*project, config_dir=written.config, **options)]

    assert ours(all_projects=True) == theirs["all"]
    assert ours(all_projects=True, limit=3, offset=2) == theirs["page"]
    for directory in directories:
        if directory == odd:
            assert len(ours(directory)) == 1
            assert theirs["directories"][directory] == []
            continue
        assert ours(directory) == theirs["directories"][directory]
        assert ours(directory, include_worktrees=False) == theirs["alone"][directory]
        assert transcripts.project_key(directory) == theirs["keys"][directory]
    for session_id in written.ids.values():
        info = transcripts.info(session_id, config_dir=written.config)
        assert facts(info) == theirs["info"][session_id]
        transcript = transcripts.read(session_id, config_dir=written.config)
        pairs = [(transcript.messages, theirs["messages"][session_id])]
        assert list(transcript.subagents) == list(theirs["subagents"][session_id])
        pairs += [
            (each.messages, theirs["subagents"][session_id][agent_id])
            for agent_id, each in transcript.subagents.items()
        ]
        for mine, other in pairs:
            read = [
                {
                    "type": message.type,
                    "uuid": message.uuid,
                    "session_id": message.session_id,
                    "message": message.data["message"],
                    "parent_tool_use_id": message.parent_tool_use_id,
                    "parent_agent_id": None,
                }
                for message in mine
            ]
            assert read == other


if not OFFICIAL.exists():
    # `./dev bench --quick` makes that interpreter. Where it is missing the test does not exist: CI takes a skipped test for a failure.
    del test_everything_is_read_as_by_the_official_package
