"""The common ground of a simulated CLI: waiting, the host at the other end, and the tasks that play. It knows none of its users."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from hackamore._engine.protocol import frames
from hackamore.errors import ControlRejectedError
from hackamore.messages.base import plain
from hackamore.testing.simulation.facts import TIME
from hackamore.testing.simulation.results import flat_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.protocol.events import RequestResolved
    from hackamore.testing.script.run import ScriptRun
    from hackamore.testing.simulation.state import SessionState, Turn

_BESIDE = ("session_state_changed", "session_title_changed")
"""System frames that leave the exit status as it is."""


class Pause(NamedTuple):
    """A pause of a task, until `ready` holds, which is checked after each event, or the simulation's clock reaches `until`."""

    ready: Callable[[], bool]
    until: float | None = None


class Interruption(Exception):  # noqa: N818 - nothing went wrong
    """The host interrupts the turn."""


class NotInterrupted(Exception):  # noqa: N818 - it ends a turn, and reaches no caller
    """The host did not interrupt the turn in time."""


T = TypeVar("T")
if TYPE_CHECKING:
    Steps: TypeAlias = Generator[Pause, None, T]
    """A computation that pauses on its way to a value."""
else:
    Steps = "Generator"


def never() -> bool:
    """Return False: only time or an interrupt ends such a pause."""
    return False


class Prompt(NamedTuple):
    """A prompt of the host."""

    text: str
    uuid: str | None


