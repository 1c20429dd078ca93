"""How a running fleet is shown: lines and a bar on a terminal, lines with tabs in a pipe, JSON for programs."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import msgspec
from rich.progress_bar import ProgressBar

from hackamore.activity.words import clean, one_line
from hackamore.cli.terminal import Terminal, escape_json
from hackamore.errors import HackamoreError
from hackamore.fleet.events import ConcurrencyChanged, TaskChanged, TaskFinished

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hackamore.fleet.events import FleetEvent, FleetProgress
    from hackamore.fleet.fleet import FleetRun
    from hackamore.fleet.task import FleetRow

_ACTIVE = ("leased", "running", "verifying")
_LOOK_SECONDS = 0.5
_MOST_AGENTS = 8
_BAR = 24
_MINUTE, _HOUR = 60, 3600


def duration(seconds: float) -> str:
    """Return seconds as a text: `34 s`, `4:12`, `1:04:12`."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    minutes, rest = divmod(whole, _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def cost(usd: float) -> str:
    """Return US dollars as a text."""
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"


def summary(rows: Iterable[FleetRow], terminal: Terminal, seconds: float | None = None) -> str:
    """Return one line about tasks: how many there are in each state, their attempts and what they cost."""
    states: Counter[str] = Counter()
    attempts, usd, unknown = 0, 0.0, 0
    for row in rows:
        states[row.state] += 1
        attempts += row.attempt
        usd += row.cost
        unknown += row.unknown_calls
    shown = ", ".join(
        f"{number:,} {state}" for state, number in sorted(states.items(), key=lambda each: _ORDER.index(each[0]))
    )
    parts = [
        f"{count(states.total(), 'task')}: {shown}" if states else "no tasks",
        count(attempts, "attempt"),
        cost(usd) + (f" and {count(unknown, 'unknown call')}" if unknown else ""),
    ]
    if seconds is not None:
        parts.append(duration(seconds))
    return terminal.dot.join(parts)


_ORDER = ("succeeded", "failed", "cancelled", "running", "verifying", "leased", "waiting", "queued")


class _Display:
    """Shows a run for the length of a block. A terminal of None means standard output, with notes on standard error."""

    def __init__(self, terminal: Terminal | None) -> None:
        if terminal is None:
            terminal = Terminal()
            terminal.separate()
        self._terminal: Terminal = terminal
        self._block = ExitStack()

    def __enter__(self) -> Self:
        self._block.enter_context(self._terminal.moving(self.lines))
        return self

    def __exit__(self, *_: object) -> None:
        self._block.close()

    def lines(self, _: float) -> Sequence[str]:
        return ()


class EventLines(_Display):
    """Writes each event as a JSON object on a line, for programs."""

    def show(self, event: FleetEvent) -> None:
        if isinstance(event, TaskFinished):
            self._write({"event": "task_finished", "at": event.at, **_plain(event.row)})
        else:
            name = "task_changed" if isinstance(event, TaskChanged) else "concurrency_changed"
            self._write({"event": name, **_plain(event)})

    def draining(self, running: int) -> None:
        """Write that nothing more is started."""
        self._write({"event": "draining", "running": running, "at": time.time()})

    def finish(self, rows: list[FleetRow], seconds: float) -> None:
        states = Counter(row.state for row in rows)
        usd = sum(row.cost for row in rows)
        self._write({"event": "fleet_finished", "states": states, "cost": usd, "seconds": seconds, "at": time.time()})

    def _write(self, value: dict[str, Any]) -> None:
        self._terminal.line(escape_json(json.dumps(value, ensure_ascii=False)))


def _plain(value: object) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(msgspec.json.encode(value, enc_hook=str))
    return plain


