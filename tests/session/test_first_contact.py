"""The first mistakes of a new user, waits with timeouts, and what an error brings with it, on every shell."""

from __future__ import annotations

import logging
import pickle
import traceback
import warnings
from typing import Any

import pytest

import hackamore
from hackamore import (
    HookMatcher,
    ResultMessage,
    SessionClosedError,
    SessionNotStartedError,
    Timeouts,
    TurnCancelledError,
    TurnTimeoutError,
    WarningRaised,
)
from hackamore.messages import AssistantMessage
from tests.contract import shows
from tests.support.patience import patience
from tests.support.session_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import Running, ask, each, first, got, make, raised, steps, texts

HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}, "tool_use_id": "t"}


@shows("session.life.not-started")
@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.send("x"),
        lambda session: session.messages(),
        lambda session: first(session.events()),
        lambda session: session.events().next_item(),
        lambda session: session.wait_idle(),
        lambda session: session.set_model("haiku", timeout=5),
        lambda session: session.interrupt(),
        lambda session: session.request("get_usage"),
        lambda session: session.set_mcp_servers({}),
    ],
)
def test_a_session_that_was_not_started_says_so(shell: Shell, playing: StandIn, call: Any) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        error = await raised(lambda: call(session), SessionNotStartedError)
        assert "async with" in str(error)
        assert "session.start()" in str(error)
        await got(session.stop())
        await raised(lambda: session.send("x"), SessionClosedError)

    shell.play(scenario)


@shows("session.life.start-session")
def test_start_session_without_await_says_so(playing: StandIn) -> None:
    starting: Any = hackamore.start_session("x", playing())
    with pytest.raises(AttributeError, match=r"await start_session\(\.\.\.\)"):
        _ = starting.first_turn
    with pytest.raises(AttributeError, match="was not started"):
        starting.send("x")
    forgotten = [starting]
    del starting
    with pytest.warns(RuntimeWarning, match=r"await start_session\(\.\.\.\)"):
        forgotten.clear()


@shows("session.life.other-shell")
def test_the_wrong_kind_of_with_and_for_says_what_to_use() -> None:
    session: Any = hackamore.Session()
    with pytest.raises(TypeError, match=r"`Session` is async: use `async with`, or .*`hackamore\.sync`"), session:
        pass
    stream: Any = hackamore.query("x")
    with pytest.raises(TypeError, match=r"`QueryStream` is async: use `async for`, or .*`hackamore\.sync`"):
        list(stream)
    blocking: Any = hackamore.sync.Session()
    with pytest.raises(TypeError, match=r"use `with`, or `hackamore\.Session`"):
        blocking.__aenter__().send(None)
    messages: Any = hackamore.sync.query("x")
    with pytest.raises(TypeError, match=r"`hackamore\.sync\.query` is blocking: use `for`, or `hackamore\.query`"):
        aiter(messages)


