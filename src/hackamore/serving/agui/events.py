"""Messages of the CLI as events of AG-UI, as plain dicts: no IO, no clock.

Texts, thoughts and arguments of calls are sent as they stream. A whole message repeats what was streamed before it, so it only adds what
was not: that is all there is of subagents, and without `include_partial_messages`. Each subagent goes by the id of the call that started
it, and its events have that id as `subagentRunId`. `finish` closes what is open, as a run must not end before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from hackamore.activity.tree import CALLS, RESULTS, Calls
from hackamore.messages import (
    APIRetryMessage,
    AssistantMessage,
    CompactBoundaryMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskStartedMessage,
    TextBlock,
    ThinkingBlock,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore.activity.prices import Tokens

Event: TypeAlias = dict[str, Any]

_PIECE = 65_536
"""Characters of a delta: a client reads lines of up to 10 MiB, and the buffer of a run has a limit."""
_MOST_RESULT = 262_144
"""Characters of the result of a tool that a browser gets."""
_STARTS = {"text": "TEXT_MESSAGE_START", "thinking": "REASONING_START"}


class _Call:
    """A call of a tool: its agent, and how far its arguments have come."""

    __slots__ = ("agent", "input", "name", "over", "sent")

    def __init__(self, agent: str, name: str) -> None:
        self.agent = agent
        self.name = name
        self.input: dict[str, Any] = {}
        self.sent = False
        self.over = False


class _Agent:
    """The main conversation, or a subagent: the reply that it writes."""

    def __init__(self, tag: Event) -> None:
        self.tag = tag  # of its events
        self.wire = ""  # the id of the reply as the API names it
        self.reply = ""  # the same, made unique in the run
        self.blocks = 0  # of the reply, so far
        self.named = False  # the id of the reply has been sent
        self.streamed = False  # the reply comes in pieces
        self.kind = ""  # of the block that is open
        self.block = ""  # its id, once something of it was sent
        self.call = ""  # the call that is open


class Translator:
    """Makes the events of one run.

    Args:
        thread: the id of the conversation, as the client names it.
        run: the id of the run.

    Attributes:
        waiting: the calls that wait for a person, each with its interrupt; set it before `read` and `finish` while `held` is true.
    """

    def __init__(self, thread: str, run: str) -> None:
        self.waiting: dict[str, str] = {}
        self._ids = {"threadId": thread, "runId": run}
        self._agents: dict[str, _Agent] = {"": _Agent({})}
        self._calls: Calls[_Call] = Calls()
        self._open: list[str] = []  # subagents, the oldest first
        self._closed: set[str] = set()
        self._background: set[str] = set()
        self._held: list[tuple[str, Event | None]] = []  # failed calls, which may wait for a person
        self._replies: set[str] = set()
        self._out: list[Event] = []

    def start(self) -> Event:
        """Return the first event of the run."""
        return {"type": "RUN_STARTED", **self._ids}

    def read(self, message: object) -> list[Event]:
        """Return the events of a message."""
        match message:
            case StreamEvent():
                self._release()
                self._piece(self._agent(message.parent_tool_use_id), message)
            case AssistantMessage():
                self._release()
                self._whole(self._agent(message.parent_tool_use_id), message)
            case UserMessage() if not isinstance(message.content, str):
                self._results(message.content)
            case TaskStartedMessage() if message.tool_use_id and message.task_type == "local_agent":
                if message.is_backgrounded:
                    self._background.add(message.tool_use_id)
                self._begin_agent(message.tool_use_id, message.subagent_type, message.description)
            case TaskNotificationMessage() if message.tool_use_id in self._open:
                if message.status == "completed":
                    self._end_agent(message.tool_use_id)
                else:
                    self._held.append((message.tool_use_id, None))
            case APIRetryMessage():
                value = {"attempt": message.attempt, "delayMs": message.retry_delay_ms, "status": message.error_status}
                self._out.append(custom("api_retry", value))
            case CompactBoundaryMessage():
                self._out.append(custom("compacted", None))
        out, self._out = self._out, []
        return out

    @property
    def held(self) -> bool:
        """True while results wait for `waiting`, which may name their calls."""
        return bool(self._held)

    def finish(self) -> list[Event]:
        """Return the events that close what is open."""
        self._release()
        for agent in self._agents.values():
            self._close(agent)
        for name in reversed(self._open[:]):
            self._end_agent(name, suspended=True)
        out, self._out = self._out, []
        return out

    def agent_of(self, call: str) -> str:
        """Return the subagent that made a call; empty for the main conversation."""
        known = self._calls.get(call)
        return known.agent if known is not None else ""

    def end(self, outcome: Event, *, usage: list[Event] | None = None, result: Any = None) -> Event:
        """Return the last event of a run that did not fail."""
        more = {name: value for name, value in (("usage", usage), ("result", result)) if value}
        return {"type": "RUN_FINISHED", **self._ids, "outcome": outcome, **more}

    # -- replies -------------------------------------------------------------------------------------------------------

    def _agent(self, parent: str | None) -> _Agent:
        name = parent or ""
        if name not in self._agents:
            self._begin_agent(name)
        return self._agents[name]

    def _piece(self, agent: _Agent, event: StreamEvent) -> None:
        match event.event_type:
            case "content_block_delta":
                if text := event.text_delta:
                    self._add(agent, "text", text)
                elif text := event.thinking_delta:
                    self._add(agent, "thinking", text)
                elif (text := event.input_json_delta) and agent.call:
                    self._calls[agent.call].sent = True
                    self._pieces("TOOL_CALL_ARGS", {"toolCallId": agent.call}, text, agent)
            case "content_block_start":
                self._close(agent)
                block = event.event.get("content_block")
                block = block if isinstance(block, dict) else {}
                agent.kind = str(block.get("type"))
                call, name = block.get("id"), block.get("name")
                if agent.kind.endswith("tool_use") and isinstance(call, str) and isinstance(name, str):
                    self._begin_call(agent, call, name)
            case "content_block_stop" | "message_stop":
                self._close(agent)
            case "message_start":
                self._close(agent)
                body = event.event.get("message")
                reply = body.get("id") if isinstance(body, dict) else None
                wire = reply if isinstance(reply, str) and reply else f"reply-{event.uuid}"
                self._begin_reply(agent, wire, streamed=True)

    def _whole(self, agent: _Agent, message: AssistantMessage) -> None:
        if message.error or message.is_api_error_message:
            return  # the CLI says why the turn fails: its result is the error of the run
        reply = message.message_id or f"reply-{message.uuid}"
        if reply != agent.wire:
            self._close(agent)
            self._begin_reply(agent, reply, streamed=False)
        for block in message.content:
            if isinstance(block, CALLS):
                self._begin_call(agent, block.id, block.name)
                call = self._calls.get(block.id)
                if call is not None and not call.over:
                    call.input = block.input
                    if not call.sent:
                        text = bytes(block.input_raw).decode("utf-8", "replace") or "{}"
                        self._pieces("TOOL_CALL_ARGS", {"toolCallId": block.id}, text, agent)
                    self._end_call(block.id, agent)
            elif isinstance(block, RESULTS):
                self._results([block])
            elif isinstance(block, (TextBlock, ThinkingBlock)) and not agent.streamed:
                self._close(agent)
                if text := block.text if isinstance(block, TextBlock) else block.thinking:
                    self._add(agent, "text" if isinstance(block, TextBlock) else "thinking", text)
                    self._close(agent)

    def _begin_reply(self, agent: _Agent, wire: str, *, streamed: bool) -> None:
        agent.wire, agent.streamed, agent.blocks, agent.named = wire, streamed, 0, False
        agent.reply = (
            wire if wire not in self._replies else f"{wire}-again-{len(self._replies)}"
        )  # gateways count from 1
        self._replies.add(agent.reply)

    def _add(self, agent: _Agent, kind: str, text: str) -> None:
        """Add to the text or thought that is open; its first piece opens it, so that none is empty."""
        if agent.block and agent.kind != kind:
            self._close(agent)
        if not agent.block:
            agent.kind = kind
            agent.blocks += 1
            # The first text has the id of the reply, which its calls name as their parent.
            first = kind == "text" and not agent.named
            agent.named = agent.named or first
            agent.block = agent.reply if first else f"{agent.reply}-{agent.blocks}"
            self._emit(
                _STARTS[kind], {"messageId": agent.block}, agent, **({"role": "assistant"} if kind == "text" else {})
            )
            if kind == "thinking":
                self._emit("REASONING_MESSAGE_START", {"messageId": agent.block}, agent, role="reasoning")
        name = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        self._pieces(name, {"messageId": agent.block}, text, agent)

    def _close(self, agent: _Agent) -> None:
        """End the block that is open."""
        if agent.call:
            self._end_call(agent.call, agent)
        if agent.block:
            names = ("TEXT_MESSAGE_END",) if agent.kind == "text" else ("REASONING_MESSAGE_END", "REASONING_END")
            for name in names:
                self._emit(name, {"messageId": agent.block}, agent)
        agent.block = agent.kind = ""

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _begin_call(self, agent: _Agent, call: str, name: str) -> None:
        owner = next((each for each, known in self._agents.items() if known is agent), "")
        if not call or not self._calls.begin(call, _Call(owner, name)):
            return
        self._close(agent)
        agent.call = call
        agent.blocks += 1
        agent.named = True
        self._emit("TOOL_CALL_START", {"toolCallId": call, "toolCallName": name}, agent, parentMessageId=agent.reply)

    def _end_call(self, call: str, agent: _Agent) -> None:
        known = self._calls[call]
        if not known.over:
            known.over = True
            self._emit("TOOL_CALL_END", {"toolCallId": call}, agent)
        if agent.call == call:
            agent.call = ""

    def _results(self, blocks: Iterable[Any]) -> None:
        for block in blocks:
            if not isinstance(block, RESULTS) or (call := self._calls.end(block.tool_use_id)) is None:
                continue
            agent = self._agents[call.agent]
            self._end_call(block.tool_use_id, agent)
            failed = bool(block.is_error)
            text = block.text or msgspec.json.encode(block.content).decode() if block.content else ""
            if len(text) > _MOST_RESULT:
                text = f"{text[:_MOST_RESULT]}\n({len(text) - _MOST_RESULT:,} more characters)"
            event: Event = {"type": "TOOL_CALL_RESULT", **call_result(block.tool_use_id, text), **agent.tag}
            if failed:
                self._held.append((block.tool_use_id, event | {"metadata": {"isError": True}}))
                continue
            if block.tool_use_id in self._open and block.tool_use_id not in self._background:
                self._end_agent(block.tool_use_id)
            self._out.append(event)

    def _release(self) -> None:
        if not self._held:
            return
        held, self._held = self._held, []
        paused = set(self.waiting)
        for call in self.waiting:
            name = call
            while (name := self.agent_of(name)) and name not in paused:
                paused.add(name)  # the call of the subagent waits as well
        for call, event in held:
            if call in self._open:
                self._end_agent(call, failed=call not in paused, suspended=call in paused)
            if event is not None and call not in paused:
                self._out.append(event)

    # -- subagents -----------------------------------------------------------------------------------------------------

    def _begin_agent(self, name: str, kind: str | None = None, description: str = "") -> None:
        if name in self._open or name in self._closed:
            return
        call = self._calls.get(name)
        given = call.input if call is not None else {}
        more = {"description": description or given.get("description"), "parentSubagentRunId": call and call.agent}
        if call is not None:
            more["parentToolCallId"] = name
        self._open.append(name)
        self._agents.setdefault(name, _Agent({"subagentRunId": name}))
        event = {
            "type": "SUBAGENT_STARTED",
            "subagentRunId": name,
            "name": kind or given.get("subagent_type") or "agent",
        }
        self._out.append(event | {key: value for key, value in more.items() if isinstance(value, str) and value})

    def _end_agent(self, name: str, *, failed: bool = False, suspended: bool = False) -> None:
        self._close(self._agents[name])
        self._open.remove(name)
        self._closed.add(name)
        event: Event = {"type": "SUBAGENT_FINISHED", "outcome": {"type": "suspended" if suspended else "success"}}
        if mine := [self.waiting[call] for call in self.waiting if suspended and self.agent_of(call) == name]:
            event["outcome"]["interruptIds"] = mine
        if failed:
            text = "The subagent failed or was stopped."
            event = {"type": "SUBAGENT_ERROR", "message": text, "code": "subagent_failed"}
        self._out.append({**event, "subagentRunId": name})

    def _emit(self, kind: str, fields: Event, agent: _Agent, **more: Any) -> None:
        self._out.append({"type": kind, **fields, **more, **agent.tag})

    def _pieces(self, kind: str, fields: Event, text: str, agent: _Agent) -> None:
        for start in range(0, len(text), _PIECE):
            self._emit(kind, fields, agent, delta=text[start : start + _PIECE])


def custom(name: str, value: Any) -> Event:
    """Return an event of this library."""
    return {"type": "CUSTOM", "name": f"hackamore.{name}", "value": value}


def call_result(call: str, text: str) -> Event:
    """Return the fields of the result of a call."""
    return {"messageId": f"{call}-result", "toolCallId": call, "content": text, "role": "tool"}


def usage_of(models: dict[str, tuple[float, Tokens]] | None) -> list[Event]:
    """Return the tokens of a run by model, counted as AG-UI counts them: the cache is a part of the input."""
    found = []
    for model, (_, tokens) in (models or {}).items():
        read = tokens.input + tokens.cache_read + tokens.cache_write
        counts = {"inputTokens": read, "outputTokens": tokens.output, "totalTokens": read + tokens.output}
        cached = {"cachedInputTokens": tokens.cache_read, "cacheWriteInputTokens": tokens.cache_write}
        if min(*counts.values(), *cached.values()) >= 0:
            found.append({"provider": "anthropic", "model": model, **counts, **cached})
    return found
