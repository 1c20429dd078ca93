"""Servers of this process: server objects of the `mcp` package, functions, and servers that are replaced while the session runs."""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer

from hackamore import Options
from hackamore._engine.answering.servers import CLOSE_SECONDS
from hackamore.errors import ControlRejectedError, ControlTimeoutError, OptionsError
from hackamore.runtime.mcp_objects import GRACE_SECONDS
from hackamore.tools import tool, tool_server
from tests.contract import shows
from tests.support import stand_in_servers
from tests.support.patience import patience
from tests.support.talking import Running, ask, got, make, raised, steps, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.shell import Shell

PROJECT = Path(__file__).resolve().parent.parent.parent
SECONDS = 20.0


@pytest.fixture
def connecting(tmp_path: Path) -> Callable[..., Options]:
    """Return a function that gives the options for a stand-in CLI which connects to servers."""
    path = tmp_path / "claude"
    program = os.path.abspath(stand_in_servers.__file__)
    path.write_text(f'#!/bin/sh\nPYTHONPATH={PROJECT} exec {sys.executable} -S -P {program} "$@"\n')
    path.chmod(0o755)
    return lambda **more: Options(**{"cli_path": str(path), "version_check": "skip", **more})


async def rpc(session: Any, server: str, method: str, *, identifier: Any = 1, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
    return (await ask(session, "mcp_message", server_name=server, message=message))["mcp_response"]


async def tell(session: Any, server: str, method: str, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return (await ask(session, "mcp_message", server_name=server, message=message))["mcp_response"]


async def connect(session: Any, server: str, **capabilities: Any) -> Any:
    client = {"name": "claude-code", "version": "2"}
    answer = await rpc(
        session,
        server,
        "initialize",
        identifier=0,
        protocolVersion="2025-11-25",
        capabilities=capabilities,
        clientInfo=client,
    )
    assert await tell(session, server, "notifications/initialized") == {"jsonrpc": "2.0", "id": 0, "result": {}}
    return answer


async def call(
    session: Any, server: str, name: str, *, identifier: Any = 1, token: Any = None, **arguments: Any
) -> Any:
    meta = {"_meta": {"progressToken": token}} if token is not None else {}
    return await rpc(session, server, "tools/call", identifier=identifier, name=name, arguments=arguments, **meta)


def text_of(answer: Any) -> str:
    return str(answer["result"]["content"][0]["text"])


async def log_of(session: Any) -> list[Any]:
    return list((await got(session.get_settings())).effective["log"])


def warned(session: Any) -> list[str]:
    return [warning.code for warning in session.warnings]


class Shop:
    """A server of the `mcp` package with a life that can be watched."""

    def __init__(self, **crash: Any) -> None:
        self.lives: list[str] = []
        self.running = threading.Event()
        self.cancelled = threading.Event()
        self.server = MCPServer("shop", lifespan=self._lifespan, **crash)
        self.server.tool()(self.price)
        self.server.tool()(self.failing)
        self.server.tool()(self.hang)
        self.server.tool()(self.working)
        self.server.tool()(self.asking)
        self.server.tool()(self.growing)

    def _lifespan(self, _: Any) -> Any:
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def life() -> Any:
            self.lives.append("begins")
            try:
                yield {}
            finally:
                await anyio.lowlevel.checkpoint()  # it is given the time to end
                self.lives.append("ends")

        return life()

    async def price(self, article: str) -> str:
        return f"{article} costs 2.5"

    def failing(self) -> str:
        raise LookupError("nothing there")

    async def hang(self) -> str:
        self.running.set()
        try:
            await anyio.sleep_forever()
        except BaseException:
            self.cancelled.set()
            raise
        return ""

    async def working(self, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half-way")
        return "done"

    async def asking(self, ctx: Context) -> str:
        from pydantic import BaseModel

        class Who(BaseModel):
            name: str

        try:
            return repr(await ctx.elicit("Who?", Who))
        except Exception as error:
            return f"refused: {error}"

    async def growing(self, ctx: Context) -> str:
        await ctx.session.send_tool_list_changed()
        return "grown"


@shows("tools.kinds")
def test_a_server_object_is_served_for_the_length_of_the_session(
    shell: Shell, connecting: Callable[..., Options]
) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"shop": shop.server})) as session:
            assert shop.lives == []  # nobody has asked it yet
            answer = await connect(session, "shop")
            assert answer["id"] == 0
            assert answer["result"]["serverInfo"]["name"] == "shop"
            assert answer["result"]["capabilities"]["tools"] == {"listChanged": True}
            listed = await rpc(session, "shop", "tools/list", identifier="two")
            assert listed["id"] == "two"
            assert "price" in [entry["name"] for entry in listed["result"]["tools"]]
            assert text_of(await call(session, "shop", "price", article="tea")) == "tea costs 2.5"
            failed = await call(session, "shop", "failing")
            assert failed["result"]["isError"]
            assert "failing" in text_of(failed)
            unknown = await rpc(session, "shop", "no/such/method", identifier=9)
            assert unknown["error"]["code"] == -32601
            assert (await rpc(session, "shop", "ping", identifier=10))["result"] == {}
            bad = await rpc(session, "shop", "ping", identifier=1.5)
            assert bad["error"]["code"] == -32600
            assert session.warnings == []
            assert shop.lives == ["begins"]
        assert shop.lives == ["begins", "ends"]

    shell.play(scenario)


