"""The rules of `hackamore.transports.base`, each with what shows it: a small program is started over the transport, and talked to."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hackamore.errors import StartError
from hackamore.testing.conformance.peer import processes
from hackamore.testing.conformance.report import Failed, Skipped, expect
from hackamore.transports.opening import check_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hackamore.testing.conformance.wire import Wire
    from hackamore.transports.base import LaunchPlan

Plan: TypeAlias = "Callable[..., LaunchPlan]"
_MEBIBYTE = 1024 * 1024
CHECKED_VARIABLE = "HACKAMORE_CONFORMANCE"
_AT_ONCE_SECONDS = 2.0
_STOP_SECONDS = 30.0


class TransportCheck(NamedTuple):
    """One rule of `hackamore.transports.base`, and how it is shown.

    Attributes:
        required: False for what some transports cannot do, and a CLI may do without.
        push: True for a rule of the push protocols: it is checked on push transports only.
        run: shows it, or raises `Failed` or `Skipped`.
    """

    name: str
    behaviour: str
    required: bool
    push: bool
    run: Callable[[Wire, Plan], Coroutine[Any, Any, None]]


TRANSPORT_CHECKS: list[TransportCheck] = []


def _check(behaviour: str, *, required: bool = True, push: bool = False) -> Callable[[Any], Any]:
    def add(function: Callable[[Wire, Plan], Coroutine[Any, Any, None]]) -> Any:
        TRANSPORT_CHECKS.append(TransportCheck(function.__name__.lstrip("_"), behaviour, required, push, function))
        return function

    return add


async def _line(wire: Wire) -> bytes:
    return await wire.read_until(lambda read: read.endswith(b"\n"))


def _same(got: bytes, wanted: bytes) -> None:
    if got != wanted:
        at = next(
            (place for place, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted))
        )
        raise Failed(
            f"{len(got)} bytes came instead of {len(wanted)}; the first difference is at byte {at}: {got[at : at + 20]!r}"
        )


@_check("no member of the protocol is missing, and those and only those are async that have to be")
async def _shape(wire: Wire, plan: Plan) -> None:
    try:
        check_shape(wire.transport, blocking=wire.blocking, parameter="the transport")
    except TypeError as error:
        raise Failed(str(error)) from error


@_check("bytes arrive as they were sent, whole and in order, and the end of the input comes after them")
async def _bytes_are_kept(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["echo"]))
    parts = [
        bytes(range(256)),
        "naïve \u2028 \U0001f434\n".encode(),
        b"",
        b"\r\n\0\n",
        b"x" * 300_000 + b"\n",
        b"last, without an end",
    ]
    for part in parts:
        await wire.send(part)
    await wire.end_input()
    _same(await wire.read_until(), b"".join(parts))
    await wire.stop(turn_open=False)


@_check("`send` does not wait for the peer to read: a megabyte each way, and neither side reads first")
async def _send_does_not_wait(wire: Wire, plan: Plan) -> None:
    size = 2 * _MEBIBYTE
    await wire.start(plan(["fill", size], ["read_to_end"]))
    for _ in range(4):
        await wire.send(b"y" * (size // 4))
    await wire.end_input()
    read = await wire.read_until()
    _same(read[-16:], (b"x" * 16 + b"\n%d\n" % size)[-16:])
    await wire.stop(turn_open=False)


@_check("a frame of 16 MiB passes")
async def _huge_frames(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["fill", 16 * _MEBIBYTE]))
    read = await wire.read_until()
    expect(len(read) == 16 * _MEBIBYTE + 1, f"{len(read)} bytes came")
    await wire.stop(turn_open=False)


@_check("at the end of the output `receive` returns b'', again and again")
async def _the_end_stays(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["out", "hello\n"]))
    _same(await wire.read_until(), b"hello\n")
    for _ in range(3):
        again = await wire.receive(_AT_ONCE_SECONDS)
        expect(again == b"", f"after the end it gave {again!r}")
    await wire.stop(turn_open=False)


@_check("a `receive` that is cancelled, or times out, loses no byte")
async def _cancelled_reads_lose_nothing(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["numbers", 200, 0.002]))
    read = b""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        data = await wire.receive(0.001)
        if data == b"":
            break
        read += data or b""
    _same(read, b"".join(b"%d\n" % number for number in range(200)))
    await wire.stop(turn_open=False)


@_check("a `receive` with nothing to receive waits no longer than its timeout")
async def _reads_can_be_given_up(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["stay"]))
    began = time.monotonic()
    data = await wire.receive(0.05)
    took = time.monotonic() - began
    expect(data is None, f"it gave {data!r}, and nothing had been written")
    expect(took < _AT_ONCE_SECONDS, f"it took {took:.1f} s instead of 0.05 s")
    await wire.stop()


@_check("the exit status is reported, more than once")
async def _exit_status(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["out", "x"], ["exit", 7]))
    await wire.read_until()
    codes = [await wire.wait_exit(10.0) for _ in range(2)]
    if codes == [None, None]:
        raise Skipped("this transport reports no exit status: a crash looks like an end")
    expect(codes == [7, 7], f"it told {codes} instead of 7, twice")
    await wire.stop(turn_open=False)


@_check("sending to a peer that has exited is not an error: its exit is the report")
async def _writes_to_the_dead(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["exit", 0]))
    await wire.read_until()
    for _ in range(3):
        await wire.send(b"x" * 100_000)
    await wire.end_input()
    await wire.stop(turn_open=False)


@_check("a program that does not exist is a `StartError`, or an exit with a status; nothing is left")
async def _no_such_program(wire: Wire, plan: Plan) -> None:
    launch = plan()
    missing = type(launch)(argv=("/nowhere/hackamore-conformance",), environment=launch.environment, owners=("",))
    try:
        await wire.start(missing)
    except StartError:
        pass
    except Exception as error:
        raise Failed(f"`start` raised {type(error).__name__}: {error}, which is not a StartError") from error
    else:
        await wire.read_until()
        code = await wire.wait_exit(10.0)
        expect(code != 0, "it started and exited with 0")
    await wire.stop()


@_check("`stop` ends a peer that ignores the end of its input and SIGTERM, in bounded time")
async def _stop_ends_the_stubborn(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["stubborn"], ["tell", ""], ["stay"]))
    told = json.loads(await _line(wire))
    began = time.monotonic()
    await wire.stop(turn_open=True)
    took = time.monotonic() - began
    expect(took < _STOP_SECONDS, f"it took {took:.0f} s")
    _gone(wire, told)


def _gone(wire: Wire, told: dict[str, Any]) -> None:
    if left := _left(wire, told):
        raise Failed(f"process {left[0]} still lives")


def _left(wire: Wire, told: dict[str, Any]) -> list[int]:
    """Return which processes of the transport still live, of those that have an id here: not those of other machines."""
    from hackamore.transports.process.processes import identity

    own = wire.transport.pid
    if own is None:
        return []
    pids = {own, told["pid"]} if told["processes"] == processes() else {own}
    return [pid for pid in pids if identity(pid) is not None]


@_check("`stop` may be called twice, and at the same time from two places")
async def _stop_is_idempotent(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["stay"]))
    outcomes = await wire.both(wire.stop, wire.stop)
    for outcome in outcomes:
        expect(outcome is None, f"one of two stops raised {outcome!r}")
    await wire.stop()
    data = await wire.receive(_AT_ONCE_SECONDS)
    expect(data == b"", f"after the stop `receive` gave {data!r}")


@_check("`stop` before `start` is not an error")
async def _stop_before_start(wire: Wire, plan: Plan) -> None:
    await wire.stop()


@_check("`stop` from elsewhere ends a `receive` that waits, immediately")
async def _stop_ends_a_read(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["tell", ""], ["stay"]))
    await _line(wire)

    async def stop() -> None:
        if wire.blocking:
            threading.Event().wait(0.05)
        else:
            import anyio

            await anyio.sleep(0.05)
        await wire.stop()

    data, error = await wire.both(lambda: wire.receive(20.0), stop)
    expect(error is None, f"`stop` raised {error!r}")
    expect(data == b"", f"`receive` gave {data!r} instead of b''")


@_check("`stop` is not cut short by cancellation")
async def _stop_is_shielded(wire: Wire, plan: Plan) -> None:
    if wire.blocking:
        raise Skipped("there is no cancellation without an event loop")
    import anyio

    await wire.start(plan(["stubborn"], ["tell", ""], ["stay"]))
    told = json.loads(await _line(wire))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await wire.stop(turn_open=True)
    _gone(wire, told)


@_check("`abandon` returns immediately, and the peer ends soon")
async def _abandon_does_not_wait(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["tell", ""], ["stay"]))
    told = json.loads(await _line(wire))
    began = time.monotonic()
    wire.abandon()
    took = time.monotonic() - began
    expect(took < 0.5, f"it took {took:.2f} s")
    until = time.monotonic() + _STOP_SECONDS
    while _left(wire, told) and time.monotonic() < until:
        threading.Event().wait(0.02)
    _gone(wire, told)
    await wire.stop()


@_check(
    "stderr is drained (a megabyte of it does not block the peer), kept apart from the output, and its end can be had"
)
async def _stderr(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["err", _MEBIBYTE, "the last words\n"], ["out", "output\n"]))
    _same(await wire.read_until(), b"output\n")
    await wire.wait_exit(10.0)
    await wire.stop(turn_open=False)
    tail = wire.transport.stderr_tail
    expect(isinstance(tail, bytes), f"`stderr_tail` is a {type(tail).__name__}")
    expect(len(tail) < _MEBIBYTE, f"all {len(tail)} bytes were kept")
    if not tail:
        raise Skipped("this transport keeps no stderr: errors will have no cause")
    expect(tail.endswith(b"the last words\n"), f"its end is {tail[-30:]!r}")


@_check("the peer gets the environment and the folder of the plan", required=False)
async def _environment_and_folder(wire: Wire, plan: Plan) -> None:
    folder = os.sep
    await wire.start(plan(["tell", CHECKED_VARIABLE], cwd=folder))
    told = json.loads(await wire.read_until())
    await wire.stop(turn_open=False)
    expect(told["variable"] == "1", "it did not get the variable")
    expect(told["cwd"] == folder, f"it runs in {told['cwd']!r} instead of {folder!r}")


@_check("there are `pid`, `stderr_tail` and `repr` at every moment", required=False)
async def _looks(wire: Wire, plan: Plan) -> None:
    for moment in ("before the start", "while it runs", "after the stop"):
        if moment == "while it runs":
            await wire.start(plan(["stay"]))
        if moment == "after the stop":
            await wire.stop()
        try:
            pid, tail, shown = wire.transport.pid, wire.transport.stderr_tail, repr(wire.transport)
        except Exception as error:
            raise Failed(f"{moment}: {type(error).__name__}: {error}") from error
        expect(pid is None or isinstance(pid, int), f"{moment}: `pid` is {pid!r}")
        expect(isinstance(tail, bytes), f"{moment}: `stderr_tail` is {tail!r}")
        expect("--conformance-secret" not in shown, f"{moment}: `repr` shows the arguments")


@_check(
    "`push_to` calls `take` until it returns False; `receive` and `push_to` continue from there without a loss",
    push=True,
)
async def _pushed_output_is_kept(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["numbers", 200, 0.002]))
    read = bytearray()

    def take(data: bytes) -> bool:
        read.extend(data)
        return len(data) % 2 == 0

    for turn in range(1_000):
        data = await wire.push_to(take, 0.01 if turn % 3 else 30.0) if turn % 2 else await wire.receive(30.0)
        if data == b"":
            break
        read.extend(data or b"")
    _same(bytes(read), b"".join(b"%d\n" % number for number in range(200)))
    again = await wire.push_to(take, _AT_ONCE_SECONDS)
    expect(again == b"", f"after the end `push_to` gave {again!r}")
    await wire.stop(turn_open=False)


@_check("`send_nowait` does not wait for the peer, and its data follows everything that was sent before", push=True)
async def _sent_without_waiting(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["echo"]))
    parts = [b"%d %s\n" % (number, b"x" * 10_000) for number in range(200)]
    began = time.monotonic()
    for part in parts[:100]:
        wire.send_nowait(part)
    took = time.monotonic() - began
    expect(took < _AT_ONCE_SECONDS, f"it took {took:.1f} s to send a megabyte")
    for one, other in zip(parts[100::2], parts[101::2], strict=True):
        await wire.send(one)
        wire.send_nowait(other)
    await wire.end_input()
    _same(await wire.read_until(), b"".join(parts))
    await wire.stop(turn_open=False)


@_check("`input_broken` becomes true after a write to a peer that has closed its input", required=False, push=True)
async def _a_broken_input_is_noticed(wire: Wire, plan: Plan) -> None:
    await wire.start(plan(["deaf"], ["tell", ""], ["stay"]))
    await _line(wire)
    expect(not wire.transport.input_broken, "it was true before anything was written")
    until = time.monotonic() + 10.0
    while not wire.transport.input_broken and time.monotonic() < until:
        wire.send_nowait(b"x" * 10_000)
        await wire.receive(0.05)
    expect(wire.transport.input_broken, "it was not within 10 s")
    await wire.stop()
