"""A service that can be operated: spans for each request, logs as JSON, a budget for each tenant, and answers in place of stack traces.

Needs `hackamore[otel]` and `opentelemetry-sdk`. A service exports its spans to a collector; this one counts them.
"""

# scripted: Repeat("Your order is on its way.")

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import hackamore
from hackamore import Budget, BudgetExceededError, Options, RateLimitedError, SessionPool, Telemetry, Timeouts

SPANS = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(SPANS))
TRACER = PROVIDER.get_tracer("shop")
OPTIONS = Options(
    tools=[],
    model="claude-sonnet-4-5",
    timeouts=Timeouts(turn=120),
    telemetry=Telemetry(tracer_provider=PROVIDER, name="shopkeeper"),
)


class JSONFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        ids = {name: getattr(record, name, None) for name in ("session_id", "turn_id", "pid")}
        return json.dumps({"level": record.levelname, "message": record.getMessage(), **ids})


class Service:
    """Answers the customers of tenants.

    Args:
        pool: runs the conversations.
        budget: limits the service, and each tenant.
    """

    def __init__(self, pool: SessionPool, budget: Budget) -> None:
        self._pool = pool
        self._budget = budget

    async def ask(self, tenant: str, customer: str, text: str) -> tuple[int, str]:
        """Return a status as in HTTP, and the answer or the reason why there is none."""
        with TRACER.start_as_current_span("POST /ask", attributes={"tenant": tenant}):
            try:
                limited = self._budget.keyed(tenant=tenant)
                async with self._pool.conversation(f"{tenant}/{customer}", budget=limited) as session:
                    result = await (await session.send(text)).result()
                result.raise_for_error()
            except BudgetExceededError:
                return 402, "The budget of your organisation is spent."
            except RateLimitedError as error:
                until = "" if error.resets_at is None else f" after {error.resets_at:%H:%M}"
                return 429, f"Please ask again{until}."
            except hackamore.HackamoreError as error:
                return (503 if error.retryable else 500), "Sorry, something went wrong."
            return 200, result.text


async def main() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JSONFormatter())
    logging.getLogger("hackamore").addHandler(handler)

    budget = Budget(usd=10.0, per={"tenant": 1.0, "tenant=trial": 0.0})
    async with hackamore.SessionPool(OPTIONS, warm=0, max_live=2) as pool:
        service = Service(pool, budget)
        answers = await asyncio.gather(
            service.ask("acme", "ann", "Where is my order?"),
            service.ask("acme", "bob", "When does it come?"),
            service.ask("trial", "tim", "Is it free?"),
        )
        for status, text in answers:
            print(status, text)
        print({key: round(account.spent.usd, 4) for key, account in budget.accounts().items()})
    print(Counter(span.name for span in SPANS.get_finished_spans()))
    assert [status for status, _ in answers] == [200, 200, 402]


if __name__ == "__main__":
    asyncio.run(main())
