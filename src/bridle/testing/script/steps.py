"""The steps of a conversation, as values: what the user says, what the model does, what happens outside, and what breaks.

They can be compared, written as JSON and read again, so that a script runs in this process, in another one, and on the real CLI.
`Script` builds them; nobody else needs to name them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from bridle.errors import printable
from bridle.testing.model.requests import shorten

__all__ = [
    "EXPECTATIONS",
    "FAULTS",
    "REPLY_STEPS",
    "ApiFailure",
    "Calls",
    "Compacts",
    "Crash",
    "Cut",
    "Emit",
    "ExpectHook",
    "ExpectPermission",
    "ExpectResult",
    "Garbage",
    "Hang",
    "IgnoreTermination",
    "Interrupted",
    "Retry",
    "Says",
    "ScriptStep",
    "Slow",
    "StepBase",
    "TaskEnds",
    "Thinks",
    "UserSays",
]


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
        return printable(shorten(f"{_words(type(self).__name__)} {', '.join(shown)}".rstrip(), 200))


_SHOWN = 120
"""Characters of a prompt that are shown whole."""


def _part(text: str, first: int, end: int) -> str:
    return f"{'...' if first else ''}{text[first:end]!r}{'...' if end < len(text) else ' (its end)'}"


def _words(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class UserSays(StepBase, frozen=True, kw_only=True, tag="user"):
    """The host sends a prompt.

    Attributes:
        text: the whole prompt; None for any.
        contains: a part of it.
    """

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
    """The model says something.

    Attributes:
        text: what.
        chunk: characters in each delta, where partial messages are asked for; None sends all in one.
        delay: seconds between two deltas.
    """

    text: str = ""
    chunk: Annotated[int, msgspec.Meta(ge=1)] | None = None
    delay: _Seconds = 0.0


class Calls(StepBase, frozen=True, kw_only=True, tag="calls"):
    """The model calls a tool.

    Attributes:
        tool: its name; `mcp__SERVER__NAME` for one of a server.
        input: its arguments.
        result: what the simulated tool gives: text, or content blocks. A tool of this process is really called instead.
        error: the simulated tool fails with this text.
        structured: the tool's own form of its result (`tool_use_result`); by default what the real one has, as far as it can be known.
        together: in the same message as the call before it, so that both run side by side.
        endless: the tool runs until it is interrupted.
        agent: for `Task`: what the subagent does.
        id: the call's id.
    """

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
    """The host was asked about a tool, and decided so.

    Attributes:
        tool: its name.
        decision: what the host said; None for either.
        input: what it is allowed to do in the end; None for anything.
    """

    tool: str
    decision: Literal["allow", "deny"] | None = None
    input: dict[str, Any] | None = None


class ExpectHook(StepBase, frozen=True, kw_only=True, tag="expect_hook"):
    """A hook was called.

    Attributes:
        event: its event.
        output: fields that its answer must have; None for any answer.
    """

    event: str
    output: dict[str, Any] | None = None


class ExpectResult(StepBase, frozen=True, kw_only=True, tag="expect_result"):
    """The last tools gave this to the model.

    Attributes:
        text: a part of it.
        error: whether it is an error; None for either.
    """

    text: str = ""
    error: bool | None = None


class Retry(StepBase, frozen=True, kw_only=True, tag="retry"):
    """The API refuses some tries; the CLI says so, waits, and tries again.

    Attributes:
        status: the HTTP status: 429 for a rate limit, 529 for an overloaded model, 500 and others.
        attempts: how many tries.
        delay: seconds between two of them.
    """

    status: _Refusal = 529
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1
    delay: _Seconds = 0.5


class ApiFailure(StepBase, frozen=True, kw_only=True, tag="api_failure"):
    """The API refuses for good: the turn ends in an error.

    Attributes:
        status: the HTTP status.
        message: what the API says.
    """

    status: _Refusal = 500
    message: str = "Scripted failure"


class TaskEnds(StepBase, frozen=True, kw_only=True, tag="task_ends"):
    """A background task comes to its end; what the model does then follows, in a turn of its own.

    Attributes:
        status: how it ended.
        summary: what is said about it; by default what the CLI would say.
        exit_code: of a shell command.
    """

    status: Literal["completed", "failed", "stopped"] = "completed"
    summary: str | None = None
    exit_code: int = 0


class Compacts(StepBase, frozen=True, kw_only=True, tag="compacts"):
    """The conversation is compacted.

    Attributes:
        summary: what remains of it.
        trigger: `manual` after the prompt `/compact`, `auto` otherwise.
    """

    summary: str = ""
    trigger: Literal["manual", "auto"] = "manual"


class Interrupted(StepBase, frozen=True, kw_only=True, tag="interrupted"):
    """The model is silent until the host interrupts the turn.

    Attributes:
        after: text that is streamed before the silence.
    """

    after: str = ""


class Slow(StepBase, frozen=True, kw_only=True, tag="slow"):
    """The model takes its time.

    Attributes:
        seconds: how long, before the time scale of the simulated CLI.
    """

    seconds: _Seconds = 0.0


class Crash(StepBase, frozen=True, kw_only=True, tag="crash"):
    """The process ends.

    Attributes:
        exit_code: its status; negative for a signal.
        stderr: what it prints before.
    """

    exit_code: _ExitCode = 1
    stderr: str = ""


class Hang(StepBase, frozen=True, kw_only=True, tag="hang"):
    """Nothing comes any more, and nothing is answered, until the process is ended."""


class IgnoreTermination(StepBase, frozen=True, kw_only=True, tag="ignore_sigterm"):
    """From here on the process ignores SIGTERM and the end of its input: only SIGKILL ends it."""


class Garbage(StepBase, frozen=True, kw_only=True, tag="garbage"):
    """Bytes that are no frame.

    Attributes:
        data: they, exactly.
    """

    data: bytes = b"this is not JSON\n"


class Cut(StepBase, frozen=True, kw_only=True, tag="cut"):
    """The process ends in the middle of its next line.

    Attributes:
        bytes_kept: how much of that line gets through; None for half of it.
        exit_code: the process's status.
    """

    bytes_kept: Annotated[int, msgspec.Meta(ge=0)] | None = None
    exit_code: _ExitCode = 1


class Emit(StepBase, frozen=True, kw_only=True, tag="emit"):
    """A frame is sent as it is, known or unknown.

    Attributes:
        frame: it; session id and uuid are added where they are missing.
    """

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
"""What a reply of the model is made of."""
EXPECTATIONS = (ExpectPermission, ExpectHook, ExpectResult)
"""What is only looked at."""
FAULTS = (Crash, Hang, IgnoreTermination, Garbage, Cut, Emit)
"""What a real CLI cannot be made to do by its model."""
