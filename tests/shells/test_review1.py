"""Races, exhaustion and odd hosts."""

from __future__ import annotations

import anyio
import pytest

import bridle
from bridle import ResultMessage
from tests.shells.conftest import StandIn

INIT, ASSISTANT, RESULT = ["frame", "init"], ["frame", "assistant"], ["frame", "result"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_read_loses_nothing(backend: str, playing: StandIn) -> None:
    async def scenario() -> list[object]:
        got: list[object] = []
        async with bridle.query("hi", playing(INIT, ASSISTANT, RESULT)) as stream:
            with anyio.fail_after(10):
                while None not in got:
                    with anyio.CancelScope() as scope:
                        scope.cancel()
                        got.append(await stream.next_item())  # cancelled before it begins: must not lose anything
                    with anyio.move_on_after(0.05):
                        got.append(await stream.next_item())
        return got

    got = anyio.run(scenario, backend=backend)
    assert len(got) == 4, got
    assert isinstance(got[2], ResultMessage)
