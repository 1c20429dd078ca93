"""The plugin's fixtures and leak check with pytest-asyncio, pytest-trio, the plugin of anyio and unittest, each as it is installed.

In these files whatever has `leaks` in its name must fail for it, and nothing else may.
"""

from __future__ import annotations

import re

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(240)  # each runs a pytest of its own

INI = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider -p no:xdist -q
filterwarnings = error
hackamore_no_leaks = true
hackamore_leak_seconds = 0.5
"""

COMMON = """
    import asyncio, os, threading, unittest
    import anyio, hackamore, hackamore.sync, pytest, trio
    from hackamore.testing import Script, SimulatedCLI

    kept = []

    def greeting():
        return Script().user("Hi").says("Hello.")

    def shared_session():
        return hackamore.Session(transport=SimulatedCLI(Script().user("a").says("A").user("b").says("B")))

    async def said(session, prompt):
        return (await (await session.send(prompt)).result()).result
"""

EVERYWHERE = """
    def test_plain(simulated_cli, hackamore_options):
        cli = simulated_cli(greeting())
        assert hackamore.sync.run("Hi", hackamore_options(), transport=cli).text == "Hello."

    async def test_clean(simulated_cli, hackamore_options):
        cli = simulated_cli(greeting())
        assert (await hackamore.run("Hi", hackamore_options(), transport=cli)).text == "Hello."

    async def test_session(simulated_cli, hackamore_options):
        async with hackamore.Session(hackamore_options(), transport=simulated_cli(greeting())) as session:
            assert await said(session, "Hi") == "Hello."

    async def test_cassette(cassette, hackamore_options):
        assert (await hackamore.run("Hi", hackamore_options(), transport=SimulatedCLI(greeting()))).text == "Hello."

    @pytest.mark.hackamore_script(greeting())
    async def test_marked(simulated_cli):
        assert (await hackamore.run("Hi", transport=simulated_cli)).text == "Hello."

    async def test_that_leaks_a_thread():
        threading.Thread(target=threading.Event().wait, args=(20,), daemon=True, name="forgotten").start()

    async def test_that_leaks_a_descriptor():
        kept.append(os.open(os.devnull, os.O_RDONLY))

    async def test_worker_threads():
        await anyio.to_thread.run_sync(lambda: None)

    def test_last():
        pass
"""

ASYNCIO = """
    async def test_that_leaks_a_task():
        kept.append(asyncio.create_task(asyncio.sleep(60), name="poller"))

    @pytest_asyncio.fixture
    async def workers():
        begun = []
        def begin():
            begun.append(asyncio.create_task(asyncio.sleep(60)))
        yield begin
        for task in begun:
            task.cancel()

    @pytest.mark.asyncio
    async def test_what_a_fixture_ends(workers):
        workers()

    @pytest.mark.asyncio(loop_scope="module")
    async def test_a_loop_of_the_module():
        pass

    @pytest.mark.asyncio(loop_scope="class")
    class TestLoopOfTheClass:
        async def test_it(self):
            pass

    @pytest_asyncio.fixture(scope="session", loop_scope="session")
    async def session():
        async with shared_session() as session:
            yield session

    @pytest.mark.asyncio(loop_scope="session")
    class TestShared:
        async def test_a(self, session):
            assert await said(session, "a") == "A"

        async def test_that_leaks_a_task(self):
            kept.append(asyncio.create_task(asyncio.sleep(60)))

        async def test_b(self, session):
            assert await said(session, "b") == "B"
"""

TRIO = """
    async def test_that_leaks_a_task():
        trio.lowlevel.spawn_system_task(trio.sleep_forever, name="poller")

    async def test_nursery(nursery):
        nursery.start_soon(trio.sleep_forever)

    @pytest.fixture
    async def workers():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            yield nursery
            nursery.cancel_scope.cancel()

    async def begin_deeper():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)

    async def test_what_a_fixture_ends(workers):
        workers.start_soon(begin_deeper)

    @pytest.fixture
    async def session(simulated_cli):
        async with hackamore.Session(transport=simulated_cli(greeting())) as session:
            yield session

    async def test_a_session_of_a_fixture(session):
        assert await said(session, "Hi") == "Hello."

    async def test_another_clock(autojump_clock, simulated_cli):
        await trio.sleep(1000)
        assert (await hackamore.run("Hi", transport=simulated_cli(greeting()))).text == "Hello."
"""

ANYIO = """
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    async def workers(anyio_backend):
        async with anyio.create_task_group() as group:
            yield group
            group.cancel_scope.cancel()

    async def test_what_a_fixture_ends(workers):
        workers.start_soon(anyio.sleep_forever)

    @pytest.fixture(scope="module")
    async def session(anyio_backend):
        async with shared_session() as session:
            yield session

    async def test_a(session):
        assert await said(session, "a") == "A"

    async def test_b(session):
        assert await said(session, "b") == "B"
