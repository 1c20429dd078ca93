"""Callbacks that wait: how they end, and what a database that fails does to them. Nothing is ever allowed by it."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from hackamore import Allow, ApprovalError, Approvals, Deny
from tests.approvals import parts
from tests.approvals.asking import asked, first_pending, running
from tests.contract import shows
from tests.support.leaks import join_library_threads
from tests.support.patience import patience
from tests.support.servers import Postgres
from tests.support.servers import running as running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROJECT = Path(__file__).resolve().parents[2]


def play(scenario: Callable[..., Any], backend: str, *arguments: Any) -> Any:
    return anyio.run(scenario, *arguments, backend=backend)


# -- ends --------------------------------------------------------------------------------------------------------------


@shows("approvals.interrupted")
@pytest.mark.parametrize("state", ["READY", "STOPPING"])
@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3])
def test_a_cancelled_wait_holds_nothing(
    opened_at: Callable[..., Approvals], backend: str, state: str, seconds: float
) -> None:
    """At whatever point the task is cancelled: the request is there once or not at all, and is not held."""
    approvals = opened_at()
    session = running(state)

    async def scenario() -> None:
        with anyio.move_on_after(seconds):
            await approvals.permit(asked(session=session))

    play(scenario, backend)
    # A thread that was left alone may still write the request down, and takes it back then.
    assert join_library_threads() == []
    records = [*approvals.pending(), *approvals.history()]
    assert [each.state for each in records] in ([], ["withdrawn" if state == "READY" else "waiting"])
    if state == "STOPPING" and records:  # it is free for the session that continues
        approvals.answer(records[0].id, Allow(), by="ada")
        found = opened_at().claim()
        assert found is not None
        assert play(opened_at().permit, backend, asked()) == Allow()


@shows("approvals.database")
def test_a_thread_that_was_left_alone_opens_a_closed_database_for_its_call_only(address: str, backend: str) -> None:
    approvals = Approvals(address)
    store: Any = approvals._store  # noqa: SLF001 - a database that answers late
    began, goes_on, look = threading.Event(), threading.Event(), store.look

    def slow(work: Callable[..., Any]) -> Any:
        began.set()
        assert goes_on.wait(patience(10))
        return look(work)

    async def scenario() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(approvals.permit, asked(session=running("STOPPING")))
            store.look = slow
            with anyio.fail_after(patience(10)):
                while not began.is_set():
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    play(scenario, backend)
    approvals.close()
    goes_on.set()


@shows("approvals.database")
def test_a_callback_that_outlives_close_leaves_no_database_open(
    address: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hackamore.approvals.approvals._POLL_SECONDS", 0.01)
    approvals = Approvals(address)

    async def scenario() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(approvals.permit, asked(session=running("STOPPING")))
            [request] = [await first_pending(approvals)]
            approvals.close()
            with anyio.move_on_after(0.2):
                while approvals._store.look(lambda _: True):  # noqa: SLF001 - the database is used meanwhile
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        assert request.state == "waiting"

    play(scenario, backend)


@shows("approvals.states")
def test_a_wait_that_is_cancelled_while_it_uses_an_answer(opened_at: Callable[..., Approvals], backend: str) -> None:
    approvals = opened_at()
    results: list[object] = []

    async def ask(seconds: float) -> None:
        with anyio.CancelScope() as scope:

            async def give() -> None:
                request = await first_pending(approvals)
                await anyio.to_thread.run_sync(partial(approvals.answer, request.id, Allow(), by="ada"))
                await anyio.sleep(seconds)
                scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(give)
                results.append(await approvals.permit(asked(command=f"make {seconds}")))

    for number in range(12):
        play(ask, backend, number * 0.03)
    states = [each.state for each in approvals.history()]
    assert set(states) <= {"used", "withdrawn"}
    assert results == [Allow()] * len(results)
    assert len(results) <= states.count("used")


@shows("approvals.cold")
def test_all_calls_of_a_turn_get_cold_together(opened_at: Callable[..., Approvals], backend: str) -> None:
    approvals = opened_at(hold=0.5)

    async def scenario() -> None:
        async def ask(command: str) -> None:
            answers.append(await approvals.permit(asked(command=command)))

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "make")
            await anyio.sleep(0.2)  # it is asked for later: its own time is not over
            group.start_soon(ask, "make clean")

    answers: list[Any] = []
    play(scenario, backend)
    assert [each.interrupt for each in answers] == [True, True]
    first, second = approvals.pending()
    approvals.answer(first.id, Allow(), by="ada")
    assert approvals.claim() is None  # the other one waits
    approvals.answer(second.id, Deny("No."), by="ada")
    found = approvals.claim()
    assert found is not None
    assert [each.id for each in found.requests] == [first.id, second.id]


@shows("approvals.claimed")
def test_a_claim_takes_the_answer_from_a_callback_of_another_process(
    opened_at: Callable[..., Approvals], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one whose machine cannot be looked at: it may be gone, or slow."""
    approvals, other = opened_at(), opened_at()
    monkeypatch.setattr("hackamore.approvals.approvals._WARM_SECONDS", -1.0)
    monkeypatch.setattr("hackamore.approvals.approvals._POLL_SECONDS", 1.0)

    async def scenario() -> None:
        async def ask() -> None:
            answers.append(await approvals.permit(asked()))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            request = await first_pending(other)
            other.answer(request.id, Allow(), by="ada")
            found = other.claim()
            assert found is not None
        assert await other.permit(asked()) == Allow()

    answers: list[Any] = []
    play(scenario, backend)
    [late] = answers
    assert isinstance(late, Deny)
    assert late.interrupt


