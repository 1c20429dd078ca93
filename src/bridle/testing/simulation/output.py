"""The output of a simulated CLI: stdout, stderr, the exit status, and the faults that damage them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bridle.protocol import frames
from bridle.testing.simulation.facts import TIME

if TYPE_CHECKING:
    from bridle.protocol.connection import Connection
    from bridle.testing.script.run import ScriptRun
    from bridle.testing.simulation.state import SessionState

__all__ = ["Output"]

_BESIDE = ("session_state_changed", "session_title_changed")
"""System frames that leave the exit status as it is."""


@dataclass(kw_only=True, eq=False, repr=False)
class Output:
    """Sends frames until the process exits or hangs.

    Attributes:
        exit_code: the exit status; negative for a signal, None while the process runs.
        stderr: the bytes printed there.
        hanging: the process sends and answers nothing, and does not exit.
        failed: the last message is the result of a failed turn, which decides about the exit status.
        cut: the next line is cut: the bytes that remain (None for half of them), and the exit status.
    """

    connection: Connection
    state: SessionState
    script: ScriptRun
    _lines: list[bytes] = field(default_factory=list, init=False)
    exit_code: int | None = field(default=None, init=False)
    stderr: bytearray = field(default_factory=bytearray, init=False)
    hanging: bool = field(default=False, init=False)
    failed: bool = field(default=False, init=False)
    cut: tuple[int | None, int] | None = field(default=None, init=False)

    @property
    def is_open(self) -> bool:
        """True until the process exits or hangs."""
        return self.exit_code is None and not self.hanging

    def take(self) -> bytes:
        """Return the bytes for stdout, and count them as written."""
        data = b"".join(self._lines)
        self._lines.clear()
        return data

    # -- frames -------------------------------------------------------------------------------------------------------

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
        self.connection.send_response(request_id, answer)
        self.flush()

    def refuse(self, request_id: str, text: str, code: str | None) -> None:
        """Answer a control request of the host with an error."""
        self.connection.send_error(request_id, text, code)
        self.flush()

    def garbage(self, data: bytes) -> None:
        """Send bytes that are not a frame."""
        self.flush()
        if self.is_open:
            self._lines.append(data)

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

    # -- the end ------------------------------------------------------------------------------------------------------

    def exit(self, code: int) -> None:
        """End the process."""
        if self.exit_code is None:
            if self.cut is None and not self.hanging:
                self.flush()
            self.exit_code = code
            self.script.note(f"the CLI exits with {code}")

    def fail(self, stderr: str, code: int = 1) -> None:
        """Print a line to stderr and end the process."""
        self.stderr += stderr.encode() + (b"" if stderr.endswith("\n") else b"\n")
        self.exit(code)
