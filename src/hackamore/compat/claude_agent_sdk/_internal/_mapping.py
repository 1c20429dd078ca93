"""`ClaudeAgentOptions` as `hackamore.Options`: the same flags, fields and variables, and the same callbacks."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import hackamore
from hackamore import Allow, Deny, Limits, Options, PermissionRequest, Timeouts
from hackamore.compat._use import USED
from hackamore.compat.claude_agent_sdk import _shapes as shapes
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions

_CHANGED = (
    "agents can_use_tool debug_stderr extra_args hooks load_timeout_ms max_buffer_size output_format sandbox setting_sources "
    "skills system_prompt"
)
"""Fields that are not passed on as they are; all others mean the same in both."""
_EMPTY_IS_NONE = (
    "cwd fallback_model max_turns model permission_mode permission_prompt_tool_name resume resume_session_at session_id"
)
"""Fields whose empty value sends no flag in the official package."""
_CEILING = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"
_INITIALIZE = "CLAUDE_CODE_STREAM_CLOSE_TIMEOUT"
CONTROL_SECONDS = 60.0


def to_options(options: ClaudeAgentOptions) -> Options:
    """Return the options of the session; raise OptionsError for a value that Hackamore refuses, such as a list that is a str."""
    changed = _CHANGED.split()
    given = {field.name: getattr(options, field.name) for field in fields(options) if field.name not in changed}
    given.update({name: given[name] or None for name in _EMPTY_IS_NONE.split()})
    given["system_prompt"] = "" if options.system_prompt is None else options.system_prompt
    given["extra_args"] = {name: value if value is None else str(value) for name, value in options.extra_args.items()}
    given["timeouts"] = Timeouts(
        initialize=max(_milliseconds(os.environ.get(_INITIALIZE), 0) / 1000, CONTROL_SECONDS),
        control=CONTROL_SECONDS,
        hook=600,  # as in the CLI
        store=options.load_timeout_ms / 1000,
        background=run_end_ceiling_ms(options.env) / 1000 or None,
    )
    given["version_check"] = "skip"  # the official package runs no `claude --version`
    if options.sandbox is not None:
        given["sandbox"] = {"failIfUnavailable": False, **options.sandbox}
    if options.skills is not None:
        given["skills"] = _checked_skills(options.skills)
    sources = options.setting_sources
    given["setting_sources"] = ["user", "project"] if sources is None and options.skills is not None else sources
    if options.agents:
        given["agents"] = {name: _without_none(agent) for name, agent in options.agents.items()}
    if isinstance(options.output_format, Mapping) and options.output_format.get("type") == "json_schema":
        given["output_format"] = options.output_format
    if options.hooks:
        given["hooks"] = {event: list(map(_matcher, matchers)) for event, matchers in options.hooks.items() if matchers}
    if options.can_use_tool is not None:
        given["can_use_tool"] = _permission(options.can_use_tool)
        given["permission_prompt_tool_name"] = None  # `stdio`, which the callback implies
    if options.max_buffer_size is not None:  # a smaller limit would only end the run
        given["limits"] = Limits(line_bytes=max(options.max_buffer_size, Limits().line_bytes))
    return Options(**{**given, **USED.options})


_BAD_SKILLS = (
    (r"[\ud800-\udfff]", "it has a surrogate code point"),
    (r"\A\s|\s\Z", "it begins or ends with whitespace"),
    (r"[(),\x00-\x1f\x7f-\x9f\ufeff]", "parentheses, commas, control characters and byte-order marks are not allowed"),
    (r"\A\*\Z", 'use skills="all" for every skill'),
    (r"[: ]\*\Z", "wildcard-suffix names are not allowed"),
    (r"\A/", "names may not start with '/'"),
    (r"\\\\", "consecutive backslashes are not allowed"),
    (r"\\\Z", "it ends with an unpaired backslash"),
)
"""Names that no skill has, or that would be read as other rules."""


def _checked_skills(skills: Any) -> Any:
    if skills == "all":
        return skills
    if not isinstance(skills, list):
        raise TypeError(f'ClaudeAgentOptions.skills must be a list of skill names or "all", got {skills!r}.')
    for name in skills:
        if not isinstance(name, str):
            raise TypeError(f"Skill names must be strings, got {name!r}.")
        if not name.strip():
            raise ValueError("Skill names must be non-empty strings.")
        reason = next((reason for pattern, reason in _BAD_SKILLS if re.search(pattern, name)), None)
        if reason is not None:
            raise ValueError(f"Invalid skill name {name!r}: {reason}.")
    return skills


def run_end_ceiling_ms(env: Mapping[str, str]) -> int:
    """Return how long background tasks may keep a query open after its result, in milliseconds; 0 is without a limit."""
    return _milliseconds(env[_CEILING] if _CEILING in env else os.environ.get(_CEILING), 600_000)


def _milliseconds(text: Any, default: int) -> int:
    try:
        value = int(text)
    except (TypeError, ValueError):
        return default
    return value if value >= 0 else default


def _without_none(agent: Any) -> dict[str, Any]:
    given = agent if isinstance(agent, Mapping) else vars(agent)
    return {name: value for name, value in given.items() if value is not None}


def _matcher(matcher: Any) -> hackamore.HookMatcher[Any]:
    return hackamore.HookMatcher(
        matcher=getattr(matcher, "matcher", None) or None,
        hooks=list(map(_hook, getattr(matcher, "hooks", ()))),
        timeout=getattr(matcher, "timeout", None),
        on_failure=getattr(matcher, "on_failure", None),
    )


def _named(function: Callable[..., Any], original: Any) -> Callable[..., Any]:
    # Not `functools.wraps`: its annotations would be read as those of a callback of Hackamore.
    function.__name__ = getattr(original, "__name__", type(original).__name__)
    function.__qualname__ = getattr(original, "__qualname__", function.__name__)
    return function


def _hook(callback: Any) -> Any:
    async def hook(input: Any, context: Any) -> Any:  # noqa: A002 - the name that Hackamore calls it by
        output = callback(input.data, context.tool_use_id, {"signal": None})
        return await output if inspect.isawaitable(output) else output

    return _named(hook, callback)


def _permission(callback: Any) -> Any:
    async def can_use_tool(request: PermissionRequest) -> Allow | Deny:
        data = request.data
        more = {name: data.get(name) for name in _CONTEXT_FIELDS.split()}
        suggestions = [shapes.PermissionUpdate.from_dict(update) for update in data.get("permission_suggestions") or []]
        context = shapes.ToolPermissionContext(signal=None, suggestions=suggestions, **more)
        result = callback(data["tool_name"], data["input"], context)
        return _permission_answer(await result if inspect.isawaitable(result) else result)

    return _named(can_use_tool, callback)


_CONTEXT_FIELDS = "tool_use_id agent_id blocked_path decision_reason title display_name description"


def _permission_answer(result: Any) -> Allow | Deny:
    if isinstance(result, shapes.PermissionResultAllow):
        updates = [update.to_dict() for update in result.updated_permissions or ()]
        return Allow(updated_input=result.updated_input, updated_permissions=updates)
    if isinstance(result, shapes.PermissionResultDeny):
        return Deny(result.message, interrupt=bool(result.interrupt))
    raise TypeError(
        f"Tool permission callback must return PermissionResultAllow or PermissionResultDeny, got {type(result)}"
    )
