"""The reference client of the `mcp` package with a tool server on standard streams."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

PROGRAM = str(Path(__file__).with_name("stdio_program.py"))


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(
        command=sys.executable, args=[PROGRAM, str(folder)], env={"PYTHONPATH": ":".join(sys.path)}
    )
    with (folder / "stderr").open("w") as stderr, anyio.fail_after(patience(40)):
        async with stdio_client(parameters, errlog=stderr) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield session


def playing(scenario: Callable[[ClientSession, Path], Awaitable[None]], folder: Path) -> None:
    async def play() -> None:
        async with connected(folder) as session:
            await scenario(session, folder)

    anyio.run(play)
    assert (folder / "ended").exists()  # the client did not have to kill it


async def exists(path: Path) -> None:
    while not path.exists():
        await anyio.sleep(0.01)


async def result(session: ClientSession, name: str, /, **arguments: Any) -> dict[str, Any]:
    made = await session.call_tool(name, arguments)
    return made.model_dump(by_alias=True, mode="json", exclude_none=True)


def test_the_client_lists_and_calls_tools(tmp_path: Path) -> None:
    async def scenario(session: ClientSession, folder: Path) -> None:
        listed = {entry.name: entry for entry in (await session.list_tools()).tools}
        assert listed["add"].description == "Add two numbers."
        assert listed["add"].annotations is not None
        assert listed["add"].annotations.read_only_hint
        assert (await result(session, "add", a=2, b=3))["content"] == [{"type": "text", "text": "5"}]
        assert (await result(session, "article", name="tea"))["structuredContent"] == {"name": "tea", "price": 4.5}
        text, picture = (await result(session, "picture"))["content"]
        assert (text["text"], picture["mimeType"]) == ("A picture:", "image/png")
        both = await result(session, "both")
        assert (both["structuredContent"], both["_meta"]) == ({"n": 1}, {"origin": "test"})
        await session.send_ping()
        with pytest.raises(MCPError, match="Method not found: resources/list"):
            await session.list_resources()

    playing(scenario, tmp_path)


def test_errors_and_output_of_tools(tmp_path: Path) -> None:
    async def scenario(session: ClientSession, folder: Path) -> None:
        assert await failure(session, "sold_out") == "Out of stock."
        assert await failure(session, "bug") == "LookupError: no such shelf"
        assert "has no JSON form" in await failure(session, "unusable")
        assert "Bad arguments for `add`: `a`: expected `int`" in await failure(session, "add", a="one")
        assert "There is no tool `nothing`." in await failure(session, "nothing")
        assert (await result(session, "noisy"))["content"][0]["text"] == "quiet"

    async def failure(session: ClientSession, name: str, /, **arguments: Any) -> str:
        made = await result(session, name, **arguments)
        assert made["isError"]
        return str(made["content"][0]["text"])

    playing(scenario, tmp_path)
    assert "still here" in (tmp_path / "stderr").read_text()


def test_calls_run_concurrently(tmp_path: Path) -> None:
    met: list[str] = []

    async def scenario(session: ClientSession, folder: Path) -> None:
        async def meet(name: str) -> None:
            met.append((await result(session, "meet", name=name))["content"][0]["text"])

        async with anyio.create_task_group() as group:
            group.start_soon(meet, "Ann")
            group.start_soon(meet, "Bob")

    playing(scenario, tmp_path)
    assert met == ["Ann and Bob"] * 2


def test_progress_arrives_in_order_before_the_result(tmp_path: Path) -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def scenario(session: ClientSession, folder: Path) -> None:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append((progress, total, message))

        made = await session.call_tool("steps", {"count": 3}, progress_callback=report)
        assert not made.is_error

    playing(scenario, tmp_path)
    assert reports == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@pytest.mark.parametrize("name", ["wait", "work"])
def test_a_cancelled_call_cancels_the_tool(tmp_path: Path, name: str) -> None:
    async def scenario(session: ClientSession, folder: Path) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(session.call_tool, name, {"name": "one"})
            await exists(folder / "one.running")
            group.cancel_scope.cancel()
        await exists(folder / "one.cancelled")
        assert (await result(session, "add", a=1))["content"][0]["text"] == "2"

    playing(scenario, tmp_path)


def test_a_megabyte_arrives_whole(tmp_path: Path) -> None:
    async def scenario(session: ClientSession, folder: Path) -> None:
        async def one() -> None:
            assert (await result(session, "big", size=500_000))["content"][0]["text"] == "ä" * 500_000

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(one)

    playing(scenario, tmp_path)


def test_a_client_may_leave_in_the_middle_of_a_call(tmp_path: Path) -> None:
    async def play() -> None:
        async with anyio.create_task_group() as group, connected(tmp_path) as session:
            group.start_soon(leave_open, session)
            await exists(tmp_path / "one.running")
            group.cancel_scope.cancel()

    async def leave_open(session: ClientSession) -> None:
        await session.call_tool("wait", {"name": "one"})

    anyio.run(play)
    assert (tmp_path / "one.cancelled").exists()
    assert (tmp_path / "ended").exists()
