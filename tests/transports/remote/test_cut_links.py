"""Links that are cut at random moments, with a Bash call running over there: a typed error, nothing left, and the session continues.

`HACKAMORE_TEST_STORM=1 HACKAMORE_TEST_SEED=1 python -m pytest -s tests/transports/remote/test_cut_links.py` cuts more, on a quiet machine.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread
import pytest

import hackamore
from hackamore import LinkLostError, Options, sync
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transports.base import LaunchPlan
from hackamore.transports.process.processes import descendants
from hackamore.transports.remote import SSH, Command
from hackamore.transports.remote.link import LinkChild
from hackamore.transports.remote.script import Graces, first_bytes
from tests.contract import shows
from tests.support.leaks import alive, command_line, parent
from tests.support.machines import Sshd, eventually, unshared
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.sizes import STORM, size

if TYPE_CHECKING:
    from pathlib import Path

    from hackamore.testing.model.requests import ModelRequest

CUTS = size("kills of links")
AT_THE_SAME_TIME = 2
PROGRAM = """\
import json, sys
from hackamore import LinkLostError, Options, sync
from hackamore.transports.remote import SSH
env, identity, host, cwd, heartbeat, *arguments = sys.argv[1:]
place = SSH(host, arguments=arguments, cwd=cwd, heartbeat=float(heartbeat))
options = Options(env=json.loads(env), allowed_tools=["Bash"], session_id=identity)
try:
    sync.run("Begin.", options, transport=place)
except LinkLostError as error:
    print(error.session_id)
