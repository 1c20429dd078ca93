"""Blocking work off the event loop, in a thread that ends with it.

Not anyio's worker threads: they are pooled, limited in number by whoever else uses them, and hold on to the task that started them
(and so to its exception, and so to a stream that should be collected) for as long as they idle.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from bridle.waiting.event_loops import context_for_thread
from bridle.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Call"]

T = TypeVar("T")


class _Work:
    """One call in a thread, and what came of it."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function
        self.value: object = None
        self.error: BaseException | None = None
        self.wakeup = Wakeup()
        self.lock = threading.RLock()  # a garbage collection inside of it may drop the call
        self.done = False
        self.left = False

    def run(self) -> None:
        """Make the call, in the thread."""
        assert self.function is not None  # noqa: S101
        try:
            self.value = self.function()
        except BaseException as error:
            self.error = error
        self.function = None
        with self.lock:
            self.done = True
            self.wakeup.set()
            if self.left:
                self.wakeup.close()

    def leave(self) -> None:
        """Stop waiting: whoever is last closes the descriptor."""
        with self.lock:
            self.left = True
            if self.done:
                self.wakeup.close()


class Call(Generic[T]):
    """A call in a thread of its own, with the caller's context variables. Waiting for it may be cancelled and taken up again."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._work = _Work(function)
        context = context_for_thread()
        try:
            threading.Thread(target=context.run, args=(self._work.run,), name="bridle-start", daemon=True).start()
        except BaseException:
            self._work.wakeup.close()
            raise

    async def wait(self) -> T:
        """Return what it returns, once.

        Raises:
            BaseException: what it raises.
        """
        work = self._work
        while not work.done:
            await anyio.wait_readable(work.wakeup.fileno())
        work.leave()
        if work.error is not None:
            try:
                raise work.error
            finally:
                work.error = None  # an error and the frame that raises it must not keep each other alive
        return work.value  # type: ignore[return-value]

    def leave(self) -> None:
        """Take that nobody waits for it any more; it goes on, and what comes of it is nobody's."""
        self._work.leave()

    def __del__(self) -> None:
        work = getattr(self, "_work", None)
        if work is not None:
            work.leave()
