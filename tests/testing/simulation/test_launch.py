"""The command line of the simulated CLI: what each flag means for it, and which command lines it refuses as the real one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hackamore.testing.simulation.launch import Launch, parse_launch

STREAMS = ("--print", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
SESSION = "00000000-0000-4000-8000-00000000000A"


def differs(launch: Launch) -> dict[str, Any]:
    """What a launch has instead of the defaults, without the list of all flags."""
    usual, found = msgspec.structs.asdict(Launch()), msgspec.structs.asdict(launch)
    return {name: value for name, value in found.items() if value != usual[name] and name != "other"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (STREAMS, {"verbose": True}),
        (("-p", "hello", "you"), {"one_shot": True, "output_format": "text", "prompt": "hello you"}),
        (("-p", "--", "--model", "x"), {"one_shot": True, "output_format": "text", "prompt": "--model x"}),
        (("-p", "-"), {"one_shot": True, "output_format": "text", "prompt": "-"}),
        (("-p", "--output-format=json"), {"one_shot": True, "output_format": "json"}),
        ((*STREAMS, "--model", "a", "--model=b"), {"verbose": True, "model": "b"}),
        ((*STREAMS, "--permission-mode", "plan"), {"verbose": True, "permission_mode": "plan"}),
        ((*STREAMS, "--permission-mode", "manual"), {"verbose": True}),
        (
            (*STREAMS, "--permission-mode", "plan", "--dangerously-skip-permissions"),
            {"verbose": True, "permission_mode": "bypassPermissions"},
        ),
        (
            (*STREAMS, "--allowedTools", "Bash(git *, ls) Read", "Edit", "--disallowed-tools", "Write,,mcp__a"),
            {"verbose": True, "allowed": ["Bash(git *, ls)", "Read", "Edit"], "disallowed": ["Write", "mcp__a"]},
        ),
        ((*STREAMS, "--allowed-tools", "a)b c"), {"verbose": True, "allowed": ["a)b", "c"]}),
        ((*STREAMS, "--tools", "Bash,Read"), {"verbose": True, "tools": ["Bash", "Read"]}),
        ((*STREAMS, "--tools", ""), {"verbose": True, "tools": []}),
        ((*STREAMS, "--tools", "default"), {"verbose": True}),
        ((*STREAMS, "--max-turns", "3", "--max-budget-usd", "0.5"), {"verbose": True, "max_turns": 3, "budget": 0.5}),
        ((*STREAMS, "-c"), {"verbose": True, "continues": True}),
        ((*STREAMS, "-r", SESSION), {"verbose": True, "resume": SESSION}),
        ((*STREAMS, "--resume", "--fork-session"), {"verbose": True, "fork": True}),
        (
            (*STREAMS, "--session-id", SESSION, "--continue", "--fork-session"),
            {"verbose": True, "session_id": SESSION, "continues": True, "fork": True},
        ),
        ((*STREAMS, "--include-partial-messages"), {"verbose": True, "partial": True}),
        ((*STREAMS, "--replay-user-messages"), {"verbose": True, "replay": True}),
        ((*STREAMS, "--include-hook-events"), {"verbose": True, "hook_events": True}),
        ((*STREAMS, "--forward-subagent-text"), {"verbose": True, "forwards_text": True}),
        ((*STREAMS, "--permission-prompt-tool", "stdio"), {"verbose": True, "asks_host": True}),
        ((*STREAMS, "--permission-prompt-tool", "mcp__a__b"), {"verbose": True}),
        ((*STREAMS, "--json-schema", '{"type": "object"}'), {"verbose": True, "json_schema": {"type": "object"}}),
        ((*STREAMS, "--json-schema", "[]"), {"verbose": True}),
        (
            (*STREAMS, "--mcp-config", '{"mcpServers": {"a": {"type": "sdk"}, "b": {"type": "http"}, "c": 1}}', '{"mcpServers": 1}', "[]"),
            {"verbose": True, "sdk_servers": ["a"]},
        ),
        (
            (*STREAMS, "--effort", "huge"),
            {
                "verbose": True,
                "warnings": [
                    "Warning: Unknown --effort value 'huge' — ignoring it and using the default effort. Valid values: low, medium, high, "
                    "xhigh, max."
                ],
            },
        ),
        ((*STREAMS, "--effort", "max"), {"verbose": True}),
        ((*STREAMS, "--debug", "api", "--add-dir", "/a", "/b", "--betas", "x"), {"verbose": True}),
    ],
)  # fmt: skip
def test_a_command_line(arguments: tuple[str, ...], expected: dict[str, Any]) -> None:
    assert differs(parse_launch(arguments, {})) == expected


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--nonsense",), "error: unknown option '--nonsense'"),
        (("--nonsense=1", "-x"), "error: unknown option '--nonsense'"),
        (("-x",), "error: unknown option '-x'"),
        (("--model",), "error: option '--model <value>' argument missing"),
        (("--model", "a", "--agent"), "error: option '--agent <value>' argument missing"),
        (
            ("--output-format", "xml"),
            "error: option '--output-format <format>' argument 'xml' is invalid. Allowed choices are text, json, stream-json.",
        ),
        (
            ("--input-format=json",),
            "error: option '--input-format <format>' argument 'json' is invalid. Allowed choices are text, stream-json.",
        ),
        (
            ("--permission-mode", "x"),
            "error: option '--permission-mode <mode>' argument 'x' is invalid. Allowed choices are \"acceptEdits\", \"auto\", "
            '"bypassPermissions", "default", "dontAsk", "plan", "manual".',
        ),
        (("--max-turns", "x"), "error: option '--max-turns <turns>' argument 'x' is invalid. must be a number"),
        (("--max-turns", "0"), "error: option '--max-turns <turns>' argument '0' is invalid. must be a number"),
        (
            ("--max-budget-usd", "-1"),
            "error: option '--max-budget-usd <amount>' argument '-1' is invalid. --max-budget-usd must be a number greater than 0",
        ),
        (
            ("--session-id", SESSION, "--resume", SESSION),
            "Error: --session-id with --continue or --resume also needs --fork-session.",
        ),
        (("--session-id", "x"), "Error: Invalid session ID. Must be a valid UUID."),
        (("--session-id", SESSION.replace("-", "")), "Error: Invalid session ID. Must be a valid UUID."),
        (
            ("--input-format", "stream-json"),
            "Error: --input-format=stream-json requires output-format=stream-json.",
        ),
        (
            ("--replay-user-messages", "--output-format", "stream-json", "--verbose"),
            "Error: --replay-user-messages requires both --input-format=stream-json and --output-format=stream-json.",
        ),
        (
            ("--include-partial-messages",),
            "Error: --include-partial-messages requires --print and --output-format=stream-json.",
        ),
        (
            ("--output-format", "stream-json"),
            "Error: When using --print, --output-format=stream-json requires --verbose",
        ),
        (("--json-schema", "{"), "Error: --json-schema is not valid JSON"),
        (
            ("--mcp-config", "never.json"),
            "Error: Invalid MCP configuration:\nMCP config file not found: FOLDER/never.json",
        ),
        (
            ("--mcp-config", "wrong.json"),
            "Error: Invalid MCP configuration:\nMCP config is not a valid JSON: FOLDER/wrong.json",
        ),
        (("mcp", "list"), "error: the simulated CLI has no command 'mcp': it plays conversations only"),
        (("mcp", "--nonsense"), "error: unknown option '--nonsense'"),
    ],
)
def test_a_command_line_is_refused(arguments: tuple[str, ...], refusal: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("{", encoding="utf-8")
    found = parse_launch(arguments, {}, str(tmp_path)).refusal
    assert found == refusal.replace("FOLDER", str(tmp_path))


def test_servers_of_a_file_and_of_two_values(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"type": "sdk"}, "b": {"type": "sdk"}}}', encoding="utf-8")
    arguments = ("--mcp-config", "mcp.json", '{"mcpServers": {"b": {"type": "sdk"}, "c": {"type": "sdk"}}}')
    launch = parse_launch(arguments, {}, str(tmp_path))
    assert (launch.sdk_servers, launch.cwd, launch.refusal) == (["a", "b", "c"], str(tmp_path), None)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {}),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/v1"}, {"gateway": "127.0.0.1:9"}),
        ({"ANTHROPIC_BASE_URL": "http://[::1"}, {}),
        ({"CLAUDE_CODE_SDK_READS_SESSION_STATE": " On "}, {"reports_state": True}),
        ({"CLAUDE_CODE_SDK_READS_SESSION_STATE": "no"}, {}),
        ({"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}, {"checkpoints": True}),
    ],
)
def test_variables(environment: dict[str, str], expected: dict[str, Any]) -> None:
    assert differs(parse_launch(STREAMS, environment)) == {"verbose": True, **expected}
