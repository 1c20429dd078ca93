"""Deadlines of a session, and what it knows of the CLI's work, by a clock that the test moves. No shell: the core alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hackamore import HookMatcher, Options, StreamWarning, Timeouts, TurnTimeoutError
from hackamore._engine.protocol.states.session import TurnState
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.readers import Audience, Progress, Readers
from hackamore._engine.session.steering import SteeredQuery
from tests.contract import shows


class Clocked:
    """A session that is ready, and a clock."""

    def __init__(self, audience: type[Audience] = Readers, **options: Any) -> None:
        def post(function: Callable[[], None]) -> None:
            function()

        self.now = 1_000.0
        self.core = SessionCore(Options(**options), post, audience)
        self.core.connection.state.begin_start()
        request_id = self.core.connection.send_initialize({})
        self.take({"type": "control_response", "response": {"subtype": "success", "request_id": request_id}})

    def take(self, *frames: dict[str, Any]) -> None:
        """Take frames of the CLI, now."""
        self.core.received(self.now)
        self.core.connection.receive_data(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
        self.core.expire(self.now, b"")
        self.core.pump(self.now)

    def send(self) -> Progress:
        return self.core.send("hello", None, self.now)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, as a driver does: each deadline is looked at when it passes."""
        until = self.now + seconds
        while (wait := self.core.deadlines.wait_seconds(self.now)) is not None and self.now + wait <= until:
            self.now += wait
            self.core.expire(self.now, b"")
            self.core.pump(self.now)
        self.now = until


IDLE = {"type": "system", "subtype": "session_state_changed", "state": "idle", "sdk_host_only": True}
RUNNING = {**IDLE, "state": "running"}
TASK_ENDED = {"type": "system", "subtype": "task_notification", "task_id": "t", "status": "completed"}
RESULT = {"type": "result", "subtype": "success"}
ASKED = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}
HOOK = {"subtype": "hook_callback", "callback_id": "hook_0", "input": ASKED}
TEXT = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}}


@shows("session.deadlines.asked")
@pytest.mark.parametrize("kind", ["idle", "first_message"])
@pytest.mark.parametrize("took", [9.0, 19.0])
def test_silence_counts_anew_from_the_end_of_a_callback(kind: str, took: float) -> None:
    session = Clocked(hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None])]}, timeouts={kind: 10.0})
    turn = session.send()
    if kind == "idle":
        session.take({"type": "command_lifecycle", "command_uuid": turn.id, "state": "started"}, TEXT)
    session.take({"type": "control_request", "request_id": "r1", "request": HOOK})
    session.pass_by(took)
    session.core.callback_ended(session.core.callbacks.to_run.popleft(), None, None, session.now)
    session.core.pump(session.now)

    session.pass_by(9.9)
    assert not turn.over.is_set
    session.pass_by(0.2)
    assert isinstance(turn.inbox.the_error(), TurnTimeoutError)


@shows("session.deadlines.late")
@pytest.mark.parametrize("kind", ["first_message", "idle", "turn"])
def test_what_came_in_time_counts_however_late_it_is_looked_at(kind: str) -> None:
    session = Clocked(timeouts={kind: 10.0})
    turn = session.send()
    started = {"type": "command_lifecycle", "command_uuid": turn.id, "state": "started"}
    session.take(started, *([TEXT] if kind == "idle" else []))
    session.now += 60  # something else kept this program busy
    if kind != "turn":
        session.take(TEXT)
        assert not turn.over.is_set
    session.take({**RESULT, "user_message_uuids": [turn.id]})
    assert turn.over.is_set
    assert turn.inbox.the_error() is None
    assert turn.state is TurnState.COMPLETED


@shows("session.deadlines.keep-alives")
def test_keep_alives_do_not_put_off_that_a_session_is_idle() -> None:
    session = Clocked()
    session.take(IDLE, TASK_ENDED)
    for _ in range(3):
        assert not session.core.connection.conversation.quiet
        session.pass_by(2)
        session.take({"type": "keep_alive"})
    assert session.core.connection.conversation.quiet


