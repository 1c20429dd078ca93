"""Options that contradict each other, that nothing comes of, or that are nearly something else: the warnings of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridle.checked.fields import suggestion
from bridle.errors import StreamWarning
from bridle.launch.encode import in_process_servers, settings_object
from bridle.launch.table import ROWS, ROWS_BY_NAME, is_given
from bridle.options.kinds import AgentDefinition, SandboxFilesystemConfig, SandboxNetworkConfig, SandboxSettings
from bridle.options.values import SERVERS

if TYPE_CHECKING:
    from bridle.checked.fields import Checked
    from bridle.options.options import Options

__all__ = ["conflicts", "sent_twice"]

_CONFLICTING = [option for option in ROWS if option.row.yields_to or option.row.deprecated]


def conflicts(options: Options) -> list[StreamWarning]:
    """Return a warning for each option that another one overrules or makes pointless."""
    found = []

    def overruled(loser: str, winner: str) -> None:
        message = f"`{winner}` wins over `{loser}`, which is not sent."
        found.append(StreamWarning("OPTION_CONFLICT", message, {"field": loser, "winner": winner}))

    for name, row in ((option.name, option.row) for option in _CONFLICTING):
        if not is_given(getattr(options, name)):
            continue
        if row.yields_to and getattr(options, row.yields_to) is not None:
            overruled(name, row.yields_to)
        elif row.deprecated:
            message = f"`{name}` is deprecated: {row.deprecated}"
            found.append(StreamWarning("DEPRECATED_OPTION", message, {"field": name}))
    if options.sandbox is not None and "sandbox" in settings_object(options):
        overruled("settings.sandbox", "sandbox")
    for field, hint in _misspelt_keys(options):
        message = f"`{field}` is a key that this version does not know; it is sent as it is.{hint}"
        found.append(StreamWarning("OPTION_CONFLICT", message, {"field": field}))
    if options.can_use_tool is not None:
        found.extend(_shadows(options))
    if options.hooks:
        from bridle.hooks.matchers import event_warnings

        found.extend(event_warnings(options.hooks))
    return found


_TAKEN_TOGETHER = frozenset(flag for option in ROWS for flag in option.row.repeats)


def sent_twice(owned: list[tuple[str, str]]) -> list[StreamWarning]:
    """Return a warning for each flag that an option and `extra_args` both set, of which the CLI takes the last alone."""
    senders: dict[str, list[str]] = {}
    for owner, part in owned:
        flag = part.partition("=")[0]
        if owner in ROWS_BY_NAME and flag.startswith("--") and flag not in _TAKEN_TOGETHER:
            senders.setdefault(flag, []).append(owner)
    found = []
    for flag, owners in senders.items():
        if len(owners) > 1 and "extra_args" in owners:
            *losers, winner = owners
            message = f"`{winner}` wins over `{losers[0]}`: both set `{flag}`, and the CLI takes the last one alone."
            found.append(StreamWarning("OPTION_CONFLICT", message, {"field": losers[0], "winner": winner}))
    return found


def _shadows(options: Options) -> list[StreamWarning]:
    """Return a warning for each setting that answers before `can_use_tool` is asked.

    Rules for tools of this process are none: who writes the tool and the callback means to be asked about the others.
    """
    shadows = []
    if options.permission_mode == "bypassPermissions":
        shadows.append(("permission_mode", "permission_mode='bypassPermissions' allows everything"))
    if options.permission_mode == "dontAsk":
        shadows.append(("permission_mode", "permission_mode='dontAsk' denies what is not allowed"))
    # As the CLI writes the names of servers into the names of their tools.
    own = [f"mcp__{re.sub('[^A-Za-z0-9_-]', '_', name)}" for name in in_process_servers(options)]
    whole = [
        rule
        for rule in options.allowed_tools
        if (rule.endswith(("()", "(*)")) or "(" not in rule)
        and not any(rule == server or rule.startswith(f"{server}__") for server in own)
    ]
    if whole:
        shadows.append(("allowed_tools", f"allowed_tools allows {', '.join(whole)} altogether"))
    if options.skills == "all":
        shadows.append(("skills", "skills='all' allows the Skill tool altogether"))
    return [
        StreamWarning("PERMISSION_CALLBACK_SHADOWED", f"{reason}, so `can_use_tool` is not asked.", {"field": field})
        for field, reason in shadows
    ]


def _misspelt_keys(options: Options) -> list[tuple[str, str]]:
    """Return where a dict has a key that is nearly one that is known, and what may have been meant.

    Such a key is sent as it is, for the CLI adds some; one that it does not know it ignores, `{"enable": True}` for a sandbox, say.
    """
    unknown: list[tuple[str, str, list[str]]] = []
    for path, kind, value in _wire_dicts(options):
        known = [field.wire for field in kind.__fields__.values()]
        unknown.extend((path, key, known) for key in value if key not in known)
    if not unknown:
        return []
    import difflib

    return [
        (f"{path}.{key}", suggestion(key, known))
        for path, key, known in unknown
        if difflib.get_close_matches(key, known, n=1, cutoff=0.85)
    ]


def _wire_dicts(options: Options) -> list[tuple[str, type[Checked], Mapping[str, Any]]]:
    given: list[tuple[str, type[Checked], Any]] = [("sandbox", SandboxSettings, options.sandbox)]
    if isinstance(options.sandbox, Mapping):
        given.append(("sandbox.network", SandboxNetworkConfig, options.sandbox.get("network")))
        given.append(("sandbox.filesystem", SandboxFilesystemConfig, options.sandbox.get("filesystem")))
    given.extend((f"agents.{name}", AgentDefinition, agent) for name, agent in (options.agents or {}).items())
    if isinstance(options.mcp_servers, Mapping):
        for name, server in options.mcp_servers.items():
            kind = SERVERS.get(server.get("type", "stdio")) if isinstance(server, Mapping) else None
            if kind is not None:
                given.append((f"mcp_servers.{name}", kind, server))
    return [(path, kind, value) for path, kind, value in given if isinstance(value, Mapping)]
