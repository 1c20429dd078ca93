"""Matchers are checked before anything runs; registration is what the CLI is told."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hackamore.checked.functions import check_callback, is_async
from hackamore.errors import OptionsError
from hackamore.hooks import (
    HOOK_EVENTS,
    HookContext,
    HookInput,
    HookMatcher,
    HookOutput,
    Hooks,
    PostToolUseHookInput,
    PreToolUseHookInput,
    StopHookInput,
)
from hackamore.hooks.matchers import NO_DEADLINE, check_hooks, event_warnings, registration, wire_timeout
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def plain(asked: Any, context: HookContext) -> None:
    pass


async def waiting(asked: Any, context: HookContext) -> None:
    pass


class Guard:
    def method(self, asked: Any, context: HookContext) -> None:
        pass

    async def waiting(self, asked: Any, context: HookContext) -> None:
        pass

    @classmethod
    def of_class(cls, asked: Any, context: HookContext) -> None:
        pass

    @staticmethod
    async def static(asked: Any, context: HookContext) -> None:
        pass


class Callable_:
    def __call__(self, asked: Any, context: HookContext) -> None:
        pass


class AsyncCallable:
    async def __call__(self, asked: Any, context: HookContext) -> None:
        pass


Foreign = type("HookMatcher", (), {})  # as the official package has one


def three(asked: Any, tool_use_id: str | None, context: Any) -> None:
    pass


def generator(asked: Any, context: Any) -> Iterator[int]:
    yield 1


async def async_generator(asked: Any, context: Any) -> AsyncIterator[int]:
    yield 1


def needs_a_name(asked: Any, context: Any, *, name: str) -> None:
    pass


def print_nothing(one: int, two: int, three: int) -> None:
    pass


@functools.wraps(three)
def wrapper(asked: Any, context: Any) -> None:
    pass


GOOD: list[tuple[Callable[..., Any], bool]] = [
    (plain, False),
    (waiting, True),
    (lambda asked, context: None, False),
    (lambda *everything: None, False),
    (Guard().method, False),
    (Guard().waiting, True),
    (Guard.of_class, False),
    (Guard.static, True),
    (Callable_(), False),
    (AsyncCallable(), True),
    (functools.partial(functools.partial(needs_a_name, name="x")), False),
    (functools.partial(waiting), True),
    (functools.partial(AsyncCallable()), True),
    (wrapper, False),
    (print, False),
    (dict.get, False),
]
BAD: list[tuple[Any, str]] = [
    (three, "missing a required argument"),
    (lambda: None, "too many positional arguments"),
    (lambda asked: None, "too many positional arguments"),
    (needs_a_name, "'name'"),
    (functools.partial(three, tool_use_id=None), "too many positional arguments"),
    (functools.partial(print_nothing, 1, 2), "too many positional arguments"),
    (Guard.method, "missing a required argument"),
    (generator, "generator"),
    (async_generator, "generator"),
    (functools.partial(generator), "generator"),
]


@pytest.mark.parametrize(("callback", "asynchronous"), GOOD)
def test_everything_that_can_be_called_is_taken(callback: Callable[..., Any], asynchronous: bool) -> None:
    assert check_callback(callback, "hook", ("input", "context")) is callback
    assert is_async(callback) is asynchronous
    checked = check_hooks({"PreToolUse": [HookMatcher("Bash", [callback])]}, "hooks")
    [hook] = registration(checked).callbacks.values()
    assert hook.is_async is asynchronous
    assert hook.callback is callback


@shows("callbacks.unbindable")
@pytest.mark.parametrize(("callback", "message"), BAD)
def test_what_could_never_be_called_is_refused_where_it_stands(callback: Any, message: str) -> None:
    hooks = {
        "Stop": [HookMatcher(hooks=[plain])],
        "PreToolUse": [HookMatcher(), HookMatcher("Bash", [plain, callback])],
    }
    with pytest.raises(OptionsError, match=message) as caught:
        check_hooks(hooks, "hooks")
    assert caught.value.field == "hooks.PreToolUse[1].hooks[1]"
    assert "`hooks.PreToolUse[1].hooks[1]`" in str(caught.value)


def test_the_official_packages_three_parameters_are_explained() -> None:
    with pytest.raises(OptionsError, match=r"cannot be called with \(input, context\).*tool_use_id"):
        check_hooks({"PreToolUse": [HookMatcher(hooks=[three])]}, "hooks")  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("hooks", "field", "message"),
    [
        ([], "hooks", "must be a dict"),
        (plain, "hooks", "must be a dict"),
        ({5: []}, "hooks (its keys)", "str"),
        (
            {"PreToolUse": "Bash"},
            "hooks.PreToolUse",
            r"a function, a HookMatcher or a list of them, got 'Bash' \(str\)",
        ),
        ({"PreToolUse": [5]}, "hooks.PreToolUse[0]", r"a HookMatcher, got 5 \(int\)"),
        ({"PreToolUse": [Foreign()]}, "hooks.PreToolUse[0]", "a HookMatcher, got the HookMatcher of `tests`"),
        ({"PreToolUse": three}, "hooks.PreToolUse", "Write `def three\\(input, context\\)`"),
        ({"PreToolUse": [plain, three]}, "hooks.PreToolUse[1]", "form of claude-agent-sdk"),
        ({"PreToolUse": [{"hook": [plain]}]}, "hooks.PreToolUse[0].hook", "Did you mean `hooks`"),
        ({"PreToolUse": [{"hooks": [5]}]}, "hooks.PreToolUse[0].hooks[0]", "a function"),
        ({"PreToolUse": [{"timeout": -1}]}, "hooks.PreToolUse[0].timeout", "more than 0"),
    ],
)
def test_wrong_shapes_are_refused_with_their_path(hooks: Any, field: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message) as caught:
        check_hooks(hooks, "hooks")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"matcher": plain}, "matcher"),
        ({"hooks": "x"}, "hooks"),
        ({"hooks": [plain, None]}, "hooks[1]"),
        ({"matcher": 5}, "matcher"),
        ({"matcher": ""}, "matcher"),
        ({"timeout": "60"}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"on_failure": "closed"}, "on_failure"),
        ({"on_fail": "block"}, "on_fail"),
    ],
)
def test_a_matcher_is_checked_when_it_is_built(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionsError) as caught:
        HookMatcher(**arguments)
    assert caught.value.field == field


def test_a_matcher_is_a_value() -> None:
    matcher = HookMatcher("Bash", [plain], 5, "block")
    assert matcher == HookMatcher(matcher="Bash", hooks=[plain], timeout=5, on_failure="block")
    assert matcher.replace(timeout=None) == HookMatcher("Bash", [plain], on_failure="block")
    assert check_hooks(check_hooks({"Stop": [matcher]}, "hooks"), "hooks") == {"Stop": (matcher,)}
    as_dict = {"matcher": "Bash", "hooks": [plain], "timeout": 5, "on_failure": "block"}
    assert check_hooks({"Stop": [as_dict]}, "hooks") == {"Stop": (matcher,)}
    assert check_hooks({"Stop": [{**as_dict, "onFailure": as_dict.pop("on_failure")}]}, "hooks")


def test_an_event_that_is_not_known_is_a_warning_and_is_sent() -> None:
    hooks = check_hooks({"PreToolUes": [HookMatcher(hooks=[plain])], "Stop": []}, "hooks")
    [warning] = event_warnings(hooks)
    assert warning.context["field"] == "hooks.PreToolUes"
    assert "Did you mean `PreToolUse`?" in warning.message
    assert list(registration(hooks).wire) == ["PreToolUes"]
    [warning] = event_warnings({"Hologram": []})
    assert "Did you mean" not in warning.message


@pytest.mark.parametrize(
    "rule", ["Bash(rm *)", "Bash(*)", "Bash(git:*)", "Edit(src/**)", "Read(~/.ssh)", "Bash(rm -r x"]
)
def test_a_matcher_that_is_a_permission_rule_is_a_warning(rule: str) -> None:
    [warning] = event_warnings({"PreToolUse": [HookMatcher(), HookMatcher(rule, [plain], on_failure="block")]})
    assert warning.context["field"] == "hooks.PreToolUse[1].matcher"
    assert "never called" in warning.message
    assert f"Write '{rule.partition('(')[0]}'" in warning.message


@pytest.mark.parametrize(
    "matcher",
    [
        "Bash",
        "Bash|Write",
        "Bash, Write",
        "mcp__(a|b)__.*",
        "Bash(Output)?",
        "Bash(?:Output)?",
        "(Bash|Edit)",
        "^(?!Bash).*",
        "*",
    ],
)
def test_a_matcher_of_names_is_no_warning(matcher: str) -> None:
    hooks = {"PreToolUse": [HookMatcher(matcher, [plain])], "FileChanged": [HookMatcher("a(b c)", [plain])]}
    assert event_warnings(hooks) == []


@shows("asked.guard.in-the-cli", "hooks.matchers")
def test_ids_are_given_in_order_and_defaults_left_out() -> None:
    hooks = {
        "PreToolUse": [
            HookMatcher("Bash|Write", [plain, waiting], timeout=0.5, on_failure="block"),
            HookMatcher(),
            HookMatcher(hooks=[plain]),
        ],
        "Stop": [HookMatcher(hooks=[waiting], on_failure="continue")],
        "SessionEnd": [],
    }
    done = registration(check_hooks(hooks, "hooks"), default_timeout=60)
    assert done.wire == {
        "PreToolUse": [
            {"hookCallbackIds": ["hook_0", "hook_1"], "timeout": 6, "matcher": "Bash|Write", "onFailure": "block"},
            {"matcher": None, "hookCallbackIds": ["hook_2"], "timeout": 65},
        ],
        "Stop": [{"matcher": None, "hookCallbackIds": ["hook_3"], "timeout": 65, "onFailure": "continue"}],
    }
    assert msgspec.json.encode(done.wire)
    assert list(done.callbacks) == ["hook_0", "hook_1", "hook_2", "hook_3"]
    assert [hook.event for hook in done.callbacks.values()] == ["PreToolUse"] * 3 + ["Stop"]
    assert [hook.timeout for hook in done.callbacks.values()] == [0.5, 0.5, 60, 60]
    assert [hook.on_failure for hook in done.callbacks.values()] == ["block", "block", "continue", "continue"]
    assert done.callbacks["hook_2"].path == "hooks.PreToolUse[2].hooks[0]"
    assert done.blocking
    assert registration(None) == registration({}) == ({}, {}, False)


@shows("callbacks.longer-on-the-wire")
def test_the_cli_is_always_told_a_longer_deadline() -> None:
    assert [wire_timeout(seconds) for seconds in (0.001, 1, 1.5, 60, 3600)] == [6, 6, 7, 65, 3605]
    assert wire_timeout(None) == wire_timeout(1e12) == NO_DEADLINE
    assert NO_DEADLINE * 1000 < 2**31
    assert registration({"Stop": [HookMatcher(hooks=[plain])]}, None).wire["Stop"][0]["timeout"] == NO_DEADLINE


def test_the_context_is_a_frozen_value_that_tells_of_cancellation() -> None:
    assert not HookContext().cancelled
    told: list[int] = []
    context = HookContext("toolu_1", "session", lambda: bool(told))
    assert (context.tool_use_id, context.session, context.cancelled) == ("toolu_1", "session", False)
    told.append(1)
    assert context.cancelled
    assert repr(context) == "HookContext(tool_use_id='toolu_1', cancelled=True)"
    with pytest.raises(AttributeError, match="frozen"):
        context.session = None  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del context.session


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, hackamore.hooks, hackamore.permissions; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=patience(30)
    ).stdout
    # msgspec itself loads inspect.
    assert not {"asyncio", "anyio", "dataclasses", "subprocess", "threading"} & set(loaded.split())


@pytest.mark.parametrize(
    "short",
    [
        plain,
        [plain],
        (plain,),
        HookMatcher(hooks=plain),
        HookMatcher(None, plain),
        {"hooks": plain},
        [{"hooks": [plain]}],
    ],
)
def test_short_forms_become_matchers(short: Any) -> None:
    assert check_hooks({"Stop": short}, "hooks") == {"Stop": (HookMatcher(hooks=[plain]),)}


def test_the_events_of_the_type_are_the_events_there_are() -> None:
    assert set(Hooks.__annotations__) == set(HOOK_EVENTS)
    for event, annotation in Hooks.__annotations__.items():
        assert f"[{event}HookInput]" in str(annotation)


def for_stop(call: StopHookInput, context: HookContext) -> HookOutput | None:
    return None


def for_dicts(call: dict[str, Any], context: HookContext) -> dict[str, Any]:
    return call


async def for_two(call: PreToolUseHookInput | PostToolUseHookInput, context: HookContext) -> HookOutput:
    return HookOutput.proceed()


def for_all(call: HookInput, context: HookContext) -> Mapping[str, Any]:
    return {}


def says_bool(call: PreToolUseHookInput, context: HookContext) -> bool:
    return True


async def maybe_text(call: PreToolUseHookInput, context: HookContext) -> HookOutput | str:
    return ""


def later(call: PreToolUseHookInput, context: HookContext) -> Awaitable[bool]:
    raise NotImplementedError


def lost(call: Nowhere, context: HookContext) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


@pytest.mark.parametrize(
    ("event", "hook", "message"),
    [
        (
            "PreToolUse",
            for_stop,
            "`for_stop` takes StopHookInput.*a PreToolUse hook is called with PreToolUseHookInput",
        ),
        ("PreToolUse", functools.partial(for_stop), "takes StopHookInput"),
        ("Stop", for_two, r"takes PreToolUseHookInput \| PostToolUseHookInput"),
        ("Stop", for_dicts, "takes dict.*`.data` is the dict"),
        ("PreToolUse", says_bool, "returns bool.*must return one of: HookOutput, Mapping, None"),
        ("PreToolUse", maybe_text, "returns str"),
        ("PreToolUse", later, "returns bool"),
    ],
)
def test_annotations_that_contradict_the_event_are_refused(event: str, hook: Any, message: str) -> None:
    with pytest.raises(OptionsError, match=message) as caught:
        check_hooks({event: [hook]}, "hooks")
    assert caught.value.field == f"hooks.{event}[0]"


@pytest.mark.parametrize(
    ("event", "hook"),
    [
        ("Stop", for_stop),
        ("PreToolUse", for_two),
        ("PostToolUse", for_two),
        ("Stop", for_all),
        ("NewEvent", for_stop),
        ("Stop", lost),
    ],
)
def test_annotations_that_fit_or_cannot_be_read_are_accepted(event: str, hook: Any) -> None:
    assert check_hooks({event: hook}, "hooks")[event][0].hooks == (hook,)
