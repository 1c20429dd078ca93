"""Budgets: limits on what queries and sessions may spend together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from hackamore.activity.prices import MOST_USD
from hackamore.budgets.amounts import Account, Allowance, Spend
from hackamore.budgets.book import (
    MOST_TOKENS,
    Book,
    Limits,
    checked_keys,
    checked_per,
    checked_prices,
    checked_tokens,
    checked_usd,
    nano,
)
from hackamore.budgets.ledger import Ledger
from hackamore.budgets.watching import Watch
from hackamore.checked.fields import integer, number, path_text
from hackamore.errors import OptionsError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from hackamore.activity.prices import Price
    from hackamore.options.observing import Observation, Subject


class Budget:
    """A limit on the cost or the tokens of queries, sessions and pools together.

    Before a prompt is sent, the budget reserves the price of one model call. It refuses the prompt if the limit is spent or reserved. While
    the turn runs, it adds up the usage of its messages, subagents included. The reply that reaches the limit is not cut off. If another
    call would follow, the turn is interrupted, and its reader gets a `BudgetExceededError` with the messages so far. So each running turn
    can exceed the limit by at most one model call; where the interrupt comes after the CLI's next request, on a busy machine, by that
    one too. At the result the CLI's own numbers replace the estimate.

    Args:
        usd: the limit in US dollars; None for no limit.
        tokens: the limit in tokens: read, written and cached ones; None for no limit.
        per: limits for each value of a key, in US dollars or as an `Allowance`: `{"tenant": 2.0}` gives each tenant two dollars. The name
            with a value, `{"tenant=acme": 10.0}`, is the limit of that value alone. None instead of a limit only counts. See `keyed`.
        warn_at: the part of a limit at which one warning (`BUDGET_LOW`) comes; None for no warning.
        prices: prices by model, before those of `hackamore.budgets.PRICES`; they also replace the cost that the CLI reports.
        path: a SQLite file that programs on one machine share, and that survives restarts; it is created, readable by its owner only. Its
            folder must exist, on a local disk. Limits stay with each `Budget`. None keeps the numbers in memory.
        reserve: US dollars to reserve for each running turn; None for the mean price of recent model calls ($0.05 before the first).

    Raises:
        OptionsError: an argument has a wrong type or value.
        BudgetError: the file cannot be used.

    Example:
        ::

            budget = hackamore.Budget(usd=10.0)
            async with hackamore.Session(hackamore.Options(budget=budget)) as session:
                await (await session.send("Fix the tests.")).result()
            print(budget.spent.usd, budget.remaining.usd)
    """

    def __init__(
        self,
        *,
        usd: float | None = None,
        tokens: float | None = None,
        per: Mapping[str, float | Allowance | None] | None = None,
        warn_at: float | None = 0.8,
        prices: Mapping[str, Price] | None = None,
        path: str | os.PathLike[str] | None = None,
        reserve: float | None = None,
    ) -> None:
        if usd is None and tokens is None and not per:
            raise OptionsError(
                "A `Budget` needs a limit: `usd`, `tokens` or `per`. `Budget(usd=math.inf)` counts without a limit.",
                field="usd",
            )
        limits = Limits(
            Allowance(usd=checked_usd(usd, "usd"), tokens=checked_tokens(tokens, "tokens")), checked_per(per or {})
        )
        file = None if path is None else path_text(path, "path")
        self._book = Book(
            limits,
            warn_at=None if warn_at is None else number(0, exclusive=True, maximum=1)(warn_at, "warn_at"),
            prices=checked_prices(prices or {}),
            reserve=None if reserve is None else nano(number(0, maximum=MOST_USD)(reserve, "reserve")),
            ledger=lambda: Ledger(file),
        )

    def __repr__(self) -> str:
        total, per = self._book.limits
        given = {"usd": total.usd, "tokens": total.tokens, "per": dict(per) or None, "path": self._book.ledger.path}
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"

    @property
    def path(self) -> str | None:
        """The file; None for a budget in memory."""
        return self._book.ledger.path

    # -- use -----------------------------------------------------------------------------------------------------------

    def observe(self, subject: Subject) -> Observation:
        """Begin to count for a query or session; `Options(budget=...)` calls it.

        Args:
            subject: the query or session.

        Returns:
            The object that counts.
        """
        return Watch(self._book, subject, ())

    def charge(self, usd: float, tokens: int = 0, *, check: bool = True, correction: bool = False) -> None:
        """Add what was spent elsewhere, by something that does not use this budget itself.

        Args:
            usd: US dollars, from zero on.
            tokens: tokens, from zero on.
            check: False raises nothing if a limit is reached.
            correction: True also allows amounts below zero, for charges that were too high.

        Raises:
            OptionsError: an amount is negative, infinite or not a number. Nothing was added.
            BudgetExceededError: a limit is reached. The spending was added.
            BudgetError: the file cannot be used.
        """
        usd = number(-MOST_USD if correction else 0, maximum=MOST_USD)(usd, "usd")
        tokens = integer(-MOST_TOKENS if correction else 0, maximum=MOST_TOKENS)(tokens, "tokens")
        if usd or tokens:
            self._book.charge([], ("",), nano(usd), tokens, None)
        if check and (error := self._book.over(("",))) is not None:
            raise error

    def keyed(self, **keys: str) -> KeyedBudget:
        """Return the budget for one tenant, user, day, ...: what uses it counts for the key and for the whole budget.

        Args:
            **keys: names that `per` has, with their values. With several, all limits hold.

        Returns:
            A budget for `Options(budget=...)`, or for a `with` block: prompts that are sent inside it, by sessions with this budget, count
            for the key.

        Raises:
            OptionsError: `per` does not have the name, or the value is not a text.

        Example:
            ::

                budget = hackamore.Budget(usd=50.0, per={"tenant": 2.0})
                options = hackamore.Options(budget=budget.keyed(tenant="acme"))
        """
        return KeyedBudget(self, self._book, checked_keys(self._book.limits, keys))

    def set_limits(
        self,
        *,
        usd: float | None = None,
        tokens: float | None = None,
        per: Mapping[str, float | Allowance | None] | None = None,
    ) -> None:
        """Change limits. They hold from the next prompt or message on, for this `Budget` alone.

        Args:
            usd: the limit in US dollars; `math.inf` for no limit, None to leave it as it is.
            tokens: the limit in tokens; `math.inf` for no limit, None to leave it as it is.
            per: limits by key, as for `Budget`; others stay.

        Raises:
            OptionsError: an argument has a wrong type or value.
        """
        total, before = self._book.limits
        self._book.limits = Limits(
            Allowance(
                usd=total.usd if usd is None else checked_usd(usd, "usd"),
                tokens=total.tokens if tokens is None else checked_tokens(tokens, "tokens"),
            ),
            {**before, **checked_per(per or {})},
        )

    def reset(self, **key: str) -> None:
        """Set the spending to zero, in the file as well. Running turns keep their reservations.

        Args:
            **key: one key, `tenant="acme"`; without one everything is set to zero.

        Raises:
            OptionsError: `per` does not have the name.
            BudgetError: the file cannot be used.
        """
        if not key:
            self._book.ledger.reset(None)
        for each in checked_keys(self._book.limits, key):
            self._book.ledger.reset(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, as leaving a `with` block does; the next use opens it again."""
        self._book.ledger.close()

    # -- numbers -------------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> Spend:
        """The spending so far, of all keys and programs."""
        return self.account().spent

    @property
    def reserved(self) -> Spend:
        """The reservations of running turns."""
        return self.account().reserved

    @property
    def remaining(self) -> Allowance:
        """The rest of the limits, without what is reserved; None where there is no limit."""
        return self.account().remaining

    def account(self, **key: str) -> Account:
        """Return the state of one key, or of the whole budget.

        Args:
            **key: one key, `tenant="acme"`; none for the whole budget.

        Returns:
            Limits, spending and reservations at this moment.

        Raises:
            OptionsError: `per` does not have the name, or there are several keys.
            BudgetError: the file cannot be used.
        """
        if len(key) > 1:
            raise OptionsError(f"`account` takes one key, got {', '.join(key)}. Call it for each.", field="account")
        keys = checked_keys(self._book.limits, key) or ("",)
        return self._book.accounts(keys)[0]

    def accounts(self) -> dict[str, Account]:
        """Return the state of the whole budget (the key is empty) and of each key that anything was spent or reserved for.

        Returns:
            Accounts by key, such as `tenant=acme`.

        Raises:
            BudgetError: the file cannot be used.
        """
        found = {account.key: account for account in self._book.accounts(None)}
        return found if "" in found else {"": self.account(), **found}


