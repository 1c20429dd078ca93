"""A cluster of Dask whose scheduler and workers are processes of their own, which tests kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.leaks import wait_gone
from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parent.parent.parent
THREADS = 2


class Cluster:
    """A scheduler and workers.

    Args:
        folder: an empty folder.
        port: the port of the scheduler; 0 for a new one each time.

    Attributes:
        scheduler: its process.
        workers: their processes.
        path: what workers can import, besides what is installed.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.path: str = str(PROJECT)
        self.workers: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._log = (folder / "cluster.log").open("ab")
        self._port = str(port)
        self.scheduler: subprocess.Popen[bytes] = self._start("scheduler", "--port", self._port, "--no-show")

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        # `dask worker` and `dask scheduler` are these modules.
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--host", "127.0.0.1", "--no-dashboard"]
        return subprocess.Popen(
            [*command, "--scheduler-file", str(self._file), *arguments],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": self.path, "PYTHONFAULTHANDLER": "1"},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def start_scheduler(self) -> None:
        """Start another scheduler."""
        self.scheduler = self._start("scheduler", "--port", self._port, "--no-show")

    def kill_scheduler(self) -> None:
        """Kill the scheduler. Its workers should end; without a nanny some of them hang."""
        self.scheduler.kill()
        self.scheduler.wait()
        self._file.unlink(missing_ok=True)  # it may not have started yet

    def kill_worker(self) -> None:
        """Kill the worker that was started first."""
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()

    def start_worker(self, *arguments: str) -> None:
        """Start a worker with two threads. It ends with its scheduler."""
        folder = ["--local-directory", str(self._folder), "--memory-limit", "0"]
        more = ["--no-nanny", "--nthreads", str(THREADS), *folder, *arguments]
        self.workers.append(self._start("worker", *more))

    def wait(self) -> str:
        """Wait until the scheduler runs, and has all workers that run; return its address."""
        from distributed import Client

        # The client waits for the file of the scheduler.
        client: Any = Client(scheduler_file=str(self._file), set_as_default=False, timeout=patience(60))  # type: ignore[no-untyped-call]
        with client:
            client.wait_for_workers(sum(worker.poll() is None for worker in self.workers), timeout=patience(60))
        address: str = json.loads(self._file.read_text())["address"]
        return address

    def close(self) -> None:
        """End all processes. Dask may wait for ever if scheduler and workers end at the same time."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
            assert wait_gone(process.pid)
        self._log.close()
