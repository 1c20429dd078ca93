"""The conversations of a pool by their keys: listed, exported, forgotten."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest

import hackamore
from hackamore import ConversationInUseError, ConversationNotFoundError, Options, SessionNotFoundError, StoreError, sync
from hackamore.errors import RegistryError
from hackamore.pool import CallerQueued, SQLiteRegistry, registry
from hackamore.pool.registry import Beat
from hackamore.storage.holders import holder_name
from hackamore.testing import Repeat, ScriptedModel
from hackamore.transcripts import project_key
from hackamore.transcripts.stores import MemoryStore
from tests.contract import shows
from tests.pool.conftest import MakePool, say
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Held, got, raised

if TYPE_CHECKING:
    from tests.conftest import RealCLI


async def states(pool: Any) -> dict[str, str]:
    return {each.key: each.state for each in await got(pool.conversations())}


@shows("pool.keys.list", "pool.keys.forget")
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_conversations_are_listed_and_forgotten(shell: Shell, pool_of: MakePool, tmp_path: Path, kind: str) -> None:
    registry = SQLiteRegistry(tmp_path / "registry.db") if kind == "file" else hackamore.pool.MemoryRegistry()

    async def scenario() -> None:
        async with Held(pool_of(registry=registry, max_live=2)) as pool, Held(pool_of(registry=registry)) as other:
            assert await states(pool) == {}
            ids = {}
            for key in ("a", "b"):
                async with Held(pool.conversation(key)) as session:
                    ids[key] = (await say(session, f"hello {key}"))["session"]
            async with Held(pool.conversation("c")) as session:
                await say(session, "hello c")
                assert await states(pool) == {"a": "hibernated", "b": "live", "c": "held"}
                assert (await states(other))["c"] == "elsewhere"
                assert {each.key: each.session_id for each in await got(pool.conversations()) if each.key in ids} == ids
                error = await raised(lambda: pool.forget("c"), ConversationInUseError)
                assert "'c'" in str(error)
                error = await raised(lambda: other.forget("c"), ConversationInUseError)
                assert "another program runs it" in str(error)
                assert await got(pool.forget("b")) is True, "its idle process ends before"
                assert await got(pool.forget("a")) is True
                assert await got(pool.forget("a")) is False
                assert await states(pool) == {"c": "held"}
                await say(session, "still there")
            async with Held(pool.conversation("a")) as session:
                answer = await say(session, "anew")
                assert answer["prompts"] == ["anew"]
                assert answer["session"] != ids["a"]
            assert (await states(pool)).keys() == {"a", "c"}
            await raised(lambda: pool.export("b"), ConversationNotFoundError)
        if isinstance(registry, SQLiteRegistry):
            registry.close()

    shell.play(scenario)


@shows("pool.keys.forget")
def test_a_caller_that_comes_while_a_conversation_is_forgotten_gets_all_or_nothing_of_it(
    shell: Shell, pool_of: MakePool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        with SQLiteRegistryAt(tmp_path) as registry:
            async with Held(pool_of(registry=registry)) as pool:
                async with Held(pool.conversation("a")) as session:
                    await say(session, "old")
                answers = []

                async def call() -> None:
                    async with Held(pool.conversation("a")) as session:
                        answers.append(await say(session, "new"))

                _, outcome = await shell.meanwhile(call, lambda: got(pool.forget("a")))
                left = set(await states(pool))
                if isinstance(outcome, ConversationInUseError):  # the caller came first, and was there
                    assert (answers[0]["prompts"], left) == (["old", "new"], {"a"})
                elif left:
                    assert (outcome, answers[0]["prompts"]) == (True, ["new"])
                else:  # the caller came first, and was gone again
                    assert (outcome, answers[0]["prompts"]) == (True, ["old", "new"])

    shell.play(scenario)


class SQLiteRegistryAt(SQLiteRegistry):
    """A registry that is closed at the end of a block."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "registry.db")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NoDelete:
    """A store that cannot delete."""

    def append(self, key: Any, entries: list[Any]) -> None:
        pass

    def load(self, key: Any) -> None:
        return None


@shows("pool.keys.forget")
def test_a_store_that_cannot_delete_keeps_the_key(shell: Shell, pool_of: MakePool, options: Options) -> None:
    async def scenario() -> None:
        async with Held(pool_of(options=options.replace(session_store=NoDelete()))) as pool:
            async with Held(pool.conversation("a")) as session:
                await say(session, "hello")
            error = await raised(lambda: pool.forget("a"), StoreError)
            assert "NoDelete has no such method" in str(error)
            assert await states(pool) == {"a": "hibernated"}
            async with Held(pool.conversation("a")) as session:
                assert (await say(session, "again"))["prompts"] == ["hello", "again"]

    shell.play(scenario)


