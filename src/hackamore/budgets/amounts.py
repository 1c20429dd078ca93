"""Amounts that were or may be spent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spend:
    """An amount that was spent or reserved.

    Attributes:
        usd: US dollars.
        tokens: tokens of all kinds.
    """

    usd: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """An amount that may be spent.

    Attributes:
        usd: US dollars; None for no limit.
        tokens: tokens of all kinds; None for no limit.

    Example:
        ::

            budget = hackamore.Budget(per={"tenant": hackamore.budgets.Allowance(usd=2.0, tokens=1_000_000)})
    """

    usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The state of one key of a budget.

    Attributes:
        key: the key, such as `tenant=acme`; empty for the whole budget.
        limit: the limits.
        spent: the spending so far.
        reserved: the reservations of running turns.
        turns: the number of running turns.
    """

    key: str
    limit: Allowance
    spent: Spend
    reserved: Spend
    turns: int

    @property
    def remaining(self) -> Allowance:
        """The rest of the limits, without what is reserved; never below zero."""
        usd, tokens = self.limit.usd, self.limit.tokens
        return Allowance(
            usd=None if usd is None else max(usd - self.spent.usd - self.reserved.usd, 0.0),
            tokens=None if tokens is None else max(tokens - self.spent.tokens - self.reserved.tokens, 0),
        )
