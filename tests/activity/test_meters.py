"""One table of replies and results, read by every meter: they agree on tokens and cost.

The expected numbers are those of Claude Code 2.1.330, and of 2.0.0 and 1.0.33 where that is said (`test_real_cli.py`).
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.activity.replies import Fresh, Replies, Reply
from tests.activity.meters import LIVE, METERS, Frame, Tokens, expected

if TYPE_CHECKING:
    from pathlib import Path

OPUS, HAIKU = "claude-opus-5-5", "claude-haiku-4-5"
_numbers = count()


def reply(
    key: str | None, tokens_in: int = 100, out: int = 10, *, model: str = OPUS, parent: str | None = None, **more: Any
) -> Frame:
    own = more.pop("uuid", None) or f"00000000-0000-4000-8000-{next(_numbers):012}"
    usage = {"usage": {"input_tokens": tokens_in, "output_tokens": out, **more}} if tokens_in >= 0 else {}
    body = {
        "model": model,
        "role": "assistant",
        "content": [{"type": "text", "text": ""}],
        "stop_reason": "end_turn",
        **usage,
    }
    if key is not None:
        body["id"] = key
    return {"type": "assistant", "message": body, "parent_tool_use_id": parent, "session_id": "s", "uuid": own}


def writes(total: int | None, short: int | None = None, long: int | None = None) -> dict[str, Any]:
    split = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    given = {name: each for name, each in split.items() if each is not None}
    totals = {} if total is None else {"cache_creation_input_tokens": total}
    return {**totals, **({"cache_creation": given} if given else {})}


def event(kind: str, parent: str | None = None, **fields: Any) -> Frame:
    return {
        "type": "stream_event",
        "event": {"type": kind, **fields},
        "parent_tool_use_id": parent,
        "session_id": "s",
        "uuid": f"e{next(_numbers)}",
    }


def start(key: str, tokens_in: int, parent: str | None = None) -> Frame:
    message = {"id": key, "model": OPUS, "usage": {"input_tokens": tokens_in, "output_tokens": 1}}
    return event("message_start", parent, message=message)


def used(tokens_in: int, out: int, usd: float, *, written: int = 0, long: int = 0, read: int = 0) -> dict[str, Any]:
    return {
        "inputTokens": tokens_in,
        "outputTokens": out,
        "cacheReadInputTokens": read,
        "cacheCreationInputTokens": written,
        "cacheCreationEphemeral1hInputTokens": long,
        "costUSD": usd,
        "costBasis": "list",
    }


def result(
    since: dict[str, Any] | None, totals: dict[str, Any] | None, usd: float, main: tuple[int, int] = (0, 0)
) -> Frame:
    """A result: `main` has the tokens of the main conversation in this turn, which are zero if it was interrupted."""
    more = {} if since is None else {"model_usage_since_last_result": since}
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": "s",
        "uuid": f"r{next(_numbers)}",
        "total_cost_usd": usd,
        "usage": {"input_tokens": main[0], "output_tokens": main[1]},
        **({} if totals is None else {"modelUsage": totals}),
        **more,
    }


ONE = Tokens(input=100, output=10, replies=1)

REPLIES: dict[str, tuple[list[Frame], dict[str, Tokens]]] = {
    "one reply": ([reply("a")], {OPUS: ONE}),
    "two replies": ([reply("a"), reply("b")], {OPUS: ONE + ONE}),
    "one reply in three frames": ([reply("a"), reply("a"), reply("a")], {OPUS: ONE}),
    "a usage that grows": ([reply("a", out=1), reply("a", out=4), reply("a")], {OPUS: ONE}),
    "a usage that shrinks": ([reply("a"), reply("a", tokens_in=50, out=1)], {OPUS: ONE}),
    "a reply that comes again after another one": ([reply("a"), reply("b"), reply("a")], {OPUS: ONE + ONE}),
    "replies without an id": ([reply(None), reply(None)], {OPUS: ONE + ONE}),
    "a reply without an id that comes twice": (2 * [reply(None, uuid="00000000-0000-4000-8000-0000000000aa")], {OPUS: ONE}),
    "a reply without usage": ([reply("a", -1), reply("b")], {OPUS: ONE}),
    "a text of the CLI itself": ([reply("a"), reply("x", 7, 7, model="<synthetic>")], {OPUS: ONE}),
    "only a text of the CLI itself": ([reply("x", 0, 0, model="<synthetic>")], {}),
    "a cache": (
        [reply("a", cache_read_input_tokens=1000, **writes(300, 100, 200))],
        {OPUS: ONE + Tokens(cache_read=1000, cache_write_5m=100, cache_write_1h=200)},
    ),
    "cache writes without their times": ([reply("a", **writes(1000))], {OPUS: ONE + Tokens(cache_write_5m=1000)}),
    "cache writes with times for a part": (
        [reply("a", **writes(1000, 100, 200))],
        {OPUS: ONE + Tokens(cache_write_5m=800, cache_write_1h=200)},
    ),
    "cache writes with one time": (
        [reply("a", **writes(1000, None, 200))],
        {OPUS: ONE + Tokens(cache_write_5m=800, cache_write_1h=200)},
    ),
    "times of cache writes that are more than all": (
        [reply("a", **writes(100, 100, 200))],
        {OPUS: ONE + Tokens(cache_write_1h=100)},
    ),
    "times of cache writes without a total": (
        [reply("a", **writes(0, 100, 200)), reply("b", **writes(None, 100, 200))],
        {OPUS: ONE + ONE + Tokens(cache_write_5m=200, cache_write_1h=400)},
    ),
    "null for every number of the cache": (
        [reply("a", cache_read_input_tokens=None, cache_creation_input_tokens=None, cache_creation=None)],
        {OPUS: ONE},
    ),
    "searches": (
        [reply("a", server_tool_use={"web_search_requests": 2})],
        {OPUS: ONE + Tokens(web_searches=2)},
    ),
    "subagents": (
        [reply("a"), reply("b", parent="toolu_1"), reply("c", parent="toolu_2"), reply("b", parent="toolu_1"), reply("a")],
        {OPUS: ONE + ONE + ONE},
    ),
    "several models": ([reply("a"), reply("b", model=HAIKU), reply("c", model="mine")], {OPUS: ONE, HAIKU: ONE, "mine": ONE}),
    "a model with a date": ([reply("a", model=f"{HAIKU}-20251001")], {HAIKU: ONE}),
}  # fmt: skip

RESULTS: dict[str, tuple[Any, ...]] = {
    "partial messages": (
        [start("a", 100), reply("a", out=1), event("message_delta", usage={"output_tokens": 50})],
        {OPUS: Tokens(input=100, output=50, replies=1)},
        0.0014,
    ),
    "partial messages of two agents": (
        [
            start("a", 100),
            start("b", 100, "toolu_1"),
            event("message_delta", "toolu_1", usage={"output_tokens": 5}),
            event("message_delta", usage={"output_tokens": 50}),
        ],
        {OPUS: Tokens(input=200, output=55, replies=2)},
        0.0019,
    ),
    "an interrupted reply": (
        [reply("a", 300, 1), result({OPUS: used(300, 5, 0.0013)}, {OPUS: used(300, 5, 0.0013)}, 0.0013)],
        {OPUS: Tokens(input=300, output=5)},
        0.0013,
    ),
    "a subagent whose last reply leaves no frame": (
        [
            reply("a", out=1),
            reply("b", 1000, 1, parent="toolu_1"),
            reply("c", 200, 1),
            result({OPUS: used(3300, 330, 0.0198)}, {OPUS: used(3300, 330, 0.0198)}, 0.0198, (300, 30)),
        ],
        {OPUS: Tokens(input=3300, output=330)},
        0.0198,
    ),
    "a subagent that is not in a result yet": (
        [
            reply("a", out=1),
            reply("b", 1000, 10, parent="toolu_1"),
            result({OPUS: used(100, 50, 0.0014)}, {OPUS: used(100, 50, 0.0014)}, 0.0014, (100, 50)),
        ],
        {OPUS: Tokens(input=1100, output=50)},
        0.0014,
        0.004,
    ),
    "two turns": (
        [
            reply("a", out=1),
            result({OPUS: used(100, 10, 0.0006)}, {OPUS: used(100, 10, 0.0006)}, 0.0006, (100, 10)),
            reply("b", 200, 1),
            result({OPUS: used(200, 20, 0.0012)}, {OPUS: used(300, 30, 0.0018)}, 0.0018, (200, 20)),
        ],
        {OPUS: Tokens(input=300, output=30)},
        0.0018,
    ),
    "a resumed conversation, whose totals have its earlier turns": (
        [reply("a", out=1), result({OPUS: used(100, 10, 0.0006)}, {OPUS: used(9100, 910, 1.0)}, 1.0, (100, 10))],
        {OPUS: ONE},
        0.0006,
    ),
    "a cache in the result": (
        [
            result(
                {OPUS: used(100, 10, 0.0072, written=1000, long=200, read=2000)},
                {OPUS: used(100, 10, 0.0072, written=1000, long=200, read=2000)},
                0.0072,
                (100, 10),
            )
        ],
        {OPUS: Tokens(input=100, output=10, cache_read=2000, cache_write_5m=800, cache_write_1h=200)},
        0.0072,
    ),
    "a title, in the result alone": (
        [
            reply("a", out=1),
            result({OPUS: used(100, 10, 0.0006), HAIKU: used(7, 3, 0.000022)}, {OPUS: used(100, 10, 0.0006)}, 0.000622, (100, 10)),
        ],
        {OPUS: ONE, HAIKU: Tokens(input=7, output=3)},
        0.000622,
    ),
    "a title before a subagent that is not in a result yet": (
        [
            reply("a", out=1),
            result({OPUS: used(100, 10, 0.0006), HAIKU: used(7000, 3, 0.007)}, None, 0.0076, (100, 10)),
            reply("b", 1000, 10, parent="toolu_1"),
            result({}, None, 0.0076, (0, 0)),
        ],
        {OPUS: Tokens(input=1100, output=20), HAIKU: Tokens(input=7000, output=3)},
        0.0076,
        0.0042,
    ),
    "2.0.0: totals of the process, which begin at zero": (
        [
            reply("a"),
            result(None, {OPUS: used(100, 10, 0.0006)}, 0.0006, (100, 10)),
            reply("b", 200, 20),
            result(None, {OPUS: used(300, 30, 0.0018)}, 0.0018, (200, 20)),
        ],
        {OPUS: Tokens(input=300, output=30)},
        0.0018,
    ),
    "2.0.0: totals after /clear": (
        [
            result(None, {OPUS: used(300, 30, 0.0018)}, 0.0018, (300, 30)),
            result(None, {OPUS: used(100, 10, 0.0006)}, 0.0006, (100, 10)),
        ],
        {OPUS: Tokens(input=400, output=40)},
        0.0024,
    ),
    "2.0.0: totals after /clear of a model that costs nothing": (
        [
            result(None, {"own": used(300, 30, 0.0)}, 0.0, (300, 30)),
            result(None, {"own": used(100, 10, 0.0)}, 0.0, (100, 10)),
        ],
        {"own": Tokens(input=400, output=40)},
        0.0,
    ),
    "1.0.33: no models in the result": (
        [reply("a"), result(None, None, 0.0006, (100, 10)), reply("b"), result(None, None, 0.0012, (100, 10))],
        {OPUS: Tokens(input=200, output=20)},
        0.0012,
    ),
}  # fmt: skip


@pytest.mark.parametrize("meter", METERS)
@pytest.mark.parametrize("row", REPLIES)
def test_meters_agree_on_replies(row: str, meter: str, tmp_path: Path) -> None:
    frames, tokens = REPLIES[row]
    seen = METERS[meter](frames, tmp_path)
    assert seen
    assert {name: pytest.approx(each) for name, each in expected(tokens).items() if name in seen} == seen


@pytest.mark.parametrize("meter", LIVE)
@pytest.mark.parametrize("row", RESULTS)
def test_meters_agree_on_results(row: str, meter: str, tmp_path: Path) -> None:
    frames, *numbers = RESULTS[row]
    seen = LIVE[meter](frames, tmp_path)
    assert seen
    assert {name: pytest.approx(each) for name, each in expected(*numbers).items() if name in seen} == seen


@pytest.mark.parametrize("meter", LIVE)
def test_meters_agree_on_a_resumed_conversation_of_older_clis(meter: str, tmp_path: Path) -> None:
    """2.1.280 and 2.1.300 have the earlier turns in their totals, and do not report what is new."""
    frames = [
        reply("a", out=1),
        result(None, {OPUS: used(9100, 910, 1.0)}, 1.0, (100, 10)),
        reply("b", 200, 1),
        result(None, {OPUS: used(9300, 930, 1.0012)}, 1.0012, (200, 20)),
    ]
    seen = LIVE[meter](frames, tmp_path, resume="s")
    numbers = expected(
        {OPUS: Tokens(input=300, output=30)}, 0.0012, 0.0006
    )  # the cost of the first turn is not reported
    if meter == "telemetry":
        assert seen.pop("output") == 21  # of the first turn it knows what its messages have
    assert {name: pytest.approx(each) for name, each in numbers.items() if name in seen} == seen


def test_replies_that_are_not_remembered_stay_in_the_sum() -> None:
    replies = Replies(Reply, most=10)
    for number in range(30):
        replies.frame(str(number), OPUS, {"input_tokens": 100}, agent=f"toolu_{number}")
    assert [each.key for each in replies] == [str(number) for number in range(20, 30)]
    assert (replies.count, replies.unreported) == (30, {OPUS: Tokens(input=3000, replies=30)})


def test_tokens_that_a_result_does_not_have_are_those_of_the_last_model() -> None:
    replies = Replies(Reply)
    replies.frame("a", OPUS, {"input_tokens": 100})
    replies.frame("b", HAIKU, {"input_tokens": 30}, agent="toolu_1")
    first = Tokens(input=100, replies=1)
    replies.reported(Fresh(0.1, first, {OPUS: (0.1, first)}))
    assert replies.unreported == {HAIKU: Tokens(input=30)}
