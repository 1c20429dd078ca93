"""Use the library in every way at random, in one process, for a long time; measure after each round, when nothing runs.

A round runs a few activities on each shell (asyncio, trio, threads) at the same time. One blocking session lives through all rounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import hackamore
import hackamore.sync
from hackamore import HackamoreError, Options, Timeouts
from hackamore.messages import AssistantMessage
from hackamore.testing import Repeat, Reply, Script, ScriptedModel, SimulatedCLI, ToolCall
from tests.endurance import growth, targets
from tests.endurance.silence import silence
from tests.support.light import light
from tests.support.shell import Shell
from tests.support.talking import each, got, make, steps

BACKENDS = ("asyncio", "trio", "threads")
TIMEOUTS = Timeouts(initialize=60, turn=60, control=60, stop_grace=1, kill_grace=1)
HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "price", "arguments": {"article": "tea"}}}

Activity = Callable[["Soak", Shell, Random], Coroutine[Any, Any, None]]


async def _turns(session: Any, *prompts: str) -> None:
    for prompt in prompts:
        async for message in each(await got(session.send(prompt))):
            str(message)


@contextlib.asynccontextmanager
async def _session(shell: Shell, options: Options, transport: Any = None) -> Any:
    kind: Any = hackamore.sync.Session if shell.blocking else hackamore.Session
    session = make(shell, options) if transport is None else kind(options, transport=transport)
    await got(session.start())
    try:
        yield session
    finally:
        await got(session.stop())


async def simulated(soak: Soak, shell: Shell, random: Random) -> None:
    """Two turns with callbacks of each kind, in memory; one in three is traced to a file."""
    more: dict[str, Any] = {}
    if random.random() < 0.3:
        more["trace"] = soak.folder / f"trace-{shell.backend}.jsonl"
    options = Options(**targets.options_with_callbacks(timeouts=TIMEOUTS, **more))
    async with _session(shell, options, SimulatedCLI(targets.conversation(), time_scale=0.0)) as session:
        await _turns(session, "go", "go")


async def simulated_query(soak: Soak, shell: Shell, random: Random) -> None:
    """A query, in memory."""
    await shell.run("go", transport=SimulatedCLI(Script().user().says("x" * random.randrange(20_000)), time_scale=0.0))


async def simulated_interrupt(soak: Soak, shell: Shell, random: Random) -> None:
    """A turn that is interrupted, and one after it, in memory."""
    script = Script().user().interrupted(after="I begin.")
    script.user().says("Again.")
    async with _session(shell, Options(timeouts=TIMEOUTS), SimulatedCLI(script, time_scale=0.0)) as session:
        turn = await got(session.send("go"))
        await got(session.interrupt())
        with contextlib.suppress(HackamoreError):
            await got(turn.result())
        await _turns(session, "go")


async def damaged(soak: Soak, shell: Shell, random: Random) -> None:
    """A conversation with damaged frames, in memory."""
    import anyio.to_thread

    if shell.blocking:
        targets.whole_session(shell.backend, random)
    else:
        await anyio.to_thread.run_sync(targets.whole_session, shell.backend, random)


async def process(soak: Soak, shell: Shell, random: Random) -> None:
    """A light CLI process: text, a flood, callbacks; it ends by a stop, its own exit, or a kill."""
    options = soak.light(**targets.options_with_callbacks(timeouts=TIMEOUTS))
    call = ["ask", "mcp_message", {"server_name": "shop", "message": CALL}]
    asked = [["ask", "hook_callback", HOOK], ["ask", "can_use_tool", {"tool_name": "Bash", "input": {}}], call]
    with contextlib.suppress(HackamoreError):
        async with _session(shell, options) as session:
            await _turns(
                session, "hello", steps(["flood", 1_000, 200], *asked), steps(["err", "noise\n" * 50], ["text", "a"])
            )
            match random.randrange(4):
                case 0:
                    await _turns(session, steps(["text", "a"], ["die"]))
                case 1:
                    os.kill(session.pid, signal.SIGKILL)
                    await _turns(session, "hello")
                case 2:
                    turn = await got(session.send(steps(["text", "a"], ["hang"])))
                    await got(session.interrupt())
                    await got(turn.result())
                case _:
                    await got(session.finish())


async def pool(soak: Soak, shell: Shell, random: Random) -> None:
    """A pool of light CLIs: more conversations than processes, so that they hibernate and are resumed; one is killed."""
    kind: Any = hackamore.sync.SessionPool if shell.blocking else hackamore.SessionPool
    made = kind(soak.light(timeouts=TIMEOUTS), warm=1, max_live=2, idle=0.2)
    await got(made.__enter__() if shell.blocking else made.__aenter__())
    try:
        for number in range(6):
            with contextlib.suppress(HackamoreError):
                held = made.conversation(f"user-{number % 4}")
                session = await got(held.__enter__() if shell.blocking else held.__aenter__())
                try:
                    await _turns(session, "hello")
                    if random.random() < 0.2:
                        os.kill(session.pid, signal.SIGKILL)
                finally:
                    await got(held.__exit__(None, None, None) if shell.blocking else held.__aexit__(None, None, None))
    finally:
        await got(made.__exit__(None, None, None) if shell.blocking else made.__aexit__(None, None, None))


async def real(soak: Soak, shell: Shell, random: Random) -> None:
    """The real CLI: a turn with a Bash call and a hook, then a turn, an interrupt, or a kill in the middle of a call."""
    end = random.choice(("turn", "interrupt", "kill"))
    replies: list[Any] = [Reply("Working.", ToolCall("Bash", {"command": "echo hello"})), "Done."]
    replies += (
        ["Again."] if end == "turn" else [Reply(ToolCall("Bash", {"command": "true; sleep 60"})), Repeat("Over.")]
    )
    with tempfile.TemporaryDirectory(dir=soak.folder, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        model = ScriptedModel(*replies)
        model.start()
        try:
            isolated = {key: value for key, value in model.isolated_env(folder).items() if value is not None}
            environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "IS_SANDBOX": "1", **isolated}
            callbacks = targets.options_with_callbacks(timeouts=TIMEOUTS, allowed_tools=["Bash"])
            options = Options(cli_path=soak.cli, cwd=name, env=environment, inherit_env=False, **callbacks)
            async with _session(shell, options) as session:
                await _turns(session, "go")
                turn = await got(session.send("go"))
                with contextlib.suppress(HackamoreError):
                    async for message in each(turn):
                        if not isinstance(message, AssistantMessage):
                            continue
                        if end == "interrupt":
                            await got(session.interrupt())
                        elif end == "kill":
                            os.kill(session.pid, signal.SIGKILL)
        finally:
            model.close()


ACTIVITIES: dict[Activity, int] = {
    simulated: 20, simulated_query: 20, simulated_interrupt: 8, damaged: 8, process: 20, pool: 6, real: 5,
}  # fmt: skip


class Soak:
    """A soak.

    Args:
        seed: repeats the choice of activities.
        cli: the path of the real CLI; None leaves it out.
        each_round: activities on each shell in a round.
        told: gets a line after each round.
        trace: whether to trace the allocations of Python, which costs half of the speed.

    Attributes:
        samples: the samples so far.
        counts: how often each activity ran.
        slowest: the longest time of each activity, in seconds.
        problems: exceptions of activities.
        grown: the places whose memory grew most since the warm-up, if anything grew.
    """

    def __init__(
        self, seed: str, cli: str | None, *, each_round: int = 6, told: Callable[[str], None], trace: bool = True
    ) -> None:
        self._seed, self.cli, self._each_round, self._told, self._trace = seed, cli, each_round, told, trace
        self.samples: list[growth.Sample] = []
        self.counts: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        self.problems: list[str] = []
        self.grown: list[str] = []
        self.warm = 0
        self._turns_of_long_session = 0
        self._activities = [one for one in ACTIVITIES if cli is not None or one is not real]
        self._weights = [ACTIVITIES[one] for one in self._activities]

    def run(self, seconds: float, warm_share: float = 0.3) -> list[growth.Verdict]:
        """Run for so many seconds, of which a share is warm-up; return the verdicts."""
        if self._trace:
            tracemalloc.start()
        began = time.monotonic()
        before: Path | None = None
        with (
            silence(),
            tempfile.TemporaryDirectory(prefix="hackamore-soak-", ignore_cleanup_errors=True) as folder,
            ThreadPoolExecutor(len(BACKENDS), thread_name_prefix="soak") as threads,
        ):
            self.folder = Path(folder)
            self.light = light(self.folder)
            with hackamore.sync.Session(self.light(**targets.options_with_callbacks())) as long_session:
                number = 0
                while (passed := time.monotonic() - began) < seconds or len(self.samples) - self.warm < 4:
                    list(threads.map(lambda backend, number=number: self._round(backend, number), BACKENDS))
                    for prompt in ("hello", steps(["ask", "hook_callback", HOOK]), steps(["flood", 100, 100])):
                        for message in long_session.send(prompt):
                            str(message)
                        self._turns_of_long_session += 1
                    join_library_threads_but(long_session)
                    if self._trace and before is None and passed >= seconds * warm_share * 0.7:
                        # During the warm-up, and not kept: a snapshot is as large as what it shows.
                        before = self.folder / "snapshot"
                        tracemalloc.take_snapshot().dump(str(before))
                    one = growth.sample(time.monotonic() - began)
                    self.samples.append(one)
                    if passed < seconds * warm_share:
                        self.warm = len(self.samples)
                    number += 1
                    shown = " ".join(f"{name}={growth.shown(name, getattr(one, name))}" for name in one._fields[1:])
                    self._told(f"round {number}, {one.seconds:.0f} s: {shown.replace(' MB', 'MB')}")
            found = growth.verdicts(self.samples, self.warm)
            if before is not None and any(verdict.grows for verdict in found):
                differences = tracemalloc.take_snapshot().compare_to(tracemalloc.Snapshot.load(str(before)), "lineno")
                self.grown = [str(difference) for difference in differences[:15]]
        tracemalloc.stop()
        return found

    @property
    def turns_of_long_session(self) -> int:
        """How many turns the session had that lived through all rounds."""
        return self._turns_of_long_session

    def _round(self, backend: Any, number: int) -> None:
        random = Random(f"{self._seed}/{number}/{backend}")
        shell = Shell(backend)
        chosen = random.choices(self._activities, self._weights, k=self._each_round)

        async def scenario() -> None:
            for activity in chosen:
                began = time.monotonic()
                try:
                    await activity(self, shell, random)
                except Exception:
                    self.problems.append(f"round {number}, {activity.__name__} on {backend}:\n{traceback.format_exc()}")
                self.counts[activity.__name__] += 1
                took = time.monotonic() - began
                self.slowest[activity.__name__] = max(took, self.slowest.get(activity.__name__, 0.0))

        shell.play(scenario)


def join_library_threads_but(session: Any) -> None:
    """Wait for the library's threads that end when they idle; those of a session that lives stay."""
    until = time.monotonic() + 5
    while threading.active_count() > threading_floor(session) and time.monotonic() < until:
        threading.Event().wait(0.02)


def threading_floor(session: Any) -> int:
    """Return how many threads stay: the main thread, one for each shell, and those of the long session."""
    return sum(not thread.name.startswith("hackamore-") for thread in threading.enumerate()) + 2


def report(soak: Soak, found: list[growth.Verdict]) -> str:
    """Return the result of a soak for readers."""
    counts = ", ".join(
        f"{name} {count} ({soak.slowest[name]:.1f} s at most)" for name, count in soak.counts.most_common()
    )
    lines = [growth.table(found), f"{len(soak.samples)} rounds, {soak.warm} of them warm-up; activities: {counts}; "]
    lines.append(
        f"long session: {soak.turns_of_long_session} turns; last sample: {json.dumps(soak.samples[-1]._asdict())}\n"
    )
    lines += [f"problem: {problem}\n" for problem in soak.problems[:10]]
    lines += [f"grown: {line}\n" for line in soak.grown]
    return "".join(lines)
