"""The core of a session by itself: checks, limits, timeouts, stops, events and logs. No process and no shell."""

from __future__ import annotations

import contextvars
import gc
import json
import logging
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server.lowlevel import Server

from hackamore import (
    CheckpointingNotEnabledError,
    ControlError,
    ControlTimeoutError,
    HookMatcher,
    InitializationError,
    InitializationTimeoutError,
    Limits,
    NotSupportedError,
    Options,
    OptionsError,
    Policy,
    SessionClosedError,
    SessionNotStartedError,
    SlowConsumerError,
    StreamWarning,
    Timeouts,
    TurnTimeoutError,
    tool_server,
)
from hackamore._engine.launch import build_plan
from hackamore._engine.protocol.deadlines import EXIT_SECONDS
from hackamore._engine.protocol.events import BadLine
from hackamore._engine.protocol.states.session import SessionState, TurnState
from hackamore._engine.session.core import (
    SessionBase,
    SessionCore,
    checked_content,
    driver_error,
    prompt_fields,
    sent_servers,
)
from hackamore._engine.session.events import (
    ActivityChanged,
    BackgroundTasksChanged,
    SessionCompleted,
    SessionEvent,
    SessionFailed,
    SessionStarted,
    SessionStopped,
    TurnCompleted,
    TurnStarted,
    WarningRaised,
)
from hackamore._engine.session.readers import Inbox, Progress, Readers, TurnBase, size_of
from hackamore._engine.session.steering import SteeredQuery
from hackamore._engine.session.users import Answer
from hackamore.runtime.flags import Flag
from tests.session.test_deadlines import HOOK, IDLE, RESULT, RUNNING, TASK_ENDED, TEXT, Clocked

TASKS = {
    "type": "system",
    "subtype": "background_tasks_changed",
    "tasks": [{"task_id": "t", "task_type": "local_bash"}],
}


class Woken:
    """An event that counts how often it is set."""

    def __init__(self) -> None:
        self.times = 0

    def set(self) -> None:
        self.times += 1


def listening(**options: Any) -> tuple[Clocked, Inbox, Inbox]:
    """Return a ready session with a cursor over its messages and one over its events."""
    session = Clocked(**options)
    messages, events = Inbox(), Inbox()
    session.core.audience.add(messages, events=False)
    session.core.audience.add(events, events=True)
    return session, messages, events


def started(turn_id: str) -> dict[str, Any]:
    return {"type": "command_lifecycle", "command_uuid": turn_id, "state": "started"}


# -- checks ------------------------------------------------------------------------------------------------------------


def test_content_is_text_or_blocks() -> None:
    blocks = ({"type": "text", "text": "hi"},)
    assert checked_content("hi") == "hi"
    assert checked_content(blocks) == [*blocks]
    with pytest.raises(TypeError) as refused:
        checked_content(5)
    assert str(refused.value) == "`prompt` must be a str or a list of content blocks, not int"
    with pytest.raises(TypeError, match=r"not Options; options are given as `options=`$"):
        checked_content(Options())


def test_fields_of_a_prompt() -> None:
    assert prompt_fields(None, None) == {}
    assert prompt_fields("now", {"x": 1}) == {"x": 1, "priority": "now"}
    with pytest.raises(ValueError, match=r"`priority` must be 'now', 'next', 'later' or None, got 'soon'$"):
        prompt_fields("soon", None)
    for extra in ([("x", 1)], {1: "x"}):
        with pytest.raises(TypeError, match=f"`extra` must be a dict with str keys, not {type(extra).__name__}$"):
            prompt_fields(None, extra)
    for name in ("type", "message", "uuid", "priority"):
        with pytest.raises(ValueError, match=f"`extra` must not contain '{name}': Hackamore sets this field"):
            prompt_fields(None, {"a": 1, name: "x"})


def test_options_have_to_be_options() -> None:
    wrong: Any = {"model": "x"}
    with pytest.raises(TypeError, match=r"`options` must be a hackamore.Options, not dict$"):
        SessionCore(wrong, lambda _: None, Readers)


def test_the_place_of_the_caller_is_kept() -> None:
    core: SessionCore[Readers] = SessionCore(None, lambda _: None, Readers)
    assert core.created_at.rpartition(":")[0] == "test_core.py"
    assert core.options == Options()


def test_verbatim_prompts_say_so_on_the_wire() -> None:
    session = Clocked(verbatim_prompts=True)
    session.core.connection.data_to_send()
    session.core.send("hi", {"priority": "now"}, session.now)
    sent = session.core.connection.data_to_send()
    assert b'"client_composed":true' in sent
    assert b'"priority":"now"' in sent


def test_an_error_of_the_driver_ends_the_session_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    own = SlowConsumerError(2, 1)
    assert driver_error(own) is own
    assert not caplog.records
    error = driver_error(ValueError("bad"))
    assert isinstance(error, SessionClosedError)
    assert not error.expected
    assert "ValueError: bad" in str(error)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("hackamore", "ERROR")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


# -- operations --------------------------------------------------------------------------------------------------------


def test_rewinding_needs_checkpoints_and_has_its_own_timeout() -> None:
    session = Clocked(timeouts={"control": 7.0, "rewind": 9.0})
    with pytest.raises(CheckpointingNotEnabledError):
        session.core.requests.ask("rewind_files", {"user_message_id": "u"}, "rewind_files", None, session.now)
    session = Clocked(enable_file_checkpointing=True, timeouts={"control": 7.0, "rewind": 9.0})
    core = session.core
    rewind = core.requests.ask("rewind_files", {"user_message_id": "u"}, "rewind_files", None, session.now)
    status = core.requests.ask("mcp_status", {}, "mcp_status", None, session.now)
    chosen = core.requests.ask("mcp_status", {}, "mcp_status", 3.0, session.now)
    assert [core.requests.deadline_of(answer) for answer in (rewind, status, chosen)] == [9.0, 7.0, 3.0]


