"""A server of tools inside the process: answers MCP's JSON-RPC messages, and waits for nothing.

`ToolServer.handle` answers immediately if no wait is needed. A call of a tool becomes a `ToolCallPlan`: the driver of the server runs
the function, on its own terms (timeouts, threads, cancellation), and the plan turns the outcome into the answer. Neither raises
for what the peer sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hackamore._version import __version__
from hackamore.errors import OptionsError, escape_terminal, text_of
from hackamore.tools.arguments import ArgumentsError
from hackamore.tools.content import cancelled_result, error_result, result_of, without_surrogates
from hackamore.tools.declared import Tool, ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "CancelledCall",
    "ServerKind",
    "ToolCallPlan",
    "ToolServer",
    "mcp_instance",
    "rpc_error",
    "server_kind",
    "tool_server",
]

PROTOCOLS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of MCP that are spoken, oldest first; for tools they differ in nothing that matters here."""

LATEST_PROTOCOL = PROTOCOLS[-1]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

# Where the CLI says which `tool_use` block a call belongs to.
_TOOL_USE_ID = "claudecode/toolUseId"


class CancelledCall(dict[str, Any]):
    """The acknowledgement of `notifications/cancelled`, and the id of the call that the CLI no longer waits for.

    Attributes:
        request_id: the JSON-RPC id of the call.
        reason: why, if that was said.
    """

    def __init__(self, request_id: Any, reason: str | None) -> None:
        super().__init__(_acknowledgement())
        self.request_id = request_id
        self.reason = reason


class ToolCallPlan:
    """A call that is ready to be made: the arguments fit.

    Attributes:
        request_id: the JSON-RPC id that the answer carries.
        tool: the tool.
        arguments: the keyword arguments of the function, converted.
        context: facts about the call; present even if the function does not take them.
        is_async: True if `call()` gives a coroutine. False: run it in a worker thread.
    """

    __slots__ = ("arguments", "context", "is_async", "request_id", "tool")

    def __init__(
        self, request_id: str | float, tool: Tool[..., Any], arguments: dict[str, Any], context: ToolContext
    ) -> None:
        self.request_id: str | float = request_id
        self.tool: Tool[..., Any] = tool
        self.arguments: dict[str, Any] = arguments
        self.context: ToolContext = context
        self.is_async: bool = tool.is_async

    def call(self) -> Any:
        """Call the function. Its exceptions are raised here.

        Returns:
            The return value of the function; an awaitable if `is_async`.
        """
        return self.tool.function(**self.arguments)

    def finish(self, outcome: object) -> dict[str, Any]:
        """Return the JSON-RPC answer for a return value or an exception of the function. Never raises.

        Args:
            outcome: the return value, or the exception.

        Returns:
            The JSON-RPC answer.
        """
        result = result_of(outcome, promised=self.tool.output_schema is not None, tool=self.tool.name)
        return {"jsonrpc": "2.0", "id": self.request_id, "result": result}

    def fail(self, message: str) -> dict[str, Any]:
        """Return the answer for a call that failed for a reason outside the function, such as a timeout or a full queue.

        Args:
            message: the reason, for the model.

        Returns:
            The JSON-RPC answer.
        """
        return {"jsonrpc": "2.0", "id": self.request_id, "result": error_result(message)}

    def cancel(self) -> dict[str, Any]:
        """Set `context.cancelled` for the function.

        Returns:
            The JSON-RPC answer for a cancelled call.
        """
        self.context.cancel()
        return {"jsonrpc": "2.0", "id": self.request_id, "result": cancelled_result()}

    def __repr__(self) -> str:
        return f"ToolCallPlan({self.tool.name!r}, request_id={self.request_id!r})"


