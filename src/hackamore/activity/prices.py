"""Tokens by kind, and prices of models."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from operator import add, attrgetter, sub
from typing import TYPE_CHECKING, Any

from hackamore.checked.fields import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hackamore.messages import ModelUsage

MOST_USD = 1e9
"""The highest amount in dollars; more is an error in a program, and would not fit the file."""
SYNTHETIC = "<synthetic>"
"""The model of messages that the CLI writes itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens by kind."""

    input: int = 0  # read, apart from the cache
    output: int = 0  # written
    cache_read: int = 0  # read from the cache
    cache_write_5m: int = 0  # written to the cache for five minutes
    cache_write_1h: int = 0  # written to the cache for an hour
    web_searches: int = 0  # searches at the API
    replies: int = 0  # replies of the model
    thinking: int = 0  # the part of `output` that was reasoning

    @property
    def cache_write(self) -> int:
        """Tokens written to the cache."""
        return self.cache_write_5m + self.cache_write_1h

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Tokens) -> Tokens:
        return _made(map(add, _numbers(self), _numbers(other)))

    def __sub__(self, other: Tokens) -> Tokens:
        return _made(map(sub, _numbers(self), _numbers(other)))


KINDS: tuple[str, ...] = tuple(each.name for each in fields(Tokens))
_numbers: Callable[[Tokens], tuple[int, ...]] = attrgetter(*KINDS)


def _made(numbers: Iterable[int]) -> Tokens:
    return Tokens(**dict(zip(KINDS, numbers, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model, in US dollars for a million tokens.

    Attributes:
        input: tokens that are read.
        output: tokens that are written.
        cache_read: tokens that are read from the cache; None for a tenth of `input`.
        cache_write_5m: tokens that are written to the cache for five minutes; None for 1.25 times `input`.
        cache_write_1h: tokens that are written to the cache for an hour; None for twice `input`.

    Raises:
        OptionsError: a price is not a number from zero on.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write_5m: float | None = None
    cache_write_1h: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None and each.default is None:
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= MOST_USD:
                raise fail(each.name, "a number of US dollars for a million tokens, from 0 to 1,000,000,000", value)

    def cost(self, tokens: Tokens) -> float:
        """Return the cost of tokens, in US dollars.

        Args:
            tokens: the tokens. Web searches cost 0.01 dollars each.

        Returns:
            The cost.
        """
        read = self.input / 10 if self.cache_read is None else self.cache_read
        short = self.input * 1.25 if self.cache_write_5m is None else self.cache_write_5m
        long = self.input * 2 if self.cache_write_1h is None else self.cache_write_1h
        dollars = tokens.input * self.input + tokens.output * self.output + tokens.cache_read * read
        return (
            dollars + tokens.cache_write_5m * short + tokens.cache_write_1h * long
        ) / 1e6 + SEARCH * tokens.web_searches


SEARCH = 0.01
"""The price of a web search."""
_OPUS = Price(input=5, output=25)
_SONNET = Price(input=3, output=15)
_MYTHOS = Price(input=10, output=50)
_MYTHOS_1 = Price(input=10, output=50, cache_read=0.25)
_MYTHOS_2 = Price(input=8, output=40, cache_read=0.2)

PRICES_FROM = "Claude Code 2.1.330, 2026-11-22"
"""The price list that `PRICES` is a copy of."""
PRICES: Mapping[str, Price] = {
    "claude-opus-5-5": Price(input=4, output=20, cache_read=0.2),
    "claude-opus-5": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-5": _OPUS,
    "claude-sonnet-5-5": Price(input=2, output=10, cache_read=0.1),
    "claude-sonnet-5": Price(input=2, output=10),
    "claude-sonnet-4-6": _SONNET,
    "claude-sonnet-4-5": _SONNET,
    "claude-sonnet-4-0": _SONNET,
    "claude-sonnet-4": _SONNET,
    "claude-3-7-sonnet": _SONNET,
    "claude-fable-5-2": _MYTHOS_2,
    "claude-fable-5-1": _MYTHOS_1,
    "claude-fable-5": _MYTHOS,
    "claude-mythos-5-2": _MYTHOS_2,
    "claude-mythos-5-1": _MYTHOS_1,
    "claude-mythos-5": _MYTHOS,
    "claude-haiku-5-5": Price(input=0.1, output=0.5),
    "claude-haiku-4-5": Price(input=1, output=5),
    "claude-3-5-haiku": Price(input=0.8, output=4),
}
"""List prices by model. Dates, regions and versions of other providers in the name of a model do not count."""

_LONGEST_NAME = 500
"""A longer text does not name a model, and would be searched for long."""
_PREFIX = re.compile(r"^.*(?=claude-)")
_SUFFIX = re.compile(r"(\[1m\]|-latest|-v\d+(:\d+)?|[-@]\d{8})+$")


def short_name(model: str) -> str:
    """Return the name of a model without dates, regions and versions: the name in the price list.

    Args:
        model: the name, as a message or a provider has it: `us.anthropic.claude-haiku-4-5-20251001-v1:0`.

    Returns:
        The name: `claude-haiku-4-5`.
    """
    return _SUFFIX.sub("", _PREFIX.sub("", model)) if len(model) <= _LONGEST_NAME else model


def price_of(model: str, prices: Mapping[str, Price], default: Mapping[str, Price] = PRICES) -> Price | None:
    """Return the price of a model; those of the caller win over `default`. None if neither has one."""
    short = short_name(model)
    for table in (prices, default):
        found = table.get(model) or table.get(short)
        if found is not None:
            return found
    return None


def tokens_of(usage: object) -> Tokens:
    """Return the tokens of the usage of one reply: a dict of the wire, or an object with the attributes of `hackamore.messages.Usage`."""
    split = _field(usage, "cache_creation")
    short, long = (_count(split, f"ephemeral_{time}_input_tokens") for time in ("5m", "1h"))
    # As the CLI counts (2.1.330): the sum of both times only without a total, and otherwise the total, whose rest is for five minutes.
    written = _count(usage, "cache_creation_input_tokens") or short + long
    long = min(long, written)
    return Tokens(
        input=_count(usage, "input_tokens"),
        output=_count(usage, "output_tokens"),
        cache_read=_count(usage, "cache_read_input_tokens"),
        cache_write_5m=written - long,
        cache_write_1h=long,
        web_searches=_count(_field(usage, "server_tool_use"), "web_search_requests"),
        replies=1,
        thinking=_count(_field(usage, "output_tokens_details"), "thinking_tokens"),
    )


def tokens_of_model(used: ModelUsage) -> Tokens:
    """Return the tokens of a model in a result, or in the costs that the CLI records."""
    written = used.cache_creation_input_tokens
    long = min(used.cache_creation_ephemeral_1h_input_tokens or 0, written)
    return Tokens(
        input=used.input_tokens,
        output=used.output_tokens,
        cache_read=used.cache_read_input_tokens,
        cache_write_5m=written - long,
        cache_write_1h=long,
        web_searches=used.web_search_requests,
        thinking=used.thinking_tokens or 0,
    )


def _field(holder: object, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def _count(holder: object, name: str) -> int:
    value = (
        holder.get(name) if isinstance(holder, dict) else getattr(holder, name, 0)
    )  # a file may have any value there
    return value if type(value) is int and value > 0 else 0


def larger(one: Tokens, other: Tokens) -> Tokens:
    """Return the larger number of each kind: the frames of a reply repeat its usage, which grows until the reply is complete."""
    return one if one == other else _made(map(max, _numbers(one), _numbers(other)))


def sum_of(parts: Iterable[Tokens]) -> Tokens:
    """Return the sum of tokens."""
    return _made(map(sum, zip(*map(_numbers, (Tokens(), *parts)), strict=True)))
