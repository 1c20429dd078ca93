"""Effects of faults on a stream of bytes, without waiting: one `Flow` for each direction of a connection.

A flow is a row of stages. Bytes go in as they are read or sent; out come bytes, pauses and ends, in order. The
transports in `wrappers.py` own the clock and take what is due.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


READ_AHEAD_BYTES = 262_144
"""So much is read of a peer whose output is held back."""
LOOK_SECONDS = 0.02
"""How often something is looked for that nothing wakes for: this is for tests, and a descriptor for each pause would be too much."""


class Pause(NamedTuple):
    """Nothing more for this many seconds; infinity for ever."""

    seconds: float


class Ended(NamedTuple):
    """The end of a direction.

    Attributes:
        cut: True if a fault made it.
        exit_code: the apparent exit code of the peer; None if the fault concerns no exit.
    """

    cut: bool = False
    exit_code: int | None = None


Item = bytes | Pause | Ended


class Stage:
    """One fault in one direction. Subclasses say what becomes of bytes (`feed`) and what was held back (`finish`)."""

    def __init__(self) -> None:
        self._over = False

    def accept(self, item: Item) -> list[Item]:
        """Return what comes out for what went in; nothing after an end."""
        if self._over:
            return []
        match item:
            case Pause():
                items: list[Item] = [item]
            case Ended():
                items = [*self.finish(), item]
            case _:
                items = list(self.feed(item))
        for number, out in enumerate(items):
            if isinstance(out, Ended):
                self._over = True
                return items[: number + 1]
        return items

    def feed(self, data: bytes) -> Iterable[Item]:
        """Return what becomes of `data`."""
        return [data]

    def finish(self) -> Iterable[Item]:
        """Return what was held back, at the end."""
        return []


class Selection:
    """Which frames a fault is for.

    Args:
        matching: a frame's name (`assistant`, `system/init`, `control_request/can_use_tool`), or a function of the decoded
            frame; None for all.
        nth: the number of the frame among those, from 1, or several numbers; None for all.
    """

    def __init__(
        self, matching: str | Callable[[dict[str, Any]], object] | None, nth: int | Collection[int] | None
    ) -> None:
        self._matching = matching
        self._numbers = None if nth is None else frozenset([nth] if isinstance(nth, int) else nth)
        self._count = 0

    def chooses(self, line: bytes) -> bool:
        """Return whether this frame, the next one, is chosen. A line that is not a JSON object has no name and no fields."""
        if self._matching is not None and not self._matches(line):
            return False
        self._count += 1
        return self._numbers is None or self._count in self._numbers

    def _matches(self, line: bytes) -> bool:
        try:
            frame = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(frame, dict):
            return False
        if isinstance(self._matching, str):
            name = frame_name(frame)
            return self._matching in (name, name.partition("/")[0])
        return self._matching is None or bool(self._matching(frame))


def frame_name(frame: dict[str, Any]) -> str:
    """Return `type` or `type/subtype` of a frame; for control frames the subtype of what they carry."""
    kind = str(frame.get("type", ""))
    inner = frame.get({"control_request": "request", "control_response": "response"}.get(kind, ""))
    subtype = (inner if isinstance(inner, dict) else frame).get("subtype")
    return f"{kind}/{subtype}" if isinstance(subtype, str) else kind


class FrameStage(Stage):
    """A fault that looks at whole frames: what is left without a line end passes as it is, at the end."""

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self._selection = selection
        self._rest = b""

    def feed(self, data: bytes) -> Iterable[Item]:
        """Return what becomes of the frames that are whole by now."""
        if b"\n" not in data:
            self._rest += data
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        items: list[Item] = []
        for line in lines:
            frame = line + b"\n"
            items += self.chosen(frame) if self._selection.chooses(frame) else self.passing(frame)
        return items

    def finish(self) -> Iterable[Item]:
        """Return the beginning of a frame whose end never came."""
        rest, self._rest = self._rest, b""
        return [*self.held(), *([rest] if rest else [])]

    def chosen(self, frame: bytes) -> Iterable[Item]:
        """Return what becomes of a frame that the fault is for."""
        raise NotImplementedError

    def passing(self, frame: bytes) -> Iterable[Item]:
        """Return what becomes of any other frame."""
        return [frame]

    def held(self) -> Iterable[Item]:
        """Return whole frames that were held back."""
        return []


class Flow:
    """One direction of a connection; `ended` is its end, once it was taken."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self._items: deque[Item] = deque()
        self._due: float | None = None
        self.ended: Ended | None = None
        self.held_bytes: int = 0

    def push(self, item: bytes | Ended) -> None:
        """Put in what was read or is to be sent, or its end."""
        items: list[Item] = [item]
        for stage in self._stages:
            items = [out for each in items for out in stage.accept(each)]
        self._items.extend(items)
        self.held_bytes += sum(len(out) for out in items if isinstance(out, bytes))

    @property
    def waiting(self) -> bool:
        """True if something is left to be taken."""
        return bool(self._items)

    @property
    def faulty(self) -> bool:
        """True if there is any fault in this direction."""
        return bool(self._stages)

    def take(self, now: float) -> bytes | Pause | Ended | None:
        """Return what is next: bytes, an end (again and again), or how long to wait for it; None if there is nothing."""
        if self.ended is not None:
            return self.ended
        while self._items:
            item = self._items[0]
            if isinstance(item, Pause):
                if self._due is None:
                    self._due = now + item.seconds
                if now < self._due:
                    return Pause(self._due - now)
                self._due = None
                self._items.popleft()
                continue
            self._items.popleft()
            if isinstance(item, Ended):
                self.ended = item
                self._items.clear()
                self.held_bytes = 0
                return item
            self.held_bytes -= len(item)
            if item:
                return item
        return None


