"""Private names of `claude_agent_sdk._internal.transcript_mirror_batcher`, which Hackamore does in its own way."""

from hackamore.compat.claude_agent_sdk._internal._absent import names_of

__getattr__ = names_of("transcript_mirror_batcher")
