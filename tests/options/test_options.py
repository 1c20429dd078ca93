"""`Options`: checked when built, frozen, comparable, picklable, and silent about secrets."""

from __future__ import annotations

import copy
import enum
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hackamore import (
    AgentDefinition,
    Limits,
    McpHttpServerConfig,
    McpStdioServerConfig,
    Options,
    SandboxSettings,
    SdkPluginConfig,
    SystemPromptPreset,
    TaskBudget,
    ThinkingConfigEnabled,
    Timeouts,
)
from hackamore.errors import OptionsError
from hackamore.hooks import HookMatcher
from hackamore.options.observing import Observation
from hackamore.policy import Policy
from hackamore.tools import Tool, ToolServer, tool
from tests.contract import shows
from tests.options.expectations import EXPECTED
from tests.support.examples import examples
from tests.support.patience import patience
from tests.support.reaching import mostly, reached, reaching

SECRET = "s3cr3t-value"


def answer(*arguments: object) -> None:
    """A callback that pickle can find."""


def takes_nothing() -> None:
    """A callback that could never be called."""


async def asynchronous(line: object) -> None:
    """A callback that somebody would have to await."""


@tool
def price(article: str) -> float:
    """Return a price."""
    return 4.5


class Listener:
    """The same as an object."""

    async def __call__(self, line: object) -> None:
        """Never run."""


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"disallowed_tools": "Bash"}, "disallowed_tools"),
    ({"allowed_tools": "Bash"}, "allowed_tools"),
    ({"allowed_tools": None}, "allowed_tools"),
    ({"allowed_tools": [""]}, "allowed_tools[0]"),
    ({"allowed_tools": ["Read", 5]}, "allowed_tools[1]"),
    ({"allowed_tools": {"Read"}}, "allowed_tools"),
    ({"disallowed_tools": ["Bash(rm", "Write"]}, "disallowed_tools[0]"),
    ({"disallowed_tools": ["Bash)rm("]}, "disallowed_tools[0]"),
    # What the CLI would take apart, or would take for the name of a tool that does not exist.
    ({"disallowed_tools": ["Bash\\(", "Write"]}, "disallowed_tools[0]"),
    ({"disallowed_tools": ["Bash\\(rm)"]}, "disallowed_tools[0]"),
    ({"disallowed_tools": ["Bash(rm\\)"]}, "disallowed_tools[0]"),
    ({"disallowed_tools": ["(rm)"]}, "disallowed_tools[0]"),
    ({"disallowed_tools": ["Bash(rm) ", " Bash(a)b"]}, "disallowed_tools[1]"),
    ({"allowed_tools": ["Bash(echo (a) Write b)"]}, "allowed_tools[0]"),
    ({"allowed_tools": ["Bash(echo \\(a\\) Write b)"]}, "allowed_tools[0]"),
    ({"allowed_tools": ["Bash(f(x), Write)"]}, "allowed_tools[0]"),
    ({"allowed_tools": ["Read Write"]}, "allowed_tools[0]"),
    ({"tools": ["Read,Bash"]}, "tools[0]"),
    ({"tools": "Bash"}, "tools"),
    ({"tools": {"type": "preset"}}, "tools"),
    ({"betas": "x"}, "betas"),
    ({"model": 5}, "model"),
    ({"model": ""}, "model"),
    ({"model": "a\0b"}, "model"),
    ({"system_prompt": "\ud800"}, "system_prompt"),
    ({"system_prompt": {"type": "other"}}, "system_prompt.type"),
    ({"system_prompt": {"type": "file"}}, "system_prompt.path"),
    ({"system_prompt": {"type": "preset", "preset": "claude_code", "apend": "x"}}, "system_prompt.apend"),
    ({"system_prompt": 5}, "system_prompt"),
    ({"permission_mode": "acceptedits"}, "permission_mode"),
    ({"permission_mode": 1}, "permission_mode"),
    ({"effort": "huge"}, "effort"),
    ({"max_turns": "3"}, "max_turns"),
    ({"max_turns": True}, "max_turns"),
    ({"max_turns": -1}, "max_turns"),
    ({"max_turns": 1.0}, "max_turns"),
    ({"max_budget_usd": 0}, "max_budget_usd"),
    ({"max_budget_usd": float("nan")}, "max_budget_usd"),
    ({"max_budget_usd": float("inf")}, "max_budget_usd"),
    ({"task_budget": 5}, "task_budget"),
    ({"task_budget": {"total": 0}}, "task_budget.total"),
    ({"session_id": "abc"}, "session_id"),
    ({"session_id": "11111111-2222-4333-8444-555555555555", "resume": "x"}, "session_id"),
    ({"resume_session_at": "x"}, "resume_session_at"),
    ({"resume_session_at": "x", "continue_conversation": True}, "resume_session_at"),
    ({"resume": "r", "resume_drops_turn": "x"}, "resume_drops_turn"),
    ({"can_use_tool": answer, "permission_prompt_tool_name": "x"}, "permission_prompt_tool_name"),
    ({"can_use_tool": "x"}, "can_use_tool"),
    ({"supported_dialog_kinds": ["a"]}, "supported_dialog_kinds"),
    ({"hooks": {"Stop": 5}}, "hooks.Stop"),
    ({"hooks": {"Stop": takes_nothing}}, "hooks.Stop"),
    ({"hooks": {"Stop": [takes_nothing]}}, "hooks.Stop[0]"),
    ({"hooks": [answer]}, "hooks"),
    ({"mcp_servers": ["x"]}, "mcp_servers"),
    ({"mcp_servers": {"a": "x"}}, "mcp_servers.a"),
    ({"mcp_servers": {"a": takes_nothing}}, "mcp_servers.a"),
    ({"mcp_servers": {"a": Tool}}, "mcp_servers.a"),
    ({"mcp_servers": {"a": []}}, "mcp_servers.a"),
    ({"mcp_servers": {"a": [price, 5]}}, "mcp_servers.a[1]"),
    ({"mcp_servers": {"a": {"comand": "x"}}}, "mcp_servers.a.comand"),
    ({"tools": [price]}, "tools"),
    ({"mcp_servers": {"a": {"url": "https://host/mcp"}}}, "mcp_servers.a.type"),
    ({"mcp_servers": {"mcpServers": {"a": {"command": "x"}}}}, "mcp_servers.mcpServers"),
    ({"mcp_servers": {"a": {}}}, "mcp_servers.a.command"),
    ({"mcp_servers": {"a": {"type": "ws", "url": "u"}}}, "mcp_servers.a.type"),
    ({"mcp_servers": {"a": {"type": "http"}}}, "mcp_servers.a.url"),
    ({"mcp_servers": {"a": {"type": "sdk", "name": "x"}}}, "mcp_servers.a.instance"),
    ({"mcp_servers": {"a": {"command": "x", "args": "-y"}}}, "mcp_servers.a.args"),
    ({"mcp_servers": {"a": {"command": "x", "env": {"A": 1}}}}, "mcp_servers.a.env.A"),
    ({"mcp_servers": {"a": {"command": "x", "always_load": True}}}, "mcp_servers.a.always_load"),
    ({"mcp_servers": {1: {"command": "x"}}}, "mcp_servers (its keys)"),
    ({"agents": {"r": {"description": "d"}}}, "agents.r.prompt"),
    ({"agents": {"r": {"description": "d", "prompt": "p", "max_turns": 1}}}, "agents.r.max_turns"),
    ({"agents": {"r": {"description": "d", "prompt": "p", "tools": "Bash"}}}, "agents.r.tools"),
    ({"agents": {"r": {"description": "d", "prompt": "p", "model": object()}}}, "agents.r.model"),
    ({"agents": {"r": "x"}}, "agents.r"),
    ({"sandbox": {"network": {"allowed_domains": ["x"]}}}, "sandbox.network.allowed_domains"),
    ({"sandbox": {"enabled": 1}}, "sandbox.enabled"),
    ({"sandbox": True}, "sandbox"),
    ({"skills": "pdf"}, "skills"),
    ({"skills": ["a)", "b"]}, "skills[0]"),
    ({"skills": [" a"]}, "skills[0]"),
    ({"skills": ["/a"]}, "skills[0]"),
    ({"skills": ["a*"]}, "skills[0]"),
    ({"skills": ["a\\"]}, "skills[0]"),
    ({"plugins": [{"type": "remote", "path": "x"}]}, "plugins[0].type"),
    ({"plugins": ["x"]}, "plugins[0]"),
    ({"plugins": "x"}, "plugins"),
    ({"thinking": {"type": "sometimes"}}, "thinking.type"),
    ({"thinking": "adaptive"}, "thinking"),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens"),
    ({"output_format": {"type": "json_schema"}}, "output_format"),
    ({"output_format": {"type": "text"}}, "output_format"),
    ({"output_format": {"type": "json_schema", "schema": {"x": {1, 2}}}}, "output_format.schema.x"),
    ({"output_format": {"type": "json_schema", "schema": {"x": float("nan")}}}, "output_format.schema.x"),
    ({"tool_config": {"bash": {}}}, "tool_config"),
    ({"tool_config": {"askUserQuestion": {"previewFormat": "pdf"}}}, "tool_config.askUserQuestion.previewFormat"),
    ({"setting_sources": ["users"]}, "setting_sources[0]"),
    ({"setting_sources": "user"}, "setting_sources"),
    ({"settings": 5}, "settings"),
    ({"settings": ""}, "settings"),
    ({"settings": {"a": b"x"}}, "settings.a"),
    ({"cwd": b"/"}, "cwd"),
    ({"cwd": "a\0"}, "cwd"),
    ({"add_dirs": "x"}, "add_dirs"),
    ({"add_dirs": ["/", ""]}, "add_dirs[1]"),
    ({"system_prompt": {"type": "file", "path": ""}}, "system_prompt.path"),
    ({"plugins": [{"type": "local", "path": " "}]}, "plugins[0].path"),
    ({"debug_file": ""}, "debug_file"),
    ({"project_config_root": ""}, "project_config_root"),
    ({"cli_path": ""}, "cli_path"),
    ({"env": {"A": 1}}, "env.A"),
    ({"env": {"A=B": "x"}}, "env (its keys)"),
    ({"env": {"": "x"}}, "env (its keys)"),
    ({"env": {"A": "x\0"}}, "env.A"),
    ({"env": {"A": "\ud800"}}, "env.A"),
    ({"cwd": "\ud800"}, "cwd"),
    ({"env": "A=B"}, "env"),
    ({"inherit_env": "PATH"}, "inherit_env"),
    ({"inherit_env": None}, "inherit_env"),
    ({"extra_args": {"--chrome": None}}, "extra_args (its keys)"),
    ({"extra_args": {"a b": None}}, "extra_args (its keys)"),
    ({"extra_args": {"output-format": "text"}}, "extra_args.output-format"),
    ({"extra_args": {"chrome": True}}, "extra_args.chrome"),
    ({"extra_args": {"chrome": ["a", 5]}}, "extra_args.chrome[1]"),
    ({"extra_args": ["chrome"]}, "extra_args"),
    ({"user": -1}, "user"),
    ({"user": True}, "user"),
    ({"debug": 1}, "debug"),
    ({"worktree": 5}, "worktree"),
    ({"autocompact": 99_999}, "autocompact"),
    ({"autocompact": "never"}, "autocompact"),
    ({"restricted": True, "permission_mode": "bypassPermissions"}, "restricted"),
    ({"prompt_channel": "file"}, "prompt_channel"),
    ({"version_check": "lenient"}, "version_check"),
    ({"on_oversize": "warn"}, "on_oversize"),
    ({"strict_exit_status": 1}, "strict_exit_status"),
    ({"telemetry": 5}, "telemetry"),
    ({"budget": 0.5}, "budget"),
    ({"policy": "policy.toml"}, "policy"),
    ({"policy": Policy}, "policy"),
    ({"policy_audit": "a.jsonl"}, "policy_audit"),
    ({"policy_tags": {"tenant": "acme"}}, "policy_tags"),
    ({"policy": Policy([]), "policy_tags": {"tenant": 5}}, "policy_tags.tenant"),
    ({"budget": Observation}, "budget"),
    ({"timeouts": 5}, "timeouts"),
    ({"timeouts": {"turn": 0}}, "timeouts.turn"),
    ({"timeouts": {"turns": 5}}, "timeouts.turns"),
    ({"timeouts": {"turn": 1e9}}, "timeouts.turn"),
    ({"timeouts": {"stop_grace": 10**30}}, "timeouts.stop_grace"),
    ({"limits": {"line_bytes": 0}}, "limits.line_bytes"),
    ({"trace": 5}, "trace"),
    ({"trace": takes_nothing}, "trace"),
    ({"trace": asynchronous}, "trace"),
    ({"on_warning": 5}, "on_warning"),
    ({"on_warning": takes_nothing}, "on_warning"),
    ({"on_warning": asynchronous}, "on_warning"),
    ({"stderr": takes_nothing}, "stderr"),
    ({"stderr": asynchronous}, "stderr"),
    ({"stderr": Listener()}, "stderr"),
    ({"on_elicitation": takes_nothing}, "on_elicitation"),
    ({"on_user_dialog": takes_nothing}, "on_user_dialog"),
    ({"max_turns": 10**5000}, "max_turns"),
    ({"max_budget_usd": 10**400}, "max_budget_usd"),
    ({"settings": {"a": 10**5000}}, "settings.a"),
]


