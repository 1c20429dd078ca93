"""The hooks of a simulated CLI: their input, their calls, and their output."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from hackamore.checked.functions import AnswerError
from hackamore.hooks.outputs import check_wire
from hackamore.testing.script.run import Happened
from hackamore.testing.simulation import frames
from hackamore.testing.simulation.core import Part, Pause, never
from hackamore.testing.simulation.facts import FACTS, TEXTS, model_usage
from hackamore.testing.simulation.state import split_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.testing.simulation.core import Core, Steps
    from hackamore.testing.simulation.state import Agent

_TOOL_EVENTS = frozenset({"PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreToolUse"})
_WITHOUT_MODE = frozenset(FACTS["hooks_without_mode"])
"""Events whose input lacks the permission mode."""


class Hooks(Part):
    """Calls the hooks that the host has registered."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._held: list[Callable[[], object]] = []

    def has(self, event: str) -> bool:
        """Return whether an event has hooks."""
        return event in self.state.hooks

    def send(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        tool_use_id: str | None = None,
        agent: Agent | None = None,
        effort: bool = True,
    ) -> list[tuple[str, float | None]]:
        """Call the hooks of an event; return the requests, each with the moment of its timeout."""
        state = self.state
        sent: list[tuple[str, float | None]] = []
        subject = str(fields.get("tool_name") or fields.get("agent_type") or fields.get("trigger") or "")
        for matcher in state.hooks.get(event, ()):
            if not _matches(matcher.get("matcher"), subject):
                continue
            timeout = matcher.get("timeout")
            until = self.scheduler.now() + timeout if isinstance(timeout, (int, float)) else None
            for callback_id in matcher.get("hookCallbackIds", ()):
                payload = self._common(event, subject, agent, effort=effort) | fields
                request = {"callback_id": callback_id, "input": payload, "tool_use_id": tool_use_id or state.new_id()}
                sent.append((self.host.ask("hook_callback", request), until))
        return sent

    def _common(self, event: str, subject: str, agent: Agent | None, *, effort: bool) -> dict[str, Any]:
        state = self.state
        payload: dict[str, Any] = {
            "session_id": state.session_id,
            "transcript_path": state.transcript_path,
            "cwd": state.launch.cwd,
        }
        if state.prompt_id is not None:
            payload["prompt_id"] = state.prompt_id
        if event not in _WITHOUT_MODE:
            payload["permission_mode"] = state.mode
        if agent is not None:
            payload |= {"agent_id": agent.id, "agent_type": agent.kind}
        if effort:
            payload["effort"] = {"level": "medium"}
        payload["hook_event_name"] = event
        if state.title is not None and event in ("SessionStart", "UserPromptSubmit"):
            payload["session_title"] = state.title
        server = split_server(subject)[0]
        if event in _TOOL_EVENTS and server in state.servers:
            payload["mcp_server"] = {"name": server, "source": "sdk"}
        return payload

    def collect(self, event: str, sent: list[tuple[str, float | None]]) -> Steps[list[dict[str, Any]]]:
        """Wait for the output of hooks. A hook that times out is cancelled, and before a tool it counts as a refusal."""
        host = self.host
        outputs = []
        for request_id, until in sent:
            yield host.until_answered(request_id, until)
            late = not host.answered(request_id)
            if late:
                host.cancel(request_id)
            output = self.output_of(event, request_id)
            if CRASHED in output:
                used = {"model_usage_since_last_result": model_usage(self.state.since_last_result())}
                host.emit(frames.refusal(self.state.session_id, output[CRASHED]) | used)
                host.exit(1)
                yield Pause(never)
            if late and event == "PreToolUse":
                output = {"decision": "block", "reason": "the hook did not answer in time"}
            if output.get("continue") is False:
                self.turn.stopped = True
            outputs.append(output)
        return outputs

    def output_of(self, event: str, request_id: str) -> dict[str, Any]:
        """Return the output of a hook that has answered, and note it."""
        failed = self.host.error_of(request_id) is not None
        answer = self.host.answer(request_id)
        self.script.note(f"the hook {event} answers {answer}")
        output: dict[str, Any] = {}
        try:
            check_wire(answer)
        except AnswerError as problem:
            if answer is not None or failed:
                self._warn(event, f"the answer is treated as empty: {problem}", tag="hook_callback_failed")
        else:
            output = answer
        name = output.get("hookSpecificOutput", {}).get("hookEventName", event)
        if name != event:
            output = self._misnamed(event, f"the output names the event {name!r}")
        self.turn.happened.append(Happened("hook", event, output))
        return output

    def _warn(self, event: str, problem: str, **more: Any) -> None:
        text = f"hook {event}: {problem}"
        self.script.note(text)
        report = partial(self.host.system, "informational", content=text, level="warning", **more)
        if event in ("UserPromptSubmit", "SubagentStart"):
            self._held.append(report)
        else:
            report()

    def report(self) -> None:
        """Report problems that the CLI reports after the frame with the prompt: the init frame, or the prompt of a subagent."""
        while self._held:
            self._held.pop(0)()

    def _misnamed(self, event: str, problem: str) -> dict[str, Any]:
        """Return the effect of an output for another event (2.1.330): the CLI ends, runs no tool, or ignores the output."""
        self.script.note(f"hook {event}: {problem}")
        if event in _ENDS_THE_CLI:
            return {CRASHED: problem}
        if event == "Stop":
            self._warn(event, problem)
        failure = {"PreToolUse": TEXTS["hook_failed"], "SubagentStart": problem}.get(event)
        return {FAILED: failure} if failure is not None else {}

    def run(
        self,
        event: str,
        fields: dict[str, Any],
        *,
        tool_use_id: str | None = None,
        agent: Agent | None = None,
        effort: bool = True,
    ) -> Steps[list[dict[str, Any]]]:
        """Call the hooks of an event and wait for their output."""
        if not self.has(event):
            return []
        sent = self.send(event, fields, tool_use_id=tool_use_id, agent=agent, effort=effort)
        outputs = yield from self.collect(event, sent)
        for output in outputs if agent is None else ():
            self.show_message(event, fields, output)
        return outputs

    def show_message(self, event: str, fields: dict[str, Any], output: dict[str, Any]) -> None:
        """Report the text that a hook has for the user."""
        if text := output.get("systemMessage"):
            name = f"{event}:{fields['tool_name']}" if "tool_name" in fields else event
            self.host.system("informational", content=f"{name} says: {text}", level="notice")


CRASHED = "crashed"
"""The key of a text in place of an output: the CLI ends with it as an error."""
_ENDS_THE_CLI = ("UserPromptSubmit", "PostToolBatch")
FAILED = "failed"
"""The key of a text in place of an output: the hook has failed, and its tool or subagent does not run."""


def _matches(matcher: Any, subject: str) -> bool:
    if not isinstance(matcher, str) or matcher in ("", "*") or not subject:
        return True
    if re.fullmatch(r"[A-Za-z0-9_|, -]+", matcher):
        return subject in [part.strip() for part in re.split(r"[|,]", matcher)]
    try:
        return re.search(matcher, subject) is not None
    except re.error:
        return False
