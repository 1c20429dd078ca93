"""Server-sent events: the format, ids, heartbeats, and streams that are closed early."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from hackamore import Options, SessionPool
from hackamore.serving import sse
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.support.leaks import nothing_left

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@shows("sse.format")
def test_events_have_the_format_of_the_standard() -> None:
    assert sse.encode("hello") == b"data: hello\n\n"
    assert sse.encode("a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"
    assert sse.encode({"text": "é\n"}, event="text", id=7, retry=100) == (
        'event: text\nid: 7\nretry: 100\ndata: {"text":"é\\n"}\n\n'.encode()
    )
    assert sse.encode(comment="still here\nid: 5") == b": still here\n: id: 5\n\n"
    assert sse.encode("") == b"data: \n\n"
    assert sse.encode("\ud800") == b"data: ?\n\n"


@shows("sse.format")
@pytest.mark.parametrize(
    "fields",
    [{"event": "a\nb"}, {"id": "1\r"}, {"id": "\0"}, {"retry": -1}, {"data": {1: object()}}, {"data": object()}],
    ids=["event", "id", "NUL", "retry", "key", "value"],
)
def test_a_field_that_would_break_the_stream_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|cannot be"):
        sse.encode(**fields)


async def numbers(until: int, closed: list[str]) -> AsyncIterator[int]:
    try:
        for number in range(until):
            yield number
    finally:
        closed.append("closed")


async def test_items_are_events_in_order() -> None:
    closed: list[str] = []
    found = [each async for each in sse.events(numbers(100, closed))]
    assert found == [sse.encode(number) for number in range(100)]
    assert closed == ["closed"]


async def test_a_function_makes_the_events() -> None:
    made = sse.events(numbers(3, []), to_event=lambda n: sse.encode(n, id=n, event="n") if n != 1 else None)
    assert [each async for each in made] == [b"event: n\nid: 0\ndata: 0\n\n", b"event: n\nid: 2\ndata: 2\n\n"]


@shows("sse.stream")
async def test_silence_is_filled_with_comments() -> None:
    go = anyio.Event()

    async def slow() -> AsyncIterator[str]:
        await go.wait()
        yield "late"

    found = []
    async for each in sse.events(slow(), heartbeat=0.01):
        found.append(each)
        if len(found) == 3:
            go.set()
    assert found[:3] == [b": \n\n"] * 3
    assert found[-1] == b"data: late\n\n"


async def test_errors_of_the_items_are_raised_after_them() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "one"
        raise KeyError("no")

    found = []
    with pytest.raises(KeyError, match="no"):
        async for each in sse.events(broken()):
            found.append(each)
    assert found == [b"data: one\n\n"]


async def test_reading_stays_a_few_items_ahead() -> None:
    count = 0

    async def endless() -> AsyncIterator[int]:
        nonlocal count
        while True:
            yield count
            count += 1

    stream = sse.events(endless())
    assert await anext(stream) == b"data: 0\n\n"
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
    assert count <= 20
    await stream.aclose()  # type: ignore[attr-defined]


@shows("sse.stream")
async def test_a_stream_that_is_closed_interrupts_the_turn() -> None:
    script = Script().user().interrupted(after="I begin").user().says("Next.")
    with nothing_left(), SimulatedCLI(script, per_session=True) as cli:
        async with SessionPool(Options(include_partial_messages=True), transport=cli, warm=0) as pool:

            async def texts() -> AsyncIterator[str]:
                async with pool.conversation("ada") as session:
                    async for text in (await session.send("Go.")).text_stream():
                        yield text

            stream = sse.events(texts(), heartbeat=0.01)
            while b"I begin" not in await anext(stream):
                pass
            await stream.aclose()  # type: ignore[attr-defined]
            async with pool.conversation("ada") as session:
                assert (await (await session.send("And?")).result()).text == "Next."


async def test_a_framework_streams_it() -> None:
    async def endpoint(_: Any) -> StreamingResponse:
        return StreamingResponse(sse.events(numbers(3, [])), media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)

    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [],
        "query_string": b"",
        "asgi": {"version": "3.0"},
    }
    await Starlette(routes=[Route("/", endpoint)])(scope, receive, send)
    assert dict(sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert b"".join(each.get("body", b"") for each in sent[1:]) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
