"""How a child is stopped: the sequence of steps, and the one thread that takes them, awaits the end of children and drains their stderr.

The thread exists while there are children and `LINGER_SECONDS` longer, because starting it and the watchdog costs more than a short query.
When it ends it retires the watchdog. A caller hands a child over, and may wait for its end. A cancelled task, the garbage collector and
the end of the interpreter use the same sequence. While a child is being stopped its output is read and thrown away, so that it cannot
hang in a write. A child that has exited, with no turn open, is finished by the caller itself: no other thread has to wake up for it.

`stop_sequence` decides and never waits: it yields for how many seconds at most the exit is to be awaited, and is sent whether the child
has exited. Every ending (close, cancellation, garbage collection, interpreter exit) takes the same steps.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hackamore.runtime.log import logger
from hackamore.runtime.threads import Wakeup, starters
from hackamore.transports.process.processes import Identity, descendants, identity, kill_identity, marked_with
from hackamore.transports.process.watchdog import watchdog

if TYPE_CHECKING:
    from collections.abc import Generator

REAP_SECONDS = 5.0
"""After SIGKILL the kernel needs moments; a process in an uninterruptible wait may need longer, and cannot be helped."""


class Mortal(Protocol):
    """A child as the reaper and the stop sequence see it."""

    child_id: str
    pid: int
    stop_grace: float
    kill_grace: float
    exit_descriptor: int | None
    done: threading.Event

    @property
    def exited(self) -> bool:
        """True once its exit status is known."""

    def poll_exit(self) -> bool:
        """Look whether it has exited, and reap it."""

    def close_input(self) -> None:
        """Close its stdin."""

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to it alone, or to its process group."""

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


def stop_sequence(
    child: Mortal, *, turn_open: bool, stop_grace: float, kill_grace: float
) -> Generator[float, bool, None]:
    """Stop `child`: yields how long to wait for its exit at most, and is sent True as soon as it has exited.

    Args:
        turn_open: True if the model may be at work: then nothing is waited for before SIGTERM, and nothing that it started survives.
        stop_grace: seconds for an exit by itself after its input was closed (its transcript is written then).
        kill_grace: seconds for an exit after SIGTERM.
    """
    noted: set[Identity] = set()

    def note() -> None:
        if not child.exited:
            noted.update(descendants(child.pid))

    exited = child.exited
    # 0. Descendants can only be found while their parent lives.
    if not exited:
        note()
    # 1. (An open turn of a session was interrupted by its owner before.)
    # 2. The end of its input is the polite request.
    child.close_input()
    if exited or not turn_open:
        if not exited:
            exited = yield stop_grace
        if exited and not turn_open:
            # It chose to end, with nothing open: processes that it left running are intended (a server that was started, say).
            return
    # 3. SIGTERM: the CLI ends its own children and exits 143, within 0.03 to 1.5 s (2.1.327).
    if not exited:
        note()
        child.signal(signal.SIGTERM)
        exited = yield kill_grace
    # 4. SIGKILL, to its group, to the noted descendants, and to all that carry its mark: its shells live in sessions of their own.
    if not exited:
        note()
        child.signal(signal.SIGKILL, group=True)
        child.signal(signal.SIGKILL)
    noted.update(marked_with(child.child_id))
    own = identity(child.pid)
    for who in noted:
        if who != own:
            kill_identity(who, signal.SIGKILL)
    # 5. Reap.
    if not exited:
        yield REAP_SECONDS


EXIT_SECONDS = 2.0
"""Seconds for the end of the interpreter, all children together."""
LINGER_SECONDS = 5.0
"""Seconds for which the thread and the watchdog stay after the last child: the next one finds them there."""
_EXIT_KILL_GRACE = 1.5  # SIGKILL has the rest of `EXIT_SECONDS`
_LAST_MOMENT_SECONDS = 0.2
_POLL_SECONDS = 0.02
"""Seconds between two checks where the operating system does not report the end of a process."""


class _Job:
    """A child on its way out."""

    __slots__ = ("child", "deadline", "failed", "polled", "steps", "watched")

    def __init__(self, child: Mortal, steps: Generator[float, bool, None]) -> None:
        self.child = child
        self.steps = steps
        self.deadline = 0.0
        self.polled = child.exit_descriptor is None
        self.failed = False
        self.watched: list[int] = []

    def advance(self, now: float, *, first: bool = False) -> bool:
        """Run the next step; return False when there is none."""
        try:
            self.deadline = now + (next(self.steps) if first else self.steps.send(self.child.exited))
        except StopIteration:
            return False
        except Exception:
            logger.exception("a step of stopping process %d failed", self.child.pid, extra={"pid": self.child.pid})
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


