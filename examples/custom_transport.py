"""A transport of your own: run the CLI behind another command, such as `docker exec` or `ssh`.

`hackamore.transports.base` says what a transport has to do. This one starts `PREFIX claude ...` and speaks with it through
pipes. It is for asyncio; one for `hackamore.sync` has the same methods, blocking.

    CommandTransport("docker", "exec", "--interactive", "--env", "ANTHROPIC_API_KEY", "my-container")
    CommandTransport("ssh", "my-host", quote=True)

What such a prefix does not do by itself: it passes on only the variables that it is told to, and stopping the local
command does not always stop what runs at the other end. `docker exec` is one that leaves it running: give `stop_command`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import tempfile
from typing import TYPE_CHECKING

import anyio

import hackamore
from hackamore import Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hackamore.transports.base import AsyncTransport, LaunchPlan

TAIL = 64 * 1024
GRACE = 5.0


class CommandTransport:
    """Runs the CLI behind a command.

    Args:
        prefix: the command and its arguments.
        quote: True for commands that give what follows to a shell, as ssh does.
        stop_command: a command that ends the CLI at the other end, if ending the prefix does not.
    """

    def __init__(self, *prefix: str, quote: bool = False, stop_command: Sequence[str] = ()) -> None:
        self._prefix = prefix
        self._quote = quote
        self._stop_command = stop_command
        self._process: asyncio.subprocess.Process | None = None
        # A file cannot fill up like a pipe that nobody reads.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def stderr_tail(self) -> bytes:
        if self._stderr.closed:
            return self._tail
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), TAIL, max(0, size - TAIL))

    _tail = b""

    async def start(self, plan: LaunchPlan) -> None:
        rest = [shlex.quote(part) for part in plan.argv] if self._quote else plan.argv
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._prefix,
                *rest,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._stderr,
                env=plan.environment,
                start_new_session=True,  # Ctrl-C is ours to answer
            )
        except OSError as error:
            raise hackamore.SpawnError(self._prefix[0], error.strerror or str(error), errno=error.errno) from error

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError("the transport was not started")
        return self._process

    async def send(self, data: bytes) -> None:
        # Queued by asyncio and written while we read: waiting here could wait for a peer that waits for us.
        stdin = self._started().stdin
        assert stdin is not None
        stdin.write(data)

    async def end_input(self) -> None:
        stdin = self._started().stdin
        assert stdin is not None
        stdin.close()

    async def receive(self) -> bytes:
        stdout = self._started().stdout
        assert stdout is not None
        return await stdout.read(TAIL)

    async def wait_exit(self) -> int | None:
        return await self._started().wait()

    async def stop(self, *, turn_open: bool) -> None:
        process = self._process
        with anyio.CancelScope(shield=True):
            if process is not None and process.returncode is None:
                if not turn_open:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), GRACE)
                if self._stop_command and process.returncode is None:
                    ending = await asyncio.create_subprocess_exec(*self._stop_command)
                    await ending.wait()
                self._signal("terminate")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), GRACE)
                self._signal("kill")
                await process.wait()
        if not self._stderr.closed:
            self._tail = self.stderr_tail
            self._stderr.close()

    def abandon(self) -> None:
        self._signal("kill")

    def _signal(self, name: str) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                getattr(self._process, name)()


async def main() -> None:
    # `env` stands for the command that reaches the other place. There, `cli_path` says where the CLI is.
    transport: AsyncTransport = CommandTransport("env", "THROUGH=a-transport")
    options = Options(cli_path=os.environ.get("HACKAMORE_CLI_PATH", "claude"))
    answer = await hackamore.run("What is 2 + 2?", options, transport=transport)
    print(answer.text)


if __name__ == "__main__":
    asyncio.run(main())
