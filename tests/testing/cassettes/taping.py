"""What the tests of cassettes share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore.testing import cassette
from tests.support.talking import Running, each, got

if TYPE_CHECKING:
    from hackamore import Options
    from tests.support.shell import Shell


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def kinds(path: Path, session: int = 0) -> list[str]:
    return [line["k"] for line in lines(path)[1:] if line["s"] == session]


async def talk(shell: Shell, options: Options, *prompts: str) -> list[list[bytes]]:
    """Have a conversation; return the bytes of each turn's messages."""
    turns = []
    async with Running(shell, options) as session:
        for prompt in prompts:
            turns.append([message.raw async for message in each(await got(session.send(prompt)))])
            await got(session.wait_idle())
    return turns


def taped(shell: Shell, path: Path, options: Options, *prompts: str, **more: Any) -> list[list[bytes]]:
    """Have a conversation inside of a cassette."""
    turns: list[list[bytes]] = []

    async def scenario() -> None:
        with cassette(path, **more):
            turns.extend(await talk(shell, options, *prompts))

    shell.play(scenario)
    return turns
