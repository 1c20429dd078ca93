"""Fleets: many tasks for many agents, on one machine or on a cluster; none is lost, none is paid twice.

::

    from bridle.fleet import Fleet, Task, Worktree

    fleet = Fleet("nightly.db", concurrency=8, workspace=Worktree("."))
    for event in fleet.run([Task("fix-101", "Fix issue 101.", verify=["pytest", "-q"])]):
        print(event)
"""

from __future__ import annotations

from bridle.fleet.dask import dask_executor
from bridle.fleet.events import ConcurrencyChanged, FleetEvent, FleetProgress, TaskChanged, TaskFinished
from bridle.fleet.fleet import Fleet, FleetRun
from bridle.fleet.journal import Attempt, Store
from bridle.fleet.results import write_results
from bridle.fleet.task import Answer, FleetRow, Task, Verify
from bridle.fleet.workspaces import Copy, Folder, Place, Workspace, Worktree

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
