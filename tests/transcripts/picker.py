"""The real CLI's list of sessions (`claude --resume`), on a terminal of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

from tests.support.patience import patience

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from hackamore.testing import ScriptedModel
    from tests.conftest import RealCLI

SECONDS = 30.0

_MOVES = re.compile(r"\x1b\[\d*[CG]")
_CODES = re.compile(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*(\x07|\x1b\\)|\x1b[()=>78].?|\r")


class Picker:
    """A process with a terminal of 120 by 40; ended by its own id."""

    def __init__(self, real_cli: RealCLI, model: ScriptedModel) -> None:
        self._env = {**real_cli.env(model), "TERM": "xterm"}
        self._real_cli = real_cli
        self._seen = ""

    def __enter__(self) -> Self:
        # A first start asks for a theme, the key and trust.
        path = os.path.join(self._env["CLAUDE_CONFIG_DIR"], ".claude.json")
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
        key = self._env["ANTHROPIC_API_KEY"][-20:]
        known |= {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": [key]}}
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known.setdefault("projects", {})[os.path.realpath(self._real_cli.cwd)] = trusted
        with open(path, "w", encoding="utf-8") as file:
            json.dump(known, file)
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(
            [self._real_cli.cli_path, "--resume"],
            cwd=self._real_cli.cwd,
            env=self._env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(patience(SECONDS))
        os.close(self._terminal)

    def press(self, keys: str) -> None:
        self._seen = ""
        os.write(self._terminal, keys.encode())

    def read_until(self, text: str) -> str:
        """Return the texts that were shown since the last key, once `text` is among them."""
        end = time.monotonic() + patience(SECONDS)
        while text not in (shown := _CODES.sub("", _MOVES.sub(" ", self._seen))):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                raise AssertionError(f"{text!r} was not shown: {shown[-3000:]}")
            try:
                self._seen += os.read(self._terminal, 65536).decode("utf-8", "replace")
            except OSError as error:
                raise AssertionError(f"the CLI ended; shown: {shown[-3000:]}") from error
        return shown
