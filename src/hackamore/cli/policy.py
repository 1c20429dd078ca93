"""`hackamore policy ...`: check, explain, test, lint, replay and import policies. The flags are in commands.toml."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore._version import __version__
from hackamore.cli.running import FAILED
from hackamore.errors import OptionsError, escape_terminal
from hackamore.options.options import Options
from hackamore.policy import Policy
from hackamore.policy.compiling import Finding
from hackamore.policy.importing import toml
from hackamore.runtime.junit import Case, junit
from hackamore.storage.files import write_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.cli.terminal import Terminal


def _pairs(given: Mapping[str, Any], name: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in given[name] or ()]
    for key, mark, value in pairs:
        if not (key and mark):
            raise OptionsError(f"--{name} needs NAME=VALUE, got {key + value!r}.", field=name)
    return {key: value for key, _, value in pairs}


def _policy(given: Mapping[str, Any]) -> Policy:
    roots = _pairs(given, "root")
    for (
        name,
        place,
    ) in roots.items():  # a mistyped root would leave the rules on its paths without effect; a run is from anywhere
        if "run" not in given and not os.path.isdir(place):
            raise OptionsError(f"--root {name}={escape_terminal(place)} is not a folder.", field="root")
    return Policy.load(given["policy"], roots=roots)


def check_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Check that a policy can be loaded and its examples hold, or compile it."""
    policy = _policy(given)
    if given["compile"]:
        made = policy.compile()
        terminal.json(made.settings)
        for each in made.missing:
            terminal.note(f"{each.rule or 'other tools'}: {each.sentence}")
    elif given["as_json"]:
        terminal.json({"rules": len(policy.rules)})
    else:
        terminal.line(f"{len(policy.rules)} rules; their examples hold.")
    return 0


def explain_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Explain the decision on a call; return 1 unless it is allowed."""
    around: dict[str, Any] = {"agent": given["agent"], "cwd": given["cwd"]}
    around |= {"tags": _pairs(given, "tag"), "person": not given["alone"], "spent": given["spent"] or 0.0}
    call = (given["tool"] or "Bash", {"command": given["command"]})
    if given["tool"]:
        try:
            call = (given["tool"], msgspec.json.decode(given["command"], type=dict[str, Any]))
        except msgspec.DecodeError as error:
            raise OptionsError(f"The input of a tool must be a JSON object: {error}.", field="command") from None
    policy = _policy(given)
    verdict = policy.decide(*call, **around)
    if given["as_json"]:
        terminal.json(msgspec.to_builtins(verdict))
    else:
        terminal.line(policy.explain(*call, **around))
    return 0 if verdict.decision == "allow" else FAILED


def test_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Run the cases of a file; return 1 if one fails."""
    cases, found = [], []
    for each in _policy(given).test(given["cases"]):
        text = f"expected {each.expected}, got {each.verdict.decision}: {each.verdict.reason}"
        cases.append(Case(each.name, None if each.passed else text))
        if not each.passed:
            found.append(Finding("test", each.name, text, file=given["cases"], level="error"))
    return _report(given, terminal, found, cases, f"{len(cases) - len(found)} of {len(cases)} cases passed")


def lint_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show findings about a policy; return 1 if there are any but notes."""
    found = _policy(given).lint(Options.load(given["config"]) if given["config"] else None)
    cases = [Case(f"{each.kind}: {each.rule}", each.sentence, each.advice) for each in found if each.level != "note"]
    return _report(given, terminal, found, cases or [Case("lint")], f"{len(cases)} findings")


def replay_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show the calls of a run that a policy decides otherwise; return 1 if there are any."""
    try:
        calls = _policy(given).replay(given["run"], cwd=given["cwd"], tags=_pairs(given, "tag"))
    except OSError as error:
        raise OptionsError(f"{escape_terminal(given['run'])} cannot be read: {error.strerror}.", field="run") from None
    changed = [each for each in calls if each.changed]
    shown = calls if given["everything"] else changed
    if given["as_json"]:
        terminal.json([{**msgspec.to_builtins(each), "changed": each.changed} for each in shown])
    else:
        for each in shown:
            then, now = each.recorded or "-", each.verdict
            terminal.line(f"{then:5} -> {now.decision:5}  line {each.line}  {each.tool}  {each.text}\n    {now.reason}")
        terminal.note(f"{len(changed)} of {len(calls)} decisions change")
    return FAILED if changed else 0


def import_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Write a settings file as a policy; return 1 if a rule has no equal."""
    policy, missing = Policy.from_settings(given["settings"])
    if given["as_json"]:
        return _report(given, terminal, missing, [], "")
    sys.stdout.write(toml(policy.rules, missing))
    terminal.note(f"{len(policy.rules)} rules; pass --root project={policy.roots['project']} for their paths")
    return FAILED if missing else 0


def verify_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Check an audit file; return 1 if a line is not as it was written."""
    from hackamore.policy.audit import verify

    report = verify(given["audit"], contains=given["contains"])
    file, lost = given["audit"], [(number, "The line ends early.") for number in report.incomplete]
    found = [Finding("audit", None, f"Line {at}: {text}", file=file, level="error") for at, text in report.problems]
    found += [Finding("audit", None, f"Line {at}: {text}", file=file, level="note") for at, text in lost]
    return _report(
        given, terminal, found, [], f"{report.decisions} decisions; the hash of the last line is {report.last}"
    )


def _report(
    given: Mapping[str, Any], terminal: Terminal, found: Sequence[Finding], cases: list[Case], last: str
) -> int:
    if given["as_json"]:
        terminal.json(msgspec.to_builtins(found))
    else:
        for each in found:
            rule = f"{each.rule}: " if each.rule else ""
            terminal.line(f"{each.file}: {each.level}: {each.kind}: {rule}{each.sentence} {each.advice}".strip(": "))
        terminal.note(last)
    for name, data in (("junit", junit([("hackamore policy", cases)])), ("sarif", _sarif(found))):
        if path := given.get(name):
            try:
                write_file(path, [data])
            except OSError as error:
                problem = f"{escape_terminal(str(path))} cannot be written: {error.strerror}."
                raise OptionsError(problem, field=name) from None
    return FAILED if any(each.level != "note" for each in found) else 0


def _sarif(found: Sequence[Finding]) -> bytes:
    """Return findings in SARIF 2.1.0."""
    results = []
    for each in found:
        text = f"{each.sentence} {each.advice}".strip()
        row: dict[str, Any] = {"ruleId": each.kind, "level": each.level, "message": {"text": text}}
        if os.path.isfile(each.file):
            lines = enumerate(Path(each.file).read_text(encoding="utf-8", errors="replace").split("\n"), 1)
            number = next((at for at, line in lines if each.rule and json.dumps(each.rule)[1:-1] in line), 1)
            place = {"uri": Path(os.path.abspath(each.file)).as_uri()}
            row["locations"] = [{"physicalLocation": {"artifactLocation": place, "region": {"startLine": number}}}]
        results.append(row)
    rules = [{"id": kind} for kind in sorted({each.kind for each in found})]
    driver = {"name": "hackamore", "version": __version__, "rules": rules}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    runs = [{"tool": {"driver": driver}, "results": results}]
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": runs}).encode()
