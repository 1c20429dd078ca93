"""`hackamore run`, and what every command needs to end well: signals, exit codes, nothing left behind."""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from hackamore.activity.words import one_line
from hackamore.cli.flags import LOG_LEVELS, build_options, read_prompt
from hackamore.errors import HackamoreError, OptionsError, StartError, StreamWarning
from hackamore.runtime.log import one_line as one_log_line

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from types import FrameType

    from hackamore.cli.terminal import Terminal
    from hackamore.cli.transcript import FinalText, RawLines, Transcript
    from hackamore.messages import ResultMessage
    from hackamore.options.options import Options
    from hackamore.sync import QueryStream

T = TypeVar("T")

_START_SECONDS = 2.0
"""A start that takes longer waits for the answer to `--version`, which may be interrupted."""


class Stopped(BaseException):
    """A signal other than that of Ctrl-C asked this process to end."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Signals:
    """Raises for the first signal that asks for an end, and ignores later ones, because stopping takes a limited time.

    While the library runs, the stream is closed before the exception is raised. An exception between the start of a process and its
    registration would lose the process.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._stream: QueryStream | None = None
        self._left = threading.Event()
        self._forced = False
        self._listener: Callable[[int], bool] | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch for SIGINT, SIGTERM and SIGHUP: `KeyboardInterrupt` or `Stopped` is raised."""
        # Ignored signals (nohup, jobs in the background) stay ignored.
        usual = (signal.SIG_DFL, signal.default_int_handler)
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {
            number: signal.signal(number, self._arrived) for number in wanted if signal.getsignal(number) in usual
        }
        try:
            yield
        finally:
            # After a signal the process only cleans up, which further signals must not disturb.
            for number, handler in before.items():
                signal.signal(number, handler if self._number is None else signal.SIG_IGN)

    def during(self, stream: QueryStream, call: Callable[[], T]) -> T:
        """Return what a call of the library returns; a signal ends the call and is raised afterwards."""
        self._left.clear()
        self._stream = stream
        try:
            return call()
        finally:
            self._stream = None
            self._left.set()
            self._raise()

    @contextmanager
    def handed_to(self, listener: Callable[[int], bool]) -> Iterator[None]:
        """Call the listener instead of raising, between any two steps of the main thread; raise if it returns True."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    def end(self, number: int) -> NoReturn:
        """Raise what a signal raises, and ignore those that follow."""
        self._number = number
        self._raise()
        raise Stopped(number)

    def _arrived(self, number: int, _: FrameType | None) -> None:
        if self._listener is not None:
            if self._number is None and self._listener(number):
                self.end(number)
            return
        if self._forced:
            self._forced = False
            self._raise()
        if self._number is not None:
            return
        self._number = number
        if self._stream is None:
            self._raise()
        else:
            # Not here: the thread that is interrupted may hold the locks that closing takes.
            threading.Thread(target=self._close, args=(self._stream,), name="hackamore-stop", daemon=True).start()

    def _close(self, stream: QueryStream) -> None:
        stream.close()
        if not self._left.wait(_START_SECONDS) and stream.pid is None and self._number is not None:
            self._forced = True
            signal.pthread_kill(threading.main_thread().ident or 0, self._number)

    def _raise(self) -> None:
        if self._number == signal.SIGINT:
            raise KeyboardInterrupt
        if self._number is not None:
            raise Stopped(self._number)


signals: Signals = Signals()
"""Those of this process."""

_LOGGER = logging.getLogger("hackamore")
FAILED = 1
USAGE = 2
NOT_STARTED = 3
_BROKEN_PIPE = 128 + signal.SIGPIPE
View: TypeAlias = "RawLines | FinalText | Transcript"


