"""`SubprocessCLITransport`: the local CLI under the name of the official package, for programs that name it or build its command.

A client or query that gets one runs the child process of Hackamore. `_build_command` has the arguments of that process, in the spelling
of the official package. A subclass starts a child process of its own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec

from hackamore import errors, launch_plan
from hackamore.compat._absent import names_of
from hackamore.compat.claude_agent_sdk._errors import CLIConnectionError, CLINotFoundError, ProcessError
from hackamore.compat.claude_agent_sdk._internal._mapping import to_options
from hackamore.compat.claude_agent_sdk._internal.transport import Transport
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions
from hackamore.options.observing import logger
from hackamore.transports.process.subprocess_async import AsyncChildProcess

# Flags that the official package joins with their value, those that it gives once with all values, and the one that only Hackamore gives.
_ONE_WORD = ("--resume", "--session-id", "--resume-session-at", "--resume-drops-turn", "--setting-sources")
_JOINED = ("--allowedTools", "--disallowedTools", "--betas")
_EXTRA = "--allow-dangerously-skip-permissions"


class SubprocessCLITransport(Transport):
    """The local CLI. `prompt` is not used: prompts are frames."""

    def __init__(self, prompt: str | AsyncIterable[dict[str, Any]], options: ClaudeAgentOptions) -> None:
        self._prompt = prompt
        self._options = options
        self._cli_path: str | None = None if options.cli_path is None else str(options.cli_path)
        self._cwd: str | None = str(options.cwd) if options.cwd else None
        self._child: AsyncChildProcess | None = None

    def _build_command(self) -> list[str]:
        """Return the program and its arguments, as the official package spells them."""
        if self._cli_path is None:
            raise CLINotFoundError("The path of the CLI is not known yet. Call connect() first.")
        try:
            plan = launch_plan(to_options(self._options), find=False)
        except errors.OptionsError as error:
            if error.field == "settings":
                raise CLIConnectionError(f"Failed to load settings: {error}") from error
            raise
        words = list(plan.argv[plan.program_length :])
        return [self._cli_path, *_spelled(words, self._options)]

    async def connect(self) -> None:
        options = to_options(self._options)
        try:
            plan = await anyio.to_thread.run_sync(partial(launch_plan, options))
            self._cli_path = self._cli_path or plan.argv[plan.program_length - 1]
            argv = (*plan.argv[: plan.program_length - 1], *self._build_command())
            child = AsyncChildProcess(on_stderr=options.stderr)
            await child.start(msgspec.structs.replace(plan, argv=argv))
        except errors.CLINotFoundError as error:
            raise CLINotFoundError(f"Claude Code not found. {error}") from error
        except errors.StartError as error:
            raise CLIConnectionError(f"Failed to start Claude Code: {error}") from error
        self._child = child

    def _connected(self, problem: str) -> AsyncChildProcess:
        if self._child is None:
            raise CLIConnectionError(problem)
        return self._child

    async def write(self, data: str) -> None:
        await self._connected("ProcessTransport is not ready for writing").send(data.encode())

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        return self._read(self._connected("Not connected"))

    async def _read(self, child: AsyncChildProcess) -> AsyncIterator[dict[str, Any]]:
        begun: list[bytes] = []
        while data := await child.receive():
            whole, newline, rest = data.rpartition(b"\n")
            for line in b"".join((*begun, whole)).split(b"\n") if newline else ():
                try:
                    frame = json.loads(line or b"null")
                except ValueError:
                    logger.warning("A line of the CLI is not valid JSON: %r", line[:100])
                else:
                    if isinstance(frame, dict):
                        yield frame
            begun = [rest] if newline else [*begun, rest]
        code = await child.wait_exit()
        await child.stop(turn_open=False)  # now all of stderr has been read
        if code:
            raise ProcessError(
                f"Command failed with exit code {code}", code, child.stderr_tail.decode(errors="replace")
            )

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop(turn_open=False)

    async def end_input(self) -> None:
        if self._child is not None:
            await self._child.end_input()

    def is_ready(self) -> bool:
        return self._child is not None


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
