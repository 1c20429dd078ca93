"""The command as a process of its own, in an environment of its own."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hackamore.transports.process.processes import Identity, descendants, identity
from tests.support.leaks import command_line, wait_gone
from tests.support.patience import patience

COMMAND = (sys.executable, "-m", "hackamore.cli")
SECONDS = 30.0


@dataclass(frozen=True)
class Ran:
    """How the command ended.

    Attributes:
        code: its exit code.
        out: what it wrote to standard output, or to the terminal.
        err: what it wrote to standard error; empty with a terminal.
    """

    code: int
    out: bytes
    err: bytes = b""

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def errors(self) -> str:
        return self.err.decode()


class Command:
    """Runs `hackamore` with a stand-in CLI or a real one."""

    def __init__(self, folder: Path, cli_path: str) -> None:
        self.cli_path = cli_path
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
        }
        (folder / "home").mkdir(exist_ok=True)

    def arguments(self, *arguments: str) -> list[str]:
        given = list(arguments)
        if given and given[0] in ("run", "chat", "doctor", "demo") and "--cli-path" not in given and self.cli_path:
            given[1:1] = ["--cli-path", self.cli_path]
        return [*COMMAND, *given]

    def plays(self, *steps: list[Any]) -> Command:
        """Let the stand-in play these steps."""
        self.environment["STAND_IN_STEPS"] = json.dumps(steps)
        return self

    def __call__(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, **more: Any) -> Ran:
        done = subprocess.run(
            self.arguments(*arguments),
            env={**self.environment, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=patience(SECONDS),
            check=False,
            **more,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start it with pipes; the caller ends it."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.arguments(*arguments), env=self.environment, **{**streams, **more})

    def on_terminal(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run it on a terminal of its own; `out` is every byte that reached the terminal."""
        leader, follower = pty.openpty()
        try:
            process = self.start_on(follower, *arguments, env=env)
        finally:
            os.close(follower)
        try:
            out = read_all(leader)
            return Ran(process.wait(patience(SECONDS)), out)
        finally:
            os.close(leader)
            if process.poll() is None:
                process.kill()
                process.wait()

    def start_on(
        self, descriptor: int, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.arguments(*arguments),
            env={**self.environment, "TERM": "xterm-256color", **(env or {})},
            stdin=descriptor,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )


def read_all(descriptor: int) -> bytes:
    """Read a terminal until nobody has it open any more."""
    until = time.monotonic() + patience(SECONDS)
    data = b""
    while time.monotonic() < until:
        if select.select([descriptor], [], [], 0.5)[0]:
            try:
                piece = os.read(descriptor, 65536)
            except OSError:
                return data
            if not piece:
                return data
            data += piece
    raise AssertionError(f"the terminal stayed open; so far: {data!r}")


def read_until(process: subprocess.Popen[bytes], wanted: bytes) -> bytes:
    """Read standard output until `wanted` was in it."""
    assert process.stdout is not None
    until = time.monotonic() + patience(SECONDS)
    data = b""
    while wanted not in data:
        assert select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0], data
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, data
        data += piece
    return data


def children_of(process: subprocess.Popen[bytes]) -> dict[int, Identity]:
    """Return the processes below the command: the CLI, its tools, the watchdog."""
    return {who[0]: who for who in descendants(process.pid)}


def left_of(processes: dict[int, Identity]) -> list[str]:
    """Wait until they are gone; return the command lines of those that are not. A number may be another process by now."""
    until = time.monotonic() + SECONDS / 2
    left = [who for who in processes.values() if identity(who[0]) == who]
    while left and time.monotonic() < until:
        wait_gone(left[0][0], 0.2)
        left = [who for who in left if identity(who[0]) == who]
    return [command_line(who[0]) for who in left]
