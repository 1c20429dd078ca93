"""Hooks: your functions that the CLI calls while it works. They need a session, or a query that becomes one.

::

    def no_deletions(input: PreToolUseHookInput, context: HookContext) -> HookOutput | None:
        if "rm " in input.tool_input.get("command", ""):
            return HookOutput.deny("Nothing is deleted here.")
        return None

    Options(hooks={"PreToolUse": [HookMatcher("Bash", [no_deletions])]})
"""

from __future__ import annotations

from hackamore.hooks import inputs, matchers, outputs
from hackamore.hooks.inputs import *
from hackamore.hooks.matchers import *
from hackamore.hooks.outputs import *

__all__ = []
__all__ += inputs.__all__
__all__ += matchers.__all__
__all__ += outputs.__all__
