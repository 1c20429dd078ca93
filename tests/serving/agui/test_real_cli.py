"""Runs of the real CLI: interrupts that survive a kill of the service, subagents and thoughts."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Approvals
from hackamore.testing import Repeat, Reply, ScriptedModel, Thinking, ToolCall
from tests.contract import shows
from tests.serving.agui.host import Host
from tests.serving.agui.verifying import Run, frames
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.conftest import RealCLI

pytestmark = pytest.mark.timeout(180)


def options_of(cli: RealCLI, model: ScriptedModel, **more: Any) -> dict[str, Any]:
    return {"cli_path": cli.cli_path, "cwd": str(cli.cwd), "env": cli.env(model), **more}


def write(path: Path, content: str = "one") -> ToolCall:
    return ToolCall("Write", {"file_path": str(path), "content": content})


def yes(run: Run) -> list[dict[str, Any]]:
    """Return the answers that allow all interrupts of a run."""
    found = run.outcome["interrupts"]
    return [{"interruptId": each["id"], "status": "resolved", "payload": {"approved": True}} for each in found]


@shows("agui.interrupts")
def test_an_interrupt_survives_a_kill_of_the_service(real_cli: RealCLI, tmp_path: Path) -> None:
    target = real_cli.cwd / "made.txt"
    again = Reply(write(target), expect_text="A person has answered")
    with ScriptedModel(Reply("I write it.", write(target)), again, Reply("Done.", expect_text="success")) as model:
        host = Host(tmp_path, options_of(real_cli, model))
        first = host.run("Write it.", "r1")
        [interrupt] = first.outcome["interrupts"]
        [call] = first.names
        assert (interrupt["toolCallId"], interrupt["reason"]) == (call, "tool_call")
        assert interrupt["metadata"]["input"] == {"file_path": str(target), "content": "one"}
        assert first.results == {}  # the call waits: it has no result
        status, body = host.post("Something else.", "r2")
        assert (status, json.loads(body)["error"]["code"]) == (409, "interrupt_pending")
        host.kill()
        assert not target.exists()

        host = Host(tmp_path, options_of(real_cli, model))
        second = host.run(None, "r3", resume=yes(first))
        host.close()
    assert target.read_text() == "one"
    assert second.results.pop(call).startswith("A person answered this call (allow)")
    assert len(second.results) == 1
    assert (second.text, second.outcome) == ("Done.", {"type": "success"})
    with closing(Approvals(tmp_path / "approvals.db")) as approvals:
        [record] = approvals.history()
        assert (record.state, record.answered_by, record.conversation) == ("used", "local user", "/t")


def test_a_call_of_a_subagent_waits(real_cli: RealCLI, tmp_path: Path) -> None:
    inner = real_cli.cwd / "inner.txt"
    agent = ToolCall(
        "Agent",
        {
            "description": "write",
            "prompt": "Write inner.",
            "subagent_type": "general-purpose",
            "run_in_background": False,
        },
    )
    steps: list[Any] = [Reply(Thinking("I delegate."), "An agent.", agent), Repeat("It was denied.")]
    inside: dict[str, Any] = {"*": [Reply(Thinking("I am inside."), "I write.", write(inner)), Repeat("Not written.")]}
    with ScriptedModel(*steps, subagents=inside) as model, closing(Host(tmp_path, options_of(real_cli, model))) as host:
        run = host.run("Go.", "r1")
        [started] = run.of("SUBAGENT_STARTED")
        [interrupt] = run.outcome["interrupts"]
        agent_id = started["subagentRunId"]
        assert interrupt["subagentRunId"] == agent_id
        assert run.of("SUBAGENT_FINISHED")[0]["outcome"] == {"type": "suspended", "interruptIds": [interrupt["id"]]}
        texts = {run.owners[name]: text for name, text in run.texts.items()}
        thoughts = {run.owners[name]: text for name, text in run.thoughts.items()}
        assert texts[agent_id] == "I write."
        assert (thoughts[None], thoughts[agent_id]) == ("I delegate.", "I am inside.")
        denied = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": False, "message": "No."}}
        ]
        second = host.run(None, "r2", resume=denied)
        assert second.outcome == {"type": "success"}
        assert host.run("And now?", "r3").outcome == {"type": "success"}  # an answer that is not used does not stay
    assert not inner.exists()


@shows("agui.yes")
def test_answers_that_are_not_understood_change_nothing(real_cli: RealCLI, tmp_path: Path) -> None:
    target = real_cli.cwd / "made.txt"
    with (
        ScriptedModel(Reply(write(target)), Repeat(Reply("Fine."))) as model,
        closing(Host(tmp_path, options_of(real_cli, model))) as host,
        closing(Approvals(tmp_path / "approvals.db")) as approvals,
    ):
        [interrupt] = host.run("Write it.", "r1").outcome["interrupts"]
        name = interrupt["id"]
        for payload in (
            {},
            {"approved": "yes"},
            {"approved": 1},
            True,
            "yes",
            {"approved": True, "more": 1},
            {"action": "always"},
            {"approved": True, "action": "always", "destination": "userSettings"},
            {"approved": True, "destination": "userSettings"},
            None,
        ):
            resume = [{"interruptId": name, "status": "resolved", "payload": payload}]
            status, body = host.post(None, "r2", resume=resume)
            assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_resume"), payload
        resume = [{"interruptId": name, "status": "resolved", "payload": {"approved": True}}]
        status, body = host.post(None, "r3", thread="another", resume=resume)
        assert (status, json.loads(body)["error"]["code"]) == (404, "interrupt_unknown")
        assert approvals.get(name).state == "waiting"
        status, body = host.post(None, "r4", resume=[{"interruptId": name, "status": "cancelled"}])
        assert status == 200
        assert Run(event for _, event in frames(body)).outcome == {"type": "success"}
    assert not target.exists()


@shows("agui.back")
def test_a_closed_connection_stops_the_run(real_cli: RealCLI, tmp_path: Path) -> None:
    with (
        ScriptedModel(Reply("I begin.", chunk=1, delay=0.5), Repeat("Fine.")) as model,
        closing(Host(tmp_path, options_of(real_cli, model))) as host,
    ):
        connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=patience(60))
        given = {"threadId": "t", "runId": "r1", "messages": [{"id": "1", "role": "user", "content": "Go."}]}
        connection.request("POST", "/", json.dumps(given), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.read(30).startswith(b"id: 1")
        answer.close()
        connection.close()
        run: Run | None = None
        while run is None:
            status, body = host.post("And?", "r2")
            run = Run(event for _, event in frames(body)) if status == 200 else None
            assert status in (200, 409)
        assert run.text == "Fine."
