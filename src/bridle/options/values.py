"""The checks of single options: what each accepts, and what it is kept as."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.checked.checks import (
    boolean,
    choice,
    class_or_wire_dict,
    fail,
    instance,
    json_object,
    list_of,
    mapping_of,
    name_text,
    optional,
    path_text,
    tagged,
    text,
    whole,
    wire_dict,
    wrong,
)
from bridle.checked.fields import Checked
from bridle.errors import OptionsError
from bridle.options.kinds import (
    AgentDefinition,
    McpHttpServerConfig,
    McpSSEServerConfig,
    McpStdioServerConfig,
    SandboxSettings,
    SdkPluginConfig,
    SystemPromptCustom,
    SystemPromptFile,
    SystemPromptPreset,
    TaskBudget,
    ThinkingConfigAdaptive,
    ThinkingConfigDisabled,
    ThinkingConfigEnabled,
)

if TYPE_CHECKING:
    from bridle.checked.fields import Check

agents = mapping_of(class_or_wire_dict(AgentDefinition))
sandbox = class_or_wire_dict(SandboxSettings)

SERVERS: dict[str, type[Checked]] = {
    "stdio": McpStdioServerConfig,
    "sse": McpSSEServerConfig,
    "http": McpHttpServerConfig,
}


def _server(value: Any, path: str) -> Any:
    if isinstance(value, Checked):
        return value
    if isinstance(value, Mapping):
        kind = value.get("type", "stdio")
        if "type" not in value and "command" not in value:
            _check_untyped(value, path)
        if kind == "sdk":
            if value.get("instance") is None:
                raise OptionsError(
                    f"`{path}` has type 'sdk' and needs `instance`, the server object.", field=f"{path}.instance"
                )
            return dict(value)
        known = SERVERS.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise wrong(f"{path}.type", "must be one of 'stdio', 'sse', 'http', 'sdk'.")
        return wire_dict(known)(value, path)
    _check_served(value, path)
    return value


def _check_untyped(value: Mapping[Any, Any], path: str) -> None:
    if "url" in value:
        raise OptionsError(
            f"`{path}` has a `url` and no `type`: write `'type': 'http'`, or 'sse', beside it.", field=f"{path}.type"
        )
    if path.endswith(".mcpServers"):
        raise wrong(path, "is what a file of servers begins with: give the dict that is in it, or the file's path.")


def _check_served(value: Any, path: str) -> None:
    """Refuse what could never answer; which server objects of the package `mcp` can be served is found out at the start."""
    from bridle.tools import Tool

    tools = [part for part in (value if isinstance(value, (list, tuple)) else (value,)) if isinstance(part, Tool)]
    if tools:
        shown = ", ".join(tool.name for tool in tools)
        name = path.rpartition(".")[2]
        raise wrong(path, f"must be a server: write `tool_server({name!r}, [{shown}])`.")
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple, set)):
        raise fail(path, "a server config, a tool server or a function", value)
    if callable(value):
        from bridle.checked.functions import check_callback

        check_callback(value, path, ("message",))


def mcp_servers(value: Any, path: str) -> Any:
    """Accept servers by name, the path of a config file, or its JSON text."""
    if isinstance(value, str):
        return name_text(value, path)
    if isinstance(value, os.PathLike):
        return path_text(value, path)
    if not isinstance(value, Mapping):
        raise fail(path, "a dict of servers by name, or the path of a config file", value)
    return mapping_of(_server)(value, path)


_prompt_object = tagged({"preset": SystemPromptPreset, "custom": SystemPromptCustom, "file": SystemPromptFile})


def system_prompt(value: Any, path: str) -> Any:
    """Accept a text, a list of blocks, one of the three classes, or a dict with `type`."""
    if isinstance(value, str):
        return text(value, path)
    if isinstance(value, (list, tuple)):
        return list_of(text)(value, path)
    return _prompt_object(value, path)


def tools(value: Any, path: str) -> Any:
    """Accept a list of tool names, or the preset dict."""
    if isinstance(value, Mapping):
        if dict(value) != {"type": "preset", "preset": "claude_code"}:
            raise wrong(path, "as a dict must be {'type': 'preset', 'preset': 'claude_code'}: the default tools.")
        return dict(value)
    return tool_names(value, path)


def _tool_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    rule = checked.strip()
    if _taken_apart(rule) != [rule]:
        # A part may be a rule of its own: `Bash(echo (a) Write b)` allows Write.
        raise wrong(
            path,
            "is no single rule to the CLI, which cuts at commas and spaces outside of parentheses and does not "
            "count nested or escaped ones. Write separate entries, or put the rule into "
            "`settings={'permissions': {'allow': [...], 'deny': [...]}}`, which is not cut.",
        )
    if not _well_formed(rule):
        raise wrong(
            path,
            "has unbalanced parentheses, so the CLI would take it for the name of a tool; write `Tool` or "
            "`Tool(pattern)`, with \\( and \\) for those that the pattern means literally.",
        )
    return checked


def _taken_apart(text: str) -> list[str]:
    """Return the rules that the CLI makes of one entry (2.1.328)."""
    rules = [""]
    inside = False
    for character in text:
        if character in ", " and not inside:
            rules.append("")
            continue
        if character in "()":
            inside = character == "("
        rules[-1] += character
    return [rule for rule in rules if rule]


def _well_formed(rule: str) -> bool:
    """Return whether the CLI reads `Tool` or `Tool(pattern)`; anything else matches nothing, in silence (2.1.328)."""
    tool, parenthesis, pattern = rule.partition("(")
    if not parenthesis:
        return ")" not in rule
    before_the_end = pattern[:-1]
    escaped = (len(before_the_end) - len(before_the_end.rstrip("\\"))) % 2 == 1
    return bool(tool) and ")" not in tool and not tool.endswith("\\") and pattern.endswith(")") and not escaped


tool_names = list_of(_tool_name, example='["Bash"]')


thinking = tagged(
    {"adaptive": ThinkingConfigAdaptive, "enabled": ThinkingConfigEnabled, "disabled": ThinkingConfigDisabled}
)


def task_budget(value: Any, path: str) -> Any:
    """Accept a `TaskBudget`, or a dict with `total`."""
    if not isinstance(value, (TaskBudget, Mapping)):
        raise fail(path, "a TaskBudget or {'total': tokens}", value)
    return instance(TaskBudget)(value, path)


plugins = list_of(tagged({"local": SdkPluginConfig}), example='[{"type": "local", "path": "..."}]')


def skills(value: Any, path: str) -> Any:
    """Accept 'all', or a list of skill names."""
    if isinstance(value, str):
        if value != "all":
            raise wrong(path, f"must be 'all' or a list of names: write `{path}=[...]`.")
        return "all"
    return list_of(_skill_name)(value, path)


def _skill_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    # The name becomes part of a permission rule, `Skill(name)`: nothing in it may change what the rule means.
    refused = (
        checked != checked.strip()
        or any(character in "(),*\ufeff" or ord(character) < 32 or ord(character) == 127 for character in checked)
        or checked.startswith("/")
        or checked.endswith("\\")
        or "\\\\" in checked
    )
    if refused:
        raise wrong(
            path, "is no skill name: no leading slash, outer spaces, parentheses, commas, asterisks or controls."
        )
    return checked


def output_format(value: Any, path: str) -> dict[str, Any]:
    """Accept `{"type": "json_schema", "schema": {...}}`."""
    copied = json_object(value, path)
    if copied.get("type") != "json_schema" or not isinstance(copied.get("schema"), dict) or len(copied) != 2:
        raise wrong(path, "must be {'type': 'json_schema', 'schema': {...}}.")
    return copied


def tool_config(value: Any, path: str) -> dict[str, Any]:
    """Accept `{"askUserQuestion": {"previewFormat": "markdown" or "html"}}`."""
    copied = json_object(value, path)
    question = copied.get("askUserQuestion", {})
    if set(copied) - {"askUserQuestion"} or not isinstance(question, dict) or set(question) - {"previewFormat"}:
        raise wrong(path, "knows only {'askUserQuestion': {'previewFormat': ...}}.")
    if "previewFormat" in question:
        choice("markdown", "html")(question["previewFormat"], f"{path}.askUserQuestion.previewFormat")
    return copied


def settings(value: Any, path: str) -> Any:
    """Accept a path, JSON text, or a dict."""
    if isinstance(value, Mapping):
        return json_object(value, path)
    if isinstance(value, (str, os.PathLike)):
        return name_text(path_text(value, path), path)
    raise fail(path, "a dict, JSON text or a path", value)


def debug(value: Any, path: str) -> bool | str:
    """Accept True, False, or a filter of debug categories."""
    return str(name_text(value, path)) if isinstance(value, str) else boolean(value, path)


def _variable_text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise fail(path, "a str (or None to unset it)", value, "Write its text, such as '1'.")
    return path_text(value, path)


def _variable_name(value: Any, path: str) -> str:
    checked = str(name_text(value, path))
    if "=" in checked:
        raise wrong(path, "must not contain '='.")
    return checked


environment = mapping_of(optional(_variable_text), key=_variable_name)


def inherit_env(value: Any, path: str) -> bool | tuple[str, ...]:
    """Accept True, False, or the names of the variables to pass on."""
    return value if isinstance(value, bool) else tuple(list_of(_variable_name, example='["PATH", "HOME"]')(value, path))


def _flag_name(value: Any, path: str) -> str:
    import re

    checked = str(name_text(value, path))
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]+", checked):
        raise wrong(path, "must be long flag names without the dashes, such as 'chrome'.")
    if checked in _RESERVED:
        raise OptionsError(
            f"`{path}` must not contain {checked!r}: {_RESERVED[checked]}", field=f"extra_args.{checked}"
        )
    return checked


_OURS = "Bridle sets it and depends on it."
_RESERVED = {
    "print": _OURS,
    "output-format": _OURS,
    "input-format": _OURS,
    "verbose": _OURS,
    "await-initialize": _OURS,
    "session-mirror": "session stores are not there yet.",
    "version": "it would print a version and exit.",
    "help": "it would print a help text and exit.",
    "bg": "a session in the background has no stream.",
    "background": "a session in the background has no stream.",
}

extra_args = mapping_of(optional(text), key=_flag_name)


def hooks(value: Any, path: str) -> Any:
    """Accept matchers by event."""
    from bridle.hooks.matchers import check_hooks

    return check_hooks(value, path)


def request_callback(value: Any, path: str) -> Any:
    """Accept a plain or async function of one request, which returns the answer."""
    from bridle.checked.functions import check_callback

    return check_callback(value, path, ("request",))


def plain_callback(parameter: str) -> Check:
    """Return the check for plain functions of one argument; they are called where nothing can be awaited."""

    def check(value: Any, path: str) -> Any:
        from bridle.checked.functions import check_callback, is_async

        check_callback(value, path, (parameter,))
        if is_async(value):
            raise wrong(path, "is `async def`, and nobody awaits it: give a plain function.")
        return value

    return check


def trace(value: Any, path: str) -> Any:
    """Accept a function, or the path of a file."""
    return plain_callback("line")(value, path) if callable(value) else path_text(value, path)


def user(value: Any, path: str) -> str | int:
    """Accept the name or number of a user of the operating system."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return whole(value, path)
    return str(name_text(value, path))


