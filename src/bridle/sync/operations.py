"""The control operations of a session: one method for each request of the control protocol, blocking.

Each takes `timeout=` in seconds; None is the deadline of `Timeouts`, infinity is none. Each raises
`ControlRejectedError`, `ControlTimeoutError`, `TooManyPendingRequestsError`, `InitQueueOverflowError` or `SessionClosedError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridle.options.kinds import PermissionMode
    from bridle.protocol.results import (
        BackgroundTasksResult,
        BinaryVersion,
        CancelledMessage,
        ContextUsage,
        ControlResult,
        FileContents,
        FileSuggestions,
        HooksListing,
        InterruptReceipt,
        McpCallResult,
        McpResourceContents,
        McpStatus,
        ModelList,
        OutputStyles,
        PermissionModeOverride,
        PermissionRules,
        ReloadedPlugins,
        RewindResult,
        SessionCost,
        SettingsReport,
        SkillList,
        TaskOutput,
        UsageReport,
    )

__all__ = ["Operations"]


def _some(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


class Operations:
    """The methods; `Session` adds the waiting."""

    def _ask(
        self, subtype: str, fields: Mapping[str, Any], timeout: float | None, operation: str | None = None
    ) -> ControlResult:
        raise NotImplementedError

    def interrupt(self, *, cancel_queued: bool = False, timeout: float | None = None) -> InterruptReceipt:
        """Stop the turn that runs. With `cancel_queued` prompts that wait are withdrawn, too."""
        return cast(
            "InterruptReceipt",
            self._ask("interrupt", {"cancel_queued": True} if cancel_queued else {}, timeout, "interrupt"),
        )

    def set_permission_mode(self, mode: PermissionMode, *, timeout: float | None = None) -> None:
        """Change the permission mode."""
        self._ask("set_permission_mode", {"mode": mode}, timeout, "set_permission_mode")

    def set_model(self, model: str | None = None, *, timeout: float | None = None) -> None:
        """Change the model for later turns; None is the session's default."""
        self._ask("set_model", {"model": model}, timeout, "set_model")

    def rewind_files(
        self, user_message_id: str, *, dry_run: bool = False, timeout: float | None = None
    ) -> RewindResult:
        """Restore files to their state at a prompt. Needs `enable_file_checkpointing`."""
        return cast(
            "RewindResult",
            self._ask(
                "rewind_files", {"user_message_id": user_message_id, "dry_run": dry_run}, timeout, "rewind_files"
            ),
        )

    def set_max_thinking_tokens(
        self, max_thinking_tokens: int | None, *, thinking_display: str | None = None, timeout: float | None = None
    ) -> None:
        """Change the thinking budget; None is the session's default."""
        self._ask(
            "set_max_thinking_tokens",
            _some(thinking_display=thinking_display) | {"max_thinking_tokens": max_thinking_tokens},
            timeout,
            "set_max_thinking_tokens",
        )

    def set_mcp_permission_mode_override(
        self, server_name: str, mode: PermissionMode | None, *, timeout: float | None = None
    ) -> PermissionModeOverride:
        """Narrow the permission mode for one server; None clears it."""
        return cast(
            "PermissionModeOverride",
            self._ask(
                "set_mcp_permission_mode_override",
                {"server_name": server_name, "mode": mode},
                timeout,
                "set_mcp_permission_mode_override",
            ),
        )

    def get_mcp_status(self, *, timeout: float | None = None) -> McpStatus:
        """Return the state of all MCP servers."""
        return cast("McpStatus", self._ask("mcp_status", {}, timeout, "get_mcp_status"))

    def reconnect_mcp_server(self, server_name: str, *, timeout: float | None = None) -> None:
        """Connect a server again."""
        self._ask("mcp_reconnect", {"server_name": server_name}, timeout, "reconnect_mcp_server")

    def toggle_mcp_server(self, server_name: str, enabled: bool, *, timeout: float | None = None) -> None:
        """Switch a server on or off."""
        self._ask("mcp_toggle", {"server_name": server_name, "enabled": enabled}, timeout, "toggle_mcp_server")

    def get_context_usage(self, *, timeout: float | None = None) -> ContextUsage:
        """Return what fills the context window."""
        return cast("ContextUsage", self._ask("get_context_usage", {}, timeout, "get_context_usage"))

    def get_usage(self, *, timeout: float | None = None) -> UsageReport:
        """Return cost and rate limits."""
        return cast("UsageReport", self._ask("get_usage", {}, timeout, "get_usage"))

    def get_settings(self, *, timeout: float | None = None) -> SettingsReport:
        """Return the settings in force."""
        return cast("SettingsReport", self._ask("get_settings", {}, timeout, "get_settings"))

    def list_models(self, *, timeout: float | None = None) -> ModelList:
        """Return the models that can be chosen."""
        return cast("ModelList", self._ask("list_models", {}, timeout, "list_models"))

    def list_permission_rules(self, *, timeout: float | None = None) -> PermissionRules:
        """Return the permission rules in force."""
        return cast("PermissionRules", self._ask("list_permission_rules", {}, timeout, "list_permission_rules"))

    def get_hooks_listing(self, *, timeout: float | None = None) -> HooksListing:
        """Return the hooks that there are, of settings files too."""
        return cast("HooksListing", self._ask("get_hooks_listing", {}, timeout, "get_hooks_listing"))

    def stop_task(self, task_id: str, *, timeout: float | None = None) -> None:
        """Stop a background task."""
        self._ask("stop_task", {"task_id": task_id}, timeout, "stop_task")

    def move_to_background(
        self, *, tool_use_id: str | None = None, timeout: float | None = None
    ) -> BackgroundTasksResult:
        """Move running tools to the background: one, or all."""
        return cast(
            "BackgroundTasksResult",
            self._ask("background_tasks", _some(tool_use_id=tool_use_id), timeout, "move_to_background"),
        )

    def get_task_output(self, task_id: str, *, timeout: float | None = None) -> TaskOutput:
        """Return the end of a background task's output."""
        return cast("TaskOutput", self._ask("get_task_output", {"task_id": task_id}, timeout, "get_task_output"))

    def read_file(
        self, path: str, *, max_bytes: int | None = None, encoding: str | None = None, timeout: float | None = None
    ) -> FileContents:
        """Read a file under the rules of the Read tool."""
        return cast(
            "FileContents",
            self._ask(
                "read_file", _some(max_bytes=max_bytes, encoding=encoding) | {"path": path}, timeout, "read_file"
            ),
        )

    def seed_read_state(self, path: str, mtime: float, *, timeout: float | None = None) -> None:
        """Count a file as read, so that it may be edited."""
        self._ask("seed_read_state", {"path": path, "mtime": mtime}, timeout, "seed_read_state")

    def reload_plugins(self, *, timeout: float | None = None) -> ReloadedPlugins:
        """Reload plugins from disk."""
        return cast("ReloadedPlugins", self._ask("reload_plugins", {}, timeout, "reload_plugins"))

    def reload_skills(self, *, timeout: float | None = None) -> SkillList:
        """Reload skills."""
        return cast("SkillList", self._ask("reload_skills", {}, timeout, "reload_skills"))

    def reload_output_styles(self, *, timeout: float | None = None) -> OutputStyles:
        """Read output styles again."""
        return cast("OutputStyles", self._ask("reload_output_styles", {}, timeout, "reload_output_styles"))

    def apply_flag_settings(self, settings: Mapping[str, Any], *, timeout: float | None = None) -> None:
        """Merge into the settings of the flag layer; a None clears."""
        self._ask("apply_flag_settings", {"settings": dict(settings)}, timeout, "apply_flag_settings")

    def update_settings(self, source: str, settings: Mapping[str, Any], *, timeout: float | None = None) -> None:
        """Write a settings file."""
        self._ask("update_settings", {"source": source, "settings": dict(settings)}, timeout, "update_settings")

    def read_mcp_resource(self, server_name: str, uri: str, *, timeout: float | None = None) -> McpResourceContents:
        """Read a `ui://` resource of a server."""
        return cast(
            "McpResourceContents",
            self._ask("mcp_read_resource", {"server_name": server_name, "uri": uri}, timeout, "read_mcp_resource"),
        )

    def call_mcp_tool(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> McpCallResult:
        """Call a tool of a server without the model."""
        return cast(
            "McpCallResult",
            self._ask("mcp_call", {"tool": tool, "arguments": dict(arguments or {})}, timeout, "call_mcp_tool"),
        )

    def rename_session(self, title: str, *, timeout: float | None = None) -> None:
        """Name the session."""
        self._ask("rename_session", {"title": title}, timeout, "rename_session")

    def set_color(self, color: str, *, timeout: float | None = None) -> None:
        """Change the colour of the session."""
        self._ask("set_color", {"color": color}, timeout, "set_color")

    def get_session_cost(self, *, timeout: float | None = None) -> SessionCost:
        """Return the cost so far, in words."""
        return cast("SessionCost", self._ask("get_session_cost", {}, timeout, "get_session_cost"))

    def get_binary_version(self, *, timeout: float | None = None) -> BinaryVersion:
        """Return the CLI's version."""
        return cast("BinaryVersion", self._ask("get_binary_version", {}, timeout, "get_binary_version"))

    def get_file_suggestions(self, query: str, *, timeout: float | None = None) -> FileSuggestions:
        """Return files that begin like this."""
        return cast("FileSuggestions", self._ask("file_suggestions", {"query": query}, timeout, "get_file_suggestions"))

    def cancel_async_message(self, message_uuid: str, *, timeout: float | None = None) -> CancelledMessage:
        """Withdraw a prompt that waits: `turn.id`."""
        return cast(
            "CancelledMessage",
            self._ask("cancel_async_message", {"message_uuid": message_uuid}, timeout, "cancel_async_message"),
        )

    def register_repo_root(self, directory: str, *, timeout: float | None = None) -> None:
        """Add a root inside the working directory."""
        self._ask("register_repo_root", {"directory": directory}, timeout, "register_repo_root")

    def set_has_subscribers(self, has_subscribers: bool | None, *, timeout: float | None = None) -> None:
        """Tell whether anybody watches the output."""
        self._ask("set_has_subscribers", {"has_subscribers": has_subscribers}, timeout, "set_has_subscribers")
