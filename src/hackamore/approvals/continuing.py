"""Conversations that continue: the loops of `Approvals.answered`, and those that their runner continues."""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from hackamore.errors import escape_terminal
from hackamore.permissions import Deny

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hackamore.approvals.requests import ApprovalRequest
    from hackamore.dialogs import ElicitationResult
    from hackamore.permissions import Allow

LOOK_SECONDS = 0.5
"""How often the database is read for conversations that were answered."""


class Continuation(msgspec.Struct, frozen=True):
    """A conversation whose cold requests were answered: continue it with `prompt`.

    Attributes:
        conversation: the key of the conversation in its pool; outside a pool the id of its session.
        session_id: the session of the CLI, for `Options(resume=...)`; None if it is not known.
        requests: the requests, the oldest first.
    """

    conversation: str
    session_id: str | None
    requests: tuple[ApprovalRequest, ...]

    @property
    def prompt(self) -> str:
        """The prompt that makes the model repeat calls that were allowed, and tells it of the others. No text of a call is in it."""
        lines = []
        for request in self.requests:
            name = escape_terminal(request.tool, 100).replace("\n", " ")
            if isinstance(request.answer, Deny):
                lines.append(f"The call of {name} was denied: {request.answer.message}")
            else:
                lines.append(f"The call of {name} was answered. Make it again now, with exactly the same arguments.")
        lines.append(
            "If this conversation does not show such a call, a restart has lost it: do not guess it, and report that."
        )
        return "A person has answered what you were waiting for.\n" + "\n".join(lines)


class Answered:
    """The conversations that can be continued, for `for` and `async for`. It has no end: leave the loop, or cancel it.

    Args:
        approvals: the `Approvals`, which makes this object.
    """

    def __init__(self, approvals: Any) -> None:
        self._approvals = approvals

    def __iter__(self) -> Iterator[Continuation]:
        return _Loop(self._approvals)

    def __aiter__(self) -> AsyncIterator[Continuation]:
        return _Loop(self._approvals)


class _Loop(Iterator[Continuation], AsyncIterator[Continuation]):
    """One loop. It is not a generator: those of an event loop are closed late, or never."""

    def __init__(self, approvals: Any) -> None:
        self._approvals = approvals
        self._found: Continuation | None = None

    def __next__(self) -> Continuation:
        while (found := self.take()) is None:
            time.sleep(LOOK_SECONDS)
        return found

    async def __anext__(self) -> Continuation:
        # A worker thread keeps its last function until it gets another one.
        take = partial(_take, weakref.ref(self))
        while (found := await anyio.to_thread.run_sync(take)) is None:  # noqa: ASYNC110 - another process writes
            await anyio.sleep(LOOK_SECONDS)
        return found

    def take(self) -> Continuation | None:
        """Mark the last conversation as done, and return the next one; None if there is none at the moment."""
        if self._found is not None:
            self._approvals.done(self._found)
        self._found = None
        # Kept here, in the thread: a caller that is cancelled does not get it.
        self._found = self._approvals.claim()
        return self._found

    def __del__(self) -> None:
        if self._found is not None:  # the body raised or left the loop
            with suppress(Exception):
                self._approvals.release(self._found)


def _take(loop: weakref.ref[_Loop]) -> Continuation | None:
    found = loop()
    return None if found is None else found.take()


class ConversationApprovals(NamedTuple):
    """A value of the option `approvals` for one conversation that its runner continues by itself, as a fleet does.

    Attributes:
        permit: answers permission requests, as `Approvals.permit`.
        elicit: answers requests of MCP servers, as `Approvals.elicit`.
        answers: returns the answers that no call had yet, as a `Continuation`; None if there are none.
        withdraw: cancels the requests that wait for an answer.
    """

    permit: Callable[..., Awaitable[Allow | Deny]]
    elicit: Callable[..., Awaitable[ElicitationResult]]
    answers: Callable[[], Continuation | None]
    withdraw: Callable[[], None]
