"""The same programs on the layer and on the official package, with the real CLI and the scripted model: equal output."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.testing import HTTPFailure, Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.conftest import RealCLI

PROGRAM = Path(__file__).with_name("programs.py")
OFFICIAL = PROGRAM.parents[2] / ".dev" / "official"
BASH = {"command": "echo hello", "description": "test"}
REMOVE = {"command": "rm -r build", "description": "test"}

SCENARIOS: dict[str, list[Any]] = {
    "text": ["4."],
    "partial": ["4."],
    "streamed": ["One."],
    "hooked": [Reply(ToolCall("Bash", BASH)), Reply(ToolCall("Bash", REMOVE)), "Done."],
    "served": [Reply(ToolCall("mcp__maths__add", {"a": 2, "b": 3})), "5."],
    "conversation": ["One.", "Two."],
    "failed": [Repeat(HTTPFailure(400))],
    "unknown": [],
}
# Differ from run to run: ids, times, costs of time, and the folder of the run.
VARYING = (
    "uuid session_id message_id id tool_use_id duration_ms duration_api_ms ttft_ms timestamp user_message_uuid "
    "user_message_uuids request_id cwd parent_tool_use_id memory_paths ttft_stream_ms time_to_request_ms "
    "claude_code_version fast_mode_state"
)


def alike(value: Any) -> Any:
    """Return a value without what differs from run to run."""
    if isinstance(value, dict):
        varying = VARYING.split()
        return {name: "..." if name in varying and inner is not None else alike(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [alike(inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"/tmp/\S+", "/tmp/...", re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", value))
    return value


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return the places at which two values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = ours.keys() | theirs.keys()
        return [
            text for name in sorted(names) for text in differences(ours.get(name), theirs.get(name), f"{path}.{name}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [text for number, pair in pairs for text in differences(*pair, f"{path}[{number}]")]
    return [] if ours == theirs else [f"{path}: {ours!r} instead of {theirs!r}"]


def shown(real_cli: RealCLI, scenario: str, *, layer: bool, program: Path = PROGRAM) -> list[Any]:
    with ScriptedModel(*SCENARIOS[scenario]) as model:
        home = real_cli.directory / ("migrated" if program is not PROGRAM else "layer" if layer else "official")
        home.mkdir()
        environment = {"PATH": os.defpath, **real_cli.env(model), "PYTHONPATH": "" if layer else str(OFFICIAL)}
        environment["HOME"] = environment["CLAUDE_CONFIG_DIR"] = str(home)
        way = ["-m", "hackamore.compat"] if layer and program is PROGRAM else []
        command = [sys.executable, *way, str(program), scenario]
        called = subprocess.run(
            [*command, real_cli.cli_path, str(real_cli.cwd)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(60),
        )
    assert called.returncode == 0, called.stderr
    # A callback and the reader of messages are two tasks: each has its own order, and between them there is none on a busy machine.
    return sorted(
        (alike(json.loads(line)) for line in called.stdout.splitlines()),
        key=lambda row: row[0] in ("hook", "permission"),
    )


@shows("compat.programs.alike")
@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="needs the official package, which `./dev bench` installs")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_show_the_same(real_cli: RealCLI, scenario: str) -> None:
    official = shown(real_cli, scenario, layer=False)
    assert official
    for ours, theirs in zip(shown(real_cli, scenario, layer=True), official, strict=True):
        assert differences(ours, theirs) == []
