"""`Fleet`: many tasks for many agents, in a journal that survives everything."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, Self

from hackamore.errors import FleetError, TaskFailedError
from hackamore.fleet.driver import Driver
from hackamore.fleet.events import FleetEvent, FleetProgress, TaskFinished
from hackamore.fleet.journal import Journal, Store, open_journal
from hackamore.fleet.log import logger
from hackamore.fleet.plan import FleetPlan
from hackamore.fleet.task import FleetRow, Task

if TYPE_CHECKING:
    from types import TracebackType

    from hackamore.activity.prices import Price
    from hackamore.budgets.budget import Budget
    from hackamore.fleet.journal import Attempt
    from hackamore.fleet.workspaces import Workspace
    from hackamore.options.options import Options
    from hackamore.options.retry import Retry
    from hackamore.transports.base import TransportSource

_STOP_SECONDS = 60.0


class FleetRun:
    """A run of tasks: its events, in a `for` or an `async for` loop. `Fleet.run` makes it.

    The loop ends when all tasks are over. It raises the error that ended the run early: nothing is lost then, and another run continues.
    Leaving the loop early ends the agents; use `with` (or `async with`) to wait until they are gone. So does a run that is not kept:
    `fleet.run(tasks).wait()` waits for its end.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._finalizer = weakref.finalize(self, _forget, driver)
        driver.start()

    def drain(self) -> None:
        """Start nothing more. The run ends when the attempts that run have ended; it may be called from a signal handler."""
        self._driver.drain()

    def stop(self) -> None:
        """End the agents. Their tasks are queued again, and the next run continues them; it may be called from a signal handler."""
        self._driver.stop()

    def progress(self) -> FleetProgress:
        """Return how things stand now.

        Returns:
            Counts, spending and an estimate.

        Raises:
            JournalError: the journal cannot be read.
        """
        return self._driver.progress()

    def wait(self) -> None:
        """Read all events, and return when the run has ended.

        Raises:
            HackamoreError: the error that ended the run early.
        """
        for _ in self:
            pass

    def _end(self) -> None:
        self._driver.join()
        error = self._driver.error
        if error is not None and not self._driver.error_read:
            self._driver.error_read = True
            raise error

    def __iter__(self) -> Iterator[FleetEvent]:
        return self

    def __next__(self) -> FleetEvent:
        event = self._driver.events.get()
        if event is None:
            self._end()
            raise StopIteration
        return event

    def __aiter__(self) -> AsyncIterator[FleetEvent]:
        return self

    async def __anext__(self) -> FleetEvent:
        event = await self._driver.events.receive()
        if event is None:
            self._end()
            raise StopAsyncIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._driver.stop()
        if not self._driver.join(_STOP_SECONDS):
            raise _not_ended()
        if error is None:
            self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import anyio

        self._driver.stop()
        with anyio.move_on_after(_STOP_SECONDS, shield=True):
            while await self._driver.events.receive() is not None:
                pass
        if not self._driver.ended.is_set():
            raise _not_ended()
        if error is None:
            self._end()


def _not_ended() -> FleetError:
    return FleetError(
        f"The run did not end within {_STOP_SECONDS:g} s: a function that checks an answer still runs. Give it a time limit of its own."
    )


def _forget(driver: Driver) -> None:
    if not driver.ended.is_set():
        logger.warning(
            "A run of a fleet was dropped before its end, and its agents stop: read its events, or call `wait()`",
            extra={"code": "RUN_DROPPED"},
        )
    driver.stop()
    if driver.error is not None and not driver.error_read:
        logger.error("The error of a fleet was not read", exc_info=driver.error, extra={"code": "FLEET_FAILED"})


