"""The settings of a fleet, checked, and what they mean for one task."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.budgets.budget import Budget
from hackamore.checked.fields import integer, number, path_text
from hackamore.checked.schemas import MisfitError, decode_raw
from hackamore.errors import OptionsError
from hackamore.fleet.sending import in_process
from hackamore.fleet.task import A_RETRY, A_WORKSPACE, FleetRow, Task, checked
from hackamore.fleet.workspaces import Copy, Workspace, Worktree
from hackamore.options.bounds import LONGEST_SECONDS
from hackamore.options.options import NO_SESSION, Options
from hackamore.options.retry import Retry
from hackamore.transports.base import TransportSource

if TYPE_CHECKING:
    from hackamore.activity.prices import Price
    from hackamore.fleet.journal import Journal

RETRY = Retry(rate_limit_wait=None)


class FleetPlan:
    """The settings of a fleet. `OptionsError` is raised if one is wrong.

    Args: those of `hackamore.fleet.Fleet`.
    """

    def __init__(
        self,
        options: Options | None,
        *,
        concurrency: int,
        budget: Budget | None,
        workspace: Workspace | None,
        retry: Retry | None,
        stall: float | None,
        traces: str | os.PathLike[str] | None,
        verify_seconds: float,
        executor: Executor | None,
        transport: TransportSource | None,
        prices: dict[str, Price] | None,
    ) -> None:
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a hackamore.Options, not {type(options).__name__}")
        self.options: Options = options if options is not None else Options()
        for name, default in NO_SESSION.items():
            if getattr(self.options, name) != default:
                raise OptionsError(
                    f"`{name}` does not work with a fleet: it chooses the session of each task.", field=name
                )
        self.concurrency: int = integer(1)(concurrency, "concurrency")
        self.budget: Budget | None = checked(budget, Budget, "budget", "a hackamore.Budget")
        if budget is not None and self.options.budget is not None:
            raise OptionsError("`budget` and the option `budget` are the same thing here: give one.", field="budget")
        self.workspace: Workspace | None = checked(workspace, Workspace, "workspace", A_WORKSPACE)
        self.folder: str | None = None
        self._needs_folder = False
        self.retry: Retry = checked(retry, Retry, "retry", A_RETRY) or RETRY
        self.stall: float | None = (
            None if stall is None else number(0, exclusive=True, maximum=LONGEST_SECONDS)(stall, "stall")
        )
        self.traces: str | None = None if traces is None else os.path.abspath(path_text(traces, "traces"))
        self.verify_seconds: float = number(0, exclusive=True, maximum=LONGEST_SECONDS)(
            verify_seconds, "verify_timeout"
        )
        an_executor = "a concurrent.futures.Executor, such as `Client.get_executor()` of Dask"
        self.executor: Executor | None = checked(executor, Executor, "executor", an_executor)
        self.remote: bool = executor is not None and not in_process(executor)
        if self.remote and transport is not None:
            raise OptionsError("`transport` works in this process only: leave `executor` out.", field="transport")
        if self.remote and self.options.budget is not None:
            if not isinstance(self.options.budget, Budget):
                raise OptionsError(
                    "The option `budget` cannot be sent to workers in other processes. Give the fleet a `Budget` without keys.",
                    field="budget",
                )
            # The driver charges it.
            self.budget, self.options = self.options.budget, self.options.replace(budget=None)
        self.transport: TransportSource | None = checked(transport, TransportSource, "transport", "a TransportSource")
        self.prices: dict[str, Price] = dict(prices or {})
        self._charged_for: set[str] = set()
        self._lock = threading.Lock()

    def keep_beside(self, journal: str) -> None:
        """Make the folders of tasks beside a journal: in `FILE.work`.

        Raises:
            OptionsError: the journal is a database, which has no folder, and the workspace names none.
        """
        self._needs_folder = "://" in journal
        self.folder = None if self._needs_folder else f"{journal}.work"
        self._check_workspace(self.workspace, "`workspace`")

    def _check_workspace(self, workspace: Workspace | None, name: str) -> None:
        if self._needs_folder and isinstance(workspace, (Copy, Worktree)) and workspace.to is None:
            raise OptionsError(
                f"{name}: a `{type(workspace).__name__}` has no folder beside a journal in a database. Pass `to=`, a folder that all "
                "machines share under the same path.",
                field="workspace",
            )
        shares = getattr(self.transport, "shares", None)  # of `hackamore.transports.remote`
        if workspace is None or shares is None:
            return
        folder = getattr(workspace, "to", None) or getattr(workspace, "path", None) or self.folder
        if folder is None or not shares(folder):
            raise OptionsError(
                f"{name}: its folders are on this machine, and the CLI runs on another one. Leave it out and name a folder over there for "
                "each task (`Task(..., options={'cwd': ...})`), or share the folder: `mounts=` of a Container, `paths=` of SSH.",
                field="workspace",
            )

    # -- one task ------------------------------------------------------------------------------------------------------

    def check_task(self, task: object) -> None:
        """Do nothing if a task can be run; else raise `TypeError` or `OptionsError`."""
        if not isinstance(task, Task):
            raise TypeError(f"tasks must be hackamore.fleet.Task objects, got {task!r:.100} ({type(task).__name__})")
        for name in NO_SESSION:
            if name in task.options:
                raise OptionsError(f"`options` of task {task.id!r}: `{name}` is chosen by the fleet.", field=name)
        self._check_workspace(task.workspace, f"`workspace` of task {task.id!r}")
        if self.remote and task.options.get("budget") is not None:
            raise OptionsError(
                f"`options` of task {task.id!r}: a budget cannot be sent to workers in other processes. Use `max_budget_usd`, or the "
                "`budget` of the fleet.",
                field="budget",
            )
        self.options_of(task)

    def twice(self, task: str) -> OptionsError:
        """Return the error for an id that stands twice."""
        return OptionsError(f"Two tasks have the id {task!r}. Give each task an id of its own.", field="id")

    def options_of(self, task: Task) -> Options:
        """Return the options of a task, without those of a session.

        Raises:
            OptionsError: the differences of the task are wrong.
        """
        if not task.options:
            return self.options
        try:
            return self.options.replace(**task.options)
        except OptionsError as error:
            raise OptionsError(f"`options` of task {task.id!r}: {error}", field=error.field) from None

    def attempt_options(self, task: Task) -> Options:
        """Return the options for an attempt: with the time limits of the fleet, and with its budget if they run in this process."""
        options = self.options_of(task)
        more: dict[str, Any] = {}
        if self.budget is not None and not self.remote and options.budget is None:
            more["budget"] = self.budget
        if self.stall is not None:
            timeouts = options.timeouts
            limits = {name: self.stall for name in ("first_message", "idle") if getattr(timeouts, name) is None}
            if limits:
                more["timeouts"] = timeouts.replace(**limits)
        return options.replace(**more) if more else options

    def workspace_of(self, task: Task) -> Workspace | None:
        found = task.workspace if task.workspace is not None else self.workspace
        return found if found is None or self.folder is None else found.under(self.folder)

    def retry_of(self, task: Task) -> Retry:
        return task.retry if task.retry is not None else self.retry

    def typed(self, row: FleetRow, task: Task | None) -> FleetRow:
        """Return a row with its output as an object of the task's type."""
        if task is None or task.output_type is None or row.output is None:
            return row
        try:
            return msgspec.structs.replace(row, output=decode_raw(msgspec.json.encode(row.output), task.output_type))
        except MisfitError:
            return row

    # -- spending ------------------------------------------------------------------------------------------------------

    def charge_earlier(self, journal: Journal) -> None:
        """Charge the budget, if it is kept in memory, with what earlier programs spent for this journal."""
        if self.budget is None or self.budget.path is not None:
            return
        with self._lock:
            if journal.id in self._charged_for:
                return
            self._charged_for.add(journal.id)
        self.budget.charge(*journal.spent(), check=False)
