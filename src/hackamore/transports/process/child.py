"""One child process: its pipes, its life, and what both shells need of it; nothing here waits but `Poller.select`.

Both shells use this class; they differ only in how they wait for its descriptor. That descriptor is a selector (epoll, kqueue). One
wait covers stdout, unwritten input, the exit, and a wake-up from another thread, on all shells. No task, lock or thread is spent on a
frame.

Life (`states.py`): `start` - `take`, `queue`, `end_input` - `stop` (hands it to the reaper) - `done`. A child that its owner forgets is
stopped by the owner's `__del__`, at the interpreter's exit, and, if the host is killed, by the watchdog.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.errors import SpawnError
from hackamore.runtime.log import logger
from hackamore.runtime.threads import Wakeup
from hackamore.transports.process import spawn
from hackamore.transports.process.private_folders import remove_folder
from hackamore.transports.process.processes import CHILD_ID_VARIABLE, descendants, identity, kill_identity, marked_with
from hackamore.transports.process.reaper import reaper
from hackamore.transports.process.states import (
    INPUT,
    LIFE,
    WAIT,
    Input,
    InputTrigger,
    Life,
    LifeTrigger,
    Wait,
    WaitTrigger,
)
from hackamore.transports.process.stderr import LineCallback, StderrDrain
from hackamore.transports.process.watchdog import watchdog
from hackamore.transports.recording.masking import Mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore._engine.launch.plan import LaunchPlan

READ_BYTES = 262_144


class Poller:
    """A descriptor that becomes readable when one of those that it watches is ready, or when `wake` is called."""

    def __init__(self) -> None:
        self.state: Wait = Wait.FREE
        self.watched: set[int] = set()
        self._selector = selectors.DefaultSelector()
        try:
            self._wakeup = Wakeup()
        except BaseException:  # out of descriptors: none is left open
            self._selector.close()
            raise
        try:
            self.watch(self._wakeup.fileno())
        except BaseException:
            self.happen(WaitTrigger.CLOSE)
            raise

    def watch(self, descriptor: int, event: int = selectors.EVENT_READ) -> None:
        if self.state is not Wait.CLOSED and descriptor not in self.watched:
            self._selector.register(descriptor, event)
            self.watched.add(descriptor)

    def forget(self, descriptor: int) -> None:
        """Watch it no more. Idempotent."""
        if self.state is not Wait.CLOSED and descriptor in self.watched:
            self.watched.remove(descriptor)
            self._selector.unregister(descriptor)

    def fileno(self) -> int:
        """Return the descriptor, and count as a waiter."""
        self.happen(WaitTrigger.BEGIN)
        return self._selector.fileno()

    def select(self, seconds: float | None) -> None:
        """Block until something is ready, at most `seconds`."""
        self._selector.select(seconds)

    def ready(self) -> list[int]:
        """Return what is ready, without waiting. A wake-up is taken."""
        if self.state is Wait.CLOSING or self.state is Wait.CLOSED:
            return []
        found = [key.fd for key, _ in self._selector.select(0)]
        if self._wakeup.fileno() in found:
            self._wakeup.clear()
        return found

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._wakeup.set()

    def happen(self, trigger: WaitTrigger) -> None:
        """Go to the next state; close the descriptor if that is its end."""
        before, self.state = self.state, WAIT[self.state, trigger]
        if self.state is Wait.CLOSED and before is not Wait.CLOSED:
            # Closed without being emptied: in a forked copy the epoll object is the parent's as well.
            self._selector.close()
            self._wakeup.close()


class InputPipe:
    """The write end of a child's stdin, with a queue: the pipe takes a part immediately, reading writes the rest."""

    def __init__(self, descriptor: int, poller: Poller, pid: int | None = None) -> None:
        os.set_blocking(descriptor, False)  # a CLI that does not read yet must not stop the event loop
        self.state: Input = Input.OPEN
        self.descriptor: int | None = descriptor
        self._poller = poller
        self._pid = pid
        self.queued: list[memoryview] = []

    def queue(self, data: bytes) -> None:
        """Write `data` after what is queued; nothing once the input ends."""
        if self.state is Input.OPEN:
            self.queued.append(memoryview(data))
            self.flush()

    def end(self) -> None:
        """Close the pipe once everything queued is written."""
        self._move(InputTrigger.END)
        self.flush()

    def close(self) -> None:
        """Close the pipe and drop queued data."""
        self._move(InputTrigger.CLOSE)

    def flush(self) -> None:
        if self.descriptor is None:
            return
        while self.queued:
            try:
                written = os.write(self.descriptor, self.queued[0])
            except BlockingIOError:
                self._poller.watch(self.descriptor, selectors.EVENT_WRITE)
                return
            except OSError as error:
                # The reader is gone: its exit code and stderr show the reason.
                logger.debug("stdin of a process is closed: %s", error, extra={"pid": self._pid})
                self._move(InputTrigger.BREAK)
                self._poller.wake()  # a caller that waits for output handles it: the CLI may stay
                return
            if written < len(self.queued[0]):
                self.queued[0] = self.queued[0][written:]
            else:
                self.queued.pop(0)
        if self.descriptor in self._poller.watched:
            self._poller.forget(self.descriptor)
        if self.state is Input.ENDING:
            self._move(InputTrigger.WRITTEN)

    def _move(self, trigger: InputTrigger) -> None:
        self.state = INPUT[self.state, trigger]
        if self.descriptor is not None and self.state in (Input.CLOSED, Input.BROKEN):
            self.queued.clear()
            self._poller.forget(self.descriptor)
            os.close(self.descriptor)
            self.descriptor = None


