"""Storms: programs with two objects each on one budget or store are killed all the time; nothing acknowledged is lost or twice."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from hackamore import Budget
from tests.storage import storming
from tests.storage.storming import DOLLARS, MAKE, key
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.servers import Moto, Redis, running
from tests.support.sizes import size

PROJECT = Path(__file__).resolve().parents[2]
KILLS = size("kills of programs")
PROCESSES = 8

pytestmark = pytest.mark.timeout(1800 + 10 * KILLS)


class Storm:
    """Programs that are killed and begin again.

    Args:
        kind: what they use.
        address: its place.
        seed: chooses whom to kill, and when.
        processes: their number.
    """

    def __init__(self, kind: str, address: list[Any], seed: int, processes: int) -> None:
        self._command = [sys.executable, "-m", storming.__name__, kind, json.dumps(address)]
        self._chance = random.Random(seeded(seed))
        self._programs = [self._begun(number) for number in range(processes)]
        self.kills = 0
        self.acknowledged: dict[int, list[int]] = {}

    def _begun(self, number: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, str(2 * number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=PROJECT, text=True
        )

    def rage(self, kills: int, look: Callable[[], object]) -> None:
        """Kill programs, each in the middle of its work, and begin them again; in the end all are killed.

        Args:
            kills: how many, at least.
            look: opens what they use, looks at it, and closes it, as one more program: between all kills.
        """
        try:
            while self.kills < kills:
                for _ in range(5):
                    look()
                number = self._chance.randrange(len(self._programs))
                self._end(number)
                self._programs[number] = self._begun(number)
        finally:
            for number in range(len(self._programs)):
                self._end(number)

    def _end(self, number: int) -> None:
        program = self._programs[number]
        assert program.stdout is not None
        assert program.stderr is not None
        ready, _, _ = select.select([program.stdout], [], [], patience(60))
        assert ready, "the program hangs"
        time.sleep(self._chance.random() * 0.05)  # the moment of the kill
        program.kill()
        with program:
            lines, errors = program.stdout.read(), program.stderr.read()
        assert program.returncode == -9, errors[-2000:]
        self.kills += 1
        for line in lines.split("\n")[:-1]:  # the kill may have cut the last one
            place, _, count = line.partition(" ")
            self.acknowledged.setdefault(int(place), []).append(int(count or 0))


def test_a_budget_in_a_storm(tmp_path: Path) -> None:
    path = str(tmp_path / "budget.db")
    storm = Storm("budget", [path], seed=1, processes=PROCESSES)
    seen = 0.0

    def look() -> None:
        nonlocal seen
        with Budget(usd=1e9, path=path) as budget:
            assert budget.spent.usd >= seen, "spending was lost"
            seen = budget.spent.usd

    storm.rage(KILLS, look)
    charges = sum(len(counts) for counts in storm.acknowledged.values())
    with Budget(usd=1e9, path=path) as budget:
        spent = round(budget.spent.usd / DOLLARS)
    print(f"budget: {charges} charges acknowledged, {spent} kept, {storm.kills} kills")
    assert charges <= spent <= charges + storm.kills


@pytest.mark.parametrize("kind", list(MAKE))
def test_a_store_in_a_storm(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    name = f"storm{secrets.token_hex(6)}"
    address: list[Any] = [str(tmp_path / "sessions.db")]
    if kind in ("redis", "postgres"):
        address = [request.getfixturevalue(f"{kind}_server").url, name]
    elif kind == "s3":
        options = {"endpoint_url": request.getfixturevalue("s3_server").url, "region_name": "us-east-1"}
        options |= {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        boto3.client("s3", **options).create_bucket(Bucket=name)
        address = [name, options]
    storm = Storm(kind, address, seed=2, processes=4)

    def look() -> None:
        store = MAKE[kind](*address)
        asyncio.run(store.load(key(0)))
        store.close()

    storm.rage(KILLS, look)
    store = MAKE[kind](*address)
    kept = {place: asyncio.run(store.load(key(place))) for place in storm.acknowledged}
    store.close()
    for place, entries in kept.items():
        last = storm.acknowledged[place][-1]
        assert storm.acknowledged[place] == sorted(set(storm.acknowledged[place]))
        assert [entry["n"] for entry in entries] == list(range(len(entries)))
        assert last <= len(entries) <= last + storm.kills  # each kill may come after an append, before it is printed
    total = sum(map(len, kept.values()))
    print(f"{kind}: {sum(map(len, storm.acknowledged.values()))} acknowledged, {total} kept, {storm.kills} kills")


@pytest.fixture(scope="session")
def redis_server() -> Any:
    yield from running(Redis)


@pytest.fixture(scope="session")
def s3_server() -> Any:
    yield from running(Moto)
