"""`Options(trace=...)`: the wire trace, of queries and sessions, on every shell."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import hackamore
from hackamore import Options
from hackamore._engine.launch.plan import LaunchPlan
from hackamore.errors import OptionsError
from hackamore.testing import CassetteError, cassette
from hackamore.transports.opening import open_async, open_sync
from hackamore.transports.process.prepare import Preparation
from hackamore.transports.recording.reading import read_recording
from hackamore.transports.recording.recorder import RecordedAsync, SessionRecord, TapeFile, header_line, traced
from hackamore.transports.recording.redaction import Redactor, Vault
from tests.contract import shows
from tests.support import stand_in, stand_in_session
from tests.support.memory import AsyncMemory, Memory
from tests.support.patience import patience
from tests.support.programs import program
from tests.support.query_fixtures import leaves_nothing, shell
from tests.support.shell import Shell
from tests.support.talking import Running, got, raised, steps, texts

__all__ = ["leaves_nothing", "shell"]

KINDS = ["start", "prompt", "end_input", "in", "in", "in", "eof", "exit", "stop", "end"]
FRAMES: list[list[Any]] = [["frame", "init"], ["frame", "assistant"], ["frame", "result"]]


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., Options]:
    program(tmp_path / "claude-query", stand_in)
    program(tmp_path / "claude-session", stand_in_session)

    def options(plays: list[list[Any]] | None = None, **more: Any) -> Options:
        path = tmp_path / ("claude-session" if plays is None else "claude-query")
        environment = {"STAND_IN_STEPS": json.dumps(plays or []), **more.pop("env", {})}
        return Options(**{"cli_path": path, "env": environment, "version_check": "skip", **more})

    return options


def test_a_query_is_traced(shell: Shell, cli: Callable[..., Options], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.touch(0o644)  # an empty file is as good as none

    async def scenario() -> None:
        secret = {"SHOP_TOKEN": "hunter2hunter2"}
        await shell.run("Is it hunter2hunter2? a@b.co", cli(FRAMES, trace=path, env=secret))
        await shell.run("again", cli(FRAMES, trace=str(path)))

    shell.play(scenario)
    content = path.read_bytes()
    assert b"hunter2" not in content
    assert b"a@b.co" not in content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = read_recording(path)
    assert (found.problems, len(found.sessions)) == ([], 2)
    first = found.sessions[0]
    assert first.complete
    assert [entry.kind for entry in first.entries] == KINDS
    prompts = [session.first("prompt") for session in found.sessions]
    assert [prompt and prompt.fields["text"] for prompt in prompts] == [
        "Is it <hackamore-key-1>? <hackamore-email-1>",
        "again",
    ]
    # A trace is a cassette.
    with cassette(path, "none"):
        assert (
            hackamore.sync.run("Is it hunter2hunter2? a@b.co", Options(env={"SHOP_TOKEN": "hunter2hunter2"})).text
            == "hello"
        )
        assert hackamore.sync.run("again", Options()).text == "hello"


def test_a_line_that_is_not_utf_8_is_kept_without_its_secrets(cli: Callable[..., Options], tmp_path: Path) -> None:
    line = b"\xff\xfe key sk-ant-abcdefgh"
    hackamore.sync.run("hi", cli([["hex", line.hex()], ["out", "\n"], *FRAMES], trace=tmp_path / "run.jsonl"))
    (session,) = read_recording(tmp_path / "run.jsonl").sessions
    first = session.first("in")
    assert first is not None
    assert (first.data, first.is_json, first.fields) == (b"\xff\xfe key <hackamore-key-1>", False, {})


def test_a_folder_that_is_not_there_stops_no_trace(
    shell: Shell, cli: Callable[..., Options], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)  # a file system that is read-only
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    lines: list[dict[str, Any]] = []

    async def scenario() -> None:
        answer = await shell.run("hi", cli(FRAMES, trace=lines.append))
        assert answer.text == "hello"

    shell.play(scenario)
    assert [line["k"] for line in lines[1:]][-1] == "end"


def test_sessions_at_once_in_one_file(shell: Shell, cli: Callable[..., Options], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def one(prompt: str) -> list[str]:
        async with Running(shell, cli(trace=path)) as session:
            found = []
            for number in range(20):
                found += await texts(await got(session.send(f"{prompt}{number}")))
            return found

    async def scenario() -> None:
        found = await shell.meanwhile(lambda: one("a"), lambda: one("b"))
        assert [len(texts) for texts in found] == [20, 20]

    shell.play(scenario)
    recording = read_recording(path)
    assert recording.problems == []
    assert [session.complete for session in recording.sessions] == [True, True]
    for session in recording.sessions:
        said = [entry.data for entry in session.entries if entry.kind == "out" and b'"user"' in entry.data]
        assert len(said) == 20
        assert len({entry[entry.index(b'"content":"') + 11 : -1][:1] for entry in said}) == 1


def test_a_function_gets_every_entry(
    shell: Shell, cli: Callable[..., Options], caplog: pytest.LogCaptureFixture
) -> None:
    entries: list[dict[str, Any]] = []

    def failing(entry: dict[str, Any]) -> None:
        raise LookupError("not mine")

    async def scenario() -> None:
        assert (await shell.run("hi", cli(FRAMES, trace=entries.append))).text == "hello"
        assert (await shell.run("hi", cli(FRAMES, trace=failing))).text == "hello"

    shell.play(scenario)
    assert entries[0]["format"] == "hackamore-cassette"
    assert [entry["k"] for entry in entries[1:]] == KINDS
    assert entries[4]["f"]["subtype"] == "init"
    assert "`trace` raised" in caplog.text


def test_what_is_there_and_is_no_trace_is_left_alone(shell: Shell, cli: Callable[..., Options], tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine\n")

    async def scenario() -> None:
        for path in (other, tmp_path, tmp_path / "absent" / "x.jsonl"):
            error = await raised(lambda path=path: shell.run("hi", cli(FRAMES, trace=path)), OptionsError)
            assert error.field == "trace"
            error = await raised(lambda path=path: Running(shell, cli(trace=path)).__aenter__(), OptionsError)
            assert error.field == "trace"

    shell.play(scenario)
    assert other.read_text() == "mine\n"


@shows("recordings.symlink")
def test_a_trace_follows_no_symbolic_link(shell: Shell, cli: Callable[..., Options], tmp_path: Path) -> None:
    """Whoever can write to the folder could have a trace written elsewhere, and made readable there."""
    empty, trace = tmp_path / "empty", tmp_path / "trace.jsonl"
    empty.touch()

    async def scenario() -> None:
        assert (await shell.run("hi", cli(FRAMES, trace=trace))).text == "hello"
        before = trace.read_bytes()
        for target in (empty, trace, tmp_path / "absent"):
            link = tmp_path / f"link-to-{target.name}"
            link.symlink_to(target)
            error = await raised(lambda link=link: shell.run("hi", cli(FRAMES, trace=link)), OptionsError)
            assert error.field == "trace"
            assert "it is a symbolic link" in str(error)
        assert trace.read_bytes() == before

    shell.play(scenario)
    assert empty.read_bytes() == b""
    assert not (tmp_path / "absent").exists()


def test_a_trace_that_was_interrupted_is_gone_on_with(cli: Callable[..., Options], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    hackamore.sync.run("one", cli(FRAMES, trace=path))
    path.write_bytes(path.read_bytes()[:-20])
    hackamore.sync.run("two", cli(FRAMES, trace=path))
    found = read_recording(path)
    assert [session.complete for session in found.sessions] == [False, True]
    assert len(found.problems) == 1
    with pytest.raises(CassetteError, match="damaged"), cassette(path):
        pass


def test_a_host_that_is_killed_leaves_what_there_was(cli: Callable[..., Options], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = f"""
        import os, signal
        from hackamore import Options, sync
        options = Options(cli_path={os.fspath(cli().cli_path or "")!r}, version_check="skip", trace={str(path)!r})
        with sync.Session(options) as session:
            session.send("remember this").result()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=patience(30), check=False)
    assert ran.returncode == -signal.SIGKILL
    found = read_recording(path)
    assert found.problems == []
    assert [session.complete for session in found.sessions] == [False]
    assert b"remember this" in path.read_bytes()
    assert b'"type":"result"' in path.read_bytes()
    with pytest.raises(CassetteError, match="interrupted"), cassette(path):
        pass
    with cassette(path, allow_incomplete=True), hackamore.sync.Session(Options()) as session:
        assert session.send("remember this").result() is not None


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_event_loop_runs_while_a_long_line_is_redacted(backend: str, tmp_path: Path) -> None:
    """The line comes in one read, so without a thread the loop would run twice."""
    text = "The author has a key, auth: a token, task-1 to pass.\n" * 60_000
    line = json.dumps({"type": "user", "text": f"{text}password=hunter2hunter2 {text[:99]}"}).encode() + b"\n"
    path, turns = tmp_path / "run.jsonl", 0
    entries: list[tuple[str, int]] = []
    plan = LaunchPlan(argv=("claude",), environment={}, cwd="/srv", owners=("",))

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0)
            turns += 1

    async def scenario(trace: Any) -> list[bytes]:
        found = []
        transport = traced(AtOnce([line, b'{"type":"x"}\n']), trace, 1 << 26, local=False, blocking=False)
        assert isinstance(transport, RecordedAsync)
        async with anyio.create_task_group() as tasks:
            await transport.start(plan)
            tasks.start_soon(turn)
            while data := await transport.receive():
                found.append(data)
                written = [kind for kind, _ in entries] if callable(trace) else path.read_text().split('"k":"')
                assert len([kind for kind in written if kind.startswith("in")]) == len(found)
            await transport.stop(turn_open=False)
            tasks.cancel_scope.cancel()
        return found

    assert len(anyio.run(scenario, path, backend=backend)) == 2
    assert turns > 6
    assert b"hunter2" not in path.read_bytes()
    anyio.run(scenario, lambda entry: entries.append((entry.get("k", ""), threading.get_ident())), backend=backend)
    assert {thread for _, thread in entries} == {threading.get_ident()}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_long_prompt_is_redacted_beside_the_event_loop(backend: str, tmp_path: Path) -> None:
    redacted: dict[str, int] = {}

    def more(text: str) -> str:
        redacted[text] = threading.get_ident()
        return text

    def begin(plan: LaunchPlan) -> SessionRecord:
        return SessionRecord(TapeFile(str(tmp_path / "run.jsonl"), fresh=True), Redactor(Vault(), more), 0, 1 << 26)

    async def scenario() -> None:
        transport = RecordedAsync(AtOnce([]), begin)
        await transport.start(LaunchPlan(argv=("claude",), environment={}, cwd="/srv", owners=("",)))
        for text in ("short", "long " * 20_000):
            await transport.send(json.dumps({"type": "user", "text": text}).encode() + b"\n")
            assert (redacted[text] == threading.get_ident()) is (text == "short")
        await transport.stop(turn_open=False)

    anyio.run(scenario, backend=backend)


