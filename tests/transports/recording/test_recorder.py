"""What a recording says of a session, line by line, and that recording changes nothing in what it records."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from hackamore._engine.launch.plan import LaunchPlan
from hackamore.errors import HackamoreError, OptionsError, SpawnError
from hackamore.transports.recording.recorder import (
    RecordedAsync,
    RecordedSync,
    SessionRecord,
    TapeFile,
    header_line,
    shown_arguments,
    traced,
)
from hackamore.transports.recording.redaction import Redactor, Vault
from tests.support.leaks import open_descriptors
from tests.support.patience import patience

SECRET = "hunter2-hunter2"
PLAN = LaunchPlan(
    argv=(
        "/usr/bin/node",
        "/opt/claude",
        "--verbose",
        f"--append-system-prompt=use {SECRET}",
        "--api-key",
        "abcdefgh1",
        "hi",
    ),
    environment={"SHOP_TOKEN": SECRET, "CLAUDE_X": "1", "ANTHROPIC_API_KEY": "x", "PATH": "/bin", "MCP_TIMEOUT": "5"},
    cwd="/srv/shop",
    program_length=2,
)


class Kept:
    """A sink that keeps what it gets, and what went before its end."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.closed = 0

    def write(self, line: bytes) -> None:
        assert not self.closed
        self.lines.append(line)

    def close(self) -> None:
        self.closed += 1

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What was written, without the times."""
        found = [json.loads(line) for line in self.lines]
        assert all(line.endswith(b"\n") for line in self.lines)
        assert all(0 <= entry["t"] < patience(60) for entry in found)
        return [{name: value for name, value in entry.items() if name != "t"} for entry in found]

    @property
    def told(self) -> list[Any]:
        return [(entry["k"], *(value for name, value in entry.items() if name not in "sk")) for entry in self.entries]


def recording(plan: LaunchPlan | None = None, line_bytes: int = 1_000, **more: Any) -> tuple[SessionRecord, Kept]:
    kept = Kept()
    redactor = Redactor(Vault())
    redactor.prepare(plan or PLAN)
    record = SessionRecord(kept, redactor, "s1", line_bytes, **more)
    record.begin(plan or PLAN)
    return record, kept


def test_the_start_has_what_tells_sessions_apart_and_no_value_of_a_variable() -> None:
    for name in (None, "checkout"):
        assert recording(name=name)[1].entries == [
            {
                "s": "s1",
                "k": "start",
                **({"name": name} if name else {}),
                "arguments": [
                    "--verbose",
                    "--append-system-prompt=use <hackamore-key-1>",
                    "--api-key",
                    "<hackamore-key-2>",
                    "hi",
                ],
                "cwd": "<hackamore-cwd>",
                "variables": ["ANTHROPIC_API_KEY", "CLAUDE_X", "MCP_TIMEOUT"],
                "one_shot": False,
            }
        ]
    once = LaunchPlan(argv=("claude",), environment={}, stdin=b"")
    (entry,) = recording(once)[1].entries
    assert (entry["arguments"], entry["cwd"], entry["one_shot"]) == ([], None, True)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (("--token=abcdefgh1", "abcdefgh2"), ["--token=<hackamore-key-1>", "abcdefgh2"]),
        (("--token", "abcdefgh1", "abcdefgh2"), ["--token", "<hackamore-key-1>", "abcdefgh2"]),
        (("--token", "--verbose", "abcdefgh1"), ["--token", "--verbose", "abcdefgh1"]),
        (("--x=a=b", "=", "-p"), ["--x=a=b", "=", "-p"]),
        (("--x", ' {"apiKeyHelper": "say"}'), ["--x", ' {"apiKeyHelper": "<hackamore-key-1>"}']),
        (("[{broken", "--x=[1]"), ["[{broken", "--x=[1]"]),
        (("--x", '[{"password": "correct \\"horse\\""}]'), ["--x", '[{"password": "<hackamore-key-1>"}]']),
        ((os.fsdecode(b"caf\xe9"), f"--{SECRET}"), [os.fsdecode(b"caf\xe9"), "--<hackamore-key-1>"]),
    ],
)
def test_arguments_are_shown_without_their_secrets(argv: tuple[str, ...], shown: list[str]) -> None:
    redactor = Redactor(Vault())
    redactor.prepare(LaunchPlan(argv=("claude",), environment={"SHOP_TOKEN": SECRET}, cwd="/srv/shop"))
    assert shown_arguments(LaunchPlan(argv=("claude", *argv), environment={}), redactor) == shown


def test_each_event_is_told_once_in_its_order() -> None:
    record, kept = recording()
    record.sent(b'{"a":1}\n\n  \n{"b"')
    record.sent(b":2}\n")
    record.received(b'{"c":3}\n{"d":')
    record.received(b"4}\nno json\n\xff\xfe\n" + b"x" * 2_000 + b'\n{"e":5')
    for _ in range(2):
        record.input_ended()
        record.received(b"")
        record.exited(3)
        record.stopped(turn_open=True)
    assert record.exit_known
    assert not record.ended
    assert not kept.closed
    for _ in range(2):
        record.end(f"key {SECRET} \xff".encode("latin-1"))
    record.sent(b'{"late":1}\n')
    record.received(b'{"late":1}\n')
    record.abandoned()
    record.start_failed(OSError("late"))
    assert record.ended
    assert kept.closed == 1
    assert kept.told[1:] == [
        ("out", {"a": 1}),
        ("out", {"b": 2}),
        ("in", {"c": 3}),
        ("in", {"d": 4}),
        ("in", "no json"),
        ("in", base64.b64encode(b"\xff\xfe").decode()),
        ("in", 2_000),
        ("end_input",),
        ("in", True, '{"e":5'),
        ("eof",),
        ("exit", 3),
        ("stop", True),
        ("stderr", "key <hackamore-key-1> \ufffd"),
        ("end", {"key": 2}),
    ]
    names = [set(entry) - {"s", "k"} for entry in kept.entries]
    assert names[4:8] == [{"f"}, {"text"}, {"base64"}, {"oversized"}]
    assert names[9] == {"cut", "text"}
    assert names[11:] == [{"code"}, {"turn_open"}, {"text"}, {"redactions"}]


def test_a_session_that_ends_without_stderr_or_output_says_so() -> None:
    record, kept = recording()
    assert not record.exit_known
    record.exited(None)
    record.output_ended()
    record.abandoned()
    assert kept.told[1:] == [("exit", None), ("eof",), ("abandon",), ("end", {"key": 2})]
    record.output_ended()


@pytest.mark.parametrize("prompt", [b"", b"It is hunter2-hunter2 \xff \xc3\xa9\n{}\n"])
def test_a_prompt_is_told_whole_when_the_input_ends(prompt: bytes) -> None:
    record, kept = recording(LaunchPlan(argv=("claude",), environment={"SHOP_TOKEN": SECRET}, stdin=b"", cwd="/srv"))
    record.sent(prompt[:9])
    record.sent(prompt[9:])
    assert len(kept.lines) == 1
    for _ in range(2):
        record.input_ended()
    expected = [("prompt", "It is <hackamore-key-1> \ufffd é\n{}\n")] if prompt else []
    assert kept.told[1:] == [*expected, ("end_input",)]
    assert all("text" in entry for entry in kept.entries[1:-1])


def test_a_start_that_fails_ends_the_record_without_secrets() -> None:
    record, kept = recording()
    record.start_failed(LookupError(f"no {SECRET}"))
    assert kept.told[1:] == [("start_error", "LookupError", "no <hackamore-key-1>"), ("end", {"key": 2})]
    assert set(kept.entries[1]) == {"s", "k", "error", "message"}
    assert kept.closed == 1


def test_a_record_that_was_never_begun_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    record = SessionRecord.none()
    assert record.ended
    record.sent(b"{}\n")
    record.received(b"{}\n")
    record.exited(0)
    record.end()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("more", [False, True])
def test_the_header_says_what_was_redacted(more: bool) -> None:
    header = json.loads(header_line(PLAN, local=False, more_redaction=more))
    assert header.pop("created").endswith("+00:00")
    assert header.pop("library")
    assert header == {
        "format": "hackamore-cassette",
        "version": 1,
        "cli": None,
        "redacted": [
            *("keys", "secrets of the environment", "e-mail addresses", "accounts", "places", "user name"),
            *("long texts of the CLI", *(["values removed by the callback"] if more else [])),
        ],
    }
    assert json.loads(header_line(LaunchPlan(argv=(), environment={}), local=True))["cli"] is None


# -- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"line\n"),
        (b"", b"line\n"),
        (b'{"format":"hackamore-cassette"}\n', b'{"format":"hackamore-cassette"}\nline\n'),
        (b'{"format":"hackamore-cassette"}\n{"s', b'{"format":"hackamore-cassette"}\n{"s\nline\n'),
        (b"mine\n", None),
        (b" " * 200 + b'{"format":"hackamore-cassette"}\n', None),
    ],
)
def test_a_trace_is_appended_to_and_nothing_else_is(tmp_path: Path, before: bytes | None, after: bytes | None) -> None:
    path = tmp_path / "run.jsonl"
    if before is not None:
        path.write_bytes(before)
        path.chmod(0o644)
    descriptors = open_descriptors()
    if after is None:
        with pytest.raises(ValueError, match="it exists and is not a trace"):
            TapeFile(str(path), fresh=False)
        assert path.read_bytes() == before
    else:
        tape = TapeFile(str(path), fresh=False)
        tape.write(b"line\n")
        tape.close()
        tape.write(b"late\n")
        tape.close()
        assert path.read_bytes() == after
        assert tape.path == str(path)
        assert tape.error is None
        if not before:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_descriptors() == descriptors


def test_a_fresh_tape_is_a_new_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    before = os.umask(0)
    try:
        tape = TapeFile(str(path), fresh=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        TapeFile(str(path), fresh=True)
    tape.close()


def test_a_file_that_takes_a_part_gets_the_rest_and_one_that_takes_none_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run\x1b.jsonl"
    tape = TapeFile(str(path), fresh=True)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:3])))
        tape.write(b"0123456789\n")
        patch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        tape.write(b"lost\n")
    tape.write(b"also lost\n")
    tape.close()
    assert path.read_bytes() == b"0123456789\n"
    assert tape.error is not None
    assert [record.getMessage() for record in caplog.records] == [
        f"recording to {tmp_path}/run\\x1b.jsonl ends here: No space left on device"
    ]


# -- transports -------------------------------------------------------------------------------------------------------------


class Played:
    """A transport of both forms, which notes what is asked of it."""

    pid = 77
    stderr_tail = b"said at the end"

    def __init__(self, *, failing: BaseException | None = None, code: int | None = 3) -> None:
        self.asked: list[Any] = []
        self.failing = failing
        self.code = code

    def start(self, plan: LaunchPlan) -> None:
        self.asked.append("start")
        if self.failing is not None:
            raise self.failing

    def send(self, data: bytes) -> None:
        self.asked.append(data)

    def end_input(self) -> None:
        self.asked.append("end_input")

    def receive(self, timeout: float | None = None) -> bytes | None:
        self.asked.append(("receive", timeout))
        return None if timeout == 0 else b'{"in":1}\n'

    def wait_exit(self, timeout: float | None = None) -> int | None:
        self.asked.append(("wait_exit", timeout))
        return None if timeout == 0 else self.code

    def stop(self, *, turn_open: bool) -> None:
        self.asked.append(("stop", turn_open))

    def abandon(self) -> None:
        self.asked.append("abandon")


class PlayedAsync(Played):
    """Its async form."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("start", "send", "end_input", "receive", "wait_exit", "stop"):
            return found

        async def later(*given: Any, **more: Any) -> Any:
            return found(*given, **more)

        return later


