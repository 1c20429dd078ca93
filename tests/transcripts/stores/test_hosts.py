"""Sessions of the real CLI that move between hosts through a store: with subagents, to another user, between pools, on an older CLI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hackamore import sync
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transcripts import project_key
from hackamore.transcripts.stores import MemoryStore, SQLiteStore
from tests.conftest import PROJECT, RealCLI, pinned_cli_path
from tests.support.patience import patience
from tests.transcripts.stores.hosts import in_store, kept_files, on_disk, options, private_folders

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(120)]

PIN = tomllib.loads((PROJECT / "pinned_cli.toml").read_text(encoding="utf-8"))
VERSIONS = [str(PIN["version"]), "2.1.328"]
TOOLS = ["Agent", "Bash", "Task"]
DELEGATE = ToolCall(
    "Agent",
    {
        "description": "Look",
        "prompt": "LOOK-AROUND",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    },
)
SUBAGENT: Any = {"*": [Reply(ToolCall("Bash", {"command": "echo sub"})), "SEEN"]}


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def versioned(version: str, tmp_path: Path) -> RealCLI:
    path = pinned_cli_path() if version == PIN["version"] else PROJECT / ".dev" / "claude" / version / "claude"
    if not os.access(path, os.X_OK):
        pytest.skip(f"Claude Code CLI {version} is not at {path}; `python scripts/install_older.py` installs it")
    return RealCLI(str(path), tmp_path / "work", tmp_path)


def metadata(folder: Path) -> dict[str, Any]:
    """The metadata of the subagents below a folder, by file name."""
    return {path.name: json.loads(path.read_text()) for path in kept_files(folder, ".meta.json")}


def by_part(found: dict[tuple[str, str, str], list[Any]]) -> dict[str, list[Any]]:
    return {part: entries for (_, _, part), entries in found.items()}


def expect_continued(before: dict[str, list[Any]], now: dict[str, list[Any]]) -> None:
    """Check that subagents are the same, that the main transcript begins the same, and that no entry is there twice."""
    assert now.keys() == before.keys()
    assert {part: entries for part, entries in now.items() if part} == {part: before[part] for part in before if part}
    assert now[""][: len(before[""])] == before[""]
    uuids = [each["uuid"] for each in now[""] if "uuid" in each]
    assert len(uuids) == len(set(uuids))


@pytest.mark.parametrize("version", VERSIONS, indirect=True)
def test_subagents_come_back_on_another_host(versioned: RealCLI) -> None:
    store = MemoryStore()
    with ScriptedModel(Reply(DELEGATE), "LOOKED", "MORE", subagents=SUBAGENT) as model:
        first = sync.run("DELEGATE-IT", options(versioned, model, "a", store, allowed_tools=TOOLS))
        assert first.text == "LOOKED"
        assert not first.warnings
        session_id = first.session_id
        before, about = on_disk(versioned.directory), metadata(versioned.directory)
        assert before == in_store(store)
        assert len(before) == 2
        assert len(about) == 1
        shutil.rmtree(versioned.directory / "a")
        given = options(versioned, model, "b", store, cwd="elsewhere", resume=session_id, allowed_tools=TOOLS)
        with sync.Session(given) as session:
            (folder,) = private_folders(session.pid)
            expect_continued(by_part(before), by_part(on_disk(Path(folder))))
            assert metadata(Path(folder)) == about
            assert session.send("GO-ON").result().text == "MORE"
        request = json.dumps(model.requests[-1].body)
    assert all(text in request for text in ("DELEGATE-IT", "SEEN", "LOOKED", "GO-ON"))
    assert {place[:2] for place in in_store(store)} == {(project_key(versioned.directory / "a" / "work"), session_id)}
    expect_continued(by_part(before), by_part(in_store(store)))


def test_subagents_that_no_store_took_are_healed_from_the_disk(real_cli: RealCLI) -> None:
    with ScriptedModel(Reply(DELEGATE), "LOOKED", "MORE", subagents=SUBAGENT) as model:
        first = sync.run("DELEGATE-IT", options(real_cli, model, "a", None, allowed_tools=TOOLS))
        before, about = on_disk(real_cli.directory), metadata(real_cli.directory)
        assert len(about) == 1
        store = MemoryStore()
        with sync.Session(options(real_cli, model, "a", store, resume=first.session_id)) as session:
            (folder,) = private_folders(session.pid)
            expect_continued(by_part(before), by_part(on_disk(Path(folder))))
            assert metadata(Path(folder)) == about
            assert session.send("GO-ON").result().text == "MORE"
    expect_continued(by_part(before), by_part(in_store(store)))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_another_user_resumes(real_cli: RealCLI, open_folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    user = 12345
    store = MemoryStore()
    place = RealCLI(real_cli.cli_path, open_folder / "work", open_folder)
    with ScriptedModel(Reply(DELEGATE), "LOOKED", "MORE", subagents=SUBAGENT) as model:
        first = sync.run("DELEGATE-IT", options(real_cli, model, "a", store, allowed_tools=TOOLS))
        given = options(place, model, "b", store, resume=first.session_id, user=user)
        for path in (open_folder / "b", *(open_folder / "b").rglob("*")):
            os.chown(path, user, user)
        with sync.Session(given) as session:
            assert Path(f"/proc/{session.pid}").stat().st_uid == user
            (folder,) = private_folders(session.pid)
            owners = {os.lstat(folder).st_uid}
            for root, *lists in os.walk(folder):  # `rglob` fails where the CLI removes the folder of a lock meanwhile
                for name in (name for names in lists for name in names):
                    with suppress(FileNotFoundError):
                        owners.add(os.lstat(os.path.join(root, name)).st_uid)
            assert owners == {user}
            assert Path(folder).stat().st_mode & 0o777 == 0o700
            assert session.send("GO-ON").result().text == "MORE"
        assert not os.path.exists(folder)
        request = json.dumps(model.requests[-1].body)
    assert all(text in request for text in ("DELEGATE-IT", "SEEN", "LOOKED", "GO-ON"))
    main = by_part(in_store(store))[""]
    assert json.dumps(main).count('"GO-ON"') >= 1


POOL = """
import json, sys
from hackamore import Options, PoolTimeoutError, sync
from hackamore.pool import SQLiteRegistry
from hackamore.transcripts.stores import SQLiteStore
given = json.loads(sys.argv[1])
registry = SQLiteRegistry(given.pop("registry"), lease_seconds=given.pop("lease"))
store = SQLiteStore(given.pop("store"))
with sync.SessionPool(Options(session_store=store, **given), warm=0, registry=registry) as pool:
    held = None
    for line in sys.stdin:
        what, _, rest = line.strip().partition(" ")
        if what == "take":
            lease = pool.conversation("chat-1", timeout=float(rest))
            try:
                held = lease.__enter__()
                print("taken", flush=True)
            except PoolTimeoutError:
                print("refused", flush=True)
        elif what == "say":
            print(held.send(rest).result().session_id, flush=True)
        elif what == "give":
            lease.__exit__(None, None, None)
            print("given", flush=True)