def widen(pipe: int) -> None:
    """Give a pipe room for one whole read: fewer switches between the CLI and its host, 15 % less time for long lines."""
    command = getattr(fcntl, "F_SETPIPE_SZ", None)
    if command is not None:
        try:
            fcntl.fcntl(pipe, command, READ_BYTES)
        except OSError as error:
            logger.debug("a pipe keeps its usual size: %s", error)


_WIDE_PIPES = 32
"""With this many children and more, pipes keep their usual size: the kernel allows each user a total (by default 64 MiB)."""
_QUIET_AFTER_EXIT_SECONDS = 0.5
"""After the exit stdout is read for this long: a grandchild may hold the pipe open forever."""
_LAST_CALLS_SECONDS = 1.0
"""How long a stderr callback that is behind may hold up the end of its stream, and of no other."""
_LONGEST_SECRET = 4_096
"""So many bytes of stderr are kept before its tail: a private key whose beginning is cut off is not recognised."""
_EXIT_POLL_SECONDS = 0.1
"""How often the exit is looked for where the operating system cannot report it."""


class Exit(NamedTuple):
    """The end of the process: its status, None if another waiter took it, and when it was seen."""

    code: int | None
    seen_at: float


class Child:
    """A process: made by the constructor with the settings of `ChildProcess`, whose owner keeps `on_stderr` alive; started by `start`."""

    def __init__(
        self,
        plan: LaunchPlan,
        *,
        stop_grace: float,
        kill_grace: float,
        stderr_tail_bytes: int,
        on_stderr: LineCallback | None = None,
        drain: type[StderrDrain] = StderrDrain,
    ) -> None:
        self.stop_grace = stop_grace
        self.kill_grace = kill_grace
        self.child_id: str = plan.environment.get(CHILD_ID_VARIABLE, "")
        self.pid: int = 0
        self.exit: Exit | None = None
        self.exit_descriptor: int | None = None
        self.done: threading.Event = threading.Event()
        self._done_wakeups: list[Wakeup] = []
        # Reentrant: a signal handler may close the stream whose bytes its thread is just reading.
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._life = Life.STARTING
        self._plan = plan
        self._mask = Mask(plan)
        self._stderr_tail_bytes = stderr_tail_bytes
        self._on_stderr = weakref.ref(on_stderr) if on_stderr is not None else None
        self._make_drain = drain
        self._process: subprocess.Popen[bytes] | None = None
        self._stdin: InputPipe | None = None
        self._stdout: int | None = None
        self._stderr: StderrDrain | None = None
        self._masked = b"", b""  # stderr as it was read last, and its part without secrets
        self._poller: Poller | None = None

    def start(self) -> None:
        """Start the process. If the system refuses the program, a descriptor or a thread, raise SpawnError and leave nothing behind."""
        plan = self._plan
        pipes: dict[str, int] = {}
        try:
            reaper.register(self)  # first: nothing is started that could not be stopped
            watchdog.add(self.child_id)
            pipe = subprocess.PIPE
            self._process, ours = spawn.start(
                plan.argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=plan.cwd, env=plan.environment, user=plan.user
            )
            pipes |= ours
            self.pid = self._process.pid
            self._adopt(pipes)
            self._move(LifeTrigger.STARTED)
        except BaseException as error:
            self._undo(pipes)
            # RuntimeError: no thread; ValueError: NUL in an argument; LookupError: no such `user`.
            refused = (OSError, RuntimeError, ValueError, LookupError, subprocess.SubprocessError)
            if isinstance(error, refused) and not isinstance(error, SpawnError):
                raise spawn.spawn_error(plan.argv[0], plan.cwd, error) from error
            raise

    def _adopt(self, pipes: dict[str, int]) -> None:
        """Take ownership of the pipes, one after the other: those that are left in `pipes` are closed if this fails."""
        who = identity(self.pid)
        if who is not None:
            watchdog.started(self.child_id, who)
        poller = self._poller = Poller()
        try:
            self.exit_descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            logger.debug("no pidfd here: the exit of process %d is polled for", self.pid, extra={"pid": self.pid})
        self._stderr = self._make_drain(
            pipes["stderr"],
            tail_bytes=self._stderr_tail_bytes + _LONGEST_SECRET,
            on_line=self._on_stderr() if self._on_stderr is not None else None,
            name=f"hackamore-stderr-{self.pid}",
        )
        del pipes["stderr"]
        self._stdin = InputPipe(pipes["stdin"], poller, self.pid)
        del pipes["stdin"]
        self._stdout = pipes.pop("stdout")
        if reaper.count < _WIDE_PIPES:
            widen(self._stdout)
        os.set_blocking(self._stdout, False)
        poller.watch(self._stdout)
        if self.exit_descriptor is not None:
            poller.watch(self.exit_descriptor)
        self._stderr.start()

    def _undo(self, pipes: dict[str, int]) -> None:
        """Undo a start that failed half-way: out of descriptors or threads, or interrupted by Ctrl-C."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            self._process = None
        for who in marked_with(self.child_id):  # Ctrl-C between fork and the return of `Popen`: its pid never came
            kill_identity(who)
        for descriptor in pipes.values():
            os.close(descriptor)
        self._give_back()
        self.pid = 0
        self.done_now()
        reaper.forget(self)

    def _move(self, trigger: LifeTrigger, *, turn_open: bool = True, here: bool = False) -> None:
        """Go to the next state, and hand the process to the reaper on the way to its end."""
        with self._lock:
            before, self._life = self._life, LIFE[self._life, trigger]
            try:
                if self._life is not Life.RUNNING:  # no caller waits yet
                    self.wake()
            finally:
                if self._life is Life.STOPPING and before is not Life.STOPPING:  # also if `wake` raised
                    reaper.submit(self, turn_open=turn_open, here=here)

    # -- reading and writing -------------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        return self._life not in (Life.STARTING, Life.RUNNING)

    @property
    def input_broken(self) -> bool:
        """True once the process is known not to read any more."""
        return self._stdin is not None and self._stdin.state is Input.BROKEN

    @property
    def input_waits(self) -> bool:
        """True if a part of what was queued could not be written."""
        return self._stdin is not None and bool(self._stdin.queued)

    def take(self, size: int = READ_BYTES) -> bytes | None:
        """Return bytes of stdout, b"" at their end, None if the caller has to wait."""
        with self._lock:
            if self._life is not Life.RUNNING or self._stdout is None:
                return b""
            if self._stdin is not None and self._stdin.queued:
                self._stdin.flush()
            try:
                data = os.read(self._stdout, size)
            except BlockingIOError:
                return b"" if self.poll_exit() and self._quiet_seconds() <= 0 else None
            if not data:
                self._close_stdout()
            return data

    def queue(self, data: bytes) -> None:
        """Write `data` to stdin: the pipe takes a part immediately, reading writes the rest."""
        with self._lock:
            if self._stdin is not None:
                self._stdin.queue(data)

    def end_input(self) -> None:
        """Close stdin once everything queued is written."""
        with self._lock:
            if self._stdin is not None:
                self._stdin.end()

    def wait_descriptor(self) -> int | None:
        """Return the descriptor that becomes readable when something can be done, and count as a waiter; None once stopping."""
        with self._lock:
            return None if self.stopping or self._poller is None else self._poller.fileno()

    def waited(self) -> None:
        """End the wait, and serve what became ready."""
        with self._lock:
            if self._poller is not None:
                self._poller.happen(WaitTrigger.OVER)
                self._serve(self._poller)

    def serve(self) -> None:
        """Serve ready descriptors, and keep waiting."""
        with self._lock:
            if self._poller is not None:
                self._serve(self._poller)

    def _serve(self, poller: Poller) -> None:
        for descriptor in poller.ready():
            if descriptor == self.exit_descriptor:
                self.poll_exit()
            elif self._stdin is not None and descriptor == self._stdin.descriptor:
                self._stdin.flush()

    def wait_limit(self) -> float | None:
        """Return for how many seconds a wait makes sense before `take` is called again; None for any time."""
        if self.exit is not None:
            return None if self._stdout is None else self._quiet_seconds()
        return None if self.exit_descriptor is not None else _EXIT_POLL_SECONDS

    def wait(self, seconds: float | None) -> None:
        """Block until something can be done, for at most `seconds`."""
        limit = self.wait_limit()
        timeout = seconds if limit is None else limit if seconds is None else min(seconds, limit)
        if self.wait_descriptor() is None or self._poller is None:
            return
        try:
            self._poller.select(timeout)
        finally:
            self.waited()

    def wake(self) -> None:
        """End a wait in another thread or task."""
        if self._poller is not None:
            self._poller.wake()

    # -- the exit ------------------------------------------------------------------------------------------------------

    @property
    def exited(self) -> bool:
        """True once the process is known to have exited."""
        return self.exit is not None

    @property
    def exit_code(self) -> int | None:
        """Its exit status; None before the exit, or if another waiter took it."""
        return self.exit.code if self.exit is not None else None

    @property
    def stderr_tail(self) -> bytes:
        """The last part of stderr, without secrets: errors and recordings show it."""
        tail = self._stderr.tail if self._stderr is not None and self._stderr_tail_bytes else b""
        if tail != self._masked[0]:
            self._masked = tail, self._mask(tail)[-self._stderr_tail_bytes :]
        return self._masked[1]

    @property
    def busy_in_this_thread(self) -> bool:
        """True if this thread was interrupted (by a signal handler) in the middle of using it: then it cannot wait for its end."""
        try:
            threading.Condition(self._lock).notify(0)  # the one public way to see whether this thread holds it
        except RuntimeError:  # the lock is not held by this thread
            return False
        return True

    def poll_exit(self) -> bool:
        """Look whether it has exited, and reap it. Not with `Popen.poll`: where another waiter took the status, that says 0."""
        with self._lock:
            if self.exit is None and self._process is not None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:
                    # The host ignores SIGCHLD, or waits for all children: it has ended, and its status is lost.
                    self._process.returncode = 0  # else `Popen` warns that it still runs
                    self._saw_exit(None)
                else:
                    if pid:
                        self._process.returncode = os.waitstatus_to_exitcode(status)
                        self._saw_exit(self._process.returncode)
            return self.exit is not None

    def _saw_exit(self, code: int | None) -> None:
        self.exit = Exit(code, time.monotonic())
        if self.exit_descriptor is not None and self._poller is not None:
            self._poller.forget(self.exit_descriptor)  # a pidfd stays readable: no wait would wait any more

    def _quiet_seconds(self) -> float:
        """Return how long stdout is read on after the exit."""
        assert self.exit is not None  # noqa: S101
        return max(0.0, self.exit.seen_at + _QUIET_AFTER_EXIT_SECONDS - time.monotonic())

    def stop(self, *, turn_open: bool, here: bool = False) -> None:
        """Begin to stop it; `done` is set when it is gone, reaped, and its descriptors are closed.

        Args:
            turn_open: True if the model may be at work.
            here: True to finish a process that has exited in this call; otherwise this never waits, not even for a lock.
        """
        # Looked at before the lock as well: a garbage collection inside it must not wait for itself.
        if self.stopping or self._owner != os.getpid():
            return
        self._move(LifeTrigger.STOP, turn_open=turn_open, here=here)

    def add_done_wakeup(self, wakeup: Wakeup) -> None:
        """Raise `wakeup` when `done` is set: for those who wait in an event loop."""
        with self._lock:
            self._done_wakeups.append(wakeup)
            if self.done.is_set():
                wakeup.set()

    def remove_done_wakeup(self, wakeup: Wakeup) -> None:
        """Stop raising `wakeup`: it is about to be closed."""
        with self._lock:
            if wakeup in self._done_wakeups:
                self._done_wakeups.remove(wakeup)

    def disown(self) -> None:
        """Forget the process in a forked copy of the host: no signal, no wait, and no end of its pipes held open."""
        if self._process is not None:
            self._process.returncode = 0
        self._lock = threading.RLock()  # the thread that held the old one, if any, is not here to release it
        self._life = LIFE[self._life, LifeTrigger.LET_GO]
        # A caller that closes the copy's stream must not wait for a reaper that the copy has not.
        self.done = threading.Event()
        self.done.set()
        if self._poller is not None:  # first: what it watches is the parent's as well
            self._poller.happen(WaitTrigger.CLOSE)
            self._poller.happen(WaitTrigger.OVER)
        # The CLI reads its input to the end, which comes when the last copy of the write end is closed.
        self._close_descriptors()

    # -- for the stop sequence and the reaper -----------------------------------------------------------------------------

    def close_input(self) -> None:
        """Close stdin and drop queued data."""
        with self._lock:
            if self._stdin is not None:
                self._stdin.close()

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to the process, or to the process group that it leads, if it has not been reaped."""
        with self._lock:
            if self.exited:  # its pid may be another process's by now
                return
            try:
                if group:
                    os.killpg(self.pid, number)
                elif self.exit_descriptor is not None:  # it cannot mean a later process with this pid
                    signal.pidfd_send_signal(self.exit_descriptor, number)
                else:
                    os.kill(self.pid, number)
            except (ProcessLookupError, PermissionError):
                logger.debug("process %d took no signal %d", self.pid, number, extra={"pid": self.pid})

    def kill_now(self) -> None:
        """Kill it, its group, all below it and all that carries its mark: when there is no time for more."""
        below = [] if self.exited else descendants(self.pid)  # a link to a CLI on this machine: that one has no mark
        self.signal(signal.SIGKILL, group=True)
        self.signal(signal.SIGKILL)
        for who in (*below, *marked_with(self.child_id)):
            kill_identity(who)

    def descriptors(self) -> list[int]:
        """Return what tells that something happened to it: its exit, and output to be thrown away."""
        with self._lock:
            return [descriptor for descriptor in (self.exit_descriptor, self._stdout) if descriptor is not None]

    def discard_output(self) -> bool:
        """Throw away what is on stdout; False at its end."""
        with self._lock:
            if self._stdout is None:
                return False
            try:
                return bool(os.read(self._stdout, READ_BYTES))
            except BlockingIOError:
                return True
            except OSError:
                return False

    def dispose(self) -> None:
        """Give everything back. Only `Reaper` calls this, last."""
        if not self.exited:
            logger.warning("process %d did not end after SIGKILL", self.pid, extra={"pid": self.pid})
            if self._process is not None:
                self._process.returncode = -signal.SIGKILL  # it cannot be waited for; Popen must not try
        self._give_back()

    def finish(self) -> None:
        """Set `done`, once the stderr callback has had every line. Only `Reaper` calls this, after `dispose`."""
        drain = self._stderr
        if drain is None or drain.calls_done(0):
            self.done_now()
            return

        def finish_late() -> None:
            drain.calls_done(_LAST_CALLS_SECONDS)
            self.done_now()

        try:
            threading.Thread(target=finish_late, name="hackamore-stderr-last", daemon=True).start()
        except RuntimeError:  # no thread can be had: then nothing waits for the callback
            self.done_now()

    def done_now(self) -> None:
        """Set `done`, and wake those who wait for it."""
        with self._lock:
            self.done.set()
            for wakeup in self._done_wakeups:
                wakeup.set()
            self._done_wakeups.clear()

    def _give_back(self) -> None:
        if self._stderr is not None:
            self._stderr.finish()
        with self._lock:
            self._life = LIFE[self._life, LifeTrigger.LET_GO]
            self.wake()
            self._close_descriptors()
        watchdog.remove(self.child_id)
        if self._plan.private_folder is not None:  # last: a CLI that ends still writes into it
            remove_folder(self._plan.private_folder)

    def _close_descriptors(self) -> None:
        if self._stdin is not None:
            self._stdin.close()
        self._close_stdout()
        if self.exit_descriptor is not None:
            if self._poller is not None:
                self._poller.forget(self.exit_descriptor)
            os.close(self.exit_descriptor)
            self.exit_descriptor = None
        if self._poller is not None:
            self._poller.happen(WaitTrigger.CLOSE)

    def _close_stdout(self) -> None:
        if self._stdout is not None:
            if self._poller is not None:
                self._poller.forget(self._stdout)
            os.close(self._stdout)
            self._stdout = None


