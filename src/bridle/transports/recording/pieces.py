"""Replies of the model that come in pieces, on their way into a recording: what is to be taken out may stand in several of them.

Deltas of one block wait until so much text is behind them that nothing which begins in them can go on. If their text as a whole holds
what each alone does not show, it goes into the first of them without that, and the others become empty; else they stay as they came.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pieces"]

_SIGN = b'"content_block_delta"'
_SYSTEM = b'{"type":"system"'
_TEXTS = ("text", "thinking", "partial_json")
_ENOUGH = 256
"""Characters that are waited for before anything is looked at, and again between two looks."""
_MOST = 4_096
"""Characters that are waited for at most."""
_WORDS = 5
"""A name, a sign, a scheme and a value may be words of their own; the last one may go on."""


class _Piece(NamedTuple):
    line: bytes
    seconds: float
    block: tuple[Any, ...] | None
    name: str
    text: str


class Pieces:
    """Lines of the CLI that wait, in order.

    Args:
        redact: returns a text without what does not belong into a recording.
        keep: takes a line, and the moment at which it came.
    """

    def __init__(self, redact: Callable[[str], str], keep: Callable[[bytes, float], None]) -> None:
        self._redact = redact
        self._keep = keep
        self._waiting: list[_Piece] = []
        self._length = 0
        self._next_look = _ENOUGH

    def take(self, line: bytes, seconds: float) -> bool:
        """Take a line of the CLI if it has to wait; return False if it is none of those."""
        piece = _piece(line, seconds)
        if piece is None:
            # What the CLI tells about itself may stand between two pieces.
            if not (self._waiting and line.startswith(_SYSTEM)):
                return False
            piece = _Piece(line, seconds, None, "", "")
        elif self._block not in (None, piece.block):
            self.flush()
        self._waiting.append(piece)
        self._length += len(piece.text)
        if self._length >= self._next_look:
            self._write_what_is_over()
            self._next_look = self._length + _ENOUGH
        return True

    def flush(self) -> None:
        """Write everything: nothing more comes, or something else does."""
        waiting, self._waiting = self._waiting, []
        self._length, self._next_look = 0, _ENOUGH
        self._write(waiting)

    @property
    def _block(self) -> tuple[Any, ...] | None:
        return next((piece.block for piece in self._waiting if piece.block is not None), None)

    def _write_what_is_over(self) -> None:
        whole = "".join(piece.text for piece in self._waiting)
        beginning = max(0, len(whole) - _MOST)
        words = whole[beginning:].rsplit(maxsplit=_WORDS)
        over = beginning + (len(words[0]) if len(words) > _WORDS else 0)
        told = whole.rstrip()[: -len(words[-1])] if len(words) > _WORDS else whole  # the last word may go on
        count = length = reached = 0
        for number, piece in enumerate(self._waiting, 1):
            reached += len(piece.text)
            if reached > over:
                break
            if beginning or whole[reached - 1 : reached + 1].strip() != whole[reached - 1 : reached + 1]:
                count, length = number, reached
        clean = self._redact(told)
        if not length or (clean != told and self._redact(told[:length]) + self._redact(told[length:]) != clean):
            return
        done, self._waiting = self._waiting[:count], self._waiting[count:]
        self._length -= length
        self._write(done)

    def _write(self, pieces: list[_Piece]) -> None:
        texts = [piece.text for piece in pieces]
        clean = self._redact("".join(texts)) if len(texts) > 1 else ""
        split = len(texts) > 1 and clean != "".join(map(self._redact, texts))
        for piece in pieces:
            if split and piece.block is not None:
                self._keep(_with_text(piece, clean), piece.seconds)
                clean = ""
            else:
                self._keep(piece.line, piece.seconds)


def _piece(line: bytes, seconds: float) -> _Piece | None:
    """Return a piece of a block, or None if the line is something else."""
    if _SIGN not in line:
        return None
    try:
        frame = json.loads(line)
        event = frame["event"]
        delta = event["delta"]
        if frame["type"] != "stream_event" or event["type"] != "content_block_delta":
            return None
        for name in _TEXTS:
            if isinstance(text := delta.get(name), str):
                block = (frame.get("session_id"), frame.get("parent_tool_use_id"), event.get("index"), name)
                return _Piece(line, seconds, block, name, text)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        pass
    return None


def _with_text(piece: _Piece, text: str) -> bytes:
    frame = json.loads(piece.line)
    frame["event"]["delta"][piece.name] = text
    return json.dumps(frame, separators=(",", ":")).encode()
