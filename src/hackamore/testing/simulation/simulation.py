"""`Simulation`: a CLI without a process. Bytes and events in; bytes, stderr and an exit status out; it never waits by itself.

A shell (a transport in memory, or the executable) calls `receive_data` and `receive_eof`, writes `data_to_send()`, calls `tick()` when
`wait_seconds()` have passed, and ends when `exit_code` is there. The conversation comes from a script; the protocol is the library's own
`Connection` in the role of the CLI.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection, Role
from hackamore.options.bounds import Limits
from hackamore.testing.simulation import frames
from hackamore.testing.simulation.controls import Controls
from hackamore.testing.simulation.core import Core, Host, Pause, Scheduler
from hackamore.testing.simulation.hooks import Hooks
from hackamore.testing.simulation.state import SessionState, Turn
from hackamore.testing.simulation.tasks import Tasks
from hackamore.testing.simulation.turns import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.testing.script.run import ScriptRun
    from hackamore.testing.simulation.launch import Launch
    from hackamore.testing.simulation.tools import RunTool

_CONTROL_FRAMES = ("control_request", "control_response", "control_cancel_request", "keep_alive")
KILLED = -9
TERMINATED = 143
BAD_LINE = "Error parsing streaming input line: it is not JSON"


class Simulation:
    """One process of a simulated CLI.

    Args:
        time_scale: the factor for seconds of the script; 0 makes everything instant.
        run_tool: really runs a tool: takes its name and its arguments, returns its text, its own form, and whether it failed; None
            simulates all of them.

    Attributes:
        refused: the command line is refused, and there is no conversation.
    """

    def __init__(
        self,
        run: ScriptRun,
        launch: Launch,
        *,
        clock: Callable[[], float] = time.monotonic,
        time_scale: float = 1.0,
        run_tool: RunTool | None = None,
    ) -> None:
        self._launch = launch
        self._run = run
        self._stdin: list[bytes] = []
        self._connection = Connection(Role.CLI, limits=Limits(pending_requests=10_000), random_bytes=bytes)
        self._state = SessionState(launch, run)
        self._turn = Turn()
        self._host = Host(self._connection, self._state, run)
        self._scheduler = Scheduler(clock, time_scale, self._host)
        core = Core(self._state, self._turn, self._host, self._scheduler, run)
        hooks, tasks = Hooks(core), Tasks(core)
        self._controls = Controls(core, hooks, tasks)
        self._conversation = Conversation(core, hooks, tasks, run_tool)
        self._start()

    def _start(self) -> None:
        self.refused: bool = True
        for warning in self._launch.warnings:
            self._host.stderr += warning.encode() + b"\n"
        if self._launch.refusal is not None:
            self._host.fail(self._launch.refusal)
            return
        if (problem := self._state.open()) is not None:
            if self._launch.resume is not None and self._launch.output_format == "stream-json":
                self._host.emit(frames.refusal(self._state.session_id, problem))
            self._host.fail(problem)
            return
        self.refused = False
        if not self._launch.one_shot:
            self._connection.state.begin_start()
        self._scheduler.begin(self._conversation.play(Pause(lambda: self._controls.servers_ready)))

    # -- the results --------------------------------------------------------------------------------------------------

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._host.exit_code

    @property
    def stderr(self) -> bytearray:
        """The bytes printed to stderr."""
        return self._host.stderr

    @property
    def session_id(self) -> str:
        """The id of the conversation."""
        return self._state.session_id

    @property
    def in_turn(self) -> bool:
        """True while a turn runs."""
        return self._turn.running

    @property
    def exited(self) -> bool:
        """True once the process has ended."""
        return self.exit_code is not None

    def data_to_send(self) -> bytes:
        """Return the bytes for stdout, and count them as written."""
        return self._host.take()

    def wait_seconds(self) -> float | None:
        """Return after how many seconds `tick` is due; None if only input can change anything."""
        return self._scheduler.wait_seconds()

    def next(self) -> tuple[bytes | None, float | None]:
        """Return the bytes for stdout (b"" at their end), or None and the seconds until `tick` is due."""
        seconds = self.tick()
        data = self.data_to_send()
        return (data, None) if data or self.exited else (None, seconds)

    # -- the events ---------------------------------------------------------------------------------------------------

    @property
    def _reads(self) -> bool:
        return self._host.is_open and not self._host.input_ended

    def receive_data(self, data: bytes) -> None:
        """Receive bytes of stdin."""
        if not self._reads:
            return
        if self._launch.one_shot:
            self._stdin.append(data)
            return
        self._connection.receive_data(data)
        self._take_events()

    def receive_eof(self) -> None:
        """Receive the end of stdin."""
        if not self._reads:
            return
        self._host.input_ended = True
        if self._launch.one_shot:
            self._take_one_prompt()
        else:
            self._connection.receive_eof()
            self._take_events()
        self._scheduler.advance()

    def tick(self) -> float | None:
        """Continue the tasks that waited for time to pass; return `wait_seconds()`."""
        self._scheduler.advance()
        return self.wait_seconds()

    def inject(self, frame: dict[str, Any] | bytes) -> bool:
        """Write a frame, or a line as it is, behind the output so far; return False if the process has ended."""
        if isinstance(frame, dict) and frame.get("type") not in _CONTROL_FRAMES:
            frame = {"uuid": self._state.new_id(), "session_id": self._state.session_id, **frame}
        open_before = self._host.is_open
        self._host.garbage(frame)
        return open_before

    def stop(self) -> None:
        """Apply the steps of a stop: the end of stdin, unless a turn runs, SIGTERM, SIGKILL."""
        if not self.in_turn:
            self.receive_eof()
        self.terminate()
        self.kill()

    @property
    def ignores_termination(self) -> bool:
        """True if SIGTERM has no effect."""
        return self._conversation.ignores_termination

    def terminate(self) -> None:
        """Handle a SIGTERM."""
        if not self.ignores_termination:
            self._host.exit(TERMINATED)

    def interrupt(self) -> None:
        """Handle a SIGINT: a turn that runs ends with an error, and the process ends."""
        if self.in_turn:
            self._host.emit(frames.refusal(self._state.session_id, "The process was interrupted."))
        self._host.exit(0)

    def kill(self) -> None:
        """Handle a SIGKILL."""
        self._host.exit(KILLED)

    def exit(self, code: int) -> None:
        """End the process."""
        self._host.exit(code)

    def _take_one_prompt(self) -> None:
        text = self._launch.prompt
        if text is None:
            text = b"".join(self._stdin).decode("utf-8", "replace")
        if text.strip():
            self._host.put(text, None)
        else:
            self._host.fail(
                "Error: Input must be provided either through stdin or as a prompt argument when using --print"
            )

    def _take_events(self) -> None:
        while self.exit_code is None and (happened := self._connection.events_received()):
            for event in happened:
                self._take(event)
                self._scheduler.advance()
                if self.exit_code is not None:
                    return
        self._host.flush()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.PromptReceived():
                message = event.message.data.get("message")
                self._host.put(message.get("content") if isinstance(message, dict) else None, event.uuid)
            case events.RequestReceived():
                self._controls.answer(event.subtype, event.request_id, event.frame.request)
            case events.RequestResolved():
                self._host.resolve(event)
            case events.BadLine():
                self._run.note(f"the host sends a line that is not a JSON object: {event.error.line[:100]!r}")
                self._host.fail(BAD_LINE)
            case _:
                pass
