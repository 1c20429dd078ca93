"""Callbacks and the session they belong to: from which thread it may be used, for how long it lives, and how they are stopped."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from hackamore._engine.protocol.states.session import SessionState
from hackamore.aio.from_thread import run_in
from hackamore.errors import ControlRejectedError, SessionClosedError
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Allow
from hackamore.runtime.event_loops import Loop
from hackamore.tools import ToolContext, tool, tool_server
from tests.contract import shows
from tests.support.patience import patience
from tests.support.talking import Running, ask, got, make, steps, texts

if TYPE_CHECKING:
    from tests.support.session_fixtures import StandIn
    from tests.support.shell import Shell

SECONDS = 20.0


def pre_tool_use(*hooks: Any) -> dict[str, Any]:
    return {"PreToolUse": [HookMatcher(hooks=list(hooks))]}


async def hook(session: Any) -> Any:
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t"}
    return await ask(session, "hook_callback", callback_id="hook_0", input=asked)


@shows("callbacks.from-inside", "hooks.context")
def test_plain_callbacks_steer_their_session_from_their_thread(shell: Shell, playing: StandIn) -> None:
    seen: list[Any] = []

    def steering(asked: Any, context: Any) -> HookOutput:
        session = context.session
        with pytest.raises(ControlRejectedError):
            session.set_color("no such")
        cursor = session.messages()
        turn = session.send("from a thread")
        seen.append((session.state.name, session.pid, type(turn.id), turn.session.pid))
        cursor.close()
        assert list(cursor) == []
        assert "session" in repr(session).lower()
        return HookOutput.deny(session.get_binary_version().version)

    def allowing(request: Any) -> Allow:
        return Allow({"version": request.session.get_binary_version().version})

    @tool
    def version(context: ToolContext) -> str:
        """Return the version of the CLI."""
        return str(context.session.get_binary_version().version)

    async def scenario() -> None:
        options = playing(
            hooks=pre_tool_use(steering), can_use_tool=allowing, mcp_servers={"s": tool_server("s", [version])}
        )
        async with Running(shell, options) as session:
            assert (await hook(session))["hookSpecificOutput"]["permissionDecisionReason"] == "2"
            answer = await ask(session, "can_use_tool", tool_name="Bash", input={}, tool_use_id="t")
            assert answer["updatedInput"] == {"version": "2"}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "version"}}
            answer = await ask(session, "mcp_message", server_name="s", message=message)
            assert answer["mcp_response"]["result"]["content"][0]["text"] == "2"
            assert seen == [("RUNNING", session.pid, str, session.pid)]
            assert session.warnings == []

    shell.play(scenario)


@shows("callbacks.outside-reader", "callbacks.from-inside")
def test_a_plain_callback_that_was_quick_may_need_the_event_loop(shell: Shell, playing: StandIn) -> None:
    """The loop waits for quick ones for half a millisecond; a wait without a limit would never end here."""
    calls = 0

    def steering(asked: Any, context: Any) -> HookOutput:
        nonlocal calls
        calls += 1
        said = context.session.get_binary_version().version if calls % 4 == 0 else "quick"
        return HookOutput.deny(said)

    async def scenario() -> None:
        async with Running(shell, playing(hooks=pre_tool_use(steering))) as session:
            answers = [await hook(session) for _ in range(12)]
            reasons = [answer["hookSpecificOutput"]["permissionDecisionReason"] for answer in answers]
            assert reasons == ["quick", "quick", "quick", "2"] * 3
            assert session.warnings == []

    shell.play(scenario)


def test_a_plain_callback_reads_a_whole_turn(shell: Shell, playing: StandIn) -> None:
    found: list[str] = []
    done = threading.Event()

    def reading(asked: Any, context: Any) -> None:
        turn = context.session.send("hello")
        found.append("asked")

        def rest() -> None:  # the turn that asks has to end first
            found.extend(message.type for message in turn)
            found.append(str(turn.result().result))
            done.set()

        threading.Thread(target=rest, name="reads").start()

    async def scenario() -> None:
        async with Running(shell, playing(hooks=pre_tool_use(reading))) as session:
            assert await hook(session) == {}
            while not done.is_set():
                await shell.let_others_run()
        assert found[0] == "asked"
        assert "assistant" in found
        assert found[-2:] == ["result", "done"]

    shell.play(scenario)


@shows("session.life.forgotten")
@pytest.mark.parametrize("subtype", ["hook_callback", "can_use_tool", "elicitation"])
def test_a_callback_that_waits_for_ever_keeps_no_session_alive(shell: Shell, playing: StandIn, subtype: str) -> None:
    contexts: list[Any] = []
    told = threading.Event()

    def waiting(asked: Any, context: Any) -> None:
        contexts.append(context)
        told.wait(patience(SECONDS))

    async def also_waiting(request: Any) -> None:
        contexts.append(request)
        await anyio.sleep_forever()

    async def scenario() -> None:
        options = playing(hooks=pre_tool_use(waiting), can_use_tool=also_waiting, on_elicitation=also_waiting)
        session = make(shell, options)
        await got(session.start())
        asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t"}
        fields = {
            "hook_callback": {"callback_id": "hook_0", "input": asked},
            "can_use_tool": {"tool_name": "Bash", "input": {}, "tool_use_id": "t"},
            "elicitation": {"mcp_server_name": "s", "message": "m"},
        }
        turn = await got(session.send(steps(["ask", subtype, fields[subtype]])))
        while not contexts:
            await shell.let_others_run()
        assert contexts[0].session is not None
        alive = weakref.ref(session)
        del session, turn
        gc.collect()
        assert alive() is None
        assert contexts[0].session is None
        told.set()

    shell.play(scenario)


@shows("callbacks.cancelled")
def test_a_callback_that_does_not_obey_costs_no_processor_time(playing: StandIn) -> None:
    stubborn = threading.Event()
    release: list[asyncio.Event] = []
    turns = 0

    async def disobeying(request: Any) -> None:
        nonlocal turns
        release.append(asyncio.Event())
        while not release[0].is_set():
            try:
                await release[0].wait()
            except asyncio.CancelledError:
                turns += 1
                stubborn.set()

    async def scenario() -> None:
        async with Running(shell, playing(can_use_tool=disobeying)) as session:
            fields = {"tool_name": "Bash", "input": {}, "tool_use_id": "t"}
            await texts(await session.send(steps(["ask_and_cancel", "can_use_tool", fields])))
            while not stubborn.is_set():
                await anyio.sleep(0.001)
            assert await texts(await session.send("still there")) == ["still there"]
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            assert turns == 1  # a cancel scope would have cancelled it in every turn of the loop
            release[0].set()

    from tests.support.shell import Shell

    shell = Shell("asyncio")
    shell.play(scenario)


@shows("callbacks.from-inside")
def test_a_plain_callback_ends_its_session(shell: Shell, playing: StandIn) -> None:
    done = threading.Event()

    def stopping(asked: Any, context: Any) -> None:
        context.session.stop()
        done.set()

    async def scenario() -> None:
        async with Running(shell, playing(hooks=pre_tool_use(stopping))) as session:
            asked = {"callback_id": "hook_0", "input": {"hook_event_name": "Stop"}}
            await got(session.send(steps(["ask", "hook_callback", asked])))
            while not done.is_set():
                await shell.let_others_run()
            assert session.state is SessionState.STOPPED

    shell.play(scenario)


def test_a_thread_whose_event_loop_has_ended_is_told_so() -> None:
    loops: list[Loop] = []

    async def here() -> None:
        loops.append(Loop())

    asyncio.run(here())
    with pytest.raises(SessionClosedError, match="event loop has ended"):
        run_in(loops[0], lambda: None)


def test_what_happens_in_the_loop_comes_back(shell: Shell) -> None:
    async def scenario() -> None:
        if shell.blocking:
            return
        loop = Loop()
        outcomes: list[Any] = []

        async def later(value: Any) -> Any:
            await anyio.sleep(0)
            if isinstance(value, BaseException):
                raise value
            return value

        def thread() -> None:
            outcomes.append(run_in(loop, lambda: later(3)))
            for error in (LookupError("x"), ZeroDivisionError()):
                try:
                    run_in(loop, partial(later, error))
                except Exception as raised:
                    outcomes.append(type(raised))
            outcomes.append(run_in(loop, threading.get_ident) == main)

        main = threading.get_ident()
        other = threading.Thread(target=thread)
        other.start()
        while other.is_alive():
            await anyio.sleep(0.001)
        assert outcomes == [3, LookupError, ZeroDivisionError, True]

    shell.play(scenario)
