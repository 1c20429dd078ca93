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
    InputTrigger,
    Life,
    LifeTrigger,
    Wait,
    WaitTrigger,
)


def test_a_start_happens_once_and_a_stop_whenever_it_wants_to() -> None:
    assert {state for state, trigger in LIFE if trigger is LifeTrigger.STARTED} == {
        Life.STARTING,
        Life.CALLED_OFF,
    }
    assert {state for state, trigger in LIFE if trigger is LifeTrigger.STOP} == set(Life)
    assert {state: LIFE[state, LifeTrigger.STOP] for state in Life} == {
        Life.STARTING: Life.CALLED_OFF,
        Life.CALLED_OFF: Life.CALLED_OFF,
        Life.RUNNING: Life.STOPPING,
        Life.STOPPING: Life.STOPPING,
        Life.GONE: Life.GONE,
    }
    assert all(LIFE[state, LifeTrigger.LET_GO] is Life.GONE for state in Life)


def test_an_input_that_is_closed_or_broken_stays_so() -> None:
    for state in (Input.CLOSED, Input.BROKEN):
        assert {then for (before, _), then in INPUT.items() if before is state} == {state}
        for trigger in (InputTrigger.WRITTEN, InputTrigger.BREAK):
            with pytest.raises(KeyError):
                INPUT[state, trigger]


def test_a_descriptor_that_is_waited_for_is_closed_by_its_waiter() -> None:
    assert set(WAIT) == {(state, trigger) for state in Wait for trigger in WaitTrigger}
    poller = Poller()
    descriptor = poller.fileno()
    poller.happen(WaitTrigger.CLOSE)
    os.fstat(descriptor)
    poller.happen(WaitTrigger.OVER)
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
    poller.happen(WaitTrigger.CLOSE)
