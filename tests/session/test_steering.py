"""A query over the bidirectional launch gives the items and endings of the table. No shell: the core alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bridle import Limits, Options, StreamWarning, TurnTimeoutError
from bridle.errors import DecodeErrorLimitError, LineTooLongError, SlowConsumerError
from bridle.session.core import SessionCore
from bridle.session.steering import SteeredQuery

TEXT = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}}
RESULT = {"type": "result", "subtype": "success"}


class Steered:
    """A query whose session is ready, and which has sent its prompt."""

    def __init__(self, prompt: object = "hello", **options: Any) -> None:
        def post(function: Callable[[], None]) -> None:
            function()

        self.session = SessionCore(Options(**options), post, SteeredQuery)
        self.query = self.session.audience
        self.query.send_all(prompt, 0.0)
        self.session.connection.begin_start()
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
    assert not steered.session.connection.over
    assert steered.take(b"last") == []
    assert isinstance(steered.query.core.terminal_error, DecodeErrorLimitError)
    assert steered.query.core.terminal_error.last.line == b"last"
    assert steered.query.over
    assert steered.session.connection.over


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
    assert steered.session.stop_asked
