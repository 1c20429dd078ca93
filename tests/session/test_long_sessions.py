"""What grows with the length of a session, or with how much happens at once, costs no more than its share. No shell: the core alone."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hackamore import Allow, HookMatcher, Limits, Options, SlowConsumerError
from hackamore._engine.protocol.states.session import TurnState
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.events import ActivityChanged, SessionFailed
from hackamore._engine.session.readers import Inbox, Readers
from tests.contract import shows

MANY = 10_000


def running(**options: Any) -> SessionCore[Readers]:
    def post(function: Callable[[], None]) -> None:
        function()

    core = SessionCore(Options(**options), post, Readers)
    core.connection.state.begin_start()
    request_id = core.connection.send_initialize({})
    take(core, {"type": "control_response", "response": {"subtype": "success", "request_id": request_id}})
    return core


def take(core: SessionCore[Readers], *frames: dict[str, Any]) -> None:
    core.connection.receive_data(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
    core.pump(time.monotonic())


@contextmanager
def processor_seconds(most: float) -> Iterator[None]:
    """Fail if it takes more of the processor's time: several times what it takes, and a part of what its square would."""
    began = time.process_time()
    yield
    assert time.process_time() - began < most


@pytest.mark.parametrize("idle", [None, 60.0])
def test_thousands_of_hooks_at_once_cost_as_much_as_one_after_the_other(idle: float | None) -> None:
    core = running(hooks={"PreToolUse": [HookMatcher(hooks=[lambda asked, context: None])]}, timeouts={"idle": idle})
    turn = core.send("hello", None, time.monotonic())
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}
    request = {"subtype": "hook_callback", "callback_id": "hook_0", "input": asked}
    answered = 0
    with processor_seconds(6):
        take(core, *({"type": "control_request", "request_id": f"r{n}", "request": request} for n in range(MANY)))
        while core.callbacks.to_run:
            core.callbacks.finish(core.callbacks.to_run.popleft(), None, None)
            answered += core.connection.data_to_send().count(b"control_response")
    assert answered == MANY
    assert turn.state is TurnState.QUEUED
    assert [warning.code for warning in core.warnings.kept] == ["CALLBACK_QUEUE_FULL"]


def test_thousands_of_turns_that_are_held_cost_the_next_one_nothing() -> None:
    core = running()
    held = []
    with processor_seconds(6):
        for _ in range(MANY):
            turn = core.send("hello", None, time.monotonic())
            take(core, {"type": "result", "subtype": "success", "user_message_uuids": [turn.id]})
            turn.inbox.clear()
            held.append(turn)
    assert {turn.state for turn in held} == {TurnState.COMPLETED}


def test_what_held_turns_have_not_read_is_counted_all_the_same() -> None:
    core = running(limits=Limits(buffered_bytes=10_000))
    held = []
    while not core.connection.state.over:
        turn = core.send("hello", None, time.monotonic())
        take(core, {"type": "result", "subtype": "success", "user_message_uuids": [turn.id], "result": "x" * 900})
        held.append(turn)
    assert [warning.code for warning in core.warnings.kept] == ["SLOW_CONSUMER"]
    assert core.warnings.kept[0].context["buffered"] in range(5_001, 6_100)
    sizes = [turn.inbox.size for turn in held]
    assert sum(sizes[:-1]) <= 10_000 < sum(sizes)


@shows("session.reader.bound")
def test_unread_events_count_and_none_is_dropped() -> None:
    core = running(limits=Limits(buffered_bytes=100_000))
    cursor = Inbox()
    core.audience.add(cursor, events=True)
    states = 0
    while not core.connection.state.over:
        states += 1
        take(core, {"type": "system", "subtype": "session_state_changed", "state": ("running", "idle")[states % 2]})
    assert [warning.code for warning in core.warnings.kept] == ["SLOW_CONSUMER"]
    events = [cursor.take() for _ in range(len(cursor.items))]
    assert cursor.size == 0
    assert [type(event) for event in events].count(ActivityChanged) == states
    assert isinstance(events[-1], SessionFailed)
    assert isinstance(events[-1].reason, SlowConsumerError)
    assert states < 500


def test_a_cursor_of_events_that_is_read_fills_nothing() -> None:
    core = running(limits=Limits(buffered_bytes=100_000))
    cursor = Inbox()
    core.audience.add(cursor, events=True)
    for number in range(2_000):
        take(core, {"type": "system", "subtype": "session_state_changed", "state": ("running", "idle")[number % 2]})
        while cursor.take() is not None:
            pass
    assert list(core.warnings.kept) == []


