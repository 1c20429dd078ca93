"""`query`: one query over the CLI."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from hackamore.compat.claude_agent_sdk._internal.client import InternalClient
from hackamore.compat.claude_agent_sdk._internal.transport import Transport
from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions, Message


async def query(
    *,
    prompt: str | AsyncIterable[dict[str, Any]],
    options: ClaudeAgentOptions | None = None,
    transport: Transport | None = None,
) -> AsyncIterator[Message]:
    messages = InternalClient().process_query(
        prompt=prompt, options=options if options is not None else ClaudeAgentOptions(), transport=transport
    )
    try:
        async for message in messages:
            yield message
    finally:  # the official package leaves the inner iterator to the garbage collector
        close = getattr(messages, "aclose", None)
        if close is not None:
            await close()
