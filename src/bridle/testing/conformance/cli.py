"""`check_cli`: the behaviour of a Claude Code CLI that Bridle depends on, and the places where that CLI drifts from it."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bridle.launch import find_cli
from bridle.testing.conformance.bench import CLI_CHECKS, Bench, CLICheck, Drifted
from bridle.testing.conformance.report import Failed, Finding, Report, Skipped, Status
from bridle.testing.errors import ScriptError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CLI_CHECKS", "check_cli"]


def check_cli(
    cli_path: str | os.PathLike[str] | None = None,
    *,
    only: Sequence[str] = (),
    seconds: float = 60.0,
    on_finding: Callable[[Finding], object] | None = None,
) -> Report:
    """Return what a CLI does of what Bridle relies on, and where it drifts.

    It takes about half a minute. No account is used and nothing leaves the machine.

    Args:
        cli_path: the CLI; it is looked for otherwise.
        only: names of checks, or of groups of them, if not all are wanted.
        seconds: how long an answer may take.
        on_finding: called with each finding as it is made.

    Raises:
        CLINotFoundError: there is no CLI there.
    """
    from bridle.testing.conformance import behaviours, drift_findings  # add the checks

    found = find_cli(cli_path, os.environ, os.path.expanduser("~")).path
    report = Report(f"Claude Code CLI {found}")
    checks = [check for check in CLI_CHECKS if not only or check.name in only or check.group in only]
    assert behaviours.__all__ and drift_findings.__all__  # noqa: S101, PT018 - loaded for their checks
    with tempfile.TemporaryDirectory(prefix="bridle-conformance-", ignore_cleanup_errors=True) as folder:
        bench = Bench(found, Path(folder), seconds)
        failed: set[str] = set()
        for check in checks:
            status, detail, took = _run(bench, check, failed)
            if status == "fails":
                failed.add(check.name)
            finding = Finding(check.group, check.name, check.behaviour, status, detail, check.required, seconds=took)
            report.findings.append(finding)
            if on_finding is not None:
                on_finding(finding)
        version = bench.facts.get("version")
    if version:
        report.subject += f", version {version}"
    return report


def _run(bench: Bench, check: CLICheck, failed: set[str]) -> tuple[Status, str, float]:
    missing = failed.intersection(check.needs)
    if missing:
        return "skipped", f"the check {sorted(missing)[0]} failed", 0.0
    began = time.monotonic()
    status: Status = "holds"
    detail = ""
    try:
        detail = check.run(bench) or ""
    except Skipped as reason:
        status, detail = "skipped", str(reason)
    except Drifted as reason:
        status, detail = "drift", str(reason)
    except Failed as failure:
        status, detail = "fails", str(failure)
    except ScriptError as error:
        status, detail = "fails", f"the CLI asked its model for something else: {error}"
    except Exception as error:  # whatever an odd CLI makes of a check is told, and does not end the others
        status, detail = "fails", f"{type(error).__name__}: {error}"
    return status, detail, round(time.monotonic() - began, 2)
