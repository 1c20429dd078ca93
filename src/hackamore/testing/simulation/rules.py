"""The permission rules that a simulated CLI knows: modes, rules, and tools that only read."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from hackamore.testing.simulation.facts import FACTS, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

EDITS = frozenset({"Edit", "NotebookEdit", "Write"})
UNASKED = frozenset(FACTS["unasked_tools"])
"""Tools without a permission request."""
_READING = frozenset(FACTS["reading_commands"])
_FILE_COMMANDS = frozenset(FACTS["file_commands"])
"""Commands that `acceptEdits` allows inside the working directory."""
_OPERATORS = frozenset(["|", "||", "&&", ";", "&"])
_DOES = {"cat": "concatenate files from", "ls": "list files in", "head": "read the beginning of files from"}
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Verdict(NamedTuple):
    """The verdict of the rules on one use of a tool.

    Attributes:
        reason: the kind of the reason, as the CLI calls it.
        message: the text for the model if it is denied.
        kind: the CLI's name for a use that did not happen.
        why: the reason in words, if the CLI gives it.
    """

    decision: Literal["allow", "ask", "deny"]
    reason: str | None = None
    message: str = ""
    kind: str = "permission-rule"
    why: str | None = None


def judge(
    tool: str,
    arguments: Mapping[str, Any],
    *,
    mode: str,
    allowed: Iterable[str],
    denied: Iterable[str],
    can_ask: bool,
    folders: Sequence[str],
) -> Verdict:
    """Return what is to happen with a tool; `can_ask` tells whether a host would answer. The first of `folders` is that of the process."""
    if any(rule_matches(rule, tool, arguments) for rule in denied):
        if tool == "Bash":
            message = f"Permission to use Bash with command {arguments.get('command', '')} has been denied."
            return Verdict("deny", "subcommandResults", message)
        return Verdict("deny", "rule", f"Permission to use {tool} has been denied.")
    if mode == "bypassPermissions":
        return Verdict("allow", "mode")
    matching = [rule for rule in allowed if rule_matches(rule, tool, arguments)]
    if matching:
        of_command = tool == "Bash" and not any("(" not in rule for rule in matching)
        return Verdict("allow", "subcommandResults" if of_command else "rule")
    open_parts = _parts_to_ask_about(str(arguments.get("command", ""))) if tool == "Bash" else []
    outside = outside_path(tool, arguments, folders)
    edits = mode == "acceptEdits" and outside is None
    no_edits = [part for part in open_parts if not edits or part.partition(" ")[0] not in _FILE_COMMANDS]
    if tool == "Bash" and not open_parts and outside is None:
        return Verdict("allow", "subcommandResults")
    if tool in UNASKED and outside is None:
        return Verdict("allow", "mode" if tool in ("Glob", "Grep", "Read") else None)
    if edits and (tool in EDITS or (tool == "Bash" and not no_edits)):
        return Verdict("allow", "subcommandResults" if tool == "Bash" else "mode")
    if mode == "dontAsk":
        message = f"Permission to use {tool} has been denied because Claude Code is running in don't ask mode. {TEXTS['no_way_around']}"
        return Verdict("deny", "mode", message)
    compound = tool == "Bash" and open_parts not in ([], [str(arguments.get("command", ""))])
    reason = "subcommandResults" if compound else "workingDir" if outside is not None and tool != "Bash" else None
    why = "Path is outside allowed working directories" if reason == "workingDir" else None
    if can_ask:
        words = _words(arguments) if tool == "Bash" and not compound and outside is None else []
        if words and words[0] not in _FILE_COMMANDS:
            return Verdict("ask", "other", why="This command requires approval")
        return Verdict("ask", reason, why=why)
    if compound:
        parts = "parts require" if len(no_edits) > 1 else "part requires"
        what = f"This Bash command contains multiple operations. The following {parts} approval: {', '.join(no_edits)}"
    elif outside is not None and tool == "Bash":
        what = TEXTS["changes_outside" if open_parts else "reads_outside"].format(
            command=_words(arguments)[0], path=outside, does=_DOES.get(_words(arguments)[0], "read"), folder=folders[0]
        )
    elif (path := blocked_path(tool, arguments, folders)) is not None:
        what = f"{_words(arguments)[0]} in '{path}' needs approval. {TEXTS['asks_before'].format(folder=folders[0])}"
    else:
        use = f"write to {arguments.get('file_path')}" if tool in EDITS else f"use {tool}"
        use = f"read from {arguments.get('file_path')}" if tool == "Read" else use
        what = f"Claude requested permissions to {use}, but you haven't granted it yet."
    return Verdict("deny", reason, what, "user-rejected", why)


def rule_matches(rule: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a permission rule, such as `Bash(git *)`, is about this use of a tool."""
    name, parenthesis, content = rule.partition("(")
    of_server = name.startswith("mcp__") and tool.startswith(f"{name}__")
    if name != tool and not of_server and not ("*" in name and fnmatch.fnmatchcase(tool, name)):
        return False
    if not parenthesis:
        return True
    content = content.removesuffix(")")
    if content in ("", "*"):
        return True
    value = str(arguments.get(_SUBJECT.get(tool, ""), ""))
    if content.endswith(":*"):
        return value == content[:-2] or value.startswith(f"{content[:-2]} ")
    if tool == "Bash":
        return fnmatch.fnmatchcase(value, content) or value == content.removesuffix(" *")
    if tool == "WebFetch" and content.startswith("domain:"):
        return content[7:] == urlsplit(value).hostname
    pattern = content[1:] if content.startswith("//") else content
    return fnmatch.fnmatchcase(value, pattern) or fnmatch.fnmatchcase(value, f"*/{pattern.removeprefix('./')}")


