"""The awaited functions give what the blocking ones give, and leave the event loop free."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING

import anyio
import pytest

from hackamore import SessionNotFoundError, transcripts
from hackamore.transcripts import aio
from tests.transcripts.disk import Writer, some_id

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_the_same_names_are_awaited(tmp_path: Path) -> None:
    writer = Writer()
    for number in range(250):
        writer.user(f"word{number}")
    writer.save(tmp_path)
    (found,) = await aio.list(writer.cwd, config_dir=tmp_path)
    assert (
        found
        == await aio.info(writer.session_id, config_dir=tmp_path)
        == await aio.find(writer.session_id[:8], config_dir=tmp_path)
    )
    transcript = await aio.read(writer.session_id, config_dir=tmp_path)
    assert [message.uuid async for message in aio.stream(transcript.messages)] == [
        each.uuid for each in transcript.messages
    ]
    assert len(await aio.search("word7", config_dir=tmp_path, cache_dir=tmp_path / "cache")) == 1
    assert (await aio.usage(config_dir=tmp_path)).rows == []
    assert await aio.call(lambda: transcript.usage) == transcript.usage
    with pytest.raises(SessionNotFoundError):
        await aio.read(some_id(1), config_dir=tmp_path)


async def test_a_call_runs_in_another_thread() -> None:
    assert await aio.call(threading.get_ident) != threading.get_ident()
    release = threading.Event()
    try:
        with anyio.move_on_after(0.01) as scope:
            await aio.call(lambda: release.wait(30))
        assert scope.cancelled_caught
    finally:
        release.set()


def test_names_and_signatures_are_equal() -> None:
    for name in set(aio.__all__) - {"call", "stream"}:
        awaited, blocking = getattr(aio, name), getattr(transcripts, name)
        assert inspect.signature(awaited).parameters == inspect.signature(blocking).parameters
        assert awaited.__name__ == name
        assert inspect.iscoroutinefunction(awaited)