def cwd(value: Any, path: str) -> str | None:
    """Accept a path; an empty one means none."""
    return path_text(value, path) or None


def cli_path(value: Any, path: str) -> str:
    """Accept a path with something in it."""
    checked = path_text(value, path)
    if not checked:
        raise wrong(path, "must not be empty; leave it out to have the CLI found.")
    return checked


def uuid(value: Any, path: str) -> str:
    """Accept the text of a UUID."""
    import re

    checked = str(name_text(value, path))
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", checked):
        raise wrong(path, "must be a UUID, such as str(uuid.uuid4()).")
    return checked


# -- values that a file must not set unless it is trusted: the reason and the place, or None ---------------------------

_REFUSED_MODES = ("bypassPermissions", "auto")


def refused_mode(value: Any) -> tuple[str, str] | None:
    """Refuse modes that act without asking."""
    return (f"the mode {value} acts without asking", "permission_mode") if value in _REFUSED_MODES else None


def refused_agent(value: Any) -> tuple[str, str] | None:
    """Refuse agents with such modes, with servers, and with keys that are not known."""
    known = {name for field in AgentDefinition.__fields__.values() for name in (field.name, field.wire)}
    refused = None
    for agent, definition in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(definition, Mapping):
            continue
        if definition.get("permissionMode") in _REFUSED_MODES:
            refused = "its permission mode acts without asking", f"agents.{agent}.permissionMode"
        elif "mcpServers" in definition:
            refused = "servers are programs to run", f"agents.{agent}.mcpServers"
        elif unknown := next((key for key in definition if key not in known), None):
            # The CLI receives such a key as it is: `hooks`, for example, which are programs.
            refused = "nobody here knows what it does", f"agents.{agent}.{unknown}"
    return refused


def refused_prompt(value: Any) -> tuple[str, str] | None:
    """Refuse a prompt that names a file."""
    if isinstance(value, Mapping) and value.get("type") == "file":
        return "it names a file to read, which may hold secrets", "system_prompt.path"
    return None
