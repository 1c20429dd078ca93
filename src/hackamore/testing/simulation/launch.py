"""The command line and the variables of a simulated CLI."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from hackamore.testing.simulation.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

VERSION = "2.1.330"
"""The version of the CLI that is simulated."""

PERMISSION_MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
MODELS: dict[str, str] = FACTS["models"]
"""The models that names stand for."""

_Kind = Literal["switch", "value", "list", "optional"]
_KINDS: dict[str, _Kind] = {name: kind for kind, names in FACTS["flags"].items() for name in names}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_PLACES = {"output-format": "format", "input-format": "format", "permission-mode": "mode"}
_NUMBERS = {
    "max-turns": ("turns", "must be a number"),
    "max-budget-usd": ("amount", "--max-budget-usd must be a number greater than 0"),
}
_SAME = {"allowed-tools": "allowedTools", "disallowed-tools": "disallowedTools"}


class Launch(msgspec.Struct, kw_only=True):
    """The way in which the simulated CLI was started."""

    one_shot: bool = False  # `--print` without `--input-format stream-json`
    output_format: str = "stream-json"
    verbose: bool = False
    sdk_servers: list[str] = []  # the servers of `--mcp-config` that are in the host's process
    warnings: list[str] = []  # texts for stderr
    prompt: str | None = None
    model: str | None = None
    permission_mode: str = "default"
    allowed: list[str] = []
    disallowed: list[str] = []
    tools: list[str] | None = None
    max_turns: int = 0
    budget: float | None = None
    forwards_text: bool = False
    resume: str | None = None
    continues: bool = False
    session_id: str | None = None
    fork: bool = False
    partial: bool = False
    replay: bool = False
    hook_events: bool = False
    asks_host: bool = False
    json_schema: dict[str, Any] | None = None
    cwd: str = "/"
    gateway: str | None = None  # the host of `ANTHROPIC_BASE_URL`
    reports_state: bool = False
    checkpoints: bool = False
    refusal: str | None = None  # the text for stderr before it exits with 1, if its arguments are invalid
    other: dict[str, list[str]] = {}  # every further flag, by name


def resolve_model(name: str | None) -> str:
    """Return the model that a name or an id stands for."""
    return MODELS.get(name or "default", name or "")


def parse_launch(argv: Sequence[str], environment: Mapping[str, str], cwd: str | None = None) -> Launch:
    """Parse the arguments after the program's name, and the variables."""
    found: dict[str, list[str]] = {}
    words: list[str] = []
    refusal: str | None = None
    rest = list(argv)
    while rest:
        part = rest.pop(0)
        if part == "--":
            words += rest
            break
        if not part.startswith("-") or part == "-":
            words.append(part)
            continue
        flag, equals, value = part.partition("=")
        name = FACTS["short_flags"].get(flag, flag[2:] if flag.startswith("--") else "")
        kind = _KINDS.get(name)
        if kind is None:
            refusal = refusal or f"error: unknown option '{flag}'"
            continue
        values = found.setdefault(_SAME.get(name, name), [])
        if equals:
            values.append(value)
        elif kind == "value":
            if not rest:
                refusal = refusal or f"error: option '{flag} <value>' argument missing"
            else:
                values.append(rest.pop(0))
        elif kind == "list":
            while rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
        elif kind == "optional" and rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
    return _build(found, words, refusal, environment, cwd)


def _build(
    found: dict[str, list[str]], words: list[str], refusal: str | None, environment: Mapping[str, str], cwd: str | None
) -> Launch:
    def last(name: str) -> str | None:
        return found[name][-1] if found.get(name) else None

    streams = last("input-format") == "stream-json"
    mode = last("permission-mode") or "default"
    if "dangerously-skip-permissions" in found:
        mode = "bypassPermissions"
    mode = "default" if mode == "manual" else mode
    servers, problem = _servers(found.get("mcp-config", []), cwd or "/")
    refusal = refusal or _command(words) or _complaint(found, last) or problem
    schema: Any = None
    if (text := last("json-schema")) is not None:
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError):
            refusal = refusal or "Error: --json-schema is not valid JSON"
    effort = last("effort")
    warnings = []
    if effort is not None and effort not in EFFORTS:
        warnings.append(
            f"Warning: Unknown --effort value '{effort}' — ignoring it and using the default effort. Valid values: {', '.join(EFFORTS)}."
        )
    tools = found.get("tools")
    turns = last("max-turns") or "0"
    return Launch(
        one_shot=not streams,
        output_format=last("output-format") or "text",
        verbose="verbose" in found,
        sdk_servers=servers,
        warnings=warnings,
        prompt=" ".join(words) if words else None,
        model=last("model"),
        permission_mode=mode,
        allowed=_rules(found.get("allowedTools", [])),
        disallowed=_rules(found.get("disallowedTools", [])),
        tools=None if tools is None or "default" in tools else _rules(tools),
        max_turns=int(turns) if turns.isdigit() else 0,
        budget=_number(last("max-budget-usd")),
        forwards_text="forward-subagent-text" in found,
        resume=last("resume"),
        continues="continue" in found,
        session_id=last("session-id"),
        fork="fork-session" in found,
        partial="include-partial-messages" in found,
        replay="replay-user-messages" in found,
        hook_events="include-hook-events" in found,
        asks_host=last("permission-prompt-tool") == "stdio",
        json_schema=schema if isinstance(schema, dict) else None,
        cwd=cwd or "/",
        gateway=_host(environment.get("ANTHROPIC_BASE_URL", "")),
        reports_state=_is_on(environment.get("CLAUDE_CODE_SDK_READS_SESSION_STATE")),
        checkpoints=_is_on(environment.get("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING")),
        refusal=refusal,
        other=found,
    )


