"""Observers by themselves: what each is told, in which order, and what their failures change. No shell and no process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bridle import BridleError, HookMatcher, Options, StreamWarning, TurnTimeoutError
from bridle.answering.jobs import Job
from bridle.answering.observers import Observers, observers_of
from bridle.options.observing import ONE_TURN, CallbackEnd, Observation
from bridle.protocol.deadlines import TURN_KINDS
from bridle.queries.plain import PlainQuery
from bridle.session.steering import SteeredQuery
from tests.session.test_deadlines import HOOK, RESULT, RUNNING, TEXT, Clocked


class Notes(Observation):
    """Notes what it is told. Names in `broken` raise."""

    def __init__(self, *broken: str, error: type[Exception] = ValueError, **variables: str) -> None:
        self.broken = broken
        self.error = error
        self.variables = variables
        self.told: list[tuple[Any, ...]] = []
        self.enter: Callable[[], object] | None = None

    def note(self, name: str, *facts: Any) -> None:
        self.told.append((name, *facts))
        if name in self.broken:
            raise self.error(name)

    def names(self) -> list[str]:
        return [name for name, *_ in self.told]

    def prompt_sending(self, turn_id: str, content: Any) -> None:
        self.note("prompt_sending", turn_id, content)

    def launching(self) -> dict[str, str]:
        self.note("launching")
        return self.variables

    def launched(self) -> None:
        self.note("launched")

    def ready(self) -> None:
        self.note("ready")

    def turn_changed(self, turn_id: str, state: str, error: BridleError | None) -> None:
        self.note("turn_changed", turn_id, state, error)

    def messages_received(self, messages: Any, turn_ids: tuple[str, ...]) -> None:
        self.note("messages_received", [message.type for message in messages], turn_ids)

    def callback_started(self, call: Any) -> Callable[[], object] | None:
        self.note("callback_started", call)
        return self.enter

    def callback_ended(self, call: Any, end: CallbackEnd) -> None:
        self.note("callback_ended", call, end)

    def request_sent(self, request_id: str, operation: str) -> None:
        self.note("request_sent", request_id, operation)

    def request_ended(self, request_id: str, error: BridleError | None) -> None:
        self.note("request_ended", request_id, error)

    def ended(self, error: BridleError | None, exit_code: int | None) -> None:
        self.note("ended", error, exit_code)


class Observer:
    """Hands out one observation, and keeps the subject."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        self.subject: Any = None

    def observe(self, subject: Any) -> Observation:
        self.subject = subject
        return self.observation


def told(**found: Notes) -> tuple[Observers, list[StreamWarning]]:
    warnings: list[StreamWarning] = []
    return Observers(found, warnings.append, lambda: {"session_id": "s"}), warnings


def watched(audience: Any = None, **options: Any) -> tuple[Clocked, Notes, Observer]:
    notes = Notes()
    observer = Observer(notes)
    more = {} if audience is None else {"audience": audience}
    return Clocked(telemetry=observer, **more, **options), notes, observer


# -- by themselves -----------------------------------------------------------------------------------------------------


def test_without_an_option_nobody_observes_and_both_may() -> None:
    subject: Any = object()
    assert observers_of(Options(), subject, print, dict) is None
    first, second = Observer(Notes()), Observer(Notes())
    both = observers_of(Options(telemetry=first, budget=second), subject, print, dict)
    assert both is not None
    assert first.subject is second.subject is subject
    both.launched()
    assert first.observation.names() == second.observation.names() == ["launched"]  # type: ignore[attr-defined]


def test_variables_of_all_observers_reach_the_launch_and_those_of_the_user_win() -> None:
    observers, _ = told(telemetry=Notes(A="1", B="1", C="1"), budget=Notes(B="2", C="2"))
    assert observers.options_with_variables(Options(env={"C": "3"})).env == {"A": "1", "B": "2", "C": "3"}
    options = Options()
    assert told(telemetry=Notes())[0].options_with_variables(options) is options


