"""Every error says the same after it was pickled or copied, and none says what a terminal would act on."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from bridle import errors
from bridle.errors import BridleError, DecodeError, Diagnostic
from bridle.messages import ResultError, ResultMessage
from tests.contract import shows

BAD = DecodeError(b"x", "not-json", "d")
ERRORS: dict[str, BridleError] = {
    type(error).__name__: error
    for error in (
        errors.OptionsError("m", field="f"),
        errors.CLINotFoundError(["/a"]),
        errors.UnsupportedCLIVersionError("1.0.0", "2.0.0"),
        errors.UnknownVersionError("o"),
        errors.VersionDetectionError("r"),
        errors.SpawnError("p", "r", errno=2),
        errors.InitializationTimeoutError(5, "o"),
        errors.InitializationError("m"),
        errors.CLIExitedDuringInitError(1, "o"),
        BAD,
        errors.ProcessError(1, Diagnostic(stderr_tail="t")),
        errors.LineTooLongError(2, 1, b"h"),
        errors.DecodeErrorLimitError(5, BAD),
        errors.PromptIterableError(2, "ValueError: x"),
        errors.SlowConsumerError(2, 1),
        errors.TurnTimeoutError("idle", 3),
        errors.ControlTimeoutError("o", "r", 1),
        errors.ControlRejectedError("o", "m", "c"),
        errors.TooManyPendingRequestsError("o", 1, 1),
        errors.InitQueueOverflowError("o", 1, 1),
        errors.CheckpointingNotEnabledError(),
        errors.NotSupportedError("o", "m"),
        errors.SessionClosedError(expected=True, reason="r", exit_code=1, stderr_tail="t"),
        ResultError(ResultMessage(subtype="x", is_error=True)),
        errors.ConcurrentUseError.for_call("x"),
        errors.SessionNotStartedError("send"),
        errors.PoolTimeoutError(5, live=2, busy=1, waiting=3, max_live=2, key="chat"),
        errors.PoolClosedError(started=True),
        errors.SessionReturnedError(),
        errors.RegistryError("m"),
        errors.BudgetError("m"),
        errors.BudgetExceededError(spent=1.25, limit=1.0, key="tenant=acme", sent=True),
        errors.UnknownPriceError("some-model"),
        errors.StoreError("load", "m", "s"),
        errors.StoreConflictError("s"),
        errors.SessionNotFoundError("No conversation found with session ID: 5e551011-0000-4000-8000-000000000000"),
        errors.AmbiguousSessionError("5e55", ["5e551011-0000-4000-8000-000000000000"]),
        errors.SessionInUseError("5e551011-0000-4000-8000-000000000000", 7),
        errors.SessionExistsError("5e551011-0000-4000-8000-000000000000"),
        errors.TurnCancelledError("id", "interrupted").add_partial(errors.PartialResult(text="so far", session_id="s")),
    )
}


@shows("errors.tree")
def test_every_error_is_here() -> None:
    made = {
        name
        for name in errors.__all__
        if isinstance(kind := getattr(errors, name), type) and issubclass(kind, BridleError)
    }
    assert made - set(ERRORS) == {
        "BridleError",
        "StartError",
        "StreamError",
        "ControlError",
        "PoolError",
        "TranscriptError",
    }


@shows("errors.tree")
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_pickles_and_copies(name: str) -> None:
    error = ERRORS[name]
    error.__dict__.pop("__notes__", None)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert (str(other), repr(other), other.args) == (str(error), repr(error), error.args)
        facts: dict[str, Any] = vars(error)
        assert vars(other).keys() == facts.keys()
        assert (other.partial, other.session_id, other.retryable) == (error.partial, error.session_id, error.retryable)


def test_an_exit_code_that_is_not_known_is_not_told() -> None:
    hint = "Its exit status is unknown."
    assert str(errors.ProcessError(None, Diagnostic(exit_code_hint=hint))) == f"The Claude Code CLI ended. {hint}"
    assert str(errors.ProcessError(3, Diagnostic())).startswith("The Claude Code CLI exited with code 3.")
    assert "CLI ended before it was ready." in str(errors.CLIExitedDuringInitError(None))


@shows("errors.untrusted")
def test_control_characters_that_the_cli_says_are_escaped() -> None:
    assert "\x1b" not in str(errors.ControlRejectedError("o", "\x1b[2J", "\x1b[2J"))
