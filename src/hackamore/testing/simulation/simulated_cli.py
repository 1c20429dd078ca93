"""`SimulatedCLI`: a CLI that plays a script. In memory, or as a program that is accepted as `cli_path`.

::

    with SimulatedCLI(script) as cli:
        answer = await hackamore.run("Delete the cache", options, transport=cli)

One object serves asyncio, trio and threads, and as many queries and sessions as the script has turns for, one after the other.

The second half of this file is the program: `SimulatedCLI.install` writes one that calls `main`, and `python -m` calls `command_line`. The
position of the script is kept in a file beside it, so that the next process continues there; with `per_session` in one for each session.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import msgspec

from hackamore.testing.errors import ScriptError
from hackamore.testing.script.report import PlayReport, play_report
from hackamore.testing.script.run import ScriptRun, SessionRecord
from hackamore.testing.script.script import Script
from hackamore.testing.simulation.launch import VERSION, parse_launch
from hackamore.testing.simulation.printing import Printer
from hackamore.testing.simulation.sessions import SessionFolder, served
from hackamore.testing.simulation.simulation import TERMINATED, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType, TracebackType

    from hackamore.testing.memory import AsyncMemoryTransport, Peer, SyncMemoryTransport
    from hackamore.testing.simulation.launch import Launch
    from hackamore.testing.simulation.sessions import SimulatedSession
    from hackamore.transports.base import LaunchPlan

    T = TypeVar("T", AsyncMemoryTransport, SyncMemoryTransport)

SCRIPT_FILE = "script.json"
STATE_FILE = "state.json"
SESSIONS = "sessions"
_SHOWN_RUNS = 3
_STDERR = 2


class SimulatedCLI:
    """A simulated CLI; a transport source, and a context manager that checks the script when it is left.

    Args:
        script: the script.
        time_scale: factor for the seconds of the script: 1 for real time, 0 for no waiting.
        sessions: ids of earlier sessions, so that they can be resumed.
        per_session: True: each new query or session plays the script from its beginning, and a resumed one continues
            where it was; any number may run at the same time. False: they continue the script one after the other.

    Attributes:
        script: the script.

    Raises:
        TypeError: `script` is not a `Script`.
        ValueError: `time_scale` is negative.

    Example:
        ::

            cli = SimulatedCLI(Script().user().says("4"))
            answer = await hackamore.run("What is 2 + 2?", transport=cli)
    """

    def __init__(
        self, script: Script, *, time_scale: float = 0.01, sessions: Iterable[str] = (), per_session: bool = False
    ) -> None:
        if not isinstance(script, Script):
            raise TypeError(f"`script` must be a Script (`Script().user(...).says(...)`), not {type(script).__name__}")
        if not time_scale >= 0:  # also True for NaN
            raise ValueError(f"`time_scale` must not be negative, not {time_scale}")
        self.script = script
        self._time_scale = time_scale
        self._run = ScriptRun(script)
        self._run.sessions.update({session_id: SessionRecord(begun=True) for session_id in sessions})
        self._per_session = per_session
        self._runs: dict[str, ScriptRun] = {}
        self._lock = threading.Lock()
        self._transports: weakref.WeakSet[AsyncMemoryTransport | SyncMemoryTransport] = weakref.WeakSet()
        self._folders: list[Path] = []

    # -- in memory ----------------------------------------------------------------------------------------------------

    def for_async(self) -> AsyncMemoryTransport:
        """Return a new transport for one query or session of `hackamore`.

        Returns:
            The transport.
        """
        from hackamore.testing.memory import AsyncMemoryTransport

        return self._remembered(AsyncMemoryTransport(self._simulate))

    def for_sync(self) -> SyncMemoryTransport:
        """Return a new transport for one query or session of `hackamore.sync`.

        Returns:
            The transport.
        """
        from hackamore.testing.memory import SyncMemoryTransport

        return self._remembered(SyncMemoryTransport(self._simulate))

    def inject(self, frame: Mapping[str, Any] | bytes, *, session_id: str | None = None) -> None:
        """Send a frame to the queries and sessions that run now, from any thread and at any moment.

        The frame comes behind the output so far. The script is not changed and does not wait for it.

        Args:
            frame: a frame as a mapping, or a line of bytes that is sent as it is. Messages get `uuid` and `session_id` if they have none.
            session_id: the conversation that receives it; None sends it to all that run.

        Raises:
            TypeError: the frame is neither a mapping nor bytes.
            RuntimeError: no query or session runs here. A program made by `install` cannot be reached.

        Example:
            cli.inject({"type": "system", "subtype": "notification", "text": "Disk is full", "priority": "high"})
        """
        if isinstance(frame, bytes):
            given: dict[str, Any] | bytes = frame if frame.endswith(b"\n") else frame + b"\n"
        elif isinstance(frame, Mapping):
            given = dict(frame)
        else:
            raise TypeError(f"`frame` must be a mapping or bytes, got {frame!r:.100} ({type(frame).__name__})")

        def send(peer: Peer) -> bool:
            wanted = isinstance(peer, Simulation) and session_id in (None, peer.session_id)
            return wanted and peer.inject(given)  # type: ignore[attr-defined]

        with self._lock:
            transports = [*self._transports]
        reached = [transport.change(send) for transport in transports]
        if not any(reached):
            whose = "" if session_id is None else f" with the session id {session_id!r}"
            raise RuntimeError(
                f"No query or session{whose} runs on this simulated CLI. Start one with `transport=cli` before you inject a frame."
            )

    def _remembered(self, transport: T) -> T:
        with self._lock:
            self._transports.add(transport)
        return transport

    def _simulate(self, plan: LaunchPlan) -> Simulation:
        launch = parse_launch(plan.argv[plan.program_length :], plan.environment, plan.cwd or os.getcwd())
        with self._lock:
            run = self._run
            if self._per_session:
                if launch.continues and launch.resume is None:
                    launch.resume = run.newest()
                run = ScriptRun(self.script, self._run_of(launch.resume or launch.session_id))
                run.sessions, run.players = self._run.sessions, self._run.players
            simulation = Simulation(run, launch, time_scale=self._time_scale)
            if self._per_session and not simulation.refused:
                self._runs[simulation.session_id] = run
            return simulation

    def _run_of(self, session_id: str | None) -> ScriptRun | None:
        return self._runs.get(session_id or "") or self._run.players.get(session_id or "")

    # -- as a program -------------------------------------------------------------------------------------------------

    def install(self, folder: str | os.PathLike[str], *, real_tools: bool = False) -> Path:
        """Write a program that plays the script; return its path, for `Options(cli_path=...)`.

        Several processes continue the script one after the other. With `per_session=True` any number of them may run at the same time: each
        session id plays the script from its beginning, and a process that resumes it continues where the one before was, even if that was
        killed. `check()`, `sessions()` and leaving the `with` block look at what they did.

        Args:
            folder: an existing folder, or one to be made; it must be empty of other simulated CLIs.
            real_tools: really run Bash, Write, Read and Edit, in the working directory, where the script gives no result.

        Returns:
            The path of the program.

        Raises:
            OSError: the folder cannot be written.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        self.script.save(target / SCRIPT_FILE)
        if self._per_session:
            (target / SESSIONS).mkdir(exist_ok=True)
            kept = SessionFolder(target / SESSIONS, self.script)
            for session_id in self._run.sessions:
                run = ScriptRun(self.script, self._run_of(session_id))
                run.sessions = self._run.sessions
                kept.save(session_id, run)
        else:
            (target / STATE_FILE).write_bytes(self._run.save())
        places = [str(Path(file).resolve().parents[up]) for file, up in ((__file__, 3), (msgspec.__file__, 1))]
        play = target / "play.py"
        play.write_text(
            _PLAY.format(
                places=places, folder=str(target.resolve()), time_scale=self._time_scale, real_tools=real_tools
            ),
            encoding="utf-8",
        )
        program = target / "claude"
        # Through a shell, because the line after `#!` must be short and cannot quote; `exec` keeps it one process.
        command = f"exec {shlex.quote(sys.executable)} -IS {shlex.quote(str(play.resolve()))}"
        program.write_text(f'#!/bin/sh\n{command} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        self._folders.append(target)
        return program.resolve()

    @classmethod
    def installed(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the simulated CLI whose program `install` wrote, maybe in another process, to look at what it did.

        Args:
            folder: the folder of the program.

        Returns:
            The simulated CLI, for `check()`, `report()` and `sessions()`.

        Raises:
            OSError: the folder contains no such program.
            ValueError: its script is damaged.
        """
        target = Path(folder)
        cli = cls(Script.load(target / SCRIPT_FILE), per_session=(target / SESSIONS).is_dir())
        cli._folders.append(target)
        cli._load_state()
        return cli

    # -- what happened ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Do nothing if everything that was written down happened, and nothing else.

        Raises:
            ScriptError: it did not; its text shows the script and what happened.
        """
        self._load_state()
        for run in self._played():
            run.check()

    def describe(self) -> str:
        """Return the script with the state of each step, and what happened.

        Returns:
            Several lines of text.
        """
        self._load_state()
        return "\n".join(run.both_sides() for run in self._played())

    def report(self) -> PlayReport:
        """Return the outcome of each step, for programs and for CI.

        Returns:
            The report: `ok`, `to_text()`, `to_json()` and `to_junit(name)`.

        Raises:
            ScriptError: the folder of a program was removed.
        """
        self._load_state()
        runs = self._played()
        return play_report(
            [run.played() for run in runs], sum(record.processes for run in runs for record in run.served.values())
        )

    def sessions(self) -> list[SimulatedSession]:
        """Return the work for each session so far, in memory and of the programs; also while they run.

        Returns:
            The sessions that a process has served, by id.

        Raises:
            ScriptError: the folder of a program was removed.

        Example:
            ::

                [session] = cli.sessions()
                assert (session.replies, session.processes, session.finished) == (1, 1, True)
        """
        self._load_state()
        with self._lock:
            found = [session for run in self._played() for session in served(run)]
        return sorted(found, key=lambda session: session.session_id)

    def _played(self) -> list[ScriptRun]:
        return [*self._runs.values()] if self._per_session and self._runs else [self._run]

    def _load_state(self) -> None:
        for folder in self._folders:
            try:
                if self._per_session:
                    kept = SessionFolder(folder / SESSIONS, self.script)
                    self._runs.update((session_id, run) for session_id, run in kept.runs() if run.served)
                    continue
                data = (folder / STATE_FILE).read_bytes()
            except FileNotFoundError:
                raise ScriptError(
                    f"The work of the program in {folder} is unknown: its folder was removed before the script was checked. "
                    "Check first, or leave the block of the SimulatedCLI first."
                ) from None
            state = ScriptRun(self.script)
            state.restore(data)
            if state.position >= self._run.position or state.problems:
                self._run = state

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.check()
            return
        with suppress(ScriptError):
            self._load_state()
        unfinished = [run for run in self._played() if run.problems or run.unfinished]
        for run in unfinished[:_SHOWN_RUNS]:
            error.add_note("\n".join([*run.problems, run.both_sides()]))

    def __repr__(self) -> str:
        if not hasattr(self, "_folders"):
            return "<SimulatedCLI that was not made>"
        return f"<SimulatedCLI: {max(run.position for run in self._played())} of {len(self.script)} steps>"


_PLAY = """import gc, sys
# For a fast start: no collector, no `site` (the command has -S), and nothing that msgspec imports only if it is there.
gc.disable()
sys.modules["typing_extensions"] = None
sys.path[:0] = {places!r}
from hackamore.testing.simulation.simulated_cli import main
del sys.modules["typing_extensions"]
gc.enable()
main({folder!r}, time_scale={time_scale!r}, real_tools={real_tools!r})
"""


SCRIPT_VARIABLE = "HACKAMORE_SIMULATED_SCRIPT"

USAGE = f"""usage: python -m hackamore.testing.simulation.simulated_cli SCRIPT.json [CLAUDE ARGUMENTS]

Plays a script of Hackamore as if it were the Claude Code CLI. Instead of the first argument, the variable {SCRIPT_VARIABLE} may
name the script. Write one with `Script.save()`.
"""


def command_line(arguments: Sequence[str] | None = None) -> int:
    """Play the script that the first argument or the variable names; return the exit status."""
    rest = list(sys.argv[1:] if arguments is None else arguments)
    path = os.environ.get(SCRIPT_VARIABLE)
    if path is None and rest and not rest[0].startswith("-"):
        path = rest.pop(0)
    if rest in (["--version"], ["-v"]):
        _say(1, f"{VERSION} (Claude Code)\n".encode())
        return 0
    if path is None:
        _say(2, USAGE.encode())
        return 2
    try:
        script = Script.load(path)
    except (OSError, ValueError) as error:
        _say(2, f"the script cannot be read: {error}\n".encode())
        return 2
    launch = _launch(rest)
    return _Process(_State(None, script), launch, time_scale=1.0, real_tools=False).play()


def main(folder: str, *, time_scale: float, real_tools: bool) -> NoReturn:
    """Play the script of a folder; ends this process."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-v"]):
        _say(1, f"{VERSION} (Claude Code)\n".encode())
        os._exit(0)
    script = Script.load(Path(folder, SCRIPT_FILE))
    launch = _launch(arguments)
    sessions = Path(folder, SESSIONS)
    state: _State = _SharedState(sessions, script) if sessions.is_dir() else _State(Path(folder, STATE_FILE), script)
    code = _Process(state, launch, time_scale=time_scale, real_tools=real_tools).play()
    os._exit(code)


def _launch(arguments: Sequence[str]) -> Launch:
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        _say(2, b"error: the working directory was removed\n")
        os._exit(1)
    return parse_launch([_text(each) for each in arguments], os.environ, _text(cwd))


def _text(given: str) -> str:
    """Return an argument or a path of the system with signs in place of the bytes that are not UTF-8."""
    return os.fsencode(given).decode("utf-8", "replace")


class _State:
    """The place in the script, kept in a file, or for this process alone."""

    def __init__(self, file: Path | None, script: Script) -> None:
        self.file = file
        self.script = script
        self._saved = b""

    def open(self, launch: Launch) -> ScriptRun:
        """Return the run that a process continues; may complete its command line."""
        run = ScriptRun(self.script)
        if self.file is not None:
            with contextlib.suppress(FileNotFoundError):
                run.restore(self.file.read_bytes())
        return run

    def save(self, run: ScriptRun) -> None:
        if self.file is not None and (data := run.save()) != self._saved:
            self._saved = data
            part = self.file.with_name(f"{self.file.name}.{os.getpid()}")
            part.write_bytes(data)
            part.replace(self.file)


class _SharedState(_State):
    """The place of each session in the script."""

    def __init__(self, folder: Path, script: Script) -> None:
        super().__init__(None, script)
        self._folder = SessionFolder(folder, script)

    def open(self, launch: Launch) -> ScriptRun:
        folder = self._folder
        if launch.continues and launch.resume is None:
            launch.resume = folder.newest()
        if launch.session_id is None and (launch.resume is None or launch.fork):
            launch.session_id = folder.reserve()
        session_id = launch.resume or launch.session_id
        before = folder.load(session_id) if session_id is not None else None
        run = ScriptRun(self.script, before)
        if before is not None:
            run.sessions = before.sessions
        return run

    def save(self, run: ScriptRun) -> None:
        for session_id in run.served:
            self._folder.save(session_id, run)


class _Process:
    def __init__(self, state: _State, launch: Launch, *, time_scale: float, real_tools: bool) -> None:
        # A closed standard stream is an empty one: else the next file that is opened would take its place.
        while (spare := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
            pass
        os.close(spare)
        self._run = state.open(launch)
        self._state = state
        self._printer = Printer(launch)
        self._told = len(self._run.problems)
        self._printed = 0
        self._terminated = self._interrupted = self._unwritten = False
        wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake_end, False)
        self._wake = wake
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_int)
        self._simulation = Simulation(
            self._run, launch, time_scale=time_scale, run_tool=self._run_tool if real_tools else None
        )

    def _run_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, Any, bool]:
        from hackamore.testing.simulation.real_tools import run_tool

        # A process that is killed while the tool runs has already written and counted the call.
        self._flush()
        result = run_tool(name, arguments)
        if self._interrupted:
            self._simulation.interrupt()
            self._flush()
            sys.exit(0)
        if self._terminated and not self._simulation.ignores_termination:
            sys.exit(TERMINATED)  # the signal may have ended the tool as well: nothing of the script follows
        return result

    def _on_int(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True

    def play(self) -> int:
        simulation = self._simulation
        watched = [0, self._wake]
        self._flush()
        while simulation.exit_code is None:
            seconds = simulation.wait_seconds()
            readable, _, _ = select.select(watched, [], [], seconds)
            if self._wake in readable:
                os.read(self._wake, 512)
            if self._interrupted:
                self._interrupted = False
                simulation.interrupt()
            if self._terminated:
                self._terminated = False
                simulation.terminate()
            if 0 in readable:
                data = os.read(0, 65_536)
                if data:
                    simulation.receive_data(data)
                else:
                    watched.remove(0)
                    simulation.receive_eof()
            simulation.tick()
            self._flush()
        self._flush()
        code = simulation.exit_code
        if code < 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
            return 128 - code
        return code or int(self._unwritten)

    def _flush(self) -> None:
        simulation = self._simulation
        # First the state: a reader of the output may look at it.
        self._state.save(self._run)
        data = simulation.data_to_send()
        if data := self._printer.printed(data, ended=simulation.exit_code is not None):
            try:
                _say(1, data)
            except BrokenPipeError:
                simulation.exit(1)
            except OSError as error:  # a full disk
                simulation.exit(1)
                self._unwritten = True
                with contextlib.suppress(OSError):
                    _say(2, f"error: the output cannot be written: {error.strerror}\n".encode())
        if len(simulation.stderr) > self._printed:
            with contextlib.suppress(OSError):
                _say(2, bytes(simulation.stderr[self._printed :]))
            self._printed = len(simulation.stderr)
        for problem in self._run.problems[self._told :]:
            with contextlib.suppress(OSError):
                _say(2, f"The simulated CLI: {problem}\n".encode("utf-8", "replace"))
        self._told = len(self._run.problems)


def _say(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # the program that started this one shares its own descriptor
            select.select([], [descriptor], [])


if __name__ == "__main__":
    sys.exit(command_line())
