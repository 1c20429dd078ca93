"""`Options`: one row per option says everything about it.

A row is a field of the class: its name, type, default and check; `row` says what the CLI receives and which sources may
set it; the string below it is its documentation. Comments that begin with `--` are the headings of docs/reference/options.md,
which is made from this file. To add an option, add a row, its expectations in tests/options/expectations.py, and run
`./dev docs`.

Field names are those of `claude-agent-sdk`; options that only the TypeScript package has are here in snake_case.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from hackamore.checked.fields import (
    Check,
    Checked,
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
    option,
    strings,
    text,
    wrong,
)
from hackamore.errors import OptionsError
from hackamore.options import kinds as checks
from hackamore.options.bounds import Limits, Timeouts
from hackamore.options.kinds import effort_level, permission_mode_check
from hackamore.options.stores import implements

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import UnionType
    from typing import NoReturn, TypeAlias, TypedDict, Unpack

    from hackamore.dialogs import ElicitationRequest, ElicitationResult, UserDialogRequest, UserDialogResult
    from hackamore.errors import StreamWarning
    from hackamore.hooks import Hooks
    from hackamore.options.deciding import Broker, Decider
    from hackamore.options.kinds import (
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
    from hackamore.options.observing import Observer
    from hackamore.options.stores import SessionStore
    from hackamore.permissions import Allow, Deny, PermissionRequest

    Kind: TypeAlias = Literal["argv", "initialize", "environment", "host"]
    FlagForm: TypeAlias = Literal["value", "switch", "off", "each", "comma", "json"]
    Form: TypeAlias = FlagForm | Literal["initialize", "variable", "special", "host"]
    Refusal: TypeAlias = str | Callable[[Any], tuple[str, str] | None]

    class _More(TypedDict, total=False):
        shown: str
        place: int
        session: bool
        chooses: bool
        repeats: tuple[str, ...]
        yields_to: str
        deprecated: str
        way_out: str
        since: str
        field: str
        merge: Literal["replace", "deep", "together"]
        variable: Literal["", "text", "function"]
        refused: Refusal


_TEXTS = {
    "value": "`{0}={1}`",
    "switch": "`{0}`",
    "off": "`{0}` when False",
    "each": "`{0}={1}`, repeated",
    "comma": "`{0}=A,B`",
    "json": "`{0}=JSON`",
    "initialize": "`initialize.{0}`",
    "host": "-",
}


class Row:
    """How one option is sent, and where its value may come from.

    Attributes:
        place: the position among all rows on the command line, which is that of the official package; rows without
            one follow in the order of the class.
        variable: how the text of its `HACKAMORE_...` variable is read: as it is (`text`), not at all (`function`); "" derives
            it from the type.
        refused: the reason why an untrusted file must not set it; or a function of the value that returns the reason and
            the place, or None.
    """

    # A plain class, because a named tuple of this size takes a millisecond to make at import.
    kind: Kind  # where the value goes: flags, the `initialize` request, variables of the child, or nowhere (`host`)
    # how it is written. The forms `value` to `json` make flags; `special` has a function in `launch.encode`.
    form: Form
    name: str  # the flag, the field of `initialize`, or the variable
    text: str = ""  # the flags, fields or variables for people; "" derives them from the name
    shown: str = "V"  # the placeholder of the value in this text
    constant: str = ""  # the text of the variable; "" means the value itself
    place: int = 1000
    session: bool = False  # True if any value needs the bidirectional protocol. Fields of `initialize` always do.
    chooses: bool = False  # True if the value chooses or cuts the session
    repeats: tuple[str, ...] = ()  # flags that the CLI adds up when they are given twice
    yields_to: str = ""  # the option that wins over this one, with a warning
    deprecated: str = ""  # the replacement, for the warning `DEPRECATED_OPTION`
    way_out: str = "Make it shorter."  # the advice for a value that is too long for one argument
    since: str = ""  # the lowest CLI version that knows it, if that is known
    field: str = ""  # the field of `initialize` that repeats the flag
    # how `Options.load` combines two sources: the higher one wins, mappings are merged deeply, or both are joined
    merge: Literal["replace", "deep", "together"] = "replace"
    variable: Literal["", "text", "function"] = ""
    refused: Refusal = ""

    def __init__(
        self, kind: Kind, form: Form, name: str, text: str = "", constant: str = "", **more: Unpack[_More]
    ) -> None:
        self.__dict__.update(more, kind=kind, form=form, name=name, text=text, constant=constant)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a row is frozen")

    @property
    def becomes(self) -> str:
        """The flags, fields or variables for people."""
        if self.form == "variable":
            return f"`{self.name}={self.constant}`" if self.constant else f"`{self.name}`"
        return self.text or _TEXTS[self.form].format(self.name, self.shown)


def flag(name: str, form: FlagForm = "value", *, text: str = "", **more: Unpack[_More]) -> Row:
    """Return the row of a flag.

    Args:
        name: the flag.
        form: `value` writes `--flag=value` (a bare `--flag` for True), `switch` a bare flag for True, `off` one for False,
            `each` one flag per item, `comma` all items in one, `json` compact JSON. None writes nothing.
        text: the text for people, if it differs.
        **more: other fields of the row.
    """
    if form == "each":
        more["repeats"] = (name,)
    return Row("argv", form, name, text, **more)


def nullable(check: Check, row: Row, *, secret: bool = False) -> Any:
    """Return an option whose default is None."""
    return option(check, row, default=None, secret=secret)


def switch(name: str, **more: Unpack[_More]) -> Any:
    """Return the option whose True is a bare flag."""
    return option(boolean, flag(name, "switch", **more), default=False)


def initialize(name: str, **more: Unpack[_More]) -> Row:
    """Return the row of a field of the `initialize` request."""
    return Row("initialize", "initialize", name, **more)


def variable(name: str, constant: str = "", **more: Unpack[_More]) -> Row:
    """Return the row of a variable of the child; it has the value, or `constant` if the option is True."""
    return Row("environment", "variable", name, "", constant, **more)


def special(kind: Kind, text: str, **more: Unpack[_More]) -> Row:
    """Return the row of an option that a function in `hackamore._engine.launch.encode` writes."""
    return Row(kind, "special", "", text, **more)


def host(text: str = "", **more: Unpack[_More]) -> Row:
    """Return the row of an option that stays in this process."""
    return Row("host", "host", "", text, **more)


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Options(Checked):
    """The configuration of a query or a session: frozen, keyword-only, checked when it is built.

    None leaves an option to the CLI's default. docs/reference/options.md lists the flag or field that each option becomes.

    Raises:
        OptionsError: a name, a type or a value is wrong; `field` is its place.

    Example::

        options = Options(model="sonnet", allowed_tools=["Read"], max_turns=5)
        careful = options.replace(permission_mode="plan")
    """

    __replaced__: ClassVar[Mapping[str, str]] = {
        "max_buffer_size": "use `limits=Limits(line_bytes=...)`.",
        "load_timeout_ms": "use `timeouts=Timeouts(store=SECONDS)`.",
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

    # -- Prompts

    system_prompt: (
        str | Sequence[str] | SystemPromptPreset | SystemPromptCustom | SystemPromptFile | Mapping[str, Any] | None
    ) = nullable(
        checks.system_prompt,
        special(
            "argv",
            "`--system-prompt=V`, `--system-prompt-file=PATH`, `--append-system-prompt=V`; list: `initialize.systemPrompt`",
            place=1,
            way_out="Put it into a file: system_prompt={'type': 'file', 'path': ...}.",
            refused=checks.refused_prompt,
        ),
        secret=True,
    )
    """Replaces the system prompt (str, list of blocks, file), or adds to Claude Code's own (`SystemPromptPreset`)."""
    append_system_prompt: str | None = nullable(
        text,
        flag(
            "--append-system-prompt",
            place=2,
            way_out="Put it into a file: append_system_prompt_file=PATH (`--append-system-prompt-file`).",
            yields_to="system_prompt",
        ),
        secret=True,
    )
    """Text after Claude Code's own system prompt; `system_prompt` wins over it, with a warning."""
    append_system_prompt_file: str | os.PathLike[str] | None = nullable(
        named_path, flag("--append-system-prompt-file", shown="PATH", refused="it names a file to read")
    )
    """A file whose text follows Claude Code's own system prompt."""
    plan_mode_instructions: str | None = nullable(text, initialize("planModeInstructions"), secret=True)
    """Replaces the workflow that plan mode describes to the model."""
    verbatim_prompts: bool = option(
        boolean, host("`client_composed` on user frames", session=True, since="2.1.248"), default=False
    )
    """True sends prompts literally: the CLI expands no slash commands in them."""
    title: str | None = nullable(name_text, initialize("title"))
    """The title of a new session."""

    # -- Tools and permissions

    tools: Sequence[str] | Mapping[str, Any] | None = nullable(
        checks.tools, special("argv", "`--tools=A,B`, `--tools=default`", place=3)
    )
    """Names of the built-in tools that exist; `[]` removes all, the preset dict selects the default set."""
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
    """Permission rules for tools that run without a question. Other tools stay available: `tools` limits them."""
    disallowed_tools: Sequence[str] = option(checks.tool_names, flag("--disallowedTools", "each", place=7), default=())
    """Tools to remove, and permission rules that deny. Always sent, also with `allowed_tools`."""
    tool_aliases: Mapping[str, str] | None = nullable(
        mapping_of(name_text), initialize("toolAliases", refused="they put one tool in the place of another")
    )
    """Other names for tools, by name; applied once before a tool is looked up."""
    tool_config: Mapping[str, Any] | None = nullable(
        checks.tool_config, special("environment", "`CLAUDE_CODE_QUESTION_PREVIEW_FORMAT`")
    )
    """Configuration of built-in tools: `{'askUserQuestion': {'previewFormat': 'markdown'}}`."""
    permission_mode: PermissionMode | None = nullable(
        permission_mode_check,
        flag(
            "--permission-mode",
            text="`--permission-mode=V`; bypassPermissions also `--allow-dangerously-skip-permissions`",
            place=15,
            variable="text",
            refused=checks.refused_mode,
        ),
    )
    """default, acceptEdits, plan, bypassPermissions, dontAsk or auto (manual equals default)."""
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
    """True permits a later switch to bypassPermissions; implied by that mode."""
    permission_prompt_tool_name: str | None = nullable(
        name_text, flag("--permission-prompt-tool", place=12, refused="it answers permission prompts")
    )
    """An MCP tool that answers permission requests; excludes `can_use_tool`."""
    permission_prompts: Literal["host", "none"] | None = nullable(
        choice("host", "none"), flag("--permission-prompts", place=14)
    )
    """`none` denies every call that needs a permission request; `host` sends the request."""
    can_use_tool: Callable[[PermissionRequest], Allow | Deny | Awaitable[Allow | Deny]] | None = nullable(
        checks.request_callback,
        special("host", "`--permission-prompt-tool=stdio` and `can_use_tool` control requests", place=13, session=True),
    )
    """The callback that answers permission requests; plain or async."""
    hooks: Hooks | None = nullable(
        checks.hooks,
        special("host", "`initialize.hooks` and `hook_callback` control requests", session=True, variable="function"),
    )
    """Callbacks by event: a function, a `HookMatcher`, or a list of both, such as `{'PreToolUse': guard}`."""
    policy: Decider | None = nullable(
        checks.policy, special("host", "`--await-initialize` of a resumed session", session=True, variable="function")
    )
    """The rules on tool calls: a `hackamore.Policy`. It decides before hooks and `can_use_tool`; the strictest decision wins."""
    policy_tags: Mapping[str, str] | None = nullable(mapping_of(text), host(refused="rules of the policy trust them"))
    """Names and values that rules of the policy see as `tags`, such as `{'tenant': 'acme'}`; they win over the keys of `budget`."""
    policy_audit: str | os.PathLike[str] | None = nullable(named_path, host(refused="it names a file to write"))
    """A file that gets a line of JSON for each decision of the policy, each with the hash of the line before."""
    approvals: Broker | None = nullable(
        checks.approvals,
        special("host", "as `can_use_tool` and `on_elicitation`", place=13, session=True, variable="function"),
    )
    """The people who answer: a `hackamore.Approvals`. It gets permission requests, and requests of MCP servers without `on_elicitation`."""
    on_elicitation: (
        Callable[
            [ElicitationRequest],
            ElicitationResult | Mapping[str, Any] | Awaitable[ElicitationResult | Mapping[str, Any] | None] | None,
        ]
        | None
    ) = nullable(checks.request_callback, host("`elicitation` control requests", session=True))
    """The callback for requests of MCP servers to the user. Default: None, they are declined."""
    on_user_dialog: (
        Callable[
            [UserDialogRequest],
            UserDialogResult | Mapping[str, Any] | Awaitable[UserDialogResult | Mapping[str, Any] | None] | None,
        ]
        | None
    ) = nullable(checks.request_callback, host("`request_user_dialog` control requests", session=True))
    """The callback for blocking dialogs. Default: None, they are cancelled."""
    supported_dialog_kinds: Sequence[str] | None = nullable(strings, initialize("supportedDialogKinds"))
    """The kinds of dialogs that `on_user_dialog` can show."""
    sandbox: SandboxSettings | Mapping[str, Any] | None = nullable(
        checks.sandbox,
        special("argv", "`sandbox` inside `--settings=V`", refused="it can loosen the sandbox"),
        secret=True,
    )
    """Confines shell commands; `enabled` implies `failIfUnavailable` unless that is set."""

    restricted: bool = switch("--restricted")
    """True removes tools that run code, ignores settings files and confines file tools: for prompts of strangers."""
    brief: bool = switch("--brief")
    """True gives the model the tool SendUserMessage, with which it writes to the user."""
    chrome: bool | None = nullable(boolean, special("argv", "`--chrome`, `--no-chrome`"))
    """True gives the model Claude in Chrome, False removes it."""

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
    """MCP servers by name: configs, lists of tools, tool servers, or the path of a config file."""
    strict_mcp_config: bool = switch("--strict-mcp-config", place=30)
    """True uses only the servers given here, none from files."""
    mcp_servers_delivery: Literal["argv", "initialize"] = option(
        choice("argv", "initialize"),
        special("host", "`--await-initialize` and `initialize.mcpServers`", place=25),
        default="argv",
    )
    """`initialize` keeps the variables and headers of servers off the command line, which other users can read."""
    agent: str | None = nullable(name_text, flag("--agent", place=36))
    """The agent whose prompt, tools and model run the main thread."""
    agents: Mapping[str, AgentDefinition | Mapping[str, Any]] | None = nullable(
        checks.agents, initialize("agents", refused=checks.refused_agent), secret=True
    )
    """Subagents by name."""
    skills: Sequence[str] | Literal["all"] | None = nullable(
        checks.skills, special("initialize", "`Skill` rules in `--allowedTools`; names also `initialize.skills`")
    )
    """'all', or the names of the skills of the session."""
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
    plugin_urls: Sequence[str] = option(
        strings, flag("--plugin-url", "each", shown="URL", refused="they bring programs to run"), default=()
    )
    """Addresses of plugins to download, as .zip files, for this session."""
    disable_slash_commands: bool = switch("--disable-slash-commands")
    """True disables all skills and commands."""
    plugin_delivery: Literal["argv", "initialize"] = option(
        choice("argv", "initialize"), host("`--await-initialize` and `initialize.plugins`"), default="argv"
    )
    """`initialize` sends the plugins over stdin instead of the command line."""

    # -- Model and output

    model: str | None = nullable(name_text, flag("--model", place=9))
    """An alias (`sonnet`) or the id of the model."""
    fallback_model: str | None = nullable(name_text, flag("--fallback-model", place=10))
    """A model, or a comma-separated list, for when `model` is overloaded."""
    betas: Sequence[str] = option(strings, flag("--betas", "each", place=11), default=())
    """Beta headers for API requests (API key users only)."""
    thinking: ThinkingConfig | Mapping[str, Any] | None = nullable(
        checks.thinking, special("argv", "`--thinking=V`, `--max-thinking-tokens=N`, `--thinking-display=V`", place=39)
    )
    """The thinking mode: adaptive, enabled (with a budget in tokens) or disabled, and its display."""
    max_thinking_tokens: int | None = nullable(
        integer(0),
        flag("--max-thinking-tokens", shown="N", place=40, yields_to="thinking", deprecated="use `thinking`."),
    )
    """Older form of `thinking`, in tokens; `thinking` wins over it, with a warning."""
    effort: EffortLevel | None = nullable(effort_level, flag("--effort", place=41, variable="text"))
    """The effort of the model: low, medium, high, xhigh or max."""
    output_format: type[Any] | UnionType | Mapping[str, Any] | None = nullable(
        checks.output_format, special("argv", "`--json-schema=JSON`", place=42)
    )
    """A type, or `{'type': 'json_schema', 'schema': ...}`, requests structured output that fits it. The value is the schema."""

    # -- Budgets

    max_turns: int | None = nullable(integer(0), flag("--max-turns", shown="N", place=5))
    """The largest number of turns of the model; 0 means no limit."""
    max_budget_usd: float | None = nullable(number(0, exclusive=True), flag("--max-budget-usd", shown="X", place=6))
    """The cost limit in US dollars; the earlier cost of a resumed session does not count."""
    task_budget: TaskBudget | Mapping[str, int] | None = nullable(
        checks.task_budget, special("argv", "`--task-budget=N`", place=8)
    )
    """A token budget that the model sees (alpha in the CLI)."""

    # -- Conversation

    continue_conversation: bool = switch("--continue", place=17, chooses=True, yields_to="resume")
    """True continues the latest conversation of the folder; `resume` wins over it, with a warning."""
    resume: str | None = nullable(name_text, flag("--resume", place=18, chooses=True))
    """The id (or name) of the session to resume."""
    session_id: str | None = nullable(checks.uuid, flag("--session-id", place=19, chooses=True))
    """The UUID of the new session; with `resume` only together with `fork_session`."""
    fork_session: bool = switch("--fork-session", place=31, chooses=True)
    """With `resume`: True resumes a copy under a new id and leaves the original unchanged."""
    resume_session_at: str | None = nullable(name_text, flag("--resume-session-at", place=32, chooses=True))
    """Resumes only up to this message (its UUID)."""
    resume_drops_turn: str | None = nullable(text, flag("--resume-drops-turn", place=33, chooses=True))
    """The UUID of the one prompt that `resume_session_at` may cut off; the CLI refuses any other."""
    session_name: str | None = nullable(name_text, flag("--name"))
    """The name of the session in lists; `resume` takes it."""
    worktree: bool | str = option(
        checks.debug, flag("--worktree", text="`--worktree`, `--worktree=NAME`"), default=False
    )
    """True works in a new worktree of the repository; a text is its name."""
    autocompact: int | None = nullable(integer(100_000), flag("--autocompact"))
    """The tokens at which the CLI compacts the conversation, 100,000 or more."""
    persist_session: bool = option(boolean, flag("--no-session-persistence", "off", place=34), default=True)
    """False writes no transcript: the session cannot be resumed."""
    enable_file_checkpointing: bool = option(
        boolean, variable("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true", session=True), default=False
    )
    """True records files, so that `rewind_files` can restore them."""
    session_store: SessionStore | None = nullable(
        checks.session_store,
        special("argv", "`--session-mirror`", place=35, session=True, variable="function"),
        secret=True,
    )
    """The store that gets a copy of the transcript, and from which `resume` and `continue_conversation` read."""
    session_store_flush: Literal["batched", "eager"] = option(choice("batched", "eager"), host(), default="batched")
    """`batched` writes to the store at each result, at 500 entries and at 1 MiB; `eager` immediately."""

    # -- Messages to deliver

    include_partial_messages: bool = switch("--include-partial-messages", place=26)
    """True delivers text while the model writes it, as `StreamEvent` messages."""
    include_hook_events: bool = switch("--include-hook-events", place=27)
    """True delivers messages about hooks that start, progress and end."""
    forward_subagent_text: bool = switch("--forward-subagent-text", place=28, field="forwardSubagentText")
    """True also delivers the text of subagents, not only their tool calls."""
    prompt_suggestions: bool = switch("--prompt-suggestions=true", place=29)
    """True delivers a suggestion for the user's next prompt after each turn."""
    replay_user_messages: bool = switch("--replay-user-messages", session=True)
    """True delivers each prompt again, as a `UserMessage`, when the CLI has read it."""
    agent_progress_summaries: bool = option(boolean, initialize("agentProgressSummaries"), default=False)
    """True delivers summaries of the work of subagents, about every 30 seconds."""
    per_task_stop_affordance: bool = option(boolean, initialize("perTaskStopAffordance"), default=False)
    """True declares that you can stop single tasks: `interrupt()` then leaves background tasks running."""

    # -- Files and settings

    cwd: str | os.PathLike[str] | None = nullable(
        checks.cwd,
        host(
            "working directory and `PWD`",
            refused="the project settings that are found there can define hooks, which are programs",
        ),
    )
    """The working directory; None or '' inherits it."""
    add_dirs: Sequence[str | os.PathLike[str]] = option(
        list_of(named_path),
        flag("--add-dir", "each", place=22, refused="they open folders to tools", merge="together"),
        default=(),
    )
    """Additional folders that tools may use."""
    project_config_root: str | os.PathLike[str] | None = nullable(
        named_path, flag("--project-config-root", place=23, refused="it names a folder to trust")
    )
    """The trusted folder of project settings, `.mcp.json` and `.claude`, instead of `cwd`."""
    settings: str | os.PathLike[str] | Mapping[str, Any] | None = nullable(
        checks.settings,
        special(
            "argv",
            "`--settings=V`",
            place=20,
            way_out="Put it into a file and pass its path.",
            refused="they can define hooks, which are programs",
            merge="deep",
        ),
        secret=True,
    )
    """Additional settings: a dict, JSON text, or the path of a file."""
    managed_settings: Mapping[str, Any] | None = nullable(
        json_object, flag("--managed-settings", "json", place=21, refused="they are a policy"), secret=True
    )
    """Settings with the priority of a policy; the CLI accepts only restrictions."""
    setting_sources: Sequence[SettingSource] | None = nullable(
        list_of(choice("user", "project", "local"), example='["project"]'), flag("--setting-sources", "comma", place=35)
    )
    """The settings files to load: user, project, local; `[]` loads none, None all."""

    bare: bool = switch("--bare", refused="it turns hooks of settings off")
    """True skips hooks of settings, memory, `CLAUDE.md` and the keychain: the CLI reads nothing but what the options give."""
    safe_mode: bool = switch("--safe-mode", refused="it turns hooks of settings off")
    """True disables all customizations: `CLAUDE.md`, skills, plugins, hooks, servers. Policies still apply."""

    # -- The process

    cli_path: str | os.PathLike[str] | None = nullable(
        checks.cli_path, host("the program", refused="it names a program to run")
    )
    """Path to the Claude Code CLI. Default: None, search PATH and known locations."""
    executable: str | None = nullable(name_text, host("the program", refused="it names a program to run"))
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
    """Environment variables for the CLI, over the inherited ones; None unsets one."""
    inherit_env: bool | Sequence[str] = option(
        checks.inherit_env,
        special("environment", "the child's variables", refused="it decides which secrets the CLI gets"),
        default=True,
    )
    """True passes the variables of this process on, False none, a list only the named ones."""
    extra_args: Mapping[str, str | Sequence[str | None] | None] = option(
        checks.extra_args,
        special(
            "argv",
            "`--KEY=VALUE`, `--KEY` for None; list: repeated",
            place=38,
            refused="they can be any flag",
            merge="together",
        ),
        default=_NOTHING,
        secret=True,
    )
    """Any other flag of the CLI, by name without dashes; None is a bare flag, a list repeats it."""
    user: str | int | None = nullable(checks.user, host("user of the process", refused="it is a user of this machine"))
    """The user of the operating system that the CLI runs as (needs privileges)."""
    client_app: str | None = nullable(text, variable("CLAUDE_AGENT_SDK_CLIENT_APP"))
    """The name of your application in API requests."""
    debug: bool | str = option(
        checks.debug, flag("--debug", text="`--debug`, `--debug=FILTER`", place=43), default=False
    )
    """True writes the CLI's debug log; a text selects categories."""
    debug_file: str | os.PathLike[str] | None = nullable(
        named_path, flag("--debug-file", shown="PATH", place=44, refused="it names a file to write")
    )
    """The file for the CLI's debug log."""

    # -- Behaviour of Hackamore

    prompt_channel: Literal["stdin", "argv"] = option(choice("stdin", "argv"), host(), default="stdin")
    """`stdin`, or `argv`: the prompt as last argument, visible to all users of the machine."""
    strict_exit_status: bool = option(boolean, host(), default=False)
    """True raises if the CLI exits with an error after a successful result."""
    version_check: Literal["strict", "permissive", "skip"] = option(
        choice("strict", "permissive", "skip"), host(), default="strict"
    )
    """`strict`, `permissive` (unknown versions only warn) or `skip`."""
    on_oversize: Literal["raise", "skip"] | None = nullable(choice("raise", "skip"), host())
    """The reaction of a query to a line beyond `Limits.line_bytes`: `raise` (default) or `skip`. A session always skips it."""
    on_warning: Callable[[StreamWarning], object] | None = nullable(checks.plain_callback("warning"), host())
    """A regular function that Hackamore calls with each `StreamWarning`."""
    stderr: Callable[[str], object] | None = nullable(checks.plain_callback("line"), host())
    """A regular function that Hackamore calls with each line of the CLI's stderr."""
    trace: Callable[..., object] | str | os.PathLike[str] | None = nullable(
        checks.trace, host(refused="it names a file to write")
    )
    """A file that every frame is added to, with times and without secrets, or a function."""
    telemetry: Observer | None = nullable(checks.observer, host(variable="function"))
    """Spans and metrics of OpenTelemetry (`hackamore.Telemetry`), or an observer of your own."""
    budget: Observer | None = nullable(checks.observer, host(variable="function"))
    """A limit of cost or tokens (`hackamore.Budget`), which many queries and sessions may share."""
    timeouts: Timeouts = option(instance(Timeouts), host(), default=Timeouts())
    """All timeouts: `Timeouts`."""
    limits: Limits = option(instance(Limits), host(), default=Limits())
    """All limits: `Limits`."""

    def _check_together(self) -> None:
        if self.can_use_tool is not None and self.permission_prompt_tool_name is not None:
            raise OptionsError(
                "`can_use_tool` and `permission_prompt_tool_name` both answer permission prompts: set one of them.",
                field="permission_prompt_tool_name",
            )
        for name in ("can_use_tool", "permission_prompt_tool_name"):
            if self.approvals is not None and getattr(self, name) is not None:
                raise wrong("approvals", f"and `{name}` both answer permission prompts: set one of them.")
        for name in ("policy_audit", "policy_tags"):
            if getattr(self, name) is not None and self.policy is None:
                raise wrong(name, "needs `policy`, whose decisions it is about.")
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
        if self.session_store is not None:
            self._check_store()
        if self.restricted and self.permission_mode == "bypassPermissions":
            raise wrong("restricted", "excludes permission_mode='bypassPermissions': the CLI refuses it.")

    @property
    def questions(self) -> dict[str, Any]:
        """The callbacks for questions, by option; `approvals` answers those without one of their own."""
        broker: Any = self.approvals
        found = {name: getattr(self, name) for name in ("can_use_tool", "on_elicitation", "on_user_dialog")}
        if broker is not None:
            found["can_use_tool"] = partial(broker.permit, cwd=self.cwd)
            found["on_elicitation"] = found["on_elicitation"] or partial(broker.elicit, cwd=self.cwd)
        return found

    def _check_store(self) -> None:
        if not self.persist_session:
            raise wrong(
                "session_store", "needs `persist_session=True`: it gets a copy of the transcript that the CLI writes."
            )
        if self.enable_file_checkpointing:
            raise wrong(
                "session_store",
                "excludes `enable_file_checkpointing`: the copies of files stay on the disk of this host.",
            )
        if self.continue_conversation and self.resume is None and not implements(self.session_store, "list_sessions"):
            raise wrong(
                "continue_conversation", "needs a `session_store` with the method `list_sessions`; or set `resume`."
            )

    def with_output_type(self, output_type: Any) -> Options:
        """Return a copy that asks the CLI for a JSON object of a type; the same options for None.

        Args:
            output_type: a dataclass, a pydantic model, a `TypedDict`, a `msgspec.Struct`, or a type like `list[int]`.

        Returns:
            Options with the JSON schema as `output_format`.

        Raises:
            OptionsError: there is no schema for the type, or `output_format` is set already.
        """
        if output_type is None:
            return self
        if self.output_format is not None:
            raise OptionsError(
                "`output_type` and the option `output_format` exclude each other: give one", field="output_format"
            )
        from hackamore.checked.schemas import schema_for

        return self.replace(output_format={"type": "json_schema", "schema": schema_for(output_type)})

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        *,
        trust_file: bool = False,
        environment: Mapping[str, str] | None = None,
        **explicit: Any,
    ) -> Self:
        """Return options layered from explicit arguments, `HACKAMORE_<FIELD>` variables and a TOML file, in that priority.

        Args:
            file: path of a TOML file with field names as keys. Default: None, no file.
            trust_file: True also accepts options from the file that run programs, loosen permissions or read secrets.
                Keep False for a file from a checkout of another author.
            environment: the variables to read. Default: None, `os.environ`.
            **explicit: fields as for `Options`; they override the other sources.

        Returns:
            Checked options.

        Raises:
            OptionsError: the file cannot be read, something in it is refused, or a name, a type or a value is wrong.

        Example:
            ::

                options = Options.load("agent.toml", max_turns=5)
        """
        from hackamore.options.sources import layered, said_where

        merged = layered(cls.__fields__, file, trust_file, environment, explicit)
        try:
            return cls(**merged)
        except OptionsError as error:
            where = said_where(error.field, file, environment, explicit)
            raise OptionsError(f"{error}{where}", field=error.field) from None


NO_SESSION: Mapping[str, Any] = MappingProxyType(
    {name: field.default for name, field in Options.__fields__.items() if field.row.chooses}
)
"""The options that choose or cut a session, with the values that choose none: pools, fleets and retries choose it themselves."""