class FaultState:
    """Both directions of one connection."""

    def __init__(self, inbound: Sequence[Stage], outbound: Sequence[Stage]) -> None:
        self.inbound: Flow = Flow(inbound)
        self.outbound: Flow = Flow(outbound)
        self.stopped = False
        self.output_ended: bool = False
        self.input_ended: bool = False

    @property
    def exit_code(self) -> int | None:
        """The apparent exit code of the peer, if a fault sets one."""
        return self.inbound.ended.exit_code if self.inbound.ended is not None else None

    def received(self, data: bytes) -> None:
        """Queue output of the peer; b"" is the end of it."""
        self.output_ended = not data
        self.inbound.push(data or Ended())

    def next_output(self, now: float) -> bytes | Pause | None:
        """Return what is to be received: bytes, b"" at the end, how long to wait for it, or None to read from the peer."""
        if self.stopped:
            return b""
        item = self.inbound.take(now)
        return b"" if isinstance(item, Ended) else item

    def next_input(self, now: float) -> bytes | Ended | None:
        """Return the data to write to the peer now: bytes, the end of its input (once), or None."""
        if self.stopped or self.input_ended or self.exit_code is not None:
            return None
        item = self.outbound.take(now)
        if isinstance(item, Ended):
            self.input_ended = True
        return None if isinstance(item, Pause) else item

    def may_read(self, paused: bool) -> bool:
        """Return whether the peer is to be read: not after its end, and not without limit while what it wrote is held back.

        It is also read in pauses, because transports write while they read.
        """
        return not self.output_ended and not (paused and self.inbound.held_bytes >= READ_AHEAD_BYTES)

    def limit(self, wanted: float | None, paused: bool) -> float | None:
        """Return for how many seconds to wait before looking again: for a pause that ends, input that is due, a stop."""
        if not paused and not self.outbound.faulty:
            return wanted
        return LOOK_SECONDS if wanted is None else min(wanted, LOOK_SECONDS)
