"""The verdicts of the simulated permission rules: a tool that the CLI would ask about must not run in a test."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore.testing.simulation.rules import blocked_path, judge, rule_matches, suggestions

FOLDERS = ("/repo", "/more/")
READS = ("ls", "ls -l src", "cat a | grep b && pwd; wc -l c", "find . -name x || true", "head /repo/a", "cat /dev/null")
CHANGES = ("touch a", "rm -r src", "mkdir -p x/y", "sed -i s/a/b/ c", "cp a /more/b", "mv a ./b")


def verdict(tool: str, arguments: dict[str, Any], **more: Any) -> tuple[str, str | None]:
    found = judge(
        tool,
        arguments,
        **{"mode": "default", "allowed": (), "denied": (), "can_ask": True, "folders": FOLDERS, **more},
    )
    return found.decision, found.reason


def bash(command: str, **more: Any) -> tuple[str, str | None]:
    return verdict("Bash", {"command": command}, **more)


@pytest.mark.parametrize("command", READS)
def test_commands_that_only_read_run_unasked(command: str) -> None:
    for mode in ("default", "plan", "dontAsk", "acceptEdits"):
        assert bash(command, mode=mode) == ("allow", "subcommandResults")


@pytest.mark.parametrize("command", CHANGES)
def test_commands_that_change_files_are_asked_about(command: str) -> None:
    assert bash(command) == ("ask", None)
    assert bash(command, can_ask=False) == ("deny", None)
    assert bash(command, mode="acceptEdits") == ("allow", "subcommandResults")
    assert bash(command, mode="bypassPermissions") == ("allow", "mode")
    assert bash(command, mode="dontAsk") == ("deny", "mode")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        *(
            ("curl x", "other"),
            ("python a.py", "other"),
            ("./run", "other"),
            ("FOO=1 ls", "other"),
            ("git log", "other"),
        ),
        *(("ls; curl x", "subcommandResults"), ("touch a && curl x", "subcommandResults")),
        *(("ls $(curl x)", "other"), ("echo `curl x`", "other"), ("echo a > b", "other"), ("cat < b", "other")),
        *(("ls\ncurl x", "other"), ("echo 'a", None), ("", None)),
        *(("rm ../a", None), ("rm /etc/a", None), ("touch ~/a", None), ("cat ../a", None), ("ls /reposhop", None)),
    ],
)
def test_all_else_is_asked_about(command: str, reason: str | None) -> None:
    assert bash(command) == ("ask", reason)
    for mode in ("default", "acceptEdits"):
        assert bash(command, mode=mode, can_ask=False)[0] == "deny"


def test_several_changes_of_files_are_edits() -> None:
    assert bash("touch a && rm b; ls") == ("ask", "subcommandResults")
    assert bash("touch a && rm b; ls", mode="acceptEdits") == ("allow", "subcommandResults")
    command = {"command": "touch a && curl x"}
    found = judge("Bash", command, mode="acceptEdits", allowed=(), denied=(), can_ask=False, folders=FOLDERS)
    assert found.message.endswith("The following part requires approval: curl x")
    command = {"command": "touch ../a && rm b"}
    found = judge("Bash", command, mode="acceptEdits", allowed=(), denied=(), can_ask=False, folders=FOLDERS)
    assert found.message.endswith("The following parts require approval: touch ../a, rm b")


@pytest.mark.parametrize("tool", ["Edit", "NotebookEdit", "Write"])
def test_edits(tool: str) -> None:
    inside, outside = {"file_path": "/repo/a"}, {"file_path": "/etc/a"}
    assert verdict(tool, inside) == ("ask", None)
    assert verdict(tool, inside, mode="acceptEdits") == ("allow", "mode")
    assert verdict(tool, outside, mode="acceptEdits") == ("ask", "workingDir")
    assert verdict(tool, outside, can_ask=False) == ("deny", "workingDir")
    assert verdict(tool, {"file_path": "/more/x/a"}, mode="acceptEdits") == ("allow", "mode")
    assert verdict(tool, {"file_path": "../etc/a"}, mode="acceptEdits") == ("ask", "workingDir")


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Read", {"file_path": "a"}, ("allow", "mode")),
        ("Read", {}, ("allow", "mode")),
        ("Read", {"file_path": "/repo"}, ("allow", "mode")),
        ("Read", {"file_path": "/etc/passwd"}, ("ask", "workingDir")),
        ("Read", {"file_path": "/repo/../etc/passwd"}, ("ask", "workingDir")),
        ("Read", {"file_path": "~/key"}, ("ask", "workingDir")),
        ("Glob", {"path": "a"}, ("allow", "mode")),
        ("Grep", {"path": "a"}, ("allow", "mode")),
        ("Task", {}, ("allow", None)),
        ("WebFetch", {"url": "https://a.example"}, ("ask", None)),
        ("mcp__shop__price", {}, ("ask", None)),
    ],
)
def test_other_tools(tool: str, arguments: dict[str, Any], expected: tuple[str, str | None]) -> None:
    assert verdict(tool, arguments) == expected


@pytest.mark.parametrize(
    ("rule", "tool", "arguments", "matches"),
    [
        ("Bash", "Bash", {"command": "x"}, True),
        ("Bash()", "Bash", {"command": "x"}, True),
        ("Bash(*)", "Bash", {"command": "x"}, True),
        ("Bash", "BashOutput", {}, False),
        ("Bash(git *)", "Bash", {"command": "git push"}, True),
        ("Bash(git *)", "Bash", {"command": "git"}, True),
        ("Bash(git *)", "Bash", {"command": "github"}, False),
        ("Bash(git:*)", "Bash", {"command": "git push"}, True),
        ("Bash(git:*)", "Bash", {"command": "git"}, True),
        ("Bash(git:*)", "Bash", {"command": "github"}, False),
        ("Bash(git push)", "Bash", {"command": "git push origin"}, False),
        ("Bash(GIT *)", "Bash", {"command": "git push"}, False),
        ("Bash(git *)", "Read", {"command": "git push"}, False),
        ("Read(//etc/**)", "Read", {"file_path": "/etc/a/b"}, True),
        ("Read(//etc/**)", "Read", {"file_path": "/home/a"}, False),
        ("Read(./src/*)", "Read", {"file_path": "/repo/src/a"}, True),
        ("Edit(src/*.py)", "Edit", {"file_path": "/repo/src/a.py"}, True),
        ("Edit(src/*.py)", "Edit", {"file_path": "/repo/src/a.js"}, False),
        ("WebFetch(domain:a.example)", "WebFetch", {"url": "https://a.example/x"}, True),
        ("WebFetch(domain:a.example)", "WebFetch", {"url": "https://b.example/?a.example"}, False),
        ("WebFetch(domain:a.example)", "WebFetch", {"url": "https://a.example.evil/"}, False),
        ("WebSearch(tea)", "WebSearch", {"query": "tea"}, True),
        ("WebSearch(tea)", "WebSearch", {"query": "coffee"}, False),
        ("Skill(pdf)", "Skill", {"skill": "pdf"}, True),
        ("Task(finder)", "Task", {"subagent_type": "finder"}, True),
        ("Task(finder)", "Task", {"subagent_type": "other"}, False),
        ("mcp__shop", "mcp__shop__price", {}, True),
        ("mcp__shop", "mcp__shopping__price", {}, False),
        ("mcp__shop__*", "mcp__shop__price", {}, True),
        ("mcp__shop__price", "mcp__shop__price", {}, True),
        ("mcp__shop__price", "mcp__shop__buy", {}, False),
    ],
)
def test_what_a_rule_is_about(rule: str, tool: str, arguments: dict[str, Any], matches: bool) -> None:
    assert rule_matches(rule, tool, arguments) is matches
    if not matches:
        assert verdict(tool, arguments, allowed=[rule]) == verdict(tool, arguments)
        return
    assert verdict(tool, arguments, allowed=[rule])[0] == "allow"
    for mode in ("default", "bypassPermissions"):
        denied = verdict(tool, arguments, denied=[rule], allowed=[tool], mode=mode)
        assert denied == ("deny", "subcommandResults" if tool == "Bash" else "rule")


def test_the_reason_of_an_allowed_command() -> None:
    assert bash("git push", allowed=["Bash(git *)"]) == ("allow", "subcommandResults")
    assert bash("git push", allowed=["Bash(git *)", "Bash"]) == ("allow", "rule")


@pytest.mark.parametrize(
    ("tool", "arguments", "reasons"),
    [
        (
            *("Bash", {"command": "curl x"}),
            "Claude requested permissions to use Bash, but you haven't granted it yet.",
        ),
        ("Edit", {"file_path": "a"}, "Claude requested permissions to write to a, but you haven't granted it yet."),
        (
            *("Read", {"file_path": "/etc/a"}),
            "Claude requested permissions to read from /etc/a, but you haven't granted it yet.",
        ),
        (
            *("Bash", {"command": "touch a"}),
            "touch in '/repo/a' needs approval. The path is inside the working directories for this session ('/repo'), and "
            "Claude Code asks before a shell command creates, changes or removes files there.",
        ),
        (
            *("Bash", {"command": "touch /etc/a"}),
            "touch in '/etc/a' needs approval. The path is outside the working directories for this session ('/repo'). "
            "Allowing runs the command as written.",
        ),
        (
            *("Bash", {"command": "cat /etc/a"}),
            "cat in '/etc/a' was blocked. For security, Claude Code may only concatenate files from the allowed working "
            "directories for this session: '/repo'.",
        ),
        (
            *("Bash", {"command": "wc /etc/a"}),
            "wc in '/etc/a' was blocked. For security, Claude Code may only read the allowed working directories for this "
            "session: '/repo'.",
        ),
        (
            *("Bash", {"command": "ls; curl x"}),
            "This Bash command contains multiple operations. The following part requires approval: curl x",
        ),
        (
            *("Bash", {"command": "curl x && rm -r b | wc"}),
            "This Bash command contains multiple operations. The following parts require approval: curl x, rm -r b",
        ),
    ],
)
def test_a_denial_says_why(tool: str, arguments: dict[str, Any], reasons: str) -> None:
    found = judge(tool, arguments, mode="default", allowed=(), denied=(), can_ask=False, folders=FOLDERS)
    assert (found.message, found.kind) == (reasons, "user-rejected")
    denied = judge(tool, arguments, mode="default", allowed=(), denied=[tool], can_ask=False, folders=FOLDERS)
    use = f"Bash with command {arguments['command']}" if tool == "Bash" else tool
    assert (denied.message, denied.kind) == (f"Permission to use {use} has been denied.", "permission-rule")


ACCEPT = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


def rules(tool: str, *contents: str, destination: str = "localSettings") -> dict[str, Any]:
    found = [{"toolName": tool, "ruleContent": content} for content in contents] or [{"toolName": tool}]
    return {"type": "addRules", "rules": found, "behavior": "allow", "destination": destination}


def folder(path: str) -> dict[str, Any]:
    return {"type": "addDirectories", "directories": [path], "destination": "session"}


@pytest.mark.parametrize(
    ("tool", "arguments", "suggested", "blocked"),
    [
        ("Edit", {"file_path": "a"}, [ACCEPT], None),
        ("Write", {"file_path": "/nowhere/a"}, [ACCEPT, folder("/nowhere")], None),
        ("Read", {"file_path": "/nowhere/a"}, [rules("Read", "//nowhere/**", destination="session")], None),
        ("WebFetch", {"url": "https://a.example/x"}, [rules("WebFetch", "domain:a.example")], None),
        ("WebFetch", {}, [rules("WebFetch")], None),
        ("mcp__shop__price", {"url": "https://a.example/x"}, [rules("mcp__shop__price")], None),
        ("Bash", {"command": "git push origin"}, [rules("Bash", "git push *")], None),
        ("Bash", {"command": "python a.py"}, [rules("Bash", "python a.py")], None),
        ("Bash", {"command": "A=1 make all"}, [rules("Bash", "A=1 make all")], None),
        ("Bash", {"command": "ls; curl x; make all"}, [rules("Bash", "curl x *", "make all *")], None),
        ("Bash", {"command": "rm A"}, [rules("Bash", "rm A"), folder("/repo"), ACCEPT], "/repo/A"),
        (
            "Bash",
            {"command": "rm /nowhere/A"},
            [rules("Bash", "rm /nowhere/A"), folder("/nowhere"), ACCEPT],
            "/nowhere/A",
        ),
        (
            *("Bash", {"command": "cat /nowhere/A"}),
            [rules("Bash", "cat /nowhere/A"), rules("Read", "//nowhere/**", destination="session")],
            "/nowhere/A",
        ),
        ("Bash", {"command": "rm"}, [rules("Bash", "rm")], None),
    ],
)
def test_what_is_suggested(tool: str, arguments: dict[str, Any], suggested: Any, blocked: str | None) -> None:
    assert suggestions(tool, arguments, FOLDERS) == suggested
    assert blocked_path(tool, arguments, FOLDERS) == blocked
