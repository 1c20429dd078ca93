"""The machines of a connection, and the rules that connect them.

The lifecycle, the handshake, each prompt, the input half (writing), the output half (reading), the process, and the work that
the CLI does by itself. A rule over more than one of them is a joint rule: a function at the end of this file and nowhere else.
"""

from __future__ import annotations

from enum import StrEnum, auto
from typing import NamedTuple

from hackamore.runtime.tables import Member


class SessionState(StrEnum):
    """Where a session stands, as its user sees it."""

    NEW = auto()
    STARTING = auto()
    """The process is being started."""
    INITIALIZING = auto()
    """`initialize` was written and not confirmed."""
    RUNNING = auto()
    STOPPING = auto()
    """This side is stopping it: nothing new is accepted, and requests get the safe answer."""
    STOPPED = auto()
    FAILED = auto()


class LifecycleTrigger(Member):
    """Triggers that move a session from one state to the next."""

    START = auto()
    LAUNCHED = auto()
    """A one-way launch was started: there is no handshake to wait for."""
    INITIALIZE_SENT = auto()
    CONFIRMED = auto()
    STOP = auto()
    ENDED_WELL = auto()
    FAILURE = auto()


_L, _LH = SessionState, LifecycleTrigger

LIFECYCLE: dict[tuple[SessionState, LifecycleTrigger], SessionState] = {
    (_L.NEW, _LH.START): _L.STARTING,
    (_L.NEW, _LH.LAUNCHED): _L.RUNNING,
    (_L.NEW, _LH.INITIALIZE_SENT): _L.INITIALIZING,
    (_L.NEW, _LH.ENDED_WELL): _L.STOPPED,  # stopped before its start
    (_L.NEW, _LH.FAILURE): _L.FAILED,
    (_L.STARTING, _LH.INITIALIZE_SENT): _L.INITIALIZING,
    (_L.STARTING, _LH.STOP): _L.STOPPING,
    # The role CLI: it is ready from the start on.
    (_L.STARTING, _LH.ENDED_WELL): _L.STOPPED,
    (_L.STARTING, _LH.FAILURE): _L.FAILED,
    (_L.INITIALIZING, _LH.CONFIRMED): _L.RUNNING,
    (_L.INITIALIZING, _LH.STOP): _L.STOPPING,
    (_L.INITIALIZING, _LH.FAILURE): _L.FAILED,
    (_L.RUNNING, _LH.STOP): _L.STOPPING,
    (_L.RUNNING, _LH.ENDED_WELL): _L.STOPPED,
    (_L.RUNNING, _LH.FAILURE): _L.FAILED,
    (_L.STOPPING, _LH.STOP): _L.STOPPING,
    (_L.STOPPING, _LH.ENDED_WELL): _L.STOPPED,
    # A failure during a stop is a consequence of the stop.
    (_L.STOPPING, _LH.FAILURE): _L.STOPPED,
    (_L.STOPPED, _LH.STOP): _L.STOPPED,  # `stop()` may be called in any state
    (_L.FAILED, _LH.STOP): _L.FAILED,  # callers keep the error
}


class Handshake(Member):
    """How far `initialize` has come. Both roles use the table: what one writes, the other receives."""

    NONE = auto()
    """A one-way launch has no handshake."""
    UNSENT = auto()
    SENT = auto()
    IMPLICIT = auto()
    """The CLI sent a request, so it has read `initialize`; its answer is still to come."""
    CONFIRMED = auto()
    UNCONFIRMED = auto()
    """The timeout passed after an implicit confirmation: usable, and nothing is known about the CLI."""
    FAILED = auto()


class HandshakeTrigger(Member):
    SENT = auto()
    REQUEST = auto()
    ANSWER = auto()
    ERROR = auto()
    DEADLINE = auto()
    ENDED = auto()


_K, _KH = Handshake, HandshakeTrigger

