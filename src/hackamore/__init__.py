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
        "bridle.aio.mapping": "MapStream map",
        "bridle.aio.pool": "SessionPool",
        "bridle.aio.query": "QueryStream query run",
        "bridle.aio.session": "Session Turn start_session",
        "bridle.budgets.budget": "Budget",
        "bridle.budgets.prices": "Price",
        "bridle.options.bounds": "Limits Timeouts",
        "bridle.dialogs": "ElicitationRequest ElicitationResult UserDialogRequest UserDialogResult",
        "bridle.errors": (
            "AmbiguousSessionError SessionExistsError SessionInUseError "
            "BridleError BudgetError BudgetExceededError "
            "CLIExitedDuringInitError CLINotFoundError CheckpointingNotEnabledError ConcurrentUseError ControlError "
            "ConversationInUseError ConversationNotFoundError "
            "ControlRejectedError ControlTimeoutError DecodeError DecodeErrorLimitError Diagnostic FleetError "
            "InitQueueOverflowError "
            "InitializationError InitializationTimeoutError JournalError LineTooLongError NotSupportedError OptionsError PartialResult "
            "PoolClosedError PoolError PoolTimeoutError ProcessError PromptIterableError RegistryError SessionClosedError "
            "SessionNotFoundError SessionNotStartedError SessionReturnedError SlowConsumerError SpawnError StartError StoreConflictError "
            "StoreError StreamError StreamWarning TaskChangedError TaskFailedError TooManyPendingRequestsError TranscriptError "
            "TurnCancelledError TurnTimeoutError UnknownPriceError UnknownVersionError UnsupportedCLIVersionError "
            "VersionDetectionError WorkspaceError"
        ),
        "bridle.hooks": "HookContext HookMatcher HookOutput",
        "bridle.launch.versions": "CLIVersion version_meets_minimum",
        "bridle.messages": (
            "AssistantMessage AuthenticationError ContentBlock Message RateLimitEvent RateLimitedError ResultError ResultMessage "
            "StreamEvent SystemMessage TextBlock ThinkingBlock ToolResultBlock ToolUseBlock UnknownBlock UnknownMessage UserMessage"
        ),
        "bridle.options.kinds": (
            "AgentDefinition EffortLevel McpHttpServerConfig McpSSEServerConfig McpStdioServerConfig PermissionMode SandboxSettings "
            "SdkPluginConfig SettingSource SystemPromptCustom SystemPromptFile SystemPromptPreset TaskBudget ThinkingConfigAdaptive "
            "ThinkingConfigDisabled ThinkingConfigEnabled"
        ),
        "bridle.options.options": "Options",
        "bridle.options.retry": "Retry",
        "bridle.queries.prompts": "Prompt",
        "bridle.queries.outcomes": "CollectResult RunResult",
        "bridle.permissions": (
            "AddDirectories AddRules Allow Deny PermissionRequest PermissionRule RemoveDirectories RemoveRules ReplaceRules SetMode"
        ),
        "bridle.protocol.states.session": "SessionActivity SessionState TurnState",
        "bridle.session.events": (
            "ActivityChanged BackgroundTasksChanged SessionCompleted SessionEvent SessionFailed SessionStarted SessionStopped "
            "TurnCompleted TurnStarted WarningRaised"
        ),
        "bridle.checked.schemas": "OutputError",
        "bridle.telemetry": "Telemetry",
        "bridle.tools": "Audio EmbeddedResource Image ResourceLink Tool ToolContext ToolError ToolResult ToolServer tool tool_server",
    }.items()
    for name in names.split()
}
_SUBMODULES = ("budgets", "fleet", "hooks", "messages", "pool", "sync", "telemetry", "testing", "traces", "transcripts")

__all__ = ["__version__", *_SUBMODULES, *PLACES]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"bridle.{name}")
    if name in PLACES:
        value = globals()[name] = getattr(import_module(PLACES[name]), name)
        return value
    if name.startswith("__"):  # asked for by the interpreter and by tools
        raise AttributeError(f"module 'bridle' has no attribute {name!r}")
    raise _not_here(name)


def _not_here(name: str) -> Exception:
    """Return the error for a name that is not here: in `from bridle import ...` it must be an ImportError to keep its text."""
    import sys

    from bridle.checked.official_names import advice

    text = advice(name)
    # `from bridle import x` asks for the attribute from importlib first, and replaces the text of an AttributeError.
    importing = sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"  # noqa: SLF001
    if importing and (text := text or _suggested(name)):
        return ImportError(f"`bridle` has no {name!r}. {text}", name="bridle")
    # The interpreter adds a suggestion of its own to an AttributeError.
    return AttributeError(f"module 'bridle' has no attribute {name!r}{text and f'. {text}'}")


def _suggested(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1, cutoff=0.8)
    return f"Did you mean `{close[0]}`?" if close else ""


def __dir__() -> list[str]:
    return sorted(__all__)
