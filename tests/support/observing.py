"""An observer, and an observation that notes the reports that it receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hackamore import HackamoreError
from hackamore.options.observing import CallbackCall, CallbackEnd, Observation


class Noting(Observation):
    """Notes what it hears.

    Args:
        raises: methods that raise afterwards.
        error: what they raise.
        variables: for the CLI.

    Attributes:
        at: functions that a method calls.
    """

    def __init__(
        self, *raises: str, error: type[BaseException] = ValueError, variables: Mapping[str, str | None] | None = None
    ) -> None:
        self.raises = raises
        self.error = error
        self.variables = variables or {}
        self.heard: list[tuple[Any, ...]] = []
        self.enter: Callable[[], object] | None = None
        self.at: dict[str, Callable[[], object]] = {}

    def note(self, name: str, *facts: Any) -> None:
        self.heard.append((name, *facts))
        self.at.get(name, bool)()
        if name in self.raises:
            raise self.error(f"the observer fails in {name}")

    def names(self, *leave_out: str) -> list[str]:
        return [name for name, *_ in self.heard if name not in leave_out]

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [tuple(facts) for found, *facts in self.heard if found == name]

    def prompt_sending(self, turn_id: str, content: Any) -> None:
        self.note("prompt_sending", turn_id, content)

    def launching(self) -> Mapping[str, str | None]:
        self.note("launching")
        return self.variables

    def launched(self) -> None:
        self.note("launched")

    def ready(self) -> None:
        self.note("ready")

    def turn_changed(self, turn_id: str, state: str, error: HackamoreError | None) -> None:
        self.note("turn_changed", turn_id, state, error)

    def messages_received(self, messages: Any, turn_ids: tuple[str, ...]) -> None:
        self.note("messages_received", [message.type for message in messages], turn_ids)

    def callback_started(self, call: CallbackCall) -> Callable[[], object] | None:
        self.note("callback_started", call)
        return self.enter

    def callback_ended(self, call: CallbackCall, end: CallbackEnd) -> None:
        self.note("callback_ended", call, end)

    def request_sent(self, request_id: str, operation: str) -> None:
        self.note("request_sent", request_id, operation)

    def request_ended(self, request_id: str, error: HackamoreError | None) -> None:
        self.note("request_ended", request_id, error)

    def ended(self, error: HackamoreError | None, exit_code: int | None) -> None:
        self.note("ended", error, exit_code)


class Observer:
    """Hands out one observation, and keeps the subject."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        self.subject: Any = None

    def observe(self, subject: Any) -> Observation:
        self.subject = subject
        return self.observation
