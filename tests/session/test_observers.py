"""Observers of sessions and queries: what they hear and in which order, on every shell."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import hackamore
from hackamore import HackamoreError, Options, OptionsError, SessionClosedError
from hackamore.options.observing import ONE_TURN, Observation, Subject
from tests.contract import shows
from tests.support import stand_in
from tests.support.observing import Noting
from tests.support.patience import patience
from tests.support.programs import program
from tests.support.session_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import Running, got, make, raised, steps, texts, until

VALUE: ContextVar[str] = ContextVar("VALUE", default="")
HANG = steps(["hang"])


class Refusal(HackamoreError):
    """An observer refuses a prompt, or ends a turn."""


class Notes(Noting):
    """Also notes the context, and may refuse prompts and end turns."""

    def __init__(self, kept: Kept, subject: Subject) -> None:
        super().__init__(*kept.raises, error=kept.error, variables=kept.variables)
        self.kept = kept
        self.subject = subject
        self.over = threading.Event()
        self.enter = lambda: VALUE.set("inside")

    def prompt_sending(self, turn_id: str, content: Any) -> None:
        self.note("prompt_sending", turn_id, content, VALUE.get())
        if self.kept.refuses:
            raise Refusal("this prompt is refused")

    def launching(self) -> Mapping[str, str | None]:
        self.note("launching", VALUE.get())
        return self.variables

    def messages_received(self, messages: Any, turn_ids: tuple[str, ...]) -> None:
        for message in messages:
            if message.type in ("assistant", "result"):
                self.note(message.type, turn_ids)
                if self.kept.ends:
                    self.subject.end_turn(ONE_TURN, Refusal("enough"))

    def ended(self, error: HackamoreError | None, exit_code: int | None) -> None:
        try:
            super().ended(error, exit_code)
        finally:
            self.over.set()


class Kept:
    """An observer, and what its observations heard.

    Args:
        raises: methods that raise.
        refuses: True refuses prompts.
        error: what they raise.
        variables: for the CLI.
    """

    def __init__(
        self,
        *raises: str,
        refuses: bool = False,
        error: type[BaseException] = ValueError,
        variables: Mapping[str, str | None] | None = None,
    ) -> None:
        self.raises = raises
        self.error = error
        self.refuses = refuses
        self.ends = False  # with the first message
        self.variables = variables or {}
        self.all: list[Notes] = []

    def observe(self, subject: Subject) -> Observation:
        if "observe" in self.raises:
            raise RuntimeError("the observer fails in observe")
        self.all.append(Notes(self, subject))
        return self.all[-1]

    @property
    def one(self) -> Notes:
        [notes] = self.all
        return notes

    def ended_once(self) -> Notes:
        notes = self.one
        assert notes.over.wait(patience(30))
        assert notes.names().count("ended") == 1
        assert notes.names()[-1] == "ended"
        return notes


@pytest.fixture(autouse=True)
def no_value() -> None:
    """Begin without a value: the blocking shell sets it in the context of the tests themselves."""
    VALUE.set("")


@pytest.fixture
def plain(tmp_path: Path) -> StandIn:
    """Return a function that gives options for a one-way stand-in which plays these steps."""
    path = program(tmp_path / "plain", stand_in)

    def options(*played: list[Any], **more: Any) -> Options:
        environment = {"STAND_IN_STEPS": json.dumps(played), **more.pop("env", {})}
        return Options(**{"cli_path": str(path), "env": environment, "version_check": "skip", **more})

    return options


ANSWER = (["frame", "init"], ["frame", "assistant"], ["frame", "result"])


@shows("observers.order")
def test_a_session_from_start_to_stop(shell: Shell, playing: StandIn) -> None:
    kept = Kept()

    async def scenario() -> None:
        async with Running(shell, playing(telemetry=kept)) as session:
            VALUE.set("caller")
            turn = await got(session.send("one"))
            assert await texts(turn) == ["one"]
            await got(session.get_settings())
            assert kept.one.of("prompt_sending") == [(turn.id, "one", "caller")]
            assert kept.one.subject.session_id == session.session_id
            assert kept.one.of("assistant") == [((turn.id,),)]

    shell.play(scenario)
    notes = kept.ended_once()
    assert notes.subject.kind == "session"
    assert notes.names() == [
        *("launching", "launched", "ready", "prompt_sending", "turn_changed", "assistant", "result", "turn_changed"),
        *("request_sent", "request_ended", "ended"),
    ]
    assert [state for _, state, _ in notes.of("turn_changed")] == ["started", "completed"]
    assert notes.of("request_sent")[0][1] == "get_settings"
    assert notes.of("request_ended") == [(notes.of("request_sent")[0][0], None)]
    assert notes.of("ended") == [(None, notes.of("ended")[0][1])]


@shows("observers.order")
def test_a_query_over_the_one_way_launch(shell: Shell, plain: StandIn) -> None:
    for leaves_early in (False, True):
        kept = Kept()

        async def scenario(kept: Kept = kept, early: bool = leaves_early) -> None:
            stream = shell.query("hello", plain(*ANSWER, telemetry=kept))
            async for _ in stream:
                if early:
                    break
            await stream.close()

        shell.play(scenario)
        notes = kept.ended_once()
        assert notes.subject.kind == "query"
        whole = ["prompt_sending", "launching", "launched", "assistant", "result", "turn_changed", "ended"]
        assert [name for name in whole if name in notes.names()] == notes.names()
        if not leaves_early:
            assert notes.names() == whole
            assert notes.of("turn_changed") == [(ONE_TURN, "completed", None)]
            assert notes.of("prompt_sending") == [(ONE_TURN, "hello", "")]


def test_a_query_that_is_only_iterated_ends_too(shell: Shell, plain: StandIn) -> None:
    kept = Kept()

    async def scenario() -> None:
        async for _ in shell.query("hello", plain(["frame", "init"], ["frame", "error_result"], telemetry=kept)):
            pass
        assert kept.one.names()[-2:] == ["turn_changed", "ended"]

    shell.play(scenario)
    assert kept.ended_once().of("turn_changed") == [(ONE_TURN, "failed", None)]


@shows("observers.order")
def test_a_query_over_the_bidirectional_launch(shell: Shell, playing: StandIn) -> None:
    kept = Kept()

    async def scenario() -> None:
        result = await shell.run(iter(["one", "two"]), playing(telemetry=kept))
        assert result.text == "done"

    shell.play(scenario)
    notes = kept.ended_once()
    assert notes.subject.kind == "query"
    first, second = (turn_id for turn_id, *_ in notes.of("prompt_sending"))
    assert notes.of("assistant") == [((first,),), ((second,),)]
    assert [(turn, state) for turn, state, _ in notes.of("turn_changed")] == [
        *((first, "started"), (first, "completed"), (second, "started"), (second, "completed")),
    ]


@shows("observers.refusal")
def test_a_refused_prompt_is_not_sent(shell: Shell, playing: StandIn, plain: StandIn) -> None:
    sessions, steered, one_way = Kept(refuses=True), Kept(refuses=True), Kept(refuses=True)

    async def scenario() -> None:
        async with Running(shell, playing(telemetry=sessions)) as session:
            await raised(lambda: session.send("one"), Refusal)
            sessions.refuses = False
            assert await texts(await got(session.send("two"))) == ["two"]
        await raised(lambda: shell.run([{"type": "text", "text": "one"}], playing(telemetry=steered)), Refusal)
        await raised(lambda: shell.run("one", plain(*ANSWER, telemetry=one_way)), Refusal)

    shell.play(scenario)
    changes = sessions.ended_once().of("turn_changed")
    assert [state for _, state, _ in changes] == ["failed", "started", "completed"]
    assert isinstance(changes[0][2], Refusal)
    for kept in (steered, one_way):
        notes = kept.ended_once()
        assert "launched" not in notes.names()
        [(_, state, error)] = notes.of("turn_changed")
        assert state == "failed"
        assert isinstance(error, Refusal)


@shows("observers.end-turn")
def test_an_observer_ends_a_turn(shell: Shell, playing: StandIn, plain: StandIn) -> None:
    async def ends(kept: Kept, reading: Callable[[], Any]) -> None:
        async def end() -> None:
            await until(shell, lambda: bool(kept.all and kept.one.of("assistant")))
            notes = kept.one
            turn_id = notes.of("prompt_sending")[0][0]
            thread = threading.Thread(target=lambda: notes.subject.end_turn(turn_id, Refusal("enough")))
            thread.start()
            thread.join()

        error, _ = await shell.meanwhile(lambda: raised(reading, Refusal), end)
        assert isinstance(error, Refusal), error
        assert [message.type for message in error.partial.messages if message.type == "assistant"] == ["assistant"]

    async def scenario() -> None:
        kept = Kept()
        work = steps(["text", "begun"], ["hang"])
        async with Running(shell, playing(telemetry=kept)) as session:
            turn = await got(session.send(work))
            await ends(kept, lambda: texts(turn))
            assert await texts(await got(session.send("again"))) == ["again"]  # the session goes on
            kept.one.subject.end_turn(turn.id, Refusal("it is over, nothing happens"))
        steered = Kept()
        options = playing(telemetry=steered, can_use_tool=lambda request: hackamore.Allow())
        await ends(steered, lambda: shell.query(work, options).result())
        assert steered.ended_once().of("turn_changed")[-1][1] in ("failed", "interrupted")
        one_way = Kept()
        one_way.ends = True
        options = plain(["frame", "init"], ["frame", "assistant"], ["sleep", 60], telemetry=one_way)
        await raised(lambda: shell.query("hello", options).result(), Refusal)
        assert one_way.ended_once().of("turn_changed")[-1][1] == "failed"
        from_outside = Kept()
        options = plain(["frame", "init"], ["frame", "assistant"], ["sleep", 600], telemetry=from_outside)
        began = time.monotonic()
        await ends(from_outside, lambda: shell.query("hello", options).result())
        assert time.monotonic() - began < patience(60)  # it does not wait for output
        assert from_outside.ended_once().of("turn_changed")[-1][1] == "failed"

    shell.play(scenario)


@shows("observers.harmless")
@pytest.mark.parametrize("problem", [ValueError, SystemExit])
def test_an_observer_that_raises_is_logged_and_nothing_else(
    shell: Shell, playing: StandIn, plain: StandIn, caplog: pytest.LogCaptureFixture, problem: type[BaseException]
) -> None:
    methods = (
        *("prompt_sending", "launching", "launched", "ready", "turn_changed", "assistant", "result"),
        *("callback_started", "callback_ended", "request_sent", "request_ended", "ended"),
    )
    heard: list[hackamore.StreamWarning] = []
    kept, one_way = Kept(*methods, error=problem), Kept(*methods, error=problem)

    async def scenario() -> None:
        hook = {"callback_id": "hook_0", "input": {"hook_event_name": "Stop"}}
        options = playing(telemetry=kept, on_warning=heard.append, hooks={"Stop": lambda value, context: None})
        async with Running(shell, options) as session:
            assert await texts(await got(session.send(steps(["ask", "hook_callback", hook], ["text", "one"])))) == [
                "{}",
                "one",
            ]
            await got(session.get_settings())
        collected = await shell.query("hello", plain(*ANSWER, telemetry=one_way)).collect()
        assert collected.terminal_error is None
        assert {warning.code for warning in collected.warnings} == {"CALLBACK_FAILED"}

    with caplog.at_level(logging.ERROR, "hackamore"):
        shell.play(scenario)
    for notes in (kept.ended_once(), one_way.ended_once()):
        assert "result" in notes.names()
    assert {warning.code for warning in heard} == {"CALLBACK_FAILED"}
    assert all("`telemetry`" in warning.message for warning in heard)
    assert "the observer fails in launching" in caplog.text


def test_an_observer_that_cannot_begin_prevents_the_session(shell: Shell, playing: StandIn) -> None:
    with pytest.raises(RuntimeError, match="fails in observe"):
        make(shell, playing(telemetry=Kept("observe")))
    for value in (Kept, object(), "telemetry"):
        with pytest.raises(OptionsError, match="`telemetry` must be an object with the method `observe`"):
            Options(telemetry=value)  # type: ignore[arg-type]


@shows("observers.ended")
def test_the_end_comes_last_and_once(shell: Shell, playing: StandIn, plain: StandIn, tmp_path: Path) -> None:
    async def failed_start(kept: Kept) -> None:
        session = make(shell, playing(["refuse", "not today"], telemetry=kept))
        await raised(session.start, hackamore.StartError)

    async def no_program(kept: Kept) -> None:
        options = playing(cli_path=str(tmp_path / "missing"), telemetry=kept)
        await raised(make(shell, options).start, hackamore.StartError)

    async def query_without_program(kept: Kept) -> None:
        await raised(lambda: shell.run("hello", Options(cli_path=tmp_path / "missing", telemetry=kept)), HackamoreError)

    async def stop_before_start(kept: Kept) -> None:
        session = make(shell, playing(telemetry=kept))
        await got(session.stop())

    async def crash(kept: Kept) -> None:
        async with Running(shell, playing(telemetry=kept)) as session:
            turn = await got(session.send(steps(["text", "begun"], ["exit", 3])))
            await raised(lambda: texts(turn), HackamoreError)

    async def kill(kept: Kept) -> None:
        async with Running(shell, playing(telemetry=kept)) as session:
            turn = await got(session.send(steps(["text", "begun"], ["die"])))
            await raised(lambda: texts(turn), HackamoreError)

    async def query_that_crashes(kept: Kept) -> None:
        await raised(lambda: shell.run("hello", plain(["frame", "init"], ["exit", 3], telemetry=kept)), HackamoreError)

    async def stop_in_a_turn(kept: Kept) -> None:
        async with Running(shell, playing(telemetry=kept)) as session:
            await got(session.send(HANG))

    for scenario in (
        *(failed_start, no_program, query_without_program, stop_before_start, crash, kill, query_that_crashes),
        stop_in_a_turn,
    ):
        kept = Kept()
        shell.play(scenario, kept)
        notes = kept.ended_once()
        states = {turn: state for turn, state, _ in notes.of("turn_changed")}
        assert set(states) == {turn for turn, *_ in notes.of("prompt_sending")}, scenario.__name__
        assert "started" not in states.values(), scenario.__name__
        if scenario in (crash, kill, query_that_crashes, query_without_program):
            assert set(states.values()) == {"failed"}, scenario.__name__
            assert notes.of("ended")[0][0] is not None
        if scenario is kill:
            assert notes.of("ended")[0][1] == -9


@shows("observers.ended")
def test_what_is_forgotten_ends(shell: Shell, playing: StandIn, plain: StandIn) -> None:
    session, query, steered = Kept(), Kept(), Kept()

    async def scenario() -> None:
        forgotten = make(shell, playing(telemetry=session))
        await got(forgotten.start())
        await got(forgotten.send(HANG))
        streams = [
            shell.query("hello", plain(["frame", "init"], ["sleep", 60], telemetry=query)),
            shell.query(HANG, playing(telemetry=steered, can_use_tool=lambda request: hackamore.Allow())),
        ]
        await streams[0].next_item()
        await streams[1].start()
        del forgotten
        streams.clear()
        for kept in (session, query, steered):
            gc.collect()
            await until(shell, kept.one.over.is_set)

    shell.play(scenario)
    for kept in (session, query, steered):
        assert {turn for turn, *_ in kept.ended_once().of("turn_changed")} == {
            turn for turn, *_ in kept.one.of("prompt_sending")
        }


@shows("observers.ended")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_query_ends(backend: str, playing: StandIn, plain: StandIn) -> None:
    import anyio

    steered, one_way = Kept(), Kept()

    async def read(stream: Any, kept: Kept, scope: anyio.CancelScope) -> None:
        with scope:
            async for _ in stream:
                scope.cancel()

    async def scenario() -> None:
        options = playing(telemetry=steered, can_use_tool=lambda request: hackamore.Allow())
        text = steps(["text", "begun"], ["hang"])
        await read(hackamore.query(text, options), steered, anyio.CancelScope())
        options = plain(["frame", "init"], ["sleep", 60], telemetry=one_way)
        await read(hackamore.query("hello", options), one_way, anyio.CancelScope())
        with anyio.fail_after(patience(30)):
            while not (steered.one.over.is_set() and one_way.one.over.is_set()):
                await anyio.sleep(0.01)

    anyio.run(scenario, backend=backend)
    steered.ended_once()
    one_way.ended_once()


@shows("observers.ended")
def test_an_event_loop_that_ends_is_an_end(playing: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    sessions = []

    async def scenario() -> None:
        session = hackamore.Session(playing(telemetry=kept))
        await session.start()
        await session.send(HANG)
        sessions.append(session)

    asyncio.run(scenario())
    notes = kept.ended_once()
    [(_, state, error)] = [change for change in notes.of("turn_changed") if change[1] != "started"]
    assert state == "failed"
    assert isinstance(error, SessionClosedError)


@shows("observers.variables")
def test_variables_for_the_cli(shell: Shell, playing: StandIn, plain: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED_STALE", "stale")
    variables = {"FROM_OBSERVER": "observer", "OF_BOTH": "observer", "INHERITED_STALE": None}
    kept = Kept(variables=variables)

    async def scenario() -> None:
        VALUE.set("caller")
        options = playing(telemetry=kept, env={"OF_BOTH": "options"})
        async with Running(shell, options) as session:
            found = dict(
                entry.split("=", 1)
                for entry in Path(f"/proc/{session.pid}/environ").read_text().split("\0")
                if "=" in entry
            )
        assert found["FROM_OBSERVER"] == "observer"
        assert found["OF_BOTH"] == "options"
        assert "INHERITED_STALE" not in found
        assert session.options.env["OF_BOTH"] == "options"
        assert "FROM_OBSERVER" not in session.options.env
        assert kept.one.of("launching") == [("caller",)]

    shell.play(scenario)
    assert os.environ["INHERITED_STALE"] == "stale"


@shows("observers.callbacks")
@pytest.mark.parametrize("is_async", [False, True])
def test_callbacks_run_in_the_context_of_the_observer(shell: Shell, playing: StandIn, is_async: bool) -> None:
    kept = Kept()
    seen: list[str] = []

    def decide(request: hackamore.PermissionRequest) -> hackamore.Deny:
        seen.append(VALUE.get())
        VALUE.set("changed")
        if request.tool_use_id == "t2":
            raise ValueError("it goes wrong")
        return hackamore.Deny("no")

    async def decide_later(request: hackamore.PermissionRequest) -> hackamore.Deny:
        return decide(request)

    async def scenario() -> None:
        options = playing(telemetry=kept, can_use_tool=decide_later if is_async else decide)
        request = {"tool_name": "Bash", "input": {}, "tool_use_id": "t1"}
        asked = steps(["ask", "can_use_tool", request], ["ask", "can_use_tool", {**request, "tool_use_id": "t2"}])
        async with Running(shell, options) as session:
            assert len(await texts(await got(session.send(asked)))) == 2

    shell.play(scenario)
    assert seen == ["inside", "inside"]
    notes = kept.ended_once()
    calls = [call for (call,) in notes.of("callback_started")]
    assert [(call.kind, call.tool, call.tool_use_id) for call in calls] == [
        ("permission", "Bash", "t1"),
        ("permission", "Bash", "t2"),
    ]
    ends = [end for _, end in notes.of("callback_ended")]
    assert [end.how for end in ends] == ["answered", "failed"]
    assert [end.answer["behavior"] for end in ends] == ["deny", "deny"]
    assert "it goes wrong" in ends[1].reason


def test_callbacks_that_are_cancelled_or_still_open_end(shell: Shell, playing: StandIn) -> None:
    kept = Kept()
    go_on = threading.Event()

    def decide(request: hackamore.PermissionRequest) -> hackamore.Deny:
        go_on.wait(patience(30))
        return hackamore.Deny("no")

    async def scenario() -> None:
        options = playing(telemetry=kept, can_use_tool=decide)
        request = {"tool_name": "Bash", "input": {}, "tool_use_id": "t1"}
        async with Running(shell, options) as session:
            await texts(await got(session.send(steps(["ask_and_cancel", "can_use_tool", request], ["text", "gone"]))))
            await got(session.send(steps(["ask", "can_use_tool", request])))
            await until(shell, lambda: len(kept.one.of("callback_started")) == 2)
            go_on_later = threading.Timer(0, go_on.set)
            go_on_later.start()
        go_on_later.join()

    shell.play(scenario)
    notes = kept.ended_once()
    assert len(notes.of("callback_ended")) == 2
    assert notes.of("callback_ended")[0][1].how == "cancelled"


def test_two_observers_hear_the_same(shell: Shell, playing: StandIn) -> None:
    telemetry, budget = Kept(), Kept("ready")

    async def scenario() -> None:
        async with Running(shell, playing(telemetry=telemetry, budget=budget)) as session:
            assert await texts(await got(session.send("one"))) == ["one"]

    shell.play(scenario)
    assert telemetry.ended_once().names() == budget.ended_once().names()
