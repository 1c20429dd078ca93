"""Sessions on the real CLI: interrupts at every moment, rewinding, work in the background, and what control operations bring about."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from hackamore._engine.protocol.states.session import SessionActivity, SessionState, TurnState
from hackamore.errors import ControlRejectedError, TurnCancelledError
from hackamore.messages import AssistantMessage, ResultMessage, UserMessage
from hackamore.permissions import Allow, Deny
from hackamore.testing import Repeat, Reply, ScriptedModel, Stall, ToolCall
from tests.contract import shows
from tests.support.patience import patience
from tests.support.talking import Running, each, first, got, raised, texts, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from hackamore.testing import ModelRequest
    from tests.conftest import RealCLI
    from tests.real_cli.conftest import Driving
    from tests.support.shell import Shell

BYPASS = {"permission_mode": "bypassPermissions"}
AGENT = {"description": "Reviews code", "prompt": "Review."}


def bash(command: str, **more: Any) -> Reply:
    return Reply(ToolCall("Bash", {"command": command, "description": "test", **more}))


def agent(prompt: str, **more: Any) -> Reply:
    more = {"description": "look", "subagent_type": "general-purpose", **more}
    return Reply(ToolCall("Agent", {"prompt": prompt, **more}))


def echo(request: ModelRequest) -> Reply:
    return Reply(f"You said {request.prompt_text}.")


async def usable(session: Any, answer: str = "Afterwards.") -> None:
    await got(session.wait_idle())
    assert session.activity is SessionActivity.IDLE
    assert await texts(await got(session.send("again"))) == [answer]


# -- interrupts --------------------------------------------------------------------------------------------------------


def test_interrupts_at_every_moment(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    questions: list[Any] = []

    def deciding(request: Any) -> Allow | Deny:
        if request.tool_name == "Bash":
            return Allow()
        questions.append(request)
        end = time.monotonic() + patience(30)
        while not request.cancelled and time.monotonic() < end:
            time.sleep(0.002)  # a plain function looks from time to time
        return Deny("too late")

    async def streaming(session: Any, turn: Any) -> None:
        while (await first(turn)).type != "stream_event":
            pass

    async def in_a_tool(session: Any, turn: Any) -> None:
        await until(shell, (real_cli.cwd / "runs").exists)

    async def asked(session: Any, turn: Any) -> None:
        await until(shell, lambda: bool(questions))
        assert session.activity is SessionActivity.REQUIRES_ACTION

    async def waiting_for_the_model(session: Any, turn: Any) -> None:
        await until(shell, stall.started.is_set)

    moments: list[tuple[Any, Callable[[Any, Any], Awaitable[None]], str]] = []
    stall = Stall(then="late")
    moments = [
        (Reply("x" * 5_000, chunk=10, delay=0.05), streaming, "aborted_streaming"),
        (bash("echo > runs; sleep 60"), in_a_tool, "aborted_tools"),
        (Reply(ToolCall("Write", {"file_path": "made", "content": "x"})), asked, "aborted_tools"),
        (stall, waiting_for_the_model, "aborted_streaming"),
    ]

    async def scenario() -> None:
        steps: list[Any] = []
        for step, _, _ in moments:
            steps += [step, "Afterwards."]
        with ScriptedModel(*steps) as model:
            options = driving(
                model,
                include_partial_messages=True,
                can_use_tool=deciding,
                allowed_tools=["Bash(echo *)", "Bash(sleep *)"],
            )
            async with Running(shell, options) as session:
                for _, moment, reason in moments:
                    turn = await got(session.send("go"))
                    await moment(session, turn)
                    await got(session.interrupt())
                    result = await got(turn.result())
                    assert (turn.state, result.terminal_reason) == (TurnState.INTERRUPTED, reason)
                    await usable(session)
                assert session.state is SessionState.RUNNING
        assert not (real_cli.cwd / "made").exists()

    shell.play(scenario)


def test_an_interrupt_when_idle_and_two_at_once(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        long = Reply("x" * 5_000, chunk=10, delay=0.05)
        with ScriptedModel("First.", long, Repeat("Afterwards.")) as model:
            async with Running(shell, driving(model, include_partial_messages=True)) as session:
                await got(session.interrupt())  # before anything was said
                assert await texts(await got(session.send("one"))) == ["First."]
                await got(session.wait_idle())
                receipt = await got(session.interrupt())
                assert receipt.still_queued == []
                turn = await got(session.send("two"))
                while (await first(turn)).type != "stream_event":
                    pass

                async def interrupt() -> Any:
                    return await got(session.interrupt())

                outcomes = await shell.meanwhile(interrupt, interrupt)
                assert [type(outcome).__name__ for outcome in outcomes] == ["InterruptReceipt"] * 2
                await got(turn.result())
                assert turn.state is TurnState.INTERRUPTED
                await usable(session)
                await got(session.interrupt())
                await usable(session)

    shell.play(scenario)


@pytest.mark.parametrize("withdraw", [False, True])
def test_an_interrupt_and_the_prompt_that_waits(shell: Shell, driving: Driving, withdraw: bool) -> None:
    async def scenario() -> None:
        stall = Stall(then="late")
        with ScriptedModel(stall, Repeat("Afterwards.")) as model:
            async with Running(shell, driving(model)) as session:
                turn, waiting = await got(session.send("one")), await got(session.send("two"))
                await until(shell, stall.started.is_set)
                receipt = await got(session.interrupt(cancel_queued=withdraw))
                await got(turn.result())
                assert turn.state is TurnState.INTERRUPTED
                if withdraw:
                    await raised(waiting.result, TurnCancelledError)
                    assert receipt.cancelled == [waiting.id]
                    assert waiting.state is TurnState.INTERRUPTED
                else:
                    result = await got(waiting.result())
                    assert receipt.still_queued == [waiting.id]
                    assert (waiting.state, result.result) == (TurnState.COMPLETED, "Afterwards.")
                await usable(session)

    shell.play(scenario)


# -- permissions -------------------------------------------------------------------------------------------------------


def test_a_denial_that_ends_the_turn(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def deciding(request: Any) -> Allow | Deny:
        if "stop" in request.input["command"]:
            return Deny("not this", interrupt=True)
        return Allow(updated_input={**request.input, "command": "touch changed"})

    async def scenario() -> None:
        with ScriptedModel(bash("touch stop"), bash("touch other"), "Done.", "Afterwards.") as model:
            async with Running(shell, driving(model, can_use_tool=_fitting(shell, deciding))) as session:
                turn = await got(session.send("go"))
                result = await got(turn.result())
                assert (turn.state, result.is_error) == (TurnState.INTERRUPTED, True)
                assert [denial.tool_name for denial in result.permission_denials] == ["Bash"]
                turn = await got(session.send("and now?"))
                assert (await got(turn.result())).result == "Done."
                await usable(session)
        assert [path.name for path in real_cli.cwd.iterdir()] == ["changed"]

    shell.play(scenario)


def _fitting(shell: Shell, function: Any) -> Any:
    """The coroutine function itself, or a plain one for the blocking shell: both kinds are to be seen."""
    if not shell.blocking:
        return function

    def plain(*arguments: Any) -> Any:
        coroutine = function(*arguments)
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waits")

    return plain


# -- files -------------------------------------------------------------------------------------------------------------


def test_rewinding_step_by_step(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    file = real_cli.cwd / "note.txt"

    async def scenario() -> None:
        script: list[Any] = [
            Reply(ToolCall("Write", {"file_path": str(file), "content": "one\n"})),
            "Written.",
            Reply(ToolCall("Edit", {"file_path": str(file), "old_string": "one", "new_string": "two"})),
            "Changed.",
            "Afterwards.",
        ]
        with ScriptedModel(*script) as model:
            async with Running(shell, driving(model, enable_file_checkpointing=True, **BYPASS)) as session:
                writing = await got(session.send("write"))
                await got(writing.result())
                changing = await got(session.send("change"))
                await got(changing.result())
                assert file.read_text() == "two\n"
                looked = await got(session.rewind_files(changing.id, dry_run=True))
                assert (looked.can_rewind, looked.files_changed) == (True, [str(file)])
                assert (looked.insertions, looked.deletions) == (1, 1)
                assert file.read_text() == "two\n"  # only looked at
                assert (await got(session.rewind_files(changing.id))).can_rewind
                assert file.read_text() == "one\n"
                assert (await got(session.rewind_files(writing.id))).can_rewind
                assert not file.exists()
                await usable(session)

    shell.play(scenario)


# -- work that outlives the result -------------------------------------------------------------------------------------


HELD = "until [ -e go ]; do sleep 0.05; done"


async def idle_exactly_then(shell: Shell, session: Any, prompt: str, go: Path, answers: list[str]) -> None:
    """Send a prompt, then let the held command end; `wait_idle` must return after the last answer, and at once then."""
    everything = session.messages()
    came: list[tuple[float, Any]] = []
    turn = await got(session.send(prompt))
    await got(turn.result())
    assert session.background_tasks
    assert session.activity is not SessionActivity.UNKNOWN
    go.touch()

    async def look() -> None:
        async for message in each(everything):
            came.append((time.monotonic(), message))

    async def wait() -> float:
        await got(session.wait_idle())
        now = time.monotonic()
        assert (session.background_tasks, session.activity) == ((), SessionActivity.IDLE)
        await got(session.finish())
        return now

    _, returned = await shell.meanwhile(look, wait)
    assert isinstance(returned, float), returned
    results = [(when, message) for when, message in came if isinstance(message, ResultMessage)]
    assert [message.result for _, message in results] == answers
    last = max(when for when, message in came if isinstance(message, (AssistantMessage, UserMessage, ResultMessage)))
    # The reader and the waiter are two: either may be told first.
    assert -patience(0.2) < returned - last < patience(2)


def test_a_shell_that_outlives_the_result(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        script: list[Any] = [bash(f"{HELD}; touch built", run_in_background=True), "It builds.", "It is built."]
        with ScriptedModel(*script) as model:
            async with Running(shell, driving(model, **BYPASS)) as session:
                go = real_cli.cwd / "go"
                await idle_exactly_then(shell, session, "build", go, ["It builds.", "It is built."])
        assert (real_cli.cwd / "built").exists()

    shell.play(scenario)


def test_a_subagent_that_outlives_the_result(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        looks: list[Any] = [bash(f"{HELD}; touch seen"), "Seen."]
        with ScriptedModel(agent("Look."), "It looks.", "It has looked.", subagents={"Look.": looks}) as model:
            async with Running(shell, driving(model, **BYPASS)) as session:
                go = real_cli.cwd / "go"
                await idle_exactly_then(shell, session, "look", go, ["It looks.", "It has looked."])
        assert (real_cli.cwd / "seen").exists()

    shell.play(scenario)


def test_a_subagent_in_the_foreground(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        script: list[Any] = [agent("Look.", run_in_background=False), "It has looked."]
        with ScriptedModel(*script, subagents={"Look.": "Seen."}) as model:
            async with Running(shell, driving(model, **BYPASS)) as session:
                turn = await got(session.send("look"))
                of_it = [message async for message in each(turn) if getattr(message, "parent_tool_use_id", None)]
                assert of_it  # what the subagent says belongs to the turn, too
                assert (await got(turn.result())).result == "It has looked."
                assert session.background_tasks == ()

    shell.play(scenario)


# -- several prompts ---------------------------------------------------------------------------------------------------


def test_prompts_that_are_sent_at_once_get_their_own_results(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel(Repeat(echo)) as model:
            async with Running(shell, driving(model)) as session:

                async def ask(text: str) -> Any:
                    turn = await got(session.send(text))
                    return turn, await got(turn.result())

                for number in range(3):
                    names = (f"left {number}", f"right {number}")
                    outcomes = await shell.meanwhile(lambda: ask(names[0]), lambda: ask(names[1]))  # noqa: B023 - awaited here
                    for name, (turn, result) in zip(names, outcomes, strict=True):
                        assert turn.state is TurnState.COMPLETED
                        # The CLI may answer both with one turn: then the result is that of both.
                        assert turn.id in result.user_message_uuids
                        assert name in result.result or len(result.user_message_uuids) == 2

    shell.play(scenario)


# -- what control operations bring about -------------------------------------------------------------------------------


def test_models_and_modes(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        with ScriptedModel("One.", "Two.", "Three.", bash("touch a"), "No.", bash("touch b"), "Yes.") as model:
            async with Running(shell, driving(model).replace(model="claude-sonnet-4-5")) as session:
                for name in (None, "claude-haiku-4-5", "claude-sonnet-4-5"):
                    if name is not None:
                        await got(session.set_model(name))
                    await got((await got(session.send("which?"))).result())
                asked = [request.body["model"] for request in model.requests_of("main")]
                assert [name.split("-202")[0] for name in asked] == [
                    "claude-sonnet-4-5",
                    "claude-haiku-4-5",
                    "claude-sonnet-4-5",
                ]
                await got((await got(session.send("touch it"))).result())
                assert not (real_cli.cwd / "a").exists()  # nobody is there to be asked
                await got(session.set_permission_mode("acceptEdits"))
                await got((await got(session.send("touch it"))).result())
                assert (real_cli.cwd / "b").exists()

    shell.play(scenario)


def test_tasks_are_looked_at_and_stopped(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        script: list[Any] = [
            bash("echo begun; sleep 60", run_in_background=True),
            "It runs.",
            Repeat("It was stopped."),
        ]
        with ScriptedModel(*script) as model:
            async with Running(shell, driving(model, **BYPASS)) as session:
                await got((await got(session.send("go"))).result())
                [task] = session.background_tasks
                end = time.monotonic() + patience(30)
                while "begun" not in (await got(session.get_task_output(task.task_id))).output:
                    assert time.monotonic() < end
                await got(session.stop_task(task.task_id))
                await got(session.wait_idle())
                assert session.background_tasks == ()

    shell.play(scenario)


def test_a_running_tool_is_moved_to_the_background(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    async def scenario() -> None:
        command = "touch runs; while [ ! -e go ]; do sleep 0.05; done"
        with ScriptedModel(bash(command), "It goes on.", Repeat("Now it is done.")) as model:
            async with Running(shell, driving(model, **BYPASS)) as session:
                turn = await got(session.send("go"))
                # Seen: only what was reported as a task, after two seconds, can be moved; before that it says yes and does nothing.
                while getattr(await first(turn), "subtype", "") != "task_started":
                    pass
                await got(session.move_to_background())
                assert (await got(turn.result())).result == "It goes on."
                assert len(session.background_tasks) == 1
                (real_cli.cwd / "go").touch()
                await got(session.wait_idle())
                assert session.background_tasks == ()

    shell.play(scenario)


def test_a_prompt_that_waits_is_withdrawn(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        stall = Stall(then="One.")
        with ScriptedModel(stall, Repeat("Afterwards.")) as model:
            async with Running(shell, driving(model)) as session:
                turn, waiting = await got(session.send("one")), await got(session.send("two"))
                await until(shell, stall.started.is_set)
                assert (await got(session.cancel_async_message(waiting.id))).cancelled
                stall.release()
                assert (await got(turn.result())).result == "One."
                await raised(waiting.result, TurnCancelledError)
                assert waiting.state is TurnState.INTERRUPTED
                await usable(session)
                assert not any("two" in request.prompt_text for request in model.requests_of("main"))

    shell.play(scenario)


def test_files_and_settings(shell: Shell, driving: Driving, real_cli: RealCLI) -> None:
    (real_cli.cwd / "readme.txt").write_text("hello\n")

    async def scenario() -> None:
        with ScriptedModel("One.") as model:
            async with Running(shell, driving(model)) as session:
                assert (await got(session.read_file("readme.txt"))).contents == "hello\n"
                found = (await got(session.get_file_suggestions(""))).suggestions
                assert "readme.txt" in str(found)
                await got(session.apply_flag_settings({"permissions": {"allow": ["Bash(ls)"]}}))
                rules = (await got(session.list_permission_rules())).state.rules
                assert "Bash(ls)" in [rule.rule for rule in rules]
                await got((await got(session.send("one"))).result())
                assert (await got(session.get_context_usage())).total_tokens > 0

    shell.play(scenario)


@shows("control.operations.typed")
def test_parameters_of_reports_and_reloads(
    shell: Shell, driving: Driving, real_cli: RealCLI, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plugin = tmp_path_factory.mktemp("plugin")
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin" / "plugin.json").write_text(
        '{"name": "greeter", "version": "1.0.0", "description": "d"}'
    )
    (plugin / "commands").mkdir()
    (plugin / "commands" / "hi.md").write_text("Say hi.")
    hooked: list[str] = []

    def hook(call: Any, context: object) -> None:
        hooked.append(call.tool_name)

    async def scenario() -> None:
        hooked.clear()
        stall = Stall(then=bash("true"))
        with ScriptedModel(stall, "Done.") as model:
            options = driving(model, hooks={"PreToolUse": hook}, agents={"reviewer": AGENT}, **BYPASS)
            async with Running(shell, options) as session:
                summary = await got(session.get_context_usage(detail="summary"))
                assert summary.total_tokens > 0
                assert not model.requests
                await got(session.get_context_usage())
                assert {request.kind for request in model.requests} == {"count_tokens"}
                assert (await got(session.get_usage(skip_behaviors=True))).behaviors is None

                turn = await got(session.send("go"))
                await until(shell, stall.started.is_set)
                busy = await raised(lambda: session.reload_plugins(refuse_if_busy=True), ControlRejectedError)
                assert busy.code == "reload_plugins_busy"
                assert (await got(session.reinitialize())).session_state == "running"
                stall.release()
                await got(turn.result())
                assert hooked == ["Bash"]  # hooks are still there

                added = await got(session.reload_plugins(add_plugins=[{"type": "local", "path": str(plugin)}]))
                assert "greeter" in {plugin["name"] for plugin in added.plugins}
                assert "greeter:hi" in {command.name for command in added.commands}
                again = await got(session.reinitialize())
                assert "greeter:hi" in {command.name for command in again.commands}
                assert "reviewer" in {agent.name for agent in again.agents}

    shell.play(scenario)


def test_settings_of_newer_versions_reach_the_cli(shell: Shell, driving: Driving) -> None:
    settings = {"permissions": {"workingDirectoriesExclude": ["/nowhere"]}, "desktopMcpServersListScope": "off"}

    async def scenario() -> None:
        with ScriptedModel() as model:
            async with Running(shell, driving(model, settings=settings)) as session:
                assert (await got(session.get_settings())).effective == settings

    shell.play(scenario)


def test_a_session_is_resumed_from_another_working_directory(
    shell: Shell, driving: Driving, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    async def scenario() -> None:
        with ScriptedModel("One.", "Two.") as model:
            async with Running(shell, driving(model)) as session:
                first_result = await got((await got(session.send("the word is heron"))).result())
            options = driving(model, cwd=elsewhere, resume=first_result.session_id)
            async with Running(shell, options) as session:
                result = await got((await got(session.send("which word?"))).result())
            assert (result.result, result.session_id) == ("Two.", first_result.session_id)
            assert "heron" in model.requests_of("main")[-1].text

    shell.play(scenario)
