"""Commands at random: no text makes a policy fail, and no text is allowed in which another parser finds another program."""

from __future__ import annotations

import subprocess
from random import Random

import pytest

from hackamore.policy import Policy, Verdict
from tests.policy import second_reader
from tests.policy.corpora import rows
from tests.policy.generated import any_of
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.sizes import size

ROOT = "/workspace/project"
TEXTS = [
    "git log --oneline | head -5",
    "cd src && ls -la",
    "for f in a b; do cat x; done",
    "cat <<'EOF'\nx\nEOF",
    "cat <<-E\n\tE\ncat <<F\nE\n\\rm\nF",
    "ls a \\\n\\rm",
    "find . -name '*.py' -exec ls {} +",
    "xargs -0 wc -l",
    "env LANG=C sort a",
    "bash -c 'ls && pwd'",
    "if [ -f a ]; then cat a; fi",
    "awk '{print $1}' a",
    "sed -n '1,5p' a",
]
NOT_PROGRAMS = {"[", "test"}
"""Names that one reader takes for a program and the other for a test."""


def contradiction(verdict: Verdict, command: str) -> str:
    """Return what the second reader says against a command that a policy allows; "" for nothing."""
    if verdict.decision != "allow":
        return ""
    names = second_reader.command_names(command)
    if names is None:
        # Bash itself reads some texts that `shfmt` refuses; what bash refuses runs nothing.
        refused = subprocess.run(["bash", "-n"], input=command.encode(), capture_output=True, check=False).returncode
        return "" if refused else f"shfmt cannot read {command!r}"
    known = {part.text.split(" ")[0] for part in verdict.parts if part.kind == "program"}
    other = names - known - NOT_PROGRAMS
    return f"{command!r}: the other reader finds {other}, the policy {known}" if other else ""


@pytest.mark.timeout(patience(600))
def test_no_text_fails_and_no_allowed_text_runs_a_program_that_only_another_parser_sees() -> None:
    random = Random(seeded(27))
    texts = TEXTS + [row["command"] for name in ("approve-open.jsonl", "block-open.jsonl") for row in rows(name)]
    policies = [Policy.read_only(), Policy.coding(ROOT)]
    for _ in range(size("commands of policies")):
        command = any_of(random, texts)
        for policy in policies:
            verdict = policy.decide("Bash", {"command": command}, cwd=ROOT)
            assert not contradiction(verdict, command)
