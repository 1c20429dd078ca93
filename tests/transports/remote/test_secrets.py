"""Canaries of a session over ssh: on no command line of either side, in no log; and those of variables and headers in no trace."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hackamore import Options
from hackamore.testing import Reply, ScriptedModel, ToolCall
from hackamore.transports.remote import SSH
from tests.contract import shows
from tests.support.machines import Sshd, eventually
from tests.support.talking import Held, got, make_over, texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.support.shell import Shell

VARIABLE, NAMED, HEADER, SYSTEM, PROMPT, SETTING = (
    f"canary-{name}-7f3a" for name in ("va", "na", "he", "sy", "pr", "se")
)
SECRETS = (VARIABLE, NAMED, HEADER, SETTING)
ALL = (*SECRETS, SYSTEM, PROMPT)


@contextmanager
def watched(seen: set[bytes]) -> Iterator[None]:
    """Collect the command lines of all processes on this machine, those over there included, for the length of the block."""
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for name in os.listdir("/proc"):
                if name.isdigit():
                    try:
                        seen.add(Path(f"/proc/{name}/cmdline").read_bytes())
                    except OSError:
                        continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@shows("remote.secrets")
def test_canaries(
    far: Sshd, shell: Shell, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", NAMED)
    caplog.set_level(logging.DEBUG)
    trace = tmp_path / "trace"
    place = SSH(far.host, arguments=far.ssh_arguments, cwd=str(far.work), env=["SHOP_PASSWORD"])
    listed: list[str] = []

    def list_processes(*_: Any) -> None:
        listed.append(subprocess.run(["ps", "-efww"], capture_output=True, text=True, check=True).stdout)
        listed.append(far.run("ps -efww").stdout)

    def options(model: ScriptedModel) -> Options:
        return Options(
            env={**model.env, "SHOP_TOKEN": VARIABLE},
            system_prompt=SYSTEM,
            settings={"env": {"SHOP_SETTING": SETTING}},
            mcp_servers={"shop": {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"X-Shop": HEADER}}},
            allowed_tools=["Bash"],
            hooks={"PreToolUse": list_processes},
            trace=trace,
        )

    reply = Reply(
        ToolCall("Bash", {"command": "for v in TOKEN PASSWORD SETTING; do printenv SHOP_$v | cut -c8-; done"})
    )
    seen: set[bytes] = set()

    async def scenario(model: ScriptedModel) -> None:
        async with Held(make_over(shell, options(model), place)) as session:
            assert await texts(await got(session.send(PROMPT))) == ["Done."]
            shown.extend([repr(session), repr(place)])

    shown: list[str] = []
    with ScriptedModel(reply, "Done.") as model, watched(seen):
        shell.play(scenario, model)
        told = str(model.requests_of("main")[-1].body)
    # They arrived.
    assert all(canary.removeprefix("canary-") in told for canary in (VARIABLE, NAMED, SETTING))
    assert SYSTEM in told
    assert PROMPT in told
    lines = b"\n".join(seen).decode(errors="replace")
    assert "-F" in lines  # of ssh
    assert "--output-format" in lines  # of the CLI
    assert len(listed) == 2
    assert all("claude" in text for text in listed)
    logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records if record.name != "root")
    recorded = "".join(path.read_text() for path in [trace, *trace.rglob("*")] if path.is_file())
    assert PROMPT in recorded
    for canary in ALL:
        assert canary not in lines
        assert canary not in "".join(listed)
        assert canary not in logged
        assert canary not in "".join(shown)
    for canary in SECRETS:
        assert canary not in recorded
    assert eventually(lambda: not far.children())
    assert far.files() == []
