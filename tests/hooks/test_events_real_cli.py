"""Which hook events the real CLI can be made to fire, and how: the table that docs/reference/hooks.md shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from hackamore.hooks import HOOK_EVENTS, HookMatcher, HookOutput
from hackamore.permissions import Allow
from hackamore.testing import HTTPFailure, Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.hooks.pipes import Conversation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.hooks import HookInput
    from tests.conftest import RealCLI

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "hooks.md"
BYPASS = "--permission-mode=bypassPermissions"
SEEN = "until [ -e seen ]; do sleep 0.1; done"
"""Ends once the event of a change has come."""


class Case(NamedTuple):
    """How events are made to fire."""

    fires: str
    steps: Sequence[Any] = ()
    prompts: Sequence[str] = ("Go",)
    arguments: Sequence[str] = (BYPASS,)
    files: Mapping[str, str] = {}
    requests: Sequence[Mapping[str, Any]] = ()
    compaction: Sequence[str] = ()


def call(tool: str, **arguments: Any) -> Reply:
    return Reply(ToolCall(tool, arguments))


def bash(command: str) -> Reply:
    return call("Bash", command=command)


CASES = [
    Case(
        "UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PostToolBatch MessageDisplay Stop",
        [bash("echo hi"), bash("exit 3"), Repeat("Done.")],
    ),
    Case("PermissionRequest", [bash("touch made"), Repeat("Done.")], arguments=()),
    Case("StopFailure", [HTTPFailure(418)]),
    Case(
        "UserPromptExpansion",
        [Repeat("Done.")],
        ["/greet bob"],
        files={".claude/commands/greet.md": "Greet $ARGUMENTS"},
    ),
    Case("SessionEnd SessionStart", prompts=["/clear"]),
    Case("PreCompact PostCompact", [Repeat("Done.")], ["Go", "/compact"], compaction=["All of it."]),
    Case(
        "PreModelSwitch PostModelSwitch",
        [Repeat("Done.")],
        requests=[{"subtype": "set_model", "model": "claude-sonnet-4-5"}],
    ),
    Case(
        "SubagentStart SubagentStop",
        [call("Agent", description="d", prompt="Look.", subagent_type="general-purpose"), Repeat("Done.")],
    ),
    Case(
        "TaskCreated TaskCompleted",
        [
            call("TaskCreate", subject="one", description="d"),
            call("TaskUpdate", taskId="1", status="completed"),
            Repeat("Done."),
        ],
        arguments=(BYPASS, "--tools", "TaskCreate,TaskUpdate"),
    ),
    Case(
        "InstructionsLoaded",
        [call("Read", file_path="sub/x"), Repeat("Done.")],
        files={"sub/CLAUDE.md": "Be brief.", "sub/x": ""},
    ),
    Case(
        "ConfigChange",
        [bash(f'echo \'{{"model":"x"}}\' > .claude/settings.local.json; {SEEN}'), Repeat("Done.")],
        files={".claude/settings.json": "{}"},
    ),
    Case(
        "FileChanged",
        # It may not be watched yet. The CLI waits for a second in which nothing is written.
        [bash(f"(while sleep 3; do date >watched; done) & {SEEN}; kill $!"), Repeat("Done.")],
        ["/clear", "Go"],
        files={"watched": "0"},
    ),
    Case(
        "WorktreeCreate WorktreeRemove",
        [call("EnterWorktree", name="w"), call("ExitWorktree", action="remove", discard_changes=True), Repeat("Done.")],
    ),
    Case(
        "DirectoryAdded",
        [Repeat("Done.")],
        files={"sub/x": ""},
        requests=[{"subtype": "register_repo_root", "directory": "sub", "path": "sub"}],
    ),
]
FIRING = {event for case in CASES for event in case.fires.split()}


@shows("hooks.firing")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fires.replace(" ", "-"))
def test_the_events_fire_and_are_read_whole(real_cli: RealCLI, case: Case) -> None:
    for name, text in case.files.items():
        path = real_cli.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tree = real_cli.directory / "tree"
    tree.mkdir()

    def answer(asked: HookInput, context: object) -> HookOutput | None:
        match asked.wire_event:
            case "ConfigChange" | "FileChanged":
                (real_cli.cwd / "seen").touch()
            case "WorktreeCreate":
                return HookOutput(worktree_path=str(tree))
            case "SessionStart":
                return HookOutput(watch_paths=[str(real_cli.cwd / "watched")])
        return None

    with ScriptedModel(*case.steps, subagents={"*": Repeat("Done.")}, compaction=case.compaction) as model:
        talk = Conversation(
            real_cli,
            model,
            *case.arguments,
            hooks={event: [HookMatcher(hooks=[answer])] for event in HOOK_EVENTS},
            can_use_tool=lambda request: Allow(),
            prompts=case.prompts,
            requests=case.requests,
        )
    assert talk.warnings == []
    assert set(case.fires.split()) <= {asked.wire_event for asked in talk.hooks}
    for asked in talk.hooks:
        assert asked.hook_event_name == asked.wire_event
        assert set(asked.data) <= set(asked.__struct_encode_fields__), asked.wire_event


@shows("hooks.firing")
def test_the_page_shows_exactly_what_is_tested() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Triggers")[2].partition("\n## ")[0]
    table, _, rest = text.partition("These events were not seen")
    shown = {
        event for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for event in re.findall(r"`(\w+)`", row)
    }
    assert shown == FIRING
    assert set(re.findall(r"`(\w+)`", rest)) & set(HOOK_EVENTS) == set(HOOK_EVENTS) - FIRING
