"""The link to a supervisor: its words in the output, signs of life in both directions, the local process that carries it.

The words stand between the bytes of the CLI, also in the middle of a line: each begins with a control character, which JSON never has.
The bytes of the far side are data: it can say that its CLI has ended, and nothing more.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from enum import auto
from typing import TYPE_CHECKING, NamedTuple

from hackamore.runtime.log import logger
from hackamore.runtime.tables import Member
from hackamore.transports.process.child import READ_BYTES, Child
from hackamore.transports.recording.masking import Mask

if TYPE_CHECKING:
    from typing import Any

    from hackamore._engine.launch.plan import LaunchPlan
    from hackamore.transports.remote.script import First

_SIGN = b"\x1e"
_LONGEST_WORD = 4_096
_KEPT_NOISE = 2_000
_TICK_SECONDS = 0.25
"""How often the thread looks at the links, and the shortest time between two beats."""
_CAUGHT = frozenset({1, 2, 15})
"""Signals that the CLI catches: it then exits with 128 and the number, by itself (2.1.327)."""


class State(Member):
    """State of the far side, as far as it is known."""

    CALLING = auto()
    """The supervisor has said nothing yet. Other output is noise of shells."""
    READY = auto()
    REFUSED = auto()
    """It said why it starts nothing."""
    EXITED = auto()
    """It said how its CLI ended."""
    LOST = auto()
    """The link ended before."""


class Trigger(Member):
    READY = auto()
    FAIL = auto()
    EXIT = auto()
    EOF = auto()


_S, _T = State, Trigger
LINK: dict[tuple[State, Trigger], State] = {
    (_S.CALLING, _T.READY): _S.READY,
    (_S.CALLING, _T.FAIL): _S.REFUSED,
    (_S.CALLING, _T.EOF): _S.LOST,
    (_S.READY, _T.FAIL): _S.REFUSED,
    (_S.READY, _T.EXIT): _S.EXITED,
    (_S.READY, _T.EOF): _S.LOST,
    **{(state, _T.EOF): state for state in (_S.REFUSED, _S.EXITED, _S.LOST)},
}
"""A word without a cell is not of the supervisor, and stays in the output."""


class Refusal(NamedTuple):
    """Reason of a supervisor that refused to start."""

    code: str
    detail: str


class Output:
    """Takes the words of a supervisor out of what comes over a link.

    Attributes:
        noise: the end of the output before the supervisor: of start-up files, or of an error.
        silent: for so many seconds nothing came when the link was ended; None if that is not the reason of its end.
    """

    def __init__(self, tag: str) -> None:
        self.state: State = State.CALLING
        self.noise: bytes = b""
        self.refusal: Refusal | None = None
        self.code: int | None = None
        self.deaf: bool = False
        self.silent: float | None = None
        self._sign = _SIGN + tag.encode() + b" "
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of the CLI; a word whose end has not come waits for it."""
        if self._held:
            data, self._held = self._held + data, b""
        elif self.state is State.READY and _SIGN not in data:
            return data
        parts, at = [], 0
        while (found := data.find(_SIGN, at)) >= 0:
            head = data[found : found + len(self._sign)]
            if head != self._sign[: len(head)]:
                parts.append(data[at : found + 1])
                at = found + 1
                continue
            end = data.find(b"\n", found, found + _LONGEST_WORD)
            if end < 0:
                if len(data) - found >= _LONGEST_WORD:  # no word is so long
                    parts.append(data[at : found + 1])
                    at = found + 1
                    continue
                self._held = data[found:]
                break
            self._take(data[at:found], parts)
            if not self._heard(data[found + len(self._sign) : end].decode("utf-8", "replace")):
                self._take(data[found : end + 1], parts)
            at = end + 1
        self._take(data[at : len(data) - len(self._held)], parts)
        return b"".join(parts)

    def end(self) -> bytes:
        """Note the end of the output; return what was held for a word that will not come."""
        held, self._held = self._held, b""
        self._move(Trigger.EOF)
        return held if self.state is State.LOST else b""

    def _take(self, data: bytes, parts: list[bytes]) -> None:
        if self.state is State.CALLING:
            self.noise = (self.noise + data)[-_KEPT_NOISE:]
        elif data:
            parts.append(data)

    def _heard(self, words: str) -> bool:
        word, _, rest = words.partition(" ")
        match word:
            case "ready":
                return self._move(Trigger.READY)
            case "fail" if self._move(Trigger.FAIL):
                code, _, detail = rest.partition(" ")
                self.refusal = Refusal(code, detail)
            case "exit" if rest.isdecimal() and rest.isascii() and len(rest) <= 3 and self._move(Trigger.EXIT):
                number = int(rest)
                # A shell says 128 and the number for a signal.
                self.code = 128 - number if 128 < number < 193 and number - 128 not in _CAUGHT else number
            case "deaf":
                self.deaf = True
            case "beat":
                pass
            case _:
                return False
        return True

    def _move(self, trigger: Trigger) -> bool:
        after = LINK.get((self.state, trigger))
        self.state = after or self.state
        return after is not None


