"""`run(..., retry=Retry(...))` on every shell: attempts, waits, the session that is resumed, and the error in the end."""

from __future__ import annotations

import json
import logging
import pickle
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore import (
    AuthenticationError,
    HackamoreError,
    Options,
    OptionsError,
    RateLimitedError,
    ResultError,
    Retry,
    SessionClosedError,
    StreamWarning,
    sync,
)
from hackamore._engine.queries.ending import partial_of
from hackamore._engine.queries.outcomes import CollectResult
from hackamore._engine.queries.retrying import Attempts
from hackamore.errors import DecodeError, SessionNotFoundError
from hackamore.messages import AssistantMessage, ResultMessage
from hackamore.options.retry import CONTINUE
from hackamore.testing import Script, SimulatedCLI
from hackamore.transports.base import AsyncTransport
from tests.contract import shows
from tests.support.patience import patience
from tests.support.talking import raised

if TYPE_CHECKING:
    from tests.support.query_fixtures import StandIn
    from tests.support.shell import Shell

NOW = Retry(backoff=0)


def limit(resets_at: datetime | None, kind: str = "five_hour") -> dict[str, Any]:
    info: dict[str, Any] = {"status": "rejected", "rateLimitType": kind}
    if resets_at is not None:
        info["resetsAt"] = int(resets_at.timestamp())
    return {"type": "rate_limit_event", "rate_limit_info": info, "uuid": "u", "session_id": "s"}


@shows("retry.resumes", "retry.told")
def test_a_failed_attempt_is_resumed(shell: Shell) -> None:
    script = Script().user("go").calls("Bash", {"command": "ls"}).api_error(529, "busy").user(CONTINUE).says("Done.")

    async def scenario() -> None:
        told: list[StreamWarning] = []
        options = Options(on_warning=told.append, permission_mode="bypassPermissions")
        with SimulatedCLI(script) as cli:
            answer = await shell.run("go", options, transport=cli, retry=NOW)
        assert (answer.text, answer.attempts) == ("Done.", 2)
        assert [message.is_error for message in answer.messages if isinstance(message, hackamore.ResultMessage)] == [
            True,
            False,
        ]
        assert [warning.code for warning in told] == ["RETRYING"]
        assert told == [warning for warning in answer.warnings if warning.code == "RETRYING"]
        context = told[0].context
        assert context == {
            "attempt": 1,
            "attempts": 3,
            "delay": 0.0,
            "error": "ResultError",
            "resume": answer.session_id,
        }
        assert isinstance(told[0].exception, ResultError)

    shell.play(scenario)


@shows("retry.fresh")
@pytest.mark.parametrize("how", ["resume=False", "persist_session=False"])
def test_without_a_resume_the_prompt_is_sent_again(shell: Shell, how: str) -> None:
    script = Script().user("go").calls("Bash", {"command": "ls"}).api_error(529).user("go").says("Done.")

    async def scenario() -> None:
        options = Options(persist_session=how != "persist_session=False", permission_mode="bypassPermissions")
        retry = NOW.replace(resume=how != "resume=False")
        with SimulatedCLI(script) as cli:
            answer = await shell.run("go", options, transport=cli, retry=retry)
        assert (answer.text, answer.attempts) == ("Done.", 2)
        assert not any(isinstance(message, hackamore.UserMessage) for message in answer.messages)  # no tool result
        assert len([message for message in answer.messages if isinstance(message, hackamore.ResultMessage)]) == 1

    shell.play(scenario)


