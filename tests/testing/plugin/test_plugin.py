"""The pytest plugin as its users meet it: in a pytest of its own, loaded by its entry point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import metadata

import pytest

from tests.support.patience import patience

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(240)  # each runs several pytests

INI = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider -p no:xdist -p no:asyncio -p no:trio
filterwarnings = error
"""

WAYS_TO_LEAVE = {
    "process": (
        """
        import pathlib, subprocess
        kept = []
        def test_it():
            kept.append(subprocess.Popen(["sleep", "60"], start_new_session=True))
            pathlib.Path("pid").write_text(str(kept[0].pid))
        """,
        "process *: sleep (and 1 more)",
    ),
    "thread": (
        """
        import threading
        def wait_for_ever():
            threading.Event().wait(60)
        def test_it():
            threading.Thread(target=wait_for_ever, name="forgotten", daemon=True).start()
        """,
        "thread 'forgotten', a daemon, in wait_for_ever (test_leaving.py:*)",
    ),
    "descriptor": (
        """
        import os
        kept = []
        def test_it():
            kept.append(os.open("/dev/null", os.O_RDONLY))
        """,
        "descriptor *: /dev/null",
    ),
    "task": (
        """
        import asyncio, pytest
        async def poll():
            await asyncio.sleep(60)
        kept = []
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_it():
            kept.append(asyncio.create_task(poll(), name="poller"))
        """,
        "task 'poller' of asyncio, in poll (test_leaving.py:*)",
    ),
    "trio-task": (
        """
        import trio, pytest
        async def poll():
            await trio.sleep(60)
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio"])
        async def test_it():
            trio.lowlevel.spawn_system_task(poll, name="poller")
        """,
        "task 'poller' of trio",
    ),
}


@pytest.mark.parametrize("kind", WAYS_TO_LEAVE)
def test_what_is_left_is_named(kind: str, pytester: pytest.Pytester) -> None:
    code, named = WAYS_TO_LEAVE[kind]
    pytester.makeini(INI + "hackamore_no_leaks = true\nhackamore_leak_seconds = 0.1\n")
    pytester.makepyfile(test_leaving=code)
    try:
        result = pytester.runpytest_subprocess(timeout=patience(100))
    finally:
        if kind == "process":
            os.kill(int((pytester.path / "pid").read_text()), signal.SIGKILL)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*test_leaving.py::test_it* left 1 thing(s) behind:", f"  {named}"])


CLEAN = """
    import asyncio, os, subprocess, threading
    import anyio, pytest, trio

    def leave(kind):
        {"thread": lambda: threading.Thread(target=threading.Event().wait, args=(0.1,)).start(),
         "process": lambda: subprocess.run(["true"]),
         "cycle": lambda: cycle()}[kind]()

    def cycle():
        file = open(os.devnull)
        os.close(os.dup(file.fileno()))
        file.close()

    @pytest.mark.parametrize("kind", ["thread", "process", "cycle"])
    def test_what_ends_by_itself(kind):
        leave(kind)

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_plain_functions_with_a_loop_of_their_own(backend):
        async def main():
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 0)
                await anyio.to_thread.run_sync(lambda: None)
        anyio.run(main, backend=backend)

    @pytest.mark.anyio
    async def test_under_the_plugin_of_anyio(anyio_backend_name):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
        await anyio.to_thread.run_sync(lambda: None)
        if anyio_backend_name == "asyncio":
            task = asyncio.create_task(asyncio.sleep(60))
            task.cancel()

    @pytest.fixture(scope="module")
    def server():
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait, name="server")
        thread.start()
        yield thread
        stop.set()
        thread.join()

    def test_wider_fixtures_may_stay(server, tmp_path, capfd):
        assert server.is_alive()

    @pytest.fixture
    def own():
        file = open(os.devnull)
        yield file
        file.close()

    def test_own_fixtures_are_gone_by_then(own, hackamore_leak_check):
        pass

    kept = []

    def test_what_is_allowed(hackamore_leak_check):
        hackamore_leak_check.allow("/dev/zero")
        kept.append(os.open("/dev/zero", os.O_RDONLY))

    @pytest.mark.hackamore_leaks_allowed
    def test_that_is_not_checked():
        kept.append(os.open("/dev/full", os.O_RDONLY))

    @pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.hackamore_leaks_allowed)])
    def test_marks_of_one_case(number):
        if number == 2:
            kept.append(os.open("/dev/full", os.O_RDONLY))

    class TestMethods:
        @pytest.mark.anyio
        async def test_async_method(self, own):
            await anyio.sleep(0)
"""


