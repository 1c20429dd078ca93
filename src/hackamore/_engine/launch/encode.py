"""How options become arguments, fields of `initialize`, and variables: the rows of `hackamore.options.options` as functions.

Values follow an equals sign, because some may start with a dash. A function takes the whole `Options` and returns
nothing if its option is not set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.checked.fields import to_wire
from hackamore.errors import OptionsError
from hackamore.options.kinds import (
    SystemPromptCustom,
    SystemPromptFile,
    SystemPromptPreset,
    ThinkingConfigAdaptive,
    ThinkingConfigEnabled,
    is_external_server,
)
from hackamore.options.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.options.options import Row


def json_text(value: Any) -> str:
    """Return compact JSON; keys keep their order."""
    import json

    return json.dumps(to_wire(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _system_prompt_argv(options: Options) -> list[str]:
    flags: list[str] = []
    given = options.system_prompt
    match given:
        case str() | SystemPromptCustom(prompt=str()):
            flags.append(f"--system-prompt={given if isinstance(given, str) else given.prompt}")
        case SystemPromptFile(path=path):
            flags.append(f"--system-prompt-file={os.fspath(path)}")
        case SystemPromptPreset(append=append, exclude_dynamic_sections=exclude):
            flags += [] if append is None else [f"--append-system-prompt={append}"]
            flags += ["--exclude-dynamic-system-prompt-sections"] if exclude else []
    if isinstance(given, (SystemPromptCustom, SystemPromptPreset)) and given.snapshot is not None:
        flags.append(f"--system-prompt-snapshot={'on' if given.snapshot else 'off'}")
    return flags


def _system_prompt_echo(options: Options) -> Mapping[str, Any]:
    fields = {"systemPromptSnapshot": "snapshot", "excludeDynamicSections": "exclude_dynamic_sections"}
    found = {wire: getattr(options.system_prompt, name, None) for wire, name in fields.items()}
    return {wire: value for wire, value in found.items() if value is not None}


def _system_prompt_initialize(options: Options) -> Mapping[str, Any]:
    prompt = options.system_prompt
    if isinstance(prompt, SystemPromptCustom):
        prompt = prompt.prompt
    return {"systemPrompt": list(prompt)} if isinstance(prompt, tuple) else {}


def _tools_argv(options: Options) -> list[str]:
    if options.tools is None:
        return []
    return ["--tools=default" if isinstance(options.tools, Mapping) else f"--tools={','.join(options.tools)}"]


def _allowed_tools_argv(options: Options) -> list[str]:
    added = ["Skill"] if options.skills == "all" else [f"Skill({name})" for name in options.skills or ()]
    rules = [*options.allowed_tools, *(rule for rule in added if rule not in options.allowed_tools)]
    return [f"--allowedTools={rule}" for rule in rules]


def _allow_dangerously_skip_permissions_argv(options: Options) -> list[str]:
    wanted = options.allow_dangerously_skip_permissions or options.permission_mode == "bypassPermissions"
    return ["--allow-dangerously-skip-permissions"] if wanted else []


def _settings_argv(options: Options) -> list[str]:
    settings = options.settings
    compiled: Any = getattr(options.policy, "compile", None)
    if compiled is not None and (deny := compiled().settings["permissions"]["deny"]):
        permissions = settings_object(options).get("permissions") or {}
        denied = {**permissions, "deny": [*permissions.get("deny", ()), *deny]}
        settings = {**settings_object(options), "permissions": denied}  # where no hook can be called
    if options.sandbox is not None:
        sandbox = to_wire(options.sandbox)
        if sandbox.get("enabled") is True:
            sandbox.setdefault("failIfUnavailable", True)  # as in TypeScript: else commands run without one
        settings = {**(settings if isinstance(settings, Mapping) else settings_object(options)), "sandbox": sandbox}
    if settings is None:
        return []
    return [f"--settings={json_text(settings) if isinstance(settings, Mapping) else os.fspath(settings)}"]


def settings_object(options: Options) -> Mapping[str, Any]:
    """Return `settings` as a dict, reading its file if it names one."""
    import json

    settings = options.settings
    if settings is None:
        return {}
    if isinstance(settings, Mapping):
        return settings
    other = "policy" if options.sandbox is None else "sandbox"
    source = os.fspath(settings)
    try:
        if not source.lstrip().startswith("{"):
            with open(os.path.join(os.fspath(options.cwd or ""), source), encoding="utf-8-sig") as file:
                source = file.read()
        content = json.loads(source, parse_constant=_no_constant)  # Python reads NaN, the CLI does not
    except (OSError, ValueError, RecursionError) as error:
        # JSON errors are left out of the text: they may quote the settings.
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise OptionsError(f"`settings` cannot be merged with `{other}`: {reason}.", field="settings") from None
    if not isinstance(content, dict):
        raise OptionsError(f"`settings` cannot be merged with `{other}`: it is not a JSON object.", field="settings")
    return content


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _servers(options: Options) -> Mapping[str, Any]:
    return options.mcp_servers if isinstance(options.mcp_servers, Mapping) else {}


def external_servers(options: Options) -> dict[str, Any]:
    """Return the servers that the CLI connects to itself, as it spells them."""
    return {name: to_wire(config) for name, config in _servers(options).items() if is_external_server(config)}


def in_process_servers(options: Options) -> dict[str, Any]:
    """Return the servers that this process serves: tool servers, `mcp` server objects and functions, by name."""
    return {
        name: config["instance"] if isinstance(config, Mapping) else config
        for name, config in _servers(options).items()
        if not is_external_server(config)
    }


def _mcp_servers_argv(options: Options) -> list[str]:
    servers = options.mcp_servers
    if not isinstance(servers, Mapping):
        return [f"--mcp-config={os.fspath(servers)}"]
    external = external_servers(options)
    if not external or options.mcp_servers_delivery == "initialize":  # keeps secrets off the command line
        return []
    return [f"--mcp-config={json_text({'mcpServers': external})}"]


def _mcp_servers_initialize(options: Options) -> Mapping[str, Any]:
    """Return the names of in-process servers, and the others if they are delivered this way."""
    fields: dict[str, Any] = {}
    if inside := in_process_servers(options):
        fields["sdkMcpServers"] = list(inside)
    if options.mcp_servers_delivery == "initialize" and (external := external_servers(options)):
        fields["mcpServers"] = external
    return fields


def _await_initialize_argv(options: Options) -> list[str]:
    """Return the flag that makes the CLI wait for servers and plugins in `initialize`."""
    servers = options.mcp_servers_delivery == "initialize" and bool(external_servers(options))
    plugins = options.plugin_delivery == "initialize" and bool(options.plugins)
    return ["--await-initialize"] if servers or plugins else []


def _guarded_resume_argv(options: Options, guarded: bool) -> list[str]:
    """Return the flag that keeps the CLI from replaying a deferred call before its hooks are known (2.1.330 runs it otherwise)."""
    resumes = any(name in options.extra_args for name in ("resume", "continue", "from-pr", "teleport"))
    return ["--await-initialize"] if guarded and (resumes or options.resume or options.continue_conversation) else []


def _plugins_argv(options: Options) -> list[str]:
    if options.plugin_delivery == "initialize":
        return []
    plugins: Any = options.plugins
    return [f"--plugin-dir{'-no-mcp' if plugin.skip_mcp_discovery else ''}={plugin.path}" for plugin in plugins]


def _thinking_argv(options: Options) -> list[str]:
    thinking: Any = options.thinking
    if thinking is None:
        return []
    if isinstance(thinking, ThinkingConfigEnabled) and thinking.budget_tokens is not None:
        flags = [f"--max-thinking-tokens={thinking.budget_tokens}"]  # 2.1.30 does not know `--thinking`
    else:
        flags = [f"--thinking={thinking.type}"]
    if isinstance(thinking, (ThinkingConfigAdaptive, ThinkingConfigEnabled)) and thinking.display is not None:
        flags.append(f"--thinking-display={thinking.display}")
    return flags


def _tool_config_environment(options: Options) -> Mapping[str, str]:
    question = (options.tool_config or {}).get("askUserQuestion", {})
    return {"CLAUDE_CODE_QUESTION_PREVIEW_FORMAT": question["previewFormat"]} if "previewFormat" in question else {}


def _plugins_initialize(options: Options) -> Mapping[str, Any]:
    return {"plugins": to_wire(options.plugins)} if options.plugins and options.plugin_delivery == "initialize" else {}


def _extra_args_argv(options: Options) -> list[str]:
    flags = []
    for name, given in options.extra_args.items():
        values = given if isinstance(given, tuple) else (given,)
        flags += [f"--{name}" if value is None else f"--{name}={value}" for value in values]
    return flags


class Special(NamedTuple):
    """The functions of an option whose row is `special`, as in `OptionRow`."""

    argv: Callable[[Any], list[str]] | None = None
    initialize: Callable[[Any], Mapping[str, Any]] | None = None
    environment: Callable[[Any], Mapping[str, str]] | None = None
    echo: Callable[[Any], Mapping[str, Any]] | None = None


SPECIAL: dict[str, Special] = {
    "system_prompt": Special(_system_prompt_argv, _system_prompt_initialize, None, _system_prompt_echo),
    "tools": Special(_tools_argv),
    "allowed_tools": Special(_allowed_tools_argv),
    "task_budget": Special(lambda o: [] if o.task_budget is None else [f"--task-budget={o.task_budget.total}"]),
    "can_use_tool": Special(lambda o: [] if o.can_use_tool is None else ["--permission-prompt-tool=stdio"]),
    "approvals": Special(lambda o: [] if o.approvals is None else ["--permission-prompt-tool=stdio"]),
    "hooks": Special(lambda o: _guarded_resume_argv(o, bool(o.policy is None and (o.hooks or {}).get("PreToolUse")))),
    "policy": Special(lambda o: _guarded_resume_argv(o, o.policy is not None)),
    "allow_dangerously_skip_permissions": Special(_allow_dangerously_skip_permissions_argv),
    "settings": Special(_settings_argv),
    "sandbox": Special(),  # part of `settings`
    "mcp_servers": Special(_mcp_servers_argv, _mcp_servers_initialize),
    "mcp_servers_delivery": Special(_await_initialize_argv),
    "skills": Special(None, lambda o: {"skills": list(o.skills)} if isinstance(o.skills, tuple) else {}),
    "plugins": Special(_plugins_argv, _plugins_initialize),
    "extra_args": Special(_extra_args_argv),
    "thinking": Special(_thinking_argv),
    "chrome": Special(lambda o: [] if o.chrome is None else ["--chrome" if o.chrome else "--no-chrome"]),
    "output_format": Special(
        lambda o: (
            [f"--json-schema={json_text(o.output_format['schema'])}"] if isinstance(o.output_format, Mapping) else []
        )
    ),
    "session_store": Special(lambda o: [] if o.session_store is None else ["--session-mirror"]),
    "tool_config": Special(None, None, _tool_config_environment),
    "env": Special(),  # these two are the work of `build_environment`
    "inherit_env": Special(),
}


class OptionRow(NamedTuple):
    """One option, and the functions that return its arguments, fields of `initialize` and variables, if it can have some."""

    name: str
    row: Row
    secret: bool
    argv: Callable[[Options], list[str]] | None = None
    initialize: Callable[[Options], Mapping[str, Any]] | None = None
    environment: Callable[[Options], Mapping[str, str]] | None = None
    echo: Callable[[Options], Mapping[str, Any]] | None = (
        None  # fields that repeat flags, for a peer that a transport starts
    )

    def needs_session(self, options: Options) -> bool:
        """Return True if this value needs the bidirectional protocol."""
        if self.initialize is not None and self.initialize(options):
            return True
        value = getattr(options, self.name)
        return self.row.session and is_given(value) and not (isinstance(value, Mapping) and not value)


def is_given(value: object) -> bool:
    """Return True if the value is neither None nor False; 0 and "" are given."""
    return value is not None and value is not False


def _value(flag: str, value: Any) -> list[str]:
    return [flag] if value is True else [f"{flag}={value}"] if is_given(value) else []


# CLI 2.1.328 takes `--betas=A,B` for one beta that it does not know, and drops both; and in a joined list of rules an open
# parenthesis swallows the rules after it. So only lists of plain names are joined.
_FLAGS: dict[str, Callable[[str, Any], list[str]]] = {
    "value": _value,
    "switch": lambda flag, value: [flag] if value else [],
    "off": lambda flag, value: [] if value else [flag],
    "each": lambda flag, value: [f"{flag}={part}" for part in value],
    "comma": lambda flag, value: [] if value is None else [f"{flag}={','.join(value)}"],
    "json": lambda flag, value: [] if value is None else [f"{flag}={json_text(value)}"],
}


def _encoded(name: str, row: Row, secret: bool) -> OptionRow:
    if row.form == "special":
        return OptionRow(name, row, secret, *SPECIAL[name])
    if row.form == "host":
        return OptionRow(name, row, secret)
    if row.form == "initialize":

        def initialize(options: Options) -> Mapping[str, Any]:
            value = getattr(options, name)
            return {row.name: to_wire(value)} if is_given(value) else {}

        return OptionRow(name, row, secret, initialize=initialize)
    if row.form == "variable":

        def environment(options: Options) -> Mapping[str, str]:
            value = getattr(options, name)
            return {row.name: row.constant or value} if is_given(value) else {}

        return OptionRow(name, row, secret, environment=environment)
    write = _FLAGS[row.form]

    def argv(options: Options) -> list[str]:
        overruled = row.yields_to and getattr(options, row.yields_to) is not None
        return [] if overruled else write(row.name, getattr(options, name))

    def echo(options: Options) -> Mapping[str, Any]:
        return {row.field: getattr(options, name)} if is_given(getattr(options, name)) else {}

    return OptionRow(name, row, secret, argv, echo=echo if row.field else None)


ROWS: tuple[OptionRow, ...] = tuple(
    sorted(
        (_encoded(name, field.row, field.secret) for name, field in Options.__fields__.items()),
        key=lambda option: option.row.place,  # the order of the official package
    )
)
ROWS_BY_NAME: dict[str, OptionRow] = {option.name: option for option in ROWS}