@shows("tools.no-hang")
def test_what_a_server_says_by_itself_reaches_the_cli(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"shop": shop.server})) as session:
            await connect(session, "shop")
            assert text_of(await call(session, "shop", "working", token="p")) == "done"
            assert text_of(await call(session, "shop", "growing")) == "grown"
            said = [entry[2] for entry in await log_of(session) if entry[0] == "said"]
            assert said == ["notifications/progress", "notifications/tools/list_changed"]

    shell.play(scenario)


@shows("tools.no-hang")
def test_what_a_server_asks_is_refused_and_nothing_hangs(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"shop": shop.server})) as session:
            await connect(session, "shop")
            assert text_of(await call(session, "shop", "asking")).startswith("refused: ")
            # One that says that it can be asked is asked.
            await connect(session, "shop", elicitation={})
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "asking"}}
            turn = await got(
                session.send(steps(["ask_and_go", "mcp_message", {"server_name": "shop", "message": message}]))
            )
            await got(turn.result())
            while ["said", "shop", "elicitation/create"] not in await log_of(session):
                await shell.let_others_run()
        assert sorted(shop.lives) == ["begins", "begins", "ends", "ends"]

    shell.play(scenario)


@shows("callbacks.cancelled")
def test_a_call_that_nobody_waits_for_is_cancelled(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"shop": shop.server})) as session:
            await connect(session, "shop")
            asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "hang", "arguments": {}}}
            stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            message = {"server_name": "shop", "message": asked}
            turn = await got(session.send(steps(["ask_and_go", "mcp_message", message])))
            await got(turn.result())
            while not shop.running.is_set():
                await shell.let_others_run()
            answer = await ask(session, "mcp_message", server_name="shop", message=stop)
            assert answer["mcp_response"]["result"] == {}
            while not shop.cancelled.is_set():
                await shell.let_others_run()
            assert text_of(await call(session, "shop", "price", article="tea")) == "tea costs 2.5"
            assert session.warnings == []

    shell.play(scenario)


@shows("asked.mcp.deadline")
def test_a_call_is_answered_at_its_deadline(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        options = connecting(mcp_servers={"shop": shop.server}, timeouts={"mcp": 0.5})
        async with Running(shell, options) as session:
            await connect(session, "shop")
            answer = await call(session, "shop", "hang")
            assert answer["error"]["code"] == -32603
            assert "0.5 s" in answer["error"]["message"]
            while not shop.cancelled.is_set():
                await shell.let_others_run()
            assert warned(session) == ["CALLBACK_TIMED_OUT"]

    shell.play(scenario)


@shows("asked.mcp.raises")
def test_a_server_that_crashes_answers_everything(shell: Shell, connecting: Callable[..., Options]) -> None:
    class Crashing(Server):
        async def run(self, read: Any, write: Any, *more: Any, **most: Any) -> None:  # type: ignore[override]
            await read.receive()
            raise ZeroDivisionError("a hole in the ground")

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"bad": Crashing("bad")})) as session:
            answer = await rpc(session, "bad", "initialize", identifier=0)
            assert answer["error"]["code"] == -32603
            assert "a hole in the ground" in answer["error"]["message"]
            again = await rpc(session, "bad", "tools/list")
            assert again["error"]["code"] == -32603
            assert "has ended" in again["error"]["message"]
            assert warned(session) == ["CALLBACK_FAILED"]
            # A new connection is a new try.
            assert "a hole" in (await rpc(session, "bad", "initialize", identifier=0))["error"]["message"]

    shell.play(scenario)


@shows("tools.no-hang")
@pytest.mark.parametrize("messages", [1, 5])
def test_a_server_that_does_not_end_is_ended(shell: Shell, connecting: Callable[..., Options], messages: int) -> None:
    # Five do not fit into what lies between us and the server, which reads nothing.
    begun, ended = threading.Event(), threading.Event()

    class Stubborn(Server):
        async def run(self, *_: Any, **more: Any) -> None:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"stubborn": Stubborn("s")})) as session:
            for _ in range(messages):
                await tell(session, "stubborn", "notifications/initialized")
            while not begun.is_set():
                await shell.let_others_run()
        assert ended.wait(patience(10))

    shell.play(scenario)