_SUBJECT = {
    "Bash": "command",
    "Edit": "file_path",
    "Read": "file_path",
    "Write": "file_path",
    "Skill": "skill",
    "Task": "subagent_type",
    "WebFetch": "url",
    "WebSearch": "query",
    "Glob": "path",
    "Grep": "path",
}


def blocked_path(tool: str, arguments: Mapping[str, Any], folders: Sequence[str]) -> str | None:
    """Return the path because of which a shell command needs approval, if that can be seen."""
    words = _words(arguments)
    if tool == "Bash" and (outside := outside_path(tool, arguments, folders)) is not None:
        return outside
    if tool != "Bash" or len(words) < 2 or words[0] not in _FILE_COMMANDS:
        return None
    return os.path.join(folders[0], words[-1])


def suggestions(tool: str, arguments: Mapping[str, Any], folders: Sequence[str]) -> list[dict[str, Any]]:
    """Return the permission updates that the CLI would suggest."""
    outside = outside_path(tool, arguments, folders)
    accept = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    if tool in EDITS:
        return [accept] if outside is None else [accept, _add_folder(os.path.dirname(outside))]
    if tool == "Read" and outside is not None:
        return [_add_reading(outside)]
    if tool != "Bash":
        url = urlsplit(str(arguments.get("url", "")))
        content = {"ruleContent": f"domain:{url.hostname}"} if tool == "WebFetch" and url.hostname else {}
        return [_add_rules([{"toolName": tool, **content}])]
    command = str(arguments.get("command", ""))
    open_parts = _parts_to_ask_about(command)
    if not open_parts or open_parts == [command]:
        found = [_add_rules([{"toolName": "Bash", "ruleContent": _rule_for(command)}])]
        words = _words(arguments)
        if not open_parts and outside is not None:
            found.append(_add_reading(outside))
        elif words[1:] and words[0] in _FILE_COMMANDS:
            found += [_add_folder(folders[0] if outside is None else os.path.dirname(outside)), accept]
        return found
    return [_add_rules([{"toolName": "Bash", "ruleContent": _rule_for(part)} for part in open_parts])]


def _add_rules(rules: list[dict[str, str]], destination: str = "localSettings") -> dict[str, Any]:
    return {"type": "addRules", "rules": rules, "behavior": "allow", "destination": destination}


def _add_reading(path: str) -> dict[str, Any]:
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return _add_rules([{"toolName": "Read", "ruleContent": f"/{folder}/**"}], "session")


def _add_folder(folder: str) -> dict[str, Any]:
    return {"type": "addDirectories", "directories": [folder], "destination": "session"}


def _rule_for(command: str) -> str:
    """Return the rule for a command: its first two words if the second one may be a subcommand."""
    words = command.split()
    if len(words) > 1 and _SUBCOMMAND.fullmatch(words[1]) and "=" not in words[0]:
        return f"{words[0]} {words[1]} *"
    return command


def outside_path(tool: str, arguments: Mapping[str, Any], folders: Sequence[str]) -> str | None:
    """Return the first path that is outside of the working directories; None if there is none, or it cannot be seen."""
    if tool in ("Read", *EDITS):
        paths = [str(arguments["file_path"])] if arguments.get("file_path") else []
    else:
        words = _words(arguments) if tool == "Bash" else []
        known = words[:1] and (words[0] in _FILE_COMMANDS or words[0] in _READING)
        paths = [word for word in words[1:] if known and (word[:1] in ("/", "~") or ".." in word.split("/"))]
    for path in paths:
        whole = os.path.normpath(os.path.join(folders[0], os.path.expanduser(path)))
        if whole.startswith((*(f"{folder.rstrip('/')}/" for folder in folders), "/simulated/", "/dev/")):
            continue
        if whole not in folders:
            return whole
    return None


def _words(arguments: Mapping[str, Any]) -> list[str]:
    try:
        return shlex.split(str(arguments.get("command", "")))
    except ValueError:
        return []


def _parts_to_ask_about(command: str) -> list[str]:
    """Return the parts of a shell command that do more than read; the whole command if it cannot be divided."""
    if any(sign in command for sign in ("$(", "`", ">", "<", "\n")):
        return [command]
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in _OPERATORS:
                parts.append([])
            else:
                parts[-1].append(word)
    except ValueError:
        return [command]
    if len(parts) == 1:
        return [] if parts[0] and parts[0][0] in _READING else [command]
    return [" ".join(part) for part in parts if part and part[0] not in _READING]
