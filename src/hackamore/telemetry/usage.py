"""Tokens and cost: of a response, of an agent, and of a turn as the difference of running totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hackamore.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.messages import ModelUsage, ResultMessage
    from hackamore.messages.conversation import Usage

__all__ = ["Ledger", "Tokens"]


class Tokens:
    """A number of tokens by kind. `read` includes those of the cache.

    Attributes:
        final: False if the number of written tokens may be too small: messages of a response carry the number at its start.
    """

    KINDS: ClassVar[tuple[str, ...]] = ("cache_creation", "cache_read", "read", "reasoning", "written")

    def __init__(self) -> None:
        self.final: bool = True
        self.read = self.written = self.cache_read = self.cache_creation = self.reasoning = 0

    @classmethod
    def of(cls, usage: Usage) -> Tokens:
        """Return the numbers of a response."""
        tokens = cls()
        tokens.cache_read = usage.cache_read_input_tokens or 0
        tokens.cache_creation = usage.cache_creation_input_tokens or 0
        tokens.read = usage.input_tokens + tokens.cache_read + tokens.cache_creation
        tokens.written = usage.output_tokens
        details = usage.output_tokens_details
        tokens.reasoning = (details.thinking_tokens or 0) if details is not None else 0
        return tokens

    def raise_to(self, other: Tokens) -> None:
        """Take the larger numbers: while a response continues, each message repeats or raises them."""
        for kind in self.KINDS:
            setattr(self, kind, max(getattr(self, kind), getattr(other, kind)))

    def add(self, other: Tokens) -> None:
        """Add other numbers."""
        for kind in self.KINDS:
            setattr(self, kind, getattr(self, kind) + getattr(other, kind))
        self.final = self.final and other.final

    def attributes(self) -> dict[str, int]:
        """Return the numbers as attributes of a span; written tokens only if they are final."""
        found = {
            names.INPUT_TOKENS: self.read,
            names.CACHE_READ_TOKENS: self.cache_read,
            names.CACHE_CREATION_TOKENS: self.cache_creation,
        }
        if self.final:
            found[names.OUTPUT_TOKENS] = self.written
        if self.reasoning:
            found[names.REASONING_TOKENS] = self.reasoning
        return found


class Ledger:
    """Cost and tokens since the last result: as the CLI reports them, or as the difference of its running totals.

    Args:
        resumed: True if earlier turns are in the first totals: then the first turn has no difference.
    """

    def __init__(self, *, resumed: bool) -> None:
        self._cost: float | None = None if resumed else 0.0
        self._models: dict[str, tuple[int, int]] | None = None if resumed else {}

    def cost(self, result: ResultMessage) -> float | None:
        """Return the cost of the turn that a result ends; None if it is unknown."""
        total, before = result.total_cost_usd, self._cost
        if total is not None:
            self._cost = total
        if result.model_usage_since_last_result is not None:
            return sum((usage.cost_usd for usage in result.model_usage_since_last_result.values()), 0.0)
        return None if total is None or before is None else _since(total, before)

    def tokens(self, result: ResultMessage) -> dict[str, tuple[int, int]] | None:
        """Return tokens read and written since the last result, by model; None if they are unknown."""
        before = self._models
        if result.model_usage:
            self._models = _by_model(result.model_usage)
        if result.model_usage_since_last_result is not None:
            return _by_model(result.model_usage_since_last_result)
        if not result.model_usage or before is None:
            return None
        found = {}
        for model, (read, written) in _by_model(result.model_usage).items():
            then = before.get(model, (0, 0))
            found[model] = (_since(read, then[0]), _since(written, then[1]))
        return found


def _by_model(usages: Mapping[str, ModelUsage]) -> dict[str, tuple[int, int]]:
    return {
        model: (
            usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
            usage.output_tokens,
        )
        for model, usage in usages.items()
    }


def _since(total: float, before: float) -> Any:
    return total - before if total >= before else total  # else the CLI counts from zero again
