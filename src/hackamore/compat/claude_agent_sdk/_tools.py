"""`tool` and `create_sdk_mcp_server`: functions as tools of a server of the package `mcp`."""

from __future__ import annotations

import types
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin, is_typeddict

from hackamore.compat.claude_agent_sdk._shapes import McpSdkServerConfig
from hackamore.options.observing import logger

T = TypeVar("T")


@dataclass
class SdkMcpTool(Generic[T]):
    """A function that the model can call."""

    name: str
    description: str
    input_schema: type[T] | dict[str, Any]
    handler: Callable[[T], Awaitable[dict[str, Any]]]
    annotations: Any = None


def tool(
    name: str, description: str, input_schema: type | dict[str, Any], annotations: Any = None
) -> Callable[[Callable[[Any], Awaitable[dict[str, Any]]]], SdkMcpTool[Any]]:

    return lambda handler: SdkMcpTool(name, description, input_schema, handler, annotations)


_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


def _python_type_to_json_schema(py_type: Any) -> dict[str, Any]:
    """Return the JSON schema of a type; that of a string for a type that the official package does not know."""
    origin, args = get_origin(py_type), get_args(py_type)
    if origin in (typing.NotRequired, typing.Required) or getattr(origin, "_name", None) == "ReadOnly":
        return _python_type_to_json_schema(args[0])
    if origin is typing.Annotated:
        text = next((extra for extra in args[1:] if isinstance(extra, str)), None)
        described = {} if text is None else {"description": text}
        return {**_python_type_to_json_schema(args[0]), **described}
    if origin in (typing.Union, types.UnionType):
        some = [_python_type_to_json_schema(arg) for arg in args if arg is not types.NoneType]
        return some[0] if len(some) == 1 else {"anyOf": some}
    if origin is list and args:
        return {"type": "array", "items": _python_type_to_json_schema(args[0])}
    if is_typeddict(py_type):
        return _typeddict_to_json_schema(py_type)
    try:
        return {"type": _PLAIN[origin or py_type]}
    except (KeyError, TypeError):
        return {"type": "string"}


def _typeddict_to_json_schema(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _python_type_to_json_schema(hint) for name, hint in hints.items()},
    }
    required = sorted(getattr(kind, "__required_keys__", hints))
    return {**schema, "required": required} if required else schema


def _build_input_schema(definition: SdkMcpTool[Any]) -> dict[str, Any]:
    given = definition.input_schema
    if isinstance(given, dict):
        if isinstance(given.get("type"), str) and "properties" in given:
            return given
        properties = {name: _python_type_to_json_schema(hint) for name, hint in given.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
    return _typeddict_to_json_schema(given) if is_typeddict(given) else {"type": "object", "properties": {}}


def _converted(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return a content block as MCP has it; None, with a warning in the log, for one that cannot be shown."""
    match item.get("type"):
        case "text":
            return {"type": "text", "text": item["text"]}
        case "image":
            return {"type": "image", "data": item["data"], "mimeType": item["mimeType"]}
        case "resource_link":
            parts = [str(item[name]) for name in ("name", "uri", "description") if item.get(name)]
            return {"type": "text", "text": "\n".join(parts) or "Resource link"}
        case "resource":
            resource = item.get("resource") or {}
            if "text" in resource:
                return {"type": "text", "text": resource["text"]}
            logger.warning("Binary embedded resource cannot be converted to text, skipping")
        case other:
            logger.warning("Unsupported content type %r in tool result, skipping", other)
    return None


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: list[SdkMcpTool[Any]] | None = None
) -> McpSdkServerConfig:
    import jsonschema  # type: ignore[import-untyped]
    from mcp.types import Tool

    known = {each.name: each for each in tools or ()}
    schemas = {each.name: _build_input_schema(each) for each in tools or ()}
    wire = []
    for each in tools or ():
        size = getattr(each.annotations, "maxResultSizeChars", None)
        fields = {
            "name": each.name,
            "description": each.description,
            "inputSchema": schemas[each.name],
            "annotations": each.annotations,
            "_meta": None if size is None else {"anthropic/maxResultSizeChars": size},
        }
        wire.append(Tool.model_validate(fields))

    async def run(called: str, arguments: dict[str, Any]) -> Any:
        if called not in known:
            return _result([{"type": "text", "text": f"Tool '{called}' not found"}], failed=True)
        try:
            try:
                jsonschema.validate(instance=arguments, schema=schemas[called])
            except jsonschema.ValidationError as error:
                return _result([{"type": "text", "text": f"Input validation error: {error.message}"}], failed=True)
            result = await known[called].handler(arguments)
            blocks = [block for block in map(_converted, result.get("content", [])) if block is not None]
            return _result(blocks, failed=result.get("is_error", False))
        except Exception as error:
            return _result([{"type": "text", "text": str(error)}], failed=True)

    return McpSdkServerConfig(type="sdk", name=name, instance=_server(name, version, wire, run))


def _result(content: list[dict[str, Any]], *, failed: bool) -> Any:
    from mcp.types import CallToolResult

    return CallToolResult.model_validate({"content": content, "isError": failed})


def _server(name: str, version: str, tools: list[Any], run: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> Any:
    import mcp.types
    from mcp.server import Server

    if hasattr(mcp.types, "jsonrpc_message_adapter"):

        async def on_list_tools(_context: Any, _params: Any) -> Any:
            return mcp.types.ListToolsResult(tools=tools)

        async def on_call_tool(_context: Any, params: Any) -> Any:
            return await run(params.name, params.arguments or {})

        return Server(name, version=version, on_list_tools=on_list_tools, on_call_tool=on_call_tool)

    server: Any = Server(name, version=version)

    async def list_tools() -> Any:
        return tools

    async def call_tool(called: str, arguments: dict[str, Any]) -> Any:
        return await run(called, arguments or {})

    server.list_tools()(list_tools)
    server.call_tool(validate_input=False)(call_tool)
    return server
