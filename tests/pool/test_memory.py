"""The memory of trees of processes, as it is measured for `memory_limit`."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from hackamore import OptionsError
from hackamore.pool.memory import check_package, resident
from tests.support.patience import patience

psutil = pytest.importorskip("psutil")


def test_the_memory_of_a_tree_is_that_of_all_its_processes() -> None:
    command = ["sh", "-c", "sh -c 'cat; true'; true"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as root:
        until = time.monotonic() + patience(30)
        while [each.name() for each in psutil.Process(root.pid).children(recursive=True)][1:] != ["cat"]:
            assert time.monotonic() < until
            time.sleep(0.005)
        family = [psutil.Process(root.pid), *psutil.Process(root.pid).children(recursive=True)]
        found: dict[int, int] = {}
        sizes = [0, 0, 0]
        while sizes != (sizes := [each.memory_info().rss for each in family]):  # they may still begin
            found = resident({3: root.pid, 5: family[-1].pid, 7: 2**22 + 7})
        assert found == {3: sum(sizes), 5: sizes[-1], 7: 0}
        assert min(sizes) > 0
        root.communicate()
    assert resident({3: root.pid}) == {3: 0}


THREADS = """
import subprocess, sys, threading, time
threads = [threading.Thread(target=lambda: (subprocess.Popen(["cat"]), stop.wait())) for stop in [threading.Event()] * 2]
for thread in threads:
    thread.daemon = True
    thread.start()
sys.stdin.read()
"""


@pytest.mark.parametrize("listed", [True, False])
def test_children_count_whichever_thread_started_them(monkeypatch: pytest.MonkeyPatch, listed: bool) -> None:
    exists = os.path.exists
    # Some kernels do not list the children of a thread.
    monkeypatch.setattr(os.path, "exists", lambda path: listed and exists(path))
    with subprocess.Popen([sys.executable, "-c", THREADS], stdin=subprocess.PIPE) as root:
        until = time.monotonic() + patience(30)
        while [each.name() for each in psutil.Process(root.pid).children()] != ["cat", "cat"]:
            assert time.monotonic() < until
            time.sleep(0.005)
        family = [psutil.Process(root.pid), *psutil.Process(root.pid).children()]
        found: dict[int, int] = {}
        sizes = [0]
        while sizes != (sizes := [each.memory_info().rss for each in family]):
            found = resident({3: root.pid})
        assert found == {3: sum(sizes)}
        root.communicate()


def test_a_process_that_ends_while_its_tree_is_measured_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(process: object) -> None:
        raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(psutil.Process, "memory_info", gone)
    assert resident({1: 1}) == {1: 0}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_package()
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(
        OptionsError, match=r"`memory_limit` needs the package psutil.* Install `hackamore\[pool\]`"
    ) as caught:
        check_package()
    assert caught.value.field == "memory_limit"
