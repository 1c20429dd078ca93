"""`MCP_MAJOR`: the major version of `mcp`, which decides how its servers are built."""

from __future__ import annotations

from typing import Any

from hackamore.compat._absent import names_of


def __getattr__(name: str) -> Any:
    if name == "MCP_MAJOR":  # not at import: `mcp` alone takes half a second
        import mcp.types

        return 2 if hasattr(mcp.types, "jsonrpc_message_adapter") else 1
    return names_of("_mcp_compat")(name)
