"""`check_transport`: what any transport must do, shown on yours.

The other end of the transport is a small Python program instead of the CLI, because the CLI cannot be made to do everything that goes
wrong. Each check starts a new peer.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore.testing.conformance.report import Finding, Report, Status, outcome
from hackamore.testing.conformance.rules import CHECKED_VARIABLE, TRANSPORT_CHECKS, TransportCheck
from hackamore.testing.conformance.wire import CHECK_SECONDS, SHELLS, Shell, Wire, run_bounded
from hackamore.transports.base import PushTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hackamore.transports.base import LaunchPlan, TransportSource


def check_transport(
    source: TransportSource,
    *,
    shells: Sequence[Shell] = SHELLS,
    python: Sequence[str] = (sys.executable, "-I", "-S"),
    only: Sequence[str] = (),
    seconds: float = CHECK_SECONDS,
    on_finding: Callable[[Finding], object] | None = None,
) -> Report:
    """Return what a transport does of what the rules in `hackamore.transports.base` ask for.

    ::

        def test_it_conforms():
            check_transport(MySource()).raise_for_failures()

    Each check makes a transport by `for_async` or `for_sync`, and lets it start a small Python program in the place of the CLI.

    Args:
        source: makes the transports. One that serves only one kind may raise `NotSupportedError` for the other: then that is skipped.
        shells: in which to check: `asyncio`, `trio`, `threads`.
        python: the command that runs Python (3.8 or newer) at the other end.
        only: names of checks, if not all are wanted.
        seconds: how long one check may take.
        on_finding: called with each finding as it is made.

    Returns:
        The report.
    """
    report = Report(f"Transport {source!r}")
    for shell in shells:
        for check in TRANSPORT_CHECKS:
            if only and check.name not in only:
                continue
            began = time.monotonic()
            outcome = _run(source, shell, check, python, seconds)
            if outcome is None:
                continue
            taken = round(time.monotonic() - began, 3)
            finding = Finding("transport", check.name, check.behaviour, *outcome, check.required, shell, taken)
            report.findings.append(finding)
            if on_finding is not None:
                on_finding(finding)
    return report


def _run(
    source: TransportSource, shell: Shell, check: TransportCheck, python: Sequence[str], seconds: float
) -> tuple[Status, str] | None:
    from hackamore.errors import NotSupportedError

    try:
        wire = Wire(source, shell)
    except NotSupportedError as error:
        return "skipped", str(error)
    except Exception as error:
        return "fails", f"it could not be made: {type(error).__name__}: {error}"

    if check.push and not isinstance(wire.transport, PushTransport):
        return None

    async def run(wire: Wire) -> None:
        try:
            await check.run(wire, lambda *steps, **more: _plan(python, steps, **more))
        except BaseException:
            wire.abandon()  # nothing of a failed check is to stay
            raise

    def words(error: Exception) -> str:
        return f"{wire.doing or 'the check'} raised {type(error).__name__}: {error}"

    return outcome(lambda: run_bounded(wire, run, seconds), words)


def _plan(python: Sequence[str], steps: Sequence[Any], cwd: str | None = None) -> LaunchPlan:
    from hackamore.transports.base import LaunchPlan
    from hackamore.transports.process.processes import CHILD_ID_VARIABLE

    code = Path(__file__).with_name("peer.py").read_text(encoding="utf-8")
    argv = (*python, "-c", code, json.dumps(steps), "--conformance-secret")
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        CHECKED_VARIABLE: "1",
        CHILD_ID_VARIABLE: secrets.token_hex(16),
    }
    return LaunchPlan(
        argv=argv, environment=environment, cwd=cwd, owners=tuple("" for _ in argv), program_length=len(python)
    )
