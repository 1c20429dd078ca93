"""Shared by the claims: the stand-in as an executable, the clock, and the lines that are printed.

A claim has three sides: Hackamore, the official package, and the program for the official package on `hackamore.compat`, which is unchanged
and runs in a process of its own. `table.py` runs all claims and prints which rows vanish there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

Side = Callable[[str], Coroutine[object, object, str]]
Rows = Mapping[str, Callable[[str], bool]]
"""Cases of the documentation, and functions that say whether an outcome is free of the defect."""
WIDTH = 110
LAYER = ("-m", "hackamore.compat")
"""Runs a program for the official package on the layer."""


def on_layer() -> bool:
    """Return whether this process has the layer in the place of the official package."""
    return "hackamore.compat" in sys.modules


def python(program: str) -> list[str]:
    """Return the command that runs a program with the same package as this process."""
    path = Path(f"{os.environ['CLAIM_FILE']}.py")
    path.write_text(program, encoding="utf-8")
    return [sys.executable, *(LAYER if on_layer() else ()), str(path)]


@contextlib.contextmanager
def stand_in(does: str) -> Iterator[str]:
    """Give the path of a CLI that does this; `CLAIM_FILE` is a file that it may write."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, "claude")
        path.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{Path(__file__).with_name('stand_in.py')}' \"$@\"\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        os.environ.update(CLAIM=does, CLAIM_FILE=str(Path(folder, "file")))
        yield str(path)


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def __str__(self) -> str:
        return f"{time.monotonic() - self._begin:.1f} s"


def shown(error: BaseException) -> str:
    """Return the class and the message of an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _lines() -> dict[str, int]:
    try:
        written = Path(os.environ["CLAIM_FILE"]).read_text().split()
    except FileNotFoundError:
        written = []
    return {kind: written.count(kind) for kind in ("cli", "shell")}


async def when_stopped(patience: float) -> str:
    """Watch the stand-in and its shell for some seconds; return when each wrote last. Then end both."""
    begin = time.monotonic()
    lines, last = _lines(), {"cli": 0.0, "shell": 0.0}
    while (now := time.monotonic() - begin) < patience:
        await asyncio.sleep(0.2)
        for kind, number in _lines().items():
            if number > lines[kind]:
                lines[kind], last[kind] = number, now
    with contextlib.suppress(FileNotFoundError):
        for pid in Path(f"{os.environ['CLAIM_FILE']}.pids").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    shown = {
        kind: "still runs" if seconds > patience - 1 else f"stopped after {seconds:.1f} s" if seconds else "had stopped"
        for kind, seconds in last.items()
    }
    return f"the CLI {shown['cli']}, its shell {shown['shell']} (watched for {patience:.0f} s)"


def outcome(side: Side, does: str) -> str:
    """Run a side with a CLI that does this."""
    with stand_in(does) as path:
        try:
            return asyncio.run(side(path))
        except Exception as error:  # an error is a result here
            return shown(error)


def compare(claim: str, does: str, hackamore: Side, official: Side, rows: Rows) -> None:
    """Run the sides with a CLI that does this, and print the outcomes, and for each row whether the layer is free of the defect.

    With `--layer` it only runs that side, and prints its outcome.
    """
    warnings.simplefilter("ignore")
    if on_layer():
        print(outcome(official, does))
        return
    if sys.argv[1:] != ["--layer"]:
        print(f"{claim}\n")
        for name, package, side in (("Hackamore", "hackamore", hackamore), ("official", "claude-agent-sdk", official)):
            found = outcome(side, does)
            found = found if len(found) <= WIDTH * 3 else f"{found[: WIDTH * 3]} ..."
            print(f"  {name:9} {version(package):8} {found}", flush=True)
    called = subprocess.run([sys.executable, *LAYER, sys.argv[0]], stdout=subprocess.PIPE, text=True, check=True)
    print(f"  {'layer':9} {version('hackamore'):8} {called.stdout.strip()}\n")
    for row, is_free in rows.items():
        print(f"| {row} | {'yes' if is_free(called.stdout) else 'no'} |")