class ToolServer:
    """Tools under one name, for `Options(mcp_servers={name: server})`. Made by `tool_server`.

    It keeps no state between messages: one server serves any number of sessions at the same time.

    Args:
        name: the name that the server reports.
        tools: tools made by `@tool`, or plain functions.
        version: the version, for people; None for the version of Hackamore.
        instructions: a text for the model about the tools together; None for no text.

    Attributes:
        name: the name that it reports. The model sees the name under which it is registered in the options.
        version: its version, for people.
        instructions: a text for the model about the tools together.
        tools: the tools, by name.

    Raises:
        OptionsError: the name is empty, two tools have one name, or a value has an unsupported type.
    """

    def __init__(self, name: Any, tools: Any = (), *, version: Any = None, instructions: Any = None) -> None:
        if not isinstance(name, str) or not name:
            raise OptionsError(f"A tool server needs a name, not {name!r}.", field="name")
        for field, text in (("version", version), ("instructions", instructions)):
            if text is not None and not isinstance(text, str):
                raise OptionsError(f"`{field}` must be a text, not {type(text).__name__}.", field=field)
        self.name: str = name
        self.version: str = version or __version__
        self.instructions: str | None = instructions
        self.tools: dict[str, Tool[..., Any]] = {}
        if isinstance(tools, Tool) or not hasattr(tools, "__iter__"):
            raise OptionsError("`tools` must be a list of tools.", field="tools")
        for entry in tools:
            tool = _as_tool(entry)
            if tool.name in self.tools:
                raise OptionsError(f"Tool server `{name}` has two tools called `{tool.name}`.", field="tools")
            self.tools[tool.name] = tool
        self._list = {"tools": [tool.definition for tool in self.tools.values()]}

    def handle(
        self, message: object, *, session: Any = None, notify: Callable[[dict[str, Any]], object] | None = None
    ) -> dict[str, Any] | ToolCallPlan:
        """Answer a JSON-RPC message, or plan the call that it asks for. Never raises.

        Args:
            message: the decoded message, or its bytes or text.
            session: the value of `ToolContext.session`.
            notify: takes the notifications that a tool sends while it works (progress), from any thread.

        Returns:
            The answer; for notifications an empty one, which is what the CLI wants as an acknowledgement (`CancelledCall` for
            `notifications/cancelled`). Or the plan of a call.
        """
        try:
            if isinstance(message, bytes | bytearray | memoryview | str):
                try:
                    message = _decoded(message)
                except (ValueError, RecursionError) as error:
                    return rpc_error(None, PARSE_ERROR, f"Not JSON: {escape_terminal(str(error), 300)}")
            return self._handle(message, session, notify)
        except KeyboardInterrupt:
            raise
        except (
            BaseException
        ) as error:  # types of users check the arguments: `SystemExit` in them is a failure like others
            from hackamore.runtime.log import logger

            logger.error("tool server %r: a message could not be handled", self.name, exc_info=error)
            identifier = message.get("id") if isinstance(message, dict) else None
            if not _is_id(identifier):
                identifier = None
            return rpc_error(
                identifier, INTERNAL_ERROR, f"{type(error).__name__}: {escape_terminal(text_of(error), 300)}"
            )

    def _handle(
        self, message: object, session: Any, notify: Callable[[dict[str, Any]], object] | None
    ) -> dict[str, Any] | ToolCallPlan:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return rpc_error(None, INVALID_REQUEST, "Not a JSON-RPC 2.0 message.")
        method = message.get("method")
        if not isinstance(method, str):
            if "method" not in message and ("result" in message or "error" in message):
                return _acknowledgement()  # a response without a request
            return rpc_error(None, INVALID_REQUEST, "`method` must be a text.")
        params = message.get("params")
        if "id" not in message:
            if method == "notifications/cancelled" and isinstance(params, dict):
                reason = params.get("reason")
                return CancelledCall(params.get("requestId"), reason if isinstance(reason, str) else None)
            return _acknowledgement()
        identifier: Any = message["id"]
        if not _is_id(identifier):
            return rpc_error(None, INVALID_REQUEST, "`id` must be a text without lone surrogates, or a finite number.")
        if params is None:
            params = {}
        if not isinstance(params, dict):
            return rpc_error(identifier, INVALID_PARAMS, "`params` must be an object.")
        match method:
            case "tools/call":
                return self._call(identifier, params, session, notify)
            case "tools/list":
                if params.get("cursor") is not None:
                    return rpc_error(identifier, INVALID_PARAMS, "Unknown cursor: the list has one page.")
                result = self._list
            case "initialize":
                result = self._initialized(params)
            case "ping":
                result = {}
            case _:
                return rpc_error(identifier, METHOD_NOT_FOUND, f"Method not found: {escape_terminal(method, 200)}")
        return {"jsonrpc": "2.0", "id": identifier, "result": result}

    def _initialized(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        result: dict[str, Any] = {
            "protocolVersion": wanted if wanted in PROTOCOLS else LATEST_PROTOCOL,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self.name, "version": self.version},
        }
        if self.instructions:
            result["instructions"] = self.instructions
        return result

    def _call(
        self,
        identifier: str | float,
        params: dict[str, Any],
        session: Any,
        notify: Callable[[dict[str, Any]], object] | None,
    ) -> dict[str, Any] | ToolCallPlan:
        name = params.get("name")
        if not isinstance(name, str):
            return rpc_error(identifier, INVALID_PARAMS, "`params.name` must be a text.")
        tool = self.tools.get(name)
        if tool is None:
            known = ", ".join(f"`{entry}`" for entry in self.tools) or "none"
            return _answered(
                identifier, error_result(f"There is no tool `{escape_terminal(name, 200)}`. The tools are: {known}.")
            )
        arguments = params.get("arguments")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            return _answered(identifier, error_result(f"Bad arguments for `{name}`: they must be an object."))
        try:
            converted = tool.convert(arguments)
        except ArgumentsError as error:
            return _answered(identifier, error_result(f"Bad arguments for `{name}`: {error}"))
        meta = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        tool_use_id = meta.get(_TOOL_USE_ID)
        context = ToolContext(
            tool_use_id=tool_use_id if isinstance(tool_use_id, str) else None,
            session=session,
            server=self.name,
            tool=name,
            request_id=identifier,
            meta=meta,
            notify=notify,
        )
        if tool.context_parameter is not None:
            converted[tool.context_parameter] = context
        return ToolCallPlan(identifier, tool, converted, context)

    def __repr__(self) -> str:
        return f"ToolServer({self.name!r}, [{', '.join(self.tools)}])"


