"""Turns a hook's answer into what the CLI reads, and says what the CLI would not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.checked.fields import suggestion
from bridle.checked.functions import AnswerError, json_copy, object_bytes
from bridle.errors import StreamWarning, printable
from bridle.hooks.decode import HOOK_EVENTS
from bridle.hooks.outputs import HookOutput
from bridle.permissions.results import Allow, Deny, decision_wire

if TYPE_CHECKING:
    from bridle.hooks.matchers import OnFailure

__all__ = ["HookOutputError"]

_PERMISSION = "permission_decision permission_decision_reason"
_RENAMED = {"continue_": "continue", "permission": "decision", "updated_mcp_tool_output": "updatedMCPToolOutput"}


def _fields(names: str) -> dict[str, str]:
    """Return the names on the wire of fields of `HookOutput`."""
    return {name: _RENAMED.get(name) or re.sub("_(.)", lambda found: found[1].upper(), name) for name in names.split()}


SPECIFIC_FIELDS: dict[str, dict[str, str]] = {
    "PreToolUse": _fields(f"{_PERMISSION} updated_input additional_context"),
    "PostToolUse": _fields("additional_context classifier_context updated_tool_output updated_mcp_tool_output"),
    "PostToolUseFailure": _fields("additional_context"),
    "PostToolBatch": _fields("additional_context"),
    "Notification": _fields("additional_context"),
    "UserPromptSubmit": _fields("additional_context session_title suppress_original_prompt"),
    "UserPromptExpansion": _fields("additional_context suppress_original_prompt"),
    "SessionStart": _fields("additional_context initial_user_message session_title watch_paths reload_skills"),
    "Setup": _fields("additional_context"),
    "Stop": _fields("additional_context"),
    "SubagentStart": _fields("additional_context"),
    "SubagentStop": _fields("additional_context"),
    "PreModelSwitch": _fields(_PERMISSION),
    "PostModelSwitch": _fields("additional_context"),
    "PermissionRequest": _fields("permission"),
    "PermissionDenied": _fields("retry"),
    "Elicitation": _fields("action content"),
    "ElicitationResult": _fields("action content"),
    "WorktreeCreate": _fields("worktree_path"),
    "CwdChanged": _fields("watch_paths"),
    "FileChanged": _fields("watch_paths"),
    "MessageDisplay": _fields("display_content"),
}
"""The fields of `hookSpecificOutput`, ours and the CLI's, for each event that has one."""

_COMMON = _fields("continue_ stop_reason decision reason system_message suppress_output terminal_sequence")
_ASYNC = {"async", "asyncTimeout"}
_SPELLINGS = {"continue_": "continue", "async_": "async"}

_BOOLEANS = frozenset(["continue", "suppressOutput", "suppressOriginalPrompt", "reloadSkills", "retry", "async"])
_OBJECTS = frozenset(("updatedInput", "content"))
_ANYTHING = frozenset(("updatedToolOutput", "updatedMCPToolOutput"))
_CHOICES = {
    "decision": ("approve", "block"),
    "permissionDecision": ("allow", "deny", "ask", "defer"),
    "action": ("accept", "decline", "cancel"),
}
_DECISIONS = {"PreModelSwitch": ("allow", "deny", "ask"), "PermissionRequest": ("allow", "deny")}


class HookOutputError(AnswerError):
    """A hook's answer cannot be sent. Never reaches users: `on_failure` decides, and a warning tells."""


class EncodedHookOutput(NamedTuple):
    """An answer for the wire.

    Attributes:
        wire: the answer, for msgspec to encode.
        warnings: what was left out, or would not be understood.
    """

    wire: dict[str, Any]
    warnings: list[StreamWarning]


def encode_hook_output(output: object, event: str) -> EncodedHookOutput:
    """Return a hook's answer as the CLI spells it.

    Args:
        output: a `HookOutput`, a dict with the CLI's names, or None to go on.
        event: the event that was asked about.

    Raises:
        HookOutputError: it is something else, has a value of the wrong type, or JSON cannot hold it.
    """
    warnings: list[StreamWarning] = []
    try:
        if output is None:
            wire: dict[str, Any] = {}
        elif isinstance(output, HookOutput):
            wire = _encode_output(output, event, warnings)
        elif isinstance(output, Mapping):
            wire = _encode_mapping(output, event, warnings)
        else:
            raise AnswerError(f"a hook must return a HookOutput, a dict or None, not {type(output).__name__}")
    except AnswerError as error:
        raise HookOutputError(f"The answer of a {event} hook cannot be sent: {error}.", error.path) from None
    return EncodedHookOutput(wire, warnings)


