"""The observer of one query or session for a budget: it reserves, charges, warns and interrupts."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from hackamore.activity.metering import Meter
from hackamore.activity.replies import goes_on
from hackamore.budgets.book import nano
from hackamore.errors import BudgetError, UnknownPriceError
from hackamore.options.observing import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.budgets.amounts import Account
    from hackamore.budgets.book import Book
    from hackamore.errors import HackamoreError
    from hackamore.messages import Message
    from hackamore.options.observing import Subject


class Watch(Observation):
    """Counts for one query or session: for the whole budget, and for `keys` besides."""

    def __init__(self, book: Book, subject: Subject, keys: tuple[str, ...]) -> None:
        self._book = book
        self._subject = subject
        self._own_keys = keys
        self._keys = (*keys, "")  # of the last prompt; the narrower limit comes first, and is the one to name
        options = subject.options
        self._meter = Meter(book.prices, resumed=options.resume is not None or options.continue_conversation)
        self._charged = (0, 0)
        self._name = secrets.token_hex(8)
        self._open: dict[str, tuple[str, ...]] = {}
        self._ended: set[str] = set()
        self._replied: set[str] = set()
        self._alone = False

    def _turn(self, turn_id: str) -> str:
        return f"{self._name}/{turn_id}"

    def prompt_sending(self, turn_id: str, content: object) -> None:
        """Reserve one model call."""
        keys = (*dict.fromkeys((*self._book.keys_of_context(), *self._own_keys)), "")
        self._book.reserve(self._turn(turn_id), keys)
        self._open[turn_id] = self._keys = keys
        self._alone = False

    def turn_changed(self, turn_id: str, state: str, error: HackamoreError | None) -> None:
        """Give the reservation of a turn back when it is over."""
        if state in ("queued", "started"):
            return
        self._ended.discard(turn_id)
        self._replied.discard(turn_id)
        if self._open.pop(turn_id, None) is not None:
            self._book.ledger.release(self._turn(turn_id))

    def messages_received(self, messages: Sequence[Message], turn_ids: tuple[str, ...]) -> None:
        """Charge messages; end their turns if a limit is reached and another model call would follow."""
        keys = next((self._open[turn_id] for turn_id in turn_ids if turn_id in self._open), self._keys)
        try:
            for message in messages:
                if (error := self._count(message, turn_ids, keys)) is not None:
                    self._end(turn_ids, error)
        except BudgetError as problem:  # spending that cannot be counted must not continue
            self._end(turn_ids, problem)
        except Exception as problem:
            self._end(
                turn_ids, BudgetError(f"The cost of a message could not be counted: {problem!r}. Please report this.")
            )
            raise

    def _count(self, message: Message, turn_ids: tuple[str, ...], keys: tuple[str, ...]) -> BudgetError | None:
        meter = self._meter
        replies = meter.replies
        meter.take(message)
        error: BudgetError | None = None
        if meter.replies > replies:
            # The first reply of a turn has its reservation. Another one may begin without a tool call, after a hook that blocks the end.
            first = not self._replied.issuperset(turn_ids)
            self._replied.update(turn_ids)
            error = None if first else self._book.over(keys)
        self._charge(turn_ids, keys)
        if meter.unpriced is not None and self._book.limits.in_dollars:
            return UnknownPriceError(meter.unpriced)
        if error is None and goes_on(message):
            error = self._book.over(keys)
        return error

    def _charge(self, turn_ids: tuple[str, ...], keys: tuple[str, ...]) -> None:
        meter = self._meter
        now = nano(meter.usd), meter.tokens
        usd, tokens = now[0] - self._charged[0], now[1] - self._charged[1]
        if not (usd or tokens or meter.call):
            return
        call = meter.call and (meter.call[0] * 1e9, meter.call[1])
        due = self._book.charge([self._turn(turn_id) for turn_id in turn_ids], keys, usd, tokens, call)
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
        if not turn_ids:  # no caller waits for a turn that the CLI began itself
            if not self._alone:
                self._alone = True
                self._subject.warn("BUDGET_SPENT", f"Work that no prompt started is interrupted. {error}")
            self._subject.end_turn(None, error)
        for turn_id in turn_ids:
            if turn_id not in self._ended:
                self._ended.add(turn_id)
                self._subject.end_turn(turn_id, error)
