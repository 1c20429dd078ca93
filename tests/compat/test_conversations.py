"""Clients and queries of the layer, with the simulated CLI in the place of the real one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import anyio
import pytest

from hackamore.compat import use
from hackamore.compat.claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLIConnectionError,
    CLINotFoundError,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    ResultError,
    ResultMessage,
    SystemMessage,
    TextBlock,
    Transport,
    create_sdk_mcp_server,
    query,
    rename_session,
    tool,
)
from hackamore.compat.claude_agent_sdk._internal.message_parser import parse_message
from hackamore.compat.claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

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


@shows("compat.programs.callbacks")
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


@shows("compat.programs.results")
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


async def test_a_refused_request_has_the_text_of_the_cli() -> None:
    script = Script()
    script.user("one")
    script.says("ONE")
    with SimulatedCLI(script) as cli:
        use(transport=cli)
        async with ClaudeSDKClient() as client:
            await client.query("one")
            assert texts([message async for message in client.receive_response()]) == ["ONE"]
            with pytest.raises(ClaudeSDKError, match=r"[Cc]heckpoint"):
                await client.rewind_files("00000000-0000-4000-8000-000000000000")


async def test_a_list_that_is_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="disallowed_tools"):
        async for _ in query(prompt="go", options=ClaudeAgentOptions(disallowed_tools="Bash")):  # type: ignore[arg-type]
            pass


async def test_a_list_as_a_prompt_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a str or an async iterable"):
        async for _ in query(prompt=["go"]):  # type: ignore[arg-type]
            pass


def test_an_assistant_message_without_a_model_has_an_empty_one() -> None:
    message: Any = parse_message({"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}})
    assert (message.content, message.model) == ([TextBlock("hi")], "")


async def test_a_missing_session_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        rename_session("00000000-0000-4000-8000-000000000000", "title")


class Peer(Transport):
    """A transport of a program: answers `initialize`, then each prompt with a result."""

    def __init__(self, refuses: Exception | None = None) -> None:
        self.refuses = refuses
        self.written: list[Any] = []
        self.closed = False

    async def connect(self) -> None:
        self.send, self.receive = anyio.create_memory_object_stream[dict[str, Any]](100)

    async def write(self, data: str) -> None:
        frame = json.loads(data)
        self.written.append(frame)
        if frame["type"] == "control_request":
            answer = {"subtype": "success", "request_id": frame["request_id"], "response": {"commands": []}}
            await self.send.send({"type": "control_response", "response": answer})
        elif self.refuses is not None:
            raise self.refuses
        else:
            numbers = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "is_error": False, "session_id": "s"}
            await self.send.send({"type": "result", "subtype": "success", "result": "done", **numbers})

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        async for frame in self.receive:
            yield frame

    async def close(self) -> None:
        self.closed = True
        if hasattr(self, "send"):
            self.send.close()
            self.receive.close()

    async def end_input(self) -> None:
        self.send.close()

    def is_ready(self) -> bool:
        return True


@shows("compat.programs.transport")
async def test_a_transport_of_a_program_carries_a_query() -> None:
    peer = Peer()
    (result,) = [message async for message in query(prompt="go", transport=peer)]
    assert isinstance(result, ResultMessage)
    assert result.result == "done"
    assert [frame["type"] for frame in peer.written] == ["control_request", "user"]
    assert peer.written[1]["message"] == {"role": "user", "content": "go"}
    assert peer.closed


async def test_the_uuid_of_a_frame_is_that_of_the_program() -> None:
    own = "0badcafe-0000-4000-8000-000000000001"
    frame = {"type": "user", "message": {"role": "user", "content": "one"}}

    async def frames() -> AsyncIterator[dict[str, Any]]:
        yield {**frame, "uuid": own, "parent_tool_use_id": "t"}
        yield frame

    script = Script().user("one").says("ONE").user("one").says("TWO")
    with SimulatedCLI(script) as cli:
        use(transport=cli)
        results = [message async for message in query(prompt=frames()) if isinstance(message, ResultMessage)]
    assert [result.user_message_uuid for result in results] == [own, None]
    peer = Peer()
    _ = [message async for message in query(prompt=frames(), transport=peer)]
    sent = [written for written in peer.written if written["type"] == "user"]
    assert (sent[0]["uuid"], sent[0]["parent_tool_use_id"]) == (own, "t")


async def test_a_hook_without_a_timeout_has_ten_minutes_as_in_the_cli() -> None:
    async def hook(data: Any, tool_use_id: Any, context: Any) -> Any:
        return {}

    peer = Peer()
    options = ClaudeAgentOptions(hooks={"Stop": [HookMatcher(hooks=[hook]), HookMatcher(hooks=[hook], timeout=30)]})
    _ = [message async for message in query(prompt="go", options=options, transport=peer)]
    seconds = [matcher["timeout"] for matcher in peer.written[0]["request"]["hooks"]["Stop"]]
    assert seconds == [600 + 5, 30 + 5]  # the layer ends the hook, the CLI waits for its answer


@shows("compat.programs.transport")
async def test_a_frame_that_a_transport_refuses_is_raised_where_it_was_sent() -> None:
    client = ClaudeSDKClient(transport=Peer(refuses=OSError("the line is cut")))
    await client.connect()
    with pytest.raises(OSError, match="the line is cut"):
        await client.query("go")
    await client.disconnect()


@shows("compat.programs.transport")
async def test_a_subclass_of_the_local_transport_starts_the_cli(tmp_path: Path) -> None:
    """A program that changes the command, and watches the frames of the CLI."""

    class Watched(SubprocessCLITransport):
        seen: ClassVar[list[str]] = []

        def _build_command(self) -> list[str]:
            return [*super()._build_command(), "--model=haiku"]

        async def connect(self) -> None:
            await super().connect()
            assert self.is_ready()

        async def write(self, data: str) -> None:
            self.seen.append(json.loads(data)["type"])
            await super().write(data)

    with SimulatedCLI(Script().user("go").says("x" * 300_000)) as cli:
        options = ClaudeAgentOptions(cli_path=cli.install(tmp_path))
        transport = Watched("go", options)
        messages = [message async for message in query(prompt="go", options=options, transport=transport)]
    assert texts(messages) == ["x" * 300_000]
    (init,) = [message for message in messages if isinstance(message, SystemMessage) and message.subtype == "init"]
    assert init.data["model"] == "claude-haiku-5-5"
    assert Watched.seen == ["control_request", "user"]
    assert not transport.is_ready()


async def test_a_subclass_of_the_local_transport_reports_how_the_cli_ended(tmp_path: Path) -> None:
    class Own(SubprocessCLITransport):
        """The same under another name."""

    with SimulatedCLI(Script().user("go").crash(3, stderr="boom")) as cli:
        options = ClaudeAgentOptions(cli_path=cli.install(tmp_path))
        with pytest.raises(ProcessError, match="boom") as raised:
            _ = [message async for message in query(prompt="go", options=options, transport=Own("go", options))]
        assert raised.value.exit_code == 3
    missing = ClaudeAgentOptions(cli_path=tmp_path / "nothing")
    with pytest.raises(CLINotFoundError, match="nothing"):
        await ClaudeSDKClient(missing, transport=Own("go", missing)).connect()


async def test_an_exception_of_connect_is_raised_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Peer):
        async def connect(self) -> None:
            raise ConnectionRefusedError("no route") from OSError("the cause")

    with pytest.raises(ConnectionRefusedError, match="no route") as raised:
        await ClaudeSDKClient(transport=Broken()).connect()
    assert str(raised.value.__cause__) == "the cause"
    with pytest.raises(ConnectionRefusedError, match="no route") as raised:
        _ = [message async for message in query(prompt="go", transport=Broken())]
    assert str(raised.value.__cause__) == "the cause"
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
