"""The stop of a session, as one state: what it waits for, and what the shell does then."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import TYPE_CHECKING

from hackamore._engine.protocol.states.session import SessionState, TurnState
from hackamore.errors import HackamoreError

if TYPE_CHECKING:
    from hackamore._engine.protocol.connection import Connection
    from hackamore._engine.protocol.deadlines import Deadlines
    from hackamore.options.options import Options


class Stop(IntEnum):
    """The state of the stop of a session. None is followed by an earlier one."""

    NO = auto()
    ASKED = auto()  # the driver has to begin it
    INTERRUPTED = auto()  # the end of the turn is awaited, for `interrupt_seconds`
    CLOSING = auto()  # stdin is to be closed, and output read on: when it exits, the CLI writes entries for the store
    LAST_WORDS = auto()  # stdin is closed; the end of the output is awaited, for `stop_grace`
    DONE = auto()  # nothing is awaited any more
    ABANDONED = auto()  # no caller waits: the process was abandoned


class Stopping:
    """The stop of a session."""

    interrupt_seconds: float = 2.0
    """For how long a stop waits for an open turn to end after its interrupt."""

    def __init__(self, options: Options, connection: Connection, deadlines: Deadlines) -> None:
        self.state: Stop = Stop.NO
        self._connection = connection
        self._deadlines = deadlines
        self._stores = options.session_store is not None
        self._grace = options.timeouts.stop_grace

    @property
    def asked(self) -> bool:
        """True once a stop was requested; the driver then calls `begin`."""
        return self.state is not Stop.NO

    @property
    def abandoned(self) -> bool:
        """True once the session has no user any more: its process was abandoned, and no call waits."""
        return self.state is Stop.ABANDONED

    @property
    def may_end(self) -> bool:
        """True once the process is to be stopped: the session is over or abandoned, or no wait is left."""
        return self._connection.state.over or self.state >= Stop.DONE

    @property
    def closes_input(self) -> bool:
        """True while stdin is to be closed: all is done, or a stop reads on, for the store."""
        if self.state is Stop.NO:
            return self._connection.input_may_close
        return self.state is Stop.CLOSING and not self._connection.state.over

    @property
    def seconds(self) -> float:
        """The seconds after which a stop does not wait for the CLI any longer."""
        return self.interrupt_seconds + (self._grace if self._stores else 0.0)

    def limit(self, seconds: float) -> None:
        """Wait for the CLI no longer than half of the time that a caller has: the rest is for its exit."""
        self.interrupt_seconds = min(self.interrupt_seconds, seconds / 2)
        self._grace = min(self._grace, seconds / 2)

    def move(self, state: Stop) -> None:
        """Continue in a state, unless the stop is there already."""
        # Without a call between: there another thread could come in, and its later state would be overwritten.
        if state > self.state:  # noqa: PLR1730
            self.state = state

    def ask(self, *, abandon: bool = False) -> None:
        """Request a stop, from any thread. `begin` obeys it: from then on the lifecycle is STOPPING."""
        self.move(Stop.ABANDONED if abandon else Stop.ASKED)

    def begin(self, now: float) -> None:
        """Stop: refuse new calls, interrupt a running turn, and limit the time for that. Further calls do nothing."""
        connection = self._connection
        if connection.state.lifecycle is SessionState.STOPPING:
            return
        self.ask()
        self._deadlines.now = now
        connection.begin_stop()
        # `working` is also a turn that the CLI began by itself: it ran for 5 s after the stop, with tools and all.
        if not connection.state.over and connection.conversation.working and not self.abandoned:
            waiting = any(turn.state is TurnState.QUEUED for turn in connection.turns.open)
            try:
                connection.exchanges.interrupt(cancel_queued=waiting, internal=True)  # else the CLI takes up what waits
            except HackamoreError:
                self.move(Stop.DONE)
                return
            self.move(Stop.INTERRUPTED)
            self._deadlines.arm("stop", "", self.interrupt_seconds)
        else:
            self.turn_over()

    def turn_over(self) -> None:
        """Continue: no turn is open any more."""
        self._deadlines.disarm("stop", "")
        self.move(Stop.CLOSING if self._stores else Stop.DONE)

    def input_closed(self) -> bool:
        """Wait for the last words of the CLI, if it was the stop that closed stdin; return whether it was."""
        if self.state is not Stop.CLOSING:
            return False
        self.move(Stop.LAST_WORDS)
        self._deadlines.arm("last_words", "", self._grace)
        return True
