"""The tools of `./dev fuzz` and `./dev soak`: they find what is planted, and leave what is good."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.endurance import frames, messages, targets
from tests.endurance.growth import ALLOWED, Allowed, judged
from tests.endurance.mutations import Mutator, minimised


def test_the_same_seed_gives_the_same_lines() -> None:
    assert frames.lines_of("7", 3) == frames.lines_of("7", 3)
    assert frames.lines_of("7", 3) != frames.lines_of("7", 4)


def test_most_damaged_lines_are_json_and_none_has_a_line_end() -> None:
    mutator = Mutator(Random(1), targets.FRAMES)
    lines = [mutator.line() for _ in range(2_000)]
    readable = 0
    for line in lines:
        assert b"\n" not in line
        try:
            json.loads(line)
        except ValueError:
            continue
        readable += 1
    assert 0.5 < readable / len(lines) < 0.95
    assert len(set(lines)) > 1_000


def test_a_failure_is_reduced_to_the_bytes_that_cause_it() -> None:
    lines = [b"first", b"the bad word", b"last"] * 3

    def fails(some: list[bytes]) -> bool:
        return any(b"bad" in line for line in some)

    assert minimised(lines, fails) == [b"bad"]


def test_a_planted_failure_is_found_reduced_and_repeated() -> None:
    def target(lines: list[bytes], random: Random) -> None:
        for line in lines:
            assert b"stream_event" not in line

    failure = frames.run_target("decoder", target, frames.lines_of("1", 0), "1", 0)
    assert failure is not None
    assert failure.lines == [b"stream_event"]
    assert "AssertionError" in failure.error
    assert frames.run_target("decoder", target, [b"{}"], "1", 0) is None


@pytest.mark.parametrize("name", sorted(frames.TARGETS))
def test_every_target_takes_good_frames_and_no_frames(name: str) -> None:
    def run(lines: list[bytes]) -> None:
        frames.TARGETS[name](lines, Random(3))

    run(targets.FRAMES)
    run([])


# -- growth --------------------------------------------------------------------------------------------------------------

TIMES = [10.0 * number for number in range(60)]
LIMIT = Allowed(0.06, 2e6)


def noisy(start: float, each: float, noise: float) -> list[float]:
    random = Random(2)
    return [start + each * number + random.uniform(-noise, noise) for number in range(len(TIMES))]


def test_a_leak_in_noise_grows() -> None:
    assert judged("resident", TIMES, noisy(80e6, 0.3e6, 3e6), 20, LIMIT).grows
    assert judged("descriptors", TIMES, [20 + number // 20 for number in range(60)], 10, Allowed(0, 1)).grows


def test_noise_and_odd_samples_do_not_grow() -> None:
    values = noisy(80e6, 0, 3e6)
    values[40] = values[58] = 300e6
    assert not judged("resident", TIMES, values, 20, LIMIT).grows


def test_growth_before_the_end_of_the_warm_up_does_not_count() -> None:
    values = [min(number, 18) * 3e6 for number in range(60)]
    assert not judged("resident", TIMES, values, 20, LIMIT).grows
    assert (
        judged("resident", TIMES, values, 0, LIMIT).rising
        < judged("resident", TIMES, sorted(noisy(0, 1e6, 0)), 0, LIMIT).rising
    )


def test_one_child_that_stays_grows() -> None:
    children = [2] * 20 + [2 + (number // 4) for number in range(40)]
    assert judged("children", TIMES, children, 20, ALLOWED["children"]).grows


# -- messages ------------------------------------------------------------------------------------------------------------


def found(turns: int, *megabytes: float) -> messages.Found:
    samples = [messages.Sample(10**number, int(size * 1e6), 0, number) for number, size in enumerate(megabytes, 3)]
    return messages.Found(messages.Case("trio", True, turns, samples[-1].messages), samples)


def test_samples_are_taken_at_powers_of_ten_and_at_the_end() -> None:
    assert messages.moments(1_000_000) == [1_000, 10_000, 100_000, 1_000_000]
    assert messages.moments(30_000) == [1_000, 10_000, 30_000]
    assert messages.moments(1_000) == [1_000]


def test_a_buffer_for_each_turn_is_allowed_and_growth_with_the_messages_is_not() -> None:
    assert not found(1, 35, 35.5, 35.9, 36).grows
    assert not found(1_000, 33, 33, 33.5, 34).grows
    assert found(1_000, 33, 33.4, 36, 50).grows
    assert found(1, 35, 44, 51, 70).grows
    assert "GROWS: 35.0 MB" in messages.table([found(1, 35, 44, 51, 70)])


def test_a_reading_of_fewer_messages_than_were_sent_fails() -> None:
    case = messages.Case("asyncio", False, 2, 2_100)  # the light CLI floods in hundreds: 1,000 and 1,000
    with pytest.raises(AssertionError, match="'turns': 2000"):
        messages.measure(case)
