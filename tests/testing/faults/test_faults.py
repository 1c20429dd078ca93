"""Faults between a host and its CLI, on all three shells: around a peer in memory, and around a real child process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from hackamore import Options, ProcessError, SessionClosedError, Timeouts, TurnTimeoutError
from hackamore.messages import AssistantMessage, ResultMessage
from hackamore.testing import with_faults
from hackamore.testing.faults import (
    Corrupt,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fault,
    Insert,
    Reorder,
    Silence,
    SlowReader,
    Split,
    StalledWriter,
)
from hackamore.testing.faults.flow import Ended, Flow, Pause, frame_name
from tests.support import stand_in_session
from tests.support.memory import Memory
from tests.support.patience import patience
from tests.support.programs import program
from tests.support.query_fixtures import leaves_nothing, playing, shell, stand_in_path
from tests.support.shell import Shell
from tests.support.talking import got, raised, steps, texts

__all__ = ["leaves_nothing", "playing", "shell", "stand_in_path"]

StandIn = Callable[..., Options]
FRAMES = [
    {"type": "system", "subtype": "init", "session_id": "s"},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "naïve \u2028"}]}},
    {"type": "user", "message": {"role": "user", "content": "x"}},
    {"type": "result", "subtype": "success", "is_error": False, "result": "done"},
]
LINES = [json.dumps(frame, ensure_ascii=False).encode() + b"\n" for frame in FRAMES]
WIRE = b"".join(LINES)
KINDS = ["system", "assistant", "user", "result"]


def through(*faults: Fault, data: bytes = WIRE, reads: int = 97, seed: int = 0) -> tuple[bytes, Ended | None, float]:
    """Send bytes through the faults, without a clock: what came out, how it ended, how long all pauses were."""
    stages = [fault.stage(Random(f"{seed} {number}"), lambda what: None) for number, fault in enumerate(faults)]
    flow = Flow(stages)
    for at in range(0, len(data), reads):
        flow.push(data[at : at + reads])
    flow.push(Ended())
    out, now, paused = b"", 0.0, 0.0
    while True:
        match flow.take(now):
            case Ended() as end:
                assert flow.held_bytes == 0
                return out, end, paused
            case Pause(seconds):
                if seconds == float("inf"):
                    return out, None, paused
                now, paused = now + seconds, paused + seconds
            case bytes() as piece:
                out += piece
            case None:
                raise AssertionError("the end was lost")


@pytest.mark.parametrize("reads", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([Split(1), Split(None), Delay(0.1), SlowReader(3, 0.1)], [0, 1, 2, 3]),
        ([Drop("assistant")], [0, 2, 3]),
        ([Drop(nth=[1, 4])], [1, 2]),
        ([Drop(lambda frame: frame.get("subtype") == "init")], [1, 2, 3]),
        ([Drop("system/init"), Duplicate("result")], [1, 2, 3, 3]),
        ([Duplicate(nth=2), Drop(nth=2)], [0, 1, 2, 3]),
        ([Reorder("assistant")], [0, 2, 1, 3]),
        ([Reorder(nth=4)], [0, 1, 2, 3]),
        ([Drop(probability=0)], [0, 1, 2, 3]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_becomes_of_frames(faults: list[Fault], expected: list[int], reads: int) -> None:
    out, end, _ = through(*faults, reads=reads)
    assert out == b"".join(LINES[number] for number in expected)
    assert end == Ended()


@pytest.mark.parametrize("reads", [1, 7, 10_000])
def test_how_a_direction_ends(reads: int) -> None:
    middle = len(LINES[0]) + len(LINES[1]) // 2
    assert through(Cut(matching="assistant", exit_code=-9), reads=reads)[:2] == (WIRE[:middle], Ended(True, -9))
    assert through(Cut(nth=2), reads=reads)[:2] == (WIRE[:middle], Ended(True))
    assert through(Cut(middle), reads=reads)[:2] == (WIRE[:middle], Ended(True))
    assert through(Cut(middle), Split(2), reads=reads)[:2] == (WIRE[:middle], Ended(True))
    assert through(Cut(len(WIRE)), reads=reads)[:2] == (WIRE, Ended())
    assert through(Silence(middle), reads=reads)[:2] == (WIRE[:middle], None)
    assert through(Silence(len(WIRE)), reads=reads)[:2] == (WIRE, None)
    assert through(Silence(len(WIRE) + 1), reads=reads)[:2] == (WIRE, Ended())
    assert through(Silence(matching="user"), reads=reads)[:2] == (LINES[0] + LINES[1], None)
    assert through(StalledWriter(), reads=reads)[:2] == (b"", None)


def test_how_frames_are_spoilt() -> None:
    assert through(Corrupt("result", how="noise"))[0].split(b"\n")[3].startswith(b"[warn]")
    hows: list[Any] = ["cut", "byte", "utf8"]
    for how in hows:
        out = through(Corrupt("assistant", how=how))[0]
        assert out != WIRE
        before, spoilt, *after = out.splitlines(keepends=True)
        assert [before, *after] == [LINES[0], *LINES[2:]]
        assert spoilt.endswith(b"\n")
        if how != "byte":  # one byte may still be JSON
            with pytest.raises(ValueError):
                json.loads(spoilt)
    assert through(Insert(data={"type": "new"}))[0] == b'{"type":"new"}\n' + WIRE
    assert through(Insert("result", data=b"noise"))[0] == b"".join(LINES[:3]) + b"noise\n" + LINES[3]
    assert through(Drop(), data=b"no line end")[0] == b"no line end"


def test_the_same_seed_gives_the_same_faults() -> None:
    def pieces(seed: int, reads: int) -> list[int]:
        flow = Flow([Split(None).stage(Random(seed), lambda what: None)])
        for at in range(0, len(WIRE), reads):
            flow.push(WIRE[at : at + reads])
        found, place = [], 0
        while (item := flow.take(0)) is not None:
            assert isinstance(item, bytes)
            place += len(item)
            found.append(place)
        return found

    assert pieces(1, 10_000) == pieces(1, 10_000) != pieces(2, 10_000)
    assert set(pieces(1, 10_000)) < set(pieces(1, 10))
    random: list[Fault] = [Drop(probability=0.5), Corrupt(how="byte", probability=0.5), Reorder(probability=0.5)]
    assert through(*random, seed=3, data=WIRE * 9) == through(*random, seed=3, data=WIRE * 9, reads=1)
    assert through(*random, seed=3, data=WIRE * 9) != through(*random, seed=4, data=WIRE * 9)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Split(0),
        lambda: Split([]),
        lambda: Split(1, direction="up"),  # type: ignore[arg-type]
        lambda: Delay(-1),
        lambda: Delay(float("nan")),
        lambda: Drop(probability=2),
        lambda: Drop(nth=0),
        lambda: Corrupt(how="x"),  # type: ignore[arg-type]
        lambda: Cut(),
        lambda: Cut(1, "result"),
        lambda: Cut(1, exit_code=1, direction="outbound"),
        lambda: SlowReader(0),
    ],
)
def test_faults_that_make_no_sense_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        wrong()


def test_what_is_no_fault_and_what_is_no_transport() -> None:
    with pytest.raises(TypeError, match="instances"):
        with_faults(None, Split)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a SyncTransport or a TransportSource, not object"):
        with_faults(object()).for_sync()  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an AsyncTransport or a TransportSource, not object"):
        with_faults(object()).for_async()  # type: ignore[arg-type]
    assert "Split" in repr(with_faults(Memory(), Split(1)))


# -- around a peer in memory ----------------------------------------------------------------------------------------


async def answer(shell: Shell, *faults: Fault, data: bytes = WIRE, **options: Any) -> Any:
    source = with_faults(Memory(data), *faults)
    stream = shell.query("hi", Options(**options), transport=source)
    return await stream.collect(), source


def test_split_at_every_byte(shell: Shell) -> None:
    async def scenario() -> None:
        collected, _ = await answer(shell, Split(1))
        assert [message.type for message in collected.messages] == KINDS
        assert [message.raw + b"\n" for message in collected.messages] == LINES

    shell.play(scenario)


def test_a_cut_with_an_exit_code_is_a_crash(shell: Shell) -> None:
    async def scenario() -> None:
        collected, source = await answer(shell, Cut(matching="user", exit_code=-9))
        assert [message.type for message in collected.messages] == KINDS[:2]
        assert isinstance(collected.terminal_error, ProcessError)
        assert collected.terminal_error.exit_code == -9
        assert [applied.what.partition(":")[0] for applied in source.applied] == ["cut in the middle"]

    shell.play(scenario)


def test_silence_meets_the_deadline(shell: Shell) -> None:
    async def scenario() -> None:
        collected, _ = await answer(shell, Silence(matching="result"), timeouts=Timeouts(idle=0.2))
        assert isinstance(collected.terminal_error, TurnTimeoutError)
        assert collected.terminal_error.kind == "idle"

    shell.play(scenario)


def test_what_happened_is_told(shell: Shell) -> None:
    async def scenario() -> None:
        collected, source = await answer(shell, Drop("user"), Duplicate("assistant"))
        assert [message.type for message in collected.messages] == ["system", "assistant", "assistant", "result"]
        assert {(one.connection, one.direction, one.what) for one in source.applied} == {
            (1, "inbound", f"duplicated assistant, {len(LINES[1])} bytes"),
            (1, "inbound", f"dropped user, {len(LINES[2])} bytes"),
        }

    shell.play(scenario)


def test_delays_are_kept_and_do_not_hold_up_a_stop(shell: Shell) -> None:
    async def scenario() -> None:
        began = time.monotonic()
        collected, _ = await answer(shell, Delay(0.2, nth=1))
        assert [message.type for message in collected.messages] == KINDS
        assert time.monotonic() - began >= 0.2
        stream = shell.query("hi", transport=with_faults(Memory(WIRE), Silence()))
        await stream.start()
        began = time.monotonic()
        outcomes = await shell.meanwhile(stream.next_item, stream.close)
        assert outcomes == (None, None)
        assert time.monotonic() - began < patience(5)

    shell.play(scenario)


def test_a_read_that_times_out_loses_nothing() -> None:
    transport = with_faults(Memory(WIRE), Split(1), Delay(0.002, direction="inbound")).for_sync()
    transport.start(None)  # type: ignore[arg-type]
    out = b""
    while (piece := transport.receive(0.001)) != b"":
        out += piece or b""
    assert out == WIRE
    transport.stop(turn_open=False)
    assert transport.receive() == b""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_read_loses_nothing(backend: Any) -> None:
    async def scenario() -> None:
        transport = with_faults(Memory(WIRE), Split(1), Delay(0.002, direction="inbound")).for_async()
        await transport.start(None)  # type: ignore[arg-type]
        out, piece = b"", b"x"
        while piece:
            with anyio.move_on_after(0.001):
                piece = await transport.receive()
                out += piece
        assert out == WIRE
        await transport.stop(turn_open=False)

    anyio.run(scenario, backend=backend)


def test_writes_in_order_and_the_end_after_them(shell: Shell) -> None:
    async def scenario() -> None:
        memory = Memory(WIRE, until_input_ends=True)
        source = with_faults(memory, SlowReader(100, 0.001), Split(7, direction="outbound"))
        stream = shell.query("p" * 3_000, Options(), transport=source)
        collected = await stream.collect()
        assert [message.type for message in collected.messages] == KINDS
        assert memory.written == b"p" * 3_000
        assert memory.input_ended

    shell.play(scenario)


def test_a_peer_that_never_reads(shell: Shell) -> None:
    async def scenario() -> None:
        memory = Memory(WIRE, until_input_ends=True)
        options = Options(timeouts=Timeouts(turn=0.2))
        collected = await shell.query("hello", options, transport=with_faults(memory, StalledWriter(2))).collect()
        assert isinstance(collected.terminal_error, TurnTimeoutError)
        assert (memory.written, memory.input_ended) == (b"he", False)

    shell.play(scenario)


# -- around the child process of the options ------------------------------------------------------------------------


def test_around_the_child_process(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(["frame", "init"], ["read_prompt"], ["frame", "assistant"], ["frame", "result"])
        source = with_faults(None, Split(3), Drop("assistant"))
        stream = shell.query("x" * 200_000, options, transport=source)
        collected = await stream.collect()
        kinds = [message.type for message in collected.messages]
        assert kinds == ["system", "user", "result"]
        assert len(collected.messages[1].data["message"]["content"]) == 200_000
        assert [one.what[:17] for one in source.applied] == ["dropped assistant"]

    shell.play(scenario)


def test_a_child_that_is_cut_off_is_gone_afterwards(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(["frame", "init"], ["sleep", 60])
        stream = shell.query("hi", options, transport=with_faults(None, Cut(nth=1, exit_code=1)))
        error = (await stream.collect()).terminal_error
        assert isinstance(error, ProcessError)
        assert error.exit_code == 1
        assert stream.pid is not None

    shell.play(scenario)


def test_a_session_with_every_harmless_fault(shell: Shell, session_options: StandIn) -> None:
    from hackamore.aio.session import Session as AsyncSession
    from hackamore.sync.session import Session as SyncSession

    async def scenario() -> None:
        kind: Any = SyncSession if shell.blocking else AsyncSession
        source = with_faults(None, Split(None, most=500), Delay(0.0, jitter=0.002), Insert(nth=3, data={"type": "new"}))
        session = kind(session_options(), transport=source)
        await got(session.start())
        try:
            assert await texts(await got(session.send("one"))) == ["one"]
            assert await texts(await got(session.send("two"))) == ["two"]
            await got(session.set_permission_mode("plan"))
            assert source.applied[0].what.startswith("inserted")
        finally:
            await got(session.stop())

    shell.play(scenario)


def test_a_session_whose_cli_dies_in_the_middle_of_a_line(shell: Shell, session_options: StandIn) -> None:
    from hackamore.aio.session import Session as AsyncSession
    from hackamore.sync.session import Session as SyncSession

    async def scenario() -> None:
        kind: Any = SyncSession if shell.blocking else AsyncSession
        session = kind(session_options(), transport=with_faults(None, Cut(matching="result", exit_code=-11)))
        await got(session.start())
        turn = await got(session.send(steps(["text", "hello"])))
        error = await raised(turn.result, SessionClosedError)
        assert (error.expected, error.exit_code) == (False, -11)
        await got(session.stop())

    shell.play(scenario)


@pytest.fixture
def session_options(tmp_path: Path) -> StandIn:
    """Options for the stand-in of sessions."""
    path = program(tmp_path / "session-claude", stand_in_session)
    return lambda **more: Options(cli_path=str(path), version_check="skip", **more)


def test_messages_have_their_classes(shell: Shell) -> None:
    async def scenario() -> None:
        collected, _ = await answer(shell, Split([1, 2, 3]), Corrupt("user", how="noise"))
        assert isinstance(collected.messages[1], AssistantMessage)
        assert isinstance(collected.messages[-1], ResultMessage)
        assert len(collected.errors) == 1

    shell.play(scenario)


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ({"type": "assistant"}, "assistant"),
        ({"type": "system", "subtype": "init"}, "system/init"),
        ({"type": "control_request", "request": {"subtype": "interrupt"}}, "control_request/interrupt"),
        ({"type": "control_response", "response": {"subtype": "success"}}, "control_response/success"),
        ({"type": "control_response", "response": 3, "subtype": "odd"}, "control_response/odd"),
    ],
)
def test_the_names_of_frames_in_faults(frame: dict[str, Any], name: str) -> None:
    assert frame_name(frame) == name


class Silent:
    """A transport whose CLI is silent: it keeps the limits of waits, and does not wait."""

    pid = None
    stderr_tail = b""

    def __init__(self) -> None:
        self.limits: list[float | None] = []

    def start(self, plan: Any) -> None:
        """Start nothing."""

    def send(self, data: bytes) -> None:
        """Take nothing."""

    def end_input(self) -> None:
        """End nothing."""

    def receive(self, timeout: float | None = None) -> bytes | None:
        self.limits.append(timeout)
        return None

    def wait_exit(self, timeout: float | None = None) -> int | None:
        self.limits.append(timeout)
        return None

    def stop(self, *, turn_open: bool) -> None:
        """Stop nothing."""

    def abandon(self) -> None:
        """Stop nothing."""


@pytest.mark.parametrize("name", ["receive", "wait_exit"])
@pytest.mark.parametrize("timeout", [0.0, 0.005])
def test_a_wait_is_no_longer_than_its_caller_wants(name: str, timeout: float) -> None:
    silent = Silent()
    transport = with_faults(silent, Delay(60.0)).for_sync()
    assert getattr(transport, name)(timeout) is None
    assert silent.limits
    assert all(limit is not None and limit <= timeout for limit in silent.limits)
