"""`hackamore model`: a script as the model of the real CLI, which any program starts."""

from __future__ import annotations

import shlex
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore.cli.flags import port_error, port_of
from hackamore.cli.playing import outcome, read_script, run_command, shown, write_report
from hackamore.cli.running import signals
from hackamore.errors import OptionsError
from hackamore.testing.model.environment import command_environment
from hackamore.testing.model.scripted_model import ScriptedModel
from hackamore.testing.script.script import Script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal

_LOOK_SECONDS = 0.1
_HINT = "The model received no request: the CLI must run with ANTHROPIC_BASE_URL and the other variables."


def model(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Serve a script as a model, until a signal, the end of the script or of a command; return the exit code."""
    port = port_of(given)
    path = str(given["script"])
    script = read_script(path, (Script, ScriptedModel))
    if isinstance(script, ScriptedModel) and port:
        raise OptionsError("A ScriptedModel has a port of its own: `ScriptedModel(port=...)`.", field="port")
    try:
        served: ScriptedModel = script.model(port=port) if isinstance(script, Script) else script
    except ValueError as error:
        raise OptionsError(f"{shown(path)}: {error}", field="script") from None
    try:
        served.start()
    except (OSError, RuntimeError) as error:
        raise port_error(port, error) from None
    command = given.get("command")
    code: int | None = 0
    try:
        with tempfile.TemporaryDirectory(prefix="hackamore-config-", ignore_cleanup_errors=True) as configuration:
            environment = command_environment(served.url, configuration)
            if command:
                code = run_command(command, environment, terminal)
            else:
                _serve(served, environment, terminal, until_played=bool(given.get("until_played")))
        if code is None:
            return outcome(None, 0)
        report = served.report()
    finally:
        served.close()
    reported = write_report(report, given, Path(path).name, terminal, hint=_HINT, beside=bool(command))
    return outcome(code, reported)


def _serve(
    served: ScriptedModel, environment: Mapping[str, str | None], terminal: Terminal, *, until_played: bool
) -> None:
    stopped = threading.Event()

    def stop(_: int) -> bool:
        stopped.set()
        return False

    with signals.handed_to(stop):
        for name, value in environment.items():
            terminal.line(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
        terminal.note("Set these variables where you start the CLI. Ctrl-C ends the model and shows the report.")
        while not stopped.wait(_LOOK_SECONDS):
            if until_played and served.finished:
                return
