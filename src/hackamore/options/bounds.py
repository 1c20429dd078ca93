"""All timeouts (`Timeouts`) and all limits (`Limits`) of the library, in one place each."""

from __future__ import annotations

import math

from hackamore.checked.fields import Checked, integer, number, option, optional

# The longest wait of epoll is a little more: beyond it a wait fails with a bare OverflowError.
LONGEST_SECONDS = 2_000_000
_deadline = optional(number(0, exclusive=True, maximum=LONGEST_SECONDS))
_grace = number(0, maximum=LONGEST_SECONDS)
_count = integer(1)
_mebibyte = 1024 * 1024


class Timeouts(Checked):
    """All timeouts, in seconds, up to 2,000,000 (23 days); None means no timeout.

    Attributes:
        version_check: for the answer to `claude --version`.
        initialize: for the CLI's answer to `initialize`; cold starts with servers and plugins take long.
        control: for the answer to a control request.
        rewind: for the answer to `rewind_files`.
        hook: for a hook callback without a timeout of its own.
        permission: for the permission callback; None, because a person may have to answer.
        mcp: for a call of an in-process tool.
        first_message: for the first message of a turn.
        idle: between two messages.
        turn: for a whole turn.
        store: for one call of the session store, and for the last writes to it when the session ends.
        after_result: for the exit of a one-shot CLI after its result, counted from its last output.
        background: the same while background tasks run.
        stop_grace: after closing stdin, before SIGTERM.
        kill_grace: after SIGTERM, before SIGKILL.

    Example:
        ::

            options = Options(timeouts=Timeouts(turn=600, control=30))
    """

    version_check: float | None = option(_deadline, default=30.0)
    initialize: float | None = option(_deadline, default=60.0)
    control: float | None = option(_deadline, default=30.0)
    rewind: float | None = option(_deadline, default=60.0)
    hook: float | None = option(_deadline, default=60.0)
    permission: float | None = option(_deadline, default=None)
    mcp: float | None = option(_deadline, default=None)
    first_message: float | None = option(_deadline, default=None)
    idle: float | None = option(_deadline, default=None)
    turn: float | None = option(_deadline, default=None)
    store: float | None = option(_deadline, default=60.0)
    after_result: float | None = option(_deadline, default=30.0)
    background: float | None = option(_deadline, default=600.0)
    stop_grace: float = option(_grace, default=5.0)
    kill_grace: float = option(_grace, default=5.0)


class Limits(Checked):
    """All limits.

    Attributes:
        line_bytes: the longest line of output that is read; a PDF or image result is one line.
        consecutive_decode_errors: lines in a row that are not JSON objects before the stream fails.
        queued_operations: control operations that may wait for the session to be ready.
        pending_requests: control requests that may wait for an answer of the CLI.
        inflight_callbacks: callbacks of one kind that run at the same time; more wait for their turn.
        early_requests: requests of the CLI that may wait for the `initialize` of Hackamore.
        buffered_bytes: unread output and open requests (permissions, hooks, dialogs, calls of tools) that a session holds before it fails.
        mirrored_bytes: transcript entries that wait for the session store before Hackamore reads no further output.
        stderr_tail: bytes of stderr that are kept for diagnosis.

    Example:
        ::

            options = Options(limits=Limits(line_bytes=256 * 1024 * 1024))
    """

    line_bytes: int = option(_count, default=64 * _mebibyte)
    consecutive_decode_errors: int = option(_count, default=5)
    queued_operations: int = option(_count, default=16)
    pending_requests: int = option(_count, default=64)
    inflight_callbacks: int = option(_count, default=32)
    early_requests: int = option(_count, default=100)
    buffered_bytes: int = option(_count, default=64 * _mebibyte)
    mirrored_bytes: int = option(_count, default=16 * _mebibyte)
    stderr_tail: int = option(integer(0), default=64 * 1024)


def checked_timeout(timeout: object) -> float | None:
    """Return a `timeout=` in seconds; None if there is none. Infinity means no limit.

    Raises:
        TypeError: it is not a number.
        ValueError: it is NaN.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise TypeError(f"`timeout` must be a number of seconds or None, got {timeout!r} ({type(timeout).__name__})")
    try:
        seconds = float(timeout)
    except OverflowError:
        return float("inf")
    if math.isnan(seconds):
        raise ValueError("`timeout` must be a number of seconds or None, got NaN")
    return max(0.0, seconds)
