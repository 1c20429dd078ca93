"""Tasks of a fleet: the prompt, the check of the answer, and the result."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from hackamore.checked.fields import REQUIRED, to_wire
from hackamore.checked.schemas import schema_for
from hackamore.errors import OptionsError
from hackamore.fleet.workspaces import Workspace
from hackamore.options.options import NO_SESSION
from hackamore.options.retry import Retry

if TYPE_CHECKING:
    from datetime import datetime

    from hackamore.options.options import Options

T = TypeVar("T")

A_RETRY = "a hackamore.Retry"
A_WORKSPACE = "a Worktree, Copy or Folder"
_LONGEST_ID = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an attempt, as the check of its task gets it.

    Attributes:
        task: the id of the task.
        attempt: the number of the attempt, from 1.
        text: the final text.
        output: the typed object, if the task has an `output_type`; else the structured output, if there is one; else None.
        folder: the folder that the agent worked in.
        branch: the branch of its worktree; None without one.
        session_id: the session.
    """

    task: str
    attempt: int
    text: str
    output: Any
    folder: str
    branch: str | None
    session_id: str


Verify: TypeAlias = Callable[[Answer], object] | Sequence[str]
"""A check: a function, or a command with its arguments.

A function returns True or None for a good answer, False or a text with the reason for a bad one; an `AssertionError` is a bad one too. A
command runs in the folder of the agent, without a shell; a good answer has the exit code 0, and the end of its output is the reason
otherwise.
"""


