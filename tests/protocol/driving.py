"""A plain loop that moves bytes between a `Connection` and a real process: the simplest shell there can be."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hackamore.messages import Message

E = TypeVar("E", bound=events.Event)
Answer = Callable[[events.RequestReceived], Any]


class Driver:
    """A process, its connection, and everything that the connection reported.

    Args:
        command: what to start.
        environment: all of it.
        cwd: where.
        answers: by subtype: what to answer; None leaves the request open.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: dict[str, str],
        cwd: Path,
        answers: dict[str, Answer] | None = None,
        connection: Connection | None = None,
    ) -> None:
        self.connection = connection or Connection()
        self.connection.state.begin_start()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
        self.answers = answers or {}
        self.events: list[events.Event] = []
        self.sent = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(patience(10))
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def messages(self, turn_id: str | None = None) -> list[Message]:
        batches = self.of(events.MessagesReceived)
        return [m for b in batches if turn_id is None or turn_id in b.turn_ids for m in b.messages]

    def resolved(self, request_id: str) -> events.RequestResolved | None:
        return next((e for e in self.of(events.RequestResolved) if e.request_id == request_id), None)

    def ask(self, subtype: str, **fields: Any) -> events.RequestResolved:
        request_id = self.connection.exchanges.send_request(subtype, fields)
        self.until(lambda: self.resolved(request_id) is not None)
        answer = self.resolved(request_id)
        assert answer is not None
        return answer

    def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Move bytes until `condition` holds."""
        end = monotonic() + patience(seconds)
        while True:
            self._take()
            if condition():
                return
            assert monotonic() < end, f"nothing of the kind within {seconds} s; last events: {self.events[-12:]}"
            assert not self.connection.state.over, f"it ended: {self.events[-3:]}"
            self._move(end)

    def pause(self, seconds: float) -> None:
        """Move bytes for a while: for what must not happen."""
        end = monotonic() + seconds
        while monotonic() < end and not self.connection.state.over:
            self._take()
            self._move(end)
        self._take()

    def close(self) -> None:
        """Close the process's stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.connection.outbox.input_was_closed()

    def _take(self) -> None:
        assert self.process.stdin is not None
        for event in self.connection.events_received():
            self.events.append(event)
            if isinstance(event, events.RequestReceived) and event.subtype in self.answers:
                answer = self.answers[event.subtype](event)
                if answer is not None:
                    self.connection.exchanges.send_response(event.request_id, answer)
        self.events += self.connection.events_received()
        if data := self.connection.data_to_send():
            self.sent += data
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _move(self, end: float) -> None:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, min(0.5, end - monotonic())))
        if not readable:
            return
        data = os.read(self.process.stdout.fileno(), 65_536)
        if data:
            self.connection.receive_data(data)
        else:
            self.connection.receive_eof()
            self.connection.process_exited(self.process.wait(patience(10)))
