"""`Options.load`: explicit arguments over variables over a named file, and what a file may not say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options, Timeouts
from hackamore.errors import OptionsError
from hackamore.policy import Policy
from tests.contract import shows
from tests.options.expectations import EXPECTED

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cr3t-value"


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "options.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_sources_there_are_defaults() -> None:
    assert Options.load(environment={}) == Options()


def test_explicit_wins_over_variables_over_file_over_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, 'model = "file"\nmax_turns = 1\neffort = "low"\n')
    environment = {"HACKAMORE_MODEL": "variable", "HACKAMORE_MAX_TURNS": "2"}
    options = Options.load(file, environment=environment, model="explicit")
    assert (options.model, options.max_turns, options.effort, options.agent) == ("explicit", 2, "low", None)


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HACKAMORE_MODEL", "variable")
    assert Options.load().model == "variable"
    assert Options().model is None


def test_no_file_is_read_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hackamore.toml", "options.toml", ".hackamore.toml", "pyproject.toml"):
        (tmp_path / name).write_text('model = "trap"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert Options.load(environment={}) == Options()


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("HACKAMORE_MODEL", "5", "model", "5"),
        ("HACKAMORE_RESUME", "true", "resume", "true"),
        ("HACKAMORE_CLI_PATH", "/bin/claude", "cli_path", "/bin/claude"),
        ("HACKAMORE_MAX_BUDGET_USD", "0.5", "max_budget_usd", 0.5),
        ("HACKAMORE_STRICT_MCP_CONFIG", "true", "strict_mcp_config", True),
        ("HACKAMORE_ALLOWED_TOOLS", '["Read"]', "allowed_tools", ("Read",)),
        ("HACKAMORE_ENV", '{"A": null, "B": "c"}', "env", {"A": None, "B": "c"}),
        ("HACKAMORE_SYSTEM_PROMPT", "be brief", "system_prompt", "be brief"),
        ("HACKAMORE_SYSTEM_PROMPT", '["a", "b"]', "system_prompt", ("a", "b")),
        ("HACKAMORE_SETTINGS", "file.json", "settings", "file.json"),
        ("HACKAMORE_SETTINGS", '{"a": 1}', "settings", {"a": 1}),
        ("HACKAMORE_SKILLS", "all", "skills", "all"),
        ("HACKAMORE_SKILLS", '["pdf"]', "skills", ("pdf",)),
        ("HACKAMORE_DEBUG", "true", "debug", True),
        ("HACKAMORE_DEBUG", "api,hooks", "debug", "api,hooks"),
        ("HACKAMORE_TIMEOUTS", '{"turn": 5}', "timeouts", Timeouts(turn=5)),
        ("HACKAMORE_INHERIT_ENV", "false", "inherit_env", False),
        ("HACKAMORE_USER", "nobody", "user", "nobody"),
    ],
)
def test_variables_are_json_except_for_plain_strings(variable: str, value: str, field: str, expected: Any) -> None:
    assert getattr(Options.load(environment={variable: value}), field) == expected


NEEDED: dict[str, dict[str, Any]] = {
    "supported_dialog_kinds": {"on_user_dialog": print},
    "policy_tags": {"policy": Policy([])},
    "policy_audit": {"policy": Policy([])},
    "resume_session_at": {"resume": "r"},
    "resume_drops_turn": {"resume": "r", "resume_session_at": "m"},
}
"""The options that some options need beside them."""


@pytest.mark.parametrize("name", EXPECTED)
def test_every_field_can_come_from_a_variable_or_says_that_it_is_a_function(name: str) -> None:
    text, value = EXPECTED[name].text, EXPECTED[name].value
    environment = {f"HACKAMORE_{name.upper()}": "x" if text is None else text}
    if text is None:
        with pytest.raises(OptionsError, match="is a function") as caught:
            Options.load(environment=environment)
        assert caught.value.field == name
        return
    loaded = getattr(Options.load(environment=environment, **NEEDED.get(name, {})), name)
    assert loaded == value
    assert type(loaded) is type(value)
    with pytest.raises(OptionsError) as caught:
        Options.load(environment={f"HACKAMORE_{name.upper()}": "\0"})
    assert caught.value.field == name


def toml(value: Any) -> str:
    """Return JSON as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(part)}" for key, part in value.items()) + "}"
    return json.dumps(value)


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected.text is not None])
def test_a_file_may_set_what_nobody_can_misuse(name: str, tmp_path: Path) -> None:
    expected = EXPECTED[name]
    try:
        given = json.loads(expected.text or "")
    except ValueError:
        given = expected.text
    # Text that looks like a number or a bool is text here, too: a file has types.
    given = expected.value if isinstance(expected.value, str) else given
    file = written(tmp_path, f"{name} = {toml(given)}\n")
    if expected.refused:
        with pytest.raises(OptionsError, match="trust_file=True") as caught:
            Options.load(file, environment={}, **NEEDED.get(name, {}))
        assert caught.value.field == name
    options = Options.load(file, trust_file=expected.refused, environment={}, **NEEDED.get(name, {}))
    assert getattr(options, name) == expected.value


