"""Kill a host or its CLI at a random moment around a Bash call, and look for processes that survive.

Each death has its own host process. All processes below it carry a variable in their environment; the watchdog, which does not, is found
as a descendant of the host. The moments are random, so a seed repeats what is done to whom and roughly when.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transports.process.processes import descendants, identity
from tests.endurance import deaths_host
from tests.support.leaks import wait_gone
from tests.support.patience import patience

MARK = "HACKAMORE_DEATH"
BACKENDS = ("asyncio", "trio", "threads")
WAYS = (
    "host SIGKILL",
    "host SIGKILL",
    "host SIGTERM",
    "host SIGINT",
    "CLI SIGKILL",
    "CLI SIGKILL",
    "CLI SIGTERM",
    "both SIGKILL",
)
# The CLI refuses commands that begin with `sleep`.
COMMANDS = (
    "echo > {mark}; sleep 600",
    "true; sleep 600 & echo > {mark}; wait",
    "trap '' TERM; sleep 600 & echo > {mark}; wait",
    "setsid sleep 600 & echo > {mark}; wait",
    "setsid nohup sleep 600 > /dev/null 2>&1 & echo > {mark}; sleep 600",
    "tail -f /dev/null | sh -c \"trap '' TERM; echo > {mark}; sleep 600\"",
)
SECONDS = 15.0
"""For how long processes may take to go, on an idle machine."""
START_SECONDS = 40.0


@dataclass
class Death:
    """A death and what came of it.

    Attributes:
        number: its number in the run.
        backend: the shell of the host.
        way: the process that was killed, and the signal.
        command: the command of the Bash call.
        early: True if it was not waited for the command to run.
        wait: seconds before the kill, from the start of the command (or of the host).
        phase: the last thing that had happened.
        processes: how many processes there were.
        seconds: how long the last one took to go.
        problems: survivors, or another thing that must not be.
    """

    number: int
    backend: str
    way: str
    command: str
    early: bool
    wait: float
    phase: str = "starting"
    processes: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        start = "the host" if self.early else "the command"
        text = f"{self.way} {self.wait:.2f} s after the start of {start} ({self.backend}, {self.phase}): "
        gone = f"{self.processes} processes gone in {self.seconds:.2f} s"
        return text + ("; ".join(self.problems) + f"; `{self.command}`" if self.problems else gone)


def planned(seed: str, number: int) -> Death:
    """Return the death of a number, not yet died."""
    random = Random(f"{seed}/{number}")
    early = random.random() < 0.2
    wait = random.uniform(0.0, 2.5 if early else 0.4)
    return Death(number, random.choice(BACKENDS), random.choice(WAYS), random.choice(COMMANDS), early, wait)


def marked(mark: str) -> list[int]:
    """Return the live processes with a mark in their environment."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                here = wanted in file.read().split(b"\0")
        except OSError:
            continue
        if here and identity(int(name)) is not None:
            found.append(int(name))
    return found


