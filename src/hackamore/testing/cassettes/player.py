"""Plays the CLI's part of a recorded session: what the host sends is compared, and what the CLI sent comes back.

`Player` decides and never waits; the transports of `hackamore.testing.memory` wait. A frame of the CLI is given when everything that the
host had sent before it has been sent again. Answers of callbacks are matched by the request that they answer, so their order may change;
requests by their subtype, prompts in order. A difference ends the session with `CassetteMismatchError`; so does a host that waits for
something which the recording has only after something that the host does not send.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Self

from hackamore import errors
from hackamore.errors import StartError
from hackamore.runtime.log import logger
from hackamore.testing.cassettes.match import Matcher
from hackamore.testing.errors import CassetteMismatchError
from hackamore.transports.recording.reading import frame_of, object_of
from hackamore.transports.recording.recorder import shown_arguments
from hackamore.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.options.options import Options
    from hackamore.transports.base import LaunchPlan
    from hackamore.transports.recording.reading import Entry, RecordedSession

_BATCH = 256 * 1024
_SHORT = 2_000
_HOST = frozenset({"out", "prompt", "end_input", "stop", "abandon"})
_TELLING = (b'"result"', b'"control_response"', b'"session_state_changed"', b'"background_tasks_changed"')
"""One of these is in each frame that says whether a host may be waiting."""
_CLOSING = frozenset({"end_input", "stop", "abandon"})


class Player:
    """One replayed session: the peer of a transport in memory.

    Args:
        choose: returns the recorded session that fits, given a check of one.
        patience: seconds for which a host that waits may send nothing of what is expected.
        speed: None for as fast as possible; 1.0 for the original timing, 2.0 for twice as fast.
        title: the name of the cassette in messages.
        hint: a sentence for messages about a prompt that differs from the recorded one.

    Attributes:
        error: where the host and the recording parted, if they did.
        by_stop: True if that came of a stop, which interrupts what runs.
    """

    def __init__(
        self,
        choose: Callable[[Callable[[RecordedSession], list[str]]], tuple[RecordedSession | None, list[str]]],
        options: Options,
        *,
        redact: Callable[[str], str] | None,
        patience: float,
        speed: float | None,
        title: str,
        hint: str = "",
    ) -> None:
        self.session: RecordedSession | None = None
        self.error: CassetteMismatchError | None = None
        self.by_stop: bool = False
        self._stderr_told = False
        self._choose = choose
        self._options = options
        self._patience = patience
        self._speed = speed
        self._title = title
        self._hint = hint
        self._redactor = Redactor(Vault("~"), redact)
        self._matcher = Matcher(self._live_value)
        self._entries: list[Entry] = []
        self._frames: dict[int, dict[str, Any]] = {}
        self._open: dict[tuple[str, ...], list[int]] = {}
        self._answers: dict[int, int] = {}  # places of the CLI's answers -> places of the host's requests
        self._matched: set[int] = set()
        self._at = 0
        self._early: set[int] = set()
        self._one_shot = False
        self._unsent = b""
        self._stopped = False
        self._eof = False
        self._input_ended = False
        self._owed: set[str] = set()
        self._turns = 0
        self._busy = False
        self._in_background = False
        self._progress = time.monotonic()
        self._original = 0.0

    def _live_value(self, placeholder: str) -> str | None:
        return self._redactor.vault.values.get(placeholder) or self._redactor.places.live.get(placeholder)

    # -- what the host does --------------------------------------------------------------------------------------------

    def begin(self, plan: LaunchPlan) -> Self:
        """Find the recorded session that the host starts; return the player.

        Raises:
            CassetteMismatchError: no recorded session was started in this way.
            StartError: the recorded one could not be started.
        """
        self._redactor.prepare(plan)
        arguments = shown_arguments(plan, self._redactor)
        self._one_shot = plan.stdin is not None
        prompt = self._redactor.text((plan.stdin or b"").decode("utf-8", "replace"))

        def check(recorded: RecordedSession) -> list[str]:
            said = recorded.first("prompt")
            theirs: dict[str, Any] = {"arguments": recorded.start_field("arguments", [])}
            ours: dict[str, Any] = {"arguments": arguments}
            if said is not None:  # else it did not come to that
                theirs["prompt"], ours["prompt"] = said.fields.get("text", ""), prompt
            return self._matcher.differences(ours, theirs)

        chosen, found = self._choose(check)
        if chosen is None:
            self._mismatch("It is started in another way than the recording was.", found)
            raise self._told()
        self.session = chosen
        self._entries = chosen.entries
        requests: dict[str, int] = {}
        for place, entry in enumerate(self._entries):
            if entry.kind in _HOST:
                lane = self._lane_of(place)
                self._open.setdefault(lane, []).append(place)
                if lane[0] == "control_request":
                    requests[str(self._frames[place].get("request_id"))] = place
            elif entry.kind == "in" and b'"control_response"' in entry.data:
                asked = requests.get(str(_inner(frame_of(entry), "response").get("request_id")))
                if asked is not None:
                    self._answers[place] = asked
        failed = chosen.first("start_error")
        self._moved(chosen.entries[0])
        if failed is not None:
            kind = getattr(errors, str(failed.fields.get("error")), StartError)
            kind = kind if isinstance(kind, type) and issubclass(kind, StartError) else StartError
            message = str(failed.fields.get("message"))
            error = kind.__new__(kind, message)
            error.args = (message,)
            raise error
        return self

    def _lane_of(self, place: int) -> tuple[str, ...]:
        entry = self._entries[place]
        if entry.kind in _CLOSING:
            return ("close",)
        if entry.kind == "prompt":
            return ("prompt",)
        frame = self._frames[place] = frame_of(entry)
        return _lane(frame)

    def receive_data(self, data: bytes) -> None:
        """Match data of the host. Raises nothing: a problem is raised when the host reads."""
        self._unsent += data
        if not self._one_shot:
            *lines, self._unsent = self._unsent.split(b"\n")
            for line in lines:
                if self.error is not None:
                    # The answers that a stop gives for callbacks, and the interrupt after them.
                    self.by_stop = self.by_stop or b'"interrupt"' in line
                elif line.strip():
                    self._take(line)

    def _take(self, line: bytes) -> None:
        redacted, is_json = self._redactor.line(line, inbound=False)
        live = json.loads(redacted) if is_json else {"type": "text", "text": redacted.decode("utf-8", "replace")}
        lane = _lane(live)
        candidates = self._open.get(lane, [])
        found: list[str] = []
        in_order = lane[0] == "user"
        for place in candidates[:1] if in_order else candidates:
            differing = self._matcher.differences(live, self._frames[place])
            if not differing:
                candidates.remove(place)
                self._match(place, lane, live)
                return
            found = found or differing
        if lane[0] == "control_cancel_request":
            return  # the CLI also ignores it
        if candidates:
            self._mismatch(
                f"The host sends another {_named(lane)} than it did (line {self._line(candidates[0])}).",
                found,
                self._hint if in_order else "",
            )
        else:
            self.by_stop = lane == ("control_request", "interrupt")  # perhaps: a stop in a turn sends one
            shown = [f"+ {_brief(live)}"]
            self._mismatch(
                f"The host sends a {_named(lane)} that is not in the recording, or once more than there.", shown
            )

    def _match(self, place: int, lane: tuple[str, ...], live: dict[str, Any]) -> None:
        self._matched.add(place)
        if lane[0] == "user":
            self._turns += 1
        elif lane[0] == "control_request":
            self._owed.add(str(live.get("request_id")))
        self._moved(self._entries[place])

    def _moved(self, entry: Entry) -> None:
        self._progress = time.monotonic()
        self._original = entry.seconds

    def receive_eof(self) -> None:
        """End the input of the host."""
        self._input_ended = True
        for place in self._open.pop(("prompt",), []) if self._one_shot else []:
            self._matched.add(place)  # it was compared at the start
            self._turns += 1
        self._close()

    def stop(self) -> None:
        """Stop the session for the host."""
        self._stopped = True
        self._close()

    def _close(self) -> None:
        """Continue with the end of the CLI, after the end of the input or a stop."""
        self._matched.update(self._open.pop(("close",), []))
        self._progress = time.monotonic()

    # -- what the CLI does ---------------------------------------------------------------------------------------------

    def next(self) -> tuple[bytes | None, float | None]:
        """Return what the CLI sends now: bytes, their end (b""), or None and for how long nothing will happen by itself.

        Raises:
            CassetteMismatchError: the host and the recording have parted.
        """
        now = time.monotonic()
        if self._stopped or self._eof:
            return b"", None
        if self.error is not None:
            raise self._told()
        parts: list[bytes] = []
        size = 0
        while self._at < len(self._entries) and size < _BATCH:
            entry = self._entries[self._at]
            awaited = self._awaited()
            if awaited is not None:
                return self._wait_for_host(parts, now, awaited)
            if entry.kind in ("in", "eof") and self._at not in self._early:
                seconds = self._too_early(entry, now)
                if seconds > 0:
                    return (b"".join(parts), None) if parts else (None, seconds)
                if entry.kind == "eof":
                    if not parts:
                        self._eof = True
                        return b"", None
                    break
                parts.append(self._given(entry))
                size += len(parts[-1])
            self._at += 1
            if b'"control_' in entry.data[:200] or b'"control_request"' in entry.data:
                break  # the host may begin with it before what follows takes it back
        if parts:
            return b"".join(parts), None
        if self._at < len(self._entries):
            return None, 0.0
        return self._wait_for_host(parts, now, None)

    def _awaited(self) -> int | None:
        """Return the place of what the host must send before the recording continues, if it has not yet.

        A request holds up nothing but its answer: at which moment of a turn it is sent differs from run to run.
        """
        place = self._answers.get(self._at, self._at)
        if place in self._matched or self._entries[place].kind not in _HOST:
            return None
        frame = self._frames.get(place, {})
        if place == self._at and frame.get("type") == "control_request":
            return place if _inner(frame, "request").get("subtype") == "initialize" else None
        return place

    def _too_early(self, entry: Entry, now: float) -> float:
        if self._speed is None:
            return 0.0
        return self._progress + (entry.seconds - self._original) / self._speed - now

    def _given(self, entry: Entry) -> bytes:
        self._moved(entry)
        if isinstance(size := entry.fields.get("oversized"), int):
            # Only its size is recorded, not its content.
            return b"x" * min(size, self._options.limits.line_bytes + _BATCH) + b"\n"
        line = self._matcher.incoming(entry.data, is_json=entry.is_json)
        if any(sign in line for sign in _TELLING):
            frame = object_of(line)
            match frame.get("type"), frame.get("subtype"):
                case "result", _:
                    self._turns = max(0, self._turns - 1)
                case "control_response", _:
                    self._owed.discard(str(_inner(frame, "response").get("request_id")))
                case "system", "session_state_changed":
                    self._busy = frame.get("state") != "idle"
                case "system", "background_tasks_changed":
                    self._in_background = bool(frame.get("tasks"))
                case _:
                    pass
        return line if entry.fields.get("cut") else line + b"\n"

    def _wait_for_host(self, parts: list[bytes], now: float, awaited: int | None) -> tuple[bytes | None, float | None]:
        """Return the available data; else wait for the host, without a limit only if it does not wait for the player."""
        if parts:
            return b"".join(parts), None
        if early := self._bookkeeping():
            return early, None
        expected = None if awaited is None else self._entries[awaited]
        frame = {} if awaited is None else self._frames.get(awaited, {})
        answer = frame.get("type") == "control_response"
        waits = self._owed or self._turns > 0 or self._input_ended or self._busy or self._in_background
        if not (answer or waits):
            return None, None
        left = self._progress + self._patience - now
        if left > 0:
            return None, left
        if expected is None or expected.kind in _CLOSING:
            self._mismatch(
                f"The host waits for more, and after {self._patience:g} s the recording has nothing that follows.", []
            )
        else:
            what = _brief(frame or {"type": expected.kind})
            text = f"The host waits, and after {self._patience:g} s it has not sent what comes next (line {expected.line})."
            self._mismatch(text, [f"- {what}"])
        raise self._told()

    def _bookkeeping(self) -> bytes:
        """Return what the recorded host did not wait for before it continued, and this one may wait for: that its last prompt is done."""
        parts = []
        for place in range(self._at + 1, len(self._entries)):
            entry = self._entries[place]
            if entry.kind != "in" or not (entry.is_json and len(entry.data) < _SHORT):
                break
            frame = frame_of(entry)
            ended = frame.get("type") == "command_lifecycle" and frame.get("state") == "completed"
            if not ended and frame.get("state") != "idle":
                break
            if place not in self._early:
                self._early.add(place)
                parts.append(self._given(entry))
        return b"".join(parts)

    def tick(self) -> None:
        """Do nothing: the exit status is recorded."""

    def kill(self) -> None:
        """Stop the session, which the host abandons."""
        self.stop()

    @property
    def exited(self) -> bool:
        """True: the exit status is recorded, or was never there."""
        return True

    @property
    def exit_code(self) -> int | None:
        """The recorded exit status."""
        entry = self.session.first("exit") if self.session is not None else None
        code = entry.fields.get("code") if entry is not None else None
        return code if isinstance(code, int) else None

    @property
    def stderr(self) -> bytes:
        """The recorded end of stderr, once the CLI's output has ended."""
        if self.session is None or not (self._eof or self._stopped):
            return b""
        entry = self.session.first("stderr")
        text = "" if entry is None else str(entry.fields.get("text", ""))
        return self._matcher.incoming(text.encode("utf-8", "replace"), is_json=False)

    def tell_stderr(self) -> None:
        """Give the option `stderr` what was recorded, once."""
        function, tail = self._options.stderr, self.stderr
        if self._stderr_told or function is None or not tail:
            return
        self._stderr_told = True
        for line in tail.decode("utf-8", "replace").splitlines():
            try:
                function(line)
            except Exception:
                logger.exception("`stderr` raised; the session continues")

    # -- how it went ---------------------------------------------------------------------------------------------------

    def left_over(self) -> list[str]:
        """Return what the recorded host sent and this one did not."""
        left = []
        for lane, places in self._open.items():
            matters = lane[0] in ("user", "prompt") or (lane[0] == "control_request" and lane[1] not in _OWN_REQUESTS)
            if matters:
                left += [
                    f"- {_brief(self._frames.get(place, {'type': lane[0]}))} (line {self._line(place)})"
                    for place in places
                ]
        return left

    def _line(self, place: int) -> int:
        return self._entries[place].line

    def _mismatch(self, problem: str, found: list[str], hint: str = "") -> None:
        if self.error is None:
            index = None if self.session is None else self.session.index
            name = "A session" if index is None else f"Session {index}"
            lines = "".join(f"\n{difference}" for difference in found)
            legend = "\nrecorded (-), now (+):" if found else ""
            self.error = CassetteMismatchError(
                f"{name} of {self._title}: {problem}{legend}{lines}\n"
                f'If this is how it should be now, record it again: mode="all", or delete the file.{hint}',
                index,
                found,
            )

    def _told(self) -> CassetteMismatchError:
        assert self.error is not None  # noqa: S101 - for the type checker
        return CassetteMismatchError(str(self.error), self.error.session, self.error.differences)


_OWN_REQUESTS = frozenset({"interrupt", "mcp_message"})
"""Requests that the library sends by itself: at a stop, or while a tool runs."""


def _inner(frame: dict[str, Any], name: str) -> dict[str, Any]:
    value = frame.get(name)
    return value if isinstance(value, dict) else {}


def _lane(frame: dict[str, Any]) -> tuple[str, ...]:
    """Return what a frame is to be compared with: others of its kind."""
    kind = str(frame.get("type"))
    if kind == "control_response":
        return (kind, str(_inner(frame, "response").get("request_id")))
    if kind == "control_request":
        return (kind, str(_inner(frame, "request").get("subtype")))
    return (kind,)


def _named(lane: tuple[str, ...]) -> str:
    names = {"user": "prompt", "control_response": "answer", "control_request": f"request {lane[-1]!r}"}
    return names.get(lane[0], f"frame {lane[0]!r}")


def _brief(frame: dict[str, Any]) -> str:
    text = json.dumps(frame, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:260]}... ({len(text):,} characters)"
