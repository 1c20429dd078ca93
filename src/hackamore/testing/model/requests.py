"""Requests of the CLI to the model, and the part of the CLI that sent each.

The main loop, subagents, compaction and helpers (titles, side questions, hooks that ask a model) post to the same
address. With `CLAUDE_CODE_GATEWAY_HINT_HEADERS=1`, which `ScriptedModel.env` sets, CLI 2.1.328 says in
`x-claude-code-request-class` which one it is. Without that header (an older CLI, or another environment)
the shape of the request tells; both ways are tested against the real CLI. This module is pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hackamore.testing.shortening import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RequestKind: TypeAlias = Literal["main", "subagent", "compaction", "side", "count_tokens", "probe"]
"""The sender of a request: the main loop, a subagent, a compaction, a helper of the CLI, a token count, anything else."""

SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})

_KIND_BY_CLASS: dict[str, RequestKind] = {
    "main": "main",
    "subagent": "subagent",
    "workflow": "subagent",
    "compaction": "compaction",
    "auxiliary": "side",
    "side_reply": "side",
}
_KEPT_PICTURE = "[Image: source: "
"""How a text of the CLI begins that tells where it keeps a picture of the prompt."""
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_COMPACTION_MARKS = ("summary of the conversation", "<summary>")
_SIDE_MARKS = ("<system-reminder>This is a side question", "[SUGGESTION MODE")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool, for the model.

    Attributes:
        tool_use_id: the call that it answers.
        text: its text, blocks joined with newlines.
        is_error: True if the tool failed or was refused.
        content: the content as it was sent, images included.
    """

    tool_use_id: str
    text: str
    is_error: bool
    content: Any


@dataclass(frozen=True)
class ModelRequest:
    """One request of the CLI to the model.

    Attributes:
        number: 1 for the first request of the script, of any kind.
        kind: the sender.
        method: the HTTP method.
        path: the path with its query.
        headers: lower-case names; those that carry secrets are left out.
        body: the JSON body; empty if there was none.
    """

    number: int
    kind: RequestKind
    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        """True if the answer is to be streamed."""
        return self.body.get("stream") is True

    @property
    def session_id(self) -> str | None:
        """The session's id."""
        return self.headers.get("x-claude-code-session-id")

    @property
    def agent_id(self) -> str | None:
        """The subagent's id, None outside subagents."""
        return self.headers.get("x-claude-code-agent-id")

    @property
    def agent_type(self) -> str | None:
        """The subagent's type, if the CLI told it."""
        return self.headers.get("x-claude-code-agent-type")

    @cached_property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The conversation as it was sent."""
        return tuple(message for message in self.body.get("messages", ()) if isinstance(message, dict))

    @cached_property
    def system_text(self) -> str:
        """The system prompt, its blocks joined with newlines."""
        return "\n".join(_texts(self.body.get("system", "")))

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call."""
        return tuple(str(tool.get("name", "")) for tool in self.body.get("tools", ()) if isinstance(tool, dict))

    @cached_property
    def prompts(self) -> tuple[str, ...]:
        """Every text that was said to the model as a user, oldest first, without the CLI's reminder blocks."""
        found: list[str] = []
        for message in self.messages:
            if message.get("role") == "user":
                texts = (_REMINDER.sub("", text).strip() for text in _texts(message.get("content", "")))
                found.extend(text for text in texts if text)
        return tuple(found)

    @property
    def prompt_text(self) -> str:
        """The newest text that was said to the model as a user, without the CLI's reminder blocks."""
        return self.prompts[-1] if self.prompts else ""

    @cached_property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results since the model's last answer."""
        return tuple(
            ToolResult(
                tool_use_id=str(block.get("tool_use_id", "")),
                text="\n".join(_texts(block.get("content", ""))),
                is_error=block.get("is_error") is True,
                content=block.get("content", ""),
            )
            for message in self._newest()
            for block in _blocks(message.get("content", ""))
            if block.get("type") == "tool_result"
        )

    @cached_property
    def newest_text(self) -> str:
        """All text since the model's last answer: prompt, tool results and reminders."""
        return "\n".join(
            text
            for message in self._newest()
            for block in _blocks(message.get("content", ""))
            for text in _texts(block.get("content", "") if block.get("type") == "tool_result" else [block])
        )

    @cached_property
    def text(self) -> str:
        """The whole body as JSON text, for assertions on anything that is somewhere in it."""
        return json.dumps(self.body, ensure_ascii=False)

    def describe(self) -> str:
        """Return one line for error messages: kind, prompt, tool results.

        Returns:
            The line.
        """
        parts = [f"#{self.number} {self.kind}"]
        if self.kind == "probe":
            parts.append(f"{self.method} {self.path}")
        if self.agent_id:
            parts.append(f"agent {self.agent_type or self.agent_id}, prompted {shorten(self.first_prompt)!r}")
        elif self.prompts:
            parts.append(f"prompt {shorten(self.prompt_text)!r}")
        parts.extend(
            f"{'failed ' if result.is_error else ''}tool result {shorten(result.text)!r}"
            for result in self.tool_results
        )
        return ", ".join(parts)

    @property
    def first_prompt(self) -> str:
        """The oldest text that was said to the model as a user: for a subagent, its task."""
        return self.prompts[0] if self.prompts else ""

    @property
    def whole_prompt(self) -> str:
        """The text that was said since the model's last answer, its blocks joined with newlines; `[image]` stands for a picture."""
        parts: list[str] = []
        for message in self._newest():
            for block in _blocks(message.get("content", "")) if message.get("role") == "user" else ():
                kind = block.get("type")
                if kind == "text":
                    text = _REMINDER.sub("", str(block.get("text", ""))).strip()
                    parts += [text] if text and not text.startswith(_KEPT_PICTURE) else []
                elif kind != "tool_result":
                    parts.append(f"[{kind}]")
        return "\n".join(parts)

    def _newest(self) -> list[Mapping[str, Any]]:
        newest: list[Mapping[str, Any]] = []
        for message in reversed(self.messages):
            if message.get("role") == "assistant":
                break
            newest.append(message)
        return newest[::-1]


