"""Two hundred sessions open at once in one process, each with a hook, a permission callback and a tool of its own: none hears another."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hackamore._engine.protocol.states.session import SessionState
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Deny
from hackamore.tools import ToolContext, tool, tool_server
from tests.contract import shows
from tests.support.leaks import alive
from tests.support.light import light, resident
from tests.support.shell import Shell, drive
from tests.support.talking import got, make, steps, texts

COUNT = 200
ROUNDS = 2
AT_ONCE = 40
BYTES_EACH = 1_000_000
"""More than this for one idle session would be a fault. It is about 60 to 120 kB; `python bench/many_sessions.py` measures it."""

Work = Callable[[Any], Coroutine[Any, Any, Any]]


async def all_at_once(shell: Shell, work: Work, items: list[Any]) -> None:
    """Do the work for each item; as tasks of one loop, or in threads."""
    if shell.blocking:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda item: drive(work(item)), items):
                pass
        return
    import anyio

    limit = anyio.Semaphore(AT_ONCE)

    async def limited(item: Any) -> None:
        async with limit:
            await work(item)

    async with anyio.create_task_group() as group:
        for item in items:
            group.start_soon(limited, item)


class Guest:
    """One session, and everything that was asked of its callbacks."""

    def __init__(self, shell: Shell, options: Any, number: int) -> None:
        self.name = f"guest-{number:03}"
        self.heard: list[str] = []

        def plain(asked: Any, context: Any) -> HookOutput:
            return self.hook(asked, context)

        async def waiting(asked: Any, context: Any) -> HookOutput:
            return self.hook(asked, context)

        @tool
        def whose(context: ToolContext) -> str:
            """Whose session is it?"""
            assert context.session.pid == self.session.pid
            self.heard.append("tool")
            return self.name

        self.session = make(
            shell,
            options(
                name=self.name,
                hooks={"PreToolUse": [HookMatcher[Any](hooks=[plain, waiting])]},
                can_use_tool=self.permission,
                mcp_servers={"desk": tool_server("desk", [whose])},
            ),
        )

    def hook(self, asked: Any, context: Any) -> HookOutput:
        assert context.session.pid == self.session.pid
        assert asked.session_id == asked.tool_input["of"] == self.name
        self.heard.append(f"hook {asked.tool_input['round']}")
        return HookOutput.deny(f"{self.name} says no")

    def permission(self, request: Any) -> Deny:
        assert request.session.pid == self.session.pid
        self.heard.append(f"permission {request.input['of']}")
        return Deny(f"{self.name} denies")

    async def talk(self, number: int) -> None:
        asked = {"tool_name": "Bash", "input": {"of": self.name}, "tool_use_id": "t"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whose", "arguments": {}}}
        hook = {
            "input": {
                "hook_event_name": "PreToolUse",
                "session_id": self.name,
                "tool_name": "Bash",
                "tool_input": {"of": self.name, "round": number},
            }
        }
        prompt = steps(
            ["text", f"{self.name} {number}"],
            ["ask", "hook_callback", {"callback_id": "hook_0", **hook}],
            ["ask", "hook_callback", {"callback_id": "hook_1", **hook}],
            ["ask", "can_use_tool", asked],
            ["ask", "mcp_message", {"server_name": "desk", "message": call}],
        )
        said, *answers = await texts(await got(self.session.send(prompt)))
        assert said == f"{self.name} {number}"
        first, second, denied, called = map(json.loads, answers)
        for answer in (first, second):
            assert answer["hookSpecificOutput"]["permissionDecisionReason"] == f"{self.name} says no"
        assert denied["message"] == f"{self.name} denies"
        assert called["mcp_response"]["result"]["content"][0]["text"] == self.name

    async def check(self) -> None:
        await got(self.session.wait_idle())
        assert self.session.session_id == self.name
        assert self.session.warnings == []
        rounds = [[f"hook {number}"] * 2 + [f"permission {self.name}", "tool"] for number in range(ROUNDS)]
        assert sorted(self.heard) == sorted(word for words in rounds for word in words)


@shows("session.life.many", "bounds.memory")
@pytest.mark.timeout(120)
def test_two_hundred_sessions_at_once(shell: Shell, tmp_path: Path) -> None:
    options = light(tmp_path)

    async def scenario() -> None:
        gc.collect()
        before = resident()
        guests = [Guest(shell, options, number) for number in range(COUNT)]
        try:
            await all_at_once(shell, lambda guest: got(guest.session.start()), guests)
            pids = {guest.session.pid for guest in guests}
            assert len(pids) == COUNT
            assert all(alive(pid) for pid in pids)
            for number in range(ROUNDS):
                await all_at_once(shell, lambda guest, number=number: guest.talk(number), guests)  # type: ignore[misc]
            await all_at_once(shell, Guest.check, guests)
            gc.collect()
            each = (resident() - before) / COUNT
            print(f"{shell.backend}: {each / 1000:,.0f} kB for each of {COUNT} open sessions")
            assert each < BYTES_EACH
        finally:
            await all_at_once(shell, lambda guest: got(guest.session.stop()), guests)
        assert not [pid for pid in pids if alive(pid)]
        assert {guest.session.state for guest in guests} == {SessionState.STOPPED}

    shell.play(scenario)
