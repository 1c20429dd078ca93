"""The shape of a transport is checked when it is handed in, and the message names the wrong member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest

import hackamore
import hackamore.sync
from hackamore import Options
from hackamore.transports.opening import check_shape
from hackamore.transports.process.subprocess_async import AsyncChildProcess
from hackamore.transports.process.subprocess_sync import SyncChildProcess


class Asynchronous:
    pid: int | None = None
    stderr_tail = b""

    def abandon(self) -> None: ...
    async def start(self, plan: Any) -> None: ...
    async def send(self, data: bytes) -> None: ...
    async def end_input(self) -> None: ...
    async def receive(self) -> bytes:
        return b""

    async def wait_exit(self) -> int | None:
        return 0

    async def stop(self, *, turn_open: bool) -> None: ...


class Blocking:
    pid: int | None = None
    stderr_tail = b""

    def abandon(self) -> None: ...
    def start(self, plan: Any) -> None: ...
    def send(self, data: bytes) -> None: ...
    def end_input(self) -> None: ...
    def receive(self, timeout: float | None = None) -> bytes | None:
        return b""

    def wait_exit(self, timeout: float | None = None) -> int | None:
        return 0

    def stop(self, *, turn_open: bool) -> None: ...


class Pushing(Asynchronous):
    input_broken = False

    def send_nowait(self, data: bytes) -> None: ...
    async def push_to(self, take: Callable[[bytes], bool]) -> bytes | None:
        return b""


class PushingBlocking(Blocking):
    input_broken = False

    def send_nowait(self, data: bytes) -> None: ...


class Delegating(Asynchronous):
    """`def` that returns what an async method returns."""

    def receive(self) -> Awaitable[bytes]:  # type: ignore[override]
        return super().receive()


@pytest.mark.parametrize("good", [Asynchronous(), Pushing(), Delegating(), AsyncChildProcess()])
def test_an_async_transport_is_taken_in_both_shapes(good: Any) -> None:
    check_shape(good, blocking=False)


@pytest.mark.parametrize("good", [Blocking(), PushingBlocking(), SyncChildProcess()])
def test_a_blocking_transport_is_taken_in_both_shapes(good: Any) -> None:
    check_shape(good, blocking=True)


def changed(base: type, **members: Any) -> Any:
    """Return a transport with other members; those that are None are taken away."""
    removed = [name for name, member in members.items() if member is None]
    made = {name: member for part in reversed(base.__mro__[:-1]) for name, member in vars(part).items()} | members
    return type("Mine", (), {name: member for name, member in made.items() if name not in removed})()


async def _later(*_: Any, **__: Any) -> Any: ...


def _now(*_: Any, **__: Any) -> Any: ...


@pytest.mark.parametrize(
    ("shell", "wrong", "said"),
    [
        ("async", changed(Asynchronous, receive=None), "Mine is not an AsyncTransport: `receive` is missing"),
        ("async", changed(Asynchronous, pid=None), "`pid` is missing"),
        ("async", changed(Asynchronous, send=_now), "`send` must be `async def`"),
        ("async", changed(Asynchronous, abandon=_later), "`abandon` must not be async"),
        ("async", changed(Asynchronous, stop=5), "`stop` must be a method"),
        ("async", changed(Asynchronous, pid=_now), "`pid` must be a property, not a method"),
        ("async", changed(Pushing, send_nowait=_later), "not an AsyncPushTransport: `send_nowait` must not be async"),
        ("async", changed(Pushing, push_to=_now), "`push_to` must be `async def`"),
        ("async", changed(Pushing, push_to=None), "`push_to` is missing"),
        ("async", Blocking(), "`start` must be `async def`, `send` must be `async def`"),
        ("blocking", changed(Blocking, end_input=None), "Mine is not a SyncTransport: `end_input` is missing"),
        ("blocking", changed(Blocking, receive=_later), "`receive` must not be async"),
        ("blocking", changed(PushingBlocking, send_nowait=None), "SyncPushTransport: `send_nowait` is missing"),
        ("blocking", Asynchronous(), "`start` must not be async"),
        ("async", Asynchronous, "not the class Asynchronous itself"),
        ("blocking", object(), "must be a SyncTransport or a TransportSource, not object"),
    ],
)
def test_a_wrong_member_is_named_at_the_call(shell: str, wrong: Any, said: str) -> None:
    for call in (
        (hackamore.query, lambda *a, **k: hackamore.Session(Options(), **k))
        if shell == "async"
        else (
            hackamore.sync.query,
            lambda *a, **k: hackamore.sync.Session(Options(), **k),
        )
    ):
        with pytest.raises(TypeError) as raised:
            call("Hello", transport=wrong)
        assert said in str(raised.value)
        assert "hackamore.transports.base" in str(raised.value)


def test_a_source_is_held_to_the_same() -> None:
    class Source:
        def for_async(self) -> Any:
            return Blocking()

        def for_sync(self) -> Any:
            return Blocking()

    with pytest.raises(TypeError, match="`receive` must be `async def`"):
        hackamore.query("Hello", transport=Source())


def test_mocks_are_transports() -> None:
    mock = AsyncMock(spec=Asynchronous)
    check_shape(mock, blocking=False)
    assert isinstance(mock.send, AsyncMock)
