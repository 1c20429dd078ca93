"""`HookMatcher`, the types of `Options.hooks`, and the registration of hooks with the CLI."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar

from hackamore.checked.fields import (
    Checked,
    brief,
    build,
    choice,
    fail,
    function,
    mapping_of,
    name_text,
    number,
    option,
    suggestion,
)
from hackamore.checked.functions import check_annotations, check_callback, is_async
from hackamore.errors import StreamWarning
from hackamore.hooks.inputs import (
    ConfigChangeHookInput,
    CwdChangedHookInput,
    DirectoryAddedHookInput,
    ElicitationHookInput,
    ElicitationResultHookInput,
    FileChangedHookInput,
    HookContext,
    HookInput,
    InstructionsLoadedHookInput,
    MessageDisplayHookInput,
    NotificationHookInput,
    PermissionDeniedHookInput,
    PermissionRequestHookInput,
    PostCompactHookInput,
    PostModelSwitchHookInput,
    PostToolBatchHookInput,
    PostToolUseFailureHookInput,
    PostToolUseHookInput,
    PreCompactHookInput,
    PreModelSwitchHookInput,
    PreToolUseHookInput,
    SessionEndHookInput,
    SessionStartHookInput,
    SetupHookInput,
    StopFailureHookInput,
    StopHookInput,
    SubagentStartHookInput,
    SubagentStopHookInput,
    TaskCompletedHookInput,
    TaskCreatedHookInput,
    TeammateIdleHookInput,
    UserPromptExpansionHookInput,
    UserPromptSubmitHookInput,
    WorktreeCreateHookInput,
    WorktreeRemoveHookInput,
)
from hackamore.hooks.outputs import HookOutput, OnFailure

__all__ = ["HookCallback", "HookMatcher", "Hooks"]

InputT_contra = TypeVar("InputT_contra", bound=HookInput, contravariant=True)

HookAnswer: TypeAlias = "HookOutput | Mapping[str, Any] | None"
"""Values that a hook may return; None means no opinion, a dict has the names of the wire."""

HookCallback: TypeAlias = Callable[[InputT_contra, HookContext], "HookAnswer | Awaitable[HookAnswer]"]
"""A hook: a plain or async function of the event's input and the context, such as `HookCallback[StopHookInput]`."""

PARAMETERS = ("input", "context")
"""The arguments of every hook callback."""

NO_DEADLINE = 2_000_000
"""Seconds sent to the CLI for a hook without a timeout: 23 days. Its timers hold at most 2**31 milliseconds."""


# Brackets cannot be part of a tool's name: `Bash(rm *)` is a rule, `Bash(Output)?` a regular expression.
_RULE = re.compile(r"([A-Za-z]\w*)\((?!\?)(?:\*|[^)|]*[ :/~])")
_OF_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied")


def _functions(value: Any, path: str) -> tuple[Any, ...]:
    if callable(value):
        return (value,)
    if not isinstance(value, (list, tuple)):
        raise fail(path, "a function or a list of functions", value)
    return tuple(function(part, f"{path}[{index}]") for index, part in enumerate(value))


def _pattern(value: Any, path: str) -> str:
    if callable(value):
        raise fail(path, "a str", value, "Write `HookMatcher(hooks=...)` for a hook of all tools.")
    return str(name_text(value, path))


class HookMatcher(Checked, Generic[InputT_contra]):
    """Hooks for some tools or for all.

    Args:
        matcher: the tools (or other names that the event tells apart): a name, several as `Bash|Write`, or a regular
            expression. Default: None, all.
        hooks: a function of `(input, context)`, plain or async, or a list of them.
        timeout: seconds until a call fails. Default: None, which is `Timeouts.hook`.
        on_failure: effect of a failed call: `continue` runs the tool, `block` denies it. Default: None, `continue`.

    Raises:
        OptionsError: a name, a type or a value is wrong.

    Example::

        Options(hooks={"PreToolUse": HookMatcher("Bash", guard, timeout=5, on_failure="block")})
    """

    matcher: str | None = option(default=None, check=_pattern)
    hooks: Sequence[HookCallback[InputT_contra]] = option(default=(), check=_functions)
    timeout: float | None = option(default=None, check=number(0, exclusive=True))
    on_failure: OnFailure | None = option(default=None, check=choice("continue", "block"))

    if not TYPE_CHECKING:

        def __init__(self, matcher=None, hooks=(), timeout=None, on_failure=None, **unknown):
            # A wrong name is an OptionsError that names the right one.
            super().__init__(matcher=matcher, hooks=hooks, timeout=timeout, on_failure=on_failure, **unknown)

    else:  # last: tools that read the source document this one

        def __init__(
            self,
            matcher: str | None = None,
            hooks: HookCallback[InputT_contra] | Sequence[HookCallback[InputT_contra]] = (),
            timeout: float | None = None,
            on_failure: OnFailure | None = None,
        ) -> None: ...


