"""`Options`: everything that can be asked of a query or a session, checked when it is built.

Field names are those of `claude-agent-sdk`; what only the TypeScript package has is here in snake_case, and a few are
ours. What each becomes (a flag, a field of `initialize`, a variable, nothing outside this process) is one row in
`bridle.launch.table`, from which `docs/options.md` is made. This module knows nothing about launching.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from bridle.checked.checks import (
    boolean,
    choice,
    class_or_wire_dict,
    instance,
    integer,
    json_object,
    list_of,
    mapping_of,
    name_text,
    named_path,
    number,
    path_text,
    strings,
    text,
)
from bridle.checked.fields import Checked, option
from bridle.errors import OptionsError
from bridle.options import values as checks
from bridle.options.bounds import Limits, Timeouts
from bridle.options.kinds import (
    AgentDefinition,
    EffortLevel,
    McpHttpServerConfig,
    McpServerConfig,
    McpSSEServerConfig,
    McpStdioServerConfig,
    PermissionMode,
    SandboxFilesystemConfig,
    SandboxNetworkConfig,
    SandboxSettings,
    SdkPluginConfig,
    SettingSource,
    SystemPromptCustom,
    SystemPromptFile,
    SystemPromptPreset,
    TaskBudget,
    ThinkingConfig,
    ThinkingConfigAdaptive,
    ThinkingConfigDisabled,
    ThinkingConfigEnabled,
    effort_level,
)
from bridle.options.kinds import permission_mode as permission_mode_check

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from bridle.errors import StreamWarning

__all__ = [
    "AgentDefinition",
    "EffortLevel",
    "Limits",
    "McpHttpServerConfig",
    "McpSSEServerConfig",
    "McpServerConfig",
    "McpStdioServerConfig",
    "Options",
    "PermissionMode",
    "SandboxFilesystemConfig",
    "SandboxNetworkConfig",
    "SandboxSettings",
    "SdkPluginConfig",
    "SettingSource",
    "SystemPromptCustom",
    "SystemPromptFile",
    "SystemPromptPreset",
    "TaskBudget",
    "ThinkingConfig",
    "ThinkingConfigAdaptive",
    "ThinkingConfigDisabled",
    "ThinkingConfigEnabled",
    "Timeouts",
]


def _cwd(value: Any, path: str) -> str | None:
    return path_text(value, path) or None


def _cli_path(value: Any, path: str) -> str:
    checked = path_text(value, path)
    if not checked:
        raise OptionsError(f"`{path}` must not be empty; leave it out to have the CLI found.", field=path)
    return checked


def _uuid(value: Any, path: str) -> str:
    import re

    checked = str(name_text(value, path))
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", checked):
        raise OptionsError(f"`{path}` must be a UUID, such as str(uuid.uuid4()).", field=path)
    return checked


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

    # what the model is told
    system_prompt: (
        str | Sequence[str] | SystemPromptPreset | SystemPromptCustom | SystemPromptFile | Mapping[str, Any] | None
    ) = option(default=None, check=checks.system_prompt)
    append_system_prompt: str | None = option(default=None, check=text)
    plan_mode_instructions: str | None = option(default=None, check=text)
    verbatim_prompts: bool = option(default=False, check=boolean)
    title: str | None = option(default=None, check=name_text)

    # tools and permissions
    tools: Sequence[str] | Mapping[str, Any] | None = option(default=None, check=checks.tools)
    allowed_tools: Sequence[str] = option(default=(), check=checks.tool_names)
    disallowed_tools: Sequence[str] = option(default=(), check=checks.tool_names)
    tool_aliases: Mapping[str, str] | None = option(default=None, check=mapping_of(name_text))
    tool_config: Mapping[str, Any] | None = option(default=None, check=checks.tool_config)
    permission_mode: PermissionMode | None = option(default=None, check=permission_mode_check)
    allow_dangerously_skip_permissions: bool = option(default=False, check=boolean)
    permission_prompt_tool_name: str | None = option(default=None, check=name_text)
    permission_prompts: Literal["host", "none"] | None = option(default=None, check=choice("host", "none"))
    can_use_tool: Callable[..., Any] | None = option(default=None, check=checks.asked)
    hooks: Mapping[str, Sequence[Any]] | None = option(default=None, check=checks.hooks)
    on_elicitation: Callable[..., Any] | None = option(default=None, check=checks.asked)
    on_user_dialog: Callable[..., Any] | None = option(default=None, check=checks.asked)
    supported_dialog_kinds: Sequence[str] | None = option(default=None, check=strings)
    sandbox: SandboxSettings | Mapping[str, Any] | None = option(
        default=None, check=class_or_wire_dict(SandboxSettings), secret=True
    )

    # servers, agents, skills, plugins
    mcp_servers: Mapping[str, Any] | str | os.PathLike[str] = option(
        default=_NOTHING, check=checks.mcp_servers, secret=True
    )
    strict_mcp_config: bool = option(default=False, check=boolean)
    mcp_servers_delivery: Literal["argv", "initialize"] = option(default="argv", check=choice("argv", "initialize"))
    agent: str | None = option(default=None, check=name_text)
    agents: Mapping[str, AgentDefinition | Mapping[str, Any]] | None = option(
        default=None, check=checks.agents, secret=True
    )
    skills: Sequence[str] | Literal["all"] | None = option(default=None, check=checks.skills)
    plugins: Sequence[SdkPluginConfig | Mapping[str, Any]] = option(default=(), check=checks.plugins)
    plugin_delivery: Literal["argv", "initialize"] = option(default="argv", check=choice("argv", "initialize"))

    # the model
    model: str | None = option(default=None, check=name_text)
    fallback_model: str | None = option(default=None, check=name_text)
    betas: Sequence[str] = option(default=(), check=strings)
    thinking: ThinkingConfig | Mapping[str, Any] | None = option(default=None, check=checks.thinking)
    max_thinking_tokens: int | None = option(default=None, check=integer(0))
    effort: EffortLevel | None = option(default=None, check=effort_level)
    output_format: Mapping[str, Any] | None = option(default=None, check=checks.output_format)

    # budgets
    max_turns: int | None = option(default=None, check=integer(0))
    max_budget_usd: float | None = option(default=None, check=number(0, exclusive=True))
    task_budget: TaskBudget | Mapping[str, int] | None = option(default=None, check=checks.task_budget)

    # which conversation
    continue_conversation: bool = option(default=False, check=boolean)
    resume: str | None = option(default=None, check=name_text)
    session_id: str | None = option(default=None, check=_uuid)
    fork_session: bool = option(default=False, check=boolean)
    resume_session_at: str | None = option(default=None, check=name_text)
    resume_drops_turn: str | None = option(default=None, check=text)
    persist_session: bool = option(default=True, check=boolean)
    enable_file_checkpointing: bool = option(default=False, check=boolean)

    # what is reported
    include_partial_messages: bool = option(default=False, check=boolean)
    include_hook_events: bool = option(default=False, check=boolean)
    forward_subagent_text: bool = option(default=False, check=boolean)
    prompt_suggestions: bool = option(default=False, check=boolean)
    agent_progress_summaries: bool = option(default=False, check=boolean)
    per_task_stop_affordance: bool = option(default=False, check=boolean)

    # files and settings
    cwd: str | os.PathLike[str] | None = option(default=None, check=_cwd)
    add_dirs: Sequence[str | os.PathLike[str]] = option(default=(), check=list_of(named_path))
    project_config_root: str | os.PathLike[str] | None = option(default=None, check=named_path)
    settings: str | os.PathLike[str] | Mapping[str, Any] | None = option(
        default=None, check=checks.settings, secret=True
    )
    managed_settings: Mapping[str, Any] | None = option(default=None, check=json_object, secret=True)
    setting_sources: Sequence[SettingSource] | None = option(
        default=None, check=list_of(choice("user", "project", "local"), example='["project"]')
    )

    # the process
    cli_path: str | os.PathLike[str] | None = option(default=None, check=_cli_path)
    executable: str | None = option(default=None, check=name_text)
    executable_args: Sequence[str] = option(default=(), check=list_of(text), secret=True)
    env: Mapping[str, str | None] = option(default=_NOTHING, check=checks.environment, secret=True)
    inherit_env: bool | Sequence[str] = option(default=True, check=checks.inherit_env)
    extra_args: Mapping[str, str | None] = option(default=_NOTHING, check=checks.extra_args, secret=True)
    user: str | int | None = option(default=None, check=checks.user)
    client_app: str | None = option(default=None, check=text)
    debug: bool | str = option(default=False, check=checks.debug)
    debug_file: str | os.PathLike[str] | None = option(default=None, check=named_path)

    # how Bridle behaves
    prompt_channel: Literal["stdin", "argv"] = option(default="stdin", check=choice("stdin", "argv"))
    strict_exit_status: bool = option(default=False, check=boolean)
    version_check: Literal["strict", "permissive", "skip"] = option(
        default="strict", check=choice("strict", "permissive", "skip")
    )
    on_oversize: Literal["raise", "skip"] | None = option(default=None, check=choice("raise", "skip"))
    on_warning: Callable[[StreamWarning], object] | None = option(default=None, check=checks.told("warning"))
    stderr: Callable[[str], object] | None = option(default=None, check=checks.told("line"))
    trace: Callable[..., object] | str | os.PathLike[str] | None = option(default=None, check=checks.trace)
    timeouts: Timeouts = option(default=Timeouts(), check=instance(Timeouts))
    limits: Limits = option(default=Limits(), check=instance(Limits))

    def _check_together(self) -> None:
        if self.can_use_tool is not None and self.permission_prompt_tool_name is not None:
            raise OptionsError(
                "`can_use_tool` and `permission_prompt_tool_name` both answer permission prompts: set one of them.",
                field="permission_prompt_tool_name",
            )
        if self.supported_dialog_kinds and self.on_user_dialog is None:
            raise OptionsError(
                "`supported_dialog_kinds` needs `on_user_dialog`, which shows them.", field="supported_dialog_kinds"
            )
        if (
            self.session_id is not None
            and (self.resume is not None or self.continue_conversation)
            and not self.fork_session
        ):
            raise OptionsError(
                "`session_id` with `resume` or `continue_conversation` needs `fork_session=True`: the copy gets it.",
                field="session_id",
            )
        if self.resume_session_at is not None and self.resume is None:
            raise OptionsError("`resume_session_at` needs `resume`.", field="resume_session_at")
        if self.resume_drops_turn is not None and self.resume_session_at is None:
            raise OptionsError("`resume_drops_turn` needs `resume_session_at`.", field="resume_drops_turn")
        if self.model is not None and self.model == self.fallback_model:
            raise OptionsError("`fallback_model` must differ from `model`.", field="fallback_model")

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
