"""Recordings of the real CLI: what is in the file, and that a replay is the same conversation on every shell."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Options
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import Allow, Deny
from hackamore.testing import CassetteMismatchError, Reply, ScriptedModel, ToolCall, cassette
from hackamore.tools import tool, tool_server
from tests.support.shell import Shell
from tests.support.talking import Running, each, first, got
from tests.testing.cassettes.taping import kinds, lines

if TYPE_CHECKING:
    from tests.conftest import RealCLI

KEY = "sk-ant-api03-" + "Zx9" * 10
TOKEN = "tok-" + "q8" * 12
MAIL = "ann.planted@example.com"


class Agent:
    """An agent with a hook, a permission rule and a tool; keeps what each of them was asked."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

        @tool
        def price(article: str) -> float:
            """Return a price."""
            self.seen.append(("tool", article))
            return 2.5

        self.price = price

    def hook(self, asked: Any, context: Any) -> HookOutput | None:
        self.seen.append(("hook", asked.tool_name, dict(asked.tool_input), context.tool_use_id))
        return HookOutput.deny("guarded") if "guarded" in str(asked.tool_input) else None

    def decide(self, request: Any) -> Allow | Deny:
        self.seen.append(("permission", request.tool_name, dict(request.input)))
        return Deny("not here") if "refused" in str(request.input) else Allow()

    def options(self, **more: Any) -> Options:
        return Options(
            **{
                "hooks": {"PreToolUse": [HookMatcher(hooks=[self.hook])]},
                "can_use_tool": self.decide,
                "mcp_servers": {"shop": tool_server("shop", [self.price])},
                "include_partial_messages": True,
                **more,
            }
        )


def bash(command: str) -> Reply:
    return Reply(ToolCall("Bash", {"command": command, "description": "test"}))


async def converse(shell: Shell, options: Options, prompts: list[str]) -> list[tuple[str, Any]]:
    """Return types and contents of all messages."""
    found = []
    async with Running(shell, options) as session:
        for prompt in prompts:
            async for message in each(await got(session.send(prompt))):
                found.append((message.type, message.data))
            await got(session.wait_idle())
        assert session.warnings == []
    return found


def comparable(messages: list[tuple[str, Any]]) -> list[str]:
    """Without the ids that our side makes anew, which the CLI reports back."""
    ours = {str(data.get("command_uuid")) for kind, data in messages if kind == "command_lifecycle"}
    found = []
    for kind, data in messages:
        text = json.dumps(data)
        for uuid in ours:
            text = text.replace(uuid, "<ours>")
        if kind != "command_lifecycle":
            found.append(text)
    return found


