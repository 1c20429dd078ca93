"""Storms: kill drivers, agents, workers and schedulers of a fleet at random moments until all its tasks are over, and look at what is left.

A seed repeats what is killed and roughly when. The journal is read by the storm as anybody could, and by a program that opens and closes
it all the time. Each driver has a second object on it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from hackamore.fleet.journal import Journal, open_journal
from hackamore.storage.holders import identity_in, is_running
from tests.support.journals import open_tasks
from tests.support.patience import patience
from tests.support.seeds import seeded

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).resolve().parent.parent.parent
REPLY_TOKENS = 15
"""What a reply of the scripted model, and of the simulated CLI, counts."""
LONGEST_QUIET = 120.0
"""Seconds without any change in the journal after which a storm has failed."""


@dataclass
class Storm:
    """A fleet that is killed again and again.

    Attributes:
        folder: an empty folder for the journal and the settings.
        settings: what `storm_host` reads: options, tasks, concurrency, folder, scheduler.
        kills: how many processes to kill.
        seed: repeats a storm.
        others: names of other things to kill, with functions that kill one and return whether there was one.
        killed: what was killed, by name.
        drivers: how many drivers were started.
        ends: the return codes of drivers.
        facts: what a test counted.
    """

    folder: Path
    settings: dict[str, Any]
    kills: int
    seed: int
    others: dict[str, Callable[[], bool]] = field(default_factory=dict)
    killed: Counter[str] = field(default_factory=Counter)
    drivers: int = 0
    ends: Counter[int] = field(default_factory=Counter)
    facts: dict[str, int] = field(default_factory=dict)
    output: Path = field(init=False)

    def __post_init__(self) -> None:
        """Write the settings."""
        self.settings.setdefault("journal", str(self.folder / "journal.db"))
        self.settings["reports"] = str(self.folder / "reports")
        (self.folder / "settings.json").write_text(json.dumps(self.settings))
        self.output = self.folder / "drivers.log"
        self.random = Random(seeded(self.seed))
        self._killed_drivers: set[int] = set()

    @property
    def journal(self) -> Journal:
        """The journal."""
        return open_journal(self.settings["journal"])

    def start(self) -> subprocess.Popen[bytes]:
        """Start a driver."""
        self.drivers += 1
        with self.output.open("ab") as log:
            return self._started(
                "storm_host", str(self.folder / "settings.json"), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _started(self, program: str, argument: str, **streams: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"tests.fleet.{program}", argument]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        return subprocess.Popen(command, cwd=PROJECT, env=environment, start_new_session=True, **streams)

    def _end_reader(self, reader: subprocess.Popen[bytes]) -> None:
        counts, errors = reader.communicate(timeout=patience(60))
        assert reader.returncode == 0, errors.decode()
        self.facts |= json.loads(counts)

    def blow(self, replies: int) -> None:
        """Kill at random until `kills` were made, and let the last driver finish.

        A slow machine makes a storm slow: each kill comes after a number of replies of the model, and at a random moment after that. A
        kill that finds nothing to kill is tried again.

        Args:
            replies: the replies of the model without any kill.
        """
        driver = self.start()
        journal: Journal | None = None
        reader: subprocess.Popen[bytes] | None = None
        changed, last = time.monotonic(), -1
        moments = sorted(self.random.uniform(0, 0.8 * replies) for _ in range(self.kills))
        try:
            while True:
                try:
                    driver.wait(0.02)
                except subprocess.TimeoutExpired:
                    pass
                else:
                    self.ends[driver.returncode] += 1
                    # A driver ends when it is killed, when all is done, or with an error that an executor makes.
                    assert driver.returncode in (0, -signal.SIGKILL) or self.settings.get("scheduler"), self.log()
                    if (
                        journal is not None
                        and reader is not None
                        and any(journal.counts().values())
                        and not open_tasks(journal)
                    ):
                        self._end_reader(reader)
                        return
                    driver = self.start()
                if journal is None:
                    if not Path(self.settings["journal"]).exists() and "://" not in self.settings["journal"]:
                        continue
                    journal = self.journal
                    pipe = subprocess.PIPE
                    reader = self._started(
                        "storm_reader", self.settings["journal"], stdin=pipe, stdout=pipe, stderr=pipe
                    )
                assert reader is None or reader.poll() is None, reader.communicate()[1].decode()
                now = journal.last_change()
                if now != last:
                    changed, last = time.monotonic(), now
                assert time.monotonic() - changed < patience(LONGEST_QUIET), f"nothing happens any more\n{self.log()}"
                done = self.killed.total()
                if done < self.kills and journal.spent()[1] / REPLY_TOKENS >= moments[done]:
                    time.sleep(self.random.uniform(0, 0.1))  # the moment is random; nothing is waited for
                    self._kill(driver, journal)
                journal.close()  # a connection that stays would keep others from being the last one, which clears up
        finally:
            if driver.poll() is None:
                driver.kill()
                driver.wait()
            if reader is not None and reader.poll() is None:
                reader.kill()
                reader.communicate()
            if journal is not None:
                journal.close()

    def _kill(self, driver: subprocess.Popen[bytes], journal: Journal) -> None:
        name = self.random.choice(["driver", "CLI", *self.others])
        if name == "driver":
            done = driver.poll() is None
            driver.kill()
            self._killed_drivers.add(driver.pid)
        elif name == "CLI":
            done = self._kill_agent(journal)
        else:
            done = self.others[name]()
        self.killed[name] += done

    def _kill_agent(self, journal: Journal) -> bool:
        running = [name for name in self.processes(journal, held=True) if is_running(*name)]
        if not running:
            return False
        pid, _ = self.random.choice(running)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def processes(self, journal: Journal, *, held: bool = False) -> list[tuple[int, str]]:
        """Return pid and start time of the CLIs of all attempts, or of those that run now."""
        only = " AND a.ended IS NULL AND t.state = 'running' AND t.attempt = a.attempt" if held else ""
        found = journal.store.look(
            lambda cursor: cursor.rows(
                f"SELECT a.process FROM attempts a JOIN tasks t ON t.id = a.task WHERE a.process IS NOT NULL{only}"
            )
        )
        names = (name.rsplit("|", 2) for (name,) in found)
        return [(int(pid), started) for _, pid, started in names]

    def check(self, leave: float) -> None:
        """Do nothing if all is as it must be: all kills made, one end of each task, no process left.

        Args:
            leave: seconds that processes may take to go.
        """
        journal = self.journal
        count = self.settings["tasks"]
        assert self.killed.total() == self.kills, self.killed
        assert journal.counts()["succeeded"] == count, f"{journal.counts()}\n{self.log()}"
        ends = journal.store.look(
            lambda cursor: cursor.rows(
                "SELECT task, count(*) FROM changes WHERE state IN ('succeeded', 'failed', 'cancelled') GROUP BY task"
            )
        )
        assert Counter(number for _, number in ends) == {1: count}
        self._check_reports(journal)
        until = time.monotonic() + leave
        while left := [each for each in self.processes(journal) if is_running(*each)]:
            assert time.monotonic() < until, f"these agents are left: {left}"
            time.sleep(0.05)
        journal.close()
        print(f"{count} tasks, {self.drivers} drivers, killed: {dict(self.killed)}, return codes: {dict(self.ends)}")

    def _check_reports(self, journal: Journal) -> None:
        """Each end was reported once, by the driver of the last attempt. One that was killed may not have come to it."""
        drivers = dict(journal.store.look(lambda cursor: cursor.rows("SELECT id, driver FROM tasks")))
        reports = [line.split() for line in Path(self.settings["reports"]).read_text().splitlines()]
        by_task = {task: int(pid) for pid, task in reports}
        assert len(by_task) == len(reports), "an end was reported twice"
        for task, driver in drivers.items():
            pid = identity_in(driver)[0] if driver else 0
            if task in by_task:
                assert by_task[task] == pid, f"{task} was reported by {by_task[task]}, its driver is {pid}"
            else:
                assert pid == 0 or pid in self._killed_drivers, f"the end of {task} was not reported\n{self.log()}"
        self.facts |= {"reported": len(reports), "not reported by a killed driver": len(drivers) - len(reports)}

    def log(self) -> str:
        """Return the end of what drivers printed."""
        return self.output.read_text(errors="replace")[-4000:] if self.output.exists() else ""
