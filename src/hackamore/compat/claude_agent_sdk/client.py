"""`ClaudeSDKClient`: a conversation with the CLI."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Self

from hackamore.compat.claude_agent_sdk._errors import CLIConnectionError
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions, ResultMessage
from hackamore.compat.claude_agent_sdk.types import _configure_can_use_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hackamore.compat.claude_agent_sdk._internal._conversation import Conversation
    from hackamore.compat.claude_agent_sdk._internal.transport import Transport
    from hackamore.compat.claude_agent_sdk._shapes import (
        ContextUsageResponse,
        McpStatusResponse,
        Message,
        PermissionMode,
    )

__all__ = ["ClaudeSDKClient"]


class ClaudeSDKClient:
    """A conversation with the CLI, on a `hackamore.Session`.

    Args:
        options: settings; `ClaudeAgentOptions()` if None.
        transport: connection to the CLI; the local CLI if None.
    """

    def __init__(self, options: ClaudeAgentOptions | None = None, transport: Transport | None = None) -> None:
        self.options = options if options is not None else ClaudeAgentOptions()
        self._custom_transport = transport
        self._transport: Transport | None = None
        self._query: Conversation | None = None

    async def connect(self, prompt: str | AsyncIterable[dict[str, Any]] | None = None) -> None:
        """Start the CLI, and send a prompt.

        Args:
            prompt: a text, user frames, or None.
        """
        from hackamore.compat.claude_agent_sdk._internal._conversation import Conversation, user_frame
        from hackamore.compat.claude_agent_sdk._internal.session_store_validation import validate_session_store_options
        from hackamore.compat.claude_agent_sdk._internal.transport import subprocess_cli

        await self.disconnect()  # a second call must not leave the first CLI behind
        validate_session_store_options(self.options)
        options = _configure_can_use_tool(self.options)
        frames = prompt if isinstance(prompt, AsyncIterable) else _no_frames()
        self._transport = self._custom_transport or subprocess_cli.SubprocessCLITransport(
            prompt=frames, options=options
        )
        conversation = Conversation(options, self._transport)
        try:
            await conversation.start()
            self._query = conversation
            if isinstance(prompt, str):
                await conversation.send(user_frame(prompt, "default"))
            elif prompt is not None:
                conversation.feed(frames, finish=True)
        except BaseException:
            await conversation.close()
            await self.disconnect()
            raise

    def _connected(self) -> Conversation:
        if self._query is None:
            raise CLIConnectionError("Not connected. Call connect() first.")
        return self._query

    async def receive_messages(self) -> AsyncIterator[Message]:
        """Iterate over all messages."""
        conversation = self._connected()
        while (message := await conversation.next_message()) is not None:
            yield message

    async def receive_response(self) -> AsyncIterator[Message]:
        """Iterate over the messages up to the next result."""
        conversation = self._connected()  # not through `receive_messages`: trio warns of a generator that is left open
        while (message := await conversation.next_message()) is not None:
            yield message
            if isinstance(message, ResultMessage):
                return

    async def query(self, prompt: str | AsyncIterable[dict[str, Any]], session_id: str = "default") -> None:
        """Send a prompt.

        Args:
            prompt: a text, or user frames.
            session_id: the field `session_id` of frames that have none.
        """
        from hackamore.compat.claude_agent_sdk._internal._conversation import user_frame

        conversation = self._connected()
        if isinstance(prompt, str):
            await conversation.send(user_frame(prompt, session_id))
            return
        async for frame in prompt:
            await conversation.send({"session_id": session_id, **frame})

    async def interrupt(self) -> None:
        """Interrupt the current turn."""
        await self._connected().control("interrupt")

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        """Change the permission mode."""
        await self._connected().control("set_permission_mode", mode=mode)

    async def set_model(self, model: str | None = None) -> None:
        """Change the model; None selects the default of the CLI."""
        await self._connected().control("set_model", model=model)

    async def rewind_files(self, user_message_id: str) -> None:
        """Restore files as they were at a user message."""
        await self._connected().control("rewind_files", user_message_id=user_message_id)

    async def reconnect_mcp_server(self, server_name: str) -> None:
        """Connect to an MCP server again."""
        await self._connected().control("mcp_reconnect", serverName=server_name)

    async def toggle_mcp_server(self, server_name: str, enabled: bool) -> None:
        """Switch an MCP server on or off."""
        await self._connected().control("mcp_toggle", serverName=server_name, enabled=enabled)

    async def stop_task(self, task_id: str) -> None:
        """Stop a background task."""
        await self._connected().control("stop_task", task_id=task_id)

    async def get_mcp_status(self) -> McpStatusResponse:
        """Return the states of the MCP servers."""
        status: Any = await self._connected().control("mcp_status")
        return status  # type: ignore[no-any-return]

    async def get_context_usage(self) -> ContextUsageResponse:
        """Return the use of the context window."""
        usage: Any = await self._connected().control("get_context_usage")
        return usage  # type: ignore[no-any-return]

    async def get_server_info(self) -> dict[str, Any] | None:
        """Return the answer of the CLI to `initialize`."""
        return self._connected().server_info

    async def disconnect(self) -> None:
        """Stop the CLI."""
        conversation, self._query = self._query, None
        self._transport = None
        if conversation is not None:
            await conversation.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> bool:
        await self.disconnect()
        return False


async def _no_frames() -> AsyncIterator[dict[str, Any]]:
    nothing: tuple[dict[str, Any], ...] = ()
    for frame in nothing:
        yield frame
