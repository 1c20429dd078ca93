"""What importing the tools costs, and that they wait for nothing."""

from __future__ import annotations

import subprocess
import sys

from tests.contract import shows
from tests.support.patience import patience


def test_nothing_heavy_is_loaded() -> None:
    code = "import msgspec, sys; before = set(sys.modules); import hackamore.tools; print(*set(sys.modules) - before)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=patience(30)
    )
    heavy = {"anyio", "asyncio", "trio", "threading", "inspect", "dataclasses", "pydantic", "mcp", "json", "subprocess"}
    assert heavy & set(printed.stdout.split()) == set()


@shows("tools.no-package")
def test_declaring_and_calling_a_tool_needs_no_package() -> None:
    code = """
import sys
from hackamore.tools import tool, tool_server
server = tool_server("x", [tool(lambda: {"a": 1}, name="x")])
message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
plan = server.handle(message)
plan.finish(plan.call())
print(*sys.modules)
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=patience(30)
    )
    assert {"anyio", "asyncio", "trio", "pydantic", "mcp"} & set(printed.stdout.split()) == set()
