"""The command line: the commands and their help."""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hackamore._version import __version__
from hackamore.checked.fields import suggestion
from hackamore.cli import fleet_flags, session_flags, simulate_flags
from hackamore.cli.flags import (
    CHAT,
    CONFORMANCE,
    DEMO,
    DOCTOR,
    INSTALL,
    LOG,
    OPTIONS,
    OUTPUT,
    PROMPT,
    SHAPE,
    TRACE_DIFF,
    TRACE_DIFF_EPILOG,
    TRACE_HTML,
    TRACE_HTML_EPILOG,
    TRACE_INSPECT,
    TRACE_INSPECT_EPILOG,
    TRACE_SHOW,
    TRACE_SHOW_EPILOG,
    Flags,
)
from hackamore.cli.help import HELP, CommandWithHelp, GroupWithHelp, ListingGroup
from hackamore.cli.running import USAGE, checked_level, ending_well, logged
from hackamore.cli.terminal import Terminal
from hackamore.errors import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NOT_STARTED = "  3  the CLI cannot be started\n"
_STOPPED = "  130  Ctrl-C (141: the reader of a pipe went away, 143: SIGTERM)\n"
_RUN_CODES = f"""Exit codes:
  0  the turn succeeded
  1  the turn ended in an error, or the stream broke
  2  the command line or an option is wrong
{_NOT_STARTED}{_STOPPED}"""
_RUN_EXAMPLES = """Examples:
  hackamore run "What does this project do?"
  git diff | hackamore run --append-system-prompt "Review this diff." --tools ""
  hackamore run "Fix the failing test" --allow Bash --allow Edit --max-turns 20
  hackamore run "And now in French" --continue
  hackamore run "List the modules" --output-schema schema.json --quiet | jq .
  hackamore run "Explain" --json > run.jsonl
  hackamore run "Think hard" --option effort=high --option 'timeouts={"idle": 60}'
"""
_CHAT_CODES = f"""Exit codes:
  0  you ended it (/quit, Ctrl-D), or the piped prompts were answered
  1  the CLI died or ended in an error, or a piped prompt ended in an error
  2  the command line or an option is wrong
{_NOT_STARTED}{_STOPPED}"""
_CHAT_EXAMPLES = """Examples:
  hackamore chat
  hackamore chat "Fix the failing test" --allow Edit
  hackamore chat --continue --permission-mode plan
  printf 'List the files.\\nWhich is the largest?\\n' | hackamore chat --allow Read
"""
_DOCTOR_CODES = f"""Exit codes:
  0  ready
  1  no login was found
  2  an option is wrong
{_NOT_STARTED}"""
_DEMO_CODES = f"Exit codes:\n  0  the demo succeeded\n  1  a part failed\n{_NOT_STARTED}"
_CONFORMANCE_CODES = """Exit codes:
  0  all required behaviour was found
  1  required behaviour is missing
  3  there is no CLI
"""
_INSTALL_EPILOG = """Examples:
  hackamore install-cli
  hackamore install-cli 2.1.330

The registry is the one in npm's settings (npm_config_registry, ~/.npmrc).

Exit codes:
  0  installed, or already there
  1  the download failed, or its checksum is wrong
  2  the version is not valid
  3  there is no CLI for this platform
"""


@dataclass(frozen=True)
class Command:
    """A command; `place` is `module:function`, imported when used, which takes the flags and the terminal and returns the exit code.

    A name of two words is a command of a group.
    """

    name: str
    place: str
    flags: Flags
    help: str
    epilog: str = ""

    def action(self, given: dict[str, Any]) -> Callable[[Terminal], int]:
        module, _, function = self.place.partition(":")
        level = checked_level(given.pop("log_level", None))
        action = partial(getattr(import_module(module), function), given)
        return action if level is None else partial(logged, action, level)


def _sessions(name: str, text: str, flags: Flags, epilog: str = session_flags.EPILOG) -> Command:
    return Command(f"sessions {name}", f"hackamore.cli.sessions:{name}_", flags, text, epilog)


def _fleet(name: str, text: str, flags: Flags, epilog: str) -> Command:
    return Command(f"fleet {name}", f"hackamore.cli.fleet:{name}_", flags, text, epilog)


