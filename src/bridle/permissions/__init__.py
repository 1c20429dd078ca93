"""Permissions: what the CLI asks before it runs a tool, and the answers. Needs a session, or a query that becomes one.

::

    async def can_use_tool(request: PermissionRequest) -> Allow | Deny:
        if request.tool_name == "Bash" and "rm" in request.input["command"]:
            return Deny("Nothing is deleted here.")
        return Allow()
"""

from __future__ import annotations

from bridle.permissions import requests, results, updates
from bridle.permissions.requests import *
from bridle.permissions.results import *
from bridle.permissions.updates import *

__all__ = []
__all__ += requests.__all__
__all__ += results.__all__
__all__ += updates.__all__
