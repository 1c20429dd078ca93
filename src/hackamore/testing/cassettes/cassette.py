"""Cassettes: record sessions once, replay them for ever, without a process.

::

    with cassette("tests/cassettes/price.jsonl"):
        answer = await hackamore.run("What does tea cost?", options)

Every query and session that is opened inside the block is recorded, with any peer: the real CLI, a simulated one, your own
transport. Tasks and `asyncio.to_thread` belong to the block. A plain `threading.Thread` does not inherit the context it is
started in (Python's rule for context variables): give its sessions `transport=tape.transport()`.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import threading
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from hackamore.errors import escape_terminal
from hackamore.testing.cassettes.player import Player
from hackamore.testing.errors import CassetteError, CassetteMismatchError
from hackamore.testing.memory import AsyncMemoryTransport, SyncMemoryTransport
from hackamore.transports.opening import RecordedBy, recorder
from hackamore.transports.recording.reading import Recording, read_recording
from hackamore.transports.recording.recorder import RecordedAsync, RecordedSync, SessionRecord, TapeFile, header_line
from hackamore.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from types import TracebackType

    from hackamore.options.options import Options
    from hackamore.transports.base import AsyncTransport, LaunchPlan, SyncTransport, TransportSource
    from hackamore.transports.opening import Recorder
    from hackamore.transports.recording.reading import RecordedSession

Mode = Literal["once", "none", "all", "new"]
F = TypeVar("F", bound="Callable[..., Any]")

_MODES = ("once", "none", "all", "new")
_SHOWN_PROBLEMS = 3
_NAMES_HELP = (
    "\nIf sessions that are started alike run at the same time, their order may have changed: name them, "
    "transport=tape.transport(name=...), and record again."
)


class Cassette:
    """A recording of sessions: use it in `with`, or as a decorator of plain and `async def` functions.

    `cassette` is another name of this class.

    Args:
        path: the file. Its folder is made if it is not there.
        mode: `once` records if the file is absent and replays otherwise; `none` only replays; `all` records again; `new` replays the
            recorded sessions and records further ones.
        redact: called with each text that is recorded (of frames, arguments, stderr), after everything that is redacted anyway;
            returns what is written instead, also in a replay. Called in a thread for long lines of async sessions.
        speed: how fast to replay: None for as fast as possible, 1.0 for the original timing.
        patience: seconds for which a replay waits for what is expected of a host that waits itself.
        allow_incomplete: also replay a recording that was interrupted (a trace of a crash, say), up to its end.

    Attributes:
        path: the file.
        mode: as it was given.

    Raises:
        ValueError: no such mode, or a number that makes no sense.

    Example:
        ::

            with Cassette("tests/session.cassette"):
                answer = await hackamore.run("What is 2 + 2?")
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "once",
        *,
        redact: Callable[[str], str] | None = None,
        speed: float | None = None,
        patience: float = 10.0,
        allow_incomplete: bool = False,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"`mode` must be one of {', '.join(_MODES)}; got {mode!r}")
        if (speed is not None and not speed > 0) or not patience > 0:
            raise ValueError("`speed` and `patience` must be greater than 0")
        self.path: str = os.fsdecode(path)
        self._place = os.path.abspath(self.path)
        self.mode: Mode = mode
        self._redact = redact
        self._speed = speed
        self._patience = patience
        self._allow_incomplete = allow_incomplete
        self._lock = threading.RLock()
        self._token: Token[Recorder | None] | None = None
        self._active = False
        self._another = partial(
            Cassette, path, mode, redact=redact, speed=speed, patience=patience, allow_incomplete=allow_incomplete
        )
        self._begin()

    def _begin(self) -> None:
        self._recording: Recording | None = None
        self._file: TapeFile | None = None
        self._vault = Vault()
        self._indexes = itertools.count()
        self._records: list[SessionRecord] = []
        self._players: list[Player] = []
        self._taken: set[int] = set()
        self._redact_error: Exception | None = None

    def __repr__(self) -> str:
        state = "replaying" if self.replaying else "recording" if self.recording else "not in use"
        return f"<Cassette {escape_terminal(self.path)}, mode {self.mode}, {state}>"

    @property
    def replaying(self) -> bool:
        """True in the block, if there are sessions to replay."""
        return self._recording is not None

    @property
    def recording(self) -> bool:
        """True in the block, if sessions are recorded (with mode `new`: those beyond the known ones)."""
        return self._file is not None

    # -- the block -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._active:
            raise CassetteError(f"The cassette {escape_terminal(self.path)} is in use already; make another one.")
        self._begin()
        self._place = os.path.abspath(self.path)  # the block may change the working directory
        exists = os.path.exists(self._place)
        if exists and not os.path.isfile(self._place):  # a device may never end
            raise CassetteError(f"The cassette {escape_terminal(self.path)} is not a file.")
        if not exists and self.mode == "none":
            raise CassetteError(
                f"There is no cassette {escape_terminal(self.path)}, and mode 'none' records nothing. Record it with mode 'once'."
            )
        if exists and self.mode != "all":
            self._recording = self._read()
        if not exists or self.mode in ("all", "new"):
            self._file = self._create()
        self._active = True
        self._token = recorder.set(self)
        return self

    def _read(self) -> Recording:
        try:
            found = read_recording(self._place)
        except OSError as error:
            raise CassetteError(
                f"The cassette {escape_terminal(self.path)} cannot be read: {error.strerror}"
            ) from error
        problems = found.problems[:-1] if found.cut and self._allow_incomplete else found.problems
        if problems:
            shown = "; ".join(problems[:_SHOWN_PROBLEMS])
            more = f"; and {len(problems) - _SHOWN_PROBLEMS} more" if len(problems) > _SHOWN_PROBLEMS else ""
            state = "comes from a later version of Hackamore" if found.newer else "is damaged"
            raise CassetteError(f"The cassette {escape_terminal(self.path)} {state}: {escape_terminal(shown)}{more}")
        cut = [str(session.index) for session in found.sessions if not session.complete]
        if cut and not self._allow_incomplete:
            raise CassetteError(
                f"The recording {escape_terminal(self.path)} was interrupted: session {', '.join(cut)} has no end. "
                "`allow_incomplete=True` replays it up to there."
            )
        return found

    @property
    def _part(self) -> str:
        return f"{self._place}.part"

    def _create(self) -> TapeFile:
        try:
            os.makedirs(os.path.dirname(self._place), exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._part)
            file = TapeFile(self._part, fresh=True)
            if self._recording is not None:
                with open(self._place, "rb") as known:
                    for line in known:
                        file.write(line)
        except OSError as error:
            problem = error.strerror or str(error)
            raise CassetteError(
                f"The cassette {escape_terminal(self.path)} cannot be written: {escape_terminal(problem)}"
            ) from error
        return file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()
        problem = self._finish(failed=error is not None)
        if problem is not None and error is None:
            raise problem

    def _leave(self) -> None:
        self._active = False
        token, self._token = self._token, None
        if token is not None:
            try:
                recorder.reset(token)
            except ValueError:  # another context: a fixture's end may run elsewhere than its beginning
                if recorder.get() is self:
                    recorder.set(None)

    def _finish(self, *, failed: bool) -> CassetteError | None:
        """Put what was recorded into its place, if it is whole; return what is wrong."""
        problem = self._verdict()
        file = self._file
        if file is None:
            return problem
        with self._lock:
            cut = [record for record in self._records if not record.ended]
            begun = bool(self._records)
            file.close()
            self._file = None
        if not begun:
            os.unlink(self._part)
            return problem
        if failed or problem is not None:
            return problem  # the part stays, to be looked at
        if cut:
            return CassetteError(
                f"{len(cut)} recorded sessions were still open at the end of the block: end them inside it. "
                f"The recording until then is in {escape_terminal(self._part)}."
            )
        if self._redact_error is not None:
            return CassetteError(
                f"`redact` raised {self._redact_error!r}; nothing was put into {escape_terminal(self.path)}."
            )
        if file.error is not None:
            return CassetteError(
                f"The cassette {escape_terminal(self.path)} could not be written: {file.error.strerror}"
            )
        os.replace(self._part, self._place)
        return None

    def _verdict(self) -> CassetteMismatchError | None:
        """Return where the replayed sessions and the recorded ones parted."""
        if self._recording is None:
            return None
        title = escape_terminal(self.path)
        for player in self._players:
            if player.error is not None and not player.by_stop:
                return CassetteMismatchError(str(player.error), player.error.session, player.error.differences)
        for player in self._players:
            left = player.left_over() if player.error is None else []
            if left and player.session is not None:
                found = "\n".join(left)
                text = f"Session {player.session.index} of {title} ended before everything recorded was sent:\n{found}"
                return CassetteMismatchError(text, player.session.index, left)
        unused = [session.index for session in self._recording.sessions if session.index not in self._taken]
        if unused and self.mode != "new":
            text = f"{len(unused)} of {len(self._recording.sessions)} sessions of {title} were not replayed: "
            return CassetteMismatchError(text + ", ".join(map(str, unused)), unused[0])
        return None

    def __call__(self, function: F) -> F:
        """Decorate a function: each call is a block of its own."""

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def call_async(*arguments: Any, **named: Any) -> Any:
                with self._another():
                    return await function(*arguments, **named)

            return call_async  # type: ignore[return-value]

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with self._another():
                return function(*arguments, **named)

        return call  # type: ignore[return-value]

    # -- its sessions --------------------------------------------------------------------------------------------------

    def transport(
        self, inner: AsyncTransport | SyncTransport | TransportSource | None = None, *, name: str | None = None
    ) -> TransportSource:
        """Return a source for `transport=`: for threads, and to name sessions that are opened in any order.

        Args:
            inner: the transport to record; a local child process if None. A replay does not use it.
            name: the name of the session in the cassette; None for the next one.

        Returns:
            The transport source.
        """
        return RecordedBy(self, inner, name)

    def open(
        self, make: Callable[[], Any], options: Options, *, local: bool, blocking: bool, name: str | None
    ) -> tuple[Any, bool]:
        """Return the transport of a session, and whether it is a local child process.

        Args:
            make: makes the transport to record.
            options: options of the session.
            local: True if `make` returns a local child process.
            blocking: True for `hackamore.sync`.
            name: the name of the session in the cassette; None for the next one.

        Returns:
            The transport, and whether it is a local child process.
        """
        player, index = self._next(options, name)
        if player is not None:
            return (SyncMemoryTransport if blocking else AsyncMemoryTransport)(player.begin, player.tell_stderr), False
        recorded = RecordedSync if blocking else RecordedAsync
        return recorded(make(), lambda plan: self._record(plan, options, local, index, name)), local

    def _next(self, options: Options, name: str | None) -> tuple[Player | None, int]:
        with self._lock:
            if not self._active:
                raise CassetteError(
                    f"The cassette {escape_terminal(self.path)} is not in use: open sessions inside its block."
                )
            index = next(self._indexes)
            known = self._recording
            if known is None or (self._file is not None and not self._is_known(known, index, name)):
                return None, index
            player = Player(
                lambda check: self._choose(index, name, check),
                options,
                redact=self._redact,
                patience=self._patience,
                speed=self._speed,
                title=escape_terminal(self.path),
                hint=_NAMES_HELP if name is None and len(known.sessions) > 1 else "",
            )
            self._players.append(player)
            return player, index

    def _is_known(self, known: Recording, index: int, name: str | None) -> bool:
        if name is None:
            return index < len(known.sessions)
        return any(session.start_field("name") == name for session in known.sessions)

    def _choose(
        self, index: int, name: str | None, check: Callable[[RecordedSession], list[str]]
    ) -> tuple[RecordedSession | None, list[str]]:
        """Return the recorded session to replay: the one of the same name or place if it fits, else the first that does."""
        assert self._recording is not None  # noqa: S101 - for the type checker
        with self._lock:
            free = [session for session in self._recording.sessions if session.index not in self._taken]
            free = [session for session in free if session.start_field("name") == name] or free
            free.sort(key=lambda session: index != (session.key if isinstance(session.key, int) else session.index))
            if not free:
                return None, [f"+ one session more than the {len(self._recording.sessions)} that were recorded"]
            found: list[str] = []
            for session in free:
                differing = check(session)
                if not differing:
                    self._taken.add(session.index)
                    return session, []
                found = found or differing
            return None, found

    def _record(self, plan: LaunchPlan, options: Options, local: bool, index: int, name: str | None) -> SessionRecord:
        with self._lock:
            file = self._file
            if file is None:
                raise CassetteError(
                    f"The cassette {escape_terminal(self.path)} is not in use: start sessions inside its block."
                )
            redactor = Redactor(self._vault, self._redacted if self._redact is not None else None)
            redactor.prepare(plan)
            if not self._records and self._recording is None:
                file.write(header_line(plan, local=local, more_redaction=self._redact is not None))
            record = SessionRecord(_Shared(file), redactor, index, options.limits.line_bytes, name)
            self._records.append(record)
            return record

    def _redacted(self, text: str) -> str:
        assert self._redact is not None  # noqa: S101 - for the type checker
        try:
            return self._redact(text)
        except Exception as error:
            self._redact_error = self._redact_error or error
            raise CassetteError(f"`redact` raised {error!r}; what it did not look at is not recorded.") from error


cassette = Cassette


class _Shared:
    """The file, for one of several sessions."""

    def __init__(self, file: TapeFile) -> None:
        self._file = file

    def write(self, line: bytes) -> None:
        self._file.write(line)

    def close(self) -> None:
        """The file is closed when all are done."""
