"""Sessions with a simulated CLI behind faults, for the three shells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hackamore import Options
from hackamore.aio.session import Session as AsyncSession
from hackamore.sync.session import Session as SyncSession
from hackamore.testing import Script, SimulatedCLI, with_faults
from tests.support.talking import got

if TYPE_CHECKING:
    from hackamore.testing.faults import Fault, FaultySource
    from tests.support.shell import Shell

RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "nobody asked",
    "session_id": "51b00000-0000-4000-8000-000000000001",
}


def greeting(*texts: str) -> Script:
    """A script that answers each prompt with a text."""
    script = Script()
    for text in texts or ("Hello.",):
        script.user().says(text)
    return script


def behind(script: Script, *faults: Fault, **more: Any) -> FaultySource:
    """A simulated CLI behind faults."""
    return with_faults(SimulatedCLI(script, time_scale=more.pop("time_scale", 0.0)), *faults, **more)


@asynccontextmanager
async def talking(shell: Shell, source: Any, **options: Any) -> AsyncIterator[Any]:
    """A session for the length of a block."""
    kind: Any = SyncSession if shell.blocking else AsyncSession
    session = kind(Options(**options), transport=source)
    await got(session.start())
    try:
        yield session
    finally:
        await got(session.stop())


async def answered(session: Any, prompt: str = "go") -> str | None:
    """The text of one turn's result."""
    result = await got((await got(session.send(prompt))).result())
    return None if result is None else result.result
