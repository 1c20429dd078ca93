"""The threads of plain callbacks: one for each that runs, kept for the next ones, gone with their session. Also waiting for them."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from hackamore.runtime.event_loops import current_task
from hackamore.runtime.threads import Call, Mark, Room, Threads, starters, wait_for
from tests.support.leaks import open_descriptors
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


def test_threads_have_a_name_and_keep_no_program_from_ending() -> None:
    """Leak checks find them by their names."""
    kinds: list[tuple[Threads, str]] = [(Threads(), "hackamore-callback"), (Threads(name="hackamore-x"), "hackamore-x")]
    for threads, name in [*kinds, (starters, "hackamore-start")]:
        thread = run(threads)
        assert (thread.name, thread.daemon) == (name, True)
        threads.rest()


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
    threads = Threads(idle_seconds=1e6)
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


def test_one_that_goes_to_rest_during_the_end_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(idle_seconds=1e6)

    class Late(deque[Any]):
        def append(self, inbox: object) -> None:
            threads.end()
            super().append(inbox)

    monkeypatch.setattr(threads, "_idle", Late())
    thread = run(threads)
    thread.join(patience(WAIT))
    assert not thread.is_alive()


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


def test_idle_threads_end_at_a_rest_and_others_begin_afterwards() -> None:
    threads = Threads()
    first = run(threads)
    until(lambda: threads.idle == 1)
    threads.rest()
    first.join(patience(WAIT))
    assert not first.is_alive()
    second = run(threads)
    until(lambda: threads.idle == 1)
    threads.after_fork()  # as in a copy, which has none of them
    assert threads.idle == 0
    assert run(threads) is not second
    threads.end()


@pytest.mark.parametrize("place", ["main thread", "another thread"])
def test_a_wait_ends_with_the_event_or_the_time(place: str) -> None:
    event = threading.Event()
    found: list[bool] = []

    def wait() -> None:
        began = time.monotonic()
        found.extend([wait_for(event, 0.0), wait_for(event, 0.02), wait_for(event, -1.0)])
        assert time.monotonic() - began >= 0.02
        threading.Timer(0.01, event.set).start()
        found.extend([wait_for(event, 1e300), wait_for(event), wait_for(event, 0.0)])

    if place == "main thread":
        wait()
    else:
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(patience(WAIT))
    assert found == [False, False, False, True, True, True]


class Waited(threading.Event):
    """An event that notes how long it is waited for, and is set the fourth time."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return len(self.waits) > 3


@pytest.mark.parametrize("seconds", [None, 1e9])
def test_the_main_thread_looks_for_signals_while_it_waits(seconds: float | None) -> None:
    event = Waited()
    assert wait_for(event, seconds)
    assert event.waits == [1.0] * 4
    short = Waited()
    assert wait_for(short, 0.9)
    assert all(wait is not None and wait <= 0.9 for wait in short.waits)
    there = Waited()
    thread = threading.Thread(target=wait_for, args=(there, seconds))
    thread.start()
    thread.join(patience(WAIT))
    assert [wait is None or wait > 1e6 for wait in there.waits] == [True]


def test_a_mark_has_one_holder_at_a_time() -> None:
    mark = Mark()
    assert not mark.taken
    assert mark.take()
    assert (mark.taken, mark.take()) == (True, False)
    with mark:
        assert mark.taken
    assert not mark.taken
    assert mark.take()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_in_a_thread(backend: str) -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    error = ValueError("it failed")

    def work() -> tuple[str, object, bool]:
        found = variable.get(), current_task(), threading.current_thread() is threading.main_thread()
        variable.set("changed")
        return found

    def fail() -> None:
        raise error

    async def scenario() -> None:
        variable.set("inside")
        assert await Call(work).wait() == ("inside", None, False)
        assert variable.get() == "inside"
        with pytest.raises(ValueError, match="it failed") as caught:
            await Call(fail).wait()
        assert caught.value is error
        go = threading.Event()
        slow = Call(lambda: go.wait(patience(WAIT)))
        with anyio.move_on_after(0):
            await slow.wait()
        go.set()  # it is taken up again
        with anyio.fail_after(patience(WAIT)):
            assert await slow.wait()

    before = len(open_descriptors())
    anyio.run(scenario, backend=backend)
    gc.collect()
    assert len(open_descriptors()) == before


@pytest.mark.parametrize("dropped", ["before its end", "after its end"])
def test_a_call_that_nobody_waits_for_gives_its_descriptor_back(dropped: str) -> None:
    starters.rest()
    before = len(open_descriptors())
    go, over = threading.Event(), threading.Event()

    def work() -> str:
        assert go.wait(patience(WAIT))
        over.set()
        return "result"

    call = Call(work)
    assert len(open_descriptors()) > before
    if dropped == "after its end":
        go.set()
        until(lambda: starters.idle == 1)
    del call
    gc.collect()
    go.set()
    assert over.wait(patience(WAIT))
    until(lambda: len(open_descriptors()) == before)


def test_a_call_for_which_there_is_no_thread_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise RuntimeError("can't start new thread")

    before = len(open_descriptors())
    monkeypatch.setattr(starters, "run", refused)
    with pytest.raises(RuntimeError, match="new thread") as caught:
        Call(str)
    monkeypatch.undo()
    assert len(open_descriptors()) == before
    del caught
    gc.collect()
    assert len(open_descriptors()) == before


def test_an_error_of_a_call_is_not_kept_until_the_next_garbage_collection() -> None:
    class Held:
        pass

    found: list[weakref.ref[Held]] = []

    def fail() -> None:
        held = Held()
        found.append(weakref.ref(held))
        raise LookupError(held)

    async def scenario() -> None:
        with contextlib.suppress(LookupError):
            await Call(fail).wait()

    gc.collect()
    gc.disable()
    try:
        anyio.run(scenario)
        assert found[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_room_has_as_many_places_as_are_left_free(backend: str) -> None:
    room = Room(2)
    over = threading.Event()
    assert room.enter(lambda: False)

    async def scenario() -> None:
        assert await room.enter_async(lambda: True)  # there is one
        assert not await room.enter_async(lambda: True)
        assert not room.enter(lambda: True)
        entered: list[bool] = []
        came = anyio.Event()

        async def enter() -> None:
            entered.append(await room.enter_async(over.is_set))
            came.set()

        with anyio.fail_after(patience(WAIT)):
            async with anyio.create_task_group() as group:
                group.start_soon(enter)
                group.start_soon(enter)
                room.leave()
                await came.wait()
                over.set()
        assert entered == [True, False]

    anyio.run(scenario, backend=backend)
