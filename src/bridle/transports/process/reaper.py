"""One thread that ends children: the only place where a child's end is awaited.

It exists only while there are children. Whoever wants a child gone hands it over and waits, or does not: a cancelled task, a
garbage collector and a dying interpreter all get the same sequence to the same end. While a child is being stopped its output is read
and thrown away, so that it cannot hang in a write.
"""

from __future__ import annotations

import atexit
import logging
import os
import selectors
import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from bridle.transports.process.shutdown import REAP_SECONDS, Stoppable, stop_sequence
from bridle.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["EXIT_SECONDS", "Mortal", "Reaper", "reaper"]

logger = logging.getLogger("bridle")

EXIT_SECONDS = 2.0
"""What the end of the interpreter may cost, all children together."""
_EXIT_KILL_GRACE = 1.5
_LAST_MOMENT_SECONDS = 0.2
_POLL_SECONDS = 0.02
"""Where the operating system cannot tell when a process ends, this often it is asked."""


class Mortal(Stoppable, Protocol):
    """A child as the reaper sees it."""

    stop_grace: float
    kill_grace: float
    exit_descriptor: int | None
    done: threading.Event

    def poll_exit(self) -> bool:
        """Look whether it has exited, and reap it."""

    def descriptors(self) -> list[int]:
        """Return its exit and its output."""

    def discard_output(self) -> bool:
        """Throw away what is on stdout; False at its end."""

    def stop(self, *, turn_open: bool) -> None:
        """Hand it to the reaper."""

    def kill_now(self) -> None:
        """Kill it and all that it started."""

    def dispose(self) -> None:
        """Give everything back."""

    def finish(self) -> None:
        """Set `done`."""

    def disown(self) -> None:
        """Forget it, in a forked copy of the host."""


class _Job:
    """A child on its way out."""

    __slots__ = ("child", "deadline", "failed", "polled", "steps")

    def __init__(self, child: Mortal, steps: Generator[float, bool, None]) -> None:
        self.child = child
        self.steps = steps
        self.deadline = 0.0
        self.polled = child.exit_descriptor is None
        self.failed = False

    def advance(self, now: float, *, first: bool = False) -> bool:
        """Take the next step; False when there is none."""
        try:
            self.deadline = now + (next(self.steps) if first else self.steps.send(self.child.exited))
        except StopIteration:
            return False
        except Exception:
            logger.exception("a step of stopping process %d failed", self.child.pid)
            if self.failed:
                return False
            self.failed = True
            self.steps = _last_resort(self.child)
            return self.advance(now, first=True)
        return True


def _last_resort(child: Mortal) -> Generator[float, bool, None]:
    child.signal(signal.SIGKILL, group=True)
    child.signal(signal.SIGKILL)
    if not child.exited:
        yield REAP_SECONDS


