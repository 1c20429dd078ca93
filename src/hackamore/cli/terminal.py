"""The terminal: everything that is printed goes through here, and nothing reaches it that could steer it.

Model output, tool results, file names and errors are data. Control characters, escape sequences and what changes the direction of text
are shown as `\\x1b` or `\\u202e`; newlines and tabs are kept. Rich only adds colours: its markup is never interpreted.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

from hackamore.activity.words import clean
from hackamore.errors import UNSAFE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import TextIO

_HELD = ("\r", *map(chr, range(0xD800, 0xDC00)))
_PLAIN_WIDTH = 160
_WORDS = re.compile(r"\s+|\S+")
_INDENTED = 4
_SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPIN_SECONDS = 0.1
_SPIN_AFTER = 0.4
"""Seconds without output after which the spinner shows."""


def _escape_for_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def escape_json(text: str) -> str:
    """Return JSON that means the same and is safe for a terminal; it may have several lines."""
    return UNSAFE.sub(_escape_for_json, text)


class Cleaner:
    """Cleans a text that comes in pieces: what belongs together and was cut apart is put together again."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        self._held = text[-1] if text.endswith(_HELD) else ""
        return clean(text.removesuffix(self._held))

    def finish(self) -> str:
        """Return the rest, and start again."""
        held, self._held = self._held, ""
        return clean(held)


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        # Rich would exit here, without stopping the CLI.
        raise BrokenPipeError


