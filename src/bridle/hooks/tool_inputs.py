"""Inputs of the events around tools and permissions."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from bridle.hooks.base import HookInput
from bridle.messages.base import NO_RAW, Number, Record, plain
from bridle.messages.lazy import computed_once, decoded_once
from bridle.permissions.requests import McpServerProvenance  # noqa: TC001 - msgspec reads it
from bridle.permissions.updates import PermissionUpdate, decode_updates

__all__ = [
    "PermissionDeniedHookInput",
    "PermissionRequestHookInput",
    "PostToolBatchHookInput",
    "PostToolBatchToolCall",
    "PostToolUseFailureHookInput",
    "PostToolUseHookInput",
    "PreToolUseHookInput",
]


class PostToolBatchToolCall(Record, frozen=True, kw_only=True, dict=True, gc=True):
    """One call of a batch.

    Attributes:
        tool_name: the tool.
        tool_use_id: the call.
        tool_input_raw: the exact bytes of the tool's input.
        tool_response_raw: the exact bytes of its result.
    """

    tool_name: str = ""
    tool_use_id: str = ""
    tool_input_raw: Raw = msgspec.field(default=NO_RAW, name="tool_input")
    tool_response_raw: Raw = msgspec.field(default=NO_RAW, name="tool_response")

    @decoded_once
    def tool_input(self) -> Any:
        """The tool's input, whatever shape it has."""
        return plain(self.tool_input_raw) if self.tool_input_raw else None

    @decoded_once
    def tool_response(self) -> Any:
        """The tool's result, whatever shape it has; None without one."""
        return plain(self.tool_response_raw) if self.tool_response_raw else None


class _OfTool(HookInput, frozen=True, kw_only=True):
    tool_name: str = ""
    mcp_server: McpServerProvenance | None = None
    tool_input_raw: Raw = msgspec.field(default=NO_RAW, name="tool_input")

    @decoded_once
    def tool_input(self) -> Any:
        """The tool's input, whatever shape it has."""
        return plain(self.tool_input_raw) if self.tool_input_raw else None


class PreToolUseHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool is about to run.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
    """

    tool_use_id: str = ""


class PostToolUseHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool has run.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        tool_response_raw: the exact bytes of its result.
        duration_ms: how long it took, in milliseconds.
    """

    tool_use_id: str = ""
    tool_response_raw: Raw = msgspec.field(default=NO_RAW, name="tool_response")
    duration_ms: Number | None = None

    @decoded_once
    def tool_response(self) -> Any:
        """The tool's result, whatever shape it has."""
        return plain(self.tool_response_raw) if self.tool_response_raw else None


class PostToolUseFailureHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool has failed.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        error: what it said.
        is_interrupt: True if it was interrupted.
        duration_ms: how long it took, in milliseconds.
    """

    tool_use_id: str = ""
    error: str = ""
    is_interrupt: bool | None = None
    duration_ms: Number | None = None


class PostToolBatchHookInput(HookInput, frozen=True, kw_only=True):
    """All tools that the model called at once are done.

    Attributes:
        tool_calls: the calls.
    """

    tool_calls: list[PostToolBatchToolCall] = msgspec.field(default_factory=list)


class PermissionRequestHookInput(_OfTool, frozen=True, kw_only=True):
    """The user is about to be asked whether a tool may run.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        suggestions_raw: the exact bytes of the suggested updates.
    """

    suggestions_raw: Raw = msgspec.field(default=NO_RAW, name="permission_suggestions")

    @computed_once
    def permission_suggestions(self) -> tuple[PermissionUpdate, ...]:
        """What would be offered as "do not ask again"."""
        return decode_updates(self.suggestions_raw) if self.suggestions_raw else ()


class PermissionDeniedHookInput(_OfTool, frozen=True, kw_only=True):
    """A tool was denied.

    Attributes:
        tool_name: the tool; `mcp__<server>__<tool>` for a tool of a server.
        tool_use_id: the call.
        mcp_server: where the tool comes from, if a server has it.
        tool_input_raw: the exact bytes of the tool's input.
        reason: why.
    """

    tool_use_id: str = ""
    reason: str = ""
