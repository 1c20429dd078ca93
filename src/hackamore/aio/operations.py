# Generated from scripts/control_table.toml by scripts/make_operations.py. Do not edit: run `./dev format`.
"""The control operations of a session: one method for each request of the control protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hackamore.checked.fields import to_wire
from hackamore.messages.results import (
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
    ServerInfo,
    SessionCost,
    SettingsReport,
    SkillList,
    TaskOutput,
    UsageReport,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.options.kinds import PermissionMode, SdkPluginConfig

__all__ = ["Operations"]

R = TypeVar("R", bound=ControlResult)


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


class Operations:
    """The methods; `Session` adds the waiting.

    The errors are `ControlRejectedError`, `ControlTimeoutError`, `TooManyPendingRequestsError` and `InitQueueOverflowError`, which are
    all a `ControlError`, and `SessionClosedError`.
    """

    async def _ask(
        self,
        result: type[R],
        subtype: str,
        fields: Mapping[str, Any],
        timeout: float | None,
        operation: str | None = None,
    ) -> R:
        raise NotImplementedError

    async def interrupt(self, *, cancel_queued: bool = False, timeout: float | None = None) -> InterruptReceipt:
        """Interrupt the running turn.

        The answer names turns by their ids.

        Args:
            cancel_queued: True also cancels queued prompts.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `still_queued`, `cancelled`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.

        Example:
            ::

                receipt = await session.interrupt()
        """
        return await self._ask(InterruptReceipt, "interrupt", _given(cancel_queued=cancel_queued or None), timeout)

    async def cancel_async_message(self, message_uuid: str, *, timeout: float | None = None) -> CancelledMessage:
        """Cancel a queued prompt.

        Args:
            message_uuid: id of its turn: `turn.id`.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `cancelled`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(CancelledMessage, "cancel_async_message", {"message_uuid": message_uuid}, timeout)

    async def set_model(self, model: str | None = None, *, timeout: float | None = None) -> None:
        """Change the model for later turns.

        Args:
            model: name or alias of the model; None selects the default of the CLI, not `Options.model`.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.

        Example:
            ::

                await session.set_model("sonnet")
        """
        await self._ask(ControlResult, "set_model", {"model": model}, timeout)

    async def set_max_thinking_tokens(
        self, max_thinking_tokens: int | None, *, thinking_display: str | None = None, timeout: float | None = None
    ) -> None:
        """Change the thinking budget.

        Args:
            max_thinking_tokens: tokens; None for the default of the session.
            thinking_display: `summarized`, `omitted` or `highlights`; None leaves it unchanged.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(
            ControlResult,
            "set_max_thinking_tokens",
            {"max_thinking_tokens": max_thinking_tokens, **_given(thinking_display=thinking_display)},
            timeout,
        )

    async def get_context_usage(
        self, *, detail: Literal["summary", "full"] = "full", timeout: float | None = None
    ) -> ContextUsage:
        """Return the contents of the context window by size.

        Args:
            detail: `full` counts tokens with requests to the API; `summary` estimates them without requests.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `total_tokens`, `max_tokens`, `percentage`, `categories`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(ContextUsage, "get_context_usage", {"detail": detail}, timeout)

    async def set_permission_mode(self, mode: PermissionMode, *, timeout: float | None = None) -> None:
        """Change the permission mode.

        Args:
            mode: the new mode.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.

        Example:
            ::

                await session.set_permission_mode("acceptEdits")
        """
        await self._ask(ControlResult, "set_permission_mode", {"mode": mode}, timeout)

    async def list_permission_rules(self, *, timeout: float | None = None) -> PermissionRules:
        """Return the permission rules in force.

        `state` has `rules`.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `state`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(PermissionRules, "list_permission_rules", {}, timeout)

    async def set_mcp_permission_mode_override(
        self, server_name: str, mode: PermissionMode | None, *, timeout: float | None = None
    ) -> PermissionModeOverride:
        """Narrow the permission mode for one MCP server.

        Args:
            server_name: name of the server.
            mode: the mode for its tools; None removes the override.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `warning`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(
            PermissionModeOverride,
            "set_mcp_permission_mode_override",
            {"server_name": server_name, "mode": mode},
            timeout,
        )

    async def register_repo_root(self, directory: str, *, timeout: float | None = None) -> None:
        """Add a root folder inside the working directory.

        Args:
            directory: path of the folder; the CLI refuses one outside the working directory.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "register_repo_root", {"directory": directory}, timeout)

    async def rewind_files(
        self, user_message_id: str, *, dry_run: bool = False, timeout: float | None = None
    ) -> RewindResult:
        """Restore files to their state at a prompt.

        Args:
            user_message_id: id of the prompt: `turn.id`.
            dry_run: True only reports what would change.
            timeout: seconds to wait for the answer; None for `Timeouts.rewind`, infinity for no limit.

        Returns:
            The answer, with `can_rewind`, `files_changed`, `insertions`, `deletions`.

        Raises:
            CheckpointingNotEnabledError: the session has no `Options(enable_file_checkpointing=True)`.
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.

        Example:
            ::

                await session.rewind_files(turn.id)
        """
        return await self._ask(
            RewindResult, "rewind_files", {"user_message_id": user_message_id, "dry_run": dry_run}, timeout
        )

    async def read_file(
        self, path: str, *, max_bytes: int | None = None, encoding: str | None = None, timeout: float | None = None
    ) -> FileContents:
        """Read a file under the rules of the Read tool.

        Args:
            path: path of the file, absolute or relative to the working directory.
            max_bytes: limit in bytes; None for 1 MB.
            encoding: `utf-8` or `base64`; None for `utf-8`.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `contents`, `abs_path`, `truncated`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(
            FileContents, "read_file", {"path": path, **_given(max_bytes=max_bytes, encoding=encoding)}, timeout
        )

    async def seed_read_state(self, path: str, mtime: float, *, timeout: float | None = None) -> None:
        """Mark a file as read, so that the model may edit it.

        Args:
            path: path of the file.
            mtime: its modification time in milliseconds since 1970.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "seed_read_state", {"path": path, "mtime": mtime}, timeout)

    async def get_file_suggestions(self, query: str, *, timeout: float | None = None) -> FileSuggestions:
        """Return the files that complete a partial path.

        Args:
            query: the partial path.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `suggestions`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(FileSuggestions, "file_suggestions", {"query": query}, timeout, "get_file_suggestions")

    async def stop_task(self, task_id: str, *, timeout: float | None = None) -> None:
        """Stop a background task.

        The CLI also accepts the id of a task that does not exist.

        Args:
            task_id: id of the task.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "stop_task", {"task_id": task_id}, timeout)

    async def move_to_background(
        self, *, tool_use_id: str | None = None, timeout: float | None = None
    ) -> BackgroundTasksResult:
        """Move running tools to the background.

        Only tools that `task_started` reported can be moved (a shell after two to four seconds). `backgrounded` is
        None if the CLI does not report success.

        Args:
            tool_use_id: id of one tool call; None for all.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `backgrounded`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(
            BackgroundTasksResult, "background_tasks", _given(tool_use_id=tool_use_id), timeout, "move_to_background"
        )

    async def get_task_output(self, task_id: str, *, timeout: float | None = None) -> TaskOutput:
        """Return the last 8 KiB of the output of a shell task.

        Args:
            task_id: id of the task.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `output`, `total_bytes`, `truncated`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(TaskOutput, "get_task_output", {"task_id": task_id}, timeout)

    async def get_mcp_status(self, *, timeout: float | None = None) -> McpStatus:
        """Return the state of all MCP servers.

        Each of `mcp_servers` has `name`, `status`, `tools` and `error`.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `mcp_servers`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(McpStatus, "mcp_status", {}, timeout, "get_mcp_status")

    async def reconnect_mcp_server(self, server_name: str, *, timeout: float | None = None) -> None:
        """Connect an MCP server again.

        Args:
            server_name: name of the server.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "mcp_reconnect", {"server_name": server_name}, timeout, "reconnect_mcp_server")

    async def toggle_mcp_server(self, server_name: str, enabled: bool, *, timeout: float | None = None) -> None:
        """Enable or disable an MCP server.

        Args:
            server_name: name of the server.
            enabled: True to enable it.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(
            ControlResult, "mcp_toggle", {"server_name": server_name, "enabled": enabled}, timeout, "toggle_mcp_server"
        )

    async def call_mcp_tool(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> McpCallResult:
        """Call a tool of an MCP server without the model.

        Not for in-process servers: call the function itself.

        Args:
            tool: full name of the tool: `mcp__server__tool`.
            arguments: input of the tool; None for none.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `content`, `structured_content`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(
            McpCallResult, "mcp_call", {"tool": tool, "arguments": dict(arguments or {})}, timeout, "call_mcp_tool"
        )

    async def read_mcp_resource(
        self, server_name: str, uri: str, *, timeout: float | None = None
    ) -> McpResourceContents:
        """Read a `ui://` resource of an MCP server.

        Args:
            server_name: name of the server.
            uri: URI of the resource; it begins with `ui://`.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `contents`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(
            McpResourceContents,
            "mcp_read_resource",
            {"server_name": server_name, "uri": uri},
            timeout,
            "read_mcp_resource",
        )

    async def get_settings(self, *, timeout: float | None = None) -> SettingsReport:
        """Return the settings in force.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `effective`, `sources`, `errors`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(SettingsReport, "get_settings", {}, timeout)

    async def apply_flag_settings(self, settings: Mapping[str, Any], *, timeout: float | None = None) -> None:
        """Merge into the settings of the command line, for this session.

        Args:
            settings: settings by their names in settings files; None clears one.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "apply_flag_settings", {"settings": dict(settings)}, timeout)

    async def update_settings(self, source: str, settings: Mapping[str, Any], *, timeout: float | None = None) -> None:
        """Write to a settings file.

        The CLI accepts few keys: `effortLevel` of the user, `outputStyle` of the local file.

        Args:
            source: `userSettings` or `localSettings`.
            settings: settings by their names in settings files; None clears one.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "update_settings", {"source": source, "settings": dict(settings)}, timeout)

    async def get_hooks_listing(self, *, timeout: float | None = None) -> HooksListing:
        """Return all hooks, including those of settings files.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `hooks`, `events`, `errors`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(HooksListing, "get_hooks_listing", {}, timeout)

    async def reload_plugins(
        self,
        *,
        add_plugins: Sequence[SdkPluginConfig | Mapping[str, Any]] = (),
        hold_on_cache_impact: bool = False,
        refuse_if_busy: bool = False,
        timeout: float | None = None,
    ) -> ReloadedPlugins:
        """Reload plugins from disk.

        Args:
            add_plugins: further plugins, as in `Options(plugins=...)`; their paths are absolute.
            hold_on_cache_impact: True changes nothing if the new tools would invalidate the prompt cache; `held` of
                the answer is then True.
            refuse_if_busy: True raises `ControlRejectedError` while a turn runs (`code` is `reload_plugins_busy`).
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `commands`, `agents`, `plugins`, `error_count`, `held`, `cache_impact`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(
            ReloadedPlugins,
            "reload_plugins",
            _given(
                add_plugins=to_wire(tuple(add_plugins)) or None,
                hold_on_cache_impact=hold_on_cache_impact or None,
                refuse_if_busy=refuse_if_busy or None,
            ),
            timeout,
        )

    async def reload_skills(self, *, timeout: float | None = None) -> SkillList:
        """Reload skills from disk.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `skills`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(SkillList, "reload_skills", {}, timeout)

    async def reload_output_styles(self, *, timeout: float | None = None) -> OutputStyles:
        """Reload output styles from disk.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `available_output_styles`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(OutputStyles, "reload_output_styles", {}, timeout)

    async def reinitialize(self, *, timeout: float | None = None) -> ServerInfo:
        """Return the current answer of the CLI to the handshake.

        Hooks, tools, agents and prompts of the session stay. `Session.server_info` keeps the answer of the start.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.initialize`, infinity for no limit.

        Returns:
            The answer, with `commands`, `agents`, `models`, `session_state`, `current_permission_mode`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(ServerInfo, "initialize", {}, timeout, "reinitialize")

    async def list_models(self, *, timeout: float | None = None) -> ModelList:
        """Return the available models.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `models`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(ModelList, "list_models", {}, timeout)

    async def get_usage(self, *, skip_behaviors: bool = False, timeout: float | None = None) -> UsageReport:
        """Return cost and rate limits.

        Args:
            skip_behaviors: True does not read local transcripts; `behaviors` of the answer is then None.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `session`, `rate_limits`, `behaviors`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        return await self._ask(UsageReport, "get_usage", _given(skip_behaviors=skip_behaviors or None), timeout)

    async def get_session_cost(self, *, timeout: float | None = None) -> SessionCost:
        """Return the cost so far as a text.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `text`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(SessionCost, "get_session_cost", {}, timeout)

    async def get_binary_version(self, *, timeout: float | None = None) -> BinaryVersion:
        """Return the version of the CLI.

        Args:
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Returns:
            The answer, with `version`, `build_time`.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
        """
        return await self._ask(BinaryVersion, "get_binary_version", {}, timeout)

    async def rename_session(self, title: str, *, timeout: float | None = None) -> None:
        """Change the title of the session.

        Args:
            title: the new title.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "rename_session", {"title": title}, timeout)

    async def set_color(self, color: str, *, timeout: float | None = None) -> None:
        """Change the color of the session.

        Current versions of the CLI refuse it.

        Args:
            color: name of the color, or `default`.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "set_color", {"color": color}, timeout)

    async def set_has_subscribers(self, has_subscribers: bool | None, *, timeout: float | None = None) -> None:
        """Tell the CLI whether the output has readers.

        Args:
            has_subscribers: True if it has; None if that is unknown.
            timeout: seconds to wait for the answer; None for `Timeouts.control`, infinity for no limit.

        Raises:
            ControlError: the CLI refused the request, did not answer in time, or too many requests wait.
            SessionClosedError: the session is over.
            TypeError, ValueError: an argument has an unsupported type or value.
        """
        await self._ask(ControlResult, "set_has_subscribers", {"has_subscribers": has_subscribers}, timeout)
