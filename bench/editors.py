"""The time to the first text: a client of `hackamore.serving.acp` beside `Session` in the same program.

    python bench/editors.py [--rounds 50]

Both run the simulated CLI in this program. The client reads a pipe, as an editor does. Prints the medians and their difference.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from acp import schema

from hackamore import Options, Session
from hackamore.serving import acp
from hackamore.testing import Script, SimulatedCLI
from tests.serving.acp.editor import Editor, connected


def script(rounds: int) -> Script:
    found = Script()
    for _ in range(rounds):
        found.user().says("one two three", chunk=4)
    return found


async def session_times(rounds: int) -> list[float]:
    times = []
    async with Session(Options(include_partial_messages=True), transport=SimulatedCLI(script(rounds))) as session:
        for _ in range(rounds):
            began = time.perf_counter()
            turn = await session.send("Go")
            async for _text in turn.text_stream():
                times.append(time.perf_counter() - began)
                break
            await turn.result()
    return times


class Timed(Editor):
    """An editor that records when the first text came."""

    def __init__(self) -> None:
        super().__init__()
        self.first = 0.0

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if update.session_update == "agent_message_chunk" and not self.first:
            self.first = time.perf_counter()


async def client_times(rounds: int) -> list[float]:
    times = []
    editor = Timed()
    async with acp.agent(transport=SimulatedCLI(script(rounds))) as agent, connected(agent, editor) as client:
        session = (await client.new_session(cwd=tempfile.gettempdir())).session_id
        for _ in range(rounds):
            editor.first, began = 0.0, time.perf_counter()
            await client.prompt(session_id=session, prompt=[schema.TextContentBlock(type="text", text="Go")])
            times.append(editor.first - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    alone = statistics.median(asyncio.run(session_times(rounds))) * 1000
    served = statistics.median(asyncio.run(client_times(rounds))) * 1000
    print(f"first text: Session {alone:.2f} ms, ACP client {served:.2f} ms, {served - alone:.2f} ms more")


if __name__ == "__main__":
    main()
