"""Hackamore steers the Claude Code CLI from Python: typed, async and blocking, impossible to hang or leak.

::

    import hackamore

    async for message in hackamore.query("What does this project do?"):
        print(message)

    answer = await hackamore.run("How many tests are there?", output_type=int)  # answer.output

Without an event loop the same names are in `hackamore.sync`. Everything is loaded when it is first used: importing costs little.

Each public name stands once, in the table below. Type checkers read `__init__.pyi`, which `./dev docs` makes of it.
"""

from __future__ import annotations

import os
from typing import Any

if os.name != "posix":  # before an import fails with an obscure name
    raise ImportError("Hackamore runs on Linux and macOS. On Windows, install and run it inside WSL.")

from hackamore._version import __version__

PLACES: dict[str, str] = {
    name: module
    for module, names in {
        "hackamore.aio.mapping": "MapStream map",
        "hackamore.aio.pool": "SessionPool",
        "hackamore.aio.query": "QueryStream query run",
        "hackamore.aio.session": "Session Turn resolve_settings start_session",
        "hackamore.approvals.approvals": "Approvals",
        "hackamore.budgets.budget": "Budget",
        "hackamore.activity.prices": "Price",
        "hackamore.options.bounds": "Limits Timeouts",
        "hackamore.dialogs": "ElicitationRequest ElicitationResult UserDialogRequest UserDialogResult",
        "hackamore.errors": (
            "AmbiguousSessionError SessionExistsError SessionInUseError "
            "HackamoreError ApprovalError BudgetError BudgetExceededError "
            "CLIExitedDuringInitError CLINotFoundError CheckpointingNotEnabledError ConcurrentUseError ControlError "
            "ConversationInUseError ConversationNotFoundError "
            "ControlRejectedError ControlTimeoutError DecodeError DecodeErrorLimitError Diagnostic FleetError "
            "InitQueueOverflowError "
            "InitializationError InitializationTimeoutError JournalError LineTooLongError LinkLostError NotSupportedError OptionsError "
            "PartialResult RemoteStartError "
            "PolicyError PoolClosedError PoolError PoolTimeoutError ProcessError PromptIterableError RegistryError SessionClosedError "
            "SessionNotFoundError SessionNotStartedError SessionReturnedError SlowConsumerError SpawnError StartError StoreConflictError "
            "StoreError StreamError StreamWarning TaskChangedError TaskFailedError TooManyPendingRequestsError TranscriptError "
            "TurnCancelledError TurnTimeoutError UnknownPriceError UnknownVersionError UnsupportedCLIVersionError "
            "VersionDetectionError WorkspaceError"
        ),
        "hackamore.hooks": "HookContext HookMatcher HookOutput",
        "hackamore._engine.launch.discovery": "FoundCLI MINIMUM_ONE_SHOT MINIMUM_SESSION find_cli",
        "hackamore._engine.launch.versions": "CLIVersion version_meets_minimum",
        "hackamore.messages": (
            "ApprovalPendingError AssistantMessage AuthenticationError ContentBlock Message RateLimitEvent RateLimitedError "
            "ResultError ResultMessage StreamEvent SystemMessage TextBlock ThinkingBlock ToolResultBlock ToolUseBlock UnknownBlock "
            "UnknownMessage UserMessage"
        ),
        "hackamore.options.kinds": (
            "AgentDefinition BUILTIN_TOOL_NAMES EffortLevel McpHttpServerConfig McpSSEServerConfig McpStdioServerConfig "
            "PermissionMode SandboxSettings SdkPluginConfig SettingSource SystemPromptCustom SystemPromptFile SystemPromptPreset "
            "TaskBudget ThinkingConfigAdaptive ThinkingConfigDisabled ThinkingConfigEnabled"
        ),
        "hackamore.options.options": "Options",
        "hackamore.options.retry": "Retry",
        "hackamore._engine.queries.prompts": "Prompt",
        "hackamore._engine.queries.outcomes": "CollectResult RunResult",
        "hackamore.permissions": (
            "AddDirectories AddRules Allow Deny PermissionRequest PermissionRule PermissionUpdate RemoveDirectories RemoveRules "
            "ReplaceRules SetMode UnknownPermissionUpdate"
        ),
        "hackamore._engine.protocol.states.session": "SessionActivity SessionState TurnState",
        "hackamore._engine.session.events": (
            "ActivityChanged BackgroundTasksChanged SessionCompleted SessionEvent SessionFailed SessionStarted SessionStopped "
            "TurnCompleted TurnStarted WarningRaised"
        ),
        "hackamore.checked.schemas": "OutputError",
        "hackamore.policy.policy": "Policy",
        "hackamore.policy.rules": "Rule",
        "hackamore.policy.verdict": "Verdict",
        "hackamore.serving.stdio": "serve_stdio",
        "hackamore.telemetry": "Telemetry",
        "hackamore.transports.process.prepare": "launch_plan",
        "hackamore.tools": "Audio EmbeddedResource Image ResourceLink Tool ToolContext ToolError ToolResult ToolServer tool tool_server",
    }.items()
    for name in names.split()
}
_SUBMODULES = (
    "approvals",
    "budgets",
    "fleet",
    "hooks",
    "messages",
    "policy",
    "pool",
    "sync",
    "telemetry",
    "testing",
    "traces",
    "transcripts",
)

__all__ = ["__version__", *_SUBMODULES, *PLACES]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"hackamore.{name}")
    if name in PLACES:
        value = globals()[name] = getattr(import_module(PLACES[name]), name)
        return value
    if name.startswith("__"):  # asked for by the interpreter and by tools
        raise AttributeError(f"module 'hackamore' has no attribute {name!r}")
    raise _not_here(name)


def _not_here(name: str) -> Exception:
    """Return the error for a name that is not here: in `from hackamore import ...` it must be an ImportError to keep its text."""
    import sys

    from hackamore._official_names import advice

    text = advice(name)
    # `from hackamore import x` asks for the attribute from importlib first, and replaces the text of an AttributeError.
    importing = sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"  # noqa: SLF001
    if importing and (text := text or _suggested(name)):
        return ImportError(f"`hackamore` has no {name!r}. {text}", name="hackamore")
    # The interpreter adds a suggestion of its own to an AttributeError.
    return AttributeError(f"module 'hackamore' has no attribute {name!r}{text and f'. {text}'}")


def _suggested(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1, cutoff=0.8)
    return f"Did you mean `{close[0]}`?" if close else ""


def __dir__() -> list[str]:
    return sorted(__all__)
