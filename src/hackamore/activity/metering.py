"""The meter of one CLI process: its messages in, its cost so far out. It never waits and knows no limit.

A reply counts by its message id. Its frames carry the usage from the beginning of the reply: all tokens that were read, and hardly any that
were written. Those are estimated from the content until a better number comes: with partial messages when the reply is complete, otherwise
with the result. It has the totals of the process: from then on they count, and what came since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hackamore.activity.prices import Price, Tokens, price_of
from hackamore.activity.replies import Replies, Reply, Results
from hackamore.messages import AssistantMessage, ResultMessage, StreamEvent, TextBlock, ThinkingBlock, ToolUseBlock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.messages import Message

_REPLIES_KEPT = 1_000
_BYTES_PER_TOKEN = 3
"""A cautious estimate: texts in English have about four, programs about three."""
_NO_PRICE = Price(input=0, output=0)


class _Reply(Reply):
    __slots__ = ("content", "estimated", "frames", "price")

    def __init__(self, key: str, model: str, agent: str) -> None:
        super().__init__(key, model, agent)
        self.price: Price | None = None
        self.frames: set[str | None] = set()
        self.content = 0  # tokens that were written, from the size of the content
        self.estimated = 0  # the part of them that is counted, beyond those that the API reported


class Meter:
    """Adds up the cost of a process.

    Args:
        prices: prices of the caller by model; they also replace the estimates of the CLI.
        resumed: True if the process continues a conversation.

    Attributes:
        usd: the cost so far, in US dollars.
        unpriced: the model of the last message, if that is a reply of a model without a price; None otherwise.
        call: the mean cost and tokens of the model calls that the last message completed; None if it completed none.
    """

    def __init__(self, prices: Mapping[str, Price], *, resumed: bool = False) -> None:
        self.usd: float = 0.0
        self.tokens: int = 0
        self.unpriced: str | None = None
        self.call: tuple[float, float] | None = None
        self.replies: int = 0
        self._prices = prices
        self._found = Replies(_Reply, _REPLIES_KEPT)
        self._results = Results(resumed=resumed)
        self._last_price = _NO_PRICE
        self._reported = (0.0, 0)  # cost and tokens
        self._at_result = (0.0, 0, 0)  # cost, tokens and replies

    def take(self, message: Message) -> None:
        """Count any message of the process; messages come in the order of the wire."""
        self.call = self.unpriced = None
        reply: _Reply | None = None
        if isinstance(message, AssistantMessage) and message.usage is not None:
            reply = self._found.message(message)
            if reply is not None and not reply.complete and message.uuid not in reply.frames:
                reply.frames.add(message.uuid)
                reply.content += sum(map(_size, message.content)) // _BYTES_PER_TOKEN
        elif isinstance(message, StreamEvent):
            reply = self._found.event(message)
        elif isinstance(message, ResultMessage):
            self._result(message)
        if reply is not None:
            self.replies = self._found.count
            self._count(reply, self._found.added)

    def _count(self, reply: _Reply, added: Tokens) -> None:
        """Count what a reply has more than before, and an estimate of the written tokens that it does not have."""
        if reply.price is None:
            reply.price = self._last_price = price_of(reply.model, self._prices) or _NO_PRICE
        if reply.price is _NO_PRICE:
            self.unpriced = reply.model
        estimated = 0 if reply.complete else max(reply.content - reply.tokens.output, 0)
        added = added + Tokens(output=estimated - reply.estimated)
        reply.estimated = estimated
        self.usd += reply.price.cost(added)
        self.tokens += added.total

    def _result(self, result: ResultMessage) -> None:
        """Take the totals of the CLI: they have the written tokens, and requests that leave no message, such as titles and compactions."""
        fresh = self._results.take(result)
        tokens, missing = self._found.reported(fresh)
        usd = self._last_price.cost(tokens) if fresh.usd is None else fresh.usd
        if fresh.models is not None:
            usd = 0.0
            for model, (cost, used) in fresh.models.items():
                price = price_of(model, self._prices, {})
                usd += cost if price is None else price.cost(used)
        self._reported = self._reported[0] + usd, self._reported[1] + tokens.total
        for reply in self._found:
            reply.content = reply.estimated = 0
        self.usd = self._reported[0] + self._last_price.cost(missing)
        self.tokens = self._reported[1] + missing.total
        before_usd, before_tokens, before_replies = self._at_result
        replies = self.replies - before_replies
        if replies > 0:
            self.call = max(self.usd - before_usd, 0.0) / replies, max(self.tokens - before_tokens, 0) / replies
        self._at_result = self.usd, self.tokens, self.replies


def _size(block: object) -> int:
    match block:
        case TextBlock(text=text):
            return len(text.encode("utf-8", "replace"))
        case ThinkingBlock(thinking=text):
            return len(text.encode("utf-8", "replace"))
        case ToolUseBlock():
            return len(bytes(block.input_raw))
        case _:
            return 0