def test_a_session_waits_for_its_servers_a_second_longer_than_they_are_given() -> None:
    assert CLOSE_SECONDS == GRACE_SECONDS + 1  # else a server that is cancelled has no time left to end


def test_nothing_is_left_of_a_session_with_servers(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def tasks() -> set[str]:
        if shell.backend == "trio":
            import trio

            root = trio.lowlevel.current_root_task()
            assert root is not None
            return {task.name for nursery in root.child_nurseries for task in nursery.child_tasks}
        if shell.backend == "asyncio":
            import asyncio

            return {task.get_name() for task in asyncio.all_tasks()}
        return {thread.name for thread in threading.enumerate() if thread.name.startswith("hackamore")}

    async def scenario() -> None:
        before = await tasks()
        async with Running(shell, connecting(mcp_servers={"shop": shop.server})) as session:
            await connect(session, "shop")
            assert await tasks() > before
        while await tasks() != before:
            await shell.let_others_run()
        assert shop.lives == ["begins", "ends"]
        # The same for one that is forgotten while its server works.
        forgotten = make(shell, connecting(mcp_servers={"shop": shop.server}))
        await got(forgotten.start())
        await connect(forgotten, "shop")
        del forgotten
        gc.collect()
        while await tasks() != before:
            await shell.let_others_run()
        assert shop.lives == ["begins", "ends"] * 2

    shell.play(scenario)


def test_one_object_serves_two_sessions_and_two_names(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        options = connecting(mcp_servers={"one": shop.server, "two": shop.server})
        async with Running(shell, options) as first, Running(shell, options) as second:
            for session in (first, second):
                for name in ("one", "two"):
                    await connect(session, name)
                    assert text_of(await call(session, name, "price", article="tea")) == "tea costs 2.5"
        assert (shop.lives.count("begins"), shop.lives.count("ends")) == (4, 4)

    shell.play(scenario)


@shows("tools.kinds")
def test_a_low_level_server(shell: Shell, connecting: Callable[..., Options]) -> None:
    from mcp import types

    async def listing(context: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])

    async def calling(context: Any, params: Any) -> Any:
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(params.arguments))])

    server = Server("low", on_list_tools=listing, on_call_tool=calling)

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"low": {"type": "sdk", "instance": server}})) as session:
            await connect(session, "low")
            assert text_of(await call(session, "low", "echo", said="this")) == "{'said': 'this'}"

    shell.play(scenario)


def test_a_missing_package_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("low")
    monkeypatch.setitem(sys.modules, "mcp.shared.memory", None)
    with pytest.raises(OptionsError, match=r"hackamore\[mcp\]") as caught:
        make(shell, Options(mcp_servers={"low": server}))
    assert caught.value.field == "mcp_servers.low"


# -- functions -----------------------------------------------------------------------------------------------------------


def test_functions_fail_and_are_cancelled_as_json_rpc_says(shell: Shell, connecting: Callable[..., Options]) -> None:
    running, cancelled = threading.Event(), threading.Event()
    heard: list[str] = []

    async def serve(message: dict[str, Any]) -> dict[str, Any] | None:
        heard.append(message["method"])
        if message["method"] == "wrong":
            return "no dict"  # type: ignore[return-value]
        if message["method"] == "hang":
            running.set()
            try:
                await anyio.sleep_forever()
            except BaseException:
                cancelled.set()
                raise
        if "id" not in message:
            return None
        raise LookupError("nothing there")

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"f": serve})) as session:
            for method, reason in (("fails", "nothing there"), ("wrong", "JSON-RPC dict, not str")):
                answer = await rpc(session, "f", method, identifier=3)
                assert (answer["id"], answer["error"]["code"]) == (3, -32603)
                assert reason in answer["error"]["message"]
            asked = {"server_name": "f", "message": {"jsonrpc": "2.0", "id": 4, "method": "hang"}}
            await got((await got(session.send(steps(["ask_and_go", "mcp_message", asked])))).result())
            while not running.is_set():
                await shell.let_others_run()
            await tell(session, "f", "notifications/cancelled", requestId=4)
            while not cancelled.is_set():
                await shell.let_others_run()
        assert heard == ["fails", "wrong", "hang", "notifications/cancelled"]

    shell.play(scenario)


# -- servers that are replaced ---------------------------------------------------------------------------------------------


def saying(text: str) -> Any:
    @tool(name="say")
    def say() -> str:
        return text

    return tool_server(text, [say])