def described(pid: int) -> str:
    """Return a process with its command line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return f"{pid}: {file.read().replace(bytes(1), b' ').decode(errors='replace').strip()[:100]}"
    except OSError:
        return f"{pid}: gone by now"


Setting = Callable[[Death, Path], tuple[dict[str, Any], str, Callable[[], None]]]
"""Makes options and the prompt for a death, and a function that takes the setting down."""


def real(cli: str) -> Setting:
    """Return settings with the real CLI and a scripted model."""

    def setting(death: Death, folder: Path) -> tuple[dict[str, Any], str, Callable[[], None]]:
        call = {"command": death.command.format(mark="mark"), "timeout": 600_000}
        model = ScriptedModel(Repeat(Reply("Working.", ToolCall("Bash", call))))
        model.start()
        work = folder / "work"
        work.mkdir()
        isolated = {name: value for name, value in model.isolated_env(folder).items() if value is not None}
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "IS_SANDBOX": "1", **isolated}
        options = {
            "cli_path": cli,
            "cwd": str(work),
            "env": environment,
            "inherit_env": False,
            "allowed_tools": ["Bash"],
        }
        return options, "go", model.close

    return setting


def die(death: Death, setting: Setting) -> Death:
    """Let a host and its CLI run, kill, and look."""
    with tempfile.TemporaryDirectory(prefix="hackamore-death-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        mark = f"{os.getpid()}-{death.number}-{time.monotonic_ns()}"
        options, prompt, close = setting(death, folder)
        options["env"] = {**options["env"], MARK: mark}
        host = subprocess.Popen(
            [sys.executable, "-W", "ignore", deaths_host.__file__, death.backend, json.dumps(options), prompt],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), MARK: mark},
        )
        try:
            _kill(death, host, Path(options["cwd"]) / "mark")
            _look(death, host, mark)
        except AssertionError as error:
            death.problems.append(str(error))
        finally:
            for pid in {host.pid, *marked(mark)}:
                if identity(pid) is not None:
                    os.kill(pid, signal.SIGKILL)
            host.communicate()
            close()
    return death


def _kill(death: Death, host: subprocess.Popen[str], mark: Path) -> None:
    assert host.stdout is not None
    until = time.monotonic() + min(90.0, patience(START_SECONDS))
    cli: int | None = None
    pause = threading.Event()
    if not death.early or not death.way.startswith("host"):
        line = host.stdout.readline()
        if not line or "cli" not in (told := json.loads(line)):
            raise AssertionError(f"the host did not start: {line!r}")
        cli, death.phase = told["cli"], "started"
    if not death.early:
        while not mark.exists():
            if time.monotonic() > until or host.poll() is not None:
                raise AssertionError("the command did not run")
            pause.wait(0.005)
    pause.wait(death.wait)
    who, _, name = death.way.partition(" ")
    number = signal.Signals[name]
    if mark.exists():
        death.phase = "in the command"
    everyone = [host.pid, *(pid for pid, _ in descendants(host.pid))]
    death.processes = len(everyone)
    ways: dict[str, list[int | None]] = {"host": [host.pid], "CLI": [cli], "both": [host.pid, cli]}
    for pid in ways[who]:
        if pid is not None and identity(pid) is not None:
            os.kill(pid, number)
    _everyone[death.number] = everyone if who != "CLI" else everyone[1:]


_everyone: dict[int, list[int]] = {}


def _look(death: Death, host: subprocess.Popen[str], mark: str) -> None:
    began = time.monotonic()
    host_stays = death.way.startswith("CLI")
    if host_stays:
        assert host.stdout is not None
        line = host.stdout.readline()
        outcome = json.loads(line)["outcome"] if line else f"exit status {host.wait()}"
        if outcome not in {"ProcessError", "SessionClosedError"} and death.phase == "in the command":
            death.problems.append(f"the host ended with {outcome}")
    else:
        host.wait(patience(START_SECONDS))
    left = [pid for pid in _everyone.pop(death.number) if not wait_gone(pid, SECONDS)]
    allowed = {host.pid} if host_stays else set()
    while (late := set(marked(mark)) - allowed) and time.monotonic() < began + patience(SECONDS):
        threading.Event().wait(0.05)
    death.seconds = time.monotonic() - began
    death.problems += [f"survived: {described(pid)}" for pid in sorted({*left, *late})]


def run_all(
    cli: str,
    seed: str,
    numbers: Iterable[int],
    *,
    workers: int,
    minutes: float | None,
    told: Callable[[int, Death], None],
) -> list[Death]:
    """Let deaths of the real CLI happen, several at once; return those that did.

    Args:
        cli: the path of the real CLI.
        seed: repeats the run.
        numbers: the numbers of the deaths.
        workers: how many at the same time.
        minutes: begin no death after so many minutes; None begins all.
        told: gets how many are done, and the last one.
    """
    return run_settings(real(cli), seed, numbers, workers=workers, minutes=minutes, told=told)


def run_settings(
    setting: Setting,
    seed: str,
    numbers: Iterable[int],
    *,
    workers: int,
    minutes: float | None = None,
    told: Callable[[int, Death], None],
) -> list[Death]:
    """Let deaths happen in a setting, as `run_all` does."""
    until = None if minutes is None else time.monotonic() + minutes * 60
    found: list[Death] = []
    lock = threading.Lock()

    def one(number: int) -> None:
        if until is not None and time.monotonic() > until:
            return
        death = die(planned(seed, number), setting)
        with lock:
            found.append(death)
            told(len(found), death)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, numbers))
    return sorted(found, key=lambda death: death.number)


def table(found: list[Death]) -> str:
    """Return a table of the ways to die: how many, how many in the command, the longest time until all were gone."""
    lines = ["| Killed | Deaths | In the command | Slowest |", "|---|---|---|---|"]
    for way, count in sorted(Counter(death.way for death in found).items()):
        these = [death for death in found if death.way == way]
        working = sum(death.phase == "in the command" for death in these)
        lines.append(f"| {way} | {count} | {working} | {max(death.seconds for death in these):.1f} s |")
    return "\n".join(lines) + "\n"
