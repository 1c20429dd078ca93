"""The four kinds of servers on the real CLI: results of every form, progress, errors, interrupts, replacements."""

from __future__ import annotations

import base64
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver import Image as McpImage

from hackamore import Options
from hackamore._engine.protocol.states.session import TurnState
from hackamore.messages import UserMessage
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.tools import Image, ToolContext, ToolError, ToolResult, tool, tool_server
from tests.contract import shows
from tests.support.talking import Running, each, got, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import RealCLI
    from tests.support.shell import Shell

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
KINDS = ("tools", "mcp", "callable", "external")


@pytest.fixture
def driving(real_cli: RealCLI) -> Callable[..., Options]:
    """Return a function that gives the options for the real CLI, isolated, against a scripted model."""

    def options(model: ScriptedModel, **more: Any) -> Options:
        return Options(
            cli_path=real_cli.cli_path,
            cwd=real_cli.cwd,
            env=real_cli.env(model),
            inherit_env=False,
            permission_mode="bypassPermissions",
            **more,
        )

    return options


class Watched:
    """What is seen of a call that hangs until it is cancelled."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.cancelled = threading.Event()

    async def hang(self) -> str:
        self.running.set()
        try:
            await anyio.sleep_forever()
        except BaseException:
            self.cancelled.set()
            raise
        return "never"


def our_tools(watched: Watched) -> Any:
    @tool
    def picture() -> Image:
        """Return a picture."""
        return Image(PNG)

    @tool
    async def structured(context: ToolContext) -> dict[str, Any]:
        """Return an object."""
        context.report_progress(1, 2, "half-way")
        return {"total": 2.5}

    @tool
    def failing() -> ToolResult:
        """Fail on purpose."""
        raise ToolError("Out of stock.")

    @tool
    async def hang() -> str:
        """Wait until it is cancelled."""
        return await watched.hang()

    return tool_server("s", [picture, structured, failing, hang])


def mcp_object(watched: Watched) -> Any:
    server = MCPServer("s")

    @server.tool()
    def picture() -> McpImage:
        return McpImage(data=PNG, format="png")

    @server.tool()
    async def structured(ctx: Context) -> dict[str, Any]:
        await ctx.report_progress(1, 2, "half-way")
        return {"total": 2.5}

    @server.tool()
    def failing() -> str:
        from mcp.server.mcpserver.exceptions import ToolError as McpToolError

        raise McpToolError("Out of stock.")

    @server.tool()
    async def hang() -> str:
        """Wait until it is cancelled."""
        return await watched.hang()

    return server


NAMES = ("picture", "structured", "failing", "hang")
RESULTS: dict[str, dict[str, Any]] = {
    "picture": {"content": [{"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}]},
    "structured": {"content": [{"type": "text", "text": '{"total":2.5}'}], "structuredContent": {"total": 2.5}},
    "failing": {"content": [{"type": "text", "text": "Out of stock."}], "isError": True},
}


def function(watched: Watched) -> Any:
    async def serve(message: dict[str, Any]) -> dict[str, Any] | None:
        result: dict[str, Any] = {}
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}}
                result["serverInfo"] = {"name": "s", "version": "1"}
            case "tools/list":
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]}
            case "tools/call":
                name = message["params"]["name"]
                result = RESULTS[name] if name in RESULTS else {"text": await watched.hang()}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result} if "id" in message else None

    return serve


PROGRAM = f"""
import json, sys

