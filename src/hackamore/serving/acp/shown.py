"""To the client: messages of a conversation as updates of the protocol, live and when an old conversation is shown again."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from acp import schema
from acp.helpers import (
    image_block,
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_available_commands,
    update_plan,
    update_tool_call,
    update_user_message_text,
)

from hackamore.activity.tree import CALLS, RESULTS, Calls, typed
from hackamore.activity.words import one_line, telling
from hackamore.messages import (
    AssistantMessage,
    CommandsChangedMessage,
    LocalCommandOutputMessage,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolProgressMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hackamore.messages import SlashCommand

Update: TypeAlias = Any
"""One of the classes of `session/update`."""

_TITLE = 200
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("Read", "NotebookRead"), "read"),
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Bash", "BashOutput", "KillShell"), "execute"),
    **dict.fromkeys(("Glob", "Grep", "LS", "ToolSearch"), "search"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    **dict.fromkeys(("Agent", "Task", "TodoWrite", "TaskCreate", "TaskUpdate"), "think"),
    **dict.fromkeys(("EnterPlanMode", "ExitPlanMode"), "switch_mode"),
}
PLAN_TOOL = "TodoWrite"
_STATES = ("pending", "in_progress", "completed")


def described(name: str, given: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """Return what an editor shows of a call: title, kind, locations, content, input."""
    kind = _KINDS.get(name, "other")
    named = telling(given)
    value = one_line(given[named]) if named else ""
    if name.startswith("mcp__"):
        name = ": ".join(name.removeprefix("mcp__").split("__", 1))
    title = value if kind == "execute" and value else f"{name} {value}".strip()
    paths = [given[key] for key in ("file_path", "notebook_path", "path") if isinstance(given.get(key), str)]
    line = given.get("offset") if kind == "read" else None
    line = line if isinstance(line, int) and line >= 0 else None
    locations = [schema.ToolCallLocation(path=os.path.join(cwd, path), line=line) for path in paths]
    return {
        "title": title[:_TITLE] or "tool",
        "kind": kind,
        "locations": locations,
        "content": _changes(given, cwd) or _plan_text(given),
        "raw_input": dict(given),
    }


def _changes(given: Mapping[str, Any], cwd: str) -> list[Any]:
    """Return the changes of files that a call asks for."""
    path = given.get("file_path", given.get("notebook_path"))
    if not isinstance(path, str):
        return []
    edits = given.get("edits")
    found = []
    for edit in edits if isinstance(edits, list) else [given]:
        if not isinstance(edit, dict):
            continue
        old = edit.get("old_string")
        new = next(
            (edit[key] for key in ("new_string", "content", "new_source") if isinstance(edit.get(key), str)), None
        )
        if new is not None:
            found.append(tool_diff_content(os.path.join(cwd, path), new, old if isinstance(old, str) else None))
    return found


def _plan_text(given: Mapping[str, Any]) -> list[Any]:
    plan = given.get("plan")
    return [tool_content(text_block(plan))] if isinstance(plan, str) else []


def _plan(given: Mapping[str, Any]) -> Update:
    entries = given.get("todos")
    found = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    return update_plan(
        plan_entry(
            str(each.get("content", "")), status=state if (state := each.get("status")) in _STATES else "pending"
        )
        for each in found
    )


def commands_update(commands: Sequence[SlashCommand]) -> Update:
    """Return the update with the slash commands."""
    return update_available_commands(
        schema.AvailableCommand(
            name=each.name,
            description=each.description,
            input=schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=each.argument_hint))
            if each.argument_hint
            else None,
        )
        for each in commands
    )


class Shown:
    """The updates that a client got of a conversation.

    Args:
        cwd: the folder of the conversation.
        replay: True to show the prompts of the user as well, for an old conversation.
    """

    def __init__(self, cwd: str, *, replay: bool = False) -> None:
        self._cwd = cwd
        self._replay = replay
        self._calls: Calls[str] = Calls()
        self._streamed: set[str] = set()
        self._tokens = 0

    def __contains__(self, call_id: str) -> bool:
        """Return whether a call was shown, and has no result."""
        return call_id in self._calls.open

    def begin(self, call_id: str, name: str, given: Mapping[str, Any], parent: str | None = None) -> list[Update]:
        """Return the updates that show a call, if it was not shown yet."""
        if not self._calls.begin(call_id, name):
            return []
        if name == PLAN_TOOL:
            return [_plan(given)]
        start = start_tool_call(call_id, status="pending", **described(name, given, self._cwd))
        if parent:
            start.field_meta = {"hackamore": {"parentToolCallId": parent}}
        return [start]

    def close(self) -> list[Update]:
        """Return the updates that end the calls without a result, for a turn that is over."""
        found = [
            update_tool_call(call, status="failed") for call, name in self._calls.open.items() if name != PLAN_TOOL
        ]
        self._calls.clear()
        self._calls.open.clear()
        return found

    def of(self, message: object) -> Iterator[Update]:
        """Yield the updates of a message."""
        match message:
            case StreamEvent():
                if message.parent_tool_use_id is None:
                    yield from self._piece(message)
            case AssistantMessage():
                yield from self._reply(message)
            case UserMessage():
                yield from self._user(message)
            case ToolProgressMessage() if message.tool_use_id in self._calls.open:
                yield update_tool_call(message.tool_use_id, status="in_progress")
            case LocalCommandOutputMessage():
                yield update_agent_message_text(message.content)
            case CommandsChangedMessage():
                yield commands_update(message.commands)
            case ResultMessage():
                yield from self._usage(message)
            case _:
                pass

    def _piece(self, message: StreamEvent) -> Iterator[Update]:
        if text := message.text_delta:
            self._streamed.add("text")
            yield update_agent_message_text(text)
        elif thought := message.thinking_delta:
            self._streamed.add("thought")
            yield update_agent_thought_text(thought)

    def _reply(self, message: AssistantMessage) -> Iterator[Update]:
        parent = message.parent_tool_use_id
        for block in message.content:
            if isinstance(block, CALLS):
                yield from self.begin(block.id, block.name, block.input, parent)
            elif isinstance(block, RESULTS):
                yield from self._result(block)
            elif parent is not None:
                continue  # the words of a subagent are for the agent that started it
            elif isinstance(block, TextBlock) and block.text:
                if "text" not in self._streamed:
                    yield update_agent_message_text(block.text)
                self._streamed.discard("text")
            elif isinstance(block, ThinkingBlock) and block.thinking:
                if "thought" not in self._streamed:
                    yield update_agent_thought_text(block.thinking)
                self._streamed.discard("thought")
        if parent is None and (usage := message.usage) is not None:
            cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
            self._tokens = usage.input_tokens + cached + usage.output_tokens

    def _user(self, message: UserMessage) -> Iterator[Update]:
        content = message.content
        for block in [] if isinstance(content, str) else content:
            if isinstance(block, RESULTS):
                yield from self._result(block)
        text = message.text
        if self._replay and text and message.parent_tool_use_id is None and typed(text, message.is_synthetic):
            yield update_user_message_text(text)

    def _result(self, block: Any) -> Iterator[Update]:
        name = self._calls.end(block.tool_use_id)
        if name is None or name == PLAN_TOOL:
            return
        kind, failed = _KINDS.get(name, "other"), bool(block.is_error)
        # An edit keeps its diff: new content would replace it.
        content = _content(block, fenced=kind == "execute") if failed or kind != "edit" else None
        yield update_tool_call(block.tool_use_id, status="failed" if failed else "completed", content=content)

    def _usage(self, result: ResultMessage) -> Iterator[Update]:
        size = max((each.context_window for each in result.model_usage.values()), default=0)
        if size:
            cost = None if result.total_cost_usd is None else schema.Cost(amount=result.total_cost_usd, currency="USD")
            yield schema.UsageUpdate(session_update="usage_update", used=max(self._tokens, 0), size=size, cost=cost)


def _content(block: Any, *, fenced: bool) -> list[Any]:
    """Return the result of a tool as content."""
    blocks = block.content if isinstance(block.content, list) else []
    found = []
    for each in blocks:
        source = each.get("source") if isinstance(each, dict) else None
        if isinstance(source, dict) and isinstance(source.get("data"), str) and each.get("type") == "image":
            found.append(tool_content(image_block(source["data"], str(source.get("media_type", "image/png")))))
    text = block.content if isinstance(block.content, str) else "" if found else block.text
    if text and fenced:
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        text = f"{fence}console\n{text.rstrip()}\n{fence}"
    return [tool_content(text_block(text)), *found] if text else found


def usage_of(result: ResultMessage) -> schema.Usage | None:
    """Return the tokens of a turn."""
    usage = result.usage
    if usage is None:
        return None
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return schema.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_read_tokens=read,
        cached_write_tokens=written,
        total_tokens=usage.input_tokens + usage.output_tokens + read + written,
    )
