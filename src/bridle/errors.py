"""Every error and warning that users of Bridle can meet; `docs/errors.md` has them as a tree.

An error keeps its facts as attributes, says what to do next, pickles, and is raised once: nothing wraps it again. Texts that came from
the child process are data: control characters are escaped before they enter a message. Errors about a message stand with the class of
the message (`ResultError`, `OutputError`): this file imports nothing of Bridle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence  # noqa: TC003 - msgspec and `help()` read the annotations
from typing import Any, Literal, Self

import msgspec

__all__ = [
    "BridleError",
    "CLIExitedDuringInitError",
    "CLINotFoundError",
    "CheckpointingNotEnabledError",
    "ConcurrentUseError",
    "ControlError",
    "ControlRejectedError",
    "ControlTimeoutError",
    "DecodeError",
    "Diagnostic",
    "InitQueueOverflowError",
    "InitializationError",
    "InitializationTimeoutError",
    "LineTooLongError",
    "NotSupportedError",
    "OptionsError",
    "ProcessError",
    "PromptsError",
    "SessionClosedError",
    "SlowConsumerError",
    "SpawnError",
    "StartError",
    "StreamError",
    "StreamWarning",
    "TooManyDecodeErrors",
    "TooManyPendingRequestsError",
    "TurnTimeoutError",
    "UnknownVersionError",
    "UnsupportedCLIVersionError",
    "VersionDetectionError",
    "WarningCode",
    "printable",
    "text_of",
]

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

INSTALL_HINT = (
    "Install it with `npm install -g @anthropic-ai/claude-code`, "
    "or pass `cli_path=` (or set BRIDLE_CLI_PATH) to an existing one."
)


def printable(text: str, limit: int = 2_000) -> str:
    """Return `text` safe for a terminal: control and direction-changing characters escaped, at most `limit` characters.

    Newlines and tabs are kept. Where text is cut, the end is kept, because that is where programs say why they stopped.
    """
    if len(text) > limit:
        text = f"[... {len(text) - limit} characters left out] " + text[-limit:]
    return _UNPRINTABLE.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def text_of(error: BaseException) -> str:
    """Return what an exception says. Those of users may raise when they are asked."""
    try:
        return str(error)
    except Exception as problem:
        try:
            why = f"{type(problem).__name__}: {problem}"
        except Exception:
            why = type(problem).__name__
        return f"(its text cannot be had: {why})"


WarningCode = Literal[
    "EMPTY_RESPONSE",
    "CLEAN_EXIT_NO_RESULT",
    "INCOMPLETE_LAST_LINE",
    "NONZERO_EXIT_AFTER_RESULT",
    "UNEXPECTED_DATA_AFTER_RESULT",
    "CLI_DID_NOT_EXIT",
    "OVERSIZED_LINE_SKIPPED",
    "FIELD_DROPPED",
    "UNPARSABLE_CLI_VERSION",
    "VERSION_DETECTION_FAILED",
    "OPTION_CONFLICT",
    "DEPRECATED_OPTION",
    "PERMISSION_CALLBACK_SHADOWED",
    "INIT_UNCONFIRMED",
    "CALLBACK_FAILED",
    "CALLBACK_TIMED_OUT",
    "CALLBACK_QUEUE_FULL",
    "SLOW_CONSUMER",
]


class StreamWarning(UserWarning):
    """Something was degraded and the work goes on.

    Before anything runs it is issued with `warnings.warn`; afterwards it is a value: an item of the stream, an entry of
    `stream.warnings` or `session.warnings`, and the argument of the `on_warning` option.

    Attributes:
        code: one of the names in `WarningCode`; stable, to be compared with.
        message: what happened, for people.
        context: facts that belong to it, by name (`exit_code`, `line`, `field`, ...).
    """

    def __init__(self, code: WarningCode, message: str, context: dict[str, Any] | None = None) -> None:
        self.code, self.message = code, message
        self.context: dict[str, Any] = dict(context or {})
        super().__init__(code, message, self.context)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamWarning) and self.args == other.args

    __hash__ = UserWarning.__hash__


class Diagnostic(msgspec.Struct, kw_only=True):
    """What is known about a process that failed: for error messages, logs and bug reports.

    Attributes:
        exit_code_hint: what this exit code usually means, in one sentence.
        troubleshooting: what to do next, one sentence an entry.
        stdout_was_empty: True if the process wrote not one byte to stdout.
        last_non_json_line: the last stdout line that was no JSON object, if any.
        stderr_tail: the last part of stderr (`Limits.stderr_tail` bytes), always captured.
        last_result: the last `ResultMessage` that came, if any.
    """

    exit_code_hint: str = ""
    troubleshooting: Sequence[str] = ()
    stdout_was_empty: bool = False
    last_non_json_line: str | None = None
    stderr_tail: str = ""
    last_result: Any = None

    def __post_init__(self) -> None:
        self.troubleshooting = tuple(self.troubleshooting)

    def __repr__(self) -> str:
        facts = (f"{name}={printable(repr(getattr(self, name)), 300)}" for name in self.__struct_fields__)
        return f"Diagnostic({', '.join(facts)})"


class BridleError(Exception):
    """The base of every error that Bridle raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors take facts, not `args`: pickle and copy restore the attributes and skip the constructor.
        return _restore, (type(self), self.args, self.__dict__.copy())


