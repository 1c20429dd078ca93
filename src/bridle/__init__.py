"""Bridle steers the Claude Code CLI from Python: typed, async and blocking, impossible to hang or leak.

::

    import bridle

    async for message in bridle.query("What does this project do?"):
        print(message)

    answer = await bridle.run("How many tests are there?", output_type=int)  # answer.output

Without an event loop the same names are in `bridle.sync`. Everything is loaded when it is first used: importing costs little.

Each public name stands once, in the table below. Type checkers read `__init__.pyi`, which `./dev docs` makes of it.
"""

from __future__ import annotations

from typing import Any

from bridle._version import __version__

PLACES: dict[str, str] = {
    name: module
    for module, names in {
        "bridle.aio.query": "QueryStream query run",
        "bridle.aio.session": "Session Turn start_session",
        "bridle.options.bounds": "Limits Timeouts",
        "bridle.dialogs": "ElicitationRequest ElicitationResult UserDialogRequest UserDialogResult",
        "bridle.errors": (
            "BridleError CLIExitedDuringInitError CLINotFoundError CheckpointingNotEnabledError ConcurrentUseError ControlError "
            "ControlRejectedError ControlTimeoutError DecodeError Diagnostic InitQueueOverflowError InitializationError "
            "InitializationTimeoutError LineTooLongError NotSupportedError OptionsError ProcessError PromptsError "
            "SessionClosedError SlowConsumerError SpawnError StartError StreamError StreamWarning TooManyDecodeErrors "
            "TooManyPendingRequestsError TurnTimeoutError UnknownVersionError UnsupportedCLIVersionError VersionDetectionError"
        ),
        "bridle.hooks": "HookContext HookMatcher HookOutput",
        "bridle.messages": (
            "AssistantMessage ContentBlock Message RateLimitEvent ResultError ResultMessage StreamEvent SystemMessage TextBlock "
            "ThinkingBlock ToolResultBlock ToolUseBlock UnknownBlock UnknownMessage UserMessage"
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
_SUBMODULES = ("hooks", "messages", "sync", "testing")

__all__ = ["__version__", *_SUBMODULES, *PLACES]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"bridle.{name}")
    if name in PLACES:
        value = globals()[name] = getattr(import_module(PLACES[name]), name)
        return value
    raise AttributeError(f"module 'bridle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
