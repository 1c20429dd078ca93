"""Sessions of the real CLI that wait for a person: questions, plans and MCP servers, and sessions that end meanwhile."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

import hackamore
from hackamore import Allow, ResultError
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.approvals.asking import first_pending
from tests.approvals.test_kills import Part
from tests.contract import shows
from tests.support.leaks import join_library_threads
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hackamore import Approvals
    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell

DESK = os.path.join(os.path.dirname(__file__), "desk.py")
QUESTION = {
    "questions": [
        {
            "question": "Tea or coffee?",
            "header": "Drink",
            "options": [{"label": "Tea", "description": "Hot."}, {"label": "Coffee", "description": "Hot, too."}],
            "multiSelect": False,
        }
    ]
}
ASKING: dict[str, tuple[ToolCall, dict[str, Any], str]] = {
    "question": (ToolCall("AskUserQuestion", QUESTION), {}, '"Tea or coffee?"="Tea"'),
    "plan": (ToolCall("ExitPlanMode", {}), {"permission_mode": "plan"}, "approved exiting plan mode"),
    "elicitation": (
        ToolCall("mcp__desk__order", {}),
        {
            "mcp_servers": {"desk": {"command": sys.executable, "args": [DESK]}},
            "allowed_tools": ["mcp__desk__order"],
        },
        "accept: tea",
    ),
}


@shows("approvals.kinds")
@pytest.mark.filterwarnings("ignore:PERMISSION_CALLBACK_SHADOWED")  # elicitations do not go to `can_use_tool`
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("kind", ASKING)
def test_questions_plans_and_servers_are_answered_by_another_process(
    shell: Shell, driving: Driving, opened: Callable[..., Approvals], tmp_path: Path, kind: str, warm: bool
) -> None:
    call, given, wanted = ASKING[kind]
    approvals = opened(hold=60 if warm else 0.3)
    person = Part("person", {"address": str(tmp_path / "approvals.db")})
    assert person.wait("ready")

    async def scenario() -> None:
        if warm:
            person.command("answer")
            await shell.run("Go.", driving(model, approvals=approvals, **given))
            return
        with pytest.raises(ResultError) as caught:
            await shell.run("Go.", driving(model, approvals=approvals, **given))
        person.command("answer")
        assert person.wait("answered") == f"answered {kind}"
        found = approvals.claim()
        assert found is not None
        assert found.session_id == caught.value.session_id
        await shell.run(found.prompt, driving(model, approvals=approvals, resume=found.session_id, **given))
        approvals.done(found)

    with ScriptedModel(*[Reply(call)] * (1 if warm else 2), Repeat("Done.")) as model:
        shell.play(scenario)
        results = [result.text for request in model.requests for result in request.tool_results]
    assert wanted in "".join(results[-1:]), results
    person.end()
    [request] = approvals.history()
    assert (request.kind, request.state, request.answered_by) == (kind, "used", "ada")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("end", ["interrupt", "stop", "both"])
@shows("approvals.interrupted")
def test_a_session_that_ends_while_a_request_waits(
    driving: Driving, real_cli: RealCLI, opened: Callable[..., Approvals], backend: str, end: str
) -> None:
    approvals, target = opened(), real_cli.cwd / "made.txt"
    call = ToolCall("Write", {"file_path": str(target), "content": "x"})

    async def scenario() -> None:
        async with hackamore.Session(driving(model, approvals=approvals)) as session:
            await session.send("Go.")
            await first_pending(approvals)
            async with anyio.create_task_group() as group:
                if end in ("interrupt", "both"):

                    async def interrupt() -> None:
                        try:
                            await session.interrupt()
                        except hackamore.HackamoreError:
                            assert end == "both"

                    group.start_soon(interrupt)
                if end in ("stop", "both"):
                    group.start_soon(session.stop)
            with anyio.fail_after(patience(20)):
                while end == "interrupt" and approvals.pending():
                    await anyio.sleep(0.05)

    with ScriptedModel(Reply(call), Repeat("Done.")) as model:
        anyio.run(scenario, backend=backend)
    assert join_library_threads() == []  # one that was left alone may still take the request back
    [request] = [*approvals.pending(), *approvals.history()]
    assert request.state in {"interrupt": ["withdrawn"], "stop": ["waiting"], "both": ["withdrawn", "waiting"]}[end]
    if request.state == "waiting":  # the next session has the answer
        approvals.answer(request.id, Allow(), by="ada")
        found = approvals.claim()
        assert found is not None
    assert not target.exists()


@shows("approvals.people")
@pytest.mark.parametrize("what", ["approvers", "tags"])
def test_functions_of_the_host_that_raise(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Callable[..., Approvals], what: str
) -> None:
    def broken(request: object) -> Any:
        raise LookupError("the directory of people cannot be read")

    approvals, target = opened(**{what: broken}), real_cli.cwd / "made.txt"
    call = ToolCall("Write", {"file_path": str(target), "content": "x"})

    async def scenario() -> None:
        result = await shell.run("Go.", driving(model, approvals=approvals))
        [warning] = [each for each in result.warnings if each.code == "CALLBACK_FAILED"]
        assert "LookupError: the directory of people cannot be read" in warning.message

    with ScriptedModel(Reply(call), Repeat("Done.")) as model:
        shell.play(scenario)
    assert not target.exists()
    assert approvals.pending() == []
