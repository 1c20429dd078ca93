"""What is typed, at moments that a whole program seldom meets."""

from __future__ import annotations

import asyncio
import os
import pty
import select

import pytest

from hackamore.cli.questions import Lines


@pytest.mark.timeout(10)
def test_a_line_that_is_forgotten_in_the_moment_it_comes_stops_nothing() -> None:
    """The loop has seen that there is something to read, and a question throws it away before it is read."""
    leader, follower = pty.openpty()

    async def scenario() -> None:
        lines = Lines(follower)
        assert lines.interactive
        reading = asyncio.create_task(lines.next())
        await asyncio.sleep(0)
        os.write(leader, b"old\n")
        assert select.select([follower], [], [], 5)[0]
        # This task goes first in each turn of the loop: in one it is seen that there is a line, in the next it would be read.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lines.forget()
        await asyncio.sleep(0)
        assert not reading.done()
        os.write(leader, b"new\n")
        assert await asyncio.wait_for(reading, 5) == "new"

    try:
        asyncio.run(scenario())
    finally:
        os.close(leader)
        os.close(follower)