@pytest.mark.parametrize(
    "name", ["prompt_sending", "launching", "launched", "callback_started", "callback_ended", "ended", "turn_changed"]
)
def test_an_observer_that_raises_is_a_warning_and_the_others_are_told(name: str) -> None:
    broken, whole = Notes(name, A="1"), Notes(B="2")
    observers, warnings = told(telemetry=broken, budget=whole)
    observers.prompt_sending("t", "hi")
    assert observers.options_with_variables(Options()).env == (
        {"B": "2"} if name == "launching" else {"A": "1", "B": "2"}
    )
    observers.launched()
    observers.callback_started(Job("r", "hook"))
    observers.callback_ended("r", CallbackEnd("answered", {}, ""))
    observers.turn_changed("t", "completed", None)
    observers.ended(None, 0)
    assert broken.names() == whole.names()
    (warning,) = warnings
    assert (warning.code, warning.context["kind"]) == ("CALLBACK_FAILED", "telemetry")
    assert warning.context["callback"] == f"`telemetry` (`{name}`)"
    assert isinstance(warning.exception, ValueError)


def test_an_observer_may_refuse_a_prompt() -> None:
    first, refusing, last = Notes(), Notes("prompt_sending", error=BridleError), Notes()
    observers, warnings = told(one=first, two=refusing, three=last)
    with pytest.raises(BridleError, match="prompt_sending") as refused:
        observers.prompt_sending("t", "hi")
    assert first.told[0] == ("prompt_sending", "t", "hi")
    for notes in (first, refusing, last):
        assert notes.told[-1] == ("turn_changed", "t", "failed", refused.value)
    assert last.names() == ["turn_changed"]
    observers.ended(None, 0)
    assert warnings == []
    assert last.names() == ["turn_changed", "ended"]


def test_the_end_closes_what_is_open_once() -> None:
    notes = Notes()
    observers, _ = told(telemetry=notes)
    error = BridleError("over")
    for turn_id in ("done", "started", "open"):
        observers.prompt_sending(turn_id, "hi")
    observers.turn_changed("started", "started", None)
    observers.turn_changed("done", "completed", None)
    observers.callback_started(Job("r", "hook"))
    notes.told.clear()
    observers.ended(error, 7)
    observers.ended(None, 0)
    (callback, *turns, last) = notes.told
    assert callback[0] == "callback_ended"
    assert callback[2] == CallbackEnd("cancelled", None, "")
    assert sorted(turns) == [("turn_changed", "open", "failed", error), ("turn_changed", "started", "failed", error)]
    assert last == ("ended", error, 7)


def test_the_end_without_an_error_interrupts_open_turns() -> None:
    notes = Notes()
    observers, _ = told(telemetry=notes)
    observers.prompt_sending("t", "hi")
    observers.ended(None, None)
    assert notes.told[1:] == [("turn_changed", "t", "interrupted", None), ("ended", None, None)]


def test_observers_prepare_the_context_of_a_callback() -> None:
    first, second, third = Notes(), Notes(), Notes("callback_started")
    observers, warnings = told(one=first, two=second, three=third)
    ran: list[str] = []
    first.enter = lambda: ran.append("first")
    third.enter = lambda: ran.append("never")
    job = Job("r", "mcp")
    job.name, job.event, job.tool, job.tool_use_id, job.request = "n", "e", "t", "u", {"a": 1}

    def call() -> str:
        ran.append("call")
        return "outcome"

    job.call = call
    job.on_failure = "block"
    observers.callback_started(job)
    assert first.told[0][1] == ("r", "mcp", "n", "e", "t", "u", {"a": 1}, "block", None)
    assert job.call() == "outcome"
    assert ran == ["first", "call"]
    assert len(warnings) == 1
    observers.callback_ended("never", CallbackEnd("answered", {}, ""))
    assert first.names() == ["callback_started"]
    end = CallbackEnd("failed", {}, "why")
    observers.callback_ended("r", end)
    observers.callback_ended("r", end)
    assert first.names() == ["callback_started"]  # its answer is still to be written
    observers.report()
    assert first.told[1:] == [("callback_ended", first.told[0][1], end)]
    plain = Job("q", "mcp")
    before = plain.call
    told(one=Notes())[0].callback_started(plain)
    assert plain.call is before