def test_a_variable_that_is_no_json_is_refused_without_its_value() -> None:
    with pytest.raises(OptionsError, match="HACKAMORE_ENV must be JSON") as caught:
        Options.load(environment={"HACKAMORE_ENV": f"TOKEN={SECRET}"})
    assert SECRET not in str(caught.value)
    assert caught.value.field == "env"


def test_other_variables_are_left_alone_and_misspelt_ones_are_not() -> None:
    assert (
        Options.load(
            environment={"HACKAMORE_CHILD_ID": "x", "HACKAMORE_HOME": "y", "MODEL": "z", "hackamore_model": "q"}
        )
        == Options()
    )
    for variable in (
        "HACKAMORE_MODEL_",
        "HACKAMORE_DISSALLOWED_TOOLS",
        "Hackamore_Model".replace("Hackamore", "HACKAMORE"),
    ):
        with pytest.raises(OptionsError, match="Did you mean"):
            Options.load(environment={variable: "x"})


def test_a_wrong_value_says_where_it_was_set(tmp_path: Path) -> None:
    file = written(tmp_path, 'effort = "hihg"\n[timeouts]\nturn = 0\n')
    with pytest.raises(OptionsError) as caught:
        Options.load(environment={"HACKAMORE_MODEL": ""})
    assert str(caught.value) == "`model` must not be empty. It was set by the variable HACKAMORE_MODEL."
    assert caught.value.field == "model"
    with pytest.raises(OptionsError, match=r"`effort` .* Did you mean `high`\? It was set in the file .*\.toml\.$"):
        Options.load(file, environment={})
    with pytest.raises(OptionsError, match=r"timeouts.*It was set in the file .*\.toml\.$") as nested:
        Options.load(file, environment={}, effort="high")
    assert nested.value.field == "timeouts.turn"
    with pytest.raises(OptionsError, match=r"It was set by the variable HACKAMORE_EFFORT\.$"):
        Options.load(file, environment={"HACKAMORE_EFFORT": "hihg"})
    with pytest.raises(OptionsError) as own:
        Options.load(file, environment={"HACKAMORE_EFFORT": "hihg"}, effort="lo")
    assert "was set" not in str(own.value)


# -- layers


def test_env_and_settings_are_merged_deeply(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[env]\nA = "file"\nB = "file"\n[settings.permissions]\nallow = ["x"]\ndeny = ["y"]\n[settings]\nmodel = "m"\n',
    )
    environment = {
        "HACKAMORE_SETTINGS": '{"permissions": {"allow": ["z"]}}',
        "HACKAMORE_ENV": '{"B": "variable", "C": "variable"}',
    }
    options = Options.load(file, trust_file=True, environment=environment, env={"C": None}, settings='{"extra": 1}')
    assert options.env == {"A": "file", "B": "variable", "C": None}
    assert options.settings == {"permissions": {"allow": ["z"], "deny": ["y"]}, "model": "m", "extra": 1}


def test_a_settings_path_cannot_be_merged_and_wins_whole(tmp_path: Path) -> None:
    options = Options.load(environment={"HACKAMORE_SETTINGS": '{"a": 1}'}, settings="file.json")
    assert options.settings == "file.json"


def test_add_dirs_and_extra_args_are_put_together_lowest_first(tmp_path: Path) -> None:
    file = written(tmp_path, 'add_dirs = ["/file"]\n[extra_args]\na-a = "1"\nb-b = "1"\n')
    environment = {"HACKAMORE_ADD_DIRS": '["/variable"]', "HACKAMORE_EXTRA_ARGS": '{"b-b": "2", "c-c": null}'}
    options = Options.load(file, trust_file=True, environment=environment, add_dirs=("/explicit",))
    assert options.add_dirs == ("/file", "/variable", "/explicit")
    assert options.extra_args == {"a-a": "1", "b-b": "2", "c-c": None}
    assert list(options.extra_args) == ["a-a", "b-b", "c-c"]


def test_of_everything_else_the_highest_source_wins_whole(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        'betas = ["a"]\ndisallowed_tools = ["X"]\n'
        '[agents.file]\ndescription = "d"\nprompt = "p"\n[timeouts]\nturn = 5\n',
    )
    environment = {"HACKAMORE_BETAS": '["b"]', "HACKAMORE_AGENTS": '{"v": {"description": "d", "prompt": "p"}}'}
    options = Options.load(file, environment=environment, timeouts=Timeouts(idle=3))
    assert options.betas == ("b",)
    assert list(options.agents or ()) == ["v"]
    assert options.timeouts == Timeouts(idle=3)
    assert options.disallowed_tools == ("X",)


