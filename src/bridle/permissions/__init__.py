"""Permissions: what the CLI asks before it runs a tool, and the answers. Needs a session, or a query that becomes one.

::

    async def can_use_tool(request: PermissionRequest) -> Allow | Deny:
        if request.tool_name == "Bash" and "rm" in request.input["command"]:
            return Deny("Nothing is deleted here.")
        return Allow()
"""

from __future__ import annotations

from bridle.permissions.requests import (
    MatchedAskRule,
    McpServerProvenance,
    PermissionRequest,
    PermissionRequestError,
    decode_permission_request,
)
from bridle.permissions.results import (
    Allow,
    Deny,
    PermissionDecisionClassification,
    PermissionResult,
    PermissionResultError,
)
from bridle.permissions.updates import (
    AddDirectories,
    AddRules,
    PermissionBehavior,
    PermissionRule,
    PermissionUpdate,
    PermissionUpdateDestination,
    RemoveDirectories,
    RemoveRules,
    ReplaceRules,
    SetMode,
    UnknownPermissionUpdate,
)

__all__ = [
    "AddDirectories",
    "AddRules",
    "Allow",
    "Deny",
    "MatchedAskRule",
    "McpServerProvenance",
    "PermissionBehavior",
    "PermissionDecisionClassification",
    "PermissionRequest",
    "PermissionRequestError",
    "PermissionResult",
    "PermissionResultError",
    "PermissionRule",
    "PermissionUpdate",
    "PermissionUpdateDestination",
    "RemoveDirectories",
    "RemoveRules",
    "ReplaceRules",
    "SetMode",
    "UnknownPermissionUpdate",
    "decode_permission_request",
]