class Model(str, enum.Enum):  # noqa: UP042 - this is the case that is tested
    SONNET = "sonnet"


class Mode(str, enum.Enum):  # noqa: UP042
    PLAN = "plan"


class Turns(enum.IntEnum):
    FEW = 3


def test_json_may_hold_numbers_beyond_64_bits() -> None:
    assert Options(settings={"a": 10**30}).settings == {"a": 10**30}


def test_members_of_enums_are_kept_as_the_values_they_are() -> None:
    options = Options(model=Model.SONNET, permission_mode=Mode.PLAN, max_turns=Turns.FEW, add_dirs=[Model.SONNET])  # type: ignore[arg-type]
    kept = (options.model, options.permission_mode, options.max_turns, *options.add_dirs)
    assert repr(kept) == "('sonnet', 'plan', 3, 'sonnet')"


@pytest.mark.parametrize(
    "rule",
    [
        "Bash",
        "Bash(git add, git rm)",
        "Bash(echo $(date))",
        "Bash(grep \\(x)",
        "Bash(dir \\\\)",
        "mcp__s__t",
        "Read(//a b/**)",
        " X ",
    ],
)
def test_a_rule_that_stays_whole_is_accepted(rule: str) -> None:
    assert Options(disallowed_tools=[rule]).disallowed_tools == (rule,)


