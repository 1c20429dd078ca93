"""Permission rules of the CLI's settings, as rules of a policy."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from hackamore.checked.fields import brief
from hackamore.errors import PolicyError, escape_terminal
from hackamore.policy.compiling import EDITORS, Finding
from hackamore.policy.rules import READERS, Rule
from hackamore.policy.verdict import STRICTNESS

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"(?!-)[\w./+@:-]+")
_ADVICE = "Write a rule of the policy."
_FIELDS = ("name", "tool", "program", "verb", "effect", "path", "domain", "decision")


def toml(rules: Iterable[Rule], untranslated: Iterable[Finding]) -> str:
    """Return rules as the text of a TOML file, with the rules that are not translated as comments."""
    texts = [f"# Not translated: {escape_terminal(each.sentence)}".replace("\n", " ") for each in untranslated]
    for rule in rules:
        rows = [f"{name} = {_toml(getattr(rule, name))}" for name in _FIELDS if getattr(rule, name)]
        texts.append("\n".join(["[[rule]]", *rows]))
    return "\n\n".join(texts) + "\n"


def _toml(value: str | tuple[str, ...]) -> str:
    one = value if isinstance(value, str) else value[0] if len(value) == 1 else list(value)
    return json.dumps(one, ensure_ascii=False)


def imported(
    source: str | os.PathLike[str] | Mapping[str, Any], project: str = ""
) -> tuple[list[Rule], str, str, tuple[Finding, ...]]:
    """Return the rules of settings, the folder of their paths, their file, and what is not translated."""
    file = "" if isinstance(source, Mapping) else os.fspath(source)
    settings = source if isinstance(source, Mapping) else settings_of(file)
    folder = os.path.dirname(os.path.abspath(file)) if file else os.getcwd()
    root = os.path.realpath(project or (os.path.dirname(folder) if os.path.basename(folder) == ".claude" else folder))
    block = settings if set(settings) & set(STRICTNESS) else settings.get("permissions", {})
    if not isinstance(block, Mapping):
        raise PolicyError(f"`permissions` must be an object, got {brief(block)}.", file=file, field="permissions")
    rules: list[Rule] = []
    missing = [
        Finding("other", name, f"`{name}` is an option of the session.", _ADVICE, file)
        for name in ("defaultMode", "additionalDirectories")
        if name in block
    ]
    for decision in STRICTNESS:
        entries = block.get(decision, [])
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            field = f"permissions.{decision}"
            raise PolicyError(f"`{field}` must be a list of texts.", file=file, field=field)
        for entry in dict.fromkeys(entries):
            found = _translated(entry, decision)
            if isinstance(found, tuple):
                missing.append(Finding(found[0], entry, f"`{decision}` has `{entry}`. {found[1]}", _ADVICE, file))
            else:
                rules.append(Rule(**found, decision=decision, name=f"{decision} {entry}"))
    return rules, root, file, tuple(missing)


def settings_of(file: str) -> dict[str, Any]:
    """Return the settings of a file, or of a JSON text."""
    try:
        with open(file, encoding="utf-8-sig") if not file.lstrip().startswith("{") else StringIO(file) as stream:
            settings = json.load(stream)
    except (OSError, ValueError, RecursionError) as error:
        raise PolicyError(
            f"The settings cannot be read: {error}. Pass a file such as settings.json.", file=file
        ) from None
    if not isinstance(settings, dict):
        raise PolicyError(f"The settings must be a JSON object, got {brief(settings)}.", file=file)
    return settings


def _translated(entry: str, decision: str) -> dict[str, Any] | tuple[str, str]:
    """Return the fields of the rule that means the same as one of the CLI; or the kind of finding, and the reason why there is none."""
    tool, bracket, rest = entry.partition("(")
    text = rest[:-1].strip()
    if not entry.isprintable() or not re.fullmatch(r"[\w*-]+", tool) or (bracket and not rest.endswith(")")):
        return "dead", "It is not the name of a tool with an optional part in brackets."
    if text in ("", "*"):
        if tool == "Bash" and decision == "allow":
            return "broad", "It allows every command."
        if decision == "allow" and "*" in tool and not re.fullmatch(r"mcp__((?!__)[\w-])+__[\w*-]+", tool):
            return "dead", "The CLI ignores it in `allow`: it needs the name of a tool, or of a server."
        return {"tool": f"{tool}__*" if re.fullmatch(r"mcp__((?!__)[\w-])+", tool) else tool}
    if tool in ("Read", "Edit"):
        # The CLI also denies writing where it denies reading.
        tools = EDITORS if tool == "Edit" else (*READERS, *EDITORS) if decision == "deny" else READERS
        return {"tool": tools, "path": path} if (path := _path(text)) else ("other", "A policy has no such paths.")
    if tool in (*EDITORS, *READERS):
        return "dead", f"The CLI never consults it: it wants `{'Edit' if tool in EDITORS else 'Read'}({text})`."
    if tool == "WebFetch":
        domain = text.removeprefix("domain:").strip()
        good = text.startswith("domain:") and re.fullmatch(r"(\*\.)?[\w.-]+", domain)
        return {"tool": tool, "domain": domain} if good else ("other", "Only `domain:` has a meaning for `WebFetch`.")
    if tool == "Bash":
        return _command(text, {"effect": "any"} if decision == "allow" else {})
    return "dead" if tool.startswith("mcp__") else "other", f"A policy does not see the input of `{tool}`."


def _command(text: str, effect: dict[str, str]) -> dict[str, Any] | tuple[str, str]:
    if text.startswith("command:"):
        return "dead", "The CLI never consults it, because of `command:`."
    start = text.removesuffix(":*") if text.endswith(":*") else text.removesuffix(" *")
    program, *verb = start.split() or [""]
    if "*" in start:
        return "broad", "`*` also matches spaces, options and other words, so that it means far more than it seems to."
    if start == text:
        return "exact", "It is one exact command; a policy has programs with verbs."
    if not all(map(_WORD.fullmatch, (program, *verb))):
        return "other", "A policy names a program and its verbs, without options and variables."
    return {"program": program, **effect, **({"verb": " ".join(verb)} if verb else {})}


def _path(text: str) -> str:
    """Return the pattern of a policy for one of the CLI, which reads it as git reads its ignore files; empty if there is none."""
    if set(text) & set("!#[]\\{}") or ".." in text.split("/"):
        return ""
    anchored = "{project}/" if "/" in text.rstrip("/") else "{project}/**/"
    whole = (
        text[1:]
        if text.startswith("//")
        else text
        if text.startswith("~/")
        else anchored + text.removeprefix("./").lstrip("/")
    )
    return whole.rstrip("/").removesuffix("/**") + "/**"
