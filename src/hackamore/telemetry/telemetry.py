"""`Telemetry`: the option that gives spans and metrics to OpenTelemetry."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from hackamore._version import __version__
from hackamore.errors import OptionsError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from hackamore.options.observing import (
        AttemptFacts,
        AttemptObservation,
        Observation,
        PoolObservation,
        RunObservation,
        Subject,
    )
    from hackamore.telemetry.watch import Instruments

SCOPE = "hackamore"
# One for all objects: without an SDK, OpenTelemetry keeps each meter with its instruments for an SDK that may come.
_of_global_provider: list[tuple[object, Instruments]] = []


class Telemetry:
    """Spans and metrics of OpenTelemetry, for `Options(telemetry=...)`. One object may serve many queries and sessions.

    Each turn becomes an `invoke_agent` span below the caller's current span, with spans for responses of the model, tools, permission
    requests, hooks and subagents inside. The trace context goes to the CLI as `TRACEPARENT`. Spans opened in callbacks and in-process
    tools are children of the span of their call. A fleet has a span for each run and each attempt around them.

    Needs `hackamore[otel]`, and an SDK that the application configures; without an SDK nothing is recorded. One that an executor sends to
    another process uses the global providers there.

    Args:
        tracer_provider: takes the spans; None for the global provider.
        meter_provider: takes the metrics; None for the global provider.
        content: True records prompts, responses, tool inputs and tool results; False none. None: the environment variable
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` decides, and without it nothing is recorded.
        cli: True also turns on the CLI's own telemetry, which exports with OTLP as `OTEL_EXPORTER_OTLP_ENDPOINT` says.
        name: the name of the agent in spans; None: `Options.agent`, or `claude-code`.

    Raises:
        OptionsError: `opentelemetry-api` is not installed.
        TypeError: an argument has the wrong type.
        ValueError: `name` is empty.

    Example:
        ::

            options = hackamore.Options(telemetry=hackamore.Telemetry())
            answer = await hackamore.run("How many tests are there?", options)
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool | None = None,
        cli: bool = False,
        name: str | None = None,
    ) -> None:
        try:
            import opentelemetry.trace  # noqa: F401
        except ImportError:
            raise OptionsError(
                "`hackamore.Telemetry` needs the package opentelemetry-api, which is not installed. Install `hackamore[otel]`.",
                field="telemetry",
            ) from None
        _check_provider("tracer_provider", tracer_provider, "get_tracer")
        _check_provider("meter_provider", meter_provider, "get_meter")
        _check("content", content, bool)
        _check("name", name, str)
        if not isinstance(cli, bool):
            raise TypeError(f"`cli` must be a bool, not {type(cli).__name__}")
        if name == "":
            raise ValueError("`name` must not be empty; leave it out for the default")
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._content = content
        self._cli = cli
        self._name = name
        self._kept: list[tuple[object, Instruments]] = _of_global_provider if meter_provider is None else []

    def observe(self, subject: Subject) -> Observation:
        """Begin to observe a query or session. Hackamore calls this.

        Args:
            subject: the query or session.

        Returns:
            The object that makes the spans.

        Raises:
            OptionsError: with `cli=True`, the CLI would export to its standard output.
        """
        from hackamore.options.environment import inherited_variables
        from hackamore.telemetry import environment
        from hackamore.telemetry.watch import Settings, Watch

        variables = inherited_variables(subject.options, os.environ)
        if self._cli:
            environment.check_exporters(variables)
        content = self._content if self._content is not None else environment.captures_content()
        return Watch(
            subject,
            Settings(
                tracer=self._tracer(),
                instruments=self._measures(),
                content=content,
                agent=self._name or subject.options.agent or "claude-code",
                provider=environment.provider(variables),
                switches=environment.switches(variables) if self._cli else {},
            ),
        )

    def observe_run(self, fleet: str, concurrency: int) -> RunObservation:
        """Begin to observe a run of a fleet. Hackamore calls this.

        Args:
            fleet: the id of the journal.
            concurrency: agents that may run at the same time, at most.

        Returns:
            The object that makes the span and the metrics.
        """
        from hackamore.telemetry.fleets import RunSpans

        return RunSpans(self._tracer(), self._measures(), fleet, concurrency)

    def observe_attempt(self, facts: AttemptFacts, run: dict[str, str]) -> AttemptObservation:
        """Begin to observe an attempt at a task of a fleet. Hackamore calls this.

        Args:
            facts: the attempt.
            run: the trace context of the run.

        Returns:
            The object that makes the spans.
        """
        from hackamore.telemetry.fleets import AttemptSpans

        return AttemptSpans(self._tracer(), facts, run)

    def observe_pool(self) -> PoolObservation:
        """Begin to observe a session pool. Hackamore calls this.

        Returns:
            The object that makes the spans and the metrics.
        """
        from hackamore.telemetry.pools import PoolSpans

        return PoolSpans(self._tracer(), self._measures())

    def _tracer(self) -> Tracer:
        from opentelemetry import trace

        return (self._tracer_provider or trace.get_tracer_provider()).get_tracer(SCOPE, __version__)

    def _measures(self) -> Instruments:
        from opentelemetry import metrics

        from hackamore.telemetry.watch import Instruments

        meters = self._meter_provider or metrics.get_meter_provider()
        if not self._kept or self._kept[0][0] is not meters:  # the application may configure a provider later
            self._kept[:] = [(meters, Instruments(meters.get_meter(SCOPE, __version__)))]
        return self._kept[0][1]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the settings, for another process: it has providers of its own.

        Raises:
            TypeError: the object has providers, with threads and connections of this process.
        """
        if self._tracer_provider is not None or self._meter_provider is not None:
            raise TypeError("a `Telemetry` with providers belongs to its process")
        return partial(Telemetry, content=self._content, cli=self._cli, name=self._name), ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(content={self._content}, cli={self._cli}, name={self._name!r})"


def _check(argument: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"`{argument}` must be a {kind.__name__} or None, not {type(value).__name__}")


def _check_provider(argument: str, value: Any, method: str) -> None:
    if value is not None and (isinstance(value, type) or not callable(getattr(value, method, None))):
        raise TypeError(
            f"`{argument}` must be an object with the method `{method}`, or None, not {type(value).__name__}"
        )
