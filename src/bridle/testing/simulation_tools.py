"""The tool cycle of a simulated CLI: hooks before, permission, the tool itself, hooks after, and what the model is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from bridle.testing import script_steps as steps
from bridle.testing.simulation_results import Outcome, default_outcome, flat_text
from bridle.testing.simulation_rules import blocked_path, judge, suggestions
from bridle.testing.simulation_waits import Interruption, Pause, never

if TYPE_CHECKING:
    from bridle.testing.simulation import Simulation
    from bridle.testing.simulation_turns import Conversation
    from bridle.testing.simulation_waits import Steps

__all__ = ["Agent", "Tools"]

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT "
    "written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
_TOOL_EVENTS = frozenset({"PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreToolUse"})
_WITHOUT_MODE = frozenset({"MessageDisplay", "PostCompact", "PreCompact", "SessionStart", "SubagentStart"})
_ALIASES = {"Task": "Agent"}
"""Names that hooks and permission questions see instead of the model's."""


class Agent(NamedTuple):
    """A subagent that runs.

    Attributes:
        id: its id.
        tool_use_id: the call that started it.
        kind: its type.
        description: what its task is called.
        background: whether the turn goes on meanwhile.
    """

    id: str
    tool_use_id: str
    kind: str
    description: str
    background: bool

    @property
    def fields(self) -> dict[str, Any]:
        """What its frames carry."""
        return {"agent_id": self.id, "subagent_type": self.kind, "task_description": self.description}


class _Source:
    """The steps of a subagent, taken one after the other."""

    def __init__(self, items: tuple[steps.ScriptStep, ...]) -> None:
        self._items = list(items)

    def peek(self) -> steps.ScriptStep | None:
        return self._items[0] if self._items else None

    def take(self) -> steps.ScriptStep:
        return self._items.pop(0)


class _Decision(NamedTuple):
    """What was decided about a call: its input if it may happen, else what the model is told."""

    allowed: bool
    input: dict[str, Any]
    meta: dict[str, Any]
    message: str = ""


