"""The CLI alone, with the compiled rules of random policies, decides as the policy does."""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore import Policy, Rule
from hackamore.permissions import Deny
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.hooks.pipes import Conversation
from tests.support.seeds import seeded
from tests.support.sizes import size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.conftest import RealCLI

CALLS_OF_A_SESSION = 50
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    if asked["method"] == "tools/list":
        names = ("get_a", "get_b", "delete_a", "put__c")
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    if asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "ran"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
SERVERS = json.dumps(
    {"mcpServers": {name: {"command": sys.executable, "args": ["-c", SERVER]} for name in ("git", "web")}}
)
ALL_EDITORS = ["Edit", "Write", "MultiEdit", "NotebookEdit"]
RULES: tuple[dict[str, Any], ...] = (
    {"tool": "Read", "decision": "allow"},
    {"tool": ["Edit", "Write"], "decision": "allow"},
    {"tool": "WebSearch", "decision": "allow"},
    {"tool": "mcp__git__*", "decision": "allow"},
    {"tool": "mcp__web__get_*", "decision": "allow"},
    {"tool": "ToolSearch", "decision": "allow"},
    {"tool": "WebFetch", "domain": "docs.example.com", "decision": "allow"},
    {"tool": ["Edit", "Write"], "path": "{repo}/src/**", "decision": "allow"},
    {"program": "git", "verb": ["status", "log"], "decision": "allow"},
    {"server": "git", "decision": "allow"},
    {"path": ["{repo}/secret/**", "**/.ssh/**"], "decision": "deny"},
    {"path": "{repo}/**/*.pem", "decision": "deny"},
    {"tool": ALL_EDITORS, "path": "{repo}/docs/**", "decision": "ask"},
    {"tool": ["Edit", "Write"], "path": "{repo}/vendor/**", "decision": "deny"},
    {"tool": "mcp__git__delete_*", "decision": "deny"},
    {"tool": "mcp__*__put__c", "decision": "ask"},
    {"tool": "mcp__*", "annotation": "destructive", "decision": "deny"},
    {"server": "web", "decision": "ask"},
    {"tool": "WebFetch", "domain": ["evil.com", "*.evil.org"], "decision": "deny"},
    {"tool": "Bash", "decision": "deny"},
    {"program": ["rm", "curl"], "decision": "deny"},
    {"program": "git", "verb": "push", "decision": "deny"},
    {"tool": "Web*", "decision": "ask"},
    {"tool": "WebSearch", "decision": "deny"},
    {"tool": "Read", "spent_over": 0.0, "decision": "deny"},
)
WORDS = ("-v", "a.txt", "src", "--all", "x1")


class Decided(NamedTuple):
    """A call, and the decision of the CLI."""

    tool: str
    input: dict[str, Any]
    decision: str
    text: str


def decide(cli: RealCLI, settings: object, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Decided]:
    """Return the decisions of the CLI alone: a permission request is `ask`."""
    steps = [Reply(*(ToolCall(*call) for call in calls[at : at + 25])) for at in range(0, len(calls), 25)]
    with ScriptedModel(*steps, Repeat("Done.")) as model:
        flags = ["--settings", json.dumps(settings), "--mcp-config", SERVERS]
        talk = Conversation(cli, model, *flags, can_use_tool=lambda request: Deny("asked"))
    asked = {question.tool_use_id for question in talk.questions}
    frames = [frame for frame in talk.frames if frame["type"] in ("user", "assistant")]
    blocks = [block for frame in frames for block in frame["message"]["content"] if isinstance(block, dict)]
    uses = [block for block in blocks if block["type"] == "tool_use"]
    results = {block["tool_use_id"]: str(block["content"]) for block in blocks if block["type"] == "tool_result"}
    decided = []
    for (tool, given), use in zip(calls, uses, strict=True):
        text = results[use["id"]]
        denied = any(part in text for part in ("denied", "deny rule", "No such tool available"))
        decided.append(Decided(tool, given, "ask" if use["id"] in asked else "deny" if denied else "allow", text))
    return decided


def lay_out(cwd: Path) -> None:
    """Make the files that calls are about."""
    for name in ("src", "docs", "secret", "vendor"):
        (cwd / name).mkdir()
        for number in range(CALLS_OF_A_SESSION):
            (cwd / name / f"{number}.txt").write_text("a\n")
    (cwd / "link").symlink_to(cwd / "secret")
    (cwd / "key").symlink_to(cwd / "src" / "k.pem")
    (cwd / "src" / "k.pem").write_text("a\n")


