"""A program with two objects on the same data, which prints each number that is acknowledged: `storming.py KIND ADDRESS FIRST STEP`."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

from hackamore import Budget
from hackamore.transcripts.stores import PostgresStore, RedisStore, S3Store, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DOLLARS", "MAKE", "key"]

DOLLARS = 0.01
MAKE: dict[str, Any] = {
    "sqlite": lambda path: SQLiteStore(path),
    "redis": lambda url, prefix: RedisStore(url, prefix=prefix),
    "postgres": lambda url, prefix: PostgresStore(url, prefix=f"{prefix}_"),
    "s3": lambda name, options: S3Store(name, **options),
}


def key(place: int) -> Any:
    """Return the key of a transcript."""
    return {"project_key": "-work", "session_id": f"{place:08}-2222-4333-8444-555555555555"}


def spend(path: str) -> Iterator[int]:
    """Charge two budgets in turn, while a third one is opened and closed."""
    budgets = [Budget(usd=1e9, path=path) for _ in range(2)]
    seen = 0.0
    for number in count(1):
        budgets[number % 2].charge(DOLLARS)
        yield number
        if number % 3 == 0:
            with Budget(usd=1e9, path=path) as other:
                spent = other.spent.usd
            assert spent >= max(seen, number * DOLLARS - 1e-9), "spending was lost"
            seen = spent


async def append(kind: str, address: list[Any], first: int) -> None:
    """Append to two transcripts, each with an object of its own, while a third one reads them."""
    stores = [MAKE[kind](*address) for _ in range(2)]
    places = [first, first + 1]
    done = [len(await store.load(key(place)) or []) for store, place in zip(stores, places, strict=True)]
    while True:
        for at, (store, place) in enumerate(zip(stores, places, strict=True)):
            await store.append(key(place), [{"type": "user", "uuid": f"{place}-{done[at]}", "n": done[at]}])
            done[at] += 1
            print(place, done[at], flush=True)
        other = MAKE[kind](*address)
        found = [entry["n"] for entry in await other.load(key(places[0]))]
        assert found == list(range(done[0])), "an append was lost"
        other.close()


if __name__ == "__main__":
    name, address, first = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    if name == "budget":
        for number in spend(*address):
            print(first, number, flush=True)
    else:
        asyncio.run(append(name, address, first))
