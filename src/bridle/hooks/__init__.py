"""Hooks: functions of yours that the CLI calls while it works. They need a session, or a query that becomes one.

::

    def no_deletions(input: PreToolUseHookInput, context: HookContext) -> HookOutput | None:
        if "rm " in input.tool_input.get("command", ""):
            return HookOutput.deny("Nothing is deleted here.")
        return None

    Options(hooks={"PreToolUse": [HookMatcher("Bash", [no_deletions])]})
"""

from __future__ import annotations

from bridle.hooks.base import (
    BackgroundTaskSummary,
    HookEffort,
    HookInput,
    SessionCronSummary,
    UnknownHookInput,
)
from bridle.hooks.context import (
    HookContext,
)
from bridle.hooks.decode import (
    HOOK_EVENTS,
    decode_hook_input,
)
from bridle.hooks.encode import (
    HookOutputError,
)
from bridle.hooks.matchers import (
    HookMatcher,
)
from bridle.hooks.outputs import (
    HookOutput,
)
from bridle.hooks.surroundings_inputs import (
    ConfigChangeHookInput,
    CwdChangedHookInput,
    DirectoryAddedHookInput,
    ElicitationHookInput,
    ElicitationResultHookInput,
    FileChangedHookInput,
    InstructionsLoadedHookInput,
    TaskCompletedHookInput,
    TaskCreatedHookInput,
    TeammateIdleHookInput,
    WorktreeCreateHookInput,
    WorktreeRemoveHookInput,
)
from bridle.hooks.tool_inputs import (
    PermissionDeniedHookInput,
    PermissionRequestHookInput,
    PostToolBatchHookInput,
    PostToolBatchToolCall,
    PostToolUseFailureHookInput,
    PostToolUseHookInput,
    PreToolUseHookInput,
)
from bridle.hooks.turn_inputs import (
    MessageDisplayHookInput,
    NotificationHookInput,
    PostCompactHookInput,
    PostModelSwitchHookInput,
    PreCompactHookInput,
    PreModelSwitchHookInput,
    SessionEndHookInput,
    SessionStartHookInput,
    SetupHookInput,
    StopFailureHookInput,
    StopHookInput,
    SubagentStartHookInput,
    SubagentStopHookInput,
    UserPromptExpansionHookInput,
    UserPromptSubmitHookInput,
)

__all__ = [
    "BackgroundTaskSummary",
    "ConfigChangeHookInput",
    "CwdChangedHookInput",
    "DirectoryAddedHookInput",
    "ElicitationHookInput",
    "ElicitationResultHookInput",
    "FileChangedHookInput",
    "HOOK_EVENTS",
    "HookContext",
    "HookEffort",
    "HookInput",
    "HookMatcher",
    "HookOutput",
    "HookOutputError",
    "InstructionsLoadedHookInput",
    "MessageDisplayHookInput",
    "NotificationHookInput",
    "PermissionDeniedHookInput",
    "PermissionRequestHookInput",
    "PostCompactHookInput",
    "PostModelSwitchHookInput",
    "PostToolBatchHookInput",
    "PostToolBatchToolCall",
    "PostToolUseFailureHookInput",
    "PostToolUseHookInput",
    "PreCompactHookInput",
    "PreModelSwitchHookInput",
    "PreToolUseHookInput",
    "SessionCronSummary",
    "SessionEndHookInput",
    "SessionStartHookInput",
    "SetupHookInput",
    "StopFailureHookInput",
    "StopHookInput",
    "SubagentStartHookInput",
    "SubagentStopHookInput",
    "TaskCompletedHookInput",
    "TaskCreatedHookInput",
    "TeammateIdleHookInput",
    "UnknownHookInput",
    "UserPromptExpansionHookInput",
    "UserPromptSubmitHookInput",
    "WorktreeCreateHookInput",
    "WorktreeRemoveHookInput",
    "decode_hook_input",
]