def price(article: str) -> int:
    return len(article)


KINDS: dict[str, dict[str, Any]] = {
    "permission": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t"},
    "hook": {"subtype": "hook_callback", "callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}},
    "dialog": {"subtype": "request_user_dialog", "dialog_kind": "x", "payload": {}},
    "elicitation": {"subtype": "elicitation", "mcp_server_name": "s", "message": "m"},
    "mcp": {
        "subtype": "mcp_message",
        "server_name": "shop",
        "message": {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "price", "arguments": {"article": "a"}},
        },
    },
}


def asking(**options: Any) -> SessionCore[Readers]:
    return running(
        hooks={"PreToolUse": lambda asked, context: None},
        can_use_tool=lambda request: Allow(),
        on_user_dialog=lambda request: None,
        on_elicitation=lambda request: None,
        mcp_servers={"shop": [price]},
        **options,
    )


@shows("session.reader.bound")
@pytest.mark.parametrize("kind", KINDS)
def test_open_requests_count_and_too_many_are_an_error_after_a_warning(kind: str) -> None:
    core = asking(limits=Limits(buffered_bytes=300_000))
    asked = 0
    while not core.connection.state.over:
        asked += 1
        take(core, {"type": "control_request", "request_id": f"r{asked}", "request": KINDS[kind]})
        assert asked < 1_000
    error = core.connection.state.terminal_error
    assert isinstance(error, SlowConsumerError)
    assert error.limit == 300_000 < error.buffered < 306_000
    assert 90 < asked < 120
    assert [warning.code for warning in core.warnings.kept if warning.code != "CALLBACK_QUEUE_FULL"] == [
        "SLOW_CONSUMER"
    ]
    assert core.connection.exchanges.in_flight.size == 0


@pytest.mark.parametrize("kind", KINDS)
def test_answered_and_cancelled_requests_count_for_nothing(kind: str) -> None:
    core = asking(limits=Limits(buffered_bytes=300_000))
    for number in range(1_000):
        take(core, {"type": "control_request", "request_id": f"r{number}", "request": KINDS[kind]})
        jobs = list(core.callbacks.take())
        if number % 2:
            core.callback_ended(jobs[0], None, LookupError("a bug of the callback"), time.monotonic())
        else:
            take(core, {"type": "control_cancel_request", "request_id": f"r{number}"})
    assert {warning.code for warning in core.warnings.kept} == {"CALLBACK_FAILED"}
    assert core.connection.exchanges.in_flight.size == 0


def test_requests_before_initialize_are_refused_beyond_the_limit() -> None:
    core = SessionCore(Options(limits=Limits(buffered_bytes=10_000)), lambda function: function(), Readers)
    core.connection.state.begin_start()
    asked = {**KINDS["permission"], "input": {"command": "x" * 4_000}}
    take(core, *({"type": "control_request", "request_id": f"r{number}", "request": asked} for number in range(4)))
    refused = [json.loads(line)["response"] for line in core.connection.data_to_send().splitlines()]
    assert [(answer["request_id"], answer["error"]) for answer in refused] == [
        ("r2", "Too many requests before `initialize`"),
        ("r3", "Too many requests before `initialize`"),
    ]


@shows("session.reader.flat")
@pytest.mark.parametrize("cursors", [0, 2])
def test_memory_stays_flat_for_a_reader_that_keeps_up(cursors: int) -> None:
    core = running(timeouts={"idle": 60.0})
    turn = core.send("hello", None, time.monotonic())
    inboxes = [turn.inbox, *(Inbox() for _ in range(cursors))]
    for number, inbox in enumerate(inboxes[1:]):
        core.audience.add(inbox, events=number == 1)
    frame = {"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * 2_000}]}}
    batch = b"".join(json.dumps(frame).encode() + b"\n" for _ in range(50))

    def read(messages: int) -> int:
        for _ in range(messages // 50):
            core.connection.receive_data(batch)
            core.pump(time.monotonic())
            for inbox in inboxes:
                while inbox.take() is not None:
                    pass
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full = read(10_000)  # the last messages are kept for an error's `partial`
        assert full < 40_000_000
        assert read(10_000) - full < 100_000
    finally:
        tracemalloc.stop()
    assert not core.connection.state.over
