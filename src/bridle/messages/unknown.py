"""Frames that this version of Bridle does not know: delivered like all others, with everything they carry in `data`."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bridle.messages.base import Message
from bridle.messages.system import SystemMessage

__all__ = ["UnknownMessage", "UnknownSystemMessage"]


class UnknownMessage(Message, frozen=True, kw_only=True):
    """A message of a type or subtype that is not known. What it says is in `data`.

    Attributes:
        type: its type on the wire; empty if it has none.
        subtype: its subtype on the wire, if it has one.
    """

    type: str = msgspec.field(default="", name="(type)")
    subtype: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnknownMessage):
            return NotImplemented
        return self.raw == other.raw or (self.data == other.data and self.type == other.type)

    __hash__ = Message.__hash__


class UnknownSystemMessage(UnknownMessage, SystemMessage, frozen=True, kw_only=True):
    """A `system` message of a subtype that is not known: both a `SystemMessage` and an `UnknownMessage`."""

    wire_subtype: ClassVar[str | None] = None

    type: str = msgspec.field(default="system", name="(type)")
