"""The steps of a conversation, as values: what the user says, what the model does, what happens outside, and what breaks.

They can be compared, written as JSON and read again, so that a script runs in this process, in another one, and on the real CLI.
The methods of `Script` build them, and describe the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from hackamore.errors import escape_terminal
from hackamore.testing.shortening import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Refusal: TypeAlias = Annotated[int, msgspec.Meta(ge=400, le=599)]
_ExitCode: TypeAlias = Annotated[int, msgspec.Meta(ge=-64, le=255)]


class StepBase(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="step", omit_defaults=True, forbid_unknown_fields=True
):
    """The base of all steps."""

    def describe(self) -> str:
        """Return the step on one line, without what is not set."""
        shown = []
        for name, value in msgspec.structs.asdict(self).items():
            default = next(field.default for field in msgspec.structs.fields(self) if field.name == name)
            if value != default and value not in ({}, (), []):
                shown.append(f"{name}={value!r}" if name not in ("text", "tool", "event") else repr(value))
        return escape_terminal(shorten(f"{self.__struct_config__.tag} {', '.join(shown)}".rstrip(), 200))


_SHOWN = 120
"""Characters of a prompt that are shown whole."""


def _part(text: str, first: int, end: int) -> str:
    return f"{'...' if first else ''}{text[first:end]!r}{'...' if end < len(text) else ' (its end)'}"


class UserSays(StepBase, frozen=True, kw_only=True, tag="user"):
    """The host sends a prompt."""

    text: str | None = None
    contains: str | None = None

    def fits(self, prompt: str) -> bool:
        """Return whether this is the prompt that is meant."""
        if self.text is not None and prompt != self.text:
            return False
        return self.contains is None or self.contains in prompt

    def mismatch(self, prompt: str) -> str:
        """Return how a prompt differs from the one that is meant; of long ones the place where they part."""
        wanted = self.text
        if wanted is None or len(wanted) <= _SHOWN or len(prompt) <= _SHOWN:
            return f"the prompt was {prompt!r}, and the script has {self.describe()}"
        parting = (place for place, (ours, theirs) in enumerate(zip(wanted, prompt, strict=False)) if ours != theirs)
        place = next(parting, min(len(wanted), len(prompt)))
        first, end = max(0, place - _SHOWN // 4), place + _SHOWN // 2
        return (
            f"the prompt is another one from character {place} on: it goes {_part(prompt, first, end)}, "
            f"and in the script {_part(wanted, first, end)}"
        )


class Thinks(StepBase, frozen=True, kw_only=True, tag="thinks"):
    """The model thinks aloud."""

    text: str = ""
    signature: str = "c2NyaXB0ZWQ="


class Says(StepBase, frozen=True, kw_only=True, tag="says"):
    """The model says something."""

    text: str = ""
    chunk: Annotated[int, msgspec.Meta(ge=1)] | None = None
    delay: _Seconds = 0.0


class Calls(StepBase, frozen=True, kw_only=True, tag="calls"):
    """The model calls a tool."""

    tool: str
    input: dict[str, Any] = {}
    result: str | list[Any] = ""
    error: str | None = None
    structured: Any = None
    together: bool = False
    endless: bool = False
    agent: tuple[ScriptStep, ...] = ()
    id: str | None = None


class ExpectPermission(StepBase, frozen=True, kw_only=True, tag="expect_permission"):
    """The host received a permission request for a tool, and decided it."""

    tool: str
    decision: Literal["allow", "deny"] | None = None
    input: dict[str, Any] | None = None


class ExpectHook(StepBase, frozen=True, kw_only=True, tag="expect_hook"):
    """A hook was called."""

    event: str
    output: dict[str, Any] | None = None


class ExpectResult(StepBase, frozen=True, kw_only=True, tag="expect_result"):
    """The last tools gave this to the model."""

    text: str = ""
    error: bool | None = None


class Retry(StepBase, frozen=True, kw_only=True, tag="retries"):
    """The API refuses some tries; the CLI reports it, waits, and tries again."""

    status: _Refusal = 529
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1
    delay: _Seconds = 0.5


class ApiFailure(StepBase, frozen=True, kw_only=True, tag="api_error"):
    """The API refuses for good: the turn ends in an error."""

    status: _Refusal = 500
    message: str = "Scripted failure"


class UsageLimit(StepBase, frozen=True, kw_only=True, tag="usage_limited"):
    """A limit of the plan ends each turn that comes here before a moment, in seconds since 1970."""

    until: float
    kind: str = "five_hour"


class TaskEnds(StepBase, frozen=True, kw_only=True, tag="task_ends"):
    """A background task comes to its end; what the model does then follows, in a turn of its own."""

    status: Literal["completed", "failed", "stopped"] = "completed"
    summary: str | None = None
    exit_code: int = 0


class Compacts(StepBase, frozen=True, kw_only=True, tag="compacts"):
    """The conversation is compacted."""

    summary: str = ""
    trigger: Literal["manual", "auto"] = "manual"


class Interrupted(StepBase, frozen=True, kw_only=True, tag="interrupted"):
    """The model is silent until the host interrupts the turn."""

    after: str = ""


class Slow(StepBase, frozen=True, kw_only=True, tag="slow"):
    """The model takes its time."""

    seconds: _Seconds = 0.0


class Crash(StepBase, frozen=True, kw_only=True, tag="crash"):
    """The process ends."""

    exit_code: _ExitCode = 1
    stderr: str = ""


class Hang(StepBase, frozen=True, kw_only=True, tag="hang"):
    """Nothing comes any more, and nothing is answered, until the process is ended."""


class IgnoreTermination(StepBase, frozen=True, kw_only=True, tag="ignore_sigterm"):
    """From here on the process ignores SIGTERM and the end of its input: only SIGKILL ends it."""


class Garbage(StepBase, frozen=True, kw_only=True, tag="garbage"):
    """Bytes that are not a frame."""

    data: bytes = b"this is not JSON\n"


class Cut(StepBase, frozen=True, kw_only=True, tag="cut"):
    """The process ends in the middle of its next line."""

    bytes_kept: Annotated[int, msgspec.Meta(ge=0)] | None = None
    exit_code: _ExitCode = 1


class Emit(StepBase, frozen=True, kw_only=True, tag="frame"):
    """A frame is sent as it is, known or unknown."""

    frame: dict[str, Any]


ScriptStep: TypeAlias = (
    UserSays
    | Thinks
    | Says
    | Calls
    | ExpectPermission
    | ExpectHook
    | ExpectResult
    | Retry
    | ApiFailure
    | UsageLimit
    | TaskEnds
    | Compacts
    | Interrupted
    | Slow
    | Crash
    | Hang
    | IgnoreTermination
    | Garbage
    | Cut
    | Emit
)
"""One step of a script."""

REPLY_STEPS = (Thinks, Says, Calls)
"""Steps that make up a reply of the model."""
EXPECTATIONS = (ExpectPermission, ExpectHook, ExpectResult)
"""Steps that only check."""
FAULTS = (Crash, Hang, IgnoreTermination, Garbage, Cut, Emit)
"""Steps that a real CLI cannot be made to do by its model."""


def contradiction(step: ScriptStep, before: ScriptStep | None) -> str | None:
    """Return how the values of a step contradict each other, or the step before it; None if they do not."""
    match step:
        case UserSays(text=str(), contains=str()):
            return "`text` is the whole prompt, `contains` a part of it: give one of them"
        case Calls(error=str()) if step.result:
            return "a tool has a `result` or fails with an `error`: give one of them"
        case Calls(together=True) if not isinstance(before, Calls):
            return "`together` needs a call right before it"
        case _:
            return None


def subagent_call(prompt: str, work: Sequence[ScriptStep], *, description: str, kind: str, background: bool) -> Calls:
    """Return the call that starts a subagent; raise ValueError if its work contains a step that no subagent can do."""
    odd = [step for step in work if not isinstance(step, REPLY_STEPS + EXPECTATIONS)]
    if odd:
        raise ValueError(f"a subagent cannot do this: {odd[0].describe()}")
    arguments = {"description": description, "prompt": prompt, "subagent_type": kind, "run_in_background": background}
    return Calls(tool="Task", input=arguments, agent=tuple(work))
