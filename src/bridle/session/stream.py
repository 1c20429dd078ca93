"""What a query adds to the session that it reads from.

Everything that comes goes to one inbox, in order: messages, warnings, bad lines, and the end. What ends a one-shot ends it. The
input is closed when all prompts were sent and the joint rule allows it, and how long the CLI may go on after that is bounded.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bridle.errors import BridleError, PromptsError, SessionClosedError, StartError, printable, text_of
from bridle.protocol.states.session import Ending
from bridle.queries.ending import SessionOver
from bridle.queries.prompts import Feeder, is_many, one_prompt
from bridle.session.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.protocol import events as core_events
    from bridle.queries.prompts import OnePrompt
    from bridle.session.core import SessionCore

__all__ = ["StreamSide"]


class StreamSide:
    """The part of a session's core that is there for a query.

    Attributes:
        inbox: what its stream has not taken yet.
        overdue: True once the CLI closed its output and did not exit in time.
    """

    def __init__(self, core: SessionCore, post: Callable[[Callable[[], None]], None]) -> None:
        self.inbox = Inbox()
        self.overdue = False
        self._core = core
        self._post = post
        self._feeder: Feeder | None = None
        self._sent = 0
        self._unanswered = False

    # -- prompts -------------------------------------------------------------------------------------------------------

    def send_all(self, prompts: object, now: float) -> None:
        """Send the prompts: one at once; an iterable is begun to be read as soon as the session is ready.

        Raises:
            TypeError, OptionsError: it is nothing that can be a prompt.
        """
        if is_many(prompts):
            self._feeder = Feeder(prompts, self._send_later, self._prompts_ended)
            return
        self._send(one_prompt(prompts), now)
        self._core.connection.close_input()

    def _send(self, prompt: OnePrompt, now: float) -> None:
        self._core.send(prompt.content, prompt.fields, now, prompt.turn_id)
        self._sent += 1

    def _send_later(self, prompt: OnePrompt) -> None:
        def send() -> None:
            try:
                self._send(prompt, time.monotonic())
            except SessionClosedError:
                pass  # whoever reads is told
            except (BridleError, ValueError) as error:
                self._refuse(error)

        self._post(send)

    def _refuse(self, error: Exception) -> None:
        connection = self._core.connection
        if not connection.over:
            problem = PromptsError(self._sent, printable(text_of(error), 500))
            problem.__cause__ = error
            connection.fail(problem)

    def _prompts_ended(self, count: int, problem: PromptsError | None) -> None:
        def end() -> None:  # after the prompts, which are posted, too
            connection = self._core.connection
            if connection.over:
                return
            if problem is not None:
                connection.fail(problem)
            else:
                connection.close_input()

        self._post(end)

    def ready(self) -> None:
        """Take that the session is ready."""
        if self._feeder is not None:
            self._core.callbacks.to_run.append(self._feeder)

    def turn_over(self, error: BridleError | None) -> None:
        """Take that a prompt is over; `error` says that it was not answered."""
        self._unanswered = self._unanswered or error is not None
        if self._feeder is not None:
            self._feeder.answered()

    # -- the end -------------------------------------------------------------------------------------------------------

    def look_at_the_end(self) -> None:
        """Bound how long the CLI may go on after the last prompt was answered."""
        core, connection = self._core, self._core.connection
        timeouts = core.options.timeouts
        waits = (
            connection.finishing and not connection.over and not connection.input_closed and not connection.turns.open
        )
        busy = any(not task.ambient for task in connection.background_tasks)
        for kind, seconds, due in (
            ("background", timeouts.background, waits and busy),
            ("after_result", timeouts.after_result, waits and not busy),
        ):
            if not due:
                core.deadlines.disarm(kind, "")
            elif not core.deadlines.is_armed(kind, ""):
                core.deadlines.arm(kind, "", seconds)

    def overstayed(self, kind: str, seconds: float) -> None:
        """Take that all prompts were answered long ago, and the CLI still has something to do."""
        core = self._core
        if core.connection.in_flight_requests:
            core.deadlines.arm(kind, "", seconds)  # it is us who keep it waiting
            return
        tasks = sorted(task.task_id or "" for task in core.connection.background_tasks if not task.ambient)
        core.warn(
            "CLI_DID_NOT_EXIT",
            "The CLI was still there after its result and was stopped"
            + (f"; {len(tasks)} background tasks were running." if tasks else "."),
            seconds=seconds,
            background_tasks=tasks,
        )
        core.stop_asked = True

    def end(self, event: core_events.Ended) -> None:
        """Take that the session is over."""
        core = self._core
        if self._feeder is not None:
            self._feeder.cancelled = True
            self._feeder.answered()  # it may wait for room
            core.callbacks.to_stop.append(self._feeder)
        by_exit = event.by_exit or self.overdue
        over = SessionOver(
            exit_code=event.exit_code,
            stderr_tail=core.connection.stderr_tail,
            turn_open=self._unanswered and core.start_error is None,
            stopped=event.ending is Ending.STOPPED,
            error=None if by_exit else event.error,
        )
        self.inbox.add((over,), 0)
        self.inbox.end()

    @property
    def tells_the_end(self) -> bool:
        """True if the stream tells how it ended: after the start, or with a result of the CLI in the place of a start."""
        connection, error = self._core.connection, self._core.start_error
        return not isinstance(error, StartError) or (connection.exited and connection.last_result is not None)
