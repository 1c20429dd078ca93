"""The store of a session: appends become jobs for the shell, and results wait until the store has their turn.

Nothing but messages is held back. A result and what follows it, in each sequence that one reader sees, wait for the appends; hooks,
permissions, control answers, and the messages of other turns do not.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from hackamore._engine.answering.jobs import Callee, Job, JobState
from hackamore._engine.protocol import events
from hackamore._engine.session.readers import ReadersCore
from hackamore._engine.storing.mirror import Mirror, Occasion, Writer
from hackamore.checked.functions import is_async
from hackamore.errors import DecodeError, StoreConflictError, StreamWarning, escape_terminal, text_of, without_passwords
from hackamore.messages import Message, ResultMessage
from hackamore.messages.decode import decode
from hackamore.options.observing import CallbackCall
from hackamore.runtime.flags import Flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.answering.routing import Callbacks
    from hackamore._engine.protocol.deadlines import Deadlines
    from hackamore._engine.storing.mirror import Append, Problem
    from hackamore.options.stores import StoreKey

_KIND = "store"
_ATTEMPT, _REST = "attempt", "rest"


class StoringCore(ReadersCore, Protocol):
    """The core of a session, as its store sees it."""

    audience: Any
    callbacks: Callbacks
    deadlines: Deadlines

    def deliver(self, event: events.MessagesReceived, *, to_cursors: bool = True) -> None:
        """Give messages to the audience; without `to_cursors` to the turns alone."""

    def turn_over(self, event: events.TurnStateChanged) -> None:
        """Process that a turn has started or ended."""


class Storing:
    """Copies the transcript of a session to its store. `more` is woken when an append has ended."""

    def __init__(self, core: StoringCore) -> None:
        options = core.options
        self.mirror: Mirror = Mirror(options.session_store_flush, options.limits.mirrored_bytes)
        self._core = core
        store: Any = options.session_store
        self._append: Callable[..., Any]
        self.use(store.append)
        self._seconds = options.timeouts.store
        self._job: Job | None = None
        self._held: deque[events.MessagesReceived | events.TurnStateChanged] = deque()
        self._held_bytes = 0
        self._marks: deque[tuple[events.MessagesReceived, int]] = deque()
        self._turns: set[str] = set()
        self._said_slow = False
        self.more: Flag = Flag()

    def use(self, append: Callable[..., Any]) -> None:
        self._append = append
        self._async = is_async(append)

    def resumed(self, project_key: str) -> None:
        """Set the project under which the store keeps the session: the copy continues there, wherever the CLI runs."""
        self.mirror.project_key = project_key

    @property
    def full(self) -> bool:
        """True while no output is to be read: the store is behind."""
        mirror = self.mirror
        # Held messages wait for an append that is due or runs: there is always one that makes room.
        full = mirror.full or self._held_bytes >= self._core.options.limits.mirrored_bytes
        if full and not self._said_slow:
            self._said_slow = True
            waiting = mirror.waiting + self._held_bytes
            self._core.warnings.add(
                "STORE_SLOW",
                f"{waiting:,} bytes wait for the session store: no output is read until it has taken some "
                "(`Limits.mirrored_bytes`). Hooks and permission requests wait as well.",
                waiting=waiting,
            )
        return full

    @property
    def holds(self) -> bool:
        """True while a result waits for the store."""
        return bool(self._held)

    # -- events of the connection --------------------------------------------------------------------------------------

    def keeps(self, event: events.Event) -> bool:
        """Take an event; return True if the session is not to handle it now."""
        match event:
            case events.TranscriptMirrored(frame=frame):
                self.mirror.take(frame.file_path, frame.entries_raw)
                return True
            case events.MessagesReceived(messages=messages, turn_ids=turn_ids):
                if isinstance(messages[-1], ResultMessage):
                    self._hold_result(event, turn_ids)
                    return True
                return bool(self._held) and self._hold_messages(event, messages, turn_ids)
            case events.TurnStateChanged(turn_id=turn_id):
                if self._held and (self._core.audience.in_order or turn_id in self._turns):
                    self._core.turn_over(event)  # now: the CLI is not silent while its result waits for the store
                    self._held.append(event)
                    return True
            case events.Ended():
                self.release_all()  # readers get their result, and then the error
            case _:
                pass
        return False

    def _hold_result(self, event: events.MessagesReceived, turn_ids: tuple[str, ...]) -> None:
        self._marks.append((event, self.mirror.flush_on(Occasion.RESULT)))
        self._hold(event)
        self._turns.update(turn_ids)

    def _hold_messages(
        self, event: events.MessagesReceived, messages: list[Message], turn_ids: tuple[str, ...]
    ) -> bool:
        core = self._core
        if core.audience.in_order or not self._turns.isdisjoint(turn_ids):
            self._hold(event)
        else:  # another turn: its reader does not wait, cursors over all messages keep the order
            core.deliver(event, to_cursors=False)
            self._hold(events.MessagesReceived(messages))
        return True

    def _hold(self, event: events.MessagesReceived) -> None:
        self._held.append(event)
        self._held_bytes += sum(len(message.raw) for message in event.messages)

    def _release(self) -> None:
        """Hand out what was held back for results that the store has now."""
        while self._marks and self.mirror.settled(self._marks[0][1]):
            result, _ = self._marks.popleft()
            self._hand_out(result)
            following = self._marks[0][0] if self._marks else None
            while self._held and self._held[0] is not following:  # the next result waits for a mark of its own
                self._hand_out(self._held[0])
        if not self._held:
            self._turns.clear()

    def _hand_out(self, event: events.Event) -> None:
        while self._held:
            held = self._held.popleft()
            if isinstance(held, events.TurnStateChanged):  # its timeouts did not wait: `keeps` called `turn_over`
                self._core.audience.turn_changed(held)
            else:
                self._held_bytes -= sum(len(message.raw) for message in held.messages)
                self._core.deliver(held)
            if held is event:
                return

    def release_all(self) -> None:
        """Hand out everything that was held back, regardless of the store."""
        self._marks.clear()
        while self._held:
            self._hand_out(self._held[0])
        self._turns.clear()

    # -- appends -------------------------------------------------------------------------------------------------------

    def move(self) -> None:
        """Start the next append if one is due, and hand out results that the store has."""
        if self._job is None and self.mirror.writer is Writer.IDLE:
            append = self.mirror.begin()
            if append is not None:
                self._start(append)
        self._tell_problems()
        if self._marks:
            self._release()

    def _start(self, append: Append) -> None:
        function, core = self._append, self._core
        job = self._job = Job(
            CallbackCall("", _KIND),
            Callee("`append` of the session store", function=function, is_async=self._async),
            JobState(),
            lambda: function(append.key, append.entries()),
            ended=self._ended,
        )
        core.deadlines.arm(_KIND, _ATTEMPT, self._seconds)
        core.callbacks.start(job)

    def _ended(self, _: object, error: BaseException | None) -> None:
        self._job = None
        self.more.wake()
        self._core.deadlines.disarm(_KIND, _ATTEMPT)
        if error is None:
            self.mirror.took()
            self._said_slow = False
        else:
            self._failed(error)
        self.move()

    def _failed(self, error: BaseException) -> None:
        lost = isinstance(error, (StoreConflictError, DecodeError))  # an entry that is nested too deep stays so
        # Without passwords: drivers of databases quote their connection strings.
        text = text_of(error) if lost else f"{type(error).__name__}: {without_passwords(text_of(error))}"
        rest = self.mirror.failed(escape_terminal(text, 500), error, again=True, lost=lost)
        if rest is not None:
            self._core.deadlines.arm(_KIND, _REST, rest)

    def expire(self, name: str, seconds: float) -> None:
        """Apply an expired timeout: of an attempt, or of the rest before the next one."""
        if name == _REST:
            self._rested()
            return
        job, self._job = self._job, None
        if job is not None:
            self._core.callbacks.drop(job)
            # Not again immediately: the store may still work on it.
            self.mirror.failed(f"it did not return within {seconds:g} s", again=False)
            self.more.wake()
        self.move()

    def _rested(self) -> None:
        append = self.mirror.rested()
        if append is not None:
            self._start(append)

    def begin_end(self) -> None:
        """Make everything that waits due: the session ends."""
        self.mirror.flush_on(Occasion.END)
        if self._job is not None:  # the end of the connection removed the timeouts
            self._core.deadlines.arm(_KIND, _ATTEMPT, self._seconds)
        elif self.mirror.writer is Writer.RESTING:
            self._rested()
        self.move()

    @property
    def ended(self) -> bool:
        """True once nothing waits for the store."""
        return self.mirror.idle

    def end(self) -> None:
        """Stop copying: no time is left for the entries that still wait."""
        job, self._job = self._job, None
        if job is not None:
            self._core.callbacks.drop(job)
        self._core.deadlines.disarm(_KIND, _ATTEMPT)
        self._core.deadlines.disarm(_KIND, _REST)
        self.mirror.abandon("the session has ended, and there was no time left")
        self._tell_problems()

    # -- problems ------------------------------------------------------------------------------------------------------

    def _tell_problems(self) -> None:
        problems = self.mirror.problems
        while problems:
            self._report(problems.popleft())

    def _report(self, problem: Problem) -> None:
        core = self._core
        what = _shown(problem.key)
        then = (
            "No more of it is copied in this session. The transcript on the disk is complete: the next resume on this host heals the store."
            if problem.given_up
            else "The entries wait for the next write."
        )
        text = f"The session store did not take entries of {what}: {problem.error}. {then}"
        warning = StreamWarning("STORE_FAILED", text, {"key": problem.key, "given_up": problem.given_up})
        warning.exception = problem.exception
        if core.connection.state.over:  # readers have their end: the log and `on_warning` are left
            core.warnings.add_after_end(warning)
            return
        core.warnings.add(warning)
        turns = tuple(self._turns) or core.connection.turns.current_ids
        core.audience.messages([_message(problem, core.connection.state.session_id)], turns)


def _shown(key: StoreKey | None) -> str:
    if key is None:
        return "a file"
    subpath = key.get("subpath")
    return escape_terminal(f"{key['session_id']}{f' ({subpath})' if subpath else ''}", 200)


def _ignore(_: StreamWarning) -> None:
    """Take a warning of the decoder about a message that Hackamore made."""


def _message(problem: Problem, session_id: str | None) -> Message:
    key = problem.key
    fields: dict[str, Any] = {
        "type": "system",
        "subtype": "mirror_error",
        "error": problem.error,
        "uuid": "",
        "session_id": session_id or "",
    }
    if key is not None:
        wire = {"projectKey": key["project_key"], "sessionId": key["session_id"]}
        fields["key"] = {**wire, "subpath": key["subpath"]} if "subpath" in key else wire
    message = decode(msgspec.json.encode(fields), _ignore)
    assert isinstance(message, Message)  # noqa: S101 - for the type checker
    return message
