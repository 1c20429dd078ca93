"""The shipped policies, judged by commands whose verdicts come from other projects."""

from __future__ import annotations

from collections import Counter

import pytest

from hackamore.policy import Policy
from tests.policy.corpora import needs_corpora, rows
from tests.support.patience import patience

HOLES_CONTESTED: dict[str, str] = {}
"""Rows called unsafe that `read_only` allows, with the reason: at most 20."""
BLOCKS_CONTESTED = {
    "cat innocent-key": "the name says nothing: the author's machine has a link to a key there, which is resolved where it exists",
}
"""Rows to block that `coding` allows, with the reason: at most 10."""
ROOT = "/workspace/project"


def _program(command: str) -> str:
    return (command.split() or [""])[0].rpartition("/")[2]


@needs_corpora
@pytest.mark.timeout(patience(120))
def test_the_policy_that_reads_allows_no_unsafe_command_and_most_safe_ones() -> None:
    policy = Policy.read_only()
    named = {name for rule in policy.rules for name in rule.program or ()}
    corpus = rows("approve-open.jsonl")
    common = [name for name, _ in Counter(_program(row["command"]) for row in corpus).most_common(60)]
    assert not set(common) - named
    allowed = {
        row["command"]
        for row in corpus
        if policy.decide("Bash", {"command": row["command"]}, cwd=ROOT).decision == "allow"
    }
    holes = {row["command"] for row in corpus if not row["safe"]} & allowed
    assert holes == set(HOLES_CONTESTED)
    assert len(HOLES_CONTESTED) <= 20
    safe = [row["command"] for row in corpus if row["safe"] and _program(row["command"]) in named]
    share = sum(command in allowed for command in safe) / len(safe)
    print(f"safe rows of named programs: {len(safe)}, allowed {share:.1%}")
    assert share >= 0.8


@needs_corpora
def test_the_policy_of_coding_allows_no_command_that_is_blocked_everywhere() -> None:
    policy = Policy.coding(ROOT)
    decisions: Counter[str] = Counter()
    for row in rows("block-open.jsonl"):
        if row["block"]:
            decision = policy.decide("Bash", {"command": row["command"]}, cwd=ROOT).decision
            decisions[decision] += row["command"] not in BLOCKS_CONTESTED
            if decision == "allow":
                assert row["command"] in BLOCKS_CONTESTED
    print(f"rows to block: {dict(decisions)}, contested {len(BLOCKS_CONTESTED)}")
    assert not decisions["allow"]
    assert len(BLOCKS_CONTESTED) <= 10
