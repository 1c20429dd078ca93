"""Makes the spans and metrics of fleets: of a run in the thread of its driver, of an attempt in the thread or process that makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry import propagate
from opentelemetry.trace import set_span_in_context

from hackamore.options.observing import AttemptObservation, RunObservation
from hackamore.telemetry import names
from hackamore.telemetry.watch import end_span

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from hackamore.options.observing import AttemptFacts
    from hackamore.telemetry.watch import Instruments


class RunSpans(RunObservation):
    """The telemetry of one run; `fleet` is the id of its journal."""

    def __init__(self, tracer: Tracer, instruments: Instruments, fleet: str, concurrency: int) -> None:
        around = contexts.get_current()
        self._span = tracer.start_span(
            names.FLEET_RUN, around, attributes={names.FLEET_ID: fleet, names.FLEET_CONCURRENCY: concurrency}
        )
        self._context = set_span_in_context(self._span, around)
        self._instruments = instruments
        self._limit = 0

    def context(self) -> dict[str, str]:
        carrier: dict[str, str] = {}
        propagate.inject(carrier, self._context)
        return carrier

    def task_leased(self, waited: float) -> None:
        self._instruments.task_wait.record(waited, {}, self._context)

    def attempt_ended(self, cause: str | None) -> None:
        self._instruments.attempts.add(1, {names.ATTEMPT_CAUSE: cause or "none"}, self._context)

    def task_ended(self, state: str, seconds: float) -> None:
        measured = {names.TASK_STATE: state}
        self._instruments.tasks.add(1, measured, self._context)
        self._instruments.task_duration.record(seconds, measured, self._context)

    def limit_changed(self, limit: int) -> None:
        self._instruments.limit.add(limit - self._limit, {}, self._context)
        self._limit = limit

    def ended(self, error: BaseException | None) -> None:
        self.limit_changed(0)
        end_span(self._span, "" if error is None else type(error).__name__)


class AttemptSpans(AttemptObservation):
    """The telemetry of one attempt. Its spans are current in the thread until they end: the query and the user's check are inside.

    Args:
        run: the trace context of the run.
    """

    def __init__(self, tracer: Tracer, facts: AttemptFacts, run: dict[str, str]) -> None:
        self._tracer = tracer
        self._step: _Current | None = None
        self._attempt = _Current(
            tracer,
            names.FLEET_ATTEMPT,
            {names.TASK_ID: facts.task, names.ATTEMPT: facts.attempt, names.ATTEMPT_RESUMED: facts.resumed},
            propagate.extract(run),
        )

    def step_started(self, step: str) -> None:
        if step == "verify":
            self._step = _Current(self._tracer, names.FLEET_VERIFY, {})
        else:
            self._step = _Current(self._tracer, names.FLEET_WORKSPACE, {names.FLEET_STEP: step})

    def step_ended(self, failure: str) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.end(failure)

    def ended(self, state: str | None, cause: str | None, failure: str, session_id: str) -> None:
        attributes = {names.CONVERSATION: session_id, names.TASK_STATE: state, names.ATTEMPT_CAUSE: cause}
        self._attempt.span.set_attributes({name: value for name, value in attributes.items() if value is not None})
        self._attempt.end(failure)


class _Current:
    """A span that is the current one in its thread until it ends."""

    def __init__(self, tracer: Tracer, name: str, attributes: dict[str, Any], around: Context | None = None) -> None:
        self.span: Span = tracer.start_span(name, around, attributes=attributes)
        self._token: Token[Context] = contexts.attach(set_span_in_context(self.span, around))

    def end(self, failure: str) -> None:
        """End the span; the one around it is current again."""
        contexts.detach(self._token)
        end_span(self.span, failure)
