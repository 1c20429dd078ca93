"""A model whose calls wait for a person, and a program that asks and is killed: `python -m tests.approvals.waiting SETTINGS`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hackamore
from hackamore import Approvals, Options
from hackamore.testing import Reply, ToolCall
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.testing.model.requests import ModelRequest

PROJECT = Path(__file__).resolve().parent.parent.parent
LOST = "The conversation does not show a call."


def writer(request: ModelRequest) -> Reply:
    """Call Write for the prompt `Write FILE` until a call has run; a conversation without that prompt has nothing to repeat."""
    asked = next((prompt.split()[1] for prompt in request.prompts if prompt.startswith("Write ")), None)
    if asked is None:
        return Reply(LOST)
    if any(not result.is_error for result in request.tool_results):
        return Reply("Done.")
    return Reply(ToolCall("Write", {"file_path": asked, "content": "one"}))


def wait_until(found: Callable[[], Any], what: str) -> Any:
    """Return the first true value of a function; other processes make it true."""
    until = time.monotonic() + patience(60)
    while not (value := found()):
        assert time.monotonic() < until, what
        time.sleep(0.02)
    return value


def start(folder: Path, key: str, prompt: str, options: Options, hold: float) -> subprocess.Popen[bytes]:
    """Start a program that sends a prompt in a conversation of a pool, on the database and the registry of a folder."""
    settings = {
        "folder": str(folder),
        "key": key,
        "prompt": prompt,
        "hold": hold,
        "options": {"cli_path": str(options.cli_path), "cwd": str(options.cwd), "env": dict(options.env)},
    }
    command = [sys.executable, "-m", "tests.approvals.waiting", json.dumps(settings)]
    return subprocess.Popen(command, cwd=PROJECT, start_new_session=True)


async def _ask(settings: dict[str, Any]) -> None:
    folder = Path(settings["folder"])
    approvals = Approvals(folder / "approvals.db", hold=settings["hold"])
    options = Options(**settings["options"], inherit_env=False, approvals=approvals)
    async with (
        hackamore.SessionPool(options, warm=0, registry=folder / "registry.db") as pool,
        pool.conversation(settings["key"]) as session,
    ):
        await (await session.send(settings["prompt"])).result()


if __name__ == "__main__":
    asyncio.run(_ask(json.loads(sys.argv[1])))
