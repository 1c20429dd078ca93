"""Clients and queries of the layer, with the simulated CLI in the place of the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hackamore.compat import use
from hackamore.compat.claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultError,
    ResultMessage,
    SystemMessage,
    TextBlock,
    create_sdk_mcp_server,
    query,
    tool,
)
from hackamore.testing import Script, SimulatedCLI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


def texts(messages: list[Any]) -> list[str]:
    blocks = [block for message in messages if isinstance(message, AssistantMessage) for block in message.content]
    return [block.text for block in blocks if isinstance(block, TextBlock)]


async def test_a_query_gives_the_messages_of_its_run() -> None:
    script = Script()
    script.user("What is 2 + 2?")
    script.says("4.")
    with SimulatedCLI(script) as cli:
        use(transport=cli)
        messages = [message async for message in query(prompt="What is 2 + 2?")]
    assert texts(messages) == ["4."]
    assert isinstance(messages[0], SystemMessage)
    assert messages[0].subtype == "init"
    assert isinstance(messages[-1], ResultMessage)
    assert messages[-1].result == "4."


async def test_a_query_takes_frames_while_it_runs() -> None:
    async def frames() -> AsyncIterator[dict[str, Any]]:
        for text in ("one", "two"):
            yield {"type": "user", "message": {"role": "user", "content": text}}

    script = Script()
    for text in ("one", "two"):
        script.user(text)
        script.says(text.upper())
    with SimulatedCLI(script) as cli:
        use(transport=cli)
        messages = [message async for message in query(prompt=frames())]
    assert texts(messages) == ["ONE", "TWO"]


async def test_a_client_converses() -> None:
    script = Script()
    for text in ("one", "two"):
        script.user(text)
        script.says(text.upper())
    with SimulatedCLI(script) as cli:
        use(transport=cli)
        async with ClaudeSDKClient() as client:
            await client.query("one")
            assert texts([message async for message in client.receive_response()]) == ["ONE"]
            await client.query("two")
            assert texts([message async for message in client.receive_response()]) == ["TWO"]
            info = await client.get_server_info()
            assert info is not None
            assert "commands" in info
    with pytest.raises(CLIConnectionError, match="Not connected"):
        await client.query("three")


async def test_callbacks_get_the_arguments_of_the_official_package() -> None:
    seen: list[Any] = []

    async def watch(data: Any, tool_use_id: str | None, context: Any) -> Any:
        seen.append((data["hook_event_name"], data["tool_name"], bool(tool_use_id), context))
        return {}

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        seen.append((name, given, type(context).__name__))
        return PermissionResultDeny(message="not the cache") if "cache" in str(given) else PermissionResultAllow()

    @tool("price", "Returns the price.", {"article": str})
    async def price(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"{arguments['article']}: 2.5"}]}

    options = ClaudeAgentOptions(
        hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[watch])]},
        can_use_tool=decide,
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[price])},
    )
    script = Script()
    script.user("Clean up, and buy tea")
    script.calls("Bash", {"command": "rm -r cache"})
    script.expect_permission("Bash", decision="deny")
    script.expect_result("not the cache", error=True)
    script.calls("mcp__shop__price", {"article": "tea"})
    script.expect_result("tea: 2.5")
    script.says("Done.")
    with SimulatedCLI(script) as cli:
        use(transport=cli)
        messages = [message async for message in query(prompt="Clean up, and buy tea", options=options)]
    assert texts(messages) == ["Done."]
    assert seen[0] == ("PreToolUse", "Bash", True, {"signal": None})
    assert ("Bash", {"command": "rm -r cache"}, "ToolPermissionContext") in seen


async def test_an_error_result_is_given_and_then_raised() -> None:
    script = Script()
    script.user("Go on")
    script.api_error(500, "It broke.")
    messages = []
    with SimulatedCLI(script) as cli:
        use(transport=cli)
        with pytest.raises(ResultError, match=r"returned an error result: .*It broke") as raised:
            async for message in query(prompt="Go on"):
                messages.append(message)
    assert isinstance(messages[-1], ResultMessage)
    assert messages[-1].is_error
    assert raised.value.exit_code == 1
