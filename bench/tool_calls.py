"""What an in-process tool costs: `python bench/tool_calls.py`; beside the official package where that is installed.

A call is everything between the JSON-RPC message and its answer: arguments checked and converted, the function run, the result made.
The official package is asked by its own bridge (`SdkMcpBridge`), which is how its sessions serve a call.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import timeit
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.tools import ToolCallPlan, tool, tool_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.tools import ToolServer


@dataclasses.dataclass
class Part:
    name: str
    amount: int
    price: float
    tags: list[str]
    more: dict[str, int]


@dataclasses.dataclass
class Order:
    first: Part
    parts: list[Part]
    note: str | None = None
    urgent: bool = False


PART = {"name": "bolt", "amount": 3, "price": 1.5, "tags": ["a", "b"], "more": {"x": 1}}
ORDER = {"first": PART, "parts": [PART] * 3, "note": "soon"}


@tool
def small(a: int, b: str = "x") -> str:
    """Two arguments."""
    return b


def _large() -> Any:
    """A tool with 30 parameters, every third of which is an object with objects in it."""
    kinds = {0: Order, 1: int, 2: "str | None"}
    parameters = ", ".join(
        f"p{number}: {kind.__name__ if isinstance(kind, type) else kind}"
        for number in range(30)
        for kind in [kinds[number % 3]]
    )
    names: dict[str, Any] = {"Order": Order}
    exec(f"def large({parameters}) -> str: return 'done'", names)
    return tool(names["large"])


LARGE = _large()
SMALL_ARGUMENTS: dict[str, Any] = {"a": 1}
LARGE_ARGUMENTS: dict[str, Any] = {f"p{number}": (ORDER, number, "text")[number % 3] for number in range(30)}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": {"claudecode/toolUseId": "toolu_1", "progressToken": 2}}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


def microseconds(function: Callable[[], object], times: int) -> float:
    return min(timeit.repeat(function, number=times, repeat=5)) / times * 1e6


def ours(server: ToolServer, message: dict[str, Any] | bytes) -> Callable[[], object]:
    def once() -> object:
        planned = server.handle(message)
        assert isinstance(planned, ToolCallPlan), planned
        return planned.finish(planned.call())

    return once


def official(message: dict[str, Any]) -> float:
    """Return the microseconds that the official package needs for the same call."""
    import asyncio
    from time import perf_counter

    from claude_agent_sdk import create_sdk_mcp_server  # type: ignore[import-not-found]
    from claude_agent_sdk import tool as official_tool
    from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge  # type: ignore[import-not-found]

    tools = []
    for declared in (small, LARGE):

        async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": "done"}]}

        tools.append(official_tool(declared.name, declared.description, declared.input_schema)(handler))
    server = create_sdk_mcp_server("bench", tools=tools)["instance"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}

    async def run() -> float:
        bridge = SdkMcpBridge("bench", server)
        try:
            await bridge.handle({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
            await bridge.handle({"jsonrpc": "2.0", "method": "notifications/initialized"})
            taken = []
            for number in range(1, 41):
                started = perf_counter()
                answer = await bridge.handle({**message, "id": number})
                taken.append(perf_counter() - started)
                assert not answer["result"].get("isError"), answer
            return sorted(taken)[len(taken) // 2] * 1e6
        finally:
            await bridge.aclose()

    return asyncio.run(run())


def main() -> None:
    server = tool_server("bench", [small, LARGE])
    beside = importlib.util.find_spec("claude_agent_sdk") is not None
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    print(f"{'':34}{'hackamore':>10}{'official':>10}   us")
    for name, message, times in (
        ("call, 2 parameters", call("small", SMALL_ARGUMENTS), 20_000),
        ("call, 30 parameters with objects", call("large", LARGE_ARGUMENTS), 2_000),
    ):
        theirs = f"{official(message):10.0f}" if beside else f"{'-':>10}"
        print(f"{name:34}{microseconds(ours(server, message), times):10.1f}{theirs}")
        raw = json.dumps(message).encode()
        undecoded = ours(server, raw)
        whole = microseconds(lambda once=undecoded: msgspec.json.encode(once()), times)  # type: ignore[misc]
        print(f"{'  the same from and to bytes':34}{whole:10.1f}")
    print(f"{'tools/list, answered':34}{microseconds(lambda: server.handle(listing), 20_000):10.1f}")
    print(
        f"{'tools/list, answered and encoded':34}{microseconds(lambda: msgspec.json.encode(server.handle(listing)), 2_000):10.1f}"
    )
    print(f"{'declaring the large tool':34}{microseconds(_large, 20):10.0f}")


if __name__ == "__main__":
    main()
