"""Runs that are abandoned at random moments, in random ways: nothing is left, on the real CLI and on the stand-in.

Two hundred of them; on the real CLI, where each takes half a second of a processor, only with HACKAMORE_TEST_THOROUGH=1.
"""

from __future__ import annotations

import gc
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
from hackamore import Options, sync
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.support.query_fixtures import stand_in_path
from tests.support.seeds import seeded
from tests.support.sizes import size

if TYPE_CHECKING:
    from tests.real_cli.conftest import Driving

__all__ = ["stand_in_path"]

RUNS = 200
RUNS_OF_THE_REAL_CLI = size("runs of the real CLI")
AT_THE_SAME_TIME = 8
WAYS = ["close", "cancel", "break", "exception", "forget"]


class Enough(Exception):
    """Raised on purpose."""


async def abandon(options: Options, way: str, seconds: float) -> None:
    stream = hackamore.query("go", options)
    if way == "close":
        with anyio.move_on_after(seconds):
            async with stream:
                await stream.collect()
    elif way == "cancel":
        with anyio.move_on_after(seconds):
            async for _ in stream:
                pass
    else:
        with anyio.move_on_after(seconds):
            while await stream.next_item() is not None:
                pass
        if way == "exception":
            raise Enough
        async for _ in stream:
            break
        del stream


def abandon_blocking(options: Options, way: str, seconds: float) -> None:
    stream = sync.query("go", options)
    if way in {"close", "cancel"}:
        timer = threading.Timer(seconds, stream.close)
        timer.start()
        stream.collect()
        timer.join()
        stream.close()
    else:
        stream.next_item()
        threading.Event().wait(seconds / 4)
        if way == "exception":
            raise Enough
        del stream


def one_run(number: int, options: Options) -> str:
    choice = random.Random(seeded(number))
    backend = choice.choice(["asyncio", "trio", "threads"])
    way = choice.choice(WAYS)
    seconds = choice.uniform(0, 0.8)
    try:
        if backend == "threads":
            abandon_blocking(options, way, seconds)
        else:
            anyio.run(abandon, options, way, seconds, backend=backend)
    except (Enough, hackamore.StreamError, hackamore.StartError):
        pass
    return f"{backend} {way}"


def all_runs(options: Options, count: int) -> None:
    with ThreadPoolExecutor(AT_THE_SAME_TIME) as pool:
        done = list(pool.map(lambda number: one_run(number, options), range(count)))
    gc.collect()
    print(f"{len(done)} runs abandoned in {len(set(done))} ways")


# What was left is counted by the fixture `leaves_nothing`, which every test here has.


@pytest.mark.timeout(300)
def test_the_real_cli(driving: Driving) -> None:
    reply = Reply("Working.", ToolCall("Bash", {"command": "sleep 60 & sleep 60"}))
    model = ScriptedModel(Repeat(reply))
    with model:
        all_runs(driving(model, allowed_tools=["Bash"]), RUNS_OF_THE_REAL_CLI)


@pytest.mark.timeout(300)
def test_the_stand_in(stand_in_path: str, tmp_path: Any) -> None:
    steps = [
        ["frame", "init"],
        ["grandchild", 60, str(tmp_path / "pid"), True],
        *[["frames", "assistant", 9], ["sleep", 0.05]] * 99,
    ]
    all_runs(Options(cli_path=stand_in_path, env={"STAND_IN_STEPS": json.dumps(steps)}, version_check="skip"), RUNS)
