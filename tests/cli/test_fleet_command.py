"""`hackamore fleet`: tasks from files, runs that end in every way, and what the journal says afterwards."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hackamore.fleet import Fleet, Task
from hackamore.fleet.journal import open_journal
from hackamore.fleet.states import Cause, Trigger
from hackamore.fleet.task import Spec
from hackamore.storage.holders import holder_name
from hackamore.testing import Script, SimulatedCLI
from tests.cli.command import Command, Ran, children_of, left_of
from tests.contract import shows
from tests.fleet.holding import REPLIES, Agents
from tests.support.patience import patience

Started = Callable[[subprocess.Popen[bytes]], subprocess.Popen[bytes]]
Fleets = Callable[..., Command]
DONE = Script().user().says("Done.")
THREE: list[dict[str, Any]] = [{"id": name, "prompt": f"Do {name}."} for name in ("a", "b", "c")]


@pytest.fixture
def playing(tmp_path: Path) -> Fleets:
    """Return a function of a script that returns the command, in the folder of the test, with a CLI that plays it."""

    def play(script: Script = DONE) -> Command:
        path = SimulatedCLI(script, per_session=True).install(tmp_path / "cli")
        command = Command(tmp_path, "")
        command.environment["HACKAMORE_CLI_PATH"] = str(path)
        return command

    return play


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    folder = tmp_path / "agents"
    folder.mkdir()
    made = Agents(folder)
    yield made
    made.close()


def write(folder: Path, tasks: list[dict[str, Any]], name: str = "tasks.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return str(path)


def results(command: Command, folder: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    ran = command("fleet", "results", "-j", str(folder / "j.db"), "--jsonl", *arguments)
    assert (ran.code, ran.errors) == (0, "")
    return {row["task"]: row for row in map(json.loads, ran.text.splitlines())}


def run(command: Command, folder: Path, file: str, *arguments: str) -> Ran:
    return command("fleet", "run", file, "-j", str(folder / "j.db"), *arguments, cwd=folder)


# -- runs and their results --------------------------------------------------------------------------------------------


def test_a_run_in_a_pipe(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing()
    tasks: list[dict[str, Any]] = [{**THREE[0], "tags": {"suite": "=lint"}, "options": {"max_turns": 3}}, *THREE[1:]]
    ran = run(hackamore, tmp_path, write(tmp_path, tasks), "--verify", "true", "--traces", "traces")
    assert ran.code == 0, ran
    lines = sorted(line.split("\t") for line in ran.text.splitlines())
    assert [line[:3] for line in lines] == [["succeeded", name, "1"] for name in "abc"]
    assert "3 tasks: 3 succeeded - 3 attempts" in ran.errors.replace("·", "-")
    rows = results(hackamore, tmp_path)
    assert [row["state"] for row in rows.values()] == ["succeeded"] * 3
    assert rows["a"]["tags"] == {"suite": "=lint"}
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["a.1.jsonl", "b.1.jsonl", "c.1.jsonl"]
    # Once more: nothing is left to do.
    again = run(hackamore, tmp_path, write(tmp_path, tasks), "--verify", "true")
    assert (again.code, again.text) == (0, "")
    changed = run(hackamore, tmp_path, write(tmp_path, [{"id": "a", "prompt": "Other."}]), "--verify", "true")
    assert changed.code == 1
    assert "'a'" in changed.errors


def test_events_for_programs(playing: Fleets, tmp_path: Path) -> None:
    ran = run(playing(), tmp_path, write(tmp_path, THREE[:1]), "--json")
    assert (ran.code, ran.errors) == (0, "")
    events = [json.loads(line) for line in ran.text.splitlines()]
    assert [event["event"] for event in events][-2:] == ["task_finished", "fleet_finished"]
    assert [event["state"] for event in events if event["event"] == "task_changed"] == [
        "leased",
        "running",
        "verifying",
    ]
    assert events[-1]["states"] == {"succeeded": 1}
    assert (events[-2]["task"], events[-2]["text"]) == ("a", "Done.")


def test_failures_retries_and_cancellations(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing(Script().user().says("Bad.").user(contains="not accepted").says("Done."))
    journal = str(tmp_path / "j.db")
    good = tmp_path / "good"
    check = f"test -e {shlex.quote(str(good))}"
    ran = run(hackamore, tmp_path, write(tmp_path, THREE[:2]), "--verify", check, "--attempts", "1")
    assert ran.code == 1
    assert all(line.startswith("failed\t") and "\tverify: " in line for line in ran.text.splitlines()), ran.text
    assert "fleet results --state failed" in ran.errors
    assert set(results(hackamore, tmp_path, "--state", "failed")) == {"a", "b"}
    assert results(hackamore, tmp_path, "--state", "succeeded") == {}
    # A task that is queued again, and one that is cancelled then.
    assert "2 tasks queued" in hackamore("fleet", "retry", "--failed", "-j", journal).errors
    assert "1 task cancelled" in hackamore("fleet", "cancel", "b", "-j", journal).errors
    status = hackamore("fleet", "status", "-j", journal)
    assert "2 tasks: 1 cancelled, 1 queued" in status.text
    good.touch()
    resumed = hackamore("fleet", "resume", "-j", journal)
    assert resumed.code == 1  # one of its tasks was cancelled
    assert resumed.text.startswith("succeeded\ta\t2\t")
    assert "1 task queued" in hackamore("fleet", "retry", "a", "b", "--fresh", "-j", journal).errors
    assert "1 task neither failed nor was cancelled" in hackamore("fleet", "retry", "a", "-j", journal).errors
    assert hackamore("fleet", "resume", "-j", journal).code == 0
    as_json = json.loads(hackamore("fleet", "status", "-j", journal, "--json").text)
    assert (as_json["states"]["succeeded"], as_json["total"], as_json["lost"]) == (2, 2, [])
    unknown = hackamore("fleet", "cancel", "nobody", "-j", journal)
    assert (unknown.code, "no task 'nobody'" in unknown.errors) == (1, True)


def test_the_next_start_of_a_task_that_waits(playing: Fleets, tmp_path: Path) -> None:
    path, me, at = str(tmp_path / "j.db"), holder_name(), time.time() + 3600
    with closing(open_journal(path)) as journal:
        journal.add([(name, Spec(prompt="x")) for name in ("a", "b")])
        for late, lease in enumerate(journal.lease(me, 2, ["a", "b"], time.time())):
            journal.finish(lease, me, Trigger.POSTPONED, cause=Cause.CRASH, not_before=at + 60 * late)
    status = json.loads(playing()("fleet", "status", "-j", path, "--json").text)
    assert (status["states"]["waiting"], status["next_start"]) == (2, pytest.approx(at, abs=1))


@pytest.mark.parametrize(
    ("calls", "said"), [(0, "$0.0200"), (1, "$0.0200 and 1 unknown call"), (4, "$0.0200 and 4 unknown calls")]
)
def test_calls_that_the_cost_may_lack(playing: Fleets, tmp_path: Path, calls: int, said: str) -> None:
    path, me = str(tmp_path / "j.db"), holder_name()
    with closing(open_journal(path)) as journal:
        journal.add([(name, Spec(prompt="x")) for name in ("a", "b")])
        [lease] = journal.lease(me, 1, ["a"], time.time())
        assert journal.begin(lease, me, trace=None)
        journal.settle("a", 1, 20_000_000, 5, calls)
    hackamore = playing()
    [line] = [line for line in hackamore("fleet", "status", "-j", path).text.splitlines() if "2 tasks" in line]
    assert re.split(" [·-] ", line)[2] == said
    status = json.loads(hackamore("fleet", "status", "-j", path, "--json").text)
    assert (status["cost"], status["unknown_calls"]) == (0.02, calls)


def test_results_in_files(playing: Fleets, tmp_path: Path) -> None:
    hackamore, journal = playing(Script().user().says("=1+1")), str(tmp_path / "j.db")
    tasks = [{"id": "-a", "prompt": "x", "tags": {"n": "1"}}, {"id": "b", "prompt": "x", "tags": {"m": "@2"}}]
    assert run(hackamore, tmp_path, write(tmp_path, tasks)).code == 0
    as_csv = hackamore("fleet", "results", "-j", journal, "--csv").text
    rows = list(csv.DictReader(as_csv.splitlines()))
    assert [(row["task"], row["text"], row["tag.n"], row["tag.m"]) for row in rows] == [
        ("'-a", "'=1+1", "1", ""),
        ("b", "'=1+1", "", "'@2"),
    ]
    assert [row["task"] for row in json.loads(hackamore("fleet", "results", "-j", journal, "--json").text)] == [
        "-a",
        "b",
    ]
    for name in ("r.csv", "r.jsonl", "r.json"):
        (tmp_path / name).write_text("old")
        ran = hackamore("fleet", "results", "-j", journal, "-o", str(tmp_path / name))
        assert (ran.code, ran.text) == (0, "")
        assert "2 tasks in" in ran.errors
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert (tmp_path / "r.csv").read_bytes().decode() == as_csv
    assert not list(tmp_path.glob(".r.*"))
    assert hackamore("fleet", "results", "-j", journal, "-o", "/nowhere/r.csv").code == 1
    assert hackamore("fleet", "results", "-j", journal, "--csv", "--json").code == 2
    table = hackamore("fleet", "results", "-j", journal)
    assert [line.split("\t")[0] for line in table.text.splitlines()] == ["-a", "b"]


@shows("fleet.junit")
def test_junit_of_a_run_and_of_its_results(playing: Fleets, tmp_path: Path) -> None:
    hackamore, journal = playing(), str(tmp_path / "j.db")
    tasks = [{**THREE[0], "verify": ["true"]}, {**THREE[1], "verify": ["sh", "-c", "echo 'no \x01'; exit 1"]}]
    more = ("--attempts", "1", "--junit", "run.xml")
    refused = run(hackamore, tmp_path, write(tmp_path, tasks), "--trust-tasks", "--junit", "nowhere/run.xml")
    assert (refused.code, "no folder" in refused.errors, (tmp_path / "j.db").exists()) == (2, True, False)
    assert run(hackamore, tmp_path, write(tmp_path, tasks), "--trust-tasks", *more).code == 1
    suite = ElementTree.parse(tmp_path / "run.xml").getroot()[0]
    assert suite.attrib == {"name": "hackamore fleet", "tests": "2", "failures": "1", "skipped": "0", "errors": "0"}
    good, bad = sorted(suite, key=lambda case: case.attrib["name"])
    assert (good.attrib["name"], len(good), float(good.attrib["time"]) > 0) == ("a", 0, True)
    assert (bad.attrib["name"], bad[0].tag) == ("b", "failure")
    assert bad[0].attrib["message"].startswith("verify: ")
    hackamore("fleet", "retry", "b", "-j", journal)
    for given in (("--junit", "later.xml"), ("-o", "later.xml")):
        assert hackamore("fleet", "results", "-j", journal, *given, cwd=tmp_path).code == 0
        suite = ElementTree.parse(tmp_path / "later.xml").getroot()[0]
        assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")


def test_the_page_of_an_attempt(playing: Fleets, tmp_path: Path) -> None:
    hackamore, journal = playing(), str(tmp_path / "j.db")
    run(hackamore, tmp_path, write(tmp_path, [{"id": "../a", "prompt": "x"}]), "--traces", "traces")
    ran = hackamore("fleet", "trace", "../a", "-j", journal, cwd=tmp_path)
    assert ran.code == 0, ran
    assert "../a, attempt 1" in (tmp_path / "a.1.html").read_text()
    assert hackamore("fleet", "trace", "../a", "-j", journal, cwd=tmp_path).code == 2  # it would replace the page
    assert hackamore("fleet", "trace", "../a", "-j", journal, "--force", "--attempt", "1", cwd=tmp_path).code == 0
    assert "must be 1 to 1" in hackamore("fleet", "trace", "../a", "-j", journal, "--attempt", "7").errors
    assert "there is no 'b'" in hackamore("fleet", "trace", "b", "-j", journal).errors
    for path in (tmp_path / "traces").iterdir():
        path.unlink()
    assert "is gone" in hackamore("fleet", "trace", "../a", "-j", journal).errors


def test_on_a_terminal(playing: Fleets, tmp_path: Path) -> None:
    hackamore, file = playing(), write(tmp_path, [{"id": "a\u202e[red]b", "prompt": "x"}, *THREE])
    arguments = ("fleet", "run", file, "-j", str(tmp_path / "j.db"), "--cwd", str(tmp_path))
    shown = hackamore.on_terminal(*arguments)
    assert shown.code == 0, shown
    assert "a\\u202e[red]b" in shown.text
    assert "\u202e" not in shown.text
    assert "━" in shown.text
    assert "4 tasks: 4 succeeded" in shown.text
    # The bar is gone at the end.
    assert re.search(r"\r(\x1b\[\d+A)?\x1b\[[JK]", shown.text[shown.text.rindex("━") :])
    table = hackamore.on_terminal("fleet", "results", "-j", str(tmp_path / "j.db"), env={"NO_COLOR": "1"})
    assert "\x1b" not in table.text
    assert table.text.split()[:3] == ["TASK", "STATE", "ATTEMPTS"]
    plain = hackamore.on_terminal(*arguments[:4], str(tmp_path / "other.db"), *arguments[5:], env={"NO_COLOR": "1"})
    assert (plain.code, "\x1b" in plain.text) == (0, False)


# -- files -------------------------------------------------------------------------------------------------------------

JSONL = [
    ('{"id": "a"', "line 1: it is not valid JSON"),
    ("\n\n[1]", "line 3: it must be a JSON object"),
    ('{"id": "a"}', "line 1: `prompt` is missing"),
    ('{"id": "a", "prompt": "x", "promt": 1}', "unknown key `promt`. Did you mean `prompt`?"),
    ('{"id": "a", "prompt": "x", "max_turns": 1}', 'Write it as {"options": {"max_turns": ...}}'),
    ('{"id": "a", "prompt": "x", "options": {"max_turn": 1}}', "Did you mean `max_turns`?"),
    ('{"id": "a", "prompt": "x", "options": {"max_turns": "many"}}', "line 1: `max_turns`"),
    ('{"id": "a", "prompt": "x", "options": {"resume": "y"}}', "`resume` is chosen by the fleet"),
    ('{"id": "a", "prompt": "x", "options": {"hooks": {}}}', "can only be set from Python"),
    ('{"id": "a", "prompt": "x", "options": []}', "line 1: `options`"),
    ('{"id": "a", "prompt": 5}', "line 1: `prompt`"),
    ('{"id": "", "prompt": "x"}', "line 1: `id`"),
    ('{"id": "a", "prompt": "x", "tags": {"n": 1}}', "line 1: `tags`"),
    ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}', "line 2: the id 'a' stands at"),
    ('{"id": "\\ud800", "prompt": "x"}', "line 1: it is not valid JSON"),
    ("", "has no tasks"),
    # What runs programs is refused without `--trust-tasks`.
    ('{"id": "a", "prompt": "x", "verify": ["true"]}', "`verify` is refused from a file"),
    ('{"id": "a", "prompt": "x", "options": {"cli_path": "/x"}}', "`cli_path` is refused from a file"),
    ('{"id": "a", "prompt": "x", "options": {"env": {"A": "b"}}}', "`env` is refused from a file"),
    ('{"id": "a", "prompt": "x", "options": {"mcp_servers": {}}}', "`mcp_servers` is refused from a file"),
    ('{"id": "a", "prompt": "x", "options": {"permission_mode": "bypassPermissions"}}', "--trust-tasks"),
]
CSV = [
    ("id,promt\na,x", "line 1: unknown column `promt`. Did you mean `prompt`?"),
    ("id,prompt,suite\na,x,y", "line 1: unknown column `suite`. Call it `tag.suite`"),
    ("id,prompt,model\na,x,y", "line 1: the column `model` needs a JSONL file"),
    ("id,id,prompt\na,b,x", "line 1: the column `id` stands twice"),
    ("id;prompt\na;x", "separated by `;`"),
    ("id\na", "line 1: the column `prompt` is missing"),
    ('id,prompt\na,"x\ny"\nb', "line 4: it has 1 cells, and the first line has 2"),
    ('id,prompt\na,"x', "line 2: it is not valid CSV"),
    ("id,prompt\na,", "line 2: `prompt`"),
    ("id,prompt", "has no tasks"),
]
PYTHON = [
    ("x = 1", "has no `tasks`"),
    ("tasks = 5", "must be a list of `hackamore.fleet.Task` objects, got 5"),
    ("tasks = ['a']", "task 1: it must be a `hackamore.fleet.Task`, got 'a' (str)"),
    ("def tasks(:", "line 1 raised SyntaxError"),
    ("\n1 / 0", "line 2 raised ZeroDivisionError"),
    ("def tasks():\n    yield 1 / 0", "line 2 raised ZeroDivisionError"),
    ("import sys\nsys.exit(3)", "line 2 raised SystemExit"),
    ("from hackamore.fleet import Task\ntasks = [Task('', 'x')]", "line 2 raised OptionsError: `id`"),
    ("from hackamore.fleet import Task\ntasks = [Task('a', 'x'), Task('a', 'y')]", "task 2: the id 'a' stands at"),
]


@pytest.mark.parametrize(
    ("ending", "text", "expected"),
    [(ending, *row) for ending, rows in (("jsonl", JSONL), ("csv", CSV), ("py", PYTHON)) for row in rows],
)
def test_a_wrong_file_is_refused_before_anything_starts(ending: str, text: str, expected: str, tmp_path: Path) -> None:
    from hackamore import Options, OptionsError
    from hackamore.cli.fleet_tasks import read_tasks

    file = tmp_path / f"tasks.{ending}"
    file.write_text(text)
    with pytest.raises(OptionsError) as caught:
        read_tasks(str(file), Options(), None, trusted=False)
    assert expected in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_wrong_file_in_the_command(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing()
    ran = run(hackamore, tmp_path, write(tmp_path, [*THREE, {"id": "d"}]))
    assert (ran.code, "tasks.jsonl, line 4: `prompt` is missing" in ran.errors) == (2, True)
    assert not (tmp_path / "j.db").exists()
    assert "cannot be read" in run(hackamore, tmp_path, "nothing.jsonl").errors
    (tmp_path / "tasks.txt").touch()
    assert "must end in .jsonl, .csv or .py" in run(hackamore, tmp_path, "tasks.txt").errors
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "a", "prompt": "\xe4"}')
    assert run(hackamore, tmp_path, "latin.jsonl").code == 2


def test_tasks_from_csv(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing()
    (tmp_path / "t.csv").write_bytes(
        '\ufeffid,prompt,tag.suite\r\na,"Two\r\nlines, with ""quotes""",lint\r\n\r\nb,ä,\r\n'.encode()
    )
    assert run(hackamore, tmp_path, "t.csv").code == 0
    assert {name: row["tags"] for name, row in results(hackamore, tmp_path).items()} == {
        "a": {"suite": "lint"},
        "b": {},
    }


