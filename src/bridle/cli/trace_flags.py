"""The flags of `bridle trace show`."""

from __future__ import annotations

from bridle.cli.flags import OUTPUT_PANEL, Flags, argument, flag

__all__ = ["TRACE", "TRACE_EPILOG"]

_FILTERS = "What is shown"

TRACE: Flags = {
    "action": argument("show", "What to do: `show`.", required=True),
    "file": argument("FILE", "A trace (`Options(trace=...)`) or a cassette.", required=True),
    "session": flag(
        list[int], "--session", help="Only this session of the file, counted from 0. Repeatable.", panel=_FILTERS
    ),
    "kind": flag(
        list[str],
        "--kind",
        help="Only what is of this kind: prompt, text, tool, hook, permission, mcp, control, background, result, ... "
        "Repeatable.",
        panel=_FILTERS,
    ),
    "everything": flag(bool, "--all", help="Also bookkeeping: states, streamed pieces, handshakes.", panel=_FILTERS),
    "full": flag(bool, "--full", help="Does not shorten texts.", panel=_FILTERS),
    "as_json": flag(bool, "--json", help="Writes one JSON object for each event.", panel=OUTPUT_PANEL),
    "raw": flag(bool, "--raw", help="Writes the recorded lines themselves.", panel=OUTPUT_PANEL),
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
