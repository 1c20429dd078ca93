"""A program for both packages: `programs.py SCENARIO CLI CWD` prints each message of a scenario as a line of JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
from claude_agent_sdk import (  # type: ignore[import-not-found,unused-ignore]
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    create_sdk_mcp_server,
    query,
    tool,
)

CLI, CWD = sys.argv[2:4]


def options(**more: Any) -> Any:
    return ClaudeAgentOptions(cli_path=CLI, cwd=CWD, **more)


def show(kind: str, value: Any) -> None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind, value = type(value).__name__, dataclasses.asdict(value)
    print(json.dumps([kind, value], default=str), flush=True)


async def frames(*texts: str) -> AsyncIterator[dict[str, Any]]:
    for text in texts:
        yield {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None}


async def show_query(prompt: Any, given: Any) -> None:
    try:
        async for message in query(prompt=prompt, options=given):
            show("", message)
    except Exception as error:
        show("raised", [type(error).__name__, str(error)])


async def text() -> None:
    await show_query("What is 2 + 2?", options())


async def partial() -> None:
    await show_query("What is 2 + 2?", options(include_partial_messages=True, system_prompt="Answer."))


async def streamed() -> None:
    await show_query(frames("one"), options(max_turns=3))


async def hooked() -> None:
    async def before(data: Any, tool_use_id: Any, context: Any) -> Any:
        show("hook", [data["hook_event_name"], data["tool_name"], data["tool_input"], context])
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "Noted."}}

    async def decide(name: str, given: Any, context: Any) -> Any:
        show("permission", [name, given, type(context).__name__, len(context.suggestions)])
        return PermissionResultDeny(message="Not this one.") if "rm" in str(given) else PermissionResultAllow()

    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[before])]}
    await show_query("go", options(hooks=hooks, can_use_tool=decide))


async def served() -> None:
    @tool("add", "Adds.", {"a": float, "b": float})  # type: ignore[untyped-decorator,unused-ignore]
    async def add(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}

    servers = {"maths": create_sdk_mcp_server("maths", tools=[add])}
    await show_query("go", options(mcp_servers=servers, allowed_tools=["mcp__maths__add"]))


async def conversation() -> None:
    async with ClaudeSDKClient(options(model="sonnet")) as client:
        info = await client.get_server_info()
        show("info", sorted(info or {}))
        for prompt in ("one", "two"):
            await client.query(prompt)
            async for message in client.receive_response():
                show("", message)
        await client.set_permission_mode("acceptEdits")
        await client.set_model("haiku")
        show("status", sorted(await client.get_mcp_status()))
        try:
            await client.rewind_files("00000000-0000-4000-8000-000000000000")
        except Exception:
            show("refused", "rewind_files")


async def failed() -> None:
    await show_query("go", options())


async def unknown() -> None:
    try:
        async for message in query(prompt="go", options=options(resume="00000000-0000-4000-8000-000000000000")):
            show("", message)
    except Exception as error:
        show("raised", [type(error).__name__, str(error).partition(":")[0]])


if __name__ == "__main__":
    anyio.run(globals()[sys.argv[1]])
