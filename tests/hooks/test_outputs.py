"""Hook outputs: each constructor and field, for each event, as the CLI reads it; and what it would not read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore.checked.functions import Answer
from hackamore.hooks import HOOK_EVENTS, HookOutput, HookOutputError
from hackamore.hooks.outputs import SPECIFIC_FIELDS, encode_hook_output, fail_output
from hackamore.permissions import Allow, Deny, PermissionRule, ReplaceRules
from tests.contract import shows
from tests.hooks.fields import SPECIFIC
from tests.support.reaching import mostly, reached, reaching

# One value for each field of a specific output, and what it becomes.
VALUES: dict[str, tuple[Any, Any]] = {
    "permission_decision": ("deny", "deny"),
    "permission_decision_reason": ("because", "because"),
    "updated_input": ({"n": msgspec.Raw(b"1e2"), "m": (1, None)}, {"n": 100.0, "m": [1, None]}),
    "additional_context": ("Note", "Note"),
    "classifier_context": ("fine", "fine"),
    "updated_tool_output": (False, False),
    "updated_mcp_tool_output": ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}]),
    "permission": (Deny("no", interrupt=True), {"behavior": "deny", "message": "no", "interrupt": True}),
    "retry": (True, True),
    "session_title": ("Title", "Title"),
    "initial_user_message": ("Hi", "Hi"),
    "suppress_original_prompt": (True, True),
    "watch_paths": (("a", "b"), ["a", "b"]),
    "reload_skills": (False, False),
    "action": ("accept", "accept"),
    "content": ({"name": "x"}, {"name": "x"}),
    "worktree_path": ("/tree", "/tree"),
    "display_content": ("text", "text"),
}
COMMON: dict[str, tuple[str, Any]] = {
    "continue_": ("continue", False),
    "stop_reason": ("stopReason", "enough"),
    "decision": ("decision", "block"),
    "reason": ("reason", "because"),
    "system_message": ("systemMessage", "look"),
    "suppress_output": ("suppressOutput", True),
    "terminal_sequence": ("terminalSequence", "\x07"),
}


def wire_of(output: object, event: str, *fields: str) -> dict[str, Any]:
    """The answer as it goes on the wire; `fields` must be those that are warned of."""
    encoded = encode_hook_output(output, event)
    assert [warning.context["field"] for warning in encoded.warnings] == list(fields)
    assert {warning.context["type"] for warning in encoded.warnings} <= {event}
    data: dict[str, Any] = json.loads(msgspec.json.encode(encoded.wire))
    return data


def specific(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def test_22_events_have_the_specific_fields_that_the_cli_defines() -> None:
    assert len(SPECIFIC_FIELDS) == 22
    assert {event: set(fields.values()) for event, fields in SPECIFIC_FIELDS.items()} == {
        event: set(fields.split()) for event, fields in SPECIFIC.items()
    }
    assert {name for fields in SPECIFIC_FIELDS.values() for name in fields} == set(VALUES)
    known = {*VALUES, *COMMON, "asynchronous", "async_timeout"}
    assert set(HookOutput.__struct_fields__) == known


@shows("hooks.outputs")
@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_every_field_goes_where_the_event_has_it_and_nowhere_else(event: str) -> None:
    for name, (value, wire) in VALUES.items():
        output = HookOutput(**{name: value})
        names = SPECIFIC_FIELDS.get(event, {})
        if name in names:
            assert wire_of(output, event) == specific(event, **{names[name]: wire})
        elif event == "PermissionRequest" and name == "permission_decision":
            assert wire_of(output, event) == specific(event, decision={"behavior": "deny", "message": ""})
        else:
            assert wire_of(output, event, name) == {}


DENYING = {
    "PreToolUse": specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="enough"),
    "PermissionRequest": specific(
        "PermissionRequest", decision={"behavior": "deny", "message": "enough", "interrupt": True}
    ),
}
"""What an answer that ends the turn also says, by event."""


@pytest.mark.parametrize("event", [*HOOK_EVENTS, "Hologram"])
def test_common_fields_are_for_every_event(event: str) -> None:
    for name, (wire_name, value) in COMMON.items():
        if name != "continue_" or event not in DENYING:
            assert wire_of(HookOutput(**{name: value}), event) == {wire_name: value}
        assert wire_of({wire_name: value}, event) == {wire_name: value}
    everything = HookOutput(**{name: value for name, (_, value) in COMMON.items()})
    assert wire_of(everything, event) == {**dict(COMMON.values()), **DENYING.get(event, {})}


@shows("hooks.stop")
def test_a_stop_before_a_tool_denies_the_tool() -> None:
    """`continue: false` alone ends the turn behind the tool, which the CLI has run by then."""
    pre = "PreToolUse"
    stop = {"continue": False, "stopReason": "enough"}
    for event, denied in DENYING.items():
        assert wire_of(HookOutput.stop("enough"), event) == {**stop, **denied}
    assert wire_of(HookOutput.stop(), pre) == {"continue": False, **specific(pre, permissionDecision="deny")}
    assert wire_of(HookOutput(continue_=False, reason="why"), pre) == {
        "continue": False,
        "reason": "why",
        **specific(pre, permissionDecision="deny", permissionDecisionReason="why"),
    }
    # An explicit decision counts, and so does a reason for the model.
    allowed = HookOutput.stop("enough", permission_decision="allow")
    assert wire_of(allowed, pre) == {**stop, **specific(pre, permissionDecision="allow")}
    other = HookOutput.stop("enough", permission_decision_reason="no more tools")
    assert wire_of(other, pre)["hookSpecificOutput"]["permissionDecisionReason"] == "no more tools"
    assert wire_of(HookOutput(continue_=True), pre) == {"continue": True}
    asked = "PermissionRequest"
    assert wire_of(HookOutput.stop(), asked)["hookSpecificOutput"]["decision"]["message"] == "The turn was stopped."
    for answer in (HookOutput.stop(permission=Allow()), HookOutput.stop(permission_decision="allow")):
        assert wire_of(answer, asked)["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    assert wire_of(stop, pre) == stop  # a dict is sent as it is
    assert wire_of(HookOutput.stop("enough"), "PostToolUse") == stop


@pytest.mark.parametrize("event", SPECIFIC)
def test_all_fields_of_an_event_together_and_as_a_dict(event: str) -> None:
    names = SPECIFIC_FIELDS[event]
    output = HookOutput(system_message="look", **{name: VALUES[name][0] for name in names})
    wanted = {"systemMessage": "look", **specific(event, **{names[name]: VALUES[name][1] for name in names})}
    assert wire_of(output, event) == wanted
    assert wire_of(wanted, event) == wanted
    del wanted["hookSpecificOutput"]["hookEventName"]
    assert wire_of(wanted, event)["hookSpecificOutput"]["hookEventName"] == event


@shows("hooks.outputs")
def test_constructors() -> None:
    assert wire_of(None, "Stop") == wire_of({}, "Stop") == wire_of(HookOutput.proceed(), "Stop") == {}
    assert wire_of(HookOutput.stop("enough"), "Stop") == {"continue": False, "stopReason": "enough"}
    assert wire_of(HookOutput.stop(), "Stop") == {"continue": False}
    assert wire_of(HookOutput.block("no"), "UserPromptSubmit") == {"decision": "block", "reason": "no"}
    pre = "PreToolUse"
    assert wire_of(HookOutput.allow(), pre) == specific(pre, permissionDecision="allow")
    for constructor in (HookOutput.allow, HookOutput.deny, HookOutput.ask, HookOutput.defer):
        decision = constructor.__name__
        wanted = specific(pre, permissionDecision=decision, permissionDecisionReason="why")
        assert wire_of(constructor("why"), pre) == wire_of(constructor(reason="why"), pre) == wanted
    assert wire_of(HookOutput.update_input({"a": 1}), pre) == specific(pre, updatedInput={"a": 1})
    assert wire_of(HookOutput.add_context("Note"), "Stop") == specific("Stop", additionalContext="Note")
    assert wire_of(HookOutput.run_async(), "Stop") == {"async": True}
    assert wire_of(HookOutput.run_async(5), "Stop") == {"async": True, "asyncTimeout": 5000}
    assert wire_of(HookOutput.run_async(0.0001), "Stop") == {"async": True, "asyncTimeout": 1}
    both = HookOutput.allow(updated_input={"a": 1}, system_message="look", additional_context="Note")
    assert wire_of(both, pre) == {
        "systemMessage": "look",
        **specific(pre, permissionDecision="allow", updatedInput={"a": 1}, additionalContext="Note"),
    }
    assert HookOutput.deny("no").replace(system_message="look") == HookOutput.deny("no", system_message="look")


def test_outputs_are_values() -> None:
    assert repr(HookOutput.deny("no")) == "HookOutput(permission_decision='deny', permission_decision_reason='no')"
    assert HookOutput.deny("no") == HookOutput.deny("no") != HookOutput.deny("yes")
    with pytest.raises(TypeError, match="nonsense"):
        HookOutput(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        HookOutput.proceed().reason = "x"  # type: ignore[misc]


def test_an_output_shows_its_wire_form() -> None:
    """Plain values, as `json.dumps` takes them, also where the answer to the CLI holds bytes."""
    output = HookOutput.allow(updated_input={"command": "ls"}, updated_tool_output="not of this event")
    expected = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "ls"})
    assert output.to_wire("PreToolUse") == expected
    assert HookOutput(permission=Allow({"a": 1})).to_wire("PermissionRequest") == specific(
        "PermissionRequest", decision={"behavior": "allow", "updatedInput": {"a": 1}}
    )
    with pytest.raises(ValueError, match="`updated_input` must be a dict"):
        HookOutput(updated_input=5).to_wire("PreToolUse")  # type: ignore[arg-type]


def test_the_question_of_a_permission_request_is_answered() -> None:
    event = "PermissionRequest"
    assert wire_of(HookOutput.allow(), event) == specific(event, decision={"behavior": "allow"})
    assert wire_of(HookOutput.deny("no"), event) == specific(event, decision={"behavior": "deny", "message": "no"})
    update = ReplaceRules(rules=[PermissionRule("Bash")], behavior="deny")
    allow = Allow({"command": "ls"}, [update])
    decision = {
        "behavior": "allow",
        "updatedInput": {"command": "ls"},
        "updatedPermissions": [
            {"type": "replaceRules", "rules": [{"toolName": "Bash"}], "behavior": "deny", "destination": "session"}
        ],
    }
    assert wire_of(HookOutput(permission=allow), event) == specific(event, decision=decision)
    assert wire_of({"hookSpecificOutput": {"decision": allow}}, event) == specific(event, decision=decision)
    assert wire_of({"hookSpecificOutput": {"decision": decision}}, event) == specific(event, decision=decision)
    assert wire_of(HookOutput.ask(), event, "permission_decision") == {}
    assert wire_of(HookOutput.allow(permission=Deny("no")), event, "permission_decision") == specific(
        event, decision={"behavior": "deny", "message": "no"}
    )
    for wrong in ({"behavior": "ask"}, {}, "allow", 5):
        with pytest.raises(HookOutputError, match="decision"):
            encode_hook_output({"hookSpecificOutput": {"decision": wrong}}, event)
    with pytest.raises(HookOutputError, match="Allow or Deny"):
        encode_hook_output(HookOutput(permission={"behavior": "allow"}), event)


@shows("hooks.misplaced")
def test_decisions_that_an_event_does_not_take_are_left_out() -> None:
    assert wire_of(HookOutput.defer("x"), "PreModelSwitch", "permission_decision") == {}
    path = "hookSpecificOutput.permissionDecision"
    wire = wire_of(specific("PreModelSwitch", permissionDecision="defer"), "PreModelSwitch", path)
    assert wire == specific("PreModelSwitch")
    fields = ("permission_decision", "permission_decision_reason")
    assert wire_of(HookOutput.deny("no"), "PostToolUse", *fields) == {}
    [hint, _] = encode_hook_output(HookOutput.deny("no"), "PostToolUse").warnings
    assert "HookOutput.block(reason)" in hint.message


@shows("hooks.asynchronous")
def test_an_asynchronous_answer_decides_nothing() -> None:
    output = HookOutput(asynchronous=True, permission_decision="deny")
    assert wire_of(output, "PreToolUse", "permission_decision") == {"async": True}
    assert wire_of(HookOutput(async_timeout=5), "PreToolUse", "async_timeout") == {}
    for wrong in (0, -1, True, "5", float("nan"), float("inf")):
        with pytest.raises(HookOutputError, match="async_timeout"):
            encode_hook_output(HookOutput(asynchronous=True, async_timeout=wrong), "Stop")  # type: ignore[arg-type]
    assert wire_of({"async_": True, "asyncTimeout": 5000}, "Stop") == {"async": True, "asyncTimeout": 5000}
    with pytest.raises(HookOutputError, match="milliseconds"):
        encode_hook_output({"async": True, "asyncTimeout": "5"}, "Stop")


def test_dicts_may_have_the_official_packages_spelling() -> None:
    assert wire_of({"continue_": False, "reason": None}, "Stop") == {"continue": False}


@shows("hooks.unknown-keys")
def test_unknown_keys_are_sent_and_warned_of() -> None:
    assert wire_of({"hologram": [1]}, "Stop", "hologram") == {"hologram": [1]}
    path = "hookSpecificOutput.hologram"
    assert wire_of(specific("Stop", hologram=1), "Stop", path) == specific("Stop", hologram=1)
    for key, hint in {
        "sytemMessage": "`systemMessage`?",
        "permissionDecision": "`hookSpecificOutput`",
        "stop_reason": "`stopReason`",
        "additional_context": "`additionalContext`",
    }.items():
        [warning] = encode_hook_output({key: "x"}, "Stop").warnings
        assert warning.code == "FIELD_DROPPED"
        assert hint in warning.message


def test_an_event_without_specific_output_gets_none() -> None:
    assert wire_of(specific("PreCompact", x=1), "PreCompact", "hookSpecificOutput") == {}


def test_an_unknown_event_gets_what_was_said() -> None:
    assert wire_of(HookOutput.deny("no"), "Hologram") == specific(
        "Hologram", permissionDecision="deny", permissionDecisionReason="no"
    )
    assert wire_of(specific("Hologram", x=1), "Hologram") == specific("Hologram", x=1)


@shows("hooks.outputs")
@pytest.mark.parametrize(
    ("output", "message"),
    [
        (True, "not bool"),
        ("deny", "not str"),
        ([], "not list"),
        (object(), "not object"),
        (Allow(), "not Allow"),
        ({1: 2}, "key is a int"),
        ({"continue": "no"}, "`continue` must be True or False"),
        ({"decision": "deny"}, "one of 'approve', 'block'"),
        ({"reason": 5}, "`reason` must be a str"),
        ({"hookSpecificOutput": []}, "must be a dict"),
        ({"hookSpecificOutput": {"hookEventName": "Stop"}}, "must be 'PreToolUse'"),
        ({"hookSpecificOutput": {"permissionDecision": "yes"}}, "one of 'allow'"),
        ({"hookSpecificOutput": {"updatedInput": [1]}}, "must be a dict"),
        ({"x": float("nan")}, "not a finite number"),
        ({"x": {1, 2}}, "set, which JSON cannot hold"),
        ({"x": b"bytes"}, "bytes, which JSON cannot hold"),
        ({"x": "\ud800"}, "lone surrogate"),
        ({"x": {2: 1}}, "key that is a int"),
        (HookOutput(continue_=1), "`continue_` must be True or False"),  # type: ignore[arg-type]
        (HookOutput(permission_decision="yes"), "one of 'allow'"),  # type: ignore[arg-type]
        (HookOutput.update_input([1]), "must be a dict, not list"),  # type: ignore[arg-type]
        (HookOutput.update_input({"x": object()}), "updated_input.x` is a object"),
        (HookOutput.update_input({"x": [1, float("inf")]}), r"updated_input.x\[1\]` is not a finite"),
        (HookOutput.update_input(msgspec.Raw(b"[1]")), "must be a dict"),  # type: ignore[arg-type]
        (HookOutput.update_input({"x": msgspec.Raw(b"{")}), "not JSON"),
        (HookOutput.update_input({"x": msgspec.Raw(b"1,2")}), "not a single JSON value"),
        (HookOutput.update_input({"x": msgspec.Raw(b'"\xff"')}), "not JSON"),
        (HookOutput.block(5), "`reason` must be a str"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(output: object, message: str) -> None:
    with pytest.raises(HookOutputError, match=message) as caught:
        encode_hook_output(output, "PreToolUse")
    assert "PreToolUse hook" in str(caught.value)


def test_what_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(HookOutputError, match="contains itself"):
        encode_hook_output(HookOutput.update_input(endless), "PreToolUse")


def test_watch_paths_are_a_list() -> None:
    for wrong in ("a", [1], {"a"}):
        with pytest.raises(HookOutputError, match="watch_paths"):
            encode_hook_output(HookOutput(watch_paths=wrong), "CwdChanged")  # type: ignore[arg-type]


def test_bytes_that_were_kept_stay_and_never_break_the_line() -> None:
    output = HookOutput(updated_input=msgspec.Raw(b'{\n"n": 1e2\r\n}'))  # type: ignore[arg-type]
    encoded = msgspec.json.encode(encode_hook_output(output, "PreToolUse").wire)
    assert b"1e2" in encoded
    assert b"\n" not in encoded
    assert b"\r" not in encoded
    huge = msgspec.json.encode(encode_hook_output({"x": 10**400}, "Stop").wire)
    assert b"1" + b"0" * 400 in huge


def test_answers_are_copies() -> None:
    mine = {"a": [1]}
    wire = encode_hook_output(HookOutput.update_input(mine), "PreToolUse").wire
    mine["a"].append(2)
    assert wire["hookSpecificOutput"]["updatedInput"] == {"a": [1]}


@pytest.mark.parametrize("event", [*HOOK_EVENTS, "Hologram"])
def test_a_failed_hook_fails_open_unless_it_blocks(event: str) -> None:
    for on_failure in (None, "continue"):
        assert fail_output(on_failure, event, "boom").wire == {}
    wire = fail_output("block", event, "boom \ud800").wire
    if event in {"Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"}:
        assert wire == {}
        return
    encoded = json.loads(msgspec.json.encode(wire))
    assert wire_of(encoded, event) == encoded
    if event in {"PreToolUse", "PreModelSwitch"}:
        assert encoded == specific(event, permissionDecision="deny", permissionDecisionReason=r"boom \ud800")
    elif event == "PermissionRequest":
        assert encoded == specific(event, decision={"behavior": "deny", "message": r"boom \ud800"})
    elif event in {"Elicitation", "ElicitationResult"}:
        assert encoded == specific(event, action="decline")
    else:
        assert encoded == {"decision": "block", "reason": r"boom \ud800"}
    assert json.loads(msgspec.json.encode(fail_output("block", event).wire)) != {}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_anything = _json | st.floats() | st.binary(max_size=3) | st.dictionaries(st.integers(), _json, min_size=1)
_events = st.sampled_from([*HOOK_EVENTS, "Hologram"])
_CHOICES = {"decision", "permission_decision", "action"}


def _some(fields: dict[str, tuple[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these fields with values that can be sent; in one answer of eight, one has a value of any kind.

    Args:
        fields: the name in `HookOutput` and a value, by the name in the answer.
    """

    def values(name: str, value: Any) -> st.SearchStrategy[Any]:
        if name in {"updated_tool_output", "updated_mcp_tool_output", "hologram"}:
            return _json
        return st.text(max_size=5) if isinstance(value, str) and name not in _CHOICES else st.just(value)

    right = st.fixed_dictionaries({}, optional={key: values(*field) for key, field in fields.items()})
    wrong = st.builds(lambda output, key, value: {**output, key: value}, right, st.sampled_from([*fields]), _anything)
    return mostly(right, wrong)


