"""Every name that telemetry uses: spans, attributes, metrics. The guide and the tests read these tables.

Names that begin with `gen_ai`, `mcp`, `error` and `process` are those of the semantic conventions of OpenTelemetry. Those that begin with
`hackamore` are not in the conventions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ATTRIBUTES", "CONVENTIONS", "CONVENTIONS_METRICS", "METRICS", "SPANS", "MetricName", "SpanName"]

CONVENTIONS: Final = "0.66b2"
"""The release of `opentelemetry-semantic-conventions` that the attributes are from. The status of the GenAI conventions is Development."""
CONVENTIONS_METRICS: Final = "004902b8cb70"
"""The commit of `open-telemetry/semantic-conventions-genai` that the metrics of agents and tools are from."""

# -- operations --------------------------------------------------------------------------------------------------------

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
TOOLS_CALL: Final = "tools/call"
PERMISSION: Final = "hackamore.permission"
HOOK: Final = "hackamore.hook"
FLEET_RUN: Final = "hackamore.fleet.run"
FLEET_ATTEMPT: Final = "hackamore.fleet.attempt"
FLEET_WORKSPACE: Final = "hackamore.fleet.workspace"
FLEET_VERIFY: Final = "hackamore.fleet.verify"
POOL_WAIT: Final = "hackamore.pool.wait"


class SpanName(NamedTuple):
    """A kind of span.

    Attributes:
        name: the name, with the attribute that completes it.
        covers: the time that it covers.
    """

    name: str
    kind: str
    parent: str
    covers: str


SPANS: Final = (
    SpanName(
        "invoke_agent {agent}", "INTERNAL", "the caller's current span", "one turn, from its prompt to its result"
    ),
    SpanName("chat {model}", "CLIENT", "`invoke_agent`", "one response of the model; its times are derived"),
    SpanName("execute_tool {tool}", "INTERNAL", "`invoke_agent`", "one tool call, until its result"),
    SpanName("hackamore.permission", "INTERNAL", "`execute_tool`", "one call of `can_use_tool`"),
    SpanName("hackamore.hook {event}", "INTERNAL", "`execute_tool`, or `invoke_agent`", "one call of a hook"),
    SpanName("tools/call {tool}", "SERVER", "`execute_tool`", "one call of an in-process tool"),
    SpanName("invoke_agent {subagent}", "INTERNAL", "`execute_tool`", "one subagent"),
    SpanName(FLEET_RUN, "INTERNAL", "the caller's current span", "one run of a fleet"),
    SpanName(FLEET_ATTEMPT, "INTERNAL", "`hackamore.fleet.run`", "one attempt at a task; its `invoke_agent` is inside"),
    SpanName(FLEET_WORKSPACE, "INTERNAL", "`hackamore.fleet.attempt`", "making or finishing the folder of the agent"),
    SpanName(FLEET_VERIFY, "INTERNAL", "`hackamore.fleet.attempt`", "the check of an answer"),
    SpanName(POOL_WAIT, "INTERNAL", "the caller's current span", "the wait of a caller for a session of a pool"),
)

# -- attributes --------------------------------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - not a secret
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
MCP_METHOD: Final = "mcp.method.name"
ERROR_TYPE: Final = "error.type"
EXIT_CODE: Final = "process.exit.code"
BACKGROUND: Final = "hackamore.background"
COST: Final = "hackamore.cost.usd"
TOTAL_COST: Final = "hackamore.cost.total_usd"
DECISION: Final = "hackamore.decision"
DERIVED_TIMES: Final = "hackamore.times.derived"
ENDED: Final = "hackamore.callback.outcome"
HOOK_EVENT: Final = "hackamore.hook.event"
FLEET_ID: Final = "hackamore.fleet.id"
FLEET_CONCURRENCY: Final = "hackamore.fleet.concurrency"
FLEET_STEP: Final = "hackamore.fleet.workspace.step"
TASK_ID: Final = "hackamore.fleet.task.id"
TASK_STATE: Final = "hackamore.fleet.task.state"
ATTEMPT: Final = "hackamore.fleet.attempt.number"
ATTEMPT_CAUSE: Final = "hackamore.fleet.attempt.cause"
ATTEMPT_RESUMED: Final = "hackamore.fleet.attempt.resumed"
INFERENCE_CALLS: Final = "hackamore.inference_calls"
ON_FAILURE: Final = "hackamore.on_failure"
OPERATION_OF_SESSION: Final = "hackamore.operation"
POOL_REASON: Final = "hackamore.pool.hibernation.reason"
POOL_SOURCE: Final = "hackamore.pool.session.source"
REASON: Final = "hackamore.decision.reason"
RULE: Final = "hackamore.decision.rule"
TERMINAL_REASON: Final = "hackamore.terminal_reason"
TOOL_CALLS: Final = "hackamore.tool_calls"
TURN_ID: Final = "hackamore.turn.id"
TURN_STATE: Final = "hackamore.turn.state"

ATTRIBUTES: Final = {
    OPERATION: "`invoke_agent`, `chat` or `execute_tool`",
    PROVIDER: "`anthropic`, `aws.bedrock` or `gcp.vertex_ai`, from the CLI's variables",
    AGENT_NAME: "the agent's name, or the subagent's type",
    CONVERSATION: "the session id, once it is known",
    REQUEST_MODEL: "the model of the options, or the first that answered",
    RESPONSE_MODEL: "the model that answered",
    RESPONSE_ID: "the id of the response",
    FINISH_REASONS: "why the model stopped, as a list",
    INPUT_TOKENS: "tokens read, including those of the cache",
    OUTPUT_TOKENS: "tokens written",
    CACHE_READ_TOKENS: "tokens read from the cache",
    CACHE_CREATION_TOKENS: "tokens written to the cache",
    REASONING_TOKENS: "tokens spent on reasoning",
    TOKEN_TYPE: "`input` or `output`; of a metric",
    TOOL_NAME: "the tool's name, as the model knows it",
    TOOL_TYPE: "`function` for in-process tools, else `extension`",
    TOOL_CALL_ID: "the id of the tool call",
    TOOL_ARGUMENTS: "the tool's input as JSON; only with content",
    TOOL_RESULT: "the tool's result as text; only with content",
    INPUT_MESSAGES: "the prompt as JSON; only with content",
    OUTPUT_MESSAGES: "the response as JSON; only with content",
    MCP_METHOD: "`tools/call`",
    ERROR_TYPE: "the kind of failure; without it the operation succeeded",
    EXIT_CODE: "the CLI's exit code, on turns that its end interrupted",
    BACKGROUND: "True for a turn that the CLI started by itself",
    COST: "the turn's cost in US dollars, as the CLI estimates it",
    TOTAL_COST: "the conversation's cost so far",
    DECISION: "`allow`, `deny`, `ask`, `block`, ...: the decision of a callback",
    DERIVED_TIMES: "True: times come from messages, not from API requests",
    ENDED: "`answered`, `failed` or `cancelled`",
    HOOK_EVENT: "the event of a hook",
    FLEET_ID: "the id of the fleet's journal",
    FLEET_CONCURRENCY: "agents that may run at the same time, at most",
    FLEET_STEP: "`prepare` or `finish`",
    TASK_ID: "the id of the task",
    TASK_STATE: "the state of the task after the attempt: `succeeded`, `waiting`, ...",
    ATTEMPT: "the number of the attempt, from 1",
    ATTEMPT_CAUSE: "why the attempt failed: `throttled`, `crash`, ...; `none` in metrics",
    ATTEMPT_RESUMED: "True if it continues the session of an earlier attempt",
    INFERENCE_CALLS: "the number of `chat` spans of the agent",
    ON_FAILURE: "the decision if the callback fails",
    OPERATION_OF_SESSION: "the control operation; of a metric",
    REASON: "why the CLI sent the request: `rule`, `mode`, ...",
    RULE: "the permission rule that forced the request",
    POOL_REASON: "`idle`, `limit`, `memory`, ...: why a conversation hibernated; of a metric",
    POOL_SOURCE: "`ready`, `started` or `resumed`: where the session came from; `none` after an error",
    TERMINAL_REASON: "why the turn ended: `completed`, `max_turns`, ...",
    TOOL_CALLS: "the number of `execute_tool` spans of the agent",
    TURN_ID: "the turn's id",
    TURN_STATE: "`completed`, `interrupted` or `failed`",
}

# -- metrics -----------------------------------------------------------------------------------------------------------


class MetricName(NamedTuple):
    """A metric.

    Attributes:
        instrument: `histogram`, `counter` or `updowncounter`.
        buckets: boundaries that a histogram advises.
    """

    name: str
    instrument: str
    unit: str
    meaning: str
    buckets: tuple[float, ...] = ()


_SECONDS: Final = tuple(0.01 * 2**power for power in range(14))
_TOKENS: Final = tuple(float(4**power) for power in range(14))

AGENT_DURATION: Final = MetricName(
    "gen_ai.invoke_agent.duration",
    "histogram",
    "s",
    "Duration of a turn.",
    tuple(0.1 * 2**power for power in range(13)),
)
TOOL_DURATION: Final = MetricName(
    "gen_ai.execute_tool.duration", "histogram", "s", "Duration of a tool call.", _SECONDS
)
TOKEN_USAGE: Final = MetricName(
    "gen_ai.client.token.usage", "histogram", "{token}", "Tokens that a model used in a turn.", _TOKENS
)
FIRST_MESSAGE: Final = MetricName(
    "hackamore.turn.time_to_first_message",
    "histogram",
    "s",
    "Time from a prompt to the first message of the model.",
    _SECONDS,
)
PERMISSION_WAIT: Final = MetricName(
    "hackamore.permission.wait", "histogram", "s", "Time until `can_use_tool` answered.", _SECONDS
)
CONTROL_DURATION: Final = MetricName(
    "hackamore.control.duration", "histogram", "s", "Round trip of a control operation.", _SECONDS
)
PROCESS_STARTS: Final = MetricName("hackamore.process.starts", "counter", "{process}", "Started CLI processes.")
COST_SPENT: Final = MetricName("hackamore.cost", "counter", "USD", "Cost in US dollars, as the CLI estimates it.")
_WORK: Final = tuple(0.1 * 2**power for power in range(18))
TASKS: Final = MetricName("hackamore.fleet.tasks", "counter", "{task}", "Tasks that are over, by state.")
ATTEMPTS: Final = MetricName("hackamore.fleet.attempts", "counter", "{attempt}", "Attempts that are over, by cause.")
TASK_DURATION: Final = MetricName(
    "hackamore.fleet.task.duration", "histogram", "s", "Time that all attempts of a task took.", _WORK
)
TASK_WAIT: Final = MetricName(
    "hackamore.fleet.task.wait",
    "histogram",
    "s",
    "Time that a task was queued or waited before an attempt.",
    _WORK,
)
POOL_WAITS: Final = MetricName(
    "hackamore.pool.wait.duration", "histogram", "s", "Time that a caller waited for a session of a pool.", _SECONDS
)
POOL_WAITING: Final = MetricName(
    "hackamore.pool.waiting", "updowncounter", "{caller}", "Callers that wait for a session."
)
POOL_HIBERNATIONS: Final = MetricName(
    "hackamore.pool.hibernations", "counter", "{conversation}", "Conversations that gave their process up, by reason."
)
LIMIT: Final = MetricName("hackamore.fleet.limit", "updowncounter", "{agent}", "Agents that may run at the same time.")

METRICS: Final = (
    AGENT_DURATION,
    TOOL_DURATION,
    TOKEN_USAGE,
    FIRST_MESSAGE,
    PERMISSION_WAIT,
    CONTROL_DURATION,
    PROCESS_STARTS,
    COST_SPENT,
    TASKS,
    ATTEMPTS,
    TASK_DURATION,
    TASK_WAIT,
    LIMIT,
    POOL_WAITS,
    POOL_WAITING,
    POOL_HIBERNATIONS,
)
