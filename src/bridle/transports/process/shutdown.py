"""How a child is stopped: the numbered sequence of contract section 9, written once.

`stop_sequence` decides and never waits: it is a generator that yields for how many seconds at most the exit is to be awaited, and is
told whether the child has exited. The reaper runs it; so every ending (close, cancellation, garbage collection, interpreter exit)
takes the same steps.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

from bridle.transports.process.processes import Identity, descendants, identity, kill_identity, marked_with

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Stoppable", "stop_sequence"]

REAP_SECONDS = 5.0
"""After SIGKILL the kernel needs moments; a process in an uninterruptible wait may need longer, and cannot be helped."""


class Stoppable(Protocol):
    """What the sequence needs of a child."""

    child_id: str
    pid: int

    @property
    def exited(self) -> bool:
        """True once its exit status is known."""

    def close_input(self) -> None:
        """Close its stdin."""

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to it alone, or to its process group."""


def stop_sequence(
    child: Stoppable, *, turn_open: bool, stop_grace: float, kill_grace: float
) -> Generator[float, bool, None]:
    """Stop `child`: yields how long to wait for its exit at most, and is sent True as soon as it has exited.

    Args:
        child: what to stop.
        turn_open: True if the model may be at work: then nothing is waited for before SIGTERM, and nothing that it started survives.
        stop_grace: seconds for an exit by itself after its input was closed (its transcript is written then).
        kill_grace: seconds for an exit after SIGTERM.
    """
    noted: set[Identity] = set()

    def note() -> None:
        if not child.exited:
            noted.update(descendants(child.pid))

    exited = child.exited
    # 0. Descendants can only be found while their parent lives.
    if not exited:
        note()
    # 1. (An open turn of a session was interrupted by its owner before.)
    # 2. The end of its input is the polite request.
    child.close_input()
    if exited or not turn_open:
        if not exited:
            exited = yield stop_grace
        if exited and not turn_open:
            # It chose to end, with nothing open: what it left running, somebody wanted (a server that was started, say).
            return
    # 3. SIGTERM: it ends its own children and exits.
    if not exited:
        note()
        child.signal(signal.SIGTERM)
        exited = yield kill_grace
    # 4. SIGKILL, to its group, to the noted descendants, and to all that carry its mark: its shells live in sessions of their own.
    if not exited:
        note()
        child.signal(signal.SIGKILL, group=True)
        child.signal(signal.SIGKILL)
    noted.update(marked_with(child.child_id))
    own = identity(child.pid)
    for who in noted:
        if who != own:
            kill_identity(who, signal.SIGKILL)
    # 5. Reap.
    if not exited:
        yield REAP_SECONDS
