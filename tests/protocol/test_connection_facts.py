"""The facts that a connection reports: texts, ids, logs and the endings of requests, trigger by trigger."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from hackamore._engine.protocol import events, frames
from hackamore._engine.protocol.connection import Connection, Role
from hackamore._engine.protocol.states.session import Ending, Handshake, SessionActivity, SessionState, TurnState
from hackamore.errors import (
    CLIExitedDuringInitError,
    ControlTimeoutError,
    InitializationError,
    InitializationTimeoutError,
    InitQueueOverflowError,
    SessionClosedError,
    SessionNotFoundError,
    TooManyPendingRequestsError,
)
from hackamore.messages import CommandLifecycleMessage, InitMessage
from hackamore.messages.results import ControlResult, ServerInfo
from hackamore.options.bounds import Limits
from tests.protocol.test_connection import HOOK, MCP, TOOL, Host, assistant, report, result, session_state, tasks

# -- ids and frames ----------------------------------------------------------------------------------------------------


def test_ids_come_from_the_given_bytes() -> None:
    host = Host(random_bytes=lambda count: b"\xab" * count)
    assert host.initialize_id == "req_1_abababab"
    assert host.connection.exchanges.send_request("get_usage") == "req_2_abababab"
    assert host.connection.conversation.send_prompt("hi") == "abababab-abab-4bab-abab-abababababab"
    request, prompt = host.take()
    assert request == {
        "type": "control_request",
        "request_id": "req_2_abababab",
        "request": {"subtype": "get_usage"},
    }
    assert prompt == {
        "type": "user",
        "message": {"role": "user", "content": "hi"},
        "parent_tool_use_id": None,
        "session_id": "",
        "uuid": "abababab-abab-4bab-abab-abababababab",
    }


def test_a_request_that_was_refused_uses_no_id() -> None:
    host = Host(random_bytes=lambda count: b"\xab" * count)
    with pytest.raises(TypeError):
        host.connection.exchanges.send_request("set_permission_mode", {})
    assert host.connection.exchanges.send_request("get_usage").startswith("req_2_")


def test_initialize_is_sent_once() -> None:
    host = Host(ready=False)
    host.initialize(hooks=None)
    with pytest.raises(
        RuntimeError, match=r"^`initialize` was sent already; to send it again is a request like others$"
    ):
        host.initialize()
    assert len(host.take()) == 1


def test_a_second_initialize_as_a_request_renews_what_is_known_of_the_cli() -> None:
    host = Host()
    request = host.connection.exchanges.send_request("initialize")
    host.answer(request, {"pid": 7})
    [resolved] = host.of(events.RequestResolved)
    assert isinstance(resolved.result, ServerInfo)
    assert host.connection.conversation.server_info is resolved.result


def test_the_answer_of_a_request_without_a_row_is_kept_as_it_is() -> None:
    host = Host()
    host.answer(host.connection.exchanges.send_request("from_the_future", {"a": 1}), {"b": 2})
    [resolved] = host.of(events.RequestResolved)
    assert type(resolved.result) is ControlResult
    assert resolved.result.data == {"b": 2}
    assert resolved.operation == "from_the_future"
    assert resolved.error is None


# -- limits and timeouts of requests -----------------------------------------------------------------------------------


def test_too_many_requests_are_refused_with_their_number() -> None:
    host = Host(limits=Limits(pending_requests=2))
    host.connection.exchanges.interrupt(internal=True)
    for _ in range(2):
        host.connection.exchanges.send_request("get_usage")
    with pytest.raises(TooManyPendingRequestsError) as refused:
        host.connection.exchanges.send_request("get_usage", operation="get_usage()")
    assert (refused.value.operation, refused.value.count, refused.value.limit) == ("get_usage()", 2, 2)


def test_prompts_that_wait_take_no_room_from_operations() -> None:
    host = Host(ready=False, limits=Limits(queued_operations=1))
    for _ in range(3):
        host.connection.conversation.send_prompt("early")
    host.connection.exchanges.send_request("get_usage")
    with pytest.raises(InitQueueOverflowError) as refused:
        host.connection.exchanges.send_request("get_usage")
    assert (refused.value.operation, refused.value.count, refused.value.limit) == ("get_usage", 1, 1)


def test_a_request_that_expires_names_itself_and_its_seconds() -> None:
    host = Host()
    request = host.connection.exchanges.send_request("get_usage", operation="get_usage()")
    assert host.connection.expire(request, 3.0)
    assert not host.connection.expire(request, 3.0)
    [resolved] = host.of(events.RequestResolved)
    assert isinstance(resolved.error, ControlTimeoutError)
    assert (resolved.error.operation, resolved.error.request_id, resolved.error.seconds) == (
        "get_usage()",
        request,
        3.0,
    )
    assert resolved.operation == "get_usage()"
    assert [frame["type"] for frame in host.take()] == ["control_request"]


def test_a_request_that_was_sent_is_cancelled_on_the_wire_and_its_answer_dropped() -> None:
    host = Host()
    request = host.connection.exchanges.send_request("get_usage")
    host.take()
    assert host.connection.exchanges.cancel_request(request)
    assert host.take() == [{"type": "control_cancel_request", "request_id": request}]
    host.answer(request)
    assert host.of(events.RequestResolved) == []
    assert not host.connection.exchanges.cancel_request(request)
    assert host.take() == []


def test_the_start_itself_cannot_be_cancelled() -> None:
    host = Host(ready=False)
    host.initialize()
    host.take()
    assert not host.connection.exchanges.cancel_request(host.initialize_id)
    assert host.take() == []
    host.answer(host.initialize_id)
    assert host.stage() is SessionState.RUNNING


def test_a_timeout_while_stopping_interrupts_what_runs_and_withdraws_nothing() -> None:
    host = Host()
    one, two = host.connection.conversation.send_prompt("1"), host.connection.conversation.send_prompt("2")
    host.feed(report(one, "started"))
    host.connection.begin_stop()
    host.take()
    assert host.connection.expire_turn(two)
    assert host.take() == []
    assert host.connection.expire_turn(one)
    assert [frame["request"] for frame in host.take()] == [{"subtype": "interrupt"}]


def test_what_is_cancelled_before_the_start_is_not_written_and_the_rest_is() -> None:
    host = Host(ready=False)
    connection = host.connection
    kept, dropped = connection.exchanges.send_request("get_usage"), connection.exchanges.send_request("get_usage")
    first, second = connection.conversation.send_prompt("1"), connection.conversation.send_prompt("2")
    assert connection.exchanges.cancel_request(dropped)
    assert connection.expire_turn(first)
    host.initialize()
    host.take()
    host.answer(host.initialize_id)
    assert [frame.get("request_id") or frame["uuid"] for frame in host.take()] == [kept, second]
    assert host.turn(first) == [TurnState.INTERRUPTED]


# -- starts that fail --------------------------------------------------------------------------------------------------


def test_a_start_that_takes_too_long_quotes_stderr_and_stdout() -> None:
    host = Host(ready=False)
    host.initialize()
    host.feed(b"not json")
    assert host.connection.expire(host.initialize_id, 60.0, b" loading plugins\n")
    error = host.connection.state.terminal_error
    assert isinstance(error, InitializationTimeoutError)
    assert (error.timeout, error.output) == (60.0, "loading plugins\nstdout: not json")


@pytest.mark.parametrize(
    ("frame", "error", "text"),
    [
        (result(is_error=True, errors=["one", "two"]), InitializationError, "one; two"),
        (result(is_error=True, result="the result"), InitializationError, "the result"),
        (result(is_error=True), InitializationError, "no reason given"),
        (
            result(is_error=True, errors=["No conversation found with session ID: 1"]),
            SessionNotFoundError,
            "No conversation found",
        ),
        (
            result(is_error=True, errors=['Provided value "x" is not a UUID and does not match any session title.']),
            SessionNotFoundError,
            "any session title",
        ),
        (result(), CLIExitedDuringInitError, "some words"),
    ],
)
def test_a_start_that_fails_gives_the_reason_that_the_cli_gave(
    frame: dict[str, Any], error: type[Exception], text: str
) -> None:
    host = Host(ready=False)
    host.initialize()
    host.feed(frame)
    host.connection.receive_eof()
    host.connection.process_exited(3, b"some words")
    found = host.connection.state.terminal_error
    assert isinstance(found, error)
    assert text in str(found)
    assert found.session_id == "s1"
    if isinstance(found, CLIExitedDuringInitError):
        assert (found.exit_code, found.output) == (3, "some words")


def test_requests_that_came_before_a_stop_get_the_safe_answer() -> None:
    host = Host(ready=False)
    host.connection.state.begin_start()
    host.ask("early", "can_use_tool", **TOOL)
    assert host.take() == []
    host.connection.begin_stop()
    [frame] = host.take()
    assert frame["response"]["request_id"] == "early"
    assert frame["response"]["response"] == {"behavior": "deny", "message": "the session is stopping"}
    assert not host.of(events.RequestReceived)


def test_too_many_requests_before_the_start_are_refused_with_the_reason() -> None:
    host = Host(ready=False, limits=Limits(early_requests=1))
    host.ask("a", "hook_callback", **HOOK)
    host.ask("b", "hook_callback", **HOOK)
    [frame] = host.take()
    assert frame["response"] == {
        "subtype": "error",
        "request_id": "b",
        "error": "Too many requests before `initialize`",
    }
    host.ask("b", "hook_callback", **HOOK)  # its id was used
    assert host.take() == []


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_report_belongs_to_its_prompt_while_that_is_open() -> None:
    host = Host()
    turn = host.connection.conversation.send_prompt("1")
    host.feed(report(turn, "queued"), report("never", "started"))
    assert host.whose(CommandLifecycleMessage) == [(turn,), ()]


def test_the_session_is_named_by_an_init_a_result_or_any_message_that_names_one() -> None:
    host = Host()
    host.feed(assistant(), assistant(session_id=""))
    assert host.connection.state.session_id is None
    host.feed(assistant(session_id="first"), assistant(session_id="second"))
    assert host.connection.state.session_id == "first"
    host.feed({"type": "system", "subtype": "init"}, result(session_id=""))
    assert host.connection.state.session_id == "first"
    host.feed({"type": "system", "subtype": "init", "session_id": "third"})
    assert host.connection.state.session_id == "third"
    host.feed(result(session_id="fourth"))
    assert host.connection.state.session_id == "fourth"
    assert host.whose(InitMessage) == [(), ()]


def test_what_comes_after_the_output_has_ended_is_not_read() -> None:
    host = Host()
    host.connection.receive_eof()
    host.feed(assistant())
    host.connection.receive_eof()
    assert host.whose() == []
    assert not host.connection.state.exited
    host.connection.process_exited(0)
    host.connection.process_exited(7)
    assert (host.connection.state.exit_code, host.connection.state.exited) == (0, True)


def test_a_skipped_line_is_described() -> None:
    host = Host(limits=Limits(line_bytes=2_000))
    host.feed(b"y" * 3_000)
    [warning] = [event.warning for event in host.of(events.WarningRaised)]
    assert warning.context == {"size": 3_000, "head": b"y" * 200}
    assert "`Limits.line_bytes` is 2,000" in warning.message


def test_a_secret_at_the_end_of_what_is_shown_of_a_line_is_masked() -> None:
    host = Host(limits=Limits(line_bytes=2_000))
    host.connection.reader.mask = lambda line: line.replace(b"hunter2-and-more", b"<masked>")
    host.feed(b"y" * 190 + b"hunter2-and-more" + b"y" * 3_000)
    [warning] = [event.warning for event in host.of(events.WarningRaised)]
    head = warning.context["head"]
    assert isinstance(head, bytes)
    assert (head[:190], b"hunt" in head) == (b"y" * 190, False)


def test_names_of_prompts_are_followed_wherever_they_stand() -> None:
    host = Host()
    one, two, three = (host.connection.conversation.send_prompt(str(number)) for number in range(3))
    host.feed(assistant(user_message_uuid=two, user_message_uuids=[one]), assistant(user_message_uuids=[three]))
    assert [host.turn(turn) for turn in (one, two, three)] == [[TurnState.STARTED]] * 3
    assert host.whose() == [(one, two), (one, two, three)]


def test_background_tasks_are_work_and_keep_the_input_open() -> None:
    host = Host()
    host.feed(session_state("idle"))
    assert (host.connection.conversation.working, host.connection.conversation.at_work) == (False, False)
    host.feed(tasks("t"))
    assert (host.connection.conversation.working, host.connection.conversation.at_work) == (False, True)
    turn = host.connection.conversation.send_prompt("1")
    assert host.connection.conversation.working
    host.feed(report(turn, "started"), result(), session_state("requires_action"))
    assert host.connection.conversation.working
    assert host.connection.conversation.activity is SessionActivity.REQUIRES_ACTION
    host.feed(tasks("t"), tasks("t"))
    assert len(host.of(events.BackgroundTasksChanged)) == 1


def test_a_prompt_that_was_not_written_is_not_what_the_cli_works_on() -> None:
    host = Host(ready=False, hold_until_confirmed=True)
    host.initialize()
    turn = host.connection.conversation.send_prompt("held")
    host.feed(assistant(), result())
    assert host.turn(turn) == []
    assert host.whose(object) == [(), ()]
    host.answer(host.initialize_id)
    host.feed(assistant(), result())
    assert host.turn(turn) == [TurnState.STARTED, TurnState.COMPLETED]


# -- their requests ----------------------------------------------------------------------------------------------------


def test_an_error_answer_ends_a_request_and_says_the_reason() -> None:
    host = Host()
    host.ask("r", "hook_callback", **HOOK)
    assert host.connection.exchanges.in_flight
    assert [request.subtype for request in host.connection.exchanges.in_flight] == ["hook_callback"]
    assert host.connection.exchanges.send_error("r", "no")
    assert not host.connection.exchanges.in_flight


@pytest.mark.parametrize(
    ("subtype", "fields", "safe"),
    [
        ("can_use_tool", TOOL, {"behavior": "deny", "message": "half ?"}),
        (
            "mcp_message",
            MCP,
            {"mcp_response": {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "half ?"}}},
        ),
    ],
)
def test_a_reason_that_cannot_be_encoded_is_sent_as_far_as_it_can_be(
    subtype: str, fields: dict[str, Any], safe: dict[str, Any]
) -> None:
    host = Host()
    host.ask("r", subtype, **fields)
    assert host.connection.exchanges.fail_request("r", "half \ud800")
    [frame] = host.take()
    assert frame["response"]["response"] == safe


def test_a_request_that_is_open_at_a_stop_is_cancelled_with_its_subtype() -> None:
    host = Host()
    host.ask("r", "can_use_tool", **TOOL)
    host.connection.begin_stop()
    [cancelled] = host.of(events.RequestCancelled)
    assert (cancelled.request_id, cancelled.subtype, cancelled.reason) == ("r", "can_use_tool", "stopping")
    [frame] = host.take()
    assert frame["response"]["response"]["message"] == "the session is stopping"


def test_the_role_cli_confirms_the_handshake_once_it_answers() -> None:
    for refused in (False, True):
        cli = Connection(Role.CLI)
        cli.receive_data(frames.request_frame("i", "initialize", {}))
        [received] = cli.events_received()
        assert isinstance(received, events.RequestReceived)
        assert cli.state.handshake is Handshake.SENT
        cli.exchanges.send_error("i", "no") if refused else cli.exchanges.send_response("i", {})
        assert cli.state.handshake is (Handshake.FAILED if refused else Handshake.CONFIRMED)
        response = json.loads(cli.data_to_send())["response"]
        assert response["subtype"] == ("error" if refused else "success")


def test_another_answer_does_not_confirm_the_handshake_of_the_role_cli() -> None:
    cli = Connection(Role.CLI)
    cli.receive_data(frames.request_frame("i", "initialize", {}) + frames.request_frame("o", "get_usage", {}))
    cli.events_received()
    assert cli.exchanges.send_response("o", {})
    assert cli.state.handshake is Handshake.SENT


def test_an_id_that_was_answered_safely_is_not_answered_again() -> None:
    host = Host()
    host.ask("h", "hook_callback", callback_id=5)
    assert len(host.take()) == 1
    host.ask("h", "hook_callback", **HOOK)
    assert host.take() == []
    assert not host.of(events.RequestReceived)


def test_an_answer_that_cannot_be_read_at_all_is_a_warning_with_the_reason() -> None:
    host = Host()
    request = host.connection.exchanges.send_request("get_usage")
    line = json.dumps({"type": "control_response", "response": {"subtype": "success", "request_id": request}})
    host.feed(line.replace("}}", ', "response": 1e999}}').encode())
    [warned] = host.of(events.WarningRaised)
    assert warned.warning.context["field"] == "response"
    assert warned.warning.context["reason"] not in ("", "None")
    [resolved] = host.of(events.RequestResolved)
    assert resolved.error is None


# -- prompts that run together -----------------------------------------------------------------------------------------


def test_a_message_belongs_to_its_prompts_in_the_order_in_which_they_were_sent() -> None:
    host = Host()
    one, two, three = (host.connection.conversation.send_prompt(text) for text in "123")
    host.feed(report(three, "started"), report(one, "started"), report(two, "started"), assistant())
    assert host.whose() == [(one, two, three)]


# -- what a debugging user reads ---------------------------------------------------------------------------------------


def test_records_of_the_log_name_the_session_the_turn_that_runs_and_the_process() -> None:
    host = Host()
    log = host.connection.log
    assert log.ids() == {"session_id": None, "turn_id": None, "pid": None}
    host.connection.conversation.send_prompt("waits")
    turn = host.connection.conversation.send_prompt("runs")
    log.pid = lambda: 7
    host.feed(report(turn, "started"), assistant(session_id="s1"))
    assert log.ids() == {"session_id": "s1", "turn_id": turn, "pid": 7}


def test_frames_that_mean_nothing_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    host = Host()
    host.feed({"type": "keep_alive"})
    host.answer("never")
    host.ask("h", "hook_callback", **HOOK)
    host.ask("h", "hook_callback", **HOOK)
    host.ask("", "hook_callback", **HOOK)
    host.feed({"type": "control_cancel_request", "request_id": "gone"}, {"type": "control_cancel_request"})
    assert caplog.messages == [
        "a frame of type 'keep_alive' was dropped",
        "no request waits for the control response to 'never'",
        "a control request was dropped: its id 'h' is empty or was used before",
        "a control request was dropped: its id '' is empty or was used before",
        "no request is open that the cancellation of 'gone' could mean",
        "no request is open that the cancellation of '' could mean",
    ]
    assert {(record.name, record.levelno) for record in caplog.records} == {("hackamore", logging.DEBUG)}


def test_open_requests_that_cannot_be_read_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")
    host = Host(ready=False)
    host.initialize()
    host.answer(host.initialize_id, {}, pending_permission_requests={"no": "list"})
    assert caplog.messages == ["pending requests in the answer to `initialize` could not be read"]


# -- results -----------------------------------------------------------------------------------------------------------


def limited(status: str) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": {"status": status, "rateLimitType": "five_hour"}}


@pytest.mark.parametrize(
    ("before", "is_error", "kind"),
    [
        ([limited("rejected")], True, "five_hour"),
        ([limited("rejected")], False, None),
        ([limited("allowed_warning")], True, None),
        ([limited("rejected"), limited("allowed")], True, None),
        ([limited("rejected"), result()], True, None),
    ],
)
def test_a_failed_result_has_the_rate_limit_that_refused_its_turn(
    before: list[dict[str, Any]], is_error: bool, kind: str | None
) -> None:
    host = Host()
    host.feed(*before, result(is_error=is_error))
    assert host.connection.conversation.last_result is not None
    limit = host.connection.conversation.last_result.rate_limit
    assert (limit and limit.rate_limit_type) == kind


# -- endings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize(
    ("code", "hint"), [(3, "This exit code has no known meaning."), (-9, "It was ended by SIGKILL")]
)
def test_a_death_says_what_was_open_and_what_the_exit_code_means(prompt: bool, code: int, hint: str) -> None:
    host = Host()
    if prompt:
        host.connection.conversation.send_prompt("1")
    host.connection.receive_eof()
    host.connection.process_exited(code, b"half \xff")
    [ended] = host.of(events.Ended)
    error = ended.error
    assert isinstance(error, SessionClosedError)
    assert error.reason.startswith(f"the CLI exited{' while a prompt was open' if prompt else ''}. {hint}")
    assert (error.exit_code, error.stderr_tail, error.expected) == (code, "half \ufffd", False)
    assert (ended.ending, ended.exit_code, ended.by_exit) == (Ending.FAILED, code, True)


def test_a_failure_while_the_session_stops_is_a_stop() -> None:
    host = Host(ready=False)
    host.connection.state.begin_start()
    host.initialize()
    host.answer(host.initialize_id)
    host.connection.begin_stop()
    host.connection.fail(SessionClosedError(expected=False, reason="lost"))
    [ended] = host.of(events.Ended)
    assert (ended.ending, ended.error) == (Ending.STOPPED, None)
    assert host.connection.state.terminal_error is None
    assert host.stage() is SessionState.STOPPED


def test_an_end_that_the_shell_brings_is_not_by_exit() -> None:
    host = Host()
    host.feed(tasks("t"))
    host.connection.fail(SessionClosedError(expected=False, reason="lost"))
    [ended] = host.of(events.Ended)
    assert (ended.ending, ended.exit_code, ended.by_exit) == (Ending.FAILED, None, False)
    assert host.connection.conversation.background_tasks == ()
    assert host.connection.state.input_closed
    assert not host.connection.conversation.at_work


def test_each_waiter_of_a_failed_session_gets_the_error_with_the_session_id() -> None:
    host = Host()
    host.feed(assistant(session_id="s1"))
    host.connection.fail(SessionClosedError(expected=False, reason="lost"))
    first, second = host.connection.state.closed_error(), host.connection.state.closed_error()
    assert first is not second
    assert {first.session_id, second.session_id} == {"s1"}
    assert "lost" in str(first)


def test_messages_of_the_other_side_are_written_as_they_are() -> None:
    host = Host()
    host.connection.outbox.send_message(b'{"type":"x","n":1e2}')
    assert host.connection.data_to_send() == b'{"type":"x","n":1e2}\n'
    host.connection.begin_stop()
    host.ask("m", "mcp_message", **MCP)
    [frame] = host.take()
    assert frame["response"]["response"]["mcp_response"]["id"] == 7
