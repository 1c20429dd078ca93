"""The flags of `bridle trace show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridle.cli.flags import OUTPUT_PANEL

if TYPE_CHECKING:
    from bridle.cli.flags import Flags

__all__ = ["TRACE", "TRACE_EPILOG"]

_FILTERS = "What is shown"

TRACE: Flags = {
    "action": (Annotated[str, typer.Argument(metavar="show", help="What to do: `show`.", show_default=False)], ...),
    "file": (
        Annotated[
            str,
            typer.Argument(metavar="FILE", help="A trace (`Options(trace=...)`) or a cassette.", show_default=False),
        ],
        ...,
    ),
    "session": (
        Annotated[
            list[int] | None,
            typer.Option(
                "--session",
                help="Only this session of the file, counted from 0. Repeatable.",
                show_default=False,
                rich_help_panel=_FILTERS,
            ),
        ],
        None,
    ),
    "kind": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--kind",
                help="Only what is of this kind: prompt, text, tool, hook, permission, mcp, control, background, "
                "result, ... Repeatable.",
                show_default=False,
                rich_help_panel=_FILTERS,
            ),
        ],
        None,
    ),
    "everything": (
        Annotated[
            bool,
            typer.Option(
                "--all", help="Also bookkeeping: states, streamed pieces, handshakes.", rich_help_panel=_FILTERS
            ),
        ],
        False,
    ),
    "full": (
        Annotated[bool, typer.Option("--full", help="Does not shorten texts.", rich_help_panel=_FILTERS)],
        False,
    ),
    "as_json": (
        Annotated[
            bool, typer.Option("--json", help="Writes one JSON object for each event.", rich_help_panel=OUTPUT_PANEL)
        ],
        False,
    ),
    "raw": (
        Annotated[
            bool, typer.Option("--raw", help="Writes the recorded lines themselves.", rich_help_panel=OUTPUT_PANEL)
        ],
        False,
    ),
}

TRACE_EPILOG = """**Examples**

- bridle trace show run.jsonl
- bridle trace show run.jsonl --kind hook --kind permission
- bridle trace show run.jsonl --session 1 --full
- bridle trace show run.jsonl --json | jq 'select(.kind == "tool")'

**Exit codes**

- 0  it was shown, whole or not: what is damaged or was interrupted is said
- 1  nothing in the file can be read
- 2  the command line is wrong, or the file cannot be opened
"""
