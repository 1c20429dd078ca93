"""Rules: their fields, the checks of these, and the form of files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hackamore.checked.fields import Checked, choice, fail, name_text, number, option, optional, shown, strings, wrong
from hackamore.errors import OptionsError, PolicyError
from hackamore.policy.paths import components, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hackamore.policy.paths import Here, Machine
    from hackamore.policy.verdict import Decision

Names: TypeAlias = "str | Sequence[str]"
Examples: TypeAlias = "str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]"
EFFECTS = ("read", "write", "run", "change", "any")
"""The effects of a program, from the weakest to the strongest. `any` is also for arguments that the table of programs does not know."""
ANNOTATIONS = {
    "read_only": ("readOnlyHint", False),
    "destructive": ("destructiveHint", True),
    "idempotent": ("idempotentHint", False),
    "open_world": ("openWorldHint", True),
}
"""Annotations of MCP tools, with the default that the protocol gives them."""
WRITERS = ("Edit", "Write", "MultiEdit", "NotebookEdit")
READERS = ("Read", "Glob", "Grep", "LS", "NotebookRead")
_OF_PROGRAMS = ("program", "verb", "flags", "not_flags", "effect")
_INSIDE = "Write where it is: `{repo}/...` with a root, `/...`, `~/...`, or `**/...` for every folder."


def _names(value: Any, path: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (name_text(value, path),)
    found: tuple[str, ...] = strings(value, path)
    if not found:
        raise wrong(path, "must not be empty: it would match nothing. Leave the field out to match everything.")
    return found


def _patterns(value: Any, path: str) -> tuple[str, ...]:
    for text in (found := _names(value, path)):
        if not text.startswith(("/", "~/", "{", "**")) and text != "~":
            raise wrong(path, f"has the pattern {shown(text)}, which is relative. {_INSIDE}")
        if ".." in components(text):
            raise wrong(path, f"has the pattern {shown(text)} with `..`; paths are resolved before they are compared.")
    return found


def _examples(value: Any, path: str) -> tuple[Any, ...]:
    if isinstance(value, (str, dict)):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise fail(path, "a list of calls", value, f'Write `{path} = ["git status"]`.')
    for number_, part in enumerate(value):
        if not isinstance(part, (str, dict)):
            raise fail(f"{path}[{number_}]", "a str or a table with `tool` and `input`", part)
    return tuple(value)


def _tags(value: Any, path: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise fail(path, "a table of names and values", value, 'Write `tags = { tenant = "acme" }`.')
    return {name_text(name, f"{path} (its keys)"): _names(part, f"{path}.{name}") for name, part in value.items()}


class Rule(Checked):
    """One rule of a policy: conditions on a tool call, and the decision on calls that meet all of them.

    Fields that are left out match everything. Lists match if any of their values does. `*` and `?` are wildcards in `tool`, `verb`,
    `flags`, `domain`, `server`, `agent` and `tags`.

    Raises:
        PolicyError: a field has a wrong name, type or value.
    """

    decision: Decision = option(choice("allow", "ask", "deny"))
    """`allow`, `ask` or `deny`. If several rules match a part of a call, the strictest one wins, in any order."""
    name: str = option(name_text, default="")
    """The name in verdicts; by default the number of the rule."""
    tool: Names = option(_names, default=())
    """Names of tools (`Edit`, `mcp__github__*`). By default `Bash` for rules with a program, `mcp__*` with a server, else all."""
    program: Names | None = option(optional(_names), default=None)
    """Programs of shell commands: names without a folder, or whole paths. A rule that allows names them without wildcards."""
    verb: Names | None = option(optional(_names), default=None)
    """Words behind the program that say what it does: `status`, `remote show`."""
    flags: Names | None = option(optional(_names), default=None)
    """Flags of the program. A rule that allows takes no other flags; a rule that asks or denies matches if one of them is there."""
    not_flags: Names | None = option(optional(_names), default=None)
    """Flags with which the rule does not match."""
    effect: str | None = option(optional(choice(*EFFECTS)), default=None)
    """The strongest effect that a rule allows, the weakest that it denies: `read`, `write` (files), `run` (code of the project), `change`
    (everything else), by the table of programs. `any` also allows arguments that are not in the table."""
    path: Names | None = option(optional(_patterns), default=None)
    """Patterns of paths, resolved with their symlinks: `{repo}/**`, `~/.ssh/**`, `**/.env`. `**` is any number of folders."""
    not_path: Names | None = option(optional(_patterns), default=None)
    """Paths that `path` does not mean."""
    domain: Names | None = option(optional(_names), default=None)
    """Domains of `WebFetch` and of programs that download: `example.com`, `*.example.com`."""
    server: Names | None = option(optional(_names), default=None)
    """MCP servers of a tool, the middle of `mcp__github__create_issue`."""
    annotation: str | None = option(
        optional(choice(*ANNOTATIONS, *(f"not {name}" for name in ANNOTATIONS))), default=None
    )
    """An annotation of the MCP tool: `read_only`, `destructive`, `idempotent` or `open_world`; with `not` in front, its absence."""
    agent: Names | None = option(optional(_names), default=None)
    """Types of subagents; `main` is the agent of the conversation."""
    tags: Mapping[str, Names] | None = option(optional(_tags), default=None)
    """Tags of the host with the values that match; all of them have to."""
    spent_over: float | None = option(optional(number(0)), default=None)
    """US dollars: the rule counts only after the session has cost more."""
    reason: str = option(name_text, default="")
    """The sentence that people and the model get."""
    match: Examples = option(_examples, default=())
    """Examples that the rule decides: commands, paths, URLs, or tables with `tool` and `input`. They are checked at load."""
    not_match: Examples = option(_examples, default=())
    """Examples that the rule does not decide."""

    def _fill(self, given: dict[str, Any]) -> None:
        name = given.get("name")
        try:
            super()._fill(given)
        except OptionsError as error:
            raise PolicyError(str(error), rule=name if isinstance(name, str) else "", field=error.field) from None

    def _check_together(self) -> None:
        values: dict[str, Any] = self.__dict__
        of_programs = [name for name in _OF_PROGRAMS if getattr(self, name) is not None]
        if not self.tool:
            values["tool"] = ("Bash",) if of_programs else ("mcp__*",) if self.server or self.annotation else ("*",)
        if of_programs and self.program is None:
            raise wrong(of_programs[0], 'needs `program`: write which programs it is about, such as `program = "git"`.')
        if of_programs and not any(is_name(tool, "Bash") for tool in self.tool):
            raise wrong("program", "is about shell commands, but `tool` does not name `Bash`. Leave `tool` out.")
        for name in ("flags", "not_flags"):
            if words := [word for word in getattr(self, name) or () if word[:1] not in "-*?["]:
                raise wrong(
                    name, f"has {shown(words[0])}, which does not begin with `-`. Write words without `-` as `verb`."
                )
        if words := [word for word in self.program or () if " " in word and "/" not in word]:
            raise wrong("program", f"has {shown(words[0])}: write the words behind the name of the program as `verb`.")
        if self.not_path and not self.path:
            raise wrong("not_path", 'needs `path`: write what it takes away from, such as `path = "**"`.')
        if self.decision == "allow":
            self._check_allowed()

    def _check_allowed(self) -> None:
        if any(set(name) & set("*?") for name in self.program or ()):
            problem = "must name each program that is allowed. A wildcard would allow programs that you never saw."
            raise wrong("program", problem)
        if "Bash" in self.tool and not (self.program or self.path or self.domain):
            problem = "allows every shell command with `Bash`. Name the programs: `program`; or the paths: `path`."
            raise wrong("tool", problem)


class Surroundings(NamedTuple):
    """The facts about a call beside its tool and input."""

    agent: str
    spent: float
    tags: Mapping[str, str]
    annotations: Mapping[str, Any]


class Conditions:
    """A rule as the engine uses it: with its name, its roots filled in, and its patterns taken apart."""

    def __init__(
        self, rule: Rule, name: str, roots: Mapping[str, str], expand: Callable[[str], str] = os.path.expanduser
    ) -> None:
        self.rule: Rule = rule
        self._expand = expand
        self.name: str = name
        self.decision: Decision = rule.decision
        self.path: tuple[tuple[str, ...], ...] | None = self._patterns(rule.path, "path", roots)
        self.not_path: tuple[tuple[str, ...], ...] = self._patterns(rule.not_path, "not_path", roots) or ()
        self.effect: int | None = EFFECTS.index(rule.effect) if rule.effect else None
        self.verbs: tuple[tuple[str, ...], ...] | None = (
            None if rule.verb is None else tuple(tuple(verb.split()) for verb in rule.verb)
        )

    def _patterns(
        self, patterns: Names | None, field: str, roots: Mapping[str, str]
    ) -> tuple[tuple[str, ...], ...] | None:
        if patterns is None:
            return None
        found = []
        for pattern in patterns:
            text = pattern
            if text.startswith("{"):
                root, _, rest = text[1:].partition("}")
                if root not in roots:
                    known = ", ".join(map(repr, roots)) or "none"
                    raise PolicyError(
                        f"`{field}` has the root {shown(root)}, which is not in `roots` ({known}). Pass it: "
                        f'`roots={{"{root}": "."}}`.',
                        rule=self.name,
                        field=field,
                    )
                text = roots[root] + rest
            found.append(components(self._expand(text)))
        return tuple(found)

    def allows(self) -> bool:
        """Return whether the rule allows."""
        return self.decision == "allow"

    def is_whole(self) -> bool:
        """Return whether the rule is about whole tools, not about paths, domains or programs."""
        return self.path is None and self.rule.domain is None and self.rule.program is None

    def concerns(self, tool: str) -> bool:
        """Return whether the rule names a tool."""
        return any(is_name(pattern, tool) for pattern in self.rule.tool)

    def holds(self, tool: str, around: Surroundings) -> bool:
        """Return whether the conditions on the surroundings of a call are met: agent, cost, tags, server and annotations."""
        rule = self.rule
        if rule.spent_over is not None and not around.spent > rule.spent_over:
            return False
        if rule.agent is not None and not any(is_name(pattern, around.agent) for pattern in rule.agent):
            return False
        if rule.tags is not None and not all(
            name in around.tags and any(is_name(pattern, str(around.tags[name])) for pattern in patterns)
            for name, patterns in rule.tags.items()
        ):
            return False
        if rule.server is not None:
            # A server may have `__` in its name: a rule that allows has to mean all that the name of the tool can be read as.
            head, _, rest = tool.partition("__")
            servers = {"__".join(rest.split("__")[:end]) for end in range(1, rest.count("__") + 1)}
            meant = [any(is_name(pattern, server) for pattern in rule.server) for server in servers]
            if head != "mcp" or not meant or not (all(meant) if self.allows() else any(meant)):
                return False
        return rule.annotation is None or self._annotated(rule.annotation, around.annotations)

    def _annotated(self, wanted: str, annotations: Mapping[str, Any]) -> bool:
        name = wanted.removeprefix("not ")
        hint, default = ANNOTATIONS[name]
        given = annotations.get(hint)
        value = given if isinstance(given, bool) else default
        if name == "destructive" and annotations.get("readOnlyHint") is True and given is None:
            value = False
        return value is (name == wanted)


def checked_roots(roots: Mapping[str, Any] | None, machine: Machine | Here) -> dict[str, str]:
    """Return the roots as absolute paths of a machine, without symlinks if it is this one.

    Raises:
        PolicyError: a root is not a path.
    """
    found = {}
    for name, value in (roots or {}).items():
        try:
            path = machine.expand(os.fspath(value))
        except TypeError:
            raise PolicyError(f"`roots[{name!r}]` must be a path, got {shown(value)}.", field="roots") from None
        if machine.name and not path.startswith("/"):
            raise PolicyError(f"`roots[{name!r}]` must be an absolute path of {machine.name}.", field="roots")
        found[name] = machine.resolve(path)
    return found
