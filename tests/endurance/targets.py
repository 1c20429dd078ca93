"""Feed lines to the decoder, to a connection, to the core of a session, and to whole sessions; raise if a rule does not hold.

Every function takes a source of random decisions, so that the same seed gives the same run. None of them waits, except for
`whole_session`, which runs on a shell.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from hackamore import HackamoreError, HookMatcher, Limits, Options, Timeouts, tool, tool_server
from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection
from hackamore._engine.session.core import SessionCore
from hackamore._engine.session.readers import Readers
from hackamore.errors import DecodeError
from hackamore.messages import decode
from hackamore.permissions import Allow
from hackamore.testing import Script, SimulatedCLI, with_faults
from hackamore.testing.faults import Split
from hackamore.testing.faults.flow import Item, Stage
from hackamore.testing.faults.kinds import Direction, EachFrame, Note
from tests.endurance.mutations import REQUEST, TURN, Mutator
from tests.support.shell import Shell
from tests.support.talking import each, got
from tests.testing.faults.talk import talking

Target = Callable[[list[bytes], Random], None]

FRAMES = (Path(__file__).resolve().parents[1] / "messages" / "frames.jsonl").read_bytes().splitlines()
# Lines that cannot be read must not end a case early, most of the time.
PATIENT = Limits(consecutive_decode_errors=1_000_000)
STRICT = Limits(
    consecutive_decode_errors=5, line_bytes=4_000, pending_requests=8, early_requests=2, queued_operations=3
)


def require(condition: object, text: str, *details: object) -> None:
    """Raise an AssertionError with a text; asserts may be left out by the interpreter."""
    if not condition:
        raise AssertionError(" ".join([text, *map(repr, details)]))


# -- the decoder ---------------------------------------------------------------------------------------------------------


def decoder(lines: list[bytes], random: Random) -> None:
    """Decode each line: it is a frame, or a `DecodeError`."""
    for line in lines:
        try:
            frame = decode(line, lambda warning: None)
        except DecodeError:
            continue
        require(frame.raw == line, "not a frame of this line", line)
        if random.random() < 0.002:  # each of these costs as much as a hundred frames
            repr(frame), str(frame), hash(frame)
            for name in dir(type(frame)):
                if not name.startswith("_") and name != "raise_for_error":
                    getattr(frame, name)


# -- a connection --------------------------------------------------------------------------------------------------------


def chunks(lines: Iterable[bytes], random: Random) -> Iterable[bytes]:
    """Cut lines as a pipe does: several at once, or parts of one."""
    data = b"\n".join(lines) + b"\n"
    at = 0
    while at < len(data):
        size = random.choice((1, 30, 500, 4_000, 60_000))
        yield data[at : at + size]
        at += size


def with_ids(lines: list[bytes], turns: list[str], requests: list[str], random: Random) -> list[bytes]:
    """Put ids into the placeholders, such as the peer knows and others."""
    numbers = [b"r%d" % number for number in range(6)]
    known = [name.encode() for name in requests]
    found = []
    for line in lines:
        if b"@" in line:
            line = line.replace(TURN.encode(), random.choice(turns).encode())
            line = line.replace(REQUEST.encode(), random.choice(known if known and random.random() < 0.3 else numbers))
        found.append(line)
    return found


def counted_ids() -> Callable[[int], bytes]:
    """Return a source of ids that are the same in each run."""
    counter = itertools.count(1)
    return lambda size: next(counter).to_bytes(size, "big")


def connection(lines: list[bytes], random: Random) -> None:
    """Feed a connection; every request is answered once, and every exchange has ended at its end."""
    host = Connection(limits=STRICT if random.random() < 0.1 else PATIENT, random_bytes=counted_ids())
    asked = [host.send_initialize({"hooks": None})]
    turns = [host.conversation.send_prompt("go") for _ in range(3)]
    received: Counter[str] = Counter()
    resolved: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    ended_turns: Counter[str] = Counter()
    over = False

    def look() -> None:
        nonlocal over
        for line in host.data_to_send().splitlines():
            frame = json.loads(line)
            if frame["type"] == "control_response":
                answered[frame["response"]["request_id"]] += 1
        for event in host.events_received():
            require(not over, "an event after the end", event)
            match event:
                case events.RequestReceived():
                    received[event.request_id] += 1
                case events.RequestResolved():
                    resolved[event.request_id] += 1
                case events.TurnStateChanged():
                    ended_turns[event.turn_id] += event.state.over
                case events.Ended():
                    over = True
                case _:
                    pass

    confirmed = {"type": "control_response", "response": {"subtype": "success", "request_id": asked[0], "response": {}}}
    if random.random() < 0.9:
        host.receive_data(json.dumps(confirmed).encode() + b"\n")
    for _ in range(3):
        try:
            asked.append(host.exchanges.send_request("mcp_status"))
        except HackamoreError:  # the limits of a strict connection
            break
    for data in chunks(with_ids(lines, turns, asked, random), random):
        host.receive_data(data)
        look()
        for request in list(host.exchanges.in_flight)[:3]:
            match random.randrange(4):
                case 0:
                    host.exchanges.send_response(request.request_id, {"a": 1})
                case 1:
                    host.exchanges.send_error(request.request_id, "no")
                case 2:
                    host.expire(request.request_id, 1.0)
                case _:
                    pass
    if random.random() < 0.5:
        host.begin_stop()
    host.receive_eof()
    host.process_exited(random.choice((0, 1, -9, None)))
    look()
    require(over and host.state.over, "no end")
    for name, counter in (("answer", answered), ("resolution", resolved), ("end of a turn", ended_turns)):
        require(max(counter.values(), default=0) <= 1, f"a second {name}", counter)
    require(not host.exchanges.in_flight and not host.exchanges.pending and not host.turns.open, "an exchange is open")
    require(set(ended_turns) >= set(turns), "a turn has not ended", turns, ended_turns)


# -- the core of a session ----------------------------------------------------------------------------------------------


@tool
def price(article: str) -> float:
    """Return a price."""
    return 2.5


def options_with_callbacks(**more: Any) -> dict[str, Any]:
    """Return options with a callback of each kind."""
    look = HookMatcher(hooks=[lambda asked, context: None])
    return {
        "hooks": {"PreToolUse": [look], "Stop": [look]},
        "can_use_tool": lambda request: Allow(),
        "mcp_servers": {"shop": tool_server("shop", [price])},
        "include_partial_messages": True,
        **more,
    }


def core(lines: list[bytes], random: Random) -> None:
    """Feed the core of a session whose callbacks end in every way; its turns end, and no callback stays open."""
    posted: list[Callable[[], None]] = []
    limits = STRICT if random.random() < 0.1 else PATIENT
    timeouts = Timeouts(turn=50, idle=20, hook=5, permission=5)
    session = SessionCore(Options(**options_with_callbacks(limits=limits, timeouts=timeouts)), posted.append, Readers)
    link, now = session.connection, 1_000.0
    link.state.begin_start()
    request = link.send_initialize({})
    answer = {
        "subtype": "success",
        "request_id": request,
        "response": {"hooks_applied": True, "hook_on_failure_supported": True},
    }
    link.receive_data(json.dumps({"type": "control_response", "response": answer}).encode() + b"\n")
    session.pump(now)
    turns = [session.send("go", None, now) for _ in range(3)]
    for data in chunks(with_ids(lines, [turn.id for turn in turns], [request], random), random):
        now += random.choice((0.0, 0.1, 6.0))
        link.receive_data(data)
        session.pump(now)
        session.expire(now, b"")
        for job in session.callbacks.take():
            outcome, error = random.choice(((None, None), (Allow(), None), (7, None), (None, ValueError("x"))))
            if random.random() < 0.8:
                session.callback_ended(job, outcome, error, now)
        while posted:
            posted.pop()()
        link.data_to_send()
    session.output_ended(now)
    session.process_gone(random.choice((0, 1, -9, None)), b"")
    session.pump(now)
    require(link.state.over, "the session is not over", link.state.lifecycle)
    require(not link.exchanges.in_flight and not link.exchanges.pending, "an exchange is open")
    require(all(turn.state.over for turn in turns), "a turn has not ended", [turn.state for turn in turns])


# -- whole sessions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutate:
    """A fault: damages frames along their structure.

    Attributes:
        lines: good lines, for parts to put in.
        seen: a list that gets every frame that passes.
        probability: how likely a frame is damaged, and how likely another line is put in before it.
    """

    lines: list[bytes]
    seen: list[bytes]
    probability: float
    direction: Direction = "inbound"

    def stage(self, random: Random, note: Note) -> Stage:
        """Return its stage."""
        mutator = Mutator(random, self.lines)

        def change(frame: bytes) -> Iterable[Item]:
            self.seen.append(frame)
            found = []
            if random.random() < self.probability:
                found.append(mutator.line() + b"\n")
            hit = random.random() < self.probability
            return [*found, mutator.damaged(frame[:-1]) + b"\n" if hit else frame]

        return EachFrame(None, None, change, note=lambda what: None, done="", chance=lambda: True)


def conversation() -> Script:
    """Return a script with text, tools of both kinds, and background work."""
    script = Script()
    script.user().thinks("Hm.").says("I look.").calls("Bash", {"command": "ls"}, result="x")
    script.calls("mcp__shop__price", {"article": "tea"}).says("Done.")
    script.user().calls("Bash", {"command": "sleep 1", "run_in_background": True}).says("Started.")
    return script.task_ends().says("Ended.")


def whole_session(backend: Any, random: Random) -> int:
    """Run a conversation with a damaged simulated CLI; every wait ends, in a typed way. Returns the number of its frames."""
    shell, seen = Shell(backend), list[bytes]()
    fault = Mutate(FRAMES, seen, random.choice((0.02, 0.1, 0.4)))
    splits = [Split(None, most=500)] if random.random() < 0.3 else []
    source = with_faults(SimulatedCLI(conversation(), time_scale=0.0), fault, *splits, seed=random.randrange(2**40))
    timeouts = Timeouts(initialize=0.3, turn=0.3, control=0.3, stop_grace=0.1, kill_grace=0.1)

    async def scenario() -> None:
        try:
            async with talking(shell, source, **options_with_callbacks(timeouts=timeouts, limits=PATIENT)) as session:
                for _ in range(2):
                    turn = await got(session.send("go"))
                    async for message in each(turn):
                        repr(message)
                    await got(turn.result())
        except HackamoreError:
            pass

    shell.play(scenario)
    return len(seen)
