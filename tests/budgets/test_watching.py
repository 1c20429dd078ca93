"""The watch of a session by itself: a list of events in, reservations and charges out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from hackamore import Budget, HackamoreError, Options
from hackamore.budgets.amounts import Allowance, Spend
from hackamore.budgets.book import Book, Limits
from hackamore.budgets.ledger import Ledger, Row
from hackamore.budgets.watching import Watch
from hackamore.messages import Message, from_data


class Talk:
    """A session that ends turns as it is told to."""

    kind: Literal["query", "session"] = "session"
    model: str | None = None
    options = Options()
    session_id: str | None = None

    def __init__(self) -> None:
        self.ended: list[str | None] = []

    def warn(self, code: str, message: str, **context: object) -> None:
        pass

    def end_turn(self, turn_id: str | None, error: HackamoreError) -> None:
        self.ended.append(turn_id)


def calls(key: str) -> Message:
    content = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    usage = {"input_tokens": 100, "output_tokens": 1}
    body = {"id": key, "model": "claude-opus-5-5", "role": "assistant", "content": content, "usage": usage}
    message = from_data({"type": "assistant", "uuid": key, "session_id": "s", "message": body})
    assert isinstance(message, Message)
    return message


def test_a_turn_that_is_queued_again_keeps_its_reservation_and_its_keys() -> None:
    budget = Budget(usd=1.0, per={"tenant": 1.0}, reserve=0.25)
    watch = budget.observe(Talk())
    with budget.keyed(tenant="one"):
        watch.prompt_sending("a", "go")
    with budget.keyed(tenant="two"):
        watch.prompt_sending("b", "go")
    for state in ("started", "queued", "started"):
        watch.turn_changed("a", state, None)
        assert budget.reserved.usd == 0.5
    watch.messages_received([calls("m")], ("a",))
    assert budget.account(tenant="one").spent.usd > 0
    assert budget.account(tenant="two").spent.usd == 0
    watch.turn_changed("a", "completed", None)
    assert budget.reserved.usd == 0.25


def test_a_block_ends_and_leaves_those_around_it() -> None:
    budget = Budget(per={"tenant": 1.0, "user": 1.0, "day": 1.0}, reserve=0.25)
    watch = budget.keyed(day="1").observe(Talk())
    with budget.keyed(tenant="a"):
        with budget.keyed(user="u"), budget.keyed(tenant="b"):
            watch.prompt_sending("inner", "go")
        watch.prompt_sending("outer", "go")
    watch.prompt_sending("none", "go")
    reserved = {key: account.reserved.usd for key, account in budget.accounts().items()}
    assert reserved == {"": 0.75, "day=1": 0.75, "tenant=a": 0.5, "tenant=b": 0.25, "user=u": 0.25}


def test_a_key_that_is_named_twice_counts_once() -> None:
    budget = Budget(per={"tenant": 1.0}, reserve=0.25)
    watch = budget.keyed(tenant="a").observe(Talk())
    with budget.keyed(tenant="a"), budget.keyed(tenant="a"):
        watch.prompt_sending("turn", "go")
    watch.messages_received([calls("m")], ("turn",))
    account = budget.account(tenant="a")
    assert (account.reserved.usd, account.turns) == (0.25, 1)
    assert account.spent == budget.spent
    assert budget.spent.usd > 0


def test_turns_that_are_over_leave_nothing() -> None:
    budget = Budget(tokens=1)
    talk = Talk()
    states = ["completed", "interrupted", "failed"]
    watch = budget.observe(talk)
    for state in states:
        watch.prompt_sending(state, "go")
        watch.messages_received([calls(state)], (state,))
        watch.turn_changed(state, state, None)
        budget.reset()
    assert talk.ended == states
    tables = {name: table for name, table in vars(watch).items() if isinstance(table, (dict, set))}
    assert len(tables) == 3
    assert not any(tables.values())


def test_calls_that_were_made_and_their_turns_are_told_to_the_ledger() -> None:
    charged: list[tuple[Sequence[str], Any]] = []

    class Noting(Ledger):
        def charge(self, turns: Sequence[str], keys: Any, usd: int, tokens: int, call: Any = None) -> Any:
            charged.append((turns, call))
            return super().charge(turns, keys, usd, tokens, call)

    ledger = Noting(None)
    book = Book(Limits(Allowance(usd=1.0), {}), warn_at=None, prices={}, reserve=None, ledger=lambda: ledger)
    watch = Watch(book, Talk(), ())
    watch.prompt_sending("a", "go")
    assert book.accounts([""])[0].reserved == Spend(0.05, 20_000)
    usage = {"inputTokens": 100, "outputTokens": 100, "costUSD": 0.25, "costBasis": "list"}
    frame = {"type": "result", "subtype": "success", "is_error": False, "uuid": "r", "session_id": "s"}
    end = from_data({**frame, "model_usage_since_last_result": {"claude-opus-5-5": usage}})
    assert isinstance(end, Message)
    watch.messages_received([calls("m"), end], ("a",))
    watch.turn_changed("a", "completed", None)
    [(first, none), (second, call)] = charged
    assert (none, call) == (None, (0.25e9, 200))
    watch.prompt_sending("b", "go")
    assert book.accounts([""])[0].reserved == Spend(0.25, 200)
    assert first == second
    assert first[0].endswith("/a")


def test_spending_that_could_not_be_written_is_charged_with_the_next_message(tmp_path: Path) -> None:
    path, away = tmp_path / "budget.db", tmp_path / "away"
    with Budget(usd=1.0, path=path) as budget:
        talk = Talk()
        watch = budget.observe(talk)
        watch.prompt_sending("a", "go")
        path.rename(away)
        watch.messages_received([calls("first")], ("a",))
        assert talk.ended == ["a"]
        away.rename(path)
        budget.close()
        assert budget.spent == Spend(0.0, 0)
        watch.messages_received([calls("second")], ("a",))
        assert budget.spent == Spend(0.00084, 2 * 101)


def test_keys_without_a_limit_are_not_looked_up() -> None:
    looked: list[Sequence[str]] = []

    class Noting(Ledger):
        def spent(self, keys: Sequence[str]) -> list[Row]:
            looked.append(keys)
            return super().spent(keys)

    def book(**per: Any) -> Book:
        limits = Limits(Allowance(), {name: Allowance(usd=usd) for name, usd in per.items()})
        return Book(limits, warn_at=None, prices={}, reserve=None, ledger=lambda: Noting(None))

    assert book(tenant=None).over(("tenant=one", "")) is None
    assert looked == []
    error = book(tenant=0.0, day=None).over(("day=1", "tenant=one", ""))
    assert error is not None
    assert error.key == "tenant=one"
    assert looked == [("tenant=one",)]
