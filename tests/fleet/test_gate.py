"""The number of agents that may run: it falls once with each burst of failures, waits for the reset, and rises in rounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hackamore.fleet.gate import LATE_SECONDS, Gate

NOW = 1_000_000.0


def cut(gate: Gate, started: float, now: float, resets_at: float | None = None) -> None:
    gate.slow_down(started, now, pause=5, resets_at=resets_at)


def test_a_gate_lets_as_many_run_as_it_says() -> None:
    gate = Gate(3)
    assert [gate.free(running, NOW) for running in range(5)] == [3, 2, 1, 0, 0]


def test_nothing_starts_before_the_reset() -> None:
    gate = Gate(8)
    cut(gate, NOW - 10, NOW, NOW + 60)
    opens_at = NOW + 60 + LATE_SECONDS
    assert [gate.free(0, when) for when in (NOW, NOW + 60, opens_at - 0.01, opens_at)] == [0, 0, 0, 4]


@pytest.mark.parametrize("resets_at", [None, NOW - 1, NOW])
def test_a_reset_that_is_unknown_or_past_means_a_pause(resets_at: float | None) -> None:
    """The clock of this machine may be ahead of that of the API: each new agent would be refused, one after the other."""
    gate = Gate(8)
    cut(gate, NOW - 10, NOW, resets_at)
    assert (gate.free(0, NOW + 4.9), gate.free(0, NOW + 5)) == (0, 4)


def test_an_earlier_reset_does_not_open_the_gate() -> None:
    gate = Gate(8)
    cut(gate, NOW - 10, NOW, NOW + 60)
    cut(gate, NOW - 10, NOW, NOW + 30)
    cut(gate, NOW - 10, NOW)
    assert gate.opens_at == NOW + 60 + LATE_SECONDS


@given(most=st.integers(1, 1000), burst=st.lists(st.floats(-100, 59), min_size=1))
def test_a_burst_counts_once(most: int, burst: list[float]) -> None:
    """Agents may begin after the first one has failed: they were let through before."""
    gate = Gate(most)
    cut(gate, NOW - 100, NOW, NOW + 60)
    for began in burst:
        cut(gate, NOW + began, NOW + max(began, 0) + 1, NOW + 70)
    assert gate.limit == max(1, most // 2)


def test_a_limit_that_is_met_again_counts_again() -> None:
    gate = Gate(8)
    for number in range(5):
        cut(gate, NOW + 5 * number, NOW + 5 * number)
    assert gate.limit == 1


def test_agents_from_before_the_cut_do_not_raise_the_limit() -> None:
    gate = Gate(8)
    cut(gate, NOW - 10, NOW, NOW + 60)
    for _ in range(100):
        gate.went_well(NOW - 5)
    assert gate.limit == 4


def test_it_rises_by_one_for_four_agents() -> None:
    gate = Gate(8)
    for number in range(3):
        cut(gate, NOW + 5 * number, NOW + 5 * number)
    seen = []
    while gate.limit < gate.most:
        gate.went_well(NOW + 100)
        seen.append(gate.limit)
    assert seen == [2, 2, 3, 3, 3, 4, *[4] * 3, 5, *[5] * 3, 6, *[6] * 3, 7, *[7] * 3, 8]


@given(most=st.integers(2, 2000))
def test_it_is_back_after_about_three_rounds(most: int) -> None:
    gate = Gate(most)
    cut(gate, NOW - 10, NOW)
    rounds = 0
    while gate.limit < most:
        for _ in range(gate.limit):
            gate.went_well(NOW + 10)
        rounds += 1
    assert rounds <= 4


class GateMachine(RuleBasedStateMachine):
    """Agents that start as the gate lets them, and end in any order, in any way."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate(16)
        self.now = NOW
        self.running: list[float] = []
        self.closed_until = 0.0

    @rule(seconds=st.floats(0.01, 30))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.gate.free(len(self.running), self.now))
    @rule()
    def start(self) -> None:
        assert self.now >= self.closed_until
        self.running += [self.now] * self.gate.free(len(self.running), self.now)
        assert len(self.running) <= self.gate.limit

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end_well(self, data: st.DataObject) -> None:
        before = self.gate.limit
        self.gate.went_well(self.running.pop(data.draw(st.integers(0, len(self.running) - 1))))
        assert before <= self.gate.limit <= before + 1

    @precondition(lambda self: self.running)
    @rule(data=st.data(), seconds=st.none() | st.floats(-5, 60))
    def meet_a_limit(self, data: st.DataObject, seconds: float | None) -> None:
        started = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        before = self.gate.limit
        resets_at = None if seconds is None else self.now + seconds
        cut(self.gate, started, self.now, resets_at)
        self.closed_until = max(self.closed_until, resets_at or 0.0, self.now)
        assert self.gate.limit in (before, max(1, before // 2))
        assert self.gate.free(0, self.now) == 0

    @invariant()
    def is_within_its_bounds(self) -> None:
        assert 1 <= self.gate.limit <= self.gate.most

    @invariant()
    def always_opens(self) -> None:
        assert self.gate.free(0, max(self.now, self.gate.opens_at)) == self.gate.limit


TestGateMachine = GateMachine.TestCase