class Fleet(Executor):
    """Runs many tasks, each with an agent of its own, and loses none.

    A journal has every change of every task, written before its effect. After a kill at any moment, the same call continues: an attempt
    that was interrupted resumes its session, and a task that is over is not run again.

    Args:
        journal: the journal: a path of a SQLite file, which is created, a URL of a Postgres database (`hackamore[postgres]`), or a `Store`.
        options: the options of all tasks; `Options()` if None.
        concurrency: agents that run at the same time, at most. Rate limits lower it for a while.
        budget: a limit on what all tasks spend together, earlier runs with this journal included.
        workspace: the folder for each task: a `Worktree`, a `Copy` or a `Folder`; None for the `cwd` of the options. With a journal in
            Postgres a `Worktree` or `Copy` needs `to=`.
        retry: the rule for failed attempts; None for three attempts that resume their session. Rate limits do not count.
        stall: seconds without a message after which an attempt has failed; None for no limit. `Options(timeouts=Timeouts(turn=...))` limits
            the whole attempt.
        traces: the folder for a trace of each attempt; None for no traces.
        verify_timeout: seconds that a command which checks an answer may take.
        executor: where attempts run: any `concurrent.futures.Executor`, such as that of Dask; None for threads of this process.
        transport: where the CLIs run: a place of `hackamore.transports.remote`, or `Machines` for several; None for child processes.
        prices: prices by model, as for `Budget`, for attempts that were killed before they could say what they cost.

    Raises:
        OptionsError: an argument has a wrong type or value.
        JournalError: the journal cannot be used.

    Example:
        ::

            fleet = Fleet("nightly.db", options, concurrency=8, budget=Budget(usd=40), workspace=Worktree("."))
            for event in fleet.run([Task("fix-101", "Fix issue 101.", verify=["pytest", "-q"])]):
                print(event)
            for row in fleet.results():
                print(row.task, row.state, row.cost)
    """

    def __init__(
        self,
        journal: str | os.PathLike[str] | Store,
        options: Options | None = None,
        *,
        concurrency: int = 8,
        budget: Budget | None = None,
        workspace: Workspace | None = None,
        retry: Retry | None = None,
        stall: float | None = 900.0,
        traces: str | os.PathLike[str] | None = None,
        verify_timeout: float = 600.0,
        executor: Executor | None = None,
        transport: TransportSource | None = None,
        prices: dict[str, Price] | None = None,
    ) -> None:
        self._plan = FleetPlan(
            options,
            concurrency=concurrency,
            budget=budget,
            workspace=workspace,
            retry=retry,
            stall=stall,
            traces=traces,
            verify_seconds=verify_timeout,
            executor=executor,
            transport=transport,
            prices=prices,
        )
        self._journal = open_journal(journal) if isinstance(journal, (str, os.PathLike)) else Journal(journal)
        self._plan.keep_beside(self._journal.store.address)
        self._known: dict[str, Task] = {}
        self._run: FleetRun | None = None
        self._futures: dict[str, list[Future[FleetRow]]] = {}
        self._repeats: dict[str, int] = {}
        self._lock = threading.Lock()
        self._shut = False
        self._reader: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"Fleet({self._journal.store.title!r}, concurrency={self._plan.concurrency})"

    # -- runs ----------------------------------------------------------------------------------------------------------

    def run(self, tasks: Iterable[Task]) -> FleetRun:
        """Run tasks until all are over; continue those that the journal has already.

        Args:
            tasks: the tasks. They are read in another thread.

        Returns:
            The run, for a `for` or an `async for` loop. It has begun. Wrong tasks raise an error in the loop.

        Raises:
            TypeError: `tasks` is not iterable.
        """
        if isinstance(tasks, (str, Task)) or not isinstance(tasks, Iterable):
            raise TypeError(f"`run` takes a list of tasks, got {tasks!r:.100} ({type(tasks).__name__})")
        return FleetRun(Driver(self._plan, self._journal, self._remembered(tasks)))

    def _remembered(self, tasks: Iterable[Task]) -> Iterator[Task]:
        for task in tasks:
            if isinstance(task, Task):
                self._known[task.id] = task
            yield task

    def results(self, states: Collection[str] | None = None) -> Iterator[FleetRow]:
        """Iterate over the tasks of the journal, in the order in which they were added.

        Args:
            states: only tasks in these states, such as `{"failed"}`; None for all.

        Returns:
            Rows; `write_results` of `hackamore.fleet` writes them to a file.

        Raises:
            JournalError: the journal cannot be read.
        """
        for row in self._journal.rows(states):
            yield self._plan.typed(row, self._known.get(row.task))

    def attempts(self, task: str) -> list[Attempt]:
        """Return the attempts of a task, in order.

        Args:
            task: its id.

        Returns:
            The attempts; none if nothing was tried yet.
        """
        return self._journal.attempts(task)

    def cancel(self, tasks: Collection[str] | None = None) -> int:
        """Cancel tasks that are not over; agents that run end soon, wherever they run.

        Tasks that were submitted are among them, also those that the background run has not begun to look at. Those that a `run` has not
        read from its iterable yet are not.

        Args:
            tasks: ids; None for all.

        Returns:
            How many there were.

        Raises:
            JournalError: the journal has no such task, or cannot be used.
        """
        with self._lock:
            run = self._run
        if run is not None:  # its driver puts tasks into the journal some time after `submit`
            self._driver.wait_added()
        return self._journal.cancel(tasks)

    def retry(self, tasks: Collection[str] | None = None, *, fresh: bool = False) -> int:
        """Queue tasks that failed or were cancelled once more; the next run takes them.

        Args:
            tasks: ids; None for all.
            fresh: True starts each one in a new session; False resumes its last session where there is one.

        Returns:
            How many there were.

        Raises:
            JournalError: the journal has no such task, or cannot be used.
        """
        return self._journal.retry(tasks, fresh=fresh)

    def close(self) -> None:
        """Close the journal; the next call opens it again."""
        self._journal.close()

    # -- an executor ---------------------------------------------------------------------------------------------------

    def submit(self, work: Task | str | Callable[..., Task | str], /, *args: Any, **kwargs: Any) -> Future[FleetRow]:  # type: ignore[override]
        """Run one task in the background.

        Args:
            work: a task, a prompt, or a function that returns one of them. A prompt has an id made of its text: the same prompts get the
                same results after a restart.
            *args: arguments of the function.
            **kwargs: keyword arguments of the function.

        Returns:
            A future with the row of the task, or a `TaskFailedError`.

        Raises:
            RuntimeError: the fleet was shut down.
        """
        if callable(work):
            work = work(*args, **kwargs)
        elif args or kwargs:
            raise TypeError("arguments are for functions: `submit(function, argument)`")
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot submit tasks after the fleet was shut down")
            task = self._named(work) if isinstance(work, str) else work
            self._plan.check_task(task)
            future: Future[FleetRow] = Future()
            waiting = self._futures.setdefault(task.id, [])
            waiting.append(future)
            if len(waiting) == 1:
                self._known[task.id] = task
                self._started().add(task, lambda error: self._refuse(task.id, error))
        return future

    def map(  # type: ignore[override]
        self,
        fn: Callable[..., Task | str],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[FleetRow]:
        """Run one task for each item; return their rows in order.

        Args:
            fn: returns a task or a prompt for an item.
            *iterables: the items, as for `map`.
            timeout: seconds from the call after which the iterator raises a `TimeoutError`; None for no limit.
            chunksize: has no effect here.

        Returns:
            An iterator of rows. It raises the `TaskFailedError` of a task that did not succeed.
        """
        rows: Any = super().map(fn, *iterables, timeout=timeout, chunksize=chunksize)
        return rows  # type: ignore[no-any-return]

    def _named(self, prompt: str) -> Task:
        name = "prompt-" + hashlib.sha256(prompt.encode(errors="surrogatepass")).hexdigest()[:16]
        count = self._repeats[name] = self._repeats.get(name, 0) + 1
        return Task(name if count == 1 else f"{name}-{count}", prompt)

    def _started(self) -> Driver:
        if self._run is None:
            driver = Driver(self._plan, self._journal, None)
            self._run = FleetRun(driver)
            self._driver = driver
            self._reader = threading.Thread(
                target=self._read, args=(self._run,), name="hackamore-fleet-futures", daemon=True
            )
            self._reader.start()
        return self._driver

    def _read(self, run: FleetRun) -> None:
        error: BaseException | None = None
        try:
            for event in run:
                if isinstance(event, TaskFinished):
                    self._resolve(event.row)
        except BaseException as problem:
            error = problem
        with self._lock:
            left = [name for name, futures in self._futures.items() if futures]
            self._run = None
        for name in left:
            self._refuse(
                name,
                error or RuntimeError("the fleet was shut down before this task was over; another run continues it"),
            )

    def _resolve(self, row: FleetRow) -> None:
        with self._lock:
            futures = self._futures.pop(row.task, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                if row.state == "succeeded":
                    future.set_result(row)
                else:
                    future.set_exception(TaskFailedError(row.task, row.state, row.cause, row.error, row))

    def _refuse(self, task: str, error: BaseException) -> None:
        with self._lock:
            futures = self._futures.pop(task, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the background run of `submit`, and close the journal.

        Args:
            wait: True returns when all submitted tasks are over.
            cancel_futures: True gives back tasks that have not started; the next run continues them.
        """
        with self._lock:
            self._shut = True
            run, reader = self._run, self._reader
        if run is not None:
            if cancel_futures:
                run.drain()
            self._driver.close()
        if wait:
            if reader is not None:
                reader.join()
            self.close()