def test_a_read_that_is_cancelled_is_recorded_once_and_not_lost(tmp_path: Path) -> None:
    lines = [
        json.dumps({"type": "user", "n": number, "text": "a key " * 20_000}).encode() + b"\n" for number in range(5)
    ]

    async def scenario() -> None:
        transport = traced(AtOnce(lines), tmp_path / "run.jsonl", 1 << 26, local=False, blocking=False)
        assert isinstance(transport, RecordedAsync)
        await transport.start(LaunchPlan(argv=("claude",), environment={}, cwd="/srv", owners=("",)))
        found = []
        for most in (*range(40), 10**9):
            task = asyncio.ensure_future(transport.receive())
            for _ in range(most):
                await asyncio.sleep(0)
                if task.done():
                    break
            task.cancel()
            with suppress(asyncio.CancelledError):
                found.append(await task)
        assert [data for data in found if data] == lines
        await transport.stop(turn_open=False)

    asyncio.run(scenario())
    (session,) = read_recording(tmp_path / "run.jsonl").sessions
    assert [entry.data + b"\n" for entry in session.entries if entry.kind == "in"] == lines


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_to_abandon_a_session_does_not_wait_for_a_line_that_is_redacted(backend: str, tmp_path: Path) -> None:
    line = json.dumps({"type": "user", "text": "a key " * 20_000}).encode() + b"\n"
    busy, go_on = threading.Event(), threading.Event()

    def more(text: str) -> str:
        if len(text) > 1_000:
            busy.set()
            assert go_on.wait(patience(10))
        return text

    def begin(plan: LaunchPlan) -> SessionRecord:
        sink = TapeFile(str(tmp_path / "run.jsonl"), fresh=True)
        sink.write(header_line(plan, local=False))
        return SessionRecord(sink, Redactor(Vault(), more), 0, 1 << 26)

    async def scenario() -> None:
        transport = RecordedAsync(AtOnce([line]), begin)
        await transport.start(LaunchPlan(argv=("claude",), environment={}, cwd="/srv", owners=("",)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.receive)
            while not busy.is_set():
                await anyio.sleep(0)
            transport.abandon()
            assert b'"abandon"' not in (tmp_path / "run.jsonl").read_bytes()
            go_on.set()

    anyio.run(scenario, backend=backend)
    (session,) = read_recording(tmp_path / "run.jsonl").sessions
    assert [entry.kind for entry in session.entries] == ["start", "in", "abandon", "end"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_forked_copy_can_stop_while_a_line_is_redacted(backend: str, tmp_path: Path) -> None:
    """The thread that is at the line, with the lock, is not in the copy; the record goes on in the parent alone."""
    busy, go_on = threading.Event(), threading.Event()

    def more(text: str) -> str:
        if len(text) > 1_000:
            busy.set()
            assert go_on.wait(patience(30))
        return text

    def begin(plan: LaunchPlan) -> SessionRecord:
        return SessionRecord(TapeFile(str(tmp_path / "run.jsonl"), fresh=True), Redactor(Vault(), more), 0, 1 << 26)

    async def scenario() -> int:
        line = json.dumps({"type": "user", "text": "a key " * 20_000}).encode() + b"\n"
        transport = RecordedAsync(AtOnce([line]), begin)
        await transport.start(LaunchPlan(argv=("claude",), environment={}, cwd="/srv", owners=("",)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.receive)
            while not busy.is_set():
                await anyio.sleep(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: that there are threads
                copy = os.fork()
            if not copy:
                code = 1
                try:
                    signal.alarm(int(patience(10)) + 1)
                    await transport.stop(turn_open=False)
                    code = 0
                finally:
                    os._exit(code)
            status = os.waitpid(copy, 0)[1]
            go_on.set()
        await transport.stop(turn_open=False)
        return os.waitstatus_to_exitcode(status)

    assert anyio.run(scenario, backend=backend) == 0
    kinds = [json.loads(line)["k"] for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert kinds == ["start", "in", "stop", "exit", "end"]


class AtOnce(AsyncMemory):
    """A peer in memory that gives each line in one read."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__(Memory())
        self.lines = lines[::-1]

    def take(self) -> bytes:
        return self.lines.pop() if self.lines else b""


def test_a_full_disk_ends_the_trace_and_nothing_else(
    shell: Shell, cli: Callable[..., Options], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        assert (await shell.run("hi", cli(FRAMES, trace="/dev/full"))).text == "hello"

    shell.play(scenario)
    assert caplog.text.count("recording to /dev/full ends here") == 1


def test_without_it_nothing_is_in_between(shell: Shell) -> None:
    """Not one call for each frame: the transport is the one that was made."""
    made: list[Any] = [Memory().for_async(), Memory().for_sync()]
    assert open_async(None, lambda: made[0], Options()) == (made[0], True)
    assert open_sync(None, lambda: made[1], Options()) == (made[1], True)


def test_a_trace_of_a_replay_and_of_an_own_transport(shell: Shell, cli: Callable[..., Options], tmp_path: Path) -> None:
    tape, path = tmp_path / "tape.jsonl", tmp_path / "run.jsonl"

    async def scenario(options: Options) -> None:
        with cassette(tape):
            assert (await shell.run("hi", options)).text == "hello"

    shell.play(scenario, cli(FRAMES))
    shell.play(scenario, Options(trace=path))
    recorded, traced = read_recording(tape), read_recording(path)
    assert [entry.kind for entry in recorded.sessions[0].entries] == [
        entry.kind for entry in traced.sessions[0].entries
    ]
    assert traced.header["cli"] is None

    peer = Memory(json.dumps(stand_in.RESULT).encode() + b"\n", until_input_ends=True)

    async def own() -> None:
        await shell.run("hi", Options(trace=path), transport=peer)

    shell.play(own)
    assert len(read_recording(path).sessions) == 2


def test_leaving_early_and_being_forgotten(shell: Shell, cli: Callable[..., Options], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def scenario() -> None:
        stream = shell.query("hi", cli([["frame", "init"], ["frame", "assistant"], ["sleep", 30]], trace=path))
        await stream.next_item()
        await stream.close()
        async with Running(shell, cli(trace=path)) as session:
            await got(session.send(steps(["hang"])))
        broken = cli(FRAMES, trace=path, cli_path=tmp_path / "broken")
        (tmp_path / "broken").write_text("#!/nowhere\n")
        (tmp_path / "broken").chmod(0o755)
        await raised(lambda: shell.run("hi", broken), hackamore.SpawnError)

    shell.play(scenario)
    found = read_recording(path)
    assert [session.complete for session in found.sessions] == [True] * 3
    assert found.sessions[2].first("start_error")


def test_the_version_in_the_header_is_the_one_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs write the file with the known versions, too, and may take ours out of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho '2.1.7 (Claude Code)'\n")
    program.chmod(0o755)
    plan = Preparation(Options(cli_path=program), "Hi").run()
    (tmp_path / "cache" / "hackamore" / "versions.json").write_text('{"versions": {}}')
    assert json.loads(header_line(plan, local=True))["cli"] == "2.1.7"
    assert json.loads(header_line(plan, local=False))["cli"] is None
