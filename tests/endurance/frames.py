"""Feed damaged frames to every part that reads the CLI, in cases that a seed and a number repeat."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random

from tests.endurance import targets
from tests.endurance.mutations import Mutator, minimised
from tests.endurance.silence import silence
from tests.support.patience import patience

FRAMES_OF_A_CASE = 200
SESSION_EACH = 25
"""One case of so many also runs a whole session, which takes as long as 5,000 frames: most of it waits for timeouts."""
SECONDS_OF_A_CASE = 60.0
BACKENDS = ("asyncio", "trio", "threads")
TARGETS: dict[str, targets.Target] = {
    "decoder": targets.decoder,
    "connection": targets.connection,
    "core": targets.core,
}


@dataclass(frozen=True)
class Failure:
    """A case that failed.

    Attributes:
        case: its number.
        target: the part that failed.
        error: the exception with its traceback.
        lines: the fewest lines that were found to fail; empty for a whole session, which the seed repeats.
    """

    case: int
    target: str
    error: str
    lines: list[bytes] = field(default_factory=list)


@dataclass
class Figures:
    """The sums of a run.

    Attributes:
        cases: the cases that ran.
        frames: the frames that were made; the decoder, a connection and a core each got all of them.
        session_frames: the frames that passed in whole sessions, damaged or not.
        sessions: the whole sessions.
        failures: the cases that failed.
    """

    cases: int = 0
    frames: int = 0
    session_frames: int = 0
    sessions: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Add the sums of another part of the run."""
        self.cases += other.cases
        self.frames += other.frames
        self.session_frames += other.session_frames
        self.sessions += other.sessions
        self.failures += other.failures


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in the block when it takes too long; in the main thread, where signals arrive."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"the case took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lines_of(seed: str, case: int) -> list[bytes]:
    """Return the lines of a case."""
    mutator = Mutator(Random(f"{seed}/{case}"), targets.FRAMES)
    return [mutator.line() for _ in range(FRAMES_OF_A_CASE)]


def run_target(name: str, target: targets.Target, lines: list[bytes], seed: str, case: int) -> Failure | None:
    """Run a case against a target; a failure has the least lines that still fail."""

    def failure(lines: list[bytes]) -> str:
        try:
            with limited(patience(SECONDS_OF_A_CASE)):
                target(lines, Random(f"{seed}/{case}/{name}"))
        except Exception:
            return traceback.format_exc()
        return ""

    error = failure(lines)
    if not error:
        return None
    last = error.splitlines()[-1].split(":")[0]
    least = minimised(
        lines, lambda some: failure(some).splitlines()[-1:] != [] and last in failure(some).splitlines()[-1]
    )
    return Failure(case, name, failure(least) or error, least)


def run_session(seed: str, case: int) -> tuple[str, int, Failure | None]:
    """Run the whole session of a case; return its backend, the number of its frames, and its failure."""
    random = Random(f"{seed}/{case}/session")
    backend = random.choice(BACKENDS)
    try:
        with limited(patience(SECONDS_OF_A_CASE)):
            return backend, targets.whole_session(backend, random), None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return backend, 0, Failure(case, f"session on {backend}", traceback.format_exc())


def run_cases(seed: str, cases: range) -> Figures:
    """Run cases one after the other."""
    figures = Figures()
    with silence():
        for case in cases:
            lines = lines_of(seed, case)
            found = [run_target(name, target, lines, seed, case) for name, target in TARGETS.items()]
            figures.cases += 1
            figures.frames += len(lines)
            if case % SESSION_EACH == 0:
                backend, frames, failure = run_session(seed, case)
                figures.sessions[backend] += 1
                figures.session_frames += frames
                found.append(failure)
            figures.failures += filter(None, found)
    return figures


def run(
    seed: str, frames: int, *, workers: int, minutes: float | None, told: Callable[[Figures, float], None]
) -> Figures:
    """Run as many cases as the frames need, in several processes.

    Args:
        seed: repeats the run.
        frames: how many frames to make.
        workers: processes at the same time.
        minutes: stop after so many minutes; None runs all frames.
        told: gets the sums so far and the seconds, about every ten seconds.
    """
    cases = -(-frames // FRAMES_OF_A_CASE)
    batch = max(1, min(50, cases // workers))
    batches = (range(start, min(cases, start + batch)) for start in range(0, cases, batch))
    figures, began = Figures(), time.monotonic()
    last = began
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future[Figures]] = set()
        while True:
            late = minutes is not None and time.monotonic() - began > minutes * 60
            while not late and len(running) <= workers and (following := next(batches, None)) is not None:
                running.add(pool.submit(run_cases, seed, following))
            if not running:
                return figures
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for part in done:
                figures.add(part.result())
            if time.monotonic() - last > 10:
                last = time.monotonic()
                told(figures, last - began)
