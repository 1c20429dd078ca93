"""A worker: a process that makes attempts. It sends heartbeats, and ends attempts that were cancelled or given to another worker."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from hackamore.errors import JournalError
from hackamore.fleet.attempt import AttemptRun, retry_journal
from hackamore.fleet.journal.journal import LEASE_SECONDS
from hackamore.fleet.log import logger
from hackamore.fleet.orders import Ended, Order
from hackamore.fleet.states import Cause
from hackamore.runtime.threads import starters
from hackamore.storage.holders import holder_name
from hackamore.storage.leases import Heart

if TYPE_CHECKING:
    from hackamore.fleet.journal import Journal
    from hackamore.transports.base import TransportSource

LOOK_SECONDS = 1.0
"""How often a worker looks for requests to end attempts."""
BEAT_SECONDS = LEASE_SECONDS / 5


class Worker:
    """Makes attempts for a journal. A driver on the same machine is one as well.

    Attributes:
        holder: its name in the journal.
    """

    def __init__(self, journal: Journal, transport: TransportSource | None = None) -> None:
        self.journal: Journal = journal
        self.holder: str = holder_name()
        self._transport = transport
        self._runs: dict[tuple[str, int], AttemptRun] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._beat_at = 0.0
        self._heart = Heart(LOOK_SECONDS, self._keep, lambda: True)

    def start(self) -> None:
        """Send the first heartbeat, and continue in a thread."""
        retry_journal(self._beat, self._ended)
        self._heart.start()

    def run(self, order: Order) -> Ended:
        """Make an attempt; never raises."""
        key = order.task.id, order.lease.attempt
        run = AttemptRun(order, self.journal, self.holder, self._transport)
        with self._lock:
            if self._ended.is_set():
                return Ended(order.task.id, order.lease.attempt, 0.0, Cause.STOPPED)
            self._runs[key] = run
        try:
            return run.run()
        finally:
            with self._lock:
                self._runs.pop(key, None)

    def stop(self, cause: Cause = Cause.STOPPED) -> None:
        """End all attempts soon; do not wait for it."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            starters.run(partial(run.stop, cause))

    def end(self) -> None:
        """End the heartbeats, after the last attempt; give back what is left."""
        with self._lock:
            self._ended.set()
        self._heart.stop()
        self._heart.join()
        try:
            self.journal.leave(self.holder)
        except JournalError as error:
            logger.warning("A worker could not say that it ends: %s", error, extra={"code": "JOURNAL_FAILED"})

    def _beat(self) -> None:
        self.journal.beat(self.holder)
        self._beat_at = time.monotonic() + BEAT_SECONDS

    def _keep(self) -> None:
        try:
            if time.monotonic() >= self._beat_at:
                self._beat()
            self._look()
        except JournalError as error:
            logger.warning("The heartbeat of a worker failed: %s", error, extra={"code": "JOURNAL_FAILED"})

    def _look(self) -> None:
        with self._lock:
            runs = dict(self._runs)
        if not runs:
            return
        held = self.journal.held(self.holder)
        for (task, number), run in runs.items():
            if not run.begun:
                continue
            attempt, why = held.get(task, (-1, None))
            if attempt != number and not run.finished:
                why = Cause.LOST
            if why is not None:
                starters.run(partial(run.stop, why))
