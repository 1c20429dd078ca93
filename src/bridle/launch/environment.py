"""The variables of the CLI's process: contract section 7."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bridle.launch.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.options.options import Options

__all__ = ["CHILD_ID", "ENTRY_POINT", "NOT_INHERITED", "build_environment"]

CHILD_ID = "BRIDLE_CHILD_ID"
"""The variable by which a CLI and its descendants are recognised."""

ENTRY_POINT = "sdk-py-bridle"
"""How the library names itself to the CLI."""

NOT_INHERITED = frozenset(
    {
        # set by the CLI for the shells it starts
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_NOTES_DIR",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SESSION_KIND",
        "CLAUDE_CODE_SESSION_NAME",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_TOOL_USE_ID",
        "CLAUDE_EFFORT",
        "CLAUDE_PID",
        # set by an SDK for the CLI it starts: promises that its host will answer certain requests
        "CLAUDE_AGENT_SDK_VERSION",
        "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
        "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT",
        "CLAUDE_CODE_SDK_HAS_HOST_AUTH_REFRESH",
        "CLAUDE_CODE_SDK_HAS_OAUTH_REFRESH",
        "CLAUDE_CODE_SDK_HAS_SESSIONS_OAUTH_REFRESH",
        "CLAUDE_CODE_SDK_READS_SESSION_STATE",
        "CLAUDE_CODE_SDK_READS_STARTUP_MARKS",
        # meant for a Node.js of the host: a debugger port, a preloaded module
        "NODE_OPTIONS",
        CHILD_ID,
    }
)
"""What an enclosing CLI or SDK sets for itself and for what runs inside of it, as seen with 2.1.328.

`options.env` can set each of them again, except for the child's id. What users configure the CLI with is passed on."""


def build_environment(options: Options, base: Mapping[str, str], child_id: str) -> dict[str, str]:
    """Return the variables of the child.

    Args:
        options: `env`, `inherit_env`, `cwd` and those that become variables.
        base: the variables of this process.
        child_id: the random id of the child.
    """
    if options.inherit_env is True:
        variables = {name: value for name, value in base.items() if name not in NOT_INHERITED}
    elif options.inherit_env is False:
        variables = {}
    else:
        # Named one by one: somebody means it.
        variables = {name: base[name] for name in options.inherit_env if name in base and name != CHILD_ID}
    variables["CLAUDE_CODE_ENTRYPOINT"] = ENTRY_POINT
    for name, value in options.env.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    for option in ROWS:
        if option.environment is not None:
            variables.update(option.environment(options))
    if options.cwd is not None:
        variables["PWD"] = os.path.abspath(options.cwd)
    variables["CLAUDE_CODE_SDK_READS_SESSION_STATE"] = "1"
    variables[CHILD_ID] = child_id
    return variables
