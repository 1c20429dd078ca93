"""Three hundred sessions that are started and ended at random moments, in every way; then nothing of them is left.

HACKAMORE_TEST_SEED repeats a run: the moments are random, and so is what the machine makes of them, but who does what to whom is the same.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hackamore import HackamoreError, Timeouts
from hackamore._engine.protocol.states.session import SessionState
from hackamore.hooks import HookMatcher
from hackamore.permissions import Allow
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.tools import tool, tool_server
from tests.conftest import RealCLI
from tests.contract import shows
from tests.support.leaks import alive, wait_gone
from tests.support.light import light
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.shell import Shell, drive
from tests.support.talking import got, make, steps

EACH_SHELL = 100
QUERIES = 40
AT_ONCE = 10
SEED = seeded(4)
SECONDS = 30.0
TIMEOUTS = Timeouts(stop_grace=0.2, kill_grace=0.2, initialize=2)

# What the CLI does before it answers `initialize`.
STARTS: list[list[list[Any]]] = [
    *[[]] * 6,
    [["sleep", 0.1]],
    [["ignore_term"]],
    [["ignore_term"], ["silent"]],
    [["ask", "can_use_tool", {"tool_name": "Bash", "input": {}}]],
    [["exit", 1]],
    [["die"]],
]
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow", "arguments": {}}}
HOOK = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}}
PROMPTS = {
    "words": "hello",
    "silence": steps(["text", "a"], ["hang"]),
    "mid-hook": steps(["text", "a"], ["ask", "hook_callback", HOOK]),
    "mid-hook, plain": steps(["text", "a"], ["ask", "hook_callback", {**HOOK, "callback_id": "hook_1"}]),
    "mid-permission": steps(["ask", "can_use_tool", {"tool_name": "Bash", "input": {}}]),
    "mid-tool": steps(["text", "a"], ["ask", "mcp_message", {"server_name": "desk", "message": CALL}]),
    "flood": steps(["flood", 5_000, 100], ["hang"]),
    "deaf": steps(["ignore_term"], ["deaf"], ["text", "a"], ["silent"]),
    "death": steps(["text", "a"], ["sleep", 0.01], ["die"]),
    "exit": steps(["text", "a"], ["exit", 0]),
    "no output": steps(["close_output"], ["silent"]),
    "shell": "",  # a grandchild in a session of its own; the path is put in
}
WAYS = ["stop", "stop", "stop twice", "break", "exception", "cancel", "forget", "finish"]


class Thrown(Exception):
    pass


class Guest:
    """One session, and what is to happen to it."""

    def __init__(self, shell: Shell, options: Callable[..., Any], number: int, folder: Path) -> None:
        chance = random.Random(SEED * 1_000 + number)
        self.shell = shell
        self.start = chance.choice(STARTS)
        self.kind = chance.choice(list(PROMPTS))
        self.way = chance.choice(WAYS)
        self.seconds = chance.choice([0.0, 0.01, 0.05, 0.1, 0.2, 0.3]) * (0.5 + chance.random())
        self.mark = str(folder / f"shell-{number}")
        self.prompt = PROMPTS[self.kind] or steps(["grandchild", self.mark], ["text", "a"], ["hang"])
        self.released = threading.Event()
        self.options = options(
            *self.start,
            hooks={"PreToolUse": [HookMatcher(hooks=[self.hook, self.plain_hook])]},
            can_use_tool=self.permission,
            mcp_servers={"desk": tool_server("desk", [tool(self.slow)])},
            timeouts=TIMEOUTS,
        )
        self.pid: int | None = None
        self.outcome = "?"

    def __repr__(self) -> str:
        return f"{self.way} after {self.seconds:.3f} s of {self.kind}, start {self.start}: {self.outcome}"

    # Callbacks that are still at work when the session ends; the plain ones look whether they were taken back.
    async def hook(self, *_: Any) -> None:
        while not self.released.is_set():
            await self.nap()

    def plain_hook(self, asked: Any, context: Any) -> None:
        self.wait_while(lambda: not context.cancelled)

    def permission(self, request: Any) -> Allow:
        self.wait_while(lambda: not request.cancelled)
        return Allow()

    def slow(self) -> str:
        """Work for a while."""
        self.wait_while(lambda: True)
        return "done"

    def wait_while(self, wanted: Callable[[], bool]) -> None:
        until = time.monotonic() + patience(SECONDS)
        while wanted() and not self.released.wait(0.01) and time.monotonic() < until:
            pass

    async def nap(self) -> None:
        if self.shell.blocking:
            import asyncio  # the blocking shell runs coroutines on a private loop

            await asyncio.sleep(0.01)
        else:
            import anyio

            await anyio.sleep(0.01)

    async def use(self, session: Any) -> None:
        """A conversation that mostly does not come to its end."""
        await got(session.start())
        self.pid = session.pid
        turn = await got(session.send(self.prompt))
        messages = iter(turn) if self.shell.blocking else aiter(turn)
        while True:
            try:
                await got(next(messages) if self.shell.blocking else anext(messages))
            except (StopIteration, StopAsyncIteration):
                break
            if self.way == "break":
                break
            if self.way == "exception":
                raise Thrown
        if self.way == "finish":
            await got(session.finish())

    async def enter(self) -> None:
        """Use it as most users do, in a block."""
        session = make(self.shell, self.options)
        if self.shell.blocking:
            with session:
                await self.use(session)
        else:
            async with session:
                await self.use(session)

    async def wait(self) -> None:
        if self.shell.blocking:
            threading.Event().wait(self.seconds)
        else:
            import anyio

            await anyio.sleep(self.seconds)

    async def stop(self, session: Any) -> None:
        await self.wait()
        await got(session.stop())

    async def live(self) -> None:
        """Be started and ended."""
        try:
            await self.end_somehow()
            self.outcome = "fine"
        except (HackamoreError, Thrown) as error:
            self.outcome = type(error).__name__
        finally:
            self.released.set()

    async def end_somehow(self) -> None:
        shell = self.shell
        match self.way:
            case "stop" | "stop twice" | "finish" | "break" | "exception":
                session = make(shell, self.options)

                async def stopping() -> None:
                    await self.stop(session)

                if self.way == "stop twice":
                    extra = threading.Thread(target=lambda: None)
                    if shell.blocking:
                        extra = threading.Thread(target=lambda: drive(self.stop(session)))
                    extra.start()
                    outcome, _ = await shell.meanwhile(lambda: self.use(session), stopping)
                    await got(session.stop())
                    extra.join(patience(SECONDS))
                    assert not extra.is_alive()
                else:
                    outcome, other = await shell.meanwhile(lambda: self.use(session), stopping)
                    assert other is None
                assert session.state in (SessionState.STOPPED, SessionState.FAILED)
                assert session.pid is None or not alive(session.pid)
                if outcome is not None:
                    raise outcome
            case "cancel":
                if shell.blocking:  # nothing can be cancelled there; an exception leaves the block
                    self.way = "exception"
                    await self.enter()
                else:
                    import anyio

                    with anyio.move_on_after(self.seconds):
                        await self.enter()
            case "forget":
                await self.forget()

    async def forget(self) -> None:
        session = make(self.shell, self.options)
        try:
            await got(session.start())
            self.pid = session.pid
            await got(session.send(self.prompt))
            await self.wait()
        finally:
            del session
            gc.collect()


class QueryGuest(Guest):
    """The same for a query that needs the session protocol, because of its callbacks."""

    async def live(self) -> None:
        prompt: Any = self.prompt if self.seconds < 0.1 else iter([self.prompt, "and more"])
        try:
            await self.end_query(self.shell.query(prompt, self.options))
            self.outcome = "fine"
        except (HackamoreError, Thrown) as error:
            self.outcome = type(error).__name__
        finally:
            self.released.set()

    async def end_query(self, stream: Any) -> None:
        shell = self.shell

        async def read() -> None:
            async for _ in stream:
                if self.way == "break":
                    break
                if self.way == "exception":
                    raise Thrown

        async def close() -> None:
            await self.wait()
            await stream.close()

        match self.way:
            case "cancel" | "forget" if not shell.blocking:
                import anyio

                with anyio.move_on_after(self.seconds):
                    if self.way == "forget":
                        await read()
                    else:
                        async with stream:
                            await read()
            case "forget" | "cancel":
                await stream.next_item()
            case _:
                outcome, other = await shell.meanwhile(read, close)
                assert other is None
                if outcome is not None:
                    raise outcome


async def tasks() -> int:
    """How many tasks there are."""
    import sys

    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        living: int = trio.lowlevel.current_statistics().tasks_living
        return living
    import asyncio

    return len(asyncio.all_tasks())


def asyncio_tasks() -> list[str]:
    import asyncio

    return [repr(task) for task in asyncio.all_tasks()]


async def names() -> list[str]:
    """What trio's tasks are called, and what they wait for."""
    import trio

    found, todo = [], [trio.lowlevel.current_root_task()]
    while todo:
        task = todo.pop()
        if task is not None:
            found.append(f"{task.name}: {[frame.f_code.co_qualname for frame, _ in task.iter_await_frames()]}")
            todo += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


