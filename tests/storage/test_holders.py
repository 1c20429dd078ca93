"""Names and start times of processes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridle.storage.holders import (
    describe,
    holder_name,
    identity_in,
    is_running,
    process_domain,
    process_name,
    runs,
    start_time,
)
from bridle.storage.leases import Sightings
from tests.support.patience import patience


@contextmanager
def no_free_descriptors() -> Iterator[None]:
    """Let no file be opened inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_space_of_process_ids_has_the_name_that_the_cli_writes(tmp_path: Path) -> None:
    namespace = os.readlink("/proc/self/ns/pid")
    (tmp_path / "machine-id").write_text("abc\n")
    assert process_domain(str(tmp_path / "machine-id")) == f"linux:abc:{namespace}"
    # Seen with CLI 2.1.330 in a container without this file.
    assert process_domain(str(tmp_path / "missing")) == f"linux::{namespace}"


def test_a_process_runs_if_its_start_time_fits() -> None:
    own = os.getpid()
    assert is_running(own, start_time(own))
    assert is_running(own, None)
    assert not is_running(own, "1")
    assert not is_running(0, None)
    assert not is_running(2**22 + 7, None)


def test_a_name_tells_whether_its_process_runs() -> None:
    mine = holder_name()
    assert mine != holder_name()
    machine, started_machine, space, pid, started, _ = mine.split("|")
    assert identity_in(mine) == (os.getpid(), start_time(os.getpid())) == (int(pid), started)
    assert runs("|".join((machine, started_machine, space, pid, "1"))) is False  # another one has its id now
    assert runs("|".join((machine, started_machine, space, str(2**22 + 7), started))) is False
    assert runs("|".join((machine, started_machine, space, pid, ""))) is True
    assert runs("|".join((machine, started_machine, "another", pid, started))) is None  # a container
    assert runs("|".join(("another", "boot", space, pid, started))) is None
    assert runs("|".join((machine, "before", space, pid, started))) is (False if machine else None)
    for odd in ("", "nothing", "a|b|c|x|1", "a|b|c|1"):
        assert runs(odd) is None
        assert describe(odd) == repr(odd)
        assert identity_in(odd) == (0, "")
    assert describe(mine) == f"process {pid}"
    assert describe("there|boot|space|7|1|abc") == "process 7 of there"
    assert describe("|boot|space|7|1|abc") == "process 7 of another machine"


def test_a_process_that_was_not_waited_for_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "pass"]) as child:
        started = start_time(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_running(child.pid, started) is False
        assert start_time(child.pid) is None


def test_a_process_of_another_user_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(_: int, __: int) -> None:
        raise PermissionError

    own, started = os.getpid(), start_time(os.getpid())
    monkeypatch.setattr(os, "kill", kill)
    assert is_running(own, None) is True
    assert is_running(own, started) is True
    assert is_running(own, "1") is False
    assert is_running(2**22 + 7, "1") is None  # it is there, and `/proc` does not show it
    with no_free_descriptors():
        assert is_running(own, started) is None


def test_without_free_descriptors_nobody_is_taken_for_gone() -> None:
    """A program that takes others for gone would run their conversations and tasks a second time."""
    own, mine = os.getpid(), holder_name()
    started = start_time(own)
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = process_name(child.pid)
        other = start_time(child.pid)
        now = 0.0
        sightings = Sightings()
        sightings.clock = lambda: now
        with no_free_descriptors():
            found = is_running(own, started), is_running(own, "1"), is_running(child.pid, other)
            known = is_running(own, None), is_running(2**22 + 7, "1"), is_running(0, None)
            holders = runs(mine), runs(name)
            gone = [sightings.is_gone(name, None, 15.0), sightings.is_gone(name, 1, 15.0)]
            now = 3600.0  # it may be stopped, and send nothing
            gone.append(sightings.is_gone(name, 1, 15.0))
        assert found == (True, True, True)  # the start time cannot be compared now
        assert known == (True, False, False)  # a signal needs no descriptor
        assert holders == (True, True)
        assert gone == [False, False, False]
        child.communicate(b"\n", patience(30))
        with no_free_descriptors():
            assert runs(name) is False
    assert runs(mine) is True
