"""The terminal: everything that is printed goes through here, and nothing reaches it that could steer it.

Model output, tool results, file names and errors are data. Control characters, escape sequences and what changes the direction of text
are shown as `\\x1b` or `\\u202e`; newlines and tabs are kept. Rich is only asked to colour: its markup is never interpreted.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["Cleaner", "Terminal", "clean", "escape_json", "one_line"]

# C0 without tab and newline, DEL, C1; characters without a width that hide or reorder what is around them (soft hyphen, direction
# marks and overrides, zero-width spaces, invisible operators, annotations, tags); separators that some programs take for a newline;
# surrogates. ZWNJ, ZWJ and variation selectors stay: scripts and emoji need them.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HELD = ("\r", *map(chr, range(0xD800, 0xDC00)))
_PLAIN_WIDTH = 160


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_for_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def clean(text: str) -> str:
    """Return `text` safe for a terminal, its newlines and tabs kept; CR LF counts as a newline."""
    text = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: object) -> str:
    """Return the text of a value, safe for a terminal and on one line."""
    return clean(str(text)).replace("\n", " ")


def escape_json(text: str) -> str:
    """Return JSON that means the same and is safe for a terminal; it may have several lines."""
    return _UNSAFE.sub(_escape_for_json, text)


class Cleaner:
    """Cleans a text that comes in pieces: what belongs together and was cut apart is put together again."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what can be shown by now."""
        text = self._held + piece
        self._held = text[-1] if text.endswith(_HELD) else ""
        return clean(text.removesuffix(self._held))

    def finish(self) -> str:
        """Return what was held back; begin anew."""
        held, self._held = self._held, ""
        return clean(held)


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        # Rich would end the process here and leave the CLI to itself.
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


class Terminal:
    """Standard output and standard error, for text that cannot be trusted.

    Attributes:
        interactive: True if standard output is a terminal.
        styled: True if it shows colours.
        asking: True while a question of `ask` is the last text on it.
        writing: True in the middle of a write, which may block.
        muted: True writes nothing.
    """

    def __init__(self) -> None:
        for file in (sys.stdout, sys.stderr):
            # With an odd encoding a character may be lost to an escape, but never a run to an exception.
            if hasattr(file, "reconfigure"):
                file.reconfigure(errors="backslashreplace")
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)
        self._cleaner = Cleaner()
        self._line_open = False
        self.interactive = sys.stdout.isatty()
        self.styled = self._out.color_system is not None
        self.asking = self.writing = self.muted = False
        fancy = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
        self.bullet, self.corner, self.cross, self.tick = ("●", "⎿", "✗", "✓") if fancy else ("*", "|", "x", "ok")
        self.ellipsis, self.dot, self.rule = ("…", " · ", "─") if fancy else ("...", " - ", "-")

    @property
    def width(self) -> int:
        """Columns that a line may have."""
        return self._out.width if self.interactive else _PLAIN_WIDTH

    def shorten(self, line: str, width: int) -> str:
        """Return a line of at most `width` columns."""
        wide = line.expandtabs(8)
        if cell_len(wide) <= width:
            return line
        return set_cell_size(wide, max(1, width - len(self.ellipsis))).rstrip() + self.ellipsis

    def piece(self, text: str, style: str = "") -> None:
        """Write a piece of a text that goes on with the next piece."""
        shown = self._cleaner.feed(text)
        if shown:
            self._put(shown, style)

    def write(self, text: str, style: str = "") -> None:
        """Write text as it is, cleaned, with nothing after it."""
        self._finish_piece()
        if text:
            self._put(clean(text), style)

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line, on a line of its own."""
        self.fresh_line()
        self._put(clean(text), style)
        self._put("\n")

    def parts(self, *parts: tuple[str, str]) -> None:
        """Write pieces of text, each with its style, and end the line."""
        for text, style in parts:
            self.write(text, style)
        self.write("\n")

    def json(self, value: Any) -> None:
        """Write a value as JSON of several lines."""
        self.line(escape_json(json.dumps(value, indent=2, ensure_ascii=False)))

    def fresh_line(self) -> None:
        """End the line if one was begun."""
        self._finish_piece()
        if self._line_open:
            self._put("\n")

    def ask(self, text: str, style: str = "bold") -> None:
        """Write what somebody is to answer, on a line of its own that stays open."""
        self.fresh_line()
        self._put(clean(text), style)
        self.asking = True

    def answered(self) -> None:
        """Take that somebody ended the line."""
        self._line_open = self.asking = False

    def disturbed(self) -> None:
        """Take that the terminal itself has written, as it does for Ctrl-C."""
        self._line_open = True

    def note(self, text: str, style: str = "") -> None:
        """Write a line to standard error."""
        self.fresh_line()
        self._print(self._err, [Segment(clean(text), _style(style)), Segment("\n")])

    def error(self, text: str) -> None:
        """Write an error to standard error."""
        self.note(f"error: {text}", "red")

    def warning(self, text: str) -> None:
        """Write a warning to standard error."""
        self.note(f"warning: {text}", "yellow")

    def raw_line(self, line: bytes) -> None:
        """Write one line of JSON: its exact bytes, or what means the same if it goes to a terminal."""
        if self.interactive:
            line = escape_json(line.decode("utf-8", "replace")).encode()
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def _finish_piece(self) -> None:
        held = self._cleaner.finish()
        if held:
            self._put(held)

    def _put(self, safe: str, style: str = "") -> None:
        if safe:
            self._print(self._out, [Segment(safe, _style(style))])
            self._line_open = not safe.endswith("\n")

    def _print(self, console: Console, segments: list[Segment]) -> None:
        self.asking = False
        self.writing = True
        try:
            if not self.muted:  # asked only now: a signal comes either before that, or while `writing` says so
                console.print(Segments(segments), end="", soft_wrap=True)
        finally:
            self.writing = False


def _style(style: str) -> Style | None:
    return Style.parse(style) if style else None
