"""Keys that the API refuses, and other failures of the API, with the real CLI: logs, errors, and the session afterwards."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import hackamore
from hackamore import AuthenticationError, Options, Timeouts, TurnTimeoutError
from hackamore.fleet import Fleet, Task
from hackamore.testing import HTTPFailure, Repeat, ScriptedModel
from tests.contract import shows
from tests.support.patience import patience
from tests.support.talking import Running, got, raised

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell

TOKEN = {"ANTHROPIC_API_KEY": None, "ANTHROPIC_AUTH_TOKEN": "of-a-test"}
OAUTH = {"ANTHROPIC_API_KEY": None, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-of-a-test"}


def retries(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [record for record in caplog.records if getattr(record, "code", "") == "API_RETRY"]
    assert all(record.levelno == logging.WARNING for record in records)
    return [record.getMessage() for record in records]


@shows("errors.refused", "errors.api-retries")
def test_a_refused_key_ends_a_query(shell: Shell, driving: Driving, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with ScriptedModel(Repeat(HTTPFailure(401))) as model:
            error = await raised(lambda: shell.run("Hi", driving(model)), AuthenticationError)
            assert len(model.requests) == 2
        assert (error.status, error.key_source, error.retryable, error.result) == (
            401,
            "ANTHROPIC_API_KEY",
            False,
            None,
        )
        assert "set a valid one" in str(error)
        assert error.session_id

    shell.play(scenario)
    texts = retries(caplog)
    assert [text.partition(";")[0] for text in texts] == [
        f"an API request failed: status 401 (authentication_failed, retry {number} of 10)" for number in (1, 2)
    ]


@shows("errors.refused")
def test_a_refused_key_ends_a_turn_and_the_session_continues(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(HTTPFailure(401), HTTPFailure(401), "Now it works.") as model:
            async with Running(shell, driving(model, env=TOKEN)) as session:
                turn = await got(session.send("Hi"))
                error = await raised(turn.result, AuthenticationError)
                assert (error.key_source, error.session_id) == ("ANTHROPIC_AUTH_TOKEN", session.session_id)
                turn = await got(session.send("And now?"))
                assert (await got(turn.result(timeout=patience(20)))).text == "Now it works."

    shell.play(scenario)


@shows("errors.refused")
def test_a_steered_query_ends_as_well(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(Repeat(HTTPFailure(401))) as model:
            options = driving(model, can_use_tool=lambda _: hackamore.Allow())
            error = await raised(
                lambda: shell.run("Hi", options, retry=hackamore.Retry(backoff=0)), AuthenticationError
            )
            assert (error.attempts, len(model.requests)) == (1, 2)

    shell.play(scenario)


@shows("errors.refused")
@pytest.mark.parametrize(("env", "source"), [({}, "ANTHROPIC_API_KEY"), (OAUTH, None)])
def test_a_key_without_the_permission(driving: Driving, env: dict[str, str | None], source: str | None) -> None:
    """The CLI itself ends the turn: status 403 is not repeated."""
    with ScriptedModel(Repeat(HTTPFailure(403))) as model:
        with pytest.raises(AuthenticationError) as caught:
            hackamore.sync.run("Hi", driving(model, env=env))
        assert len(model.requests) == 1
    assert (caught.value.status, caught.value.key_source, caught.value.retryable) == (403, source, False)
    assert caught.value.result is not None
    assert "403" in str(caught.value)


@shows("errors.refused")
def test_a_key_that_is_renewed_after_a_refusal_is_used(driving: Driving, real_cli: RealCLI) -> None:
    """The CLI runs `apiKeyHelper` again before it repeats a request."""
    calls = real_cli.cwd / "calls"
    helper = real_cli.cwd / "helper.sh"
    helper.write_text(f"#!/bin/sh\necho x >> {calls}\necho key-$(wc -l < {calls})\n")
    helper.chmod(0o755)
    with ScriptedModel(HTTPFailure(401), "4") as model:
        options = driving(model, env={"ANTHROPIC_API_KEY": None}, settings={"apiKeyHelper": str(helper)})
        assert hackamore.sync.run("Hi", options).text == "4"
    assert len(calls.read_text().splitlines()) >= 2


def test_one_refusal_is_not_the_end(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(HTTPFailure(529), HTTPFailure(401), "4") as model:
            assert (await shell.run("Hi", driving(model))).text == "4"

    shell.play(scenario)


@shows("errors.api-retries")
@pytest.mark.parametrize(("status", "kind"), [(500, "server_error"), (529, "overloaded")])
def test_timeouts_name_the_last_failure(
    shell: Shell, driving: Driving, caplog: pytest.LogCaptureFixture, status: int, kind: str
) -> None:
    async def scenario() -> None:
        with ScriptedModel(Repeat(HTTPFailure(status, retry_after=0))) as model:
            options = driving(model, timeouts=Timeouts(turn=patience(2)), env={"CLAUDE_CODE_MAX_RETRIES": "100000"})
            async with Running(shell, options) as session:
                turn = await got(session.send("Hi"))
                assert await model_was_called(model)
                error = await raised(turn.result, TurnTimeoutError)
        assert error.api_error.startswith(f"status {status} ({kind}, retry ")
        assert f"The last API error was {error.api_error}." in str(error)

    async def model_was_called(model: ScriptedModel) -> bool:
        end = time.monotonic() + patience(20)
        while len(model.requests) < 3 and time.monotonic() < end:
            await shell.let_others_run()
        return len(model.requests) >= 3

    shell.play(scenario)
    assert any(f"status {status} ({kind}, retry 1 of" in text for text in retries(caplog))


@shows("errors.refused")
def test_a_conversation_of_a_pool_gets_the_error(driving: Driving) -> None:
    with (
        ScriptedModel(HTTPFailure(401), HTTPFailure(401), "4") as model,
        hackamore.sync.SessionPool(driving(model), max_live=1) as pool,
        pool.conversation("user-1") as session,
    ):
        with pytest.raises(AuthenticationError):
            session.send("Hi").result()
        assert session.send("Hi").result().text == "4"


@shows("errors.refused")
@pytest.mark.parametrize(("status", "states"), [(401, {"queued"}), (403, {"failed"})])
def test_a_refused_key_ends_the_run_of_a_fleet(
    real_cli: RealCLI, tmp_path: Path, status: int, states: set[str]
) -> None:
    """Status 403 may be about the model of one task: only that task fails."""
    with ScriptedModel(Repeat(HTTPFailure(status))) as model:
        options = Options(cli_path=real_cli.cli_path, env=real_cli.env(model), inherit_env=False)
        fleet = Fleet(tmp_path / "journal.db", options, concurrency=2)
        work = [Task(id=str(number), prompt="Hi", options={"cwd": str(real_cli.cwd)}) for number in range(4)]
        with nullcontext() if status == 403 else pytest.raises(AuthenticationError):
            fleet.run(work).wait()
        assert {row.state for row in fleet.results({"queued", "failed"})} == states
        fleet.close()