def test_an_operation_ends_by_its_answer_its_timeout_or_its_caller() -> None:
    session = Clocked(timeouts={"control": 7.0})
    core = session.core
    answered, late, dropped = (core.requests.ask("mcp_status", {}, "mcp_status", None, session.now) for _ in range(3))
    response = {"subtype": "success", "request_id": answered.request_id, "response": {"mcpServers": []}}
    session.take({"type": "control_response", "response": response})
    assert answered.flag.is_set
    assert answered.error is None
    assert core.requests.deadline_of(answered) is None
    core.requests.give_up(dropped)
    assert core.requests.deadline_of(dropped) is None
    session.pass_by(6.9)
    assert not late.flag.is_set
    session.pass_by(0.2)
    assert late.flag.is_set
    assert not dropped.flag.is_set
    with pytest.raises(ControlError):
        late.take()
    assert late.error is None


def test_an_operation_that_its_caller_gives_up_is_not_open() -> None:
    session = Clocked()
    core = session.core
    answer = core.requests.ask("mcp_status", {}, "mcp_status", None, session.now)
    assert answer.request_id in core.requests
    core.requests.give_up(answer)
    core.requests.give_up(answer)  # as a caller does whose answer came at the same moment
    assert answer.request_id not in core.requests
    response = {"subtype": "success", "request_id": answer.request_id, "response": {"mcpServers": []}}
    session.take({"type": "control_response", "response": response})
    assert answer.result is None


def test_operations_fail_when_the_session_ends() -> None:
    session = Clocked()
    answer = session.core.requests.ask("mcp_status", {}, "mcp_status", None, session.now)
    session.core.lost("the loop is gone", session.now)
    assert answer.flag.is_set
    with pytest.raises(SessionClosedError, match="the loop is gone"):
        answer.take()
    assert not len(session.core.deadlines)


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_warnings_are_kept_told_once_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    told: list[StreamWarning] = []
    session, _, events = listening(on_warning=told.append)
    core = session.core
    before = StreamWarning("SLOW_CONSUMER", "before", {})
    assert not core.warnings.waiting
    core.warnings.add_before_start(before)
    core.warnings.add("INCOMPLETE_LAST_LINE", "later", line=b"x")
    assert core.warnings.waiting
    assert core.needs_driver
    assert not told
    core.warnings.deliver()
    assert not core.warnings.waiting
    assert not core.needs_driver
    assert [*core.warnings.kept] == told
    assert [(warning.code, warning.message, warning.context) for warning in told] == [
        ("SLOW_CONSUMER", "before", {}),
        ("INCOMPLETE_LAST_LINE", "later", {"line": b"x"}),
    ]
    assert [event.warning for event in events.items] == told
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.DEBUG, str(before)),
        (logging.WARNING, str(told[1])),
    ]
    assert [getattr(record, "code", None) for record in caplog.records] == ["SLOW_CONSUMER", "INCOMPLETE_LAST_LINE"]


def test_on_warning_that_raises_is_one_more_warning(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: StreamWarning) -> None:
        raise ValueError("bad")

    session = Clocked(on_warning=broken)
    session.take({**TEXT, "session_id": "s"})
    session.core.warnings.add("INCOMPLETE_LAST_LINE", "w")
    session.core.warnings.deliver()
    first, second = session.core.warnings.kept
    assert (first.code, second.code) == ("INCOMPLETE_LAST_LINE", "CALLBACK_FAILED")
    assert (second.context["kind"], second.context["callback"]) == ("on_warning", "`on_warning`")
    assert "ValueError" in str(second)
    assert {getattr(record, "session_id", "missing") for record in caplog.records} == {"s"}
    assert not session.core.warnings.waiting


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["output", "input"])
def test_a_cli_that_closes_one_end_and_stays_is_given_up(closed: str) -> None:
    session, messages, events = listening()
    core = session.core
    (core.output_ended if closed == "output" else core.input_broke)(session.now)
    session.pass_by(EXIT_SECONDS - 0.1)
    assert not core.connection.state.over
    session.pass_by(0.2)
    error = core.connection.state.terminal_error
    assert isinstance(error, SessionClosedError)
    assert not error.expected
    assert f"the CLI closed its {closed} and did not exit within 5 s" in str(error)
    assert isinstance(events.items[-1], SessionFailed)
    assert events.items[-1].reason is error or str(events.items[-1].reason) == str(error)
    assert messages.over
    assert events.error is None
    copies = messages.the_error(), messages.the_error()
    assert isinstance(copies[0], SessionClosedError)
    assert copies[0] is not copies[1]


def test_a_broken_input_counts_once_and_not_while_stopping() -> None:
    session = Clocked()
    session.core.input_broke(session.now)
    session.pass_by(3)
    session.core.input_broke(session.now)
    session.pass_by(2.1)
    assert session.core.connection.state.over
    stopping = Clocked()
    stopping.core.stop.ask()
    stopping.core.input_broke(stopping.now)
    stopping.pass_by(10)
    assert not stopping.core.connection.state.over


def test_a_stop_of_an_idle_session_may_end_immediately() -> None:
    session = Clocked()
    core = session.core
    assert not core.stop.may_end
    assert not core.stop.asked
    core.stop.ask()
    assert core.stop.asked
    assert core.needs_driver
    assert not core.stop.abandoned
    core.stop.begin(session.now)
    assert core.connection.state.lifecycle is SessionState.STOPPING
    assert core.stop.may_end
    assert not core.turn_open
    assert core.stop.seconds == 2.0
    assert not core.stop.closes_input


