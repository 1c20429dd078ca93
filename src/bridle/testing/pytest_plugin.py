"""The pytest plugin: fixtures for agents under test, and a check that nothing is left behind.

pytest loads this file in every run wherever Bridle is installed, so it imports nothing that a run without Bridle's
fixtures would have to pay for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bridle.options import Options
    from bridle.testing.plugin_parts import LeakCheck
    from bridle.testing.scripted_model import ScriptedModel

_LEAKS = "bridle_leak_check"
_MODES = ("once", "none", "all", "new")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--bridle-...` and their ini settings."""
    group = parser.getgroup("bridle", "Bridle: agents under test")
    group.addoption(
        "--bridle-record",
        choices=_MODES,
        default=None,
        help="Cassettes: `once` records what has no cassette yet, `none` only replays, `new` also adds to cassettes, `all` records "
        "anew. Default: the ini setting bridle_record, else `none` where CI is set and `once` elsewhere.",
    )
    group.addoption(
        "--bridle-cli",
        metavar="PATH",
        default=None,
        help="The Claude Code CLI that `bridle_options` names. Default: the variable BRIDLE_CLI_PATH, else it is looked for.",
    )
    group.addoption(
        "--bridle-no-leaks",
        action="store_true",
        default=None,
        help="Fail every test that leaves a process, a thread, a task or a descriptor behind.",
    )
    parser.addini("bridle_record", f"As --bridle-record: {', '.join(_MODES)}.", default="")
    parser.addini("bridle_no_leaks", "As --bridle-no-leaks, for every run.", type="bool", default=False)
    parser.addini("bridle_leak_seconds", "How long what ends by itself may take after a test.", default="2")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for line in (
        "bridle_no_leaks: the test fails if it leaves a process, a thread, a task or a descriptor behind",
        "bridle_leaks_allowed: the test is not checked for leaks, although all others are",
        "bridle_script(*steps, **options): the script that the fixture `simulated_cli` plays",
    ):
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the leak check around the tests that are to be checked: before each of their own fixtures, after wider ones."""
    everywhere = bool(config.getoption("bridle_no_leaks") or config.getini("bridle_no_leaks"))
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is None:
            continue
        asked = everywhere or item.get_closest_marker("bridle_no_leaks") is not None
        if item.get_closest_marker("bridle_leaks_allowed") is not None or not (asked or _LEAKS in names):
            continue
        known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        others = [name for name in names if name != _LEAKS]
        wider = [name for name in others if name in known and known[name][-1].scope != "function"]
        item.fixturenames = [*wider, _LEAKS, *(name for name in others if name not in wider)]  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look at the tasks of the event loop from inside of the test, where it is one of a loop."""
    check = getattr(item, "funcargs", {}).get(_LEAKS)
    if check is not None and item.get_closest_marker("bridle_leaks_allowed") is None:
        check.watch_tasks(item)


@pytest.fixture
def bridle_leak_check(request: pytest.FixtureRequest) -> Iterator[LeakCheck]:
    """Fail the test if it leaves a process, a thread, a task or a descriptor behind.

    Switched on by naming it, by `@pytest.mark.bridle_no_leaks`, by the ini setting `bridle_no_leaks = true` or `--bridle-no-leaks`.
    `bridle_leak_check.allow("part of its name")` lets something stay.
    """
    from bridle.testing.plugin_parts import LeakCheck

    check = LeakCheck(float(request.config.getini("bridle_leak_seconds")))
    yield check
    report = check.report(request.node.nodeid)
    if report:
        pytest.fail(report, pytrace=False)


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """Return a factory of scripted models: `model = scripted_model(Reply("Hello"))`.

    They are started at once, stopped at the end of the test, and checked.
    """
    from contextlib import ExitStack

    from bridle.testing.scripted_model import ScriptedModel

    with ExitStack() as models:

        def factory(*steps: Any, **routes: Any) -> ScriptedModel:
            return models.enter_context(ScriptedModel(*steps, **routes))

        yield factory


@pytest.fixture
def bridle_options(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Options]:
    """Return a factory of options that see nothing of this machine: `bridle_options(model, permission_mode="plan")`.

    Home, configuration, temporary files and the working directory are folders of the test; the environment is not inherited, the key is
    no key, and requests go to the scripted model, or to nobody.
    """
    from bridle.testing.isolation import isolated_options

    cli = request.config.getoption("bridle_cli") or os.environ.get("BRIDLE_CLI_PATH")

    def factory(model: ScriptedModel | None = None, **fields: Any) -> Options:
        return isolated_options(tmp_path / "bridle", cli, model, fields)

    return factory
