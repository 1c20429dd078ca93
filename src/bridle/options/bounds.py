"""Every deadline (`Timeouts`) and every bound (`Limits`) of the library, in one place each."""

from __future__ import annotations

from bridle.checked.checks import integer, number, optional
from bridle.checked.fields import Checked, option

__all__ = ["LONGEST_SECONDS", "Limits", "Timeouts"]

# What epoll can wait for at once is a little more: beyond it a wait fails with a bare OverflowError.
LONGEST_SECONDS = 2_000_000
_deadline = optional(number(0, exclusive=True, maximum=LONGEST_SECONDS))
_grace = number(0, maximum=LONGEST_SECONDS)
_count = integer(1)
_mebibyte = 1024 * 1024


class Timeouts(Checked):
    """Every deadline, in seconds, up to 2,000,000 (23 days); None means no deadline.

    Attributes:
        version_check: for the answer to `claude --version`.
        initialize: for the CLI's answer to `initialize`; cold starts with servers and plugins take long.
        control: for the answer to a control request.
        rewind: for the answer to `rewind_files`.
        hook: for a hook callback that names no deadline of its own.
        permission: for the permission callback; None, because people may be asked.
        mcp: for a call of an in-process tool.
        first_message: for the first message of a turn.
        idle: between two messages.
        turn: for a whole turn.
        after_result: for the exit of a one-shot CLI after its result, counted from its last output.
        background: the same while background tasks run.
        stop_grace: after closing stdin, before SIGTERM.
        kill_grace: after SIGTERM, before SIGKILL.
    """

    version_check: float | None = option(default=30.0, check=_deadline)
    initialize: float | None = option(default=60.0, check=_deadline)
    control: float | None = option(default=30.0, check=_deadline)
    rewind: float | None = option(default=60.0, check=_deadline)
    hook: float | None = option(default=60.0, check=_deadline)
    permission: float | None = option(default=None, check=_deadline)
    mcp: float | None = option(default=None, check=_deadline)
    first_message: float | None = option(default=None, check=_deadline)
    idle: float | None = option(default=None, check=_deadline)
    turn: float | None = option(default=None, check=_deadline)
    after_result: float | None = option(default=30.0, check=_deadline)
    background: float | None = option(default=600.0, check=_deadline)
    stop_grace: float = option(default=5.0, check=_grace)
    kill_grace: float = option(default=5.0, check=_grace)


class Limits(Checked):
    """Every bound.

    Attributes:
        line_bytes: the longest line of output that is read; a PDF or image result is one line.
        consecutive_decode_errors: lines in a row that are no JSON objects before the stream is given up.
        queued_operations: control operations that may wait for the session to be ready.
        pending_requests: control requests of ours that may wait for an answer.
        inflight_callbacks: callbacks of one kind that run at the same time; more wait for their turn.
        early_requests: requests of the CLI that may wait for our `initialize`.
        buffered_bytes: unread output that a session holds before it fails.
        stderr_tail: bytes of stderr that are kept for diagnosis.
    """

    line_bytes: int = option(default=64 * _mebibyte, check=_count)
    consecutive_decode_errors: int = option(default=5, check=_count)
    queued_operations: int = option(default=16, check=_count)
    pending_requests: int = option(default=64, check=_count)
    inflight_callbacks: int = option(default=32, check=_count)
    early_requests: int = option(default=100, check=_count)
    buffered_bytes: int = option(default=64 * _mebibyte, check=_count)
    stderr_tail: int = option(default=64 * 1024, check=integer(0))
