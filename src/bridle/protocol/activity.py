"""What the CLI is doing, learned from its frames: its reported state, its background tasks, its session and its last result.

One rule for queries and sessions. Whether a turn runs that no open prompt explains stands in `states.session.WORK`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.protocol.states.session import WORK, Activity, Work, WorkHappening, activity_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.messages import (
        BackgroundTasksChangedMessage,
        InitMessage,
        Message,
        ResultMessage,
        SessionStateChangedMessage,
        TaskNotificationMessage,
        TaskUpdatedMessage,
    )
    from bridle.messages.system import BackgroundTask

__all__ = ["CliActivity"]

_ENDED = frozenset({"completed", "failed", "stopped", "killed", "cancelled"})


class CliActivity:
    """The CLI's side of a conversation, as far as its frames tell.

    Args:
        work: `WORKING` where the launch itself gives the prompt.

    Attributes:
        session_id: the session, from the first message that names it; an `init` and a result correct it.
        last_result: the last result.
        background_tasks: the running background tasks, ambient ones included.
        reported: the last reported state.
        work: whether a turn runs or has to follow.
        messages: the number of messages so far.
    """

    __slots__ = ("background_tasks", "last_result", "messages", "reported", "session_id", "work")

    def __init__(self, work: Work = Work.UNKNOWN) -> None:
        self.session_id: str | None = None
        self.last_result: ResultMessage | None = None
        self.background_tasks: tuple[BackgroundTask, ...] = ()
        self.reported = Activity.UNKNOWN
        self.work = work
        self.messages = 0

    @property
    def busy_in_background(self) -> int:
        """The number of background tasks that count as activity."""
        return sum(not task.ambient for task in self.background_tasks)

    def happened(self, happening: WorkHappening) -> None:
        """Move `work`."""
        self.work = WORK[self.work, happening]

    def heard(self, messages: list[Message]) -> None:
        """Count delivered messages and look for the session id."""
        self.messages += len(messages)
        if self.session_id is None:
            ids = (getattr(message, "session_id", None) for message in messages)
            self.session_id = next((found for found in ids if isinstance(found, str) and found), None)

    def turn_began(self, frame: InitMessage) -> None:
        """Apply an `init`."""
        self.session_id = frame.session_id or self.session_id
        self.happened(WorkHappening.TURN_BEGINS)

    def answered(self, frame: ResultMessage) -> None:
        """Apply a result."""
        self.last_result = frame
        self.session_id = frame.session_id or self.session_id
        self.happened(WorkHappening.RESULT)

    def state_reported(self, frame: SessionStateChangedMessage) -> bool:
        """Apply a reported state; return whether it is another one."""
        before, self.reported = self.reported, activity_named(frame.state)
        self.happened(WorkHappening.SAYS_IDLE if self.reported is Activity.IDLE else WorkHappening.SAYS_BUSY)
        return self.reported is not before

    def tasks_listed(self, frame: BackgroundTasksChangedMessage) -> bool:
        """Apply a list of the running tasks; return whether it is another one."""
        return self._tasks_are(frame.tasks)

    def task_updated(self, frame: TaskUpdatedMessage) -> bool:
        """Apply an update of a task; return whether it ended a running one."""
        if frame.status not in _ENDED:
            return False
        if any(task.task_id == frame.task_id and not task.ambient for task in self.background_tasks):
            self.happened(WorkHappening.TASK_ENDED)
        return self._ended(frame.task_id)

    def task_notified(self, frame: TaskNotificationMessage) -> bool:
        """Apply the notification that a task has ended; return whether it was still listed."""
        if not frame.ambient:
            self.happened(WorkHappening.TASK_ENDED)
        return self._ended(frame.task_id)

    def ended(self) -> None:
        """Forget what runs: the session is over."""
        self.background_tasks = ()
        self.happened(WorkHappening.ENDED)

    def _ended(self, task_id: str) -> bool:
        return self._tasks_are([task for task in self.background_tasks if task.task_id != task_id])

    def _tasks_are(self, tasks: Iterable[BackgroundTask]) -> bool:
        before, self.background_tasks = self.background_tasks, tuple(tasks)
        return self.background_tasks != before