COMMANDS = (
    Command(
        "run",
        "hackamore.cli.running:run",
        {**PROMPT, **OPTIONS, **LOG, **OUTPUT, **SHAPE},
        "Run one prompt and show the answer as it arrives.",
        f"{_RUN_EXAMPLES}\n{_RUN_CODES}",
    ),
    Command(
        "chat",
        "hackamore.cli.chat:chat",
        {**CHAT, **OPTIONS, **LOG},
        "Start an interactive conversation; asks before running tools.",
        f"{_CHAT_EXAMPLES}\n{_CHAT_CODES}",
    ),
    Command(
        "doctor",
        "hackamore.cli.doctor:doctor",
        {**DOCTOR, **{name: row for name, row in OPTIONS.items() if name != "timeout"}, **LOG},
        "Check the installation: the CLI, its version, the login.",
        _DOCTOR_CODES,
    ),
    Command(
        "install-cli",
        "hackamore.cli.install:install_cli",
        INSTALL,
        "Install the Claude Code CLI for this user.",
        _INSTALL_EPILOG,
    ),
    Command(
        "demo",
        "hackamore.cli.demo:demo",
        {**DEMO, **LOG},
        "Show the real CLI at work with a scripted model (offline).",
        _DEMO_CODES,
    ),
    Command(
        "conformance",
        "hackamore.cli.conformance:conformance",
        {**CONFORMANCE, **LOG},
        "Check a Claude Code version against the behaviour Hackamore needs (offline).",
        _CONFORMANCE_CODES,
    ),
    Command(
        "simulate",
        "hackamore.cli.simulate:simulate",
        simulate_flags.SIMULATE,
        "Play a script as the CLI, for programs in any language.",
        simulate_flags.SIMULATE_EPILOG,
    ),
    Command(
        "model",
        "hackamore.cli.model:model",
        simulate_flags.MODEL,
        "Play a script as the model of the real CLI.",
        simulate_flags.MODEL_EPILOG,
    ),
    Command(
        "trace show",
        "hackamore.cli.trace:trace",
        TRACE_SHOW,
        "Show a trace or a conversation as a timeline in the terminal.",
        TRACE_SHOW_EPILOG,
    ),
    Command(
        "trace html",
        "hackamore.cli.trace_page:html_",
        TRACE_HTML,
        "Write a trace or a conversation as one HTML file.",
        TRACE_HTML_EPILOG,
    ),
    Command(
        "trace inspect",
        "hackamore.cli.trace_page:inspect_",
        TRACE_INSPECT,
        "Serve the page of a trace on this machine, also of one that still grows.",
        TRACE_INSPECT_EPILOG,
    ),
    Command(
        "trace diff",
        "hackamore.cli.trace_page:diff_",
        TRACE_DIFF,
        "Compare two runs: prompts, replies, tools, decisions, results.",
        TRACE_DIFF_EPILOG,
    ),
    _sessions("list", "List conversations, newest first.", session_flags.LIST, session_flags.LIST_EPILOG),
    _sessions("show", "Show a conversation.", session_flags.SHOW),
    _sessions("search", "Search the texts of all conversations.", session_flags.SEARCH, session_flags.SEARCH_EPILOG),
    _sessions("usage", "Add up tokens and estimated cost.", session_flags.USAGE),
    _sessions("rename", "Set the title of a conversation.", session_flags.RENAME),
    _sessions("tag", "Set or remove the tag of a conversation.", session_flags.TAG),
    _sessions("archive", "Mark a conversation as archived.", session_flags.ARCHIVE),
    _sessions("fork", "Copy a conversation up to a message; print the new id.", session_flags.FORK),
    _sessions("delete", "Delete conversations.", session_flags.DELETE),
    _sessions("prune", "List old conversations, or delete them.", session_flags.PRUNE, session_flags.PRUNE_EPILOG),
    _sessions("export", "Write a conversation as a document.", session_flags.EXPORT, session_flags.EXPORT_EPILOG),
    _sessions("import", "Import a JSONL export; print the session id.", session_flags.IMPORT),
    _fleet("run", "Run the tasks of a file.", fleet_flags.RUN, fleet_flags.RUN_EPILOG),
    _fleet("status", "Show how the tasks stand.", fleet_flags.STATUS, fleet_flags.STATUS_EPILOG),
    _fleet("results", "Show or write the results.", fleet_flags.RESULTS, fleet_flags.RESULTS_EPILOG),
    _fleet("resume", "Continue the last run.", fleet_flags.RESUME, fleet_flags.RESUME_EPILOG),
    _fleet("retry", "Queue tasks that failed once more.", fleet_flags.RETRY, fleet_flags.RETRY_EPILOG),
    _fleet("cancel", "Cancel tasks that are not over.", fleet_flags.CANCEL, fleet_flags.CANCEL_EPILOG),
    _fleet("trace", "Write the page of an attempt.", fleet_flags.TRACE, fleet_flags.TRACE_EPILOG),
    Command("version", "hackamore.cli.doctor:version", {}, "Show the versions of Hackamore, the CLI and Python."),
)

