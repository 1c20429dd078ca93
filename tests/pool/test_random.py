"""CLIs that are killed at random: no conversation loses or repeats a prompt, or sees one of another."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import anyio
import pytest

import hackamore
from hackamore import Options
from tests.contract import shows
from tests.pool.restarted import Plan, run, talks_in
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.sizes import size


@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_random_kills(backend: str, options: Options, tmp_path: Path) -> None:
    dice = random.Random(seeded(7))
    path = tmp_path / "registry.db"

    async def scenario() -> None:
        async with hackamore.SessionPool(options, warm=1, max_live=4, registry=path, timeout=None) as pool:

            async def converse(key: int) -> None:
                sent: list[str] = []
                answered: list[str] = []
                while len(answered) < 3:
                    sent.append(f"{key}-{len(sent)}")
                    try:
                        async with pool.conversation(f"user-{key}") as session:
                            assert session.pid is not None
                            if dice.random() < 0.2:
                                os.kill(session.pid, signal.SIGKILL)
                            result = await (await session.send(sent[-1])).result()
                    except hackamore.SessionClosedError:
                        continue  # it may have been kept before the kill
                    answered.append(sent[-1])
                    kept = json.loads(result.text)["prompts"]
                    assert kept == [prompt for prompt in sent if prompt in kept], "repeated, or in another order"
                    assert set(answered) <= set(kept), "lost"
                    assert pool.stats().live <= 4

            async with anyio.create_task_group() as group:
                for key in range(20):
                    group.start_soon(converse, key)
            assert pool.stats().deaths

    anyio.run(scenario, backend=backend)


def test_a_process_that_got_the_pid_of_a_stand_in_is_not_taken_for_it(tmp_path: Path) -> None:
    """A run of 1,000 conversations starts 11,000 stand-ins, so that numbers of processes come again."""
    pipe, variables = subprocess.PIPE, {**os.environ, "TALKER_HOME": str(tmp_path)}
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, bufsize=0, env=variables) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"  # its variables cannot be read while it is being started
        assert talks_in(tmp_path, process.pid)
        assert not talks_in(tmp_path / "other", process.pid)
        process.kill()
    assert not talks_in(tmp_path, process.pid)
    assert not talks_in(tmp_path, os.getpid())


@shows("pool.registry.killed")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("programs", [1, 2])
def test_programs_that_are_killed(options: Options, tmp_path: Path, programs: int) -> None:
    kills = size("kills of pools")
    plan = Plan(conversations=6 * kills, prompts=3, programs=programs, kills=kills, seed=seeded(3))
    outcome = run(plan, options, tmp_path, limit=patience(30 * kills))
    assert outcome.program_kills == kills * programs
    assert outcome.answers == 18 * kills * programs
