"""Warnings and errors that the core builds: each carries its code, its facts and advice that fits the cause."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hackamore import ProcessError
from hackamore._engine.protocol import events, frames
from hackamore._engine.protocol.connection import Connection, Role
from hackamore._engine.protocol.diagnostics import (
    did_not_exit,
    exit_code_hint,
    incomplete_last_line,
    line_skipped,
    process_failure,
    refused_option,
)
from hackamore._engine.protocol.framing import LineFramer
from hackamore._engine.protocol.log import issue, one_line
from hackamore.errors import UnsupportedCLIVersionError
from hackamore.messages import BackgroundTasksChangedMessage, from_data
from tests.protocol.test_connection import HOOK, Host, assistant, result, tasks


def failure(code: int | None, stderr: bytes = b"", **more: Any) -> ProcessError:
    facts = {"stdout_was_empty": True, "any_message": False, "last_non_json_line": None, "last_result": None}
    error = process_failure(code, stderr_tail=stderr, **{**facts, **more})
    assert isinstance(error, ProcessError)
    return error


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_a_cli_that_stays_is_described_with_its_tasks() -> None:
    listed = from_data(tasks("b", "a"))
    ambient = from_data(tasks("quiet", ambient=True))
    assert isinstance(listed, BackgroundTasksChangedMessage)
    assert isinstance(ambient, BackgroundTasksChangedMessage)
    warning = did_not_exit(2.5, [*listed.tasks, *ambient.tasks])
    assert warning.code == "CLI_DID_NOT_EXIT"
    assert warning.context == {"seconds": 2.5, "background_tasks": ["a", "b"]}
    assert warning.message.startswith("The CLI did not exit within 2.5 s of its last result")
    assert warning.message.endswith("; 2 background tasks were running.")
    assert did_not_exit(2.5, []).message.endswith("and was stopped.")


def test_lines_that_cannot_be_used_are_quoted_in_the_context() -> None:
    cut = incomplete_last_line(b"x" * 3_000)
    assert (cut.code, cut.context) == ("INCOMPLETE_LAST_LINE", {"line": b"x" * 2_000})
    assert cut.message == "The output ended in the middle of a line."
    skipped = line_skipped(12_345, b"head", 10_000)
    assert (skipped.code, skipped.context) == ("OVERSIZED_LINE_SKIPPED", {"size": 12_345, "head": b"head"})
    assert skipped.message == "A line of at least 12,345 bytes was skipped; `Limits.line_bytes` is 10,000."


# -- exit codes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "empty", "begins"),
    [
        (None, True, "Its exit status is unknown"),
        (0, True, "It ended as if all were well"),
        (1, True, "It stopped before it began to work"),
        (1, False, "It failed after it had started to work"),
        (2, True, "It refused its arguments"),
        (126, True, "The file is there and could not be executed"),
        (127, True, "The command, or the interpreter that it needs, was not found"),
        (3, True, "This exit code has no known meaning"),
        (128, True, "This exit code has no known meaning"),
        (129, True, "It was ended by SIGHUP: its terminal"),
        (-1, True, "It was ended by SIGHUP: its terminal"),
        (137, True, "It was ended by SIGKILL: it was killed"),
        (-15, True, "It was ended by SIGTERM: something asked"),
        (-40, True, "It was ended by signal 40."),
        (168, True, "This exit code has no known meaning"),
    ],
)
def test_each_exit_code_has_one_hint(code: int | None, empty: bool, begins: str) -> None:
    assert exit_code_hint(code, stdout_was_empty=empty).startswith(begins)


@pytest.mark.parametrize(
    ("code", "stderr", "empty", "begins"),
    [
        (1, b" \n", True, ["Log in with `claude`", "Its stderr was empty"]),
        (1, b"", False, ["Its stderr was empty"]),
        (1, b"some text", True, []),
        (2, b"some text", True, ["Compare `claude --version`"]),
        (126, b"some text", True, ["Check its permissions"]),
        (127, b"some text", True, ["Check `cli_path`"]),
        (-9, b"some text", True, ["Look at the memory limit"]),
        (137, b"", False, ["Look at the memory limit", "Its stderr was empty"]),
        (1, b"Error: Invalid API key", True, ["Check ANTHROPIC_API_KEY."]),
        (137, b"ENOSPC, and then ENOMEM", True, ["The disk is full.", "The machine is out of memory."]),
    ],
)
def test_the_advice_fits_the_code_and_stderr(code: int, stderr: bytes, empty: bool, begins: list[str]) -> None:
    advice = failure(code, stderr, stdout_was_empty=empty).diagnostic.troubleshooting
    assert len(advice) == len(begins)
    assert all(text.startswith(begin) for text, begin in zip(advice, begins, strict=True))


def test_a_failure_keeps_all_that_is_known() -> None:
    last = from_data(result(is_error=True))
    error = failure(3, b"half \xff", stdout_was_empty=False, last_non_json_line=b"noise \xff", last_result=last)
    found = error.diagnostic
    assert error.exit_code == 3
    assert (found.stderr_tail, found.last_non_json_line) == ("half \ufffd", "noise \ufffd")
    assert found.last_result is last
    assert found.stdout_was_empty is False
    assert failure(3).diagnostic.last_non_json_line is None


@pytest.mark.parametrize("empty", [True, False])
def test_a_failure_has_the_hint_of_its_exit_code(empty: bool) -> None:
    found = failure(1, stdout_was_empty=empty).diagnostic
    assert found.exit_code_hint == exit_code_hint(1, stdout_was_empty=empty)


def test_an_option_that_the_cli_does_not_know_is_named_with_the_fix() -> None:
    error = refused_option("error: unknown option '--new-flag=secret'\n")
    assert isinstance(error, UnsupportedCLIVersionError)
    text = str(error)
    assert (error.detected, error.minimum) == (None, "a version that knows it")
    assert "it does not know the option '--new-flag'" in text
    assert "Update the CLI with `npm install -g @anthropic-ai/claude-code@latest`, or leave the option out." in text
    assert "secret" not in text
    assert refused_option("error: it broke") is None
    long = str(refused_option(f"error: unknown option '--{'x' * 300}'"))
    assert "x" * 78 in long
    assert "x" * 90 not in long


# -- frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_ready_json_is_copied_on_one_line(end: bytes) -> None:
    line = frames.success_frame("r", b'{"a":' + end + b"1}")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    assert json.loads(line)["response"] == {"subtype": "success", "request_id": "r", "response": {"a": 1}}
    assert frames.message_frame(msgspec.Raw(b' {"a":1}' + end)) == b'{"a":1}\n'


def test_frames_that_are_not_objects_or_json_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^a frame is an object$"):
        frames.message_frame(b"[1]")
    with pytest.raises(ValueError, match=r"^a payload is not JSON: "):
        frames.message_frame(b"{")
    with pytest.raises(ValueError, match=r"^a text holds half a character"):
        frames.success_frame("r", {"a": "\ud800"})
    with pytest.raises(ValueError, match=r"^JSON cannot hold it: "):
        frames.success_frame("r", {"a": object()})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match=r"^nested too deep, or holding itself$"):
        frames.success_frame("r", {"a": loop})


def test_an_error_frame_has_a_code_only_if_there_is_one() -> None:
    assert json.loads(frames.error_frame("r", "half \ud800"))["response"] == {
        "subtype": "error",
        "request_id": "r",
        "error": "half ?",
    }
    assert json.loads(frames.error_frame("r", "no", "c"))["response"]["error_code"] == "c"


def test_many_short_lines_and_a_long_one_are_cut_alike() -> None:
    for short in (1, 5_000):
        lines = [b"{}"] * short + [b"x" * 70_000, b"{}"]
        assert [*LineFramer(1_000_000).receive_data(b"\n".join(lines) + b"\n")] == lines


def test_a_warning_is_issued_at_the_line_of_the_program() -> None:
    inside: dict[str, Any] = {"__name__": "hackamore.inside", "issue": issue}
    exec("def call(warning):\n    issue(warning)\n\ndef outer(warning):\n    call(warning)\n", inside)
    for call in (issue, inside["call"], inside["outer"]):
        with pytest.warns(UserWarning, match="look") as issued:
            call(UserWarning("look"))
        assert [found.filename for found in issued] == [__file__]


def test_a_log_record_has_one_line() -> None:
    assert one_line(" a \n\n b\n") == "a; b"


# -- answers of the connection -----------------------------------------------------------------------------------------


def answered(host: Host) -> dict[str, Any]:
    (frame,) = host.take()
    response: dict[str, Any] = frame["response"]
    return response


def test_an_error_answer_carries_its_text_and_code() -> None:
    host = Host()
    host.ask("r", "hook_callback", **HOOK)
    assert host.connection.exchanges.send_error("r", "not now", "busy")
    assert answered(host) == {"subtype": "error", "request_id": "r", "error": "not now", "error_code": "busy"}
    assert not host.connection.exchanges.send_error("r", "again")
    assert host.take() == []


def test_a_safe_answer_says_the_reason() -> None:
    cli = Connection(Role.CLI)
    cli.receive_data(frames.request_frame("r", "initialize", {}))
    cli.events_received()
    assert cli.exchanges.fail_request("r", "broken")
    response = json.loads(cli.data_to_send())["response"]
    assert (response["subtype"], response["error"]) == ("error", "broken")
    assert not cli.exchanges.fail_request("r", "again")


def test_requests_that_are_open_at_the_end_are_cancelled_and_closed() -> None:
    host = Host()
    host.ask("r", "hook_callback", **HOOK)
    host.connection.receive_eof()
    host.connection.process_exited(0, b"")
    (cancelled,) = host.of(events.RequestCancelled)
    assert (cancelled.request_id, cancelled.subtype, cancelled.reason) == ("r", "hook_callback", "ended")
    assert not host.connection.exchanges.in_flight
    assert not host.connection.exchanges.send_response("r", {})


def test_nothing_is_written_once_the_input_is_closed() -> None:
    host = Host()
    host.ask("r", "hook_callback", **HOOK)
    host.connection.conversation.send_prompt("hi")
    host.connection.outbox.input_broke()
    assert host.take() == []
    assert not host.connection.exchanges.send_response("r", {})
    assert host.take() == []


@pytest.mark.parametrize(("task", "ended"), [("t", True), ("other", False)])
def test_an_update_of_a_task_ends_that_task_alone(task: str, ended: bool) -> None:
    host = Host()
    host.feed(tasks("t", "rest"))
    host.feed({"type": "system", "subtype": "task_updated", "task_id": task, "patch": {"status": "completed"}})
    assert host.connection.conversation.unsettled is ended


@pytest.mark.parametrize(("seconds", "within"), [(2.5, "within 2.5 s"), (None, "in time")])
def test_a_request_of_the_cli_that_expires_is_answered_with_the_reason(seconds: float | None, within: str) -> None:
    host = Host()
    host.ask("r", "can_use_tool", tool_name="Bash", input={})
    assert host.connection.expire("r", seconds)
    assert f"it was not answered {within}" in json.dumps(answered(host))
    (cancelled,) = host.of(events.RequestCancelled)
    assert (cancelled.request_id, cancelled.reason) == ("r", "expired")
    assert not host.connection.expire("r", seconds)


def test_several_lines_in_one_read_are_one_batch_in_order() -> None:
    host = Host()
    host.feed(*(assistant(uuid=str(number)) for number in range(3)), b"noise", assistant(uuid="3"))
    batches = [[message.uuid for message in batch.messages] for batch in host.of(events.MessagesReceived)]
    assert batches == [["0", "1", "2"], ["3"]]
    assert [bad.count for bad in host.of(events.BadLine)] == [1]
