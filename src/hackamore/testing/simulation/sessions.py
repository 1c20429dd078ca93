"""The sessions of a simulated CLI: their counts for tests, and their files where each session plays the script for itself."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from hackamore.activity.prices import sum_of
from hackamore.testing.script.run import ScriptRun, SessionRecord
from hackamore.testing.simulation.facts import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.testing.script.script import Script

_NAME_LENGTH = 200
_SUFFIX = ".json"
_NUMBERS = "numbers"


class SimulatedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a simulated CLI for one session.

    Everything is counted before the CLI writes it to stdout: a client has never seen more than this.

    Attributes:
        session_id: its id.
        prompts: texts of the prompts that arrived, in order.
        replies: replies of the model, in all processes.
        input_tokens: tokens that the model read for them.
        output_tokens: tokens that the model wrote.
        cost_usd: their cost, in US dollars. A result counts less after a kill, because a killed CLI forgets its own part.
        processes: processes that served the session.
        finished: the script was played to its end, and no turn is open.
    """

    session_id: str
    prompts: tuple[str, ...]
    replies: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    processes: int
    finished: bool


def served(run: ScriptRun) -> Iterator[SimulatedSession]:
    """Return the sessions that a run has served."""
    finished = not run.unfinished and not run.in_turn
    for session_id, record in run.served.items():
        total = sum_of(record.tokens.values())
        yield SimulatedSession(
            session_id=session_id,
            prompts=tuple(record.prompts),
            replies=record.replies,
            input_tokens=total.input,
            output_tokens=total.output,
            cost_usd=round(cost_of(record.tokens), 8),
            processes=record.processes,
            finished=finished,
        )


class SessionFolder:
    """A file for each session, with its place in the script. Any number of processes use the folder at the same time.

    A file is replaced as a whole, so that a process that is killed leaves the old state or the new one. Processes that serve the same
    session at the same time add their counts; its place in the script is that of the last one.
    """

    def __init__(self, folder: Path, script: Script) -> None:
        self.folder = folder
        self.script = script
        self._seen: dict[str, bytes] = {}

    def _path(self, session_id: str) -> Path:
        # Ids are untrusted: they must not name a file outside the folder.
        return self.folder / f"{quote(session_id, safe='')[:_NAME_LENGTH].replace('.', '%2E')}{_SUFFIX}"

    def runs(self) -> Iterator[tuple[str, ScriptRun]]:
        """Return the run of each session, the one that was changed last first; raise FileNotFoundError if the folder was removed."""
        with os.scandir(self.folder) as entries:
            files = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.endswith(_SUFFIX)]
        for _, path in sorted(files, reverse=True):
            if data := Path(path).read_bytes():
                run = _decoded(data, self.script)
                yield next(iter(run.sessions)), run

    def newest(self) -> str | None:
        """Return the session that was changed last and can be resumed."""
        return next((session_id for session_id, run in self.runs() if run.knows(session_id)), None)

    def load(self, session_id: str) -> ScriptRun | None:
        """Return the run of a session; None if it has none."""
        try:
            data = self._path(session_id).read_bytes()
        except FileNotFoundError:
            return None
        if not data:  # its process was killed before it had a state
            return None
        self._seen[session_id] = data
        return _decoded(data, self.script)

    def reserve(self) -> str:
        """Return the id of a new session; no other process gets it."""
        # Appended bytes are a counter that two processes can share: each finds the end behind its own byte.
        with (self.folder / _NUMBERS).open("ab", buffering=0) as numbers:
            while True:
                numbers.write(b".")
                session_id = f"51b00000-0000-4000-8000-{numbers.tell():012x}"
                with contextlib.suppress(FileExistsError):
                    self._path(session_id).open("xb").close()
                    return session_id

    def save(self, session_id: str, run: ScriptRun) -> None:
        """Write the state of a session, with the counts of other processes that have served it meanwhile."""
        seen = self._seen.get(session_id, b"")
        if run.save(session_id) == seen:
            return
        path = self._path(session_id)
        locked = _locked(path)
        try:
            data = path.read_bytes()
            if data and data != seen:
                base = _decoded(seen, self.script).sessions[session_id] if seen else SessionRecord()
                run.sessions[session_id].add(_decoded(data, self.script).sessions[session_id], base)
            data = run.save(session_id)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(data)
            part.replace(path)
            self._seen[session_id] = data
        finally:
            os.close(locked)


def _decoded(data: bytes, script: Script) -> ScriptRun:
    run = ScriptRun(script)
    run.restore(data)
    return run


def _locked(path: Path) -> int:
    """Return a descriptor of a file, locked until it is closed. A file that was replaced meanwhile is locked again."""
    import fcntl

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
