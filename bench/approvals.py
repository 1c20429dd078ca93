"""What a thousand conversations cost that wait for a person, and how soon the model works on after the answers, on the real CLI.

A few conversations are made by a pool of the real CLI; the others are copies of them, with sessions, transcripts and requests of their own,
as a pool would need about half an hour to make them. Then `--answers` of them are answered in one moment, and as many loops as the pool has
processes continue them. `python bench/approvals.py --waiting 1000 --asked 20 --answers 50 --max-live 4` prints the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sqlite3
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pooled import pinned_cli

import hackamore
from hackamore import Allow, Approvals
from hackamore.pool import SQLiteRegistry
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall

if TYPE_CHECKING:
    from hackamore.testing.model.requests import ModelRequest

_PROMPT = re.compile(r"Write (/\S+)")


class _Model:
    """Calls Write until it has run; notes when the model is asked after an answer."""

    def __init__(self) -> None:
        self.continued: dict[str, float] = {}

    def __call__(self, request: ModelRequest) -> Reply:
        found = next((match for prompt in request.prompts if (match := _PROMPT.match(prompt))), None)
        assert found is not None, request.describe()
        if any("A person has answered" in prompt for prompt in request.prompts):
            self.continued.setdefault(request.session_id or "", time.perf_counter())
        if any(not result.is_error for result in request.tool_results):
            return Reply("Done.")
        return Reply(ToolCall("Write", {"file_path": found[1], "content": "one"}))


def _resident(pid: str = "self") -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024  # type: ignore[index]


def _clis(cli: Path) -> int:
    """Return how many processes of the CLI run."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found += os.path.realpath(entry / "exe") == os.path.realpath(cli)
            except OSError:
                continue
    return found


def _copy(folder: Path, work: Path, made: int, wanted: int) -> None:
    """Copy conversations that wait: transcript, record of the registry, and request."""
    transcripts = {path.stem: path for path in folder.rglob("*.jsonl") if "projects" in path.parts}
    database = sqlite3.connect(folder / "approvals.db")
    columns = [row[1] for row in database.execute("PRAGMA table_info(requests)")]
    rows = [dict(zip(columns, row, strict=True)) for row in database.execute("SELECT * FROM requests")]
    registry = SQLiteRegistry(folder / "registry.db")
    for number in range(made, wanted):
        row = dict(rows[number % made])
        session, key, before = str(uuid.uuid4()), f"user-{number}", str(row["session_id"])
        text = (
            transcripts[before]
            .read_text()
            .replace(before, session)
            .replace(f"{work}/{row['conversation']}.txt", f"{work}/{key}.txt")
        )
        transcripts[before].with_stem(session).write_text(text)
        [known] = registry.conversations(str(row["conversation"]))
        taken = registry.acquire(key, "bench|copy")
        assert taken.taken
        registry.save(key, "bench|copy", known.record.__class__(session, known.record.cwd, True, None))
        registry.release(key, "bench|copy")
        given = {"file_path": f"{work}/{key}.txt", "content": "one"}
        row |= {"id": f"copy-{number}", "conversation": key, "session_id": session, "input": json.dumps(given)}
        row["fingerprint"] = _fingerprint(given, work)
        names = ", ".join(columns)
        database.execute(f"INSERT INTO requests ({names}) VALUES ({', '.join(':' + name for name in columns)})", row)
    database.commit()
    database.close()
    registry.close()


def _fingerprint(given: dict[str, Any], work: Path) -> str:
    from hackamore.approvals.fingerprints import fingerprint

    return fingerprint("Write", given, str(work))


async def _ask(pool: hackamore.SessionPool, work: Path, number: int, limit: asyncio.Semaphore) -> None:
    async with limit, pool.conversation(f"user-{number}") as session:
        result = await (await session.send(f"Write {work}/user-{number}.txt")).result()
        assert result.pending_approvals


