"""`hackamore simulate`: a script as an executable `claude` for any program, and a report on what it did."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore.cli.playing import outcome, read_script, run_command, shown, write_report
from hackamore.errors import OptionsError
from hackamore.testing.model.environment import unreachable_environment
from hackamore.testing.simulation.simulated_cli import SCRIPT_FILE, SESSIONS, STATE_FILE, SimulatedCLI

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hackamore.cli.terminal import Terminal

VARIABLE = "HACKAMORE_SIMULATED_CLI"
_PROGRAM = "claude"
_OURS = frozenset({_PROGRAM, "play.py", SCRIPT_FILE, STATE_FILE, SESSIONS})
_HINT = (
    f"The simulated CLI was not started. Pass its path to the client: the variable {VARIABLE} has it. "
    "TypeScript: `pathToClaudeCodeExecutable`, Python: `cli_path`."
)


def simulate(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Install a simulated CLI, run a command with it, or report on one; return the exit code."""
    script, command, check, install = (given.get(name) for name in ("script", "command", "check", "install"))
    if check is not None:
        if script is not None or install is not None:
            raise OptionsError("`--check DIR` takes neither a script nor `--install`.", field="check")
        return _check(Path(check), given, terminal)
    if script is None:
        raise OptionsError("There is no script. Name its file, or `--check DIR`.", field="script")
    if install is None and not command:
        raise OptionsError(
            f"There is nothing to do with {shown(script)}. Add `-- COMMAND`, or `--install DIR`.", field="install"
        )
    cli = _made(given)
    if not command:
        program = _install(cli, Path(install or ""), given)
        terminal.line(str(program))
        return 0
    with _folder(install) as folder, tempfile.TemporaryDirectory(prefix="hackamore-config-") as configuration:
        program = _install(cli, folder, given)
        environment = {
            **unreachable_environment(configuration),
            VARIABLE: str(program),
            "PATH": os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)]),
        }
        code = run_command(command, environment, terminal)
        if code is None:
            return outcome(None, 0)
        report = SimulatedCLI.installed(folder).report()
        return outcome(code, write_report(report, given, Path(script).name, terminal, hint=_HINT, beside=True))


def _made(given: Mapping[str, Any]) -> SimulatedCLI:
    script = read_script(str(given["script"]))
    scale = given.get("time_scale")
    try:
        return SimulatedCLI(
            script, per_session=bool(given.get("per_session")), time_scale=0.01 if scale is None else scale
        )
    except ValueError:
        raise OptionsError(f"`--time-scale` must be at least 0, got {scale}.", field="time_scale") from None


@contextmanager
def _folder(install: Path | None) -> Iterator[Path]:
    if install is not None:
        yield Path(install)
        return
    folder = tempfile.mkdtemp(prefix="hackamore-simulated-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a program may have left a CLI that still writes


def _install(cli: SimulatedCLI, folder: Path, given: Mapping[str, Any]) -> Path:
    """Write the executable into a folder that is new, empty, or has one that it replaces."""
    try:
        there = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        ours = {_PROGRAM, SCRIPT_FILE} <= there <= _OURS
        if there and not ours:
            raise OptionsError(
                f"{shown(folder)} has other files. Name a new or empty folder for `--install`.", field="install"
            )
        shutil.rmtree(folder / SESSIONS, ignore_errors=True)
        (folder / STATE_FILE).unlink(missing_ok=True)
        return cli.install(folder, real_tools=bool(given.get("real_tools")))
    except UnicodeEncodeError:
        raise OptionsError(
            f"{shown(given['script'])}: a text of the script has half a surrogate pair.", field="script"
        ) from None
    except OSError as error:
        raise OptionsError(f"{shown(folder)} cannot be written: {error.strerror or error}.", field="install") from None


def _check(folder: Path, given: Mapping[str, Any], terminal: Terminal) -> int:
    try:
        report = SimulatedCLI.installed(folder).report()
    except (OSError, ValueError, AssertionError):
        raise OptionsError(
            f"{shown(folder)} has no simulated CLI. `hackamore simulate SCRIPT --install DIR` writes one.",
            field="check",
        ) from None
    return write_report(report, given, folder.resolve().name, terminal, hint=_HINT)
