"""One list of scenarios for three shells: a test is written once, as a coroutine, and run on asyncio, trio and no event loop.

For the blocking shell the methods of a stream are wrapped in coroutines that never wait, and driven by hand.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Literal

import hackamore
from hackamore import sync
from tests.support.patience import patience

Backend = Literal["asyncio", "trio", "threads"]


class Shell:
    """A way of waiting, and the library as it looks there."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def blocking(self) -> bool:
        return self.backend == "threads"

    def query(self, prompt: Any, options: hackamore.Options | None = None, **more: Any) -> Stream:
        return Stream(
            sync.query(prompt, options, **more) if self.blocking else hackamore.query(prompt, options, **more)
        )

    async def run(self, prompt: Any, options: hackamore.Options | None = None, **more: Any) -> hackamore.RunResult[Any]:
        if self.blocking:
            answer: hackamore.RunResult[Any] = sync.run(prompt, options, **more)
        else:
            answer = await hackamore.run(prompt, options, **more)
        return answer

    def map(self, prompts: Any, options: hackamore.Options | None = None, **more: Any) -> Stream:
        return Stream(sync.map(prompts, options, **more) if self.blocking else hackamore.map(prompts, options, **more))

    async def let_others_run(self) -> None:
        if self.blocking:
            threading.Event().wait(0.001)
        else:
            import anyio.lowlevel

            await anyio.lowlevel.checkpoint()

    async def meanwhile(
        self, action: Callable[[], Awaitable[Any]], other: Callable[[], Awaitable[Any]]
    ) -> tuple[Any, Any]:
        """Run two coroutine functions at the same time; return what they returned or raised."""
        outcomes: list[Any] = [None, None]

        async def keep(place: int, function: Callable[[], Awaitable[Any]]) -> None:
            try:
                outcomes[place] = await function()
            except Exception as error:
                outcomes[place] = error

        if self.blocking:
            thread = threading.Thread(target=lambda: drive(keep(0, action)))
            thread.start()
            drive(keep(1, other))
            thread.join(patience(30))
            assert not thread.is_alive()
        else:
            import anyio

            async with anyio.create_task_group() as group:
                group.start_soon(keep, 0, action)
                group.start_soon(keep, 1, other)
        return outcomes[0], outcomes[1]

    def play(self, scenario: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        if self.blocking:
            drive(scenario(*arguments))
        else:
            import anyio

            anyio.run(scenario, *arguments, backend=self.backend)


class Stream:
    """A query stream of either shell, with the async names."""

    def __init__(self, stream: Any) -> None:
        self.wrapped = stream
        self._blocking = isinstance(stream, (sync.QueryStream, sync.MapStream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    async def _call(self, name: str, *arguments: Any) -> Any:
        outcome = getattr(self.wrapped, name)(*arguments)
        return outcome if self._blocking else await outcome

    async def start(self) -> None:
        await self._call("start")

    async def next_item(self) -> Any:
        return await self._call("next_item")

    async def collect(self) -> hackamore.CollectResult:
        collected: hackamore.CollectResult = await self._call("collect")
        return collected

    async def result(self) -> Any:
        return await self._call("result")

    async def fold(self, initial: Any, combine: Callable[[Any, Any], Any]) -> Any:
        return await self._call("fold", initial, combine)

    async def close(self) -> None:
        await self._call("close" if self._blocking else "aclose")

    async def __aenter__(self) -> Stream:
        await self._call("__enter__" if self._blocking else "__aenter__")
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._call("__exit__" if self._blocking else "__aexit__", *details)

    async def items(self) -> AsyncIterator[Any]:
        if self._blocking:
            for item in self.wrapped.items():
                yield item
        else:
            async for item in self.wrapped.items():
                yield item

    def __aiter__(self) -> AsyncIterator[Any]:
        return _Steps(self.wrapped) if self._blocking else self.wrapped


class _Steps:
    """A blocking iterator with the async names."""

    def __init__(self, steps: Any) -> None:
        self._steps = steps

    def __aiter__(self) -> _Steps:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._steps)
        except StopIteration:
            raise StopAsyncIteration from None


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise AssertionError("the blocking shell waited for an event loop")
