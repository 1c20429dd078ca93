"""Nothing may be left behind: processes, threads, tasks, descriptors.

::

    with no_leaks():
        main()

The pytest plugin puts this around tests (`hackamore_leak_check`). Linux sees everything; elsewhere descriptors are seen through `/dev/fd`,
and a process that made itself a daemon is seen nowhere.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from sys import _current_frames  # documented, in spite of its name
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

DEFAULT_SECONDS = 2.0
"""Seconds for things that end without help; the wait happens only if something is left."""
LEFT_ADVICE = (
    "Leave sessions and streams by `async with` or `with`, join threads, wait for tasks, close files. Name things that are "
    "meant to stay with `hackamore_leak_check.allow(...)`, or make them in a fixture of a wider scope."
)
_LOOK_SECONDS = 0.01
# Pools that belong to an event loop and are used again, and threads that watch the test itself.
_POOLED_THREADS = ("AnyIO worker thread", "Trio thread", "asyncio_", "pytest_timeout", "pydevd.")
# Helpers of the standard library that live as long as the program, by design.
_SERVANTS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_SHOWN_ARGUMENTS = 6


class Leak(NamedTuple):
    """One thing that was left.

    Attributes:
        kind: `process`, `thread`, `task` or `descriptor`.
        key: an object that identifies it among others of its kind.
        name: a description for people.
    """

    kind: str
    key: object
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class LeakError(AssertionError):
    """Something was left behind.

    Args:
        where: the test or block that left something.

    Attributes:
        leaks: the things that were left.
    """

    def __init__(self, leaks: Iterable[Leak], where: str = "The block") -> None:
        self.leaks: tuple[Leak, ...] = tuple(leaks)
        lines = "\n".join(f"  {leak}" for leak in self.leaks)
        super().__init__(f"{where} left {len(self.leaks)} thing(s) behind:\n{lines}\n{LEFT_ADVICE}")


class Snapshot:
    """The processes, threads and descriptors of this program now, as `there`."""

    def __init__(self) -> None:
        self.there: set[tuple[str, object]] = {(leak.kind, leak.key) for leak in _everything()}

    def left(
        self, seconds: float = DEFAULT_SECONDS, allowed: Callable[[Leak], bool] = lambda leak: False
    ) -> list[Leak]:
        """Return what came since and stays, `seconds` later at the most.

        Args:
            seconds: how long to wait for what ends by itself.
            allowed: says what may stay.
        """
        until = time.monotonic() + seconds
        collected = False
        while True:
            _retire_helpers()
            left = [leak for leak in _everything() if (leak.kind, leak.key) not in self.there and not allowed(leak)]
            if not left:
                return []
            if not collected:
                collected = True
                gc.collect()  # a file in a reference cycle is not a leak: the collector closes it
                continue
            if time.monotonic() >= until:
                return left
            _wait_for(left)

    def add_since(self, before: Snapshot) -> None:
        """Add what is there now and was not `before`."""
        self.there |= Snapshot().there - before.there


def _retire_helpers() -> None:
    """End what Hackamore keeps for the next CLI, if there is none now: it would end by itself, but tests would wait for that."""
    module = sys.modules.get("hackamore.transports.process.reaper")
    if module is not None:
        module.reaper.retire()


def _wait_for(left: list[Leak]) -> None:
    for leak in left:
        if isinstance(leak.key, threading.Thread) and leak.key is not threading.current_thread():
            leak.key.join(_LOOK_SECONDS)
            return
    time.sleep(_LOOK_SECONDS)


def _everything() -> list[Leak]:
    return [*_processes(), *_threads(), *_descriptors()]


def _processes() -> Iterable[Leak]:
    from hackamore.transports.process.processes import descendants

    watching = getattr(getattr(sys.modules.get("hackamore.transports.process.watchdog"), "watchdog", None), "pid", None)
    for who in descendants(os.getpid()):
        command = _command(who[0])
        if who[0] != watching and not any(servant in part for servant in _SERVANTS for part in command):
            yield Leak("process", who, f"{who[0]}: {_shown(command) or 'its command cannot be read'}")


def _command(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return []


def _shown(command: list[str]) -> str:
    """Return a command without the values of its arguments: prompts and secrets may be among them."""
    from hackamore.errors import escape_terminal

    program, *arguments = command or [""]
    telling = [part.partition("=")[0] for part in arguments if part.startswith("-") or os.path.isfile(part)]
    shown = telling[:_SHOWN_ARGUMENTS]
    hidden = [f"(and {len(arguments) - len(shown)} more)"] if len(arguments) > len(shown) else []
    return escape_terminal(" ".join([os.path.basename(program), *shown, *hidden]), 300)


def _threads() -> Iterable[Leak]:
    for thread in threading.enumerate():
        if not thread.name.startswith(_POOLED_THREADS) and thread.is_alive():
            daemon = ", a daemon" if thread.daemon else ""
            # The thread itself: its number is given to another one as soon as it has ended.
            yield Leak("thread", thread, f"{thread.name!r}{daemon}{_target(thread)}")


def _target(thread: threading.Thread) -> str:
    """Return what a thread runs just now, in the outermost function that is not of `threading`."""
    frame = _current_frames().get(thread.ident or 0)
    outermost = None
    while frame is not None:
        if frame.f_code.co_filename != threading.__file__:
            outermost = frame
        frame = frame.f_back
    return f", in {outermost.f_code.co_qualname} ({_place(outermost.f_code)})" if outermost is not None else ""


def _place(code: Any) -> str:
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def _descriptors() -> Iterable[Leak]:
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}") if folder.startswith("/proc") else str(os.fstat(int(name)).st_ino)
        except (OSError, ValueError):
            continue  # the one that read the folder
        yield Leak("descriptor", (name, target), f"{name}: {target}")


class TaskWatch:
    """The tasks of the running event loop; made and called inside it."""

    def __init__(self) -> None:
        self._there = {key for key, _ in _tasks()}
        self._nurseries = _open_nurseries()

    def owner(self, task: Any) -> Any:
        """Return which task, of those that were there before, has the task group or nursery of this one open; None if none has."""
        if hasattr(task, "parent_nursery"):
            nursery = task.parent_nursery
            while nursery is not None and nursery not in self._nurseries:
                nursery = nursery.parent_task.parent_nursery
            return None if nursery is None else nursery.parent_task
        import anyio

        parent = next((known.parent_id for known in anyio.get_running_tasks() if known.id == id(task)), None)
        return next((other for other in self._there if id(other) == parent), None)

    def in_own_groups(self) -> list[Leak]:
        """Return the tasks of asyncio that came since, in task groups of the task that asks: of its fixtures, or never left."""
        import asyncio

        in_trio_run = getattr(getattr(sys.modules.get("trio"), "lowlevel", None), "in_trio_run", None)
        if in_trio_run is not None and in_trio_run():
            return []  # trio leaves no nursery open
        asking = asyncio.current_task()
        return [
            Leak("task", task, name)
            for task, name in _tasks()
            if task not in self._there and self.owner(task) is asking
        ]

    async def left(
        self, seconds: float = DEFAULT_SECONDS, allowed: Callable[[Leak], bool] = lambda leak: False
    ) -> list[Leak]:
        """Return the tasks that came since and have not ended, `seconds` later at the most."""
        import anyio
        import anyio.lowlevel

        until = time.monotonic() + seconds
        await anyio.lowlevel.checkpoint()
        while True:
            found = [Leak("task", key, name) for key, name in _tasks() if key not in self._there]
            left = [leak for leak in found if not allowed(leak)]
            if not left or time.monotonic() >= until:
                return left
            await anyio.sleep(_LOOK_SECONDS)


def _tasks() -> list[tuple[object, str]]:
    if "trio" in sys.modules:
        import trio

        if trio.lowlevel.in_trio_run():
            return [(task, f"{task.name!r} of trio") for task in _trio_tasks(trio.lowlevel.current_root_task())]
    if "asyncio" in sys.modules:
        import asyncio

        try:
            tasks = asyncio.all_tasks()
        except RuntimeError:  # no event loop runs here
            return []
        return [(task, _asyncio_name(task)) for task in tasks]
    return []


def _trio_tasks(root: Any) -> Iterable[Any]:
    waiting = [root]
    while waiting:
        task = waiting.pop()
        if task is None:
            continue
        for nursery in task.child_nurseries:
            waiting += nursery.child_tasks
        if not task.name.startswith("trio._"):  # its own helpers
            yield task


def _open_nurseries() -> set[Any]:
    if "trio" not in sys.modules:
        return set()
    import trio

    if not trio.lowlevel.in_trio_run():
        return set()
    root = trio.lowlevel.current_root_task()
    return {nursery for task in _trio_tasks(root) if task is not root for nursery in task.child_nurseries}


def _asyncio_name(task: Any) -> str:
    coroutine = task.get_coro()
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    running = f", in {code.co_qualname} ({_place(code)})" if code is not None else ""
    return f"{task.get_name()!r} of asyncio{running}"


async def left_beside(before: Snapshot, seconds: float) -> list[Leak]:
    """Return what `before.left` returns, while the event loop keeps running: some things need it to end."""
    import anyio

    until = time.monotonic() + seconds
    while (left := before.left(0)) and time.monotonic() < until:  # noqa: ASYNC110 - there is no event to wait for
        await anyio.sleep(_LOOK_SECONDS)
    return left


class no_leaks:  # noqa: N801 - used like a function
    """A context manager that raises `LeakError` if its block leaves a process, a thread or a descriptor; `async with`: or a task.

    An exception that leaves the block is not replaced, only noted on.

    Args:
        seconds: how long what ends by itself may take.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self._seconds = seconds
        self._before: Snapshot | None = None
        self._tasks: TaskWatch | None = None

    def __enter__(self) -> Self:
        self._before = Snapshot()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._before is not None  # noqa: S101 - entered
        self._tell(self._before.left(self._seconds), error)

    async def __aenter__(self) -> Self:
        self._before = Snapshot()
        self._tasks = TaskWatch()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._before is not None  # noqa: S101 - entered
        assert self._tasks is not None  # noqa: S101 - entered
        left = await self._tasks.left(self._seconds)
        left += await left_beside(self._before, self._seconds)
        self._tell(left, error)

    def _tell(self, left: list[Leak], error: BaseException | None) -> None:
        if left and error is None:
            raise LeakError(left)
        if left and error is not None:
            error.add_note(str(LeakError(left)))
