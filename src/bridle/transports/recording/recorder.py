"""Writes down what goes through a transport: the wire trace of `Options(trace=...)`, and the cassettes of `bridle.testing`.

A recording is lines of JSON. The first is a header (`format`, `version`, library, CLI, what was redacted); each other line is one
happening: `s` the session, `t` seconds since its start, `k` what happened, and for frames `f`, the frame itself. A line is redacted
before it is written and written at once, so a crash loses nothing; a session without its `end` was interrupted.

Rules. A trace costs nothing where it is off, and never ends a session: what cannot be written is said once in the log.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from bridle._version import __version__
from bridle.errors import printable
from bridle.protocol.framing import LineFramer, OversizedLine
from bridle.transports.process.prepare import known_versions
from bridle.transports.recording.pieces import Pieces
from bridle.transports.recording.redaction import CATEGORIES, Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.launch.plan import LaunchPlan

__all__ = [
    "FORMAT",
    "VERSION",
    "FunctionSink",
    "SessionRecord",
    "Sink",
    "TapeFile",
    "header_line",
    "shown_arguments",
]

FORMAT = "bridle-cassette"
VERSION = 1

_VARIABLES = ("ANTHROPIC_", "BRIDLE_", "CLAUDE", "DISABLE_", "MCP_", "ENABLE_", "MAX_", "USE_")
"""Variables whose names are recorded; their values never are."""

logger = logging.getLogger("bridle")


class Sink(Protocol):
    """Takes whole lines."""

    def write(self, line: bytes) -> None:
        """Take one line, its line end included. Raises nothing."""

    def close(self) -> None:
        """Take that no more will come."""


class TapeFile:
    """A file of lines that only its owner may read.

    Args:
        path: where it is.
        fresh: True for a file that must not be there yet; False goes on with a trace that is.

    Raises:
        OSError: it cannot be opened.
        ValueError: there is something that is no trace.
    """

    def __init__(self, path: str, *, fresh: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_EXCL if fresh else 0)
        self.path = path
        self.error: OSError | None = None
        self._descriptor: int | None = os.open(path, flags, 0o600)
        self._lock = threading.RLock()  # a garbage collection inside of it may record an end
        try:
            if fresh:
                os.fchmod(self._descriptor, 0o600)
            elif stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                _check_is_trace(self._descriptor)
        except BaseException:
            self.close()
            raise

    def write(self, line: bytes) -> None:
        """Append a line. What fails is kept in `error`, and nothing more is written then."""
        with self._lock:
            if self._descriptor is None or self.error is not None:
                return
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError as error:
                self.error = error
                logger.warning("recording to %s ends here: %s", printable(self.path), error.strerror or error)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _check_is_trace(descriptor: int) -> None:
    """See that a file that is there was written here, and begin a new line in it if it was interrupted in one."""
    size = os.fstat(descriptor).st_size
    if not size:
        with suppress(OSError):  # somebody else's file, which only they can close to others
            os.fchmod(descriptor, 0o600)
        return
    if f'"format":"{FORMAT}"'.encode() not in os.pread(descriptor, 200, 0):
        raise ValueError("it exists and is no trace")
    if os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


class FunctionSink:
    """Calls a function with each line as an object."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def write(self, line: bytes) -> None:
        """Call it; what it raises is logged."""
        try:
            self._function(json.loads(line))
        except Exception:
            logger.exception("`trace` raised; the session goes on")

    def close(self) -> None:
        """Nothing is to be closed."""


def _line(fields: dict[str, Any], frame: bytes | None = None) -> bytes:
    text = json.dumps(fields, separators=(",", ":")).encode()
    if frame is not None:
        text = text[:-1] + b',"f":' + frame + b"}"
    return text + b"\n"


def header_line(plan: LaunchPlan, *, local: bool, more_redaction: bool = False) -> bytes:
    """Return the first line of a recording.

    Args:
        plan: how the first session was started.
        local: True if that is a local CLI, whose version is known.
        more_redaction: True if somebody's callback redacts, too.
    """
    program = plan.argv[plan.program_length - 1] if plan.argv else ""
    return _line(
        {
            "format": FORMAT,
            "version": VERSION,
            "library": __version__,
            "cli": known_versions().get(program) if local else None,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "redacted": [*CATEGORIES, *(["what the callback took out"] if more_redaction else [])],
        }
    )


def shown_arguments(plan: LaunchPlan, redactor: Redactor) -> list[str]:
    """Return the CLI's arguments, without its program, as they are recorded and compared."""
    shown = []
    name = ""
    for part in plan.argv[plan.program_length :]:
        flag, equals, value = part.partition("=")
        if part.startswith("--") and equals:
            shown.append(f"{flag}={_argument(value, flag.strip('-'), redactor)}")
            name = ""
        elif part.startswith("--"):
            shown.append(redactor.text(part))
            name = part.strip("-")
        else:
            shown.append(_argument(part, name, redactor))
            name = ""
    return shown


def _argument(value: str, name: str, redactor: Redactor) -> str:
    if value.startswith(("{", "[")):
        line, is_json = redactor.line(value.encode("utf-8", "surrogateescape"), inbound=False)
        if is_json:
            return line.decode()
    return redactor.text(value, name)


