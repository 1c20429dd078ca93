"""`ClaudeSDKClient`: a conversation with the CLI."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Self

from hackamore.compat.claude_agent_sdk import _shapes as shapes
from hackamore.compat.claude_agent_sdk._controls import Controls
from hackamore.compat.claude_agent_sdk._errors import CLIConnectionError
from hackamore.compat.claude_agent_sdk._internal._conversation import Conversation, user_frame
from hackamore.compat.claude_agent_sdk._internal._summaries import validate_session_store_options
from hackamore.compat.claude_agent_sdk._internal.transport import Transport, subprocess_cli
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions, ResultMessage
from hackamore.compat.claude_agent_sdk.types import _configure_can_use_tool


class ClaudeSDKClient(Controls):
    """A conversation with the CLI, on a `hackamore.Session`."""

    def __init__(self, options: ClaudeAgentOptions | None = None, transport: Transport | None = None) -> None:
        self.options: ClaudeAgentOptions = options if options is not None else ClaudeAgentOptions()
        self._custom_transport = transport
        self._transport: Transport | None = None
        self._query: Conversation | None = None

    async def connect(self, prompt: str | AsyncIterable[dict[str, Any]] | None = None) -> None:
        await self.disconnect()  # a second call must not leave the first CLI behind
        validate_session_store_options(self.options)
        options = _configure_can_use_tool(self.options)
        local = subprocess_cli.SubprocessCLITransport
        self._transport = self._custom_transport or local(prompt=prompt or "", options=options)
        conversation = Conversation(options, self._transport)
        try:
            await conversation.start()
            self._query = conversation
            if isinstance(prompt, str):
                await conversation.send(user_frame(prompt, "default"))
            elif prompt is not None:
                conversation.feed(prompt)
        except BaseException:
            await conversation.close()
            await self.disconnect()
            raise

    def _connected(self) -> Conversation:
        if self._query is None:
            raise CLIConnectionError("Not connected. Call connect() first.")
        return self._query

    async def receive_messages(self) -> AsyncIterator[shapes.Message]:
        conversation = self._connected()
        while (message := await conversation.next_message()) is not None:
            yield message

    async def receive_response(self) -> AsyncIterator[shapes.Message]:
        conversation = self._connected()  # not through `receive_messages`: trio warns of a generator that is left open
        while (message := await conversation.next_message()) is not None:
            yield message
            if isinstance(message, ResultMessage):
                return

    async def query(self, prompt: str | AsyncIterable[dict[str, Any]], session_id: str = "default") -> None:
        conversation = self._connected()
        if isinstance(prompt, str):
            await conversation.send(user_frame(prompt, session_id))
            return
        async for frame in prompt:
            await conversation.send({"session_id": session_id, **frame})

    async def _control(self, subtype: str, **fields: Any) -> dict[str, Any]:
        return await self._connected().control(subtype, **fields)

    async def get_server_info(self) -> dict[str, Any] | None:
        return self._connected().server_info

    async def disconnect(self) -> None:
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