def _command(words: list[str]) -> str | None:
    """Refuse a command: the first word is one, or a prompt."""
    if words[:1] and words[0] in FACTS["cli_commands"]:
        return f"error: the simulated CLI has no command '{words[0]}': it plays conversations only"
    return None


def _complaint(found: dict[str, list[str]], last: Callable[[str], str | None]) -> str | None:
    for name, choices in FACTS["choices"].items():
        value = last(name)
        if value is not None and value not in choices:
            mark = '"' if name == "permission-mode" else ""
            listed = ", ".join(f"{mark}{choice}{mark}" for choice in choices)
            return f"error: option '--{name} <{_PLACES[name]}>' argument '{value}' is invalid. Allowed choices are {listed}."
    for name, (place, why) in _NUMBERS.items():
        value = last(name)
        if value is not None and not (_number(value) or 0) > 0:
            return f"error: option '--{name} <{place}>' argument '{value}' is invalid. {why}"
    streams = last("output-format") == "stream-json"
    both = streams and last("input-format") == "stream-json"
    session_id = last("session-id")
    resumes = "resume" in found or "continue" in found
    checks = (
        (
            session_id is not None and resumes and "fork-session" not in found,
            "--session-id with --continue or --resume also needs --fork-session.",
        ),
        (session_id is not None and not is_uuid(session_id), "Invalid session ID. Must be a valid UUID."),
        (
            last("input-format") == "stream-json" and not streams,
            "--input-format=stream-json requires output-format=stream-json.",
        ),
        (
            "replay-user-messages" in found and not both,
            "--replay-user-messages requires both --input-format=stream-json and --output-format=stream-json.",
        ),
        (
            "include-partial-messages" in found and not streams,
            "--include-partial-messages requires --print and --output-format=stream-json.",
        ),
        (
            streams and "verbose" not in found,
            "When using --print, --output-format=stream-json requires --verbose",
        ),
    )
    return next((f"Error: {text}" for wrong, text in checks if wrong), None)


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID in the form of session ids."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _servers(values: list[str], cwd: str) -> tuple[list[str], str | None]:
    """Return the names of the servers in the host's process, and why the configuration is refused."""
    found: list[str] = []
    for value in values:
        try:
            content = json.loads(value)
        except (ValueError, RecursionError):
            path = os.path.join(cwd, value)
            try:
                with open(path, encoding="utf-8") as file:
                    content = json.load(file)
            except OSError:
                return [], f"Error: Invalid MCP configuration:\nMCP config file not found: {path}"
            except (ValueError, RecursionError):
                return [], f"Error: Invalid MCP configuration:\nMCP config is not a valid JSON: {path}"
        servers = content.get("mcpServers") if isinstance(content, dict) else None
        for name, server in servers.items() if isinstance(servers, dict) else ():
            if isinstance(server, dict) and server.get("type") == "sdk" and name not in found:
                found.append(name)
    return found, None


def _rules(values: list[str]) -> list[str]:
    """Split a joined list at the commas and blanks that stand outside of parentheses."""
    rules: list[str] = []
    for value in values:
        depth = 0
        rule = ""
        for letter in value:
            depth += (letter == "(") - (letter == ")" and depth > 0)
            if depth == 0 and letter in ", ":
                rules.append(rule)
                rule = ""
            else:
                rule += letter
        rules.append(rule)
    return [rule for rule in rules if rule]


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).netloc or None
    except ValueError:
        return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _is_on(value: str | None) -> bool:
    return value is not None and value.strip().lower() in ("1", "true", "yes", "on")
