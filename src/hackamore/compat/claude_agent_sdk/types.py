"""The module `types` of the official package: its shapes, and the checks of `can_use_tool`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from hackamore.compat.claude_agent_sdk._shapes import *  # noqa: F403
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions, HookEvent, HookMatcher, PermissionMode


class CanUseToolShadowedWarning(UserWarning):
    """An option allows calls before `can_use_tool` is called for them."""


def _whole_tool_allowed(entry: str) -> str | None:
    """Return the tool that an entry of `allowed_tools` allows without a condition; None if it allows no whole tool."""
    name, parenthesis, rest = entry.partition("(")
    if not entry.strip() or (not name and parenthesis) or (parenthesis and not rest.endswith(")")):
        return None
    return name if rest.removesuffix(")") in ("", "*") else None


def _get_can_use_tool_shadowed_warning(permission_mode: PermissionMode | None, allowed_tools: list[str]) -> str | None:
    if permission_mode == "bypassPermissions":
        return "can_use_tool will not be invoked: permission_mode 'bypassPermissions' allows all calls. Use a PreToolUse hook."
    names = list(dict.fromkeys(tool for tool in map(_whole_tool_allowed, allowed_tools) if tool is not None))
    if not names:
        return None
    text = "An entry of allowed_tools allows the whole tool, as rules of settings files may. A PreToolUse hook sees all calls."
    return f"can_use_tool will not be invoked for: {', '.join(names)}. {text}"


def _warn_if_can_use_tool_shadowed(options: ClaudeAgentOptions) -> None:
    if options.can_use_tool is None:
        return
    skill = ["Skill"] if options.skills == "all" and "Skill" not in options.allowed_tools else []
    text = _get_can_use_tool_shadowed_warning(options.permission_mode, [*options.allowed_tools, *skill])
    if text is not None:
        warnings.warn(text, CanUseToolShadowedWarning, stacklevel=2)


def _configure_can_use_tool(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
    if not options.can_use_tool:
        return options
    if options.permission_prompt_tool_name:
        raise ValueError("can_use_tool callback cannot be used with permission_prompt_tool_name. Set one of the two.")
    _warn_if_can_use_tool_shadowed(options)
    return replace(options, permission_prompt_tool_name="stdio")


def _hooks_to_internal_format(hooks: dict[HookEvent, list[HookMatcher]]) -> dict[str, list[dict[str, Any]]]:
    def given(matcher: HookMatcher) -> dict[str, Any]:
        return {name: value for name, value in vars(matcher).items() if value is not None or name == "matcher"}

    return {event: list(map(given, matchers)) for event, matchers in hooks.items()}
