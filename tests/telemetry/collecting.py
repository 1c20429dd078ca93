"""Spans and metrics in memory, as trees and numbers that tests can compare."""

from __future__ import annotations

import threading
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, SpanContext

import hackamore


class Counts(SpanProcessor):
    """Counts spans that began and ended."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.began = self.ended = 0
        self.open: dict[int, str] = {}

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        with self.lock:
            self.began += 1
            self.open[span.get_span_context().span_id] = getattr(span, "name", "")

    def on_end(self, span: ReadableSpan) -> None:
        with self.lock:
            self.ended += 1
            self.open.pop(id_of(span), None)


class Collected:
    """An SDK that keeps everything in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.counts = Counts()
        self.provider = TracerProvider()
        self.provider.add_span_processor(self.counts)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.tracer = self.provider.get_tracer("the application")

    def telemetry(self, **more: Any) -> hackamore.Telemetry:
        return hackamore.Telemetry(self.provider, self.meters, **more)

    @property
    def spans(self) -> list[ReadableSpan]:
        assert self.counts.open == {}, "spans are open"
        assert self.counts.began == self.counts.ended
        return sorted(self.exporter.get_finished_spans(), key=lambda span: (span.start_time or 0, span.end_time or 0))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def tree(self, parent: ReadableSpan | None = None) -> list[Any]:
        """The names below a span; one with others below it is a tuple of its name and their list."""
        above = None if parent is None else id_of(parent)
        found: list[Any] = []
        for span in self.spans:
            if (span.parent.span_id if span.parent is not None else None) == above:
                below = self.tree(span)
                found.append((span.name, below) if below else span.name)
        return found

    def points(self, metric: str) -> list[tuple[dict[str, Any], Any]]:
        """The points of a metric: attributes, and the number of a counter or (count, sum) of a histogram."""
        return [
            (
                dict(point.attributes or {}),
                point.value if isinstance(point, NumberDataPoint) else (point.count, point.sum),
            )
            for found in self.metrics()
            if found.name == metric
            for point in found.data.data_points
        ]

    def exemplars(self) -> dict[str, set[int | None]]:
        """The spans that the points of each metric name."""
        return {
            found.name: {each.span_id for point in found.data.data_points for each in point.exemplars}
            for found in self.metrics()
        }

    def metrics(self) -> list[Metric]:
        data = self.reader.get_metrics_data()
        return [
            found
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
        ]


def place_of(span: ReadableSpan) -> SpanContext:
    place = span.get_span_context()
    assert place is not None
    return place


def id_of(span: ReadableSpan) -> int:
    return place_of(span).span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
