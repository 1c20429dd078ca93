"""Which of several endings counts. No shell: the core alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from hackamore import HookMatcher, Options
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.readers import Readers
from tests.session.test_deadlines import Clocked


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


def test_a_server_that_is_an_async_function_is_awaited() -> None:
    async def serve(message: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": message["id"], "result": {}}

    session = Clocked(mcp_servers={"s": serve})
    session.core.connection.data_to_send()
    request = {"subtype": "mcp_message", "server_name": "s", "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}}
    session.take({"type": "control_request", "request_id": "r", "request": request})
    (job,) = session.core.callbacks.take()
    assert job.callee.is_async
    session.core.callback_ended(job, asyncio.run(job.call()), None, session.now)
    answer = json.loads(session.core.connection.data_to_send())["response"]["response"]
    assert answer == {"mcp_response": {"jsonrpc": "2.0", "id": 1, "result": {}}}
