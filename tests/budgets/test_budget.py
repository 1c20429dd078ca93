"""Budgets of queries, sessions and pools on asyncio, trio and threads, against simulated CLIs."""

from __future__ import annotations

import math
import os
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

import hackamore
from hackamore import (
    AssistantMessage,
    Budget,
    BudgetError,
    BudgetExceededError,
    Options,
    OptionsError,
    Price,
    StreamWarning,
    UnknownPriceError,
    sync,
)
from hackamore.budgets import Allowance, Spend
from hackamore.testing import Script, SimulatedCLI
from tests.budgets.racing import PRICES, REPLY, simulated
from tests.contract import shows
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Held, each, got, raised


def careful() -> SimulatedCLI:
    """Return a CLI whose model calls two tools before it answers."""
    script = Script(forever=True).user()
    for _ in range(2):
        script.calls("Bash", {"command": "ls"}, result="README.md")
    return SimulatedCLI(script.says("One file."), per_session=True)


def look(_: object, __: object) -> None:
    """A hook: the CLI waits for its answer, and hears of an interrupt meanwhile."""


HOOKS: Any = {"PreToolUse": look}


def session(shell: Shell, budget: Any, cli: Any = None, **more: Any) -> Held:
    kind = sync.Session if shell.blocking else hackamore.Session
    return Held(kind(Options(budget=budget, **more), transport=cli or simulated()))


async def ask(session: Any, prompt: str = "What is here?") -> Any:
    turn = await got(session.send(prompt))
    return await got(turn.result())


@shows("budgets.limits.interrupted", "budgets.limits.raised", "budgets.limits.refused")
def test_a_session_ends_its_turn_at_the_limit_and_continues_when_it_is_raised(shell: Shell) -> None:
    budget = Budget(usd=REPLY, prices=PRICES)

    async def scenario() -> None:
        async with session(shell, budget, careful(), hooks=HOOKS) as talk:
            error = await raised(lambda: ask(talk), BudgetExceededError)
            assert error.sent
            assert (error.limit, error.unit, error.key) == (REPLY, "usd", "")
            assert error.spent >= error.limit
            assert not error.retryable
            assert any(isinstance(message, AssistantMessage) for message in error.partial.messages)
            assert error.session_id == talk.session_id
            error = await raised(lambda: ask(talk), BudgetExceededError)
            assert error.sent is False
            assert "The prompt was not sent. Raise the limit with `Budget.set_limits(usd=...)`." in str(error)
            budget.set_limits(usd=1.0)
            assert (await ask(talk)).text == "One file."
        assert budget.account().turns == 0

    shell.play(scenario)


@shows("budgets.limits.interrupted")
def test_a_query_ends_at_the_limit_with_its_messages(shell: Shell) -> None:
    budget = Budget(usd=REPLY, prices=PRICES)

    async def scenario() -> None:
        stream = shell.query("What is here?", Options(budget=budget), transport=simulated())
        found = []
        with pytest.raises(BudgetExceededError) as raised:
            async for message in each(stream):
                found.append(message)
        assert raised.value.partial.messages[: len(found)] == tuple(found)
        assert isinstance(found[-1], AssistantMessage)

    shell.play(scenario)
    assert budget.account().turns == 0


@shows("budgets.limits.whole")
def test_the_last_reply_of_a_turn_is_not_cut_off(shell: Shell) -> None:
    budget = Budget(usd=REPLY / 2, prices=PRICES)
    cli = SimulatedCLI(Script(forever=True).user().says("4"), per_session=True)

    async def scenario() -> None:
        answer = await shell.run("What is 2 + 2?", Options(budget=budget), transport=cli)
        assert answer.text == "4"
        with pytest.raises(BudgetExceededError):
            await shell.run("What is 2 + 2?", Options(budget=budget), transport=cli)

    shell.play(scenario)
    assert budget.spent.usd == pytest.approx(REPLY)


@shows("budgets.limits.refused")
def test_a_refused_prompt_of_an_iterable_is_no_error_of_the_iterable(shell: Shell) -> None:
    budget = Budget(usd=REPLY, prices=PRICES)
    cli = SimulatedCLI(Script(forever=True).user().says("4"), per_session=True)

    def prompts() -> Any:
        yield "What is 2 + 2?"
        while not budget.spent.usd >= REPLY:
            pass
        yield "And twice that?"

    async def scenario() -> None:
        with pytest.raises(BudgetExceededError) as raised:
            async for _ in shell.query(prompts(), Options(budget=budget), transport=cli):
                pass
        assert not raised.value.sent

    shell.play(scenario)
    assert budget.account().turns == 0


