"""`build_plan`: from options and a prompt to everything that starting the CLI takes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.checked.checks import wrong
from bridle.errors import OptionsError, StreamWarning, printable
from bridle.launch.conflicts import conflicts, sent_twice
from bridle.launch.discovery import SCRIPT_SUFFIXES, find_program
from bridle.launch.encode import in_process_servers
from bridle.launch.environment import build_environment
from bridle.launch.table import ROWS, ROWS_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.options.options import Options

__all__ = ["LaunchPlan", "build_plan", "encode_prompt", "in_process_servers", "needs_session"]

MAX_ARGUMENT = 128 * 1024
"""The longest single argument or variable that Linux takes, its ending NUL included (MAX_ARG_STRLEN)."""

_BASE = ("--output-format", "stream-json", "--verbose")
# Arguments that are not flags of Bridle, even if they begin with a dash.
_SECRET_WHOLE = frozenset({"prompt", "executable_args"})


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that starting the CLI takes.

    Attributes:
        argv: the program and its arguments.
        environment: all variables of the child.
        cwd: its working directory, or None to inherit.
        stdin: what is written to its stdin before that is closed; None keeps it open for a session.
        user: the user it runs as, or None.
        initialize: fields for the `initialize` request; hooks come on top.
        warnings: what was decided between options that contradict each other.
        owners: for each argument the option it comes from, or "".
        program_length: how many arguments the program itself takes: 1, or more for a script with its runtime.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: str | None = None
    stdin: bytes | None = None
    user: str | int | None = None
    initialize: dict[str, Any] = {}
    warnings: tuple[StreamWarning, ...] = ()
    owners: tuple[str, ...] = ()
    program_length: int = 1

    @property
    def version_argv(self) -> tuple[str, ...]:
        """The command that asks for the version."""
        return (*self.argv[: self.program_length], "--version")

    def describe(self) -> str:
        """Return the plan as text for people, without secrets."""
        import shlex

        command = " ".join(shlex.quote(_shown(owner, part)) for owner, part in zip(self.owners, self.argv, strict=True))
        lines = [
            f"command: {command}",
            f"cwd: {self.cwd if self.cwd is not None else '(inherited)'}",
            f"stdin: {'open' if self.stdin is None else f'{len(self.stdin)} bytes'}",
            f"variables: {', '.join(sorted(self.environment))}",
        ]
        if self.user is not None:
            lines.append(f"user: {self.user}")
        if self.initialize:
            lines.append(f"initialize: {', '.join(self.initialize)}")
        lines.extend(f"warning: {warning}" for warning in self.warnings)
        return printable("\n".join(lines), 20_000)

    def __repr__(self) -> str:
        return f"<LaunchPlan {self.describe()}>"


def _shown(owner: str, part: str) -> str:
    flag, equals, value = part.partition("=")
    if owner in _SECRET_WHOLE:
        return "..."
    if owner in ROWS_BY_NAME and ROWS_BY_NAME[owner].secret:
        return f"{flag}=..." if equals else flag
    return f"{flag}{equals}{value[:77]}..." if len(value) > 80 else part


def needs_session(options: Options) -> list[str]:
    """Return the names of the set options that need the bidirectional protocol."""
    return [option.name for option in ROWS if option.needs_session(options)]


def encode_prompt(prompt: str) -> bytes:
    """Return the prompt as the CLI's stdin takes it.

    Raises:
        TypeError: it is no str.
        OptionsError: it is empty, or cannot be written as UTF-8.
    """
    if not isinstance(prompt, str):
        raise TypeError(f"The prompt must be a str here, not {type(prompt).__name__}.")
    if not prompt.strip():
        raise OptionsError("The prompt is empty: the CLI needs something to answer.", field="prompt")
    if "\0" in prompt:
        raise OptionsError("The prompt contains a NUL character; remove it.", field="prompt")
    try:
        return prompt.encode()
    except UnicodeEncodeError as error:
        raise OptionsError(
            f"The prompt has a lone surrogate at position {error.start}, which is no Unicode text; decode it with "
            "errors='replace' where it comes from.",
            field="prompt",
        ) from None


def build_plan(
    options: Options,
    *,
    prompt: str | None,
    cli_path: str = "claude",
    session: bool,
    base_environment: Mapping[str, str],
    child_id: str,
    local: bool = True,
) -> LaunchPlan:
    """Return what starting the CLI takes; starts nothing.

    Args:
        options: what was asked for.
        prompt: the prompt of a one-shot; None for a session.
        cli_path: the CLI that was found.
        session: True for the bidirectional protocol.
        base_environment: the variables of this process.
        child_id: a random id for the child.
        local: False if the CLI runs elsewhere: then `cwd` is a folder there, and is not looked for here.

    Raises:
        TypeError: the prompt is no str.
        OptionsError: the prompt is empty or no text, `cwd` is no folder, a settings file cannot be read, or an argument
            is too long for the operating system.
    """
    cwd = None if options.cwd is None else os.path.abspath(options.cwd) if local else os.fspath(options.cwd)
    if local and cwd is not None and not os.path.isdir(cwd):
        problem = "is not a folder" if os.path.exists(cwd) else "does not exist"
        raise wrong("cwd", f"{problem}: {printable(cwd, 500)}")
    environment = build_environment(options, base_environment, child_id)
    owned = _program(options, cli_path, environment)
    program_length = len(owned)
    if not session:
        owned.append(("", "--print"))
    owned.extend(("", part) for part in _BASE)
    initialize: dict[str, Any] = {}
    for option in ROWS:
        if option.argv is not None:
            owned.extend((option.name, part) for part in option.argv(options))
        if session and option.initialize is not None:
            initialize.update(option.initialize(options))
    stdin: bytes | None = None
    if session:
        owned.extend([("", "--input-format"), ("", "stream-json")])
    else:
        stdin = encode_prompt(prompt if prompt is not None else "")
        if options.prompt_channel == "argv":
            owned.extend([("", "--"), ("prompt", prompt or "")])
            stdin = b""
    _check_sizes(owned, environment)
    return LaunchPlan(
        argv=tuple(part for _, part in owned),
        environment=environment,
        cwd=cwd,
        stdin=stdin,
        user=options.user,
        initialize=initialize,
        warnings=(*conflicts(options), *sent_twice(owned[program_length:])),
        owners=tuple(owner for owner, _ in owned),
        program_length=program_length,
    )


def _program(options: Options, cli_path: str, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    if not cli_path.endswith(SCRIPT_SUFFIXES):
        return [("cli_path", cli_path)]
    wanted = options.executable or "node"
    runtime = wanted if os.path.isabs(wanted) else find_program(wanted, environment)
    if runtime is None:
        raise OptionsError(
            f"The CLI is a script and PATH has no {wanted!r} to run it; set `executable`.", field="executable"
        )
    return [
        ("executable", runtime),
        *(("executable_args", part) for part in options.executable_args),
        ("cli_path", cli_path),
    ]


def argument_space() -> int:
    """Return how many bytes arguments and variables may have together."""
    # Linux reports a quarter of the stack limit, but never takes more than 6 MiB. One page is left for what execve adds.
    return min(os.sysconf("SC_ARG_MAX"), 6 * 1024 * 1024) - 4096


def _check_sizes(owned: list[tuple[str, str]], environment: Mapping[str, str]) -> None:
    """Refuse what execve would refuse with a bare E2BIG, and say which option it is."""
    total = 0
    for owner, part in owned:
        if "\0" in part:
            raise wrong(owner, "must not contain a NUL character.")
        try:
            size = len(os.fsencode(part)) + 1
        except UnicodeEncodeError:
            raise wrong(owner, "must not contain lone surrogates.") from None
        if size > MAX_ARGUMENT and sys.platform == "linux":
            way_out = ROWS_BY_NAME[owner].row.way_out if owner in ROWS_BY_NAME else ""
            if owner == "prompt":
                way_out = "Use prompt_channel='stdin'."
            problem = f"is too long for a command line: {size:,} bytes; one argument may have {MAX_ARGUMENT:,}."
            raise wrong(owner, f"{problem} {way_out}")
        total += size + 8
    for name, value in environment.items():
        size = len(os.fsencode(name)) + len(os.fsencode(value)) + 2
        if size > MAX_ARGUMENT and sys.platform == "linux":
            raise OptionsError(
                f"The variable {printable(name, 100)} is too long: {size:,} bytes, and one may have {MAX_ARGUMENT:,}.",
                field=f"env.{name}",
            )
        total += size + 8
    limit = argument_space()
    if limit < total:
        largest = max(owned, key=lambda entry: len(entry[1]))[0]
        raise OptionsError(
            f"Arguments and variables have {total:,} bytes together, and the operating system takes {limit:,}. "
            f"The longest argument comes from `{largest}`.",
            field=largest,
        )
