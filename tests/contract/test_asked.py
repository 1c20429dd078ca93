"""What the CLI asks of us, cell by cell: what it gets when all is well, and for each way in which a callback can go wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from hackamore import Timeouts
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Allow
from hackamore.tools import tool, tool_server
from tests.contract import shows
from tests.support.light import Light
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Running, ask, got, steps, texts

SECONDS = 0.3
HOOK = {"input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}}
QUESTION = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t"}
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "work", "arguments": {}}}
ANSWER = {"jsonrpc": "2.0", "id": 7, "result": {}}


def hooks(callback: Any, **more: Any) -> dict[str, Any]:
    return {"hooks": {"PreToolUse": [HookMatcher(hooks=[callback], timeout=SECONDS, **more)]}}


def tools(callback: Any) -> dict[str, Any]:
    callback.__name__ = "work"
    return {"mcp_servers": {"desk": tool_server("desk", [tool(callback, description="Work.")])}}


@dataclass(frozen=True)
class Kind:
    """One row: how it is set up, asked and answered.

    Attributes:
        options: makes the options of the callback.
        subtype: what the CLI asks.
        fields: with which fields.
        good: what a callback returns.
        answered: whether an answer is that.
        bad: what a callback may not return: of the wrong type, and what is not JSON.
        failed: whether an answer is that of a failure.
        unreadable: fields that cannot be read; None where it is known already which callback it is.
        arity: how many arguments a callback has.
    """

    options: Callable[[Any], dict[str, Any]]
    subtype: str
    fields: dict[str, Any]
    good: Any
    answered: Callable[[Any], bool]
    bad: tuple[Any, ...]
    failed: Callable[[Any], bool]
    unreadable: dict[str, Any] | None
    arity: int = 1


KINDS = {
    "hook": Kind(
        hooks,
        "hook_callback",
        {"callback_id": "hook_0", **HOOK},
        HookOutput.deny("no"),
        lambda answer: answer["hookSpecificOutput"]["permissionDecisionReason"] == "no",
        (5, {"continue": object()}),
        lambda answer: answer == {},
        {"callback_id": 3, "input": {}},
        arity=2,
    ),
    "guard": Kind(
        lambda callback: hooks(callback, on_failure="block"),
        "hook_callback",
        {"callback_id": "hook_0", **HOOK},
        HookOutput.proceed(),
        lambda answer: "hookSpecificOutput" not in answer,
        (5, {"continue": object()}),
        lambda answer: answer["hookSpecificOutput"]["permissionDecision"] == "deny",
        None,
        arity=2,
    ),
    "permission": Kind(
        lambda callback: {"can_use_tool": callback},
        "can_use_tool",
        QUESTION,
        Allow(),
        lambda answer: (answer["behavior"], answer["updatedInput"]) == ("allow", QUESTION["input"]),
        (True, None, Allow(updated_input={"x": object()})),
        lambda answer: answer["behavior"] == "deny" and bool(answer["message"]),
        {"tool_name": "Bash", "input": "ls"},
    ),
    "tool": Kind(
        tools,
        "mcp_message",
        {"server_name": "desk", "message": CALL},
        "worked",
        lambda answer: answer["mcp_response"]["result"]["content"][0]["text"] == "worked",
        (object(),),
        lambda answer: answer["mcp_response"]["result"]["isError"] is True,
        None,
        arity=0,
    ),
    "server": Kind(
        lambda callback: {"mcp_servers": {"desk": callback}},
        "mcp_message",
        {"server_name": "desk", "message": CALL},
        ANSWER,
        lambda answer: answer == {"mcp_response": ANSWER},
        (5, {"jsonrpc": "2.0", "id": 7, "result": object()}),
        lambda answer: answer["mcp_response"]["error"]["code"] == -32603,
        {"message": {"id": 3}},
    ),
    "elicitation": Kind(
        lambda callback: {"on_elicitation": callback},
        "elicitation",
        {"mcp_server_name": "s", "message": "m"},
        {"action": "accept", "content": {"a": 1}},
        lambda answer: answer == {"action": "accept", "content": {"a": 1}},
        (5, {"action": "accept", "content": {"a": object()}}),
        lambda answer: answer["action"] == "decline",
        {},
    ),
    "dialog": Kind(
        lambda callback: {"on_user_dialog": callback},
        "request_user_dialog",
        {"dialog_kind": "k", "payload": {}},
        {"behavior": "completed", "result": 1},
        lambda answer: answer == {"behavior": "completed", "result": 1},
        (5, {"behavior": "completed", "result": object()}),
        lambda answer: answer["behavior"] == "cancelled",
        {},
    ),
}
TIMEOUTS = Timeouts(permission=SECONDS, mcp=SECONDS, hook=SECONDS)


class Callback:
    """One callback, plain or not, that does what it is told to."""

    def __init__(self, shell: Shell, asynchronous: bool) -> None:
        self.shell = shell
        self.asynchronous = asynchronous
        self.outcome: Any = None
        self.hangs = False
        self.release = threading.Event()
        self.called = 0

    def of(self, arity: int) -> Any:
        plain, waiting = self._plain, self._waiting
        if arity == 0:

            def none() -> Any:
                return plain()

            async def async_none() -> Any:
                return await waiting()

            return async_none if self.asynchronous else none
        if arity == 1:

            async def async_one(asked: Any) -> Any:
                return await waiting()

            return async_one if self.asynchronous else lambda asked: plain()

        async def async_two(asked: Any, context: Any) -> Any:
            return await waiting()

        return async_two if self.asynchronous else lambda asked, context: plain()

    def _end(self) -> Any:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def _plain(self) -> Any:
        self.called += 1
        if self.hangs:
            self.release.wait(patience(20))
        return self._end()

    async def _waiting(self) -> Any:
        self.called += 1
        while self.hangs and not self.release.is_set():
            if self.shell.backend == "trio":
                import trio

                await trio.sleep(0.01)
            else:
                import asyncio

                await asyncio.sleep(0.01)
        return self._end()


@pytest.fixture(params=["plain", "async"])
def callback(request: pytest.FixtureRequest, shell: Shell) -> Callback:
    return Callback(shell, request.param == "async")


@shows(
    "asked.hook.dispatch",
    "asked.guard.in-the-cli",
    "asked.permission.dispatch",
    "asked.mcp.dispatch",
    "asked.dialog.dispatch",
    "hooks.matchers",
)
@pytest.mark.parametrize("kind", KINDS)
def test_good_answers(shell: Shell, options: Light, callback: Callback, kind: str) -> None:
    row = KINDS[kind]
    callback.outcome = row.good

    async def scenario() -> None:
        async with Running(shell, options(**row.options(callback.of(row.arity)))) as session:
            for _ in range(3):
                assert row.answered(await ask(session, row.subtype, **row.fields))
            assert callback.called == 3
            assert session.warnings == []
            registered = (await got(session.get_settings())).data["effective"].get("hooks", {})
        if kind == "guard":
            assert registered["PreToolUse"][0]["onFailure"] == "block"

    shell.play(scenario)


@shows(
    "asked.hook.raises",
    "asked.hook.deadline",
    "asked.hook.wrong-type",
    "asked.hook.unreadable",
    "asked.guard.raises",
    "asked.guard.deadline",
    "asked.guard.wrong-type",
    "asked.permission.raises",
    "asked.permission.deadline",
    "asked.permission.wrong-type",
    "asked.permission.unreadable",
    "asked.mcp.raises",
    "asked.mcp.deadline",
    "asked.mcp.wrong-type",
    "asked.mcp.unreadable",
    "asked.dialog.fails",
    "bad.callbacks",
)
@pytest.mark.parametrize("kind", KINDS)
def test_failures(shell: Shell, options: Light, callback: Callback, kind: str) -> None:
    row = KINDS[kind]

    async def scenario() -> None:
        chosen = options(**row.options(callback.of(row.arity)), timeouts=TIMEOUTS)
        async with Running(shell, chosen) as session:
            for bad in (RuntimeError("broken"), SystemExit(3), *row.bad):
                callback.outcome = bad
                answer = await ask(session, row.subtype, **row.fields)
                assert row.failed(answer), (bad, answer)
            if row.unreadable is not None:
                answer = await ask(session, row.subtype, **row.unreadable)
                assert row.failed(answer), answer
            callback.hangs = True
            began = time.monotonic()
            answer = await ask(session, row.subtype, **row.fields)
            assert row.failed(answer), answer
            assert SECONDS * 0.9 < time.monotonic() - began < SECONDS + patience(3)
            assert session.warnings[-1].code == "CALLBACK_TIMED_OUT"
            callback.release.set()
            callback.hangs = False
            callback.outcome = row.good
            assert row.answered(await ask(session, row.subtype, **row.fields))

    shell.play(scenario)


@shows(
    "asked.hook.unknown-id",
    "asked.permission.nobody",
    "asked.mcp.unknown-server",
    "asked.mcp.tool-errors",
    "asked.dialog.nobody",
    "asked.other.unknown",
    "bad.names",
)
def test_unknown_names(shell: Shell, options: Light) -> None:
    @tool
    def work(hours: int) -> str:
        """Work."""
        return "worked"

    async def scenario() -> None:
        chosen = options(mcp_servers={"desk": tool_server("desk", [work])})
        async with Running(shell, chosen) as session:
            assert await ask(session, "hook_callback", callback_id="hook_77", **HOOK) == {}
            assert (await ask(session, "can_use_tool", **QUESTION))["behavior"] == "deny"
            assert (await ask(session, "elicitation", mcp_server_name="s", message="m"))["action"] == "decline"
            assert (await ask(session, "request_user_dialog", dialog_kind="k", payload={}))["behavior"] == "cancelled"
            assert await ask(session, "hologram") == "Unknown subtype: hologram"
            unknown = await ask(session, "mcp_message", server_name="nowhere", message=CALL)
            assert unknown["mcp_response"]["error"]["code"] == -32601
            for params in (
                {"name": "never"},
                {"name": "work", "arguments": {}},
                {"name": "work", "arguments": {"hours": "x"}},
            ):
                answer = await ask(session, "mcp_message", server_name="desk", message={**CALL, "params": params})
                assert answer["mcp_response"]["result"]["isError"] is True
                assert answer["mcp_response"]["id"] == 7

    shell.play(scenario)


@shows("callbacks.first-wins")
def test_exactly_one_answer(shell: Shell, options: Light, callback: Callback) -> None:
    async def scenario() -> None:
        contexts: list[Any] = []
        inner = callback.of(2)

        async def waiting(asked: Any, context: Any) -> Any:
            contexts.append(context)
            return await inner(asked, context)

        def plain(asked: Any, context: Any) -> Any:
            contexts.append(context)
            return inner(asked, context)

        hook = waiting if callback.asynchronous else plain
        matchers = [HookMatcher(hooks=[hook], timeout=seconds) for seconds in (SECONDS, 60)]
        async with Running(shell, options(hooks={"PreToolUse": matchers})) as session:
            asked = {"callback_id": "hook_0", **HOOK}
            callback.hangs = True
            await texts(await got(session.send(steps(["ask", "hook_callback", asked]))))  # the deadline's answer
            asked = {"callback_id": "hook_1", **HOOK}
            turn = await got(session.send(steps(["ask_and_cancel", "hook_callback", asked], ["await_requests", 1])))
            while callback.called < 2:
                await shell.let_others_run()
            await got(session.get_settings())  # now it is taken back
            while not contexts[1].cancelled:
                await shell.let_others_run()
            callback.release.set()
            callback.hangs = False
            for _ in range(20):
                await shell.let_others_run()
            await got(session.get_settings())
            await got(turn.result())
            [counts] = await texts(await got(session.send(steps(["counts"]))))
            assert json.loads(counts) == [1]

    shell.play(scenario)


@shows("callbacks.outside-reader")
def test_a_callback_at_work_holds_up_nobody(shell: Shell, options: Light, callback: Callback) -> None:
    callback.hangs = True

    async def scenario() -> None:
        chosen = options(can_use_tool=callback.of(1), **hooks(lambda asked, context: HookOutput.deny("no")))
        async with Running(shell, chosen) as session:
            turn = await got(session.send(steps(["ask", "can_use_tool", QUESTION])))
            while not callback.called:
                await shell.let_others_run()
            for _ in range(5):
                await got(session.get_settings(timeout=5))
            callback.outcome = Allow()
            callback.release.set()
            [answer] = await texts(turn)
            assert json.loads(answer)["behavior"] == "allow"

    shell.play(scenario)


@shows("callbacks.private-loop")
def test_coroutines_of_a_blocking_session_share_a_private_loop(options: Light) -> None:
    import asyncio

    seen: list[tuple[int, int]] = []
    shell = Shell("threads")

    async def where(*_: Any) -> None:
        seen.append((id(asyncio.get_running_loop()), threading.get_ident()))

    async def scenario() -> None:
        async with Running(shell, options(**hooks(where))) as session:
            for _ in range(3):
                await ask(session, "hook_callback", callback_id="hook_0", **HOOK)

    shell.play(scenario)
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0][1] != threading.get_ident()
