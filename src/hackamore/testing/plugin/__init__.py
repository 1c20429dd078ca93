"""The pytest plugin: fixtures for agents under test, and a check that nothing is left behind.

pytest loads this file in every run wherever Hackamore is installed, so it imports nothing that a run without Hackamore's
fixtures would have to pay for.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hackamore.options.options import Options
    from hackamore.testing.cassettes.cassette import Cassette
    from hackamore.testing.model.scripted_model import ScriptedModel
    from hackamore.testing.plugin.parts import LeakCheck
    from hackamore.testing.plugin.traces import TestTrace
    from hackamore.testing.policies import PolicyVerdicts
    from hackamore.testing.script.script import Script
    from hackamore.testing.simulation.simulated_cli import SimulatedCLI

_BLOCKS = pytest.StashKey["list[AbstractContextManager[Any]]"]()
_CHECK = pytest.StashKey["LeakCheck | None"]()
_LEAKS = "hackamore_leak_check"
_MODES = ("once", "none", "all", "new")
_TRACE_MODES = ("off", "on", "retain-on-failure")
_TRACE: pytest.StashKey[TestTrace] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--hackamore-...` and their ini settings."""
    group = parser.getgroup("hackamore", "Hackamore: agents under test")
    group.addoption(
        "--hackamore-record",
        choices=_MODES,
        default=None,
        help="Cassettes: `once` records tests without a cassette, `none` only replays, `new` also adds to cassettes, `all` records "
        "again. Default: the ini setting hackamore_record, else `none` where CI is set and `once` elsewhere.",
    )
    group.addoption(
        "--hackamore-cli",
        metavar="PATH",
        default=None,
        help="The Claude Code CLI that `hackamore_options` names. Default: the variable HACKAMORE_CLI_PATH, else it is looked for.",
    )
    group.addoption(
        "--hackamore-no-leaks",
        action="store_true",
        default=None,
        help="Fail every test that leaves a process, a thread, a task or a descriptor behind.",
    )
    group.addoption(
        "--hackamore-trace",
        choices=_TRACE_MODES,
        default=None,
        help="Keep a trace of the sessions of each test, as JSONL and as a page: `on`, or `retain-on-failure` for failed tests alone. "
        "Default: the ini setting hackamore_trace, else `off`.",
    )
    group.addoption(
        "--hackamore-trace-dir",
        metavar="PATH",
        default=None,
        help="The folder of these traces. Default: the ini setting hackamore_trace_dir, else `hackamore-traces` in the root folder.",
    )
    parser.addini("hackamore_trace", f"As --hackamore-trace: {', '.join(_TRACE_MODES)}.", default="")
    parser.addini("hackamore_trace_dir", "As --hackamore-trace-dir.", default="")
    parser.addini("hackamore_record", f"As --hackamore-record: {', '.join(_MODES)}.", default="")
    parser.addini("hackamore_no_leaks", "As --hackamore-no-leaks, for every run.", type="bool", default=False)
    parser.addini("hackamore_leak_seconds", "How long what ends by itself may take after a test.", default="2")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and refuse a setting of traces that is not a mode."""
    for line in (
        "hackamore_no_leaks: the test fails if it leaves a process, a thread, a task or a descriptor behind",
        "hackamore_leaks_allowed: the test is not checked for leaks, although all others are",
        "hackamore_script(script, **options): what the fixture `simulated_cli` plays; it is then a SimulatedCLI, and no factory",
        "hackamore_cassette(**options): what the fixture `cassette` passes on to `hackamore.testing.cassette`",
    ):
        config.addinivalue_line("markers", line)
    if (mode := _trace_mode(config)) not in _TRACE_MODES:
        raise pytest.UsageError(
            f"The ini setting hackamore_trace must be one of {', '.join(_TRACE_MODES)}, not {mode!r}."
        )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Put the leak check around the tests that are to be checked: before each of their own fixtures, after wider ones.

    After the other plugins: that of anyio makes new tests of those that got its marker late.
    """
    config = session.config
    everywhere = bool(config.getoption("hackamore_no_leaks") or config.getini("hackamore_no_leaks"))
    for item in session.items:
        names = getattr(item, "fixturenames", None)
        if names is None:
            continue
        asked = everywhere or item.get_closest_marker("hackamore_no_leaks") is not None
        if item.get_closest_marker("hackamore_leaks_allowed") is not None or not (asked or _LEAKS in names):
            continue
        known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        others = [name for name in names if name != _LEAKS]
        wider = [name for name in others if name in known and known[name][-1].scope != "function"]
        item.fixturenames = [*wider, _LEAKS, *(name for name in others if name not in wider)]  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look at the tasks of the event loop from inside the test, where it is one of a loop."""
    check = getattr(item, "funcargs", {}).get(_LEAKS)
    if check is not None and item.get_closest_marker("hackamore_leaks_allowed") is None:
        check.watch_tasks(item)


@pytest.fixture
def hackamore_leak_check(request: pytest.FixtureRequest) -> Iterator[LeakCheck]:
    """Fail the test if it leaves a process, a thread, a task or a descriptor behind.

    Switched on by naming it, by `@pytest.mark.hackamore_no_leaks`, by the ini setting `hackamore_no_leaks` or `--hackamore-no-leaks`.
    `hackamore_leak_check.allow("part of its name")` lets something stay.
    """
    from hackamore.testing.plugin.parts import LeakCheck

    check = LeakCheck(float(request.config.getini("hackamore_leak_seconds")))
    request.config.stash[_CHECK] = check
    yield check
    request.config.stash[_CHECK] = None
    report = check.report(request.node.nodeid)
    if report:
        pytest.fail(report, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Do not blame a test for fixtures of a wider scope that are made while it runs, as the event loops of pytest-asyncio are."""
    check = request.config.stash.get(_CHECK, None)
    if check is None or fixturedef.scope == "function":
        return (yield)
    with check.nobody_blamed():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Leave scripts and cassettes of a test that failed by its failure, which they then explain in its report."""
    if call.when == "call" and call.excinfo is not None:
        error = call.excinfo.value
        blocks = item.stash.get(_BLOCKS, [])
        while blocks:
            blocks.pop().__exit__(type(error), error, error.__traceback__)
    report = yield
    trace = item.stash.get(_TRACE, None)
    if trace is not None:
        trace.take(report)
    return report


def _trace_mode(config: pytest.Config) -> str:
    return str(config.getoption("hackamore_trace") or config.getini("hackamore_trace") or "off")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Trace the sessions of a test, with `--hackamore-trace`."""
    mode = _trace_mode(item.config)
    if mode == "off":
        return (yield)
    from hackamore.testing.plugin import traces

    trace = item.stash[_TRACE] = traces.TestTrace(item, keep=mode == "on")
    with trace:
        return (yield)