def test_a_stop_interrupts_an_open_turn_and_waits_two_seconds() -> None:
    session = Clocked()
    core = session.core
    turn = core.send("hi", None, session.now)
    session.take(started(turn.id), RUNNING)
    core.connection.data_to_send()
    core.stop.begin(session.now)
    core.stop.begin(session.now)
    assert core.connection.data_to_send().count(b'"subtype":"interrupt"') == 1
    assert core.turn_open
    session.pass_by(1.9)
    assert not core.stop.may_end
    session.pass_by(0.2)
    assert core.stop.may_end


@pytest.mark.parametrize("waiting", [False, True])
def test_a_stop_cancels_prompts_that_wait_behind_the_turn(waiting: bool) -> None:
    session = Clocked()
    turn = session.send()
    session.take(started(turn.id), RUNNING)
    if waiting:
        session.send()
    session.core.connection.data_to_send()
    session.core.stop.begin(session.now)
    (interrupt,) = [json.loads(line)["request"] for line in session.core.connection.data_to_send().splitlines()]
    assert interrupt == {"subtype": "interrupt", **({"cancel_queued": True} if waiting else {})}


@pytest.mark.parametrize("cancel", [False, True])
def test_an_interrupt_of_all_cancels_prompts_that_wait_on_request(cancel: bool) -> None:
    session = Clocked()
    session.core.connection.data_to_send()
    session.core.interrupt_all(cancel_queued=cancel)
    (interrupt,) = [json.loads(line)["request"] for line in session.core.connection.data_to_send().splitlines()]
    assert interrupt == {"subtype": "interrupt", **({"cancel_queued": True} if cancel else {})}


def test_a_stop_does_not_wait_for_a_turn_that_it_cannot_interrupt() -> None:
    session = Clocked()
    session.send()
    session.core.connection.outbox.close_input()
    session.core.input_closed(session.now)
    session.core.stop.begin(session.now)
    assert session.core.stop.may_end


def test_an_abandoned_session_stays_abandoned_and_writes_nothing() -> None:
    session = Clocked()
    core = session.core
    core.send("hi", None, session.now)
    core.stop.ask(abandon=True)
    core.stop.ask()
    assert core.stop.abandoned
    assert core.stop.may_end
    assert core.turn_open
    core.connection.data_to_send()
    core.stop.begin(session.now)
    assert b"interrupt" not in core.connection.data_to_send()


@pytest.mark.parametrize(
    ("code", "frame", "crash"),
    [
        (0, RESULT, False),
        (1, RESULT, True),
        (None, RESULT, True),
        (1, {**RESULT, "is_error": True}, False),
        (-9, {**RESULT, "is_error": True}, True),
        (0, None, False),
        (1, None, True),
    ],
)
def test_an_exit_with_an_error_is_a_crash_unless_the_result_was_one(
    code: int | None, frame: dict[str, Any] | None, crash: bool
) -> None:
    session = Clocked()
    if frame is not None:
        session.take(frame)
    assert session.core.crashed(code) is crash
    assert session.core.ends_well(code) is not crash
    session.send()
    assert session.core.crashed(code)
    session.core.stop.ask()
    assert session.core.ends_well(code)
    session.core.lost("gone", session.now)
    assert not session.core.ends_well(code)


@pytest.mark.parametrize(
    ("stop", "code", "kind"), [(False, 0, SessionCompleted), (True, 7, SessionStopped), (False, 7, SessionFailed)]
)
def test_the_last_event_has_the_ending_and_the_exit_code(stop: bool, code: int, kind: type[Any]) -> None:
    session, messages, events = listening()
    core = session.core
    waiter = Woken()
    core.settled.waiters.append(waiter)
    if stop:
        core.stop.begin(session.now)
    core.process_gone(code, b"")
    core.pump(session.now)
    (last,) = [event for event in events.items if not isinstance(event, WarningRaised)]
    assert isinstance(last, kind)
    assert last.exit_code == code
    assert (messages.error is not None) == (kind is SessionFailed)
    assert waiter.times == 1
    late = Inbox()
    core.audience.add(late, events=False)
    assert late.over
    assert (late.error is not None) == (kind is SessionFailed)
    late_events = Inbox()
    core.audience.add(late_events, events=True)
    assert late_events.over
    assert late_events.error is None


def test_a_cli_that_stays_after_its_input_was_closed_is_stopped_with_a_warning() -> None:
    session = Clocked(timeouts={"after_result": 4.0})
    core = session.core
    session.take(TASKS)
    core.input_closed(session.now)
    session.pass_by(3.9)
    assert not core.stop.asked
    session.pass_by(0.2)
    assert core.stop.asked
    (warning,) = core.warnings.kept
    assert warning.code == "CLI_DID_NOT_EXIT"
    assert warning.context == {"seconds": 4.0, "background_tasks": ["t"]}


# -- readers -----------------------------------------------------------------------------------------------------------


def test_events_come_in_the_order_of_the_wire() -> None:
    session, messages, events = listening()
    core = session.core
    turn = core.send("hi", None, session.now)
    session.take(started(turn.id), RUNNING, TASKS, TEXT, {**RESULT, "user_message_uuids": [turn.id]}, IDLE)
    found: list[SessionEvent] = [*events.items]
    assert [type(event) for event in found if not isinstance(event, (ActivityChanged, BackgroundTasksChanged))] == [
        TurnStarted,
        TurnCompleted,
    ]
    assert [event.turn_id for event in found if isinstance(event, (TurnStarted, TurnCompleted))] == [turn.id, turn.id]
    assert [event.state for event in found if isinstance(event, TurnCompleted)] == [TurnState.COMPLETED]
    assert [str(event.activity) for event in found if isinstance(event, ActivityChanged)] == ["running", "idle"]
    assert [[task.task_id for task in event.tasks] for event in found if isinstance(event, BackgroundTasksChanged)] == [
        ["t"]
    ]
    assert turn.result is not None
    assert turn.over.is_set
    assert turn.inbox.over
    assert turn.inbox.error is None
    assert [message.type for message in messages.items][-3:] != []
    assert turn.result in messages.items


