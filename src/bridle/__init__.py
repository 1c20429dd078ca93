"""Bridle steers the Claude Code CLI from Python: typed, async and blocking, impossible to hang or leak.

::

    import bridle

    async for message in bridle.query("What does this project do?"):
        print(message)

    answer = await bridle.run("How many tests are there?", output_type=int)  # answer.output

Without an event loop the same names are in `bridle.sync`. Everything is loaded when it is first used: importing costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle._version import __version__

if TYPE_CHECKING:
    from bridle import hooks, messages, sync, testing
    from bridle.aio.query import QueryStream, query, run
    from bridle.aio.session import (
        Session,
        Turn,
        start_session,
    )
    from bridle.checked.schemas import OutputError
    from bridle.dialogs import (
        ElicitationRequest,
        ElicitationResult,
        UserDialogRequest,
        UserDialogResult,
    )
    from bridle.errors import (
        BridleError,
        CheckpointingNotEnabledError,
        CLIExitedDuringInitError,
        CLINotFoundError,
        ConcurrentUseError,
        ControlError,
        ControlRejectedError,
        ControlTimeoutError,
        DecodeError,
        Diagnostic,
        InitializationError,
        InitializationTimeoutError,
        InitQueueOverflowError,
        LineTooLongError,
        NotSupportedError,
        OptionsError,
        ProcessError,
        PromptsError,
        ResultError,
        SessionClosedError,
        SlowConsumerError,
        SpawnError,
        StartError,
        StreamError,
        StreamWarning,
        TooManyDecodeErrors,
        TooManyPendingRequestsError,
        TurnTimeoutError,
        UnknownVersionError,
        UnsupportedCLIVersionError,
        VersionDetectionError,
    )
    from bridle.hooks import (
        HookContext,
        HookMatcher,
        HookOutput,
    )
    from bridle.messages import (
        AssistantMessage,
        ContentBlock,
        Message,
        RateLimitEvent,
        ResultMessage,
        StreamEvent,
        SystemMessage,
        TextBlock,
        ThinkingBlock,
        ToolResultBlock,
        ToolUseBlock,
        UnknownBlock,
        UnknownMessage,
        UserMessage,
    )
    from bridle.options.bounds import Limits, Timeouts
    from bridle.options.kinds import (
        AgentDefinition,
        McpHttpServerConfig,
        McpSSEServerConfig,
        McpStdioServerConfig,
        SandboxSettings,
        SdkPluginConfig,
        SystemPromptCustom,
        SystemPromptFile,
        SystemPromptPreset,
        TaskBudget,
        ThinkingConfigAdaptive,
        ThinkingConfigDisabled,
        ThinkingConfigEnabled,
    )
    from bridle.options.options import Options
    from bridle.permissions import (
        AddDirectories,
        AddRules,
        Allow,
        Deny,
        PermissionRequest,
        PermissionRule,
        RemoveDirectories,
        RemoveRules,
        ReplaceRules,
        SetMode,
    )
    from bridle.protocol.states.session import Activity, Lifecycle, TurnState
    from bridle.queries.outcomes import CollectResult, RunResult
    from bridle.session.events import (
        ActivityChanged,
        BackgroundTasksChanged,
        SessionCompleted,
        SessionEvent,
        SessionFailed,
        SessionStarted,
        SessionStopped,
        TurnCompleted,
        TurnStarted,
        Warned,
    )
    from bridle.tools import (
        Audio,
        EmbeddedResource,
        Image,
        ResourceLink,
        Tool,
        ToolContext,
        ToolError,
        ToolResult,
        ToolServer,
        tool,
        tool_server,
    )

_PLACES: dict[str, str] = {
    name: module
    for module, names in {
        "bridle.aio": "QueryStream query run",
        "bridle.aio.session": "Session Turn start_session",
        "bridle.options.bounds": "Limits Timeouts",
        "bridle.dialogs": "ElicitationRequest ElicitationResult UserDialogRequest UserDialogResult",
        "bridle.errors": (
            "BridleError CLIExitedDuringInitError CLINotFoundError CheckpointingNotEnabledError ConcurrentUseError ControlError "
            "ControlRejectedError ControlTimeoutError DecodeError Diagnostic InitQueueOverflowError InitializationError "
            "InitializationTimeoutError LineTooLongError NotSupportedError OptionsError ProcessError PromptsError ResultError "
            "SessionClosedError SlowConsumerError SpawnError StartError StreamError StreamWarning TooManyDecodeErrors "
            "TooManyPendingRequestsError TurnTimeoutError UnknownVersionError UnsupportedCLIVersionError VersionDetectionError"
        ),
        "bridle.hooks": "HookContext HookMatcher HookOutput",
        "bridle.messages": (
            "AssistantMessage ContentBlock Message RateLimitEvent ResultMessage StreamEvent SystemMessage TextBlock ThinkingBlock "
            "ToolResultBlock ToolUseBlock UnknownBlock UnknownMessage UserMessage"
        ),
        "bridle.options.kinds": (
            "AgentDefinition McpHttpServerConfig McpSSEServerConfig McpStdioServerConfig SandboxSettings SdkPluginConfig "
            "SystemPromptCustom SystemPromptFile SystemPromptPreset TaskBudget ThinkingConfigAdaptive ThinkingConfigDisabled "
            "ThinkingConfigEnabled"
        ),
        "bridle.options.options": "Options",
        "bridle.queries.outcomes": "CollectResult RunResult",
        "bridle.permissions": (
            "AddDirectories AddRules Allow Deny PermissionRequest PermissionRule RemoveDirectories RemoveRules ReplaceRules SetMode"
        ),
        "bridle.protocol.states.session": "Activity Lifecycle TurnState",
        "bridle.session.events": (
            "ActivityChanged BackgroundTasksChanged SessionCompleted SessionEvent SessionFailed SessionStarted SessionStopped "
            "TurnCompleted TurnStarted Warned"
        ),
        "bridle.checked.schemas": "OutputError",
        "bridle.tools": "Audio EmbeddedResource Image ResourceLink Tool ToolContext ToolError ToolResult ToolServer tool tool_server",
    }.items()
    for name in names.split()
}
_SUBMODULES = frozenset({"hooks", "messages", "sync", "testing"})

__all__ = [
    "Activity",
    "ActivityChanged",
    "AddDirectories",
    "AddRules",
    "AgentDefinition",
    "Allow",
    "AssistantMessage",
    "Audio",
    "BackgroundTasksChanged",
    "BridleError",
    "CLIExitedDuringInitError",
    "CLINotFoundError",
    "CheckpointingNotEnabledError",
    "CollectResult",
    "ConcurrentUseError",
    "ContentBlock",
    "ControlError",
    "ControlRejectedError",
    "ControlTimeoutError",
    "DecodeError",
    "Deny",
    "Diagnostic",
    "ElicitationRequest",
    "ElicitationResult",
    "EmbeddedResource",
    "HookContext",
    "HookMatcher",
    "HookOutput",
    "Image",
    "InitQueueOverflowError",
    "InitializationError",
    "InitializationTimeoutError",
    "Lifecycle",
    "Limits",
    "LineTooLongError",
    "McpHttpServerConfig",
    "McpSSEServerConfig",
    "McpStdioServerConfig",
    "Message",
    "NotSupportedError",
    "Options",
    "OptionsError",
    "OutputError",
    "PermissionRequest",
    "PermissionRule",
    "ProcessError",
    "PromptsError",
    "QueryStream",
    "RateLimitEvent",
    "RemoveDirectories",
    "RemoveRules",
    "ReplaceRules",
    "ResourceLink",
    "ResultError",
    "ResultMessage",
    "RunResult",
    "SandboxSettings",
    "SdkPluginConfig",
    "Session",
    "SessionClosedError",
    "SessionCompleted",
    "SessionEvent",
    "SessionFailed",
    "SessionStarted",
    "SessionStopped",
    "SetMode",
    "SlowConsumerError",
    "SpawnError",
    "StartError",
    "StreamError",
    "StreamEvent",
    "StreamWarning",
    "SystemMessage",
    "SystemPromptCustom",
    "SystemPromptFile",
    "SystemPromptPreset",
    "TaskBudget",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingConfigAdaptive",
    "ThinkingConfigDisabled",
    "ThinkingConfigEnabled",
    "Timeouts",
    "TooManyDecodeErrors",
    "TooManyPendingRequestsError",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolResultBlock",
    "ToolServer",
    "ToolUseBlock",
    "Turn",
    "TurnCompleted",
    "TurnStarted",
    "TurnState",
    "TurnTimeoutError",
    "UnknownBlock",
    "UnknownMessage",
    "UnknownVersionError",
    "UnsupportedCLIVersionError",
    "UserDialogRequest",
    "UserDialogResult",
    "UserMessage",
    "VersionDetectionError",
    "Warned",
    "__version__",
    "hooks",
    "messages",
    "query",
    "run",
    "start_session",
    "sync",
    "testing",
    "tool",
    "tool_server",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"bridle.{name}")
    if name in _PLACES:
        value = globals()[name] = getattr(import_module(_PLACES[name]), name)
        return value
    raise AttributeError(f"module 'bridle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
