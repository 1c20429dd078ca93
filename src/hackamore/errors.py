"""Every error and warning that users of Hackamore can meet; `docs/reference/errors.md` has them as a tree.

An error keeps its facts as attributes, says what to do next, pickles, and is raised once: nothing wraps it again. Texts that came from
the child process are data: control characters are escaped before they enter a message. Errors about a message stand with the class of
the message (`ResultError`, `OutputError`): this file imports nothing of Hackamore.
"""

from __future__ import annotations

import errno
import re
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AmbiguousSessionError",
    "HackamoreError",
    "BudgetError",
    "BudgetExceededError",
    "CLIExitedDuringInitError",
    "CLINotFoundError",
    "CheckpointingNotEnabledError",
    "ConcurrentUseError",
    "ControlError",
    "ControlRejectedError",
    "ControlTimeoutError",
    "DecodeError",
    "Diagnostic",
    "FleetError",
    "InitQueueOverflowError",
    "InitializationError",
    "InitializationTimeoutError",
    "JournalError",
    "LineTooLongError",
    "LinkLostError",
    "NotSupportedError",
    "OptionsError",
    "PartialResult",
    "ConversationInUseError",
    "ConversationNotFoundError",
    "PoolClosedError",
    "PoolError",
    "PoolTimeoutError",
    "ProcessError",
    "PromptIterableError",
    "RegistryError",
    "RemoteStartError",
    "SessionClosedError",
    "SessionExistsError",
    "SessionInUseError",
    "SessionNotFoundError",
    "SessionNotStartedError",
    "SessionReturnedError",
    "SlowConsumerError",
    "SpawnError",
    "StartError",
    "StoreConflictError",
    "StoreError",
    "StreamError",
    "StreamWarning",
    "DecodeErrorLimitError",
    "TaskChangedError",
    "TaskFailedError",
    "TooManyPendingRequestsError",
    "TranscriptError",
    "TurnCancelledError",
    "TurnTimeoutError",
    "UnknownPriceError",
    "UnknownVersionError",
    "UnsupportedCLIVersionError",
    "VersionDetectionError",
    "WarningCode",
    "WorkspaceError",
    "short_traceback",
    "escape_terminal",
    "text_of",
]

# C0 without tab and newline, DEL, C1; characters without a width that hide or reorder what is around them (soft hyphen, direction
# marks and overrides, zero-width spaces, invisible operators, annotations, tags); separators that some programs take for a newline;
# surrogates. ZWNJ, ZWJ and variation selectors stay: scripts and emoji need them.
UNSAFE: re.Pattern[str] = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

INSTALL_HINT = (
    "Install it with `hackamore install-cli` or `npm install -g @anthropic-ai/claude-code`, "
    "or pass `cli_path=` (or set HACKAMORE_CLI_PATH) to an existing one."
)


def escape_terminal(text: str, limit: int = 2_000) -> str:
    """Return `text` safe for a terminal: control, invisible and direction-changing characters escaped, at most `limit` characters.

    Newlines and tabs are kept. Where text is cut, the end is kept, because that is where programs say why they stopped.

    Args:
        text: any text.
        limit: the most characters of it; default 2000.

    Returns:
        The text.
    """
    if len(text) > limit:
        text = f"[... {len(text) - limit} characters left out] " + text[-limit:]
    return escape_unsafe(text)


def escape_unsafe(text: str) -> str:
    """Return `text` with the characters of `UNSAFE` as escapes."""
    return UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def text_of(error: BaseException) -> str:
    """Return the text of an exception. Exceptions of users may raise when they are formatted.

    Args:
        error: the exception.

    Returns:
        The text, or a note that it could not be formatted.
    """
    try:
        return str(error)
    except Exception as problem:
        try:
            why = f"{type(problem).__name__}: {problem}"
        except Exception:
            why = type(problem).__name__
        return f"(could not be formatted: {why})"


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
    "UNKNOWN_HOOK_EVENT",
    "TOOL_WITHOUT_DESCRIPTION",
    "DEPRECATED_OPTION",
    "PERMISSION_CALLBACK_SHADOWED",
    "INIT_UNCONFIRMED",
    "CALLBACK_FAILED",
    "CALLBACK_TIMED_OUT",
    "CALLBACK_QUEUE_FULL",
    "SLOW_CONSUMER",
    "STORE_FAILED",
    "STORE_SLOW",
    "STORE_INCOMPLETE",
    "SESSION_IN_USE",
    "BUDGET_LOW",
    "BUDGET_SPENT",
    "RETRYING",
    "POOL_TOO_SMALL",
    "NOT_RESUMED",
]


class StreamWarning(UserWarning):
    """A part of the work was degraded, and the work continues.

    Before anything runs it is issued with `warnings.warn`; afterwards it is a value: an item of the stream, an entry of
    `stream.warnings` or `session.warnings`, and the argument of the `on_warning` option.

    Attributes:
        code: one of the names in `WarningCode`; stable, to be compared with.
        message: text for people.
        context: facts that belong to it, by name (`exit_code`, `line`, `field`, ...).
        exception: the exception of a callback (CALLBACK_FAILED), with its traceback; None otherwise and after pickling.
    """

    __module__ = "hackamore"

    def __init__(self, code: WarningCode, message: str, context: dict[str, Any] | None = None) -> None:
        self.message: str
        self.code, self.message = code, message
        self.context: dict[str, Any] = dict(context or {})
        self.exception: BaseException | None = None
        super().__init__(code, message, self.context)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.context)  # without `exception`, which may not pickle

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamWarning) and self.args == other.args

    def __hash__(self) -> int:
        return hash((self.code, self.message))


