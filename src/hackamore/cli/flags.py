"""The flags of each command: names, types and help; and from what was typed to `Options` and a prompt.

Flags that set an option have their name and type from its row.

A group maps the names under which a command gets its flags to the annotation that typer reads, and to the value of an unused flag.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import typer

from hackamore.checked.fields import suggestion
from hackamore.errors import OptionsError, escape_terminal
from hackamore.options.kinds import PermissionMode
from hackamore.options.options import Options
from hackamore.options.sources import variable_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Flags: TypeAlias = "dict[str, tuple[Any, Any]]"

OUTPUT_PANEL = "Output"
_CONVERSATION = "Conversation"
_TOOLS = "Tools and permissions"
_PROCESS = "Process and configuration"
_ALLOW = "Run TOOL without asking: Edit, `Bash(git log:*)`. Repeatable."
_SOURCES = 'Load these settings: user, project, local; "" for none.'
_TRUST = "Accept programs and loose permissions from the config file."
_CONFIG = "Read options from a TOML file; flags and HACKAMORE_... win."
_ANY = "Set any other field of `hackamore.Options`. Repeatable."
_POLICY = "Decide tool calls by the rules of a TOML file."
_RAW = "Write the CLI's JSON lines to stdout, and nothing else."
_YES = "Approve all permission requests that need no person."
_SCHEMA = "Require an answer that matches the JSON schema in PATH."
_PIECES = "Show text while it is written (default: on a terminal)."
_CLI = "Path to the Claude Code CLI (default: search for it)."
MODES = tuple(mode for mode in get_args(PermissionMode) if mode != "manual")
_ALIASES = ("default", "fable", "haiku", "opus", "sonnet")
"""Names of models that the CLI resolves by itself; only for completion."""
_COMPLETED = 200
"""The newest sessions, which completion offers."""
_TITLE = 60
_SPECIAL = re.compile(r"[^\w.,/@%+:-]")
"""Characters that a shell splits at or acts on."""


def _complete(*choices: str) -> Callable[[str], list[str]]:

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def flag(
    kind: Any,
    *names: str,
    help: str,  # noqa: A002 - as in typer
    panel: str | None = None,
    metavar: str | None = None,
    choices: Iterable[str] | Callable[[str], Any] = (),
) -> tuple[Any, Any]:
    """Return a flag and its unused value: False for a bool, but None for one with an opposite (`--x/--no-x`), else None."""
    unused: Any = False if kind is bool and "/" not in names[0] else None
    if metavar is None and kind is not bool:
        metavar = {int: "N", float: "N", Path: "PATH", list[Path]: "PATH", list[int]: "N"}.get(kind, "TEXT")
    kind = kind if unused is False else kind | None
    completion = choices if callable(choices) else _complete(*choices) if choices else None
    option = typer.Option(
        *names, help=help, metavar=metavar, show_default=False, rich_help_panel=panel, autocompletion=completion
    )
    return Annotated[kind, option], unused


def argument(
    metavar: str,
    text: str,
    *,
    required: bool = False,
    complete: Callable[[str], Any] | None = None,
    many: bool = False,
) -> tuple[Any, Any]:
    """Return a positional argument; None if it is not used."""
    described = typer.Argument(metavar=metavar, help=text, show_default=False, autocompletion=complete)
    kind: Any = list[str] if many else str
    return (Annotated[kind, described], ...) if required else (Annotated[kind | None, described], None)


def complete_sessions(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids, with the titles as help, and the titles that users set which begin with `incomplete`.

    The sessions of this folder count; without any, those of all folders.
    """
    from hackamore import transcripts

    try:
        found = transcripts.list(limit=_COMPLETED) or transcripts.list(all_projects=True, limit=_COMPLETED)
    except OSError:
        return []
    complete = []
    for each in found:
        shown = escape_terminal(" ".join(each.title.split()), _TITLE)
        if each.session_id.startswith(incomplete):
            complete.append((each.session_id, shown))
        if incomplete and each.title_source == "custom" and each.title.startswith(incomplete):
            complete.append((_typed(each.title), each.session_id))
    return complete


def _typed(title: str) -> str:
    """Return a title as it is typed. Bash inserts it as it is; other shells quote it."""
    return _SPECIAL.sub(r"\\\g<0>", title) if "bash" in os.environ.get("_HACKAMORE_COMPLETE", "") else title


