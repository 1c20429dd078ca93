"""The sides of a session with another machine: functions are here; files, variables and transcripts are over there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
import pytest

from hackamore import Allow, HookContext, HookMatcher, Options, PermissionRequest, RemoteStartError, hooks, tool
from hackamore.runtime import private_loop
from hackamore.testing import Reply, ScriptedModel, ToolCall
from hackamore.transcripts import project_key
from hackamore.transcripts.stores import MemoryStore
from hackamore.transports.process.prepare import launch_plan
from hackamore.transports.remote import Command, Machines
from tests.contract.shows import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.support.shell import Shell


@pytest.fixture(autouse=True, scope="module")
def thread_of_stores() -> None:
    """Start the thread that the stores of blocking programs share: it stays."""
    private_loop.run(anyio.sleep, 0)


def machine(home: Path, **more: str) -> tuple[str, ...]:
    """Return the command that reaches a machine with a home of its own and no variable of this process."""
    home.mkdir(parents=True, exist_ok=True)
    return ("env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", *(f"{name}={value}" for name, value in more.items()))


@pytest.mark.real_cli
@shows("remote.functions", "remote.paths")
def test_functions_are_here_and_files_over_there(shell: Shell, claude_path: str, tmp_path: Path) -> None:
    far = tmp_path / "far" / "repo"
    far.mkdir(parents=True)
    (far / "colour.txt").write_text("blue")
    seen: dict[str, object] = {}

    @tool(read_only=True)
    def stock(article: str) -> str:
        """Return the stock of an article."""
        seen["tool"] = os.getpid()
        return f"3 of {article}"

    def look(call: hooks.PreToolUseHookInput, context: HookContext) -> None:
        seen["hook"] = call.tool_input.get("file_path"), os.getpid()

    def decide(request: PermissionRequest) -> Allow:
        if request.tool_name == "Bash":
            seen["permission"] = request.input["command"].split()[0], os.getpid()
        return Allow()

    place = Command(machine(tmp_path / "home", OVER_THERE="yes"), paths={str(tmp_path / "near"): str(far)})
    options = Options(
        cli_path=claude_path,
        cwd=tmp_path / "near",  # not a folder of this machine
        mcp_servers={"shop": [stock]},
        hooks={"PreToolUse": HookMatcher("Read", look)},
        can_use_tool=decide,
    )
    calls = (
        ToolCall("Read", {"file_path": str(far / "colour.txt")}),
        ToolCall("mcp__shop__stock", {"article": "paint"}),
        ToolCall("Bash", {"command": 'touch made; echo "<${OVER_THERE-}> <${HACKAMORE_TEST_HERE-}>"'}),
    )
    with ScriptedModel(*map(Reply, calls), Reply("Done.")) as model, pytest.MonkeyPatch.context() as here:
        here.setenv("HACKAMORE_TEST_HERE", "here")

        async def scenario() -> None:
            answer = await shell.run("Go.", options.replace(env=model.env), transport=place)
            assert answer.text == "Done."

        shell.play(scenario)
        results = str(model.requests[-1].body["messages"])
    assert seen == {
        "hook": (str(far / "colour.txt"), os.getpid()),
        "permission": ("touch", os.getpid()),
        "tool": os.getpid(),
    }
    assert place.paths.near(str(far / "colour.txt")) == str(tmp_path / "near" / "colour.txt")
    assert (far / "made").exists()
    assert "3 of paint" in results
    assert "blue" in results
    assert "<yes> <>" in results


@pytest.mark.real_cli
@shows("remote.store")
@pytest.mark.parametrize("folder", ["", "caf\u00e9 \u672c\U0001f600"])
def test_a_store_mirrors_the_transcript_and_another_machine_resumes(
    shell: Shell, claude_path: str, tmp_path: Path, folder: str
) -> None:
    store = MemoryStore()
    homes = [tmp_path / "one" / "home", tmp_path / "two" / "home"]
    folders = [home / folder for home in homes]
    for each in folders:
        each.mkdir(parents=True)
    places = [Command(machine(home), cwd=str(folder)) for home, folder in zip(homes, folders, strict=True)]
    with ScriptedModel(Reply("Noted."), Reply("42.", expect_text="Which?")) as model:
        options = Options(cli_path=claude_path, session_store=store, env=model.env)

        async def scenario() -> None:
            first = await shell.run("FIRST-PROMPT", options, transport=places[0])
            second = await shell.run("Which?", options.replace(resume=first.session_id), transport=places[1])
            assert (second.text, second.session_id) == ("42.", first.session_id)

        shell.play(scenario)
        assert "FIRST-PROMPT" in str(model.requests[-1].body["messages"])
    transcripts = [[path.read_text() for path in home.glob(".claude/projects/*/*.jsonl")] for home in homes]
    assert (homes[1] / ".claude" / "projects" / project_key(folders[1])).is_dir()
    assert len(os.listdir(homes[1] / ".claude" / "projects")) == 1
    assert [[text.count("Which?") > 0 for text in texts] for texts in transcripts] == [[False], [True]]


@pytest.mark.real_cli
@shows("remote.avoided")
def test_a_machine_on_which_a_start_failed_is_avoided(
    shell: Shell, claude_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = Machines(Command(["false"], name="down"), Command(machine(tmp_path / "home")))
    monkeypatch.setattr("hackamore.transports.remote.places.AVOIDED_SECONDS", 3_600.0)  # two sessions may take long
    with ScriptedModel(Reply("One."), Reply("Two.")) as model:
        options = Options(cli_path=claude_path, env=model.env)

        async def scenario() -> None:
            with pytest.raises(RemoteStartError, match="down"):
                await shell.run("Go.", options, transport=machines)
            assert [(await shell.run("Go.", options, transport=machines)).text for _ in range(2)] == ["One.", "Two."]
            monkeypatch.setattr("hackamore.transports.remote.places.AVOIDED_SECONDS", 0.0)
            with pytest.raises(RemoteStartError, match="down"):
                await shell.run("Go.", options, transport=machines)

        shell.play(scenario)


@shows("remote.exit")
@pytest.mark.parametrize("program", ["dash", "bash", "busybox"])
def test_the_exit_code_of_a_cli_that_ends_soon_after_its_input(program: str, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(f"/bin/{program}")
    cli = tmp_path / "claude"
    cli.write_text('#!/bin/sh\ncat >/dev/null\nsleep "$DELAY"\nexit 7\n')
    cli.chmod(0o755)
    place = Command(["env", f"PATH={tmp_path}:/usr/bin:/bin"])
    codes = []
    for number in range(12):  # moments around that at which the supervisor notices the end of the input
        options = Options(cli_path=cli, env={"DELAY": f"{number / 100:.2f}"})
        transport = place.for_sync()
        transport.start(launch_plan(options, find=False))
        transport.end_input()
        codes.append(transport.wait_exit(patience(30)))
        transport.stop(turn_open=False)
    assert codes == [7] * 12


@shows("remote.store")
@pytest.mark.parametrize("program", ["dash", "bash", "busybox"])
def test_a_conversation_goes_where_a_cli_without_variables_looks(program: str, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(f"/bin/{program}")
    home, here = tmp_path / "home", tmp_path / "here"
    (here / "projects" / "any").mkdir(parents=True)
    (here / "projects" / "any" / "talk.jsonl").write_text("{}\n")
    place = Command((*machine(home)[:3], f"PATH={tmp_path}:/usr/bin:/bin"), cwd=str(home))
    plan = launch_plan(Options(cli_path="/bin/cat", inherit_env=()), find=False)
    transport = place.for_sync()
    transport.start(msgspec.structs.replace(plan, private_folder=str(here)))
    transport.stop(turn_open=False)
    assert (home / ".claude" / "projects" / project_key(home) / "talk.jsonl").read_text() == "{}\n"
