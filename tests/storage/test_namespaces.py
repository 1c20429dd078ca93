"""Leases of programs that are killed or stopped, or run in another space of process ids, as a container does: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hackamore.pool import SQLiteRegistry
from hackamore.pool.registry import Beat
from hackamore.storage.holders import holder_name, runs
from tests.contract import shows
from tests.support.patience import patience

HOLDS = """
import sys
from hackamore.pool import SQLiteRegistry
from hackamore.storage.holders import holder_name, runs
registry, me = SQLiteRegistry(sys.argv[1]), holder_name()
assert registry.acquire("a", me).taken
print(me, runs(sys.argv[2]), sep=chr(10), flush=True)
for line in sys.stdin:
    print(len(registry.beat(me, ["a"]).lost), flush=True)
"""
CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
isolated = pytest.mark.skipif(
    not os.path.exists("/usr/bin/unshare") or subprocess.run([*CONTAINER, "true"], check=False).returncode != 0,
    reason="needs user namespaces",
)


class Program:
    """A program that holds the conversation "a"."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.holder = self.line()
        self.sees_us = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def beat(self) -> None:
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        assert self.line() == "0", "it has lost nothing"

    def kill(self) -> None:
        """Kill it, and leave it to its parent as it is."""
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def program(path: Path, *prefix: str) -> Iterator[Program]:
    command = [*prefix, sys.executable, "-c", HOLDS, str(path), holder_name()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


class Observer:
    """Another program on the file, whose clock stands."""

    def __init__(self, path: Path) -> None:
        self.now = 0.0
        self.registry = SQLiteRegistry(path, lease_seconds=15)
        self.registry.sightings.clock = lambda: self.now
        self.me = holder_name()

    def takes(self) -> bool:
        return self.registry.acquire("a", self.me).taken


@pytest.fixture
def observer(tmp_path: Path) -> Iterator[Observer]:
    observer = Observer(tmp_path / "registry.db")
    yield observer
    observer.registry.close()


@shows("pool.registry.expires")
@pytest.mark.parametrize("reaped", [True, False])
def test_a_killed_program_holds_nothing_at_the_next_look(observer: Observer, tmp_path: Path, reaped: bool) -> None:
    with program(tmp_path / "registry.db") as other:
        assert other.sees_us == "True"
        assert not observer.takes()
        other.kill()
        if reaped:
            other.process.wait(patience(30))
        assert observer.takes()
        assert observer.registry.beat(observer.me, ["a"]) == Beat()


@shows("pool.registry.stopped")
def test_a_stopped_program_holds_what_it_has_for_any_time(observer: Observer, tmp_path: Path) -> None:
    with program(tmp_path / "registry.db") as other:
        other.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, other.process.pid, os.WSTOPPED)
        for _ in range(3):
            assert not observer.takes()
            observer.now += 1e6
        other.process.send_signal(signal.SIGCONT)
        other.beat()
        other.kill()
        assert observer.takes()


@isolated
@shows("pool.registry.expires")
@pytest.mark.parametrize("own_proc", [True, False])
def test_programs_in_two_containers_are_judged_by_their_heartbeats_alone(
    observer: Observer, tmp_path: Path, own_proc: bool
) -> None:
    """Without a `/proc` of its own a container sees processes of others, under ids that mean others to it."""
    with program(tmp_path / "registry.db", *CONTAINER[: None if own_proc else -1]) as other:
        assert (other.sees_us, runs(other.holder)) == ("None", None)
        for _ in range(3):
            assert not observer.takes()
            observer.now += 14
            other.beat()
        assert not observer.takes()
        other.kill()
        observer.now += 14.9
        assert not observer.takes()
        observer.now += 0.1
        assert observer.takes()
