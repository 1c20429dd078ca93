"""Facts about the real CLI (2.1.328): its tools, its errors, its prices, the form of its streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.activity.prices import PRICES, Tokens, price_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FACTS: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("facts.json").read_bytes())
"""Tools, flags and words of the real CLI; fields of `frames` that are null there are filled in."""
TEXTS: dict[str, str] = FACTS["texts"]
FRAMES: dict[str, dict[str, Any]] = FACTS["frames"]
TIME = "2026-01-01T00:00:00.000Z"
"""The time in every frame: the same run gives the same frames."""
USAGE = {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
FINAL_USAGE = {**USAGE, "output_tokens": 5}


def cost_of(by_model: Mapping[str, Tokens]) -> float:
    """Return the cost in US dollars; that of a model which is not in the price list is that of the default."""
    return sum((price_of(model, {}) or PRICES["claude-opus-5-5"]).cost(tokens) for model, tokens in by_model.items())


A_REPLY = Tokens(input=10, output=5)
CUT_OFF = Tokens(input=10, output=2)
"""The tokens of a reply, and of one that an interrupt cuts off."""


def model_usage(by_model: Mapping[str, Tokens]) -> dict[str, Any]:
    """Return the usage by model."""
    return {
        model: {
            "inputTokens": tokens.input,
            "outputTokens": tokens.output,
            "cacheReadInputTokens": 0,
            "cacheCreationInputTokens": 0,
            "webSearchRequests": 0,
            "costUSD": round(cost_of({model: tokens}), 8),
            "contextWindow": 1_000_000,
            "maxOutputTokens": 128_000,
        }
        for model, tokens in by_model.items()
    }


ERRORS = {
    400: "invalid_request",
    401: "authentication_failed",
    403: "authentication_failed",
    404: "model_not_found",
    429: "rate_limit",
}
RETRY_ERRORS = {401: "authentication_failed", 429: "rate_limit", 529: "overloaded"}


def limit_text(kind: str, resets_at: int) -> str:
    """Return the CLI's text about a limit of the plan that is used up."""
    from time import gmtime

    when = gmtime(resets_at)
    minutes = f":{when.tm_min:02}" if when.tm_min else ""
    clock = f"{(when.tm_hour - 1) % 12 + 1}{minutes}{'am' if when.tm_hour < 12 else 'pm'}"
    return f"You've hit your {'5-hour limit' if kind == 'five_hour' else 'limit'} · resets {clock} (UTC)"


def failure_text(status: int, message: str, gateway: str | None) -> str:
    """Return the CLI's text about an error of the API; `gateway` is the host of another address than Anthropic's."""
    text = f"API Error: {status} {message}"
    if status in (401, 403):
        return f"Failed to authenticate. {text}"
    if status >= 500:
        where = "https://status.claude.com" if gateway is None else f"your inference gateway ({gateway})"
        return f"{text}. This is a server-side issue, usually temporary — try again in a moment. If it persists, check {where}."
    return text
