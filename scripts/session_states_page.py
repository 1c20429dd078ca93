"""The state machines of a session and their joint rules, drawn from the tables of the code for `states_page.py`.

The joint rules are functions, so they are drawn by asking them: from a state in which a rule holds every field is changed alone.
"""

from __future__ import annotations

from enum import Enum
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore._engine.protocol.states import session as states
from hackamore._engine.protocol.states.session import (
    Ending,
    Exit,
    Half,
    HalfTrigger,
    Handshake,
    HandshakeTrigger,
    LifecycleTrigger,
    Process,
    ProcessTrigger,
    SessionActivity,
    SessionState,
    Snapshot,
    TurnState,
    TurnTrigger,
    Work,
    WorkTrigger,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MEANINGS: dict[Enum, str] = {
    SessionState.NEW: "nothing is started",
    SessionState.STARTING: "the process is being started",
    SessionState.INITIALIZING: "the CLI gets ready; prompts and operations are queued",
    SessionState.RUNNING: "prompts, operations, callbacks",
    SessionState.STOPPING: "no new calls; requests of the CLI get the safe response",
    SessionState.STOPPED: "over, nothing was lost",
    SessionState.FAILED: "over; all pending calls raise the reason",
    Handshake.NONE: "a one-way launch has none",
    Handshake.UNSENT: "requests of the CLI wait",
    Handshake.SENT: "initialize was written",
    Handshake.IMPLICIT: "a request of the CLI implies initialize",
    Handshake.CONFIRMED: "the CLI has responded",
    Handshake.UNCONFIRMED: "no response, but the CLI works",
    Handshake.FAILED: "the CLI cannot be used",
    Half.OPEN: "open",
    Half.CLOSING: "to be closed when the joint rule holds",
    Half.CLOSED: "closed",
    Half.BROKEN: "the CLI stopped reading",
    Work.UNKNOWN: "no state and no result yet",
    Work.IDLE: "the CLI reports idle",
    Work.ANSWERED: "a result without a state report",
    Work.DUE: "a background task ended: a turn or a state follows",
    Work.WORKING: "a turn runs",
    Process.ALIVE: "it runs",
    Process.EXITED: "it has ended, and was reaped",
}
TURNS: dict[Enum, str] = {
    TurnState.QUEUED: "the CLI has not started it",
    TurnState.STARTED: "the model works on it",
    TurnState.COMPLETED: "its result has arrived",
    TurnState.INTERRUPTED: "stopped or cancelled",
    TurnState.FAILED: "no answer, or the session failed",
}
"""Apart from the others: `TurnState.FAILED` equals `SessionState.FAILED`."""
HAPPENINGS: dict[Enum, str] = {
    LifecycleTrigger.START: "start()",
    LifecycleTrigger.LAUNCHED: "a one-way launch is started",
    LifecycleTrigger.INITIALIZE_SENT: "initialize is written",
    LifecycleTrigger.CONFIRMED: "the handshake is done",
    LifecycleTrigger.STOP: "stop()",
    LifecycleTrigger.ENDED_WELL: "the end, and nothing was lost",
    LifecycleTrigger.FAILURE: "a failure",
    HandshakeTrigger.SENT: "initialize is written",
    HandshakeTrigger.REQUEST: "a request of the CLI",
    HandshakeTrigger.ANSWER: "a response to initialize",
    HandshakeTrigger.ERROR: "a refusal",
    HandshakeTrigger.DEADLINE: "Timeouts.initialize passes",
    HandshakeTrigger.ENDED: "the session ends",
    TurnTrigger.REPORTED_QUEUED: "reported as queued",
    TurnTrigger.REPORTED_STARTED: "reported as started",
    TurnTrigger.NAMED: "a message names it",
    TurnTrigger.RESULT: "its result",
    TurnTrigger.RESULT_ABORTED: "its result, aborted",
    TurnTrigger.RESULT_FAILED: "its result, an error",
    TurnTrigger.WITHDRAWN: "reported as cancelled",
    TurnTrigger.REFUSED: "reported as refused",
    TurnTrigger.IDLE_AFTER_COMPLETED: "idle, reported as completed, no result",
    TurnTrigger.IDLE_AFTER_WITHDRAWN: "idle, cancelled, no result",
    TurnTrigger.IDLE_AFTER_REFUSED: "idle, refused, no result",
    TurnTrigger.STOPPED: "stop()",
    TurnTrigger.DIED: "the session fails",
    HalfTrigger.CLOSE_ASKED: "finish()",
    HalfTrigger.CLOSED: "end of the pipe",
    HalfTrigger.BROKEN: "the other side has closed it",
    WorkTrigger.TURN_BEGINS: "an init message",
    WorkTrigger.RESULT: "a result",
    WorkTrigger.TASK_ENDED: "a background task ends",
    WorkTrigger.SAYS_IDLE: "reported as idle",
    WorkTrigger.SAYS_BUSY: "reported as running",
    WorkTrigger.SETTLED: "silence for 5 s",
    WorkTrigger.ENDED: "the session ends",
    ProcessTrigger.EXITED: "exit",
}
STAGES = {
    "it starts": (SessionState.NEW, SessionState.STARTING, SessionState.INITIALIZING),
    "it runs, also after `finish()`": (SessionState.RUNNING,),
    "it is being stopped": (SessionState.STOPPING,),
}
EXITS = {
    Exit.CLEAN: "code 0",
    Exit.AFTER_ERROR_RESULT: "another code, and the last result was an error",
    Exit.ERROR: "another code, or a signal",
}
ENDINGS = {
    Ending.COMPLETED: "`SessionCompleted`, state `STOPPED`",
    Ending.STOPPED: "`SessionStopped`, state `STOPPED`",
    Ending.FAILED: "`SessionFailed`, state `FAILED`",
}
FIELDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "handshake": ("the handshake", tuple(Handshake)),
    "input": ("stdin", tuple(Half)),
    "output": ("stdout", (Half.OPEN, Half.CLOSED)),
    "process": ("the process", tuple(Process)),
    "activity": ("reported activity", tuple(SessionActivity)),
    "open_turns": ("prompts are open", (0, 1)),
    "pending_requests": ("operations are pending", (0, 1)),
    "in_flight_requests": ("callbacks run", (0, 1)),
    "background_tasks": ("background tasks run", (0, 1)),
    "unsettled": ("a task has ended without a later report", (False, True)),
    "hold_until_confirmed": ("a hook must not be missed (`on_failure='block'`)", (False, True)),
}


