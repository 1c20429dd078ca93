"""Much over a link: lines of 10 MB, a thousand hook calls beside local ones, twenty sessions over one connection of ssh."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore import Limits, Options, Timeouts, sync
from hackamore.testing import Reply, ScriptedModel, ToolCall
from hackamore.tools import tool, tool_server
from hackamore.transports.base import LaunchPlan
from hackamore.transports.remote import SSH, Command
from hackamore.transports.remote.transports import AsyncRemote, SyncRemote
from tests.contract import shows
from tests.support.machines import Sshd, eventually
from tests.support.patience import patience
from tests.support.talking import Held, got, make_over, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import RealCLI
    from tests.support.shell import Shell

BYTES = 10_000_000
TURNS, TOOLS_IN_A_TURN = 10, 50
SESSIONS = 20


@shows("remote.volume")
@pytest.mark.timeout(180)
def test_lines_of_ten_megabytes(far: Sshd, shell: Shell) -> None:
    came: list[int] = []

    @tool("echo", "Return the text.")
    def echo(text: str) -> str:
        came.append(len(text))
        return text

    async def scenario() -> None:
        call = ToolCall("mcp__big__echo", {"text": "x" * BYTES})
        with ScriptedModel(Reply(call), "Done.") as model:
            options = Options(
                env={**model.env, "MAX_MCP_OUTPUT_TOKENS": str(BYTES)},
                mcp_servers={"big": tool_server("big", [echo])},
                allowed_tools=["mcp__big__echo"],
                limits=Limits(line_bytes=4 * BYTES),
            )
            place = SSH(far.host, arguments=far.ssh_arguments)
            async with Held(make_over(shell, options, place)) as session:
                assert await texts(await got(session.send("go"))) == ["Done."]
            # The result came back over there: as it is, or as a file that the CLI has made of it.
            told = str(model.requests_of("main")[-1].body)
        assert came == [BYTES]
        stored = [path for path in far.home.rglob("*") if path.is_file() and path.stat().st_size >= BYTES]
        assert "x" * BYTES in told or stored, told[-2_000:]

    shell.play(scenario)


async def hook_calls(options: Options, transport: Any) -> list[float]:
    """Return the seconds that a hook call took in each turn, with what the CLI does for it."""
    calls = 0
    took = []

    def hook(*_: Any) -> None:
        nonlocal calls
        calls += 1

    options = options.replace(hooks={"PreToolUse": hook, "PostToolUse": hook}, allowed_tools=["Read"])
    async with hackamore.Session(options, transport=transport) as session:
        for _ in range(TURNS):
            began = time.monotonic()
            await (await session.send("go")).result(timeout=patience(60))
            took.append((time.monotonic() - began) / (2 * TOOLS_IN_A_TURN))
    assert calls == 2 * TURNS * TOOLS_IN_A_TURN
    return took


@pytest.mark.timeout(240)
def test_a_thousand_hook_calls(far: Sshd, real_cli: RealCLI) -> None:
    """The difference is what a link costs: the calls of one reply wait for each other."""
    (far.work / "file").write_text("text")
    (real_cli.cwd / "file").write_text("text")

    def model(file: object) -> ScriptedModel:
        calls = [ToolCall("Read", {"file_path": str(file)}) for _ in range(TOOLS_IN_A_TURN)]
        return ScriptedModel(*[step for _ in range(TURNS) for step in (Reply(*calls), "Done.")])

    with model(real_cli.cwd / "file") as near:
        options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(near), inherit_env=False)
        local = anyio.run(hook_calls, options, None)
    with model(far.work / "file") as over_there:
        place = SSH(far.host, arguments=far.ssh_arguments, cwd=str(far.work))
        remote = anyio.run(hook_calls, Options(env=over_there.env), place)
    medians = [statistics.median(took) * 1_000 for took in (local, remote)]
    print(f"a hook call, median of {TURNS} turns: {medians[0]:.2f} ms here, {medians[1]:.2f} ms over ssh")
    assert medians[1] < medians[0] * 3 + patience(5)


@contextmanager
def shared_connection(far: Sshd) -> Iterator[list[str]]:
    """Open a connection; yield the arguments of `ssh` that use it."""
    arguments = [*far.ssh_arguments, "-o", f"ControlPath={far.near}/shared"]
    with subprocess.Popen(["ssh", *arguments, "-MN", far.host], stdin=subprocess.DEVNULL) as master:
        try:
            assert eventually((far.near / "shared").exists)
            yield arguments
        finally:
            master.terminate()


@shows("remote.volume")
@pytest.mark.timeout(300)
def test_twenty_sessions_over_one_connection(far: Sshd) -> None:
    async def scenario() -> None:
        with ScriptedModel(*["Hello."] * SESSIONS) as model, shared_connection(far) as arguments:
            place = SSH(far.host, arguments=arguments, connect_seconds=120, heartbeat=60)
            options = Options(env=model.env, timeouts=Timeouts(initialize=patience(60)))
            began = time.monotonic()
            async with anyio.create_task_group() as group:
                sessions = [hackamore.Session(options, transport=place) for _ in range(SESSIONS)]
                for session in sessions:
                    group.start_soon(session.start)
            started = time.monotonic() - began
            # What a CLI starts has its command line until it becomes another program.
            assert eventually(lambda: len([line for line in far.lines() if "--output-format" in line]) == SESSIONS)
            assert len(far.connections()) == 2  # one, and its monitor

            async def talk(session: hackamore.Session) -> None:
                assert (await (await session.send("Hello?")).result(timeout=patience(120))).text == "Hello."

            async with anyio.create_task_group() as group:
                for session in sessions:
                    group.start_soon(talk, session)
            took = time.monotonic() - began
            async with anyio.create_task_group() as group:
                for session in sessions:
                    group.start_soon(session.stop)
            print(
                f"{SESSIONS} sessions over one connection: started in {started:.1f} s, all answered after {took:.1f} s"
            )
            assert eventually(lambda: not far.children()), far.lines()

    anyio.run(scenario)


LATE = """
import os
os.set_blocking(1, False)
left = 10_000_000
while left:
    try:
        left -= os.write(1, b"x" * min(left, 65_536))
    except BlockingIOError:
        continue
