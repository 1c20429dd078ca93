"""Programs that are stopped while they share a SQLite file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.patience import patience


def stop_between_transactions(process: subprocess.Popen[Any], path: str | Path) -> None:
    """Stop a program that is in no transaction of a file: its lock would keep all others out as well."""
    with closing(sqlite3.connect(path, timeout=patience(30), isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        lock.execute("ROLLBACK")