class Facts(NamedTuple):
    """All facts that rules ask for: those of `Snapshot`, and what the connection passes beside it."""

    input: Half = Half.OPEN
    activity: SessionActivity = SessionActivity.UNKNOWN
    open_turns: int = 0
    pending_requests: int = 0
    in_flight_requests: int = 0
    background_tasks: int = 0
    unsettled: bool = False
    handshake: Handshake = Handshake.UNSENT
    output: Half = Half.OPEN
    process: Process = Process.ALIVE
    hold_until_confirmed: bool = False

    def asked(self) -> Snapshot:
        """Return the facts of the rules that take them together."""
        return Snapshot(*self[: len(Snapshot._fields)])


RULES: dict[str, tuple[Callable[[Facts], bool], Facts]] = {
    "prompts and operations are written immediately": (
        lambda now: states.operations_flow(now.handshake, now.hold_until_confirmed),
        Facts(handshake=Handshake.CONFIRMED),
    ),
    "the CLI can still read frames": (
        lambda now: states.peer_can_read(now.input, now.output, now.process, peer_only_listens=False),
        Facts(),
    ),
    "the session is quiet: `wait_idle()` returns": (
        lambda now: states.is_quiet(now.asked()),
        Facts(activity=SessionActivity.IDLE),
    ),
    "stdin is closed after `finish()`": (
        lambda now: states.input_may_close(now.asked()),
        Facts(input=Half.CLOSING, activity=SessionActivity.IDLE),
    ),
}
"""Each rule, and a state in which it holds."""


