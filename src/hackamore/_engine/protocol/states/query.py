"""The machine that judges a query: what a trigger gives to the reader, and the state it leads to (contract, section 3).

`queries.ending.QueryCore` classifies what its connection reports into a `Trigger`, looks up the cell and does what it says.
"""

from __future__ import annotations

from enum import auto
from typing import NamedTuple

from hackamore.runtime.tables import Member


class State(Member):
    STREAMING = auto()
    """No result yet: the model's turn is open."""
    RESULT_RECEIVED = auto()
    """A result came; the process may still report background work, and has to exit."""
    ENDING = auto()
    """Nothing more will come; the next call reports the end."""
    CLOSED = auto()
    """Ended; so says every call."""


class Trigger(Member):
    MESSAGE = auto()
    RESULT = auto()
    BAD_LINE = auto()
    BAD_LINE_LIMIT = auto()
    OVERSIZED_LINE = auto()
    OVERSIZED_LINE_SKIPPED = auto()
    INCOMPLETE_LAST_LINE = auto()
    EXITED_CLEAN = auto()
    EXITED_EMPTY = auto()
    EXITED_WITH_ERROR = auto()
    EXITED_WITH_ERROR_STRICT = auto()
    DEADLINE = auto()
    STILL_RUNNING = auto()
    FAILED = auto()
    """The connection was lost for another reason: prompts that cannot be read, a reader that is too slow."""
    STOPPED = auto()
    """The process was stopped on request."""
    PROMPT = auto()
    """The CLI works on a further prompt: only where there are several."""
    ASKED_AT_THE_END = auto()
    """The user asks for the next item when nothing more will come."""


class Yield(Member):
    """The result of the call in which it happens."""

    MESSAGE = auto()
    DECODE_ERROR = auto()
    WARN_OVERSIZED_LINE_SKIPPED = auto()
    WARN_UNEXPECTED_DATA_AFTER_RESULT = auto()
    WARN_INCOMPLETE_LAST_LINE = auto()
    WARN_EMPTY_RESPONSE = auto()
    WARN_CLEAN_EXIT_NO_RESULT = auto()
    WARN_NONZERO_EXIT_AFTER_RESULT = auto()
    WARN_CLI_DID_NOT_EXIT = auto()
    RAISE_TOO_MANY_DECODE_ERRORS = auto()
    RAISE_LINE_TOO_LONG = auto()
    RAISE_PROCESS_ERROR = auto()
    RAISE_TURN_TIMEOUT = auto()
    RAISE_FAILURE = auto()
    END = auto()
    NOTHING = auto()


class Cell(NamedTuple):
    """One cell of a state table."""

    gives: Yield
    then: State


_S, _H, _Y = State, Trigger, Yield

