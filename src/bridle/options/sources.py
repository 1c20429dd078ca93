"""Where `Options.load` takes values from, and how they are laid over each other.

Priority: explicit arguments, `BRIDLE_<FIELD>` variables, a TOML file that was named, defaults. `env` and `settings`
are merged deeply, `add_dirs` and `extra_args` are put together with the lowest priority first; of every other field
the highest source wins whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.checked.fields import brief, suggestion
from bridle.errors import OptionsError, printable

if TYPE_CHECKING:
    from bridle.checked.fields import Field

__all__ = ["REFUSED_FROM_FILES", "layered", "said_where"]

PREFIX = "BRIDLE_"

_CALLBACKS = frozenset({"can_use_tool", "hooks", "on_elicitation", "on_user_dialog", "on_warning", "stderr"})

_PLAIN_TEXT = frozenset(
    {
        "agent",
        "append_system_prompt",
        "cli_path",
        "client_app",
        "cwd",
        "debug_file",
        "effort",
        "executable",
        "fallback_model",
        "mcp_servers_delivery",
        "model",
        "on_oversize",
        "permission_mode",
        "permission_prompt_tool_name",
        "permission_prompts",
        "plan_mode_instructions",
        "plugin_delivery",
        "project_config_root",
        "prompt_channel",
        "resume",
        "resume_drops_turn",
        "resume_session_at",
        "session_id",
        "title",
        "trace",
        "user",
        "version_check",
    }
)
"""Fields that are text: their variables are taken as they are."""

_TEXT_OR_JSON = frozenset({"debug", "mcp_servers", "settings", "skills", "system_prompt"})
"""Fields that may be text: their variables are JSON if they look like it."""

_DEEP = frozenset({"env", "settings"})
_TOGETHER = frozenset({"add_dirs", "extra_args"})

REFUSED_FROM_FILES: Mapping[str, str] = {
    "cli_path": "it names a program to run",
    "executable": "it names a program to run",
    "executable_args": "they go to a program",
    "env": "variables can redirect the CLI and hold secrets",
    "inherit_env": "it decides which secrets the CLI gets",
    "extra_args": "they can be any flag",
    "settings": "they can define hooks, which are programs",
    "managed_settings": "they are a policy",
    "sandbox": "it can loosen the sandbox",
    "mcp_servers": "they are programs to run",
    "plugins": "they bring programs to run",
    "allowed_tools": "they let tools run without asking",
    "tool_aliases": "they put one tool in the place of another",
    "add_dirs": "they open folders to tools",
    "cwd": "the project settings that are found there can define hooks, which are programs",
    "permission_prompt_tool_name": "it answers permission prompts",
    "allow_dangerously_skip_permissions": "it permits skipping all permission checks",
    "project_config_root": "it names a folder to trust",
    "user": "it is a user of this machine",
    "debug_file": "it names a file to write",
    "trace": "it names a file to write",
}
"""Fields that a file may set only with `trust_file=True`, and why."""

_REFUSED_MODES = ("bypassPermissions", "auto")


def layered(
    fields: Mapping[str, Field],
    file: str | os.PathLike[str] | None,
    trust_file: bool,
    environment: Mapping[str, str] | None,
    explicit: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments for `Options`, layered from all sources."""
    sources = [
        {} if file is None else _from_file(fields, os.fspath(file), trust_file),
        _from_environment(fields, os.environ if environment is None else environment),
        explicit,
    ]
    merged: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            merged[name] = _laid_over(name, merged[name], value) if name in merged else value
    return merged


def said_where(
    field: str | None,
    file: str | os.PathLike[str] | None,
    environment: Mapping[str, str] | None,
    explicit: Mapping[str, Any],
) -> str:
    """Return a sentence about where a wrong field comes from, if its owner did not give it."""
    name = (field or "").replace("[", ".").replace(" ", ".").partition(".")[0]
    if not name or name in explicit:
        return ""
    variable = f"{PREFIX}{name.upper()}"
    if variable in (os.environ if environment is None else environment):
        return f" It was set by the variable {variable}."
    return "" if file is None else f" It was set in the file {printable(os.fspath(file), 300)}."


