"""The conversation as the CLI tells it: the state of prompts, its activity, its background tasks, its results.

One rule for queries and sessions. Whether a turn runs that no open prompt explains stands in `states.session.WORK`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.messages import (
    AssistantMessage,
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    InitMessage,
    ResultMessage,
    SessionStateChangedMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskUpdatedMessage,
)
from bridle.protocol import events
from bridle.protocol.states.session import WORK, Activity, Work, WorkHappening, activity_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridle.messages import Message
    from bridle.messages.system import BackgroundTask
    from bridle.protocol.event_queue import EventQueue
    from bridle.protocol.life import Life
    from bridle.protocol.turns import PromptRecord, TurnTable

__all__ = ["Conversation"]

_REPORTS_ON_PROMPTS = "msg_lifecycle_v1"
_ENDED = frozenset({"completed", "failed", "stopped", "killed", "cancelled"})


class Conversation:
    """Applies the messages of a CLI that change something. Where the launch gives the prompt, a turn runs from the beginning on."""

    def __init__(self, life: Life, turns: TurnTable, queue: EventQueue) -> None:
        self.last_result: ResultMessage | None = None
        self.background_tasks: tuple[BackgroundTask, ...] = ()
        self.activity = Activity.UNKNOWN
        self.work = Work.WORKING if life.one_way else Work.UNKNOWN
        self._life = life
        self._turns = turns
        self._queue = queue

    @property
    def busy_tasks(self) -> int:
        """The number of background tasks that count as activity."""
        return sum(not task.ambient for task in self.background_tasks)

    def happened(self, happening: WorkHappening) -> None:
        """Move `work`."""
        self.work = WORK[self.work, happening]

    def receive(self, message: Message) -> None:
        """Apply a message, and report it with what it changed."""
        batch = self._queue.batch
        match message:
            case ResultMessage():
                self._on_result(message)
            case CommandLifecycleMessage(command_uuid=turn_id):
                self._queue.deliver(message, (turn_id,) if turn_id in self._turns else ())
                self.tell(self._turns.report(turn_id, message.state))
            case SessionStateChangedMessage():
                self._on_state(message)
            case BackgroundTasksChangedMessage():
                batch.append(message)
                self._tasks_are(message.tasks)
            case TaskNotificationMessage():
                batch.append(message)
                self._task_ended(message.task_id, counts=not message.ambient)
            case TaskUpdatedMessage():
                batch.append(message)
                if message.status in _ENDED:
                    running = (task for task in self.background_tasks if task.task_id == message.task_id)
                    self._task_ended(message.task_id, counts=any(not task.ambient for task in running))
            case _:
                if isinstance(message, InitMessage):
                    self._queue.session_id = message.session_id or self._queue.session_id
                    self.happened(WorkHappening.TURN_BEGINS)
                    self.learn(message.capabilities)
                if self._turns.names_matter:
                    self._look_for_names(message)
                self._queue.batch.append(message)

    def learn(self, capabilities: list[str]) -> None:
        """Note whether the CLI reports on prompts: then a turn that it starts by itself is not taken for one of ours."""
        if _REPORTS_ON_PROMPTS in capabilities:
            self._turns.reported = True

    def tell(self, changed: list[PromptRecord], *, ended: bool = False) -> None:
        """Report the states of prompts; with the session's error if it `ended` them."""
        for record in changed:
            error = self._life.closed_error() if ended else None
            self._queue.emit(events.TurnStateChanged(record.id, record.state, error))

    def end(self) -> None:
        """Forget what runs: the session is over."""
        self.background_tasks = ()
        self.happened(WorkHappening.ENDED)

    def _on_result(self, result: ResultMessage) -> None:
        self._queue.flush()
        self.last_result = result
        self._queue.session_id = result.session_id or self._queue.session_id
        self.happened(WorkHappening.RESULT)
        ended = self._turns.finished_by(result)
        self._queue.deliver(result, tuple(record.id for record in ended))
        self.tell(ended)

    def _on_state(self, message: SessionStateChangedMessage) -> None:
        if not message.sdk_host_only:
            self._queue.batch.append(message)  # the user asked for it, and not the library
        before, self.activity = self.activity, activity_named(message.state)
        self.happened(WorkHappening.SAYS_IDLE if self.activity is Activity.IDLE else WorkHappening.SAYS_BUSY)
        if self.activity is not before:
            self._queue.emit(events.ActivityChanged(self.activity))
        if self.activity is Activity.IDLE:
            self._queue.flush()
            self.tell(self._turns.idle())

    def _task_ended(self, task_id: str, *, counts: bool) -> None:
        if counts:
            self.happened(WorkHappening.TASK_ENDED)
        self._tasks_are(task for task in self.background_tasks if task.task_id != task_id)

    def _tasks_are(self, tasks: Iterable[BackgroundTask]) -> None:
        before, self.background_tasks = self.background_tasks, tuple(tasks)
        if self.background_tasks != before:
            self._queue.emit(events.BackgroundTasksChanged(self.background_tasks))

    def _look_for_names(self, message: Message) -> None:
        named = getattr(message, "user_message_uuids", None) or ()
        one = getattr(message, "user_message_uuid", None)
        if named or one:
            self._queue.flush()
            self.tell(self._turns.named([*named, one] if one else named))
        elif isinstance(message, (InitMessage, AssistantMessage, StreamEvent)):
            self._queue.flush()
            self.tell(self._turns.work_begins())