def classify(method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> RequestKind:
    """Return who asks; the header decides if the CLI sends it, else the request's shape."""
    address = path.partition("?")[0].rstrip("/")
    if method != "POST" or not address.endswith(("/v1/messages", "/v1/messages/count_tokens")):
        return "probe"
    if address.endswith("count_tokens"):
        return "count_tokens"
    told = _KIND_BY_CLASS.get(headers.get("x-claude-code-request-class", ""))
    return told or _kind_by_shape(headers, body)


def _kind_by_shape(headers: Mapping[str, str], body: Mapping[str, Any]) -> RequestKind:
    probe = ModelRequest(0, "main", "POST", "", headers, body)
    # Messages with the role "system" are notes of the CLI, and may stand at the end.
    said = [message for message in probe.messages if message.get("role") != "system"]
    last_texts = list(_texts(said[-1].get("content", ""))) if said else []
    if last_texts and all(mark in last_texts[-1] for mark in _COMPACTION_MARKS):
        return "compaction"
    if body.get("max_tokens") == 1 or any(text.startswith(_SIDE_MARKS) for text in last_texts):
        return "side"
    # Titles, hooks that ask a model. The main loop always has tools: structured output is one.
    if not probe.tools and _schema(body):
        return "side"
    if "x-claude-code-agent-id" in headers or "cc_is_subagent=true" in probe.system_text[:500]:
        return "subagent"
    return "main"


def side_answer(request: ModelRequest) -> str:
    """Return a text that satisfies the CLI's helpers: an instance of the requested schema, else `OK`."""
    schema = _schema(request.body)
    return json.dumps(_instance(schema)) if schema else "OK"


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any]:
    match body:
        case {"output_config": {"format": {"schema": dict(schema)}}} | {"output_format": {"schema": dict(schema)}}:
            return schema
        case _:
            return {}


def _instance(schema: Mapping[str, Any]) -> Any:
    match schema:
        case {"enum": [first, *_]} | {"const": first}:
            return first
        case {"anyOf": [dict(first), *_]} | {"oneOf": [dict(first), *_]}:
            return _instance(first)
        case {"type": "object"}:
            properties = schema.get("properties", {})
            return {name: _instance(properties.get(name, {})) for name in schema.get("required", properties)}
        case {"type": "array"}:
            return []
        case {"type": "boolean"}:
            return True
        case {"type": "integer" | "number"}:
            return schema.get("minimum", 0)
        case {"type": "null"}:
            return None
        case _:
            return "scripted"


def _blocks(content: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _texts(content: object) -> Iterator[str]:
    for block in _blocks(content):
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]
