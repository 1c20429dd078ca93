"""Write the table of failures in `docs/guides/production/fleet.md` (`--write`), or fail if the page is not current."""

from __future__ import annotations

import sys

import generated_parts

from hackamore.fleet.states import CAUSES, Cause, Policy

MEANINGS = {
    Cause.THROTTLED: "a rate limit",
    Cause.OVERLOADED: "the API is overloaded or unreachable, or the machine has no resources",
    Cause.CRASH: "the CLI ended without a result",
    Cause.TIMEOUT: "`Timeouts(turn=...)` passed",
    Cause.STALL: "no message came for `stall` seconds",
    Cause.MODEL: "an error result: a refused request, too many turns, status 403",
    Cause.OUTPUT: "the structured output does not fit",
    Cause.VERIFY: "`verify` refused the answer",
    Cause.BUDGET: "a limit of this task: `max_budget_usd`, or a key of a budget",
    Cause.SPENT: "the budget of the fleet is spent",
    Cause.START: "the CLI cannot be started with these options",
    Cause.CLI: "no usable CLI, or a login that the API refuses",
    Cause.WORKSPACE: "the folder cannot be made, or its work not kept",
    Cause.APPROVAL: "a call waits for the answer of a person",
    Cause.BUG: "`verify` raised an exception",
    Cause.LOST: "the driver or worker was killed",
    Cause.STOPPED: "the fleet was stopped",
    Cause.CANCELLED: "`fleet.cancel()`",
}
ENDS_RUN = {Cause.SPENT, Cause.CLI}
"""The run ends with the error of the attempt: no other attempt could succeed."""


def consequence(cause: Cause, policy: Policy) -> str:
    """Return what follows an attempt, in words."""
    if cause is Cause.CANCELLED:
        return "the task is cancelled"
    if cause in ENDS_RUN:
        return "the run ends with the error; the task stays queued"
    if not policy.again:
        return "the task fails"
    return "another attempt" + ("" if policy.counted else ", not counted") + ("; fewer agents" if policy.slower else "")


def causes() -> list[str]:
    """Return the kinds of failure, as a table."""
    rows = ["| `cause` | reason | consequence |", "|---|---|---|"]
    rows += [
        f"| `{cause.word}` | {MEANINGS[cause]} | {consequence(cause, policy)} |" for cause, policy in CAUSES.items()
    ]
    return rows


if __name__ == "__main__":
    sys.exit(generated_parts.main("guides/production/fleet.md", {"causes": causes()}))
