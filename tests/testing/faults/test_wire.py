"""What comes over the wire in odd ways: pieces, noise, unknown kinds, missing fields, cuts at every byte."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore import HackamoreError, Limits, Options, ProcessError, SessionClosedError
from hackamore.messages import (
    AssistantMessage,
    ResultMessage,
    TextBlock,
    UnknownBlock,
    UnknownMessage,
    UnknownSystemMessage,
)
from hackamore.testing.faults import Corrupt, Cut, Delay, Drop, Duplicate, Insert, Reorder, Split
from tests.support.query_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import each, got, raised
from tests.testing.faults.talk import answered, behind, greeting, talking

ODD = "U+2028 \u2028, \U0001f434, \ufeff, naïve"


def test_a_cli_that_exits_before_it_reads(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        for steps in ([["exit", 1]], [["close_stdin"], ["frame", "error_result"], ["exit", 1]]):
            stream = shell.query("x" * 1_000_000, playing(*steps))
            collected = await stream.collect()
            if len(steps) == 1:
                assert isinstance(collected.terminal_error, ProcessError)
            else:
                assert collected.terminal_error is None
                assert isinstance(collected.messages[-1], ResultMessage)

    shell.play(scenario)


def test_a_session_in_single_bytes(shell: Shell) -> None:
    async def scenario() -> None:
        source = behind(greeting(ODD, "Two."), Split(1, direction="inbound"), Split(3, direction="outbound"))
        async with talking(shell, source) as session:
            assert await answered(session, ODD) == ODD
            await got(session.set_permission_mode("plan"))
            assert await answered(session) == "Two."
            assert session.warnings == []

    shell.play(scenario)


@pytest.mark.parametrize("how", ["noise", "utf8", "cut"])
def test_noise_and_spoilt_frames_of_a_session(shell: Shell, how: Any) -> None:
    async def scenario() -> None:
        source = behind(greeting("One.", "Two."), Corrupt("assistant", nth=1, how=how))
        async with talking(shell, source) as session:
            everything = session.messages()
            assert await answered(session) == "One."
            assert await answered(session) == "Two."
            await got(session.stop())
            texts = [message.text async for message in each(everything) if isinstance(message, AssistantMessage)]
            assert texts == (["One.", "Two."] if how == "noise" else ["Two."])
            assert len(source.applied) == 1

    shell.play(scenario)


def test_a_frame_beyond_the_limit_costs_a_session_one_message(shell: Shell) -> None:
    async def scenario() -> None:
        source = behind(
            greeting("One."), Insert("assistant", data=b'{"type":"assistant","x":"' + b"x" * 300_000 + b'"}')
        )
        async with talking(shell, source, limits=Limits(line_bytes=200_000)) as session:
            assert await answered(session) == "One."
            assert [warning.code for warning in session.warnings] == ["OVERSIZED_LINE_SKIPPED"]

    shell.play(scenario)


UNKNOWN: list[dict[str, Any]] = [
    {"type": "telepathy", "thought": 1},
    {"type": "system", "subtype": "weather", "wind": [1]},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "hologram", "depth": 3}], "new": 1}},
    {"type": "assistant"},
    {"type": "user", "message": {"role": "user", "content": 5}},
]


@pytest.mark.parametrize("kind", ["one-shot", "session"])
def test_what_is_unknown_or_missing_is_delivered(shell: Shell, kind: str) -> None:
    async def scenario() -> None:
        source = behind(greeting(), *(Insert("assistant", data=frame) for frame in reversed(UNKNOWN)))
        if kind == "one-shot":
            collected = await shell.query("go", transport=source).collect()
            messages = collected.messages
            assert collected.terminal_error is None
        else:
            async with talking(shell, source) as session:
                cursor = session.messages()
                assert await answered(session) == "Hello."
                await got(session.stop())
                messages = [message async for message in each(cursor)]
        raws = [message.data for message in messages]
        for frame in UNKNOWN:
            assert frame in raws
        assert any(type(message) is UnknownMessage and message.type == "telepathy" for message in messages)
        assert any(isinstance(message, UnknownSystemMessage) for message in messages)
        blocks = [block for m in messages if isinstance(m, AssistantMessage) for block in m.content]
        assert {type(block) for block in blocks} == {TextBlock, UnknownBlock}
        assert isinstance(next(m for m in reversed(messages) if m.type == "result"), ResultMessage)

    shell.play(scenario)


def test_frames_that_come_twice_or_in_another_order(shell: Shell) -> None:
    async def scenario() -> None:
        for fault in (Duplicate(), Reorder("assistant"), Duplicate("control_response"), Drop("command_lifecycle")):
            source = behind(greeting("One.", "Two."), fault)
            async with talking(shell, source) as session:
                assert await answered(session) == "One."
                assert await answered(session) in ("One.", "Two.")
                assert source.applied

    shell.play(scenario)


def test_a_cut_at_every_byte_ends_a_one_shot_in_a_typed_way(shell: Shell) -> None:
    async def scenario() -> None:
        whole = await shell.query("go", transport=behind(greeting())).collect()
        size = sum(len(message.raw) + 1 for message in whole.messages)
        endings = set()
        for after in range(0, size, 11):
            code = (0, -9, 1, None)[after % 4]
            collected = await shell.query("go", transport=behind(greeting(), Cut(after, exit_code=code))).collect()
            error = collected.terminal_error
            assert error is None or isinstance(error, ProcessError)
            endings.add((type(error).__name__, tuple(warning.code for warning in collected.warnings)))
            got_bytes = b"".join(message.raw + b"\n" for message in collected.messages)
            assert got_bytes in b"".join(message.raw + b"\n" for message in whole.messages)
        assert ("ProcessError", ()) in endings
        assert ("NoneType", ("EMPTY_RESPONSE",)) in endings
        assert ("NoneType", ("INCOMPLETE_LAST_LINE", "CLEAN_EXIT_NO_RESULT")) in endings

    shell.play(scenario)


def test_a_cut_anywhere_wakes_everybody_in_a_session(shell: Shell) -> None:
    async def scenario() -> None:
        for after in (0, 10, 1_500, 1_800, 2_000, 2_300, 3_000, 3_500, 4_500):
            source = behind(greeting(), Cut(after, exit_code=-9))
            try:
                async with talking(shell, source) as session:
                    turn = await got(session.send("go"))
                    error = await raised(turn.result, SessionClosedError)
                    assert error.exit_code == -9
            except HackamoreError as error:
                assert "exit" in str(error) or "ended" in str(error), error

    shell.play(scenario)


def test_random_harmless_faults_change_nothing(shell: Shell) -> None:
    async def scenario() -> None:
        for seed in range(5):
            faults = (Split(None, most=200), Delay(0.0, jitter=0.0005), Corrupt(how="noise", probability=0.1))
            source = behind(greeting(ODD, "Two."), *faults, seed=seed)
            async with talking(shell, source) as session:
                assert await answered(session, ODD) == ODD
                assert await answered(session) == "Two."

    shell.play(scenario)


def test_options_reach_a_cli_behind_faults(shell: Shell) -> None:
    async def scenario() -> None:
        answer = await shell.run("go", Options(max_turns=1), transport=behind(greeting(), Split([7, 1])))
        assert answer.text == "Hello."

    shell.play(scenario)
