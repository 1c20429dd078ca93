"""Reports to the observers of a query or session. An observer that raises does not disturb the others."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, cast

from hackamore._engine.protocol import events
from hackamore.checked.functions import callback_failure
from hackamore.errors import HackamoreError, StreamWarning
from hackamore.options.observing import CallbackEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hackamore._engine.answering.jobs import Job
    from hackamore._engine.protocol.machines import Machines
    from hackamore.errors import WarningCode
    from hackamore.options.observing import CallbackCall, Observation, Subject
    from hackamore.options.options import Options


class Observers:
    """The observers of one query or session. `found` has the observations by the option that made them."""

    def __init__(
        self,
        found: Mapping[str, Observation],
        warn: Callable[[StreamWarning], object],
        ids: Callable[[], dict[str, Any]],
    ) -> None:
        self._found = found
        self._warn = warn
        self._ids = ids
        self._calls: dict[str, CallbackCall] = {}
        self._answered: deque[tuple[CallbackCall, CallbackEnd]] = deque()  # their observers hear of it later
        self._open_turns: set[str] = set()
        self._not_over = [True]  # taken by the thread that reports the end

    # -- starting ------------------------------------------------------------------------------------------------------

    def prompt_sending(self, turn_id: str, content: Any) -> None:
        """Report a prompt that is about to be sent; raise the error of an observer that refuses it."""
        self.report()
        self._open_turns.add(turn_id)
        for option, observation in self._found.items():
            try:
                observation.prompt_sending(turn_id, content)
            except HackamoreError as error:
                self.turn_changed(turn_id, "failed", error)  # to all: another one may have reserved a part of a budget
                raise
            except BaseException as problem:
                self._failed(option, observation, "prompt_sending", problem)

    def options_with_variables(self, options: Options) -> Options:
        variables: dict[str, str | None] = {}
        for option, observation in self._found.items():
            try:
                variables.update(observation.launching())
            except BaseException as problem:
                self._failed(option, observation, "launching", problem)
        # `Telemetry` sets TRACEPARENT: a value of the user wins.
        return options.replace(env={**variables, **(options.env or {})}) if variables else options

    def launched(self) -> None:
        """Report that the process runs."""
        self._call("launched")

    # -- what happens --------------------------------------------------------------------------------------------------

    def turn_changed(self, turn_id: str, state: str, error: HackamoreError | None) -> None:
        """Report that a turn is in another state."""
        if state not in ("queued", "started"):
            self._open_turns.discard(turn_id)
        self._call("turn_changed", turn_id, state, error)

    def is_open(self, turn_id: str) -> bool:
        return turn_id in self._open_turns

    def saw(self, event: events.Event) -> None:
        match event:
            case events.MessagesReceived(messages=messages, turn_ids=turn_ids):
                self._call("messages_received", messages, turn_ids)
            case events.TurnStateChanged(turn_id=turn_id, state=state, error=error):
                self.turn_changed(turn_id, str(state), error)
            case events.RequestResolved(request_id=request_id, error=error):
                self._call("request_ended", request_id, error)
            case events.HandshakeCompleted():
                self._call("ready")
            case events.Ended(error=error, exit_code=exit_code):
                self.ended(error, exit_code)
            case _:  # no observer needs the others
                pass

    def messages(self, messages: list[Any], turn_ids: tuple[str, ...]) -> None:
        self._call("messages_received", messages, turn_ids)

    def request_sent(self, request_id: str, operation: str) -> None:
        self._call("request_sent", request_id, operation)

    def ended(self, error: HackamoreError | None, exit_code: int | None) -> None:
        """Report, once, that everything is over: first the callbacks and turns that were open."""
        try:
            self._not_over.pop()
        except IndexError:
            return
        for request_id in list(self._calls):
            self.callback_ended(request_id, CallbackEnd("cancelled", None, ""))
        for turn_id in list(self._open_turns):
            self.turn_changed(turn_id, "failed" if error is not None else "interrupted", error)
        self._call("ended", error, exit_code)

    # -- callbacks -----------------------------------------------------------------------------------------------------

    def callback_started(self, job: Job) -> Job:
        """Report a callback; return its job, which first sets up the context as the observers want it."""
        self.report()
        call = self._calls[job.about.id] = job.about
        enters = []
        for option, observation in self._found.items():
            try:
                enter = observation.callback_started(call)
            except BaseException as problem:
                self._failed(option, observation, "callback_started", problem)
                continue
            if enter is not None:
                enters.append(enter)
        return job.calling(_entered(enters, job.call)) if enters else job

    def callback_ended(self, request_id: str, end: CallbackEnd) -> None:
        """Record the end of a callback. `report` follows once its answer was written: the CLI waits for that, and not for observers."""
        call = self._calls.pop(request_id, None)
        if call is not None:
            self._answered.append((call, end))

    def report(self) -> None:
        while self._answered:
            self._pass_on("callback_ended", *self._answered.popleft())

    # ------------------------------------------------------------------------------------------------------------------

    def _call(self, method: str, *arguments: Any) -> None:
        """Report an event, after the callbacks that ended before it."""
        self.report()
        self._pass_on(method, *arguments)

    def _pass_on(self, method: str, *arguments: Any) -> None:
        for option, observation in self._found.items():
            try:
                getattr(observation, method)(*arguments)
            except BaseException as problem:
                self._failed(option, observation, method, problem)

    def _failed(self, option: str, observation: Observation, method: str, problem: BaseException) -> None:
        if isinstance(problem, KeyboardInterrupt):
            raise problem  # all else, `SystemExit` as well, is a bug of the observer, and must not end the driver or trio as a whole
        function = getattr(observation, method, observation)
        name = f"`{option}` (`{method}`)"
        self._warn(callback_failure(name, function, problem, kind=option, extra=self._ids()))


def _entered(enters: list[Callable[[], object]], call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a call that sets up its context first. Each callback runs in a copy of a context, so nothing has to be undone."""

    def entered() -> Any:
        for enter in enters:
            enter()
        return call()

    return entered


class Observed:
    """A query or session as its observers see it."""

    def __init__(
        self,
        kind: Literal["query", "session"],
        options: Options,
        state: Machines,
        warn: Callable[[StreamWarning], object],
        end_turn: Callable[[str | None, HackamoreError], None],
    ) -> None:
        self.kind: Literal["query", "session"] = kind
        self.model: str | None = options.model
        self.options: Options = options
        self.end_turn = end_turn
        self._state = state
        self._warn = warn

    @property
    def session_id(self) -> str | None:
        return self._state.session_id

    def warn(self, code: str, message: str, **context: object) -> None:
        self._warn(StreamWarning(cast("WarningCode", code), message, context))


def observers_of(
    options: Options,
    subject: Subject,
    warn: Callable[[StreamWarning], object],
    ids: Callable[[], dict[str, Any]],
    guard: Observation | None = None,
) -> Observers | None:
    """Return the observers that the options ask for, or None. An exception of an `observe` method passes: nothing runs yet."""
    asked = {"telemetry": options.telemetry, "budget": options.budget}
    found = {name: observer.observe(subject) for name, observer in asked.items() if observer is not None}
    if guard is not None:
        found["policy"] = guard
    return Observers(found, warn, ids) if found else None
