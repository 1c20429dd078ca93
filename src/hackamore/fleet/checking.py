"""The check of an answer: a function of the user, or a command in the folder of the agent."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any, cast

from hackamore.checked.functions import is_async
from hackamore.errors import escape_terminal
from hackamore.options.environment import CHILD_ID
from hackamore.runtime import private_loop

if TYPE_CHECKING:
    from hackamore.fleet.task import Answer, Verify
    from hackamore.transports.process.short_runs import ShortRun

_SHOWN = 4_000
_TAIL_BYTES = 64 * 1024


class Refused(Exception):  # noqa: N818 - it ends no program
    """The answer is not good.

    Args:
        reason: why; the model gets it with the next attempt.
    """


def check(verify: Verify, answer: Answer, seconds: float, run: ShortRun) -> None:
    """Do nothing if the answer is good; a command may run for `seconds`, and `run` can cancel it.

    Raises:
        Refused: the answer is not good.
        Exception: any exception that the function raises.
    """
    if not callable(verify):
        _command([str(word) for word in verify], answer.folder, seconds, run)
        return
    try:
        found = private_loop.run(cast("Any", verify), answer) if is_async(verify) else verify(answer)
    except AssertionError as error:
        raise Refused(str(error) or "an assertion failed") from error
    if isinstance(found, str):
        raise Refused(found or "the check refused it without a reason")
    if found is not None and not found:
        raise Refused("the check refused it without a reason")


class CommandError(Exception):
    """The command of a check cannot be run."""


def _command(words: list[str], folder: str, seconds: float, run: ShortRun) -> None:
    shown = " ".join(words)
    environment = {**os.environ, CHILD_ID: run.child_id}
    try:
        done = run.run(words, seconds, tail=_TAIL_BYTES, stderr=subprocess.STDOUT, cwd=folder, env=environment)
    except OSError as error:
        raise CommandError(
            f"The check `{shown}` cannot be run in {folder!r}: {error.strerror or error}. "
            "Make it available there, and retry the task: its answer is kept."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"`{shown}` did not end within {seconds:g} s.\n{_text(error.output)}") from error
    if done.returncode:
        raise Refused(f"`{shown}` failed with exit code {done.returncode}.\n{_text(done.stdout)}")


def _text(output: bytes | None) -> str:
    return escape_terminal((output or b"").decode(errors="replace").strip(), _SHOWN)
