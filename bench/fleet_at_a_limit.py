"""A fleet that meets a rate limit, as a chart: `python bench/fleet_at_a_limit.py [FILE.svg]`.

The simulated CLIs share an account whose limit is used up after some agents, until a reset some seconds later. While the fleet runs, its
agents, their limit and the finished tasks are sampled by the clock on the wall. The script fails if an attempt that met the limit was
counted as a failure, or if an agent started before the reset.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hackamore import Retry
from hackamore.fleet import ConcurrencyChanged, Fleet, FleetEvent, Task, TaskChanged
from hackamore.testing import Script, SimulatedCLI

if TYPE_CHECKING:
    from hackamore.fleet import Answer
    from hackamore.testing.memory import AsyncMemoryTransport, SyncMemoryTransport

CHART = Path(__file__).resolve().parent.parent / "docs" / "assets" / "fleet-at-a-limit.svg"
TASKS, AGENTS, GOOD = 200, 16, 60
REPLY_SECONDS, CHECK_SECONDS, RESET_SECONDS, SAMPLE_SECONDS = 1.0, 1.0, 8.0, 0.05


class Account:
    """Simulated CLIs of one account: after `GOOD` agents its limit is used up for `RESET_SECONDS`."""

    def __init__(self) -> None:
        self.resets_at = 0.0
        self._left = GOOD
        self._lock = threading.Lock()
        script = Script().user().slow(REPLY_SECONDS).says("Done.")
        self._before = SimulatedCLI(script, time_scale=1, per_session=True)
        self._after: SimulatedCLI | None = None

    def _cli(self) -> SimulatedCLI:
        with self._lock:
            if self._left:
                self._left -= 1
                return self._before
            if self._after is None:
                # Resets are whole seconds.
                reset = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=REPLY_SECONDS + RESET_SECONDS)
                self.resets_at = reset.timestamp()
                script = Script().user().slow(REPLY_SECONDS).usage_limited(reset).says("Done.")
                self._after = SimulatedCLI(script, time_scale=1, per_session=True)
            return self._after

    def for_async(self) -> AsyncMemoryTransport:
        """Return the transport of the next agent."""
        return self._cli().for_async()

    def for_sync(self) -> SyncMemoryTransport:
        """Return the transport of the next agent."""
        return self._cli().for_sync()


class Sample(NamedTuple):
    """The fleet at one moment."""

    at: float
    running: int
    limit: int
    finished: int


def check(answer: Answer) -> bool:
    """Take a random time, so that the agents do not end at the same moment."""
    time.sleep(random.Random(answer.task).uniform(0, CHECK_SECONDS))
    return answer.text == "Done."


def measure(folder: str) -> tuple[list[Sample], float, float, int]:
    """Run the fleet; return samples, the seconds of the limit and its reset since the start, and how many attempts met it."""
    account = Account()
    retry = Retry(backoff=0, rate_limit_wait=None)
    fleet = Fleet(f"{folder}/journal.db", concurrency=AGENTS, retry=retry, transport=account)
    events: list[FleetEvent] = []
    samples: list[Sample] = []
    began = time.time()
    run = fleet.run(Task(f"task-{number}", f"Do the work {number}", verify=check) for number in range(TASKS))
    reader = threading.Thread(target=lambda: events.extend(run))
    reader.start()
    while reader.is_alive():
        now = run.progress()
        samples.append(Sample(time.time() - began, now.running, now.limit, now.finished))
        reader.join(SAMPLE_SECONDS)
    rows = list(fleet.results())
    causes = [tuple(attempt.cause for attempt in fleet.attempts(row.task)) for row in rows]
    met = causes.count(("throttled", None))
    first = next(event for event in events if isinstance(event, ConcurrencyChanged))
    leased = [event.at for event in events if isinstance(event, TaskChanged) and event.state == "leased"]
    assert {(row.state, row.failures) for row in rows} == {("succeeded", 0)}, "an attempt was counted as a failure"
    assert len(rows) == TASKS
    assert 0 < met == TASKS - causes.count((None,)), set(causes)
    assert (first.limit, first.cause) == (AGENTS // 2, "throttled")
    assert not [at for at in leased if first.at < at < account.resets_at], "an agent started before the reset"
    assert samples[-1].limit == AGENTS
    return samples, first.at - began, account.resets_at - began, met


WIDTH, LEFT, RIGHT = 760, 64, 744
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .card { fill: #ffffff } .grid { stroke: #d8dee4 } .axis { stroke: #57606a } .pause { fill: #f3d9a4; opacity: .55 }
  .running { fill: #2f6fb5; opacity: .45 } .limit { stroke: #b3261e } .done { stroke: #2f6fb5 } .line { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .card { fill: #1e2129 } .grid { stroke: #3d444d } .axis { stroke: #9198a1 } .pause { fill: #6b5521 }
    .running { fill: #6cb0f5 } .limit { stroke: #ff8a80 } .done { stroke: #6cb0f5 }
  }
"""


