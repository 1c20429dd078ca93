"""Puts items together from events, whichever file they are read from. Nothing here raises for the content of a file."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from datetime import timedelta
from typing import Any

from hackamore.activity.decisions import decision
from hackamore.activity.prices import Tokens, sum_of
from hackamore.activity.replies import Replies, Reply, Results
from hackamore.activity.tree import INTERRUPTED, Calls, is_call, is_result, typed
from hackamore.activity.words import AGENT_TOOLS, as_list, blocks_of, telling, text_of
from hackamore.messages import ResultMessage, from_data
from hackamore.traces.items import LANES, Item, Lines, Sample, Session, Stop, as_cost, as_object, short

_LANE = {name: place for place, name in enumerate(LANES)}
_FAILED_TASK = frozenset({"failed", "killed", "error", "stopped"})
_SOURCES = {
    "config": "by a rule or setting",
    "user_temporary": "by the permission callback",
    "user_permanent": "by the permission callback, for good",
    "user_reject": "by the permission callback",
    "user_abort": "by an interrupt",
    "hook": "by a hook",
}


def call_title(fields: Any) -> str:
    """Return the most telling argument of a call."""
    name = telling(fields) if isinstance(fields, dict) else None
    if name is not None:
        return short(fields[name])
    return short(json.dumps(fields, ensure_ascii=False)[:1000]) if fields else ""


class Builder:
    """A trace that is being read: `items` in the order in which they began, and in `changed` those that changed since it was emptied."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.samples: list[Sample] = []
        self.sessions: list[SessionBuilder] = []
        self.lines: Lines = Lines()
        self.problems: list[str] = []
        self.changed: set[int] = set()

    def problem(self, text: str) -> None:
        """Note a part that could not be read; there is a limit."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(text)
        elif len(self.problems) == _MOST_PROBLEMS:
            self.problems.append("and more like these")

    def session(self, name: str) -> SessionBuilder:
        """Begin a session."""
        made = SessionBuilder(self, len(self.sessions), name)
        self.sessions.append(made)
        return made


_MOST_PROBLEMS = 50


class SessionBuilder:
    """One session that is being read."""

    def __init__(self, builder: Builder, index: int, name: str) -> None:
        self.info: Session = Session(name)
        self.index = index
        self._builder = builder
        self._tools: Calls[int] = Calls()
        self._asked: dict[str, int] = {}  # by request id
        self._replies: dict[str, int] = {}  # by message id
        self._samples: dict[int, int] = {}  # the sample of a reply, by its item
        self._spent = Replies(Reply)
        self._results_read = Results()
        self._reported = Tokens()
        self._tasks: dict[str, int] = {}  # by task id
        self._agents: dict[str, str] = {}  # the tool use id, by agent id
        self._ready: dict[str, float] = {}  # when an agent's last input was complete, by its tool use id
        self._prompts: list[int] = []
        self._results: list[int] = []
        self._streaming: dict[str, int] = {}
        self._exit: tuple[int | None, int] | None = None
        self._ended = False
        self._stopped: tuple[str, int] | None = None
        self._refused: int | None = None
        self._first_stderr: int | None = None
        self._last = -1
        self._last_of_main = -1  # of no subagent
        self.live = False
        self.stored = False
        """True for a conversation on the disk, which has no results."""

    # -- parts ------------------------------------------------------------------------------------------------------

    def add(self, at: float, lane: str, kind: str, title: object = "", **more: Any) -> int:
        """Add an item; return its number. `end=None` leaves it open."""
        items = self._builder.items
        end = more.pop("end", at)
        item = Item(self.index, _LANE[lane], kind, at, end, short(title), **more)
        number = len(items)
        items.append(item)
        self._builder.changed.add(number)
        self.moment(at)
        self.info.counts[kind] = self.info.counts.get(kind, 0) + 1
        if item.status in ("failed", "denied"):
            self.info.failed += 1
        self._last = number
        if item.parent < 0:
            self._last_of_main = number
        return number

    def _open(self, at: float, lane: str, kind: str, title: object, **more: Any) -> int:
        return self.add(at, lane, kind, title, end=None, status="open", **more)

    def item(self, number: int) -> Item:
        """Return an item that is about to change."""
        self._builder.changed.add(number)
        return self._builder.items[number]

    def moment(self, at: float) -> None:
        """Extend the session to a time."""
        self.info.seconds = max(self.info.seconds, at)

    def close(self, number: int, at: float, outcome: object = None, status: str = "") -> None:
        """End an item."""
        item = self.item(number)
        item.end = max(at, item.start)
        if outcome is not None:
            item.outcome = short(outcome)
        status = status or ("ok" if item.status == "open" else item.status)
        if status in ("failed", "denied") and item.status not in ("failed", "denied"):
            self.info.failed += 1
        item.status = status
        self.moment(at)

    def fact(self, name: str, value: object) -> None:
        """Set a fact of the session."""
        if value not in (None, ""):
            rest = [fact for fact in self.info.facts if fact[0] != name]
            self.info.facts = [*rest, (name, short(value))]

    def rule(self, source: str, text: object) -> None:
        """Note a permission rule or mode."""
        rule = (source, short(text))
        if rule not in self.info.rules and len(self.info.rules) < _MOST_RULES:
            self.info.rules.append(rule)

    # -- conversation -----------------------------------------------------------------------------------------------

    def prompt(self, at: float, line: int, text: object, *, queued: bool = True) -> None:
        """Take a prompt."""
        number = self.add(at, "session", "prompt", text, refs=[("prompt", line, -1)])
        if queued:
            self._prompts.append(number)
        self._ready[""] = at

    def parent(self, tool_use_id: Any, agent_id: Any = None) -> int:
        """Return the item of a subagent's call; -1 for the main conversation."""
        by_agent = self._tools.get(self._agents.get(str(agent_id), ""), -1)
        return self._tools.get(str(tool_use_id or ""), by_agent)

    def stream(self, at: float, frame: dict[str, Any]) -> None:
        """Take a piece of a reply that is still written."""
        event = as_object(frame, "event")
        agent = str(frame.get("parent_tool_use_id") or "")
        reply = self._spent.piece(event, agent)
        if reply is not None:
            self._streaming[agent] = self._reply(at, reply.key, agent, reply)
        if agent in self._streaming:
            self.close(self._streaming[agent], at)

    def _reply(self, at: float, message_id: str, agent: str, reply: Reply | None, model: object = "") -> int:
        number = self._replies.get(message_id)
        if number is None:
            start = min(at, max(self._ready.get(agent, 0.0), 0.0)) if agent in self._ready else at
            name = short(model if reply is None else reply.model)
            number = self._replies[message_id] = self.add(
                start, "model", "model", end=at, parent=self.parent(agent), name=name
            )
            # An item begins when the request was sent, which other items may have followed.
            self.moment(at)
        if reply is not None and reply.tokens.replies:
            samples, item = self._builder.samples, self.item(number)
            place = self._samples.setdefault(number, len(samples))
            if place == len(samples):
                samples.append(Sample(self.index, item.end or item.start, number))
            for name, amount in _usage(reply.tokens).items():
                setattr(samples[place], name, amount)
        return number

    def assistant(self, at: float, line: int, frame: dict[str, Any], agent: str = "") -> None:
        """Take a reply of the model, or a part of one."""
        message = as_object(frame, "message")
        agent = str(frame.get("parent_tool_use_id") or agent)
        key = str(message.get("id") or frame.get("uuid") or f"line-{line}")
        model, usage = str(message.get("model", "")), as_object(message, "usage")
        number = self._reply(at, key, agent, self._spent.frame(key, model, usage or None, agent), model)
        self.close(number, at)
        item = self.item(number)
        error = frame.get("error") or frame.get("isApiErrorMessage")
        if error or frame.get("is_api_error_message"):
            self.close(number, at, "the API reported an error" if error is True else error, "failed")
        elif frame.get("aborted"):
            self.close(number, at, "interrupted", "failed")
        calls = []
        for place, block in enumerate(blocks_of(message.get("content"))):
            item.refs.append(("block", line, place))
            kind = block.get("type")
            if kind == "text" and not item.title:
                item.title = short(block.get("text", ""))
            elif is_call(kind) and str(block.get("id")) not in self._tools.open:
                calls.append(short(block.get("name", ""), 60))
                self._call(at, line, place, block, agent)
            elif is_result(kind):
                self._result_of(at, line, place, block, {})
        if calls and not item.outcome.startswith("calls"):
            item.outcome = "calls " + ", ".join(calls)
        elif calls:
            item.outcome = short(f"{item.outcome}, {', '.join(calls)}")

    def _call(self, at: float, line: int, place: int, block: dict[str, Any], agent: str) -> None:
        name, call = short(block.get("name", ""), 80), str(block.get("id"))
        fields = as_object(block, "input")
        lane, kind, title = "tools", "tool", call_title(fields)
        if name in AGENT_TOOLS:
            lane, kind = "subagents", "subagent"
            title = short(fields.get("description") or title)
        refs = [("call", line, place)]
        self._tools.begin(call, self._open(at, lane, kind, title, parent=self.parent(agent), name=name, refs=refs))

    def user(self, at: float, line: int, frame: dict[str, Any], agent: str = "", *, prompts: bool = False) -> None:
        """Take a user message of the CLI: tool results, and texts that no user typed.

        Args:
            agent: the call of the subagent that it belongs to.
            prompts: True if the texts in it are prompts, as in a transcript.
        """
        agent = str(frame.get("parent_tool_use_id") or agent)
        metas = {
            str(as_object(meta).get("id")): as_object(meta)
            for meta in as_list(frame.get("tool_result_meta") or frame.get("toolResultMeta"))
        }
        blocks = blocks_of(as_object(frame, "message").get("content"))
        rest = [block for block in blocks if not is_result(block.get("type"))]
        for place, block in enumerate(blocks):
            if is_result(block.get("type")):
                self._result_of(at, line, place, block, metas)
        self._ready[agent] = at
        if not rest or agent:
            return  # the task of a subagent stands in its call
        text = text_of(rest)
        if text.startswith(INTERRUPTED):
            self.add(at, "session", "interrupt", text, status="failed", refs=[("message", line, -1)])
        elif prompts and typed(text, len(blocks) > len(rest), *map(frame.get, _MARKS)):
            self.prompt(at, line, text, queued=False)
        elif not frame.get("isReplay"):
            self.add(at, "session", "message", text, status="note", refs=[("message", line, -1)])

    def _result_of(
        self, at: float, line: int, place: int, block: dict[str, Any], metas: dict[str, dict[str, Any]]
    ) -> None:
        call = str(block.get("tool_use_id"))
        number = self._tools.get(call)
        text = text_of(block.get("content"))
        failed = bool(block.get("is_error"))
        if number is None:
            self.add(at, "tools", "result", text, status="failed" if failed else "note", refs=[("result", line, place)])
            return
        item = self.item(number)
        item.refs.append(("result", line, place))
        if self._tools.end(call) is None:
            return  # the first result counts
        meta = metas.get(call, {})
        decided = as_object(meta, "permission_decision")
        status = "failed" if failed else "ok"
        if decided:
            reject = decided.get("decision") == "reject"
            status = "denied" if reject else status
            source = str(decided.get("source"))
            reason = f" ({short(decided['reason_type'], 40)})" if decided.get("reason_type") else ""
            said = f"{'denied' if reject else 'allowed'} {_SOURCES.get(source, f'by {short(source, 40)}')}{reason}"
            if not item.decision:
                item.decision = said
        if failed and item.decision.startswith("denied"):
            status = "denied"
        self.close(number, at, text, status)

    # -- control ----------------------------------------------------------------------------------------------------

    def asked(self, at: float, line: int, request_id: str, request: dict[str, Any]) -> None:
        """Take a request of the CLI."""
        fields = as_object(request, "input")
        subtype = short(request.get("subtype"), 60)
        parent = -1
        match subtype:
            case "hook_callback":
                lane, kind = "hooks", "hook"
                name = short(fields.get("hook_event_name", ""), 60)
                title = call_title(fields.get("tool_input")) if "tool_name" in fields else ""
                title = f"{short(fields.get('tool_name', ''), 60)} {title}".strip()
                parent = self.parent(fields.get("tool_use_id"), fields.get("agent_id"))
            case "can_use_tool":
                lane, kind, name = "permissions", "permission", short(request.get("tool_name"), 80)
                title = call_title(fields)
                parent = self.parent(request.get("tool_use_id"), request.get("agent_id"))
            case "mcp_message":
                message = as_object(request, "message")
                parameters = as_object(message, "params")
                lane, kind = "tools", "mcp"
                name = short(f"{request.get('server_name')}: {message.get('method')}", 80)
                parent = self.parent(as_object(parameters, "_meta").get("claudecode/toolUseId"))
                title = f"{parameters.get('name', '')} {call_title(parameters.get('arguments'))}".strip()
                if message.get("method") != "tools/call":
                    lane, kind = "session", "control"
            case _:
                lane, kind, name = "session", "question", subtype
                title = call_title({key: value for key, value in request.items() if key != "subtype"})
        refs = [("ask", line, -1)]
        self._asked[f"in {request_id}"] = self._open(at, lane, kind, title, parent=parent, name=name, refs=refs)

    def operation(self, at: float, line: int, request_id: str, request: dict[str, Any]) -> None:
        """Take a control operation of the host."""
        rest = {name: value for name, value in request.items() if name != "subtype"}
        name = short(request.get("subtype"), 60)
        if name == "initialize":
            rest = {key: value for key, value in rest.items() if key in ("agents", "sdkMcpServers")}
        if name == "set_permission_mode":
            self.rule("set_permission_mode", request.get("mode"))
        kind = "interrupt" if name == "interrupt" else "control"
        refs = [("ask", line, -1)]
        self._asked[f"out {request_id}"] = self._open(at, "session", kind, call_title(rest), name=name, refs=refs)

    def answered(self, at: float, line: int, response: dict[str, Any], *, inbound: bool) -> None:
        """Take the answer to a request; `inbound` is True if the CLI answers."""
        number = self._asked.pop(f"{'out' if inbound else 'in'} {response.get('request_id')}", None)
        if number is None:
            return
        item = self.item(number)
        item.refs.append(("answer", line, -1))
        if response.get("subtype") == "error":
            self.close(number, at, response.get("error"), "failed")
            return
        payload = as_object(response, "response")
        match item.kind:
            case "permission":
                self._permitted(number, at, payload)
            case "hook":
                self._decided(number, at, payload, "by a hook")
            case "mcp":
                answer = as_object(payload, "mcp_response")
                text = as_object(answer, "error").get("message") or text_of(as_object(answer, "result").get("content"))
                self.close(number, at, text, "failed" if decision(payload).verdict == "failed" else "ok")
            case _:
                self.close(number, at, "" if item.name == "initialize" else call_title(payload) or "done")

    def _permitted(self, number: int, at: float, payload: dict[str, Any]) -> None:
        for update in as_list(payload.get("updatedPermissions")):
            changed = as_object(update)
            for rule in as_list(changed.get("rules")):
                known = as_object(rule)
                content = f"({known['ruleContent']})" if known.get("ruleContent") else ""
                self.rule(
                    f"permission callback, {changed.get('behavior')} ({changed.get('destination')})",
                    f"{known.get('toolName')}{content}",
                )
            if changed.get("mode"):
                self.rule(f"permission callback ({changed.get('destination')})", changed["mode"])
        told = as_object(payload, "hackamoreApproval")
        source = "by the permission callback"
        if told:
            waited = told.get("seconds")
            long = f" after {timedelta(seconds=round(waited))}" if isinstance(waited, (int, float)) else ""
            source = f"by {short(told.get('by'), 80)}{long}, request {short(told.get('id'), 40)}"
            if asked := as_list(told.get("approvers")):
                source += f", asked: {short(', '.join(map(str, asked)), 200)}"
        self._decided(number, at, payload, source)

    def _decided(self, number: int, at: float, payload: dict[str, Any], source: str) -> None:
        made = decision(payload)
        name, reason = short(made.name, 40), short(made.reason)
        if not name:
            kind = self._builder.items[number].kind
            self.close(number, at, call_title(payload) or "continue" if kind == "hook" else "")
            return
        self.close(number, at, f"{name}: {reason}" if reason else name, "denied" if made.against else "ok")
        parent = self._builder.items[number].parent
        if parent >= 0 and made.verdict in ("deny", "block", "allow", "approve"):
            verb = "denied" if made.verdict in ("deny", "block") else "allowed"
            self.item(parent).decision = short(f"{verb} {source}{f': {reason}' if reason else ''}")

    def cancelled(self, at: float, line: int, request_id: str) -> None:
        """End a request that the CLI cancelled."""
        number = self._asked.pop(f"in {request_id}", None)
        if number is not None:
            self.item(number).refs.append(("cancel", line, -1))
            self.close(number, at, "cancelled by the CLI", "failed")

    # -- reports of the CLI -----------------------------------------------------------------------------------------

    def system(self, at: float, line: int, frame: dict[str, Any]) -> None:
        """Take a system message."""
        subtype = str(frame.get("subtype"))
        match subtype:
            case "init":
                self.fact("model", frame.get("model"))
                self.fact("permission mode", frame.get("permissionMode"))
                self.fact("Claude Code", frame.get("claude_code_version"))
                self.fact("session", frame.get("session_id"))
                self.rule("permission mode at the start of a turn", frame.get("permissionMode"))
            case "status":
                if frame.get("status") == "requesting":
                    self._ready[""] = at
                if frame.get("permissionMode"):
                    self.rule("set_permission_mode", frame["permissionMode"])
            case "task_started":
                self._task_started(at, line, frame)
            case "task_progress" | "task_updated" | "task_notification":
                self._task_went_on(at, line, subtype, frame)
            case "api_retry":
                text = f"try {frame.get('attempt')} of {frame.get('max_retries')}"
                error = short(frame.get("error") or frame.get("error_status") or "")
                self._note(at, line, "retry", text, outcome=error, status="failed")
            case "compact_boundary" | "microcompact_boundary":
                meta = as_object(frame, "compact_metadata") or as_object(frame, "compactMetadata")
                self._note(at, line, "compaction", f"{meta.get('trigger', '')} {meta.get('pre_tokens', '')}".strip())
            case "hook_started":
                title, refs = frame.get("hook_name"), [("ask", line, -1)]
                name = short(frame.get("hook_event") or title, 60)
                self._asked[f"hook {frame.get('hook_id')}"] = self._open(
                    at, "hooks", "hook", title, name=name, refs=refs
                )
            case "hook_response":
                number = self._asked.pop(f"hook {frame.get('hook_id')}", -1)
                if number >= 0:
                    self.item(number).refs.append(("answer", line, -1))
                    outcome = frame.get("outcome") or f"exit code {frame.get('exit_code')}"
                    self.close(number, at, outcome, "failed" if frame.get("exit_code") else "ok")
            case "session_state_changed" | "thinking_tokens" | "background_tasks_changed" | "hook_progress":
                self.moment(at)
            case "permission_denied":
                self._note(at, line, "permission", call_title(frame), outcome="denied", status="denied")
            case _:
                text = frame.get("message") or frame.get("content") or frame.get("text") or ""
                self._note(at, line, "notice", f"{subtype} {short(text)}".strip())

    def _note(self, at: float, line: int, kind: str, title: object, **more: Any) -> int:
        return self.add(at, "session", kind, title, **{"status": "note", **more}, refs=[("message", line, -1)])

    def _task_started(self, at: float, line: int, frame: dict[str, Any]) -> None:
        task, call = str(frame.get("task_id")), str(frame.get("tool_use_id"))
        self._agents[task] = call
        parent = self._tools.get(call, -1)
        if parent >= 0 and frame.get("task_type") == "local_agent":
            self.item(parent).refs.append(("task", line, -1))
            self._ready[call] = at
            if not frame.get("is_backgrounded"):
                self._tasks[task] = parent
                return
        name, refs = short(frame.get("task_type", ""), 60), [("task", line, -1)]
        title = frame.get("description") or task
        self._tasks[task] = self._open(at, "background", "task", title, parent=parent, name=name, refs=refs)

    def _task_went_on(self, at: float, line: int, subtype: str, frame: dict[str, Any]) -> None:
        number = self._tasks.get(str(frame.get("task_id")))
        if number is None:
            if subtype == "task_notification":
                outcome = short(frame.get("status", ""), 60)
                how = "failed" if frame.get("status") in _FAILED_TASK else "note"
                self._note(at, line, "task", frame.get("summary"), outcome=outcome, status=how)
            return
        item = self.item(number)
        item.refs.append(("task", line, -1))
        status = frame.get("status") or as_object(frame, "patch").get("status")
        if item.kind == "task" and status and status not in ("running", "pending"):
            self.close(number, at, frame.get("summary") or status, "failed" if status in _FAILED_TASK else "ok")

    def result(self, at: float, line: int, frame: dict[str, Any]) -> None:
        """Take the result of a turn."""
        reason = short(frame.get("terminal_reason") or "", 60)
        subtype = short(frame.get("subtype"), 60)
        errors = "; ".join(map(str, as_list(frame.get("errors"))))
        failed = bool(frame.get("is_error"))
        number = self.add(
            at,
            "session",
            "result",
            errors or frame.get("result") or subtype,
            outcome=f"{subtype}{f', {reason}' if reason and reason != 'completed' else ''}",
            status="failed" if failed else "ok",
            name=reason or subtype,
            refs=[("result", line, -1)],
        )
        self._results.append(number)
        if self._prompts:
            prompt = self.item(self._prompts.pop(0))
            prompt.end = at
            prompt.outcome = f"answered: {subtype}"
            prompt.refs.append(("result", line, -1))
        cost = as_cost(frame.get("total_cost_usd"))
        if cost is not None:
            self.info.cost = cost
            self._builder.samples.append(Sample(self.index, at, number, cost=cost))
        message = from_data({name: value for name, value in frame.items() if name in _NUMBERS})
        if isinstance(message, ResultMessage):
            self._reported = self._reported + self._spent.reported(self._results_read.take(message))[0]

    # -- the process ------------------------------------------------------------------------------------------------

    def started(self, at: float, line: int, fields: dict[str, Any]) -> None:
        """Add the start of the session."""
        arguments = [str(part) for part in as_list(fields.get("arguments"))]
        self.add(at, "session", "start", " ".join(arguments), refs=[("entry", line, -1)])
        self.fact("folder", fields.get("cwd"))
        resumed = any(part.partition("=")[0] in ("--resume", "--continue") for part in arguments)
        self._results_read = Results(resumed=resumed)
        flag = ""
        for part in arguments:
            name, _, value = part.partition("=") if part.startswith("--") else (flag, "", part)
            flag = name if part.startswith("--") and not value else ""
            if (value and name.lower().replace("-", "") in _RULE_FLAGS) or part == _BYPASS:
                self.rule(name, value or "all tools run without asking")

    def start_failed(self, at: float, line: int, fields: dict[str, Any]) -> None:
        """Add a failed start of the CLI."""
        self._refused = self.add(
            at, "session", "start", fields.get("message"), outcome=short(fields.get("error")), status="failed",
            refs=[("entry", line, -1)],
        )  # fmt: skip

    def exited(self, at: float, line: int, code: Any) -> None:
        """Add the end of the CLI."""
        code = code if isinstance(code, int) else None
        number = self.add(
            at, "session", "exit", "no status" if code is None else f"exit code {code}",
            status="failed" if code else "note", refs=[("entry", line, -1)],
        )  # fmt: skip
        self._exit = code, number

    def stderr(self, at: float, line: int, text: object) -> None:
        """Add the output of the CLI on stderr."""
        number = self.add(at, "session", "stderr", text, status="failed", refs=[("stderr", line, -1)])
        if self._first_stderr is None:
            self._first_stderr = number

    def stopped(self, at: float, line: int, how: str) -> None:
        """Add the stop of the session by its host."""
        self._stopped = how, self.add(at, "session", "stop", how, status="note", refs=[("entry", line, -1)])

    def bad_line(self, at: float, line: int, text: object) -> None:
        """Take a line that is not a frame."""
        self.add(at, "session", "no frame", text, status="failed", refs=[("entry", line, -1)])

    def ended(self) -> None:
        """Mark the recording as complete."""
        self._ended = True

    # -- the end ----------------------------------------------------------------------------------------------------

    def finished(self) -> Session:
        """Return the session as it is by now."""
        self.info.usage = _usage(self._reported + sum_of(self._spent.unreported.values()))
        self.info.stop = self._stop()
        return self.info

    def _stop(self) -> Stop:
        items = self._builder.items
        evidence: list[tuple[str, int]] = []
        result = items[self._results[-1]] if self._results else None
        if result is not None:
            evidence.append((f"Last result: {result.outcome}", self._results[-1]))
        evidence += [
            (f"No result: {items[number].kind} {items[number].name} {items[number].title}".strip(), number)
            for number in [*self._tools.open.values(), *self._asked.values()][:10]
        ]
        if self._prompts:
            evidence.append((f"Prompts without a result: {len(self._prompts)}", self._prompts[0]))
        if self._exit is not None:
            evidence.append((f"Exit code: {self._exit[0]}", self._exit[1]))
        if self._first_stderr is not None:
            evidence.append((f"stderr: {items[self._first_stderr].title}", self._first_stderr))
        if self._stopped is not None:
            evidence.append((f"Host: {self._stopped[0]}", self._stopped[1]))
        level, title, text, item = self._verdict(result)
        return Stop(level, title, text, item, evidence)

    def _verdict(self, result: Item | None) -> tuple[str, str, str, int]:
        code = self._exit[0] if self._exit is not None else None
        if self._refused is not None:
            item = self._builder.items[self._refused]
            return "bad", f"The CLI could not be started: {item.outcome}", item.title, self._refused
        if self.stored:
            return self._ends_with()
        if result is None:
            if self.live and self._exit is None:
                return "open", "The session is running", "No result was received yet.", self._last
            if self._exit is not None:
                text = f"{_signal_of(code)}See stderr and the last frames."
                return "bad", f"The CLI exited with {code} before a result", text, self._exit[1]
            if self._stopped is not None:
                return "warn", "The host stopped the session before a result", self._stopped[0], self._stopped[1]
            text = "The host was killed, or the file was cut. The last item shows the state at that moment."
            return "bad", "The recording was interrupted before a result", text, self._last
        last = self._results[-1]
        if result.status == "failed":
            head, text = _REASONS.get(result.name, (f"The turn ended with {result.name}", ""))
            return "bad", head, f"{result.title} {text}".strip(), last
        if self._prompts and self._stopped is not None:
            return (
                "warn",
                "The host stopped the session in the middle of a turn",
                "A prompt has no result.",
                self._prompts[0],
            )
        if self._tools.open and not self.live and not self._ended:
            return "bad", "The recording was interrupted during a turn", "Calls have no result.", self._last
        if self._prompts and not self.live:
            return "warn", "A prompt has no result", "The session ended before the CLI answered it.", self._prompts[0]
        if code:
            text = "The last turn succeeded. After an interrupt, the CLI exits with 1 although nothing failed."
            return "warn", f"The turn succeeded, then the CLI exited with {code}", text, last
        if self.live and self._exit is None:
            return "open", "The session is running", "The last turn succeeded.", last
        head, text = _REASONS.get(result.name, ("The turn ended normally", ""))
        return "ok", head, text or "The model ended its turn, and no tool call was open.", last

    def _ends_with(self) -> tuple[str, str, str, int]:
        items, last = self._builder.items, self._last_of_main
        if last < 0:
            return "warn", "The conversation is empty", "", -1
        text = "A conversation on the disk has no results and no exit code."
        if self._tools.open:
            call = next(iter(self._tools.open.values()))
            return "warn", "A tool call has no result", f"The CLI was stopped while it ran. {text}", call
        kind, status = items[last].kind, items[last].status
        if kind == "interrupt":
            return "bad", "The user interrupted the turn", text, last
        if kind == "model" and status != "failed":
            return "ok", "The conversation ends with a reply", text, last
        if kind == "model":
            return "bad", "The API reported an error", items[last].title, last
        if kind == "prompt":
            return "warn", "The last prompt has no reply", text, last
        return "warn", f"The conversation ends with: {kind}", text, last


