"""Where a CLI says more, or something else, than the message classes know: types, fields, blocks, flags.

`./dev new-cli` reports it for a new version. `drift_baseline.py` has the names that are left out on purpose.
"""

from __future__ import annotations

import types
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec

from hackamore.errors import DecodeError
from hackamore.messages import Block, Frame, UnknownMessage, UnknownSystemMessage, decode
from hackamore.testing.conformance.behaviours import our_flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass
class Drift:
    """Observations on the wire that are not modelled. Feed it lines.

    Attributes:
        frames: how many frames of each kind came.
        unknown_types: kinds of frames without a class.
        unknown_fields: `Class.field` of fields without a place.
        unknown_blocks: types of content blocks without a class.
    """

    frames: Counter[str] = field(default_factory=Counter)
    unknown_types: Counter[str] = field(default_factory=Counter)
    unknown_fields: Counter[str] = field(default_factory=Counter)
    unknown_blocks: Counter[str] = field(default_factory=Counter)

    def see(self, line: bytes) -> None:
        """Take one line of the CLI's output."""
        try:
            frame = decode(line.rstrip(b"\r\n"), lambda warning: None)
        except DecodeError:
            return  # a check of `check_cli` reports it
        data = frame.data
        name = "/".join(str(data[key]) for key in ("type", "subtype") if key in data)
        self.frames[name] += 1
        if isinstance(frame, UnknownMessage | UnknownSystemMessage):
            self.unknown_types[name] += 1
            return
        for owner, wire in unmodelled_fields(frame, self.unknown_blocks):
            self.unknown_fields[f"{owner}.{wire}"] += 1


def unmodelled_fields(frame: Frame, blocks: Counter[str] | None = None) -> Iterator[tuple[str, str]]:
    """Return class and name of each field of a frame that its class, or the class of a part of it, does not have."""
    yield from _walk(type(frame), frame.data, blocks if blocks is not None else Counter())


def _walk(kind: type[msgspec.Struct], data: dict[str, Any], blocks: Counter[str]) -> Iterator[tuple[str, str]]:
    known = _fields(kind)
    for name, value in data.items():
        if name in known:
            yield from _into(known[name], value, blocks)
        elif name not in ("type", "subtype"):
            yield kind.__name__, name


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        each.encode_name: each.type for each in msgspec.structs.fields(kind) if not each.encode_name.startswith("(")
    }


def _into(kind: Any, value: Any, blocks: Counter[str]) -> Iterator[tuple[str, str]]:
    choices = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    of_blocks = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, Block)]
    if of_blocks and isinstance(value, dict):
        yield from _block(of_blocks, value, blocks)
        return
    for choice in choices:
        origin = get_origin(choice)
        if origin is list and isinstance(value, list):
            for item in value:
                yield from _into(get_args(choice)[0], item, blocks)
        elif origin is dict and isinstance(value, dict):
            for item in value.values():
                yield from _into(get_args(choice)[1], item, blocks)
        elif isinstance(choice, type) and issubclass(choice, msgspec.Struct) and isinstance(value, dict):
            yield from _walk(choice, value, blocks)


def _block(kinds: list[type[Block]], value: dict[str, Any], blocks: Counter[str]) -> Iterator[tuple[str, str]]:
    for kind in kinds:
        if kind.__struct_config__.tag == value.get("type"):
            yield from _walk(kind, value, blocks)
            return
    blocks[str(value.get("type"))] += 1


def without_row(listed: Iterable[str], baseline: Iterable[str]) -> list[str]:
    """Return the flags of the CLI that no option becomes, apart from those of the baseline."""
    return sorted(set(listed) - our_flags() - set(baseline))