def _console(file: TextIO) -> Console:
    return _Console(
        file=file,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


class Channel:
    """One stream of the terminal: text is cleaned, and on a terminal wrapped at words. `line_open`: the last line has no end yet."""

    def __init__(self, file: TextIO, owner: Terminal) -> None:
        self._owner = owner
        self.console: Console = _console(file)
        self._cleaner = Cleaner()
        self._wrapper = Wrapper()
        self.line_open: bool = False
        self.interactive: bool = file.isatty()
        self.styled: bool = self.console.color_system is not None

    @property
    def width(self) -> int:
        return self.console.width if self.interactive else _PLAIN_WIDTH

    def piece(self, text: str, style: str = "") -> None:
        """Write a piece of a text that continues with the next piece."""
        shown = self._cleaner.feed(text)
        if shown and self.interactive:
            shown = self._wrapper.feed(shown, self.width)
        self._put(shown, style)

    def write(self, text: str, style: str = "") -> None:
        """Write text as it is, cleaned, with nothing after it."""
        self._finish_piece()
        self._put(clean(text), style)

    def line(self, text: str = "", style: str = "", *, wrap: bool = False) -> None:
        """Write a line of its own; `wrap` breaks it at words, and sets the next lines in as far as the first."""
        self.fresh_line()
        text = clean(text)
        if wrap and self.interactive:
            text = wrapped(text, self.width)
        self._put(text, style)
        self._put("\n")

    def parts(self, *parts: tuple[str, str], hang: int = 0) -> None:
        """Write pieces of text, each with its style, and end the line; `hang` is the indentation of wrapped lines."""
        lines = [clean(text) for text, _ in parts]
        if self.interactive and sum(map(cell_len, lines)) > self.width:
            broken = wrapped("\0".join(lines), self.width, " " * hang).split("\0")
            lines = broken if len(broken) == len(lines) else lines
        self._finish_piece()
        for text, (_, style) in zip(lines, parts, strict=True):
            self._put(text, style)
        self._put("\n")

    def fresh_line(self) -> None:
        self._finish_piece()
        if self.line_open:
            self._put("\n")

    def _finish_piece(self) -> None:
        self._put(self._wrapper.finish(self.width) + self._cleaner.finish())

    def _put(self, safe: str, style: str = "") -> None:
        if safe:
            self._owner.emit(self.console, [Segment(safe, Style.parse(style) if style else None)])
            self.line_open = not safe.endswith("\n")


class Terminal(Channel):
    """Standard output and standard error, for text that cannot be trusted.

    Attributes:
        aside: the channel of decoration (the header, tool calls, the summary): standard output unless `separate` was called.
        interactive: True if standard output is a terminal.
        styled: True if it shows colours.
        asking: True while a question of `ask` is the last text on it.
        writing: True in the middle of a write, which may block.
        last_words: a line for standard error if the command is interrupted.
    """

    line_open: bool

    def __init__(self) -> None:
        for file in (sys.stdout, sys.stderr):
            # With an odd encoding a character may be lost to an escape, but never a run to an exception.
            if hasattr(file, "reconfigure"):
                file.reconfigure(errors="backslashreplace")
        super().__init__(sys.stdout, self)
        self._errors = Channel(sys.stderr, self)
        self.aside: Channel = self
        self.asking: bool = False
        self.writing: bool = False
        self.muted: bool = False
        self.last_words = ""
        self._spinner: Spinner | None = None
        self._moving: Moving | None = None
        fancy = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
        self.bullet, self.corner, self.cross, self.tick = ("●", "⎿", "✗", "✓") if fancy else ("*", "|", "x", "ok")
        self.ellipsis, self.dot, self.rule = ("…", " · ", "─") if fancy else ("...", " - ", "-")

    def separate(self) -> None:
        """Send decoration to standard error if standard output is not a terminal: a pipe gets data alone."""
        if not self.interactive:
            self.aside = self._errors

    def shorten(self, line: str, width: int) -> str:
        """Return a line of at most `width` columns."""
        wide = line.expandtabs(8)
        if cell_len(wide) <= width:
            return line
        return set_cell_size(wide, max(1, width - len(self.ellipsis))).rstrip() + self.ellipsis

    def json(self, value: Any) -> None:
        """Write a value as JSON of several lines."""
        self.line(escape_json(json.dumps(value, indent=2, ensure_ascii=False)))

    def ask(self, text: str, style: str = "bold") -> None:
        """Write a question, on a line of its own that stays open."""
        self.aside.fresh_line()
        self.aside.write(text, style)
        self.asking = True

    def answered(self) -> None:
        """Record that the user ended the line."""
        self.aside.line_open = self.asking = False

    def disturbed(self) -> None:
        """Record that the terminal itself has written, as it does for Ctrl-C."""
        self.line_open = True

    def note(self, text: str, style: str = "") -> None:
        """Write a line to standard error."""
        self.fresh_line()
        self._errors.line(text, style, wrap=True)

    def log(self, text: str) -> None:
        """Write a line of the log to standard error; where standard output goes elsewhere, nothing is added to that."""
        if self.interactive and self._errors.interactive:
            self.fresh_line()
        self._errors.line(text)

    def error(self, text: str) -> None:
        self.note(f"error: {text}", "red")

    def warning(self, text: str) -> None:
        self.note(f"warning: {text}", "yellow")

    def raw_line(self, line: bytes) -> None:
        """Write one line of JSON: its exact bytes, or on a terminal an equivalent without control characters."""
        if self.interactive:
            line = escape_json(line.decode("utf-8", "replace")).encode()
        with self.quiet_spinner():
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    @property
    def moves(self) -> bool:
        """True if lines can change on it: a terminal with colours."""
        return self.interactive and self.styled and self._errors.interactive

    @contextmanager
    def moving(self, lines: Callable[[float], Sequence[str]]) -> Iterator[None]:
        """Show lines that change below all that is written, if the terminal `moves`. See `Moving`."""
        if not self.moves:
            yield
            return
        self._moving = Moving(self, lines)
        try:
            yield
        finally:
            self._moving.stop()
            self._moving = None

    @contextmanager
    def spinning(self, text: str) -> Iterator[None]:
        """Show a spinner while nothing is written, on a terminal with colours."""
        self._spinner = Spinner(self, text)
        try:
            with self.moving(self._spinner.lines):
                yield
        finally:
            self._spinner = None

    def working(self, text: str) -> None:
        """Change the text of the spinner, if there is one."""
        if self._spinner is not None:
            self._spinner.text = text

    def quiet_spinner(self) -> AbstractContextManager[Any]:
        """Return a context in which the spinner does not write; what it wrote is erased."""
        return nullcontext() if self._moving is None else self._moving.erased()

    def emit(self, console: Console, segments: list[Segment]) -> None:
        self.asking = False
        self.writing = True
        try:
            if not self.muted:  # checked only now: a signal comes either before that, or while `writing` is set
                with self.quiet_spinner():
                    console.print(Segments(segments), end="", soft_wrap=True)
        finally:
            self.writing = False


class Moving:
    """Lines that change while nothing is written; a thread draws them, and only where a write cannot block.

    Args:
        lines: returns the lines, clean and not wider than the terminal, for the seconds without other output; none for nothing.
    """

    def __init__(self, terminal: Terminal, lines: Callable[[float], Sequence[str]]) -> None:
        self._terminal = terminal
        self._lines = lines
        self._descriptor = sys.stdout.fileno()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._shown = 0
        self._drawn = ""
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="hackamore-spinner", daemon=True)
        self._thread.start()

    @contextmanager
    def erased(self) -> Iterator[None]:
        """Hold the lines back, erased, while something else writes."""
        with self._lock:
            if self._shown:
                self._draw(self._back() + ("\x1b[K" if self._shown == 1 else "\x1b[J"))
                self._shown = 0
            yield
            self._last = time.monotonic()

    def stop(self) -> None:
        """Erase the lines and end their thread."""
        self._ended.set()
        with self.erased():
            pass
        self._thread.join(_SPIN_SECONDS * 5)

    def _run(self) -> None:
        terminal = self._terminal
        while not self._ended.wait(_SPIN_SECONDS):
            with self._lock:
                if terminal.line_open or terminal.asking or terminal.muted or self._ended.is_set():
                    continue
                lines = self._lines(time.monotonic() - self._last)
                text = "\x1b[K\n".join(lines)
                if not lines or (self._shown and text == self._drawn):
                    continue
                below = "\x1b[J" if len(lines) < self._shown else ""
                if self._draw(f"{self._back()}{text}\x1b[K{below}"):
                    self._shown, self._drawn = len(lines), text

    def _back(self) -> str:
        return f"\r\x1b[{self._shown - 1}A" if self._shown > 1 else "\r"

    def _draw(self, text: str) -> bool:
        with suppress(OSError, ValueError):
            if select.select([], [self._descriptor], [], 0)[1]:
                os.write(self._descriptor, text.encode())
                return True
        return False


