"""An MCP server that an editor names: one tool."""

from __future__ import annotations

from hackamore import tool_server
from hackamore.sync import serve_stdio


def open_file(name: str) -> str:
    """Open a file in the editor."""
    return f"opened {name}"


if __name__ == "__main__":
    serve_stdio(tool_server("editor", [open_file]))
