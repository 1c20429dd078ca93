"""The timeouts of turns: when each starts, and when it does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.messages import CommandLifecycleMessage
from bridle.protocol.deadlines import TURN_KINDS
from bridle.protocol.states.session import TurnState

if TYPE_CHECKING:
    from collections.abc import Collection

    from bridle.messages import Message
    from bridle.options.bounds import Timeouts
    from bridle.protocol.connection import Connection
    from bridle.protocol.deadlines import Deadlines

__all__ = ["TurnDeadlines"]


class TurnDeadlines:
    """For how long the CLI may be silent in a turn, and how long the turn may take.

    A deadline counts while the CLI could keep it: not before the session is ready, not behind another prompt (unless that one was given
    up and the CLI keeps at it for another whole deadline), and silence does not count while a callback of ours is awaited.

    Args:
        timeouts: how long each may be.
        deadlines: the table in which they are.
        connection: knows which turns are open.
    """

    def __init__(self, timeouts: Timeouts, deadlines: Deadlines, connection: Connection) -> None:
        self._first_message, self._idle, self._turn = timeouts.first_message, timeouts.idle, timeouts.turn
        self._deadlines = deadlines
        self._connection = connection
        self._given_up: set[str] = set()  # prompts whose deadline passed, while the CLI has not ended them
        self._waiting_in_vain: set[str] = set()

    def sent(self, turn_id: str) -> None:
        """Take that a prompt was sent."""
        self._deadlines.arm("first_message", turn_id, self._first_message)
        self._deadlines.arm("turn", turn_id, self._turn)

    def started(self, turn_id: str) -> None:
        """Take that the CLI has taken it up: how long it may take counts from here."""
        self._deadlines.arm("turn", turn_id, self._turn)

    def heard(self, turn_ids: Collection[str], messages: list[Message]) -> None:
        """Take that something was said in these turns."""
        if not self._first_message and not self._idle:
            return
        if all(isinstance(message, CommandLifecycleMessage) for message in messages):
            return  # that a prompt was taken is no answer to it
        for turn_id in turn_ids:
            if turn_id in self._connection.turns:
                self._deadlines.disarm("first_message", turn_id)
                self._deadlines.arm("idle", turn_id, self._idle)

    def over(self, turn_id: str) -> None:
        """Take that a turn has ended."""
        for kind in TURN_KINDS:
            self._deadlines.disarm(kind, turn_id)
        self.count_anew()

    def count_anew(self) -> None:
        """Let the deadlines of prompts that wait begin now: only now they can be taken up."""
        for turn in self._connection.turns.open:
            if turn.state is TurnState.QUEUED:
                self.sent(turn.id)

    def answered(self) -> None:
        """Let silence be counted anew: it was us who kept the CLI waiting."""
        for kind, seconds in (("idle", self._idle), ("first_message", self._first_message)):
            if seconds is None:
                continue
            for turn in self._connection.turns.open:  # not all deadlines: of callbacks there may be thousands
                if self._deadlines.is_armed(kind, turn.id):
                    self._deadlines.arm(kind, turn.id, seconds)

    def expired(self, kind: str, turn_id: str, seconds: float) -> bool:
        """Return whether a deadline that has passed ends its turn; if the CLI could not keep it, it is set anew."""
        connection = self._connection
        turn = connection.turns.get(turn_id)
        if turn is None:
            return False
        current = set(connection.turns.current_ids)
        waits = not turn.written or (turn.state is TurnState.QUEUED and bool(current))
        if waits and current and current <= self._given_up and turn_id in self._waiting_in_vain:
            waits = False  # a whole deadline later the CLI still keeps at a prompt that was interrupted for its own
        if waits or (kind != "turn" and len(connection.in_flight_requests)):
            # The session is not ready, another prompt has the floor, or it is us who keep the CLI waiting.
            if current and current <= self._given_up:
                self._waiting_in_vain.add(turn_id)
            self._deadlines.arm(kind, turn_id, seconds)
            return False
        self._given_up = {turn_id, *(given_up for given_up in self._given_up if given_up in connection.turns)}
        self._waiting_in_vain.discard(turn_id)
        for other in TURN_KINDS:
            self._deadlines.disarm(other, turn_id)
        return True