@pytest.mark.parametrize(("wrong", "field"), WRONG, ids=[f"{field}-{index}" for index, (_, field) in enumerate(WRONG)])
def test_a_wrong_value_is_refused_and_the_field_is_named(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionsError) as caught:
        Options(**wrong)
    assert caught.value.field == field
    assert str(caught.value).count("\n") == 0


UNKNOWN = [
    ("modle", "Did you mean `model`?"),
    ("maxTurns", "Did you mean `max_turns`?"),
    ("dissallowed_tools", "Did you mean `disallowed_tools`?"),
    ("permissionMode", "Did you mean `permission_mode`?"),
    ("max_buffer_size", "Limits(line_bytes"),
    ("load_timeout_ms", "Timeouts(store=SECONDS)"),
    ("debug_stderr", "stderr="),
    ("abort_controller", "close()"),
    ("spawn_claude_code_process", "transport="),
    ("api_key", "ANTHROPIC_API_KEY"),
    ("output_type", "an argument of `run`"),
    ("prompt", "the first argument"),
    ("system", "use `system_prompt`"),
    ("transport", "an argument of"),
    ("completely_else", "has no field"),
]


@shows("options.unknown")
@pytest.mark.parametrize(("name", "hint"), UNKNOWN)
def test_an_unknown_name_is_refused_with_a_hint(name: str, hint: str) -> None:
    unknown: dict[str, Any] = {name: 1}
    with pytest.raises(OptionsError) as caught:
        Options(**unknown)
    assert caught.value.field == name
    assert hint in str(caught.value)


