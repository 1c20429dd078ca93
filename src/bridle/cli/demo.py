"""`bridle demo`: the real CLI at work, with a model that is a script. No account, no network, a temporary folder.

Where no CLI is installed the same parts run on the simulated one, which says so.
"""

from __future__ import annotations

import os
import time
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bridle.checked.schemas import decode_output
from bridle.cli.demo_script import PROMPT, TYPED_PROMPT, model_script, simulated_script
from bridle.cli.demo_session import CODE, show_session
from bridle.cli.running import FAILED, NOT_STARTED, run_async, show_query
from bridle.cli.terminal import clean
from bridle.cli.transcript import Transcript, summary
from bridle.errors import CLINotFoundError
from bridle.launch import find_cli
from bridle.messages import ResultError
from bridle.options.bounds import Timeouts
from bridle.options.options import Options
from bridle.queries.stream import with_output_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.cli.terminal import Terminal

__all__ = ["demo"]


@dataclass
class Inventory:
    """What the typed question answers."""

    files: int
    largest: str
    total_bytes: int


def demo(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show the demonstration and return the exit code."""
    from bridle.testing import ScriptedModel
    from bridle.testing.errors import ScriptError

    started = time.monotonic()
    cli_path: str | None = None
    if given.get("simulated"):
        _introduce_simulation(terminal, "As you asked")
    else:
        try:
            cli_path, origin = _find(given.get("cli_path"))
        except CLINotFoundError as error:
            if _named(given.get("cli_path")):
                terminal.error(f"The demo shows the real Claude Code CLI, and none was found. {error}")
                return NOT_STARTED
            _introduce_simulation(terminal, "No Claude Code CLI was found on this machine, so")
        else:
            _introduce(terminal, cli_path, origin)
    with TemporaryDirectory(prefix="bridle-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        project = _make_project(folder)
        try:
            if cli_path is None:
                code = _simulated(folder, project, terminal)
            else:
                with ScriptedModel(*model_script(project, _pace(terminal))) as model:
                    isolated = {key: value for key, value in model.isolated_env(folder).items() if value is not None}
                    code = _run_parts(partial(_options, cli_path, isolated, project), terminal, project)
        except ScriptError as error:
            terminal.error(f"This CLI did not do what the demo was made for (it was tried with 2.1.328).\n{error}")
            return FAILED
    if code == 0:
        terminal.line()
        terminal.line(f"That took {time.monotonic() - started:.1f} s. Nothing is left of it.", "dim")
        if cli_path is None:
            terminal.line("Now test an agent of your own without any CLI:  docs/simulated-cli.md")
        else:
            terminal.line('Now with your own account:  bridle run "What does this project do?"')
    return code


def _simulated(folder: Path, project: Path, terminal: Terminal) -> int:
    """Show all parts on the simulated CLI, as a process of its own whose tools are real."""
    from bridle.testing import SimulatedCLI

    with SimulatedCLI(simulated_script(project, _pace(terminal)), time_scale=1.0) as cli:
        program = cli.install(folder / "simulated", real_tools=True)
        return _run_parts(partial(_options, str(program), {}, project), terminal, project)


def _named(cli_path: str | None) -> str | None:
    return cli_path or os.environ.get("BRIDLE_CLI_PATH")


def _find(cli_path: str | None) -> tuple[str, str]:
    """Return the CLI and how it was found: as named, then the one of the checkout, then as always."""
    if not _named(cli_path):
        pinned = _pinned()
        if pinned is not None:
            return str(pinned), "installed by ./dev"
    found = find_cli(cli_path, os.environ, os.path.expanduser("~"))
    return found.path, {"PATH": "from PATH", "cli_path": "as you said"}.get(found.source, found.source)


def _pinned() -> Path | None:
    """Return the CLI that `./dev` has installed, if this is a checkout."""
    project = Path(__file__).resolve().parents[3]
    try:
        version = str(tomllib.loads((project / "pinned_cli.toml").read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError):
        return None
    path = project / ".dev" / "claude" / version / "claude"
    return path if path.is_file() and os.access(path, os.X_OK) else None


def _introduce(terminal: Terminal, cli_path: str, origin: str) -> None:
    terminal.line("Bridle demo", "bold")
    terminal.line("No account is used and nothing leaves this machine: the model is a script on 127.0.0.1,")
    terminal.line("and everything happens in a temporary folder. The CLI, its tools and its files are real.")
    terminal.line(f"CLI: {cli_path} ({origin})", "dim")


def _introduce_simulation(terminal: Terminal, why: str) -> None:
    terminal.line("Bridle demo, simulated", "bold")
    terminal.line(f"{why} a simulated CLI plays the part of the real one: the one that `bridle.testing` has for")
    terminal.line("your tests. It is a program of its own; its Bash and Write are real, in a temporary folder.")
    terminal.line("Install the real one:  npm install -g @anthropic-ai/claude-code  (in a checkout: ./dev demo)", "dim")


def _pace(terminal: Terminal) -> dict[str, Any]:
    """Return how text is streamed: for a reader who watches; into a file it may go at once."""
    return {"chunk": 9, "delay": 0.03} if terminal.interactive else {"chunk": 40}


def _make_project(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    (project / "hello.py").write_text('print("Hello from a bridle.")\n', encoding="utf-8")
    (project / "data.csv").write_text("horse,height\nAda,163\nGrace,158\nBarbara,171\n", encoding="utf-8")
    return project


def _options(cli_path: str, isolated: Mapping[str, str], project: Path, /, **more: Any) -> Options:
    always: dict[str, Any] = {
        "cli_path": cli_path,
        "cwd": project,
        "env": {"PATH": os.defpath, "LANG": "C.UTF-8", **isolated},
        "inherit_env": False,
        # Named one by one, so that it also works as root, where the CLI refuses to skip all checks.
        "allowed_tools": ["Bash", "Write"],
        "setting_sources": [],
        "version_check": "skip",
        "timeouts": Timeouts(turn=60),
    }
    return Options(**{**always, **more})


def _run_parts(make_options: Callable[..., Options], terminal: Terminal, project: Path) -> int:
    """Show all parts and return the exit code; `make_options` adds its arguments to the options of the demo."""
    _head(terminal, "1. A question, streamed: thinking, text, a Bash command, a file")
    _code(terminal, "for message in bridle.sync.query(prompt, options): ...")
    terminal.line()
    terminal.line(f"> {PROMPT}")
    terminal.line()
    result = show_query(PROMPT, make_options(include_partial_messages=True), Transcript(terminal))
    if result is None or result.is_error:
        return FAILED
    _head(terminal, "2. The file, read from the disk")
    notes = project / "NOTES.md"
    if not notes.is_file():
        terminal.error(f"{notes} was not written.")
        return FAILED
    for line in clean(notes.read_text(encoding="utf-8", errors="replace")).rstrip("\n").split("\n"):
        terminal.line(f"  {line}", "cyan")
    _head(terminal, "3. An answer as a Python object")
    _code(terminal, "@dataclass\nclass Inventory:\n    files: int\n    largest: str\n    total_bytes: int\n")
    _code(terminal, "bridle.sync.run(prompt, options, output_type=Inventory).output")
    terminal.line()
    terminal.line(f"> {TYPED_PROMPT}")
    # What `run` does, with a signal heard at any moment.
    typed = with_output_type(make_options(), Inventory)
    result = show_query(TYPED_PROMPT, typed, None)
    if result is None or result.is_error:
        terminal.error(str(ResultError(result)) if result else "No result came.")
        return FAILED
    terminal.line()
    terminal.line(repr(decode_output(result, Inventory)), "bold")
    terminal.line()
    terminal.parts((f"{terminal.tick} ", "green"), (summary(result, terminal.dot), "dim"))
    _head(terminal, "4. A session that asks us: hook, permissions, a function as a tool")
    _code(terminal, CODE)
    worked = run_async(terminal, lambda: show_session(make_options, terminal))
    return 0 if worked else FAILED


def _head(terminal: Terminal, text: str) -> None:
    terminal.line()
    terminal.line(f"{terminal.rule * 2} {text} {terminal.rule * max(2, 74 - len(text))}", "bold blue")


def _code(terminal: Terminal, text: str) -> None:
    for line in text.split("\n"):
        terminal.line(f"   {line}".rstrip(), "green")
