"""The command line: the commands and their help."""

from __future__ import annotations

import inspect
import os
import re
import sys
import tomllib
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hackamore._version import __version__
from hackamore.checked.fields import suggestion
from hackamore.cli.flags import FLAGS
from hackamore.cli.help import HELP, CommandWithHelp, GroupWithHelp, ListingGroup
from hackamore.cli.running import USAGE, checked_level, ending_well, logged
from hackamore.cli.terminal import Terminal
from hackamore.errors import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hackamore.cli.flags import Flags

_TABLE = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


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
    rest: bool = False
    """True if all behind the first argument belongs to another program."""

    def action(self, given: dict[str, Any]) -> Callable[[Terminal], int]:
        module, _, function = self.place.partition(":")
        level = checked_level(given.pop("log_level", None))
        action = partial(getattr(import_module(module), function), given)
        return action if level is None else partial(logged, action, level)


def _read(row: dict[str, str]) -> Command:
    """Return the command of a row of commands.toml."""
    name, known = row["name"], _TABLE["epilogs"]
    given: Flags = {}
    for group in reversed(row.get("flags", "").split()):
        given = {**FLAGS[group], **given}
    given.pop(row.get("without"), None)  # type: ignore[arg-type]
    text = row.get("epilog") or known.get(name) or known.get(name.split()[0], "")
    epilog = re.sub(r"\{(\w+)\}", lambda found: _TABLE["codes"][found[1]], text)
    return Command(name, f"{__package__}.{row['place']}", given, row["help"], epilog, "rest" in row)


COMMANDS = tuple(map(_read, _TABLE["command"]))
GROUPS: dict[str, str] = _TABLE["groups"]
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
    settings = {"allow_interspersed_args": not command.rest}
    place.command(name, cls=CommandWithHelp, help=command.help, epilog=command.epilog, context_settings=settings)(
        function
    )


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
            if list(arguments[: len(words)]) == words and not command.rest:
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
