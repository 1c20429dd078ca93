"""Sessions on the real CLI, with a scripted model."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

from hackamore import Session
from hackamore._engine.protocol.states.session import SessionActivity, SessionState, TurnState
from hackamore.errors import ControlRejectedError, OptionsError, SessionClosedError, TurnCancelledError
from hackamore.hooks import HookMatcher, HookOutput
from hackamore.messages import UserMessage
from hackamore.permissions import AddRules, Allow, Deny, PermissionRule
from hackamore.sync import Session as BlockingSession
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall, with_faults
from hackamore.testing.faults.flow import FrameStage, Selection, frame_name
from hackamore.tools import Image, tool, tool_server
from tests.contract import shows
from tests.support.leaks import alive
from tests.support.operations import operations
from tests.support.patience import patience
from tests.support.talking import Held, Running, each, first, got, raised, texts, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell


def bash(command: str, **more: Any) -> Reply:
    return Reply(ToolCall("Bash", {"command": command, "description": "test", **more}))


async def tool_results(session: Any, prompt: str = "go") -> list[str]:
    found = []
    async for message in each(await got(session.send(prompt))):
        if isinstance(message, UserMessage) and isinstance(message.content, list):
            found += [str(getattr(block, "content", "")) for block in message.content]
    return found


@shows(
    "session.turns.messages",
    "session.turns.matching",
    "control.operations.permission-mode",
    "control.operations.model",
)
def test_a_conversation_and_its_controls(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel("One.", "Two.", "Three.") as model:
            async with Running(shell, driving(model)) as session:
                assert session.server_info.commands
                # Each turn has the messages of its own prompt.
                assert await texts(await got(session.send("one"))) == ["One."]
                two, three = await got(session.send("two")), await got(session.send("three"))
                assert (await texts(two), await texts(three)) == (["Two."], ["Three."])
                await got(session.wait_idle())
                assert session.activity is SessionActivity.IDLE
                await got(session.set_permission_mode("plan"))
                await got(session.set_model("claude-sonnet-4-5"))
                assert (await got(session.get_context_usage())).max_tokens > 0
                assert (await got(session.get_binary_version())).version
                assert (await got(session.list_models())).models
                await got(session.get_mcp_status())
                await got(session.get_settings())
                await got(session.list_permission_rules())
                await got(session.rename_session("a name"))
                await got(session.interrupt())
            assert not alive(session.pid)
            assert (session.state, session.exit_code, session.warnings) == (SessionState.STOPPED, 0, [])

    shell.play(scenario)


@shows("session.turns.uuid")
def test_a_uuid_of_the_program_and_a_whole_user_frame_name_their_turns(shell: Shell, driving: Driving) -> None:
    """Given by `send(uuid=...)`, or by the frame."""
    ids = [f"0badcafe-0000-4000-8000-00000000000{number}" for number in range(3)]
    frame = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "two"}]}, "uuid": ids[1]}

    async def scenario() -> None:
        with ScriptedModel("One.", "Two.") as model:
            async with Running(shell, driving(model)) as session:
                for number, turn in enumerate(
                    [await got(session.send("one", uuid=ids[0])), await got(session.send(frame))]
                ):
                    assert turn.id == ids[number]
                    assert (await got(turn.result())).user_message_uuid == ids[number]
                for again in (
                    {"prompt": "one", "uuid": ids[0]},
                    {"prompt": frame},
                    {"prompt": {**frame, "uuid": "nine"}},
                ):
                    error = await raised(lambda again=again: session.send(**again), OptionsError)
                    assert error.field == "uuid"
                await raised(lambda: session.send({"type": "user"}), TypeError)
        assert [str(request.messages[-1]["content"]).count("two") for request in model.requests] == [0, 1]

    shell.play(scenario)


@shows("session.turns.interrupted", "control.operations.interrupt")
def test_interrupts(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        long = Reply("x" * 5_000, chunk=10, delay=0.05)
        options = {"permission_mode": "bypassPermissions", "include_partial_messages": True}
        with ScriptedModel(long, bash("touch runs; sleep 30"), Repeat("Afterwards.")) as model:
            async with Running(shell, driving(model, **options)) as session:
                for kind in ("stream_event", "assistant"):  # while streaming, while a tool runs
                    turn = await got(session.send("go"))
                    while (await first(turn)).type != kind:
                        pass
                    while kind == "assistant" and not (real_cli.cwd / "runs").exists():
                        await shell.let_others_run()
                    await got(session.interrupt())
                    result = await got(turn.result())
                    assert turn.state is TurnState.INTERRUPTED, (kind, result)
                await got(session.wait_idle())
                assert await texts(await got(session.send("again"))) == ["Afterwards."]

    shell.play(scenario)


@shows("control.operations.interrupt-turn")
def test_a_turn_is_interrupted_alone(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        long = Reply("x" * 5_000, chunk=10, delay=0.05)
        with ScriptedModel(long, "Third.") as model:
            async with Running(shell, driving(model, include_partial_messages=True)) as session:
                one = await got(session.send("one"))
                while (await first(one)).type != "stream_event":
                    pass
                two, three = await got(session.send("two")), await got(session.send("three"))
                assert await got(two.interrupt())
                assert (one.state, three.state) == (TurnState.STARTED, TurnState.QUEUED)
                await raised(lambda: two.result(), TurnCancelledError)
                assert await got(one.interrupt())
                await got(one.result())
                assert one.state is TurnState.INTERRUPTED
                assert await texts(three) == ["Third."]
                for turn in (one, two, three):
                    assert await got(turn.interrupt()) is False  # it is over: nothing happens
                assert [turn.state for turn in (one, two, three)] == [
                    TurnState.INTERRUPTED,
                    TurnState.INTERRUPTED,
                    TurnState.COMPLETED,
                ]

    shell.play(scenario)


class ResultsAreLate:
    """A fault: the first result, and all that follows it, arrives with the next answer of the CLI to a control request."""

    direction: Literal["inbound"] = "inbound"

    def stage(self, random: Random, note: Callable[[str], object]) -> FrameStage:
        return _Late()


class _Late(FrameStage):
    def __init__(self) -> None:
        super().__init__(Selection(None, None))
        self._kept: list[bytes] = []
        self._answered = False

    def chosen(self, frame: bytes) -> Iterable[bytes]:
        name = frame_name(json.loads(frame))
        if self._answered or not (self._kept or name.startswith("result")):
            return [frame]
        self._kept.append(frame)
        self._answered = name.startswith("control_response")
        return self.held() if self._answered else []

    def held(self) -> Iterable[bytes]:
        kept, self._kept = self._kept, []
        return kept


@shows("control.operations.interrupt-turn")
def test_an_interrupt_of_a_turn_whose_result_is_on_its_way_spares_the_next_one(shell: Shell, driving: Driving) -> None:
    began, read = threading.Event(), threading.Event()

    def second(_: Any) -> Reply:
        began.set()
        assert read.wait(patience(60))
        return Reply("Two.")

    async def scenario() -> None:
        kind = BlockingSession if shell.blocking else Session
        with ScriptedModel("One.", second) as model:
            try:
                late = with_faults(None, ResultsAreLate())
                async with Held(kind(driving(model), transport=late)) as session:
                    one, two = await got(session.send("one")), await got(session.send("two"))
                    await until(shell, began.is_set)  # the CLI works on the second prompt
                    assert one.state is TurnState.STARTED, "its result has not arrived"
                    assert await got(one.interrupt()) is False
                    read.set()
                    assert (await texts(one), await texts(two)) == (["One."], ["Two."])
                    assert (one.state, two.state) == (TurnState.COMPLETED, TurnState.COMPLETED)
            finally:
                read.set()

    shell.play(scenario)


@shows("asked.hook.dispatch", "asked.permission.dispatch")
def test_hooks_permissions_and_tools(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    calls: list[str] = []

    @tool
    def price(article: str) -> float:
        """Return a price."""
        calls.append(article)
        return 2.5

    async def seeing(asked: Any, context: Any) -> HookOutput | None:
        calls.append(asked.tool_name)
        return HookOutput.deny("by the hook") if "guarded" in str(asked.tool_input) else None

    def deciding(request: Any) -> Any:
        if "refused" in str(request.input):
            return Deny("by the callback")
        return Allow(updated_input=None if "article" in request.input else {"command": "echo changed > made.txt"})

    async def scenario() -> None:
        script: list[Any] = [
            bash("touch guarded"),
            bash("touch refused"),
            bash("touch other"),
            Reply(ToolCall("mcp__shop__price", {"article": "tea"})),
            "Done.",
        ]
        with ScriptedModel(*script) as model:
            options = driving(
                model,
                hooks={"PreToolUse": [HookMatcher(hooks=[seeing], on_failure="block")]},
                can_use_tool=deciding,
                mcp_servers={"shop": tool_server("shop", [price])},
            )
            async with Running(shell, options) as session:
                results = await tool_results(session)
                assert "by the hook" in results[0]
                assert "by the callback" in results[1]
                assert "2.5" in results[3]
                assert session.warnings == []
        assert calls == ["Bash", "Bash", "Bash", "mcp__shop__price", "tea"]
        assert (real_cli.cwd / "made.txt").read_text() == "changed\n"
        assert [path.name for path in real_cli.cwd.iterdir()] == ["made.txt"]

    shell.play(scenario)


@shows("session.life.activity")
def test_an_interrupt_while_a_question_is_open(shell: Shell, driving: Driving) -> None:
    asked = threading.Event()
    told = threading.Event()

    def waiting(request: Any) -> Allow:
        asked.set()
        until = time.monotonic() + patience(20)
        while not request.cancelled and time.monotonic() < until:
            threading.Event().wait(0.005)
        if request.cancelled:
            told.set()
        return Allow()

    async def scenario() -> None:
        with ScriptedModel(bash("touch a"), Repeat("Afterwards.")) as model:
            async with Running(shell, driving(model, can_use_tool=waiting)) as session:
                turn = await got(session.send("go"))
                while not asked.is_set():
                    await shell.let_others_run()
                assert session.activity is SessionActivity.REQUIRES_ACTION
                await got(session.interrupt())
                await got(turn.result())
                assert turn.state is TurnState.INTERRUPTED
                assert await texts(await got(session.send("again"))) == ["Afterwards."]
            assert told.wait(patience(10))

    shell.play(scenario)


@shows("session.life.views", "session.cursors.messages", "session.idle.background", "control.operations.finish")
def test_a_background_task_outlives_the_result(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    held = "until [ -e go ]; do sleep 0.05; done"
    script: list[Any] = [bash(f"{held}; echo done", run_in_background=True), "Started.", "It is done."]

    async def scenario() -> None:
        with ScriptedModel(*script) as model:
            async with Running(shell, driving(model, permission_mode="bypassPermissions")) as session:
                everything = session.messages()
                turn = await got(session.send("go"))
                assert await texts(turn) == ["Started."]
                assert session.background_tasks
                (real_cli.cwd / "go").touch()
                await got(session.wait_idle())
                assert not session.background_tasks
                await got(session.finish())
            assert await texts(everything) == ["Started.", "It is done."]

    shell.play(scenario)


@shows("session.life.resume", "control.operations.rewind")
def test_a_written_file_is_rewound_and_the_session_resumed(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    write = Reply(ToolCall("Write", {"file_path": str(real_cli.cwd / "made.txt"), "content": "x"}))

    async def scenario() -> None:
        with ScriptedModel(write, "Written.", "I remember.") as model:
            options = driving(model, permission_mode="bypassPermissions", enable_file_checkpointing=True)
            async with Running(shell, options) as session:
                turn = await got(session.send("go"))
                await got(turn.result())
                assert (real_cli.cwd / "made.txt").exists()
                answer = await got(session.rewind_files(turn.id))
                assert answer.can_rewind
                assert not (real_cli.cwd / "made.txt").exists()
                await got(session.finish())
            async with Running(shell, options.replace(resume=session.session_id)) as resumed:
                assert await texts(await got(resumed.send("and now?"))) == ["I remember."]
                assert resumed.session_id == session.session_id
            assert "Written." in str(model.requests_of("main")[-1].body)

    shell.play(scenario)


@shows("permissions.updates")
def test_a_rule_that_was_added_holds(shell: Shell, driving: Driving) -> None:
    asked: list[str] = []

    def deciding(request: Any) -> Allow:
        asked.append(request.input["command"])
        return Allow(
            updated_permissions=[
                AddRules(rules=[PermissionRule("Bash", "touch *")], behavior="allow", destination="session")
            ]
        )

    async def scenario() -> None:
        with ScriptedModel(bash("touch one"), bash("touch two"), "Done.") as model:
            async with Running(shell, driving(model, can_use_tool=deciding)) as session:
                await got((await got(session.send("go"))).result())
                rules = (await got(session.list_permission_rules())).state.rules
                assert "Bash(touch *)" in [rule.rule for rule in rules]
            assert asked == ["touch one"]

    shell.play(scenario)


@shows("asked.mcp.dispatch", "tools.kinds")
def test_tool_servers_of_two_kinds_images_and_errors(shell: Shell, driving: Driving) -> None:
    @tool
    async def picture() -> Image:
        """Draw."""
        return Image(b"\x89PNG\r\n\x1a\n" + b"\0" * 16, "image/png")

    @tool
    def failing() -> str:
        """Fail."""
        raise LookupError("nothing there")

    def opaque(message: dict[str, Any]) -> dict[str, Any] | None:
        answer: dict[str, Any] = {}
        match message["method"]:
            case "initialize":
                answer = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "opaque", "version": "1"},
                }
            case "tools/list":
                answer = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                answer = {"content": [{"type": "text", "text": str(message["params"]["arguments"])}]}
        return {"jsonrpc": "2.0", "id": message["id"], "result": answer} if "id" in message else None

    async def scenario() -> None:
        script: list[Any] = [
            Reply(ToolCall("mcp__shop__picture", {})),
            Reply(ToolCall("mcp__shop__failing", {})),
            Reply(ToolCall("mcp__opaque__echo", {"said": "this"})),
            "Done.",
        ]
        servers = {"shop": tool_server("shop", [picture, failing]), "opaque": opaque}
        with ScriptedModel(*script) as model:
            options = driving(model, mcp_servers=servers, permission_mode="bypassPermissions")
            async with Running(shell, options) as session:
                results = await tool_results(session)
                assert "image" in results[0]
                assert "nothing there" in results[1]
                assert "{'said': 'this'}" in results[2]
                assert [(each.code, repr(each.exception)) for each in session.warnings] == [
                    ("CALLBACK_FAILED", "LookupError('nothing there')")
                ]

    shell.play(scenario)


CONTROLS: list[tuple[str, tuple[Any, ...], str | None]] = [
    ("interrupt", (), None),
    ("set_permission_mode", ("plan",), None),
    ("set_model", ("claude-sonnet-4-5",), None),
    ("set_max_thinking_tokens", (2_000,), None),
    ("set_mcp_permission_mode_override", ("never", None), None),
    ("get_mcp_status", (), None),
    ("reconnect_mcp_server", ("never",), "Server not found: never"),
    ("toggle_mcp_server", ("never", False), "Server not found: never"),
    ("set_mcp_servers", ({},), None),
    ("get_context_usage", (), None),
    ("get_usage", (), None),
    ("get_settings", (), None),
    ("list_models", (), None),
    ("list_permission_rules", (), None),
    ("get_hooks_listing", (), None),
    ("stop_task", ("never",), None),
    ("move_to_background", (), None),
    ("get_task_output", ("never",), "no shell or Monitor task with that task_id"),
    ("read_file", ("readme.txt",), None),
    ("seed_read_state", ("readme.txt", 1), None),
    ("reload_plugins", (), None),
    ("reinitialize", (), None),
    ("reload_skills", (), None),
    ("reload_output_styles", (), None),
    ("apply_flag_settings", ({},), None),
    ("update_settings", ("userSettings", {"effortLevel": "low"}), None),
    ("read_mcp_resource", ("never", "ui://never"), "Server not found: never"),
    ("call_mcp_tool", ("mcp__never__never",), "MCP server not connected: never"),
    ("rename_session", ("A test",), None),
    ("set_color", ("blue",), "Unsupported control request subtype: set_color"),
    ("get_session_cost", (), None),
    ("get_binary_version", (), None),
    ("get_file_suggestions", ("a",), None),
    ("cancel_async_message", ("never",), None),
    ("register_repo_root", ("/",), "not a subdirectory of the session's working directory"),
    ("set_has_subscribers", (True,), None),
    ("rewind_files", ("never",), "No file checkpoint found for this message."),
    (
        "set_permission_mode",
        ("nonsense",),
        "must be one of acceptEdits, auto, bypassPermissions, default, dontAsk, plan",
    ),
    ("set_permission_mode", ("bypassPermissions",), "was not launched with --dangerously-skip-permissions"),
    ("set_mcp_permission_mode_override", ("never", "plan"), "tighten-only"),
    ("update_settings", ("nowhere", {}), "unsupported source nowhere"),
    ("read_file", ("nowhere.txt",), "read denied: nowhere.txt"),
    ("request", ("get_binary_version",), None),
    ("request", ("nonsense",), "Unsupported control request subtype: nonsense"),
]
"""Every method, with arguments, and what the CLI says if it refuses."""


@shows("control.operations.servers", "control.operations.typed")
def test_every_control_method(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    (real_cli.cwd / "readme.txt").write_text("hello\n")

    async def scenario() -> None:
        wrong = []
        with ScriptedModel() as model:
            async with Running(shell, driving(model, enable_file_checkpointing=True)) as session:
                for name, arguments, refusal in CONTROLS:
                    try:
                        await got(getattr(session, name)(*arguments))
                    except ControlRejectedError as error:
                        if refusal is None or refusal not in error.message:
                            wrong.append(f"{name}: {error}")
                    else:
                        if refusal is not None:
                            wrong.append(f"{name} was accepted")
        assert wrong == []

    shell.play(scenario)
    assert set(operations(BlockingSession)) == {name for name, _, _ in CONTROLS}


@shows("session.death.wakes-all")
def test_a_killed_cli_wakes_everybody(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(Reply("x" * 5_000, chunk=10, delay=0.05)) as model:
            async with Running(shell, driving(model, include_partial_messages=True)) as session:
                turn = await got(session.send("go"))
                while (await first(turn)).type != "stream_event":
                    pass
                os.kill(session.pid, signal.SIGKILL)
                error = await raised(turn.result, SessionClosedError)
                assert (error.expected, error.exit_code) == (False, -9)
                assert session.state is SessionState.FAILED

    shell.play(scenario)


def test_verbatim_prompts_name_no_files(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    (real_cli.cwd / "note.txt").write_text("the secret word is heron")

    async def scenario() -> None:
        with ScriptedModel("Yes.") as model:
            async with Running(shell, driving(model, verbatim_prompts=True)) as session:
                assert await texts(await got(session.send("read @note.txt"))) == ["Yes."]
            assert "heron" not in str(model.requests[0].body)
            assert model.requests[0].prompt_text == "read @note.txt"

    shell.play(scenario)