# -- files


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("modle = 1", "modle", "Did you mean `model`"),
        ("model = ", "file", "not valid TOML"),
        ("model = 5", "model", "must be a str"),
        ("hooks = {}", "hooks", "is a function"),
        ("[timeouts]\nturn = 0", "timeouts.turn", "more than 0"),
    ],
)
def test_a_wrong_file_names_what_is_wrong(tmp_path: Path, text: str, field: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message) as caught:
        Options.load(written(tmp_path, text), environment={})
    assert caught.value.field == field


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(OptionsError, match="cannot be read") as caught:
            Options.load(path, environment={})
        assert str(path) in str(caught.value)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(OptionsError, match="not valid TOML"):
        Options.load(tmp_path / "binary.toml", environment={})


REFUSED = {
    "policy_tags": 'policy_tags = {tenant = "acme"}',
    "policy_audit": 'policy_audit = "a.jsonl"',
    "cli_path": 'cli_path = "/x"',
    "env": 'env = {A = "b"}',
    "extra_args": 'extra_args = {chrome = ""}',
    "settings": "settings = {}",
    "mcp_servers": 'mcp_servers = {a = {command = "x"}}',
    "plugins": 'plugins = [{type = "local", path = "x"}]',
    "executable": 'executable = "x"',
    "executable_args": 'executable_args = ["x"]',
    "inherit_env": "inherit_env = false",
    "managed_settings": "managed_settings = {}",
    "sandbox": "sandbox = {}",
    "permission_prompt_tool_name": 'permission_prompt_tool_name = "x"',
    "allow_dangerously_skip_permissions": "allow_dangerously_skip_permissions = true",
    "project_config_root": 'project_config_root = "x"',
    "user": 'user = "x"',
    "debug_file": 'debug_file = "x"',
    "trace": 'trace = "x"',
    "allowed_tools": 'allowed_tools = ["Bash"]',
    "append_system_prompt_file": 'append_system_prompt_file = "/etc/passwd"',
    "plugin_urls": 'plugin_urls = ["https://example.org/p.zip"]',
    "bare": "bare = true",
    "safe_mode": "safe_mode = true",
    "tool_aliases": 'tool_aliases = {Read = "Bash"}',
    "add_dirs": 'add_dirs = ["/"]',
    "cwd": 'cwd = "."',
    "system_prompt.path": 'system_prompt = {type = "file", path = "/etc/passwd"}',
    "agents.r.hooks": '[agents.r]\ndescription = "d"\nprompt = "p"\nhooks = {Stop = []}',
    "permission_mode": 'permission_mode = "bypassPermissions"',
    "permission_mode ": 'permission_mode = "auto"',
    "agents.r.permissionMode": '[agents.r]\ndescription = "d"\nprompt = "p"\npermissionMode = "bypassPermissions"',
    "agents.r.mcpServers": '[agents.r]\ndescription = "d"\nprompt = "p"\nmcpServers = [{x = {command = "y"}}]',
}


def test_all_refusals_are_tested() -> None:
    assert {name for name, expected in EXPECTED.items() if expected.refused} <= set(REFUSED)


@pytest.mark.parametrize(("field", "text"), REFUSED.items())
def test_what_a_stranger_could_misuse_is_refused_from_a_file(tmp_path: Path, field: str, text: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(OptionsError, match="trust_file=True") as caught:
        Options.load(file, environment={})
    assert caught.value.field == field.strip()
    needed = NEEDED.get(field.strip(), {})
    assert Options.load(file, trust_file=True, environment={}, **needed) != Options(**needed)


MODES = ("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual", "hologram")


@shows("options.untrusted-mode")
@pytest.mark.parametrize("mode", MODES)
def test_an_untrusted_file_may_set_the_modes_default_and_plan_only(tmp_path: Path, mode: str) -> None:
    agent = '[agents.r]\ndescription = "d"\nprompt = "p"\npermissionMode = '
    for text, field in (
        (f'permission_mode = "{mode}"', "permission_mode"),
        (f'{agent}"{mode}"', "agents.r.permissionMode"),
    ):
        file = written(tmp_path, text)
        if mode in ("default", "plan"):
            assert Options.load(file, environment={}) != Options()
        else:
            with pytest.raises(
                OptionsError, match=f"only set the modes default and plan, not '{mode}'; pass"
            ) as caught:
                Options.load(file, environment={})
            assert caught.value.field == field


def test_what_is_wrong_is_said_without_control_characters(tmp_path: Path) -> None:
    file = written(tmp_path, '[agents."\\u001b]0;x\\u0007"]\ndescription = 5\n')
    with pytest.raises(OptionsError) as caught:
        Options.load(file, environment={})
    assert str(caught.value).isprintable()
