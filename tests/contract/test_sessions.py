"""Promises about sessions that no other test shows, on asyncio, trio and threads."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from hackamore import (
    ActivityChanged,
    BackgroundTasksChanged,
    InitializationError,
    Limits,
    Options,
    OptionsError,
    SdkPluginConfig,
    SessionClosedError,
    SessionCompleted,
    SessionStarted,
    SessionStopped,
    Timeouts,
    TurnCompleted,
    TurnStarted,
    WarningRaised,
)
from hackamore._engine.protocol.states.session import SessionActivity, SessionState, TurnState
from hackamore.errors import CheckpointingNotEnabledError, CLIExitedDuringInitError, ControlTimeoutError
from hackamore.hooks import HookMatcher
from hackamore.permissions import Allow
from tests.contract import shows
from tests.support.leaks import alive
from tests.support.light import Light
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Running, each, early, first, got, make, raised, steps, texts

TASK = {"task_id": "t", "type": "shell", "description": "d", "status": "running"}
SAFE = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}}


async def sent(session: Any) -> list[dict[str, Any]]:
    """What the CLI was asked so far, apart from this."""
    seen: list[dict[str, Any]] = (await got(session.get_settings())).data["seen"]
    return seen[:-1]


@shows("session.life.activity")
def test_activity(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        session = make(shell, options())
        seen = [session.activity]
        await got(session.start())
        turn = await got(session.send(steps(["text", "a"], ["hang"])))
        while (await first(turn)).type != "assistant":
            pass
        seen.append(session.activity)
        await got(session.interrupt())
        await got(session.wait_idle())
        seen.append(session.activity)
        await got(session.stop())
        assert seen == [SessionActivity.UNKNOWN, SessionActivity.RUNNING, SessionActivity.IDLE]

    shell.play(scenario)


@shows("session.handshake.capabilities")
@pytest.mark.parametrize("info", [{"commands": []}, {"hooks_applied": False, "hook_on_failure_supported": True}])
def test_a_cli_that_does_not_say_it_can_block_is_refused(shell: Shell, options: Light, info: dict[str, Any]) -> None:
    async def scenario() -> None:
        guarded = {"PreToolUse": [HookMatcher(hooks=[lambda *_: None], on_failure="block")]}
        session = make(shell, options(["info", info], hooks=guarded))
        error, turn = await early(shell, session, lambda: session.send("early"))
        assert isinstance(error, InitializationError)
        assert "on_failure" in str(error)
        assert session.state is SessionState.FAILED
        assert not alive(session.pid)
        if not isinstance(turn, BaseException):  # else the CLI was gone before the prompt
            turn = await raised(lambda: turn.result(), InitializationError)
        assert isinstance(turn, InitializationError)
        await got(session.stop())
        open_hook = {"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]}
        async with Running(shell, options(["info", info], hooks=open_hook)) as fine:
            assert await texts(await got(fine.send("fine"))) == ["fine"]

    shell.play(scenario)


@shows("session.queueing.order")
def test_what_was_asked_early_is_sent_in_order(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        session = make(shell, options(["sleep", 0.3]))
        turns: list[Any] = []

        async def start() -> None:
            await got(session.start())

        async def ask() -> list[str]:
            while session.state is not SessionState.INITIALIZING:
                await shell.let_others_run()
            turns.extend([await got(session.send(f"prompt {number}")) for number in range(3)])
            await got(session.set_model("early"))
            return [request["subtype"] for request in await sent(session)]

        _, seen = await shell.meanwhile(start, ask)
        assert seen == ["initialize", "set_model"]
        for number, turn in enumerate(turns):
            assert await texts(turn) == [f"prompt {number}"]
        await got(session.stop())

    shell.play(scenario)


@shows("session.cursors.no-control")
def test_control_frames_appear_nowhere(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        chosen = options(
            can_use_tool=lambda request: Allow(), hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]}
        )
        session = make(shell, chosen)
        await got(session.start())
        everything = session.messages()
        prompt = steps(
            ["ask", "hook_callback", SAFE],
            ["ask", "can_use_tool", {"tool_name": "Bash", "input": {}}],
            ["raw", '{"type":"keep_alive"}\n{"type":"control_cancel_request","request_id":"x"}\n'],
            ["raw", '{"type":"control_response","response":{"subtype":"success","request_id":"never"}}\n'],
        )
        turn = await got(session.send(prompt))
        in_turn = [message.type async for message in each(turn)]
        await got(session.get_settings())
        await got(session.stop())
        in_all = [message.type async for message in each(everything)]
        assert "result" in in_turn
        assert "result" in in_all
        assert not [kind for kind in (*in_turn, *in_all) if kind.startswith(("control_", "keep_alive"))]

    shell.play(scenario)


@shows(
    "session.events.started",
    "session.events.turns",
    "session.events.activity",
    "session.events.background",
    "session.events.warned",
    "session.events.stopped",
)
def test_every_kind_of_event(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        session = make(shell, options())
        triggers = session.events()
        await got(session.start())
        turn = await got(
            session.send(
                steps(["background", [TASK]], ["raw", '{"type":"assistant","session_id":1}\n'], ["background", []])
            )
        )
        await got(turn.result())
        await got(session.wait_idle())
        await got(session.stop())
        seen = [event async for event in each(triggers)]
        kinds = [type(event) for event in seen]
        assert (kinds[0], kinds[-1]) == (SessionStarted, SessionStopped)
        assert seen[0].server_info is session.server_info
        [started] = [e for e in seen if isinstance(e, TurnStarted)]
        [completed] = [e for e in seen if isinstance(e, TurnCompleted)]
        assert started.turn_id == completed.turn_id == turn.id
        assert completed.state is TurnState.COMPLETED
        assert [e.activity for e in seen if isinstance(e, ActivityChanged)][-2:] == [
            SessionActivity.RUNNING,
            SessionActivity.IDLE,
        ]
        assert [len(e.tasks) for e in seen if isinstance(e, BackgroundTasksChanged)] == [1, 0]
        assert [e.warning for e in seen if isinstance(e, WarningRaised)] == session.warnings
        assert [warning.code for warning in session.warnings] == ["FIELD_DROPPED"]

    shell.play(scenario)


@shows("session.events.completed")
def test_a_cli_that_leaves_by_itself(shell: Shell, options: Light, tmp_path: Path) -> None:
    """Its exit with nothing of ours open is the end of the session, and no failure."""

    async def scenario() -> None:
        session = make(shell, options())
        triggers = session.events()
        await got(session.start())
        await got((await got(session.send("hi"))).result())
        await got(session.wait_idle())
        await got(session.finish())
        last = [event async for event in each(triggers)][-1]
        assert isinstance(last, SessionCompleted)
        assert last.exit_code == 0
        await got(session.stop())
        assert session.state is SessionState.STOPPED

    shell.play(scenario)


@shows("session.reader.one-shot")
def test_a_one_shot_that_nobody_reads_pauses_the_cli(shell: Shell, options: Light, tmp_path: Path) -> None:
    """The light stand-in speaks of its own accord here: it never reads a prompt."""
    mark = tmp_path / "written"
    flood = [
        ["flood", 20_000, 1_000],
        ["touch", str(mark)],
        ["raw", '{"type":"result","subtype":"success"}\n'],
        ["exit", 0],
    ]

    async def scenario() -> None:
        stream = shell.query("go", options(env={"LIGHT_BEFORE": json.dumps(flood)}))
        async with stream:
            assert (await stream.next_item()).type == "assistant"
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                await shell.let_others_run()
            assert not mark.exists()  # 20 MB do not fit into the pipe
            count = 1
            while await stream.next_item() is not None:
                count += 1
            assert count == 20_001
            assert mark.exists()

    shell.play(scenario)


@shows(
    "control.operations.interrupt",
    "control.operations.permission-mode",
    "control.operations.model",
    "control.operations.rewind",
    "control.operations.servers",
    "control.operations.escape-hatch",
)
def test_control_operations_on_the_wire(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        async with Running(shell, options(enable_file_checkpointing=True)) as session:
            await got(session.interrupt())
            await got(session.interrupt(cancel_queued=True))
            await got(session.set_permission_mode("plan"))
            await got(session.set_model("opus"))
            await got(session.set_model(None))
            await got(session.rewind_files("u", dry_run=True))
            await got(session.get_mcp_status())
            await got(session.reconnect_mcp_server("s"))
            await got(session.toggle_mcp_server("s", False))
            await got(session.stop_task("t"))
            await got(session.get_context_usage())
            await got(session.get_context_usage(detail="summary"))
            await got(session.get_usage())
            await got(session.get_usage(skip_behaviors=True))
            await got(session.reload_plugins())
            plugins = (SdkPluginConfig(path="/p"), {"type": "local", "path": "/q"})
            await got(session.reload_plugins(add_plugins=plugins, hold_on_cache_impact=True, refuse_if_busy=True))
            await got(session.reinitialize())
            answer = await got(session.request("brand_new", colour={"camelCase": 1, "snake_case": None}))
            assert answer.data["asked"]["colour"] == {"camelCase": 1, "snake_case": None}
            seen = await sent(session)
        ids = [request.pop("request_id") for request in seen]
        assert len(set(ids)) == len(ids)
        assert seen[1:] == [
            {"subtype": "interrupt"},
            {"subtype": "interrupt", "cancel_queued": True},
            {"subtype": "set_permission_mode", "mode": "plan"},
            {"subtype": "set_model", "model": "opus"},
            {"subtype": "set_model", "model": None},
            {"subtype": "rewind_files", "user_message_id": "u", "dry_run": True},
            {"subtype": "mcp_status"},
            {"subtype": "mcp_reconnect", "serverName": "s"},
            {"subtype": "mcp_toggle", "serverName": "s", "enabled": False},
            {"subtype": "stop_task", "task_id": "t"},
            {"subtype": "get_context_usage", "detail": "full"},
            {"subtype": "get_context_usage", "detail": "summary"},
            {"subtype": "get_usage"},
            {"subtype": "get_usage", "skip_behaviors": True},
            {"subtype": "reload_plugins"},
            {
                "subtype": "reload_plugins",
                "add_plugins": [{"path": "/p", "type": "local"}, {"type": "local", "path": "/q"}],
                "hold_on_cache_impact": True,
                "refuse_if_busy": True,
            },
            {"subtype": "initialize"},
            {"subtype": "brand_new", "colour": {"camelCase": 1, "snake_case": None}},
        ]

    shell.play(scenario)


@shows("control.operations.rewind-off")
def test_rewinding_without_checkpoints_sends_nothing(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        async with Running(shell, options()) as session:
            error = await raised(lambda: session.rewind_files("u"), CheckpointingNotEnabledError)
            assert "enable_file_checkpointing" in str(error)
            assert [request["subtype"] for request in await sent(session)] == ["initialize"]

    shell.play(scenario)


@shows("control.operations.deadlines")
def test_deadlines_of_operations(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        chosen = options(timeouts=Timeouts(control=0.2), enable_file_checkpointing=True)
        async with Running(shell, chosen) as session:
            for timeout, expected in ((None, 0.2), (0.4, 0.4)):
                began = time.monotonic()
                error = await raised(
                    lambda timeout=timeout: session.rename_session("x", timeout=timeout), ControlTimeoutError
                )
                assert expected * 0.9 < time.monotonic() - began < expected + patience(3)
                assert error.operation == "rename_session"
                assert error.request_id.startswith("req_")

    shell.play(scenario)


@shows("permissions.asked-for")
def test_a_permission_callback_on_the_command_line(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        async with Running(shell, options(can_use_tool=lambda request: Allow())) as session:
            argv = " ".join((await got(session.get_settings())).data["argv"]).replace("=", " ")
            assert "--permission-prompt-tool stdio" in argv

    shell.play(scenario)
    with pytest.raises(OptionsError) as caught:
        Options(can_use_tool=lambda request: Allow(), permission_prompt_tool_name="mcp__a__b")
    assert "permission_prompt_tool_name" in str(caught.value)


@shows("process.left-alone")
def test_what_outlives_a_good_end_is_left_alone(shell: Shell, options: Light, tmp_path: Path) -> None:
    """A user may have let the agent start a server."""
    mark = tmp_path / "server"

    async def scenario() -> None:
        session = make(shell, options())
        await got(session.start())
        await got((await got(session.send(steps(["grandchild", str(mark)])))).result())
        await got(session.finish())
        pid = int(mark.read_text())
        try:
            assert not alive(session.pid)
            assert alive(pid)
        finally:
            os.kill(pid, 9)
        await got(session.stop())

    shell.play(scenario)


@shows("process.no-shell")
def test_no_shell_is_anywhere(shell: Shell, options: Light, tmp_path: Path) -> None:
    mark = tmp_path / "made"
    awkward = f"$(touch {mark}); `touch {mark}` > {mark} 'x' \"y\" * ~ \\ %s\nnext \u2028 line"

    async def scenario() -> None:
        chosen = options(append_system_prompt=awkward, env={"AWKWARD": awkward})
        async with Running(shell, chosen) as session:
            told = (await got(session.get_settings())).data
        sent = (*told["argv"], told["effective"].get("appendSystemPrompt", ""))
        assert any(value.endswith(awkward) for value in sent)
        assert told["env"]["AWKWARD"] == awkward
        assert not mark.exists()

    shell.play(scenario)


@shows("process.own-group")
def test_a_process_group_of_its_own(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        async with Running(shell, options()) as session:
            assert os.getpgid(session.pid) == session.pid != os.getpgid(0)

    shell.play(scenario)


class Thrown(BaseException):
    pass


@shows("process.block-ends")
def test_a_block_ends_in_a_stop(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        session = make(shell, options())
        with pytest.raises(Thrown):
            if shell.blocking:
                with session:
                    raise Thrown
            async with session:
                raise Thrown
        assert session.state is SessionState.STOPPED
        assert not alive(session.pid)

    shell.play(scenario)


@shows("errors.secrets")
@pytest.mark.parametrize("moment", ["start", "turn"])
def test_errors_of_sessions_have_no_secrets_that_the_cli_printed(shell: Shell, options: Light, moment: str) -> None:
    printed = ["err", "wrong key sk-ant-api03-abcdefghij, wrong value-of-a-variable"]

    async def scenario() -> None:
        early = [printed, ["exit", 1]] if moment == "start" else []
        session = make(shell, options(*early, env={"SHOP": "value-of-a-variable"}))
        if early:
            error = await raised(session.start, CLIExitedDuringInitError)
        else:
            await got(session.start())
            turn = await got(session.send(steps(printed, ["exit", 1])))
            error = await raised(turn.result, SessionClosedError)
        await got(session.stop())
        assert "wrong key <masked>, wrong <masked>" in str(error)
        for text in (str(error), repr(error), str(vars(error))):
            assert "sk-ant" not in text
            assert "value-of-a-variable" not in text

    shell.play(scenario)


@shows("bounds.stderr")
def test_the_tail_of_stderr_has_a_bound(shell: Shell, options: Light) -> None:
    async def scenario() -> None:
        session = make(shell, options(limits=Limits(stderr_tail=1_000)))
        await got(session.start())
        turn = await got(session.send(steps(["err", "first " + "x" * 500_000 + " last"], ["exit", 1])))
        error = await raised(turn.result, SessionClosedError)
        assert len(error.stderr_tail) <= 1_000
        assert error.stderr_tail.endswith(" last")
        await got(session.stop())

    shell.play(scenario)