def test_what_is_no_leak(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(CLEAN)
    result = pytester.runpytest_inprocess("--hackamore-no-leaks")
    result.assert_outcomes(passed=15)


def test_it_is_off_unless_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import os, pytest
        kept = []
        def leave():
            kept.append(os.open("/dev/null", os.O_RDONLY))
        def test_unchecked():
            leave()
        @pytest.mark.hackamore_no_leaks
        def test_marked():
            leave()
        def test_named(hackamore_leak_check):
            leave()
        def test_after_them_nobody_is_blamed(hackamore_leak_check):
            pass
        """
    )
    result = pytester.runpytest_inprocess("-o", "hackamore_leak_seconds=0.1")
    result.assert_outcomes(passed=4, errors=2)


def test_a_failing_test_fails_once_and_its_leak_is_told(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import os
        def test_it(hackamore_leak_check):
            os.open("/dev/null", os.O_RDONLY)
            assert 1 == 2
        """
    )
    result = pytester.runpytest_inprocess("-o", "hackamore_leak_seconds=0.1")
    result.assert_outcomes(failed=1, errors=1)


def test_the_markers_and_options_are_known(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    result = pytester.runpytest_inprocess("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.hackamore_no_leaks:*"])
    result = pytester.runpytest_inprocess("--help")
    result.stdout.fnmatch_lines(["*--hackamore-record=*", "*--hackamore-no-leaks*", "*hackamore_leak_seconds*"])
    result = pytester.runpytest_inprocess("--fixtures")
    result.stdout.fnmatch_lines(["hackamore_leak_check*", "*Fail the test if it leaves*"])


def test_options_see_nothing_of_this_machine(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import os
        def test_it(hackamore_options, scripted_model, tmp_path):
            model = scripted_model()
            options = hackamore_options(model, max_turns=3, env={"MINE": "1"})
            assert options.max_turns == 3
            assert options.cli_path == "/opt/claude"
            assert options.inherit_env is False
            for name in ("HOME", "CLAUDE_CONFIG_DIR", "TMPDIR"):
                assert options.env[name].startswith(str(tmp_path))
            assert options.env["ANTHROPIC_BASE_URL"] == model.url
            assert options.env["MINE"] == "1"
            assert "SECRET_OF_THE_USER" not in options.env
            assert str(options.cwd).startswith(str(tmp_path))
            assert "CLAUDE_CODE_MAX_RETRIES" not in options.env
            nobody = hackamore_options().env
            assert nobody["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9"
            assert nobody["CLAUDE_CODE_MAX_RETRIES"] == "0"
        """
    )
    monkeypatch.setenv("SECRET_OF_THE_USER", "x")
    result = pytester.runpytest_inprocess("--hackamore-cli", "/opt/claude")
    result.assert_outcomes(passed=1)


def test_it_is_an_entry_point() -> None:
    [entry] = [entry for entry in metadata.entry_points(group="pytest11") if entry.name == "hackamore"]
    assert entry.value == "hackamore.testing.plugin"


def test_loading_it_costs_nothing_to_speak_of() -> None:
    code = "import sys, pytest; before = set(sys.modules); import hackamore.testing.plugin; print(*set(sys.modules) - before)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=patience(60)
    ).stdout
    assert set(printed.split()) == {"hackamore", "hackamore._version", "hackamore.testing", "hackamore.testing.plugin"}
    measured = "import pytest, time; began = time.perf_counter(); import hackamore.testing.plugin; print(time.perf_counter() - began)"
    seconds = min(
        float(
            subprocess.run(
                [sys.executable, "-c", measured], capture_output=True, check=True, timeout=patience(100)
            ).stdout
        )
        for _ in range(5)
    )
    assert seconds < patience(0.05)