@shows("approvals.claimed")
def test_a_loop_that_is_left_frees_its_conversation(opened_at: Callable[..., Approvals], backend: str) -> None:
    approvals, other = opened_at(hold=0), opened_at(hold=0)

    async def ask() -> None:
        await approvals.permit(asked())

    play(ask, backend)
    [request] = approvals.pending()
    approvals.answer(request.id, Allow(), by="ada")

    async def broken() -> None:
        async for found in approvals.answered():
            assert found.conversation == "talk"
            assert other.claim() is None
            break

    play(broken, backend)
    found = other.claim()
    assert found is not None
    assert "Make it again" in found.prompt
    approvals.done(found)  # one process, whatever object
    assert approvals.get(request.id).state == "lapsed"


# -- clocks ------------------------------------------------------------------------------------------------------------


@shows("approvals.deadline")
@pytest.mark.parametrize("step", [-100_000, 100_000])
def test_a_clock_that_is_set_ends_no_wait_late(
    opened_at: Callable[..., Approvals], backend: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = 0.0
    clock = SimpleNamespace(time=lambda: time.time() + offset, monotonic=time.monotonic)
    monkeypatch.setattr("hackamore.approvals.approvals.time", clock)
    approvals = opened_at(timeout=1.5, hold=None)

    async def scenario() -> object:
        nonlocal offset
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await approvals.permit(asked()))

        with anyio.fail_after(patience(30)):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                while not await anyio.to_thread.run_sync(lambda: approvals.pending() or approvals.history()):
                    await anyio.sleep(0.01)  # another task writes it down
                offset = step
        return answers

    assert play(scenario, backend) == [Deny("No person answered in time.")]
    [record] = approvals.history()
    assert (record.state, record.answered_by) == ("used", "deadline")


# -- databases that fail -----------------------------------------------------------------------------------------------


def delete(file: Path) -> None:
    file.unlink()


def replace(file: Path) -> None:
    (other := file.with_name("other.db")).touch()
    with closing(Approvals(other)) as new:
        assert new.pending() == []
    os.replace(other, file)


def mark_newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")


def drop(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE requests")


@shows("approvals.database")
@pytest.mark.parametrize("damage", [delete, replace, drop])
def test_a_file_that_is_lost_in_the_middle_of_a_wait(
    tmp_path: Path, backend: str, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hackamore.approvals.approvals._FAILING_SECONDS", 1.0)
    file = tmp_path / "approvals.db"

    async def scenario() -> None:
        with closing(Approvals(file)) as approvals:

            async def ask() -> None:
                with pytest.raises(ApprovalError) as caught:
                    await approvals.permit(asked())
                errors.append(str(caught.value))

            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(ask)
                await first_pending(approvals, 3)
                damage(file)

    errors: list[str] = []
    play(scenario, backend)
    assert len(errors) == 3
    wanted = {"delete": "was deleted or moved", "replace": "was replaced", "drop": "no such table"}[damage.__name__]
    assert all(wanted in error and str(file) in error for error in errors)


def test_a_file_of_another_version(tmp_path: Path) -> None:
    file = tmp_path / "approvals.db"
    Approvals(file).close()
    mark_newer(file)
    with pytest.raises(ApprovalError, match=r"has version 99, and this Hackamore knows up to 1\. Update Hackamore"):
        Approvals(file)


@shows("approvals.database")
def test_a_full_disk_denies_and_keeps_what_is_there(tmp_path: Path, backend: str) -> None:
    approvals = Approvals(file := tmp_path / "approvals.db", hold=0)
    play(approvals.permit, backend, asked())
    [request] = approvals.pending()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 2, before[1]))
        with pytest.raises(ApprovalError, match=r"space|disk|full"):
            play(approvals.permit, backend, asked(command="make clean"))
        with pytest.raises(ApprovalError, match=r"space|disk|full"):
            approvals.answer(request.id, Allow(), by="ada")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert approvals.pending() == [request]
    approvals.answer(request.id, Allow(), by="ada")
    assert play(approvals.permit, backend, asked()) == Allow()
    approvals.close()