class Spinner:
    """A sign that turns, and a text, once nothing was written for a moment."""

    def __init__(self, terminal: Terminal, text: str) -> None:
        self.text = text
        self._terminal = terminal
        self._signs = _SPIN if terminal.rule == "─" else "|/-\\"
        self._began = time.monotonic()

    def lines(self, silent: float) -> Sequence[str]:
        if silent < _SPIN_AFTER:
            return ()
        terminal = self._terminal
        sign = self._signs[int((time.monotonic() - self._began) / _SPIN_SECONDS) % len(self._signs)]
        text = terminal.shorten(f"{self.text} {silent:.0f} s", max(1, terminal.width - 4))
        return (f"\x1b[36m{sign}\x1b[0m \x1b[2m{clean(text)}\x1b[0m",)


class Wrapper:
    """Breaks streamed text at words. Code blocks, tables and indented lines stay as they are."""

    def __init__(self) -> None:
        self._gap = self._word = ""
        self._column = 0
        self._exact = self._fenced = False

    def feed(self, text: str, width: int) -> str:
        """Return the text up to its last word, which may not be complete."""
        out = ""
        for part in _WORDS.findall(text):
            if not part.isspace():
                self._word += part
                continue
            out += self._flush(width)
            ended, newline, rest = part.rpartition("\n")
            if newline:
                out += ended + newline
                self._column, self._exact, self._gap = 0, False, ""
            self._gap += rest
        return out

    def finish(self, width: int) -> str:
        rest = self._flush(width) + self._gap
        self._gap, self._column, self._exact, self._fenced = "", 0, False, False
        return rest

    def _flush(self, width: int) -> str:
        if not self._word:
            return ""
        (gap, word), self._gap, self._word = (self._gap, self._word), "", ""
        if not self._column:
            if word.startswith("```"):
                self._fenced = not self._fenced
                self._exact = True
            self._exact = self._exact or self._fenced or word.startswith("|") or cell_len(gap) >= _INDENTED
        size = cell_len(word)
        if self._column and not self._exact and self._column + cell_len(gap) + size > width:
            gap, self._column = "\n", 0
        else:
            self._column += cell_len(gap.expandtabs(8))
        self._column += size
        return gap + word


def wrapped(text: str, width: int, hang: str | None = None) -> str:
    """Return clean text broken at words; its own line ends stay. Continued lines begin with `hang`, or as far in as the line itself."""
    lines = []
    for line in text.split("\n"):
        margin = line[: len(line) - len(line.lstrip(" "))] if hang is None else hang
        column = 0
        broken = ""
        gap = ""
        for part in _WORDS.findall(line):
            if part.isspace():
                gap = part
                continue
            size = cell_len(part.replace("\0", ""))
            if column and column + cell_len(gap) + size > width and broken.strip():
                broken += f"\n{margin}{part}"
                column = len(margin) + size
            else:
                broken += gap + part
                column += cell_len(gap) + size
            gap = ""
        lines.append(broken + gap)
    return "\n".join(lines)
