"""What the CLI's own type definitions say about each event: the oracle for our classes."""

from __future__ import annotations

COMMON = "session_id transcript_path cwd prompt_id permission_mode agent_id agent_type effort hook_event_name"
FIELDS = {
    "PreToolUse": "tool_name tool_input tool_use_id mcp_server",
    "PostToolUse": "tool_name tool_input tool_response tool_use_id duration_ms mcp_server",
    "PostToolUseFailure": "tool_name tool_input tool_use_id error is_interrupt duration_ms mcp_server",
    "PostToolBatch": "tool_calls",
    "Notification": "message title notification_type",
    "UserPromptSubmit": "prompt source session_title",
    "UserPromptExpansion": "expansion_type command_name command_args command_source prompt",
    "SessionStart": (
        "source agent_type model session_title "
        "seconds_since_last_response context_tokens prompt_cache_likely_expired estimated_cache_write_usd"
    ),
    "SessionEnd": "reason",
    "Stop": "stop_hook_active last_assistant_message background_tasks session_crons",
    "StopFailure": "error error_details last_assistant_message",
    "SubagentStart": "agent_id agent_type",
    "SubagentStop": (
        "stop_hook_active agent_id agent_transcript_path "
        "agent_type last_assistant_message background_tasks session_crons"
    ),
    "PreCompact": "trigger custom_instructions",
    "PostCompact": "trigger compact_summary",
    "PreModelSwitch": (
        "from_model to_model requested_model source "
        "context_tokens prompt_cache_warm cache_ttl estimated_cache_write_usd pricing"
    ),
    "PostModelSwitch": (
        "from_model to_model requested_model source "
        "context_tokens prompt_cache_warm cache_ttl estimated_cache_write_usd pricing"
    ),
    "PermissionRequest": "tool_name tool_input permission_suggestions mcp_server",
    "PermissionDenied": "tool_name tool_input tool_use_id reason mcp_server",
    "Setup": "trigger",
    "TeammateIdle": "teammate_name team_name",
    "TaskCreated": "task_id task_subject task_description teammate_name team_name",
    "TaskCompleted": "task_id task_subject task_description teammate_name team_name",
    "Elicitation": "mcp_server_name message mode url elicitation_id requested_schema",
    "ElicitationResult": "mcp_server_name elicitation_id mode action content",
    "ConfigChange": "source file_path",
    "WorktreeCreate": "name",
    "WorktreeRemove": "worktree_path",
    "InstructionsLoaded": "file_path memory_type load_reason globs trigger_file_path parent_file_path",
    "CwdChanged": "old_cwd new_cwd",
    "FileChanged": "file_path event",
    "DirectoryAdded": "directory source",
    "MessageDisplay": "turn_id message_id index final delta",
}

SPECIFIC = {
    "PreToolUse": "permissionDecision permissionDecisionReason updatedInput additionalContext",
    "PostToolUse": "additionalContext classifierContext updatedToolOutput updatedMCPToolOutput",
    "PostToolUseFailure": "additionalContext",
    "PostToolBatch": "additionalContext",
    "Notification": "additionalContext",
    "UserPromptSubmit": "additionalContext sessionTitle suppressOriginalPrompt",
    "UserPromptExpansion": "additionalContext suppressOriginalPrompt",
    "SessionStart": "additionalContext initialUserMessage sessionTitle watchPaths reloadSkills",
    "Stop": "additionalContext",
    "SubagentStart": "additionalContext",
    "SubagentStop": "additionalContext",
    "PreModelSwitch": "permissionDecision permissionDecisionReason",
    "PostModelSwitch": "additionalContext",
    "PermissionRequest": "decision",
    "PermissionDenied": "retry",
    "Setup": "additionalContext",
    "Elicitation": "action content",
    "ElicitationResult": "action content",
    "WorktreeCreate": "worktreePath",
    "CwdChanged": "watchPaths",
    "FileChanged": "watchPaths",
    "MessageDisplay": "displayContent",
}
