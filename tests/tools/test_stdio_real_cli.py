"""The real CLI gets the same from a tool server in the process and on the standard streams of another program."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hackamore.sync
from hackamore import Options
from hackamore.testing import Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.tools.stdio_program import made

if TYPE_CHECKING:
    from tests.conftest import RealCLI

PROGRAM = str(Path(__file__).with_name("stdio_program.py"))
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 2, "b": 3}),
    ("add", {"a": "two"}),
    ("article", {"name": "tea"}),
    ("picture", {}),
    ("both", {}),
    ("sold_out", {}),
    ("bug", {}),
    ("steps", {"count": 3}),
]


def given_to_the_model(real_cli: RealCLI, server: Any) -> list[tuple[str, bool]]:
    """Return the content of each result without the names of files, and whether it is an error."""
    script = [Reply(ToolCall(f"mcp__shop__{name}", arguments)) for name, arguments in CALLS]
    with ScriptedModel(*script, "Done.") as model:
        options = Options(
            cli_path=real_cli.cli_path,
            cwd=real_cli.cwd,
            env=real_cli.env(model),
            inherit_env=False,
            permission_mode="bypassPermissions",
            mcp_servers={"shop": server},
        )
        with hackamore.sync.Session(options) as session:
            while (status := [entry.status for entry in session.get_mcp_status().mcp_servers]) != ["connected"]:
                assert status in ([], ["pending"])  # each look is a round trip to the CLI
            assert session.send("go").result().text == "Done."
        results = [request.tool_results[0] for request in model.requests_of("main")[1:]]
    return [(re.sub(r"source: [^\]]+", "", json.dumps(result.content)), result.is_error) for result in results]


@shows("tools.elsewhere")
def test_a_tool_gives_the_same_result_from_another_program(real_cli: RealCLI) -> None:
    """`serve_stdio` in the program, `tool_server` in the process."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    outside = {"command": sys.executable, "args": [PROGRAM, str(real_cli.directory)], "env": environment}
    served = given_to_the_model(real_cli, outside)
    assert served == given_to_the_model(real_cli, made(real_cli.directory))
    assert [is_error for _, is_error in served] == [
        name in {"sold_out", "bug"} or arguments == {"a": "two"} for name, arguments in CALLS
    ]
