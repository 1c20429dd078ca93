"""Sessions at hard moments: each of these has once hung, crashed or lost something."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import threading
import time
import warnings
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hackamore import (
    ControlRejectedError,
    ControlTimeoutError,
    HackamoreError,
    Limits,
    SessionClosedError,
    SpawnError,
    Timeouts,
)
from hackamore._engine.protocol.states.session import SessionState
from hackamore.aio.session import Session as AsyncSession
from hackamore.hooks import HookMatcher
from hackamore.sync.session import Session as SyncSession
from tests.contract import shows
from tests.support.leaks import alive, wait_gone
from tests.support.patience import patience
from tests.support.session_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import Running, ask, early, got, make, raised, steps, texts

HANG = steps(["hang"])


class Leaving(BaseException):
    """Not an `Exception`, like `SystemExit` and what pytest raises."""


@shows("callbacks.harmless")
@pytest.mark.parametrize("how", ["group", "leave"])
def test_a_cancelled_callback_that_raises_harms_nobody(shell: Shell, playing: StandIn, how: str) -> None:
    """Trio ends the whole program when a system task raises."""
    import anyio

    started = threading.Event()

    async def spoil() -> None:
        try:
            await anyio.sleep(60)
        finally:
            raise ValueError("while being cancelled")

    async def hook(*_: Any) -> None:
        started.set()
        if how == "group":
            async with anyio.create_task_group() as group:
                group.start_soon(spoil)
                await anyio.sleep(60)
        try:
            await anyio.sleep(60)
        finally:
            raise Leaving

    hooks = {"PreToolUse": [HookMatcher(hooks=[hook], timeout=0.2)]}

    async def scenario() -> None:
        async with Running(shell, playing(hooks=hooks)) as session:
            await ask(session, "hook_callback", callback_id="hook_0", input={"hook_event_name": "PreToolUse"})
            assert started.is_set()
            assert await texts(await got(session.send("on"))) == ["on"]

    shell.play(scenario)


@shows("callbacks.from-arrival")
def test_callbacks_that_waited_are_not_run_once_they_are_answered(shell: Shell, playing: StandIn) -> None:
    ran: list[int] = []

    def hook(*_: Any) -> None:
        ran.append(1)
        time.sleep(0.5)

    hooks = {"PreToolUse": [HookMatcher(hooks=[hook], timeout=0.2)]}
    fields = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}

    async def scenario() -> None:
        async with Running(shell, playing(hooks=hooks, limits=Limits(inflight_callbacks=2))) as session:
            turn = await got(session.send(steps(["ask_many", "hook_callback", fields, 20])))
            await texts(turn)
        assert len(ran) < 20

    shell.play(scenario)


@shows("control.operations.finish-bounded")
def test_finish_ends_a_cli_that_stays_after_the_end_of_its_input(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(timeouts=Timeouts(after_result=0.3, stop_grace=0.1, kill_grace=0.5))
        session = make(shell, options)
        await got(session.start())
        await got((await got(session.send(steps(["deaf"])))).result())
        await got(session.wait_idle())
        began = time.monotonic()

        await got(session.finish())
        assert time.monotonic() - began < patience(5)
        assert [warning.code for warning in session.warnings] == ["CLI_DID_NOT_EXIT"]

    shell.play(scenario)


@shows("process.shielded")
def test_a_stop_that_asyncio_cancels_still_leaves_no_process(playing: StandIn) -> None:
    async def scenario() -> None:
        session = AsyncSession(playing(["ignore_term"], timeouts=Timeouts(stop_grace=0.3, kill_grace=0.3)))
        await session.start()
        await session.send(steps(["silent"]))
        stopping = asyncio.create_task(session.stop())
        for _ in range(2):
            await asyncio.sleep(0.1)
            stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert not alive(session.pid or 0)

    asyncio.run(scenario())


def test_a_driver_that_asyncio_cancels_before_its_first_step(playing: StandIn) -> None:
    def cancelled(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
        made: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **more)
        loop.set_task_factory(None)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        return made

    async def scenario() -> None:
        session = AsyncSession(playing())
        asyncio.get_running_loop().set_task_factory(cancelled)  # its first task is that of the driver
        with pytest.raises(asyncio.CancelledError):
            await session.start()
        assert session.pid is None

    asyncio.run(scenario())


@shows("session.reader.fair")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_slow_reader_of_many_unread_messages_delays_nobody(playing: StandIn, backend: Any) -> None:
    import anyio

    async def scenario() -> None:
        async with AsyncSession(playing()) as session:
            cursor = session.messages()
            await session.send(steps(["flood", 3_000, 10], ["hang"]))
            await session.get_usage(timeout=patience(30))  # answered behind the flood

            async def read_slowly() -> None:
                async for _ in cursor:
                    time.sleep(0.001)

            async with anyio.create_task_group() as group:
                began = time.monotonic()
                group.start_soon(read_slowly)
                await anyio.lowlevel.checkpoint()
                await session.interrupt()
                assert time.monotonic() - began < patience(1)
                group.cancel_scope.cancel()

    anyio.run(scenario, backend=backend)


@shows("errors.warnings")
def test_on_warning_cannot_end_the_session(shell: Shell, playing: StandIn) -> None:
    def leave(_: Any) -> None:
        raise Leaving

    async def scenario() -> None:
        async with Running(shell, playing(on_warning=leave)) as session:
            line = '{"type":"assistant","session_id":1}\n'
            assert await texts(await got(session.send(steps(["raw", line], ["text", "fine"])))) == ["fine"]

    shell.play(scenario)


class Scarce(threading.Thread):
    """Threads of one name cannot be had."""

    missing = ""

    def start(self) -> None:
        if self.name.partition(",")[0] == self.missing:
            raise RuntimeError("can't start new thread")
        super().start()


@shows("callbacks.no-threads")
@pytest.mark.parametrize("missing", ["hackamore-session", "hackamore-callback", "hackamore-callbacks"])
def test_no_thread_can_be_had(playing: StandIn, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(threading, "Thread", Scarce)
    monkeypatch.setattr(Scarce, "missing", missing)

    def plain(*_: Any) -> None:
        raise AssertionError

    async def waiting(*_: Any) -> None:
        raise AssertionError

    hook = plain if missing == "hackamore-callback" else waiting
    session = SyncSession(playing(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]}))
    if missing == "hackamore-session":
        with pytest.raises(SpawnError, match="can't start new thread"):
            session.start()
        assert not alive(session.pid or 0)
        return
    with session:
        fields = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}
        assert session.send(steps(["ask", "hook_callback", fields])).result() is not None
        assert [warning.code for warning in session.warnings] == ["CALLBACK_FAILED"]


@shows("callbacks.no-threads")
def test_no_thread_can_be_had_for_a_plain_callback(
    shell: Shell, playing: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[object] = []

    def plain(*_: Any) -> None:
        called.append(_)

    async def scenario() -> None:
        async with Running(shell, playing(hooks={"PreToolUse": [HookMatcher(hooks=[plain])]})) as session:
            monkeypatch.setattr(threading, "Thread", Scarce)
            monkeypatch.setattr(Scarce, "missing", "hackamore-callback")
            fields = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}
            turn = await got(session.send(steps(["ask", "hook_callback", fields])))
            assert await got(turn.result()) is not None
            codes = [warning.code for warning in session.warnings]
            assert (len(called), codes) == (0, ["CALLBACK_FAILED"])

    shell.play(scenario)


@shows("session.queueing.deadline")
def test_an_operation_during_the_start_has_its_deadline(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def scenario() -> None:
        session = make(shell, playing(["await_file", str(go)]))

        async def too_late() -> None:
            await raised(lambda: session.set_model("x", timeout=0.2), ControlTimeoutError)
            go.touch()

        assert await early(shell, session, too_late) == (None, None)
        assert await texts(await got(session.send("on"))) == ["on"]
        await got(session.stop())

    shell.play(scenario)


@shows("session.turns.result")
def test_reading_a_turn_whose_result_is_being_waited_for(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    go = str(tmp_path / "go")

    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            turn = await got(session.send(steps(["await_file", go], ["text", "a"])))

            async def reading() -> list[str]:
                for _ in range(20):
                    await shell.let_others_run()
                messages = iter(turn) if shell.blocking else aiter(turn)
                open(go, "w").close()
                return await texts(messages)

            result, heard = await shell.meanwhile(lambda: got(turn.result()), reading)
            assert result is not None
            assert heard == ["a"]

    shell.play(scenario)


@shows("session.death.status-taken")
def test_a_death_whose_exit_status_somebody_else_took(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            session = make(shell, playing())
            await got(session.start())
            turn = await got(session.send(steps(["exit", 3])))
            error = await raised(turn.result, SessionClosedError)
            assert not error.expected
            await got(session.stop())
            assert session.state is SessionState.FAILED
        finally:
            signal.signal(signal.SIGCHLD, before)

    shell.play(scenario)


@shows("process.idempotent", "bad.stops")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stop_from_another_event_loop(playing: StandIn, backend: Any) -> None:
    import anyio
    import anyio.to_thread

    async def scenario() -> None:
        session = AsyncSession(playing())
        await session.start()
        turn = await session.send(HANG)
        thread = threading.Thread(target=lambda: anyio.run(session.stop, backend=backend), daemon=True)
        thread.start()
        with anyio.fail_after(patience(10)):
            await turn.result()
        await anyio.to_thread.run_sync(lambda: thread.join(patience(10)))
        assert not thread.is_alive()
        assert session.state is SessionState.STOPPED

    anyio.run(scenario, backend=backend)


@shows("process.idempotent")
def test_a_stop_whose_event_loop_stands_still(playing: StandIn) -> None:
    loop = asyncio.new_event_loop()
    session = AsyncSession(playing())
    loop.run_until_complete(session.start())
    asyncio.run(session.stop())
    assert not alive(session.pid or 0)
    loop.run_until_complete(asyncio.sleep(0.1))
    loop.close()
    assert session.state is SessionState.STOPPED


def test_a_deadline_between_the_end_of_the_output_and_the_exit(shell: Shell, playing: StandIn) -> None:
    """It must not be taken for that of the exit, whose true code is to be reported."""
    asked = {"subtype": "hook_callback", "callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}
    line = json.dumps({"type": "control_request", "request_id": "z", "request": asked}) + "\n"

    def hook(*_: Any) -> None:
        time.sleep(0.5)

    async def scenario() -> None:
        session = make(shell, playing(hooks={"PreToolUse": [HookMatcher(hooks=[hook], timeout=0.2)]}))
        await got(session.start())
        turn = await got(session.send(steps(["raw", line], ["close_output"], ["sleep", 0.8], ["exit", 7])))
        error = await raised(turn.result, SessionClosedError)
        assert error.exit_code == 7
        await got(session.stop())

    shell.play(scenario)


@shows("session.life.forgotten")
def test_a_session_is_forgotten_at_once_although_an_operation_had_failed(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        await got(session.start())
        await raised(partial(session.request, "set_color", color="none"), ControlRejectedError)
        pid = session.pid or 0
        gone = weakref.ref(session)
        gc.disable()
        try:
            del session
            assert gone() is None
        finally:
            gc.enable()
        for _ in range(20):
            await shell.let_others_run()
        assert wait_gone(pid)

    shell.play(scenario)


def test_a_slow_on_warning_keeps_nobody_waiting(shell: Shell, playing: StandIn) -> None:
    """The blocking session reads on while it is called; the end waits for it, within a bound."""
    if not shell.blocking:
        return  # there it is called on the event loop, which is its user's
    go_on = threading.Event()
    told: list[str] = []

    def slow(warning: Any) -> None:
        assert go_on.wait(patience(20))
        told.append(warning.code)

    async def scenario() -> None:
        async with Running(shell, playing(on_warning=slow, limits=Limits(line_bytes=2_000))) as session:
            turn = await got(session.send(steps(["raw", "x" * 3_000 + "\n"], ["text", "after"])))
            assert await texts(turn) == ["after"]
            assert (await got(session.get_settings())) is not None
            assert told == []
            go_on.set()
        assert told == ["OVERSIZED_LINE_SKIPPED"]

    shell.play(scenario)


@shows("control.operations.deadlines", "control.operations.not-sent")
def test_deadlines_of_every_length(shell: Shell, playing: StandIn) -> None:
    """A call that could not be waited for used to stay open for ever, and a wait that was too long for the system ended the session."""

    def asking(asked: Any, context: Any) -> None:
        context.session.get_settings()  # something is read while the hook's deadline is set

    hooks = {"PreToolUse": [HookMatcher(hooks=[asking], timeout=1e12)]}

    async def scenario() -> None:
        async with Running(shell, playing(hooks=hooks)) as session:
            for bad, kind in (("5", TypeError), (True, TypeError), (float("nan"), ValueError)):
                await raised(partial(session.get_settings, timeout=bad), kind)
                await raised(partial(session.finish, timeout=bad), kind)
            for none in (0, -1):
                await raised(partial(session.rename_session, "x", timeout=none), ControlTimeoutError)
            for long in (float("inf"), 1e12, 10**400):
                assert await got(session.get_settings(timeout=long))
            fields = {"callback_id": "hook_0", "input": {"hook_event_name": "PreToolUse"}}
            assert await ask(session, "hook_callback", **fields) == {}
            assert session.warnings == []
            await got(session.finish(timeout=float("inf")))  # nothing is open

    shell.play(scenario)


@shows("process.forked")
@pytest.mark.parametrize("shell", ["trio", "threads"], indirect=True)  # asyncio has no running loop in a forked copy
def test_a_forked_copy_can_leave_the_block_of_a_session(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            turn = await got(session.send(HANG))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: that there are threads
                forked = os.fork()
            if forked == 0:
                code = 1
                try:
                    await got(session.stop())
                    code = 0
                finally:
                    os._exit(code)
            descriptor = os.pidfd_open(forked)
            try:
                ended = bool(select.select([descriptor], [], [], 10)[0])
            finally:
                os.close(descriptor)
                os.kill(forked, signal.SIGKILL)
                code = os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
            assert (ended, code) == (True, 0)
            await got(session.interrupt())
            assert (await got(turn.result())).is_error

    shell.play(scenario)


def test_a_forked_copy_can_end_its_copy_of_a_blocking_session(playing: StandIn) -> None:
    with SyncSession(playing()) as session:
        turn = session.send(HANG)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: that there are threads
            copy = os.fork()
        if copy == 0:  # nothing of pytest may run here
            code = 1
            try:
                try:
                    turn.result()
                except SessionClosedError as error:
                    code = 0 if "forked copy" in str(error) else 2
                session.stop()
            finally:
                os._exit(code)
        descriptor = os.pidfd_open(copy)
        try:
            assert select.select([descriptor], [], [], 20)[0], "it hangs"
        finally:
            os.close(descriptor)
            os.kill(copy, signal.SIGKILL)
            status = os.waitpid(copy, 0)[1]
        assert status == 0
        assert session.interrupt() is not None
        assert session.pid
        assert alive(session.pid)


@shows("session.life.wrong-loop")
@pytest.mark.parametrize("other", ["asyncio", "trio"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_session_of_another_event_loop_says_so_and_does_not_hang(playing: StandIn, backend: Any, other: Any) -> None:
    """As from a plain hook that calls `asyncio.run(session.interrupt())`: nothing would ever wake it, not even its own deadline."""
    import anyio
    import anyio.to_thread

    async def scenario() -> None:
        async with AsyncSession(playing()) as session:
            held = await session.send(HANG)

            async def use() -> None:
                for what in (
                    lambda: session.interrupt(timeout=5),
                    lambda: session.send("hello"),
                    lambda: session.wait_idle(),
                    lambda: session.finish(timeout=5),
                    lambda: held.result(),
                ):
                    assert "another event loop" in str(await raised(what, RuntimeError))

            await anyio.to_thread.run_sync(lambda: anyio.run(use, backend=other))
            await session.interrupt()
            assert await held.result() is not None
            assert await texts(await session.send("on")) == ["on"]

    anyio.run(scenario, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("method", ["start", "receive"])
def test_the_exception_of_a_transport_is_the_cause_of_every_error(backend: Any, method: str) -> None:
    """Each call raises a copy of the error that ended the session."""
    import anyio

    from hackamore.testing import Script, SimulatedCLI

    class Failing(SimulatedCLI):
        def for_async(self) -> Any:
            transport = super().for_async()

            async def fail(*_: object) -> bytes:
                raise ConnectionRefusedError("no route") from OSError("the cable")

            setattr(transport, method, fail)
            return transport

    async def scenario() -> None:
        session = AsyncSession(transport=Failing(Script()))
        for call in (session.start, session.start):
            with pytest.raises(HackamoreError) as raised:
                await call()
            assert isinstance(raised.value.__cause__, ConnectionRefusedError)
            assert str(raised.value.__cause__.__cause__) == "the cable"

    anyio.run(scenario, backend=backend)
