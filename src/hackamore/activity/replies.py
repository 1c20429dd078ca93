"""Replies of the model and results of the CLI, added up once for every reader.

A reply counts by its message id, with the larger usage: its frames repeat the usage from its beginning, which has hardly any of the written
tokens. A stream event or the transcript has all of them, and so has the result. Results have the totals of the process: from then on they
count, and replies that are not in them yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hackamore.activity.prices import SYNTHETIC, Tokens, larger, sum_of, tokens_of, tokens_of_model
from hackamore.messages import AssistantMessage, ToolUseBlock, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hackamore.messages import ResultMessage, StreamEvent

NO_TOKENS = Tokens()


class Reply:
    """A reply of the model.

    Attributes:
        agent: the call that started the agent that speaks; empty for the main conversation.
        complete: True if `tokens` are final: its end was seen.
        over: True if its agent began another reply.
    """

    __slots__ = ("agent", "complete", "key", "model", "over", "tokens")

    def __init__(self, key: str, model: str, agent: str) -> None:
        self.key: str = key
        self.model: str = model
        self.agent: str = agent
        self.tokens: Tokens = NO_TOKENS
        self.complete: bool = False
        self.over: bool = False


R = TypeVar("R", bound=Reply)


class Replies(Generic[R]):
    """The replies of a process or of conversations, each counted once.

    Args:
        kind: the class of the replies.
        most: the number of replies to remember, the newest ones; None for all.

    Attributes:
        count: the replies so far.
        added: the tokens by which the last usage was more than those before it of its reply.
        unreported: the tokens by model that no result has yet.
    """

    def __init__(self, kind: type[R], most: int | None = None) -> None:
        self.count: int = 0
        self.added: Tokens = NO_TOKENS
        self.unreported: dict[str, Tokens] = {}
        self._kind = kind
        self._most = most
        self._known: dict[str, R] = {}
        self._current: dict[str, R] = {}
        self._model = ""

    def __iter__(self) -> Iterator[R]:
        return iter(self._known.values())

    def message(self, message: object) -> R | None:
        """Count a message; return its reply. None for other messages, and for texts that the CLI writes itself."""
        if not isinstance(message, AssistantMessage):
            return None
        key = message.message_id or message.uuid or ""
        reply = self.frame(key, message.model, message.usage, message.parent_tool_use_id or "")
        if reply is not None and message.stop_reason is not None and message.usage is not None:
            reply.complete = True  # of 2.0.0, and in a transcript
        return reply

    def event(self, event: StreamEvent) -> R | None:
        """Count a stream event; return its reply. None for events without numbers."""
        if b'"message_' not in bytes(event.event_raw):  # there is an event for every token
            return None
        return self.piece(event.event, event.parent_tool_use_id or "")

    def piece(self, event: Mapping[str, Any], agent: str = "") -> R | None:
        """Count a stream event of the wire, as `event` does."""
        self.added = NO_TOKENS
        kind, body = event.get("type"), event.get("message")
        if kind == "message_start" and isinstance(body, dict) and isinstance(body.get("id"), str) and body["id"]:
            return self.frame(body["id"], str(body.get("model") or ""), body.get("usage"), agent)
        reply = self._current.get(agent)
        if kind != "message_delta" or reply is None:
            return None
        if isinstance(event.get("usage"), dict):
            reply.complete = True
            self._grow(reply, event["usage"])
        return reply

    def frame(self, key: str, model: str, usage: object = None, agent: str = "") -> R | None:
        """Count a frame of a reply; return the reply. None for a text that the CLI writes itself."""
        self.added = NO_TOKENS
        if model == SYNTHETIC:
            return None
        reply = self._known.get(key)
        if reply is None:
            self.count += 1
            self._model = model
            reply = self._known[key] = self._kind(key, model, agent)
            before, self._current[agent] = self._current.get(agent), reply
            if before is not None:
                before.over = True
            if self._most is not None and len(self._known) > self._most:
                oldest = self._known.pop(next(iter(self._known)))
                if self._current.get(oldest.agent) is oldest:
                    del self._current[oldest.agent]
        if usage is not None:
            self._grow(reply, usage)
        return reply

    def _grow(self, reply: R, usage: object) -> None:
        before, tokens = reply.tokens, tokens_of(usage)
        after = tokens if before is NO_TOKENS else larger(before, tokens)
        if after != before:
            self.added = after if before is NO_TOKENS else after - before
            reply.tokens = after
            unreported = self.unreported.get(reply.model)
            self.unreported[reply.model] = self.added if unreported is None else unreported + self.added

    def reported(self, fresh: Fresh) -> tuple[Tokens, Tokens]:
        """Take a result; return the tokens that are new in it, and those of replies that are not in it, of the kinds that cost."""
        known, missing = sum_of(self.unreported.values()), Tokens()
        if fresh.models is not None:  # replies of subagents in the background may not be in it yet
            beyond = known - fresh.tokens
            # A result that does not split the writes to the cache counts all of them as short ones.
            long = beyond.cache_write_1h + min(beyond.cache_write_5m, 0)
            missing = replace(larger(replace(beyond, cache_write_1h=long), missing), replies=0, thinking=0)
        self.unreported = {} if missing == Tokens() else {self._model: missing}
        return (fresh.tokens if fresh.usd is not None else larger(known, fresh.tokens)), missing


class Fresh(NamedTuple):
    """Cost and tokens since the last result of the process.

    Attributes:
        usd: dollars; None if they are unknown.
        tokens: the tokens of all models; if they are unknown, those of the main conversation.
        models: cost and tokens by model; None if they are unknown.
    """

    usd: float | None
    tokens: Tokens
    models: dict[str, tuple[float, Tokens]] | None


class Results:
    """Reads what is new in a result: as the CLI reports it, or as the difference of the totals of the process.

    The totals of 2.1.280 and later have the earlier turns of a conversation that was resumed, those of 1.0.33, 2.0.0 and 2.1.200 do not.
    2.1.328 and later also report what is new; 2.1.300 does not.

    Args:
        resumed: True if earlier turns may be in the first totals: then the cost of the first turn is unknown without such a report.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._usd = 0.0
        self._models: dict[str, tuple[float, Tokens]] = {}

    def take(self, result: ResultMessage) -> Fresh:
        """Return what is new in a result."""
        total, before = result.total_cost_usd, self._usd
        now, last = _by_model(result.model_usage), self._models
        self._usd, self._models = before if total is None else total, now or last
        if result.model_usage_since_last_result is not None:
            new = _by_model(result.model_usage_since_last_result)
            return Fresh(sum(usd for usd, _ in new.values()), sum_of(tokens for _, tokens in new.values()), new)
        resumed, self._resumed = self._resumed, False
        usd = None if total is None or resumed else total - before if total >= before else total
        if not now or resumed:
            return Fresh(usd, tokens_of(result.usage) if result.usage is not None else Tokens(), None)
        new = {model: _since(used, last.get(model)) for model, used in now.items()}
        return Fresh(usd, sum_of(tokens for _, tokens in new.values()), new)


def _by_model(usages: Mapping[str, Any]) -> dict[str, tuple[float, Tokens]]:
    return {model: (used.cost_usd, tokens_of_model(used)) for model, used in usages.items()}


def _since(now: tuple[float, Tokens], before: tuple[float, Tokens] | None) -> tuple[float, Tokens]:
    if before is None or now[0] < before[0] or now[1].total < before[1].total:
        return now  # the conversation was cleared, and the CLI counts from zero again
    return now[0] - before[0], now[1] - before[1]


def goes_on(message: object) -> bool:
    """Return whether the model is called again after this message."""
    if isinstance(message, AssistantMessage):
        return any(isinstance(block, ToolUseBlock) for block in message.content)
    return isinstance(message, UserMessage)