@shows("budgets.limits.warned")
def test_a_limit_warns_once(shell: Shell) -> None:
    warnings: list[StreamWarning] = []
    budget = Budget(usd=10 * REPLY, prices=PRICES, warn_at=0.5)

    async def scenario() -> None:
        for _ in range(2):
            async with session(shell, budget, on_warning=warnings.append) as talk:
                for _ in range(2):
                    await ask(talk)
        assert [warning.code for warning in warnings] == ["BUDGET_LOW"]
        assert str(warnings[0]) == "BUDGET_LOW: $0.10 of $0.20 of the budget are spent."
        assert warnings[0].context == {"key": "", "unit": "usd", "spent": pytest.approx(0.1), "limit": 0.2}
        budget.set_limits(usd=20 * REPLY)
        async with session(shell, budget, on_warning=warnings.append) as talk:
            for _ in range(2):
                await ask(talk)
        assert len(warnings) == 2

    shell.play(scenario)


@shows("budgets.limits.background")
def test_work_that_no_prompt_started(shell: Shell) -> None:
    budget = Budget(usd=2 * REPLY, prices=PRICES)
    script = Script().user().calls("Bash", {"command": "make", "run_in_background": True}).says("It runs.")
    script.task_ends().calls("Bash", {"command": "ls"}, result="README.md").calls("Bash", {"command": "ls"}).says(
        "Done."
    )
    cli = SimulatedCLI(script)

    async def scenario() -> None:
        async with session(shell, budget, cli, hooks=HOOKS, permission_mode="bypassPermissions") as talk:
            await ask(talk)
            await got(talk.wait_idle(timeout=patience(30)))
            assert [warning.code for warning in talk.warnings if warning.code.startswith("BUDGET")] == [
                "BUDGET_LOW",
                "BUDGET_SPENT",
            ]
        assert budget.spent.usd > 2 * REPLY

    shell.play(scenario)


@shows("budgets.limits.background")
def test_work_that_no_prompt_started_counts_for_the_keys_of_the_last_prompt(shell: Shell) -> None:
    budget = Budget(usd=math.inf, per={"tenant": 2 * REPLY}, prices=PRICES)
    script = Script().user().calls("Bash", {"command": "make", "run_in_background": True}).says("It runs.")
    script.task_ends().calls("Bash", {"command": "ls"}, result="README.md").calls("Bash", {"command": "ls"}).says(
        "Done."
    )

    async def scenario() -> None:
        options: dict[str, Any] = {"hooks": HOOKS, "permission_mode": "bypassPermissions"}
        async with session(shell, budget, SimulatedCLI(script), **options) as talk:
            with budget.keyed(tenant="acme"):
                await ask(talk)
            await got(talk.wait_idle(timeout=patience(30)))
            [spent] = [warning for warning in talk.warnings if warning.code == "BUDGET_SPENT"]
            assert "The budget of 'tenant=acme' is spent" in str(spent)

    shell.play(scenario)
    assert budget.account(tenant="acme").spent == budget.spent
    assert budget.spent.usd > 2 * REPLY


@shows("budgets.limits.background")
@pytest.mark.parametrize("hooks", [None, HOOKS], ids=["plain", "steered"])
def test_a_query_ends_when_work_after_its_result_reaches_the_limit(shell: Shell, hooks: Any) -> None:
    budget = Budget(usd=2 * REPLY, prices=PRICES)
    script = Script().user().calls("Bash", {"command": "make", "run_in_background": True}).says("It runs.")
    script.task_ends().calls("Bash", {"command": "ls"}, result="README.md").calls("Bash", {"command": "ls"}).says(
        "Done."
    )
    options = Options(budget=budget, hooks=hooks, permission_mode="bypassPermissions")

    async def scenario() -> None:
        with pytest.raises(BudgetExceededError) as raised:
            async for _ in each(shell.query("Build it.", options, transport=SimulatedCLI(script))):
                pass
        assert raised.value.sent
        results = [message for message in raised.value.partial.messages if message.type == "result"]
        assert results[0].text == "It runs."

    shell.play(scenario)
    assert budget.account().turns == 0


