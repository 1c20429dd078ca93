"""To the client: messages of a conversation as updates of the protocol, live and when an old conversation is shown again."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from acp import helpers, schema

from hackamore import messages as m
from hackamore.activity.tree import CALLS, RESULTS, Calls, typed
from hackamore.activity.words import as_list, one_line, telling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hackamore.messages import SlashCommand

_KINDS: dict[str, Any] = {
    **dict.fromkeys(("Read", "NotebookRead"), "read"),
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Bash", "BashOutput", "KillShell"), "execute"),
    **dict.fromkeys(("Glob", "Grep", "LS", "ToolSearch"), "search"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    **dict.fromkeys(("Agent", "Task", "TaskCreate", "TaskUpdate"), "think"),
    **dict.fromkeys(("EnterPlanMode", "ExitPlanMode"), "switch_mode"),
}
_PLAN = "TodoWrite"
_STATES = ("pending", "in_progress", "completed")


def described(name: str, given: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """Return what an editor shows of a call: title, kind, locations, content, input."""
    kind, named = _KINDS.get(name, "other"), telling(given)
    value = one_line(given[named]) if named else ""
    label = ": ".join(name.removeprefix("mcp__").split("__", 1)) if name.startswith("mcp__") else name
    line = given.get("offset") if kind == "read" else None
    paths = [given[key] for key in ("file_path", "notebook_path", "path") if isinstance(given.get(key), str)]
    plan = given.get("plan")
    return {
        "title": (value if kind == "execute" and value else f"{label} {value}".strip())[:200],
        "kind": kind,
        "locations": [
            schema.ToolCallLocation(path=os.path.join(cwd, path), line=line if isinstance(line, int) else None)
            for path in paths
        ],
        "content": [_text(plan)] if isinstance(plan, str) else _changes(given, os.path.join(cwd, *paths[:1])),
        "raw_input": dict(given),
    }


def _changes(given: Mapping[str, Any], path: str) -> list[Any]:
    """Return the changes of a file that a call asks for."""
    found = []
    for edit in as_list(given.get("edits")) or [given]:
        texts = {key: value for key, value in edit.items() if isinstance(value, str)} if isinstance(edit, dict) else {}
        new = next((texts[key] for key in ("new_string", "content", "new_source") if key in texts), None)
        if new is not None and ("file_path" in given or "notebook_path" in given):
            found.append(helpers.tool_diff_content(path, new, texts.get("old_string")))
    return found


def _text(text: str) -> Any:
    return helpers.tool_content(helpers.text_block(text))


def _plan_of(given: Mapping[str, Any]) -> Any:
    entries = [
        (each.get("content"), each.get("status")) for each in as_list(given.get("todos")) if isinstance(each, dict)
    ]
    return helpers.update_plan(
        helpers.plan_entry(str(text), status=state if state in _STATES else "pending") for text, state in entries
    )


def commands_update(commands: Sequence[SlashCommand]) -> Any:
    """Return the update with the slash commands."""
    named = [{"name": each.name, "description": each.description} for each in commands]
    hints = [{"input": {"hint": each.argument_hint}} if each.argument_hint else {} for each in commands]
    return helpers.update_available_commands(
        schema.AvailableCommand.model_validate({**name, **hint}) for name, hint in zip(named, hints, strict=True)
    )


class Shown:
    """The updates that a client gets of a conversation; with `replay` also the prompts of an old one."""

    def __init__(self, cwd: str, *, replay: bool = False) -> None:
        self._cwd, self._replay = cwd, replay
        self._calls: Calls[str] = Calls()
        self._streamed: set[str] = set()
        self._tokens = 0

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls.open

    def begin(self, call_id: str, name: str, given: Mapping[str, Any], parent: str | None = None) -> list[Any]:
        """Return the updates that show a call, if it was not shown yet."""
        if not self._calls.begin(call_id, name):
            return []
        if name == _PLAN:
            return [_plan_of(given)]
        start = helpers.start_tool_call(call_id, status="pending", **described(name, given, self._cwd))
        start.field_meta = {"hackamore": {"parentToolCallId": parent}} if parent else None
        return [start]

    def close(self) -> list[Any]:
        """Return the updates that end the calls without a result, for a turn that is over."""
        calls = [call_id for call_id, name in self._calls.open.items() if name != _PLAN]
        self._calls = Calls()
        return [helpers.update_tool_call(call_id, status="failed") for call_id in calls]

    def of(self, message: object) -> Iterator[Any]:
        """Yield the updates of a message."""
        match message:
            case m.StreamEvent(parent_tool_use_id=None):
                if text := message.text_delta:
                    yield self._piece("text", text)
                elif thought := message.thinking_delta:
                    yield self._piece("thought", thought)
            case m.AssistantMessage():
                yield from self._reply(message)
            case m.UserMessage():
                yield from self._user(message)
            case m.ToolProgressMessage() if message.tool_use_id in self:
                yield helpers.update_tool_call(message.tool_use_id, status="in_progress")
            case m.LocalCommandOutputMessage():
                yield helpers.update_agent_message_text(message.content)
            case m.CommandsChangedMessage():
                yield commands_update(message.commands)
            case m.ResultMessage():
                yield from self._usage(message)
            case _:
                pass

    def _piece(self, kind: str, text: str) -> Any:
        self._streamed.add(kind)
        return (helpers.update_agent_message_text if kind == "text" else helpers.update_agent_thought_text)(text)

    def _whole(self, kind: str, text: str) -> Iterator[Any]:
        """Yield a text that did not come in pieces."""
        if text and kind not in self._streamed:
            yield self._piece(kind, text)
        self._streamed.discard(kind)

    def _reply(self, message: m.AssistantMessage) -> Iterator[Any]:
        parent = message.parent_tool_use_id
        for block in message.content:
            if isinstance(block, CALLS):
                yield from self.begin(block.id, block.name, block.input, parent)
            elif isinstance(block, RESULTS):
                yield from self._result(block)
            elif parent is None and isinstance(
                block, m.TextBlock
            ):  # the words of a subagent are for the agent above it
                yield from self._whole("text", block.text)
            elif parent is None and isinstance(block, m.ThinkingBlock):
                yield from self._whole("thought", block.thinking)
        if parent is None and (usage := usage_of(message.usage)) is not None:
            self._tokens = usage.total_tokens

    def _user(self, message: m.UserMessage) -> Iterator[Any]:
        for block in as_list(message.content):
            if isinstance(block, RESULTS):
                yield from self._result(block)
        text = message.text
        if self._replay and text and message.parent_tool_use_id is None and typed(text, message.is_synthetic):
            yield helpers.update_user_message_text(text)

    def _result(self, block: Any) -> Iterator[Any]:
        name = self._calls.end(block.tool_use_id)
        if name is None or name == _PLAN:
            return
        kind, failed = _KINDS.get(name, "other"), bool(block.is_error)
        # An edit keeps its diff: new content would replace it.
        content = None if kind == "edit" and not failed else _content(block, fenced=kind == "execute")
        yield helpers.update_tool_call(block.tool_use_id, status="failed" if failed else "completed", content=content)

    def _usage(self, result: m.ResultMessage) -> Iterator[Any]:
        size = max((each.context_window for each in result.model_usage.values()), default=0)
        if size > 0:
            cost = None if result.total_cost_usd is None else schema.Cost(amount=result.total_cost_usd, currency="USD")
            yield schema.UsageUpdate(session_update="usage_update", used=self._tokens, size=size, cost=cost)


def _content(block: Any, *, fenced: bool) -> list[Any]:
    """Return the result of a tool as content: its text, and its images."""
    text = block.text
    if text and fenced:
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        text = f"{fence}console\n{text.rstrip()}\n{fence}"
    found = [_text(text)] if text else []
    for each in as_list(block.content):
        source = each.get("source") if isinstance(each, dict) and each.get("type") == "image" else None
        if isinstance(source, dict) and isinstance(source.get("data"), str):
            image = helpers.image_block(source["data"], str(source.get("media_type", "image/png")))
            found.append(helpers.tool_content(image))
    return found


def usage_of(usage: Any) -> schema.Usage | None:
    """Return the tokens of a reply or a turn."""
    if usage is None:
        return None
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    given = max(usage.input_tokens, 0), max(usage.output_tokens, 0), max(read, 0), max(written, 0)
    names = ("input_tokens", "output_tokens", "cached_read_tokens", "cached_write_tokens")
    return schema.Usage(total_tokens=sum(given), **dict(zip(names, given, strict=True)))
