"""The async shell of a tool server on the standard streams of a program: asyncio and trio."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import anyio

from hackamore._engine.answering.stdio import StdioConnection
from hackamore.aio.driver import run_job
from hackamore.runtime.event_loops import Loop, context_for_thread
from hackamore.runtime.log import logger
from hackamore.runtime.stdio import Pipes
from hackamore.runtime.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.answering.jobs import Job
    from hackamore.tools import ToolServer

GRACE_SECONDS = 1.5
"""How long cancelled tools have to end, and the client to read the last answers: MCP clients kill a server after two seconds."""


class Serving:
    """Moves bytes between the streams and the connection, and runs the tools."""

    def __init__(self, server: ToolServer) -> None:
        self._loop = Loop()
        self._context = context_for_thread()
        self._threads = Threads()
        self._connection = StdioConnection(server, self._post)
        self._changed = anyio.Event()
        self._moving = self._lost = False
        self._failure: Exception | None = None
        self._pipes: Pipes | None = None

    async def run(self, source: int, target: int) -> None:
        """Serve until the client is gone."""
        connection = self._connection
        pipes = self._pipes = Pipes(
            source,
            target,
            self._loop,
            received=lambda data: self._do(partial(self._received, data)),
            written=lambda: self._do(lambda: None),
            lost=lambda: self._do(self._lose),
        )
        try:
            await self._until(lambda: connection.over)
        finally:
            connection.end()
            self._move()
            with anyio.CancelScope(deadline=anyio.current_time() + GRACE_SECONDS, shield=True):
                await self._until(lambda: not (connection.running or pipes.writing))
            for job in tuple(connection.running):
                logger.warning("%s did not end within %g s of its cancellation", job.callee.name, GRACE_SECONDS)
            pipes.close()
            self._threads.end()
        if self._failure is not None:
            raise self._failure

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and self._failure is None:
            self._changed = anyio.Event()
            await self._changed.wait()

    def _post(self, function: Callable[[], None]) -> None:
        self._loop.post(lambda: self._do(function))

    def _do(self, function: Callable[[], None]) -> None:
        """Call a function and look at the connection, in the event loop, which must not see exceptions."""
        try:
            self._connection.deadlines.now = time.monotonic()
            function()
            self._move()
        except Exception as error:
            self._failure = error
        self._changed.set()

    def _received(self, data: bytes) -> None:
        if data:
            self._connection.receive_data(data)
        else:
            self._connection.receive_eof()

    def _lose(self) -> None:
        self._lost = True
        self._connection.end()

    def _finish(self, job: Job, outcome: object, error: BaseException | None) -> None:
        if self._moving:
            self._connection.finish(job, outcome, error)
        else:
            self._do(lambda: self._connection.finish(job, outcome, error))

    def _move(self) -> None:
        connection, pipes = self._connection, self._pipes
        assert pipes is not None  # noqa: S101 - set before anything is received
        self._moving = True
        try:
            for job in connection.take():
                run_job(job, self._finish, self._loop, self._context, self._threads)
        finally:
            self._moving = False
        if not (self._lost or pipes.writing) and (data := connection.data_to_send()):
            pipes.write(data)
        if connection.wants_input:
            pipes.read_on()