class Diagnostic:
    """Facts about a process that failed, for error messages, logs and bug reports.

    Attributes:
        exit_code_hint: the usual meaning of this exit code, in one sentence.
        troubleshooting: steps to try next, one sentence an entry.
        stdout_was_empty: True if the process wrote not one byte to stdout.
        last_non_json_line: the last stdout line that was not a JSON object, if any.
        stderr_tail: the last part of stderr (`Limits.stderr_tail` bytes), always captured.
        last_result: the last `ResultMessage` that came, if any.
    """

    __module__ = "hackamore"

    def __init__(
        self,
        *,
        exit_code_hint: str = "",
        troubleshooting: Sequence[str] = (),
        stdout_was_empty: bool = False,
        last_non_json_line: str | None = None,
        stderr_tail: str = "",
        last_result: Any = None,
    ) -> None:
        self.exit_code_hint = exit_code_hint
        self.troubleshooting: Sequence[str] = tuple(troubleshooting)
        self.stdout_was_empty = stdout_was_empty
        self.last_non_json_line = last_non_json_line
        self.stderr_tail = stderr_tail
        self.last_result = last_result

    def __repr__(self) -> str:
        facts = (f"{name}={escape_terminal(repr(value), 300)}" for name, value in self.__dict__.items())
        return f"Diagnostic({', '.join(facts)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Diagnostic) and self.__dict__ == other.__dict__

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


class ShortTraceback:
    """A `with` block at the public boundary: errors leave it without the frames inside the library."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Cut the traceback of an error of this library after the frame that holds the block."""
        if traceback is not None and isinstance(error, (HackamoreError, TypeError, ValueError, RuntimeError)):
            frame, last, line = traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno
            error.__traceback__ = TracebackType(None, frame, last, line)
            error.__suppress_context__ = True


short_traceback: ShortTraceback = ShortTraceback()


