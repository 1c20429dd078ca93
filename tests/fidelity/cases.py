"""The scripts that the simulated CLI and the real one are compared with."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hackamore import Allow
from hackamore.errors import HackamoreError
from hackamore.hooks import HookOutput
from hackamore.testing import Script
from tests.fidelity.case import Case
from tests.fidelity.hosts import (
    ALL_EVENTS,
    ASK,
    BYPASS,
    CLOCK,
    GIFTS,
    SHOP,
    UNKNOWN,
    accept_edits,
    add_folder,
    add_server,
    allow_always,
    ask_and_talk,
    background,
    bash,
    buy,
    change_between,
    continued,
    denying,
    echo,
    empty,
    forked,
    gifts,
    held,
    hooks,
    interrupt_and_talk,
    interrupt_by_name,
    interrupt_own_tool,
    interrupt_question,
    interrupt_text,
    interrupt_tool,
    meanwhile,
    one_call,
    outside,
    permission_hook,
    prompt_meanwhile,
    queued,
    resumed,
    rewind,
    stop_once,
    suggested,
    talk,
    talk_and_ask,
    touch,
    touch_twice,
    two_turns,
    when_asked,
)

if TYPE_CHECKING:
    from tests.fidelity.driving import Host


def ask_for(operation: str, /, **fields: Any) -> Case:
    """One control operation, then a turn that shows what it changed."""
    shown = " ".join(str(value) for value in fields.values() if value is not None)
    return Case(f"{operation} {shown}".strip(), talk, does=ask_and_talk(operation, **fields))


MISFIT = "Output does not match required schema: /n: must be integer"
SCHEMA = {"type": "json_schema", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
LONG_SCHEMA = {
    "type": "json_schema",
    "schema": {
        "type": "object",
        "properties": {
            "n": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "in": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "word": {"enum": ["a", "b"]},
        },
        "required": ["n", "in"],
        "additionalProperties": False,
    },
}
PRE = "PreToolUse"
MEANWHILE = "replies of the subagent, counted when it ends"

ASKED: list[tuple[str, dict[str, Any]]] = [
    ("set_permission_mode", {"mode": "nonsense"}),
    ("set_max_thinking_tokens", {"max_thinking_tokens": 2_000}),
    ("set_mcp_permission_mode_override", {"serverName": "never", "mode": None}),
    ("mcp_status", {}),
    ("mcp_reconnect", {"serverName": "never"}),
    ("mcp_toggle", {"serverName": "never", "enabled": False}),
    ("mcp_set_servers", {"servers": {}}),
    ("mcp_read_resource", {"serverName": "never", "uri": "ui://never"}),
    ("mcp_call", {"tool": "mcp__never__never"}),
    ("get_context_usage", {}),
    ("get_context_usage", {"detail": "summary"}),
    ("get_context_usage", {"detail": "nonsense"}),
    ("get_usage", {}),
    ("get_usage", {"skip_behaviors": True}),
    ("get_settings", {}),
    ("list_models", {}),
    ("list_permission_rules", {}),
    ("get_hooks_listing", {}),
    ("stop_task", {"task_id": "never"}),
    ("background_tasks", {}),
    ("get_task_output", {"task_id": "never"}),
    ("read_file", {"path": "never.txt"}),
    ("seed_read_state", {"path": "never.txt", "mtime": 1}),
    ("reload_plugins", {}),
    ("reload_plugins", {"add_plugins": [{"type": "local", "path": "relative"}]}),
    ("reload_plugins", {"hold_on_cache_impact": True, "refuse_if_busy": True}),
    ("reload_skills", {}),
    ("reload_output_styles", {}),
    ("apply_flag_settings", {"settings": {}}),
    ("update_settings", {"source": "localSettings", "settings": {}}),
    ("get_session_cost", {}),
    ("get_binary_version", {}),
    ("file_suggestions", {"query": "zzz"}),
    ("cancel_async_message", {"message_uuid": "never"}),
    ("register_repo_root", {"directory": "/"}),
    ("set_has_subscribers", {"has_subscribers": True}),
    ("rewind_files", {"user_message_id": "never"}),
    ("set_color", {"color": "blue"}),
    ("nonsense", {}),
]
"""Control operations that leave the session as it is."""


def ask_everything(host: Host) -> None:
    for operation, fields in ASKED:
        with suppress(HackamoreError):
            host.session.request(operation, **fields)
    host.talk()


UNKNOWN_OPERATION = {"answers/nonsense.response.error": "texts of Hackamore"}
OPERATIONS = [Case("every other control operation", talk, does=ask_everything, but=UNKNOWN_OPERATION)]

CASES: list[Case] = [
    # -- turns
    Case("one turn", talk),
    Case("two turns", two_turns),
    Case("thinking and two texts", lambda s, f: s.user("go").thinks("hm").says("A.").says("B.")),
    Case("one-shot", talk, one_shot=True),
    Case("one-shot with a tool", echo, BYPASS, one_shot=True),
    Case("one-shot that fails", lambda s, f: s.user("go").api_error(402), one_shot=True),
    Case("one-shot with an unknown flag", empty, {"extra_args": {"nonsense": None}}, one_shot=True),
    Case("one-shot of an unknown session", empty, {"resume": UNKNOWN}, one_shot=True),
    Case(
        "two prompts wait",
        lambda s, f: s.user("one").says("One.").user("two\nthree").says("Two."),
        {"per_run": held},
        does=queued,
    ),
    Case(
        "a prompt while a tool waits",
        lambda s, f: s.user("one").calls("Bash", {"command": "touch a"}).user("two").says("Both."),
        {"per_run": meanwhile},
        does=prompt_meanwhile,
    ),
    # -- tools
    Case("a tool, everything allowed", echo, BYPASS),
    Case("a tool that only reads is not asked about", echo),
    Case(
        "a tool with text before it",
        lambda s, f: s.user("go").says("Let me.").calls("Bash", {"command": "echo hi"}, result="hi").says("Done."),
        BYPASS,
    ),
    Case(
        "two tools one after the other",
        lambda s, f: (
            s.user("go")
            .calls("Bash", {"command": "echo a"}, result="a")
            .calls("Bash", {"command": "echo b"}, result="b")
            .says("Done.")
        ),
        BYPASS,
    ),
    Case(
        "two tools together",
        lambda s, f: (
            s.user("go")
            .calls("Bash", {"command": "echo a"}, result="a")
            .calls("Bash", {"command": "echo a"}, result="a", together=True)
            .says("Done.")
        ),
        BYPASS,
    ),
    Case("a tool that fails", bash("exit 3", error="Exit code 3"), BYPASS),
    Case("a tool that is not there", one_call("Nope", {"a": 1}), BYPASS),
    Case("Write", one_call("Write", {"file_path": "FILE", "content": "x\n"}), BYPASS),
    Case(
        "Write, Read and Edit",
        lambda s, f: (
            s.user("go")
            .calls("Write", {"file_path": str(f / "made.txt"), "content": "x\ny\n"})
            .calls("Read", {"file_path": str(f / "made.txt")}, result="x\ny\n")
            .calls("Edit", {"file_path": str(f / "made.txt"), "old_string": "y", "new_string": "z"})
            .says("Done.")
        ),
        BYPASS,
        but={"user.tool_use_result": "without a patch and original text, because there is no file"},
    ),
    Case("structured output", lambda s, f: s.user("go").calls("StructuredOutput", {"n": 1}), {"output_format": SCHEMA}),
    Case(
        "structured output, one-shot",
        lambda s, f: s.user("go").calls("StructuredOutput", {"n": 1}),
        {"output_format": SCHEMA},
        one_shot=True,
    ),
    Case(
        "structured output that is not given, and then late",
        lambda s, f: (
            s.user("go")
            .says("No.")
            .slow(0)
            .says("Again no.")
            .user("more")
            .says("No.")
            .slow(0)
            .calls("StructuredOutput", {"n": 1})
        ),
        {**hooks(*ALL_EVENTS), "output_format": SCHEMA},
    ),
    Case(
        "structured output that does not fit, and then does",
        lambda s, f: (
            s.user("go")
            .calls("StructuredOutput", {"n": "x", "in": ["a", 1], "word": "c", "more": True})
            .expect_result("must be integer", error=True)
            .calls("StructuredOutput", {"in": [], "n": 0, "word": "a"})
            .calls("StructuredOutput", {"in": ["a"], "n": None, "word": "b"})
        ),
        {"output_format": LONG_SCHEMA},
    ),
    Case(
        "structured output that never fits",
        lambda s, f: [s.user("go"), *(s.calls("StructuredOutput", {"n": "x"}, error=MISFIT) for _ in range(5))],
        {**hooks(*ALL_EVENTS), "output_format": SCHEMA},
    ),
    Case(
        "too many turns",
        lambda s, f: s.user("go").calls("Bash", {"command": "echo hi"}, result="hi"),
        {**BYPASS, "max_turns": 1},
    ),
    Case(
        "too expensive, and a turn after it",
        lambda s, f: s.user("go").calls("Bash", {"command": "echo hi"}, result="hi").user("more"),
        {**BYPASS, "max_budget_usd": 0.00001},
    ),
    # -- permissions
    Case("allowed by the host", touch, ASK),
    Case("denied by the host", touch, denying()),
    Case(
        "denied by the host, which interrupts",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch made"}),
        denying(interrupt=True),
    ),
    Case(
        "allowed with another input",
        bash("touch made", result="other"),
        {"can_use_tool": lambda r: Allow(updated_input={"command": "echo other"})},
    ),
    Case("allowed with a rule for later", touch_twice, {"can_use_tool": allow_always}),
    Case(
        "allowed with another mode",
        lambda s, f: (
            s.user("go")
            .calls("Write", {"file_path": str(f / "a"), "content": "x"})
            .calls("Write", {"file_path": str(f / "b"), "content": "x"})
            .says("Done.")
        ),
        {"can_use_tool": accept_edits},
    ),
    Case("nobody to ask", bash("touch made")),
    Case("allowed by a rule", touch, {"allowed_tools": ["Bash"]}),
    Case("allowed by a rule for a command", touch, {"allowed_tools": ["Bash(touch *)"]}),
    Case("denied by a rule for a command", touch, {"disallowed_tools": ["Bash(touch *)"]}),
    Case("a denied tool is not there", touch, {"disallowed_tools": ["Bash"]}),
    Case("mode dontAsk", touch, {"permission_mode": "dontAsk"}),
    Case(
        "mode acceptEdits, Write",
        one_call("Write", {"file_path": "FILE", "content": "x\n"}),
        {"permission_mode": "acceptEdits"},
    ),
    Case("mode acceptEdits, touch", touch, {"permission_mode": "acceptEdits"}),
    Case(
        "mode acceptEdits, touch and another command",
        one_call("Bash", {"command": "touch made && node -e 1"}),
        {"permission_mode": "acceptEdits"},
    ),
    Case(
        "a rule for another domain",
        one_call("WebFetch", {"url": "https://one.invalid/?two.invalid", "prompt": "What is there?"}),
        {"allowed_tools": ["WebFetch(domain:two.invalid)"]},
    ),
    Case("files outside, nobody to ask", outside),
    Case("files outside, edits accepted", outside, {"permission_mode": "acceptEdits"}),
    Case("files outside, the host decides", outside, denying()),
    Case("rules that are suggested", suggested, denying()),
    Case("Write is asked about", one_call("Write", {"file_path": "FILE", "content": "x\n"}), ASK),
    # -- hooks
    Case("every hook of a turn with a tool", touch, {**hooks(*ALL_EVENTS), **ASK}),
    Case("every hook of a denied tool", touch, {**hooks(*ALL_EVENTS), **denying()}),
    Case("every hook of a tool that fails", bash("exit 3", error="Exit code 3"), {**hooks(*ALL_EVENTS), **BYPASS}),
    Case("every hook of a tool of this process", buy, {**hooks(*ALL_EVENTS), **ASK, "mcp_servers": SHOP}),
    Case("a hook denies", touch, {**hooks(PRE, answer=HookOutput.deny("bad")), **ASK}),
    Case("a hook blocks", touch, {**hooks(PRE, answer=HookOutput.block("bad")), **ASK}),
    Case("a hook allows", touch, {**hooks(PRE, answer=HookOutput.allow()), **ASK}),
    Case("a hook wants the host asked", echo, {**hooks(PRE, answer=HookOutput.ask("really")), **ASK}),
    Case(
        "a hook changes the input",
        bash("touch made", result="hi"),
        {**hooks(PRE, answer=HookOutput.update_input({"command": "echo hi"})), **ASK},
    ),
    Case(
        "a hook defers",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch made"}),
        {**hooks(PRE, answer=HookOutput.defer()), **ASK},
    ),
    Case(
        "a hook stops before the tool",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch made"}),
        {**hooks(PRE, answer=HookOutput.stop("enough")), **ASK},
    ),
    Case(
        "a hook stops after the tool",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch made"}),
        {**hooks("PostToolUse", answer=HookOutput.stop("enough")), **ASK},
    ),
    Case("a hook blocks after the tool", touch, {**hooks("PostToolUse", answer=HookOutput.block("bad")), **ASK}),
    Case("a hook adds context", touch, {**hooks(PRE, answer=HookOutput.add_context("more")), **ASK}),
    Case("a hook has something to say", touch, {**hooks(PRE, answer={"systemMessage": "watch out"}), **ASK}),
    Case("a hook goes on beside the tool", touch, {**hooks(PRE, answer=HookOutput.run_async(5)), **ASK}),
    Case("a hook stops at the end", talk, hooks("Stop", answer=HookOutput.stop("enough"))),
    Case("a hook for another tool", touch, {**hooks(PRE, matcher="Read"), **ASK}),
    Case("a hook for this tool among others", touch, {**hooks(PRE, matcher="Bash|Read"), **ASK}),
    Case(
        "a hook blocks the prompt", lambda s, f: s.user("go"), hooks("UserPromptSubmit", answer=HookOutput.block("no"))
    ),
    Case(
        "a hook stops at the prompt", lambda s, f: s.user("go"), hooks("UserPromptSubmit", answer=HookOutput.stop("no"))
    ),
    Case(
        "a hook sends the model on",
        lambda s, f: s.user("go").says("One.").expect_hook("Stop").says("Two."),
        {"per_run": stop_once},
    ),
    Case("a hook decides about permission: allow", touch, permission_hook("allow")),
    Case("a hook decides about permission: deny", touch, permission_hook("deny")),
    Case(
        "hooks when the model changes",
        two_turns,
        hooks("PreModelSwitch", "PostModelSwitch"),
        does=change_between("set_model", model="sonnet"),
    ),
    Case(
        "a hook when the API refuses",
        lambda s, f: s.user("go").api_error(402),
        hooks("StopFailure", "MessageDisplay"),
    ),
    Case(
        "hooks of a new conversation",
        lambda s, f: s.user("one").says("One.").user("/clear").user("two").says("Two."),
        hooks("SessionEnd", "SessionStart", "UserPromptSubmit"),
    ),
    Case("a hook when a folder is added", talk, hooks("DirectoryAdded"), does=add_folder),
    # -- tools of this process
    Case("a tool of this process, asked about", buy, {**ASK, "mcp_servers": SHOP}),
    Case("a tool of this process, allowed", buy, {"allowed_tools": ["mcp__shop__price"], "mcp_servers": SHOP}),
    Case(
        "a tool of this process that fails",
        one_call("mcp__shop__broken", {}),
        {"allowed_tools": ["mcp__shop"], "mcp_servers": SHOP},
    ),
    Case(
        "tools of this process that fail, and fail again",
        lambda s, f: (
            s.user("go")
            .calls("mcp__shop__order", {"article": "tea", "pieces": 2})
            .expect_result("input schema", error=True)
            .calls("mcp__shop__order", {"article": "salt"})
            .calls("mcp__shop__broken")
            .calls("mcp__shop__order", {"pieces": "many"})
            .says("Done.")
            .user("more")
            .calls("mcp__shop__broken")
            .says("Done again.")
        ),
        {**hooks(*ALL_EVENTS), **BYPASS, "mcp_servers": SHOP},
    ),
    Case(
        "whatever a tool of this process gives",
        gifts,
        {**hooks("PostToolUse", "PostToolUseFailure", "PostToolBatch"), **BYPASS, "mcp_servers": GIFTS},
    ),
    Case(
        "a tool of this process is interrupted",
        lambda s, f: s.user("go").calls("mcp__clock__tick").interrupted().user("more").says("Done."),
        {**BYPASS, "mcp_servers": CLOCK},
        does=interrupt_own_tool,
    ),
    Case(
        "a server of this process is denied",
        buy,
        {**BYPASS, "disallowed_tools": ["mcp__shop"], "mcp_servers": SHOP},
    ),
    Case("a tool that its server does not have", one_call("mcp__shop__nope", {}), {"mcp_servers": SHOP}),
    Case("a server that comes later", one_call("mcp__late__price", {"article": "tea"}), BYPASS, does=add_server),
    # -- partial messages
    Case(
        "partial messages",
        lambda s, f: (
            s.user("go").thinks("hm").says("Hello").calls("Bash", {"command": "echo hi"}, result="hi").says("Done.")
        ),
        {**BYPASS, "include_partial_messages": True},
    ),
    Case(
        "partial messages in pieces",
        lambda s, f: s.user("go").says("Hello, you.", chunk=4),
        {"include_partial_messages": True},
    ),
    # -- errors of the API
    Case("a rate limit that passes", lambda s, f: s.user("go").rate_limited(1, delay=0.1).says("Done.")),
    Case("an overloaded model", lambda s, f: s.user("go").overloaded(1, delay=0.1).says("Done.")),
    Case("an API that fails for good", lambda s, f: s.user("go").api_error(500)),
    Case("a refused key", lambda s, f: s.user("go").api_error(401)),
    Case("an error, and a turn after it", lambda s, f: s.user("one").api_error(402).user("two").says("Two.")),
    # -- interrupts
    Case("interrupted while idle", talk, does=interrupt_and_talk),
    Case(
        "interrupted in the middle of a text",
        lambda s, f: s.user("go").interrupted(after="I will").user("again").says("Here."),
        {"include_partial_messages": True},
        does=interrupt_text,
    ),
    Case(
        "interrupted by the names of turns",
        lambda s, f: s.user("go").interrupted(after="I will").user("again").says("Here."),
        {"include_partial_messages": True},
        does=interrupt_by_name,
    ),
    Case(
        "interrupted during a tool",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch runs; sleep 30"}, endless=True).interrupted(),
        BYPASS,
        does=interrupt_tool,
    ),
    Case(
        "interrupted at a question",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch made"}).interrupted(),
        {"per_run": when_asked},
        does=interrupt_question,
    ),
    # -- background work, subagents, compaction
    Case("a background command", background, BYPASS),
    Case(
        "a subagent",
        lambda s, f: (
            s.user("go")
            .subagent("look", Script().calls("Bash", {"command": "echo in"}, result="in").says("Seen."))
            .says("Done.")
        ),
        BYPASS,
    ),
    Case(
        "a subagent with hooks",
        lambda s, f: s.user("go").subagent("look", "Seen.").says("Done."),
        {**BYPASS, **hooks("SubagentStart", "SubagentStop", "PreToolUse", "PostToolUse")},
    ),
    Case(
        "a subagent that hands back several lines",
        lambda s, f: (
            s.user("go")
            .subagent(
                "look",
                Script()
                .calls("Bash", {"command": "echo a"}, result="a")
                .calls("Write", {"file_path": str(f / "made.txt"), "content": "x\n"})
                .calls("Bash", {"command": "echo b"}, result="b")
                .says("One.\n\n  two\nthree\n"),
            )
            .expect_result("The report follows:")
            .says("Done.")
        ),
        {**BYPASS, **hooks(*ALL_EVENTS)},
    ),
    Case(
        "two subagents together",
        lambda s, f: [
            s.user("go").subagent("look left", "Left.").subagent("look right", "Right."),
            s.says("Done."),
        ],
        BYPASS,
    ),
    Case(
        "a subagent in the background",
        lambda s, f: (
            s.user("go")
            .subagent(
                "look",
                Script().calls("Bash", {"command": "sleep 1; echo in"}, result="in").says("Seen."),
                background=True,
            )
            .says("Started.")
            .task_ends()
            .says("It is done.")
        ),
        {**BYPASS, **hooks("SubagentStart", "SubagentStop", "PreToolUse", "PostToolUse")},
        but=dict.fromkeys(
            ("result/*.total_cost_usd", "result/*.modelUsage", "result/*.model_usage_since_last_result"), MEANWHILE
        ),
    ),
    Case(
        "a subagent whose tool of this process fails",
        lambda s, f: s.user("go").subagent("look", Script().calls("mcp__shop__broken").says("Failed.")).says("Done."),
        {**BYPASS, "mcp_servers": SHOP},
    ),
    Case(
        "a compaction",
        lambda s, f: s.user("one").says("One.").user("/compact").compacts("short"),
        hooks(*ALL_EVENTS),
    ),
    Case(
        "a subagent whose text is shown",
        lambda s, f: (
            s.user("go")
            .subagent("look", Script().says("I look.").calls("Bash", {"command": "echo in"}, result="in").says("Seen."))
            .says("Done.")
        ),
        {**BYPASS, "forward_subagent_text": True},
    ),
    # -- which session
    Case("resumed", two_turns, does=resumed),
    Case("forked", two_turns, does=forked),
    Case("continued", two_turns, does=continued),
    # -- changes between turns
    Case("another model by its id", two_turns, does=change_between("set_model", model="claude-sonnet-5-5")),
    Case("another model between turns", two_turns, does=change_between("set_model", model="sonnet")),
    Case(
        "another mode between turns",
        lambda s, f: s.user("one").says("One.").user("two").calls("Bash", {"command": "touch a"}).says("Two."),
        ASK,
        does=change_between("set_permission_mode", mode="acceptEdits"),
    ),
    Case(
        "files are rewound",
        one_call("Write", {"file_path": "FILE", "content": "x\n"}),
        {**BYPASS, "enable_file_checkpointing": True},
        does=rewind,
    ),
    # -- control operations that change what comes after them
    ask_for("set_permission_mode", mode="plan"),
    ask_for("set_model", model="haiku"),
    ask_for("set_model", model=None),
    Case(
        "the default model between turns", two_turns, {"model": "sonnet"}, does=change_between("set_model", model=None)
    ),
    ask_for("rename_session", title="A test"),
    ask_for("initialize"),
    Case(
        "a server is switched off",
        talk,
        {"mcp_servers": SHOP},
        does=ask_and_talk("mcp_toggle", serverName="shop", enabled=False),
    ),
    Case(
        "a tool is called without the model",
        talk,
        {"mcp_servers": SHOP},
        does=talk_and_ask("mcp_call", tool="mcp__shop__price", arguments={"article": "tea"}),
    ),
    Case("the state of servers", talk, {"mcp_servers": SHOP}, does=talk_and_ask("mcp_status")),
    *OPERATIONS,
]
