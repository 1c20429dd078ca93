"""The control operations that a session has."""

from __future__ import annotations

import inspect
from typing import Any


def operations(session: type) -> dict[str, Any]:
    """Return the methods that wait for an answer of the CLI: those that take a timeout, but for those of the life of a session."""
    methods = inspect.getmembers(session, inspect.isroutine)
    public = {
        name: method
        for name, method in methods
        if not name.startswith("_") and name not in {"finish", "stop", "wait_idle"}
    }
    return {name: method for name, method in public.items() if "timeout" in inspect.signature(method).parameters}
