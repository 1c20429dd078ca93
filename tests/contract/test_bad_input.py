"""Bad input of every kind: each gets its typed outcome within its bound, and leaves no process."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from hackamore import (
    CLIExitedDuringInitError,
    HackamoreError,
    InitializationTimeoutError,
    Limits,
    SessionClosedError,
    Timeouts,
)
from hackamore._engine.protocol.states.session import SessionState
from hackamore.errors import ControlTimeoutError, TurnTimeoutError
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Deny
from hackamore.tools import tool, tool_server
from tests.contract import shows
from tests.support.inside import hurry
from tests.support.leaks import alive
from tests.support.light import Light
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Running, got, make, raised, steps, texts

HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}}
QUESTION = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t"}
HASTY = Timeouts(stop_grace=0.1, kill_grace=0.2)


def lines(*frames: Any) -> list[Any]:
    return ["raw", "".join(json.dumps(frame) + "\n" for frame in frames)]


@shows(
    "control.operations.late-answers",
    "control.operations.permissive",
    "bad.never-issued",
    "bad.two-answers",
    "bad.no-payload",
)
def test_strange_answers(shell: Shell, options: Light) -> None:
    """Answers nobody asked for, our own played back, two of one kind, one without a payload."""
    played_back = {"subtype": "success", "request_id": "light-1", "response": {"behavior": "allow"}}
    never = {"subtype": "success", "request_id": "req_99_00000000", "response": {}}
    refused = {"subtype": "error", "request_id": "req_98_00000000", "error": "no"}

    async def scenario() -> None:
        async with Running(shell, options(can_use_tool=lambda request: Deny("no"))) as session:
            turn = await got(
                session.send(
                    steps(
                        ["ask", "can_use_tool", QUESTION],
                        lines(
                            *(
                                {"type": "control_response", "response": answer}
                                for answer in (played_back, never, refused)
                            )
                        ),
                        lines({"type": "control_response"}, {"type": "control_response", "response": 5}),
                        ["text", "on"],
                    )
                )
            )
            assert (await texts(turn))[-1] == "on"
            assert (await got(session.request("empty"))).data in (None, {})
            assert (await got(session.request("twice"))).data == {"first": True}
            assert await texts(await got(session.send("and on"))) == ["and on"]
            assert {warning.code for warning in session.warnings} == {"FIELD_DROPPED"}  # the one that is a 5

    shell.play(scenario)


@shows("bad.no-id")
def test_strange_requests(shell: Shell, options: Light) -> None:
    hook = {"subtype": "hook_callback", **HOOK}

    async def scenario() -> None:
        async with Running(shell, options(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})) as session:
            nameless = [
                {"type": "control_request", "request": hook, **more}
                for more in ({}, {"request_id": None}, {"request_id": 5})
            ]
            bad: list[Any] = [None, 5, [], {}]
            shapeless = [
                {"type": "control_request", "request_id": f"r{number}", "request": request}
                for number, request in enumerate(bad)
            ]
            turn = await got(session.send(steps(lines(*nameless, *shapeless), ["await_answers", 4], ["counts"])))
            [counts] = await texts(turn)
            assert json.loads(counts) == [1, 1, 1, 1]
            assert await texts(await got(session.send("on"))) == ["on"]

    shell.play(scenario)


@shows("bad.before-answer")
def test_hooks_before_the_answer(shell: Shell, options: Light) -> None:
    called: list[Any] = []

    def hook(asked: Any, context: Any) -> HookOutput:
        called.append(asked.tool_name)
        return HookOutput.deny("no")

    async def scenario() -> None:
        # The stand-in asks before it answers `initialize`.
        started = options(["ask", "hook_callback", HOOK], hooks={"PreToolUse": [HookMatcher(hooks=[hook])]})
        async with Running(shell, started) as session:
            assert called == ["Bash"]
            assert session.server_info is not None
            assert session.warnings == []

    shell.play(scenario)


@shows("bad.flood-of-hooks")
@pytest.mark.parametrize("kind", ["permission", "tool"])
def test_five_hundred_at_once_of_the_other_kinds(shell: Shell, options: Light, kind: str) -> None:
    @tool
    def work() -> str:
        """Work."""
        return "done"

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work", "arguments": {}}}
    asked = {
        "permission": ["ask_many", "can_use_tool", QUESTION, 500],
        "tool": ["ask_many", "mcp_message", {"server_name": "desk", "message": call}, 500],
    }[kind]

    async def scenario() -> None:
        chosen = options(
            can_use_tool=lambda request: Deny("no"),
            mcp_servers={"desk": tool_server("desk", [work])},
            limits=Limits(inflight_callbacks=4),
        )
        async with Running(shell, chosen) as session:
            [answers] = await texts(await got(session.send(steps(asked))))
            for answer in json.loads(answers):
                if kind == "permission":
                    assert answer["message"] == "no"
                else:
                    assert answer["mcp_response"]["result"]["content"][0]["text"] == "done"
            assert len(json.loads(answers)) == 500

    shell.play(scenario)


@shows("bad.exits")
@pytest.mark.parametrize("how", [["exit", 0], ["exit", 1], ["die"]], ids=["0", "1", "killed"])
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_endings_around_the_handshake(shell: Shell, options: Light, moment: str, how: list[Any]) -> None:
    async def scenario() -> None:
        chosen = options(*([how] if moment == "during" else []))
        if moment == "before":
            chosen = options(env={"LIGHT_BEFORE": json.dumps([how])})
        session = make(shell, chosen)
        began = time.monotonic()
        if moment == "after":
            await got(session.start())
            turn = await got(session.send(steps(how)))
            error = await raised(turn.result, SessionClosedError)
            assert not error.expected
            await raised(session.wait_idle, SessionClosedError)
        else:
            error = await raised(session.start, CLIExitedDuringInitError)
        assert error.exit_code == {"exit": how[-1], "die": -9}[how[0]]
        assert time.monotonic() - began < patience(10)
        assert session.state is SessionState.FAILED
        await raised(session.interrupt, HackamoreError)
        await got(session.stop())
        assert not alive(session.pid)

    shell.play(scenario)


@shows("bad.silence")
def test_a_silent_cli(shell: Shell, options: Light) -> None:
    """It takes what it is sent and says nothing: each wait has its deadline."""

    async def scenario() -> None:
        mute = make(shell, options(["silent"], timeouts=Timeouts(initialize=0.3, stop_grace=0.1, kill_grace=0.2)))
        await raised(mute.start, InitializationTimeoutError)
        assert not alive(mute.pid)
        timeouts = Timeouts(first_message=0.3, control=0.3, stop_grace=0.1, kill_grace=0.2)
        session = make(shell, options(timeouts=timeouts))
        hurry(session)
        await got(session.start())
        turn = await got(session.send(steps(["silent"])))
        error = await raised(turn.result, TurnTimeoutError)
        assert error.kind == "first_message"
        await raised(session.get_usage, ControlTimeoutError)
        await got(session.stop())
        assert not alive(session.pid)

    shell.play(scenario)


@shows("bad.stops-reading")
def test_a_cli_that_reads_nothing_more(shell: Shell, options: Light) -> None:
    """Ten megabytes wait for it; what it says is read all the same, and the stop is as quick as ever."""

    async def scenario() -> None:
        session = make(shell, options(timeouts=HASTY))
        hurry(session)
        await got(session.start())
        turn = await got(
            session.send(steps(["sleep", 0.2], ["flood", 1_000, 100], ["text", "still talking"], ["silent"]))
        )
        began = time.monotonic()
        waiting = await got(session.send("x" * 10_000_000))
        assert time.monotonic() - began < patience(2)
        assert await _until_text(turn, "still talking")
        await raised(lambda: session.get_usage(timeout=0.2), ControlTimeoutError)
        began = time.monotonic()
        await got(session.stop())
        assert time.monotonic() - began < patience(5)
        await raised(waiting.result, SessionClosedError)
        assert not alive(session.pid)

    shell.play(scenario)


async def _until_text(turn: Any, text: str) -> bool:
    from tests.support.talking import first

    while True:
        message = await first(turn)
        if message.type == "assistant" and message.content[0].text == text:
            return True


@shows("bad.after-stop")
def test_everything_after_the_stop(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        session = make(shell, options())
        await got(session.start())
        turn = await got(session.send("hi"))
        await got(turn.result())
        await got(session.stop())
        for attempt in (
            lambda: session.send("too late"),
            session.interrupt,
            session.get_usage,
            lambda: session.request("anything"),
            session.wait_idle,
            session.start,
        ):
            error = await raised(attempt, SessionClosedError)
            assert error.expected
        assert await texts(session.messages()) == []
        assert await got(turn.result()) is not None  # what was had is not lost
        await got(session.stop())
        await got(session.finish())

    shell.play(scenario)