@shows("retry.crash")
def test_a_crash_is_resumed_with_the_session_and_nothing_that_contradicts_it(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session_id = "5e551011-0000-4000-8000-000000000000"
        init = {"type": "system", "subtype": "init", "session_id": session_id}
        options = playing(["frame", init], ["echo_argv"], ["die", 9], session_id=session_id, model="m")
        error = await raised(lambda: shell.run("go", options, retry=NOW), hackamore.ProcessError)
        assert (error.attempts, error.retryable, error.session_id) == (3, True, session_id)
        argvs = [json.loads(message.content) for message in error.partial.messages if message.type == "user"]
        first, *others = argvs
        assert {"--model=m", f"--session-id={session_id}"} < set(first)
        for argv in others:
            assert {"--model=m", f"--resume={session_id}"} < set(argv)
        assert not [flag for flag in first if "resume" in flag]
        assert not [flag for argv in others for flag in argv if "session-id" in flag]
        assert [note.partition(" failed")[0] for note in error.__notes__] == ["Attempt 1 of 3", "Attempt 2 of 3"]
        again = pickle.loads(pickle.dumps(error))
        assert (again.attempts, again.__notes__) == (3, error.__notes__)

    shell.play(scenario)


@shows("retry.which")
def test_what_does_not_get_better_is_raised(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").api_error(401, "no key")) as cli:
            error = await raised(lambda: shell.run("go", transport=cli, retry=NOW), AuthenticationError)
        assert (error.attempts, error.retryable, getattr(error, "__notes__", [])) == (1, False, [])
        error = await raised(lambda: shell.run("go", Options(cli_path="/nope"), retry=NOW), hackamore.CLINotFoundError)
        assert error.attempts == 1

    shell.play(scenario)


@shows("retry.which")
def test_nothing_is_tried_again_by_default(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").api_error(529)) as cli:
            error = await raised(lambda: shell.run("go", transport=cli), ResultError)
        assert (error.attempts, error.retryable) == (1, True)

    shell.play(scenario)


def test_an_error_result_is_tried_again_without_check_as_well(shell: Shell) -> None:
    script = Script().user("go").api_error(529).user(CONTINUE).api_error(529, "still busy")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            answer = await shell.run("go", transport=cli, check=False, retry=Retry(attempts=2, backoff=0))
        assert (answer.result.is_error, answer.attempts) == (True, 2)
        assert "still busy" in answer.text
        with SimulatedCLI(Script().user("go").api_error(400)) as cli:
            answer = await shell.run("go", transport=cli, check=False, retry=NOW)
        assert answer.attempts == 1

    shell.play(scenario)


@shows("retry.reset")
def test_the_reset_of_a_rate_limit_is_waited_for(shell: Shell) -> None:
    async def scenario() -> None:
        resets_at = datetime.now(UTC) + timedelta(seconds=2)
        script = Script().user("go").frame(limit(resets_at)).api_error(429, "limit").user(CONTINUE).says("Done.")
        with SimulatedCLI(script) as cli:
            answer = await shell.run("go", transport=cli, retry=NOW)
        assert answer.text == "Done."
        assert datetime.now(UTC).timestamp() >= int(resets_at.timestamp())

    shell.play(scenario)


@shows("retry.reset", "errors.rate-limits")
def test_a_reset_beyond_the_limit_is_raised(shell: Shell) -> None:
    async def scenario() -> None:
        resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
        script = Script().user("go").frame(limit(resets_at, "seven_day_opus")).api_error(429, "You hit your limit")
        with SimulatedCLI(script) as cli:
            error = await raised(lambda: shell.run("go", transport=cli, retry=NOW), RateLimitedError)
        assert (error.resets_at, error.kind, error.retryable, error.attempts) == (
            resets_at,
            "seven_day_opus",
            True,
            1,
        )
        assert f"'seven_day_opus' resets at {resets_at:%Y-%m-%d %H:%M:%S} UTC" in str(error)
        assert "`Retry.rate_limit_wait` is 300 s" in error.__notes__[-1]
        assert isinstance(error.result.rate_limit, hackamore.messages.RateLimitInfo)
        again = pickle.loads(pickle.dumps(error))
        assert (again.resets_at, again.kind) == (resets_at, "seven_day_opus")

    shell.play(scenario)


@shows("errors.rate-limits")
def test_the_result_of_a_turn_has_its_rate_limit_and_the_next_one_has_not(shell: Shell) -> None:
    """In a session; a limit that is over is not blamed for another failure."""
    script = Script().user("a").frame(limit(None)).api_error(429).user("b").api_error(429).user("c").api_error(500)
    with SimulatedCLI(script) as cli, sync.Session(transport=cli) as session:
        first, second, third = (session.send(text).result() for text in "abc")
        with pytest.raises(RateLimitedError) as caught:
            first.raise_for_error()
        assert (caught.value.kind, caught.value.resets_at) == ("five_hour", None)
        with pytest.raises(RateLimitedError) as caught:
            second.raise_for_error()
        assert (second.rate_limit, caught.value.kind, caught.value.resets_at) == (None, None, None)
        with pytest.raises(ResultError) as failed:
            third.raise_for_error()
        assert type(failed.value) is ResultError
        assert failed.value.retryable


@shows("retry.cancel")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancellation_ends_the_wait(backend: str) -> None:
    async def main() -> None:
        with SimulatedCLI(Script().user("go").api_error(529)) as cli:
            scope = anyio.CancelScope()
            options = Options(on_warning=lambda _: scope.cancel())
            began = time.monotonic()
            with scope:
                await hackamore.run("go", options, transport=cli, retry=Retry(backoff=1000, max_delay=1000))
            assert scope.cancelled_caught
            assert time.monotonic() - began < patience(10)

    anyio.run(main, backend=backend)


@shows("retry.waits")
def test_waits_double_up_to_their_limit_and_differ() -> None:
    """Read from the warnings; no attempt waits longer than a few milliseconds."""

    def delays(**more: Any) -> list[float]:
        script = Script().user("go").api_error(529)
        for _ in range(5):
            script.user(CONTINUE).api_error(529)
        told: list[StreamWarning] = []
        with SimulatedCLI(script) as cli, pytest.raises(ResultError):
            sync.run("go", Options(on_warning=told.append), transport=cli, retry=Retry(attempts=6, **more))
        return [warning.context["delay"] for warning in told]

    found = delays(backoff=0.01, max_delay=0.04)
    longest = [0.01, 0.02, 0.04, 0.04, 0.04]
    assert all(most / 2 <= delay <= most for delay, most in zip(found, longest, strict=True))
    assert len(set(found)) > 1


@shows("retry.told")
def test_each_retry_is_one_record_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "hackamore"),
        SimulatedCLI(Script().user("go").api_error(529, "a\nb").user(CONTINUE).says("Done.")) as cli,
    ):
        answer = sync.run("go", transport=cli, retry=NOW)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "\n" not in record.getMessage()
    then = f"session {answer.session_id} is resumed in 0.0 s"
    text = f"RETRYING: Attempt 1 of 3 failed; {then}: ResultError: The turn failed (api_error):"
    assert record.getMessage().startswith(text)
    assert (vars(record)["session_id"], vars(record)["code"]) == (answer.session_id, "RETRYING")


def test_the_callback_for_warnings_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: StreamWarning) -> None:
        raise ValueError("broken")

    with SimulatedCLI(Script().user("go").api_error(529).user(CONTINUE).says("Done.")) as cli:
        answer = sync.run("go", Options(on_warning=broken), transport=cli, retry=NOW)
    assert [warning.code for warning in answer.warnings] == ["RETRYING", "CALLBACK_FAILED"]
    (failed,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert vars(failed)["session_id"] == answer.session_id


# -- the attempts by themselves ----------------------------------------------------------------------------------------

LATER = datetime(2026, 1, 1, tzinfo=UTC)


def lost_connection(session_id: str | None = None) -> HackamoreError:
    """Return an error that may be tried again, after messages of a session if one is given."""
    error = SessionClosedError(expected=False, reason="lost")
    error.retryable = True
    if session_id is not None:
        error.partial = partial_of([AssistantMessage(session_id=session_id)], session_id)
    return error


def test_an_attempt_that_was_not_started_has_no_warnings_and_others_keep_theirs() -> None:
    attempts = Attempts("go", Options(), Retry(attempts=3, backoff=0), check=True, reopened=True)
    warning = StreamWarning("EMPTY_RESPONSE", "w", {})
    bad = DecodeError(b"x", "not-json", "no")
    assert attempts.failed(lost_connection(), None, LATER) == 0
    assert attempts.failed(lost_connection("s"), CollectResult([], [warning], [bad], None), LATER) == 0
    result = ResultMessage(subtype="success", is_error=False, result="done", session_id="s")
    answer = attempts.conclude(CollectResult([result], [], [], None), None, LATER)
    assert [one.code for one in answer.warnings] == ["RETRYING", "EMPTY_RESPONSE", "RETRYING"]
    assert answer.errors == [bad]
    assert answer.attempts == 3


def test_a_session_that_cannot_be_resumed_is_begun_again_without_counting() -> None:
    attempts = Attempts("go", Options(), Retry(attempts=3, backoff=0), check=True, reopened=True)
    assert attempts.failed(lost_connection("s"), None, LATER) == 0
    assert (attempts.prompt, attempts.options.resume) == (CONTINUE, "s")
    unknown = SessionNotFoundError("No conversation found with session ID: s")
    assert attempts.failed(unknown, None, LATER) == 0
    assert (attempts.prompt, attempts.options.resume) == ("go", None)
    assert attempts.failed(unknown, None, LATER) is None
    assert unknown.attempts == 2


def test_an_attempt_that_fails_before_its_first_message_leaves_the_session_to_the_next_one() -> None:
    attempts = Attempts("go", Options(), Retry(attempts=3, backoff=0), check=True, reopened=True)
    attempts.failed(lost_connection("s"), None, LATER)
    attempts.failed(lost_connection(), None, LATER)
    assert (attempts.prompt, attempts.options.resume) == (CONTINUE, "s")


def test_without_check_a_result_that_says_that_the_session_is_lost_is_raised_as_well() -> None:
    attempts = Attempts("go", Options(), Retry(attempts=3, backoff=0), check=False, reopened=True)
    lost = ResultMessage(is_error=True, errors=["No conversation found with session ID: s"], session_id="n")
    assert attempts.conclude(CollectResult([lost], [], [], None), None, LATER).result is lost
    attempts.failed(lost_connection("s"), None, LATER)
    with pytest.raises(SessionNotFoundError) as raised_:
        attempts.conclude(CollectResult([lost], [], [], None), None, LATER)
    assert raised_.value.partial.messages == (lost,)


def test_a_reset_at_the_limit_is_waited_for() -> None:
    limited = RateLimitedError(ResultMessage(is_error=True, session_id="s"))
    limited.resets_at, limited.retryable = LATER + timedelta(seconds=300), True
    retry = Retry(attempts=2, backoff=0, rate_limit_wait=300)
    assert Attempts("go", Options(), retry, check=True, reopened=True).failed(limited, None, LATER) == 300
    stopped = Attempts("go", Options(), retry, check=True, reopened=True, goes_on=lambda: False)
    assert stopped.failed(limited, None, LATER) is None
    assert getattr(limited, "__notes__", []) == []


def test_a_reset_that_has_passed_is_not_waited_for() -> None:
    limited = RateLimitedError(ResultMessage(is_error=True, session_id="s"))
    limited.resets_at, limited.retryable = LATER - timedelta(hours=1), True
    retry = Retry(attempts=2, backoff=0)
    assert Attempts("go", Options(), retry, check=True, reopened=True).failed(limited, None, LATER) == 0


def test_the_warning_about_a_retry_has_the_beginning_of_a_long_reason() -> None:
    attempts = Attempts("go", Options(), Retry(attempts=2, backoff=0), check=True, reopened=True)
    error = SessionClosedError(expected=False, reason="x" * 1_000)
    error.retryable = True
    attempts.failed(error, None, LATER)
    answer = attempts.conclude(CollectResult([ResultMessage(is_error=False)], [], [], None), None, LATER)
    (warning,) = answer.warnings
    begun = f"SessionClosedError: {str(error)[:300]}..."
    assert warning.message == f"Attempt 1 of 2 failed; the prompt is sent again in 0.0 s: {begun}"
    assert warning.exception is error


def test_two_attempts_need_a_prompt_that_can_be_sent_again() -> None:
    with pytest.raises(OptionsError, match="a text or a list of content blocks") as refused:
        Attempts(iter(["go"]), Options(), Retry(attempts=2), check=True, reopened=True)
    assert refused.value.field == "retry"


@shows("retry.values")
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"attempts": 0}, "attempts"),
        ({"attempts": 2.5}, "attempts"),
        ({"attempts": True}, "attempts"),
        ({"backoff": -1}, "backoff"),
        ({"backoff": "1"}, "backoff"),
        ({"backoff": float("nan")}, "backoff"),
        ({"max_delay": float("inf")}, "max_delay"),
        ({"rate_limit_wait": -1}, "rate_limit_wait"),
        ({"resume": 1}, "resume"),
        ({"delay": 1}, "delay"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionsError, match=problem):
        Retry(**values)


