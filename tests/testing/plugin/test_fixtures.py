"""The plugin's fixtures for simulated CLIs and cassettes, in plain functions and under the plugin of anyio."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(240)  # each runs several pytests

INI = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider -p no:xdist -p no:asyncio -p no:trio
filterwarnings = error
hackamore_no_leaks = true
"""


def test_a_simulated_cli_in_every_kind_of_test(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import hackamore, hackamore.sync, pytest
        from hackamore.testing import Script

        def greeting():
            return Script().user("Hi").says("Hello.")

        def test_plain(simulated_cli, hackamore_options):
            cli = simulated_cli(greeting())
            assert hackamore.sync.run("Hi", hackamore_options(), transport=cli).text == "Hello."

        @pytest.mark.anyio
        async def test_async(simulated_cli, hackamore_options):
            cli = simulated_cli(greeting())
            assert (await hackamore.run("Hi", hackamore_options(), transport=cli)).text == "Hello."

        @pytest.mark.anyio
        async def test_session(simulated_cli, hackamore_options):
            async with hackamore.Session(hackamore_options(), transport=simulated_cli(greeting())) as session:
                result = await (await session.send("Hi")).result()
                assert result.result == "Hello."

        @pytest.mark.hackamore_script(greeting(), time_scale=0)
        def test_marked(simulated_cli, hackamore_options):
            assert hackamore.sync.run("Hi", hackamore_options(), transport=simulated_cli).text == "Hello."

        def test_as_a_program(simulated_cli, hackamore_options, tmp_path):
            path = simulated_cli(greeting()).install(tmp_path / "cli")
            assert hackamore.sync.run("Hi", hackamore_options(cli_path=path)).text == "Hello."
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=7)


def test_a_script_that_did_not_happen(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        from hackamore.testing import Script

        def test_passing(simulated_cli):
            simulated_cli(Script().user("Hi").says("Hello."))

        def test_failing(simulated_cli):
            simulated_cli(Script().user("Hi").says("Hello."))
            assert 1 == 2
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_passing*", "*Hello.*"])
    result.stdout.fnmatch_lines(["*test_failing*", "*assert 1 == 2*", "*[[]  open[]] says 'Hello.'*"])


def test_a_marker_without_a_script(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hackamore_script
        def test_nothing(simulated_cli):
            pass

        @pytest.mark.hackamore_script("Hi")
        def test_text(simulated_cli):
            pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*`hackamore_script` needs a script: *", "*`script` must be a Script (*), not str*"])
    result.stdout.no_fnmatch_line("*raised in repr()*")


def test_parameters_that_are_no_names_of_files_have_cassettes_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        test_shop="""
        import hackamore.sync, pytest
        from hackamore.testing import Script, SimulatedCLI

        @pytest.mark.parametrize("sign", ["<", ">", "a/b", "a b", "a-b", "+1", "1", "tea"])
        def test_sign(cassette, sign):
            cli = SimulatedCLI(Script().user("Hi").says(sign))
            assert hackamore.sync.run("Hi", transport=cli).text == sign
        """
    )
    for _ in range(2):
        pytester.runpytest_inprocess("--hackamore-record=once").assert_outcomes(passed=8)
    names = {path.name for path in (pytester.path / "cassettes").iterdir()}
    assert len(names) == 8
    assert {"test_shop.test_sign-1.jsonl", "test_shop.test_sign-a-b.jsonl", "test_shop.test_sign-tea.jsonl"} < names


CASSETTES = """
    import hackamore, hackamore.sync, pytest
    from hackamore.testing import Script, SimulatedCLI

    def cli():
        return SimulatedCLI(Script().user("Hi").says("Hello."))

    def test_plain(cassette, hackamore_options):
        assert hackamore.sync.run("Hi", hackamore_options(), transport=cli()).text == "Hello."

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
    async def test_async(cassette, hackamore_options):
        assert (await hackamore.run("Hi", hackamore_options(), transport=cli())).text == "Hello."

    class TestMethods:
        @pytest.mark.hackamore_cassette(speed=10.0)
        @pytest.mark.parametrize("what", ["a/b", "é"])
        def test_names(self, cassette, hackamore_options, what):
            assert hackamore.sync.run("Hi", hackamore_options(), transport=cli()).text == "Hello."
"""


def test_cassettes_are_recorded_once_and_replayed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    pytester.makeini(INI)
    module = pytester.makepyfile(test_tapes=CASSETTES)
    pytester.runpytest_inprocess().assert_outcomes(passed=5)
    recorded = sorted(path.name for path in (pytester.path / "cassettes").iterdir())
    assert recorded[:3] == [
        "test_tapes.TestMethods.test_names-a-b-350d8841.jsonl",
        recorded[1],
        "test_tapes.test_async-asyncio.jsonl",
    ]
    assert len(recorded) == 5
    # Replayed, nobody is asked any more: not even a CLI that is not there.
    module.write_text(module.read_text().replace("transport=cli()", "transport=None"))
    monkeypatch.setenv("CI", "1")
    result = pytester.runpytest_inprocess("--hackamore-cli", "/nowhere/claude")
    result.assert_outcomes(passed=5)
    assert sorted(path.name for path in (pytester.path / "cassettes").iterdir()) == recorded
    # A changed prompt does not fit any more, and what it says instead is shown.
    module.write_text(module.read_text().replace('run("Hi"', 'run("Ho"'))
    result = pytester.runpytest_inprocess("-k", "plain")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*CassetteMismatchError*"])


def test_nothing_is_recorded_in_ci_and_of_failed_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_tapes=CASSETTES)
    monkeypatch.setenv("CI", "true")
    result = pytester.runpytest_inprocess("-k", "plain")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*There is no cassette*Record it with mode 'once'*"])
    monkeypatch.delenv("CI")
    pytester.makepyfile(
        test_failing="""
        import hackamore.sync
        from hackamore.testing import Script, SimulatedCLI
        def test_it(cassette, hackamore_options):
            cli = SimulatedCLI(Script().user("Hi").says("Hello."))
            hackamore.sync.run("Hi", hackamore_options(), transport=cli)
            assert 1 == 2
        """
    )
    pytester.runpytest_inprocess("test_failing.py").assert_outcomes(failed=1)
    assert not (pytester.path / "cassettes" / "test_failing.test_it.jsonl").exists()
    result = pytester.runpytest_inprocess("-o", "hackamore_record=sometimes", "-k", "plain")
    assert "must be one of once, none, all, new" in result.stdout.str() + result.stderr.str()