def test_a_session_with_hook_permission_and_tool(shell: Shell, real_cli: RealCLI, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    live, replayed, other = Agent(), Agent(), Agent()
    prompts = [f"Do it for {MAIL} in {real_cli.cwd}.", "And again."]
    script: list[Any] = [
        bash("touch guarded"),
        bash("touch refused"),
        bash("touch made"),
        Reply(ToolCall("mcp__shop__price", {"article": "tea"})),
        "It is done.",
        "Nothing to do.",
    ]
    outcomes: list[Any] = []

    async def scenario(options: Options, said: list[str]) -> None:
        with cassette(tape):
            outcomes.append(await converse(shell, options, said))

    with ScriptedModel(*script) as model:
        environment = real_cli.env(model)
        base = {"cli_path": real_cli.cli_path, "env": environment, "inherit_env": False, "cwd": real_cli.cwd}
        shell.play(scenario, live.options(**base), prompts)
    assert (real_cli.cwd / "made").exists()
    (real_cli.cwd / "made").unlink()
    without_cli = {
        "cli_path": "/nowhere",
        "cwd": real_cli.cwd,
        "inherit_env": False,
        "env": environment,
    }
    shell.play(scenario, replayed.options(**without_cli), prompts)
    assert not (real_cli.cwd / "made").exists()
    assert replayed.seen == live.seen
    assert [call[0] for call in live.seen].count("hook") == 4
    for message, original in zip(comparable(outcomes[1]), comparable(outcomes[0]), strict=True):
        assert message == original

    # Another shell, another folder, and a home of its own: the recording follows.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = {**without_cli, "cwd": elsewhere}
    changed = Shell("trio" if shell.backend == "threads" else "threads")
    said = [f"Do it for {MAIL} in {elsewhere}.", "And again."]

    async def over_there(options: Options) -> None:
        with cassette(tape, "none"):
            outcomes.append(await converse(changed, options, said))

    changed.play(over_there, other.options(**moved))
    assert [call[:2] for call in other.seen] == [call[:2] for call in live.seen]
    assert next(data["cwd"] for _, data in outcomes[2] if data.get("subtype") == "init") == str(elsewhere)

    with pytest.raises(CassetteMismatchError) as caught:
        shell.play(scenario, Agent().options(**without_cli), [prompts[0], "And never again."])
    assert '- message.content: "And again."\n+ message.content: "And never again."' in str(caught.value)


def test_what_was_planted_is_not_in_the_file(shell: Shell, real_cli: RealCLI, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    home = tmp_path / "home" / "planted-user"
    home.mkdir(parents=True)
    secrets = f"{KEY} {MAIL} {home}/notes.txt Authorization: Bearer {TOKEN}"
    script: list[Any] = [
        bash(f"echo '{secrets}' | tee out.txt; env | grep PLANTED; printenv SHOP_TOKEN | base64; echo $HOME; id -un"),
        Reply(f"Here: {secrets}", chunk=1_000),
    ]

    async def scenario(options: Options) -> None:
        with cassette(tape):
            result = await shell.run(f"Print {secrets}", options)
            assert MAIL in result.text or "<hackamore-" in result.text

    with ScriptedModel(*script) as model:
        environment = {
            **real_cli.env(model),
            "HOME": str(home),
            "USER": "planted-user",
            "SHOP_TOKEN": TOKEN,
            "PLANTED": KEY,
        }
        options = Options(
            cli_path=real_cli.cli_path,
            env=environment,
            inherit_env=False,
            cwd=real_cli.cwd,
            permission_mode="bypassPermissions",
            append_system_prompt=f"The key is {KEY}.",
            mcp_servers={
                "x": {"type": "http", "url": "http://127.0.0.1:1/", "headers": {"Authorization": f"Bearer {TOKEN}"}}
            },
        )
        shell.play(scenario, options)
    content = tape.read_bytes()
    encoded = base64.b64encode(TOKEN.encode())[:-4]
    for planted in (
        KEY,
        TOKEN,
        MAIL,
        str(home),
        "planted-user",
        str(real_cli.cwd),
        environment["ANTHROPIC_API_KEY"],
        encoded.decode(),
    ):
        assert planted.encode() not in content, planted
    assert b"PLANTED=<hackamore-key-" in content
    shell.play(scenario, options.replace(cli_path="/nowhere"))
    assert tape.read_bytes() == content


def test_header_and_long_texts(real_cli: RealCLI, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"

    async def scenario(options: Options) -> None:
        with cassette(tape):
            async with hackamore.Session(options) as session:
                await session.get_context_usage()
                result = await (await session.send("Hi")).result()
                assert result is not None
                assert result.result == "Hello."

    with ScriptedModel("Hello.") as model:
        options = Options(cli_path=real_cli.cli_path, env=real_cli.env(model), inherit_env=False, cwd=real_cli.cwd)
        Shell("asyncio").play(scenario, options)
    version = next(line["f"] for line in lines(tape)[1:] if line.get("f", {}).get("subtype") == "init")[
        "claude_code_version"
    ]
    assert lines(tape)[0]["cli"] == version
    answer = next(
        line["f"] for line in lines(tape)[1:] if line["k"] == "in" and line["f"]["type"] == "control_response"
    )
    described = [command["description"] for command in answer["response"]["response"]["commands"]]
    assert any(text.startswith("<hackamore-text-") for text in described)
    assert max(map(len, described)) <= 100
    assert kinds(tape)[-3:] == ["stop", "exit", "end"]
    Shell("trio").play(scenario, options.replace(cli_path="/nowhere"))


def test_interrupts_background_work_and_operations(real_cli: RealCLI, tmp_path: Path) -> None:
    """What one shell recorded is replayed by all: ids of ours that are sent again (`rewind_files`) are today's."""
    tape = tmp_path / "tape.jsonl"
    held = "until [ -e go ]; do sleep 0.05; done"

    def talk(shell: Shell, options: Options) -> list[Any]:
        found: list[Any] = []

        async def scenario() -> None:
            with cassette(tape):
                async with Running(shell, options) as session:
                    turn = await got(session.send("stream"))
                    while (await first(turn)).type != "stream_event":
                        pass
                    await got(session.interrupt())
                    result = await got(turn.result())
                    found.append((result.terminal_reason, turn.state.name))
                    await got(session.wait_idle())
                    found.append((await got((await got(session.send("in the background"))).result())).result)
                    (real_cli.cwd / "go").touch()
                    await got(session.wait_idle())
                    found.append((await got(session.get_context_usage())).max_tokens)
                    turn = await got(session.send("write"))
                    found.append((await got(turn.result())).result)
                    found.append((await got(session.rewind_files(turn.id))).can_rewind)
                    await got(session.finish())
                    found.append(session.exit_code)

        shell.play(scenario)
        return found

    script: list[Any] = [
        Reply("x" * 5_000, chunk=10, delay=0.05),
        Reply(ToolCall("Bash", {"command": held, "description": "d", "run_in_background": True})),
        "Started.",
        "It is done.",
        Reply(ToolCall("Write", {"file_path": str(real_cli.cwd / "made.txt"), "content": "x"})),
        "Written.",
    ]
    with ScriptedModel(*script) as model:
        options = Options(
            cli_path=real_cli.cli_path,
            env=real_cli.env(model),
            inherit_env=False,
            cwd=real_cli.cwd,
            permission_mode="bypassPermissions",
            include_partial_messages=True,
            enable_file_checkpointing=True,
        )
        recorded = talk(Shell("asyncio"), options)
    assert recorded[0] == ("aborted_streaming", "INTERRUPTED")
    assert recorded[1:2] + recorded[3:] == ["Started.", "Written.", True, 0]
    for backend in ("trio", "threads", "asyncio"):
        assert talk(Shell(backend), options.replace(cli_path="/nowhere")) == recorded


def test_queries_at_once(shell: Shell, real_cli: RealCLI, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"

    async def scenario(options: Options) -> None:
        with cassette(tape) as active:
            transport: Any = active.transport() if shell.blocking else None

            async def ask() -> Any:
                return await shell.run("Hi", options, transport=transport)

            answers = await shell.meanwhile(ask, ask)
            assert sorted(answer.text for answer in answers) == ["One.", "Two."]

    with ScriptedModel("One.", "Two.") as model:
        options = Options(cli_path=real_cli.cli_path, env=real_cli.env(model), inherit_env=False, cwd=real_cli.cwd)
        shell.play(scenario, options)
    shell.play(scenario, options.replace(cli_path="/nowhere"))


def test_speed_of_a_replay(real_cli: RealCLI, tmp_path: Path, record_property: Callable[[str, Any], None]) -> None:
    """A whole conversation is replayed in milliseconds: there is no process."""
    import time

    tape = tmp_path / "tape.jsonl"

    def go(options: Options) -> float:
        with cassette(tape):
            began = time.process_time()
            assert hackamore.sync.run("Hi", options).text == "Hello."
            return time.process_time() - began

    with ScriptedModel("Hello.") as model:
        options = Options(cli_path=real_cli.cli_path, env=real_cli.env(model), inherit_env=False, cwd=real_cli.cwd)
        go(options)
    took = min(go(options) for _ in range(5))
    record_property("replay_seconds", took)
    assert took < 0.1
    assert os.path.getsize(tape) < 100_000