class Tools:
    """Runs the tools that the model calls.

    Attributes:
        stopped: a hook wants the turn to end here.
        deferred: the call that a hook has put off.
        structured: the structured output, once the model has given it.
        stop_hook_active: a `Stop` hook has sent the model on already.
    """

    def __init__(self, simulation: Simulation, conversation: Conversation) -> None:
        self.sim = simulation
        self.conversation = conversation
        self.stopped = False
        self.deferred: dict[str, Any] | None = None
        self.structured: Any = None
        self.structured_text = ""
        self.stop_hook_active = False
        self._asked_before: dict[str, list[str]] = {}
        self._open: list[tuple[str, steps.Calls]] = []
        self._sayings: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self._calls = 0
        self._tasks = 0

    def begin(self) -> None:
        """Begin a turn."""
        self.stopped = self.stop_hook_active = False
        self.deferred = self.structured = None
        self._open = []
        self._asked_before = {}

    def new_call_id(self) -> str:
        """Return the id of a new call."""
        self._calls += 1
        return f"toolu_simulated_{self.sim.state.results}_{self._calls}"

    def call_meta(self, call: steps.Calls, call_id: str) -> dict[str, Any]:
        """Return what the frame with a call says about it."""
        server, name = split_server(call.tool)
        if server not in self.sim.state.servers:
            return {}
        display = name.replace("_", " ").title()
        meta = {"id": call_id, "display_name": display, "server_display_name": server, "tool_name": name}
        return {"tool_use_meta": [meta]}

    # -- hooks --------------------------------------------------------------------------------------------------------

    def send_hooks(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        tool_use_id: str | None = None,
        agent: Agent | None = None,
        effort: bool = True,
    ) -> list[tuple[str, float | None]]:
        """Call the hooks of an event; return the requests, each with its deadline."""
        sim, state = self.sim, self.sim.state
        sent: list[tuple[str, float | None]] = []
        subject = str(fields.get("tool_name") or fields.get("agent_type") or fields.get("trigger") or "")
        for matcher in state.hooks.get(event, ()):
            if not _matches(matcher.get("matcher"), subject):
                continue
            timeout = matcher.get("timeout")
            until = sim.clock() + timeout if isinstance(timeout, (int, float)) else None
            for callback_id in matcher.get("hookCallbackIds", ()):
                payload: dict[str, Any] = {
                    "session_id": state.session_id,
                    "transcript_path": state.transcript_path,
                    "cwd": sim.launch.cwd,
                    "prompt_id": "51b00000-0000-4000-8000-00000000beef",
                }
                if event not in _WITHOUT_MODE:
                    payload["permission_mode"] = state.mode
                if agent is not None:
                    payload |= {"agent_id": agent.id, "agent_type": agent.kind}
                if effort:
                    payload["effort"] = {"level": "medium"}
                payload |= {"hook_event_name": event, **fields}
                if event in _TOOL_EVENTS and split_server(subject)[0] in state.servers:
                    payload["mcp_server"] = {"name": split_server(subject)[0], "source": "sdk"}
                request = {"callback_id": callback_id, "input": payload, "tool_use_id": tool_use_id or sim.new_id()}
                sent.append((sim.ask("hook_callback", request), until))
        return sent

    def collect_hooks(self, event: str, sent: list[tuple[str, float | None]]) -> Steps[list[dict[str, Any]]]:
        """Wait for the answers of hooks; one that is too late is withdrawn, and counts as a refusal before a tool."""
        sim = self.sim
        outputs = []
        for request_id, until in sent:
            yield sim.until_answered(request_id, until)
            late = not sim.answered(request_id)
            if late:
                sim.cancel(request_id)
            output = sim.answer(request_id)
            output = output if isinstance(output, dict) else {}
            if late and event == "PreToolUse":
                output = {"decision": "block", "reason": "the hook did not answer in time"}
            sim.run.note(f"the hook {event} answers {output}")
            self.conversation.happened.append(("hook", event, output, None))
            if output.get("continue") is False:
                self.stopped = True
            outputs.append(output)
        return outputs

    def hooks(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        tool_use_id: str | None = None,
        agent: Agent | None = None,
        effort: bool = True,
    ) -> Steps[list[dict[str, Any]]]:
        """Call the hooks of an event and wait for their answers."""
        if event not in self.sim.state.hooks:
            return []
        sent = self.send_hooks(event, fields, tool_use_id=tool_use_id, agent=agent, effort=effort)
        outputs = yield from self.collect_hooks(event, sent)
        for output in outputs:
            self._say_system_message(event, fields, output)
        return outputs

    def _say_system_message(self, event: str, fields: dict[str, Any], output: dict[str, Any]) -> None:
        if text := output.get("systemMessage"):
            name = f"{event}:{fields['tool_name']}" if "tool_name" in fields else event
            self.sim.emit(
                {
                    "type": "system",
                    "subtype": "informational",
                    "content": f"{name} says: {text}",
                    "level": "notice",
                }
            )

    def ask_before(self, call_id: str, call: steps.Calls, agent: Agent | None) -> None:
        """Call the `PreToolUse` hooks as soon as the call is there."""
        self._open.append((call_id, call))
        if "PreToolUse" in self.sim.state.hooks and self._exists(call):
            fields = {"tool_name": seen_name(call.tool), "tool_input": call.input, "tool_use_id": call_id}
            self._asked_before[call_id] = [
                request_id for request_id, _ in self.send_hooks("PreToolUse", fields, tool_use_id=call_id, agent=agent)
            ]

    # -- the cycle ----------------------------------------------------------------------------------------------------

    def run(self, calls: list[tuple[str, steps.Calls]], agent: Agent | None) -> Steps[None]:
        """Run the calls of one reply."""
        batch = []
        results = []
        for call_id, call in calls:
            content, failed = yield from self._run_call(call_id, call, agent)
            if self.deferred is not None:
                return
            results.append((flat_text(content), failed))
            batch.append(
                {
                    "tool_name": seen_name(call.tool),
                    "tool_input": call.input,
                    "tool_use_id": call_id,
                    "tool_response": content,
                }
            )
        if agent is None:
            self.conversation.last_results = results
        yield from self.hooks(
            "PostToolBatch", {"tool_calls": batch}, tool_use_id=f"hook-{self.sim.new_id()}", agent=agent
        )

    def _run_call(self, call_id: str, call: steps.Calls, agent: Agent | None) -> Steps[tuple[Any, bool]]:
        sim = self.sim
        if not self._exists(call):
            gone = seen_name(call.tool) in sim.state.taken_away or call.tool in sim.state.taken_away
            more = f". {call.tool} is disabled for this session, in subagents as well as here." if gone else ""
            text = f"Error: No such tool available: {call.tool}{more}"
            self._tell(call_id, f"<tool_use_error>{text}</tool_use_error>", text, None, agent, failed=True)
            return text, True
        decision = yield from self._decide(call_id, call, agent)
        if self.deferred is not None:
            return "", False
        if not decision.allowed:
            self._tell(call_id, decision.message, f"Error: {decision.message}", decision.meta, agent, failed=True)
            return decision.message, True
        sim.run.note(f"the tool {call.tool} runs with {decision.input}")
        outcome = yield from self._perform(call_id, call, decision.input, agent)
        text = flat_text(outcome.content)
        fields: dict[str, Any] = {"tool_name": seen_name(call.tool), "tool_input": decision.input}
        if outcome.failed:
            after = {**fields, "tool_use_id": call_id, "error": text, "is_interrupt": False, "duration_ms": 1}
            yield from self.hooks("PostToolUseFailure", after, tool_use_id=call_id, agent=agent)
        else:
            after = {**fields, "tool_response": outcome.structured, "tool_use_id": call_id, "duration_ms": 1}
            yield from self.hooks("PostToolUse", after, tool_use_id=call_id, agent=agent)
        structured = f"Error: {text}" if outcome.failed else outcome.structured
        meta = {"permission_decision": decision.meta["permission_decision"]}
        self._tell(
            call_id, outcome.content, structured, meta, agent, failed=outcome.failed, says_so=outcome.says_success
        )
        return outcome.content, outcome.failed

    def _tell(
        self,
        call_id: str,
        content: Any,
        structured: Any,
        meta: dict[str, Any] | None,
        agent: Agent | None,
        *,
        failed: bool,
        says_so: bool = False,
    ) -> None:
        block: dict[str, Any] = {"type": "tool_result", "content": content, "tool_use_id": call_id}
        if failed or says_so:
            block["is_error"] = failed
        for saying in self._sayings:
            self._say_system_message(*saying)
        self._sayings.clear()
        more: dict[str, Any] = {"tool_use_result": structured} if agent is None else agent.fields
        if meta is not None:
            more = {**more, "tool_result_meta": [{"id": call_id, **meta}]}
        self._open = [(other, call) for other, call in self._open if other != call_id]
        parent = None if agent is None else agent.tool_use_id
        self.sim.emit(self.sim.state.user([block], parent, **more))
        if agent is None:
            self.conversation.told()

    def reject_open(self) -> None:
        """Tell that what runs or waits was stopped by the user."""
        for call_id, _ in [*self._open]:
            meta = {"non_execution_kind": "user-rejected"}
            self._tell(call_id, REJECTED, "User rejected tool use", meta, None, failed=True)

    def _exists(self, call: steps.Calls) -> bool:
        state = self.sim.state
        names = state.tools()
        # A script may use tools that this list does not know: those of external servers, and of other versions.
        unknown_to_us = call.tool.startswith("mcp__") or call.tool in ("Glob", "Grep", "TodoWrite", "LS", "Agent")
        if call.tool in state.taken_away or (state.launch.tools is not None and call.tool not in names):
            return call.tool in names
        return call.tool in names or unknown_to_us

    # -- permission ---------------------------------------------------------------------------------------------------

    def _decide(self, call_id: str, call: steps.Calls, agent: Agent | None) -> Steps[_Decision]:
        sim, state = self.sim, self.sim.state
        sent = [(request_id, None) for request_id in self._asked_before.pop(call_id, ())]
        timeouts = [matcher.get("timeout") for matcher in state.hooks.get("PreToolUse", ())]
        until = sim.clock() + max((t for t in timeouts if isinstance(t, (int, float))), default=600.0)
        outputs = yield from self.collect_hooks("PreToolUse", [(request_id, until) for request_id, _ in sent])
        arguments = call.input
        decision: str | None = None
        reason = ""
        for output in outputs:
            self._sayings.append(("PreToolUse", {"tool_name": seen_name(call.tool)}, output))
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
            return _Decision(False, arguments, _refused("hook", "hook"), text)
        if decision == "defer":
            self.deferred = {"id": call_id, "name": call.tool, "input": call.input}
            return _Decision(False, arguments, {})
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
            return _Decision(True, arguments, _accepted("hook", "hook"))
        if decision == "ask" and not sim.launch.asks_host:
            self._deny(call_id, call)
            return _Decision(False, arguments, _refused("hook", "hook"), reason)
        if decision != "ask" and verdict.decision == "allow":
            return _Decision(True, arguments, _accepted("config", verdict.reason))
        asked = yield from self._ask_host(call_id, call, arguments, agent, reason if decision == "ask" else None)
        return asked

    def _denied_by_rule(self, call_id: str, call: steps.Calls, arguments: dict[str, Any], verdict: Any) -> _Decision:
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
        return _Decision(False, arguments, meta, verdict.message)

    def _deny(self, call_id: str, call: steps.Calls) -> None:
        self.sim.state.denials.append({"tool_name": call.tool, "tool_use_id": call_id, "tool_input": call.input})

    def _ask_host(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None, reason: str | None
    ) -> Steps[_Decision]:
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
        hooks = self.send_hooks("PermissionRequest", fields, tool_use_id=call_id, agent=agent)
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
        self.conversation.happened.append(("hook", "PermissionRequest", output, None))
        specific = output.get("hookSpecificOutput")
        decision = specific.get("decision") if isinstance(specific, dict) else None
        return decision if isinstance(decision, dict) and decision.get("behavior") in ("allow", "deny") else None

    def _decided(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], answer: dict[str, Any], *, by_hook: bool
    ) -> _Decision:
        sim = self.sim
        allowed = answer.get("behavior") == "allow"
        changed = answer.get("updatedInput")
        if allowed and isinstance(changed, dict):
            arguments = changed
        if not by_hook:
            outcome = "allow" if allowed else "deny"
            self.conversation.happened.append(("permission", call.tool, outcome, arguments if allowed else None))
            sim.run.note(
                f"the host is asked about {call.tool}, and answers {outcome} {answer.get('message', '')}".rstrip()
            )
        if allowed:
            for update in answer.get("updatedPermissions") or ():
                if isinstance(update, dict):
                    self._update_permissions(update)
        sim.report_state("running")
        if allowed:
            return _Decision(
                True, arguments, _accepted("hook", "hook") if by_hook else _accepted("user_temporary", None)
            )
        self._deny(call_id, call)
        if answer.get("interrupt") is True:
            raise Interruption
        message = str(answer.get("message") or "The host did not answer the question, or could not.")
        return _Decision(
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

    # -- the tools themselves -----------------------------------------------------------------------------------------

    def _perform(
        self, call_id: str, call: steps.Calls, arguments: dict[str, Any], agent: Agent | None
    ) -> Steps[Outcome]:
        sim = self.sim
        server, name = split_server(call.tool)
        if call.endless:
            yield Pause(never)
        if server is not None and server in sim.state.servers:
            outcome = yield from self._call_server(call_id, server, name, arguments)
            return outcome
        if call.tool == "StructuredOutput" and sim.launch.json_schema is not None:
            self.structured = arguments
            self.structured_text = msgspec.json.encode(arguments).decode()
            text = "Structured output provided successfully"
            return Outcome(text, text)
        if call.tool in ("Task", "Agent") and call.agent:
            outcome = yield from self._subagent(call_id, call, arguments)
            return outcome
        if arguments.get("run_in_background") is True and call.error is None:
            return self._background(call_id, call, arguments)
        if sim.run_tool is not None and call.error is None and not call.result:
            text, structured, failed = sim.run_tool(call.tool, arguments)
            return Outcome(text, structured, failed=failed, says_success=call.tool == "Bash")
        return default_outcome(call, arguments)

    def _call_server(self, call_id: str, server: str, name: str, arguments: dict[str, Any]) -> Steps[Outcome]:
        sim = self.sim
        number = sim.conversation_numbers()
        message = {
            "method": "tools/call",
            "params": {
                "name": name,
                "arguments": arguments,
                "_meta": {"claudecode/toolUseId": call_id, "progressToken": number},
            },
            "jsonrpc": "2.0",
            "id": number,
        }
        request_id = sim.ask("mcp_message", {"server_name": server, "message": message})
        yield sim.until_answered(request_id)
        answer = sim.answer(request_id)
        response = answer.get("mcp_response") if isinstance(answer, dict) else None
        where = {"name": server, "source": "sdk"}
        if not isinstance(response, dict) or "result" not in response:
            error = response.get("error") if isinstance(response, dict) else None
            text = str(error.get("message")) if isinstance(error, dict) else "The server did not answer"
            return Outcome(f"MCP error: {text}", None, failed=True, server=where)
        result = response["result"] if isinstance(response["result"], dict) else {}
        content = result.get("content") or []
        if result.get("isError") is True:
            return Outcome(flat_text(content), None, failed=True, server=where)
        return Outcome(_as_model_blocks(content), _as_model_blocks(content), server=where)

    def _new_task(self, call_id: str, kind: str, description: str, **more: Any) -> tuple[str, dict[str, Any]]:
        self._tasks += 1
        task_id = f"{'a' if kind == 'local_agent' else 'b'}{self._tasks:08x}"
        task = {
            "task_id": task_id,
            "run_id": f"run-{self._tasks:08x}",
            "task_type": kind,
            **more,
            "description": description,
        }
        self.sim.state.background[task_id] = {**task, "tool_use_id": call_id}
        self.report_tasks()
        return task_id, task

    def report_tasks(self) -> None:
        """Tell what runs in the background."""
        hidden = ("tool_use_id",)
        tasks = [
            {name: value for name, value in task.items() if name not in hidden}
            for task in self.sim.state.background.values()
        ]
        self.sim.emit({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks})

    def _background(self, call_id: str, call: steps.Calls, arguments: dict[str, Any]) -> Outcome:
        description = str(arguments.get("command") or arguments.get("description") or call.tool)
        task_id, task = self._new_task(call_id, "local_bash", description)
        self.sim.emit(
            {
                "type": "system",
                "subtype": "task_started",
                "task_id": task_id,
                "run_id": task["run_id"],
                "tool_use_id": call_id,
                "description": description,
                "is_backgrounded": True,
                "task_type": "local_bash",
            }
        )
        text = f"Command running in background with ID: {task_id}."
        structured = {
            "stdout": "",
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            "noOutputExpected": False,
            "backgroundTaskId": task_id,
        }
        return Outcome(text, structured, says_success=True)

    def task_over(self, task_id: str, status: str, summary: str | None, exit_code: int) -> None:
        """Tell that a background task has ended."""
        sim = self.sim
        task = sim.state.background.pop(task_id)
        agent = task["task_type"] == "local_agent"
        if agent and "says" in task:
            inner: Agent = task["agent"]
            block = {"type": "text", "text": task["says"]}
            frame = sim.state.assistant(f"msg_simulated_{task_id}", block, inner.tool_use_id)
            sim.emit({**frame, **inner.fields})
        patch = {"status": status, "end_time": 0}
        sim.emit(
            {
                "type": "system",
                "subtype": "task_updated",
                "task_id": task_id,
                "run_id": task["run_id"],
                "patch": patch,
            }
        )
        command = f'Background command "{task["description"]}" {status} (exit code {exit_code})'
        notification = {
            "type": "system",
            "subtype": "task_notification",
            "task_id": task_id,
            "run_id": task["run_id"],
            "tool_use_id": task["tool_use_id"],
            "status": status,
            "output_file": f"/simulated/tasks/{task_id}.output",
            "summary": summary or (task.get("says", "") if agent else command),
        }
        if agent:
            notification["usage"] = {"total_tokens": 15, "tool_uses": 0, "duration_ms": 1}
        sim.emit(notification)
        self.report_tasks()

    def _subagent(self, call_id: str, call: steps.Calls, arguments: dict[str, Any]) -> Steps[Outcome]:
        sim = self.sim
        background = arguments.get("run_in_background") is not False
        kind = str(arguments.get("subagent_type", "general-purpose"))
        description = str(arguments.get("description", ""))
        prompt = str(arguments.get("prompt", ""))
        if background:
            task_id, task = self._new_task(call_id, "local_agent", description, subagent_type=kind)
        else:
            self._tasks += 1
            task_id = f"a{self._tasks:08x}"
            task = {"run_id": f"run-{self._tasks:08x}"}
        agent = Agent(task_id, call_id, kind, description, background)
        sim.emit(
            {
                "type": "system",
                "subtype": "task_started",
                "task_id": task_id,
                "run_id": task["run_id"],
                "tool_use_id": call_id,
                "description": description,
                "subagent_type": kind,
                "is_backgrounded": background,
                "spawn_depth": 1,
                "task_type": "local_agent",
                "prompt": prompt,
            }
        )
        yield from self.hooks("SubagentStart", {"agent_id": task_id, "agent_type": kind}, effort=False)
        final = last_said(call.agent)
        if background:
            sim.state.background[task_id] |= {"says": final, "agent": agent}
            structured = {
                "isAsync": True,
                "status": "async_launched",
                "agentId": task_id,
                "description": description,
                "prompt": prompt,
            }
            text = f"Async agent launched successfully.\nagentId: {task_id}"
            return Outcome([{"type": "text", "text": text}], structured)
        sim.emit({**sim.state.user([{"type": "text", "text": prompt}], call_id), **agent.fields})
        uses = yield from self._agent_turn(call, agent, task)
        stop = {
            "stop_hook_active": False,
            "agent_transcript_path": f"/simulated/agents/{task_id}.jsonl",
            "last_assistant_message": final,
            "background_tasks": [],
            "session_crons": [],
        }
        yield from self.hooks("SubagentStop", stop, agent=agent)
        sim.emit(
            {
                "type": "system",
                "subtype": "task_updated",
                "task_id": task_id,
                "run_id": task["run_id"],
                "patch": {"status": "completed", "end_time": 0},
            }
        )
        sim.emit(
            {
                "type": "system",
                "subtype": "task_notification",
                "task_id": task_id,
                "run_id": task["run_id"],
                "tool_use_id": call_id,
                "status": "completed",
                "output_file": f"/simulated/tasks/{task_id}.output",
                "summary": final,
                "usage": {"total_tokens": 15, "tool_uses": uses, "duration_ms": 1},
            }
        )
        content = [{"type": "text", "text": final}]
        structured = {
            "status": "completed",
            "prompt": prompt,
            "agentId": task_id,
            "agentType": kind,
            "content": content,
            "totalToolUseCount": uses,
        }
        return Outcome(content, structured)

    def _agent_turn(self, call: steps.Calls, agent: Agent, task: dict[str, Any]) -> Steps[int]:
        from bridle.testing.simulation_turns import take_reply

        sim = self.sim
        source = _Source(call.agent)
        uses = 0
        while source.peek() is not None:
            if not isinstance(source.peek(), steps.REPLY_STEPS):
                source.take()
                continue
            reply = take_reply(source)
            called = [step for step in reply if isinstance(step, steps.Calls)]
            uses += len(called)
            for step in called:
                subject = step.input.get("command") or step.tool
                sim.emit(
                    {
                        "type": "system",
                        "subtype": "task_progress",
                        "task_id": agent.id,
                        "run_id": task["run_id"],
                        "tool_use_id": agent.tool_use_id,
                        "description": f"Running {subject}",
                        "subagent_type": agent.kind,
                        "usage": {"total_tokens": 15, "tool_uses": uses, "duration_ms": 1},
                        "last_tool_name": step.tool,
                    }
                )
            calls = yield from self.conversation.say(reply, agent)
            if calls:
                yield from self.run(calls, agent)
        return uses


_STRENGTH = {"allow": 1, "ask": 2, "defer": 3, "deny": 4}


def split_server(tool: str) -> tuple[str | None, str]:
    """Return the server and the name of a tool; None where it is no tool of a server."""
    if not tool.startswith("mcp__"):
        return None, tool
    server, _, name = tool[5:].partition("__")
    return server, name


def seen_name(tool: str) -> str:
    """Return the name that hooks and questions use for a tool."""
    return _ALIASES.get(tool, tool)


def last_said(items: tuple[steps.ScriptStep, ...]) -> str:
    """Return what a subagent says last."""
    return next((step.text for step in reversed(items) if isinstance(step, steps.Says)), "")


def _matches(matcher: Any, subject: str) -> bool:
    if not isinstance(matcher, str) or matcher in ("", "*") or not subject:
        return True
    if re.fullmatch(r"[A-Za-z0-9_|, -]+", matcher):
        return subject in [part.strip() for part in re.split(r"[|,]", matcher)]
    try:
        return re.search(matcher, subject) is not None
    except re.error:
        return False


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


def _as_model_blocks(content: Any) -> Any:
    """Return what a server's tool gave in the form in which the model gets it."""
    if not isinstance(content, list):
        return content
    blocks = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "image":
            source = {"type": "base64", "data": block.get("data"), "media_type": block.get("mimeType")}
            blocks.append({"type": "image", "source": source})
        else:
            blocks.append(block)
    return blocks
