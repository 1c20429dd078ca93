"""Budgets on the real CLI: its own count of the cost, races, and the price list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore import Budget, BudgetExceededError, Options
from hackamore.budgets import PRICES, Tokens
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall, Usage
from tests.contract import shows

if TYPE_CHECKING:
    from tests.conftest import RealCLI

OPUS = "claude-opus-5-5"


def options_for(real_cli: RealCLI, model: ScriptedModel, **more: Any) -> Options:
    return Options(
        cli_path=real_cli.cli_path,
        cwd=real_cli.cwd,
        env=real_cli.env(model),
        inherit_env=False,
        permission_mode="bypassPermissions",
        **{"model": OPUS, **more},
    )


@shows("budgets.metering.result", "budgets.metering.once")
@pytest.mark.parametrize("partial", [False, True])
def test_the_cost_is_that_of_the_cli(real_cli: RealCLI, partial: bool) -> None:
    budget = Budget(usd=10.0)
    usage = {
        "input_tokens": 100,
        "output_tokens": 50,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        "server_tool_use": {"web_search_requests": 2},
    }
    seen: list[float] = []

    async def scenario() -> None:
        with ScriptedModel(
            Reply("look", ToolCall("Bash", {"command": "ls"}), usage=usage),
            Reply("done", usage=Usage(200, 77)),
            Reply("again", usage=Usage(7, 9)),
            Reply("resumed", usage=Usage(11, 13)),
        ) as model:
            options = options_for(real_cli, model, budget=budget, include_partial_messages=partial)
            async with hackamore.Session(options) as session:
                turn = await session.send("one")
                async for message in turn:
                    if message.type in ("user", "stream_event"):  # the first reply is complete
                        seen.append(budget.spent.usd)
                first = await turn.result()
                assert budget.spent.usd == pytest.approx(first.total_cost_usd)
                second = await (await session.send("two")).result()
                assert budget.spent.usd == pytest.approx(second.total_cost_usd)
                before = budget.spent.usd
            result = await hackamore.run("three", options.replace(resume=session.session_id))
            assert result.cost is not None
            assert budget.spent.usd - before == pytest.approx((11 * 4 + 13 * 20) / 1e6)
            assert budget.spent.tokens == 100 + 50 + 1300 + 277 + 16 + 24

    anyio.run(scenario)
    read = PRICES[OPUS].cost(Tokens(input=100, cache_read=1000, cache_write_5m=100, cache_write_1h=200, web_searches=2))
    assert seen[-1] >= read
    if partial:
        assert seen[-1] >= read + PRICES[OPUS].cost(Tokens(output=50))


@shows("budgets.shared.overshoot", "budgets.limits.interrupted")
def test_sessions_race_for_the_last_dollars(real_cli: RealCLI) -> None:
    sessions, limit = 5, 3.0
    budget = Budget(usd=limit)
    errors: list[BudgetExceededError] = []

    async def work(options: Options) -> None:
        async with hackamore.Session(options) as session:
            while True:
                try:
                    await (await session.send("Work until the budget is spent.")).result()
                except BudgetExceededError as error:
                    errors.append(error)
                    if not error.sent:
                        return

    async def scenario() -> list[Any]:
        step = Reply("go on", ToolCall("Bash", {"command": "true"}), usage=Usage(50_000, 100))
        with ScriptedModel(Repeat(step)) as model:
            async with anyio.create_task_group() as group:
                for _ in range(sessions):
                    group.start_soon(work, options_for(real_cli, model, budget=budget))
            return [request for request in model.requests if request.kind == "main"]

    calls = len(anyio.run(scenario))
    price = PRICES[OPUS].cost(Tokens(input=50_000, output=100))
    # An interrupt may meet the next request on its way: 4.44 dollars were spent with six other programs on two processors.
    assert limit <= budget.spent.usd <= limit + 2 * sessions * price + 1e-9
    assert calls * price <= limit + 2 * sessions * price
    assert sum(error.sent for error in errors) <= sessions
    assert all(error.partial.messages for error in errors if error.sent)
    assert budget.account().turns == 0


@shows("budgets.limits.background")
def test_background_agents_are_charged_and_stopped(real_cli: RealCLI) -> None:
    budget = Budget(usd=1.0)

    async def scenario() -> int:
        forever = Repeat(Reply("go on", ToolCall("Bash", {"command": "sleep 0.05"}), usage=Usage(20_000, 100)))
        call = ToolCall("Agent", {"description": "d", "prompt": "Work.", "subagent_type": "general-purpose"})
        with ScriptedModel(Reply("start", call), Repeat(Reply("It works.")), subagents={"*": [forever]}) as model:
            async with hackamore.Session(options_for(real_cli, model, budget=budget)) as session:
                await (await session.send("Start an agent.")).result()
                await session.wait_idle(timeout=60)
                assert [warning.code for warning in session.warnings if warning.code == "BUDGET_SPENT"]
            return sum(request.kind == "subagent" for request in model.requests)

    calls = anyio.run(scenario)
    assert budget.spent.usd >= 1.0
    assert calls <= 1.0 / PRICES[OPUS].cost(Tokens(input=20_000, output=100)) + 3


@shows("budgets.metering.list")
def test_the_price_list_is_that_of_the_cli(real_cli: RealCLI) -> None:
    kinds: list[dict[str, Any]] = [
        {"input_tokens": 1000, "output_tokens": 0},
        {"input_tokens": 0, "output_tokens": 1000},
        {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 1000},
        {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 1000},
    ]
    kinds.append({**kinds[3], "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1000}})
    tokens = [
        Tokens(input=1000),
        Tokens(output=1000),
        Tokens(cache_read=1000),
        Tokens(cache_write_5m=1000),
        Tokens(cache_write_1h=1000),
    ]

    async def scenario() -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        replies = [Reply("ok", usage=usage) for _ in PRICES for usage in kinds]
        with ScriptedModel(*replies) as model:
            async with hackamore.Session(options_for(real_cli, model)) as session:
                for name in PRICES:
                    await session.set_model(name)
                    found[name] = []
                    for _ in kinds:
                        result = await (await session.send("What does it cost?")).result()
                        since = json.loads(result.raw)["model_usage_since_last_result"]
                        assert list(since) == [name]
                        found[name].append(since[name]["costUSD"])
        return found

    for name, costs in anyio.run(scenario).items():
        assert costs == pytest.approx([PRICES[name].cost(each) for each in tokens]), name
