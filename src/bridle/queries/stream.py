"""What both shells' query streams share: checks at the call, bookkeeping of items. No waiting here."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any

from bridle.errors import ConcurrentUseError, DecodeError, StreamWarning
from bridle.launch import needs_session
from bridle.launch.plan import encode_prompt
from bridle.messages.base import frame_summary
from bridle.options.options import Options
from bridle.queries.ending import Deadlines, OneShotConnection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.errors import BridleError
    from bridle.launch import LaunchPlan
    from bridle.messages import ResultMessage
    from bridle.transports.base import Transport
    from bridle.transports.process.prepare import Preparation

__all__ = ["SHORTEST_WAIT", "StreamBase", "checked_prompt", "is_steered", "with_output_type"]

logger = logging.getLogger("bridle")

SHORTEST_WAIT = 0.01
"""A deadline that is due still leaves one look at what is readable, so that data which came in time is not overlooked."""


def checked_prompt(prompt: object, options: Options) -> str:
    """Return the prompt of a plain one-shot.

    Raises:
        OptionsError: it is empty, or holds what no process can be told (NUL, half characters).
        TypeError: it, or an option that is set, needs the bidirectional protocol: `query` chooses it by itself.
    """
    needed = needs_session(options)
    if needed or not isinstance(prompt, str):
        what = ", ".join(needed) or f"a prompt that is a {type(prompt).__name__}"
        raise TypeError(f"{what}: make the stream with `query`, which chooses how it is run")
    encode_prompt(prompt)
    return prompt


def is_steered(prompt: object, options: Options | None) -> bool:
    """Tell whether a query needs the bidirectional protocol.

    Raises:
        TypeError: the prompt is nothing that can be a prompt, or the options are none.
        OptionsError: it needs that protocol, and an option excludes it.
    """
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"`options` must be a bridle.Options, not {type(options).__name__}")
    if isinstance(prompt, str) and (options is None or not needs_session(options)):
        return False
    from bridle.queries.prompts import steering_reasons

    reasons = steering_reasons(prompt, options if options is not None else Options())
    if reasons:
        logger.debug("this query runs over the bidirectional protocol: %s", ", ".join(reasons))
    return bool(reasons)


def with_output_type(options: Options | None, output_type: Any) -> Options:
    """Return the options with the JSON schema of `output_type` in them.

    Raises:
        OptionsError: no schema can be made of it, or `output_format` is set as well.
    """
    from bridle.checked.schemas import schema_for
    from bridle.errors import OptionsError

    options = options if options is not None else Options()
    if output_type is None:
        return options
    if options.output_format is not None:
        raise OptionsError(
            "`output_type` and the option `output_format` exclude each other: give one", field="output_format"
        )
    return options.replace(output_format={"type": "json_schema", "schema": schema_for(output_type)})


class StreamBase:
    """The part of a query stream that knows no event loop."""

    def __init__(self, prompt: object, options: Options | None) -> None:
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"`options` must be a bridle.Options, not {type(options).__name__}")
        self.options = options if options is not None else Options()
        self._prompt = self._checked(prompt)
        self.warnings: list[StreamWarning] = []
        """What was degraded so far."""
        self.errors: list[DecodeError] = []
        """Lines so far that were no JSON objects."""
        self._connection = self._new_connection(0.0)
        self._items = self._connection.items
        self._error_given = False
        self._ended = False
        self._closing = False
        self._started = False
        self._prepared = False
        self._finished = False
        self._started_at = 0.0
        self._preparation: Preparation | None = None
        self._reader = threading.Lock()

    def _checked(self, prompt: object) -> Any:
        return checked_prompt(prompt, self.options)

    _transport: Transport
    """How the CLI is reached: set by the shell."""

    @property
    def pid(self) -> int | None:
        """The CLI's process id, once it is started."""
        return self._transport.pid

    def __del__(self) -> None:
        if getattr(self, "_transport", None) is not None and self._started and not self._finished:
            if self._preparation is not None and not self._prepared:
                self._preparation.cancel()
            self._abandon()

    def _abandon(self) -> None:
        """End the CLI without waiting for anything."""
        self._transport.abandon()

    def _child_settings(self) -> dict[str, Any]:
        """Return the arguments of a `ChildProcess`."""
        timeouts = self.options.timeouts
        return {
            "stop_grace": timeouts.stop_grace,
            "kill_grace": timeouts.kill_grace,
            "stderr_tail_bytes": self.options.limits.stderr_tail,
            "on_stderr": self.options.stderr,
        }

    @property
    def session_id(self) -> str | None:
        """The session, as soon as a message has named it: for `Options(resume=...)`."""
        return self._connection.session_id

    @property
    def results(self) -> list[ResultMessage]:
        """The results received so far."""
        return list(self._connection.results)

    @property
    def _busy(self) -> bool:
        return self._reader.locked()

    def _new_connection(self, now: float) -> OneShotConnection:
        options = self.options
        timeouts, limits = options.timeouts, options.limits
        return OneShotConnection(
            line_bytes=limits.line_bytes,
            bad_line_limit=limits.consecutive_decode_errors,
            skip_oversized=options.on_oversize == "skip",
            strict_exit_status=options.strict_exit_status,
            deadlines=Deadlines(
                first_message=timeouts.first_message,
                idle=timeouts.idle,
                turn=timeouts.turn,
                after_result=timeouts.after_result,
                background=timeouts.background,
            ),
            now=now,
        )

    def _log_plan(self, plan: LaunchPlan) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("starting\n%s", plan.describe())

    def _connect(self, now: float) -> None:
        logger.debug("started")
        self._started_at = now
        self._connection = self._new_connection(now)
        self._items = self._connection.items

    def _warn_before_start(self, found: Iterable[StreamWarning]) -> None:
        """Issue warnings with `warnings.warn`: nothing runs yet, so a filter that makes errors of them stops the start."""
        for warning in found:
            self._tell(warning)
            warnings.warn(warning, stacklevel=5)

    def _tell(self, warning: StreamWarning) -> None:
        if self.options.on_warning is not None:
            try:
                self.options.on_warning(warning)
            except Exception:
                logger.exception("`on_warning` raised; the stream goes on")

    def _note(self, item: StreamWarning | DecodeError) -> None:
        """Keep an item that is no message, and tell `on_warning`."""
        if isinstance(item, DecodeError):
            self.errors.append(item)
            logger.warning("%s", item)
            return
        self.warnings.append(item)
        logger.warning("%s", item)
        self._tell(item)

    def _wait_seconds(self, now: float) -> float | None:
        seconds = self._connection.wait_seconds(now)
        return None if seconds is None else max(SHORTEST_WAIT, seconds)

    def _took(self, data: bytes | None, stderr_tail: bytes, due: bool) -> None:
        """Tell the core what reading brought: bytes, their end (b""), or nothing in time (None).

        `due` tells that a deadline had passed before that look at what is readable: whatever came in time is in it now.
        """
        now = time.monotonic()
        if data:
            known = len(self._items)
            self._connection.receive_data(data, now)
            if logger.isEnabledFor(logging.DEBUG):
                self._log_frames(known, len(data))
            if due:
                self._connection.expire(now, stderr_tail)
        elif data is None:
            self._connection.expire(now, stderr_tail)
        else:
            self._connection.receive_eof(now)

    def _log_frames(self, known: int, size: int) -> None:
        """Say what came: kinds and sizes, and nothing of what is in it."""
        logger.debug("read %d bytes, %.3f s after the start", size, time.monotonic() - self._started_at)
        for item in islice(self._items, known, None):
            if not isinstance(item, (StreamWarning, DecodeError)):
                logger.debug("%s", frame_summary(item))

    def _reading(self, call: str) -> _Reading:
        """Mark the stream as being read for the length of a `with` block.

        Raises:
            ConcurrentUseError: it is being read already.
        """
        if not self._reader.acquire(blocking=False):
            raise ConcurrentUseError.for_call(call)
        return _Reading(self)

    def _give_end(self) -> BridleError | None:
        """Return the terminal error the first time, then None: an error is raised once."""
        self._ended = True
        self._connection.asked_at_the_end()
        if self._error_given or self._closing:
            return None
        self._error_given = True
        return self._connection.terminal_error


class _Reading:
    __slots__ = ("_stream",)

    def __init__(self, stream: StreamBase) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        """It was marked in the moment in which it was looked at: two threads may ask at once."""

    def __exit__(self, *_: object) -> None:
        self._stream._reader.release()
