"""The tables of a session, cell by cell, and the joint rules."""

from __future__ import annotations

from enum import Enum
from itertools import product
from typing import Any

import pytest

from hackamore._engine.protocol.states import session as s
from hackamore._engine.protocol.states.session import (
    Half,
    Handshake,
    Process,
    SessionActivity,
    SessionState,
    Snapshot,
    TurnState,
)
from tests.contract import shows

LACKING: dict[str, set[tuple[str, str]]] = {
    # What is not in the table cannot happen: the connection never asks for these cells.
    "LIFECYCLE": {
        ("NEW", "CONFIRMED"),
        *((state.name, "LAUNCHED") for state in SessionState if state is not SessionState.NEW),
        ("STARTING", "START"),
        ("STARTING", "CONFIRMED"),
        ("NEW", "STOP"),
        *((state, "START") for state in ("INITIALIZING", "RUNNING", "STOPPING", "STOPPED", "FAILED")),
        *((state, "INITIALIZE_SENT") for state in ("INITIALIZING", "RUNNING", "STOPPING", "STOPPED", "FAILED")),
        ("INITIALIZING", "ENDED_WELL"),
        *((state, "CONFIRMED") for state in ("RUNNING", "STOPPING", "STOPPED", "FAILED")),
        *((state, how) for state in ("STOPPED", "FAILED") for how in ("ENDED_WELL", "FAILURE")),
    },
    "HANDSHAKE": {
        *(("NONE", trigger) for trigger in ("SENT", "REQUEST", "ANSWER", "ERROR", "DEADLINE")),
        ("UNSENT", "ANSWER"),
        ("UNSENT", "ERROR"),
        ("UNSENT", "DEADLINE"),
        *((state, "SENT") for state in ("SENT", "IMPLICIT", "CONFIRMED", "UNCONFIRMED", "FAILED")),
        *((state, h) for state in ("CONFIRMED", "UNCONFIRMED", "FAILED") for h in ("ANSWER", "ERROR", "DEADLINE")),
    },
    "TURN": set(),
    "INPUT": set(),
    "OUTPUT": {
        *(("OPEN", trigger) for trigger in ("CLOSE_ASKED", "BROKEN")),
        *(("CLOSED", trigger) for trigger in ("CLOSE_ASKED", "BROKEN")),
        *((state, trigger.name) for state in ("CLOSING", "BROKEN") for trigger in s.HalfTrigger),
    },
    "PROCESS": set(),
    "WORK": set(),
}
MACHINES: list[tuple[str, dict[Any, Any], type[Enum], type[Enum]]] = [
    ("LIFECYCLE", s.LIFECYCLE, s.SessionState, s.LifecycleTrigger),
    ("HANDSHAKE", s.HANDSHAKE, s.Handshake, s.HandshakeTrigger),
    ("TURN", s.TURN, s.TurnState, s.TurnTrigger),
    ("INPUT", s.INPUT, s.Half, s.HalfTrigger),
    ("OUTPUT", s.OUTPUT, s.Half, s.HalfTrigger),
    ("PROCESS", s.PROCESS, s.Process, s.ProcessTrigger),
    ("WORK", s.WORK, s.Work, s.WorkTrigger),
]


@shows("session.life.states")
@pytest.mark.parametrize(("name", "table", "kind", "triggers"), MACHINES, ids=[m[0] for m in MACHINES])
def test_every_cell_is_there_or_known_to_be_lacking(name: str, table: Any, kind: Any, triggers: Any) -> None:
    cells = {(state.name, trigger.name) for state, trigger in product(kind, triggers)}
    there = {(state.name, trigger.name) for state, trigger in table}
    assert cells - there == LACKING[name]
    assert all(isinstance(then, kind) for then in table.values())


