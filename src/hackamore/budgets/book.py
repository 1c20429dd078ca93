"""The book of a budget: its limits, and the ledger behind them. Budgets and the watches of their sessions share it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from hackamore.activity.prices import MOST_USD, Price
from hackamore.budgets.amounts import Account, Allowance, Spend
from hackamore.budgets.ledger import NANO, Bounds, Row
from hackamore.checked.fields import fail, wrong
from hackamore.errors import BudgetExceededError, OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hackamore.budgets.ledger import Ledger

MOST_TOKENS = 10**15
_FIRST_CALL = (NANO // 20, 20_000)
"""Price and tokens that are reserved for a model call before one was seen: five cents."""


class Limits(NamedTuple):
    """The limits of a budget; replaced as a whole.

    Attributes:
        per: the limits by name, or by name and value.
    """

    total: Allowance
    per: Mapping[str, Allowance]

    def of(self, key: str) -> Allowance:
        """Return the limits of a key; the empty key is the whole budget."""
        if not key:
            return self.total
        return self.per.get(key) or self.per.get(key.partition("=")[0]) or Allowance()

    @property
    def in_dollars(self) -> bool:
        """True if a limit is in dollars: then each model needs a price."""
        return any(each.usd is not None for each in (self.total, *self.per.values()))


class Book:
    """Limits and ledger. Its methods raise `BudgetError` if the file of the ledger cannot be used.

    Args:
        warn_at: the part of a limit at which it warns; None for no warning.
        reserve: billionths of a dollar to reserve for a turn; None for the mean of recent model calls.
        ledger: makes the ledger.

    Attributes:
        limits: the limits; assign others to change them.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        warn_at: float | None,
        prices: Mapping[str, Price],
        reserve: int | None,
        ledger: Callable[[], Ledger],
    ) -> None:
        self.limits: Limits = limits
        self.prices: Mapping[str, Price] = prices
        self._warn_at = warn_at
        self._reserve = reserve
        self.ledger: Ledger = ledger()

    def keys_of_context(self) -> tuple[str, ...]:
        """Return the keys of the `with` blocks of this budget that the caller is in, the innermost first."""
        return tuple(key for book, keys in reversed(_blocks.get()) if book is self for key in keys)

    def enter(self, keys: tuple[str, ...]) -> None:
        """Begin a `with` block in this context."""
        _blocks.set((*_blocks.get(), (self, keys)))

    def leave(self) -> None:
        """End the innermost `with` block of this context."""
        _blocks.set(_blocks.get()[:-1])

    def reserve(self, turn: str, keys: Sequence[str]) -> None:
        """Reserve one model call for a turn; raise `BudgetExceededError` if a limit is spent or reserved."""
        full = self.ledger.reserve(turn, self._bounds(keys, 1.0), self._reserve, _FIRST_CALL)
        if full is not None:
            raise self._exceeded(full, sent=False)

    def charge(
        self, turns: Sequence[str], keys: Sequence[str], usd: int, tokens: int, call: tuple[float, float] | None
    ) -> list[tuple[Account, str]]:
        """Add spending; return the account and the unit of each warning that is due."""
        points = self._bounds(keys, self._warn_at)
        rows, due = self.ledger.charge(turns, points, usd, tokens, call)
        return [(self._account(row), unit) for key, unit in due for row in rows if row.key == key]

    def over(self, keys: Sequence[str]) -> BudgetExceededError | None:
        """Return the error for a turn that continues although a limit is spent; None if none is."""
        limits = {key: limit for key in keys if (limit := self.limits.of(key)) != Allowance()}
        for row in self.ledger.spent(tuple(limits)) if limits else ():
            limit = limits[row.key]
            if (limit.usd is not None and row.usd >= nano(limit.usd)) or (
                limit.tokens is not None and row.tokens >= limit.tokens
            ):
                return self._exceeded(row, sent=True)
        return None

    def accounts(self, keys: Sequence[str] | None) -> list[Account]:
        """Return the accounts of keys; None for all of the ledger."""
        return [self._account(row) for row in self.ledger.rows(keys)]

    def _account(self, row: Row) -> Account:
        return Account(
            key=row.key,
            limit=self.limits.of(row.key),
            spent=Spend(row.usd / NANO, row.tokens),
            reserved=Spend(row.reserved_usd / NANO, row.reserved_tokens),
            turns=row.turns,
        )

    def _bounds(self, keys: Sequence[str], part: float | None) -> list[tuple[str, Bounds]]:
        if part is None:
            return [(key, Bounds(None, None)) for key in keys]
        found = []
        for key in keys:
            limit = self.limits.of(key)
            usd = None if limit.usd is None else nano(limit.usd * part)
            found.append((key, Bounds(usd, None if limit.tokens is None else math.ceil(limit.tokens * part))))
        return found

    def _exceeded(self, row: Row, *, sent: bool) -> BudgetExceededError:
        limit = self.limits.of(row.key)
        if limit.usd is not None and row.usd + row.reserved_usd >= nano(limit.usd):
            return BudgetExceededError(
                spent=row.usd / NANO, limit=limit.usd, reserved=row.reserved_usd / NANO, key=row.key, sent=sent
            )
        return BudgetExceededError(
            spent=row.tokens,
            limit=limit.tokens or 0,
            reserved=row.reserved_tokens,
            unit="tokens",
            key=row.key,
            sent=sent,
        )


