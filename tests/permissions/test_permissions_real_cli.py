"""Our permission classes against the real CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hackamore import Options
from hackamore._engine.launch.plan import conflicts
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.permissions import (
    AddDirectories,
    AddRules,
    Allow,
    Deny,
    PermissionRule,
    RemoveDirectories,
    RemoveRules,
    ReplaceRules,
    SetMode,
)
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.hooks.pipes import Conversation

if TYPE_CHECKING:
    from hackamore.permissions import PermissionRequest
    from tests.conftest import RealCLI


def touch(name: str) -> Reply:
    return Reply(ToolCall("Bash", {"command": f"touch {name}"}))


def allow(request: PermissionRequest) -> Allow:
    return Allow()


@shows("permissions.request")
def test_a_question_is_read_without_a_warning_and_allowed(real_cli: RealCLI) -> None:
    with ScriptedModel(touch("made"), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, can_use_tool=allow)
    [question] = talk.questions
    assert talk.warnings == []
    assert question.tool_name == "Bash"
    assert question.input == {"command": "touch made"}
    assert question.tool_use_id
    assert question.suggestions
    fields = {*question.__struct_encode_fields__, "subtype"}
    assert set(question.data) <= fields, set(question.data) - fields
    assert (real_cli.cwd / "made").exists()


@shows("permissions.allow")
def test_denied_changed_and_interrupted(real_cli: RealCLI) -> None:
    answers: dict[str, Allow | Deny] = {
        "touch a": Deny("not a"),
        "touch b": Allow({"command": "touch changed"}),
        "touch c": Deny("stop", interrupt=True),
    }

    def decide(request: PermissionRequest) -> Allow | Deny:
        return answers[request.input["command"]]

    with ScriptedModel(touch("a"), touch("b"), touch("c")) as model:
        talk = Conversation(real_cli, model, can_use_tool=decide)
    assert "not a" in talk.tool_results[0]
    assert [path.name for path in real_cli.cwd.iterdir()] == ["changed"]
    assert talk.results[-1]["is_error"]


@shows("permissions.updates")
@pytest.mark.parametrize(
    ("update", "questions"),
    [
        (None, 2),
        (AddRules(rules=[PermissionRule("Bash", "touch:*")], behavior="allow"), 1),
        (ReplaceRules(rules=[PermissionRule("Bash")], behavior="allow"), 1),
        (SetMode(mode="bypassPermissions"), 2),  # it was not started with the permission to be bypassed
        (AddRules(rules=[PermissionRule("Bash")], behavior="deny"), 1),
        (RemoveRules(rules=[PermissionRule("Bash")], behavior="allow"), 2),
        (AddDirectories(directories=["/tmp"]), 2),
        (RemoveDirectories(directories=["/tmp"]), 2),
        ({"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"}, 1),
    ],
    ids=str,
)
def test_updates_hold_from_then_on(real_cli: RealCLI, update: object, questions: int) -> None:
    def decide(request: PermissionRequest) -> Allow:
        return Allow(updated_permissions=[] if update is None else [update])  # type: ignore[list-item]

    with ScriptedModel(touch("a"), touch("b"), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, can_use_tool=decide)
    assert len(talk.questions) == questions
    assert talk.results[-1]["subtype"] == "success"
    assert (real_cli.cwd / "a").exists()


def test_suggestions_can_be_sent_back(real_cli: RealCLI) -> None:
    def decide(request: PermissionRequest) -> Allow:
        return Allow(updated_permissions=request.suggestions)

    with ScriptedModel(touch("a"), touch("a"), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, can_use_tool=decide)
    assert len(talk.questions) == 1


@shows("permissions.always")
def test_always_adds_a_rule_and_neither_a_mode_nor_a_file(real_cli: RealCLI) -> None:
    """The CLI also suggests the mode `acceptEdits`, a directory, and to write the rule to `.claude/settings.local.json`."""
    suggested: dict[str, set[str]] = {}

    def decide(request: PermissionRequest) -> Allow:
        suggested[request.tool_name] = {update.type for update in request.suggestions}
        return Allow.always(request)

    write = Reply(ToolCall("Write", {"file_path": str(real_cli.cwd / "new"), "content": ""}))
    with ScriptedModel(touch("a"), touch("a"), write, Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, can_use_tool=decide)
    assert suggested == {"Bash": {"addRules", "addDirectories", "setMode"}, "Write": {"setMode"}}
    # In the mode `acceptEdits` nothing would be asked about the `Write`.
    assert [question.tool_name for question in talk.questions] == ["Bash", "Write"]
    assert talk.results[-1]["subtype"] == "success"
    assert sorted(path.name for path in real_cli.cwd.iterdir()) == ["a", "new"]


def test_a_deny_rule_looks_at_the_command_and_not_at_its_effect(real_cli: RealCLI) -> None:
    """What the security page says: a rule for `rm` stops `rm`, also behind `sh -c`, and no other way to remove a file."""
    commands = ["rm a", "sh -c 'rm b'", "find . -name c -delete", "python3 -c \"import os; os.remove('d')\""]
    for name in "abcd":
        (real_cli.cwd / name).touch()
    steps = [Reply(ToolCall("Bash", {"command": command})) for command in commands]
    with ScriptedModel(*steps, Repeat("Done.")) as model:
        flags = ["--permission-mode=bypassPermissions", "--allow-dangerously-skip-permissions"]
        Conversation(real_cli, model, *flags, "--disallowedTools", "Bash(rm:*)")
    assert sorted(path.name for path in real_cli.cwd.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(("output", "made"), [(HookOutput.allow(), True), (HookOutput.deny("no"), False)], ids=str)
def test_a_permission_request_hook_answers_instead(real_cli: RealCLI, output: HookOutput, made: bool) -> None:
    hooks = {"PermissionRequest": [HookMatcher("Bash", [lambda asked, context: output])]}
    with ScriptedModel(touch("a"), Repeat("Done.")) as model:
        Conversation(real_cli, model, hooks=hooks)
    assert (real_cli.cwd / "a").exists() is made


@shows("permissions.shadowed")
@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (Options(can_use_tool=allow), []),
        (Options(can_use_tool=allow, permission_mode="bypassPermissions"), ["--permission-mode=bypassPermissions"]),
        (Options(can_use_tool=allow, permission_mode="acceptEdits"), ["--permission-mode=acceptEdits"]),
        (Options(can_use_tool=allow, allowed_tools=["Bash"]), ["--allowedTools", "Bash"]),
        (Options(can_use_tool=allow, allowed_tools=["Bash(curl:*)"]), ["--allowedTools", "Bash(curl:*)"]),
        (Options(can_use_tool=allow, disallowed_tools=["Bash(rm:*)"]), ["--disallowedTools", "Bash(rm:*)"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_warning_of_a_callback_that_is_never_asked_is_right(
    real_cli: RealCLI, options: Options, flags: list[str]
) -> None:
    with ScriptedModel(Reply(ToolCall("Bash", {"command": "curl -V > ../made"})), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, *flags, can_use_tool=allow)
    shadowed = [warning for warning in conflicts(options) if warning.code == "PERMISSION_CALLBACK_SHADOWED"]
    assert bool(shadowed) is not bool(talk.questions)


def test_nobody_is_asked_in_the_mode_that_does_not_ask(real_cli: RealCLI) -> None:
    with ScriptedModel(touch("a"), Repeat("Done.")) as model:
        talk = Conversation(real_cli, model, "--permission-mode=dontAsk", can_use_tool=allow)
    assert talk.questions == []
    assert not (real_cli.cwd / "a").exists()
