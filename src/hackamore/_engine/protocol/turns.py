"""Which message belongs to which prompt of this side.

Rules (contract, section 4; what CLI 2.1.328 does). A prompt carries a uuid. The CLI reports its life in `command_lifecycle` frames and
names it in `user_message_uuid(s)`; a frame that names no prompt belongs to what is STARTED at that moment. A prompt that comes while a tool
runs is taken into the running turn: it is reported as completed *before* the result, and the result names both. So a report never ends
what was STARTED; the result does, or, if none comes, the next `idle`. A CLI that reports neither answers in the order of sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hackamore._engine.protocol.states.session import TURN, TurnState, TurnTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore.messages import ResultMessage

_REPORTS = {
    "queued": TurnTrigger.REPORTED_QUEUED,
    "started": TurnTrigger.REPORTED_STARTED,
    "cancelled": TurnTrigger.WITHDRAWN,
    "discarded": TurnTrigger.WITHDRAWN,
    "refused": TurnTrigger.REFUSED,
}
_AT_IDLE = {
    "completed": TurnTrigger.IDLE_AFTER_COMPLETED,
    "cancelled": TurnTrigger.IDLE_AFTER_WITHDRAWN,
    "discarded": TurnTrigger.IDLE_AFTER_WITHDRAWN,
    "refused": TurnTrigger.IDLE_AFTER_REFUSED,
}


class PromptRecord(msgspec.Struct, eq=False):
    """One prompt of this side; `verdict` is the last word of the CLI's reports on it, until its result comes."""

    id: str
    state: TurnState = TurnState.QUEUED
    written: bool = False
    verdict: str | None = None
    number: int = 0


class TurnTable:
    """All open prompts, in the order of sending. There may be thousands: no change looks at all of them."""

    __slots__ = ("_current_ids", "_number", "_open", "_started", "_verdicts", "reported")

    def __init__(self) -> None:
        self._open: dict[str, PromptRecord] = {}
        self._started: dict[str, PromptRecord] = {}
        self._verdicts: dict[str, PromptRecord] = {}
        self._current_ids: tuple[str, ...] | None = ()  # kept: it is needed for every read
        self._number = 0
        self.reported: bool = False  # once True, the order of sending proves nothing

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, turn_id: str) -> bool:
        return turn_id in self._open

    @property
    def open(self) -> list[PromptRecord]:
        return list(self._open.values())

    @property
    def current_ids(self) -> tuple[str, ...]:
        """The prompts to which a frame belongs that names none."""
        if self._current_ids is None:
            self._current_ids = tuple(turn.id for turn in _in_order(self._started))
        return self._current_ids

    def get(self, turn_id: str) -> PromptRecord | None:
        return self._open.get(turn_id)

    @property
    def prompt_is_unknown(self) -> bool:
        """True while an ordinary frame may tell which prompt is being answered: one is queued, and the CLI reports on none."""
        return not self.reported and len(self._started) < len(self._open)

    def add(self, turn: PromptRecord) -> None:
        self._number += 1
        turn.number = self._number
        self._open[turn.id] = turn

    def _move(self, turn: PromptRecord, trigger: TurnTrigger) -> list[PromptRecord]:
        before = turn.state
        turn.state = TURN[before, trigger]
        if turn.state is before:
            return []
        if turn.state.over:
            self._open.pop(turn.id, None)
            self._verdicts.pop(turn.id, None)
        if turn.state is TurnState.STARTED:
            self._started[turn.id] = turn
            self._current_ids = None
        elif self._started.pop(turn.id, None) is not None:
            self._current_ids = None
        return [turn]

    def report(self, turn_id: str, word: str) -> list[PromptRecord]:
        """Apply a `command_lifecycle` frame; return the prompts whose state it changed."""
        self.reported = True
        turn = self._open.get(turn_id)
        if turn is None:
            return []
        turn.verdict = word if word in _AT_IDLE else None  # an interrupt may queue it again
        if turn.verdict is None:
            self._verdicts.pop(turn_id, None)
        else:
            self._verdicts[turn_id] = turn
        trigger = _REPORTS.get(word)
        return self._move(turn, trigger) if trigger is not None else []

    def withdraw(self, turn_id: str) -> list[PromptRecord]:
        """Remove a prompt that was cancelled before it was written; return it."""
        return self._move(self._open[turn_id], TurnTrigger.WITHDRAWN)

    def named(self, turn_ids: Iterable[str]) -> list[PromptRecord]:
        """Mark prompts that the CLI works on as started; return those whose state changed."""
        changed = []
        for turn_id in turn_ids:
            turn = self._open.get(turn_id)
            if turn is not None:
                changed += self._move(turn, TurnTrigger.NAMED)
        return changed

    def work_begins(self) -> list[PromptRecord]:
        """Mark the oldest prompt as started, because the CLI works and has never reported on a prompt; return it."""
        if self.reported or self._started:
            return []
        oldest = next(iter(self._open.values()), None)  # if unwritten, the CLI began this turn by itself
        return self._move(oldest, TurnTrigger.NAMED) if oldest is not None and oldest.written else []

    def finished_by(self, result: ResultMessage) -> list[PromptRecord]:
        named = dict.fromkeys(result.user_message_uuids or ())  # several, if they were merged
        if result.user_message_uuid:
            named[result.user_message_uuid] = None
        ids = [turn_id for turn_id in named if turn_id in self._open]
        if not named:
            ids = list(self.current_ids)
            if not ids and not self.reported:
                oldest = next(iter(self._open.values()), None)  # an old CLI names none
                ids = [oldest.id] if oldest is not None and oldest.written else []
        ended = []
        for turn_id in ids:
            ended += self._move(self._open[turn_id], _verdict(result))
        return ended

    def idle(self) -> list[PromptRecord]:
        """End the prompts that were reported as over and got no result, because the CLI is idle; return them."""
        ended = []
        for turn in _in_order(self._verdicts):
            ended += self._move(turn, _AT_IDLE[turn.verdict or ""])
        return ended

    def end(self, trigger: TurnTrigger, *, only_unwritten: bool = False) -> list[PromptRecord]:
        """End the open prompts, or only those that were not written; return them."""
        ended = []
        for turn in self.open:
            if not (only_unwritten and turn.written):
                ended += self._move(turn, trigger)
        return ended


def _in_order(turns: dict[str, PromptRecord]) -> list[PromptRecord]:
    found = list(turns.values())
    return sorted(found, key=lambda turn: turn.number) if len(found) > 1 else found


def _verdict(result: ResultMessage) -> TurnTrigger:
    if not result.is_error:
        return TurnTrigger.RESULT
    # After an interrupt 2.1.327 gives `aborted_streaming` or `aborted_tools`.
    aborted = (result.terminal_reason or "").startswith("aborted")
    return TurnTrigger.RESULT_ABORTED if aborted else TurnTrigger.RESULT_FAILED
