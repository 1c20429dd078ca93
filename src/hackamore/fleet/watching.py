"""Reports to the telemetry of a fleet. An observer that raises is logged, and disturbs nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hackamore.checked.functions import callback_failure
from hackamore.fleet.log import logger
from hackamore.options.observing import AttemptFacts, AttemptObservation, FleetObserver, RunObservation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hackamore.fleet.orders import Order

T = TypeVar("T")


def _told(ids: Mapping[str, Any], method: Callable[..., T], *arguments: Any) -> T | None:
    try:
        return method(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        callback_failure(f"`telemetry` (`{method.__name__}`)", method, error, kind="telemetry", extra=ids)
        return None


class RunWatch:
    """Reports on one run.

    Attributes:
        context: names the run to observers of attempts.
    """

    def __init__(self, observer: object, fleet: str, concurrency: int) -> None:
        self.context: dict[str, str] = {}
        self._observer = observer
        self._given = fleet, concurrency
        self._observation = RunObservation()
        self._since: dict[str, float] = {}
        self._attempts: dict[str, int] = {}

    def begin(self) -> None:
        """Report the run, in the thread of its driver."""
        if isinstance(self._observer, FleetObserver):
            self._observation = _told(logger.ids(), self._observer.observe_run, *self._given) or self._observation
        self.context = _told(logger.ids(), self._observation.context) or {}
        self.limit_changed(self._given[1])

    def queued(self, task: str, at: float) -> None:
        """Record when a task began to wait."""
        self._since[task] = at

    def leased(self, task: str, attempt: int, at: float) -> None:
        """Report that a task no longer waits."""
        self._attempts[task] = attempt
        _told(logger.ids(), self._observation.task_leased, max(0.0, at - self._since.pop(task, at)))

    def attempt_ended(self, cause: str | None) -> None:
        _told(logger.ids(), self._observation.attempt_ended, cause)

    def task_ended(self, task: str, attempt: int, state: str, seconds: float) -> None:
        """Report that a task is over, unless its last attempt was that of another driver, which reports it."""
        self._since.pop(task, None)
        if self._attempts.pop(task, 0) == attempt:
            _told(logger.ids(), self._observation.task_ended, state, seconds)

    def limit_changed(self, limit: int) -> None:
        """Report how many agents may run."""
        _told(logger.ids(), self._observation.limit_changed, limit)

    def ended(self, error: BaseException | None) -> None:
        _told(logger.ids(), self._observation.ended, error)


class AttemptWatch:
    """Reports on one attempt, in its thread; `ids` are attributes of log records."""

    def __init__(self, order: Order, ids: Mapping[str, Any]) -> None:
        self._ids = ids
        observer: object = order.options.telemetry
        lease = order.lease
        facts = AttemptFacts(lease.task, lease.attempt, lease.resumed)
        found = _told(ids, observer.observe_attempt, facts, order.run) if isinstance(observer, FleetObserver) else None
        self._observation = found or AttemptObservation()

    @contextmanager
    def step(self, step: Literal["prepare", "verify", "finish"]) -> Iterator[None]:
        """Report a step, and how it ends."""
        _told(self._ids, self._observation.step_started, step)
        failure = ""
        try:
            yield
        except BaseException as error:
            failure = type(error).__name__
            raise
        finally:
            _told(self._ids, self._observation.step_ended, failure)

    def ended(self, state: str | None, cause: str | None, failure: str, session_id: str) -> None:
        _told(self._ids, self._observation.ended, state, cause, failure, session_id)
