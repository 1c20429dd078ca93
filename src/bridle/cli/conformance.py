"""`bridle conformance`: what Bridle relies on, shown on a CLI. No account, no network, a temporary folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.cli.running import FAILED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.cli.terminal import Terminal
    from bridle.testing.conformance import Finding, Report

__all__ = ["conformance"]

_STYLES = {"holds": "green", "fails": "red", "drift": "yellow", "skipped": "dim"}


def conformance(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Check the CLI, show each finding immediately, return the exit code."""
    from bridle.testing.conformance import check_cli

    as_json = bool(given.get("as_json"))
    table = _Table(terminal)
    report = check_cli(given.get("cli_path"), on_finding=None if as_json else table.show)
    if as_json:
        terminal.json(report.to_dict())
    else:
        table.finish(report)
    return FAILED if not report.ok or (given.get("strict") and report.of("drift")) else 0


class _Table:
    """Findings, group by group."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._group = ""

    def show(self, finding: Finding) -> None:
        """Show one finding."""
        terminal = self._terminal
        if finding.group != self._group:
            if self._group:
                terminal.line()
            terminal.line(finding.group.capitalize(), "bold")
            self._group = finding.group
        optional = "" if finding.required else " (not required)"
        terminal.parts((f"  {finding.status:<8}", _STYLES[finding.status]), (f"{finding.behaviour}{optional}", ""))
        if finding.detail:
            for line in finding.detail.split("\n"):
                terminal.line(f"          {line}", "dim")

    def finish(self, report: Report) -> None:
        """Show the summary."""
        terminal = self._terminal
        terminal.line()
        terminal.line(report.subject)
        sign, style = (terminal.tick, "green") if report.ok else (terminal.cross, "red")
        terminal.parts((f"{sign} ", style), (report.summary(), ""))