@pytest.fixture
def stopped_holder(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Return a function that stops a program in the middle of a change of the file."""
    programs: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        given = f'{{"address": "{tmp_path / "approvals.db"}"}}'
        program = subprocess.Popen(
            [sys.executable, "-m", parts.__name__, "holder", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )
        programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGSTOP)
        return program

    yield begin
    for program in programs:
        program.kill()
        program.communicate()


@shows("approvals.database")
def test_a_stopped_program_that_holds_the_file(
    tmp_path: Path, backend: str, stopped_holder: Callable[[], subprocess.Popen[str]]
) -> None:
    """The wait ends with its timeout, and a cancelled one immediately; the threads of the program stay free."""
    timeout = 1 + patience(1)  # each of the requests waits once all are there
    approvals = Approvals(tmp_path / "approvals.db", timeout=timeout, hold=None)

    async def scenario() -> None:
        async def ask(number: int) -> None:
            with pytest.raises(ApprovalError, match="did not answer within 5 s"):
                await approvals.permit(asked(command=f"make {number}"))
            ended.append(number)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(ask, number)
            await first_pending(approvals, 20)
            holders.append(stopped_holder())
            began = time.monotonic()
            with anyio.fail_after(patience(5)):
                await anyio.to_thread.run_sync(lambda: None)
            with anyio.move_on_after(0.1):
                await approvals.permit(asked(command="make more"))
            assert time.monotonic() - began < patience(5)
        assert time.monotonic() - began < timeout + patience(2 * 5 + 5)

    ended: list[int] = []
    holders: list[subprocess.Popen[str]] = []
    play(scenario, backend)
    assert len(ended) == 20
    # They do not keep the program from ending.
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("hackamore"))
    holders[0].kill()
    assert join_library_threads() == []  # they use the file once more
    approvals.close()


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """Return a PostgreSQL server that the test kills."""
    yield from running_server(Postgres)


@shows("approvals.database")
def test_a_server_that_starts_again_loses_no_wait(
    own_server: Postgres, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals = Approvals(own_server.url)

    async def scenario() -> None:
        async def ask() -> None:
            answers.append(await approvals.permit(asked()))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            request = await first_pending(approvals)
            await anyio.to_thread.run_sync(own_server.kill)
            await anyio.sleep(1)  # it looks meanwhile, and fails
            await anyio.to_thread.run_sync(own_server.start)
            await anyio.to_thread.run_sync(partial(approvals.answer, request.id, Allow(), by="ada"))

    answers: list[object] = []
    play(scenario, backend)
    assert answers == [Allow()]
    approvals.close()


@shows("approvals.database")
def test_a_request_waits_on_whose_server_is_gone_when_its_turn_ends(own_server: Postgres, backend: str) -> None:
    approvals = Approvals(own_server.url, hold=0.5)

    async def scenario() -> None:
        async def ask() -> None:
            answers.append(await approvals.permit(asked()))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await first_pending(approvals)
            await anyio.to_thread.run_sync(own_server.kill)
            await anyio.sleep(1)  # its turn ends meanwhile
            await anyio.to_thread.run_sync(own_server.start)

    answers: list[object] = []
    play(scenario, backend)
    [request] = approvals.pending()
    assert getattr(answers[0], "pending", None) == request.id
    approvals.close()


@shows("approvals.database")
def test_a_stopped_server_ends_the_wait_with_its_timeout(own_server: Postgres, backend: str) -> None:
    approvals = Approvals(own_server.url, timeout=2 + patience(1), hold=None)
    assert own_server.process is not None
    family = [own_server.process.pid, *_children(own_server.process.pid)]

    async def scenario() -> None:
        async def ask() -> None:
            with pytest.raises(ApprovalError, match="did not answer within 5 s") as caught:
                await approvals.permit(asked())
            assert "postgresql://" in str(caught.value)

        with anyio.fail_after(patience(30)):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await first_pending(approvals)
                for pid in [*family, *_children(family[0])]:
                    os.kill(pid, signal.SIGSTOP)

    try:
        play(scenario, backend)
    finally:
        own_server.kill()
    own_server.start()
    [record] = approvals.history()
    assert (record.answered_by, record.answer) == ("deadline", Deny("No person answered in time."))
    approvals.close()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# -- many --------------------------------------------------------------------------------------------------------------


@shows("approvals.many")
def test_a_thousand_callbacks_share_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor is free while they wait, and each one gets its answer."""
    count = 1_000
    approvals, other = Approvals(tmp_path / "approvals.db"), Approvals(tmp_path / "approvals.db")

    async def scenario() -> float:
        async def ask(number: int) -> None:
            answers[number] = await approvals.permit(asked(conversation=f"talk {number}", command="make"))

        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(ask, number)
            with anyio.fail_after(patience(60)):
                while len(await anyio.to_thread.run_sync(other.pending)) < count:
                    await anyio.sleep(0.1)
            before = time.process_time()
            await anyio.sleep(5)  # the cost of waiting is the subject
            used = (time.process_time() - before) / 5
            for request in await anyio.to_thread.run_sync(other.pending):
                answer = Allow() if int(request.conversation.split()[1]) % 2 else Deny("No.")
                await anyio.to_thread.run_sync(partial(other.answer, request.id, answer, by="ada"))
        return used

    answers: dict[int, object] = {}
    used = anyio.run(scenario)
    print(f"{used:.1%} of a processor")
    assert [answers[number] == Allow() for number in range(count)] == [bool(number % 2) for number in range(count)]
    assert used < 0.35
    for each in (approvals, other):
        each.close()
