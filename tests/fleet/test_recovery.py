"""Attempts that were killed: what their transcripts say they spent, and answers that need not be paid for again."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import Budget, BudgetExceededError, Options, Price
from hackamore.fleet import Copy, Folder, Task
from hackamore.fleet.journal import journal as journal_module
from hackamore.fleet.journal import open_journal
from hackamore.fleet.recovery import Recovered, config_folder, recover
from hackamore.fleet.task import spec_of
from hackamore.testing import Script, SimulatedCLI
from tests.fleet.conftest import NOW, finished, tasks
from tests.transcripts.disk import Writer, some_id, tool_use

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fleet.conftest import Making

PROMPT = "Do the work 0"
PRICES = {"claude-opus-5-5": Price(input=1, output=2)}
REPLY = 20_000
"""Billionths of a dollar that a reply of `Writer` costs: 10 tokens read, 5 written."""
OUTPUT = '{"value":4}'


def answers(writer: Writer) -> None:
    writer.assistant("4")


def stops_at_its_limit(writer: Writer) -> None:
    writer.assistant("A half")
    writer.lines[-1] = writer.lines[-1].replace('"end_turn"', '"max_tokens"')


def calls(writer: Writer) -> None:
    writer.assistant(tool_use("t1", command="make"))
    writer.lines[-1] = writer.lines[-1].replace('"end_turn"', '"tool_use"')


def has_the_result_of_a_call(writer: Writer) -> None:
    calls(writer)
    writer.result("t1")


def answers_after_a_call(writer: Writer) -> None:
    has_the_result_of_a_call(writer)
    writer.assistant("4")


def left_something_in_the_background(writer: Writer) -> None:
    writer.assistant(tool_use("t1", command="make", run_in_background=True))
    writer.result("t1")
    writer.assistant("It runs.")


def failed(writer: Writer) -> None:
    writer.assistant("API Error", model="<synthetic>")


def gives_output(writer: Writer) -> None:
    writer.assistant(tool_use("t1", name="StructuredOutput", value=4))
    writer.result("t1")


def gives_wrong_output(writer: Writer) -> None:
    writer.assistant(tool_use("t1", name="StructuredOutput", value="four"))
    writer.user([{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}])


def gives_output_of_another_tool(writer: Writer) -> None:
    writer.assistant(tool_use("t1", value=4))
    writer.result("t1")
    writer.result("t2")


def got_another_prompt(writer: Writer) -> None:
    writer.assistant("4")
    writer.user("And then?")
    writer.assistant("5")


def nothing(_: Writer) -> None:
    pass


@pytest.mark.parametrize(
    ("then", "wants_output", "replies", "open_calls", "missing", "answer"),
    [
        (nothing, False, 0, 1, 2, None),
        (answers, False, 1, 0, 0, ("4", None)),
        (answers, True, 1, 0, 2, None),
        (stops_at_its_limit, False, 1, 0, 2, None),
        (calls, False, 1, 1, 2, None),
        (has_the_result_of_a_call, False, 1, 1, 2, None),
        (answers_after_a_call, False, 2, 0, 0, ("4", None)),
        (left_something_in_the_background, False, 2, 0, 2, None),
        (failed, False, 0, 0, 2, None),
        (gives_output, True, 1, 0, 0, (OUTPUT, OUTPUT)),
        (gives_output, False, 1, 1, 2, None),
        (gives_wrong_output, True, 1, 1, 2, None),
        (gives_output_of_another_tool, True, 1, 1, 2, None),
        (got_another_prompt, False, 2, 0, 2, None),
    ],
)
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    "prompt", [PROMPT, [{"type": "text", "text": "Do the"}, {"type": "image"}, {"type": "text", "text": "work 0"}]]
)
def test_what_a_transcript_says(
    tmp_path: Path,
    prompt: Any,
    then: Callable[[Writer], None],
    wants_output: bool,
    killed: bool,
    replies: int,
    open_calls: int,
    missing: int,
    answer: tuple[str, str | None] | None,
) -> None:
    """The replies that it has, the calls that it may lack, and the answer of the last prompt, if that is complete.

    A CLI that was killed had perhaps not written its last reply when the next call was open already.
    """
    writer = Writer()
    writer.user(prompt)
    then(writer)
    writer.save(tmp_path)
    text, output = answer or ("", None)
    found = recover(writer.session_id, str(tmp_path), prompt, PRICES, wants_output=wants_output, killed=killed)
    unknown = missing if killed else open_calls
    assert found == Recovered(replies * REPLY, replies * 15, unknown, answer is not None, text, output)


def test_replies_count_once_and_those_of_subagents_as_well(tmp_path: Path) -> None:
    writer = Writer()
    writer.user(PROMPT)
    writer.assistant("I", id="m1", usage={"input_tokens": 10, "output_tokens": 1})
    writer.assistant(tool_use("t1"), id="m1")
    writer.assistant("am", id="m1", usage={"input_tokens": 10, "output_tokens": 2})
    writer.assistant("Unpriced", id="m2", model="new")
    agent = writer.save(tmp_path).with_suffix("") / "subagents" / "agent-x.jsonl"
    agent.parent.mkdir(parents=True)
    side = Writer()
    side.user("Look", isSidechain=True)
    side.assistant(tool_use("t2"), id="m3", isSidechain=True)
    agent.write_text(side.text)
    found = recover(writer.session_id, str(tmp_path), "Another", PRICES, wants_output=False, killed=False)
    assert found == Recovered(2 * REPLY, 3 * 15, 1, False, "", None)


def test_without_a_message_nothing_is_known(tmp_path: Path) -> None:
    writer = Writer()
    assert recover(writer.session_id, str(tmp_path), PROMPT, PRICES, wants_output=False, killed=False) is None
    for text in ("", "{\n", '{"type":"file-history-snapshot","snapshot":{}}\n'):
        writer.save(tmp_path, text=text)
        assert recover(writer.session_id, str(tmp_path), PROMPT, PRICES, wants_output=False, killed=False) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(), "/here"),
        (Options(env={"CLAUDE_CONFIG_DIR": "/there"}), "/there"),
        (Options(inherit_env=False, env={"HOME": "/home/ada"}), "/home/ada/.claude"),
        (Options(inherit_env=False), "/home/me/.claude"),
    ],
)
def test_the_transcript_is_sought_where_the_cli_writes_it(
    options: Options, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/here")
    monkeypatch.setenv("HOME", "/home/me")
    assert config_folder(options) == expected


# -- in a fleet --------------------------------------------------------------------------------------------------------


def kill(folder: Path, task: Task, options: Options, *, usd: int, tokens: int, session: str | None = None) -> str:
    """Make an attempt whose driver was killed after its prompt was sent; return its session, which may be another than before."""
    journal = open_journal(folder / "journal.db")
    gone = "m|boot|elsewhere|4194304|1|0000"
    journal.add([(task.id, spec_of(task, options, NOW, journal.salt))])
    [lease] = journal.lease(gone, 1, {task.id}, time.time())
    assert journal.begin(lease, gone, trace=None)
    process = "m|boot|elsewhere|4194304|1"
    journal.note(lease, gone, said=True, process=process, session_id=session, usd=usd, tokens=tokens)
    journal.reclaim("me")
    journal.close()
    return session or lease.session_id


@pytest.mark.parametrize("noted", [(3, 1), (70_000, 90)])
def test_an_answer_that_was_given_before_a_kill_is_not_paid_again(
    making: Making, tmp_path: Path, noted: tuple[int, int]
) -> None:
    """What was noted while it ran is replaced by what the transcript has."""
    options = Options(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    [task] = tasks(1)
    writer = Writer(kill(tmp_path, task, options, usd=noted[0], tokens=noted[1]))
    writer.user(PROMPT)
    writer.assistant("4")
    writer.save(tmp_path / "config")
    cli = SimulatedCLI(Script().user().says("Paid again."), per_session=True)
    fleet = making(transport=cli, options=options, prices=PRICES)
    row = finished(fleet, [task])["task-0"]
    assert (row.state, row.text, row.attempt, row.cost, row.tokens, row.unknown_calls) == (
        "succeeded", "4", 2, REPLY / 1e9, 15, 0,
    )  # fmt: skip
    assert [attempt.tokens for attempt in fleet.attempts("task-0")] == [15, 0]
    assert not cli.sessions()


def test_an_attempt_without_a_transcript_hides_none_of_those_after_it(making: Making, tmp_path: Path) -> None:
    options = Options(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    [task] = tasks(1)
    kill(tmp_path, task, options, usd=3, tokens=1)
    writer = Writer(kill(tmp_path, task, options, usd=5, tokens=2, session=some_id(2)))
    writer.user(PROMPT)
    writer.assistant(tool_use("t1"))
    writer.result("t1")
    writer.save(tmp_path / "config")
    row = finished(making(Script().user().says("Done."), options=options, prices=PRICES), [task])["task-0"]
    assert (row.state, row.attempt, row.unknown_calls) == ("succeeded", 3, 2 + 2)
    assert [attempt.tokens for attempt in making().attempts("task-0")][:2] == [1, 15]


def test_an_answer_of_another_prompt_is_not_the_answer(making: Making, tmp_path: Path) -> None:
    options = Options(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    [task] = tasks(1)
    writer = Writer(kill(tmp_path, task, options, usd=0, tokens=0))
    writer.user("Something else")
    writer.assistant("No.")
    writer.save(tmp_path / "config")
    cli = SimulatedCLI(Script().user().says("Done."), per_session=True)
    row = finished(making(transport=cli, options=options, prices=PRICES), [task])["task-0"]
    assert (row.state, row.text, row.attempt) == ("succeeded", "Done.", 2)
    assert row.tokens > 15
    assert len(cli.sessions()) == 1


@pytest.mark.parametrize("own", [True, False])
def test_a_file_that_a_killed_cli_was_writing_is_no_work(making: Making, tmp_path: Path, own: bool) -> None:
    """The CLI writes beside a file and renames that. A branch of a killed task had both (2.1.330)."""
    source = tmp_path / "source"
    (source / "shop").mkdir(parents=True)
    unfinished = "cart.py.tmp.4194304.3a5250135dd0"
    kept = ["cart.py", "cart.py.tmp.41943.3a5250135dd0", f"{unfinished}.md", "cart.py.tmp.4194304.notes"]
    for name in [*kept, unfinished]:
        (source / "shop" / name).touch()
    [task] = tasks(1)
    kill(tmp_path, task, Options(), usd=0, tokens=0)
    fleet = making(workspace=Copy(source) if own else Folder(source))
    row = finished(fleet, [task])["task-0"]
    assert (row.state, row.attempt) == ("succeeded", 2)
    assert row.folder is not None
    found = sorted(path.name for path in (Path(row.folder) / "shop").iterdir())
    assert found == sorted(kept if own else [*kept, unfinished])  # in the folder of a user nothing is removed


def test_a_half_written_file_that_cannot_be_removed_fails_the_task(
    making: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be committed with the work otherwise."""
    source = tmp_path / "source"
    source.mkdir()
    unfinished = "cart.py.tmp.4194304.3a5250135dd0"
    (source / unfinished).touch()
    [task] = tasks(1)
    kill(tmp_path, task, Options(), usd=0, tokens=0)
    unlink = os.unlink

    def locked(path: str, **others: Any) -> None:
        if str(path).endswith(unfinished):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        unlink(path, **others)

    monkeypatch.setattr(os, "unlink", locked)
    row = finished(making(workspace=Copy(source)), [task])["task-0"]
    assert row.state == "failed"
    assert row.error is not None
    assert unfinished in row.error
    assert "right to write" in row.error


