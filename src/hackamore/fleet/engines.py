"""Where attempts run: in threads of this process, or wherever a `concurrent.futures.Executor` runs them."""

from __future__ import annotations

import threading
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Protocol

from hackamore.errors import FleetError, HackamoreError
from hackamore.fleet.remote import run_order
from hackamore.fleet.sending import in_process, pack
from hackamore.runtime.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hackamore.fleet.orders import Ended, Order
    from hackamore.fleet.task import Task
    from hackamore.fleet.worker import Worker
    from hackamore.options.options import Options

_MOST_LOSSES = 10
"""How many attempts in a row an executor may lose before the fleet fails: it may lose all."""
_CONTINUES = "Run the fleet again: it continues."
_AGAIN = "Start another one, and run the fleet again: it continues."


class Engine(Protocol):
    """Runs attempts."""

    remote: bool
    """True if attempts run in other processes."""

    def check(self, task: Task, options: Options) -> None:
        """Do nothing if a task can be sent to where attempts run; else raise `OptionsError`."""

    def submit(self, order: Order, done: Callable[[Ended | BaseException], None]) -> None:
        """Start an attempt.

        Args:
            done: called from any thread with how it ended, or with the error of the engine.

        Raises:
            FleetError, OptionsError: no attempt can be started.
        """

    def forget(self, attempts: Collection[tuple[str, int]]) -> None:
        """Cancel attempts that have not begun: they may not begin any more."""

    def end(self) -> None:
        """Give threads back. Nothing runs any more."""


class LocalEngine:
    """Runs attempts in threads of this process."""

    remote = False

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._threads = Threads(name="hackamore-fleet")

    def check(self, task: Task, options: Options) -> None:
        """Do nothing: nothing is sent."""

    def submit(self, order: Order, done: Callable[[Ended | BaseException], None]) -> None:
        self._threads.run(lambda: done(self._outcome(order)))

    def _outcome(self, order: Order) -> Ended | BaseException:
        try:
            return self._worker.run(order)
        except BaseException as error:  # it is reported nowhere else: the run would wait for ever
            found = FleetError(f"The attempt of task {order.task.id!r} broke off: {_text(error)} {_CONTINUES}")
            found.__cause__ = error
            return found

    def forget(self, attempts: Collection[tuple[str, int]]) -> None:
        """Do nothing: every attempt was begun."""

    def end(self) -> None:
        """Let idle threads end."""
        self._threads.end()


class ExecutorEngine:
    """Runs attempts where an executor runs them.

    Args:
        executor: the executor; it stays open.
        worker: makes the attempts if the executor has threads of this process.
    """

    def __init__(self, executor: Executor, worker: Worker) -> None:
        self._executor = executor
        self._worker = worker
        self.remote: bool = not in_process(executor)
        self._shares_main = isinstance(executor, ProcessPoolExecutor)
        self._futures: dict[tuple[str, int], Future[Ended]] = {}
        self._forgotten: set[tuple[str, int]] = set()
        self._losses = 0
        self._lock = threading.Lock()

    def check(self, task: Task, options: Options) -> None:
        if self.remote:
            pack(task, options, (task, options), shares_main=self._shares_main)

    def submit(self, order: Order, done: Callable[[Ended | BaseException], None]) -> None:
        try:
            if self.remote:
                parcel = pack(order.task, order.options, order, shares_main=self._shares_main)
                future = self._executor.submit(run_order, parcel)
            else:
                future = self._executor.submit(self._worker.run, order)
        except HackamoreError:
            raise
        except Exception as error:  # it is broken, or it was shut down
            raise FleetError(f"The executor takes no more work: {_text(error)} {_AGAIN}") from error
        attempt = order.task.id, order.lease.attempt
        with self._lock:
            self._futures[attempt] = future
        future.add_done_callback(lambda future: self._done(attempt, future, done))

    def _done(
        self, attempt: tuple[str, int], future: Future[Ended], done: Callable[[Ended | BaseException], None]
    ) -> None:
        task = attempt[0]
        with self._lock:
            self._futures.pop(attempt, None)
            forgotten = attempt in self._forgotten
        outcome: Ended | BaseException
        try:
            outcome = future.result(timeout=0)
            self._losses = 0
        except CancelledError as error:
            # Dask cancels all when it loses its scheduler.
            outcome = (
                error
                if forgotten
                else FleetError(f"The executor cancelled task {task!r}: it was shut down, or is gone. {_AGAIN}")
            )
        except BaseException as error:
            outcome = error if isinstance(error, HackamoreError) else self._lost(task, error)
        done(outcome)

    def _lost(self, task: str, error: BaseException) -> BaseException:
        """Return the error of the run, or that of a worker that is gone, while others continue."""
        if isinstance(error, BrokenExecutor):
            return FleetError(
                f"A worker of the executor was ended, and the executor is broken: {_text(error)} {_AGAIN}"
            )
        if type(error).__name__ == "KilledWorker":
            self._losses += 1
            if self._losses < _MOST_LOSSES:
                return error
        return FleetError(
            f"The executor could not run task {task!r}: {_text(error)} Check that its workers can import this Hackamore, and run the "
            "fleet again: it continues."
        )

    def forget(self, attempts: Collection[tuple[str, int]]) -> None:
        """Cancel the futures of attempts that may not begin any more."""
        with self._lock:
            self._forgotten.update(attempts)
            futures = [self._futures[attempt] for attempt in attempts if attempt in self._futures]
        for future in futures:
            future.cancel()

    def end(self) -> None:
        """Do nothing: the executor is its owner's."""


def _text(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    return text if text.endswith((".", "!", "?")) else text + "."
