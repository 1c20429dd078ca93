"""Transports that are recorded: around any other one, for cassettes and for `Options(trace=...)`.

They pass everything on as it is. Data for the peer is recorded before it is sent, so that an answer never stands before its question.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from bridle.errors import BridleError, OptionsError, printable
from bridle.transports.base import AsyncTransport, SyncTransport, Transport
from bridle.transports.recording.recorder import FunctionSink, SessionRecord, TapeFile, header_line
from bridle.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from bridle.launch.plan import LaunchPlan
    from bridle.options.options import Options
    from bridle.transports.recording.recorder import Sink

__all__ = ["RecordedAsync", "RecordedSync", "traced"]

T = TypeVar("T", bound=Transport)

_EXIT_SECONDS = 1.0
"""How long the exit status of a peer that was stopped is waited for."""


class _Recorded(Generic[T]):
    """The members that both forms of a recorded transport share.

    Args:
        inner: the transport to record.
        begin: makes the record when the launch plan is known; before that nothing is recorded.
    """

    def __init__(self, inner: T, begin: Callable[[LaunchPlan], SessionRecord]) -> None:
        self._inner = inner
        self._begin = begin
        self._made = False
        self._up = False
        self._record = SessionRecord.none()

    @contextmanager
    def _starting(self, plan: LaunchPlan) -> Iterator[None]:
        if not self._made:  # a start that was cancelled is gone on with
            self._record = self._begin(plan)
            self._made = True
            self._record.begin(plan)
        try:
            yield
        except (BridleError, OSError) as error:
            self._record.start_failed(error)
            raise
        self._up = True

    @property
    def pid(self) -> int | None:
        """The process id, where there is one."""
        return self._inner.pid

    @property
    def stderr_tail(self) -> bytes:
        """The last part of what the peer wrote to stderr."""
        return self._inner.stderr_tail

    def abandon(self) -> None:
        """Stop the peer without waiting."""
        self._inner.abandon()
        self._record.abandoned()

    @property
    def _lacks_exit(self) -> bool:
        return self._up and not self._record.ended and not self._record.exit_known


class RecordedAsync(_Recorded[AsyncTransport]):
    """An async transport that is recorded."""

    async def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        with self._starting(plan):
            await self._inner.start(plan)

    async def send(self, data: bytes) -> None:
        """Record and write."""
        self._record.sent(data)
        await self._inner.send(data)

    async def end_input(self) -> None:
        """Close the peer's input."""
        self._record.input_ended()
        await self._inner.end_input()

    async def receive(self) -> bytes:
        """Read and record."""
        data = await self._inner.receive()
        self._record.received(data)
        return data

    async def wait_exit(self) -> int | None:
        """Wait until the peer has exited."""
        code = await self._inner.wait_exit()
        self._record.exited(code)
        return code

    async def stop(self, *, turn_open: bool) -> None:
        """Stop the peer, and end the record."""
        self._record.stopped(turn_open=turn_open)
        try:
            await self._inner.stop(turn_open=turn_open)
        finally:
            if self._lacks_exit:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_EXIT_SECONDS):
                    self._record.exited(await self._inner.wait_exit())
            self._record.end(self._inner.stderr_tail)  # by now all of it was read


class RecordedSync(_Recorded[SyncTransport]):
    """A blocking transport that is recorded."""

    def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        with self._starting(plan):
            self._inner.start(plan)

    def send(self, data: bytes) -> None:
        """Record and write."""
        self._record.sent(data)
        self._inner.send(data)

    def end_input(self) -> None:
        """Close the peer's input."""
        self._record.input_ended()
        self._inner.end_input()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Read and record."""
        data = self._inner.receive(timeout)
        if data is not None:
            self._record.received(data)
        return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Wait until the peer has exited."""
        code = self._inner.wait_exit(timeout)
        if code is not None:
            self._record.exited(code)
        return code

    def stop(self, *, turn_open: bool) -> None:
        """Stop the peer, and end the record."""
        self._record.stopped(turn_open=turn_open)
        try:
            self._inner.stop(turn_open=turn_open)
        finally:
            if self._lacks_exit:
                self._record.exited(self._inner.wait_exit(_EXIT_SECONDS))
            self._record.end(self._inner.stderr_tail)  # by now all of it was read


def traced(transport: Any, options: Options, *, local: bool, blocking: bool) -> RecordedAsync | RecordedSync:
    """Return the transport with `Options(trace=...)` before it."""
    return (RecordedSync if blocking else RecordedAsync)(transport, lambda plan: _begin_trace(plan, options, local))


def _begin_trace(plan: LaunchPlan, options: Options, local: bool) -> SessionRecord:
    """Begin the trace of one session; several of them may go on with one file at once.

    Raises:
        OptionsError: the file cannot be written, or holds something else.
    """
    sink: Sink
    if callable(options.trace):
        sink = FunctionSink(options.trace)
    else:
        path = os.fspath(options.trace or "")
        try:
            sink = TapeFile(path, fresh=False)
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            raise OptionsError(f"`trace` cannot be written to {printable(path)}: {problem}", field="trace") from error
    redactor = Redactor(Vault())
    redactor.prepare(plan)
    sink.write(header_line(plan, local=local))
    return SessionRecord(sink, redactor, secrets.token_hex(4), options.limits.line_bytes)
