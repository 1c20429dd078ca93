"""`Simulation`: a CLI without a process. Bytes and happenings in, bytes, stderr and an exit status out; it never waits by itself.

A shell (a transport in memory, or the executable) calls `receive_data` and `receive_eof`, writes `data_to_send()`, calls `tick()` when
`wait_seconds()` have passed, and ends when `exit_code` is there. What is said comes from a script; the protocol is the library's own
`Connection` in the role of the CLI.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.options.bounds import Limits
from bridle.protocol import events, frames
from bridle.protocol.connection import Connection, Role
from bridle.testing.simulation.controls import answer_request
from bridle.testing.simulation.frames import SessionState
from bridle.testing.simulation.turns import Conversation
from bridle.testing.simulation.waits import Interruption, Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from bridle.messages import UserMessage
    from bridle.testing.script.run import ScriptRun
    from bridle.testing.simulation.launch import Launch

__all__ = ["Prompt", "Simulation"]

KILLED = -9
TERMINATED = 143
BAD_LINE = "Error parsing streaming input line: it is not JSON"


class Prompt(NamedTuple):
    """A prompt of the host."""

    text: str
    uuid: str | None


class _Task:
    def __init__(self, steps: Generator[Pause, None, None]) -> None:
        self.steps = steps
        self.pause: Pause | None = None
        self.done = False


class Simulation:
    """One process of a simulated CLI.

    Args:
        run: the script, and how far it is.
        launch: the arguments and variables.
        clock: the time in seconds.
        time_scale: what seconds of the script are multiplied with; 0 makes everything instant.
        run_tool: really runs a tool: gets its name and its arguments, returns its text, its own form, and whether it failed; None
            simulates all of them.

    Attributes:
        exit_code: the exit status, once it has ended; negative for a signal.
        stderr: what it printed there.
        state: what the session remembers.
        server_calls: calls of tools of the host that run: server and number by the id of the request.
    """

    def __init__(
        self,
        run: ScriptRun,
        launch: Launch,
        *,
        clock: Callable[[], float] = time.monotonic,
        time_scale: float = 1.0,
        run_tool: Callable[[str, dict[str, Any]], tuple[str, Any, bool]] | None = None,
    ) -> None:
        self.run = run
        self.launch = launch
        self.clock = clock
        self.time_scale = time_scale
        self.run_tool = run_tool
        self.exit_code: int | None = None
        self.stderr = bytearray()
        self.prompts: deque[Prompt] = deque()
        self.input_ended = False
        self.busy = False
        self.servers_ready = True
        self.initialized = False
        self.hanging = False
        self.ignores_termination = False
        self.cut: tuple[int | None, int] | None = None
        self.last_result_failed = False
        self.connection = Connection(Role.CLI, limits=Limits(pending_requests=10_000), random_bytes=bytes)
        self._out: list[bytes] = []
        self._stdin: list[bytes] = []
        self._answers: dict[str, Any] = {}
        self._asked: set[str] = set()
        self.server_calls: dict[str, tuple[str, int]] = {}
        self._tasks: list[_Task] = []
        self._advancing = False
        self._number = 0
        self._rpc = 1
        self.state = SessionState(launch, self._session_id())
        self.conversation = Conversation(self)
        self._main = _Task(self.conversation.play())
        self._start()

    # -- the shell's side ---------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take bytes of stdin."""
        if self.exit_code is not None or self.hanging or self.input_ended:
            return
        if self.launch.one_shot:
            self._stdin.append(data)
            return
        self.connection.receive_data(data)
        self._take_events()

    def receive_eof(self) -> None:
        """Take the end of stdin."""
        if self.exit_code is not None or self.hanging or self.input_ended:
            return
        self.input_ended = True
        if self.launch.one_shot:
            self._one_shot_prompt()
        else:
            self.connection.receive_eof()
            self._take_events()
        self.advance()

    def data_to_send(self) -> bytes:
        """Return what goes to stdout. It counts as written."""
        if not self._out:
            return b""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def wait_seconds(self) -> float | None:
        """Return after how many seconds `tick` is to be called; None if only input can change anything."""
        if self.exit_code is not None or self.hanging:
            return None
        moments = [
            task.pause.until
            for task in self._tasks
            if not task.done and task.pause is not None and task.pause.until is not None
        ]
        return max(0.0, min(moments) - self.clock()) if moments else None

    def tick(self) -> None:
        """Go on with what waited for the time to pass."""
        self.advance()

    def terminate(self) -> None:
        """Take a SIGTERM."""
        if not self.ignores_termination:
            self.exit(TERMINATED)

    def kill(self) -> None:
        """Take a SIGKILL."""
        self.exit(KILLED)

    # -- the conversation's side --------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """Return a uuid that nobody else has in this run; the same run gives the same ones."""
        self._number += 1
        return f"{self._number:08x}-51b0-4000-8000-{self.state.session_id[-12:]}"

    def emit(self, frame: dict[str, Any], *, bare: bool = False) -> None:
        """Send a frame; `bare` leaves out the ids."""
        if not bare:
            frame.setdefault("uuid", self.new_id())
            frame.setdefault("session_id", self.state.session_id)
        self.write(frames.message_frame(frame))

    def write(self, line: bytes) -> None:
        """Send a line, or what a fault leaves of it."""
        if self.exit_code is not None or self.hanging:
            return
        self.flush()
        if self.cut is not None:
            kept, code = self.cut
            self._out.append(line[: len(line) // 2 if kept is None else min(kept, len(line) - 1)])
            self.exit(code)
        else:
            self._out.append(line)

    def flush(self) -> None:
        """Put the connection's frames behind what was sent before."""
        if data := self.connection.data_to_send():
            if self.cut is None:
                self._out.append(data)
            else:
                kept, code = self.cut
                self._out.append(data[: len(data) // 2 if kept is None else min(kept, len(data) - 1)])
                self.exit(code)

    def write_garbage(self, data: bytes) -> None:
        """Send bytes that are no frame."""
        self.flush()
        if self.exit_code is None and not self.hanging:
            self._out.append(data)

    def ask(self, subtype: str, fields: dict[str, Any]) -> str:
        """Ask something of the host; return the id of the request."""
        request_id = self.connection.send_request(subtype, fields)
        self._asked.add(request_id)
        if self.input_ended:  # nobody can answer any more
            self._answers[request_id] = None
        self.flush()
        return request_id

    def until_answered(self, request_id: str, until: float | None = None) -> Pause:
        """Return the wait for an answer."""
        return Pause(lambda: request_id in self._answers, until)

    def answered(self, request_id: str) -> bool:
        """Return whether the host has answered, or cannot any more."""
        return request_id in self._answers

    def answer(self, request_id: str) -> Any:
        """Return what the host answered: an object, or None for an error or no answer."""
        self._asked.discard(request_id)
        return self._answers.pop(request_id, None)

    def cancel(self, request_id: str) -> None:
        """Withdraw a question."""
        self._asked.discard(request_id)
        if self.answered(request_id):
            return
        called = self.server_calls.pop(request_id, None)
        if called is None:
            self.connection.cancel_request(request_id)
        else:  # in the server's own language
            server, number = called
            params = {"requestId": number, "reason": "AbortError: remote-cancel"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self.connection.send_request("mcp_message", {"server_name": server, "message": message})
        self._answers[request_id] = None
        self.flush()

    def seconds(self, seconds: float) -> float:
        """Return the moment that is so many seconds of the script away."""
        self.state.elapsed += seconds
        return self.clock() + seconds * self.time_scale

    def report_state(self, state: str) -> None:
        """Tell what the CLI is doing, if the host asked for it."""
        self.busy = state != "idle"
        if self.launch.reports_state:
            self.emit({"type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": True})

    def report_prompt(self, uuid: str | None, state: str) -> None:
        """Tell how far a prompt is."""
        if uuid is not None:
            self.emit({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def exit(self, code: int) -> None:
        """End the process."""
        if self.exit_code is None:
            if self.cut is None and not self.hanging:
                self.flush_last()
            self.exit_code = code
            self.run.note(f"the CLI exits with {code}")
            for task in self._tasks:
                task.done = True

    def flush_last(self) -> None:
        """Put the connection's last frames behind everything."""
        if data := self.connection.data_to_send():
            self._out.append(data)

    def fail(self, stderr: str, code: int = 1) -> None:
        """Print something and end the process."""
        self.stderr += stderr.encode() + (b"" if stderr.endswith("\n") else b"\n")
        self.exit(code)

    def begin(self, steps: Generator[Pause, None, None]) -> None:
        """Start something that goes on beside the conversation."""
        self._tasks.append(_Task(steps))
        self.advance()

    @property
    def waits_for_permission(self) -> bool:
        """True while the host is asked whether a tool may be used."""
        open_subtypes = {
            request.subtype for request in self.connection.pending_requests if request.request_id in self._asked
        }
        return "can_use_tool" in open_subtypes

    def conversation_numbers(self) -> int:
        """Return the number of the next JSON-RPC request to a server."""
        self._rpc += 1
        return self._rpc

    def wait_for_interrupt(self) -> None:
        """Note that the turn goes on until it is interrupted. One that takes no requests is interrupted by being ended."""
        if not self.launch.one_shot:
            self.run.wait_for_interrupt()

    def interrupt(self) -> None:
        """Withdraw what the turn that runs has asked the host, if one runs."""
        if self.conversation.in_turn:
            for request_id in [*self._asked]:
                if not self.answered(request_id):
                    self.cancel(request_id)

    def throw_interrupt(self) -> None:
        """Let the turn see that it was interrupted."""
        if self.conversation.in_turn:
            self._step(self._main, Interruption())
            self.advance()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _session_id(self) -> str:
        launch, known = self.launch, self.run.sessions
        if launch.resume is not None and not launch.fork:
            return launch.resume
        if launch.continues and launch.resume is None and known and not launch.fork:
            return next(reversed(known))
        return launch.session_id or f"51b00000-0000-4000-8000-{len(known) + 1:012x}"

    def new_session(self) -> str:
        """Begin a new conversation in this process; return its id."""
        self.state.session_id = f"51b00000-0000-4000-8000-{len(self.run.sessions) + 1:012x}"
        self.state.forget()
        self.run.sessions[self.state.session_id] = 0
        return self.state.session_id

    def _start(self) -> None:
        launch, known = self.launch, self.run.sessions
        if launch.refusal is not None:
            self.fail(launch.refusal)
            return
        if launch.resume is not None and launch.resume not in known:
            text = f"No conversation found with session ID: {launch.resume}"
            self.state.session_id = launch.resume
            self.emit(self.state.refusal(text))
            self.fail(text)
            return
        if launch.session_id in known and launch.resume is None:
            self.fail(f"Error: Session ID {launch.session_id} is already in use.")
            return
        if replies := known.get(launch.resume or self.state.session_id, 0):
            self.state.replied(replies)
            self.state.results_before()
        known.setdefault(self.state.session_id, 0)
        if not launch.one_shot:
            self.connection.begin_start()
        self._tasks.append(self._main)
        self.advance()

    def _one_shot_prompt(self) -> None:
        text = self.launch.prompt
        if text is None:
            text = b"".join(self._stdin).decode("utf-8", "replace")
        if not text.strip():
            self.fail("Error: Input must be provided either through stdin or as a prompt argument when using --print")
            return
        self.run.note(f"the host sends the prompt {text!r}")
        self.report_state("running")
        self.prompts.append(Prompt(text, None))

    def _take_events(self) -> None:
        while self.exit_code is None and (happened := self.connection.events_received()):
            for event in happened:
                self._take(event)
                self.advance()
                if self.exit_code is not None:
                    return
        self.flush()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.PromptReceived():
                self._take_prompt(event.message, event.uuid)
            case events.RequestReceived():
                answer_request(self, event)
                self.flush()
            case events.RequestResolved():
                if event.request_id in self._asked:
                    self._answers[event.request_id] = event.result.data if event.result is not None else None
            case events.BadLine():
                self.run.note(f"the host sends a line that is no JSON object: {event.error.line[:100]!r}")
                self.fail(BAD_LINE)
            case _:
                pass

    def _take_prompt(self, message: UserMessage, uuid: str | None) -> None:
        text = prompt_text(message.data)
        self.run.note(f"the host sends the prompt {text!r}")
        if not self.busy:
            self.report_state("running")
        self.report_prompt(uuid, "queued")
        self.prompts.append(Prompt(text, uuid))

    def advance(self) -> None:
        """Let everything go on that can."""
        if self._advancing:
            return
        self._advancing = True
        try:
            moved = True
            while moved and self.exit_code is None and not self.hanging:
                moved = False
                for task in [*self._tasks]:
                    if not task.done and (task.pause is None or self._is_ready(task.pause)):
                        self._step(task, None)
                        moved = True
            self._tasks = [task for task in self._tasks if not task.done]
        finally:
            self._advancing = False

    def _is_ready(self, pause: Pause) -> bool:
        return pause.ready() or (pause.until is not None and self.clock() >= pause.until)

    def _step(self, task: _Task, interruption: Interruption | None) -> None:
        try:
            if interruption is None:
                task.pause = next(task.steps)
            else:
                task.pause = task.steps.throw(interruption)
        except StopIteration:
            task.done = True
        except Interruption:
            task.done = True
        except Exception as error:
            # A mistake of ours must neither hang the host nor pass as an agreement.
            self.run.problem(f"the simulated CLI failed: {type(error).__name__}: {error}")
            self.fail(f"the simulated CLI failed: {type(error).__name__}: {error}")
            task.done = True


def prompt_text(frame: dict[str, Any]) -> str:
    """Return the text of a prompt, its blocks joined with newlines."""
    message = frame.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(
        str(block.get("text", "")) if block.get("type") == "text" else f"[{block.get('type')}]"
        for block in blocks
        if isinstance(block, dict)
    )
