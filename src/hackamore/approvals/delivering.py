"""Deliveries: announcements of requests are written down in the transaction of their cause, and sent until their receiver has them.

A request has three rows for each notifier: the request itself, the reminder, and the outcome, which gets its event and its time from the
process that answers. So that process needs no notifier. A row is deleted once the notifier took its message: a process that is killed in
between leaves it, and the receiver gets it twice.
"""

from __future__ import annotations

import inspect
import os
import re
import threading
import time
from contextlib import contextmanager
from functools import partial
from random import uniform
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hackamore.approvals.requests import insert, text_of_json, verdict
from hackamore.errors import ApprovalError, escape_terminal, without_passwords
from hackamore.options.retry import back_off
from hackamore.runtime import private_loop
from hackamore.runtime.asgi import awaited
from hackamore.runtime.log import logger
from hackamore.storage.holders import holder_name, runs
from hackamore.storage.leases import Heart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hackamore.approvals.requests import ApprovalRequest
    from hackamore.storage.stores import Cursor, Store

_LOOK_SECONDS = 0.5
_FIRST_SECONDS = 5.0
_LONGEST_SECONDS = 300.0
"""A receiver that works again has everything after this time."""
_CLAIM_SECONDS = 900.0
"""A claim that is older does not count: its process cannot be looked at, or a notifier has no time limit."""
_SEND_SECONDS = 60.0
"""The limit of an async notifier; a plain one has to end by itself."""
_LAST_SECONDS = 5.0
_NEVER = 1e15
_ROW = "request = :request AND event = :event AND target = :target"
# A receiver that was down must not learn of the answer before the question.
_DUE = (
    "SELECT d.request, d.event, d.target, d.message, d.tries, d.claimed, d.claimed_at FROM deliveries d WHERE d.target = :target "
    "AND d.due <= :now AND (d.event = 'asked' OR NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.request = d.request "
    "AND e.target = d.target AND e.event = 'asked')) ORDER BY d.due, d.request LIMIT 100"
)
_QUOTED = re.compile(r"`[^`]*`")
_ADDRESS = re.compile(r"(\w+://[^/\s'\"]+)/[^\s'\"]*")


class ReceiverGoneError(Exception):
    """The receiver wants no more messages: the delivery ends."""


def named(notifiers: Sequence[Any]) -> dict[str, Any]:
    """Return notifiers by the names under which the database has their deliveries; raise ValueError if two have one name."""
    found: dict[str, Any] = {}
    for each in notifiers:
        if not callable(getattr(each, "send", None)):
            raise TypeError(f"`notify` needs objects with a method `send(message)`, got {type(each).__name__}")
        name = getattr(each, "name", None)
        name = name if isinstance(name, str) and name else type(each).__qualname__
        if name in found:
            raise ValueError(f"Two notifiers of `notify` have the name {name!r}. Give one of them another `name`.")
        found[name] = each
    return found


def announce(
    cursor: Cursor, request: ApprovalRequest, event: str, now: float, *, notifiers: dict[str, Any], remind: float | None
) -> None:
    """Write down what is to be delivered because of an event of a request."""
    if event == "asked":
        for target, notifier in notifiers.items():
            text = text_of_json(_message(request, content=getattr(notifier, "content", False) is True))
            rows = {"asked": now, "outcome": _NEVER}
            if remind is not None and now + remind < request.deadline:
                rows["reminder"] = now + remind
            for name, due in rows.items():
                insert(cursor, "deliveries", request=request.id, event=name, target=target, message=text, due=due)
        return
    known = {"request": request.id}
    cursor.rows("DELETE FROM deliveries WHERE request = :request AND event = 'reminder'", **known)
    outcomes = "SELECT target, message FROM deliveries WHERE request = :request AND event = 'outcome'"
    change = f"UPDATE deliveries SET event = :new, message = :message, due = :now WHERE {_ROW}"
    for target, text in cursor.rows(outcomes, **known):
        message = {**msgspec.json.decode(text), "answer": verdict(request) or None, "answered_by": request.answered_by}
        cursor.rows(change, new=event, message=text_of_json(message), now=now, event="outcome", target=target, **known)


def _message(request: ApprovalRequest, *, content: bool) -> dict[str, Any]:
    names = ["id", "kind", "tool", "conversation", "reason", "approvers", "asked_at", "deadline"]
    message = {name: getattr(request, name) for name in names + ["input", "tags"] * content}
    if not content:  # policies quote the part of the call that they decided on
        reason = str(request.details.get("decision_reason") or "")
        message["reason"] = without_passwords(_QUOTED.sub("`...`", reason))
    return message


class _Row(NamedTuple):
    request: str
    event: str
    target: str
    message: str
    tries: int
    claimed: str | None
    claimed_at: float | None

    @property
    def key(self) -> dict[str, str]:
        return {"request": self.request, "event": self.event, "target": self.target}