def _option(
    name: str,
    text: str,
    panel: str | None,
    metavar: str,
    *,
    names: Sequence[str],
    choices: Iterable[str] | Callable[[str], Any],
) -> tuple[Any, Any]:
    """Return the flag of an option: its flag for the CLI in lower case, or else its name."""
    field = Options.__fields__[name]
    own = field.row.name if field.row.name.startswith("--") else f"--{name.replace('_', '-')}"
    kind: Any = str
    if field.annotation.startswith("Sequence") and field.row.form != "comma":
        kind = list[Path] if "PathLike" in field.annotation else list[str]
    else:
        kind = {"bool": bool, "int | None": int, "float | None": float}.get(field.annotation, str)
    names = names or (re.sub("(?=[A-Z])", "-", own).lower(),)
    return flag(kind, *names, help=text, panel=panel, metavar=metavar or None, choices=choices)


def _options(
    *rows: tuple[str, str, str | None, str],
    choices: Mapping[str, Iterable[str] | Callable[[str], Any]] | None = None,
) -> Flags:
    """Return flags from rows: the option, its text, its panel; its metavar and own names, if any."""
    flags = {}
    for name, text, panel, words in rows:
        metavar, *names = words.split() or [""]
        flags[name] = _option(name, text, panel, metavar, names=names, choices=(choices or {}).get(name, ()))
    return flags


_CLI_PATH = _options(("cli_path", _CLI, _PROCESS, "PATH"))
_NAMED = {
    **_options(
        ("model", "Use this model: a name or an alias such as sonnet.", None, "NAME"),
        ("system_prompt", "Replace the CLI's system prompt.", None, "TEXT"),
        ("append_system_prompt", "Add to the CLI's system prompt.", None, "TEXT"),
        ("max_turns", "Stop after N turns.", None, "N"),
        ("max_budget_usd", "Stop when the cost reaches USD.", None, "USD"),
        ("resume", "Resume the session with this id or title.", _CONVERSATION, "UUID"),
        ("continue_conversation", "Resume the newest session of the folder.", _CONVERSATION, ""),
        ("fork_session", "Resume in a copy of the session.", _CONVERSATION, ""),
        ("session_id", "Set the id of the new session.", _CONVERSATION, "UUID"),
        ("allowed_tools", _ALLOW, _TOOLS, "TOOL --allow --allowed-tools"),
        ("disallowed_tools", "Never run TOOL. Repeatable.", _TOOLS, "TOOL"),
        ("tools", 'Offer only these tools; "" none, default all. Repeatable.', _TOOLS, "TOOL"),
        ("permission_mode", f"Set the mode: {', '.join(MODES)}.", _TOOLS, "MODE"),
        ("add_dirs", "Let tools also work in this folder. Repeatable.", _TOOLS, "PATH"),
        ("mcp_servers", "Load MCP servers from a file or JSON text.", _TOOLS, "PATH --mcp-config"),
        ("cwd", "Run the CLI in this folder.", _PROCESS, "PATH"),
        ("setting_sources", _SOURCES, _PROCESS, "LIST"),
        choices={
            "model": _ALIASES,
            "permission_mode": MODES,
            "resume": complete_sessions,
            "setting_sources": ("user", "project", "local", "user,project", "user,project,local"),
        },
    ),
    **_CLI_PATH,
}
NAMED_OPTIONS = tuple(_NAMED)
"""The options that have a flag of their own."""

_SETTABLE = tuple(
    f"{name}="
    for name, field in Options.__fields__.items()
    if name not in _NAMED and variable_kind(field) != "function"
)
OPTIONS: Flags = {
    **_NAMED,
    "timeout": flag(float, "--timeout", metavar="SECONDS", help="Stop a turn that takes longer.", panel=_PROCESS),
    "policy": flag(Path, "--policy", metavar="PATH", help=_POLICY, panel=_TOOLS),
    "option": flag(list[str], "--option", metavar="NAME=JSON", help=_ANY, panel=_PROCESS, choices=_SETTABLE),
    "config": flag(Path, "--config", metavar="PATH", help=_CONFIG, panel=_PROCESS),
    "trust_config": flag(bool, "--trust-config", help=_TRUST, panel=_PROCESS),
}
"""All that make `hackamore.Options`."""

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG: Flags = {
    "log_level": flag(
        str,
        "--log-level",
        metavar="LEVEL",
        help=f"Log to stderr: {', '.join(LOG_LEVELS)}.",
        panel=_PROCESS,
        choices=LOG_LEVELS,
    )
}
"""For all commands that start the CLI."""