@pytest.mark.parametrize("replies", [0, 1, 2])
def test_a_crash_costs_what_the_transcript_of_its_attempt_has(
    making: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replies: int
) -> None:
    monkeypatch.setattr(journal_module, "uuid", SimpleNamespace(uuid4=lambda: some_id(1)))
    if replies:
        writer = Writer(some_id(1))
        writer.user(PROMPT)
        for _ in range(replies):
            writer.assistant(tool_use("t1"))
            writer.result("t1")
        writer.save(tmp_path / "config")
    options = Options(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    fleet = making(Script().user().crash(3), options=options, prices=PRICES, retry=NOW.replace(attempts=1))
    row = finished(fleet, tasks(1))["task-0"]
    # A reply that was not written may be missing, and the call after it may have been open.
    assert (row.cause, row.cost, row.tokens, row.unknown_calls) == ("crash", replies * REPLY / 1e9, replies * 15, 2)
    assert fleet.attempts("task-0")[0].tokens == row.tokens


def test_a_reply_that_goes_on_until_a_crash_costs_what_the_transcript_has_and_no_more(
    making: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "uuid", SimpleNamespace(uuid4=lambda: some_id(1)))
    writer = Writer(some_id(1))
    writer.user(PROMPT)
    writer.assistant("A long story", id="m1")
    writer.save(tmp_path / "config")
    script = Script().user()
    for text in ("A", "long story" * 100):
        body = {
            "id": "m1",
            "model": "claude-opus-5-5",
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
        }
        script.frame({"type": "assistant", "message": {**body, "usage": {"input_tokens": 10, "output_tokens": 1}}})
    options = Options(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    fleet = making(script.crash(3), options=options, prices=PRICES, retry=NOW.replace(attempts=1))
    row = finished(fleet, tasks(1))["task-0"]
    assert (row.cause, row.cost, row.tokens) == ("crash", REPLY / 1e9, 15)
    assert fleet.attempts("task-0")[0].tokens == row.tokens


def test_a_crash_without_a_transcript_keeps_what_was_reported_and_says_what_may_be_missing(
    making: Making, tmp_path: Path
) -> None:
    options = Options(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    script = Script().user().calls("Bash", {"command": "make"}, result="ok").crash(3)
    fleet = making(script, options=options, prices=PRICES, retry=NOW.replace(attempts=1))
    row = finished(fleet, tasks(1))["task-0"]
    assert (row.cause, row.unknown_calls) == ("crash", 2)
    assert row.tokens >= 15


@pytest.mark.parametrize("own", [True, False])
def test_a_budget_that_interrupts_a_turn_says_that_a_call_may_be_missing(
    making: Making, tmp_path: Path, own: bool
) -> None:
    options = Options(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    script = Script().user().calls("Bash", {"command": "make"}, result="ok").says("Done.")
    budget = Budget(usd=1e-6)
    fleet = making(script, options=options, **({} if own else {"budget": budget}))
    try:
        fleet.run([Task("a", "Do it", options={"budget": budget} if own else {})]).wait()
    except BudgetExceededError:
        assert not own
    [row] = fleet.results()
    assert (row.cause, row.unknown_calls) == ("budget" if own else "spent", 1)
    assert row.tokens >= 15
