"""Limits on the cost of queries and sessions: amounts, accounts and prices. The budget itself is `bridle.Budget`.

::

    budget = bridle.Budget(usd=10.0, per={"tenant": 2.0})
    options = bridle.Options(budget=budget.keyed(tenant="acme"))
"""

from __future__ import annotations

from bridle.budgets.amounts import Account, Allowance, Spend
from bridle.budgets.budget import KeyedBudget
from bridle.budgets.prices import PRICES, PRICES_FROM, Price, Tokens

__all__ = ["PRICES", "PRICES_FROM", "Account", "Allowance", "KeyedBudget", "Price", "Spend", "Tokens"]