async def nothing_runs_any_more(shell: Shell, before: int) -> None:
    if shell.blocking:
        return
    import anyio

    with anyio.move_on_after(patience(SECONDS)):
        while await tasks() > before:
            gc.collect()  # a session may have been forgotten only now, by a callback that knew it
            await anyio.sleep(0.05)
    assert await tasks() == before, await names() if shell.backend == "trio" else asyncio_tasks()


async def everybody(shell: Shell, guests: list[Any]) -> None:
    """Let all of them live, `AT_ONCE` at the same time."""
    waiting = list(reversed(guests))

    async def work() -> None:
        while waiting:
            try:
                guest = waiting.pop()
            except IndexError:
                return
            await guest.live()

    if shell.blocking:
        problems: list[BaseException] = []

        def keep() -> None:
            try:
                drive(work())
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=keep) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience(100))
            assert not thread.is_alive()
        assert problems == []
        return
    import anyio

    before = await tasks()
    complaints: list[Any] = []
    if shell.backend == "asyncio":
        import asyncio

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(work)
    await nothing_runs_any_more(shell, before)
    assert complaints == []


@shows("session.life.stop-anytime", "session.life.random-moments", "process.collected", "process.block-ends")
@pytest.mark.timeout(150)
def test_a_hundred_starts_and_stops(shell: Shell, tmp_path: Path) -> None:
    """Nothing left: processes here, shells of the CLI as well; threads and descriptors in `leaves_nothing`."""
    options = light(tmp_path)
    base = {"asyncio": 0, "trio": EACH_SHELL, "threads": 2 * EACH_SHELL}[shell.backend]
    guests = [Guest(shell, options, base + number, tmp_path) for number in range(EACH_SHELL)]

    async def scenario() -> None:
        began = time.monotonic()
        await everybody(shell, guests)
        outcomes = Counter(guest.outcome for guest in guests)
        print(f"{shell.backend}: {EACH_SHELL} in {time.monotonic() - began:.1f} s: {dict(outcomes)}")

    shell.play(scenario)
    gc.collect()
    for guest in guests:
        assert guest.pid is None or wait_gone(guest.pid), guest
        if os.path.exists(guest.mark) and guest.way != "finish":
            with open(guest.mark) as file:
                assert wait_gone(int(file.read())), guest