ONE_SHOT: dict[tuple[State, Trigger], Cell] = {
    (_S.STREAMING, _H.MESSAGE): Cell(_Y.MESSAGE, _S.STREAMING),
    (_S.STREAMING, _H.RESULT): Cell(_Y.MESSAGE, _S.RESULT_RECEIVED),
    (_S.STREAMING, _H.PROMPT): Cell(_Y.NOTHING, _S.STREAMING),
    (_S.STREAMING, _H.BAD_LINE): Cell(_Y.DECODE_ERROR, _S.STREAMING),
    (_S.STREAMING, _H.BAD_LINE_LIMIT): Cell(_Y.RAISE_TOO_MANY_DECODE_ERRORS, _S.CLOSED),
    (_S.STREAMING, _H.OVERSIZED_LINE): Cell(_Y.RAISE_LINE_TOO_LONG, _S.CLOSED),
    (_S.STREAMING, _H.OVERSIZED_LINE_SKIPPED): Cell(_Y.WARN_OVERSIZED_LINE_SKIPPED, _S.STREAMING),
    (_S.STREAMING, _H.INCOMPLETE_LAST_LINE): Cell(_Y.WARN_INCOMPLETE_LAST_LINE, _S.STREAMING),
    (_S.STREAMING, _H.EXITED_CLEAN): Cell(_Y.WARN_CLEAN_EXIT_NO_RESULT, _S.ENDING),
    (_S.STREAMING, _H.EXITED_EMPTY): Cell(_Y.WARN_EMPTY_RESPONSE, _S.ENDING),
    (_S.STREAMING, _H.EXITED_WITH_ERROR): Cell(_Y.RAISE_PROCESS_ERROR, _S.CLOSED),
    (_S.STREAMING, _H.EXITED_WITH_ERROR_STRICT): Cell(_Y.RAISE_PROCESS_ERROR, _S.CLOSED),
    (_S.STREAMING, _H.DEADLINE): Cell(_Y.RAISE_TURN_TIMEOUT, _S.CLOSED),
    # The CLI closed its output and still runs without a result: no more output can come, so it is stopped and reported.
    (_S.STREAMING, _H.STILL_RUNNING): Cell(_Y.RAISE_PROCESS_ERROR, _S.CLOSED),
    (_S.STREAMING, _H.FAILED): Cell(_Y.RAISE_FAILURE, _S.CLOSED),
    (_S.STREAMING, _H.STOPPED): Cell(_Y.NOTHING, _S.ENDING),
    (_S.RESULT_RECEIVED, _H.MESSAGE): Cell(_Y.MESSAGE, _S.RESULT_RECEIVED),  # turns of background tasks
    (_S.RESULT_RECEIVED, _H.RESULT): Cell(_Y.MESSAGE, _S.RESULT_RECEIVED),
    (_S.RESULT_RECEIVED, _H.PROMPT): Cell(_Y.NOTHING, _S.STREAMING),  # an exit is an error until its answer
    (_S.RESULT_RECEIVED, _H.BAD_LINE): Cell(_Y.WARN_UNEXPECTED_DATA_AFTER_RESULT, _S.RESULT_RECEIVED),
    (_S.RESULT_RECEIVED, _H.BAD_LINE_LIMIT): Cell(_Y.WARN_UNEXPECTED_DATA_AFTER_RESULT, _S.RESULT_RECEIVED),
    (_S.RESULT_RECEIVED, _H.OVERSIZED_LINE): Cell(_Y.RAISE_LINE_TOO_LONG, _S.CLOSED),
    (_S.RESULT_RECEIVED, _H.OVERSIZED_LINE_SKIPPED): Cell(_Y.WARN_OVERSIZED_LINE_SKIPPED, _S.RESULT_RECEIVED),
    (_S.RESULT_RECEIVED, _H.INCOMPLETE_LAST_LINE): Cell(_Y.WARN_UNEXPECTED_DATA_AFTER_RESULT, _S.RESULT_RECEIVED),
    (_S.RESULT_RECEIVED, _H.EXITED_CLEAN): Cell(_Y.END, _S.CLOSED),  # also 1 after an error result
    (_S.RESULT_RECEIVED, _H.EXITED_WITH_ERROR): Cell(_Y.WARN_NONZERO_EXIT_AFTER_RESULT, _S.ENDING),
    (_S.RESULT_RECEIVED, _H.EXITED_WITH_ERROR_STRICT): Cell(_Y.RAISE_PROCESS_ERROR, _S.CLOSED),
    (_S.RESULT_RECEIVED, _H.STILL_RUNNING): Cell(_Y.WARN_CLI_DID_NOT_EXIT, _S.ENDING),
    (_S.RESULT_RECEIVED, _H.FAILED): Cell(_Y.RAISE_FAILURE, _S.CLOSED),
    (_S.RESULT_RECEIVED, _H.STOPPED): Cell(_Y.NOTHING, _S.ENDING),
    **{(state, trigger): Cell(_Y.NOTHING, state) for state in (_S.ENDING, _S.CLOSED) for trigger in _H},
    (_S.ENDING, _H.ASKED_AT_THE_END): Cell(_Y.END, _S.CLOSED),
    (_S.CLOSED, _H.ASKED_AT_THE_END): Cell(_Y.END, _S.CLOSED),
}
