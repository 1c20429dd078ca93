"""The main paths (queries, sessions, hooks, permissions, tools, bypassPermissions) on every CLI version of `pinned_cli.toml`."""

from __future__ import annotations

import os
import shutil
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Allow, Deny, HookMatcher, HookOutput, Options, UnsupportedCLIVersionError, tool, tool_server
from hackamore.testing import Reply, ScriptedModel, ToolCall
from tests.conftest import PROJECT, RealCLI, pinned_cli_path
from tests.contract import shows
from tests.support.talking import Running, got, texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.shell import Shell

pytestmark = [pytest.mark.real_cli, pytest.mark.usefixtures("leaves_nothing"), pytest.mark.timeout(90)]

PIN = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))
FOR_QUERIES = [str(PIN["version"]), *PIN["older"]]
FOR_SESSIONS = [version for version in FOR_QUERIES if hackamore.version_meets_minimum(version, "2.0.0")]

# CLI 1.0.33 refuses bypassPermissions as root, in a sandbox as well, which a container for tests is.
NOT_ROOT = "process.getuid = () => 1000;\n"


@pytest.fixture
def driven(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Options]:
    """Return a function that gives the options for the CLI version of the test, isolated, against a scripted model."""
    version = request.node.callspec.params["version"]
    path = pinned_cli_path() if version == PIN["version"] else PROJECT / ".dev" / "claude" / version / "claude"
    if not os.access(path, os.X_OK):
        pytest.skip(f"Claude Code CLI {version} is not at {path}; `python scripts/install_older.py` installs it")
    cwd = tmp_path / "work"
    cwd.mkdir()
    cli = RealCLI(str(path), cwd, tmp_path)

    def options(model: ScriptedModel, /, **more: Any) -> Options:
        given: dict[str, Any] = {"cli_path": path, "cwd": cwd, "env": cli.env(model), "inherit_env": False}
        return Options(**given | more)

    return options


def writes(path: Path) -> ToolCall:
    """Return a call of a tool that earlier CLIs run without further requests to the model, which Bash is not."""
    return ToolCall("Write", {"file_path": str(path), "content": "x"})


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@shows("launch.version.main-paths")
@pytest.mark.parametrize("version", FOR_QUERIES)
def test_a_query(version: str, shell: Shell, driven: Callable[..., Options]) -> None:
    async def scenario() -> None:
        with ScriptedModel("hello there") as model:
            outcome = await shell.run("hello", driven(model, model="sonnet", max_turns=3))
        assert outcome.text == "hello there"
        assert outcome.session_id

    shell.play(scenario)


@shows("launch.version.main-paths")
@pytest.mark.parametrize("version", FOR_QUERIES)
def test_bypass_permissions(version: str, shell: Shell, driven: Callable[..., Options], tmp_path: Path) -> None:
    more: dict[str, Any] = {}
    if version.startswith("1.") and os.geteuid() == 0:
        (tmp_path / "not_root.js").write_text(NOT_ROOT)
        more["cli_path"] = PROJECT / ".dev" / "claude" / version / "package" / "cli.js"
        more["executable"] = shutil.which("node") or str(PROJECT / ".dev" / "node" / PIN["node"]["release"] / "node")
        more["executable_args"] = [f"--require={tmp_path / 'not_root.js'}"]

    async def scenario() -> None:
        with ScriptedModel(Reply(writes(tmp_path / "work" / "made")), "done") as model:
            outcome = await shell.run("make it", driven(model, permission_mode="bypassPermissions", **more))
        assert outcome.text == "done"
        assert (tmp_path / "work" / "made").exists()
        (tmp_path / "work" / "made").unlink()

    shell.play(scenario)


@shows("launch.version.main-paths")
@pytest.mark.parametrize("version", FOR_SESSIONS)
def test_a_session_with_a_hook_a_permission_and_a_tool(
    version: str, shell: Shell, driven: Callable[..., Options], tmp_path: Path
) -> None:
    seen: list[str] = []

    def hook(value: Any, _: Any) -> HookOutput:
        seen.append(f"hook {value.tool_name}")
        return HookOutput.proceed()

    def may(request: hackamore.PermissionRequest) -> Allow | Deny:
        seen.append(f"asked {request.tool_name}")
        return Allow() if request.tool_name.startswith("mcp__") else Deny("not now")

    async def scenario() -> None:
        seen.clear()
        with ScriptedModel(
            Reply(writes(tmp_path / "work" / "refused")),
            Reply(ToolCall("mcp__sums__add", {"a": 2, "b": 40})),
            "all done",
            "again",
        ) as model:
            options = driven(
                model,
                hooks={"PreToolUse": [HookMatcher(hooks=[hook])]},
                can_use_tool=may,
                mcp_servers={"sums": tool_server("sums", [add])},
            )
            async with Running(shell, options) as session:
                assert (await texts(await got(session.send("do it"))))[-1] == "all done"
                assert await texts(await got(session.send("and again"))) == ["again"]
            contents = [str(answer.content) for request in model.requests for answer in request.tool_results]
        assert any("not now" in content for content in contents)
        assert any("42" in content for content in contents)
        assert seen == ["hook Write", "asked Write", "hook mcp__sums__add", "asked mcp__sums__add"]

    shell.play(scenario)


@shows("launch.version.option-too-new")
@pytest.mark.parametrize("version", ["2.0.0", "1.0.33"])
def test_an_option_that_is_too_new(version: str, shell: Shell, driven: Callable[..., Options]) -> None:
    async def scenario() -> None:
        with ScriptedModel() as model, pytest.raises(UnsupportedCLIVersionError, match="max_budget_usd") as caught:
            await shell.run("hello", driven(model, max_budget_usd=1))
        assert caught.value.detected == version

    shell.play(scenario)


@shows("launch.version.option-too-new")
@pytest.mark.parametrize("version", ["1.0.33"])
def test_a_session_needs_a_newer_cli(version: str, shell: Shell, driven: Callable[..., Options]) -> None:
    async def scenario() -> None:
        with ScriptedModel() as model, pytest.raises(UnsupportedCLIVersionError, match=r"2\.0\.0"):
            async with Running(shell, driven(model)):
                pass

    shell.play(scenario)
