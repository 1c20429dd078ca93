"""The eleven functions for stores, the import and the fold, beside those of the official package on the same conversations."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat.test_beside_the_official import OFFICIAL, differences
from tests.support.patience import patience
from tests.transcripts.disk import Writer, tool_use

PROGRAM = Path(__file__).with_name("stored.py")
VARYING = "last_modified file_size mtime timestamp"


def alike(value: Any, ids: dict[str, str]) -> Any:
    """Return a value with ids by the order in which they first come, and without what differs from run to run."""
    if isinstance(value, dict):
        return {
            name: "..." if name in VARYING.split() and inner is not None else alike(inner, ids)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [alike(inner, ids) for inner in value]
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", lambda found: ids.setdefault(found[0], f"id {len(ids)}"), value)
    return value


def written(config: Path, project: Path) -> dict[str, str]:
    """Write conversations into a configuration folder; return their ids by name."""
    ids = {}
    for name in ("titled", "parallel", "subagents"):
        writer = Writer(cwd=str(project))
        ids[name] = writer.session_id
        first = writer.user(f"The prompt of {name}")
        if name == "parallel":
            one = writer.assistant(tool_use("toolu_1"), id="msg_1")
            two = writer.assistant(tool_use("toolu_2"), id="msg_1")
            writer.result("toolu_1", parent=one)
            writer.result("toolu_2", parent=two)
        writer.assistant("Answer \u00e9")
        writer.user("Another one", parent=first if name == "titled" else "(last)")
        writer.assistant("Another answer")
        if name == "titled":
            writer.note("ai-title", aiTitle="Made up")
            writer.note("tag", tag="kept")
        path = writer.save(config)
        if name == "subagents":
            for place in ("subagents/agent-a1", "subagents/workflows/run-1/agent-b2"):
                agent = Writer(session_id=writer.session_id, cwd=str(project))
                agent.user("look", isSidechain=True, agentId=place[-2:])
                agent.assistant("seen", isSidechain=True, agentId=place[-2:])
                file = path.with_suffix("") / f"{place}.jsonl"
                file.parent.mkdir(parents=True)
                file.write_text(agent.text, encoding="utf-8")
                file.with_suffix(".meta.json").write_text('{"agentType":"x","toolUseId":"toolu_9"}', encoding="utf-8")
    return ids


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="needs the official package, which `./dev test` installs")
def test_functions_for_stores_return_the_same(tmp_path: Path) -> None:
    config, project = tmp_path / "config", tmp_path / "work"
    project.mkdir()
    ids = written(config, project)
    outcomes = []
    for layer in (False, True):
        environment = {**os.environ, "PYTHONPATH": "" if layer else str(OFFICIAL)}
        command = [sys.executable, *(["-m", "hackamore.compat"] if layer else []), str(PROGRAM)]
        called = subprocess.run(
            [*command, str(config), str(project), json.dumps(ids)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(60),
        )
        assert called.returncode == 0, called.stderr
        outcomes.append(alike(json.loads(called.stdout), {each: name for name, each in ids.items()}))
    assert len(outcomes[0]) > 50
    assert differences(outcomes[1], outcomes[0]) == []
