"""A program with a fleet of four tasks that tests kill: `python -m tests.fleet.program JOURNAL FOLDER WHERE`.

`WHERE` is `here` for threads of the program, `spawn` for a pool of processes, or the address of a Dask scheduler.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from hackamore import Options, Retry
from hackamore.fleet import Answer, Fleet, Task, dask_executor

PROJECT = Path(__file__).resolve().parent.parent.parent


def start(folder: Path, where: str, journal: str | None = None) -> subprocess.Popen[bytes]:
    """Start the program for the agents of `Agents(folder)`, in a session of its own."""
    command = [sys.executable, "-m", "tests.fleet.program", journal or str(folder / "journal.db"), str(folder), where]
    return subprocess.Popen(command, cwd=PROJECT, start_new_session=True)


def check(answer: Answer) -> bool:
    """Check an answer; workers get it from the program."""
    return answer.text == "Done."


def main() -> None:
    """Run the fleet."""
    journal, folder, where = sys.argv[1:]
    options = Options(cli_path=f"{folder}/cli/claude", cwd=folder, permission_mode="bypassPermissions")
    with (
        nullcontext()
        if where == "here"
        else ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
        if where == "spawn"
        else dask_executor(where)
    ) as executor:
        fleet = Fleet(journal, options, executor=executor, retry=Retry(backoff=0, rate_limit_wait=None))
        fleet.run([Task(f"task-{n}", f"Do the work {n}", verify=check) for n in range(4)]).wait()


if __name__ == "__main__":
    from tests.fleet import program

    program.main()  # so that `check` has the same name in other programs
