"""The real CLI runs shapes that pass filters of text, under a policy; canary files prove what ran. Nothing may run that is not allowed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import sync, tool, tool_server
from hackamore.hooks import HookOutput
from hackamore.policy import Policy, Rule
from hackamore.policy.audit import verify
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from hackamore.testing.policies import Shape, shapes
from tests.contract import shows
from tests.support.leaks import wait_gone
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from hackamore.hooks import PreToolUseHookInput
    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell

TOGETHER = 12
"""The calls of one reply of the model."""
BYPASS = {"permission_mode": "bypassPermissions"}
SECRET = "the-text-of-the-secret"
NAMED = (
    "awk cat cd echo env find git install ls nice nohup printf sed sort split stdbuf tar tee timeout true wait xargs"
)


def policy(root: Path) -> Policy:
    """Return a policy that names programs which can run others; the payload of the shapes is not among them."""
    return Policy(
        [
            Rule(name="named", program=NAMED.split(), decision="allow"),
            Rule(name="agents", tool="Agent", decision="allow"),
            Rule(name="files", tool=["Edit", "Write"], path="{root}/ok/**", decision="allow"),
            Rule(name="reading", tool="Read", path="{root}/**", decision="allow"),
            Rule(name="no secrets", tool=["Read", "Edit", "Write"], path="**/secret.txt", decision="deny"),
            Rule(name="kind tools", tool="mcp__tools__*", annotation="not destructive", decision="allow"),
        ],
        roots={"root": root},
    )


def runnable(shape: Shape) -> bool:
    return not shape.needs or shutil.which(shape.needs, path=os.defpath) is not None


@cache
def _works(shape: Shape, folder: str) -> bool:
    """Return whether bash makes the canary of a shape: only then the test shows something."""
    os.makedirs(work := f"{folder}/work")
    subprocess.run(
        ["bash", "-c", shape.around("touch canary")],
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=patience(20),
        env={"PATH": os.defpath, "HOME": folder},
    )
    return os.path.lexists(f"{work}/canary")


def bash(*commands: str) -> Reply:
    return Reply(*(ToolCall("Bash", {"command": command, "description": "test"}) for command in commands))


def canaries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("canary-*"))


def audit(path: Path) -> list[dict[str, Any]]:
    report = verify(path)
    assert report.problems == ()
    assert report.incomplete == ()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_shapes_run_their_payload_without_a_policy(tmp_path: Path) -> None:
    tried = [shape for shape in shapes() if runnable(shape)]
    idle = [shape.text for number, shape in enumerate(tried) if not _works(shape, str(tmp_path / str(number)))]
    assert not idle
    assert len(tried) > 100


@shows("policy.enforced.witness", "policy.audit.line")
def test_no_shape_runs_its_payload(shell: Shell, driving: Driving, real_cli: RealCLI, tmp_path: Path) -> None:
    tried = [shape for shape in shapes() if runnable(shape)]
    commands = [shape.around(f"touch canary-{number}") for number, shape in enumerate(tried)]
    replies = [bash(*commands[start : start + TOGETHER]) for start in range(0, len(commands), TOGETHER)]

    async def scenario() -> None:
        await shell.run("Go.", driving(model, policy=policy(real_cli.cwd), policy_audit=file, **BYPASS))

    file = tmp_path / "audit.jsonl"
    with ScriptedModel(*replies, Repeat("Done.")) as model:
        shell.play(scenario)
    assert canaries(tmp_path) == []
    lines = audit(file)
    assert sorted(line["input"]["command"] for line in lines) == sorted(commands)
    assert {line["decision"] for line in lines} == {"deny"}


def files(root: Path) -> list[ToolCall]:
    """Return calls that write canaries or read the secret by other names of the paths."""
    for name in ("ok", "ok-not", "outside"):
        (root / name).mkdir()
    (root / "ok" / "link").symlink_to("../outside")
    (root / "ok" / "other").symlink_to("../secret.txt")
    (root / "ok" / "dangling").symlink_to("../outside/canary-dangling")
    (root / "secret.txt").write_text(SECRET)
    os.link(root / "secret.txt", root / "outside" / "secret.txt")
    written = [
        "ok/../canary-0",
        "ok-not/canary-1",
        "ok/link/canary-2",
        "ok/dangling",
        "canary-3",
        "ok/link/../canary-4",
        "OK/canary-5",
    ]
    read = ["secret.txt", "ok/other", "ok/../secret.txt", "ok/link/secret.txt", "./secret.txt"]
    proc = f"/proc/self/root{root}"
    return [
        *(ToolCall("Write", {"file_path": f"{root}/{name}", "content": "x"}) for name in written),
        *(ToolCall("Write", {"file_path": name, "content": "x"}) for name in ("canary-6", "ok/../canary-7")),
        ToolCall("Write", {"file_path": f"{proc}/canary-8", "content": "x"}),
        *(ToolCall("Read", {"file_path": f"{root}/{name}"}) for name in read),
        ToolCall("Read", {"file_path": f"{proc}/secret.txt"}),
        ToolCall("Edit", {"file_path": f"{root}/secret.txt", "old_string": SECRET, "new_string": "x"}),
        ToolCall("Grep", {"pattern": ".", "path": f"{root}/secret.txt", "output_mode": "content"}),
    ]


@shows("policy.enforced.witness")
def test_no_file_or_server_is_reached_by_another_name(driving: Driving, real_cli: RealCLI, tmp_path: Path) -> None:
    reached: list[str] = []

    @tool(annotations={"destructiveHint": True})
    def wipe(what: str) -> str:
        """Wipe."""
        reached.append(f"canary-{what}")
        return "wiped"

    @tool(annotations={"destructiveHint": False, "readOnlyHint": True})
    def look(what: str) -> str:
        """Look."""
        reached.append(what)
        return "seen"

    calls = files(real_cli.cwd)
    servers = {"tools": tool_server("tools", [wipe, look])}
    wiped, seen = (ToolCall(f"mcp__tools__{name}", {"what": name}) for name in ("wipe", "look"))
    allowed = ToolCall("Write", {"file_path": f"{real_cli.cwd}/ok/made", "content": "x"})
    with ScriptedModel(Reply(*calls[:12]), Reply(*calls[12:], wiped), Reply(seen, allowed), Repeat("Done.")) as model:
        options = driving(model, policy=policy(real_cli.cwd), mcp_servers=servers, **BYPASS)
        sync.run("Go.", options)
        asked = json.dumps([request.messages for request in model.requests])
    # The CLI takes `..` away before it calls the hook, and before it writes: this one is inside.
    assert canaries(tmp_path) == ["canary-4"]
    assert (real_cli.cwd / "ok" / "canary-4").exists()
    assert reached == ["look"]
    assert (real_cli.cwd / "ok" / "made").exists()
    assert (real_cli.cwd / "secret.txt").read_text() == SECRET
    # The model itself wrote the text into one call.
    assert asked.count(SECRET) == asked.count(f'"old_string": "{SECRET}"')


@shows("policy.enforced.everywhere")
def test_subagents_and_resumed_sessions_are_decided_on(driving: Driving, real_cli: RealCLI, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    agent = {"description": "look", "prompt": "Look.", "subagent_type": "general-purpose"}
    given = {"policy": policy(real_cli.cwd), "policy_audit": file, **BYPASS}
    looks = [bash("touch canary-0", "echo a; touch canary-1"), Reply("Looked.")]
    steps: list[Any] = [Reply(ToolCall("Agent", agent)), Reply("Done."), bash("touch canary-2"), Repeat("Done.")]
    with ScriptedModel(*steps, subagents={"Look.": looks}) as model:
        first = sync.run("Go.", driving(model, **given))
        sync.run("Go.", driving(model, resume=first.session_id, **given))
    assert canaries(tmp_path) == []
    lines = audit(file)
    assert [line["decision"] for line in lines] == ["allow", "deny", "deny", "deny"]
    assert [line["agent"] for line in lines] == [None, "general-purpose", "general-purpose", None]


@shows("policy.enforced.deferred")
@pytest.mark.parametrize("guarded", [True, False], ids=["a policy", "a hook"])
def test_a_deferred_call_is_decided_on_when_a_late_host_resumes(
    guarded: bool, driving: Driving, real_cli: RealCLI, tmp_path: Path
) -> None:
    def later(call: object, context: object) -> HookOutput:
        return HookOutput.defer("later")

    def never(call: object, context: object) -> HookOutput:
        return HookOutput.deny("never")

    # 2.1.330 replays the call during its start. Without the flag it has finished when `initialize` comes late.
    slow = tmp_path / "slow-claude"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) exec {real_cli.cli_path} "$@";; esac\n'
        f'(sleep 2; exec cat) | {real_cli.cli_path} "$@"\n'
    )
    slow.chmod(0o755)
    given: dict[str, Any] = {"policy": policy(real_cli.cwd)} if guarded else {"hooks": {"PreToolUse": never}}
    with ScriptedModel(bash("touch canary-0"), Repeat("Done.")) as model:
        first = sync.run("Go.", driving(model, hooks={"PreToolUse": later}, **BYPASS))
        assert first.result.deferred_tool_use is not None
        options = driving(model, cli_path=str(slow), resume=first.session_id, **given, **BYPASS)
        sync.run("And?", options)
    assert canaries(tmp_path) == []


@shows("policy.enforced.killed")
def test_a_host_that_is_killed_while_it_decides_allows_nothing(
    shell: Shell, driving: Driving, real_cli: RealCLI, tmp_path: Path
) -> None:
    with ScriptedModel(bash("touch canary-0", "touch canary-1"), Repeat("Done.")) as model:
        options = driving(model, **BYPASS)
        wire = {
            "cli_path": str(options.cli_path),
            "cwd": str(options.cwd),
            "env": dict(options.env),
            "inherit_env": False,
        }
        arguments = [sys.executable, "-m", "tests.policy.deciding", shell.backend, json.dumps({**wire, **BYPASS})]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as host:
            assert host.stdout is not None
            pid = int(host.stdout.readline())
            assert host.stdout.readline() == "decides\n"
            host.send_signal(signal.SIGKILL)
            host.wait(patience(20))
        assert wait_gone(pid, patience(30))
    assert canaries(tmp_path) == []


class _Failing:
    """A policy that does not decide."""

    def __init__(self, decide: Callable[..., Any]) -> None:
        self.decide = decide


def _raises(*_: object, **around: object) -> Any:
    raise RuntimeError("the rules are broken")


RELEASED = threading.Event()


def _hangs(*_: object, **around: object) -> Any:
    RELEASED.wait(60)
    raise AssertionError("too late")


@shows("policy.enforced.closed")
@pytest.mark.parametrize("decide", [_raises, _hangs, lambda *_, **around: None], ids=["raises", "hangs", "nothing"])
def test_a_policy_that_fails_denies(
    decide: Callable[..., Any], shell: Shell, driving: Driving, real_cli: RealCLI, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"

    async def scenario() -> None:
        timeouts = hackamore.Timeouts(hook=0.5) if decide is _hangs else hackamore.Timeouts()
        given = {"policy": _Failing(decide), "policy_audit": file, "timeouts": timeouts, **BYPASS}
        await shell.run("Go.", driving(model, **given))

    RELEASED.clear()
    with ScriptedModel(bash("touch canary-0", "touch canary-1"), Repeat("Done.")) as model:
        shell.play(scenario)
    RELEASED.set()
    assert canaries(tmp_path) == []
    assert [(line["event"], line["decision"]) for line in audit(file)] == [("failure", "deny")] * 2


@shows("policy.enforced.hooks")
@pytest.mark.parametrize("where", ["options", "project", "a call"])
def test_settings_that_turn_hooks_off_leave_the_policy_on(where: str, driving: Driving, real_cli: RealCLI) -> None:
    given: dict[str, Any] = {"setting_sources": ["user", "project", "local"]}
    settings = real_cli.cwd / ".claude" / "settings.json"
    text = '{"disableAllHooks": true}'
    steps: list[Any] = [bash("touch canary-0"), bash("touch canary-1")]
    if where == "options":
        given["settings"] = {"disableAllHooks": True}
    elif where == "project":
        settings.parent.mkdir()
        settings.write_text(text)
    else:
        steps.insert(0, Reply(ToolCall("Write", {"file_path": str(settings), "content": text})))
    rules = [Rule(name="writes", tool="Write", path="**", decision="allow")]
    with ScriptedModel(*steps, Repeat("Done.")) as model:
        sync.run("Go.", driving(model, policy=Policy(rules), **given, **BYPASS))
    assert canaries(real_cli.cwd) == []
    assert settings.exists() is (where != "options")


ALLOW, DENY = HookOutput.allow(), HookOutput.deny("no")
OTHER = HookOutput.allow(updated_input={})
PERMIT, REFUSE = hackamore.Allow(), hackamore.Deny("no")
CHANGE = hackamore.Allow(updated_input={})
ROWS: list[tuple[str, HookOutput | None, hackamore.Allow | hackamore.Deny | None, bool]] = [
    # the rule, the hook of the user, `can_use_tool`, and whether the file is written
    ("free", None, REFUSE, True),
    ("free", DENY, PERMIT, False),
    ("free", OTHER, PERMIT, False),
    ("denied", ALLOW, PERMIT, False),
    ("asked", ALLOW, PERMIT, True),
    ("asked", ALLOW, REFUSE, False),
    ("asked", None, PERMIT, True),
    ("asked", None, CHANGE, False),
    ("asked", DENY, PERMIT, False),
    ("asked", OTHER, PERMIT, False),
]


@shows("policy.enforced.strictest", "policy.enforced.nobody")
@pytest.mark.parametrize("person", [True, False], ids=["a person", "nobody"])
def test_the_strictest_of_policy_hook_and_callback_wins(person: bool, driving: Driving, real_cli: RealCLI) -> None:
    root = real_cli.cwd
    rules = [
        Rule(name="free", tool="Write", path="{root}/free/**", decision="allow"),
        Rule(name="asked", tool="Write", path="{root}/asked/**", decision="ask"),
        Rule(name="denied", tool="Write", path="{root}/denied/**", decision="deny"),
    ]
    asked: list[int] = []

    def number(path: object) -> int:
        return int(str(path).rpartition("-")[2])

    def elsewhere(path: str) -> dict[str, Any]:
        return {"file_path": path.replace("/free/", "/denied/").replace("/asked/", "/denied/"), "content": "x"}

    def hook(call: PreToolUseHookInput, context: object) -> HookOutput | None:
        path = call.tool_input["file_path"]
        output = ROWS[number(path)][1]
        return output.replace(updated_input=elsewhere(path)) if output is not None and output is OTHER else output

    def can_use_tool(request: hackamore.PermissionRequest) -> Any:
        path = request.input["file_path"]
        asked.append(number(path))
        answer = ROWS[number(path)][2]
        return hackamore.Allow(updated_input=elsewhere(path)) if answer is CHANGE else answer

    calls = [
        ToolCall("Write", {"file_path": f"{root}/{rule}/canary-{row}", "content": "x"})
        for row, (rule, *_) in enumerate(ROWS)
    ]
    more = {"can_use_tool": can_use_tool} if person else {}
    with ScriptedModel(Reply(*calls), Repeat("Done.")) as model:
        sync.run("Go.", driving(model, policy=Policy(rules, roots={"root": root}), hooks={"PreToolUse": hook}, **more))
    expected = [row for row, (rule, *_, written) in enumerate(ROWS) if written and (person or rule == "free")]
    assert canaries(root) == [f"canary-{row}" for row in expected]
    assert sorted(asked) == ([4, 5, 6, 7] if person else [])