def _restore(kind: Any, args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    value: Any = kind.__new__(kind, *args)
    if args:
        # `TimeoutError` is an `OSError`, which takes its arguments in `__init__` alone.
        value.args = args
    for name, fact in state.items():
        setattr(value, name, fact)
    return value


class OptionsError(BridleError, ValueError):
    """An option has a wrong name, type or value; nothing was started.

    Attributes:
        field: the option's name, with the path into it where it is nested (`agents.reviewer.model`).
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        self.field = field
        # Keys of files and dicts are part of the text, and may come from strangers.
        super().__init__(printable(message, 20_000))


class StartError(BridleError):
    """The CLI could not be started, or did not become usable."""


class CLINotFoundError(StartError):
    """No Claude Code CLI was found.

    Attributes:
        searched: every place that was looked at, in order.
    """

    def __init__(self, searched: Sequence[str] = (), *, message: str | None = None) -> None:
        self.searched = tuple(searched)
        text = message or "Claude Code CLI not found."
        places = "".join(f"\n  - {printable(place)}" for place in self.searched)
        super().__init__(f"{text} {INSTALL_HINT}" + (f"\nLooked at:{places}" if places else ""))


class UnsupportedCLIVersionError(StartError):
    """The CLI that was found is too old, or does not know a flag that was sent.

    Attributes:
        detected: the version found, or None if only a refused flag told.
        minimum: the lowest version that can do what was asked.
        suggestion: what to do.
    """

    def __init__(self, detected: str | None, minimum: str, suggestion: str = "", *, detail: str = "") -> None:
        self.detected, self.minimum = detected, minimum
        self.suggestion = suggestion or "Update it with `npm install -g @anthropic-ai/claude-code@latest`."
        self.detail = detail
        if detail:
            problem = f"This Claude Code CLI cannot do what was asked: {printable(detail)}"
        else:
            problem = f"Claude Code CLI {detected} is too old: needed is {minimum} or newer"
        super().__init__(f"{problem}. {self.suggestion}")


class UnknownVersionError(StartError):
    """`claude --version` printed nothing that looks like a version.

    Attributes:
        output: what it printed.
        suggestion: what to do.
    """

    def __init__(self, output: str, suggestion: str = "") -> None:
        self.output = output
        self.suggestion = suggestion or (
            "Check that `cli_path` is the Claude Code CLI; `version_check='permissive'` goes on with a warning instead."
        )
        super().__init__(
            f"No version number in the output of `claude --version`: {printable(output, 300)!r}. {self.suggestion}"
        )


class VersionDetectionError(StartError):
    """`claude --version` could not be run.

    Attributes:
        reason: what the operating system or the process said.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"Could not ask the Claude Code CLI for its version: {printable(reason)}. "
            "Check that the file runs by hand (`claude --version`); `version_check='permissive'` goes on with a warning instead."
        )


class SpawnError(StartError):
    """The operating system refused to start the CLI.

    Attributes:
        path: the executable.
        reason: the operating system's reason.
        cwd: the working directory that was asked for, or None.
        errno: the operating system's error number, or None.
    """

    def __init__(
        self, path: str, reason: str, *, cwd: str | None = None, errno: int | None = None, hint: str = ""
    ) -> None:
        self.path, self.reason, self.cwd, self.errno = path, reason, cwd, errno
        super().__init__(f"Could not start {printable(path)!r}: {printable(reason)}." + (f" {hint}" if hint else ""))


