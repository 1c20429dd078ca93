"""Writes down what goes through a transport: the wire trace of `Options(trace=...)`, and the cassettes of `hackamore.testing`.

A recording is lines of JSON. The first is a header (`format`, `version`, library, CLI, what was redacted); each other line is one
event: `s` the session, `t` seconds since its start, `k` what happened, and for frames `f`, the frame itself. A line is redacted
before it is written, and written immediately, so a crash loses nothing; a session without its `end` was interrupted.

Replies that arrive in pieces wait until no secret can continue in a later piece (`Pieces`).

Rules. A trace costs nothing where it is off, and never ends a session: what cannot be written is said once in the log. Long
work is done in a thread, and waited for before the session continues: the order stays, memory is bounded, and the event loop runs.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import secrets
import stat
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import anyio
from anyio import to_thread

from hackamore._engine.protocol.framing import LineFramer, OversizedLine
from hackamore._version import __version__
from hackamore.errors import HackamoreError, OptionsError, escape_terminal
from hackamore.runtime.log import logger
from hackamore.transports.base import AsyncTransport, SyncTransport, Transport
from hackamore.transports.process.prepare import known_versions
from hackamore.transports.recording.redaction import CATEGORIES, Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore._engine.launch.plan import LaunchPlan

FORMAT = "hackamore-cassette"
VERSION = 1

_VARIABLES = ("ANTHROPIC_", "HACKAMORE_", "CLAUDE", "DISABLE_", "MCP_", "ENABLE_", "MAX_", "USE_")
"""Variables whose names are recorded; their values never are."""


class Sink(Protocol):
    """Takes whole lines."""

    def write(self, line: bytes) -> None:
        """Write one line, its line end included. Raises nothing."""

    def close(self) -> None:
        """Close the sink: no more lines follow."""


class TapeFile:
    """A file of lines that only its owner may read.

    `fresh` is True for a file that must not exist yet; False appends to an existing trace. ValueError says that there is a symbolic link,
    or a file that is not a trace.
    """

    def __init__(self, path: str, *, fresh: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_EXCL if fresh else os.O_NOFOLLOW)
        self.path = path
        self.error: OSError | None = None
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            if not fresh and error.errno == errno.ELOOP and os.path.islink(path):
                raise ValueError("it is a symbolic link; name the file that it points to") from None
            raise
        self._lock = threading.RLock()  # a garbage collection inside it may record an end
        try:
            if fresh:
                os.fchmod(self._descriptor, 0o600)
            elif stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                _check_is_trace(self._descriptor)
        except BaseException:
            self.close()
            raise

    def write(self, line: bytes) -> None:
        """Append a line. A failure is kept in `error`, and ends the recording."""
        with self._lock:
            if self._descriptor is None or self.error is not None:
                return
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError as error:
                self.error = error
                logger.warning("recording to %s ends here: %s", escape_terminal(self.path), error.strerror or error)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _check_is_trace(descriptor: int) -> None:
    """Check that an existing file is a trace, and begin a new line in it if its last one is not complete."""
    size = os.fstat(descriptor).st_size
    if not size:
        with suppress(OSError):  # another user's file, whose mode only that user can change
            os.fchmod(descriptor, 0o600)
        return
    if f'"format":"{FORMAT}"'.encode() not in os.pread(descriptor, 200, 0):
        raise ValueError("it exists and is not a trace")
    if os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


class FunctionSink:
    """Calls a function with each line as an object. With `here` only this thread calls it; lines of others wait for the next write."""

    def __init__(self, function: Callable[..., object], *, here: bool = False) -> None:
        self._function = function
        self._thread = threading.get_ident() if here else None
        self._waiting: deque[bytes] = deque()

    def write(self, line: bytes) -> None:
        """Call it; what it raises is logged."""
        if line:
            self._waiting.append(line)
        while self._waiting and self._thread in (None, threading.get_ident()):
            try:
                self._function(json.loads(self._waiting.popleft()))
            except Exception:
                logger.exception("`trace` raised; the session continues")

    def close(self) -> None:
        self._thread = None
        self.write(b"")


def _line(fields: dict[str, Any], frame: bytes | None = None) -> bytes:
    text = json.dumps(fields, separators=(",", ":")).encode()
    if frame is not None:
        text = text[:-1] + b',"f":' + frame + b"}"
    return text + b"\n"


def header_line(plan: LaunchPlan, *, local: bool, more_redaction: bool = False) -> bytes:
    """Return the first line of a recording; `local` if its first session is of a local CLI, `more_redaction` if a callback redacts too."""
    program = plan.argv[plan.program_length - 1] if plan.argv else ""
    return _line(
        {
            "format": FORMAT,
            "version": VERSION,
            "library": __version__,
            "cli": known_versions().get(program) if local else None,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "redacted": [*CATEGORIES, *(["values removed by the callback"] if more_redaction else [])],
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
    if value.lstrip().startswith(("{", "[")):
        line, is_json = redactor.line(value.encode("utf-8", "surrogateescape"), inbound=False)
        if is_json:
            return line.decode()
    return redactor.text(value, name)


class SessionRecord:
    """The recording of one session: events in, redacted lines out.

    `session` is its name in the lines: an index, or a random text; `name` is the one that its user gave it. Lines of the CLI with more
    than `line_bytes` are noted, and not kept.
    """

    def __init__(
        self, sink: Sink, redactor: Redactor, session: int | str, line_bytes: int, name: str | None = None
    ) -> None:
        self.ended: bool = False
        self.sink = sink
        self._redactor = redactor
        self._session = session
        self._name = name
        self._framer = LineFramer(line_bytes)
        self._pieces = Pieces(redactor.text, self._keep_piece, sink.write)
        self._unsent = b""
        self._one_shot = False
        self._began = time.monotonic()
        self._said: set[str] = set()
        self._exit_known = False
        self.lock: threading.RLock = threading.RLock()
        _records.add(self)

    @classmethod
    def none(cls) -> SessionRecord:
        """Return a record that has ended: nothing is written."""
        record = cls(FunctionSink(print), Redactor(Vault()), 0, 1)
        record.ended = True
        return record

    def takes_long(self, data: bytes | None) -> bool:
        """Return whether to take these bytes, or any event, keeps an event loop waiting."""
        waiting = self._framer.size + len(self._unsent) + self._pieces.size
        return (data is None or b"\n" in data) and waiting + len(data or b"") > _LONG

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def _put(self, kind: str, fields: dict[str, Any] | None = None, frame: bytes | None = None) -> None:
        try:
            line = _line({"s": self._session, "t": self._seconds(), "k": kind, **(fields or {})}, frame)
        except ValueError as error:  # half a character, say
            logger.warning("something could not be recorded: %s", error)
            return
        if kind not in ("in", "out") or not self._pieces.follow(line):
            self._pieces.flush()
            self.sink.write(line)

    def _once(self, kind: str, **fields: Any) -> bool:
        with self.lock:
            if self.ended or kind in self._said:
                return False
            self._said.add(kind)
            self._put(kind, fields)
            return True

    def begin(self, plan: LaunchPlan) -> None:
        """Record how the session is started."""
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
        """Record that the session could not be started."""
        self._once("start_error", error=type(error).__name__, message=self._redactor.text(str(error)))
        self.end()

    def sent(self, data: bytes) -> None:
        """Record bytes for the CLI."""
        with self.lock:
            if self.ended:
                return
            self._unsent += data
            if self._one_shot:
                return  # a prompt, which is not a frame and continues until the input ends
            *lines, self._unsent = self._unsent.split(b"\n")
            for line in lines:
                if line.strip():
                    self._keep("out", line)

    def received(self, data: bytes) -> None:
        """Record bytes of the CLI; b"" is their end."""
        if not data:
            self.output_ended()
            return
        with self.lock:
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
        self.sink.write(_line({"s": self._session, "t": seconds, "k": "in"}, kept))

    def input_ended(self) -> None:
        """Record the end of the input of the CLI."""
        with self.lock:
            if self._one_shot and self._unsent:
                text = self._redactor.text(self._unsent.decode("utf-8", "surrogateescape"))
                self._once("prompt", text=text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
                self._unsent = b""
            self._once("end_input")

    def output_ended(self) -> None:
        """Record the end of the output of the CLI."""
        with self.lock:
            tail = self._framer.receive_eof()
            if isinstance(tail, bytes) and not self.ended:
                self._keep("in", tail, cut=True)
            self._once("eof")

    def exited(self, code: int | None) -> None:
        """Record the exit code."""
        if not self._exit_known:
            self._exit_known = True
            self._once("exit", code=code)

    @property
    def exit_known(self) -> bool:
        """True once the exit status is recorded."""
        return self._exit_known

    def stopped(self, *, turn_open: bool) -> None:
        """Record that Hackamore stops the session."""
        self._once("stop", turn_open=turn_open)

    def abandoned(self) -> None:
        """Record that Hackamore abandoned the session."""
        self._once("abandon")
        self.end()

    def end(self, stderr_tail: bytes = b"") -> None:
        """End the record, with the last output on stderr. Idempotent."""
        with self.lock:
            if not self.ended:
                if stderr_tail:
                    self._once("stderr", text=self._redactor.text(stderr_tail.decode("utf-8", "replace")))
                self._once("end", redactions=self._redactor.vault.counts())
                self.ended = True
                self.sink.close()


_records: weakref.WeakSet[SessionRecord] = weakref.WeakSet()


def _after_fork() -> None:
    """End the copies of records in a forked child: the session is its parent's, and a thread there may hold the lock for ever here."""
    for record in list(_records):
        record.lock, record.ended = threading.RLock(), True


