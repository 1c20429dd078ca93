"""Policies: rules with their examples, and the decision on a call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from hackamore.checked.fields import brief, build, shown, suggestion
from hackamore.errors import OptionsError, PolicyError, escape_terminal
from hackamore.policy.paths import Here, Machine, Target, components, is_domain, is_name, matches_target, target_of
from hackamore.policy.rules import READERS, WRITERS, Conditions, Rule, Surroundings, checked_roots
from hackamore.policy.scripts import domain_of
from hackamore.policy.uses import UNKNOWN, PathUse, ProgramUse
from hackamore.policy.verdict import STRICTNESS, Decision, Part, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hackamore.options.options import Options
    from hackamore.policy.compiling import Compiled, Finding
    from hackamore.policy.replaying import Replayed

Place: TypeAlias = "str | os.PathLike[str]"
Roots: TypeAlias = "Mapping[str, Place]"
Resolver: TypeAlias = "Callable[[str], str]"
_PATH_INPUTS = {
    "Glob": "path",
    "Grep": "path",
    "LS": "path",
    "NotebookEdit": "notebook_path",
    "NotebookRead": "notebook_path",
}
_MAY_LACK_PATH = ("Glob", "Grep", "LS")
_LONGEST_TEXT = 300


class _Call(NamedTuple):
    tool: str
    input: Mapping[str, Any]
    surroundings: Surroundings
    cwd: str
    fallback: Decision = "ask"
    rules: tuple[Conditions, ...] = ()
    """The rules whose surroundings hold, of all tools: the paths of a shell command are decided by the rules of `Read` and `Write`."""


class CaseResult(msgspec.Struct, frozen=True):
    """One case of `Policy.test`."""

    name: str
    """The name in the file, or the call."""
    expected: Decision
    verdict: Verdict

    @property
    def passed(self) -> bool:
        """Whether the decision is the expected one."""
        return self.verdict.decision == self.expected


class Policy:
    """Rules on the tool calls of an agent. A policy is immutable.

    The strictest decision on any part of a call wins. A part without a matching rule becomes `ask` if there is a person, and `deny`
    otherwise. The same holds for a shell command that was not fully understood.

    Args:
        rules: the rules; their order does not matter.
        roots: folders by name, for patterns such as `{repo}/**`.
        resolve: the function that returns a path without symlinks; `os.path.realpath` by default.
        file: the file that errors name.
        machine: the machine that the CLI runs on, if it is another one: rules, roots and calls have paths of that one.

    Raises:
        PolicyError: a rule is wrong, or one of its examples does not hold.

    Example:
        ::

            policy = Policy([Rule(program="git", verb=["status", "log"], decision="allow")])
            policy.decide("Bash", {"command": "git push"}).decision      # "ask"
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        roots: Roots | None = None,
        resolve: Resolver | None = None,
        file: str = "",
        machine: Machine | None = None,
    ) -> None:
        self._rules: tuple[Rule, ...] = tuple(rules)
        self._machine: Machine | Here = machine or Here()
        self._roots: dict[str, str] = checked_roots(roots, self._machine)
        self._resolve: Callable[[str], str] = resolve or self._machine.resolve
        self._file: str = file
        self._conditions: list[Conditions] = []
        names: set[str] = set()
        for number, rule in enumerate(self._rules, 1):
            if not isinstance(rule, Rule):
                raise PolicyError(f"`rules[{number - 1}]` must be a Rule, got {shown(rule)}.", file=file)
            name = rule.name or f"rule {number}"
            if name in names:
                raise PolicyError(
                    f"Two rules have the name {name!r}. Verdicts name the rule: rename one.", file=file, rule=name
                )
            names.add(name)
            try:
                self._conditions.append(Conditions(rule, name, self._roots, self._machine.expand))
            except PolicyError as error:
                raise PolicyError(error.problem, file=file, rule=name, field=error.field or "") from None
        for conditions in self._conditions:
            self._check_examples(conditions)

    def __repr__(self) -> str:
        return f"<Policy {self._file or 'in Python'}: {len(self._rules)} rules>"

    # -- making ----------------------------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: Place,
        *,
        roots: Roots | None = None,
        resolve: Resolver | None = None,
        machine: Machine | None = None,
    ) -> Policy:
        """Read a policy from a TOML file.

        Args:
            path: the file.
            roots: folders by name, for patterns such as `{repo}/**`.
            resolve: the function that returns a path without symlinks; `os.path.realpath` by default.
            machine: the machine that the CLI runs on; None for this one.

        Returns:
            The policy; its examples hold.

        Raises:
            PolicyError: the file cannot be read, a rule is wrong, or one of its examples does not hold.
        """
        name = os.fspath(path)
        return cls.parse(_text_of(name), roots=roots, resolve=resolve, file=name, machine=machine)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        roots: Roots | None = None,
        resolve: Resolver | None = None,
        file: str = "",
        machine: Machine | None = None,
    ) -> Policy:
        """Read a policy from the text of a TOML file.

        Args:
            text: the text; each rule is a table `[[rule]]`.
            roots: folders by name, for patterns such as `{repo}/**`.
            resolve: the function that returns a path without symlinks; `os.path.realpath` by default.
            file: the file that errors name.
            machine: the machine that the CLI runs on; None for this one.

        Returns:
            The policy; its examples hold.

        Raises:
            PolicyError: the text is not TOML, a rule is wrong, or one of its examples does not hold.
        """
        rules: list[Rule] = []
        for number, row in enumerate(_rows(text, file, "rule"), 1):
            try:
                rules.append(build(Rule, row, "rule"))
            except OptionsError as error:
                inner = error.__context__ if isinstance(error.__context__, PolicyError) else error
                problem = inner.problem if isinstance(inner, PolicyError) else str(inner)
                name = row.get("name")
                raise PolicyError(
                    problem, file=file, rule=name if isinstance(name, str) else f"rule {number}", field=inner.field
                ) from None
        return cls(rules, roots=roots, resolve=resolve, file=file, machine=machine)

    @classmethod
    def read_only(cls, *, machine: Machine | None = None) -> Policy:
        """Return the shipped policy for agents that only read.

        Args:
            machine: the machine that the CLI runs on; None for this one.

        Returns:
            The policy of `hackamore/policy/read_only.toml`, a file to copy.
        """
        return cls.load(os.path.join(os.path.dirname(__file__), "read_only.toml"), machine=machine)

    @classmethod
    def coding(cls, root: Place, *, machine: Machine | None = None) -> Policy:
        """Return the shipped policy for agents that work in a folder.

        Args:
            root: the folder that the agent may change.
            machine: the machine that the CLI runs on, and that `root` is a path of; None for this one.

        Returns:
            The policy of `hackamore/policy/coding.toml`, a file to copy.
        """
        return cls.load(os.path.join(os.path.dirname(__file__), "coding.toml"), roots={"root": root}, machine=machine)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in their order."""
        return self._rules

    @property
    def roots(self) -> dict[str, str]:
        """The roots with their resolved paths."""
        return dict(self._roots)

    @property
    def machine(self) -> Machine | None:
        """The machine that paths are of; None for this one."""
        return self._machine if isinstance(self._machine, Machine) else None

    @property
    def file(self) -> str:
        """The file of the policy; empty for rules in Python."""
        return self._file

    # -- deciding --------------------------------------------------------------------------------------------------------

    def decide(
        self,
        tool_name: str,
        tool_input: Mapping[str, Any],
        *,
        agent: str | None = None,
        spent: float = 0.0,
        tags: Mapping[str, str] | None = None,
        annotations: Mapping[str, Any] | None = None,
        cwd: Place | None = None,
        person: bool = True,
    ) -> Verdict:
        """Decide on a tool call.

        Args:
            tool_name: the name of the tool, such as `Bash`.
            tool_input: its input.
            agent: the type of the subagent; None for the agent of the conversation.
            spent: the cost of the session so far, in US dollars.
            tags: tags of the host, such as `{"tenant": "acme"}`.
            annotations: the annotations of an MCP tool, as its server reports them; None if they are not known.
            cwd: the working directory of the call; None for that of this process.
            person: whether a person can answer. Without one, `ask` becomes `deny`.

        Returns:
            The verdict; it is `allow` only if every part of the call was understood and is allowed.

        Raises:
            PolicyError: a shell command is to be decided, and `hackamore[policy]` is not installed.
        """
        around = Surroundings(agent or "main", spent, tags or {}, annotations or {})
        call = _Call(tool_name, tool_input, around, os.path.abspath(cwd or os.curdir), "ask" if person else "deny")
        return self._decide(self._conditions, call)

    def _decide(self, conditions: list[Conditions], call: _Call) -> Verdict:
        call = call._replace(rules=tuple(rule for rule in conditions if rule.holds(call.tool, call.surroundings)))
        parts, unclear = (self._decide_command if call.tool == "Bash" else self._decide_tool)(call)
        verdict = _verdict(parts, unclear, call.fallback)
        if not self._machine.name or call.tool not in (*READERS, *WRITERS, "Bash"):
            return verdict
        side = f"{verdict.reason} Paths are those of {self._machine.name}, whose links are not followed."
        return msgspec.structs.replace(verdict, reason=side)

    def _decide_tool(self, call: _Call) -> tuple[list[Part], list[str]]:
        text, target, domain, unclear = call.tool, None, None, []
        if call.tool in READERS or call.tool in WRITERS:
            path = call.input.get(_PATH_INPUTS.get(call.tool, "file_path"))
            if path is None and call.tool in _MAY_LACK_PATH:
                path = call.cwd
            pattern = call.input.get("pattern") if call.tool == "Glob" else None
            if not isinstance(path, str) or not path or "\0" in path or not isinstance(pattern, str | None):
                unclear.append(f"the path of `{call.tool}` is missing or not a text")
            else:
                if pattern is not None and (pattern.startswith(("/", "~")) or ".." in components(pattern)):
                    unclear.append("the pattern of `Glob` leaves its folder")
                if self._machine.name and path.startswith("~") and self._machine.expand(path) == path:
                    unclear.append(f"the path of `{call.tool}` begins in the home of another user")
                text = path
                target, problem = target_of(self._machine.expand(path), call.cwd, self._resolve)
                unclear += [f"the path of `{call.tool}`: {problem}"] if problem else []
        elif call.tool == "WebFetch":
            text, domain = domain_of(call.input.get("url"))
            if domain is None:
                unclear.append("the URL of `WebFetch` has no domain that can be read")
        matching = [
            rule
            for rule in call.rules
            if rule.concerns(call.tool)
            and rule.rule.program is None
            and (rule.path is None or _path_matches(rule, target))
            and (rule.rule.domain is None or (domain is not None and _domain_matches(rule, [domain])))
        ]
        return [_part("tool", text, matching, call.fallback, f"No rule matches {_quoted(text)}.")], unclear

    def _decide_command(self, call: _Call) -> tuple[list[Part], list[str]]:
        from hackamore.policy.shell import read_command

        reading = read_command(call.input.get("command"), call.cwd, self._resolve, self._machine.expand)
        unclear = list(reading.cannot_tell)
        if call.input.get("dangerouslyDisableSandbox"):
            unclear.append("the command leaves the sandbox")
        if not reading.uses and not unclear:
            unclear.append("the command is empty")
        # Rules on all of `Bash` ask or deny, also about a command that cannot be read; they never allow.
        whole = [rule for rule in call.rules if rule.concerns("Bash") and rule.is_whole() and not rule.allows()]
        parts = [_part("tool", "Bash", whole, call.fallback, "")] if whole else []
        for use in reading.uses:
            if isinstance(use, ProgramUse):
                matching = [rule for rule in call.rules if rule.concerns("Bash") and _program_matches(rule, use)]
                missing = f"No rule allows {_quoted(use.text)}" + (f": {use.problem}." if use.problem else ".")
                parts.append(_part("program", use.text, matching, call.fallback, missing))
            elif isinstance(use, PathUse):
                parts.append(self._decide_path(call, use))
            else:
                matching = [
                    rule
                    for rule in call.rules
                    if rule.rule.domain is not None
                    and rule.rule.program is None
                    and (rule.concerns("Bash") or rule.concerns("WebFetch"))
                    and _domain_matches(rule, [use])
                ]
                parts.append(_part("domain", use, matching, "allow", "The rule of the program decides."))
        return parts, unclear

    def _decide_path(self, call: _Call, use: PathUse) -> Part:
        tools = WRITERS[:2] if use.writes else READERS[:1]
        matching = []
        for rule in call.rules:
            # A rule on a whole tool allows no path of a shell command.
            fits = rule.is_whole() and not rule.allows() and not rule.concerns("Bash")
            if rule.rule.program is None and rule.rule.domain is None and (fits or _path_matches(rule, use.target)):
                matching += [rule] if any(map(rule.concerns, (*tools, "Bash"))) else []
        kind = "redirect" if use.redirect else "path"
        if use.target is not None and any(place[-1:] == ("**",) for place in use.target.places):
            # A rule on something below a folder does not deny the whole folder: that is for a person to say.
            itself = use.target._replace(places=tuple(place[:-1] for place in use.target.places))
            unsure = [
                rule
                for rule in matching
                if not (rule.allows() or _path_matches(rule, use.target, wholly=True) or _path_matches(rule, itself))
            ]
            if use.walks:
                places = [rule for rule in unsure if _path_matches(rule, use.target, anchored=True)]
                matching = [rule for rule in matching if rule not in unsure or rule in places]
                unsure = places
            if unsure:
                sure = [rule for rule in matching if rule not in unsure and not rule.allows()]
                text = f"The rule {unsure[0].name!r} may concern something below {_quoted(use.text)}."
                return _part(kind, use.text, sure, call.fallback, text)
        if use.target is None and (
            use.writes or any(rule.path is not None and not rule.allows() for rule in call.rules)
        ):
            unclear = f"It cannot be said which path {_quoted(use.text)} is: {use.problem}."
            return _part(kind, use.text, [rule for rule in matching if not rule.allows()], call.fallback, unclear)
        if use.writes:
            return _part(kind, use.text, matching, call.fallback, f"No rule allows writing {_quoted(use.text)}.")
        return _part(kind, use.text, matching, "allow", "The rule of the program decides.")

    # -- showing ---------------------------------------------------------------------------------------------------------

    def explain(
        self,
        tool_name: str,
        tool_input: Mapping[str, Any],
        *,
        agent: str | None = None,
        spent: float = 0.0,
        tags: Mapping[str, str] | None = None,
        annotations: Mapping[str, Any] | None = None,
        cwd: Place | None = None,
        person: bool = True,
    ) -> str:
        """Explain a decision: the parts of the call, the rule of each, and the change that would make a difference.

        Args:
            tool_name: the name of the tool, such as `Bash`.
            tool_input: its input.
            agent, spent, tags, annotations, cwd, person: as in `decide`.

        Returns:
            A text of some lines.

        Raises:
            PolicyError: a shell command is to be explained, and `hackamore[policy]` is not installed.
        """
        from hackamore.policy.explaining import explanation

        around = Surroundings(agent or "main", spent, tags or {}, annotations or {})
        call = _Call(tool_name, tool_input, around, os.path.abspath(cwd or os.curdir), "ask" if person else "deny")
        return explanation(tool_name, self._decide(self._conditions, call))

    def test(self, path: Place) -> tuple[CaseResult, ...]:
        """Run the cases of a TOML file.

        Args:
            path: the file. Each case is a table `[[case]]` with `decision`, and `command` or `tool` with `input`; it may have `name`,
                `agent`, `spent`, `tags`, `annotations`, `cwd` and `person`.

        Returns:
            The results, in the order of the file.

        Raises:
            PolicyError: the file cannot be read, or a case is wrong.
        """
        from hackamore.policy.explaining import case

        name = os.fspath(path)
        results = []
        for number, row in enumerate(_rows(_text_of(name), name, "case"), 1):
            title, expected, given = case(row, number, name)
            call = {key: self._with_roots(value) for key, value in given.items()}
            call["tool_input"] = {key: self._with_roots(value) for key, value in call["tool_input"].items()}
            results.append(CaseResult(title, expected, self.decide(**call)))
        return tuple(results)

    # -- beside the CLI --------------------------------------------------------------------------------------------------

    @classmethod
    def from_settings(cls, source: Place | Mapping[str, Any]) -> tuple[Policy, tuple[Finding, ...]]:
        """Translate permission rules of the CLI's settings into a policy.

        Args:
            source: a settings file, its content, or the block `permissions` of it.

        Returns:
            The policy, and the rules without an equal. Its root `{project}` is the folder above `.claude`, or the working directory.

        Raises:
            PolicyError: the file cannot be read, or is not a settings file.
        """
        from hackamore.policy.importing import imported

        rules, root, file, untranslated = imported(source)
        return cls(rules, roots={"project": root}, file=file), untranslated

    def compile(self) -> Compiled:
        """Compile the policy to permission rules of the CLI, which allow no call that the policy does not allow.

        Returns:
            The rules as `settings`, with `missing`: what they cannot express.
        """
        from hackamore.policy.compiling import compiled

        return compiled(self._conditions)

    def lint(self, options: Options | None = None) -> tuple[Finding, ...]:
        """Find rules that never decide, and settings of the CLI that do not fit.

        Args:
            options: the options of the sessions; None checks the policy and the settings files of its first root.

        Returns:
            The findings; those with the level `note` need no change.

        Raises:
            PolicyError: a settings file cannot be read, or a shell command is to be decided without `hackamore[policy]`.
        """
        from hackamore.policy.linting import findings

        return findings(self._conditions, self._file, self._roots, self.decide, options)

    def replay(
        self, source: Place, *, cwd: Place | None = None, tags: Mapping[str, str] | None = None
    ) -> tuple[Replayed, ...]:
        """Decide the tool calls of a recorded run again.

        Args:
            source: a trace, a cassette, or the transcript or session id of a conversation.
            cwd: the working directory, which recordings redact; None for the first root, or that of this process.
            tags: tags of the host, for rules with `tags`.

        Returns:
            The calls in the order of the run; `changed` marks those that the policy decides otherwise.

        Raises:
            OSError: the file cannot be read.
            PolicyError: the run has a shell command, and `hackamore[policy]` is not installed.
            SessionNotFoundError: no such conversation exists.
        """
        from hackamore.policy.replaying import replayed

        folder = os.fspath(cwd or next(iter(self._roots.values()), os.getcwd()))
        return replayed(self.decide, source, folder, tags)

    # -- examples --------------------------------------------------------------------------------------------------------

    def _check_examples(self, rule: Conditions) -> None:
        for field, expected in (("match", True), ("not_match", False)):
            for example in getattr(rule.rule, field):
                verdict = self._try(rule, example, field)
                decides = any(part.rule == rule.name for part in verdict.parts)
                if rule.allows():
                    decides = verdict.decision == "allow"
                if decides != expected:
                    call = brief(example)
                    problem = (
                        f"the rule does not decide {call}: {verdict.reason}"
                        if expected
                        else f"the rule decides {call}, which it must not."
                    )
                    raise PolicyError(
                        f"`{field}` does not hold: {problem} Change the rule or the example.",
                        file=self._file,
                        rule=rule.name,
                        field=field,
                    )

    def _try(self, rule: Conditions, example: Any, field: str) -> Verdict:
        name, given, more = _example(rule, example, field, self._file)
        agent = more.get("agent") or (rule.rule.agent or ("main",))[0].replace("*", "x").replace("?", "x")
        tags = more.get("tags") or {key: part[0] for key, part in (rule.rule.tags or {}).items()}
        annotations = more.get("annotations") or (_annotations_of(rule.rule.annotation) if rule.rule.annotation else {})
        cwd = more.get("cwd") or next(iter(self._roots.values()), "/")
        surroundings = Surroundings(agent, float(more.get("spent", float("inf"))), tags, annotations)
        given = {key: self._with_roots(part) for key, part in given.items()}
        return self._decide([rule], _Call(name, given, surroundings, self._with_roots(cwd)))

    def _with_roots(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, path in self._roots.items():
                value = value.replace(f"{{{name}}}", path)
        return value


# -- rules and parts ---------------------------------------------------------------------------------------------------


def _path_matches(rule: Conditions, target: Target | None, *, wholly: bool = False, anchored: bool = False) -> bool:
    if rule.path is None or target is None:
        return False
    patterns = tuple(pattern for pattern in rule.path if not anchored or pattern[:1] != ("**",))
    return matches_target(patterns, target, every=wholly or rule.allows()) and not (
        # A path that `not_path` may mean is not allowed; one that it may not mean is still denied.
        any(matches_target((pattern,), target, every=not rule.allows()) for pattern in rule.not_path)
    )


def _domain_matches(rule: Conditions, domains: Sequence[str]) -> bool:
    found = [any(is_domain(pattern, domain) for pattern in rule.rule.domain or ()) for domain in domains]
    return bool(found) and (all(found) if rule.allows() else any(found))


def _program_matches(rule: Conditions, use: ProgramUse) -> bool:
    fields, allows = rule.rule, rule.allows()
    if fields.program is None or not any(
        name == use.name if allows else is_name(name, use.name) or name == use.place for name in fields.program
    ):
        return False
    if rule.verbs is not None and not _verb_matches(rule.verbs, use, allows=allows):
        return False
    if fields.not_flags and any(is_name(pattern, flag) for pattern in fields.not_flags for flag in use.flags):
        return False
    if fields.flags:
        known = [any(is_name(pattern, flag) for pattern in fields.flags) for flag in use.flags]
        if not (all(known) if allows else any(known)):
            return False
    if allows:
        if use.effect > (UNKNOWN - 1 if rule.effect is None else rule.effect):
            return False
    elif rule.effect is not None and use.effect < rule.effect:
        return False
    if rule.path is not None:
        found = [_path_matches(rule, path.target) for path in use.paths]
        if not found or not (all(found) if allows else any(found)):
            return False
    return fields.domain is None or _domain_matches(rule, use.domains)


def _verb_matches(verbs: Sequence[tuple[str, ...]], use: ProgramUse, *, allows: bool) -> bool:
    said = [(word,) for word in use.verb] if use.targets else [use.verb]
    if not allows and use.effect == UNKNOWN:
        # A call that is not understood may have its verb behind flags and settings.
        words = tuple(word for word in use.text.split() if not word.startswith("-"))
        said += [words[at:] for at in range(1, len(words))]
    found = [
        any(len(verb) <= len(words) and all(map(is_name, verb, words)) for verb in verbs)
        or (words == ("",) and not allows)
        for words in said
    ]
    return bool(found) and (all(found) if allows else any(found))


def _part(kind: Any, text: str, matching: list[Conditions], fallback: Decision, missing: str) -> Part:
    text = escape_terminal(text, _LONGEST_TEXT)
    if not matching:
        return Part(kind, text, fallback, None, missing)
    rule = max(matching, key=lambda found: STRICTNESS[found.decision])
    verb = {"allow": "allows", "ask": "asks about", "deny": "denies"}[rule.decision]
    reason = rule.rule.reason or f"The rule {rule.name!r} {verb} {_quoted(text)}."
    decision: Decision = "deny" if rule.decision == "ask" and fallback == "deny" else rule.decision
    return Part(kind, text, decision, rule.name, reason)


def _verdict(parts: list[Part], unclear: list[str], fallback: Decision) -> Verdict:
    strictest = max(parts, key=lambda part: STRICTNESS[part.decision], default=None)
    places = tuple(escape_terminal(text, _LONGEST_TEXT) for text in unclear)
    if unclear and (
        strictest is None or STRICTNESS[strictest.decision] < STRICTNESS[fallback] or strictest.rule is None
    ):
        decision = fallback if strictest is None or strictest.decision == "allow" else strictest.decision
        return Verdict(
            decision, None, f"Hackamore cannot tell all that the call does: {places[0]}.", tuple(parts), places
        )
    assert strictest is not None  # noqa: S101 - a call without parts is unclear
    return Verdict(strictest.decision, strictest.rule, strictest.reason, tuple(parts), places)


def _quoted(text: str) -> str:
    return f"`{escape_terminal(text, _LONGEST_TEXT)}`"


# -- files -------------------------------------------------------------------------------------------------------------


def _text_of(name: str) -> str:
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"The file cannot be read: {error}. Pass the path of a TOML file.", file=name) from None


def _rows(text: str, file: str, table: str) -> list[dict[str, Any]]:
    import tomllib

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"The text is not valid TOML: {error}.", file=file) from None
    for key in found:
        if key != table:
            raise PolicyError(
                f"Unknown table `{key}`.{suggestion(key, [table])} A file has tables `[[{table}]]` and nothing else.",
                file=file,
            )
    rows = found.get(table, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise PolicyError(f"`{table}` must be a list of tables. Write `[[{table}]]` above each.", file=file)
    return rows


def _annotations_of(wanted: str) -> dict[str, bool]:
    from hackamore.policy.rules import ANNOTATIONS

    name = wanted.removeprefix("not ")
    return {ANNOTATIONS[name][0]: name == wanted}


_CASE = ("agent", "spent", "tags", "annotations", "cwd")


def _example(rule: Conditions, example: Any, field: str, file: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the tool, the input and the surroundings of an example."""
    if isinstance(example, str):
        tool = next((name for name in rule.rule.tool if not set(name) & set("*?")), "")
        if tool == "Bash" or (rule.rule.program is not None and not tool):
            return "Bash", {"command": example}, {}
        if tool in WRITERS or tool in READERS or (not tool and rule.path is not None):
            return tool or "Write", {_PATH_INPUTS.get(tool, "file_path"): example}, {}
        if tool == "WebFetch" or (not tool and rule.rule.domain is not None):
            return "WebFetch", {"url": example}, {}
        return example, {}, {}
    tool, given = example.get("tool"), example.get("input", {})
    if not isinstance(tool, str) or not isinstance(given, dict):
        raise PolicyError(
            f"`{field}` needs `tool` and a table `input`, got {brief(example)}.", file=file, rule=rule.name, field=field
        )
    for key in example:
        if key not in ("tool", "input", *_CASE):
            raise PolicyError(
                f"`{field}` has no key `{key}`.{suggestion(key, ['tool', 'input', *_CASE])}",
                file=file,
                rule=rule.name,
                field=field,
            )
    return tool, dict(given), {key: example[key] for key in _CASE if key in example}