# -- of a session ------------------------------------------------------------------------------------------------------


def test_a_session_tells_its_observers_what_happens() -> None:
    session, notes, observer = watched(model="m", hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})
    core = session.core
    assert (observer.subject.kind, observer.subject.model, observer.subject.session_id) == ("session", "m", None)
    assert notes.names() == ["ready"]
    notes.told.clear()
    turn = session.send()
    session.take(
        {"type": "command_lifecycle", "command_uuid": turn.id, "state": "started"}, {**TEXT, "session_id": "s"}
    )
    assert observer.subject.session_id == "s"
    answer = core.ask("mcp_status", {}, "servers", None, session.now)
    core.connection.expire(answer.request_id, 1.0)
    core.pump(session.now)
    session.take({"type": "control_request", "request_id": "r1", "request": {**HOOK, "tool_use_id": "u"}})
    (job,) = core.callbacks.take()
    core.callback_ended(job, {"decision": "block"}, None, session.now)
    session.take({**RESULT, "user_message_uuids": [turn.id]})
    core.process_gone(0, b"")
    core.pump(session.now)
    assert [entry for entry in notes.told if entry[0] in ("prompt_sending", "turn_changed")] == [
        ("prompt_sending", turn.id, "hello"),
        ("turn_changed", turn.id, "started", None),
        ("turn_changed", turn.id, "completed", None),
    ]
    assert ("messages_received", ["assistant"], (turn.id,)) in notes.told
    assert ("messages_received", ["result"], (turn.id,)) in notes.told
    assert ("request_sent", answer.request_id, "servers") in notes.told
    assert ("request_ended", answer.request_id, answer.error) in notes.told
    (started,) = [entry[1] for entry in notes.told if entry[0] == "callback_started"]
    assert (started.id, started.kind, started.event, started.tool, started.tool_use_id) == (
        "r1",
        "hook",
        "PreToolUse",
        "Bash",
        "u",
    )
    assert started.name == job.name
    assert started.request.tool_name == "Bash"
    (ended,) = [entry[2] for entry in notes.told if entry[0] == "callback_ended"]
    assert (ended.how, ended.answer["decision"], ended.reason) == ("answered", "block", "")
    assert notes.told[-1] == ("ended", None, 0)


def test_callbacks_that_fail_or_are_cancelled_say_so() -> None:
    session, notes, _ = watched(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]}, can_use_tool=print)
    ask = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "u"}
    session.take(
        {"type": "control_request", "request_id": "r1", "request": HOOK},
        {"type": "control_request", "request_id": "r2", "request": ask},
        {"type": "control_request", "request_id": "r3", "request": ask},
        {"type": "control_cancel_request", "request_id": "r3"},
    )
    hook, permission = session.core.callbacks.take()
    session.core.callback_ended(hook, None, ValueError("bad"), session.now)
    session.core.callbacks.expire(permission.request_id, 3.0)
    assert "callback_ended" not in notes.names()  # the answers are still to be written
    session.core.was_written()
    calls = {entry[1].id: entry[1] for entry in notes.told if entry[0] == "callback_started"}
    assert (calls["r2"].kind, calls["r2"].tool, calls["r2"].tool_use_id) == ("permission", "Bash", "u")
    assert calls["r2"].request.input == {"command": "ls"}
    ends = {entry[1].id: entry[2] for entry in notes.told if entry[0] == "callback_ended"}
    assert {name: end.how for name, end in ends.items()} == {"r1": "failed", "r2": "failed", "r3": "cancelled"}
    assert "ValueError: bad" in ends["r1"].reason
    assert ends["r2"].answer["behavior"] == "deny"
    assert ends["r3"] == CallbackEnd("cancelled", None, "")


