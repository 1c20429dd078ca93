"""Variables that telemetry gives to the CLI: the trace context, and the switches of the CLI's own telemetry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opentelemetry import propagate

from hackamore.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context

    from hackamore.options.options import Options

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = frozenset({"true", "1", "span_only", "span_and_event"})
_EXPORTERS = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER")
_SWITCHES = ("CLAUDE_CODE_ENABLE_TELEMETRY", "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA")
_PROVIDERS = {"CLAUDE_CODE_USE_BEDROCK": "aws.bedrock", "CLAUDE_CODE_USE_VERTEX": "gcp.vertex_ai"}


def captures_content() -> bool:
    """Return whether the variable of the conventions allows content in spans."""
    return os.environ.get(CAPTURE, "").strip().lower() in _CAPTURES


def provider(variables: Mapping[str, str]) -> str:
    """Return the provider that the CLI uses."""
    for name, value in _PROVIDERS.items():
        if variables.get(name, "").lower() in ("1", "true"):
            return value
    return "anthropic"


def check_exporters(variables: Mapping[str, str]) -> None:
    """Refuse, with `OptionsError`, exporters of the CLI's telemetry that write to its standard output: `console`."""
    for name in _EXPORTERS:
        if "console" in (part.strip().lower() for part in variables.get(name, "").split(",")):
            raise OptionsError(
                f"`telemetry` has `cli=True`, and {name} contains `console`: the CLI would write telemetry into its standard output, "
                f"which carries the protocol. Set `Options(env={{{name!r}: 'otlp'}})`.",
                field=f"env.{name}",
            )


def switches(variables: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that turn on the CLI's own telemetry; exporters that are set stay."""
    found: dict[str, str | None] = dict.fromkeys(_SWITCHES, "1")
    found.update({name: "otlp" for name in _EXPORTERS if name not in variables})
    return found


def trace_context(context: Context, options: Options) -> dict[str, str | None]:
    """Return the trace context as variables; nothing without a span. A `TRACEPARENT` of the options keeps its own `TRACESTATE`."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    if "traceparent" not in carrier or "TRACEPARENT" in options.env:
        return {}
    # Values that this process inherited belong to another span.
    found: dict[str, str | None] = {"TRACEPARENT": None, "TRACESTATE": None}
    found.update((name.upper(), value) for name, value in carrier.items())
    return found
