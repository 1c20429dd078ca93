"""Hook inputs: every event has its class, every field its name, and nothing that the CLI sends raises."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore.errors import StreamWarning
from hackamore.hooks import (
    HOOK_EVENTS,
    HookInput,
    PermissionRequestHookInput,
    PostToolBatchHookInput,
    PreToolUseHookInput,
    StopHookInput,
    UnknownHookInput,
)
from hackamore.hooks.inputs import decode_hook_input, decode_hook_request
from hackamore.permissions import AddRules, PermissionRule
from tests.contract import shows
from tests.hooks.fields import COMMON, FIELDS
from tests.support.reaching import damaged, mostly, reached, reaching

_FILE = (Path(__file__).parent / "inputs.jsonl").read_bytes().rstrip(b"\n").split(b"\n")
LINES: dict[str, bytes] = {json.loads(line)["hook_event_name"]: line for line in _FILE}
WRONG: tuple[Any, ...] = (5, "wrong", True, None, [1], {"wrong": 1})


def quietly(event: str, raw: bytes) -> HookInput:
    warnings: list[StreamWarning] = []
    asked = decode_hook_input(event, raw, warnings.append)
    assert warnings == []
    return asked


def wire_names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind) if not field.encode_name.startswith("(")}


@shows("hooks.inputs")
def test_there_are_33_events_with_the_fields_that_the_cli_defines() -> None:
    assert len(HOOK_EVENTS) == 33
    assert set(HOOK_EVENTS) == set(FIELDS) == set(LINES)
    for event, kind in HOOK_EVENTS.items():
        assert wire_names(kind) == set(COMMON.split()) | set(FIELDS[event].split()), event
        assert kind.__name__ == f"{event}HookInput"


@shows("hooks.inputs")
@pytest.mark.parametrize("event", LINES)
def test_every_field_of_every_event_arrives(event: str) -> None:
    asked = quietly(event, LINES[event])
    data = json.loads(LINES[event])
    assert type(asked) is HOOK_EVENTS[event]
    assert asked.raw == LINES[event]
    assert asked.data == data
    for field in msgspec.structs.fields(type(asked)):
        if field.encode_name.startswith("("):
            continue
        value = getattr(asked, field.name)
        if isinstance(value, msgspec.Raw):
            assert bytes(value) in LINES[event]
            assert getattr(asked, field.name.removesuffix("_raw"), None) is not None or event == "PermissionRequest"
        else:
            assert value is not None
            raw = msgspec.json.decode(LINES[event], type=dict[str, msgspec.Raw])[field.encode_name]
            assert value == msgspec.json.decode(raw, type=field.type)


@pytest.mark.parametrize("event", LINES)
def test_inputs_are_values(event: str) -> None:
    asked = quietly(event, LINES[event])
    shuffled = json.dumps(dict(reversed(json.loads(LINES[event]).items()))).encode()
    again = quietly(event, LINES[event])
    assert asked == again
    assert hash(asked) == hash(again)
    assert type(quietly(event, shuffled)) is type(asked)
    assert copy.copy(asked) == pickle.loads(pickle.dumps(asked)) == asked
    assert asked != quietly(event, LINES[event].replace(b'"s1"', b'"s2"'))
    assert type(asked).__name__ in repr(asked)
    assert len(repr(asked)) < 3000
    with pytest.raises(AttributeError):
        asked.cwd = "elsewhere"  # type: ignore[misc]


@pytest.mark.parametrize("event", LINES)
def test_a_field_of_the_wrong_shape_is_named_and_the_rest_arrives(event: str) -> None:
    data = json.loads(LINES[event])
    whole = quietly(event, json.dumps(data).encode())
    for field in msgspec.structs.fields(type(whole)):
        if field.encode_name not in data or field.type is msgspec.Raw:
            continue
        for wrong in WRONG:
            try:
                msgspec.convert(wrong, field.type)
                continue
            except msgspec.ValidationError:
                pass
            warnings: list[StreamWarning] = []
            asked = decode_hook_input(event, json.dumps({**data, field.encode_name: wrong}).encode(), warnings.append)
            assert type(asked) is type(whole)
            assert warnings
            assert all(w.context["field"].startswith(field.encode_name) for w in warnings)
            assert {w.context["type"] for w in warnings} == {event}
            for other in msgspec.structs.fields(type(whole)):
                if other.type is not msgspec.Raw and other.name not in {field.name, "raw"}:
                    assert getattr(asked, other.name) == getattr(whole, other.name)


@pytest.mark.parametrize("event", LINES)
def test_missing_fields_never_hurt(event: str) -> None:
    assert type(quietly(event, b"{}")) is HOOK_EVENTS[event]
    data = json.loads(LINES[event])
    for name in data:
        assert type(quietly(event, json.dumps({k: v for k, v in data.items() if k != name}).encode()))
    unknown = quietly(event, json.dumps({**data, "hologram": [1]}).encode())
    assert unknown.data["hologram"] == [1]
    assert unknown == quietly(event, json.dumps(data).encode())


@shows("tools.bytes")
def test_payloads_keep_their_bytes() -> None:
    asked = quietly("PreToolUse", LINES["PreToolUse"])
    assert isinstance(asked, PreToolUseHookInput)
    assert bytes(asked.tool_input_raw) == b'{"command":"ls","timeout":1e2}'
    assert asked.tool_input == {"command": "ls", "timeout": 100.0}
    # JavaScript writes lone surrogates where it cuts a text; they are no Unicode.
    raw = b'{"tool_name":"a\\ud800","tool_input":{"x":"\\ud83d","n":1e2}}'
    asked = quietly("PreToolUse", raw)
    assert isinstance(asked, PreToolUseHookInput)
    assert asked.tool_name == "a\ufffd"
    assert bytes(asked.tool_input_raw) == b'{"x":"\\ufffd","n":1e2}'
    assert asked.tool_input == {"x": "\ufffd", "n": 100.0}


def test_a_tool_input_of_any_shape_is_handed_on() -> None:
    for payload in ("[1]", '"text"', "5", "true"):
        asked = quietly("PreToolUse", f'{{"tool_name":"X","tool_input":{payload}}}'.encode())
        assert asked.tool_input == json.loads(payload)  # type: ignore[attr-defined]


def test_records_inside() -> None:
    batch = quietly("PostToolBatch", LINES["PostToolBatch"])
    assert isinstance(batch, PostToolBatchHookInput)
    [call] = batch.tool_calls
    assert (call.tool_name, call.tool_use_id, call.tool_input["command"]) == ("Bash", "toolu_1", "ls")
    assert call.tool_response == {"stdout": "a", "n": 100.0}
    question = quietly("PermissionRequest", LINES["PermissionRequest"])
    assert isinstance(question, PermissionRequestHookInput)
    rule = PermissionRule("Bash", "ls:*")
    assert question.permission_suggestions == (AddRules(rules=(rule,), behavior="allow"),)
    stop = quietly("Stop", LINES["Stop"])
    assert isinstance(stop, StopHookInput)
    assert stop.background_tasks[0].id == "id 1"
    assert stop.session_crons[0].recurring is True
    assert stop.effort is not None
    assert stop.effort.level == "level 1"


@shows("hooks.inputs")
def test_the_registered_event_counts_and_else_the_name_in_the_input() -> None:
    assert type(decode_hook_input("Stop", LINES["PreToolUse"])) is StopHookInput
    assert type(decode_hook_input("", LINES["PreToolUse"])) is PreToolUseHookInput
    assert type(decode_hook_input("Hologram", LINES["PreToolUse"])) is PreToolUseHookInput
    unknown = decode_hook_input("Hologram", b'{"hook_event_name":"Hologram","session_id":"s","x":1e2}')
    assert type(unknown) is UnknownHookInput
    assert (unknown.session_id, unknown.data["x"], unknown.problem) == ("s", 100.0, None)


def test_dicts_are_taken_too() -> None:
    asked = decode_hook_input("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}})
    assert asked == decode_hook_input("PreToolUse", b'{"tool_input":{"command":"ls"},"tool_name":"Bash"}')


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"[]", b"5", b'"x"', b"{", b'{"a":NaN}', b"\xff", b'{"a":"\xff"}', b"[" * 100_000]
)
def test_what_cannot_be_read_is_an_unknown_input_with_a_problem(raw: bytes) -> None:
    for event in ("PreToolUse", "Hologram", ""):
        asked = decode_hook_input(event, raw)
        assert type(asked) is UnknownHookInput
        assert asked.problem
        assert asked.hook_event_name == event
        assert asked.raw == raw


@reaching
@given(event=st.sampled_from([*HOOK_EVENTS, "Hologram", ""]), raw=mostly(damaged(_FILE), st.binary(max_size=20)))
def test_arbitrary_bytes_never_raise(event: str, raw: bytes) -> None:
    asked = decode_hook_input(event, raw)
    assert isinstance(asked, HookInput)
    if getattr(asked, "problem", None):
        assert asked.raw == raw
        assert asked.hook_event_name == event
    else:
        reached()
        assert asked.data == json.loads(raw)
    decode_hook_request(raw)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(sorted({name for fields in FIELDS.values() for name in fields.split()} | set(COMMON.split())))


@reaching
@given(event=st.sampled_from([*HOOK_EVENTS, "Hologram"]), data=st.dictionaries(_names, _json, max_size=8))
def test_arbitrary_objects_never_raise(event: str, data: dict[str, Any]) -> None:
    asked = decode_hook_input(event, json.dumps(data).encode())
    assert isinstance(asked, HookInput)
    if event in HOOK_EVENTS:
        assert type(asked) is HOOK_EVENTS[event]
    if data:
        reached()
    for name in ("tool_input", "tool_response", "permission_suggestions", "content", "requested_schema"):
        getattr(asked, name, None)
    assert repr(asked)
    assert isinstance(decode_hook_input(event, data), HookInput)


def test_the_request_is_taken_apart() -> None:
    raw = b'{"subtype":"hook_callback","callback_id":"hook_3","input":{"n":1e2},"tool_use_id":"toolu_1"}'
    request = decode_hook_request(raw)
    assert request == ("hook_3", "toolu_1", b'{"n":1e2}')
    assert decode_hook_request(json.loads(raw)) == ("hook_3", "toolu_1", b'{"n":100.0}')
    for bad in (b"", b"[]", b'{"callback_id":5,"tool_use_id":[]}', b'{"callback_id":"\\ud800"}'):
        assert decode_hook_request(bad) == ("", None, b"")
