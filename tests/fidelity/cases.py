"""The scripts that the simulated CLI and the real one are compared with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle import Allow, Deny, HookMatcher, sync, tool, tool_server
from bridle.errors import BridleError
from bridle.hooks import HookOutput
from bridle.permissions import AddRules, PermissionRule, SetMode
from bridle.testing import Script

if TYPE_CHECKING:
    from tests.fidelity.driving import Host


@dataclass(frozen=True)
class Case:
    """One script, the host's options, and what the host does.

    Attributes:
        name: unique.
        write: writes the script, given the working directory.
        set: options.
        does: what the host does in its session; by default it sends every prompt.
        one_shot: `sync.run` instead of a session.
        but: rules like those of `differences.py`, for this case alone, with their reasons.
    """

    name: str
    write: Callable[[Script, Path], object]
    set: dict[str, Any] = field(default_factory=dict)
    does: Callable[[Host], object] | None = None
    one_shot: bool = False
    but: dict[str, str] = field(default_factory=dict)

    def script(self, folder: Path) -> Script:
        script = Script()
        self.write(script, folder)
        return script

    def options(self, host: Host) -> dict[str, Any]:
        options = {name: value for name, value in self.set.items() if name != "per_run"}
        if "per_run" in self.set:
            options |= self.set["per_run"](host)
        return options

    def run(self, host: Host, transport: Any) -> None:
        if self.one_shot:
            with suppress(BridleError):
                sync.run(host.prompts()[0], host.options, transport=transport, check=False)
            return
        host.transport = transport
        with host.sessions:
            host.again()
            (self.does or type(host).talk)(host)
            host.session.wait_idle()
            host.session.finish()


@tool
def price(article: str) -> float:
    """Return a price."""
    return 2.5


@tool
def broken() -> str:
    """Fail."""
    raise LookupError("nothing there")


UNKNOWN = "11111111-1111-4111-8111-111111111111"
SHOP = {"shop": tool_server("shop", [price, broken])}
BYPASS = {"permission_mode": "bypassPermissions"}
ASK = {"can_use_tool": lambda request: Allow()}
ALL_EVENTS = [
    "UserPromptSubmit",
    "MessageDisplay",
    "Stop",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PermissionRequest",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionStart",
    "SessionEnd",
    "Notification",
    "PermissionDenied",
]


def nothing(hook_input: Any, context: Any) -> None:
    """A hook that does nothing."""


def hooks(*events: str, answer: Any = None, **more: Any) -> dict[str, Any]:
    return {"hooks": {event: [HookMatcher(hooks=[lambda i, c: answer], **more)] for event in events}}


def talk(script: Script, folder: Path) -> None:
    script.user("go").says("Done.")


def empty(script: Script, folder: Path) -> None:
    """The CLI ends before it asks the model."""


def touch(script: Script, folder: Path) -> None:
    script.user("go").calls("Bash", {"command": "touch made"}).says("Done.")


def echo(script: Script, folder: Path) -> None:
    script.user("go").calls("Bash", {"command": "echo hi"}, result="hi").says("Done.")


def buy(script: Script, folder: Path) -> None:
    script.user("go").calls("mcp__shop__price", {"article": "tea"}).says("2.5")


def one_call(name: str, arguments: dict[str, Any], **more: Any) -> Callable[[Script, Path], object]:
    def write(script: Script, folder: Path) -> None:
        filled = {key: str(folder / "made.txt") if value == "FILE" else value for key, value in arguments.items()}
        script.user("go").calls(name, filled, **more).says("Done.")

    return write


def denying(**more: Any) -> dict[str, Any]:
    return {"can_use_tool": lambda request: Deny("not now", **more)}


def ask_and_talk(operation: str, /, **fields: Any) -> Callable[[Host], None]:
    def does(host: Host) -> None:
        with suppress(BridleError):
            host.session.request(operation, **fields)
        host.talk()

    return does


def talk_and_ask(operation: str, /, **fields: Any) -> Callable[[Host], None]:
    def does(host: Host) -> None:
        host.talk()
        with suppress(BridleError):
            host.session.request(operation, **fields)

    return does


def ask_for(operation: str, /, **fields: Any) -> Case:
    """One control operation, then a turn that shows what it changed."""
    shown = " ".join(str(value) for value in fields.values() if value is not None)
    return Case(f"{operation} {shown}".strip(), talk, does=ask_and_talk(operation, **fields))


def once(output: HookOutput) -> Callable[[Any, Any], HookOutput | None]:
    """A hook that answers something else only the first time; made anew for each run."""
    left = [output]
    return lambda hook_input, context: left.pop() if left else None


def stop_once(host: Host) -> dict[str, Any]:
    return {"hooks": {"Stop": [HookMatcher(hooks=[once(HookOutput.block("go on"))])]}}


def when_asked(host: Host) -> dict[str, Any]:
    """A permission callback that answers when it is too late."""

    def waiting(request: Any) -> Allow:
        host.asked.set()
        request.wait_cancelled(10) if hasattr(request, "wait_cancelled") else _until_cancelled(request)
        return Allow()

    return {"can_use_tool": waiting}


def _until_cancelled(request: Any) -> None:
    pause = threading.Event()
    until = time.monotonic() + 10
    while not request.cancelled and time.monotonic() < until:
        pause.wait(0.005)


def interrupt_and_talk(host: Host) -> None:
    host.session.interrupt()
    host.talk()


def interrupt_text(host: Host) -> None:
    host.interrupt_when(lambda message: message.type == "stream_event" and "delta" in message.event)
    host.session.send("again").result()


def interrupt_question(host: Host) -> None:
    turn = host.session.send("go")
    assert host.asked.wait(20)
    host.session.interrupt()
    turn.result()


def interrupt_tool(host: Host) -> None:
    turn = host.session.send("go")
    for message in turn:
        if message.type == "assistant":
            break
    host.wait_for_file("runs")
    host.session.interrupt()
    turn.result()


def queued(host: Host) -> None:
    """The second and the third prompt come while a hook at the end of the first one's turn runs: they are answered together."""
    turns = [host.session.send("one")]
    assert host.asked.wait(20)
    turns += [host.session.send("two"), host.session.send("three")]
    host.session.get_binary_version()  # its answer shows that the prompts have been read
    host.answer.set()
    for turn in turns:
        turn.result()