"""

ANYIO_LATE = """
    async def test_late_that_leaks(anyio_backend_name):
        if anyio_backend_name == "asyncio":
            kept.append(asyncio.create_task(asyncio.sleep(60)))
        else:
            trio.lowlevel.spawn_system_task(trio.sleep_forever)

    async def test_late_that_leaks_a_descriptor():
        kept.append(os.open(os.devnull, os.O_RDONLY))
"""

MARKED_LATE = """
    import pytest
    def pytest_collection_modifyitems(items):
        for item in items:
            if "late" in item.name:
                item.add_marker(pytest.mark.anyio)
"""

UNITTEST = """
    class TestOfALoop(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            self.begun = [asyncio.create_task(asyncio.sleep(60))]

        async def asyncTearDown(self):
            for task in self.begun:
                task.cancel()

        async def test_what_teardown_ends(self):
            self.begun.append(asyncio.create_task(asyncio.sleep(60)))

        async def test_that_leaks_a_task(self):
            kept.append(asyncio.create_task(asyncio.sleep(60)))

        @pytest.mark.usefixtures("cassette")
        async def test_cassette(self):
            assert (await hackamore.run("Hi", transport=SimulatedCLI(greeting()))).text == "Hello."

    class TestPlain(unittest.TestCase):
        @pytest.fixture(autouse=True)
        def take(self, hackamore_options, simulated_cli):
            self.options, self.cli = hackamore_options(), simulated_cli(greeting())

        def test_it(self):
            assert hackamore.sync.run("Hi", self.options, transport=self.cli).text == "Hello."

        def test_that_leaks_a_descriptor(self):
            assert hackamore.sync.run("Hi", self.options, transport=self.cli).text == "Hello."
            kept.append(os.open(os.devnull, os.O_RDONLY))
"""

TOGETHER = """
    @pytest.mark.asyncio
    async def test_asyncio(cassette):
        assert (await hackamore.run("Hi", transport=SimulatedCLI(greeting()))).text == "Hello."

    @pytest.mark.trio
    async def test_trio(simulated_cli):
        assert (await hackamore.run("Hi", transport=simulated_cli(greeting()))).text == "Hello."

    @pytest.mark.anyio
    async def test_anyio(simulated_cli):
        assert (await hackamore.run("Hi", transport=simulated_cli(greeting()))).text == "Hello."

    @pytest.mark.asyncio
    async def test_asyncio_that_leaks():
        kept.append(asyncio.create_task(asyncio.sleep(60)))

    @pytest.mark.trio
    async def test_trio_that_leaks():
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
"""


def leaking(pytester: pytest.Pytester, passed: int, *arguments: str) -> list[str]:
    """Run the tests, of which that many are to pass, and return what was said of those that left something."""
    result = pytester.runpytest_inprocess(*arguments)
    text = result.stdout.str()
    failed = set(re.findall(r"^ERROR \S+::(\w+)", text, re.M))
    assert all("leak" in name for name in failed), text
    leaks = re.findall(r"^\S+::\S+ left 1 thing\(s\) behind:\n  (.*)", text, re.M)
    result.assert_outcomes(passed=passed, errors=len(leaks))
    return leaks


def recorded(pytester: pytest.Pytester) -> list[str]:
    """Return the names of the cassettes."""
    return sorted(path.name.partition(".")[2] for path in (pytester.path / "cassettes").iterdir())


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def test_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI + "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_it=f"{COMMON}    import pytest_asyncio\n{EVERYWHERE}{ASYNCIO}")
    leaks = leaking(pytester, 16, "-p", "no:trio")
    assert len(leaks) == 4
    assert "task 'poller' of asyncio, in sleep (tasks.py:" in " ".join(leaks)
    assert recorded(pytester) == ["test_cassette.jsonl"]


def test_pytest_trio(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI + "trio_mode = true\n")
    pytester.makepyfile(test_it=f"{COMMON}{EVERYWHERE}{TRIO}")
    leaks = leaking(pytester, 14, "-p", "no:asyncio")
    assert len(leaks) == 3
    assert "task 'poller' of trio" in leaks
    assert recorded(pytester) == ["test_cassette.jsonl"]


def test_the_plugin_of_anyio(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makeconftest(MARKED_LATE)
    pytester.makepyfile(test_it=f"{COMMON}{ANYIO}", test_late=f"{COMMON}{ANYIO_LATE}")
    assert len(leaking(pytester, 10, "-p", "no:asyncio", "-p", "no:trio")) == 4


def test_unittest(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_it=f"{COMMON}{UNITTEST}")
    assert len(leaking(pytester, 5, "-p", "no:asyncio", "-p", "no:trio")) == 2
    assert recorded(pytester) == ["TestOfALoop.test_cassette.jsonl"]


def test_all_of_them_together(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI + "asyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_it=f"{COMMON}{TOGETHER}")
    assert len(leaking(pytester, 6)) == 2
