"""Expectations for each option, written down and not read from the table under test: its facts, and what it becomes."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hackamore import (
    AgentDefinition,
    Limits,
    McpHttpServerConfig,
    McpStdioServerConfig,
    SandboxSettings,
    SdkPluginConfig,
    SystemPromptCustom,
    SystemPromptFile,
    SystemPromptPreset,
    TaskBudget,
    ThinkingConfigAdaptive,
    ThinkingConfigDisabled,
    ThinkingConfigEnabled,
    Timeouts,
)
from hackamore.hooks import HookMatcher
from hackamore.options.kinds import SandboxNetworkConfig
from hackamore.options.observing import Observation
from hackamore.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Observer:
    def observe(self, subject: Any) -> Observation:
        return Observation()


class Answering:
    """A broker that answers nothing."""

    async def permit(self, request: object, *, cwd: str | None) -> None:
        raise NotImplementedError

    async def elicit(self, request: object, *, cwd: str | None) -> None:
        raise NotImplementedError


class _Compiled:
    """A policy with rules for the CLI, of which only those that deny are sent."""

    settings: ClassVar[Any] = {"permissions": {"allow": ["Read"], "ask": ["*"], "deny": ["Edit(//etc)"]}}

    def decide(self, *call: object, **around: object) -> Any:
        """Decide nothing."""

    def compile(self) -> _Compiled:
        return self


class _Store:
    def append(self, key: Any, entries: list[Any]) -> None:
        """Take entries."""

    def load(self, key: Any) -> None:
        """Return none."""

    def __len__(self) -> int:
        return 0  # an empty store is one all the same


__all__ = ["CASES", "EXPECTED", "UUID", "Case", "Expected", "nothing"]

UUID = "11111111-2222-4333-8444-555555555555"


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
    "system_prompt": Expected("argv", None, "be brief", "be brief", secret=True),
    "append_system_prompt": Expected("argv", None, "true", "true", secret=True),
    "append_system_prompt_file": Expected("argv", None, "true", "true", refused=True),
    "plan_mode_instructions": Expected("initialize", None, "5", "5", secret=True),
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
    "policy": Expected("host", None),
    "policy_tags": Expected("host", None, '{"tenant": "acme"}', {"tenant": "acme"}, refused=True),
    "policy_audit": Expected("host", None, "a.jsonl", "a.jsonl", refused=True),
    "approvals": Expected("host", None),
    "on_elicitation": Expected("host", None),
    "on_user_dialog": Expected("host", None),
    "supported_dialog_kinds": Expected("initialize", None, "[]", ()),
    "sandbox": Expected("argv", None, '{"enabled": true}', {"enabled": True}, refused=True, secret=True),
    "restricted": Expected("argv", False, "true", True),
    "brief": Expected("argv", False, "true", True),
    "chrome": Expected("argv", None, "false", False),
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
    "plugin_urls": Expected("argv", (), '["https://example.org/p.zip"]', ("https://example.org/p.zip",), refused=True),
    "disable_slash_commands": Expected("argv", False, "true", True),
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
    "session_name": Expected("argv", None, "5", "5"),
    "worktree": Expected("argv", False, "fix", "fix"),
    "autocompact": Expected("argv", None, "200000", 200_000),
    "persist_session": Expected("argv", True, "false", False),
    "enable_file_checkpointing": Expected("environment", False, "true", True),
    "session_store": Expected("argv", None, secret=True),
    "session_store_flush": Expected("host", "batched", "eager", "eager"),
    "include_partial_messages": Expected("argv", False, "true", True),
    "include_hook_events": Expected("argv", False, "true", True),
    "forward_subagent_text": Expected("argv", False, "true", True),
    "prompt_suggestions": Expected("argv", False, "true", True),
    "replay_user_messages": Expected("argv", False, "true", True),
    "agent_progress_summaries": Expected("initialize", False, "true", True),
    "per_task_stop_affordance": Expected("initialize", False, "true", True),
    "cwd": Expected("host", None, "/", "/", refused=True),
    "add_dirs": Expected("argv", (), '["/a"]', ("/a",), refused=True),
    "project_config_root": Expected("argv", None, "/r", "/r", refused=True),
    "settings": Expected("argv", None, "file.json", "file.json", refused=True, secret=True),
    "managed_settings": Expected("argv", None, '{"a": 1}', {"a": 1}, refused=True, secret=True),
    "setting_sources": Expected("argv", None, '["user"]', ("user",)),
    "bare": Expected("argv", False, "true", True, refused=True),
    "safe_mode": Expected("argv", False, "true", True, refused=True),
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
    "telemetry": Expected("host", None),
    "budget": Expected("host", None),
    "timeouts": Expected("host", Timeouts(), '{"turn": 5}', Timeouts(turn=5)),
    "limits": Expected("host", Limits(), '{"line_bytes": 5}', Limits(line_bytes=5)),
}


def nothing(*arguments: object) -> None:
    """A callback."""


class Case(NamedTuple):
    """What one set of options becomes in a session."""

    given: dict[str, Any]
    argv: tuple[str, ...] = ()
    initialize: Mapping[str, Any] = MappingProxyType({})
    variables: Mapping[str, str] = MappingProxyType({})
    session: bool = False


CASES: dict[str, list[Case]] = {
    "system_prompt": [
        Case({"system_prompt": "-be brief"}, ("--system-prompt=-be brief",)),
        Case({"system_prompt": ""}, ("--system-prompt=",)),
        Case({"system_prompt": ["a", "b"]}, (), {"systemPrompt": ["a", "b"]}, session=True),
        Case({"system_prompt": SystemPromptFile(path=Path("p.md"))}, ("--system-prompt-file=p.md",)),
        Case({"system_prompt": {"type": "file", "path": "p.md"}}, ("--system-prompt-file=p.md",)),
        Case({"system_prompt": SystemPromptPreset()}),
        Case(
            {"system_prompt": {"type": "preset", "preset": "claude_code", "append": "x"}}, ("--append-system-prompt=x",)
        ),
        Case(
            {
                "system_prompt": {
                    "type": "preset",
                    "preset": "claude_code",
                    "exclude_dynamic_sections": True,
                    "snapshot": False,
                }
            },
            ("--exclude-dynamic-system-prompt-sections", "--system-prompt-snapshot=off"),
            {"excludeDynamicSections": True, "systemPromptSnapshot": False},  # for a peer that a transport has started
        ),
        Case(
            {"system_prompt": SystemPromptCustom(prompt="p", snapshot=True)},
            ("--system-prompt=p", "--system-prompt-snapshot=on"),
            {"systemPromptSnapshot": True},
        ),
        Case({"system_prompt": {"type": "custom", "prompt": ["a"]}}, (), {"systemPrompt": ["a"]}, session=True),
    ],
    "append_system_prompt": [Case({"append_system_prompt": "--x"}, ("--append-system-prompt=--x",))],
    "append_system_prompt_file": [
        Case({"append_system_prompt_file": Path("p.md")}, ("--append-system-prompt-file=p.md",))
    ],
    "restricted": [Case({"restricted": True}, ("--restricted",))],
    "brief": [Case({"brief": True}, ("--brief",))],
    "chrome": [Case({"chrome": True}, ("--chrome",)), Case({"chrome": False}, ("--no-chrome",))],
    "plugin_urls": [
        Case({"plugin_urls": ["https://a/p.zip", "b"]}, ("--plugin-url=https://a/p.zip", "--plugin-url=b"))
    ],
    "disable_slash_commands": [Case({"disable_slash_commands": True}, ("--disable-slash-commands",))],
    "session_name": [Case({"session_name": "-n"}, ("--name=-n",))],
    "worktree": [Case({"worktree": True}, ("--worktree",)), Case({"worktree": "fix"}, ("--worktree=fix",))],
    "autocompact": [Case({"autocompact": 100_000}, ("--autocompact=100000",))],
    "replay_user_messages": [Case({"replay_user_messages": True}, ("--replay-user-messages",), session=True)],
    "bare": [Case({"bare": True}, ("--bare",))],
    "safe_mode": [Case({"safe_mode": True}, ("--safe-mode",))],
    "plan_mode_instructions": [Case({"plan_mode_instructions": "p"}, (), {"planModeInstructions": "p"}, session=True)],
    "verbatim_prompts": [Case({"verbatim_prompts": True}, session=True)],
    "title": [Case({"title": "t"}, (), {"title": "t"}, session=True)],
    "tools": [
        Case({"tools": ["Bash", "Read"]}, ("--tools=Bash,Read",)),
        Case({"tools": ("Bash", "Read")}, ("--tools=Bash,Read",)),
        Case({"tools": []}, ("--tools=",)),
        Case({"tools": {"type": "preset", "preset": "claude_code"}}, ("--tools=default",)),
    ],
    "allowed_tools": [
        Case(
            {"allowed_tools": ["Bash(git add, git rm)", "Read"]},
            ("--allowedTools=Bash(git add, git rm)", "--allowedTools=Read"),
        ),
        Case({"allowed_tools": []}),
    ],
    "disallowed_tools": [
        Case({"disallowed_tools": ["A", "B(c)"]}, ("--disallowedTools=A", "--disallowedTools=B(c)")),
        Case(
            {"allowed_tools": ["Read"], "disallowed_tools": ["Write"]},
            ("--allowedTools=Read", "--disallowedTools=Write"),
        ),
    ],
    "tool_aliases": [Case({"tool_aliases": {"Shell": "Bash"}}, (), {"toolAliases": {"Shell": "Bash"}}, session=True)],
    "tool_config": [
        Case(
            {"tool_config": {"askUserQuestion": {"previewFormat": "html"}}},
            variables={"CLAUDE_CODE_QUESTION_PREVIEW_FORMAT": "html"},
        ),
        Case({"tool_config": {}}),
    ],
    "permission_mode": [
        Case({"permission_mode": "plan"}, ("--permission-mode=plan",)),
        Case(
            {"permission_mode": "bypassPermissions"},
            ("--permission-mode=bypassPermissions", "--allow-dangerously-skip-permissions"),
        ),
    ],
    "allow_dangerously_skip_permissions": [
        Case({"allow_dangerously_skip_permissions": True}, ("--allow-dangerously-skip-permissions",))
    ],
    "permission_prompt_tool_name": [
        Case({"permission_prompt_tool_name": "mcp__x__y"}, ("--permission-prompt-tool=mcp__x__y",))
    ],
    "permission_prompts": [Case({"permission_prompts": "none"}, ("--permission-prompts=none",))],
    "can_use_tool": [Case({"can_use_tool": nothing}, ("--permission-prompt-tool=stdio",), session=True)],
    "hooks": [
        Case({"hooks": {"Stop": [HookMatcher(hooks=[nothing])]}}, session=True),
        Case({"hooks": {}}),
        Case({"hooks": {"PreToolUse": nothing}, "resume": "x"}, ("--resume=x", "--await-initialize"), session=True),
    ],
    "policy": [
        Case(
            {"policy": _Compiled(), "settings": {"model": "x", "permissions": {"deny": ["Bash"]}}},
            ('--settings={"model":"x","permissions":{"deny":["Bash","Edit(//etc)"]}}',),
            session=True,
        ),
        Case({"policy": Policy([])}, session=True),
        Case({"policy": Policy([]), "resume": "x"}, ("--resume=x", "--await-initialize"), session=True),
    ],
    "policy_tags": [Case({"policy": Policy([]), "policy_tags": {"tenant": "acme"}}, session=True)],
    "policy_audit": [Case({"policy": Policy([]), "policy_audit": "a.jsonl"}, session=True)],
    "approvals": [Case({"approvals": Answering()}, ("--permission-prompt-tool=stdio",), session=True)],
    "on_elicitation": [Case({"on_elicitation": nothing}, session=True)],
    "on_user_dialog": [Case({"on_user_dialog": nothing}, session=True)],
    "supported_dialog_kinds": [
        Case(
            {"supported_dialog_kinds": ["a"], "on_user_dialog": nothing},
            (),
            {"supportedDialogKinds": ["a"]},
            session=True,
        )
    ],
    "sandbox": [
        Case(
            {"sandbox": SandboxSettings(enabled=True, network=SandboxNetworkConfig(allowed_domains=["a.b"]))},
            ('--settings={"sandbox":{"enabled":true,"network":{"allowedDomains":["a.b"]},"failIfUnavailable":true}}',),
        ),
        Case(
            {"sandbox": {"enabled": True, "failIfUnavailable": False, "newKey": 1}},
            ('--settings={"sandbox":{"enabled":true,"failIfUnavailable":false,"newKey":1}}',),
        ),
        Case(
            {"sandbox": {"enabled": False}, "settings": '{"model": "m"}'},
            ('--settings={"model":"m","sandbox":{"enabled":false}}',),
        ),
        Case(
            {"sandbox": {}, "settings": {"model": "m"}},
            ('--settings={"model":"m","sandbox":{}}',),
        ),
    ],
    "mcp_servers": [
        Case({"mcp_servers": {}}),
        Case({"mcp_servers": "servers.json"}, ("--mcp-config=servers.json",)),
        Case({"mcp_servers": Path("servers.json")}, ("--mcp-config=servers.json",)),
        Case(
            {"mcp_servers": {"a": {"command": "x", "args": ["-y"]}, "b": {"type": "http", "url": "https://h"}}},
            ('--mcp-config={"mcpServers":{"a":{"command":"x","args":["-y"]},"b":{"type":"http","url":"https://h"}}}',),
        ),
        Case(
            {"mcp_servers": {"a": McpStdioServerConfig(command="x", env={"K": "v"}, always_load=True)}},
            ('--mcp-config={"mcpServers":{"a":{"command":"x","env":{"K":"v"},"alwaysLoad":true,"type":"stdio"}}}',),
        ),
        Case(
            {"mcp_servers": {"in": nothing, "old": {"type": "sdk", "name": "n", "instance": nothing}}},
            (),
            {"sdkMcpServers": ["in", "old"]},
            session=True,
        ),
    ],
    "strict_mcp_config": [Case({"strict_mcp_config": True}, ("--strict-mcp-config",))],
    "mcp_servers_delivery": [
        Case(
            {
                "mcp_servers": {"b": McpHttpServerConfig(url="u", headers={"A": "s"})},
                "mcp_servers_delivery": "initialize",
            },
            ("--await-initialize",),
            {"mcpServers": {"b": {"url": "u", "headers": {"A": "s"}, "type": "http"}}},
            session=True,
        ),
        Case({"mcp_servers_delivery": "initialize"}),
    ],
    "agent": [Case({"agent": "reviewer"}, ("--agent=reviewer",))],
    "agents": [
        Case(
            {"agents": {"r": AgentDefinition(description="d", prompt="p", max_turns=3, disallowed_tools=["Bash"])}},
            (),
            {"agents": {"r": {"description": "d", "prompt": "p", "disallowedTools": ["Bash"], "maxTurns": 3}}},
            session=True,
        ),
        Case(
            {"agents": {"r": {"description": "d", "prompt": "p", "someNewKey": [1]}}},
            (),
            {"agents": {"r": {"description": "d", "prompt": "p", "someNewKey": [1]}}},
            session=True,
        ),
    ],
    "skills": [
        Case({"skills": "all"}, ("--allowedTools=Skill",)),
        Case(
            {"skills": ["pdf", "x:y"], "allowed_tools": ["Read", "Skill(pdf)"]},
            ("--allowedTools=Read", "--allowedTools=Skill(pdf)", "--allowedTools=Skill(x:y)"),
            {"skills": ["pdf", "x:y"]},
            session=True,
        ),
        Case({"skills": []}, (), {"skills": []}, session=True),
    ],
    "plugins": [
        Case(
            {"plugins": [{"type": "local", "path": "a"}, SdkPluginConfig(path="b", skip_mcp_discovery=True)]},
            ("--plugin-dir=a", "--plugin-dir-no-mcp=b"),
        )
    ],
    "plugin_delivery": [
        Case(
            {"plugins": [{"type": "local", "path": "a"}], "plugin_delivery": "initialize"},
            ("--await-initialize",),
            {"plugins": [{"path": "a", "type": "local"}]},
            session=True,
        )
    ],
    "model": [Case({"model": "opus"}, ("--model=opus",))],
    "fallback_model": [Case({"fallback_model": "a,b"}, ("--fallback-model=a,b",))],
    "betas": [Case({"betas": ["a", "b"]}, ("--betas=a", "--betas=b"))],
    "thinking": [
        Case({"thinking": ThinkingConfigAdaptive()}, ("--thinking=adaptive",)),
        Case({"thinking": ThinkingConfigDisabled()}, ("--thinking=disabled",)),
        Case({"thinking": ThinkingConfigEnabled()}, ("--thinking=enabled",)),
        Case(
            {"thinking": {"type": "enabled", "budget_tokens": 9, "display": "omitted"}},
            ("--max-thinking-tokens=9", "--thinking-display=omitted"),
        ),
        Case({"thinking": {"type": "enabled", "budgetTokens": 9}}, ("--max-thinking-tokens=9",)),
    ],
    "max_thinking_tokens": [
        Case({"max_thinking_tokens": 0}, ("--max-thinking-tokens=0",)),
        Case({"max_thinking_tokens": 5, "thinking": {"type": "disabled"}}, ("--thinking=disabled",)),
    ],
    "effort": [Case({"effort": "xhigh"}, ("--effort=xhigh",))],
    "output_format": [
        Case(
            {"output_format": {"type": "json_schema", "schema": {"z": 1, "a": [1.5, None, "ü"]}}},
            ('--json-schema={"z":1,"a":[1.5,null,"ü"]}',),
        )
    ],
    "max_turns": [Case({"max_turns": 0}, ("--max-turns=0",)), Case({"max_turns": 7}, ("--max-turns=7",))],
    "max_budget_usd": [Case({"max_budget_usd": 0.5}, ("--max-budget-usd=0.5",))],
    "task_budget": [
        Case({"task_budget": {"total": 100}}, ("--task-budget=100",)),
        Case({"task_budget": TaskBudget(total=100)}, ("--task-budget=100",)),
    ],
    "continue_conversation": [Case({"continue_conversation": True}, ("--continue",))],
    "resume": [
        Case({"resume": "-x"}, ("--resume=-x",)),
        Case({"resume": "a", "continue_conversation": True}, ("--resume=a",)),
    ],
    "session_id": [
        Case({"session_id": UUID}, (f"--session-id={UUID}",)),
        Case(
            {"session_id": UUID, "resume": "a", "fork_session": True},
            ("--resume=a", f"--session-id={UUID}", "--fork-session"),
        ),
    ],
    "fork_session": [Case({"resume": "a", "fork_session": True}, ("--resume=a", "--fork-session"))],
    "resume_session_at": [Case({"resume": "a", "resume_session_at": "m"}, ("--resume=a", "--resume-session-at=m"))],
    "resume_drops_turn": [
        Case(
            {"resume": "a", "resume_session_at": "m", "resume_drops_turn": ""},
            ("--resume=a", "--resume-session-at=m", "--resume-drops-turn="),
        )
    ],
    "persist_session": [Case({"persist_session": False}, ("--no-session-persistence",))],
    "session_store": [Case({"session_store": _Store()}, ("--session-mirror",), session=True)],
    "session_store_flush": [Case({"session_store_flush": "eager"})],
    "enable_file_checkpointing": [
        Case(
            {"enable_file_checkpointing": True},
            variables={"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"},
            session=True,
        )
    ],
    "include_partial_messages": [Case({"include_partial_messages": True}, ("--include-partial-messages",))],
    "include_hook_events": [Case({"include_hook_events": True}, ("--include-hook-events",))],
    "forward_subagent_text": [
        Case({"forward_subagent_text": True}, ("--forward-subagent-text",), {"forwardSubagentText": True})
    ],
    "prompt_suggestions": [Case({"prompt_suggestions": True}, ("--prompt-suggestions=true",))],
    "agent_progress_summaries": [
        Case({"agent_progress_summaries": True}, (), {"agentProgressSummaries": True}, session=True)
    ],
    "per_task_stop_affordance": [
        Case({"per_task_stop_affordance": True}, (), {"perTaskStopAffordance": True}, session=True)
    ],
    "cwd": [Case({"cwd": "/"}, variables={"PWD": "/"}), Case({"cwd": ""})],
    "add_dirs": [Case({"add_dirs": ["a", Path("-b")]}, ("--add-dir=a", "--add-dir=-b"))],
    "project_config_root": [Case({"project_config_root": "/r"}, ("--project-config-root=/r",))],
    "settings": [
        Case({"settings": "file.json"}, ("--settings=file.json",)),
        Case({"settings": '{"a": 1e2}'}, ('--settings={"a": 1e2}',)),
        Case({"settings": {"a": {"b": [1]}}}, ('--settings={"a":{"b":[1]}}',)),
    ],
    "managed_settings": [Case({"managed_settings": {"a": 1}}, ('--managed-settings={"a":1}',))],
    "setting_sources": [
        Case({"setting_sources": ["user", "project"]}, ("--setting-sources=user,project",)),
        Case({"setting_sources": []}, ("--setting-sources=",)),
    ],
    "env": [Case({"env": {"A": "b", "C": None}}, variables={"A": "b"})],
    "inherit_env": [Case({"inherit_env": False}), Case({"inherit_env": ["PATH"]})],
    "extra_args": [
        Case({"extra_args": {"chrome": None, "name": "-n", "x-y": ""}}, ("--chrome", "--name=-n", "--x-y=")),
        Case({"extra_args": {"add-dir": ["a", None, "b"]}}, ("--add-dir=a", "--add-dir", "--add-dir=b")),
    ],
    "user": [Case({"user": "nobody"}), Case({"user": 65534})],
    "client_app": [
        Case({"client_app": "app/1"}, variables={"CLAUDE_AGENT_SDK_CLIENT_APP": "app/1"}),
        Case({"client_app": ""}, variables={"CLAUDE_AGENT_SDK_CLIENT_APP": ""}),
    ],
    "debug": [Case({"debug": True}, ("--debug",)), Case({"debug": "!api"}, ("--debug=!api",)), Case({"debug": False})],
    "debug_file": [Case({"debug_file": Path("d.log")}, ("--debug-file=d.log",))],
    "cli_path": [Case({"cli_path": "/bin/claude"})],
    "executable": [Case({"executable": "bun"})],
    "executable_args": [Case({"executable_args": ["--smol"]})],
    "prompt_channel": [Case({"prompt_channel": "argv"})],
    "strict_exit_status": [Case({"strict_exit_status": True})],
    "version_check": [Case({"version_check": "skip"})],
    "on_oversize": [Case({"on_oversize": "skip"})],
    "on_warning": [Case({"on_warning": nothing})],
    "stderr": [Case({"stderr": nothing})],
    "trace": [Case({"trace": "t.jsonl"}), Case({"trace": nothing})],
    "telemetry": [Case({"telemetry": _Observer()})],
    "budget": [Case({"budget": _Observer()})],
    "timeouts": [Case({"timeouts": Timeouts(turn=3)}), Case({"timeouts": {"turn": 3}})],
    "limits": [Case({"limits": Limits(line_bytes=3)})],
}
