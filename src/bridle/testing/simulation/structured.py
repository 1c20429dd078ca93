"""Structured output in a simulated CLI: the tool `StructuredOutput`, its tries, and the demand to call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bridle.testing.simulation.results import Outcome
from bridle.testing.simulation.schemas import misfit

if TYPE_CHECKING:
    from bridle.testing.script import steps

__all__ = ["ENFORCED", "TRIES", "StructuredOutput"]

TRIES = 5
"""Calls of `StructuredOutput` with output that does not fit the schema, until the turn fails."""
ENFORCED = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this tool now."
)
"""The text for the model, once in a turn, if it ends without the structured output."""


class StructuredOutput:
    """The structured output of a turn.

    Attributes:
        value: the output, once the model has given it.
        failures: the error of each output that did not fit the schema.
        enforced: the model was told to call the tool.
    """

    def __init__(self, schema: dict[str, Any] | None) -> None:
        self.schema = schema
        self.begin()

    def begin(self) -> None:
        """Begin a turn."""
        self.value: Any = None
        self.failures: list[str] = []
        self.enforced = False

    @property
    def exhausted(self) -> bool:
        """Whether the model has used all its tries."""
        return len(self.failures) >= TRIES

    @property
    def text(self) -> str:
        """The output as JSON."""
        return msgspec.json.encode(self.value).decode()

    def take(self, call: steps.Calls, arguments: dict[str, Any]) -> Outcome:
        """Take a call of the tool."""
        error = call.error
        if error is None and (found := misfit(arguments, self.schema or {})) is not None:
            error = f"Output does not match required schema: {found}"
        if error is not None:
            self.failures.append(error)
            return Outcome(error, f"Error: {error}", failed=True)
        self.value = arguments
        text = "Structured output provided successfully"
        return Outcome(text, text)