NAMES, RESULTS, folder = {NAMES!r}, {RESULTS!r}, sys.argv[1]
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), None
    if method == "initialize":
        result = {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "s", "version": "1"}}}}
    elif method == "tools/list":
        result = {{"tools": [{{"name": name, "inputSchema": {{"type": "object"}}}} for name in NAMES]}}
    elif method == "tools/call":
        name, token = message["params"]["name"], message["params"].get("_meta", {{}}).get("progressToken")
        if name == "structured":
            params = {{"progressToken": token, "progress": 1, "total": 2, "message": "half-way"}}
            print(json.dumps({{"jsonrpc": "2.0", "method": "notifications/progress", "params": params}}), flush=True)
        if name == "hang":
            open(folder + "/running", "w").close()
            continue
        result = RESULTS[name]
    elif method == "notifications/cancelled":
        open(folder + "/cancelled", "w").close()
    if "id" in message:
        error = {{"error": {{"code": -32601, "message": "no"}}}}
        answer = {{"result": result}} if result is not None else error
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **answer}}), flush=True)
"""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def server(kind: str, watched: Watched, real_cli: RealCLI) -> Any:
    match kind:
        case "tools":
            return our_tools(watched)
        case "mcp":
            return mcp_object(watched)
        case "callable":
            return function(watched)
    program = real_cli.directory / "server.py"
    program.write_text(PROGRAM)
    return {"command": sys.executable, "args": [str(program), str(real_cli.directory)]}


async def connected(shell: Shell, session: Any) -> None:
    while any(entry.status == "pending" for entry in (await got(session.get_mcp_status())).mcp_servers):
        await shell.let_others_run()


async def results(turn: Any) -> list[Any]:
    found: list[Any] = []
    async for message in each(turn):
        if isinstance(message, UserMessage) and isinstance(message.content, list):
            found += [block for block in message.content if hasattr(block, "is_error")]
    return found


@shows("tools.kinds", "tools.results")
def test_results_of_every_form(shell: Shell, driving: Callable[..., Options], server: Any, kind: str) -> None:
    calls = [Reply(ToolCall(f"mcp__s__{name}")) for name in NAMES[:3]]

    async def scenario() -> None:
        with ScriptedModel(*calls, "Done.") as model:
            async with Running(shell, driving(model, mcp_servers={"s": server})) as session:
                await connected(shell, session)
                picture, structured, failing = await results(await got(session.send("go")))
                assert "image" in str(picture.content)
                assert '"total"' in str(structured.content)
                assert "2.5" in str(structured.content)
                assert (failing.is_error, "Out of stock." in str(failing.content)) == (True, True)
                assert session.warnings == []
            # The model gets the picture as one.
            given = model.requests_of("main")[1].tool_results[0].content[0]
            assert (given["type"], given["source"]["media_type"]) == ("image", "image/png")

    shell.play(scenario)


@shows("tools.progress")
def test_an_interrupt_cancels_the_call(
    shell: Shell, driving: Callable[..., Options], server: Any, kind: str, watched: Watched, real_cli: RealCLI
) -> None:
    def is_set(name: str) -> bool:
        if kind == "external":
            return (real_cli.directory / name).exists()
        event: threading.Event = getattr(watched, name)
        return event.is_set()

    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("mcp__s__hang")), Repeat("Afterwards.")) as model:
            async with Running(shell, driving(model, mcp_servers={"s": server})) as session:
                await connected(shell, session)
                turn = await got(session.send("go"))
                while not is_set("running"):
                    await shell.let_others_run()
                await got(session.interrupt())
                await got(turn.result())
                assert turn.state is TurnState.INTERRUPTED
                while not is_set("cancelled"):
                    await shell.let_others_run()
                # The session and the server go on.
                assert await texts(await got(session.send("again"))) == ["Afterwards."]
                assert session.warnings == []

    shell.play(scenario)


@shows("tools.progress")
def test_an_interrupt_is_told_to_a_plain_function(shell: Shell, driving: Callable[..., Options]) -> None:
    running, ended = threading.Event(), threading.Event()

    @tool
    def working(context: ToolContext) -> str:
        running.set()
        for _ in range(3_000):
            if context.cancelled:
                ended.set()
                break
            threading.Event().wait(0.01)
        return "done"

    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("mcp__s__working")), Repeat("Afterwards.")) as model:
            options = driving(model, mcp_servers={"s": tool_server("s", [working])})
            async with Running(shell, options) as session:
                turn = await got(session.send("go"))
                while not running.is_set():
                    await shell.let_others_run()
                await got(session.interrupt())
                await got(turn.result())
                assert turn.state is TurnState.INTERRUPTED
                while not ended.is_set():
                    await shell.let_others_run()

    shell.play(scenario)


@shows("tools.replaced")
def test_servers_are_replaced(shell: Shell, driving: Callable[..., Options]) -> None:
    def saying(text: str) -> Any:
        @tool(name=f"say_{text}")
        def say() -> str:
            """Return a text."""
            return text

        return tool_server(text, [say])

    ends: list[str] = []

    def living() -> MCPServer:
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def life(_: Any) -> Any:
            try:
                yield {}
            finally:
                ends.append("ended")

        server = MCPServer("living", lifespan=life)

        @server.tool()
        def live() -> str:
            return "I live"

        return server

    async def names(session: Any) -> list[tuple[str, str]]:
        status = await got(session.get_mcp_status())
        return sorted((entry.name, entry.status) for entry in status.mcp_servers)

    async def scenario() -> None:
        script: list[Any] = [
            Reply(ToolCall("mcp__a__say_one")),
            Reply("Said."),
            Reply(ToolCall("mcp__a__say_two")),
            Reply(ToolCall("mcp__m__live")),
            Reply("Said."),
            Reply(ToolCall("mcp__z__say_last")),
            Reply("Said."),
        ]
        with ScriptedModel(*script) as model:
            async with Running(shell, driving(model, mcp_servers={"a": saying("one")})) as session:
                assert "one" in str((await results(await got(session.send("go"))))[0].content)
                change = await got(session.set_mcp_servers({"a": saying("two"), "m": living()}))
                assert (sorted(change.added), change.removed, change.errors) == (["a", "m"], ["a"], {})
                await connected(shell, session)
                two, live = await results(await got(session.send("go")))
                assert "two" in str(two.content)
                assert "I live" in str(live.content)

                async def replace(*which: str) -> None:
                    for name in which:
                        await got(session.set_mcp_servers({name: saying(name)}))

                outcomes = await shell.meanwhile(lambda: replace("p", "q", "r"), lambda: replace("x", "y"))
                assert outcomes == (None, None)
                await connected(shell, session)
                assert len(await names(session)) == 1
                while not ends:
                    await shell.let_others_run()
                await got(session.set_mcp_servers({"z": saying("last")}))
                await connected(shell, session)
                assert await names(session) == [("z", "connected")]
                assert "last" in str((await results(await got(session.send("go"))))[0].content)
                await got(session.set_mcp_servers({}))
                assert await names(session) == []
                assert session.warnings == []
            assert ends == ["ended"]

    shell.play(scenario)


@shows("tools.kinds")
def test_a_query_has_servers_too(shell: Shell, driving: Callable[..., Options], watched: Watched) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("mcp__s__structured")), Reply("Done.", expect_text="2.5")) as model:
            result = await shell.run("go", driving(model, mcp_servers={"s": mcp_object(watched)}))
            assert result.text == "Done."
            assert result.warnings == []

    shell.play(scenario)
