"""A query over the bidirectional launch gives the items and endings of the table. No shell: the core alone."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from hackamore import HookMatcher, Limits, Options, ProcessError, StreamWarning, TurnTimeoutError
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.events import WarningRaised
from hackamore._engine.session.readers import Inbox
from hackamore._engine.session.steering import SteeredQuery
from hackamore.errors import DecodeErrorLimitError, LineTooLongError, PromptIterableError, SlowConsumerError

TEXT = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}}
RESULT = {"type": "result", "subtype": "success"}


class Steered:
    """A query whose session is ready, and which has sent its prompt."""

    def __init__(self, prompt: object = "hello", **options: Any) -> None:
        self.posted: deque[Callable[[], None]] = deque()

        def post(function: Callable[[], None]) -> None:
            if threading.current_thread() is threading.main_thread():
                function()
            else:
                self.posted.append(function)

        self.session = SessionCore(Options(**options), post, SteeredQuery)
        self.query = self.session.audience
        self.query.send_all(prompt, 0.0)
        self.session.connection.state.begin_start()
        request_id = self.session.connection.send_initialize({})
        self.take({"type": "control_response", "response": {"subtype": "success", "request_id": request_id}})

    def take(self, *frames: dict[str, Any] | bytes) -> list[str]:
        """Take lines of the CLI; return what the stream gets."""
        lines = [frame if isinstance(frame, bytes) else json.dumps(frame).encode() for frame in frames]
        self.session.connection.receive_data(b"".join(line + b"\n" for line in lines))
        self.session.pump(0.0)
        return self.items()

    def items(self) -> list[str]:
        return [item.code if isinstance(item, StreamWarning) else type(item).__name__ for item in self.query.take()]


def test_bad_lines_are_items_and_too_many_in_a_row_end_it() -> None:
    steered = Steered()
    assert steered.take(TEXT, b"x", TEXT, *[b"x"] * 4) == [
        "AssistantMessage",
        "DecodeError",
        "AssistantMessage",
        *["DecodeError"] * 4,
    ]
    assert not steered.session.connection.state.over
    assert not steered.session.stop.asked
    assert steered.take(b"last") == []
    assert isinstance(steered.query.core.terminal_error, DecodeErrorLimitError)
    assert steered.query.core.terminal_error.last.line == b"last"
    assert steered.query.over
    assert steered.session.connection.state.over


def test_after_the_result_bad_lines_are_warnings() -> None:
    steered = Steered()
    assert steered.take(TEXT, RESULT, *[b"x"] * 7) == [
        "AssistantMessage",
        "ResultMessage",
        *["UNEXPECTED_DATA_AFTER_RESULT"] * 7,
    ]
    assert not steered.query.over


@pytest.mark.parametrize("on_oversize", ["raise", "skip"])
def test_a_line_that_is_too_long(on_oversize: str) -> None:
    steered = Steered(on_oversize=on_oversize, limits=Limits(line_bytes=2_000))
    skipped = on_oversize == "skip"
    assert steered.take(b"x" * 2_001, TEXT) == (["OVERSIZED_LINE_SKIPPED", "AssistantMessage"] if skipped else [])
    assert isinstance(steered.query.core.terminal_error, LineTooLongError) is not skipped


def test_a_timeout_of_a_prompt_that_follows_an_answer_ends_it() -> None:
    steered = Steered(iter(()), timeouts={"turn": 10.0})  # its input stays open
    first = steered.session.send("hello", None, 5.0)
    steered.session.send("another", None, 5.0)
    assert steered.take(TEXT, {**RESULT, "user_message_uuids": [first.id]}) == ["AssistantMessage", "ResultMessage"]
    steered.session.expire(20.0, b"")
    steered.session.pump(20.0)
    assert isinstance(steered.query.core.terminal_error, TurnTimeoutError)


def test_unread_items_are_limited_and_taken_ones_do_not_count() -> None:
    steered = Steered(limits=Limits(buffered_bytes=10_000))
    for _ in range(100):
        assert steered.take({**TEXT, "uuid": "x" * 900}) == ["AssistantMessage"]
    steered.session.connection.receive_data(b"".join(json.dumps(TEXT).encode() + b"\n" for _ in range(100)))
    steered.session.pump(0.0)
    assert isinstance(steered.query.core.terminal_error, SlowConsumerError)
    assert {*steered.items()} == {"AssistantMessage"}


def test_a_callback_may_read_and_send_as_well() -> None:
    steered = Steered(iter(()))
    turn = steered.session.send("hello", None, 0.0)
    assert steered.take(TEXT, {**RESULT, "user_message_uuids": [turn.id]}) == ["AssistantMessage", "ResultMessage"]
    assert turn.over.is_set
    assert turn.result is not None


def test_unread_items_of_several_reads_count_together() -> None:
    steered = Steered()
    before = steered.query.progress()[0]
    line = json.dumps(TEXT).encode() + b"\n"
    for _ in range(3):
        steered.session.connection.receive_data(line)
        steered.session.pump(0.0)
    assert steered.query.progress()[0] - before == 3 * (len(line) - 1)


def test_progress_counts_what_was_taken_and_what_was_not() -> None:
    steered = Steered()
    assert steered.query.progress() == (0, 0)
    line = json.dumps(TEXT).encode()
    steered.session.connection.receive_data((line + b"\n") * 3)
    steered.session.pump(0.0)
    assert steered.query.progress() == (3 * len(line), 0)
    steered.query.take()
    assert steered.query.progress() == (0, 3 * len(line))
    steered.take(TEXT)
    assert steered.query.progress() == (0, 4 * len(line))


TASKS = {
    "type": "system",
    "subtype": "background_tasks_changed",
    "tasks": [{"task_id": "t", "task_type": "local_bash"}],
}


@pytest.mark.parametrize(("frames", "seconds"), [([], 30.0), ([TASKS], 60.0)], ids=["silent", "busy"])
def test_a_cli_that_stays_after_the_last_answer_is_limited(frames: list[dict[str, Any]], seconds: float) -> None:
    steered = Steered(timeouts={"after_result": 30.0, "background": 60.0})
    steered.take(*frames, {"type": "system", "subtype": "session_state_changed", "state": "running"}, TEXT, RESULT)
    steered.session.expire(seconds - 0.1, b"")
    assert not steered.query.over
    steered.session.expire(seconds, b"")
    (warning,) = steered.query.take()
    assert isinstance(warning, StreamWarning)
    assert (warning.code, warning.context) == (
        "CLI_DID_NOT_EXIT",
        {"seconds": seconds, "background_tasks": ["t"] if frames else []},
    )
    assert steered.query.over
    assert steered.session.stop.asked


# -- prompts -----------------------------------------------------------------------------------------------------------


def feeder(steered: Steered) -> Any:
    """Return the job that reads the prompts."""
    (job,) = steered.session.callbacks.take()
    return job


def sent(steered: Steered) -> list[Any]:
    frames = [json.loads(line) for line in steered.session.connection.data_to_send().splitlines()]
    return [frame["message"]["content"] for frame in frames if frame["type"] == "user"]


def test_one_prompt_is_sent_with_its_fields_and_closes_the_input() -> None:
    frame = {"type": "user", "message": {"content": "hello"}, "uuid": "mine", "priority": "now"}
    steered = Steered(iter([frame]))
    job = feeder(steered)
    job.call()
    (written,) = [
        json.loads(line)
        for line in steered.session.connection.data_to_send().splitlines()
        if json.loads(line)["type"] == "user"
    ]
    assert (written["uuid"], written["priority"], written["message"]["content"]) == ("mine", "now", "hello")
    assert not steered.session.connection.state.finishing
    steered.session.callback_ended(job, None, None, 0.0)
    assert steered.session.connection.state.finishing
    alone = Steered("hello")
    assert sent(alone) == ["hello"]
    assert alone.session.connection.state.finishing
    assert list(alone.session.callbacks.take()) == []


def test_prompts_are_read_once_the_session_is_ready() -> None:
    def post(function: Callable[[], None]) -> None:
        function()

    session = SessionCore(Options(), post, SteeredQuery)
    session.audience.send_all(iter(["one"]), 0.0)
    session.connection.state.begin_start()
    session.connection.send_initialize({})
    assert list(session.callbacks.take()) == []


def test_a_prompt_that_cannot_be_sent_ends_the_query_with_its_place_and_reason() -> None:
    steered = Steered(iter(["one", "two", [{"type": "text", "text": "\ud800"}], "four"]))
    job = feeder(steered)
    job.call()
    steered.session.pump(0.0)
    error = steered.query.core.terminal_error
    assert isinstance(error, PromptIterableError)
    assert error.count == 2
    assert "half a character" in error.reason
    assert isinstance(error.__cause__, ValueError)
    assert sent(steered) == []  # nothing is written to a session that is over


def test_an_iterable_that_raises_ends_the_query_and_keeps_what_came() -> None:
    steered = Steered(iter(["one"]))
    job = feeder(steered)
    job.call()
    steered.take(TEXT)
    problem = LookupError("no more")
    steered.session.callback_ended(job, None, problem, 0.0)
    steered.session.pump(0.0)
    error = steered.query.core.terminal_error
    assert isinstance(error, PromptIterableError)
    assert (error.count, error.reason, error.__cause__) == (1, "LookupError: no more", problem)


def test_prompts_that_come_after_the_end_change_nothing() -> None:
    steered = Steered(iter(["one", "two"]))
    job = feeder(steered)
    steered.session.stop.begin(0.0)
    job.call()
    assert sent(steered) == []
    steered.session.connection.receive_eof()
    steered.session.connection.process_exited(0)
    steered.session.pump(0.0)
    assert job.state.cancelled
    assert steered.query.core.terminal_error is None
    steered.session.callback_ended(job, None, None, 0.0)
    assert steered.query.over


def test_the_end_of_a_query_stops_the_reader_of_its_prompts() -> None:
    steered = Steered(iter(["one"]))
    job = feeder(steered)
    stopped: list[None] = []
    assert job.started(lambda: stopped.append(None))
    steered.session.lost("gone", 0.0)
    assert job.state.cancelled
    list(steered.session.callbacks.take())
    assert stopped == [None]


def test_the_reader_of_prompts_has_room_again_for_each_answer() -> None:
    steered = Steered(iter([str(number) for number in range(40)]))
    job = feeder(steered)
    reader = threading.Thread(target=job.call)
    reader.start()
    try:
        answered = 0
        while answered < 40:
            if steered.posted:
                steered.posted.popleft()()
            turns = steered.session.connection.turns.open
            if turns:
                answered += len(turns)
                assert len(turns) <= 16
                steered.take({**RESULT, "user_message_uuids": [turn.id for turn in turns]})
    finally:
        steered.session.lost("gone", 0.0)
        reader.join(30)
    assert not reader.is_alive()


# -- endings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["after_result", "background"])
def test_a_cli_that_waits_for_a_callback_may_stay(kind: str) -> None:
    steered = Steered(
        timeouts={"after_result": 30.0, "background": 30.0},
        hooks={"PreToolUse": [HookMatcher(hooks=[lambda *_: None], timeout=500.0)]},
    )
    request = {"subtype": "hook_callback", "callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}
    ask = {"type": "control_request", "request_id": "r", "request": request}
    steered.take(*([TASKS] if kind == "background" else []), TEXT, RESULT, ask)
    for now in (30.0, 60.0):
        steered.session.expire(now, b"")
        assert not steered.query.core.over
        assert steered.session.deadlines.seconds_of(kind, "") == 30.0
    (job,) = steered.session.callbacks.take()
    steered.session.callback_ended(job, None, None, 60.0)
    steered.session.expire(90.0, b"")
    assert steered.items() == ["CLI_DID_NOT_EXIT"]


def test_an_exit_before_the_answer_to_a_later_prompt_is_an_error() -> None:
    steered = Steered(iter(()))
    first = steered.session.send("one", None, 0.0)
    steered.session.send("two", None, 0.0)
    steered.take({**RESULT, "user_message_uuids": [first.id]})
    steered.session.process_gone(3, b"it broke")
    steered.session.pump(0.0)
    error = steered.query.core.terminal_error
    assert isinstance(error, ProcessError)
    assert (error.exit_code, error.diagnostic.stderr_tail) == (3, "it broke")


@pytest.mark.parametrize("exit_code", [0, 1])
def test_an_exit_after_all_answers_is_the_end(exit_code: int) -> None:
    steered = Steered()
    (turn,) = steered.session.connection.turns.open
    steered.take({**RESULT, "user_message_uuids": [turn.id]})
    steered.session.process_gone(exit_code, b"")
    steered.session.pump(0.0)
    assert steered.query.core.terminal_error is None
    assert steered.items() == ([] if exit_code == 0 else ["NONZERO_EXIT_AFTER_RESULT"])
    assert steered.query.over


def test_the_stream_says_how_a_start_failed_unless_the_cli_did_not_start() -> None:
    def failed(*frames: dict[str, Any], exit_code: int | None) -> SteeredQuery:
        session = SessionCore(Options(), lambda function: function(), SteeredQuery)
        session.audience.send_all("hello", 0.0)
        session.connection.state.begin_start()
        session.connection.send_initialize({})
        session.connection.receive_data(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
        session.process_gone(exit_code, b"")
        session.pump(0.0)
        assert session.start_error is not None
        return session.audience

    assert not failed(exit_code=1).tells_the_end
    assert failed({**RESULT, "is_error": True, "errors": ["not with me"]}, exit_code=1).tells_the_end
    steered = Steered()
    assert steered.query.tells_the_end


def test_warnings_are_items_and_events_and_wake_the_reader() -> None:
    steered = Steered()
    events = Inbox()
    steered.query.add(events, events=True)
    wakes = steered.query.more.wakes
    steered.session.warnings.add("INCOMPLETE_LAST_LINE", "w")
    assert steered.query.more.wakes > wakes
    assert steered.items() == ["INCOMPLETE_LAST_LINE"]
    (event,) = events.items
    assert isinstance(event, WarningRaised)
    assert event.warning.code == "INCOMPLETE_LAST_LINE"


def test_bad_lines_count_as_unread_until_they_are_taken() -> None:
    steered = Steered(limits=Limits(consecutive_decode_errors=100))
    steered.session.connection.receive_data(b"x" * 50 + b"\n")
    steered.session.pump(0.0)
    assert steered.query.progress()[0] == 50
    steered.query.take()
    assert steered.query.progress()[0] == 0


def test_the_stream_takes_a_thousand_items_at_once() -> None:
    steered = Steered()
    steered.session.connection.receive_data((json.dumps(TEXT).encode() + b"\n") * 1_500)
    steered.session.pump(0.0)
    assert [len(steered.query.take()) for _ in range(3)] == [1_000, 500, 0]


def test_progress_counts_the_cursors_of_callbacks_as_well() -> None:
    steered = Steered()
    inbox = Inbox()
    steered.query.add(inbox, events=False)
    size = len(json.dumps(TEXT))
    steered.session.connection.receive_data((json.dumps(TEXT).encode() + b"\n") * 2)
    steered.session.pump(0.0)
    assert steered.query.progress() == (4 * size, 0)
    inbox.take()
    assert steered.query.progress() == (3 * size, size)
    steered.query.take()
    assert steered.query.progress() == (size, 3 * size)


def test_a_line_that_waits_for_the_exit_is_not_unread() -> None:
    steered = Steered()
    steered.session.connection.receive_data(json.dumps(TEXT).encode() + b'\n{"type":')
    steered.session.connection.receive_eof()
    steered.session.pump(0.0)
    assert steered.query.progress() == (len(json.dumps(TEXT)), 0)


def test_once_the_input_is_closed_only_the_exit_is_limited() -> None:
    steered = Steered(timeouts={"after_result": 30.0})
    steered.take(TEXT, RESULT)
    assert steered.session.deadlines.is_armed("after_result", "")
    steered.session.connection.outbox.input_was_closed()
    steered.session.input_closed(5.0)
    assert not steered.session.deadlines.is_armed("after_result", "")
    assert steered.session.deadlines.seconds_of("finish", "") == 30.0
    steered.session.expire(35.0, b"")
    assert "CLI_DID_NOT_EXIT" in steered.items()