@contextmanager
def _used(request: pytest.FixtureRequest, block: AbstractContextManager[Any]) -> Iterator[None]:
    """Use a `with` block for the length of a test: what it checks at its end counts if the test passed."""
    from hackamore.testing.errors import ScriptError

    block.__enter__()
    blocks = request.node.stash.setdefault(_BLOCKS, [])
    blocks.append(block)
    yield
    if block in blocks:
        blocks.remove(block)
        problem = None
        try:
            block.__exit__(None, None, None)
        except ScriptError as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:  # without a traceback: it would be one of this file
            pytest.fail(problem, pytrace=False)


@pytest.fixture
def scripted_model(request: pytest.FixtureRequest) -> Iterator[Callable[..., ScriptedModel]]:
    """Return a factory of scripted models: `model = scripted_model(Reply("Hello"))`.

    They are started immediately, stopped at the end of the test, and checked if it passed.
    """
    from contextlib import ExitStack

    from hackamore.testing.model.scripted_model import ScriptedModel

    models = ExitStack()

    def factory(*steps: Any, **routes: Any) -> ScriptedModel:
        return models.enter_context(ScriptedModel(*steps, **routes))

    with _used(request, models):
        yield factory


@pytest.fixture
def simulated_cli(request: pytest.FixtureRequest) -> Iterator[Callable[..., SimulatedCLI] | SimulatedCLI]:
    """Return a factory of simulated CLIs: `cli = simulated_cli(Script().user("Hi").says("Hello."))`, for `transport=cli`.

    With `@pytest.mark.hackamore_script(script)` it is that script's simulated CLI itself. Scripts are checked at the end of a test that
    passed: each step must have happened.
    """
    from contextlib import ExitStack

    from hackamore.testing.simulation.simulated_cli import SimulatedCLI

    clis = ExitStack()

    def factory(script: Script, **options: Any) -> SimulatedCLI:
        return clis.enter_context(SimulatedCLI(script, **options))

    marker = request.node.get_closest_marker("hackamore_script")
    if marker is not None and len(marker.args) != 1:
        raise pytest.UsageError(
            "`hackamore_script` needs a script: `@pytest.mark.hackamore_script(Script().user(...).says(...))`"
        )
    with _used(request, clis):
        yield factory if marker is None else factory(*marker.args, **marker.kwargs)


@pytest.fixture
def policy_verdicts() -> Callable[[Any], PolicyVerdicts]:
    """Return a function that wraps a policy, for `Options(policy=policy_verdicts(policy))`: the wrapper keeps `calls` and `denied()`."""
    from hackamore.testing.policies import PolicyVerdicts

    return PolicyVerdicts


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """Record the sessions of the test, or replay them: `cassettes/<file>.<test>.jsonl` beside the test's file.

    `--hackamore-record` says which: see there. `@pytest.mark.hackamore_cassette(redact=..., speed=...)` passes arguments on.
    """
    from hackamore.testing.plugin.parts import cassette_of, record_mode, use_in_task

    tape = cassette_of(request.node, record_mode(request.config))
    use_in_task(request.node, tape)
    with _used(request, tape):
        yield tape


@pytest.fixture
def hackamore_options(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Options]:
    """Return a factory of options that see nothing of this machine: `hackamore_options(model, permission_mode="plan")`.

    Home, configuration, temporary files and the working directory are folders of the test; the environment is not inherited, the key is
    not a real one, and requests go to the scripted model or nowhere.
    """
    from hackamore.testing.model.environment import isolated_options

    cli = request.config.getoption("hackamore_cli") or os.environ.get("HACKAMORE_CLI_PATH")

    def factory(model: ScriptedModel | None = None, **fields: Any) -> Options:
        return isolated_options(tmp_path / "hackamore", cli, None if model is None else model.url, fields)

    return factory
