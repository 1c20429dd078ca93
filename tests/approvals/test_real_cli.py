"""Calls of the real CLI that wait for a person: warm, cold, and after a restart."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Allow, Deny, Policy, ResultError
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hackamore import Approvals
    from hackamore.approvals import ApprovalRequest
    from hackamore.approvals.requests import AnswerTo
    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell


def write(path: Path, content: str) -> Reply:
    return Reply(ToolCall("Write", {"file_path": str(path), "content": content}))


def wait_for_request(approvals: Approvals) -> ApprovalRequest:
    until = time.monotonic() + patience(30)
    while not (found := approvals.pending()):
        assert time.monotonic() < until, "nobody asked"
        time.sleep(0.02)  # another process or thread asks
    return found[0]


def answering(approvals: Approvals, answer: AnswerTo, by: str = "ada") -> threading.Thread:
    thread = threading.Thread(target=lambda: approvals.answer(wait_for_request(approvals).id, answer, by=by))
    thread.start()
    return thread


@shows("approvals.warm")
@pytest.mark.parametrize("guarded", [False, True], ids=["without a policy", "a policy"])
@pytest.mark.parametrize("answer", [Allow(), Deny("Not today.")], ids=["yes", "no"])
def test_a_warm_call_runs_after_a_yes_only(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Callable[..., Approvals], answer: Any, guarded: bool
) -> None:
    approvals, other = opened(), opened()
    target = real_cli.cwd / "made.txt"
    given: dict[str, Any] = {"policy": Policy([])} if guarded else {}
    with ScriptedModel(write(target, "one"), Repeat("Done.")) as model:
        thread = answering(other, answer)

        async def scenario() -> None:
            result = await shell.run("Go.", driving(model, approvals=approvals, **given))
            assert result.text == "Done."

        shell.play(scenario)
        thread.join()
    assert target.exists() == (answer == Allow())
    [request] = approvals.history()
    assert (request.state, request.answered_by, request.tool, request.input["content"]) == (
        "used",
        "ada",
        "Write",
        "one",
    )
    assert request.answer == answer


@shows("approvals.cold")
def test_a_cold_call_is_answered_later_and_runs_once(
    shell: Shell, driving: Driving, real_cli: RealCLI, opened: Callable[..., Approvals]
) -> None:
    approvals, target = opened(hold=0.1), real_cli.cwd / "made.txt"
    errors: list[ResultError] = []
    with ScriptedModel(write(target, "one"), write(target, "one"), Repeat("Done.")) as model:

        async def ask() -> None:
            with pytest.raises(ResultError) as caught:
                await shell.run("Go.", driving(model, approvals=approvals))
            errors.append(caught.value)

        shell.play(ask)
        assert not target.exists()
        [request] = approvals.pending()
        assert approvals.claim() is None
        opened().answer(request.id, Allow(), by="ada")
        later = opened()
        waiting = later.claim()
        assert waiting is not None
        assert later.claim() is None
        session_id = errors[0].session_id
        assert (waiting.session_id, waiting.conversation) == (session_id, session_id)

        async def go_on() -> None:
            result = await shell.run(waiting.prompt, driving(model, approvals=later, resume=session_id))
            assert result.text == "Done."

        shell.play(go_on)
        later.done(waiting)
    assert target.read_text() == "one"
    [request] = later.history()
    assert request.state == "used"
