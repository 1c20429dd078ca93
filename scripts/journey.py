"""Count the moves between files on the way of one line: from the read of stdout to `async for`, in a session, a query and a steered query.

The simulated CLI is installed as a program and started as a child process on asyncio. A profiler notes which file of `src/hackamore` runs,
from the moment that the event loop enters Hackamore with the bytes of an answer until `async for` has it. A move is a change of
the file; the same move again counts once, there and back are two.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hackamore
from hackamore.testing import Script, SimulatedCLI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import FrameType

SOURCE = os.path.dirname(os.path.abspath(hackamore.__file__))


class Trail:
    """The files that ran, in order, with the entry from outside that each belongs to."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, str]] = []
        self.stack: list[str] = []
        self.entry = self.decoded_in = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note an event of the profiler."""
        file = frame.f_code.co_filename
        if event not in {"call", "return"} or not file.startswith(SOURCE):
            return
        name = file[len(SOURCE) + 1 :]
        if event == "call":
            if not self.stack:
                self.entry += 1
            self.stack.append(name)
            if name == os.path.join("messages", "decode.py"):
                self.decoded_in = self.entry
        elif self.stack:
            self.stack.pop()
        if self.stack:
            self.steps.append((self.entry, self.stack[-1]))

    def files(self) -> list[str]:
        """Return the files from the entry that decoded the last message on, each change once."""
        steps = [file for entry, file in self.steps if entry >= self.decoded_in]
        return [file for number, file in enumerate(steps) if number == 0 or steps[number - 1] != file]


async def session(options: hackamore.Options) -> AsyncIterator[hackamore.Message]:
    """Give the messages of a prompt to a session."""
    async with hackamore.Session(options) as session:
        async for message in await session.send("Hi"):
            yield message


async def follow(messages: AsyncIterator[hackamore.Message]) -> list[str]:
    """Return the files that the answer went through."""
    trail = Trail()
    sys.setprofile(trail)
    try:
        async for message in messages:
            if isinstance(message, hackamore.AssistantMessage):
                sys.setprofile(None)
                break
    finally:
        sys.setprofile(None)
        await messages.aclose()  # type: ignore[attr-defined]  # a generator or a query
    return trail.files()


async def main() -> None:
    """Print the moves of each."""
    with tempfile.TemporaryDirectory() as folder:
        script = Script()
        for _ in range(3):
            # The answer comes by itself, and nothing follows.
            script.user("Hi").slow(0.3).says("Hello.").hang()
        program = str(SimulatedCLI(script).install(Path(folder)))
        options = hackamore.Options(cli_path=program, version_check="skip")
        allow = options.replace(can_use_tool=lambda request: hackamore.Allow())
        for name, messages in {
            "session": session(options),
            "query": aiter(hackamore.query("Hi", options)),
            "steered query": aiter(hackamore.query("Hi", allow)),
        }.items():
            files = await follow(messages)
            moves = sorted(set(pairwise(files)))
            sys.stdout.write(f"{name}: {len(moves)} moves between {len(set(files))} files\n")
            if "--details" in sys.argv[1:]:
                sys.stdout.write("".join(f"  {there} -> {here}\n" for there, here in moves))


if __name__ == "__main__":
    asyncio.run(main())
