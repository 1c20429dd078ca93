"""The connection, trigger by trigger: bad input, matching, endings."""

from __future__ import annotations

import json
import pickle
import re
import sys
from typing import Any, TypeVar

import pytest

from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection, Role
from hackamore._engine.protocol.states.session import Ending, Handshake, SessionActivity, SessionState, TurnState
from hackamore.errors import (
    CLIExitedDuringInitError,
    ControlRejectedError,
    ControlTimeoutError,
    DecodeErrorLimitError,
    HackamoreError,
    InitializationError,
    InitializationTimeoutError,
    InitQueueOverflowError,
    SessionClosedError,
    SlowConsumerError,
    TooManyPendingRequestsError,
    UnsupportedCLIVersionError,
)
from hackamore.messages import AssistantMessage, ResultMessage
from hackamore.messages.results import InterruptReceipt, ServerInfo
from hackamore.options.bounds import Limits
from tests.contract import shows

E = TypeVar("E", bound=events.Event)


class Host:
    """A host connection with the other side played by hand."""

    def __init__(self, *, ready: bool = True, **more: Any) -> None:
        self.connection = Connection(**more)
        self.events: list[events.Event] = []
        if ready:
            self.initialize()
            self.answer(self.initialize_id, {"models": [], "capabilities": ["x"]})
            self.take()

    def initialize(self, **fields: Any) -> None:
        self.initialize_id = self.connection.send_initialize(fields)

    def feed(self, *frames: Any) -> None:
        lines = [frame if isinstance(frame, bytes) else json.dumps(frame).encode() for frame in frames]
        self.connection.receive_data(b"".join(line + b"\n" for line in lines))
        self.events += self.connection.events_received()

    def ask(self, request_id: Any, subtype: Any, **fields: Any) -> None:
        self.feed({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})

    def answer(self, request_id: str, payload: Any = None, **more: Any) -> None:
        response = {"subtype": "success", "request_id": request_id, "response": payload, **more}
        self.feed({"type": "control_response", "response": response})

    def refuse(self, request_id: str, error: Any = "no", **more: Any) -> None:
        response = {"subtype": "error", "request_id": request_id, "error": error, **more}
        self.feed({"type": "control_response", "response": response})

    def stage(self) -> SessionState:
        return self.connection.state.lifecycle

    def take(self) -> list[dict[str, Any]]:
        """Return the frames that were written."""
        self.events += self.connection.events_received()
        return [json.loads(line) for line in self.connection.data_to_send().splitlines()]

    def of(self, kind: type[E]) -> list[E]:
        self.events += self.connection.events_received()
        return [event for event in self.events if isinstance(event, kind)]

    def turn(self, turn_id: str) -> list[TurnState]:
        return [event.state for event in self.of(events.TurnStateChanged) if event.turn_id == turn_id]

    def whose(self, kind: Any = AssistantMessage) -> list[tuple[str, ...]]:
        batches = self.of(events.MessagesReceived)
        return [batch.turn_ids for batch in batches for message in batch.messages if isinstance(message, kind)]


