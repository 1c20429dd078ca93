"""The event loop that runs: asyncio's, while trio is being imported by another thread."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType

import pytest

from bridle.waiting.event_loops import Loop


@pytest.mark.parametrize("imported", ["nothing", "an empty lowlevel"])
def test_trio_that_another_thread_is_importing_is_not_asked(monkeypatch: pytest.MonkeyPatch, imported: str) -> None:
    trio = ModuleType("trio")
    if imported != "nothing":
        trio.lowlevel = ModuleType("trio.lowlevel")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trio", trio)

    async def scenario() -> bool:
        return Loop().is_current

    assert asyncio.run(scenario())
