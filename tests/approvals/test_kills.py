"""Whatever is killed while a person thinks: no tool of the real CLI runs without a yes, and each yes counts once."""

from __future__ import annotations

import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hackamore import Allow, Approvals
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transports.process.processes import descendants
from tests.approvals import parts
from tests.contract import shows
from tests.support.leaks import wait_gone
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.servers import Postgres, running
from tests.support.sizes import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.approvals import ApprovalRequest
    from hackamore.testing import ModelRequest
    from tests.conftest import RealCLI

PROJECT = Path(__file__).resolve().parents[2]
KILLS = size("kills of approvals")
STEPS = ("before the record", "on record", "waiting", "answered", "used", "running", "continued")
"""The moments of a wait. Before `used` the answer is not used, and after a restart it is for the same call."""
pytestmark = pytest.mark.timeout(600 + 60 * KILLS)


def model_answer(request: ModelRequest) -> Reply:
    """Call the tool once for each prompt that wants it."""
    newest = request.newest_text
    if "Do it now" not in newest and "Make it again" not in newest:
        return Reply("Done.")
    [command] = set(re.findall(r"Do it now: `(.*?)`", "\n".join(request.prompts)))
    return Reply(ToolCall("Bash", {"command": command, "description": "work"}))


class Part:
    """A program of `parts`."""

    def __init__(self, role: str, given: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", parts.__name__, role, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )
        self.seen: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def command(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # it was killed
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()

    def wait(self, *words: str) -> str:
        """Wait for a line that begins with one of the words; return it, or nothing if the program has ended."""
        while (line := self._lines.get(timeout=patience(90))) is not None:
            self.seen.append(line)
            if line.startswith(words):
                return line
        return ""

    @property
    def cli(self) -> int:
        """The process of the CLI that was started last; 0 before."""
        return next((int(line.split()[1]) for line in reversed(self.seen) if line.startswith("cli ")), 0)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, *, kill: bool = False) -> None:
        """End it, and all that it has started."""
        family = [pid for pid, _ in descendants(self.process.pid)]
        if kill:
            self.process.kill()
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait(patience(60))
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert all(wait_gone(pid, 30) for pid in family), "a process is left"


class Round:
    """One conversation of the real CLI with one call, and what is killed around it."""

    def __init__(
        self, number: int, address: str, real_cli: RealCLI, model: ScriptedModel, server: Postgres | None
    ) -> None:
        self.chance = random.Random(seeded(number))
        self.kills: Counter[str] = Counter()
        self._parts: list[Part] = []
        self.address = address
        self.server = server
        self.step = STEPS[number % len(STEPS)]
        self.answer = "no" if number % 4 == 3 else "yes"
        self.canary = real_cli.cwd / f"canary-{number}"
        self._go = real_cli.cwd / f"go-{number}"
        command = f"printf x >> {self.canary}"
        if self.step == "running":
            command += f"; for i in $(seq 400); do [ -e {self._go} ] && break; sleep 0.05; done"
        self._temporary = real_cli.directory / f"tmp-{number}"
        self._temporary.mkdir()
        environment = {**real_cli.env(model), "TMPDIR": str(self._temporary)}
        self.session = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        self._given = {
            "address": address,
            "hold": 0.3 if self.step == "continued" else 300,
            "backend": self.chance.choice(["asyncio", "trio"]),
            "session": self.session,
            "prompt": f"Do it now: `{command}`",
            "options": {
                "cli_path": real_cli.cli_path,
                "cwd": str(real_cli.cwd),
                "env": environment,
                "inherit_env": False,
            },
        }
        self.approvals = Approvals(address)

    def part(self, role: str, **more: Any) -> Part:
        part = Part(role, {**self._given, **more})
        self._parts.append(part)
        if role != "host":
            assert part.wait("ready")
        return part

    def records(self) -> list[ApprovalRequest]:
        return [
            *self.approvals.pending(conversation=self.session),
            *self.approvals.history(conversation=self.session),
        ]

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        end = time.monotonic() + patience(60)
        while not (value := found()):
            assert time.monotonic() < end, f"{what}: {self.records()}"
            time.sleep(0.01)  # another process does it
        return value

    def runs(self) -> int:
        return len(self.canary.read_text()) if self.canary.exists() else 0

    # -- the kills ---------------------------------------------------------------------------------------------------

    def kill_page(self, name: str) -> None:
        """Kill a page at any moment of its answer; then nothing else may have happened than that it was given, or not."""
        page = self.part("page", person="ada")
        page.command(f"{name} {self.answer}")
        time.sleep(self.chance.uniform(0, 0.02))
        page.end(kill=True)
        self.kills["page"] += 1

    def give(self, name: str) -> None:
        """Answer from a process of its own; a page that was killed may have been faster."""
        page = self.part("page", person="bob")
        page.command(f"{name} {self.answer}")
        assert page.wait("answered", "refused") in ("answered", "refused ada")
        page.end()

    def kill_around(self) -> None:
        """Kill the notifier, and what the database is held by or reached through."""
        notifier = self.part("notifier")
        time.sleep(self.chance.uniform(0, 0.05))
        notifier.end(kill=True)
        self.kills["notifier"] += 1
        if "://" not in self.address:
            self.part("holder").end(kill=True)
            self.kills["database"] += 1
            return
        for _ in range(2):
            self._disconnect()
            self.kills["database"] += 1
            time.sleep(self.chance.uniform(0, 0.05))
        if self.server is not None and self.chance.random() < 0.3:
            self.server.kill()
            time.sleep(self.chance.uniform(0, 0.5))
            self.server.start()
            self.kills["server"] += 1

    def _disconnect(self) -> None:
        """End all connections of other programs to the server."""
        with closing(psycopg.connect(self.address, autocommit=True)) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def play(self) -> None:
        """Reach the step, kill the host or the CLI, and let other processes end the work."""
        host = self.part("host")
        host.command("prompt")
        assert (line := host.wait("sent", "over")) == "sent", line
        lost = self._reach(host)
        before = self.records()
        victim = self.chance.choice(["host", "cli"])
        if victim == "cli":
            if host.cli:
                with suppress(ProcessLookupError):
                    os.kill(host.cli, signal.SIGKILL)
            # The host takes the answer of a dead CLI if it sees the answer first.
            lost = lost or self.step == "answered"
            host.signal(signal.SIGCONT)
        host.end(kill=victim == "host")
        self.kills[victim] += 1
        self._go.touch()
        self._go_on()
        self._check(before, lost)

    def _reach(self, host: Part) -> bool:
        """Bring the wait to the step; return whether a yes may be lost with its process."""
        if self.step == "before the record":
            time.sleep(self.chance.uniform(0, 1))
            return False
        request = self.until("a request", self.records)[0]
        self.kill_around()
        if self.step in ("on record", "waiting"):
            time.sleep(self.chance.uniform(0, 0.3 if self.step == "waiting" else 0))
            return False
        if self.step == "answered":
            host.signal(signal.SIGSTOP)
        elif self.step == "used":
            os.kill(host.cli, signal.SIGSTOP)
        elif self.step == "continued":
            assert host.wait("over")
        self.kill_page(request.id)
        self.give(request.id)
        if self.step == "answered":
            return False
        if self.step == "used":
            self.until("a use", lambda: self.approvals.get(request.id).state == "used")
            return True
        if self.step == "running" and self.answer == "yes":
            self.until("a run", self.runs)
        elif self.step == "continued":
            host.command("claim")
            assert host.wait("claimed", "nothing") == "claimed"
            time.sleep(self.chance.uniform(0, 2))
        return True

    def _go_on(self) -> None:
        """Let a new host continue, and answer what waits in the same way, until the work is done or refused."""
        answerer = self.part("page", person="ada")
        host = self.part("host", hold=300)
        for command in ("claim", "prompt", "prompt"):
            if self.answer == "yes" and self.runs():
                break
            if command == "prompt" and self.answer == "no" and self.approvals.history(conversation=self.session):
                break
            host.command(command)
            done = threading.Event()
            watch = threading.Thread(target=self._answer_until, args=(answerer, done))
            watch.start()
            line = host.wait("over", "nothing")
            done.set()
            watch.join()
            assert line, "the host has ended"
        answerer.end()
        host.end()

    def _answer_until(self, page: Part, done: threading.Event) -> None:
        while not done.wait(0.02):
            for request in self.approvals.pending(conversation=self.session):
                page.command(f"{request.id} {self.answer}")
                page.wait("answered", "refused")

    # -- what has happened -------------------------------------------------------------------------------------------

    def _check(self, before: list[ApprovalRequest], lost: bool) -> None:
        records = self.records()
        shown = [(each.state, each.answered_by, each.answer) for each in records], self.runs(), before
        used = [each for each in records if each.state == "used" and isinstance(each.answer, Allow)]
        assert self.runs() == (self.answer == "yes"), shown
        assert self.runs() <= len(used) <= self.runs() + lost, shown
        assert not [each for each in records if each.state in ("waiting", "answered")], shown
        if not lost:  # killed before its use: the same call had the answer
            assert len(records) == 1, shown
            assert [each.id for each in before] in ([], [records[0].id]), shown
        assert len(records) <= 1 + lost, shown
        assert [name for name in os.listdir(self._temporary) if "hackamore" in name] == []

    def close(self) -> None:
        self.approvals.close()
        for part in self._parts:  # of a round that failed: a reader's thread waits for each
            if part.process.poll() is None:
                part.end(kill=True)


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """Return a PostgreSQL server that the test kills."""
    yield from running(Postgres)


@shows("approvals.killed")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_kills_at_every_step(
    kind: str, real_cli: RealCLI, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    address, server = str(tmp_path / "approvals.db"), None
    if kind == "postgres":
        server = request.getfixturevalue("own_server")
        address = server.url
    kills: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    first = 0 if kind == "sqlite" else 1_000
    with ScriptedModel(Repeat(model_answer)) as model:
        for number in range(first, first + 10_000):
            if kills.total() >= KILLS:
                break
            this = Round(number, address, real_cli, model, server)
            with closing(this):
                this.play()
            kills.update(this.kills)
            steps[f"{this.step}, {this.answer}"] += 1
            with capsys.disabled():
                print(f"\n{kind}, seed {seeded(number)}, {this.step}, {this.answer}: {dict(kills)}", end="", flush=True)
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("approvals.db")) == (
        ["approvals.db"] if kind == "sqlite" else []
    )
