"""Fixtures for tests that run the real Claude Code CLI, pinned in `pinned_cli.toml`, against a scripted model."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_timeout  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings

from tests.contract.outcomes import Outcomes
from tests.support.examples import examples
from tests.support.patience import patience
from tests.support.records import CompleteRecords
from tests.support.seeds import SEED, told
from tests.support.servers import Postgres, running
from tests.support.sizes import STORM
from tests.support.tiers import Tiers

if TYPE_CHECKING:
    from collections.abc import Generator

    from hackamore.testing import ScriptedModel

PROJECT = Path(__file__).resolve().parent.parent


# How fast an example runs says more about the machine than about the code.
settings.register_profile(
    "hackamore",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not SEED,
)
settings.load_profile("hackamore")


def catch_ignored_signals() -> None:
    """Catch the signals that this process ignores: under nohup, or as a background job of a shell.

    Child processes inherit an ignored signal. A handler that does nothing has the same effect here, and is reset to the default in them.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


catch_ignored_signals()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--quick` and `--shell`."""
    group = parser.getgroup("hackamore")
    group.addoption(
        "--quick", action="store_true", help="when the whole suite runs, leave out what tests/support/tiers.py lists"
    )
    group.addoption(
        "--shell", choices=("asyncio", "trio", "threads"), help="run tests that have a shell on this one only"
    )


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    """Let tests say which behaviours they show, and CI insist on them; give Hypothesis the seed of the run."""
    if SEED and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)
    config.addinivalue_line("markers", "shows(*behaviours): keeps these promises of tests/contract/behaviours.toml")
    config.pluginmanager.register(Outcomes(), "hackamore-behaviours")
    config.pluginmanager.register(Tiers(), "hackamore-tiers")


def pytest_report_header() -> str:
    """Say which seed this run has."""
    return told()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say it where `-q` leaves out the header."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.config.option.verbose < 0:
        reporter.line(told())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it again after failures."""
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.line(told())


def pinned_cli_path() -> Path:
    """Where `./dev` installs the pinned CLI; HACKAMORE_TEST_CLI names another one."""
    if named := os.environ.get("HACKAMORE_TEST_CLI"):
        return Path(named)
    pinned = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))
    return PROJECT / ".dev" / "claude" / str(pinned["version"]) / "claude"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of reach of the garbage collector.

    Looking for garbage among 13,000 tests took three quarters of their collection, 17 s of a processor in each worker, and each
    `gc.collect()` of a test 0.4 s more.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the real CLI, so that `-m real_cli` and `-m "not real_cli"` select them."""
    for item in items:
        if {"claude_path", "real_cli"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real_cli)


_ELSEWHERE = ("HACKAMORE_CORPORA", "this machine does not allow", "runs no container on this machine")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn skipped tests into failures with HACKAMORE_CI=1: there, what was not run was not shown to hold."""
    report = yield
    # The corpora are not part of the project: where they are not, nothing about it can be shown.
    # Namespaces and containers are a matter of the machine: no installation helps where it forbids them.
    elsewhere = report.skipped and any(why in str(report.longrepr) for why in _ELSEWHERE)
    if report.skipped and not elsewhere and not hasattr(report, "wasxfail") and os.environ.get("HACKAMORE_CI") == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped, which HACKAMORE_CI=1 forbids: {report.longrepr}"
    return report


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> object:
    """Scale the timeout of a test with the load of the machine, and with the size of storms."""
    seconds = patience(settings.timeout) * (60 if STORM else 1)
    return pytest_timeout.pytest_timeout_set_timer(item, settings._replace(timeout=seconds))


@pytest.fixture(autouse=True)
def records_are_complete() -> Generator[None, None, None]:
    """Fail a test in which the logger `hackamore` took a record without its ids, or of several lines."""
    handler = CompleteRecords()
    logger = logging.getLogger("hackamore")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert not handler.incomplete


@pytest.fixture(scope="session")
def claude_path() -> str:
    """Return the pinned CLI's path; the test is skipped without it."""
    path = pinned_cli_path()
    if os.access(path, os.X_OK) and path.is_file():
        return str(path)
    pytest.skip(f"the pinned Claude Code CLI is not at {path}; `./dev test` installs it")


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Postgres, None, None]:
    """Return a PostgreSQL server."""
    yield from running(Postgres)


@pytest.fixture
def postgres_address(postgres_server: Postgres) -> str:
    """Return the address of a new database in Postgres."""
    return f"{postgres_server.url}?schema=test_{secrets.token_hex(6)}"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a new database: a file, and a schema in Postgres."""
    found: str = (
        str(tmp_path / "records.db") if request.param == "sqlite" else request.getfixturevalue("postgres_address")
    )
    return found


@dataclass(frozen=True)
class RealCLI:
    """The pinned CLI, and a place of its own for it to run in.

    Attributes:
        cli_path: the executable.
        cwd: an empty working directory.
        directory: the folder that holds everything: home, configuration, `cwd`.
    """

    cli_path: str
    cwd: Path
    directory: Path

    def env(self, model: ScriptedModel) -> dict[str, str]:
        """The whole environment, for `Options(env=..., inherit_env=False)` or `subprocess.run(env=...)`."""
        isolated = {name: value for name, value in model.isolated_env(self.directory).items() if value is not None}
        # IS_SANDBOX: the CLI refuses to run tools unasked as root, which tests in containers are.
        return {"PATH": os.defpath, "LANG": "C.UTF-8", "IS_SANDBOX": "1", **isolated}


@pytest.fixture
def real_cli(claude_path: str, tmp_path: Path) -> RealCLI:
    """Return the pinned CLI with a home, a configuration and a working directory that nobody else uses."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    return RealCLI(cli_path=claude_path, cwd=cwd, directory=tmp_path)