"""


class Link(NamedTuple):
    """The processes of a link to a machine: `ssh` here, the one of sshd that talks to it, the supervisor."""

    far: Sshd
    ssh: int
    sshd: int
    supervisor: int


def heartbeat() -> float:
    """Return how long the links of a test may be silent: none is to be lost before it is cut, because the machine is busy."""
    return 2 if STORM else round(1 + patience(1))


def link_to(far: Sshd) -> Link:
    near = next(pid for pid, _ in descendants(os.getpid()) if f"-F {far.near}/config" in command_line(pid))
    ours = set(far.connections())
    supervisor = next(pid for pid in far.children() if parent(pid) in ours)
    return Link(far, near, parent(supervisor), supervisor)


def signals(part: str, number: int) -> Callable[[Link], None]:
    return lambda link: os.kill(getattr(link, part), number)


def drop(link: Link, action: str = "-A") -> None:
    """Lose all packets of a machine."""
    for side in ("--dport", "--sport"):
        rule = [action, "INPUT", "-i", "lo", "-p", "tcp", side, str(link.far.port), "-j", "DROP"]
        subprocess.run(["iptables", "-w", *rule], check=True, timeout=60)


class Cut(NamedTuple):
    """A way to cut a link.

    Attributes:
        do: does it.
        silent: True if both sides have to find out by silence.
    """

    do: Callable[[Link], None]
    silent: bool = False


WAYS = {
    "ssh killed": Cut(signals("ssh", signal.SIGKILL)),
    "sshd killed": Cut(signals("sshd", signal.SIGKILL)),
    "supervisor killed": Cut(signals("supervisor", signal.SIGKILL)),
    "ssh stopped": Cut(signals("ssh", signal.SIGSTOP), silent=True),
    "sshd stopped": Cut(signals("sshd", signal.SIGSTOP), silent=True),
    "packets lost": Cut(drop, silent=True),
}


def allowed() -> list[str]:
    """Return the ways that this machine allows."""
    ways = list(WAYS)
    if os.geteuid() != 0 or shutil.which("iptables") is None:
        ways.remove("packets lost")
    return ways


class Took(NamedTuple):
    """Seconds from the cut to the error, and until nothing ran over there."""

    way: str
    error: float
    empty: float


def answer(request: ModelRequest) -> Reply:
    """Work until the link is cut; afterwards, say what is known of the time before."""
    history = str(request.body["messages"])
    if "Go on." not in history:
        return Reply(
            "I work.", ToolCall("Bash", {"command": "touch $HOME/on; sleep 1000 & setsid sleep 1000 & sleep 1001"})
        )
    return Reply(f"Continued: {'Begin.' in history} {'I work.' in history}")


async def lose(session: hackamore.Session, cut: Callable[[], None], far: Sshd) -> float:
    """Cut the link of a session in its turn; return when the error came."""
    turn = await session.send("Begin.")
    assert await anyio.to_thread.run_sync(eventually, (far.home / "on").exists, 60)
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, cut)
        with pytest.raises(LinkLostError) as caught:
            await turn.result(timeout=patience(60))
    return came(caught.value)


def lose_blocking(session: sync.Session, cut: Callable[[], None], far: Sshd) -> float:
    turn = session.send("Begin.")
    assert eventually((far.home / "on").exists, 60)
    with ThreadPoolExecutor(1) as other:
        done = other.submit(cut)
        with pytest.raises(LinkLostError) as caught:
            turn.result(timeout=patience(60))
        done.result()
    return came(caught.value)


def came(error: LinkLostError) -> float:
    now = time.monotonic()
    assert error.retryable
    assert error.partial is not None
    return now


def one_cut(number: int, far: Sshd, model: ScriptedModel) -> Took:
    choice = random.Random(seeded(number))
    name = allowed()[number % len(allowed())]
    backend = choice.choice(["asyncio", "trio", "threads"])
    identity = str(uuid.UUID(int=choice.getrandbits(128), version=4))
    silence = heartbeat()
    place = SSH(far.host, arguments=far.ssh_arguments, cwd=str(far.work), heartbeat=silence)
    options = Options(env=model.env, allowed_tools=["Bash"], session_id=identity)
    (far.home / "on").unlink(missing_ok=True)
    cut_at: list[float] = []
    links: list[Link] = []

    def cut() -> None:
        links.append(link_to(far))
        time.sleep(choice.uniform(0, 1.5))  # a random moment
        cut_at.append(time.monotonic())
        WAYS[name].do(links[0])

    async def scenario() -> float:
        async with hackamore.Session(options, transport=place) as session:
            return await lose(session, cut, far)

    try:
        if backend == "threads":
            with sync.Session(options, transport=place) as session:
                came_at = lose_blocking(session, cut, far)
        else:
            came_at = anyio.run(scenario, backend=backend)
        gone = eventually(lambda: not far.children(), 60)
        empty = time.monotonic() - cut_at[0]
        assert gone, (name, far.lines())
        assert far.files() == [], name
    finally:
        for link in links:
            if name == "packets lost":
                drop(link, "-D")
            with suppress(ProcessLookupError):
                os.kill(link.sshd, signal.SIGKILL)  # stopped, or waits for packets
    again = sync.run("Go on.", options.replace(session_id=None, resume=identity), transport=place)
    assert again.text == "Continued: True True", (name, again.text)
    took = Took(name, came_at - cut_at[0], empty)
    silence = silence if WAYS[name].silent else 0.0
    # The links are looked at six times in a silence.
    assert took.error < (5 if STORM else silence * 7 / 6 + patience(5)), took
    assert took.empty < silence * 4 / 3 + patience(5), took
    return took


@shows("remote.lost")
@pytest.mark.timeout(120 + 10 * CUTS)
def test_nothing_is_left_and_the_session_continues(claude_path: str) -> None:
    slots = min(AT_THE_SAME_TIME, CUTS)

    def some(slot: int, model: ScriptedModel) -> list[Took]:
        with Sshd(claude=claude_path, shell=["dash", "bash", "ash"][slot % 3]) as far:
            return [one_cut(number, far, model) for number in range(slot, CUTS, slots)]

    with ScriptedModel(Repeat(answer)) as model, ThreadPoolExecutor(slots) as pool:
        took = [one for found in pool.map(lambda slot: some(slot, model), range(slots)) for one in found]
    by_way: defaultdict[str, list[Took]] = defaultdict(list)
    for one in took:
        by_way[one.way].append(one)
    for way, ones in sorted(by_way.items()):
        error, empty = max(one.error for one in ones), max(one.empty for one in ones)
        print(f"{way}: {len(ones)} cuts, error after {error:.2f} s at most, nothing left after {empty:.2f} s at most")
    assert len(took) == CUTS
    assert STORM or len(by_way) == min(CUTS, len(allowed()))


@shows("remote.lost")
@pytest.mark.parametrize("shell", ["dash", "bash", "ash"])
def test_a_link_that_was_silent_from_its_first_moment_leaves_nothing(
    claude_path: str, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinkChild, "beat", lambda link, now: None)
    with Sshd(claude=claude_path, shell=shell) as far, ScriptedModel(Repeat(answer)) as model:
        place = SSH(far.host, arguments=far.ssh_arguments, cwd=str(far.work), heartbeat=2)
        options = Options(env=model.env, allowed_tools=["Bash"])
        with pytest.raises(LinkLostError):
            sync.run("Begin.", options, transport=place)
        assert eventually(lambda: not far.children(), 60), far.lines()
        assert far.files() == []


@shows("remote.lost")
@pytest.mark.parametrize("bytes_that_come", [1.0, 0.5], ids=["no prompt", "half a program"])
@pytest.mark.parametrize("shell", ["dash", "bash", "ash"])
def test_a_link_that_was_silent_before_its_cli_started_leaves_nothing(shell: str, bytes_that_come: float) -> None:
    plan = LaunchPlan(argv=("/bin/true",), environment={}, owners=("",), stdin=b"Begin.")
    first = first_bytes(plan, Graces(2, 1, 1, 2), str, "supervisor.sh")
    with Sshd(shell=shell) as far:
        line = ["ssh", *far.ssh_arguments, far.host, f"sh -c {shlex.quote(first.bootstrap)}"]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as near:
            try:
                assert near.stdin is not None
                near.stdin.write(first.data[: int(len(first.data) * bytes_that_come)])
                near.stdin.flush()
                assert eventually(far.files, 60)
                near.send_signal(signal.SIGSTOP)
                assert eventually(lambda: not far.files() and not far.children(), 60), far.lines()
            finally:
                near.kill()


@shows("remote.lost")
def test_a_stopped_program_leaves_nothing_over_there_and_hears_of_it_later(far: Sshd) -> None:
    identity, silence = str(uuid.uuid4()), heartbeat()
    with ScriptedModel(Repeat(answer)) as model:
        words = [json.dumps(model.env), identity, far.host, str(far.work), str(silence), *far.ssh_arguments]
        with subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, text=True) as program:
            try:
                assert eventually((far.home / "on").exists, 60)
                stopped_at = time.monotonic()
                program.send_signal(signal.SIGSTOP)
                assert eventually(lambda: not far.children(), 60), far.lines()
                assert time.monotonic() - stopped_at < silence * 4 / 3 + patience(5)
                assert far.files() == []
                program.send_signal(signal.SIGCONT)
                said, _ = program.communicate(timeout=patience(30))
            finally:
                program.kill()
    assert (said.strip(), program.returncode) == (identity, 0)


@shows("remote.lost")
def test_a_place_on_this_machine_that_is_stopped_leaves_no_cli(
    claude_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guard is in the group of the link, which is killed."""
    links: list[LinkChild] = []
    start = LinkChild.start

    def started(link: LinkChild) -> None:
        start(link)
        links.append(link)

    def stop() -> list[int]:
        assert eventually((tmp_path / "on").exists, 60)
        below = descendants(links[0].pid)
        os.killpg(links[0].pid, signal.SIGSTOP)
        return [pid for pid, _ in below]

    monkeypatch.setattr(LinkChild, "start", started)
    place = Command(["env", "-i", f"HOME={tmp_path}", "PATH=/usr/bin:/bin"], heartbeat=heartbeat())
    with ScriptedModel(Repeat(answer)) as model, ThreadPoolExecutor(1) as other:
        stopped = other.submit(stop)
        with pytest.raises(LinkLostError):
            sync.run("Begin.", Options(cli_path=claude_path, env=model.env, allowed_tools=["Bash"]), transport=place)
    name = re.search(rb"H_NAME=(\S+)", links[0].first.data)
    assert name is not None
    for place_of_files in ("/dev/shm", "/tmp"):  # who would remove it was killed
        shutil.rmtree(f"{place_of_files}/{name[1].decode()}", ignore_errors=True)
    assert len(stopped.result()) > 5
    assert eventually(lambda: not any(map(alive, stopped.result())))


@shows("remote.lost")
def test_the_first_process_of_a_container_does_not_report_an_end_by_silence(
    claude_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = LinkChild.beat
    monkeypatch.setattr(LinkChild, "beat", lambda link, now: (tmp_path / "on").exists() or beat(link, now))
    # Nothing in a namespace can kill its first process: like one that is slow to die, it sees the end of the CLI.
    variables = ("env", "-i", f"HOME={tmp_path}", "PATH=/usr/bin:/bin")
    place = Command([*unshared(), *variables], heartbeat=heartbeat())
    with ScriptedModel(Repeat(answer)) as model, pytest.raises(LinkLostError) as caught:
        sync.run("Begin.", Options(cli_path=claude_path, env=model.env, allowed_tools=["Bash"]), transport=place)
    came(caught.value)