class Task:
    """One piece of work for an agent.

    Args:
        id: names it in the journal: the same id is the same task, also after a restart.
        prompt: a text, or a list of content blocks.
        options: differences from the options of the fleet, by name, such as `{"model": "sonnet"}`.
        output_type: a type for the answer, as for `run`.
        verify: a check of the answer: a function or a command, see `Verify`. It runs in a thread or process of the fleet.
        workspace: the folder for its attempts; None for that of the fleet.
        retry: its retries; None for those of the fleet.
        tags: texts to find it by in results, such as `{"suite": "lint", "repeat": "2"}`.

    Raises:
        OptionsError: an argument has a wrong type or value.

    Example:
        ::

            Task("fix-101", "Fix issue 101.", options={"max_turns": 30}, verify=["pytest", "-q"])
    """

    __slots__ = ("id", "options", "output_type", "prompt", "retry", "tags", "verify", "workspace")

    def __init__(
        self,
        id: str,  # noqa: A002 - the name that users read
        prompt: str | Sequence[Mapping[str, Any]],
        *,
        options: Mapping[str, Any] | None = None,
        output_type: Any = None,
        verify: Verify | None = None,
        workspace: Workspace | None = None,
        retry: Retry | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.id: str = _checked_id(id)
        where = f"of task {id!r}"
        self.prompt: str | list[dict[str, Any]] = _checked_prompt(prompt, where)
        differences = "a mapping of differences, such as {'model': 'sonnet'}"
        checked(options, Mapping, "options", differences, where)
        self.options: dict[str, Any] = dict(options or {})
        self.output_type: Any = output_type
        self.verify: Verify | None = _checked_verify(verify, where)
        self.workspace: Workspace | None = checked(workspace, Workspace, "workspace", A_WORKSPACE, where)
        self.retry: Retry | None = checked(retry, Retry, "retry", A_RETRY, where)
        self.tags: dict[str, str] = _checked_tags(tags, where)

    def __repr__(self) -> str:
        return f"Task({self.id!r}, {self.prompt!r:.60})"


def checked(value: T, kind: type, name: str, what: str, where: str = "") -> T:
    """Return a setting of the class, or None; else raise `OptionsError`, which says `what` it must be, and of what."""
    if value is None or isinstance(value, kind):
        return value
    of = f" {where}" if where else ""
    raise OptionsError(f"`{name}`{of} must be {what}, got {value!r:.100}", field=name)


def _checked_id(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_ID or _CONTROL.search(value):
        raise OptionsError(
            f"`id` of a task must be a text of 1 to {_LONGEST_ID} characters without control characters or lone surrogates, "
            f"got {value!r:.100}",
            field="id",
        )
    return value


def _checked_prompt(value: object, where: str) -> str | list[dict[str, Any]]:
    if value and isinstance(value, str):
        return value
    if value and isinstance(value, Sequence) and all(isinstance(each, Mapping) for each in value):
        return [dict(each) for each in value]
    raise OptionsError(
        f"`prompt` {where} must be a text or a list of content blocks, got {value!r:.100}", field="prompt"
    )


def _checked_verify(value: object, where: str) -> Verify | None:
    if value is None or callable(value):
        return value
    if value and isinstance(value, Sequence) and not isinstance(value, str):
        words = tuple(value)
        if all(isinstance(each, str) for each in words):
            return words
    raise OptionsError(
        f"`verify` {where} must be a function, or a command as a list of texts such as ['pytest', '-q'], got {value!r:.100}",
        field="verify",
    )


def _checked_tags(value: object, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair):
        return dict(value)
    raise OptionsError(f"`tags` {where} must be a mapping of texts, got {value!r:.100}", field="tags")


class FleetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task, as the journal has it.

    Attributes:
        task: its id.
        state: `queued`, `leased`, `running`, `verifying`, `waiting`, `succeeded`, `failed` or `cancelled`.
        attempt: the attempts so far, those that were resumed or given back included.
        failures: the attempts that count against `Retry.attempts`.
        text: the final text of the answer; None without one.
        output: the structured output; an object of the task's `output_type`, if this fleet knows the task.
        cost: US dollars that all attempts spent.
        tokens: tokens that all attempts used: read, written and cached ones.
        seconds: the time that all attempts took.
        session_id: the session of the last attempt.
        branch: the branch with the work; None without one.
        folder: the folder with the work, where it was kept.
        cause: why the last attempt failed, such as `crash` or `verify`; None if it did not.
        error: the text of that error.
        not_before: for `waiting`: the time of the next attempt, in UTC.
        unknown_calls: model calls that `cost` may lack: calls that were open when a process was stopped or killed, and one reply for each
            killed process, which writes its replies late. The API may have billed them.
        tags: the tags of the task.
    """

    task: str
    state: str
    attempt: int
    failures: int
    text: str | None
    output: Any
    cost: float
    tokens: int
    seconds: float
    session_id: str | None
    branch: str | None
    folder: str | None
    cause: str | None
    error: str | None
    not_before: datetime | None
    unknown_calls: int
    tags: dict[str, str]


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as the journal compares it: what makes its answer what it is. Secrets are in it as digests alone."""

    prompt: str | list[dict[str, Any]]
    options: dict[str, Any] = {}
    output: Any = None
    verify: str | list[str] | None = None
    resume: bool = True
    tags: dict[str, str] = {}


_LEFT_OUT = frozenset({"env", *NO_SESSION})
"""Options that are not compared: the account and the conversation of the CLI. Keys are renewed between two nights."""
_COMPARED = ("argv", "initialize", "environment")


def spec_of(task: Task, options: Options, retry: Retry, salt: bytes) -> Spec:
    """Return what the journal keeps of a task; `salt` is the key for digests of secrets."""
    verify: str | list[str] | None = None
    if callable(task.verify):
        function = task.verify
        verify = (
            f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        )
    elif task.verify is not None:
        verify = list(task.verify)
    return Spec(
        prompt=task.prompt,
        options=_plain_options(options, salt),
        output=None if task.output_type is None else schema_for(task.output_type),
        verify=verify,
        resume=retry.resume,
        tags=task.tags,
    )


def _plain_options(options: Options, salt: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    fields = type(options).__fields__
    for name, value in options.given().items():
        field = fields[name]
        if name in _LEFT_OUT or getattr(field.row, "kind", None) not in _COMPARED or field.default is REQUIRED:
            continue
        shown = _plain(to_wire(value))
        found[name] = _digest(shown, salt) if field.secret else shown
    return found


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; objects by the names of their classes, which are the same in every process."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(name): _plain(part) for name, part in value.items()}
        case list():
            return [_plain(part) for part in value]
        case _ if (path := getattr(value, "__fspath__", None)) is not None:
            return str(path())
        case _:
            return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _digest(value: Any, salt: bytes) -> str:
    text = msgspec.json.encode(value, order="sorted")
    return f"<hidden {hmac.new(salt, text, hashlib.sha256).hexdigest()[:16]}>"