def assistant(**more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": "x"}]}, **more}


def result(**more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s1", **more}


def report(turn_id: str, state: str) -> dict[str, Any]:
    return {"type": "command_lifecycle", "command_uuid": turn_id, "state": state}


def session_state(state: str, **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": True, **more}


def tasks(*ids: str, **more: Any) -> dict[str, Any]:
    listed = [{"task_id": task, "task_type": "local_bash", **more} for task in ids]
    return {"type": "system", "subtype": "background_tasks_changed", "tasks": listed}


HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "Stop"}}
TOOL = {"tool_name": "Bash", "input": {"command": "ls"}}
MCP = {"server_name": "s", "message": {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}}


# -- the handshake ----------------------------------------------------------------------------------------------------


@shows("session.handshake.answer", "session.queueing.order")
def test_the_handshake_and_what_waited_for_it_go_out_in_order() -> None:
    host = Host(ready=False)
    host.connection.state.begin_start()
    turn = host.connection.conversation.send_prompt("early")
    request = host.connection.exchanges.send_request("get_usage")
    host.initialize(hooks=None)
    [first] = host.take()
    assert first["request"] == {"subtype": "initialize", "hooks": None}
    assert host.stage() is SessionState.INITIALIZING
    host.answer(host.initialize_id, {"models": [{"value": "m"}]})
    prompt, asked = host.take()
    assert (prompt["uuid"], prompt["message"]) == (turn, {"role": "user", "content": "early"})
    assert asked["request_id"] == request
    assert host.stage() is SessionState.RUNNING
    [completed] = host.of(events.HandshakeCompleted)
    assert isinstance(completed.server_info, ServerInfo)
    assert completed.server_info.models[0].value == "m"


@shows("control.operations.ids")
def test_request_ids_have_the_form_of_the_contract() -> None:
    host = Host()
    assert re.fullmatch(r"req_2_[0-9a-f]{8}", host.connection.exchanges.send_request("get_usage"))


@shows("session.handshake.implicit", "session.handshake.unconfirmed")
def test_a_request_of_the_cli_confirms_implicitly() -> None:
    host = Host(ready=False)
    host.initialize()
    host.connection.conversation.send_prompt("early")
    host.take()
    host.ask("m1", "mcp_message", **MCP)
    assert [frame["type"] for frame in host.take()] == ["user"]
    assert host.stage() is SessionState.INITIALIZING
    assert host.connection.state.handshake is Handshake.IMPLICIT
    assert host.connection.expire(host.initialize_id, 60.0)
    [warning] = [event.warning for event in host.of(events.WarningRaised)]
    assert (warning.code, warning.context) == ("INIT_UNCONFIRMED", {"seconds": 60.0})
    assert warning.message == "The CLI works but has not answered `initialize`: its capabilities are unknown."
    assert [event.server_info for event in host.of(events.HandshakeCompleted)] == [None]
    assert host.stage() is SessionState.RUNNING
    host.answer(host.initialize_id, {})
    assert host.connection.conversation.server_info is None


@shows("session.handshake.capabilities")
def test_a_guard_that_needs_the_answer_holds_everything_back() -> None:
    host = Host(ready=False, hold_until_confirmed=True)
    host.initialize()
    host.connection.conversation.send_prompt("early")
    host.take()
    host.ask("m1", "mcp_message", **MCP)
    assert host.take() == []
    host.answer(host.initialize_id, {})
    assert [frame["type"] for frame in host.take()] == ["user"]


@shows("session.handshake.refused", "session.queueing.failed")
def test_an_error_answer_fails_the_start_and_all_that_waited() -> None:
    host = Host(ready=False)
    host.initialize()
    turn = host.connection.conversation.send_prompt("early")
    request = host.connection.exchanges.send_request("get_usage")
    host.refuse(host.initialize_id, "not with me")
    assert [type(event) for event in host.of(events.HandshakeFailed)] == [events.HandshakeFailed]
    [resolved] = host.of(events.RequestResolved)
    assert resolved.request_id == request
    assert isinstance(resolved.error, InitializationError)
    assert "not with me" in str(resolved.error)
    assert host.turn(turn) == [TurnState.FAILED]
    assert host.stage() is SessionState.FAILED
    assert isinstance(host.events[-1], events.Ended)
    with pytest.raises(InitializationError):
        host.connection.conversation.send_prompt("late")


@shows("session.handshake.silence")
def test_silence_fails_the_start() -> None:
    host = Host(ready=False)
    host.initialize()
    host.connection.expire(host.initialize_id, 60.0, b"loading plugins")
    [failed] = host.of(events.HandshakeFailed)
    assert isinstance(failed.error, InitializationTimeoutError)
    assert (failed.error.timeout, failed.error.output) == (60.0, "loading plugins")


@shows("errors.start")
@pytest.mark.parametrize(
    ("frames", "stderr", "expected"),
    [
        ([], b"error: unknown option '--new'", UnsupportedCLIVersionError),
        ([result(is_error=True, errors=["No conversation found"])], b"", InitializationError),
        ([], b"it broke", CLIExitedDuringInitError),
    ],
)
def test_a_cli_that_exits_during_the_start(frames: list[Any], stderr: bytes, expected: type[HackamoreError]) -> None:
    host = Host(ready=False)
    host.initialize()
    host.feed(*frames)
    host.connection.receive_eof()
    assert not host.of(events.HandshakeFailed), "its exit code is not known yet"
    host.connection.process_exited(1, stderr)
    [failed] = host.of(events.HandshakeFailed)
    assert isinstance(failed.error, expected)
    pickle.loads(pickle.dumps(failed.error))


@shows("session.queueing.bound", "session.queueing.prompts")
def test_operations_have_a_bound_while_they_wait_and_prompts_do_not() -> None:
    host = Host(ready=False, limits=Limits(queued_operations=2))
    for _ in range(2):
        host.connection.exchanges.send_request("get_usage")
    with pytest.raises(InitQueueOverflowError) as caught:
        host.connection.exchanges.send_request("get_usage", operation="get_usage()")
    assert (caught.value.operation, caught.value.count, caught.value.limit) == ("get_usage()", 2, 2)
    for _ in range(50):
        host.connection.conversation.send_prompt("early")


@shows("session.queueing.deadline")
def test_what_waits_can_be_taken_back_or_expire_unsent() -> None:
    host = Host(ready=False)
    given_up, expired = (
        host.connection.exchanges.send_request("get_usage"),
        host.connection.exchanges.send_request("mcp_status"),
    )
    turn = host.connection.conversation.send_prompt("early")
    assert host.connection.exchanges.cancel_request(given_up)
    assert not host.connection.exchanges.cancel_request(given_up)
    assert host.connection.expire(expired, 1.0)
    assert host.connection.expire_turn(turn)
    host.initialize()
    host.answer(host.initialize_id)
    assert [frame["request"]["subtype"] for frame in host.take()] == ["initialize"]
    [resolved] = host.of(events.RequestResolved)
    assert isinstance(resolved.error, ControlTimeoutError)
    assert host.turn(turn) == [TurnState.INTERRUPTED]


@shows("session.handshake.early-requests")
def test_requests_before_initialize_wait_and_beyond_the_bound_are_refused() -> None:
    host = Host(ready=False, limits=Limits(early_requests=2))
    for name in ("a", "b", "c"):
        host.ask(name, "hook_callback", **HOOK)
    [refused] = host.take()
    assert refused["response"]["request_id"] == "c"
    assert "error" in refused["response"]
    host.feed({"type": "control_cancel_request", "request_id": "a"})
    assert not host.of(events.RequestReceived)
    host.initialize()
    assert [event.request_id for event in host.of(events.RequestReceived)] == ["b"]


@shows("session.handshake.still-open")
def test_requests_that_the_cli_still_has_open_come_with_the_answer() -> None:
    host = Host(ready=False)
    host.initialize()
    request = {"type": "control_request", "request_id": "p", "request": {"subtype": "can_use_tool", **TOOL}}
    host.answer(host.initialize_id, {}, pending_permission_requests=[request], pending_user_dialog_requests=["?"])
    assert [event.request_id for event in host.of(events.RequestReceived)] == ["p"]


def test_a_request_that_the_cli_still_has_open_and_that_cannot_be_read_is_refused() -> None:
    host = Host(ready=False)
    host.initialize()
    host.take()
    request = {"type": "control_request", "request_id": "p", "request": 5}
    host.answer(host.initialize_id, {}, pending_permission_requests=[request])
    [warned] = host.of(events.WarningRaised)
    assert (warned.warning.code, warned.warning.context["field"]) == ("FIELD_DROPPED", "request")
    [refused] = host.take()
    assert refused["response"]["request_id"] == "p"
    assert refused["response"]["error"].startswith("Malformed request: ")


# -- our requests -----------------------------------------------------------------------------------------------------


@shows("control.operations.outer-id", "control.operations.permissive")
def test_answers_typed_empty_and_from_the_outer_id() -> None:
    host = Host()
    first, second, third = (host.connection.exchanges.send_request("interrupt") for _ in range(3))
    host.answer(first, {"still_queued": ["u"], "new": 1})
    host.feed({"type": "control_response", "request_id": second, "response": {"subtype": "success"}})
    host.answer(third, None)
    results = [event.result for event in host.of(events.RequestResolved)]
    assert all(isinstance(answer, InterruptReceipt) for answer in results)
    assert results[0] is not None
    assert (results[0].data, results[0].raw) == (
        {"still_queued": ["u"], "new": 1},
        b'{"still_queued": ["u"], "new": 1}',
    )
    assert not host.of(events.WarningRaised)


@shows("control.operations.permissive")
@pytest.mark.parametrize("payload", [3, "x", [], {"still_queued": 3}, {"still_queued": [1]}])
def test_an_answer_of_the_wrong_shape_is_still_a_success(payload: Any) -> None:
    host = Host()
    request = host.connection.exchanges.interrupt()
    host.answer(request, payload)
    [resolved] = host.of(events.RequestResolved)
    assert isinstance(resolved.result, InterruptReceipt)
    assert resolved.result.still_queued == []
    assert [event.warning.code for event in host.of(events.WarningRaised)] == ["FIELD_DROPPED"]


@shows("control.operations.rejected")
@pytest.mark.parametrize("error", ["no", {"message": "no"}, None, "half \ud800"])
def test_a_rejection_is_an_error_with_its_code(error: Any) -> None:
    host = Host()
    request = host.connection.exchanges.send_request(
        "set_permission_mode", {"mode": "x"}, operation="set_permission_mode()"
    )
    host.refuse(request, error, error_code="invalid_mode")
    [resolved] = host.of(events.RequestResolved)
    assert isinstance(resolved.error, ControlRejectedError)
    assert (resolved.error.operation, resolved.error.code) == ("set_permission_mode()", "invalid_mode")


@shows("control.operations.late-answers", "bad.two-answers")
def test_late_unknown_repeated_and_shapeless_answers_are_for_nobody() -> None:
    host = Host()
    request = host.connection.exchanges.send_request("get_usage")
    host.connection.expire(request, 30.0)
    for request_id in (request, "never", "", None):
        host.answer(request_id)  # type: ignore[arg-type]
    host.feed({"type": "control_response"}, {"type": "control_response", "response": []})
    assert len(host.of(events.RequestResolved)) == 1
    answered = host.connection.exchanges.send_request("get_usage")
    host.answer(answered)
    host.answer(answered)
    host.refuse(answered)
    assert len(host.of(events.RequestResolved)) == 2
    assert not host.connection.state.over


@shows("control.operations.too-many")
def test_too_many_of_ours_are_refused_before_anything_is_written() -> None:
    host = Host(limits=Limits(pending_requests=2))
    for _ in range(2):
        host.connection.exchanges.send_request("get_usage")
    host.take()
    with pytest.raises(TooManyPendingRequestsError):
        host.connection.exchanges.send_request("get_usage")
    assert host.take() == []
    host.connection.exchanges.interrupt(internal=True)
    assert len(host.take()) == 1


def test_of_requests_for_whose_answers_nobody_waits_only_the_last_are_remembered() -> None:
    host = Host()
    asked = [host.connection.exchanges.send_request("mcp_message", MCP, internal=True) for _ in range(1_000)]
    assert len(host.take()) == 1_000
    assert [request.request_id for request in host.connection.exchanges.pending] == asked[-256:]
    for request_id in asked:  # they may come all the same
        host.answer(request_id)
    assert not host.connection.exchanges.pending
    assert host.of(events.RequestResolved) == []
    assert host.connection.exchanges.send_request("get_usage")
    assert not host.connection.state.over


@shows("session.turns.refused", "control.operations.not-sent")
@pytest.mark.parametrize(
    ("subtype", "fields", "error"),
    [
        ("set_permission_mode", {}, TypeError),
        ("mcp_toggle", {"server_name": "s", "enabled": "yes"}, TypeError),
        ("new", {"subtype": "x"}, TypeError),
        ("new", {"value": object()}, ValueError),
        ("new", {"value": "half \ud800"}, ValueError),
    ],
)
def test_what_cannot_be_sent_leaves_no_trace(subtype: str, fields: Any, error: type[Exception]) -> None:
    host = Host()
    with pytest.raises(error):
        host.connection.exchanges.send_request(subtype, fields)
    with pytest.raises(ValueError, match="half a character"):
        host.connection.conversation.send_prompt("half \ud800")
    assert host.take() == []
    assert not host.connection.exchanges.pending
    assert not host.connection.turns.open


def test_python_names_become_the_names_on_the_wire() -> None:
    host = Host()
    host.connection.exchanges.send_request("mcp_toggle", {"server_name": "s", "enabled": True, "more": None})
    [frame] = host.take()
    assert frame["request"] == {"subtype": "mcp_toggle", "serverName": "s", "enabled": True, "more": None}


# -- their requests ---------------------------------------------------------------------------------------------------


@shows("callbacks.first-wins")
def test_one_answer_and_bytes_are_copied_as_they_are() -> None:
    host = Host()
    host.ask("h", "hook_callback", **HOOK)
    [received] = host.of(events.RequestReceived)
    assert (received.subtype, received.row.deadline, received.frame.request["callback_id"]) == (
        "hook_callback",
        "hook",
        "hook_0",
    )
    with pytest.raises(ValueError, match="not JSON"):
        host.connection.exchanges.send_response("h", b"{")
    with pytest.raises(ValueError, match="JSON cannot hold it"):
        host.connection.exchanges.send_response("h", {"a": object()})
    assert host.connection.exchanges.send_response("h", b'{"n":\n1e2}')
    assert b'"response":{"n": 1e2}' in host.connection.data_to_send()
    assert not host.connection.exchanges.send_response("h", {})
    assert not host.connection.exchanges.send_error("h", "late")
    assert not host.connection.exchanges.fail_request("h", "late")
    assert not host.connection.expire("h")
    host.ask("h", "hook_callback", **HOOK)
    assert len(host.of(events.RequestReceived)) == 1
    assert host.take() == []


@shows("callbacks.first-wins")
def test_a_request_that_comes_twice_is_handled_once() -> None:
    host = Host()
    host.ask("h", "hook_callback", **HOOK)
    host.ask("h", "hook_callback", **HOOK)
    assert len(host.of(events.RequestReceived)) == 1


def test_requests_of_any_depth_are_refused_or_bad_lines() -> None:
    """At some depths the interpreter reads the line, and then not the request in it."""
    host = Host()
    for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit() + 10):
        nested = f'{{"subtype": 3, "x": {"[" * depth}{"]" * depth}}}'
        host.feed(f'{{"type": "control_request", "request_id": "r{depth}", "request": {nested}}}'.encode())
        answers = host.take()
        if not answers:
            break
        assert answers[0]["response"]["request_id"] == f"r{depth}"
        assert answers[0]["response"]["error"].startswith("Malformed request: ")
    assert len(host.of(events.BadLine)) <= 1


