"""Where the simulated CLI differs from the real one, and why: the only table of exceptions.

A rule is a frame's kind and a path in it; `*` stands for any text, and what is below a path belongs to it.
docs/guides/testing/simulated-cli.md is generated from this table.
"""

from __future__ import annotations

_VOLATILE = "different in every run"
_MEASURED = "measured times"
_ABOUT_ITSELF = "built-in commands, skills, agents, styles and plugins, which change with each version"
_ACCOUNTING = "accounting, because the simulated CLI has no costs"

NOT_COMPARED: dict[str, str] = {}
"""Kinds of frames that are left out."""

DIFFERENT_VALUES: dict[str, str] = {
    "system/task_progress.usage": _ACCOUNTING,
    "*.transcript_path": "paths of files that the simulated CLI does not write",
    "*.agent_transcript_path": "paths of files that the simulated CLI does not write",
    "*.output_file": "paths of files that the simulated CLI does not write",
    "*.ttft_ms": _MEASURED,
    "*.totalDurationMs": _MEASURED,
    "*.harnessSectionHash": "a hash of texts of the real CLI",
    "*.end_time": _MEASURED,
    "*.pre_tokens": _ACCOUNTING,
    "*.post_tokens": _ACCOUNTING,
    "system/api_retry.retry_delay_ms": "from the script; the real CLI adds random delays",
    "*.timestamp": _VOLATILE,
    "*duration_ms": _MEASURED,
    "*duration_api_ms": _MEASURED,
    "system/init.slash_commands": _ABOUT_ITSELF,
    "system/init.skills": _ABOUT_ITSELF,
    "system/init.agents": _ABOUT_ITSELF,
    "system/init.plugins": _ABOUT_ITSELF,
    "system/init.capabilities": "capabilities that are not simulated",
    "system/init.apiKeySource": "`none`, because there is no key",
}
"""What both have, with other values of the same form."""

ONLY_REAL: dict[str, str] = {
    "system/compact_boundary.logical_parent_uuid": "not simulated",
    "system/compact_boundary.compact_metadata.*": _ACCOUNTING,
    "asks/can_use_tool.request.server_policy_ask_only": "not simulated",
    "mcp/initialize.request.message.params.clientInfo.*": _ABOUT_ITSELF,
    "assistant.message.container": "not simulated",
    "assistant.message.diagnostics": "not simulated",
    "assistant.message.stop_details": "not simulated",
    "assistant.message.usage.*": _ACCOUNTING,
    "answers/*.response.pending_permission_requests": "not simulated",
    "answers/*.response.pending_user_dialog_requests": "not simulated",
    "system/init.additional_directories": "not simulated",
    "system/init.analytics_disabled": "not simulated",
    "system/init.fast_mode_disabled_reason": "not simulated",
    "system/init.memory_paths": "not simulated",
    "system/init.messaging_socket_path": "not simulated",
    "system/init.original_cwd": "not simulated",
    "system/init.per_turn_effort_active": "not simulated",
    "system/init.product_feedback_disabled": "not simulated",
    "system/init.terminal_slash_commands": _ABOUT_ITSELF,
    "system/init.ultrathink_*": "not simulated",
    "system/init.view_mode": "not simulated",
    "result/*.usage.*": _ACCOUNTING,
    "result/*.modelUsage.*": _ACCOUNTING,
    "result/*.model_usage_since_last_result.*": _ACCOUNTING,
    "result/*.ttft_ms": _MEASURED,
    "result/*.ttft_stream_ms": _MEASURED,
    "result/*.time_to_request_ms": _MEASURED,
    "result/*.first_content_frame_ms": _MEASURED,
    "result/*.request_sent_wall_ms": _MEASURED,
    "result/*.first_request_*": _ACCOUNTING,
    "result/*.begun_message_ids": "not simulated",
    "system/init.served_by_anthropic": "not simulated",
    "result/*.safety_stops": "not simulated",
    "result/*.fast_mode_disabled_reason": "not simulated",
    "assistant.thinking_duration_ms": _MEASURED,
    "assistant.thinking_display": "not simulated",
    "stream_event/*.thinking_display": "not simulated",
    "stream_event/*.owed_rows": "not simulated",
}
"""What only the real CLI has."""

SHAPE_ONLY: dict[str, str] = {
    "answers/initialize.response.response": _ABOUT_ITSELF,
    "answers/get_context_usage.response.response": "the real prompt and tools",
    "answers/get_usage.response.response": _ACCOUNTING,
    "answers/get_settings.response.response": "only settings of the host",
    "answers/get_session_cost.response.response": "a shorter text for people",
    "answers/list_models.response.response": _ABOUT_ITSELF,
    "answers/get_hooks_listing.response.response": _ABOUT_ITSELF,
    "answers/get_binary_version.response.response": _ABOUT_ITSELF,
    "answers/reload_plugins.response.response": _ABOUT_ITSELF,
    "answers/reload_skills.response.response": _ABOUT_ITSELF,
    "answers/reload_output_styles.response.response": _ABOUT_ITSELF,
    "answers/mcp_status.response.response": "fewer details of servers and tools",
    "answers/list_permission_rules.response.response": "fewer details of the origin of rules",
}
"""Answers of which only the form is compared: the simulated one may have less, and nothing else."""
