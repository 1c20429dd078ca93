"""`bridle run`, and what every command needs to end well: signals, exit codes, nothing left behind."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bridle.cli.choices import build_options, read_prompt
from bridle.cli.signals import Stopped, signals
from bridle.cli.transcript import FinalText, RawLines, Transcript
from bridle.errors import BridleError, OptionsError, StartError, StreamWarning
from bridle.messages import ResultError
from bridle.sync import query

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from bridle.cli.terminal import Terminal
    from bridle.errors import DecodeError
    from bridle.messages import Message, ResultMessage
    from bridle.options.options import Options

T = TypeVar("T")

_LOGGER = logging.getLogger("bridle")
FAILED = 1
USAGE = 2
NOT_STARTED = 3
_BROKEN_PIPE = 128 + signal.SIGPIPE


class View(Protocol):
    """Shows the items of a stream."""

    def show(self, item: Message | StreamWarning | DecodeError) -> None:
        """Show one item."""

    def finish(self, result: ResultMessage | None) -> None:
        """Show how it ended."""


def run(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Ask, show the answer as it comes, return the exit code."""
    quiet, as_json = bool(given.get("quiet")), bool(given.get("as_json"))
    if quiet and as_json:
        raise OptionsError("--json and --quiet exclude each other.", field="json")
    options = build_options(given, partial=terminal.interactive and not quiet and not as_json)
    prompt = read_prompt(given.get("prompt"))
    view: View
    view = RawLines(terminal) if as_json else FinalText(terminal) if quiet else Transcript(terminal)
    result = show_query(prompt, options, view)
    return FAILED if result is None or result.is_error else 0


def show_query(prompt: str, options: Options, view: View | None) -> ResultMessage | None:
    """Ask and show every item; return the last result."""
    stream = query(prompt, options)
    try:
        while (item := signals.during(stream, stream.next_item)) is not None:
            if view is not None:
                view.show(item)
    finally:
        signals.during(stream, stream.close)
    result = stream.results[-1] if stream.results else None
    if view is not None:
        view.finish(result)
    return result


def run_async(terminal: Terminal, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what a coroutine returns, on an event loop of its own; a signal cancels it, and is raised when it has ended."""
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
    """Return the exit code of `action`, whatever ends it; by then nothing that it started is left."""
    try:
        with signals.watched(), _warnings_shown(terminal), _log_shown(terminal):
            return _guarded(terminal, action)
    except KeyboardInterrupt:
        return _said(terminal, "Interrupted.", 128 + signal.SIGINT)
    except Stopped as stopped:
        return _said(terminal, "", 128 + stopped.number)
    except BrokenPipeError:
        return _quiet_end()
    except OSError as error:
        # A full disk: the message may still get through, the rest of the output cannot.
        code = _said(terminal, f"error: the output cannot be written: {error.strerror or error}", FAILED)
        return _quiet_end(code)


def _guarded(terminal: Terminal, action: Callable[[], int]) -> int:
    try:
        code = action()
        sys.stdout.flush()
    except StartError as error:
        terminal.error(f"{error}\n`bridle doctor` shows what was looked at and what would be sent.")
        return NOT_STARTED
    except OptionsError as error:
        terminal.error(str(error))
        return USAGE
    except (BridleError, ResultError, StreamWarning) as error:
        # A warning is raised where a filter (`python -W error`) makes errors of warnings.
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
    """Let nobody who reads no more (a pager, say) hold up the end: what they would get is thrown away from here on."""
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
    """Show Bridle's warnings as such, without the line of source that Python adds."""
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


class _TerminalHandler(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message as a warning; where that fails, the next output fails, too, and not in the midst of the library."""
        with suppress(OSError):
            self._terminal.warning(record.getMessage())


@contextmanager
def _log_shown(terminal: Terminal) -> Iterator[None]:
    """Show the log of Bridle, cleaned."""
    handler = _TerminalHandler(terminal)
    _LOGGER.addHandler(handler)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Keep quiet of a permission callback that is not always asked, and of what the log says as well."""

    def surprising(record: logging.LogRecord) -> bool:
        warning = record.args[0] if isinstance(record.args, tuple) and record.args else None
        return not (isinstance(warning, StreamWarning) and warning.code == "PERMISSION_CALLBACK_SHADOWED")

    _LOGGER.addFilter(surprising)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StreamWarning)
            yield
    finally:
        _LOGGER.removeFilter(surprising)