@shows("session.deadlines.keep-alives")
def test_keep_alives_do_not_put_off_the_end_of_a_query() -> None:
    session = Clocked(SteeredQuery, timeouts={"after_result": 30.0})
    query = session.core.audience
    assert isinstance(query, SteeredQuery)
    query.send_all("hello", session.now)
    session.take(RUNNING, RESULT)
    for _ in range(5):
        session.pass_by(9)
        session.take({"type": "keep_alive"})
    assert [item.code for item in query.take() if isinstance(item, StreamWarning)] == ["CLI_DID_NOT_EXIT"]
    assert session.core.stop.asked


@shows("session.deadlines.keep-alives")
@pytest.mark.parametrize("late", [0.0, 60.0])
@pytest.mark.parametrize("said", ["messages", "states"])
def test_what_is_said_does(said: str, late: float) -> None:
    """Also if it was there and nobody could look at it in time."""
    session = Clocked(SteeredQuery, timeouts={"after_result": 30.0})
    query = session.core.audience
    assert isinstance(query, SteeredQuery)
    query.send_all("hello", session.now)
    session.take(RUNNING, RESULT)
    for number in range(5):
        session.pass_by(29)
        session.now += late
        session.take(TEXT if said == "messages" else {**RUNNING, "state": ("idle", "running")[number % 2]})
    assert not [item for item in query.take() if isinstance(item, StreamWarning)]
    assert not session.core.stop.asked


INIT = {"type": "system", "subtype": "init", "session_id": "s"}


@shows("process.own-turn")
@pytest.mark.parametrize(
    ("frames", "working"),
    [
        ([], False),
        ([IDLE, INIT], False),
        ([INIT, TEXT], False),  # a CLI that does not tell its state is believed to begin nothing by itself
        ([IDLE, RUNNING], True),
        ([RUNNING, INIT, TEXT], True),
        ([RUNNING, INIT, RESULT], False),
        ([RUNNING, INIT, RESULT, INIT], True),
        ([RUNNING, INIT, RESULT, INIT, IDLE], False),
        ([RUNNING, {**RUNNING, "state": "requires_action"}], True),
    ],
)
def test_what_counts_as_work_that_a_stop_interrupts(frames: list[dict[str, Any]], working: bool) -> None:
    session = Clocked()
    session.core.connection.data_to_send()
    session.take(*frames)
    assert session.core.turn_open is working
    session.core.stop.begin(session.now)
    assert (b'"interrupt"' in session.core.connection.data_to_send()) is working
    assert session.core.stop.may_end is not working
    session.take(RESULT)
    assert session.core.stop.may_end
    assert not session.core.turn_open


@shows("process.own-turn")
def test_after_the_end_of_a_task_the_cli_may_be_at_work_at_any_moment() -> None:
    session = Clocked()
    session.take(IDLE, TASK_ENDED)
    assert session.core.turn_open
    session.pass_by(5)
    assert not session.core.turn_open


@shows("process.background")
@pytest.mark.parametrize("ambient", [False, True])
def test_a_stop_gives_work_in_the_background_no_time_to_go_on(ambient: bool) -> None:
    """A subagent works with the model, and after the end of a command the CLI asks it."""
    session = Clocked()
    task = {"task_id": "t", "task_type": "local_agent", "ambient": ambient}
    session.take(IDLE, {"type": "system", "subtype": "background_tasks_changed", "tasks": [task]})
    session.core.stop.begin(session.now)
    assert session.core.stop.may_end
    assert session.core.turn_open is not ambient


def lifecycle(turn: Progress, state: str) -> dict[str, Any]:
    return {"type": "command_lifecycle", "command_uuid": turn.id, "state": state}


def result_of(turn: Progress) -> dict[str, Any]:
    return {**RESULT, "user_message_uuids": [turn.id]}