def test_mirrored_transcripts_are_events_and_no_messages() -> None:
    host = Host(mirrored=True)
    frame = {"type": "transcript_mirror", "filePath": "/c/s.jsonl", "entries": [{"n": 1}]}
    host.feed(frame)
    (event,) = host.of(events.TranscriptMirrored)
    assert (event.frame.file_path, json.loads(bytes(event.frame.entries_raw))) == ("/c/s.jsonl", [{"n": 1}])
    assert host.of(events.MessagesReceived) == []


@shows("asked.other.unknown")
@pytest.mark.parametrize("subtype", ["new", "interrupt", "initialize"])
def test_what_we_do_not_serve_gets_an_error(subtype: str) -> None:
    host = Host()
    host.ask("n", subtype)
    [frame] = host.take()
    assert frame["response"] == {
        "subtype": "error",
        "request_id": "n",
        "error": f"Unknown subtype: {subtype}",
        "error_code": "unsupported_request",
    }


@shows("asked.other.malformed")
@pytest.mark.parametrize("request_value", [None, 3, [], "x", {}, {"subtype": 3}])
def test_a_shapeless_request_gets_an_error_if_it_has_an_id(request_value: Any) -> None:
    host = Host()
    host.feed({"type": "control_request", "request_id": "r", "request": request_value})
    [frame] = host.take()
    assert frame["response"]["error"] == "Malformed request: `subtype` is missing"
    nameless: list[Any] = [None, 3, "", {}]
    for request_id in nameless:
        host.feed({"type": "control_request", "request_id": request_id, "request": request_value})
    assert host.take() == []


