"""Timeouts: the table does what a plain list would do, and its work grows with the number of events, not with that of open prompts."""

from __future__ import annotations

import json
import random
import sys
from types import FrameType
from typing import Any

import pytest

import hackamore
from hackamore._engine.launch import build_plan
from hackamore._engine.protocol.deadlines import Deadlines
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.readers import Progress, Readers
from hackamore.options.bounds import LONGEST_SECONDS
from tests.contract import shows
from tests.support.seeds import seeded


@pytest.mark.parametrize("seed", range(6))
def test_the_table_passes_what_a_plain_list_would_pass(seed: int) -> None:
    chance = random.Random(seeded(seed))
    deadlines = Deadlines()
    plain: dict[tuple[str, str], float] = {}
    now = 0.0
    for _ in range(2_000):
        kind, name = chance.choice("abc"), str(chance.randrange(12))
        match chance.randrange(8):
            case 0 | 1 | 2:
                seconds = chance.choice([0.0, 0.5, 3.0, 50.0])
                deadlines.now = now
                deadlines.arm(kind, name, seconds)
                plain[kind, name] = now + seconds
            case 3:
                deadlines.disarm(kind, name)
                plain.pop((kind, name), None)
            case 4:
                deadlines.arm(kind, name, None)
                plain.pop((kind, name), None)
            case 5:
                wanted = max(0.0, min(plain.values()) - now) if plain else None
                assert deadlines.wait_seconds(now) == wanted
            case _:
                now += chance.choice([0.0, 0.1, 1.0, 10.0])
                passed = [(kind, name) for kind, name, _ in deadlines.passed(now)]
                ends = [plain.pop(key) for key in passed]
                assert ends == sorted(ends)
                assert all(end <= now for end in ends)
                assert all(end > now for end in plain.values())
        assert len(deadlines) == len(plain)
        assert deadlines.is_armed(kind, name) == ((kind, name) in plain)


def test_removed_timeouts_do_not_pile_up() -> None:
    deadlines = Deadlines()
    deadlines.arm("turn", "stays", 600.0)
    operations = Operations()
    with operations:
        for number in range(2_000):
            deadlines.arm("callback", str(number), 600.0)
            deadlines.disarm("callback", str(number))
    before = operations.count
    with operations:
        assert deadlines.wait_seconds(0.0) == 600.0
    assert operations.count - before < 5_000  # at most what was left by few of them
    assert [name for _, name, _ in deadlines.passed(601.0)] == ["stays"]


def test_a_timeout_that_starts_again_while_it_is_handled_waits_for_the_next_call() -> None:
    deadlines = Deadlines()
    deadlines.arm("turn", "one", 1.0)
    for _ in deadlines.passed(1.0):
        deadlines.arm("turn", "one", 0.0)
    assert deadlines.wait_seconds(1.0) == 0.0
    assert [name for _, name, _ in deadlines.passed(1.0)] == ["one"]


def test_a_running_timeout_can_only_be_put_off() -> None:
    deadlines = Deadlines(100.0)
    deadlines.arm("turn", "one", 10.0)
    deadlines.put_off("turn", "one", 105.0)
    assert deadlines.wait_seconds(100.0) == 10.0
    deadlines.put_off("turn", "one", 130.0)
    assert deadlines.wait_seconds(100.0) == 30.0
    assert deadlines.seconds_of("turn", "one") == 10.0
    assert list(deadlines.passed(129.0)) == []
    assert list(deadlines.passed(130.0)) == [("turn", "one", 10.0)]
    assert deadlines.now == 130.0


def test_timeouts_are_known_by_kind_and_name() -> None:
    deadlines = Deadlines()
    deadlines.arm("turn", "one", 1.0)
    deadlines.arm("idle", "one", 2.0)
    deadlines.arm_at("turn", "two", 7.0, 3.0)
    assert (deadlines.names("turn"), deadlines.names("idle"), deadlines.names("exit")) == (["one", "two"], ["one"], [])
    assert deadlines.seconds_of("turn", "two") == 3.0
    assert deadlines.seconds_of("idle", "two") is None
    assert len(deadlines) == 3
    deadlines.clear()
    assert (len(deadlines), deadlines.wait_seconds(0.0), list(deadlines.passed(99.0))) == (0, None, [])
    deadlines.arm("turn", "one", 5.0)
    assert deadlines.wait_seconds(99.0) == 5.0


def test_of_timeouts_that_pass_together_the_one_that_was_started_first_comes_first() -> None:
    deadlines = Deadlines()
    for name in ("c", "a", "b"):
        deadlines.arm("turn", name, 1.0)
    assert [name for _, name, _ in deadlines.passed(1.0)] == ["c", "a", "b"]