class Host:
    """The host at the other end: frames for it, requests to it, its prompts, and the exit of the process."""

    def __init__(self, connection: Connection, state: SessionState, script: ScriptRun) -> None:
        self.connection = connection
        self.state = state
        self.script = script
        self.exit_code: int | None = None  # the exit status; negative for a signal, None while the process runs
        self.stderr: bytearray = bytearray()
        self.hanging: bool = False  # the process sends and answers nothing, and does not exit
        # the last message is the result of a failed turn, which decides about the exit status
        self.failed: bool = False
        self.input_ended: bool = False  # stdin has ended, so that each further request counts as answered with an error
        self.busy: bool = False  # the CLI reports that it runs
        # the next line is cut: the bytes that remain (None for half of them), and the exit status
        self.cut: tuple[int | None, int] | None = None
        self.prompts: deque[Prompt] = deque()  # prompts that no turn has taken
        self._lines: list[bytes] = []
        self._answers: dict[str, Any] = {}
        self._errors: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._calls: dict[str, tuple[str, int]] = {}
        self._numbers: dict[str, int] = {}

    # -- frames -------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True until the process exits or hangs."""
        return self.exit_code is None and not self.hanging

    def take(self) -> bytes:
        """Return the bytes for stdout, and count them as written."""
        data = b"".join(self._lines)
        self._lines.clear()
        return data

    def emit(self, frame: dict[str, Any]) -> None:
        """Send a frame, with a new id and the session's."""
        frame.setdefault("uuid", self.state.new_id())
        frame.setdefault("session_id", self.state.session_id)
        if frame["type"] == "result":
            self.failed = frame["is_error"]
        elif frame["type"] != "command_lifecycle" and frame.get("subtype") not in _BESIDE:
            self.failed = False
        if self.is_open:
            self.flush()
            self._write(frames.message_frame(frame))

    def system(self, subtype: str, **fields: Any) -> None:
        """Send a system frame."""
        self.emit({"type": "system", "subtype": subtype, **fields})

    def user(self, content: Any, parent: str | None = None, **fields: Any) -> None:
        """Send a frame with input for the model."""
        message = {"role": "user", "content": content}
        self.emit({"type": "user", "message": message, "parent_tool_use_id": parent, "timestamp": TIME, **fields})

    def respond(self, request_id: str, answer: dict[str, Any] | None) -> None:
        """Answer a control request of the host."""
        self.connection.exchanges.send_response(request_id, answer)
        self.flush()

    def refuse(self, request_id: str, text: str, code: str | None) -> None:
        """Answer a control request of the host with an error."""
        self.connection.exchanges.send_error(request_id, text, code)
        self.flush()

    def garbage(self, data: dict[str, Any] | bytes) -> None:
        """Send a frame or bytes as they are."""
        self.flush()
        if self.is_open:
            self._lines.append(data if isinstance(data, bytes) else frames.message_frame(data))

    def flush(self) -> None:
        """Append the frames of the connection."""
        if data := self.connection.data_to_send():
            self._write(data)

    def _write(self, line: bytes) -> None:
        if self.cut is None:
            self._lines.append(line)
        elif self.exit_code is None:
            kept, code = self.cut
            self._lines.append(line[: len(line) // 2 if kept is None else min(kept, len(line) - 1)])
            self.exit(code)

    def exit(self, code: int) -> None:
        """End the process."""
        if self.exit_code is None:
            if self.cut is None and not self.hanging:
                self.flush()
            self.exit_code = code
            if code >= 0:
                self.state.exited()
            self.script.note(f"the CLI exits with {code}")

    def fail(self, stderr: str, code: int = 1) -> None:
        """Print a line to stderr and end the process."""
        self.stderr += stderr.encode() + (b"" if stderr.endswith("\n") else b"\n")
        self.exit(code)

    # -- prompts ------------------------------------------------------------------------------------------------------

    def put(self, content: Any, uuid: str | None) -> None:
        """Add a prompt."""
        text = flat_text(content)
        self.script.note(f"the host sends the prompt {text!r}")
        self.state.record.prompts.append(text)
        if not self.busy:
            self.report_state("running")
        self.report_prompt(uuid, "queued")
        self.prompts.append(Prompt(text, uuid))

    def report_prompt(self, uuid: str | None, state: str) -> None:
        """Report the progress of a prompt."""
        if uuid is not None:
            self.emit({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def report_state(self, state: str) -> None:
        """Report the state of the CLI, if the host reads it."""
        self.busy = state != "idle"
        if self.state.launch.reports_state:
            self.system("session_state_changed", state=state, sdk_host_only=True)

    def cancel_prompts(self, chosen: Iterable[Prompt]) -> None:
        """Remove prompts."""
        for prompt in [*chosen]:
            self.prompts.remove(prompt)
            self.report_prompt(prompt.uuid, "cancelled")

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, subtype: str, fields: dict[str, Any]) -> str:
        """Send a request; return its id."""
        request_id = self.connection.exchanges.send_request(subtype, fields)
        self._asked[request_id] = subtype
        if self.input_ended:
            self._answers[request_id] = None
        self.flush()
        return request_id

    def resolve(self, event: RequestResolved) -> None:
        """Keep the response to a request."""
        if event.request_id in self._asked:
            self._answers[event.request_id] = None
            if event.result is not None:  # the CLI accepts only an object as an answer
                raw = event.result.raw
                self._answers[event.request_id] = event.result.data if raw[:1] in (b"", b"{") else plain(raw)
            if isinstance(event.error, ControlRejectedError):
                self._errors[event.request_id] = event.error.message

    def answered(self, request_id: str) -> bool:
        """Return whether the host has answered, or cannot any more."""
        return request_id in self._answers

    def until_answered(self, request_id: str, until: float | None = None) -> Pause:
        """Return the pause until a response comes."""
        return Pause(lambda: request_id in self._answers, until)

    def answer(self, request_id: str) -> Any:
        """Return the response, and forget the request; None for an error or no response."""
        self._asked.pop(request_id, None)
        self._errors.pop(request_id, None)
        return self._answers.pop(request_id, None)

    def error_of(self, request_id: str) -> str | None:
        """Return the error with which the host has answered, if it has."""
        return self._errors.get(request_id)

    def cancel(self, request_id: str) -> None:
        """Cancel a request."""
        self._asked.pop(request_id, None)
        if self.answered(request_id):
            return
        if request_id in self._calls:  # in the language of the server
            server, number = self._calls.pop(request_id)
            params = {"requestId": number, "reason": "AbortError: remote-cancel"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self.connection.exchanges.send_request("mcp_message", {"server_name": server, "message": message})
        else:
            self.connection.exchanges.cancel_request(request_id)
        self._answers[request_id] = None
        self.flush()

    def cancel_all(self) -> None:
        """Cancel every open request."""
        for request_id in [*self._asked]:
            self.cancel(request_id)

    @property
    def asks_permission(self) -> bool:
        """True while a permission request is open."""
        return any(subtype == "can_use_tool" and not self.answered(key) for key, subtype in self._asked.items())

    def message(
        self, server: str, method: str, number: int | None = None, params: dict[str, Any] | None = None
    ) -> Steps[dict[str, Any] | None]:
        """Send a JSON-RPC message to a server in the host's process; return the response, None if there is none."""
        parts = {"method": method, "params": params, "jsonrpc": "2.0", "id": number}
        message = {name: value for name, value in parts.items() if value is not None}
        request_id = self.ask("mcp_message", {"server_name": server, "message": message})
        if number is not None:
            self._calls[request_id] = (server, number)
        yield self.until_answered(request_id)
        self._calls.pop(request_id, None)
        answer = self.answer(request_id)
        response = answer.get("mcp_response") if isinstance(answer, dict) else None
        return response if isinstance(response, dict) else None

    def call_tool(
        self, server: str, name: str, arguments: dict[str, Any], call_id: str
    ) -> Steps[dict[str, Any] | None]:
        """Call a tool of a server; return the JSON-RPC response, None if there is none."""
        number = self._numbers[server] = self._numbers.get(server, 1) + 1  # behind `initialize` and `tools/list`
        meta = {"claudecode/toolUseId": call_id, "progressToken": number}
        params = {"name": name, "arguments": arguments, "_meta": meta}
        return (yield from self.message(server, "tools/call", number, params))


class _Task:
    def __init__(self, steps: Steps[None]) -> None:
        self.steps = steps
        self.pause: Pause | None = None
        self.done = False


class Scheduler:
    """Runs the tasks of a simulated CLI as far as they get without waiting; the first plays the script, whose `elapsed` seconds passed."""

    def __init__(self, now: Callable[[], float], scale: float, host: Host) -> None:
        self.now = now
        self.elapsed: float = 0.0
        self._scale = scale
        self._host = host
        self._tasks: list[_Task] = []
        self._advancing = False

    def sleep(self, seconds: float) -> Pause:
        """Return a pause of so many seconds of the script."""
        self.elapsed += seconds
        return Pause(never, self.now() + seconds * self._scale)

    def begin(self, steps: Steps[None]) -> None:
        """Add a task."""
        self._tasks.append(_Task(steps))
        self.advance()

    def advance(self) -> None:
        """Run every task that is ready."""
        if self._advancing:
            return
        self._advancing = True
        try:
            moved = True
            while moved and self._host.is_open:
                moved = False
                for task in [*self._tasks]:
                    if not task.done and (task.pause is None or self._is_ready(task.pause)):
                        self._step(task, None)
                        moved = True
            self._tasks = [task for task in self._tasks if not task.done]
        finally:
            self._advancing = False

    def interrupt(self) -> None:
        """Raise `Interruption` in the task that plays the script."""
        self._step(self._tasks[0], Interruption())
        self.advance()

    def wait_seconds(self) -> float | None:
        """Return the seconds until time alone makes a task ready; None if it never does."""
        moments = [task.pause.until for task in self._tasks if task.pause is not None and task.pause.until is not None]
        return max(0.0, min(moments) - self.now()) if moments and self._host.is_open else None

    def _is_ready(self, pause: Pause) -> bool:
        return pause.ready() or (pause.until is not None and self.now() >= pause.until)

    def _step(self, task: _Task, interruption: Interruption | None) -> None:
        try:
            task.pause = next(task.steps) if interruption is None else task.steps.throw(interruption)
        except (StopIteration, Interruption):
            task.done = True
        except Exception as error:
            # A defect of the simulation must neither hang the host nor pass as agreement.
            text = f"the simulated CLI failed: {type(error).__name__}: {error}"
            self._host.script.problem(text)
            self._host.fail(text)
            task.done = True


class Core(NamedTuple):
    """The records and channels of one process."""

    state: SessionState
    turn: Turn
    host: Host
    scheduler: Scheduler
    script: ScriptRun


class Part:
    """A part of a simulated CLI, with the records and channels of the process at hand."""

    def __init__(self, core: Core) -> None:
        self.state: SessionState = core.state
        self.turn: Turn = core.turn
        self.host: Host = core.host
        self.scheduler: Scheduler = core.scheduler
        self.script: ScriptRun = core.script
