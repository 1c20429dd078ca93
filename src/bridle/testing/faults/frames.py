"""Faults on whole frames: lost, doubled, spoilt, late, in another order, or never written by anybody."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bridle.testing.faults.flow import FrameStage, Item, Selection, Stage, frame_name

if TYPE_CHECKING:
    from random import Random

__all__ = [
    "Corrupt",
    "Direction",
    "Drop",
    "Duplicate",
    "EachFrame",
    "Insert",
    "Matching",
    "Note",
    "Nth",
    "Reorder",
    "check_direction",
]

Direction: TypeAlias = Literal["inbound", "outbound", "both"]
Matching: TypeAlias = str | Callable[[dict[str, Any]], object] | None
Nth: TypeAlias = int | Collection[int] | None
Note: TypeAlias = Callable[[str], None]


def check_direction(direction: str) -> None:
    """Do nothing if this is a direction.

    Raises:
        ValueError: it is none.
    """
    if direction not in ("inbound", "outbound", "both"):
        raise ValueError(f"`direction` must be 'inbound', 'outbound' or 'both', not {direction!r}")


def described(line: bytes) -> str:
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        frame = None
    name = frame_name(frame) if isinstance(frame, dict) else "no frame"
    return f"{name}, {len(line)} bytes"


class EachFrame(FrameStage):
    """Changes the chosen frames by a function, where `chance` says so."""

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
        self._note(f"{self._done} {described(frame)}")
        return self._change(frame)


@dataclass(frozen=True)
class _OnFrames:
    """What faults on chosen frames share.

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
        check_direction(self.direction)
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
        how: `cut` leaves the first half, `byte` changes one byte at random, `utf8` puts a byte in that is no UTF-8, `noise` puts a line
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
        self._note(f"put behind the next one: {described(frame)}")
        self._late = frame
        return []

    def passing(self, frame: bytes) -> Iterable[Item]:
        late, self._late = self._late, None
        return [frame] if late is None else [frame, late]

    def held(self) -> Iterable[Item]:
        late, self._late = self._late, None
        return [] if late is None else [late]