def tool_server(
    name: str,
    tools: Iterable[Tool[..., Any] | Callable[..., Any]] = (),
    version: str | None = None,
    instructions: str | None = None,
) -> ToolServer:
    """Combine tools into a server: `Options(mcp_servers={"name": tool_server("name", [...])})`.

    Args:
        name: the name that the server reports. The model sees the name in the options.
        tools: tools made by `@tool`, or plain functions.
        version: the version, for people; None for the version of Hackamore.
        instructions: a text for the model about the tools together; None for no text.

    Returns:
        The server.

    Raises:
        OptionsError: two tools have one name, one is a method without its object, or an entry is not a tool.

    Example:
        ::

            shop = tool_server("shop", [price, stock])
            options = Options(mcp_servers={"shop": shop})
    """
    return ToolServer(name, tools, version=version, instructions=instructions)


def rpc_error(identifier: str | float | None, code: int, message: str) -> dict[str, Any]:
    """Return a JSON-RPC error.

    Args:
        identifier: the id of the request; None if it has none.
        code: the error code of JSON-RPC.
        message: the reason.

    Returns:
        The answer.
    """
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": message}}


def _as_tool(entry: Any) -> Tool[..., Any]:
    inner = getattr(entry, "__func__", None)
    if isinstance(inner, Tool):  # a class method, from Python 3.13 on
        entry = inner.__get__(entry.__self__)
    made: Any = entry
    if not isinstance(entry, Tool):
        if not callable(entry) or isinstance(entry, type):
            raise OptionsError(
                f"`tools` must hold what `@tool` made, not {type(entry).__name__} ({entry!r:.80}).", field="tools"
            )
        from hackamore.tools.declared import tool

        made = tool(entry)
    found: Tool[..., Any] = made
    if found.is_unbound:
        raise OptionsError(
            f"Tool `{found.name}` is a method: take it from an object (`[thing.{found.name}]`), not from its class.",
            field="tools",
        )
    return found


def _answered(identifier: str | float, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "result": result}


def _acknowledgement() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "result": {}}


def _is_id(value: object) -> bool:
    """Return whether a value is an id that an answer can repeat: JSON has no lone surrogates and no infinity."""
    if isinstance(value, str):
        return without_surrogates(value) is value
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and isfinite(value))


def _decoded(message: bytes | bytearray | memoryview | str) -> Any:
    try:
        return msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeError):
        import json

        # Lone surrogates, which JavaScript writes where it cuts a text, and numbers out of range.
        value = json.loads(bytes(message) if isinstance(message, memoryview) else message, parse_constant=_not_json)
        if (
            isinstance(value, dict) and "params" in value
        ):  # an id is left as it is: a repaired one would be another call's
            value["params"] = json.loads(without_surrogates(json.dumps(value["params"], ensure_ascii=False)))
        return value


def _not_json(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


ServerKind = Literal["tools", "mcp", "callable", "external", "unknown"]

_PACKAGES = frozenset({"mcp", "fastmcp"})
_CLASSES = frozenset({"Server", "FastMCP", "MCPServer"})
_EXTERNAL = frozenset({"stdio", "sse", "http", "ws", "claudeai-proxy"})


def server_kind(server: object) -> ServerKind:
    """Return the kind of an entry of `mcp_servers`.

    Args:
        server: the entry.

    Returns:
        `"tools"`: a `ToolServer`. `"mcp"`: a server object of the `mcp` package (low-level or FastMCP), also inside the dict
        `{"type": "sdk", "instance": ...}`. `"callable"`: a function from one JSON-RPC dict to one. `"external"`: a config of
        a server that the CLI reaches itself. `"unknown"`: none of these.
    """
    if isinstance(server, Mapping):
        kind = server.get("type")
        if kind == "sdk":
            inner = server_kind(server.get("instance"))
            return inner if inner != "external" else "unknown"
        return "external" if kind in _EXTERNAL or (kind is None and "command" in server) else "unknown"
    if isinstance(server, ToolServer):
        return "tools"
    mro = type(server).__mro__
    if any(kind.__name__ in _CLASSES and kind.__module__.partition(".")[0] in _PACKAGES for kind in mro):
        return "mcp"
    if getattr(server, "type", None) in _EXTERNAL and not callable(server):
        return "external"
    return "callable" if callable(server) and not isinstance(server, type) else "unknown"


def mcp_instance(server: Any) -> Any:
    """Return the low-level server of an entry whose kind is `"mcp"`.

    Args:
        server: an entry of `mcp_servers`.

    Returns:
        The server object; for FastMCP the one that it contains.
    """
    if isinstance(server, Mapping):
        server = server["instance"]
    for name in ("_mcp_server", "_lowlevel_server"):
        inner = getattr(server, name, None)
        if inner is not None:
            return inner
    return server
