"""Draw the state tables of queries, sessions and tasks in `docs/reference/states.md` (`--write`), or fail if the page is not current."""

from __future__ import annotations

import sys

import generated_parts
import session_states_page

from hackamore._engine.protocol.states.query import ONE_SHOT, State, Trigger, Yield
from hackamore.fleet import states as fleet

HAPPENINGS = {
    Trigger.MESSAGE: "a message",
    Trigger.RESULT: "a result",
    Trigger.BAD_LINE: "a line that is not a JSON object",
    Trigger.BAD_LINE_LIMIT: "`Limits.consecutive_decode_errors` consecutive invalid lines",
    Trigger.OVERSIZED_LINE: "a line longer than `Limits.line_bytes`",
    Trigger.OVERSIZED_LINE_SKIPPED: "such a line, with `on_oversize='skip'`",
    Trigger.INCOMPLETE_LAST_LINE: "exit, and the output ends within a line",
    Trigger.EXITED_CLEAN: "exit with code 0 (after an error result: with any code)",
    Trigger.EXITED_EMPTY: "exit with code 0 without output",
    Trigger.EXITED_WITH_ERROR: "exit with another code",
    Trigger.EXITED_WITH_ERROR_STRICT: "such an exit, with `strict_exit_status=True`",
    Trigger.DEADLINE: "a timeout: `first_message`, `idle` or `turn`",
    Trigger.STILL_RUNNING: "no exit in time",
    Trigger.FAILED: "a lost connection: failed prompts, a slow consumer",
    Trigger.STOPPED: "the process was stopped on request",
    Trigger.PROMPT: "the CLI starts another prompt",
    Trigger.ASKED_AT_THE_END: "the next call",
}
YIELDS = {
    Yield.MESSAGE: "the message",
    Yield.DECODE_ERROR: "a `DecodeError` item",
    Yield.RAISE_TOO_MANY_DECODE_ERRORS: "raises `DecodeErrorLimitError`",
    Yield.RAISE_LINE_TOO_LONG: "raises `LineTooLongError`",
    Yield.RAISE_PROCESS_ERROR: "raises `ProcessError`",
    Yield.RAISE_TURN_TIMEOUT: "raises `TurnTimeoutError`",
    Yield.RAISE_FAILURE: "raises the error",
    Yield.END: "the end",
    Yield.NOTHING: "nothing",
}
STATES = {
    State.STREAMING: "the model works",
    State.RESULT_RECEIVED: "a result arrived, the CLI has to exit",
    State.ENDING: "the next call returns the end",
    State.CLOSED: "over",
}
TASK_STATES = {
    fleet.State.QUEUED: "it waits for a free place",
    fleet.State.LEASED: "an attempt is written down, with its session; nothing was started",
    fleet.State.RUNNING: "the agent works",
    fleet.State.VERIFYING: "the answer is written down, and is being checked",
    fleet.State.WAITING: "for a reset of a rate limit, or before the next attempt",
    fleet.State.SUCCEEDED: "the answer was accepted",
    fleet.State.FAILED: "no more attempts",
    fleet.State.CANCELLED: "cancelled on request",
}
TASK_HAPPENINGS = {
    fleet.Trigger.LEASED: "a driver takes it",
    fleet.Trigger.BEGUN: "a worker starts",
    fleet.Trigger.ANSWERED: "the answer comes",
    fleet.Trigger.ACCEPTED: "the check accepts it",
    fleet.Trigger.POSTPONED: "a failure, and there will be another attempt",
    fleet.Trigger.GIVEN_BACK: "the fleet stops, or the worker is gone",
    fleet.Trigger.GAVE_UP: "the last failure",
    fleet.Trigger.CANCELLED: "cancel()",
    fleet.Trigger.RETRIED: "retry()",
}


def words(name: str) -> str:
    """Return the name of a member as words."""
    return name.lower().replace("_", " ")


def given(gives: Yield) -> str:
    """Return what a call gives, in words."""
    if gives.name.startswith("WARN_"):
        return f"warning `{gives.name.removeprefix('WARN_')}`"
    return YIELDS[gives]


def live_cells() -> list[tuple[State, Trigger, Yield, State]]:
    """Return the cells in which something happens."""
    return [(state, what, *cell) for (state, what), cell in ONE_SHOT.items() if cell != (Yield.NOTHING, state)]


def picture() -> list[str]:
    """Return the states and the ways between them, as Mermaid."""
    ways = {(state, what): then for state, what, _, then in live_cells()}
    return session_states_page.picture(ways, State.STREAMING, STATES, lambda what: words(what.name), loops=True)


def table() -> list[str]:
    """Return every cell in which something happens, as a table."""
    rows = ["| state | event | the call returns or raises | next state |", "|---|---|---|---|"]
    for state, what, gives, then in live_cells():
        rows.append(f"| {state.name} | {HAPPENINGS[what]} | {given(gives)} | {then.name} |")
    return rows


def task() -> list[str]:
    """Return the states of a task of a fleet, as Mermaid."""
    return session_states_page.picture(fleet.TASK, fleet.State.QUEUED, TASK_STATES, TASK_HAPPENINGS.__getitem__)


if __name__ == "__main__":
    parts = {"picture": picture(), "table": table(), "task": task(), **session_states_page.parts()}
    sys.exit(generated_parts.main("reference/states.md", parts))