@pytest.fixture(params=["async", "sync"])
def drive(request: pytest.FixtureRequest) -> Callable[..., tuple[Played, Callable[..., Any], list[dict[str, Any]]]]:
    """Return a function that makes a recorded transport, and gives it, a caller of its methods, and the entries."""

    def make(**more: Any) -> tuple[Played, Callable[..., Any], list[dict[str, Any]]]:
        entries: list[dict[str, Any]] = []
        blocking = request.param == "sync"
        inner = (Played if blocking else PlayedAsync)(**more)
        recorded = traced(inner, entries.append, 1_000, local=False, blocking=blocking)
        assert isinstance(recorded, RecordedSync if blocking else RecordedAsync)

        def ask(name: str, *given: Any, **how: Any) -> Any:
            found = getattr(recorded, name)
            if not callable(found):
                return found
            if blocking or name == "abandon":
                return found(*given, **how)

            async def scenario() -> Any:
                return await found(*given, **how)

            return anyio.run(scenario)

        return inner, ask, entries

    return make


Drive = Callable[..., tuple[Any, Callable[..., Any], list[dict[str, Any]]]]


def kinds(entries: list[dict[str, Any]]) -> list[str]:
    return [entry.get("k", "header") for entry in entries]


def test_a_recorded_transport_does_what_it_is_asked_and_tells_of_it(drive: Drive) -> None:
    inner, ask, entries = drive()
    assert (ask("pid"), ask("stderr_tail")) == (77, b"said at the end")
    ask("start", PLAN)
    ask("send", b'{"out":1}\n')
    ask("end_input")
    assert ask("receive") == b'{"in":1}\n'
    assert ask("wait_exit") == 3
    ask("stop", turn_open=True)
    assert inner.asked == ["start", b'{"out":1}\n', "end_input", ("receive", None), ("wait_exit", None), ("stop", True)]
    assert kinds(entries) == ["header", "start", "out", "end_input", "in", "exit", "stop", "stderr", "end"]
    assert entries[0]["cli"] is None
    assert entries[5]["code"] == 3
    assert entries[7]["text"] == "said at the end"
    ask("stop", turn_open=False)
    assert len(entries) == 9


