"""Fleets of the real CLI."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Options, Retry
from hackamore.fleet import Fleet, Task
from hackamore.fleet.journal import open_journal
from hackamore.fleet.task import spec_of
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.fleet.storming import REPLY_TOKENS, Storm
from tests.support.patience import patience
from tests.support.sizes import size

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hackamore.testing.model.requests import ModelRequest
    from tests.conftest import RealCLI


class Worker:
    """A model that works on any number of tasks: two commands, then the answer. It goes by the history of each request."""

    def __init__(self) -> None:
        self.requests: defaultdict[str, list[int]] = defaultdict(list)
        self._lock = threading.Lock()

    def __call__(self, request: ModelRequest) -> Reply:
        history = str(request.body["messages"])
        found = re.search(r"<task (\d{5})>", history)
        assert found is not None
        task = found[1]
        steps = sum(f"call_{task}_{step}_" in history for step in (1, 2))
        with self._lock:
            self.requests[task].append(steps)
            number = len(self.requests[task])
        if steps == 2:
            return Reply(f"done task-{task}")
        identity = f"call_{task}_{steps + 1}_{number}"
        return Reply("I work.", ToolCall("Bash", {"command": f"echo {identity} >> log-{task}.txt"}, id=identity))


def storm(
    folder: Path,
    real_cli: RealCLI,
    *,
    tasks: int,
    kills: int,
    seed: int,
    repository: Path | None = None,
) -> tuple[Storm, Worker]:
    worker = Worker()
    with ScriptedModel(Repeat(worker)) as model:
        options: dict[str, Any] = {
            "cli_path": str(real_cli.cli_path),
            "env": {**real_cli.env(model), "IS_SANDBOX": "1"},
            "inherit_env": False,
            "permission_mode": "bypassPermissions",
        }
        settings = {"options": options, "tasks": tasks, "concurrency": 4, "folder": str(real_cli.cwd)}
        if repository is not None:
            settings["repository"] = str(repository)
        blown = Storm(folder, settings, kills, seed)
        blown.blow(tasks * 3)
        blown.check(patience(15))
    return blown, worker


def spent(blown: Storm) -> tuple[int, int]:
    """Return the replies that the journal counts, and the calls that it cannot know."""
    rows = list(blown.journal.rows())
    return sum(row.tokens for row in rows) // REPLY_TOKENS, sum(row.unknown_calls for row in rows)


def check_work(blown: Storm, worker: Worker, work_of: Callable[[str], str]) -> None:
    """Do nothing if the model was asked for nothing twice, and all that it was asked for is accounted for.

    Args:
        blown: the storm.
        worker: the model.
        work_of: returns the log of a task.
    """
    # The CLI writes its output and its transcript late: a kill can lose a reply whose command has run. The next attempt asks for it again.
    lost = {task: sum(after < before for before, after in pairwise(steps)) for task, steps in worker.requests.items()}
    counted = sum(map(len, worker.requests.values()))
    known, unknown = spent(blown)
    print(f"replies: {known} known, {unknown} unknown, {counted} counted by the model")
    assert known <= counted <= known + unknown, (known, counted, unknown, blown.killed)
    for row in blown.journal.rows():
        task = row.task.removeprefix("task-")
        steps = worker.requests[task]
        assert len(steps) <= row.tokens // REPLY_TOKENS + row.unknown_calls, (row, steps)
        # Resumed and not redone: no request has less history than one before it, but for one reply that a kill has lost.
        assert all(after >= before - 1 for before, after in pairwise(steps)), (task, steps)
        assert lost[task] < row.attempt, (task, steps)
        # A command that a kill interrupted has an unknown outcome, and is not repeated.
        log = work_of(row.task).split()
        assert max(Counter(log).values(), default=1) == 1
        done = {line.rsplit("_", 1)[0] for line in log}
        assert done <= {f"call_{task}_1", f"call_{task}_2"}
        assert len(done) == 2 or row.attempt > 1


def in_folder(folder: Path) -> Callable[[str], str]:
    def work_of(task: str) -> str:
        path = folder / f"log-{task.removeprefix('task-')}.txt"
        return path.read_text() if path.exists() else ""

    return work_of


def on_branches(repository: Path, blown: Storm) -> Callable[[str], str]:
    """Return what reads the logs of tasks from the branches that the journal names. No worktree is left."""
    branches = {row.task: row.branch for row in blown.journal.rows()}
    worktrees = git(repository, "worktree", "list", "--porcelain")
    assert worktrees.count("worktree ") == 1, worktrees

    def work_of(task: str) -> str:
        branch = branches[task]
        if branch is None:  # nothing was changed: both commands were interrupted
            return ""
        return git(repository, "show", f"{branch}:log-{task.removeprefix('task-')}.txt")

    return work_of


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_storm(tmp_path: Path, real_cli: RealCLI) -> None:
    """Exactly one result for each task, no agent left, and no call that is not accounted for."""
    kills = size("kills of agents")
    blown, worker = storm(tmp_path, real_cli, tasks=kills + 2, kills=kills, seed=7)
    check_work(blown, worker, in_folder(real_cli.cwd))


def test_a_storm_over_worktrees(tmp_path: Path, real_cli: RealCLI) -> None:
    """The same with a worktree for each task: the work of each is on its branch, and nowhere else."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    (repository / "README").write_text("A project.")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "Begin")
    blown, worker = storm(tmp_path, real_cli, tasks=6, kills=4, seed=8, repository=repository)
    check_work(blown, worker, on_branches(repository, blown))


