"""`--hackamore-trace`: traces of failed tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from hackamore.traces.reading import read_trace
from tests.contract import shows

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(240)  # each runs several pytests

INI = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider -p no:xdist -p no:asyncio -p no:trio
filterwarnings = error
"""
TESTS = """
    import threading
    import hackamore, hackamore.sync, pytest
    from hackamore.testing import Script

    def said(simulated_cli, hackamore_options, key="sk-ant-canary0123456789"):
        cli = simulated_cli(Script().user(key).says("Hello."))
        return hackamore.sync.run(key, hackamore_options(), transport=cli).text

    def test_passes(simulated_cli, hackamore_options):
        assert said(simulated_cli, hackamore_options) == "Hello."

    def test_fails(simulated_cli, hackamore_options):
        assert said(simulated_cli, hackamore_options) == "Bye."

    @pytest.mark.parametrize("text", ["<a/b>", "ü"])
    def test_fails_in_a_thread(simulated_cli, hackamore_options, text):
        found = []
        thread = threading.Thread(target=lambda: found.append(said(simulated_cli, hackamore_options, text)))
        thread.start()
        thread.join()
        assert found == [text]

    def test_opens_nothing():
        assert False
"""


def run(pytester: pytest.Pytester, *arguments: str, ini: str = "") -> tuple[list[Path], str]:
    pytester.makeini(INI + ini)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=1, failed=4)
    return sorted(pytester.path.glob("**/hackamore-traces/*")), result.stdout.str()


@shows("traces.kept")
def test_traces_of_failed_tests_are_kept(pytester: pytest.Pytester) -> None:
    files, shown = run(pytester, "--hackamore-trace=retain-on-failure")
    traces = [path for path in files if path.suffix == ".jsonl"]
    assert len(traces) == 3
    assert files == sorted([*traces, *(path.with_suffix(".html") for path in traces)])
    for path in files:
        assert str(path) in shown
        assert b"canary" not in path.read_bytes()
    assert shown.count("Hackamore trace") == 3
    items = read_trace(next(path for path in traces if "test_fails-" in path.name)).builder.items
    assert [item.kind for item in items if item.kind in ("prompt", "result")] == ["prompt", "result"]


def test_traces_of_all_tests(pytester: pytest.Pytester) -> None:
    files, _ = run(pytester, "--hackamore-trace=on")
    assert len(files) == 8
    files, _ = run(pytester, "--hackamore-trace", "retain-on-failure")  # those of an earlier run are replaced
    assert len(files) == 6


def test_the_ini_settings(pytester: pytest.Pytester) -> None:
    files, _ = run(pytester)
    assert files == []
    run(pytester, ini="hackamore_trace = retain-on-failure\nhackamore_trace_dir = artifacts/of-ci\n")
    assert len(list((pytester.path / "artifacts" / "of-ci").iterdir())) == 6
    pytester.makeini(INI + "hackamore_trace = always\n")
    result = pytester.runpytest_inprocess()
    assert (
        "hackamore_trace must be one of off, on, retain-on-failure, not 'always'"
        in result.stdout.str() + result.stderr.str()
    )
