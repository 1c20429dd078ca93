"""Answers of hooks, how the CLI reads them, and the parts that it would not read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypedDict

import msgspec

from hackamore.checked.fields import suggestion
from hackamore.checked.functions import Answer, AnswerError, json_copy, object_bytes
from hackamore.errors import StreamWarning, escape_terminal
from hackamore.hooks.inputs import HOOK_EVENTS
from hackamore.permissions import Allow, Deny, decision_wire

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["HookOutput", "HookOutputError"]

OnFailure: TypeAlias = Literal["continue", "block"]


class _More(TypedDict, total=False):
    """Further fields of every constructor."""

    continue_: bool | None
    stop_reason: str | None
    decision: Literal["approve", "block"] | None
    system_message: str | None
    suppress_output: bool | None
    terminal_sequence: str | None
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None
    permission_decision_reason: str | None
    updated_input: Mapping[str, Any] | None
    additional_context: str | None
    classifier_context: str | None
    updated_tool_output: Any
    updated_mcp_tool_output: Any
    permission: Allow | Deny | None
    retry: bool | None
    session_title: str | None
    initial_user_message: str | None
    suppress_original_prompt: bool | None
    watch_paths: Sequence[str] | None
    reload_skills: bool | None
    action: Literal["accept", "decline", "cancel"] | None
    content: Mapping[str, Any] | None
    worktree_path: str | None
    display_content: str | None


class _All(_More, total=False):
    """All fields."""

    reason: str | None
    asynchronous: bool | None
    async_timeout: float | None


def _with(own: dict[str, Any], more: Any) -> dict[str, Any]:
    return {**own, **more}


class HookOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a hook. Make one with a constructor; each takes further fields as keywords.

    A field that an event has no use for is left out, with a warning.

    Attributes:
        continue_: False ends the turn. At PreToolUse and PermissionRequest it also denies the tool, unless another field decides.
        stop_reason: why; the user reads it.
        decision: `block` keeps what is about to happen from trigger, or sends the model back to work.
        reason: why; the model reads it.
        system_message: shown to the user.
        suppress_output: True hides the hook's output.
        terminal_sequence: an escape sequence for the user's terminal.
        asynchronous: True lets the CLI continue immediately.
        async_timeout: seconds that the hook may run in the background.
        permission_decision: `allow`, `deny`, `ask` or `defer`. Of PreToolUse; PreModelSwitch has no `defer`, and
            PermissionRequest only `allow` and `deny`.
        permission_decision_reason: why.
        updated_input: the input the tool gets instead. Of PreToolUse; allows nothing by itself.
        additional_context: text that the model gets.
        classifier_context: a note for the classifier of mode `auto`. Of PostToolUse.
        updated_tool_output: the result the model gets instead. Of PostToolUse.
        updated_mcp_tool_output: the older form of it, for tools of servers.
        permission: the answer to the question. Of PermissionRequest.
        retry: True lets the model try again. Of PermissionDenied.
        session_title: the session's new title. Of SessionStart and UserPromptSubmit.
        initial_user_message: the first prompt. Of SessionStart.
        suppress_original_prompt: True keeps the prompt from the model. Of UserPromptSubmit and UserPromptExpansion.
        watch_paths: files to watch. Of SessionStart, CwdChanged and FileChanged.
        reload_skills: True loads the skills again. Of SessionStart.
        action: the answer to a server. Of Elicitation and ElicitationResult.
        content: the form's values, of the same.
        worktree_path: the folder that was made. Of WorktreeCreate, which needs it.
        display_content: the text that is shown instead. Of MessageDisplay.
    """

    continue_: bool | None = None
    stop_reason: str | None = None
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    system_message: str | None = None
    suppress_output: bool | None = None
    terminal_sequence: str | None = None
    asynchronous: bool | None = None
    async_timeout: float | None = None
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: Mapping[str, Any] | None = None
    additional_context: str | None = None
    classifier_context: str | None = None
    updated_tool_output: Any = None
    updated_mcp_tool_output: Any = None
    permission: Any = None
    retry: bool | None = None
    session_title: str | None = None
    initial_user_message: str | None = None
    suppress_original_prompt: bool | None = None
    watch_paths: Sequence[str] | None = None
    reload_skills: bool | None = None
    action: Literal["accept", "decline", "cancel"] | None = None
    content: Mapping[str, Any] | None = None
    worktree_path: str | None = None
    display_content: str | None = None

    def to_wire(self, event: str) -> dict[str, Any]:
        """Return the output as the CLI reads it from a hook of an event, without the fields that the event has no use for.

        Args:
            event: the hook event, such as `PreToolUse`.

        Returns:
            A dict that JSON can represent.

        Raises:
            ValueError: a value has the wrong type, or JSON cannot represent it.
        """
        wire: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(encode_hook_output(self, event).wire))
        return wire

    def replace(self, **changes: Unpack[_All]) -> Self:
        """Return a copy with some fields replaced.

        Args:
            changes: new values of fields, by name.

        Returns:
            The copy.
        """
        return msgspec.structs.replace(self, **changes)

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in self.__struct_fields__ if (value := getattr(self, name)) is not None]
        return f"HookOutput({', '.join(given)})"

    @classmethod
    def proceed(cls, **more: Unpack[_More]) -> Self:
        """Continue as if there were no hook.

        Args:
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.
        """
        return cls(**more)

    @classmethod
    def stop(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """End the turn. At PreToolUse and PermissionRequest the tool is also denied, unless a further field decides otherwise.

        Args:
            reason: the reason, for the user. With a denial the model also gets it.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.
        """
        return cls(**_with({"continue_": False, "stop_reason": reason}, more))

    @classmethod
    def block(cls, reason: str, **more: Unpack[_More]) -> Self:
        """Block the prompt, the tool result or the change; at Stop and SubagentStop: continue the work.

        Args:
            reason: the reason, for the model.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.
        """
        return cls(**_with({"decision": "block", "reason": reason}, more))

    @classmethod
    def allow(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Allow the tool without a permission request.

        Args:
            reason: the reason, for the transcript; None for no text.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.

        Example:
            ::

                def allow_reading(call: PreToolUseHookInput, context: HookContext) -> HookOutput:
                    return HookOutput.allow("reading is harmless")
        """
        return cls(**_with({"permission_decision": "allow", "permission_decision_reason": reason}, more))

    @classmethod
    def deny(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Deny the tool call.

        Args:
            reason: the reason, for the model; None for no text.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.

        Example:
            ::

                def guard(call: PreToolUseHookInput, context: HookContext) -> HookOutput | None:
                    return HookOutput.deny("not in this folder") if "/etc" in str(call.tool_input) else None
        """
        return cls(**_with({"permission_decision": "deny", "permission_decision_reason": reason}, more))

    @classmethod
    def ask(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Request the permission of the user: the CLI calls `can_use_tool`, if it is set.

        Args:
            reason: the reason, for the user; None for no text.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.
        """
        return cls(**_with({"permission_decision": "ask", "permission_decision_reason": reason}, more))

    @classmethod
    def defer(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Stop the run before the tool; the call is then in `deferred_tool_use` of the result.

        Args:
            reason: the reason; None for no text.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.
        """
        return cls(**_with({"permission_decision": "defer", "permission_decision_reason": reason}, more))

    @classmethod
    def update_input(cls, new_input: Mapping[str, Any], **more: Unpack[_More]) -> Self:
        """Run the tool with another input (PreToolUse). The permission is decided as if there were no hook.

        Args:
            new_input: the whole new input.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.
        """
        return cls(**_with({"updated_input": new_input}, more))

    @classmethod
    def add_context(cls, text: str, **more: Unpack[_More]) -> Self:
        """Add a text to the context of the model.

        Args:
            text: the text.
            more: further fields of the output, as in the constructor.

        Returns:
            The output, to be returned from the hook.

        Example:
            ::

                def greet(prompt: UserPromptSubmitHookInput, context: HookContext) -> HookOutput:
                    return HookOutput.add_context("The user prefers short answers.")
        """
        return cls(**_with({"additional_context": text}, more))

    @classmethod
    def run_async(cls, timeout: float | None = None) -> Self:
        """Let the CLI continue immediately: nothing waits for the hook.

        Args:
            timeout: seconds after which the CLI forgets the hook; None for the default of the CLI.

        Returns:
            The output, to be returned from the hook.
        """
        return cls(asynchronous=True, async_timeout=timeout)


_PERMISSION = "permission_decision permission_decision_reason"
_RENAMED = {"continue_": "continue", "permission": "decision", "updated_mcp_tool_output": "updatedMCPToolOutput"}


def _fields(names: str) -> dict[str, str]:
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
"""The fields of `hookSpecificOutput`, in Hackamore and in the CLI, for each event that has one."""

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


def encode_hook_output(output: object, event: str) -> Answer:
    """Return a hook's answer as the CLI spells it.

    Args:
        output: a `HookOutput`, a dict with the CLI's names, or None to continue.
        event: the event of the hook.

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
    return Answer(wire, _decided(wire, wire.get("hookSpecificOutput", {})) if wire else "", warnings)


def _decided(wire: dict[str, Any], specific: dict[str, Any]) -> str:
    """Return the decision; for an event that this version does not know it may have any shape."""
    if wire.get("continue") is False:
        return "stop"
    answer = specific.get("decision")
    decision = specific.get("permissionDecision") or (answer.get("behavior") if isinstance(answer, dict) else None)
    decision = decision or specific.get("action") or wire.get("decision")
    return decision if isinstance(decision, str) else ""


def check_wire(output: object) -> None:
    """Check an answer as the CLI does (2.1.330): one value of a wrong type, null included, makes the whole answer void.

    Raises:
        AnswerError: the CLI treats the answer as empty.
    """
    if not isinstance(output, Mapping):
        raise AnswerError("it must be an object")
    if output.get("async") is True:
        return
    for key in output.keys() & set(_COMMON.values()):
        _checked(key, output[key], key)
    if (path := "hookSpecificOutput") not in output:
        return
    specific = output[path]
    event = specific.get("hookEventName") if isinstance(specific, Mapping) else None
    fields = SPECIFIC_FIELDS.get(event) if isinstance(event, str) else None
    if fields is None:
        raise AnswerError(f"`{path}.hookEventName` is {event!r}, which no such output has", path)
    for key in specific.keys() & set(fields.values()):
        if event == "PermissionRequest":
            check_decision(specific[key], f"{path}.{key}", of_hook=True)
        else:
            _checked(key, specific[key], f"{path}.{key}")
    if event == "WorktreeCreate" and "worktreePath" not in specific:
        raise AnswerError(f"`{path}.worktreePath` is missing", path)


def check_decision(decision: Any, path: str, *, of_hook: bool) -> None:
    """Check the answer to a permission request as the CLI does (2.1.330).

    Args:
        decision: the answer.
        path: its place, for the error.
        of_hook: True for the answer of a hook, which may lack a message, and whose updates of permissions count.

    Raises:
        AnswerError: the CLI does not accept it.
    """
    _decision(decision, path)
    types: dict[str, type] = {"message": str, "interrupt": bool}
    if decision["behavior"] == "allow":
        types = {"updatedInput": dict, **({"updatedPermissions": list} if of_hook else {})}
    elif not (of_hook or "message" in decision):
        raise AnswerError(f"`{path}.message` is missing", path)
    for key, kind in types.items():
        if key in decision and not isinstance(decision[key], kind):
            raise AnswerError(f"`{path}.{key}` must be of type {kind.__name__}", path)


def _warn(warnings: list[StreamWarning], event: str, field: str, reason: str) -> None:
    context = {"field": field, "type": event, "reason": reason}
    text = escape_terminal(f"in the answer of a {event} hook, `{field}` {reason}", 500)
    warnings.append(StreamWarning("FIELD_DROPPED", text, context))


def _encode_output(output: HookOutput, event: str, warnings: list[StreamWarning]) -> dict[str, Any]:
    given = {name: value for name in output.__struct_fields__ if (value := getattr(output, name)) is not None}
    if given.pop("asynchronous", None):
        return _encode_async(given, event, warnings)
    if "async_timeout" in given:
        del given["async_timeout"]
        _warn(warnings, event, "async_timeout", "was left out: the answer is not asynchronous")
    _as_permission(given, event, warnings)
    _stop_denies(given, event)
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


def _stop_denies(given: dict[str, Any], event: str) -> None:
    """Add a denial to an answer that ends the turn: with `continue: false` alone the CLI runs the tool."""
    if given.get("continue_") is not False:
        return
    reason = given.get("stop_reason", given.get("reason"))
    if event == "PreToolUse" and "permission_decision" not in given:
        given["permission_decision"] = "deny"
        if reason is not None:
            given.setdefault("permission_decision_reason", reason)
    elif event == "PermissionRequest" and "permission" not in given:
        text = "The turn was stopped." if reason is None else _checked("reason", reason, "stop_reason")
        given["permission"] = Deny(text, interrupt=True)


def _check_decision(specific: dict[str, Any], event: str, path: str, warnings: list[StreamWarning]) -> None:
    allowed = _DECISIONS.get(event)
    if allowed is not None and specific.get("permissionDecision", allowed[0]) not in allowed:
        _warn(warnings, event, path, f"was left out: {event} does not take {specific.pop('permissionDecision')!r}")
        specific.pop("permissionDecisionReason", None)


def _hint(name: str) -> str:
    return "; HookOutput.block(reason) blocks" if name == "permission_decision" else ""


def _checked(wire_name: str, value: Any, path: str) -> Any:
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


def fail_output(on_failure: OnFailure | None, event: str, reason: str = "") -> Answer:
    """Return the answer for a hook that failed; it can always be sent.

    Args:
        on_failure: `block` fails closed, everything else open.
        event: the event. At Stop, SubagentStop, TaskCompleted and TeammateIdle to block would be to work on for ever:
            there it fails open, as the CLI does.
        reason: the problem; the model or the user may read it.
    """
    if on_failure != "block" or event in _CANNOT_BLOCK:
        return Answer({})
    text = escape_terminal(str(reason)) or "A hook failed."
    decision = "deny"
    specific: dict[str, Any] = {}
    if event in ("PreToolUse", "PreModelSwitch"):
        specific = {"permissionDecision": "deny", "permissionDecisionReason": text}
    elif event == "PermissionRequest":
        specific = {"decision": {"behavior": "deny", "message": text}}
    elif event in ("Elicitation", "ElicitationResult"):
        decision, specific = "decline", {"action": "decline"}
    if specific:
        return Answer({"hookSpecificOutput": {"hookEventName": event, **specific}}, decision)
    return Answer({"decision": "block", "reason": text}, "block")
