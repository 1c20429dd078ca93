"""The two directions of a connection, the process behind them, and the frames on their way out.

Prompts and operations flow from the confirmation of the handshake on. Before it their frames are held, in order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bridle.protocol.exchanges import PendingRequest
from bridle.protocol.states.session import (
    INPUT,
    OUTPUT,
    PROCESS,
    Half,
    HalfHappening,
    Process,
    ProcessHappening,
    somebody_reads,
)

if TYPE_CHECKING:
    from bridle.protocol.turns import PromptRecord

__all__ = ["Halves"]


class Halves:
    """What can still be written and read.

    Args:
        one_way: nothing is written.
        peer_only_listens: role CLI: a host that has closed its side still reads.
    """

    def __init__(self, *, one_way: bool, peer_only_listens: bool) -> None:
        self.input = Half.CLOSED if one_way else Half.OPEN
        self.output = Half.OPEN
        self.process = Process.ALIVE
        self.exit_code: int | None = None
        self.stderr_tail = b""
        self.peer_only_listens = peer_only_listens
        self._frames: list[bytes] = []
        self._held: deque[tuple[PendingRequest | PromptRecord, bytes]] = deque()

    @property
    def open(self) -> bool:
        """True while a frame that is written may still be read."""
        return somebody_reads(self.input, self.output, self.process, self.peer_only_listens)

    @property
    def exited(self) -> bool:
        """True once the exit status is known and the output was read to its end."""
        return self.process is Process.EXITED and self.output is Half.CLOSED

    @property
    def stderr(self) -> str:
        """The last part of stderr as text, once the process has exited."""
        return self.stderr_tail.decode("utf-8", "replace")

    def input_happened(self, happening: HalfHappening) -> None:
        """Move `input`; drop frames once it is closed."""
        self.input = INPUT[self.input, happening]
        if not self.open:
            self._frames.clear()

    def output_ended(self) -> None:
        """Close `output`."""
        self.output = OUTPUT[self.output, HalfHappening.CLOSED]

    def process_exited(self, exit_code: int | None, stderr_tail: bytes) -> None:
        """Keep the exit status."""
        self.process = PROCESS[self.process, ProcessHappening.EXITED]
        self.exit_code, self.stderr_tail = exit_code, stderr_tail

    def write(self, frame: bytes) -> bool:
        """Queue a frame; return False if it could not be read any more."""
        if self.open:
            self._frames.append(frame)
            return True
        return False

    def take(self) -> bytes:
        """Return the queued frames, and forget them."""
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    def send(self, what: PendingRequest | PromptRecord, frame: bytes, *, flows: bool) -> None:
        """Write the frame of a request or prompt, or hold it."""
        if flows:
            what.written = True
            self.write(frame)
        else:
            self._held.append((what, frame))

    @property
    def held_requests(self) -> int:
        """The number of held requests."""
        return sum(isinstance(what, PendingRequest) for what, _ in self._held)

    def drop(self, what: PendingRequest | PromptRecord) -> None:
        """Forget a frame, if it is held."""
        self._held = deque(item for item in self._held if item[0] is not what)

    def drop_all(self) -> None:
        """Forget all held frames."""
        self._held.clear()

    def release(self) -> None:
        """Write the held frames."""
        held, self._held = self._held, deque()
        for what, frame in held:
            self.send(what, frame, flows=True)
