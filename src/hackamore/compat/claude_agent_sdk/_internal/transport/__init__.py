# Generated from the public annotations of claude-agent-sdk 0.2.187 by scripts/make_compat.py. Do not edit: run `./dev format`.
"""The transport of the official package: an abstract class that programs may implement."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

__all__ = ["Transport"]


class Transport(ABC):
    @abstractmethod
    async def connect(self) -> None: ...

    @abstractmethod
    async def write(self, data: str) -> None: ...

    @abstractmethod
    def read_messages(self) -> AsyncIterator[dict[str, Any]]: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    async def end_input(self) -> None: ...
