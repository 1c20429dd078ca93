"""The faults: on whole frames (lost, doubled, spoilt, reordered) and on bytes as they pass (split, delayed, silent, cut)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hackamore.testing.faults.flow import Ended, FrameStage, Item, Pause, Selection, Stage, frame_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

Direction: TypeAlias = Literal["inbound", "outbound", "both"]
Matching: TypeAlias = str | Callable[[dict[str, Any]], object] | None
Nth: TypeAlias = int | Collection[int] | None
Note: TypeAlias = Callable[[str], None]


def _check_direction(direction: str) -> None:
    if direction not in ("inbound", "outbound", "both"):
        raise ValueError(f"`direction` must be 'inbound', 'outbound' or 'both', not {direction!r}")


def _described(line: bytes) -> str:
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        frame = None
    name = frame_name(frame) if isinstance(frame, dict) else "no frame"
    return f"{name}, {len(line)} bytes"


class EachFrame(FrameStage):
    """Changes the chosen frames by a function, with the probability `chance`."""

    def __init__(
        self,
        matching: Matching,
        nth: Nth,
        change: Callable[[bytes], Iterable[Item]],
        *,
        note: Note,
        done: str,
        chance: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(Selection(matching, nth))
        self._change, self._note, self._done, self._chance = change, note, done, chance

    def chosen(self, frame: bytes) -> Iterable[Item]:
        """Return what becomes of the frame."""
        if not self._chance():
            return [frame]
        self._note(f"{self._done} {_described(frame)}")
        return self._change(frame)


@dataclass(frozen=True)
class _OnFrames:
    """Shared parts of faults on chosen frames.

    Args:
        matching: a frame's name (`assistant`, `system/init`, `control_response/success`), or a function of the decoded frame; None
            for all.
        nth: the number of the frame among those, from 1, or several; None for all.
        probability: how likely each of them is hit.
        direction: which way.
    """

    matching: Matching = None
    nth: Nth = None
    probability: float = 1.0
    direction: Direction = field(default="inbound", kw_only=True)

    def __post_init__(self) -> None:
        _check_direction(self.direction)
        if not 0 <= self.probability <= 1:
            raise ValueError(f"`probability` must be from 0 to 1, not {self.probability!r}")
        if isinstance(self.nth, int) and self.nth < 1:
            raise ValueError(f"`nth` counts from 1, not {self.nth!r}")

    def _frames(self, random: Random, note: Note, done: str, change: Callable[[bytes], Iterable[Item]]) -> Stage:
        def chance() -> bool:
            return self.probability >= 1 or random.random() < self.probability

        return EachFrame(self.matching, self.nth, change, note=note, done=done, chance=chance)


@dataclass(frozen=True)
class Drop(_OnFrames):
    """Loses frames. Arguments: `matching`, `nth`, `probability`, `direction`."""

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        return self._frames(random, note, "dropped", lambda frame: [])


@dataclass(frozen=True)
class Duplicate(_OnFrames):
    """Delivers frames twice. Arguments: `matching`, `nth`, `probability`, `direction`."""

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        return self._frames(random, note, "duplicated", lambda frame: [frame, frame])


@dataclass(frozen=True)
class Corrupt(_OnFrames):
    """Spoils frames; line ends stay.

    Args:
        how: `cut` leaves the first half, `byte` changes one byte at random, `utf8` puts a byte in that is not UTF-8, `noise` puts a line
            of a program's log before the frame.
        matching, nth, probability, direction: which.
    """

    how: Literal["cut", "byte", "utf8", "noise"] = field(default="cut", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how not in ("cut", "byte", "utf8", "noise"):
            raise ValueError(f"`how` must be 'cut', 'byte', 'utf8' or 'noise', not {self.how!r}")

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""

        def spoil(frame: bytes) -> Iterable[Item]:
            line = frame[:-1]
            middle = len(line) // 2
            match self.how:
                case "cut":
                    return [line[:middle] + b"\n"]
                case "utf8":
                    return [line[:middle] + b"\xff" + line[middle:] + b"\n"]
                case "noise":
                    return [b"[warn] something unrelated happened\n", frame]
            if not line:
                return [frame]
            at = random.randrange(len(line))
            other = random.choice([value for value in range(256) if value not in (line[at], 0x0A)])
            return [line[:at] + bytes([other]) + line[at + 1 :] + b"\n"]

        return self._frames(random, note, f"corrupted ({self.how})", spoil)


@dataclass(frozen=True)
class Insert(_OnFrames):
    """Puts something in that the peer never wrote, before chosen frames.

    Args:
        data: a line, or a frame as a dict; a line end is added if there is none.
        matching, nth, probability, direction: before which frames; the first one by default.
    """

    nth: Nth = 1
    data: bytes | Mapping[str, Any] = field(default=b"", kw_only=True)

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        line = self.data if isinstance(self.data, bytes) else json.dumps(self.data, separators=(",", ":")).encode()
        line = line if line.endswith(b"\n") else line + b"\n"
        return self._frames(random, note, "inserted a line before", lambda frame: [line, frame])


@dataclass(frozen=True)
class Reorder(_OnFrames):
    """Lets frames change places with the one after them. Arguments: `matching`, `nth`, `probability`, `direction`."""

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        return _ReorderStage(self, random, note)


class _ReorderStage(FrameStage):
    def __init__(self, fault: Reorder, random: Random, note: Note) -> None:
        super().__init__(Selection(fault.matching, fault.nth))
        self._fault, self._random, self._note = fault, random, note
        self._late: bytes | None = None

    def chosen(self, frame: bytes) -> Iterable[Item]:
        if self._late is not None or self._random.random() >= self._fault.probability:
            return self.passing(frame)
        self._note(f"put behind the next one: {_described(frame)}")
        self._late = frame
        return []

    def passing(self, frame: bytes) -> Iterable[Item]:
        late, self._late = self._late, None
        return [frame] if late is None else [frame, late]

    def held(self) -> Iterable[Item]:
        late, self._late = self._late, None
        return [] if late is None else [late]


def _check_seconds(name: str, seconds: float) -> None:
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
        _check_direction(self.direction)
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
        matching, nth: which frames; by default the data of each read or write instead of frames.
        direction: which way.
    """

    seconds: float
    jitter: float = 0.0
    matching: Matching = None
    nth: Nth = None
    direction: Direction = "both"

    def __post_init__(self) -> None:
        _check_direction(self.direction)
        _check_seconds("seconds", self.seconds)
        _check_seconds("jitter", self.jitter)

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""

        def pause() -> Pause:
            return Pause(self.seconds + (random.uniform(0, self.jitter) if self.jitter else 0.0))

        if self.matching is None and self.nth is None:
            return _EachPiece(lambda data: [pause(), data])
        return EachFrame(self.matching, self.nth, lambda frame: [pause(), frame], note=note, done="delayed")