class ChildProcess:
    """A child process that is started later. It owns the stderr callback, which nothing behind it keeps alive.

    Args:
        stop_grace: seconds for an exit by itself.
        kill_grace: seconds for an exit after SIGTERM.
        on_stderr: called with each line of stderr, in a thread of its own.
        stop_seconds: for how long `stop` waits, from its first call; then the reaper ends the process behind it. None waits for the end.
    """

    def __init__(
        self,
        *,
        stop_grace: float = 5.0,
        kill_grace: float = 5.0,
        stderr_tail_bytes: int = 65_536,
        on_stderr: Callable[[str], object] | None = None,
        stop_seconds: float | None = None,
    ) -> None:
        self.stop_seconds = stop_seconds
        self._leave_at = 0.0
        self._stop_grace = stop_grace
        self._kill_grace = kill_grace
        self._stderr_tail_bytes = stderr_tail_bytes
        self._on_stderr = LineCallback(on_stderr) if on_stderr is not None else None
        self._child: Child | None = None
        self._stopped_early = False
        self._break_was_seen = False
        self._gate = threading.RLock()  # a garbage collection inside it may stop this one

    @property
    def pid(self) -> int | None:
        """The process id once it is started."""
        return (self._child.pid or None) if self._child is not None else None

    @property
    def stderr_tail(self) -> bytes:
        """The last part of stderr."""
        return self._child.stderr_tail if self._child is not None else b""

    def _make_child(self, plan: LaunchPlan, **settings: Any) -> Child:
        return Child(plan, **settings)

    def _spawn(self, plan: LaunchPlan, *, unless_stopped: bool = False) -> None:
        with self._gate:
            if unless_stopped and self._stopped_early:
                return
            child = self._child = self._make_child(
                plan,
                stop_grace=self._stop_grace,
                kill_grace=self._kill_grace,
                stderr_tail_bytes=self._stderr_tail_bytes,
                on_stderr=self._on_stderr,
            )
        child.start()  # outside the gate: a stop from elsewhere does not wait for it
        if self._stopped_early:  # `stop` came during the start, and found nothing to stop
            child.stop(turn_open=True)

    def seconds_left(self) -> float | None:
        """Return for how long `stop` may wait, counted from the first call of this; None for any time."""
        if self.stop_seconds is None:
            return None
        now = time.monotonic()
        self._leave_at = self._leave_at or now + self.stop_seconds
        return max(0.0, self._leave_at - now)

    def _stop_early(self) -> Child | None:
        with self._gate:
            self._stopped_early = True
            return self._child

    @property
    def input_broken(self) -> bool:
        """True once the process is known not to read any more."""
        return self._child is not None and self._child.input_broken

    def send_nowait(self, data: bytes) -> None:
        """Queue `data` for stdin; reading writes the part that the pipe does not take immediately."""
        self._started().queue(data)

    def _has_just_broken(self) -> bool:
        """Return True once, when stdin has broken: a caller that waits for output has to handle it."""
        news = self.input_broken and not self._break_was_seen
        self._break_was_seen = self._break_was_seen or news
        return news

    def _started(self) -> Child:
        if self._child is None:
            raise RuntimeError("the transport was not started")
        return self._child

    def abandon(self) -> None:
        """End the process without waiting: the reaper sees it through."""
        child = self._stop_early()
        if child is not None:
            child.stop(turn_open=True)

    def __del__(self) -> None:
        self.abandon()