GROUPS = {
    "fleet": "Run many tasks with agents; a journal keeps them through crashes.",
    "sessions": "List (without a command), read, search, change and export the conversations that the CLI keeps.",
    "trace": "Show, open and compare traces, cassettes and conversations.",
}
"""The groups of commands, with their help."""

# A command only returns its action: inside the parser, the parser would handle Ctrl-C and broken pipes.
app: typer.Typer = typer.Typer(
    name="hackamore",
    cls=GroupWithHelp,
    help="Steer the Claude Code CLI: run prompts, chat, check the installation.",
    epilog="Run `hackamore COMMAND --help` for the flags of a command.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": [*HELP]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hackamore {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show Hackamore's version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


def _register(command: Command) -> None:
    def function(**given: Any) -> Callable[[Terminal], int]:
        return command.action(given)

    # typer reads flags from a function's signature.
    kind = inspect.Parameter.KEYWORD_ONLY
    described: Any = function
    described.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, kind, annotation=flag, default=unused)
            for name, (flag, unused) in command.flags.items()
        ]
    )
    described.__annotations__ = {name: flag for name, (flag, _) in command.flags.items()}
    group, _, name = command.name.rpartition(" ")
    place = _groups[group] if group else app
    place.command(name, cls=CommandWithHelp, help=command.help, epilog=command.epilog)(function)


_groups: dict[str, typer.Typer] = {}
for _name, _help in GROUPS.items():
    _groups[_name] = typer.Typer(
        name=_name,
        cls=ListingGroup if _name == "sessions" else GroupWithHelp,
        help=_help,
        epilog=f"Run `hackamore {_name} COMMAND --help` for the flags of a command.",
        rich_markup_mode=None,
        no_args_is_help=_name != "sessions",
    )
    app.add_typer(_groups[_name])
for _command in COMMANDS:
    _register(_command)


def run_app(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The parent process closed it, so there is no reader.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process
    terminal = Terminal()
    return ending_well(terminal, lambda: _dispatch(arguments, terminal))


def _dispatch(arguments: Sequence[str], terminal: Terminal) -> int:
    command: Any = typer.main.get_command(app)
    try:
        action = command.main(_asking_for_help(arguments), prog_name="hackamore", standalone_mode=False)
    except _USAGE_ERRORS as error:
        return _usage_error(error, terminal)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as end:
        if end.code in (0, None) or "_HACKAMORE_COMPLETE" in os.environ:
            return int(end.code or 0)  # shell completion
        # The parser ends the process, with 1, if the reader of the help went away.
        raise BrokenPipeError from None
    return action(terminal) if callable(action) else int(action or 0)


def _asking_for_help(arguments: Sequence[str]) -> list[str]:
    """Return the arguments, of which `-h` at the end leaves nothing but the command: it is help, also after mistakes."""
    if "--" not in arguments and arguments and arguments[-1] in HELP:
        for command in COMMANDS:
            words = command.name.split()
            if list(arguments[: len(words)]) == words:
                return [*words, HELP[0]]
    return list(arguments)


# typer brings its own copy of click in some versions and uses the package in others; this class is the right one in both.
_USAGE_ERRORS: Any = typer.BadParameter.__mro__[2]


def _usage_error(error: Any, terminal: Terminal) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        # The message is the help page, unless the parser has shown it.
        sys.stdout.write(f"{message}\n" if message else "")
        sys.stdout.flush()
        return USAGE
    sys.stdout.flush()
    if context is not None:
        terminal.note(f"Usage: {' '.join(context.get_usage().split()).removeprefix('Usage: ')}")
        terminal.note(f"Try '{context.command_path} --help' for help.\n")
    if (wrong := getattr(error, "option_name", None)) and hasattr(error, "possibilities"):
        known = error.possibilities or ()
        message = f"There is no option `{escape_terminal(wrong, 100)}`.{suggestion(wrong, known)}"
    terminal.error(message)
    return USAGE
