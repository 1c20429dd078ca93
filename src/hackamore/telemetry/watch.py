"""Makes the spans and metrics of one query or session of what its observer hears.

Every open span belongs to a table here: turns, subagents, tools, callbacks. The end of one also ends everything inside, and `ended` ends
all: no span stays open after a crash, a kill or an interrupt. A response of the model becomes a span when it is over; its times are
those of its messages.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context as contexts
from opentelemetry import propagate
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, set_span_in_context

from hackamore.activity.prices import Tokens, tokens_of
from hackamore.activity.replies import Replies, Reply, Results
from hackamore.activity.tree import CALLS, RESULTS, Calls
from hackamore.activity.words import AGENT_TOOLS
from hackamore.messages import (
    AssistantMessage,
    ResultMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskStartedMessage,
    UserMessage,
)
from hackamore.options.observing import Observation
from hackamore.telemetry import names
from hackamore.telemetry.content import as_json, message_json, parts_of, prompt_json
from hackamore.telemetry.environment import trace_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, Meter, UpDownCounter
    from opentelemetry.trace import Span, Tracer

    from hackamore.errors import HackamoreError
    from hackamore.messages import Message
    from hackamore.options.observing import CallbackCall, CallbackEnd, Subject

_REPLIES_KEPT = 1_000


class Instruments:
    """The instruments of all metrics."""

    def __init__(self, meter: Meter) -> None:
        def histogram(metric: names.MetricName) -> Histogram:
            return meter.create_histogram(
                metric.name,
                unit=metric.unit,
                description=metric.meaning,
                explicit_bucket_boundaries_advisory=metric.buckets,
            )

        def counter(metric: names.MetricName) -> Counter:
            return meter.create_counter(metric.name, unit=metric.unit, description=metric.meaning)

        self.agent_duration: Histogram = histogram(names.AGENT_DURATION)
        self.tool_duration: Histogram = histogram(names.TOOL_DURATION)
        self.token_usage: Histogram = histogram(names.TOKEN_USAGE)
        self.first_message: Histogram = histogram(names.FIRST_MESSAGE)
        self.permission_wait: Histogram = histogram(names.PERMISSION_WAIT)
        self.control_duration: Histogram = histogram(names.CONTROL_DURATION)
        self.process_starts: Counter = counter(names.PROCESS_STARTS)
        self.cost: Counter = counter(names.COST_SPENT)
        self.tasks: Counter = counter(names.TASKS)
        self.attempts: Counter = counter(names.ATTEMPTS)
        self.task_duration: Histogram = histogram(names.TASK_DURATION)
        self.task_wait: Histogram = histogram(names.TASK_WAIT)
        self.pool_waits: Histogram = histogram(names.POOL_WAITS)
        self.pool_hibernations: Counter = counter(names.POOL_HIBERNATIONS)
        limit, waiting = names.LIMIT, names.POOL_WAITING
        self.limit: UpDownCounter = meter.create_up_down_counter(limit.name, limit.unit, limit.meaning)
        self.pool_waiting: UpDownCounter = meter.create_up_down_counter(waiting.name, waiting.unit, waiting.meaning)


class Settings(NamedTuple):
    """Decisions of a `Telemetry` for all its queries and sessions.

    Attributes:
        content: True records content.
        switches: variables that turn on the CLI's own telemetry.
    """

    tracer: Tracer
    instruments: Instruments
    content: bool
    agent: str
    provider: str
    switches: Mapping[str, str | None]


class _Chat:
    """A response of the model that is not over."""

    __slots__ = ("began", "ended", "parts", "reply", "stop_reason")

    def __init__(self, reply: Reply, began: int) -> None:
        self.reply = reply
        self.began = self.ended = began
        self.stop_reason: str | None = None
        self.parts: list[dict[str, Any]] = []


class _Tool:
    """A tool call."""

    __slots__ = ("agent", "began", "context", "id", "name", "span", "subagent", "type")

    def __init__(self, call_id: str, name: str, kind: str, agent: _Agent, span: Span) -> None:
        self.id = call_id
        self.name = name
        self.type = kind
        self.agent = agent
        self.span = span
        self.context = set_span_in_context(span, agent.context)
        self.began = time.monotonic()
        self.subagent: str | None = None


class _Agent:
    """The main agent of a turn, or a subagent."""

    def __init__(self, name: str, span: Span, context: Context) -> None:
        self.name = name
        self.span = span
        self.context = context
        self.turn: _Turn | None = None  # of a main agent
        self.began = time.monotonic()
        self.since = time.time_ns()  # from here on, the next response of the model
        self.chat: _Chat | None = None
        self.tokens = Tokens()
        self.final = True  # the number of written tokens is not too small
        self.inferences = self.tools = 0
        self.calls: set[str] = set()
        self.background = False


class _Turn:
    """A turn that is not over."""

    def __init__(self, turn_id: str | None, agent: _Agent) -> None:
        self.id = turn_id
        self.agent = agent
        agent.turn = self
        self.sent = False
        self.answered = False
        self.result: ResultMessage | None = None
        self.cost: float | None = None


class Watch(Observation):
    """The telemetry of one query or session."""

    def __init__(self, subject: Subject, settings: Settings) -> None:
        self._subject = subject
        self._settings = settings
        self._instruments = settings.instruments
        self._content = settings.content
        self._caller = contexts.get_current()
        self._turns: dict[str, _Turn] = {}
        self._early: _Turn | None = None  # of a query that is started before its first prompt is sent
        self._background: _Turn | None = None
        self._current: _Turn | None = None
        self._last: _Turn | None = None
        self._agents: dict[str, _Agent] = {}
        self._tasks: dict[str, str] = {}  # of subagents: their calls
        self._tools: Calls[_Tool] = Calls()
        self._callbacks: dict[str, tuple[Span, float]] = {}
        self._requests: dict[str, tuple[str, float]] = {}
        self._replies = Replies(Reply, _REPLIES_KEPT)
        options = subject.options
        self._results = Results(resumed=options.resume is not None or options.continue_conversation)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _begin_turn(self, turn_id: str | None, around: Context, *links: Link) -> _Turn:
        more: dict[str, Any] = {} if self._subject.model is None else {names.REQUEST_MODEL: self._subject.model}
        if turn_id is None:
            more[names.BACKGROUND] = True
        return _Turn(turn_id, self._begin_agent(self._settings.agent, around, more, links))

    def _begin_agent(
        self, name: str, around: Context, more: Mapping[str, Any], links: Sequence[Link] | None = None
    ) -> _Agent:
        settings = self._settings
        attributes = {names.OPERATION: names.INVOKE_AGENT, names.PROVIDER: settings.provider, names.AGENT_NAME: name}
        span = settings.tracer.start_span(
            f"{names.INVOKE_AGENT} {name}", around, SpanKind.INTERNAL, {**attributes, **more}, links
        )
        return _Agent(name, span, set_span_in_context(span, around))

    def prompt_sending(self, turn_id: str, content: str | Sequence[Any]) -> None:
        """Begin the span of a turn."""
        turn, self._early = self._early, None
        if turn is None:
            is_query = self._subject.kind == "query"
            turn = self._begin_turn(turn_id, self._caller if is_query else contexts.get_current())
        turn.id, turn.sent = turn_id, True
        self._turns[turn_id] = turn
        turn.agent.span.set_attribute(names.TURN_ID, turn_id)
        if self._content:
            turn.agent.span.set_attribute(names.INPUT_MESSAGES, prompt_json(content))

    def turn_changed(self, turn_id: str, state: str, error: HackamoreError | None) -> None:
        """Follow a turn, and end its span."""
        if state == "started":
            self._current = self._turns.get(turn_id)
        elif state != "queued" and (turn := self._turns.pop(turn_id, None)) is not None:
            self._end_turn(turn, state, error)

    def _end_turn(self, turn: _Turn, state: str, error: HackamoreError | None) -> None:
        if self._current is turn:
            self._current = None
        self._last = turn
        agent, result = turn.agent, turn.result
        attributes: dict[str, Any] = {names.TURN_STATE: state}
        if result is not None:
            if result.usage is not None and (tokens := tokens_of(result.usage)).total:  # zero for an interrupted turn
                agent.tokens, agent.final = tokens, True
            if result.terminal_reason is not None:
                attributes[names.TERMINAL_REASON] = result.terminal_reason
            if result.total_cost_usd is not None:
                attributes[names.TOTAL_COST] = result.total_cost_usd
            if self._content:
                said = [{"type": "text", "content": result.text}]
                attributes[names.OUTPUT_MESSAGES] = message_json(said, result.stop_reason)
        if turn.cost is not None:
            attributes[names.COST] = turn.cost
        failure = ""
        if state == "failed":
            failure = _failure(error, result)
            exit_code = getattr(error, "exit_code", None)
            if isinstance(exit_code, int):
                attributes[names.EXIT_CODE] = exit_code
        agent.span.set_attributes(attributes)
        self._end_agent(agent, failure)

    def _end_agent(self, agent: _Agent, failure: str) -> None:
        """End the span of an agent, after those of its responses, tools and subagents."""
        self._end_chat(agent)
        for call_id in agent.calls:
            inner = self._agents.get(call_id)
            if inner is not None and not inner.background:
                del self._agents[call_id]
                self._end_agent(inner, "cancelled")
            tool = self._tools.end(call_id)
            if tool is not None:
                self._end_tool(tool, "cancelled")
            self._tools.pop(call_id, None)
        agent.calls.clear()
        attributes: dict[str, Any] = {
            names.INFERENCE_CALLS: agent.inferences,
            names.TOOL_CALLS: agent.tools,
            **_attributes(agent.tokens, final=agent.final),
        }
        if self._subject.session_id is not None:
            attributes[names.CONVERSATION] = self._subject.session_id
        agent.span.set_attributes(attributes)
        measured = {names.OPERATION: names.INVOKE_AGENT, names.AGENT_NAME: agent.name}
        end_span(agent.span, failure, measured)
        self._instruments.agent_duration.record(time.monotonic() - agent.began, measured, agent.context)

    # -- the process ---------------------------------------------------------------------------------------------------

    def launching(self) -> Mapping[str, str | None]:
        """Return the trace context and the switches of the CLI's own telemetry."""
        if self._subject.kind == "query":
            turn = next(iter(self._turns.values()), self._early)
            if turn is None:
                turn = self._early = self._begin_turn("", self._caller)
            around = turn.agent.context
        else:
            around = contexts.get_current()
        return {**self._settings.switches, **trace_context(around, self._subject.options)}

    def launched(self) -> None:
        """Count the process."""
        self._instruments.process_starts.add(1, {}, self._caller)

    def request_sent(self, request_id: str, operation: str) -> None:
        """Begin to measure a control operation."""
        self._requests[request_id] = operation, time.monotonic()

    def request_ended(self, request_id: str, error: HackamoreError | None) -> None:
        """Measure a control operation."""
        operation, began = self._requests.pop(request_id, ("", 0.0))
        if operation:
            measured = {names.OPERATION_OF_SESSION: operation}
            if error is not None:
                measured[names.ERROR_TYPE] = type(error).__name__
            self._instruments.control_duration.record(time.monotonic() - began, measured, self._caller)

    def ended(self, error: HackamoreError | None, exit_code: int | None) -> None:
        """End all spans."""
        state = "interrupted" if error is None else "failed"
        for span, _ in self._callbacks.values():
            end_span(span, "cancelled")
        self._callbacks.clear()
        open_turns = [*self._turns.values(), self._background, self._early]
        self._turns.clear()
        self._background = self._early = None
        for turn in open_turns:
            if turn is not None:
                self._end_turn(turn, state, error)
        while self._agents:  # the end of one also ends those inside
            self._end_agent(self._agents.popitem()[1], "cancelled")
        self._bill(self._replies.unreported, self._caller)

    # -- messages ------------------------------------------------------------------------------------------------------

    def messages_received(self, messages: Sequence[Message], turn_ids: tuple[str, ...]) -> None:
        """Take messages."""
        turn: _Turn | None = None
        for turn_id in turn_ids:
            turn = self._turns.get(turn_id)
            if turn is not None:
                break
        else:
            if turn_ids:
                turn = self._last
        for message in messages:
            now = time.time_ns()  # for each: those of one read stay in order
            match message:
                case StreamEvent():
                    self._streamed(message, turn, now)
                case AssistantMessage():
                    self._said(message, turn, now)
                case UserMessage():
                    self._heard(message, now)
                case ResultMessage():
                    self._result(message, turn, turn_ids)
                case TaskStartedMessage(tool_use_id=str(call_id), task_type="local_agent"):
                    self._tasks[message.task_id] = call_id
                    agent = self._agent_of(call_id, message.subagent_type, turn)
                    agent.background = agent.background or message.is_backgrounded is True
                case TaskNotificationMessage(tool_use_id=str(call_id), status=status):
                    self._tasks.pop(message.task_id, None)
                    ending = self._agents.get(call_id)
                    if ending is not None and ending.background:
                        del self._agents[call_id]
                        self._end_agent(ending, "" if status == "completed" else status or "cancelled")
                case _:  # the state of the CLI
                    pass

    def _main_agent(self, turn: _Turn | None) -> _Agent:
        """Return the main agent of a turn; without one, of the turn that the CLI started by itself."""
        if turn is None:
            turn = self._background
        if turn is None:
            links = [] if self._last is None else [Link(self._last.agent.span.get_span_context())]
            turn = self._background = self._begin_turn(None, contexts.Context(), *links)
        return turn.agent

    def _agent_of(self, parent: str | None, kind: str | None, turn: _Turn | None) -> _Agent:
        """Return the agent that speaks: the main one, or the subagent of a tool call."""
        if parent is None:
            return self._main_agent(turn)
        agent = self._agents.get(parent)
        if agent is not None:
            return agent
        tool = self._tools.get(parent)
        turn = turn or self._turn_of_now()
        around = tool.context if tool is not None else self._caller if turn is None else turn.agent.context
        name = kind or (tool.subagent if tool is not None else None) or "subagent"
        agent = self._agents[parent] = self._begin_agent(name, around, {})
        agent.background = parent not in self._tools.open  # its call has ended, or is unknown
        return agent

    def _chat_of(self, agent: _Agent, reply: Reply) -> _Chat:
        chat = agent.chat
        if chat is None or chat.reply is not reply:
            self._end_chat(agent)
            chat = agent.chat = _Chat(reply, agent.since)
        if agent.turn is not None and not agent.turn.answered:
            agent.turn.answered = True
            if agent.turn.sent:
                seconds = time.monotonic() - agent.began
                self._instruments.first_message.record(seconds, {names.AGENT_NAME: agent.name}, agent.context)
        return chat

    def _end_chat(self, agent: _Agent) -> None:
        chat, agent.chat = agent.chat, None
        if chat is None:
            return
        reply = chat.reply
        agent.since = max(agent.since, chat.ended)
        agent.inferences += 1
        agent.tokens = agent.tokens + reply.tokens
        agent.final = agent.final and reply.complete
        settings = self._settings
        attributes: dict[str, Any] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: settings.provider,
            names.REQUEST_MODEL: reply.model,
            names.RESPONSE_MODEL: reply.model,
            names.RESPONSE_ID: reply.key,
            names.DERIVED_TIMES: True,
            **_attributes(reply.tokens, final=reply.complete),
        }
        if chat.stop_reason is not None:
            attributes[names.FINISH_REASONS] = [chat.stop_reason]
        if self._subject.session_id is not None:
            attributes[names.CONVERSATION] = self._subject.session_id
        if self._content and chat.parts:
            attributes[names.OUTPUT_MESSAGES] = message_json(chat.parts, chat.stop_reason)
        if self._subject.model is None and agent.inferences == 1:
            agent.span.set_attribute(names.REQUEST_MODEL, reply.model)
        name = f"{names.CHAT} {reply.model}"
        span = settings.tracer.start_span(
            name, agent.context, SpanKind.CLIENT, attributes, start_time=min(chat.began, chat.ended)
        )
        span.end(chat.ended)

    def _streamed(self, event: StreamEvent, turn: _Turn | None, now: int) -> None:
        reply = self._replies.event(event)
        if reply is None:
            return
        chat = self._chat_of(self._agent_of(event.parent_tool_use_id, None, turn), reply)
        chat.ended = now
        delta = event.event.get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("stop_reason"), str):
            chat.stop_reason = delta["stop_reason"]

    def _said(self, message: AssistantMessage, turn: _Turn | None, now: int) -> None:
        agent = self._agent_of(message.parent_tool_use_id, message.subagent_type, turn)
        reply = self._replies.message(message)
        if reply is not None and not reply.over:
            chat = self._chat_of(agent, reply)
            chat.ended = now
            if message.stop_reason is not None:
                chat.stop_reason = message.stop_reason
            if self._content:
                chat.parts.extend(parts_of(message.content))
        for block in message.content:
            if isinstance(block, CALLS):
                self._begin_tool(agent, block.id, block.name, block)
        self._heard(message, now)

    def _heard(self, message: AssistantMessage | UserMessage, now: int) -> None:
        for block in message.content:
            if isinstance(block, RESULTS):
                self._tool_result(block, now)

    def _result(self, message: ResultMessage, turn: _Turn | None, turn_ids: tuple[str, ...]) -> None:
        around = self._background if turn is None and not turn_ids else turn
        for agent in (around.agent if around is not None else None, *self._agents.values()):
            if agent is not None:
                self._end_chat(agent)  # so that its tokens are known
        context = self._caller if around is None else around.agent.context
        fresh = self._results.take(message)
        models = {model: used for model, (_, used) in (fresh.models or {}).items()}
        self._bill(self._replies.unreported if fresh.models is None else models, context)
        self._replies.reported(fresh)
        cost = fresh.usd
        if cost:
            self._instruments.cost.add(cost, {names.AGENT_NAME: self._settings.agent}, context)
        if around is not None:
            around.result = message
            if cost is not None:
                around.cost = (around.cost or 0.0) + cost
        for turn_id in turn_ids:
            other = self._turns.get(turn_id)
            if other is not None and other is not around and around is not None:
                other.agent.span.add_link(around.agent.span.get_span_context())
        if around is not None and around is self._background:
            self._background = None
            aborted = (message.terminal_reason or "").startswith("aborted")
            self._end_turn(around, "interrupted" if aborted else "failed" if message.is_error else "completed", None)

    def _bill(self, models: Mapping[str, Tokens], context: Context) -> None:
        for model, tokens in models.items():
            for kind, amount in (("input", tokens.total - tokens.output), ("output", tokens.output)):
                if amount:
                    measured = {
                        names.OPERATION: names.CHAT,
                        names.PROVIDER: self._settings.provider,
                        names.REQUEST_MODEL: model,
                        names.TOKEN_TYPE: kind,
                    }
                    self._instruments.token_usage.record(amount, measured, context)

    # -- tools ---------------------------------------------------------------------------------------------------------

    def _begin_tool(self, agent: _Agent, call_id: str, name: str, block: Any = None) -> _Tool:
        tool = self._tools.open.get(call_id)
        if tool is None:
            kind = "function" if self._is_in_process(name) else "extension"
            attributes: dict[str, Any] = {
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_NAME: name,
                names.TOOL_CALL_ID: call_id,
                names.TOOL_TYPE: kind,
                names.AGENT_NAME: agent.name,
            }
            span = self._settings.tracer.start_span(
                f"{names.EXECUTE_TOOL} {name}", agent.context, SpanKind.INTERNAL, attributes
            )
            tool = _Tool(call_id, name, kind, agent, span)
            self._tools.begin(call_id, tool)
            agent.tools += 1
            agent.calls.add(call_id)
        if block is not None:
            if name in AGENT_TOOLS:
                subagent = block.input.get("subagent_type")
                tool.subagent = subagent if isinstance(subagent, str) else None
            if self._content:
                tool.span.set_attribute(names.TOOL_ARGUMENTS, as_json(block.input))
        return tool

    def _is_in_process(self, name: str) -> bool:
        """Return whether a server of this process has a tool; the configuration of other servers is a dict."""
        servers = self._subject.options.mcp_servers
        if not name.startswith("mcp__") or not isinstance(servers, Mapping):
            return False
        server = servers.get(name.split("__")[1])
        return server is not None and not isinstance(server, Mapping)

    def _tool_result(self, block: Any, now: int) -> None:
        tool = self._tools.end(block.tool_use_id)
        if tool is None:
            return
        tool.agent.since = now
        if self._content:
            text = block.text
            tool.span.set_attribute(names.TOOL_RESULT, text if text else as_json(block.content))
        agent = self._agents.get(tool.id)
        if agent is not None and not agent.background:
            del self._agents[tool.id]
            self._end_agent(agent, "")
        self._end_tool(tool, "tool_error" if block.is_error else "")

    def _end_tool(self, tool: _Tool, failure: str) -> None:
        measured = {names.TOOL_NAME: tool.name, names.TOOL_TYPE: tool.type, names.AGENT_NAME: tool.agent.name}
        end_span(tool.span, failure, measured)
        self._instruments.tool_duration.record(time.monotonic() - tool.began, measured, tool.context)

    # -- callbacks -----------------------------------------------------------------------------------------------------

    def _turn_of_now(self) -> _Turn | None:
        return self._current or next(iter(self._turns.values()), None) or self._background or self._early

    def callback_started(self, call: CallbackCall) -> Callable[[], object] | None:
        """Begin the span of a callback; spans that it opens are inside."""
        attributes: dict[str, Any] = {}
        kind = SpanKind.INTERNAL
        if call.kind == "permission":
            name = names.PERMISSION
            rule = getattr(call.request, "matched_ask_rule", None)
            if rule is not None:
                text = "" if rule.rule_content is None else f"({rule.rule_content})"
                attributes[names.RULE] = f"{rule.tool_name}{text}"
            reason = getattr(call.request, "decision_reason_type", None)
            if reason is not None:
                attributes[names.REASON] = reason
            attributes[names.ON_FAILURE] = "deny"
        elif call.kind == "hook":
            name = f"{names.HOOK} {call.event}"
            attributes[names.HOOK_EVENT] = call.event
            attributes[names.ON_FAILURE] = call.on_failure
        elif call.kind == "mcp" and call.tool:
            name, kind = f"{names.TOOLS_CALL} {call.tool}", SpanKind.SERVER
            attributes[names.OPERATION] = names.EXECUTE_TOOL
            attributes[names.MCP_METHOD] = names.TOOLS_CALL
            if self._content:
                attributes[names.TOOL_ARGUMENTS] = as_json(call.request)
        else:
            return None
        if call.tool:
            attributes[names.TOOL_NAME] = call.tool
        if call.tool_use_id:
            attributes[names.TOOL_CALL_ID] = call.tool_use_id
        outer = self._around(call)
        span = self._settings.tracer.start_span(name, outer, kind, attributes)
        self._callbacks[call.id] = span, time.monotonic()
        inside = set_span_in_context(span, outer)
        if call.meta is not None:
            propagate.inject(call.meta, inside)
        return partial(contexts.attach, inside)

    def _around(self, call: CallbackCall) -> Context:
        turn = self._turn_of_now()
        task = getattr(call.request, "agent_id", None)
        agent = self._agents.get(self._tasks.get(task, "")) if isinstance(task, str) else None
        if agent is None and turn is not None:
            agent = turn.agent
        if call.tool_use_id:
            tool = self._tools.get(call.tool_use_id)
            if tool is not None:
                return tool.context
            if call.tool and agent is not None:  # the message with the call is still to come
                return self._begin_tool(agent, call.tool_use_id, call.tool).context
        return self._caller if agent is None else agent.context

    def callback_ended(self, call: CallbackCall, end: CallbackEnd) -> None:
        """End the span of a callback."""
        span, began = self._callbacks.pop(call.id, (None, 0.0))
        if span is None:
            return
        attributes: dict[str, Any] = {names.ENDED: end.how}
        failure = "" if end.how == "answered" else f"callback_{end.how}"
        if call.kind == "mcp":
            if end.how == "answered" and end.decision == "failed":
                failure = "tool_error"
        elif end.answer is not None:
            attributes[names.DECISION] = end.decision or "none"
        if end.ruling is not None:
            attributes[names.REASON], attributes[names.POLICY_UNCLEAR] = "policy", bool(end.ruling.cannot_tell)
            if end.ruling.rule:
                attributes[names.RULE] = end.ruling.rule
            if self._content:  # a part may have secrets
                part = next((part.text for part in end.ruling.parts if part.decision == end.ruling.decision), "")
                attributes[names.POLICY_PART] = part
        if (approval := getattr(call.request, "approval", None)) is not None:
            attributes[names.APPROVAL_ID], attributes[names.APPROVAL_BY] = approval.id, approval.answered_by
            attributes[names.APPROVAL_SECONDS] = approval.answered_at - approval.asked_at
            attributes[names.APPROVERS] = list(approval.approvers or ())
        if call.kind == "permission":
            measured = {names.TOOL_NAME: call.tool, names.DECISION: attributes.get(names.DECISION, "none")}
            self._instruments.permission_wait.record(time.monotonic() - began, measured, self._caller)
        span.set_attributes(attributes)
        end_span(span, failure)


def end_span(span: Span, failure: str, measured: dict[str, Any] | None = None) -> None:
    """End a span; note a failure there and in the attributes of its metric. The description names no content."""
    if failure:
        span.set_attribute(names.ERROR_TYPE, failure)
        span.set_status(Status(StatusCode.ERROR, failure))
        if measured is not None:
            measured[names.ERROR_TYPE] = failure
    span.end()


def _failure(error: HackamoreError | None, result: ResultMessage | None) -> str:
    if error is not None:
        return type(error).__name__
    if result is not None and result.is_error:
        return result.terminal_reason or result.subtype or "error"
    return "error"


def _attributes(tokens: Tokens, *, final: bool) -> dict[str, int]:
    """Return numbers as attributes of a span; written tokens only if they are final."""
    found = {
        names.INPUT_TOKENS: tokens.total - tokens.output,
        names.CACHE_READ_TOKENS: tokens.cache_read,
        names.CACHE_CREATION_TOKENS: tokens.cache_write,
    }
    if final:
        found[names.OUTPUT_TOKENS] = tokens.output
    if tokens.thinking:
        found[names.REASONING_TOKENS] = tokens.thinking
    return found
