"""The transport of the official package: an abstract class that programs may implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Transport"]


class Transport(ABC):
    """Frames as dicts from the CLI, and as lines of JSON to it."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect to the CLI."""

    @abstractmethod
    async def write(self, data: str) -> None:
        """Write one line.

        Args:
            data: a frame as JSON, with its line end.
        """

    @abstractmethod
    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Return an iterator over the frames of the CLI."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether frames can be written."""

    @abstractmethod
    async def end_input(self) -> None:
        """Close the input of the CLI."""
