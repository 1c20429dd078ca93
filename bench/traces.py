"""What a trace costs: the speed of its redaction, and how long it keeps the event loop waiting.

    python bench/traces.py [--megabytes 4] [--results 10]

Prints MB/s for each kind of text, the time of a small message with more and more secret variables, and the longest block of the event
loop in a session with long tool results, with a trace and without.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import anyio

import hackamore
from hackamore._engine.launch.plan import LaunchPlan
from hackamore.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = """the quick session of an agent reads files and writes lines while tests run in folders with many names"""
TELLING = "key pass auth author task-1 token"


def texts(size: int) -> dict[str, str]:
    """Return a text of each kind; one word in eight tells of secrets where a `+` stands."""
    random.seed(1)
    sources = "".join(
        path.read_text(encoding="utf-8") for path in sorted(Path(hackamore.__file__).parent.rglob("*.py"))
    )
    found = {"source code": (sources * (size // len(sources) + 1))[:size]}
    for sign, words in (("", PLAIN.split()), ("+", PLAIN.split() * 5 + TELLING.split() * 2)):

        def word(among: tuple[str, ...] = tuple(words)) -> str:
            return random.choice(among)

        kinds: dict[str, Callable[[], str]] = {
            "prose": lambda: " ".join(word() for _ in range(12)).capitalize() + random.choice((". ", ".\n")),
            "log": lambda: (
                f"2026-11-23T12:{random.randrange(60):02}:07Z INFO [worker-{random.randrange(9)}] {word()} {word()} "
                f"took {random.randrange(999)} ms, id={random.randrange(10**9)} path=/srv/{word()}/{word()}.py\n"
            ),
            "JSON": lambda: (
                json.dumps({"id": random.randrange(10**9), "name": word(), "tags": [word()], "ok": True}) + "\n"
            ),
        }
        for name, make in kinds.items():
            one = "".join(make() for _ in range(4_000))
            found[name + sign] = (one * (size // len(one) + 1))[:size]
    return found


def redactor(variables: int) -> Redactor:
    """Return a redactor that knows so many secrets."""
    made = Redactor(Vault())
    secrets = {f"SHOP_{number}_KEY": f"s3cr3T-{number}-{number * 7919:x}Q" for number in range(variables)}
    made.prepare(LaunchPlan(argv=("claude",), environment={"HOME": "/home/ann", **secrets}, cwd="/home/ann/project"))
    return made


def seconds(call: Any, times: int) -> float:
    """Return the shortest processor time of several calls."""
    best = float("inf")
    for _ in range(times):
        began = time.thread_time()
        call()
        best = min(best, time.thread_time() - began)
    return best


def result(text: str) -> bytes:
    """Return the line of a tool result."""
    content = [{"type": "tool_result", "tool_use_id": "t", "content": text}]
    frame = {"type": "user", "message": {"role": "user", "content": content}, "session_id": "s", "uuid": "u"}
    return json.dumps(frame).encode() + b"\n"


class Source:
    """A transport that gives lines, in reads of a pipe."""

    pid = None
    stderr_tail = b""

    def __init__(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        self.reads = [data[at : at + (1 << 16)] for at in range(0, len(data), 1 << 16)][::-1]

    async def start(self, plan: Any) -> None:
        pass

    async def send(self, data: bytes) -> None:
        pass

    async def end_input(self) -> None:
        pass

    async def receive(self) -> bytes:
        await anyio.sleep(0)
        return self.reads.pop() if self.reads else b""

    async def wait_exit(self) -> int | None:
        return 0

    async def stop(self, *, turn_open: bool) -> None:
        pass

    def abandon(self) -> None:
        pass


def longest_block(backend: str, lines: list[bytes], trace: str | None) -> tuple[float, float]:
    """Return the longest time between two turns of the event loop in a session, and the time of all."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await anyio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    async def talk() -> None:
        options = hackamore.Options(trace=trace, env={"SHOP_KEY": "hunter2-hunter2"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            async for _ in hackamore.query("go on", options, transport=Source(lines)):
                pass
            tasks.cancel_scope.cancel()

    began = time.perf_counter()
    anyio.run(talk, backend=backend)
    return longest, time.perf_counter() - began


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--results", type=int, default=10)
    given = parser.parse_args()
    kinds = texts(int(given.megabytes * (1 << 20)))
    made = redactor(2)
    for name, text in kinds.items():
        line = result(text)[:-1]
        took = seconds(lambda line=line: made.line(line, inbound=True), 3)
        print(f"{len(line) / took / 1e6:10.1f} MB/s      {name}")
    small = result("The author sets a token and reads on. " * 15)[:-1]
    for count in (0, 100, 1_000):
        made = redactor(count)
        took = seconds(lambda made=made: [made.line(small, inbound=True) for _ in range(100)], 3) / 100
        print(f"{took * 1e6:10.1f} us        a message of {len(small)} bytes, {count} secret variables")
    end = json.dumps(
        {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s", "uuid": "r"}
        | {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "total_cost_usd": 0.0, "usage": {}}
    ).encode()
    lines = [*[result(kinds["prose+"])] * given.results, end + b"\n"]
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("asyncio", "trio"):
            for trace in (None, f"{folder}/{backend}.jsonl"):
                block, took = longest_block(backend, lines, trace)
                print(
                    f"{block * 1e3:10.1f} ms        longest block of {backend}, {given.results} results of {given.megabytes} MB, "
                    f"{'with a' if trace else 'without'} trace, {took:.1f} s"
                )


if __name__ == "__main__":
    main()
