"""Structured output: a value of your type, or a dict."""

from __future__ import annotations

from dataclasses import dataclass

from claim import compare


@dataclass
class Bug:
    title: str
    severity: int


async def hackamore(path: str) -> str:
    import hackamore
    from hackamore import Options

    return repr((await hackamore.run("The worst bug?", Options(cli_path=path), output_type=Bug)).output)


async def official(path: str) -> str:
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

    schema = {"type": "object", "properties": {"title": {"type": "string"}, "severity": {"type": "integer"}}}
    options = ClaudeAgentOptions(cli_path=path, output_format={"type": "json_schema", "schema": schema})
    found = "no result"
    async for message in query(prompt="The worst bug?", options=options):
        if isinstance(message, ResultMessage):
            found = repr(message.structured_output)
    return found


compare(
    "Structured output for a dataclass `Bug`",
    "structured",
    hackamore,
    official,
    {"structured output": lambda found: "Bug(" in found},
)
