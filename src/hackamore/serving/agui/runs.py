"""Runs: the turn of a run in a task of its own, the events that its client has not read yet, and the client that reads them.

A run outlives the request that began it, so that a client can come back. Events are numbered from 1, and kept in a buffer with a limit.
While a client reads, nothing is dropped that it has not read: the run waits for it, and its session holds unread output up to
`Limits.buffered_bytes`. A client that takes nothing for `STALL_SECONDS` counts as gone. Without a client the oldest events are dropped.
"""

from __future__ import annotations

import contextvars
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from hackamore.activity.replies import Results
from hackamore.messages import ResultError
from hackamore.runtime.event_loops import Loop, woken
from hackamore.runtime.flags import Flag
from hackamore.serving.agui.events import Event, Translator, usage_of
from hackamore.serving.agui.failures import Failure, report
from hackamore.serving.sse import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.aio.pool import CheckOut
    from hackamore.aio.session import Turn
    from hackamore.serving.agui.asking import Asked

STALL_SECONDS = 30.0  # how long a client may take nothing of a full buffer
_CHUNK_BYTES = 65_536  # how much a server gets at a time


@dataclass(eq=False)
class Reader:
    """A client that reads a run: the number of the next event that it gets, and the scope of its response."""

    position: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class Run:
    """One run: `begun` once its prompt was sent, `opened` once a client gets a stream, with a `failure` if it failed before that.

    `first` is the number of the oldest event that is kept.
    """

    def __init__(self, thread: str, run: str, most_bytes: int) -> None:
        self.id: str = run
        self.begun: bool = False
        self.opened: bool = False
        self.over: bool = False
        self.failure: Failure | None = None
        self.changed: Flag = Flag()
        self.first: int = 1
        self._reader: Reader | None = None
        self._events: deque[bytes] = deque()
        self._size = 0
        self._most_bytes = most_bytes
        self._taken = Flag()
        self._scope = anyio.CancelScope()
        self._translator = Translator(thread, run)

    @property
    def next(self) -> int:
        """The number of the event that comes next."""
        return self.first + len(self._events)

    def attach(self, position: int) -> Reader:
        """Give the run to a client; one that read it before is cut off."""
        if self._reader is not None:
            self._reader.scope.cancel()
        self._reader = Reader(position)
        self._taken.wake()
        return self._reader

    def take(self, reader: Reader) -> bytes:
        """Return the next events for a client; none if it has all."""
        found = bytearray()
        while reader.position < self.next and len(found) < _CHUNK_BYTES:
            found += self._events[reader.position - self.first]
            reader.position += 1
        if found:
            self._taken.wake()
        return bytes(found)

    def leave(self, reader: Reader, *, stop: bool) -> None:
        """Take a run from a client that is gone; `stop` ends the run."""
        if self._reader is reader:
            self._reader = None
            self._taken.wake()
            if stop:
                self.stop()

    def stop(self) -> None:
        """Interrupt the run, if it is not over: it ends as cancelled."""
        self._scope.cancel()

    def fail(self, failure: Failure) -> None:
        """End the run with a failure."""
        if self.opened or self.next > 2:  # more than its start
            end = {"type": "RUN_ERROR", "message": failure.text, "code": failure.code}
            self._add([*self._translator.finish(), end])
        else:
            self.failure = failure
        self.over = True
        self.changed.wake()

    def start(self, held: CheckOut, prompt: Any, asked: Asked | None, done: Callable[[Run], None]) -> None:
        """Begin the turn in a task of its own; `done` is called at its end."""

        async def work() -> None:
            try:
                with self._scope:
                    await self._work(held, prompt, asked)
                if not self.over and self.begun:
                    self._finish({"type": "cancelled"})
            except Exception as error:
                self.fail(report(error))
            finally:
                if not self.over:
                    self.fail(Failure(409, "cancelled", "The run was stopped."))
                done(self)

        Loop().spawn(work, contextvars.copy_context(), name="hackamore AG-UI run")

    async def _work(self, held: CheckOut, prompt: Any, asked: Asked | None) -> None:
        async with held as session:
            turn = await session.send(prompt)
            self.begun = True
            self._add([self._translator.start(), *(asked.events if asked is not None else ())])
            async for message in turn:
                if self._translator.held:
                    await self._look(asked)
                if events := self._translator.read(message):
                    self._add(events)
                    await self._make_room()
            await self._end(turn, asked)

    async def _end(self, turn: Turn, asked: Asked | None) -> None:
        result = await turn.result()
        usage = usage_of(Results(resumed=True).take(result).models)
        if asked is not None and not result.is_error:
            await anyio.to_thread.run_sync(asked.settle)
        if interrupts := await self._look(asked):  # a call of a subagent may wait, although the turn continued
            self._finish({"type": "interrupt", "interrupts": interrupts}, usage=usage)
        elif result.is_error:
            raise ResultError.of(result)
        else:
            self._finish({"type": "success"}, usage=usage, result=result.structured_output)

    async def _look(self, asked: Asked | None) -> list[Event]:
        """Read which calls wait for a person; return their interrupts."""
        waiting = [] if asked is None else await anyio.to_thread.run_sync(asked.waiting)
        self._translator.waiting = {each.call: each.id for each in waiting}
        return [asked.interrupt(each, self._translator.agent_of(each.call)) for each in waiting if asked is not None]

    def _finish(self, outcome: Event, *, usage: list[Event] | None = None, result: Any = None) -> None:
        self._add([*self._translator.finish(), self._translator.end(outcome, usage=usage, result=result)])
        self.over = True

    def _add(self, events: list[Event]) -> None:
        for event in events:
            self._events.append(line := encode(event, id=self.next))
            self._size += len(line)
        self.changed.wake()

    async def _make_room(self) -> None:
        """Drop the oldest events beyond the limit, and wait for the client that has not read them."""
        while self._size > self._most_bytes and len(self._events) > 1:
            reader = self._reader
            if reader is None or reader.position > self.first:
                self._size -= len(self._events.popleft())
                self.first += 1
            elif not await woken(self._taken, STALL_SECONDS) and self._reader is reader:
                reader.scope.cancel()  # its response ends, and leaves the run
