"""A program on the official Python package. Prints what its user sees: a JSON array on each line."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

EVENTS = json.loads(os.environ["PEER_EVENTS"])
SCHEMA = json.loads(os.environ["PEER_SCHEMA"])


def say(*values: Any) -> None:
    print(json.dumps(values), flush=True)


def options(**more: Any) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(cli_path=os.environ["PEER_PROGRAM"], stderr=lambda line: None, **more)


def block_of(block: Any) -> Any:
    fields = {name: value for name, value in vars(block).items() if name not in ("id", "tool_use_id", "signature")}
    return [type(block).__name__, fields]


def show(message: Any) -> None:
    match message:
        case AssistantMessage():
            inner = message.parent_tool_use_id is not None
            say("assistant", message.model, inner, message.error, [block_of(block) for block in message.content])
        case UserMessage():
            content = message.content
            shown = content if isinstance(content, str) else [block_of(block) for block in content]
            say("user", message.parent_tool_use_id is not None, shown)
        case ResultMessage():
            say(
                "result",
                message.subtype,
                message.is_error,
                message.num_turns,
                message.result,
                message.structured_output,
            )
            say("cost", round(message.total_cost_usd or 0, 6), message.stop_reason, message.errors)
            say("denials", [each["tool_name"] for each in message.permission_denials or []])
        case StreamEvent():
            say("stream", message.event["type"], message.event.get("delta"))
        case SystemMessage():
            say("system", message.subtype, type(message).__name__)
        case _:
            say("other", type(message).__name__)


async def show_turn(client: ClaudeSDKClient, prompt: str) -> None:
    await client.query(prompt)
    async for message in client.receive_response():
        show(message)


async def show_query(**more: Any) -> str | None:
    session_id = None
    async for message in query(prompt=more.pop("prompt", "go"), options=options(**more)):
        show(message)
        if isinstance(message, ResultMessage):
            session_id = message.session_id
    return session_id


async def query_() -> None:
    await show_query()


async def session() -> None:
    async with ClaudeSDKClient(options()) as client:
        await show_turn(client, "one")
        await show_turn(client, "two")


async def hooks() -> None:
    seen: list[Any] = []

    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        kept = {"tool_name", "tool_input", "prompt", "source", "reason", "agent_type", "stop_hook_active", "error"}
        seen.append([given["hook_event_name"], {name: given[name] for name in sorted(kept & given.keys())}])
        return {}

    matchers: Any = {event: [HookMatcher(hooks=[hook])] for event in EVENTS}
    async with ClaudeSDKClient(options(hooks=matchers, permission_mode="bypassPermissions")) as client:
        await show_turn(client, "go")
        await show_turn(client, "more")
    for each in sorted(seen, key=json.dumps):  # hooks of different events race with each other
        say("hook", *each)


async def misnamed() -> None:
    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "permissionDecision": "allow"}}

    async with ClaudeSDKClient(options(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]})) as client:
        await show_turn(client, "go")


async def permissions() -> None:
    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        say("asked", name, given)
        if given["command"] == "touch one":
            return PermissionResultAllow(updated_input={"command": "touch other"})
        if given["command"] == "touch two":
            return PermissionResultDeny(message="Not two.")
        raise RuntimeError("the user's own error")

    async with ClaudeSDKClient(options(can_use_tool=decide)) as client:
        await show_turn(client, "go")


async def tools() -> None:
    @tool("price", "The price of an article.", {"article": str})  # type: ignore[untyped-decorator]
    async def price(given: dict[str, Any]) -> dict[str, Any]:
        say("called", given)
        if given["article"] == "gold":
            return {"content": [{"type": "text", "text": "not for sale"}], "is_error": True}
        return {"content": [{"type": "text", "text": "2.5"}]}

    @tool("broken", "Fails.", {})  # type: ignore[untyped-decorator]
    async def broken(given: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("a bug")

    server = create_sdk_mcp_server("shop", tools=[price, broken])
    more: Any = {"mcp_servers": {"shop": server}, "allowed_tools": ["mcp__shop__price", "mcp__shop__broken"]}
    async with ClaudeSDKClient(options(**more)) as client:
        await show_turn(client, "go")
        status = await client.get_mcp_status()
        say("status", [[each["name"], each["status"]] for each in status["mcpServers"]])


async def partial() -> None:
    await show_query(include_partial_messages=True)


async def structured() -> None:
    await show_query(output_format={"type": "json_schema", "schema": SCHEMA})


async def interrupt() -> None:
    async with ClaudeSDKClient(options(include_partial_messages=True)) as client:
        await client.query("go")
        asked = False
        async for message in client.receive_response():
            show(message)
            if isinstance(message, StreamEvent) and "delta" in message.event and not asked:
                asked = True
                await client.interrupt()
        await show_turn(client, "again")


async def control() -> None:
    async with ClaudeSDKClient(options()) as client:
        await show_turn(client, "one")
        await client.set_permission_mode("acceptEdits")
        await client.set_model("claude-sonnet-5-5")
        info: Any = await client.get_server_info() or {}
        say("info", sorted({"commands", "models", "output_style", "account"} & info.keys()))
        usage: Any = await client.get_context_usage()
        say("usage", sorted(usage.keys() & {"totalTokens", "maxTokens", "categories"}))
        for operation in (
            client.toggle_mcp_server("never", False),
            client.stop_task("never"),
            client.rewind_files("never"),
            client.set_permission_mode("nonsense"),
        ):
            try:
                await operation
                say("done")
            except Exception as error:
                say("refused", type(error).__name__, str(error))
        await show_turn(client, "two")


async def subagents() -> None:
    agents = {"scout": AgentDefinition(description="Looks.", prompt="You look.")}
    await show_query(agents=agents, permission_mode="bypassPermissions")


async def resume() -> None:
    first = await show_query(prompt="one")
    second = await show_query(prompt="two", resume=first)
    say("same", first == second)
    third = await show_query(prompt="three", resume=first, fork_session=True)
    say("forked", first != third)


async def errors() -> None:
    for more in ({}, {"prompt": "on", "max_turns": 1, "permission_mode": "bypassPermissions"}, {"resume": UNKNOWN}):
        try:
            await show_query(**more)
        except ClaudeSDKError as error:
            say("raised", type(error).__name__, str(error))
        except Exception as error:
            say("raised another", type(error).__name__, str(error))


UNKNOWN = "00000000-0000-4000-8000-000000000000"

if __name__ == "__main__":
    wanted = sys.argv[1]
    anyio.run(query_ if wanted == "query" else globals()[wanted])