class LinkChild(Child):
    """The local process that carries a link to what `far` starts, with the words of the supervisor taken out of its output."""

    def __init__(self, plan: LaunchPlan, *, far: LaunchPlan, first: First, heartbeat: float, **settings: Any) -> None:
        super().__init__(plan, **settings)
        self._mask = Mask(far)  # stderr is that of the far side
        self.first: First = first
        self.output: Output = Output(first.tag)
        self.heartbeat: float = heartbeat
        self.fed: bool = far.stdin is None  # a sign of life before the prompt would be counted as a part of it
        self.heard_at: float = time.monotonic()

    def start(self) -> None:
        super().start()
        self.queue(self.first.data)
        self.heard_at = time.monotonic()
        pulse.add(self)

    def take(self, size: int = READ_BYTES) -> bytes | None:
        """Return bytes of the CLI, b"" at their end, None if the caller has to wait."""
        data = super().take(size)
        if data is None:
            return None
        if not data:
            return self.output.end()
        self.heard_at = time.monotonic()
        return self.output.feed(data) or None

    @property
    def input_broken(self) -> bool:
        """True once the CLI, or the link, is known not to read any more."""
        return self.output.deaf or super().input_broken

    def beat(self, now: float) -> None:
        """Send a sign of life, and end the link if none has come for too long."""
        if self.stopping or self.exited or self.output.state not in (State.CALLING, State.READY):
            return
        if self.fed:
            self.queue(b"" if self.input_waits else b"\n")
        else:
            self.heard_at = now  # the other side waits
        # Output that the session has not read yet is a sign as well.
        if now - self.heard_at > self.heartbeat and self.output.state is State.READY and not self._has_output():
            self.output.silent = self.heartbeat
            logger.warning("a link was silent for %g s, and is ended", self.heartbeat, extra={"pid": self.pid})
            self.kill_now()

    def _has_output(self) -> bool:
        with self._lock:
            if self._stdout is None:
                return False
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            return bool(poll.poll(0))

    def drain(self) -> None:
        """Read the bytes that are on stderr now."""
        if self._stderr is not None:
            self._stderr.read()

    def done_now(self) -> None:
        super().done_now()
        pulse.rest()


class Pulse:
    """The thread that keeps the links of this process alive, and ends with the last one. An event loop may be busy: it is not."""

    def __init__(self) -> None:
        self._links: weakref.WeakSet[LinkChild] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, link: LinkChild) -> None:
        with self._changed:
            self._links.add(link)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hackamore-links", daemon=True)
                self._thread.start()

    def rest(self) -> None:
        """Let the thread end now if there is nothing to do."""
        with self._changed:
            self._changed.notify()

    def after_fork(self) -> None:
        self._thread, self._links, self._changed = None, weakref.WeakSet(), threading.Condition()

    def _run(self) -> None:
        beats: weakref.WeakKeyDictionary[LinkChild, float] = weakref.WeakKeyDictionary()
        while True:
            with self._changed:
                self._changed.wait(_TICK_SECONDS)
                self._links = weakref.WeakSet(link for link in self._links if not link.done.is_set())
                if not self._links:
                    self._thread = None
                    return
                links = list(self._links)
            now = time.monotonic()
            for link in links:
                # Six in a silence: one that is late, and a clock with whole seconds over there, leave enough.
                every = max(_TICK_SECONDS, link.heartbeat / 6)
                if now >= beats.setdefault(link, now + every):
                    beats[link] = now + every
                    try:
                        link.beat(now)
                    except Exception:
                        logger.exception("a link could not be kept alive", extra={"pid": link.pid})
            del links


pulse: Pulse = Pulse()
os.register_at_fork(after_in_child=pulse.after_fork)