def test_tasks_from_python(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing()
    (tmp_path / "beside.py").write_text("NAMES = ['a', 'b']\n")
    (tmp_path / "work.py").write_text(
        "from hackamore.fleet import Task\nfrom beside import NAMES\n\n"
        "def check(answer):\n    return answer.text == 'Done.' or 'no'\n\n"
        "def tasks():\n    return (Task(name, 'x', verify=check) for name in NAMES)\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run(hackamore, tmp_path, "work.py").code == 0
    assert hackamore("fleet", "resume", "-j", str(tmp_path / "j.db"), cwd=elsewhere).code == 0
    assert set(results(hackamore, tmp_path)) == {"a", "b"}


def test_trusted_tasks_may_run_programs(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing()
    file = write(tmp_path, [{"id": "a", "prompt": "x", "verify": ["false"], "options": {"env": {"A": "b"}}}])
    ran = run(hackamore, tmp_path, file, "--trust-tasks", "--verify", "true", "--attempts", "1")
    assert (ran.code, "verify" in ran.text) == (1, True)  # the check of the task itself counts


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "t.jsonl"], "Pass `--journal PATH`"),
        (
            ["run", "t.jsonl", "-j", "j.db", "--copy", ".", "--folder", "."],
            "`--copy` and `--folder` exclude each other",
        ),
        (["run", "t.jsonl", "-j", "j.db", "--folder", ".", "--to", "."], "`--to` needs `--worktree` or `--copy`"),
        (["run", "t.jsonl", "-j", "j.db", "--verify", "'a"], "`--verify` cannot be read"),
        (["run", "t.jsonl", "-j", "j.db", "--verify", " "], "`--verify` needs a command"),
        (["run", "t.jsonl", "-j", "j.db", "--engine", "mars"], "`--engine` must be one of local, dask"),
        (["run", "t.jsonl", "-j", "j.db", "--engine", "dask"], "needs `--scheduler ADDRESS`"),
        (["run", "t.jsonl", "-j", "j.db", "--scheduler", "tcp://x"], "`--scheduler` needs `--engine dask`"),
        (["run", "t.jsonl", "-j", "j.db", "--budget", "-1"], "`--budget`"),
        (["run", "t.jsonl", "-j", "j.db", "--concurrency", "0"], "`concurrency`"),
        (["run", "t.jsonl", "-j", "j.db", "--folder", "nowhere"], "nowhere"),
        (["run", "t.jsonl", "-j", "j.db", "--resume", "x"], "There is no option"),
        (["results", "-j", "j.db", "--state", "done"], "`--state` must be one of"),
        (["retry", "-j", "t.jsonl"], "Pass ids of tasks, or `--failed`"),
        (["cancel", "a", "--all", "-j", "t.jsonl"], "Pass ids of tasks, or `--all`"),
    ],
)
def test_mistakes(playing: Fleets, tmp_path: Path, arguments: list[str], expected: str) -> None:
    write(tmp_path, THREE, "t.jsonl")
    Fleet(tmp_path / "j.db").close()
    if "t.jsonl" in arguments[2:]:
        arguments = [str(tmp_path / "j.db") if each == "t.jsonl" else each for each in arguments]
    ran = playing()("fleet", *arguments, cwd=tmp_path)
    assert (ran.code, expected in ran.errors) == (2, True), ran
    assert b"Traceback" not in ran.err