HANDSHAKE: dict[tuple[Handshake, HandshakeTrigger], Handshake] = {
    (_K.NONE, _KH.ENDED): _K.NONE,
    (_K.UNSENT, _KH.SENT): _K.SENT,
    # Requests that come too early wait until `initialize` is sent.
    (_K.UNSENT, _KH.REQUEST): _K.UNSENT,
    (_K.UNSENT, _KH.ENDED): _K.FAILED,
    (_K.SENT, _KH.REQUEST): _K.IMPLICIT,  # 2.1.327 asks in-process servers before it answers `initialize`
    (_K.SENT, _KH.ANSWER): _K.CONFIRMED,
    (_K.SENT, _KH.ERROR): _K.FAILED,
    (_K.SENT, _KH.DEADLINE): _K.FAILED,
    (_K.SENT, _KH.ENDED): _K.FAILED,
    (_K.IMPLICIT, _KH.REQUEST): _K.IMPLICIT,
    (_K.IMPLICIT, _KH.ANSWER): _K.CONFIRMED,
    (_K.IMPLICIT, _KH.ERROR): _K.FAILED,
    (_K.IMPLICIT, _KH.DEADLINE): _K.UNCONFIRMED,  # it works, so it is accepted, with a warning
    (_K.IMPLICIT, _KH.ENDED): _K.FAILED,
    (_K.CONFIRMED, _KH.REQUEST): _K.CONFIRMED,
    (_K.CONFIRMED, _KH.ENDED): _K.CONFIRMED,
    (_K.UNCONFIRMED, _KH.REQUEST): _K.UNCONFIRMED,
    (_K.UNCONFIRMED, _KH.ENDED): _K.UNCONFIRMED,
    (_K.FAILED, _KH.REQUEST): _K.FAILED,
    (_K.FAILED, _KH.ENDED): _K.FAILED,
}


class TurnState(StrEnum):
    """The state of one prompt of this side."""

    QUEUED = auto()
    STARTED = auto()
    COMPLETED = auto()
    INTERRUPTED = auto()
    FAILED = auto()

    @property
    def over(self) -> bool:
        """True once nothing more happens to it."""
        return self not in (TurnState.QUEUED, TurnState.STARTED)


class TurnTrigger(Member):
    REPORTED_QUEUED = auto()
    """Also after STARTED: an interrupt may put back what the turn had taken up."""
    REPORTED_STARTED = auto()
    NAMED = auto()
    """A frame says that it answers this prompt."""
    RESULT = auto()
    RESULT_ABORTED = auto()
    RESULT_FAILED = auto()
    WITHDRAWN = auto()
    """Reported as cancelled or discarded."""
    REFUSED = auto()
    IDLE_AFTER_COMPLETED = auto()
    """Reported as completed, and the CLI is idle without having sent a result for it."""
    IDLE_AFTER_WITHDRAWN = auto()
    IDLE_AFTER_REFUSED = auto()
    STOPPED = auto()
    """The session ended because this side stopped it."""
    DIED = auto()


_T, _TH = TurnState, TurnTrigger

TURN: dict[tuple[TurnState, TurnTrigger], TurnState] = {
    (_T.QUEUED, _TH.REPORTED_QUEUED): _T.QUEUED,
    (_T.STARTED, _TH.REPORTED_QUEUED): _T.QUEUED,
    # A prompt reported as cancelled before it started gets no result. Once started, its result comes before the report or soon after.
    (_T.QUEUED, _TH.WITHDRAWN): _T.INTERRUPTED,
    (_T.STARTED, _TH.WITHDRAWN): _T.STARTED,
    (_T.QUEUED, _TH.REFUSED): _T.FAILED,
    (_T.STARTED, _TH.REFUSED): _T.STARTED,
    **{
        (state, trigger): then
        for state in (_T.QUEUED, _T.STARTED)
        for trigger, then in (
            (_TH.REPORTED_STARTED, _T.STARTED),
            (_TH.NAMED, _T.STARTED),
            (_TH.RESULT, _T.COMPLETED),
            (_TH.RESULT_ABORTED, _T.INTERRUPTED),
            (_TH.RESULT_FAILED, _T.FAILED),
            (_TH.IDLE_AFTER_COMPLETED, _T.COMPLETED),
            (_TH.IDLE_AFTER_WITHDRAWN, _T.INTERRUPTED),
            (_TH.IDLE_AFTER_REFUSED, _T.FAILED),
            (_TH.STOPPED, _T.INTERRUPTED),
            (_TH.DIED, _T.FAILED),
        )
    },
    **{(state, trigger): state for state in (_T.COMPLETED, _T.INTERRUPTED, _T.FAILED) for trigger in _TH},
}


