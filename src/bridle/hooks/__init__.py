"""Hooks: functions of yours that the CLI calls while it works. They need a session, or a query that becomes one.

::

    def no_deletions(input: PreToolUseHookInput, context: HookContext) -> HookOutput | None:
        if "rm " in input.tool_input.get("command", ""):
            return HookOutput.deny("Nothing is deleted here.")
        return None

    Options(hooks={"PreToolUse": [HookMatcher("Bash", [no_deletions])]})
"""

from __future__ import annotations

from bridle.hooks import base, context, decode, encode, matchers, outputs, surroundings_inputs, tool_inputs, turn_inputs
from bridle.hooks.base import *
from bridle.hooks.context import *
from bridle.hooks.decode import *
from bridle.hooks.encode import *
from bridle.hooks.matchers import *
from bridle.hooks.outputs import *
from bridle.hooks.surroundings_inputs import *
from bridle.hooks.tool_inputs import *
from bridle.hooks.turn_inputs import *

__all__ = []
__all__ += base.__all__
__all__ += context.__all__
__all__ += decode.__all__
__all__ += encode.__all__
__all__ += matchers.__all__
__all__ += outputs.__all__
__all__ += surroundings_inputs.__all__
__all__ += tool_inputs.__all__
__all__ += turn_inputs.__all__
