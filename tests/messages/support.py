"""The synthetic frames, and walks through their typed fields."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec

from hackamore.messages import Block, Frame, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hackamore.errors import StreamWarning

Path_ = tuple[str | int, ...]
LINES: list[bytes] = (Path(__file__).parent / "frames.jsonl").read_bytes().rstrip(b"\n").split(b"\n")


def line_name(line: bytes) -> str:
    data = json.loads(line)
    return "/".join(data[key] for key in ("type", "subtype") if key in data)


def line_of(name: str) -> bytes:
    return next(line for line in LINES if line_name(line).startswith(name))


def encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def quietly(line: bytes) -> Frame:
    """Decode a line that must give no warning."""
    frame, warnings = loudly(line)
    assert warnings == []
    return frame


def loudly(line: bytes) -> tuple[Frame, list[StreamWarning]]:
    warnings: list[StreamWarning] = []
    return decode(line, warnings.append), warnings


def wire_fields(kind: type[msgspec.Struct]) -> Iterator[msgspec.structs.FieldInfo]:
    """The fields that come from the wire: not `raw`, and not the type that is told by the class."""
    return (field for field in msgspec.structs.fields(kind) if field.encode_name not in {"(raw)", "(type)"})


def choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in {Union, types.UnionType} else (kind,)


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def walk(kind: type[msgspec.Struct], value: dict[str, Any], path: Path_ = ()) -> Iterator[tuple[Path_, Any, type, str]]:
    """Every typed place in a frame: its path, its type, and the class and field it belongs to."""
    for field in wire_fields(kind):
        if field.encode_name in value:
            yield from _places(
                field.type, value[field.encode_name], (*path, field.encode_name), kind, field.encode_name
            )


def _places(kind: Any, value: Any, path: Path_, owner: type, name: str) -> Iterator[tuple[Path_, Any, type, str]]:
    yield path, kind, owner, name
    for choice in choices(kind):
        if isinstance(value, list) and get_origin(choice) is list:
            for index, item in enumerate(value):
                yield from _places(get_args(choice)[0], item, (*path, index), owner, name)
        elif isinstance(value, dict) and get_origin(choice) is dict:
            for key, item in value.items():
                yield from _places(get_args(choice)[1], item, (*path, key), owner, name)
        elif (
            isinstance(value, dict)
            and is_struct(choice)
            and (not issubclass(choice, Block) or choice.__struct_config__.tag == value["type"])
        ):
            yield from walk(choice, value, path)


def spelled(path: Path_) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def replaced(value: Any, path: Path_, new: object) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        assert isinstance(step, int)
        return [*value[:step], replaced(value[step], rest, new), *value[step + 1 :]]
    return {**value, step: replaced(value[step], rest, new)}
