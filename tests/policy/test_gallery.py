"""The policies of the gallery, with their cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from hackamore import Policy
from tests.contract import shows

GALLERY = Path(__file__).resolve().parents[2] / "examples" / "policies"
POLICIES = sorted(path.stem for path in GALLERY.glob("*.toml") if not path.stem.endswith(".cases"))


@shows("policy.tools.gallery")
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_decides_its_cases_as_they_say(name: str, tmp_path: Path) -> None:
    roots = {root: tmp_path / root for root in ("repo", "worktree", "data", "out")}
    policy = Policy.load(GALLERY / f"{name}.toml", roots=roots)
    results = policy.test(GALLERY / f"{name}.cases.toml")
    assert [f"{each.name}: {each.verdict.reason}" for each in results if not each.passed] == []
    assert {each.expected for each in results} == {"allow", "ask", "deny"}


@pytest.mark.parametrize("name", POLICIES)
def test_no_rule_of_the_gallery_is_shadowed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    roots = {root: tmp_path / root for root in ("repo", "worktree", "data", "out")}
    policy = Policy.load(GALLERY / f"{name}.toml", roots=roots)
    assert [finding for finding in policy.lint() if finding.level != "note"] == []


def test_the_gallery_has_five_policies() -> None:
    assert POLICIES == ["analyst", "migration", "release", "reviewer", "support"]