class SessionRecord:
    """The recording of one session: happenings in, redacted lines out.

    Args:
        sink: where the lines go.
        redactor: what takes out what does not belong there.
        session: what the session is called in the lines: an index, or a random text.
        line_bytes: lines of the CLI that are longer are noted, and not kept.
        name: the name that its user gave it.
    """

    def __init__(
        self, sink: Sink, redactor: Redactor, session: int | str, line_bytes: int, name: str | None = None
    ) -> None:
        self.ended = False
        self._sink = sink
        self._redactor = redactor
        self._session = session
        self._name = name
        self._framer = LineFramer(line_bytes)
        self._pieces = Pieces(redactor.text, self._keep_piece)
        self._unsent = b""
        self._one_shot = False
        self._began = time.monotonic()
        self._said: set[str] = set()
        self._exit_known = False
        self._lock = threading.RLock()

    @classmethod
    def none(cls) -> SessionRecord:
        """Return a record that has ended: nothing is written."""
        record = cls(FunctionSink(print), Redactor(Vault()), 0, 1)
        record.ended = True
        return record

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def _put(self, kind: str, fields: dict[str, Any] | None = None, frame: bytes | None = None) -> None:
        self._pieces.flush()
        self._write(self._seconds(), kind, fields or {}, frame)

    def _write(self, seconds: float, kind: str, fields: dict[str, Any], frame: bytes | None = None) -> None:
        try:
            self._sink.write(_line({"s": self._session, "t": seconds, "k": kind, **fields}, frame))
        except ValueError as error:  # half a character, say
            logger.warning("something could not be recorded: %s", error)

    def _once(self, kind: str, **fields: Any) -> bool:
        with self._lock:
            if self.ended or kind in self._said:
                return False
            self._said.add(kind)
            self._put(kind, fields)
            return True

    def begin(self, plan: LaunchPlan) -> None:
        """Take how the session is started."""
        self._began = time.monotonic()
        self._one_shot = plan.stdin is not None
        redactor = self._redactor
        self._once(
            "start",
            **({"name": self._name} if self._name is not None else {}),
            arguments=shown_arguments(plan, redactor),
            cwd=redactor.text(plan.cwd) if plan.cwd is not None else None,
            variables=sorted(name for name in plan.environment if name.startswith(_VARIABLES)),
            one_shot=self._one_shot,
        )

    def start_failed(self, error: BaseException) -> None:
        """Take that it could not be started."""
        self._once("start_error", error=type(error).__name__, message=self._redactor.text(str(error)))
        self.end()

    def sent(self, data: bytes) -> None:
        """Take bytes for the CLI."""
        with self._lock:
            if self.ended:
                return
            self._unsent += data
            if self._one_shot:
                return  # a prompt, which is no frame, and goes on until the input ends
            *lines, self._unsent = self._unsent.split(b"\n")
            for line in lines:
                if line.strip():
                    self._keep("out", line)

    def received(self, data: bytes) -> None:
        """Take bytes of the CLI; b"" is their end."""
        if not data:
            self.output_ended()
            return
        with self._lock:
            if self.ended:
                return
            for line in self._framer.receive_data(data):
                if isinstance(line, OversizedLine):
                    self._put("in", {"oversized": line.size})
                elif not self._pieces.take(line, self._seconds()):
                    self._keep("in", line)

    def _keep(self, kind: str, line: bytes, **fields: Any) -> None:
        kept, is_json = self._redactor.line(line, inbound=kind == "in")
        if is_json:
            self._put(kind, fields, kept)
            return
        try:
            self._put(kind, {**fields, "text": kept.decode()})
        except UnicodeDecodeError:
            self._put(kind, {**fields, "base64": base64.b64encode(kept).decode()})

    def _keep_piece(self, line: bytes, seconds: float) -> None:
        kept, _ = self._redactor.line(line, inbound=True)
        self._write(seconds, "in", {}, kept)

    def input_ended(self) -> None:
        """Take that nothing more will be sent."""
        with self._lock:
            if self._one_shot and self._unsent:
                text = self._redactor.text(self._unsent.decode("utf-8", "surrogateescape"))
                self._once("prompt", text=text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
                self._unsent = b""
            self._once("end_input")

    def output_ended(self) -> None:
        """Take that the CLI will send nothing more."""
        with self._lock:
            tail = self._framer.receive_eof()
            if isinstance(tail, bytes) and not self.ended:
                self._keep("in", tail, cut=True)
            self._once("eof")

    def exited(self, code: int | None) -> None:
        """Take how it ended."""
        if not self._exit_known:
            self._exit_known = True
            self._once("exit", code=code)

    @property
    def exit_known(self) -> bool:
        """True once the exit status is recorded."""
        return self._exit_known

    def stopped(self, *, turn_open: bool) -> None:
        """Take that our side ends it."""
        self._once("stop", turn_open=turn_open)

    def abandoned(self) -> None:
        """Take that our side forgot it."""
        self._once("abandon")
        self.end()

    def end(self, stderr_tail: bytes = b"") -> None:
        """Take that nothing more will be recorded, and what was on stderr. Idempotent."""
        with self._lock:
            if not self.ended:
                if stderr_tail:
                    self._once("stderr", text=self._redactor.text(stderr_tail.decode("utf-8", "replace")))
                self._once("end", redactions=self._redactor.vault.counts())
                self.ended = True
                self._sink.close()