class PartialResult:
    """The part of an answer that arrived before an error.

    Attributes:
        messages: the complete messages, in order: the last 1 MiB, and the last one with a text. `run()` and `collect()` keep all messages.
        text: text of the last assistant message, or of the result if there was one.
        session_id: the session, for `Options(resume=...)`; None if no message named it.
        usage: token counts of the last result, else of the last assistant message; None if neither came.
        cost: the CLI's estimate in US dollars from the last result; None without a result.
    """

    __module__ = "hackamore"

    __slots__ = ("cost", "messages", "session_id", "text", "usage")

    def __init__(
        self,
        messages: Sequence[Any] = (),
        *,
        text: str = "",
        session_id: str | None = None,
        usage: Any = None,
        cost: float | None = None,
    ) -> None:
        self.messages: tuple[Any, ...] = tuple(messages)
        self.text: str = text
        self.session_id: str | None = session_id
        self.usage: Any = usage
        self.cost: float | None = cost

    def __repr__(self) -> str:
        return (
            f"PartialResult({len(self.messages)} messages, {len(self.text)} characters of text, "
            f"session_id={self.session_id!r}, cost={self.cost!r})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartialResult) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


class HackamoreError(Exception):
    """The base of every error that Hackamore raises.

    Attributes:
        partial: the part of the answer that arrived before the error; empty if nothing did.
        session_id: the session, for `Options(resume=...)`; None if it is unknown.
        retryable: True if the same call may succeed later without a change: limits and failures of the API or the system, timeouts.
        attempts: the attempts that `run(..., retry=...)` made, the last one included; 1 without retries.
    """

    __module__ = "hackamore"

    partial: PartialResult = PartialResult()
    session_id: str | None = None
    retryable: bool = False
    attempts: int = 1

    def __init_subclass__(cls, **given: Any) -> None:
        """Give a class of this library the place from which users import it: tracebacks name it, and pickles look there."""
        super().__init_subclass__(**given)
        package, *inside = cls.__module__.split(".")
        if package == HackamoreError.__module__ and not cls.__name__.startswith("_"):
            cls.__module__ = "hackamore.testing" if inside[:1] == ["testing"] else package

    def add_partial(self, partial: PartialResult) -> Self:
        """Set `partial` and `session_id` unless the error already has them; return the error.

        Args:
            partial: the part of the answer that arrived.

        Returns:
            The error itself.
        """
        if self.partial == PartialResult():
            self.partial = partial
        if self.session_id is None:
            self.session_id = partial.session_id
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors take facts, not `args`: pickle and copy restore the attributes and skip the constructor.
        return _restore, (type(self), self.args, self.__dict__.copy())

    def __copy__(self) -> Self:
        twin: Self = _restore(type(self), self.args, self.__dict__)
        twin.__cause__ = self.__cause__  # each caller raises a copy, and sees the exception of a transport
        return twin


def _restore(kind: Any, args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    value: Any = kind.__new__(kind, *args)
    if args:
        # `TimeoutError` is an `OSError`, which takes its arguments in `__init__` alone.
        value.args = args
    for name, fact in state.items():
        setattr(value, name, fact)
    return value


def without_keys(text: str) -> str:
    """Return a text with `...` for each API key (`sk-...`)."""
    import re

    return re.sub(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{8,}", "...", text) if "sk-" in text else text


def without_passwords(text: str) -> str:
    """Return a text, such as that of a driver's exception, with `...` for passwords in URLs and settings, and for API keys."""
    import re

    def after_an_address(found: re.Match[str]) -> str:
        _, at, rest = found[2].rpartition("@")
        return f"{found[1]}...@{rest}" if at else found[0]

    def after_a_name(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}..." if named.search(found[1]) else found[0]

    # Each run of characters is consumed whole, or begins a match at its first one only: the time grows with the text.
    text = re.sub(r"(:/{1,2}+[^\s/:@]*+:)(\S*+)", after_an_address, text)
    named = re.compile(r"(?i)password|passwd|pwd|secret|token|access_key")
    value = r"('[^']*+'|\"[^\"]*+\"|[^\s,;'\"]++)"
    return without_keys(re.sub(rf"(?<!\w)(\w++)(\s*+=\s*+|['\"]\s*+:\s*+){value}", after_a_name, text))


class OptionsError(HackamoreError, ValueError):
    """An option has a wrong name, type or value; nothing was started.

    Args:
        message: the text of the error.

    Attributes:
        field: the option's name, with the path into it where it is nested (`agents.reviewer.model`).
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        self.field = field
        # Keys of files and dicts are part of the text, and may come from strangers.
        super().__init__(escape_terminal(message, 20_000))


class PolicyError(OptionsError):
    """A policy has a wrong rule, an example that does not hold, or a file that cannot be read.

    Args:
        message: the text of the error.

    Attributes:
        file: the path of the file; empty for rules in Python.
        rule: the name of the rule; empty if it has none, or if the error concerns the file.
        field: the field of the rule.
    """

    def __init__(self, message: str, *, file: str = "", rule: str = "", field: str = "") -> None:
        self.file: str = file
        self.rule: str = rule
        self.problem: str = message
        places = [f"`{file}`" if file else "", f"rule {rule!r}" if rule else ""]
        place = ", ".join(filter(None, places))
        super().__init__(f"{place}: {message}" if place else message, field=field)


_SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})


class StartError(HackamoreError):
    """The CLI could not be started, or did not become usable."""


class CLINotFoundError(StartError):
    """No Claude Code CLI was found.

    Args:
        message: the first sentence of the text; None for the usual one.
        hint: the sentence about the fix. Default: how to install the CLI.

    Attributes:
        searched: every place that was looked at, in order.
    """

    def __init__(self, searched: Sequence[str] = (), *, message: str | None = None, hint: str = INSTALL_HINT) -> None:
        self.searched: tuple[str, ...] = tuple(searched)
        text = message or "Claude Code CLI not found."
        places = "".join(f"\n  - {escape_terminal(place)}" for place in self.searched)
        super().__init__(f"{text} {hint}" + (f"\nLooked at:{places}" if places else ""))


class UnsupportedCLIVersionError(StartError):
    """The CLI that was found is too old, or does not know a flag that was sent.

    Attributes:
        detected: the version found, or None if only a refused flag told.
        minimum: the lowest version that supports the request.
        suggestion: the fix, in one sentence.
        option: the option that needs the newer version, or "".
        flag: the flag that it becomes, or "".
        detail: the message of the CLI, or "".
    """

    def __init__(
        self,
        detected: str | None,
        minimum: str,
        suggestion: str = "",
        *,
        detail: str = "",
        option: str = "",
        flag: str = "",
    ) -> None:
        self.detected = detected
        self.minimum = minimum
        self.option = option
        self.flag = flag
        if option:
            update = f"`npm install -g @anthropic-ai/claude-code@{minimum}` or newer"
            suggestion = suggestion or f"Update it with {update}, or leave `{option}` out."
        self.suggestion: str = suggestion or "Update it with `npm install -g @anthropic-ai/claude-code@latest`."
        self.detail = detail
        if option:
            problem = f"`{option}` needs Claude Code CLI {minimum} or newer, and this one is {detected}: it does not know {flag}"
        elif detail:
            problem = f"This Claude Code CLI does not support the request: {escape_terminal(detail)}"
        else:
            problem = f"Claude Code CLI {detected} is too old: needed is {minimum} or newer"
        super().__init__(f"{problem}. {self.suggestion}")


class UnknownVersionError(StartError):
    """`claude --version` printed nothing that looks like a version.

    Attributes:
        output: its output.
        suggestion: the fix, in one sentence.
    """

    def __init__(self, output: str, suggestion: str = "") -> None:
        self.output = output
        self.suggestion: str = suggestion or (
            "Check that `cli_path` is the Claude Code CLI; `version_check='permissive'` continues with a warning instead."
        )
        super().__init__(
            f"No version number in the output of `claude --version`: {escape_terminal(output, 300)!r}. {self.suggestion}"
        )


class VersionDetectionError(StartError):
    """`claude --version` could not be run.

    Attributes:
        reason: the reason from the operating system or the process.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"Could not ask the Claude Code CLI for its version: {escape_terminal(reason)}. "
            "Check that the file runs by hand (`claude --version`); `version_check='permissive'` continues with a warning instead."
        )


class SpawnError(StartError):
    """The operating system refused to start the CLI.

    Args:
        hint: a further sentence of the text.

    Attributes:
        path: the executable.
        reason: the operating system's reason.
        cwd: the requested working directory, or None.
        errno: the operating system's error number, or None.
        retryable: True for a shortage: of memory, processes, file descriptors or space on the disk.
    """

    def __init__(
        self, path: str, reason: str, *, cwd: str | None = None, errno: int | None = None, hint: str = ""
    ) -> None:
        self.path = path
        self.reason = reason
        self.cwd = cwd
        self.errno = errno
        self.retryable: bool = errno in _SHORTAGES
        super().__init__(
            f"Could not start {escape_terminal(path)!r}: {escape_terminal(reason)}." + (f" {hint}" if hint else "")
        )


class RemoteStartError(StartError):
    """The CLI on another machine could not be started: the link, the machine or its CLI are not as they have to be.

    Attributes:
        place: the machine, the container or the command, for people.
        code: the kind of the problem, as `CheckReport` has it, such as `key-refused`.
        problem: the problem, in one sentence.
        fix: the way out, in one sentence.
        stderr: the end of stderr, that of the link and of the far side, without secrets.
        retryable: True if the machine could not be reached, or did not answer in time.
    """

    def __init__(self, place: str, code: str, problem: str, fix: str, *, stderr: str = "") -> None:
        self.place = place
        self.code = code
        self.problem = problem
        self.fix = fix
        self.stderr = stderr
        self.retryable: bool = code in ("unreachable", "timeout")
        text = (
            f"No Claude Code CLI was started on {escape_terminal(place, 200)}: {escape_terminal(problem, 1_000)} {fix}"
        )
        if stderr.strip():
            text += "\nstderr: " + escape_terminal(stderr.strip()[-2_000:], 2_000)
        super().__init__(text)


class InitializationTimeoutError(StartError):
    """The CLI was started and did not answer `initialize` in time.

    Attributes:
        timeout: the timeout, in seconds.
        output: the output until then.
    """

    retryable = True

    def __init__(self, timeout: float, output: str = "") -> None:
        self.timeout = timeout
        self.output = output
        super().__init__(
            f"The Claude Code CLI did not answer `initialize` within {timeout:g} s; raise `Timeouts.initialize` if it starts "
            f"slow servers or plugins." + (f" It printed: {escape_terminal(output)}" if output else "")
        )


class InitializationError(StartError):
    """The CLI answered `initialize` with an error.

    Attributes:
        message: the error of the CLI.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(f"The Claude Code CLI refused to initialize: {escape_terminal(message)}")


_KILLED = 128
"""Shells and containers report the death by signal N as exit code 128 + N, and so does the CLI for SIGTERM."""


def _was_killed(exit_code: int | None) -> bool:
    return exit_code is not None and (exit_code < 0 or exit_code > _KILLED)


def _ended(exit_code: int | None) -> str:
    return "ended" if exit_code is None else f"exited with code {exit_code}"


class CLIExitedDuringInitError(StartError):
    """The CLI ended before it had answered `initialize`.

    Attributes:
        exit_code: its exit code; negative for a signal.
        output: its output until then.
        retryable: True if a signal ended it.
    """

    def __init__(self, exit_code: int | None, output: str = "") -> None:
        self.exit_code = exit_code
        self.output = output
        self.retryable: bool = _was_killed(exit_code)
        super().__init__(
            f"The Claude Code CLI {_ended(exit_code)} before it was ready."
            + (f" It printed: {escape_terminal(output)}" if output else " It printed nothing.")
        )


class StreamError(HackamoreError):
    """The stream of messages was disturbed."""


class DecodeError(StreamError):
    """One line of output was not a JSON object. Not terminal: it is an item of the stream, and reading continues.

    Attributes:
        line: the bytes of the line, without its line end, and with `<masked>` for secrets.
        reason: `not-json`, `not-utf8`, `not-an-object` or `too-deep`.
        detail: the text of the decoder.
    """

    def __init__(
        self, line: bytes, reason: Literal["not-json", "not-utf8", "not-an-object", "too-deep"], detail: str
    ) -> None:
        self.line = line
        self.reason = reason
        self.detail = detail
        super().__init__(f"A line of output was skipped ({reason}: {escape_terminal(detail, 300)})")

    @property
    def text(self) -> str:
        """The line as text, safe for a terminal, shortened to 500 characters."""
        return escape_terminal(self.line[-4_000:].decode("utf-8", "replace"), 500)


class ProcessError(StreamError):
    """The CLI ended with an error before its result came (or after it, with `strict_exit_status=True`).

    Attributes:
        exit_code: its exit code; negative for a signal.
        diagnostic: facts about the failure.
        retryable: True for a crash: a signal ended it, or it failed after its first output and before a result.
    """

    def __init__(self, exit_code: int | None, diagnostic: Diagnostic) -> None:
        self.exit_code = exit_code
        self.diagnostic = diagnostic
        began = not diagnostic.stdout_was_empty and diagnostic.last_non_json_line is None
        crashed = _was_killed(exit_code) or (bool(exit_code) and began)
        self.retryable: bool = crashed and diagnostic.last_result is None
        parts = [f"The Claude Code CLI {_ended(exit_code)}."]
        if diagnostic.exit_code_hint:
            parts.append(diagnostic.exit_code_hint)
        parts.extend(diagnostic.troubleshooting)
        text = " ".join(parts)
        if diagnostic.stderr_tail.strip():
            text += "\nstderr: " + escape_terminal(diagnostic.stderr_tail.strip())
        if diagnostic.last_non_json_line:
            text += "\nlast line on stdout: " + escape_terminal(diagnostic.last_non_json_line, 500)
        super().__init__(text)


class LinkLostError(StreamError):
    """The link to another machine ended before its CLI did. The CLI over there ends with it; `Options(resume=...)` continues.

    Attributes:
        place: the machine, the container or the command, for people.
        silent: for so many seconds nothing came before Hackamore ended the link; None if it broke by itself.
        stderr: the end of stderr, that of the link and of the far side, without secrets.
    """

    retryable: bool = True

    def __init__(self, place: str, *, silent: float | None = None, stderr: str = "") -> None:
        self.place = place
        self.silent = silent
        self.stderr = stderr
        how = "broke" if silent is None else f"was silent for {silent:g} s, and was ended"
        text = f"The link to {escape_terminal(place, 200)} {how}. The CLI over there ends as well; resume the session to continue."
        if stderr.strip():
            text += "\nstderr: " + escape_terminal(stderr.strip()[-2_000:], 2_000)
        super().__init__(text)


class LineTooLongError(StreamError):
    """A line of output is longer than `Limits.line_bytes`.

    Attributes:
        size: bytes seen of it so far.
        limit: the limit in bytes.
        head: its first bytes.
    """

    def __init__(self, size: int, limit: int, head: bytes) -> None:
        self.size = size
        self.limit = limit
        self.head = head
        super().__init__(
            f"A line of output has at least {size:,} bytes; the limit is {limit:,}. Raise `Limits.line_bytes`, or set "
            "`on_oversize='skip'` to continue without it."
        )


class PromptIterableError(StreamError):
    """An iterable of prompts raised, gave an unsupported type, or gave no prompt. Its exception is the `__cause__`.

    Attributes:
        count: how many prompts had been sent before.
        reason: the problem.
    """

    def __init__(self, count: int, reason: str) -> None:
        self.count = count
        self.reason = reason
        super().__init__(f"The iterable of prompts failed after {count} prompts: {reason}")


class DecodeErrorLimitError(StreamError):
    """Several lines in a row were not JSON objects: this is not the CLI's stream.

    Attributes:
        count: how many there were in a row.
        last: the last of them.
    """

    def __init__(self, count: int, last: DecodeError) -> None:
        self.count = count
        self.last = last
        super().__init__(
            f"{count} lines of output in a row were not JSON ({last.reason}); the last was {last.text!r}. Check that `cli_path` is "
            "the Claude Code CLI and that no wrapper prints to stdout. The limit is `Limits.consecutive_decode_errors`."
        )


class SlowConsumerError(StreamError):
    """More unread output and open requests were held than `Limits.buffered_bytes` allows.

    Attributes:
        buffered: bytes held.
        limit: the limit in bytes.
    """

    def __init__(self, buffered: int, limit: int) -> None:
        self.buffered = buffered
        self.limit = limit
        super().__init__(
            f"{buffered:,} bytes of unread messages and open requests are held; the limit is {limit:,}. Read faster, let callbacks answer "
            "sooner, close cursors without a reader, or raise `Limits.buffered_bytes`."
        )


class TurnTimeoutError(StreamError, TimeoutError):
    """A timeout of the model's work passed.

    Attributes:
        kind: which one: `first_message`, `idle` or `turn`.
        seconds: its length.
        api_error: the last failed API request, if the API has not answered since; else empty.
    """

    retryable = True

    def __init__(self, kind: Literal["first_message", "idle", "turn"], seconds: float, *, api_error: str = "") -> None:
        self.seconds: float
        self.api_error: str
        self.kind, self.seconds, self.api_error = kind, seconds, api_error
        text = {
            "first_message": f"No message came within {seconds:g} s of the start",
            "idle": f"No message came for {seconds:g} s",
            "turn": f"The turn took longer than {seconds:g} s",
        }[kind]
        fix = f"Raise `Timeouts.{kind}`, or set it to None for no limit."
        super().__init__(f"{text}. {last_api_error(api_error)}{fix}")


def last_api_error(api_error: str) -> str:
    """Return a sentence about the last failed API request, with a space behind it; empty if there is none."""
    return f"The last API error was {api_error}. " if api_error else ""


class ControlError(HackamoreError):
    """A control operation did not succeed.

    Args:
        message: the text of the error.

    Attributes:
        operation: the name of the operation.
    """

    def __init__(self, operation: str, message: str) -> None:
        self.operation = operation
        super().__init__(message)


class ControlTimeoutError(ControlError, TimeoutError):
    """The CLI did not answer a control request in time.

    Attributes:
        operation: the name of the operation.
        request_id: the id of the request.
        seconds: the timeout; None if it is unknown.
        api_error: the last failed API request, if the API has not answered since; else empty.
    """

    retryable = True

    def __init__(self, operation: str, request_id: str, seconds: float | None = None, *, api_error: str = "") -> None:
        self.request_id = request_id
        self.seconds = seconds
        self.api_error = api_error
        within = f" within {seconds:g} s" if seconds is not None else " in time"
        text = f"`{operation}` was not answered{within} (request {request_id})."
        super().__init__(operation, f"{text} {last_api_error(api_error)}Pass a longer `timeout=`.")


class ControlRejectedError(ControlError):
    """The CLI answered a control request with an error.

    Args:
        operation: the name of the operation.

    Attributes:
        message: the text of the CLI.
        code: its error code, if it gave one.
    """

    def __init__(self, operation: str, message: str, code: str | None = None) -> None:
        self.message = message
        self.code = code
        super().__init__(
            operation,
            f"`{operation}` was rejected: {escape_terminal(message)}"
            + (f" ({escape_terminal(str(code), 100)})" if code else ""),
        )


class TooManyPendingRequestsError(ControlError):
    """Too many control requests wait for an answer of the CLI.

    Attributes:
        operation: the name of the operation.
        count: requests that wait already.
        limit: `Limits.pending_requests`.
    """

    retryable = True

    def __init__(self, operation: str, count: int, limit: int) -> None:
        self.count = count
        self.limit = limit
        super().__init__(
            operation,
            f"`{operation}` was not sent: {count} requests wait already; `Limits.pending_requests` is {limit}.",
        )


class InitQueueOverflowError(ControlError):
    """Too many control operations were called before the session was ready.

    Attributes:
        operation: the name of the operation.
        count: operations that wait already.
        limit: `Limits.queued_operations`.
    """

    retryable = True

    def __init__(self, operation: str, count: int, limit: int) -> None:
        self.count = count
        self.limit = limit
        super().__init__(
            operation, f"`{operation}` was not queued: {count} wait already; `Limits.queued_operations` is {limit}."
        )


class CheckpointingNotEnabledError(ControlError):
    """`rewind_files` needs the option `enable_file_checkpointing=True`.

    Args:
        operation: the name of the operation.
    """

    def __init__(self, operation: str = "rewind_files") -> None:
        super().__init__(operation, f"`{operation}` needs `Options(enable_file_checkpointing=True)`; nothing was sent.")


class NotSupportedError(ControlError):
    """The transport, or this version of the library, does not support the operation."""


class SessionClosedError(HackamoreError):
    """The session ended before or during the call.

    Attributes:
        expected: True if your program stopped the session.
        reason: the cause of the end.
        exit_code: the CLI's exit code, if it is known.
        stderr_tail: the last part of its stderr.
        retryable: True if the session was lost, and not stopped by your program.
    """

    def __init__(self, *, expected: bool, reason: str, exit_code: int | None = None, stderr_tail: str = "") -> None:
        self.expected = expected
        self.reason = reason
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.retryable: bool = not expected
        text = f"The session is closed: {escape_terminal(reason)}"
        if exit_code is not None:
            text += f" (exit code {exit_code})"
        if not text.endswith((".", "!")):
            text += "."
        text += " Start a new session; `Options(resume=session.session_id)` continues the conversation."
        if stderr_tail.strip():
            text += f"\nstderr: {escape_terminal(stderr_tail.strip())}"
        super().__init__(text)


class SessionNotStartedError(HackamoreError, RuntimeError):
    """The session was used before it was started.

    Attributes:
        call: the method that was called.
    """

    def __init__(self, call: str) -> None:
        self.call = call
        super().__init__(
            f"`{call}` needs a running session, and this session was not started. Use `async with Session(...) as session:` or call "
            "`await session.start()` first (with `hackamore.sync`: the same without `async` and `await`)."
        )


class SessionNotFoundError(StartError):
    """The CLI does not know the session that `resume` names, or the disk does not have the session to read.

    Args:
        message: the message of the CLI.
        action: the thing that was to happen to the session.

    Attributes:
        session_id: the id that was not found.
    """

    def __init__(self, message: str, *, action: str = "resume") -> None:
        found = _SESSION_ID.search(message)
        self.session_id: str | None = found[0] if found else None
        super().__init__(
            f"The session to {action} was not found: {escape_terminal(message)}. Check the id, and that the machine, HOME and "
            "CLAUDE_CONFIG_DIR are those of the program that created the session; a session that never received a prompt is not stored."
        )

    @classmethod
    def on_disk(cls, session_id: str, place: str) -> Self:
        """Return the error for a session without a file.

        Args:
            session_id: the id, or the part of it that was searched for.
            place: the folder that was searched.

        Returns:
            The error.
        """
        error = cls(f"no session {session_id[:200]!r} in {place[:1000]}", action="read")
        error.session_id = session_id
        return error

    @classmethod
    def found_in(cls, messages: Sequence[str]) -> Self | None:
        """Return the error if one of the CLI's messages says that a session does not exist.

        Args:
            messages: messages of the CLI.

        Returns:
            The error; None if no message says this.
        """
        return next((cls(message) for message in messages if any(text in message for text in _NO_SESSION)), None)


_NO_SESSION = ("No conversation found with session ID", "is not a UUID and does not match any session title")
_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{22,}")


class TranscriptError(HackamoreError):
    """A conversation on the disk could not be read or changed."""


class AmbiguousSessionError(TranscriptError):
    """Several sessions match the beginning of an id.

    Attributes:
        prefix: the beginning.
        matches: the ids that begin with it, in order.
    """

    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        self.prefix = prefix
        self.matches: tuple[str, ...] = tuple(matches)
        shown = "".join(f"\n  - {escape_terminal(each, 200)}" for each in self.matches[:20])
        more = f"\n  and {len(self.matches) - 20} more" if len(self.matches) > 20 else ""
        super().__init__(
            f"{escape_terminal(repr(prefix), 200)} matches {len(self.matches)} sessions. Pass more characters of the id:{shown}{more}"
        )


class SessionInUseError(TranscriptError):
    """A process works on the session, so that it is not deleted.

    Attributes:
        session_id: the session.
        pid: the process.
    """

    retryable = True

    def __init__(self, session_id: str, pid: int) -> None:
        self.session_id: str | None = session_id
        self.pid: int = pid
        super().__init__(
            f"The session {escape_terminal(session_id, 200)} was not deleted: the process {pid} works on it. End that process first, or "
            "pass `force=True`."
        )


class SessionExistsError(TranscriptError):
    """A session of this id is on the disk already, so that none is imported over it.

    Attributes:
        session_id: the session.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id: str | None = session_id
        super().__init__(
            f"The session {escape_terminal(session_id, 200)} was not imported: it is on the disk already. Pass `new_id=True` to import it "
            "under another id, or delete it first."
        )


class TurnCancelledError(HackamoreError):
    """The turn ended without a result: its prompt was cancelled before the model answered it.

    Attributes:
        turn_id: the id of the turn.
        state: its final state, such as `interrupted`.
    """

    def __init__(self, turn_id: str, state: str) -> None:
        self.turn_id = turn_id
        self.state = state
        super().__init__(
            f"The turn {turn_id} ended without a result (state: {state}), because its prompt was cancelled or discarded. Send the prompt "
            "again if you still need the answer."
        )


class ConcurrentUseError(HackamoreError, RuntimeError):
    """Two tasks or threads called the same stream at the same time; only one may read it at a time."""

    @classmethod
    def for_call(cls, call: str) -> Self:
        """Build the error for `call`.

        Args:
            call: the method that was called.

        Returns:
            The error.
        """
        return cls(
            f"`{call}` is already running in another task or thread. One reader at a time: collect in one place and pass on."
        )


class StoreError(HackamoreError):
    """A session store failed.

    Attributes:
        operation: the method of the store: `append`, `load`, `list_sessions`, `list_subkeys` or `delete`.
        session_id: the session; None if the call was about none.

    Args:
        operation: as the attribute.
        message: the failure, as the end of a sentence.
        session_id: as the attribute.
    """

    retryable = True

    def __init__(self, operation: str, message: str, session_id: str | None = None) -> None:
        self.operation = operation
        super().__init__(f"`{operation}` of the session store failed: {message}")
        self.session_id = session_id


class StoreConflictError(StoreError):
    """Two writers append to one session of a store: their entries would be mixed up, so the later one is refused.

    Attributes:
        operation: `append`.
        session_id: the session.
    """

    retryable = False

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "append",
            f"another writer has added entries to session {escape_terminal(session_id, 100)} since this one read it. Only one process may "
            "continue a session: stop the other one, resume the session again, or fork it with `fork_session=True`.",
            session_id,
        )


class PoolError(HackamoreError):
    """A `SessionPool` could not give a session, or a session of it was used after its return."""


class PoolTimeoutError(PoolError, TimeoutError):
    """No session became free in time.

    Attributes:
        seconds: the timeout.
        live: CLI processes at that moment.
        busy: sessions with a holder.
        waiting: callers that waited, including this one.
        max_live: the limit on processes.
        starting: processes that were not ready yet.
        leaving: processes that were being stopped, to make room.
        cause: the obstacle: `held` (the conversation has a holder), `elsewhere` (another program runs it), `registry` (the registry has
            not answered), `starting` or `leaving` (its process starts or ends, or its interrupted turn does), `full` (there was no place
            for a process).
        holder: the process of another pool that had the conversation; None if there was none, or it is not known.

    Args:
        key: the conversation that was wanted; None for any session. Other arguments become attributes.
    """

    retryable = True

    def __init__(
        self,
        seconds: float,
        *,
        live: int,
        busy: int,
        waiting: int,
        max_live: int,
        starting: int = 0,
        leaving: int = 0,
        cause: str = "full",
        key: str | None = None,
        holder: str | None = None,
    ) -> None:
        self.seconds: float = seconds
        self.live: int = live
        self.busy: int = busy
        self.waiting: int = waiting
        self.max_live: int = max_live
        self.starting: int = starting
        self.leaving: int = leaving
        self.cause: str = cause
        self.holder: str | None = holder
        wanted = "No session was" if key is None else f"The conversation {escape_terminal(repr(key), 200)} was not"
        reason, fix = _POOL_CAUSES[cause if cause != "full" or busy else "slow"]
        reason += f" ({escape_terminal(holder, 200)})" if holder is not None else ""
        super().__init__(
            f"{wanted} available within {seconds:g} s: {reason}. Of {live} processes (`max_live` is {max_live}) {busy} had a holder, "
            f"{starting} were starting and {leaving} ending; {waiting} callers waited. {fix}, or try again later."
        )


_POOL_CAUSES = {
    "held": ("its holder did not return it", "Return sessions sooner, raise `timeout`"),
    "elsewhere": ("another program runs it", "Return it there, raise `timeout`"),
    "registry": ("the registry did not answer", "Check the registry, raise `timeout`"),
    "starting": ("its process was still starting", "Raise `timeout` or `max_starting`"),
    "leaving": ("its process, or its interrupted turn, was still ending", "Raise `timeout`"),
    "full": ("there was no place for another process", "Return sessions sooner, raise `max_live` or `timeout`"),
    "slow": (
        "processes for callers before it were starting or ending",
        "Raise `timeout`, `max_live` or `max_starting`",
    ),
}


class ConversationInUseError(PoolError):
    """A conversation of a pool was not forgotten, because it is in use.

    Attributes:
        key: its key.

    Args:
        elsewhere: True if another program runs it. Other arguments become attributes.
    """

    retryable = True

    def __init__(self, key: str, *, elsewhere: bool = False) -> None:
        self.key: str = key
        where = "another program runs it" if elsewhere else "it has a holder, callers that wait, or open work"
        super().__init__(
            f"The conversation {escape_terminal(repr(key), 200)} was not forgotten: {where}. Try again when it was returned."
        )


class ConversationNotFoundError(PoolError):
    """The registry of a pool has no session for a key.

    Attributes:
        key: the key.
    """

    def __init__(self, key: str) -> None:
        self.key: str = key
        super().__init__(
            f"There is no conversation {escape_terminal(repr(key), 200)} in the registry of this pool: it was never checked out, or was "
            "forgotten. Check the key against `pool.conversations()`."
        )


class PoolClosedError(PoolError):
    """The pool gives out no sessions: it was not started, or is being stopped.

    Args:
        started: False if the pool was not started.
    """

    def __init__(self, *, started: bool) -> None:
        self.started: bool = started
        super().__init__(
            "This pool is being stopped, or has ended, and gives out no more sessions. Create another one."
            if started
            else "This pool was not started. Use `async with SessionPool(...) as pool:` or call `await pool.start()` first (with "
            "`hackamore.sync`: the same without `async` and `await`)."
        )


class SessionReturnedError(PoolError, RuntimeError):
    """A session of a pool was used after it was returned to the pool."""

    def __init__(self) -> None:
        super().__init__(
            "This session was returned to its pool, and its process may have another holder now. Use it inside its `with` block only, and "
            "check it out again with `pool.session()` or `pool.conversation(key)`."
        )


class RegistryError(PoolError):
    """The registry of a pool failed: its file cannot be used, or has another version."""


class ApprovalError(HackamoreError):
    """A request of `Approvals` cannot be answered or changed, or its database cannot be used.

    Args:
        message: the text of the error.
        request: the request, if there is one.
        unknown: True if there is no such request that the person may see.

    Attributes:
        request: the `hackamore.approvals.ApprovalRequest` as it is; `answered_by` of it says who was first. None if the database failed.
        unknown: True if there is no such request that the person may see.
    """

    def __init__(self, message: str, *, request: Any = None, unknown: bool = False) -> None:
        self.request: Any = request
        self.unknown: bool = unknown
        super().__init__(message)


class BudgetError(HackamoreError):
    """A `Budget` cannot be used: its file fails, or it belongs to another process."""


class UnknownPriceError(BudgetError):
    """A model has no price, so its cost cannot be limited. The turn was interrupted.

    Attributes:
        model: the name of the model, as the API reports it.
    """

    def __init__(self, model: str) -> None:
        self.model: str = model
        name = escape_terminal(repr(model), 200)
        super().__init__(
            f"The model {name} has no price, and a budget in US dollars needs one. Pass it: `Budget(..., prices={{{name}: "
            "Price(input=3, output=15)})`, in US dollars for a million tokens; or limit `tokens` instead of dollars."
        )


class BudgetExceededError(BudgetError):
    """A limit of a `Budget` is reached: the prompt was not sent, or its turn was interrupted.

    Attributes:
        spent: the spending so far, in `unit`.
        reserved: the part of the rest that running turns have reserved, in `unit`.
        limit: the limit, in `unit`.
        unit: `usd` for US dollars, or `tokens`.
        key: the key that the limit is for, such as `tenant=acme`; empty for the whole budget.
        sent: True if the prompt was sent: the turn was interrupted, and `partial` has its messages.
    """

    def __init__(
        self, *, spent: float, limit: float, reserved: float = 0, unit: str = "usd", key: str = "", sent: bool = False
    ) -> None:
        self.spent: float = spent
        self.reserved: float = reserved
        self.limit: float = limit
        self.unit: str = unit
        self.key: str = key
        self.sent: bool = sent
        name = f"The budget of {escape_terminal(repr(key), 200)}" if key else "The budget"
        fix = f"Raise the limit with `Budget.set_limits({'per' if key else unit}=...)`"
        action = "The turn was interrupted" if sent else "The prompt was not sent"
        if spent >= limit or not reserved:
            text = f"{name} is spent: {_amount(spent, unit)} of {_amount(limit, unit)}. {action}. {fix}."
        else:
            text = (
                f"{name} has no room for another turn: {_amount(spent, unit)} of {_amount(limit, unit)} are spent, and running turns have "
                f"reserved {_amount(reserved, unit)}. {action}. Wait until one of them ends, or {fix[0].lower()}{fix[1:]}."
            )
        super().__init__(text)


class FleetError(HackamoreError):
    """A fleet cannot keep its promises: its journal or a workspace fails."""


class JournalError(FleetError):
    """The journal of a fleet cannot be used: its file or database fails, or has another version. Nothing that it has is lost."""

    retryable = True


class TaskChangedError(FleetError):
    """The journal has a task under the same id with another prompt or other options. Nothing was added.

    Attributes:
        differences: the differences, a line for each of the first tasks.
        count: how many tasks differ.

    Args:
        journal: the journal, for people.
    """

    def __init__(self, journal: str, differences: Sequence[str], count: int) -> None:
        self.differences: list[str] = list(differences)
        self.count: int = count
        shown = "\n".join(f"  {each}" for each in differences)
        more = f"\n  and {count - len(differences)} more" if count > len(differences) else ""
        super().__init__(
            escape_terminal(
                f"The journal {journal!r} has tasks under the same ids with other contents: {count}. Give changed tasks new ids, or use "
                f"another journal.\n{shown}{more}",
                20_000,
            )
        )


class TaskFailedError(FleetError):
    """A task of a fleet is over without success.

    Attributes:
        task: its id.
        state: `failed` or `cancelled`.
        cause: why its last attempt failed, such as `crash` or `verify`.
        row: the `FleetRow` of the task.

    Args:
        error: the text of the last error.
    """

    def __init__(self, task: str, state: str, cause: str | None, error: str | None, row: object = None) -> None:
        self.task: str = task
        self.state: str = state
        self.cause: str | None = cause
        self.row: object = row
        why = f" ({cause})" if cause else ""
        super().__init__(
            escape_terminal(
                f"The task {task!r} {'was cancelled' if state == 'cancelled' else 'failed'}{why}: {error or 'no error'}"
            )
        )


class WorkspaceError(FleetError):
    """The workspace of a task cannot be made, or its work cannot be kept. Work of earlier attempts stays where it is.

    Args:
        message: the text of the error.

    Attributes:
        retryable: True if the same call may succeed later without a change: a lock, a timeout, no space.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable: bool = retryable
        # Names of tasks and branches, and the output of git, may come from strangers.
        super().__init__(escape_terminal(message, 20_000))


def _amount(value: float, unit: str) -> str:
    """Return an amount as a text shows it: cents where that is enough."""
    if unit == "tokens":
        return f"{value:,.0f} tokens"
    return f"${value:,.2f}" if round(value, 2) == round(value, 6) else f"${value:,.6f}".rstrip("0")
