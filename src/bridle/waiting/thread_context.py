"""The context variables that a thread of ours is given."""

from __future__ import annotations

import contextvars
import sys
from typing import Any

__all__ = ["context_for_thread"]


def context_for_thread() -> contextvars.Context:
    """Return a copy of the context variables here. It does not say that the event loop of here runs in the other thread, too."""
    context = contextvars.copy_context()
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:  # else nobody asks it
        context.run(sniffio.current_async_library_cvar.set, None)
    return context