@pytest.mark.parametrize("kind", SessionEvent.__subclasses__())
def test_events_do_not_change(kind: Any) -> None:
    assert kind.__struct_config__.frozen


def test_the_size_of_an_event_is_about_its_memory() -> None:
    session, messages, events = listening()
    session.take(TEXT, RUNNING, TASKS)
    (text,) = [item for item in messages.items if item.type == "assistant"]
    assert size_of(text) == len(text.raw) > 0
    sizes = {type(event): size_of(event) for event in events.items}
    assert sizes == {ActivityChanged: 250, BackgroundTasksChanged: 500}
    assert size_of(WarningRaised(StreamWarning("SLOW_CONSUMER", "x" * 30, {}))) == 280
    assert size_of(object()) == 0


def test_an_inbox_counts_its_bytes_and_keeps_the_first_end() -> None:
    session, messages, _ = listening()
    session.take(TEXT, TEXT)
    size = len(messages.items[0].raw)
    assert (messages.size, messages.added) == (2 * size, 2 * size)
    assert session.core.audience.progress() == (2 * size, 0)
    messages.take()
    assert (messages.size, messages.added) == (size, 2 * size)
    assert session.core.audience.progress() == (size, size)
    first = SessionClosedError(expected=True, reason="over")
    messages.end(first)
    messages.end(None)
    messages.add(["late"], 1)
    assert messages.error is first
    assert len(messages.items) == 1
    messages.clear()
    assert (messages.take(), messages.size) == (None, 0)
    assert Inbox().the_error() is None


def test_an_inbox_that_skips_keeps_nothing_until_it_does_not() -> None:
    inbox = Inbox()
    inbox.add(["a"], 1)
    inbox.skip(True)
    inbox.add(["b"], 1)
    assert (len(inbox.items), inbox.size, inbox.added) == (0, 0, 1)
    inbox.skip(False)
    inbox.add(["c"], 1)
    assert (list(inbox.items), inbox.size, inbox.added) == (["c"], 1, 2)


def test_a_flag_wakes_each_waiter_once() -> None:
    flag, first, second = Flag(), Woken(), Woken()
    flag.waiters += [first, second]
    flag.leave(second)
    flag.leave(second)
    flag.wake()
    assert (flag.is_set, flag.wakes, first.times, second.times) == (False, 1, 1, 0)
    flag.waiters.append(second)
    flag.set()
    assert (flag.is_set, flag.wakes, first.times, second.times) == (True, 2, 1, 1)
    assert Answer("r").flag.is_set is False


def test_unread_messages_warn_at_half_of_the_limit_and_fail_beyond_it() -> None:
    line = {**TEXT, "message": {"role": "assistant", "content": [{"type": "text", "text": "x" * 930}]}}
    session, messages, _ = listening(limits=Limits(buffered_bytes=10_000, line_bytes=2_000))
    core = session.core

    def codes() -> list[str]:
        return [warning.code for warning in core.warnings.kept]

    session.take(line)
    size = messages.size
    assert 1_000 < size < 1_100
    session.take(*[line] * 3)
    assert codes() == []
    session.take(line)
    assert codes() == ["SLOW_CONSUMER"]
    (warning,) = core.warnings.kept
    assert warning.context["limit"] == 10_000
    assert 5 * size <= warning.context["buffered"] < 6 * size
    session.take(line)
    assert codes() == ["SLOW_CONSUMER"]
    for _ in range(3):
        messages.take()  # half is unread: no new warning before it was less than a quarter
    session.take(line, line)
    assert codes() == ["SLOW_CONSUMER"]
    while messages.take() is not None:
        pass
    session.take(line)
    session.take(*[line] * 4)
    assert codes() == ["SLOW_CONSUMER", "SLOW_CONSUMER"]
    assert not core.connection.state.over
    session.take(*[line] * 6)
    error = core.connection.state.terminal_error
    assert isinstance(error, SlowConsumerError)
    assert f"{10_000:,}" in str(error) or "10000" in str(error)


def test_half_of_the_limit_and_the_limit_itself_are_allowed() -> None:
    line = {**TEXT, "uuid": "x" * 900}
    size = len(json.dumps(line))
    session, messages = Clocked(limits=Limits(buffered_bytes=4 * size, line_bytes=2 * size)), Inbox()
    session.core.audience.add(messages, events=False)
    session.take(line, line)
    assert not session.core.warnings.kept
    session.take(line)
    (warning,) = session.core.warnings.kept
    assert warning.message == (
        f"{3 * size:,} bytes of unread messages and open requests are held; at {4 * size:,} the session fails."
    )
    session.take(line)
    assert not session.core.connection.state.over
    for _ in range(4):
        messages.take()
    session.take(line)  # a quarter is not less than a quarter: this is the same time of slowness
    session.take(line, line)
    assert len(session.core.warnings.kept) == 1
    session.take(line, line)
    error = session.core.connection.state.terminal_error
    assert isinstance(error, SlowConsumerError)
    assert (error.buffered, error.limit) == (5 * size, 4 * size)


def test_half_of_the_limit_is_allowed_to_a_reader_that_has_read_some() -> None:
    line = {**TEXT, "uuid": "x" * 900}
    size = len(json.dumps(line))
    session, messages, _ = listening(limits=Limits(buffered_bytes=4 * size, line_bytes=2 * size))
    session.take(line, line)
    messages.take()
    session.take(line)
    assert messages.size == 2 * size
    assert not session.core.warnings.kept