SAFE_ANSWERS: list[tuple[str, dict[str, Any], Any]] = [
    ("hook_callback", HOOK, {}),
    ("can_use_tool", TOOL, {"behavior": "deny", "message": "why"}),
    (
        "mcp_message",
        MCP,
        {"mcp_response": {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "why"}}},
    ),
    (
        "mcp_message",
        {"server_name": "s", "message": {"jsonrpc": "2.0", "method": "notifications/initialized"}},
        {"mcp_response": {"jsonrpc": "2.0", "id": 0, "result": {}}},
    ),
    ("elicitation", {"mcp_server_name": "s", "message": "?"}, {"action": "decline"}),
    ("request_user_dialog", {"dialog_kind": "k", "payload": {}}, {"behavior": "cancelled"}),
]


@shows("asked.other.safe-table")
@pytest.mark.parametrize(("subtype", "fields", "safe"), SAFE_ANSWERS)
def test_the_safe_answer_of_each_request(subtype: str, fields: dict[str, Any], safe: Any) -> None:
    host = Host()
    host.ask("r", subtype, **fields)
    assert host.connection.exchanges.fail_request("r", "why")
    [frame] = host.take()
    assert frame["response"] == {"subtype": "success", "request_id": "r", "response": safe}


@shows("tools.bytes")
def test_the_id_of_a_json_rpc_message_is_copied() -> None:
    host = Host()
    request = b'{"subtype":"mcp_message","server_name":"s","message":{"id":1e2,"method":"x"}}'
    host.feed(b'{"type":"control_request","request_id":"r","request":' + request + b"}")
    host.connection.exchanges.fail_request("r", "why")
    assert b'"id":1e2' in host.connection.data_to_send()


