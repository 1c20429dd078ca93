"""The control protocol as a table: one row for each request, in both directions. The rows are those of scripts/control_table.toml.

A row has the name of the request on the wire, its fields, the class of its answer, and its timeout. A row of a request that Hackamore sends
also describes the method of `Session`: `aio/operations.py` and the tables of docs/reference/control.md are generated from it. A row of
a request that the CLI sends has the answer for the case that there is no better one.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Literal, NamedTuple

from hackamore.messages import results

if TYPE_CHECKING:
    from hackamore.messages.results import ControlResult

DeadlineClass = Literal["initialize", "control", "rewind", "hook", "permission", "mcp", "dialog"]
"""The timeout of a request: a name of `Timeouts`, but for `dialog`, which waits for a person like a permission."""


class Direction(Enum):
    """The sender of a request."""

    HOST_TO_CLI = auto()
    CLI_TO_HOST = auto()
    BOTH = auto()


class FailPolicy(Enum):
    """The answer to a request of the CLI whose callback fails, misses its timeout or does not exist."""

    HOOK_CONTINUES = auto()
    """Fail open: `{}`."""
    PERMISSION_DENIED = auto()
    """Fail closed: deny, with the reason."""
    MCP_ERROR = auto()
    """A JSON-RPC error inside a success."""
    DECLINED = auto()
    CANCELLED = auto()
    ERROR = auto()
    """An error response."""


class Field(NamedTuple):
    name: str  # name in Python
    wire: str  # name on the wire
    kind: str  # JSON type; `any` is not checked. A trailing `?` allows null.
    required: bool  # True if the request is invalid without it
    # Python type and default of the method's parameter; empty if only `Session.request` can send the field
    declared: str = ""
    doc: str = ""  # description of the parameter
    positional: bool = False  # True if a parameter with a default may be positional
    always: bool = False  # True if the default is sent as well


class ControlRow(NamedTuple):
    subtype: str  # name on the wire
    direction: Direction  # the sender
    summary: str  # purpose, as the first line of a docstring
    fields: tuple[Field, ...] = ()  # its fields
    result: type[ControlResult] = results.ControlResult  # class of the answer
    deadline: DeadlineClass = "control"  # its timeout
    fail: FailPolicy = FailPolicy.ERROR  # the answer that Hackamore gives if it has no better one
    method: str = ""  # name of the method of `Session`; empty without one
    note: str = ""  # further description of the method
    shows: str = ""  # fields of the answer that the documentation names
    by_hand: bool = False  # True if the method is written by hand, because it does more than send one request
    needs: str = ""  # name of the option without which Hackamore refuses it; empty if it needs none
    example: str = ""  # a call, for the docstring of the method; empty without one
