"""The conversation: the prompts of this side, what the CLI is doing, its background tasks and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol import events, frames
from hackamore._engine.protocol.diagnostics import api_failure
from hackamore._engine.protocol.states import session as states
from hackamore._engine.protocol.states.session import WORK, SessionActivity, Snapshot, Work, WorkTrigger
from hackamore._engine.protocol.turns import PromptRecord
from hackamore.errors import OptionsError
from hackamore.messages import (
    MESSAGE_TYPES,
    APIRetryMessage,
    AssistantMessage,
    AuthenticationError,
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    Frame,
    InitMessage,
    RateLimitEvent,
    ResultMessage,
    SessionStateChangedMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskUpdatedMessage,
)
from hackamore.messages.conversation import REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hackamore._engine.protocol.log import SessionLog
    from hackamore._engine.protocol.machines import Machines
    from hackamore._engine.protocol.outbox import Outbox
    from hackamore._engine.protocol.turns import TurnTable
    from hackamore.messages import Message, RateLimitInfo
    from hackamore.messages.results import ServerInfo
    from hackamore.messages.system import BackgroundTask


PLAIN: frozenset[type[Frame]] = frozenset(MESSAGE_TYPES.values()) - {
    ResultMessage,
    RateLimitEvent,
    InitMessage,
    APIRetryMessage,
    SessionStateChangedMessage,
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    CommandLifecycleMessage,
}
"""Messages that change nothing here: almost every frame. They come in lists, so that one costs no more than decoding it."""
PLAIN_AND_NAMELESS = frozenset(
    kind for kind in PLAIN if not {"user_message_uuid", "user_message_uuids"} & set(kind.__struct_fields__)
) - {AssistantMessage, StreamEvent}
"""The same while an ordinary frame may tell which prompt is being answered."""
SETTLE_SECONDS = 5.0
"""How long the CLI may say nothing after a background task ended, before it is believed that nothing follows. Seen: 0.03 s."""
_REPORTS_ON_PROMPTS = "msg_lifecycle_v1"  # else a turn that the CLI begins itself passes for that of a prompt
_TASK_ENDED = frozenset({"completed", "failed", "stopped", "killed", "cancelled"})  # after `paused` it continues


class ConversationState:
    """The state of the conversation: which prompts are open, and what the CLI is doing."""

    def __init__(
        self,
        state: Machines,
        turns: TurnTable,
        outbox: Outbox,
        log: SessionLog,
        *,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.server_info: ServerInfo | None = None  # the CLI's description of itself, once it has answered `initialize`
        self.activity: SessionActivity = SessionActivity.UNKNOWN
        self.background_tasks: tuple[BackgroundTask, ...] = ()  # those that run, ambient ones included
        self.last_result: ResultMessage | None = None
        self._work = Work.WORKING if state.one_way else Work.UNKNOWN  # the launch gives the prompt
        self.pending_approvals: tuple[str, ...] = ()  # requests of this turn that wait on without it
        self._rate_limit: RateLimitInfo | None = None
        self._key_source: str | None = None
        self._state = state
        self._turns = turns
        self._sent: set[str] = set()  # the ids of all prompts
        self._outbox = outbox
        self._log = log
        self._random_bytes = random_bytes

    @property
    def quiet(self) -> bool:
        """True while all is quiet: no prompt is open, nothing runs in the background, and the CLI is idle."""
        return states.is_quiet(self.snapshot())

    @property
    def unsettled(self) -> bool:
        """True between the end of a background task and the CLI's next word; after `SETTLE_SECONDS` of it, call `settle`."""
        return self._work is Work.DUE

    @property
    def working(self) -> bool:
        """True while the CLI is at work: on a prompt of this side, or in a turn that it began by itself."""
        return bool(len(self._turns)) or self._work is Work.WORKING

    @property
    def at_work(self) -> bool:
        """True while the model may be at work, now or soon: it works, a task runs in the background, or one has just ended."""
        return self.working or self.unsettled or self._busy_tasks > 0

    @property
    def _busy_tasks(self) -> int:
        return sum(not task.ambient for task in self.background_tasks)

    @property
    def asks(self) -> bool:
        """True if the last turn ended because a call waits for the answer of a person."""
        return self.last_result is not None and bool(self.last_result.pending_approvals)

    @property
    def api_error(self) -> str:
        """The last failed API request, for texts; empty if there is none, or the API has answered since."""
        return "" if self._outbox.api_retry is None else api_failure(self._outbox.api_retry)

    @property
    def key_source(self) -> str | None:
        """The source of the CLI's key or token; None if it does not name one."""
        account = self.server_info.account if self.server_info is not None else None
        named = (self._key_source, account.token_source if account is not None else None)
        # The CLI names a missing key "none".
        return next((source for source in named if source not in (None, "none")), None)

    def snapshot(self, **others: Any) -> Snapshot:
        """Return what the joint rules look at; `others` are the facts of other parts."""
        return Snapshot(
            activity=self.activity,
            open_turns=len(self._turns),
            background_tasks=self._busy_tasks,
            unsettled=self.unsettled,
            **others,
        )

    def send_prompt(
        self, content: object, *, turn_id: str | None = None, fields: Mapping[str, Any] | None = None
    ) -> str:
        """Send a prompt, a string or a list of content blocks; return its id, a uuid. It waits, without limit, until the session is ready.

        Raises ValueError if JSON cannot hold it, OptionsError if the id is taken, and SessionClosedError if the session is over, being
        stopped, or finishing.
        """
        self.check_prompts()
        record = PromptRecord(turn_id or self.new_uuid())
        if record.id in self._sent:
            text = f"`uuid`: a prompt with the id {record.id!r} is open already, or was. Use a new one: turns are matched by it."
            raise OptionsError(text, field="uuid")
        frame = frames.user_frame(content, record.id, fields)
        self._turns.add(record)
        self._sent.add(record.id)
        self._outbox.send(record, frame, flows=self._state.flows)
        return record.id

    def check_prompts(self) -> None:
        """Raise SessionClosedError if no prompt can be sent: the session is over, being stopped, or finishing."""
        self._state.require_open(stopping=False)
        if self._state.finishing:
            raise self._state.closed_error()

    def new_uuid(self) -> str:
        """Return a random uuid of version 4; an object of `uuid` takes three times as long."""
        value = bytearray(self._random_bytes(16))
        value[6], value[8] = value[6] & 0x0F | 0x40, value[8] & 0x3F | 0x80
        text = value.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def report_turns(self, changed: list[PromptRecord], *, ended: bool = False) -> None:
        for record in changed:
            error = self._state.closed_error() if ended else None
            self._outbox.emit(events.TurnStateChanged(record.id, record.state, error))

    def receive(self, message: Message) -> None:
        """Apply a message of the CLI that may change something, and report it."""
        outbox = self._outbox
        match message:
            case ResultMessage():
                self._on_result(message)
            case RateLimitEvent(rate_limit_info=limit):
                outbox.add(message)
                self._rate_limit = limit if limit.status == "rejected" else None  # `allowed_warning` refuses nothing
            case APIRetryMessage():
                self._on_api_retry(message)
            case CommandLifecycleMessage(command_uuid=turn_id):
                outbox.deliver(message, (turn_id,) if turn_id in self._turns else ())  # first: the report may end it
                self.report_turns(self._turns.report(turn_id, message.state))
            case SessionStateChangedMessage():
                self._on_state(message)
            case BackgroundTasksChangedMessage():
                outbox.add(message)
                self._set_background_tasks(message.tasks)
            case TaskNotificationMessage():
                outbox.add(message)
                self._task_ended(message.task_id, counts=not message.ambient)  # housekeeping keeps no caller waiting
            case TaskUpdatedMessage():
                outbox.add(message)
                if message.status in _TASK_ENDED:
                    running = (task for task in self.background_tasks if task.task_id == message.task_id)
                    self._task_ended(message.task_id, counts=any(not task.ambient for task in running))
            case _:
                if isinstance(message, InitMessage):
                    self._state.session_id = message.session_id or self._state.session_id
                    self._key_source = message.api_key_source
                    self._move_work(WorkTrigger.TURN_BEGINS)
                    self.read_capabilities(message.capabilities)  # believed from the first frame on
                if self._turns.prompt_is_unknown:
                    self._look_for_names(message)
                outbox.add(message)

    def _on_api_retry(self, retry: APIRetryMessage) -> None:
        """Log a failed API request; end the current turns if the API refuses a login that the CLI has renewed.

        Before it repeats a request, the CLI refreshes a login and runs `apiKeyHelper` again: the first refusal proves nothing (2.1.330).
        """
        before, self._outbox.api_retry = self._outbox.api_retry, retry
        again = retry.attempt > 1 and (before is None or before.error_status in REFUSED)
        self._outbox.add(retry)
        self._log.warning(
            "an API request failed: %s; the CLI repeats it in %.1f s",
            self.api_error,
            retry.retry_delay_ms / 1000,
            extra={"code": "API_RETRY"},
        )
        # The prompt of a one-way launch is not among the turns: its command line or stdin has it.
        current = self._turns.current_ids
        turn_is_open = self.last_result is None if self._state.one_way else bool(current)
        if again and turn_is_open and retry.error_status in REFUSED:
            error = AuthenticationError(retry.error_status, key_source=self.key_source)
            self._outbox.emit(events.LoginRefused(current, self._state.named(error)))

    def read_capabilities(self, capabilities: list[str]) -> None:
        """Read whether the CLI reports on prompts: then a turn that it starts by itself is not taken for one of this side."""
        if _REPORTS_ON_PROMPTS in capabilities:
            self._turns.reported = True

    def _on_result(self, result: ResultMessage) -> None:
        self._outbox.flush()
        if result.is_error and self._rate_limit is not None:
            vars(result)["rate_limit"] = self._rate_limit
        if result.is_error:
            vars(result)["key_source"] = self.key_source
            vars(result)["pending_approvals"] = self.pending_approvals
        self._rate_limit = self._outbox.api_retry = None
        self.pending_approvals = ()
        self.last_result = result
        self._state.session_id = result.session_id or self._state.session_id
        self._move_work(WorkTrigger.RESULT)
        ended = self._turns.finished_by(result)
        self._outbox.deliver(result, tuple(record.id for record in ended))
        self.report_turns(ended)

    def _on_state(self, message: SessionStateChangedMessage) -> None:
        if not message.sdk_host_only:
            self._outbox.add(message)  # the user asked for it, and not the library
        before, self.activity = self.activity, states.activity_named(message.state)
        self._move_work(WorkTrigger.SAYS_IDLE if self.activity is SessionActivity.IDLE else WorkTrigger.SAYS_BUSY)
        if self.activity is not before:
            self._outbox.emit(events.ActivityChanged(self.activity))
        if self.activity is SessionActivity.IDLE:
            self._outbox.flush()
            self.report_turns(self._turns.idle())  # `idle` follows each result: a prompt without one gets none

    def _task_ended(self, task_id: str, *, counts: bool) -> None:
        if counts:
            self._move_work(WorkTrigger.TASK_ENDED)
        self._set_background_tasks(task for task in self.background_tasks if task.task_id != task_id)

    def _set_background_tasks(self, tasks: Iterable[BackgroundTask]) -> None:
        before, self.background_tasks = self.background_tasks, tuple(tasks)
        if self.background_tasks != before:
            self._outbox.emit(events.BackgroundTasksChanged(self.background_tasks))

    def _look_for_names(self, message: Message) -> None:
        named = getattr(message, "user_message_uuids", None) or ()
        one = getattr(message, "user_message_uuid", None)
        if named or one:
            self._outbox.flush()
            self.report_turns(self._turns.named([*named, one] if one else named))
        # A CLI that names no prompt answers in the order of sending.
        elif isinstance(message, (InitMessage, AssistantMessage, StreamEvent)):
            self._outbox.flush()
            self.report_turns(self._turns.work_begins())

    def _move_work(self, trigger: WorkTrigger) -> None:
        self._work = WORK[self._work, trigger]

    def settle(self) -> None:
        """Apply that the CLI has said nothing for long enough after a background task ended."""
        self._move_work(WorkTrigger.SETTLED)

    def end(self) -> None:
        """Apply that the session is over: nothing runs any more."""
        self.background_tasks = ()
        self._move_work(WorkTrigger.ENDED)
