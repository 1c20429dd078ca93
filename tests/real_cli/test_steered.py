"""`query` and `run` with what needs the bidirectional protocol, on the real CLI."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Allow, Deny, HookMatcher, HookOutput, tool, tool_server
from hackamore.messages import ResultMessage
from hackamore.testing import Reply, ScriptedModel, ToolCall
from tests.support.talking import said

if TYPE_CHECKING:
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell

pytestmark = [pytest.mark.real_cli, pytest.mark.usefixtures("leaves_nothing"), pytest.mark.timeout(90)]


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def test_hooks_permissions_and_tools_in_one_run(shell: Shell, driving: Driving) -> None:
    seen: list[str] = []

    def hook(value: Any, _: Any) -> HookOutput:
        seen.append(f"hook {value.tool_name}")
        return HookOutput.proceed()

    def may(request: hackamore.PermissionRequest) -> Allow | Deny:
        seen.append(f"asked {request.tool_name}")
        return Allow(updated_input={"command": "echo changed"}) if request.tool_name == "Bash" else Allow()

    async def scenario() -> None:
        seen.clear()
        with ScriptedModel(
            Reply(ToolCall("Bash", {"command": "touch x"})),
            Reply(ToolCall("mcp__sums__add", {"a": 2, "b": 40})),
            "all done",
        ) as model:
            options = driving(
                model,
                hooks={"PreToolUse": [HookMatcher(hooks=[hook])]},
                can_use_tool=may,
                mcp_servers={"sums": tool_server("sums", [add])},
            )
            outcome = await shell.run("do it", options)
            assert outcome.text == "all done"
            assert not outcome.warnings
            contents = [str(result.content) for request in model.requests for result in request.tool_results]
            assert any("changed" in content for content in contents)
            assert any("42" in content for content in contents)
        assert seen == ["hook Bash", "asked Bash", "hook mcp__sums__add", "asked mcp__sums__add"]

    shell.play(scenario)


def test_an_iterable_of_prompts(shell: Shell, driving: Driving) -> None:
    async def asynchronous() -> AsyncIterator[Any]:
        yield "first"
        yield [{"type": "text", "text": "second"}]

    def plain() -> Iterator[Any]:
        yield "first"
        yield {"type": "user", "message": {"role": "user", "content": "second"}}

    async def scenario() -> None:
        for source in (asynchronous(), plain()):
            with ScriptedModel("answer to the first", "answer to the second") as model:
                async with shell.query(source, driving(model)) as stream:
                    messages = [message async for message in stream]
            # Prompts that come quickly are answered one after the other, each with a result of its own.
            assert said(messages) == ["answer to the first", "answer to the second"]
            assert len(stream.results) == 2
            assert not stream.warnings

    shell.play(scenario)


def test_a_picture_as_prompt(shell: Shell, driving: Driving) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")) + chunk(b"IEND", b"")
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": b64encode(png).decode()},
    }

    async def scenario() -> None:
        with ScriptedModel("a red dot") as model:
            outcome = await shell.run([picture, {"type": "text", "text": "What is it?"}], driving(model))
            assert outcome.text == "a red dot"
            assert "'type': 'image'" in str(model.requests[0].body["messages"])

    shell.play(scenario)


def test_a_background_task_outlives_the_result_and_its_hook_is_served(shell: Shell, driving: Driving) -> None:
    hooked: list[str] = []

    def hook(value: Any, _: Any) -> None:
        hooked.append(value.hook_event_name)

    async def scenario() -> None:
        hooked.clear()
        with ScriptedModel(
            Reply(ToolCall("Bash", {"command": "sleep 1", "run_in_background": True})), "started", "it has ended"
        ) as model:
            options = driving(model, hooks={"Stop": [HookMatcher(hooks=[hook])]}, permission_mode="bypassPermissions")
            async with shell.query("run it", options) as stream:
                results = [message async for message in stream if isinstance(message, ResultMessage)]
            assert [result.result for result in results] == ["started", "it has ended"]
            assert not stream.warnings
        assert hooked == ["Stop", "Stop"]

    shell.play(scenario)


def test_an_unknown_session_is_the_same_error_as_in_a_plain_one_shot(shell: Shell, driving: Driving) -> None:
    unknown = "00000000-0000-4000-8000-000000000000"

    async def scenario() -> None:
        with ScriptedModel() as model:
            for more in ({}, {"can_use_tool": lambda request: Allow()}):
                with pytest.raises(hackamore.SessionNotFoundError, match="No conversation found"):
                    await shell.run("hi", driving(model, resume=unknown, **more))

    shell.play(scenario)


def test_typed_output_with_a_callback(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("StructuredOutput", {"response": 42}))) as model:
            options = driving(model, can_use_tool=lambda request: Allow())
            outcome = await shell.run("how many?", options, output_type=dict[str, int])
            assert outcome.output == {"response": 42}

    shell.play(scenario)


def test_agents_and_checkpointing_make_it_run_the_other_way(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel("well", "well") as model:
            agents = {"helper": hackamore.AgentDefinition(description="helps", prompt="Help.")}
            assert (await shell.run("hi", driving(model, agents=agents))).text == "well"
            assert (await shell.run("hi", driving(model, enable_file_checkpointing=True))).text == "well"

    shell.play(scenario)
