"""Talking to a tool server in tests."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hackamore.tools import ToolCallPlan, ToolServer, tool_server

if TYPE_CHECKING:
    from collections.abc import Coroutine


def request(method: str, params: Any = None, identifier: Any = 1) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": identifier, "method": method}
    return message if params is None else {**message, "params": params}


def call_request(name: str, arguments: Any = None, meta: Any = None) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": meta}
    return request("tools/call", {key: value for key, value in params.items() if value is not None})


def plan(server: ToolServer | Any, arguments: Any = None, name: str | None = None, **more: Any) -> ToolCallPlan:
    if not isinstance(server, ToolServer):
        server = tool_server("server", [server])
    meta = more.pop("meta", None)
    planned = server.handle(call_request(name or next(iter(server.tools)), arguments, meta), **more)
    assert isinstance(planned, ToolCallPlan), planned
    return planned


def outcome(planned: ToolCallPlan) -> Any:
    """What the function gives, run to its end; coroutines must not wait for anything."""
    value = planned.call()
    if not inspect.iscoroutine(value):
        return value
    return run(value)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the coroutine waits")


def result(server: ToolServer | Any, arguments: Any = None, name: str | None = None) -> dict[str, Any]:
    """The MCP result of a call, as a driver of the server would make it."""
    if not isinstance(server, ToolServer):
        server = tool_server("server", [server])
    planned = server.handle(call_request(name or next(iter(server.tools)), arguments))
    if isinstance(planned, ToolCallPlan):
        try:
            answer = planned.finish(outcome(planned))
        except Exception as error:
            answer = planned.finish(error)
    else:
        answer = planned
    assert answer.keys() == {"jsonrpc", "id", "result"}
    return dict(answer["result"])


def error_text(server: ToolServer | Any, arguments: Any = None, name: str | None = None) -> str:
    given = result(server, arguments, name)
    assert given["isError"] is True
    return str(given["content"][0]["text"])
