"""The program is killed with SIGKILL while the CLI works: does the CLI keep working?"""

from __future__ import annotations

import os
import subprocess

from claim import compare, python, when_stopped

HACKAMORE = """
import asyncio, os, hackamore
async def main():
    async for message in hackamore.query("Work.", hackamore.Options(cli_path=os.environ["CLAIM_CLI"])):
        if message.type == "assistant":
            print("at work", flush=True)
asyncio.run(main())
"""
OFFICIAL = """
import asyncio, os, claude_agent_sdk as sdk
async def main():
    async for message in sdk.query(prompt="Work.", options=sdk.ClaudeAgentOptions(cli_path=os.environ["CLAIM_CLI"])):
        if isinstance(message, sdk.AssistantMessage):
            print("at work", flush=True)
asyncio.run(main())
"""


async def _killed(program: str, path: str) -> str:
    environment = os.environ | {"CLAIM_CLI": path}
    host = subprocess.Popen(python(program), stdout=subprocess.PIPE, text=True, env=environment)
    assert host.stdout is not None
    host.stdout.readline()
    host.kill()
    host.wait()
    return f"after that {await when_stopped(10)}"


async def hackamore(path: str) -> str:
    return await _killed(HACKAMORE, path)


async def official(path: str) -> str:
    return await _killed(OFFICIAL, path)


compare(
    "The program is killed with SIGKILL while the CLI and its shell work",
    "works",
    hackamore,
    official,
    {"your program is killed with SIGKILL": lambda found: "still runs" not in found},
)
