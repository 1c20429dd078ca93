"""Permission in a simulated CLI: what hooks, rules and the host say about the use of a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.testing.simulation.names import Agent, seen_name, split_server
from bridle.testing.simulation.rules import blocked_path, judge, suggestions
from bridle.testing.simulation.waits import Interruption, Pause

if TYPE_CHECKING:
    from bridle.testing.script import steps
    from bridle.testing.simulation.hooks import Hooks
    from bridle.testing.simulation.rules import Verdict
    from bridle.testing.simulation.simulation import Simulation
    from bridle.testing.simulation.waits import Steps

__all__ = ["Decision", "Permissions"]

_STRENGTH = {"allow": 1, "ask": 2, "defer": 3, "deny": 4}


class Decision(NamedTuple):
    """What was decided about a call.

    Attributes:
        allowed: whether it happens.
        input: what the tool gets.
        meta: what the frame with its result says about it.
        message: what the model is told if it does not happen.
        deferred: a hook has put it off.
    """

    allowed: bool
    input: dict[str, Any]
    meta: dict[str, Any]
    message: str = ""
    deferred: bool = False


class Permissions:
    """Decides whether a tool may be used: asks hooks, rules and the host, in this order.

    Attributes:
        sayings: what hooks want the user to read, until the tool has its result.
    """

    def __init__(self, simulation: Simulation, hooks: Hooks) -> None:
        self.sim = simulation
        self.hooks = hooks
        self.sayings: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def decide(
        self, call_id: str, call: steps.Calls, sent: list[tuple[str, float | None]], agent: Agent | None
    ) -> Steps[Decision]:
        """Return what is to happen with a call: by its hooks, by the rules, by the host."""
        sim, state = self.sim, self.sim.state
        outputs = yield from self.hooks.collect("PreToolUse", sent)
        arguments = call.input
        decision: str | None = None
        reason = ""
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
        if decision == "deny":
            text = f"PreToolUse:{seen_name(call.tool)} hook error: {reason or 'Blocked by hook'}"
            self._deny(call_id, call)
            return Decision(False, arguments, _refused("hook", "hook"), text)
        if decision == "defer":
            return Decision(False, arguments, {}, deferred=True)
        verdict = judge(
            call.tool,
            arguments,
            mode=state.mode,
            allowed=state.allowed,
            denied=state.denied,
            can_ask=sim.launch.asks_host,
            cwd=sim.launch.cwd,
        )
        if verdict.decision == "deny":
            return self._denied_by_rule(call_id, call, arguments, verdict)
        if decision == "allow":
            return Decision(True, arguments, _accepted("hook", "hook"))
        if decision == "ask" and not sim.launch.asks_host:
            self._deny(call_id, call)
            return Decision(False, arguments, _refused("hook", "hook"), reason)
        if decision != "ask" and verdict.decision == "allow":
            return Decision(True, arguments, _accepted("config", verdict.reason))
        asked = yield from self._ask_host(call_id, call, arguments, agent, reason if decision == "ask" else None)
        return asked

    def _denied_by_rule(self, call_id: str, call: steps.Calls, arguments: dict[str, Any], verdict: Verdict) -> Decision:
        frame = {
            "type": "system",
            "subtype": "permission_denied",
            "tool_name": seen_name(call.tool),
            "tool_use_id": call_id,
        }
        if verdict.reason is not None:
            frame["decision_reason_type"] = verdict.reason
        self.sim.emit({**frame, "message": verdict.message})
        self._deny(call_id, call)
        meta = _refused("config", verdict.reason)
        meta["non_execution_kind"] = verdict.kind
        return Decision(False, arguments, meta, verdict.message)

    def _deny(self, call_id: str, call: steps.Calls) -> None:
        self.sim.state.denials.append({"tool_name": call.tool, "tool_use_id": call_id, "tool_input": call.input})

    def _ask_host(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None, reason: str | None
    ) -> Steps[Decision]:
        sim, state = self.sim, self.sim.state
        suggested = suggestions(call.tool, arguments, sim.launch.cwd)
        server, name = split_server(call.tool)
        request: dict[str, Any] = {"tool_name": seen_name(call.tool)}
        if server in state.servers:
            request["mcp_server"] = {"name": server, "source": "sdk"}
        request |= {"display_name": name.title() if server else seen_name(call.tool), "input": arguments}
        if text := _description(call.tool, arguments):
            request["description"] = text
        if reason is None:
            request["permission_suggestions"] = suggested
            if path := blocked_path(call.tool, arguments, sim.launch.cwd):
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
        sim.report_state("requires_action")
        question = sim.ask("can_use_tool", request)
        fields = {
            "tool_name": seen_name(call.tool),
            "tool_input": arguments,
            "permission_suggestions": suggested if reason is None else [],
        }
        hooks = self.hooks.send("PermissionRequest", fields, tool_use_id=call_id, agent=agent)
        decided: dict[str, Any] | None = None
        open_hooks = [request_id for request_id, _ in hooks]
        while decided is None and not sim.answered(question):
            try:
                yield Pause(
                    lambda: sim.answered(question) or any(sim.answered(request_id) for request_id in open_hooks)
                )
            except Interruption:
                self._deny(call_id, call)
                raise
            for request_id in [*open_hooks]:
                if sim.answered(request_id):
                    open_hooks.remove(request_id)
                    decided = self._hook_decision(sim.answer(request_id)) or decided
        by_hook = decided is not None
        if by_hook:
            sim.cancel(question)
        answer = sim.answer(question)
        if open_hooks:
            sim.begin(self._late_hooks(open_hooks))
        decision = decided if decided is not None else answer if isinstance(answer, dict) else {}
        return self._decided(call_id, call, arguments, decision, by_hook=by_hook)

    def _late_hooks(self, request_ids: list[str]) -> Steps[None]:
        for request_id in request_ids:
            yield self.sim.until_answered(request_id)
            self._hook_decision(self.sim.answer(request_id))

    def _hook_decision(self, output: Any) -> dict[str, Any] | None:
        output = output if isinstance(output, dict) else {}
        self.sim.run.note(f"the hook PermissionRequest answers {output}")
        self.hooks.happened.append(("hook", "PermissionRequest", output, None))
        specific = output.get("hookSpecificOutput")
        decision = specific.get("decision") if isinstance(specific, dict) else None
        return decision if isinstance(decision, dict) and decision.get("behavior") in ("allow", "deny") else None

    def _decided(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], answer: dict[str, Any], *, by_hook: bool
    ) -> Decision:
        sim = self.sim
        allowed = answer.get("behavior") == "allow"
        changed = answer.get("updatedInput")
        if allowed and isinstance(changed, dict):
            arguments = changed
        if not by_hook:
            outcome = "allow" if allowed else "deny"
            self.hooks.happened.append(("permission", call.tool, outcome, arguments if allowed else None))
            sim.run.note(
                f"the host is asked about {call.tool}, and answers {outcome} {answer.get('message', '')}".rstrip()
            )
        if allowed:
            for update in answer.get("updatedPermissions") or ():
                if isinstance(update, dict):
                    self._update_permissions(update)
        sim.report_state("running")
        if allowed:
            return Decision(
                True, arguments, _accepted("hook", "hook") if by_hook else _accepted("user_temporary", None)
            )
        self._deny(call_id, call)
        if answer.get("interrupt") is True:
            raise Interruption
        message = str(answer.get("message") or "The host did not answer the question, or could not.")
        return Decision(
            False, arguments, _refused("hook", "hook") if by_hook else _refused("user_reject", None), message
        )

    def _update_permissions(self, update: dict[str, Any]) -> None:
        state = self.sim.state
        if update.get("type") == "setMode":
            state.mode = str(update.get("mode", state.mode))
            self.sim.emit({"type": "system", "subtype": "status", "status": None, "permissionMode": state.mode})
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
