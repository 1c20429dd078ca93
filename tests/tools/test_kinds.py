"""Who serves an entry of `mcp_servers`, found out without importing what made it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from hackamore import McpHttpServerConfig, McpStdioServerConfig
from hackamore.tools import mcp_instance, server_kind, tool_server
from tests.contract import shows


def server_class(module: str, name: str, *bases: type) -> Any:
    return type(name, bases, {"__module__": module})


LowLevel = server_class("mcp.server.lowlevel.server", "Server")
FastMCP = server_class("mcp.server.fastmcp.server", "FastMCP")
Standalone = server_class("fastmcp.server.server", "FastMCP")
Renamed = server_class("mcp.server.mcpserver.server", "MCPServer")
Derived = server_class("my.code", "MyServer", FastMCP)
OtherServer = server_class("somewhere", "Server")


@shows("tools.kinds")
@pytest.mark.parametrize(
    ("server", "kind"),
    [
        (tool_server("x"), "tools"),
        (LowLevel(), "mcp"),
        (FastMCP(), "mcp"),
        (Standalone(), "mcp"),
        (Renamed(), "mcp"),
        (Derived(), "mcp"),
        ({"type": "sdk", "name": "x", "instance": LowLevel()}, "mcp"),
        ({"type": "sdk", "instance": tool_server("x")}, "tools"),
        ({"type": "sdk", "instance": print}, "callable"),
        ({"type": "sdk"}, "unknown"),
        (lambda message: message, "callable"),
        (print, "callable"),
        ({"type": "stdio", "command": "x"}, "external"),
        ({"command": "x"}, "external"),
        ({"type": "sse", "url": "x"}, "external"),
        ({"type": "http", "url": "x"}, "external"),
        (McpStdioServerConfig(command="x"), "external"),
        (McpHttpServerConfig(url="http://x"), "external"),
        (OtherServer(), "unknown"),
        (LowLevel, "unknown"),
        ({}, "unknown"),
        ({"type": 3}, "unknown"),
        (None, "unknown"),
        ("x", "unknown"),
    ],
)
def test_kinds(server: Any, kind: str) -> None:
    before = "mcp" in sys.modules
    assert server_kind(server) == kind
    assert ("mcp" in sys.modules) == before


def test_the_server_inside() -> None:
    inner = LowLevel()
    outer = FastMCP()
    setattr(outer, "_mcp_server", inner)  # noqa: B010 - as the mcp package does it
    renamed = Renamed()
    setattr(renamed, "_lowlevel_server", inner)  # noqa: B010
    assert mcp_instance(outer) is mcp_instance(renamed) is inner
    assert mcp_instance(inner) is inner
    assert mcp_instance({"type": "sdk", "instance": outer}) is inner