@shows("session.life.states")
@pytest.mark.parametrize(
    ("table", "first", "final"),
    [
        (s.LIFECYCLE, SessionState.NEW, {SessionState.STOPPED, SessionState.FAILED}),
        (s.HANDSHAKE, Handshake.UNSENT, {Handshake.CONFIRMED, Handshake.UNCONFIRMED, Handshake.FAILED}),
        (s.TURN, TurnState.QUEUED, {TurnState.COMPLETED, TurnState.INTERRUPTED, TurnState.FAILED}),
        (s.INPUT, Half.OPEN, {Half.CLOSED, Half.BROKEN}),
        (s.OUTPUT, Half.OPEN, {Half.CLOSED}),
        (s.PROCESS, Process.ALIVE, {Process.EXITED}),
    ],
    ids=["lifecycle", "handshake", "turn", "input", "output", "process"],
)
def test_an_end_is_reached_from_everywhere_and_never_left(table: Any, first: Any, final: Any) -> None:
    leads = {state: {then for (at, _), then in table.items() if at is state} for state in type(first)}
    for state in final:
        assert leads[state] <= {state}
    reached, todo = {first}, [first]
    while todo:
        for then in leads[todo.pop()] - reached:
            reached.add(then)
            todo.append(then)
    assert final <= reached
    for state in reached - final:
        seen = {state}
        while True:
            more = set().union(*(leads[at] for at in seen)) - seen
            if not more:
                break
            seen |= more
        assert seen & final, state


def test_every_end_has_a_cell() -> None:
    live = set(SessionState) - {SessionState.STOPPED, SessionState.FAILED}
    assert set(s.ENDINGS) == set(product(live, (False, True), s.Exit))
    for at, turn, code in s.ENDINGS:
        stopped = s.ENDINGS[at, turn, code] is s.Ending.STOPPED
        assert stopped is (at is SessionState.STOPPING), "that we stopped it is one state in one place"
        if turn or at in {SessionState.NEW, SessionState.STARTING, SessionState.INITIALIZING}:
            assert s.ENDINGS[at, turn, code] is not s.Ending.COMPLETED


@shows("session.turns.states")
def test_turn_states_know_whether_they_are_over() -> None:
    assert [state.name for state in TurnState if not state.over] == ["QUEUED", "STARTED"]


IDLE = Snapshot(input=Half.CLOSING, activity=SessionActivity.IDLE)


@shows("session.idle.all-three")
def test_all_quiet() -> None:
    assert s.is_quiet(IDLE)
    assert s.input_may_close(IDLE)
    assert s.is_quiet(IDLE._replace(activity=SessionActivity.UNKNOWN, unsettled=True))


@shows("session.idle.all-three")
@pytest.mark.parametrize(
    "change",
    [
        {"open_turns": 1},
        {"background_tasks": 1},
        {"activity": SessionActivity.RUNNING},
        {"activity": SessionActivity.REQUIRES_ACTION},
        {"unsettled": True},
    ],
    ids=str,
)
def test_one_thing_that_goes_on_is_enough(change: dict[str, Any]) -> None:
    assert not s.is_quiet(IDLE._replace(**change))
    assert not s.input_may_close(IDLE._replace(**change))


@shows("control.operations.finish")
@pytest.mark.parametrize(
    "change",
    [{"pending_requests": 1}, {"in_flight_requests": 1}, {"input": Half.OPEN}, {"input": Half.CLOSED}],
    ids=str,
)
def test_input_stays_open_while_something_is_owed_or_nobody_asked(change: dict[str, Any]) -> None:
    assert s.is_quiet(IDLE._replace(**change))
    assert not s.input_may_close(IDLE._replace(**change))


@pytest.mark.parametrize("handshake", list(Handshake))
@pytest.mark.parametrize("hold", [False, True])
def test_operations_flow_from_the_first_sign_on(handshake: Handshake, hold: bool) -> None:
    flows = s.operations_flow(handshake, hold)
    expected = {Handshake.CONFIRMED, Handshake.UNCONFIRMED} | (set() if hold else {Handshake.IMPLICIT})
    assert flows is (handshake in expected)


@pytest.mark.parametrize(
    "change",
    [{"input": Half.CLOSED}, {"input": Half.BROKEN}, {"output": Half.CLOSED}, {"process": Process.EXITED}],
    ids=str,
)
def test_nothing_is_written_for_nobody(change: dict[str, Any]) -> None:
    def reads(**more: Any) -> bool:
        live = {"input": Half.CLOSING, "output": Half.OPEN, "process": Process.ALIVE, "peer_only_listens": False}
        return s.peer_can_read(**{**live, **more})

    assert reads()
    assert reads(input=Half.OPEN)
    assert not reads(**change)
    assert reads(**change, peer_only_listens=True) is ("output" in change)