def test_a_reader_that_was_slow_and_reads_everything_later_is_warned_about_again() -> None:
    line = {**TEXT, "uuid": "x" * 900}
    size = len(json.dumps(line))
    session, messages, _ = listening(limits=Limits(buffered_bytes=8 * size, line_bytes=2 * size))
    session.take(*[line] * 5)
    for _ in range(3):
        messages.take()
    session.take(line)  # less than half is left, but more than a quarter
    while messages.take() is not None:
        pass
    session.take(line)
    assert len(session.core.warnings.kept) == 1
    session.take(*[line] * 4)
    assert len(session.core.warnings.kept) == 2


def test_unread_messages_of_turns_count_as_well() -> None:
    line = {**TEXT, "uuid": "x" * 900}
    size = len(json.dumps(line))
    session = Clocked(limits=Limits(buffered_bytes=4 * size, line_bytes=2 * size))
    turn = session.send()
    session.take(started(turn.id))
    session.take(line, line, line)
    assert [warning.code for warning in session.core.warnings.kept] == ["SLOW_CONSUMER"]
    session.take(line, line)
    assert isinstance(session.core.connection.state.terminal_error, SlowConsumerError)


def test_what_unread_turns_hold_is_not_counted_again() -> None:
    session = Clocked(limits=Limits(buffered_bytes=100_000, line_bytes=2_000))
    message: Any = SimpleNamespace(raw=b"x" * 1_000)
    turns: list[Progress] = []

    def unread(count: int) -> None:
        for _ in range(count):
            turns.append(Progress(f"turn {len(turns)}"))
            session.core.audience.sent(turns[-1])
            session.core.audience.messages([message], (turns[-1].id,))

    def calls_for_a_turn() -> int:
        calls: list[str] = []
        before = sys.getprofile()
        sys.setprofile(lambda _, event, __: calls.append(event))
        try:
            unread(1)
        finally:
            sys.setprofile(before)
        return calls.count("call")

    unread(60)
    before = calls_for_a_turn()
    unread(30)
    assert calls_for_a_turn() < before + 20  # a collection of garbage may call something
    (warning,) = session.core.warnings.kept
    assert warning.context["buffered"] == 51_000
    turns.clear()  # what nobody has any more does not count
    unread(100)
    assert not session.core.connection.state.over
    unread(1)
    assert isinstance(session.core.connection.state.terminal_error, SlowConsumerError)


def test_unread_messages_count_for_each_of_their_readers() -> None:
    line = {**TEXT, "uuid": "x" * 900}
    size = len(json.dumps(line))
    session, first, _ = listening(limits=Limits(buffered_bytes=8 * size, line_bytes=2 * size))
    second = Inbox()
    session.core.audience.add(second, events=False)
    session.take(line, line)
    assert not session.core.warnings.kept
    session.take(line)
    (warning,) = session.core.warnings.kept
    assert warning.context["buffered"] == first.size + second.size == 6 * size


def test_unread_events_count_for_each_cursor() -> None:
    def slow_after(cursors: int) -> int:
        session = Clocked(limits=Limits(buffered_bytes=20_000))
        inboxes = [Inbox() for _ in range(cursors)]
        for inbox in inboxes:
            session.core.audience.add(inbox, events=True)
        for count in range(1, 100):
            session.take(RUNNING if count % 2 else IDLE)
            if session.core.warnings.kept:
                return count
        return 0

    assert (slow_after(1), slow_after(2)) == (41, 21)


def test_an_inbox_counts_what_is_left() -> None:
    session, messages, _ = listening()
    session.take({**TEXT, "uuid": "x"}, TEXT, {**TEXT, "uuid": "y" * 50})
    sizes = [len(item.raw) for item in messages.items]
    for left in (sizes[1] + sizes[2], sizes[2], 0):
        messages.take()
        assert messages.size == left


def test_a_turn_keeps_the_error_of_a_session_that_fails_before_its_timeout_is_applied() -> None:
    session = Clocked(timeouts={"turn": EXIT_SECONDS + 1})
    turn = session.send()
    session.core.input_broke(session.now)
    session.core.expire(session.now + EXIT_SECONDS + 2, b"")  # the process was suspended: both have passed
    session.core.pump(session.now)
    assert isinstance(turn.inbox.error, SessionClosedError)


def test_a_turn_that_times_out_ends_and_is_interrupted() -> None:
    session, _, events = listening(timeouts={"turn": 5.0})
    turn = session.send()
    session.take(started(turn.id), RUNNING)
    session.core.connection.data_to_send()
    session.pass_by(5.1)
    assert isinstance(turn.inbox.error, TurnTimeoutError)
    assert (turn.inbox.error.kind, turn.inbox.error.seconds) == ("turn", 5.0)
    assert turn.over.is_set
    assert b'"subtype":"interrupt"' in session.core.connection.data_to_send()
    assert not session.core.connection.state.over
    assert isinstance(events.items[0], TurnStarted)


def test_a_turn_that_times_out_names_the_last_error_of_the_api() -> None:
    session = Clocked(timeouts={"turn": 5.0})
    turn = session.send()
    failed = {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 529, "error": "overloaded"}
    session.take(started(turn.id), RUNNING, failed)
    session.pass_by(5.1)
    assert isinstance(turn.inbox.error, TurnTimeoutError)
    assert "529" in turn.inbox.error.api_error
    assert turn.inbox.error.api_error in str(turn.inbox.error)


