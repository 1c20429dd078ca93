"""Sessions from the start to the end: turns, control operations, endings, on asyncio, trio and threads."""

from __future__ import annotations

import gc
import logging
import os
import random
import statistics
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any, cast

import pytest

import hackamore
from hackamore import (
    CLIExitedDuringInitError,
    HackamoreError,
    InitializationError,
    InitializationTimeoutError,
    Limits,
    NotSupportedError,
    OptionsError,
    ResultMessage,
    SessionClosedError,
    SlowConsumerError,
    SpawnError,
    Timeouts,
    TurnTimeoutError,
)
from hackamore._engine.protocol.states.session import SessionActivity, SessionState, TurnState
from hackamore._engine.session.events import (
    SessionCompleted,
    SessionFailed,
    SessionStarted,
    SessionStopped,
    TurnCompleted,
    TurnStarted,
)
from hackamore.errors import (
    CheckpointingNotEnabledError,
    ControlRejectedError,
    ControlTimeoutError,
    TooManyPendingRequestsError,
)
from hackamore.hooks import HookMatcher
from hackamore.messages import AssistantMessage
from hackamore.transports.process.processes import descendants
from tests.contract import shows
from tests.support.inside import hurry, pending_requests, wake
from tests.support.leaks import alive, command_line, wait_gone
from tests.support.patience import patience
from tests.support.seeds import seeded
from tests.support.session_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import Running, each, early, first, got, make, raised, steps, texts, until

HANG = steps(["hang"])


