"""How soon a session of a pool answers, on the real CLI: a warm session, its second turn, and a cold `Session` in the same rounds.

The model is a script on this machine. `python bench/pooled.py` prints this part of `./dev bench` alone.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import hackamore
from hackamore.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

TITLES = {
    "cold": "cold `Session`: first message",
    "check-out": "warm session: check-out",
    "warm": "warm session: first message",
    "second": "second turn: first message",
    "cold outside": "cold, outside the first turn",
    "warm outside": "warm, outside the first turn",
}
"""What is measured. The last two leave out the time that the CLI itself reports from the prompt to the first token (`ttft_ms`)."""
CHECK_OUT_SECONDS = 0.005
SOONER = 20.0
"""How many times sooner than that of a cold session the first message of a warm one must come."""

Found = dict[str, list[float]]


async def first_message(session: hackamore.Session) -> tuple[float, float]:
    """Send a prompt; return the time of the first message of the model, and the seconds that the CLI took for its first token."""
    came = 0.0
    turn = await session.send("hello")
    async for message in turn:
        if message.type == "assistant" and not came:
            came = time.perf_counter()
    return came, ((await turn.result()).ttft_ms or 0.0) / 1e3


async def _measure(options: hackamore.Options, rounds: int, say: Callable[[str], None]) -> Found:
    found: Found = {name: [] for name in TITLES}
    async with hackamore.SessionPool(options, warm=1, max_live=3, timeout=None) as pool:
        for number in range(rounds + 1):
            say(f"pool: round {number} of {rounds}")
            took: dict[str, float] = {}
            begin = time.perf_counter()
            async with hackamore.Session(options) as session:
                came, inside = await first_message(session)
                took["cold"] = came - begin
                took["cold outside"] = took["cold"] - inside
            await pool.wait_warm()
            begin = time.perf_counter()
            async with pool.session() as session:
                took["check-out"] = time.perf_counter() - begin
                came, inside = await first_message(session)
                took["warm"] = came - begin
                took["warm outside"] = took["warm"] - inside
                await session.wait_idle()
                begin = time.perf_counter()
                took["second"] = (await first_message(session))[0] - begin
            if number:  # round 0 warms up
                for name, seconds in took.items():
                    found[name].append(seconds)
    return found


def measure(cli: Path, folder: Path, rounds: int, say: Callable[[str], None]) -> Found:
    """Return the seconds of all rounds, by name.

    Args:
        cli: the real CLI.
        folder: for its home, its configuration and its working directory.
        rounds: the number of rounds; each measures everything once.
        say: told what is going on.
    """
    work = folder / "work"
    work.mkdir()
    with ScriptedModel(*["hello"] * 3 * (rounds + 1)) as model:
        isolated = {name: value for name, value in model.isolated_env(folder).items() if value is not None}
        env = {"PATH": os.defpath, "LANG": "C.UTF-8", **isolated}
        options = hackamore.Options(cli_path=cli, cwd=work, env=env, inherit_env=False)
        return asyncio.run(_measure(options, rounds, say))


def show(row: Callable[..., None], title: Callable[..., None], found: Found) -> None:
    """Print a table; `row` and `title` are those of the run's table."""
    section = "session pool"
    title(
        f"Session pool, real CLI, scripted model, asyncio: {len(found['cold'])} rounds",
        f"  {'':33}median   best  worst, ms",
    )
    cold = statistics.median(found["cold"])
    for name, called in TITLES.items():
        seconds = found[name]
        middle = statistics.median(seconds)
        shown = f"{middle * 1e3:8.1f} {min(seconds) * 1e3:6.1f} {max(seconds) * 1e3:6.1f}"
        if name == "check-out":
            target, passed = f"< {CHECK_OUT_SECONDS * 1e3:.0f} ms", middle < CHECK_OUT_SECONDS
            row(section, called, shown, target=target, passed=passed)
        elif name in {"warm", "warm outside"}:
            sooner = (cold if name == "warm" else statistics.median(found["cold outside"])) / middle
            row(section, called, shown, ratio=f"x{sooner:.1f}", target=f">= x{SOONER:.0f}", passed=sooner >= SOONER)
        else:
            row(section, called, shown, ratio="" if name.startswith("cold") else f"x{cold / middle:.1f}")


def pinned_cli() -> Path | None:
    """Return the CLI that `./dev setup` installed; None without one."""
    import tomllib

    project = Path(__file__).resolve().parent.parent
    version = tomllib.loads((project / "pinned_cli.toml").read_text())["version"]
    path = Path(os.environ.get("HACKAMORE_TEST_CLI") or project / ".dev" / "claude" / version / "claude")
    return path if path.exists() else None


def main() -> None:
    import argparse
    import tempfile

    import run

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--page", metavar="FILE", help="put the table into FILE (docs/contributing/bench.md), between its marks"
    )
    arguments = parser.parse_args()
    cli = pinned_cli()
    if cli is None:
        raise SystemExit("the pinned CLI is missing: ./dev setup")
    table = run.Table()
    table.print(*(f"{name}: {value}" for name, value in run.about().items()))
    with tempfile.TemporaryDirectory(prefix="hackamore-bench-") as name:
        found = measure(cli, Path(name), arguments.rounds, run.say)
    run.say("")
    show(table.row, table.title, found)
    if arguments.page:
        run.write_page(Path(arguments.page), table.text, "python bench/pooled.py", "pool")


if __name__ == "__main__":
    main()
