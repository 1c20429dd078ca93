"""Our hook classes against the real CLI: it reads what we write, and we read what it writes without a warning."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.hooks import HOOK_EVENTS, HookMatcher, HookOutput
from hackamore.hooks.outputs import fail_output
from hackamore.permissions import Deny
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.hooks.pipes import Conversation

if TYPE_CHECKING:
    from hackamore.hooks import HookInput
    from tests.conftest import RealCLI

BYPASS = "--permission-mode=bypassPermissions"


def answering(output: Any, event: str = "PreToolUse", **matcher: Any) -> dict[str, list[HookMatcher[Any]]]:
    return {event: [HookMatcher(hooks=[lambda asked, context: output], **matcher)]}


def bash(command: str = "echo hi") -> Reply:
    return Reply(ToolCall("Bash", {"command": command}))


def test_every_event_that_fires_is_read_without_a_warning(real_cli: RealCLI) -> None:
    def nothing(asked: HookInput, context: object) -> None:
        pass

    hooks = {event: [HookMatcher(hooks=[nothing])] for event in [*HOOK_EVENTS, "Hologram"]}
    del hooks["WorktreeCreate"]
    steps = [bash(), Reply(ToolCall("Bash", {"command": "exit 3"})), Reply("Done.")]
    with ScriptedModel(*steps) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=hooks)
    assert talk.warnings == []
    fired = [type(asked).wire_event for asked in talk.hooks]
    assert {"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop"} <= set(
        fired
    )
    for asked in talk.hooks:
        assert asked.hook_event_name == asked.wire_event
        assert asked.session_id
        assert asked.cwd == str(real_cli.cwd)
        unknown = set(asked.data) - set(asked.__struct_encode_fields__)
        assert not unknown, (asked.hook_event_name, unknown)
    [initialized, *_] = talk.of("control_response")
    assert initialized["response"]["response"]["hooks_applied"] is True


@shows("hooks.on-the-real-cli")
@pytest.mark.parametrize(
    ("output", "seen"),
    [
        (HookOutput.deny("not here"), "not here"),
        (HookOutput.deny("not here", additional_context="Note"), "not here"),
        (HookOutput.block("not here"), "not here"),
        # Keys that the CLI does not know do not weaken a denial.
        ({"hologram": 1, "hookSpecificOutput": {"permissionDecision": "deny", "hologram": 1}}, "Blocked by hook"),
        (HookOutput.update_input({"command": "echo changed"}), "changed"),
        (HookOutput.allow(updated_input={"command": "echo changed"}), "changed"),
        (HookOutput.proceed(), "hi"),
        (HookOutput.run_async(5), "hi"),
        (HookOutput.allow(), "hi"),
        (None, "hi"),
    ],
    ids=str,
)
def test_pre_tool_use(real_cli: RealCLI, output: object, seen: str) -> None:
    with ScriptedModel(bash(), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=answering(output, matcher="Bash"))
    [result] = talk.tool_results
    assert seen in result
    assert ("hi" in result) is (seen == "hi")


@shows("hooks.update-input")
def test_a_changed_input_allows_nothing_by_itself(real_cli: RealCLI) -> None:
    hooks = answering(HookOutput.update_input({"command": "touch changed"}))
    with ScriptedModel(bash("touch made"), Repeat("Done.")) as model:
        Conversation(real_cli, model, hooks=hooks)
    assert list(real_cli.cwd.iterdir()) == []


@shows("hooks.on-the-real-cli")
def test_ask_asks_the_permission_callback_whatever_the_mode(real_cli: RealCLI) -> None:
    with ScriptedModel(bash("touch made"), Repeat("Done.")) as model:
        talk = Conversation(
            real_cli,
            model,
            BYPASS,
            hooks=answering(HookOutput.ask("look twice")),
            can_use_tool=lambda request: Deny("no"),
        )
    [question] = talk.questions
    assert question.decision_reason_type == "hook"
    assert "look twice" in (question.decision_reason or "")
    assert list(real_cli.cwd.iterdir()) == []


def test_several_hooks_the_strictest_wins(real_cli: RealCLI) -> None:
    outputs = [HookOutput.allow(), HookOutput.deny("no"), None]
    hooks = {"PreToolUse": [HookMatcher(hooks=[partial(lambda o, asked, context: o, o) for o in outputs])]}
    with ScriptedModel(bash("touch made"), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=hooks)
    assert len(talk.hooks) == 3
    assert list(real_cli.cwd.iterdir()) == []


@shows("asked.guard.in-the-cli")
@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit"])
def test_the_answer_of_a_failed_hook_that_blocks_is_understood(real_cli: RealCLI, event: str) -> None:
    hooks = answering(fail_output("block", event, "the guard is down").wire, event, on_failure="block")
    steps: list[Any] = [bash("touch made"), Repeat("Done.")] if event == "PreToolUse" else []
    with ScriptedModel(*steps) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=hooks)
    assert list(real_cli.cwd.iterdir()) == []
    assert "the guard is down" in json.dumps(talk.frames)


def test_deferred(real_cli: RealCLI) -> None:
    with ScriptedModel(bash()) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=answering(HookOutput.defer()))
    assert talk.results[-1]["deferred_tool_use"]["name"] == "Bash"


@shows("hooks.on-the-real-cli")
def test_stop_and_block(real_cli: RealCLI) -> None:
    with ScriptedModel() as model:
        hooks = answering(HookOutput.block("no prompts"), "UserPromptSubmit")
        talk = Conversation(real_cli, model, hooks=hooks)
    assert len(talk.results) == 1
    assert not model.requests
    with ScriptedModel(bash()) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=answering(HookOutput.stop("enough"), "PostToolUse"))
    assert len(talk.results) == 1


@shows("hooks.stop")
@pytest.mark.parametrize("beside", [None, HookOutput.allow()], ids=["alone", "beside an allow"])
def test_a_stop_before_a_tool_denies_the_tool_and_ends_the_turn(real_cli: RealCLI, beside: HookOutput | None) -> None:
    hooks = answering(HookOutput.stop("enough"))
    hooks["PreToolUse"] += answering(beside)["PreToolUse"]
    with ScriptedModel(bash("touch made")) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=hooks)
    assert list(real_cli.cwd.iterdir()) == []
    [result] = talk.results
    assert result["terminal_reason"] == "hook_stopped"
    assert len(model.requests) == 1


@shows("hooks.stop")
def test_a_stop_at_a_permission_request_denies_the_tool_and_ends_the_turn(real_cli: RealCLI) -> None:
    hooks = answering(HookOutput.stop("enough"), "PermissionRequest")
    with ScriptedModel(bash("touch made")) as model:
        talk = Conversation(real_cli, model, hooks=hooks)
    assert list(real_cli.cwd.iterdir()) == []
    assert len(talk.results) == 1
    assert len(model.requests) == 1


@shows("hooks.on-the-real-cli")
def test_context_reaches_the_model(real_cli: RealCLI) -> None:
    hooks = answering(HookOutput.add_context("The password is tulip."), "UserPromptSubmit")
    with ScriptedModel(Reply("Done.")) as model:
        Conversation(real_cli, model, hooks=hooks)
    assert "The password is tulip." in json.dumps(model.requests[-1].body)


def test_a_changed_result_reaches_the_model(real_cli: RealCLI) -> None:
    output = HookOutput(updated_tool_output={"stdout": "other", "stderr": "", "interrupted": False, "isImage": False})
    with ScriptedModel(bash(), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=answering(output, "PostToolUse"))
    assert talk.tool_results == ["other"]


def test_no_deadline_is_a_deadline_that_the_cli_takes(real_cli: RealCLI) -> None:
    with ScriptedModel(bash(), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, BYPASS, hooks=answering(None), timeout=None)
    assert talk.tool_results == ["hi"]
    assert talk.of("control_cancel_request") == []