@pytest.mark.parametrize("name", ["status", "results", "resume", "retry --failed", "cancel --all", "trace a"])
def test_a_journal_that_is_not_there_is_not_made(playing: Fleets, tmp_path: Path, name: str) -> None:
    ran = playing()("fleet", *name.split(), "-j", str(tmp_path / "j.db"))
    assert (ran.code, "There is no journal" in ran.errors) == (1, True), ran
    assert not (tmp_path / "j.db").exists()


def test_settings_are_kept_without_secrets(playing: Fleets, tmp_path: Path) -> None:
    hackamore, journal = playing(), tmp_path / "j.db"
    secret = "sk-very-secret"
    first = run(
        hackamore, tmp_path, write(tmp_path, THREE), "--option", json_option("env", {"ANTHROPIC_API_KEY": secret}),
        "--option", "effort=high", "--max-turns", "7", "--verify", "false", "--attempts", "1",
        "--append-system-prompt", f"Sign with {secret}.",
    )  # fmt: skip
    assert first.code == 1
    for path in tmp_path.glob("j.db*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()
    refused = hackamore("fleet", "resume", "-j", str(journal))
    assert (refused.code, "`env`, which the journal does not keep" in refused.errors) == (2, True)
    hackamore("fleet", "retry", "--failed", "-j", str(journal))
    again: tuple[str, ...] = ("--option", json_option("env", {"ANTHROPIC_API_KEY": "another"}))
    refused = hackamore("fleet", "resume", "-j", str(journal), *again)
    assert (refused.code, "`append_system_prompt`, which the journal does not keep" in refused.errors) == (2, True)
    again += ("--append-system-prompt", "Sign.")
    resumed = hackamore("fleet", "resume", "-j", str(journal), *again, "--verify", "true")
    # The check is a part of the task, as the prompt is.
    assert (resumed.code, "`verify` was" in resumed.errors) == (1, True)
    assert hackamore("fleet", "resume", "-j", str(journal), *again, "--verify", "false").code == 1


def json_option(name: str, value: object) -> str:
    return f"{name}={json.dumps(value)}"


def test_a_journal_of_a_program_is_not_resumed_by_the_command(playing: Fleets, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "j.db", transport=SimulatedCLI(DONE, per_session=True))
    fleet.run([Task("a", "x")]).wait()
    fleet.close()
    hackamore = playing()
    ran = hackamore("fleet", "resume", "-j", str(tmp_path / "j.db"))
    assert (ran.code, "was not made by `hackamore fleet run`" in ran.errors) == (2, True)
    assert results(hackamore, tmp_path)["a"]["text"] == "Done."


def test_a_budget_ends_the_run(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing()
    ran = run(hackamore, tmp_path, write(tmp_path, THREE), "--budget", "0.000001", "--concurrency", "1")
    assert ran.code == 1
    assert "budget" in ran.errors.lower()
    assert "Traceback" not in ran.errors


def test_without_a_cli(playing: Fleets, tmp_path: Path) -> None:
    hackamore = playing()
    ran = run(hackamore, tmp_path, write(tmp_path, THREE), "--cli-path", "/nowhere/claude")
    assert ran.code == 3, ran
    assert [row["state"] for row in results(hackamore, tmp_path).values()] == ["queued"] * 3


# -- signals -----------------------------------------------------------------------------------------------------------


class Driven:
    """A run of four tasks, two at a time, whose agents wait until the test releases them."""

    def __init__(self, agents: Agents, folder: Path, started: Started) -> None:
        self.agents = agents
        self.folder = folder
        self.command = Command(folder, "")
        self.journal = str(folder / "j.db")
        tasks = [{"id": f"t{number}", "prompt": "Work."} for number in range(4)]
        options = agents.options()
        settings = [
            "--cli-path", str(options.cli_path), "--cwd", str(options.cwd), "--permission-mode", "bypassPermissions",
        ]  # fmt: skip
        file = write(folder, tasks)
        self.process = started(self.command.start("fleet", "run", file, "-j", self.journal, "-c", "2", *settings))
        agents.wait_begun(2)
        self.children = children_of(self.process)
        assert len(self.children) >= 2

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def read_note(self, wanted: str) -> None:
        assert self.process.stderr is not None
        line = self.process.stderr.readline().decode()
        assert wanted in line, line

    def end(self) -> Ran:
        out, err = self.process.communicate(timeout=patience(60))
        return Ran(self.process.returncode, out, err)

    def states(self) -> list[str]:
        return [row["state"] for row in results(self.command, self.folder).values()]

    def resume(self) -> None:
        """Go on until all is done; each task was paid once, and nothing is left."""
        assert left_of(self.children) == []
        self.agents.release()
        ran = self.command("fleet", "resume", "-j", self.journal)
        assert ran.code == 0, ran
        assert self.states() == ["succeeded"] * 4
        sessions = self.agents.cli.sessions()
        assert len(sessions) == 4
        assert all(session.replies >= REPLIES for session in sessions)


@pytest.fixture
def driven(agents: Agents, tmp_path: Path, started: Started) -> Driven:
    return Driven(agents, tmp_path, started)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_drains(driven: Driven, number: int, code: int) -> None:
    driven.signal(number)
    driven.read_note("Nothing more is started; 2 agents still run. A second Ctrl-C (or signal) stops them.")
    driven.agents.release()
    ran = driven.end()
    assert ran.code == code
    assert "hackamore fleet resume --journal" in ran.errors
    assert len(ran.text.splitlines()) == 2
    assert driven.states() == ["succeeded", "succeeded", "queued", "queued"]
    driven.resume()


def test_a_second_signal_stops(driven: Driven) -> None:
    driven.signal(signal.SIGINT)
    driven.read_note("2 agents still run")
    driven.signal(signal.SIGINT)
    ran = driven.end()
    assert (ran.code, ran.text) == (130, "")
    assert "0 succeeded" not in ran.errors
    assert driven.states() == ["queued"] * 4
    driven.resume()


def test_a_killed_driver(driven: Driven) -> None:
    driven.process.kill()
    driven.end()
    status = driven.command("fleet", "status", "-j", driven.journal)
    assert "2 tasks belong to a driver or worker that is gone" in status.errors
    driven.resume()


def test_the_reader_of_the_output_goes_away(driven: Driven) -> None:
    assert driven.process.stdout is not None
    driven.process.stdout.close()
    driven.agents.release()
    assert driven.process.wait(patience(60)) == 141
    assert left_of(driven.children) == []


def test_cancelling_from_elsewhere(driven: Driven) -> None:
    assert "4 tasks cancelled" in driven.command("fleet", "cancel", "--all", "-j", driven.journal).errors
    ran = driven.end()
    assert ran.code == 1
    assert driven.states() == ["cancelled"] * 4
    assert left_of(driven.children) == []
    assert os.path.exists(driven.journal)
