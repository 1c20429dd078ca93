"""Bytes into lines, and lines into frames: the framing of the CLI's stdout. Damaged lines and those that are too long are judged.

Rules. Lines end with the byte 0x0A and with nothing else; one 0x0D before it belongs to the line end. Text is not decoded here, so a
character may be cut anywhere. A line may have `limit` bytes; one that has more is reported once, as soon as that is known, and its
remainder is passed over. Whole lines of one read are split in one step; a line that spans reads is joined once, so that a 50 MB
line costs two copies and not one for each read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hackamore._engine.protocol import events
from hackamore._engine.protocol.diagnostics import line_skipped
from hackamore.errors import DecodeError, DecodeErrorLimitError
from hackamore.messages import MESSAGE_TYPES, Frame, Message, decode
from hackamore.messages.decode import CONTROL_TYPES, decode_all, decode_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hackamore._engine.protocol.turns import TurnTable
    from hackamore.errors import StreamWarning
    from hackamore.options.bounds import Limits

_MANY_LINES = 8  # a token at a time brings one line: decoding in steps is for reads that have many
_SHOWN_HEAD_BYTES = 200  # of the 8 KiB that the framer keeps, which are masked first
_DECODED_ONCE = frozenset((*MESSAGE_TYPES.values(), *CONTROL_TYPES.values()))
"""Frames that need no second look: the first one does not recognise a `system` frame."""

Found: TypeAlias = "Frame | events.Event | DecodeErrorLimitError"
"""A frame, an event about a line, or the error that too many bad lines are."""

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


class FrameReader:
    """Reads the frames of one side of a connection; an ordinary frame may name one of the prompts `turns`.

    `warn` is called for each field that was left out, and for each line that is skipped. `plain` are the messages that come in lists, and
    those of them that name no prompt. `fail_on_bad_lines` is as for `Connection`.
    """

    def __init__(
        self,
        limits: Limits,
        turns: TurnTable,
        warn: Callable[[StreamWarning], object],
        plain: tuple[frozenset[type[Frame]], frozenset[type[Frame]]],
        *,
        fail_on_bad_lines: bool,
    ) -> None:
        # takes secrets out of a line that is not of the protocol, for errors and warnings. The host sets it for its launch.
        self.mask: Callable[[bytes], bytes] = bytes
        self.received: bool = False  # True once any byte has come
        self.last_bad_line: bytes | None = None
        self._limits = limits
        self._turns = turns
        self._warn = warn
        self._fails_on_bad_lines = fail_on_bad_lines
        self._framer = LineFramer(limits.line_bytes)
        self._always_plain, self._plain_and_nameless = plain
        self._floods = False  # True after a read with plain messages alone: the next one is likely to have no others
        self._bad_lines = 0

    def receive_data(self, data: bytes) -> Iterable[list[Message] | Found]:
        """Return what bytes bring, plain messages in lists. Apply each before the next is taken: it may name the prompt."""
        self.received = True
        lines = self._framer.receive_data(data)
        plain = self._plain_and_nameless if self._turns.prompt_is_unknown else self._always_plain
        # One other frame among them, and `decode_all` has worked for nothing: hence `_floods`.
        if self._floods and len(lines) >= _MANY_LINES and (messages := decode_all(lines, plain)):
            self._bad_lines = 0
            return (messages,)
        run: list[Message] = []
        rest = iter(lines)
        _, line = decode_run(rest, plain, run.append, _DECODED_ONCE)
        if run:
            self._bad_lines = 0
        self._floods = line is None
        if line is None:  # nearly always: a generator would cost as much as all else but decoding
            return (run,) if run else ()
        if len(lines) == 1 and isinstance(line, Frame):
            self._bad_lines = 0
            return (line,)
        return self._closely(run, line, rest)

    def _closely(
        self, run: list[Message], line: Any, rest: Iterator[bytes | OversizedLine]
    ) -> Iterator[list[Message] | Found]:
        """Yield what was read, with lines that need a closer look: `line` is the first one."""
        while True:
            if run:
                self._bad_lines = 0
                yield run
            if line is None:
                return
            if line.__class__ is bytes:
                try:
                    frame = decode(line, self._warn)
                except DecodeError as error:
                    if not line.isspace():  # an empty line with blanks in it is not a damaged frame
                        yield from self._bad_line(error)
                else:
                    self._bad_lines = 0
                    yield frame
            elif line.__class__ is OversizedLine:
                yield from self._long_line(line)
            else:
                self._bad_lines = 0
                yield line
            # The frame may have named the prompt, or shown that the CLI reports on prompts.
            plain = self._plain_and_nameless if self._turns.prompt_is_unknown else self._always_plain
            run = []
            _, line = decode_run(rest, plain, run.append, _DECODED_ONCE)

    def receive_eof(self) -> Iterator[Found]:
        """Yield what is left of a last line without its end."""
        tail = self._framer.receive_eof()
        # A line that is too long was reported as soon as it was.
        if isinstance(tail, bytes):
            try:
                frame = decode(tail, self._warn)
            except DecodeError:  # a killed CLI stops in the middle of a line: it does not count as a bad one
                self.last_bad_line = tail = self.mask(tail)
                yield events.IncompleteLine(tail)
            else:
                yield frame

    def _long_line(self, line: OversizedLine) -> Iterator[Found]:
        head = self.mask(line.head)[:_SHOWN_HEAD_BYTES]  # a secret that a cut divides would not be recognised
        if self._fails_on_bad_lines:
            self._warn(line_skipped(line.size, head, self._limits.line_bytes))
        else:
            yield events.LongLine(line.size, head)

    def _bad_line(self, error: DecodeError) -> Iterator[Found]:
        self._bad_lines += 1
        self.last_bad_line = error.line = self.mask(error.line)
        # The error below it and the frames between hold the line as it came. `tblib` pickles them, reporters of errors send them.
        error.__context__ = error.__traceback__ = None
        yield events.BadLine(error, self._bad_lines)
        if self._fails_on_bad_lines and self._bad_lines >= self._limits.consecutive_decode_errors:
            yield DecodeErrorLimitError(self._bad_lines, error)
