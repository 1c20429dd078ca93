"""Turns and results in odd orders: results that nobody asked for, results that never come, late tool calls, interrupts."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from hackamore import (
    AuthenticationError,
    Options,
    OutputError,
    ResultError,
    Timeouts,
    TurnCancelledError,
    TurnState,
    TurnTimeoutError,
    tool,
    tool_server,
)
from hackamore.hooks import HookMatcher
from hackamore.messages import APIRetryMessage, InitMessage, ResultMessage, TaskNotificationMessage
from hackamore.permissions import Allow
from hackamore.testing import Script, SimulatedCLI
from hackamore.testing.faults import Drop, Insert, Silence
from tests.support.patience import patience
from tests.support.query_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import each, first, got, raised, texts
from tests.testing.faults.talk import RESULT, answered, behind, greeting, talking

BYPASS: dict[str, Any] = {"permission_mode": "bypassPermissions"}


# -- results that nobody asked for ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [
        "control_response",  # before the handshake
        lambda frame: frame.get("state") == "running",  # before the turn
        lambda frame: frame.get("type") == "assistant",  # in the middle of it
    ],
    ids=["handshake", "before", "middle"],
)
def test_a_result_of_another_turn_ends_none_of_ours(shell: Shell, before: Any) -> None:
    async def scenario() -> None:
        strange = {**RESULT, "user_message_uuids": ["00000000-0000-4000-8000-00000000dead"]}
        source = behind(greeting("One.", "Two."), Insert(before, data=strange))
        async with talking(shell, source) as session:
            everything = session.messages()
            assert await answered(session) == "One."
            assert await answered(session) == "Two."
            await got(session.stop())
            seen = [m.result async for m in each(everything) if isinstance(m, ResultMessage)]
            assert [text for text in seen if text != "nobody asked"] == ["One.", "Two."]
            assert len(source.applied) == 1

    shell.play(scenario)


def test_a_result_without_a_prompt_between_two_turns(shell: Shell) -> None:
    async def scenario() -> None:
        source = behind(greeting("One.", "Two."), Insert(lambda f: f.get("state") == "running", nth=2, data=RESULT))
        async with talking(shell, source) as session:
            assert await answered(session) == "One."
            assert await answered(session) == "Two."

    shell.play(scenario)


def test_further_results_of_a_one_shot_are_delivered(shell: Shell) -> None:
    async def scenario() -> None:
        late = {**RESULT, "result": "late"}
        last = behind(greeting("One."), Insert(lambda f: f.get("state") == "idle", data=late))
        stream = shell.query("go", transport=last)
        collected = await stream.collect()
        assert [m.result for m in collected.messages if isinstance(m, ResultMessage)] == ["One.", "late"]
        assert collected.terminal_error is None

    shell.play(scenario)


# -- results that never come ------------------------------------------------------------------------------------------


def test_a_finished_turn_whose_result_is_lost(shell: Shell) -> None:
    """The transcript is complete and the CLI idle, but there was no `result`: the turn is over, and says that it has none."""

    async def scenario() -> None:
        source = behind(greeting("One.", "Two."), Drop("result", nth=1))
        async with talking(shell, source) as session:
            turn = await got(session.send("go"))
            await raised(turn.result, TurnCancelledError)
            assert turn.state is TurnState.COMPLETED
            assert await answered(session) == "Two."

    shell.play(scenario)


def test_nothing_tells_the_end_of_a_turn(shell: Shell) -> None:
    async def scenario() -> None:
        source = behind(greeting("One."), Silence(matching="result"))
        async with talking(shell, source, timeouts=Timeouts(turn=0.3, stop_grace=0.1)) as session:
            error = await raised((await got(session.send("go"))).result, TurnTimeoutError)
            assert (error.kind, error.seconds) == ("turn", 0.3)

    shell.play(scenario)


def test_silence_after_the_prompt_is_told_from_silence_in_the_middle(shell: Shell) -> None:
    async def scenario() -> None:
        for matching, kind in (("system", "first_message"), ("assistant", "idle")):
            first = 0.3 if kind == "first_message" else 60
            options = Options(timeouts=Timeouts(first_message=first, idle=0.3, stop_grace=0.1))
            collected = await shell.query(
                "go", options, transport=behind(greeting(), Silence(matching=matching))
            ).collect()
            assert isinstance(collected.terminal_error, TurnTimeoutError)
            assert collected.terminal_error.kind == kind

    shell.play(scenario)


def test_prompts_behind_one_that_never_ends_have_deadlines_too(shell: Shell) -> None:
    """The CLI does not even answer the interrupt: nobody waits for ever, neither for the first prompt nor for those behind it."""

    async def scenario() -> None:
        source = behind(greeting("One.", "Two.", "Three."), Silence(matching="assistant"))
        async with talking(shell, source, timeouts=Timeouts(turn=0.2, control=0.5, stop_grace=0.1)) as session:
            turns = [await got(session.send("go")) for _ in range(2)]
            for turn in turns:
                error = await raised(turn.result, TurnTimeoutError)
                assert error.kind == "turn"
            late = await got(session.send("go"))
            await raised(late.result, TurnTimeoutError)

    shell.play(scenario)


# -- errors that look like answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_an_api_error_that_comes_as_text_is_an_error(shell: Shell, status: int) -> None:
    async def scenario() -> None:
        error = await raised(
            lambda: shell.run("go", transport=SimulatedCLI(Script().user().api_error(status))),
            AuthenticationError if status == 401 else ResultError,
        )
        assert error.result.api_error_status == status
        answer = await shell.run("go", transport=SimulatedCLI(Script().user().api_error(status)), check=False)
        assert answer.result.is_error

    shell.play(scenario)


def test_an_empty_success_is_text_and_no_object(shell: Shell, playing: StandIn) -> None:
    """A turn of tools alone ends so, too: it is no error by itself, and never passes for what was asked for."""

    async def scenario() -> None:
        steps = (["frame", "init"], ["frame", {**RESULT, "result": ""}])
        answer = await shell.run("go", playing(*steps))
        assert (answer.text, answer.warnings) == ("", [])
        await raised(lambda: shell.run("go", playing(*steps), output_type=dict[str, int]), OutputError)

    shell.play(scenario)


def test_tasks_that_were_stopped_are_told(shell: Shell) -> None:
    async def scenario() -> None:
        script = (
            Script()
            .user()
            .calls("Bash", {"command": "sleep 60", "run_in_background": True})
            .says("Started.")
            .task_ends(status="stopped")
            .says("It was stopped.")
        )
        async with talking(shell, behind(script), **BYPASS) as session:
            everything = session.messages()
            assert await answered(session) == "Started."
            await got(session.wait_idle())
            assert not session.background_tasks
            await got(session.stop())
            told = [m async for m in each(everything) if isinstance(m, TaskNotificationMessage)]
            assert [message.status for message in told] == ["stopped"]

    shell.play(scenario)


def test_retries_of_the_api_are_messages_and_no_errors(shell: Shell) -> None:
    async def scenario() -> None:
        collected = await shell.query(
            "go", transport=behind(Script().user().rate_limited(3).says("At last."))
        ).collect()
        assert [m.data["subtype"] for m in collected.messages if m.type == "system"].count("api_retry") == 3
        assert collected.terminal_error is None

    shell.play(scenario)


@pytest.mark.parametrize("steered", [False, True], ids=["plain", "steered"])
def test_a_key_that_is_refused_again_ends_the_turn(shell: Shell, steered: bool) -> None:
    async def scenario() -> None:
        script = Script().user().retries(529).retries(401, 5, delay=0.01).says("Never.")
        options = Options(can_use_tool=lambda _: Allow()) if steered else Options()
        error = await raised(lambda: shell.run("go", options, transport=SimulatedCLI(script)), AuthenticationError)
        assert (error.status, error.result) == (401, None)
        attempts = [
            message.data["attempt"] for message in error.partial.messages if isinstance(message, APIRetryMessage)
        ]
        assert attempts[:3] == [1, 2, 3]  # one refusal may be a login that the CLI renews

    shell.play(scenario)


# -- tools, late ------------------------------------------------------------------------------------------------------


def shop(calls: list[str]) -> Any:
    @tool
    def price(article: str) -> float:
        """Return a price."""
        calls.append(article)
        return 2.5

    return tool_server("shop", [price])


CALL = ("mcp__shop__price", {"article": "tea"})


def test_a_tool_call_long_after_the_last_message(shell: Shell) -> None:
    """90 seconds, a hundred times faster: no deadline of its own makes a healthy silence an error."""

    async def scenario() -> None:
        calls: list[str] = []
        script = Script().user().says("I will wait.").user().slow(90).calls(*CALL).says("Done.")
        source = behind(script, time_scale=0.01)
        async with talking(shell, source, mcp_servers={"shop": shop(calls)}, **BYPASS) as session:
            assert await answered(session) == "I will wait."
            assert await answered(session) == "Done."
        assert calls == ["tea"]

    shell.play(scenario)


def test_a_tool_call_after_the_prompts_have_ended(shell: Shell) -> None:
    async def scenario() -> None:
        calls: list[str] = []
        script = Script().user("go").slow(20).calls(*CALL).says("Done.")
        options = Options(mcp_servers={"shop": shop(calls)}, **BYPASS)
        answer = await shell.run("go", options, transport=behind(script, time_scale=0.01))
        assert (answer.text, calls) == ("Done.", ["tea"])

    shell.play(scenario)


def test_a_tool_call_after_the_first_result(shell: Shell) -> None:
    async def scenario() -> None:
        calls: list[str] = []
        script = (
            Script()
            .user()
            .calls("Bash", {"command": "sleep 9", "run_in_background": True})
            .says("Started.")
            .task_ends()
            .calls(*CALL)
            .says("Tea costs 2.5.")
        )
        options = Options(mcp_servers={"shop": shop(calls)}, **BYPASS)
        collected = await shell.query("go", options, transport=behind(script)).collect()
        assert [m.result for m in collected.messages if isinstance(m, ResultMessage)] == ["Started.", "Tea costs 2.5."]
        assert calls == ["tea"]

    shell.play(scenario)


def test_300_tool_calls_with_hooks_while_nobody_reads(shell: Shell) -> None:
    async def scenario() -> None:
        seen: list[str] = []
        script = Script().user()
        for number in range(300):
            script.calls("Bash", {"command": f"echo {number}"})
        script.says("Done.")

        def hook(asked: Any, context: Any) -> None:
            seen.append(asked.tool_input["command"])

        hooks = {"PreToolUse": [HookMatcher(hooks=[hook])]}
        async with talking(shell, behind(script), hooks=hooks, **BYPASS) as session:
            unread = session.messages()
            turn = await got(session.send("go"))
            assert (await got(turn.result())).result == "Done."
            await got(session.set_permission_mode("plan"))  # answered although 600 messages wait
            assert len(seen) == 300
            await got(session.stop())
            assert len([message async for message in each(unread)]) > 600

    shell.play(scenario)


# -- interrupts -------------------------------------------------------------------------------------------------------


def test_an_interrupt_at_every_moment(shell: Shell) -> None:
    async def scenario() -> None:
        script = Script()
        script.user("text").interrupted(after="I begin")
        script.user("tool").calls("Bash", {"command": "sleep 60"}, endless=True)
        script.user("after").says("Usable.")
        async with talking(shell, behind(script), include_partial_messages=True, **BYPASS) as session:
            await got(session.interrupt())  # idle: no error, and no turn is harmed by it later
            for prompt, moment in (("text", "stream_event"), ("tool", "assistant")):
                turn = await got(session.send(prompt))
                while (await first(turn)).type != moment:
                    pass
                await shell.meanwhile(lambda: got(session.interrupt()), lambda: got(session.interrupt()))
                result = await got(turn.result())
                assert result is not None
                assert result.is_error
                assert turn.state is TurnState.INTERRUPTED
            assert await answered(session, "after") == "Usable."

    shell.play(scenario)


def test_an_interrupt_while_a_permission_is_asked_for(shell: Shell) -> None:
    asked = threading.Event()
    release = threading.Event()

    def deciding(request: Any) -> Allow:
        asked.set()
        release.wait(patience(20))
        return Allow()

    async def scenario() -> None:
        script = Script().user().calls("Bash", {"command": "rm -r /"}).user("after").says("Usable.")
        async with talking(shell, behind(script), can_use_tool=deciding) as session:
            turn = await got(session.send("go"))
            while not asked.is_set():
                await shell.let_others_run()
            await got(session.interrupt())
            result = await got(turn.result())
            release.set()
            assert result is None or result.is_error
            assert turn.state is TurnState.INTERRUPTED
            assert await answered(session, "after") == "Usable."

    try:
        shell.play(scenario)
    finally:
        release.set()


# -- what the CLI says of itself --------------------------------------------------------------------------------------


def test_a_server_that_is_pending_and_a_tool_that_should_not_be_there_are_told(shell: Shell) -> None:
    init = {
        "type": "system",
        "subtype": "init",
        "session_id": "s",
        "tools": ["Read", "Bash"],
        "mcp_servers": [{"name": "slow", "status": "pending"}],
    }

    async def scenario() -> None:
        collected = await shell.query("go", transport=behind(greeting(), Insert("assistant", data=init))).collect()
        told = [message for message in collected.messages if isinstance(message, InitMessage)][-1]
        assert told.tools == ["Read", "Bash"]
        assert [(server.name, server.status) for server in told.mcp_servers] == [("slow", "pending")]

    shell.play(scenario)


# -- many -------------------------------------------------------------------------------------------------------------


def test_64_at_once_with_retries_and_one_that_dies(shell: Shell) -> None:
    outcomes: dict[int, Any] = {}

    def script(number: int) -> Script:
        begun = Script().user().rate_limited(2)
        return begun.cut() if number == 40 else begun.says(f"answer {number}")

    async def one(number: int) -> None:
        collected = await shell.query("go", transport=behind(script(number))).collect()
        results = [m.result for m in collected.messages if isinstance(m, ResultMessage)]
        outcomes[number] = results[0] if results else collected

    async def scenario() -> None:
        if shell.blocking:
            return
        import anyio

        async with anyio.create_task_group() as group:
            for number in range(64):
                group.start_soon(one, number)

    began = time.monotonic()
    if shell.blocking:
        from tests.support.shell import drive

        threads = [threading.Thread(target=lambda n=number: drive(one(n))) for number in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience(30))
    shell.play(scenario)
    assert time.monotonic() - began < patience(30)
    dead = outcomes.pop(40)
    assert outcomes == {number: f"answer {number}" for number in range(64) if number != 40}
    assert type(dead.terminal_error).__name__ == "ProcessError"
    assert dead.messages  # what came before is kept


def test_texts_of_turns_are_whole(shell: Shell) -> None:
    async def scenario() -> None:
        async with talking(shell, behind(greeting(json.dumps({"a": 1})))) as session:
            assert await texts(await got(session.send("go"))) == ['{"a": 1}']

    shell.play(scenario)
