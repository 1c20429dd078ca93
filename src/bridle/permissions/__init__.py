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
    deny,
    encode_permission_result,
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
    decode_update,
    decode_updates,
    encode_update,
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
    "check_can_use_tool",
    "decode_permission_request",
    "decode_update",
    "decode_updates",
    "deny",
    "encode_permission_result",
    "encode_update",
]


def check_can_use_tool(value: object, path: str) -> object:
    """Accept a permission callback; see `bridle.callbacks.check_callback`."""
    from bridle.callbacks import check_callback

    return check_callback(value, path, ("request",))
