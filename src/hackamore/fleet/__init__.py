"""Fleets: many tasks for many agents, on one machine or on a cluster; none is lost, none is paid twice.

::

    from hackamore.fleet import Fleet, Task, Worktree

    fleet = Fleet("nightly.db", concurrency=8, workspace=Worktree("."))
    for event in fleet.run([Task("fix-101", "Fix issue 101.", verify=["pytest", "-q"])]):
        print(event)
"""

from __future__ import annotations

from hackamore.fleet.dask import dask_executor
from hackamore.fleet.events import ConcurrencyChanged, FleetEvent, FleetProgress, TaskChanged, TaskFinished
from hackamore.fleet.fleet import Fleet, FleetRun
from hackamore.fleet.journal import Attempt, Store
from hackamore.fleet.results import write_results
from hackamore.fleet.task import Answer, FleetRow, Task, Verify
from hackamore.fleet.workspaces import Copy, Folder, Place, Workspace, Worktree

__all__ = [
    "Answer",
    "Attempt",
    "ConcurrencyChanged",
    "Copy",
    "Fleet",
    "FleetEvent",
    "FleetProgress",
    "FleetRow",
    "FleetRun",
    "Folder",
    "Place",
    "Store",
    "Task",
    "TaskChanged",
    "TaskFinished",
    "Verify",
    "Workspace",
    "Worktree",
    "dask_executor",
    "write_results",
]
