"""Telling apart what may stand in `mcp_servers`, without importing what it was made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from bridle.tools.server import ToolServer

__all__ = ["ServerKind", "mcp_instance", "server_kind"]

ServerKind = Literal["tools", "mcp", "callable", "external", "unknown"]

_PACKAGES = frozenset({"mcp", "fastmcp"})
_CLASSES = frozenset({"Server", "FastMCP", "MCPServer"})
_EXTERNAL = frozenset({"stdio", "sse", "http", "ws", "claudeai-proxy"})


def server_kind(server: object) -> ServerKind:
    """Return who serves this entry of `mcp_servers`.

    Returns:
        `"tools"`: a `ToolServer`. `"mcp"`: a server object of the `mcp` package (low-level or FastMCP), also inside the dict
        `{"type": "sdk", "instance": ...}`. `"callable"`: a function from one JSON-RPC dict to one. `"external"`: a config of
        a server that the CLI reaches itself. `"unknown"`: none of these.
    """
    if isinstance(server, Mapping):
        kind = server.get("type")
        if kind == "sdk":
            inner = server_kind(server.get("instance"))
            return inner if inner != "external" else "unknown"
        return "external" if kind in _EXTERNAL or (kind is None and "command" in server) else "unknown"
    if isinstance(server, ToolServer):
        return "tools"
    if _is_mcp(server):
        return "mcp"
    if getattr(server, "type", None) in _EXTERNAL and not callable(server):
        return "external"
    return "callable" if callable(server) and not isinstance(server, type) else "unknown"


def mcp_instance(server: Any) -> Any:
    """Return the low-level server of an entry whose kind is `"mcp"`: FastMCP keeps it inside."""
    if isinstance(server, Mapping):
        server = server["instance"]
    for name in ("_mcp_server", "_lowlevel_server"):
        inner = getattr(server, name, None)
        if inner is not None:
            return inner
    return server


def _is_mcp(server: object) -> bool:
    return any(
        kind.__name__ in _CLASSES and kind.__module__.partition(".")[0] in _PACKAGES for kind in type(server).__mro__
    )