def picture(
    table: Mapping[tuple[Any, Any], Any],
    first: Enum,
    meanings: Mapping[Any, str] = MEANINGS,
    words: Callable[[Any], str] = HAPPENINGS.__getitem__,
    *,
    loops: bool = False,
) -> list[str]:
    """Return a machine as Mermaid, the ways from a state to itself with `loops` only."""
    kind = type(first)
    used = {state for (begin, _), then in table.items() for state in (begin, then)}
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {state.name} : {state.name}<br/>{meanings[state]}" for state in kind if state in used]
    lines.append(f"    [*] --> {first.name}")
    ways: dict[tuple[Enum, Enum], list[str]] = {}
    for (state, what), then in table.items():
        if loops or state is not then:
            ways.setdefault((state, then), []).append(words(what))
    lines += [f"    {state.name} --> {then.name} : {'<br/>'.join(what)}" for (state, then), what in ways.items()]
    left = {state for state, then in ways if state is not then}
    lines += [f"    {state.name} --> [*]" for state in kind if state in used and state not in left]
    return [*lines, "```"]


def hindrances(rule: Callable[[Facts], bool], good: Facts) -> list[str]:
    """Return what alone makes a rule false, found by trying every value of every field."""
    if not rule(good):
        raise ValueError("a rule does not hold in the state that it is to be drawn from")
    found = []
    for field, (meaning, values) in FIELDS.items():
        bad = [value for value in values if not rule(good._replace(**{field: value}))]
        if not bad:
            continue
        if isinstance(bad[0], Enum):
            found.append(f"{meaning} is {' or '.join(f'`{value.name}`' for value in bad)}")
        else:
            found.append(meaning)
    return found


def rules() -> list[str]:
    """Return the joint rules, as a table made by asking them."""
    rows = ["| rule | sufficient obstacle |", "|---|---|"]
    for name, (rule, good) in RULES.items():
        rows.append(f"| {name} | {'; '.join(hindrances(rule, good))} |")
    return rows


def endings() -> list[str]:
    """Return how a session ends with its process, as a table."""
    rows = ["| session | open prompt | exit of the CLI | last event |", "|---|---|---|---|"]
    for stage, lifecycles in STAGES.items():
        found: dict[tuple[Ending, bool], dict[Exit, None]] = {}
        for lifecycle, open_prompt, code in product(lifecycles, (False, True), Exit):
            found.setdefault((states.ENDINGS[lifecycle, open_prompt, code], open_prompt), {})[code] = None
        for (ending, open_prompt), codes in found.items():
            other = found.get((ending, not open_prompt))
            if other == codes and open_prompt:
                continue
            prompt = "yes or no" if other == codes else "yes" if open_prompt else "no"
            how = "any" if len(codes) == len(Exit) else "; ".join(EXITS[code] for code in codes)
            rows.append(f"| {stage} | {prompt} | {how} | {ENDINGS[ending]} |")
    return rows


def parts() -> dict[str, list[str]]:
    """Return all generated parts, by name."""
    return {
        "session": picture(states.LIFECYCLE, SessionState.NEW),
        "handshake": picture(states.HANDSHAKE, Handshake.UNSENT),
        "turn": picture(states.TURN, TurnState.QUEUED, TURNS),
        "work": picture(states.WORK, Work.UNKNOWN),
        "input": picture(states.INPUT, Half.OPEN),
        "output": picture(states.OUTPUT, Half.OPEN),
        "process": picture(states.PROCESS, Process.ALIVE),
        "rules": rules(),
        "endings": endings(),
    }