def test_a_wait_is_never_longer_than_a_selector_can_wait() -> None:
    deadlines = Deadlines()
    deadlines.arm("turn", "one", 3e9)
    assert deadlines.wait_seconds(0.0) == LONGEST_SECONDS
    deadlines.arm("turn", "two", 1.0)
    assert deadlines.wait_seconds(0.25) == 0.75
    assert deadlines.wait_seconds(5.0) == 0.0


def test_a_timeout_that_is_removed_while_another_is_handled_does_not_pass() -> None:
    deadlines = Deadlines()
    deadlines.arm("turn", "one", 1.0)
    deadlines.arm("turn", "two", 1.0)
    passed = []
    for _, name, _ in deadlines.passed(1.0):
        passed.append(name)
        deadlines.disarm("turn", "two")
    assert passed == ["one"]


class Operations:
    """Counts the bytecode operations of Hackamore's core that a block executes: a measure that does not depend on the machine."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if "/hackamore/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.count += 1
        return self._trace

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)


class Conversation:
    """A session core that is ready, without a shell, and a CLI that says what a test wants."""

    def __init__(self, timeouts: hackamore.Timeouts) -> None:
        options = hackamore.Options(timeouts=timeouts)
        self.core = SessionCore(options, lambda function: function(), Readers)
        self.now = 0.0
        plan = build_plan(options, prompt=None, session=True, base_environment={}, child_id="one", local=False)
        self.core.initialize(plan, self.now, bytes)
        request = json.loads(self.core.connection.data_to_send().splitlines()[0])
        response = {"subtype": "success", "request_id": request["request_id"], "response": {}}
        self.say({"type": "control_response", "response": response})

    def say(self, *frames: dict[str, Any]) -> None:
        data = b"".join(json.dumps({"session_id": "one", **frame}).encode() + b"\n" for frame in frames)
        self.now += 0.001
        self.core.connection.receive_data(data)
        self.core.pump(self.now)
        self.core.deadlines.wait_seconds(self.now)
        self.core.expire(self.now, b"")

    def send(self) -> Progress:
        turn = self.core.send("hello", {}, self.now)
        self.core.pump(self.now)
        self.core.connection.data_to_send()
        self.core.deadlines.wait_seconds(self.now)
        return turn

    def lifecycle(self, turn: Progress, state: str) -> None:
        self.say({"type": "command_lifecycle", "state": state, "command_uuid": turn.id})

    def result(self, turn: Progress) -> None:
        result = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "duration_ms": 1,
            "num_turns": 1,
            "result": "done",
        }
        idle = {"type": "system", "subtype": "session_state_changed", "state": "idle"}
        self.say({**result, "user_message_uuids": [turn.id]}, idle)


def answer_all(count: int, *, reports: bool) -> int:
    """Send so many prompts, answer each, and return the number of operations."""
    talk = Conversation(hackamore.Timeouts(first_message=60.0, idle=60.0, turn=600.0))
    operations = Operations()
    with operations:
        turns = [talk.send() for _ in range(count)]
        for turn in turns:
            if reports:
                talk.lifecycle(turn, "started")
            talk.say({"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}})
            talk.result(turn)
    assert all(turn.over.is_set for turn in turns)
    return operations.count


@shows("session.deadlines.many")
@pytest.mark.parametrize("reports", [True, False])
def test_the_work_for_a_prompt_does_not_grow_with_the_prompts_that_wait(reports: bool) -> None:
    few, many = answer_all(40, reports=reports), answer_all(160, reports=reports)
    assert many < 4 * few * 1.3  # n log n; its square would be 16 times as much


def test_a_prompt_that_waits_has_its_whole_time_once_it_can_be_taken_up() -> None:
    talk = Conversation(hackamore.Timeouts(first_message=10.0))
    first, second = talk.send(), talk.send()
    talk.lifecycle(first, "started")
    talk.say({"type": "assistant", "message": {"content": []}, "user_message_uuid": first.id})
    talk.now = 8.0
    talk.result(first)
    talk.now = 15.0
    talk.core.expire(talk.now, b"")
    assert not second.over.is_set
    talk.lifecycle(second, "started")
    talk.now = 17.9
    talk.core.expire(talk.now, b"")
    assert not second.over.is_set
    talk.now = 18.1
    talk.core.expire(talk.now, b"")
    assert second.over.is_set
    assert isinstance(second.inbox.error, hackamore.TurnTimeoutError)