@shows("asked.hook.unreadable", "asked.permission.unreadable", "asked.mcp.unreadable", "asked.dialog.fails")
@pytest.mark.parametrize(
    ("subtype", "fields", "part"),
    [
        ("hook_callback", {"callback_id": 3, "input": {}}, "{}"),
        ("can_use_tool", {"tool_name": "Bash", "input": "ls"}, "deny"),
        ("mcp_message", {"message": {"id": 3}}, "-32603"),
        ("elicitation", {}, "decline"),
        ("request_user_dialog", {}, "cancelled"),
    ],
)
def test_a_request_that_cannot_be_read_gets_the_safe_answer(subtype: str, fields: Any, part: str) -> None:
    host = Host()
    host.ask("r", subtype, **fields)
    [frame] = host.take()
    assert part in json.dumps(frame["response"]["response"])
    [warning] = [event.warning for event in host.of(events.WarningRaised)]
    reason = str(warning.context["reason"])
    assert (warning.code, warning.context["subtype"]) == ("CALLBACK_FAILED", subtype)
    assert reason.endswith((" is missing", " is not string", " is not object"))
    assert warning.message == f"A `{subtype}` request cannot be read: {reason}."
    if part in ("deny", "-32603"):
        assert f"the request cannot be read: {reason}" in json.dumps(frame["response"]["response"])
    assert not host.of(events.RequestReceived)


@shows("callbacks.first-wins", "callbacks.cancelled")
def test_a_deadline_gives_the_safe_answer_and_a_cancellation_none() -> None:
    host = Host()
    host.ask("late", "can_use_tool", **TOOL)
    host.ask("gone", "can_use_tool", **TOOL)
    assert host.connection.expire("late", 60.0)
    host.feed({"type": "control_cancel_request", "request_id": "gone"})
    host.feed({"type": "control_cancel_request", "request_id": "gone"}, {"type": "control_cancel_request"})
    [frame] = host.take()
    assert frame["response"]["request_id"] == "late"
    assert "60 s" in frame["response"]["response"]["message"]
    assert [(e.request_id, e.subtype, e.reason) for e in host.of(events.RequestCancelled)] == [
        ("late", "can_use_tool", "expired"),
        ("gone", "can_use_tool", "cancelled"),
    ]


# -- turns ------------------------------------------------------------------------------------------------------------


@shows("session.turns.messages", "session.turns.matching")
def test_frames_belong_to_the_prompt_that_is_started() -> None:
    host = Host()
    one, two = host.connection.conversation.send_prompt("1"), host.connection.conversation.send_prompt("2")
    host.feed(report(one, "queued"), report(one, "started"), report(two, "queued"), assistant(), result())
    host.feed(report(one, "completed"), assistant(), report(two, "started"), assistant(), result())
    assert host.whose() == [(one,), (), (two,)]
    assert host.whose(ResultMessage) == [(one,), (two,)]
    assert host.turn(one) == host.turn(two) == [TurnState.STARTED, TurnState.COMPLETED]
    assert host.connection.state.session_id == "s1"


@shows("session.turns.merged")
def test_a_merged_prompt_is_over_with_the_result_and_not_with_the_report() -> None:
    host = Host()
    one, two = host.connection.conversation.send_prompt("1"), host.connection.conversation.send_prompt("2")
    host.feed(report(one, "started"), assistant(), report(two, "queued"), report(two, "started"), assistant())
    host.feed(report(two, "completed"))
    assert host.turn(two) == [TurnState.STARTED]
    host.feed(result(user_message_uuid=one, user_message_uuids=[one, two, two, "never"]))
    assert host.whose() == [(one,), (one, two)]
    assert host.whose(ResultMessage) == [(one, two)]
    assert host.turn(one) == host.turn(two) == [TurnState.STARTED, TurnState.COMPLETED]


@shows("session.turns.states")
def test_a_prompt_that_gets_no_result_is_over_when_the_cli_is_idle() -> None:
    host = Host()
    ids = [host.connection.conversation.send_prompt(str(number)) for number in range(4)]
    for turn_id, word in zip(ids, ["completed", "cancelled", "refused", ""], strict=True):
        host.feed(report(turn_id, "started"), report(turn_id, word))
    host.feed(session_state("idle"))
    assert [host.turn(turn_id)[-1] for turn_id in ids] == [
        TurnState.COMPLETED,
        TurnState.INTERRUPTED,
        TurnState.FAILED,
        TurnState.STARTED,
    ]


@shows("session.turns.states")
def test_a_prompt_withdrawn_before_it_was_started_is_over_at_once() -> None:
    host = Host()
    one, two = host.connection.conversation.send_prompt("1"), host.connection.conversation.send_prompt("2")
    host.feed(report(one, "queued"), report(one, "cancelled"), report(two, "refused"))
    assert (host.turn(one), host.turn(two)) == ([TurnState.INTERRUPTED], [TurnState.FAILED])


@shows("session.turns.states")
def test_results_tell_how_a_turn_ended() -> None:
    host = Host()
    ids = [host.connection.conversation.send_prompt(str(number)) for number in range(3)]
    for turn_id, more in zip(
        ids,
        [{}, {"is_error": True, "terminal_reason": "aborted_streaming"}, {"is_error": True, "terminal_reason": "x"}],
        strict=True,
    ):
        host.feed(result(user_message_uuid=turn_id, **more))
    assert [host.turn(turn_id) for turn_id in ids] == [
        [TurnState.COMPLETED],
        [TurnState.INTERRUPTED],
        [TurnState.FAILED],
    ]


