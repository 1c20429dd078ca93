"""One CLI as the client and `query` of the official package use it: a `hackamore.Session` with its errors translated.

A transport of the official package becomes one of Hackamore: dicts and lines there, bytes here.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterable, Mapping
from typing import Any, NoReturn

import anyio
import anyio.lowlevel

import hackamore
from hackamore import errors
from hackamore.compat._use import USED
from hackamore.compat.claude_agent_sdk import _errors as sdk
from hackamore.compat.claude_agent_sdk._internal._mapping import run_end_ceiling_ms, to_options
from hackamore.compat.claude_agent_sdk._internal._task_compat import TaskHandle, spawn_detached
from hackamore.compat.claude_agent_sdk._internal.message_parser import parse_message
from hackamore.compat.claude_agent_sdk._internal.transport import Transport
from hackamore.compat.claude_agent_sdk._internal.transport.subprocess_cli import is_local
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions, Message
from hackamore.options.observing import logger
from hackamore.transports.base import LaunchPlan

_NAMING = {"user_message_uuid", "user_message_uuids"}  # fields in which the CLI names prompts


class TransportAdapter:
    """Reads a transport in a task of its own, because an iterator does not survive a cancelled `receive`."""

    pid: int | None = None
    stderr_tail: bytes = b""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._failure: Exception | None = None  # of the iterator
        self._lines: deque[bytes] = deque()
        self._change = anyio.Event()
        self.sent = 0  # writes, refused ones included
        self._ended = False
        self._reader: TaskHandle | None = None
        self._stopped = False
        self._refused: Exception | None = None

    async def taken(self, before: int) -> None:
        """Wait until the transport has taken more than `before` writes, or is over; raise its exception if it refused."""
        while self.sent <= before and not self._ended and not self._stopped:
            await self._change.wait()
        if self._refused is not None:
            raise self._refused

    def _changed(self) -> None:
        self._change.set()
        self._change = anyio.Event()

    async def start(self, plan: LaunchPlan) -> None:
        try:
            await self.transport.connect()
        except Exception as error:
            raise errors.StartError(str(error)) from error
        self._reader = spawn_detached(self._read())

    async def _read(self) -> None:
        try:
            async for frame in self.transport.read_messages():
                self._lines.append(json.dumps(frame).encode() + b"\n")
                self._changed()
        except Exception as error:
            self._failure = error
        finally:
            self._ended = True
            self._changed()

    async def send(self, data: bytes) -> None:
        try:
            for line in data.split(b"\n")[:-1]:  # U+2028 is not a line end
                await self.transport.write(f"{line.decode()}\n")
        except Exception as error:
            self._refused = error
            raise errors.StreamError(str(error)) from error
        finally:
            self.sent += 1
            self._changed()

    async def end_input(self) -> None:
        await self.transport.end_input()

    async def receive(self) -> bytes:
        while not self._lines and not self._ended:
            await self._change.wait()
        data = b"".join(self._lines)
        self._lines.clear()
        if not data and self._failure is not None:
            raise errors.StreamError(str(self._failure)) from self._failure
        return data

    async def wait_exit(self) -> int | None:
        return 0

    async def stop(self, *, turn_open: bool) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._changed()
        with anyio.CancelScope(shield=True):
            if self._reader is not None:
                self._reader.cancel()
                await self._reader.wait()
            await self.transport.close()

    def abandon(self) -> None:
        if self._reader is not None:
            self._reader.cancel()


class Conversation:
    """A session from its start to its end."""

    def __init__(self, options: ClaudeAgentOptions, transport: Transport) -> None:
        self._cwd = options.cwd
        self._adapter = None if is_local(transport) else TransportAdapter(transport)
        self._session = hackamore.Session(to_options(options), transport=self._adapter or USED.transport)
        self._error_result: dict[str, Any] | None = None
        self._ceiling: float | None = None  # seconds that a run may continue after its result
        self._env = options.env
        self._given: set[str | None] = set()  # the uuids that the program gave to its prompts
        self._last_result = False
        self._cursor: Any = None
        self._over = False
        self._feeder: TaskHandle | None = None

    async def start(self) -> None:
        """Start the CLI; return when it has answered `initialize`."""
        if self._adapter is None and self._cwd and not await anyio.Path(self._cwd).is_dir():
            raise sdk.CLIConnectionError(f"Working directory does not exist: {self._cwd}")
        problem: list[Exception] = []

        async def begin() -> None:
            try:
                await self._session.start()
            except Exception as error:
                problem.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            while self._session.state is hackamore.SessionState.NEW and not problem:
                await anyio.lowlevel.checkpoint()
            if not problem:  # before the first message can come
                self._cursor = self._session.messages()
        # A transport may end as soon as it has answered: its messages are there to be read.
        if problem and (self._session.server_info is None or self._failure(problem[0]) is not None):
            self._raise(self._failure(problem[0]) or self._start_error(problem[0]), problem[0])

    def _failure(self, error: Exception | None) -> Exception | None:
        """Return the exception of the program's transport that ended the session; None if another reason did."""
        cause = None if error is None or self._adapter is None else error.__cause__
        return cause if isinstance(cause, Exception) else None

    def _raise(self, problem: Exception, error: Exception | None) -> NoReturn:
        """Raise an exception for an error of the session, with a cause that is not the exception itself."""
        raise problem from problem.__cause__ or (None if problem in (error, self._failure(error)) else error)

    def _start_error(self, error: Exception) -> Exception:
        match error:
            case errors.CLINotFoundError():
                return sdk.CLINotFoundError(f"Claude Code not found. {error}")
            case errors.SessionNotFoundError():
                return sdk.ResultError(f"Claude Code returned an error result: {error}", exit_code=1)
            case errors.CLIExitedDuringInitError():
                return sdk.ProcessError("Command failed during its start", error.exit_code, str(error))
            case errors.InitializationTimeoutError():
                return sdk.ControlRequestError("Control request timeout: initialize")
            case errors.InitializationError():
                return sdk.ControlRequestError(str(error))
        refused = isinstance(error, (errors.OptionsError, TypeError))
        return error if refused else sdk.CLIConnectionError(f"Failed to start Claude Code: {error}")

    async def send(self, frame: Mapping[str, Any]) -> None:
        before = 0 if self._adapter is None else self._adapter.sent
        self._given.add(frame.get("uuid"))
        try:
            await self._session.send({"type": "user", **frame})
        except (errors.SessionClosedError, errors.StreamError) as error:
            code = self._session.exit_code
            ended = f"terminated process (exit code: {code})" if code is not None else "a session that is over"
            raise sdk.CLIConnectionError(f"Cannot write to {ended}: {getattr(error, 'reason', error)}") from error
        if self._adapter is not None:
            await self._adapter.taken(before)

    def feed(self, frames: AsyncIterable[dict[str, Any]]) -> None:
        """Send frames while messages are read, and close stdin behind the last one."""
        self._feeder = spawn_detached(self._feed(frames))

    async def _feed(self, frames: AsyncIterable[dict[str, Any]]) -> None:
        try:
            async for frame in frames:
                await self.send(frame)
        except Exception as error:
            logger.error("The prompt stream failed; stdin is closed: %s", error)
        await self.end_input()

    async def end_input(self) -> None:
        """Have stdin closed as soon as no turn, callback or background task needs it."""
        self._ceiling = run_end_ceiling_ms(self._env) / 1000 or None
        with anyio.move_on_after(0):  # the request is made before the first wait
            await self._session.finish()

    async def next_message(self) -> Message | None:
        """Return the next message, or None at the end; raise once how the CLI ended, if it ended badly."""
        while not self._over:
            end: errors.HackamoreError | None = None
            message = None
            idle = self._last_result and not self._session.background_tasks
            try:
                message = await self._cursor.next_item(timeout=self._ceiling if idle else None)
            except TimeoutError:  # the CLI never said that it is idle: the run is over
                await self._session.stop()
                continue
            except errors.HackamoreError as error:
                end = error
            if message is None:
                self._over = True
                problem = self._ending(end)
                if problem is not None:
                    self._raise(problem, end)
                break
            data = dict(message.data)
            for name in _NAMING & data.keys():  # the program knows no ids but its own
                if not self._given.intersection([data[name]] if isinstance(data[name], str) else data[name] or ()):
                    del data[name]
            state = data.get("type") == "system" and data.get("subtype") == "session_state_changed"
            if state and data.get("sdk_host_only") is True:
                continue
            parsed = parse_message(data)
            if parsed is not None:
                if not state:  # `command_lifecycle`, which only Hackamore causes, does not count
                    self._last_result = self._ceiling is not None and data.get("type") == "result"
                    self._error_result = data if data.get("type") == "result" and data.get("is_error") else None
                return parsed
        return None

    def _ending(self, error: errors.HackamoreError | None) -> Exception | None:
        """Return the exception for the end of the messages; None if the CLI ended well."""
        failure = self._failure(error)
        if failure is not None and not isinstance(failure, sdk.ProcessError):
            return failure
        closed = error if isinstance(error, errors.SessionClosedError) else None
        known = (type(None), errors.SessionClosedError, errors.StartError)
        if failure is None and not isinstance(error, known):  # a limit or a budget
            return error if isinstance(error, errors.BudgetError) else sdk.CLIConnectionError(str(error))
        code = self._session.exit_code
        if failure is None and code in (0, None):
            gone = closed is None or closed.expected or code == 0
            return None if gone else sdk.CLIConnectionError(str(closed))
        stderr = closed.stderr_tail if closed is not None else None
        process = failure or sdk.ProcessError(f"Command failed with exit code {code}", code, stderr)
        if self._error_result is None:
            return process
        text = f"Claude Code returned an error result: {_error_result_text(self._error_result)}"
        problem = sdk.ResultError(text, self._error_result, process.exit_code)
        problem.__cause__ = process
        return problem

    async def control(self, subtype: str, **fields: Any) -> dict[str, Any]:
        try:
            answer = await self._session.request(subtype, **fields)
        except (errors.SessionClosedError, errors.StreamError) as error:
            self._raise(self._ending(error) or sdk.CLIConnectionError(str(error)), error)
        except errors.ControlError as error:
            late = isinstance(error, errors.ControlTimeoutError)
            text = f"Control request timeout: {subtype}" if late else getattr(error, "message", str(error))
            raise sdk.ControlRequestError(text) from error
        return dict(answer.data)

    @property
    def server_info(self) -> dict[str, Any] | None:
        info = self._session.server_info
        return None if info is None else info.data

    async def close(self) -> None:
        if self._feeder is not None:
            self._feeder.cancel()
        with anyio.CancelScope(shield=True):
            await self._session.stop(timeout=self._session.options.timeouts.stop_grace)


def _error_result_text(result: Mapping[str, Any]) -> str:
    text = result.get("result")
    subtype = result.get("subtype")
    status = result.get("api_error_status")
    candidates = (
        "; ".join(sdk.result_errors(result.get("errors"))),
        text.strip() if isinstance(text, str) else "",
        subtype if isinstance(subtype, str) and subtype != "success" else "",
        "" if status is None else f"API error (HTTP {status})",
    )
    return next(filter(None, candidates), "unknown error")


def user_frame(prompt: str, session_id: str) -> dict[str, Any]:
    message = {"role": "user", "content": prompt}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session_id}
