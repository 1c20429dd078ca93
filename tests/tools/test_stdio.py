"""A tool server on the standard streams of a program, and the bytes that a client sends and gets."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore.sync import serve_stdio
from hackamore.tools import tool, tool_server
from tests.support.patience import patience
from tests.tools.support import call_request, request

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = str(Path(__file__).with_name("stdio_program.py"))
CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled"}


class Client:
    """The other side of a program's standard streams."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}
        with (folder / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
            )

    def write(self, *lines: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        self.process.stdin.write(b"".join(text + b"\n" for text in texts))
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "stdout has ended"
        return dict(json.loads(line))

    def ask(self, line: bytes | dict[str, Any]) -> dict[str, Any]:
        self.write(line)
        return self.read()

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return dict(self.ask(call_request(name, arguments))["result"])

    def until(self, name: str) -> None:
        """Wait for a file that a tool makes."""
        limit = time.monotonic() + patience(20)
        while not (self.folder / name).exists():
            assert time.monotonic() < limit, f"{name} never came"
            threading.Event().wait(0.01)

    def end(self) -> bytes:
        """Close stdin; return the rest of stdout."""
        rest, _ = self.process.communicate(timeout=patience(20))
        return rest

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Client(tmp_path)
    guard = threading.Timer(patience(50), made.process.kill)
    guard.start()
    try:
        yield made
    finally:
        guard.cancel()
        made.process.kill()
        made.process.wait()
        for pipe in (made.process.stdin, made.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.mark.parametrize(("wanted", "spoken"), [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")])
def test_a_client_connects(client: Client, wanted: str, spoken: str) -> None:
    result = client.ask(request("initialize", {"protocolVersion": wanted, "capabilities": {}, "clientInfo": {}}))
    assert result["result"]["protocolVersion"] == spoken
    assert result["result"]["serverInfo"] == {"name": "shop", "version": "7"}
    assert result["result"]["instructions"] == "Ask for prices."
    client.write({"jsonrpc": "2.0", "method": "notifications/initialized"})  # has no answer
    assert client.ask(request("ping", identifier="p")) == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert {entry["name"] for entry in client.ask(request("tools/list"))["result"]["tools"]} >= {"add", "wait"}
    assert client.ask(request("tools/list", {"cursor": "2"}))["error"]["code"] == -32602
    assert client.end() == b""
    assert client.process.returncode == 0
    assert client.stderr == ""


def test_what_is_no_request_gets_an_error(client: Client) -> None:
    def code(line: bytes | dict[str, Any]) -> tuple[int, Any]:
        answer = client.ask(line)
        return answer["error"]["code"], answer["id"]

    assert code(b"nonsense") == (-32700, None)
    assert code(b"\xff\xfe") == (-32700, None)
    assert code(b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}') == (-32600, None)
    assert code(b"[]") == (-32600, None)
    assert code(rb'{"jsonrpc": "2.0", "id": "\ud800", "method": "ping"}') == (-32600, None)
    assert code(request("resources/list", identifier=4)) == (-32601, 4)
    assert code({**request("tools/call", identifier=5), "params": []}) == (-32602, 5)
    client.write(b"", b"\r", {"jsonrpc": "2.0", "id": 9, "result": {}})  # blank lines, and an answer to nothing
    assert client.call("add", a=1) == {"content": [{"type": "text", "text": "2"}]}


def test_an_id_belongs_to_one_open_call(client: Client) -> None:
    client.write(call_request("wait", {"name": "first"}))
    client.until("first.running")
    answer = client.ask(call_request("add", {"a": 1}))
    assert (answer["id"], answer["error"]["code"]) == (1, -32600)
    client.write({**CANCEL, "params": {"requestId": 1}})
    client.until("first.cancelled")
    assert client.call("add", a=1)["content"][0]["text"] == "2"


def test_output_of_user_code_goes_to_stderr_and_its_stdin_is_empty(client: Client) -> None:
    assert client.call("noisy") == {"content": [{"type": "text", "text": "quiet"}]}
    assert client.call("add", a=1)["content"][0]["text"] == "2"
    assert client.end() == b""
    for text in ("still here", '"result": {}', "straight to the descriptor", "from a child"):
        assert text in client.stderr


def test_a_bug_is_an_error_result_and_a_log_record_with_its_traceback(client: Client) -> None:
    assert client.call("bug") == {"content": [{"type": "text", "text": "LookupError: no such shelf"}], "isError": True}
    result = client.call("unusable")
    assert result["isError"]
    assert "has no JSON form" in result["content"][0]["text"]
    client.end()
    assert 'raise LookupError("no such shelf")' in client.stderr
    assert "the result of tool `unusable` cannot be used" in client.stderr


@pytest.mark.parametrize("name", ["wait", "work"])
def test_a_cancelled_call_has_no_answer_and_its_tool_ends(client: Client, name: str) -> None:
    client.write(call_request(name, {"name": "one"}))
    client.until("one.running")
    client.write({**CANCEL, "params": {"requestId": 1, "reason": "enough"}})
    client.write({**CANCEL, "params": {"requestId": 77}}, {**CANCEL, "params": None})  # unknown calls are no error
    client.until("one.cancelled")
    assert client.ask(request("ping", identifier=2))["id"] == 2
    assert client.end() == b""


@pytest.mark.parametrize("ending", ["eof", signal.SIGTERM, signal.SIGINT])
def test_the_end_cancels_what_runs(client: Client, ending: str | signal.Signals) -> None:
    client.write({**call_request("wait", {"name": "one"}), "id": 1}, {**call_request("work", {"name": "two"}), "id": 2})
    client.until("one.running")
    client.until("two.running")
    if isinstance(ending, signal.Signals):
        client.process.send_signal(ending)
        client.process.wait(patience(20))
    assert client.end() == b""
    assert client.process.returncode == 0
    assert {path.name for path in client.folder.iterdir()} >= {"one.cancelled", "two.cancelled", "ended"}
    assert client.stderr == ""


def test_a_tool_that_does_not_end_is_left(client: Client) -> None:
    client.write(call_request("stubborn", {"name": "one"}))
    client.until("one.running")
    client.end()
    assert client.process.returncode == 0
    assert "tool `shop.stubborn` did not end within 1.5 s" in client.stderr


def test_answers_before_the_end_of_input_arrive(client: Client) -> None:
    assert client.process.stdin is not None
    # The last line has no line end.
    client.process.stdin.write(
        json.dumps(request("tools/list")).encode() + b"\n" + json.dumps(request("ping")).encode()
    )
    answers = client.end().splitlines()
    assert [list(json.loads(answer)["result"]) for answer in answers] == [["tools"], []]


def test_a_client_that_does_not_read_does_not_fill_the_memory(client: Client) -> None:
    """The program stops reading while its answers wait, so the pipe of the requests is full soon."""
    line = json.dumps(request("tools/list")).encode() + b"\n"
    stdin = client.process.stdin
    assert stdin is not None
    os.set_blocking(stdin.fileno(), False)
    written = 0
    # The limit is of no matter for the result: a program that is slow to read is one that has not read.
    while select.select([], [stdin], [], patience(0.5))[1] and written < 20 * 1024 * 1024:
        written += os.write(stdin.fileno(), line * 10)
    assert written < 10 * 1024 * 1024
    os.set_blocking(stdin.fileno(), True)
    reader = threading.Thread(target=lambda: answers.extend(client.read() for _ in range(-(-written // len(line)))))
    answers: list[dict[str, Any]] = []
    reader.start()
    stdin.write(line[written % len(line) :] if written % len(line) else b"")
    stdin.flush()
    reader.join(patience(40))
    assert len(answers) == -(-written // len(line))
    assert all(answer["result"]["tools"] for answer in answers)


def test_the_reader_of_stdout_may_go_first(client: Client) -> None:
    assert client.process.stdout is not None
    client.process.stdout.close()
    client.write(request("ping"))
    assert client.process.wait(patience(20)) == 0


def test_many_calls_wait_and_too_many_are_refused(client: Client) -> None:
    client.write(*({**call_request("wait", {"name": f"n{number}"}), "id": number} for number in range(300)))
    refused = [client.read() for _ in range(300 - 288)]
    assert [answer["id"] for answer in refused] == list(range(288, 300))
    assert all(answer["result"]["isError"] for answer in refused)
    client.until("n31.running")
    assert not (client.folder / "n32.running").exists()
    client.write({**CANCEL, "params": {"requestId": 3}})
    client.until("n32.running")  # its turn has come
    assert client.ask(request("ping", identifier="p"))["id"] == "p"
    assert client.end() == b""
    assert "a call of `wait` is refused" in client.stderr


def test_reports_that_cannot_be_kept_are_dropped(client: Client) -> None:
    client.write(call_request("steps", {"count": 5_000}, {"progressToken": "t"}))
    reports = []
    while "id" not in (message := client.read()):
        reports.append(message["params"]["progress"])
    assert message["result"]["content"][0]["text"] == "all"
    assert reports == sorted(reports)
    assert reports[-1] == 5_000


def test_only_a_tool_server_is_served_and_only_outside_of_event_loops() -> None:
    @tool
    def nothing() -> None: ...

    with pytest.raises(hackamore.OptionsError, match=r"takes a tool server, got list\. Make one: `tool_server"):
        serve_stdio([nothing])  # type: ignore[arg-type]

    async def inside() -> None:
        with pytest.raises(hackamore.OptionsError):
            await hackamore.serve_stdio(nothing)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError):
            serve_stdio(tool_server("shop", [nothing]))

    anyio.run(inside)


AWAITED = """
import anyio, hackamore, sniffio, sys
from hackamore.tools import tool, tool_server

async def main():
    ended = []

    @tool
    async def backend() -> str:
        await anyio.sleep(0)
        return sniffio.current_async_library()

    @tool
    def plain() -> str:
        return "in a thread"

    with anyio.move_on_after(float(sys.argv[2])):
        await hackamore.serve_stdio(tool_server("s", [backend, plain]))
        ended.append("by itself")
    print("streams are back", ended)

anyio.run(main, backend=sys.argv[1])
"""


def awaited(backend: str, seconds: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", AWAITED, backend, seconds], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_awaited_form_serves_in_the_event_loop_of_the_program(backend: str) -> None:
    with awaited(backend, "inf") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name, text in (("backend", backend), ("plain", "in a thread")):
            process.stdin.write(json.dumps(call_request(name)).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["result"]["content"][0]["text"] == text
        rest, _ = process.communicate(timeout=patience(20))
    assert rest == b"streams are back ['by itself']\n"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_service_gives_the_streams_back(backend: str) -> None:
    with awaited(backend, "0.1") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"streams are back []\n"
        assert process.wait(patience(20)) == 0


def test_a_person_at_a_terminal_learns_what_the_program_waits_for(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, PROGRAM, str(tmp_path)], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stderr is not None
            assert b"Tool server 'shop' waits for an MCP client on stdin." in process.stderr.readline()
            os.write(controller, b"\x04")  # Ctrl-D
            assert process.communicate(timeout=patience(20)) == (b"", b"")
            assert process.returncode == 0
    finally:
        os.close(controller)
        os.close(terminal)
