"""One child process and its pipes: everything about it that needs no waiting.

Both shells use this class; they differ only in how they wait for its descriptor. Its selector is itself a descriptor (epoll, kqueue),
so that one wait covers stdout, a stdin that is not yet written, the exit, and a wake-up from another thread, under asyncio, trio and
no event loop alike, and no task, lock or thread is spent on a frame.

Life: `start` - `take`, `queue`, `end_input` - `stop` (hands it to the reaper) - `done`. A child that its owner
forgets is ended by the owner's `__del__`, at the interpreter's exit, and, if the host is killed, by the watchdog.
"""

from __future__ import annotations

import fcntl
import logging
import os
import selectors
import signal
import subprocess
import threading
import time
import weakref
from typing import TYPE_CHECKING

from bridle.errors import SpawnError
from bridle.transports.process.processes import CHILD_ID_VARIABLE, identity, kill_identity, marked_with
from bridle.transports.process.reaper import reaper
from bridle.transports.process.stderr import LineCallback, StderrDrain
from bridle.transports.process.watchdog import watchdog
from bridle.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from bridle.launch.plan import LaunchPlan

__all__ = ["Child", "spawn_error"]

logger = logging.getLogger("bridle")

READ_BYTES = 262_144
_WIDE_PIPES = 32
"""With this many children and more, pipes keep their usual size."""
_QUIET_AFTER_EXIT_SECONDS = 0.5
"""After the exit stdout is read for this long: a grandchild may hold the pipe open for ever."""
_LAST_CALLS_SECONDS = 1.0
"""What a stderr callback that is behind may hold up the end of its stream, and of no other."""
_EXIT_POLL_SECONDS = 0.1
"""Where the operating system cannot tell when a process ends, this often it is asked."""


