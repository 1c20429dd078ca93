"""The policy of a session: a PreToolUse hook that fails closed, the checks of changed inputs, and the lines of the audit file."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hackamore.activity.decisions import decision
from hackamore.activity.metering import Meter
from hackamore.checked.functions import Answer
from hackamore.errors import OptionsError, escape_terminal
from hackamore.hooks.matchers import HookMatcher
from hackamore.hooks.outputs import HookOutput, encode_hook_output, fail_output
from hackamore.options.observing import Observation
from hackamore.permissions import Allow, deny
from hackamore.tools import ToolServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hackamore.hooks import HookContext, HookInput, PermissionRequestHookInput, PreToolUseHookInput
    from hackamore.messages import Message
    from hackamore.options.deciding import Decider, Ruling
    from hackamore.options.observing import CallbackCall, CallbackEnd
    from hackamore.options.options import Options
    from hackamore.permissions import PermissionRequest
    from hackamore.storage.chain import ChainFile

STRICTNESS = {"allow": 0, "ask": 1, "defer": 2, "deny": 3, "block": 3}
_LONGEST = 2_000
_KEPT = 1_000
_STRUCTURED = "StructuredOutput"


class Ruled(NamedTuple):
    """The ruling of the hook, and its answer."""

    ruling: Ruling
    output: HookOutput


class _Own(NamedTuple):
    """A ruling of the guard."""

    decision: Any
    reason: str
    rule: str | None = None
    parts: Sequence[Any] = ()
    cannot_tell: Sequence[str] = ()


class PolicyGuard(Observation):
    """Enforces the policy of a session. Its hook runs in worker threads."""

    def __init__(self, policy: Decider, options: Options, servers: Mapping[str, Any]) -> None:
        self.mask: Callable[[bytes], bytes] = bytes  # takes secrets out, once the process has started
        self._policy = policy
        self._meter = Meter({}, resumed=options.resume is not None or options.continue_conversation)
        asks = options.questions["can_use_tool"] is not None or options.permission_prompt_tool_name is not None
        self._person = asks and options.permission_prompts != "none"
        self._schema = options.output_format is not None
        self._cwd = os.path.abspath(options.cwd or os.curdir)
        keys = (key.partition("=") for key in getattr(options.budget, "keys", ()))
        self._tags: dict[str, str] = {**{name: value for name, _, value in keys}, **(options.policy_tags or {})}
        self._annotations = {
            f"mcp__{_normal(server)}__{_normal(name)}": tool.definition.get("annotations")
            for server, found in servers.items()
            if isinstance(found, ToolServer)
            for name, tool in found.tools.items()
        }
        self._decided: dict[str, dict[str, Any]] = {}
        self._audit = None if options.policy_audit is None else _audit_file(options.policy_audit)

    def messages_received(self, messages: Sequence[Message], turn_ids: tuple[str, ...]) -> None:
        """Add up the cost."""
        for message in messages:
            self._meter.take(message)
        for use in list(self._decided)[:-_KEPT]:
            self._decided.pop(use, None)

    # -- deciding ------------------------------------------------------------------------------------------------------

    def matcher(self) -> HookMatcher[Any]:
        """Return the hook, for all tools."""
        hook: Any = self.decide  # its answer has the ruling beside the output
        return HookMatcher(hooks=(hook,), on_failure="block")

    def decide(self, call: PreToolUseHookInput, context: HookContext) -> Ruled:
        """Decide on a call. The line of the audit file is written before the answer: without it there is none, and the call is denied."""
        facts = self._facts(call)
        if use := call.tool_use_id or context.tool_use_id or "":
            self._decided[use] = facts
        ruling = self._rule(call.tool_name, call.tool_input, facts, use, call.session_id)
        explain: Any = ruling.decision != "allow" and getattr(self._policy, "explain", None)
        about = (
            str(explain(call.tool_name, call.tool_input, **self._around(call.tool_name, facts))) if explain else None
        )
        output = HookOutput(
            permission_decision=ruling.decision, permission_decision_reason=_reason(ruling), system_message=about
        )
        return Ruled(ruling, output)

    def _facts(self, call: HookInput) -> dict[str, Any]:
        agent = None if call.agent_id is None else call.agent_type or "unknown"
        asks = self._person and call.permission_mode != "dontAsk"
        return {"agent": agent, "cwd": call.cwd or self._cwd, "person": asks}

    def _around(self, tool: str, facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, "spent": self._meter.usd, "tags": self._tags, "annotations": self._annotations.get(tool)}

    def _rule(self, tool: str, given: Mapping[str, Any], facts: dict[str, Any], use: str, session: str) -> Ruling:
        around = self._around(tool, facts)
        ruling = self._policy.decide(tool, given, **around)
        if ruling.decision not in ("allow", "ask", "deny"):
            raise ValueError(f"the policy decided {ruling.decision!r}, which is not `allow`, `ask` or `deny`")
        if tool == _STRUCTURED and self._schema and ruling.rule is None:
            ruling = _Own("allow", "The option `output_format` needs this tool, which only returns the answer.")
        elif ruling.decision == "ask" and not facts["person"]:
            reason = ruling.reason + " No person can answer."
            ruling = _Own("deny", reason, ruling.rule, ruling.parts, ruling.cannot_tell)
        self._append(
            session=session,
            call=use,
            tool=tool,
            input=given,
            decision=ruling.decision,
            rule=ruling.rule,
            reason=ruling.reason,
            parts=[[part.kind, part.text, part.decision, part.rule] for part in ruling.parts],
            cannot_tell=list(ruling.cannot_tell),
            **around,
        )
        return ruling

    # -- answers -------------------------------------------------------------------------------------------------------

    def hook_answer(self, outcome: object, call: PreToolUseHookInput | PermissionRequestHookInput) -> Answer:
        """Return the answer of a hook. One of the user that changes the input is decided on again: the strictest wins."""
        event = call.wire_event
        if isinstance(outcome, Ruled):
            return encode_hook_output(outcome.output, event)._replace(ruling=outcome.ruling)
        answer = encode_hook_output(outcome, event)
        specific = answer.wire.get("hookSpecificOutput") or {}
        of_question = event == "PermissionRequest"
        changed = (specific.get("decision") or {} if of_question else specific).get("updatedInput")
        if changed is None:
            return answer
        given = msgspec.json.decode(msgspec.json.encode(changed))
        ruling = self._rule(call.tool_name, given, self._facts(call), getattr(call, "tool_use_id", ""), call.session_id)
        made = decision(answer.wire).verdict
        # An answer to a question settles an `ask`.
        if (of_question and ruling.decision == "ask") or STRICTNESS[ruling.decision] <= STRICTNESS.get(made, 0):
            return answer._replace(ruling=ruling)
        if of_question:
            return fail_output("block", event, _reason(ruling))._replace(ruling=ruling)
        specific = {**specific, "permissionDecision": ruling.decision, "permissionDecisionReason": _reason(ruling)}
        return Answer({**answer.wire, "hookSpecificOutput": specific}, ruling.decision, answer.warnings, ruling)

    def permission_answer(self, answer: Answer, outcome: object, request: PermissionRequest) -> Answer:
        """Return the answer of `can_use_tool`; a call or an input that the policy did not see yet is decided on first."""
        if not isinstance(outcome, Allow):
            return answer
        facts = self._decided.get(request.tool_use_id)
        if facts is not None and outcome.updated_input is None:
            return answer
        changed = outcome.updated_input
        known = request.input if changed is None else msgspec.json.decode(msgspec.json.encode(changed))
        agent = None if request.agent_id is None else "unknown"
        facts = facts or {"agent": agent, "cwd": self._cwd, "person": True}
        ruling = self._rule(request.tool_name, known, facts, request.tool_use_id, "")
        return deny(_reason(ruling))._replace(ruling=ruling) if ruling.decision == "deny" else answer

    def callback_ended(self, call: CallbackCall, end: CallbackEnd) -> None:
        """Record answers to questions, and decisions that failed."""
        own = call.kind == "hook" and call.name.endswith(f"`{PolicyGuard.decide.__qualname__}`")
        if not (call.kind == "permission" or (own and end.how != "answered")):
            return
        fields = {
            "event": "failure" if own else "answer",
            "answered": end.how,
            "decision": end.decision or "deny",
            "reason": end.reason,
        }
        self._append(call=call.tool_use_id, tool=call.tool, **fields)

    def _append(self, **fields: Any) -> None:
        if self._audit is not None:
            self._audit.append({"pid": os.getpid(), **{name: self._masked(part) for name, part in fields.items()}})

    def _masked(self, value: Any) -> Any:
        """Return a value for the audit file: texts without secrets, the long ones cut."""
        if isinstance(value, str):
            text = self.mask(value.encode("utf-8", "replace"))
            shown = text.decode("utf-8", "replace")
            return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}... ({len(shown):,} characters)"
        if isinstance(value, dict):
            return {str(self._masked(key)): self._masked(part) for key, part in value.items()}
        return [self._masked(part) for part in value] if isinstance(value, (list, tuple)) else value


def _reason(ruling: Ruling) -> str:
    rule = f", rule {ruling.rule!r}" if ruling.rule else ""
    return escape_terminal(f"Policy{rule}: {ruling.reason}", _LONGEST)


def _normal(name: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "_", name)


def _audit_file(path: str | os.PathLike[str]) -> ChainFile:
    from hackamore.storage.chain import ChainFile

    try:
        return ChainFile(path)
    except OSError as error:
        problem = f"`policy_audit` cannot be written: {os.fspath(path)}: {error.strerror or error}. Correct the path."
        raise OptionsError(problem, field="policy_audit") from None
