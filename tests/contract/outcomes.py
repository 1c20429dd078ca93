"""A pytest plugin: with HACKAMORE_CI=1 a run of the whole suite fails when a test that keeps a promise did not run and pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contract.manifest import PROJECT, declared


class Outcomes:
    """Which tests passed. Under xdist the reports of all workers come to the process that started them."""

    def __init__(self, tests: Path = PROJECT / "tests") -> None:
        self._tests = tests
        self._passed: set[str] = set()
        self._missing: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take how a test ended."""
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._passed.add(report.nodeid.partition("[")[0])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare them with those that are wanted."""
        config = session.config
        if hasattr(config, "workerinput") or not enforced(config):
            return
        for name, tests in declared(self._tests).items():
            self._missing += [
                f"{name}: {test} did not run, or did not pass" for test in tests if test not in self._passed
            ]
        if self._missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what is missing."""
        if self._missing:
            terminalreporter.section("behaviours that were not shown", red=True)
            for line in sorted(self._missing):
                terminalreporter.line(line)


def enforced(config: pytest.Config) -> bool:
    """True for a run of all tests with HACKAMORE_CI=1."""
    options = config.option
    chosen = (
        options.keyword
        or options.markexpr
        or options.deselect
        or options.collectonly
        or getattr(options, "quick", False)
    )
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return os.environ.get("HACKAMORE_CI") == "1" and everything and not chosen
