"""Shared parts of `hackamore simulate` and `hackamore model`: the script of a file, a command that runs beside it, and the report."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore.checked.fields import suggestion
from hackamore.cli.running import FAILED, USAGE, signals
from hackamore.errors import OptionsError, escape_terminal
from hackamore.testing.script.script import Script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.cli.terminal import Terminal
    from hackamore.testing.script.report import PlayReport

_LANGUAGES = (".json", ".toml", ".py")
_SHELL_NOT_STARTED = USAGE


def shown(path: object) -> str:
    return escape_terminal(str(path), 300)


def read_script(path: str, kinds: tuple[type[Any], ...] = (Script,)) -> Any:
    """Return the script of a file in JSON, TOML or Python, of a class in `kinds`; raise OptionsError if there is none."""
    file = Path(path)
    if file.suffix not in _LANGUAGES:
        known = ", ".join(_LANGUAGES)
        raise OptionsError(f"{shown(path)} is not a script: its name must end in one of {known}.", field="script")
    try:
        script = defined(file, "script", kinds) if file.suffix == ".py" else Script.load(file)
    except OSError as error:
        raise OptionsError(f"{shown(path)} cannot be read: {error.strerror or error}.", field="script") from None
    except ValueError as error:
        raise OptionsError(str(error), field="script") from None
    if not (script.steps if isinstance(script, Script) else any(one.steps for one in script.report().played)):
        raise OptionsError(f"The script {shown(path)} has no steps: begin with a step `user`.", field="script")
    return script


def defined(file: Path, name: str, kinds: tuple[type[Any], ...]) -> Any:
    """Return the object that a Python file defines under a name; raise ValueError if it does not, or fails."""
    file.read_bytes()  # so that an OSError is one of this file
    folder, before = str(file.resolve().parent), [*sys.path]
    sys.path.insert(0, folder)
    try:
        names = runpy.run_path(str(file))
    except (Exception, SystemExit) as error:  # the user has to fix any error of the module
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        place = f"{shown(file)}:{line}" if line else shown(file)
        raise ValueError(f"{place}: {type(error).__name__}: {escape_terminal(str(error), 1_000)}") from None
    finally:
        with suppress(ValueError):  # the module may have changed the list
            sys.path.remove(folder)
        sys.path += [each for each in before if each not in sys.path]
    if name not in names:
        own = [each for each in names if not each.startswith("_")]
        raise ValueError(f"{shown(file)}: the module must define `{name}`.{suggestion(name, own)}")
    found = names[name]
    if not isinstance(found, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{shown(file)}: `{name}` must be a {wanted}, not {type(found).__name__}")
    return found


def run_command(command: Sequence[str], environment: Mapping[str, str | None], terminal: Terminal) -> int | None:
    """Run a command in this terminal; return its exit code, or None if it cannot be started. A variable of None is unset."""
    sys.stdout.flush()
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []
    merged = {**os.environ, **environment}

    def pass_on(number: int) -> bool:
        # A terminal sends Ctrl-C to the command as well.
        if child is None:
            early.append(number)
        elif number != signal.SIGINT or not _in_foreground():
            with suppress(ProcessLookupError):
                child.send_signal(number)
        return False

    with signals.handed_to(pass_on):
        try:
            child = subprocess.Popen(command, env={name: value for name, value in merged.items() if value is not None})
        except OSError as error:
            terminal.error(f"{shown(command[0])} cannot be started: {error.strerror or error}")
            return None
        for number in early:
            child.send_signal(number)
        code = child.wait()
    return code if code >= 0 else 128 - code


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def write_report(
    report: PlayReport,
    given: Mapping[str, Any],
    suite: str,
    terminal: Terminal,
    *,
    hint: str = "",
    beside: bool = False,
) -> int:
    """Write the report as the flags require; return the exit code. `hint` is for an unreached CLI; with `beside` text goes to stderr."""
    text = report.to_json() if given.get("as_json") else report.to_text()
    files = {given.get("output"): f"{text}\n".encode(), given.get("junit"): report.to_junit(suite)}
    unwritten = False
    for path in filter(None, files):
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(files[path])
        except OSError as error:
            terminal.error(f"{shown(path)} cannot be written: {error.strerror or error}")
            unwritten = True
    if given.get("output") is None:
        if beside and not given.get("as_json"):
            terminal.note(text)
        else:
            terminal.line(text)
    if hint and not report.ok and report.processes == 0:
        terminal.note(hint)
    return USAGE if unwritten else 0 if report.ok else FAILED


def outcome(code: int | None, reported: int) -> int:
    """Return the exit code of a command and its report: the first that is not 0."""
    return _SHELL_NOT_STARTED if code is None else code or reported
