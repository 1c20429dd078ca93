"""`SubprocessCLITransport`: the local CLI under the name of the official package, for programs that name it or build its command.

A client or query that gets one runs the child process of Hackamore. `_build_command` has the arguments of that process, in the spelling
of the official package.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import closing, suppress
from typing import Any

import hackamore.sync
from hackamore.compat._absent import names_of
from hackamore.compat.claude_agent_sdk._errors import CLIConnectionError, CLINotFoundError
from hackamore.compat.claude_agent_sdk._internal._mapping import to_options
from hackamore.compat.claude_agent_sdk._internal.transport import Transport
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions
from hackamore.errors import OptionsError, StartError
from hackamore.transports.base import LaunchPlan

_ONE_WORD = ("--resume", "--session-id", "--resume-session-at", "--resume-drops-turn", "--setting-sources")
"""Flags that the official package joins with their value."""
_JOINED = ("--allowedTools", "--disallowedTools", "--betas")
"""Flags that it gives once, with all values."""
_EXTRA = "--allow-dangerously-skip-permissions"
"""The flag that only Hackamore gives."""


class _PlannedError(StartError):
    """Ends a start whose plan is known."""


class _Planner:
    """A transport that keeps the plan of a start and starts nothing."""

    pid: int | None = None
    stderr_tail: bytes = b""
    plan: LaunchPlan

    def start(self, plan: LaunchPlan) -> None:
        self.plan = plan
        raise _PlannedError("planned")

    def send(self, data: bytes) -> None: ...
    def end_input(self) -> None: ...
    def receive(self, timeout: float | None = None) -> bytes | None: ...
    def wait_exit(self, timeout: float | None = None) -> int | None: ...
    def stop(self, *, turn_open: bool) -> None: ...
    def abandon(self) -> None: ...


def launch_plan(options: ClaudeAgentOptions) -> LaunchPlan:
    """Return the command line, variables and fields of `initialize` that options lead to."""
    planner = _Planner()
    session = hackamore.sync.Session(to_options(options), transport=planner)
    with closing(session), suppress(_PlannedError):
        session.start()
    return planner.plan


class SubprocessCLITransport(Transport):
    """The local CLI. `prompt` is not used: prompts are frames."""

    def __init__(self, prompt: str | AsyncIterable[dict[str, Any]], options: ClaudeAgentOptions) -> None:
        self._prompt = prompt
        self._options = options
        self._cli_path: str | None = None if options.cli_path is None else str(options.cli_path)
        self._cwd: str | None = str(options.cwd) if options.cwd else None
        self._ready = False

    def _build_command(self) -> list[str]:
        """Return the program and its arguments, as the official package spells them."""
        if self._cli_path is None:
            raise CLINotFoundError("The path of the CLI is not known yet. Call connect() first.")
        try:
            plan = launch_plan(self._options)
        except OptionsError as error:
            if error.field == "settings":
                raise CLIConnectionError(f"Failed to load settings: {error}") from error
            raise
        words = list(plan.argv[plan.program_length :])
        return [self._cli_path, *_spelled(words, self._options)]

    async def connect(self) -> None:
        raise CLIConnectionError("Pass this transport to ClaudeSDKClient or query(), which start the CLI.")

    async def write(self, data: str) -> None:
        raise CLIConnectionError("ProcessTransport is not ready for writing")

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        raise CLIConnectionError("Not connected")

    async def close(self) -> None:
        self._ready = False

    async def end_input(self) -> None:
        """Close stdin."""

    def is_ready(self) -> bool:
        return self._ready


def _spelled(words: list[str], options: ClaudeAgentOptions) -> list[str]:
    """Return arguments with a flag and its value as two words, and with lists in one value."""
    spelled: list[str] = []
    joined: dict[str, int] = {}
    extra = {f"--{name}={value}" for name, value in options.extra_args.items() if str(value).startswith("-")}
    for word in words:
        flag, equals, value = word.partition("=")
        if word == _EXTRA and word[2:] not in options.extra_args:
            continue
        if not equals or flag in _ONE_WORD or word in extra or not flag.startswith("--"):
            spelled.append(word)
        elif flag in joined:
            spelled[joined[flag]] += f",{value}"
        else:
            spelled += [flag, value]
            if flag in _JOINED:
                joined[flag] = len(spelled) - 1
    return spelled


_LOCAL = SubprocessCLITransport


def is_local(transport: object) -> bool:
    """Return whether this is the local CLI itself, and no subclass or double that moves bytes of its own."""
    return type(transport) is _LOCAL


__getattr__ = names_of("transport.subprocess_cli")
