"""Print the spans of an agent: the caller's, a turn, responses of the model, and a tool with a span of its own.

Needs `hackamore[otel]` and `opentelemetry-sdk`.
"""

# scripted: Reply(ToolCall("mcp__shop__price", {"article": "tea"})), Reply("Tea costs 2.50.")

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import hackamore.sync
from hackamore import Options, Telemetry, tool

kept = InMemorySpanExporter()  # a service exports to its collector instead
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
tracer = provider.get_tracer("shop")


@tool
def price(article: str) -> float:
    """Return the price of an article."""
    with tracer.start_as_current_span("look up the price") as span:
        span.set_attribute("shop.article", article)
        return 2.5


def main() -> None:
    options = Options(
        mcp_servers={"shop": [price]},
        allowed_tools=["mcp__shop__price"],
        telemetry=Telemetry(tracer_provider=provider, name="shopkeeper"),
    )
    with tracer.start_as_current_span("handle a request"):
        print(hackamore.sync.run("What does tea cost?", options).text)

    spans = kept.get_finished_spans()
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        attributes = dict(span.attributes or {})
        tokens = attributes.get("gen_ai.usage.input_tokens", "")
        print(f"{span.name:35} below {'nothing' if span.parent is None else f'{span.parent.span_id:016x}'} {tokens}")
    names = {span.name for span in spans}
    assert {"handle a request", "invoke_agent shopkeeper", "look up the price"} <= names


if __name__ == "__main__":
    main()
