"""`Simulation`: a CLI without a process. Bytes and events in; bytes, stderr and an exit status out; it never waits by itself.

A shell (a transport in memory, or the executable) calls `receive_data` and `receive_eof`, writes `data_to_send()`, calls `tick()` when
`wait_seconds()` have passed, and ends when `exit_code` is there. The conversation comes from a script; the protocol is the library's own
`Connection` in the role of the CLI. This file only puts the parts together: each part gets the parts that it uses.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bridle.options.bounds import Limits
from bridle.protocol import events
from bridle.protocol.connection import Connection, Role
from bridle.testing.simulation import frames
from bridle.testing.simulation.calls import OpenCalls
from bridle.testing.simulation.compaction import Compaction
from bridle.testing.simulation.controls import Controls
from bridle.testing.simulation.core import Core
from bridle.testing.simulation.endings import Endings
from bridle.testing.simulation.hooks import Hooks
from bridle.testing.simulation.output import Output
from bridle.testing.simulation.outside import Outside
from bridle.testing.simulation.performers import Performers
from bridle.testing.simulation.permissions import Permissions
from bridle.testing.simulation.prompts import Prompts
from bridle.testing.simulation.questions import Questions
from bridle.testing.simulation.replies import Replies
from bridle.testing.simulation.scheduler import Scheduler
from bridle.testing.simulation.servers import Servers
from bridle.testing.simulation.state import SessionState
from bridle.testing.simulation.structured import StructuredOutput
from bridle.testing.simulation.subagents import Subagents
from bridle.testing.simulation.tasks import Tasks
from bridle.testing.simulation.tools import Tools
from bridle.testing.simulation.turn import Turn
from bridle.testing.simulation.turns import Conversation
from bridle.testing.simulation.waits import Clock, Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.testing.script.run import ScriptRun
    from bridle.testing.simulation.launch import Launch
    from bridle.testing.simulation.performers import RunTool

__all__ = ["Simulation"]

KILLED = -9
TERMINATED = 143
BAD_LINE = "Error parsing streaming input line: it is not JSON"


class Simulation:
    """One process of a simulated CLI.

    Args:
        run: the script, and its position.
        launch: the arguments and variables.
        clock: returns the time in seconds.
        time_scale: the factor for seconds of the script; 0 makes everything instant.
        run_tool: really runs a tool: takes its name and its arguments, returns its text, its own form, and whether it failed; None
            simulates all of them.
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
        self.clock = clock
        self._launch = launch
        self._run = run
        self._stdin: list[bytes] = []
        timing = Clock(clock, time_scale)
        self._connection = Connection(Role.CLI, limits=Limits(pending_requests=10_000), random_bytes=bytes)
        self._state = state = SessionState(launch, run)
        self._turn = turn = Turn()
        self._output = output = Output(connection=self._connection, state=state, script=run)
        self._questions = questions = Questions(connection=self._connection, output=output)
        self._prompts = prompts = Prompts(output=output, script=run, reports_state=launch.reports_state)
        scheduler = self._scheduler = Scheduler(timing, output, run)
        core = Core(state, turn, output, questions, prompts, timing, run)
        self._outside = Outside(core)
        hooks = Hooks(core)
        tasks = Tasks(core)
        servers = Servers(core)
        structured = StructuredOutput(launch.json_schema)
        calls = OpenCalls(core, hooks)
        replies = Replies(core, hooks, calls, tasks)
        subagents = Subagents(core, hooks, replies, tasks)
        permissions = Permissions(core, hooks, scheduler)
        performers = Performers(
            core, replies=replies, structured=structured, subagents=subagents, tasks=tasks, run_tool=run_tool
        )
        tools = Tools(
            core, hooks=hooks, calls=calls, permissions=permissions, performers=performers, structured=structured
        )
        compaction = Compaction(core, hooks, tasks)
        endings = Endings(core, hooks, replies, tools, structured)
        self._controls = Controls(core, hooks, tasks, servers, scheduler)
        conversation = Conversation(
            core,
            hooks=hooks,
            replies=replies,
            tools=tools,
            tasks=tasks,
            subagents=subagents,
            structured=structured,
            compaction=compaction,
            endings=endings,
            outside=self._outside,
        )
        self._start(conversation, Pause(lambda: servers.ready))

    def _start(self, conversation: Conversation, servers_ready: Pause) -> None:
        if self._launch.refusal is not None:
            self._output.fail(self._launch.refusal)
            return
        if (problem := self._state.open()) is not None:
            if self._launch.resume is not None:
                self._output.emit(frames.refusal(self._state.session_id, problem))
            self._output.fail(problem)
            return
        if not self._launch.one_shot:
            self._connection.begin_start()
        self._scheduler.begin(conversation.play(servers_ready))

    # -- the results --------------------------------------------------------------------------------------------------

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._output.exit_code

    @property
    def stderr(self) -> bytearray:
        """The bytes printed to stderr."""
        return self._output.stderr

    @property
    def session_id(self) -> str:
        """The id of the conversation."""
        return self._state.session_id

    @property
    def in_turn(self) -> bool:
        """True while a turn runs."""
        return self._turn.running

    def data_to_send(self) -> bytes:
        """Return the bytes for stdout, and count them as written."""
        return self._output.take()

    def wait_seconds(self) -> float | None:
        """Return after how many seconds `tick` is due; None if only input can change anything."""
        return self._scheduler.wait_seconds()

    # -- the events ---------------------------------------------------------------------------------------------------

    @property
    def _reads(self) -> bool:
        return self._output.is_open and not self._prompts.ended

    def receive_data(self, data: bytes) -> None:
        """Take bytes of stdin."""
        if not self._reads:
            return
        if self._launch.one_shot:
            self._stdin.append(data)
            return
        self._connection.receive_data(data)
        self._take_events()

    def receive_eof(self) -> None:
        """Take the end of stdin."""
        if not self._reads:
            return
        self._prompts.ended = self._questions.closed = True
        if self._launch.one_shot:
            self._take_one_prompt()
        else:
            self._connection.receive_eof()
            self._take_events()
        self._scheduler.advance()

    def tick(self) -> None:
        """Continue the tasks that waited for time to pass."""
        self._scheduler.advance()

    def terminate(self) -> None:
        """Take a SIGTERM."""
        if not self._outside.ignores_termination:
            self._output.exit(TERMINATED)

    def kill(self) -> None:
        """Take a SIGKILL."""
        self._output.exit(KILLED)

    def exit(self, code: int) -> None:
        """End the process."""
        self._output.exit(code)

    def _take_one_prompt(self) -> None:
        text = self._launch.prompt
        if text is None:
            text = b"".join(self._stdin).decode("utf-8", "replace")
        if text.strip():
            self._prompts.put(text, None)
        else:
            self._output.fail(
                "Error: Input must be provided either through stdin or as a prompt argument when using --print"
            )

    def _take_events(self) -> None:
        while self.exit_code is None and (happened := self._connection.events_received()):
            for event in happened:
                self._take(event)
                self._scheduler.advance()
                if self.exit_code is not None:
                    return
        self._output.flush()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.PromptReceived():
                message = event.message.data.get("message")
                self._prompts.put(message.get("content") if isinstance(message, dict) else None, event.uuid)
            case events.RequestReceived():
                self._controls.answer(event.subtype, event.request_id, event.frame.request)
            case events.RequestResolved():
                self._questions.resolve(event)
            case events.BadLine():
                self._run.note(f"the host sends a line that is not a JSON object: {event.error.line[:100]!r}")
                self._output.fail(BAD_LINE)
            case _:
                pass
