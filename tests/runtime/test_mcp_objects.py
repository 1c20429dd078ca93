"""A server object of the `mcp` package on the event loop: what goes in and out, and that each one ends."""

from __future__ import annotations

import datetime
import json
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from hackamore.runtime import mcp_objects
from hackamore.runtime.mcp_objects import load, serve
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
OFFERED = {"tools_changed": True, "prompts_changed": True, "resources_changed": True}


class Played:
    """The other side of a server, and a server whose `run` is the given function."""

    def __init__(self, run: Callable[..., Any], *messages: bytes) -> None:
        self.server: Any = self
        self.name = "shop"
        self.inbox = deque(messages)
        self.closing = False
        self.wake: Callable[[], None] | None = None
        self.noted: list[Any] = []
        self.run = run

    def create_initialization_options(self, options: Any) -> Any:
        return vars(options)

    def received(self, message: dict[str, Any]) -> None:
        self.noted.append(message)

    def note_initialize(self, message: bytes) -> None:
        self.noted.append(("initialize", message))

    def unreadable(self, message: bytes, error: ValueError) -> None:
        self.noted.append(("unreadable", message, isinstance(error, ValueError)))

    def end(self) -> None:
        self.closing = True
        assert self.wake is not None
        self.wake()

    def tell(self, message: bytes) -> None:
        self.inbox.append(message)
        assert self.wake is not None
        self.wake()


def message(method: str, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode()


def play(played: Played, backend: str) -> None:
    async def scenario() -> None:
        with anyio.fail_after(patience(20)):
            await serve(played)

    anyio.run(scenario, backend=backend)


@BACKENDS
def test_messages_reach_the_server_and_its_answers_come_out(backend: str) -> None:
    package = load()
    found: list[Any] = []

    async def run(read: Any, write: Any, options: Any) -> None:
        found.append(options)
        async for item in read:
            asked = item.message.model_dump(exclude_unset=True)
            found.append(asked["method"])
            answer = package.decode(b'{"jsonrpc":"2.0","id":1,"result":{"_meta":{},"x":null}}')
            result = getattr(answer, "root", answer).result
            result["day"] = datetime.date(2026, 11, 2)
            await write.send(package.wrap(answer))
            if asked["method"] == "initialize":
                played.tell(message("ping", id=2))
            else:
                played.end()
        found.append("the end of its input")

    first = message("initialize", id=1, params={})
    played = Played(run, b"nonsense", first)
    play(played, backend)
    assert found == [OFFERED, "initialize", "ping", "the end of its input"]
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"_meta": {}, "x": None, "day": "2026-11-02"}}
    assert played.noted == [("unreadable", b"nonsense", True), ("initialize", first), answer, answer]


@BACKENDS
def test_a_server_that_takes_no_options_gets_none(backend: str) -> None:
    found: list[Any] = []

    class Older(Played):
        def create_initialization_options(self) -> Any:  # type: ignore[override]
            return "its own"

    async def run(read: Any, write: Any, options: Any) -> None:
        found.append(options)

    play(Older(run), backend)
    assert found == ["its own"]


@BACKENDS
def test_an_error_of_a_server_is_raised_as_it_is(backend: str) -> None:
    alone, other = LookupError("alone"), ValueError("other")
    both = ExceptionGroup("both", [alone, other])
    for raised, expected in (
        (alone, alone),
        (ExceptionGroup("outer", [ExceptionGroup("inner", [alone])]), alone),
        (ExceptionGroup("outer", [both]), both),
    ):

        async def run(*_: Any, raised: Exception = raised) -> None:
            raise raised

        with pytest.raises(type(expected)) as caught:
            play(Played(run), backend)
        assert caught.value is expected


@BACKENDS
def test_a_connection_that_is_over_before_it_begins_runs_no_server(backend: str) -> None:
    async def run(*_: Any) -> None:
        raise AssertionError

    played = Played(run)
    played.closing = True
    play(played, backend)
    assert played.wake is not None


@BACKENDS
@pytest.mark.parametrize("reads", [False, True])
def test_a_server_that_outlives_its_input_is_cancelled(
    backend: str, reads: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp_objects, "GRACE_SECONDS", 0.01)
    ended: list[str] = []

    async def run(read: Any, *_: Any) -> None:
        if reads:
            await read.receive()
        played.end()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    played = Played(run, *[message("ping", id=number) for number in range(3)])
    play(played, backend)
    assert ended == ["cancelled"]
    assert [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "hackamore"] == [
        (logging.WARNING, "MCP server 'shop' did not end within 0.01 s of the end of its input")
    ]


@BACKENDS
def test_a_server_that_closes_its_side_is_sent_nothing_more(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hackamore")

    async def run(read: Any, write: Any, _: Any) -> None:
        await read.receive()
        await read.aclose()
        played.tell(message("ping", id=2))
        await write.send(ValueError("what the client sent is odd"))
        played.tell(message("ping", id=3))
        while played.inbox:
            await anyio.lowlevel.checkpoint()

    played = Played(run, message("ping", id=1))
    play(played, backend)
    assert played.noted == []
    assert "MCP server 'shop': what the client sent is odd" in caplog.text
