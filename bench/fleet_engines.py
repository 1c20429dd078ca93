"""What the engine of a fleet costs: attempts a second in threads, in processes and on Dask.

    python bench/fleet_engines.py [--tasks 200] [--workers 2] [--threads 4]

Each attempt starts a simulated CLI as a process of its own, which answers immediately. The journal is a SQLite file; Dask is a
`LocalCluster` of processes on this machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hackamore import Options
from hackamore.fleet import Fleet, Task
from hackamore.testing import Script, SimulatedCLI


def executor_of(engine: str, workers: int, threads: int, stack: ExitStack) -> Executor | None:
    """Return the executor of an engine, with places for workers times threads attempts."""
    if engine == "threads":
        return None
    if engine == "processes":
        context = multiprocessing.get_context("spawn")
        return stack.enter_context(ProcessPoolExecutor(workers * threads, mp_context=context))
    import distributed

    dask: Any = distributed
    places = {"n_workers": workers, "threads_per_worker": threads, "processes": True}
    addresses = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    local = stack.enter_context(dask.LocalCluster(**places, **addresses))
    found: Executor = stack.enter_context(dask.Client(local, set_as_default=False)).get_executor()
    return found


def main() -> None:
    """Print a line for each engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()
    for engine in ("threads", "processes", "dask"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            cli = SimulatedCLI(Script().user().says("Done."), per_session=True)
            options = Options(cli_path=cli.install(Path(folder, "cli")), cwd=folder, version_check="skip")
            executor = executor_of(engine, given.workers, given.threads, stack)
            places = given.workers * given.threads
            fleet = Fleet(f"{folder}/journal.db", options, concurrency=places, executor=executor)
            # The first ones start the processes of the engine.
            fleet.run([Task(f"first-{number}", "Do it") for number in range(places)]).wait()
            began = time.perf_counter()
            fleet.run([Task(f"task-{number}", "Do it") for number in range(given.tasks)]).wait()
            took = time.perf_counter() - began
            assert {(row.state, row.attempt) for row in fleet.results()} == {("succeeded", 1)}
            fleet.close()
        print(f"{engine:10} {given.tasks / took:6.1f} attempts/s with {places} at the same time")


if __name__ == "__main__":
    main()
