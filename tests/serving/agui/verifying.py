"""A verifier of streams of AG-UI: each event by the models of `ag_ui.core`, and their order by the rules of `@ag-ui/client`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ag_ui.core import Event
from pydantic import TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OPENS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("thoughts", "messageId"),
    "REASONING_MESSAGE_START": ("thought", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
_USES = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("thought", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
_CLOSES = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_END": ("thoughts", "messageId"),
    "REASONING_MESSAGE_END": ("thought", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}


class Run:
    """What a client knows after a stream.

    Attributes:
        events: the events.
        texts: the texts by message.
        thoughts: the thoughts by message.
        arguments: the arguments by call.
        results: the results by call.
        owners: the subagent of each message and call; None for the main conversation.
    """

    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        self.events = list(events)
        self.texts: dict[str, str] = {}
        self.thoughts: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.owners: dict[str, str | None] = {}
        open_ones: set[tuple[str, str]] = set()
        closed_agents: set[str] = set()
        for place, event in enumerate(self.events):
            kind, where = event["type"], f"event {place}: {event}"
            checked = _EVENT.validate_python(event)
            assert set(event) <= {field.alias or name for name, field in type(checked).model_fields.items()}, where
            assert None not in event.values() or kind == "CUSTOM", where
            assert (kind == "RUN_STARTED") == (place == 0), where
            assert (kind in ("RUN_FINISHED", "RUN_ERROR")) == (place == len(self.events) - 1), where
            tag = event.get("subagentRunId")
            for table, opens, closes in ((_OPENS, True, False), (_USES, False, False), (_CLOSES, False, True)):
                if kind in table:
                    group, field = table[kind]
                    thing = (group, event[field])
                    assert (thing in open_ones) != opens, where
                    if opens:
                        open_ones.add(thing)
                        if group == "subagent":
                            assert event[field] not in closed_agents, where
                            assert event.get("parentSubagentRunId", tag) in {tag, *self.agents, *closed_agents}, where
                        else:
                            self.owners.setdefault(event[field], tag)
                    elif group != "subagent":
                        assert self.owners[event[field]] == tag, where
                    if closes:
                        open_ones.discard(thing)
                        if group == "subagent":
                            closed_agents.add(event[field])
                            inside = {
                                each for each in open_ones if self.owners.get(each[1]) == tag and each[0] != "subagent"
                            }
                            assert not inside, where
            if kind.endswith("_CONTENT"):
                texts = self.texts if kind.startswith("TEXT") else self.thoughts
                assert event["delta"], where
                texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
            elif kind == "TOOL_CALL_START":
                self.names[event["toolCallId"]] = event["toolCallName"]
            elif kind == "TOOL_CALL_ARGS":
                self.arguments[event["toolCallId"]] = self.arguments.get(event["toolCallId"], "") + event["delta"]
            elif kind == "TOOL_CALL_RESULT":
                self.results[event["toolCallId"]] = event["content"]
            elif kind == "RUN_FINISHED":
                assert not open_ones, where

    @property
    def agents(self) -> list[str]:
        """The subagents that have started."""
        return [event["subagentRunId"] for event in self.events if event["type"] == "SUBAGENT_STARTED"]

    @property
    def text(self) -> str:
        """All texts of the main conversation."""
        return "".join(text for name, text in self.texts.items() if self.owners[name] is None)

    @property
    def end(self) -> dict[str, Any]:
        """The last event."""
        return self.events[-1]

    @property
    def outcome(self) -> dict[str, Any]:
        """The outcome of a run that did not fail."""
        assert self.end["type"] == "RUN_FINISHED", self.end
        found: dict[str, Any] = self.end["outcome"]
        return found

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a type."""
        return [event for event in self.events if event["type"] == kind]


def frames(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Return the events of a stream with their numbers; comments are left out."""
    found = []
    for frame in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append((int(fields.get("id", 0)), json.loads(fields["data"])))
    return found
