"""Whatever stands on a line: it decodes, or it is a `DecodeError`."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hackamore.errors import DecodeError
from hackamore.messages import MESSAGE_TYPES, Frame, decode
from tests.messages.support import LINES
from tests.support.examples import examples
from tests.support.reaching import damaged, mostly, reached, reaching

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
anything = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
names_of_any_letters = st.text(st.characters())
names = sorted({name for line in LINES for name in json.loads(line)} - {"type", "subtype"})
kinds = sorted({kind for kind, _ in MESSAGE_TYPES})
subtypes = sorted({subtype for _, subtype in MESSAGE_TYPES if subtype})
frames = st.fixed_dictionaries(
    {"type": st.sampled_from(kinds) | anything, "subtype": st.sampled_from(subtypes) | anything},
    optional=dict.fromkeys(names, anything),
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "new"])},
    optional=dict.fromkeys(
        ("text", "id", "name", "input", "content", "source", "tool_use_id", "is_error", "citations"), anything
    ),
)
replies = st.fixed_dictionaries(
    {"type": st.sampled_from(["assistant", "user"])},
    optional={
        "message": st.fixed_dictionaries({}, optional={"content": st.lists(blocks | anything), "usage": anything})
    },
)


def check(line: bytes) -> Frame | None:
    try:
        frame = decode(line, lambda warning: None)
    except DecodeError:
        return None
    reached()
    assert isinstance(frame, Frame)
    assert frame.raw == line
    assert isinstance(frame.data, dict)
    repr(frame)
    assert hash(frame) == hash(frame)
    return frame


@reaching
@settings(max_examples=examples(200))
@given(mostly(damaged(LINES), st.binary() | st.text().map(str.encode)))
def test_arbitrary_bytes(line: bytes) -> None:
    check(line)


@reaching
@given(st.sampled_from(kinds), names_of_any_letters, names_of_any_letters)
def test_arbitrary_text(kind: str, name: str, text: str) -> None:
    check(json.dumps({"type": kind, name: text}, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@reaching
@given(mostly(st.dictionaries(st.text(), anything), anything))
def test_arbitrary_json(value: Any) -> None:
    line = json.dumps(value).encode()
    assert (check(line) is not None) == isinstance(value, dict) or b"Infinity" in line


@reaching
@settings(max_examples=examples(100))
@given(frames | replies, st.booleans())
def test_arbitrary_objects_of_known_types(value: dict[str, Any], ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    frame = check(line)
    if frame is not None:
        for name in dir(type(frame)):
            if not name.startswith("_") and name != "raise_for_error":
                getattr(frame, name)
