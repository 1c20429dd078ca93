"""`hackamore acp` as a process: its options, its streams, its end, and what it needs; WebSockets of `agent.app()`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hackamore.serving import acp
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.support.patience import patience

INITIALIZE = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}\n'


def run(*arguments: str, data: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    command = [sys.executable, "-m", "hackamore", "acp", *arguments]
    return subprocess.run(
        command, input=data, capture_output=True, env={**os.environ, **env}, timeout=patience(30), check=False
    )


@shows("acp.client.streams")
def test_stdout_has_messages_only_and_the_end_of_stdin_is_the_end(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("print('hello')\nfrom hackamore import Options\noptions = Options(model='haiku')\n")
    done = run("--options", str(agent), "--log-level", "debug", data=INITIALIZE + b"{\n")
    assert done.returncode == 0, done.stderr
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["result"]["agentInfo"]["name"] == "hackamore"
    assert answers[None]["error"]["code"] == -32700
    assert b"hello" in done.stderr


def test_two_policies_are_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("from hackamore import Options, Policy\noptions = Options(policy=Policy([]))\n")
    (tmp_path / "policy.toml").write_text("")
    done = run("--options", str(tmp_path / "agent.py"), "--policy", str(tmp_path / "policy.toml"), data=INITIALIZE)
    assert (done.returncode, b"only one can decide" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", "modle = 'x'", b"unknown key `modle`"),
        ("a.toml", "cli_path = '/bin/x'", b"refused from a file"),
        ("a.py", "x = 1", b"must define `options`"),
        ("a.py", "options = 5", b"must be a Options"),
        ("a.py", "1 / 0", b"ZeroDivisionError"),
        ("none.py", None, b"cannot be used"),
    ],
)
def test_an_options_file_that_is_wrong(name: str, content: str | None, message: bytes, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    done = run("--options", str(tmp_path / name), data=INITIALIZE)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr


def test_sigterm_ends_it() -> None:
    command = [sys.executable, "-m", "hackamore", "acp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert b"agentInfo" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience(20)) == 128 + signal.SIGTERM


def test_without_the_package_the_error_has_the_command(tmp_path: Path) -> None:
    (tmp_path / "acp.py").write_text("raise ModuleNotFoundError(\"No module named 'acp'\", name='acp')\n")
    done = run(data=INITIALIZE, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert b"pip install 'hackamore[acp]'" in done.stderr


class Socket:
    """One WebSocket of an ASGI server."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self.scope = {"type": "websocket", "headers": list(headers)}
        self.to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.to_app.put_nowait({"type": "websocket.connect"})

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.from_app.get(), patience(20))


@pytest.mark.anyio
async def test_a_websocket_is_a_client(tmp_path: Path) -> None:
    socket = Socket((b"origin", b"https://agents.example"))
    cli = SimulatedCLI(Script().user().says("Yes."))
    async with acp.agent(transport=cli) as agent:
        app = agent.app(origins=["https://agents.example"])
        serving = asyncio.create_task(app(socket.scope, socket.to_app.get, socket.from_app.put))
        assert (await socket.next())["type"] == "websocket.accept"

        async def ask(number: int, method: str, params: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            socket.to_app.put_nowait({"type": "websocket.receive", "text": json.dumps(message)})
            while (answer := json.loads((await socket.next())["text"])).get("id") != number:
                pass
            return answer["result"]

        await ask(1, "initialize", {"protocolVersion": 1})
        session = (await ask(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []}))["sessionId"]
        prompt = [{"type": "text", "text": "Well?"}]
        assert (await ask(3, "session/prompt", {"sessionId": session, "prompt": prompt}))["stopReason"] == "end_turn"
        socket.to_app.put_nowait({"type": "websocket.receive", "text": "{"})
        assert json.loads((await socket.next())["text"])["error"]["code"] == -32700
        socket.to_app.put_nowait({"type": "websocket.disconnect"})
        await asyncio.wait_for(serving, patience(20))


@pytest.mark.anyio
async def test_a_page_that_was_not_named_cannot_connect() -> None:
    socket = Socket((b"origin", b"https://evil.example"))
    async with acp.agent(transport=SimulatedCLI(Script())) as agent:
        await agent.app()(socket.scope, socket.to_app.get, socket.from_app.put)
    assert await socket.next() == {"type": "websocket.close", "code": 1008}
