"""`disallowed_tools="Bash"`: a string where a list belongs."""

from __future__ import annotations

from claim import compare


async def hackamore(path: str) -> str:
    import hackamore
    from hackamore import Options

    wrong: object = "Bash"
    return (await hackamore.run("Hello", Options(cli_path=path, disallowed_tools=wrong))).text or ""  # type: ignore[arg-type]


async def official(path: str) -> str:
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

    wrong: object = "Bash"
    options = ClaudeAgentOptions(cli_path=path, disallowed_tools=wrong)  # type: ignore[arg-type]
    found = "no result"
    async for message in query(prompt="Hello", options=options):
        if isinstance(message, ResultMessage):
            found = f"the CLI gets --disallowedTools {message.result}"
    return found


compare(
    '`disallowed_tools="Bash"`, a string where a list belongs',
    "arguments",
    hackamore,
    official,
    {'`disallowed_tools="Bash"`': lambda found: "OptionsError" in found},
)
