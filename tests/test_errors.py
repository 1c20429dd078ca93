"""Every error says the same after it was pickled or copied, and none says what a terminal would act on."""

from __future__ import annotations

import copy
import errno
import pickle
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

import pytest

import hackamore
from hackamore import ApprovalPendingError, errors
from hackamore.checked.schemas import OutputError
from hackamore.errors import DecodeError, Diagnostic, HackamoreError
from hackamore.messages import AuthenticationError, RateLimitedError, RateLimitInfo, ResultError, ResultMessage
from hackamore.testing.errors import ScriptError
from tests.contract import shows

BAD = DecodeError(b"x", "not-json", "d")
ERRORS: dict[str, HackamoreError] = {
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
        errors.LinkLostError("ssh://build1", silent=15, stderr="t"),
        errors.RemoteStartError("ssh://build1", "no-cli", "it has none.", "Install it.", stderr="t"),
        errors.DecodeErrorLimitError(5, BAD),
        errors.PromptIterableError(2, "ValueError: x"),
        errors.SlowConsumerError(2, 1),
        errors.TurnTimeoutError("idle", 3, api_error="status 529 (overloaded, retry 1 of 10)"),
        AuthenticationError(401, key_source="ANTHROPIC_API_KEY"),
        errors.ControlTimeoutError("o", "r", 1),
        errors.ControlRejectedError("o", "m", "c"),
        errors.TooManyPendingRequestsError("o", 1, 1),
        errors.InitQueueOverflowError("o", 1, 1),
        errors.CheckpointingNotEnabledError(),
        errors.NotSupportedError("o", "m"),
        errors.SessionClosedError(expected=True, reason="r", exit_code=1, stderr_tail="t"),
        ResultError(ResultMessage(subtype="x", is_error=True)),
        RateLimitedError(ResultMessage(subtype="success", is_error=True, api_error_status=429)),
        OutputError(ResultMessage(subtype="success"), "r", b"{}"),
        errors.ConcurrentUseError.for_call("x"),
        errors.SessionNotStartedError("send"),
        errors.PoolTimeoutError(5, live=2, busy=1, waiting=3, max_live=2, key="chat"),
        errors.PoolClosedError(started=True),
        errors.ConversationInUseError("chat"),
        errors.ConversationNotFoundError("chat"),
        errors.SessionReturnedError(),
        errors.RegistryError("m"),
        errors.BudgetError("m"),
        errors.BudgetExceededError(spent=1.25, limit=1.0, key="tenant=acme", sent=True),
        errors.UnknownPriceError("some-model"),
        errors.FleetError("m"),
        errors.JournalError("m"),
        errors.TaskChangedError("j.db", ["'a': `prompt` was 'x', and is 'y'"], 2),
        errors.TaskFailedError("a", "failed", "crash", "it ended"),
        errors.WorkspaceError("m", retryable=True),
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
        if isinstance(kind := getattr(errors, name), type) and issubclass(kind, HackamoreError)
    }
    assert made - set(ERRORS) == {
        "HackamoreError",
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


CONTROLS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@shows("errors.untrusted")
def test_control_characters_of_both_sets_are_escaped_for_a_terminal() -> None:
    assert {code: errors.escape_terminal(f"a{chr(code)}[31mb") for code in CONTROLS} == {
        code: f"a\\x{code:02x}[31mb" for code in CONTROLS
    }
    # So are marks that change the direction of text, and halves of characters, which cannot be printed.
    # The same goes for what has no width, and for separators that some programs take for a newline.
    for code in (*DIRECTIONS, 0xD800, 0xDFFF, 0x200B, 0x2028, 0x2029, 0x2065, 0xFEFF):
        assert errors.escape_terminal(f"a{chr(code)}b") == f"a\\u{code:04x}b"
    # And characters that hide, or that some programs take for a newline.
    for code in (0xAD, 0x200B, 0x2028, 0x2029, 0x2060, 0x2065, 0x3164, 0xFEFF, 0xFFF9):
        assert errors.escape_terminal(f"a{chr(code)}b") == (f"a\\u{code:04x}b" if code > 0xFF else "a\\xadb")
    assert errors.escape_terminal("a\U000e0041b") == "a\\U000e0041b"
    plain = " \t\n~\xa0\xe9\u200c\u200d\u2027\u202f\u205f\u2070\ud7ff\ue000\U0001f642"
    assert errors.escape_terminal(plain) == plain


def test_a_long_text_for_a_terminal_keeps_its_end() -> None:
    assert errors.escape_terminal("x" * 3 + "\x9b" * 2, 3) == "[... 2 characters left out] x\\x9b\\x9b"
    assert errors.escape_terminal("x" * 3, 3) == "xxx"
    assert errors.escape_terminal("x" * 2001) == f"[... 1 characters left out] {'x' * 2000}"


@shows("errors.untrusted")
def test_control_characters_that_the_cli_says_are_escaped() -> None:
    assert "\x1b" not in str(errors.ControlRejectedError("o", "\x1b[2J", "\x1b[2J"))


def failed(**fields: Any) -> ResultError | AuthenticationError:
    return ResultError.of(ResultMessage(is_error=True, **fields))


CRASH = Diagnostic(stderr_tail="t")
SILENT = Diagnostic(stdout_was_empty=True)
RETRYABLE: dict[str, list[tuple[HackamoreError, bool]]] = {
    "OptionsError": [(errors.OptionsError("m"), False)],
    "CLINotFoundError": [(errors.CLINotFoundError(), False)],
    "UnsupportedCLIVersionError": [(errors.UnsupportedCLIVersionError("1.0.0", "2.0.0"), False)],
    "UnknownVersionError": [(errors.UnknownVersionError("o"), False)],
    "VersionDetectionError": [(errors.VersionDetectionError("r"), False)],
    "SpawnError": [
        (errors.SpawnError("p", "r", errno=errno.ENOENT), False),
        (errors.SpawnError("p", "r"), False),
        *((errors.SpawnError("p", "r", errno=number), True) for number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE)),
    ],
    "InitializationTimeoutError": [(errors.InitializationTimeoutError(5), True)],
    "InitializationError": [(errors.InitializationError("m"), False)],
    "CLIExitedDuringInitError": [
        (errors.CLIExitedDuringInitError(1), False),
        (errors.CLIExitedDuringInitError(None), False),
        (errors.CLIExitedDuringInitError(-9), True),
        (errors.CLIExitedDuringInitError(143), True),
    ],
    "SessionNotFoundError": [(errors.SessionNotFoundError("m"), False)],
    "DecodeError": [(BAD, False)],
    "ProcessError": [
        (errors.ProcessError(-9, SILENT), True),
        (errors.ProcessError(137, SILENT), True),
        (errors.ProcessError(1, CRASH), True),
        (errors.ProcessError(1, SILENT), False),
        (errors.ProcessError(1, Diagnostic(last_non_json_line="usage: x")), False),
        (errors.ProcessError(0, CRASH), False),
        (errors.ProcessError(None, CRASH), False),
        (errors.ProcessError(1, Diagnostic(last_result=ResultMessage())), False),
    ],
    "LineTooLongError": [(errors.LineTooLongError(2, 1, b"h"), False)],
    "LinkLostError": [(errors.LinkLostError("ssh://build1"), True)],
    "RemoteStartError": [
        (errors.RemoteStartError("ssh://build1", "no-cli", "p.", "f."), False),
        (errors.RemoteStartError("ssh://build1", "unreachable", "p.", "f."), True),
        (errors.RemoteStartError("ssh://build1", "timeout", "p.", "f."), True),
    ],
    "PromptIterableError": [(errors.PromptIterableError(2, "r"), False)],
    "DecodeErrorLimitError": [(errors.DecodeErrorLimitError(5, BAD), False)],
    "SlowConsumerError": [(errors.SlowConsumerError(2, 1), False)],
    "TurnTimeoutError": [(errors.TurnTimeoutError("turn", 3), True)],
    "ControlTimeoutError": [(errors.ControlTimeoutError("o", "r"), True)],
    "ControlRejectedError": [(errors.ControlRejectedError("o", "m"), False)],
    "TooManyPendingRequestsError": [(errors.TooManyPendingRequestsError("o", 1, 1), True)],
    "InitQueueOverflowError": [(errors.InitQueueOverflowError("o", 1, 1), True)],
    "CheckpointingNotEnabledError": [(errors.CheckpointingNotEnabledError(), False)],
    "NotSupportedError": [(errors.NotSupportedError("o", "m"), False)],
    "SessionClosedError": [
        (errors.SessionClosedError(expected=True, reason="r"), False),
        (errors.SessionClosedError(expected=False, reason="r"), True),
    ],
    "SessionNotStartedError": [(errors.SessionNotStartedError("send"), False)],
    "AmbiguousSessionError": [(errors.AmbiguousSessionError("5", []), False)],
    "SessionInUseError": [(errors.SessionInUseError("s", 7), True)],
    "SessionExistsError": [(errors.SessionExistsError("s"), False)],
    "TurnCancelledError": [(errors.TurnCancelledError("id", "interrupted"), False)],
    "ConcurrentUseError": [(errors.ConcurrentUseError.for_call("x"), False)],
    "ApprovalError": [(errors.ApprovalError("m"), False)],
    "PolicyError": [(errors.PolicyError("m"), False)],
    "StoreError": [(errors.StoreError("load", "m"), True)],
    "StoreConflictError": [(errors.StoreConflictError("s"), False)],
    "PoolTimeoutError": [(errors.PoolTimeoutError(5, live=2, busy=1, waiting=3, max_live=2), True)],
    "PoolClosedError": [(errors.PoolClosedError(started=True), False)],
    "ConversationInUseError": [(errors.ConversationInUseError("chat", elsewhere=True), True)],
    "ConversationNotFoundError": [(errors.ConversationNotFoundError("chat"), False)],
    "SessionReturnedError": [(errors.SessionReturnedError(), False)],
    "BudgetError": [(errors.BudgetError("m"), False)],
    "BudgetExceededError": [(errors.BudgetExceededError(spent=1, limit=1), False)],
    "UnknownPriceError": [(errors.UnknownPriceError("m"), False)],
    "FleetError": [(errors.FleetError("m"), False)],
    "JournalError": [(errors.JournalError("m"), True)],
    "TaskChangedError": [(errors.TaskChangedError("j.db", ["'a': other"], 1), False)],
    "TaskFailedError": [(errors.TaskFailedError("a", "failed", "crash", "it ended"), False)],
    "WorkspaceError": [(errors.WorkspaceError("m"), False), (errors.WorkspaceError("m", retryable=True), True)],
    "RegistryError": [(errors.RegistryError("m"), False)],
    "OutputError": [(OutputError(ResultMessage(), "r", b"{}"), False)],
    "ApprovalPendingError": [(ApprovalPendingError(ResultMessage()), False)],
    "ResultError": [
        *((failed(subtype="success", api_error_status=status), True) for status in (408, 409, 500, 502, 503, 529)),
        *((failed(subtype="success", api_error_status=status), False) for status in (400, 402, 404, 413)),
        (failed(subtype="success", api_error="connection_failed"), True),
        (failed(subtype="success", result="API Error: 529 {}"), True),  # CLI 2.0.0 has no `api_error_status`
        *((failed(subtype=f"error_{kind}"), False) for kind in ("max_turns", "max_budget_usd", "during_execution")),
    ],
    "AuthenticationError": [
        *((failed(subtype="success", api_error_status=status), False) for status in (401, 403)),
        (failed(subtype="success", result="API Error: 401 {}"), False),
        (failed(subtype="success", result="Not logged in · Please run /login"), False),
    ],
    "RateLimitedError": [
        (failed(subtype="success", api_error_status=429), True),
        (failed(subtype="success", result="API Error: 429 {}"), True),
        (failed(subtype="success", result="Session limit reached \u2219 resets 10:28pm"), True),
    ],
    **{f"{kind}Error": [] for kind in ("Hackamore", "Start", "Stream", "Control", "Pool", "Transcript")},
}


