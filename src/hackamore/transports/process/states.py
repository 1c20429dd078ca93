"""The state tables of a child process. A missing cell is an error.

Three small machines: its life, its input, and the wait for its descriptor. The exit status is not part of life: a process exits whenever
it wants to, also while it is being stopped.
"""

from __future__ import annotations

from enum import auto

from hackamore.runtime.tables import Member


class Life(Member):
    """State of a child, as its owner and the reaper see it."""

    STARTING = auto()
    CALLED_OFF = auto()
    """It is to be stopped, and its start is not over: the start hands it to the reaper."""
    RUNNING = auto()
    STOPPING = auto()
    """The reaper has it."""
    GONE = auto()
    """Its descriptors are closed."""


class LifeTrigger(Member):
    """Moves a child from one state to the next."""

    STARTED = auto()
    STOP = auto()
    LET_GO = auto()
    """The reaper is through with it, the start failed, or this is a forked copy of the host."""


_L, _LH = Life, LifeTrigger
LIFE: dict[tuple[Life, LifeTrigger], Life] = {
    (_L.STARTING, _LH.STARTED): _L.RUNNING,
    (_L.STARTING, _LH.STOP): _L.CALLED_OFF,
    (_L.CALLED_OFF, _LH.STARTED): _L.STOPPING,
    (_L.CALLED_OFF, _LH.STOP): _L.CALLED_OFF,
    (_L.RUNNING, _LH.STOP): _L.STOPPING,
    (_L.STOPPING, _LH.STOP): _L.STOPPING,
    (_L.GONE, _LH.STOP): _L.GONE,
    **{(state, _LH.LET_GO): _L.GONE for state in Life},
}


class Input(Member):
    """State of the pipe to the child's stdin."""

    OPEN = auto()
    ENDING = auto()
    """It is closed once everything queued is written."""
    CLOSED = auto()
    BROKEN = auto()
    """The child does not read any more. The pipe is closed."""


class InputTrigger(Member):
    """Moves the input from one state to the next."""

    END = auto()
    WRITTEN = auto()
    """Nothing is queued any more."""
    BREAK = auto()
    CLOSE = auto()


_I, _IH = Input, InputTrigger
INPUT: dict[tuple[Input, InputTrigger], Input] = {
    (_I.OPEN, _IH.END): _I.ENDING,
    (_I.OPEN, _IH.BREAK): _I.BROKEN,
    (_I.OPEN, _IH.CLOSE): _I.CLOSED,
    (_I.ENDING, _IH.END): _I.ENDING,
    (_I.ENDING, _IH.WRITTEN): _I.CLOSED,
    (_I.ENDING, _IH.BREAK): _I.BROKEN,
    (_I.ENDING, _IH.CLOSE): _I.CLOSED,
    **{(state, trigger): state for state in (_I.CLOSED, _I.BROKEN) for trigger in (_IH.END, _IH.CLOSE)},
}


class Wait(Member):
    """State of the wait for the child's one descriptor."""

    FREE = auto()
    WAITED_FOR = auto()
    CLOSING = auto()
    """It is closed by the waiter, when its wait is over: a descriptor must not be closed while it is waited for."""
    CLOSED = auto()


class WaitTrigger(Member):
    """Moves the wait from one state to the next."""

    BEGIN = auto()
    OVER = auto()
    CLOSE = auto()


_W, _WH = Wait, WaitTrigger
WAIT: dict[tuple[Wait, WaitTrigger], Wait] = {
    (_W.FREE, _WH.BEGIN): _W.WAITED_FOR,
    (_W.FREE, _WH.OVER): _W.FREE,
    (_W.FREE, _WH.CLOSE): _W.CLOSED,
    (_W.WAITED_FOR, _WH.BEGIN): _W.WAITED_FOR,
    (_W.WAITED_FOR, _WH.OVER): _W.FREE,
    (_W.WAITED_FOR, _WH.CLOSE): _W.CLOSING,
    (_W.CLOSING, _WH.BEGIN): _W.CLOSING,
    (_W.CLOSING, _WH.OVER): _W.CLOSED,
    (_W.CLOSING, _WH.CLOSE): _W.CLOSING,
    **{(_W.CLOSED, trigger): _W.CLOSED for trigger in WaitTrigger},
}
