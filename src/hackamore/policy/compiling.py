"""Policies as permission rules of the CLI. The tests in tests/policy/test_compile_real_cli.py show the facts that this rests on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from hackamore.options.kinds import BUILTIN_TOOL_NAMES
from hackamore.policy.paths import is_name

if TYPE_CHECKING:
    from hackamore.policy.rules import Conditions

EDITORS = ("Edit", "Write", "MultiEdit", "NotebookEdit")
"""The tools that `Edit(...)` is about."""
_PLAIN = re.compile(r"[\w.+-]+")
_PATH = re.compile(r"[\w./*?@%+=:,~-]+")
_AROUND = ("agent", "tags", "spent_over", "annotation")
_NEVER_ALLOWED = {
    "program": "The CLI matches the text of a command, so that its rule would allow more. The CLI asks about all commands.",
    "path": "The CLI ignores case in paths, and a pattern covers all below it, so that its rule would allow more.",
    "domain": "The CLI allows a domain in URLs that the policy does not understand.",
    "server": 'The CLI takes a server\'s name up to the next `__`. Write `tool = "mcp__SERVER__*"` instead.',
    **{name: f"The CLI's rules do not see `{name}`." for name in _AROUND},
}
_COMMANDS = "Of commands, the CLI sees the usual spellings; it asks about others, such as those in `sh -c`."


class Finding(msgspec.Struct, frozen=True):
    """A problem of a rule: of a policy, or of the CLI's settings."""

    kind: str
    """Of policies: `shadowed` (it never decides), `broad` (it allows more than it seems to), `nobody` (no person answers its `ask`),
    `sandbox` (the CLI's sandbox is off), `compile` (the CLI has no such rule). Of settings: `dead` (the CLI never consults it), `broad`,
    `foreign` (the policy does not allow it), `exact` (one command) and `other`: a policy has no such rule."""
    rule: str | None
    """The name of the rule, or the rule as the settings have it; None if the finding is about no rule."""
    sentence: str
    """The problem."""
    advice: str = ""
    """The change that solves it."""
    file: str = ""
    """The file of the rule."""
    level: str = "warning"
    """`error` or `warning`; `note` is for facts that need no change."""


class Compiled(msgspec.Struct, frozen=True):
    """The permission rules of the CLI for a policy. They allow no call that the policy does not allow."""

    settings: dict[str, dict[str, list[str]]]
    """The rules as the CLI's settings have them: `permissions` with `allow`, `ask` and `deny`."""
    missing: tuple[Finding, ...]
    """The rules that are left out, or that mean something else to the CLI."""
    complete: tuple[str, ...]
    """Patterns of tools on which the CLI alone decides as the policy does with a person, for calls that the policy understands."""


def compiled(rules: list[Conditions]) -> Compiled:
    """Return the permission rules of the CLI for a policy."""
    made = _Compiler()
    for rule in sorted(rules, key=lambda rule: rule.allows()):
        made.allow(rule) if rule.allows() else made.strict(rule)
    lists, named = made.lists, {name for rule in rules for name in rule.rule.tool if _PLAIN.fullmatch(name)}
    tools = sorted({*BUILTIN_TOOL_NAMES, *named})
    if lists["allow"]:
        # An `ask` for all would win over each `allow`. The CLI asks about MCP tools without a rule.
        rest = [name for name in tools if name not in lists["allow"] and not name.startswith("mcp__")]
        lists["ask"] += [name for name in rest if name not in lists["ask"]]
        made.missing.append(Finding("compile", None, "Of tools that a newer CLI adds, it may run some without asking."))
    elif "*" not in lists["ask"]:
        lists["ask"].append("*")
    exact = [name for name in (*tools, "mcp__*") if not any(_overlap(name, pattern) for pattern in made.differs)]
    return Compiled({"permissions": lists}, tuple(made.missing), tuple(exact))


def _overlap(one: str, other: str) -> bool:
    return is_name(one, other) or is_name(other, one)