def _laid_over(name: str, lower: Any, higher: Any) -> Any:
    if name in _DEEP and name != "env":
        lower, higher = _as_object(lower), _as_object(higher)
    if isinstance(lower, Mapping) and isinstance(higher, Mapping):
        if name in _DEEP:
            return _deep(lower, higher)
        if name in _TOGETHER:
            return {**lower, **higher}
    if name in _TOGETHER and isinstance(lower, (list, tuple)) and isinstance(higher, (list, tuple)):
        return [*lower, *higher]
    return higher


def _deep(lower: Mapping[str, Any], higher: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for name, value in higher.items():
        below = merged.get(name)
        merged[name] = _deep(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _as_object(value: Any) -> Any:
    """Return JSON text as the object it is; a path stays a path."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        import json

        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _from_environment(fields: Mapping[str, Field], environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if variable != variable.upper() or name not in fields:
            _refuse_typing_error(variable, name, fields)
            continue
        if name in _CALLBACKS:
            raise OptionsError(f"The variable {variable} cannot set `{name}`: it is a function.", field=name)
        found[name] = _parsed(variable, name, value)
    return found


def _refuse_typing_error(variable: str, name: str, fields: Mapping[str, Field]) -> None:
    import difflib

    # Others may use the prefix (the child's id does); only what is nearly a field is taken for one.
    if difflib.get_close_matches(name, list(fields), n=1, cutoff=0.85):
        hint = suggestion(name, fields)
        raise OptionsError(f"The variable {printable(variable, 100)} sets no option.{hint}", field=name)


def _parsed(variable: str, name: str, value: str) -> Any:
    if name in _PLAIN_TEXT or (name in _TEXT_OR_JSON and not _looks_like_json(value)):
        return value
    import json

    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        # The value itself stays out of the message: it may be secret.
        raise OptionsError(
            f'The variable {variable} must be JSON, such as 5, true, ["a"] or {{"a": 1}}.', field=name
        ) from None


def _looks_like_json(value: str) -> bool:
    return value.strip() in ("true", "false", "null") or value.lstrip()[:1] in ("{", "[", '"')


def _from_file(fields: Mapping[str, Field], file: str, trusted: bool) -> dict[str, Any]:
    import tomllib

    try:
        with open(file, "rb") as source:
            content = tomllib.load(source)
    except OSError as error:
        raise OptionsError(
            f"The options file {printable(file, 300)} cannot be read: {error.strerror}.", field="file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(
            f"The options file {printable(file, 300)} is no TOML: {brief(str(error))}", field="file"
        ) from None
    for name, value in content.items():
        if name not in fields:
            hint = suggestion(name, fields)
            raise OptionsError(f"The options file has an unknown key `{printable(name, 100)}`.{hint}", field=name)
        if name in _CALLBACKS:
            raise OptionsError(f"The options file cannot set `{name}`: it is a function.", field=name)
        if not trusted:
            _refuse_untrusted(name, value)
    return content


def _agent_keys() -> set[str]:
    from bridle.options.kinds import AgentDefinition

    fields = AgentDefinition.__fields__
    return {*fields, *(field.wire for field in fields.values())}


def _refuse_untrusted(name: str, value: Any) -> None:
    reason = REFUSED_FROM_FILES.get(name)
    where = name
    if name == "permission_mode" and value in _REFUSED_MODES:
        reason = f"the mode {value} acts without asking"
    if name == "agents" and isinstance(value, Mapping):
        for agent, definition in value.items():
            if not isinstance(definition, Mapping):
                continue
            if definition.get("permissionMode") in _REFUSED_MODES:
                reason, where = "its permission mode acts without asking", f"agents.{agent}.permissionMode"
            elif "mcpServers" in definition:
                reason, where = "servers are programs to run", f"agents.{agent}.mcpServers"
            elif unknown := next((key for key in definition if key not in _agent_keys()), None):
                # Such a key goes to the CLI as it is: `hooks`, say, which are programs.
                reason, where = "nobody here knows what it does", f"agents.{agent}.{unknown}"
    if name == "system_prompt" and isinstance(value, Mapping) and value.get("type") == "file":
        reason, where = "it names a file to read, which may hold secrets", "system_prompt.path"
    if reason is not None:
        raise OptionsError(
            f"`{printable(where, 200)}` is refused from a file, because {reason}; pass `trust_file=True` if nobody "
            "else can write that file.",
            field=where,
        )
