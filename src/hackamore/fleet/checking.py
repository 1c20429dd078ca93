"""The check of an answer: a function of the user, or a command in the folder of the agent."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from hackamore.checked.functions import is_async
from hackamore.errors import escape_terminal
from hackamore.sync import private_loop

if TYPE_CHECKING:
    from hackamore.fleet.task import Answer, Verify

__all__ = ["Refused", "check"]

_SHOWN = 4_000
_TAIL_BYTES = 64 * 1024


class Refused(Exception):  # noqa: N818 - it ends no program
    """The answer is not good.

    Args:
        reason: why; the model gets it with the next attempt.
    """


def check(verify: Verify, answer: Answer, seconds: float) -> None:
    """Do nothing if the answer is good; a command may run for `seconds`.

    Raises:
        Refused: the answer is not good.
        Exception: any exception that the function raises.
    """
    if not callable(verify):
        _command(verify, answer.folder, seconds)
        return
    try:
        found = private_loop.run(cast("Any", verify), answer) if is_async(verify) else verify(answer)
    except AssertionError as error:
        raise Refused(str(error) or "an assertion failed") from error
    if isinstance(found, str):
        raise Refused(found or "the check refused it without a reason")
    if found is not None and not found:
        raise Refused("the check refused it without a reason")


def _command(command: object, folder: str, seconds: float) -> None:
    words = [str(word) for word in command]  # type: ignore[attr-defined]
    shown = " ".join(words)
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(
            f"The check `{shown}` cannot be run in {folder!r}: {error.strerror or error}. "
            "Make it available there, and retry the task: its answer is kept."
        ) from error
    with process:
        tail = b""
        expired = False
        timer = _Timer(process, seconds)
        try:
            assert process.stdout is not None  # noqa: S101
            while data := process.stdout.read1(_TAIL_BYTES):  # type: ignore[attr-defined]
                tail = (tail + data)[-_TAIL_BYTES:]
            process.wait()
        finally:
            expired = timer.end()
            _kill(process)
    text = escape_terminal(tail.decode(errors="replace").strip(), _SHOWN)
    if expired:
        raise Refused(f"`{shown}` did not end within {seconds:g} s.\n{text}")
    if process.returncode:
        raise Refused(f"`{shown}` failed with exit code {process.returncode}.\n{text}")


class CommandError(Exception):
    """The command of a check cannot be run."""


class _Timer:
    """Ends a command and all that it started when its time has passed."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        import threading

        self._process = process
        self._expired = False
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        self._expired = True
        _kill(self._process)

    def end(self) -> bool:
        """Stop the clock; return whether the time has passed."""
        self._timer.cancel()
        return self._expired


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the group of a command: also what it left running."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
