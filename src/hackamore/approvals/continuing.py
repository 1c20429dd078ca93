"""Conversations that continue: the iterator of `Approvals.answered`, and the part of a broker for a runner that continues by itself."""

from __future__ import annotations

import time
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from hackamore.errors import escape_terminal
from hackamore.permissions import Deny

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from hackamore.approvals.requests import ApprovalRequest
    from hackamore.dialogs import ElicitationRequest, ElicitationResult
    from hackamore.permissions import Allow, PermissionRequest

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


class _Loop:
    """One loop. It is not a generator: those of an event loop are closed late, or never."""

    def __init__(self, approvals: Any) -> None:
        self._approvals = approvals
        self._found: Continuation | None = None

    def __iter__(self) -> _Loop:
        return self

    def __aiter__(self) -> _Loop:
        return self

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


class ConversationApprovals:
    """Approvals of one conversation that its runner continues by itself, as a fleet does. It is a value of the option `approvals`.

    Args:
        approvals: the `Approvals`, which makes this object.
        key: the name of the conversation.
    """

    def __init__(self, approvals: Any, key: str) -> None:
        self._approvals = approvals
        self._key = key

    async def permit(self, request: PermissionRequest, *, cwd: str | None = None) -> Allow | Deny:
        """Answer as `Approvals.permit`.

        Args:
            request: the request of the CLI.
            cwd: the working directory of the session.

        Returns:
            The answer.

        Raises:
            ApprovalError: the database cannot be used: the call is denied.
        """
        answer: Allow | Deny = await self._approvals.permit(request, cwd=cwd, own=self._key)
        return answer

    async def elicit(self, request: ElicitationRequest, *, cwd: str | None = None) -> ElicitationResult:
        """Answer as `Approvals.elicit`.

        Args:
            request: the request of the CLI.
            cwd: the working directory of the session.

        Returns:
            The answer.

        Raises:
            ApprovalError: the database cannot be used: the request is declined.
        """
        answer: ElicitationResult = await self._approvals.elicit(request, cwd=cwd, own=self._key)
        return answer

    def answers(self) -> Continuation | None:
        """Return the answers that no call had yet, with the prompt that makes the model repeat the calls.

        Returns:
            The answers; None if there are none.

        Raises:
            ApprovalError: the database cannot be used.
        """
        found: Continuation | None = self._approvals.unused(self._key)
        return found

    def withdraw(self) -> None:
        """Cancel all requests that wait for an answer.

        Raises:
            ApprovalError: the database cannot be used.
        """
        self._approvals.withdraw_all(self._key)
