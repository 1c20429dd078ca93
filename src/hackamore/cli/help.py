"""The help pages: flags and their texts in two columns, or below each other where the terminal is narrow. No flag is ever cut."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from hackamore.checked.fields import suggestion
from hackamore.cli.terminal import wrapped
from hackamore.errors import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

_NARROW = 70
"""Columns below which a text stands below its flag."""
_LEFT = 32
_SMALL = 20
HELP = ("-h", "--help")


class CommandWithHelp(TyperCommand):
    """A command with the help page of this module."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_page(self, ctx))


class GroupWithHelp(TyperGroup):
    """A group of commands with the help page of this module."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names; fail with one suggestion if there is none."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            shown = escape_terminal(args[0], 100)
            ctx.fail(f"There is no command `{shown}`.{suggestion(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, (command.help or "").partition("\n")[0]) for name, command in commands if command is not None]
        formatter.write(_page(self, ctx, shown))


class ListingGroup(GroupWithHelp):
    """A group that lists without a command, with the flags of `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `list` in the place of the command, if there is none."""
        if not ctx.resilient_parsing and (not args or (args[0].startswith("-") and args[0] not in HELP)):
            args = ["list", *args]
        return list(super().parse_args(ctx, args))


def _page(command: Any, context: Any, commands: Iterable[tuple[str, str]] = ()) -> str:
    width = max(_SMALL, shutil.get_terminal_size((80, 24)).columns)
    usage = f"Usage: {context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    parts = [wrapped(usage, width, "  "), wrapped(command.help or "", width)]
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False):
            continue
        positional = parameter.param_type_name == "argument"
        panel = "Arguments" if positional else getattr(parameter, "rich_help_panel", None) or "Options"
        name = parameter.metavar or parameter.name.upper() if positional else _flag(parameter)
        panels.setdefault(panel, []).append((name, parameter.help or ""))
    if commands := list(commands):
        panels = {"Commands": commands, **panels}
    for title, rows in panels.items():
        parts.append("\n".join([_bold(f"{title}:"), *(_row(name, text, width) for name, text in rows)]))
    if command.epilog:
        parts.append(_epilog(command.epilog, width))
    return "\n\n".join(part for part in parts if part) + "\n"


def _flag(parameter: Any) -> str:
    short_first = sorted(parameter.opts, key=lambda name: name.startswith("--"))
    names = ", ".join(short_first) + (f" / {', '.join(parameter.secondary_opts)}" if parameter.secondary_opts else "")
    return names if parameter.is_flag or not parameter.metavar else f"{names} {parameter.metavar}"


def _row(name: str, text: str, width: int) -> str:
    if width < _NARROW:
        return wrapped(f"  {name}", width, "      ") + "\n" + wrapped(f"      {text}", width)
    lines = wrapped(text, width - _LEFT - 2).split("\n")
    left = f"  {name}"
    if len(left) >= _LEFT:
        lines.insert(0, "")
    first, *rest = lines
    return "\n".join([f"{left:<{_LEFT}}{first}".rstrip(), *(" " * _LEFT + line for line in rest)])


def _epilog(text: str, width: int) -> str:
    lines = []
    for line in text.strip().split("\n"):
        is_title = line.endswith(":") and not line.startswith(" ")
        lines.append(_bold(line) if is_title else wrapped(line, width, "      " if line.startswith(" ") else ""))
    return "\n".join(lines)


def _bold(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", None) or not sys.stdout.isatty()
    return text if plain else f"\x1b[1m{text}\x1b[0m"