@shows("session.life.random-moments", "steered.leaving")
@pytest.mark.timeout(150)
def test_queries_that_end_at_random_moments(shell: Shell, tmp_path: Path) -> None:
    options = light(tmp_path)
    base = {"asyncio": 1_000, "trio": 2_000, "threads": 3_000}[shell.backend]
    guests = [QueryGuest(shell, options, base + number, tmp_path) for number in range(QUERIES)]

    async def scenario() -> None:
        await everybody(shell, guests)
        print(f"{shell.backend}: {dict(Counter(guest.outcome for guest in guests))}")

    shell.play(scenario)
    gc.collect()
    for guest in guests:
        if os.path.exists(guest.mark):
            with open(guest.mark) as file:
                assert wait_gone(int(file.read())), guest


class RealGuest(Guest):
    """The same on the real CLI, where a shell command, a hook and a question are open when it ends."""

    def __init__(self, shell: Shell, options: Callable[..., Any], number: int, folder: Path) -> None:
        super().__init__(shell, lambda *_, **more: options(**more), number, folder)
        chance = random.Random(SEED * 7_000 + number)
        self.start = []
        self.prompt = "go"
        self.seconds = chance.choice([0.0, 0.1, 0.3, 0.6, 0.9, 1.2, 1.6])
        self.kind = "real"
        if chance.random() < 0.5:  # the command runs, else the hook or the question are open for ever
            self.released.set()


@shows("session.life.random-moments")
@pytest.mark.timeout(120)
def test_starts_and_stops_of_the_real_cli(shell: Shell, real_cli: RealCLI, tmp_path: Path) -> None:
    command = {"command": f"echo $$ >> {tmp_path}/shells; sleep 60", "description": "sleep"}
    with ScriptedModel(Repeat(Reply("Working.", ToolCall("Bash", command)))) as model:

        def options(**more: Any) -> Any:
            from hackamore import Options

            environment = real_cli.env(model)
            return Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=environment, inherit_env=False, **more)

        guests = [RealGuest(shell, options, number, tmp_path) for number in range(8)]

        async def scenario() -> None:
            await everybody(shell, guests)

        shell.play(scenario)
        gc.collect()
        for guest in guests:
            assert guest.pid is None or wait_gone(guest.pid), guest
        if os.path.exists(tmp_path / "shells"):
            with open(tmp_path / "shells") as file:
                for pid in file.read().split():
                    assert wait_gone(int(pid))