def replies_in(folder: Path) -> int:
    """Return how many replies the transcripts below a folder have."""
    return sum(path.read_bytes().count(b'"type":"assistant"') for path in folder.rglob("*.jsonl"))


@pytest.mark.parametrize("call", [1, 2])
def test_a_call_that_was_open_at_a_kill_is_unknown(tmp_path: Path, real_cli: RealCLI, call: int) -> None:
    """The call counts, and one reply that the CLI may not have written."""
    asked: list[int] = []
    journal = open_journal(tmp_path / "journal.db")

    def reply(_: ModelRequest) -> Reply:
        asked.append(1)
        if len(asked) == call:
            until = time.monotonic() + patience(30)
            while call > 1 and not replies_in(
                real_cli.directory
            ):  # on a busy machine it asks again before it has written
                assert time.monotonic() < until
                time.sleep(0.02)
            [(name,)] = journal.store.look(lambda cursor: cursor.rows("SELECT process FROM attempts"))
            os.kill(int(name.rsplit("|", 2)[1]), signal.SIGKILL)
        return Reply(ToolCall("Bash", {"command": "echo one"})) if len(asked) < call else Reply("Done.")

    with ScriptedModel(Repeat(reply)) as model:
        options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(model), inherit_env=False)
        options = options.replace(allowed_tools=["Bash"])
        fleet = Fleet(tmp_path / "journal.db", options, retry=Retry(backoff=0))
        fleet.run([Task("sum", "What is 2 + 2?")]).wait()
    journal.close()
    [row] = fleet.results()
    assert (row.state, row.attempt, row.failures) == ("succeeded", 2, 1)
    assert (len(asked), row.tokens, row.unknown_calls) == (call + 1, call * REPLY_TOKENS, 2)


@pytest.mark.parametrize("output_type", [None, int])
def test_an_answer_that_was_given_before_the_driver_died_is_not_asked_for_again(
    tmp_path: Path, real_cli: RealCLI, output_type: type | None
) -> None:
    reply = Reply("4") if output_type is None else Reply(ToolCall("StructuredOutput", {"value": 4}))
    with ScriptedModel(reply) as model:
        options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(model), inherit_env=False)
        task = Task("sum", "What is 2 + 2?", output_type=output_type)
        journal = open_journal(tmp_path / "journal.db")
        gone = "elsewhere|1|1|0000"
        journal.add([(task.id, spec_of(task, options, Retry(), journal.salt))])
        [lease] = journal.lease(gone, 1, {task.id}, time.time())
        journal.begin(lease, gone, trace=None)
        journal.note(lease, gone, said=True, process="elsewhere|1|1")
        hackamore.sync.run(task.prompt, options.replace(session_id=lease.session_id), output_type=output_type)
        journal.close()
        [row] = [event.row for event in Fleet(tmp_path / "journal.db", options).run([task]) if hasattr(event, "row")]
    assert (row.state, row.attempt, row.tokens, row.unknown_calls) == ("succeeded", 2, REPLY_TOKENS, 0)
    assert row.text == "4" if output_type is None else row.output == 4
    assert row.cost > 0