def _check_sent(encoded: Answer, event: str, common: dict[str, Any], inner: dict[str, Any]) -> None:
    """Do nothing if the CLI gets these fields, but for those that are warned of, on one line that a hook may send on.

    Args:
        encoded: the answer.
        event: its event.
        common: fields by their names on the wire; None stands for no field.
        inner: those of the specific part.
    """
    if common or inner:
        reached()
    line = msgspec.json.encode(encoded.wire)
    assert b"\n" not in line
    wire: dict[str, Any] = json.loads(line)
    assert json.loads(msgspec.json.encode(encode_hook_output(wire, event).wire)) == wire
    specific = wire.pop("hookSpecificOutput", {"hookEventName": event})
    assert specific.pop("hookEventName") == event
    assert wire == json.loads(
        msgspec.json.encode({k: v for k, v in common.items() if v is not None or k == "hologram"})
    )
    warned = " ".join(warning.context["field"] for warning in encoded.warnings).lower().replace("_", "")
    for key, value in inner.items():
        if value is None or isinstance(value, (Allow, Deny)):
            continue
        if key in specific:
            assert specific[key] == json.loads(msgspec.json.encode(value))
        else:
            assert "hookspecificoutput" in warned or key.removesuffix("Reason").lower() in warned


@reaching
@given(event=_events, data=st.data())
def test_any_dict_is_sent_as_json_or_refused(event: str, data: st.DataObject) -> None:
    more = {"hologram": ("hologram", 5)}
    common = data.draw(_some({key: (name, value) for name, (key, value) in COMMON.items()} | more))
    names = SPECIFIC_FIELDS.get(event, {})
    inner = data.draw(_some({key: (name, VALUES[name][1]) for name, key in names.items()} | more))
    try:
        encoded = encode_hook_output({**common, "hookSpecificOutput": inner}, event)
    except HookOutputError:
        return
    _check_sent(encoded, event, common, inner)


@reaching
@given(event=_events, data=st.data())
def test_any_output_is_sent_as_json_or_refused(event: str, data: st.DataObject) -> None:
    common = data.draw(_some({name: (name, value) for name, (_, value) in COMMON.items()}))
    names = {key: name for fields in SPECIFIC_FIELDS.values() for key, name in fields.items()}
    inner = data.draw(_some({name: (name, VALUES[name][0]) for name in SPECIFIC_FIELDS.get(event, ["session_title"])}))
    try:
        encoded = encode_hook_output(HookOutput(**common, **inner), event)
    except HookOutputError:
        return
    _check_sent(
        encoded,
        event,
        {COMMON[name][0]: value for name, value in common.items()},
        {names[name]: value for name, value in inner.items()},
    )
