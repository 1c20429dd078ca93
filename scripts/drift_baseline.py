"""Parts of the output of CLI 2.1.330 that the classes leave out on purpose: telemetry, undocumented, or of no use to a host.

It can be had from `message.data`. The list lets `check_cli` tell what a newer CLI has added from what was known.
"""

from __future__ import annotations

VERSION = "2.1.330"
_FIELDS = (
    "AssistantMessage.api_error_status AssistantMessage.api_error_type AssistantMessage.tool_use_meta "
    "AssistantMessageBody.diagnostics InitMessage.additional_directories InitMessage.analytics_disabled "
    "InitMessage.memory_paths InitMessage.messaging_socket_path InitMessage.original_cwd InitMessage.per_turn_effort_active "
    "InitMessage.product_feedback_disabled InitMessage.ultrathink_available InitMessage.ultrathink_typed_raises "
    "MessageOrigin.producer PluginEntry.source ResultMessage.first_request_cache_read_input_tokens "
    "ResultMessage.first_request_input_tokens ResultMessage.safety_stops "
    "ResultMessage.subagent_stats StreamEvent.abandoned_blocks StreamEvent.api_message_id StreamEvent.owed_rows "
    "StreamEvent.thinking_display TaskNotificationMessage.summary_is_report Usage.fallback_credit UserMessage.tool_result_meta"
)
_INITIALIZE = (
    "analytics_disabled feedback_mode hooks_when_unanswered_kept ide_rc_auto_enable_gate other_hook_ask_outranks_host "
    "remote_control_auto_connect_default remote_control_auto_enable remote_control_auto_on_by_default remote_control_available "
    "user_output_styles_dir"
)
# For people at a terminal, for remote use, other spellings, or better said by another option.
_FLAGS = (
    "--agents --allowed-tools --ax-screen-reader --background --bg --cloud --dangerously-skip-permissions --desktop --disallowed-tools "
    "--environment --exclude-dynamic-system-prompt-sections --file --from-pr --help --ide --remote-control "
    "--remote-control-session-name-prefix --system-prompt-snapshot --teleport --tmux --version"
)

FIELDS = frozenset(_FIELDS.split())
FLAGS = frozenset(_FLAGS.split())
INITIALIZE = frozenset(_INITIALIZE.split())
TYPES = frozenset(["system/session_title_changed"])