@shows("session.turns.in-order")
def test_a_cli_that_reports_nothing_answers_in_the_order_of_sending() -> None:
    host = Host()
    one, two = host.connection.conversation.send_prompt("1"), host.connection.conversation.send_prompt("2")
    for _ in range(2):
        host.feed({"type": "system", "subtype": "init"}, assistant(), {"type": "user"}, assistant(), result())
    host.feed(assistant(), result())
    assert host.whose() == [(one,), (one,), (two,), (two,), ()]
    assert host.whose(ResultMessage) == [(one,), (two,), ()]
    assert host.connection.conversation.quiet


@shows("session.turns.matching")
def test_a_cli_that_only_names_prompts_is_followed() -> None:
    host = Host()
    one, two = host.connection.conversation.send_prompt("1"), host.connection.conversation.send_prompt("2")
    host.feed(assistant(user_message_uuid=two), assistant(), result(user_message_uuids=[two]))
    host.feed(assistant(user_message_uuids=[one]), result())
    assert host.whose() == [(two,), (two,), (one,)]
    assert host.whose(ResultMessage) == [(two,), (one,)]


@shows("session.turns.nobodys")
def test_a_turn_that_the_cli_starts_by_itself_is_nobodys() -> None:
    host = Host()
    one = host.connection.conversation.send_prompt("1")
    host.feed(report(one, "started"), result(), report(one, "completed"))
    two = host.connection.conversation.send_prompt("2")
    host.feed(report(two, "queued"), {"type": "system", "subtype": "init"}, assistant(), result())
    assert host.whose() == [()]
    assert two in host.connection.turns


@shows("session.turns.in-order")
def test_a_cli_that_will_report_is_not_taken_for_one_that_answers_in_order() -> None:
    host = Host()
    turn = host.connection.conversation.send_prompt("1")
    host.feed({"type": "system", "subtype": "init", "capabilities": ["msg_lifecycle_v1"]}, assistant(), result())
    assert host.whose() == host.whose(ResultMessage) == [()]
    assert turn in host.connection.turns


def test_a_prompt_may_have_an_id_of_its_own_once() -> None:
    host = Host()
    assert host.connection.conversation.send_prompt("1", turn_id="mine", fields={"priority": "now"}) == "mine"
    [frame] = host.take()
    assert (frame["uuid"], frame["priority"]) == ("mine", "now")
    with pytest.raises(ValueError, match="open already"):
        host.connection.conversation.send_prompt("2", turn_id="mine")


@shows("session.deadlines.kinds")
def test_a_deadline_of_a_turn_interrupts_or_withdraws_it() -> None:
    host = Host()
    one, two = host.connection.conversation.send_prompt("1"), host.connection.conversation.send_prompt("2")
    host.feed(report(one, "started"))
    host.take()
    assert host.connection.expire_turn(one)
    assert host.connection.expire_turn(two)
    assert not host.connection.expire_turn("never")
    assert [frame["request"] for frame in host.take()] == [
        {"subtype": "interrupt"},
        {"subtype": "cancel_async_message", "message_uuid": two},
    ]
    for request in host.connection.exchanges.pending:
        host.answer(request.request_id, {})
    assert not host.connection.exchanges.pending
    assert not host.of(events.RequestResolved)


# -- activity and the background --------------------------------------------------------------------------------------


def test_frames_that_we_asked_for_are_not_delivered() -> None:
    host = Host()
    host.feed(session_state("running"), session_state("running", sdk_host_only=False), session_state("new"))
    assert len(host.whose(object)) == 1
    assert [event.activity for event in host.of(events.ActivityChanged)] == [SessionActivity.RUNNING]
    host.feed({"type": "keep_alive"})
    assert len(host.whose(object)) == 1


@shows("session.idle.follow-up")
def test_input_waits_for_the_background_and_for_what_follows_it() -> None:
    host = Host()
    turn = host.connection.conversation.send_prompt("1")
    host.connection.outbox.close_input()
    with pytest.raises(SessionClosedError):
        host.connection.conversation.send_prompt("2")
    host.feed(session_state("running"), report(turn, "started"), tasks("t"), result(), session_state("idle"))
    assert not host.connection.conversation.quiet
    notification = {"type": "system", "subtype": "task_notification", "task_id": "t", "status": "completed"}
    host.feed(notification, tasks())
    assert host.connection.conversation.unsettled
    assert not host.connection.conversation.quiet
    host.feed(session_state("running"))
    host.ask("h", "hook_callback", **HOOK)
    host.feed(session_state("idle"))
    assert host.connection.conversation.quiet
    assert not host.connection.input_may_close
    host.connection.exchanges.send_response("h", {})
    assert host.connection.input_may_close
    assert [len(event.tasks) for event in host.of(events.BackgroundTasksChanged)] == [1, 0]


@shows("session.idle.follow-up")
def test_silence_after_the_background_ends_with_settle() -> None:
    host = Host()
    host.feed(session_state("idle"), {"type": "system", "subtype": "task_notification", "task_id": "t"})
    host.connection.outbox.close_input()
    assert not host.connection.input_may_close
    host.connection.conversation.settle()
    assert host.connection.input_may_close


