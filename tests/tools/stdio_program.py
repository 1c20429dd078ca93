"""A program that serves tools on its standard streams. Its argument is a folder, where tools say how far they are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, TypedDict

import anyio

from hackamore.sync import serve_stdio
from hackamore.tools import Image, ToolContext, ToolError, ToolResult, ToolServer, tool, tool_server

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


class Article(TypedDict):
    name: str
    price: float


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(read_only=True, output_schema=Article)
async def article(name: str) -> Article:
    """Return an article."""
    return {"name": name, "price": 4.5}


@tool
def picture() -> list[str | Image]:
    return ["A picture:", Image(PNG)]


@tool
def both() -> ToolResult:
    return ToolResult("in words", structured={"n": 1}, meta={"origin": "test"})


@tool
def sold_out() -> str:
    raise ToolError("Out of stock.")


@tool
async def bug() -> str:
    raise LookupError("no such shelf")


@tool
def unusable() -> Any:
    return object()


@tool
def noisy() -> str:
    print('{"jsonrpc": "2.0", "id": 1, "result": {}}')
    print("still here", flush=True)
    os.write(1, b"straight to the descriptor\n")
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    assert sys.stdin.read() == ""
    return "quiet"


@tool
def big(size: int) -> str:
    return "ä" * size


@tool
def steps(context: ToolContext, count: int) -> str:
    for step in range(1, count + 1):
        context.report_progress(step, count, f"step {step}")
    return "all"


class Places:
    """Tools that meet, and that wait until they are cancelled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._here: set[str] = set()
        self._all_here = anyio.Event()

    @tool
    async def meet(self, name: str) -> str:
        self._here.add(name)
        if len(self._here) == 2:
            self._all_here.set()
        await self._all_here.wait()
        return " and ".join(sorted(self._here))

    @tool
    async def wait(self, name: str) -> str:
        (self._folder / f"{name}.running").touch()
        try:
            await anyio.sleep_forever()
        finally:
            (self._folder / f"{name}.cancelled").touch()
        return "never"

    @tool
    def work(self, name: str, context: ToolContext) -> str:
        (self._folder / f"{name}.running").touch()
        while not context.cancelled:
            threading.Event().wait(0.01)
        (self._folder / f"{name}.cancelled").touch()
        return "dropped"

    @tool
    def stubborn(self, name: str) -> str:
        (self._folder / f"{name}.running").touch()
        threading.Event().wait()
        return "never"


def made(folder: Path) -> ToolServer:
    """Return the server."""
    places = Places(folder)
    tools: list[Any] = [add, article, picture, both, sold_out, bug, unusable, noisy, big, steps]
    tools += [places.meet, places.wait, places.work, places.stubborn]
    return tool_server("shop", tools, version="7", instructions="Ask for prices.")


if __name__ == "__main__":
    serve_stdio(made(Path(sys.argv[1])))
    Path(sys.argv[1], "ended").touch()