def test_warnings_can_be_off() -> None:
    warnings: list[StreamWarning] = []
    budget = Budget(usd=2 * REPLY, prices=PRICES, warn_at=None)
    sync.run("What is here?", Options(budget=budget, on_warning=warnings.append), transport=simulated())
    assert warnings == []


@shows("budgets.limits.tokens")
def test_a_budget_of_tokens_needs_no_prices(shell: Shell) -> None:
    budget = Budget(tokens=30)
    options = Options(budget=budget, model="my-model")

    async def scenario() -> None:
        assert (await shell.run("What is here?", options, transport=simulated())).text == "One file."
        with pytest.raises(BudgetExceededError) as raised:
            await shell.run("What is here?", options, transport=simulated())
        assert (raised.value.spent, raised.value.limit, raised.value.unit) == (30, 30, "tokens")
        assert "The budget is spent: 30 tokens of 30 tokens." in str(raised.value)

    shell.play(scenario)
    assert budget.remaining == Allowance(usd=None, tokens=0)


@shows("budgets.metering.unknown")
def test_a_model_without_a_price_ends_the_turn(shell: Shell) -> None:
    budget = Budget(usd=1.0)
    options = Options(budget=budget, model="my-model")

    async def scenario() -> None:
        with pytest.raises(UnknownPriceError) as raised:
            await shell.run("What is here?", options, transport=simulated())
        assert raised.value.model == "my-model"
        assert "`Budget(..., prices={'my-model': Price(input=3, output=15)})`" in str(raised.value)
        priced = options.replace(budget=Budget(usd=1.0, prices={"my-model": Price(input=3, output=15)}))
        assert (await shell.run("What is here?", priced, transport=simulated())).text == "One file."

    shell.play(scenario)


@pytest.mark.parametrize(
    ("limit", "refused"), [(1.0, True), (Allowance(usd=1.0), True), (Allowance(tokens=1000), False), (None, False)]
)
def test_a_limit_in_dollars_of_a_key_needs_prices(shell: Shell, limit: Any, refused: bool) -> None:
    """Without a price the limit of the key would never be reached."""
    budget = Budget(tokens=1000, per={"tenant": limit}).keyed(tenant="acme")
    options = Options(budget=budget, model="my-model")

    async def scenario() -> None:
        if refused:
            with pytest.raises(UnknownPriceError, match="my-model"):
                await shell.run("What is here?", options, transport=simulated())
        else:
            assert (await shell.run("What is here?", options, transport=simulated())).text == "One file."

    shell.play(scenario)


@shows("budgets.limits.keys")
def test_keys_have_limits_of_their_own(shell: Shell) -> None:
    per: dict[str, Any] = {"tenant": 2 * REPLY, "tenant=gold": Allowance(tokens=1000), "day": None}
    budget = Budget(usd=6 * REPLY, per=per, prices=PRICES)
    acme, gold = budget.keyed(tenant="acme", day="2026-11-22"), budget.keyed(tenant="gold")

    async def scenario() -> None:
        await shell.run("What is here?", Options(budget=acme), transport=simulated())
        with pytest.raises(BudgetExceededError) as raised:
            await shell.run("What is here?", Options(budget=acme), transport=simulated())
        assert raised.value.key == "tenant=acme"
        assert "The budget of 'tenant=acme' is spent: $0.04 of $0.04." in str(raised.value)
        await shell.run("What is here?", Options(budget=gold), transport=simulated())
        await shell.run("What is here?", Options(budget=gold), transport=simulated())
        with pytest.raises(BudgetExceededError) as raised:
            await shell.run("What is here?", Options(budget=gold), transport=simulated())
        assert raised.value.key == ""

    shell.play(scenario)
    assert budget.spent.usd == pytest.approx(6 * REPLY)
    assert budget.account(tenant="acme").spent.usd == pytest.approx(2 * REPLY)
    assert budget.account(day="2026-11-22").spent.tokens == 30
    assert list(budget.accounts()) == ["", "day=2026-11-22", "tenant=acme", "tenant=gold"]
    assert acme.remaining.usd == 0.0
    assert gold.remaining == Allowance(usd=0.0, tokens=1000 - 60)
    assert acme == budget.keyed(tenant="acme").budget.keyed(tenant="acme", day="2026-11-22")
    assert len({acme, gold}) == 2
    budget.reset(tenant="acme")
    assert budget.account(tenant="acme").spent == Spend(0.0, 0)
    assert budget.account(tenant="gold").spent.tokens == 60, "a reset of one key leaves the others"
    budget.reset()
    assert budget.spent == Spend(0.0, 0)