async def _measure(
    options: hackamore.Options, model: _Model, folder: Path, work: Path, cli: Path, arguments: argparse.Namespace
) -> None:
    approvals = Approvals(folder / "approvals.db", hold=0)
    options = options.replace(approvals=approvals)
    before = _resident()
    others = _clis(cli)
    begin = time.perf_counter()
    pool = hackamore.SessionPool(
        options, warm=0, max_live=arguments.max_live, timeout=None, registry=folder / "registry.db"
    )
    async with pool:
        limit = asyncio.Semaphore(arguments.max_live)
        await asyncio.gather(*(_ask(pool, work, number, limit) for number in range(arguments.asked)))
        while pool.stats().live:
            await asyncio.sleep(0.02)
        made = time.perf_counter() - begin
        await asyncio.to_thread(_copy, folder, work, arguments.asked, arguments.waiting)
        waiting = approvals.pending()
        grown = (_resident() - before) / 1e6
        size = sum(path.stat().st_size for path in folder.glob("approvals.db*")) / 1e6
        print(
            f"{len(waiting)} conversations wait ({arguments.asked} asked in {made:.0f} s, the others are copies): {pool.stats().live} CLI "
            f"processes of the pool, {_clis(cli) - others} more CLI processes on the machine than before, this program has grown by "
            f"{grown:.1f} MB to {_resident() / 1e6:.0f} MB, the database has {size:.1f} MB"
        )
        step = max(1, len(waiting) // arguments.answers)
        chosen = waiting[::step][: arguments.answers]
        answered_at = {}
        for request in chosen:
            approvals.answer(request.id, Allow(), by="ada")
            answered_at[request.session_id] = time.perf_counter()
        ended: dict[str | None, float] = {}

        async def go_on() -> None:
            async for found in approvals.answered():
                async with pool.conversation(found.conversation) as session:
                    result = await (await session.send(found.prompt)).result()
                    assert result.text == "Done.", result
                ended[found.session_id] = time.perf_counter()

        loops = [asyncio.create_task(go_on()) for _ in range(arguments.max_live)]
        while len(ended) < len(chosen):
            for loop in loops:
                if loop.done():
                    loop.result()
            await asyncio.sleep(0.02)
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
    seconds = [model.continued[session or ""] - at for session, at in answered_at.items()]
    results = [ended[session] - at for session, at in answered_at.items()]
    print(
        f"{len(chosen)} answers in one moment, max_live={arguments.max_live}: next request to the model after "
        f"{_percentile(seconds, 50):.2f} s (median), {_percentile(seconds, 99):.2f} s (99 %), {min(seconds):.2f} s (first); result after "
        f"{_percentile(results, 50):.2f} s (median), {_percentile(results, 99):.2f} s (99 %)"
    )
    used = sum(request.state == "used" for request in approvals.history())
    files = len(list(work.glob("*.txt")))
    print(f"{used} answers used, {files} files written, {len(approvals.pending())} conversations still wait")


def _percentile(seconds: list[float], share: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[share - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--waiting", type=int, default=1_000)
    parser.add_argument("--asked", type=int, default=20, help="conversations that a pool makes; the others are copies")
    parser.add_argument("--answers", type=int, default=50)
    parser.add_argument("--max-live", type=int, default=4)
    arguments = parser.parse_args()
    cli = pinned_cli()
    if cli is None:
        raise SystemExit("the pinned CLI is missing: ./dev setup")
    script = _Model()
    with (
        tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name,
        ScriptedModel(Repeat(script)) as model,
    ):
        folder = Path(name)
        work = folder / "work"
        work.mkdir()
        isolated = {key: value for key, value in model.isolated_env(folder).items() if value is not None}
        env = {"PATH": os.defpath, "LANG": "C.UTF-8", **isolated}
        options = hackamore.Options(cli_path=cli, cwd=work, env=env, inherit_env=False)
        asyncio.run(_measure(options, script, folder, work, cli, arguments))


if __name__ == "__main__":
    main()