def test_positional_arguments_are_refused() -> None:
    with pytest.raises(OptionsError, match=r"keyword arguments only, got 'opus' \(str\).*`Options\(model='opus'\)`"):
        Options("opus")  # type: ignore[call-arg]


def test_a_bare_string_says_what_to_write() -> None:
    with pytest.raises(OptionsError, match=r'disallowed_tools=\["Bash"\]'):
        Options(disallowed_tools="Bash")


@pytest.mark.parametrize("given", [price, [price], (price,)])
def test_tools_become_a_server_with_the_name_of_its_key(given: Any) -> None:
    server = Options(mcp_servers={"my.shop": given}).mcp_servers["my.shop"]  # type: ignore[index]
    assert isinstance(server, ToolServer)
    assert server.name == "my.shop"
    assert list(server.tools.values()) == [price]


def test_a_misspelt_mode_is_corrected() -> None:
    with pytest.raises(OptionsError, match="Did you mean `acceptEdits`"):
        Options(permission_mode="acceptedits")  # type: ignore[arg-type]


def test_a_snake_case_key_in_a_wire_dict_names_both_ways_out() -> None:
    with pytest.raises(
        OptionsError, match=r"write `maxTurns` for `max_turns`, or use `AgentDefinition\(max_turns=...\)`"
    ):
        Options(agents={"r": {"description": "d", "prompt": "p", "max_turns": 1}})


