"""A session that is steered, and ended, from inside of its own callbacks: nothing waits for itself."""

from __future__ import annotations

import inspect
import threading
import time
from typing import Any

import pytest

from hackamore._engine.protocol.states.session import SessionState, TurnState
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Deny
from hackamore.tools import ToolContext, tool, tool_server
from tests.contract import shows
from tests.support.leaks import alive
from tests.support.light import Light
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import got, make, steps, texts

HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}}
QUESTION = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "act", "arguments": {}}}
ASKS = {
    "hook": ["ask", "hook_callback", HOOK],
    "permission": ["ask", "can_use_tool", QUESTION],
    "tool": ["ask", "mcp_message", {"server_name": "desk", "message": CALL}],
}


class Inside:
    """Callbacks of every kind, plain or not, that do something with their session."""

    def __init__(self, act: Any, asynchronous: bool) -> None:
        self.act = act
        self.asynchronous = asynchronous
        self.done = threading.Event()
        self.problems: list[BaseException] = []

    async def waiting(self, session: Any) -> None:
        try:
            outcome = self.act(session)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:
            self.problems.append(error)
        finally:
            self.done.set()

    def plain(self, session: Any) -> None:
        try:
            self.act(session)
        except Exception as error:
            self.problems.append(error)
        finally:
            self.done.set()

    def options(self) -> dict[str, Any]:
        if self.asynchronous:

            async def hook(asked: Any, context: Any) -> HookOutput:
                await self.waiting(context.session)
                return HookOutput.deny("done")

            async def permission(request: Any) -> Deny:
                await self.waiting(request.session)
                return Deny("done")

            async def act(context: ToolContext) -> str:
                await self.waiting(context.session)
                return "done"

            made: tuple[Any, Any, Any] = (hook, permission, act)
        else:

            def plain_hook(asked: Any, context: Any) -> HookOutput:
                self.plain(context.session)
                return HookOutput.deny("done")

            def plain_permission(request: Any) -> Deny:
                self.plain(request.session)
                return Deny("done")

            def plain_act(context: ToolContext) -> str:
                self.plain(context.session)
                return "done"

            made = (plain_hook, plain_permission, plain_act)
        return {
            "hooks": {"PreToolUse": [HookMatcher(hooks=[made[0]])]},
            "can_use_tool": made[1],
            "mcp_servers": {"desk": tool_server("desk", [tool(made[2], name="act", description="Act.")])},
        }


@shows("callbacks.from-inside")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("kind", ASKS)
def test_steering_from_inside(shell: Shell, options: Light, kind: str, asynchronous: bool) -> None:
    inside = Inside(lambda session: session.set_model("opus"), asynchronous)

    async def scenario() -> None:
        session = make(shell, options(**inside.options()))
        await got(session.start())
        [answer] = await texts(await got(session.send(steps(ASKS[kind]))))
        assert "done" in answer
        seen = (await got(session.get_settings())).data["seen"]
        assert "set_model" in [request["subtype"] for request in seen]
        await got(session.stop())

    shell.play(scenario)
    assert inside.problems == []


@shows("callbacks.from-inside")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("kind", ASKS)
def test_stopping_from_inside(shell: Shell, options: Light, kind: str, asynchronous: bool) -> None:
    inside = Inside(lambda session: session.stop(), asynchronous)

    async def scenario() -> None:
        session = make(shell, options(**inside.options()))
        await got(session.start())
        turn = await got(session.send(steps(["text", "a"], ASKS[kind], ["hang"])))
        try:
            await got(turn.result())
        except Exception as error:
            assert type(error).__name__ == "SessionClosedError", error
        await got(session.stop())
        assert session.state is SessionState.STOPPED
        assert not alive(session.pid)
        until = time.monotonic() + patience(20)
        while not inside.done.is_set() and time.monotonic() < until:
            await shell.let_others_run()
        assert inside.done.is_set()

    shell.play(scenario)


@shows("callbacks.from-inside")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "async"])
def test_interrupting_from_inside(shell: Shell, options: Light, asynchronous: bool) -> None:
    inside = Inside(lambda session: session.interrupt(), asynchronous)

    async def scenario() -> None:
        session = make(shell, options(**inside.options()))
        await got(session.start())
        turn = await got(session.send(steps(["text", "a"], ASKS["hook"], ["hang"])))
        await got(turn.result())
        assert turn.state is TurnState.INTERRUPTED
        await got(session.stop())

    shell.play(scenario)
    assert inside.problems == []
