"""Many sessions on one budget: tasks, threads and processes spend at most one model call too much each."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest

import hackamore
from hackamore import Budget, BudgetExceededError, Options, sync
from hackamore.budgets.ledger import Bounds, Ledger
from hackamore.testing import Script, SimulatedCLI
from tests.budgets import racing
from tests.budgets.racing import PRICES, REPLY, Calls, race, simulated
from tests.contract import shows
from tests.support.patience import patience

SESSIONS = 50
PROJECT = Path(__file__).resolve().parents[2]


def check(budget: Budget, calls: int, limit: float, sessions: int) -> None:
    assert limit <= budget.spent.usd <= limit + sessions * REPLY + 1e-9
    assert calls * REPLY == pytest.approx(budget.spent.usd)
    assert budget.account().turns == 0
    assert budget.reserved == hackamore.budgets.Spend(0.0, 0)


@shows("budgets.shared.overshoot")
@pytest.mark.parametrize("place", ["memory", "file"])
def test_tasks_race_for_the_last_dollar(place: str, tmp_path: Path) -> None:
    budget = Budget(usd=1.0, prices=PRICES, path=tmp_path / "budget.db" if place == "file" else None)
    calls = anyio.run(race, Options(budget=budget), SESSIONS)
    check(budget, calls, 1.0, SESSIONS)
    budget.close()


@shows("budgets.shared.overshoot")
def test_threads_race_for_the_last_dollar(tmp_path: Path) -> None:
    budget = Budget(usd=1.0, prices=PRICES, path=tmp_path / "budget.db")
    counts: list[int] = []

    def spend() -> None:
        calls = Calls()
        with sync.Session(Options(budget=budget), transport=simulated()) as session:
            messages = session.messages()
            while True:
                try:
                    session.send("What is here?").result()
                except BudgetExceededError as error:
                    if not error.sent:
                        break
            session.finish()
            for message in messages:
                calls.see(message)
        counts.append(calls.count)

    threads = [threading.Thread(target=spend) for _ in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(60))
    assert len(counts) == SESSIONS
    check(budget, sum(counts), 1.0, SESSIONS)
    budget.close()


@shows("budgets.file.processes")
def test_processes_race_for_the_last_dollar(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", racing.__name__, str(path), "1.0", "12"],
            stdout=subprocess.PIPE,
            cwd=PROJECT,
            text=True,
        )
        for _ in range(4)
    ]
    counts = [int(program.communicate(timeout=patience(90))[0]) for program in programs]
    budget = Budget(usd=1.0, path=path)
    check(budget, sum(counts), 1.0, 48)
    budget.close()


@shows("budgets.shared.reserved")
def test_only_one_starts_on_the_last_cent() -> None:
    budget = Budget(usd=REPLY / 2, prices=PRICES, reserve=REPLY)
    script = Script(forever=True).user().says("4")
    refused: list[BudgetExceededError] = []
    answers: list[str] = []

    async def one(everyone: anyio.Event) -> None:
        cli = SimulatedCLI(script, per_session=True)
        async with hackamore.Session(Options(budget=budget), transport=cli) as session:
            try:
                turn = await session.send("What is 2 + 2?")
            except BudgetExceededError as error:
                refused.append(error)
                if len(refused) == SESSIONS - 1:
                    everyone.set()
                return
            with anyio.fail_after(patience(30)):
                await everyone.wait()
            answers.append((await turn.result()).text)

    async def all_of_them() -> None:
        everyone = anyio.Event()
        async with anyio.create_task_group() as group:
            for _ in range(SESSIONS):
                group.start_soon(one, everyone)

    anyio.run(all_of_them)
    assert answers == ["4"]
    assert {error.sent for error in refused} == {False}
    assert refused[0].reserved == pytest.approx(REPLY)
    assert "Wait until one of them ends" in str(refused[0])
    assert budget.spent.usd == pytest.approx(REPLY)


HANGS = """
import sys, threading
import hackamore.sync
from hackamore import Budget, Options
from hackamore.budgets.ledger import Bounds, Ledger
from hackamore.testing import Script, SimulatedCLI

budget = Budget(usd=10.0, per={"tenant": 1.0}, path=sys.argv[1], reserve=1.0).keyed(tenant="acme")
session = hackamore.sync.Session(Options(budget=budget), transport=SimulatedCLI(Script().user().hang()))
session.start()
turn = session.send("Work.")
print("sent", flush=True)
threading.Event().wait()
"""


@shows("budgets.file.killed")
def test_a_killed_process_releases_its_reservation(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    budget = Budget(usd=10.0, per={"tenant": 1.0}, path=path)
    options = Options(budget=budget.keyed(tenant="acme"))
    with closing(Ledger(str(path))) as running:
        assert running.reserve("turn", [("", Bounds(None, None))], 5, (5, 5)) is None
        with subprocess.Popen([sys.executable, "-c", HANGS, str(path)], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "sent\n"
            assert [account.turns for account in budget.accounts().values()] == [2, 1]
            assert budget.account(tenant="acme").remaining.usd == 0.0
            with pytest.raises(BudgetExceededError, match=r"reserved \$1.00"):
                sync.run("What is here?", options, transport=simulated())
            program.send_signal(signal.SIGKILL)
            program.wait(patience(30))
            assert [account.turns for account in budget.accounts().values()] == [1]
            assert sync.run("What is here?", options, transport=simulated()).text == "One file."
        assert budget.account().turns == 1  # that of the program that runs
    budget.close()
