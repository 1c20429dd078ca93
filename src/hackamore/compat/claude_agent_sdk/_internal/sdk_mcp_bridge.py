"""Private names of `claude_agent_sdk._internal.sdk_mcp_bridge`, which Hackamore does in its own way."""

from hackamore.compat.claude_agent_sdk._internal._absent import names_of

__getattr__ = names_of("sdk_mcp_bridge")
