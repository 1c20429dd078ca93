"""How fast the simulated CLI is: one agent conversation, and 10,000 scripted turns; prints wall and processor time.

python bench/simulator.py [TURNS]
"""

from __future__ import annotations

import asyncio
import functools
import statistics
import sys
import time
import warnings
from typing import TYPE_CHECKING

import hackamore
from hackamore import Allow, Deny, HookMatcher, Options, sync, tool, tool_server
from hackamore.testing import Script, SimulatedCLI

if TYPE_CHECKING:
    from collections.abc import Callable

CONVERSATIONS = 200


@tool
async def price(article: str) -> float:
    """Return a price."""
    return 2.5


async def watch(hook_input: object, context: object) -> None:
    """A hook that lets everything pass."""


async def decide(request: hackamore.PermissionRequest) -> Allow | Deny:
    return Deny("not that") if "cache" in str(request.input) else Allow()


OPTIONS = Options(
    hooks={"PreToolUse": [HookMatcher(hooks=[watch])]},
    can_use_tool=decide,
    mcp_servers={"shop": tool_server("shop", [price])},
)


@tool("price")
def plain_price(article: str) -> float:
    """Return a price."""
    return 2.5


def plainly_watch(hook_input: object, context: object) -> None:
    """The same hook, for programs without an event loop."""


def plainly_decide(request: hackamore.PermissionRequest) -> Allow | Deny:
    return Deny("not that") if "cache" in str(request.input) else Allow()


PLAIN_OPTIONS = Options(
    hooks={"PreToolUse": [HookMatcher(hooks=[plainly_watch])]},
    can_use_tool=plainly_decide,
    mcp_servers={"shop": tool_server("shop", [plain_price])},
)


def agent_script() -> Script:
    script = Script().user("Buy tea and clean up").calls("mcp__shop__price", {"article": "tea"}).expect_result("2.5")
    script.calls("Bash", {"command": "rm -r cache"}).expect_permission("Bash", decision="deny").expect_hook(
        "PreToolUse"
    )
    return script.says("It is 2.5.")


async def conversation() -> None:
    with SimulatedCLI(agent_script()) as cli:
        answer = await hackamore.run("Buy tea and clean up", OPTIONS, transport=cli)
        assert answer.text == "It is 2.5."


def blocking_conversation(options: Options) -> None:
    with SimulatedCLI(agent_script()) as cli:
        assert sync.run("Buy tea and clean up", options, transport=cli).text == "It is 2.5."


async def turns(count: int) -> None:
    script = Script()
    for number in range(count):
        script.user(f"prompt {number}").says(f"answer {number}")
    with SimulatedCLI(script) as cli:
        async with hackamore.Session(transport=cli) as session:
            for number in range(count):
                result = await (await session.send(f"prompt {number}")).result()
                assert result.result == f"answer {number}"


def report(name: str, times: list[tuple[float, float]]) -> None:
    walls, processors = zip(*times, strict=True)
    print(
        f"{name}: {statistics.median(walls) * 1000:.2f} ms median, {min(walls) * 1000:.2f} ms best, "
        f"{statistics.median(processors) * 1000:.2f} ms of the processor ({len(times)} times)"
    )


def timed(function: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


async def conversations() -> list[tuple[float, float]]:
    times = []
    for number in range(CONVERSATIONS + 20):
        wall, processor = time.perf_counter(), time.process_time()
        await conversation()
        if number >= 20:  # warm
            times.append((time.perf_counter() - wall, time.process_time() - processor))
    return times


def main() -> None:
    warnings.simplefilter("ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    report("one agent conversation, asyncio", asyncio.run(conversations()))
    for name, options in (("threads", PLAIN_OPTIONS), ("threads, functions `async def`", OPTIONS)):
        conversation = functools.partial(blocking_conversation, options)
        report(f"one agent conversation, {name}", [timed(conversation) for _ in range(CONVERSATIONS)][20:])
    wall, processor = timed(lambda: asyncio.run(turns(count)))
    print(
        f"{count:,} turns in memory: {wall:.2f} s, {processor:.2f} s of the processor, {count / processor:,.0f} turns a second"
    )


if __name__ == "__main__":
    main()
