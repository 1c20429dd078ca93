"""The common ground of a simulated CLI: the state, the running turn, and the ways out. It knows none of the parts that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bridle.testing.script.run import ScriptRun
    from bridle.testing.simulation.output import Output
    from bridle.testing.simulation.prompts import Prompts
    from bridle.testing.simulation.questions import Questions
    from bridle.testing.simulation.state import SessionState
    from bridle.testing.simulation.turn import Turn
    from bridle.testing.simulation.waits import Clock

__all__ = ["Core"]


class Core(NamedTuple):
    """The records and channels of one process, for the parts to choose from."""

    state: SessionState
    turn: Turn
    output: Output
    questions: Questions
    prompts: Prompts
    clock: Clock
    script: ScriptRun
