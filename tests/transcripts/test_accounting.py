"""Tokens are counted once, and tokens without a price are listed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import transcripts
from hackamore.budgets import PRICES
from hackamore.transcripts import Price, Tokens
from tests.contract import shows
from tests.transcripts.disk import Writer, some_id, tool_use

if TYPE_CHECKING:
    from pathlib import Path

USED = {
    "input_tokens": 100,
    "output_tokens": 10,
    "cache_read_input_tokens": 1000,
    "cache_creation_input_tokens": 50,
    "cache_creation": {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 30},
    "server_tool_use": {"web_search_requests": 2},
}
TOKENS = Tokens(input=100, output=10, cache_read=1000, cache_write_5m=30, cache_write_1h=20, web_searches=2, replies=1)


@shows("transcripts.usage.once")
def test_a_reply_in_several_entries_counts_once_with_its_last_numbers(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("go")
    writer.assistant("part", id="m1", usage={**USED, "output_tokens": 1})
    writer.assistant(tool_use("t"), id="m1", usage=USED)
    writer.assistant("Failed", id="m2", model="<synthetic>")
    os.utime(writer.save(tmp_path), (0, 0))
    report = transcripts.usage(config_dir=tmp_path)
    assert report.total.tokens == TOKENS
    assert TOKENS.total == 1160
    twice = TOKENS + TOKENS
    assert (twice.input, twice.cache_write, twice.web_searches, twice.replies) == (200, 100, 4, 2)
    assert transcripts.read(writer.session_id, config_dir=tmp_path).usage == TOKENS


@shows("transcripts.usage.once")
def test_a_fork_costs_what_it_added(tmp_path: Path) -> None:
    original = Writer()
    original.user("go")
    original.assistant("one", id="m1")
    fork = Writer()
    fork.note("queue-operation", timestamp="2027-01-01T00:00:00Z")
    fork.lines += [each.replace(original.session_id, fork.session_id) for each in original.lines]
    fork.assistant("two", id="m2", timestamp="2027-01-01T00:00:01Z")
    fork.save(tmp_path)
    original.save(tmp_path)
    rows = {row.key: row.tokens.replies for row in transcripts.usage("session", config_dir=tmp_path).rows}
    assert rows == {original.session_id: 1, fork.session_id: 1}


def test_rows_by_each_key(tmp_path: Path) -> None:
    for number, (cwd, model) in enumerate((("/a", "m-large"), ("/b", "m-small"))):
        writer = Writer(cwd=cwd)
        writer.user("go")
        for day in (1, 2):
            stamp = f"2026-11-0{day}T23:30:00.000Z"
            writer.assistant(
                "x",
                id=f"{number}-{day}",
                model=model,
                usage={"input_tokens": day * 10 ** (1 + number)},
                timestamp=stamp,
            )
        path = writer.save(tmp_path)
        agent = path.with_suffix("") / "subagents" / "deeper" / "agent-x.jsonl"
        agent.parent.mkdir(parents=True)
        side = Writer(cwd="/elsewhere")
        side.assistant(
            "x", id=f"side-{number}", model="m-sub", usage={"input_tokens": 1}, timestamp="2026-11-01T00:00:00Z"
        )
        agent.write_text(side.text)
        (path.parent / "notes.jsonl").write_text(side.text.replace("side-", "other-"))

    def rows(by: Any, **more: Any) -> dict[str, int]:
        report = transcripts.usage(by, config_dir=tmp_path, zone=UTC, **more)
        assert sum(row.tokens.input for row in report.rows) == report.total.tokens.input
        return {row.key: row.tokens.input for row in report.rows}

    assert rows("day") == {"2026-11-01": 112, "2026-11-02": 220}
    assert rows("project") == {"/b": 301, "/a": 31}
    assert rows("model") == {"m-small": 300, "m-large": 30, "m-sub": 2}
    assert sorted(rows("session").values()) == [31, 301]
    assert rows("day", project="/a") == {"2026-11-01": 11, "2026-11-02": 20}
    noon = datetime(2026, 11, 2, 12, tzinfo=UTC)
    assert rows("day", since=noon) == {"2026-11-02": 220}
    assert rows("day", until=noon) == {"2026-11-01": 112}
    later = transcripts.usage("day", config_dir=tmp_path, zone=timezone(timedelta(hours=1)))
    assert {row.key: row.tokens.input for row in later.rows} == {"2026-11-01": 2, "2026-11-02": 110, "2026-11-03": 220}
    assert [*rows("model")] == ["m-small", "m-large", "m-sub"]
    assert [[*rows(by)] for by in ("day", "project")] == [["2026-11-01", "2026-11-02"], ["/b", "/a"]]
    exact = datetime(2026, 11, 2, 23, 30, tzinfo=UTC)
    assert rows("day", since=exact) == {"2026-11-02": 220}
    assert rows("day", until=exact) == {"2026-11-01": 112}
    with pytest.raises(ValueError, match="`by` must be"):
        transcripts.usage("week", config_dir=tmp_path)  # type: ignore[arg-type]
    assert transcripts.usage(config_dir=tmp_path / "nothing").rows == []


@shows("transcripts.usage.unpriced")
def test_prices_come_from_the_caller_or_from_recorded_costs(tmp_path: Path) -> None:
    writer = Writer()
    writer.user("go")
    for model in ("known", "given", "new"):
        writer.assistant("x", id=model, model=model, usage=USED)
    # 1000 * 4 + 100 * 20 + 1000 * 0.4 + 10 * 5 + 10 * 8 dollars for a million, and a search
    recorded = {
        "inputTokens": 1000,
        "outputTokens": 100,
        "cacheReadInputTokens": 1000,
        "cacheCreationInputTokens": 20,
        "cacheCreationEphemeral1hInputTokens": 10,
        "webSearchRequests": 1,
        "costUSD": 0.00653 + 0.01,
    }
    unknown = {**recorded, "costBasis": "unknown"}
    writer.note("cost-state", totalCostUSD=1, modelUsage={"known": recorded, "new": unknown})
    writer.save(tmp_path)
    given = Price(input=1, output=2, cache_read=3, cache_write_5m=4, cache_write_1h=5)
    report = transcripts.usage("model", prices={"given": given}, config_dir=tmp_path)
    rows = {row.key: row for row in report.rows}
    assert report.prices["known"].input == pytest.approx(4)
    assert rows["known"].cost == pytest.approx((400 + 200 + 400 + 150 + 160) / 1e6 + 0.02)
    assert rows["given"].cost == pytest.approx((100 + 20 + 3000 + 120 + 100) / 1e6 + 0.02)
    assert (rows["new"].cost, rows["new"].unpriced) == (0, ("new",))
    assert report.unpriced == {"new": TOKENS}
    assert report.total.unpriced == ("new",)
    assert report.total.cost == pytest.approx(rows["known"].cost + rows["given"].cost)


def test_each_number_of_a_reply_is_the_largest_of_its_entries(tmp_path: Path) -> None:
    writer = Writer()
    writer.assistant("x", id="m", usage={"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 9})
    writer.assistant("y", id="m", usage={"input_tokens": 4, "output_tokens": 7})
    writer.lines += ['{"type":"assistant","usage', '{"type":"user","message":{"usage":{"input_tokens":1}}}', '"usage"']
    for number in (1, 2):
        writer.assistant("z", uuid=some_id(number), usage={"input_tokens": 100})
        writer.lines[-1] = writer.lines[-1].replace('"id":"msg_', '"no":"')
    writer.save(tmp_path)
    tokens = transcripts.usage(config_dir=tmp_path).total.tokens
    assert tokens == Tokens(input=205, output=7, cache_read=9, replies=3)
    assert transcripts.read(writer.session_id, config_dir=tmp_path).usage == tokens


def test_replies_without_a_time_count_without_a_day(tmp_path: Path) -> None:
    writer = Writer()
    for number, stamp in enumerate(("yesterday", "", "2026-11-01T12:00:00")):
        writer.assistant("x", id=f"m{number}", timestamp=stamp, usage={"input_tokens": 10**number})
    writer.save(tmp_path)
    rows = transcripts.usage("day", config_dir=tmp_path).rows
    assert [(row.key, row.tokens.input) for row in rows] == [("", 11), ("2026-11-01", 100)]
    limits: Any
    for limits in ({"since": datetime(2000, 1, 1)}, {"until": datetime(2100, 1, 1)}):
        assert transcripts.usage("day", config_dir=tmp_path, **limits).total.tokens.input == 100


def test_rows_of_the_same_cost_are_in_the_order_of_tokens_and_then_of_names(tmp_path: Path) -> None:
    for cwd, used in (("/c", 5), ("/b", 5), ("/a", 5), ("/z", 6)):
        writer = Writer(cwd=cwd)
        writer.assistant("x", id=cwd, usage={"input_tokens": used})
        writer.assistant("x", id=f"{cwd}2", model="priced", usage={"input_tokens": 1})
        writer.save(tmp_path)
    expensive = Writer(cwd="/y")
    expensive.assistant("x", id="y", model="priced", usage={"input_tokens": 2})
    expensive.save(tmp_path)
    report = transcripts.usage("project", prices={"priced": Price(input=1, output=1)}, config_dir=tmp_path)
    assert [row.key for row in report.rows] == ["/y", "/z", "/a", "/b", "/c"]
    assert [row.unpriced for row in report.rows] == [(), *[("claude-opus-5-5",)] * 4]
    assert (report.total.key, report.total.unpriced) == ("total", ("claude-opus-5-5",))


def test_recorded_costs_of_all_conversations_make_the_price(tmp_path: Path) -> None:
    def recorded(cost: float, tokens: int, **more: Any) -> dict[str, Any]:
        return {"inputTokens": tokens, "outputTokens": 0, "costUSD": cost, **more}

    for number, (model, *states) in enumerate(
        [
            ("known", recorded(9.0, 1), recorded(2.0, 1_000_000)),  # the last one of a file counts
            ("alias", recorded(4.0, 1_000_000, canonicalModel="known")),
            ("free", recorded(0, 1_000_000)),
            ("searches", recorded(0.01, 1_000_000, webSearchRequests=1)),
            ("nothing", recorded(1.0, 0)),
        ]
    ):
        writer = Writer()
        writer.assistant("x", id=f"m{number}", model=model, usage={"input_tokens": 1_000_000})
        for state in states:
            writer.note("cost-state", totalCostUSD=1, modelUsage={model: state})
        writer.lines += ['{"type":"x","of":"cost-state"}'] * (model == "free")
        writer.save(tmp_path)
    report = transcripts.usage("model", config_dir=tmp_path)
    costs = {row.key: pytest.approx(row.cost) for row in report.rows}
    assert costs == {"known": 3.0, "alias": 4.0, "free": 0, "searches": 0, "nothing": 0}
    assert report.unpriced.keys() == {"free", "searches", "nothing"}
    assert {name: price.output / price.input for name, price in report.prices.items()} == {"known": 5, "alias": 5}


def test_recorded_costs_of_a_listed_model_keep_the_ratios_of_the_list(tmp_path: Path) -> None:
    """Tokens from the cache cost a twentieth of others for this model, not a tenth: the CLI (2.1.330) counts by its list."""
    price = PRICES["claude-opus-5-5"]
    reading, writing = Tokens(input=1_000, cache_read=1_000_000), Tokens(input=1_000, output=50_000)
    both = reading + writing
    for name, tokens in (("reading", reading), ("writing", writing)):
        writer = Writer(cwd=f"/{name}")
        used = {
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "cache_read_input_tokens": tokens.cache_read,
        }
        writer.assistant("x", id=name, usage=used)
        recorded = {"inputTokens": both.input, "outputTokens": both.output, "cacheReadInputTokens": both.cache_read}
        state = {**recorded, "costUSD": price.cost(both), "costBasis": "list"}
        writer.note("cost-state", totalCostUSD=1, modelUsage={"claude-opus-5-5": state})
        writer.save(tmp_path)
    rows = {row.key: row.cost for row in transcripts.usage("project", config_dir=tmp_path).rows}
    assert rows == {"/reading": pytest.approx(price.cost(reading)), "/writing": pytest.approx(price.cost(writing))}
