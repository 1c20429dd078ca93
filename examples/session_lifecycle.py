"""How a session begins, ends, is lost and is taken up again; and that no process is left each time."""

# scripted: Reply("Four."), Reply("word " * 500, chunk=10, delay=0.05), Reply("I remember: four.")

from __future__ import annotations

import asyncio
import os
import signal

import hackamore
from hackamore import Options, SessionClosedError, SessionCompleted, SessionFailed, StartError, StreamEvent

OPTIONS = Options(include_partial_messages=True)


def runs(pid: int | None) -> bool:
    """Return whether there is such a process."""
    try:
        os.kill(pid or 0, 0)
    except ProcessLookupError:
        return False
    return True


async def main() -> None:
    # A start that fails leaves nothing behind, and says why.
    try:
        await hackamore.start_session(options=Options(cli_path="/nowhere/claude"))
    except StartError as error:
        print("start:", type(error).__name__)

    # The ordinary way. `finish` lets the CLI exit by itself; at the end of the block it would be stopped.
    async with hackamore.start_session("What is 2 + 2?", OPTIONS) as session:
        await session.first_turn.result()
        events = session.events()
        await session.finish()
        last = [event async for event in events][-1]
        assert isinstance(last, SessionCompleted), last
    print("finished:", session.state, session.exit_code, "process:", runs(session.pid))

    # Without a block, the program starts and stops it, in any task. Then the CLI dies in the middle of an answer.
    lost = await hackamore.start_session(options=OPTIONS.replace(resume=session.session_id))
    try:
        events = lost.events()
        turn = await lost.send("Tell a very long story.")
        async for message in turn:
            if isinstance(message, StreamEvent):
                os.kill(lost.pid or 0, signal.SIGKILL)
                break
        try:
            await turn.result()  # every pending call fails immediately
        except SessionClosedError as error:
            print("lost:", error.exit_code, lost.state)
        last = [event async for event in events][-1]
        assert isinstance(last, SessionFailed), last
    finally:
        await lost.stop()  # always allowed, also twice

    # A lost session is taken up in a new process: what was said before is in its transcript.
    async with hackamore.Session(OPTIONS.replace(resume=lost.session_id)) as resumed:
        result = await (await resumed.send("What was it?")).result()
        print("resumed:", result.text)
    assert not runs(resumed.pid)


if __name__ == "__main__":
    asyncio.run(main())
