"""Observers of queries, sessions and fleets: the reports that they receive, and the actions that they have. Telemetry and budgets use them.

All methods of an `Observation` are called where the session is: in the thread of the event loop, or under the lock of a blocking session.
Those about fleets are called in the threads of the fleet. They must return immediately.
Parts that observe log with `logger`: each record is one line, with `session_id`, `turn_id` and `pid`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from hackamore.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hackamore.errors import HackamoreError
    from hackamore.messages import Message
    from hackamore.options.deciding import Ruling
    from hackamore.options.options import Options

__all__ = [
    "ONE_TURN",
    "AttemptFacts",
    "AttemptObservation",
    "CallbackCall",
    "CallbackEnd",
    "FleetObserver",
    "Observation",
    "Observer",
    "PoolObservation",
    "PoolObserver",
    "RunObservation",
    "Subject",
    "WaitObservation",
    "logger",
]

ONE_TURN = "query"
"""The id of the turn of a query over the one-way launch."""


class Subject(Protocol):
    """The query or session that is observed.

    Attributes:
        kind: `query` or `session`.
        model: the model of the options; None if they name none.
        options: the options, with secrets.
    """

    kind: Literal["query", "session"]
    model: str | None
    options: Options

    @property
    def session_id(self) -> str | None:
        """The id of the session, once it is known."""

    def warn(self, code: str, message: str, **context: object) -> None:
        """Raise a warning: `on_warning` and the readers get it.

        Args:
            code: one of `hackamore.errors.WarningCode`.
            message: the text.
            **context: facts for `StreamWarning.context`.
        """

    def end_turn(self, turn_id: str | None, error: HackamoreError) -> None:
        """End a turn, soon: it is interrupted, and its reader gets the error after the messages so far.

        A session can be used afterwards; a query is over. Nothing happens if the turn is over. It may be called from any
        thread.

        Args:
            turn_id: the turn; None for work that no prompt started: background agents, and turns that the CLI begins itself.
            error: the error for its reader; such work of a session has none.
        """


class CallbackCall(NamedTuple):
    """A callback of the program that the CLI calls.

    Attributes:
        id: the id of the request; unique in its session.
        kind: `hook`, `permission`, `mcp` (an in-process tool or server) or `dialog`.
        name: the name of the callback, for people.
        event: the event of a hook; empty for others.
        tool: the name of the tool that it is about, as the model knows it; empty if there is none.
        tool_use_id: the id of the tool call; None without one.
        request: the argument of the callback: the input of a hook, a `PermissionRequest`, the arguments of a tool, ...
        on_failure: the policy of a hook for failures: `continue` or `block`; empty for others.
        meta: takes entries for `_meta` of a tool call that a server object of the `mcp` package answers: context variables do not reach
            its task. None for all other calls.
    """

    id: str
    kind: str
    name: str = ""
    event: str = ""
    tool: str = ""
    tool_use_id: str | None = None
    request: Any = None
    on_failure: str = ""
    meta: dict[str, str] | None = None


class CallbackEnd(NamedTuple):
    """How a callback ended.

    Attributes:
        how: `answered`, `failed` (it raised, or took too long; the safe answer was sent) or `cancelled` (by the CLI, or by the end).
        answer: the answer as it was sent; None without one.
        reason: why it failed.
        decision: the decision in the answer, such as `deny`, `block` or `accept`; `stop` for a hook that ends the turn; `answered` or
            `failed` for a server. Empty if the answer decides nothing, or there is none.
        ruling: the decision of the option `policy`, such as a `hackamore.Verdict`, if it made this answer; None otherwise.
    """

    how: Literal["answered", "failed", "cancelled"]
    answer: Mapping[str, Any] | None
    reason: str
    decision: str = ""
    ruling: Ruling | None = None


class Observation:
    """Receives the reports on one query or session. The methods here do nothing: override the ones you need.

    An exception of a method is logged and becomes a warning; the session continues. Only `prompt_sending` may refuse.
    """

    def prompt_sending(self, turn_id: str, content: str | Sequence[Any]) -> None:
        """Called before a prompt is sent, in the context of the caller.

        Args:
            turn_id: the id of its turn.
            content: the text, or the content blocks. A query over an iterable of prompts reports each one when it is sent.

        Raises:
            HackamoreError: the prompt is refused; the caller gets this error.
        """

    def launching(self) -> Mapping[str, str | None]:
        """Called before the CLI is started, in the context of the caller: return variables for it. Those of `Options.env` win.

        Returns:
            Names and values; None unsets an inherited variable.
        """
        return {}

    def launched(self) -> None:
        """Called when the process has started."""

    def ready(self) -> None:
        """Called when the CLI has answered the handshake; a query over the one-way launch has none."""

    def turn_changed(self, turn_id: str, state: str, error: HackamoreError | None) -> None:
        """Called when the state of a turn changes.

        Args:
            turn_id: the turn.
            state: `started`, `queued` (again), `completed`, `interrupted` or `failed`. A query over the one-way launch only ends.
            error: the error of the session or of the start, if that ended the turn.
        """

    def messages_received(self, messages: Sequence[Message], turn_ids: tuple[str, ...]) -> None:
        """Called with the messages of the CLI, in the order in which it sends them.

        Args:
            messages: at least one.
            turn_ids: their turns: none (the CLI works by itself), one, or all that the CLI answers together.
        """

    def callback_started(self, call: CallbackCall) -> Callable[[], object] | None:
        """Called before a callback runs.

        Args:
            call: the call.

        Returns:
            A function that Hackamore calls first in the context of the callback, to set context variables for it; or None.
        """

    def callback_ended(self, call: CallbackCall, end: CallbackEnd) -> None:
        """Called when a callback has ended.

        Args:
            call: the call that was passed to `callback_started`.
            end: how it ended.
        """

    def request_sent(self, request_id: str, operation: str) -> None:
        """Called when the program sends a control request.

        Args:
            request_id: the id of the request.
            operation: the method of the session.
        """

    def request_ended(self, request_id: str, error: HackamoreError | None) -> None:
        """Called when a control request is over.

        Args:
            request_id: the id of the request.
            error: why it failed; None if it did not.
        """

    def ended(self, error: HackamoreError | None, exit_code: int | None) -> None:
        """Called last, exactly once, if any other method was called.

        Args:
            error: why the session failed; None if it ended well or was stopped.
            exit_code: the exit code of the CLI, if it is known.
        """


class Observer(Protocol):
    """The methods of an observer, such as `hackamore.Telemetry` or `hackamore.Budget`. One object may observe many queries and sessions."""

    def observe(self, subject: Subject) -> Observation:
        """Begin to observe. Called when the query or session is made, in the context of the caller.

        Args:
            subject: the query or session.

        Returns:
            The object that receives the reports.
        """


class AttemptFacts(NamedTuple):
    """An attempt at a task of a fleet.

    Attributes:
        task: the id of the task.
        attempt: its number.
        resumed: True if it continues the session of an earlier attempt.
    """

    task: str
    attempt: int
    resumed: bool


class AttemptObservation:
    """Receives the reports on one attempt, in its thread. The methods here do nothing: override the ones you need.

    The query of the attempt and the user's check run in the same thread, in the context that the methods have set.
    """

    def step_started(self, step: Literal["prepare", "verify", "finish"]) -> None:
        """Called when a step begins; there is one at a time.

        Args:
            step: `prepare` and `finish` are those of the workspace, `verify` is the check of the answer.
        """

    def step_ended(self, failure: str) -> None:
        """Called when the step has ended.

        Args:
            failure: the class of the exception that ended it; empty if it went well.
        """

    def ended(self, state: str | None, cause: str | None, failure: str, session_id: str) -> None:
        """Called last, when the attempt is over, in any case unless the process is killed.

        Args:
            state: the state of the task now; None if another worker has it.
            cause: why the attempt failed, such as `throttled`; None if it did not.
            failure: the kind of failure; empty if the attempt went well, was stopped, or was cancelled.
            session_id: its session.
        """


class RunObservation:
    """Receives the reports on one run of a fleet, in the thread of its driver. The methods here do nothing: override the ones you need."""

    def context(self) -> dict[str, str]:
        """Return entries that name the run to the observer of an attempt, which may be in another process."""
        return {}

    def task_leased(self, waited: float) -> None:
        """Called before an attempt is started.

        Args:
            waited: the seconds that its task was queued, or waited for a reset or a back-off.
        """

    def attempt_ended(self, cause: str | None) -> None:
        """Called when an attempt of this driver is over, in this or another process.

        Args:
            cause: why it failed, such as `throttled`, or `lost` if its worker is gone; None if it did not.
        """

    def task_ended(self, state: str, seconds: float) -> None:
        """Called when a task is over.

        Args:
            state: `succeeded`, `failed` or `cancelled`.
            seconds: the time that all its attempts took.
        """

    def limit_changed(self, limit: int) -> None:
        """Called at the start of the run, and when rate limits change the limit.

        Args:
            limit: the number of agents that may run at the same time.
        """

    def ended(self, error: BaseException | None) -> None:
        """Called last, when the run is over, in any case.

        Args:
            error: the error that ended it early.
        """


@runtime_checkable
class FleetObserver(Protocol):
    """The methods of an observer that also observes fleets, such as `hackamore.Telemetry`."""

    def observe_run(self, fleet: str, concurrency: int) -> RunObservation:
        """Begin to observe a run of a fleet. Called in the thread of its driver, in the context of the caller of `Fleet.run`.

        Args:
            fleet: the id of the journal.
            concurrency: agents that may run at the same time, at most.

        Returns:
            The object that receives the reports.
        """

    def observe_attempt(self, facts: AttemptFacts, run: dict[str, str]) -> AttemptObservation:
        """Begin to observe an attempt. Called in the thread of the attempt.

        Args:
            facts: the attempt.
            run: the entries of `RunObservation.context`.

        Returns:
            The object that receives the reports.
        """


class WaitObservation(Protocol):
    """Receives the end of the wait of one caller of a pool."""

    def ended(self, session_id: str | None, source: str | None, error: BaseException | None) -> None:
        """Called when the wait is over.

        Args:
            session_id: the session; None without one.
            source: `ready`, `started` or `resumed`; None without a session.
            error: the error that the caller gets.
        """


class PoolObservation(Protocol):
    """Receives the reports on one session pool."""

    def waiting(self) -> WaitObservation:
        """Called when a caller requests a session, in the context of that caller.

        Returns:
            The object whose `ended` is called when the wait is over.
        """

    def hibernated(self, reason: str) -> None:
        """Called when a conversation begins to hibernate: its process is stopped.

        Args:
            reason: as in `ConversationHibernated.reason`.
        """


@runtime_checkable
class PoolObserver(Protocol):
    """The method of an observer that also observes session pools, such as `hackamore.Telemetry`."""

    def observe_pool(self) -> PoolObservation:
        """Begin to observe a pool.

        Returns:
            The object that receives the reports.
        """
