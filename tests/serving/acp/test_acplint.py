"""`acplint` (PyPI): a judge of agents by another author, against `hackamore acp` with the real CLI and a scripted model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.testing.model.steps import Thinking
from tests.conftest import RealCLI
from tests.support.patience import patience

pytestmark = pytest.mark.timeout(240)

HERE = Path(__file__).parent
EXPECTED = {
    "agent_message_chunk_received": "acplint counts `agentMessageChunk`, and its own schema names the updates `agent_message_chunk`",
}
"""The checks that fail, with the reason of each."""


def test_no_check_fails_that_an_agent_can_pass(real_cli: RealCLI) -> None:
    todo = {"todos": [{"content": "read", "status": "pending", "activeForm": "reading"}]}
    write = ToolCall("Write", {"file_path": str(real_cli.cwd / "a.txt"), "content": "test"})
    replies = [Reply(Thinking("Let me see."), "Hello.", write), Reply(ToolCall("TodoWrite", todo))]
    with ScriptedModel(*replies, Repeat(Reply(Thinking("Well."), "Hello."))) as model:
        report = real_cli.directory / "report.json"
        command = [str(Path(sys.executable).with_name("acplint")), "--agent", sys.executable]
        command += ["--agent-args", str(HERE / "acplint_agent.py"), "--cwd", str(real_cli.cwd), "--output", "json"]
        command += ["--output-file", str(report)]
        env = real_cli.env(model) | {"HACKAMORE_CLI_PATH": real_cli.cli_path}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=patience(200), check=False)
    checks = json.loads(report.read_text())["results"]
    failed = {each["name"]: each["message"] for each in checks if each["status"] not in ("PASS", "SKIP")}
    assert failed.keys() == EXPECTED.keys(), failed
    assert len(checks) > 40
    assert done.returncode == 0  # full conformance
