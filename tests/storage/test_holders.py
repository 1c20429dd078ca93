"""Names and start times of processes."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hackamore.storage.holders import (
    boot,
    describe,
    holder_name,
    identity_in,
    is_running,
    process_domain,
    process_name,
    runs,
    start_time,
)
from hackamore.storage.leases import Sightings
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
    (tmp_path / "machine-id").write_bytes(b"a\xffc\n")
    assert process_domain(str(tmp_path / "machine-id")) == f"linux:a\ufffdc:{namespace}"
    # Seen with CLI 2.1.330 in a container without this file.
    assert process_domain(str(tmp_path / "missing")) == f"linux::{namespace}"


def test_a_process_runs_if_its_start_time_fits() -> None:
    own = os.getpid()
    assert is_running(own, start_time(own))
    assert is_running(own, None)
    assert not is_running(own, "1")
    assert is_running(1, None)
    for none in (0, -1, -own, 2**22 + 7, 2**70):  # a signal to a number below zero goes to many processes
        assert is_running(none, None) is False


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


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Return what changes the surroundings of this process: it takes notice, as after a fork, when its id is another one."""
    yield monkeypatch
    monkeypatch.setattr(os, "getpid", lambda: -1)
    boot()


@pytest.mark.parametrize("machine", ["", "0123abcd\n"])
@pytest.mark.parametrize("hidden", ["", "/proc/sys/kernel/random/boot_id"])
def test_what_a_machine_tells_of_itself(elsewhere: pytest.MonkeyPatch, machine: str, hidden: str) -> None:
    pid, real = os.getpid(), open

    def opened(path: str, *values: Any, **more: Any) -> Any:
        if path == hidden:
            raise FileNotFoundError(path)
        return io.StringIO(machine) if path == "/etc/machine-id" else real(path, *values, **more)

    elsewhere.setattr("builtins.open", opened)
    elsewhere.setattr(os, "getpid", lambda: -2)
    hidden_away = process_name(pid)
    assert (boot(), hidden_away.split("|")[1:3]) == ("", ["", ""])  # `/proc` shows another space of process ids
    assert runs(hidden_away) is None
    assert boot() == ""
    elsewhere.setattr(os, "getpid", lambda: pid)
    assert bool(boot()) is not bool(hidden)
    mine = process_name(pid)
    name, started, space, *rest = mine.split("|")
    assert name == (f"{machine.strip()}@{os.uname().nodename}" if machine else "")
    assert boot() == started
    assert runs(hidden_away) is None
    assert runs(mine) is (None if hidden else True)
    assert (started, space) == ("", "") if hidden else (space.count("["), bool(started)) == (2, True)
    before = "|".join((name, "before", space, *rest))
    assert runs(before) is (False if machine and not hidden else None)
    assert describe(before).startswith(f"process {pid} of {name or 'another machine'}")
    assert runs("|".join((name, "", space, *rest))) is None


@pytest.mark.skipif(not os.path.exists("/bin/ps"), reason="needs ps")
@pytest.mark.parametrize(("node", "space"), [(0x0242AC110002, "darwin:242ac110002"), (0x010000000001, "")])
def test_a_platform_without_proc(elsewhere: pytest.MonkeyPatch, node: int, space: str) -> None:
    pid = os.getpid()
    elsewhere.setattr(sys, "platform", "darwin")
    elsewhere.setattr(uuid, "getnode", lambda: node)
    elsewhere.setattr(os, "getpid", lambda: -node)
    elsewhere.setenv("LC_ALL", "de_DE")
    found = start_time(pid)
    assert found is not None
    assert datetime.strptime(found.replace("__", "_"), "%a_%b_%d_%H:%M:%S_%Y").year > 2000
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "pass"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(child.pid) is None

    def ps(*_: Any, env: dict[str, str], **__: Any) -> Any:  # that of Linux may be off by a second
        assert env == {"LC_ALL": "C"}, "a name has to be the same in all languages"
        return SimpleNamespace(stdout=b"Ss   Mon Nov  9 18:42:49 2026    \n")

    elsewhere.setattr(subprocess, "run", ps)
    name = process_name(pid)
    assert name.split("|")[1:] == ["", space, str(pid), "Mon_Nov__9_18:42:49_2026"]
    assert runs(name) is (True if space else None)  # an address that was made up is another one in each process
    assert is_running(pid, "Mon_Nov__9_18:42:50_2026") is False

    def late(*_: Any, timeout: float, **__: Any) -> None:
        raise subprocess.TimeoutExpired("ps", timeout)

    elsewhere.setattr(subprocess, "run", late)
    assert start_time(pid) is None
    assert is_running(pid, found) is True  # nobody is taken for gone


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
