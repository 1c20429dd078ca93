"""The state tables of a child: which cells there are, and that a missing one is an error."""

from __future__ import annotations

import os

import pytest

from hackamore.transports.process.child import InputPipe, Poller
from hackamore.transports.process.states import (
    INPUT,
    LIFE,
    WAIT,
    Input,
    InputHappening,
    Life,
    LifeHappening,
    Wait,
    WaitHappening,
)


def test_a_start_happens_once_and_a_stop_whenever_it_wants_to() -> None:
    assert {state for state, happening in LIFE if happening is LifeHappening.STARTED} == {
        Life.STARTING,
        Life.CALLED_OFF,
    }
    assert {state for state, happening in LIFE if happening is LifeHappening.STOP} == set(Life)
    assert {state: LIFE[state, LifeHappening.STOP] for state in Life} == {
        Life.STARTING: Life.CALLED_OFF,
        Life.CALLED_OFF: Life.CALLED_OFF,
        Life.RUNNING: Life.STOPPING,
        Life.STOPPING: Life.STOPPING,
        Life.GONE: Life.GONE,
    }
    assert all(LIFE[state, LifeHappening.LET_GO] is Life.GONE for state in Life)


def test_an_input_that_is_closed_or_broken_stays_so() -> None:
    for state in (Input.CLOSED, Input.BROKEN):
        assert {then for (before, _), then in INPUT.items() if before is state} == {state}
        for happening in (InputHappening.WRITTEN, InputHappening.BREAK):
            with pytest.raises(KeyError):
                INPUT[state, happening]


def test_a_descriptor_that_is_waited_for_is_closed_by_its_waiter() -> None:
    assert set(WAIT) == {(state, happening) for state in Wait for happening in WaitHappening}
    poller = Poller()
    descriptor = poller.fileno()
    poller.happen(WaitHappening.CLOSE)
    os.fstat(descriptor)
    poller.happen(WaitHappening.OVER)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    poller.wake()
    poller.watch(0)
    poller.forget(0)
    assert list(poller.ready()) == []


def test_an_input_is_written_to_its_end_and_closed_then() -> None:
    reading, writing = os.pipe()
    poller = Poller()
    pipe = InputPipe(writing, poller)
    data = b"x" * 1_000_000
    pipe.queue(data)
    pipe.end()
    states = [pipe.state]
    pipe.queue(b"too late")
    read = b""
    while part := os.read(reading, 65_536):
        read += part
        pipe.flush()
    assert read == data
    assert [*states, pipe.state] == [Input.ENDING, Input.CLOSED]
    assert pipe.descriptor is None
    os.close(reading)
    poller.happen(WaitHappening.CLOSE)
