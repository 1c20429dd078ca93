"""What another machine costs: a hook there and back, and the start, over `Command` and ssh, beside this machine and the official package.

    python bench/machines.py [--rounds 5] [--hooks 1000]

The CLI is the stand-in of `round_trips.py`. Over ssh it is reached by a real sshd on loopback: what is measured is the programs on the
way, not the network. Rounds of all ways are interleaved.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import round_trips
import run
import steered

from hackamore.transports.remote import SSH, Command

if TYPE_CHECKING:
    from collections.abc import Callable


class There(steered.Hackamore):
    """`hackamore.Session` on asyncio with a transport."""

    def __init__(self, transport: Any) -> None:
        super().__init__()
        session = self.hackamore.Session
        self.make = partial(session, transport=transport)

    async def talk(self, path: str, counts: dict[str, int]) -> steered.Found:
        import json

        found: steered.Found = {}
        began = time.perf_counter()
        async with self.make(self.options(path)) as session:
            found["start"] = [time.perf_counter() - began]
            for kind, prompt in steered.prompts(counts):
                turn = await session.send(prompt)
                found[kind] = json.loads((await turn.result()).result)
        return found


def main() -> None:
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from tests.support.machines import Sshd

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hooks", type=int, default=1_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name, Sshd() as far:
        Path(name).chmod(0o755)
        path = str(round_trips.peer(Path(name)))
        # Over there an ordinary user runs it, who may not see the Python of this program.
        path_there = Path(name, "peer-there")
        path_there.write_text(f'#!/bin/sh\nexec python3 "{Path(round_trips.__file__).with_name("peer.py")}" "$@"\n')
        path_there.chmod(0o755)
        ssh = There(SSH(far.host, arguments=far.ssh_arguments))
        ways: dict[str, Callable[[str, dict[str, int]], steered.Found]] = {
            "Hackamore, this machine": There(None).run,
            "Hackamore, Command": There(Command([])).run,
            "Hackamore, ssh": lambda _, counts: ssh.run(str(path_there), counts),
        }
        package = Path(__file__).resolve().parent.parent / ".dev" / "official"  # `./dev test` puts it there
        official = round_trips.Steered("official", {**run.isolated(Path(name)), "PYTHONPATH": str(package)})
        ways["official package, this machine"] = lambda path, counts: official.session(Path(path), counts)
        found: dict[str, list[steered.Found]] = {way: [] for way in ways}
        counts = {"hook": arguments.hooks + round_trips.WARM_UP}
        order = list(ways)
        for number in range(arguments.rounds):
            for way in order[number % len(order) :] + order[: number % len(order)]:
                run.say(f"round {number + 1} of {arguments.rounds}: {way}")
                found[way].append(ways[way](path, counts))
        official.close()
        run.say("")
    local = 0.0
    for way, rounds in found.items():
        hooks = [statistics.median(each["hook"][round_trips.WARM_UP :]) for each in rounds]
        middle = statistics.median(hooks) * 1e6
        local = local or middle
        starts = [each["start"][0] for each in rounds if "start" in each]
        start = f"   ready after {statistics.median(starts) * 1e3:4.0f} ms" if starts else ""
        print(f"{way:32} hook {middle:5.0f} us (median of {arguments.hooks}), {middle - local:+5.0f}{start}")


if __name__ == "__main__":
    main()
