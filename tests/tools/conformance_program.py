"""The tools that the conformance suite of MCP calls, on standard streams."""

from __future__ import annotations

from typing import Any

import anyio

from hackamore.sync import serve_stdio
from hackamore.tools import Audio, EmbeddedResource, Image, ToolContext, ToolError, tool, tool_server

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
WAV = bytes.fromhex("524946462400000057415645666d74201000000001000100401f0000803e0000020010006461746100000000")
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}},
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


@tool
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Image:
    """Return an image."""
    return Image(PNG)


@tool
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(WAV)


@tool
def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return EmbeddedResource("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool
def test_multiple_content_types() -> list[Any]:
    """Return a text, an image and a resource."""
    resource = EmbeddedResource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return ["Multiple content types test:", Image(PNG), resource]


@tool
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        context.report_progress(done, 100)
        await anyio.sleep(0.05)
    return "done"


@tool(input_schema=SCHEMA)
def json_schema_2020_12_tool(arguments: dict[str, Any]) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return str(arguments)


if __name__ == "__main__":
    tools: list[Any] = [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_error_handling,
    ]
    tools += [test_multiple_content_types, test_tool_with_progress, json_schema_2020_12_tool]
    serve_stdio(tool_server("conformance", tools))