def held(host: Host) -> dict[str, Any]:
    """A hook at the end of a turn that waits."""

    def waiting(hook_input: Any, context: Any) -> None:
        host.asked.set()
        host.answer.wait(20)

    return {"hooks": {"Stop": [HookMatcher(hooks=[waiting])]}}


def resumed(host: Host) -> None:
    """A second session goes on with the first one's conversation."""
    host.session.send("one").result()
    host.session.wait_idle()
    host.session.finish()
    host.again(resume=host.session.session_id)
    host.session.send("two").result()


def forked(host: Host) -> None:
    host.session.send("one").result()
    host.session.wait_idle()
    host.session.finish()
    before = host.session.session_id
    host.again(resume=before, fork_session=True)
    host.session.send("two").result()
    assert host.session.session_id != before


def continued(host: Host) -> None:
    host.session.send("one").result()
    host.session.wait_idle()
    host.session.finish()
    before = host.session.session_id
    host.again(continue_conversation=True)
    host.session.send("two").result()
    assert host.session.session_id == before


def change_between(operation: str, /, **fields: Any) -> Callable[[Host], None]:
    def does(host: Host) -> None:
        host.session.send("one").result()
        host.session.wait_idle()
        with suppress(BridleError):
            host.session.request(operation, **fields)
        host.session.send("two").result()
        host.session.wait_idle()

    return does


def add_folder(host: Host) -> None:
    (host.folder / "part").mkdir()
    host.session.register_repo_root(str(host.folder / "part"))
    host.talk()


def rewind(host: Host) -> None:
    turn = host.session.send("go")
    turn.result()
    host.session.wait_idle()
    host.session.rewind_files(turn.id)


def add_server(host: Host) -> None:
    host.session.set_mcp_servers({"late": tool_server("late", [price])})
    host.talk()
    host.session.set_mcp_servers({})


def two_turns(script: Script, folder: Path) -> None:
    script.user("one").says("One.").user("two").says("Two.")


