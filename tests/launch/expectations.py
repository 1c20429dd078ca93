"""The expectations of tests about options, one row per option, written down and not read from the table under test."""

from __future__ import annotations

from typing import Any, NamedTuple

from bridle import Limits, TaskBudget, ThinkingConfigDisabled, Timeouts

__all__ = ["EXPECTED", "Expected"]


class Expected(NamedTuple):
    """The facts about one option.

    Attributes:
        kind: where its value goes.
        default: its default.
        text: the text of its variable; None if the option is a function, which a variable cannot set.
        value: the value that this text sets.
        refused: True if no value of it is taken from an untrusted file.
        secret: True if its value is not shown.
    """

    kind: str
    default: Any
    text: str | None = None
    value: Any = None
    refused: bool = False
    secret: bool = False


EXPECTED: dict[str, Expected] = {
    "system_prompt": Expected("argv", None, "be brief", "be brief"),
    "append_system_prompt": Expected("argv", None, "true", "true"),
    "plan_mode_instructions": Expected("initialize", None, "5", "5"),
    "verbatim_prompts": Expected("host", False, "true", True),
    "title": Expected("initialize", None, "5", "5"),
    "tools": Expected("argv", None, '["Bash"]', ("Bash",)),
    "allowed_tools": Expected("argv", (), '["Read"]', ("Read",), refused=True),
    "disallowed_tools": Expected("argv", (), '["Write"]', ("Write",)),
    "tool_aliases": Expected("initialize", None, '{"Shell": "Bash"}', {"Shell": "Bash"}, refused=True),
    "tool_config": Expected("environment", None, '{"askUserQuestion": {}}', {"askUserQuestion": {}}),
    "permission_mode": Expected("argv", None, "plan", "plan"),
    "allow_dangerously_skip_permissions": Expected("argv", False, "true", True, refused=True),
    "permission_prompt_tool_name": Expected("argv", None, "5", "5", refused=True),
    "permission_prompts": Expected("argv", None, "none", "none"),
    "can_use_tool": Expected("host", None),
    "hooks": Expected("host", None),
    "on_elicitation": Expected("host", None),
    "on_user_dialog": Expected("host", None),
    "supported_dialog_kinds": Expected("initialize", None, "[]", ()),
    "sandbox": Expected("argv", None, '{"enabled": true}', {"enabled": True}, refused=True, secret=True),
    "mcp_servers": Expected("argv", {}, "servers.json", "servers.json", refused=True, secret=True),
    "strict_mcp_config": Expected("argv", False, "true", True),
    "mcp_servers_delivery": Expected("host", "argv", "initialize", "initialize"),
    "agent": Expected("argv", None, "5", "5"),
    "agents": Expected(
        "initialize",
        None,
        '{"r": {"description": "d", "prompt": "p"}}',
        {"r": {"description": "d", "prompt": "p"}},
        secret=True,
    ),
    "skills": Expected("initialize", None, "all", "all"),
    "plugins": Expected("argv", (), "[]", (), refused=True),
    "plugin_delivery": Expected("host", "argv", "initialize", "initialize"),
    "model": Expected("argv", None, "5", "5"),
    "fallback_model": Expected("argv", None, "true", "true"),
    "betas": Expected("argv", (), '["b"]', ("b",)),
    "thinking": Expected("argv", None, '{"type": "disabled"}', ThinkingConfigDisabled()),
    "max_thinking_tokens": Expected("argv", None, "5", 5),
    "effort": Expected("argv", None, "low", "low"),
    "output_format": Expected(
        "argv", None, '{"type": "json_schema", "schema": {}}', {"type": "json_schema", "schema": {}}
    ),
    "max_turns": Expected("argv", None, "5", 5),
    "max_budget_usd": Expected("argv", None, "0.5", 0.5),
    "task_budget": Expected("argv", None, '{"total": 5}', TaskBudget(total=5)),
    "continue_conversation": Expected("argv", False, "true", True),
    "resume": Expected("argv", None, "true", "true"),
    "session_id": Expected(
        "argv", None, "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-555555555555"
    ),
    "fork_session": Expected("argv", False, "true", True),
    "resume_session_at": Expected("argv", None, "5", "5"),
    "resume_drops_turn": Expected("argv", None, "5", "5"),
    "persist_session": Expected("argv", True, "false", False),
    "enable_file_checkpointing": Expected("environment", False, "true", True),
    "include_partial_messages": Expected("argv", False, "true", True),
    "include_hook_events": Expected("argv", False, "true", True),
    "forward_subagent_text": Expected("argv", False, "true", True),
    "prompt_suggestions": Expected("argv", False, "true", True),
    "agent_progress_summaries": Expected("initialize", False, "true", True),
    "per_task_stop_affordance": Expected("initialize", False, "true", True),
    "cwd": Expected("host", None, "/", "/", refused=True),
    "add_dirs": Expected("argv", (), '["/a"]', ("/a",), refused=True),
    "project_config_root": Expected("argv", None, "/r", "/r", refused=True),
    "settings": Expected("argv", None, "file.json", "file.json", refused=True, secret=True),
    "managed_settings": Expected("argv", None, '{"a": 1}', {"a": 1}, refused=True, secret=True),
    "setting_sources": Expected("argv", None, '["user"]', ("user",)),
    "cli_path": Expected("host", None, "/bin/claude", "/bin/claude", refused=True),
    "executable": Expected("host", None, "bun", "bun", refused=True),
    "executable_args": Expected("host", (), '["--smol"]', ("--smol",), refused=True, secret=True),
    "env": Expected("environment", {}, '{"A": "b"}', {"A": "b"}, refused=True, secret=True),
    "inherit_env": Expected("environment", True, "false", False, refused=True),
    "extra_args": Expected("argv", {}, '{"chrome": "x"}', {"chrome": "x"}, refused=True, secret=True),
    "user": Expected("host", None, "5", "5", refused=True),
    "client_app": Expected("environment", None, "5", "5"),
    "debug": Expected("argv", False, "api", "api"),
    "debug_file": Expected("argv", None, "true", "true", refused=True),
    "prompt_channel": Expected("host", "stdin", "argv", "argv"),
    "strict_exit_status": Expected("host", False, "true", True),
    "version_check": Expected("host", "strict", "skip", "skip"),
    "on_oversize": Expected("host", None, "skip", "skip"),
    "on_warning": Expected("host", None),
    "stderr": Expected("host", None),
    "trace": Expected("host", None, "t.jsonl", "t.jsonl", refused=True),
    "timeouts": Expected("host", Timeouts(), '{"turn": 5}', Timeouts(turn=5)),
    "limits": Expected("host", Limits(), '{"line_bytes": 5}', Limits(line_bytes=5)),
}