@shows("budgets.limits.keys")
@pytest.mark.parametrize("value", ["YWNtZQ==", "a=b", "="])
def test_the_limit_of_a_key_holds_for_a_value_with_an_equals_sign(shell: Shell, value: str) -> None:
    """Base64 ends with it."""
    budget = Budget(per={"tenant": 2 * REPLY, "tenant=big=1": 5.0}, prices=PRICES)
    tenant = budget.keyed(tenant=value)

    async def scenario() -> None:
        assert tenant.remaining.usd == pytest.approx(2 * REPLY)
        await shell.run("What is here?", Options(budget=tenant), transport=simulated())
        with pytest.raises(BudgetExceededError) as raised:
            await shell.run("What is here?", Options(budget=tenant), transport=simulated())
        assert raised.value.key == f"tenant={value}"

    shell.play(scenario)
    assert budget.account(tenant=value).limit == Allowance(usd=2 * REPLY)
    assert budget.account(tenant="big=1").limit == Allowance(usd=5.0)


@shows("budgets.limits.keys")
def test_prompts_inside_a_block_count_for_its_key(shell: Shell) -> None:
    budget = Budget(usd=math.inf, per={"tenant": 2 * REPLY, "user": None}, prices=PRICES)
    other = Budget(per={"tenant": 1.0})

    async def scenario() -> None:
        async with session(shell, budget) as talk:
            with budget.keyed(tenant="acme"), budget.keyed(user="u1"), other.keyed(tenant="not here"):
                await ask(talk)
                error = await raised(lambda: ask(talk), BudgetExceededError)
                assert error.key == "tenant=acme"
            with budget.keyed(tenant="other"):
                await ask(talk)
            await ask(talk)

    shell.play(scenario)
    spent = {key: account.spent.usd for key, account in budget.accounts().items()}
    assert spent == pytest.approx(
        {"": 6 * REPLY, "tenant=acme": 2 * REPLY, "tenant=other": 2 * REPLY, "user=u1": 2 * REPLY}
    )
    assert other.accounts()[""].spent.usd == 0


def test_blocks_of_tasks_are_apart() -> None:
    budget = Budget(per={"tenant": None}, prices=PRICES)
    acme = budget.keyed(tenant="acme")

    async def one(number: int) -> None:
        with acme if number % 2 else budget.keyed(tenant="other"):
            await hackamore.run("What is here?", Options(budget=budget), transport=simulated())

    async def scenario() -> None:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(one, number)

    anyio.run(scenario)
    assert budget.account(tenant="acme").spent == budget.account(tenant="other").spent
    assert budget.account(tenant="acme").spent.usd == pytest.approx(10 * REPLY)


@shows("budgets.limits.raised")
def test_a_conversation_of_a_pool_keeps_its_process_with_the_same_key() -> None:
    budget = Budget(per={"tenant": 1.0}, prices=PRICES)
    with sync.SessionPool(Options(budget=budget), transport=simulated()) as pool:
        seen = []
        for _ in range(2):
            with pool.conversation("a", budget=budget.keyed(tenant="acme")) as talk:
                seen.append(talk.send("What is here?").result().session_id)
        assert pool.stats().cold_starts == 1
        assert pool.stats().resumes == 0
    assert len(set(seen)) == 1


@shows("budgets.limits.raised")
def test_a_pool_continues_after_the_limit_is_raised(shell: Shell) -> None:
    budget = Budget(usd=REPLY, prices=PRICES, per={"tenant": 1.0})
    kind = sync.SessionPool if shell.blocking else hackamore.SessionPool

    async def scenario() -> None:
        pool = kind(Options(budget=budget, hooks=HOOKS), warm=1, transport=careful())
        async with Held(pool) as pool:
            async with Held(pool.session()) as talk:
                await raised(lambda: ask(talk), BudgetExceededError)
            async with Held(pool.session()) as talk:
                await raised(lambda: ask(talk), BudgetExceededError)
            budget.set_limits(usd=1.0)
            async with Held(pool.session(budget=budget.keyed(tenant="acme"))) as talk:
                assert (await ask(talk)).text == "One file."
        assert budget.account(tenant="acme").spent.usd == pytest.approx(3 * REPLY)
        assert budget.account().turns == 0

    shell.play(scenario)