PROMPT: Flags = {"prompt": argument("PROMPT", "The prompt; `-` or a pipe reads standard input.")}
OUTPUT: Flags = {
    "as_json": flag(bool, "--json", help=_RAW, panel=OUTPUT_PANEL),
    "quiet": flag(bool, "--quiet", "-q", help="Write only the final text.", panel=OUTPUT_PANEL),
}
_PARTIAL: Flags = {"partial": flag(bool, "--partial/--no-partial", help=_PIECES, panel=OUTPUT_PANEL)}
SHAPE: Flags = {
    **_PARTIAL,
    "output_schema": flag(Path, "--output-schema", metavar="PATH", help=_SCHEMA, panel=OUTPUT_PANEL),
}
JSON_REPORT: Flags = {"as_json": flag(bool, "--json", help="Write the report as JSON.", panel=OUTPUT_PANEL)}
DOCTOR: Flags = {
    **JSON_REPORT,
    "verbose": flag(bool, "--verbose", "-v", help="List the variables that the CLI gets.", panel=OUTPUT_PANEL),
}
DEMO: Flags = {
    "simulated": flag(bool, "--simulated", help="Use the simulated CLI, even if there is a real one."),
    "fast": flag(bool, "--fast", help="Show text without delays and skip the waits."),
    **_CLI_PATH,
}
CONFORMANCE: Flags = {
    "cli_path": flag(str, "--cli", "--cli-path", metavar="PATH", help=_CLI),
    **JSON_REPORT,
}
INSTALL: Flags = {
    "version": argument("VERSION", "The version, or a tag of the registry (default: latest)."),
    "force": flag(bool, "--force", help="Install again, even if the version is there."),
}
CHAT: Flags = {
    "prompt": argument("PROMPT", "The first prompt."),
    "yes": flag(bool, "--yes", help=_YES, panel=_TOOLS),
    **_PARTIAL,
}


_FILTERS = "Filters"
_TRACE = "A trace, a cassette, or a session id."
_KINDS = ("prompt", "text", "tool", "subagent", "hook", "permission", "mcp", "control", "task", "result")

TRACE_SHOW: Flags = {
    "file": argument("FILE", _TRACE, required=True),
    "session": flag(list[int], "--session", help="Show only session N, counted from 0. Repeatable.", panel=_FILTERS),
    "kind": flag(
        list[str],
        "--kind",
        metavar="KIND",
        help=f"Show only this kind: {', '.join(_KINDS)}, ... Repeatable.",
        panel=_FILTERS,
        choices=_KINDS,
    ),
    "everything": flag(bool, "--all", help="Show states, streamed pieces and handshakes as well.", panel=_FILTERS),
    "full": flag(bool, "--full", help="Show texts in full.", panel=_FILTERS),
    "as_json": flag(bool, "--json", help="Write one JSON object for each event.", panel=OUTPUT_PANEL),
    "raw": flag(bool, "--raw", help="Write the recorded lines.", panel=OUTPUT_PANEL),
}


_TITLE_OF_PAGE = flag(str, "--title", metavar="TEXT", help="Set the title of the page.", panel=OUTPUT_PANEL)
TRACE_HTML: Flags = {
    "file": argument("FILE", _TRACE, required=True),
    "output": flag(Path, "--output", "-o", help="Write to PATH (default: FILE with .html here).", panel=OUTPUT_PANEL),
    "force": flag(bool, "--force", help="Replace PATH if it exists.", panel=OUTPUT_PANEL),
    "title": _TITLE_OF_PAGE,
}
TRACE_INSPECT: Flags = {
    "file": argument("FILE", _TRACE, required=True),
    "follow": flag(bool, "--follow", "-f", help="Show what is added to the file while the page is open."),
    "port": flag(int, "--port", help="Listen on port N of 127.0.0.1 (default: a free one)."),
}
TRACE_DIFF: Flags = {
    "one": argument("A", _TRACE, required=True),
    "other": argument("B", "The run to compare with.", required=True),
    "no_results": flag(bool, "--no-results", help="Ignore what tools returned.", panel=_FILTERS),
    "full": flag(bool, "--full", help="Compare and show texts in full.", panel=OUTPUT_PANEL),
}


