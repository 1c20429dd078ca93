"""`hackamore approvals ...`, as a process."""

from __future__ import annotations

import json
import secrets
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hackamore import Allow, Approvals, Deny, ElicitationRequest, ElicitationResult
from hackamore.permissions import PermissionRequest
from tests.approvals.announced import REASON, ask, call
from tests.cli.command import Command
from tests.contract import shows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Postgres


@pytest.fixture
def approvals(tmp_path: Path) -> Iterator[Approvals]:
    with closing(Approvals(tmp_path / "approvals.db", hold=0)) as made:
        yield made


@pytest.fixture
def hackamore(tmp_path: Path) -> Command:
    """Return the command, which knows the place."""
    made = Command(tmp_path, "")
    made.environment |= {"HACKAMORE_APPROVALS": str(tmp_path / "approvals.db"), "USER": "ada", "LOGNAME": "ada"}
    return made


@shows("approvals.command")
def test_requests_are_listed_shown_answered_and_in_the_history(approvals: Approvals, hackamore: Command) -> None:
    request = ask(approvals, call("git push"))
    listed = hackamore("approvals", "list")
    assert listed.code == 0
    assert listed.text.split("\t")[:2] == [request.id, "Bash"]
    assert "git push" in listed.text
    shown = hackamore("approvals", "show", request.id)
    for part in ("waiting", REASON, '"command": "git push"'):
        assert part in shown.text
    answered = hackamore("approvals", "answer", request.id, "deny", "--message", "Not today.")
    assert (answered.code, answered.errors) == (0, f"{request.id}: deny, by ada.\n")
    assert approvals.get(request.id).answer == Deny("Not today.")
    assert hackamore("approvals", "list").text == ""
    past = hackamore("approvals", "history").text.split("\t")
    assert (past[0], past[4:7]) == (request.id, ["answered", "deny", "ada"])
    [row] = json.loads(hackamore("approvals", "history", "--json").text)
    assert (row["answered_by"], row["answer"]) == ("ada", {"behavior": "deny", "message": "Not today."})


@shows("approvals.command")
def test_the_second_answer_fails_and_names_the_first_person(approvals: Approvals, hackamore: Command) -> None:
    request = ask(approvals, call("git push"))
    assert hackamore("approvals", "answer", request.id, "allow", "--by", "bob").code == 0
    late = hackamore("approvals", "answer", request.id, "deny")
    assert late.code == 1
    assert "'bob'" in late.errors
    assert approvals.get(request.id).answer == Allow()


@shows("approvals.command")
def test_an_answer_changes_the_input_or_adds_rules(approvals: Approvals, hackamore: Command) -> None:
    first, second = ask(approvals, call("git push")), ask(approvals, call("git pull", suggestions=True))
    given = json.dumps({"command": "git push --dry-run"})
    assert hackamore("approvals", "answer", first.id, "allow", "--input", given).code == 0
    assert approvals.get(first.id).answer == Allow({"command": "git push --dry-run"})
    assert hackamore("approvals", "answer", second.id, "allow", "--always", "--json").code == 0
    answer = approvals.get(second.id).answer
    assert isinstance(answer, Allow)
    [update] = answer.updated_permissions
    assert "git pull" in repr(update)


@shows("approvals.command")
def test_questions_and_elicitations_are_answered(approvals: Approvals, hackamore: Command) -> None:
    question = {
        "question": "Tea?",
        "header": "Tea",
        "options": [{"label": "Yes", "description": ""}],
        "multiSelect": False,
    }
    asked = ask(approvals, call(tool="AskUserQuestion", given={"questions": [question]}))
    without = hackamore("approvals", "answer", asked.id, "allow")
    assert without.code == 2
    assert "answers" in without.errors
    answers = {"answers": {"Tea?": "Yes"}}
    assert hackamore("approvals", "answer", asked.id, "allow", "--input", json.dumps(answers)).code == 0
    assert approvals.get(asked.id).answer == Allow({"questions": [question], **answers})
    form = ask(approvals, ElicitationRequest(mcp_server_name="forms", message="Name?"))
    assert hackamore("approvals", "answer", form.id, "allow", "--input", '{"name": "Ada"}').code == 0
    assert approvals.get(form.id).answer == ElicitationResult("accept", {"name": "Ada"})


@shows("approvals.command")
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["show", "nothing"], 1, "There is no request 'nothing'"),
        (["answer", "ID", "maybe"], 2, "`allow` or `deny`"),
        (["answer", "ID", "allow", "--message", "x"], 2, "--message"),
        (["answer", "ID", "deny", "--input", "{}"], 2, "--input"),
        (["answer", "ID", "allow", "--input", "[]"], 2, "JSON object"),
        (["list", "missing.db"], 1, "There is no database of approvals"),
        (["history", "--limit", "0"], 2, "--limit"),
    ],
)
def test_wrong_uses_end_with_the_exit_code_of_the_help_and_change_nothing(
    approvals: Approvals, hackamore: Command, arguments: list[str], code: int, text: str, tmp_path: Path
) -> None:
    request = ask(approvals, call("git push"))
    ran = hackamore("approvals", *(request.id if each == "ID" else each for each in arguments))
    assert (ran.code, text in ran.errors) == (code, True), ran.errors
    assert approvals.get(request.id).state == "waiting"
    assert not Path("missing.db").exists()


@shows("approvals.command")
def test_without_a_place_it_says_how_to_pass_one(tmp_path: Path) -> None:
    ran = Command(tmp_path, "")("approvals", "list")
    assert ran.code == 2
    assert "HACKAMORE_APPROVALS" in ran.errors


@shows("approvals.command")
def test_texts_of_the_model_cannot_steer_the_terminal(approvals: Approvals, hackamore: Command) -> None:
    hostile = "\x1b[2J\x1b]0;x\x07 \u202eevil\r\n"
    request = ask(
        approvals, PermissionRequest(tool_name=hostile, input_raw=call(hostile).input_raw, decision_reason=hostile)
    )
    for name in ("list", "show", "answer", "history"):
        rest = {"list": [], "show": [request.id], "answer": [request.id, "allow"], "history": []}[name]
        for flags in ([], ["--json"]):
            ran = hackamore("approvals", name, *rest, *flags)
            assert not {"\x1b", "\x07", "\u202e", "\r"} & set(ran.text + ran.errors)


@shows("approvals.command")
def test_a_url_of_postgresql_is_a_place_and_its_password_is_not_shown(
    postgres_server: Postgres, hackamore: Command, tmp_path: Path
) -> None:
    place = f"{postgres_server.url.replace('tester@', 'tester:geheim@')}?schema=test_{secrets.token_hex(6)}"
    with closing(Approvals(place, hold=0)) as approvals:
        request = ask(approvals, call("git push"))
        assert hackamore("approvals", "answer", request.id, "allow", place).code == 0
        assert approvals.get(request.id).answer == Allow()
    for wrong in (place.replace("test_", "none_"), place.replace("127.0.0.1:", "127.0.0.1:1")):
        ran = hackamore("approvals", "list", wrong)
        assert ran.code == 1
        assert "geheim" not in ran.text + ran.errors
