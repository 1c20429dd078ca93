"""`InternalClient.process_query`, which instrumentations wrap: one query from its prompt to its last message."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from hackamore.compat.claude_agent_sdk._internal._conversation import Conversation, user_frame
from hackamore.compat.claude_agent_sdk._internal._summaries import validate_session_store_options
from hackamore.compat.claude_agent_sdk._internal.transport import Transport
from hackamore.compat.claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions, Message
from hackamore.compat.claude_agent_sdk.types import _configure_can_use_tool


class InternalClient:
    """Runs queries."""

    async def process_query(
        self,
        prompt: str | AsyncIterable[dict[str, Any]],
        options: ClaudeAgentOptions,
        transport: Transport | None = None,
    ) -> AsyncIterator[Message]:
        if not isinstance(prompt, (str, AsyncIterable)):
            raise TypeError(f"`prompt` must be a str or an async iterable of frames, not {type(prompt).__name__}.")
        validate_session_store_options(options)
        configured = _configure_can_use_tool(options)
        chosen = transport if transport is not None else SubprocessCLITransport(prompt=prompt, options=configured)
        conversation = Conversation(configured, chosen)
        try:
            await conversation.start()
            if isinstance(prompt, str):
                await conversation.send(user_frame(prompt, ""))
                await conversation.end_input()
            else:
                conversation.feed(prompt)
            while (message := await conversation.next_message()) is not None:
                yield message
        finally:
            await conversation.close()
