"""What cannot be read costs as little as possible, is named, and raises nothing."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest

from hackamore.errors import DecodeError
from hackamore.messages import (
    AssistantMessage,
    Frame,
    KeepAlive,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolUseBlock,
    UnknownBlock,
    UnknownMessage,
    UnknownSystemMessage,
    UserMessage,
)
from tests.messages.support import (
    LINES,
    choices,
    encode,
    is_struct,
    line_name,
    loudly,
    quietly,
    replaced,
    spelled,
    walk,
)

WRONG: tuple[Any, ...] = (5, "wrong", True, None, [1], {"wrong": 1})


def accepts(kind: Any, owner: type, name: str, value: object) -> bool:
    """True if `value` has the right shape for the field `name` of `owner`, or for an item of it."""
    if kind is Any:
        return True
    if kind is msgspec.Raw:
        starts = owner.payload_shapes.get(name)  # type: ignore[attr-defined]
        return starts is None or encode(value)[0] in starts
    if isinstance(value, dict) and any(is_struct(choice) for choice in choices(kind)):
        return True  # a record whose fields are all absent, or an unknown block
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize("line", LINES, ids=line_name)
def test_every_field_of_a_wrong_shape_is_named_and_left_out(line: bytes) -> None:
    whole = quietly(line)
    data = json.loads(line)
    count = 0
    for path, kind, owner, name in walk(type(whole), data):
        for wrong in WRONG:
            if accepts(kind, owner, name, wrong):
                continue
            frame, warnings = loudly(encode(replaced(data, path, wrong)))
            assert type(frame) is type(whole)
            # An array or an object of the wrong kind is named by its items.
            fields = [warning.context["field"] for warning in warnings]
            assert fields, (path, wrong)
            assert all(field.startswith(spelled(path)) for field in fields)
            assert {warning.code for warning in warnings} == {"FIELD_DROPPED"}
            assert {warning.context["type"] for warning in warnings} == {frame.type}
            assert spelled(path) in warnings[0].message
            for field in msgspec.structs.fields(type(whole)):
                if field.name != "raw" and field.encode_name != path[0]:
                    assert getattr(frame, field.name) == getattr(whole, field.name)
            count += 1
    assert count or type(whole).__name__ in {"KeepAlive"} or len(data) == 1


@pytest.mark.parametrize("line", LINES, ids=line_name)
def test_a_field_that_is_null_or_missing_never_hurts(line: bytes) -> None:
    whole = quietly(line)
    data = json.loads(line)
    for name in data:
        if name in {"type", "subtype"}:
            continue
        assert type(quietly(encode({key: value for key, value in data.items() if key != name}))) is type(whole)
        assert type(loudly(encode({**data, name: None}))[0]) is type(whole)


def test_an_unknown_type_is_delivered_whole() -> None:
    line = b'{"a":1e2,"type":"hologram","subtype":"blue","session_id":"s","uuid":"u"}'
    frame = quietly(line)
    assert type(frame) is UnknownMessage
    assert (frame.type, frame.subtype, frame.session_id, frame.uuid) == ("hologram", "blue", "s", "u")
    assert frame.raw == line
    assert frame.data["a"] == 100.0
    assert frame == quietly(line)
    assert frame != quietly(line.replace(b"1e2", b"1e3"))
    assert hash(frame) == hash(quietly(line))


def test_an_unknown_subtype_is_both_unknown_and_a_system_message() -> None:
    frame = quietly(b'{"type":"system","subtype":"hologram","session_id":"s","x":[1]}')
    assert type(frame) is UnknownSystemMessage
    assert isinstance(frame, UnknownMessage)
    assert isinstance(frame, SystemMessage)
    assert (frame.type, frame.subtype, frame.session_id, frame.data["x"]) == ("system", "hologram", "s", [1])
    with_wrong_field, warnings = loudly(b'{"type":"system","subtype":"hologram","session_id":5}')
    assert type(with_wrong_field) is UnknownSystemMessage
    assert [warning.context["field"] for warning in warnings] == ["session_id"]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"{}", []),
        (b'{"type":5}', ["type"]),
        (b'{"type":null}', ["type"]),
        (b'{"type":"nonsense"}', []),
        (b'{"type":"system"}', []),
        (b'{"type":"system","subtype":null}', []),
        (b'{"type":"system","subtype":7}', ["subtype", "subtype"]),
        (b'{"subtype":"init"}', []),
    ],
)
def test_without_a_known_type_it_is_an_unknown_message(line: bytes, fields: list[str]) -> None:
    frame, warnings = loudly(line)
    assert isinstance(frame, UnknownMessage)
    assert frame.raw == line
    assert sorted({warning.context["field"] for warning in warnings}) == sorted(set(fields))


def test_an_unknown_block_is_kept_between_its_neighbours() -> None:
    block = b'{"type":"hologram","n":1e2}'
    line = (
        b'{"type":"assistant","message":{"content":[{"type":"text","text":"a"},'
        + block
        + b',{"type":"text","text":"b"}]}}'
    )
    frame = quietly(line)
    assert isinstance(frame, AssistantMessage)
    first, unknown, last = frame.content
    assert (first, last) == (TextBlock(text="a"), TextBlock(text="b"))
    assert isinstance(unknown, UnknownBlock)
    assert (unknown.type, unknown.raw, unknown.data) == ("hologram", block, {"type": "hologram", "n": 100.0})
    assert frame.text == "ab"


@pytest.mark.parametrize("item", [b"5", b'"text"', b"null", b"[]", b'{"type":7}'])
def test_what_is_no_block_at_all_is_kept_as_unknown_and_named(item: bytes) -> None:
    frame, warnings = loudly(b'{"type":"user","message":{"content":[' + item + b',{"type":"text","text":"b"}]}}')
    assert isinstance(frame, UserMessage)
    assert isinstance(frame.content[0], UnknownBlock)
    assert frame.content[0].raw == item
    assert frame.content[1] == TextBlock(text="b")
    assert [warning.context["field"].removesuffix(".type") for warning in warnings] == ["message.content[0]"]


def test_the_path_leads_into_blocks() -> None:
    line = b'{"type":"assistant","message":{"content":[{"type":"text"},{"type":"tool_use","name":5,"input":"ls"}]}}'
    frame, warnings = loudly(line)
    assert isinstance(frame, AssistantMessage)
    assert [warning.context["field"] for warning in warnings] == ["message.content[1].name", "message.content[1].input"]
    assert frame.content[1] == ToolUseBlock()
    assert frame.content[1].input == {}


def test_payloads_keep_their_bytes_on_the_slow_path_too() -> None:
    line = (
        b'{"type":"assistant","uuid":5,"message":{"content":[{"type":"tool_use","input":{ "a":1e2 , "a":"\\u00e9"}}]}}'
    )
    frame, warnings = loudly(line)
    assert isinstance(frame, AssistantMessage)
    assert len(warnings) == 1
    assert bytes(frame.content[0].input_raw) == b'{ "a":1e2 , "a":"\\u00e9"}'  # type: ignore[union-attr]


def test_a_flood_of_wrong_fields_gives_a_bounded_number_of_warnings() -> None:
    frame, warnings = loudly(encode({"type": "result", "errors": [5] * 10_000}))
    assert isinstance(frame, ResultMessage)
    assert frame.errors == []
    assert len(warnings) == 21
    assert "9980 more" in warnings[-1].message


def test_as_many_wrong_fields_as_are_named_need_no_summary() -> None:
    line = encode({"type": "assistant", "message": {"content": [{"type": "text", "text": 5}] * 20}})
    warnings = loudly(line)[1]
    assert [warning.context["field"] for warning in warnings] == [f"message.content[{n}].text" for n in range(20)]


@pytest.mark.parametrize("value", [b'"yes"', b"1", b"null"])
def test_a_failure_never_passes_for_a_success(value: bytes) -> None:
    failed = loudly(b'{"type":"result","subtype":"error_max_turns","is_error":' + value + b"}")[0]
    assert isinstance(failed, ResultMessage)
    assert failed.is_error is True
    succeeded = loudly(b'{"type":"result","subtype":"success","is_error":' + value + b"}")[0]
    assert isinstance(succeeded, ResultMessage)
    assert succeeded.is_error is False


@pytest.mark.parametrize(
    ("escape", "text"),
    [
        (rb"a\ud83db", "a\ufffdb"),
        (rb"a\udE00b", "a\ufffdb"),
        (rb"\uDE00\uD83D", "\ufffd\ufffd"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d", "\\ud83d"),
        (rb"\\\ud83d", "\\\ufffd"),
        (rb"\ud83d\\ude00", "\ufffd\\ude00"),
        (rb"\ud83d\n\u0041", "\ufffd\nA"),
    ],
)
def test_lone_surrogates_become_replacement_characters(escape: bytes, text: str) -> None:
    line = (
        b'{"type":"assistant","message":{"content":[{"type":"text","text":"%b"},'
        b'{"type":"tool_use","input":{"%b":"%b"}},{"type":"new","x":"%b"}]},"%b":1}'
    ).replace(b"%b", escape)
    frame = quietly(line)
    assert isinstance(frame, AssistantMessage)
    assert frame.raw == line
    assert frame.content[0] == TextBlock(text=text)
    assert frame.content[1].input == {text: text}  # type: ignore[union-attr]
    assert frame.content[2].data["x"] == text  # type: ignore[union-attr,index]
    assert frame.data[text] == 1
    text.encode()


def test_lone_surrogates_in_a_stream_event() -> None:
    line = (
        rb'{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"\ud83d"}}}'
    )
    frame = quietly(line)
    assert isinstance(frame, StreamEvent)
    assert frame.text_delta == "\ufffd"
    assert frame.event["delta"]["text"] == "\ufffd"


def test_numbers_out_of_range() -> None:
    huge = b"9" * 5_000
    frame, warnings = loudly(
        b'{"type":"result","subtype":"success","total_cost_usd":1e999,"num_turns":1e999,"duration_ms":1e999}'
    )
    assert isinstance(frame, ResultMessage)
    assert frame.total_cost_usd == float("inf")
    assert frame.duration_ms == float("inf")
    assert frame.num_turns == 0
    assert [warning.context["field"] for warning in warnings] == ["num_turns"]
    tool = quietly(
        b'{"type":"user","tool_use_result":{"small":1e-999,"big":-1e999,"huge":%b,"fine":%d}}' % (huge, 2**80)
    )
    assert isinstance(tool, UserMessage)
    assert tool.tool_use_result == {"small": 0.0, "big": float("-inf"), "huge": float("inf"), "fine": 2**80}
    assert tool.data["tool_use_result"] == tool.tool_use_result


@pytest.mark.parametrize("digits", [b"%d" % 2**63, b"-%d" % (2**63 + 1), b"1" * 400, b"1" * 5_000])
def test_an_integer_that_no_host_can_compute_with_is_left_out(digits: bytes) -> None:
    """A sum, a format and a column of a database fail with integers that are larger than a float."""
    frame, warnings = loudly(
        b'{"type":"result","subtype":"success","num_turns":%b,"duration_ms":%b,"usage":{"input_tokens":%b}}'
        % (digits, digits, digits)
    )
    assert isinstance(frame, ResultMessage)
    assert frame.usage is not None
    assert (frame.num_turns, frame.usage.input_tokens) == (0, 0)
    assert frame.duration_ms / 1000 in {0, float("inf")}
    assert {"num_turns", "usage.input_tokens"} <= {warning.context["field"] for warning in warnings}


@pytest.mark.parametrize("depth", [2_000, 100_000, 1_000_000])
@pytest.mark.parametrize("form", ["payload", "unknown field", "typed field", "block", "no end", "array"])
def test_too_deep_a_nesting_is_a_bad_line(form: str, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    line = {
        "payload": b'{"type":"user","tool_use_result":' + deep + b"}",
        "unknown field": b'{"type":"keep_alive","x":' + deep + b"}",
        "typed field": b'{"type":"user","pasted_content":' + deep + b"}",
        "block": b'{"type":"user","message":{"content":[{"type":"new","x":' + deep + b"}]}}",
        "no end": b'{"a":' * depth,
        "array": deep,
    }[form]
    outcome: Frame | str
    try:
        outcome = loudly(line)[0]
    except DecodeError as error:
        outcome = error.reason
    if isinstance(outcome, Frame):
        # Newer interpreters go deeper before they give up: 3.12 than the first, 3.14 than the second.
        assert depth < 1_000_000
        assert outcome.raw == line
    else:
        assert outcome in {"too-deep", {"array": "not-an-object", "no end": "not-json"}.get(form, "too-deep")}


def test_a_payload_too_deep_for_the_place_where_it_is_touched() -> None:
    def touch(frame: UserMessage, stack: int) -> Any:
        return touch(frame, stack - 1) if stack else frame.tool_use_result

    frame = quietly(b'{"type":"user","tool_use_result":' + b"[" * 500 + b"]" * 500 + b"}")
    assert isinstance(frame, UserMessage)
    with contextlib.suppress(DecodeError):  # not every interpreter counts the caller's stack
        touch(frame, 600)
    assert isinstance(frame.tool_use_result, list)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not-json"),
        (b"   ", "not-json"),
        (b"hello", "not-json"),
        (b'{"type":"user"', "not-json"),
        (b'{"type":"user"} {}', "not-json"),
        (b'{"type":"user",}', "not-json"),
        (b"{'type':'user'}", "not-json"),
        (b'{"type":"user","x":NaN}', "not-json"),
        (b'{"type":"user","x":Infinity}', "not-json"),
        (b'{"type":"user","x":"\n"}', "not-json"),
        (b'{"type":"user","x":"\\q"}', "not-json"),
        (b'{"type":"user","x":01}', "not-json"),
        (b'\xef\xbb\xbf{"type":"user"}', "not-json"),
        (b"\x00", "not-json"),
        (b"[]", "not-an-object"),
        (b'"text"', "not-an-object"),
        (b"5", "not-an-object"),
        (b"null", "not-an-object"),
        (b"9" * 5_000, "not-an-object"),
        (b"\xff\xfe", "not-utf8"),
        (b'{"type":"user","message":{"content":"\xff"}}', "not-utf8"),
        (b'{"type":"user","tool_use_result":"\xff"}', "not-utf8"),
        (b'{"type":"user","unknown":"\xed\xa0\x80"}', "not-utf8"),
        (b'{"type":"user","\xc3":1}', "not-utf8"),
    ],
)
def test_bad_lines(line: bytes, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        loudly(line)
    assert caught.value.reason == reason
    assert caught.value.line == line
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_line_separator_and_a_carriage_return_are_nothing_special() -> None:
    assert quietly('{"type":"user","message":{"content":"a\u2028b\u0085c"}}'.encode()).text == "a\u2028b\u0085c"  # type: ignore[attr-defined]
    assert type(quietly(b'{"type":"keep_alive"}\r')) is KeepAlive


def test_no_field_of_the_wire_can_change_the_type() -> None:
    for line in (b'{"type":"system","subtype":"new","(type)":"x"}', b'{"type":"new","(type)":"x"}'):
        message = quietly(line)
        assert message.type == message.data["type"]


@pytest.mark.parametrize("wrong", [19, 20, 21, 25])
def test_the_warnings_of_one_line_have_a_limit_and_a_count_of_the_rest(wrong: int) -> None:
    content = [{"type": "text", "text": 7}] * wrong
    _, warnings = loudly(encode({"type": "assistant", "message": {"content": content}}))
    named = [warning.context["field"] for warning in warnings if warning.context["field"]]
    assert named == [f"message.content[{index}].text" for index in range(min(wrong, 20))]
    rest = [(warning.message, warning.context["reason"]) for warning in warnings[20:]]
    more = f"{wrong - 20} more fields"
    assert rest == ([(f"{more} of a `assistant` frame were left out", more)] if wrong > 20 else [])
