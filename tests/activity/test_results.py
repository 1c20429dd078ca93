"""Cost and tokens of turns, from the results of current and older versions of the CLI."""

from __future__ import annotations

from typing import Any

from hackamore.activity.replies import Results
from hackamore.messages import ResultMessage, from_data

MODEL = "claude-opus-5-5"


def used(tokens_in: int, tokens_out: int, cost: float) -> dict[str, Any]:
    return {MODEL: {"inputTokens": tokens_in, "outputTokens": tokens_out, "cacheReadInputTokens": 1, "costUSD": cost}}


def result(total: float | None, totals: dict[str, Any], since: dict[str, Any] | None = None) -> ResultMessage:
    more = {} if since is None else {"model_usage_since_last_result": since}
    frame = {"type": "result", "subtype": "success", "uuid": "u", "session_id": "s", "is_error": False}
    message = from_data({**frame, "total_cost_usd": total, "modelUsage": totals, **more})
    assert isinstance(message, ResultMessage)
    return message


def turns(*results: ResultMessage, resumed: bool = False) -> list[tuple[Any, Any]]:
    """Cost, and tokens read and written by model, of one result after the other."""
    reader = Results(resumed=resumed)
    found: list[tuple[Any, Any]] = []
    for fresh in map(reader.take, results):
        models = (
            None
            if fresh.models is None
            else {name: (used.total - used.output, used.output) for name, (_, used) in fresh.models.items()}
        )
        found.append((fresh.usd, models))
    return found


def test_the_cli_reports_what_is_new() -> None:
    """The totals of 2.1.330 have the earlier turns of a conversation that was resumed."""
    first = result(5.0, used(100, 50, 5.0), used(10, 5, 0.5))
    nothing = result(5.0, used(100, 50, 5.0), {})
    expected = [(0.5, {MODEL: (11, 5)}), (0.0, {})]
    assert turns(first, nothing, resumed=True) == turns(first, nothing) == expected


def test_older_clis_report_totals() -> None:
    """Those of 2.1.280 and 2.1.300 have the earlier turns of a conversation that was resumed, those of 1.0.33, 2.0.0 and 2.1.200 do not."""
    results = (
        result(1.0, used(100, 50, 1.0)),
        result(1.5, used(300, 60, 1.5)),
        result(0.25, used(10, 6, 0.25)),  # after /clear
        result(None, {}),
    )
    rest = [(0.5, {MODEL: (200, 10)}), (0.25, {MODEL: (11, 6)}), (None, None)]
    assert turns(*results) == [(1.0, {MODEL: (101, 50)}), *rest]
    assert turns(*results, resumed=True) == [(None, None), *rest]


def test_a_result_without_numbers_leaves_the_totals_as_they_were() -> None:
    """An older CLI may end a failed turn without totals: the turn after it must not report the whole session again."""
    results = (
        result(1.0, used(100, 50, 1.0)),
        result(None, {}),
        result(1.5, used(300, 60, 1.5)),
    )
    rest = [(None, None), (0.5, {MODEL: (200, 10)})]
    assert turns(*results) == [(1.0, {MODEL: (101, 50)}), *rest]
    assert turns(*results, resumed=True) == [(None, None), *rest]


def test_a_reader_of_a_new_conversation_counts_its_first_totals() -> None:
    assert Results().take(result(1.0, used(100, 50, 1.0))).usd == 1.0