class Panel:
    """A chart over the seconds of the run.

    Args:
        top: where it begins.
        bottom: where it ends.
        most: the highest value of its axis.
        step: the distance of its lines.
        seconds: the end of the time.
    """

    def __init__(self, top: int, bottom: int, most: int, step: int, seconds: float) -> None:
        self._top, self._bottom, self._most, self._step, self._seconds = top, bottom, most, step, seconds

    def x(self, at: float) -> float:
        """Return the place of a moment."""
        return round(LEFT + (RIGHT - LEFT) * at / self._seconds, 1)

    def y(self, value: float) -> float:
        """Return the place of a value."""
        return round(self._bottom - (self._bottom - self._top) * value / self._most, 1)

    def frame(self, title: str) -> list[str]:
        """Return lines, numbers and the name of the axis."""
        found = [
            f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{self.y(value)}" y2="{self.y(value)}"/>'
            f'<text x="{LEFT - 8}" y="{self.y(value) + 4}" text-anchor="end">{value}</text>'
            for value in range(0, self._most + 1, self._step)
        ]
        middle = (self._top + self._bottom) / 2
        found.append(f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{title}</text>')
        found.append(f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{self._bottom}" y2="{self._bottom}"/>')
        return found

    def steps(self, values: list[tuple[float, int]]) -> str:
        """Return a path that stays at each value until the next one."""
        path, last = "", None
        for at, value in [*values, (values[-1][0], -1)]:
            if value != last and value >= 0:
                path += f"H{self.x(at)}V{self.y(value)}" if path else f"M{self.x(at)} {self.y(value)}"
                last = value
        return f"{path}H{self.x(values[-1][0])}"

    def pause(self, since: float, until: float) -> str:
        """Return the time in which nothing starts."""
        left, right = self.x(since), self.x(until)
        return f'<rect class="pause" x="{left}" y="{self._top}" width="{right - left:.1f}" height="{self._bottom - self._top}"/>'


def draw(samples: list[Sample], met_at: float, resets_at: float) -> str:
    """Return the chart as SVG."""
    seconds = samples[-1].at
    agents = Panel(44, 204, AGENTS + 2, 4, seconds)
    tasks = Panel(232, 352, TASKS, 50, seconds)
    running = agents.steps([(each.at, each.running) for each in samples])
    limit = agents.steps([(each.at, each.limit) for each in samples])
    done = tasks.steps([(each.at, each.finished) for each in samples])
    centre = (agents.x(met_at) + agents.x(resets_at)) / 2
    ticks = [
        f'<text x="{tasks.x(at)}" y="372" text-anchor="middle">{at}</text>' for at in range(0, int(seconds) + 1, 5)
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 404" width="{WIDTH}" height="404" role="img" '
        'aria-labelledby="title"><title id="title">Agents, their limit and finished tasks of a fleet that meets a rate '
        f"limit</title><style>{STYLE}</style>",
        f'<rect class="card" width="{WIDTH}" height="404" rx="6"/>',
        agents.pause(met_at, resets_at),
        tasks.pause(met_at, resets_at),
        *agents.frame("agents"),
        *tasks.frame("tasks finished"),
        f'<path class="running" d="{running}V{agents.y(0)}H{LEFT}Z"/>',
        f'<path class="limit line" d="{limit}"/>',
        f'<path class="done line" d="{done}"/>',
        f'<text x="{centre}" y="{agents.y(AGENTS) + 16}" text-anchor="middle">rate limit:</text>',
        f'<text x="{centre}" y="{agents.y(AGENTS) + 33}" text-anchor="middle">no agent starts</text>',
        f'<rect class="running" x="{LEFT}" y="17" width="22" height="11"/><text x="{LEFT + 30}" y="27">running agents</text>',
        f'<path class="limit line" d="M{LEFT + 150} 23h22"/><text x="{LEFT + 180}" y="27">limit of the concurrency</text>',
        f'<path class="done line" d="M{LEFT + 360} 23h22"/><text x="{LEFT + 390}" y="27">finished tasks</text>',
        *ticks,
        f'<text x="{(LEFT + RIGHT) / 2}" y="393" text-anchor="middle">seconds since the start</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Measure, print a line, and write the chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=CHART)
    given = parser.parse_args()
    logging.getLogger("hackamore").setLevel(logging.ERROR)  # each attempt that meets the limit is a warning
    with tempfile.TemporaryDirectory() as folder:
        samples, met_at, resets_at, met = measure(folder)
    given.file.write_text(draw(samples, met_at, resets_at))
    print(
        f"{TASKS} tasks in {samples[-1].at:.1f} s; {met} attempts met the limit at {met_at:.1f} s, which reset at "
        f"{resets_at:.1f} s; no attempt counts as a failure. {given.file}"
    )


if __name__ == "__main__":
    main()
