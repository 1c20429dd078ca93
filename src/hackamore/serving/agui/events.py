"""Messages of the CLI as events of AG-UI, as plain dicts: no IO, no clock.

Texts, thoughts and arguments of calls are sent as they stream. A whole message repeats what was streamed before it, so it only adds what
was not: that is all there is of subagents, and without `include_partial_messages`. Each subagent goes by the id of the call that started
it, and its events have that id as `subagentRunId`. `finish` closes what is open, as a run must not end before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from hackamore import messages as m
from hackamore.activity.tree import CALLS, RESULTS, Calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hackamore.activity.prices import Tokens

Event: TypeAlias = dict[str, Any]

_PIECE = 65_536  # characters of a delta: a client reads lines of up to 10 MiB, and the buffer of a run has a limit
_MOST_RESULT = 262_144  # characters of the result of a tool that a browser gets


@dataclass
class _Call:
    agent: str
    input: Event = field(default_factory=dict)
    sent: bool = False  # a part of its arguments
    over: bool = False


@dataclass
class _Agent:
    """The main conversation, or a subagent: the reply that it writes, as the API names it and unique in the run, and its open block."""

    name: str = ""
    wire: str = ""
    reply: str = ""
    blocks: int = 0
    named: bool = False  # the id of the reply has been sent
    streamed: bool = False
    kind: str = ""
    block: str = ""  # its id, once something of it was sent
    call: str = ""


class Translator:
    """Makes the events of a run. `waiting` are the calls that wait for a person, each with its interrupt: set it while `held` is true."""

    def __init__(self, thread: str, run: str) -> None:
        self.waiting: dict[str, str] = {}
        self._ids = {"threadId": thread, "runId": run}
        self._agents: dict[str, _Agent] = {"": _Agent()}
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
            case m.StreamEvent():
                self._release()
                self._piece(self._agent(message.parent_tool_use_id or ""), message)
            case m.AssistantMessage():
                self._release()
                self._whole(self._agent(message.parent_tool_use_id or ""), message)
            case m.UserMessage() if not isinstance(message.content, str):
                self._results(message.content)
            case m.TaskStartedMessage() if message.tool_use_id and message.task_type == "local_agent":
                if message.is_backgrounded:
                    self._background.add(message.tool_use_id)
                self._begin_agent(message.tool_use_id, message.subagent_type, message.description)
            case m.TaskNotificationMessage() if message.tool_use_id in self._open:
                if message.status == "completed":
                    self._end_agent(message.tool_use_id)
                else:
                    self._held.append((message.tool_use_id, None))
            case m.APIRetryMessage():
                value = {"attempt": message.attempt, "delayMs": message.retry_delay_ms, "status": message.error_status}
                self._out.append(custom("api_retry", value))
        return self._taken()

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
        return self._taken()

    def agent_of(self, call: str) -> str:
        """Return the subagent that made a call; empty for the main conversation."""
        return self._calls[call].agent if call in self._calls else ""

    def end(self, outcome: Event, *, usage: list[Event] | None = None, result: Any = None) -> Event:
        """Return the last event of a run that did not fail."""
        more = {name: value for name, value in (("usage", usage), ("result", result)) if value}
        return {"type": "RUN_FINISHED", **self._ids, "outcome": outcome, **more}

    def _taken(self) -> list[Event]:
        out, self._out = self._out, []
        return out

    def _agent(self, name: str) -> _Agent:
        if name not in self._agents:
            self._begin_agent(name)
        return self._agents[name]

    def _piece(self, agent: _Agent, event: m.StreamEvent) -> None:
        match event.event_type:
            case "content_block_delta":
                if text := event.text_delta:
                    self._add(agent, "text", text)
                elif text := event.thinking_delta:
                    self._add(agent, "thinking", text)
                elif (text := event.input_json_delta) and agent.call:
                    self._calls[agent.call].sent = True
                    self._emit("TOOL_CALL_ARGS", agent, text, toolCallId=agent.call)
            case "content_block_start":
                self._close(agent)
                block = event.event.get("content_block")
                block = block if isinstance(block, dict) else {}
                call, name = block.get("id"), block.get("name")
                if str(block.get("type")).endswith("tool_use") and isinstance(call, str) and isinstance(name, str):
                    self._begin_call(agent, call, name)
            case "content_block_stop" | "message_stop":
                self._close(agent)
            case "message_start":
                body = event.event.get("message")
                reply = body.get("id") if isinstance(body, dict) else None
                self._begin_reply(agent, reply if isinstance(reply, str) else "", event, streamed=True)

    def _whole(self, agent: _Agent, message: m.AssistantMessage) -> None:
        if message.error or message.is_api_error_message:
            return  # the CLI says why the turn fails: its result is the error of the run
        if (message.message_id or f"reply-{message.uuid}") != agent.wire:
            self._begin_reply(agent, message.message_id or "", message, streamed=False)
        for block in message.content:
            if isinstance(block, CALLS):
                self._begin_call(agent, block.id, block.name)
                call = self._calls.get(block.id)
                if call is not None and not call.over:
                    call.input = block.input
                    if not call.sent:
                        text = bytes(block.input_raw).decode("utf-8", "replace") or "{}"
                        self._emit("TOOL_CALL_ARGS", agent, text, toolCallId=block.id)
                    self._end_call(block.id, agent)
            elif isinstance(block, RESULTS):
                self._results([block])
            elif isinstance(block, (m.TextBlock, m.ThinkingBlock)) and not agent.streamed:
                text = block.text if isinstance(block, m.TextBlock) else block.thinking
                self._close(agent)
                if text:
                    self._add(agent, "text" if isinstance(block, m.TextBlock) else "thinking", text)
                    self._close(agent)

    def _begin_reply(self, agent: _Agent, wire: str, message: m.Message, *, streamed: bool) -> None:
        self._close(agent)
        wire = wire or f"reply-{message.uuid}"
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
            # The first text has the id of the reply, which its calls name as their parent.
            first = kind == "text" and not agent.named
            agent.kind, agent.named, agent.blocks = kind, agent.named or first, agent.blocks + 1
            agent.block = agent.reply if first else f"{agent.reply}-{agent.blocks}"
            if kind == "text":
                self._emit("TEXT_MESSAGE_START", agent, messageId=agent.block, role="assistant")
            else:
                self._emit("REASONING_START", agent, messageId=agent.block)
                self._emit("REASONING_MESSAGE_START", agent, messageId=agent.block, role="reasoning")
        name = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        self._emit(name, agent, text, messageId=agent.block)

    def _close(self, agent: _Agent) -> None:
        """End the block that is open."""
        if agent.call:
            self._end_call(agent.call, agent)
        if agent.block:
            names = ("TEXT_MESSAGE_END",) if agent.kind == "text" else ("REASONING_MESSAGE_END", "REASONING_END")
            for name in names:
                self._emit(name, agent, messageId=agent.block)
        agent.block = ""

    def _begin_call(self, agent: _Agent, call: str, name: str) -> None:
        if call and self._calls.begin(call, _Call(agent.name)):
            self._close(agent)
            agent.call, agent.blocks, agent.named = call, agent.blocks + 1, True
            self._emit("TOOL_CALL_START", agent, toolCallId=call, toolCallName=name, parentMessageId=agent.reply)

    def _end_call(self, call: str, agent: _Agent) -> None:
        if not self._calls[call].over:
            self._calls[call].over = True
            self._emit("TOOL_CALL_END", agent, toolCallId=call)
        if agent.call == call:
            agent.call = ""

    def _results(self, blocks: Iterable[Any]) -> None:
        for block in blocks:
            if not isinstance(block, RESULTS) or (call := self._calls.end(block.tool_use_id)) is None:
                continue
            agent, name = self._agents[call.agent], block.tool_use_id
            self._end_call(name, agent)
            text = block.text or msgspec.json.encode(block.content).decode() if block.content else ""
            if len(text) > _MOST_RESULT:
                text = f"{text[:_MOST_RESULT]}\n({len(text) - _MOST_RESULT:,} more characters)"
            event = call_result(name, text, agent.name)
            if block.is_error:
                self._held.append((name, event | {"metadata": {"isError": True}}))
                continue
            if name in self._open and name not in self._background:
                self._end_agent(name)
            self._out.append(event)

    def _release(self) -> None:
        """Add failed results, but those of calls that wait, and of the subagents that made them."""
        held, self._held = self._held, []
        paused = set(self.waiting) if held else set()
        for name in self.waiting if held else ():
            while (name := self.agent_of(name)) and name not in paused:
                paused.add(name)
        for call, event in held:
            if call in self._open:
                self._end_agent(call, failed=call not in paused, suspended=call in paused)
            if event is not None and call not in paused:
                self._out.append(event)

    def _begin_agent(self, name: str, kind: str | None = None, description: str = "") -> None:
        if name in self._open or name in self._closed:
            return
        call = self._calls.get(name)
        given = call.input if call is not None else {}
        self._open.append(name)
        self._agents.setdefault(name, _Agent(name))
        fields = {"description": description or given.get("description"), "parentSubagentRunId": self.agent_of(name)}
        fields |= {"parentToolCallId": name if call is not None else None}
        event = {"type": "SUBAGENT_STARTED", "subagentRunId": name}
        event["name"] = str(kind or given.get("subagent_type") or "agent")
        self._out.append(event | {key: value for key, value in fields.items() if isinstance(value, str) and value})

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

    def _emit(self, kind: str, agent: _Agent, delta: str | None = None, **fields: Any) -> None:
        event = {"type": kind, **fields, **_tag(agent.name)}
        pieces = () if delta is None else range(0, len(delta), _PIECE)
        self._out += [{**event, "delta": (delta or "")[at : at + _PIECE]} for at in pieces] or [event]


def _tag(agent: str) -> Event:
    return {"subagentRunId": agent} if agent else {}


def custom(name: str, value: Any) -> Event:
    """Return an event of this library."""
    return {"type": "CUSTOM", "name": f"hackamore.{name}", "value": value}


def call_result(call: str, text: str, agent: str = "") -> Event:
    """Return the result of a call."""
    fields = {"messageId": f"{call}-result", "toolCallId": call, "content": text, "role": "tool"}
    return {"type": "TOOL_CALL_RESULT", **fields, **_tag(agent)}


def usage_of(models: dict[str, tuple[float, Tokens]] | None) -> list[Event]:
    """Return the tokens of a run by model, counted as AG-UI counts them: the cache is a part of the input."""
    found = []
    for model, (_, tokens) in (models or {}).items():
        read = tokens.input + tokens.cache_read + tokens.cache_write
        counts = {"inputTokens": read, "outputTokens": tokens.output, "totalTokens": read + tokens.output}
        counts |= {"cachedInputTokens": tokens.cache_read, "cacheWriteInputTokens": tokens.cache_write}
        if min(counts.values()) >= 0:
            found.append({"provider": "anthropic", "model": model, **counts})
    return found
