"""Private names of `claude_agent_sdk._internal.query`: the control protocol is that of `hackamore.Session`."""

from __future__ import annotations

from typing import Any

from hackamore.compat._absent import Absent, names_of
from hackamore.compat.claude_agent_sdk._internal._conversation import error_text as _error_result_text
from hackamore.compat.claude_agent_sdk._internal._mapping import run_end_ceiling_ms

__all__ = ["Query", "_error_result_text", "run_end_ceiling_ms"]

__getattr__ = names_of("query")


class Query(Absent):
    """The control protocol of the official package."""

    async def initialize(self) -> Any: ...