_Entry: TypeAlias = "HookCallback[InputT_contra] | HookMatcher[InputT_contra] | Mapping[str, Any]"
HookEntry: TypeAlias = "_Entry[InputT_contra] | Sequence[_Entry[InputT_contra]]"
"""The hooks of one event: a function, a `HookMatcher`, or a list of both."""


class Hooks(TypedDict, total=False):
    """The type of `Options.hooks`: the hooks of each event. Type checkers find misspelt events and hooks of another event."""

    PreToolUse: HookEntry[PreToolUseHookInput]
    PostToolUse: HookEntry[PostToolUseHookInput]
    PostToolUseFailure: HookEntry[PostToolUseFailureHookInput]
    PostToolBatch: HookEntry[PostToolBatchHookInput]
    PermissionRequest: HookEntry[PermissionRequestHookInput]
    PermissionDenied: HookEntry[PermissionDeniedHookInput]
    SessionStart: HookEntry[SessionStartHookInput]
    SessionEnd: HookEntry[SessionEndHookInput]
    Setup: HookEntry[SetupHookInput]
    UserPromptSubmit: HookEntry[UserPromptSubmitHookInput]
    UserPromptExpansion: HookEntry[UserPromptExpansionHookInput]
    MessageDisplay: HookEntry[MessageDisplayHookInput]
    Notification: HookEntry[NotificationHookInput]
    Stop: HookEntry[StopHookInput]
    StopFailure: HookEntry[StopFailureHookInput]
    SubagentStart: HookEntry[SubagentStartHookInput]
    SubagentStop: HookEntry[SubagentStopHookInput]
    PreCompact: HookEntry[PreCompactHookInput]
    PostCompact: HookEntry[PostCompactHookInput]
    PreModelSwitch: HookEntry[PreModelSwitchHookInput]
    PostModelSwitch: HookEntry[PostModelSwitchHookInput]
    TeammateIdle: HookEntry[TeammateIdleHookInput]
    TaskCreated: HookEntry[TaskCreatedHookInput]
    TaskCompleted: HookEntry[TaskCompletedHookInput]
    Elicitation: HookEntry[ElicitationHookInput]
    ElicitationResult: HookEntry[ElicitationResultHookInput]
    ConfigChange: HookEntry[ConfigChangeHookInput]
    InstructionsLoaded: HookEntry[InstructionsLoadedHookInput]
    WorktreeCreate: HookEntry[WorktreeCreateHookInput]
    WorktreeRemove: HookEntry[WorktreeRemoveHookInput]
    CwdChanged: HookEntry[CwdChangedHookInput]
    FileChanged: HookEntry[FileChangedHookInput]
    DirectoryAdded: HookEntry[DirectoryAddedHookInput]


def check_hooks(value: Any, path: str) -> dict[str, tuple[HookMatcher[Any], ...]]:
    """Return hooks as `{event: (HookMatcher, ...)}`; the check of `Options.hooks`.

    Raises:
        OptionsError: a shape is wrong, a callback cannot be called with `(input, context)`, or its annotations do not fit the
            event; `field` is the place.
    """

    def matchers(part: Any, where: str) -> tuple[HookMatcher[Any], ...]:
        event = where[len(path) + 1 :]
        if callable(part) or isinstance(part, (HookMatcher, Mapping)):
            return (_matcher(part, where, event),)
        if not isinstance(part, (list, tuple)):
            raise fail(where, "a function, a HookMatcher or a list of them", part)
        return tuple(_matcher(entry, f"{where}[{index}]", event) for index, entry in enumerate(part))

    return dict(mapping_of(matchers)(value, path))


_OFFICIAL = "(input_data, tool_use_id, context) is the form of claude-agent-sdk; here `context.tool_use_id` has the second argument."


