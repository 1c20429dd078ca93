"""git as workspaces run it: no shell, no hooks, no prompts, a time limit, and errors that name the fix."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

from hackamore.errors import WorkspaceError
from hackamore.transports.recording.masking import Mask

_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",  # it would start a daemon
    "core.safecrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
)
# Variables of git that tell about its user and its installation. All others are about another repository, or change the output.
_KEPT: Final = re.compile(
    r"GIT_(?:CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)|EXEC_PATH|(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)|SSH|SSH_COMMAND|SSL_\w+|ASKPASS)"
)
_RETRY_SECONDS: Final = 10.0
"""How long another program's git may hold a lock file of the repository."""
# The second: `git worktree add` of another task has made the file and not yet written it; git reads those of all worktrees (2.39).
_BUSY: Final = (b".lock': File exists", b"/commondir: ")


class Git(NamedTuple):
    """A place to run git in.

    Attributes:
        where: options that name the place: `-C`, a folder, and others.
        timeout: seconds that one command may take.
        locks: descriptors of locks. git inherits them, so that they are held until it ends, even if this program is killed before.
    """

    where: tuple[str, ...]
    timeout: float
    locks: tuple[int, ...] = ()

    def run(self, *arguments: str, stdin: bytes = b"", hint: str = "") -> bytes:
        """Run a command that must succeed; return its standard output. The rest is as in `ask`."""
        return self.ask(*arguments, stdin=stdin, hint=hint, codes=(0,))[1]

    def ask(
        self, *arguments: str, codes: tuple[int, ...] = (0, 1), stdin: bytes = b"", hint: str = ""
    ) -> tuple[int, bytes]:
        """Run a command whose exit code is an answer. While another program holds a lock of the repository, it is run again.

        Raises:
            WorkspaceError: it has another exit code, git is missing, or the time is over; `hint` is the fix.
        """
        until = time.monotonic() + min(_RETRY_SECONDS, self.timeout)
        pause = 0.01
        while True:
            code, output, errors = self._started(arguments, stdin)
            if code in codes:
                return code, output
            busy = any(sign in errors for sign in _BUSY)
            if not busy or time.monotonic() >= until:
                raise _failed(f"`git {arguments[0]}` in {self.where[1]}", code, errors, busy=busy, hint=hint)
            time.sleep(pause)
            pause = min(2 * pause, 0.25)

    def _started(self, arguments: tuple[str, ...], stdin: bytes) -> tuple[int, bytes, bytes]:
        argv = [_program(), *self.where, *(part for setting in _SETTINGS for part in ("-c", setting)), *arguments]
        # A group of its own: a time limit ends filters too, and Ctrl-C in a terminal leaves no half-made commit.
        with subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            pass_fds=self.locks,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(stdin, timeout=self.timeout)
            except BaseException as error:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise WorkspaceError(
                        f"`git {arguments[0]}` took longer than {self.timeout:g} s and was stopped. Raise `timeout=`.",
                        retryable=True,
                    ) from None
                raise
        return process.returncode, output, errors


@cache
def _program() -> str:
    found = shutil.which("git")
    if found is None:
        raise WorkspaceError("`git` is not in PATH. Install it, or use `Copy` instead of `Worktree`.")
    return os.path.abspath(found)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}  # texts are compared


def _failed(command: str, code: int, errors: bytes, *, busy: bool, hint: str) -> WorkspaceError:
    text = Mask()(errors).decode(errors="replace").strip()[-1000:] or "no message"
    full = "No space left on device" in text or "Disk quota exceeded" in text
    if full:
        hint = "Free some space, or pass `to=` a folder on another disk."
    elif busy:
        text = text.partition("\n\n")[0]  # the rest is git's advice, at length
        hint = "If no git runs in this repository, delete that " + ("file." if "/commondir: " in text else "lock file.")
    ended = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    return WorkspaceError(
        f"{command} {ended}: {text.removesuffix('.')}. {hint}".rstrip(), retryable=full or busy or code < 0
    )
