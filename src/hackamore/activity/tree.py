"""Tool calls with their results, and the texts that a user typed: decided once for every reader of a run.

A subagent goes by the id of the call that started it, the main conversation by the empty string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hackamore.messages import McpToolUseBlock, ServerToolResultBlock, ServerToolUseBlock, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CALLS = (ToolUseBlock, ServerToolUseBlock, McpToolUseBlock)
RESULTS = (ToolResultBlock, ServerToolResultBlock)
"""Tools of the API have their results in the reply itself, not in a message of the user (2.1.330)."""

INTERRUPTED = "[Request interrupted by user"
_NOT_TYPED = (INTERRUPTED, "<local-command-stdout>", "<local-command-stderr>")

C = TypeVar("C")


def is_call(kind: object) -> bool:
    """Return whether a block of this type on the wire is one of `CALLS`."""
    return str(kind).endswith("tool_use")


def is_result(kind: object) -> bool:
    """Return whether a block of this type on the wire is one of `RESULTS`."""
    return str(kind).endswith("tool_result")


def typed(text: str, *marks: object) -> bool:
    """Return whether a user typed a text; `marks` are the fields of its entry that say otherwise, such as `isMeta`."""
    return not any(marks) and not text.startswith(_NOT_TYPED)


class Calls(dict[str, C]):
    """Tool calls by id, with the parts that a reader keeps of each.

    A frame that comes again is the same call, and the first result counts. After it, the id names another call: the API refuses that, but
    gateways to other models number the calls of each reply.

    Attributes:
        open: calls without a result, the oldest first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[str, C] = {}

    def begin(self, call_id: str, call: C) -> bool:
        """Take a call; return whether it is new."""
        if call_id in self.open:
            return False
        self[call_id] = self.open[call_id] = call
        return True

    def end(self, call_id: str) -> C | None:
        """Take a result; return its call. None if the call is unknown, or has a result."""
        return self.open.pop(call_id, None)


def answered(messages: Iterable[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the calls that have a result: the block of the call, the block of the result, and its message."""
    calls: Calls[Any] = Calls()
    for message in messages:
        for block in message.content:
            if isinstance(block, CALLS):
                calls.begin(block.id, block)
            elif isinstance(block, RESULTS) and (call := calls.end(block.tool_use_id)) is not None:
                yield call, block, message
                del calls[block.tool_use_id]  # its bytes keep those of its whole line
