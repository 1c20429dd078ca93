"""Cassettes: recording and replaying with stand-in CLIs, on every shell."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import hackamore
from hackamore import Options, sync
from hackamore.errors import CLINotFoundError, ProcessError, SessionClosedError, SpawnError
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.testing import (
    Cassette,
    CassetteError,
    CassetteMismatchError,
    Script,
    SimulatedCLI,
    cassette,
    with_faults,
)
from hackamore.testing.faults import Cut, Split
from tests.support import stand_in, stand_in_session
from tests.support.memory import Memory
from tests.support.patience import patience
from tests.support.programs import program
from tests.support.shell import Shell
from tests.support.talking import Running, ask, first, got, raised, steps, texts
from tests.testing.cassettes.taping import kinds, lines, talk, taped

RESULT = json.dumps(stand_in.RESULT).encode() + b"\n"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tapes" / "talk.jsonl"


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., Options]:
    """Return a function that gives the options for a stand-in CLI: for sessions, or (`plays=`) for queries."""
    query = program(tmp_path / "claude-query", stand_in)
    session = program(tmp_path / "claude-session", stand_in_session)

    def options(plays: list[list[Any]] | None = None, **more: Any) -> Options:
        environment = {"STAND_IN_STEPS": json.dumps(plays or []), **more.pop("env", {})}
        return Options(
            **{"cli_path": session if plays is None else query, "env": environment, "version_check": "skip", **more}
        )

    return options


GONE = Options(cli_path="/nowhere/claude")
"""In a replay no CLI is looked for."""


def other(shell: Shell) -> Shell:
    return Shell({"asyncio": "trio", "trio": "threads", "threads": "asyncio"}[shell.backend])  # type: ignore[arg-type]


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_is_replayed_by_every_shell(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    recorded = taped(shell, tape, cli(), "one", "two")
    assert [len(turn) for turn in recorded] == [len(turn) for turn in taped(shell, tape, GONE, "one", "two")]
    answers = [
        json.loads(turn[-2])["message"]["content"][0]["text"] for turn in taped(other(shell), tape, GONE, "one", "two")
    ]
    assert answers == ["one", "two"]
    assert not tape.with_name(tape.name + ".part").exists()


def test_the_file(tape: Path, cli: Callable[..., Options]) -> None:
    taped(Shell("asyncio"), tape, cli(), "one")
    header, start, *rest = lines(tape)
    assert header["format"] == "hackamore-cassette"
    assert header["version"] == 1
    assert header["library"] == hackamore.__version__
    assert "cli" in header
    assert "keys" in header["redacted"]
    assert start["k"] == "start"
    assert "--input-format" in start["arguments"]
    assert [line["k"] for line in rest[-3:]] == ["stop", "exit", "end"]
    assert rest[-2]["code"] == 0
    assert all(line["t"] >= 0 for line in rest)
    assert stat.S_IMODE(tape.stat().st_mode) == 0o600


def test_a_changed_prompt_fails_with_a_diff(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    taped(shell, tape, cli(), "one", "two")

    async def scenario() -> None:
        with pytest.raises(CassetteMismatchError) as caught, cassette(tape):
            async with Running(shell, GONE) as session:
                assert await texts(await got(session.send("one"))) == ["one"]
                turn = await got(session.send("three"))
                error = await raised(turn.result, CassetteMismatchError)
                assert "three" in str(error)
        assert '- message.content: "two"\n+ message.content: "three"' in str(caught.value)
        assert "Session 0 of" in str(caught.value)
        assert caught.value.session == 0

    shell.play(scenario)


def test_a_prompt_that_is_missing_and_one_too_many(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    taped(shell, tape, cli(), "one", "two")
    with pytest.raises(CassetteMismatchError, match="before everything recorded was sent") as caught:
        taped(shell, tape, GONE, "one")
    assert '"two"' in str(caught.value)
    with pytest.raises(CassetteMismatchError, match="not in the recording"):
        taped(shell, tape, GONE, "one", "two", "three")


def test_other_options_are_another_session(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    taped(shell, tape, cli(model="m1"), "one")
    with pytest.raises(CassetteMismatchError, match="started in another way") as caught:
        taped(shell, tape, GONE.replace(model="m2"), "one")
    assert "--model=m1" in str(caught.value)
    assert "--model=m2" in str(caught.value)
    with pytest.raises(CassetteMismatchError, match="agents"):
        taped(shell, tape, GONE.replace(model="m1", agents={"a": {"description": "d", "prompt": "p"}}), "one")


def test_hooks_get_the_same_inputs_and_must_answer_the_same(
    shell: Shell, tape: Path, cli: Callable[..., Options]
) -> None:
    seen: list[Any] = []
    answer = HookOutput.deny("not this")

    def hook(asked: Any, context: Any) -> HookOutput:
        seen.append((asked.tool_name, asked.tool_input, context.tool_use_id))
        return answer

    def hooks() -> dict[str, Any]:
        return {"hooks": {"PreToolUse": [HookMatcher(hooks=[hook])]}}

    fields = {
        "callback_id": "hook_0",
        "tool_use_id": "t1",
        "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    }

    async def scenario(options: Options) -> None:
        with cassette(tape):
            async with Running(shell, options) as session:
                said = await ask(session, "hook_callback", **fields)
                assert said["hookSpecificOutput"]["permissionDecision"] == "deny"

    shell.play(scenario, cli(**hooks()))
    shell.play(scenario, GONE.replace(**hooks()))
    assert seen == [("Bash", {"command": "ls"}, "t1")] * 2
    answer = HookOutput.allow("this")
    with pytest.raises(CassetteMismatchError, match="another answer") as caught:
        shell.play(scenario, GONE.replace(**hooks()))
    assert '"deny"' in str(caught.value)
    assert '"allow"' in str(caught.value)


def test_requests_are_replayed(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    async def scenario(options: Options, *models: str) -> None:
        with cassette(tape, patience=0.2):
            async with Running(shell, options) as session:
                for model in models:
                    await got(session.set_model(model))

    shell.play(scenario, cli(), "a", "b")
    shell.play(scenario, GONE, "a", "b")
    with pytest.raises(CassetteMismatchError, match="has not sent what comes next"):
        shell.play(scenario, GONE, "b", "a")
    with pytest.raises(CassetteMismatchError, match="another request 'set_model'"):
        shell.play(scenario, GONE, "c")
    with pytest.raises(CassetteMismatchError, match="before everything"):
        shell.play(scenario, GONE, "a")


def test_a_host_that_waits_for_what_never_comes_is_told(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    taped(shell, tape, cli(), "one", "two")
    found = tape.read_bytes().splitlines(keepends=True)
    one, two = (
        next(at for at, line in enumerate(found) if b'"content":"%s"' % text in line) for text in (b"one", b"two")
    )
    found.insert(one + 1, found.pop(two))  # as if both had been sent before the first answer
    tape.write_bytes(b"".join(found))

    async def scenario() -> None:
        with cassette(tape, patience=0.2):
            async with Running(shell, GONE) as session:
                turn = await got(session.send("one"))
                error = await raised(turn.result, CassetteMismatchError)
                assert "has not sent what comes next" in str(error)
                assert '"two"' in str(error)

    with pytest.raises(CassetteMismatchError):
        shell.play(scenario)


def test_a_host_that_waits_for_a_silence_that_was_not_recorded(
    shell: Shell, tape: Path, cli: Callable[..., Options]
) -> None:
    async def scenario(options: Options, *, waits: bool) -> None:
        with cassette(tape, patience=0.2):
            async with Running(shell, options) as session:
                turn = await got(session.send(steps(["background", [{"task_id": "t", "status": "running"}]])))
                await got(turn.result())
                if waits:
                    error = await raised(session.wait_idle, CassetteMismatchError)
                    assert "nothing that follows" in str(error)

    shell.play(lambda: scenario(cli(), waits=False))
    shell.play(lambda: scenario(GONE, waits=False))
    with pytest.raises(CassetteMismatchError):
        shell.play(lambda: scenario(GONE, waits=True))


def test_odd_frames_in_a_file_are_no_reason_to_fail(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    taped(shell, tape, cli(), "one")
    found = tape.read_bytes().splitlines(keepends=True)
    at = next(place for place, line in enumerate(found) if b'"type":"assistant"' in line)
    odd = [5, [], {}, {"type": "control_response", "response": 5}, {"type": "system", "subtype": ["background_tasks_changed"]},
           {"type": "control_response"}]  # fmt: skip
    frames = [b'{"s":0,"t":1,"k":"in","f":%s}\n' % json.dumps(frame).encode() for frame in odd]
    tape.write_bytes(b"".join((*found[:at], *frames, b'{"s":0,"t":1,"k":"else"}\n', *found[at:])))
    [turn] = taped(shell, tape, GONE, "one")
    assert b'"type":"result"' in turn[-1]


def test_leaving_early_is_no_mismatch(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    prompt = steps(["text", "one"], ["hang"])

    async def scenario(options: Options, *, to_the_end: bool) -> None:
        with cassette(tape):
            async with Running(shell, options) as session:
                turn = await got(session.send(prompt))
                if to_the_end:
                    await got(session.interrupt())
                    await got(turn.result())
                else:
                    await first(turn)

    shell.play(lambda: scenario(cli(), to_the_end=True))
    shell.play(lambda: scenario(GONE, to_the_end=True))
    shell.play(lambda: scenario(GONE, to_the_end=False))


def test_a_death_is_replayed_with_exit_code_and_stderr(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    async def scenario(options: Options) -> None:
        with cassette(tape):
            async with Running(shell, options) as session:
                turn = await got(session.send(steps(["err", "Oh no: key=hunter2hunter2\n"], ["exit", 7])))
                error = await raised(turn.result, SessionClosedError)
                assert error.exit_code == 7
                assert "Oh no" in error.stderr_tail

    shell.play(scenario, cli())
    shell.play(scenario, GONE)
    said: list[str] = []
    shell.play(scenario, GONE.replace(stderr=said.append))
    assert [line.partition("=")[0] for line in said] == ["Oh no: key"]


# -- queries -----------------------------------------------------------------------------------------------------------


def test_queries_are_replayed(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    script: list[list[Any]] = [
        ["frame", "init"],
        ["out", "no json\n"],
        ["hex", "ff7b0a"],
        ["frame", "assistant"],
        ["frame", "result"],
    ]
    outcomes: list[Any] = []

    async def scenario(prompt: str, options: Options) -> None:
        with cassette(tape):
            collected = await shell.query(prompt, options).collect()
            lines = [error.line for error in collected.errors]
            outcomes.append(([message.raw for message in collected.messages], lines, collected.terminal_error))

    shell.play(scenario, "What is it?", cli(script))
    assert len(outcomes[0][0]) == 3
    assert outcomes[0][1] == [b"no json", b"\xff{"]
    shell.play(scenario, "What is it?", GONE)
    assert outcomes[0] == outcomes[1]
    with pytest.raises(CassetteMismatchError, match="started in another way") as caught:
        shell.play(scenario, "What was it?", GONE)
    assert '- prompt: "What is it?"\n+ prompt: "What was it?"' in str(caught.value)


def test_endings_of_queries(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    """A crash, an oversized line, an end in the middle of a line, a start that fails."""
    scripts: list[tuple[list[list[Any]], dict[str, Any]]] = [
        ([["frame", "init"], ["err", "broken\n"], ["exit", 3]], {}),
        (
            [["frame", "init"], ["fill", 5_000], ["out", "\n"], ["frame", "result"]],
            {"limits": hackamore.Limits(line_bytes=1_000)},
        ),
        ([["frame", "init"], ["out", '{"type":"assi']], {}),
    ]
    outcomes: list[list[str]] = [[], []]
    program = tape.parent.parent / "broken"
    program.write_text("#!/nowhere/at/all\n")
    program.chmod(0o755)

    async def scenario(place: int) -> None:
        with cassette(tape):
            for script, more in scripts:
                options = cli(script, **more) if place == 0 else GONE.replace(**more)
                collected = await shell.query("go", options).collect()
                outcomes[place].append(
                    f"{collected.terminal_error!r} {[warning.code for warning in collected.warnings]}"
                )
            broken = Options(cli_path=program, version_check="skip") if place == 0 else GONE
            outcomes[place].append(type(await raised(shell.query("go", broken).start, SpawnError)).__name__)

    shell.play(scenario, 0)
    shell.play(scenario, 1)
    assert outcomes[0] == outcomes[1]
    assert "ProcessError" in outcomes[0][0]
    assert "LineTooLong" in outcomes[0][1]
    assert "INCOMPLETE_LAST_LINE" in outcomes[0][2]


def test_a_recording_looks_for_the_cli_as_usual(shell: Shell, tape: Path) -> None:
    async def scenario() -> None:
        with cassette(tape):
            await raised(shell.query("go", GONE).start, CLINotFoundError)

    shell.play(scenario)


def test_several_at_once_in_one_cassette(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    """Which of them starts first is a matter of time: a replay finds the one with the same prompt."""
    script: list[list[Any]] = [["frame", "init"], ["frame", "result"]]

    async def scenario(options: Options, prompts: list[str]) -> None:
        with cassette(tape) as active:
            transport = active.transport() if shell.blocking else None

            async def ask_one(prompt: str) -> Any:
                return await shell.run(prompt, options, transport=transport)

            found = await shell.meanwhile(lambda: ask_one(prompts[0]), lambda: ask_one(prompts[1]))
            assert [outcome.text for outcome in found] == ["hello", "hello"]

    shell.play(scenario, cli(script), ["a", "b"])
    assert sorted({line["s"] for line in lines(tape)[1:]}) == [0, 1]
    shell.play(scenario, GONE, ["a", "b"])
    shell.play(scenario, GONE, ["b", "a"])
    with pytest.raises(CassetteMismatchError, match=r"1 of 2 sessions of .* were not replayed"):
        shell.play(lambda: _one(shell, tape))


def test_faults_around_a_recorded_transport(shell: Shell, tape: Path) -> None:
    """The recording has no faults. They act in a replay as they do in the recording."""
    cli, cut = SimulatedCLI(Script().user("go").says("Gone.")), Cut(matching="result", exit_code=-9)

    async def scenario(inner: SimulatedCLI | None) -> None:
        with cassette(tape) as active:
            source = with_faults(active.transport(inner, name="one"), cut)
            error = await raised(lambda: shell.run("go", transport=source), ProcessError)
            assert isinstance(error, ProcessError)
            assert error.exit_code == -9
            assert [applied.fault for applied in source.applied] == [cut]

    shell.play(scenario, cli)
    assert [line["name"] for line in lines(tape) if line.get("k") == "start"] == ["one"]
    assert any(line.get("f", {}).get("type") == "result" for line in lines(tape))
    shell.play(scenario, None)


def test_faults_around_a_recorded_child_process(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    async def scenario(options: Options) -> None:
        with cassette(tape) as active:
            source = with_faults(active.transport(), Split(3))
            assert (await shell.run("go", options, transport=source)).text == "hello"

    shell.play(scenario, cli([["frame", "init"], ["frame", "result"]]))
    shell.play(scenario, GONE)


def test_a_recorded_transport_inside_another_source(shell: Shell, tape: Path) -> None:
    """A source of your own may make the transport itself, in a thread or task that is not in the block."""

    class Own:
        def __init__(self, inner: Any) -> None:
            self.for_async, self.for_sync = inner.for_async, inner.for_sync

    answers: list[Any] = []

    async def scenario(source: Any) -> None:
        answers.append((await shell.run("go", transport=Own(source))).text)

    for inner in (SimulatedCLI(Script().user("go").says("Gone.")), None):
        with cassette(tape) as active:
            thread = threading.Thread(target=shell.play, args=(scenario, active.transport(inner)))
            thread.start()
            thread.join(patience(30))
    assert answers == ["Gone.", "Gone."]


async def _one(shell: Shell, tape: Path) -> None:
    with cassette(tape):
        await shell.run("a", GONE)


def test_named_sessions_are_found_by_their_names(tape: Path, cli: Callable[..., Options]) -> None:
    """Threads do not inherit the context: they get the cassette as their transport."""

    def in_threads(options: Options, *names: str) -> dict[str, list[str]]:
        answers: dict[str, list[str]] = {}

        def work(name: str) -> None:
            with sync.Session(options, transport=active.transport(name=name)) as session:
                answers[name] = [message.raw.decode() for message in session.send(f"I am {name}")]

        with cassette(tape) as active:
            threads = [threading.Thread(target=work, args=(name,)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(patience(30))
        return answers

    recorded = in_threads(cli(), "ann", "bob")
    replayed = in_threads(GONE, "bob", "ann")
    assert {name: len(found) for name, found in recorded.items()} == {
        name: len(found) for name, found in replayed.items()
    }
    assert "I am ann" in replayed["ann"][-2]


def test_a_transport_of_ones_own_is_recorded_and_then_not_used(shell: Shell, tape: Path) -> None:
    frames = b'{"type":"system","subtype":"init","session_id":"s"}\n' + RESULT
    peer = Memory(frames, until_input_ends=True)

    async def scenario(transport: Any) -> None:
        with cassette(tape):
            result = await shell.run("hi", transport=transport)
            assert result.text == "hello"

    shell.play(scenario, peer)
    assert lines(tape)[0]["cli"] is None
    unused = Memory(b"", until_input_ends=True)
    shell.play(scenario, unused)
    assert (unused.written, peer.written) == (b"", b"hi")


# -- modes and files ---------------------------------------------------------------------------------------------------


def test_modes(tape: Path, cli: Callable[..., Options]) -> None:
    shell = Shell("asyncio")
    script: list[list[Any]] = [["frame", "init"], ["frame", "result"]]

    def go(mode: Any, *prompts: str, live: bool = False) -> tuple[bool, bool]:
        async def scenario() -> tuple[bool, bool]:
            with cassette(tape, mode) as active:
                state = active.recording, active.replaying
                for prompt in prompts:
                    await hackamore.run(prompt, cli(script) if live else GONE)
            return state

        states: list[tuple[bool, bool]] = []

        async def keep() -> None:
            states.append(await scenario())

        shell.play(keep)
        return states[0]

    with pytest.raises(CassetteError, match="no cassette"):
        go("none", "a")
    assert go("once", "a", live=True) == (True, False)
    first = tape.read_bytes()
    assert go("once", "a") == (False, True)
    assert go("none", "a") == (False, True)
    assert go("new", "a") == (True, True)
    assert tape.read_bytes() == first
    assert go("new", "a", "b", live=True) == (True, True)
    assert tape.read_bytes().startswith(first)
    assert go("once", "a", "b") == (False, True)
    assert go("all", "c", live=True) == (True, False)
    assert go("once", "c") == (False, True)
    with pytest.raises(CassetteMismatchError, match="one session more"):
        go("once", "c", "c")
    with pytest.raises(ValueError, match="mode"):
        cassette(tape, "sometimes")  # type: ignore[arg-type]
    for wrong in ({"speed": 0}, {"patience": -1}):
        with pytest.raises(ValueError, match="greater than 0"):
            cassette(tape, **wrong)  # type: ignore[arg-type]


def test_a_block_that_fails_leaves_no_cassette(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    async def scenario() -> None:
        with cassette(tape):
            await talk(shell, cli(), "one")
            raise LookupError("the test failed")

    with pytest.raises(LookupError):
        shell.play(scenario)
    assert not tape.exists()
    part = tape.with_name(tape.name + ".part")
    assert kinds(part)[-1] == "end"
    assert stat.S_IMODE(part.stat().st_mode) == 0o600


def test_a_session_that_outlives_the_block(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    async def scenario() -> None:
        running = Running(shell, cli())
        try:
            with pytest.raises(CassetteError, match="still open"), cassette(tape):
                running = Running(shell, cli())
                session = await running.__aenter__()
                await texts(await got(session.send("one")))
        finally:
            await running.__aexit__()
        assert not tape.exists()

    shell.play(scenario)


def test_nothing_was_opened(tape: Path) -> None:
    with cassette(tape) as active:
        assert "recording" in repr(active)
        with pytest.raises(CassetteError, match="in use already"), active:
            pass
    assert not list(tape.parent.iterdir())
    with pytest.raises(CassetteError, match="not in use"):
        sync.Session(GONE, transport=active.transport())


def test_files_that_cannot_be_used(tmp_path: Path, tape: Path, cli: Callable[..., Options]) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "tape.jsonl", Path("/proc/tape.jsonl")):
        with pytest.raises(CassetteError, match="cannot be written"), cassette(path):
            pass
    taped(Shell("asyncio"), tape, cli(), "one")
    whole = tape.read_bytes()
    for damage, problem in (
        (whole.replace(b'"k":"in"', b'"k":', 1), "line 4 cannot be read"),
        (whole[:-40], "cannot be read"),
        (whole[: whole.rindex(b"\n", 0, -1) + 1], "was interrupted"),
        (b"", "no header"),
        (b"\x00\xff" * 50, "no header"),
        (whole.replace(b'"version":1', b'"version":2', 1), "a later version of Hackamore: line 1: format version 2"),
        (
            whole.replace(b'"k":"in"', b'"k":'),
            r"line 4 cannot[^;]*; line \d+ cannot[^;]*; line \d+ cannot[^;]*; and \d more",
        ),
        (whole.replace(b'"f":{', b'"f":{"e":"\xe9",', 1), "line 3 cannot be read: 'utf-8'"),
    ):
        tape.write_bytes(damage)
        with pytest.raises(CassetteError, match=problem), cassette(tape):
            pass
    for end in (whole.rindex(b"\n", 0, -1) + 1, -20):  # between two lines, and in the middle of one
        tape.write_bytes(whole[:end])
        taped(Shell("asyncio"), tape, GONE, "one", allow_incomplete=True)
    tape.write_bytes(whole.replace(b'"k":"in"', b'"k":', 1))
    with pytest.raises(CassetteError, match="line 4 cannot be read"), cassette(tape, allow_incomplete=True):
        pass


def test_a_full_disk(tmp_path: Path, cli: Callable[..., Options]) -> None:
    """The session goes on; the block says it at its end."""
    tape = tmp_path / "tape.jsonl"
    with pytest.raises(CassetteError, match="could not be written"):
        _with_full_disk(tape, cli())
    assert not tape.exists()


def _with_full_disk(tape: Path, options: Options) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with cassette(tape), sync.Session(options) as session:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
            for _ in session.send("x" * 3_000):
                pass
            assert session.send("again").result() is not None
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_huge_frames(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    script: list[list[Any]] = [["frame", "init"], ["line", 5_000_000], ["frame", "result"]]

    async def scenario(options: Options) -> None:
        with cassette(tape):
            collected = await shell.query("x" * 1_000_000, options).collect()
            assert len(collected.messages[1].raw) > 5_000_000

    shell.play(scenario, cli(script))
    shell.play(scenario, GONE)


def test_the_original_timing(shell: Shell, tape: Path, cli: Callable[..., Options]) -> None:
    taped(shell, tape, cli(), "one")
    header, *entries = lines(tape)
    for entry in entries:
        entry["t"] += 10 if entry.get("f", {}).get("type") == "result" else 0  # as if the answer had taken ten seconds
    tape.write_text("".join(json.dumps(line) + "\n" for line in (header, *entries)))
    took = []
    for speed in (None, 20.0):
        began = time.monotonic()
        taped(shell, tape, GONE, "one", speed=speed)
        took.append(time.monotonic() - began)
    assert took[0] < patience(10)
    assert 0.5 <= took[1] < patience(10)


# -- ways of use -------------------------------------------------------------------------------------------------------


def test_as_a_decorator(tape: Path, cli: Callable[..., Options]) -> None:
    script: list[list[Any]] = [["frame", "init"], ["frame", "result"]]

    @cassette(tape)
    async def ask_async(options: Options, *, prompt: str) -> str:
        """Ask."""
        return (await hackamore.run(prompt, options)).text

    @cassette(tape)
    def ask_blocking(options: Options, prompt: str) -> str:
        return sync.run(prompt, options).text

    assert ask_async.__name__ == "ask_async"
    outcomes: list[str] = []

    async def scenario() -> None:
        outcomes.append(await ask_async(cli(script), prompt="a"))
        outcomes.append(await ask_async(GONE, prompt="a"))

    Shell("trio").play(scenario)
    assert [*outcomes, ask_blocking(GONE, "a")] == ["hello"] * 3


def test_a_block_may_change_the_working_directory(
    tmp_path: Path, cli: Callable[..., Options], monkeypatch: pytest.MonkeyPatch
) -> None:
    script: list[list[Any]] = [["frame", "init"], ["frame", "result"]]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tape.jsonl.part").write_text("of an earlier run")
    for options in (cli(script, cwd=tmp_path), GONE.replace(cwd=tmp_path)):
        with cassette("tape.jsonl"):
            monkeypatch.chdir("/")
            sync.run("a", options)
        monkeypatch.chdir(tmp_path)
    assert (tmp_path / "tape.jsonl").exists()
    assert not (tmp_path / "tape.jsonl.part").exists()


def test_nothing_is_recorded_after_the_block(tape: Path, cli: Callable[..., Options]) -> None:
    script: list[list[Any]] = [["frame", "init"], ["frame", "result"]]
    with cassette(tape):
        sync.run("a", cli(script))
    before = tape.read_bytes()
    assert sync.run("b", cli(script)).text == "hello"
    assert tape.read_bytes() == before


def test_a_callback_redacts_more(tape: Path, cli: Callable[..., Options]) -> None:
    shell = Shell("asyncio")
    taped(shell, tape, cli(), "project Bluebird starts", redact=lambda text: text.replace("Bluebird", "<project>"))
    assert b"Bluebird" not in tape.read_bytes()
    assert "callback" in lines(tape)[0]["redacted"][-1]
    taped(shell, tape, GONE, "project Bluebird starts", redact=lambda text: text.replace("Bluebird", "<project>"))

    def failing(text: str) -> str:
        raise LookupError(text)

    with (
        pytest.raises(CassetteError, match="redact"),
        cassette(tape, "all", redact=failing),
        sync.Session(cli()) as session,
    ):
        session.send("project Bluebird starts").result()
    with pytest.raises(CassetteError, match="redact"), cassette(tape, "all", redact=failing):
        sync.query("hi", cli([["frame", "result"]])).collect()
    assert b"Bluebird" not in tape.read_bytes()


def test_a_cassette_that_is_not_in_use(tape: Path) -> None:
    made = cassette(tape)
    assert isinstance(made, Cassette)
    assert "not in use" in repr(made)
    assert (made.recording, made.replaying) == (False, False)


@pytest.mark.parametrize("mode", ["once", "all"])
def test_what_is_no_file_is_refused(tmp_path: Path, mode: Literal["once", "all"]) -> None:
    os.mkfifo(tmp_path / "pipe")  # as /dev/full it would be read without end
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(CassetteError, match="is not a file"), cassette(path, mode):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
