"""Observers by themselves: what each is told, in which order, and what their failures change. No shell and no process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hackamore import HackamoreError, HookMatcher, Limits, Options, StreamWarning, TurnTimeoutError
from hackamore._engine.answering.jobs import Callee, Job, JobState
from hackamore._engine.answering.observers import Observers, observers_of
from hackamore._engine.protocol.deadlines import TURN_KINDS
from hackamore._engine.queries.plain import PlainQuery
from hackamore._engine.session.steering import SteeredQuery
from hackamore.options.observing import ONE_TURN, CallbackCall, CallbackEnd
from tests.session.test_deadlines import HOOK, RESULT, RUNNING, TEXT, Clocked
from tests.support.observing import Noting, Observer


def told(**found: Noting) -> tuple[Observers, list[StreamWarning]]:
    warnings: list[StreamWarning] = []
    return Observers(found, warnings.append, lambda: {"session_id": "s"}), warnings


def watched(audience: Any = None, **options: Any) -> tuple[Clocked, Noting, Observer]:
    notes = Noting()
    observer = Observer(notes)
    more = {} if audience is None else {"audience": audience}
    return Clocked(telemetry=observer, **more, **options), notes, observer


# -- by themselves -----------------------------------------------------------------------------------------------------


def test_without_an_option_nobody_observes_and_both_may() -> None:
    subject: Any = object()
    assert observers_of(Options(), subject, print, dict) is None
    first, second = Observer(Noting()), Observer(Noting())
    both = observers_of(Options(telemetry=first, budget=second), subject, print, dict)
    assert both is not None
    assert first.subject is second.subject is subject
    both.launched()
    assert first.observation.names() == second.observation.names() == ["launched"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", ["telemetry", "budget"])
def test_the_warning_about_an_observer_names_its_option(option: str) -> None:
    warnings: list[StreamWarning] = []
    subject: Any = object()
    given: Any = {option: Observer(Noting("launched"))}
    observers = observers_of(Options(**given), subject, warnings.append, dict)
    assert observers is not None
    observers.launched()
    (warning,) = warnings
    assert warning.context["callback"] == f"`{option}` (`launched`)"
    assert warning.context["kind"] == option
    assert "observing.py:" in warning.context["place"]


def called(about: CallbackCall, call: Callable[[], Any] = lambda: None) -> Job:
    """Return the job of a callback."""
    return Job(about, Callee("n"), JobState(), call)


def test_an_observer_without_a_method_is_a_warning_as_well() -> None:
    class Nothing:
        """Has none of the methods."""

    observer: Any = Nothing()
    observers, warnings = told(telemetry=observer)
    observers.launched()
    (warning,) = warnings
    assert isinstance(warning.exception, AttributeError)
    assert warning.context["place"].endswith("Nothing")


def test_variables_of_all_observers_reach_the_launch_and_those_of_the_user_win() -> None:
    observers, _ = told(
        telemetry=Noting(variables={"A": "1", "B": "1", "C": "1"}), budget=Noting(variables={"B": "2", "C": "2"})
    )
    assert observers.options_with_variables(Options(env={"C": "3"})).env == {"A": "1", "B": "2", "C": "3"}
    options = Options()
    assert told(telemetry=Noting())[0].options_with_variables(options) is options


@pytest.mark.parametrize(
    "name", ["prompt_sending", "launching", "launched", "callback_started", "callback_ended", "ended", "turn_changed"]
)
@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit])
def test_an_observer_that_raises_is_a_warning_and_the_others_are_told(name: str, error: type[BaseException]) -> None:
    broken, whole = Noting(name, error=error, variables={"A": "1"}), Noting(variables={"B": "2"})
    observers, warnings = told(telemetry=broken, budget=whole)
    observers.prompt_sending("t", "hi")
    assert observers.options_with_variables(Options()).env == (
        {"B": "2"} if name == "launching" else {"A": "1", "B": "2"}
    )
    observers.launched()
    observers.callback_started(called(CallbackCall("r", "hook")))
    observers.callback_ended("r", CallbackEnd("answered", {}, ""))
    observers.turn_changed("t", "completed", None)
    observers.ended(None, 0)
    assert broken.names() == whole.names()
    (warning,) = warnings
    assert (warning.code, warning.context["kind"]) == ("CALLBACK_FAILED", "telemetry")
    assert warning.context["callback"] == f"`telemetry` (`{name}`)"
    assert "observing.py:" in warning.context["place"]
    assert isinstance(warning.exception, error)


def test_ctrl_c_in_an_observer_is_raised() -> None:
    observers, warnings = told(telemetry=Noting("launched", error=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        observers.launched()
    assert not warnings


def test_an_observer_may_refuse_a_prompt() -> None:
    first, refusing, last = Noting(), Noting("prompt_sending", error=HackamoreError), Noting()
    observers, warnings = told(one=first, two=refusing, three=last)
    with pytest.raises(HackamoreError, match="prompt_sending") as refused:
        observers.prompt_sending("t", "hi")
    assert first.heard[0] == ("prompt_sending", "t", "hi")
    for notes in (first, refusing, last):
        assert notes.heard[-1] == ("turn_changed", "t", "failed", refused.value)
    assert last.names() == ["turn_changed"]
    observers.ended(None, 0)
    assert warnings == []
    assert last.names() == ["turn_changed", "ended"]


def test_the_end_closes_what_is_open_once() -> None:
    notes = Noting()
    observers, _ = told(telemetry=notes)
    error = HackamoreError("over")
    for turn_id in ("done", "started", "open"):
        observers.prompt_sending(turn_id, "hi")
    observers.turn_changed("started", "started", None)
    observers.turn_changed("done", "completed", None)
    observers.callback_started(called(CallbackCall("r", "hook")))
    notes.heard.clear()
    observers.ended(error, 7)
    observers.ended(None, 0)
    (callback, *turns, last) = notes.heard
    assert callback[0] == "callback_ended"
    assert callback[2] == CallbackEnd("cancelled", None, "")
    assert sorted(turns) == [("turn_changed", "open", "failed", error), ("turn_changed", "started", "failed", error)]
    assert last == ("ended", error, 7)


def test_the_end_without_an_error_interrupts_open_turns() -> None:
    notes = Noting()
    observers, _ = told(telemetry=notes)
    observers.prompt_sending("t", "hi")
    observers.ended(None, None)
    assert notes.heard[1:] == [("turn_changed", "t", "interrupted", None), ("ended", None, None)]


def test_observers_prepare_the_context_of_a_callback() -> None:
    first, second, third = Noting(), Noting(), Noting("callback_started")
    observers, warnings = told(one=first, two=second, three=third)
    ran: list[str] = []
    first.enter = lambda: ran.append("first")
    third.enter = lambda: ran.append("never")

    def call() -> str:
        ran.append("call")
        return "outcome"

    about = CallbackCall("r", "mcp", "n", "e", "t", "u", {"a": 1}, "block")
    job = observers.callback_started(called(about, call))
    assert first.heard[0][1] is about
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
    assert first.heard[1:] == [("callback_ended", first.heard[0][1], end)]
    plain = called(CallbackCall("q", "mcp"))
    assert told(one=Noting())[0].callback_started(plain) is plain


# -- of a session ------------------------------------------------------------------------------------------------------


def test_a_session_tells_its_observers_what_happens() -> None:
    session, notes, observer = watched(model="m", hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})
    core = session.core
    assert (observer.subject.kind, observer.subject.model, observer.subject.session_id) == ("session", "m", None)
    assert notes.names() == ["ready"]
    notes.heard.clear()
    turn = session.send()
    session.take(
        {"type": "command_lifecycle", "command_uuid": turn.id, "state": "started"}, {**TEXT, "session_id": "s"}
    )
    assert observer.subject.session_id == "s"
    answer = core.requests.ask("mcp_status", {}, "servers", None, session.now)
    core.connection.expire(answer.request_id, 1.0)
    core.pump(session.now)
    session.take({"type": "control_request", "request_id": "r1", "request": {**HOOK, "tool_use_id": "u"}})
    (job,) = core.callbacks.take()
    core.callback_ended(job, {"decision": "block"}, None, session.now)
    session.take({**RESULT, "user_message_uuids": [turn.id]})
    core.process_gone(0, b"")
    core.pump(session.now)
    assert [entry for entry in notes.heard if entry[0] in ("prompt_sending", "turn_changed")] == [
        ("prompt_sending", turn.id, "hello"),
        ("turn_changed", turn.id, "started", None),
        ("turn_changed", turn.id, "completed", None),
    ]
    assert ("messages_received", ["assistant"], (turn.id,)) in notes.heard
    assert ("messages_received", ["result"], (turn.id,)) in notes.heard
    assert ("request_sent", answer.request_id, "servers") in notes.heard
    assert ("request_ended", answer.request_id, answer.error) in notes.heard
    (started,) = [entry[1] for entry in notes.heard if entry[0] == "callback_started"]
    assert (started.id, started.kind, started.event, started.tool, started.tool_use_id) == (
        "r1",
        "hook",
        "PreToolUse",
        "Bash",
        "u",
    )
    assert started.name == job.callee.name
    assert started.request.tool_name == "Bash"
    (ended,) = [entry[2] for entry in notes.heard if entry[0] == "callback_ended"]
    assert (ended.how, ended.answer["decision"], ended.reason, ended.decision) == ("answered", "block", "", "block")
    assert notes.heard[-1] == ("ended", None, 0)


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
    session.core.callbacks.expire(permission.about.id, 3.0)
    assert "callback_ended" not in notes.names()  # the answers are still to be written
    session.core.was_written()
    calls = {entry[1].id: entry[1] for entry in notes.heard if entry[0] == "callback_started"}
    assert (calls["r2"].kind, calls["r2"].tool, calls["r2"].tool_use_id) == ("permission", "Bash", "u")
    assert calls["r2"].request.input == {"command": "ls"}
    ends = {entry[1].id: entry[2] for entry in notes.heard if entry[0] == "callback_ended"}
    assert {name: end.how for name, end in ends.items()} == {"r1": "failed", "r2": "failed", "r3": "cancelled"}
    assert "ValueError: bad" in ends["r1"].reason
    assert ends["r2"].answer["behavior"] == "deny"
    assert ends["r3"] == CallbackEnd("cancelled", None, "")


def test_a_dialog_that_fails_reports_the_answer_that_was_sent() -> None:
    session, notes, _ = watched(on_elicitation=lambda asked: None)
    request = {"subtype": "elicitation", "mcp_server_name": "s", "message": "which one?"}
    session.take({"type": "control_request", "request_id": "r", "request": request})
    (job,) = session.core.callbacks.take()
    session.core.callback_ended(job, None, ValueError("bad"), session.now)
    session.core.was_written()
    ((_, end),) = notes.of("callback_ended")
    assert (end.how, end.answer) == ("failed", {"action": "decline"})


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"result": {"content": []}}, "answered"),
        ({"result": {"content": [], "isError": True}}, "failed"),
        ({"error": {"code": -32602, "message": "no such tool"}}, "failed"),
    ],
)
def test_a_call_that_a_server_refuses_has_failed(answer: dict[str, Any], decision: str) -> None:
    session, notes, _ = watched(mcp_servers={"s": lambda message: {"jsonrpc": "2.0", "id": message["id"], **answer}})
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look"}}
    request = {"subtype": "mcp_message", "server_name": "s", "message": message}
    session.take({"type": "control_request", "request_id": "r", "request": request})
    (job,) = session.core.callbacks.take()
    session.core.callback_ended(job, job.call(), None, session.now)
    session.core.was_written()
    ((call, end),) = notes.of("callback_ended")
    assert (call.tool, end.how, end.decision) == ("mcp__s__look", "answered", decision)


def test_a_hook_without_a_tool_says_so() -> None:
    session, notes, _ = watched(hooks={"Stop": [HookMatcher(hooks=[lambda *_: None])]})
    asked = {"subtype": "hook_callback", "callback_id": "hook_0", "input": {"hook_event_name": "Stop"}}
    session.take({"type": "control_request", "request_id": "r", "request": asked})
    ((call,),) = notes.of("callback_started")
    assert (call.event, call.tool) == ("Stop", "")


def test_an_observed_prompt_keeps_its_fields() -> None:
    session, _, _ = watched(verbatim_prompts=True)
    session.core.connection.data_to_send()
    session.core.send("hi", {"priority": "now"}, session.now)
    frame = json.loads(session.core.connection.data_to_send())
    assert (frame["client_composed"], frame["priority"]) == (True, "now")


def test_a_prompt_that_cannot_be_sent_is_a_failed_turn() -> None:
    session, notes, _ = watched()
    with pytest.raises(ValueError, match="half a character"):
        session.core.send("\ud800", None, session.now)
    first, second = notes.heard[-2:]
    assert first[0] == "prompt_sending"
    assert second == ("turn_changed", first[1], "failed", None)
    session.core.stop.begin(session.now)
    with pytest.raises(HackamoreError):
        session.core.send("late", None, session.now)
    assert notes.names().count("prompt_sending") == 1


def test_an_observer_may_warn_and_end_a_turn_of_a_session() -> None:
    session, _, observer = watched(timeouts=dict.fromkeys(TURN_KINDS, 50.0))
    observer.subject.warn("SLOW_CONSUMER", "look", fact=1)
    (warning,) = session.core.warnings.kept
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


def written(session: Clocked) -> list[dict[str, Any]]:
    """Return the requests that were written, each with its id."""
    frames = [json.loads(line) for line in session.core.connection.data_to_send().splitlines()]
    return [{"id": frame["request_id"], **frame["request"]} for frame in frames]


def test_an_observer_ends_work_that_no_prompt_started() -> None:
    session, notes, observer = watched(limits=Limits(pending_requests=1))
    kinds = {"a": "local_agent", "b": "local_bash", "c": "remote_agent"}
    tasks = [{"task_id": name, "task_type": kind} for name, kind in kinds.items()]
    session.take({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})
    asked = session.core.requests.ask("mcp_status", {}, "mcp_status", None, session.now)  # the limit is reached
    session.core.connection.data_to_send()
    observer.subject.end_turn(None, TurnTimeoutError("turn", 1.0))
    interrupt, *stops = written(session)
    assert interrupt["subtype"] == "interrupt"
    assert [(stop["subtype"], stop["task_id"]) for stop in stops] == [("stop_task", "a"), ("stop_task", "c")]
    for each in (interrupt, *stops):
        session.take({"type": "control_response", "response": {"subtype": "success", "request_id": each["id"]}})
    assert "request_ended" not in notes.names()  # these requests are not operations of the user
    assert not asked.flag.is_set
    assert not session.core.connection.state.over


def test_the_interrupt_of_a_stop_is_not_an_operation_of_the_user() -> None:
    session, notes, _ = watched()
    turn = session.send()
    session.take({"type": "command_lifecycle", "command_uuid": turn.id, "state": "started"}, RUNNING)
    session.core.connection.data_to_send()
    session.core.stop.begin(session.now)
    (interrupt,) = written(session)
    session.take({"type": "control_response", "response": {"subtype": "success", "request_id": interrupt["id"]}})
    assert "request_ended" not in notes.names()


@pytest.mark.parametrize("audience", [None, SteeredQuery])
@pytest.mark.parametrize("how", ["asked to stop", "over"])
def test_nothing_is_ended_in_a_session_or_query_that_ends(how: str, audience: Any) -> None:
    session, _, observer = watched(audience)
    if how == "over":
        session.core.lost("gone", session.now)
    else:
        session.core.stop.ask()
    session.core.connection.data_to_send()
    before = session.core.connection.state.terminal_error
    observer.subject.end_turn(None, TurnTimeoutError("turn", 1.0))
    session.core.pump(session.now)
    assert session.core.connection.data_to_send() == b""
    assert session.core.connection.state.terminal_error is before


def test_an_observer_ends_work_of_a_query_that_no_prompt_started() -> None:
    session, _, observer = watched(SteeredQuery)
    session.core.audience.send_all("hello", session.now)  # type: ignore[attr-defined]
    error = TurnTimeoutError("turn", 1.0)
    observer.subject.end_turn(None, error)
    session.core.pump(session.now)
    assert session.core.connection.state.terminal_error is error


def test_an_observer_ends_a_query() -> None:
    session, notes, observer = watched(SteeredQuery)
    assert observer.subject.kind == "query"
    session.core.audience.send_all("hello", session.now)  # type: ignore[attr-defined]
    turn_id = notes.heard[-1][1]
    error = TurnTimeoutError("turn", 1.0)
    observer.subject.end_turn(turn_id, error)
    session.core.pump(session.now)
    assert session.core.connection.state.terminal_error is error
    assert notes.heard[-1] == ("ended", error, None)


# -- of a query over the one-way launch --------------------------------------------------------------------------------


def one_way(**more: Any) -> tuple[PlainQuery, Noting, Observer]:
    notes = Noting(variables={"A": "1"})
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
    assert notes.heard == [
        ("prompt_sending", ONE_TURN, "hi"),
        ("launching",),
        ("launched",),
        ("messages_received", ["result"], (ONE_TURN,)),
        ("turn_changed", ONE_TURN, "completed", None),
        ("ended", None, 0),
    ]
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
    assert notes.heard[-1] == ("ended", error, None)
    assert ("turn_changed", ONE_TURN, "failed", error) in notes.heard


def test_a_one_way_query_whose_result_is_an_error_is_a_failed_turn() -> None:
    query, notes, _ = one_way()
    query.observed("hi", Options())
    query.begin(0.0)
    query.receive_data(json.dumps({**RESULT, "is_error": True}).encode() + b"\n", 1.0)
    query.receive_eof(2.0)
    query.process_exited(1, b"")
    assert notes.heard[-2:] == [("turn_changed", ONE_TURN, "failed", None), ("ended", None, 1)]


def test_an_observer_of_a_one_way_query_that_raises_is_a_warning() -> None:
    query = PlainQuery(Options(telemetry=Observer(Noting("launched"))))
    query.begin(0.0)
    (warning,) = query.core.items
    assert isinstance(warning, StreamWarning)
    assert warning.code == "CALLBACK_FAILED"


def test_an_end_from_inside_a_report_needs_no_wake() -> None:
    query, notes, observer = one_way()
    woken: list[str] = []
    query.wake = lambda: woken.append("woken")
    error = TurnTimeoutError("turn", 1.0)
    notes.at = {"messages_received": lambda: observer.subject.end_turn(ONE_TURN, error)}
    query.begin(0.0)
    query.receive_data(json.dumps(TEXT).encode() + b"\n", 1.0)
    assert query.core.terminal_error is error
    assert woken == []
    other, _, observer = one_way()
    other.wake = lambda: woken.append("woken")
    other.begin(0.0)
    observer.subject.end_turn(ONE_TURN, error)
    assert woken == ["woken"]
    assert not other.core.over
