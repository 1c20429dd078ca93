"""Every name that telemetry uses: spans, attributes, metrics. `docs/guides/production/observe.md` says what they mean.

Names that begin with `gen_ai`, `mcp`, `error` and `process` are those of the semantic conventions of OpenTelemetry. Those that begin with
`hackamore` are not in the conventions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
APPROVAL_BY: Final = "hackamore.approval.by"
APPROVAL_ID: Final = "hackamore.approval.id"
APPROVAL_SECONDS: Final = "hackamore.approval.seconds"
APPROVERS: Final = "hackamore.approval.approvers"
ATTEMPT: Final = "hackamore.fleet.attempt.number"
ATTEMPT_CAUSE: Final = "hackamore.fleet.attempt.cause"
ATTEMPT_RESUMED: Final = "hackamore.fleet.attempt.resumed"
INFERENCE_CALLS: Final = "hackamore.inference_calls"
ON_FAILURE: Final = "hackamore.on_failure"
POLICY_PART: Final = "hackamore.policy.part"
POLICY_UNCLEAR: Final = "hackamore.policy.not_understood"
OPERATION_OF_SESSION: Final = "hackamore.operation"
POOL_REASON: Final = "hackamore.pool.hibernation.reason"
POOL_SOURCE: Final = "hackamore.pool.session.source"
REASON: Final = "hackamore.decision.reason"
RULE: Final = "hackamore.decision.rule"
TERMINAL_REASON: Final = "hackamore.terminal_reason"
TOOL_CALLS: Final = "hackamore.tool_calls"
TURN_ID: Final = "hackamore.turn.id"
TURN_STATE: Final = "hackamore.turn.state"

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


def _seconds(name: str, meaning: str, first: float = 0.01, buckets: int = 14) -> MetricName:
    return MetricName(name, "histogram", "s", meaning, tuple(first * 2**power for power in range(buckets)))


_TOKENS: Final = tuple(float(4**power) for power in range(14))

AGENT_DURATION: Final = _seconds("gen_ai.invoke_agent.duration", "Duration of a turn.", 0.1, 13)
TOOL_DURATION: Final = _seconds("gen_ai.execute_tool.duration", "Duration of a tool call.")
TOKEN_USAGE: Final = MetricName(
    "gen_ai.client.token.usage", "histogram", "{token}", "Tokens that a model used in a turn.", _TOKENS
)
FIRST_MESSAGE: Final = _seconds(
    "hackamore.turn.time_to_first_message", "Time from a prompt to the first message of the model."
)
PERMISSION_WAIT: Final = _seconds("hackamore.permission.wait", "Time until `can_use_tool` answered.")
CONTROL_DURATION: Final = _seconds("hackamore.control.duration", "Round trip of a control operation.")
PROCESS_STARTS: Final = MetricName("hackamore.process.starts", "counter", "{process}", "Started CLI processes.")
COST_SPENT: Final = MetricName("hackamore.cost", "counter", "USD", "Cost in US dollars, as the CLI estimates it.")
TASKS: Final = MetricName("hackamore.fleet.tasks", "counter", "{task}", "Tasks that are over, by state.")
ATTEMPTS: Final = MetricName("hackamore.fleet.attempts", "counter", "{attempt}", "Attempts that are over, by cause.")
TASK_DURATION: Final = _seconds("hackamore.fleet.task.duration", "Time that all attempts of a task took.", 0.1, 18)
TASK_WAIT: Final = _seconds(
    "hackamore.fleet.task.wait", "Time that a task was queued or waited before an attempt.", 0.1, 18
)
POOL_WAITS: Final = _seconds("hackamore.pool.wait.duration", "Time that a caller waited for a session of a pool.")
POOL_WAITING: Final = MetricName(
    "hackamore.pool.waiting", "updowncounter", "{caller}", "Callers that wait for a session."
)
POOL_HIBERNATIONS: Final = MetricName(
    "hackamore.pool.hibernations", "counter", "{conversation}", "Conversations that gave their process up, by reason."
)
LIMIT: Final = MetricName("hackamore.fleet.limit", "updowncounter", "{agent}", "Agents that may run at the same time.")
