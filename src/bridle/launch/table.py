"""One row per option: what it becomes, and in one line what it means.

The order of the rows is the order on the command line. Kinds: `argv` (flags of the CLI), `initialize` (fields of the
first control request, so the option needs a bidirectional session), `environment` (variables of the child), `host`
(stays in this process). A few options become two things; their kind is the one that carries the value.
docs/options.md is made from these rows, and tests compare them with the fields of `Options` and with the CLI's own
`--help`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bridle.launch import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.options.options import Options

__all__ = ["GROUPS", "ROWS", "ROWS_BY_NAME", "Kind", "OptionRow"]

Kind: TypeAlias = Literal["argv", "initialize", "environment", "host"]


class OptionRow(NamedTuple):
    """What one option becomes.

    Attributes:
        name: the field of `Options`.
        kind: where its value goes.
        group: the heading in the documentation.
        becomes: the flag, field or variable, for people.
        doc: what it means, in one line.
        argv: its arguments, without regard to whether it is set.
        initialize: its fields of the `initialize` request.
        environment: its variables.
        session: whether this value needs the bidirectional protocol.
        way_out: what to do when an argument is too long for the operating system.
    """

    name: str
    kind: Kind
    group: str
    becomes: str
    doc: str
    argv: Callable[[Options], list[str]] | None = None
    initialize: Callable[[Options], Mapping[str, Any]] | None = None
    environment: Callable[[Options], Mapping[str, str]] | None = None
    session: Callable[[Options], bool] | None = None
    way_out: str = "Make it shorter."


def _flag(
    name: str, group: str, flag: str, doc: str, *, way_out: str = "Make it shorter.", shown: str = "=V"
) -> OptionRow:
    """Return the row of an option that becomes `--flag=value`, or a bare `--flag` for True."""

    def argv(options: Options) -> list[str]:
        value = getattr(options, name)
        if value is None or value is False:
            return []
        return [flag] if value is True else [f"{flag}={value}"]

    return OptionRow(name, "argv", group, f"`{flag}{shown}`", doc, argv, way_out=way_out)


def _switch(name: str, group: str, flag: str, doc: str) -> OptionRow:
    return _flag(name, group, flag, doc, shown="")


def _list_flag(name: str, group: str, flag: str, doc: str) -> OptionRow:
    # One flag for each value. CLI 2.1.328 takes `--betas=A,B` for one beta that it does not know, and drops both; and in
    # a joined list of rules an open parenthesis swallows the rules after it.
    def argv(options: Options) -> list[str]:
        return [f"{flag}={value}" for value in getattr(options, name)]

    return OptionRow(name, "argv", group, f"`{flag}=V`, repeated", doc, argv)


def _field(name: str, group: str, field: str, doc: str) -> OptionRow:
    """Return the row of an option that is a field of `initialize`."""

    def initialize(options: Options) -> Mapping[str, Any]:
        value = getattr(options, name)
        return {} if value is None or value is False else {field: encode.plain(value)}

    return OptionRow(name, "initialize", group, f"`initialize.{field}`", doc, initialize=initialize)


def _host(name: str, group: str, doc: str, *, becomes: str = "-", session: bool = False) -> OptionRow:
    def needed(options: Options) -> bool:
        return bool(getattr(options, name))

    return OptionRow(name, "host", group, becomes, doc, session=needed if session else None)


TOLD = "What the model is told"
TOOLS = "Tools and permissions"
PARTS = "Servers, agents, skills, plugins"
MODEL = "Model and output"
BUDGET = "Budgets"
CONVERSATION = "Which conversation"
REPORT = "What is reported"
FILES = "Files and settings"
PROCESS = "The process"
HERE = "How Bridle behaves"
GROUPS = (TOLD, TOOLS, PARTS, MODEL, BUDGET, CONVERSATION, REPORT, FILES, PROCESS, HERE)

ROWS: tuple[OptionRow, ...] = (
    OptionRow(
        "system_prompt",
        "argv",
        TOLD,
        "`--system-prompt=V`, `--system-prompt-file=PATH`, `--append-system-prompt=V`; list: `initialize.systemPrompt`",
        "Replaces the system prompt (str, list of blocks, file), or adds to Claude Code's own (`SystemPromptPreset`).",
        argv=encode.system_prompt_argv,
        initialize=encode.system_prompt_initialize,
        session=encode.system_prompt_needs_session,
        way_out="Put it into a file: system_prompt={'type': 'file', 'path': ...}.",
    ),
    OptionRow(
        "append_system_prompt",
        "argv",
        TOLD,
        "`--append-system-prompt=V`",
        "Text after Claude Code's own system prompt; `system_prompt` wins over it, with a warning.",
        argv=encode.append_system_prompt_argv,
        way_out="Put it into a file: extra_args={'append-system-prompt-file': PATH}.",
    ),
    OptionRow(
        "tools",
        "argv",
        TOOLS,
        "`--tools=A,B`, `--tools=default`",
        "The built-in tools that exist; `[]` none, the preset dict the default ones.",
        argv=encode.tools_argv,
    ),
    OptionRow(
        "allowed_tools",
        "argv",
        TOOLS,
        "`--allowedTools=V`, repeated",
        "Permission rules for what runs without asking. It does not take other tools away: that is `tools`.",
        argv=encode.allowed_tools_argv,
    ),
    _flag(
        "max_turns",
        BUDGET,
        "--max-turns",
        "The number of turns after which it stops; 0 is sent, and means no limit to the CLI (2.1.328).",
        shown="=N",
    ),
    _flag(
        "max_budget_usd",
        BUDGET,
        "--max-budget-usd",
        "The cost in US dollars at which it stops; what a resumed session cost before is not counted.",
        shown="=X",
    ),
    _list_flag(
        "disallowed_tools",
        TOOLS,
        "--disallowedTools",
        "Tools that are taken away, and permission rules that deny; always sent, whatever is allowed.",
    ),
    OptionRow(
        "task_budget",
        "argv",
        BUDGET,
        "`--task-budget=N`",
        "A token budget that the model is told about (alpha in the CLI).",
        argv=encode.task_budget_argv,
    ),
    _flag("model", MODEL, "--model", "An alias or the id of the model."),
    _flag(
        "fallback_model",
        MODEL,
        "--fallback-model",
        "The model, or a comma-separated list, for when the first is overloaded.",
    ),
    _list_flag("betas", MODEL, "--betas", "Beta headers for API requests (API key users only)."),
    OptionRow(
        "permission_prompt_tool_name",
        "argv",
        TOOLS,
        "`--permission-prompt-tool=V`",
        "An MCP tool that answers permission prompts; excludes `can_use_tool`.",
        argv=encode.permission_prompt_tool_argv,
    ),
    OptionRow(
        "can_use_tool",
        "host",
        TOOLS,
        "`--permission-prompt-tool=stdio` and `can_use_tool` control requests",
        "The callback that answers permission prompts.",
        argv=encode.can_use_tool_argv,
        session=lambda options: options.can_use_tool is not None,
    ),
    _flag(
        "permission_prompts",
        TOOLS,
        "--permission-prompts",
        "`none`: nobody answers, what would prompt is denied at once.",
    ),
    OptionRow(
        "permission_mode",
        "argv",
        TOOLS,
        "`--permission-mode=V`; bypassPermissions also `--allow-dangerously-skip-permissions`",
        "default, acceptEdits, plan, bypassPermissions, dontAsk or auto (manual is another word for default).",
        argv=encode.permission_mode_argv,
    ),
    OptionRow(
        "allow_dangerously_skip_permissions",
        "argv",
        TOOLS,
        "`--allow-dangerously-skip-permissions`",
        "Permits a later switch to bypassPermissions; implied by that mode.",
        argv=encode.allow_skip_argv,
    ),
    OptionRow(
        "continue_conversation",
        "argv",
        CONVERSATION,
        "`--continue`",
        "Continues the latest conversation of the folder; `resume` wins over it, with a warning.",
        argv=encode.continue_argv,
    ),
    _flag("resume", CONVERSATION, "--resume", "The id (or name) of the session to resume."),
    _flag(
        "session_id",
        CONVERSATION,
        "--session-id",
        "The UUID of the new session; with `resume` only together with `fork_session`.",
    ),
    OptionRow(
        "settings",
        "argv",
        FILES,
        "`--settings=V`",
        "More settings: a dict, JSON text, or the path of a file.",
        argv=encode.settings_argv,
        way_out="Put it into a file and pass its path.",
    ),
    OptionRow(
        "sandbox",
        "argv",
        TOOLS,
        "`sandbox` inside of `--settings=V`",
        "How shell commands are confined; `enabled` implies `failIfUnavailable` unless that is set.",
    ),
    OptionRow(
        "managed_settings",
        "argv",
        FILES,
        "`--managed-settings=JSON`",
        "Settings on the level of a policy; the CLI takes only those that restrict.",
        argv=encode.managed_settings_argv,
    ),
    OptionRow(
        "add_dirs",
        "argv",
        FILES,
        "`--add-dir=V`, repeated",
        "More folders that tools may use.",
        argv=lambda options: [f"--add-dir={folder}" for folder in options.add_dirs],
    ),
    _flag(
        "project_config_root",
        FILES,
        "--project-config-root",
        "The trusted folder that project settings, `.mcp.json` and `.claude` come from, instead of `cwd`.",
    ),
    OptionRow(
        "mcp_servers",
        "argv",
        PARTS,
        "`--mcp-config=V`; in-process ones `initialize.sdkMcpServers`",
        "MCP servers by name: configs, tool servers of this process, or the path of a config file.",
        argv=encode.mcp_servers_argv,
        initialize=encode.mcp_servers_initialize,
        session=encode.mcp_servers_need_session,
        way_out="Put them into a file and pass its path.",
    ),
    OptionRow(
        "mcp_servers_delivery",
        "host",
        PARTS,
        "`--await-initialize` and `initialize.mcpServers`",
        "`initialize` keeps the servers' variables and headers off the command line, where other users see them.",
        argv=encode.await_initialize_argv,
    ),
    _switch(
        "include_partial_messages", REPORT, "--include-partial-messages", "Text as it is made: `StreamEvent` messages."
    ),
    _switch("include_hook_events", REPORT, "--include-hook-events", "Messages about hooks that start, go on and end."),
    _switch(
        "forward_subagent_text",
        REPORT,
        "--forward-subagent-text",
        "The text of subagents too, not only their tool calls.",
    ),
    OptionRow(
        "prompt_suggestions",
        "argv",
        REPORT,
        "`--prompt-suggestions=true`",
        "A guess of the user's next prompt after each turn.",
        argv=lambda options: ["--prompt-suggestions=true"] if options.prompt_suggestions else [],
    ),
    _switch("strict_mcp_config", PARTS, "--strict-mcp-config", "Only the servers given here, none from files."),
    _switch(
        "fork_session",
        CONVERSATION,
        "--fork-session",
        "With `resume`: a copy under a new id, the original stays as it is.",
    ),
    _flag("resume_session_at", CONVERSATION, "--resume-session-at", "Resume only up to this message (its UUID)."),
    _flag(
        "resume_drops_turn",
        CONVERSATION,
        "--resume-drops-turn",
        "The UUID of the one prompt that `resume_session_at` may cut off; anything else is refused.",
    ),
    OptionRow(
        "persist_session",
        "argv",
        CONVERSATION,
        "`--no-session-persistence` when False",
        "False writes no transcript, so that nothing can be resumed.",
        argv=lambda options: [] if options.persist_session else ["--no-session-persistence"],
    ),
    OptionRow(
        "setting_sources",
        "argv",
        FILES,
        "`--setting-sources=A,B`",
        "Which settings files count: user, project, local; `[]` none of them, None all.",
        argv=encode.setting_sources_argv,
    ),
    _flag("agent", PARTS, "--agent", "The agent whose prompt, tools and model run the main thread."),
    OptionRow(
        "skills",
        "initialize",
        PARTS,
        "`Skill` rules in `--allowedTools`; names also `initialize.skills`",
        "'all', or the names of the skills that the session has.",
        initialize=encode.skills_initialize,
        session=lambda options: isinstance(options.skills, tuple),
    ),
    OptionRow(
        "plugins",
        "argv",
        PARTS,
        "`--plugin-dir=PATH`, `--plugin-dir-no-mcp=PATH`, repeated",
        "Plugins in local folders.",
        argv=encode.plugins_argv,
        initialize=encode.plugins_initialize,
        session=lambda options: bool(options.plugins) and options.plugin_delivery == "initialize",
    ),
    _host(
        "plugin_delivery",
        PARTS,
        "`initialize` sends the plugins over stdin.",
        becomes="`--await-initialize` and `initialize.plugins`",
    ),
    OptionRow(
        "extra_args",
        "argv",
        PROCESS,
        "`--KEY=VALUE`, or `--KEY` for None",
        "Any other flag of the CLI, by name without dashes.",
        argv=encode.extra_args_argv,
    ),
    OptionRow(
        "thinking",
        "argv",
        MODEL,
        "`--thinking=V`, `--max-thinking-tokens=N`, `--thinking-display=V`",
        "How the model thinks: adaptive, enabled (with a budget), or disabled; and how that is shown.",
        argv=encode.thinking_argv,
    ),
    OptionRow(
        "max_thinking_tokens",
        "argv",
        MODEL,
        "`--max-thinking-tokens=N`",
        "Older form of `thinking`, which wins over it, with a warning.",
        argv=encode.max_thinking_tokens_argv,
    ),
    _flag("effort", MODEL, "--effort", "How much effort the model makes: low, medium, high, xhigh or max."),
    OptionRow(
        "output_format",
        "argv",
        MODEL,
        "`--json-schema=JSON`",
        "`{'type': 'json_schema', 'schema': ...}`: structured output that fits the schema.",
        argv=encode.output_format_argv,
    ),
    OptionRow(
        "debug",
        "argv",
        PROCESS,
        "`--debug`, `--debug=FILTER`",
        "The CLI's own debug log, for all or for some categories.",
        argv=lambda options: (
            [] if not options.debug else ["--debug" if options.debug is True else f"--debug={options.debug}"]
        ),
    ),
    _flag("debug_file", PROCESS, "--debug-file", "The file that the debug log goes to.", shown="=PATH"),
    # -- fields of initialize
    OptionRow(
        "agents",
        "initialize",
        PARTS,
        "`initialize.agents`",
        "Subagents by name.",
        initialize=encode.agents_initialize,
    ),
    _field("title", TOLD, "title", "The title of a new session."),
    _field(
        "plan_mode_instructions",
        TOLD,
        "planModeInstructions",
        "Replaces the workflow that plan mode describes to the model.",
    ),
    _field("tool_aliases", TOOLS, "toolAliases", "Other names for tools, applied once before a name is looked up."),
    _field(
        "supported_dialog_kinds", TOOLS, "supportedDialogKinds", "The kinds of dialogs that `on_user_dialog` can show."
    ),
    _field(
        "agent_progress_summaries",
        REPORT,
        "agentProgressSummaries",
        "Summaries of what subagents do, about every 30 seconds.",
    ),
    _field(
        "per_task_stop_affordance",
        REPORT,
        "perTaskStopAffordance",
        "You can stop single tasks, so `interrupt()` leaves background tasks alone.",
    ),
    _host(
        "hooks",
        TOOLS,
        "Callbacks on the CLI's events, by event.",
        becomes="`initialize.hooks` and `hook_callback` control requests",
        session=True,
    ),
    _host(
        "on_elicitation",
        TOOLS,
        "The callback for questions of MCP servers; without it they are declined.",
        becomes="`elicitation` control requests",
        session=True,
    ),
    _host(
        "on_user_dialog",
        TOOLS,
        "The callback for blocking dialogs; without it they are cancelled.",
        becomes="`request_user_dialog` control requests",
        session=True,
    ),
    _host(
        "verbatim_prompts",
        TOLD,
        "The CLI takes prompts as they are, without commands in them (CLI 2.1.248 and newer).",
        becomes="`client_composed` on user frames",
        session=True,
    ),
    # -- variables
    OptionRow(
        "enable_file_checkpointing",
        "environment",
        CONVERSATION,
        "`CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=true`",
        "Files are recorded, so that `rewind_files` can restore them.",
        environment=lambda options: (
            {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"} if options.enable_file_checkpointing else {}
        ),
        session=lambda options: options.enable_file_checkpointing,
    ),
    OptionRow(
        "tool_config",
        "environment",
        TOOLS,
        "`CLAUDE_CODE_QUESTION_PREVIEW_FORMAT`",
        "Configuration of built-in tools: the preview format of AskUserQuestion.",
        environment=encode.tool_config_environment,
    ),
    OptionRow(
        "client_app",
        "environment",
        PROCESS,
        "`CLAUDE_AGENT_SDK_CLIENT_APP`",
        "How your application names itself to the API.",
        environment=lambda options: (
            {} if options.client_app is None else {"CLAUDE_AGENT_SDK_CLIENT_APP": options.client_app}
        ),
    ),
    OptionRow(
        "env",
        "environment",
        PROCESS,
        "the child's variables",
        "Variables for the CLI, over the inherited ones; None unsets one.",
    ),
    OptionRow(
        "inherit_env",
        "environment",
        PROCESS,
        "the child's variables",
        "True passes this process's variables on, False none of them, a list only those.",
    ),
    # -- this process
    _host("cwd", FILES, "The working directory; None or '' inherits it.", becomes="working directory and `PWD`"),
    _host("cli_path", PROCESS, "The CLI to run; None has it found.", becomes="the program"),
    _host(
        "executable",
        PROCESS,
        "The JavaScript runtime, used only if the CLI is a script (node by default).",
        becomes="the program",
    ),
    _host("executable_args", PROCESS, "Arguments for that runtime.", becomes="arguments before the CLI's"),
    _host(
        "user",
        PROCESS,
        "The user of the operating system that the CLI runs as (needs privileges).",
        becomes="user of the process",
    ),
    _host(
        "prompt_channel", HERE, "`stdin`, or `argv`: the prompt as last argument, visible to every user of the machine."
    ),
    _host("strict_exit_status", HERE, "True raises if the CLI exits with an error after a successful result."),
    _host("version_check", HERE, "`strict`, `permissive` (unknown versions only warn) or `skip`."),
    _host(
        "on_oversize",
        HERE,
        "What a line beyond `Limits.line_bytes` does to a query: `raise` (None, too) or `skip`. A session always skips it.",
    ),
    _host("on_warning", HERE, "A plain function that is called with each `StreamWarning`."),
    _host("stderr", HERE, "A plain function that is called with each line of the CLI's stderr."),
    _host(
        "trace",
        HERE,
        "A file that every frame is added to, with times and without secrets, or a function: see [cassettes](cassettes.md).",
    ),
    _host("timeouts", HERE, "Every deadline: `Timeouts`."),
    _host("limits", HERE, "Every bound: `Limits`."),
)

ROWS_BY_NAME: dict[str, OptionRow] = {row.name: row for row in ROWS}
