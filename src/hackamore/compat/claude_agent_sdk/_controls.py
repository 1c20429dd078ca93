# Generated from the public annotations of claude-agent-sdk 0.2.187 by scripts/make_compat.py. Do not edit: run `./dev format`.
"""The control requests of the client."""

from __future__ import annotations

from typing import Any, cast

from hackamore.compat.claude_agent_sdk import _shapes as shapes


class Controls:
    """A method for each request."""

    async def _control(self, subtype: str, **fields: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def interrupt(self) -> None:
        await self._control("interrupt")

    async def set_permission_mode(self, mode: shapes.PermissionMode) -> None:
        await self._control("set_permission_mode", mode=mode)

    async def set_model(self, model: str | None = None) -> None:
        await self._control("set_model", model=model)

    async def rewind_files(self, user_message_id: str) -> None:
        await self._control("rewind_files", user_message_id=user_message_id)

    async def reconnect_mcp_server(self, server_name: str) -> None:
        await self._control("mcp_reconnect", serverName=server_name)

    async def toggle_mcp_server(self, server_name: str, enabled: bool) -> None:
        await self._control("mcp_toggle", serverName=server_name, enabled=enabled)

    async def stop_task(self, task_id: str) -> None:
        await self._control("stop_task", task_id=task_id)

    async def get_mcp_status(self) -> shapes.McpStatusResponse:
        return cast("shapes.McpStatusResponse", await self._control("mcp_status"))

    async def get_context_usage(self) -> shapes.ContextUsageResponse:
        return cast("shapes.ContextUsageResponse", await self._control("get_context_usage"))
