"""Transports that are written down: around any other one, for cassettes and for `Options(trace=...)`.

They pass everything on as it is. What goes to the peer is written down before it is sent, so that an answer never stands before its
question.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import anyio

from bridle.errors import BridleError, OptionsError, printable
from bridle.transports.recording.recorder import FunctionSink, SessionRecord, TapeFile, header_line
from bridle.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridle.launch.plan import LaunchPlan
    from bridle.options.options import Options
    from bridle.transports.base import AsyncTransport, SyncTransport
    from bridle.transports.recording.recorder import Sink

__all__ = ["RecordedAsync", "RecordedSync", "trace_async", "trace_sync"]

_EXIT_SECONDS = 1.0
"""How long a peer that was stopped is asked for its exit status."""


class _Recorded:
    """What both kinds of recorded transports share. `begin` makes the record when the launch plan is known."""

    _inner: AsyncTransport | SyncTransport

    def __init__(self, begin: Callable[[LaunchPlan], SessionRecord]) -> None:
        self._begin = begin
        self._made: SessionRecord | None = None
        self._up = False

    def _record_of(self, plan: LaunchPlan) -> SessionRecord:
        if self._made is None:  # a start that was cancelled is gone on with
            self._made = self._begin(plan)
            self._made.begin(plan)
        return self._made

    @property
    def pid(self) -> int | None:
        """The process id, where there is one."""
        return self._inner.pid

    @property
    def stderr_tail(self) -> bytes:
        """The last part of what the peer wrote to stderr."""
        return self._inner.stderr_tail

    def abandon(self) -> None:
        """End the peer without waiting for anything."""
        self._inner.abandon()
        if self._made is not None:
            self._made.abandoned()


class RecordedAsync(_Recorded):
    """An async transport that is written down."""

    def __init__(self, inner: AsyncTransport, begin: Callable[[LaunchPlan], SessionRecord]) -> None:
        super().__init__(begin)
        self._inner: AsyncTransport = inner

    async def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        record = self._record_of(plan)
        try:
            await self._inner.start(plan)
        except (BridleError, OSError) as error:
            record.start_failed(error)
            raise
        self._up = True

    async def send(self, data: bytes) -> None:
        """Write down and write."""
        if self._made is not None:
            self._made.sent(data)
        await self._inner.send(data)

    async def end_input(self) -> None:
        """Close the peer's input."""
        if self._made is not None:
            self._made.input_ended()
        await self._inner.end_input()

    async def receive(self) -> bytes:
        """Read and write down."""
        data = await self._inner.receive()
        if self._made is not None:
            if data:
                self._made.received(data)
            else:
                self._made.output_ended()
        return data

    async def wait_exit(self) -> int | None:
        """Wait until the peer has exited."""
        code = await self._inner.wait_exit()
        if self._made is not None:
            self._made.exited(code)
        return code

    async def stop(self, *, turn_open: bool) -> None:
        """End the peer, and the record."""
        record = self._made
        if record is not None:
            record.stopped(turn_open=turn_open)
        try:
            await self._inner.stop(turn_open=turn_open)
        finally:
            if record is not None and not record.ended:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_EXIT_SECONDS):
                    if self._up and not record.exit_known:
                        record.exited(await self._inner.wait_exit())
                record.end(self._inner.stderr_tail)  # by now all of it was read


class RecordedSync(_Recorded):
    """A blocking transport that is written down."""

    def __init__(self, inner: SyncTransport, begin: Callable[[LaunchPlan], SessionRecord]) -> None:
        super().__init__(begin)
        self._inner: SyncTransport = inner

    def start(self, plan: LaunchPlan) -> None:
        """Start the peer."""
        record = self._record_of(plan)
        try:
            self._inner.start(plan)
        except (BridleError, OSError) as error:
            record.start_failed(error)
            raise
        self._up = True

    def send(self, data: bytes) -> None:
        """Write down and write."""
        if self._made is not None:
            self._made.sent(data)
        self._inner.send(data)

    def end_input(self) -> None:
        """Close the peer's input."""
        if self._made is not None:
            self._made.input_ended()
        self._inner.end_input()

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Read and write down."""
        data = self._inner.receive(timeout)
        if self._made is not None and data is not None:
            if data:
                self._made.received(data)
            else:
                self._made.output_ended()
        return data

    def wait_exit(self, timeout: float | None = None) -> int | None:
        """Wait until the peer has exited."""
        code = self._inner.wait_exit(timeout)
        if self._made is not None and code is not None:
            self._made.exited(code)
        return code

    def stop(self, *, turn_open: bool) -> None:
        """End the peer, and the record."""
        record = self._made
        if record is not None:
            record.stopped(turn_open=turn_open)
        try:
            self._inner.stop(turn_open=turn_open)
        finally:
            if record is not None and not record.ended:
                if self._up and not record.exit_known:
                    record.exited(self._inner.wait_exit(_EXIT_SECONDS))
                record.end(self._inner.stderr_tail)  # by now all of it was read


def trace_async(transport: AsyncTransport, options: Options, *, local: bool) -> AsyncTransport:
    """Return the transport with `Options(trace=...)` before it."""
    return RecordedAsync(transport, lambda plan: _begin_trace(plan, options, local))


def trace_sync(transport: SyncTransport, options: Options, *, local: bool) -> SyncTransport:
    """Return the transport with `Options(trace=...)` before it."""
    return RecordedSync(transport, lambda plan: _begin_trace(plan, options, local))


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
