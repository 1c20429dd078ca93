"""Every option has a row, and every row does what is written down here."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from bridle import (
    AgentDefinition,
    Limits,
    McpHttpServerConfig,
    McpStdioServerConfig,
    Options,
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
from bridle.hooks import HookMatcher
from bridle.launch import LaunchPlan, build_plan, in_process_servers, needs_session
from bridle.launch.table import ROWS
from bridle.options.kinds import SandboxNetworkConfig
from tests.launch.expectations import EXPECTED

if TYPE_CHECKING:
    from collections.abc import Mapping

UUID = "11111111-2222-4333-8444-555555555555"
BASE = ("claude", "--output-format", "stream-json", "--verbose")


def nothing(*arguments: object) -> None:
    """A callback."""


def plan_of(options: Options) -> LaunchPlan:
    return build_plan(options, prompt=None, session=True, base_environment={}, child_id="child")


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
        ),
        Case(
            {"system_prompt": SystemPromptCustom(prompt="p", snapshot=True)},
            ("--system-prompt=p", "--system-prompt-snapshot=on"),
        ),
        Case({"system_prompt": {"type": "custom", "prompt": ["a"]}}, (), {"systemPrompt": ["a"]}, session=True),
    ],
    "append_system_prompt": [Case({"append_system_prompt": "--x"}, ("--append-system-prompt=--x",))],
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
    "hooks": [Case({"hooks": {"Stop": [HookMatcher(hooks=[nothing])]}}, session=True), Case({"hooks": {}})],
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
    "enable_file_checkpointing": [
        Case(
            {"enable_file_checkpointing": True},
            variables={"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"},
            session=True,
        )
    ],
    "include_partial_messages": [Case({"include_partial_messages": True}, ("--include-partial-messages",))],
    "include_hook_events": [Case({"include_hook_events": True}, ("--include-hook-events",))],
    "forward_subagent_text": [Case({"forward_subagent_text": True}, ("--forward-subagent-text",))],
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
    "timeouts": [Case({"timeouts": Timeouts(turn=3)}), Case({"timeouts": {"turn": 3}})],
    "limits": [Case({"limits": Limits(line_bytes=3)})],
}


def test_every_option_has_a_row_and_expectations() -> None:
    assert list(Options.__fields__) == list(EXPECTED)
    assert sorted(option.name for option in ROWS) == sorted(EXPECTED)
    assert set(CASES) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_row_says_what_is_expected(name: str) -> None:
    expected, field = EXPECTED[name], Options.__fields__[name]
    assert field.row.kind == expected.kind
    assert field.row.becomes
    assert field.secret is expected.secret
    assert getattr(Options(), name) == expected.default
    assert isinstance(getattr(Options(), name), bool) is isinstance(expected.default, bool)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=f"{name}-{number}")
        for name, cases in CASES.items()
        for number, case in enumerate(cases)
    ],
)
def test_an_option_becomes_what_its_row_says(name: str, case: Case) -> None:
    assert name in case.given
    options = Options(**case.given)
    plan = plan_of(options)
    assert plan.argv[:4] == BASE
    assert plan.argv[-2:] == ("--input-format", "stream-json")
    assert plan.argv[4:-2] == case.argv
    assert plan.initialize == case.initialize
    variables = {key: value for key, value in plan.environment.items() if key not in ALWAYS}
    assert variables == case.variables
    assert bool(needs_session(options)) is case.session
    if case.session:
        assert set(needs_session(options)) <= set(case.given)


ALWAYS = {"BRIDLE_CHILD_ID", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SDK_READS_SESSION_STATE"}


def test_no_options_say_nothing() -> None:
    plan = plan_of(Options())
    assert plan.argv == (*BASE, "--input-format", "stream-json")
    assert set(plan.environment) == ALWAYS
    assert plan.initialize == {}
    assert needs_session(Options()) == []


def test_flags_come_in_the_official_order() -> None:
    options = Options(
        output_format={"type": "json_schema", "schema": {}},
        effort="low",
        thinking={"type": "adaptive"},
        extra_args={"chrome": None},
        plugins=[SdkPluginConfig(path="p")],
        setting_sources=["user"],
        fork_session=True,
        strict_mcp_config=True,
        include_hook_events=True,
        include_partial_messages=True,
        mcp_servers="m",
        add_dirs=["d"],
        settings="s",
        session_id=UUID,
        resume="r",
        permission_mode="plan",
        permission_prompt_tool_name="t",
        betas=["b"],
        fallback_model="f",
        model="m",
        task_budget={"total": 1},
        disallowed_tools=["D"],
        max_budget_usd=1,
        max_turns=1,
        allowed_tools=["A"],
        tools=["T"],
        system_prompt="s",
    )
    flags = [part.partition("=")[0] for part in plan_of(options).argv[4:-2]]
    assert flags == [
        "--system-prompt",
        "--tools",
        "--allowedTools",
        "--max-turns",
        "--max-budget-usd",
        "--disallowedTools",
        "--task-budget",
        "--model",
        "--fallback-model",
        "--betas",
        "--permission-prompt-tool",
        "--permission-mode",
        "--resume",
        "--session-id",
        "--settings",
        "--add-dir",
        "--mcp-config",
        "--include-partial-messages",
        "--include-hook-events",
        "--strict-mcp-config",
        "--fork-session",
        "--setting-sources",
        "--plugin-dir",
        "--chrome",
        "--thinking",
        "--effort",
        "--json-schema",
    ]


def test_in_process_servers_are_taken_apart_from_the_others() -> None:
    options = Options(mcp_servers={"in": nothing, "old": {"type": "sdk", "instance": nothing}, "out": {"command": "x"}})
    assert in_process_servers(options) == {"in": nothing, "old": nothing}
    assert plan_of(options).argv[4] == '--mcp-config={"mcpServers":{"out":{"command":"x"}}}'
    assert needs_session(options) == ["mcp_servers"]
