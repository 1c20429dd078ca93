"""Names of `claude-agent-sdk` that `hackamore` does not have: their names here. Loaded when one is imported."""

from __future__ import annotations

PAGE = "docs/guides/migrate.md"

_STORE = "Hackamore has no function of this name; those of claude-agent-sdk work with the stores of Hackamore."

_HERE: dict[str, str] = {
    "CLIConnectionError": "Use `StartError` at the start and `SessionClosedError` later.",
    "CLIJSONDecodeError": "Use `DecodeError`; bad lines are in `stream.errors`.",
    "CanUseTool": "Annotate the function: `def can_use_tool(request: PermissionRequest) -> Allow | Deny`.",
    "CanUseToolShadowedWarning": "Use `StreamWarning` with the code 'PERMISSION_CALLBACK_SHADOWED'.",
    "ClaudeAgentOptions": "Hackamore calls it `Options`.",
    "ClaudeCodeOptions": "Hackamore calls it `Options`.",
    "ClaudeSDKClient": "Hackamore calls it `Session`: `async with Session(options) as session`, `turn = await session.send(...)`.",
    "ClaudeSDKError": "Hackamore calls it `HackamoreError`.",
    "HookJSONOutput": "Return `HookOutput`, a dict or None.",
    "McpSdkServerConfig": "Use `tool_server(name, tools)`, or `mcp_servers={'name': [tools]}`.",
    "McpServerConfig": "Use `McpStdioServerConfig`, `McpHttpServerConfig`, `McpSSEServerConfig` or a dict.",
    "McpToolAnnotations": "Use the arguments of `tool`: `read_only`, `destructive`, `idempotent`, `open_world`.",
    "PermissionResult": "Use `Allow | Deny`.",
    "PermissionResultAllow": "Hackamore calls it `Allow`.",
    "PermissionResultDeny": "Hackamore calls it `Deny`.",
    "SdkMcpTool": "Hackamore calls it `Tool`.",
    "SdkBeta": "Use `str`.",
    "SystemInitData": "Use `hackamore.messages.InitMessage`.",
    "ToolAnnotations": "Use the arguments of `tool`: `read_only`, `destructive`, `idempotent`, `open_world`.",
    "ToolPermissionContext": "Use `PermissionRequest`, the only argument of `can_use_tool`.",
    "InMemorySessionStore": "Use `hackamore.transcripts.stores.MemoryStore`.",
    "SessionStore": "Write `from hackamore.transcripts.stores import SessionStore`.",
    "SessionStoreEntry": "Use `dict[str, Any]`.",
    "SessionStoreFlushMode": "Use `hackamore.transcripts.stores.FlushMode`.",
    "SessionStoreListEntry": "Use `hackamore.transcripts.stores.StoreListEntry`.",
    "SessionSummaryEntry": "Use `hackamore.transcripts.stores.StoreSummary`.",
    "SessionKey": "Use `hackamore.transcripts.stores.StoreKey`; `hackamore.messages.SessionKey` is that of a `MirrorErrorMessage`.",
    "Transport": "Use `transport=` with an object of `hackamore.transports.base`.",
    "create_sdk_mcp_server": "Hackamore calls it `tool_server`; `mcp_servers={'name': [tools]}` is shorter.",
    "ForkSessionResult": "`hackamore.transcripts.fork` returns the id of the new session.",
    "delete_session": "Use `hackamore.transcripts.delete`.",
    "fork_session": "Use `hackamore.transcripts.fork`, or `Options(resume=..., fork_session=True)`.",
    "get_session_info": "Use `hackamore.transcripts.info`.",
    "get_session_messages": "Use `hackamore.transcripts.read(session_id).messages`.",
    "get_subagent_messages": "Use `hackamore.transcripts.read(session_id).subagents[agent_id].messages`.",
    "list_sessions": "Use `hackamore.transcripts.list`; `all_projects=True` lists all projects.",
    "list_subagents": "Use `hackamore.transcripts.read(session_id).subagents`.",
    "project_key_for_directory": "Use `hackamore.transcripts.project_key`.",
    "SDKSessionInfo": "Use `hackamore.transcripts.TranscriptInfo`.",
    "SessionMessage": "Use `UserMessage | AssistantMessage`.",
    "rename_session": "Use `hackamore.transcripts.rename`, or `Session.rename_session` for a session that runs.",
    "tag_session": "Use `hackamore.transcripts.tag`.",
}
_ENDINGS = {
    "HookSpecificOutput": "Use `HookOutput`; its fields have the same names in snake_case.",
    "_via_store": _STORE,
    "_from_store": _STORE,
    "_to_store": _STORE,
}
_STORED = frozenset(["SessionListSubkeysKey", "fold_session_summary"])
_PLAIN = frozenset(
    [
        "BaseHookInput",
        "ContextUsageCategory",
        "ContextUsageResponse",
        "FastModeDisabledReason",
        "FastModeState",
        "HookEventMessage",
        "McpServerConnectionStatus",
        "McpServerInfo",
        "McpServerStatus",
        "McpServerStatusConfig",
        "McpStatusResponse",
        "McpToolInfo",
        "MessageOriginKind",
        "RateLimitStatus",
        "RateLimitType",
        "SandboxIgnoreViolations",
        "SandboxNetworkConfig",
        "ServerToolName",
        "SystemInitMcpServer",
        "SystemInitPlugin",
        "SystemInitPluginError",
        "TERMINAL_TASK_STATUSES",
        "TaskNotificationOriginSubkind",
        "TaskNotificationStatus",
        "TaskUpdatedStatus",
        "ThinkingConfig",
    ]
)
_ROOMS = ("messages", "hooks", "permissions", "dialogs", "transports.base", "messages.results", "options.kinds")


def advice(name: str) -> str:
    """Return where Hackamore has the name, or its counterpart; "" if it is not a name of the official package."""
    if (here := _HERE.get(name)) is not None:
        return f"{here} See {PAGE}."
    from importlib import import_module

    for room in _ROOMS:
        module = import_module(f"hackamore.{room}")
        if name in getattr(module, "__all__", ()) or (name in _PLAIN and hasattr(module, name)):
            return f"Write `from hackamore.{room} import {name}`. See {PAGE}."
    for ending, text in _ENDINGS.items():
        if name.endswith(ending):
            return f"{text} See {PAGE}."
    if name in _STORED:
        return f"{_STORE} See {PAGE}."
    if name in _PLAIN:
        return (
            f"Hackamore has no class of this name: the value is a str, an object or a field of its message. See {PAGE}."
        )
    return ""
