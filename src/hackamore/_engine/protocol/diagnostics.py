"""Why a process failed, in words: exit codes, stderr and what was on stdout, ranked into one error.

Sources: seed 3 (hint per exit code), corrected by CLI 2.1.328: an unknown flag exits 1 and not 2, and "not logged in" is an error
result and not an empty stdout.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hackamore.errors import Diagnostic, ProcessError, StreamWarning, UnsupportedCLIVersionError, escape_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore.errors import HackamoreError
    from hackamore.messages import APIRetryMessage, ResultMessage
    from hackamore.messages.system import BackgroundTask

# The CLI quotes the whole argument. Its value may be secret, and may be long: the flag is what matters.
_UNKNOWN_OPTION = re.compile(r"unknown option '?([^'=\n]+)", re.IGNORECASE)

_SIGNALS = {
    1: ("SIGHUP", "its terminal or parent went away"),
    2: ("SIGINT", "it was interrupted"),
    4: ("SIGILL", "this machine's processor cannot run the binary"),
    6: ("SIGABRT", "it crashed"),
    7: ("SIGBUS", "it crashed"),
    9: ("SIGKILL", "it was killed, often because memory ran out or a supervisor stopped it"),
    11: ("SIGSEGV", "it crashed"),
    13: ("SIGPIPE", "the reader of its output went away"),
    15: ("SIGTERM", "something asked it to stop"),
}

# Texts of CLI 2.1.327 and 2.1.328. A cause that stderr names is the only advice: a guess beside it misleads.
_KNOWN_STDERR: tuple[tuple[str, str], ...] = (
    (
        "cannot be used with root",
        "Run as another user, or choose another `permission_mode`; in a sandbox, IS_SANDBOX=1 says that it is one.",
    ),
    ("is already in use", "Choose another `session_id`, or continue that session with `resume=`."),
    ("No conversation found", "Check the session id and `cwd`: sessions are stored by working directory."),
    (
        "does not match any session title",
        "`resume` takes the id or the title of a session; sessions are stored by working directory.",
    ),
    ("Invalid API key", "Check ANTHROPIC_API_KEY."),
    ("requires --verbose", "This is a bug in Hackamore: please report it."),
    ("ENOSPC", "The disk is full."),
    ("ENOMEM", "The machine is out of memory."),
)


def did_not_exit(seconds: float, tasks: Iterable[BackgroundTask]) -> StreamWarning:
    """Return the warning about a CLI that had to be stopped after its last result."""
    running = sorted(task.task_id or "" for task in tasks if not task.ambient)  # ambient ones always run
    text = f"The CLI did not exit within {seconds:g} s of its last result or the end of its input, and was stopped"
    text += f"; {len(running)} background tasks were running." if running else "."
    return StreamWarning("CLI_DID_NOT_EXIT", text, {"seconds": seconds, "background_tasks": running})


def incomplete_last_line(line: bytes) -> StreamWarning:
    """Return the warning about an output that ended inside a line."""
    text = "The output ended in the middle of a line."
    return StreamWarning("INCOMPLETE_LAST_LINE", text, {"line": line[:2_000]})


def line_skipped(size: int, head: bytes, limit: int) -> StreamWarning:
    """Return the warning about a line that was too long."""
    text = f"A line of at least {size:,} bytes was skipped; `Limits.line_bytes` is {limit:,}."
    return StreamWarning("OVERSIZED_LINE_SKIPPED", text, {"size": size, "head": head})


def api_failure(retry: APIRetryMessage) -> str:
    """Return what a report of the CLI says of a failed API request: numbers, and the kind of failure."""
    status = "no response" if retry.error_status is None else f"status {retry.error_status}"
    return f"{status} ({escape_terminal(retry.error, 100)}, retry {retry.attempt} of {retry.max_retries})"


def exit_code_hint(exit_code: int | None, *, stdout_was_empty: bool) -> str:
    """Return what an exit code usually means, in one sentence."""
    if exit_code is None:
        return "Its exit status is unknown: it was stopped because it closed its output and stayed, or other code took the status."
    if exit_code == 0:
        return "It ended as if all were well, but no result came."
    if exit_code == 1 and stdout_was_empty:
        return "It stopped before it began to work; if stderr is empty, it may not be logged in."
    if exit_code == 1:
        return "It failed after it had started to work."
    if exit_code == 2:
        return "It refused its arguments: this version of the CLI and of Hackamore may not fit together."
    if exit_code == 126:
        return "The file is there and could not be executed."
    if exit_code == 127:
        return "The command, or the interpreter that it needs, was not found: it may have been moved or removed."
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number in _SIGNALS:  # 2.1.327 exits 143 after SIGTERM
        name, reason = _SIGNALS[number]
        return f"It was ended by {name}: {reason}."
    if exit_code < 0:
        return f"It was ended by signal {-exit_code}."
    return "This exit code has no known meaning."


def _troubleshooting(exit_code: int | None, stderr: str, *, stdout_was_empty: bool) -> list[str]:
    advice = [hint for text, hint in _KNOWN_STDERR if text in stderr]
    if advice:
        return advice
    if exit_code == 1 and stdout_was_empty and not stderr.strip():
        advice.append(
            "Log in with `claude` (then `/login`), or set ANTHROPIC_API_KEY in the environment of this process."
        )
    elif exit_code == 2:
        advice.append("Compare `claude --version` with the documented minimum, and update both.")
    elif exit_code == 126:
        advice.append("Check its permissions and that its path is not a directory.")
    elif exit_code == 127:
        advice.append("Check `cli_path`, and install it again if need be.")
    elif exit_code in {-9, 137}:
        advice.append("Look at the memory limit of the container or machine.")
    if not stderr.strip():
        advice.append(
            "Its stderr was empty; `hackamore doctor` shows what is started, and `Options(debug_file=...)` writes its log."
        )
    return advice


def refused_option(stderr: str) -> UnsupportedCLIVersionError | None:
    """Return the error for a CLI that does not know an option; None if its stderr says nothing of the kind."""
    refused = _UNKNOWN_OPTION.search(stderr)
    if refused is None:
        return None
    return UnsupportedCLIVersionError(
        None,
        "a version that knows it",
        "Update the CLI with `npm install -g @anthropic-ai/claude-code@latest`, or leave the option out.",
        detail=f"it does not know the option {escape_terminal(refused[1].strip(), 80)!r}",
    )


def process_failure(
    exit_code: int | None,
    *,
    stderr_tail: bytes,
    stdout_was_empty: bool,
    any_message: bool,
    last_non_json_line: bytes | None,
    last_result: ResultMessage | None,
) -> HackamoreError:
    """Build the error for a process that ended without success: the known cause first, the exit code last."""
    stderr = stderr_tail.decode("utf-8", "replace")
    # After messages the text is not about an argument: the CLI had accepted them all.
    if not any_message and (refused := refused_option(stderr)) is not None:
        return refused
    return ProcessError(
        exit_code,
        Diagnostic(
            exit_code_hint=exit_code_hint(exit_code, stdout_was_empty=stdout_was_empty),
            troubleshooting=_troubleshooting(exit_code, stderr, stdout_was_empty=stdout_was_empty),
            stdout_was_empty=stdout_was_empty,
            last_non_json_line=last_non_json_line.decode("utf-8", "replace")
            if last_non_json_line is not None
            else None,
            stderr_tail=stderr,
            last_result=last_result,
        ),
    )
