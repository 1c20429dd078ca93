"""The simulated CLI as a program: moves bytes between the pipes of this process and a simulation.

`SimulatedCLI.install` writes a program that calls `main`; `python -m bridle.testing.simulation.simulated_cli SCRIPT ...` calls
`command_line`. The script's position is kept in a file beside it, so that the next process goes on where this one stopped.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bridle.testing.script.run import ScriptRun
from bridle.testing.script.script import Script
from bridle.testing.simulation.launch import VERSION, parse_launch
from bridle.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["command_line", "main"]

SCRIPT_FILE = "script.json"
STATE_FILE = "state.json"
SCRIPT_VARIABLE = "BRIDLE_SIMULATED_SCRIPT"

USAGE = f"""usage: python -m bridle.testing.simulation.simulated_cli SCRIPT.json [CLAUDE ARGUMENTS]

Plays a script of Bridle as if it were the Claude Code CLI. Instead of the first argument, the variable {SCRIPT_VARIABLE} may
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
    return _Process(ScriptRun(script), None, rest, time_scale=1.0, real_tools=False).play()


def main(folder: str, *, time_scale: float, real_tools: bool) -> NoReturn:
    """Play the script of a folder; ends this process."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-v"]):
        _say(1, f"{VERSION} (Claude Code)\n".encode())
        os._exit(0)
    run = ScriptRun(Script.load(Path(folder, SCRIPT_FILE)))
    state = Path(folder, STATE_FILE)
    with contextlib.suppress(FileNotFoundError):
        run.restore(state.read_bytes())
    code = _Process(run, state, arguments, time_scale=time_scale, real_tools=real_tools).play()
    os._exit(code)


class _Process:
    def __init__(
        self, run: ScriptRun, state: Path | None, arguments: list[str], *, time_scale: float, real_tools: bool
    ) -> None:
        from bridle.testing.simulation.real_tools import run_tool

        self._run = run
        self._state = state
        self._saved = b""
        self._printed = 0
        self._terminated = False
        wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake_end, False)
        self._wake = wake
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._simulation = Simulation(
            run,
            parse_launch(arguments, os.environ, os.getcwd()),
            time_scale=time_scale,
            run_tool=run_tool if real_tools else None,
        )

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
        return code

    def _flush(self) -> None:
        simulation = self._simulation
        # First the state: whoever has seen the output may look at it.
        self._save()
        if data := simulation.data_to_send():
            try:
                _say(1, data)
            except BrokenPipeError:
                simulation.exit(1)
        if len(simulation.stderr) > self._printed:
            with contextlib.suppress(BrokenPipeError):
                _say(2, bytes(simulation.stderr[self._printed :]))
            self._printed = len(simulation.stderr)

    def _save(self) -> None:
        if self._state is None:
            return
        data = self._run.save()
        if data != self._saved:
            self._saved = data
            part = self._state.with_name(f"{self._state.name}.{os.getpid()}")
            part.write_bytes(data)
            part.replace(self._state)


def _say(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
