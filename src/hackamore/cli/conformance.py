"""`hackamore conformance`: check a CLI against the behaviour Hackamore depends on. No account, no network, a temporary folder."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hackamore.cli.running import FAILED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal
    from hackamore.testing.conformance import Finding, Report

_SHOWN = {
    "holds": ("ok", "green"),
    "fails": ("FAILED", "red"),
    "skipped": ("skip", "dim"),
}


def conformance(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Check the CLI, show each finding immediately, return the exit code."""
    from hackamore.testing.conformance import check_cli

    as_json = bool(given.get("as_json"))
    table = _Table(terminal)
    if as_json:
        report = check_cli(given.get("cli_path"))
        terminal.json(report.to_dict())
    else:
        with terminal.spinning("Starting"):
            report = check_cli(given.get("cli_path"), on_check=table.begin, on_finding=table.show)
        table.finish(report)
    return 0 if report.ok else FAILED


class _Table:
    """Findings, group by group, with a counter."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._group = ""
        self._number = self._all = 0
        self._began = time.monotonic()

    def begin(self, number: int, total: int, behaviour: str) -> None:
        """Show the check that runs now."""
        self._number, self._all = number, total
        self._terminal.working(f"{number}/{total} {behaviour}")

    def show(self, finding: Finding) -> None:
        terminal = self._terminal
        if finding.group != self._group:
            if self._group:
                terminal.line()
            terminal.line(finding.group.capitalize(), "bold")
            self._group = finding.group
        optional = "" if finding.required else " (optional)"
        word, style = _SHOWN[finding.status]
        counter = f"{self._number:>{len(str(self._all))}}/{self._all}"
        lead = f"  {counter} {word:<7}"
        terminal.parts(
            (f"  {counter} ", "dim"), (f"{word:<7}", style), (f"{finding.behaviour}{optional}", ""), hang=len(lead)
        )
        if finding.detail:
            for line in finding.detail.split("\n"):
                terminal.line(f"{' ' * len(lead)}{line}", "dim", wrap=True)

    def finish(self, report: Report) -> None:
        terminal = self._terminal
        terminal.line()
        terminal.line(report.subject, wrap=True)
        sign, style = (terminal.tick, "green") if report.ok else (terminal.cross, "red")
        failed = len(report.of("fails"))
        parts = [f"{len(report.of('holds'))} of {len(report.findings)} checks passed"]
        if failed:
            parts.append(f"{failed} failed ({len(report.failures)} required)")
        if skipped := report.of("skipped"):
            parts.append(f"{len(skipped)} skipped")
        parts.append(f"{time.monotonic() - self._began:.0f} s")
        terminal.parts((f"{sign} ", style), (terminal.dot.join(parts), ""), hang=2)
