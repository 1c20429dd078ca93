"""A service with AG-UI in a process of its own, for tests that kill it: `python -m tests.serving.agui.host SETTINGS`."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from hackamore import Approvals, Options, SessionPool
from hackamore.serving import agui
from tests.serving.agui.verifying import Run, frames
from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[3]


class Host:
    """The service, as its clients see it.

    Args:
        folder: has the database of approvals and the registry.
        options: the options of the pool.
    """

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        settings = {"folder": str(folder), "options": options}
        command = [sys.executable, "-m", "tests.serving.agui.host", json.dumps(settings)]
        self._process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """Kill the service without a warning."""
        os.kill(self._process.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """End the service."""
        self._process.terminate()
        self._process.wait(patience(20))
        assert self._process.stdout is not None
        self._process.stdout.close()

    def post(self, text: str | None, run: str, *, thread: str = "t", **more: Any) -> tuple[int, bytes]:
        """Send a run; return the status and the whole body."""
        messages = [{"id": run, "role": "user", "content": text}] if text is not None else []
        given = {"threadId": thread, "runId": run, "messages": messages, **more}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience(60))
        try:
            connection.request("POST", "/", json.dumps(given), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def run(self, text: str | None, run: str, **more: Any) -> Run:
        """Send a run; return what its client knows at its end."""
        status, body = self.post(text, run, **more)
        assert status == 200, body
        return Run(event for _, event in frames(body))


async def main(settings: dict[str, Any]) -> None:
    import uvicorn

    folder = Path(settings["folder"])
    approvals = Approvals(folder / "approvals.db", hold=0)
    options = Options(
        **settings["options"],
        include_partial_messages=True,
        forward_subagent_text=True,
        inherit_env=False,
        approvals=approvals,
    )
    async with SessionPool(options, warm=0, registry=folder / "registry.db") as pool:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            print(listener.getsockname()[1], flush=True)
            app = agui.app(pool, approvals=approvals)
            await uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none")).serve([listener])


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
