"""What the CLI asks of us: hooks, permissions, tools, dialogs, on asyncio, trio and threads, with callbacks of every bad kind."""

from __future__ import annotations

import contextvars
import inspect
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hackamore import Limits, Timeouts
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Allow, Deny
from hackamore.tools import ToolContext, tool, tool_server
from tests.contract import shows
from tests.support.patience import patience
from tests.support.session_fixtures import StandIn
from tests.support.shell import Backend, Shell
from tests.support.talking import Running, ask, got, steps, texts

INPUT = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "session_id": "s"}
DENIED = "permissionDecision"


async def hook(session: Any, callback_id: str = "hook_0", **fields: Any) -> Any:
    return await ask(session, "hook_callback", callback_id=callback_id, input={**INPUT, **fields}, tool_use_id="t")


async def permission(session: Any, **fields: Any) -> Any:
    return await ask(session, "can_use_tool", tool_name="Bash", input={"command": "ls"}, tool_use_id="t", **fields)


async def rpc(session: Any, method: str, server: str = "shop", **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    answer = await ask(session, "mcp_message", server_name=server, message=message)
    return answer["mcp_response"]


def matching(*hooks: Any, **more: Any) -> dict[str, Any]:
    return {"PreToolUse": [HookMatcher(hooks=list(hooks), **more)]}


def codes(session: Any) -> list[str]:
    return [warning.code for warning in session.warnings]


def both(function: Any) -> list[Any]:
    """The function, and the same as a coroutine function."""

    async def waiting(*arguments: Any) -> Any:
        return function(*arguments)

    return [function, waiting]


@shows("asked.hook.dispatch", "callbacks.plain-and-async", "hooks.context")
def test_hooks_plain_and_async(shell: Shell, playing: StandIn) -> None:
    caller = contextvars.ContextVar("caller", default="nobody")
    seen: list[Any] = []

    def refusing(asked: Any, context: Any) -> HookOutput:
        seen.append((asked.tool_name, context.tool_use_id, context.session, context.cancelled, caller.get()))
        return HookOutput.deny("no")

    async def scenario() -> None:
        caller.set("the user")
        async with Running(shell, playing(hooks=matching(*both(refusing)))) as session:
            registered = (await got(session.get_settings())).data["effective"]["hooks"]
            assert registered == {
                "PreToolUse": [{"matcher": None, "hookCallbackIds": ["hook_0", "hook_1"], "timeout": 65}]
            }
            for callback_id in ("hook_0", "hook_1"):
                answer = await hook(session, callback_id)
                assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "no"
            assert seen == [("Bash", "t", session, False, "the user")] * 2
            assert session.warnings == []
            seen.clear()

    shell.play(scenario)


def raising(*_: Any) -> Any:
    raise RuntimeError("it is broken")


def leaving(*_: Any) -> Any:
    raise SystemExit(3)


@shows(
    "asked.hook.unknown-id",
    "asked.hook.raises",
    "asked.hook.wrong-type",
    "asked.guard.raises",
    "asked.guard.wrong-type",
    "callbacks.harmless",
    "callbacks.warned",
)
@pytest.mark.parametrize("on_failure", ["continue", "block"])
@pytest.mark.parametrize("bad", [raising, leaving, lambda *_: 5, lambda *_: {"continue": object()}], ids=range(4))
def test_a_bad_hook_fails_as_it_was_told_to(shell: Shell, playing: StandIn, bad: Any, on_failure: Any) -> None:
    async def scenario() -> None:
        async with Running(shell, playing(hooks=matching(*both(bad), on_failure=on_failure))) as session:
            for callback_id in ("hook_0", "hook_1"):
                answer = await hook(session, callback_id)
                if on_failure == "continue":
                    assert answer == {}
                else:
                    assert answer["hookSpecificOutput"][DENIED] == "deny"
            assert codes(session) == ["CALLBACK_FAILED"] * 2
            assert not any(warning.message.endswith("..") for warning in session.warnings)
            assert await hook(session, "hook_77") == {}  # never registered

    shell.play(scenario)


class Speechless(Exception):
    def __str__(self) -> str:
        raise self


def speechless(*_: Any) -> Any:
    raise Speechless


def closing(*_: Any) -> Any:
    raise GeneratorExit


@shows("asked.hook.raises", "asked.guard.raises", "callbacks.harmless")
def test_callbacks_that_raise_what_nobody_expects(shell: Shell, playing: StandIn) -> None:
    bad = [*both(speechless), *both(closing)]

    def selling(bad: Any, name: str) -> Any:
        def sell(item: str) -> Any:
            return bad(item)

        async def sell_later(item: str) -> Any:
            return await bad(item)

        return tool(sell_later if inspect.iscoroutinefunction(bad) else sell, name=name)

    named = [selling(function, f"t{number}") for number, function in enumerate(bad)]

    async def scenario() -> None:
        options = playing(
            hooks=matching(*bad, on_failure="block"),
            mcp_servers={"shop": tool_server("shop", named)},
            can_use_tool=speechless,
        )
        async with Running(shell, options) as session:
            for number in range(len(bad)):
                answer = await hook(session, f"hook_{number}")
                assert answer["hookSpecificOutput"][DENIED] == "deny"
                answer = await rpc(session, "tools/call", name=f"t{number}", arguments={"item": "hat"})
                assert answer["result"]["isError"]
            answer = await permission(session)
            assert answer["behavior"] == "deny"
            assert "Speechless" in answer["message"]

    shell.play(scenario)


class LeavingArgument(msgspec.Struct):
    size: int

    def __post_init__(self) -> None:
        raise SystemExit(3)


class LeavingAnswer(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise SystemExit(3)

    __iter__ = __len__ = leaving


@tool
def leave(hat: LeavingArgument) -> str:
    """Leave the program."""
    return "never called"


@shows("callbacks.harmless")
def test_what_callbacks_take_and_return_cannot_end_the_program(shell: Shell, playing: StandIn) -> None:
    hooks = matching(*both(lambda *_: LeavingAnswer()))

    async def scenario() -> None:
        async with Running(shell, playing(hooks=hooks, mcp_servers={"shop": tool_server("shop", [leave])})) as session:
            answer = await rpc(session, "tools/call", name="leave", arguments={"hat": {"size": 3}})
            assert "SystemExit" in answer["error"]["message"]
            for callback_id in ("hook_0", "hook_1"):
                assert await hook(session, callback_id) == {}
            assert codes(session) == ["CALLBACK_FAILED"] * 2

    shell.play(scenario)


@shows("asked.hook.deadline", "asked.guard.deadline", "callbacks.warned")
@pytest.mark.parametrize("on_failure", ["continue", "block"])
def test_a_hook_that_hangs_is_answered_at_its_deadline(shell: Shell, playing: StandIn, on_failure: Any) -> None:
    release = threading.Event()
    cancelled: list[bool] = []

    def hanging(asked: Any, context: Any) -> None:
        release.wait(patience(20))
        cancelled.append(context.cancelled)

    async def waiting(asked: Any, context: Any) -> None:
        try:
            while True:
                await _sleep()
        finally:
            cancelled.append(context.cancelled)

    async def _sleep() -> None:
        if shell.backend == "trio":
            import trio

            await trio.sleep(0.01)
        else:
            import asyncio

            await asyncio.sleep(0.01)

    async def scenario() -> None:
        hooks = matching(hanging, waiting, timeout=0.2, on_failure=on_failure)
        async with Running(shell, playing(hooks=hooks)) as session:
            for callback_id in ("hook_0", "hook_1"):
                began = time.monotonic()
                answer = await hook(session, callback_id)
                assert 0.15 < time.monotonic() - began < patience(2)
                assert (answer == {}) is (on_failure == "continue")
            assert codes(session) == ["CALLBACK_TIMED_OUT"] * 2
            release.set()
            until = time.monotonic() + patience(10)
            while len(cancelled) < 2 and time.monotonic() < until:
                await shell.let_others_run()
            assert cancelled == [True, True]

    shell.play(scenario)


@shows("callbacks.in-flight", "bad.flood-of-hooks")
def test_five_hundred_hooks_at_once(shell: Shell, playing: StandIn) -> None:
    lock = threading.Lock()
    running = most = 0

    def counting(asked: Any, context: Any) -> HookOutput:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
        return HookOutput.deny("guarded")

    async def scenario() -> None:
        options = playing(hooks=matching(*both(counting)), limits=Limits(inflight_callbacks=4))
        async with Running(shell, options) as session:
            for callback_id in ("hook_0", "hook_1"):
                fields = {"callback_id": callback_id, "input": INPUT, "tool_use_id": "t"}
                turn = await got(session.send(steps(["ask_many", "hook_callback", fields, 500])))
                [answers] = await texts(turn)
                decisions = [answer["hookSpecificOutput"][DENIED] for answer in json.loads(answers)]
                assert decisions == ["deny"] * 500
            assert most <= 4
            assert set(codes(session)) <= {"CALLBACK_QUEUE_FULL"}

    shell.play(scenario)


@shows("callbacks.cancelled", "hooks.context")
def test_the_cli_takes_a_question_back(shell: Shell, playing: StandIn) -> None:
    told = threading.Event()

    def hanging(asked: Any, context: Any) -> None:
        until = time.monotonic() + patience(20)
        while not context.cancelled and time.monotonic() < until:
            threading.Event().wait(0.005)
        told.set()

    async def scenario() -> None:
        async with Running(shell, playing(hooks=matching(hanging))) as session:
            fields = {"callback_id": "hook_0", "input": INPUT}
            turn = await got(session.send(steps(["ask_and_cancel", "hook_callback", fields], ["text", "on"])))
            assert await texts(turn) == ["on"]
            until = time.monotonic() + patience(10)
            while not told.is_set() and time.monotonic() < until:
                await shell.let_others_run()
            assert told.is_set()
            assert session.warnings == []

    shell.play(scenario)


@shows("callbacks.stopping")
def test_stopping_answers_safely_and_cancels(shell: Shell, playing: StandIn) -> None:
    asked = threading.Event()
    told = threading.Event()

    def hanging(request: Any) -> Allow:
        asked.set()
        until = time.monotonic() + patience(20)
        while not request.cancelled and time.monotonic() < until:
            threading.Event().wait(0.005)
        told.set()
        return Allow()

    async def scenario() -> None:
        async with Running(shell, playing(can_use_tool=hanging)) as session:
            fields = {"tool_name": "Bash", "input": {}, "tool_use_id": "t"}
            turn = await got(session.send(steps(["ask", "can_use_tool", fields])))
            while not asked.is_set():
                await shell.let_others_run()
            await got(session.stop())
            [answer] = await texts(turn)
            assert json.loads(answer)["behavior"] == "deny"
        assert told.wait(patience(10))

    shell.play(scenario)


@shows("asked.permission.dispatch", "permissions.deny")
def test_permissions(shell: Shell, playing: StandIn) -> None:
    def deciding(request: Any) -> Any:
        return Allow() if request.input["command"] == "ls" else Deny("not that", interrupt=True)

    async def scenario() -> None:
        for callback in both(deciding):
            async with Running(shell, playing(can_use_tool=callback)) as session:
                assert await permission(session) == {
                    "behavior": "allow",
                    "updatedInput": {"command": "ls"},
                    "toolUseID": "t",
                }
                refused = await ask(session, "can_use_tool", tool_name="Bash", input={"command": "rm"}, tool_use_id="t")
                assert (refused["behavior"], refused["message"], refused["interrupt"]) == ("deny", "not that", True)

    shell.play(scenario)


@shows("asked.permission.nobody", "asked.permission.raises", "asked.permission.wrong-type")
@pytest.mark.parametrize(
    "bad", [raising, leaving, lambda *_: True, lambda *_: Allow(updated_input={"x": object()}), None], ids=range(5)
)
def test_a_bad_permission_callback_denies(shell: Shell, playing: StandIn, bad: Any) -> None:
    async def scenario() -> None:
        for callback in both(bad) if bad is not None else [None]:
            async with Running(shell, playing(can_use_tool=callback)) as session:
                assert (await permission(session))["behavior"] == "deny"
                assert codes(session) == ([] if bad is None else ["CALLBACK_FAILED"])

    shell.play(scenario)


@shows("asked.permission.deadline")
def test_a_permission_nobody_answers_is_denied_at_the_deadline(shell: Shell, playing: StandIn) -> None:
    release = threading.Event()

    async def scenario() -> None:
        options = playing(can_use_tool=lambda request: release.wait(patience(20)), timeouts=Timeouts(permission=0.2))
        async with Running(shell, options) as session:
            answer = await permission(session)
            assert answer["behavior"] == "deny"
            assert "0.2 s" in answer["message"]
        release.set()

    shell.play(scenario)


@tool
def price(article: str) -> float:
    """The price."""
    if article == "nothing":
        raise KeyError("no such article")
    return 2.5


@tool
async def slow(context: ToolContext) -> str:
    """Reports progress."""
    context.report_progress(1, 2)
    return type(context.session).__name__


@shows(
    "control.operations.servers",
    "asked.mcp.dispatch",
    "asked.mcp.unknown-server",
    "asked.mcp.raises",
    "asked.mcp.tool-errors",
    "tools.kinds",
    "tools.replaced",
)
def test_tools(shell: Shell, playing: StandIn) -> None:
    def opaque(message: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": message["id"], "result": {"method": message["method"]}}

    servers = {"shop": tool_server("shop", [price, slow]), "opaque": opaque, "broken": raising}

    async def scenario() -> None:
        async with Running(shell, playing(mcp_servers=servers)) as session:
            sent = (await got(session.get_settings())).data["effective"]["sdkMcpServers"]
            assert sent == ["shop", "opaque", "broken"]
            listed = await rpc(session, "tools/list")
            assert [entry["name"] for entry in listed["result"]["tools"]] == ["price", "slow"]
            answer = await rpc(session, "tools/call", name="price", arguments={"article": "tea"})
            assert answer["result"]["content"][0]["text"] == "2.5"
            answer = await rpc(session, "tools/call", name="slow", arguments={}, _meta={"progressToken": 1})
            assert answer["result"]["content"][0]["text"] == "Session"
            for arguments in ({"article": "nothing"}, {}, {"article": 5}):
                answer = await rpc(session, "tools/call", name="price", arguments=arguments)
                assert answer["result"]["isError"] is True
            assert (await rpc(session, "x", server="opaque"))["result"] == {"method": "x"}
            assert (await rpc(session, "x", server="broken"))["error"]["code"] == -32603
            assert (await rpc(session, "x", server="unknown"))["error"]["code"] == -32601
            assert codes(session) == ["CALLBACK_FAILED"] * 2  # `price` and `broken`

            await got(session.set_mcp_servers({"new": tool_server("new", [price])}))
            answer = await rpc(session, "tools/call", server="new", name="price", arguments={"article": "tea"})
            assert answer["result"]["content"][0]["text"] == "2.5"

    shell.play(scenario)


@shows("asked.dialog.dispatch", "asked.dialog.nobody")
def test_dialogs_have_safe_defaults_and_callbacks(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            assert await ask(session, "elicitation", mcp_server_name="s", message="m") == {"action": "decline"}
            answer = await ask(session, "request_user_dialog", dialog_kind="k", payload={})
            assert answer == {"behavior": "cancelled"}
        options = playing(
            on_elicitation=lambda request: {"action": "accept", "content": {"said": request.message}},
            on_user_dialog=raising,
        )
        async with Running(shell, options) as session:
            answer = await ask(session, "elicitation", mcp_server_name="s", message="m")
            assert answer == {"action": "accept", "content": {"said": "m"}}
            answer = await ask(session, "request_user_dialog", dialog_kind="k", payload={})
            assert answer == {"behavior": "cancelled"}

    shell.play(scenario)


@shows("asked.other.malformed", "bad.no-id")
def test_garbage_is_survived(shell: Shell, playing: StandIn) -> None:
    garbage = (
        'noise\n{"type":"control_request","request":{"subtype":"hook_callback"}}\n'
        '{"type":"control_request","request_id":"x"}\n{"type":"control_response","response":{"request_id":"never"}}\n'
        '{"type":"control_request","request_id":"y","request":{"subtype":"hologram"}}\n'
        '{"type":"control_request","request_id":"z","request":{"subtype":"can_use_tool"}}\n'
        '{"type":"control_cancel_request","request_id":"w"}\n'
    )

    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            assert await texts(await got(session.send(steps(["raw", garbage], ["text", "fine"])))) == ["fine"]

    shell.play(scenario)


@shows("callbacks.from-inside", "hooks.context")
def test_a_hook_may_steer_its_session(shell: Shell, playing: StandIn) -> None:
    async def asking(asked: Any, context: Any) -> HookOutput:
        version = await got(context.session.get_binary_version())
        return HookOutput.deny(version.version)

    async def scenario() -> None:
        async with Running(shell, playing(hooks=matching(asking))) as session:
            answer = await hook(session)
            assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "2"

    shell.play(scenario)


@shows("callbacks.plain-and-async")
@pytest.mark.parametrize(
    ("backend", "around"),
    [("asyncio", None), ("trio", None), ("threads", None), ("threads", "asyncio"), ("threads", "trio")],
)
def test_a_callback_may_run_an_event_loop_of_its_own(playing: StandIn, backend: Backend, around: str | None) -> None:
    """The thread of a plain function is nobody's event loop, whatever runs where the session was started."""
    import anyio

    shell = Shell(backend)

    async def answer() -> str:
        await anyio.sleep(0)
        return "from a loop"

    def plain(*_: Any) -> HookOutput:
        return HookOutput.deny(anyio.run(answer) + anyio.run(answer, backend="trio"))

    async def waiting(*_: Any) -> HookOutput:
        return HookOutput.deny(await answer())

    async def scenario() -> None:
        async with Running(shell, playing(hooks=matching(plain, waiting))) as session:
            answers = [await hook(session), await hook(session, "hook_1")]
        reasons = [answer["hookSpecificOutput"]["permissionDecisionReason"] for answer in answers]
        assert reasons == ["from a loop" * 2, "from a loop"]

    if around is None:
        shell.play(scenario)
    else:
        anyio.run(scenario, backend=around)


CTRL_C = """
import asyncio, sys
import trio
import hackamore
from pathlib import Path
from hackamore import HookMatcher, Options, tool, tool_server
from tests.support.light import light
from tests.support.talking import steps

where, kind, library = sys.argv[1:]


async def interrupted(*_):
    raise KeyboardInterrupt


@tool
async def stop() -> str:
    "Stop."
    raise KeyboardInterrupt


HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}, "tool_use_id": None}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stop", "arguments": {}}}
ASKS = {
    "hook": ("hook_callback", HOOK),
    "permission": ("can_use_tool", {"tool_name": "Bash", "input": {}, "tool_use_id": "t"}),
    "tool": ("mcp_message", {"server_name": "shop", "message": CALL}),
    "dialog": ("elicitation", {"mcp_server_name": "s", "message": "m"}),
}


async def main():
    options = light(Path(where))(
        hooks={"PreToolUse": [HookMatcher(hooks=[interrupted])]},
        can_use_tool=interrupted,
        on_elicitation=interrupted,
        mcp_servers={"shop": tool_server("shop", [stop])},
    )
    async with hackamore.Session(options) as session:
        turn = await session.send(steps(["timed_ask", *ASKS[kind]], ["await_requests", 1]))
        await turn.result()
        print("it was only reported", session.warnings)


if library == "trio":
    trio.run(main)
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("library", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", ["hook", "permission", "tool", "dialog"])
@shows("callbacks.ctrl-c")
def test_a_keyboard_interrupt_in_an_async_callback_ends_the_program(tmp_path: Path, kind: str, library: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C, str(tmp_path), kind, library],
        capture_output=True,
        check=False,
        text=True,
        timeout=patience(60),
    )
    assert done.stdout == ""
    assert done.stderr.rstrip().splitlines()[-1] == "KeyboardInterrupt", done.stderr
    assert "TrioInternalError" not in done.stderr
    assert done.returncode in {-2, 130}