@shows("session.deadlines.waiting")
def test_a_prompt_that_waited_has_its_whole_time_after_the_turn_before_it() -> None:
    it = Clocked(timeouts={"first_message": 30.0, "turn": 10.0})
    first, second = it.send(), it.send()
    it.take(lifecycle(first, "started"))
    it.pass_by(8.0)
    it.take(result_of(first))
    assert it.core.deadlines.names("turn") == [second.id]
    assert it.core.deadlines.names("first_message") == [second.id]
    it.pass_by(9.9)
    assert not second.over.is_set
    it.pass_by(0.2)
    assert second.over.is_set
    assert isinstance(second.inbox.error, TurnTimeoutError)
    assert second.inbox.error.kind == "turn"


@shows("session.deadlines.waiting")
def test_the_end_of_one_turn_gives_no_time_to_another_that_runs() -> None:
    it = Clocked(timeouts={"turn": 10.0})
    first, second = it.send(), it.send()
    it.take(lifecycle(first, "started"), lifecycle(second, "started"))
    it.pass_by(6.0)
    it.take(result_of(second))
    it.pass_by(3.9)
    assert not first.over.is_set
    it.pass_by(0.2)
    assert first.over.is_set


@shows("session.deadlines.waiting")
def test_a_prompt_behind_one_that_was_given_up_waits_one_more_time_and_no_longer() -> None:
    it = Clocked(timeouts={"turn": 10.0})
    first = it.send()
    it.take(lifecycle(first, "started"))
    it.pass_by(5.0)
    second = it.send()
    it.core.connection.data_to_send()
    it.pass_by(5.0)
    assert first.over.is_set
    assert b'"interrupt"' in it.core.connection.data_to_send()
    it.pass_by(14.9)
    assert not second.over.is_set
    assert it.core.connection.data_to_send() == b""
    it.pass_by(0.2)
    assert second.over.is_set
    assert b'"cancel_async_message"' in it.core.connection.data_to_send()


@shows("session.deadlines.waiting")
def test_a_prompt_behind_one_that_still_has_time_waits_without_limit() -> None:
    it = Clocked(timeouts={"first_message": 10.0})
    first, second = it.send(), it.send()
    it.take(lifecycle(first, "started"), {**TEXT, "user_message_uuid": first.id})
    it.pass_by(100.0)
    assert not first.over.is_set
    assert not second.over.is_set
    assert it.core.deadlines.names("first_message") == [second.id]


@shows("session.deadlines.kinds")
def test_a_timeout_of_a_turn_removes_its_other_timeouts_and_one_of_no_turn_does_nothing() -> None:
    it = Clocked(timeouts={"first_message": 5.0, "turn": 10.0})
    turn = it.send()
    it.core.deadlines.arm("turn", "no turn", 1.0)
    it.pass_by(4.9)
    assert not turn.over.is_set
    it.pass_by(0.2)
    assert turn.over.is_set
    assert it.core.deadlines.wait_seconds(it.now) is None


@shows("session.deadlines.asked")
def test_a_callback_holds_up_the_timeout_of_silence_and_not_that_of_the_turn() -> None:
    it = Clocked(
        hooks={"PreToolUse": [HookMatcher(hooks=[lambda asked, context: None])]}, timeouts={"idle": 5.0, "turn": 20.0}
    )
    turn = it.send()
    it.take(lifecycle(turn, "started"), TEXT, {"type": "control_request", "request_id": "r0", "request": HOOK})
    it.pass_by(19.9)
    assert not turn.over.is_set
    it.pass_by(0.2)
    assert isinstance(turn.inbox.error, TurnTimeoutError)
    assert turn.inbox.error.kind == "turn"


@shows("session.deadlines.asked")
def test_an_answered_callback_gives_the_turn_no_more_time() -> None:
    it = Clocked(hooks={"PreToolUse": [HookMatcher(hooks=[lambda asked, context: None])]}, timeouts={"turn": 20.0})
    turn = it.send()
    it.take(lifecycle(turn, "started"), TEXT, {"type": "control_request", "request_id": "r0", "request": HOOK})
    it.pass_by(15.0)
    (job,) = it.core.callbacks.take()
    it.core.callback_ended(job, None, None, it.now)
    it.core.pump(it.now)
    it.pass_by(4.9)
    assert not turn.over.is_set
    it.pass_by(0.2)
    assert turn.over.is_set