@shows(
    "session.life.states",
    "session.life.views",
    "session.handshake.answer",
    "session.turns.result",
    "process.graceful",
)
def test_a_conversation(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        assert (session.state, session.pid, session.server_info) == (SessionState.NEW, None, None)
        await got(session.start())
        assert session.state is SessionState.RUNNING
        assert session.server_info.pid == session.pid
        for text in ("one", "two"):
            turn = await got(session.send(text))
            assert await texts(turn) == [text]
            result = await got(turn.result())
            assert isinstance(result, ResultMessage)
            assert turn.state is TurnState.COMPLETED
        await got(session.wait_idle())
        assert session.activity is SessionActivity.IDLE
        assert session.session_id == "5e551011-0000-4000-8000-000000000000"
        pid = session.pid
        await got(session.stop())
        assert not alive(pid)
        assert (session.state, session.exit_code) == (SessionState.STOPPED, 0)
        assert session.warnings == []

    shell.play(scenario)


@shows("session.turns.send", "session.turns.messages")
def test_two_prompts_at_once_are_matched(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            turns = [await got(session.send(f"prompt {number}")) for number in range(5)]
            assert len({turn.id for turn in turns}) == 5
            for number, turn in reversed(list(enumerate(turns))):
                assert await texts(turn) == [f"prompt {number}"]

    shell.play(scenario)


@shows("session.queueing.prompts")
def test_a_prompt_sent_during_the_start_is_answered_after_it(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing(["sleep", 0.3]))
        _, turn = await early(shell, session, lambda: session.send("early"))
        assert await texts(turn) == ["early"]
        await got(session.stop())

    shell.play(scenario)


@shows("session.turns.interrupted", "control.operations.interrupt")
def test_an_interrupt_ends_the_turn_and_not_the_session(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            await got(session.interrupt())  # nothing runs: nothing happens
            turn = await got(session.send(HANG))
            await first(turn)
            await got(session.interrupt())
            result = await got(turn.result())
            assert result.terminal_reason == "aborted_tools"
            assert turn.state is TurnState.INTERRUPTED
            assert await texts(await got(session.send("still here"))) == ["still here"]

    shell.play(scenario)


@shows(
    "session.cursors.messages",
    "session.cursors.own",
    "session.events.started",
    "session.events.turns",
    "session.events.stopped",
)
def test_messages_and_events_are_cursors_of_their_own(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        triggers = session.events()
        await got(session.start())
        everything = session.messages()
        one = await got(session.send("one"))
        await got(one.result())
        late = session.messages()
        two = await got(session.send("two"))
        await got(two.result())
        await got(session.stop())
        assert 0 < late.unread < everything.unread
        await first(late)
        before = late.unread
        await first(late)
        assert late.unread == before - 1
        assert await texts(late) == ["two"]
        assert await texts(everything) == ["one", "two"]
        assert (late.unread, triggers.unread > 0) == (0, True)
        kinds = [type(event) for event in [event async for event in each(triggers)]]
        assert kinds[0] is SessionStarted
        assert kinds[-1] is SessionStopped
        assert kinds.count(TurnStarted) == kinds.count(TurnCompleted) == 2
        assert await texts(session.messages()) == []

    shell.play(scenario)


@shows(
    "control.operations.model",
    "control.operations.rewind-off",
    "control.operations.escape-hatch",
    "control.operations.rejected",
    "control.operations.timed-out",
    "control.operations.too-many",
)
def test_control_operations(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing(limits=Limits(pending_requests=1))) as session:
            version = await got(session.get_binary_version())
            assert version.version == "2"
            assert (await got(session.set_model(None))) is None
            answer = await got(session.request("get_session_cost", colour="blue"))
            assert answer.data["asked"] == {"subtype": "get_session_cost", "colour": "blue"}
            error = await raised(lambda: session.request("hologram"), ControlRejectedError)
            assert error.code == "unsupported_request"
            error = await raised(lambda: session.set_color("nowhere"), ControlRejectedError)
            assert error.message == "no such colour"
            error = await raised(lambda: session.rename_session("x", timeout=0.1), ControlTimeoutError)
            assert error.operation == "rename_session"
            await raised(lambda: session.rewind_files("x"), CheckpointingNotEnabledError)

            async def asking() -> None:
                await got(session.rename_session("x", timeout=0.5))

            async def too_many() -> Any:
                while not pending_requests(session):
                    await shell.let_others_run()
                return await raised(lambda: session.get_usage(), TooManyPendingRequestsError)

            timed_out, refused = await shell.meanwhile(asking, too_many)
            assert isinstance(timed_out, ControlTimeoutError)
            assert refused.operation == "get_usage"

    shell.play(scenario)


@shows("session.events.failed", "session.death.wakes-all", "control.operations.closed")
def test_a_crash_wakes_everybody_with_one_error(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    mark = str(tmp_path / "go")

    async def scenario() -> None:
        session = make(shell, playing())
        triggers = session.events()
        await got(session.start())
        turn = await got(session.send(steps(["text", "a"], ["await_file", mark], ["err", "boom"], ["exit", 7])))
        cursor = session.messages()

        async def waiting_for_idle() -> Any:
            return await raised(lambda: session.wait_idle(), SessionClosedError)

        async def reading() -> Any:
            open(mark, "w").close()
            try:
                await texts(cursor)
            except SessionClosedError as error:
                return error

        for error in await shell.meanwhile(waiting_for_idle, reading):
            assert (error.expected, error.exit_code, error.stderr_tail) == (False, 7, "boom")
        error = await raised(lambda: turn.result(), SessionClosedError)
        assert error.exit_code == 7
        assert turn.state is TurnState.FAILED
        assert session.state is SessionState.FAILED
        await raised(lambda: session.interrupt(), SessionClosedError)
        await raised(lambda: session.send("x"), SessionClosedError)
        failed = [event async for event in each(triggers)][-1]
        assert isinstance(failed, SessionFailed)
        assert failed.exit_code == 7
        await got(session.stop())

    shell.play(scenario)


@shows(
    "session.handshake.refused",
    "session.handshake.silence",
    "session.queueing.failed",
    "errors.start",
    "bad.silence",
)
@pytest.mark.parametrize(
    ("start", "kind"),
    [
        ([["refuse", "not today"]], InitializationError),
        ([["exit", 0]], CLIExitedDuringInitError),
        ([["exit", 1]], CLIExitedDuringInitError),
        ([["die"]], CLIExitedDuringInitError),
        ([["unanswered"]], InitializationTimeoutError),
        ([["silent"]], InitializationTimeoutError),
    ],
)
def test_a_start_that_fails(shell: Shell, playing: StandIn, start: Any, kind: Any) -> None:
    seconds = 0.5 if kind is InitializationTimeoutError else 20
    options = playing(*start, timeouts=Timeouts(initialize=seconds, kill_grace=0.5))

    async def scenario() -> None:
        session = make(shell, options)
        problem, turn = await early(shell, session, lambda: session.send("early"))
        assert type(problem) is kind
        assert session.state is SessionState.FAILED
        assert not alive(session.pid)
        if not isinstance(turn, BaseException):  # else the CLI was gone before the prompt
            turn = await raised(lambda: turn.result(), kind)
        # Between the end of its stdin and its exit nobody knows the cause: a prompt of this moment is refused.
        assert type(turn) is kind or (type(turn) is SessionClosedError and not turn.expected)
        await raised(lambda: session.get_usage(), kind)
        await got(session.stop())

    shell.play(scenario)


@shows("errors.start")
@pytest.mark.parametrize(
    ("then", "kind"), [("exit 1", CLIExitedDuringInitError), ("exec sleep 100", InitializationTimeoutError)]
)
def test_what_a_failing_start_printed_is_in_the_error(
    shell: Shell, playing: StandIn, tmp_path: Path, then: str, kind: type[HackamoreError]
) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho 'Accept the terms first.'\n{then}\n")
    program.chmod(0o755)

    async def scenario() -> None:
        timeouts = Timeouts(initialize=patience(0.5), stop_grace=0.1, kill_grace=0.5)
        session = make(shell, playing(cli_path=str(program), timeouts=timeouts))
        error = await raised(lambda: session.start(), kind)
        assert "It printed: Accept the terms first." in str(error)

    shell.play(scenario)


@shows("errors.start")
def test_no_such_program(shell: Shell, playing: StandIn, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)

    async def scenario() -> None:
        session = make(shell, playing(cli_path=str(broken)))
        await raised(lambda: session.start(), SpawnError)
        await raised(lambda: session.start(), SpawnError)
        await got(session.stop())

    shell.play(scenario)


@shows("session.handshake.unconfirmed")
def test_an_implicit_confirmation_is_enough(shell: Shell, playing: StandIn) -> None:
    options = playing(["ask", "can_use_tool", {"tool_name": "a", "input": {}}], ["unanswered"])

    async def scenario() -> None:
        async with Running(shell, options.replace(timeouts=Timeouts(initialize=3))) as session:
            assert [warning.code for warning in session.warnings] == ["INIT_UNCONFIRMED"]
            assert session.server_info is None
            assert await texts(await got(session.send("works"))) == ["works"]

    shell.play(scenario)


@shows("process.nothing-new")
def test_a_stop_takes_back_the_prompts_that_wait(shell: Shell) -> None:
    """Else the end of the turn that it interrupts is the beginning of the next."""
    from hackamore.aio.session import Session as AsyncSession
    from hackamore.sync.session import Session as SyncSession
    from hackamore.testing import Script, SimulatedCLI

    script = Script().user("one").calls("Bash", {"command": "sleep 9"}, endless=True)
    script.user("two").says("never said")
    transport = SimulatedCLI(script, time_scale=0)

    async def scenario() -> None:
        session: Any = SyncSession(transport=transport) if shell.blocking else AsyncSession(transport=transport)
        await got(session.start())
        events = session.events()
        one, two = await got(session.send("one")), await got(session.send("two"))
        while not isinstance(await first(events), TurnStarted):
            pass
        await got(session.stop())
        assert (one.state, two.state) == (TurnState.INTERRUPTED, TurnState.INTERRUPTED)
        assert not [event async for event in each(events) if isinstance(event, TurnStarted)]

    shell.play(scenario)


@shows("process.own-turn")
def test_a_stop_interrupts_a_turn_that_the_cli_began_by_itself(shell: Shell) -> None:
    """Else it would go on, with tools and all, for as long as a CLI is given to come to its end."""
    from hackamore.aio.session import Session as AsyncSession
    from hackamore.sync.session import Session as SyncSession
    from hackamore.testing import Script, SimulatedCLI

    script = Script().user("go").calls("Bash", {"command": "make", "run_in_background": True}).says("Started.")
    script.task_ends().calls("Bash", {"command": "sleep 9"}, endless=True)
    options = hackamore.Options(permission_mode="bypassPermissions")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            session: Any = (
                SyncSession(options, transport=cli) if shell.blocking else AsyncSession(options, transport=cli)
            )
            await got(session.start())
            everything = session.messages()
            turn = await got(session.send("go"))
            assert await got(turn.result()) is not None
            while not (
                isinstance(message := await first(everything), AssistantMessage) and "sleep 9" in message.raw_json
            ):
                pass
            assert turn.state is TurnState.COMPLETED
            await got(session.stop())
            ends = [message.terminal_reason async for message in each(everything) if isinstance(message, ResultMessage)]
            assert ends == ["aborted_tools"]

    shell.play(scenario)


@shows("process.interrupt-first", "bad.after-stop")
def test_stop_interrupts_the_turn_and_wakes_its_readers(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        await got(session.start())
        turn = await got(session.send(HANG))

        async def reading() -> Any:
            return await got(turn.result())

        async def stopping() -> None:
            while turn.state is TurnState.QUEUED:
                await shell.let_others_run()
            await got(session.stop())

        result, _ = await shell.meanwhile(reading, stopping)
        assert result.terminal_reason == "aborted_tools"
        assert turn.state is TurnState.INTERRUPTED
        error = await raised(lambda: session.send("x"), SessionClosedError)
        assert error.expected
        assert not alive(session.pid)

    shell.play(scenario)


@shows("session.life.stop-anytime", "process.idempotent", "bad.stops")
def test_stop_before_during_and_twice(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        never = make(shell, playing())
        await got(never.stop())
        assert never.state is SessionState.STOPPED
        await raised(lambda: never.start(), SessionClosedError)

        during = make(shell, playing(["silent"], timeouts=Timeouts(stop_grace=0.1, kill_grace=0.5)))

        async def stopping() -> None:
            while during.state is not SessionState.INITIALIZING:
                await shell.let_others_run()
            await got(during.stop())

        async def starting() -> None:
            await got(during.start())

        error, _ = await shell.meanwhile(starting, stopping)
        assert isinstance(error, SessionClosedError)
        assert error.expected
        assert during.state is SessionState.STOPPED

        twice = make(shell, playing())
        await got(twice.start())

        async def stop() -> None:
            await got(twice.stop())

        assert await shell.meanwhile(stop, stop) == (None, None)
        assert not alive(twice.pid)

    shell.play(scenario)


@shows("process.forced", "bad.sigterm")
def test_a_process_that_ignores_everything_is_killed(shell: Shell, playing: StandIn) -> None:
    timeouts = Timeouts(stop_grace=0.1, kill_grace=0.1)

    async def scenario() -> None:
        session = make(shell, playing(timeouts=timeouts))
        hurry(session)
        await got(session.start())
        turn = await got(session.send(steps(["text", "a"], ["ignore_term"], ["silent"])))  # SIGTERM
        await first(turn)
        began = time.monotonic()
        await got(session.stop())
        assert time.monotonic() - began < patience(2)
        assert not alive(session.pid)
        await raised(lambda: turn.result(), SessionClosedError)

    shell.play(scenario)


@shows("process.leaving")
def test_a_stop_with_a_timeout_leaves_a_cli_that_ignores_signals_to_the_library(shell: Shell, playing: StandIn) -> None:
    """Without `timeout` the caller waits for `stop_grace` and `kill_grace`."""

    async def scenario() -> None:
        session = make(shell, playing(timeouts=Timeouts(kill_grace=patience(1))))
        await got(session.start())
        turn = await got(session.send(steps(["text", "a"], ["ignore_term"], ["silent"])))  # SIGTERM
        await first(turn)
        await got(session.stop(timeout=0.2))
        assert alive(session.pid)
        await raised(lambda: turn.result(), SessionClosedError)
        assert wait_gone(session.pid)

    shell.play(scenario)


@shows("session.events.completed", "control.operations.finish")
def test_finish_waits_for_what_runs(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        triggers = session.events()
        await got(session.start())
        turn = await got(session.send(steps(["sleep", 0.2], ["text", "late"])))
        await got(session.finish())
        assert turn.state is TurnState.COMPLETED
        assert await texts(turn) == ["late"]
        assert session.exit_code == 0
        assert isinstance([event async for event in each(triggers)][-1], SessionCompleted)

    shell.play(scenario)


@shows("session.idle.all-three")
def test_wait_idle_waits_for_background_tasks(shell: Shell, playing: StandIn) -> None:
    task = {"task_id": "t", "type": "shell", "description": "d", "status": "running"}

    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            await got((await got(session.send(steps(["background", [task]])))).result())
            assert len(session.background_tasks) == 1

            async def waiting() -> bool:
                await got(session.wait_idle())
                return bool(session.background_tasks)

            async def ending() -> None:
                await got(session.send(steps(["sleep", 0.1], ["background", []])))

            assert (await shell.meanwhile(waiting, ending))[0] is False

    shell.play(scenario)


@shows("session.deadlines.kinds")
@pytest.mark.parametrize(
    ("kind", "prompt"),
    [
        ("first_message", HANG),
        ("idle", steps(["text", "a"], ["hang"])),
        ("turn", steps(["text", "a"], ["hang"])),
    ],
)
def test_a_deadline_interrupts_the_turn_and_keeps_the_session(
    shell: Shell, playing: StandIn, kind: Any, prompt: str
) -> None:
    async def scenario() -> None:
        async with Running(shell, playing(timeouts=Timeouts(**{kind: 0.3}))) as session:
            turn = await got(session.send(prompt))
            error = await raised(lambda: turn.result(), TurnTimeoutError)
            assert (error.kind, error.seconds) == (kind, 0.3)
            await got(session.wait_idle())
            assert turn.state is TurnState.INTERRUPTED
            assert await texts(await got(session.send("again"))) == ["again"]

    shell.play(scenario)


@shows("session.reader.prompt-answers")
def test_the_reader_waits_for_nobody(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            cursor = session.messages()
            turn = await got(session.send(steps(["flood", 100_000, 50], ["hang"])))
            await got(session.get_usage(timeout=patience(30)))  # answered behind the flood
            seconds: list[float] = []
            for _ in range(5):
                began = time.monotonic()
                await got(session.interrupt())
                seconds.append(time.monotonic() - began)
            # This machine may have something else to do in between.
            assert statistics.median(seconds) < patience(0.1)
            assert (await got(turn.result())).terminal_reason == "aborted_tools"
            cursor.close()

    shell.play(scenario)


@shows("session.reader.bound")
def test_too_much_unread_is_an_error_after_a_warning(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing(limits=Limits(buffered_bytes=1_000_000)))
        await got(session.start())
        cursor = session.messages()
        turn = await got(session.send(steps(["flood", 20_000, 50])))
        error = await raised(lambda: session.wait_idle(), SlowConsumerError)
        assert error.buffered > error.limit == 1_000_000
        assert "SLOW_CONSUMER" in [warning.code for warning in session.warnings]
        await raised(lambda: turn.result(), SlowConsumerError)
        assert cursor is not None
        await got(session.stop())
        assert not alive(session.pid)

    shell.play(scenario)


@shows("session.reader.kept")
def test_what_nobody_can_ask_for_is_not_kept(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing(limits=Limits(buffered_bytes=1_000_000))) as session:
            flood = steps(["flood", 20_000, 50])
            await got((await got(session.send(flood))).result())
            await got(session.send(flood))
            session.messages()
            await got(session.wait_idle())
            assert await texts(await got(session.send("still here"))) == ["still here"]
            assert session.warnings == []

    shell.play(scenario)


@shows("session.turns.send", "bad.stops-reading")
def test_ten_megabytes_to_a_peer_that_does_not_read(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing(timeouts=Timeouts(stop_grace=0.1, kill_grace=0.5)))
        hurry(session)
        await got(session.start())
        await first(await got(session.send(steps(["text", "a"], ["silent"]))))
        began = time.monotonic()
        await got(session.send("x" * 10_000_000))
        assert time.monotonic() - began < patience(2)
        await got(session.stop())
        assert not alive(session.pid)

    shell.play(scenario)


@shows("session.life.forgotten", "process.collected")
def test_a_forgotten_session_is_collected_and_its_process_ends(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing())
        await got(session.start())
        await got((await got(session.send("hi"))).result())
        pid, weak = session.pid, weakref.ref(session)
        del session
        gc.collect()
        assert weak() is None
        until = time.monotonic() + patience(10)
        while alive(pid):
            assert time.monotonic() < until
            await shell.let_others_run()

    shell.play(scenario)


@shows("session.turns.refused")
def test_what_cannot_be_sent_is_refused_at_once(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        async with Running(shell, playing()) as session:
            await raised(lambda: session.send(5), TypeError)
            await raised(lambda: session.send([object()]), ValueError)
            await raised(lambda: session.set_color(5), TypeError)
            await raised(lambda: session.request("x", y=object()), ValueError)
            assert await texts(await got(session.send("fine"))) == ["fine"]

    shell.play(scenario)


@shows("session.life.any-task")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_opened_in_one_task_and_closed_in_another(playing: StandIn, backend: Any) -> None:
    import anyio

    from hackamore.aio.session import Session

    async def scenario() -> None:
        session = Session(playing())
        async with anyio.create_task_group() as group:
            group.start_soon(session.start)
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "hi")
        async with anyio.create_task_group() as group:
            group.start_soon(session.stop)
        assert session.state is SessionState.STOPPED

    anyio.run(scenario, backend=backend)


@shows("session.life.loop-ends")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_ends_ends_the_process(playing: StandIn, backend: Any) -> None:
    import anyio

    from hackamore.aio.session import Session

    kept: list[Any] = []

    async def scenario() -> None:
        session = Session(playing())
        await session.start()
        await session.send(HANG)
        kept.append(session)

    anyio.run(scenario, backend=backend)
    [session] = kept
    assert wait_gone(session.pid)
    anyio.run(session.stop, backend=backend)


@shows("process.start")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_start_that_is_cancelled_leaves_nothing(playing: StandIn, backend: Any) -> None:
    import anyio

    from hackamore.aio.session import Session

    async def scenario() -> None:
        session = Session(playing(["silent"], timeouts=Timeouts(stop_grace=0.1, kill_grace=0.5)))
        with anyio.move_on_after(0.3):
            await session.start()
        assert session.state is SessionState.STOPPED
        assert session.pid is None or not alive(session.pid)

    anyio.run(scenario, backend=backend)


@shows("session.life.any-thread")
def test_threads_share_a_session(playing: StandIn) -> None:
    from hackamore.sync.session import Session

    answers: list[list[str]] = []
    with Session(playing()) as session:

        def talk(number: int) -> None:
            turn = session.send(f"from thread {number}")
            answers.append([f"from thread {number}"] + [m.content[0].text for m in turn if m.type == "assistant"])  # type: ignore[attr-defined]

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience(20))
    assert len(answers) == 8
    assert all(asked == answer for asked, answer in answers)


@shows("control.operations.given-up")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_operation_that_is_cancelled_is_given_up(playing: StandIn, backend: Any) -> None:
    import anyio

    from hackamore.aio.session import Session

    async def scenario() -> None:
        async with Session(playing(limits=Limits(pending_requests=1))) as session:
            for _ in range(3):
                with anyio.move_on_after(0.05) as scope:
                    await session.rename_session("never answered")
                assert scope.cancelled_caught
            assert (await session.get_binary_version()).version == "2"
            turn = await session.send(HANG)
            for reading in (turn.result, session.wait_idle):
                with anyio.move_on_after(0.05) as scope:
                    await reading()
                assert scope.cancelled_caught
            await session.interrupt()
            result = await turn.result()
            assert result is not None

    anyio.run(scenario, backend=backend)


@shows("session.life.start-session")
def test_start_session(shell: Shell, playing: StandIn) -> None:
    from hackamore.aio.session import start_session as waiting
    from hackamore.sync.session import start_session as blocking

    async def scenario() -> None:
        session = await got((blocking if shell.blocking else waiting)("hello", playing()))
        assert await texts(session.first_turn) == ["hello"]
        await got(session.start())  # once more: it is ready
        await got(session.stop())
        await raised(lambda: session.start(), SessionClosedError)
        if not shell.blocking:
            async with waiting("hello", playing()) as entered:
                assert entered.first_turn is not None
                assert await texts(entered.first_turn) == ["hello"]
            assert not alive(entered.pid or 0)

    shell.play(scenario)


@pytest.mark.parametrize("prompt", [hackamore.Options(), 3])
def test_start_session_with_something_that_is_no_prompt_starts_nothing(shell: Shell, prompt: Any) -> None:
    from hackamore.aio.session import start_session as waiting
    from hackamore.sync.session import start_session as blocking
    from hackamore.testing import Script, SimulatedCLI

    cli = SimulatedCLI(Script())
    text = "`prompt` must be .*, not Options; options are given as `options=`" if prompt != 3 else "not int$"
    with pytest.raises(TypeError, match=text):
        (blocking if shell.blocking else waiting)(prompt, transport=cli)
    assert "initialize" not in cli.describe()


def test_start_session_with_a_prompt_that_cannot_be_sent_leaves_no_process(shell: Shell, playing: StandIn) -> None:
    from hackamore.aio.session import start_session as waiting
    from hackamore.sync.session import start_session as blocking

    async def scenario() -> None:
        start = blocking if shell.blocking else waiting
        error = await raised(lambda: start("half of \ud83d", playing()), ValueError)
        running = [command_line(pid) for pid, _ in descendants(os.getpid())]
        assert [line for line in running if "stand_in_session" in line] == []
        assert "surrogate" in str(error)  # it is held until here, and so is the session

    shell.play(scenario)


@shows("errors.warnings", "bounds.oversized")
def test_warnings_are_told_and_kept(shell: Shell, playing: StandIn) -> None:
    told: list[Any] = []

    def telling(warning: Any) -> None:
        told.append(warning)
        raise RuntimeError("the session does not mind")

    async def scenario() -> None:
        async with Running(shell, playing(on_warning=telling, limits=Limits(line_bytes=5_000))) as session:
            line = '{"type":"assistant","message":"' + "x" * 10_000 + '"}\n{"type":"assistant","session_id":1}\n'
            assert await texts(await got(session.send(steps(["raw", line], ["text", "fine"])))) == ["fine"]
            expected = ["OVERSIZED_LINE_SKIPPED", "FIELD_DROPPED"]
            assert [each.code for each in session.warnings if each.code != "CALLBACK_FAILED"] == expected
        assert told == [each for each in session.warnings if each.code != "CALLBACK_FAILED"]
        assert len(session.warnings) == 4  # each exception of `on_warning` is a warning as well

    shell.play(scenario)


def test_what_is_noticed_before_the_start_is_told_once(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        options = playing(hooks={"PreToolUes": [HookMatcher(hooks=[lambda hook_input, context: None])]})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            async with Running(shell, options) as session:
                fields = [warning.context["field"] for warning in session.warnings]
        assert fields == ["hooks.PreToolUes"]

    shell.play(scenario)


@shows("callbacks.unbindable")
def test_what_cannot_be_served_is_refused_when_it_is_made(shell: Shell, playing: StandIn) -> None:
    with pytest.raises(NotSupportedError):
        make(shell, playing(mcp_servers={"x": object()}))
    with pytest.raises(OptionsError):
        make(shell, playing(hooks={"PreToolUse": [HookMatcher(hooks=[cast("Any", lambda: None)])]}))
    with pytest.raises(TypeError):
        make(shell, {"model": "x"})  # type: ignore[arg-type]


def test_stops_at_random_moments_leave_nothing(shell: Shell, playing: StandIn) -> None:
    chance = random.Random(seeded(3))
    timeouts = Timeouts(stop_grace=0.2, kill_grace=0.2)
    starts: list[list[Any]] = [[], [["sleep", 0.05]], [["ignore_term"], ["silent"]], [["exit", 1]]]
    prompts = [HANG, "hi", steps(["text", "a"], ["ignore_term"], ["silent"])]

    async def scenario() -> None:
        for number in range(8):
            session = make(shell, playing(*starts[number % 4], timeouts=timeouts))
            hurry(session)
            stop_after = time.monotonic() + chance.random() * 0.3

            async def using(session: Any = session) -> None:
                await got(session.start())
                await got((await got(session.send(chance.choice(prompts)))).result())

            async def stopping(session: Any = session, when: float = stop_after) -> None:
                while time.monotonic() < when:
                    await shell.let_others_run()
                await got(session.stop())

            outcome, _ = await shell.meanwhile(using, stopping)
            assert outcome is None or isinstance(outcome, HackamoreError)
            assert session.pid is None or not alive(session.pid)

    shell.play(scenario)


@shows("session.reader.fair")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_writers_without_end_do_not_keep_the_reader_from_reading(playing: StandIn, backend: Any) -> None:
    import anyio
    import anyio.lowlevel

    from hackamore.aio.session import Session

    async def scenario() -> None:
        async with Session(playing()) as session, anyio.create_task_group() as group:

            async def waking() -> None:
                while True:
                    wake(session)
                    await anyio.lowlevel.checkpoint()

            group.start_soon(waking)
            for text in ("one", "two"):
                assert await texts(await session.send(text)) == [text]
            group.cancel_scope.cancel()

    anyio.run(scenario, backend=backend)


@shows("session.deadlines.waiting")
def test_deadlines_of_a_turn_do_not_count_while_it_waits_for_its_turn(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        second = patience(1)
        options = playing(["sleep", 1.2 * second], timeouts=Timeouts(first_message=second, turn=1.5 * second))
        session = make(shell, options)
        _, one = await early(shell, session, lambda: session.send(steps(["text", "a"], ["sleep", 0.7 * second])))
        two = await got(session.send(steps(["text", "b"], ["sleep", 0.5 * second])))
        assert (await texts(one), await texts(two)) == (["a"], ["b"])
        await got(session.stop())

    shell.play(scenario)


@shows("session.death.stays")
def test_a_cli_that_closes_its_output_and_stays(shell: Shell, playing: StandIn) -> None:
    async def scenario() -> None:
        session = make(shell, playing(timeouts=Timeouts(stop_grace=0.1, kill_grace=0.3)))
        await got(session.start())
        turn = await got(session.send(steps(["close_output"], ["silent"])))
        error = await raised(lambda: turn.result(), SessionClosedError)
        assert "did not exit" in error.reason
        await got(session.stop())
        assert not alive(session.pid)

    shell.play(scenario)


@shows("session.death.deaf")
@pytest.mark.parametrize("noticed", ["by a write", "in the middle of one"])
def test_a_cli_that_closes_its_input_and_stays(shell: Shell, playing: StandIn, tmp_path: Path, noticed: str) -> None:
    closes, closed = tmp_path / "closes", tmp_path / "closed"

    async def scenario() -> None:
        session = make(shell, playing(timeouts=Timeouts(stop_grace=0.1, kill_grace=0.3)))
        await got(session.start())
        turn = await got(
            session.send(
                steps(["text", "a"], ["await_file", str(closes)], ["close_input"], ["touch", str(closed)], ["silent"])
            )
        )
        await first(turn)
        if noticed == "by a write":
            closes.touch()
            await until(shell, closed.exists)
            late = await got(session.send("hi"))
        else:
            late = await got(session.send("x" * 5_000_000))  # more than a pipe holds
            closes.touch()
        for waiting in (turn.result, late.result):
            error = await raised(waiting, SessionClosedError)
            assert "closed its input and did not exit" in error.reason
        assert session.state is SessionState.FAILED
        await got(session.stop())
        assert not alive(session.pid)

    shell.play(scenario)


@shows("errors.secrets")
def test_the_log_tells_kinds_and_sizes_and_no_secret(
    shell: Shell, playing: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-ant-very-secret"

    async def scenario() -> None:
        with caplog.at_level(logging.DEBUG, "hackamore"):
            async with Running(shell, playing(env={"ANTHROPIC_API_KEY": secret})) as session:
                turn = await got(session.send(secret))
                await got(turn.result())
                await got(session.set_model("haiku"))

    shell.play(scenario)
    assert secret not in caplog.text
    for said in (
        "started; command: ",
        "frame result success, ",
        "is completed",
        "set_model",
        "the session has ended: ",
    ):
        assert said in caplog.text
    assert {record.name for record in caplog.records if record.name.startswith("hackamore")} == {"hackamore"}
