"""How the options that are more than one flag become arguments, fields of `initialize`, and variables.

Values go behind an equals sign, because some may start with a dash. A function gets the whole `Options` and returns
nothing for what is not set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.checked.fields import Checked
from bridle.errors import OptionsError
from bridle.options.kinds import (
    SystemPromptCustom,
    SystemPromptFile,
    SystemPromptPreset,
    ThinkingConfigAdaptive,
    ThinkingConfigEnabled,
    is_external_server,
)

if TYPE_CHECKING:
    from bridle.options.options import Options


def plain(value: Any) -> Any:
    """Return `value` as JSON has it: wire names, dicts and lists."""
    if isinstance(value, Checked):
        return value.to_wire()
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def json_text(value: Any) -> str:
    """Return compact JSON; keys keep their order."""
    import json

    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def system_prompt_argv(options: Options) -> list[str]:
    """Return the flags of `system_prompt`."""
    match options.system_prompt:
        case str(prompt):
            return [f"--system-prompt={prompt}"]
        case SystemPromptCustom(prompt=prompt, snapshot=snapshot):
            return [*([f"--system-prompt={prompt}"] if isinstance(prompt, str) else []), *_snapshot(snapshot)]
        case SystemPromptFile(path=path):
            return [f"--system-prompt-file={os.fspath(path)}"]
        case SystemPromptPreset(append=append, exclude_dynamic_sections=exclude, snapshot=snapshot):
            return [
                *([f"--append-system-prompt={append}"] if append is not None else []),
                *(["--exclude-dynamic-system-prompt-sections"] if exclude else []),
                *_snapshot(snapshot),
            ]
        case _:
            return []


def _snapshot(value: bool | None) -> list[str]:
    return [] if value is None else [f"--system-prompt-snapshot={'on' if value else 'off'}"]


def system_prompt_initialize(options: Options) -> Mapping[str, Any]:
    """Return the blocks of `system_prompt`, if it has blocks."""
    prompt = options.system_prompt
    if isinstance(prompt, SystemPromptCustom):
        prompt = prompt.prompt
    return {"systemPrompt": list(prompt)} if isinstance(prompt, tuple) else {}


def system_prompt_needs_session(options: Options) -> bool:
    """Return True for blocks."""
    return bool(system_prompt_initialize(options))


def append_system_prompt_argv(options: Options) -> list[str]:
    """Return the flag of `append_system_prompt`, unless `system_prompt` wins."""
    if options.append_system_prompt is None or options.system_prompt is not None:
        return []
    return [f"--append-system-prompt={options.append_system_prompt}"]


def tools_argv(options: Options) -> list[str]:
    """Return the flag of `tools`; an empty list means none."""
    if options.tools is None:
        return []
    return ["--tools=default" if isinstance(options.tools, Mapping) else f"--tools={','.join(options.tools)}"]


def allowed_tools_argv(options: Options) -> list[str]:
    """Return the flag of `allowed_tools`, with the rules that `skills` adds."""
    rules = list(options.allowed_tools)
    added = ["Skill"] if options.skills == "all" else [f"Skill({name})" for name in options.skills or ()]
    rules += [rule for rule in added if rule not in rules]
    # One flag for each: joined, an open parenthesis in one rule would swallow the rules after it.
    return [f"--allowedTools={rule}" for rule in rules]


def skills_initialize(options: Options) -> Mapping[str, Any]:
    """Return the names of `skills`; for 'all' there is nothing to say."""
    return {"skills": list(options.skills)} if isinstance(options.skills, tuple) else {}


def task_budget_argv(options: Options) -> list[str]:
    """Return the flag of `task_budget`."""
    budget: Any = options.task_budget
    return [] if budget is None else [f"--task-budget={budget.total}"]


def permission_prompt_tool_argv(options: Options) -> list[str]:
    """Return the flag of `permission_prompt_tool_name`."""
    name = options.permission_prompt_tool_name
    return [] if name is None else [f"--permission-prompt-tool={name}"]


def can_use_tool_argv(options: Options) -> list[str]:
    """Return the flag that makes the CLI ask us."""
    return [] if options.can_use_tool is None else ["--permission-prompt-tool=stdio"]


def permission_mode_argv(options: Options) -> list[str]:
    """Return the flag of `permission_mode`."""
    return [] if options.permission_mode is None else [f"--permission-mode={options.permission_mode}"]


def allow_skip_argv(options: Options) -> list[str]:
    """Return the flag without which bypassPermissions is refused."""
    wanted = options.allow_dangerously_skip_permissions or options.permission_mode == "bypassPermissions"
    return ["--allow-dangerously-skip-permissions"] if wanted else []


def continue_argv(options: Options) -> list[str]:
    """Return the flag of `continue_conversation`, unless `resume` wins."""
    return ["--continue"] if options.continue_conversation and options.resume is None else []


def settings_argv(options: Options) -> list[str]:
    """Return the one flag of `settings` and `sandbox`."""
    settings = options.settings
    if options.sandbox is None:
        if settings is None:
            return []
        return [f"--settings={json_text(settings) if isinstance(settings, Mapping) else os.fspath(settings)}"]
    merged = dict(settings_object(options))
    sandbox = plain(options.sandbox)
    if sandbox.get("enabled") is True:
        sandbox.setdefault("failIfUnavailable", True)
    merged["sandbox"] = sandbox
    return [f"--settings={json_text(merged)}"]


def settings_object(options: Options) -> Mapping[str, Any]:
    """Return `settings` as a dict, reading its file if it names one."""
    import json

    settings = options.settings
    if settings is None:
        return {}
    if isinstance(settings, Mapping):
        return settings
    source = os.fspath(settings)
    try:
        if not source.lstrip().startswith("{"):
            with open(os.path.join(os.fspath(options.cwd or ""), source), encoding="utf-8-sig") as file:
                source = file.read()
        content = json.loads(source, parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        # JSON errors are left out of the text: they may quote the settings.
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise OptionsError(f"`settings` cannot be merged with `sandbox`: {reason}.", field="settings") from None
    if not isinstance(content, dict):
        raise OptionsError("`settings` cannot be merged with `sandbox`: it is no JSON object.", field="settings")
    return content


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def managed_settings_argv(options: Options) -> list[str]:
    """Return the flag of `managed_settings`."""
    return [] if options.managed_settings is None else [f"--managed-settings={json_text(options.managed_settings)}"]


def external_servers(options: Options) -> dict[str, Any]:
    """Return the servers that the CLI connects to itself, as it spells them."""
    servers = options.mcp_servers
    if not isinstance(servers, Mapping):
        return {}
    return {name: plain(config) for name, config in servers.items() if is_external_server(config)}


def in_process_servers(options: Options) -> dict[str, Any]:
    """Return the servers that this process serves: tool servers, `mcp` server objects and functions, by name."""
    servers = options.mcp_servers
    if not isinstance(servers, Mapping):
        return {}
    return {
        name: config["instance"] if isinstance(config, Mapping) else config
        for name, config in servers.items()
        if not is_external_server(config)
    }


def mcp_servers_argv(options: Options) -> list[str]:
    """Return the flag of those servers that the CLI connects to."""
    servers = options.mcp_servers
    if not isinstance(servers, Mapping):
        return [f"--mcp-config={os.fspath(servers)}"]
    external = external_servers(options)
    if not external or options.mcp_servers_delivery == "initialize":
        return []
    return [f"--mcp-config={json_text({'mcpServers': external})}"]


def mcp_servers_initialize(options: Options) -> Mapping[str, Any]:
    """Return the names of in-process servers, and the others if they are delivered this way."""
    fields: dict[str, Any] = {}
    if inside := in_process_servers(options):
        fields["sdkMcpServers"] = list(inside)
    if options.mcp_servers_delivery == "initialize" and (external := external_servers(options)):
        fields["mcpServers"] = external
    return fields


def mcp_servers_need_session(options: Options) -> bool:
    """Return True for in-process servers, and for delivery by `initialize`."""
    return bool(mcp_servers_initialize(options))


def await_initialize_argv(options: Options) -> list[str]:
    """Return the flag that makes the CLI wait for servers and plugins in `initialize`."""
    servers = options.mcp_servers_delivery == "initialize" and bool(external_servers(options))
    plugins = options.plugin_delivery == "initialize" and bool(options.plugins)
    return ["--await-initialize"] if servers or plugins else []


def plugins_argv(options: Options) -> list[str]:
    """Return one flag per plugin."""
    if options.plugin_delivery == "initialize":
        return []
    plugins: Any = options.plugins
    return [f"--plugin-dir{'-no-mcp' if plugin.skip_mcp_discovery else ''}={plugin.path}" for plugin in plugins]


def plugins_initialize(options: Options) -> Mapping[str, Any]:
    """Return the plugins, if they are delivered this way."""
    if options.plugin_delivery != "initialize" or not options.plugins:
        return {}
    return {"plugins": plain(options.plugins)}


def agents_initialize(options: Options) -> Mapping[str, Any]:
    """Return the agents."""
    return {"agents": plain(options.agents)} if options.agents is not None else {}


def setting_sources_argv(options: Options) -> list[str]:
    """Return the flag of `setting_sources`; an empty list means no file."""
    return [] if options.setting_sources is None else [f"--setting-sources={','.join(options.setting_sources)}"]


def extra_args_argv(options: Options) -> list[str]:
    """Return the flags of `extra_args`, in their order."""
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.extra_args.items()]


def thinking_argv(options: Options) -> list[str]:
    """Return the flags of `thinking`."""
    thinking: Any = options.thinking
    if thinking is None:
        return []
    if isinstance(thinking, ThinkingConfigEnabled) and thinking.budget_tokens is not None:
        flags = [f"--max-thinking-tokens={thinking.budget_tokens}"]
    else:
        flags = [f"--thinking={thinking.type}"]
    if isinstance(thinking, (ThinkingConfigAdaptive, ThinkingConfigEnabled)) and thinking.display is not None:
        flags.append(f"--thinking-display={thinking.display}")
    return flags


def max_thinking_tokens_argv(options: Options) -> list[str]:
    """Return the flag of `max_thinking_tokens`, unless `thinking` wins."""
    if options.max_thinking_tokens is None or options.thinking is not None:
        return []
    return [f"--max-thinking-tokens={options.max_thinking_tokens}"]


def output_format_argv(options: Options) -> list[str]:
    """Return the flag of `output_format`."""
    return [] if options.output_format is None else [f"--json-schema={json_text(options.output_format['schema'])}"]


def tool_config_environment(options: Options) -> Mapping[str, str]:
    """Return the variable of `tool_config`."""
    question = (options.tool_config or {}).get("askUserQuestion", {})
    return {"CLAUDE_CODE_QUESTION_PREVIEW_FORMAT": question["previewFormat"]} if "previewFormat" in question else {}
