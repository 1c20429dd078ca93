"""Permission requests: every field arrives, and what does not say which tool would run is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore.errors import StreamWarning
from hackamore.permissions import (
    AddDirectories,
    AddRules,
    MatchedAskRule,
    McpServerProvenance,
    PermissionRequest,
    PermissionRequestError,
    PermissionRule,
    SetMode,
    UnknownPermissionUpdate,
    decode_permission_request,
)
from tests.contract import shows
from tests.support.reaching import changed, damaged, mostly, reached, reaching

REQUEST = (
    b'{"subtype":"can_use_tool","tool_name":"Bash","mcp_server":{"name":"n","source":"s"},'
    b'"input":{"command":"ls","timeout":1e2},"permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash",'
    b'"ruleContent":"ls:*"}],"behavior":"allow","destination":"localSettings"},{"type":"setMode","mode":"acceptEdits",'
    b'"destination":"session"},{"type":"addDirectories","directories":["/etc"],"destination":"session"},'
    b'{"type":"hologram","n":1e2}],"blocked_path":"/etc","decision_reason":"outside","decision_reason_type":"workingDir",'
    b'"decision_reason_code":"c1","classifier_approvable":false,"suppress_always_allow_rule":true,"default_to_no":true,'
    b'"matched_ask_rule":{"source":"userSettings","tool_name":"Bash","rule_content":"ls:*"},"title":"Allow ls?",'
    b'"display_name":"Shell","tool_use_id":"toolu_1","agent_id":"a1","description":"lists","requires_user_interaction":true,'
    b'"server_policy_ask_only":false,"hologram":5}'
)


@shows("permissions.request")
def test_every_field_arrives() -> None:
    request = decode_permission_request(REQUEST, request_id="r1", session="S")
    assert (request.tool_name, request.tool_use_id, request.agent_id) == ("Bash", "toolu_1", "a1")
    assert request.mcp_server == McpServerProvenance(name="n", source="s")
    assert (request.title, request.display_name, request.description) == ("Allow ls?", "Shell", "lists")
    assert request.blocked_path == "/etc"
    reasons = (request.decision_reason, request.decision_reason_type, request.decision_reason_code)
    assert reasons == ("outside", "workingDir", "c1")
    assert request.classifier_approvable is False
    assert request.requires_user_interaction is request.default_to_no is request.suppress_always_allow_rule is True
    assert request.server_policy_ask_only is False
    assert request.matched_ask_rule == MatchedAskRule(source="userSettings", tool_name="Bash", rule_content="ls:*")
    assert request.input == {"command": "ls", "timeout": 100.0}
    assert bytes(request.input_raw) == b'{"command":"ls","timeout":1e2}'
    assert request.suggestions == (
        AddRules(rules=(PermissionRule("Bash", "ls:*"),), behavior="allow", destination="localSettings"),
        SetMode(mode="acceptEdits"),
        AddDirectories(directories=("/etc",)),
        UnknownPermissionUpdate(raw=b'{"type":"hologram","n":1e2}'),
    )
    assert (request.request_id, request.session, request.raw) == ("r1", "S", REQUEST)
    assert request.data["hologram"] == 5
    for name in PermissionRequest.__struct_fields__:
        assert getattr(request, name) not in (None, "", b""), name


def test_only_the_tool_and_its_input_are_needed() -> None:
    request = decode_permission_request({"tool_name": "X", "input": {}})
    assert (request.input, request.suggestions, request.session, request.tool_use_id) == ({}, (), None, "")
    assert not request.cancelled
    assert request == decode_permission_request(b'{"input":{},"tool_name":"X"}')
    assert hash(request) == hash(decode_permission_request(b'{"input":{},"tool_name":"X"}'))
    assert "input" in repr(request)


def test_it_tells_of_cancellation() -> None:
    told: list[int] = []
    request = decode_permission_request(REQUEST, cancelled=lambda: bool(told))
    assert not request.cancelled
    told.append(1)
    assert request.cancelled


def test_wrong_shapes_of_other_fields_are_named_and_left_out() -> None:
    whole = json.loads(REQUEST)
    for name, value in whole.items():
        if name in {"subtype", "tool_name", "input", "permission_suggestions", "hologram"}:
            continue
        warnings: list[StreamWarning] = []
        wrong: Any = [1] if isinstance(value, str | dict) else "x"
        request = decode_permission_request(json.dumps({**whole, name: wrong}).encode(), warn=warnings.append)
        assert [warning.context["field"] for warning in warnings] == [name]
        assert request.tool_name == "Bash"
        assert request.input == whole["input"]
    for wrong in (5, "x", {}, None):
        suggestions = decode_permission_request({**whole, "permission_suggestions": wrong}).suggestions
        assert suggestions == ()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"{}",
        b'{"tool_name":"X"}',
        b'{"tool_name":"X","input":null}',
        b'{"tool_name":"X","input":[]}',
        b'{"tool_name":"X","input":"{}"}',
        b'{"input":{}}',
        b'{"tool_name":5,"input":{}}',
        b'{"tool_name":"","input":{}}',
        b'{"tool_name":null,"input":{}}',
        b"[" * 100_000,
    ],
)
def test_what_does_not_say_what_would_run_is_refused(raw: bytes) -> None:
    with pytest.raises(PermissionRequestError, match=r"permission request"):
        decode_permission_request(raw)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@reaching
@given(changed(REQUEST, _json))
def test_anything_is_read_or_refused(data: dict[str, Any]) -> None:
    for form in (json.dumps(data).encode(), data):
        try:
            request = decode_permission_request(form)
        except PermissionRequestError:
            continue
        reached()
        assert request.tool_name == data["tool_name"]
        assert isinstance(request.input, dict)
        assert isinstance(request.suggestions, tuple)
        assert msgspec.json.encode(request.input_raw)


@reaching
@given(mostly(damaged([REQUEST]), st.binary(max_size=20)))
def test_arbitrary_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        request = decode_permission_request(raw)
    except PermissionRequestError:
        return
    reached()
    assert request.tool_name == json.loads(raw)["tool_name"]
    assert json.loads(bytes(request.input_raw)) == json.loads(raw)["input"]
