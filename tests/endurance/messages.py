"""Read many messages from a light CLI, and measure memory on the way: it stays flat for a reader that keeps up.

Each shell and each way of reading is measured in a process of its own: `python -m tests.endurance.messages '{"shell": "trio", ...}'`.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hackamore import AssistantMessage, Timeouts
from hackamore._engine.session.events import TurnCompleted
from tests.support.light import light, resident
from tests.support.patience import patience
from tests.support.shell import Backend, Shell
from tests.support.talking import each, got, make, steps, until

SHELLS: tuple[Backend, ...] = ("asyncio", "trio", "threads")
MESSAGE_CHARACTERS = 200
RECENT_BYTES = 1024 * 1024
"""The last messages of a turn are kept for `error.partial`, so that many."""
NOISE_BYTES = 8_000_000
"""What malloc holds free, and what is on its way between the CLI and the reader."""
TIMEOUTS = Timeouts(turn=None, idle=120)


class Case(NamedTuple):
    """A way of reading.

    Attributes:
        shell: the shell.
        cursors: whether other tasks or threads read `messages()` and `events()` at the same time.
        turns: the messages come in so many turns.
        messages: how many messages come in all.
    """

    shell: Backend
    cursors: bool
    turns: int
    messages: int


class Sample(NamedTuple):
    """What the process held when so many messages had been read.

    Attributes:
        messages: the messages.
        resident: bytes of memory that it occupied.
        blocks: live blocks of Python's allocator.
        seconds: since the first prompt.
    """

    messages: int
    resident: int
    blocks: int
    seconds: float


class Found(NamedTuple):
    """The samples of a case."""

    case: Case
    samples: list[Sample]

    @property
    def growth(self) -> int:
        """Bytes of memory at the last message, less those at the first sample."""
        return self.samples[-1].resident - self.samples[0].resident

    @property
    def allowed(self) -> int:
        """The growth that is the buffer for `error.partial`, and noise."""
        return NOISE_BYTES + (RECENT_BYTES if self.case.turns == 1 else 0)

    @property
    def grows(self) -> bool:
        """True if memory grew by more than that."""
        return self.growth > self.allowed


def moments(messages: int) -> list[int]:
    """Return the numbers of messages after which a sample is taken: 1,000 and ten times as many, up to all."""
    powers = [1_000]
    while powers[-1] * 10 < messages:
        powers.append(powers[-1] * 10)
    return [*(power for power in powers if power < messages), messages]


def sample(messages: int, began: float) -> Sample:
    """Measure this process."""
    gc.collect()
    return Sample(messages, resident(), sys.getallocatedblocks(), time.monotonic() - began)


class Reading:
    """Reads all messages of a case, and takes the samples."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._each_turn = case.messages // case.turns
        self._moments = moments(case.messages)
        self.samples: list[Sample] = []
        self.seen: dict[str, int] = {"turns": 0, "messages": 0, "events": 0}

    async def turns(self, shell: Shell, session: Any) -> None:
        """Read the turns, then stop the session, which ends the cursors."""
        began = time.monotonic()
        for _ in range(self._case.turns):
            prompt = steps(["flood", self._each_turn, MESSAGE_CHARACTERS])
            async for message in each(await got(session.send(prompt))):
                if isinstance(message, AssistantMessage):
                    self.seen["turns"] += 1
                    if self._moments and self.seen["turns"] == self._moments[0]:
                        # What a cursor has still to read is alive: on a busy machine a few thousand messages.
                        if self._case.cursors:
                            await until(shell, lambda: self.seen["messages"] >= self.seen["turns"])
                        self.samples.append(sample(self._moments.pop(0), began))
        await got(session.stop())

    async def messages(self, cursor: Any) -> None:
        """Read a cursor of messages to its end."""
        async for message in each(cursor):
            self.seen["messages"] += isinstance(message, AssistantMessage)

    async def events(self, cursor: Any) -> None:
        """Read a cursor of events to its end."""
        async for event in each(cursor):
            self.seen["events"] += isinstance(event, TurnCompleted)

    async def run(self, shell: Shell, session: Any) -> None:
        """Read everything."""
        await got(session.start())
        work: list[Callable[[], Any]] = [lambda: self.turns(shell, session)]
        if self._case.cursors:
            of_messages, of_events = session.messages(), session.events()
            work += [lambda: self.messages(of_messages), lambda: self.events(of_events)]
        await _together(shell, work)
        expected = (self._case.messages, self._case.turns) if self._case.cursors else (0, 0)
        if self.seen["turns"] != self._case.messages or (self.seen["messages"], self.seen["events"]) != expected:
            raise AssertionError(f"{self._case}: {self.seen}")


async def _together(shell: Shell, work: Sequence[Callable[[], Any]]) -> None:
    """Run the first of these functions here, and the others at the same time: as tasks, or in threads."""
    first, *others = work
    if not shell.blocking:
        import anyio

        async with anyio.create_task_group() as group:
            for one in work:
                group.start_soon(one)
        return
    errors: list[BaseException] = []

    def run(function: Callable[[], Any]) -> None:
        try:
            shell.play(function)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in others]
    for thread in threads:
        thread.start()
    await first()
    for thread in threads:
        thread.join(patience(60))
    if errors or any(thread.is_alive() for thread in threads):
        raise AssertionError(f"a cursor failed, or did not end: {errors}")


def measure(case: Case) -> Found:
    """Read the messages of a case in this process."""
    shell, reading = Shell(case.shell), Reading(case)
    with tempfile.TemporaryDirectory(prefix="hackamore-messages-") as folder:
        session = make(shell, light(Path(folder))(timeouts=TIMEOUTS))
        shell.play(reading.run, shell, session)
    return Found(case, reading.samples)


def measured_alone(case: Case, seconds: float) -> Found:
    """Read the messages of a case in a fresh interpreter."""
    command = [sys.executable, "-m", "tests.endurance.messages", json.dumps(case._asdict())]
    project = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=project, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds)
    return Found(case, [Sample(*one) for one in json.loads(done.stdout)])


def cases(messages: int) -> list[Case]:
    """Return the cases: every shell, with and without cursors, in one turn and in turns of 1,000 messages."""
    return [
        Case(shell, cursors, turns, messages)
        for turns in (1, max(1, messages // 1_000))
        for shell in SHELLS
        for cursors in (False, True)
    ]


def table(found: Sequence[Found]) -> str:
    """Return the samples as a Markdown table, in MB."""
    names = [f"{one.messages:,}" for one in found[0].samples]
    lines = [f"| Shell, readers, turns | {' | '.join(names)} | Messages/s |", "|---" * (len(names) + 2) + "|"]
    for one in found:
        readers = "turn, `messages()`, `events()`" if one.case.cursors else "turn"
        sizes = [f"{sample.resident / 1e6:.1f}" for sample in one.samples]
        rate = one.case.messages / one.samples[-1].seconds
        verdict = f" GROWS: {one.growth / 1e6:.1f} MB, limit {one.allowed / 1e6:.1f} MB" if one.grows else ""
        lines.append(
            f"| {one.case.shell}; {readers}; {one.case.turns:,} | {' | '.join(sizes)} | {rate:,.0f}{verdict} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(Case(**json.loads(sys.argv[1]))).samples))
