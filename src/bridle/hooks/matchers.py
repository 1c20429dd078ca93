"""`HookMatcher`, and the registration of hooks with the CLI."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bridle.checked.checks import build, choice, fail, function, mapping_of, name_text, number
from bridle.checked.fields import Checked, brief, option, suggestion
from bridle.checked.functions import check_callback, is_async
from bridle.errors import OptionsError, StreamWarning

__all__ = ["HookMatcher"]

OnFailure: TypeAlias = Literal["continue", "block"]

PARAMETERS = ("input", "context")
"""What every hook callback is called with."""

NO_DEADLINE = 2_000_000
"""Seconds told to the CLI where there is no deadline: 23 days. Its timers hold at most 2**31 milliseconds."""


# What is in brackets cannot be in a tool's name: `Bash(rm *)` is a rule, `Bash(Output)?` a regular expression.
_RULE = re.compile(r"([A-Za-z]\w*)\((?!\?)(?:\*|[^)|]*[ :/~])")
_OF_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied")


def _functions(value: Any, path: str) -> tuple[Any, ...]:
    if callable(value):
        raise OptionsError(f"`{path}` must be a list of functions: write `{path}=[...]`.", field=path)
    if not isinstance(value, (list, tuple)):
        raise fail(path, "a list of functions", value)
    return tuple(function(part, f"{path}[{index}]") for index, part in enumerate(value))


class HookMatcher(Checked):
    """Functions to call at an event, for some tools or for all.

    Attributes:
        matcher: which tools (or whatever the event tells apart): a name, several as `Bash|Write`, or a regular
            expression; None is all.
        hooks: the functions, called with `(input, context)`; plain or async.
        timeout: seconds until a call counts as failed; None is `Timeouts.hook`.
        on_failure: what a call that failed means: `continue` (also for None) or `block`.
    """

    matcher: str | None = option(default=None, check=name_text)
    hooks: Sequence[Callable[..., Any]] = option(default=(), check=_functions)
    timeout: float | None = option(default=None, check=number(0, exclusive=True))
    on_failure: OnFailure | None = option(default=None, check=choice("continue", "block"))

    if TYPE_CHECKING:

        def __init__(
            self,
            matcher: str | None = None,
            hooks: Sequence[Callable[..., Any]] = (),
            timeout: float | None = None,
            on_failure: OnFailure | None = None,
        ) -> None: ...

    else:

        def __init__(self, matcher=None, hooks=(), timeout=None, on_failure=None, **unknown):
            # A wrong name is an OptionsError that names the right one.
            super().__init__(matcher=matcher, hooks=hooks, timeout=timeout, on_failure=on_failure, **unknown)


def check_hooks(value: Any, path: str) -> dict[str, tuple[HookMatcher, ...]]:
    """Accept `{event: [HookMatcher, ...]}`, with dicts for matchers too; the check of `Options.hooks`.

    Raises:
        OptionsError: a shape is wrong, or a callback cannot be called with `(input, context)`; `field` says which.
    """

    def matchers(part: Any, where: str) -> tuple[HookMatcher, ...]:
        if callable(part) or isinstance(part, (HookMatcher, Mapping)):
            example = "HookMatcher(hooks=[...])" if callable(part) else "..."
            raise OptionsError(f"`{where}` must be a list of HookMatcher: write `[{example}]`.", field=where)
        if not isinstance(part, (list, tuple)):
            raise fail(where, "a list of HookMatcher", part)
        return tuple(_matcher(entry, f"{where}[{index}]") for index, entry in enumerate(part))

    return dict(mapping_of(matchers)(value, path))


def _matcher(value: Any, path: str) -> HookMatcher:
    matcher = build(HookMatcher, value, path) if isinstance(value, Mapping) else value
    if callable(matcher):
        raise OptionsError(f"`{path}` must be a HookMatcher: write `HookMatcher(hooks=[...])`.", field=path)
    if not isinstance(matcher, HookMatcher):
        raise fail(path, "a HookMatcher", matcher)
    for index, hook in enumerate(matcher.hooks):
        check_callback(hook, f"{path}.hooks[{index}]", PARAMETERS)
    return matcher


def event_warnings(hooks: Mapping[str, Any], path: str = "hooks") -> list[StreamWarning]:
    """Return a warning for each event that this version does not know, and for each matcher that no tool can match.

    Events are added, so they are no error.
    """
    from bridle.hooks.decode import HOOK_EVENTS

    found = [
        StreamWarning(
            "OPTION_CONFLICT",
            f"`{path}` has the event {event!r}, which this version does not know; it is sent as it is."
            + suggestion(event, HOOK_EVENTS),
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
    """Return the seconds to tell the CLI: more than ours, because it fails closed at its own deadline."""
    if timeout is None:
        return NO_DEADLINE
    return min(math.ceil(timeout) + 5, NO_DEADLINE)


class RegisteredHook(NamedTuple):
    """One callback as it is known to the CLI.

    Attributes:
        callback_id: its id on the wire.
        event: the event it is registered for.
        callback: the function.
        is_async: True if calling it gives a coroutine; others belong into a thread.
        timeout: our deadline in seconds; None is none.
        on_failure: `continue` or `block`.
        path: where it stands in the options, for messages.
    """

    callback_id: str
    event: str
    callback: Callable[..., Any]
    is_async: bool
    timeout: float | None
    on_failure: OnFailure
    path: str


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
    hooks: Mapping[str, Sequence[HookMatcher]] | None, default_timeout: float | None = 60.0
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
            entry: dict[str, Any] = {"hookCallbackIds": ids, "timeout": wire_timeout(timeout)}
            if matcher.matcher is not None:
                entry["matcher"] = matcher.matcher
            if matcher.on_failure is not None:
                entry["onFailure"] = matcher.on_failure
            wire.setdefault(event, []).append(entry)
    return Registration(wire, callbacks, any(hook.on_failure == "block" for hook in callbacks.values()))
