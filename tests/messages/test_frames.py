"""Every frame that is known decodes into its class, keeps its bytes, and behaves as a value."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import msgspec
import pytest

import hackamore.messages
from hackamore.messages import CONTROL_TYPES, MESSAGE_TYPES, Block, Frame, KnownBlock, Message, Record, from_data
from tests.messages.support import LINES, choices, encode, line_name, line_of, loudly, quietly, wire_fields
from tests.support.seeds import seeded

every_frame = pytest.mark.parametrize("line", LINES, ids=line_name)


def class_of(line: bytes) -> type[Frame]:
    data = json.loads(line)
    if data["type"] in CONTROL_TYPES:
        return CONTROL_TYPES[data["type"]]
    subtype = data["subtype"] if data["type"] == "system" else None
    return MESSAGE_TYPES[data["type"], subtype]


def test_there_is_a_line_for_every_class() -> None:
    assert {class_of(line) for line in LINES} == {*MESSAGE_TYPES.values(), *CONTROL_TYPES.values()}


@every_frame
def test_the_class_the_type_and_the_bytes(line: bytes) -> None:
    frame = quietly(line)
    data = json.loads(line)
    assert type(frame) is class_of(line)
    assert frame.type == data["type"]
    assert frame.raw == line
    assert frame.raw_json == line.decode()
    assert frame.data == data
    assert isinstance(frame, Message) == (data["type"] not in CONTROL_TYPES)
    if data["type"] in {"system", "result"}:
        assert frame.subtype == data["subtype"]  # type: ignore[attr-defined]


@every_frame
def test_every_field_is_read(line: bytes) -> None:
    def read(value: Any, wire: dict[str, Any]) -> None:
        for field in wire_fields(type(value)):
            assert field.encode_name in wire, f"{type(value).__name__}.{field.name} is not in the synthetic frame"
            got = getattr(value, field.name)
            if isinstance(got, msgspec.Raw):
                assert json.loads(bytes(got)) == wire[field.encode_name]
                assert getattr(value, field.name.removesuffix("_raw")) == wire[field.encode_name]
            elif isinstance(got, Record):
                read(got, wire[field.encode_name])
            elif isinstance(got, list) and got and isinstance(got[0], Record):
                for item, part in zip(got, wire[field.encode_name], strict=True):
                    read(item, part)
            elif isinstance(got, dict) and any(isinstance(item, Record) for item in got.values()):
                for name, item in got.items():
                    read(item, wire[field.encode_name][name])
            else:
                assert got == wire[field.encode_name]

    read(quietly(line), json.loads(line))


@every_frame
def test_key_order_and_white_space_mean_nothing(line: bytes) -> None:
    frame = quietly(line)
    shuffle = random.Random(seeded(7))
    data = json.loads(line)
    for _ in range(5):
        keys = list(data)
        shuffle.shuffle(keys)
        shuffled = quietly(encode({key: data[key] for key in keys}))
        assert shuffled == frame
        assert hash(shuffled) == hash(frame)
    assert quietly(b" " + line + b" \r").data == frame.data
    spaced = quietly(json.dumps(data, indent=1).replace("\n", " ").encode())
    assert type(spaced) is type(frame)


@every_frame
def test_frames_are_values(line: bytes) -> None:
    frame = quietly(line)
    for other in (copy.copy(frame), copy.deepcopy(frame), pickle.loads(pickle.dumps(frame)), quietly(line)):
        assert other == frame
        assert other.raw == frame.raw
        assert type(other) is type(frame)
    with pytest.raises(AttributeError):
        frame.raw = b""  # type: ignore[misc]
    assert frame != 1
    assert type(frame)() != frame


@every_frame
def test_repr_names_the_class(line: bytes) -> None:
    text = repr(quietly(line))
    assert text.startswith(type(quietly(line)).__name__ + "(")
    assert "(raw)" not in text
    assert " raw=" not in text


@every_frame
def test_unknown_fields_are_ignored_and_kept(line: bytes) -> None:
    data = json.loads(line)
    frame = quietly(encode({**data, "from_the_future": {"a": [1]}, "raw": 5}))
    assert frame == quietly(line)
    assert frame.data["from_the_future"] == {"a": [1]}
    assert frame.data["raw"] == 5


@pytest.mark.parametrize("kind", [*MESSAGE_TYPES, *((name, None) for name in CONTROL_TYPES)])
def test_only_the_type_is_required(kind: tuple[str, str | None]) -> None:
    name, subtype = kind
    data = {"type": name} if subtype is None else {"type": name, "subtype": subtype}
    frame = quietly(encode(data))
    assert type(frame) is (MESSAGE_TYPES.get(kind) or CONTROL_TYPES[name])
    for attribute in dir(type(frame)):
        if not attribute.startswith("_") and attribute != "raise_for_error":
            getattr(frame, attribute)


def test_the_wire_cannot_set_raw() -> None:
    for name in ("raw", "(raw)"):
        for value in ("eHg=", 5, None):
            line = encode({"type": "user", name: value})
            assert loudly(line)[0].raw == line


def test_there_is_a_class_for_every_block() -> None:
    blocks = {block.type for block in quietly(line_of("assistant")).content}  # type: ignore[attr-defined]
    assert blocks == {kind.__struct_config__.tag for kind in choices(KnownBlock)}
    assert len(blocks) == 23


def test_everything_is_exported_once() -> None:
    assert len(set(hackamore.messages.__all__)) == len(hackamore.messages.__all__)
    classes = {
        name
        for module in ("content", "conversation", "stream", "system", "control")
        for name, kind in vars(getattr(hackamore.messages, module)).items()
        if isinstance(kind, type) and issubclass(kind, (Frame, Record, Block)) and not name.startswith("_")
    }
    assert classes <= set(hackamore.messages.__all__)


def test_repr_is_complete_and_str_is_short() -> None:
    big = {"type": "tool_use", "id": "t", "name": "Write", "input": {"content": "x" * 100_000}}
    text = {"type": "text", "text": "y" * 100_000}
    frame = from_data(
        {"type": "assistant", "message": {"content": [big, text] * 50}, "user_message_uuids": ["u" * 500] * 50}
    )
    assert repr(frame).count("x" * 100_000) == repr(frame).count("y" * 100_000) == 50
    assert "ToolUseBlock" in repr(frame)
    assert len(str(frame)) <= 120


def test_repr_escapes_what_a_terminal_would_obey() -> None:
    frame = from_data({"type": "assistant", "message": {"content": [{"type": "text", "text": "\x1b[31m\u202e"}]}})
    assert "\x1b" not in repr(frame)
    assert "\u202e" not in repr(frame)
