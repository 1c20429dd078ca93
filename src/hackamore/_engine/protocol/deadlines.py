"""The table of timeouts that run, and the timeouts of turns: when each starts, and when it does not count.

No clock is read here: `now` is the time that a shell gave last, and the shell asks how long it may wait.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from hackamore._engine.protocol.states.session import TurnState
from hackamore.messages import CommandLifecycleMessage
from hackamore.options.bounds import LONGEST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hackamore._engine.protocol.exchanges import InFlightRequest, Ledger
    from hackamore._engine.protocol.turns import TurnTable
    from hackamore.messages import Message
    from hackamore.options.bounds import Timeouts

TURN_KINDS = ("first_message", "idle", "turn")
"""The kinds of timeout that a turn can have, as `Timeouts` names them."""
EXIT_SECONDS = 5.0
"""For how long the exit status is awaited after the end of the output."""


class Deadlines:
    """The running timeouts, by kind and name.

    A heap has an entry for each of them, at its end or earlier: a timeout that starts again, as for each message, leaves its entry where
    it is, and the entry moves when it comes to the front. Entries of removed timeouts are dropped there, or when they are the majority.
    """

    __slots__ = ("_ends", "_entries", "_heap", "_number", "now")

    def __init__(self, now: float = 0.0) -> None:
        self.now: float = now  # the time from which a new timeout counts
        self._ends: dict[tuple[str, str], tuple[float, float]] = {}
        self._heap: list[tuple[float, int, tuple[str, str]]] = []
        self._entries: dict[tuple[str, str], tuple[float, int]] = {}
        self._number = 0

    def arm(self, kind: str, name: str, seconds: float | None) -> None:
        """Start a timeout, or start it again; None removes it."""
        if seconds is None:
            self._ends.pop((kind, name), None)
        else:
            self.arm_at(kind, name, self.now + seconds, seconds)

    def arm_at(self, kind: str, name: str, when: float, seconds: float) -> None:
        """Start a timeout of `seconds` that passes at `when`."""
        key = kind, name
        self._ends[key] = (when, seconds)
        entry = self._entries.get(key)
        if entry is None or when < entry[0]:
            self._push(key, when)

    def put_off(self, kind: str, name: str, when: float) -> None:
        """Postpone a running timeout to `when`, if it would expire earlier."""
        end, seconds = self._ends[kind, name]
        if when > end:
            self.arm_at(kind, name, when, seconds)

    def _push(self, key: tuple[str, str], when: float) -> None:
        self._number += 1  # of two that pass at the same time the one that was started first comes first
        self._entries[key] = when, self._number
        heappush(self._heap, (when, self._number, key))
        if len(self._heap) > 2 * len(self._ends) + _SPARE_ENTRIES:
            self._entries = {
                key: (self._ends[key][0], entry[1]) for key, entry in self._entries.items() if key in self._ends
            }
            self._heap = [(*entry, key) for key, entry in self._entries.items()]
            heapify(self._heap)

    def _next(self) -> tuple[float, tuple[str, str]] | None:
        """Return the end and the key of the timeout that passes first; None if none runs."""
        while self._heap:
            when, number, key = self._heap[0]
            end = self._ends.get(key)
            if self._entries.get(key) != (when, number):
                heappop(self._heap)  # it was started again, with an earlier end
            elif end is None:
                heappop(self._heap)
                del self._entries[key]
            elif end[0] > when:
                heappop(self._heap)
                self._push(key, end[0])
            else:
                return when, key
        return None

    def disarm(self, kind: str, name: str) -> None:
        """Remove a timeout, if it runs."""
        self._ends.pop((kind, name), None)

    def __len__(self) -> int:
        return len(self._ends)

    def clear(self) -> None:
        self._ends.clear()
        self._entries.clear()
        self._heap.clear()

    def is_armed(self, kind: str, name: str) -> bool:
        return (kind, name) in self._ends

    def seconds_of(self, kind: str, name: str) -> float | None:
        """Return the length of a running timeout; None if it does not run."""
        end = self._ends.get((kind, name))
        return end[1] if end is not None else None

    def names(self, kind: str) -> list[str]:
        """Return the names with a running timeout of that kind."""
        return [name for each, name in self._ends if each == kind]

    def wait_seconds(self, now: float) -> float | None:
        """Return how long the shell may wait until the next timeout passes; None without limit."""
        if not self._ends:
            return None
        first = self._next()
        if first is None:
            return None
        return min(max(0.0, first[0] - now), LONGEST_SECONDS)  # the rest of a longer wait comes with the next call

    def passed(self, now: float) -> Iterator[tuple[str, str, float]]:
        """Remove the timeouts that have passed, one at a time: kind, name, seconds. Handling one may remove or start others."""
        self.now = now
        most = len(self._ends)  # one that is started again with 0 seconds waits for the next call
        while most and (first := self._next()) is not None and first[0] <= now:
            most -= 1
            key = first[1]
            seconds = self._ends.pop(key)[1]
            yield *key, seconds


_SPARE_ENTRIES = 64
NEVER = float("-inf")


class TurnDeadlines:
    """For how long the CLI may be silent in a turn, and how long the turn may take.

    A timeout runs while the CLI could keep it: not before the session is ready, not behind another prompt (unless that one was
    abandoned and the CLI keeps at it for another whole timeout), and silence does not count while a callback runs.
    """

    def __init__(
        self, timeouts: Timeouts, deadlines: Deadlines, turns: TurnTable, in_flight: Ledger[InFlightRequest]
    ) -> None:
        self._first_message, self._idle, self._turn = timeouts.first_message, timeouts.idle, timeouts.turn
        self._deadlines = deadlines
        self._turns = turns
        self._in_flight = in_flight
        self._given_up: set[str] = set()  # prompts whose timeout expired and that the CLI has not ended
        self._waiting_in_vain: set[str] = set()
        self._anew_at = self._answered_at = NEVER

    def sent(self, turn_id: str) -> None:
        self._deadlines.arm("first_message", turn_id, self._first_message)
        self._deadlines.arm("turn", turn_id, self._turn)

    def started(self, turn_id: str) -> None:
        """Restart the turn timeout, because the CLI has started the turn."""
        self._deadlines.arm("turn", turn_id, self._turn)
        if self._first_message and self._deadlines.is_armed("first_message", turn_id):
            # The prompt waited until now: its timeout starts at the last `count_anew` or later.
            self._deadlines.put_off("first_message", turn_id, self._anew_at + self._first_message)

    def heard(self, turn_ids: Collection[str], messages: list[Message]) -> None:
        """Restart the idle timeouts of turns that received messages, and end their wait for the first one."""
        if not self._first_message and not self._idle:
            return
        if all(isinstance(message, CommandLifecycleMessage) for message in messages):
            return  # a report about a prompt is not a response to it
        for turn_id in turn_ids:
            if turn_id in self._turns:  # a result that waited for the store comes after its turn
                self._deadlines.disarm("first_message", turn_id)
                self._deadlines.arm("idle", turn_id, self._idle)

    def over(self, turn_id: str) -> None:
        for kind in TURN_KINDS:
            self._deadlines.disarm(kind, turn_id)
        self._given_up.discard(turn_id)
        self._waiting_in_vain.discard(turn_id)
        self.count_anew()

    def count_anew(self) -> None:
        """Restart the timeouts of waiting prompts, which the CLI can only read now. `expired` applies it: a loop here is quadratic."""
        self._anew_at = self._deadlines.now

    def answered(self) -> None:
        """Restart the measured silence: the CLI waited for a response of Hackamore. `expired` applies it, for the same reason."""
        self._answered_at = self._deadlines.now

    def expired(self, kind: str, turn_id: str, seconds: float) -> bool:
        """Return whether an expired timeout ends its turn; if the CLI could not keep it, it starts again."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return False
        anew = self._anew_at if turn.state is TurnState.QUEUED else NEVER  # one that runs has had its time
        # An answered callback starts the silence again, and gives the turn itself no more time.
        when = (anew if kind == "turn" else max(anew, self._answered_at)) + seconds
        if when > self._deadlines.now:
            self._deadlines.arm_at(kind, turn_id, when, seconds)
            return False
        current = self._turns.current_ids
        waits = not turn.written or (turn.state is TurnState.QUEUED and bool(current))
        stuck = bool(current) and all(each in self._given_up for each in current)
        if waits and stuck and turn_id in self._waiting_in_vain:
            waits = False  # a whole timeout later the CLI still works on a prompt that was interrupted for its timeout
        if waits or (kind != "turn" and len(self._in_flight) > 0):
            # The session is not ready, the CLI works on another prompt, or it waits for a response of Hackamore.
            if stuck:
                self._waiting_in_vain.add(turn_id)
            self._deadlines.arm(kind, turn_id, seconds)
            return False
        self.given_up(turn_id)
        return True

    def given_up(self, turn_id: str) -> None:
        """Drop the timeouts of a turn that Hackamore no longer waits for. The CLI may still work on it."""
        self._given_up.add(turn_id)
        self._waiting_in_vain.discard(turn_id)
        for kind in TURN_KINDS:
            self._deadlines.disarm(kind, turn_id)
