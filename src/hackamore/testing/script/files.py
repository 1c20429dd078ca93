"""Script files: the steps of a script as data, in JSON or TOML, and errors that name the place.

A step in a file has the name of the method of `Script` in `step`, and the arguments of that method as further fields.
"""

from __future__ import annotations

import json
import re
import tomllib
from contextlib import suppress
from datetime import datetime
from time import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from hackamore.errors import escape_terminal
from hackamore.testing.script import steps

if TYPE_CHECKING:
    from hackamore.testing.script.steps import ScriptStep

_SHOWN = 100


class SubagentInFile(steps.StepBase, frozen=True, kw_only=True, tag="subagent"):
    """The model starts a subagent; its work is the text of its answer, or steps."""

    prompt: str
    agent: str | tuple[FileStep, ...]
    description: str = "a task"
    kind: str = "general-purpose"
    background: bool = False


class RateLimitedInFile(steps.StepBase, frozen=True, kw_only=True, tag="rate_limited"):
    """The API refuses some tries with status 429; the CLI tries again."""

    attempts: int = 1
    delay: float = 0.5


class OverloadedInFile(steps.StepBase, frozen=True, kw_only=True, tag="overloaded"):
    """The API refuses some tries with status 529; the CLI tries again."""

    attempts: int = 1
    delay: float = 0.5


class UsageLimitedInFile(steps.StepBase, frozen=True, kw_only=True, tag="usage_limited"):
    """A limit of the plan ends each turn that comes here, until a date with a time zone, or for seconds after the file is read."""

    until: datetime | float | None = None
    seconds: float | None = None
    kind: str = "five_hour"


class GarbageInFile(steps.StepBase, frozen=True, kw_only=True, tag="garbage"):
    """Bytes that are not a frame: a text, or data in base64."""

    text: str | None = None
    data: bytes = b""


FileStep: TypeAlias = (
    steps.UserSays
    | steps.Thinks
    | steps.Says
    | steps.Calls
    | SubagentInFile
    | steps.Compacts
    | steps.TaskEnds
    | steps.Interrupted
    | steps.ExpectPermission
    | steps.ExpectHook
    | steps.ExpectResult
    | steps.Slow
    | RateLimitedInFile
    | OverloadedInFile
    | steps.Retry
    | steps.ApiFailure
    | UsageLimitedInFile
    | steps.Crash
    | steps.Hang
    | steps.IgnoreTermination
    | GarbageInFile
    | steps.Cut
    | steps.Emit
)
"""One step of a file."""

STEPS: dict[str, type[Any]] = {kind.__struct_config__.tag: kind for kind in get_args(FileStep)}
"""The steps by their names, in the order of the reference page."""


class ScriptFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A script as data."""

    format: Literal["hackamore-script"] = "hackamore-script"
    version: Literal[1] = 1
    forever: bool = False
    steps: tuple[Any, ...]
    schema: str = msgspec.field(name="$schema", default="")


def encode(items: list[ScriptStep], *, forever: bool) -> str:
    """Return steps as JSON text."""
    fields = {"format": "hackamore-script", "version": 1, "forever": forever, "steps": items}
    return msgspec.json.encode(fields).decode()


def decode(text: str | bytes, kind: Literal["json", "toml"] = "json") -> tuple[list[ScriptStep], bool]:
    """Return the steps of a file, and whether they continue for ever.

    Raises:
        ValueError: the text is not a script; the message names the place, and the nearest valid name.
    """
    data = _parsed(text, kind)
    if not isinstance(data, dict):
        raise ValueError(f"a script is an object with `steps`, not {_kind_of(data)}")
    _check_names(data, "", ScriptFile)
    try:
        file = msgspec.convert(data, ScriptFile)
    except msgspec.ValidationError as error:
        raise ValueError(_placed(str(error), "")) from None
    return _steps(file.steps, "steps"), file.forever


def _parsed(text: str | bytes, kind: str) -> Any:
    try:
        whole = text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is not valid UTF-8 (byte {error.start})") from None
    try:
        if kind == "toml":
            return tomllib.loads(whole)
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(whole)
        json.loads(whole)  # says the line
        raise ValueError("it contains NaN, Infinity or half a surrogate pair")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not valid {kind.upper()}: {escape_terminal(str(error), 300)}") from None


def _steps(data: tuple[Any, ...], place: str) -> list[ScriptStep]:
    done: list[ScriptStep] = []
    for number, one in enumerate(data):
        here = f"{place}[{number}]"
        step = _native(_step(one, here), one, here)
        if problem := steps.contradiction(step, done[-1] if done else None):
            raise ValueError(f"{here}: {problem}")
        done.append(step)
    return done


def _step(data: Any, place: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{place}: a step is an object such as {{'step': 'says', 'text': 'Hi'}}, not {_kind_of(data)}")
    if "step" not in data:
        raise ValueError(f"{place}: `step` is missing: the name of the step, such as `user` or `says`")
    name = data["step"]
    kind = STEPS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{place}: there is no step {_shown(name)}.{_nearest(name, STEPS)}")
    _check_names(data, f"{place} ({name})", kind)
    plain = {**data, "agent": ()} if name in ("calls", "subagent") and isinstance(data.get("agent"), list) else data
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_placed(str(error), f"{place} ({name})")) from None


def _native(step: Any, data: dict[str, Any], place: str) -> ScriptStep:
    inner = data.get("agent")
    match step:
        case steps.Calls() if isinstance(inner, list):
            return msgspec.structs.replace(step, agent=tuple(_steps(tuple(inner), f"{place}.agent")))
        case SubagentInFile():
            work = _steps(tuple(inner), f"{place}.agent") if isinstance(inner, list) else [steps.Says(text=str(inner))]
            try:
                return steps.subagent_call(
                    step.prompt, work, description=step.description, kind=step.kind, background=step.background
                )
            except ValueError as error:
                raise ValueError(f"{place}.agent: {error}") from None
        case RateLimitedInFile() | OverloadedInFile():
            status = 429 if isinstance(step, RateLimitedInFile) else 529
            fields = {"status": status, "attempts": step.attempts, "delay": step.delay}
            try:
                return msgspec.convert(fields | {"step": "retries"}, steps.Retry)
            except msgspec.ValidationError as error:
                raise ValueError(_placed(str(error), place)) from None
        case UsageLimitedInFile():
            return steps.UsageLimit(until=_moment(step, place), kind=step.kind)
        case GarbageInFile(text=None, data=b""):
            return steps.Garbage()
        case GarbageInFile():
            return steps.Garbage(data=step.data if step.text is None else step.text.encode())
        case _:
            native: ScriptStep = step
            return native


def _moment(step: UsageLimitedInFile, place: str) -> float:
    until = step.until
    if (until is None) == (step.seconds is None):
        raise ValueError(f"{place}: `usage_limited` needs `until` or `seconds`: give one of them")
    if not isinstance(until, datetime):
        return until if until is not None else time() + (step.seconds or 0.0)
    if until.tzinfo is None:
        raise ValueError(f"{place}: `until` must have a time zone, such as 2026-01-31T12:00:00Z")
    return until.timestamp()


# -- errors -----------------------------------------------------------------------------------------------------------


def fields_of(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a step in a file."""
    own = tuple(field.encode_name for field in msgspec.structs.fields(kind))
    return own if kind is ScriptFile else ("step", *own)


def _check_names(data: dict[str, Any], place: str, kind: type[Any]) -> None:
    known = fields_of(kind)
    for name in data:
        if name not in known:
            where = f"{place}: " if place else ""
            raise ValueError(f"{where}there is no field {_shown(name)}.{_nearest(name, known)}")


def _nearest(name: object, known: Any) -> str:
    from hackamore.checked.fields import suggestion

    return suggestion(str(name), known) or f" There are: {', '.join(f'`{each}`' for each in known)}."


def _placed(message: str, place: str) -> str:
    """Return an error of msgspec with its place in front: `steps[1] (calls).tool: expected str, got int`."""
    text, _, path = message.partition(" - at `$")
    path = path.rstrip("`")
    text = re.sub("^Object missing required field", "missing field", text)
    text = text[:1].lower() + text[1:]
    where = f"{place}{path}".removeprefix(".")
    return f"{where}: {escape_terminal(text, 300)}" if where else escape_terminal(text, 300)


def _kind_of(value: object) -> str:
    kinds = {list: "a list", str: "a text", type(None): "nothing", bool: "a boolean", dict: "an object"}
    return kinds.get(type(value), f"{type(value).__name__}")


def _shown(name: object) -> str:
    return f"`{escape_terminal(str(name), _SHOWN)}`"