def _warn(warnings: list[StreamWarning], event: str, field: str, reason: str) -> None:
    context = {"field": field, "type": event, "reason": reason}
    text = printable(f"in the answer of a {event} hook, `{field}` {reason}", 500)
    warnings.append(StreamWarning("FIELD_DROPPED", text, context))


def _encode_output(output: HookOutput, event: str, warnings: list[StreamWarning]) -> dict[str, Any]:
    given = {name: value for name in output.__struct_fields__ if (value := getattr(output, name)) is not None}
    if given.pop("asynchronous", None):
        return _encode_async(given, event, warnings)
    if "async_timeout" in given:
        del given["async_timeout"]
        _warn(warnings, event, "async_timeout", "was left out: the answer is not asynchronous")
    _as_permission(given, event, warnings)
    specific_names = SPECIFIC_FIELDS.get(event)
    if specific_names is None and event not in HOOK_EVENTS:
        # An event that this version does not know: the field's usual name is the best guess.
        specific_names = {ours: wire for fields in SPECIFIC_FIELDS.values() for ours, wire in fields.items()}
    wire: dict[str, Any] = {}
    specific: dict[str, Any] = {}
    for name, value in given.items():
        if name in _COMMON:
            wire[_COMMON[name]] = _checked(_COMMON[name], value, name)
        elif specific_names and name in specific_names:
            specific[specific_names[name]] = _checked(specific_names[name], value, name)
        else:
            _warn(warnings, event, name, f"was left out: {event} has no use for it{_hint(name)}")
    _check_decision(specific, event, "permission_decision", warnings)
    if specific:
        wire["hookSpecificOutput"] = {"hookEventName": event, **specific}
    return wire


def _encode_async(given: dict[str, Any], event: str, warnings: list[StreamWarning]) -> dict[str, Any]:
    wire: dict[str, Any] = {"async": True}
    timeout = given.pop("async_timeout", None)
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
            raise AnswerError("`async_timeout` must be a number of seconds, more than 0", "async_timeout")
        wire["asyncTimeout"] = max(1, round(timeout * 1000))
    for name in given:
        _warn(warnings, event, name, "was left out: an asynchronous answer decides nothing")
    return wire


def _as_permission(given: dict[str, Any], event: str, warnings: list[StreamWarning]) -> None:
    """At PermissionRequest, `allow()` and `deny()` are the answer to the question."""
    if event != "PermissionRequest" or "permission_decision" not in given:
        return
    decision = given.pop("permission_decision")
    reason = given.pop("permission_decision_reason", None)
    if "permission" in given:
        _warn(warnings, event, "permission_decision", "was left out: `permission` says it already")
    elif decision == "allow":
        given["permission"] = Allow()
    elif decision == "deny":
        given["permission"] = Deny(_checked("reason", "" if reason is None else reason, "permission_decision_reason"))
    elif decision in _CHOICES["permissionDecision"]:
        _warn(warnings, event, "permission_decision", f"was left out: {event} does not take {decision!r}")
    else:
        _checked("permissionDecision", decision, "permission_decision")


def _check_decision(specific: dict[str, Any], event: str, path: str, warnings: list[StreamWarning]) -> None:
    allowed = _DECISIONS.get(event)
    if allowed is not None and specific.get("permissionDecision", allowed[0]) not in allowed:
        _warn(warnings, event, path, f"was left out: {event} does not take {specific.pop('permissionDecision')!r}")
        specific.pop("permissionDecisionReason", None)


def _hint(name: str) -> str:
    return "; HookOutput.block(reason) blocks" if name == "permission_decision" else ""


def _checked(wire_name: str, value: Any, path: str) -> Any:
    """Return a copy of the value if it is what the CLI takes under that name."""
    if wire_name == "decision" and isinstance(value, (Allow, Deny)):
        return decision_wire(value, path)
    if path == "permission":
        raise AnswerError(f"`{path}` must be Allow or Deny, not {type(value).__name__}", path)
    if wire_name in _ANYTHING:
        return json_copy(value, path)
    if wire_name in _BOOLEANS:
        if not isinstance(value, bool):
            raise AnswerError(f"`{path}` must be True or False, not {type(value).__name__}", path)
        return value
    if wire_name in _OBJECTS:
        return object_bytes(value, path)
    if wire_name == "watchPaths":
        if not isinstance(value, (list, tuple)) or not all(isinstance(part, str) for part in value):
            raise AnswerError(f"`{path}` must be a list of str", path)
        return json_copy(value, path)
    if not isinstance(value, str):
        raise AnswerError(f"`{path}` must be a str, not {type(value).__name__}", path)
    choices = _CHOICES.get(wire_name)
    if choices is not None and value not in choices:
        raise AnswerError(f"`{path}` must be one of {', '.join(map(repr, choices))}", path)
    return json_copy(value, path)


