"""Findings about policies and the settings around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options, Policy, Rule
from tests.contract import shows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "home"))


def found(policy: Policy, kind: str, options: Options | None = None) -> list[str | None]:
    return [finding.rule for finding in policy.lint(options) if finding.kind == kind]


def rules(*fields: dict[str, Any], project: Path) -> Policy:
    return Policy([Rule(**each) for each in fields], roots={"repo": project})


@shows("policy.tools.lint")
@pytest.mark.parametrize(
    ("one", "other", "shadowed"),
    [
        ({"tool": "Read", "decision": "deny"}, {"tool": "Read", "path": "{repo}/**", "decision": "allow"}, True),
        ({"tool": "mcp__*", "decision": "ask"}, {"tool": "mcp__git__*", "decision": "allow"}, True),
        ({"tool": "mcp__git__*", "decision": "ask"}, {"tool": "mcp__*", "decision": "allow"}, False),
        ({"path": "{repo}/**", "decision": "deny"}, {"path": "{repo}/a/*", "decision": "ask"}, True),
        ({"path": "{repo}/a/**", "decision": "deny"}, {"path": "{repo}/**", "decision": "ask"}, False),
        ({"program": "git", "decision": "deny"}, {"program": "git", "verb": "log", "decision": "allow"}, True),
        ({"program": "git", "verb": "push", "decision": "deny"}, {"program": "git", "decision": "allow"}, False),
        (
            {"program": "git", "verb": "remote", "decision": "ask"},
            {"program": "git", "verb": "remote show", "decision": "allow"},
            True,
        ),
        ({"program": "git", "flags": "-f", "decision": "deny"}, {"program": "git", "decision": "allow"}, False),
        ({"tool": "Bash", "decision": "deny"}, {"program": "git", "decision": "allow"}, True),
        ({"tool": "Read", "decision": "deny", "agent": "x"}, {"tool": "Read", "decision": "allow"}, False),
        (
            {"tool": "Read", "decision": "deny", "spent_over": 5},
            {"tool": "Read", "decision": "allow", "spent_over": 9},
            True,
        ),
        ({"tool": "Read", "decision": "deny", "spent_over": 5}, {"tool": "Read", "decision": "allow"}, False),
        (
            {"tool": "WebFetch", "domain": "*.a.com", "decision": "deny"},
            {"tool": "WebFetch", "domain": "x.a.com", "decision": "ask"},
            True,
        ),
        ({"tool": "Read", "decision": "allow"}, {"tool": "Read", "path": "{repo}/a", "decision": "deny"}, False),
        ({"tool": ["Read", "Glob"], "decision": "allow"}, {"tool": "Glob", "decision": "allow"}, True),
    ],
)
def test_a_rule_that_never_decides_is_found(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], *, shadowed: bool
) -> None:
    policy = rules({"name": "one", **one}, {"name": "other", **other}, project=tmp_path)
    assert found(policy, "shadowed") == (["other"] if shadowed else [])


@shows("policy.tools.lint")
def test_settings_that_allow_more_than_the_policy_are_found(tmp_path: Path) -> None:
    folder = tmp_path / ".claude"
    folder.mkdir()
    allow = [
        "Read(src/**)",
        "Edit(src/**)",
        "Bash(git log)",
        "Bash(git push --force)",
        "Bash(git * main)",
        "Write(x)",
        "mcp__*",
    ]
    (folder / "settings.json").write_text(json.dumps({"permissions": {"allow": allow, "deny": ["Glob(x)"]}}))
    (folder / "settings.local.json").write_text(json.dumps({"permissions": {"allow": ["WebSearch"]}}))
    policy = rules(
        {"tool": ["Read", "Glob", "Grep", "LS", "NotebookRead"], "path": "{repo}/**", "decision": "allow"},
        {"program": "git", "verb": "log", "decision": "allow"},
        project=tmp_path,
    )
    assert found(policy, "foreign") == ["Bash(git push --force)", "Edit(src/**)", "WebSearch"]
    assert found(policy, "broad") == ["Bash(git * main)"]
    assert found(policy, "dead") == ["Write(x)", "mcp__*", "Glob(x)"]
    assert {finding.file for finding in policy.lint() if finding.rule == "WebSearch"} == {
        str(folder / "settings.local.json")
    }


def test_only_the_settings_of_a_session_count(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["WebSearch"]}}')
    policy = rules(project=tmp_path)
    assert found(policy, "foreign", Options(cwd=tmp_path)) == ["WebSearch"]
    assert found(policy, "foreign", Options(cwd=tmp_path, setting_sources=[])) == []
    text = '{"permissions": {"allow": ["Edit"]}}'
    options = Options(cwd=tmp_path, setting_sources=[], settings=text, allowed_tools=["Bash(git:*)"])
    assert found(policy, "foreign", options) == ["Edit", "Bash(git:*)"]


@shows("policy.tools.lint")
def test_an_ask_without_a_person_is_found(tmp_path: Path) -> None:
    policy = rules({"name": "push", "program": "git", "verb": "push", "decision": "ask"}, project=tmp_path)
    assert found(policy, "nobody") == []
    assert found(policy, "nobody", Options(cwd=tmp_path)) == ["push"]
    assert found(policy, "nobody", Options(cwd=tmp_path, can_use_tool=lambda request: None)) == []  # type: ignore[arg-type, return-value]


def test_a_sandbox_that_is_off_is_a_note(tmp_path: Path) -> None:
    policy = rules(project=tmp_path)
    assert [finding.level for finding in policy.lint()] == ["note"]
    assert policy.lint(Options(cwd=tmp_path, sandbox={"enabled": True})) == ()


def test_a_program_that_runs_others_with_all_arguments_is_found(tmp_path: Path) -> None:
    policy = rules({"name": "any", "program": "python3", "effect": "any", "decision": "allow"}, project=tmp_path)
    assert found(policy, "broad") == ["any"]