"""
LEASE_SECONDS = 3.0


class Program:
    """A process with a pool, on a host of its own."""

    def __init__(self, real_cli: RealCLI, model: ScriptedModel, where: str) -> None:
        given = options(real_cli, model, where, None)
        arguments = {
            "cli_path": str(given.cli_path),
            "cwd": str(given.cwd),
            "env": dict(given.env),
            "inherit_env": False,
            "store": str(real_cli.directory / "sessions.db"),
            "registry": str(real_cli.directory / "registry.db"),
            "lease": LEASE_SECONDS,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", POOL, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(command, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=patience(60))


def test_a_conversation_moves_between_programs_and_a_lease_holds(real_cli: RealCLI) -> None:
    with (
        ScriptedModel(Repeat("more")) as model,
        Program(real_cli, model, "a") as first,
        Program(real_cli, model, "b") as second,
    ):
        long = f"take {patience(60)}"
        assert first.ask(long) == "taken"
        session_id = first.ask("say FIRST-PROMPT")
        assert second.ask("take 1") == "refused"
        assert first.ask("say SECOND-PROMPT") == session_id
        assert first.ask("give") == "given"
        assert second.ask(long) == "taken"
        assert second.ask("say THIRD-PROMPT") == session_id
        assert second.ask("give") == "given"
        assert first.ask(long) == "taken"
        assert first.ask("say FOURTH-PROMPT") == session_id
        first.process.kill()  # with the lease
        assert second.ask(long) == "taken"
        assert second.ask("say FIFTH-PROMPT") == session_id
        assert second.ask("give") == "given"
        request = json.dumps(model.requests[-1].body)
        words = ("FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH")
        places = [request.index(f"{word}-PROMPT") for word in words]
        assert places == sorted(places)
    import anyio

    with SQLiteStore(real_cli.directory / "sessions.db") as store:
        (key,) = anyio.run(store.find_session, session_id)
        entries = anyio.run(store.load, key) or []
    prompts = [each["message"]["content"] for each in entries if each["type"] == "user"]
    assert [json.dumps(prompt).count("-PROMPT") for prompt in prompts] == [1] * 5
    uuids = [each["uuid"] for each in entries if "uuid" in each]
    assert len(uuids) == len(set(uuids))
