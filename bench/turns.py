"""What a turn of an open session costs the program: a short prompt, a short answer, its result.

Every client runs in a process of its own, a new one for each round, with a session of its own on the same stand-in (`peer.py`): two
processes of one program may differ by a tenth. The rounds are interleaved, so that the noise of the machine hits all of them.
`python bench/turns.py` prints the time from prompt to result, and the processor time of the program.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import round_trips

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLES = {
    "hackamore": "Hackamore, asyncio",
    "hackamore-trio": "Hackamore, trio",
    "hackamore-blocking": "Hackamore, blocking",
    "official": "official package, asyncio",
    "official-trio": "official package, trio",
}
PROMPT = json.dumps({"kind": "turn", "count": 0})
WARM_UP = 50


async def hackamore_turns(path: str, turns: int) -> None:
    import hackamore

    async with hackamore.Session(hackamore.Options(cli_path=path, version_check="skip")) as session:
        for _ in rounds(turns):
            turn = await session.send(PROMPT)
            await turn.result()


def blocking_turns(path: str, turns: int) -> None:
    import hackamore.sync

    with hackamore.sync.Session(hackamore.Options(cli_path=path, version_check="skip")) as session:
        for _ in rounds(turns):
            session.send(PROMPT).result()


async def official_turns(path: str, turns: int) -> None:
    import claude_agent_sdk as package

    async with package.ClaudeSDKClient(package.ClaudeAgentOptions(cli_path=path)) as client:
        for _ in rounds(turns):
            await client.query(PROMPT)
            async for _ in client.receive_response():
                pass


def rounds(turns: int) -> Iterator[int]:
    """Yield for each turn, and print what one took: seconds, and those of this program's processor."""
    yield from range(WARM_UP)
    began, used = time.perf_counter(), time.process_time()
    yield from range(turns)
    print((time.perf_counter() - began) / turns, (time.process_time() - used) / turns, flush=True)


def client(name: str, path: str, turns: int) -> None:
    """Run one session of a client."""
    if name == "hackamore-blocking":
        return blocking_turns(path, turns)
    talk = official_turns if name.startswith("official") else hackamore_turns
    if name.endswith("trio"):
        import trio

        return trio.run(talk, path, turns)
    import asyncio

    return asyncio.run(talk(path, turns))


def measure(turns: int, number: int) -> dict[str, list[tuple[float, float]]]:
    """Return for each client and round the seconds of a turn and those of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(round_trips.peer(Path(folder)))
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in TITLES}
        for _ in range(number):
            for name, figures in found.items():
                command = [sys.executable, __file__, "--client", name, path, "--turns", str(turns)]
                printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                seconds, used = printed.split()
                figures.append((float(seconds), float(used)))
    return found


def report(found: dict[str, list[tuple[float, float]]]) -> None:
    print(f"  {'':28} us/turn (median)   CPU us/turn (median)")
    for name, title in TITLES.items():
        seconds, used = ([1e6 * each[column] for each in found[name]] for column in (0, 1))
        middle, middle_used = statistics.median(seconds), statistics.median(used)
        print(f"  {title:28} {min(seconds):7.0f} ({middle:6.0f})  {min(used):11.0f} ({middle_used:6.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200, help="turns of a round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--client", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        name, path = given.client
        client(name, path, given.turns)
    else:
        report(measure(given.turns, given.rounds))


if __name__ == "__main__":
    main()
