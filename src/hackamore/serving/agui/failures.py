"""Errors as a client sees them: an HTTP status before the stream begins, afterwards the code of `RUN_ERROR`. The log has their texts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from hackamore import errors, messages
from hackamore.runtime.log import logger


class Failure(NamedTuple):
    """A failure: the HTTP status, the code of `RUN_ERROR`, the text, and the seconds after which to try again."""

    status: int
    code: str
    text: str
    retry_after: int | None = None


class Refused(Exception):  # noqa: N818 - it is an answer
    """A request that is refused; `more` is beside the error in the answer."""

    def __init__(self, status: int, code: str, text: str, retry_after: int | None = None, **more: object) -> None:
        super().__init__(text)
        self.failure: Failure = Failure(status, code, text, retry_after)
        self.more: dict[str, object] = more


_STORED = (errors.RegistryError, errors.StoreError)
_SESSION = (errors.SessionClosedError, errors.StreamError)
_KNOWN: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Failure], ...] = (
    (errors.BudgetExceededError, Failure(402, "budget_exceeded", "The budget for this is spent.")),
    (messages.AuthenticationError, Failure(401, "authentication_failed", "The service is not logged in to the model.")),
    (messages.RateLimitedError, Failure(429, "rate_limited", "A rate limit of the model is reached. Try again later.")),
    (messages.ApprovalPendingError, Failure(409, "approval_pending", "A call waits for the answer of a person.")),
    (errors.ApprovalError, Failure(503, "approvals_unavailable", "The database of approvals fails. Try again later.")),
    (errors.PoolClosedError, Failure(503, "unavailable", "The service is being stopped. Try again later.", 5)),
    (_STORED, Failure(503, "unavailable", "The conversations cannot be read. Try again later.", 5)),
    (errors.StartError, Failure(503, "cli_unavailable", "The agent cannot be started.")),
    (errors.TurnTimeoutError, Failure(504, "turn_timeout", "The agent did not answer in time.")),
    (_SESSION, Failure(502, "session_failed", "The agent stopped. Send the message again.")),
    (messages.ResultError, Failure(502, "turn_failed", "The agent could not finish.")),
    (errors.OptionsError, Failure(500, "misconfigured", "The service has a wrong setting. Its log has the reason.")),
)


def report(error: Exception) -> Failure:
    """Log an error, with its traceback if it is not a known one; return the failure that a client sees."""
    failure = _failure_of(error)
    known = failure.status != 500
    text = "a run of AG-UI failed (%s): %s"
    logger.log(30 if known else 40, text, failure.code, errors.text_of(error), exc_info=None if known else error)
    return failure


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, errors.PoolTimeoutError):
        if error.cause in ("held", "elsewhere"):
            return Failure(409, "run_in_progress", "Another run of this thread has not ended. Try again later.", 1)
        return Failure(429, "pool_full", "All agents are busy. Try again later.", 5)
    for kind, failure in _KNOWN:
        if isinstance(error, kind):
            resets = getattr(error, "resets_at", None)
            after = int((resets - datetime.now(UTC)).total_seconds()) if isinstance(resets, datetime) else None
            return failure if after is None else failure._replace(retry_after=max(1, after))
    return Failure(500, "internal_error", "The run failed. The log of the service has the reason.")
