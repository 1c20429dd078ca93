"""What the hosts of the cases do: their options, hooks and callbacks, and how they talk with the CLI."""

from __future__ import annotations

import threading
import time
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from hackamore import Allow, Deny, HookMatcher, tool, tool_server
from hackamore.errors import HackamoreError
from hackamore.hooks import HookOutput
from hackamore.permissions import AddRules, PermissionRule, SetMode
from hackamore.testing import Script
from hackamore.tools import Audio, EmbeddedResource, Image, ResourceLink, ToolResult
from tests.support.patience import patience

if TYPE_CHECKING:
    from tests.fidelity.driving import Host


@tool
def price(article: str) -> float:
    """Return a price."""
    return 2.5


@tool
def broken() -> str:
    """Fail."""
    raise LookupError("nothing there")


PICTURE = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
GIVEN: dict[str, Any] = {
    "nothing": None,
    "blank": " ",
    "an object": {"tea": 2.0, "in": ["a", "b"]},
    "both": ToolResult("text", structured={"n": 1}, meta={"k": 1}),
    "a picture": ["this", Image(PICTURE, "image/png")],
    "a picture and an object": ToolResult([Image(PICTURE, "image/png"), "text"], structured={"n": 1}),
    "sound": Audio(b"abc", "audio/wav"),
    "a link": [ResourceLink("file:///tea", "tea", description="all of it"), "and text"],
    "a file": EmbeddedResource("file:///tea", "leaves", "text/plain"),
    "bytes": EmbeddedResource("file:///tea", b"leaves", "application/pdf"),
    "an empty error": ToolResult("", is_error=True),
    "an error with an object": ToolResult("bad", structured={"n": 1}, is_error=True),
}


@tool
def give(what: str) -> Any:
    """Give something."""
    return GIVEN[what]


def gifts(script: Script, folder: Path) -> None:
    script.user("go")
    for what in GIVEN:
        script.calls("mcp__gifts__give", {"what": what})
    script.says("Done.")


UNKNOWN = "11111111-1111-4111-8111-111111111111"


@tool
def order(article: str, pieces: int = 1) -> str:
    """Order an article, which nobody sells."""
    raise LookupError(f"no {article}")


SHOP = {"shop": tool_server("shop", [price, broken, order])}
TICKING = threading.Event()


@tool
async def tick() -> str:
    """Run until it is cancelled."""
    TICKING.set()
    await anyio.sleep_forever()
    return "never"


CLOCK = {"clock": tool_server("clock", [tick])}
GIFTS = {"gifts": tool_server("gifts", [give])}
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
        with suppress(HackamoreError):
            host.session.request(operation, **fields)
        host.talk()

    return does


def talk_and_ask(operation: str, /, **fields: Any) -> Callable[[Host], None]:
    def does(host: Host) -> None:
        host.talk()
        with suppress(HackamoreError):
            host.session.request(operation, **fields)

    return does


def interrupt_own_tool(host: Host) -> None:
    TICKING.clear()
    turn = host.session.send("go")
    assert TICKING.wait(patience(30))
    host.session.interrupt()
    turn.result()
    host.session.send("more").result()


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
        request.wait_cancelled(10) if hasattr(request, "wait_cancelled") else until_cancelled(request)
        return Allow()

    return {"can_use_tool": waiting}


def until_cancelled(request: Any) -> None:
    pause = threading.Event()
    until = time.monotonic() + patience(10)
    while not request.cancelled and time.monotonic() < until:
        pause.wait(0.005)


def interrupt_and_talk(host: Host) -> None:
    host.session.interrupt()
    host.talk()


def interrupt_text(host: Host) -> None:
    host.interrupt_when(lambda message: message.type == "stream_event" and "delta" in message.event)
    host.session.send("again").result()


def interrupt_by_name(host: Host) -> None:
    """Name another turn, the one that runs, the one that is over, and another one when none runs."""
    turn = host.session.send("go")
    next(message for message in turn if message.type == "stream_event" and "delta" in message.event)
    other = "00000000-0000-4000-8000-000000000000"
    for name in (other, turn.id):
        host.session.request("interrupt", for_user_message_uuids=[name])
    turn.result()
    host.session.wait_idle()
    for name in (turn.id, other):
        host.session.request("interrupt", for_user_message_uuids=[name])
    host.session.send("again").result()


def interrupt_question(host: Host) -> None:
    turn = host.session.send("go")
    assert host.asked.wait(patience(20))
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
    assert host.asked.wait(patience(20))
    turns += [host.session.send("two"), host.session.send("three")]
    host.session.get_binary_version()  # its answer shows that the prompts have been read
    host.answer.set()
    for turn in turns:
        turn.result()


def held(host: Host) -> dict[str, Any]:
    """A hook at the end of a turn that waits."""

    def waiting(hook_input: Any, context: Any) -> None:
        host.asked.set()
        host.answer.wait(patience(20))

    return {"hooks": {"Stop": [HookMatcher(hooks=[waiting])]}}


def meanwhile(host: Host) -> dict[str, Any]:
    """A permission callback that waits."""

    def deciding(request: Any) -> Allow:
        host.asked.set()
        host.answer.wait(patience(20))
        return Allow()

    return {"can_use_tool": deciding}


def prompt_meanwhile(host: Host) -> None:
    """The second prompt comes while a question about the first one is open: the model gets it with the tool's result."""
    first = host.session.send("one")
    assert host.asked.wait(patience(20))
    second = host.session.send("two")
    host.session.get_binary_version()
    host.answer.set()
    assert first.result() is second.result()


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
        with suppress(HackamoreError):
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
    script.user("go").calls("Bash", {"command": "sleep 1.2", "run_in_background": True}).says("Started.")
    script.task_ends().says("It is done.")


def touch_twice(script: Script, folder: Path) -> None:
    script.user("go").calls("Bash", {"command": "touch one"}).calls("Bash", {"command": "touch two"}).says("Done.")


def outside(script: Script, folder: Path) -> None:
    """Files that do not belong to the working directory."""
    script.user("go").calls("Read", {"file_path": "/etc/hostname"}).calls("Bash", {"command": "cat /etc/hostname"})
    script.calls("Write", {"file_path": "/etc/hackamore", "content": "x"}).calls(
        "Bash", {"command": "touch /etc/hackamore"}
    )
    script.says("Done.")


def suggested(script: Script, folder: Path) -> None:
    """Commands that differ in the rule that the CLI suggests for them."""
    script.user("go")
    for command in (
        "make",
        "make all",
        "git commit -m hi",
        "npm run build:x",
        "python x.py",
        "rm -rf sub",
        "mv a /etc/b",
    ):
        script.calls("Bash", {"command": command})
    script.calls("WebFetch", {"url": "https://example.com/a", "prompt": "x"}).says("Done.")


def allow_always(request: Any) -> Allow:
    rule = PermissionRule("Bash", "touch *")
    return Allow(updated_permissions=[AddRules(rules=[rule], behavior="allow", destination="session")])


def accept_edits(request: Any) -> Allow:
    return Allow(updated_permissions=[SetMode(mode="acceptEdits", destination="session")])


def permission_hook(behavior: str) -> dict[str, Any]:
    decision = {"behavior": behavior, **({"message": "by the hook"} if behavior == "deny" else {})}
    answer = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    def waiting(request: Any) -> Allow:
        until_cancelled(request)
        return Allow()

    return {**hooks("PermissionRequest", answer=answer), "can_use_tool": waiting}


def bash(command: str, **more: Any) -> Callable[[Script, Path], object]:
    return one_call("Bash", {"command": command}, **more)
