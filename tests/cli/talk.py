"""A conversation with `hackamore chat` at a terminal of its own, as a person has it: wait for something, type something."""

from __future__ import annotations

import errno
import os
import pty
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from hackamore.transports.process.processes import Identity
from tests.cli.command import SECONDS, Command, children_of, left_of
from tests.support.patience import patience

# Makes the terminal its own, with no signal ignored as under nohup, and becomes the command.
_LOGIN = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
CTRL_C, CTRL_D = "\x03", "\x04"
PROMPT = re.compile(r"\n> $")


class Talk:
    """One run of `hackamore chat`, with plain lines.

    Attributes:
        process: the command.
        below: the processes below it, when they were last looked at.
    """

    def __init__(self, command: Command, *arguments: str, colours: bool = False) -> None:
        self.leader, follower = pty.openpty()
        environment = {
            **command.environment,
            "TERM": "dumb",
            **({} if colours else {"NO_COLOR": "1"}),
        }
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _LOGIN, *command.arguments("chat", *arguments)],
                env=environment,
                stdin=follower,
                stdout=follower,
                stderr=follower,
                start_new_session=True,
            )
        finally:
            os.close(follower)
        self._data = b""
        self._at = 0
        self.below: dict[int, Identity] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(patience(SECONDS))
        self.hang_up()

    @property
    def text(self) -> str:
        """Everything that the terminal has shown."""
        return self._data.decode("utf-8", "replace").replace("\r\n", "\n")

    def until(self, wanted: str | re.Pattern[str]) -> str:
        """Wait until this is shown, after what was waited for before; return what was shown up to it."""
        pattern = wanted if isinstance(wanted, re.Pattern) else re.compile(re.escape(wanted))
        until = time.monotonic() + patience(SECONDS)
        while (found := pattern.search(self.text, self._at)) is None:
            left = until - time.monotonic()
            assert left > 0, f"{wanted!r} did not come: {self.text[self._at :]!r}"
            assert not select.select([self.leader], [], [], left)[0] or self._read(), (
                f"the terminal was closed before {wanted!r}: {self.text[self._at :]!r}"
            )
        before, self._at = self.text[self._at : found.end()], found.end()
        return before

    def until_prompt(self) -> str:
        """Wait until something may be typed."""
        return self.until(PROMPT)

    def type(self, text: str) -> None:
        os.write(self.leader, text.encode())

    def say(self, line: str) -> None:
        """Type a line."""
        self.type(line + "\n")

    def look(self) -> None:
        """Take down the processes below the command, for `left`."""
        self.below = children_of(self.process)
        assert self.below

    def left(self) -> list[str]:
        """Wait for the end of what was taken down; return what does not end."""
        return left_of(self.below)

    def code(self) -> int:
        """Read to the end and return the exit code."""
        until = time.monotonic() + patience(SECONDS)
        while self.leader >= 0 and time.monotonic() < until:
            if select.select([self.leader], [], [], 0.5)[0] and not self._read():
                break
        return self.process.wait(max(1.0, until - time.monotonic()))

    def hang_up(self) -> None:
        """Close the terminal."""
        if self.leader >= 0:
            with suppress(OSError):
                os.close(self.leader)
            self.leader = -1

    def _read(self) -> bool:
        try:
            data = os.read(self.leader, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        self._data += data
        return bool(data)