os.register_at_fork(after_in_child=_after_fork)

_SIGN = b'"content_block_delta"'
_ENDS = (b'"stream_event"', b'"assistant"', b'"result"')
_TEXTS = ("text", "thinking", "partial_json")
_ENOUGH = 256
"""Characters that are waited for before anything is looked at, and again between two looks."""
_MOST = 4_096
"""Characters that are waited for at most."""
_LONG = 1 << 16
"""Bytes that are not looked at in the thread of an event loop."""
_MOST_BYTES = 1 << 22
"""Bytes of lines that wait at most, with those that came between two pieces."""
_WORDS = 5
"""A name, a sign, a scheme and a value may be separate words; the last one may be incomplete."""


class _Piece(NamedTuple):
    line: bytes
    seconds: float
    block: tuple[Any, ...]  # empty for a line that came between two pieces
    name: str
    text: str


class Pieces:
    """Lines of the CLI that wait, in order.

    Args:
        redact: returns a text without what does not belong into a recording.
        keep: takes a piece, and the moment at which it came.
        write: takes a line that came between two pieces, as it is to be written.
    """

    def __init__(
        self, redact: Callable[[str], str], keep: Callable[[bytes, float], None], write: Callable[[bytes], None]
    ) -> None:
        self._redact = redact
        self._keep = keep
        self._write_line = write
        self._waiting: list[_Piece] = []
        self._open: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # a conversation -> its block, which may continue
        self._length = 0
        self.size: int = 0
        self._next_look = _ENOUGH

    def take(self, line: bytes, seconds: float) -> bool:
        """Buffer a line of the CLI if it is a piece; return False if it is something else."""
        piece = _piece(line, seconds)
        if piece is None:
            for conversation in _ended(line) if self._waiting else ():
                self._open.pop(conversation, None)
            if not self._open:
                self.flush()
            return False
        conversation = piece.block[:2]
        if self._open.get(conversation, piece.block) != piece.block and len(self._open) == 1:
            self.flush()
        self._open[conversation] = piece.block
        self._add(piece)
        self._length += len(piece.text)
        if self._length >= self._next_look:
            if len({piece.block for piece in self._waiting if piece.block}) == 1:
                self._write_what_is_over()
            # Text that cannot be written yet is examined again once it is half as long again: the total time is linear.
            self._next_look = self._length + max(_ENOUGH, self._length // 2)
        return True

    def follow(self, line: bytes) -> bool:
        """Buffer a line that came between two pieces: to write these apart would split a secret. Return False if none wait."""
        if self._waiting:
            self._add(_Piece(line, 0.0, (), "", ""))
        return bool(self._waiting)

    def flush(self) -> None:
        """Write everything: nothing more comes."""
        waiting, self._waiting = self._waiting, []
        self._length, self.size, self._next_look = 0, 0, _ENOUGH
        self._open.clear()
        self._write(waiting)

    def _add(self, piece: _Piece) -> None:
        if self.size + len(piece.line) > _MOST_BYTES:
            self.flush()
        self._waiting.append(piece)
        self.size += len(piece.line)

    def _write_what_is_over(self) -> None:
        whole = "".join(piece.text for piece in self._waiting)
        beginning = max(0, len(whole) - _MOST)
        words = whole[beginning:].rsplit(maxsplit=_WORDS)
        over = beginning + (len(words[0]) if len(words) > _WORDS else 0)
        told = whole.rstrip()[: -len(words[-1])] if len(words) > _WORDS else whole  # the last word may continue
        count = length = reached = 0
        for number, piece in enumerate(self._waiting, 1):
            reached += len(piece.text)
            if reached > over:
                break
            if beginning or whole[reached - 1 : reached + 1].strip() != whole[reached - 1 : reached + 1]:
                count, length = number, reached
        clean = self._redact(told)
        if not length or (clean != told and self._redact(told[:length]) + self._redact(told[length:]) != clean):
            return
        done, self._waiting = self._waiting[:count], self._waiting[count:]
        self._length -= length
        self.size -= sum(len(piece.line) for piece in done)
        self._write(done)

    def _write(self, pieces: list[_Piece]) -> None:
        blocks: dict[tuple[Any, ...], list[str]] = {}
        for piece in pieces:
            blocks.setdefault(piece.block, []).append(piece.text)
        cleaned = {block: self._redact("".join(texts)) for block, texts in blocks.items() if len(texts) > 1}
        split = {block for block, clean in cleaned.items() if clean != "".join(map(self._redact, blocks[block]))}
        for piece in pieces:
            if not piece.block:
                self._write_line(piece.line)
            elif piece.block in split:
                self._keep(_with_text(piece, cleaned[piece.block]), piece.seconds)
                cleaned[piece.block] = ""
            else:
                self._keep(piece.line, piece.seconds)


def _ended(line: bytes) -> tuple[tuple[Any, ...], ...]:
    if not any(sign in line for sign in _ENDS):
        return ()
    try:
        frame = json.loads(line)
        if f'"{frame["type"]}"'.encode() in _ENDS:
            return ((frame.get("session_id"), frame.get("parent_tool_use_id")),)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        pass
    return ()


def _piece(line: bytes, seconds: float) -> _Piece | None:
    """Return a piece of a block, or None if the line is something else."""
    if _SIGN not in line:
        return None
    try:
        frame = json.loads(line)
        event = frame["event"]
        delta = event["delta"]
        if frame["type"] != "stream_event" or event["type"] != "content_block_delta":
            return None
        for name in _TEXTS:
            if isinstance(text := delta.get(name), str):
                block = (frame.get("session_id"), frame.get("parent_tool_use_id"), event.get("index"), name)
                return _Piece(line, seconds, block, name, text)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        pass
    return None


def _with_text(piece: _Piece, text: str) -> bytes:
    frame = json.loads(piece.line)
    frame["event"]["delta"][piece.name] = text
    return json.dumps(frame, separators=(",", ":")).encode()


T = TypeVar("T", bound=Transport)

_EXIT_SECONDS = 1.0
"""How long the exit status of a peer that was stopped is waited for."""


class _Recorded(Generic[T]):
    """The members that both forms of a recorded transport share. `begin` makes the record when the launch plan is known, none before."""

    def __init__(self, inner: T, begin: Callable[[LaunchPlan], SessionRecord]) -> None:
        self._inner = inner
        self._begin = begin
        self._made = False
        self._up = False
        self._record = SessionRecord.none()

    @contextmanager
    def _starting(self, plan: LaunchPlan) -> Iterator[None]:
        if not self._made:  # a start that was cancelled is continued
            there = getattr(
                self._inner, "far_plan", None
            )  # another machine gets variables that the options do not name
            seen = plan if there is None else there(plan)
            self._record = self._begin(seen)
            self._made = True
            self._record.begin(seen)
        try:
            yield
        except (HackamoreError, OSError) as error:
            self._record.start_failed(error)
            raise
        self._up = True

    @property
    def pid(self) -> int | None:
        """The process id, where there is one."""
        return self._inner.pid

    @property
    def stderr_tail(self) -> bytes:
        """The last part of what the peer wrote to stderr."""
        return self._inner.stderr_tail

    def abandon(self) -> None:
        """Stop the peer without waiting."""
        self._inner.abandon()
        self._record.abandoned()

    @property
    def _lacks_exit(self) -> bool:
        return self._up and not self._record.ended and not self._record.exit_known


class RecordedAsync(_Recorded[AsyncTransport]):
    """An async transport that is recorded."""

    _threads = 0
    _received: bytes | None = None
    _abandoned = False

    async def _tell(self, take: Callable[[], None], data: bytes | None = None) -> None:
        """Record something, even if this is cancelled: in a thread if it takes long, or if another one records."""
        if self._record.ended or not (self._threads or self._record.takes_long(data)):
            take()
            return
        done: list[bool] = []

        def turn() -> None:
            with self._record.lock:
                if not done:
                    done.append(True)
                    take()
            if self._abandoned:
                self._record.abandoned()

        self._threads += 1
        try:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(turn)
        finally:
            self._threads -= 1
            turn()  # asyncio's own cancellation is not held off
            self._record.sink.write(b"")  # passes on what was written in the thread

    def abandon(self) -> None:
        """Stop the peer without waiting: a thread that is at a long line ends the record."""
        self._inner.abandon()
        self._abandoned = True
        if self._record.lock.acquire(blocking=False):
            try:
                self._record.abandoned()
            finally:
                self._record.lock.release()

    async def start(self, plan: LaunchPlan) -> None:
        with self._starting(plan):
            await self._inner.start(plan)

    async def send(self, data: bytes) -> None:
        await self._tell(partial(self._record.sent, data), data)
        await self._inner.send(data)

    async def end_input(self) -> None:
        await self._tell(self._record.input_ended)
        await self._inner.end_input()

    async def receive(self) -> bytes:
        if self._received is None:
            self._received = await self._inner.receive()
            await self._tell(partial(self._record.received, self._received), self._received or None)
        data, self._received = self._received, None  # of a call that was cancelled, say
        return data

    async def wait_exit(self) -> int | None:
        code = await self._inner.wait_exit()
        await self._tell(partial(self._record.exited, code))
        return code

    async def stop(self, *, turn_open: bool) -> None:
        await self._tell(partial(self._record.stopped, turn_open=turn_open))
        try:
            await self._inner.stop(turn_open=turn_open)
        finally:
            if self._lacks_exit:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_EXIT_SECONDS):
                    self._record.exited(await self._inner.wait_exit())
            await self._tell(partial(self._record.end, self._inner.stderr_tail))  # by now all of it was read


