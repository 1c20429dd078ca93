"""The table of control requests, its codec, and the answers it names."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from hackamore._engine.protocol import frames
from hackamore._engine.protocol.control import _starts, encode_request, malformed, row_for
from hackamore._engine.protocol.control_rows import ROWS
from hackamore._engine.protocol.control_table import ControlRow, Direction, FailPolicy, Field
from hackamore.errors import StreamWarning
from hackamore.messages import results as control_results
from hackamore.messages.results import ControlResult, RewindResult, _dict, _list, _none, decode_result
from hackamore.options.bounds import Timeouts
from scripts.control_table import row_of
from tests.contract import shows
from tests.support.examples import examples
from tests.support.reaching import mostly, reached, reaching

OURS = [row for row in ROWS if row.direction is Direction.HOST_TO_CLI]
THEIRS = [row for row in ROWS if row.direction is not Direction.HOST_TO_CLI]
RESULTS = sorted({row.result for row in ROWS}, key=lambda kind: kind.__name__)
EXAMPLES: dict[str, Any] = {
    "string": "x",
    "boolean": True,
    "number": 1,
    "object": {"a": 1},
    "array": [1],
    "any": "x",
}


@shows("control.operations.typed")
def test_the_table_names_every_request_once() -> None:
    names = [row.subtype for row in ROWS]
    assert len(names) == len(set(names))
    assert {row.subtype for row in THEIRS} == {
        "can_use_tool",
        "hook_callback",
        "mcp_message",
        "elicitation",
        "request_user_dialog",
    }
    # 3.1a has 22 and one that is missing from the union, 3.1b has 14.
    assert len(OURS) == 23 + 14


@shows("asked.other.safe-table")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.subtype)
def test_rows_are_complete(row: ControlRow) -> None:
    found: object = row_for(row.subtype)
    assert found is row
    assert row.summary.endswith((".", "?"))
    assert issubclass(row.result, ControlResult)
    assert row.deadline == "dialog" or hasattr(Timeouts(), row.deadline)
    assert (row.fail is FailPolicy.ERROR) is (row.direction is Direction.HOST_TO_CLI)
    for field in row.fields:
        assert field.name.isidentifier()
        assert field.name == field.name.lower()
        assert field.kind.removesuffix("?") in EXAMPLES


def test_a_row_is_read_from_its_words() -> None:
    name = {
        "field": "server_name=serverName*:string",
        "declared": "str",
        "doc": "name of the server.",
        "positional": True,
    }
    flag = {"field": "enabled:boolean?", "declared": "bool = False", "doc": "whether.", "always": True}
    given = {"subtype": "do_it", "summary": "Do it.", "parameters": [name, flag], "more": "a*:object b=bAndC:number?"}
    further = (Field("a", "a", "object", True), Field("b", "bAndC", "number?", False))
    assert row_of(given, ours=True) == ControlRow(
        "do_it",
        Direction.HOST_TO_CLI,
        "Do it.",
        (
            Field("server_name", "serverName", "string", True, "str", "name of the server.", positional=True),
            Field("enabled", "enabled", "boolean?", False, "bool = False", "whether.", always=True),
            *further,
        ),
        ControlResult,
        "control",
        FailPolicy.ERROR,
        method="do_it",
    )
    words = {"method": "", "note": "Not twice.", "shows": "error", "needs": "model", "example": "do_it()"}
    more = {"result": "RewindResult", "deadline": "rewind", "by_hand": True, **words}
    assert row_of({"subtype": "do_it", "summary": "Do it.", **more}, ours=True) == ControlRow(
        "do_it",
        Direction.HOST_TO_CLI,
        "Do it.",
        (),
        RewindResult,
        "rewind",
        FailPolicy.ERROR,
        "",
        "Not twice.",
        "error",
        by_hand=True,
        needs="model",
        example="do_it()",
    )
    for extra, direction in (({"direction": "BOTH"}, Direction.BOTH), ({}, Direction.CLI_TO_HOST)):
        asked = {"subtype": "ask", "summary": "Asked.", "more": given["more"], "deadline": "hook", "fail": "DECLINED"}
        theirs = row_of({**asked, **extra}, ours=False)
        assert theirs == ControlRow("ask", direction, "Asked.", further, ControlResult, "hook", FailPolicy.DECLINED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.subtype)
def test_fields_are_encoded_by_either_name_and_read_back(row: Any) -> None:
    values = {field.wire: EXAMPLES[field.kind.removesuffix("?")] for field in row.fields}
    by_name = {field.name: values[field.wire] for field in row.fields}
    assert encode_request(row.subtype, values) == encode_request(row.subtype, by_name) == values
    line = frames.request_frame("r", row.subtype, values)
    request = msgspec.json.decode(line, type=dict[str, Raw])["request"]
    assert malformed(row, request) is None
    for field in row.fields:
        wrong = {**values, field.wire: ("x" if field.kind.startswith("number") else 3)}
        if not field.kind.startswith("any"):
            with pytest.raises(TypeError, match=field.wire):
                encode_request(row.subtype, wrong)
            assert malformed(row, Raw(json.dumps(wrong).encode())) == f"`{field.wire}` is not {field.kind}"
        missing = {name: value for name, value in values.items() if name != field.wire}
        if field.required:
            with pytest.raises(TypeError, match="is missing"):
                encode_request(row.subtype, missing)
            assert malformed(row, Raw(json.dumps(missing).encode())) == f"`{field.wire}` is missing"
        else:
            assert encode_request(row.subtype, missing) == missing
            assert malformed(row, Raw(json.dumps(missing).encode())) is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("any", None),
        ("string", ['"x"']),
        ("string?", ['"x"', "null"]),
        ("boolean", ["true", "false"]),
        ("number?", ["-1", "0", "9.5", "null"]),
        ("object", ["{}"]),
        ("array", ["[]"]),
    ],
)
def test_the_json_of_a_field_begins_as_its_kind_says(kind: str, values: list[str] | None) -> None:
    starts = _starts(kind)
    if values is None:
        assert starts is None
        return
    assert starts is not None
    found = {
        value for value in ('"x"', "true", "false", "-1", "0", "9.5", "{}", "[]", "null") if ord(value[0]) in starts
    }
    assert found == set(values)


def test_fields_of_answers_have_defaults_and_names_on_the_wire() -> None:
    class Probe(msgspec.Struct):
        plain: list[int] = _list()
        listed: list[int] = _list("aList")
        mapped: dict[str, int] = _dict("aDict")
        bare: dict[str, int] = _dict()
        optional: int | None = _none("anInt")

    decoded = msgspec.json.decode(b'{"plain":[1],"aList":[2],"aDict":{"a":3},"bare":{"b":4},"anInt":5}', type=Probe)
    assert decoded == Probe([1], [2], {"a": 3}, {"b": 4}, 5)
    assert Probe() == Probe([], [], {}, {}, None)


def test_null_only_where_it_means_something() -> None:
    assert encode_request("set_model", {"model": None}) == {"model": None}
    with pytest.raises(TypeError):
        encode_request("set_permission_mode", {"mode": None})
    with pytest.raises(TypeError):
        encode_request("seed_read_state", {"path": "x", "mtime": True})


@pytest.mark.parametrize(
    ("subtype", "fields", "text"),
    [
        ("set_permission_mode", {"mode": 3}, "`mode` must be a str, got 3 (int). Write `"),
        ("register_repo_root", {"directory": 3}, "`directory` must be a str, got 3 (int). Pass "),
        (
            "register_repo_root",
            {"directory": "/x", "reload_skills": "yes"},
            "`reload_skills` must be True or False, got 'yes' (str). Correct the value.",
        ),
        ("set_permission_mode", {}, "`mode` is missing"),
        ("anything", {"subtype": "x"}, "`subtype` is not a field of a request"),
    ],
)
def test_a_refused_request_names_the_field_the_value_and_the_fix(
    subtype: str, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError) as refused:
        encode_request(subtype, fields)
    assert str(refused.value).startswith(f"`{subtype}`: {text}")


@shows("control.operations.typed")
def test_every_answer_has_a_class_that_is_exported() -> None:
    assert {kind.__name__ for kind in RESULTS} <= set(control_results.__all__)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
@reaching
@given(data=st.data())
@settings(max_examples=examples(25))
def test_no_answer_is_an_exception(kind: type[ControlResult], data: st.DataObject) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    payload = data.draw(
        mostly(st.dictionaries(st.sampled_from(names or ["x"]), json_values, min_size=1, max_size=5), json_values)
    )
    encoded = json.dumps(payload).encode()
    warnings: list[StreamWarning] = []
    answer = decode_result(kind, Raw(encoded), warnings.append)
    if isinstance(payload, dict) and payload:
        reached()
    assert type(answer) is kind
    assert answer.data == (payload if isinstance(payload, dict) else {})
    repr(answer)


def test_an_answer_nested_too_deep_is_still_an_answer() -> None:
    warnings: list[StreamWarning] = []
    deep = b'{"canRewind":true,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert isinstance(decode_result(RewindResult, Raw(deep), warnings.append), RewindResult)


@pytest.mark.parametrize("payload", [b'{"a":\r\n1}', b' {"a" : 1e2}\n', b'{"a":"\\n\xe2\x80\xa8"}'])
def test_copied_json_stays_on_one_line_and_is_the_same(payload: bytes) -> None:
    line = frames.success_frame("r", payload)
    assert line.count(b"\n") == 1
    assert json.loads(line)["response"]["response"] == json.loads(payload)
    assert frames.message_frame(payload).count(b"\n") == 1


@shows("control.operations.not-sent")
@pytest.mark.parametrize("payload", [b"", b"{", b"{} {}", b"\xff", b'"\xff"', b"nan", b"[" * 200_000])
def test_a_payload_that_is_not_json_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        frames.success_frame("r", payload)


def test_what_holds_itself_is_never_written() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(ValueError, match="nested too deep"):
        frames.success_frame("r", loop)
    with pytest.raises(ValueError, match="JSON cannot hold it"):
        frames.user_frame({1, object()}, "u")


def test_errors_are_always_written() -> None:
    line = frames.error_frame("r", "half \ud800 and \u2028", "code")
    assert json.loads(line)["response"] == {
        "subtype": "error",
        "request_id": "r",
        "error": "half ? and \u2028",
        "error_code": "code",
    }
    assert json.loads(frames.cancel_frame("r")) == {"type": "control_cancel_request", "request_id": "r"}


@pytest.mark.parametrize("wrong", [20, 21, 25])
def test_fields_of_an_answer_that_are_left_out_are_counted_beyond_the_limit_of_warnings(wrong: int) -> None:
    found: list[StreamWarning] = []
    files = [7] * wrong
    result = decode_result(RewindResult, msgspec.Raw(json.dumps({"filesChanged": files}).encode()), found.append)
    assert isinstance(result, RewindResult)
    assert result.files_changed == []
    assert [warning.context["field"] for warning in found[:20]] == [f"filesChanged[{index}]" for index in range(20)]
    assert [warning.context["reason"] for warning in found[20:]] == (
        [f"{wrong - 20} more fields"] if wrong > 20 else []
    )


@pytest.mark.parametrize("payload", [b"[]", b"3", b'"text"', b"[" * 2_000])
def test_an_answer_that_is_not_an_object_is_an_empty_one_and_named(payload: bytes) -> None:
    found: list[StreamWarning] = []
    result = decode_result(RewindResult, msgspec.Raw(payload), found.append)
    assert (result.raw, result.data if payload.endswith(b"]") else {}) == (payload, {})
    [warning] = found
    assert (warning.code, warning.context["field"], warning.context["type"]) == (
        "FIELD_DROPPED",
        "response",
        "control_response",
    )
