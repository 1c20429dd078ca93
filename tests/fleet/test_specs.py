"""What the journal keeps of a task, and compares: no secret, and the same in every process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hackamore import Budget, McpStdioServerConfig, Options, OptionsError, Retry, SdkPluginConfig, Timeouts
from hackamore.fleet import Answer, Copy, Fleet, Task
from hackamore.fleet.differences import difference
from hackamore.fleet.plan import FleetPlan
from hackamore.fleet.task import Spec, spec_of
from hackamore.transcripts.stores import MemoryStore
from tests.fleet.conftest import NOW, finished, tasks

if TYPE_CHECKING:
    from tests.fleet.conftest import Making

SALT = b"salt"
SECRET = "sk-ant-api03-abcdefghij"


def allow(answer: Answer) -> bool:
    return bool(answer)


class Check:
    """A check that is an object."""

    def __call__(self, answer: Answer) -> bool:
        return bool(answer)


def spec(task: Task | None = None, retry: Retry = NOW, salt: bytes = SALT, **options: Any) -> Spec:
    return spec_of(task or Task("a", "Do it"), Options(**options), retry, salt)


@pytest.mark.parametrize(
    "options",
    [
        {"mcp_servers": {"x": McpStdioServerConfig(command="x", env={"TOKEN": SECRET})}},
        {"settings": {"env": {"TOKEN": SECRET}}},
        {"system_prompt": SECRET},
        {"env": {"TOKEN": SECRET}},
        {"extra_args": {"token": SECRET}},
    ],
)
def test_secrets_are_kept_as_digests(options: dict[str, Any]) -> None:
    kept = spec(**options)
    assert SECRET.encode() not in msgspec.json.encode(kept)
    assert kept == spec(**options)
    # Keys are renewed between two nights; all else is part of the task. A digest tells nothing without the salt of its journal.
    changed = [name for name in options if name != "env"]
    assert list(kept.options) == changed
    assert all(kept.options[name] != spec(salt=b"other", **options).options[name] for name in changed)
    assert all(str(kept.options[name]).startswith("<hidden ") for name in changed)


@pytest.mark.parametrize(
    ("verify", "kept"),
    [
        (None, None),
        (("pytest", "-q"), ["pytest", "-q"]),
        (allow, f"{__name__}.allow"),
        (Check(), f"{__name__}.Check"),
    ],
)
def test_checks_are_kept_by_their_names(verify: Any, kept: Any) -> None:
    assert spec(Task("a", "Do it", verify=verify)).verify == kept


def test_what_a_spec_has(tmp_path: Path) -> None:
    task = Task("a", [{"type": "text", "text": "Do it"}], output_type=int, tags={"suite": "lint"})
    found = spec(
        task, NOW.replace(resume=False), add_dirs=[tmp_path, "b"], allowed_tools=("Bash",), max_turns=3, cwd=tmp_path
    )
    assert found.prompt == [{"type": "text", "text": "Do it"}]
    assert (found.resume, found.tags, found.verify) == (False, {"suite": "lint"}, None)
    assert found.options == {"add_dirs": [str(tmp_path), "b"], "allowed_tools": ["Bash"], "max_turns": 3}
    assert found.output["properties"]["value"]["type"] == "integer"
    assert spec(resume="6f1f0c55-35b5-4d6b-8d55-2f0c1bdf2e1f", fork_session=True).options == {}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"debug_file": Path("/srv/debug.log")}, "/srv/debug.log"),
        ({"add_dirs": (Path("/srv/a"), "/srv/b")}, ["/srv/a", "/srv/b"]),
        ({"thinking": {"type": "adaptive"}}, {"type": "adaptive"}),
        ({"plugins": [SdkPluginConfig(path="/srv/plugin")]}, [{"type": "local", "path": "/srv/plugin"}]),
        ({"max_budget_usd": 2.5}, 2.5),
        ({"strict_mcp_config": True}, True),
    ],
)
def test_options_are_kept_as_json(options: dict[str, Any], kept: Any) -> None:
    assert list(spec(**options).options.values()) == [kept]


def test_objects_are_compared_by_their_kind_which_is_the_same_in_every_process() -> None:
    class Other(MemoryStore):
        """Another kind."""

    first, again, other = (spec(session_store=store()) for store in (MemoryStore, MemoryStore, Other))
    assert first == again
    assert difference(first, other).startswith("`options.session_store` was '<hidden ")


@pytest.mark.parametrize(
    ("now", "text"),
    [
        ({"tags": {"b": "c"}, "resume": False}, ""),
        ({"verify": ["b"]}, "`verify` was ['a'], and is ['b']"),
        ({"options": {"model": "opus"}}, "`options.max_turns` was 1, and is None"),
        ({"options": {"model": "opus", "max_turns": 1, "cwd": "/"}}, "`options.cwd` was None, and is '/'"),
        (
            {"prompt": "y" * 500, "verify": None, "output": 1, "options": {}},
            "`prompt` was 'x', and is 'yyy*`; `output`.*`verify`.*; and 2 more",
        ),
    ],
)
def test_differences_are_named(now: dict[str, Any], text: str) -> None:
    before = Spec(prompt="x", verify=["a"], options={"model": "opus", "max_turns": 1}, tags={"a": "b"})
    found = difference(before, msgspec.structs.replace(before, **now))
    if "more" not in text:
        assert found == text
        return
    parts = found.split("; ")
    assert [part.split()[0] for part in parts] == ["`prompt`", "`output`", "`verify`", "and"] or len(parts) == 4
    assert parts[-1] == "and 2 more"
    assert len(found) < 400


# -- settings ----------------------------------------------------------------------------------------------------------


def plan(**more: Any) -> FleetPlan:
    settings: dict[str, Any] = {
        "options": None, "concurrency": 4, "budget": None, "workspace": None, "retry": None, "stall": 900.0, "traces": None,
        "verify_seconds": 600.0, "executor": None, "transport": None, "prices": None,
    }  # fmt: skip
    return FleetPlan(**{**settings, **more})


@pytest.mark.parametrize(
    ("stall", "given", "expected"),
    [
        (30.0, Timeouts(first_message=None, idle=None), (30.0, 30.0)),
        (30.0, Timeouts(first_message=5, idle=None), (5.0, 30.0)),
        (30.0, Timeouts(first_message=None, idle=7), (30.0, 7.0)),
        (30.0, Timeouts(first_message=5, idle=7), (5.0, 7.0)),
        (None, Timeouts(first_message=None, idle=None), (None, None)),
    ],
)
def test_silence_has_the_limit_of_the_task_or_of_the_fleet(stall: Any, given: Timeouts, expected: Any) -> None:
    found = plan(stall=stall, options=Options(timeouts=given)).attempt_options(Task("a", "Do it")).timeouts
    assert (found.first_message, found.idle) == expected


def test_a_task_has_its_own_settings_or_those_of_the_fleet(tmp_path: Path) -> None:
    budget, mine, folder = Budget(usd=1), Budget(usd=2), Copy(tmp_path, tmp_path / "own")
    fleet = plan(budget=budget, workspace=Copy(tmp_path), options=Options(model="opus"), traces="t")
    fleet.keep_beside("/x/journal.db")
    plain, own = (
        Task("a", "Do it"),
        Task("b", "Do it", options={"model": "sonnet", "budget": mine}, workspace=folder, retry=NOW),
    )
    found = [fleet.attempt_options(task) for task in (plain, own)]
    assert [(each.model, each.budget) for each in found] == [("opus", budget), ("sonnet", mine)]
    assert [fleet.workspace_of(task) for task in (plain, own)] == [Copy(tmp_path, "/x/journal.db.work"), folder]
    assert fleet.retry_of(own) is NOW
    assert (fleet.retry_of(plain).attempts, fleet.retry_of(plain).rate_limit_wait) == (3, None)
    assert fleet.traces == str(Path("t").absolute())


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"options": {"model": "opus"}}, TypeError, "`options` must be a hackamore.Options, not dict"),
        (
            {"budget": Budget(usd=1), "options": Options(budget=Budget(usd=1))},
            OptionsError,
            "are the same thing here: give one",
        ),
        ({"stall": 0}, OptionsError, "stall"),
        ({"stall": 1e12}, OptionsError, "stall"),
        ({"traces": 5}, OptionsError, "traces"),
    ],
)
def test_settings_that_are_wrong(more: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        plan(**more)
    assert getattr(caught.value, "field", next(iter(more))) in more


@pytest.mark.parametrize("name", ["session_id", "fork_session", "continue_conversation"])
def test_a_task_does_not_choose_its_session(name: str) -> None:
    with pytest.raises(OptionsError, match=f"`options` of task 'a': `{name}` is chosen by the fleet") as caught:
        plan().check_task(Task("a", "Do it", options={name: True}))
    assert caught.value.field == name
    with pytest.raises(TypeError, match=r"must be hackamore.fleet.Task objects, got 'a' \(str\)"):
        plan().check_task("a")


def test_output_is_typed_where_it_fits(making: Making) -> None:
    row = finished(making(), tasks(1))["task-0"]
    typed = plan().typed
    four = msgspec.structs.replace(row, output={"value": 4})
    assert typed(four, Task("a", "x", output_type=int)).output == 4
    assert typed(four, Task("a", "x", output_type=str)) == four
    assert typed(four, Task("a", "x")) == typed(four, None) == four
    assert typed(row, Task("a", "x", output_type=int)) == row


def test_earlier_spending_is_charged_once(making: Making, tmp_path: Path) -> None:
    finished(making(), tasks(2))
    spent = sum(row.cost for row in making().results())
    budget, kept = Budget(usd=1), Budget(usd=1, path=tmp_path / "budget.db")
    for each in (budget, kept):
        for _ in range(2):
            fleet: Fleet = making(budget=each)
            for _ in range(2):
                fleet.run(tasks(2)).wait()
    assert budget.spent.usd == pytest.approx(2 * spent)  # once for each fleet of this program
    assert kept.spent.usd == 0  # the programs before have charged it themselves
    kept.close()
