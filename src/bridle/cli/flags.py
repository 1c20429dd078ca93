"""The flags of each command: names, types and help. Flags that set an option have their name and type from its row.

A group maps the names under which a command gets its flags to the annotation that typer reads, and to the value of an unused flag.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from bridle.options.options import Options

Flags: TypeAlias = "dict[str, tuple[Any, Any]]"

OUTPUT_PANEL = "Output"
_CONVERSATION = "Conversation"
_TOOLS = "Tools and permissions"
_PROCESS = "Process and configuration"
_ALLOW = "A tool that runs without asking, such as `Edit` or `Bash(git log:*)`. Repeatable."
_SOURCES = 'The settings that count: user, project, local, separated by commas; "" for none.'
_TRUST = "Also takes from the file what runs programs or loosens permissions."
_CONFIG = "A TOML file with options; flags and BRIDLE_... variables win over it."
_ANY = "Any other option of `bridle.Options`. Repeatable."
_RAW = "Writes the CLI's raw lines to standard output, and nothing else there."
_YES = "Answers every permission question with yes, except where only a person may."
_SCHEMA = "A JSON schema that the answer must fit."
_PIECES = "Shows text while it is written (default: on a terminal)."


def flag(kind: Any, *names: str, help: str, panel: str | None = None, metavar: str | None = None) -> tuple[Any, Any]:  # noqa: A002 - as in typer
    """Return a flag and its unused value: False for a bool, but None for one with an opposite (`--x/--no-x`), else None."""
    unused: Any = False if kind is bool and "/" not in names[0] else None
    kind = kind if unused is False else kind | None
    option = typer.Option(*names, help=help, metavar=metavar, show_default=False, rich_help_panel=panel)
    return Annotated[kind, option], unused


def argument(metavar: str, text: str, *, required: bool = False) -> tuple[Any, Any]:
    """Return a positional argument; None if it is not used."""
    described = typer.Argument(metavar=metavar, help=text, show_default=False)
    return (Annotated[str, described], ...) if required else (Annotated[str | None, described], None)


def _option(name: str, text: str, panel: str | None = None, *names: str) -> tuple[Any, Any]:
    """Return the flag of an option: its flag for the CLI in lower case, or else its name."""
    field = Options.__fields__[name]
    own = field.row.name if field.row.name.startswith("--") else f"--{name.replace('_', '-')}"
    kind: Any = str
    if field.annotation.startswith("Sequence") and field.row.form != "comma":
        kind = list[Path] if "PathLike" in field.annotation else list[str]
    else:
        kind = {"bool": bool, "int | None": int, "float | None": float}.get(field.annotation, str)
    return flag(kind, *(names or (re.sub("(?=[A-Z])", "-", own).lower(),)), help=text, panel=panel)


def _options(*rows: tuple[str, str, str | None, str]) -> Flags:
    return {name: _option(name, text, panel, *names.split()) for name, text, panel, names in rows}


_CLI_PATH = _options(("cli_path", "The Claude Code CLI to use; it is looked for otherwise.", _PROCESS, ""))
_NAMED = {
    **_options(
        ("model", "The model, by name or alias.", None, ""),
        ("system_prompt", "Replaces the CLI's system prompt.", None, ""),
        ("append_system_prompt", "Is added to the CLI's system prompt.", None, ""),
        ("max_turns", "Stops after this many turns.", None, ""),
        ("max_budget_usd", "Stops when this much was spent.", None, ""),
        ("resume", "Goes on with this session.", _CONVERSATION, ""),
        ("continue_conversation", "Goes on with the newest session of the folder.", _CONVERSATION, ""),
        ("fork_session", "Goes on in a copy of the session.", _CONVERSATION, ""),
        ("session_id", "The id of the new session, a UUID.", _CONVERSATION, ""),
        ("allowed_tools", _ALLOW, _TOOLS, "--allow --allowed-tools"),
        ("disallowed_tools", "A tool that never runs. Repeatable.", _TOOLS, ""),
        ("tools", 'The tools there are; "" for none, `default` for all. Repeatable.', _TOOLS, ""),
        ("permission_mode", "acceptEdits, auto, bypassPermissions, default, dontAsk or plan.", _TOOLS, ""),
        ("add_dirs", "A further folder that tools may work in. Repeatable.", _TOOLS, ""),
        ("mcp_servers", "MCP servers: a file, or JSON text.", _TOOLS, "--mcp-config"),
        ("cwd", "The folder to work in.", _PROCESS, ""),
        ("setting_sources", _SOURCES, _PROCESS, ""),
    ),
    **_CLI_PATH,
}
NAMED_OPTIONS = tuple(_NAMED)
"""The options that have a flag of their own."""

OPTIONS: Flags = {
    **_NAMED,
    "timeout": flag(float, "--timeout", help="Seconds for the whole turn.", panel=_PROCESS),
    "option": flag(list[str], "--option", metavar="NAME=JSON", help=_ANY, panel=_PROCESS),
    "config": flag(Path, "--config", metavar="FILE", help=_CONFIG, panel=_PROCESS),
    "trust_config": flag(bool, "--trust-config", help=_TRUST, panel=_PROCESS),
}
"""All that make `bridle.Options`."""

PROMPT: Flags = {
    "prompt": argument("PROMPT", "What to ask. `-`, or nothing with something piped in, reads standard input.")
}
OUTPUT: Flags = {
    "as_json": flag(bool, "--json", help=_RAW, panel=OUTPUT_PANEL),
    "quiet": flag(bool, "--quiet", "-q", help="Writes only the final text.", panel=OUTPUT_PANEL),
}
_PARTIAL: Flags = {"partial": flag(bool, "--partial/--no-partial", help=_PIECES, panel=OUTPUT_PANEL)}
SHAPE: Flags = {
    **_PARTIAL,
    "output_schema": flag(Path, "--output-schema", metavar="FILE", help=_SCHEMA, panel=OUTPUT_PANEL),
}
JSON_REPORT: Flags = {"as_json": flag(bool, "--json", help="Writes the report as JSON.", panel=OUTPUT_PANEL)}
DEMO: Flags = {
    "simulated": flag(bool, "--simulated", help="Uses the simulated CLI, even though there is a real one."),
    **_CLI_PATH,
}
CONFORMANCE: Flags = {
    "cli_path": flag(str, "--cli", "--cli-path", metavar="PATH", help="The CLI; it is looked for otherwise."),
    "strict": flag(bool, "--strict", help="Fails for drift, too."),
    **JSON_REPORT,
}
CHAT: Flags = {
    "prompt": argument("PROMPT", "What to say first."),
    "yes": flag(bool, "--yes", help=_YES, panel=_TOOLS),
    **_PARTIAL,
}