class _Compiler:
    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
        self.missing: list[Finding] = []
        self.differs: set[str] = set()
        """Patterns of tools on which the CLI decides differently."""
        self._left: dict[str, str] = {}
        """Patterns of tools with a strict rule that is left out, so that nothing of them may be allowed."""

    def _miss(self, rule: Conditions, reason: str, *tools: str) -> None:
        self.missing.append(Finding("compile", rule.name, reason))
        self.differs.update(tools)

    def _leave(self, rule: Conditions, reason: str) -> None:
        self._miss(rule, reason, *rule.rule.tool)
        self._left.update(dict.fromkeys(rule.rule.tool, rule.name))

    def _add(self, rule: Conditions, *texts: str) -> None:
        entries = self.lists[rule.decision]
        entries += [text for text in texts if text not in entries]

    def _miss_commands(self, rule: Conditions) -> None:
        if rule.decision == "deny":
            self._miss(rule, _COMMANDS, "Bash")

    def strict(self, rule: Conditions) -> None:
        """Add a rule that asks or denies."""
        fields = rule.rule
        if around := [name for name in _AROUND if getattr(fields, name) is not None]:
            self._leave(rule, _NEVER_ALLOWED[around[0]])
        elif fields.program is not None:
            self._programs(rule)
        elif rule.path is not None:
            self._paths(rule)
        elif fields.domain is not None:
            if rule.concerns("WebFetch") and not any(
                set(name.removeprefix("*.")) & set("*?") for name in fields.domain
            ):
                self._add(rule, *(f"WebFetch(domain:{name})" for name in fields.domain))
                self._miss_commands(rule)
            else:
                self._leave(rule, "The CLI has domains of `WebFetch` only, with `*.` in front at most.")
        else:
            servers = fields.server or ()
            names = [f"mcp__{server}__*" for server in servers] or fields.tool
            if any(re.search(r"[^\w*-]", name) for name in names) or any(
                "*" in name or "__" in name for name in servers
            ):
                self._leave(rule, "The CLI has no such pattern of tools.")
            else:
                self._add(rule, *names)
            if any(map(rule.concerns, ("Read", *EDITORS))) and not rule.concerns("Bash"):
                self._miss_commands(rule)  # The rule also decides on the paths of commands.

    def _programs(self, rule: Conditions) -> None:
        fields = rule.rule
        if rule.decision == "ask":
            return  # The CLI asks about every command.
        others = ("flags", "not_flags", "effect", "path", "domain")
        narrow = [name for name in others if getattr(fields, name) is not None]
        words = [*(fields.program or ()), *(word for verb in rule.verbs or () for word in verb)]
        if narrow or not all(map(_PLAIN.fullmatch, words)):
            self._leave(rule, f"The CLI's rules for commands do not see `{(narrow or ['wildcards'])[0]}`.")
            return
        for program in fields.program or ():
            self._add(rule, *(f"Bash({' '.join((program, *verb))}:*)" for verb in rule.verbs or ((),)))
        self._miss_commands(rule)

    def _paths(self, rule: Conditions) -> None:
        reads, others = rule.concerns("Read"), [name for name in EDITORS if not rule.concerns(name)]
        writes = not {"Edit", "Write"} & set(others)
        patterns = ["/" + "/".join(path) for path in rule.path or ()]
        if rule.not_path or not all(map(_PATH.fullmatch, patterns)) or not (reads or writes):
            self._leave(rule, "The CLI has neither `not_path`, nor some characters, nor paths of such tools alone.")
            return
        for pattern in patterns:
            text = f"/{pattern.removesuffix('/**') or '/**'}"
            self._add(rule, *[f"Read({text})"] * reads, *[f"Edit({text})"] * writes)
            if not pattern.endswith("/**"):
                self._miss(rule, f"For the CLI `{pattern}` also covers all below it.", "Read", *EDITORS)
        if others:
            self._miss(rule, "The CLI's rule is also about other tools that write files.", *others)
        self.differs.update(("Glob", "Grep", "LS", "NotebookRead"))
        self._miss_commands(rule)

    def allow(self, rule: Conditions) -> None:
        """Add a rule that allows, if the CLI's rule cannot match anything else."""
        tools = rule.rule.tool
        if never := [name for name in _NEVER_ALLOWED if getattr(rule.rule, name) is not None]:
            self._miss(rule, _NEVER_ALLOWED[never[0]], "Bash", *tools)
            return
        for tool in tools:
            stricter = [name for pattern, name in self._left.items() if _overlap(pattern, tool)]
            if stricter:
                self._miss(rule, f"The rule {stricter[0]!r} is stricter about `{tool}`, and is left out.", tool)
            elif not _PLAIN.fullmatch(tool) and not re.fullmatch(r"mcp__((?!__)[\w-])+__[\w*-]+", tool):
                self._miss(
                    rule, f"The CLI ignores `{tool}` in `allow`: it needs the name of a tool, or of a server.", tool
                )
            else:
                self._add(rule, tool)
                if tool in EDITORS:
                    self._miss(rule, f"The CLI asks about `{tool}` of some files, such as `.git/config`.", tool)
