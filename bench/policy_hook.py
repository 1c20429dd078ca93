"""The round trip of a PreToolUse hook with a policy beside one without, and with an audit file: `python bench/policy_hook.py`.

The clock runs in the stand-in (`peer.py`), from before the request is written until the answer is there. Sessions are interleaved.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from round_trips import WARM_UP, peer

from hackamore import HookOutput, Options, sync
from hackamore.policy import Policy, Rule

COMMAND = "git -C repo log --oneline | head -5"


class Constant:
    """A policy that looks at nothing: the price of the way alone."""

    def __init__(self, policy: Policy) -> None:
        self._verdict = policy.decide("Bash", {"command": COMMAND}, cwd="/")

    def decide(self, *call: object, **around: object) -> Any:
        """Return the same verdict."""
        return self._verdict


def variants(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the options of each row."""
    policy = Policy(
        [
            Rule(name="git", program="git", verb=["log", "status"], decision="allow"),
            Rule(name="head", program=["head", "ls", "echo"], decision="allow"),
        ]
    )
    return {
        "a plain hook, without a policy": {"hooks": {"PreToolUse": lambda call, context: HookOutput.allow()}},
        "a policy that looks at nothing": {"policy": Constant(policy)},
        "a policy on the command of the stand-in": {"policy": policy},
        "the same with an audit file": {"policy": policy, "policy_audit": folder / "audit.jsonl"},
    }


def main() -> None:
    """Measure, and print a row for each variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = peer(folder)
        rows = variants(folder)
        found: dict[str, list[float]] = {row: [] for row in rows}
        for _ in range(given.rounds):
            for row, more in rows.items():
                options = Options(cli_path=path, version_check="skip", cwd=folder, **more)
                with sync.Session(options) as session:
                    prompt = json.dumps({"kind": "hook", "count": given.count})
                    found[row] += json.loads(session.send(prompt).result().result or "[]")[WARM_UP:]
    for row, seconds in found.items():
        median, high = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
        sys.stdout.write(f"{row:45} {median * 1e6:8.0f} us   99 %: {high * 1e6:8.0f} us\n")


if __name__ == "__main__":
    main()
