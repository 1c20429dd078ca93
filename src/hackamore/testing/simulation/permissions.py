"""Permission in a simulated CLI: hooks, rules and the host decide about the use of a tool."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.checked.functions import AnswerError
from hackamore.hooks.outputs import check_decision
from hackamore.testing.script.run import Happened
from hackamore.testing.simulation.core import Interruption, Part, Pause
from hackamore.testing.simulation.hooks import FAILED
from hackamore.testing.simulation.rules import blocked_path, judge, suggestions
from hackamore.testing.simulation.state import seen_name, split_server

if TYPE_CHECKING:
    from hackamore.testing.script import steps
    from hackamore.testing.simulation.core import Core, Steps
    from hackamore.testing.simulation.hooks import Hooks
    from hackamore.testing.simulation.rules import Verdict
    from hackamore.testing.simulation.state import Agent

_STRENGTH = {"allow": 1, "ask": 2, "defer": 3, "deny": 4}


class Decision(NamedTuple):
    """The decision about a call: `meta` reports it in the frame of the result, `message` is for the model if the tool does not run."""

    allowed: bool
    input: dict[str, Any]
    meta: dict[str, Any] | None
    message: str = ""
    deferred: bool = False


class _Use(NamedTuple):
    """One use of a tool: the call, the input that hooks have left, and the subagent that calls."""

    call_id: str
    call: steps.Calls
    input: dict[str, Any]
    agent: Agent | None


class Permissions(Part):
    """Decides by hooks, rules and the host, in this order, whether a tool may be used; `sayings` of hooks wait until it has its result."""

    def __init__(self, core: Core, hooks: Hooks) -> None:
        super().__init__(core)
        self.hooks = hooks
        self.sayings: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def decide(
        self, call_id: str, call: steps.Calls, sent: list[tuple[str, float | None]], agent: Agent | None
    ) -> Steps[Decision]:
        """Return the decision about a call."""
        launch = self.state.launch
        outputs = yield from self.hooks.collect("PreToolUse", sent)
        for output in outputs:
            if FAILED in output:
                return Decision(False, call.input, None, output[FAILED])
        decision, reason, arguments = self._of_hooks(call, outputs)
        use = _Use(call_id, call, arguments, agent)
        if decision == "deny":
            text = f"PreToolUse:{seen_name(call.tool)} hook error: {reason or 'Blocked by hook'}"
            return self._refusal(use, _refused("hook", "hook"), text)
        if decision == "defer":
            return Decision(False, arguments, {}, deferred=True)
        verdict = judge(
            call.tool,
            arguments,
            mode=self.state.mode,
            allowed=self.state.allowed,
            denied=self.state.denied,
            can_ask=launch.asks_host,
            folders=self.state.folders,
        )
        if decision == "ask" and not launch.asks_host:
            fields = {"decision_reason_type": "hook", "decision_reason": reason, "message": reason}
            self._report_denial(use, fields)
            meta = {**_refused("config", None), "non_execution_kind": "user-rejected"}
            return self._refusal(use, meta, reason)
        only_unasked = verdict.kind == "user-rejected" or verdict.reason == "mode"
        if verdict.decision == "deny" and not (decision == "allow" and only_unasked):
            return (yield from self._denied_by_rule(use, verdict))
        if decision == "allow":
            return Decision(True, arguments, _accepted("hook", "hook"))
        if decision != "ask" and verdict.decision == "allow":
            return Decision(True, arguments, _accepted("config", verdict.reason))
        request = self._request(use, reason if decision == "ask" else None)
        if decision != "ask" and verdict.reason is not None:
            request["decision_reason_type"] = verdict.reason
            if verdict.why is not None:
                request["decision_reason"] = verdict.why
        return (yield from self._ask_host(use, request))

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

    def _denied_by_rule(self, use: _Use, verdict: Verdict) -> Steps[Decision]:
        """Deny a call; if only the host is missing that could allow it, hooks may."""
        nobody = verdict.kind == "user-rejected"
        if nobody:
            suggested = suggestions(use.call.tool, use.input, self.state.folders)
            if use.call.tool == "Bash" and len(suggested) > 1:
                del suggested[0]  # the rule; the real CLI has only what concerns the path
            for request_id in self._send_hooks(use, suggested):
                yield self.host.until_answered(request_id)
                if decided := _decision_in(self.hooks.output_of("PermissionRequest", request_id)):
                    return self._decided(use, decided, by_hook=True)
        why = {} if verdict.reason is None else {"decision_reason_type": verdict.reason}
        if verdict.why is not None:
            why["decision_reason"] = verdict.why
        self._report_denial(use, {**why, "message": verdict.message})
        meta = {**_refused("config", None if nobody else verdict.reason), "non_execution_kind": verdict.kind}
        return self._refusal(use, meta, verdict.message)

    def _report_denial(self, use: _Use, fields: dict[str, Any]) -> None:
        whose = {} if use.agent is None else {"agent_id": use.agent.id}
        self.host.system(
            "permission_denied", tool_name=seen_name(use.call.tool), tool_use_id=use.call_id, **whose, **fields
        )

    def _refusal(self, use: _Use, meta: dict[str, Any], message: str) -> Decision:
        self._deny(use)
        return Decision(False, use.input, meta, message)

    def _deny(self, use: _Use) -> None:
        """Count a denied call for the result of the turn, to which a subagent in the background does not belong."""
        if use.agent is not None and use.agent.background:
            return
        self.state.denials.append(
            {"tool_name": use.call.tool, "tool_use_id": use.call_id, "tool_input": use.call.input}
        )

    # -- the host's answer --------------------------------------------------------------------------------------------

    def _send_hooks(self, use: _Use, suggested: Any) -> list[str]:
        fields: dict[str, Any] = {"tool_name": seen_name(use.call.tool), "tool_input": use.input}
        if suggested is not None:
            fields["permission_suggestions"] = suggested
        return [
            each for each, _ in self.hooks.send("PermissionRequest", fields, tool_use_id=use.call_id, agent=use.agent)
        ]

    def _ask_host(self, use: _Use, request: dict[str, Any]) -> Steps[Decision]:
        host = self.host
        self.host.report_state("requires_action")
        question = host.ask("can_use_tool", request)
        hooks = self._send_hooks(use, request.get("permission_suggestions"))
        decided: dict[str, Any] | None = None
        while decided is None and not host.answered(question):
            try:
                yield Pause(lambda: host.answered(question) or any(map(host.answered, hooks)))
            except Interruption:
                self._deny(use)
                raise
            for request_id in [*hooks]:
                if host.answered(request_id):
                    hooks.remove(request_id)
                    decided = _decision_in(self.hooks.output_of("PermissionRequest", request_id)) or decided
        by_hook = decided is not None
        if by_hook:
            host.cancel(question)
        error = host.error_of(question)
        answer = host.answer(question)
        if hooks:
            self.scheduler.begin(self._late_hooks(hooks))
        if error is not None and decided is None:
            return self._not_decided(use, f"Tool permission request failed: Error: {error}")
        if answer is not None and decided is None:
            try:
                check_decision(answer, "answer", of_hook=False)
            except AnswerError as problem:
                return self._not_decided(use, f"The answer to the permission request is invalid: {problem}")
        decision = decided if decided is not None else answer if isinstance(answer, dict) else {}
        return self._decided(use, decision, by_hook=by_hook)

    def _late_hooks(self, request_ids: list[str]) -> Steps[None]:
        for request_id in request_ids:
            yield self.host.until_answered(request_id)
            self.hooks.output_of("PermissionRequest", request_id)

    def _request(self, use: _Use, reason: str | None) -> dict[str, Any]:
        state = self.state
        server, name = split_server(use.call.tool)
        request: dict[str, Any] = {"tool_name": seen_name(use.call.tool)}
        if server in state.servers:
            request["mcp_server"] = {"name": server, "source": "sdk"}
        request |= {"display_name": name.title() if server else seen_name(use.call.tool), "input": use.input}
        if text := _description(use.call.tool, use.input, state.launch.cwd):
            request["description"] = text
        if reason is None:
            request["permission_suggestions"] = suggestions(use.call.tool, use.input, state.folders)
            if path := blocked_path(use.call.tool, use.input, state.folders):
                request["blocked_path"] = path
        else:
            request |= {
                "decision_reason": reason,
                "decision_reason_type": "hook",
                "decision_reason_hook_event": "PreToolUse",
                "decision_reason_hook_source": "settings",
            }
        request["tool_use_id"] = use.call_id
        if use.agent is not None:
            request["agent_id"] = use.agent.id
        return request

    def _decided(self, use: _Use, answer: dict[str, Any], *, by_hook: bool) -> Decision:
        allowed = answer.get("behavior") == "allow"
        changed = answer.get("updatedInput")
        if allowed and changed:  # an empty one leaves the input as it is
            use = use._replace(input=changed)
        if not by_hook:
            outcome = "allow" if allowed else "deny"
            self.turn.happened.append(Happened("permission", use.call.tool, outcome, use.input if allowed else None))
            self.script.note(
                f"a permission request for {use.call.tool}, and the answer {outcome} {answer.get('message', '')}".rstrip()
            )
        if allowed:
            for update in answer.get("updatedPermissions") or ():
                if isinstance(update, dict):
                    self._update_permissions(update)
        if self.state.launch.asks_host:
            self.host.report_state("running")
        source, reason = ("hook", "hook") if by_hook else ("user_temporary" if allowed else "user_reject", None)
        if allowed:
            return Decision(True, use.input, _accepted(source, reason))
        message = str(answer.get("message", "The host did not answer the question, or could not."))
        refusal = self._refusal(use, _refused(source, reason), message)
        if answer.get("interrupt") is True:
            raise Interruption
        return refusal

    def _not_decided(self, use: _Use, text: str) -> Decision:
        """Deny a call about which the host has answered with an error, or with an answer that the CLI does not accept."""
        self.script.note(f"a permission request for {use.call.tool}: {text}")
        self.turn.happened.append(Happened("permission", use.call.tool, "deny", None))
        if self.state.launch.asks_host:
            self.host.report_state("running")
        return self._refusal(use, _refused("config", "other"), text)

    def _update_permissions(self, update: dict[str, Any]) -> None:
        state = self.state
        if update.get("type") == "setMode":
            state.mode = str(update.get("mode", state.mode))
            self.host.system("status", status=None, permissionMode=state.mode)
            return
        listed = [str(folder) for folder in update.get("directories") or ()]
        if update.get("type") == "addDirectories":
            state.folders += [folder for folder in listed if folder not in state.folders]
        elif update.get("type") == "removeDirectories":
            state.folders = [folder for folder in state.folders if folder not in listed or folder == state.launch.cwd]
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


def _accepted(source: str, reason: str | None, decision: str = "accept") -> dict[str, Any]:
    why = {} if reason is None else {"reason_type": reason}
    return {"permission_decision": {"decision": decision, "source": source, **why}}


def _refused(source: str, reason: str | None) -> dict[str, Any]:
    return {"non_execution_kind": "permission-rule", **_accepted(source, reason, "reject")}


def _description(tool: str, arguments: dict[str, Any], cwd: str) -> str:
    if tool == "Bash":
        return str(arguments.get("description") or arguments.get("command") or "")
    if tool == "WebFetch":
        return str(arguments.get("url") or "")
    if path := str(arguments.get("file_path") or ""):
        return os.path.relpath(path, cwd) if path.startswith(f"{cwd}/") else path
    return ""
