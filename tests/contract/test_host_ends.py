"""The program that holds sessions ends without having stopped them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.contract import host, shows
from tests.contract.manifest import PROJECT
from tests.support.leaks import wait_gone
from tests.support.light import Light
from tests.support.patience import patience

SESSIONS = 5
GONE = 10.0
"""Seconds until none of them is left. It takes one or two; a busy machine is a slow one."""


@shows("process.host-ends")
@pytest.mark.parametrize("way", ["killed", "exit", "exception", "end"])
@pytest.mark.parametrize("backend", ["asyncio", "trio", "threads"])
def test_a_host_that_stops_nothing(backend: str, way: str, options: Light) -> None:
    """All of them ignore SIGTERM and are in the middle of a turn: one after the other would take far longer."""
    chosen = options()
    wire: dict[str, Any] = {"cli_path": str(chosen.cli_path), "env": dict(chosen.env), "version_check": "skip"}
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, os.path.abspath(host.__file__), backend, way, json.dumps(wire), str(SESSIONS)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=patience(40),
        check=False,
    )
    pids = json.loads(ran.stdout.splitlines()[0])
    assert len(set(pids)) == SESSIONS
    assert ran.returncode == {"killed": -9, "exit": 0, "exception": 1, "end": 0}[way], ran.stderr
    for pid in pids:
        assert wait_gone(pid, GONE)
    assert time.monotonic() - began < patience(30)
    assert "Traceback" not in ran.stderr or way == "exception", ran.stderr
