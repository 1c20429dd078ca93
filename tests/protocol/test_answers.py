"""Answers of the CLI that are not as they should be: as much of them is read as can be, and each ends its request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection
from hackamore._engine.protocol.control import Answer, read_answer
from hackamore._engine.protocol.states.session import SessionState
from hackamore.errors import ControlRejectedError, InitializationError
from hackamore.messages.control import ControlResponse
from hackamore.messages.decode import decode
from hackamore.messages.results import InterruptReceipt
from tests.contract import shows


def ready() -> Connection:
    connection = Connection()
    answer(connection, {"subtype": "success", "request_id": connection.send_initialize(), "response": {}})
    connection.data_to_send()
    return connection


def answer(connection: Connection, response: Any, **outside: Any) -> list[events.Event]:
    inside = response if isinstance(response, bytes) else json.dumps(response).encode()
    head = json.dumps({"type": "control_response", **outside})[:-1].encode()
    connection.receive_data(head + b',"response":' + inside + b"}\n")
    return connection.events_received()


def read(response: bytes | None) -> Answer:
    line = b'{"type":"control_response"' + (b"" if response is None else b',"response":' + response) + b"}"
    frame = decode(line, print)
    assert isinstance(frame, ControlResponse)
    return read_answer(frame)


def test_an_answer_is_read_field_by_field() -> None:
    found = read(b'{"subtype":"error","request_id":"r","error":"no","error_code":"c","response":{"a":1e2},"new":1}')
    assert (found.subtype, found.request_id, bytes(found.error), found.error_code) == ("error", "r", b'"no"', "c")
    assert bytes(found.response) == b'{"a":1e2}'
    assert found.failed


@pytest.mark.parametrize("response", [None, b"[]", b"7", b'"text"', b"null", b"true"])
def test_an_answer_that_is_not_an_object_says_nothing(response: bytes | None) -> None:
    found = read(response)
    for name in Answer.__struct_fields__:
        assert not getattr(found, name), name
    assert not found.failed


@shows("control.operations.permissive")
@pytest.mark.parametrize("wrong", ["request_id", "subtype", "error_code"])
def test_a_field_of_the_wrong_type_costs_no_other_field(wrong: str) -> None:
    fields: dict[str, Any] = {
        "request_id": "r",
        "subtype": "error",
        "error_code": "c",
        "error": {"why": 1},
        "response": [1],
        "pending_permission_requests": [],
        "pending_user_dialog_requests": {},
    }
    found = read(json.dumps(fields | {wrong: 7}).encode())
    for name, value in fields.items():
        got = getattr(found, name)
        if name == wrong:
            assert got is None
        elif isinstance(value, str):
            assert got == value
        else:
            assert json.loads(bytes(got)) == value


@pytest.mark.parametrize(("said", "failed"), [("error", True), ("success", False), ("new", False), (None, True)])
def test_an_answer_with_an_error_and_no_verdict_has_failed(said: str | None, failed: bool) -> None:
    verdict = {} if said is None else {"subtype": said}
    assert read(json.dumps({"request_id": "r", "error": "no", **verdict}).encode()).failed is failed


@shows("control.operations.outer-id")
def test_an_id_that_cannot_be_read_is_taken_from_outside() -> None:
    connection = ready()
    request_id = connection.exchanges.interrupt()
    response = {"subtype": "success", "request_id": 7, "response": {"still_queued": ["u"]}}
    [resolved] = answer(connection, response, request_id=request_id)
    assert isinstance(resolved, events.RequestResolved)
    assert isinstance(resolved.result, InterruptReceipt)
    assert resolved.result.still_queued == ["u"]


@shows("control.operations.rejected")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"error": "no"}, "no"),
        ({"error": {"why": "no"}}, '{"why": "no"}'),
        ({"error": 7}, "7"),
        ({}, "no reason given"),
    ],
    ids=str,
)
def test_a_rejection_says_why_as_far_as_it_can_be_read(error: dict[str, Any], text: str) -> None:
    for code in ("c", 7):
        connection = ready()
        request_id = connection.exchanges.send_request("get_usage")
        response = {"subtype": "error", "request_id": request_id, "error_code": code, **error}
        [resolved] = answer(connection, response)
        assert isinstance(resolved, events.RequestResolved)
        assert isinstance(resolved.error, ControlRejectedError)
        assert (resolved.error.message, resolved.error.code) == (text, code if code == "c" else None)


def test_an_error_that_is_not_json_is_shown_as_it_is() -> None:
    connection = ready()
    request_id = connection.exchanges.send_request("get_usage")
    inside = b'{"subtype":"error","request_id":"' + request_id.encode() + b'","error":"half \\ud800"}'
    [resolved] = answer(connection, inside)
    assert isinstance(resolved, events.RequestResolved)
    assert isinstance(resolved.error, ControlRejectedError)
    assert "half" in resolved.error.message


@shows("session.handshake.refused")
@pytest.mark.parametrize("inside", ["error", None])
def test_a_refused_start_says_why(inside: str | None) -> None:
    connection = Connection()
    response = {"request_id": connection.send_initialize(), "error": {"code": 3}}
    happened = answer(connection, response if inside is None else {"subtype": inside, **response})
    assert isinstance(happened[-1], events.Ended)
    assert isinstance(connection.state.terminal_error, InitializationError)
    assert '{"code": 3}' in str(connection.state.terminal_error)
    assert connection.state.lifecycle is SessionState.FAILED


@shows("session.handshake.still-open")
def test_one_open_request_that_cannot_be_read_costs_no_other_kind() -> None:
    request = {"type": "control_request", "request_id": "d", "request": {"subtype": "request_user_dialog"}}
    request["request"] |= {"dialog_kind": "k", "payload": {}}  # type: ignore[operator]
    for unreadable in ({"no": "list"}, ["no frame"], [[1]]):
        connection = Connection()
        response = {
            "subtype": "success",
            "request_id": connection.send_initialize(),
            "response": {},
            "pending_permission_requests": unreadable,
            "pending_user_dialog_requests": [{"type": "keep_alive"}, request],
        }
        found = [e for e in answer(connection, response) if isinstance(e, events.RequestReceived)]
        assert [event.request_id for event in found] == ["d"]