class Courier:
    """Sends what is due to notifiers, until `close`: each has a thread of its own, so that one that hangs holds up no other.

    `delivered` counts the messages that notifiers have taken; `close` sets `ended`.
    """

    def __init__(self, store: Store, notifiers: Mapping[str, Any], settle: Callable[[], None]) -> None:
        self.clock: Callable[[], float] = time.time
        self.delivered: int = 0
        self.ended: threading.Event = threading.Event()
        self._store = store
        self._notifiers = notifiers
        self._settle = settle
        self._lock = threading.Lock()
        self._users = 0
        self._until = 0.0
        self._pid = 0
        self._me = ""
        self._hearts: dict[str, Heart] = {}
        self._left: set[str] = set()  # targets with a round to do after the last user has left
        self._sending: list[dict[str, str]] = []

    @contextmanager
    def working(self) -> Iterator[None]:
        """Send what becomes due during the block, and what is due at its end, in threads."""
        if not self._notifiers:
            yield
            return
        try:
            with self._lock:
                self._enter_process()
                self._users += 1
                for target in {} if self.ended.is_set() else self._notifiers:
                    needed = partial(self._needed, target)
                    heart = self._hearts.setdefault(target, Heart(_LOOK_SECONDS, partial(self._beat, target), needed))
                    heart.start()
        except RuntimeError as error:  # a request waits for its answer also if there can be no more threads
            _warn(f"Requests are not announced: {error}")
        try:
            yield
        finally:
            with self._lock:
                self._users = max(0, self._users - 1)
                self._left.update(self._notifiers)

    def deliver(self, seconds: float | None) -> None:
        """Send what is due now, and what becomes due until the seconds have passed or `close` is called."""
        if seconds is not None and seconds <= 0:
            self._quietly(self._settle)
            for target in self._notifiers:
                self.round(target)
            return
        until = float("inf") if seconds is None else time.monotonic() + seconds
        with self.working():
            while (left := until - time.monotonic()) > 0 and not self.ended.wait(min(left, _LOOK_SECONDS)):
                self._quietly(self._settle)

    def close(self) -> None:
        """End the threads. A last round of a few seconds sends what is due; a notifier that hangs is not waited for."""
        with self.working(), self._lock:  # one that rests begins again
            self._until = time.monotonic() + _LAST_SECONDS
            self.ended.set()
            hearts = list(self._hearts.values())
        for heart in hearts:
            heart.stop()
        for heart in hearts:
            heart.join(max(0.0, self._until + _LAST_SECONDS - time.monotonic()))

    def round(self, target: str) -> None:
        """Send due messages to a notifier. An error of the notifier is logged, and its message sent later."""
        while (row := self._claimed(target)) is not None:
            sent = self._sent(row)
            if self.ended.is_set() and not (sent and time.monotonic() < self._until):
                return

    def _beat(self, target: str) -> None:
        self._left.discard(target)
        self._quietly(self._settle)
        self._quietly(partial(self.round, target))

    def _needed(self, target: str) -> bool:
        return self._users > 0 or target in self._left

    def _quietly(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ApprovalError as error:
            _warn(f"Requests cannot be announced now: {error}")

    def _enter_process(self) -> None:
        """Begin again in a forked copy: threads are not copied."""
        if self._pid != os.getpid():
            self._pid, self._me, self._users, self._hearts = os.getpid(), holder_name(), 0, {}

    def _claimed(self, target: str) -> _Row | None:
        def free(cursor: Cursor) -> _Row | None:
            rows = map(_Row._make, cursor.rows(_DUE, target=target, now=self.clock()))
            return next(filter(self._is_free, rows), None)

        def work(cursor: Cursor) -> _Row | None:
            row = free(cursor)
            if row is not None:
                change = f"UPDATE deliveries SET claimed = :me, claimed_at = :now WHERE {_ROW}"
                cursor.rows(change, me=self._me, now=self.clock(), **row.key)
            return row

        with self._lock:
            self._enter_process()
        row = None if self._store.look(free) is None else self._store.transaction(work)
        if row is not None:
            self._sending.append(row.key)
        return row

    def _is_free(self, row: _Row) -> bool:
        """Return whether no process sends it. The database may have failed when a claim of this process was to end."""
        if row.claimed == self._me:
            return row.key not in self._sending
        old = self.clock() - (row.claimed_at or 0.0) > _CLAIM_SECONDS
        return row.claimed is None or old or runs(row.claimed) is False

    def _sent(self, row: _Row) -> bool:
        """Call the notifier; return whether the message needs no other attempt."""
        statement, values = f"DELETE FROM deliveries WHERE {_ROW} AND claimed = :me", dict[str, Any]()
        try:
            message = {"event": row.event, **msgspec.json.decode(row.message)}
            result = self._notifiers[row.target].send(message)
            if inspect.isawaitable(result):
                private_loop.run(awaited, result, seconds=_SEND_SECONDS)
            self.delivered += 1
            return True
        except ReceiverGoneError as error:
            _warn(f"The announcement {row.event!r} of {row.request} was not delivered: {error}", "DELIVERY_ENDED")
            return True
        except BaseException as error:
            wait = back_off(row.tries + 1, _FIRST_SECONDS, _LONGEST_SECONDS, uniform)
            text = _ADDRESS.sub(r"\1/...", f"{type(error).__name__}: {without_passwords(str(error))}")
            change = "tries = tries + 1, due = :due, claimed = NULL, error = :error"
            statement = f"UPDATE deliveries SET {change} WHERE {_ROW} AND claimed = :me"
            values = {"due": self.clock() + wait, "error": escape_terminal(text, 300)}
            text = f"{row.target}, and is sent again in {wait:.0f} s: {escape_terminal(text, 300)}"
            _warn(f"The announcement {row.event!r} of {row.request} was not delivered to {text}")
            if isinstance(error, KeyboardInterrupt):
                raise
            return False
        finally:
            try:
                self._store.transaction(lambda cursor: cursor.rows(statement, me=self._me, **row.key, **values))
            finally:
                self._sending.remove(row.key)


def _warn(text: str, code: str = "DELIVERY_FAILED") -> None:
    logger.warning("%s", text, extra={"code": code})
