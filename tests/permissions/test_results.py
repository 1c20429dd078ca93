"""Permission answers and updates, both ways."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore import Options
from hackamore.checked.functions import AnswerError
from hackamore.errors import OptionsError
from hackamore.permissions import (
    AddDirectories,
    AddRules,
    Allow,
    Deny,
    PermissionRequest,
    PermissionResultError,
    PermissionRule,
    PermissionUpdate,
    RemoveDirectories,
    RemoveRules,
    ReplaceRules,
    SetMode,
    UnknownPermissionUpdate,
    decode_permission_request,
    decode_updates,
    deny,
    encode_permission_result,
    encode_update,
)
from tests.contract import shows
from tests.support.reaching import mostly, reached, reaching

INPUT = b'{"z":1,"command":"ls \\u00e9 \xc3\xa9", "timeout":1e2,"big":123456789012345678901234567890,"f":1.10}'
REQUEST = decode_permission_request(b'{"tool_name":"Bash","tool_use_id":"toolu_1","input":' + INPUT + b"}")


def untyped(kind: Any) -> Any:
    return kind


def wire_of(result: object, request: PermissionRequest = REQUEST) -> dict[str, Any]:
    line = msgspec.json.encode(encode_permission_result(result, request).wire)
    assert b"\n" not in line
    data: dict[str, Any] = json.loads(line)
    return data


@shows("permissions.allow")
def test_an_allow_echoes_the_input_byte_by_byte() -> None:
    line = msgspec.json.encode(encode_permission_result(Allow(), REQUEST).wire)
    assert line == b'{"behavior":"allow","updatedInput":' + INPUT + b',"toolUseID":"toolu_1"}'
    # What a callback did to the decoded dict changes nothing.
    REQUEST.input["command"] = "rm"
    assert msgspec.json.encode(encode_permission_result(Allow(), REQUEST).wire) == line


@shows("permissions.allow")
def test_an_allow_may_change_input_and_permissions() -> None:
    rules = [PermissionRule("Bash", "ls:*"), PermissionRule("Read")]
    result = Allow({"command": "ls"}, [AddRules(rules=rules, behavior="allow")], "user_permanent")
    assert wire_of(result) == {
        "behavior": "allow",
        "updatedInput": {"command": "ls"},
        "updatedPermissions": [
            {
                "type": "addRules",
                "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}, {"toolName": "Read"}],
                "behavior": "allow",
                "destination": "session",
            }
        ],
        "decisionClassification": "user_permanent",
        "toolUseID": "toolu_1",
    }
    assert wire_of(Allow({}))["updatedInput"] == {}


@shows("permissions.deny")
def test_a_deny_says_why() -> None:
    assert wire_of(Deny("no")) == {"behavior": "deny", "message": "no", "toolUseID": "toolu_1"}
    assert wire_of(Deny("no", interrupt=True, decision_classification="user_reject")) == {
        "behavior": "deny",
        "message": "no",
        "interrupt": True,
        "decisionClassification": "user_reject",
        "toolUseID": "toolu_1",
    }
    no_id = decode_permission_request({"tool_name": "X", "input": {}})
    assert wire_of(Deny("no"), no_id) == {"behavior": "deny", "message": "no"}


def test_the_answer_that_denies_can_always_be_sent() -> None:
    assert deny("boom").wire == {"behavior": "deny", "message": "boom"}
    for reason in ("\ud800", "\x1b[31m\0", "x" * 100_000, ""):
        assert json.loads(msgspec.json.encode(deny(reason).wire))["behavior"] == "deny"


@shows("asked.permission.wrong-type")
@pytest.mark.parametrize(
    "result",
    [
        None,
        True,
        "allow",
        {"behavior": "allow"},
        Allow,
        object(),
        Allow({"x": float("nan")}),
        Allow({"x": object()}),
        Allow({1: 2}),  # type: ignore[dict-item]
        Allow({"x": "\ud800"}),
        Allow(None, [5]),  # type: ignore[list-item]
        Allow(None, [{}]),
        Allow(None, [{"type": 5}]),
        Allow(None, [{"type": "setMode"}]),
        Allow(None, [{"type": "setMode", "mode": "acceptEdit", "destination": "session"}]),
        Allow(None, [{"type": "addRules", "rules": ["Bash"], "behavior": "allow", "destination": "session"}]),
        Deny("\ud800"),
    ],
)
def test_everything_else_is_refused(result: object) -> None:
    with pytest.raises(PermissionResultError, match="permission callback"):
        encode_permission_result(result, REQUEST)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: untyped(Allow)("ls"), "`updated_input`"),
        (lambda: untyped(Allow)(None, "x"), "`updated_permissions`"),
        (lambda: untyped(Allow)(None, SetMode(mode="plan")), "`updated_permissions`"),
        (lambda: untyped(Allow)(decision_classification="x"), "`decision_classification`"),
        (lambda: untyped(Deny)(5), "`message`"),
        (lambda: untyped(Deny)(), "message"),
        (lambda: untyped(Deny)("no", "yes"), "`interrupt`"),
        (lambda: untyped(Deny)("no", False, "x"), "`decision_classification`"),
        (lambda: untyped(PermissionRule)(""), "`tool_name`"),
        (lambda: untyped(PermissionRule)(5), "`tool_name`"),
        (lambda: untyped(PermissionRule)("Bash", 5), "`rule_content`"),
        (lambda: untyped(AddRules)(rules=["Bash"], behavior="allow"), "`rules`"),
        (lambda: untyped(AddRules)(rules=PermissionRule("Bash"), behavior="allow"), "`rules`"),
        (lambda: untyped(AddRules)(rules=[], behavior="allowed"), "`allow`"),
        (lambda: untyped(AddRules)(rules=[]), "behavior"),
        (lambda: untyped(RemoveRules)(rules=[], behavior="ask", destination="disk"), "`destination`"),
        (lambda: untyped(SetMode)(mode="acceptEdit"), "`acceptEdits`"),
        (lambda: untyped(SetMode)(mode="plan", destination=None), "`destination`"),
        (lambda: untyped(AddDirectories)(directories="/etc"), "`directories`"),
        (lambda: untyped(RemoveDirectories)(directories=[5]), "`directories`"),
        (lambda: untyped(RemoveDirectories)(directories=[""]), "`directories`"),
    ],
)
def test_mistakes_are_told_where_they_are_made(build: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        build()


RULE = PermissionRule("Bash", "ls:*")
UPDATES: list[tuple[PermissionUpdate, dict[str, Any]]] = [
    *(
        (
            kind(rules=(RULE, PermissionRule("Read")), behavior="deny", destination="userSettings"),
            {
                "type": name,
                "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}, {"toolName": "Read"}],
                "behavior": "deny",
                "destination": "userSettings",
            },
        )
        for name, kind in (("addRules", AddRules), ("replaceRules", ReplaceRules), ("removeRules", RemoveRules))
    ),
    (SetMode(mode="plan"), {"type": "setMode", "mode": "plan", "destination": "session"}),
    *(
        (
            kind(directories=("/a", "/b"), destination="cliArg"),
            {"type": name, "directories": ["/a", "/b"], "destination": "cliArg"},
        )
        for name, kind in (("addDirectories", AddDirectories), ("removeDirectories", RemoveDirectories))
    ),
]


@shows("permissions.updates")
@pytest.mark.parametrize(("update", "wire"), UPDATES, ids=lambda part: type(part).__name__)
def test_updates_go_both_ways(update: PermissionUpdate, wire: dict[str, Any]) -> None:
    assert json.loads(msgspec.json.encode(encode_update(update, "u"))) == wire
    assert encode_update(wire, "u") == wire
    for form in (wire, json.dumps(wire).encode(), msgspec.Raw(json.dumps(wire).encode())):
        assert PermissionUpdate.from_wire(form) == update
    assert update.type == wire["type"]
    assert hash(update) == hash(PermissionUpdate.from_wire(wire))
    assert copy.copy(update) == pickle.loads(pickle.dumps(update)) == update
    # What only the CLI knows travels back with it.
    more = PermissionUpdate.from_wire({**wire, "hologram": 5})
    assert more == update
    assert encode_update(more, "u") == {**wire, "hologram": 5}
    for missing in wire:
        if missing != "destination":
            unknown = PermissionUpdate.from_wire({name: value for name, value in wire.items() if name != missing})
            assert type(unknown) is UnknownPermissionUpdate


def test_what_is_not_known_is_kept_and_sent_back_as_it_came() -> None:
    for raw in (
        b'{"type":"hologram","n":1e2}',
        b'{"type":"setMode","mode":"hologram","destination":"session"}',
        b'{"type":"addRules","rules":[{"toolName":""}],"behavior":"allow"}',
        b"5",
        b'{"type":5}',
    ):
        update = PermissionUpdate.from_wire(raw)
        assert type(update) is UnknownPermissionUpdate
        assert msgspec.json.encode(encode_update(update, "u")) == raw
        assert isinstance(update.type, str)
    assert encode_update({"type": "hologram", "n": 1}, "u") == {"type": "hologram", "n": 1}
    assert decode_updates(b"{}") == decode_updates(b"[") == ()
    with pytest.raises(AnswerError, match=r"u.rules\[0\]|malformed addRules"):
        encode_update({"type": "addRules", "rules": [5], "behavior": "allow"}, "u")


def test_all_suggestions_can_be_applied() -> None:
    suggestions = [wire for _, wire in UPDATES] + [{"type": "hologram", "n": 1}]
    request = decode_permission_request({"tool_name": "X", "input": {}, "permission_suggestions": suggestions})
    assert wire_of(Allow(updated_permissions=request.suggestions), request)["updatedPermissions"] == suggestions


SUGGESTED: list[dict[str, Any]] = [
    {"type": "addDirectories", "directories": ["/home/me"], "destination": "session"},
    {
        "type": "addRules",
        "rules": [{"toolName": "Bash", "ruleContent": "touch a"}],
        "behavior": "allow",
        "destination": "localSettings",
    },
    {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    {"type": "addRules", "rules": [{"toolName": "Read"}], "behavior": "deny", "destination": "session"},
    {"type": "replaceRules", "rules": [{"toolName": "Edit"}], "behavior": "allow", "destination": "session"},
    {
        "type": "addRules",
        "rules": [{"toolName": "Bash", "ruleContent": "touch a"}, {"toolName": "Bash", "ruleContent": "ls"}],
        "behavior": "allow",
        "destination": "userSettings",
    },
    {"type": "addRules", "rules": ["hologram"], "behavior": "allow", "destination": "session"},
]


@shows("permissions.always")
def test_always_takes_only_the_rules_that_allow() -> None:
    asked = {"tool_name": "Bash", "input": {"command": "touch a"}, "permission_suggestions": SUGGESTED}
    request = decode_permission_request(asked)
    rules = [{"toolName": "Bash", "ruleContent": "touch a"}, {"toolName": "Bash", "ruleContent": "ls"}]
    for answer, destination in (
        (Allow.always(request), "session"),
        (Allow.always(request, "localSettings"), "localSettings"),
    ):
        [update] = wire_of(answer, request)["updatedPermissions"]
        assert update == {"type": "addRules", "rules": rules, "behavior": "allow", "destination": destination}
    with pytest.raises(ValueError, match=r"`destination`.*`session`"):
        Allow.always(request, untyped("sesion"))
    without = (
        {**asked, "suppress_always_allow_rule": True},  # `Allow.always` keeps to what the CLI does not offer
        {**asked, "permission_suggestions": [SUGGESTED[0], SUGGESTED[2]]},  # a mode and a directory are no rules
        {**asked, "permission_suggestions": 5},
    )
    for wire in without:
        assert Allow.always(decode_permission_request(wire)) == Allow()


@shows("callbacks.unbindable")
def test_the_callback_is_checked() -> None:
    def callback(request: PermissionRequest) -> Allow:
        return Allow()

    assert Options(can_use_tool=callback).can_use_tool is callback

    def official(tool_name: str, given: dict[str, Any], context: Any) -> Allow:
        return Allow()

    wrong: Any
    for wrong in (official, lambda: None, 5):
        with pytest.raises(OptionsError, match=r"`can_use_tool` .*\(request\)") as caught:
            Options(can_use_tool=wrong)
        assert caught.value.field == "can_use_tool"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


_sendable = st.dictionaries(
    st.text(max_size=5), st.integers() | st.text(max_size=5) | st.lists(st.booleans()), max_size=3
)


@reaching
@given(
    updated_input=st.none() | mostly(_sendable, st.dictionaries(st.text(max_size=5), _json, max_size=3)),
    updates=st.lists(
        mostly(
            st.sampled_from([wire for _, wire in UPDATES]),
            st.dictionaries(st.sampled_from(["type", "rules", "mode", "behavior", "destination"]), _json, max_size=5),
        ),
        max_size=2,
    ),
)
def test_any_answer_is_sent_as_json_or_refused(updated_input: Any, updates: list[Any]) -> None:
    try:
        data = wire_of(Allow(updated_input, updates))
    except PermissionResultError:
        return
    reached()
    assert data["behavior"] == "allow"
    assert data["updatedInput"] == json.loads(INPUT if updated_input is None else json.dumps(updated_input))
    assert data.get("updatedPermissions", []) == json.loads(json.dumps(updates))
