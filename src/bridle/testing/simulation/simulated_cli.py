"""`SimulatedCLI`: a CLI that plays a script. In memory, or as a program that is accepted as `cli_path`.

::

    with SimulatedCLI(script) as cli:
        answer = await bridle.run("Delete the cache", options, transport=cli)

One object serves asyncio, trio and threads, and as many queries and sessions as the script has turns for, one after the other.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bridle.testing.errors import ScriptError
from bridle.testing.script.run import ScriptRun
from bridle.testing.script.script import Script
from bridle.testing.simulation.launch import parse_launch
from bridle.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from bridle.launch.plan import LaunchPlan
    from bridle.testing.simulation.transport import AsyncSimulatedTransport, SyncSimulatedTransport

__all__ = ["SimulatedCLI"]

SCRIPT_FILE = "script.json"
STATE_FILE = "state.json"
_SHOWN_RUNS = 3


class SimulatedCLI:
    """A simulated CLI; a transport source, and a context manager that checks the script when it is left.

    Args:
        script: what is said and done.
        time_scale: what the seconds of the script are multiplied with: 1 for real time, 0 for none at all.
        sessions: ids of earlier sessions, so that they can be resumed.
        per_session: each new query or session plays the script from its beginning, so that any number may run at once; one that is
            resumed goes on where it was. Otherwise they continue the script one after the other.

    Attributes:
        script: the script.
    """

    def __init__(
        self, script: Script, *, time_scale: float = 0.01, sessions: Iterable[str] = (), per_session: bool = False
    ) -> None:
        if not isinstance(script, Script):
            raise TypeError(f"`script` must be a Script (`Script().user(...).says(...)`), not {type(script).__name__}")
        if not time_scale >= 0:  # nor what is no number
            raise ValueError(f"`time_scale` must not be negative, not {time_scale}")
        self.script = script
        self._time_scale = time_scale
        self._run = ScriptRun(script)
        self._run.sessions.update(dict.fromkeys(sessions, 0))
        self._per_session = per_session
        self._runs: dict[str, ScriptRun] = {}
        self._lock = threading.Lock()
        self._folders: list[Path] = []

    # -- in memory ----------------------------------------------------------------------------------------------------

    def for_async(self) -> AsyncSimulatedTransport:
        """Return a new transport for one query or session of `bridle`."""
        from bridle.testing.simulation.transport import AsyncSimulatedTransport

        return AsyncSimulatedTransport(self._simulate, _forget)

    def for_sync(self) -> SyncSimulatedTransport:
        """Return a new transport for one query or session of `bridle.sync`."""
        from bridle.testing.simulation.transport import SyncSimulatedTransport

        return SyncSimulatedTransport(self._simulate, _forget)

    def _simulate(self, plan: LaunchPlan) -> Simulation:
        launch = parse_launch(plan.argv[plan.program_length :], plan.environment, plan.cwd or os.getcwd())
        with self._lock:
            run = self._run
            if self._per_session:
                before = self._runs.get(launch.resume or "")
                run = ScriptRun(self.script, before)
                run.sessions = self._run.sessions
            simulation = Simulation(run, launch, time_scale=self._time_scale)
            if self._per_session:
                self._runs[simulation.session_id] = run
            return simulation

    # -- as a program -------------------------------------------------------------------------------------------------

    def install(self, folder: str | os.PathLike[str], *, real_tools: bool = False) -> Path:
        """Write a program that plays the script; return its path, for `Options(cli_path=...)`.

        Several processes continue the script one after the other. `check()` and leaving the `with` block look at what they did.

        Args:
            folder: an existing folder, or one to be made; it must be empty of other simulated CLIs.
            real_tools: really run Bash, Write, Read and Edit, in the working directory, where the script gives no result.

        Raises:
            ValueError: every session is to play the script from its beginning.
            OSError: the folder cannot be written.
        """
        if self._per_session:
            raise ValueError(
                "a program continues its script from process to process; `per_session` is for transports in memory"
            )
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        self.script.save(target / SCRIPT_FILE)
        (target / STATE_FILE).write_bytes(self._run.save())
        package = Path(__file__).resolve().parents[3]
        play = target / "play.py"
        play.write_text(
            _PLAY.format(
                package=str(package), folder=str(target.resolve()), time_scale=self._time_scale, real_tools=real_tools
            ),
            encoding="utf-8",
        )
        program = target / "claude"
        # Through a shell, because the line after `#!` must be short and cannot quote; `exec` keeps it one process.
        command = f"exec {shlex.quote(sys.executable)} -I {shlex.quote(str(play.resolve()))}"
        program.write_text(f'#!/bin/sh\n{command} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        self._folders.append(target)
        return program.resolve()

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
        """Return the script with the state of each step, and what happened."""
        self._load_state()
        return "\n".join(run.both_sides() for run in self._played())

    def _played(self) -> list[ScriptRun]:
        return [*self._runs.values()] if self._per_session and self._runs else [self._run]

    def _load_state(self) -> None:
        for folder in self._folders:
            try:
                data = (folder / STATE_FILE).read_bytes()
            except FileNotFoundError:
                raise ScriptError(
                    f"What the program in {folder} did cannot be told: its folder was removed before the script was checked. "
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


def _forget(simulation: Simulation) -> None:
    """Take that a simulated process has ended: in memory, nothing is left of it."""


_PLAY = """import sys
sys.path.insert(0, {package!r})
from bridle.testing.simulation.process import main
main({folder!r}, time_scale={time_scale!r}, real_tools={real_tools!r})
"""


def _main() -> Any:
    from bridle.testing.simulation.process import command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(_main())
