"""The table against the pinned CLI itself: no flag that it does not know, no value that it does not take."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from hackamore._engine.launch import CLIVersion, VersionCache, build_plan, check
from hackamore._engine.launch.encode import ROWS
from hackamore.options.options import Options
from hackamore.policy import Policy
from hackamore.transcripts.stores import MemoryStore
from tests.options.expectations import Answering
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

UUID = "11111111-2222-4333-8444-555555555555"

# Flags of this CLI that are in no row on purpose: interactive, remote, or set by Hackamore itself. A new flag of a newer CLI
# is only listed by the test; it breaks nothing.
NOT_OURS = {
    "--agents": "agents go through initialize, which has no length limit",
    "--dangerously-skip-permissions": "--permission-mode=bypassPermissions does the same",
    "--help": "",
    "--input-format": "set for sessions",
    "--output-format": "always set",
    "--print": "always set for one-shots",
    "--verbose": "always set",
    "--version": "asked separately",
}

UNKNOWN = "22222222-2222-4333-8444-555555555555"


def nothing(asked: object, context: object) -> None:
    """Decide nothing."""


# For every row that makes flags: a value that the CLI takes.
VALUES: dict[str, dict[str, Any]] = {
    "system_prompt": {"system_prompt": "x"},
    "append_system_prompt": {"append_system_prompt": "x"},
    "tools": {"tools": []},
    "allowed_tools": {"allowed_tools": ["Read"]},
    "disallowed_tools": {"disallowed_tools": ["Bash(rm *)"]},
    "max_turns": {"max_turns": 0},
    "max_budget_usd": {"max_budget_usd": 0.5},
    "task_budget": {"task_budget": {"total": 30_000}},
    "model": {"model": "sonnet"},
    "fallback_model": {"fallback_model": "haiku"},
    "betas": {"betas": ["context-1m-2025-08-07"]},
    "permission_prompt_tool_name": {"permission_prompt_tool_name": "mcp__a__b"},
    "can_use_tool": {"can_use_tool": print},
    "hooks": {"hooks": {"PreToolUse": nothing}, "resume": UNKNOWN},
    "approvals": {"approvals": Answering()},
    "policy": {"policy": Policy([]), "resume": UNKNOWN},
    "permission_prompts": {"permission_prompts": "none"},
    "permission_mode": {"permission_mode": "bypassPermissions"},
    "allow_dangerously_skip_permissions": {"allow_dangerously_skip_permissions": True},
    "continue_conversation": {"continue_conversation": True},
    "resume": {"resume": UUID},
    "session_id": {"session_id": UUID},
    "settings": {"settings": {}},
    "managed_settings": {"managed_settings": {}},
    "add_dirs": {"add_dirs": ["."]},
    "project_config_root": {"project_config_root": "/"},
    "mcp_servers": {"mcp_servers": {"a": {"command": "true"}}},
    "mcp_servers_delivery": {"mcp_servers": {"a": {"command": "true"}}, "mcp_servers_delivery": "initialize"},
    "include_partial_messages": {"include_partial_messages": True},
    "include_hook_events": {"include_hook_events": True},
    "forward_subagent_text": {"forward_subagent_text": True},
    "prompt_suggestions": {"prompt_suggestions": True},
    "strict_mcp_config": {"strict_mcp_config": True},
    "fork_session": {"resume": UUID, "fork_session": True},
    "resume_session_at": {"resume": UUID, "resume_session_at": UUID},
    "resume_drops_turn": {"resume": UUID, "resume_session_at": UUID, "resume_drops_turn": UUID},
    "persist_session": {"persist_session": False},
    "setting_sources": {"setting_sources": []},
    "agent": {"agent": "general-purpose"},
    "plugins": {"plugins": [{"type": "local", "path": "."}, {"type": "local", "path": ".", "skipMcpDiscovery": True}]},
    "append_system_prompt_file": {"append_system_prompt_file": "/dev/null"},
    "restricted": {"restricted": True},
    "brief": {"brief": True},
    "chrome": {"chrome": True},
    "plugin_urls": {"plugin_urls": ["http://127.0.0.1:9/p.zip"]},
    "disable_slash_commands": {"disable_slash_commands": True},
    "session_name": {"session_name": "-n"},
    "worktree": {"worktree": True},
    "autocompact": {"autocompact": 200_000},
    "replay_user_messages": {"replay_user_messages": True},
    "bare": {"bare": True},
    "safe_mode": {"safe_mode": True},
    "extra_args": {"extra_args": {"ax-screen-reader": None, "remote-control-session-name-prefix": "-n"}},
    "thinking": {"thinking": {"type": "adaptive", "display": "omitted"}},
    "max_thinking_tokens": {"max_thinking_tokens": 0},
    "effort": {"effort": "low"},
    "output_format": {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
    "debug": {"debug": "api"},
    "debug_file": {"debug_file": "/dev/null"},
    "session_store": {"session_store": MemoryStore()},
}

MORE: list[dict[str, Any]] = [
    {"chrome": False},
    {"worktree": "fix"},
    {"system_prompt": {"type": "preset", "append": "-x", "exclude_dynamic_sections": True, "snapshot": True}},
    {"system_prompt": {"type": "custom", "prompt": "-x", "snapshot": False}},
    {"thinking": {"type": "enabled"}},
    {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    {"thinking": {"type": "disabled"}},
    {"sandbox": {"enabled": False}, "settings": {"model": "sonnet"}},
    {"tools": {"type": "preset", "preset": "claude_code"}},
    *({"permission_mode": mode} for mode in ("default", "manual", "acceptEdits", "plan", "dontAsk", "auto")),
    *({"effort": effort} for effort in ("medium", "high", "xhigh", "max")),
]


def isolated(folder: Path) -> dict[str, str]:
    # Every request would go to a closed port of this machine; none is made, because the input is empty.
    return {
        "PATH": os.defpath,
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }


def started(claude_path: str, folder: Path, given: dict[str, Any]) -> str:
    """Start the CLI with these options and no input; return its complaint."""
    options = Options(inherit_env=False, env={**isolated(folder), **given.pop("env", {})}, cwd=folder, **given)
    session = bool(options.questions["can_use_tool"]) or options.mcp_servers_delivery == "initialize"
    plan = build_plan(options, prompt="-", cli_path=claude_path, session=session, base_environment={}, child_id="test")
    done = subprocess.run(
        plan.argv, env=plan.environment, cwd=plan.cwd, input=b"", capture_output=True, timeout=patience(50)
    )
    return done.stderr.decode("utf-8", "replace")


def test_every_row_with_flags_is_tried() -> None:
    assert {row.name for row in ROWS if row.argv is not None} == set(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_the_real_cli_knows_the_flags_of(name: str, claude_path: str, tmp_path: Path) -> None:
    complaint = started(claude_path, tmp_path, dict(VALUES[name]))
    assert "unknown option" not in complaint
    assert "is invalid" not in complaint
    assert "Unknown --effort" not in complaint


@pytest.mark.parametrize("given", MORE, ids=[str(index) for index in range(len(MORE))])
def test_the_real_cli_takes_other_values(given: dict[str, Any], claude_path: str, tmp_path: Path) -> None:
    complaint = started(claude_path, tmp_path, dict(given))
    assert "unknown option" not in complaint
    assert "is invalid" not in complaint


def test_the_real_cli_would_complain(claude_path: str, tmp_path: Path) -> None:
    assert "unknown option '--nonsense'" in started(claude_path, tmp_path, {"extra_args": {"nonsense": None}})


def help_flags(claude_path: str, folder: Path) -> set[str]:
    done = subprocess.run(
        [claude_path, "--help"],
        env=isolated(folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=patience(50),
    )
    options = done.stdout.decode().partition("\nOptions:\n")[2].partition("\nCommands:\n")[0]
    # A flag starts its line, perhaps after a short one or another spelling.
    lines = re.findall(r"^  (-.*)$", options, re.MULTILINE)
    return {flag for line in lines for flag in re.findall(r"(?:^|, )(--[a-zA-Z][a-zA-Z-]*)", line)}


def our_flags() -> set[str]:
    flags = set()
    for given in (*VALUES.values(), *MORE, {"system_prompt": {"type": "file", "path": "x"}}):
        plan = build_plan(
            Options(**given), prompt=None, cli_path="claude", session=True, base_environment={}, child_id="test"
        )
        owned = zip(plan.owners, plan.argv, strict=True)
        flags |= {part.partition("=")[0] for owner, part in owned if owner not in ("", "cli_path", "extra_args")}
    return flags


# Known to the CLI and left out of its help: proven by the tests above.
HIDDEN = {
    "--append-system-prompt-file",
    "--await-initialize",
    "--managed-settings",
    "--max-thinking-tokens",
    "--max-turns",
    "--permission-prompt-tool",
    "--plugin-dir-no-mcp",
    "--project-config-root",
    "--resume-drops-turn",
    "--resume-session-at",
    "--session-mirror",
    "--system-prompt-file",
    "--task-budget",
    "--thinking",
    "--thinking-display",
}


def test_our_flags_are_in_the_real_clis_help_or_known_to_be_hidden(
    claude_path: str, tmp_path: Path, record_property: Any
) -> None:
    listed = help_flags(claude_path, tmp_path)
    assert len(listed) > 30
    assert our_flags() - listed == HIDDEN
    assert set(NOT_OURS) <= listed
    record_property("flags of the CLI without a row", sorted(listed - our_flags() - set(NOT_OURS)))


def test_the_real_cli_says_its_version(claude_path: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [claude_path, "--version"],
        env=isolated(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=patience(50),
    )
    output = done.stdout.decode()
    assert check(output, "strict", (2, 0, 0)) == []
    cache = VersionCache(str(tmp_path / "cache" / "versions.json"))
    cache.put(claude_path, output)
    assert CLIVersion.parse(cache.get(claude_path) or "") == CLIVersion.parse(output)