async def says(session: Any, server: str) -> str:
    answer = await call(session, server, "say")
    return text_of(answer) if "result" in answer else str(answer["error"]["code"])


def test_new_servers_can_be_asked_before_the_cli_has_accepted(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"a": saying("a"), "b": saying("b")})) as session:
            a = session.options.mcp_servers["a"]
            change = await got(session.set_mcp_servers({"a": a, "c": saying("c"), "shop": shop.server}))
            assert (sorted(change.added), change.removed) == (["c", "shop"], ["b"])
            connected = [entry[1] for entry in await log_of(session) if entry[0] == "connected"]
            assert sorted(answer["result"]["serverInfo"]["name"] for answer in connected) == ["c", "shop"]
            assert [await says(session, name) for name in "abc"] == ["a", "-32601", "c"]
            assert text_of(await call(session, "shop", "price", article="tea")) == "tea costs 2.5"
            await got(session.set_mcp_servers({}))
            assert [await says(session, name) for name in "ac"] == ["-32601", "-32601"]
            while shop.lives != ["begins", "ends"]:  # it ends with its registration
                await shell.let_others_run()

    shell.play(scenario)


@shows("tools.replaced")
def test_a_refusal_leaves_all_as_it_was(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"a": saying("a")})) as session:
            servers = {"refused": shop.server, "new": saying("new")}
            error = await raised(lambda: session.set_mcp_servers(servers), ControlRejectedError)
            assert error.operation == "set_mcp_servers"
            while shop.lives != ["begins", "ends"]:
                await shell.let_others_run()
            assert [await says(session, name) for name in ("a", "new", "refused")] == ["a", "-32601", "-32601"]
            # Also if it comes when the first half was done already.
            await raised(
                lambda: session.set_mcp_servers({"a": saying("other"), "refused": saying("x")}), ControlRejectedError
            )
            assert await says(session, "a") == "a"

    shell.play(scenario)


@shows("tools.replaced")
def test_a_name_gets_another_server(shell: Shell, connecting: Callable[..., Options]) -> None:
    async def scenario() -> None:
        kept = saying("kept")
        async with Running(shell, connecting(mcp_servers={"a": saying("before"), "k": kept})) as session:
            assert await says(session, "a") == "before"
            change = await got(session.set_mcp_servers({"a": saying("after"), "k": kept}))
            assert (change.added, change.removed) == (["a"], ["a"])
            assert [await says(session, name) for name in "ak"] == ["after", "kept"]
            assert [entry[1] for entry in await log_of(session) if entry[0] == "set"] == [["k"], ["a", "k"]]

    shell.play(scenario)


def test_an_answer_that_never_comes_takes_nothing_away(shell: Shell, connecting: Callable[..., Options]) -> None:
    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"a": saying("a")})) as session:
            await raised(lambda: session.set_mcp_servers({"never": saying("n")}, timeout=0.3), ControlTimeoutError)
            assert [await says(session, name) for name in ("a", "never")] == ["a", "n"]
            await got(session.set_mcp_servers({"b": saying("b")}))
            assert [await says(session, name) for name in ("a", "never", "b")] == ["-32601", "-32601", "b"]

    shell.play(scenario)


def test_replacements_at_the_same_time_are_made_one_after_the_other(
    shell: Shell, connecting: Callable[..., Options]
) -> None:
    async def scenario() -> None:
        async with Running(shell, connecting()) as session:

            async def replace(*names: str) -> None:
                for name in names:
                    await got(session.set_mcp_servers({name: saying(name)}))

            outcomes = await shell.meanwhile(lambda: replace("a", "b", "c"), lambda: replace("x", "y", "z"))
            assert outcomes == (None, None)
            sets = [entry[1][0] for entry in await log_of(session) if entry[0] == "set"]
            assert sorted(sets) == ["a", "b", "c", "x", "y", "z"]
            last = sets[-1]
            assert [await says(session, name) for name in sets] == [name if name == last else "-32601" for name in sets]

    shell.play(scenario)


@shows("tools.replaced")
def test_a_server_is_removed_while_it_works(shell: Shell, connecting: Callable[..., Options]) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with Running(shell, connecting(mcp_servers={"shop": shop.server})) as session:
            await connect(session, "shop")
            asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "hang", "arguments": {}}}
            prompt = steps(["ask", "mcp_message", {"server_name": "shop", "message": asked}])
            turn = await got(session.send(prompt))
            while not shop.running.is_set():
                await shell.let_others_run()
            await got(session.set_mcp_servers({}))
            [answer] = await texts(turn)
            assert "-32603" in answer
            assert "removed" in answer
            while shop.lives != ["begins", "ends"]:
                await shell.let_others_run()

    shell.play(scenario)
