"""The checks of options with a session store."""

from __future__ import annotations

from typing import Any

from hackamore.compat.claude_agent_sdk._shapes import ClaudeAgentOptions, SessionStore


def _store_implements(store: Any, method: str) -> bool:
    """Return whether a store has a method of its own: that of the protocol only raises."""
    own = getattr(type(store), method, None)
    return getattr(store, method, None) is not None and own is not getattr(SessionStore, method, None)


def validate_session_store_options(options: ClaudeAgentOptions) -> None:
    store = options.session_store
    if store is None:
        return
    if options.continue_conversation and options.resume is None and not _store_implements(store, "list_sessions"):
        raise ValueError("continue_conversation needs a session_store with list_sessions(); or set `resume`")
    if options.enable_file_checkpointing:
        raise ValueError(
            "session_store excludes enable_file_checkpointing: copies of files stay on the disk of this host"
        )