os._exit(7)
"""


@pytest.mark.parametrize("program", ["dash", "bash", "busybox"])
def test_output_that_is_read_late(program: str, tmp_path: Path) -> None:
    """Some CLIs make the pipe non-blocking that they share with the supervisor: its words wait for room."""
    (tmp_path / "sh").symlink_to(f"/bin/{program}")
    transport = Command(["env", f"PATH={tmp_path}:/usr/bin:/bin"], heartbeat=60).for_sync()
    argv = (sys.executable, "-I", "-S", "-c", LATE)
    transport.start(LaunchPlan(argv=argv, owners=("",) * len(argv), environment={}, cwd=None))
    threading.Event().wait(2.5)
    read = 0
    while data := transport.receive(patience(30)):
        if read < BYTES // 2 <= read + len(data):
            threading.Event().wait(2.5)  # the supervisor says a word each second
        read += len(data)
    assert (data, read, transport.wait_exit()) == (b"", BYTES, 7)
    transport.stop(turn_open=False)


@shows("remote.prompts")
@pytest.mark.parametrize("blocking", [True, False])
def test_a_prompt_that_is_sent_late_is_whole(
    blocking: bool, claude_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs of life wait for it: over there they would be its first bytes, and its last ones would be cut off."""
    kind: Any = SyncRemote if blocking else AsyncRemote
    send = kind.send

    def late(transport: Any, data: bytes) -> Any:
        threading.Event().wait(3)  # a busy program; a sign of life each third of a second
        return send(transport, data)

    async def late_in_a_loop(transport: Any, data: bytes) -> None:
        await late(transport, data)

    monkeypatch.setattr(kind, "send", late if blocking else late_in_a_loop)
    variables = ("env", "-i", f"HOME={tmp_path}", "PATH=/usr/bin:/bin")
    with ScriptedModel("Hello.") as model:
        place, options = Command(variables, heartbeat=2), Options(cli_path=claude_path, env=model.env)
        if blocking:
            sync.run("Begin.", options, transport=place)
        else:
            anyio.run(partial(hackamore.run, "Begin.", options, transport=place))
        user = [message for message in model.requests_of("main")[0].body["messages"] if message["role"] == "user"]
    assert user[-1]["content"][-1]["text"] == "Begin."


SLOW = """
import os, subprocess, sys, threading

def copy():
    while data := os.read(0, 4_000):
        far.stdin.write(data)
        far.stdin.flush()
        threading.Event().wait(float(sys.argv[1]))

far = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
threading.Thread(target=copy, daemon=True).start()
os._exit(far.wait())
"""


@shows("remote.prompts")
@pytest.mark.timeout(120)
def test_a_long_prompt_on_a_slow_link_is_no_silence(claude_path: str, tmp_path: Path) -> None:
    words, silence = "word " * 40_000, round(1 + patience(1))
    slow = [sys.executable, "-I", "-S", "-c", SLOW, str(silence / 20)]  # 50 parts: two and a half silences
    variables = ("env", "-i", f"HOME={tmp_path}", "PATH=/usr/bin:/bin")
    with ScriptedModel("Hello.") as model:
        options = Options(cli_path=claude_path, env=model.env)
        sync.run(words, options, transport=Command([*slow, *variables], heartbeat=silence))
        assert words in str(model.requests_of("main")[0].body["messages"])
