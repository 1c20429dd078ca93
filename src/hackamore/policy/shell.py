"""Shell commands, taken apart by a grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hackamore.policy.uses import Reading

if TYPE_CHECKING:
    from collections.abc import Callable


def read_command(command: Any, cwd: str, resolve: Callable[[str], str]) -> Reading:
    """Return the parts of a command."""
    return Reading((), ("shell commands are not read yet",))