def test_options_are_frozen() -> None:
    options = Options(model="a")
    with pytest.raises(AttributeError, match="replace"):
        options.model = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="replace"):
        del options.model


def test_what_was_given_is_copied() -> None:
    tools = ["Bash"]
    env: dict[str, str | None] = {"A": "b"}
    schema = {"type": "json_schema", "schema": {"a": [1]}}
    options = Options(allowed_tools=tools, env=env, output_format=schema)
    tools.append("Write")
    env["C"] = "d"
    schema["schema"]["a"].append(2)  # type: ignore[index]
    assert options == Options(
        allowed_tools=["Bash"], env={"A": "b"}, output_format={"type": "json_schema", "schema": {"a": [1]}}
    )


def test_defaults_cannot_be_changed_through_an_instance() -> None:
    with pytest.raises(TypeError):
        Options().env["A"] = "b"  # type: ignore[index]
    assert dict(Options().env) == {}


def test_replace_checks_and_keeps_the_rest() -> None:
    options = Options(model="a", max_turns=3, agents={"r": AgentDefinition(description="d", prompt="p")})
    other = options.replace(model="b")
    assert (other.model, other.max_turns, options.model) == ("b", 3, "a")
    assert other.agents == options.agents
    assert other.replace(model=None, max_turns=None, agents=None) == Options()
    with pytest.raises(OptionsError, match="max_turns"):
        options.replace(max_turn=3)
    with pytest.raises(OptionsError):
        options.replace(allowed_tools="Bash")


def test_equality_and_hash() -> None:
    assert Options(allowed_tools=["a"]) == Options(allowed_tools=("a",))
    assert Options(model="a") != Options(model="b")
    assert Options() != object()
    assert Options(system_prompt={"type": "preset", "preset": "claude_code"}) == Options(
        system_prompt=SystemPromptPreset()
    )
    assert hash(Timeouts(turn=3)) == hash(Timeouts(turn=3))
    assert Options(strict_mcp_config=True).given() == {"strict_mcp_config": True}


FULL: dict[str, Any] = {
    "model": "m",
    "env": {"TOKEN": SECRET, "GONE": None},
    "settings": {"env": {"KEY": SECRET}},
    "managed_settings": {"k": SECRET},
    "mcp_servers": {
        "a": McpStdioServerConfig(command="c", args=[SECRET], env={"K": SECRET}),
        "b": {"type": "http", "url": f"https://user:{SECRET}@h", "headers": {"Authorization": SECRET}},
    },
    "extra_args": {"token": SECRET},
    "agents": {"r": AgentDefinition(description="d", prompt="p", mcp_servers=[{"x": {"command": SECRET}}])},
    "sandbox": SandboxSettings(credentials={"files": [{"path": SECRET}]}),
    "plugins": [SdkPluginConfig(path="p")],
    "thinking": ThinkingConfigEnabled(budget_tokens=5),
    "task_budget": TaskBudget(total=5),
    "timeouts": Timeouts(turn=5),
    "limits": Limits(line_bytes=5),
    "hooks": {"Stop": [HookMatcher(hooks=[answer])]},
    "can_use_tool": answer,
    "cwd": Path("/"),
}


@shows("errors.secrets")
def test_repr_shows_no_secret() -> None:
    shown = repr(Options(**FULL))
    assert SECRET not in shown
    assert "'TOKEN': '...'" in shown
    assert "model='m'" in shown
    for nested in (
        McpStdioServerConfig(command="c", args=[SECRET], env={"K": SECRET}),
        McpHttpServerConfig(url=SECRET, headers={"A": SECRET}),
        FULL["agents"]["r"],
        FULL["sandbox"],
        Options(settings=SECRET),
        Options(system_prompt=SECRET),
        Options(system_prompt=[SECRET]),
        Options(system_prompt=SystemPromptPreset(append=SECRET)),
        Options(append_system_prompt=SECRET),
        Options(plan_mode_instructions=SECRET),
        Options(mcp_servers=SECRET),
    ):
        assert SECRET not in repr(nested)