@shows("session.idle.ambient")
def test_ambient_tasks_keep_nobody_waiting() -> None:
    host = Host()
    host.feed(session_state("idle"), tasks("t", ambient=True))
    assert host.connection.conversation.background_tasks
    assert host.connection.conversation.quiet
    assert not host.connection.conversation.at_work
    host.feed({"type": "system", "subtype": "task_notification", "task_id": "t", "ambient": True})
    assert not host.connection.conversation.background_tasks
    assert host.connection.conversation.quiet


# -- lines ------------------------------------------------------------------------------------------------------------


@shows("errors.bad-frames")
def test_bad_lines_are_told_and_five_in_a_row_are_the_end() -> None:
    host = Host()
    host.feed(b"x", b"y", assistant(), b"1", b"2", b"3", b"4")
    assert not host.connection.state.over
    host.feed(b" ", b"5", b"6")
    assert len(host.of(events.BadLine)) == 7
    assert isinstance(host.connection.state.terminal_error, DecodeErrorLimitError)
    assert host.stage() is SessionState.FAILED
    host.connection.process_exited(0)
    assert len(host.of(events.Ended)) == 1


@shows("bounds.oversized")
def test_a_line_that_is_too_long_is_skipped_with_a_warning() -> None:
    host = Host(limits=Limits(line_bytes=2_000))
    host.feed(b"x" * 3_000, assistant())
    assert [event.warning.code for event in host.of(events.WarningRaised)] == ["OVERSIZED_LINE_SKIPPED"]
    assert host.whose() == [()]


def test_what_is_left_at_the_end_counts_if_it_is_a_line() -> None:
    host = Host()
    host.connection.receive_data(json.dumps(assistant()).encode())
    host.connection.receive_eof()
    assert host.whose() == [()]
    other = Host()
    other.connection.receive_data(b'{"type":"assist')
    other.connection.receive_eof()
    assert [event.line for event in other.of(events.IncompleteLine)] == [b'{"type":"assist']
    assert not other.of(events.WarningRaised)


# -- endings ----------------------------------------------------------------------------------------------------------


def busy() -> tuple[Host, str, str]:
    host = Host()
    turn, request = host.connection.conversation.send_prompt("1"), host.connection.exchanges.send_request("get_usage")
    host.ask("h", "hook_callback", **HOOK)
    host.take()
    return host, turn, request


@shows("session.death.wakes-all")
@pytest.mark.parametrize("eof_first", [False, True])
@pytest.mark.parametrize("exit_code", [0, 1, -9, None])
def test_a_death_wakes_everybody_once_with_code_and_stderr(eof_first: bool, exit_code: int | None) -> None:
    host, turn, request = busy()
    if eof_first:
        host.connection.receive_eof()
        with pytest.raises(SessionClosedError):
            host.connection.conversation.send_prompt("2")
    host.connection.process_exited(exit_code, b"killed by a bug")
    assert host.connection.state.over is eof_first
    host.connection.receive_eof()
    [resolved] = host.of(events.RequestResolved)
    assert resolved.request_id == request
    assert isinstance(resolved.error, SessionClosedError)
    assert (resolved.error.expected, resolved.error.exit_code) == (False, exit_code)
    assert resolved.error.stderr_tail == "killed by a bug"
    assert [event.reason for event in host.of(events.RequestCancelled)] == ["ended"]
    [death] = host.of(events.TurnStateChanged)
    assert (death.turn_id, death.state) == (turn, TurnState.FAILED)
    assert death.error is not None
    assert death.error is not resolved.error, "each waiter raises an error of its own"
    assert isinstance(host.events[-1], events.Ended)
    assert host.events[-1].ending is Ending.FAILED
    assert not host.connection.exchanges.send_response("h", {})
    assert host.connection.data_to_send() == b""


@shows("session.events.completed")
@pytest.mark.parametrize(
    ("frames", "exit_code", "ending"),
    [
        ([], 0, Ending.COMPLETED),
        ([result(is_error=True)], 1, Ending.COMPLETED),
        ([result()], 1, Ending.FAILED),
        ([result(is_error=True)], -9, Ending.FAILED),
        ([], None, Ending.FAILED),
    ],
)
def test_how_a_session_without_open_prompts_ends(frames: list[Any], exit_code: int | None, ending: Ending) -> None:
    host = Host()
    host.feed(*frames)
    host.connection.receive_eof()
    host.connection.process_exited(exit_code)
    assert host.connection.state.ending is ending
    assert (host.connection.state.terminal_error is None) is (ending is Ending.COMPLETED)


@shows("callbacks.stopping")
def test_stopping_answers_safely_wakes_waiters_and_lets_the_turn_end() -> None:
    host, turn, request = busy()
    host.ask("t", "can_use_tool", **TOOL)
    host.connection.begin_stop()
    host.connection.begin_stop()
    answers = {frame["response"]["request_id"]: frame["response"]["response"] for frame in host.take()}
    assert answers == {"h": {}, "t": {"behavior": "deny", "message": "the session is stopping"}}
    [resolved] = host.of(events.RequestResolved)
    assert isinstance(resolved.error, SessionClosedError)
    assert resolved.error.expected
    assert resolved.request_id == request
    with pytest.raises(SessionClosedError):
        host.connection.conversation.send_prompt("2")
    with pytest.raises(SessionClosedError):
        host.connection.exchanges.send_request("get_usage")
    host.ask("m", "mcp_message", **MCP)
    assert host.take()[0]["response"]["response"]["mcp_response"]["error"]["code"] == -32603
    host.connection.exchanges.interrupt(internal=True)
    assert host.take()[0]["request"] == {"subtype": "interrupt"}
    host.feed(result(user_message_uuid=turn, is_error=True, terminal_reason="aborted_tools"))
    assert host.turn(turn) == [TurnState.INTERRUPTED]
    host.connection.outbox.input_was_closed()
    host.connection.process_exited(143)
    host.connection.receive_eof()
    assert (host.connection.state.ending, host.connection.state.lifecycle) == (Ending.STOPPED, SessionState.STOPPED)
    assert host.connection.state.terminal_error is None
    host.connection.begin_stop()


