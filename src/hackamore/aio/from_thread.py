"""A session of an event loop as plain callbacks see it: they run in threads, where its methods must not be called directly.

There `context.session` has the same names. Calls run in the event loop, and block in the thread where the loop awaits.
"""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

from hackamore._engine.session.core import SessionBase
from hackamore.errors import SessionClosedError
from hackamore.runtime.event_loops import context_for_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.aio.driver import Driver
    from hackamore.runtime.event_loops import Loop

_LOOK_SECONDS = 1.0
"""How often a waiting thread checks that the event loop still runs."""


class SessionReach:
    """Finds a session for a callback without keeping it alive: the session in its event loop, a `FromThread` elsewhere.

    Args:
        session: returns the session; None once it is gone.
        driver: returns its driver; None before its launch.
    """

    def __init__(self, session: Callable[[], Any], driver: Callable[[], Driver | None]) -> None:
        self._session = session
        self._driver = driver

    def __call__(self) -> Any:
        """Return the session in the form for this thread."""
        session, driver = self._session(), self._driver()
        if session is None or driver is None or driver.is_here:
            return session
        return FromThread(self._session, driver.loop)


class FromThread:
    """A session, a turn or a cursor for another thread than that of its event loop: calls block.

    Args:
        find: returns the object; None once it is gone.
    """

    __slots__ = ("_find", "_loop")

    def __init__(self, find: Callable[[], Any], loop: Loop) -> None:
        self._find = find
        self._loop = loop

    def _target(self) -> Any:
        target = self._find()
        if target is None:
            raise SessionClosedError(expected=True, reason="the session is no longer referenced")
        return target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if inspect.isroutine(getattr(type(self._target()), name, None)):

            def method(*arguments: Any, **more: Any) -> Any:
                return self._run(lambda: getattr(self._target(), name)(*arguments, **more))

            method.__name__ = name
            return method
        return self._run(lambda: getattr(self._target(), name))

    def __iter__(self) -> FromThread:
        self._run(lambda: self._target().__aiter__())
        return self

    def __next__(self) -> Any:
        try:
            return self._run(lambda: self._target().__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __eq__(self, other: object) -> bool:
        target = self._find()
        return target is not None and target is (other._find() if isinstance(other, FromThread) else other)

    def __hash__(self) -> int:
        return hash(self._find())

    def __repr__(self) -> str:
        return f"<{self._find()!r} of an event loop, from a thread>"

    def _run(self, function: Callable[[], Any]) -> Any:
        value = run_in(self._loop, function)
        if isinstance(value, SessionBase) or hasattr(value, "__anext__"):
            return FromThread(lambda: value, self._loop)
        return value


def run_in(loop: Loop, function: Callable[[], Any]) -> Any:
    """Call a function in an event loop, await its value if possible, and return or raise the outcome here."""
    done = threading.Event()
    values: list[Any] = []
    errors: list[BaseException] = []

    async def call() -> None:
        try:
            value = function()
            values.append(await value if inspect.isawaitable(value) else value)
        except Exception as error:
            errors.append(error)
        except BaseException:
            errors.append(SessionClosedError(expected=False, reason="its event loop has ended"))
            raise
        finally:
            done.set()

    context = context_for_thread()
    there = loop.post(lambda: loop.spawn(call, context))
    while not there or not done.wait(_LOOK_SECONDS):
        if not there or not loop.post(_nothing):
            raise SessionClosedError(expected=False, reason="its event loop has ended")
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # an error and the frame that raises it must not keep each other alive
    return values[0]


def _nothing() -> None:
    """Do nothing: posted to find out whether the loop runs."""