def some_call(chosen: random.Random, cwd: Path, number: int) -> tuple[str, dict[str, Any]]:
    """Return a call."""
    folder = chosen.choice(
        ("src", "docs", "secret", "vendor", "SECRET", "link", "src/../secret", "secret/../src", "src/.ssh")
    )
    base = chosen.choice((f"{cwd}/", f"{cwd}/", "", f"{cwd.parent}/other/"))
    match chosen.choice(
        ("Read", "Read", "Write", "Write", "Edit", "Bash", "Bash", "WebFetch", "WebSearch", "mcp", "mcp", "ToolSearch")
    ):
        case "Read":
            return "Read", {
                "file_path": chosen.choice(
                    (
                        f"{base}{folder}/{number % CALLS_OF_A_SESSION}.txt",
                        f"{cwd}/key",
                        f"{base}src/k.pem",
                        "/etc/hostname",
                    )
                )
            }
        case "Write":
            return "Write", {
                "file_path": f"{base}{folder}/new{number}.{chosen.choice(('txt', 'pem', 'PEM'))}",
                "content": "z",
            }
        case "Edit":
            # The CLI checks an existing file before it decides.
            path = f"{cwd}/{chosen.choice(('src', 'docs', 'secret', 'vendor'))}/made{number}.txt"
            return "Edit", {"file_path": path, "old_string": "", "new_string": "b"}
        case "Bash":
            program = chosen.choice(
                ("rm", "curl", "git push", "git status", "git log", "ls", "cat", "echo", "make", "rmdir", "git pull")
            )
            words = chosen.sample(WORDS, chosen.randrange(3)) if program not in ("rm", "make") else [f"none{number}"]
            return "Bash", {"command": " ".join([program, *words])}
        case "WebFetch":
            domain = chosen.choice(
                ("evil.com", "a.evil.com", "evil.org", "a.b.evil.org", "docs.example.com", "EVIL.com", "example.com")
            )
            return "WebFetch", {"url": f"https://{domain}/{number}", "prompt": "x"}
        case "mcp":
            return (
                f"mcp__{chosen.choice(('git', 'web'))}__{chosen.choice(('get_a', 'get_b', 'delete_a', 'put__c'))}",
                {},
            )
        case tool:
            return tool, {"query": f"text {number}"}


@shows("policy.tools.compile")
def test_the_cli_alone_decides_the_same_where_compile_is_complete(real_cli: RealCLI) -> None:
    lay_out(real_cli.cwd)
    wanted = size("calls decided by the CLI alone")
    session, compared, commands, wrong = 0, 0, 0, []
    while compared < wanted and session < wanted:
        chosen = random.Random(seeded(7_300 + session))
        rules = chosen.sample(RULES, chosen.randrange(2, 8))
        policy = Policy([Rule(**rule) for rule in rules], roots={"repo": real_cli.cwd})
        made = policy.compile()
        numbers = range(session * CALLS_OF_A_SESSION, (session + 1) * CALLS_OF_A_SESSION)
        calls = [some_call(chosen, real_cli.cwd, number) for number in numbers]
        verdicts = [policy.decide(*call, cwd=real_cli.cwd, spent=0.0) for call in calls]
        for verdict, found in zip(verdicts, decide(real_cli, made.settings, calls), strict=True):
            name = "mcp__*" if found.tool.startswith("mcp__") else found.tool
            whole = {name, found.tool} & {*made.complete} and not verdict.cannot_tell
            # A plain command with a denied program is denied by both, although other spellings of it are not.
            plain = found.tool == "Bash" and "deny" in (found.decision, verdict.decision)
            lax = found.decision == "allow" and verdict.decision != "allow"
            compared += bool(whole)
            commands += plain
            if lax or (found.decision != verdict.decision and (whole or plain)):
                text = f"{found.decision} instead of {verdict.decision}: {found.tool} {found.input}"
                wrong.append(f"{text}: {found.text[:90]!r}\n    {rules}")
        session += 1
    print(f"{session} sessions of {CALLS_OF_A_SESSION} calls, {compared} compared, {commands} denied commands")
    assert not wrong, "\n" + "\n".join(wrong[:20])
    assert compared >= wanted
