"""What can be typed: the commands, their flags, their help."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence  # noqa: TC003 - typer evaluates the annotations
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bridle._version import __version__
from bridle.cli.running import USAGE, ending_well, run
from bridle.cli.terminal import Terminal

__all__ = ["run_app"]

_EXIT_CODES = """**Exit codes**

- 0  the turn succeeded
- 1  it ended in an error, or the stream broke
- 2  the command line or an option is wrong
- 3  the CLI cannot be started
- 130  Ctrl-C (141 if a reader such as `head` went away, 143 for SIGTERM)
"""

_RUN_EXAMPLES = """**Examples**

- bridle run "What does this project do?"
- git diff | bridle run --append-system-prompt "Review this diff." --tools ""
- bridle run "Fix the failing test" --allow Bash --allow Edit --max-turns 20
- bridle run "And now in French" --continue
- bridle run "List the modules" --output-schema schema.json --quiet | jq .
- bridle run "Explain" --json > run.jsonl
- bridle run "Think hard" --option effort=high --option 'timeouts={"idle": 60}'
"""

_Command = Any
_CONVERSATION = "Conversation"
_TOOLS = "Tools and permissions"
_OUTPUT = "Output"
_PROCESS = "Process and configuration"

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
        rich_help_panel=_TOOLS,
    ),
]
Disallowed = Annotated[
    list[str] | None,
    typer.Option(
        "--disallowed-tools",
        help="A tool that never runs. Repeatable.",
        show_default=False,
        rich_help_panel=_TOOLS,
    ),
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        help='The tools there are; "" for none, `default` for all. Repeatable.',
        show_default=False,
        rich_help_panel=_TOOLS,
    ),
]
PermissionMode = Annotated[
    str | None,
    typer.Option(
        "--permission-mode",
        help="acceptEdits, auto, bypassPermissions, default, dontAsk or plan.",
        show_default=False,
        rich_help_panel=_TOOLS,
    ),
]
AddDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--add-dir",
        help="A further folder that tools may work in. Repeatable.",
        show_default=False,
        rich_help_panel=_TOOLS,
    ),
]
McpConfig = Annotated[
    str | None,
    typer.Option(
        "--mcp-config",
        help="MCP servers: a file, or JSON text.",
        show_default=False,
        rich_help_panel=_TOOLS,
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        help="Goes on with this session.",
        show_default=False,
        rich_help_panel=_CONVERSATION,
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue",
        help="Goes on with the newest session of the folder.",
        rich_help_panel=_CONVERSATION,
    ),
]
Fork = Annotated[
    bool,
    typer.Option(
        "--fork-session",
        help="Goes on in a copy of the session.",
        rich_help_panel=_CONVERSATION,
    ),
]
SessionId = Annotated[
    str | None,
    typer.Option(
        "--session-id",
        help="The id of the new session, a UUID.",
        show_default=False,
        rich_help_panel=_CONVERSATION,
    ),
]
Cwd = Annotated[
    str | None,
    typer.Option("--cwd", help="The folder to work in.", show_default=False, rich_help_panel=_PROCESS),
]
SettingSources = Annotated[
    str | None,
    typer.Option(
        "--setting-sources",
        help='The settings that count: user, project, local, separated by commas; "" for none.',
        show_default=False,
        rich_help_panel=_PROCESS,
    ),
]
CliPath = Annotated[
    str | None,
    typer.Option(
        "--cli-path",
        help="The Claude Code CLI to use; it is looked for otherwise.",
        show_default=False,
        rich_help_panel=_PROCESS,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds for the whole turn.", show_default=False, rich_help_panel=_PROCESS),
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=JSON",
        help="Any other option of `bridle.Options`. Repeatable.",
        show_default=False,
        rich_help_panel=_PROCESS,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A TOML file with options; flags and BRIDLE_... variables win over it.",
        show_default=False,
        rich_help_panel=_PROCESS,
    ),
]
TrustConfig = Annotated[
    bool,
    typer.Option(
        "--trust-config",
        help="Also takes from the file what runs programs or loosens permissions.",
        rich_help_panel=_PROCESS,
    ),
]
Partial = Annotated[
    bool | None,
    typer.Option(
        "--partial/--no-partial",
        help="Shows text while it is written (default: on a terminal).",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
OutputSchema = Annotated[
    Path | None,
    typer.Option(
        "--output-schema",
        metavar="FILE",
        help="A JSON schema that the answer must fit.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Writes the CLI's raw lines to standard output, and nothing else there.",
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Writes only the final text.", rich_help_panel=_OUTPUT)]

# A command only says what is to be done. Doing it inside of the parser would hand Ctrl-C and broken pipes to the parser.
app = typer.Typer(
    name="bridle",
    help="Drives the Claude Code CLI: ask it, check the installation, see a demonstration.",
    epilog="Each command has its own help: bridle run --help",
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"bridle {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Shows Bridle's version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command("run", epilog=f"{_RUN_EXAMPLES}\n\n{_EXIT_CODES}")
def _run(
    context: typer.Context,
    *,
    prompt: Prompt = None,
    model: Model = None,
    system_prompt: SystemPrompt = None,
    append_system_prompt: AppendSystemPrompt = None,
    max_turns: MaxTurns = None,
    max_budget_usd: MaxBudget = None,
    resume: Resume = None,
    continue_conversation: Continue = False,
    fork_session: Fork = False,
    session_id: SessionId = None,
    allowed_tools: Allowed = None,
    disallowed_tools: Disallowed = None,
    tools: Tools = None,
    permission_mode: PermissionMode = None,
    add_dirs: AddDirs = None,
    mcp_config: McpConfig = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    partial: Partial = None,
    output_schema: OutputSchema = None,
    cwd: Cwd = None,
    setting_sources: SettingSources = None,
    cli_path: CliPath = None,
    timeout: Timeout = None,
    option: Option = None,
    config: Config = None,
    trust_config: TrustConfig = False,
) -> Callable[[Terminal], int]:
    """Ask once and show the answer as it comes: text, tool calls and their results, a summary."""
    if as_json and quiet:
        raise typer.BadParameter("--json and --quiet exclude each other.")
    return _later(run, context)


@app.command(
    "doctor", epilog="**Exit codes**\n\n- 0  all is well\n- 2  an option is wrong\n- 3  the CLI cannot be started\n"
)
def _doctor(
    context: typer.Context,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Writes the report as JSON.", rich_help_panel=_OUTPUT)
    ] = False,
    model: Model = None,
    system_prompt: SystemPrompt = None,
    append_system_prompt: AppendSystemPrompt = None,
    max_turns: MaxTurns = None,
    max_budget_usd: MaxBudget = None,
    resume: Resume = None,
    continue_conversation: Continue = False,
    fork_session: Fork = False,
    session_id: SessionId = None,
    allowed_tools: Allowed = None,
    disallowed_tools: Disallowed = None,
    tools: Tools = None,
    permission_mode: PermissionMode = None,
    add_dirs: AddDirs = None,
    mcp_config: McpConfig = None,
    partial: Partial = None,
    output_schema: OutputSchema = None,
    cwd: Cwd = None,
    setting_sources: SettingSources = None,
    cli_path: CliPath = None,
    timeout: Timeout = None,
    option: Option = None,
    config: Config = None,
    trust_config: TrustConfig = False,
) -> Callable[[Terminal], int]:
    """Find the CLI, ask its version, and show what would be sent and what is missing. Sends nothing anywhere."""
    from bridle.cli.doctor import doctor

    return _later(doctor, context)


@app.command("demo", epilog="**Exit codes**\n\n- 0  it worked\n- 1  it did not\n- 3  the CLI cannot be started\n")
def _demo(context: typer.Context, cli_path: CliPath = None) -> Callable[[Terminal], int]:
    """Watch the real CLI at work with a scripted model: no account, no network, a temporary folder."""
    from bridle.cli.demo import demo

    return _later(demo, context)


def _later(action: Callable[[dict[str, Any], Terminal], int], context: typer.Context) -> Callable[[Terminal], int]:
    return partial(action, dict(context.params))


def run_app(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by whoever started this: then nobody wants to read it.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process
    terminal = Terminal()
    return ending_well(terminal, lambda: _dispatch(arguments, terminal))


def _dispatch(arguments: Sequence[str], terminal: Terminal) -> int:
    command: _Command = typer.main.get_command(app)
    try:
        action = command.main(list(arguments), prog_name="bridle", standalone_mode=False)
    except _USAGE_ERRORS as error:
        return _usage_error(error, terminal)
    except typer.Abort:
        raise KeyboardInterrupt from None
    return action(terminal) if callable(action) else int(action or 0)


# typer brings its own copy of click in some versions and uses the package in others; this class is the right one in both.
_USAGE_ERRORS: Any = typer.BadParameter.__mro__[2]


def _usage_error(error: Any, terminal: Terminal) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if not message:
        # No arguments at all: the help was shown.
        return USAGE
    sys.stdout.flush()
    if context is not None:
        terminal.note(f"Usage: {' '.join(context.get_usage().split()).removeprefix('Usage: ')}")
        terminal.note(f"Try '{context.command_path} --help' for help.\n")
    terminal.error(message)
    return USAGE
