"""A driver of a fleet in a process of its own, which a storm kills: `python -m tests.fleet.storm_host SETTINGS.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bridle import Options, Retry
from bridle.fleet import Answer, Fleet, Folder, Task, Worktree


def prompt_of(number: int) -> str:
    """Return the prompt of a task."""
    return f"Work on <task {number:05d}>"


def verify(answer: Answer) -> str | None:
    """Check that the answer is that of its task."""
    wanted = f"done {answer.task}"
    return None if wanted in answer.text else f"{answer.text!r} is not {wanted!r}"


def fleet_of(settings: dict[str, Any], **more: Any) -> Fleet:
    """Return the fleet of a storm."""
    options = Options(**settings["options"])
    return Fleet(
        settings["journal"],
        options,
        concurrency=settings["concurrency"],
        workspace=Worktree(settings["repository"]) if settings.get("repository") else Folder(settings["folder"]),
        retry=Retry(attempts=20, backoff=0.05, max_delay=0.2, rate_limit_wait=None),
        **more,
    )


def main() -> None:
    """Run the fleet until all its tasks are over."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    more: dict[str, Any] = {}
    if settings.get("scheduler"):
        from bridle.fleet import dask_executor

        more["executor"] = dask_executor(settings["scheduler"])
    fleet = fleet_of(settings, **more)
    check = verify if settings.get("verify", True) else None
    fleet.run(Task(f"task-{n:05d}", prompt_of(n), verify=check) for n in range(settings["tasks"])).wait()


if __name__ == "__main__":
    main()
