"""Limit the cost of a service: for all tenants together, and for each of them, in a file that all workers share."""

# scripted: "4", "6"

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import hackamore
from hackamore import Budget, BudgetExceededError, Options


async def answer(budget: Budget, tenant: str, prompt: str) -> str:
    """Return the answer to a tenant, or why there is none."""
    options = Options(tools=[], budget=budget.keyed(tenant=tenant), on_warning=print)
    try:
        return (await hackamore.run(prompt, options)).text
    except BudgetExceededError as error:
        if error.sent:  # the turn was interrupted
            return error.partial.text
        return f"{tenant} has spent its ${error.limit}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Two dollars for each tenant, next to nothing for those who try it out, and fifty for all of them.
        per = {"tenant": 2.0, "tenant=trial": 0.0001}
        budget = Budget(usd=50.0, per=per, path=Path(folder, "budget.db"))
        print(await answer(budget, "acme", "What is 2 + 2?"))
        print(await answer(budget, "trial", "What is 3 + 3?"))
        refused = await answer(budget, "trial", "What is 4 + 4?")
        print(refused)
        for key, account in budget.accounts().items():
            print(f"{key or 'all':14} ${account.spent.usd:.6f} of ${account.limit.usd}, {account.spent.tokens} tokens")
        assert refused == "trial has spent its $0.0001"
        assert len(budget.accounts()) == 3
        budget.close()


if __name__ == "__main__":
    asyncio.run(main())
