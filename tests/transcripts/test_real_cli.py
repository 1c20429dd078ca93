"""Sessions that the real CLI wrote are read as they happened, and as the official package reads them.

`compared.py` lists the differences from the official package. All are deliberate.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from hackamore import AssistantMessage, ToolResultBlock, ToolUseBlock, transcripts
from tests.conftest import PROJECT
from tests.contract import shows
from tests.support.patience import patience
from tests.transcripts.calls import results
from tests.transcripts.compared import DIFFERENCES, Hackamore, difference
from tests.transcripts.versions import VERSIONS, program
from tests.transcripts.written import LONG, ODD, Written, write_all

if TYPE_CHECKING:
    from hackamore.transcripts import Transcript

B = TypeVar("B", ToolUseBlock, ToolResultBlock)

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(600)]

(OFFICIAL_PIN,) = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["bench"]
OFFICIAL = PROJECT / ".dev" / "official"
TABLE = "| function | official package | Hackamore | reason |"


@pytest.fixture(scope="module", params=VERSIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    version = str(request.param)
    path = program(version)
    # Processes of one run share what one of them writes.
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    with (root / f"written-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = root / f"written-{version}.json"
        if not note.exists():
            folder = Path(tempfile.mkdtemp(dir=root))
            note.write_text(json.dumps([str(folder), write_all(path, folder).ids]))
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
    replies = {"tools": 6, "fork": 1, "subagent": 4, "fields": 2, "background": 3, "compaction": 3, "rename": 1}
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


@pytest.mark.skipif(not OFFICIAL.exists(), reason="`./dev test` installs the official package into .dev/official")
def test_every_call_does_as_that_of_the_official_package(written: Written, tmp_path: Path) -> None:
    folder = written.work.parent
    names = {"odd": ODD, "long": LONG, "long sibling": f"{LONG} 2"}
    names |= {name: name for name in ("work", "repository", "work tree", "none")}
    directories = {kind: str(folder / name) for kind, name in names.items()}
    for name in ("official", "hackamore"):
        shutil.copytree(written.config, tmp_path / name, symlinks=True)
    script = PROJECT / "tests" / "transcripts" / "official.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "official"), json.dumps(directories), json.dumps(written.ids)],
        env={"PATH": os.defpath, "PYTHONPATH": str(OFFICIAL)},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(60),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert f"claude-agent-sdk=={found['version']}" == OFFICIAL_PIN
    theirs = found["results"]
    ours = json.loads(
        json.dumps(results(Hackamore(tmp_path / "hackamore"), tmp_path / "hackamore", directories, written.ids))
    )
    assert theirs.keys() == ours.keys()
    assert len(theirs) > 150
    different = {call: difference(call, theirs[call], ours[call]) for call in theirs if theirs[call] != ours[call]}
    unexplained = [call for call, row in different.items() if row is None]
    assert not unexplained, {call: (theirs[call], ours[call]) for call in unexplained[:3]}
    assert {*different.values()} == {*DIFFERENCES}
    rows = (PROJECT / "docs" / "guides" / "old-conversations.md").read_text(encoding="utf-8").splitlines()
    assert [f"| {' | '.join(each.row)} |" for each in DIFFERENCES] == rows[rows.index(TABLE) + 2 :][: len(DIFFERENCES)]
