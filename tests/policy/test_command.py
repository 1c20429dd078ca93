"""`hackamore policy ...`, as a process."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema  # type: ignore[import-untyped]
import pytest

from hackamore.policy.audit import verify
from tests.cli.command import Command
from tests.contract import shows
from tests.policy.test_audit import written
from tests.policy.test_replay import recorded

POLICY = """
[[rule]]
name = "look"
program = ["ls", "git"]
decision = "allow"

[[rule]]
name = "push"
program = "git"
verb = "push"
decision = "deny"
reason = "Pushes are for people."

[[rule]]
name = "log"
program = "git"
verb = "push origin"
decision = "ask"

[[rule]]
name = "write"
tool = ["Edit", "Write"]
path = "{repo}/**"
decision = "allow"
"""
CASES = """
[[case]]
command = "git status"
decision = "allow"

[[case]]
name = "no push"
command = "git push"
decision = "DECISION"
"""
LEVEL = {"enum": ["none", "note", "warning", "error"]}
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
PLACE = {
    "type": "object",
    "required": ["artifactLocation"],
    "properties": {
        "artifactLocation": {
            "type": "object",
            "required": ["uri"],
            "properties": {"uri": {"type": "string", "format": "uri"}},
        },
        "region": {"type": "object", "properties": {"startLine": {"type": "integer", "minimum": 1}}},
    },
}
SARIF = {
    # The required parts of SARIF 2.1.0 (sections 3.13, 3.14, 3.18, 3.19, 3.27 to 3.30 of the standard) that reports have.
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {"id": {"type": "string"}},
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "level": LEVEL,
                                "message": TEXT,
                                "locations": {
                                    "type": "array",
                                    "items": {"type": "object", "properties": {"physicalLocation": PLACE}},
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "policy.toml").write_text(POLICY)
    return Command(tmp_path, "/nowhere/claude")


def run(command: Command, tmp_path: Path, *arguments: str, code: int = 0) -> str:
    ran = command("policy", *arguments, cwd=tmp_path)
    assert ran.code == code, (ran.text, ran.errors)
    return ran.text if code < 2 else ran.errors


@shows("policy.tools.command")
def test_a_policy_is_checked_and_explained(command: Command, tmp_path: Path) -> None:
    root = ("--root", f"repo={tmp_path}")
    assert "4 rules" in run(command, tmp_path, "check", "policy.toml", *root)
    assert "Pass it" in run(command, tmp_path, "check", "policy.toml", code=2)
    assert "cannot be read" in run(command, tmp_path, "check", "none.toml", code=2)
    assert "NAME=VALUE" in run(command, tmp_path, "check", "policy.toml", "--root", "repo", code=2)
    compiled = json.loads(run(command, tmp_path, "check", "policy.toml", "--compile", *root))
    assert compiled["permissions"]["deny"] == ["Bash(git push:*)"]
    assert run(command, tmp_path, "explain", "policy.toml", "git status", *root).startswith("allow by the rule 'look'")
    text = run(command, tmp_path, "explain", "policy.toml", "git -C x push", *root, code=1)
    assert "Pushes are for people." in text
    assert "narrow the rule 'push'" in text
    given = json.dumps({"file_path": "a", "content": ""})
    verdict = json.loads(run(command, tmp_path, "explain", "policy.toml", given, "--tool", "Write", "--json", *root))
    assert (verdict["decision"], verdict["rule"]) == ("allow", "write")
    assert "JSON object" in run(command, tmp_path, "explain", "policy.toml", "[]", "--tool", "Write", *root, code=2)
    alone = ("make", "--no-person", "--json", *root)
    assert json.loads(run(command, tmp_path, "explain", "policy.toml", *alone, code=1))["decision"] == "deny"


@shows("policy.tools.command")
@pytest.mark.parametrize(("decision", "code"), [("deny", 0), ("allow", 1)])
def test_cases_are_reported_for_ci(command: Command, tmp_path: Path, decision: str, code: int) -> None:
    (tmp_path / "cases.toml").write_text(CASES.replace("DECISION", decision))
    reports = ("--junit", "j.xml", "--sarif", "s.json", "--root", "repo=.")
    out = run(command, tmp_path, "test", "policy.toml", "cases.toml", *reports, code=code)
    suite = ET.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", str(code))
    sarif = json.loads((tmp_path / "s.json").read_text())
    jsonschema.validate(sarif, SARIF, format_checker=jsonschema.FormatChecker())
    assert len(sarif["runs"][0]["results"]) == code
    if code:
        [found] = sarif["runs"][0]["results"]
        place = found["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == (tmp_path / "cases.toml").as_uri()
        assert (tmp_path / "cases.toml").read_text().splitlines()[
            place["region"]["startLine"] - 1
        ] == 'name = "no push"'
        assert "expected allow, got deny: Pushes are for people." in out


@shows("policy.tools.command")
def test_findings_are_reported_for_ci(command: Command, tmp_path: Path) -> None:
    arguments = ("lint", "policy.toml", "--root", "repo=.", "--sarif", "s.json", "--junit", "j.xml")
    out = run(command, tmp_path, *arguments, code=1)
    assert "policy.toml: error: shadowed: log: The rule 'push' matches all" in out
    sarif = json.loads((tmp_path / "s.json").read_text())
    jsonschema.validate(sarif, SARIF, format_checker=jsonschema.FormatChecker())
    levels = {found["ruleId"]: found["level"] for found in sarif["runs"][0]["results"]}
    assert levels == {"shadowed": "error", "sandbox": "note"}
    assert ET.parse(tmp_path / "j.xml").getroot()[0].get("failures") == "1"
    # The sandbox is a note: without the shadowed rule there is no reason to fail.
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.replace('verb = "push origin"', 'verb = "pull"'))
    assert "sandbox" in run(command, tmp_path, *arguments)


@shows("policy.tools.command")
def test_a_recorded_run_is_decided_again(command: Command, tmp_path: Path) -> None:
    recorded().write(tmp_path / "run.jsonl")
    arguments = ("replay", "policy.toml", "run.jsonl", "--root", "repo=/home/me")
    out = run(command, tmp_path, *arguments, code=1)
    assert "ask   -> deny " in out
    assert "git push" in out
    rows = json.loads(run(command, tmp_path, *arguments, "--all", "--json", code=1))
    assert [row["changed"] for row in rows] == [False, True, True, True, True, False]
    assert "cannot be read" in run(command, tmp_path, "replay", "policy.toml", "none.jsonl", "--root", "repo=.", code=2)


@shows("policy.tools.command")
def test_settings_are_imported(command: Command, tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"allow": ["Read(src/**)"], "deny": ["Bash(git push:*)"]}}))
    (tmp_path / "imported.toml").write_text(run(command, tmp_path, "import", str(settings)))
    root = ("--root", f"project={tmp_path}")
    assert "2 rules" in run(command, tmp_path, "check", "imported.toml", *root)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash(git * main)"]}}))
    assert "# Not translated" in run(command, tmp_path, "import", str(settings), code=1)
    [found] = json.loads(run(command, tmp_path, "import", str(settings), "--json", code=1))
    assert found["kind"] == "broad"
    assert "cannot be read" in run(command, tmp_path, "import", "none.json", code=2)


@shows("policy.tools.command", "policy.audit.chain")
def test_an_audit_file_is_verified(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    lines = written(file)
    ran = command("policy", "verify", str(file))
    assert (ran.code, "5 decisions" in ran.text + ran.errors) == (0, True)
    last = verify(file).last
    file.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"number":2', b'"number":9'), *lines[3:-1]]))
    ran = command("policy", "verify", str(file), "--contains", last, "--json")
    assert ran.code == 1
    found = [row["sentence"] for row in json.loads(ran.text)]
    assert ["Line 3: The line was changed" in found[0], "is missing" in found[-1]] == [True, True], found
    assert command("policy", "verify", str(tmp_path / "missing")).code == 2
