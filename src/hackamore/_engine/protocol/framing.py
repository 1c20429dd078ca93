"""Bytes into lines: the framing of the CLI's stdout.

Rules. Lines end with the byte 0x0A and with nothing else; one 0x0D before it belongs to the line end. Text is not decoded here, so a
character may be cut anywhere. A line may have `limit` bytes; one that has more is reported once, as soon as that is known, and its
remainder is passed over. Whole lines of one read are split in one step; a line that spans reads is joined once, so that a 50 MB
line costs two copies and not one for each read.
"""

from __future__ import annotations

from typing import NamedTuple

_HEAD_BYTES = 8 * 1024  # more than is shown: a secret at the end of what is shown is known by all of it
_SAMPLE_BYTES = 4_096
_SHORT_LINES = 5  # more in the sample: lines are below 700 bytes, and `split` is faster
_RETURN = ord("\r")


class OversizedLine(NamedTuple):
    """Stands in for a line that is longer than the limit."""

    size: int
    head: bytes


class LineFramer:
    """Splits a byte stream into lines of at most `limit` bytes, the line end not counted."""

    __slots__ = ("_limit", "_parts", "_skipping", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self.size: int = 0
        self._skipping = False

    def receive_data(self, data: bytes) -> list[bytes | OversizedLine]:
        """Return the lines that `data` completes, without their line ends; blank ones are left out."""
        end = data.find(b"\n")
        if 0 < end == len(data) - 1 <= self._limit and data[end - 1] != _RETURN and not (self.size or self._skipping):
            return [data[:end]]  # one whole line, as nearly always where each read has one message
        lines: list[bytes | OversizedLine]
        lines = _split(data)  # type: ignore[assignment]
        tail: bytes = lines.pop()  # type: ignore[assignment]
        carriage_returns = b"\r" in data
        longest = len(data)  # no line is longer than its read: mostly this spares a look at each
        if lines and (self.size or self._skipping):
            if self._skipping:
                self._skipping = False
                del lines[0]
            else:
                self._parts.append(lines[0])  # type: ignore[arg-type]
                first = b"".join(self._parts)
                lines[0] = first
                # The read before may end between CR and LF.
                carriage_returns = carriage_returns or first.endswith(b"\r")
                longest = max(longest, len(first))
            self._parts.clear()
            self.size = 0
        if carriage_returns:
            lines = [line[:-1] if line.endswith(b"\r") else line for line in lines if type(line) is bytes]
        if b"" in lines:
            lines = [line for line in lines if line]
        if longest > self._limit:
            lines = [
                OversizedLine(len(line), line[:_HEAD_BYTES])
                if type(line) is bytes and len(line) > self._limit
                else line
                for line in lines
            ]
        if tail:
            self._keep(tail, lines)
        return lines

    def receive_eof(self) -> bytes | OversizedLine | None:
        """Return what is left without a line end, if anything is."""
        tail = b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        self._skipping = False
        if tail.endswith(b"\r"):
            tail = tail[:-1]
        return tail if tail.strip() else None

    def _keep(self, tail: bytes, done: list[bytes | OversizedLine]) -> None:
        if self._skipping or not tail:
            return
        self._parts.append(tail)
        self.size += len(tail)
        # One byte more may still turn out to be the carriage return of the line end.
        if self.size > self._limit + 1 or (self.size == self._limit + 1 and not tail.endswith(b"\r")):
            done.append(OversizedLine(self.size, b"".join(self._parts)[:_HEAD_BYTES]))
            self._parts.clear()
            self.size = 0
            self._skipping = True


def _split(data: bytes) -> list[bytes]:
    """Do what `data.split(b"\\n")` does. It looks at one byte after the other; with long lines a search for the next end is faster."""
    if data.count(b"\n", 0, _SAMPLE_BYTES) > _SHORT_LINES:
        return data.split(b"\n")
    lines = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        lines.append(data[start:end])
        start = end + 1
    lines.append(data[start:] if start else data)
    return lines