def _signal_of(code: int | None) -> str:
    number = 0 if code is None else -code if code < 0 else code - 128
    with suppress(ValueError):
        return f"{signal.Signals(number).name} ended it: another process, or the system, stopped it. "
    return ""


_MOST_RULES = 200
_MARKS = ("isReplay", "isSynthetic", "isMeta", "isCompactSummary", "isSidechain", "teamName")
_RULE_FLAGS = frozenset({"allowedtools", "disallowedtools", "permissionmode", "tools"})
_BYPASS = "--dangerously-skip-permissions"
_NUMBERS = frozenset({"type", "total_cost_usd", "usage", "modelUsage", "model_usage_since_last_result"})


def _usage(tokens: Tokens) -> dict[str, int]:
    counts = {name: getattr(tokens, name) for name in ("input", "output", "cache_read", "cache_write")}
    return {name: count if count < 2**53 else 0 for name, count in counts.items()}  # a page cannot show more


_REASONS = {
    "completed": ("The turn ended normally", ""),
    "max_turns": ("The limit of turns was reached", "Raise `max_turns`, or send another prompt."),
    "error_max_turns": ("The limit of turns was reached", "Raise `max_turns`, or send another prompt."),
    "error_max_budget_usd": ("The budget of the CLI was spent", "Raise `max_budget_usd`."),
    "max_budget": ("The budget of the CLI was spent", "Raise `max_budget_usd`."),
    "aborted_streaming": ("The turn was interrupted while the model wrote", ""),
    "aborted_tools": ("The turn was interrupted while a tool ran", ""),
    "api_error": ("The API reported an error", "The last model item has its text."),
    "hook_stopped": ("A hook stopped the turn", "The hook lane shows which one."),
    "error_during_execution": ("The turn failed", ""),
    "prompt_too_long": ("The context is full", "Compact the conversation, or start another one."),
}
