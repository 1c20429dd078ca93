"""Frames injected into a simulated CLI, at any moment and from any thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
import hackamore.sync
from hackamore.messages import NotificationMessage
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.support.query_fixtures import leaves_nothing, shell
from tests.support.talking import first, got

if TYPE_CHECKING:
    from tests.support.shell import Shell

__all__ = ["leaves_nothing", "shell"]

pytestmark = pytest.mark.usefixtures("leaves_nothing")

NOTE: dict[str, Any] = {"type": "system", "subtype": "notification", "text": "Disk is full", "priority": "high"}


async def notification(cursor: Any) -> NotificationMessage:
    while not isinstance(message := await first(cursor), NotificationMessage):
        pass
    return message


@shows("testing.inject.any-moment")
def test_a_frame_comes_between_turns_from_another_thread(shell: Shell) -> None:
    async def scenario() -> None:
        cli = SimulatedCLI(Script().user().says("One.").user().says("Two."))
        with cli:
            session: Any = (hackamore.sync.Session if shell.blocking else hackamore.Session)(transport=cli)
            await got(session.start())
            try:
                cursor = session.messages()
                turn = await got(session.send("go"))
                await got(turn.result())
                thread = threading.Thread(target=cli.inject, args=(NOTE,), kwargs={"session_id": session.session_id})
                thread.start()
                note = await notification(cursor)
                thread.join()
                assert note.text == "Disk is full"
                assert note.data["session_id"] == session.session_id
                assert (await got((await got(session.send("more"))).result())).text == "Two."
            finally:
                await got(session.stop())

    shell.play(scenario)


@shows("testing.inject.none-runs")
def test_without_a_session_it_raises() -> None:
    with pytest.raises(RuntimeError, match="No query or session runs on this simulated CLI"):
        SimulatedCLI(Script()).inject(NOTE)
    with pytest.raises(TypeError, match="must be a mapping or bytes, got 5"):
        SimulatedCLI(Script()).inject(5)  # type: ignore[arg-type]
