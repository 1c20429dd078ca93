"""The threads of plain callbacks: one for each that runs, kept for the next ones, gone with their session."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

from bridle.waiting.threads import Threads
from tests.support.patience import patience

WAIT = 20.0


def run(threads: Threads, function: Callable[[], None] = lambda: None) -> threading.Thread:
    """Run a function; return its thread, which is idle or has ended soon after."""
    found: list[threading.Thread] = []
    done = threading.Event()

    def work() -> None:
        found.append(threading.current_thread())
        function()
        done.set()

    threads.run(work)
    assert done.wait(patience(WAIT))
    return found[0]


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(WAIT / 0.002)):
        if condition():
            return
        pause.wait(0.002)
    raise AssertionError("it did not happen")


def test_an_idle_thread_is_used_again() -> None:
    threads = Threads()
    first = run(threads)
    until(lambda: threads.idle == 1)
    assert run(threads) is first
    threads.end()
    first.join(patience(WAIT))
    assert not first.is_alive()


def test_no_function_waits_for_another_one() -> None:
    threads = Threads()
    both = threading.Barrier(12)
    ran: set[threading.Thread] = set()
    over = threading.Semaphore(0)

    def work() -> None:
        both.wait(patience(WAIT))
        ran.add(threading.current_thread())
        over.release()

    for _ in range(12):
        threads.run(work)
    for _ in range(12):
        assert over.acquire(timeout=WAIT)
    assert len(ran) == 12
    until(lambda: sum(thread.is_alive() for thread in ran) == 4)  # as many are kept
    threads.end()
    for thread in ran:
        thread.join(patience(WAIT))
        assert not thread.is_alive()


def test_one_that_runs_at_the_end_ends_when_it_returns() -> None:
    threads = Threads()
    go, runs = threading.Event(), threading.Event()

    found: list[threading.Thread] = []

    def work() -> None:
        found.append(threading.current_thread())
        runs.set()
        go.wait(patience(WAIT))

    threads.run(work)
    assert runs.wait(patience(WAIT))
    threads.end()
    assert found[0].is_alive()
    go.set()
    found[0].join(patience(WAIT))
    assert not found[0].is_alive()


def test_an_idle_thread_holds_on_to_nothing() -> None:
    class Held:
        pass

    held = Held()
    seen = weakref.ref(held)
    threads = Threads()
    run(threads, lambda held=held: None)  # type: ignore[misc]
    until(lambda: threads.idle == 1)
    del held
    gc.collect()
    assert seen() is None
    threads.end()


def test_idle_threads_end_by_themselves() -> None:
    threads = Threads(idle_seconds=0.01)
    thread = run(threads)
    thread.join(patience(WAIT))
    assert not thread.is_alive()
    assert not threads.idle
    assert run(threads) is not thread
    threads.end()


def test_functions_that_come_while_threads_end_are_all_run() -> None:
    threads = Threads(idle_seconds=0.0005)
    for _ in range(500):
        run(threads)
    threads.end()