def read_prompt(prompt: str | None) -> str:
    """Return the prompt: the argument, or standard input for `-` or for nothing."""
    if prompt is not None and prompt != "-":
        return prompt
    if prompt is None and (sys.stdin is None or sys.stdin.isatty()):
        raise OptionsError("There is no prompt. Pass one as the argument, or pipe it in.", field="prompt")
    if sys.stdin is None:
        raise OptionsError(
            "There is no prompt, and standard input is closed. Pass the prompt as the argument.", field="prompt"
        )
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionsError(
            f"The prompt on standard input is not valid UTF-8 (byte {error.start}). Convert it with `iconv`.",
            field="prompt",
        ) from None
    except OSError as error:
        raise OptionsError(f"Standard input cannot be read: {error.strerror}.", field="prompt") from None


def build_options(given: Mapping[str, Any], *, partial: bool) -> Options:
    """Return the options that the flags ask for, over `HACKAMORE_...` variables, over the file of `--config`.

    Args:
        given: the flags by the names of their parameters; None or empty for those that were not used.
        partial: whether text is shown while it is written, without a flag for it.
    """
    explicit: dict[str, Any] = dict(_named_options(given.get("option") or ()))
    for name in NAMED_OPTIONS:
        value = given.get(name)
        if value is not None and value is not False and value != []:
            explicit[name] = _READ.get(name, lambda value: value)(value)
    if given.get("output_schema") is not None:
        schema = _read_schema(given["output_schema"])
        explicit["output_format"] = {"type": "json_schema", "schema": schema}
    if given["partial"] if given.get("partial") is not None else partial:
        explicit["include_partial_messages"] = True
    if given.get("policy") is not None:
        from hackamore.policy import Policy

        folder = explicit.get("cwd") or "."
        explicit["policy"] = Policy.load(given["policy"], roots={"root": folder, "repo": folder})
    options = Options.load(given.get("config"), trust_file=bool(given.get("trust_config")), **explicit)
    if given.get("timeout") is not None:
        try:
            options = options.replace(timeouts=options.timeouts.replace(turn=given["timeout"]))
        except OptionsError as error:
            raise OptionsError(str(error).replace("`turn`", "`--timeout`"), field="timeouts.turn") from None
    return options


def _split(values: Iterable[str]) -> list[str]:
    """Split at commas and spaces outside of parentheses, as the CLI does."""
    parts = []
    for value in values:
        depth, part = 0, ""
        for character in value:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if character in ", " and depth <= 0:
                parts.append(part)
                part = ""
            else:
                part += character
        parts.append(part)
    return [part for part in parts if part]


def _tools(values: Iterable[str]) -> Any:
    names = _split(values)
    return {"type": "preset", "preset": "claude_code"} if names == ["default"] else names


_READ: Mapping[str, Callable[[Any], Any]] = {
    "allowed_tools": _split,
    "disallowed_tools": _split,
    "tools": _tools,
    "setting_sources": lambda text: [part.strip() for part in text.split(",") if part.strip()],
}


def _named_options(texts: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise OptionsError(f"`--option` needs NAME=JSON, not {escape_terminal(text, 100)!r}.", field="option")
        if name not in Options.__fields__:
            hint = suggestion(name, Options.__fields__)
            raise OptionsError(f"There is no option `{escape_terminal(name, 100)}`.{hint}", field=name)
        if variable_kind(Options.__fields__[name]) == "function":
            raise OptionsError(f"`{name}` is a function and can only be set from Python.", field=name)
        yield name, _value(name, value)


def _value(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise OptionsError(f"`--option {name}=...` is not valid JSON.", field=name) from None
        # A bare word is a text: `--option effort=high`.
        return text


def _read_schema(path: str | os.PathLike[str]) -> Any:
    shown = f"The schema file {escape_terminal(os.fspath(path), 300)}"
    try:
        with open(path, "rb") as source:
            schema = json.loads(source.read())
    except OSError as error:
        raise OptionsError(f"{shown} cannot be read: {error.strerror}.", field="output_schema") from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{shown} is not valid JSON: {error}", field="output_schema") from None
    if not isinstance(schema, dict):
        raise OptionsError(f"{shown} must hold a JSON object.", field="output_schema")
    return schema
