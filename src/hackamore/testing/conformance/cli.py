"""`check_cli`: the behaviour of a Claude Code CLI that Hackamore depends on."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hackamore import find_cli
from hackamore.testing.conformance.bench import CLI_CHECKS, Bench, CLICheck
from hackamore.testing.conformance.report import Finding, Report, Status, outcome
from hackamore.testing.errors import ScriptError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence


def check_cli(
    cli_path: str | os.PathLike[str] | None = None,
    *,
    only: Sequence[str] = (),
    seconds: float = 60.0,
    on_check: Callable[[int, int, str], object] | None = None,
    on_finding: Callable[[Finding], object] | None = None,
) -> Report:
    """Check a CLI against the behaviour Hackamore depends on.

    It takes about half a minute. No account is used and nothing leaves the machine.

    Args:
        cli_path: path of the CLI; None searches PATH and the known locations.
        only: names of checks or of groups of checks; empty for all.
        seconds: timeout of one answer.
        on_check: called before each check with its number, the number of checks, and the behaviour.
        on_finding: called with each finding as it is made.

    Returns:
        The report.

    Raises:
        CLINotFoundError: no CLI was found.
    """
    import hackamore.testing.conformance.behaviours  # noqa: F401 - adds the checks

    found = find_cli(cli_path).path
    report = Report(f"Claude Code CLI {found}")
    checks = [check for check in CLI_CHECKS if not only or check.name in only or check.group in only]
    with tempfile.TemporaryDirectory(prefix="hackamore-conformance-", ignore_cleanup_errors=True) as folder:
        bench = Bench(found, Path(folder), seconds)
        for finding in run_checks(bench, checks, on_check):
            report.findings.append(finding)
            if on_finding is not None:
                on_finding(finding)
        version = bench.facts.get("version")
    if version:
        report.subject += f", version {version}"
    return report


def run_checks(
    bench: Bench, checks: Sequence[CLICheck], on_check: Callable[[int, int, str], object] | None = None
) -> Iterator[Finding]:
    """Run checks on a bench, and give their findings."""
    failed: set[str] = set()
    for number, check in enumerate(checks, 1):
        if on_check is not None:
            on_check(number, len(checks), check.behaviour)
        status, detail, took = _run(bench, check, failed)
        if status == "fails":
            failed.add(check.name)
        yield Finding(check.group, check.name, check.behaviour, status, detail, check.required, seconds=took)


def _run(bench: Bench, check: CLICheck, failed: set[str]) -> tuple[Status, str, float]:
    missing = failed.intersection(check.needs)
    if missing:
        return "skipped", f"the check {sorted(missing)[0]} failed", 0.0
    began = time.monotonic()
    status, detail = outcome(lambda: check.run(bench), _words)
    return status, detail, round(time.monotonic() - began, 2)


def _words(error: Exception) -> str:
    begin = "the CLI asked its model for something else" if isinstance(error, ScriptError) else type(error).__name__
    return f"{begin}: {error}"
