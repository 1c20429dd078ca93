"""`build_plan`: command line, stdin, working directory, sizes, warnings, and what it shows of itself."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Options, SystemPromptFile
from hackamore._engine.launch import LaunchPlan, build_plan, needs_session
from hackamore._engine.launch.plan import MAX_ARGUMENT, argument_space
from hackamore.errors import OptionsError
from hackamore.hooks import HookMatcher
from hackamore.tools import tool, tool_server
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

ONE_SHOT = ("/bin/claude", "--print", "--output-format", "stream-json", "--verbose")
SECRET = "s3cr3t-value"


def answer(*arguments: object) -> Any:
    """A callback."""


def plan_of(options: Options | None = None, prompt: Any = "hello", **changes: Any) -> LaunchPlan:
    arguments: dict[str, Any] = {
        "prompt": prompt,
        "cli_path": "/bin/claude",
        "session": False,
        "base_environment": {"PATH": "/bin"},
        "child_id": "child",
        **changes,
    }
    return build_plan(options or Options(), **arguments)


def test_a_prompt_goes_through_stdin() -> None:
    plan = plan_of(Options(model="m"), "-é\r\n ")
    assert plan.argv == (*ONE_SHOT, "--model=m")
    assert plan.stdin == "-é\r\n ".encode()


def test_a_prompt_goes_onto_the_command_line_on_request() -> None:
    plan = plan_of(Options(prompt_channel="argv", allowed_tools=["Read"]), "--version")
    assert plan.argv == (*ONE_SHOT, "--allowedTools=Read", "--", "--version")
    assert plan.stdin == b""


def test_a_session_keeps_stdin_open_and_takes_no_prompt() -> None:
    plan = plan_of(Options(title="t"), None, session=True)
    assert plan.argv == ("/bin/claude", *ONE_SHOT[2:], "--input-format", "stream-json")
    assert plan.stdin is None
    assert plan.initialize == {"title": "t"}


def test_a_one_shot_has_no_initialize_fields() -> None:
    assert plan_of(Options(title="t")).initialize == {}


@pytest.mark.parametrize("prompt", ["", " \n\t ", None])
def test_an_empty_prompt_is_refused(prompt: str | None) -> None:
    with pytest.raises(OptionsError, match="empty") as caught:
        plan_of(prompt=prompt)
    assert caught.value.field == "prompt"


@pytest.mark.parametrize("channel", ["stdin", "argv"])
def test_a_prompt_that_is_no_text_is_refused(channel: Any) -> None:
    options = Options(prompt_channel=channel)
    with pytest.raises(OptionsError, match="lone surrogate at position 1"):
        plan_of(options, "a\ud800")
    with pytest.raises(OptionsError, match="NUL"):
        plan_of(options, "a\0b")
    with pytest.raises(TypeError, match="bytes"):
        plan_of(options, b"x")


def test_cwd_must_be_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OptionsError, match="not a folder") as caught:
        plan_of(Options(cwd=file))
    assert caught.value.field == "cwd"
    with pytest.raises(OptionsError, match="does not exist"):
        plan_of(Options(cwd=tmp_path / "missing"))
    plan = plan_of(Options(cwd=tmp_path))
    assert plan.cwd == str(tmp_path)
    assert plan.environment["PWD"] == str(tmp_path)
    assert plan_of(Options(cwd="")).cwd is None


def test_a_relative_cwd_stays_so_where_the_cli_runs_elsewhere() -> None:
    assert plan_of(Options(cwd="sub"), local=False).cwd == "sub"


def test_a_relative_cwd_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    plan = plan_of(Options(cwd="sub"))
    assert plan.cwd == plan.environment["PWD"] == str(tmp_path / "sub")


def test_paths_that_are_no_unicode_are_passed_on(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(odd)
    plan = plan_of(Options(cwd=odd, add_dirs=[odd]))
    assert plan.cwd == odd
    assert os.fsencode(plan.argv[-1]) == b"--add-dir=" + os.fsencode(odd)
    plan.describe().encode()


# -- sizes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds single arguments")
@pytest.mark.parametrize(
    ("options", "field", "way_out"),
    [
        (Options(system_prompt="x" * 300_000), "system_prompt", "'type': 'file'"),
        (Options(append_system_prompt="x" * 300_000), "append_system_prompt", "append-system-prompt-file"),
        (Options(mcp_servers={"a": {"command": "x" * 300_000}}), "mcp_servers", "file"),
        (Options(settings={"a": "x" * 300_000}), "settings", "file"),
        (Options(prompt_channel="argv"), "prompt", "stdin"),
        (Options(env={"A": "x" * 300_000}), "env.A", ""),
    ],
    ids=["system_prompt", "append", "servers", "settings", "prompt", "env"],
)
def test_an_argument_that_is_too_long_is_refused_with_a_way_out(options: Options, field: str, way_out: str) -> None:
    with pytest.raises(OptionsError) as caught:
        plan_of(options, "x" * 300_000 if field == "prompt" else "hello")
    assert caught.value.field == field
    assert way_out in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds single arguments")
def test_the_longest_argument_is_the_kernels() -> None:
    import subprocess

    longest = MAX_ARGUMENT - len("--system-prompt=") - 1
    plan = plan_of(Options(system_prompt="x" * longest), cli_path="/bin/true")
    assert subprocess.run(plan.argv, env=plan.environment, timeout=patience(20)).returncode == 0
    with pytest.raises(OptionsError):
        plan_of(Options(system_prompt="x" * (longest + 1)))
    with pytest.raises(OSError, match="too long"):
        subprocess.run([*plan.argv[:-1], plan.argv[-1] + "x"], env=plan.environment, timeout=patience(20))


def test_arguments_that_are_too_long_together_are_refused() -> None:
    limit = argument_space()
    with pytest.raises(OptionsError, match="together") as caught:
        plan_of(Options(add_dirs=["x" * 100_000] * (limit // 100_000 + 1)))
    assert caught.value.field == "add_dirs"


def test_a_long_prompt_is_no_problem_on_stdin() -> None:
    assert len(plan_of(prompt="x" * 3_000_000).stdin or b"") == 3_000_000


def test_a_long_system_prompt_fits_as_a_file() -> None:
    assert plan_of(Options(system_prompt=SystemPromptFile(path="p"))).argv[-1] == "--system-prompt-file=p"


# -- settings and sandbox


def test_settings_from_a_file_are_merged_with_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('\ufeff{"model": "m", "sandbox": {"old": 1}}', encoding="utf-8")
    plan = plan_of(Options(settings="settings.json", sandbox={"enabled": False}, cwd=tmp_path))
    assert plan.argv[-1] == '--settings={"model":"m","sandbox":{"enabled":false}}'


@pytest.mark.parametrize("content", ["[]", "{", '{"a": NaN}', "[" * 100_000, None])
def test_settings_that_cannot_be_merged_are_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "s.json").write_text(content, encoding="utf-8")
    with pytest.raises(OptionsError, match="cannot be merged") as caught:
        plan_of(Options(settings=tmp_path / "s.json", sandbox={"enabled": True}))
    assert caught.value.field == "settings"


# -- a CLI that is a script


def test_a_script_is_run_by_a_runtime_of_path(tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.touch(mode=0o755)
    options = Options(executable_args=["--smol"], env={"PATH": f"relative:{tmp_path}"})
    plan = plan_of(options, cli_path="/x/cli.js")
    assert plan.argv[:4] == (str(node), "--smol", "/x/cli.js", "--print")
    assert plan.version_argv == (str(node), "--smol", "/x/cli.js", "--version")
    assert plan_of(Options(executable="/opt/bun"), cli_path="/x/cli.mjs").argv[0] == "/opt/bun"
    with pytest.raises(OptionsError, match="'deno'"):
        plan_of(Options(executable="deno", env={"PATH": str(tmp_path)}), cli_path="/x/cli.js")


def test_the_runtime_is_not_used_for_a_program() -> None:
    assert plan_of().version_argv == ("/bin/claude", "--version")
    assert plan_of(Options(executable="bun", executable_args=["--smol"])).argv[0] == "/bin/claude"


# -- warnings


def codes(options: Options) -> list[tuple[str, str]]:
    return [(warning.code, warning.context["field"]) for warning in plan_of(options).warnings]


def test_conflicts_warn_and_name_the_winner() -> None:
    assert codes(Options()) == []
    assert codes(Options(resume="r", continue_conversation=True)) == [("OPTION_CONFLICT", "continue_conversation")]
    assert codes(Options(system_prompt="a", append_system_prompt="b")) == [("OPTION_CONFLICT", "append_system_prompt")]
    assert codes(Options(max_thinking_tokens=1)) == [("DEPRECATED_OPTION", "max_thinking_tokens")]
    assert codes(Options(max_thinking_tokens=1, thinking={"type": "disabled"})) == [
        ("OPTION_CONFLICT", "max_thinking_tokens")
    ]
    plan = plan_of(Options(system_prompt="a", append_system_prompt="b"))
    assert plan.argv[5:] == ("--system-prompt=a",)
    assert "`system_prompt` wins" in plan.warnings[0].message


@shows("permissions.shadowed")
def test_a_permission_callback_that_is_not_asked_warns() -> None:
    shadowed = "PERMISSION_CALLBACK_SHADOWED"
    assert codes(Options(can_use_tool=answer, permission_mode="bypassPermissions")) == [(shadowed, "permission_mode")]
    assert codes(Options(can_use_tool=answer, allowed_tools=["Read"])) == [(shadowed, "allowed_tools")]
    assert codes(Options(can_use_tool=answer, allowed_tools=["Read(*)"])) == [(shadowed, "allowed_tools")]
    assert codes(Options(can_use_tool=answer, allowed_tools=["Bash(git status)"])) == []
    servers: dict[str, Any] = {"shop": tool_server("shop", []), "my notes": answer, "files": {"command": "files"}}
    own = ["mcp__shop__price", "mcp__shop", "mcp__my_notes__*", "mcp__shop__price()"]
    assert codes(Options(can_use_tool=answer, mcp_servers=servers, allowed_tools=own)) == []
    for rule in ("mcp__files__read", "mcp__shopping__price", "mcp__*", "Read"):
        asked = Options(can_use_tool=answer, mcp_servers=servers, allowed_tools=[*own, rule])
        (warning,) = plan_of(asked).warnings
        assert f"allows {rule} altogether" in warning.message
    assert codes(Options(can_use_tool=answer, skills="all")) == [(shadowed, "skills")]
    assert codes(Options(allowed_tools=["Read"])) == []


def test_a_sandbox_in_settings_is_not_replaced_in_silence() -> None:
    options = Options(settings={"sandbox": {"enabled": True}}, sandbox={"excludedCommands": ["git"]})
    (warning,) = plan_of(options).warnings
    assert (warning.code, warning.context["field"]) == ("OPTION_CONFLICT", "settings.sandbox")


@pytest.mark.parametrize(
    ("options", "field", "hint"),
    [
        (Options(sandbox={"enable": True}), "sandbox.enable", "`enabled`"),
        (Options(sandbox={"network": {"allowedDomain": ["a"]}}), "sandbox.network.allowedDomain", "`allowedDomains`"),
        (Options(sandbox={"filesystem": {"allowWrites": ["a"]}}), "sandbox.filesystem.allowWrites", "`allowWrite`"),
        (Options(agents={"r": {"description": "d", "prompt": "p", "tool": ["Read"]}}), "agents.r.tool", "`tools`"),
        (Options(mcp_servers={"s": {"command": "c", "arg": ["-x"]}}), "mcp_servers.s.arg", "`args`"),
        (
            Options(mcp_servers={"s": {"type": "http", "url": "https://h", "header": {"A": SECRET}}}),
            "mcp_servers.s.header",
            "`headers`",
        ),
    ],
)
def test_a_key_that_is_nearly_known_is_a_warning_and_is_sent(options: Options, field: str, hint: str) -> None:
    plan = plan_of(options, None, session=True)
    [warning] = plan.warnings
    assert (warning.code, warning.context["field"]) == ("OPTION_CONFLICT", field)
    assert str(warning).endswith(f"Did you mean {hint}?")
    assert SECRET not in str(warning)


def test_a_flag_that_is_given_several_times_does_not_warn_about_itself() -> None:
    assert codes(Options(extra_args={"some-flag": ["a", "b"]})) == []
    assert codes(Options(model="m", extra_args={"model": ["a", "b"]})) == [("OPTION_CONFLICT", "model")]


@pytest.mark.parametrize("new", [{"hologram": True}, {"disabled": True, "ripgrepArgs": [], "nameOf": ""}])
def test_a_key_that_is_new_is_no_warning(new: dict[str, Any]) -> None:
    options = Options(
        sandbox={"enabled": True, **new},
        agents={"r": {"description": "d", "prompt": "p", **new}},
        mcp_servers={"s": {"command": "c", **new}, "sdk": {"type": "sdk", "name": "x", "instance": object()}},
    )
    assert plan_of(options, None, session=True).warnings == ()


def test_a_flag_that_extra_args_send_again_is_a_conflict() -> None:
    def pairs(**given: Any) -> list[tuple[str, str]]:
        return [(w.context["field"], w.context["winner"]) for w in plan_of(Options(**given)).warnings]

    denied = {"permissions": {"deny": ["Bash"]}}
    assert pairs(settings=denied, extra_args={"settings": "{}"}) == [("settings", "extra_args")]
    assert pairs(effort="low", extra_args={"effort": "high"}) == [("extra_args", "effort")]
    assert pairs(disallowed_tools=["A"], extra_args={"disallowedTools": "B", "name": "x"}) == []


# -- what it shows


def test_a_plan_that_a_transport_is_tested_with_describes_itself() -> None:
    plan = LaunchPlan(argv=("claude", "--model=a b"), environment={})
    assert plan.describe().splitlines()[0] == "command: claude '--model=a b'"
    assert repr(plan).startswith("<LaunchPlan command: claude")


def test_a_plan_describes_itself_without_secrets() -> None:
    options = Options(
        env={"TOKEN": SECRET},
        settings={"k": SECRET},
        managed_settings={"k": SECRET},
        mcp_servers={"a": {"command": SECRET}},
        extra_args={"token": SECRET},
        prompt_channel="argv",
        system_prompt="long " * 100,
    )
    plan = plan_of(options, f"prompt with {SECRET}")
    for shown in (plan.describe(), repr(plan), str(plan)):
        assert SECRET not in shown
        assert "--mcp-config=..." in shown
        assert "TOKEN" in shown
        assert len(shown) < 2_000


def test_a_prompt_that_looks_like_a_flag_is_no_less_secret() -> None:
    plan = plan_of(Options(prompt_channel="argv"), f"-{SECRET}")
    assert SECRET not in plan.describe()
    options = Options(executable="/bin/true", executable_args=[f"-p{SECRET}", "-x"])
    script = build_plan(options, prompt="x", cli_path="/cli.js", session=False, base_environment={}, child_id="c")
    assert SECRET not in script.describe()


def test_a_description_has_no_control_characters() -> None:
    plan = plan_of(Options(model="\x1b[31mred"))
    assert "\x1b" not in plan.describe()


def test_needs_session_names_all_options() -> None:
    options = Options(
        hooks={"Stop": [HookMatcher(hooks=[answer])]},
        title="t",
        can_use_tool=answer,
        model="m",
        enable_file_checkpointing=True,
    )
    assert sorted(needs_session(options)) == ["can_use_tool", "enable_file_checkpointing", "hooks", "title"]


# -- what a person reads


def told(options: Options) -> list[tuple[str, str, dict[str, Any]]]:
    return [(warning.code, warning.message, warning.context) for warning in plan_of(options).warnings]


@tool
def price(article: str) -> str:
    return article


@tool
def stock(article: str) -> str:
    return article


SHADOWED = "so the CLI does not call `can_use_tool`."


@pytest.mark.parametrize(
    ("options", "code", "message", "context"),
    [
        (
            Options(system_prompt="a", append_system_prompt="b"),
            "OPTION_CONFLICT",
            "`system_prompt` wins over `append_system_prompt`, which is not sent.",
            {"field": "append_system_prompt", "winner": "system_prompt"},
        ),
        (
            Options(effort="low", extra_args={"effort": "high"}),
            "OPTION_CONFLICT",
            "`effort` wins over `extra_args`: both set `--effort`, and the CLI takes the last one alone.",
            {"field": "extra_args", "winner": "effort"},
        ),
        (
            Options(sandbox={"enable": True}),
            "OPTION_CONFLICT",
            "`sandbox.enable` is a key that this version does not know; it is sent as it is. Did you mean `enabled`?",
            {"field": "sandbox.enable"},
        ),
        (
            Options(mcp_servers={"shop": tool_server("shop", [price])}),
            "TOOL_WITHOUT_DESCRIPTION",
            "No description: `price` in `mcp_servers.shop`. The model cannot know when to call such a tool. "
            "Write a docstring, or `@tool(description=...)`.",
            {"field": "mcp_servers.shop"},
        ),
        (
            Options(can_use_tool=answer, permission_mode="bypassPermissions"),
            "PERMISSION_CALLBACK_SHADOWED",
            f"permission_mode='bypassPermissions' allows everything, {SHADOWED}",
            {"field": "permission_mode"},
        ),
        (
            Options(can_use_tool=answer, permission_mode="dontAsk"),
            "PERMISSION_CALLBACK_SHADOWED",
            f"permission_mode='dontAsk' denies what is not allowed, {SHADOWED}",
            {"field": "permission_mode"},
        ),
        (
            Options(can_use_tool=answer, allowed_tools=["Read", "Edit()", "Bash(git:*)"]),
            "PERMISSION_CALLBACK_SHADOWED",
            f"allowed_tools allows Read, Edit() altogether, {SHADOWED}",
            {"field": "allowed_tools"},
        ),
        (
            Options(can_use_tool=answer, skills="all"),
            "PERMISSION_CALLBACK_SHADOWED",
            f"skills='all' allows the Skill tool altogether, {SHADOWED}",
            {"field": "skills"},
        ),
    ],
)
def test_a_warning_says_what_was_decided_and_names_the_option(
    options: Options, code: str, message: str, context: dict[str, Any]
) -> None:
    assert told(options) == [(code, message, context)]


def test_each_tool_without_a_description_is_named_and_no_other() -> None:
    @tool
    def described(article: str) -> str:
        """Say something."""
        return article

    other = tool_server("other", [described, price, stock])
    servers: dict[str, Any] = {"one": tool_server("one", [described]), "two": answer, "three": other}
    (found,) = told(Options(mcp_servers=servers))
    assert found[1].startswith("No description: `price`, `stock` in `mcp_servers.three`.")


def raised(*given: Any, **changes: Any) -> str:
    with pytest.raises(OptionsError) as caught:
        plan_of(*given, **changes)
    return str(caught.value)


def test_an_error_says_what_is_wrong_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("[]")
    assert raised(Options(cwd=tmp_path / "file")).endswith(
        f"is not a folder: {tmp_path}/file. Create the folder or correct the path."
    )
    assert raised(Options(cwd="a\x1bb")).endswith(
        f"does not exist: {tmp_path}/a\\x1bb (`a\\x1bb` relative to the working directory). "
        "Create the folder or correct the path."
    )
    cannot = "`settings` cannot be merged with `sandbox`: "
    for settings, reason in (
        (tmp_path / "file", "it is not a JSON object."),
        ("{nonsense", "it is not JSON."),
        (tmp_path / "absent", "No such file or directory."),
    ):
        assert cannot + reason in raised(Options(settings=settings, sandbox={"enabled": True}))
    assert raised(prompt=" ") == "The prompt is empty: the CLI needs something to answer."
    assert raised(prompt="a\0b") == "The prompt contains a NUL character; remove it."
    assert raised(prompt="a\ud800") == (
        "The prompt has a lone surrogate at position 1, which is not Unicode text; decode it with errors='replace' where it "
        "comes from."
    )
    assert raised(Options(env={"PATH": ""}), cli_path="/x/cli.js") == (
        "The CLI is a script and PATH has no 'node' to run it; set `executable`."
    )
    with pytest.raises(OptionsError) as refused:
        plan_of(Options(env={"PATH": ""}), cli_path="/x/cli.js")
    assert refused.value.field == "executable"


def test_a_description_is_complete_and_has_an_end() -> None:
    options = Options(
        cwd="/",
        model="m",
        user="shop",
        env={"B": "1", "A": SECRET},
        title="t",
        agents={"r": {"description": "d", "prompt": "p"}},
    )
    assert plan_of(options, None, session=True).describe().splitlines() == [
        "command: /bin/claude --output-format stream-json --verbose --model=m --input-format stream-json",
        "cwd: /",
        "stdin: open",
        "variables: A, B, CLAUDE_CODE_ENTRYPOINT, CLAUDE_CODE_SDK_READS_SESSION_STATE, HACKAMORE_CHILD_ID, PATH, PWD",
        "user: shop",
        "initialize: title, agents",
    ]
    for length, shown in ((80, "a" * 80), (81, "a" * 77 + "...")):
        long = Options(model="a" * length, system_prompt=SECRET, append_system_prompt="b")
        assert plan_of(long).describe().splitlines() == [
            f"command: {' '.join(ONE_SHOT)} --system-prompt=... --model={shown}",
            "cwd: (inherited)",
            "stdin: 5 bytes",
            "variables: CLAUDE_CODE_ENTRYPOINT, CLAUDE_CODE_SDK_READS_SESSION_STATE, HACKAMORE_CHILD_ID, PATH",
            "warning: OPTION_CONFLICT: `system_prompt` wins over `append_system_prompt`, which is not sent.",
        ]
    assert 19_000 < len(plan_of(Options(add_dirs=["x" * 70] * 1_000)).describe()) < 21_000


@pytest.mark.parametrize(
    ("options", "changes", "field", "problem"),
    [
        (Options(), {"prompt": "a\0b"}, "prompt", "NUL character"),
        (Options(), {"prompt": "a\ud800"}, "prompt", "lone surrogate"),
        (Options(), {"cli_path": "/bin/cl\0ude"}, "cli_path", "`cli_path` must not contain a NUL character."),
        (Options(), {"cli_path": "/bin/cl\ud800"}, "cli_path", "`cli_path` must not contain lone surrogates."),
        (
            Options(prompt_channel="argv"),
            {"prompt": "\u00e9" * 100_000},
            "prompt",
            "is too long for a command line: 200,001 bytes; one argument may have 131,072. Use prompt_channel='stdin'.",
        ),
    ],
)
def test_an_argument_that_cannot_be_passed_names_its_option(
    options: Options, changes: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(OptionsError) as caught:
        plan_of(options, **changes)
    assert caught.value.field == field
    assert problem in str(caught.value)


def test_arguments_and_variables_may_have_what_the_system_takes_and_no_byte_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hackamore._engine.launch import plan as module

    plan = plan_of(Options(model="caf\u00e9"))
    texts = [*plan.argv, *(f"{name}={value}" for name, value in plan.environment.items())]
    total = sum(len(text.encode()) + 1 + 8 for text in texts)  # each has its end, and a pointer to it
    monkeypatch.setattr(module, "argument_space", lambda: total)
    assert plan_of(Options(model="caf\u00e9")).argv == plan.argv
    monkeypatch.setattr(module, "argument_space", lambda: total - 1)
    with pytest.raises(OptionsError, match=f"have {total} bytes together, and the operating system takes {total - 1}"):
        plan_of(Options(model="caf\u00e9"))