class InitializationTimeoutError(StartError):
    """The CLI was started and did not answer `initialize` in time.

    Attributes:
        timeout: the deadline, in seconds.
        output: what was captured until then.
    """

    def __init__(self, timeout: float, output: str = "") -> None:
        self.timeout, self.output = timeout, output
        super().__init__(
            f"The Claude Code CLI did not answer `initialize` within {timeout:g} s; raise `Timeouts.initialize` if it starts "
            f"slow servers or plugins." + (f" It printed: {printable(output)}" if output else "")
        )


class InitializationError(StartError):
    """The CLI answered `initialize` with an error."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(f"The Claude Code CLI refused to initialize: {printable(message)}")


def _ended(exit_code: int | None) -> str:
    return "ended" if exit_code is None else f"exited with code {exit_code}"


class CLIExitedDuringInitError(StartError):
    """The CLI ended before it had answered `initialize`.

    Attributes:
        exit_code: its exit code; negative for a signal.
        output: what it had printed.
    """

    def __init__(self, exit_code: int | None, output: str = "") -> None:
        self.exit_code, self.output = exit_code, output
        super().__init__(
            f"The Claude Code CLI {_ended(exit_code)} before it was ready."
            + (f" It printed: {printable(output)}" if output else " It printed nothing.")
        )


class StreamError(BridleError):
    """The stream of messages was disturbed."""


class DecodeError(StreamError):
    """One line of output was no JSON object. Not terminal: it is an item of the stream, and reading goes on.

    Attributes:
        line: the bytes of the line, without its line end.
        reason: `not-json`, `not-utf8`, `not-an-object` or `too-deep`.
        detail: what the decoder said.
    """

    def __init__(
        self, line: bytes, reason: Literal["not-json", "not-utf8", "not-an-object", "too-deep"], detail: str
    ) -> None:
        self.line, self.reason, self.detail = line, reason, detail
        super().__init__(f"A line of output was skipped ({reason}: {printable(detail, 300)})")

    @property
    def text(self) -> str:
        """The line as text, safe for a terminal, shortened to 500 characters."""
        return printable(self.line[-4_000:].decode("utf-8", "replace"), 500)


class ProcessError(StreamError):
    """The CLI ended with an error before its result came (or after it, with `strict_exit_status=True`).

    Attributes:
        exit_code: its exit code; negative for a signal.
        diagnostic: what is known about the failure.
    """

    def __init__(self, exit_code: int | None, diagnostic: Diagnostic) -> None:
        self.exit_code, self.diagnostic = exit_code, diagnostic
        parts = [f"The Claude Code CLI {_ended(exit_code)}."]
        if diagnostic.exit_code_hint:
            parts.append(diagnostic.exit_code_hint)
        parts.extend(diagnostic.troubleshooting)
        text = " ".join(parts)
        if diagnostic.stderr_tail.strip():
            text += "\nstderr: " + printable(diagnostic.stderr_tail.strip())
        if diagnostic.last_non_json_line:
            text += "\nlast line on stdout: " + printable(diagnostic.last_non_json_line, 500)
        super().__init__(text)


class LineTooLongError(StreamError):
    """A line of output is longer than `Limits.line_bytes`.

    Attributes:
        size: bytes seen of it so far.
        limit: the limit in bytes.
        head: its first bytes.
    """

    def __init__(self, size: int, limit: int, head: bytes) -> None:
        self.size, self.limit, self.head = size, limit, head
        super().__init__(
            f"A line of output has at least {size:,} bytes; the limit is {limit:,}. Raise `Limits.line_bytes`, or set "
            "`on_oversize='skip'` to go on without it."
        )


class PromptsError(StreamError):
    """An iterable of prompts raised, or gave something that is no prompt, or nothing at all. What it raised is the `__cause__`.

    Attributes:
        count: how many prompts had been sent before.
        reason: what happened.
    """

    def __init__(self, count: int, reason: str) -> None:
        self.count, self.reason = count, reason
        super().__init__(f"The iterable of prompts failed after {count} prompts: {reason}")


class TooManyDecodeErrors(StreamError):  # noqa: N818 - the contract's name
    """Several lines in a row were no JSON objects: this is not the CLI's stream.

    Attributes:
        count: how many there were in a row.
        last: the last of them.
    """

    def __init__(self, count: int, last: DecodeError) -> None:
        self.count, self.last = count, last
        super().__init__(
            f"{count} lines of output in a row were not JSON ({last.reason}); the last was {last.text!r}. Check that `cli_path` is "
            "the Claude Code CLI and that no wrapper prints to stdout. The bound is `Limits.consecutive_decode_errors`."
        )


class SlowConsumerError(StreamError):
    """More unread output was held than `Limits.buffered_bytes` allows.

    Attributes:
        buffered: bytes held.
        limit: the limit in bytes.
    """

    def __init__(self, buffered: int, limit: int) -> None:
        self.buffered, self.limit = buffered, limit
        super().__init__(
            f"{buffered:,} bytes of messages wait unread; the limit is {limit:,}. Read faster, close cursors that nobody reads, or "
            "raise `Limits.buffered_bytes`."
        )


class TurnTimeoutError(StreamError, TimeoutError):
    """A deadline for the model's work passed.

    Attributes:
        kind: which one: `first_message`, `idle` or `turn`.
        seconds: its length.
    """

    def __init__(self, kind: Literal["first_message", "idle", "turn"], seconds: float) -> None:
        self.kind, self.seconds = kind, seconds
        text = {
            "first_message": f"No message came within {seconds:g} s of the start",
            "idle": f"No message came for {seconds:g} s",
            "turn": f"The turn took longer than {seconds:g} s",
        }[kind]
        super().__init__(f"{text}; the deadline is `Timeouts.{kind}`.")


class ControlError(BridleError):
    """A control operation did not succeed.

    Attributes:
        operation: its name.
    """

    def __init__(self, operation: str, message: str) -> None:
        self.operation = operation
        super().__init__(message)


class ControlTimeoutError(ControlError, TimeoutError):
    """The CLI did not answer a control request in time."""

    def __init__(self, operation: str, request_id: str, seconds: float | None = None) -> None:
        self.request_id, self.seconds = request_id, seconds
        within = f" within {seconds:g} s" if seconds is not None else " in time"
        super().__init__(
            operation, f"`{operation}` was not answered{within} (request {request_id}); pass a longer `timeout=`."
        )


class ControlRejectedError(ControlError):
    """The CLI answered a control request with an error.

    Attributes:
        message: what it said.
        code: its error code, if it gave one.
    """

    def __init__(self, operation: str, message: str, code: str | None = None) -> None:
        self.message, self.code = message, code
        super().__init__(
            operation,
            f"`{operation}` was rejected: {printable(message)}" + (f" ({printable(str(code), 100)})" if code else ""),
        )


class TooManyPendingRequestsError(ControlError):
    """Too many control requests of ours wait for an answer."""

    def __init__(self, operation: str, count: int, limit: int) -> None:
        self.count, self.limit = count, limit
        super().__init__(
            operation,
            f"`{operation}` was not sent: {count} requests wait already; `Limits.pending_requests` is {limit}.",
        )


class InitQueueOverflowError(ControlError):
    """Too many control operations were called before the session was ready."""

    def __init__(self, operation: str, count: int, limit: int) -> None:
        self.count, self.limit = count, limit
        super().__init__(
            operation, f"`{operation}` was not queued: {count} wait already; `Limits.queued_operations` is {limit}."
        )


class CheckpointingNotEnabledError(ControlError):
    """`rewind_files` needs the option `enable_file_checkpointing=True`."""

    def __init__(self, operation: str = "rewind_files") -> None:
        super().__init__(operation, f"`{operation}` needs `Options(enable_file_checkpointing=True)`; nothing was sent.")


class NotSupportedError(ControlError):
    """What was asked for cannot be done here: by this transport, or by this version of the library."""


class SessionClosedError(BridleError):
    """The session ended while, or before, this was asked of it.

    Attributes:
        expected: True if we had stopped it ourselves.
        reason: what ended it.
        exit_code: the CLI's exit code, if it is known.
        stderr_tail: the last part of its stderr.
    """

    def __init__(self, *, expected: bool, reason: str, exit_code: int | None = None, stderr_tail: str = "") -> None:
        self.expected, self.reason, self.exit_code, self.stderr_tail = expected, reason, exit_code, stderr_tail
        text = f"The session is closed: {printable(reason)}"
        if exit_code is not None:
            text += f" (exit code {exit_code})"
        if stderr_tail.strip():
            text += f"\nstderr: {printable(stderr_tail.strip())}"
        super().__init__(text)


class ConcurrentUseError(BridleError, RuntimeError):
    """Two tasks or threads called the same stream at once; only one may read it at a time."""

    @classmethod
    def for_call(cls, call: str) -> Self:
        """Build the error for `call`."""
        return cls(
            f"`{call}` is already running in another task or thread. One reader at a time: collect in one place and pass on."
        )
