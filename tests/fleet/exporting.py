"""An SDK of OpenTelemetry for a worker in another process: it writes spans to a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from hackamore import Telemetry
from tests.telemetry.collecting import id_of, place_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class Sent(Telemetry):
    """Uses providers here, as those that are the global ones, and the global ones elsewhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Telemetry, ()


class Lines(SpanExporter):
    """Writes spans to a file: a line for each."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with open(self._path, "a", encoding="utf-8") as file:
            for span in spans:
                parent = None if span.parent is None else span.parent.span_id
                file.write(json.dumps([span.name, place_of(span).trace_id, id_of(span), parent]) + "\n")
        return SpanExportResult.SUCCESS


def export_to(path: str) -> None:
    """Write the spans of this process to a file."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines(path)))
    trace.set_tracer_provider(provider)