@pytest.mark.parametrize("code", [None, 5])
def test_the_exit_status_of_a_peer_that_is_stopped_is_asked_for(drive: Drive, code: int | None) -> None:
    _, ask, entries = drive(code=code)
    ask("start", PLAN)
    ask("stop", turn_open=False)
    assert kinds(entries) == ["header", "start", "stop", "exit", "stderr", "end"]
    assert entries[3]["code"] == code


def test_a_transport_that_never_started_is_not_asked_how_it_ended(drive: Drive) -> None:
    inner, ask, entries = drive()
    ask("stop", turn_open=False)
    ask("abandon")
    assert inner.asked == [("stop", False), "abandon"]
    assert entries == []


@pytest.mark.parametrize("error", [SpawnError("/bin/claude", f"no {SECRET}"), OSError("no"), HackamoreError("no")])
def test_a_start_that_fails_is_told_and_raised(drive: Drive, error: Exception) -> None:
    inner, ask, entries = drive(failing=error)
    with pytest.raises(type(error)) as caught:
        ask("start", PLAN)
    assert caught.value is error
    assert kinds(entries) == ["header", "start", "start_error", "end"]
    assert SECRET not in str(entries)
    ask("stop", turn_open=False)
    assert inner.asked == ["start", ("stop", False)]


