"""A CLI that is newer than the library: an unknown type of message, and a known one without a field."""

from __future__ import annotations

from claim import compare


async def hackamore(path: str) -> str:
    import hackamore
    from hackamore import Options

    return ", ".join([type(message).__name__ async for message in hackamore.query("Hello", Options(cli_path=path))])


async def official(path: str) -> str:
    from claude_agent_sdk import ClaudeAgentOptions, query

    names = []
    try:
        async for message in query(prompt="Hello", options=ClaudeAgentOptions(cli_path=path)):
            names.append(type(message).__name__)  # noqa: PERF401 - those before the error count
    except Exception as error:
        names.append(f"{type(error).__name__}: {error}")
    return ", ".join(names)


compare(
    "A message of an unknown type, then an assistant message without `model`, an answer, a result",
    "is_newer",
    hackamore,
    official,
    {
        "message of an unknown type": lambda found: "Unknown" in found,
        "assistant message without `model`": lambda found: "MessageParseError" not in found,
    },
)
