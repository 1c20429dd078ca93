"""A connection of a one-way launch: the prompt is part of the launch, and everything after it is output."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection
from hackamore._engine.protocol.states.session import Ending, SessionState
from hackamore.errors import DecodeErrorLimitError, ProcessError, SessionClosedError, TurnTimeoutError
from hackamore.messages import MESSAGE_TYPES, SessionStateChangedMessage
from hackamore.options.bounds import Limits
from tests.contract import shows

GOLDEN = (Path(__file__).parent.parent / "messages" / "frames.jsonl").read_bytes()
NOISE = b'not json\n{"type":"from_the_future"}\r\n\n"text"\n{"type":"assistant","session_id":7}\n'


def started(**settings: Any) -> Connection:
    connection = Connection(one_way=True, fail_on_bad_lines=False, **settings)
    connection.state.begin_start()
    return connection


def feed(connection: Connection, *frames: Any) -> list[events.Event]:
    lines = [frame if isinstance(frame, bytes) else json.dumps(frame).encode() for frame in frames]
    connection.receive_data(b"".join(line + b"\n" for line in lines))
    return connection.events_received()


def items(happened: list[events.Event]) -> list[str]:
    found: list[str] = []
    for event in happened:
        match event:
            case events.MessagesReceived():
                found += [type(message).__name__ for message in event.messages]
            case events.WarningRaised():
                found.append(event.warning.code)
            case _:
                found.append(type(event).__name__)
    return found


ASSISTANT = {"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}, "session_id": "s1"}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "hi", "session_id": "s1"}
INIT = {"type": "system", "subtype": "init", "session_id": "s1"}
NOTICE = {"type": "system", "subtype": "task_notification", "task_id": "b1", "status": "completed"}
IDLE = {"type": "system", "subtype": "session_state_changed", "state": "idle", "sdk_host_only": True}
RUNNING = {**IDLE, "state": "running"}


def tasks(*ids: str) -> dict[str, Any]:
    listed = [{"task_id": task, "task_type": "local_bash"} for task in ids]
    return {"type": "system", "subtype": "background_tasks_changed", "tasks": listed}


def test_messages_come_in_one_batch_for_each_read() -> None:
    connection = started()
    assert connection.state.lifecycle is SessionState.RUNNING
    [batch] = feed(connection, INIT, ASSISTANT, ASSISTANT)
    assert isinstance(batch, events.MessagesReceived)
    assert items([batch]) == ["InitMessage", "AssistantMessage", "AssistantMessage"]
    assert batch.turn_ids == ()
    assert connection.state.session_id == "s1"
    assert items(feed(connection, ASSISTANT, RESULT)) == ["AssistantMessage", "ResultMessage"]
    assert connection.conversation.last_result is not None


def test_the_session_id_is_known_with_the_first_message_that_names_it() -> None:
    connection = started()
    feed(connection, {"type": "from_the_future"})
    assert connection.state.session_id is None
    feed(connection, {"type": "from_the_future"}, ASSISTANT)
    connection.events_received()
    assert connection.state.session_id == "s1"


def test_nothing_is_written_and_control_frames_mean_nothing() -> None:
    connection = started()
    request = {"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool"}}
    answer = {"type": "control_response", "response": {"subtype": "success", "request_id": "r"}}
    cancel = {"type": "control_cancel_request", "request_id": "r"}
    assert feed(connection, request, answer, cancel, {"type": "keep_alive"}) == []
    assert connection.data_to_send() == b""
    assert not connection.input_may_close
    with pytest.raises(SessionClosedError):
        connection.conversation.send_prompt("hello")
    with pytest.raises(SessionClosedError):
        connection.exchanges.send_request("get_usage")
    with pytest.raises(SessionClosedError):
        connection.outbox.send_message({"type": "user"})


def test_a_wrong_field_warns_before_its_message() -> None:
    assert items(feed(started(), {**ASSISTANT, "session_id": 17})) == ["FIELD_DROPPED", "AssistantMessage"]


def test_bad_lines_are_counted_in_a_row() -> None:
    connection = started(limits=Limits(consecutive_decode_errors=3))
    happened = feed(connection, b"x", b"y", ASSISTANT, b"z", b"  ", b"z", {"type": "keep_alive"}, *[b"last"] * 4)
    bad = [(event.error.line, event.count) for event in happened if isinstance(event, events.BadLine)]
    assert bad == [(b"x", 1), (b"y", 2), (b"z", 1), (b"z", 2), *((b"last", count) for count in (1, 2, 3, 4))]
    assert not connection.state.over


def test_bad_lines_in_a_row_end_a_connection_that_judges_lines() -> None:
    connection = Connection(one_way=True, limits=Limits(consecutive_decode_errors=3))
    connection.state.begin_start()
    *_, ended = feed(connection, b"x", b"y", b"last", b"unread")
    assert isinstance(ended, events.Ended)
    assert isinstance(ended.error, DecodeErrorLimitError)
    assert (ended.error.count, ended.error.last.line, ended.by_exit) == (3, b"last", False)


def test_a_line_that_is_too_long_is_reported_and_skipped() -> None:
    limits = Limits(line_bytes=2_000)
    happened = feed(started(limits=limits), b"x" * 3_000, ASSISTANT)
    assert items(happened) == ["LongLine", "AssistantMessage"]
    assert isinstance(happened[0], events.LongLine)
    assert (happened[0].size, happened[0].head) == (3_000, b"x" * 200)


@pytest.mark.parametrize("code", [0, 1, -9, None])
def test_an_exit_ends_it_once_the_output_has_ended_too(code: int | None) -> None:
    connection = started()
    feed(connection, ASSISTANT, b"noise")
    connection.process_exited(code, b"some words on stderr")
    assert not connection.state.over
    connection.receive_data(json.dumps(RESULT).encode())
    connection.receive_eof()
    result, ended = connection.events_received()
    assert items([result]) == ["ResultMessage"]
    assert isinstance(ended, events.Ended)
    assert ended.by_exit
    assert ended.exit_code == code
    assert ended.ending is (Ending.COMPLETED if code == 0 else Ending.FAILED)
    error = connection.process_failure(code, connection.state.stderr_tail)
    assert isinstance(error, ProcessError)
    assert error.diagnostic.stderr_tail == "some words on stderr"
    assert error.diagnostic.last_non_json_line == "noise"
    assert not error.diagnostic.stdout_was_empty


def test_a_last_line_that_cannot_be_read_is_reported_as_it_is() -> None:
    connection = started()
    connection.receive_data(b'{"type":"assist')
    connection.receive_eof()
    [event] = connection.events_received()
    assert isinstance(event, events.IncompleteLine)
    assert event.line == b'{"type":"assist'


def test_the_shell_can_fail_and_stop_it() -> None:
    failed, stopped = started(), started()
    failed.fail(TurnTimeoutError("idle", 3))
    [ended] = failed.events_received()
    assert isinstance(ended, events.Ended)
    assert isinstance(ended.error, TurnTimeoutError)
    assert feed(failed, ASSISTANT) == []
    stopped.begin_stop()
    assert items(feed(stopped, RESULT)) == ["ResultMessage"]
    stopped.receive_eof()
    stopped.process_exited(143)
    assert stopped.state.ending is Ending.STOPPED


@shows("process.own-turn")
@pytest.mark.parametrize("begins", [INIT, NOTICE, RUNNING], ids=["init", "notice", "running"])
@pytest.mark.parametrize("ends", [RESULT, IDLE], ids=["result", "idle"])
def test_a_turn_that_the_cli_begins_by_itself_is_work(begins: Any, ends: Any) -> None:
    connection = started()
    assert connection.conversation.at_work
    feed(connection, INIT, ASSISTANT)
    assert connection.conversation.at_work
    feed(connection, RESULT)
    assert not connection.conversation.at_work
    feed(connection, begins, ASSISTANT)
    assert connection.conversation.at_work
    feed(connection, ends)
    assert not connection.conversation.at_work


@pytest.mark.parametrize("status", ["completed", "failed", "stopped", "killed", "cancelled"])
def test_a_task_that_reports_its_end_is_not_running_any_more(status: str) -> None:
    connection = started()
    feed(connection, tasks("b1", "b2"), RESULT)
    update = {"type": "system", "subtype": "task_updated", "task_id": "b1", "patch": {"status": "paused"}}
    assert items(feed(connection, update)) == ["TaskUpdatedMessage"]
    assert len(connection.conversation.background_tasks) == 2
    update["patch"] = {"status": status}
    assert items(feed(connection, update)) == ["TaskUpdatedMessage", "BackgroundTasksChanged"]
    assert [task.task_id for task in connection.conversation.background_tasks] == ["b2"]
    assert connection.conversation.unsettled
    feed(connection, NOTICE | {"task_id": "b2"}, IDLE)
    assert not connection.conversation.background_tasks
    assert not connection.conversation.at_work


def told(chunks: list[bytes]) -> list[object]:
    connection = started(limits=Limits(line_bytes=1 << 20))
    for chunk in chunks:
        connection.receive_data(chunk)
    connection.receive_eof()
    connection.process_exited(0)
    found: list[object] = []
    for event in connection.events_received():
        match event:
            case events.MessagesReceived():
                found += [(message.raw, message) for message in event.messages]
            case events.WarningRaised():
                found.append((event.warning.code, event.warning.context))
            case events.BadLine():
                found.append((event.error.line, event.error.reason))
            case _:
                found.append(type(event))
    return found


WHOLE = GOLDEN + NOISE + GOLDEN
EXPECTED = told([WHOLE])


def test_the_golden_frames_are_delivered_with_their_bytes() -> None:
    delivered = [found for found in told([GOLDEN]) if isinstance(found, tuple)]
    kinds = {type(message) for _, message in delivered}
    # Session states that the library asked for on its own behalf are not delivered.
    assert kinds >= set(MESSAGE_TYPES.values()) - {SessionStateChangedMessage}
    assert [raw for raw, _ in delivered] == [line for line in GOLDEN.splitlines() if line in dict(delivered)]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=60))
def test_random_cuts_change_nothing(places: list[int]) -> None:
    edges = [0, *sorted(places), len(WHOLE)]
    assert told([WHOLE[start:end] for start, end in pairwise(edges)]) == EXPECTED
