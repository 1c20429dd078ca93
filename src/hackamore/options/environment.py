"""Variables that a CLI inherits from its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.options.options import Options

CHILD_ID = "HACKAMORE_CHILD_ID"
"""The variable by which a CLI and its descendants are recognised."""

ENTRY_POINT = "sdk-py"
"""An SDK for Python. The CLI knows its entry points by name: with any other it adds an agent to each request (2.1.330)."""

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
        "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP",
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
"""Variables that an enclosing CLI or SDK sets for itself and for programs inside it, as seen with 2.1.328.

`options.env` can set each of them again, except for the child's id. Variables by which users configure the CLI are passed on."""


def inherited_variables(options: Options, base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the child that are inherited from `base`, or that `env` sets."""
    if options.inherit_env is True:
        variables = {name: value for name, value in base.items() if name not in NOT_INHERITED}
    elif options.inherit_env is False:
        variables = {}
    else:
        # Variables named one by one are intended.
        variables = {name: base[name] for name in options.inherit_env if name in base and name != CHILD_ID}
    variables["CLAUDE_CODE_ENTRYPOINT"] = ENTRY_POINT
    for name, value in options.env.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables
