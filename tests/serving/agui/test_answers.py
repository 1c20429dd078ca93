"""Answers to interrupts of each kind: what reaches the call, and what is refused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hackamore import Allow, Approvals, Deny, ElicitationResult
from hackamore.approvals.page import Person
from hackamore.serving.agui.asking import Asked
from hackamore.serving.agui.failures import Refused
from tests.approvals.pages import elicitation, permission
from tests.contract import shows

pytestmark = pytest.mark.anyio
QUESTION = {
    "questions": [
        {"question": "Tea?", "header": "T", "options": [{"label": "Yes", "description": ""}], "multiSelect": False}
    ]
}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
ASKED: dict[str, Any] = {
    "tool": lambda: permission("Bash", {"command": "ls"}),
    "plan": lambda: permission("ExitPlanMode", {"plan": "Do it."}),
    "question": lambda: permission("AskUserQuestion", QUESTION),
    "form": lambda: elicitation("Who?", SCHEMA),
}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def entry(name: str, payload: Any, status: str = "resolved") -> Any:
    return SimpleNamespace(interrupt_id=name, status=status, payload=payload)


async def asked(approvals: Approvals, kind: str, key: str = "/t") -> str:
    """Let a call wait; return the id of its request."""
    request = ASKED[kind]()
    before = {each.id for each in approvals.pending()}
    await (approvals.elicit if kind == "form" else approvals.permit)(request, own=key)
    [found] = {each.id for each in approvals.pending()} - before
    return found


@shows("agui.yes")
@pytest.mark.parametrize(
    ("kind", "payload", "answer"),
    [
        ("tool", {"approved": True}, Allow()),
        ("tool", {"approved": True, "editedArgs": {"command": "pwd"}}, Allow({"command": "pwd"})),
        ("tool", {"approved": True, "message": "fine"}, Allow()),
        ("tool", {"approved": False, "message": "No."}, Deny("No.")),
        ("tool", {"approved": False, "editedArgs": {"command": "pwd"}}, Deny("The user denied this.")),
        ("plan", {"approved": True}, Allow()),
        ("question", {"approved": True, "answers": {"Tea?": "Yes"}}, Allow({**QUESTION, "answers": {"Tea?": "Yes"}})),
        ("question", {"approved": False}, Deny("The user denied this.")),
        ("form", {"approved": True, "content": {"name": "Ada"}}, ElicitationResult.accept({"name": "Ada"})),
        ("form", {"approved": False, "message": "no"}, ElicitationResult("decline")),
    ],
)
async def test_an_answer_reaches_its_request(tmp_path: Path, kind: str, payload: Any, answer: Any) -> None:
    with closing(Approvals(tmp_path / "approvals.db", hold=0)) as approvals:
        name = await asked(approvals, kind)
        them = Asked(approvals, "/t", Person("ada"))
        [interrupt] = [them.interrupt(each) for each in them.waiting()]
        assert interrupt["responseSchema"]["required"] == ["approved"]
        assert set(payload) <= {*interrupt["responseSchema"]["properties"], "message"}
        them.resume([entry(name, payload)])
        found = approvals.get(name)
        assert (found.answer, found.answered_by) == (answer, "ada")
        assert "answered what you were waiting for" in them.prompt("")
        assert them.prompt("More.")[1] == {"type": "text", "text": "More."}
        them.settle()
        assert approvals.get(name).state == "withdrawn"  # the model did not use it


@shows("agui.yes")
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("tool", {"approved": True, "answers": {"Tea?": "Yes"}}),
        ("tool", {"approved": True, "editedArgs": "ls"}),
        ("question", {"approved": True}),
        ("question", {"approved": True, "answers": {"Milk?": "Yes"}}),
        ("form", {"approved": True, "editedArgs": {}}),
    ],
)
async def test_an_answer_of_another_kind_is_refused(tmp_path: Path, kind: str, payload: Any) -> None:
    with closing(Approvals(tmp_path / "approvals.db", hold=0)) as approvals:
        name = await asked(approvals, kind)
        with pytest.raises(Refused) as caught:
            Asked(approvals, "/t", Person("ada")).resume([entry(name, payload)])
        assert (caught.value.failure.status, approvals.get(name).state) == (400, "waiting")


async def test_one_wrong_answer_stops_all(tmp_path: Path) -> None:
    with closing(Approvals(tmp_path / "approvals.db", hold=0)) as approvals:
        one, two = await asked(approvals, "tool"), await asked(approvals, "plan")
        them = Asked(approvals, "/t", Person("ada"))
        for entries, code in (
            ([entry(one, {"approved": True}), entry(two, "?")], "invalid_resume"),
            ([entry(one, {"approved": True})], "interrupt_pending"),
            ([entry(one, {"approved": True}), entry("x", {"approved": True})], "interrupt_unknown"),
        ):
            with pytest.raises(Refused) as caught:
                them.resume(entries)
            assert caught.value.failure.code == code
        assert {each.state for each in (approvals.get(one), approvals.get(two))} == {"waiting"}


async def test_the_answer_of_another_person_counts(tmp_path: Path) -> None:
    with closing(Approvals(tmp_path / "approvals.db", hold=0)) as approvals:
        name = await asked(approvals, "tool")
        approvals.answer(name, Deny("Not now."), by="boss")
        them = Asked(approvals, "/t", Person("ada"))
        them.resume([entry(name, {"approved": True})])
        assert them.events[-1]["value"] == {"interruptId": name, "answeredBy": "boss", "answer": "deny"}
        assert "Not now." in them.prompt("")
        approvals.withdraw(name)
        with pytest.raises(Refused, match="over"):
            Asked(approvals, "/t", Person("ada")).resume([entry(name, {"approved": True})])
