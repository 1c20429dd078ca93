"""Queries that run over the bidirectional protocol by themselves: the same stream, whatever made it so."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

import hackamore
from hackamore import Deny, HookMatcher, Limits, Options, Timeouts
from hackamore.errors import (
    DecodeErrorLimitError,
    InitializationError,
    LineTooLongError,
    OptionsError,
    ProcessError,
    PromptIterableError,
    TurnTimeoutError,
)
from hackamore.messages import AssistantMessage, ResultError, ResultMessage
from tests.contract import shows
from tests.support.inside import is_read
from tests.support.leaks import alive, wait_gone
from tests.support.patience import patience
from tests.support.session_fixtures import playing
from tests.support.talking import said, steps

if TYPE_CHECKING:
    from tests.support.session_fixtures import StandIn
    from tests.support.shell import Shell

__all__ = ["playing"]

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def blocks(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


class Asked:
    """A `can_use_tool` that remembers."""

    def __init__(self) -> None:
        self.requests: list[hackamore.PermissionRequest] = []

    def __call__(self, request: hackamore.PermissionRequest) -> Deny:
        self.requests.append(request)
        return Deny("not today")


def ask(tool: str = "Bash") -> list[Any]:
    return ["ask", "can_use_tool", {"tool_name": tool, "input": {"command": "x"}, "tool_use_id": "t"}]


@shows("permissions.one-shot", "steered.automatic")
def test_a_permission_callback_works_with_query_and_run(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        asked = Asked()
        options = playing(can_use_tool=asked)
        async with shell.query(steps(ask(), ["text", "after"]), options) as stream:
            messages = [message async for message in stream]
            assert stream.session_id
            assert stream.result is not None
        answer, after = said(messages)
        assert json.loads(answer)["behavior"] == "deny"
        assert after == "after"
        assert isinstance(messages[-2], ResultMessage) or isinstance(messages[-1], ResultMessage)
        assert len(asked.requests) == 1
        outcome = await shell.run(steps(ask(), ["text", "again"]), options)
        assert outcome.text.endswith("again") or outcome.result is not None
        assert len(asked.requests) == 2
        assert not outcome.warnings

    shell.play(scenario)


@shows("hooks.one-shot", "steered.automatic")
def test_hooks_work_with_query_and_run_and_know_the_session(shell: Shell, playing: StandIn) -> None:
    seen: list[Any] = []

    def hook(_: Any, context: Any) -> None:
        seen.append(context.session is not None)

    async def scenario() -> None:
        options = playing(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]})
        prompt = steps(["ask", "hook_callback", {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}])
        await shell.run(prompt, options)
        assert seen == [True]
        await shell.query(prompt, options).collect()

    shell.play(scenario)
    assert seen == [True, True]


@shows("steered.blocks")
def test_a_prompt_of_blocks(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        for prompt in (blocks("hello"), tuple(blocks("hello"))):
            outcome = await shell.run(prompt, playing())
            assert "hello" in said(list(outcome.messages))[0]

    shell.play(scenario)


@shows("steered.iterables")
def test_an_iterable_of_prompts_gets_an_answer_each(shell: Shell, playing: StandIn) -> None:
    def plain() -> Iterator[Any]:
        yield "one"
        yield blocks("two")
        yield {"type": "user", "message": {"role": "user", "content": "three"}, "parent_tool_use_id": None}

    async def asynchronous() -> AsyncIterator[Any]:
        for prompt in plain():
            yield prompt

    async def scenario() -> None:
        for source in (plain(), iter(["one", blocks("two"), "three"]), asynchronous()):
            async with shell.query(source, playing()) as stream:
                messages = [message async for message in stream]
                assert len(stream.results) == 3
                assert not stream.warnings
            texts = said(messages)
            assert texts[0] == "one"
            assert "two" in texts[1]
            assert texts[2] == "three"

    shell.play(scenario)


@shows("steered.iterables")
def test_more_prompts_than_may_wait_at_once(shell: Shell, playing: StandIn) -> None:
    async def asynchronous() -> AsyncIterator[str]:
        for number in range(60):
            yield str(number)

    async def scenario() -> None:
        for source in ((str(number) for number in range(60)), asynchronous()):
            outcome = await shell.query(source, playing()).collect()
            assert said(outcome.messages) == [str(number) for number in range(60)]
            assert outcome.terminal_error is None

    shell.play(scenario)


@shows("steered.iterables")
def test_the_next_prompt_may_depend_on_the_last_answer(shell: Shell, playing: StandIn) -> None:
    answered = threading.Event()

    def conversation() -> Iterator[str]:
        yield "first"
        assert answered.wait(patience(20))
        yield "second"

    async def scenario() -> None:
        texts = []
        async for message in shell.query(conversation(), playing()):
            texts += said([message])
            if isinstance(message, ResultMessage):
                answered.set()
        assert texts == ["first", "second"]

    shell.play(scenario)


@shows("bad.iterable-raises")
def test_an_iterable_that_raises_half_way(shell: Shell, playing: StandIn) -> None:
    def plain() -> Iterator[str]:
        yield "one"
        raise KeyError("no more")

    async def asynchronous() -> AsyncIterator[str]:
        yield "one"
        raise KeyError("no more")

    async def scenario() -> None:
        for source in (plain(), asynchronous()):
            outcome = await shell.query(source, playing()).collect()
            assert isinstance(outcome.terminal_error, PromptIterableError)
            assert outcome.terminal_error.count == 1
            assert isinstance(outcome.terminal_error.__cause__, KeyError)
            assert "no more" in str(outcome.terminal_error)

    shell.play(scenario)


@shows("steered.checked")
def test_an_iterable_that_gives_nonsense_or_nothing(shell: Shell, playing: StandIn) -> None:
    async def nothing() -> AsyncIterator[str]:
        return
        yield "never"

    async def scenario() -> None:
        for source, words in (
            (iter(["one", 17]), "TypeError"),
            (iter([{"type": "assistant"}]), "user frame"),
            (iter([""]), "empty"),
            (iter([{"type": "user", "message": {"content": [{"text": "\ud800"}]}}]), "UTF-8|surrogate|JSON"),
            (iter([]), "none"),
            (nothing(), "none"),
        ):
            with pytest.raises(PromptIterableError, match=words):
                await shell.run(source, playing())

    shell.play(scenario)


@shows("steered.checked")
def test_prompts_are_checked_at_the_call(shell: Shell) -> None:
    nothing: list[object] = [[], ()]
    for empty in nothing:
        with pytest.raises(OptionsError, match="empty"):
            shell.query(empty)
    with pytest.raises(OptionsError, match="empty"):
        shell.query("", Options(can_use_tool=Asked()))
    with pytest.raises(TypeError, match="prompt"):
        shell.query(17, Options(can_use_tool=Asked()))
    with pytest.raises(OptionsError, match="can_use_tool"):
        shell.query("hi", Options(can_use_tool=cast("Any", lambda: Deny(""))))


@shows("steered.leaving")
def test_leaving_early_stops_the_iterable_and_the_process(shell: Shell, playing: StandIn) -> None:
    closed: list[str] = []

    def endless() -> Iterator[str]:
        try:
            while True:
                yield "again"
        finally:
            closed.append("plain")

    async def endless_async() -> AsyncIterator[str]:
        try:
            while True:
                yield "again"
        finally:
            closed.append("async")

    async def scenario() -> None:
        for source in (endless(), endless_async()):
            async with shell.query(source, playing()) as stream:
                async for message in stream:
                    if isinstance(message, ResultMessage):
                        break
        until = time.monotonic() + patience(5)
        while len(closed) < 2 and time.monotonic() < until:
            await shell.let_others_run()

    shell.play(scenario)
    assert sorted(closed) == ["async", "plain"]


@shows("steered.leaving")
def test_a_forgotten_stream_leaves_nothing(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query(steps(["text", "x"], ["hang"]), playing(can_use_tool=Asked()))
        assert await stream.next_item() is not None
        del stream
        gc.collect()

    shell.play(scenario)  # `leaves_nothing` waits for the rest


@shows("steered.endings")
def test_what_ends_a_one_shot_ends_this_too(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        asked = Asked()
        outcome = await shell.query(steps(["raw", "x\n" * 5], ["hang"]), playing(can_use_tool=asked)).collect()
        assert isinstance(outcome.terminal_error, DecodeErrorLimitError)
        assert len(outcome.errors) == 4  # the fifth is raised
        long = steps(["raw", "x" * 3_000 + "\n"], ["text", "after"])
        few = Limits(line_bytes=2_000)
        outcome = await shell.query(long, playing(can_use_tool=asked, limits=few)).collect()
        assert isinstance(outcome.terminal_error, LineTooLongError)
        outcome = await shell.query(long, playing(can_use_tool=asked, limits=few, on_oversize="skip")).collect()
        assert outcome.terminal_error is None
        assert [warning.code for warning in outcome.warnings] == ["OVERSIZED_LINE_SKIPPED"]
        outcome = await shell.query(
            steps(["err", "words on stderr"], ["exit", 3]), playing(can_use_tool=asked)
        ).collect()
        assert isinstance(outcome.terminal_error, ProcessError)
        assert outcome.terminal_error.exit_code == 3
        assert "words on stderr" in outcome.terminal_error.diagnostic.stderr_tail
        broken = steps(["raw", '{"type": "assi'], ["exit", 3])
        outcome = await shell.query(broken, playing(can_use_tool=asked)).collect()
        assert isinstance(outcome.terminal_error, ProcessError)
        assert not outcome.warnings
        broken = steps(["raw", '{"type": "assi'], ["exit", 0])
        outcome = await shell.query(broken, playing(can_use_tool=asked)).collect()
        assert [warning.code for warning in outcome.warnings] == ["INCOMPLETE_LAST_LINE", "CLEAN_EXIT_NO_RESULT"]
        outcome = await shell.query(steps(["exit", 0]), playing(can_use_tool=asked)).collect()
        assert outcome.terminal_error is None
        assert [warning.code for warning in outcome.warnings] == ["CLEAN_EXIT_NO_RESULT"]
        outcome = await shell.query(steps(["hang"]), playing(can_use_tool=asked, timeouts=Timeouts(turn=0.2))).collect()
        assert isinstance(outcome.terminal_error, TurnTimeoutError)

    shell.play(scenario)


def test_a_second_prompt_that_is_not_answered_is_an_error(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        outcome = await shell.query(iter(["one", steps(["exit", 4])]), playing()).collect()
        assert said(outcome.messages) == ["one"]
        assert isinstance(outcome.terminal_error, ProcessError)
        assert outcome.terminal_error.exit_code == 4

    shell.play(scenario)


@shows("steered.endings")
def test_a_start_that_fails_raises_at_the_first_step(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(["refuse", "no"], can_use_tool=Asked())
        stream = shell.query("hi", options)
        with pytest.raises(InitializationError, match="no"):
            await stream.next_item()
        assert await stream.next_item() is None
        with pytest.raises(hackamore.StartError):
            await shell.run("hi", options)

    shell.play(scenario)


def test_a_deadline_during_the_start_ends_the_stream(shell: Shell, playing: StandIn) -> None:
    """It is no start error: `collect` returns it."""

    async def scenario() -> None:
        few = Timeouts(initialize=30, turn=0.2)
        ask_early = ["ask", "can_use_tool", {"tool_name": "Bash", "input": {}, "tool_use_id": "t"}]
        options = playing(ask_early, ["unanswered"], can_use_tool=Asked(), timeouts=few)
        outcome = await shell.query(steps(["hang"]), options).collect()
        assert isinstance(outcome.terminal_error, TurnTimeoutError)

    shell.play(scenario)


@shows("steered.input")
def test_a_background_task_is_still_served(shell: Shell, playing: StandIn) -> None:
    """The input is closed when the joint rule says so: the callback of a task that outlives the result is answered."""
    task = [{"task_id": "b1", "task_type": "local_bash", "description": "d"}]

    async def scenario() -> None:
        asked = Asked()
        prompt = steps(["background", task], ["text", "started"], ["later", [ask(), ["background", []]]])
        outcome = await shell.run(prompt, playing(can_use_tool=asked))
        assert len(asked.requests) == 1
        assert not outcome.warnings

    shell.play(scenario)


@shows("bounds.background")
def test_a_task_that_never_ends_is_bounded(shell: Shell, playing: StandIn) -> None:
    task = [{"task_id": "b1", "task_type": "local_bash", "description": "d"}]

    async def scenario() -> None:
        options = playing(can_use_tool=Asked(), timeouts=Timeouts(background=0.3))
        outcome = await shell.run(steps(["background", task]), options)
        assert [warning.code for warning in outcome.warnings] == ["CLI_DID_NOT_EXIT"]
        assert outcome.warnings[0].context["background_tasks"] == ["b1"]

    shell.play(scenario)


@shows("steered.endings")
def test_an_error_result_is_raised_by_run(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        failing = steps(["error_result"])
        with pytest.raises(ResultError):
            await shell.run(failing, playing(can_use_tool=Asked()))
        outcome = await shell.run(failing, playing(can_use_tool=Asked()), check=False)
        assert outcome.result is not None
        assert outcome.result.is_error

    shell.play(scenario)


def test_warnings_are_told_once_and_in_order(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        told: list[str] = []

        def fails(_: Any) -> Deny:
            raise RuntimeError("broken callback")

        options = playing(can_use_tool=fails, on_warning=lambda warning: told.append(warning.code))
        stream = shell.query(steps(["text", "a"], ask(), ["text", "b"]), options)
        items = [item async for item in stream.items()]
        await stream.close()
        assert told == ["CALLBACK_FAILED"]
        assert [warning.code for warning in stream.warnings] == told
        places = [
            type(item).__name__ for item in items if isinstance(item, (AssistantMessage, hackamore.StreamWarning))
        ]
        assert places == ["AssistantMessage", "StreamWarning", "AssistantMessage", "AssistantMessage"]

    shell.play(scenario)


def test_two_readers_are_refused_and_a_close_wakes(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        stream = shell.query(steps(["text", "x"], ["hang"]), playing(can_use_tool=Asked()))

        async def read() -> int:
            count = 0
            while await stream.next_item() is not None:
                count += 1
            return count

        async def close() -> None:
            while not is_read(stream) or not stream.session_id:
                await shell.let_others_run()
            with pytest.raises(hackamore.ConcurrentUseError):
                while True:
                    await stream.next_item()
            await stream.close()

        count, closed = await shell.meanwhile(read, close)
        assert isinstance(count, int), count
        assert closed is None

    shell.play(scenario)


@shows("steered.input")
def test_a_cli_that_stays_after_prompts_which_ended_late_is_bounded(shell: Shell, playing: StandIn) -> None:
    """The input is closed by whoever reads the prompts, while the reader of the output has nothing to wait for but output."""
    answered = threading.Event()

    def prompts() -> Iterator[str]:
        yield steps(["deaf"], ["text", "x"])
        answered.wait(patience(10))

    async def scenario() -> None:
        few = Timeouts(after_result=0.5, stop_grace=0.1, kill_grace=0.1)
        async with shell.query(prompts(), playing(timeouts=few)) as stream:
            async for message in stream:
                if isinstance(message, ResultMessage):
                    answered.set()
            assert [warning.code for warning in stream.warnings] == ["CLI_DID_NOT_EXIT"]

    shell.play(scenario)


@shows("process.leaving")
def test_leaving_does_not_wait_for_a_cli_that_ignores_signals(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        timeouts = Timeouts(stop_grace=0.2, kill_grace=patience(1))
        prompt = steps(["text", "x"], ["ignore_term"], ["deaf"], ["silent"])
        stream = shell.query(prompt, playing(can_use_tool=Asked(), timeouts=timeouts))
        assert await stream.next_item() is not None
        await stream.close()
        assert alive(stream.pid)
        assert wait_gone(stream.pid)

    shell.play(scenario)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_start_that_was_cancelled_is_taken_up_again_by_any_call(playing: StandIn, backend: str) -> None:
    async def scenario() -> None:
        stream = hackamore.query(steps(["text", "x"]), playing(can_use_tool=Asked()))
        with anyio.move_on_after(0) as scope:
            await stream.next_item()
        assert scope.cancelled_caught
        with anyio.fail_after(patience(20)):
            async with stream:
                assert said([message async for message in stream]) == ["x"]

    anyio.run(scenario, backend=backend)


def test_a_close_from_another_event_loop_wakes_the_reader(playing: StandIn) -> None:
    """In asyncio's debug mode nothing of a loop may be touched from outside of it."""

    async def scenario() -> None:
        stream = hackamore.query(steps(["text", "x"], ["hang"]), playing(can_use_tool=Asked()))
        assert await stream.next_item() is not None
        closing = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(stream.aclose(), debug=True)))
        while await asyncio.wait_for(stream.next_item(), patience(20)) is not None:
            pass
        await closing

    asyncio.run(scenario(), debug=True)