class _EachPiece(Stage):
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
        exit_code: the apparent exit code of the CLI, negative for a signal; None if it lives on.
        direction: `inbound` or `outbound`.
    """

    after: int | None = None
    matching: Matching = None
    nth: int | None = None
    exit_code: int | None = None
    direction: Literal["inbound", "outbound"] = "inbound"

    def __post_init__(self) -> None:
        _check_direction(self.direction)
        by_frame = self.matching is not None or self.nth is not None
        if (self.after is None) != by_frame:
            raise ValueError("`Cut` takes either `after` (bytes) or a frame (`matching`, `nth`)")
        if self.after is not None and self.after < 0:
            raise ValueError(f"`after` must be a number of bytes, not {self.after!r}")
        if self.exit_code is not None and self.direction == "outbound":
            raise ValueError("`exit_code` is for the direction inbound: it comes with the end of the output")

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
        _check_direction(self.direction)

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        for_ever = Pause(math.inf)
        if self.matching is None and self.nth is None:
            return _SilentStage(self.after, for_ever, note, "fell silent")
        return EachFrame(self.matching, self.nth or 1, lambda frame: [for_ever, frame], note=note, done="silent before")


class _SilentStage(_LimitStage):
    """Also holds back the end."""

    def finish(self) -> Iterable[Item]:
        return [] if self._hit or self._left else [self._then]


@dataclass(frozen=True)
class SlowReader:
    """The CLI reads slowly: a piece, then a pause. Writing must not wait for it.

    Args:
        size: bytes of a piece.
        seconds: the pause before each.
        direction: `outbound`; `inbound` makes the host the slow one.
    """

    size: int = 1024
    seconds: float = 0.01
    direction: Direction = "outbound"

    def __post_init__(self) -> None:
        _check_direction(self.direction)
        _check_seconds("seconds", self.seconds)
        if self.size < 1:
            raise ValueError(f"`size` must be a number of bytes from 1 on, not {self.size!r}")

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""

        def pieces(data: bytes) -> Iterable[Item]:
            for at in range(0, len(data), self.size):
                yield Pause(self.seconds)
                yield data[at : at + self.size]

        return _EachPiece(pieces)


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