class Drain(Protocol):
    """A descriptor that the thread reads whenever there is something."""

    def read(self) -> object:
        """Read what is there without waiting. At the end it calls `Reaper.unwatch` itself."""


class _Helper(NamedTuple):
    """The running thread, and what it waits with."""

    wakeup: Wakeup
    selector: selectors.BaseSelector
    thread: threading.Thread


class Reaper:
    """Ends children. Safe from any thread.

    `submit` takes no lock and starts no thread, because garbage collection calls it at any moment, also while this or another module
    holds a lock in the same thread. So the thread is started when a child is registered, and stays while there is one.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may close a stream in the middle of a start
        self._arrivals: deque[_Job] = deque()
        self._live: set[Mortal] = set()
        self._drains: set[int] = set()
        self._helper: _Helper | None = None
        self._dozing = False
        self._used_at = 0.0
        self._linger_seconds = LINGER_SECONDS
        self._closing_down = False

    def register(self, child: Mortal) -> None:
        """Register a child that was started: from now on it can be submitted."""
        with self._lock:
            self.attend()
            self._live.add(child)

    def forget(self, child: Mortal) -> None:
        """Drop a child whose start failed."""
        self._live.discard(child)
        self.rest()

    @property
    def count(self) -> int:
        """How many children there are."""
        return len(self._live)

    def attend(self) -> None:
        """Start the thread if it does not run; raise OSError or RuntimeError if no descriptor or no thread is available."""
        with self._lock:
            if self._helper is None:
                self._launch()

    def rest(self) -> None:
        """Wake the thread, which may have nothing to do any more. Never waits."""
        self._used_at = time.monotonic()
        helper = self._helper
        if self._dozing and helper is not None:
            helper.wakeup.set()

    def retire(self) -> bool:
        """End what waits for the next child, if there is none now; return whether the thread is gone. For leak checks."""
        starters.rest()
        with self._lock:
            helper = self._helper
            if helper is not None and not self._busy:
                self._linger_seconds = 0.0
                helper.wakeup.set()
        if helper is None or self._busy:
            return helper is None
        helper.thread.join()  # without the lock, which the thread takes to leave
        return True

    def watch(self, descriptor: int, drain: Drain) -> None:
        """Make the thread call `drain.read` while there is data to read; it can fail as `attend` does."""
        with self._lock:
            self.attend()
            assert self._helper is not None  # noqa: S101
            self._drains.add(descriptor)  # first: the thread may read it to its end before `register` returns
            try:
                self._helper.selector.register(descriptor, selectors.EVENT_READ, drain)
            except BaseException:
                self._drains.discard(descriptor)
                raise

    def unwatch(self, descriptor: int) -> None:
        """Stop reading a descriptor that is about to be closed. Idempotent; takes no lock."""
        helper = self._helper
        if helper is not None and descriptor in self._drains:
            with contextlib.suppress(KeyError, ValueError, OSError):
                helper.selector.unregister(descriptor)  # no lock is held: the thread may have left
            self._drains.discard(descriptor)
            self.rest()

    @property
    def _busy(self) -> bool:
        return bool(self._live or self._drains or watchdog.count)

    def _launch(self) -> None:
        """Start the thread. Everything it needs is acquired here, where a failure is the caller's and not the thread's."""
        wakeup = Wakeup()
        thread: threading.Thread | None = None
        selector: selectors.BaseSelector | None = None
        self._linger_seconds = LINGER_SECONDS
        self._used_at = time.monotonic()
        try:
            selector = selectors.DefaultSelector()
            selector.register(wakeup.fileno(), selectors.EVENT_READ)
            thread = threading.Thread(target=self._run, args=(wakeup, selector), name="hackamore-reaper", daemon=True)
            self._helper = _Helper(wakeup, selector, thread)
            thread.start()
        except BaseException:
            if thread is None or thread.ident is None:  # else it runs, finds nothing to do, and leaves
                self._helper = None
                if selector is not None:
                    selector.close()
                wakeup.close()
            raise

    def submit(self, child: Mortal, *, turn_open: bool, here: bool = False) -> None:
        """End a child; `child.done` is set when it is gone and reaped.

        Args:
            here: True to finish a child that has exited by itself in this call, which then may wait for locks and for moments.
        """
        steps = stop_sequence(
            child,
            turn_open=turn_open,
            stop_grace=0.0 if self._closing_down else child.stop_grace,  # `EXIT_SECONDS` are for all together
            kill_grace=_EXIT_KILL_GRACE if self._closing_down else child.kill_grace,
        )
        job = _Job(child, steps)
        if here and child.exited and not turn_open and not job.advance(0.0, first=True):
            self._finish(job)
            return
        self._arrivals.append(job)
        helper = self._helper
        if helper is not None:
            helper.wakeup.set()

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
                    # This thread must not die while there are children: no other thread would end them.
                    logger.exception("unexpected error in the reaper, which continues")
                    time.sleep(_POLL_SECONDS)  # an error that repeats must not take a processor
            watchdog.retire()
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
                for descriptor in job.child.descriptors():  # output as well: a full pipe would block its end
                    try:
                        selector.register(descriptor, selectors.EVENT_READ, job)
                        job.watched.append(descriptor)
                    except (OSError, KeyError, ValueError):
                        # No memory, or closed meanwhile: this one is polled, and the thread lives on for all others.
                        job.polled = True
                jobs.append(job)
            else:
                self._finish(job)
        return jobs

    def _still_busy(self, job: _Job, selector: selectors.BaseSelector, now: float) -> bool:
        job.child.poll_exit()
        if job.polled:
            job.child.discard_output()
        # After SIGKILL no step is left: the sequence ends even without an exit.
        while job.child.exited or now >= job.deadline:
            if not job.advance(now):
                for descriptor in job.watched:
                    selector.unregister(descriptor)
                self._finish(job)
                return False
        return True

    def _finish(self, job: _Job) -> None:
        try:
            job.child.dispose()
        except Exception:
            logger.exception(
                "giving back what belonged to process %d failed", job.child.pid, extra={"pid": job.child.pid}
            )
        finally:  # in any case: callers wait for `done` without a limit
            self._live.discard(job.child)
            job.child.finish()
            self.rest()

    def _leave_if_idle(self) -> bool:
        with self._lock:
            if self._busy or time.monotonic() < self._used_at + self._linger_seconds:
                return False
            self._helper = None
            return True

    def _wait(self, jobs: list[_Job], selector: selectors.BaseSelector, wakeup: Wakeup) -> None:
        timeout = max(0.0, min(job.deadline for job in jobs) - time.monotonic()) if jobs else None
        if any(job.polled for job in jobs):
            timeout = min(timeout or 0.0, _POLL_SECONDS)
        if timeout is None:
            self._dozing = True  # first: what becomes free after the next look wakes this thread
            if not self._busy:
                timeout = max(0.0, self._used_at + self._linger_seconds - time.monotonic())
                self._dozing = False
        try:
            ready = selector.select(timeout)
        finally:
            self._dozing = False
        for key, _ in ready:
            if key.data is None:
                wakeup.clear()
            elif isinstance(key.data, _Job):
                self._look_at(key.data, key.fd, selector)
            else:
                key.data.read()

    def _look_at(self, job: _Job, descriptor: int, selector: selectors.BaseSelector) -> None:
        over = job.child.poll_exit() if descriptor == job.child.exit_descriptor else not job.child.discard_output()
        if over:
            selector.unregister(descriptor)
            job.watched.remove(descriptor)

    def at_exit(self) -> None:
        """Stop all children in parallel, within `EXIT_SECONDS`: called when the interpreter ends."""
        self._closing_down = True
        until = time.monotonic() + EXIT_SECONDS
        children = list(self._live)
        for child in children:
            child.stop(turn_open=True)  # no `stop_grace`: there is no reader, and the model must not work on
        late = [child for child in children if not child.done.wait(max(0.0, until - time.monotonic()))]
        for child in late:
            child.kill_now()
        for child in late:
            child.done.wait(_LAST_MOMENT_SECONDS)
        watchdog.retire()

    def after_fork(self) -> None:
        """Forget everything in a forked copy: the children belong to the parent."""
        live = self._live
        self.__init__()  # type: ignore[misc]
        for child in live:
            child.disown()


reaper: Reaper = Reaper()
atexit.register(reaper.at_exit)
os.register_at_fork(after_in_child=reaper.after_fork)
