"""Which of several endings counts. No shell: the core alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hackamore import HookMatcher, Options
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.readers import Readers


def asked(callback: Callable[..., Any] = lambda asked, context: None) -> SessionCore[Readers]:
    """A session whose CLI has called a hook, as request `r0`."""

    def post(function: Callable[[], None]) -> None:
        function()

    core = SessionCore(Options(hooks={"PreToolUse": [HookMatcher(hooks=[callback])]}), post, Readers)
    core.connection.state.begin_start()
    started = core.connection.send_initialize({})
    request = {"subtype": "hook_callback", "callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}
    for frame in (
        {"type": "control_response", "response": {"subtype": "success", "request_id": started}},
        {"type": "control_request", "request_id": "r0", "request": request},
    ):
        core.connection.receive_data(json.dumps(frame).encode() + b"\n")
    core.pump(0.0)
    core.connection.data_to_send()
    return core


def codes(core: SessionCore[Readers]) -> list[str]:
    return [warning.code for warning in core.warnings.kept]


@pytest.mark.parametrize("request_id", ["r0", "never asked"])
def test_a_timeout_after_the_answer_changes_nothing(request_id: str) -> None:
    core = asked()
    (job,) = core.callbacks.take()
    core.callbacks.finish(job, None, None)
    assert b'"r0"' in core.connection.data_to_send()
    core.callbacks.expire(request_id, 5.0)
    assert core.connection.data_to_send() == b""
    assert codes(core) == []
    assert not core.callbacks.to_stop


def test_a_timeout_answers_once_and_stops_the_callback() -> None:
    core = asked()
    (job,) = core.callbacks.take()
    stopped: list[None] = []
    assert job.started(lambda: stopped.append(None))
    core.callbacks.expire("r0", 5.0)
    core.callbacks.finish(job, None, None)
    assert core.connection.data_to_send().count(b"control_response") == 1
    assert codes(core) == ["CALLBACK_TIMED_OUT"]
    assert job.state.cancelled
    assert list(core.callbacks.take()) == []
    assert stopped == [None]


def test_a_request_that_ended_in_the_queue_is_not_started() -> None:
    core = asked()
    cancel = {"type": "control_cancel_request", "request_id": "r0"}
    core.connection.receive_data(json.dumps(cancel).encode() + b"\n")
    core.pump(0.0)
    assert list(core.callbacks.take()) == []
    assert core.connection.data_to_send() == b""
