"""Permission in a simulated CLI: hooks, rules and the host decide about the use of a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.testing.simulation.names import seen_name, split_server
from bridle.testing.simulation.rules import blocked_path, judge, suggestions
from bridle.testing.simulation.turn import Happened
from bridle.testing.simulation.waits import Interruption, Pause

if TYPE_CHECKING:
    from bridle.testing.script import steps
    from bridle.testing.simulation.core import Core
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.names import Agent
    from bridle.testing.simulation.rules import Verdict
    from bridle.testing.simulation.scheduler import Scheduler
    from bridle.testing.simulation.waits import Steps

__all__ = ["Decision", "Permissions"]

_STRENGTH = {"allow": 1, "ask": 2, "defer": 3, "deny": 4}


class Decision(NamedTuple):
    """The decision about a call.

    Attributes:
        allowed: the tool runs.
        input: the input of the tool.
        meta: the part of the result's frame that reports the decision.
        message: the text for the model if the tool does not run.
        deferred: a hook has deferred the call.
    """

    allowed: bool
    input: dict[str, Any]
    meta: dict[str, Any]
    message: str = ""
    deferred: bool = False


class Permissions:
    """Decides whether a tool may be used, by hooks, rules and the host, in this order.

    Attributes:
        sayings: messages of hooks for the user, kept until the tool has its result.
    """

    def __init__(self, core: Core, hooks: Hooks, scheduler: Scheduler) -> None:
        self.state, self.turn, self.output, self.questions = core.state, core.turn, core.output, core.questions
        self.prompts, self.script = core.prompts, core.script
        self.hooks, self.scheduler = hooks, scheduler
        self.sayings: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def decide(
        self, call_id: str, call: steps.Calls, sent: list[tuple[str, float | None]], agent: Agent | None
    ) -> Steps[Decision]:
        """Return the decision about a call."""
        launch = self.state.launch
        outputs = yield from self.hooks.collect("PreToolUse", sent)
        decision, reason, arguments = self._of_hooks(call, outputs)
        if decision == "deny":
            text = f"PreToolUse:{seen_name(call.tool)} hook error: {reason or 'Blocked by hook'}"
            return self._refusal(call_id, call, arguments, _refused("hook", "hook"), text)
        if decision == "defer":
            return Decision(False, arguments, {}, deferred=True)
        verdict = judge(
            call.tool,
            arguments,
            mode=self.state.mode,
            allowed=self.state.allowed,
            denied=self.state.denied,
            can_ask=launch.asks_host,
            cwd=launch.cwd,
        )
        if decision == "ask" and not launch.asks_host:
            fields = {"decision_reason_type": "hook", "decision_reason": reason, "message": reason}
            self._report_denial(call_id, call, agent, fields)
            meta = {**_refused("config", None), "non_execution_kind": "user-rejected"}
            return self._refusal(call_id, call, arguments, meta, reason)
        if verdict.decision == "deny" and not (decision == "allow" and verdict.kind == "user-rejected"):
            return (yield from self._denied_by_rule(call_id, call, arguments, agent, verdict))
        if decision == "allow":
            return Decision(True, arguments, _accepted("hook", "hook"))
        if decision != "ask" and verdict.decision == "allow":
            return Decision(True, arguments, _accepted("config", verdict.reason))
        request = self._request(call_id, call, arguments, agent, reason if decision == "ask" else None)
        if decision != "ask" and verdict.reason is not None:
            request["decision_reason_type"] = verdict.reason
        return (yield from self._ask_host(call_id, call, arguments, agent, request))

    def _of_hooks(self, call: steps.Calls, outputs: list[dict[str, Any]]) -> tuple[str | None, str, dict[str, Any]]:
        """Return the strongest decision of hooks, its reason, and the input that they leave."""
        decision: str | None = None
        reason = ""
        arguments = call.input
        for output in outputs:
            self.sayings.append(("PreToolUse", {"tool_name": seen_name(call.tool)}, output))
            specific = output.get("hookSpecificOutput")
            specific = specific if isinstance(specific, dict) else {}
            wanted = specific.get("permissionDecision")
            if output.get("decision") == "block":
                wanted, specific = "deny", {"permissionDecisionReason": output.get("reason")}
            if isinstance(changed := specific.get("updatedInput"), dict):
                arguments = changed
            if wanted in _STRENGTH and (decision is None or _STRENGTH[wanted] > _STRENGTH[decision]):
                decision = wanted
                reason = str(specific.get("permissionDecisionReason") or "")
        return decision, reason, arguments

    def _denied_by_rule(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None, verdict: Verdict
    ) -> Steps[Decision]:
        """Deny a call; if only the host is missing that could allow it, hooks may."""
        nobody = verdict.kind == "user-rejected"
        if nobody:
            suggested = suggestions(call.tool, arguments, self.state.launch.cwd)
            if call.tool == "Bash" and len(suggested) > 1:
                del suggested[0]  # the rule; the real CLI has only what concerns the path
            for request_id in self._send_hooks(call_id, call, arguments, agent, suggested):
                yield self.questions.until_answered(request_id)
                if decided := _decision_in(self.hooks.output_of("PermissionRequest", request_id)):
                    return self._decided(call_id, call, arguments, decided, by_hook=True)
        why = {} if verdict.reason is None else {"decision_reason_type": verdict.reason}
        self._report_denial(call_id, call, agent, {**why, "message": verdict.message})
        meta = {**_refused("config", None if nobody else verdict.reason), "non_execution_kind": verdict.kind}
        return self._refusal(call_id, call, arguments, meta, verdict.message)

    def _report_denial(self, call_id: str, call: steps.Calls, agent: Agent | None, fields: dict[str, Any]) -> None:
        whose = {} if agent is None else {"agent_id": agent.id}
        self.output.system("permission_denied", tool_name=seen_name(call.tool), tool_use_id=call_id, **whose, **fields)

    def _refusal(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], meta: dict[str, Any], message: str
    ) -> Decision:
        self._deny(call_id, call)
        return Decision(False, arguments, meta, message)

    def _deny(self, call_id: str, call: steps.Calls) -> None:
        self.state.denials.append({"tool_name": call.tool, "tool_use_id": call_id, "tool_input": call.input})

    # -- the host's answer --------------------------------------------------------------------------------------------

    def _send_hooks(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None, suggested: Any
    ) -> list[str]:
        fields: dict[str, Any] = {"tool_name": seen_name(call.tool), "tool_input": arguments}
        if suggested is not None:
            fields["permission_suggestions"] = suggested
        return [each for each, _ in self.hooks.send("PermissionRequest", fields, tool_use_id=call_id, agent=agent)]

    def _ask_host(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None, request: dict[str, Any]
    ) -> Steps[Decision]:
        questions = self.questions
        self.prompts.report_state("requires_action")
        question = questions.ask("can_use_tool", request)
        hooks = self._send_hooks(call_id, call, arguments, agent, request.get("permission_suggestions"))
        decided: dict[str, Any] | None = None
        while decided is None and not questions.answered(question):
            try:
                yield Pause(lambda: questions.answered(question) or any(map(questions.answered, hooks)))
            except Interruption:
                self._deny(call_id, call)
                raise
            for request_id in [*hooks]:
                if questions.answered(request_id):
                    hooks.remove(request_id)
                    decided = _decision_in(self.hooks.output_of("PermissionRequest", request_id)) or decided
        by_hook = decided is not None
        if by_hook:
            questions.cancel(question)
        answer = questions.answer(question)
        if hooks:
            self.scheduler.begin(self._late_hooks(hooks))
        decision = decided if decided is not None else answer if isinstance(answer, dict) else {}
        return self._decided(call_id, call, arguments, decision, by_hook=by_hook)

    def _late_hooks(self, request_ids: list[str]) -> Steps[None]:
        for request_id in request_ids:
            yield self.questions.until_answered(request_id)
            self.hooks.output_of("PermissionRequest", request_id)

    def _request(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None, reason: str | None
    ) -> dict[str, Any]:
        state = self.state
        server, name = split_server(call.tool)
        request: dict[str, Any] = {"tool_name": seen_name(call.tool)}
        if server in state.servers:
            request["mcp_server"] = {"name": server, "source": "sdk"}
        request |= {"display_name": name.title() if server else seen_name(call.tool), "input": arguments}
        if text := _description(call.tool, arguments):
            request["description"] = text
        if reason is None:
            request["permission_suggestions"] = suggestions(call.tool, arguments, state.launch.cwd)
            if path := blocked_path(call.tool, arguments, state.launch.cwd):
                request["blocked_path"] = path
        else:
            request |= {
                "decision_reason": reason,
                "decision_reason_type": "hook",
                "decision_reason_hook_event": "PreToolUse",
                "decision_reason_hook_source": "settings",
            }
        request["tool_use_id"] = call_id
        if agent is not None:
            request["agent_id"] = agent.id
        return request

    def _decided(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], answer: dict[str, Any], *, by_hook: bool
    ) -> Decision:
        allowed = answer.get("behavior") == "allow"
        changed = answer.get("updatedInput")
        if allowed and isinstance(changed, dict):
            arguments = changed
        if not by_hook:
            outcome = "allow" if allowed else "deny"
            self.turn.happened.append(Happened("permission", call.tool, outcome, arguments if allowed else None))
            self.script.note(
                f"the host is asked about {call.tool}, and answers {outcome} {answer.get('message', '')}".rstrip()
            )
        if allowed:
            for update in answer.get("updatedPermissions") or ():
                if isinstance(update, dict):
                    self._update_permissions(update)
        if self.state.launch.asks_host:
            self.prompts.report_state("running")
        source, reason = ("hook", "hook") if by_hook else ("user_temporary" if allowed else "user_reject", None)
        if allowed:
            return Decision(True, arguments, _accepted(source, reason))
        message = str(answer.get("message") or "The host did not answer the question, or could not.")
        refusal = self._refusal(call_id, call, arguments, _refused(source, reason), message)
        if answer.get("interrupt") is True:
            raise Interruption
        return refusal

    def _update_permissions(self, update: dict[str, Any]) -> None:
        state = self.state
        if update.get("type") == "setMode":
            state.mode = str(update.get("mode", state.mode))
            self.output.system("status", status=None, permissionMode=state.mode)
            return
        rules = []
        for rule in update.get("rules") or ():
            if isinstance(rule, dict) and isinstance(name := rule.get("toolName"), str):
                content = rule.get("ruleContent")
                rules.append(f"{name}({content})" if content else name)
        target = {"allow": state.allowed, "deny": state.denied}.get(str(update.get("behavior")))
        if target is None:
            return
        match update.get("type"):
            case "addRules":
                target += [rule for rule in rules if rule not in target]
            case "replaceRules":
                target[:] = rules
            case "removeRules":
                target[:] = [rule for rule in target if rule not in rules]
            case _:
                pass


def _decision_in(output: dict[str, Any]) -> dict[str, Any] | None:
    specific = output.get("hookSpecificOutput")
    decision = specific.get("decision") if isinstance(specific, dict) else None
    return decision if isinstance(decision, dict) and decision.get("behavior") in ("allow", "deny") else None


def _accepted(source: str, reason: str | None) -> dict[str, Any]:
    decision = {"decision": "accept", "source": source}
    if reason is not None:
        decision["reason_type"] = reason
    return {"permission_decision": decision}


def _refused(source: str, reason: str | None) -> dict[str, Any]:
    decision = {"decision": "reject", "source": source}
    if reason is not None:
        decision["reason_type"] = reason
    return {"non_execution_kind": "permission-rule", "permission_decision": decision}


def _description(tool: str, arguments: dict[str, Any]) -> str:
    if tool == "Bash":
        return str(arguments.get("description") or arguments.get("command") or "")
    if path := arguments.get("file_path"):
        return str(path).rpartition("/")[2]
    return ""
