"""Stores and the real CLI: the copy is the transcript, another host resumes it, a kill leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

import hackamore
from hackamore import sync
from hackamore.pool import MemoryRegistry
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.transcripts import project_key
from hackamore.transcripts.stores import MemoryStore, SQLiteStore
from tests.conftest import RealCLI
from tests.support.patience import patience
from tests.support.shell import Backend, Shell
from tests.transcripts.stores.hosts import host, in_store, on_disk, options, private_folders, words

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("backend", ["asyncio", "trio", "threads"])
@pytest.mark.parametrize("flush", ["batched", "eager"])
def test_the_copy_is_the_transcript(real_cli: RealCLI, backend: Backend, flush: Any) -> None:
    store = MemoryStore()
    shell = Shell(backend)

    async def scenario() -> None:
        with ScriptedModel(Reply(ToolCall("Bash", {"command": "echo hi"})), Repeat("done")) as model:
            given = options(real_cli, model, "a", store, allowed_tools=["Bash"], session_store_flush=flush)
            result = await shell.run("one", given)
            assert not result.warnings
            if backend == "threads":
                with sync.Session(given) as session:
                    session.send("two").result()
                return
            async with hackamore.Session(given) as session:
                turn = await session.send("two")
                await turn.result()

    shell.play(scenario)
    disk = on_disk(real_cli.directory)
    assert len(disk) == 2
    assert in_store(store) == disk


def test_another_host_and_directory_resume_with_the_whole_history(real_cli: RealCLI) -> None:
    store = MemoryStore()
    with ScriptedModel(Reply("NUMBER-ONE"), Repeat("more")) as model:
        first = sync.run("FIRST-PROMPT", options(real_cli, model, "a", store))
        session_id = first.session_id
        assert session_id is not None
        shutil.rmtree(real_cli.directory / "a")
        config = Path(options(real_cli, model, "b", store).env["CLAUDE_CONFIG_DIR"] or "")
        config.mkdir(parents=True, exist_ok=True)
        (config / ".credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": "CANARY-TOKEN"}}))
        (config / "CLAUDE.md").write_text("MEMO-OF-THE-USER")
        with sync.Session(options(real_cli, model, "b", store, cwd="elsewhere", resume=session_id)) as session:
            (folder,) = private_folders(session.pid)
            assert session.send("SECOND-PROMPT").result().session_id == session_id
        assert not os.path.exists(folder)
        request = json.dumps(model.requests[-1].body)
        assert all(text in request for text in ("FIRST-PROMPT", "NUMBER-ONE", "SECOND-PROMPT", "MEMO-OF-THE-USER"))
        again = sync.run("THIRD-PROMPT", options(real_cli, model, "c", store, resume=session_id))
        assert again.session_id == session_id
        assert all(text in json.dumps(model.requests[-1].body) for text in ("FIRST-PROMPT", "SECOND-PROMPT"))
    (place,) = {place[:2] for place in store.transcripts()}
    assert place == (project_key(real_cli.directory / "a" / "work"), session_id)  # one session, in one place
    uuids = [each["uuid"] for each in in_store(store)[(*place, "")] if "uuid" in each]
    assert len(uuids) == len(set(uuids))
    assert "CANARY" not in repr(store.transcripts())
    assert not on_disk(real_cli.directory / "b")


def test_the_private_folder_is_gone_after_a_kill_of_the_host(real_cli: RealCLI) -> None:
    path = real_cli.directory / "sessions.db"
    with ScriptedModel(Repeat("more")) as model, SQLiteStore(path) as store:
        first = sync.run("one", options(real_cli, model, "a", store))
        process = host(options(real_cli, model, "b", None), path, resume=first.session_id)
        said = words(process)
        assert said[0] == "pid"
        pid = int(said[1])
        (folder,) = private_folders(pid)
        assert Path(folder, "projects").is_dir()
        while said[0] != "result":
            said = words(process)
            assert said != [""]
        process.kill()
        process.wait(patience(30))
        until = time.monotonic() + patience(30)
        while os.path.exists(folder) or os.path.exists(f"/proc/{pid}"):
            assert time.monotonic() < until, "the folder or the CLI is still there"
            time.sleep(0.05)
        assert not list(Path(tempfile.gettempdir()).glob(os.path.basename(folder)))
        process.communicate()


@pytest.mark.parametrize("backend", ["asyncio", "threads"])
def test_a_conversation_of_a_pool_moves_to_another_host(real_cli: RealCLI, backend: Backend) -> None:
    store, registry = MemoryStore(), MemoryRegistry()
    shell = Shell(backend)

    async def say(model: ScriptedModel, where: str, prompt: str) -> str | None:
        given = options(real_cli, model, where, store)
        if shell.blocking:
            with sync.SessionPool(given, warm=0, registry=registry) as pool, pool.conversation("chat-1") as held:
                held.send(prompt).result()
                return held.session_id
        async with (
            hackamore.SessionPool(given, warm=0, registry=registry) as waiting_pool,
            waiting_pool.conversation("chat-1") as session,
        ):
            turn = await session.send(prompt)
            await turn.result()
            return session.session_id

    async def scenario() -> None:
        with ScriptedModel(Reply("NUMBER-ONE"), Repeat("more")) as model:
            first = await say(model, "a", "FIRST-PROMPT")
            shutil.rmtree(real_cli.directory / "a")
            assert await say(model, "b", "SECOND-PROMPT") == first
            request = json.dumps(model.requests[-1].body)
            assert all(text in request for text in ("FIRST-PROMPT", "NUMBER-ONE", "SECOND-PROMPT"))

    shell.play(scenario)
    assert len({place[:2] for place in store.transcripts()}) == 1
