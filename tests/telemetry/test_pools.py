"""Spans and metrics of session pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

import hackamore
from hackamore import Options, PoolTimeoutError
from hackamore.telemetry import names
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.telemetry.collecting import attributes, place_of

if TYPE_CHECKING:
    from tests.telemetry.collecting import Collected


@shows("telemetry.pools")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_wait_is_a_span_of_its_caller(collected: Collected, backend: str) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user().says("Hi."), per_session=True) as cli:
            options = Options(telemetry=collected.telemetry())
            async with hackamore.SessionPool(options, warm=0, max_live=1, transport=cli) as pool:
                for key in ("a", "b"):
                    with collected.tracer.start_as_current_span(f"request of {key}"):
                        async with pool.conversation(key) as session:
                            await (await session.send("hi")).result()
                            with pytest.raises(PoolTimeoutError):
                                async with pool.conversation("late", timeout=0.01):
                                    raise AssertionError

    anyio.run(scenario, backend=backend)
    waits = collected.named(names.POOL_WAIT)
    assert [attributes(span).get(names.POOL_SOURCE) for span in waits] == ["started", "none"] * 2
    assert [attributes(span).get("error.type") for span in waits] == [None, "PoolTimeoutError"] * 2
    assert all(attributes(span)[names.CONVERSATION] for span in waits[::2])
    for key, mine in (("a", waits[:2]), ("b", waits[2:])):
        around = place_of(collected.one(f"request of {key}"))
        assert all(span.parent is not None and span.parent.span_id == around.span_id for span in mine)
    assert sum(value for _, value in collected.points(names.POOL_WAITING.name)) == 0
    assert ({names.POOL_REASON: "limit"}, 1) in collected.points(names.POOL_HIBERNATIONS.name)
    sources = [found[names.POOL_SOURCE] for found, _ in collected.points(names.POOL_WAITS.name)]
    assert sorted(sources) == ["none", "started"]
