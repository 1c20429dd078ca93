"""Rate limits and retries with the real CLI: what it reports of a limit, and sessions that are resumed after a failure."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import hackamore
from hackamore import RateLimitedError, ResultError, Retry
from hackamore.messages import RateLimitEvent
from hackamore.options.retry import CONTINUE
from hackamore.testing import Dropped, HTTPFailure, Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.support.talking import raised

if TYPE_CHECKING:
    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell

NOW = Retry(backoff=0)
LOGIN = {"ANTHROPIC_API_KEY": None, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-of-a-test"}
"""The limits of a plan are those of a login: with an API key the CLI reads no such header."""
TWICE = {"CLAUDE_CODE_MAX_RETRIES": "1"}


def spent(resets_at: datetime) -> dict[str, str]:
    """Return the headers of the API for a limit of the plan that is used up."""
    prefix, when = "anthropic-ratelimit-unified", f"{resets_at.timestamp():.0f}"
    return {
        f"{prefix}-status": "rejected",
        f"{prefix}-reset": when,
        f"{prefix}-representative-claim": "five_hour",
        f"{prefix}-5h-status": "rejected",
        f"{prefix}-5h-reset": when,
        f"{prefix}-5h-utilization": "1.0",
    }


@shows("errors.rate-limits")
def test_the_limit_of_a_plan(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
        with ScriptedModel(Repeat(HTTPFailure(429, headers=spent(resets_at)))) as model:
            error = await raised(lambda: shell.run("Hi", driving(model, env=LOGIN)), RateLimitedError)
            assert len(model.requests) == 1  # the CLI does not try again by itself
        assert (error.resets_at, error.kind, error.retryable) == (resets_at, "five_hour", True)
        assert (error.result.api_error_type, error.result.api_error) == ("rate_limit_error", "usage_limit_reached")
        assert any(isinstance(message, RateLimitEvent) for message in error.partial.messages)

    shell.play(scenario)


@shows("errors.rate-limits")
@pytest.mark.parametrize("retry_after", [None, 1])
def test_the_rate_limit_of_an_api_key_has_no_time(driving: Driving, retry_after: float | None) -> None:
    """The CLI waits for `retry-after` by itself, and does not report it."""
    with ScriptedModel(Repeat(HTTPFailure(429, retry_after=retry_after))) as model:
        with pytest.raises(RateLimitedError) as caught:
            hackamore.sync.run("Hi", driving(model, env=TWICE))
        assert len(model.requests) == 2
    error = caught.value
    assert (error.resets_at, error.kind, error.retryable) == (None, None, True)
    assert error.result.api_error_status == 429


@shows("errors.retryable")
@pytest.mark.parametrize(
    ("failure", "retryable"),
    [
        (HTTPFailure(429, retry=False), True),
        (HTTPFailure(500, retry=False), True),
        (HTTPFailure(529, retry=False), True),
        (Dropped(), True),
        (HTTPFailure(400, retry=False), False),
        (HTTPFailure(402, retry=False), False),
        (HTTPFailure(404, retry=False), False),
        (HTTPFailure(413, retry=False), False),
    ],
)
def test_failures_of_the_api(driving: Driving, failure: HTTPFailure | Dropped, retryable: bool) -> None:
    with ScriptedModel(Repeat(failure)) as model, pytest.raises(ResultError) as caught:
        hackamore.sync.run("Hi", driving(model, env={"CLAUDE_CODE_MAX_RETRIES": "0"}))
    assert caught.value.retryable is retryable


@shows("retry.resumes")
def test_a_failed_turn_goes_on_where_it_stopped(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        steps = (
            Reply("I write.", ToolCall("Bash", {"command": "echo ran >> log.txt"}, id="toolu_1")),
            HTTPFailure(529, retry=False),
            Reply("All is written.", expect_text="Continue where it stopped"),
        )
        with ScriptedModel(*steps) as model:
            options = driving(model, permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"})
            answer = await shell.run("Write the log", options, retry=NOW)
            assert (answer.text, answer.attempts) == ("All is written.", 2)
            history = str(model.requests[-1].body["messages"])
            for part in ("Write the log", "I write.", "toolu_1", "tool_result", CONTINUE):
                assert part in history
        assert (real_cli.cwd / "log.txt").read_text() == "ran\n"
        assert len({message.session_id for message in answer.messages if message.session_id}) == 1

    shell.play(scenario)


@shows("retry.crash")
def test_a_crash_in_the_middle_of_a_tool_call_goes_on(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        # The CLI writes its transcript while the tool runs; a crash before that forgets the call.
        kept = f"until grep -rq toolu_1 {real_cli.directory}/*/projects; do sleep 0.02; done"
        steps = (
            Reply(
                "I write.", ToolCall("Bash", {"command": f"echo ran >> log.txt; {kept}; kill -9 $PPID"}, id="toolu_1")
            ),
            Reply("It is there.", ToolCall("Read", {"file_path": str(real_cli.cwd / "log.txt")}, id="toolu_2")),
            "All is written.",
        )
        with ScriptedModel(*steps) as model:
            options = driving(model, permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"})
            answer = await shell.run("Write the log", options, retry=NOW)
            assert (answer.text, answer.attempts) == ("All is written.", 2)
            assert "ProcessError" in str(answer.warnings[0])
            history = str(model.requests[1].body["messages"])
            for part in ("Write the log", "I write.", "toolu_1", CONTINUE):
                assert part in history
        assert (real_cli.cwd / "log.txt").read_text() == "ran\n"

    shell.play(scenario)


@shows("retry.reset")
def test_the_reset_of_a_plan_is_waited_for(driving: Driving) -> None:
    resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    with ScriptedModel(HTTPFailure(429, headers=spent(resets_at)), "Done.") as model:
        answer = hackamore.sync.run("Hi", driving(model, env=LOGIN), retry=NOW)
    assert (answer.text, answer.attempts) == ("Done.", 2)
    assert datetime.now(UTC) >= resets_at


@shows("retry.lost")
def test_a_session_that_is_gone_is_begun_again(driving: Driving, real_cli: RealCLI) -> None:
    def forget(warning: hackamore.StreamWarning) -> None:
        if warning.context["resume"] is not None:
            for folder in real_cli.directory.rglob("projects"):
                shutil.rmtree(folder)

    with ScriptedModel(HTTPFailure(529, retry=False), "Done.") as model:
        answer = hackamore.sync.run("Hi", driving(model, on_warning=forget), retry=NOW)
        assert model.requests[-1].prompt_text == "Hi"
        assert CONTINUE not in str(model.requests[-1].body)
    assert (answer.text, answer.attempts) == ("Done.", 2)
    first, second = answer.warnings
    assert (first.context["resume"] is None, second.context["resume"]) == (False, None)


@shows("retry.resumes")
def test_a_steered_query_and_typed_output_are_resumed_as_well(driving: Driving) -> None:
    typed = ToolCall("StructuredOutput", {"value": 4})
    with ScriptedModel(HTTPFailure(529, retry=False), Reply(typed), Repeat("Done.")) as model:
        options = driving(model, can_use_tool=lambda _: hackamore.Allow())
        answer = hackamore.sync.run("How much is 2 + 2?", options, output_type=int, retry=NOW)
    assert (answer.output, answer.attempts) == (4, 2)
