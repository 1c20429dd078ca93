"""Limits on the cost of queries and sessions: amounts, accounts and prices. The budget itself is `hackamore.Budget`.

::

    budget = hackamore.Budget(usd=10.0, per={"tenant": 2.0})
    options = hackamore.Options(budget=budget.keyed(tenant="acme"))
"""

from __future__ import annotations

from hackamore.activity.prices import PRICES, PRICES_FROM, Price, Tokens
from hackamore.budgets.amounts import Account, Allowance, Spend
from hackamore.budgets.budget import KeyedBudget

__all__ = ["PRICES", "PRICES_FROM", "Account", "Allowance", "KeyedBudget", "Price", "Spend", "Tokens"]
