"""However a host ends in the middle of a Bash call of the real CLI: no process is left, the shells of its Bash tool included."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.testing import Reply, ScriptedModel, ToolCall
from hackamore.transports.process.processes import descendants
from tests.contract import shows
from tests.support import host
from tests.support.leaks import alive, wait_gone
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import RealCLI

SECONDS_AFTER_SIGKILL = 5.0

ENDINGS = [
    "close",
    "break",
    "exception",
    "cancel",
    "gc",
    "exit",
    "hard-exit",
    "ctrl-c",
    "waiting-ctrl-c",
    "sigterm",
    "sigkill",
]
CASES = [(backend, ending) for backend in ("asyncio", "trio", "threads") for ending in ENDINGS] + [
    ("asyncio", "task-cancel")
]

# Two generations below the CLI, one of them in the background, one that ignores SIGTERM.
COMMAND = "trap '' TERM; sleep 300 & echo $$ $! > pids.part; mv pids.part pids; wait"


class Host:
    """A program in another process, with the CLI at work."""

    def __init__(self, backend: str, ending: str, options: dict[str, Any], mark: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", host.__file__, backend, ending, json.dumps(options), str(mark)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())
        return line

    def leave(self) -> tuple[int, str]:
        _, stderr = self.process.communicate("\n", timeout=patience(30))
        return self.process.returncode, stderr


@pytest.fixture
def at_work(real_cli: RealCLI) -> Iterator[tuple[ScriptedModel, dict[str, Any], Path]]:
    mark = real_cli.cwd / "pids"
    reply = Reply("Working.", ToolCall("Bash", {"command": COMMAND, "timeout": 600_000}))
    with ScriptedModel(reply) as model:
        options = {
            "cli_path": real_cli.cli_path,
            "cwd": str(real_cli.cwd),
            "env": real_cli.env(model),
            "inherit_env": False,
            "allowed_tools": ["Bash"],
        }
        yield model, options, mark


@shows("process.host-ends")
@pytest.mark.parametrize(
    ("backend", "ending", "protocol"),
    # Over the bidirectional protocol trio and asyncio end in the same lines.
    [(*case, "plain") for case in CASES] + [(*case, "steered") for case in CASES if case[0] != "trio"],
)
def test_nothing_is_left(
    backend: str, ending: str, protocol: str, at_work: tuple[ScriptedModel, dict[str, Any], Path]
) -> None:
    _, options, mark = at_work
    if protocol == "steered":
        options["title"] = "needs the bidirectional protocol"
    program = Host(backend, ending, options, mark)
    try:
        pids: dict[str, int] = json.loads(program.line())
        shells = [int(pid) for pid in mark.read_text().split()]
        below = [pid for pid, _ in descendants(pids["cli"])]
        assert set(shells) <= set(below)
        assert pids["watchdog"]
        everyone = [pids["cli"], *below]
        began = time.monotonic()
        match ending:
            case "ctrl-c" | "waiting-ctrl-c":
                assert program.line() == "ready"
                program.process.send_signal(signal.SIGINT)
            case "sigterm":
                assert program.line() == "ready"
                program.process.send_signal(signal.SIGTERM)
            case "sigkill":
                assert program.line() == "ready"
                program.process.kill()
            case "exit" | "hard-exit":
                pass
            case _:
                assert program.line() == "ended"
        if ending == "close":  # it was over before the block was left
            assert [pid for pid in everyone if alive(pid)] == []
        left = [pid for pid in everyone if not wait_gone(pid, 12)]
        took = time.monotonic() - began
        assert left == []
        # While its host lives, a child may take its grace; when the host is dead, five seconds are promised.
        assert took < patience(SECONDS_AFTER_SIGKILL if ending in {"sigkill", "sigterm", "hard-exit"} else 12)
        assert wait_gone(pids["watchdog"], 5)
        print(f"{backend} {ending}: {len(everyone)} processes gone within {took:.2f} s")
    finally:
        code, stderr = program.leave()
    expected = {"ctrl-c": -2, "waiting-ctrl-c": -2, "sigterm": -15, "sigkill": -9}.get(ending, 0)
    assert code in {expected, 130 if expected == -2 else expected, 1 if expected == -2 else expected}, stderr
    assert "Traceback" not in stderr or "KeyboardInterrupt" in stderr, stderr
    assert "ResourceWarning" not in stderr


@shows("process.forked")
@pytest.mark.parametrize("backend", ["asyncio", "threads"])
def test_a_forked_copy_of_the_host_touches_nothing(
    backend: str, at_work: tuple[ScriptedModel, dict[str, Any], Path]
) -> None:
    _, options, mark = at_work
    program = Host(backend, "fork", options, mark)
    try:
        pids: dict[str, int] = json.loads(program.line())
        assert program.line() == "forked"
        # The copy has ended, garbage collection and exit handlers included; the original's child does not care.
        assert alive(pids["cli"])
        assert all(alive(int(pid)) for pid in mark.read_text().split())
        # And the copy did not keep the watchdog's pipe open.
        program.process.kill()
        assert wait_gone(pids["cli"], SECONDS_AFTER_SIGKILL)
        assert wait_gone(pids["watchdog"], 5)
    finally:
        program.leave()
