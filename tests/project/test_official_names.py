"""Each name of `claude-agent-sdk` that Hackamore lacks is an error that says the name here, and the page."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hackamore

# `claude_agent_sdk.__all__` of 0.2.184.
OFFICIAL = [
    "AgentDefinition",
    "AssistantMessage",
    "BackgroundTaskSummary",
    "BaseHookInput",
    "CLIConnectionError",
    "CLIJSONDecodeError",
    "CLINotFoundError",
    "CanUseTool",
    "CanUseToolShadowedWarning",
    "ClaudeAgentOptions",
    "ClaudeSDKClient",
    "ClaudeSDKError",
    "ContentBlock",
    "ContextUsageCategory",
    "ContextUsageResponse",
    "ConversationResetMessage",
    "CwdChangedHookSpecificOutput",
    "DeferredToolUse",
    "EffortLevel",
    "ElicitationHookSpecificOutput",
    "ElicitationResultHookSpecificOutput",
    "FastModeDisabledReason",
    "FastModeState",
    "FileChangedHookSpecificOutput",
    "ForkSessionResult",
    "HookCallback",
    "HookContext",
    "HookEffort",
    "HookEventMessage",
    "HookInput",
    "HookJSONOutput",
    "HookMatcher",
    "InMemorySessionStore",
    "McpSdkServerConfig",
    "McpServerConfig",
    "McpServerConnectionStatus",
    "McpServerInfo",
    "McpServerStatus",
    "McpServerStatusConfig",
    "McpStatusResponse",
    "McpToolAnnotations",
    "McpToolInfo",
    "Message",
    "MessageDisplayHookSpecificOutput",
    "MessageOrigin",
    "MessageOriginKind",
    "MirrorErrorMessage",
    "ModelUsage",
    "NotificationHookInput",
    "NotificationHookSpecificOutput",
    "PermissionDeniedHookSpecificOutput",
    "PermissionMode",
    "PermissionRequestHookInput",
    "PermissionRequestHookSpecificOutput",
    "PermissionResult",
    "PermissionResultAllow",
    "PermissionResultDeny",
    "PermissionUpdate",
    "PostModelSwitchHookSpecificOutput",
    "PostToolBatchHookSpecificOutput",
    "PostToolUseFailureHookInput",
    "PostToolUseFailureHookSpecificOutput",
    "PostToolUseHookInput",
    "PostToolUseHookSpecificOutput",
    "PreCompactHookInput",
    "PreModelSwitchHookSpecificOutput",
    "PreToolUseHookInput",
    "PreToolUseHookSpecificOutput",
    "ProcessError",
    "RateLimitEvent",
    "RateLimitInfo",
    "RateLimitStatus",
    "RateLimitType",
    "ResultError",
    "ResultMessage",
    "SDKSessionInfo",
    "SandboxIgnoreViolations",
    "SandboxNetworkConfig",
    "SandboxSettings",
    "SdkBeta",
    "SdkMcpTool",
    "SdkPluginConfig",
    "ServerToolName",
    "ServerToolResultBlock",
    "ServerToolUseBlock",
    "SessionCronSummary",
    "SessionKey",
    "SessionListSubkeysKey",
    "SessionMessage",
    "SessionStartHookSpecificOutput",
    "SessionStore",
    "SessionStoreEntry",
    "SessionStoreFlushMode",
    "SessionStoreListEntry",
    "SessionSummaryEntry",
    "SettingSource",
    "StopHookInput",
    "StopHookSpecificOutput",
    "StreamEvent",
    "SubagentStartHookInput",
    "SubagentStartHookSpecificOutput",
    "SubagentStopHookInput",
    "SubagentStopHookSpecificOutput",
    "SystemInitData",
    "SystemInitMcpServer",
    "SystemInitPlugin",
    "SystemInitPluginError",
    "SystemMessage",
    "TERMINAL_TASK_STATUSES",
    "TaskBudget",
    "TaskNotificationMessage",
    "TaskNotificationOriginSubkind",
    "TaskNotificationStatus",
    "TaskProgressMessage",
    "TaskStartedMessage",
    "TaskUpdatedMessage",
    "TaskUpdatedStatus",
    "TaskUsage",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingConfig",
    "ThinkingConfigAdaptive",
    "ThinkingConfigDisabled",
    "ThinkingConfigEnabled",
    "ToolAnnotations",
    "ToolPermissionContext",
    "ToolResultBlock",
    "ToolUseBlock",
    "Transport",
    "UserMessage",
    "UserPromptExpansionHookSpecificOutput",
    "UserPromptSubmitHookInput",
    "UserPromptSubmitHookSpecificOutput",
    "WorktreeCreateHookSpecificOutput",
    "__version__",
    "create_sdk_mcp_server",
    "delete_session",
    "delete_session_via_store",
    "fold_session_summary",
    "fork_session",
    "fork_session_via_store",
    "get_session_info",
    "get_session_info_from_store",
    "get_session_messages",
    "get_session_messages_from_store",
    "get_subagent_messages",
    "get_subagent_messages_from_store",
    "import_session_to_store",
    "list_sessions",
    "list_sessions_from_store",
    "list_subagents",
    "list_subagents_from_store",
    "project_key_for_directory",
    "query",
    "rename_session",
    "rename_session_via_store",
    "tag_session",
    "tag_session_via_store",
    "tool",
]


@pytest.mark.parametrize("name", [name for name in OFFICIAL if name not in hackamore.__all__])
def test_an_official_name_says_its_counterpart_and_the_page(name: str) -> None:
    with pytest.raises(ImportError, match=r"`hackamore` has no '\w+'. .*docs/guides/migrate.md"):
        exec(f"from hackamore import {name}", {})
    with pytest.raises(AttributeError, match=r"docs/guides/migrate.md"):
        getattr(hackamore, name)
    assert not hasattr(hackamore, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ClaudeAgentOptions", "Hackamore calls it `Options`"),
        ("create_sdk_mcp_server", "`tool_server`"),
        ("PermissionResultAllow", "`Allow`"),
        ("TaskStartedMessage", "from hackamore.messages import TaskStartedMessage"),
        ("PreToolUseHookInput", "from hackamore.hooks import PreToolUseHookInput"),
        ("InMemorySessionStore", "MemoryStore"),
        ("list_sessions", "`hackamore.transcripts.list`"),
        ("get_subagent_messages", r"`hackamore.transcripts.read\(session_id\).subagents"),
        ("fork_session", "`hackamore.transcripts.fork`"),
        ("Sesion", "Did you mean `Session`?"),
    ],
)
def test_the_text_names_the_counterpart(name: str, text: str) -> None:
    with pytest.raises(ImportError, match=text):
        exec(f"from hackamore import {name}", {})


def test_the_traceback_shows_the_users_line_and_no_more_than_three_of_the_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from hackamore import ClaudeAgentOptions"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("hackamore/__init__.py") <= 3
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: `hackamore` has no 'ClaudeAgentOptions'. Hackamore calls it `Options`"
    )


def test_other_names_are_plain_attribute_errors() -> None:
    with pytest.raises(AttributeError, match=r"^module 'hackamore' has no attribute 'qqq'$"):
        _ = hackamore.qqq  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'qqq'"):
        exec("from hackamore import qqq", {})


@pytest.mark.parametrize("code", ["import hackamore; hackamore.Sesion", "from hackamore import Sesion"])
def test_a_misspelt_name_gets_one_suggestion(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.count("Did you mean") == 1, done.stderr
