"""The meter of one CLI process: its messages in, its cost so far out. It never waits and knows no limit.

A reply counts by its message id. Its frames carry the usage from the beginning of the reply: all tokens that were read, and hardly any that
were written. Those are estimated from the content until a better number comes: with partial messages when the reply is complete, otherwise
with the result. It has the totals of the process: from then on they count, and what came since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hackamore.budgets.prices import KINDS, SYNTHETIC, Price, Tokens, larger, price_of, sum_of, tokens_of
from hackamore.messages import (
    AssistantMessage,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UserMessage,
)
from hackamore.messages.conversation import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.messages import Message, ModelUsage

__all__ = ["Meter", "goes_on"]

_REPLIES_KEPT = 1_000
_BYTES_PER_TOKEN = 3
"""A cautious estimate: texts in English have about four, programs about three."""
_NO_PRICE = Price(input=0, output=0)


class _Reply:
    __slots__ = ("content", "estimated", "frames", "price", "tokens", "whole")

    def __init__(self, price: Price) -> None:
        self.price = price
        self.tokens = Tokens()
        self.frames: set[str | None] = set()
        self.content = 0  # tokens that were written, from the size of the content
        self.estimated = 0  # the part of them that is counted, beyond those that the API reported
        self.whole = False


class Meter:
    """Adds up the cost of a process.

    Args:
        prices: prices of the caller by model; they also replace the estimates of the CLI.

    Attributes:
        usd: the cost so far, in US dollars.
        unpriced: the model of the last message, if that is a reply of a model without a price; None otherwise.
        call: the mean cost and tokens of the model calls that the last message completed; None if it completed none.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self.usd: float = 0.0
        self.tokens: int = 0
        self.unpriced: str | None = None
        self.call: tuple[float, float] | None = None
        self.replies: int = 0
        self._prices = prices
        self._found: dict[str, _Reply] = {}
        self._streamed: dict[str | None, str] = {}
        self._known = Tokens()  # as the API counted them, of all replies
        self._last_price = _NO_PRICE
        self._reported_usd = 0.0
        self._reported = Tokens()
        self._last_total: tuple[float, dict[str, tuple[float, Tokens]]] = (0.0, {})
        self._at_result = (0.0, 0, 0)  # cost, tokens and replies

    def take(self, message: Message) -> None:
        """Count any message of the process; messages come in the order of the wire."""
        self.call = self.unpriced = None
        if isinstance(message, AssistantMessage):
            self._assistant(message)
        elif isinstance(message, StreamEvent):
            self._event(message)
        elif isinstance(message, ResultMessage):
            self._result(message)

    # -- replies -------------------------------------------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage) -> None:
        if message.model == SYNTHETIC or message.usage is None:
            return
        reply = self._reply(message.message_id or message.uuid or "", message.model or "")
        if not reply.whole and message.uuid not in reply.frames:
            reply.frames.add(message.uuid)
            reply.content += sum(map(_size, message.content)) // _BYTES_PER_TOKEN
        self._counted(reply, tokens_of(message.usage))

    def _event(self, message: StreamEvent) -> None:
        kind = message.event_type
        if kind not in ("message_start", "message_delta"):
            return
        event = message.event
        body = event.get("message") if kind == "message_start" else event
        if not isinstance(body, dict):
            return
        try:
            tokens = tokens_of(msgspec.convert(body.get("usage"), Usage))
        except msgspec.ValidationError:
            return  # the whole message and the result have it, too
        parent = message.parent_tool_use_id
        if kind == "message_start":
            self._streamed[parent] = str(body.get("id") or "")
            self._counted(self._reply(self._streamed[parent], str(body.get("model") or "")), tokens)
        elif (reply := self._found.get(self._streamed.get(parent, ""))) is not None:
            reply.whole = True
            self._counted(reply, tokens)

    def _reply(self, key: str, model: str) -> _Reply:
        reply = self._found.get(key)
        if reply is None:
            reply = self._found[key] = _Reply(price_of(model, self._prices) or _NO_PRICE)
            self._last_price = reply.price
            self.replies += 1
            if len(self._found) > _REPLIES_KEPT:
                del self._found[next(iter(self._found))]
        if reply.price is _NO_PRICE:
            self.unpriced = model
        return reply

    def _counted(self, reply: _Reply, tokens: Tokens) -> None:
        """Take the usage of a reply, as far as it is larger than before, and an estimate of the written tokens that it does not have."""
        after = larger(reply.tokens, tokens)
        added = after - reply.tokens
        reply.tokens = after
        self._known = self._known + added
        estimated = 0 if reply.whole else max(reply.content - after.output, 0)
        added = added + Tokens(output=estimated - reply.estimated)
        reply.estimated = estimated
        self.usd += reply.price.cost(added)
        self.tokens += added.total

    # -- results -------------------------------------------------------------------------------------------------------

    def _result(self, result: ResultMessage) -> None:
        """Take the totals of the CLI: they have the written tokens, and requests that leave no message, such as titles and compactions."""
        usd, tokens = self._since(result)
        self._reported_usd += usd
        self._reported = self._reported + tokens
        # Replies of subagents in the background may not be in them yet.
        beyond = self._known - self._reported
        kinds = {kind: max(getattr(beyond, kind), 0) for kind in KINDS}
        # A result that does not split the writes to the cache counts all of them as short ones.
        kinds["cache_write_1h"] = max(beyond.cache_write_1h + min(beyond.cache_write_5m, 0), 0)
        missing = Tokens(**kinds)
        for reply in self._found.values():
            reply.content = reply.estimated = 0
        self.usd = self._reported_usd + self._last_price.cost(missing)
        self.tokens = self._reported.total + missing.total
        before_usd, before_tokens, before_replies = self._at_result
        replies = self.replies - before_replies
        if replies > 0:
            self.call = max(self.usd - before_usd, 0.0) / replies, max(self.tokens - before_tokens, 0) / replies
        self._at_result = self.usd, self.tokens, self.replies

    def _since(self, result: ResultMessage) -> tuple[float, Tokens]:
        """Return cost and tokens since the last result of this process."""
        if result.model_usage_since_last_result is not None:
            parts = [self._cost_of(name, used) for name, used in result.model_usage_since_last_result.items()]
            return sum(usd for usd, _ in parts), sum_of(tokens for _, tokens in parts)
        total = result.total_cost_usd or 0.0
        now = {name: self._cost_of(name, used) for name, used in result.model_usage.items()}
        last_total, last = self._last_total
        self._last_total = total, now
        if not now:  # an old version of the CLI
            tokens = tokens_of(result.usage) if result.usage is not None else Tokens()
            return (total if total < last_total else total - last_total), tokens
        usd, tokens = 0.0, Tokens()
        for name, (cost, used) in now.items():
            before = last.get(name, (0.0, Tokens()))
            fresh = cost < before[0]  # the conversation was cleared
            usd += cost if fresh else cost - before[0]
            tokens = tokens + (used if fresh else used - before[1])
        return usd, tokens

    def _cost_of(self, model: str, used: ModelUsage) -> tuple[float, Tokens]:
        long = used.cache_creation_ephemeral_1h_input_tokens or 0
        tokens = Tokens(
            input=used.input_tokens,
            output=used.output_tokens,
            cache_read=used.cache_read_input_tokens,
            cache_write_5m=max(used.cache_creation_input_tokens - long, 0),
            cache_write_1h=long,
            web_searches=used.web_search_requests,
        )
        price = price_of(model, self._prices, {})
        if price is not None:
            return price.cost(tokens), tokens
        return used.cost_usd, tokens


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


def goes_on(message: Message) -> bool:
    """Return whether the model is called again after this message."""
    if isinstance(message, AssistantMessage):
        return any(isinstance(block, ToolUseBlock) for block in message.content)
    return isinstance(message, UserMessage)
