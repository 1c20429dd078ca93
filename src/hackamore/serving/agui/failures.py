"""Errors as a client sees them: an HTTP status before the stream begins, afterwards the code of `RUN_ERROR`. The log has their texts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from hackamore.errors import (
    ApprovalError,
    BudgetExceededError,
    OptionsError,
    PoolClosedError,
    PoolTimeoutError,
    RegistryError,
    SessionClosedError,
    StartError,
    StoreError,
    StreamError,
    TurnTimeoutError,
)
from hackamore.messages import ApprovalPendingError, AuthenticationError, RateLimitedError, ResultError


class Failure(NamedTuple):
    """A failure: the HTTP status, the code of `RUN_ERROR`, the text, and the seconds after which to try again."""

    status: int
    code: str
    text: str
    retry_after: int | None = None


class Refused(Exception):  # noqa: N818 - it is an answer
    """A request that is refused; `more` is beside the error in the answer."""

    def __init__(self, status: int, code: str, text: str, *, retry_after: int | None = None, **more: object) -> None:
        super().__init__(text)
        self.failure: Failure = Failure(status, code, text, retry_after)
        self.more: dict[str, object] = more


_HELD = ("held", "elsewhere")
_KNOWN: tuple[tuple[type[Exception], Failure], ...] = (
    (BudgetExceededError, Failure(402, "budget_exceeded", "The budget for this is spent.")),
    (AuthenticationError, Failure(401, "authentication_failed", "The service is not logged in to the model.")),
    (RateLimitedError, Failure(429, "rate_limited", "A rate limit of the model is reached. Try again later.")),
    (ApprovalPendingError, Failure(409, "approval_pending", "A call waits for the answer of a person.")),
    (
        ApprovalError,
        Failure(503, "approvals_unavailable", "The database of approvals cannot be used. Try again later."),
    ),
    (PoolClosedError, Failure(503, "unavailable", "The service is being stopped. Try again later.", 5)),
    (RegistryError, Failure(503, "unavailable", "The conversations cannot be read. Try again later.", 5)),
    (StoreError, Failure(503, "unavailable", "The conversations cannot be read. Try again later.", 5)),
    (StartError, Failure(503, "cli_unavailable", "The agent cannot be started.")),
    (TurnTimeoutError, Failure(504, "turn_timeout", "The agent did not answer in time.")),
    (SessionClosedError, Failure(502, "session_failed", "The agent stopped. Send the message again.")),
    (StreamError, Failure(502, "session_failed", "The agent stopped. Send the message again.")),
    (ResultError, Failure(502, "turn_failed", "The agent could not finish.")),
    (OptionsError, Failure(500, "misconfigured", "The service has a wrong setting. Its log has the reason.")),
)


def failure_of(error: Exception) -> Failure:
    """Return what a client sees of an error."""
    if isinstance(error, Refused):
        return error.failure
    if isinstance(error, PoolTimeoutError):
        if error.cause in _HELD:
            return Failure(409, "run_in_progress", "Another run of this thread has not ended. Try again later.", 1)
        return Failure(429, "pool_full", "All agents are busy. Try again later.", 5)
    for kind, failure in _KNOWN:
        if isinstance(error, kind):
            resets = getattr(error, "resets_at", None)
            if isinstance(resets, datetime):
                return failure._replace(retry_after=max(1, int((resets - datetime.now(UTC)).total_seconds())))
            return failure
    return Failure(500, "internal_error", "The run failed. The log of the service has the reason.")
