"""The words for a process that failed."""

from __future__ import annotations

import pytest

from hackamore._engine.protocol.diagnostics import exit_code_hint, process_failure
from hackamore.errors import ProcessError


def failure(exit_code: int | None, stderr: bytes = b"", *, empty: bool = True) -> ProcessError:
    error = process_failure(
        exit_code,
        stderr_tail=stderr,
        stdout_was_empty=empty,
        any_message=False,
        last_non_json_line=None,
        last_result=None,
    )
    assert isinstance(error, ProcessError)
    return error


@pytest.mark.parametrize(
    ("stderr", "advice"),
    [
        (b"cannot be used with root", "IS_SANDBOX=1"),
        (b"Session ID x is already in use.", "another `session_id`"),
        (b"No conversation found with session ID", "`cwd`"),
        (b"'x' is not a UUID and does not match any session title", "the title"),
        (b"Invalid API key", "ANTHROPIC_API_KEY"),
        (b"ENOSPC: no space", "disk"),
        (b"ENOMEM", "memory"),
    ],
)
def test_a_cause_that_stderr_names_is_the_only_advice(stderr: bytes, advice: str) -> None:
    for code in (1, 2, 127, -9):
        [only] = failure(code, stderr).diagnostic.troubleshooting
        assert advice in only


@pytest.mark.parametrize(
    ("code", "stderr", "empty", "words"),
    [
        (1, b"", True, ["Log in", "stderr was empty"]),
        (1, b"", False, ["stderr was empty"]),
        (1, b"it broke", True, []),
        (2, b"", True, ["claude --version", "stderr was empty"]),
        (126, b"x", True, ["permissions"]),
        (127, b"x", True, ["cli_path"]),
        (137, b"x", True, ["memory limit"]),
        (-9, b"x", True, ["memory limit"]),
        (99, b" \n", True, ["stderr was empty"]),
    ],
)
def test_other_failures_get_the_advice_of_their_exit_code(
    code: int, stderr: bytes, empty: bool, words: list[str]
) -> None:
    found = failure(code, stderr, empty=empty).diagnostic.troubleshooting
    assert len(found) == len(words)
    for advice, word in zip(found, words, strict=True):
        assert word in advice


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (-15, "It was ended by SIGTERM: something asked it to stop."),
        (143, "It was ended by SIGTERM: something asked it to stop."),
        (129, "It was ended by SIGHUP: its terminal or parent went away."),
        (-63, "It was ended by signal 63."),
        (191, "This exit code has no known meaning."),
        (3, "This exit code has no known meaning."),
        (0, "It ended as if all were well, but no result came."),
    ],
)
def test_exit_codes_mean_the_signal_that_they_stand_for(code: int, hint: str) -> None:
    assert exit_code_hint(code, stdout_was_empty=True) == hint
