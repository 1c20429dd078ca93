"""Pools over a machine: warm sessions there, and conversations that continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

import hackamore
from hackamore import Options
from hackamore.testing import ScriptedModel
from hackamore.transports.remote import SSH
from tests.support.machines import Sshd, eventually
from tests.support.patience import patience

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell


def test_conversations_continue_over_there(
    far: Sshd, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)  # the user over there has no such folder
    place = SSH(far.host, arguments=far.ssh_arguments, cwd=str(far.work))

    async def scenario(model: ScriptedModel) -> None:
        options = Options(env=model.env)
        async with hackamore.SessionPool(options, warm=1, max_live=2, transport=place) as pool:
            await pool.wait_warm(timeout=patience(60))
            for key in ("ann", "bob", "cy", "ann"):  # more than may live: the first one is resumed
                async with pool.conversation(key) as session:
                    await (await session.send(f"I am {key}.")).result(timeout=patience(60))
            assert pool.stats().live <= 2
            assert {each.cwd for each in await pool.conversations()} == {str(far.work)}

    with ScriptedModel(*["Hello."] * 4) as model:
        anyio.run(scenario, model, backend="trio" if shell.backend == "trio" else "asyncio")
        assert str(model.requests_of("main")[-1].body["messages"]).count("I am ann.") == 2
    assert eventually(lambda: not far.children()), far.lines()
    assert far.files() == []