class KeyedBudget:
    """A budget for certain keys; made by `Budget.keyed`.

    Attributes:
        budget: the budget.
        keys: the keys, such as `tenant=acme`.
    """

    def __init__(self, budget: Budget, book: Book, keys: tuple[str, ...]) -> None:
        self.budget: Budget = budget
        self._book = book
        self.keys: tuple[str, ...] = keys

    def __repr__(self) -> str:
        keys = (key.partition("=") for key in self.keys)
        return f"{self.budget!r}.keyed({', '.join(f'{name}={value!r}' for name, _, value in keys)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyedBudget) and (self.budget, self.keys) == (other.budget, other.keys)

    def __hash__(self) -> int:
        return hash((self.budget, self.keys))

    def __enter__(self) -> Self:
        self._book.enter(self.keys)
        return self

    def __exit__(self, *_: object) -> None:
        self._book.leave()

    def observe(self, subject: Subject) -> Observation:
        """Begin to count for a query or session; `Options(budget=...)` calls it.

        Args:
            subject: the query or session.

        Returns:
            The object that counts.
        """
        return Watch(self._book, subject, self.keys)

    @property
    def remaining(self) -> Allowance:
        """The least that remains of the limits that hold: of its keys, and of the whole budget."""
        rests = [account.remaining for account in self._book.accounts(("", *self.keys))]
        dollars = [each.usd for each in rests if each.usd is not None]
        tokens = [each.tokens for each in rests if each.tokens is not None]
        return Allowance(usd=min(dollars, default=None), tokens=min(tokens, default=None))