def test_a_start_that_was_cancelled_is_gone_on_with(drive: Drive) -> None:
    inner, ask, entries = drive(failing=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ask("start", PLAN)
    inner.failing = None
    ask("start", PLAN)
    ask("abandon")
    assert kinds(entries) == ["header", "start", "abandon", "end"]


def test_a_read_that_brings_nothing_in_time_is_not_the_end() -> None:
    entries: list[dict[str, Any]] = []
    recorded = traced(Played(), entries.append, 1_000, local=False, blocking=True)
    assert isinstance(recorded, RecordedSync)
    recorded.start(PLAN)
    assert recorded.receive(0) is None
    assert recorded.wait_exit(0) is None
    assert kinds(entries) == ["header", "start"]
    recorded.stop(turn_open=False)
    assert kinds(entries)[2:] == ["stop", "exit", "stderr", "end"]


def test_a_stop_that_fails_ends_the_record_as_well(drive: Drive) -> None:
    inner, ask, entries = drive()

    def fail(*, turn_open: bool) -> None:
        raise LookupError(turn_open)

    ask("start", PLAN)
    inner.stop = fail
    with pytest.raises(LookupError):
        ask("stop", turn_open=True)
    assert kinds(entries) == ["header", "start", "stop", "exit", "stderr", "end"]


def test_a_trace_that_cannot_be_written_names_its_path_and_the_problem(drive: Drive, tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "absent" / "x\x1b", "No such file or directory"), (tmp_path, "Is a directory")):
        recorded = traced(Played(), path, 1_000, local=False, blocking=True)
        with pytest.raises(OptionsError, match=problem) as caught:
            recorded.start(PLAN)
        assert caught.value.field == "trace"
        assert str(path).replace("\x1b", "\\x1b") in str(caught.value)


def test_sessions_of_one_file_have_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for _ in range(2):
        recorded = traced(Played(), path, 1_000, local=False, blocking=True)
        recorded.start(PLAN)
        recorded.stop(turn_open=False)
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert kinds(entries) == ["header", "start", "stop", "exit", "stderr", "end"] * 2
    names = [entry["s"] for entry in entries if "s" in entry]
    assert len(set(names)) == 2
    assert all(len(name) == 8 for name in names)