class Reaper:
    """Ends children. Safe from any thread.

    `submit` takes no lock and starts no thread, because garbage collection calls it at any moment, also while this or another module
    holds a lock in the same thread. So the thread is started when a child is registered, and stays while there is one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrivals: deque[_Job] = deque()
        self._live: set[Mortal] = set()
        self._wakeup: Wakeup | None = None
        self._closing_down = False

    def register(self, child: Mortal) -> None:
        """Take note of a child that was started: from now on it can be handed over."""
        with self._lock:
            if self._wakeup is None:
                self._launch()
            self._live.add(child)

    def forget(self, child: Mortal) -> None:
        """Drop a child whose start failed."""
        with self._lock:
            self._live.discard(child)
            if self._wakeup is not None:
                self._wakeup.set()

    @property
    def count(self) -> int:
        """How many children there are."""
        return len(self._live)

    def _launch(self) -> None:
        """Start the thread. Everything it needs is acquired here, where a failure is the caller's and not the thread's."""
        wakeup = Wakeup()
        thread: threading.Thread | None = None
        selector: selectors.BaseSelector | None = None
        try:
            selector = selectors.DefaultSelector()
            selector.register(wakeup.fileno(), selectors.EVENT_READ)
            thread = threading.Thread(target=self._run, args=(wakeup, selector), name="bridle-reaper", daemon=True)
            self._wakeup = wakeup
            thread.start()
        except BaseException:
            if thread is None or thread.ident is None:  # else it runs, finds nothing to do, and leaves
                self._wakeup = None
                if selector is not None:
                    selector.close()
                wakeup.close()
            raise

    def submit(self, child: Mortal, *, turn_open: bool) -> None:
        """Take a child over and end it; `child.done` tells when it is gone and reaped."""
        steps = stop_sequence(
            child,
            turn_open=turn_open,
            stop_grace=0.0 if self._closing_down else child.stop_grace,
            kill_grace=_EXIT_KILL_GRACE if self._closing_down else child.kill_grace,
        )
        self._arrivals.append(_Job(child, steps))
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup.set()

    def _run(self, wakeup: Wakeup, selector: selectors.BaseSelector) -> None:
        jobs: list[_Job] = []
        try:
            while not self._leave_if_idle():
                try:
                    self._wait(jobs, selector, wakeup)
                    jobs += self._arrived(selector)
                    now = time.monotonic()
                    jobs = [job for job in jobs if self._still_busy(job, selector, now)]
                except Exception:
                    # This thread must not die while there are children: nobody else would end them.
                    logger.exception("the reaper met something unexpected and goes on")
                    time.sleep(_POLL_SECONDS)
        finally:
            selector.close()
            wakeup.close()

    def _arrived(self, selector: selectors.BaseSelector) -> list[_Job]:
        jobs: list[_Job] = []
        now = time.monotonic()
        while self._arrivals:
            job = self._arrivals.popleft()
            job.child.poll_exit()
            if job.advance(now, first=True):
                for descriptor in job.child.descriptors():
                    try:
                        selector.register(descriptor, selectors.EVENT_READ, job)
                    except (OSError, KeyError, ValueError):
                        # No memory, or closed under our hands: this one is polled, and the thread lives on for all others.
                        job.polled = True
                jobs.append(job)
            else:
                self._finish(job)
        return jobs

    def _still_busy(self, job: _Job, selector: selectors.BaseSelector, now: float) -> bool:
        job.child.poll_exit()
        if job.polled:
            job.child.discard_output()
        # After SIGKILL nothing is left to be tried: a sequence that ends without an exit ends all the same.
        while job.child.exited or now >= job.deadline:
            if not job.advance(now):
                for key in [key for key in selector.get_map().values() if key.data is job]:
                    selector.unregister(key.fileobj)
                self._finish(job)
                return False
        return True

    def _finish(self, job: _Job) -> None:
        try:
            job.child.dispose()
        except Exception:
            logger.exception("giving back what belonged to process %d failed", job.child.pid)
        finally:
            self._live.discard(job.child)
            job.child.finish()

    def _leave_if_idle(self) -> bool:
        with self._lock:
            if self._live:
                return False
            self._wakeup = None
            return True

    def _wait(self, jobs: list[_Job], selector: selectors.BaseSelector, wakeup: Wakeup) -> None:
        timeout = max(0.0, min(job.deadline for job in jobs) - time.monotonic()) if jobs else None
        if any(job.polled for job in jobs):
            timeout = min(timeout or 0.0, _POLL_SECONDS)
        for key, _ in selector.select(timeout):
            if key.data is None:
                wakeup.clear()
                continue
            job: _Job = key.data
            if key.fileobj == job.child.exit_descriptor:
                if not job.child.poll_exit():
                    continue
                selector.unregister(key.fileobj)
            elif not job.child.discard_output():
                selector.unregister(key.fileobj)

    def at_exit(self) -> None:
        """Stop all children in parallel, within `EXIT_SECONDS`: called when the interpreter ends."""
        self._closing_down = True
        until = time.monotonic() + EXIT_SECONDS
        children = list(self._live)
        for child in children:
            child.stop(turn_open=True)
        late = [child for child in children if not child.done.wait(max(0.0, until - time.monotonic()))]
        for child in late:
            child.kill_now()
        for child in late:
            child.done.wait(_LAST_MOMENT_SECONDS)

    def after_fork(self) -> None:
        """Forget everything in a forked copy: the children belong to the parent."""
        live = self._live
        self.__init__()  # type: ignore[misc]
        for child in live:
            child.disown()


reaper = Reaper()
atexit.register(reaper.at_exit)
os.register_at_fork(after_in_child=reaper.after_fork)
