"""Get an object back instead of text: give the type as `output_type`.

Dataclasses, TypedDicts, msgspec structs, enums, literals, unions and pydantic models work.
"""

# scripted: Reply(ToolCall("StructuredOutput",
#   {"title": "Parser loses comments", "severity": "high", "files": ["parser.py", "tests/test_parser.py"]})),
#   Repeat("Done.")

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

import hackamore


@dataclass
class Report:
    title: str
    severity: Literal["low", "high"]
    files: list[str]


async def main() -> None:
    answer = await hackamore.run("Describe the worst bug in this folder.", output_type=Report)
    report = answer.output  # a Report: checked when it was made, and known to type checkers
    print(f"{report.severity.upper()}: {report.title}")
    for name in report.files:
        print(f"  {name}")


if __name__ == "__main__":
    asyncio.run(main())
