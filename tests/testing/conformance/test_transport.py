"""`check_transport`: our own transports conform, with harmless faults too; broken ones are told precisely what is wrong."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from hackamore.errors import NotSupportedError
from hackamore.testing import with_faults
from hackamore.testing.conformance import TRANSPORT_CHECKS, Finding, Report, check_transport
from hackamore.testing.conformance.wire import SHELLS, Shell
from hackamore.testing.faults import Corrupt, Delay, Drop, Split
from hackamore.transports.process.subprocess_async import AsyncChildProcess
from hackamore.transports.process.subprocess_sync import SyncChildProcess
from tests.support.patience import patience

# Those two take five seconds each: a stubborn peer is given that long.
SLOW = {"stop_ends_the_stubborn", "stop_is_shielded"}
QUICK = [check.name for check in TRANSPORT_CHECKS if check.name not in SLOW]


class Local:
    """A source of child processes."""

    def __init__(self, sync: type[SyncChildProcess] = SyncChildProcess) -> None:
        self._sync = sync

    def for_async(self) -> AsyncChildProcess:
        return AsyncChildProcess(kill_grace=0.5)

    def for_sync(self) -> SyncChildProcess:
        return self._sync(kill_grace=0.5)


@pytest.mark.parametrize("shell", SHELLS)
def test_our_child_process_conforms(shell: Shell) -> None:
    seen: list[Finding] = []
    report = check_transport(Local(), shells=[shell], on_finding=seen.append)
    report.raise_for_failures()
    assert [finding.check for finding in report.of("skipped")] == (["stop_is_shielded"] if shell == "threads" else [])
    assert len(report.of("holds")) + len(report.of("skipped")) == len(TRANSPORT_CHECKS)
    assert seen == report.findings


@pytest.mark.parametrize("shell", SHELLS)
def test_it_conforms_with_harmless_faults_too(shell: Shell) -> None:
    source = with_faults(Local(), Split(None, most=100_000), Delay(0.0, jitter=0.002))
    report = check_transport(source, shells=[shell])
    report.raise_for_failures()
    assert len(report.of("skipped")) <= 1


class LosesOnTimeout(SyncChildProcess):
    def receive(self, timeout: float | None = None) -> bytes | None:
        data = super().receive(timeout)
        return None if timeout is not None and timeout < 0.01 and data and len(data) < 50 else data


class LeavesItRunning(SyncChildProcess):
    def stop(self, *, turn_open: bool) -> None:
        pass


class RaisesOnTheSecondStop(SyncChildProcess):
    stops = 0

    def stop(self, *, turn_open: bool) -> None:
        self.stops += 1
        if self.stops > 1:
            raise RuntimeError("it was stopped before")
        super().stop(turn_open=turn_open)


class WaitsInAbandon(SyncChildProcess):
    def abandon(self) -> None:
        if self._child is not None and self._child.pid and not self._stopped_early:
            time.sleep(0.7)
        super().abandon()


class AnotherStartError(SyncChildProcess):
    def start(self, plan: Any) -> None:
        try:
            super().start(plan)
        except Exception:
            raise OSError("no such thing") from None


class NoStatus(SyncChildProcess):
    def wait_exit(self, timeout: float | None = None) -> int | None:
        return None


class ShowsArguments(SyncChildProcess):
    def start(self, plan: Any) -> None:
        self.argv = plan.argv
        super().start(plan)

    def __repr__(self) -> str:
        return f"<{getattr(self, 'argv', ())}>"


@pytest.mark.parametrize(
    ("kind", "check", "status", "detail"),
    [
        (LosesOnTimeout, "cancelled_reads_lose_nothing", "fails", "the first difference is at byte"),
        (LeavesItRunning, "stop_is_idempotent", "fails", "after the stop `receive` gave None"),
        (RaisesOnTheSecondStop, "stop_is_idempotent", "fails", "it was stopped before"),
        (WaitsInAbandon, "abandon_does_not_wait", "fails", "it took 0.7"),
        (AnotherStartError, "no_such_program", "fails", "`start` raised OSError: no such thing"),
        (NoStatus, "exit_status", "skipped", "reports no exit status"),
        (ShowsArguments, "looks", "fails", "`repr` shows the arguments"),
    ],
)
def test_what_is_wrong_is_said(kind: Any, check: str, status: str, detail: str) -> None:
    report = check_transport(Local(kind), shells=["threads"], only=[check])
    [finding] = report.findings
    assert finding.status == status
    assert detail in finding.detail
    assert report.ok is False
    if status == "fails" and finding.required:
        with pytest.raises(AssertionError, match="does not conform"):
            report.raise_for_failures()


class LosesTheLast(AsyncChildProcess):
    """Takes once more after `take` has returned False."""

    async def push_to(self, take: Any) -> bytes | None:
        ended = await super().push_to(take)
        if ended is None:
            await self.receive()
        return ended


class Overtakes(AsyncChildProcess):
    """`send` comes after what is sent without waiting."""

    late = b""

    async def send(self, data: bytes) -> None:
        self.late += data

    def send_nowait(self, data: bytes) -> None:
        super().send_nowait(data + self.late)
        self.late = b""


class SeesNothing(AsyncChildProcess):
    input_broken = False


class WronglyAsync(AsyncChildProcess):
    async def send_nowait(self, data: bytes) -> None:  # type: ignore[override]
        super().send_nowait(data)


@pytest.mark.parametrize("shell", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("kind", "check", "detail"),
    [
        (LosesTheLast, "pushed_output_is_kept", "the first difference is at byte"),
        (Overtakes, "sent_without_waiting", "the first difference is at byte"),
        (SeesNothing, "a_broken_input_is_noticed", "it was not within 10 s"),
        (WronglyAsync, "shape", "`send_nowait` must not be async"),
    ],
)
def test_what_is_wrong_with_pushing_is_said(kind: Any, check: str, detail: str, shell: Shell) -> None:
    class Source(Local):
        def for_async(self) -> Any:
            return kind(kill_grace=0.5)

    [finding] = check_transport(Source(), shells=[shell], only=[check]).findings
    assert finding.status == "fails"
    assert detail in finding.detail


def test_push_rules_are_for_push_transports() -> None:
    names = {check.name for check in TRANSPORT_CHECKS if check.push}
    assert names == {"pushed_output_is_kept", "sent_without_waiting", "a_broken_input_is_noticed"}
    pull = check_transport(with_faults(Local()), shells=["threads"], only=[*names, "shape"])
    assert [(finding.check, finding.status) for finding in pull.findings] == [("shape", "holds")]


@pytest.mark.parametrize("fault", [Drop("numbers", nth=1), Corrupt(nth=3, how="cut")])
def test_faults_that_do_harm_are_noticed(fault: Any) -> None:
    report = check_transport(
        with_faults(Local(), Drop(nth=2), fault), shells=["threads"], only=["cancelled_reads_lose_nothing"]
    )
    assert [finding.status for finding in report.findings] == ["fails"]


def test_a_transport_for_one_kind_only_is_skipped_in_the_other() -> None:
    class OnlyAsync(Local):
        def for_sync(self) -> SyncChildProcess:
            raise NotSupportedError("for_sync", "only for asyncio and trio")

    report = check_transport(OnlyAsync(), shells=["threads", "asyncio"], only=["bytes_are_kept"])
    assert [(finding.where, finding.status) for finding in report.findings] == [
        ("threads", "skipped"),
        ("asyncio", "holds"),
    ]
    assert report.ok


def test_a_check_that_hangs_is_given_up() -> None:
    import threading

    release = threading.Event()

    class Hangs(SyncChildProcess):
        def end_input(self) -> None:
            release.wait(patience(30))
            super().end_input()

    report = check_transport(Local(Hangs), shells=["threads"], only=["bytes_are_kept"], seconds=0.3)
    release.set()
    for thread in threading.enumerate():
        if thread.name == "conformance-check":
            thread.join(patience(30))
    [finding] = report.findings
    assert (finding.status, finding.detail) == ("fails", "`end_input` had not returned after 0.3 s")


def test_what_a_peer_wrote_cannot_steer_a_terminal() -> None:
    finding = Finding("g", "c", "b", "fails", "\x1b[31mred\x1b[0m")
    assert "\x1b" not in str(Report("s", [finding]))
    assert Report("s", [finding]).to_dict()["findings"][0]["status"] == "fails"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own, for processes that are ended with their loop
def test_the_transport_among_the_examples_conforms() -> None:
    path = Path(__file__).resolve().parents[3] / "examples" / "custom_transport.py"
    spec = importlib.util.spec_from_file_location("custom_transport", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Source:
        def for_async(self) -> Any:
            return module.CommandTransport("env", "THROUGH=a-transport")

        def for_sync(self) -> Any:
            raise NotSupportedError("for_sync", "for asyncio only")

    report = check_transport(Source(), shells=["asyncio"], only=QUICK)
    report.raise_for_failures()
    # It runs a command in this folder, which may lead anywhere.
    assert [finding.check for finding in report.of("fails")] == ["environment_and_folder"]
