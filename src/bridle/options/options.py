"""`Options`: one row per option says everything about it.

A row is a field of the class: its name, type, default and check; `row` says what the CLI receives and which sources may
set it; the string below it is its documentation. Comments that begin with `--` are the headings of docs/options.md,
which is made from this file. To add an option, add a row, its expectations in tests/options/expectations.py, and run
`./dev docs`.

Field names are those of `claude-agent-sdk`; options that only the TypeScript package has are here in snake_case.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from bridle.checked.checks import (
    boolean,
    choice,
    instance,
    integer,
    json_object,
    list_of,
    mapping_of,
    name_text,
    named_path,
    number,
    strings,
    text,
    wrong,
)
from bridle.checked.fields import Checked, option
from bridle.errors import OptionsError
from bridle.options import values as checks
from bridle.options.bounds import Limits, Timeouts
from bridle.options.kinds import effort_level, permission_mode_check
from bridle.options.rows import flag, host, initialize, special, variable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from bridle.errors import StreamWarning
    from bridle.options.kinds import (
        AgentDefinition,
        EffortLevel,
        PermissionMode,
        SandboxSettings,
        SdkPluginConfig,
        SettingSource,
        SystemPromptCustom,
        SystemPromptFile,
        SystemPromptPreset,
        TaskBudget,
        ThinkingConfig,
    )

__all__ = ["Options"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_YET = "session stores are not supported yet."


class Options(Checked):
    """Everything that can be asked of a query or a session: frozen, keyword-only, checked when it is built.

    None means that nothing is said to the CLI, which then does what it does by default. docs/options.md says what every
    field means and becomes.

    Raises:
        OptionsError: a name, a type or a value is wrong; `field` says where.
    """

    __replaced__: ClassVar[Mapping[str, str]] = {
        "max_buffer_size": "use `limits=Limits(line_bytes=...)`.",
        "load_timeout_ms": _NOT_YET,
        "session_store": _NOT_YET,
        "session_store_flush": _NOT_YET,
        "debug_stderr": "stderr is always captured; use `stderr=` to see its lines.",
        "abort_controller": "leave the loop, cancel the task, or call `close()`.",
        "spawn_claude_code_process": "pass `transport=` to `query` or `Session`.",
        "path_to_claude_code_executable": "use `cli_path`.",
        "additional_directories": "use `add_dirs`.",
        "continue_": "use `continue_conversation`.",
        "timeout": "use `timeouts=Timeouts(turn=...)`.",
        "api_key": "the CLI takes it from a variable: `env={'ANTHROPIC_API_KEY': ...}`.",
        "output_type": "it is an argument of `run`.",
        "prompt": "it is the first argument of `query`, `run` and `start_session`.",
        "system": "use `system_prompt`.",
        "transport": "it is an argument of `query`, `run`, `start_session` and `Session`.",
    }

    # -- What the model is told

    system_prompt: (
        str | Sequence[str] | SystemPromptPreset | SystemPromptCustom | SystemPromptFile | Mapping[str, Any] | None
    ) = option(
        checks.system_prompt,
        special(
            "argv",
            "`--system-prompt=V`, `--system-prompt-file=PATH`, `--append-system-prompt=V`; list: `initialize.systemPrompt`",
            place=1,
            way_out="Put it into a file: system_prompt={'type': 'file', 'path': ...}.",
            refused=checks.refused_prompt,
        ),
        default=None,
    )
    """Replaces the system prompt (str, list of blocks, file), or adds to Claude Code's own (`SystemPromptPreset`)."""
    append_system_prompt: str | None = option(
        text,
        flag(
            "--append-system-prompt",
            place=2,
            way_out="Put it into a file: extra_args={'append-system-prompt-file': PATH}.",
            yields_to="system_prompt",
        ),
        default=None,
    )
    """Text after Claude Code's own system prompt; `system_prompt` wins over it, with a warning."""
    plan_mode_instructions: str | None = option(text, initialize("planModeInstructions"), default=None)
    """Replaces the workflow that plan mode describes to the model."""
    verbatim_prompts: bool = option(
        boolean, host("`client_composed` on user frames", session=True, since="2.1.248"), default=False
    )
    """The CLI takes prompts as they are, without commands in them."""
    title: str | None = option(name_text, initialize("title"), default=None)
    """The title of a new session."""

    # -- Tools and permissions

    tools: Sequence[str] | Mapping[str, Any] | None = option(
        checks.tools, special("argv", "`--tools=A,B`, `--tools=default`", place=3), default=None
    )
    """The built-in tools that exist; `[]` none, the preset dict the default ones."""
    allowed_tools: Sequence[str] = option(
        checks.tool_names,
        special(
            "argv",
            "`--allowedTools=V`, repeated",
            repeats=("--allowedTools",),
            place=4,
            refused="they let tools run without asking",
        ),
        default=(),
    )
    """Permission rules for what runs without asking. It does not take other tools away: that is `tools`."""
    disallowed_tools: Sequence[str] = option(checks.tool_names, flag("--disallowedTools", "each", place=7), default=())
    """Tools that are taken away, and permission rules that deny; always sent, whatever is allowed."""
    tool_aliases: Mapping[str, str] | None = option(
        mapping_of(name_text),
        initialize("toolAliases", refused="they put one tool in the place of another"),
        default=None,
    )
    """Other names for tools, applied once before a name is looked up."""
    tool_config: Mapping[str, Any] | None = option(
        checks.tool_config, special("environment", "`CLAUDE_CODE_QUESTION_PREVIEW_FORMAT`"), default=None
    )
    """Configuration of built-in tools: the preview format of AskUserQuestion."""
    permission_mode: PermissionMode | None = option(
        permission_mode_check,
        flag(
            "--permission-mode",
            text="`--permission-mode=V`; bypassPermissions also `--allow-dangerously-skip-permissions`",
            place=15,
            variable="text",
            refused=checks.refused_mode,
        ),
        default=None,
    )
    """default, acceptEdits, plan, bypassPermissions, dontAsk or auto (manual is another word for default)."""
    allow_dangerously_skip_permissions: bool = option(
        boolean,
        special(
            "argv",
            "`--allow-dangerously-skip-permissions`",
            place=16,
            refused="it permits skipping all permission checks",
        ),
        default=False,
    )
    """Permits a later switch to bypassPermissions; implied by that mode."""
    permission_prompt_tool_name: str | None = option(
        name_text, flag("--permission-prompt-tool", place=12, refused="it answers permission prompts"), default=None
    )
    """An MCP tool that answers permission prompts; excludes `can_use_tool`."""
    permission_prompts: Literal["host", "none"] | None = option(
        choice("host", "none"), flag("--permission-prompts", place=14), default=None
    )
    """`none`: nobody answers, what would prompt is denied at once."""
    can_use_tool: Callable[..., Any] | None = option(
        checks.request_callback,
        special("host", "`--permission-prompt-tool=stdio` and `can_use_tool` control requests", place=13, session=True),
        default=None,
    )
    """The callback that answers permission prompts."""
    hooks: Mapping[str, Sequence[Any]] | None = option(
        checks.hooks,
        host("`initialize.hooks` and `hook_callback` control requests", session=True, variable="function"),
        default=None,
    )
    """Callbacks on the CLI's events, by event."""
    on_elicitation: Callable[..., Any] | None = option(
        checks.request_callback, host("`elicitation` control requests", session=True), default=None
    )
    """The callback for questions of MCP servers; without it they are declined."""
    on_user_dialog: Callable[..., Any] | None = option(
        checks.request_callback, host("`request_user_dialog` control requests", session=True), default=None
    )
    """The callback for blocking dialogs; without it they are cancelled."""
    supported_dialog_kinds: Sequence[str] | None = option(strings, initialize("supportedDialogKinds"), default=None)
    """The kinds of dialogs that `on_user_dialog` can show."""
    sandbox: SandboxSettings | Mapping[str, Any] | None = option(
        checks.sandbox,
        special("argv", "`sandbox` inside of `--settings=V`", refused="it can loosen the sandbox"),
        default=None,
        secret=True,
    )
    """How shell commands are confined; `enabled` implies `failIfUnavailable` unless that is set."""

    # -- Servers, agents, skills, plugins

    mcp_servers: Mapping[str, Any] | str | os.PathLike[str] = option(
        checks.mcp_servers,
        special(
            "argv",
            "`--mcp-config=V`; in-process ones `initialize.sdkMcpServers`",
            repeats=("--mcp-config",),
            place=24,
            way_out="Put them into a file and pass its path.",
            refused="they are programs to run",
        ),
        default=_NOTHING,
        secret=True,
    )
    """MCP servers by name: configs, tool servers of this process, or the path of a config file."""
    strict_mcp_config: bool = option(boolean, flag("--strict-mcp-config", "switch", place=30), default=False)
    """Only the servers given here, none from files."""
    mcp_servers_delivery: Literal["argv", "initialize"] = option(
        choice("argv", "initialize"),
        special("host", "`--await-initialize` and `initialize.mcpServers`", place=25),
        default="argv",
    )
    """`initialize` keeps the servers' variables and headers off the command line, where other users see them."""
    agent: str | None = option(name_text, flag("--agent", place=36), default=None)
    """The agent whose prompt, tools and model run the main thread."""
    agents: Mapping[str, AgentDefinition | Mapping[str, Any]] | None = option(
        checks.agents, initialize("agents", refused=checks.refused_agent), default=None, secret=True
    )
    """Subagents by name."""
    skills: Sequence[str] | Literal["all"] | None = option(
        checks.skills,
        special("initialize", "`Skill` rules in `--allowedTools`; names also `initialize.skills`"),
        default=None,
    )
    """'all', or the names of the skills that the session has."""
    plugins: Sequence[SdkPluginConfig | Mapping[str, Any]] = option(
        checks.plugins,
        special(
            "argv",
            "`--plugin-dir=PATH`, `--plugin-dir-no-mcp=PATH`, repeated",
            repeats=("--plugin-dir", "--plugin-dir-no-mcp"),
            place=37,
            refused="they bring programs to run",
        ),
        default=(),
    )
    """Plugins in local folders."""
    plugin_delivery: Literal["argv", "initialize"] = option(
        choice("argv", "initialize"), host("`--await-initialize` and `initialize.plugins`"), default="argv"
    )
    """`initialize` sends the plugins over stdin."""

    # -- Model and output

    model: str | None = option(name_text, flag("--model", place=9), default=None)
    """An alias or the id of the model."""
    fallback_model: str | None = option(name_text, flag("--fallback-model", place=10), default=None)
    """The model, or a comma-separated list, for when the first is overloaded."""
    betas: Sequence[str] = option(strings, flag("--betas", "each", place=11), default=())
    """Beta headers for API requests (API key users only)."""
    thinking: ThinkingConfig | Mapping[str, Any] | None = option(
        checks.thinking,
        special("argv", "`--thinking=V`, `--max-thinking-tokens=N`, `--thinking-display=V`", place=39),
        default=None,
    )
    """How the model thinks: adaptive, enabled (with a budget), or disabled; and how that is shown."""
    max_thinking_tokens: int | None = option(
        integer(0),
        flag("--max-thinking-tokens", shown="N", place=40, yields_to="thinking", deprecated="use `thinking`."),
        default=None,
    )
    """Older form of `thinking`, which wins over it, with a warning."""
    effort: EffortLevel | None = option(effort_level, flag("--effort", place=41, variable="text"), default=None)
    """How much effort the model makes: low, medium, high, xhigh or max."""
    output_format: Mapping[str, Any] | None = option(
        checks.output_format, special("argv", "`--json-schema=JSON`", place=42), default=None
    )
    """`{'type': 'json_schema', 'schema': ...}`: structured output that fits the schema."""

    # -- Budgets

    max_turns: int | None = option(integer(0), flag("--max-turns", shown="N", place=5), default=None)
    """The number of turns after which it stops; 0 is sent, and means no limit to the CLI (2.1.328)."""
    max_budget_usd: float | None = option(
        number(0, exclusive=True), flag("--max-budget-usd", shown="X", place=6), default=None
    )
    """The cost in US dollars at which it stops; what a resumed session cost before is not counted."""
    task_budget: TaskBudget | Mapping[str, int] | None = option(
        checks.task_budget, special("argv", "`--task-budget=N`", place=8), default=None
    )
    """A token budget that the model is told about (alpha in the CLI)."""

    # -- Which conversation

    continue_conversation: bool = option(
        boolean, flag("--continue", "switch", place=17, yields_to="resume"), default=False
    )
    """Continues the latest conversation of the folder; `resume` wins over it, with a warning."""
    resume: str | None = option(name_text, flag("--resume", place=18), default=None)
    """The id (or name) of the session to resume."""
    session_id: str | None = option(checks.uuid, flag("--session-id", place=19), default=None)
    """The UUID of the new session; with `resume` only together with `fork_session`."""
    fork_session: bool = option(boolean, flag("--fork-session", "switch", place=31), default=False)
    """With `resume`: a copy under a new id, the original stays as it is."""
    resume_session_at: str | None = option(name_text, flag("--resume-session-at", place=32), default=None)
    """Resume only up to this message (its UUID)."""
    resume_drops_turn: str | None = option(text, flag("--resume-drops-turn", place=33), default=None)
    """The UUID of the one prompt that `resume_session_at` may cut off; anything else is refused."""
    persist_session: bool = option(boolean, flag("--no-session-persistence", "off", place=34), default=True)
    """False writes no transcript, so that nothing can be resumed."""
    enable_file_checkpointing: bool = option(
        boolean, variable("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true", session=True), default=False
    )
    """Files are recorded, so that `rewind_files` can restore them."""

    # -- What is reported

    include_partial_messages: bool = option(
        boolean, flag("--include-partial-messages", "switch", place=26), default=False
    )
    """Text as it is made: `StreamEvent` messages."""
    include_hook_events: bool = option(boolean, flag("--include-hook-events", "switch", place=27), default=False)
    """Messages about hooks that start, go on and end."""
    forward_subagent_text: bool = option(boolean, flag("--forward-subagent-text", "switch", place=28), default=False)
    """The text of subagents too, not only their tool calls."""
    prompt_suggestions: bool = option(boolean, flag("--prompt-suggestions=true", "switch", place=29), default=False)
    """A guess of the user's next prompt after each turn."""
    agent_progress_summaries: bool = option(boolean, initialize("agentProgressSummaries"), default=False)
    """Summaries of what subagents do, about every 30 seconds."""
    per_task_stop_affordance: bool = option(boolean, initialize("perTaskStopAffordance"), default=False)
    """You can stop single tasks, so `interrupt()` leaves background tasks alone."""

    # -- Files and settings

    cwd: str | os.PathLike[str] | None = option(
        checks.cwd,
        host(
            "working directory and `PWD`",
            refused="the project settings that are found there can define hooks, which are programs",
        ),
        default=None,
    )
    """The working directory; None or '' inherits it."""
    add_dirs: Sequence[str | os.PathLike[str]] = option(
        list_of(named_path),
        flag("--add-dir", "each", place=22, refused="they open folders to tools", merge="together"),
        default=(),
    )
    """More folders that tools may use."""
    project_config_root: str | os.PathLike[str] | None = option(
        named_path, flag("--project-config-root", place=23, refused="it names a folder to trust"), default=None
    )
    """The trusted folder that project settings, `.mcp.json` and `.claude` come from, instead of `cwd`."""
    settings: str | os.PathLike[str] | Mapping[str, Any] | None = option(
        checks.settings,
        special(
            "argv",
            "`--settings=V`",
            place=20,
            way_out="Put it into a file and pass its path.",
            refused="they can define hooks, which are programs",
            merge="deep",
        ),
        default=None,
        secret=True,
    )
    """More settings: a dict, JSON text, or the path of a file."""
    managed_settings: Mapping[str, Any] | None = option(
        json_object,
        flag("--managed-settings", "json", place=21, refused="they are a policy"),
        default=None,
        secret=True,
    )
    """Settings on the level of a policy; the CLI takes only those that restrict."""
    setting_sources: Sequence[SettingSource] | None = option(
        list_of(choice("user", "project", "local"), example='["project"]'),
        flag("--setting-sources", "comma", place=35),
        default=None,
    )
    """Which settings files count: user, project, local; `[]` none of them, None all."""

    # -- The process

    cli_path: str | os.PathLike[str] | None = option(
        checks.cli_path, host("the program", refused="it names a program to run"), default=None
    )
    """The CLI to run; None has it found."""
    executable: str | None = option(name_text, host("the program", refused="it names a program to run"), default=None)
    """The JavaScript runtime, used only if the CLI is a script (node by default)."""
    executable_args: Sequence[str] = option(
        list_of(text), host("arguments before the CLI's", refused="they go to a program"), default=(), secret=True
    )
    """Arguments for that runtime."""
    env: Mapping[str, str | None] = option(
        checks.environment,
        special(
            "environment",
            "the child's variables",
            refused="variables can redirect the CLI and hold secrets",
            merge="deep",
        ),
        default=_NOTHING,
        secret=True,
    )
    """Variables for the CLI, over the inherited ones; None unsets one."""
    inherit_env: bool | Sequence[str] = option(
        checks.inherit_env,
        special("environment", "the child's variables", refused="it decides which secrets the CLI gets"),
        default=True,
    )
    """True passes this process's variables on, False none of them, a list only those."""
    extra_args: Mapping[str, str | None] = option(
        checks.extra_args,
        special(
            "argv", "`--KEY=VALUE`, or `--KEY` for None", place=38, refused="they can be any flag", merge="together"
        ),
        default=_NOTHING,
        secret=True,
    )
    """Any other flag of the CLI, by name without dashes."""
    user: str | int | None = option(
        checks.user, host("user of the process", refused="it is a user of this machine"), default=None
    )
    """The user of the operating system that the CLI runs as (needs privileges)."""
    client_app: str | None = option(text, variable("CLAUDE_AGENT_SDK_CLIENT_APP"), default=None)
    """How your application names itself to the API."""
    debug: bool | str = option(
        checks.debug, flag("--debug", text="`--debug`, `--debug=FILTER`", place=43), default=False
    )
    """The CLI's own debug log, for all or for some categories."""
    debug_file: str | os.PathLike[str] | None = option(
        named_path, flag("--debug-file", shown="PATH", place=44, refused="it names a file to write"), default=None
    )
    """The file that the debug log goes to."""

    # -- How Bridle behaves

    prompt_channel: Literal["stdin", "argv"] = option(choice("stdin", "argv"), host(), default="stdin")
    """`stdin`, or `argv`: the prompt as last argument, visible to every user of the machine."""
    strict_exit_status: bool = option(boolean, host(), default=False)
    """True raises if the CLI exits with an error after a successful result."""
    version_check: Literal["strict", "permissive", "skip"] = option(
        choice("strict", "permissive", "skip"), host(), default="strict"
    )
    """`strict`, `permissive` (unknown versions only warn) or `skip`."""
    on_oversize: Literal["raise", "skip"] | None = option(choice("raise", "skip"), host(), default=None)
    """What a line beyond `Limits.line_bytes` does to a query: `raise` (None, too) or `skip`. A session always skips it."""
    on_warning: Callable[[StreamWarning], object] | None = option(
        checks.plain_callback("warning"), host(), default=None
    )
    """A plain function that is called with each `StreamWarning`."""
    stderr: Callable[[str], object] | None = option(checks.plain_callback("line"), host(), default=None)
    """A plain function that is called with each line of the CLI's stderr."""
    trace: Callable[..., object] | str | os.PathLike[str] | None = option(
        checks.trace, host(refused="it names a file to write"), default=None
    )
    """A file that every frame is added to, with times and without secrets, or a function: see [cassettes](cassettes.md)."""
    timeouts: Timeouts = option(instance(Timeouts), host(), default=Timeouts())
    """Every deadline: `Timeouts`."""
    limits: Limits = option(instance(Limits), host(), default=Limits())
    """Every bound: `Limits`."""

    def _check_together(self) -> None:
        if self.can_use_tool is not None and self.permission_prompt_tool_name is not None:
            raise OptionsError(
                "`can_use_tool` and `permission_prompt_tool_name` both answer permission prompts: set one of them.",
                field="permission_prompt_tool_name",
            )
        if self.supported_dialog_kinds and self.on_user_dialog is None:
            raise wrong("supported_dialog_kinds", "needs `on_user_dialog`, which shows them.")
        resumed = self.resume is not None or self.continue_conversation
        if self.session_id is not None and resumed and not self.fork_session:
            problem = "with `resume` or `continue_conversation` needs `fork_session=True`: the copy gets it."
            raise wrong("session_id", problem)
        if self.resume_session_at is not None and self.resume is None:
            raise wrong("resume_session_at", "needs `resume`.")
        if self.resume_drops_turn is not None and self.resume_session_at is None:
            raise wrong("resume_drops_turn", "needs `resume_session_at`.")
        if self.model is not None and self.model == self.fallback_model:
            raise wrong("fallback_model", "must differ from `model`.")

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        *,
        trust_file: bool = False,
        environment: Mapping[str, str] | None = None,
        **explicit: Any,
    ) -> Self:
        """Return options layered from explicit arguments, `BRIDLE_<FIELD>` variables and a TOML file, in that priority.

        Args:
            file: a TOML file with field names as keys; None reads no file, wherever one may lie.
            trust_file: True also takes from the file what could run programs, loosen permissions or read secrets. Leave
                it False for a file from a checkout that somebody else wrote.
            environment: the variables to look at; None means `os.environ`.
            **explicit: fields as for `Options`; they win.

        Raises:
            OptionsError: the file cannot be read, something in it is refused, or a name, a type or a value is wrong.
        """
        from bridle.options.sources import layered, said_where

        merged = layered(cls.__fields__, file, trust_file, environment, explicit)
        try:
            return cls(**merged)
        except OptionsError as error:
            where = said_where(error.field, file, environment, explicit)
            raise OptionsError(f"{error}{where}", field=error.field) from None