@shows("errors.secrets")
def test_errors_show_no_secret() -> None:
    wrongs: list[dict[str, Any]] = [
        {"env": {"A": 5, "B": SECRET}},
        {"mcp_servers": {"a": {"command": SECRET, "args": SECRET}}},
        {"settings": {"a": {SECRET.encode()}}},
        {"extra_args": {"token": SECRET + "\0"}},
        {"env": SECRET},
        {"env": [SECRET]},
        {"managed_settings": SECRET},
        {"model": {"key": SECRET}},
        {"env": {"A": SECRET + "\0"}},
    ]
    for wrong in wrongs:
        with pytest.raises(OptionsError) as caught:
            Options(**wrong)
        assert SECRET not in str(caught.value)


def test_repr_is_short() -> None:
    assert len(repr(Options(system_prompt="x" * 100_000))) < 400


def test_options_pickle_and_copy() -> None:
    options = Options(**FULL)
    for other in (pickle.loads(pickle.dumps(options)), copy.copy(options), copy.deepcopy(options), options.replace()):
        assert other == options
        assert type(other) is Options
    assert pickle.loads(pickle.dumps(Options())) == Options()


def test_options_error_pickles() -> None:
    with pytest.raises(OptionsError) as caught:
        Options(model=5)  # type: ignore[arg-type]
    other = pickle.loads(pickle.dumps(caught.value))
    assert (str(other), other.field) == (str(caught.value), "model")


@shows("control.operations.deadlines", "bounds.defaults")
def test_timeouts_and_limits_have_the_contracts_defaults() -> None:
    assert {name: field.default for name, field in Timeouts.__fields__.items()} == {
        "version_check": 30,
        "initialize": 60,
        "control": 30,
        "rewind": 60,
        "hook": 60,
        "permission": None,
        "mcp": None,
        "first_message": None,
        "idle": None,
        "turn": None,
        "store": 60,
        "after_result": 30,
        "background": 600,
        "stop_grace": 5,
        "kill_grace": 5,
    }
    assert {name: field.default for name, field in Limits.__fields__.items()} == {
        "line_bytes": 64 * 2**20,
        "consecutive_decode_errors": 5,
        "queued_operations": 16,
        "pending_requests": 64,
        "inflight_callbacks": 32,
        "early_requests": 100,
        "buffered_bytes": 64 * 2**20,
        "mirrored_bytes": 16 * 2**20,
        "stderr_tail": 64 * 2**10,
    }


@pytest.mark.parametrize("name", sorted(Timeouts.__fields__))
def test_every_timeout_refuses_what_is_no_deadline(name: str) -> None:
    none: dict[str, Any] = {name: None}
    wrongs: list[Any] = [-1, "5", float("inf"), float("nan"), True]
    for wrong in wrongs:
        with pytest.raises(OptionsError) as caught:
            Timeouts(**{name: wrong})
        assert caught.value.field == name
    assert getattr(Timeouts(**{name: 0.5}), name) == 0.5
    if name.endswith("_grace"):
        assert getattr(Timeouts(**{name: 0}), name) == 0
        with pytest.raises(OptionsError):
            Timeouts(**none)
    else:
        assert getattr(Timeouts(**none), name) is None


def test_a_config_that_nests_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    with pytest.raises(OptionsError, match="nested too deeply"):
        Options(settings=deep)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)

# Options by themselves; what a variable sets is a value as well.
RIGHT = st.sampled_from([(name, facts.value) for name, facts in EXPECTED.items() if facts.text is not None])


@reaching
@settings(max_examples=examples(300))
@given(mostly(RIGHT, st.tuples(st.sampled_from(sorted(Options.__fields__)), JSON)))
def test_any_value_is_taken_or_refused_with_an_options_error(option: tuple[str, Any]) -> None:
    name, value = option
    given_value: dict[str, Any] = {name: value}
    try:
        options = Options(**given_value)
    except OptionsError as error:
        named = error.field
    else:
        reached()
        named = name
        assert options.replace() == options
        assert repr(options)
    assert named.startswith(name)


def test_importing_options_is_light() -> None:
    # `inspect` comes with msgspec.
    heavy = ("asyncio", "dataclasses", "subprocess", "json", "tomllib", "difflib", "tempfile")
    code = (
        "import sys; before = set(sys.modules); import hackamore.options.options, hackamore._engine.launch; "
        f"print([name for name in {heavy!r} if name in sys.modules and name not in before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(30), check=True
    )
    assert done.stdout.strip() == "[]"
