"""Resume from a store: the calls that are made, the private folder, and what names from a store cannot do. No CLI."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

import hackamore.sync
from hackamore import Options, StoreError
from hackamore._engine.storing.resume import (
    Private,
    materialise,
    missing_entries,
    resume_steps,
    safe_subpath,
    user_config,
    wants_store,
)
from hackamore.errors import escape_terminal
from hackamore.storage.places import project_key
from hackamore.transcripts.stores import MemoryStore
from hackamore.transcripts.stores.keys import milliseconds

SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"


def entry(number: int, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": f"u{number}", "n": number, **more}


class Home:
    """A user with a configuration, a working directory and a store."""

    def __init__(self, tmp_path: Path) -> None:
        self.config = tmp_path / "home" / ".claude"
        self.config.mkdir(parents=True)
        self.cwd = tmp_path / "work"
        self.cwd.mkdir()
        self.folder = tmp_path / "private"
        self.removed: list[str] = []
        self.store = MemoryStore()
        self.key: Any = {"project_key": project_key(self.cwd), "session_id": SESSION}

    def options(self, **more: Any) -> Options:
        environment = {"HOME": str(self.config.parent)}
        given = {"resume": SESSION, "session_store": self.store, "cwd": self.cwd, "env": environment, **more}
        return Options(inherit_env=False, **given)

    def make(self) -> str:
        self.folder.mkdir(mode=0o700)
        return str(self.folder)

    def resume(self, **more: Any) -> Private | None:
        steps = resume_steps(self.options(**more), self.make, self.removed.append)
        try:
            step = next(steps)
            while True:
                of_store = getattr(step.function, "__self__", None) is self.store
                assert step.operation == (step.function.__name__ if of_store else "")  # errors and timeouts name it
                outcome = step.function(*step.arguments)
                step = steps.send(finished(outcome) if hasattr(outcome, "send") else outcome)
        except StopIteration as end:
            private: Private | None = end.value
            return private
        finally:
            steps.close()

    def on_disk(self, *entries: dict[str, Any], subpath: str = "") -> None:
        place = self.config / "projects" / project_key(self.cwd)
        path = place / SESSION / f"{subpath}.jsonl" if subpath else place / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in entries))

    def stored(self, subpath: str = "") -> Any:
        key: Any = {**self.key, "subpath": subpath} if subpath else self.key
        return finished(self.store.load(key))

    def store_has(self, *entries: dict[str, Any], **key: Any) -> None:
        place: Any = {**self.key, **key}
        finished(self.store.append(place, list(entries)))

    def lines(self, path: str) -> list[Any]:
        found = self.folder / "projects" / project_key(self.cwd) / path
        return [json.loads(line) for line in found.read_text().splitlines()]


def finished(coroutine: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    return end.value.value


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_session_is_written_with_its_parts_for_this_user_alone(home: Home) -> None:
    home.store_has(entry(1), entry(2))
    home.store_has(
        {"type": "agent_metadata", "agentType": "old"},
        entry(3),
        {"type": "agent_metadata", "agentType": "new"},
        subpath="subagents/agent-a",
    )
    private = home.resume()
    assert private is not None
    assert private.project_key == home.key["project_key"]
    assert home.lines(f"{SESSION}.jsonl") == [entry(1), entry(2)]
    assert home.lines(f"{SESSION}/subagents/agent-a.jsonl") == [entry(3)]
    meta = home.folder / "projects" / project_key(home.cwd) / SESSION / "subagents" / "agent-a.meta.json"
    assert json.loads(meta.read_text()) == {"agentType": "new"}
    for path in [home.folder, *home.folder.rglob("*")]:
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600)
    options = private.options(home.options(continue_conversation=True))
    assert (options.resume, options.continue_conversation) == (SESSION, False)
    assert options.env["CLAUDE_CONFIG_DIR"] == str(home.folder)


def test_the_configuration_comes_along_and_the_refresh_token_does_not(home: Home) -> None:
    home.store_has(entry(1))
    (home.config / ".credentials.json").write_text('{"claudeAiOauth": {"accessToken": "A", "refreshToken": "CANARY"}}')
    (home.config / "settings.json").write_text('{"env": {"CLAUDE_CONFIG_DIR": "/elsewhere", "X": "1"}, "model": "m"}')
    (home.config.parent / ".claude.json").write_text('{"main": true}')
    (home.config / "skills").mkdir()
    assert home.resume() is not None
    assert json.loads((home.folder / ".credentials.json").read_text()) == {"claudeAiOauth": {"accessToken": "A"}}
    assert json.loads((home.folder / "settings.json").read_text()) == {"env": {"X": "1"}, "model": "m"}
    assert json.loads((home.folder / ".claude.json").read_text()) == {"main": True}
    assert os.path.realpath(home.folder / "skills") == str(home.config / "skills")
    assert "CANARY" not in json.dumps(home.stored())


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("settings.local.json", '{"env": {"CLAUDE_CONFIG_DIR": "/elsewhere", "Y": "2"}}', '{"env": {"Y": "2"}}'),
        ("settings.json", '{"env": 7}', '{"env": 7}'),
        ("settings.json", "[1]", "[1]"),
        ("settings.json", "{ broken", "{ broken"),
        ("settings.json", "[" * 100_000, "[" * 100_000),
        (".credentials.json", '{"env": {"refreshToken": "x"}}', '{"env": {"refreshToken": "x"}}'),
        (".claude.json", '{"env": {"CLAUDE_CONFIG_DIR": "x"}}', None),  # that of the home counts
        ("other.json", "{}", None),
    ],
)
def test_files_of_the_configuration_come_as_they_are_but_for_the_folder(
    home: Home, name: str, text: str, kept: str | None
) -> None:
    home.store_has(entry(1))
    (home.config / name).write_text(text)
    assert home.resume() is not None
    copy = home.folder / name
    assert (copy.read_text() if copy.exists() else None) == kept


def test_the_configuration_is_that_of_the_environment_of_the_cli(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = tmp_path / "named"
    given = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(named)}
    assert user_config(home.options(env=given)) == (named, named / ".claude.json")
    assert user_config(home.options()) == (home.config, home.config.parent / ".claude.json")
    monkeypatch.setenv("HOME", str(tmp_path / "mine"))
    nothing = home.options(env={"HOME": ""})
    assert user_config(nothing) == (tmp_path / "mine" / ".claude", tmp_path / "mine" / ".claude.json")


def test_a_private_folder_that_was_removed_meanwhile_stays_so(home: Home) -> None:
    with pytest.raises(FileNotFoundError):
        materialise(str(home.folder), home.options(), "-p", SESSION, {"": [entry(1)]})
    assert not home.folder.exists()


def test_a_session_of_another_directory_is_found_and_continued_where_it_is(home: Home) -> None:
    home.store_has(entry(1), project_key="-on-another-host")
    private = home.resume()
    assert private is not None
    assert private.project_key == "-on-another-host"
    assert home.lines(f"{SESSION}.jsonl") == [entry(1)]  # in the folder of this directory


def test_the_session_of_this_directory_comes_first(home: Home) -> None:
    home.store_has(entry(1))
    home.store_has(entry(1), entry(2), project_key="-on-another-host")
    private = home.resume()
    assert private is not None
    assert private.project_key == home.key["project_key"]
    assert home.lines(f"{SESSION}.jsonl") == [entry(1)]


@pytest.mark.parametrize("damage", ['{"type":"user","mess', "[1]", "[" * 100_000, ""])
def test_a_damaged_line_on_the_disk_is_left_out(home: Home, damage: str) -> None:
    home.on_disk(entry(1), entry(2))
    path = home.config / "projects" / home.key["project_key"] / f"{SESSION}.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{damage}\n{second}\n{damage}")
    home.store_has(entry(1))
    assert home.resume() is not None
    assert home.stored() == [entry(1), entry(2)]


def test_continue_takes_the_session_with_the_last_append(home: Home) -> None:
    home.store_has(entry(0), session_id=OTHER)
    before = milliseconds()
    while milliseconds() == before:
        pass
    home.store_has(entry(1))
    private = home.resume(resume=None, continue_conversation=True)
    assert private is not None
    assert private.session_id == SESSION


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        ([{"session_id": SESSION, "mtime": 1.5}, {"session_id": OTHER, "mtime": 1}], SESSION),
        (({"session_id": SESSION, "mtime": 1}, {"session_id": OTHER, "mtime": "9"}), SESSION),
        ([{"session_id": SESSION, "mtime": 1}, {"session_id": "../x", "mtime": 9}], SESSION),
        ([{"session_id": SESSION, "mtime": 1}, {"mtime": 9}, {"session_id": OTHER}, OTHER, None], SESSION),
        (None, None),
        (5, None),
        ([OTHER], None),
    ],
)
def test_continue_leaves_out_what_is_no_session(home: Home, listed: Any, chosen: str | None) -> None:
    class Odd(MemoryStore):
        async def list_sessions(self, project_key: str) -> Any:
            assert project_key == home.key["project_key"]
            return listed

    home.store = Odd()
    for session_id in (SESSION, OTHER):
        home.store_has(entry(1), session_id=session_id)
    private = home.resume(resume=None, continue_conversation=True)
    assert (private and private.session_id) == chosen


def test_a_store_without_the_session_changes_nothing(home: Home) -> None:
    assert home.resume() is None
    assert not home.folder.exists()
    assert home.resume(resume=None, continue_conversation=True) is None


@pytest.mark.parametrize("copied", [0, 1, 2])
def test_what_the_store_did_not_get_before_a_crash_comes_from_the_disk(home: Home, copied: int) -> None:
    entries = [entry(1), {"type": "api-request", "n": 0}, {"type": "last-prompt"}, entry(2), {"type": "cost-state"}]
    mirrored = [each for each in entries if each["type"] != "api-request"]
    home.on_disk(*entries)
    home.on_disk(entry(10), entry(11), subpath="subagents/agent-a")
    if copied:
        home.store_has(*mirrored[: 3 * copied - 2])
        home.store_has(entry(10), subpath="subagents/agent-a")
    assert home.resume() is not None
    assert [each["n"] for each in home.stored() if "n" in each] == [1, 2]
    assert [each["n"] for each in home.stored("subagents/agent-a")] == [10, 11]
    assert [each for each in home.lines(f"{SESSION}.jsonl") if "n" in each] == [entry(1), entry(2)]


def test_the_metadata_of_a_subagent_is_healed_from_the_disk(home: Home) -> None:
    home.on_disk(entry(1))
    home.on_disk(entry(10), subpath="subagents/agent-a")
    home.store_has(entry(1))
    file = home.config / "projects" / project_key(home.cwd) / SESSION / "subagents" / "agent-a.meta.json"
    began, finished_one = {"agentType": "x"}, {"agentType": "x", "finished": True}
    file.write_text(json.dumps(began))
    home.resume()
    place = home.folder / "projects" / project_key(home.cwd) / SESSION / "subagents"
    assert json.loads((place / "agent-a.meta.json").read_text()) == began
    shutil.rmtree(home.folder)
    file.write_text(json.dumps(finished_one))
    home.resume()
    assert json.loads((place / "agent-a.meta.json").read_text()) == finished_one
    shutil.rmtree(home.folder)
    home.resume()
    agent = home.stored("subagents/agent-a")
    metadata = [{"type": "agent_metadata", **each} for each in (began, finished_one)]
    assert agent == [entry(10), *metadata]  # the third resume had nothing to add
    # A copy that another host continued is not set back to the older file of this disk.
    home.store_has(entry(11), {"type": "agent_metadata", "agentType": "y"}, subpath="subagents/agent-a")
    shutil.rmtree(home.folder)
    home.resume()
    assert json.loads((place / "agent-a.meta.json").read_text()) == {"agentType": "y"}


def test_a_file_of_metadata_that_is_damaged_is_left_out(home: Home) -> None:
    home.on_disk(entry(1))
    home.on_disk(entry(10), subpath="subagents/agent-a")
    file = home.config / "projects" / project_key(home.cwd) / SESSION / "subagents" / "agent-a.meta.json"
    file.write_text('{"agentType": ')
    home.resume()
    assert home.stored("subagents/agent-a") == [entry(10)]


@pytest.mark.parametrize("named", [True, False])
def test_all_of_the_folder_is_given_to_the_user_and_nothing_else(
    home: Home, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    given: list[tuple[str, int, int, bool]] = []
    monkeypatch.setattr(
        os,
        "chown",
        lambda path, user, group, follow_symlinks=True: given.append((str(path), user, group, follow_symlinks)),
    )
    home.store_has(entry(1))
    home.store_has(entry(2), subpath="subagents/agent-a")
    (home.config / "skills").mkdir()
    (home.config / "skills" / "mine").touch()
    assert home.resume(user=pwd.getpwuid(os.getuid()).pw_name if named else 12345) is not None
    here = [home.folder, *home.folder.rglob("*")]
    user = os.getuid() if named else 12345
    assert sorted(given) == sorted((str(path), user, -1, path == home.folder) for path in here)
    assert f"{home.folder}/skills" in [path for path, *_ in given]  # the link, and not what it leads to


def test_an_unknown_user_is_an_error_and_leaves_nothing(home: Home) -> None:
    home.store_has(entry(1))
    with pytest.raises(OSError, match="no user 'hackamore-nobody'"):
        home.resume(user="hackamore-nobody")
    assert home.removed == [str(home.folder)]


def test_a_session_that_was_continued_elsewhere_is_not_mixed_with_the_disk(home: Home) -> None:
    home.on_disk(entry(1), entry(2))
    home.store_has(entry(1), entry(5))
    private = home.resume()
    assert private is not None
    assert [warning.code for warning in private.warnings] == ["STORE_INCOMPLETE"]
    (warning,) = private.warnings
    assert warning.context == {"session_id": SESSION, "subpath": "", "count": 1}
    assert f"The transcript of session {SESSION} on this host has 1 messages that" in str(warning)
    assert "The copy in the store is used." in str(warning)
    assert [each["n"] for each in home.stored()] == [1, 5]


def test_a_subagent_that_was_continued_elsewhere_is_named(home: Home) -> None:
    home.on_disk(entry(1))
    home.on_disk(entry(10), entry(11), entry(12), subpath="subagents/agent-a")
    home.store_has(entry(1))
    home.store_has(entry(10), entry(15), subpath="subagents/agent-a")
    private = home.resume()
    assert private is not None
    (warning,) = private.warnings
    assert warning.context == {"session_id": SESSION, "subpath": "subagents/agent-a", "count": 2}
    assert f"session {SESSION} (subagents/agent-a) on this host has 2 messages" in str(warning)


META = {"type": "agent_metadata", "agentType": "x"}
NOTE, REQUEST = {"type": "last-prompt"}, {"type": "api-request", "n": 0}


@pytest.mark.parametrize(
    ("stored", "on_disk", "missing", "diverged"),
    [
        ([], [], [], 0),
        ([], [NOTE, REQUEST, entry(1)], [NOTE, entry(1)], 0),
        ([NOTE, entry(1)], [NOTE, entry(1), NOTE], [], 0),  # notes behind the last message are written again and again
        ([entry(1)], [REQUEST, entry(1), REQUEST, NOTE, entry(2)], [NOTE, entry(2)], 0),
        ([entry(1)], [entry(1), META], [META], 0),
        ([entry(1), META], [entry(1), META], [], 0),
        ([entry(1), META, {**META, "agentType": "y"}], [entry(1), META], [META], 0),  # the last one counts
        ([entry(1)], [META, entry(1), entry(2)], [entry(2), META], 0),
        ([entry(1)], [META, entry(1), {"n": 1}, {"type": 7}, entry(2)], [{"n": 1}, {"type": 7}, entry(2), META], 0),
        ([entry(1), entry(2)], [entry(1)], [], 0),
        ([entry(1), entry(2)], [entry(3), entry(2), entry(4), entry(4)], [], 2),
        ([entry(2)], [entry(1), entry(2)], [], 1),
    ],
)
def test_what_a_copy_lacks(stored: list[Any], on_disk: list[Any], missing: list[Any], diverged: int) -> None:
    assert missing_entries(stored, on_disk) == (missing, diverged)


def test_a_name_from_a_store_may_have_eight_parts() -> None:
    assert safe_subpath("a/" * 7 + "b")
    assert not safe_subpath("a/" * 8 + "b")


def test_a_copy_that_is_ahead_of_the_disk_is_taken_as_it_is(home: Home) -> None:
    home.on_disk(entry(1))
    home.store_has(entry(1), entry(2))
    private = home.resume()
    assert private is not None
    assert private.warnings == ()
    assert missing_entries([entry(1), entry(2)], [entry(1)]) == ([], 0)


@pytest.mark.parametrize(
    "subpath",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "",
        ".",
        "a//b",
        "a\\b",
        "a\0b",
        ".hidden",
        "a/.ssh/b",
        "C:/x",
        "a/" * 9 + "b",
        "x" * 300,
    ],
)
def test_names_from_a_store_do_not_lead_out_of_the_folder(home: Home, subpath: str) -> None:
    assert not safe_subpath(subpath)

    class Hostile(MemoryStore):
        async def list_subkeys(self, key: Any) -> list[str]:
            return [subpath]

        async def load(self, key: Any) -> list[Any]:
            assert "subpath" not in key
            return [entry(1)]

    home.store = Hostile()
    private = home.resume()
    assert private is not None
    assert [warning.code for warning in private.warnings] == ["STORE_INCOMPLETE"]
    assert [warning.context for warning in private.warnings] == [{"session_id": SESSION}]
    shown = escape_terminal(repr(subpath), 200)
    assert f"The session store has a part with an unsafe name, {shown}. It was left out." in str(private.warnings[0])
    written = [path for path in home.folder.rglob("*") if path.is_file()]
    assert [path.name for path in written] == [f"{SESSION}.jsonl"]


@pytest.mark.parametrize(
    ("loaded", "text"),
    [
        ("text", "it returned a str, and not a list of entries or None"),
        ({"a": 1}, "it returned a dict, and not a list of entries or None"),
        ([1], "an entry is a int, and not a dict"),
        ([{}, None], "an entry is a NoneType, and not a dict"),
    ],
)
@pytest.mark.parametrize("part", [True, False])
def test_a_store_that_loads_something_else_is_an_error(home: Home, loaded: Any, text: str, *, part: bool) -> None:
    class Odd(MemoryStore):
        async def load(self, key: Any) -> Any:
            return loaded if ("subpath" in key) is part else [entry(1)]

        async def list_subkeys(self, key: Any) -> list[str]:
            return ["subagents/agent-a"]

    home.store = Odd()
    with pytest.raises(StoreError, match=text) as caught:
        home.resume()
    assert (caught.value.operation, caught.value.session_id, caught.value.retryable) == ("load", SESSION, False)
    assert not home.folder.exists()


def test_entries_that_were_appended_twice_are_written_once(home: Home) -> None:
    class Twice(MemoryStore):
        async def load(self, key: Any) -> Any:
            return [entry(1), entry(2), entry(2), {"type": "tag"}, {"type": "tag"}]

    home.store = Twice()
    assert home.resume() is not None
    assert home.lines(f"{SESSION}.jsonl") == [entry(1), entry(2), {"type": "tag"}, {"type": "tag"}]


def test_a_folder_that_cannot_be_filled_is_removed(home: Home) -> None:
    home.store_has(entry(1))
    steps = resume_steps(home.options(), home.make, home.removed.append)
    step = next(steps)
    while step.function is not materialise:
        outcome = step.function(*step.arguments)
        step = steps.send(finished(outcome) if hasattr(outcome, "send") else outcome)
    steps.close()
    assert home.removed == [str(home.folder)]


def test_only_an_id_or_continue_asks_the_store() -> None:
    store: Any = MemoryStore()
    assert wants_store(Options(session_store=store, resume=SESSION))
    assert wants_store(Options(session_store=store, continue_conversation=True))
    assert not wants_store(Options(session_store=store, resume="a title"))
    assert not wants_store(Options(session_store=store))
    assert not wants_store(Options(resume=SESSION))


class Leaving:
    def append(self, key: Any, entries: list[Any]) -> None:
        raise SystemExit(3)


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize("value", ["\ud800", deep(), object(), {1: object()}], ids=["surrogate", "deep", "odd", "key"])
def test_entries_that_are_no_json_are_an_error_and_leave_nothing(home: Home, value: Any) -> None:
    class Odd(MemoryStore):
        async def load(self, key: Any) -> Any:
            return [entry(1, value=value)]

    home.store = Odd()
    with pytest.raises(StoreError, match="an entry cannot be written as JSON") as caught:
        home.resume()
    assert (caught.value.operation, caught.value.session_id, caught.value.retryable) == ("load", SESSION, False)
    assert home.removed == [str(home.folder)]


@pytest.mark.parametrize("found", [5, {"a": 1}, [5], [{}], "text"])
def test_a_store_that_finds_something_else_is_an_error(home: Home, found: Any) -> None:
    class Odd(MemoryStore):
        async def find_session(self, session_id: str) -> Any:
            return found

    home.store = Odd()
    with pytest.raises(StoreError, match=r"`find_session`.*it did not return a list of keys") as caught:
        home.resume()
    assert (caught.value.session_id, caught.value.retryable) == (SESSION, False)


def test_a_store_that_lists_no_list_is_an_error(home: Home) -> None:
    class Odd(MemoryStore):
        async def list_subkeys(self, key: Any) -> Any:
            return 5

    home.store = Odd()
    home.store_has(entry(1))
    with pytest.raises(StoreError, match=r"`list_subkeys`.*it returned a int, and not a list") as caught:
        home.resume()
    assert (caught.value.session_id, caught.value.retryable) == (SESSION, False)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize("blocking", [True, False], ids=["threads", "asyncio"])
def test_a_store_cannot_end_the_program(home: Home, *, blocking: bool, plain: bool) -> None:
    class Plain(Leaving):
        def load(self, key: Any) -> Any:
            raise SystemExit(3)

    class Async(Leaving):
        async def load(self, key: Any) -> Any:
            raise SystemExit(3)

    options = home.options(session_store=Plain() if plain else Async())

    async def resumes() -> None:
        async with hackamore.Session(options):
            pass

    with pytest.raises(StoreError, match="`load` of the session store failed: SystemExit"):
        if blocking:
            hackamore.sync.Session(options).start()
        else:
            anyio.run(resumes)