@shows("budgets.file.restarts")
def test_spending_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    first = Budget(usd=1.0, path=path, prices=PRICES)
    sync.run("What is here?", Options(budget=first), transport=simulated())
    first.close()
    second = Budget(usd=2 * REPLY, path=str(path))
    assert second.spent.usd == pytest.approx(2 * REPLY)
    with pytest.raises(BudgetExceededError):
        sync.run("What is here?", Options(budget=second), transport=simulated())
    assert path.stat().st_mode & 0o777 == 0o600
    second.close()


@shows("budgets.file.restarts")
def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"missing/budget.db' cannot be used: .*its folder exists"):
        Budget(usd=1.0, path=tmp_path / "missing" / "budget.db")
    other = tmp_path / "other.db"
    other.write_text("this is not a database, and long enough to be taken for one" * 10)
    with pytest.raises(BudgetError, match="Check that it is a SQLite file of Hackamore"):
        Budget(usd=1.0, path=other)
    newer = tmp_path / "newer.db"
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(BudgetError, match="Update Hackamore, or use another file"):
        Budget(usd=1.0, path=newer)


@shows("budgets.file.restarts")
def test_spending_that_cannot_be_counted_ends_the_turn(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    budget = Budget(usd=1.0, path=path, prices=PRICES)

    def lose_the_file(_: object, __: object) -> None:
        budget.close()
        path.write_text("this is not a database any more, and long enough to be taken for one" * 10)

    hooks: Any = {"PreToolUse": lose_the_file}

    async def scenario() -> None:
        async with session(shell, budget, careful(), hooks=hooks) as talk:
            error = await raised(lambda: ask(talk), BudgetError)
            assert "cannot be used" in str(error)

    shell.play(scenario)
    budget.close()


@shows("budgets.file.restarts")
def test_a_message_that_cannot_be_counted_ends_the_turn(shell: Shell) -> None:
    budget = Budget(usd=1.0, prices=PRICES)
    body = {"id": "m", "role": "assistant", "model": "claude-opus-5-5", "content": [], "usage": {"input_tokens": 2**62}}
    script = Script().user().frame({"type": "assistant", "message": body})
    for _ in range(2):
        script.calls("Bash", {"command": "ls"}, result="README.md")
    cli = SimulatedCLI(script.says("One file."))

    async def scenario() -> None:
        async with session(shell, budget, cli, hooks=HOOKS) as talk:
            error = await raised(lambda: ask(talk), BudgetError)
            assert "could not be counted: OverflowError" in str(error)

    shell.play(scenario)


@shows("budgets.file.forked")
def test_a_forked_process(tmp_path: Path) -> None:
    in_memory = Budget(usd=1.0)
    shared = Budget(usd=1.0, path=tmp_path / "budget.db")

    def check() -> int:
        try:
            in_memory.account()
        except BudgetError as error:
            text = "This budget was made before the process was forked, and is kept in memory: it would not see what other processes spend."
            given = str(error).startswith(text) and str(error).endswith("a file: `Budget(path=...)`.")
            shared.charge(0.25)
            return 0 if given and shared.spent == Spend(0.25, 0) else 3
        return 4

    child = os.fork()
    if not child:
        try:
            os._exit(check())
        finally:
            os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert shared.spent == Spend(0.25, 0)
    shared.close()


@shows("budgets.limits.bad-values")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "A `Budget` needs a limit: `usd`, `tokens` or `per`"),
        ({"usd": "five"}, "`usd` must be a number of US dollars, got 'five' (str)"),
        ({"usd": -1}, "`usd` must be from 0 to 1,000,000,000 US dollars, or `math.inf` for no limit, got -1"),
        ({"usd": math.nan}, "`usd` must be from 0"),
        ({"usd": True}, "`usd` must be a number of US dollars"),
        ({"tokens": 1.5}, "`tokens` must be a whole number of tokens, got 1.5"),
        ({"tokens": -1}, "`tokens` must be from 0 to 10**15 tokens, or `math.inf` for no limit, got -1"),
        ({"tokens": 10**15 + 1}, "`tokens` must be from 0 to 10**15 tokens"),
        ({"usd": 1e9 + 1}, "`usd` must be from 0 to 1,000,000,000 US dollars"),
        ({"per": [1]}, '`per` must be a dict of limits, such as {"tenant": 2.0}, got a list'),
        ({"per": {1: 2}}, '`per` must be a dict with names of keys, such as {"tenant": 2.0}, got 1'),
        ({"per": {"no name": 2}}, "`per` must be a dict with names of keys"),
        ({"per": {"tenant": "much"}}, "`per['tenant']` must be a number of US dollars"),
        ({"per": {"tenant": Allowance(tokens=-1)}}, "`per['tenant'].tokens` must be from 0"),
        ({"usd": 1, "warn_at": 80}, "`warn_at` must be at most 1, got 80"),
        ({"usd": 1, "warn_at": 0}, "`warn_at` must be more than 0"),
        (
            {"usd": 1, "prices": 3},
            '`prices` must be a dict of prices, such as {"my-model": Price(input=3, output=15)}, got 3',
        ),
        (
            {"usd": 1, "prices": {"m": 3}},
            "`prices['m']` must be a `hackamore.Price(input=..., output=...)` in US dollars for a million tokens, got 3",
        ),
        ({"usd": 1, "prices": {"": Price(input=1, output=1)}}, "`prices` must be a dict with names of models"),
        ({"usd": 1, "path": 3}, "`path` must be a str or a path, got 3"),
        ({"usd": 1, "reserve": "x"}, "`reserve` must be a number"),
        ({"usd": 1, "reserve": -0.5}, "`reserve` must be at least 0, got -0.5"),
        ({"usd": 1, "reserve": 1e300}, "`reserve` must be at most 1,000,000,000"),
    ],
)
def test_bad_values(given: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionsError) as raised:
        Budget(**given)
    assert text in str(raised.value)


