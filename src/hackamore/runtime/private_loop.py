"""One event loop of asyncio for the async session stores of blocking programs.

A client of a database belongs to the loop in which it was first used. So all calls of stores run in the same loop, in a thread of its own,
for as long as the program runs.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine


class _Loop:
    """The loop, started with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def running(self) -> asyncio.AbstractEventLoop:
        """Return the loop; raise RuntimeError if no thread is available."""
        import asyncio

        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                try:
                    threading.Thread(target=loop.run_forever, name="hackamore-stores", daemon=True).start()
                except BaseException:
                    loop.close()
                    raise
                self._loop = loop
            return self._loop

    def forget(self) -> None:
        """Let go of the loop in a forked copy, where its thread is not."""
        self._lock = threading.Lock()
        self._loop = None


_loop = _Loop()
os.register_at_fork(after_in_child=_loop.forget)


def run(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, seconds: float | None = None) -> Any:
    """Call an async function in the loop and return its result; after `seconds`, if given, it is cancelled, with a TimeoutError."""
    import asyncio

    async def call() -> tuple[Any, BaseException | None]:
        try:
            async with asyncio.timeout(seconds):
                return await function(*arguments), None
        except (
            SystemExit,
            KeyboardInterrupt,
        ) as error:  # asyncio would end the loop, and every later call would wait for ever
            return None, error

    outcome, error = asyncio.run_coroutine_threadsafe(call(), _loop.running()).result()
    if error is not None:
        raise error
    return outcome
