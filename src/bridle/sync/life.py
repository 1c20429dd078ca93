# Generated from src/bridle/aio/life.py by scripts/make_sync.py. Do not edit: edit the source and run `./dev format`.
"""The start and the stop of a CLI over the bidirectional launch, for a session or a query."""

from __future__ import annotations

import copy
import time
import warnings
from typing import TYPE_CHECKING, Generic, TypeVar

from bridle.errors import BridleError
from bridle.session.core import SessionCore
from bridle.sync.seam import Seam
from bridle.sync.waits import Preparing, child_process, is_cancellation
from bridle.transports.opening import open_sync
from bridle.transports.process.prepare import Preparation

if TYPE_CHECKING:
    from bridle.options.options import Options
    from bridle.session.audience import Audience
    from bridle.transports.base import SyncTransport, TransportSource

__all__ = ["Life"]

A = TypeVar("A", bound="Audience")


class Life(Generic[A]):
    """One CLI, from its launch to its end.

    Args:
        options: settings of the session; `Options()` if None.
        transport: connection to the CLI; a local child process if None.
        audience: makes the object that gets the messages.

    Attributes:
        core: the core of the session.
        seam: waits for it.
        transport: the connection to the CLI.
        begun: True once a start was requested.
    """

    def __init__(
        self, options: Options | None, transport: SyncTransport | TransportSource | None, audience: type[A]
    ) -> None:
        self.seam = Seam()
        self.core = SessionCore(options, self.seam.post, audience)
        self.transport: SyncTransport
        self.transport, self._own_transport = open_sync(
            transport, lambda: child_process(self.core.options), self.core.options
        )
        self.seam.connect(self.core, self.transport)
        self.begun = False
        self._interrupted = False
        self._preparation: Preparation | None = None
        self._preparing: Preparing | None = None

    def begin(self, *, resumable: bool = False) -> None:
        """Start the CLI and return when it is ready. Further calls wait for the same start.

        Args:
            resumable: the next call continues the start if this one is cancelled; else a cancellation stops the CLI.

        Raises:
            StartError: the CLI cannot be started, or does not become ready in time.
            OptionsError: an option does not fit the file system.
            SessionClosedError: the session was stopped.
        """
        core, seam = self.core, self.seam
        mine = False
        try:
            with seam.lock:
                first = not self.begun and not core.stop_asked
                mine = first or (self._interrupted and not (seam.launched or core.stop_asked or core.ready.is_set))
                if first:
                    self.begun = True
                    core.connection.begin_start()
                elif not mine and core.stop_asked and not core.ready.is_set:
                    core.start_error = core.connection.closed_error()
                    core.ready.set()
            if mine:
                self._launch()
            seam.wait(core.ready)
        except BaseException as error:
            self._interrupted = resumable and is_cancellation(error)
            if mine and not self._interrupted:
                self.stop()
            raise
        if core.start_error is not None:
            if seam.launched:
                seam.wait(core.ended)  # the process is gone when the error is raised
            raise copy.copy(core.start_error)
        if core.stop_asked or core.connection.over:
            raise core.connection.closed_error()

    def _launch(self) -> None:
        core, seam = self.core, self.seam
        if self._preparation is None or self._preparing is None:
            self._preparation = Preparation(core.options, None, session=True, find=self._own_transport)
            self._preparing = Preparing(self._preparation)
        try:
            plan = self._preparing.plan()
            for warning in self._preparation.warnings:
                with seam.lock:
                    core.warn_before_start(warning)
                warnings.warn(warning, stacklevel=6)
            seam.launch(plan)
        except BridleError as error:
            with seam.lock:
                if core.stop_asked:
                    raise core.connection.closed_error() from None
                core.connection.fail(error)
                seam.wake()
                core.ended.set()
            seam.tell()

    def stop(self) -> None:
        """Interrupt a running turn and stop the CLI. When this returns, no process is left. Idempotent."""
        core, seam = self.core, self.seam
        with seam.lock:
            core.ask_stop()
            if self._preparation is not None:
                self._preparation.cancel()
            if not seam.launched:
                core.begin_stop(time.monotonic())
                core.process_gone(None, b"")
                seam.wake()
                core.ended.set()
        seam.stop()

    def abandon(self) -> None:
        """End the CLI without waiting: it has no user any more."""
        if self.begun and not self.core.ended.is_set:
            self.core.ask_stop(abandon=True)
            if self._preparation is not None:
                self._preparation.cancel()
            self.transport.abandon()
