"""Messages between a driver and its workers: an attempt to make, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from hackamore.activity.prices import Price
    from hackamore.errors import HackamoreError
    from hackamore.fleet.journal import Lease
    from hackamore.fleet.states import Cause
    from hackamore.fleet.task import Task
    from hackamore.fleet.workspaces import Workspace
    from hackamore.options.options import Options
    from hackamore.options.retry import Retry


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, as a worker gets it: it can be pickled where its parts can be.

    Attributes:
        options: the options of the task, without those of a session.
        workspace: the folder for it; None for the `cwd` of the options.
        traces: the folder for traces; None for none.
        verify_seconds: for how long a command that checks may run.
        run: names the run to the observer of the attempt, such as by its `traceparent`.
    """

    lease: Lease
    task: Task
    options: Options
    workspace: Workspace | None
    retry: Retry
    prices: dict[str, Price]
    journal: str
    traces: str | None
    verify_seconds: float
    run: dict[str, str] = {}


class Ended(NamedTuple):
    """How an attempt ended.

    Attributes:
        begun: when it began, in seconds since 1970; 0 if another worker has it.
        cause: why it failed; None if it did not.
        until: when a rate limit resets, in seconds since 1970; None if that is unknown.
        ends_fleet: the error that no other attempt can avoid: there is no CLI, the budget is spent, the journal fails.
    """

    task: str
    attempt: int
    begun: float
    cause: Cause | None
    until: float | None = None
    ends_fleet: HackamoreError | None = None
