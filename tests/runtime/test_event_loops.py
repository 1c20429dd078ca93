"""The event loop that runs, asyncio's or trio's: its tasks, calls from other threads, and waiting for descriptors."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from types import ModuleType

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import sniffio

from hackamore.runtime.event_loops import (
    Loop,
    call_when_readable,
    context_for_thread,
    current_task,
    end_program,
    run_cancellable,
    wait_readable,
)
from tests.support.patience import patience


@pytest.mark.parametrize("imported", ["nothing", "an empty lowlevel"])
def test_trio_that_another_thread_is_importing_is_not_asked(monkeypatch: pytest.MonkeyPatch, imported: str) -> None:
    trio = ModuleType("trio")
    if imported != "nothing":
        trio.lowlevel = ModuleType("trio.lowlevel")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trio", trio)

    async def scenario() -> bool:
        return Loop().is_current

    assert asyncio.run(scenario())


@pytest.mark.parametrize("factory", [False, True], ids=["no factory", "a task factory"])
def test_an_eager_task_takes_its_first_step_in_the_call_where_asyncio_can(factory: bool) -> None:
    steps: list[object] = []
    ended: list[str] = []
    variable = contextvars.ContextVar("variable", default="outside")

    async def work() -> None:
        steps.append((variable.get(), asyncio.current_task() is not None))
        await asyncio.sleep(0)
        variable.set("changed")
        steps.append("last")

    async def quick() -> None:
        return None

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        if factory:
            loop.set_task_factory(lambda loop, coroutine, **more: asyncio.Task(coroutine, loop=loop, **more))
        here = asyncio.current_task()
        context = contextvars.copy_context()
        context.run(variable.set, "inside")
        Loop().spawn(work, context, lambda: ended.append("work"), eager=True)
        assert (len(steps) == 1) is (sys.version_info >= (3, 12) and not factory)
        assert asyncio.current_task() is here
        Loop().spawn(quick, context, lambda: ended.append("quick"), eager=True)
        async with asyncio.timeout(20):
            while len(ended) < 2:
                await asyncio.sleep(0)
        assert steps == [("inside", True), "last"]
        assert variable.get() == "outside"

    asyncio.run(scenario())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_takes_functions_from_threads_until_it_ends(backend: str) -> None:
    async def scenario() -> Loop:
        loop = Loop()
        assert loop.is_current
        assert abs(loop.time() - anyio.current_time()) < patience(5)
        assert await anyio.to_thread.run_sync(lambda: loop.is_current) is False
        ran: list[object] = []
        came = anyio.Event()

        def call() -> None:
            ran.append((threading.current_thread(), current_task() is None))
            came.set()

        assert await anyio.to_thread.run_sync(loop.post, call)
        with anyio.fail_after(patience(20)):
            await came.wait()
        assert ran[0] == (threading.current_thread(), backend == "asyncio")  # trio has a task for such calls
        return loop

    first = anyio.run(scenario, backend=backend)
    assert not first.is_current
    assert not first.post(lambda: None)
    assert current_task() is None

    async def another() -> bool:
        return first.is_current

    assert not anyio.run(another, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_of_the_loop_has_the_given_context_and_no_scope_of_its_caller(backend: str) -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    steps: list[str] = []

    async def scenario() -> None:
        came, ended, go = anyio.Event(), anyio.Event(), anyio.Event()

        async def work() -> None:
            steps.append(variable.get())
            came.set()
            await go.wait()
            steps.append("end")
            ended.set()

        context = contextvars.copy_context()
        context.run(variable.set, "inside")
        with anyio.fail_after(patience(20)):
            with anyio.CancelScope() as scope:
                Loop().spawn(work, context)
                await came.wait()
                scope.cancel()
            go.set()
            await ended.wait()
            await Loop().turn()

    anyio.run(scenario, backend=backend)
    assert steps == ["inside", "end"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_descriptor_is_read_until_the_function_returns_something(backend: str) -> None:
    reading, writing = os.pipe()
    calls: list[bytes] = []

    def read() -> bytes | None:
        calls.append(os.read(reading, 1))
        return b"".join(calls) if calls[-1] == b"c" else None

    def fail() -> None:
        raise LookupError(os.read(reading, 1))

    async def scenario() -> None:
        with anyio.fail_after(patience(20)):
            os.write(writing, b"abcd")
            assert await call_when_readable(reading, read) == b"abc"
            with pytest.raises(LookupError, match="d"):
                await call_when_readable(reading, fail)
        with anyio.move_on_after(0) as scope:
            await wait_readable(reading)
        assert scope.cancelled_caught
        os.write(writing, b"e")
        await Loop().turn()
        with anyio.fail_after(patience(20)):
            await wait_readable(reading)
        assert os.read(reading, 10) == b"e"  # nobody else has read it

    anyio.run(scenario, backend=backend)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_function_in_another_thread_has_the_variables_but_no_loop(backend: str) -> None:
    variable = contextvars.ContextVar("variable", default="outside")

    async def scenario() -> None:
        variable.set("inside")
        context = context_for_thread()
        variable.set("later")
        assert context.run(variable.get) == "inside"
        with pytest.raises(sniffio.AsyncLibraryNotFoundError):
            await anyio.to_thread.run_sync(context.run, sniffio.current_async_library)
        assert sniffio.current_async_library() == backend

    anyio.run(scenario, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_function_that_is_cancelled_by_itself_ends_there(backend: str) -> None:
    steps: list[object] = []

    async def scenario() -> None:
        async def run(cancel: Callable[[], object], task: object, ends_here: bool) -> None:
            assert task is current_task()
            assert ends_here is (backend == "asyncio")
            cancel()
            try:
                await anyio.sleep(patience(20))
            except BaseException as error:
                steps.append(type(error).__name__)
                if not ends_here:
                    raise
                asyncio.current_task().uncancel()  # type: ignore[union-attr]

        await run_cancellable(run)
        await anyio.sleep(0)
        steps.append("after")

    anyio.run(scenario, backend=backend)
    assert steps == ["CancelledError" if backend == "asyncio" else "Cancelled", "after"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tasks_have_a_name_that_tells_whose_they_are(backend: str) -> None:
    names: list[str] = []

    async def scenario() -> None:
        came = anyio.Event()

        async def work() -> None:
            names.append(anyio.get_current_task().name or "")
            if len(names) == 3:
                came.set()

        Loop().spawn(work, contextvars.copy_context())
        Loop().spawn(work, contextvars.copy_context(), name="one of mine")
        Loop().spawn(work, contextvars.copy_context(), name="an eager one", eager=True)
        with anyio.fail_after(patience(20)):
            await came.wait()

    anyio.run(scenario, backend=backend)
    assert sorted(names) == ["an eager one", "hackamore session", "one of mine"]


@pytest.mark.parametrize("eager", [False, True])
def test_a_task_to_which_nobody_refers_goes_on(eager: bool) -> None:
    """asyncio itself would lose one that waits for something that only the task knows."""
    waits: list[weakref.ref[asyncio.Future[None]]] = []
    steps: list[str] = []

    async def work() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waits.append(weakref.ref(future))
        await future
        steps.append("went on")

    async def scenario() -> None:
        Loop().spawn(work, contextvars.copy_context(), lambda: steps.append("done"), eager=eager)
        await Loop().turn()
        gc.collect()
        future = waits[0]()
        assert future is not None
        future.set_result(None)
        del future
        async with asyncio.timeout(patience(20)):
            while len(steps) < 2:
                await Loop().turn()

    asyncio.run(scenario())
    assert steps == ["went on", "done"]


def test_a_task_that_is_cancelled_before_its_first_step_is_reported_as_done() -> None:
    ended: list[str] = []

    async def work() -> None:
        raise AssertionError

    async def scenario() -> None:
        here = asyncio.current_task()
        Loop().spawn(work, contextvars.copy_context(), lambda: ended.append("done"))
        (task,) = asyncio.all_tasks() - {here}
        task.cancel()
        async with asyncio.timeout(patience(20)):
            while not ended:
                await Loop().turn()

    asyncio.run(scenario())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_ctrl_c_of_a_task_ends_the_program_in_the_main_thread_alone(backend: str) -> None:
    error = KeyboardInterrupt("of a task")
    signals: list[int] = []

    async def scenario() -> None:
        end_program(error)

    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        thread = threading.Thread(target=anyio.run, args=(scenario,), kwargs={"backend": backend})
        thread.start()
        thread.join(patience(20))
        assert signals == []
        if backend == "asyncio":
            with pytest.raises(KeyboardInterrupt) as caught:
                anyio.run(scenario, backend=backend)
            assert caught.value is error
            assert signals == []
        else:
            anyio.run(scenario, backend=backend)
            assert signals == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_descriptor_whose_waiter_has_its_answer_is_not_asked_again() -> None:
    """Two triggers may be ready in one round of the event loop: the second must neither fail nor be lost."""
    reading, writing = os.pipe()
    calls: list[bytes] = []

    def read() -> list[bytes]:
        calls.append(os.read(reading, 1))
        return calls

    async def scenario() -> None:
        waiting = asyncio.ensure_future(call_when_readable(reading, read))
        await asyncio.sleep(0)
        os.write(writing, b"ab")
        assert await asyncio.wait_for(waiting, patience(20)) == [b"a"]
        await asyncio.sleep(0)
        assert os.read(reading, 10) == b"b"

    asyncio.run(scenario())
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_is_one_round_of_the_event_loop(backend: str) -> None:
    rounds: list[int] = []

    async def count(over: anyio.CancelScope) -> None:
        with over:
            while True:
                rounds.append(1)
                await anyio.lowlevel.checkpoint()

    async def scenario() -> None:
        over = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(count, over)
            await Loop().turn()
            assert len(rounds) <= 2
            await Loop().turn()
            assert rounds
            over.cancel()

    anyio.run(scenario, backend=backend)


def test_a_task_that_has_ended_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        return None

    async def scenario() -> weakref.ref[asyncio.Task[None]]:
        ended: list[str] = []
        here = asyncio.current_task()
        Loop().spawn(work, contextvars.copy_context(), lambda: ended.append("done"))
        (task,) = asyncio.all_tasks() - {here}
        async with asyncio.timeout(patience(20)):
            while not ended:
                await Loop().turn()
        return weakref.ref(task)

    kept = asyncio.run(scenario())
    gc.collect()
    assert kept() is None
    assert caplog.records == []