class Slow(SQLiteRegistryAt):
    """A registry that takes a lease when the test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lease_seconds = 0.3  # heartbeats are sent three times as often
        self.asked = threading.Event()
        self.go = threading.Event()
        self.done = threading.Event()

    def acquire(self, key: str, holder: str) -> registry.Held:
        self.asked.set()
        assert self.go.wait(patience(30))
        held = super().acquire(key, holder)
        self.done.set()
        return held


def test_a_cancelled_forget_keeps_no_lease(options: Options, tmp_path: Path) -> None:
    async def scenario() -> None:
        with Slow(tmp_path) as slow, SQLiteRegistryAt(tmp_path) as other:
            async with hackamore.SessionPool(options, warm=0, registry=slow) as pool:
                async with anyio.create_task_group() as group:
                    group.start_soon(pool.forget, "a")
                    assert await anyio.to_thread.run_sync(slow.asked.wait, patience(30))
                    group.cancel_scope.cancel()
                slow.go.set()
                assert await anyio.to_thread.run_sync(slow.done.wait, patience(30))
                me, end = holder_name(), time.monotonic() + patience(5)
                while not other.acquire("a", me).taken:
                    assert time.monotonic() < end
                    await anyio.sleep(0.01)

    anyio.run(scenario)
    gc.collect()  # the exception of the cancelled call


class Refusing(SQLiteRegistryAt):
    """A registry that refuses to forget, once a caller waits, and notes the keys of heartbeats."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.beaten: set[str] = set()
        self.heard = threading.Event()
        self.begun = threading.Event()
        self.wait: Callable[[], None] = lambda: None

    def beat(self, holder: str, keys: Collection[str]) -> Beat:
        self.beaten.update(keys)
        self.heard.set()
        return super().beat(holder, keys)

    def forget(self, key: str) -> None:
        self.begun.set()
        self.wait()
        raise RegistryError("the disk is full")


@shows("pool.keys.forget")
def test_a_lease_that_a_failed_forget_leaves_to_a_caller_has_heartbeats(options: Options, tmp_path: Path) -> None:
    with Refusing(tmp_path) as registry, sync.SessionPool(options, warm=0, registry=registry) as pool:
        with pool.conversation("a") as session:
            session.send("hello").result()
        events = pool.events()

        def wait_for_a_caller() -> None:
            while not isinstance(events.next_item(timeout=patience(20)), CallerQueued):
                pass

        registry.wait = wait_for_a_caller
        errors: list[Exception] = []

        def forget() -> None:
            try:
                pool.forget("a")
            except RegistryError as error:
                errors.append(error)

        thread = threading.Thread(target=forget)
        thread.start()
        assert registry.begun.wait(patience(20))
        with pool.conversation("a", timeout=patience(20)):
            thread.join()
            registry.beaten.clear()
            registry.heard.clear()
            registry.heard.wait(patience(5))
            assert (len(errors), registry.beaten) == (1, {"a"})


@shows("pool.keys.forget", "pool.keys.export")
@pytest.mark.parametrize("stored", [False, True], ids=["disk", "store"])
def test_on_the_real_cli_nothing_is_left_of_a_forgotten_conversation(real_cli: RealCLI, stored: bool) -> None:
    store = MemoryStore()

    async def scenario() -> None:
        with ScriptedModel(Repeat("It is blue.")) as model:
            env = real_cli.env(model)
            more: dict[str, Any] = {"session_store": store} if stored else {}
            options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=env, inherit_env=False, **more)
            async with hackamore.SessionPool(options, warm=0, max_live=1, timeout=patience(60)) as pool:
                for prompt in ("Which colour?", "Which one again?"):
                    async with pool.conversation("ada") as session:
                        (await (await session.send(prompt)).result()).raise_for_error()
                        session_id = session.session_id
                    async with pool.conversation("other") as session:  # it makes `ada` hibernate
                        (await (await session.send("Hello.")).result()).raise_for_error()
                (ada,) = [each for each in await pool.conversations() if each.key == "ada"]
                assert (ada.session_id, ada.cwd, ada.state) == (session_id, str(real_cli.cwd), "hibernated")
                text = await pool.export("ada")
                assert text.index("Which colour?") < text.rindex("Which one again?")
                assert text.count("It is blue.") == 2
                lines = (await pool.export("ada", "jsonl")).splitlines()
                assert all(json.loads(line) for line in lines)
                with pytest.raises(ValueError, match="`format` must be one of"):
                    await pool.export("ada", "pdf")  # type: ignore[arg-type]
                assert list(Path(env["CLAUDE_CONFIG_DIR"]).rglob(f"{session_id}*.jsonl"))
                assert await pool.forget("ada")
                assert not list(Path(env["CLAUDE_CONFIG_DIR"]).rglob(f"{session_id}*.jsonl"))
                if stored:
                    key = {"project_key": project_key(real_cli.cwd), "session_id": str(session_id)}
                    assert not await store.load(key)  # type: ignore[arg-type]
                with pytest.raises(ConversationNotFoundError, match="'ada'"):
                    await pool.export("ada")
                async with pool.conversation("silent"):
                    pass
                with pytest.raises((SessionNotFoundError, ConversationNotFoundError)):
                    await pool.export("silent")
                assert "Hello." in await pool.export("other")

    anyio.run(scenario)
