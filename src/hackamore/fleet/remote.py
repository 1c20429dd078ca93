"""Attempts in a process that an executor has started: the worker of that process, and its end."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import threading
from functools import cache

from hackamore.errors import FleetError, JournalError
from hackamore.fleet.journal import open_journal
from hackamore.fleet.orders import Ended
from hackamore.fleet.sending import unpack
from hackamore.fleet.states import Cause
from hackamore.fleet.worker import Worker

_LINGER_SECONDS = 5.0
"""How long a worker without attempts sends heartbeats, for the next one."""


class _Shared:
    """The worker of this process for one journal, while there are attempts."""

    def __init__(self, address: str) -> None:
        self.worker: Worker = Worker(open_journal(address, create=False))
        self.worker.start()
        self.users: int = 0
        self.end: threading.Timer | None = None


_workers: dict[tuple[int, str], _Shared] = {}
"""By process, since a fork inherits them, and journal."""
_changed = threading.Condition()
_parent_gone = threading.Event()


def run_order(parcel: bytes) -> Ended:
    """Make an attempt in this process, which an executor has started; return how it ended. The journal has it as well.

    Raises:
        FleetError: this process cannot make attempts: it has another version of Hackamore, or cannot use the journal.
    """
    order = unpack(parcel)
    if threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is not None:
        _live_in_pool(os.getpid())
    if _parent_gone.is_set():
        return Ended(order.task.id, order.lease.attempt, 0.0, Cause.STOPPED)
    key = os.getpid(), order.journal
    try:
        shared = _use(key)
    except JournalError as error:
        raise FleetError(
            f"The worker on {platform.node()!r} cannot use the journal: {error} Workers on other machines need a journal in Postgres."
        ) from error
    try:
        return shared.worker.run(order)
    finally:
        _leave(key, shared)


def _use(key: tuple[int, str]) -> _Shared:
    with _changed:
        shared = _workers.get(key)
        if shared is None:
            shared = _workers[key] = _Shared(key[1])
        if shared.end is not None:
            shared.end.cancel()
            shared.end = None
        shared.users += 1
        return shared


def _leave(key: tuple[int, str], shared: _Shared) -> None:
    with _changed:
        shared.users -= 1
        _changed.notify_all()
        if shared.users == 0:
            shared.end = threading.Timer(_LINGER_SECONDS, lambda: _end(key, shared))
            shared.end.name = "hackamore-fleet-linger"
            shared.end.daemon = True
            shared.end.start()


def _end(key: tuple[int, str], shared: _Shared) -> None:
    with _changed:
        if shared.users or _workers.get(key) is not shared:
            return
        del _workers[key]
    shared.worker.end()
    shared.worker.journal.close()


@cache
def _live_in_pool(pid: int) -> None:
    """Let the processes of a `ProcessPoolExecutor` neither outlive its program, nor be ended by Ctrl-C, which its program answers.

    Without it a program that is killed leaves them waiting for work for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="hackamore-fleet-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    _parent_gone.set()
    with _changed:
        _changed.wait_for(lambda: not any(shared.users for shared in _workers.values()))
        workers = list(_workers.values())
    for shared in workers:
        shared.worker.end()
    os._exit(1)
