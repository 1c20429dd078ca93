"""The flags: what each is called, what it takes, and which of them belong together.

A group maps the names under which a command gets its flags to what typer is told, and to the value of a flag that was not used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

__all__ = [
    "CHAT",
    "CLI_PATH",
    "CONFORMANCE",
    "CONVERSATION",
    "DEMO",
    "JSON_REPORT",
    "OPTIONS",
    "OUTPUT",
    "PROCESS",
    "PROMPT",
    "SHAPE",
    "TOOLS",
    "Flags",
]

Flags: TypeAlias = "dict[str, tuple[Any, Any]]"

CONVERSATION_PANEL = "Conversation"
TOOLS_PANEL = "Tools and permissions"
OUTPUT_PANEL = "Output"
PROCESS_PANEL = "Process and configuration"

Prompt = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPT",
        help="What to ask. `-`, or nothing with something piped in, reads standard input.",
        show_default=False,
    ),
]
Model = Annotated[str | None, typer.Option("--model", help="The model, by name or alias.", show_default=False)]
SystemPrompt = Annotated[
    str | None, typer.Option("--system-prompt", help="Replaces the CLI's system prompt.", show_default=False)
]
AppendSystemPrompt = Annotated[
    str | None, typer.Option("--append-system-prompt", help="Is added to the CLI's system prompt.", show_default=False)
]
MaxTurns = Annotated[int | None, typer.Option("--max-turns", help="Stops after this many turns.", show_default=False)]
MaxBudget = Annotated[
    float | None, typer.Option("--max-budget-usd", help="Stops when this much was spent.", show_default=False)
]
Allowed = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        "--allowed-tools",
        help="A tool that runs without asking, such as `Edit` or `Bash(git log:*)`. Repeatable.",
        show_default=False,
        rich_help_panel=TOOLS_PANEL,
    ),
]
Disallowed = Annotated[
    list[str] | None,
    typer.Option(
        "--disallowed-tools",
        help="A tool that never runs. Repeatable.",
        show_default=False,
        rich_help_panel=TOOLS_PANEL,
    ),
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        help='The tools there are; "" for none, `default` for all. Repeatable.',
        show_default=False,
        rich_help_panel=TOOLS_PANEL,
    ),
]
PermissionMode = Annotated[
    str | None,
    typer.Option(
        "--permission-mode",
        help="acceptEdits, auto, bypassPermissions, default, dontAsk or plan.",
        show_default=False,
        rich_help_panel=TOOLS_PANEL,
    ),
]
AddDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--add-dir",
        help="A further folder that tools may work in. Repeatable.",
        show_default=False,
        rich_help_panel=TOOLS_PANEL,
    ),
]
McpConfig = Annotated[
    str | None,
    typer.Option(
        "--mcp-config",
        help="MCP servers: a file, or JSON text.",
        show_default=False,
        rich_help_panel=TOOLS_PANEL,
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        help="Goes on with this session.",
        show_default=False,
        rich_help_panel=CONVERSATION_PANEL,
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue",
        help="Goes on with the newest session of the folder.",
        rich_help_panel=CONVERSATION_PANEL,
    ),
]
Fork = Annotated[
    bool,
    typer.Option(
        "--fork-session",
        help="Goes on in a copy of the session.",
        rich_help_panel=CONVERSATION_PANEL,
    ),
]
SessionId = Annotated[
    str | None,
    typer.Option(
        "--session-id",
        help="The id of the new session, a UUID.",
        show_default=False,
        rich_help_panel=CONVERSATION_PANEL,
    ),
]
Cwd = Annotated[
    str | None,
    typer.Option("--cwd", help="The folder to work in.", show_default=False, rich_help_panel=PROCESS_PANEL),
]
SettingSources = Annotated[
    str | None,
    typer.Option(
        "--setting-sources",
        help='The settings that count: user, project, local, separated by commas; "" for none.',
        show_default=False,
        rich_help_panel=PROCESS_PANEL,
    ),
]
CliPath = Annotated[
    str | None,
    typer.Option(
        "--cli-path",
        help="The Claude Code CLI to use; it is looked for otherwise.",
        show_default=False,
        rich_help_panel=PROCESS_PANEL,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds for the whole turn.", show_default=False, rich_help_panel=PROCESS_PANEL),
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=JSON",
        help="Any other option of `bridle.Options`. Repeatable.",
        show_default=False,
        rich_help_panel=PROCESS_PANEL,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A TOML file with options; flags and BRIDLE_... variables win over it.",
        show_default=False,
        rich_help_panel=PROCESS_PANEL,
    ),
]
TrustConfig = Annotated[
    bool,
    typer.Option(
        "--trust-config",
        help="Also takes from the file what runs programs or loosens permissions.",
        rich_help_panel=PROCESS_PANEL,
    ),
]
Partial = Annotated[
    bool | None,
    typer.Option(
        "--partial/--no-partial",
        help="Shows text while it is written (default: on a terminal).",
        show_default=False,
        rich_help_panel=OUTPUT_PANEL,
    ),
]
OutputSchema = Annotated[
    Path | None,
    typer.Option(
        "--output-schema",
        metavar="FILE",
        help="A JSON schema that the answer must fit.",
        show_default=False,
        rich_help_panel=OUTPUT_PANEL,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Writes the CLI's raw lines to standard output, and nothing else there.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Writes only the final text.", rich_help_panel=OUTPUT_PANEL)]

PROMPT: Flags = {"prompt": (Prompt, None)}
CONVERSATION: Flags = {
    "model": (Model, None),
    "system_prompt": (SystemPrompt, None),
    "append_system_prompt": (AppendSystemPrompt, None),
    "max_turns": (MaxTurns, None),
    "max_budget_usd": (MaxBudget, None),
    "resume": (Resume, None),
    "continue_conversation": (Continue, False),
    "fork_session": (Fork, False),
    "session_id": (SessionId, None),
}
TOOLS: Flags = {
    "allowed_tools": (Allowed, None),
    "disallowed_tools": (Disallowed, None),
    "tools": (Tools, None),
    "permission_mode": (PermissionMode, None),
    "add_dirs": (AddDirs, None),
    "mcp_config": (McpConfig, None),
}
OUTPUT: Flags = {
    "as_json": (AsJson, False),
    "quiet": (Quiet, False),
}
SHAPE: Flags = {"partial": (Partial, None), "output_schema": (OutputSchema, None)}
CLI_PATH: Flags = {"cli_path": (CliPath, None)}
DEMO: Flags = {
    "simulated": (
        Annotated[bool, typer.Option("--simulated", help="Uses the simulated CLI, even though there is a real one.")],
        False,
    ),
    **CLI_PATH,
}
PROCESS: Flags = {
    "cwd": (Cwd, None),
    "setting_sources": (SettingSources, None),
    **CLI_PATH,
    "timeout": (Timeout, None),
    "option": (Option, None),
    "config": (Config, None),
    "trust_config": (TrustConfig, False),
}
JSON_REPORT: Flags = {
    "as_json": (
        Annotated[bool, typer.Option("--json", help="Writes the report as JSON.", rich_help_panel=OUTPUT_PANEL)],
        False,
    )
}
CONFORMANCE: Flags = {
    "cli_path": (
        Annotated[
            str | None,
            typer.Option(
                "--cli", "--cli-path", metavar="PATH", help="The CLI; it is looked for otherwise.", show_default=False
            ),
        ],
        None,
    ),
    "strict": (Annotated[bool, typer.Option("--strict", help="Fails for drift, too.")], False),
    **JSON_REPORT,
}
CHAT: Flags = {
    "prompt": (
        Annotated[str | None, typer.Argument(metavar="PROMPT", help="What to say first.", show_default=False)],
        None,
    ),
    "yes": (
        Annotated[
            bool,
            typer.Option(
                "--yes",
                help="Answers every permission question with yes, except where only a person may.",
                rich_help_panel=TOOLS_PANEL,
            ),
        ],
        False,
    ),
    "partial": (Partial, None),
}
OPTIONS: Flags = {**CONVERSATION, **TOOLS, **PROCESS}
"""All that make `bridle.Options`."""
