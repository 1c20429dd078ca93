"""The events of a fleet while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from hackamore.fleet.task import FleetRow


class TaskChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A task is in another state, and not over.

    Attributes:
        task: its id.
        attempt: the number of the attempt.
        state: `queued`, `leased`, `running`, `verifying` or `waiting`.
        cause: why the attempt failed, such as `throttled` or `crash`; None if it did not.
        error: the text of that error.
        at: the time, in seconds since 1970.
    """

    task: str
    attempt: int
    state: str
    cause: str | None
    error: str | None
    at: float


class TaskFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A task is over: it succeeded, failed or was cancelled. There is exactly one for each task.

    Attributes:
        row: the task.
        at: the time, in seconds since 1970.
    """

    row: FleetRow
    at: float


class ConcurrencyChanged(msgspec.Struct, frozen=True, kw_only=True):
    """More or fewer agents may run at the same time than before.

    Attributes:
        limit: how many may run.
        most: how many may run if nothing is in the way.
        until: nothing starts before this time, in seconds since 1970; None if nothing is in the way.
        cause: `throttled` or `overloaded` if there are fewer; None if there are more.
        at: the time, in seconds since 1970.
    """

    limit: int
    most: int
    until: float | None
    cause: str | None
    at: float


FleetEvent: TypeAlias = TaskChanged | TaskFinished | ConcurrencyChanged


class FleetProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet at one moment.

    Attributes:
        states: how many tasks are in each state.
        total: how many tasks there are.
        running: attempts that run here.
        limit: how many may run at the same time.
        until: nothing starts before this time, in seconds since 1970; None if nothing is in the way.
        cost: US dollars that all attempts spent, earlier runs included.
        tokens: tokens that they used.
        seconds: how long this run takes so far.
        seconds_left: an estimate from the tasks that ended in this run; None before the first one.
        draining: True if nothing is started any more.
    """

    states: dict[str, int]
    total: int
    running: int
    limit: int
    until: float | None
    cost: float
    tokens: int
    seconds: float
    seconds_left: float | None
    draining: bool

    @property
    def finished(self) -> int:
        """Tasks that are over."""
        return sum(self.states[state] for state in ("succeeded", "failed", "cancelled"))
