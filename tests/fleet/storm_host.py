"""A driver of a fleet in a process of its own, which a storm kills: `python -m tests.fleet.storm_host SETTINGS.json`.

It has two objects on the journal: that of its run, and one that looks at the results all the time, opened and closed each time. It
writes down each task that its run reports as finished.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from hackamore import Options, Retry
from hackamore.fleet import Answer, Fleet, Folder, Task, TaskFinished, Worktree
from tests.fleet.storm_reader import Looking


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


def look(journal: str, over: threading.Event) -> None:
    """Look at the results until the run is over; end the program if one of them vanished."""
    looking = Looking()
    try:
        while not over.wait(0.02):
            second = Fleet(journal)
            looking.compare(second.results({"succeeded"}))
            second.close()
    except BaseException:
        traceback.print_exc()
        os._exit(70)


def main() -> None:
    """Run the fleet until all its tasks are over."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    more: dict[str, Any] = {}
    if settings.get("scheduler"):
        from hackamore.fleet import dask_executor

        more["executor"] = dask_executor(settings["scheduler"])
    fleet = fleet_of(settings, **more)
    check = verify if settings.get("verify", True) else None
    over = threading.Event()
    looker = threading.Thread(target=look, args=(settings["journal"], over), daemon=True)
    looker.start()
    with open(settings["reports"], "ab", buffering=0) as reports:
        for event in fleet.run(Task(f"task-{n:05d}", prompt_of(n), verify=check) for n in range(settings["tasks"])):
            if isinstance(event, TaskFinished):
                reports.write(f"{os.getpid()} {event.row.task}\n".encode())
    over.set()
    looker.join()


if __name__ == "__main__":
    main()
