"""The connection and the real CLI, with nothing between them but a loop that moves bytes."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from hackamore._engine.protocol import events
from hackamore._engine.protocol.connection import Connection
from hackamore._engine.protocol.control_rows import ROWS
from hackamore._engine.protocol.control_table import Direction
from hackamore._engine.protocol.states.session import Ending, SessionActivity, TurnState
from hackamore.errors import ControlRejectedError, SessionNotFoundError, StreamWarning
from hackamore.messages import AssistantMessage, ResultMessage, TextBlock, UserMessage, results
from hackamore.testing import Repeat, Reply, ScriptedModel, ToolCall
from tests.contract import shows
from tests.protocol.driving import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import RealCLI

ALL_ALLOWED = ("--permission-mode", "bypassPermissions")
ASKING = ("--permission-prompt-tool", "stdio")


# A command that runs until `release` is called.
HELD = "while [ ! -e released ]; do sleep 0.05; done"


def release(driver: Driver, real_cli: RealCLI) -> None:
    """Let a held command end, after the CLI has read all that was sent to it."""
    driver.ask("get_settings")
    (real_cli.cwd / "released").touch()


def bash(command: str, **more: Any) -> ToolCall:
    return ToolCall("Bash", {"command": command, "description": "test", **more})


@pytest.fixture
def drive(real_cli: RealCLI) -> Callable[..., Driver]:
    def start(model: ScriptedModel, *arguments: str, answers: Any = None, env: Any = None) -> Driver:
        command = [
            real_cli.cli_path,
            *("--print", "--verbose", "--output-format", "stream-json", "--input-format", "stream-json"),
            *arguments,
        ]
        environment = {**real_cli.env(model), "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1", **(env or {})}
        return Driver(command, environment=environment, cwd=real_cli.cwd, answers=answers)

    return start


def ready(driver: Driver, **fields: Any) -> None:
    driver.connection.send_initialize(fields)
    driver.until(lambda: driver.of(events.HandshakeCompleted))


def over(driver: Driver, *turn_ids: str) -> Callable[[], bool]:
    return lambda: not any(turn_id in driver.connection.turns for turn_id in turn_ids)


def state(driver: Driver, turn_id: str) -> TurnState:
    return [event.state for event in driver.of(events.TurnStateChanged) if event.turn_id == turn_id][-1]


def texts(driver: Driver, turn_id: str | None = None) -> list[str]:
    messages = [m for m in driver.messages(turn_id) if isinstance(m, AssistantMessage)]
    return [block.text for m in messages for block in m.content if isinstance(block, TextBlock)]


def finish(driver: Driver) -> events.Ended:
    driver.connection.outbox.close_input()
    driver.until(lambda: driver.connection.input_may_close)
    driver.close()
    driver.until(lambda: driver.connection.state.over)
    [ended] = driver.of(events.Ended)
    assert driver.events[-1] is ended
    return ended


@shows("session.handshake.answer")
def test_a_conversation_from_the_handshake_to_the_end(drive: Any) -> None:
    with ScriptedModel("One.", "Two.", "Three.") as model, drive(model) as driver:
        early = driver.connection.conversation.send_prompt("sent before the handshake")
        ready(driver)
        info = driver.connection.conversation.server_info
        assert info is not None
        assert info.commands
        assert info.models
        assert info.data["models"]

        driver.until(over(driver, early))
        assert texts(driver, early) == ["One."]
        assert state(driver, early) is TurnState.COMPLETED
        chosen = str(uuid.uuid4())
        assert driver.connection.conversation.send_prompt("two", turn_id=chosen) == chosen
        third = driver.connection.conversation.send_prompt("three")
        driver.until(over(driver, chosen, third))
        assert (texts(driver, chosen), texts(driver, third)) == (["Two."], ["Three."])
        for turn_id in (early, chosen, third):
            assert isinstance(driver.messages(turn_id)[-1], ResultMessage)
        driver.until(lambda: driver.connection.conversation.quiet)
        assert driver.connection.conversation.activity is SessionActivity.IDLE
        assert driver.connection.state.session_id

        ended = finish(driver)
    assert (ended.ending, ended.exit_code, ended.error) == (Ending.COMPLETED, 0, None)
    assert not driver.of(events.WarningRaised)


@shows("session.turns.merged")
def test_two_prompts_that_one_result_answers_end_together(drive: Any, real_cli: RealCLI) -> None:
    with (
        ScriptedModel(Reply(bash(HELD)), "Both answered.") as model,
        drive(model, *ALL_ALLOWED) as driver,
    ):
        ready(driver)
        first = driver.connection.conversation.send_prompt("first")
        driver.until(lambda: any(isinstance(m, AssistantMessage) for m in driver.messages()))
        second = driver.connection.conversation.send_prompt("second")
        release(driver, real_cli)
        driver.until(over(driver, first, second))

        batch = next(
            e for e in driver.of(events.MessagesReceived) if any(isinstance(m, ResultMessage) for m in e.messages)
        )
        assert set(batch.turn_ids) == {first, second}
        assert state(driver, first) is state(driver, second) is TurnState.COMPLETED
        assert texts(driver, second) == ["Both answered."]
        assert finish(driver).ending is Ending.COMPLETED


def test_a_hook_and_a_permission_are_asked_and_the_answers_count(drive: Any) -> None:
    asked: list[tuple[str, Any]] = []

    def hook(event: events.RequestReceived) -> Any:
        asked.append((event.subtype, event.frame.request["input"]["hook_event_name"]))
        return {}

    def permission(event: events.RequestReceived) -> Any:
        request = event.frame.request
        asked.append((event.subtype, request["tool_name"]))
        if "refused" in request["input"]["command"]:
            return {"behavior": "deny", "message": "not that one"}
        return {"behavior": "allow", "updatedInput": {**request["input"], "command": "echo changed > made.txt"}}

    script = (Reply(bash("touch a")), Reply(bash("touch refused")), "Done.")
    with (
        ScriptedModel(*script) as model,
        drive(model, *ASKING, answers={"hook_callback": hook, "can_use_tool": permission}) as driver,
    ):
        ready(driver, hooks={"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"], "timeout": 65}]})
        turn = driver.connection.conversation.send_prompt("go")
        driver.until(over(driver, turn))
        results_text = [r.text for r in model.requests_of("main")[-1].tool_results]
        assert finish(driver).ending is Ending.COMPLETED

    assert asked == [("hook_callback", "PreToolUse"), ("can_use_tool", "Bash")] * 2
    assert any("not that one" in text for text in results_text)


@shows("session.turns.interrupted")
def test_interrupts_while_streaming_with_prompts_waiting_and_when_idle(drive: Any) -> None:
    slow = Reply("x" * 2_000, chunk=10, delay=0.02)
    with ScriptedModel(slow, slow, "After.") as model, drive(model, "--include-partial-messages") as driver:
        ready(driver)
        turn = driver.connection.conversation.send_prompt("one")
        driver.until(lambda: len(driver.messages(turn)) > 8)
        waiting = driver.connection.conversation.send_prompt("two")
        interrupt = driver.connection.exchanges.interrupt()
        driver.until(over(driver, turn))
        assert state(driver, turn) is TurnState.INTERRUPTED
        receipt = driver.resolved(interrupt)
        assert receipt is not None
        assert isinstance(receipt.result, results.InterruptReceipt)
        assert receipt.result.still_queued == [waiting]

        count = len(driver.messages(waiting))
        driver.until(lambda: len(driver.messages(waiting)) > count + 4)
        third = driver.connection.conversation.send_prompt("three")
        driver.pause(0.1)
        driver.connection.exchanges.interrupt(cancel_queued=True)
        driver.until(over(driver, waiting, third))
        assert (state(driver, waiting), state(driver, third)) == (TurnState.INTERRUPTED, TurnState.INTERRUPTED)
        assert isinstance(driver.ask("interrupt").result, results.InterruptReceipt)

        last = driver.connection.conversation.send_prompt("four")
        driver.until(over(driver, last))
        assert texts(driver, last) == ["After."]
        assert finish(driver).ending is Ending.COMPLETED


@shows("process.graceful")
def test_a_session_whose_last_turn_was_interrupted_still_ends_well(drive: Any) -> None:
    with ScriptedModel(Reply("x" * 2_000, chunk=10, delay=0.02)) as model, drive(model) as driver:
        ready(driver)
        turn = driver.connection.conversation.send_prompt("one")
        driver.until(lambda: model.requests_of("main"))
        driver.connection.exchanges.interrupt()
        driver.until(over(driver, turn))
        ended = finish(driver)
    assert (ended.ending, ended.exit_code) == (Ending.COMPLETED, 1)


@shows("callbacks.cancelled")
def test_an_interrupt_takes_an_open_permission_question_back(drive: Any) -> None:
    with (
        ScriptedModel(Reply(bash("touch a"))) as model,
        drive(model, *ASKING) as driver,
    ):
        ready(driver)
        turn = driver.connection.conversation.send_prompt("one")
        driver.until(lambda: driver.of(events.RequestReceived))
        [question] = driver.of(events.RequestReceived)
        assert driver.connection.conversation.activity is SessionActivity.REQUIRES_ACTION
        driver.connection.exchanges.interrupt()
        driver.until(over(driver, turn))
        driver.until(lambda: driver.of(events.RequestCancelled))
        [taken_back] = driver.of(events.RequestCancelled)
        assert (taken_back.request_id, taken_back.reason) == (question.request_id, "cancelled")
        assert not driver.connection.exchanges.send_response(
            question.request_id, {"behavior": "deny", "message": "late"}
        )
        assert state(driver, turn) is TurnState.INTERRUPTED
        finish(driver)


@shows("session.idle.background")
def test_the_background_outlives_the_result_and_is_waited_for(drive: Any, real_cli: RealCLI) -> None:
    script = (Reply(bash(f"{HELD}; echo done", run_in_background=True)), "Started.", "It is done.")
    with ScriptedModel(*script) as model, drive(model, *ALL_ALLOWED) as driver:
        ready(driver)
        turn = driver.connection.conversation.send_prompt("go")
        driver.until(over(driver, turn))
        driver.until(lambda: driver.connection.conversation.activity is SessionActivity.IDLE)
        assert not driver.connection.conversation.quiet
        assert driver.connection.conversation.background_tasks
        release(driver, real_cli)
        driver.connection.outbox.close_input()
        assert not driver.connection.input_may_close
        driver.until(lambda: driver.connection.input_may_close)
        # Quiet, and not a moment earlier: the turn that the CLI starts by itself is over too.
        assert texts(driver) == ["Started.", "It is done."]
        assert texts(driver, turn) == ["Started."]
        assert len([m for m in driver.messages() if isinstance(m, ResultMessage)]) == 2
        driver.close()
        driver.until(lambda: driver.connection.state.over)
    assert driver.connection.state.ending is Ending.COMPLETED


@shows("session.handshake.implicit")
def test_an_in_process_server_is_asked_before_initialize_is_answered(drive: Any) -> None:
    def server(event: events.RequestReceived) -> Any:
        message = event.frame.request["message"]
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id", 0), "result": {}}
        match message["method"]:
            case "initialize":
                reply["result"] = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "calculator", "version": "1"},
                }
            case "tools/list":
                reply["result"] = {"tools": [{"name": "add", "description": "", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                reply["result"] = {"content": [{"type": "text", "text": "the sum is 3"}]}
        return {"mcp_response": reply}

    script = (Reply(ToolCall("mcp__calculator__add", {"a": 1e2})), Reply("Three.", expect_text="the sum is 3"))
    with (
        ScriptedModel(*script) as model,
        drive(model, *ALL_ALLOWED, answers={"mcp_message": server}) as driver,
    ):
        driver.connection.send_initialize({"sdkMcpServers": ["calculator"]})
        turn = driver.connection.conversation.send_prompt("add")
        driver.until(over(driver, turn))
        kinds = [type(event) for event in driver.events]
        assert kinds.index(events.RequestReceived) < kinds.index(events.HandshakeCompleted)
        assert driver.of(events.OperationsReleased) == [driver.of(events.OperationsReleased)[0]]
        assert driver.of(events.OperationsReleased)[0].implicitly
        assert texts(driver, turn) == ["Three."]
        status = driver.ask("mcp_status").result
        assert isinstance(status, results.McpStatus)
        assert [(server.name, server.status) for server in status.mcp_servers] == [("calculator", "connected")]
        assert finish(driver).ending is Ending.COMPLETED


READING: list[tuple[str, dict[str, Any], Any]] = [
    ("get_context_usage", {}, lambda r: r.categories and r.total_tokens > 0 and r.model),
    ("get_context_usage", {"detail": "summary"}, lambda r: r.categories and r.total_tokens > 0),
    ("get_context_usage", {"detail": "nonsense"}, None),
    ("get_usage", {"skip_behaviors": True}, lambda r: r.behaviors is None),
    ("initialize", {}, lambda r: r.commands and r.models and r.session_state),
    ("get_usage", {}, lambda r: "total_cost_usd" in r.session),
    ("get_settings", {}, lambda r: r.applied["model"]),
    ("list_models", {}, lambda r: r.models[0].value and r.models[0].display_name),
    ("get_session_cost", {}, lambda r: "cost" in r.text),
    ("get_binary_version", {}, lambda r: r.version.count(".") == 2),
    ("file_suggestions", {"query": "a"}, lambda r: isinstance(r.suggestions, list)),
    ("list_permission_rules", {}, lambda r: r.state.original_cwd),
    ("get_hooks_listing", {}, lambda r: r.event_catalog and r.policy),
    ("mcp_status", {}, lambda r: r.mcp_servers == []),
    ("mcp_set_servers", {"servers": {}}, lambda r: r.errors == {}),
    ("reload_skills", {}, lambda r: r.skills),
    ("reload_output_styles", {}, lambda r: "default" in r.available_output_styles),
    ("reload_plugins", {}, lambda r: r.error_count == 0),
    ("read_file", {"path": "readme.txt"}, lambda r: r.contents == "hello\n"),
    ("background_tasks", {}, lambda r: r.data == {}),
    ("stop_task", {"task_id": "never"}, lambda r: r.data == {}),
    ("set_permission_mode", {"mode": "plan"}, lambda r: True),
    ("set_model", {"model": "claude-sonnet-4-5"}, lambda r: True),
    ("set_model", {"model": None}, lambda r: True),
    ("set_max_thinking_tokens", {"max_thinking_tokens": 2_000}, lambda r: r.raw == b""),
    ("rename_session", {"title": "A test"}, lambda r: r.raw == b""),
    ("apply_flag_settings", {"settings": {}}, lambda r: True),
    ("set_has_subscribers", {"has_subscribers": True}, lambda r: True),
    ("seed_read_state", {"path": "readme.txt", "mtime": 1}, lambda r: True),
    ("cancel_async_message", {"message_uuid": "never"}, lambda r: r.cancelled is False),
    ("set_permission_mode", {"mode": "nonsense"}, None),
    ("set_color", {"color": "blue"}, None),
    ("get_task_output", {"task_id": "never"}, None),
    ("rewind_files", {"user_message_id": "never"}, None),
    ("register_repo_root", {"directory": "/"}, None),
    ("mcp_reconnect", {"server_name": "never"}, None),
    ("mcp_toggle", {"server_name": "never", "enabled": False}, None),
    ("mcp_call", {"tool": "mcp__never__never"}, None),
    ("mcp_read_resource", {"server_name": "never", "uri": "ui://never"}, None),
    ("update_settings", {"source": "userSettings", "settings": {"effortLevel": "low"}}, lambda r: True),
    ("set_mcp_permission_mode_override", {"server_name": "never", "mode": None}, lambda r: True),
    ("nonsense", {"anything": [1]}, None),
]


@shows("control.operations.typed")
def test_every_request_of_the_table_is_answered_and_its_answer_is_read(drive: Any, real_cli: RealCLI) -> None:
    (real_cli.cwd / "readme.txt").write_text("hello\n")
    asked = {row.subtype for row in ROWS if row.direction is Direction.HOST_TO_CLI}
    assert asked - {subtype for subtype, _, _ in READING} == {"interrupt"}
    wrong = []
    with ScriptedModel() as model, drive(model) as driver:
        ready(driver)
        for subtype, fields, check in READING:
            answer = driver.ask(subtype, **fields)
            if check is None:
                good = isinstance(answer.error, ControlRejectedError)
            else:
                good = answer.result is not None and bool(check(answer.result))
            if not good:
                wrong.append((subtype, fields, answer.result and answer.result.data, answer.error))
        warnings = [event.warning for event in driver.of(events.WarningRaised)]
        assert finish(driver).ending is Ending.COMPLETED
    assert wrong == []
    assert warnings == list[StreamWarning]()


@shows("bad.never-issued")
def test_our_own_answers_played_back_are_for_nobody(drive: Any) -> None:
    def hook(event: events.RequestReceived) -> Any:
        return {}

    with (
        ScriptedModel("One.") as model,
        # The flag of `Options(replay_user_messages=True)`.
        drive(model, "--replay-user-messages", answers={"hook_callback": hook}) as driver,
    ):
        ready(driver, hooks={"UserPromptSubmit": [{"hookCallbackIds": ["hook_0"]}]})
        turn = driver.connection.conversation.send_prompt("go")
        driver.until(over(driver, turn))
        assert any(isinstance(m, UserMessage) and m.is_replay for m in driver.messages(turn))
        assert not driver.of(events.WarningRaised)
        assert finish(driver).ending is Ending.COMPLETED


@shows("process.interrupt-first")
def test_stopping_answers_what_is_asked_and_wakes_everybody(drive: Any) -> None:
    with ScriptedModel(Repeat(Reply(bash("touch a")))) as model, drive(model, *ASKING) as driver:
        ready(driver)
        turn = driver.connection.conversation.send_prompt("one")
        driver.until(lambda: driver.of(events.RequestReceived))
        driver.connection.begin_stop()
        driver.connection.exchanges.interrupt(internal=True)
        driver.until(over(driver, turn))
        driver.close()
        driver.until(lambda: driver.connection.state.over)
    assert driver.connection.state.ending is Ending.STOPPED
    assert [event.reason for event in driver.of(events.RequestCancelled)] == ["stopping"]
    assert state(driver, turn) is TurnState.INTERRUPTED


@shows("session.death.wakes-all")
def test_a_killed_cli_fails_everything_that_is_open(drive: Any) -> None:
    with ScriptedModel(Repeat(Reply("x" * 5_000, chunk=10, delay=0.05))) as model, drive(model) as driver:
        ready(driver)
        turn = driver.connection.conversation.send_prompt("one")
        driver.until(lambda: driver.connection.conversation.activity is SessionActivity.RUNNING)
        driver.process.kill()
        driver.until(lambda: driver.connection.state.over)
    [ended] = driver.of(events.Ended)
    assert (ended.ending, ended.exit_code) == (Ending.FAILED, -9)
    assert state(driver, turn) is TurnState.FAILED
    assert isinstance(driver.connection, Connection)
    assert driver.connection.state.exited


@shows("session.idle.background")
def test_a_subagent_in_the_background_is_waited_for(drive: Any) -> None:
    call = ToolCall(
        "Task",
        {
            "description": "look",
            "prompt": "LOOK AROUND",
            "subagent_type": "general-purpose",
            "run_in_background": True,
        },
    )
    with (
        ScriptedModel(
            Reply(call), "Started.", "It has looked.", subagents={"LOOK AROUND": [Reply(bash("sleep 1")), "Seen."]}
        ) as model,
        drive(model, *ALL_ALLOWED) as driver,
    ):
        ready(driver)
        turn = driver.connection.conversation.send_prompt("go")
        driver.until(over(driver, turn))
        driver.connection.outbox.close_input()
        driver.until(lambda: driver.connection.input_may_close)
        assert texts(driver)[-1] == "It has looked."
        assert driver.connection.input_may_close
        driver.close()
        driver.until(lambda: driver.connection.state.over)
    assert driver.connection.state.ending is Ending.COMPLETED


@shows("session.turns.nobodys")
def test_a_prompt_that_comes_while_the_cli_works_for_itself_gets_its_result(drive: Any, real_cli: RealCLI) -> None:
    script = (
        Reply(bash(f"{HELD}; rm released; echo done", run_in_background=True)),
        "Started.",
        Reply(bash(f"touch begun; {HELD}")),
        "Both.",
    )
    with ScriptedModel(*script) as model, drive(model, *ALL_ALLOWED) as driver:
        ready(driver)
        first = driver.connection.conversation.send_prompt("go")
        driver.until(over(driver, first))
        release(driver, real_cli)
        driver.until((real_cli.cwd / "begun").exists)
        second = driver.connection.conversation.send_prompt("and this")
        release(driver, real_cli)
        driver.until(over(driver, second))
        assert state(driver, second) is TurnState.COMPLETED
        assert texts(driver, second) == ["Both."]
        assert finish(driver).ending is Ending.COMPLETED


def test_an_interrupt_ends_all_prompts_that_were_taken_into_the_turn(drive: Any) -> None:
    with (
        ScriptedModel(Reply(bash("sleep 1")), Reply("x" * 5_000, chunk=10, delay=0.02), Repeat("again")) as model,
        drive(model, *ALL_ALLOWED) as driver,
    ):
        ready(driver)
        first = driver.connection.conversation.send_prompt("first")
        driver.until(lambda: any(isinstance(m, AssistantMessage) for m in driver.messages()))
        second = driver.connection.conversation.send_prompt("second")
        driver.until(lambda: len(model.requests_of("main")) == 2)
        driver.pause(0.3)
        driver.connection.exchanges.interrupt()
        driver.until(over(driver, first, second))
        assert state(driver, first) is TurnState.INTERRUPTED
        assert state(driver, second) is TurnState.INTERRUPTED
        assert finish(driver).ending is Ending.COMPLETED


@shows("permissions.deny")
def test_a_denial_that_interrupts_ends_the_turn(drive: Any) -> None:
    def permission(event: events.RequestReceived) -> Any:
        return {"behavior": "deny", "message": "no", "interrupt": True}

    with (
        ScriptedModel(Reply(bash("touch a"))) as model,
        drive(model, *ASKING, answers={"can_use_tool": permission}) as driver,
    ):
        ready(driver)
        turn = driver.connection.conversation.send_prompt("go")
        driver.until(over(driver, turn))
        assert state(driver, turn) is TurnState.INTERRUPTED
        assert finish(driver).ending is Ending.COMPLETED


@shows("control.operations.rewind")
def test_files_are_rewound_to_a_prompt_by_its_id(drive: Any, real_cli: RealCLI) -> None:
    write = ToolCall("Write", {"file_path": str(real_cli.cwd / "made.txt"), "content": "x"})
    with (
        ScriptedModel(Reply(write), "Written.") as model,
        drive(model, *ALL_ALLOWED, env={"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"}) as driver,
    ):
        ready(driver)
        turn = driver.connection.conversation.send_prompt("go")
        driver.until(over(driver, turn))
        assert (real_cli.cwd / "made.txt").exists()
        answer = driver.ask("rewind_files", user_message_id=turn).result
        assert isinstance(answer, results.RewindResult)
        assert answer.can_rewind
        assert not (real_cli.cwd / "made.txt").exists()
        assert finish(driver).ending is Ending.COMPLETED


@shows("session.deadlines.waiting")
def test_a_deadline_of_a_waiting_prompt_withdraws_it(drive: Any) -> None:
    with ScriptedModel(Reply("x" * 1_000, chunk=10, delay=0.02)) as model, drive(model) as driver:
        ready(driver)
        first, second = (
            driver.connection.conversation.send_prompt("first"),
            driver.connection.conversation.send_prompt("second"),
        )
        driver.until(lambda: model.requests_of("main"))
        assert driver.connection.expire_turn(second)
        driver.until(over(driver, second))
        assert driver.connection.expire_turn(first)
        driver.until(over(driver, first))
        assert (state(driver, first), state(driver, second)) == (TurnState.INTERRUPTED, TurnState.INTERRUPTED)
        assert finish(driver).ending is Ending.COMPLETED


def test_resuming_an_unknown_session_is_a_start_that_failed(drive: Any) -> None:
    unknown = str(uuid.uuid4())
    with ScriptedModel() as model, drive(model, f"--resume={unknown}") as driver:
        driver.connection.send_initialize({})
        driver.until(lambda: driver.connection.state.over)
    [failed] = driver.of(events.HandshakeFailed)
    assert isinstance(failed.error, SessionNotFoundError)
    assert unknown in str(failed.error)
