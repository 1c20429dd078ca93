"""The meter: frames of a process in, its cost out."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import pytest

from hackamore import Price
from hackamore.activity.metering import Meter
from hackamore.activity.prices import PRICES, Tokens, price_of, short_name
from hackamore.messages import Message, from_data
from tests.contract import shows
from tests.support.patience import patience

OPUS = "claude-opus-5-5"
_uuids = count()


def take(meter: Meter, *frames: dict[str, Any]) -> None:
    for frame in frames:
        message = from_data({"uuid": f"uuid-{next(_uuids)}", "session_id": "s", **frame})
        assert isinstance(message, Message)
        meter.take(message)


def reply(key: str, text: str = "", *, model: str = OPUS, parent: str | None = None, **usage: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    body = {"id": key, "model": model, "role": "assistant", "content": content, "usage": {"output_tokens": 1, **usage}}
    return {"type": "assistant", "message": body, "parent_tool_use_id": parent}


def event(event: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent}


def used(tokens_in: int, tokens_out: int, cost: float, **more: Any) -> dict[str, Any]:
    return {"inputTokens": tokens_in, "outputTokens": tokens_out, "costUSD": cost, "costBasis": "list", **more}


def result(since: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    counted = {} if since is None else {"model_usage_since_last_result": since}
    return {"type": "result", "subtype": "success", "is_error": False, **counted, **more}


@shows("budgets.metering.once")
def test_a_reply_counts_once() -> None:
    meter = Meter({})
    usage: dict[str, Any] = {
        "input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        "server_tool_use": {"web_search_requests": 2},
    }
    take(meter, reply("a", **usage), reply("a", **usage))
    assert meter.tokens == 1401
    assert meter.replies == 1
    assert meter.usd == pytest.approx((100 * 4 + 20 + 1000 * 0.2 + 100 * 5 + 200 * 8) / 1e6 + 0.02)


@shows("budgets.metering.once")
def test_written_tokens_are_estimated_from_the_content() -> None:
    meter = Meter({})
    take(meter, reply("a", "x" * 300, input_tokens=10), reply("a", "y" * 300, input_tokens=10))
    assert meter.tokens == 10 + 200
    take(meter, reply("a", output_tokens=500, input_tokens=10))
    assert meter.tokens == 510


@shows("budgets.metering.once")
def test_content_that_the_model_does_not_write_is_not_estimated() -> None:
    meter = Meter({})
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    frame = reply("a", "x" * 300, input_tokens=10)
    frame["message"]["content"] += [{"type": "redacted_thinking", "data": "x" * 90}, found, found]
    take(meter, frame)
    assert meter.tokens == 10 + 100


@shows("budgets.metering.once")
def test_what_the_api_does_not_say_costs_nothing() -> None:
    meter = Meter({})
    usage: dict[str, Any] = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_input_tokens": None,
        "cache_creation_input_tokens": None,
        "cache_creation": {"ephemeral_5m_input_tokens": None, "ephemeral_1h_input_tokens": None},
        "server_tool_use": {"web_search_requests": None},
    }
    take(meter, reply("a", **usage), reply("b", output_tokens=0, cache_creation={}, server_tool_use={}))
    assert (meter.usd, meter.tokens, meter.replies) == (0.0, 0, 2)


@shows("budgets.metering.once")
def test_what_the_cli_says_itself_costs_nothing() -> None:
    meter = Meter({})
    take(meter, reply("a", "Not logged in", model="<synthetic>", input_tokens=10), {"type": "assistant", "message": {}})
    assert (meter.usd, meter.tokens, meter.unpriced) == (0.0, 0, None)


@shows("budgets.metering.partial")
def test_partial_messages_have_the_written_tokens() -> None:
    meter = Meter({})
    start = {
        "type": "message_start",
        "message": {"id": "a", "model": OPUS, "usage": {"input_tokens": 10, "output_tokens": 1}},
    }
    take(meter, event(start), reply("a", "x" * 3000, input_tokens=10))
    assert meter.tokens == 1010
    take(meter, event({"type": "message_delta", "usage": {"output_tokens": 50}}))
    assert meter.tokens == 60
    assert meter.usd == pytest.approx((10 * 4 + 50 * 20) / 1e6)
    take(meter, event({"type": "message_delta", "usage": "odd"}), event({"type": "message_start"}), event({}))
    assert meter.tokens == 60


@shows("budgets.metering.partial")
def test_partial_messages_of_subagents_come_between_those_of_the_conversation() -> None:
    meter = Meter({})
    for key, parent in (("a", None), ("b", "toolu_1"), ("c", "toolu_2")):
        usage = {"input_tokens": 10, "output_tokens": 1}
        take(meter, event({"type": "message_start", "message": {"id": key, "model": OPUS, "usage": usage}}, parent))
    for parent, written in (("toolu_1", 100), (None, 500), ("toolu_2", 20)):
        take(meter, event({"type": "message_delta", "usage": {"output_tokens": written}}, parent))
    assert meter.tokens == 3 * 10 + 100 + 500 + 20
    assert meter.usd == pytest.approx((30 * 4 + 620 * 20) / 1e6)


@shows("budgets.metering.result")
def test_a_result_replaces_estimates() -> None:
    meter = Meter({})
    take(
        meter, reply("a", "x" * 3000, input_tokens=100), result({OPUS: used(100, 50, 0.0014), "title": used(7, 3, 0.1)})
    )
    assert meter.usd == pytest.approx(0.1014)
    assert meter.tokens == 160
    assert meter.call == pytest.approx((0.1014, 160))
    take(meter, reply("b", input_tokens=100))
    assert meter.usd == pytest.approx(0.1014 + (100 * 4 + 20) / 1e6)
    assert meter.call is None
    take(meter, result({OPUS: used(100, 9, 0.00058)}))
    assert meter.usd == pytest.approx(0.1014 + 0.00058)


@shows("budgets.metering.result")
def test_a_background_reply_that_is_not_in_a_result_stays() -> None:
    meter = Meter({})
    take(meter, reply("a", input_tokens=100), reply("b", input_tokens=1000, parent="toolu_1"))
    take(meter, result({OPUS: used(100, 50, 0.0014)}))
    assert meter.usd == pytest.approx(0.0014 + 1000 * 4 / 1e6)
    take(meter, result({OPUS: used(1000, 500, 0.014)}))
    assert meter.usd == pytest.approx(0.0154)
    assert meter.tokens == 1650


@shows("budgets.metering.result")
@pytest.mark.parametrize("split", [{}, {"cacheCreationEphemeral1hInputTokens": 200}])
def test_all_kinds_of_tokens_of_a_background_reply_stay(split: dict[str, int]) -> None:
    """A result does not contain a subagent in the background: its reads, cache writes and searches must not vanish until it is over."""
    meter = Meter({})
    usage: dict[str, Any] = {
        "input_tokens": 10,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        "server_tool_use": {"web_search_requests": 2},
    }
    take(meter, reply("a", input_tokens=100), reply("b", parent="toolu_1", **usage))
    take(meter, result({OPUS: used(100, 50, 0.0014)}))
    assert meter.tokens == 150 + 1310
    assert meter.usd == pytest.approx(0.0014 + (10 * 4 + 1000 * 0.2 + 100 * 5 + 200 * 8) / 1e6 + 0.02)
    written = {"cacheReadInputTokens": 1000, "cacheCreationInputTokens": 300, "webSearchRequests": 2, **split}
    take(meter, result({OPUS: used(10, 500, 0.04, **written)}))
    assert meter.tokens == 150 + 1810
    assert meter.usd == pytest.approx(0.0414)


@shows("budgets.metering.result")
def test_a_frame_that_comes_after_the_result_takes_nothing_back() -> None:
    meter = Meter({})
    take(meter, reply("a", "x" * 3000, input_tokens=10))
    assert meter.tokens == 1010
    take(meter, result({OPUS: used(10, 900, 0.02)}))
    take(meter, reply("a", input_tokens=10))
    assert (meter.usd, meter.tokens) == (0.02, 910)


@shows("budgets.metering.result")
def test_a_result_tells_the_mean_of_its_calls() -> None:
    meter = Meter({})
    take(meter, reply("a", input_tokens=100), reply("b", input_tokens=100), result({OPUS: used(200, 60, 0.5)}))
    assert meter.call == pytest.approx((0.25, 130))
    take(meter, reply("c", input_tokens=100), result({OPUS: used(100, 20, 0.125)}))
    assert meter.call == pytest.approx((0.125, 120))
    take(meter, result({OPUS: used(100, 20, 0.125)}))  # of no reply, such as a title
    assert meter.call is None


@shows("budgets.metering.result")
def test_older_clis_report_totals() -> None:
    meter = Meter({})
    take(meter, result(modelUsage={OPUS: used(100, 50, 1.0)}, total_cost_usd=1.0))
    take(meter, result(modelUsage={OPUS: used(300, 60, 1.5)}, total_cost_usd=1.5))
    assert (meter.usd, meter.tokens) == (1.5, 360)
    take(meter, result(modelUsage={OPUS: used(10, 6, 0.25)}, total_cost_usd=0.25))  # after /clear
    assert (meter.usd, meter.tokens) == (1.75, 376)


@shows("budgets.metering.result")
def test_the_oldest_clis_report_no_models() -> None:
    meter = Meter({})
    usage = {"input_tokens": 100, "output_tokens": 10}
    take(meter, result(total_cost_usd=1.0, usage=usage), result(total_cost_usd=1.5, usage=usage))
    assert (meter.usd, meter.tokens) == (1.5, 220)


@shows("budgets.metering.prices")
def test_prices_of_the_caller_win() -> None:
    meter = Meter({OPUS: Price(input=10, output=100)})
    take(meter, reply("a", input_tokens=1000), result({OPUS: used(1000, 100, 5.0)}))
    assert meter.usd == pytest.approx(0.02)


@shows("budgets.metering.unknown")
def test_an_unknown_model_is_named() -> None:
    meter = Meter({})
    take(meter, reply("a", model="mine", input_tokens=1000))
    assert meter.unpriced == "mine"
    take(meter, reply("a", "more", model="mine", input_tokens=1000))
    assert meter.unpriced == "mine"
    take(meter, reply("b", input_tokens=0), result({"mine": used(1000, 1, 0.5, costBasis="unknown")}))
    assert meter.unpriced is None
    assert meter.usd == pytest.approx(0.5, rel=0.01)  # the guess of the CLI is better than nothing


@shows("budgets.metering.prices")
@pytest.mark.parametrize(
    "name",
    [
        "claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        "claude-haiku-4-5@20251001",
        "us.anthropic.claude-haiku-4-5-20251001-v1:0",
        "anthropic/claude-haiku-4-5-latest",
        "claude-haiku-4-5[1m]",
    ],
)
def test_dates_and_regions_do_not_count(name: str) -> None:
    assert short_name(name) == "claude-haiku-4-5"
    assert price_of(name, {}) == PRICES["claude-haiku-4-5"]
    own = Price(input=7, output=7)
    assert price_of(name, {"claude-haiku-4-5": own}) == own
    assert price_of(name, {"claude-haiku-4-5": Price(input=1, output=1), name: own}) == own


@shows("budgets.metering.prices")
def test_the_price_list() -> None:
    """Dollars for a million tokens that are read, written, read from the cache, and written to it for five minutes and for an hour."""
    kinds = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    found: dict[tuple[float, ...], list[str]] = {}
    for model, price in PRICES.items():
        row = tuple(round(price.cost(Tokens(**{kind: 1_000_000})), 9) for kind in kinds)
        found.setdefault(row, []).append(model.removeprefix("claude-"))
    assert found == {
        (4, 20, 0.2, 5, 8): ["opus-5-5"],
        (5, 25, 0.5, 6.25, 10): ["opus-5", "opus-4-8", "opus-4-7", "opus-4-6", "opus-4-5"],
        (2, 10, 0.1, 2.5, 4): ["sonnet-5-5"],
        (2, 10, 0.2, 2.5, 4): ["sonnet-5"],
        (3, 15, 0.3, 3.75, 6): ["sonnet-4-6", "sonnet-4-5", "sonnet-4-0", "sonnet-4", "3-7-sonnet"],
        (8, 40, 0.2, 10, 16): ["fable-5-2", "mythos-5-2"],
        (10, 50, 0.25, 12.5, 20): ["fable-5-1", "mythos-5-1"],
        (10, 50, 1, 12.5, 20): ["fable-5", "mythos-5"],
        (0.1, 0.5, 0.01, 0.125, 0.2): ["haiku-5-5"],
        (1, 5, 0.1, 1.25, 2): ["haiku-4-5"],
        (0.8, 4, 0.08, 1, 1.6): ["3-5-haiku"],
    }


@pytest.mark.parametrize("kind", ["cache_read", "cache_write_5m", "cache_write_1h"])
def test_a_price_of_the_cache_replaces_the_usual_part_of_the_input(kind: str) -> None:
    tokens = Tokens(**{kind: 1_000_000})
    assert Price(input=7, output=9, **{kind: 0.0}).cost(tokens) == 0
    assert Price(input=7, output=9, **{kind: 3.0}).cost(tokens) == 3
    assert Price(input=0, output=0).cost(Tokens(web_searches=3)) == pytest.approx(0.03)


def test_many_replies_need_little_memory() -> None:
    meter = Meter({})
    for number in range(3_000):
        take(meter, reply(str(number), input_tokens=1))
    assert meter.tokens == 6_000
    take(meter, reply("2999", input_tokens=1))  # known
    assert meter.replies == 3_000
    take(meter, reply("0", input_tokens=1))  # forgotten
    assert meter.replies == 3_001


def test_a_long_name_of_a_model_takes_no_time() -> None:
    model = f"claude-x{'-v1' * 10_000}!"
    began = time.process_time()
    assert short_name(model) == model
    assert time.process_time() - began < patience(0.3)