@shows("session.turns.result", "session.turns.cancelled")
def test_a_turn_without_a_result_raises(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            hanging = await got(session.send(steps(["text", "a"], ["hang"])))
            await first(hanging)
            waiting = await got(session.send("waits"))
            receipt = await got(session.interrupt(cancel_queued=True))
            assert isinstance(await got(hanging.result()), ResultMessage)
            if waiting.id in receipt.cancelled:
                error = await raised(lambda: waiting.result(), TurnCancelledError)
                assert (error.turn_id, error.state) == (waiting.id, "interrupted")
                assert error.session_id == session.session_id

    shell.play(scenario)


@shows("session.waits.timeout")
def test_a_wait_that_times_out_loses_nothing(shell: Shell, playing: StandIn, tmp_path: Any) -> None:
    go = tmp_path / "go"

    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            cursor = session.messages()
            events = session.events()
            turn = await got(session.send(steps(["await_file", str(go)], ["text", "a"])))
            assert (await first(turn)).type != "assistant"  # what reports the start of the turn
            error = await raised(lambda: turn.result(timeout=0.05), TimeoutError)
            assert "0.05 s" in str(error)
            error = await raised(lambda: session.wait_idle(timeout=0.05), TimeoutError)
            assert "still busy" in str(error)
            while cursor.unread:
                await got(cursor.next_item(timeout=5))
            await raised(lambda: cursor.next_item(timeout=0.05), TimeoutError)
            await raised(lambda: cursor.next_item(timeout=0), TimeoutError)
            assert await got(events.next_item(timeout=5)) is not None
            await raised(lambda: turn.result(timeout="soon"), TypeError)
            go.touch()
            assert (await got(turn.result(timeout=20))).subtype == "success"
            kinds = []
            while (message := await got(cursor.next_item(timeout=20))) is not None:
                kinds.append(type(message))
                if isinstance(message, ResultMessage):
                    break
            assert AssistantMessage in kinds
            await got(session.wait_idle(timeout=20))

    shell.play(scenario)


@shows("session.waits.timeout")
def test_the_items_of_a_query_take_a_timeout(shell: Shell, playing: StandIn, tmp_path: Any) -> None:
    go = tmp_path / "go"

    async def scenario() -> None:
        prompt = steps(["await_file", str(go)], ["text", "a"])
        stream = shell.query(prompt, playing(can_use_tool=lambda _: hackamore.Allow())).wrapped
        with pytest.raises(TimeoutError, match="Nothing was lost"):
            while True:
                await got(stream.next_item(timeout=0.1))
        go.touch()
        found = []
        while (item := await got(stream.next_item(timeout=20))) is not None:
            found.append(item)
        assert [message.text for message in found if isinstance(message, AssistantMessage)] == ["a"]
        assert any(isinstance(item, ResultMessage) for item in found)

    shell.play(scenario)


@shows("session.turns.text-stream")
def test_the_text_of_a_turn_is_a_stream(shell: Shell, playing: StandIn) -> None:
    def delta(text: str) -> list[str]:
        event = f'{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}'
        return ["raw", f'{{"type":"stream_event","uuid":"u","session_id":"s","event":{event}}}\n']

    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            turn = await got(session.send(steps(["text", "one"], ["text", "two"])))
            assert [text async for text in each(turn.text_stream())] == ["one", "two"]
            turn = await got(session.send(steps(delta("o"), delta("ne"), ["text", "one"], ["text", "two"])))
            assert [text async for text in each(turn.text_stream())] == ["o", "ne", "two"]
        stream = shell.query([{"type": "text", "text": "hi"}], playing()).wrapped
        assert "".join([text async for text in each(stream.text_stream())]).count("hi") == 1

    shell.play(scenario)


@shows("session.life.repr", "session.life.close")
def test_reprs_and_close(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        assert repr(session) == "Session(state='new', session_id=None, pid=None)"
        assert (session.state, str(session.state), f"{session.state}") == ("new", "new", "new")
        await got(session.start())
        cursor = session.messages()
        await got((await got(session.send("x"))).result())
        expected = f"Session(state='running', session_id={session.session_id!r}, pid={session.pid})"
        assert repr(session) == expected
        assert repr(cursor) == f"MessageCursor(unread={cursor.unread}, session={expected})"
        await got(session.close() if shell.blocking else session.aclose())
        assert session.state == "stopped"
        stream = shell.query("x", playing()).wrapped
        assert repr(stream) == "QueryStream(state='not started', session_id=None, pid=None)"

    shell.play(scenario)


@shows("errors.partial")
def test_errors_bring_what_had_happened(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        timeouts = Timeouts(turn=patience(0.5), kill_grace=0.5, stop_grace=0.5)
        async with Running(shell, playing(timeouts=timeouts)) as session:
            turn = await got(session.send(steps(["text", "so far"], ["hang"])))
            error = await raised(lambda: turn.result(), TurnTimeoutError)
            assert error.partial.text == "so far"
            assert error.session_id == error.partial.session_id == session.session_id
            assert error.retryable

    shell.play(scenario)


@shows("errors.partial")
def test_a_failed_run_keeps_what_had_happened(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(can_use_tool=lambda _: hackamore.Allow())
        error = await raised(
            lambda: shell.run(steps(["text", "so far"], ["err", "boom"], ["exit", 3]), options),
            hackamore.HackamoreError,
        )
        assert error.partial.text == "so far"
        assert [m for m in error.partial.messages if isinstance(m, AssistantMessage)]
        assert error.session_id is not None
        assert error.retryable  # a crash in the middle of a turn
        again = pickle.loads(pickle.dumps(error))
        assert (again.partial.text, again.session_id, str(again)) == ("so far", error.session_id, str(error))
        error = await raised(lambda: shell.run(steps(["text", "a"], ["error_result"]), options), hackamore.ResultError)
        assert error.partial.text == "a"
        assert any(message is error.result for message in error.partial.messages)
        error = await raised(lambda: shell.run("x", options.replace(cli_path="/nope/claude")), hackamore.StartError)
        assert (error.partial.messages, error.session_id) == ((), None)

    shell.play(scenario)


@shows("errors.traceback")
def test_few_frames_of_the_library_are_in_a_traceback(shell: Shell, playing: StandIn) -> None:
    def frames(error: BaseException) -> list[str]:
        return [name for name, *_ in traceback.extract_tb(error.__traceback__) if "/src/hackamore/" in name]

    async def scenario() -> None:
        options = playing(can_use_tool=lambda _: hackamore.Allow())
        wrong = options.replace(cli_path="/nope/claude")
        found = [
            await raised(lambda: make(shell, wrong).start(), hackamore.StartError),
            await raised(lambda: shell.run("x", wrong), hackamore.StartError),
            await raised(lambda: shell.run("x", playing(cli_path="/nope/claude")), hackamore.StartError),
            await raised(lambda: shell.query("x", wrong).next_item(), hackamore.StartError),
            await raised(lambda: make(shell, options).send("x"), SessionNotStartedError),
        ]
        async with Running(shell, options) as session:
            found.append(await raised(lambda: session.set_model(5), TypeError))
            found.append(await raised(lambda: session.set_color("nowhere"), hackamore.ControlRejectedError))
            found.append(await raised(lambda: session.rename_session("x", timeout=0.05), hackamore.ControlTimeoutError))
            turn = await got(session.send(steps(["exit", 3])))
            found.append(await raised(lambda: turn.result(), SessionClosedError))
            found.append(await raised(lambda: session.send("x"), SessionClosedError))
        for error in found:
            assert len(frames(error)) <= 3, (error, frames(error))
            assert error.__cause__ is None
            assert error.__suppress_context__ or error.__context__ is None

    shell.play(scenario)


class OddError(BaseException):
    """An exception that is not an `Exception`."""


@shows("callbacks.exceptions")
@pytest.mark.parametrize("kind", [KeyError, SystemExit, OddError])
def test_a_callback_that_raises_leaves_a_trace(
    shell: Shell, playing: StandIn, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    heard: list[hackamore.StreamWarning] = []

    def guard(*_: Any) -> None:
        raise kind("in the guard")

    async def slow_guard(*_: Any) -> None:
        raise kind("in the slow guard")

    def listens(warning: hackamore.StreamWarning) -> None:
        heard.append(warning)
        raise kind("in the listener")

    async def scenario() -> None:
        options = playing(
            hooks={"PreToolUse": [HookMatcher(hooks=[guard])]}, can_use_tool=slow_guard, on_warning=listens
        )
        async with Running(shell, options) as session:
            events = session.events()
            assert await ask(session, "hook_callback", **HOOK) is not None
            await ask(session, "can_use_tool", tool_name="Bash", input={})
            assert await texts(await got(session.send("on"))) == ["on"]
        failures = [warning for warning in session.warnings if warning.code == "CALLBACK_FAILED"]
        assert {type(failure.exception) for failure in failures} == {kind}
        texts_of = "\n".join(map(str, failures))
        for name in ("guard", "slow_guard", "listens"):
            assert f"{name} ({__file__}:" in texts_of
        assert len(heard) == 2
        told = [event.warning async for event in each(events) if isinstance(event, WarningRaised)]
        assert [warning.code for warning in told] == ["CALLBACK_FAILED"] * 2
        for failure in failures:
            assert pickle.loads(pickle.dumps(failure)).message == failure.message

    with caplog.at_level(logging.ERROR, "hackamore"), warnings.catch_warnings():
        shell.play(scenario)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 4
    for record in errors:
        assert record.exc_info is not None
        assert record.exc_info[2] is not None
        assert record.exc_info[2].tb_frame.f_code.co_filename == __file__


@shows("callbacks.logged", "errors.log-records")
def test_answers_are_logged_with_their_duration_and_session(
    shell: Shell, playing: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        options = playing(
            hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: hackamore.HookOutput.deny("no")])]},
            can_use_tool=lambda _: hackamore.Deny("not this"),
        )
        async with Running(shell, options) as session:
            await ask(session, "hook_callback", **HOOK)
            await ask(session, "can_use_tool", tool_name="Bash", input={})
            pid, session_id = session.pid, session.session_id
        records = [record for record in caplog.records if record.name == "hackamore"]
        lines = [record.getMessage() for record in records]
        assert any("PreToolUse hook" in line and ": deny, after 0." in line for line in lines), lines
        assert any("`can_use_tool`" in line and ": deny, after 0." in line for line in lines), lines
        assert not [line for line in lines if "\n" in line]
        named = [vars(record) for record in records if "session_id" in vars(record)]
        assert {fields["pid"] for fields in named} <= {pid, None}
        assert session_id in {fields["session_id"] for fields in named}
        assert any(fields["turn_id"] for fields in named)

    with caplog.at_level(logging.DEBUG, "hackamore"):
        shell.play(scenario)


@shows("session.life.no-loop")
def test_without_an_event_loop_one_error_says_what_to_use(playing: StandIn) -> None:
    for coroutine in (hackamore.run("x", playing()), hackamore.Session(playing()).start()):
        with pytest.raises(RuntimeError, match=r"asyncio\.run.*hackamore\.sync") as caught:
            coroutine.send(None)
        assert caught.value.__context__ is None or caught.value.__suppress_context__


@shows("errors.next-step")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"subtype": "error_max_turns"}, ["`Options.max_turns`", "resume='5e551011"]),
        ({"subtype": "error_max_budget_usd"}, ["`Options.max_budget_usd`", "resume='5e551011"]),
        ({"subtype": "success", "result": "API Error: 401 {}"}, ["CLAUDE_CODE_OAUTH_TOKEN", "`hackamore doctor`"]),
        ({"subtype": "success", "result": "Not logged in · Please run /login"}, ["ANTHROPIC_API_KEY", "`/login`"]),
    ],
)
def test_errors_of_results_say_the_next_step(fields: dict[str, Any], said: list[str]) -> None:
    result = ResultMessage(is_error=True, session_id="5e551011-0000-4000-8000-000000000000", **fields)
    for words in said:
        assert words in str(hackamore.ResultError.of(result))


@shows("session.life.not-found")
def test_an_unknown_session_to_resume_has_an_error_of_its_own(shell: Shell, playing: StandIn) -> None:
    unknown = "5e551011-0000-4000-8000-00000000dead"
    line = (
        '{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s","num_turns":0,"duration_ms":1,'
        f'"errors":["No conversation found with session ID: {unknown}"]}}\n'
    )

    async def scenario() -> None:
        options = playing(["raw", line], ["exit", 1])
        error = await raised(lambda: make(shell, options).start(), hackamore.SessionNotFoundError)
        assert error.session_id == unknown
        assert "CLAUDE_CONFIG_DIR" in str(error)
        steered = options.replace(can_use_tool=lambda _: hackamore.Allow())
        error = await raised(lambda: shell.run("x", steered), hackamore.SessionNotFoundError)
        assert error.session_id == unknown

    shell.play(scenario)
