"""`Session.ask`: a prompt in a session, with the answer, the errors and the retries of `run`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Budget, BudgetExceededError, Options, OptionsError, OutputError, ResultError, Retry, Timeouts
from hackamore.errors import SessionClosedError, SessionNotStartedError, TurnCancelledError, TurnTimeoutError
from hackamore.options.retry import CONTINUE
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.support.patience import patience
from tests.support.talking import Held, got

if TYPE_CHECKING:
    from tests.support.shell import Shell

NOW = Retry(attempts=3, backoff=0)


def started(shell: Shell, cli: SimulatedCLI, **options: Any) -> Held:
    kind = hackamore.sync.Session if shell.blocking else hackamore.Session
    return Held(kind(Options(**options), transport=cli))


@shows("session.ask.answer")
def test_an_answer_is_that_of_run(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("one").says("One.").user("two").says("Two.")) as cli:
            async with started(shell, cli) as session:
                first = await got(session.ask("one"))
                second = await got(session.ask("two"))
        assert [type(answer) for answer in (first, second)] == [hackamore.RunResult] * 2
        assert (first.text, second.text) == ("One.", "Two.")
        assert first.session_id == second.session_id is not None
        assert [message.type for message in second.messages][-1] == "result"
        assert "One." not in "".join(map(str, second.messages))
        assert (second.result.is_error, second.output, second.attempts, second.errors) == (False, None, 1, [])

    shell.play(scenario)


@shows("session.ask.typed")
@pytest.mark.parametrize("kind", [int, dict[str, int], int | None])
def test_the_schema_of_a_type_is_sent_and_the_answer_has_the_type(shell: Shell, kind: Any) -> None:
    value: Any = {"n": 4} if kind == dict[str, int] else 4
    script = Script().user().calls("StructuredOutput", value if isinstance(value, dict) else {"value": value})

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            async with started(shell, cli, output_format=kind) as session:
                assert session.options.output_format["type"] == "json_schema"
                assert (await got(session.ask("go", output_type=kind))).output == value

    shell.play(scenario)


@shows("session.ask.typed")
def test_a_type_without_a_schema_is_refused_before_the_prompt_is_sent(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("two").says("2")) as cli:
            async with started(shell, cli) as session:
                with pytest.raises(OptionsError, match=r"`Options\(output_format=int\)`") as refused:
                    await got(session.ask("one", output_type=int))
                assert refused.value.field == "output_type"
                assert (await got(session.ask("two"))).text == "2"
            cli.check()
        with pytest.raises(OptionsError, match="`output_format` has no JSON schema") as refused:
            Options(output_format=threading.Thread)
        assert refused.value.field == "output_format"

    shell.play(scenario)


def test_an_answer_that_does_not_fit_is_an_output_error(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user().calls("StructuredOutput", {"value": "x"})) as cli:
            schema = {"type": "json_schema", "schema": {"type": "object"}}
            async with started(shell, cli, output_format=schema) as session:
                with pytest.raises(OutputError):
                    await got(session.ask("go", output_type=int))
                assert session.state == "running"

    shell.play(scenario)


@shows("session.ask.errors")
def test_error_results_are_raised_unless_they_are_to_be_returned(shell: Shell) -> None:
    script = Script().user("one").api_error(400, "bad").user("two").api_error(400, "worse").user("three").says("3")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            async with started(shell, cli) as session:
                with pytest.raises(ResultError, match="bad") as caught:
                    await got(session.ask("one"))
                assert caught.value.partial.messages[-1] is caught.value.result
                failed = await got(session.ask("two", check=False))
                assert (failed.result.is_error, failed.output) == (True, None)
                assert (await got(session.ask("three"))).text == "3"

    shell.play(scenario)


@shows("session.ask.retry")
def test_retries_continue_in_the_session(shell: Shell) -> None:
    script = (
        Script()
        .user("go")
        .calls("Bash", {"command": "so far"}, result="ok")
        .api_error(529)
        .user(CONTINUE)
        .says("Done.")
        .user("next")
        .says("Next.")
    )

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            async with started(shell, cli, session_id="00000000-0000-4000-8000-000000000001") as session:
                answer = await got(session.ask("go", retry=NOW))
                assert (answer.text, answer.attempts) == ("Done.", 2)
                assert [warning.code for warning in answer.warnings] == ["RETRYING"]
                assert "so far" in "".join(map(repr, answer.messages))
                assert (await got(session.ask("next"))).warnings == []
            cli.check()

    shell.play(scenario)


@shows("session.ask.retry")
def test_a_session_that_is_over_is_not_tried_again(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").calls("Bash", {"command": "so far"}, result="ok").crash(-9)) as cli:
            async with started(shell, cli) as session:
                with pytest.raises(SessionClosedError) as caught:
                    await got(session.ask("go", retry=Retry(attempts=3, backoff=600)))
                assert (caught.value.retryable, caught.value.attempts) == (True, 1)
                assert "so far" in "".join(map(repr, caught.value.partial.messages))
                with pytest.raises(SessionClosedError):
                    await got(session.ask("again", retry=NOW))

    shell.play(scenario)


def test_limits_are_those_of_the_session(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("slow").interrupted()) as cli:
            async with started(shell, cli, timeouts=Timeouts(turn=0.2)) as session:
                with pytest.raises(TurnTimeoutError):
                    await got(session.ask("slow"))
        with SimulatedCLI(Script()) as cli:
            budget = Budget(usd=1)
            budget.charge(2, 0, check=False)
            async with started(shell, cli, budget=budget) as session:
                with pytest.raises(BudgetExceededError):
                    await got(session.ask("one"))

    shell.play(scenario)


def test_a_session_that_was_not_started_is_refused_and_so_is_a_wrong_prompt(shell: Shell) -> None:
    async def scenario() -> None:
        kind = hackamore.sync.Session if shell.blocking else hackamore.Session
        with pytest.raises(SessionNotStartedError):
            await got(kind().ask("go"))
        with SimulatedCLI(Script()) as cli:
            async with started(shell, cli) as session:
                with pytest.raises(TypeError, match="`prompt` must be"):
                    await got(session.ask(5))
                with pytest.raises(TypeError, match="`retry` must be"):
                    await got(session.ask("go", retry=3))

    shell.play(scenario)


@shows("session.ask.cancelled")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_call_interrupts_its_turn(backend: Any) -> None:
    import anyio

    async def scenario() -> None:
        with SimulatedCLI(Script().user("long").interrupted().user("next").says("Next.")) as cli:
            async with hackamore.Session(transport=cli) as session:
                events = session.events()
                with anyio.move_on_after(patience(30)) as scope:
                    async with anyio.create_task_group() as group:
                        group.start_soon(session.ask, "long")
                        async for event in events:
                            if isinstance(event, hackamore.TurnStarted):
                                group.cancel_scope.cancel()
                                break
                assert not scope.cancelled_caught
                assert (await session.ask("next")).text == "Next."
            cli.check()

    anyio.run(scenario, backend=backend)


def test_a_prompt_that_is_cancelled_meanwhile_has_no_result(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("long").interrupted()) as cli:
            async with started(shell, cli) as session:
                events = session.events()

                async def interrupt() -> None:
                    while not isinstance(await got(events.next_item(timeout=patience(30))), hackamore.TurnStarted):
                        pass
                    await got(session.interrupt())

                async def ask() -> Any:
                    return await got(session.ask("long"))

                outcome, _ = await shell.meanwhile(ask, interrupt)
                assert isinstance(outcome, (TurnCancelledError, ResultError))

    shell.play(scenario)