@shows("session.life.stop-anytime")
def test_stopping_at_every_moment_of_the_start() -> None:
    never = Host(ready=False)
    never.connection.begin_stop()
    assert never.connection.state.ending is Ending.STOPPED
    for initialized in (False, True):
        host = Host(ready=False)
        host.connection.state.begin_start()
        turn = host.connection.conversation.send_prompt("early")
        if initialized:
            host.initialize()
        host.connection.begin_stop()
        [failed] = host.of(events.HandshakeFailed)
        assert isinstance(failed.error, SessionClosedError)
        assert host.turn(turn) == [TurnState.INTERRUPTED]
        host.connection.receive_eof()
        host.connection.process_exited(0)
        assert len(host.of(events.HandshakeFailed)) == 1
        assert host.connection.state.ending is Ending.STOPPED


def test_a_shell_that_gives_up_says_why_to_all() -> None:
    host, _, _ = busy()
    host.connection.fail(SlowConsumerError(65, 64))
    [resolved] = host.of(events.RequestResolved)
    assert isinstance(resolved.error, SlowConsumerError)
    assert isinstance(host.connection.state.terminal_error, SlowConsumerError)
    host.feed(assistant())
    assert not host.whose()


@shows("process.writes")
def test_a_peer_that_stops_reading_gets_nothing_more_and_its_death_resolves_the_rest() -> None:
    host, turn, _ = busy()
    host.connection.outbox.input_broke()
    assert not host.connection.exchanges.send_response("h", {})
    assert host.connection.data_to_send() == b""
    with pytest.raises(SessionClosedError):
        host.connection.conversation.send_prompt("2")
    assert not host.connection.expire_turn(turn)
    host.connection.receive_eof()
    host.connection.process_exited(1)
    assert host.turn(turn) == [TurnState.FAILED]


@pytest.mark.parametrize(
    ("how", "expected", "reason"),
    [
        ("stopping", True, "it was stopped"),
        ("completed", True, "it has ended"),
        ("closing", True, "it ends, and takes nothing new"),
        ("closed", True, "it ends, and takes nothing new"),
        ("broken", False, "it ends, and takes nothing new"),
        ("output ended", False, "it ends, and takes nothing new"),
    ],
)
def test_a_refused_prompt_says_why_and_whether_the_program_asked_for_it(how: str, expected: bool, reason: str) -> None:
    host = Host()
    host.feed(assistant(session_id="s1"))
    match how:
        case "stopping":
            host.connection.begin_stop()
        case "completed":
            host.connection.receive_eof()
            host.connection.process_exited(0, b"some words")
        case "closing":
            host.connection.outbox.close_input()
        case "closed":
            host.connection.outbox.input_was_closed()
        case "broken":
            host.connection.outbox.input_broke()
        case _:
            host.connection.receive_eof()
    with pytest.raises(SessionClosedError) as refused:
        host.connection.conversation.send_prompt("late")
    error = refused.value
    assert (error.expected, error.reason, error.session_id) == (expected, reason, "s1")
    if how == "completed":
        assert (error.exit_code, error.stderr_tail) == (0, "some words")


@pytest.mark.parametrize("internal", [False, True])
def test_the_answer_to_an_interrupt_is_reported_if_a_caller_waits_for_it(internal: bool) -> None:
    host = Host()
    more = {"internal": True} if internal else {}
    request = host.connection.exchanges.interrupt(cancel_queued=internal, **more)
    [frame] = host.take()
    assert frame["request"] == {"subtype": "interrupt", **({"cancel_queued": True} if internal else {})}
    assert [waiting.internal for waiting in host.connection.exchanges.pending] == [internal]
    host.answer(request, {"still_queued": []})
    resolved = [(event.request_id, event.operation) for event in host.of(events.RequestResolved)]
    assert resolved == ([] if internal else [(request, "interrupt")])


# -- the other role ---------------------------------------------------------------------------------------------------


def test_the_other_role_sees_prompts_and_requests() -> None:
    host = Host(ready=False)
    cli = Connection(Role.CLI)
    host.initialize()
    host.connection.conversation.send_prompt("hello")
    cli.receive_data(host.connection.data_to_send())
    [initialize] = cli.events_received()
    assert isinstance(initialize, events.RequestReceived)
    assert initialize.subtype == "initialize"
    cli.exchanges.send_request("hook_callback", HOOK)
    cli.exchanges.send_response(initialize.request_id, {})
    assert cli.state.handshake is Handshake.CONFIRMED
    host.connection.receive_data(cli.data_to_send())
    cli.receive_data(host.connection.data_to_send() + b'{"type":"control_request","request_id":"x","request":{}}\n')
    [prompt] = cli.events_received()
    assert isinstance(prompt, events.PromptReceived)
    assert prompt.message.content == "hello"
    assert (prompt.uuid or "") in host.connection.turns
    with pytest.raises(ValueError, match="an object"):
        cli.outbox.send_message(b"[]")
    cli.receive_eof()
    assert [type(event) for event in cli.events_received()] == [events.RequestResolved]
    cli.outbox.send_message(result())
    assert cli.data_to_send()
    cli.process_exited(0)
    assert [type(event) for event in cli.events_received()] == [events.Ended]
