"""Findings about a policy: rules that never decide, and settings of the CLI that do not fit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.checked.fields import to_wire
from hackamore.policy.compiling import Finding
from hackamore.policy.importing import imported, settings_of
from hackamore.policy.paths import covers, is_name
from hackamore.policy.rules import Conditions
from hackamore.policy.verdict import STRICTNESS
from hackamore.storage.places import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hackamore.options.options import Options
    from hackamore.policy.verdict import Verdict

_RUNNERS = {"bash", "env", "find", "node", "npx", "perl", "python", "python3", "ruby", "sh", "ssh", "sudo", "xargs"}
_SAME = ("flags", "not_flags", "annotation", "tags", "not_path")
_WITHIN = ("tool", "program", "domain", "server", "agent")


def findings(
    rules: Sequence[Conditions],
    file: str,
    roots: Mapping[str, str],
    decide: Callable[..., Verdict],
    options: Options | None,
) -> tuple[Finding, ...]:
    """Return the findings about the rules of a policy, with the settings of its project."""
    found = [*_own(rules, file)]
    if options is not None and not options.questions["can_use_tool"] and not options.permission_prompt_tool_name:
        text = "No callback and no tool answers permission requests, so that this rule denies."
        asks = [rule.name for rule in rules if rule.decision == "ask"]
        found += [Finding("nobody", name, text, "Set `can_use_tool`, or write `deny`.", file) for name in asks]
    project = os.fspath((options and options.cwd) or next(iter(roots.values()), os.getcwd()))
    sandboxed = False
    for source, settings in _settings(project, options):
        box = settings.get("sandbox")
        sandboxed = sandboxed or (isinstance(box, Mapping) and box.get("enabled") is True)
        found += _foreign(rules, source, settings, project, decide)
    if not sandboxed:
        text = "The CLI's sandbox is off: a program that is allowed can do all that its user can."
        found.append(Finding("sandbox", None, text, 'Set `sandbox={"enabled": True}` in the options.', level="note"))
    return tuple(found)


def _own(rules: Sequence[Conditions], file: str) -> Iterator[Finding]:
    for number, rule in enumerate(rules):
        for at, other in enumerate(rules):
            harder = STRICTNESS[other.decision] - STRICTNESS[rule.decision]
            if at != number and (harder > 0 or (harder == 0 and at < number)) and covers_rule(other, rule):
                text = f"The rule {other.name!r} matches all that this rule matches, and wins."
                yield Finding("shadowed", rule.name, text, "Remove the rule, or narrow the other one.", file, "error")
                break
        runs = _RUNNERS & set(rule.rule.program or ())
        if rule.allows() and rule.rule.effect == "any" and runs:
            text = f'`{min(runs)}` with `effect = "any"` can run every other program.'
            yield Finding("broad", rule.name, text, "Leave out `effect`, or name verbs and flags.", file)


def covers_rule(one: Conditions, other: Conditions) -> bool:
    """Return whether a rule surely matches every call that another rule matches."""
    first, second = one.rule, other.rule
    if one.allows() and first.effect is None and second.effect == "any":
        return False
    if first.spent_over is not None and (second.spent_over is None or first.spent_over > second.spent_over):
        return False
    if first.program is None and second.program is not None and (first.path or first.domain or one.allows()):
        return False
    if one.verbs is not None and not all(
        any(len(wide) <= len(verb) and all(map(is_name, wide, verb)) for wide in one.verbs)
        for verb in other.verbs or ((),)
    ):
        return False
    return (
        first.effect in (None, "any" if one.allows() else None, second.effect)
        and all(getattr(first, name) in (None, getattr(second, name)) for name in _SAME)
        and all(_within(getattr(first, name), getattr(second, name)) for name in _WITHIN)
        and (
            one.path is None
            or (bool(other.path) and all(any(covers(a, b) for a in one.path) for b in other.path or ()))
        )
    )


def _within(wide: tuple[str, ...] | None, narrow: tuple[str, ...] | None) -> bool:
    return wide is None or (
        narrow is not None
        and all(any(name == each or ("?" not in each and is_name(each, name)) for each in wide) for name in narrow)
    )


def _settings(project: str, options: Options | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the settings that count for a session: where they are from, and their content."""
    folder = os.path.join(project, ".claude")
    places = {"user": os.fspath(config_folder()), "project": folder, "local": folder}
    sources = None if options is None else options.setting_sources
    for name, folder in places.items():
        place = os.path.join(folder, "settings.local.json" if name == "local" else "settings.json")
        if (sources is None or name in sources) and os.path.exists(place):
            yield place, settings_of(place)
    if options is not None:
        given, box = options.settings, options.sandbox
        if given is not None:
            yield "settings", given if isinstance(given, Mapping) else settings_of(os.fspath(given))
        lists = {"allow": list(options.allowed_tools or ()), "deny": list(options.disallowed_tools or ())}
        yield "options", {"permissions": lists, "sandbox": to_wire(box) if box is not None else None}


def _foreign(
    rules: Sequence[Conditions],
    source: str,
    settings: Mapping[str, Any],
    project: str,
    decide: Callable[..., Verdict],
) -> Iterator[Finding]:
    found, root, _, untranslated = imported({"permissions": settings.get("permissions") or {}}, project)
    for each in untranslated:
        command = str(each.rule).partition("(")[2][:-1]
        if each.kind == "exact" and decide("Bash", {"command": command}, cwd=project).decision == "allow":
            continue
        if each.kind in ("dead", "broad"):
            yield msgspec.structs.replace(each, file=source)
        elif each.sentence.startswith("`allow`"):
            yield msgspec.structs.replace(each, file=source, kind="foreign")
    allowed = [rule for rule in rules if rule.allows()]
    for foreign in found:
        rule = Conditions(foreign, foreign.name, {"project": root})
        if rule.allows() and not any(covers_rule(own, rule) for own in allowed):
            entry = foreign.name.removeprefix("allow ")
            text = f"`allow` has `{entry}`, which the policy does not allow."
            yield Finding("foreign", entry, text, "Remove it there, or add a rule that allows it.", source)