@shows("session.deadlines.asked")
def test_an_answered_callback_gives_a_prompt_that_waits_no_more_time_for_its_turn() -> None:
    it = Clocked(hooks={"PreToolUse": [HookMatcher(hooks=[lambda asked, context: None])]}, timeouts={"turn": 20.0})
    turn = it.send()
    it.take({"type": "control_request", "request_id": "r0", "request": HOOK})
    it.pass_by(15.0)
    (job,) = it.core.callbacks.take()
    it.core.callback_ended(job, None, None, it.now)
    it.core.pump(it.now)
    it.pass_by(5.1)
    assert turn.over.is_set


@shows("session.deadlines.kinds")
def test_that_a_prompt_was_taken_is_no_answer_to_it() -> None:
    it = Clocked(timeouts={"first_message": 5.0})
    turn = it.send()
    it.pass_by(3.0)
    it.take(lifecycle(turn, "queued"), lifecycle(turn, "started"))
    it.pass_by(1.9)
    assert not turn.over.is_set
    it.pass_by(0.2)
    assert isinstance(turn.inbox.error, TurnTimeoutError)
    assert (turn.inbox.error.kind, turn.inbox.error.seconds) == ("first_message", 5.0)


@shows("session.deadlines.kinds")
def test_a_message_ends_the_wait_for_the_first_and_starts_the_silence_again() -> None:
    it = Clocked(timeouts={"first_message": 5.0, "idle": 8.0})
    turn = it.send()
    it.take(lifecycle(turn, "started"), TEXT)
    for _ in range(3):
        it.pass_by(7.9)
        it.take(TEXT)
    assert it.core.deadlines.names("first_message") == []
    it.pass_by(7.9)
    assert not turn.over.is_set
    it.pass_by(0.2)
    assert isinstance(turn.inbox.error, TurnTimeoutError)
    assert turn.inbox.error.kind == "idle"


@shows("session.deadlines.kinds")
def test_only_one_of_the_timeouts_may_be_set() -> None:
    for timeouts, left in (({"first_message": 5.0}, []), ({"idle": 5.0}, ["idle"]), ({}, [])):
        it = Clocked(timeouts=timeouts)
        turn = it.send()
        it.take(lifecycle(turn, "started"), TEXT)
        assert [kind for kind in ("first_message", "idle", "turn") if it.core.deadlines.is_armed(kind, turn.id)] == left


@shows("session.deadlines.kinds")
def test_a_turn_that_is_over_has_no_timeouts() -> None:
    it = Clocked(timeouts={"first_message": 5.0, "idle": 5.0, "turn": 50.0})
    turn = it.send()
    it.take(lifecycle(turn, "started"), TEXT, result_of(turn))
    assert it.core.deadlines.wait_seconds(it.now) is None


@shows("session.deadlines.waiting")
def test_the_time_of_a_turn_counts_from_its_beginning() -> None:
    it = Clocked(timeouts={"turn": 10.0})
    turn = it.send()
    it.pass_by(9.0)
    it.take(lifecycle(turn, "started"))
    it.pass_by(9.9)
    assert not turn.over.is_set
    it.pass_by(0.2)
    assert turn.over.is_set


@shows("session.deadlines.waiting")
def test_a_prompt_that_waits_for_the_session_has_its_whole_time_once_that_is_ready() -> None:
    def post(function: Callable[[], None]) -> None:
        function()

    core = SessionCore(Options(timeouts=Timeouts(first_message=5.0, turn=7.0)), post, Readers)
    core.connection.state.begin_start()
    request_id = core.connection.send_initialize({})
    turn = core.send("hello", None, 100.0)
    core.expire(107.0, b"")
    core.pump(107.0)
    assert not turn.over.is_set
    response = {"subtype": "success", "request_id": request_id}
    core.connection.receive_data(json.dumps({"type": "control_response", "response": response}).encode() + b"\n")
    core.pump(110.0)
    core.expire(114.9, b"")
    assert not turn.over.is_set
    core.expire(115.0, b"")
    assert turn.over.is_set
