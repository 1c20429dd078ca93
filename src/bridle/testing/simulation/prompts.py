"""The prompts that wait for a simulated CLI, and its reports about them and about itself."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.testing.simulation.results import flat_text

if TYPE_CHECKING:
    from bridle.testing.script.run import ScriptRun
    from bridle.testing.simulation.output import Output

__all__ = ["Prompt", "Prompts"]


class Prompt(NamedTuple):
    """A prompt of the host."""

    text: str
    uuid: str | None


@dataclass(kw_only=True, eq=False, repr=False)
class Prompts:
    """The queue of prompts.

    Attributes:
        waiting: prompts that no turn has taken.
        ended: stdin has ended.
        busy: the CLI reports that it runs.
    """

    output: Output
    script: ScriptRun
    reports_state: bool
    waiting: deque[Prompt] = field(default_factory=deque, init=False)
    ended: bool = field(default=False, init=False)
    busy: bool = field(default=False, init=False)

    def put(self, content: Any, uuid: str | None) -> None:
        """Add a prompt."""
        text = flat_text(content)
        self.script.note(f"the host sends the prompt {text!r}")
        if not self.busy:
            self.report_state("running")
        self.report(uuid, "queued")
        self.waiting.append(Prompt(text, uuid))

    def report(self, uuid: str | None, state: str) -> None:
        """Report the progress of a prompt."""
        if uuid is not None:
            self.output.emit({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def report_state(self, state: str) -> None:
        """Report the state of the CLI, if the host reads it."""
        self.busy = state != "idle"
        if self.reports_state:
            self.output.system("session_state_changed", state=state, sdk_host_only=True)

    def cancel(self, uuid: object) -> bool:
        """Remove a prompt; return whether it was there."""
        for prompt in self.waiting:
            if prompt.uuid == uuid:
                self.waiting.remove(prompt)
                self.report(prompt.uuid, "cancelled")
                return True
        return False

    def cancel_all(self) -> None:
        """Remove every prompt."""
        for prompt in self.waiting:
            self.report(prompt.uuid, "cancelled")
        self.waiting.clear()