class Half(Member):
    OPEN = auto()
    CLOSING = auto()
    """Input only: closing was requested and waits for the joint rule."""
    CLOSED = auto()
    BROKEN = auto()
    """Input only: the peer stopped reading without a request."""


class HalfTrigger(Member):
    CLOSE_ASKED = auto()
    CLOSED = auto()
    BROKEN = auto()


_F, _FH = Half, HalfTrigger

INPUT: dict[tuple[Half, HalfTrigger], Half] = {
    (_F.OPEN, _FH.CLOSE_ASKED): _F.CLOSING,
    (_F.OPEN, _FH.CLOSED): _F.CLOSED,
    (_F.OPEN, _FH.BROKEN): _F.BROKEN,
    (_F.CLOSING, _FH.CLOSE_ASKED): _F.CLOSING,
    (_F.CLOSING, _FH.CLOSED): _F.CLOSED,
    (_F.CLOSING, _FH.BROKEN): _F.CLOSED,  # this side wanted it closed
    **{(state, trigger): state for state in (_F.CLOSED, _F.BROKEN) for trigger in _FH},
}
"""The writing of this side."""

OUTPUT: dict[tuple[Half, HalfTrigger], Half] = {(_F.OPEN, _FH.CLOSED): _F.CLOSED, (_F.CLOSED, _FH.CLOSED): _F.CLOSED}
"""The reading of this side."""


class Process(Member):
    ALIVE = auto()
    EXITED = auto()


class ProcessTrigger(Member):
    EXITED = auto()


PROCESS: dict[tuple[Process, ProcessTrigger], Process] = {
    (Process.ALIVE, ProcessTrigger.EXITED): Process.EXITED,
    (Process.EXITED, ProcessTrigger.EXITED): Process.EXITED,
}


class SessionActivity(StrEnum):
    """The activity that the CLI reports."""

    UNKNOWN = "unknown"
    """It has not said anything yet, or is too old to."""
    IDLE = "idle"
    RUNNING = "running"
    REQUIRES_ACTION = "requires_action"


_ACTIVITY_WORDS = {
    "idle": SessionActivity.IDLE,
    "running": SessionActivity.RUNNING,
    "requires_action": SessionActivity.REQUIRES_ACTION,
}


def activity_named(word: str) -> SessionActivity:
    """Return the activity that the CLI names; an unknown word means that it is busy in a way that has no name here."""
    return _ACTIVITY_WORDS.get(word, SessionActivity.RUNNING)


class Work(Member):
    """Whether a turn runs that no open prompt of this side explains: the CLI starts turns by itself when background tasks end."""

    UNKNOWN = auto()
    """Neither a state nor a result has come."""
    IDLE = auto()
    """The CLI said so."""
    ANSWERED = auto()
    """A result came, and the CLI has not said since then what it is doing."""
    DUE = auto()
    """A background task has ended: a turn follows, or a report of the CLI's state."""
    WORKING = auto()
    """A turn runs. Where the launch gives the prompt, from its beginning on."""


class WorkTrigger(Member):
    """Triggers that tell whether a turn runs."""

    TURN_BEGINS = auto()
    """An `init`."""
    RESULT = auto()
    TASK_ENDED = auto()
    SAYS_IDLE = auto()
    SAYS_BUSY = auto()
    SETTLED = auto()
    """The CLI has said nothing for long enough after the end of a task."""
    ENDED = auto()


_W, _WH = Work, WorkTrigger

