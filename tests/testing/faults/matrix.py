"""The fault matrix: faults, the behaviour of Hackamore, and the tests that show it. `docs/guides/testing/faults.md` shows this table.

Run as `python -m tests.testing.faults.matrix` it prints the table.
"""

from __future__ import annotations

from typing import NamedTuple

ALL = ("asyncio", "trio", "threads")
BEGIN, END = "<!-- the fault matrix -->", "<!-- end of the fault matrix -->"


class Row(NamedTuple):
    """One fault.

    Attributes:
        group: the line of the matrix it belongs to.
        fault: what goes wrong.
        outcome: what Hackamore does.
        tests: `file::function`, below `tests/`.
    """

    group: int
    fault: str
    outcome: str
    tests: tuple[str, ...]


LINES = 15
WIRE, TURNS, LEAVING = "testing/faults/test_wire.py", "testing/faults/test_turns.py", "testing/faults/test_leaving.py"
ONE_SHOT, HARD = "queries/test_one_shot.py", "queries/test_hard_cases.py"
LIFE, MOMENTS, ASKED = "session/test_life.py", "session/test_hard_moments.py", "answering/test_callbacks.py"
DEFECTS = "session/test_defects.py"

MATRIX: tuple[Row, ...] = (
    Row(
        1,
        "no response to `initialize`",
        "`InitializationTimeoutError` with the captured output; the child is reaped",
        (f"{LIFE}::test_a_start_that_fails",),
    ),
    Row(
        1,
        "the CLI exits, refuses or crashes during the handshake",
        "`CLIExitedDuringInitError` or `InitializationError` immediately, also for queued calls",
        (f"{LIFE}::test_a_start_that_fails", f"{ONE_SHOT}::test_exit_codes", f"{ONE_SHOT}::test_death_by_signal"),
    ),
    Row(
        1,
        "the CLI exits before it reads stdin",
        "`ProcessError` with the exit code instead of a broken pipe",
        (f"{WIRE}::test_a_cli_that_exits_before_it_reads",),
    ),
    Row(
        2,
        "silence after the prompt",
        "`TurnTimeoutError` with the name of the timeout; a session interrupts and stays usable",
        (
            f"{TURNS}::test_silence_after_the_prompt_is_told_from_silence_in_the_middle",
            f"{TURNS}::test_prompts_behind_one_that_never_ends_have_deadlines_too",
            f"{ONE_SHOT}::test_deadlines_of_the_turn",
            f"{LIFE}::test_a_deadline_interrupts_the_turn_and_keeps_the_session",
        ),
    ),
    Row(
        2,
        "the CLI ignores SIGTERM",
        "SIGKILL to its group and descendants after `kill_grace`",
        (
            f"{ONE_SHOT}::test_a_process_that_ignores_sigterm_is_killed",
            f"{LIFE}::test_a_process_that_ignores_everything_is_killed",
        ),
    ),
    Row(
        3,
        "much output before it reads; large prompts",
        "no deadlock: Hackamore writes while it reads",
        (
            f"{ONE_SHOT}::test_a_flood_before_stdin_is_read_and_a_large_prompt_do_not_block_each_other",
            f"{LIFE}::test_ten_megabytes_to_a_peer_that_does_not_read",
        ),
    ),
    Row(
        4,
        "a line of 64 MiB and more",
        "beyond the limit `LineTooLongError`, or a warning; a session loses one message",
        (
            f"{ONE_SHOT}::test_a_50_megabyte_message",
            f"{ONE_SHOT}::test_a_line_of_one_byte_more_than_64_mebibytes",
            f"{ONE_SHOT}::test_an_oversized_line_can_be_skipped",
            f"{WIRE}::test_a_frame_beyond_the_limit_costs_a_session_one_message",
        ),
    ),
    Row(
        4,
        "lines split at every byte; U+2028 and other odd characters",
        "whole and unchanged",
        ("testing/faults/test_faults.py::test_split_at_every_byte", f"{WIRE}::test_a_session_in_single_bytes"),
    ),
    Row(
        4,
        "invalid UTF-8, cut frames, log noise between frames",
        "the line is a `DecodeError` value; other lines are unaffected",
        (f"{WIRE}::test_noise_and_spoilt_frames_of_a_session", f"{ONE_SHOT}::test_endings_and_noise"),
    ),
    Row(
        4,
        "output that ends anywhere, also within a line",
        "`ProcessError`, or `INCOMPLETE_LAST_LINE` and `CLEAN_EXIT_NO_RESULT`; all pending calls of a session end",
        (
            f"{WIRE}::test_a_cut_at_every_byte_ends_a_one_shot_in_a_typed_way",
            f"{WIRE}::test_a_cut_anywhere_wakes_everybody_in_a_session",
            "testing/faults/test_real_cli.py::test_a_cut_in_the_middle_of_a_frame_leaves_nothing",
        ),
    ),
    Row(
        5,
        "unknown types, subtypes, blocks and fields; missing fields",
        "`UnknownMessage`, `UnknownSystemMessage`, `UnknownBlock`; every byte in `raw`",
        (
            f"{WIRE}::test_what_is_unknown_or_missing_is_delivered",
            f"{DEFECTS}::test_what_is_not_known_is_delivered_whole",
        ),
    ),
    Row(
        5,
        "frames twice, in another order, or lost",
        "turns still end with their own results",
        (
            f"{WIRE}::test_frames_that_come_twice_or_in_another_order",
            f"{WIRE}::test_random_harmless_faults_change_nothing",
            "testing/faults/test_real_cli.py::test_harmless_faults_change_nothing",
        ),
    ),
    Row(
        5,
        "any mix of faults, at random",
        "every wait ends, with a result or a typed error",
        ("testing/faults/test_random.py::test_every_wait_ends_whatever_happens",),
    ),
    Row(
        6,
        "300 tool calls with hooks and unread messages",
        "hooks and control operations are processed immediately",
        (
            f"{TURNS}::test_300_tool_calls_with_hooks_while_nobody_reads",
            f"{LIFE}::test_the_reader_waits_for_nobody",
            f"{DEFECTS}::test_everything_is_answered_at_once_behind_100_000_unread_messages",
        ),
    ),
    Row(
        7,
        "a tool call 90 s after the last message",
        "the tool runs: there is no hidden timeout",
        (f"{TURNS}::test_a_tool_call_long_after_the_last_message",),
    ),
    Row(
        7,
        "a tool call after the prompts have ended",
        "the tool runs: stdin stays open while requests are possible",
        (f"{TURNS}::test_a_tool_call_after_the_prompts_have_ended",),
    ),
    Row(
        7,
        "a tool call after the first `result`",
        "the tool runs; both results are delivered",
        (
            f"{TURNS}::test_a_tool_call_after_the_first_result",
            "queries/test_steered.py::test_a_background_task_is_still_served",
        ),
    ),
    Row(
        8,
        "an unexpected result before, in or after a turn",
        "it is delivered, and ends no other turn",
        (
            f"{TURNS}::test_a_result_of_another_turn_ends_none_of_ours",
            f"{TURNS}::test_a_result_without_a_prompt_between_two_turns",
            f"{TURNS}::test_further_results_of_a_one_shot_are_delivered",
        ),
    ),
    Row(
        8,
        "a result while background tasks run",
        "the turn ends; the session becomes idle when they end",
        (
            f"{LIFE}::test_wait_idle_waits_for_background_tasks",
            "real_cli/test_sessions.py::test_a_background_task_outlives_the_result",
        ),
    ),
    Row(
        8,
        "a complete turn without a result",
        "the state report of the CLI ends the turn, or the timeout `turn`",
        (
            f"{TURNS}::test_a_finished_turn_whose_result_is_lost",
            f"{TURNS}::test_nothing_tells_the_end_of_a_turn",
            f"{ONE_SHOT}::test_run_without_a_result_is_an_error",
        ),
    ),
    Row(
        9,
        "an interrupt: idle, in a text, in a tool, twice",
        "the turn is INTERRUPTED, with its error result, and the session is usable",
        (
            f"{TURNS}::test_an_interrupt_at_every_moment",
            "real_cli/test_sessions_more.py::test_interrupts_at_every_moment",
        ),
    ),
    Row(
        9,
        "an interrupt during a permission request",
        "the request is cancelled, the turn is INTERRUPTED, the session is usable",
        (
            f"{TURNS}::test_an_interrupt_while_a_permission_is_asked_for",
            "real_cli/test_sessions.py::test_an_interrupt_while_a_question_is_open",
        ),
    ),
    Row(
        10,
        "`break`, `aclose`, an exception, garbage collection",
        "no process is left",
        (f"{LEAVING}::test_leaving_in_the_middle_of_a_turn", "real_cli/test_endings.py::test_nothing_is_left"),
    ),
    Row(
        10,
        "`wait_for`, cancellation",
        "only the wait ends; a cancelled read loses nothing",
        (
            f"{LEAVING}::test_a_wait_that_somebody_else_bounds",
            "testing/faults/test_faults.py::test_a_cancelled_read_loses_nothing",
        ),
    ),
    Row(
        10,
        "another task, another loop, another thread",
        "the session can be ended from there, without a cross-task error",
        (
            f"{LEAVING}::test_a_session_is_closed_by_another_task_than_its_own",
            f"{LEAVING}::test_one_session_after_another_in_loops_of_their_own",
            f"{MOMENTS}::test_a_stop_from_another_event_loop",
        ),
    ),
    Row(
        10,
        "a client of a web server disconnects",
        "the cancelled handler or closed generator stops its process",
        (
            f"{LEAVING}::test_a_client_that_disconnects_while_an_answer_streams",
            f"{LEAVING}::test_a_client_that_disconnects_without_an_event_loop",
        ),
    ),
    Row(
        10,
        "Ctrl-C, SIGTERM, SIGKILL of the host",
        "no process is left, and no shell of the CLI",
        ("real_cli/test_endings.py::test_nothing_is_left",),
    ),
    Row(
        11,
        "an API error as text",
        "an error result with its status; `run` raises `ResultError`",
        (f"{TURNS}::test_an_api_error_that_comes_as_text_is_an_error",),
    ),
    Row(
        11,
        "`success` with an empty text",
        "delivered unchanged; never valid for an `output_type`",
        (f"{TURNS}::test_an_empty_success_is_text_and_no_object",),
    ),
    Row(
        11,
        "exit 0 with tasks stopped",
        "the stop is a typed message; a missing result is a warning",
        (f"{TURNS}::test_tasks_that_were_stopped_are_told", f"{ONE_SHOT}::test_run_without_a_result_is_an_error"),
    ),
    Row(
        12,
        "10 MB of stderr",
        "read completely; the error has its end",
        (
            f"{ONE_SHOT}::test_ten_megabytes_of_stderr_while_nobody_reads_stdout",
            f"{DEFECTS}::test_errors_hold_what_the_cli_wrote_to_stderr",
        ),
    ),
    Row(
        12,
        "a callback for stderr or warnings raises",
        "logged; Hackamore continues to read",
        (
            f"{ONE_SHOT}::test_the_stderr_callback_gets_lines_and_may_raise",
            f"{MOMENTS}::test_on_warning_cannot_end_the_session",
        ),
    ),
    Row(
        13,
        "permission allowed without an input",
        "the response repeats the input, and is valid",
        (f"{ASKED}::test_permissions",),
    ),
    Row(
        13,
        "a callback raises, or returns an invalid value",
        "the permission is denied; a hook follows its `on_failure`",
        (f"{ASKED}::test_a_bad_permission_callback_denies", f"{ASKED}::test_a_bad_hook_fails_as_it_was_told_to"),
    ),
    Row(
        13,
        "a callback hangs",
        "the same at its timeout",
        (
            f"{ASKED}::test_a_permission_nobody_answers_is_denied_at_the_deadline",
            f"{ASKED}::test_a_hook_that_hangs_is_answered_at_its_deadline",
        ),
    ),
    Row(
        14,
        "a pending MCP server at the start; an unexpected tool",
        "`InitMessage.mcp_servers` and `.tools` list them; Hackamore continues",
        (f"{TURNS}::test_a_server_that_is_pending_and_a_tool_that_should_not_be_there_are_told",),
    ),
    Row(
        15,
        "64 sessions and more at the same time",
        "each has its own answers; a crash affects no other",
        (
            f"{TURNS}::test_64_at_once_with_retries_and_one_that_dies",
            "session/test_many.py::test_two_hundred_sessions_at_once",
        ),
    ),
    Row(
        15,
        "429 in bursts",
        "retries of the CLI are messages; earlier messages are kept",
        (
            f"{TURNS}::test_retries_of_the_api_are_messages_and_no_errors",
            f"{TURNS}::test_a_key_that_is_refused_again_ends_the_turn",
            "real_cli/test_one_shot.py::test_a_429_and_then_an_answer",
        ),
    ),
)


def table() -> str:
    """The matrix as the page shows it."""
    rows = ["| | fault | behaviour of Hackamore | tests |", "|---|---|---|---|"]
    for row in MATRIX:
        tests = ", ".join(f"`{test.rpartition('::')[2]}`" for test in row.tests)
        rows.append(f"| {row.group} | {row.fault} | {row.outcome} | {tests} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