def background(script: Script, folder: Path) -> None:
    script.user("go").calls("Bash", {"command": "sleep 0.5", "run_in_background": True}).says("Started.")
    script.task_ends().says("It is done.")


def touch_twice(script: Script, folder: Path) -> None:
    script.user("go").calls("Bash", {"command": "touch one"}).calls("Bash", {"command": "touch two"}).says("Done.")


def allow_always(request: Any) -> Allow:
    rule = PermissionRule("Bash", "touch *")
    return Allow(updated_permissions=[AddRules(rules=[rule], behavior="allow", destination="session")])


def accept_edits(request: Any) -> Allow:
    return Allow(updated_permissions=[SetMode(mode="acceptEdits", destination="session")])


def permission_hook(behavior: str) -> dict[str, Any]:
    decision = {"behavior": behavior, **({"message": "by the hook"} if behavior == "deny" else {})}
    answer = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    def waiting(request: Any) -> Allow:
        _until_cancelled(request)
        return Allow()

    return {**hooks("PermissionRequest", answer=answer), "can_use_tool": waiting}


def bash(command: str, **more: Any) -> Callable[[Script, Path], object]:
    return one_call("Bash", {"command": command}, **more)


SCHEMA = {"type": "json_schema", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
PRE = "PreToolUse"
AGENT_REPORT = "has only the subagent's last text; the real one adds statistics and a notice"
OF_AGENT = {
    "user.tool_use_result": AGENT_REPORT,
    "user.message.content[].content": AGENT_REPORT,
    "hook/PostToolUse.request.input.tool_response": AGENT_REPORT,
}
PART_OF_A_REPLY = "is not counted when it comes from a reply that was cut off"
OF_CUT_OFF = {
    "result/*.total_cost_usd": PART_OF_A_REPLY,
    "result/*.modelUsage": PART_OF_A_REPLY,
    "stream_event/message_delta.event": "has less to say about a reply that was cut off",
    "stream_event/message_stop.abandoned_blocks": "has less to say about a reply that was cut off",
}
OF_COMPACTION = {"user.message.content": "has the summary without the notices around it"}

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
    ("get_usage", {}),
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
        with suppress(BridleError):
            host.session.request(operation, **fields)
    host.talk()


UNKNOWN_OPERATION = {"answers/nonsense.response.error": "is the text of this library"}
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
    Case("structured output", lambda s, f: s.user("go").calls("StructuredOutput", {"n": 1}), {"output_format": SCHEMA}),
    Case(
        "structured output, one-shot",
        lambda s, f: s.user("go").calls("StructuredOutput", {"n": 1}),
        {"output_format": SCHEMA},
        one_shot=True,
    ),
    Case(
        "too many turns",
        lambda s, f: s.user("go").calls("Bash", {"command": "echo hi"}, result="hi"),
        {**BYPASS, "max_turns": 1},
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
    Case("a hook when the API refuses", lambda s, f: s.user("go").api_error(402), hooks("StopFailure")),
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
        but=OF_CUT_OFF,
    ),
    Case(
        "interrupted during a tool",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch runs; sleep 30"}, endless=True),
        BYPASS,
        does=interrupt_tool,
    ),
    Case(
        "interrupted at a question",
        lambda s, f: s.user("go").calls("Bash", {"command": "touch made"}),
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
        but=OF_AGENT,
    ),
    Case(
        "a subagent with hooks",
        lambda s, f: s.user("go").subagent("look", "Seen.").says("Done."),
        {**BYPASS, **hooks("SubagentStart", "SubagentStop", "PreToolUse", "PostToolUse")},
        but=OF_AGENT,
    ),
    Case(
        "a compaction",
        lambda s, f: s.user("one").says("One.").user("/compact").compacts("short"),
        hooks("PreCompact", "PostCompact", "SessionStart"),
        but=OF_COMPACTION,
    ),
    # -- which session
    Case("resumed", two_turns, does=resumed),
    Case("forked", two_turns, does=forked),
    Case("continued", two_turns, does=continued),
    # -- changes between turns
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
    Case("the state of servers", talk, {"mcp_servers": SHOP}, does=ask_and_talk("mcp_status")),
    *OPERATIONS,
]