def test_the_log_says_what_happened_and_nothing_of_its_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    session = Clocked(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})
    turn = session.core.send("a secret", None, session.now)
    session.core.requests.ask("mcp_status", {}, "mcp_status", None, session.now)
    session.take(
        started(turn.id),
        RUNNING,
        TEXT,
        {"type": "control_request", "request_id": "r9", "request": HOOK},
    )
    session.core.lost("gone", session.now)
    said = "\n".join(caplog.messages)
    assert f"turn {turn.id} is started" in said
    assert "the CLI is running" in said
    assert "the CLI asks: hook_callback (r9)" in said
    assert "mcp_status (req_" in said
    assert "is over: SessionClosedError" in said
    assert "the session has ended: FAILED, exit code None" in said
    assert "secret" not in said
    assert "hello" not in said
    ids = {
        getattr(record, "turn_id", "missing")
        for record in caplog.records
        if record.getMessage().startswith("frame assistant")
    }
    assert ids == {turn.id}


def test_the_log_names_the_turn_of_a_result_and_the_exit_code(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    session = Clocked(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})
    turn = session.send()
    session.take({**RESULT, "user_message_uuids": [turn.id]})
    session.take({"type": "control_request", "request_id": "r" * 300, "request": HOOK})
    session.core.process_gone(7, b"")
    session.core.pump(session.now)
    said = {record.getMessage(): getattr(record, "turn_id", "missing") for record in caplog.records}
    assert [turn_id for text, turn_id in said.items() if text.startswith("frame result")] == [turn.id]
    assert said[f"turn {turn.id} is completed"] == turn.id
    assert "the session has ended: FAILED, exit code 7" in said
    (asks,) = [text for text in said if text.startswith("the CLI asks: hook_callback (")]
    assert asks.endswith(f"{'r' * 100})")
    assert len(asks) < 200


# -- timeouts and what they reach --------------------------------------------------------------------------------------


def test_a_hook_has_the_timeout_of_hooks_and_is_answered_when_it_passes() -> None:
    session = Clocked(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]}, timeouts={"hook": 6.0})
    session.take({"type": "control_request", "request_id": "r9", "request": HOOK})
    assert session.core.deadlines.seconds_of("callback", "r9") == 6.0
    session.core.connection.data_to_send()
    session.pass_by(5.9)
    assert session.core.connection.data_to_send() == b""
    session.pass_by(0.2)
    assert b'"request_id":"r9"' in session.core.connection.data_to_send()
    assert [warning.code for warning in session.core.warnings.kept] == ["CALLBACK_TIMED_OUT"]


def test_an_operation_that_times_out_names_itself() -> None:
    session = Clocked()
    answer = session.core.requests.ask("mcp_status", {}, "servers", 2.0, session.now)
    session.pass_by(2.0)
    assert isinstance(answer.error, ControlTimeoutError)
    assert "servers" in str(answer.error)


def test_a_start_that_times_out_quotes_stderr() -> None:
    core: SessionCore[Readers] = SessionCore(Options(), lambda function: function(), Readers)
    core.connection.state.begin_start()
    core.deadlines.arm("request", core.connection.send_initialize({}), 2.0)
    core.expire(1.9, b"")
    assert not core.ready.is_set
    core.expire(2.0, b"the last words of stderr")
    core.pump(2.0)
    assert core.ready.is_set
    assert isinstance(core.start_error, InitializationTimeoutError)
    assert "the last words of stderr" in str(core.start_error)


def test_a_prompt_keeps_the_id_that_its_user_chose() -> None:
    session = Clocked()
    chosen = "0b0f7a4e-8d0e-4b6a-9d7e-0d3f7a1c2b4d"
    turn = session.core.send("hi", None, session.now, chosen)
    assert turn.id == chosen
    assert chosen.encode() in session.core.connection.data_to_send()


def test_a_line_that_ends_in_the_middle_is_a_warning_of_the_session() -> None:
    session, _, events = listening()
    session.core.connection.receive_data(b'{"type":')
    session.core.process_gone(0, b"")
    session.core.pump(session.now)
    (warning,) = [event.warning for event in events.items if isinstance(event, WarningRaised)]
    assert (warning.code, warning.context) == ("INCOMPLETE_LAST_LINE", {"line": b'{"type":'})
    assert [*session.core.warnings.kept] == [warning]


def test_reading_a_turn_keeps_its_messages_again() -> None:
    session = Clocked()
    turn = session.send()
    assert not turn.read
    turn.inbox.skip(True)
    turn.begin_reading()
    assert (turn.read, turn.inbox.keeps) == (True, True)


def test_an_answered_operation_is_logged_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    session = Clocked()
    answer = session.core.requests.ask("mcp_status", {}, "servers", None, session.now)
    response = {"subtype": "success", "request_id": answer.request_id, "response": {"mcpServers": []}}
    session.take({"type": "control_response", "response": response})
    assert f"servers ({answer.request_id}) is over" in caplog.messages


@pytest.mark.parametrize(
    "guard", [HookMatcher(hooks=[lambda *_: None]), HookMatcher(hooks=[lambda *_: None], on_failure="block")]
)
def test_prompts_wait_for_the_handshake_only_behind_a_hook_that_blocks(guard: HookMatcher[Any]) -> None:
    core: SessionCore[Readers] = SessionCore(
        Options(hooks={"PreToolUse": [guard]}), lambda function: function(), Readers
    )
    core.connection.state.begin_start()
    core.connection.send_initialize({})
    core.connection.data_to_send()
    request = {"type": "control_request", "request_id": "r", "request": HOOK}
    core.connection.receive_data(json.dumps(request).encode() + b"\n")
    core.send("hi", None, 0.0)
    assert (b'"type":"user"' in core.connection.data_to_send()) is (guard.on_failure != "block")


class Article:
    """An object that a variable of a context holds."""


article: contextvars.ContextVar[Article] = contextvars.ContextVar("article")


