"""Faults on bytes as they pass: split, delayed, slow, stalled, silent, cut."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bridle.testing.faults.flow import Ended, Item, Pause, Stage
from bridle.testing.faults.frames import Direction, EachFrame, Matching, Note, Nth, check_direction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from random import Random

__all__ = ["Cut", "Delay", "Silence", "SlowReader", "Split", "StalledWriter"]


def check_seconds(name: str, seconds: float) -> None:
    if not seconds >= 0:
        raise ValueError(f"`{name}` must be 0 or more seconds, not {seconds!r}")


@dataclass(frozen=True)
class Split:
    """Cuts what is read and written into pieces.

    Args:
        sizes: bytes of each piece: one number, several in turn, or None for random sizes.
        most: the largest random size.
        direction: which way.
    """

    sizes: int | Collection[int] | None = 1
    most: int = 64
    direction: Direction = "both"

    def __post_init__(self) -> None:
        check_direction(self.direction)
        sizes = [self.most] if self.sizes is None else [self.sizes] if isinstance(self.sizes, int) else [*self.sizes]
        if not sizes or min(sizes) < 1:
            raise ValueError("`sizes` must be numbers of bytes from 1 on")

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        return _SplitStage(self, random)


class _SplitStage(Stage):
    def __init__(self, fault: Split, random: Random) -> None:
        super().__init__()
        self._sizes = None if fault.sizes is None else [fault.sizes] if isinstance(fault.sizes, int) else [*fault.sizes]
        self._most, self._random, self._number = fault.most, random, 0
        self._left = self._next_size()

    def _next_size(self) -> int:
        if self._sizes is None:
            return self._random.randint(1, self._most)
        self._number += 1
        return self._sizes[(self._number - 1) % len(self._sizes)]

    def feed(self, data: bytes) -> Iterable[Item]:
        at = 0
        while at < len(data):
            # Borders lie at the same places of the stream, however it is read.
            size = min(self._left, len(data) - at)
            yield data[at : at + size]
            at += size
            self._left -= size
            if not self._left:
                self._left = self._next_size()


@dataclass(frozen=True)
class Delay:
    """Lets each read and each write wait, or only chosen frames.

    Args:
        seconds: for how long.
        jitter: up to this many seconds more, at random.
        matching, nth: which frames; by default not frames but whatever one read or write brings.
        direction: which way.
    """

    seconds: float
    jitter: float = 0.0
    matching: Matching = None
    nth: Nth = None
    direction: Direction = "both"

    def __post_init__(self) -> None:
        check_direction(self.direction)
        check_seconds("seconds", self.seconds)
        check_seconds("jitter", self.jitter)

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""

        def pause() -> Pause:
            return Pause(self.seconds + (random.uniform(0, self.jitter) if self.jitter else 0.0))

        if self.matching is None and self.nth is None:
            return EachPiece(lambda data: [pause(), data])
        return EachFrame(self.matching, self.nth, lambda frame: [pause(), frame], note=note, done="delayed")


class EachPiece(Stage):
    def __init__(self, change: Callable[[bytes], Iterable[Item]]) -> None:
        super().__init__()
        self._change = change

    def feed(self, data: bytes) -> Iterable[Item]:
        return self._change(data)


@dataclass(frozen=True)
class Cut:
    """Ends a direction early: what was under way is lost.

    Inbound, the output ends there; with an exit code the CLI seems to have died (it is stopped for real when the transport is). Outbound,
    the CLI sees the end of its input.

    Args:
        after: so many bytes pass.
        matching, nth: or: the first half of this frame passes, and nothing more; by default of the first that matches.
        exit_code: what the CLI seems to have exited with, negative for a signal; None if it lives on.
        direction: `inbound` or `outbound`.
    """

    after: int | None = None
    matching: Matching = None
    nth: int | None = None
    exit_code: int | None = None
    direction: Literal["inbound", "outbound"] = "inbound"

    def __post_init__(self) -> None:
        check_direction(self.direction)
        by_frame = self.matching is not None or self.nth is not None
        if (self.after is None) != by_frame:
            raise ValueError("`Cut` takes either `after` (bytes) or a frame (`matching`, `nth`)")
        if self.after is not None and self.after < 0:
            raise ValueError(f"`after` must be a number of bytes, not {self.after!r}")
        if self.exit_code is not None and self.direction == "outbound":
            raise ValueError("`exit_code` is for the direction inbound: it is told with the end of the output")

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        end = Ended(cut=True, exit_code=self.exit_code)
        if self.after is not None:
            return _LimitStage(self.after, end, note, "cut")
        return EachFrame(
            self.matching,
            self.nth or 1,
            lambda frame: [frame[: len(frame) // 2], end],
            note=note,
            done="cut in the middle:",
        )


class _LimitStage(Stage):
    """Lets so many bytes pass, and then something else."""

    def __init__(self, after: int, then: Item, note: Note, done: str) -> None:
        super().__init__()
        self._left, self._then, self._note, self._done = after, then, note, done
        self._hit = False

    def feed(self, data: bytes) -> Iterable[Item]:
        if len(data) <= self._left and not self._hit:
            self._left -= len(data)
            return [data]
        items: list[Item] = [data[: self._left], self._then, data[self._left :]]
        if not self._hit:
            self._hit = True
            self._note(f"{self._done} in the middle of a read or write of {len(data)} bytes")
            self._left = 0
            return items
        return [data]


@dataclass(frozen=True)
class Silence:
    """After so many bytes, or a frame, nothing more arrives, not even the end; the CLI lives on.

    Args:
        after: so many bytes pass. 0 by default.
        matching, nth: or: everything before this frame passes.
        direction: which way.
    """

    after: int = 0
    matching: Matching = None
    nth: int | None = None
    direction: Direction = "inbound"

    def __post_init__(self) -> None:
        check_direction(self.direction)

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        for_ever = Pause(math.inf)
        if self.matching is None and self.nth is None:
            return _SilentStage(self.after, for_ever, note, "fell silent")
        return EachFrame(self.matching, self.nth or 1, lambda frame: [for_ever, frame], note=note, done="silent before")


class _SilentStage(_LimitStage):
    """Holds back the end, too."""

    def finish(self) -> Iterable[Item]:
        return [] if self._hit or self._left else [self._then]


@dataclass(frozen=True)
class SlowReader:
    """The CLI reads slowly: a piece, then a pause. Writing must not wait for it.

    Args:
        size: bytes of a piece.
        seconds: the pause before each.
        direction: `outbound`; `inbound` makes us the slow one.
    """

    size: int = 1024
    seconds: float = 0.01
    direction: Direction = "outbound"

    def __post_init__(self) -> None:
        check_direction(self.direction)
        check_seconds("seconds", self.seconds)
        if self.size < 1:
            raise ValueError(f"`size` must be a number of bytes from 1 on, not {self.size!r}")

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""

        def pieces(data: bytes) -> Iterable[Item]:
            for at in range(0, len(data), self.size):
                yield Pause(self.seconds)
                yield data[at : at + self.size]

        return EachPiece(pieces)


@dataclass(frozen=True)
class StalledWriter:
    """The CLI stops reading: what is written after `after` bytes never reaches it, and neither does the end of its input."""

    after: int = 0

    @property
    def direction(self) -> Direction:
        """Outbound."""
        return "outbound"

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        return Silence(self.after, direction="outbound").stage(random, note)
