"""The states of a task, and the kinds of failure. A missing cell is a defect of the fleet and raises."""

from __future__ import annotations

from enum import auto
from typing import NamedTuple

from hackamore.runtime.tables import Member


class _Word(Member):
    @property
    def word(self) -> str:
        """The member as journals, events and people have it."""
        return self.name.lower()


class State(_Word):
    QUEUED = auto()
    LEASED = auto()
    """An attempt is written down: its driver, its session. Nothing was started."""
    RUNNING = auto()
    VERIFYING = auto()
    """The answer is written down, and is being checked."""
    WAITING = auto()
    """For the reset of a rate limit, or before the next attempt."""
    SUCCEEDED = auto()
    FAILED = auto()
    CANCELLED = auto()


class Trigger(Member):
    """Events that move a task from one state to the next."""

    LEASED = auto()
    BEGUN = auto()
    """A worker has taken the attempt and starts its CLI, or checks an answer that an earlier attempt got."""
    ANSWERED = auto()
    ACCEPTED = auto()
    POSTPONED = auto()
    """The attempt failed, and there will be another one later."""
    GIVEN_BACK = auto()
    """The attempt ended without a failure of its own: the fleet drains, a budget is spent, its worker is gone."""
    GAVE_UP = auto()
    CANCELLED = auto()
    RETRIED = auto()
    """A caller requested another attempt of a task that was over."""


_S, _H = State, Trigger

HELD: tuple[State, ...] = (_S.LEASED, _S.RUNNING, _S.VERIFYING)
"""The states in which a task belongs to a driver or worker."""
OVER: frozenset[State] = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED})
"""The states with a final result."""

TASK: dict[tuple[State, Trigger], State] = {
    (_S.QUEUED, _H.LEASED): _S.LEASED,
    (_S.QUEUED, _H.CANCELLED): _S.CANCELLED,
    (_S.WAITING, _H.LEASED): _S.LEASED,
    (_S.WAITING, _H.CANCELLED): _S.CANCELLED,
    (_S.LEASED, _H.BEGUN): _S.RUNNING,
    (_S.RUNNING, _H.ANSWERED): _S.VERIFYING,
    (_S.VERIFYING, _H.ACCEPTED): _S.SUCCEEDED,
    **{(state, _H.POSTPONED): _S.WAITING for state in HELD},
    **{(state, _H.GIVEN_BACK): _S.QUEUED for state in HELD},
    **{(state, _H.GAVE_UP): _S.FAILED for state in HELD},
    **{(state, _H.CANCELLED): _S.CANCELLED for state in HELD},
    (_S.FAILED, _H.RETRIED): _S.QUEUED,
    (_S.CANCELLED, _H.RETRIED): _S.QUEUED,
}


class Opening(Member):
    """How an attempt begins."""

    NEW = auto()  # with the task's prompt, in a new session
    CORRECT = auto()  # with a prompt that was not sent yet, that of a refusal say, in the session of the attempt before
    CONTINUE = auto()  # in the session of the attempt before, whose transcript may have the answer
    CHECK = auto()  # with the answer of an earlier attempt, which is written down


OPENING: dict[tuple[bool, bool, bool], Opening] = {
    (False, False, False): Opening.NEW,
    (False, False, True): Opening.NEW,
    (False, True, False): Opening.CONTINUE,
    (False, True, True): Opening.CORRECT,
    **{(True, reachable, unsent): Opening.CHECK for reachable in (False, True) for unsent in (False, True)},
}
"""By three facts: there is an answer; the session may be resumed, and its prompt arrived; a prompt waits to be sent."""


class Cause(_Word):
    """Why an attempt ended without an accepted answer."""

    THROTTLED = auto()
    """A rate limit."""
    OVERLOADED = auto()
    """The API was overloaded or unreachable, or the machine short of something."""
    CRASH = auto()
    """The CLI ended without a result."""
    TIMEOUT = auto()
    STALL = auto()
    """No message came for too long."""
    MODEL = auto()
    """The turn ended with an error that another attempt would meet as well: too many turns, a refused request, ..."""
    OUTPUT = auto()
    """The structured output does not fit."""
    VERIFY = auto()
    """The answer was refused by the check of the task."""
    BUDGET = auto()
    """A limit of the attempt: `max_budget_usd`, or a limit of a budget for a key."""
    SPENT = auto()
    """The budget of the fleet is spent."""
    START = auto()
    """The task cannot be started: another attempt would fail as well."""
    CLI = auto()
    """There is no CLI, or not one that can be used: no task can be started."""
    WORKSPACE = auto()
    """The folder for the attempt cannot be made or finished."""
    APPROVAL = auto()
    """A call waits for the answer of a person."""
    BUG = auto()
    """The function that checks the answer raised an exception, or the fleet itself did."""
    LOST = auto()
    """The driver or worker of the attempt is gone."""
    STOPPED = auto()
    """The fleet was stopped, or drained, before the attempt ended."""
    CANCELLED = auto()


class Policy(NamedTuple):
    """The consequences of a failure.

    Attributes:
        again: True if another attempt may succeed.
        counted: True if it counts against `Retry.attempts`.
        slower: True if fewer agents should run at the same time.
    """

    again: bool
    counted: bool
    slower: bool = False


CAUSES: dict[Cause, Policy] = {
    Cause.THROTTLED: Policy(again=True, counted=False, slower=True),
    Cause.OVERLOADED: Policy(again=True, counted=True, slower=True),
    Cause.CRASH: Policy(again=True, counted=True),
    Cause.TIMEOUT: Policy(again=True, counted=True),
    Cause.STALL: Policy(again=True, counted=True),
    Cause.MODEL: Policy(again=False, counted=True),
    Cause.OUTPUT: Policy(again=True, counted=True),
    Cause.VERIFY: Policy(again=True, counted=True),
    Cause.BUDGET: Policy(again=False, counted=True),
    Cause.SPENT: Policy(again=True, counted=False),
    Cause.START: Policy(again=False, counted=True),
    Cause.CLI: Policy(again=True, counted=False),
    Cause.WORKSPACE: Policy(again=False, counted=True),
    Cause.APPROVAL: Policy(again=True, counted=False),
    Cause.BUG: Policy(again=False, counted=True),
    Cause.LOST: Policy(again=True, counted=False),
    Cause.STOPPED: Policy(again=True, counted=False),
    Cause.CANCELLED: Policy(again=False, counted=False),
}