@shows("retry.values")
def test_what_cannot_be_repeated_is_refused(shell: Shell) -> None:
    async def scenario() -> None:
        for wrong in (3, True, {"attempts": 3}):
            error = await raised(lambda wrong=wrong: shell.run("go", retry=wrong), TypeError)
            assert "`retry` must be a hackamore.Retry or None" in str(error)
        error = await raised(lambda: shell.run(iter(["go"]), retry=NOW), OptionsError)
        assert "a text or a list of content blocks" in str(error)
        with SimulatedCLI(Script()) as cli:
            one: AsyncTransport | Any = cli.for_sync() if shell.blocking else cli.for_async()
            error = await raised(lambda: shell.run("go", transport=one, retry=NOW), OptionsError)
            assert "TransportSource" in str(error)
        options = Options(session_id="5e551011-0000-4000-8000-000000000000")
        error = await raised(lambda: shell.run("go", options, retry=NOW.replace(resume=False)), OptionsError)
        assert "leave the option `session_id` out" in str(error)

    shell.play(scenario)


def test_one_attempt_needs_nothing_that_can_be_repeated(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").says("Done.")) as cli:
            answer = await shell.run(iter(["go"]), transport=cli, retry=Retry(attempts=1))
        assert (answer.text, answer.attempts) == ("Done.", 1)

    shell.play(scenario)