WORK: dict[tuple[Work, WorkTrigger], Work] = {
    # An `init` comes also when no turn begins. Right after a result it means that another turn follows.
    (_W.UNKNOWN, _WH.TURN_BEGINS): _W.UNKNOWN,
    (_W.IDLE, _WH.TURN_BEGINS): _W.IDLE,
    (_W.ANSWERED, _WH.TURN_BEGINS): _W.WORKING,
    (_W.DUE, _WH.TURN_BEGINS): _W.DUE,
    (_W.WORKING, _WH.TURN_BEGINS): _W.WORKING,
    **{(state, _WH.TASK_ENDED): _W.DUE for state in (_W.UNKNOWN, _W.IDLE, _W.ANSWERED, _W.DUE)},
    (_W.WORKING, _WH.TASK_ENDED): _W.WORKING,
    **{(state, _WH.SETTLED): state for state in (_W.UNKNOWN, _W.IDLE, _W.ANSWERED, _W.WORKING)},
    (_W.DUE, _WH.SETTLED): _W.IDLE,
    **{
        (state, trigger): then
        for state in _W
        for trigger, then in (
            (_WH.RESULT, _W.ANSWERED),
            (_WH.SAYS_IDLE, _W.IDLE),
            (_WH.SAYS_BUSY, _W.WORKING),
            (_WH.ENDED, _W.IDLE),
        )
    },
}


class Exit(Member):
    CLEAN = auto()
    AFTER_ERROR_RESULT = auto()
    """Non-zero, and its last result was an error: the CLI's way to report it, also after an interrupt."""
    ERROR = auto()


class Ending(Member):
    COMPLETED = auto()
    """The CLI ended by itself, and no prompt was open."""
    STOPPED = auto()
    FAILED = auto()


_X, _E = Exit, Ending

ENDINGS: dict[tuple[SessionState, bool, Exit], Ending] = {
    # Where the session stood when the process ended; whether a prompt was open; how the process ended.
    **{
        (start, prompt, code): _E.FAILED
        for start in (_L.NEW, _L.STARTING, _L.INITIALIZING)
        for prompt in (False, True)
        for code in _X
    },
    **{(_L.RUNNING, True, code): _E.FAILED for code in _X},
    (_L.RUNNING, False, _X.CLEAN): _E.COMPLETED,
    (_L.RUNNING, False, _X.AFTER_ERROR_RESULT): _E.COMPLETED,  # 2.1.327 exits 1 after an interrupt
    (_L.RUNNING, False, _X.ERROR): _E.FAILED,
    **{(_L.STOPPING, prompt, code): _E.STOPPED for prompt in (False, True) for code in _X},
}
"""How a session ends with its process."""


class Snapshot(NamedTuple):
    """The facts that the joint rules use."""

    input: Half = Half.OPEN
    activity: SessionActivity = SessionActivity.UNKNOWN
    open_turns: int = 0
    pending_requests: int = 0
    in_flight_requests: int = 0
    background_tasks: int = 0
    unsettled: bool = False
    """A background task has reported its end, and the CLI has not said since then what it is doing."""


def operations_flow(handshake: Handshake, hold_until_confirmed: bool) -> bool:
    """Return whether prompts and control operations are written immediately: from the first sign that `initialize` was taken."""
    if handshake is Handshake.IMPLICIT:
        return not hold_until_confirmed  # a guard: the answer tells whether the CLI honours `on_failure='block'`
    return handshake is Handshake.CONFIRMED or handshake is Handshake.UNCONFIRMED


def peer_can_read(input: Half, output: Half, process: Process, peer_only_listens: bool) -> bool:  # noqa: A002 - its name
    """Return whether a frame that is written may still be read. A host that has closed its side (`peer_only_listens`) still reads."""
    listens = output is not Half.CLOSED or peer_only_listens
    return (input is Half.OPEN or input is Half.CLOSING) and listens and process is Process.ALIVE


def is_quiet(now: Snapshot) -> bool:
    """Return whether all is quiet: no prompt of this side is open, nothing runs in the background, and the CLI says it is idle.

    A task that ends makes the CLI start a turn by itself; between the two it looks idle (seen: 30 ms). It reports its state
    after every such notification, so until then it is not quiet. A CLI that reports no state at all is believed.
    """
    if now.open_turns or now.background_tasks:
        return False
    return now.activity is SessionActivity.UNKNOWN or (now.activity is SessionActivity.IDLE and not now.unsettled)


def input_may_close(now: Snapshot) -> bool:
    """Return whether stdin may be closed: it was requested, nothing is open, nothing in flight, and all is quiet."""
    return now.input is Half.CLOSING and not now.pending_requests and not now.in_flight_requests and is_quiet(now)
