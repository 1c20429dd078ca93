"""Output of programs for errors, which people read and logs keep: without secrets, but with the places and addresses that explain it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hackamore._engine.launch.plan import LaunchPlan
    from hackamore.transports.recording.redaction import Redactor


class Mask:
    """Puts `<masked>` for each secret in what a program printed. It learns the secrets when the first output comes.

    Args:
        plan: the launch of the program. Values of `env`, of secret variables and of configurations of servers are secret; without a
            plan, those of the secret variables of this process.
    """

    def __init__(self, plan: LaunchPlan | None = None) -> None:
        self._plan = plan

    @cached_property
    def _redactor(self) -> Redactor:
        from hackamore.transports.recording.redaction import Redactor, Unnumbered

        made = Redactor(Unnumbered())
        if self._plan is not None:
            made.prepare(self._plan)
        made.places.patterns.clear()  # places explain an error
        return made

    def __call__(self, output: bytes) -> bytes:
        """Return the output; bytes that are not UTF-8 stay."""
        return self._redactor.text(output.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