_blocks: ContextVar[tuple[tuple[Book, tuple[str, ...]], ...]] = ContextVar("hackamore_budget_blocks", default=())


# -- checks of what users hand in --------------------------------------------------------------------------------------


def nano(usd: float) -> int:
    """Return dollars as billionths."""
    return round(usd * NANO)


def checked_usd(value: object, path: str) -> float | None:
    """Return a limit in dollars, which must be a number from zero on; None for no limit."""
    if value is None or value == math.inf:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise fail(path, "a number of US dollars", value)
    if not 0 <= value <= MOST_USD:
        raise wrong(path, "must be from 0 to 1,000,000,000 US dollars, or `math.inf` for no limit", value)
    return float(value)


def checked_tokens(value: object, path: str) -> int | None:
    """Return a limit in tokens, which must be a whole number from zero on; None for no limit."""
    if value is None or value == math.inf:
        return None
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        raise fail(path, "a whole number of tokens", value)
    if not 0 <= value <= MOST_TOKENS:
        raise wrong(path, "must be from 0 to 10**15 tokens, or `math.inf` for no limit", value)
    return int(value)


def checked_per(per: object) -> dict[str, Allowance]:
    """Return limits by key; raise `OptionsError` if a name or a limit is wrong."""
    if not isinstance(per, Mapping):
        raise fail("per", 'a dict of limits, such as {"tenant": 2.0}', per)
    found = {}
    for name, limit in per.items():
        if not isinstance(name, str) or not name.partition("=")[0].isidentifier():
            raise fail("per", 'a dict with names of keys, such as {"tenant": 2.0}', name)
        path = f"per[{name!r}]"
        if isinstance(limit, Allowance):
            found[name] = Allowance(
                usd=checked_usd(limit.usd, f"{path}.usd"), tokens=checked_tokens(limit.tokens, f"{path}.tokens")
            )
        else:
            found[name] = Allowance(usd=checked_usd(limit, path))
    return found


def checked_prices(prices: object) -> dict[str, Price]:
    """Return prices by model; raise `OptionsError` if a name or a price is wrong."""
    if not isinstance(prices, Mapping):
        raise fail("prices", 'a dict of prices, such as {"my-model": Price(input=3, output=15)}', prices)
    for model, price in prices.items():
        if not isinstance(model, str) or not model:
            raise fail("prices", "a dict with names of models", model)
        path = f"prices[{model!r}]"
        if not isinstance(price, Price):
            raise fail(path, "a `hackamore.Price(input=..., output=...)` in US dollars for a million tokens", price)
    return dict(prices)


def checked_keys(limits: Limits, keys: Mapping[str, object]) -> tuple[str, ...]:
    """Return keys as the ledger has them; raise `OptionsError` if `per` does not have a name, or its value is not a text."""
    names = sorted({name.partition("=")[0] for name in limits.per})
    for name, value in keys.items():
        if name not in names:
            known = f"It has {', '.join(map(repr, names))}" if names else "It has none"
            raise OptionsError(
                f"The budget has no key {name!r}. {known}. Add it with a limit: `Budget(per={{{name!r}: 2.0}})`; None instead of a number "
                "counts without a limit.",
                field=name,
            )
        if not isinstance(value, str) or not value:
            raise fail(name, "a text that is not empty", value)
    return tuple(f"{name}={value}" for name, value in keys.items())
