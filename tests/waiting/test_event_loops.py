"""The event loop that runs: asyncio's, while trio is being imported by another thread."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from types import ModuleType

import pytest

from bridle.waiting.event_loops import Loop


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
