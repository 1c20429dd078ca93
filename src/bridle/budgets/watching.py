"""The observer of one query or session for a budget: it reserves, charges, warns and interrupts."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from bridle.budgets.book import nano
from bridle.budgets.metering import Meter
from bridle.errors import BudgetError, UnknownPriceError
from bridle.messages import AssistantMessage, ToolUseBlock, UserMessage
from bridle.options.observing import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridle.budgets.amounts import Account
    from bridle.budgets.book import Book
    from bridle.errors import BridleError
    from bridle.messages import Message
    from bridle.options.observing import Subject

__all__ = ["Watch"]


class Watch(Observation):
    """Counts for one query or session.

    Args:
        book: the book of the budget.
        subject: the query or session.
        keys: the keys to count for, besides the whole budget.
    """

    def __init__(self, book: Book, subject: Subject, keys: tuple[str, ...]) -> None:
        self._book = book
        self._subject = subject
        self._keys = (*keys, "")  # the narrower limit is the one to name
        self._meter = Meter(book.prices)
        self._charged = (0, 0)
        self._name = secrets.token_hex(8)
        self._open: set[str] = set()
        self._ended: set[str] = set()
        self._refused: set[str] = set()
        self._replied: set[str] = set()

    def _turn(self, turn_id: str) -> str:
        return f"{self._name}/{turn_id}"

    def prompt_sending(self, turn_id: str, content: object) -> None:
        """Reserve one model call."""
        self._book.reserve(self._turn(turn_id), self._keys)
        self._open.add(turn_id)

    def turn_changed(self, turn_id: str, state: str, error: BridleError | None) -> None:
        """Give the reservation of a turn back when it is over."""
        if state != "started" and turn_id in self._open:
            self._open.discard(turn_id)
            self._replied.discard(turn_id)
            self._book.ledger.release(self._turn(turn_id))

    def messages_received(self, messages: Sequence[Message], turn_ids: tuple[str, ...]) -> None:
        """Charge messages; end their turns if a limit is reached and another model call would follow."""
        try:
            self._count(messages, turn_ids)
        except BudgetError as problem:  # spending that cannot be counted must not go on
            self._end(turn_ids, problem)

    def _count(self, messages: Sequence[Message], turn_ids: tuple[str, ...]) -> None:
        meter = self._meter
        for message in messages:
            replies = meter.replies
            meter.take(message)
            # A reply that begins when the limit is reached already: after a hook that keeps the model at work, say.
            error = self._begun(turn_ids) if meter.replies > replies else None
            self._charge(turn_ids)
            if self._book.limits.in_dollars and len(meter.unpriced) > len(self._refused):
                error = UnknownPriceError(next(model for model in meter.unpriced if model not in self._refused))
                self._refused.update(meter.unpriced)
            if error is None and _goes_on(message):
                error = self._book.over(self._keys)
            if error is not None:
                self._end(turn_ids, error)

    def _begun(self, turn_ids: tuple[str, ...]) -> BudgetError | None:
        """Return the error for a reply that begins; the first one of a turn has its reservation."""
        first = not self._replied.issuperset(turn_ids)
        self._replied.update(turn_ids)
        return None if first else self._book.over(self._keys)

    def _charge(self, turn_ids: tuple[str, ...]) -> None:
        meter = self._meter
        now = nano(meter.usd), meter.tokens
        usd, tokens = now[0] - self._charged[0], now[1] - self._charged[1]
        if not (usd or tokens or meter.call):
            return
        call = meter.call and (meter.call[0] * 1e9, meter.call[1])
        due = self._book.charge([self._turn(turn_id) for turn_id in turn_ids], self._keys, usd, tokens, call)
        self._charged = now
        for account, unit in due:
            self._warn(account, unit)

    def _warn(self, account: Account, unit: str) -> None:
        spent, limit = getattr(account.spent, unit), getattr(account.limit, unit)
        name = f"the budget of {account.key!r}" if account.key else "the budget"
        amounts = f"${spent:,.2f} of ${limit:,.2f}" if unit == "usd" else f"{spent:,} of {limit:,} tokens"
        self._subject.warn(
            "BUDGET_LOW", f"{amounts} of {name} are spent.", key=account.key, unit=unit, spent=spent, limit=limit
        )

    def _end(self, turn_ids: tuple[str, ...], error: BudgetError) -> None:
        if not turn_ids:  # nobody waits for a turn that the CLI began itself
            self._subject.warn("BUDGET_SPENT", f"Work that no prompt started is interrupted. {error}")
            self._subject.end_turn(None, error)
        for turn_id in turn_ids:
            if turn_id not in self._ended:
                self._ended.add(turn_id)
                self._subject.end_turn(turn_id, error)


def _goes_on(message: Message) -> bool:
    """Return whether the model is called again after this message."""
    if isinstance(message, AssistantMessage):
        return any(isinstance(block, ToolUseBlock) for block in message.content)
    return isinstance(message, UserMessage)
