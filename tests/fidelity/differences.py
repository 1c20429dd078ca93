"""Where the simulated CLI differs from the real one, and why: the only table of exceptions.

A rule is a frame's kind and a path in it; `*` stands for any text, and what is below a path belongs to it. docs/simulated-cli.md is made
from this table.
"""

from __future__ import annotations

_VOLATILE = "is different in every run"
_MEASURED = "is measured, and the simulated CLI measures nothing"
_ABOUT_ITSELF = (
    "is what this CLI has built in: its commands, skills, agents, styles and plugins change with every version"
)
_ACCOUNTING = "is accounting that nobody is billed for here"

NOT_COMPARED: dict[str, str] = {}
"""Kinds of frames that are left out."""

DIFFERENT_VALUES: dict[str, str] = {
    "system/task_progress.usage": _ACCOUNTING,
    "*.transcript_path": "names a file that is not written",
    "*.agent_transcript_path": "names a file that is not written",
    "*.output_file": "names a file that is not written",
    "*.ttft_ms": _MEASURED,
    "*.totalDurationMs": _MEASURED,
    "*.harnessSectionHash": "is a hash of texts that only the real CLI builds",
    "*.end_time": _MEASURED,
    "*.pre_tokens": _ACCOUNTING,
    "*.post_tokens": _ACCOUNTING,
    "system/api_retry.retry_delay_ms": "is what the script says; the real CLI adds chance",
    "*.timestamp": _VOLATILE,
    "*duration_ms": _MEASURED,
    "*duration_api_ms": _MEASURED,
    "system/init.slash_commands": _ABOUT_ITSELF,
    "system/init.skills": _ABOUT_ITSELF,
    "system/init.agents": _ABOUT_ITSELF,
    "system/init.plugins": _ABOUT_ITSELF,
    "system/init.capabilities": "names what the real CLI can do beyond what is simulated",
    "system/init.apiKeySource": "is `none`: there is no key",
}
"""What both have, with other values of the same form."""

ONLY_REAL: dict[str, str] = {
    "system/compact_boundary.logical_parent_uuid": "is not simulated",
    "system/compact_boundary.compact_metadata.*": _ACCOUNTING,
    "asks/can_use_tool.request.server_policy_ask_only": "is not simulated",
    "mcp/initialize.request.message.params.clientInfo.*": _ABOUT_ITSELF,
    "assistant.message.container": "is not simulated",
    "assistant.message.diagnostics": "is not simulated",
    "assistant.message.stop_details": "is not simulated",
    "assistant.message.usage.*": _ACCOUNTING,
    "answers/*.response.pending_permission_requests": "is not simulated",
    "answers/*.response.pending_user_dialog_requests": "is not simulated",
    "system/init.additional_directories": "is not simulated",
    "system/init.analytics_disabled": "is not simulated",
    "system/init.fast_mode_disabled_reason": "is not simulated",
    "system/init.memory_paths": "is not simulated",
    "system/init.messaging_socket_path": "is not simulated",
    "system/init.original_cwd": "is not simulated",
    "system/init.per_turn_effort_active": "is not simulated",
    "system/init.product_feedback_disabled": "is not simulated",
    "system/init.terminal_slash_commands": _ABOUT_ITSELF,
    "system/init.ultrathink_*": "is not simulated",
    "system/init.view_mode": "is not simulated",
    "result/*.usage.*": _ACCOUNTING,
    "result/*.modelUsage.*": _ACCOUNTING,
    "result/*.model_usage_since_last_result.*": _ACCOUNTING,
    "result/*.ttft_ms": _MEASURED,
    "result/*.ttft_stream_ms": _MEASURED,
    "result/*.time_to_request_ms": _MEASURED,
    "result/*.first_content_frame_ms": _MEASURED,
    "result/*.request_sent_wall_ms": _MEASURED,
    "result/*.first_request_*": _ACCOUNTING,
    "result/*.safety_stops": "is not simulated",
    "result/*.fast_mode_disabled_reason": "is not simulated",
    "assistant.thinking_duration_ms": _MEASURED,
    "assistant.thinking_display": "is not simulated",
    "stream_event/*.thinking_display": "is not simulated",
    "stream_event/*.owed_rows": "is not simulated",
}
"""What only the real CLI has."""

SHAPE_ONLY: dict[str, str] = {
    "answers/initialize.response.response": _ABOUT_ITSELF,
    "answers/get_context_usage.response.response": "is about the real prompt and tools, which are not there",
    "answers/get_usage.response.response": _ACCOUNTING,
    "answers/get_settings.response.response": "knows only what the host has set",
    "answers/get_session_cost.response.response": "is a text for people, and a shorter one",
    "answers/list_models.response.response": _ABOUT_ITSELF,
    "answers/get_hooks_listing.response.response": _ABOUT_ITSELF,
    "answers/get_binary_version.response.response": _ABOUT_ITSELF,
    "answers/reload_plugins.response.response": _ABOUT_ITSELF,
    "answers/reload_skills.response.response": _ABOUT_ITSELF,
    "answers/reload_output_styles.response.response": _ABOUT_ITSELF,
    "answers/mcp_status.response.response": "says less about servers and their tools",
    "answers/list_permission_rules.response.response": "says less about where a rule comes from",
}
"""Answers of which only the form is compared: the simulated one may have less, and nothing else."""