@shows("budgets.limits.bad-values")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"usd": -1}, "`usd` must be from 0"),
        ({"tokens": 1.5}, "`tokens` must be a whole number of tokens, got 1.5"),
        ({"usd": 3.0, "per": {"tenant": -1}}, "`per['tenant']` must be from 0"),
    ],
)
def test_a_bad_limit_changes_no_limit(given: dict[str, Any], text: str) -> None:
    budget = Budget(usd=1.0, per={"tenant": 2.0})
    with pytest.raises(OptionsError) as raised:
        budget.set_limits(**given)
    assert text in str(raised.value)
    assert budget.account().limit == Allowance(usd=1.0)
    assert budget.account(tenant="a").limit == Allowance(usd=2.0)


def test_limits_are_changed_one_by_one() -> None:
    assert Budget(usd=0, tokens=0).account().limit == Allowance(usd=0.0, tokens=0)
    budget = Budget(usd=1e9, tokens=10**15, per={"tenant": 2.0, "tenant=gold": Allowance(tokens=7), "day": None})
    for change, total in (
        ({"usd": 3.0}, Allowance(usd=3.0, tokens=10**15)),
        ({"tokens": 5.0}, Allowance(usd=3.0, tokens=5)),
        ({"usd": math.inf, "per": {"day": 1.0, "tenant=gold": 9.0}}, Allowance(tokens=5)),
        ({"tokens": math.inf}, Allowance()),
    ):
        budget.set_limits(**change)
        assert budget.account().limit == total
    limits = {key: budget.account(tenant=key).limit for key in ("gold", "other")}
    assert limits == {"gold": Allowance(usd=9.0), "other": Allowance(usd=2.0)}
    assert budget.account(day="1").limit == Allowance(usd=1.0)
    with pytest.raises(TypeError):
        Allowance(2.0)  # type: ignore[call-arg] # dollars, or tokens?


