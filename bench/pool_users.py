"""How many processes a pool starts, and how long its users wait, when there are more users than processes, on the real CLI.

Each user checks its conversation out for one turn, several times, without a pause: the queue is never empty. The model is a script on this
machine. `python bench/pool_users.py --users 30 --turns 5 --max-live 4` prints one line for each round. `PYTHONPATH=<another clone>/src`
measures that clone, so that rounds of two clones can alternate on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from pooled import pinned_cli

import hackamore
from hackamore.pool import ProcessStarted
from hackamore.testing import ScriptedModel


class Round(NamedTuple):
    """The numbers of one round.

    Attributes:
        starts: processes that became ready, resumed ones included.
        resumes: processes that continued a conversation.
        waits: seconds from the request to the check-out, of all turns.
        latencies: seconds from the request to the result, of all turns.
        seconds: the length of the round.
    """

    starts: int
    resumes: int
    waits: list[float]
    latencies: list[float]
    seconds: float


async def _user(pool: hackamore.SessionPool, key: str, turns: int, pause: float, found: Round) -> None:
    for number in range(turns):
        if number:
            await asyncio.sleep(pause)
        begin = time.perf_counter()
        async with pool.conversation(key) as session:
            found.waits.append(time.perf_counter() - begin)
            turn = await session.send(f"{key}, prompt {number}")
            result = await turn.result()
            result.raise_for_error()
            found.latencies.append(time.perf_counter() - begin)


async def _round(options: hackamore.Options, users: int, turns: int, max_live: int, warm: int, pause: float) -> Round:
    found = Round(0, 0, [], [], 0.0)
    async with hackamore.SessionPool(options, warm=warm, max_live=max_live, timeout=None) as pool:
        events = pool.events()
        await pool.wait_warm()
        begin = time.perf_counter()
        await asyncio.gather(*(_user(pool, f"user-{number}", turns, pause, found) for number in range(users)))
        seconds = time.perf_counter() - begin
    started = [event.resumed async for event in events if isinstance(event, ProcessStarted)]
    return found._replace(starts=len(started), resumes=sum(started), seconds=seconds)


def measure(cli: Path, users: int, turns: int, max_live: int, warm: int, pause: float) -> Round:
    """Play one round on the real CLI, in folders of its own.

    Args:
        cli: the real CLI.
        users: the number of conversations.
        turns: turns of each.
        max_live: limit on processes.
        warm: processes that wait unused.
        pause: seconds between two turns of a user.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name,
        ScriptedModel(*["ok"] * users * turns) as model,
    ):
        folder = Path(name)
        work = folder / "work"
        work.mkdir()
        isolated = {key: value for key, value in model.isolated_env(folder).items() if value is not None}
        env = {"PATH": os.defpath, "LANG": "C.UTF-8", **isolated}
        options = hackamore.Options(cli_path=cli, cwd=work, env=env, inherit_env=False)
        return asyncio.run(_round(options, users, turns, max_live, warm, pause))


def _percentile(seconds: list[float], share: float) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[round(share * 100) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--max-live", type=int, default=4)
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two turns of a user")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    cli = pinned_cli()
    if cli is None:
        raise SystemExit("the pinned CLI is missing: ./dev setup")
    for _ in range(arguments.rounds):
        found = measure(cli, arguments.users, arguments.turns, arguments.max_live, arguments.warm, arguments.pause)
        print(
            f"{arguments.users} users x {arguments.turns} turns, max_live={arguments.max_live}: {found.starts} starts, "
            f"{found.resumes} of them resumed; result after {_percentile(found.latencies, 0.5):.2f} s (p50), "
            f"{_percentile(found.latencies, 0.95):.2f} s (p95); longest wait for a session {max(found.waits):.2f} s; "
            f"{found.seconds:.1f} s in all"
        )


if __name__ == "__main__":
    main()
