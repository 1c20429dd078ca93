"""A program that tests kill: it prepares and finishes one task without end, and reports each line of work after it has written it."""

from __future__ import annotations

import os
import random
import sys

from hackamore.fleet.workspaces import Copy, Workspace, Worktree


def work(workspace: Workspace, task: str, first: int, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(first, first + 10_000):
        place = workspace.prepare(task, fresh=False)
        with open(os.path.join(place.folder, "work.txt"), "a") as file:
            file.write(f"{number}\n")
        os.write(1, f"{number}\n".encode())
        if chance.random() < 0.5:
            workspace.finish(task, place, succeeded=chance.random() < 0.7, message=f"Line {number}")


if __name__ == "__main__":
    kind, source, to, task, first, seed = sys.argv[1:]
    chosen: Workspace = Worktree(source, to) if kind == "worktree" else Copy(source, to, keep="all")
    work(chosen, task, int(first), int(seed))
