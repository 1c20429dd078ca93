"""Sessions of both shells, for one list of scenarios: `await got(...)` and `each(...)` take what either of them returns."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from hackamore._engine.protocol.states.session import SessionState
from hackamore.aio.session import Session as AsyncSession
from hackamore.messages import AssistantMessage, TextBlock
from hackamore.sync.session import Session as SyncSession
from tests.support.patience import patience

if TYPE_CHECKING:
    from hackamore import Options
    from tests.support.shell import Shell


def make(shell: Shell, options: Options) -> Any:
    return SyncSession(options) if shell.blocking else AsyncSession(options)


def make_over(shell: Shell, options: Options, transport: Any) -> Any:
    return (SyncSession if shell.blocking else AsyncSession)(options, transport=transport)


async def got(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def each(source: Any) -> AsyncIterator[Any]:
    if hasattr(source, "__aiter__"):
        async for item in source:
            yield item
    else:
        for item in source:
            yield item


async def first(source: Any) -> Any:
    """The next item. The source can be gone on with."""
    if hasattr(source, "__anext__"):
        return await source.__anext__()
    return next(iter(source))


async def until(shell: Shell, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + patience(30)
    while not condition():
        assert time.monotonic() < end
        await shell.let_others_run()


class Running:
    """A session for the length of a block."""

    def __init__(self, shell: Shell, options: Options) -> None:
        self.session = make(shell, options)

    async def __aenter__(self) -> Any:
        await got(self.session.start())
        return self.session

    async def __aexit__(self, *_: object) -> None:
        await got(self.session.stop())


class Held:
    """A session, pool or check-out of either shell for the length of a block."""

    def __init__(self, entered: Any) -> None:
        self._entered = entered
        self._blocking = type(entered).__module__.startswith("hackamore.sync")

    async def __aenter__(self) -> Any:
        return self._entered.__enter__() if self._blocking else await self._entered.__aenter__()

    async def __aexit__(self, *details: Any) -> None:
        if self._blocking:
            self._entered.__exit__(*details)
        else:
            await self._entered.__aexit__(*details)


def steps(*steps: list[Any]) -> str:
    """A prompt that the stand-in plays."""
    return json.dumps(steps, separators=(",", ":"))


async def texts(turn: Any) -> list[str]:
    return said([message async for message in each(turn)])


def said(messages: list[Any]) -> list[str]:
    """The texts of the model in messages."""
    return [
        block.text
        for message in messages
        if isinstance(message, AssistantMessage)
        for block in message.content
        if isinstance(block, TextBlock)
    ]


async def early(shell: Shell, session: Any, action: Callable[[], Any]) -> tuple[Any, Any]:
    """Start a session and do something while it is being started; return what came of both."""

    async def meanwhile() -> Any:
        await until(shell, lambda: session.state is not SessionState.NEW)
        return await got(action())

    return await shell.meanwhile(lambda: got(session.start()), meanwhile)


async def ask(session: Any, subtype: str, **fields: Any) -> Any:
    """Let the stand-in ask something of us; return what it got."""
    turn = await got(session.send(steps(["ask", subtype, fields])))
    [answer] = await texts(turn)
    return json.loads(answer)


async def raised(value: Any, kind: type[BaseException]) -> Any:
    try:
        await got(value())
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")
