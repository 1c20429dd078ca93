"""Every cell of the one-shot table, visited through the connection and through nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hackamore import Limits, Options, Timeouts
from hackamore._engine.protocol.states.query import ONE_SHOT, State, Trigger, Yield
from hackamore._engine.queries.plain import PlainQuery
from hackamore.errors import (
    DecodeError,
    DecodeErrorLimitError,
    HackamoreError,
    LineTooLongError,
    ProcessError,
    SlowConsumerError,
    StreamWarning,
    TurnTimeoutError,
    UnsupportedCLIVersionError,
)
from hackamore.messages import AssistantMessage, ResultMessage, UnknownMessage
from tests.contract import shows

ASSISTANT = b'{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]},"session_id":"s1"}\n'
RESULT = b'{"duration_ms":1,"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"s1"}\n'
INIT = b'{"type":"system","subtype":"init","session_id":"s1"}\n'
ERROR_RESULT = b'{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["no"]}\n'
BAD = b"this is noise\n"


def connection(*, line_bytes: int = 1000, now: float = 0.0, **options: Any) -> PlainQuery:
    query = PlainQuery(Options(limits=Limits(line_bytes=line_bytes), **options))
    query.begin(now)
    return query


def kinds(query: PlainQuery) -> list[str]:
    found: list[str] = []
    while query.core.items:
        item = query.core.items.popleft()
        found.append(item.code if isinstance(item, StreamWarning) else type(item).__name__)
    return found


def in_state(state: State, **changes: Any) -> PlainQuery:
    """Bring a connection into a state by what the outside can do."""
    core = connection(**changes)
    match state:
        case State.STREAMING:
            core.receive_data(ASSISTANT, 0.0)
        case State.RESULT_RECEIVED:
            core.receive_data(ASSISTANT + RESULT, 0.0)
        case State.ENDING:
            core.receive_eof(0.0)
            core.process_exited(0, b"")
        case State.CLOSED:
            core.receive_data(RESULT, 0.0)
            core.receive_eof(0.0)
            core.process_exited(0, b"")
    core.core.items.clear()
    assert core.core.state is state
    return core


def make_happen(core: PlainQuery, trigger: Trigger) -> None:
    """Let something happen, by bytes, exits and time alone."""
    match trigger:
        case Trigger.MESSAGE:
            core.receive_data(ASSISTANT, 1.0)
        case Trigger.RESULT:
            core.receive_data(RESULT, 1.0)
        case Trigger.BAD_LINE:
            core.receive_data(BAD, 1.0)
        case Trigger.BAD_LINE_LIMIT:
            core.receive_data(BAD * 5, 1.0)
        case Trigger.OVERSIZED_LINE | Trigger.OVERSIZED_LINE_SKIPPED:
            core.receive_data(b"x" * 1001 + b"\n", 1.0)
        case Trigger.INCOMPLETE_LAST_LINE:
            core.receive_data(b'{"type":"assist', 1.0)
            core.receive_eof(1.0)
            core.process_exited(0, b"")
        case Trigger.EXITED_CLEAN | Trigger.EXITED_EMPTY:
            core.receive_eof(1.0)
            core.process_exited(0, b"")
        case Trigger.EXITED_WITH_ERROR | Trigger.EXITED_WITH_ERROR_STRICT:
            core.receive_eof(1.0)
            core.process_exited(3, b"some words on stderr")
        case Trigger.DEADLINE:
            core.expire(100.0)
        case Trigger.STILL_RUNNING:
            core.receive_eof(1.0)
            core.expire(100.0)
        case Trigger.PROMPT:
            core.core.prompt_taken()
        case Trigger.FAILED:
            core.connection.fail(SlowConsumerError(2, 1))
            core.receive_eof(1.0)
        case Trigger.STOPPED:
            core.connection.begin_stop()
            core.receive_eof(1.0)
            core.process_exited(-15, b"")
        case Trigger.ASKED_AT_THE_END:
            core.core.asked_at_the_end()


SETTINGS: dict[Trigger, dict[str, Any]] = {
    Trigger.OVERSIZED_LINE_SKIPPED: {"on_oversize": "skip"},
    Trigger.EXITED_WITH_ERROR_STRICT: {"strict_exit_status": True},
    Trigger.DEADLINE: {"timeouts": Timeouts(turn=50.0)},
}

EXPECTED: Mapping[tuple[State, Trigger], tuple[list[str], type[HackamoreError] | None]] = {
    (State.STREAMING, Trigger.MESSAGE): (["AssistantMessage"], None),
    (State.STREAMING, Trigger.RESULT): (["ResultMessage"], None),
    (State.STREAMING, Trigger.BAD_LINE): (["DecodeError"], None),
    (State.STREAMING, Trigger.BAD_LINE_LIMIT): (["DecodeError"] * 4, DecodeErrorLimitError),
    (State.STREAMING, Trigger.OVERSIZED_LINE): ([], LineTooLongError),
    (State.STREAMING, Trigger.OVERSIZED_LINE_SKIPPED): (["OVERSIZED_LINE_SKIPPED"], None),
    (State.STREAMING, Trigger.INCOMPLETE_LAST_LINE): (["INCOMPLETE_LAST_LINE", "CLEAN_EXIT_NO_RESULT"], None),
    (State.STREAMING, Trigger.EXITED_CLEAN): (["CLEAN_EXIT_NO_RESULT"], None),
    (State.STREAMING, Trigger.EXITED_EMPTY): (["EMPTY_RESPONSE"], None),
    (State.STREAMING, Trigger.EXITED_WITH_ERROR): ([], ProcessError),
    (State.STREAMING, Trigger.EXITED_WITH_ERROR_STRICT): ([], ProcessError),
    (State.STREAMING, Trigger.DEADLINE): ([], TurnTimeoutError),
    (State.STREAMING, Trigger.STILL_RUNNING): ([], ProcessError),
    (State.STREAMING, Trigger.FAILED): ([], SlowConsumerError),
    (State.STREAMING, Trigger.STOPPED): ([], None),
    (State.STREAMING, Trigger.PROMPT): ([], None),
    (State.RESULT_RECEIVED, Trigger.MESSAGE): (["AssistantMessage"], None),
    (State.RESULT_RECEIVED, Trigger.RESULT): (["ResultMessage"], None),
    (State.RESULT_RECEIVED, Trigger.BAD_LINE): (["UNEXPECTED_DATA_AFTER_RESULT"], None),
    (State.RESULT_RECEIVED, Trigger.BAD_LINE_LIMIT): (["UNEXPECTED_DATA_AFTER_RESULT"] * 5, None),
    (State.RESULT_RECEIVED, Trigger.OVERSIZED_LINE): ([], LineTooLongError),
    (State.RESULT_RECEIVED, Trigger.OVERSIZED_LINE_SKIPPED): (["OVERSIZED_LINE_SKIPPED"], None),
    (State.RESULT_RECEIVED, Trigger.INCOMPLETE_LAST_LINE): (["UNEXPECTED_DATA_AFTER_RESULT"], None),
    (State.RESULT_RECEIVED, Trigger.EXITED_CLEAN): ([], None),
    (State.RESULT_RECEIVED, Trigger.EXITED_WITH_ERROR): (["NONZERO_EXIT_AFTER_RESULT"], None),
    (State.RESULT_RECEIVED, Trigger.EXITED_WITH_ERROR_STRICT): ([], ProcessError),
    (State.RESULT_RECEIVED, Trigger.FAILED): ([], SlowConsumerError),
    (State.RESULT_RECEIVED, Trigger.STOPPED): ([], None),
    (State.RESULT_RECEIVED, Trigger.PROMPT): ([], None),
    (State.RESULT_RECEIVED, Trigger.STILL_RUNNING): (["CLI_DID_NOT_EXIT"], None),
} | {(state, trigger): ([], None) for state in (State.ENDING, State.CLOSED) for trigger in Trigger}


def test_the_expectations_cover_the_table() -> None:
    assert set(EXPECTED) == set(ONE_SHOT)


@pytest.mark.parametrize("cell", EXPECTED, ids=lambda cell: f"{cell[0].name}-{cell[1].name}")
def test_cell(cell: tuple[State, Trigger]) -> None:
    state, trigger = cell
    expected_items, expected_error = EXPECTED[cell]
    core = connection() if trigger is Trigger.EXITED_EMPTY else in_state(state, **SETTINGS.get(trigger, {}))
    make_happen(core, trigger)
    if trigger is Trigger.EXITED_EMPTY and state in {State.ENDING, State.CLOSED}:
        core = in_state(state)
        make_happen(core, trigger)
    assert kinds(core) == expected_items
    assert type(core.core.terminal_error) is (expected_error or type(None))
    if trigger is not Trigger.INCOMPLETE_LAST_LINE:  # that one is followed by the exit
        assert core.core.state is ONE_SHOT[cell].then
    assert core.core.over is (core.core.state in {State.ENDING, State.CLOSED})


def test_unreachable_cells_are_missing() -> None:
    """What cannot happen has no cell: a result excludes emptiness and an open turn; before the end nobody is at it."""
    missing = {(state, trigger) for state in State for trigger in Trigger} - set(ONE_SHOT)
    assert missing == {
        (State.RESULT_RECEIVED, Trigger.EXITED_EMPTY),
        (State.RESULT_RECEIVED, Trigger.DEADLINE),
        (State.STREAMING, Trigger.ASKED_AT_THE_END),
        (State.RESULT_RECEIVED, Trigger.ASKED_AT_THE_END),
    }


def test_every_yield_is_used() -> None:
    assert {cell.gives for cell in ONE_SHOT.values()} == set(Yield)


def test_a_message_resets_the_count_of_bad_lines() -> None:
    core = connection()
    core.receive_data((BAD * 4 + ASSISTANT) * 3 + BAD * 4, 0.0)
    assert kinds(core) == (["DecodeError"] * 4 + ["AssistantMessage"]) * 3 + ["DecodeError"] * 4
    core.receive_data(BAD, 0.0)
    error = core.core.terminal_error
    assert isinstance(error, DecodeErrorLimitError)
    assert error.count == 5
    assert error.last.line == BAD.strip()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"noise", "not-json"),
        (b'"\xff\xfe"', "not-utf8"),
        (b"[1]", "not-an-object"),
        (b"17", "not-an-object"),
        (b"[" * 5000, "too-deep"),
    ],
)
def test_bad_lines_say_why(line: bytes, reason: str) -> None:
    core = connection(line_bytes=100_000)
    core.receive_data(line + b"\n", 0.0)
    item = core.core.items.popleft()
    assert isinstance(item, DecodeError)
    assert item.line == line
    assert item.reason in {reason, "not-json"} if reason == "too-deep" else item.reason == reason


def test_a_last_line_without_newline_that_parses_is_a_line() -> None:
    core = connection()
    core.receive_data(ASSISTANT + RESULT.rstrip(), 0.0)
    core.receive_eof(0.0)
    core.process_exited(0, b"")
    assert kinds(core) == ["AssistantMessage", "ResultMessage"]
    assert core.core.state is State.CLOSED


def test_any_exit_code_after_an_error_result_is_the_end() -> None:
    for code in (0, 1, 143, -9):
        core = connection(strict_exit_status=True)
        core.receive_data(ERROR_RESULT, 0.0)
        core.receive_eof(0.0)
        core.process_exited(code, b"error: it went wrong")
        assert kinds(core) == ["ResultMessage"]
        assert core.core.terminal_error is None
        assert core.core.state is State.CLOSED


@shows("errors.hints")
def test_an_unknown_option_is_named_as_the_cause() -> None:
    core = connection()
    core.receive_eof(0.0)
    core.process_exited(1, b"error: unknown option '--nonsense'\n")
    error = core.core.terminal_error
    assert isinstance(error, UnsupportedCLIVersionError)
    assert "--nonsense" in str(error)


def test_an_unknown_option_is_named_without_its_value() -> None:
    core = connection()
    core.receive_eof(0.0)
    core.process_exited(1, b'error: unknown option \'--mcp-config={"env":{"KEY":"s3cr3t' + 200 * b"x" + b"\"}}'\n")
    assert "--mcp-config'" in str(core.core.terminal_error)
    assert "s3cr3t" not in str(core.core.terminal_error)
    assert "xxx" not in str(core.core.terminal_error)


def test_an_unknown_option_after_messages_is_not_the_cause() -> None:
    core = in_state(State.STREAMING)
    core.receive_eof(0.0)
    core.process_exited(1, b"error: unknown option '--nonsense'\n")
    assert isinstance(core.core.terminal_error, ProcessError)


@shows("errors.hints")
@pytest.mark.parametrize(
    ("code", "word"),
    [
        (1, "logged in"),
        (2, "arguments"),
        (126, "executed"),
        (127, "not found"),
        (143, "SIGTERM"),
        (-15, "SIGTERM"),
        (-9, "SIGKILL"),
        (99, "99"),
    ],
)
@pytest.mark.parametrize("stderr", [b"", b"words of the program"])
@pytest.mark.parametrize("output", [b"", BAD])
def test_exit_codes_have_hints(code: int, word: str, stderr: bytes, output: bytes) -> None:
    core = connection()
    core.receive_data(output, 0.0) if output else None
    core.receive_eof(0.0)
    core.process_exited(code, stderr)
    error = core.core.terminal_error
    assert isinstance(error, ProcessError)
    assert error.exit_code == code
    assert str(code) in str(error)
    if code != 1 or not output:
        assert word in str(error)
    assert error.diagnostic.stdout_was_empty is (not output)
    assert error.diagnostic.stderr_tail == stderr.decode()
    assert error.diagnostic.last_non_json_line == (BAD.decode().strip() if output else None)
    assert (stderr.decode() in str(error)) or not stderr
    assert error.diagnostic.troubleshooting or stderr


def test_control_characters_of_stderr_do_not_reach_the_message_raw() -> None:
    core = connection()
    core.receive_eof(0.0)
    core.process_exited(1, b"\x1b]0;owned\x07 \xe2\x80\xae text")
    assert "\x1b" not in str(core.core.terminal_error)
    assert "\u202e" not in str(core.core.terminal_error)


# -- deadlines -----------------------------------------------------------------------------------------------------------


def test_first_message_idle_and_turn_deadlines() -> None:
    core = connection(timeouts=Timeouts(first_message=5, idle=3, turn=60), now=100.0)
    assert core.wait_seconds(101.0) == 4
    core.receive_data(ASSISTANT, 104.0)
    assert core.wait_seconds(104.0) == 3
    core.expire(106.9)
    assert not core.core.over
    core.expire(107.0)
    error = core.core.terminal_error
    assert isinstance(error, TurnTimeoutError)
    assert (error.kind, error.seconds) == ("idle", 3)
    assert isinstance(error, TimeoutError)


def test_keep_alives_extend_no_deadline() -> None:
    core = connection(timeouts=Timeouts(first_message=5, idle=5))
    core.receive_data(b'{"type":"keep_alive"}\n', 4.0)
    assert kinds(core) == []
    assert core.wait_seconds(4.0) == 1
    core.receive_data(ASSISTANT, 4.5)
    core.receive_data(b'{"type":"keep_alive"}\n' * 3, 9.0)
    assert core.wait_seconds(9.0) == 0.5


def test_after_the_result_idleness_counts_and_every_message_starts_it_anew() -> None:
    core = connection(timeouts=Timeouts(after_result=30))
    core.receive_data(RESULT, 10.0)
    assert core.wait_seconds(10.0) == 30
    core.receive_data(ASSISTANT, 39.0)
    assert core.wait_seconds(39.0) == 30
    core.receive_data(BAD, 50.0)
    assert core.wait_seconds(50.0) == 19
    core.expire(69.0)
    warning = core.core.items[-1]
    assert isinstance(warning, StreamWarning)
    assert warning.message.startswith("The CLI did not exit within 30 s of its last result")
    assert kinds(core)[-1] == "CLI_DID_NOT_EXIT"
    assert core.core.over


def test_with_background_tasks_the_longer_deadline_counts() -> None:
    tasks = {
        "type": "system",
        "subtype": "background_tasks_changed",
        "tasks": [{"task_id": "b1", "task_type": "shell", "description": ""}],
    }
    core = connection(timeouts=Timeouts(after_result=30, background=600))
    core.receive_data(json.dumps(tasks).encode() + b"\n" + RESULT, 0.0)
    assert core.wait_seconds(0.0) == 600
    assert core.turn_open
    core.receive_data(json.dumps(tasks | {"tasks": []}).encode() + b"\n", 10.0)
    assert core.wait_seconds(10.0) == 30
    assert not core.turn_open


@shows("process.own-turn")
def test_a_turn_that_the_cli_begins_by_itself_is_an_open_one() -> None:
    idle = {"type": "system", "subtype": "session_state_changed", "state": "idle", "sdk_host_only": True}
    notice = {"type": "system", "subtype": "task_notification", "task_id": "b1", "status": "completed"}
    for ends in (RESULT, json.dumps(idle).encode() + b"\n"):
        for begins in (INIT, json.dumps(notice).encode() + b"\n"):
            core = connection()
            core.receive_data(INIT + RESULT, 0.0)
            assert not core.turn_open
            core.receive_data(begins + ASSISTANT, 1.0)
            assert core.turn_open
            core.receive_data(ends, 2.0)
            assert not core.turn_open


def test_after_the_end_of_output_the_exit_is_awaited_for_five_seconds() -> None:
    core = in_state(State.STREAMING, timeouts=Timeouts(idle=1000))
    core.receive_eof(10.0)
    assert core.wait_seconds(10.0) == 5
    core.expire(15.0, b"tail")
    error = core.core.terminal_error
    assert isinstance(error, ProcessError)
    assert error.exit_code is None
    assert error.diagnostic.stderr_tail == "tail"


def test_nothing_is_awaited_once_over() -> None:
    for state in (State.ENDING, State.CLOSED):
        assert in_state(state).wait_seconds(1e9) is None


# -- what is delivered ----------------------------------------------------------------------------------------------------


def test_control_frames_are_not_delivered() -> None:
    core = connection()
    core.receive_data(
        b'{"type":"control_request","request_id":"r","request":{"subtype":"x"}}\n{"type":"keep_alive"}\n', 0.0
    )
    assert kinds(core) == []


def test_unknown_types_are_delivered_and_count_as_messages() -> None:
    core = connection()
    core.receive_data(b'{"type":"from_the_future","x":1}\n', 0.0)
    item = core.core.items.popleft()
    assert isinstance(item, UnknownMessage)
    assert item.raw == b'{"type":"from_the_future","x":1}'


def test_a_wrong_field_warns_before_its_message() -> None:
    core = connection()
    core.receive_data(b'{"type":"assistant","message":{"content":[]},"session_id":17}\n', 0.0)
    assert kinds(core) == ["FIELD_DROPPED", "AssistantMessage"]


def test_the_session_id_is_known_with_the_first_message_that_names_it() -> None:
    core = connection()
    core.receive_data(b'{"type":"from_the_future"}\n', 0.0)
    assert core.connection.state.session_id is None
    core.receive_data(ASSISTANT, 0.0)
    assert core.connection.state.session_id == "s1"


def test_results_are_kept_in_order() -> None:
    core = connection()
    core.receive_data(RESULT + ASSISTANT + RESULT.replace(b'"hi"', b'"again"'), 0.0)
    assert [result.result for result in core.core.results] == ["hi", "again"]
    assert core.core.last_result is core.core.results[-1]
    assert isinstance(core.core.items[0], ResultMessage)
    assert isinstance(core.core.items[1], AssistantMessage)


# -- the end ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "code", "expected", "error"),
    [
        (ASSISTANT, 0, ["INCOMPLETE_LAST_LINE", "CLEAN_EXIT_NO_RESULT"], None),
        (ASSISTANT, 3, [], ProcessError),
        (RESULT, 0, ["UNEXPECTED_DATA_AFTER_RESULT"], None),
        (RESULT, 3, ["UNEXPECTED_DATA_AFTER_RESULT", "NONZERO_EXIT_AFTER_RESULT"], None),
    ],
)
def test_what_an_incomplete_last_line_means_depends_on_the_exit(
    before: bytes, code: int, expected: list[str], error: type[HackamoreError] | None
) -> None:
    core = connection()
    core.receive_data(before + b'{"type":"assist', 0.0)
    core.receive_eof(0.0)
    core.process_exited(code, b"")
    assert kinds(core)[1:] == expected
    assert type(core.core.terminal_error) is (error or type(None))


@pytest.mark.parametrize(("before", "error"), [(b"", ProcessError), (ASSISTANT, ProcessError), (RESULT, None)])
def test_an_exit_without_a_status_is_judged_by_the_result(before: bytes, error: type[HackamoreError] | None) -> None:
    core = connection(strict_exit_status=True)
    core.receive_data(before, 0.0) if before else None
    core.receive_eof(0.0)
    core.process_exited(None, b"")
    assert type(core.core.terminal_error) is (error or type(None))
    assert core.core.state is State.CLOSED


def test_the_end_comes_once() -> None:
    core = connection()
    core.receive_data(ASSISTANT, 0.0)
    core.receive_eof(10.0)
    core.receive_eof(14.0)
    assert core.wait_seconds(14.0) == 1
    core.process_exited(0, b"")
    core.process_exited(3, b"")
    warning = core.core.items[-1]
    assert isinstance(warning, StreamWarning)
    assert warning.message == "The CLI exited with code 0 before a result came."
    assert kinds(core) == ["AssistantMessage", "CLEAN_EXIT_NO_RESULT"]
    assert core.core.terminal_error is None


def test_after_a_task_reported_its_end_the_shorter_timeout_counts() -> None:
    tasks = {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "b1"}]}
    update = {"type": "system", "subtype": "task_updated", "task_id": "b1", "patch": {"status": "completed"}}
    core = connection(timeouts=Timeouts(after_result=30, background=600))
    core.receive_data(json.dumps(tasks).encode() + b"\n" + RESULT, 0.0)
    core.receive_data(json.dumps(update).encode() + b"\n", 10.0)
    assert core.wait_seconds(10.0) == 30