@shows("budgets.limits.bad-values")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, -0.5, True, "1", None, 10**400, 1e300, [1]])
@pytest.mark.parametrize("amount", ["usd", "tokens"])
def test_a_bad_amount_is_not_charged(amount: str, value: Any) -> None:
    budget = Budget(usd=5.0, tokens=100)
    budget.charge(1.0, 10)
    with pytest.raises(OptionsError, match=f"`{amount}` must be "):
        budget.charge(**{"usd": 0.0, amount: value})
    assert budget.spent == Spend(usd=1.0, tokens=10)
    with pytest.raises(OptionsError, match="`tokens` must be an int"):
        budget.charge(0.0, 1.5)  # type: ignore[arg-type]
    budget.charge(-0.25, -5, correction=True)
    assert budget.spent == Spend(usd=0.75, tokens=5)
    with pytest.raises(BudgetExceededError):
        budget.charge(4.25)


@shows("budgets.limits.bad-values")
@pytest.mark.parametrize("value", [math.nan, math.inf, -1, True, "1", 10**400, 1e300])
@pytest.mark.parametrize("name", ["input", "output", "cache_read", "cache_write_5m", "cache_write_1h"])
def test_a_bad_price_is_refused_where_it_is_made(name: str, value: Any) -> None:
    with pytest.raises(OptionsError, match=f"`{name}` must be a number of US dollars for a million tokens"):
        Price(**{"input": 1, "output": 1, name: value})
    assert Price(input=1, output=1).cache_read is None
    assert Price(input=1e9, output=0, cache_read=0.0).input == 1e9
    with pytest.raises(OptionsError, match="`input`"):
        Price(input=None, output=1)  # type: ignore[arg-type]


@shows("budgets.limits.bad-values")
def test_bad_keys() -> None:
    budget = Budget(per={"tenant": 2.0})
    with pytest.raises(
        OptionsError, match=r"no key 'user'. It has 'tenant'. Add it with a limit: `Budget\(per=\{'user': 2.0\}\)`"
    ):
        budget.keyed(user="u1")
    with pytest.raises(OptionsError, match=r"no key 'c'\. It has 'a', 'b'\. Add"):
        Budget(per={"b": 1.0, "a=1": 1.0, "a": 1.0}).keyed(c="1")
    with pytest.raises(OptionsError, match="It has none"):
        Budget(usd=1.0).account(tenant="acme")
    for value in ("", 3):
        with pytest.raises(OptionsError, match="`tenant` must be a text that is not empty"):
            budget.keyed(tenant=value)  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="`account` takes one key"):
        Budget(per={"a": 1.0, "b": 1.0}).account(a="1", b="2")
    with pytest.raises(OptionsError, match="`budget` must be an object with the method `observe`"):
        Options(budget=5.0)  # type: ignore[arg-type]


def test_reprs() -> None:
    budget = Budget(usd=1.0, per={"tenant": 2.0})
    assert repr(budget) == "Budget(usd=1.0, per={'tenant': Allowance(usd=2.0, tokens=None)})"
    assert repr(budget.keyed(tenant="acme")) == f"{budget!r}.keyed(tenant='acme')"
    assert repr(Budget(per={"a": 1.0, "b": None}).keyed(a="1", b="x=y")).endswith(".keyed(a='1', b='x=y')")
    assert Budget(usd=math.inf).remaining == Allowance()


@shows("budgets.file.lost")
@pytest.mark.parametrize("made_again", [False, True])
def test_a_file_that_is_lost_ends_the_spending(shell: Shell, tmp_path: Path, *, made_again: bool) -> None:
    path = tmp_path / "budget.db"
    budget = Budget(usd=1.0, path=path, prices=PRICES)

    lost: list[bool] = []

    def lose_the_file(_: object, __: object) -> None:
        if lost:  # the call of the second tool
            return
        lost.append(True)
        for ending in ("", "-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
        if made_again:
            Budget(usd=1.0, path=path).close()

    hooks: Any = {"PreToolUse": lose_the_file}

    async def scenario() -> None:
        async with session(shell, budget, careful(), hooks=hooks) as talk:
            for _ in range(3):  # it does not begin again at zero
                error = await raised(lambda: ask(talk), BudgetError)
                assert (
                    f"{str(path)!r} cannot be used any more: it was {'replaced' if made_again else 'deleted'}"
                    in str(error)
                )
        assert path.exists() == made_again

    shell.play(scenario)
    with pytest.raises(BudgetError, match=r"call `close\(\)`"):
        budget.account()
    budget.close()
    assert budget.spent.usd == 0.0
    budget.close()
