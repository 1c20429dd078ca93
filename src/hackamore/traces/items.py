"""Page data: the items of a trace, its sessions, its token samples and its lines.

An item is one thing that happened: a prompt, a reply of the model, a tool call, a permission request. It has the numbers of the lines
that it was read from, so that no content is stored twice: a page reads inputs and results from the lines.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import Any, Final

import msgspec

LANES: Final = ("session", "model", "tools", "permissions", "hooks", "subagents", "background")
"""The lanes of the page. `session` has prompts, results and operations."""

CHUNK_BYTES: Final = 256 * 1024
"""Bytes of lines that are compressed together; a longer line is compressed alone."""

LEVEL: Final = 5
"""Of zlib: 50 MB take about a second."""

_TITLE = 240
_SCANNED = 4_000


def short(text: object, most: int = _TITLE) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(str(text)[:_SCANNED].split())
    return line if len(line) <= most else line[: most - 1] + "…"


class Item(msgspec.Struct, array_like=True, gc=False):
    """One item. It is written as an array, in this order.

    Attributes:
        session: the session, counted from 0.
        lane: the place of its lane in `LANES`.
        kind: prompt, model, tool, permission, hook, ...
        start: seconds since the start of the session.
        end: seconds; None while it is open.
        title: one line.
        outcome: how it came out, one line.
        status: `ok`, `failed`, `denied`, `open` or `note`.
        parent: the item that it belongs to, counted from 0; -1 for none.
        name: the tool, hook event or operation.
        decision: the actor that allowed or denied a tool call, and the reason.
        refs: the lines: what is on the line, its number from 0, and the place of the content block or -1.
    """

    session: int
    lane: int
    kind: str
    start: float
    end: float | None
    title: str = ""
    outcome: str = ""
    status: str = "ok"
    parent: int = -1
    name: str = ""
    decision: str = ""
    refs: list[tuple[str, int, int]] = []


class Sample(msgspec.Struct, array_like=True, gc=False):
    """The tokens of a reply, or the cost so far.

    Attributes:
        session: the session.
        at: seconds.
        item: the reply or the result.
        input: tokens that were not cached.
        output: tokens.
        cache_read: tokens.
        cache_write: tokens.
        cost: dollars of the session so far; None in a reply.
    """

    session: int
    at: float
    item: int
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None


class Stop(msgspec.Struct):
    """The reason why a session stopped.

    Attributes:
        level: `ok`, `warn`, `bad` or `open`.
        title: one sentence.
        text: the explanation.
        item: the item to jump to; -1 for none.
        evidence: facts that the reason follows from, each with its item or -1.
    """

    level: str
    title: str
    text: str
    item: int = -1
    evidence: list[tuple[str, int]] = []


class Session(msgspec.Struct):
    """One session of a trace.

    Attributes:
        name: its name.
        facts: facts that its head shows.
        rules: permission rules and modes: where they are from, and the text.
        seconds: its length.
        counts: items by kind.
        failed: items that failed or were denied.
        usage: tokens: `input`, `output`, `cache_read`, `cache_write`.
        cost: dollars, as far as they are known.
        stop: the reason why it stopped.
    """

    name: str
    facts: list[tuple[str, str]] = []
    rules: list[tuple[str, str]] = []
    seconds: float = 0.0
    counts: dict[str, int] = {}
    failed: int = 0
    usage: dict[str, int] = {}
    cost: float | None = None
    stop: Stop | None = None


class Lines:
    """The lines of a trace, compressed in chunks, and a table of them.

    Attributes:
        starts: the first line of each chunk.
        chunks: the chunks that are complete, compressed.
        labels: the different labels: the direction and the type of a line.
        table: for each line its session, its time in milliseconds, its label and its size in bytes, one after the other.
    """

    def __init__(self) -> None:
        self.starts: list[int] = [0]
        self.chunks: list[bytes] = []
        self.labels: list[tuple[str, str]] = []
        self.table: list[int] = []
        self._open: list[bytes] = []
        self._size = 0
        self._known: dict[tuple[str, str], int] = {}
        self._decoded: tuple[int, list[bytes]] | None = None

    def __len__(self) -> int:
        return len(self.table) // 4

    def add(self, line: bytes) -> int:
        """Add a line without its end; return its number. `describe` follows."""
        if self._size and self._size + len(line) > CHUNK_BYTES:
            self.close()
        self._open.append(line)
        self._size += len(line) + 1
        number = len(self)
        self.table += (0, 0, self._label("other", "line"), len(line))
        return number

    def describe(self, number: int, session: int, seconds: float, direction: str, label: str) -> None:
        """Set the facts of a line."""
        at = 4 * number
        self.table[at : at + 3] = (session, round(seconds * 1000), self._label(direction, short(label, 60)))

    def _label(self, direction: str, label: str) -> int:
        known = self._known.get((direction, label))
        if known is None:
            if len(self.labels) >= _MOST_LABELS:  # of a damaged or hostile file
                label = "other"
                if (direction, label) in self._known:
                    return self._known[direction, label]
            known = self._known[direction, label] = len(self.labels)
            self.labels.append((direction, label))
        return known

    def about(self, number: int) -> tuple[int, float, str]:
        """Return the session, the seconds since its start, and the label of a line."""
        session, milliseconds, label, _ = self.table[4 * number : 4 * number + 4]
        return session, milliseconds / 1000, self.labels[label][1]

    def close(self) -> None:
        """Complete the last chunk."""
        if self._open:
            self.chunks.append(zlib.compress(b"\n".join(self._open), LEVEL))
            self.starts.append(self.starts[-1] + len(self._open))
            self._open, self._size = [], 0

    def line(self, number: int) -> bytes:
        """Return a line."""
        place = bisect_right(self.starts, number) - 1
        if place >= len(self.chunks):
            return self._open[number - self.starts[-1]]
        if self._decoded is None or self._decoded[0] != place:
            self._decoded = place, zlib.decompress(self.chunks[place]).split(b"\n")
        return self._decoded[1][number - self.starts[place]]

    def chunk(self, number: int) -> bytes | None:
        """Return a chunk compressed, the open one as it is now; None for one that does not exist."""
        if number < len(self.chunks):
            return self.chunks[number]
        if number == len(self.chunks) and self._open:
            return zlib.compress(b"\n".join(self._open), 1)
        return None


_MOST_LABELS = 500


def as_object(value: Any, *names: str) -> dict[str, Any]:
    """Return the object at a path; an empty one if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def as_cost(value: Any) -> float | None:
    """Return an amount of dollars; None if it is something else, or more than a float holds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
        return float(value)
    return None