def _encode_mapping(output: Mapping[Any, Any], event: str, warnings: list[StreamWarning]) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    known = {*_COMMON.values(), *_ASYNC, "hookSpecificOutput"}
    for key, value in output.items():
        if not isinstance(key, str):
            raise AnswerError(f"a key is a {type(key).__name__}; JSON has only str")
        name = _SPELLINGS.get(key, key)
        if value is None and name in known:
            continue
        if name == "hookSpecificOutput":
            specific = _encode_specific(value, event, warnings)
            if specific:
                wire[name] = specific
        elif name == "asyncTimeout":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise AnswerError(f"`{key}` must be a number of milliseconds", key)
            wire[name] = json_copy(value, key)
        elif name in known:
            wire[name] = _checked(name, value, key)
        else:
            _warn(warnings, event, key, f"is sent, but the CLI is not known to read it{_place(key, event, known)}")
            wire.update(json_copy({key: value}, "output"))
    return wire


def _place(key: str, event: str, known: set[str]) -> str:
    if any(key in fields.values() for fields in SPECIFIC_FIELDS.values()):
        return "; it belongs into `hookSpecificOutput`"
    ours = {**_COMMON, **SPECIFIC_FIELDS.get(event, {})}
    if key in ours:
        return f"; in a dict it is `{ours[key]}`"
    return suggestion(key, sorted(known)).replace(" Did", ". Did")


def _encode_specific(value: Any, event: str, warnings: list[StreamWarning]) -> dict[str, Any] | None:
    path = "hookSpecificOutput"
    if not isinstance(value, Mapping):
        raise AnswerError(f"`{path}` must be a dict, not {type(value).__name__}", path)
    if event in HOOK_EVENTS and event not in SPECIFIC_FIELDS:
        _warn(warnings, event, path, f"was left out: {event} has none")
        return None
    named = value.get("hookEventName", event)
    if named != event:
        # The CLI would refuse the whole answer, a denial in it included.
        raise AnswerError(f"`{path}.hookEventName` must be {event!r}", f"{path}.hookEventName")
    wire: dict[str, Any] = {"hookEventName": event}
    fields = SPECIFIC_FIELDS.get(event)
    for key, part in value.items():
        where = f"{path}.{key}"
        if key == "hookEventName" or part is None:
            continue
        if fields is None:
            wire.update(json_copy({key: part}, path))
        elif key not in fields.values():
            hint = suggestion(key, sorted(fields.values())) if isinstance(key, str) else ""
            _warn(warnings, event, where, f"is sent, but the CLI is not known to read it.{hint}")
            wire.update(json_copy({key: part}, path))
        elif event == "PermissionRequest":
            wire[key] = _decision(part, where)
        else:
            wire[key] = _checked(key, part, where)
    _check_decision(wire, event, f"{path}.permissionDecision", warnings)
    return wire


def _decision(value: Any, path: str) -> Any:
    if isinstance(value, (Allow, Deny)):
        return decision_wire(value, path)
    if not isinstance(value, Mapping) or value.get("behavior") not in _DECISIONS["PermissionRequest"]:
        raise AnswerError(f"`{path}` must be Allow, Deny, or a dict with `behavior` 'allow' or 'deny'", path)
    return json_copy(value, path)


_CANNOT_BLOCK = frozenset(("Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"))


def fail_output(on_failure: OnFailure | None, event: str, reason: str = "") -> dict[str, Any]:
    """Return the answer for a hook that failed; it can always be sent.

    Args:
        on_failure: `block` fails closed, everything else open.
        event: the event. At Stop, SubagentStop, TaskCompleted and TeammateIdle to block would be to work on for ever:
            there it fails open, as the CLI does.
        reason: what happened; the model or the user may read it.
    """
    if on_failure != "block" or event in _CANNOT_BLOCK:
        return {}
    text = printable(str(reason)) or "A hook failed."
    specific: dict[str, Any] | None = None
    if event in ("PreToolUse", "PreModelSwitch"):
        specific = {"permissionDecision": "deny", "permissionDecisionReason": text}
    elif event == "PermissionRequest":
        specific = {"decision": {"behavior": "deny", "message": text}}
    elif event in ("Elicitation", "ElicitationResult"):
        specific = {"action": "decline"}
    if specific is not None:
        return {"hookSpecificOutput": {"hookEventName": event, **specific}}
    return {"decision": "block", "reason": text}
