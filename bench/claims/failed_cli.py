"""A CLI that fails and says why on stderr: what does the error hold?"""

from __future__ import annotations

from claim import compare


async def hackamore(path: str) -> str:
    import hackamore
    from hackamore import Options

    return (await hackamore.run("Hello", Options(cli_path=path))).text or ""


async def official(path: str) -> str:
    from claude_agent_sdk import ClaudeAgentOptions, query

    return str([message async for message in query(prompt="Hello", options=ClaudeAgentOptions(cli_path=path))])


compare(
    "The CLI writes a reason to stderr and exits with status 3",
    "fails",
    hackamore,
    official,
    {"the CLI fails with a reason on stderr": lambda found: "permission denied" in found},
)
