"""The session of a conversation on the disk and in a store: the calls that export and delete it. No CLI, no pool."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from hackamore import Options, SessionNotFoundError, StoreError
from hackamore.pool.keeping import delete_steps, export_steps
from hackamore.pool.registry import Record
from hackamore.storage.places import project_key
from hackamore.transcripts.stores import MemoryStore
from tests.contract import shows
from tests.pool.test_keys import NoDelete

SESSION = "11111111-2222-4333-8444-555555555555"
AGENT = "subagents/agent-a1"


def line(text: str, **more: Any) -> Any:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": f"u-{text}", "sessionId": SESSION, "message": message, **more}


class Kept:
    """A conversation on a disk and, with a store, in that."""

    def __init__(self, folder: Path, store: Any) -> None:
        self.config = folder / "config"
        self.options = Options(session_store=store, env={"CLAUDE_CONFIG_DIR": str(self.config)}, inherit_env=False)
        self.record = Record(SESSION, str(folder), said=True)
        self.place = self.config / "projects" / project_key(str(folder))
        self.key: Any = {"project_key": project_key(str(folder)), "session_id": SESSION}
        self.private = folder / "private"
        self.removed = 0

    def on_disk(self, text: str) -> None:
        self.place.mkdir(parents=True)
        (self.place / f"{SESSION}.jsonl").write_text(json.dumps(line(text)) + "\n")

    async def in_store(self, text: str) -> None:
        store: Any = self.options.session_store
        await store.append(self.key, [line(text)])
        await store.append({**self.key, "subpath": AGENT}, [line(f"{text} agent", isSidechain=True, agentId="a1")])

    async def play(self, steps: Generator[Any, Any, Any]) -> Any:
        """Make the calls as a shell does; return what they come to."""
        step = next(steps)
        while True:
            try:
                outcome = step.function(*step.arguments)
                outcome = await outcome if hasattr(outcome, "__await__") else outcome
            except Exception as error:
                step = steps.throw(error)
                continue
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value

    async def export(self, format: Any = "jsonl") -> str:  # noqa: A002 - as the pool has it
        found: str = await self.play(export_steps(self.options, self.record, format, self._make, self._remove))
        return found

    def _make(self) -> str:
        self.private.mkdir()
        return str(self.private)

    def _remove(self, folder: str) -> None:
        self.removed += 1
        shutil.rmtree(folder)


class Deleting(MemoryStore):
    """A store that remembers what was deleted of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str | None] = []

    async def delete(self, key: Any) -> None:
        self.deleted.append(key.get("subpath"))
        await super().delete(key)


@shows("pool.keys.export")
@pytest.mark.anyio
@pytest.mark.parametrize("stored", [None, True, False], ids=["no store", "store", "empty store"])
async def test_a_conversation_is_exported_from_the_store_and_without_one_from_the_disk(
    tmp_path: Path, stored: bool | None
) -> None:
    kept = Kept(tmp_path, None if stored is None else MemoryStore())
    kept.on_disk("disk")
    if stored:
        await kept.in_store("store")
    lines = [json.loads(each) for each in (await kept.export()).splitlines()]
    texts = [each["message"]["content"] for each in lines if each.get("type") == "user"]
    assert texts == (["store", "store agent"] if stored else ["disk"])
    with pytest.raises(ValueError, match="`format` must be one of"):
        await kept.export("pdf")
    assert (kept.removed, kept.private.exists()) == (2 if stored else 0, False)


@shows("pool.keys.forget")
@pytest.mark.anyio
@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("stored", [True, False])
async def test_a_conversation_is_deleted_from_the_disk_and_from_the_store(
    tmp_path: Path, on_disk: bool, stored: bool
) -> None:
    kept = Kept(tmp_path, Deleting() if stored else None)
    other: Any = {**kept.key, "session_id": SESSION.replace("1", "2")}
    if on_disk:
        kept.on_disk("disk")
    if stored:
        await kept.in_store("store")
        await kept.options.session_store.append(other, [line("other")])  # type: ignore[union-attr,misc]
    await kept.play(delete_steps(kept.options, kept.record))
    if stored:  # subagents first: a deletion that stops halfway is repeated, and finds them by the conversation
        assert kept.options.session_store.deleted == [AGENT, None]  # type: ignore[union-attr]
    assert list(kept.config.rglob("*.jsonl")) == []
    with pytest.raises(SessionNotFoundError):
        await kept.export()
    if stored:
        store: Any = kept.options.session_store
        assert not await store.load(kept.key)
        assert not await store.load({**kept.key, "subpath": AGENT})
        assert await store.load(other) == [line("other")]


@shows("pool.keys.forget")
@pytest.mark.anyio
async def test_a_store_that_cannot_delete_leaves_the_disk_as_it_is(tmp_path: Path) -> None:
    kept = Kept(tmp_path, NoDelete())
    kept.on_disk("disk")
    with pytest.raises(StoreError, match=r"NoDelete has no such method\. Add it to the store\.") as caught:
        await kept.play(delete_steps(kept.options, kept.record))
    assert (caught.value.operation, caught.value.session_id) == ("delete", SESSION)
    assert "disk" in await kept.export()