def test_a_hook_sees_the_variables_of_the_sender_of_the_running_turn() -> None:
    session = Clocked(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]})
    contexts = [contextvars.copy_context() for _ in range(2)]

    def seen() -> contextvars.Context | None:
        session.take({"type": "control_request", "request_id": f"r{session.now}", "request": HOOK})
        session.now += 1
        (job,) = session.core.callbacks.take()
        return job.state.context

    first = session.core.send("hi", None, session.now, context=contexts[0])
    assert seen() is contexts[0]
    second = session.core.send("and", None, session.now, context=contexts[1])
    assert seen() is contexts[0]
    session.take(started(first.id), {**RESULT, "user_message_uuids": [first.id]})
    session.take(started(second.id))
    assert seen() is contexts[1]


def test_callbacks_reach_the_holder_of_the_session_once_open_work_is_done() -> None:
    session, context = Clocked(), contextvars.copy_context()
    reached = session.core.reached
    reached.lend("first", "ann", None)
    assert (reached.now.conversation, reached.now.caller, reached.now.context) == ("first", "ann", None)
    session.send()
    reached.lend("second", "bob", context)
    assert (reached.now.conversation, reached.now.caller) == ("first", "ann")
    other = reached.sender(None)
    assert (other.conversation, other.caller) == ("second", "bob")


def test_the_context_of_a_sender_is_held_until_its_turn_is_over() -> None:
    session = Clocked()

    def sent() -> tuple[Progress, weakref.ref[Article]]:
        context, held = contextvars.copy_context(), Article()
        context.run(article.set, held)
        return session.core.send("hi", None, session.now, context=context), weakref.ref(held)

    first, of_first = sent()
    second, of_second = sent()
    session.take(started(first.id), {**RESULT, "user_message_uuids": [first.id]})
    session.take(started(second.id))
    gc.collect()
    assert of_first() is None
    assert of_second() is not None


# -- starting ----------------------------------------------------------------------------------------------------------


def starting(**options: Any) -> tuple[SessionCore[Readers], dict[str, Any]]:
    """Return a core that has written `initialize`, and the frame."""
    given = Options(**options)
    core: SessionCore[Readers] = SessionCore(given, lambda function: function(), Readers)
    plan = build_plan(given, prompt=None, session=True, base_environment={}, child_id="one", local=False)
    core.connection.state.begin_start()
    core.initialize(plan, 50.0, bytes)
    (frame,) = core.connection.data_to_send().splitlines()
    return core, json.loads(frame)


def answer_start(core: SessionCore[Readers], frame: dict[str, Any], **info: Any) -> None:
    response = {"subtype": "success", "request_id": frame["request_id"], "response": info}
    core.connection.receive_data(json.dumps({"type": "control_response", "response": response}).encode() + b"\n")
    core.pump(51.0)


def test_the_start_sends_hooks_and_options_within_the_timeout_of_the_start() -> None:
    core, frame = starting(
        hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]},
        mcp_servers={"own": tool_server("inner", [])},
        timeouts=Timeouts(initialize=8.0),
    )
    assert frame["request"]["subtype"] == "initialize"
    assert frame["request"]["hooks"]["PreToolUse"][0]["hookCallbackIds"] == ["hook_0"]
    assert frame["request"]["sdkMcpServers"] == ["own"]
    assert core.deadlines.seconds_of("request", frame["request_id"]) == 8.0
    assert core.deadlines.wait_seconds(50.0) == 8.0
    assert "hooks" not in starting()[1]["request"]


def test_a_policy_stands_beside_the_hooks_of_the_user() -> None:
    _, frame = starting(policy=Policy([]), hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None], matcher="Bash")]})
    matchers = [matcher.get("matcher") for matcher in frame["request"]["hooks"]["PreToolUse"]]
    assert matchers == [None, "Bash"]


def test_a_session_that_is_ready_says_so_once_and_starts_no_timeout() -> None:
    core, frame = starting()
    events = Inbox()
    core.audience.add(events, events=True)
    answer = core.requests.ask("mcp_status", {}, "mcp_status", None, 50.0)
    assert not core.ready.is_set
    answer_start(core, frame, pid=7)
    assert core.ready.is_set
    assert core.start_error is None
    (ready,) = events.items
    assert isinstance(ready, SessionStarted)
    assert ready.server_info is not None
    assert ready.server_info.pid == 7
    assert core.deadlines.names("request") == [answer.request_id]


@pytest.mark.parametrize(
    ("info", "starts"),
    [
        ({}, False),
        ({"hook_on_failure_supported": False}, False),
        ({"hook_on_failure_supported": True}, True),
        ({"hook_on_failure_supported": True, "hooks_applied": True}, True),
        ({"hook_on_failure_supported": True, "hooks_applied": False}, False),
    ],
)
@pytest.mark.parametrize("on_failure", ["block", "continue"])
def test_a_hook_that_blocks_needs_a_cli_that_honours_it(info: dict[str, Any], starts: bool, on_failure: Any) -> None:
    hooks = {"PreToolUse": [HookMatcher(hooks=[lambda *_: None], on_failure=on_failure)]}
    core, frame = starting(hooks=hooks)
    answer_start(core, frame, **info)
    assert core.ready.is_set
    if starts or on_failure == "continue":
        assert core.start_error is None
        assert core.connection.state.lifecycle is SessionState.RUNNING
    else:
        assert isinstance(core.start_error, InitializationError)
        assert str(core.start_error).endswith(
            ": a hook has `on_failure='block'`, and this CLI does not say that it would honour it; update the CLI"
        )
        assert core.connection.state.over


def test_a_stop_wakes_the_caller_that_waits_for_the_start() -> None:
    core, _ = starting()
    core.stop.begin(51.0)
    core.pump(51.0)
    assert not core.connection.state.over
    assert core.ready.is_set
    assert isinstance(core.start_error, SessionClosedError)
    assert core.start_error.expected


def test_a_start_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    starting()
    assert [message for message in caplog.messages if message.startswith("started; ")]