class FleetDisplay(_Display):
    """Shows a run to people: a line for each task that is over, and below, on a terminal, a bar and the agents that run.

    In a pipe, standard output gets the lines alone, with tabs between state, id, attempts, cost, seconds and error.

    Enter it with `with`, and call `show` for each event. Needs `hackamore[cli]`.

    Args:
        run: the run.
        budget: its limit in US dollars, to be shown; None for none.
        terminal: where to; None for standard output, with notes on standard error.

    Example:
        ::

            from hackamore.cli import FleetDisplay

            with fleet.run(tasks) as run, FleetDisplay(run) as display:
                for event in run:
                    display.show(event)
            display.finish(fleet.results())
    """

    def __init__(self, run: FleetRun, budget: float | None = None, *, terminal: Terminal | None = None) -> None:
        super().__init__(terminal)
        self._run = run
        self._budget = budget
        self._lock = threading.Lock()
        self._agents: dict[str, tuple[str, float]] = {}
        self._progress: FleetProgress | None = None
        self._looked = 0.0
        self._draining = False

    def show(self, event: FleetEvent) -> None:
        """Show an event.

        Args:
            event: the event of the run.
        """
        if isinstance(event, TaskFinished):
            with self._lock:
                self._agents.pop(event.row.task, None)
            self._finished(event.row)
        elif isinstance(event, ConcurrencyChanged):
            self._limited(event)
        else:
            self._changed(event)

    def draining(self, running: int) -> None:
        """Write that nothing more is started."""
        self._draining = True
        agents = count(running, "agent")
        verb = "runs" if running == 1 else "run"
        self._terminal.note(
            f"Nothing more is started; {agents} still {verb}. A second Ctrl-C (or signal) stops {'it' if running == 1 else 'them'}.",
            "yellow",
        )

    def finish(self, rows: Iterable[FleetRow], seconds: float | None = None) -> None:
        """Show the summary of rows.

        Args:
            rows: the tasks of the run.
            seconds: the time that it took; None leaves it out.
        """
        rows = list(rows)
        good = all(row.state == "succeeded" for row in rows)
        self._terminal.aside.line(summary(rows, self._terminal, seconds), "bold green" if good else "bold", wrap=True)

    def _changed(self, event: TaskChanged) -> None:
        with self._lock:
            if event.state in _ACTIVE:
                since = self._agents.get(event.task, ("", event.at))[1]
                self._agents[event.task] = event.state, since
            else:
                self._agents.pop(event.task, None)
        if event.cause == "approval":
            self._terminal.note(one_line(f"{event.task}: {_first_line(event.error)}"), "yellow")
        elif event.state == "waiting" and event.cause not in (None, "throttled"):
            text = f"{event.task}: attempt {event.attempt} failed ({event.cause}) and is repeated"
            self._terminal.note(one_line(f"{text}: {_first_line(event.error)}" if event.error else text), "yellow")

    def _limited(self, event: ConcurrencyChanged) -> None:
        if event.cause is None:
            return  # the bar shows that there may be more again
        when = f" until {_clock(event.until)}" if event.until is not None else ""
        why = "A rate limit: nothing starts" if event.cause == "throttled" else "The API is overloaded: nothing starts"
        self._terminal.note(f"{why}{when}, then {count(event.limit, 'agent')} of {event.most} at a time.", "yellow")

    def _finished(self, row: FleetRow) -> None:
        terminal = self._terminal
        problem = _first_line(row.error or "") if row.state == "failed" else ""
        if not terminal.interactive:
            cells = [row.state, row.task, str(row.attempt), f"{row.cost:.6f}", f"{row.seconds:.1f}"]
            if row.state != "succeeded":
                cells.append(f"{row.cause}: {problem}" if problem else row.cause or "")
            terminal.line("\t".join(one_line(cell).replace("\t", " ") for cell in cells))
            return
        good = row.state == "succeeded"
        sign, style = (
            (terminal.tick, "green") if good else (terminal.cross, "red" if row.state == "failed" else "yellow")
        )
        facts = [cost(row.cost), duration(row.seconds)]
        if row.attempt > 1:
            facts.insert(0, count(row.attempt, "attempt"))
        if row.branch:
            facts.append(row.branch)
        if not good:
            facts.insert(0, row.state if row.cause in (None, row.state) else f"{row.state} ({row.cause})")
        terminal.parts(
            (f"{sign} ", style), (one_line(row.task), "bold"), (f"  {one_line(terminal.dot.join(facts))}", "dim")
        )
        if problem:
            terminal.line(terminal.shorten(f"  {one_line(problem)}", terminal.width), "red")

    # -- the lines that change -----------------------------------------------------------------------------------------

    def lines(self, _: float) -> Sequence[str]:
        """Return the bar and the agents that run, as the thread of the terminal draws them."""
        now = time.monotonic()
        if now - self._looked > _LOOK_SECONDS:
            self._looked = now
            with suppress(HackamoreError):  # the run itself meets it
                self._progress = self._run.progress()
        progress = self._progress
        if progress is None:
            return ()
        return [self._bar(progress), *self._running()]

    def _bar(self, progress: FleetProgress) -> str:
        terminal = self._terminal
        over = progress.finished
        parts = [f"{over:,}/{progress.total:,}", f"{progress.running} running"]
        if progress.limit < progress.running or progress.until is not None:
            parts.append(f"limit {progress.limit}")
        if failed := progress.states["failed"]:
            parts.append(f"{failed:,} failed")
        parts.append(cost(progress.cost) + (f" of {cost(self._budget)}" if self._budget is not None else ""))
        parts.append(duration(progress.seconds))
        if progress.until is not None:
            parts.append(f"rate limit until {_clock(progress.until)}")
        elif self._draining:
            parts.append("ending")
        elif progress.seconds_left is not None and over < progress.total:
            parts.append(f"about {duration(progress.seconds_left)} left")
        text = terminal.shorten(terminal.dot.join(parts), max(1, terminal.width - _BAR - 3))
        bar = ProgressBar(total=max(1, progress.total), completed=over, width=min(_BAR, terminal.width))
        with terminal.console.capture() as captured:
            terminal.console.print(bar, end="")
        drawn = captured.get().rstrip("\n")
        return f"{drawn} {clean(text)}" if terminal.width > _BAR * 2 else clean(text)

    def _running(self) -> list[str]:
        terminal = self._terminal
        with self._lock:
            agents = list(self._agents.items())
        most = max(0, min(_MOST_AGENTS, terminal.console.height // 3))
        now = time.time()
        lines = [
            terminal.shorten(
                f"  {one_line(task)}  {'' if state == 'running' else state + ' '}{duration(max(0.0, now - since))}",
                terminal.width - 1,
            )
            for task, (state, since) in agents[:most]
        ]
        if len(agents) > most:
            lines.append(f"  and {len(agents) - most} more")
        return [f"\x1b[2m{line}\x1b[0m" for line in lines]


def _first_line(text: str | None) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def _clock(at: float) -> str:
    when = datetime.fromtimestamp(at).astimezone()
    return f"{when:%H:%M:%S}" if at - time.time() < 12 * _HOUR else f"{when:%Y-%m-%d %H:%M}"