def test_a_prompt_that_cannot_be_sent_is_a_failed_turn() -> None:
    session, notes, _ = watched()
    with pytest.raises(ValueError, match="half a character"):
        session.core.send("\ud800", None, session.now)
    first, second = notes.told[-2:]
    assert first[0] == "prompt_sending"
    assert second == ("turn_changed", first[1], "failed", None)
    session.core.begin_stop(session.now)
    with pytest.raises(BridleError):
        session.core.send("late", None, session.now)
    assert notes.names().count("prompt_sending") == 1


def test_an_observer_may_warn_and_end_a_turn_of_a_session() -> None:
    session, _, observer = watched(timeouts=dict.fromkeys(TURN_KINDS, 50.0))
    observer.subject.warn("SLOW_CONSUMER", "look", fact=1)
    (warning,) = session.core.warnings
    assert (warning.code, warning.message, warning.context) == ("SLOW_CONSUMER", "look", {"fact": 1})
    turn, other = session.send(), session.send()
    session.take({"type": "command_lifecycle", "command_uuid": turn.id, "state": "started"}, RUNNING)
    session.core.connection.data_to_send()
    error = TurnTimeoutError("turn", 1.0)
    observer.subject.end_turn(turn.id, error)
    observer.subject.end_turn("never", error)
    assert turn.over.is_set
    assert turn.inbox.error is error
    assert not other.over.is_set
    assert session.core.connection.data_to_send().count(b'"interrupt"') == 1
    assert not any(session.core.deadlines.is_armed(kind, turn.id) for kind in TURN_KINDS)


def test_an_observer_ends_a_query() -> None:
    session, notes, observer = watched(SteeredQuery)
    assert observer.subject.kind == "query"
    session.core.audience.send_all("hello", session.now)  # type: ignore[attr-defined]
    turn_id = notes.told[-1][1]
    error = TurnTimeoutError("turn", 1.0)
    observer.subject.end_turn(turn_id, error)
    session.core.pump(session.now)
    assert session.core.connection.terminal_error is error
    assert notes.told[-1] == ("ended", error, None)


# -- of a query over the one-way launch --------------------------------------------------------------------------------


def one_way(**more: Any) -> tuple[PlainQuery, Notes, Observer]:
    notes = Notes(A="1")
    observer = Observer(notes)
    return PlainQuery(Options(telemetry=observer, **more)), notes, observer


def test_a_one_way_query_is_one_turn() -> None:
    query, notes, observer = one_way(model="m")
    assert (observer.subject.kind, observer.subject.model, observer.subject.session_id) == ("query", "m", None)
    options = query.observed("hi", Options())
    assert options.env == {"A": "1"}
    query.begin(0.0)
    query.receive_data(json.dumps({**RESULT, "session_id": "s"}).encode() + b"\n", 1.0)
    assert observer.subject.session_id == "s"
    query.receive_eof(2.0)
    query.process_exited(0, b"")
    query.closed()
    assert notes.told == [
        ("prompt_sending", ONE_TURN, "hi"),
        ("launching",),
        ("launched",),
        ("messages_received", ["result"], (ONE_TURN,)),
        *notes.told[4:],
    ]
    assert notes.told[-1] == ("ended", None, 0)
    plain = PlainQuery(Options())
    assert plain.observed("hi", options) is options
    plain.closed()


def test_an_observer_may_warn_and_end_a_one_way_query() -> None:
    query, notes, observer = one_way()
    query.observed("hi", Options())
    query.begin(0.0)
    observer.subject.warn("SLOW_CONSUMER", "look", fact=1)
    (warning,) = query.core.items
    assert isinstance(warning, StreamWarning)
    assert (warning.code, warning.message, warning.context) == ("SLOW_CONSUMER", "look", {"fact": 1})
    error = TurnTimeoutError("turn", 1.0)
    observer.subject.end_turn("never", error)
    assert not query.core.over
    observer.subject.end_turn(ONE_TURN, error)
    assert query.core.terminal_error is error
    query.closed()
    assert notes.told[-1] == ("ended", error, None)
    assert ("turn_changed", ONE_TURN, "failed", error) in notes.told