def test_the_shortest_timeout_that_may_start_late_is_known() -> None:
    def poll(audience: Any = Readers, **timeouts: Any) -> float | None:
        given = {"after_result": 20.0, "background": None, **timeouts}
        core: SessionCore[Any] = SessionCore(Options(timeouts=Timeouts(**given)), lambda function: function(), audience)
        return core.poll

    assert poll() is None
    assert poll(turn=9.0, idle=4.0, first_message=6.0) == 4.0
    assert poll(SteeredQuery, turn=30.0) == 20.0
    assert poll(SteeredQuery, background=3.0) == 3.0


# -- servers -----------------------------------------------------------------------------------------------------------


def test_servers_are_sent_by_name_and_those_of_this_process_are_kept() -> None:
    inside = tool_server("inner", [])
    outside = {"type": "http", "url": "https://example.org"}
    wire, own = sent_servers({"a": inside, "b": outside})
    assert wire == {"a": {"type": "sdk", "name": "a"}, "b": outside}
    assert own == {"a": inside}


def test_a_server_object_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("low")
    assert sent_servers({"low": server})[1] == {"low": server}
    monkeypatch.setitem(sys.modules, "mcp.shared.memory", None)
    with pytest.raises(OptionsError, match=r"hackamore\[mcp\]") as refused:
        sent_servers({"low": server})
    assert refused.value.field == "mcp_servers.low"


def test_an_object_that_is_no_server_is_refused() -> None:
    class Nothing:
        """Not a server."""

    with pytest.raises(NotSupportedError) as refused:
        sent_servers({"bad": Nothing()})
    assert refused.value.operation == "mcp_servers"
    assert (
        "A Nothing (`bad`) is not supported: use `hackamore.tool_server`, a server object of the `mcp` package, "
        "or a function that takes one JSON-RPC dict and returns one."
    ) in str(refused.value)


# -- waking ------------------------------------------------------------------------------------------------------------


def woken(session: Clocked) -> Woken:
    waiter = Woken()
    session.core.settled.waiters.append(waiter)
    return waiter


def test_who_waits_for_quiet_is_woken_when_nothing_is_open_or_all_is_quiet() -> None:
    session = Clocked()
    turn = session.send()
    waiter = woken(session)
    session.take(started(turn.id), RUNNING, TEXT)
    assert waiter.times == 0
    session.take({**RESULT, "user_message_uuids": [turn.id]})
    assert waiter.times == 1  # no turn is open, and the CLI has not said that it is idle
    waiter = woken(session)
    session.take(TASKS, IDLE)
    assert waiter.times == 1


def test_who_waits_for_quiet_is_woken_at_the_end_though_a_turn_is_open() -> None:
    session = Clocked()
    session.send()
    waiter = woken(session)
    session.core.lost("gone", session.now)
    assert waiter.times == 1


def test_the_end_of_a_task_is_believed_after_five_seconds_of_silence() -> None:
    session = Clocked()
    session.take(IDLE, TASKS, TASK_ENDED)
    session.take({**TASKS, "tasks": []})
    assert session.core.deadlines.is_armed("settle", "")
    session.pass_by(4.9)
    assert not session.core.quiet
    session.pass_by(0.2)
    assert session.core.quiet
    session.take(TASK_ENDED, RUNNING)
    assert not session.core.deadlines.is_armed("settle", "")


# -- texts -------------------------------------------------------------------------------------------------------------


def test_a_bad_line_is_logged_as_its_error_says(caplog: pytest.LogCaptureFixture) -> None:
    session = Clocked()
    session.core.connection.receive_data(b"100 %s of noise\n")
    (event,) = session.core.connection.events_received()
    session.core.handle(event)
    assert isinstance(event, BadLine)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, str(event.error))
    assert getattr(record, "code", None) == event.error.reason
    assert not session.core.warnings.kept


def test_a_turn_shows_its_id_and_state() -> None:
    turn = TurnBase(Progress("one"))
    assert (turn.id, turn.state) == ("one", TurnState.QUEUED)
    assert repr(turn) == "TurnBase('one', queued)"
    assert "TurnBase" in turn._repr_html_()


class Plain(SessionBase):
    """A session as its properties show it."""

    def __init__(self, core: SessionCore[Any]) -> None:
        self._core = core

    @property
    def pid(self) -> int | None:
        return 7

    def send(self) -> None:
        self._require_start("send")


def test_a_session_shows_what_its_core_knows() -> None:
    session = Clocked(model="m")
    session.take({**TEXT, "session_id": "s"}, TASKS, RUNNING)
    shown = Plain(session.core)
    assert repr(shown) == "Plain(state='running', session_id='s', pid=7)"
    assert shown.options.model == "m"
    assert (shown.state, str(shown.activity), shown.session_id) == (SessionState.RUNNING, "running", "s")
    assert [task.task_id for task in shown.background_tasks] == ["t"]
    assert shown.server_info is session.core.connection.conversation.server_info
    assert shown.server_info is not None
    assert (shown.exit_code, shown.warnings) == (None, [])
    session.core.warnings.add("INCOMPLETE_LAST_LINE", "w")
    assert [warning.code for warning in shown.warnings] == ["INCOMPLETE_LAST_LINE"]
    session.core.process_gone(3, b"")
    assert shown.exit_code == 3
    shown.send()
    with pytest.raises(SessionNotStartedError, match="send"):
        Plain(SessionCore(None, lambda _: None, Readers)).send()


def test_the_last_thousand_warnings_are_kept() -> None:
    session = Clocked()
    for number in range(1_010):
        session.core.warnings.add("INCOMPLETE_LAST_LINE", str(number))
    assert len(session.core.warnings.kept) == 1_000
    assert session.core.warnings.kept[-1].message == "1009"