@shows("errors.retryable")
def test_every_error_says_whether_it_may_get_better() -> None:
    def below(kind: type[HackamoreError]) -> set[type[HackamoreError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    kinds = [
        kind
        for kind in below(HackamoreError)
        if kind.__module__.startswith("hackamore") and ".compat." not in kind.__module__
    ]
    assert {kind.__name__ for kind in kinds if not issubclass(kind, ScriptError)} == set(RETRYABLE)
    for name, cases in RETRYABLE.items():
        for error, expected in cases:
            assert type(error).__name__ == name
            assert error.retryable is expected, error


@shows("errors.rate-limits")
def test_a_rate_limit_without_a_usable_time_or_with_credits_as_the_reason() -> None:
    def limited(**info: Any) -> RateLimitedError:
        result = ResultMessage(subtype="success", is_error=True, api_error_status=429, result="limit")
        vars(result)["rate_limit"] = RateLimitInfo(status="rejected", **info)
        error = ResultError.of(result)
        assert isinstance(error, RateLimitedError)
        return error

    for seconds in (float("inf"), float("nan"), 1e300, -1e300):
        assert limited(resets_at=seconds).resets_at is None
    assert limited(overage_resets_at=60).resets_at == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    error = limited(error_code="credits_required", rate_limit_type="overage")
    assert not error.retryable
    assert "The limit 'overage' needs credits" in str(error)
    assert "\x1b" not in str(limited(rate_limit_type="\x1b[2J"))


def test_classes_name_the_place_from_which_users_import_them() -> None:
    def below(kind: type[HackamoreError]) -> set[type[HackamoreError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    public = ("Session", "Turn", "SessionPool", "QueryStream", "MapStream")
    for kind in (
        *(
            kind
            for kind in below(HackamoreError)
            if kind.__module__.startswith("hackamore") and ".compat." not in kind.__module__
        ),
        *(getattr(shell, name) for shell in (hackamore, hackamore.sync) for name in public),
        *(errors.StreamWarning, Diagnostic, errors.PartialResult, hackamore.ToolError),
    ):
        assert kind.__module__ in {"hackamore", "hackamore.sync", "hackamore.testing"}, kind
        assert getattr(sys.modules[kind.__module__], kind.__name__) is kind
    (line,) = traceback.format_exception_only(errors.BudgetError("x"))
    assert line == "hackamore.BudgetError: x\n"
    assert repr(hackamore.sync.Session) == "<class 'hackamore.sync.Session'>"

    class OwnError(HackamoreError):
        """A class of a user, who knows where it is."""

    assert OwnError.__module__ == __name__
