"""A long run of commands at random, with progress: `python -m tests.policy.storm SEED NUMBER`; the exit code is 1 after a contradiction."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

from hackamore.policy import Policy
from tests.policy.corpora import rows
from tests.policy.generated import any_of
from tests.policy.test_random import ROOT, TEXTS, contradiction


def main(seed: int, number: int) -> int:
    """Decide on `number` commands, and print the contradictions."""
    random = Random(seed)
    texts = TEXTS + [row["command"] for name in ("approve-open.jsonl", "block-open.jsonl") for row in rows(name)]
    policies = [Policy.read_only(), Policy.coding(ROOT)]
    decisions: Counter[str] = Counter()
    found = 0
    for count in range(1, number + 1):
        command = any_of(random, texts)
        for policy in policies:
            verdict = policy.decide("Bash", {"command": command}, cwd=ROOT)
            decisions[verdict.decision] += 1
            if problem := contradiction(verdict, command):
                found += 1
                print(problem, flush=True)
        if count % 20_000 == 0:
            print(f"seed {seed}: {count:,} of {number:,} {dict(decisions)} contradictions {found}", flush=True)
    print(f"seed {seed}: {number:,} commands, {dict(decisions)}, contradictions {found}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
