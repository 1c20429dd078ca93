"""The cause of a failed attempt, from its error."""

from __future__ import annotations

from hackamore.checked.schemas import OutputError
from hackamore.errors import (
    ApprovalError,
    BudgetError,
    BudgetExceededError,
    CLINotFoundError,
    HackamoreError,
    LinkLostError,
    RemoteStartError,
    StreamError,
    TurnTimeoutError,
    UnknownVersionError,
    UnsupportedCLIVersionError,
    VersionDetectionError,
    WorkspaceError,
)
from hackamore.fleet.states import Cause
from hackamore.messages import ApprovalPendingError, AuthenticationError, RateLimitedError, ResultError

_NOT_PERMITTED = 403
"""The login works, but not for this request: other tasks may use other models."""
_LIMIT_OF_THE_ATTEMPT = "error_max_budget_usd"


def cause_of(error: BaseException) -> Cause:
    """Return the cause for the error of an attempt: `BUG` for exceptions that Hackamore does not define."""
    match error:
        case AuthenticationError():
            return Cause.MODEL if error.status == _NOT_PERMITTED else Cause.CLI
        case RateLimitedError():
            return Cause.THROTTLED if error.retryable else Cause.MODEL
        case ApprovalPendingError():
            return Cause.APPROVAL
        case OutputError():
            return Cause.OUTPUT
        case ResultError():
            if error.result.subtype == _LIMIT_OF_THE_ATTEMPT:
                return Cause.BUDGET
            return Cause.OVERLOADED if error.retryable else Cause.MODEL
        case TurnTimeoutError():
            return Cause.TIMEOUT if error.kind == "turn" else Cause.STALL
        case BudgetExceededError():
            return Cause.BUDGET if error.key else Cause.SPENT
        case BudgetError():
            return Cause.BUDGET
        case WorkspaceError():
            return Cause.OVERLOADED if error.retryable else Cause.WORKSPACE
        case CLINotFoundError() | UnsupportedCLIVersionError() | UnknownVersionError() | VersionDetectionError():
            return Cause.CLI
        case ApprovalError():  # its database is busy, or cannot be reached
            return Cause.OVERLOADED
        case LinkLostError():
            return Cause.LOST
        case RemoteStartError() if not error.retryable:
            return Cause.CLI
        case StreamError():
            return Cause.CRASH
        case HackamoreError():
            return Cause.OVERLOADED if error.retryable else Cause.START
        case _:
            return Cause.BUG
