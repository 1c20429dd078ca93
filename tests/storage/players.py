"""Objects that keep things in a SQLite file, all behind the same calls, and programs that use them on request."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
import traceback
from typing import TYPE_CHECKING, Any, ClassVar

from hackamore.budgets.ledger import Bounds, Ledger
from hackamore.fleet.journal import open_journal
from hackamore.fleet.task import Spec
from hackamore.pool import SQLiteRegistry
from hackamore.pool.registry import Record
from hackamore.storage.holders import holder_name
from hackamore.transcripts.stores import SQLiteStore
from tests.support.forking import Fork
from tests.support.journals import open_tasks
from tests.support.patience import patience

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["KINDS", "Kept", "Player", "Playing"]


_time = time.time
_MOST = 40
"""More than all numbers that are put into one file."""


class Kept:
    """One object on a file."""

    file: Any

    def put(self, number: int) -> None:
        """Keep a number; it is acknowledged when this returns."""
        raise NotImplementedError

    def kept(self) -> list[int]:
        """Return the numbers that are kept, in order."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self.file.close()


class InRegistry(Kept):
    """A number is a conversation of the folder `/`."""

    def __init__(self, path: str) -> None:
        self.file = SQLiteRegistry(path)

    def put(self, number: int) -> None:
        key, me = str(number), holder_name()
        assert self.file.acquire(key, me).taken
        assert self.file.save(key, me, Record(key, "/"))
        self.file.release(key, me)

    def kept(self) -> list[int]:
        me = holder_name()
        found = []
        for number in range(_MOST):
            record = self.file.acquire(str(number), me).record
            self.file.release(str(number), me)
            if record is not None:
                found.append(int(record.session_id))
        return found


class InBudget(Kept):
    """A number is a tenant, which has spent one dollar."""

    def __init__(self, path: str) -> None:
        self.file = Ledger(path)

    def put(self, number: int) -> None:
        none = Bounds(None, None)
        self.file.charge([], [(f"tenant={number}", none), ("", none)], 10**9, 0)

    def kept(self) -> list[int]:
        accounts = {row.key: row.usd for row in self.file.rows()}
        assert accounts.pop("", 0) == sum(accounts.values())
        assert set(accounts.values()) <= {10**9}, "spent twice"
        return sorted(int(key.partition("=")[2]) for key in accounts)


class InStore(Kept):
    """A number is an entry of a transcript: a title, which any writer may add."""

    KEY: ClassVar[Any] = {"project_key": "-work", "session_id": "11111111-2222-4333-8444-555555555555"}

    def __init__(self, path: str) -> None:
        self.file = SQLiteStore(path)

    def put(self, number: int) -> None:
        asyncio.run(self.file.append(self.KEY, [{"type": "custom-title", "n": number, "text": "x" * 900}]))

    def kept(self) -> list[int]:
        return sorted(entry["n"] for entry in asyncio.run(self.file.load(self.KEY)) or [])


class InJournal(Kept):
    """A number is a task."""

    def __init__(self, path: str) -> None:
        self.file = open_journal(path)

    def put(self, number: int) -> None:
        self.file.add([(str(number), Spec(prompt="x"))])

    def kept(self) -> list[int]:
        return sorted(int(task) for task in open_tasks(self.file))


KINDS: dict[str, Any] = {"registry": InRegistry, "budget": InBudget, "store": InStore, "journal": InJournal}


class Player:
    """Another program, which does what it is told with objects of its own.

    Args:
        kind: the kind of its objects.
    """

    def __init__(self, kind: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._mine, its = context.Pipe()
        self._process = context.Process(target=_play, args=(its, kind), daemon=True)
        self._process.start()
        its.close()
        self.answer()

    def tell(self, request: str, *values: Any) -> None:
        """Send a request, a call of `_Playing`."""
        self._mine.send((request, values))

    def answer(self) -> Any:
        """Wait for the answer to a request; raise what it raised."""
        assert self._mine.poll(patience(60)), "the other program hangs"
        answer, error = self._mine.recv()
        assert error is None, error
        return answer

    def ask(self, request: str, *values: Any) -> Any:
        """Send a request, and return its answer."""
        self.tell(request, *values)
        return self.answer()

    def stop(self) -> None:
        """Stop the program, which waits for a request and is in no transaction."""
        os.kill(self._process.pid or 0, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let the program continue."""
        os.kill(self._process.pid or 0, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the program."""
        self._process.kill()
        self._process.join(patience(30))
        self._mine.close()


class Playing:
    """What a program can be told to do.

    Args:
        kind: the kind of its objects.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.objects: dict[int, Kept] = {}

    def open(self, number: int, path: str) -> None:
        """Make an object; the one with the same number is dropped."""
        self.objects[number] = KINDS[self._kind](path)

    def put(self, number: int, value: int) -> None:
        """Keep a number."""
        self.objects[number].put(value)

    def kept(self, number: int) -> list[int]:
        """Return the numbers that are kept."""
        found: list[int] = self.objects[number].kept()
        return found

    def close(self, number: int) -> None:
        """Close the file."""
        self.objects[number].close()

    def drop(self, number: int) -> None:
        """Forget an object without closing it."""
        self.objects.pop(number, None)

    def step(self, seconds: float) -> None:
        """Let the wall clock of this program be wrong by so many seconds."""
        time.time = (lambda: _time() + seconds) if seconds else _time

    def fork(self, number: int, value: int) -> None:
        """Keep a number in a forked copy, which then ends."""
        Fork(lambda _: self.put(number, value)).wait()


def _play(requests: Connection, kind: str) -> None:
    playing = Playing(kind)
    requests.send((os.getpid(), None))
    while True:
        try:
            name, values = requests.recv()
        except EOFError:
            return
        try:
            requests.send((getattr(playing, name)(*values), None))
        except BaseException:
            requests.send((None, traceback.format_exc(limit=-4)))