class Child:
    """A process: made by the constructor, started by `start`.

    Args:
        plan: what to start.
        stop_grace: seconds for an exit by itself.
        kill_grace: seconds for an exit after SIGTERM.
        stderr_tail_bytes: how much of the end of stderr to keep.
        on_stderr: called with each line of stderr, in a thread of its own; its owner keeps it alive.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        *,
        stop_grace: float,
        kill_grace: float,
        stderr_tail_bytes: int,
        on_stderr: LineCallback | None = None,
    ) -> None:
        self.stop_grace = stop_grace
        self.kill_grace = kill_grace
        self.child_id = plan.environment.get(CHILD_ID_VARIABLE, "")
        self.exit_code: int | None = None
        self.status_lost = False
        self.exit_descriptor: int | None = None
        self.stopping = False
        self.done = threading.Event()
        self._done_wakeups: list[Wakeup] = []
        # Reentrant: a signal handler may close the stream whose bytes its thread is just reading.
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._outgoing: list[memoryview] = []
        self._input_closing = False
        self._stdin_watched = False
        self._stdout: int | None = None
        self._stdin: int | None = None
        self._stderr_pipe: int | None = None
        self._exit_seen_at: float | None = None
        self._waiting = False
        self._disposed = False
        self._selector: selectors.BaseSelector | None = None
        self._wakeup: Wakeup | None = None
        self._plan = plan
        self._stderr_tail_bytes = stderr_tail_bytes
        self._on_stderr = weakref.ref(on_stderr) if on_stderr is not None else None
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: StderrDrain | None = None
        self._ready = False
        self.pid = 0
        self.input_broken = False

    def start(self) -> None:
        """Start the process. If that fails, at whatever point and for whatever reason, nothing is left.

        Raises:
            SpawnError: the operating system refused: the program, a descriptor or a thread.
        """
        plan = self._plan
        try:
            reaper.register(self)  # first: nothing is started that could not be ended
            watchdog.add(self.child_id)
            self._process = self._spawn(plan)
            self.pid = self._process.pid
            self._adopt(self._process)
            with self._lock:
                self._ready = True
                stopped_meanwhile = self.stopping
        except BaseException as error:
            self._undo()
            if isinstance(error, (OSError, RuntimeError)) and not isinstance(error, SpawnError):
                raise spawn_error(plan.argv[0], plan.cwd, error) from error
            raise
        if stopped_meanwhile:
            reaper.submit(self, turn_open=True)

    def _spawn(self, plan: LaunchPlan) -> subprocess.Popen[bytes]:
        """Start the process: no shell, a session and process group of its own, three pipes.

        The pipes are made here, because `Popen` of some Python versions loses those that it made before it ran out of descriptors.
        """
        theirs: list[int] = []
        try:
            reading, self._stdin = os.pipe()
            theirs.append(reading)
            self._stdout, writing = os.pipe()
            theirs.append(writing)
            self._stderr_pipe, writing = os.pipe()
            theirs.append(writing)
            return subprocess.Popen(
                plan.argv,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                cwd=plan.cwd,
                env=plan.environment,
                user=plan.user,
                bufsize=0,
                close_fds=True,
                start_new_session=True,
            )
        except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            raise spawn_error(plan.argv[0], plan.cwd, error) from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _adopt(self, process: subprocess.Popen[bytes]) -> None:
        who = identity(process.pid)
        if who is not None:
            watchdog.started(self.child_id, who)
        assert self._stdin is not None  # noqa: S101
        assert self._stdout is not None  # noqa: S101
        assert self._stderr_pipe is not None  # noqa: S101
        self._selector = selectors.DefaultSelector()
        self._wakeup = Wakeup()
        try:
            self.exit_descriptor = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            logger.debug("no pidfd here: the exit of process %d is polled for", process.pid)
        self._stderr = StderrDrain(
            self._stderr_pipe,
            tail_bytes=self._stderr_tail_bytes,
            on_line=self._on_stderr() if self._on_stderr is not None else None,
            name=f"bridle-stderr-{process.pid}",
        )
        self._stderr_pipe = None  # the drain's from here on
        _widen(self._stdout)
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._wakeup.fileno(), selectors.EVENT_READ)
        if self.exit_descriptor is not None:
            self._selector.register(self.exit_descriptor, selectors.EVENT_READ)
        self._stderr.start()

    def _undo(self) -> None:
        """Take back a start that failed half-way: out of descriptors or threads, or Ctrl-C in the middle."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
        for who in marked_with(self.child_id):
            kill_identity(who)
        if self._stderr is not None:
            self._stderr.finish()
        with self._lock:
            self.stopping = True
            self._close_stdin()
            self._close_stdout()
            if self._stderr_pipe is not None:
                os.close(self._stderr_pipe)
                self._stderr_pipe = None
            if self.exit_descriptor is not None:
                os.close(self.exit_descriptor)
                self.exit_descriptor = None
            self._close_selector()
        watchdog.remove(self.child_id)
        self.pid = 0
        self.done_now()
        reaper.forget(self)

    # -- reading and writing -------------------------------------------------------------------------------------------

    def take(self, size: int = READ_BYTES) -> bytes | None:
        """Return bytes of stdout, b"" at their end, None if one has to wait."""
        with self._lock:
            if self.stopping or self._stdout is None:
                return b""
            if self._outgoing:
                self._flush()
            try:
                data = os.read(self._stdout, size)
            except BlockingIOError:
                self._poll_exit()
                return b"" if self._quiet_too_long() else None
            if not data:
                self._close_stdout()
            return data

    def queue(self, data: bytes) -> None:
        """Write `data` to stdin: now what the pipe takes, the rest while reading goes on."""
        with self._lock:
            if self._stdin is None or self._input_closing:
                return
            self._outgoing.append(memoryview(data))
            self._flush()

    def end_input(self) -> None:
        """Close stdin once everything queued is written."""
        with self._lock:
            self._input_closing = True
            self._flush()

    def wait_descriptor(self) -> int | None:
        """Return the descriptor that becomes readable when something can be done, and count as a waiter; None once stopping."""
        with self._lock:
            if self.stopping or self._selector is None:
                return None
            self._waiting = True
            return self._selector.fileno()  # type: ignore[attr-defined, no-any-return]

    def waited(self) -> None:
        """Tell that the wait is over: serves what became ready."""
        with self._lock:
            self._waiting = False
            if self._disposed:
                self._close_selector()
                return
            self._serve()

    def serve(self) -> None:
        """Serve what became ready, and go on waiting."""
        with self._lock:
            if not self._disposed:
                self._serve()

    def _serve(self) -> None:
        if self._selector is None:
            return
        for key, _ in self._selector.select(0):
            if self._wakeup is not None and key.fd == self._wakeup.fileno():
                self._wakeup.clear()
            elif key.fd == self.exit_descriptor:
                self._poll_exit()
            elif key.fd == self._stdin:
                self._flush()

    def wait_limit(self) -> float | None:
        """Return for how many seconds a wait makes sense before `take` is asked again; None for ever."""
        if self._exit_seen_at is not None and self._stdout is not None:
            return max(0.0, self._exit_seen_at + _QUIET_AFTER_EXIT_SECONDS - time.monotonic())
        return None if self.exit_descriptor is not None or self.exited else _EXIT_POLL_SECONDS

    def wait(self, seconds: float | None) -> None:
        """Block until something can be done, for at most `seconds`."""
        limit = self.wait_limit()
        timeout = seconds if limit is None else limit if seconds is None else min(seconds, limit)
        if self.wait_descriptor() is None:
            return
        try:
            assert self._selector is not None  # noqa: S101
            self._selector.select(timeout)
        finally:
            self.waited()

    def wake(self) -> None:
        """End a wait in another thread or task."""
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup.set()

    # -- the exit ------------------------------------------------------------------------------------------------------

    @property
    def exited(self) -> bool:
        """True once the exit status is known."""
        return self.exit_code is not None or self.status_lost

    @property
    def stderr_tail(self) -> bytes:
        """The last part of stderr."""
        return self._stderr.tail if self._stderr is not None else b""

    @property
    def busy_in_this_thread(self) -> bool:
        """True if this thread was interrupted (by a signal handler) in the middle of using it: then it cannot wait for its end."""
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def poll_exit(self) -> bool:
        """Look whether it has exited, and reap it."""
        with self._lock:
            self._poll_exit()
            return self.exited

    def stop(self, *, turn_open: bool) -> None:
        """Begin to end it; `done` is set when it is gone, reaped, and its descriptors are closed. Never waits."""
        # Looked at before the lock, too: a garbage collection inside of it must not wait for itself.
        if self.stopping or self._owner != os.getpid():
            return
        with self._lock:
            if self.stopping:
                return
            self.stopping = True
            try:
                self.wake()
            finally:
                if self._ready:  # else its start is under way, and ends it
                    reaper.submit(self, turn_open=turn_open)

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
        self.stopping = True
        if self._process is not None:
            self._process.returncode = 0
        self._lock = threading.RLock()
        # Whoever closes the copy's stream must not wait for a reaper that the copy has not.
        self.done = threading.Event()
        self.done.set()
        # The CLI reads its input to the end, which comes when the last copy of the write end is closed.
        for descriptor in (self._stdin, self._stdout, self.exit_descriptor):
            if descriptor is not None:
                os.close(descriptor)
        self._stdin = self._stdout = self.exit_descriptor = None
        # Closed without being emptied: the epoll object is the parent's, too.
        self._close_selector()

    # -- for the stop sequence and the reaper -----------------------------------------------------------------------------

    def close_input(self) -> None:
        """Close stdin, whatever is still queued."""
        with self._lock:
            self._outgoing.clear()
            self._close_stdin()

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it has not been reaped."""
        with self._lock:
            if not self.exited:
                try:
                    if self.exit_descriptor is not None:
                        signal.pidfd_send_signal(self.exit_descriptor, number)
                    else:
                        os.kill(self.pid, number)
                except (ProcessLookupError, PermissionError):
                    logger.debug("process %d took no signal %d", self.pid, number)

    def signal_group(self, number: int) -> None:
        """Send a signal to its process group, of which it is the leader."""
        with self._lock:
            if not self.exited:
                try:
                    os.killpg(self.pid, number)
                except (ProcessLookupError, PermissionError):
                    logger.debug("process group %d took no signal %d", self.pid, number)

    def kill_now(self) -> None:
        """Kill it, its group and all that carries its mark: when there is no time for more."""
        self.signal_group(signal.SIGKILL)
        self.signal(signal.SIGKILL)
        for who in marked_with(self.child_id):
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
        """Give everything back. Only the reaper calls this, last."""
        if not self.exited:
            logger.warning("process %d did not end after SIGKILL", self.pid)
            if self._process is not None:
                self._process.returncode = -signal.SIGKILL  # it cannot be waited for; Popen must not try
        if self._stderr is not None:
            self._stderr.finish()
        with self._lock:
            self._close_stdin()
            self._close_stdout()
            if self.exit_descriptor is not None:
                if self._selector is not None:
                    self._unregister(self.exit_descriptor)
                os.close(self.exit_descriptor)
                self.exit_descriptor = None
            self._disposed = True
            self.wake()
            if not self._waiting:
                self._close_selector()
        watchdog.remove(self.child_id)

    def finish(self) -> None:
        """Tell everybody that it is over, once the stderr callback has had every line. Only the reaper calls this, after `dispose`."""
        if self._stderr is None or self._stderr.calls_done(0):
            self.done_now()
            return
        try:
            threading.Thread(target=self._finish_late, name="bridle-stderr-last", daemon=True).start()
        except RuntimeError:  # no thread can be had: nobody waits for the callback, then
            self.done_now()

    def _finish_late(self) -> None:
        assert self._stderr is not None  # noqa: S101
        self._stderr.calls_done(_LAST_CALLS_SECONDS)
        self.done_now()

    def done_now(self) -> None:
        """Tell everybody that it is over."""
        with self._lock:
            self.done.set()
            for wakeup in self._done_wakeups:
                wakeup.set()
            self._done_wakeups.clear()

    # -- inside the lock -----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._stdin is None:
            self._outgoing.clear()
            return
        while self._outgoing:
            try:
                written = os.write(self._stdin, self._outgoing[0])
            except BlockingIOError:
                self._watch_stdin()
                return
            except OSError as error:
                # The reader is gone: its exit status and stderr will say why.
                logger.debug("stdin of process %d is closed: %s", self.pid, error)
                self._outgoing.clear()
                self._close_stdin()
                self.input_broken = True
                self.wake()
                return
            if written < len(self._outgoing[0]):
                self._outgoing[0] = self._outgoing[0][written:]
            else:
                self._outgoing.pop(0)
        if self._input_closing:
            self._close_stdin()
        elif self._stdin_watched:
            self._unregister(self._stdin)
            self._stdin_watched = False

    def _watch_stdin(self) -> None:
        if self._selector is not None and self._stdin is not None and self._stdin not in self._selector.get_map():
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
            self._stdin_watched = True

    def _unregister(self, descriptor: int) -> None:
        if self._selector is not None and descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def _close_stdin(self) -> None:
        if self._stdin is not None:
            self._unregister(self._stdin)
            os.close(self._stdin)
            self._stdin = None

    def _close_stdout(self) -> None:
        if self._stdout is not None:
            self._unregister(self._stdout)
            os.close(self._stdout)
            self._stdout = None

    def _close_selector(self) -> None:
        if self._selector is not None:
            self._selector.close()
            self._selector = None
        if self._wakeup is not None:
            self._wakeup.close()
            self._wakeup = None

    def _poll_exit(self) -> None:
        if not self.exited and self._process is not None:
            self._reap(self._process)
            if self.exited:
                self._exit_seen_at = time.monotonic()
                if self.exit_descriptor is not None:
                    self._unregister(self.exit_descriptor)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Take the exit status, if there is one. Not with `Popen.poll`: where somebody else took it, that says 0."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            # The host ignores SIGCHLD, or waits for all children: it has ended, and how is not to be known.
            self.status_lost = True
            process.returncode = 0
            return
        if pid:
            self.exit_code = process.returncode = os.waitstatus_to_exitcode(status)

    def _quiet_too_long(self) -> bool:
        return self._exit_seen_at is not None and time.monotonic() - self._exit_seen_at >= _QUIET_AFTER_EXIT_SECONDS


def _widen(pipe: int) -> None:
    """Give the pipe room for one whole read: fewer turns between the CLI and us, 15 % less time for long lines.

    The kernel allows a user a total (by default 64 MiB) and gives one page to every pipe beyond it, so a host of many streams keeps
    the usual 64 KiB.
    """
    command = getattr(fcntl, "F_SETPIPE_SZ", None)
    if command is not None and reaper.count < _WIDE_PIPES:
        try:
            fcntl.fcntl(pipe, command, READ_BYTES)
        except OSError as error:
            logger.debug("a pipe keeps its usual size: %s", error)


def spawn_error(path: str, cwd: str | None, error: Exception) -> SpawnError:
    """Say what the operating system meant: ENOENT can be the program, its interpreter or the working directory."""
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    hint = ""
    if cwd is not None and not os.path.isdir(cwd):
        missing = not os.path.exists(cwd)
        return SpawnError(
            path,
            f"the working directory {cwd!r} {'does not exist' if missing else 'is not a directory'}",
            cwd=cwd,
            errno=number,
            hint="Create it or pass another `cwd`.",
        )
    if isinstance(error, FileNotFoundError) and os.path.exists(path):
        hint = "The file is there: its interpreter (the `#!` line, or the dynamic loader of another libc) is missing."
    elif isinstance(error, FileNotFoundError):
        hint = "The file is not there (any more): check `cli_path`."
    elif os.path.isdir(path):
        reason = f"{reason} (it is a directory)"
        hint = "Pass the file itself as `cli_path`."
    elif isinstance(error, PermissionError):
        hint = "Check that the file is executable (`chmod +x`), that its file system allows that, and who may become `user`."
    elif number == 8:  # ENOEXEC
        hint = "It is no program for this machine: install the package for this platform and processor."
    elif number == 7:  # E2BIG
        hint = (
            "The arguments and the environment together are too long: use files for long settings and system prompts."
        )
    return SpawnError(path, reason, cwd=cwd, errno=number, hint=hint)
