"""Every option has a row, and every row does what is written down here."""

from __future__ import annotations

import pytest

from hackamore import (
    Options,
    SdkPluginConfig,
)
from hackamore._engine.launch import LaunchPlan, build_plan, in_process_servers, needs_session
from hackamore._engine.launch.encode import ROWS
from tests.options.expectations import CASES, EXPECTED, UUID, Case, nothing

BASE = ("claude", "--output-format", "stream-json", "--verbose")


def plan_of(options: Options) -> LaunchPlan:
    return build_plan(options, prompt=None, session=True, base_environment={}, child_id="child")


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


ALWAYS = {"HACKAMORE_CHILD_ID", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SDK_READS_SESSION_STATE"}


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