def run(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Run a prompt, show the answer as it arrives, return the exit code."""
    from hackamore.cli.transcript import FinalText, RawLines, Transcript  # `--help` needs none of it

    quiet, as_json = bool(given.get("quiet")), bool(given.get("as_json"))
    if quiet and as_json:
        raise OptionsError("--json and --quiet exclude each other.", field="json")
    options = build_options(given, partial=terminal.interactive and not quiet and not as_json)
    prompt = read_prompt(given.get("prompt"))
    terminal.separate()
    view: View = RawLines(terminal) if as_json else FinalText(terminal) if quiet else Transcript(terminal)
    result = show_query(prompt, options, view, terminal)
    return FAILED if result is None or result.is_error else 0


def show_query(
    prompt: str, options: Options, view: View | None, terminal: Terminal | None = None
) -> ResultMessage | None:
    """Run a query and show every item on `view`, with a spinner on `terminal` (None: nothing is shown); return the last result."""
    from hackamore.sync import query

    stream = query(prompt, options)
    spinning = nullcontext() if terminal is None else terminal.spinning("Starting Claude Code")
    with spinning, nullcontext() if view is None else _items_shown():
        try:
            while (item := signals.during(stream, stream.next_item)) is not None:
                if terminal is not None:
                    terminal.working("Working")
                    _note_session(item, terminal)
                if view is not None:
                    view.show(item)
        finally:
            signals.during(stream, stream.close)
    result = stream.results[-1] if stream.results else None
    if view is not None:
        view.finish(result)
    return result


def _note_session(item: Any, terminal: Terminal) -> None:
    session_id = getattr(item, "session_id", None)
    if session_id and not terminal.last_words:
        terminal.last_words = f"Resume with: hackamore run --resume {one_line(session_id)} PROMPT"


def run_async(terminal: Terminal, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what a coroutine returns, on an event loop of its own; a signal cancels it, and is raised when it has ended."""
    import asyncio

    number: list[int] = []
    task: list[asyncio.Task[T]] = []

    async def main() -> T:
        task.append(asyncio.create_task(work()))
        return await task[0]

    def heard(which: int) -> bool:
        if not number:
            number.append(which)
            terminal.muted = True
            if not task or terminal.writing:
                return True
            task[0].get_loop().call_soon_threadsafe(task[0].cancel)
        return False

    try:
        with signals.handed_to(heard):
            return asyncio.run(main())
    except asyncio.CancelledError:
        if not number:
            raise
        signals.end(number[0])
    finally:
        terminal.muted = False


def ending_well(terminal: Terminal, action: Callable[[], int]) -> int:
    """Run `action` and return the exit code, also after signals and errors; all its processes are gone by then."""
    try:
        with signals.watched(), _warnings_shown(terminal), _log_shown(terminal):
            return _guarded(terminal, action)
    except KeyboardInterrupt:
        return _said(terminal, f"Interrupted.\n{terminal.last_words}".strip(), 128 + signal.SIGINT)
    except Stopped as stopped:
        return _said(terminal, "", 128 + stopped.number)
    except BrokenPipeError:
        return _quiet_end()
    except OSError as error:
        # A full disk: the message may still get through, the rest of the output cannot.
        code = _said(terminal, f"error: the output cannot be written: {error.strerror or error}", FAILED)
        return _quiet_end(code)


def with_flags(text: str) -> str:
    """Return the text of an error that names `--cli-path` in the place of the option."""
    return re.sub(r"`cli_path=?`", "`--cli-path`", text)


def _guarded(terminal: Terminal, action: Callable[[], int]) -> int:
    try:
        code = action()
        sys.stdout.flush()
    except StartError as error:
        terminal.error(f"{with_flags(str(error))}\n`hackamore doctor` shows what was looked at and what would be sent.")
        return NOT_STARTED
    except OptionsError as error:
        terminal.error(str(error))
        return USAGE
    except Exception as error:
        from hackamore.messages import ResultError

        # A warning is raised where a filter (`python -W error`) makes errors of warnings.
        if not isinstance(error, HackamoreError | ResultError | StreamWarning):
            raise
        terminal.error(str(error))
        return FAILED
    return code


def _said(terminal: Terminal, text: str, code: int) -> int:
    try:
        wait_for_no_reader()
        if text:
            terminal.note(text, "yellow")
        else:
            terminal.fresh_line()
        sys.stdout.flush()
    except OSError:
        return _quiet_end(code)
    return code


def wait_for_no_reader() -> None:
    """Discard further output if its reader (a pager, for example) stopped reading, so that the end does not block."""
    for stream in (sys.stdout, sys.stderr):
        if not select.select([], [stream.fileno()], [], 0)[1]:
            _to_nowhere(stream.fileno())


def _quiet_end(code: int = _BROKEN_PIPE) -> int:
    """Make sure that the interpreter does not complain about the pipe when it flushes at its end."""
    for descriptor in (1, 2):
        _to_nowhere(descriptor)
    return code


def _to_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def _warnings_shown(terminal: Terminal) -> Iterator[None]:
    """Show Hackamore's warnings as such, without the line of source that Python adds."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", StreamWarning, append=True)
        original = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, StreamWarning):
                terminal.warning(str(message))
            else:
                original(message, category, *rest, **more)

        warnings.showwarning = show
        yield


def checked_level(level: str | None) -> int | None:
    """Return the number of a level of `--log-level`, None if it is not used; raise OptionsError if there is no such level."""
    if level is None:
        return None
    if level.lower() not in LOG_LEVELS:
        raise OptionsError(f"--log-level must be one of {', '.join(LOG_LEVELS)}, got {level!r}.", field="log_level")
    return logging.getLevelNamesMapping()[level.upper()]


def logged(action: Callable[[Terminal], int], level: int, terminal: Terminal) -> int:
    """Run a command; write the records of the log from `level` on to standard error, and return the exit code."""
    handler = _LogHandler(terminal, level)
    before = _LOGGER.level
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(level)
    try:
        return action(terminal)
    finally:
        _LOGGER.setLevel(before)
        _LOGGER.removeHandler(handler)


class _LogHandler(logging.Handler):
    """Writes each record as one line: time, level, ids, message, and the traceback with semicolons."""

    def __init__(self, terminal: Terminal, level: int) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter("%(message)s"))
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; ignore a failed write, because the next output reports it."""
        when = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        ids = "".join(f" {name}={value}" for name in _IDS if (value := getattr(record, name, None)) is not None)
        with suppress(OSError):
            self._terminal.log(f"{when} {record.levelname}{ids} {one_log_line(self.format(record))}")


_IDS = ("session_id", "turn_id", "pid")


class _TerminalHandler(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal
        self.items_are_shown = False

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message as a warning; ignore a failed write, because the next output reports it."""
        if any(isinstance(other, _LogHandler) and record.levelno >= other.level for other in _LOGGER.handlers):
            return
        if self.items_are_shown and hasattr(record, "code"):
            return
        with suppress(OSError):
            self._terminal.warning(record.getMessage())


@contextmanager
def _log_shown(terminal: Terminal) -> Iterator[None]:
    handler = _TerminalHandler(terminal)
    _LOGGER.addHandler(handler)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)


@contextmanager
def _items_shown() -> Iterator[None]:
    """Keep the handler quiet of warnings and bad lines, which are items that a view shows."""
    handlers = [handler for handler in _LOGGER.handlers if isinstance(handler, _TerminalHandler)]
    for handler in handlers:
        handler.items_are_shown = True
    try:
        yield
    finally:
        for handler in handlers:
            handler.items_are_shown = False


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Keep quiet of a permission callback that is not always asked, and of what the log says as well."""

    def surprising(record: logging.LogRecord) -> bool:
        return getattr(record, "code", None) != "PERMISSION_CALLBACK_SHADOWED"

    _LOGGER.addFilter(surprising)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StreamWarning)
            yield
    finally:
        _LOGGER.removeFilter(surprising)
