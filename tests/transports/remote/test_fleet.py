"""A fleet over two machines whose links are cut all the time: one result for each task, no attempt counted for a lost link."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from hackamore import Options, Retry
from hackamore.fleet import Fleet, Task, TaskFinished
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transports.remote import SSH, Machines
from tests.contract import shows
from tests.support.machines import Sshd, eventually
from tests.support.seeds import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hackamore.testing.model.requests import ModelRequest

TASKS, KILLS = 30, 8


@pytest.fixture
def machines(claude_path: str) -> Iterator[list[Sshd]]:
    with Sshd(claude=claude_path, name="one") as one, Sshd(claude=claude_path, shell="bash", name="two") as two:
        yield [one, two]


def work(request: ModelRequest) -> Reply:
    """Let each task run a command, then answer with its number."""
    history = str(request.body["messages"])
    found = re.search(r"<task (\d+)>", history)
    assert found is not None
    if f"call_{found[1]}" in history:
        return Reply(f"done {found[1]}")
    return Reply(ToolCall("Bash", {"command": "sleep 0.5"}, id=f"call_{found[1]}"))


@pytest.mark.timeout(400)
@shows("remote.fleet")
def test_one_result_for_each_task(machines: list[Sshd], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    choice = random.Random(seeded(0))
    over = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < KILLS and not over.wait(choice.uniform(0.5, 1.5)):
            links = [pid for far in machines for pid in far.connections()]
            if links:
                with suppress(ProcessLookupError):
                    killed.append(choice.choice(links))
                    os.kill(killed[-1], signal.SIGKILL)

    killing = threading.Thread(target=kill)
    with ScriptedModel(Repeat(work)) as model:
        place = Machines(*(SSH(far.host, arguments=far.ssh_arguments, heartbeat=3) for far in machines))
        options = Options(env=model.env, allowed_tools=["Bash"])
        killing.start()
        try:
            with Fleet(
                tmp_path / "journal.db", options, concurrency=4, transport=place, retry=Retry(attempts=KILLS + 1)
            ) as fleet:
                tasks = [Task(f"t{number}", f"<task {number}>") for number in range(TASKS)]
                finished = [event.row for event in fleet.run(tasks) if isinstance(event, TaskFinished)]
        finally:
            over.set()
            killing.join()
    assert sorted(row.task for row in finished) == sorted(f"t{number}" for number in range(TASKS))
    assert {row.task: row.text for row in finished} == {f"t{number}": f"done {number}" for number in range(TASKS)}
    # A link that was cut before the supervisor answered is a failed start, and counts; one that was lost later does not.
    assert sum(row.failures for row in finished) == caplog.text.count("cannot be reached")
    attempts = sum(row.attempt for row in finished)
    print(f"{TASKS} tasks, {len(killed)} kills, {attempts} attempts")
    assert killed
    assert all(eventually(lambda far=far: not far.children()) for far in machines)  # type: ignore[misc]