def _matcher(value: Any, path: str, event: str) -> HookMatcher[Any]:
    from hackamore.hooks.inputs import HOOK_EVENTS

    where = path
    if isinstance(value, HookMatcher):
        matcher, where = value, f"{path}.hooks"
    elif isinstance(value, Mapping):
        matcher, where = build(HookMatcher, value, path), f"{path}.hooks"
    elif callable(value):
        matcher = HookMatcher(hooks=(value,))
    else:
        raise fail(path, "a function or a HookMatcher", value)
    for index, hook in enumerate(matcher.hooks):
        place = where if where == path else f"{where}[{index}]"
        check_callback(hook, place, PARAMETERS, official=_OFFICIAL)
        check_annotations(hook, place, HOOK_EVENTS.get(event), (HookOutput, Mapping, type(None)), f"a {event} hook")
    return matcher


def event_warnings(hooks: Mapping[str, Any], path: str = "hooks") -> list[StreamWarning]:
    """Return a warning for each event that this version does not know, and for each matcher that no tool can match.

    Events are added, so they are not an error.
    """
    from hackamore.hooks.inputs import HOOK_EVENTS

    found = [
        StreamWarning(
            "UNKNOWN_HOOK_EVENT",
            f"`{path}` has the event {event!r}, which this version of Hackamore does not know."
            f"{suggestion(event, HOOK_EVENTS)} The CLI ignores unknown events.",
            {"field": f"{path}.{event}", "event": event},
        )
        for event in hooks
        if event not in HOOK_EVENTS
    ]
    found.extend(
        StreamWarning(
            "OPTION_CONFLICT",
            f"`{path}.{event}[{index}]` has the matcher {brief(matcher.matcher)}, which is a permission rule and matches no tool's "
            f"name: its hooks are never called. Write {tool[1]!r}, and look at `tool_input` in the hook.",
            {"field": f"{path}.{event}[{index}].matcher"},
        )
        for event in _OF_TOOLS
        for index, matcher in enumerate(hooks.get(event, ()))
        if (tool := _RULE.match(matcher.matcher or ""))
    )
    return found


def wire_timeout(timeout: float | None) -> int:
    """Return the timeout for the CLI: longer than Hackamore's, because the CLI fails closed at its own."""
    if timeout is None:
        return NO_DEADLINE
    return min(math.ceil(timeout) + 5, NO_DEADLINE)


class RegisteredHook(NamedTuple):
    """One callback as it is known to the CLI."""

    callback_id: str
    event: str  # the event it is registered for
    callback: Callable[..., Any]
    is_async: bool  # True if calling it gives a coroutine; others belong into a thread
    timeout: float | None  # the timeout of Hackamore in seconds; None means no timeout
    on_failure: OnFailure  # `continue` or `block`
    path: str  # where it stands in the options, for messages


class Registration(NamedTuple):
    """Hooks as `initialize` announces them, and the callbacks behind their ids.

    Attributes:
        wire: for `initialize.hooks`; empty if there are none.
        callbacks: by callback id.
        blocking: True if some hook fails closed: then the CLI must answer `hook_on_failure_supported`.
    """

    wire: dict[str, list[dict[str, Any]]]
    callbacks: dict[str, RegisteredHook]
    blocking: bool


def registration(
    hooks: Mapping[str, Sequence[HookMatcher[Any]]] | None, default_timeout: float | None = 60.0
) -> Registration:
    """Return what registers `hooks`, with ids `hook_0`, `hook_1`, ... in order.

    Args:
        hooks: matchers by event, as `check_hooks` returns them.
        default_timeout: for matchers without one: `Timeouts.hook`.
    """
    wire: dict[str, list[dict[str, Any]]] = {}
    callbacks: dict[str, RegisteredHook] = {}
    for event, matchers in (hooks or {}).items():
        for index, matcher in enumerate(matchers):
            if not matcher.hooks:
                continue
            timeout = default_timeout if matcher.timeout is None else matcher.timeout
            ids = []
            for position, callback in enumerate(matcher.hooks):
                callback_id = f"hook_{len(callbacks)}"
                ids.append(callback_id)
                callbacks[callback_id] = RegisteredHook(
                    callback_id,
                    event,
                    callback,
                    is_async(callback),
                    timeout,
                    matcher.on_failure or "continue",
                    f"hooks.{event}[{index}].hooks[{position}]",
                )
            entry: dict[str, Any] = {
                "matcher": matcher.matcher,
                "hookCallbackIds": ids,
                "timeout": wire_timeout(timeout),
            }
            if matcher.on_failure is not None:
                entry["onFailure"] = matcher.on_failure
            wire.setdefault(event, []).append(entry)
    return Registration(wire, callbacks, any(hook.on_failure == "block" for hook in callbacks.values()))
