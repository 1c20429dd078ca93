"""The attempts of one `run`: the next prompt and options, and the seconds until then. Nothing here waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol.log import logger, one_line
from hackamore._engine.queries.ending import partial_of
from hackamore._engine.queries.plain import deliver_warning
from hackamore.errors import HackamoreError, OptionsError, SessionNotFoundError, StreamWarning
from hackamore.messages import RateLimitedError, ResultError
from hackamore.options.options import NO_SESSION
from hackamore.options.retry import CONTINUE, Retry, back_off

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from hackamore._engine.queries.outcomes import CollectResult, RunResult
    from hackamore.errors import DecodeError
    from hackamore.messages import Message
    from hackamore.options.options import Options

_LONGEST_REASON = 300


class Attempts:
    """The attempts of one `run`; OptionsError says that no retry is possible with this prompt, transport or options.

    A `retry` of None makes one attempt. With `reopened` the transport gives a new connection for each attempt. `goes_on` returns whether
    the session that makes all attempts can still be used; None if each attempt has a CLI of its own.
    """

    def __init__(
        self,
        prompt: Any,
        options: Options,
        retry: Retry | None,
        *,
        check: bool,
        reopened: bool,
        goes_on: Callable[[], bool] | None = None,
    ) -> None:
        if retry is not None and not isinstance(retry, Retry):
            raise TypeError(f"`retry` must be a hackamore.Retry or None, got {retry!r} ({type(retry).__name__})")
        self._retry = retry if retry is not None else Retry(attempts=1)
        self._goes_on = goes_on
        # Without `persist_session` the disk has nothing to resume, except for a session that still runs.
        self._remembered = self._retry.resume and (goes_on is not None or options.persist_session)
        if self._retry.attempts > 1:
            _refuse_what_cannot_be_repeated(prompt, options, reopened=reopened, remembered=self._remembered)
        self.prompt: Any = prompt
        self.options: Options = options
        self._first: tuple[Any, Options] = (prompt, options)
        self._check = check
        self._count = 1
        self._resumed: str | None = None
        self._earlier: list[Message] = []
        self._warnings: list[StreamWarning] = []
        self._bad_lines: list[DecodeError] = []
        self._failures: list[str] = []

    def conclude(self, collected: CollectResult, output_type: Any, now: datetime) -> RunResult[Any]:
        """Turn a finished stream into the answer; raise as `run_result`, and with `check=False` an error to be tried again."""
        result = collected.result
        if not self._check and collected.terminal_error is None and result is not None and result.is_error:
            error = SessionNotFoundError.found_in(result.errors) or ResultError.of(result)
            if self._session_is_lost(error) or self._delay(error, now) is not None:
                error.partial = partial_of(collected.messages, error.session_id)
                raise error  # `check=False` returns only what another attempt cannot mend
        answer = collected.run_result(output_type, check=self._check)
        answer.messages[:0] = self._earlier
        answer.warnings[:0] = self._warnings
        answer.errors[:0] = self._bad_lines
        answer.attempts = self._count
        return answer

    def failed(self, error: HackamoreError, collected: CollectResult | None, now: datetime) -> float | None:
        """Apply that an attempt failed (`collected` is None if it was not started); return the seconds before the next one, or None."""
        lost = self._session_is_lost(error)  # no model was called: no wait, and no attempt in the count
        seconds = 0.0 if lost else self._delay(error, now)
        if seconds is None:
            self._finish(error, now)
            return None
        if collected is not None and not lost:
            self._warnings += collected.warnings
            self._bad_lines += collected.errors
        session_id = None if lost else self._session_to_resume(error)
        self._choose(session_id, error)
        self._report(error, seconds, session_id)
        self._count += not lost
        return seconds

    def _session_is_lost(self, error: HackamoreError) -> bool:
        """Return whether the session that this attempt resumes is not on the disk: then the prompt is sent again."""
        return self._resumed is not None and isinstance(error, SessionNotFoundError)

    def _delay(self, error: HackamoreError, now: datetime) -> float | None:
        retry = self._retry
        if not error.retryable or self._count >= retry.attempts or (self._goes_on is not None and not self._goes_on()):
            return None
        from random import uniform

        left = _until_reset(error, now)
        if retry.rate_limit_wait is not None and left > retry.rate_limit_wait:
            return None
        return left + back_off(self._count, retry.backoff, retry.max_delay, uniform)

    def _session_to_resume(self, error: HackamoreError) -> str | None:
        if not self._remembered:
            return None
        # An attempt without a message may not have begun its session.
        return error.partial.session_id if error.partial.messages else self._resumed

    def _choose(self, session_id: str | None, error: HackamoreError) -> None:
        self._resumed = session_id
        if session_id is None:
            self.prompt, self.options = self._first
            self._earlier.clear()  # they are of a session that is not continued, and would contradict the next
        else:
            self.prompt, self.options = CONTINUE, self.options.replace(**{**NO_SESSION, "resume": session_id})
            self._earlier += error.partial.messages

    def _report(self, error: HackamoreError, seconds: float, session_id: str | None) -> None:
        attempt, reason = f"Attempt {self._count} of {self._retry.attempts} failed", _brief(error)
        self._failures.append(f"{attempt}: {reason}")
        then = "the prompt is sent again" if session_id is None else f"session {session_id} is resumed"
        warning = StreamWarning(
            "RETRYING",
            f"{attempt}; {then} in {seconds:.1f} s: {reason}",
            {
                "attempt": self._count,
                "attempts": self._retry.attempts,
                "delay": seconds,
                "error": type(error).__name__,
                "resume": session_id,
            },
        )
        warning.exception = error
        ids = {"session_id": error.session_id}
        logger.warning("%s", warning, extra={**ids, "code": warning.code})
        self._warnings.append(warning)
        if (problem := deliver_warning(self.options, warning, ids)) is not None:
            self._warnings.append(problem)

    def _finish(self, error: HackamoreError, now: datetime) -> None:
        """Complete the error that is raised: its attempts, and the messages and failures of the earlier ones."""
        error.attempts = self._count
        if self._earlier:
            error.partial = partial_of([*self._earlier, *error.partial.messages], error.session_id)
        for failure in self._failures:
            error.add_note(failure)
        left, longest = _until_reset(error, now), self._retry.rate_limit_wait
        if self._count < self._retry.attempts and longest is not None and left > longest:
            error.add_note(
                f"Not tried again: the limit resets in {left:.0f} s, and `Retry.rate_limit_wait` is {longest:g} s."
            )


def _brief(error: HackamoreError) -> str:
    text = one_line(error)
    return f"{type(error).__name__}: {text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + '...'}"


def _until_reset(error: HackamoreError, now: datetime) -> float:
    """Return the seconds until the rate limit resets that an error reports; 0 if it reports no time."""
    if not isinstance(error, RateLimitedError) or error.resets_at is None:
        return 0.0
    return max(0.0, (error.resets_at - now).total_seconds())


def _refuse_what_cannot_be_repeated(prompt: Any, options: Options, *, reopened: bool, remembered: bool) -> None:
    from hackamore._engine.queries.prompts import is_many  # with callbacks and tools, which a plain query never needs

    if is_many(prompt):
        problem = (
            "needs a prompt that can be sent again: a text or a list of content blocks, not an iterable of prompts."
        )
    elif not reopened:
        problem = (
            "needs a transport that can be opened again: pass a `TransportSource`, which makes one for each attempt."
        )
    elif options.session_id is not None and not remembered:  # 2.1.327: "already in use"
        problem = "without a resume needs a new session for each attempt: leave the option `session_id` out."
    else:
        return
    raise OptionsError(f"`retry` {problem}", field="retry")
