"""Makes the spans and metrics of session pools: the wait of each caller, in its context."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opentelemetry import context as contexts

from hackamore.telemetry import names
from hackamore.telemetry.watch import end_span

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from hackamore.telemetry.watch import Instruments


class PoolSpans:
    """The telemetry of one pool."""

    def __init__(self, tracer: Tracer, instruments: Instruments) -> None:
        self._tracer = tracer
        self._instruments = instruments

    def waiting(self) -> WaitSpan:
        return WaitSpan(self._tracer, self._instruments)

    def hibernated(self, reason: str) -> None:
        self._instruments.pool_hibernations.add(1, {names.POOL_REASON: reason})


class WaitSpan:
    """The wait of one caller; arguments as for `PoolSpans`."""

    def __init__(self, tracer: Tracer, instruments: Instruments) -> None:
        self._instruments = instruments
        self._context = contexts.get_current()
        self._span = tracer.start_span(names.POOL_WAIT, self._context)
        self._began = time.monotonic()
        instruments.pool_waiting.add(1, {}, self._context)

    def ended(self, session_id: str | None, source: str | None, error: BaseException | None) -> None:
        """End the span, and measure the wait."""
        measured = {names.POOL_SOURCE: source or "none"}
        self._span.set_attributes(measured)
        if session_id is not None:
            self._span.set_attribute(names.CONVERSATION, session_id)
        end_span(self._span, "" if error is None else type(error).__name__, measured)
        self._instruments.pool_waiting.add(-1, {}, self._context)
        self._instruments.pool_waits.record(time.monotonic() - self._began, measured, self._context)
