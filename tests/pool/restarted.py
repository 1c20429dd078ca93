"""Programs with a pool on one registry file, that are killed at random moments and started again.

Run it for more than the tests do: `python -m tests.pool.restarted --conversations 1000 --prompts 5 --programs 2 --kills 20 --seed 1`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import hackamore
from hackamore import Options
from hackamore.pool import SQLiteRegistry
from tests.support.leaks import alive

CLI_DEATHS = 0.02
"""The share of check-outs whose CLI is killed."""


class Plan(NamedTuple):
    """What one run does."""

    conversations: int
    prompts: int
    programs: int = 1
    kills: int = 2
    max_live: int = 4
    seed: int = 1


class Outcome(NamedTuple):
    """What one run did.

    Attributes:
        repeated: prompts that were asked again after a kill, and had been kept before.
    """

    answers: int
    starts: int
    repeated: int
    program_kills: int


def entries(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(plan: Plan, options: Options, folder: Path, *, limit: float) -> Outcome:
    """Run the programs until each has had all its answers, and check the transcripts.

    Args:
        plan: what to do.
        options: options of the stand-in, whose transcripts are in `folder`.
        folder: an empty folder.
        limit: seconds.
    """
    dice = random.Random(plan.seed)
    until = time.monotonic() + limit
    journals = [folder / f"journal-{number}" for number in range(plan.programs)]
    total = plan.conversations * plan.prompts
    moments = [sorted(dice.randrange(total) for _ in range(plan.kills)) for _ in journals]
    running: list[subprocess.Popen[bytes] | None] = [None] * plan.programs
    killed = 0

    def start(number: int) -> subprocess.Popen[bytes]:
        what = {"plan": plan._asdict(), "number": number, "folder": str(folder), "life": len(moments[number])}
        what |= {"cli": str(options.cli_path), "env": dict(options.env)}
        return subprocess.Popen([sys.executable, "-m", "tests.pool.restarted", "--program", json.dumps(what)])

    try:
        running = [start(number) for number in range(plan.programs)]
        while any(running):
            assert time.monotonic() < until, f"{[len(entries(path)) for path in journals]} of {total} answers"
            for number, program in enumerate(running):
                if program is None:
                    continue
                if program.poll() is not None:
                    assert program.returncode == 0
                    running[number] = None
                elif moments[number] and len(entries(journals[number])) >= moments[number][0]:
                    time.sleep(dice.uniform(0, 0.1))  # any moment of an answer
                    program.kill()
                    program.wait()
                    killed += 1
                    moments[number].pop(0)
                    running[number] = start(number)
            time.sleep(0.02)
    finally:
        for program in running:
            if program is not None:
                program.kill()
                program.wait()
    return check(plan, folder, journals, killed, until)


def talks_in(folder: Path, pid: int) -> bool:
    """True if `pid` is a stand-in of this run: thousands of starts use the numbers of other processes again."""
    try:
        return alive(pid) and f"TALKER_HOME={folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def check(plan: Plan, folder: Path, journals: list[Path], killed: int, until: float) -> Outcome:
    """Compare what the programs were told with the transcripts."""
    log = [line.split() for line in (folder / "log").read_text().splitlines()]
    assert "overlap" not in {words[0] for words in log}
    started = {int(words[1]) for words in log if words[0] == "start"}
    while left := [pid for pid in started if talks_in(folder, pid)]:
        assert time.monotonic() < until, f"processes are left: {left}"
        time.sleep(0.02)
    answers = [entry for path in journals for entry in entries(path)]
    sessions = {entry["key"]: entry["session"] for entry in answers}
    assert len(sessions) == len(set(sessions.values())) == plan.conversations
    transcripts = {path.stem: entries(path) for path in folder.glob("*.jsonl")}
    assert set(transcripts) == set(sessions.values()), "a conversation was started more than once, or got lost"
    for entry in answers:
        assert entry["session"] == sessions[entry["key"]]
        assert transcripts[entry["session"]][: len(entry["prompts"])] == entry["prompts"]
    repeated = 0
    for key, session in sessions.items():
        kept = transcripts[session]
        assert len(set(kept)) == len(kept), "a prompt was sent once and is there twice"
        assert {prompt.split(":")[0] for prompt in kept} == {key}
        for number in range(plan.programs):
            mine = [int(prompt.split(":")[2]) for prompt in kept if prompt.split(":")[1] == str(number)]
            assert mine == sorted(mine)
            assert set(mine) == set(range(plan.prompts))
            repeated += len(mine) - plan.prompts
    return Outcome(len(answers), sum(words[0] == "start" for words in log), repeated, killed)


async def program(plan: Plan, number: int, life: int, folder: Path, options: Options) -> None:
    """Ask for all answers that the journal of this program does not have yet."""
    dice = random.Random(f"{plan.seed} {number} {life}")
    journal = os.open(folder / f"journal-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    done = Counter(entry["key"] for entry in entries(folder / f"journal-{number}"))
    todo = [f"user{key}" for key in range(plan.conversations) for _ in range(plan.prompts - done[f"user{key}"])]
    dice.shuffle(todo)
    registry = SQLiteRegistry(folder / "registry.db")
    second = SQLiteRegistry(folder / "registry.db")  # opened and closed all the time, beside the first one

    async def work() -> None:
        while todo:
            key = todo.pop()
            answer = None
            while answer is None:
                try:
                    async with pool.conversation(key) as session:
                        if dice.random() < CLI_DEATHS and session.pid is not None:
                            os.kill(session.pid, signal.SIGKILL)
                        prompt = f"{key}:{number}:{done[key]}:{secrets.token_hex(4)}"  # asked again, it is another one
                        answer = json.loads((await (await session.send(prompt)).result()).text)
                        assert answer["prompts"][-1] == prompt
                        done[key] += 1
                        entry = {"key": key, "session": answer["session"], "prompts": answer["prompts"]}
                        os.write(journal, json.dumps(entry).encode() + b"\n")
                        assert [row.record.session_id for row in second.conversations(key)] == [answer["session"]]
                        second.close()
                except hackamore.SessionClosedError:
                    continue  # the CLI was killed: ask again
                assert pool.stats().live <= plan.max_live

    async with (
        hackamore.SessionPool(options, warm=1, max_live=plan.max_live, registry=registry, timeout=None) as pool,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(plan.max_live * 2):
            group.create_task(work())
    registry.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program")
    parser.add_argument("--minutes", type=float, default=8.0)
    for name, default in Plan._field_defaults.items() | {("conversations", 100), ("prompts", 5)}:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    arguments = vars(parser.parse_args())
    if arguments["program"]:
        what = json.loads(arguments["program"])
        folder = Path(what["folder"])
        options = Options(cli_path=what["cli"], cwd=folder, env=what["env"], version_check="skip")
        asyncio.run(program(Plan(**what["plan"]), what["number"], what["life"], folder, options))
        return
    from tests.pool.conftest import stand_in

    plan = Plan(**{name: arguments[name] for name in Plan._fields})
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        outcome = run(plan, stand_in(Path(name)), Path(name), limit=arguments["minutes"] * 60)
        sys.stdout.write(f"{plan}\n{outcome}\n{time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
