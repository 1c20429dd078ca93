"""Conversations of hosts with a simulated CLI, frame by frame, and what it sends in them.

`python -m tests.testing.simulation.conversations` writes `conversations.txt` again: do so after `tests/fidelity` has passed with a
changed simulated CLI, because the frames of the real CLI decide.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from hackamore.testing import Script
from tests.testing.simulation.peer import Peer, of_server

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(__file__).with_suffix(".txt")
FIRST = "everything in one turn"
EVENTS = (
    *(
        "UserPromptSubmit",
        "MessageDisplay",
        "Stop",
        "StopFailure",
        "SessionStart",
        "SessionEnd",
        "PreCompact",
        "PostCompact",
    ),
    *(
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "PermissionRequest",
        "SubagentStart",
        "SubagentStop",
    ),
    *("PreModelSwitch", "PostModelSwitch", "DirectoryAdded"),
)
ASKS = ("--permission-prompt-tool", "stdio")
BYPASS = ("--permission-mode", "bypassPermissions")
SERVER = (
    "--mcp-config",
    '{"mcpServers": {"shop": {"type": "sdk", "name": "shop"}, "far": {"type": "http", "url": "http://far.invalid"}}}',
)
PRICE = {"name": "price", "description": "Return a price.", "annotations": {"readOnlyHint": True}}
PRICE["inputSchema"] = {"required": ["article"], "properties": {"article": {"type": "string"}}, "type": "object"}
SHOP = {
    "initialize": of_server(serverInfo={"name": "shop"}),
    "tools/list": of_server(tools=[PRICE, {"name": "send_home"}, "no tool"]),
    "tools/call": of_server(content=[{"type": "text", "text": "2.5"}]),
}


def hooks(*events: str, **more: Any) -> dict[str, Any]:
    """Return the registration of a hook for each event."""
    return {event: [{"matcher": None, "hookCallbackIds": [f"on-{event}"], **more}] for event in events}


def specific(event: str, **fields: Any) -> dict[str, Any]:
    """Return an output of a hook that is for its event."""
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def decided(behavior: str, **more: Any) -> dict[str, Any]:
    """Return the decision of a hook about permission."""
    return specific("PermissionRequest", decision={"behavior": behavior, **more})


def once(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    """Return a function that returns one of the answers each time, and then empty ones."""
    left = [*answers]
    return lambda request: left.pop(0) if left else {}


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"command": command, **more}


def everything_in_one_turn() -> Peer:
    inner = (
        Script()
        .says("I look.")
        .calls("Bash", bash("echo x"), result="x")
        .calls("Write", {"file_path": "/repo/b", "content": "1\n2"})
    )
    script = Script().user("go").thinks("hm, let me see").says("Hello", chunk=3).calls("Bash", bash("touch a"))
    script.calls("mcp__shop__price", {"article": "tea"}, together=True).subagent("look", inner.says("Seen.\nAll."))
    peer = Peer(
        script.says("Done."), "--include-partial-messages", "--forward-subagent-text", *ASKS, *SERVER,
        answers={**SHOP, "can_use_tool": {"behavior": "allow"}},
    )  # fmt: skip
    peer.ask("initialize", hooks=hooks(*EVENTS), agents={"finder": {}}, sdkMcpServers=["shop"])
    peer.say("go")
    return peer


def background_work() -> Peer:
    script = (
        Script()
        .user("one")
        .calls("Bash", bash("make", run_in_background=True))
        .says("Started.")
        .task_ends()
        .says("Made.")
    )
    inner = (
        Script()
        .calls("Grep", {"pattern": "tea"}, result="tea")
        .calls("Read", {"file_path": "/repo/a"}, result="1")
        .says("Seen.")
    )
    script.user("two").subagent("look", inner, background=True).says("Looking.").task_ends().says("It is done.")
    script.user("three").calls("Bash", bash("sleep 9", run_in_background=True)).says("Sleeping.")
    script.user("four").calls("Bash", bash("false", run_in_background=True)).says("Again.").task_ends(
        status="failed", exit_code=3
    )
    peer = Peer(script.says("Failed.").user("five").says("Five."), *BYPASS)
    peer.ask("initialize", hooks=hooks("SubagentStart", "SubagentStop", "Stop", "PreToolUse", "UserPromptSubmit"))
    for number, prompt in enumerate(("one", "two", "three", "four"), 1):
        peer.say(prompt, f"prompt-{number}")
        if prompt == "three":
            task = [frame["task_id"] for frame in peer.frames if frame.get("subtype") == "task_started"][-1]
            peer.ask("get_task_output", task_id=task)
            peer.ask("stop_task", task_id=task)
    peer.say("five", "prompt-5")
    return peer


def decisions_of_the_host() -> Peer:
    rule = {
        "type": "addRules",
        "behavior": "allow",
        "rules": [{"toolName": "WebFetch", "ruleContent": "domain:a.example"}],
    }
    answers = once(
        {"behavior": "deny", "message": "not now"},
        {"behavior": "allow", "updatedInput": {"command": "touch c"}},
        {"behavior": "allow", "updatedPermissions": [rule, {"type": "addDirectories", "directories": ["/more"]}]},
        {"behavior": "allow", "updatedPermissions": [{"type": "setMode", "mode": "acceptEdits"}]},
        {"behavior": "nonsense"},
        ValueError("broken"),
        {"behavior": "deny", "message": "stop", "interrupt": True},
    )
    script = Script().user("go").calls("Bash", bash("touch a")).calls("Bash", bash("touch b", description="Make b"))
    script.calls("WebFetch", {"url": "https://a.example/x", "prompt": "?"}).calls(
        "WebFetch", {"url": "https://a.example/y", "prompt": "?"}
    )
    script.calls("Write", {"file_path": "/more/a", "content": "x"}).calls(
        "Write", {"file_path": "/repo/in/a", "content": "x"}
    )
    script.calls("NotebookEdit", {"file_path": "/etc/a"}).calls("mcp__shop__send_home", {}).calls(
        "Read", {"file_path": "/etc/b"}
    )
    peer = Peer(script, *ASKS, *SERVER, answers={**SHOP, "can_use_tool": answers})
    peer.ask("initialize")
    peer.say("go")
    peer.ask("list_permission_rules")
    return peer


def decisions_without_a_host() -> Peer:
    script = (
        Script()
        .user("go")
        .calls("Bash", bash("touch a"))
        .calls("Bash", bash("rm b"))
        .calls("Write", {"file_path": "/etc/a", "content": ""})
    )
    script.calls("Bash", bash("curl x")).calls("Nope", {"a": 1}).calls("WebSearch", {"query": "tea"}).calls(
        "Glob", {}
    ).says("Done.")
    answers = once(decided("allow", updatedInput={"command": "echo b"}), decided("deny", message="never"))
    peer = Peer(
        script, "--disallowedTools", "WebSearch Bash(curl *)", "--tools", "Bash,Write,WebSearch",
        answers={"PermissionRequest": answers},
    )  # fmt: skip
    peer.ask("initialize", hooks=hooks("PermissionRequest"))
    peer.say("go")
    return peer


def decisions_of_hooks() -> Peer:
    answers = once(
        specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="bad"),
        {"decision": "block", "reason": "worse"},
        specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "echo b"}),
        specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="really"),
        {"systemMessage": "watch out"},
        specific("PostToolUse", additionalContext="x"),
        [],
        specific("PreToolUse", permissionDecision="defer"),
    )
    script = Script().user("go")
    for number in range(8):
        script.calls("Bash", bash(f"touch {number}"))
    script.user("more").says("Done.")
    peer = Peer(script, *ASKS, answers={"PreToolUse": answers, "can_use_tool": {"behavior": "allow"}})
    registered = {
        "PreToolUse": [
            *hooks("PreToolUse", matcher="Bash|Read")["PreToolUse"],
            {"matcher": "Write", "hookCallbackIds": ["not"]},
        ]
    }
    peer.ask("initialize", hooks=registered)
    peer.say("go")
    peer.say("more", "prompt-2")
    return peer


def hooks_that_end_turns() -> Peer:
    script = (
        Script()
        .user("one")
        .user("two")
        .user("three")
        .says("Three.")
        .expect_hook("Stop")
        .says("Again.")
        .user("four")
        .says("Four.")
    )
    script.user("five").calls("Bash", bash("echo x"), result="x").user("six").says("Six.")
    answers = {
        "UserPromptSubmit": once({"decision": "block", "reason": "no"}, {"continue": False, "stopReason": "over"}),
        "Stop": once({"decision": "block", "reason": "go on"}, {}, {"continue": False}),
        "PostToolUse": {"continue": False, "stopReason": "enough"},
        "SubagentStart": specific("Stop"),
    }
    script.subagent("look", "Seen.").says("Done.")
    peer = Peer(script, *BYPASS, answers=answers)
    peer.ask("initialize", hooks=hooks("UserPromptSubmit", "Stop", "PostToolUse", "SubagentStart"))
    for number, prompt in enumerate(("one", "two", "three", "four", "five", "six"), 1):
        peer.say(prompt, f"prompt-{number}")
    return peer


def tools_of_a_server() -> Peer:
    picture, sound = (
        {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        {"type": "audio", "data": "QUJDRA==", "mimeType": "audio/wav"},
    )
    link = {"type": "resource_link", "uri": "file:///tea", "name": "tea", "description": "all of it"}
    file = {"uri": "file:///tea", "mimeType": "text/plain", "text": "leaves"}
    data = {"uri": "file:///bytes", "mimeType": "application/ld+json", "blob": "QUJD"}
    given = [
        {"content": [], "isError": True},
        {"content": [{"type": "text", "text": "bad"}, picture], "isError": True, "structuredContent": {"n": 1}},
        {"content": [{"type": "text", "text": " "}]},
        {"content": [{"type": "text", "text": "this"}, picture, sound]},
        {
            "content": [
                link,
                {"type": "resource", "resource": file},
                {"type": "resource", "resource": data},
                {"type": "new"},
            ]
        },
        {
            "content": [picture, {"type": "text", "text": "x"}],
            "structuredContent": {"n": 2.0, "in": ["é"]},
            "_meta": {"k": 1},
        },
        {
            "content": [
                {"type": "resource", "resource": {**data, "mimeType": "image/gif"}},
                {"type": "resource"},
                {"type": "audio", "data": "QUJD"},
            ]
        },
    ]
    script = Script().user("go")
    for _ in given:
        script.calls("mcp__shop__price", {"article": "tea"})
    script.calls("mcp__shop__price", {}).calls("mcp__shop__price", {}).calls("mcp__shop__nope").calls(
        "mcp__far__price"
    ).says("Done.")
    last = once(*given)

    def call(request: dict[str, Any]) -> Any:
        if found := last(request):
            return of_server(**found)(request)
        return (
            once({"mcp_response": {"error": {"code": -1, "message": "no"}}})(request)
            if request["message"]["id"] == 9
            else {}
        )

    peer = Peer(script, *BYPASS, *SERVER, answers={**SHOP, "tools/call": call})
    peer.ask("initialize", hooks=hooks("PostToolUse", "PostToolUseFailure", "PostToolBatch"))
    peer.say("go")
    return peer


def simulated_tools() -> Peer:
    script = Script().user("go").calls("Write", {"file_path": "/repo/a", "content": "x\n"})
    script.calls("Edit", {"file_path": "/repo/a", "old_string": "x", "new_string": "y"})
    script.calls(
        "Edit", {"file_path": "/repo/a", "old_string": "x", "new_string": "y", "replace_all": True}, result="Edited."
    )
    script.calls("Read", {"file_path": "/repo/a"}, result="one\ntwo").calls("Bash", bash("mkdir a"), result="")
    script.calls("Bash", bash("echo hi"), result="hi").calls("Bash", bash("exit 3"), error="Exit code 3")
    script.calls("WebFetch", {"url": "https://a.example"}, result=[{"type": "text", "text": "page"}, {"type": "image"}])
    script.calls("WebSearch", {"query": "tea"}, result="found", structured={"n": 1}).thinks("hm").says("A.").says("B.")
    peer = Peer(script, *BYPASS)
    peer.ask("initialize", hooks=hooks("PostToolUse", "PostToolUseFailure"))
    peer.say("go")
    return peer


def structured_output() -> Peer:
    schema = '{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"], "additionalProperties": false}'
    script = Script().user("one").says("No.").calls("StructuredOutput", {"n": "x"}).calls("StructuredOutput", {"m": 1})
    script.calls("StructuredOutput", {"n": 2}).user("two")
    for number in range(5):
        script.calls("StructuredOutput", {"n": -number})
    peer = Peer(script, "--json-schema", schema)
    peer.ask("initialize", hooks=hooks("Stop", "PostToolBatch"))
    peer.say("one")
    peer.say("two", "prompt-2")
    return peer


def limits_of_turns_and_cost() -> Peer:
    script = (
        Script()
        .user("one")
        .calls("Bash", bash("echo a"), result="a")
        .calls("Bash", bash("echo b"), result="b")
        .user("two")
        .says("Two.")
    )
    peer = Peer(script, *BYPASS, "--max-turns", "2", "--max-budget-usd", "0.0004", "--model", "sonnet")
    peer.ask("initialize")
    peer.say("one")
    peer.say("two", "prompt-2")
    peer.say("three", "prompt-3")
    return peer


def errors_of_the_api() -> Peer:
    script = Script().user("one").rate_limited(2).overloaded(1, delay=0.25).retries(500, 1).says("One.")
    for number, status in enumerate((400, 401, 402, 404, 413, 429, 500), 2):
        script.user(f"prompt {number}").api_error(status, "Too bad")
    script.user("calls").calls("Bash", bash("echo a"), result="a").api_error(503)
    peer = Peer(script, *BYPASS, environment={"ANTHROPIC_BASE_URL": "http://gateway.invalid:8080/v1"})
    peer.ask("initialize", hooks=hooks("StopFailure", "MessageDisplay"))
    for number, prompt in enumerate(("one", *(f"prompt {number}" for number in range(2, 9)), "calls", "more"), 1):
        peer.say(prompt, f"prompt-{number}")
    return peer


def interrupts() -> Peer:
    script = Script().user("text").interrupted(after="I will").user("tool").calls("Bash", bash("sleep 9"), endless=True)
    script.user("asks").calls("Bash", bash("touch a")).interrupted().user("server").calls(
        "mcp__shop__price", {"article": "tea"}
    ).interrupted()
    script.user("silent").interrupted().user("again").says("Here.")
    peer = Peer(
        script, "--include-partial-messages", *ASKS, *SERVER, "--allowedTools", "mcp__shop,Bash(sleep *)",
        answers={**SHOP, "can_use_tool": None, "tools/call": None},
    )  # fmt: skip
    peer.ask("initialize")
    peer.ask("interrupt")
    for number, prompt in enumerate(("text", "tool", "asks", "server", "silent"), 1):
        peer.say(prompt, f"prompt-{number}")
        if prompt == "tool":
            peer.say("waits", "prompt-waits")
            peer.ask("cancel_async_message", message_uuid="prompt-waits")
            peer.say("waits", "prompt-more")
            peer.ask("interrupt", cancel_queued=True)
        else:
            peer.ask("interrupt")
    peer.say("again", "prompt-6")
    return peer


def other_conversations() -> Peer:
    script = (
        Script()
        .user("one")
        .calls("Bash", bash("echo a"), result="a")
        .says("One.")
        .user("/compact")
        .compacts("all of it")
    )
    script.user("two").compacts("by itself", trigger="auto").says("Two.").user("/clear").user("three").says("Three.")
    peer = Peer(script, *BYPASS)
    peer.ask("initialize", hooks=hooks(*EVENTS))
    peer.ask("rename_session", title="A test")
    for number, prompt in enumerate(("one", "/compact", "two", "/clear", "three"), 1):
        peer.say(prompt, f"prompt-{number}")
    return peer


def requests_of_the_host() -> Peer:
    peer = Peer(
        Script().user("go").says("Done.").user("more").says("Done."),
        *SERVER,
        answers={**SHOP, "tools/list": of_server(tools=[PRICE])},
    )
    peer.ask("initialize", hooks=hooks("PreModelSwitch", "PostModelSwitch", "DirectoryAdded"))
    peer.ask("set_model", model="haiku")
    peer.say("go")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("set_model", {"model": "sonnet"}),
        ("set_model", {"model": "claude-haiku-5-5"}),
        ("set_model", {"model": None}),
        ("set_permission_mode", {"mode": "plan"}),
        ("set_permission_mode", {"mode": "plan"}),
        ("set_permission_mode", {"mode": "x"}),
        ("set_max_thinking_tokens", {}),
        ("apply_flag_settings", {"settings": {"a": 1, "b": 2}}),
        ("apply_flag_settings", {"settings": {"a": None}}),
        ("update_settings", {"settings": {"c": 3}}),
        ("update_settings", {}),
        ("get_settings", {}),
        ("get_context_usage", {}),
        ("get_context_usage", {"detail": "summary"}),
        ("get_context_usage", {"detail": "x"}),
        ("get_usage", {}),
        ("get_session_cost", {}),
        ("get_hooks_listing", {}),
        ("list_models", {}),
        ("list_permission_rules", {}),
        ("get_binary_version", {}),
        ("background_tasks", {}),
        ("get_task_output", {"task_id": "never"}),
        ("stop_task", {"task_id": "never"}),
        ("seed_read_state", {}),
        ("read_file", {"path": "never"}),
        ("file_suggestions", {"query": "x"}),
        ("rewind_files", {"user_message_id": "never"}),
        ("rewind_files", {"user_message_id": "prompt-1"}),
        ("set_has_subscribers", {}),
        ("reload_skills", {}),
        ("reload_output_styles", {}),
        ("reload_plugins", {"refuse_if_busy": True}),
        ("reload_plugins", {"add_plugins": [{"type": "local", "path": "/a"}]}),
        ("reload_plugins", {"add_plugins": [{"type": "local", "path": "a"}]}),
        ("reload_plugins", {"add_plugins": [{"type": "x", "path": "/a"}]}),
        ("register_repo_root", {"directory": "in"}),
        ("register_repo_root", {"directory": "/repo"}),
        ("register_repo_root", {"directory": "../x"}),
        ("mcp_status", {}),
        ("mcp_toggle", {"serverName": "shop", "enabled": False}),
        ("mcp_status", {}),
        ("mcp_toggle", {"serverName": "shop", "enabled": True}),
        ("mcp_toggle", {"serverName": "never"}),
        ("mcp_reconnect", {"serverName": "shop"}),
        ("mcp_read_resource", {"serverName": "shop", "uri": "ui://x"}),
        ("mcp_call", {"tool": "mcp__shop__price"}),
        ("mcp_call", {"tool": "mcp__never__never"}),
        ("set_mcp_permission_mode_override", {"serverName": "shop", "mode": "plan"}),
        ("set_mcp_permission_mode_override", {"serverName": "never", "mode": None}),
        ("set_mcp_permission_mode_override", {"serverName": "never", "mode": "plan"}),
        ("mcp_set_servers", {"servers": {"late": {"type": "sdk"}, "far": {"type": "http"}}}),
        ("mcp_set_servers", {"servers": {}}),
        ("cancel_async_message", {"message_uuid": "never"}),
        ("rename_session", {"title": "A test"}),
        ("new", {}),
        ("initialize", {}),
    ]
    for subtype, fields in asked:
        peer.ask(subtype, **fields)
    peer.say("more", "prompt-2")
    return peer


def faults_and_prompts_that_do_not_fit() -> Peer:
    script = (
        Script().user("one").frame({"type": "new"}).says("One.").user("two").says("Two.").user("a\nb").says("Both.")
    )
    script.user("held").calls("Bash", bash("touch a")).user("meanwhile").says("All.")
    open_ids: list[str] = []
    peer = Peer(script, *ASKS, answers={"can_use_tool": None})
    peer.ask("initialize")
    peer.say("one")
    peer.say("wrong", "prompt-2")
    peer.say("two", "prompt-3")
    peer.say("a\nb", "prompt-4")
    peer.say("held", "prompt-5")
    peer.say("meanwhile", "prompt-6")
    open_ids += [
        frame["request_id"] for frame in peer.frames if frame.get("request", {}).get("subtype") == "can_use_tool"
    ]
    peer.answer(open_ids[0], {"behavior": "allow"})
    peer.say("after the end", "prompt-7")
    peer.end()
    return peer


def a_process_that_resumes() -> Peer:
    script = Script().user("one").says("One.").user("two").says("Two.").user("three").says("Three.")
    before = Peer(script)
    before.ask("initialize")
    before.say("one")
    before.end()
    session_id = before.simulation.session_id
    middle = Peer(script, "--resume", session_id, "--replay-user-messages", run=before.run)
    middle.ask("initialize")
    middle.say("two")
    middle.end()
    after = Peer(script, "--continue", "--fork-session", run=before.run)
    after.ask("initialize")
    after.say("three")
    unknown = Peer(script, "--resume", "51b00000-0000-4000-8000-999999999999", run=before.run)
    after.frames = [*middle.frames, *after.frames, *unknown.frames]
    return after


def decisions_of_hooks_about_permission() -> Peer:
    script = Script().user("go")
    for number in range(4):
        script.calls("Bash", bash(f"touch {number}"))
    script.expect_hook("PermissionRequest").expect_hook("PreToolUse").says("Done.").user("end").calls(
        "Bash", bash("touch a")
    ).says("Late.")
    answers = {
        "PermissionRequest": once(
            decided("allow", updatedInput={"command": "echo b"}), decided("deny", message="never"), {}, decided("allow")
        ),
        "can_use_tool": once(
            None, None, {"behavior": "allow", "updatedInput": {}}, {"behavior": "deny", "message": "no"}, None
        ),
    }
    peer = Peer(script, *ASKS, answers=answers)
    peer.ask("initialize", hooks=hooks("PermissionRequest", "PreToolUse"))
    peer.say("go")
    peer.say("end", "prompt-2")
    peer.end()
    return peer


def hooks_without_a_host() -> Peer:
    answers = once(
        specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="really"),
        specific("PreToolUse", permissionDecision="allow"),
        specific("PreToolUse", permissionDecision="allow"),
    )
    script = (
        Script().user("go").calls("Bash", bash("touch a")).calls("Bash", bash("touch b")).calls("Bash", bash("curl c"))
    )
    script.calls("WebFetch", {"url": "https://a.example"}).calls("Read", {"file_path": "in/a"}, result="a").calls(
        "Grep", {"pattern": "a"}
    )
    peer = Peer(
        script.says("Done."),
        "--permission-mode",
        "dontAsk",
        "--disallowedTools",
        "Bash(curl *)",
        answers={"PreToolUse": answers},
    )
    peer.ask("initialize", hooks=hooks("PreToolUse"))
    peer.say("go")
    return peer


def subagents_that_may_not() -> Peer:
    inner = (
        Script()
        .calls("Bash", bash("touch a"))
        .expect_permission("Bash", decision="deny")
        .calls("Nope", {})
        .calls("mcp__shop__price", {})
    )
    inner.expect_result("2.5").says("Denied.")
    script = Script().user("go").subagent("look", inner).expect_result("Denied.").says("Done.")
    script.user("more").subagent("wait", inner, background=True).says("Started.").task_ends().says("Ended.")
    peer = Peer(
        script,
        *ASKS,
        *SERVER,
        "--allowedTools",
        "mcp__shop",
        answers={**SHOP, "can_use_tool": {"behavior": "deny", "message": "no"}},
    )
    peer.ask("initialize", hooks=hooks("SubagentStart", "SubagentStop", "PostToolUse"))
    peer.say("go")
    peer.say("more", "prompt-2")
    return peer


def a_limit_of_the_plan() -> Peer:
    later = datetime(2100, 1, 1, 15, 30, tzinfo=UTC)
    script = Script().user("one").says("One.").usage_limited(later).user("two").says("Two.")
    peer = Peer(script, "--include-partial-messages")
    peer.ask("initialize", hooks=hooks("StopFailure"))
    for number, prompt in enumerate(("one", "two", "two"), 1):
        peer.say(prompt, f"prompt-{number}")
    return peer


def a_server_that_fails() -> Peer:
    peer = Peer(Script().user("go").api_error(500, "Too bad"))
    peer.ask("initialize")
    peer.say("go")
    return peer


def servers_of_a_handshake() -> Peer:
    manifests = {"shop": {"toolsListResult": {"tools": [PRICE, 5]}}, "late": {"toolsListResult": {}}}
    answers = {
        **SHOP,
        "tools/call": of_server(content=[{"type": "text", "text": "2.5"}]),
        "initialize": once({}, of_server()({"message": {}})),
    }
    peer = Peer(
        Script().user("go").calls("mcp__shop__price", {"article": "tea"}).says("Done."), *BYPASS, answers=answers
    )
    peer.ask("initialize", sdkMcpServers=["shop", "late"], sdkMcpServerManifests=manifests)
    peer.say("go")
    peer.ask("mcp_status")
    peer.ask("get_binary_version")
    return peer


CONVERSATIONS: dict[str, Callable[[], Peer]] = {
    made.__name__.replace("_", " "): made
    for made in (
        everything_in_one_turn,
        background_work,
        decisions_of_the_host,
        decisions_without_a_host,
        decisions_of_hooks,
        hooks_that_end_turns,
        tools_of_a_server,
        simulated_tools,
        structured_output,
        limits_of_turns_and_cost,
        errors_of_the_api,
        interrupts,
        other_conversations,
        requests_of_the_host,
        faults_and_prompts_that_do_not_fit,
        a_process_that_resumes,
        decisions_of_hooks_about_permission,
        hooks_without_a_host,
        subagents_that_may_not,
        a_limit_of_the_plan,
        servers_of_a_handshake,
        a_server_that_fails,
    )
}


def shown(name: str) -> list[str]:
    """Return the lines of a conversation: how each frame differs from the one of its kind before it, and what the script says."""
    peer = CONVERSATIONS[name]()
    before = {} if name == FIRST else dict(_first_frames())
    lines = []
    for line in peer.lines():
        frame = _short(json.loads(line))
        kind = _kind(frame)
        lines.append(f"{kind} {json.dumps(_change(before.get(kind), frame), ensure_ascii=False, sort_keys=True)}")
        before[kind] = frame
    return [*lines, f"problems: {peer.run.problems}", f"exit: {peer.simulation.exit_code}"]


@cache
def _first_frames() -> dict[str, Any]:
    return {_kind(frame): frame for line in CONVERSATIONS[FIRST]().lines() if (frame := _short(json.loads(line)))}


def _kind(frame: dict[str, Any]) -> str:
    match frame:
        case {"request": {"input": {"hook_event_name": str(name)}}} | {"request": {"message": {"method": str(name)}}}:
            return name
        case {"type": "control_response", "response": {"request_id": "host-1"}}:
            return "handshake"
        case {"event": {"type": name}} | {"request": {"subtype": name}} | {"subtype": name}:
            return str(name)
        case _:
            return str(frame["type"])


def _change(before: Any, now: Any) -> Any:
    """Return what differs: of objects only the fields that do, and the names of those that are gone."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = {
            name: _change(before.get(name), part)
            for name, part in now.items()
            if not _same(before.get(name, ...), part)
        }
        gone = [name for name in before if name not in now]
        if len(gone) > len(before) / 2:
            return now
        return {**found, "-": gone} if gone else found
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [_change(*pair) for pair in zip(before, now, strict=True)]
    return now


def _same(before: Any, now: Any) -> bool:
    return type(before) is type(now) and bool(before == now)


def _short(value: Any) -> Any:
    """Return a frame with the beginnings of long texts, and without what is different in each process."""
    if isinstance(value, dict):
        return {name: 0 if name == "pid" else _short(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_short(part) for part in value]
    if isinstance(value, str) and len(value) > 100:
        return f"{value[:60]}... ({len(value)} characters, {crc32(value.encode()):08x})"
    return value


def recorded() -> dict[str, list[str]]:
    """Return the lines of each conversation as they were when they were compared with the real CLI."""
    parts = (part.partition("\n") for part in FILE.read_text(encoding="utf-8").split("## ")[1:])
    return {name: text.splitlines() for name, _, text in parts}


if __name__ == "__main__":
    texts = ("".join(f"{line}\n" for line in [f"## {name}", *shown(name)]) for name in CONVERSATIONS)
    FILE.write_text("".join(texts), encoding="utf-8")