class RecordedSync(_Recorded[SyncTransport]):
    """A blocking transport that is recorded."""

    def start(self, plan: LaunchPlan) -> None:
        with self._starting(plan):
            self._inner.start(plan)

    def send(self, data: bytes) -> None:
        self._record.sent(data)
        self._inner.send(data)

    def end_input(self) -> None:
        self._record.input_ended()
        self._inner.end_input()

    def receive(self, timeout: float | None = None) -> bytes | None:
        data = self._inner.receive(timeout)
        if data is not None:
            self._record.received(data)
        return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        code = self._inner.wait_exit(timeout)
        if code is not None:
            self._record.exited(code)
        return code

    def stop(self, *, turn_open: bool) -> None:
        self._record.stopped(turn_open=turn_open)
        try:
            self._inner.stop(turn_open=turn_open)
        finally:
            if self._lacks_exit:
                self._record.exited(self._inner.wait_exit(_EXIT_SECONDS))
            self._record.end(self._inner.stderr_tail)  # by now all of it was read


Trace = str | os.PathLike[str] | Callable[..., object]
"""A value of `Options(trace=...)`."""


def traced(
    transport: Any, trace: Trace, line_bytes: int, *, local: bool, blocking: bool
) -> RecordedAsync | RecordedSync:
    """Return the transport with a trace before it.

    Args:
        trace: the file, or a function.
        line_bytes: lines of the CLI that are longer are noted, and not kept.
        local: True if it is a local CLI, whose version is known.
    """
    return (RecordedSync if blocking else RecordedAsync)(
        transport, lambda plan: _begin_trace(plan, trace, line_bytes, local, here=not blocking)
    )


def _begin_trace(plan: LaunchPlan, trace: Trace, line_bytes: int, local: bool, *, here: bool) -> SessionRecord:
    """Begin the trace of one session, one of several in a file; raise OptionsError if that cannot be written, or holds something else."""
    sink: Sink
    if callable(trace):
        sink = FunctionSink(trace, here=here)
    else:
        path = os.fspath(trace)
        try:
            sink = TapeFile(path, fresh=False)
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            raise OptionsError(
                f"`trace` cannot be written to {escape_terminal(path)}: {problem}", field="trace"
            ) from error
    redactor = Redactor(Vault())
    redactor.prepare(plan)
    sink.write(header_line(plan, local=local))
    return SessionRecord(sink, redactor, secrets.token_hex(4), line_bytes)
