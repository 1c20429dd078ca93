"""Tasks of a fleet whose calls wait for a person, on the real CLI."""

from __future__ import annotations

import asyncio
import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Allow, Approvals, Options
from hackamore.cli.app import run_app
from hackamore.fleet import Fleet, Task, TaskChanged, TaskFinished
from hackamore.permissions import decode_permission_request
from hackamore.testing import Repeat, ScriptedModel
from tests.approvals.waiting import PROJECT, wait_until, writer
from tests.contract import shows

if TYPE_CHECKING:
    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving

Open = Callable[..., Approvals]


@shows("approvals.fleet.waiting")
def test_a_task_whose_call_waits_leaves_its_slot_to_others_and_goes_on_after_the_answer(
    driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    approvals, target, journal = opened(hold=0.1), real_cli.cwd / "made.txt", tmp_path / "journal.db"
    tasks = [Task("writes", f"Write {target}"), Task("talks", "Say something.")]
    with ScriptedModel(Repeat(writer)) as model:
        fleet = Fleet(journal, driving(model, approvals=approvals), concurrency=1)
        seen: list[tuple[str, str, str | None]] = []
        for event in fleet.run(tasks):
            if isinstance(event, TaskChanged):
                seen.append((event.task, event.state, event.cause))
            elif isinstance(event, TaskFinished):
                seen.append((event.row.task, event.row.state, event.row.cause))
                if event.row.task == "talks":
                    [request] = approvals.pending()
                    assert request.conversation.endswith(": writes")
                    assert approvals.claim() is None
                    assert run_app(["fleet", "status", "--journal", str(journal)]) == 0
                    assert "waits for the answer of a person" in " ".join(capsys.readouterr().out.split())
                    assert not target.exists()
                    opened().answer(request.id, Allow(), by="ada")
                    assert approvals.claim() is None
        row = next(iter(fleet.results()))
    states = [(task, state) for task, state, _ in seen]
    assert (
        states.index(("writes", "waiting")) < states.index(("talks", "running")) < states.index(("writes", "succeeded"))
    )
    assert ("writes", "waiting", "approval") in seen
    assert (row.text, row.attempt, row.failures) == ("Done.", 2, 0)
    assert target.read_text() == "one"
    assert [request.state for request in approvals.history()] == ["used"]


@shows("approvals.fleet.killed")
@pytest.mark.parametrize("hold", [0.1, 300.0], ids=["the task waits", "the call waits"])
def test_another_driver_continues_a_task_whose_driver_was_killed_while_it_waited(
    driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path, hold: float
) -> None:
    approvals, target, journal = opened(), real_cli.cwd / "made.txt", tmp_path / "journal.db"
    with ScriptedModel(Repeat(writer)) as model:
        options = driving(model)
        program = start(tmp_path, f"Write {target}", options, hold)
        try:
            [request] = wait_until(approvals.pending, "no request")
            wanted = "waiting" if hold < 1 else "running"
            wait_until(lambda: [row.state for row in Fleet(journal).results()] == [wanted], "the task")
        finally:
            program.send_signal(signal.SIGKILL)
            program.wait()
        opened().answer(request.id, Allow(), by="ada")
        fleet = Fleet(journal, driving(model, approvals=approvals))
        fleet.run([Task("writes", f"Write {target}")]).wait()
        [row] = fleet.results()
    assert (row.state, row.text) == ("succeeded", "Done.")
    assert target.read_text() == "one"
    assert [each.state for each in approvals.history()] == ["used"]


@shows("approvals.fleet.cancelled")
def test_the_requests_of_a_cancelled_task_are_withdrawn(
    driving: Driving, real_cli: RealCLI, opened: Open, tmp_path: Path
) -> None:
    approvals, target = opened(hold=0.1), real_cli.cwd / "made.txt"
    with ScriptedModel(Repeat(writer)) as model:
        fleet = Fleet(tmp_path / "journal.db", driving(model, approvals=approvals))
        for event in fleet.run([Task("writes", f"Write {target}")]):
            if isinstance(event, TaskChanged) and event.cause == "approval":
                fleet.cancel(["writes"])
    assert [each.state for each in approvals.history()] == ["withdrawn"]
    assert not target.exists()


@shows("approvals.fleet.sent")
def test_a_worker_of_an_executor_asks_in_the_same_database(opened: Open) -> None:
    approvals = opened(hold=0)
    with closing(pickle.loads(pickle.dumps(approvals))) as sent:
        task = sent.conversation("task")
        asyncio.run(task.permit(decode_permission_request({"tool_name": "Bash", "input": {"command": "make"}})))
    assert [request.input["command"] for request in approvals.pending()] == ["make"]


def start(folder: Path, prompt: str, options: Options, hold: float) -> subprocess.Popen[bytes]:
    """Start a program that runs a fleet of one task."""
    kept = {"cli_path": str(options.cli_path), "cwd": str(options.cwd), "env": dict(options.env)}
    settings = {"folder": str(folder), "prompt": prompt, "hold": hold, "options": kept}
    command = [sys.executable, "-m", "tests.approvals.test_fleet", json.dumps(settings)]
    return subprocess.Popen(command, cwd=PROJECT, start_new_session=True)


def _run(settings: dict[str, Any]) -> None:
    folder = Path(settings["folder"])
    approvals = Approvals(folder / "approvals.db", hold=settings["hold"])
    options = Options(**settings["options"], inherit_env=False, approvals=approvals)
    Fleet(folder / "journal.db", options).run([Task("writes", settings["prompt"])]).wait()


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
