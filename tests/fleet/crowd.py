"""A program with many threads that each do one task in a worktree of the same repository."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hackamore.fleet.workspaces import Worktree

THREADS = 8


def do(repo: str, to: str, name: str) -> None:
    workspace = Worktree(repo, to)
    together = threading.Barrier(THREADS)

    def task(number: int) -> None:
        together.wait()
        task_id = f"{name}-{number}"
        place = workspace.prepare(task_id, fresh=True)
        Path(place.folder, "answer").write_text(task_id)
        result = workspace.finish(task_id, place, succeeded=True, message=f"Answer {task_id}")
        assert result is not None
        print(task_id, result.branch)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(task, range(THREADS)))


if __name__ == "__main__":
    do(*sys.argv[1:])
