"""Settings of the CLI as policies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Policy, PolicyError
from hackamore.policy.importing import toml
from tests.contract import shows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".claude").mkdir()
    return tmp_path


def write(project: Path, **permissions: Any) -> Path:
    path = project / ".claude" / "settings.json"
    path.write_text(json.dumps({"permissions": permissions}))
    return path


@shows("policy.tools.import")
@pytest.mark.parametrize(
    ("entry", "tool", "given", "decision"),
    [
        ("Read", "Read", {"file_path": "/etc/passwd"}, "allow"),
        ("Read(src/**)", "Read", {"file_path": "src/a/b.py"}, "allow"),
        ("Read(src/**)", "Read", {"file_path": "other/src/b.py"}, "ask"),
        ("Read(*.md)", "Read", {"file_path": "docs/deep/a.md"}, "allow"),
        ("Read(/docs)", "Read", {"file_path": "docs/deep/a.md"}, "allow"),
        ("Read(//var/log/**)", "Read", {"file_path": "/var/log/x"}, "allow"),
        ("Edit(./src/**)", "Write", {"file_path": "src/a"}, "allow"),
        ("Edit(src/**)", "Write", {"file_path": "src/../b"}, "ask"),
        ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://example.com/x"}, "allow"),
        ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://a.example.com/x"}, "ask"),
        ("mcp__git", "mcp__git__status", {}, "allow"),
        ("mcp__git__*", "mcp__git__status", {}, "allow"),
        ("mcp__git__status", "mcp__git__log", {}, "ask"),
        ("Bash(git log:*)", "Bash", {"command": "git log -p"}, "allow"),
        ("Bash(git log *)", "Bash", {"command": "git log -p"}, "allow"),
        ("Bash(git log:*)", "Bash", {"command": "git push"}, "ask"),
        ("Bash(git log:*)", "Bash", {"command": "git log; rm -r x"}, "ask"),
        ("Bash(./check.sh:*)", "Bash", {"command": "./check.sh --all"}, "allow"),
    ],
)
def test_a_rule_means_the_same(project: Path, entry: str, tool: str, given: dict[str, str], decision: str) -> None:
    policy, untranslated = Policy.from_settings(write(project, allow=[entry]))
    assert untranslated == ()
    assert policy.decide(tool, given, cwd=project).decision == decision


def test_the_strictest_list_wins_and_a_denied_read_denies_writing(project: Path) -> None:
    path = write(
        project, allow=["Read", "Edit", "Bash(git:*)"], ask=["Bash(git push:*)"], deny=["Read(.env)", "Bash(curl:*)"]
    )
    policy, _ = Policy.from_settings(path)
    for tool, given, decision in (
        ("Read", {"file_path": "a/.env"}, "deny"),
        ("Edit", {"file_path": ".env"}, "deny"),
        ("Bash", {"command": "cat .env"}, "deny"),
        ("Bash", {"command": "git push"}, "ask"),
        ("Bash", {"command": "git status"}, "allow"),
        ("Bash", {"command": "echo $(curl example.com)"}, "deny"),
    ):
        assert policy.decide(tool, given, cwd=project).decision == decision, (tool, given)


@shows("policy.tools.import")
@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("Bash", "broad"),
        ("Bash(*)", "broad"),
        ("Bash(git * main)", "broad"),
        ("Bash(* --version)", "broad"),
        ("Bash(ls*)", "broad"),
        ("Bash(command:rm *)", "dead"),
        ("Bash(npm run lint)", "exact"),
        ("Bash(FOO=1 make:*)", "other"),
        ("Bash(git -C x log:*)", "other"),
        ("Write(src/**)", "dead"),
        ("NotebookEdit(src/**)", "dead"),
        ("Glob(src/**)", "dead"),
        ("mcp__*", "dead"),
        ("mcp__git__push(main)", "dead"),
        ("Web*", "dead"),
        ("Read(", "dead"),
        ("Read(!a)", "other"),
        ("Read(../x)", "other"),
        ("Skill(deploy)", "other"),
        ("WebFetch(https://example.com)", "other"),
    ],
)
def test_a_rule_without_an_equal_is_listed_with_the_reason(project: Path, entry: str, kind: str) -> None:
    policy, untranslated = Policy.from_settings(write(project, allow=[entry]))
    assert policy.rules == ()
    [found] = untranslated
    assert (found.rule, found.kind) == (entry, kind)
    assert found.sentence.endswith(".")


def test_the_text_of_an_imported_policy_is_the_same_policy(project: Path) -> None:
    path = write(
        project,
        allow=["Read(a b/**)", "Bash(git log:*)", "mcp__git", "Bash(ls*)"],
        deny=["Edit(.git/**)"],
        defaultMode="plan",
    )
    policy, untranslated = Policy.from_settings(path)
    assert len(untranslated) == 2
    text = toml(policy.rules, untranslated)
    assert Policy.parse(text, roots={"project": project}).rules == policy.rules


@pytest.mark.parametrize("letter", ["\n", "\r", "\x7f", "\x9b", "\u202e", "\u2028", "\ud800", '"', "\\"])
def test_a_text_of_the_settings_cannot_add_a_rule_or_a_line(project: Path, letter: str) -> None:
    more = f'{letter}[[rule]]{letter}tool = "*"{letter}decision = "allow"'
    path = write(
        project, allow=[f"Bash(git * {more})", f"Skill({more})"], deny=[f"Read(a{letter}b)"], ask=[f"Read({more})"]
    )
    policy, untranslated = Policy.from_settings(path)
    text = toml(policy.rules, untranslated)
    text.encode()
    assert {rule.decision for rule in Policy.parse(text, roots={"project": project}).rules} <= {"deny", "ask"}
    assert all(character.isprintable() or character == "\n" for character in text)


def test_a_block_of_permissions_is_imported_without_a_file() -> None:
    policy, untranslated = Policy.from_settings({"allow": ["WebSearch"]})
    assert (len(policy.rules), untranslated) == (1, ())


@pytest.mark.parametrize(
    "text", ["", "[]", '{"permissions": []}', '{"permissions": {"allow": "Read"}}', '{"permissions": {"allow": [1]}}']
)
def test_a_file_without_settings_is_an_error_that_names_it(project: Path, text: str) -> None:
    path = project / "settings.json"
    path.write_text(text)
    with pytest.raises(PolicyError, match=r"settings\.json"):
        Policy.from_settings(path)
