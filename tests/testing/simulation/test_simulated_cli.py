"""The simulated CLI in memory, on asyncio, trio and threads; and as a program."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Allow, Deny, HookMatcher, Options, Timeouts, sync, tool, tool_server
from hackamore.errors import (
    CLIExitedDuringInitError,
    ControlRejectedError,
    InitializationTimeoutError,
    ProcessError,
    SessionClosedError,
    SessionNotFoundError,
    TurnTimeoutError,
    UnsupportedCLIVersionError,
)
from hackamore.hooks import HookOutput
from hackamore.messages import (
    AssistantMessage,
    AuthenticationError,
    ResultError,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    UnknownMessage,
    UserMessage,
)
from hackamore.testing import Script, ScriptError, SimulatedCLI
from hackamore.testing.simulation.launch import VERSION
from tests.support.patience import patience
from tests.support.query_fixtures import leaves_nothing, shell
from tests.support.talking import each, got, raised, texts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

__all__ = ["leaves_nothing", "shell"]


@tool
def price(article: str) -> float:
    """Return a price."""
    return 2.5


SHOP = {"shop": tool_server("shop", [price])}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def session(shell: Shell, cli: SimulatedCLI, **options: Any) -> Any:
    kind = sync.Session if shell.blocking else hackamore.Session
    return kind(Options(**options), transport=cli)


async def told(turn: Any) -> list[str]:
    """What the model was told by tools."""
    found = []
    async for message in each(turn):
        if isinstance(message, UserMessage) and isinstance(message.content, list):
            found += [str(getattr(block, "content", "")) for block in message.content]
    return found


# -- conversations -------------------------------------------------------------------------------------------------------


def test_a_query(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("What is 2 + 2?").says("4")) as cli:
            answer = await shell.run("What is 2 + 2?", transport=cli)
            assert (answer.text, answer.cost) == ("4", 0.00014)

    shell.play(scenario)


def test_an_agent_with_a_hook_a_permission_rule_and_a_tool_of_this_process(shell: Shell) -> None:
    seen: list[str] = []

    def watch(hook_input: Any, context: Any) -> None:
        seen.append(hook_input.tool_name)

    def decide(request: Any) -> Any:
        return Deny("not the cache") if "cache" in request.input.get("command", "") else Allow()

    script = Script().user("Clean up").calls("Bash", {"command": "rm -r cache"})
    script.expect_permission("Bash", decision="deny").expect_result("not the cache", error=True)
    script.calls("Bash", {"command": "rm -r tmp"}).expect_permission("Bash", decision="allow").expect_hook("PreToolUse")
    script.calls("mcp__shop__price", {"article": "tea"}).expect_result("2.5").says("Done.")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            options = Options(
                hooks={"PreToolUse": [HookMatcher(hooks=[watch])]},
                can_use_tool=decide,
                mcp_servers=SHOP,
            )
            assert (await shell.run("Clean up", options, transport=cli)).text == "Done."
        assert seen == ["Bash", "Bash", "mcp__shop__price"]

    shell.play(scenario)


def test_a_session_of_several_turns(shell: Shell) -> None:
    script = Script().user("one").thinks("hm").says("One.").user(contains="wo").says("Two.").user().says("Three.")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            s = session(shell, cli)
            await got(s.start())
            assert s.server_info.claude_code_version == VERSION
            for prompt, answer in (("one", "One."), ("two", "Two."), ("three", "Three.")):
                assert await texts(await got(s.send(prompt))) == [answer]
            await got(s.wait_idle())
            await got(s.finish())
            assert (s.exit_code, s.warnings, s.pid) == (0, [], None)

    shell.play(scenario)


def test_several_sessions_go_on_with_the_script(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("one").says("One.").user("two").says("Two.")) as cli:
            first = await shell.run("one", transport=cli)
            second = await shell.run("two", Options(resume=first.session_id), transport=cli)
            assert second.session_id == first.session_id
        with SimulatedCLI(Script(), sessions=["known"]) as cli:
            error = await raised(lambda: shell.run("two", Options(resume=UNKNOWN), transport=cli), SessionNotFoundError)
            assert "No conversation found" in str(error)

    shell.play(scenario)


def test_a_script_goes_on_for_ever(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script(forever=True).user().says("Always.")) as cli:
            for number in range(5):
                assert (await shell.run(f"prompt {number}", transport=cli)).text == "Always."

    shell.play(scenario)


def test_many_sessions_at_once_each_with_the_script_from_its_beginning(shell: Shell) -> None:
    async def scenario() -> None:
        script = Script().user("one").calls("Bash", {"command": "ls"}).says("One.").user("two").says("Two.")
        with SimulatedCLI(script, per_session=True) as cli:
            sessions = [session(shell, cli) for _ in range(5)]
            for s in sessions:
                await got(s.start())
            for prompt, answer in (("one", "One."), ("two", "Two.")):
                turns = [await got(s.send(prompt)) for s in sessions]
                assert [(await got(turn.result())).result for turn in turns] == [answer] * 5
            for s in sessions:
                await got(s.stop())
            assert len({s.session_id for s in sessions}) == 5
        cli = SimulatedCLI(script, per_session=True)
        first = await shell.run("one", transport=cli)
        with pytest.raises(ScriptError, match="'two'"):
            cli.check()
        await shell.run("two", Options(resume=first.session_id), transport=cli)
        cli.check()

    shell.play(scenario)


def test_partial_messages(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").says("Hello, you.", chunk=4, delay=0.01)) as cli:
            stream = shell.query("go", Options(include_partial_messages=True), transport=cli)
            found = [message async for message in stream]
            deltas = [m.event.get("delta", {}).get("text") for m in found if isinstance(m, StreamEvent)]
            assert [delta for delta in deltas if delta] == ["Hell", "o, y", "ou."]

    shell.play(scenario)


def test_background_work_and_subagents(shell: Shell) -> None:
    script = Script().user("go").calls("Bash", {"command": "make", "run_in_background": True}).says("Started.")
    script.task_ends().says("Made.").user("look").subagent(
        "find it", Script().calls("Bash", {"command": "ls"}).says("Found.")
    )
    script.expect_result("Found.").says("Good.")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            s = session(shell, cli, permission_mode="bypassPermissions")
            await got(s.start())
            everything = s.messages()
            assert await texts(await got(s.send("go"))) == ["Started."]
            await got(s.wait_idle())
            assert s.background_tasks == ()
            assert "Good." in await texts(await got(s.send("look")))
            await got(s.stop())
            assert "Made." in await texts(everything)

    shell.play(scenario)


def test_interrupts(shell: Shell) -> None:
    script = (
        Script().user("go").interrupted(after="I will").user("tool").calls("Bash", {"command": "sleep 9"}, endless=True)
    )
    script.user("again").says("Here.")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            s = session(shell, cli, permission_mode="bypassPermissions")
            await got(s.start())
            for prompt, reason in (("go", "aborted_streaming"), ("tool", "aborted_tools")):
                turn = await got(s.send(prompt))
                await got(s.get_binary_version())
                await got(s.interrupt())
                assert (await got(turn.result())).terminal_reason == reason
            assert await texts(await got(s.send("again"))) == ["Here."]
            await got(s.stop())

    shell.play(scenario)


UNINTERRUPTED = [
    Script().user("go").interrupted(after="I will"),
    Script().user("go").calls("Bash", {"command": "sleep 9"}, endless=True),
    Script().user("go").subagent("dig", Script().calls("Bash", {"command": "sleep 9"}, endless=True)),
]


@pytest.mark.parametrize("script", UNINTERRUPTED)
def test_that_nobody_interrupts_is_noticed(script: Script, shell: Shell) -> None:
    allowed: dict[str, Any] = {"permission_mode": "bypassPermissions"}

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            s = session(shell, cli, **allowed)
            await got(s.start())
            await got(s.send("go"))
            await got(s.get_binary_version())  # by now the turn runs
            with pytest.raises(ScriptError, match=r"the host did not interrupt the turn[^\n]*\n(.*\n)*  \[ waits\]"):
                cli.check()
            await got(s.stop())  # which interrupts
        with SimulatedCLI(script) as cli, pytest.raises(TurnTimeoutError):
            options = Options(timeouts=Timeouts(turn=0.02), **allowed)
            await got((sync if shell.blocking else hackamore).run("go", options, transport=cli))

    shell.play(scenario)


@pytest.mark.parametrize("script", UNINTERRUPTED)
def test_that_nobody_interrupts_the_program_is_noticed(script: Script, tmp_path: Path) -> None:
    cli = SimulatedCLI(script)
    options = Options(cli_path=cli.install(tmp_path), permission_mode="bypassPermissions")
    with sync.Session(options) as s:
        s.send("go")
        s.get_binary_version()
        with pytest.raises(ScriptError, match="the host did not interrupt the turn"):
            cli.check()
    cli.check()


def test_a_prompt_while_a_tool_waits_belongs_to_the_turn(shell: Shell) -> None:
    script = (
        Script()
        .user("one")
        .calls("Bash", {"command": "touch a"})
        .user("two")
        .says("Both.")
        .user("three")
        .says("Three.")
    )

    async def scenario() -> None:
        asked, answer = threading.Event(), threading.Event()

        def decide(request: Any) -> Allow:
            asked.set()
            answer.wait(patience(20))
            return Allow()

        with SimulatedCLI(script) as cli:
            s = session(shell, cli, can_use_tool=decide)
            await got(s.start())
            first = await got(s.send("one"))
            while not asked.is_set():
                await shell.let_others_run()
            second = await got(s.send("two"))
            answer.set()
            assert (await got(first.result())) is (await got(second.result()))
            assert await texts(await got(s.send("three"))) == ["Three."]
            await got(s.stop())

    shell.play(scenario)


def test_control_operations_change_what_follows(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").says("Done.")) as cli:
            s = session(shell, cli)
            await got(s.start())
            await got(s.set_model("haiku"))
            await got(s.set_permission_mode("plan"))
            error = await raised(lambda: s.set_permission_mode("nonsense"), ControlRejectedError)
            assert error.code == "invalid_mode"
            turn = await got(s.send("go"))
            found = [message async for message in each(turn)]
            init = next(m for m in found if m.type == "system" and m.subtype == "init")
            assert (init.model, init.permission_mode) == ("claude-haiku-5-5", "plan")
            assert next(m for m in found if isinstance(m, AssistantMessage)).model == "claude-haiku-5-5"
            assert (await got(s.get_context_usage())).max_tokens > 0
            await got(s.stop())

    shell.play(scenario)


# -- what does not fit -----------------------------------------------------------------------------------------------------


def test_another_prompt_fails_with_both_sides(shell: Shell) -> None:
    async def scenario() -> None:
        cli = SimulatedCLI(Script().user("Delete the cache").says("Done."))
        error = await raised(lambda: shell.run("Delete everything", transport=cli), ResultError)
        assert "Delete everything" in str(error)
        with pytest.raises(ScriptError) as caught:
            cli.check()
        text = str(caught.value)
        assert "1 thing(s) did not fit" in text
        assert "[  open] user 'Delete the cache'" in text
        assert "the host sends the prompt 'Delete everything'" in text

    shell.play(scenario)


def test_a_prompt_too_many(shell: Shell) -> None:
    async def scenario() -> None:
        cli = SimulatedCLI(Script().user("one").says("One."))
        assert (await shell.run("one", transport=cli)).text == "One."
        await raised(lambda: shell.run("two", transport=cli), ResultError)
        with pytest.raises(ScriptError, match="after the end of the script"):
            cli.check()

    shell.play(scenario)


def test_steps_that_were_never_reached() -> None:
    script = Script().user("one").says("One.").user("two").says("Two.")
    shown = r"2 step\(s\) of the script were never reached:\n  user 'two'"
    with pytest.raises(ScriptError, match=shown), SimulatedCLI(script) as cli:
        sync.run("one", transport=cli)


def test_a_long_script_is_shown_around_the_place_where_it_is() -> None:
    script = Script()
    for number in range(200):
        script.user(f"prompt {number}").says(f"answer {number}")
    cli = SimulatedCLI(script)
    for number in range(100):
        sync.run(f"prompt {number}", transport=cli)
    with pytest.raises(ScriptError) as caught:
        cli.check()
    text = str(caught.value)
    assert "200 step(s) of the script were never reached" in text
    assert "(175 steps before)" in text
    assert "[  open] user 'prompt 100'" in text
    assert "the host sends the prompt 'prompt 99'" in text
    assert len(text) < 10_000


@pytest.mark.parametrize(
    ("expected", "decided", "message"),
    [
        (Script().expect_permission("Bash", decision="deny"), Allow(), "permission for Bash: allow"),
        (Script().expect_permission("Bash", input={"command": "ls"}), Allow(), "permission for Bash: allow"),
        (Script().expect_hook("Stop"), Allow(), "the script has expect_hook 'Stop'"),
        (Script().expect_result("more"), Allow(), "the result"),
        (Script().expect_permission("Write"), Deny("no"), "permission for Bash: deny"),
    ],
)
def test_an_expectation_that_does_not_hold(expected: Script, decided: Any, message: str) -> None:
    script = Script([*Script().user().calls("Bash", {"command": "touch a"}).steps, *expected.steps]).says("Done.")
    cli = SimulatedCLI(script)
    assert sync.run("go", Options(can_use_tool=lambda request: decided), transport=cli).text == "Done."
    with pytest.raises(ScriptError, match=message) as caught:
        cli.check()
    assert f"[ unmet] {expected.describe()}" in str(caught.value)


@pytest.mark.parametrize("background", [False, True])
def test_a_subagent_asks_and_its_expectations_are_looked_at(background: bool) -> None:
    inner = Script().calls("Bash", {"command": "touch a"}).expect_permission("Bash", decision="allow")
    inner.expect_hook("PreToolUse").expect_result("nowhere", error=True).says("Looked.")
    script = Script().user("go").subagent("Look", inner, background=background)
    if background:
        script.subagent("Rest", "Rested.", background=True)
    script.says("Started.")
    if background:
        script.task_ends().says("One.").task_ends().says("Two.")
    asked: list[str] = []
    seen: list[str] = []

    def decide(request: Any) -> Allow:
        asked.append(request.tool_name)
        return Allow()

    options = Options(
        can_use_tool=decide,
        hooks={"PreToolUse": [HookMatcher(hooks=[lambda i, c: seen.append(i.tool_name)])]},
    )
    cli = SimulatedCLI(script)
    messages = sync.run("go", options, transport=cli).messages
    assert asked == ["Bash"]
    assert seen == (["Agent", "Agent", "Bash"] if background else ["Agent", "Bash"])
    told = [message.data["tasks"] for message in messages if message.data.get("subtype") == "background_tasks_changed"]
    fields = {"task_id", "run_id", "task_type", "subagent_type", "description"}
    assert {name for tasks in told for task in tasks for name in task} == (fields if background else set())
    with pytest.raises(ScriptError, match="the script of the subagent 'Look' has expect_result 'nowhere'") as caught:
        cli.check()
    assert str(caught.value).startswith("1 thing(s)")


def test_no_answer_for_the_model() -> None:
    cli = SimulatedCLI(Script().user("go").calls("Bash", {"command": "ls"}))
    with pytest.raises(ResultError, match="no answer"):
        sync.run("go", transport=cli)
    with pytest.raises(ScriptError, match="at its end"):
        cli.check()


def test_the_script_is_shown_with_the_test_s_own_error() -> None:
    with pytest.raises(ResultError) as caught, SimulatedCLI(Script().user("one").says("One.")) as cli:
        sync.run("two", transport=cli)
    [note] = caught.value.__notes__
    assert note.startswith("the prompt was 'two', and the script has user 'one'\nThe script\n  [  open] user 'one'\n")


# -- faults ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "error", "shown"),
    [
        (Script().user().crash(3, stderr="boom"), ProcessError, "boom"),
        (Script().user().says("a").cut(20), ResultError, ""),
        (Script().user().crash(-9), ProcessError, "9"),
        (Script().user().thinks("hm").crash(5, stderr="boom"), ProcessError, "boom"),
    ],
)
def test_a_query_of_a_cli_that_breaks(shell: Shell, script: Script, error: Any, shown: str) -> None:
    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            caught = None
            try:
                await shell.run("go", transport=cli)
            except hackamore.HackamoreError as failure:
                caught = failure
            if error is ProcessError:
                assert isinstance(caught, ProcessError)
                assert shown in str(caught)

    shell.play(scenario)


def test_a_session_of_a_cli_that_dies_in_a_turn(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").frame({"type": "new"}).crash(7, stderr="boom")) as cli:
            s = session(shell, cli)
            await got(s.start())
            turn = await got(s.send("go"))
            error = await raised(turn.result, SessionClosedError)
            assert (error.exit_code, error.stderr_tail.strip()) == (7, "boom")
            await got(s.stop())

    shell.play(scenario)


def test_a_cli_that_dies_or_hangs_before_the_handshake(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().crash(4, stderr="no")) as cli:
            error = await raised(session(shell, cli).start, CLIExitedDuringInitError)
            assert error.exit_code == 4
        with SimulatedCLI(Script().hang()) as cli:
            timeouts = hackamore.Timeouts(initialize=0.05)
            await raised(session(shell, cli, timeouts=timeouts).start, InitializationTimeoutError)

    shell.play(scenario)


def test_a_cli_that_hangs_in_a_turn_can_be_stopped(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").ignore_sigterm().hang()) as cli:
            s = session(shell, cli)
            await got(s.start())
            turn = await got(s.send("go"))
            await got(s.stop())
            assert turn.state.name in ("FAILED", "INTERRUPTED")
            assert s.exit_code == -9

    shell.play(scenario)


def test_garbage_and_unknown_frames(shell: Shell) -> None:
    script = Script().user("go").garbage(b"{nonsense\n").frame({"type": "new", "of": "it"}).says("Done.")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            stream = shell.query("go", transport=cli)
            found = [item async for item in stream.items()]
            assert [item.line for item in found if isinstance(item, hackamore.DecodeError)] == [b"{nonsense"]
            assert [item.data["of"] for item in found if isinstance(item, UnknownMessage)] == ["it"]

    shell.play(scenario)


def test_api_errors(shell: Shell) -> None:
    async def scenario() -> None:
        with SimulatedCLI(
            Script().user("go").rate_limited(2).says("Done.").user("more").api_error(401, "no key")
        ) as cli:
            assert (await shell.run("go", transport=cli)).text == "Done."
            error = await raised(lambda: shell.run("more", transport=cli), AuthenticationError)
            assert "no key" in str(error)
            assert error.result.api_error_status == 401

    shell.play(scenario)


def test_slow_takes_the_time_that_the_scale_says(shell: Shell) -> None:
    async def scenario() -> None:
        for scale, least, most in ((0.0, 0.0, 2.0), (0.01, 0.1, 10.0)):
            with SimulatedCLI(Script().user().slow(10).says("Done."), time_scale=scale) as cli:
                began = time.monotonic()
                answer = await shell.run("go", transport=cli)
                assert least <= time.monotonic() - began < patience(most)
                assert answer.result.duration_ms is not None
                assert answer.result.duration_ms > 10_000

    shell.play(scenario)


# -- options ---------------------------------------------------------------------------------------------------------------


def test_an_unknown_flag_and_a_lack_of_turns() -> None:
    cli = SimulatedCLI(Script().user().calls("Bash", {"command": "ls"}))
    with pytest.raises(UnsupportedCLIVersionError, match="nonsense"):
        sync.run("go", Options(extra_args={"nonsense": None}), transport=cli)
    result = sync.run("go", Options(max_turns=1), transport=cli, check=False)
    assert result.result is not None
    assert result.result.subtype == "error_max_turns"
    cli.check()


def test_structured_output() -> None:
    with SimulatedCLI(Script().user().calls("StructuredOutput", {"n": 3})) as cli:
        schema = {"type": "json_schema", "schema": {"type": "object"}}
        answer = sync.run("go", Options(output_format=schema), transport=cli)
        assert answer.result.structured_output == {"n": 3}


def test_thinking_comes_before_the_text() -> None:
    with SimulatedCLI(Script().user().thinks("hm").says("Four.")) as cli:
        answer = sync.run("go", transport=cli)
    blocks = [
        block for message in answer.messages if isinstance(message, AssistantMessage) for block in message.content
    ]
    assert [type(block) for block in blocks] == [ThinkingBlock, TextBlock]
    assert [getattr(block, "thinking", "") for block in blocks] == ["hm", ""]


def test_structured_output_that_does_not_fit_or_is_late() -> None:
    script = Script().user().calls("StructuredOutput", {"n": "x"}, error="/n: must be integer")
    script.expect_result("must be integer", error=True).says("I will not.").slow(0)
    script.calls("StructuredOutput", {"n": 3})
    with SimulatedCLI(script) as cli:
        schema = {"type": "json_schema", "schema": {"type": "object"}}
        answer = sync.run("go", Options(output_format=schema), transport=cli)
        assert answer.result.structured_output == {"n": 3}
        assert answer.result.num_turns == 4


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({"permission_mode": "bypassPermissions"}, "(Bash completed with no output)"),
        ({"allowed_tools": ["Bash(touch *)"]}, "(Bash completed with no output)"),
        ({"allowed_tools": ["Bash(git *)"]}, "touch in"),
        ({"disallowed_tools": ["Bash(touch:*)"], "permission_mode": "bypassPermissions"}, "has been denied"),
        ({"disallowed_tools": ["Bash"]}, "Bash is disabled for this session"),
        ({"permission_mode": "dontAsk"}, "don't ask mode"),
        ({"permission_mode": "acceptEdits"}, "(Bash completed with no output)"),
        (
            {"hooks": {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[lambda i, c: HookOutput.deny("bad")])]}},
            "hook error: bad",
        ),
        (
            {"hooks": {"PreToolUse": [HookMatcher(matcher="Read", hooks=[lambda i, c: HookOutput.deny("bad")])]}},
            "touch in",
        ),
    ],
)
def test_permissions(options: dict[str, Any], outcome: str) -> None:
    with SimulatedCLI(
        Script().user().calls("Bash", {"command": "touch a"}).expect_result(outcome).says("Done.")
    ) as cli:
        sync.run("go", Options(**options), transport=cli)


@pytest.mark.parametrize("rule", ["mcp__shop__price", "mcp__shop"])
def test_a_tool_of_this_process_that_is_denied_is_not_there(rule: str) -> None:
    @tool
    def price() -> float:
        """Return a price."""
        return 2.5

    script = (
        Script()
        .user()
        .calls("mcp__shop__price")
        .expect_result("No such tool available: mcp__shop__price</", error=True)
    )
    options = Options(
        mcp_servers={"shop": tool_server("shop", [price])}, disallowed_tools=[rule], permission_mode="bypassPermissions"
    )
    with SimulatedCLI(script.says("Done.")) as cli:
        sync.run("go", options, transport=cli)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="must be a Script"):
        SimulatedCLI("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        SimulatedCLI(Script(), time_scale=-1)


# -- as a program ----------------------------------------------------------------------------------------------------------


def test_the_program_plays_the_same_script(shell: Shell, tmp_path: Path) -> None:
    script = Script().user("one").calls("mcp__shop__price", {"article": "tea"}).expect_result("2.5").says("One.")
    script.user("two").says("Two.")

    async def scenario() -> None:
        with SimulatedCLI(script) as cli:
            path = str(cli.install(tmp_path / "a folder"))
            options = Options(cli_path=path, mcp_servers=SHOP, permission_mode="bypassPermissions")
            first = await shell.run("one", options)
            assert first.text == "One."
            again = options.replace(resume=first.session_id)
            assert (await shell.run("two", again)).text == "Two."
        with pytest.raises(ScriptError, match="after the end of the script"), cli:
            await raised(lambda: shell.run("three", options), ResultError)

    shell.play(scenario)


def test_the_program_breaks_like_a_process(shell: Shell, tmp_path: Path) -> None:
    async def scenario() -> None:
        with SimulatedCLI(Script().user("go").crash(-11, stderr="boom")) as cli:
            error = await raised(lambda: shell.run("go", Options(cli_path=str(cli.install(tmp_path)))), ProcessError)
            assert error.exit_code == -11
            assert "boom" in str(error)

    shell.play(scenario)


def test_the_program_really_runs_tools(tmp_path: Path) -> None:
    made = tmp_path / "work" / "made.txt"
    made.parent.mkdir()
    script = Script().user().calls("Write", {"file_path": str(made), "content": "one\n"})
    script.calls("Edit", {"file_path": str(made), "old_string": "one", "new_string": "two"})
    script.calls("Bash", {"command": "cat made.txt; pwd"}).expect_result("two").expect_result(str(made.parent))
    script.calls("Read", {"file_path": str(made)}).expect_result("1\ttwo")
    script.calls("Bash", {"command": "exit 3"}).expect_result("Exit code 3", error=True)
    script.calls("Edit", {"file_path": str(made), "old_string": "no", "new_string": ""}).expect_result(
        "not found", error=True
    )
    script.says("Done.")
    with SimulatedCLI(script) as cli:
        path = cli.install(tmp_path / "cli", real_tools=True)
        options = Options(cli_path=str(path), cwd=made.parent, permission_mode="bypassPermissions")
        assert sync.run("go", options).text == "Done."
    assert made.read_text() == "two\n"


def test_a_folder_that_was_removed_too_early_is_named(tmp_path: Path) -> None:
    import shutil

    cli = SimulatedCLI(Script().user("go").says("Done."))
    cli.install(tmp_path / "cli")
    shutil.rmtree(tmp_path / "cli")
    with pytest.raises(ScriptError, match="was removed before"):
        cli.check()


def test_the_module_is_a_program(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = Script().user("hello").says("Hi.").save(tmp_path / "script.json")
    program = [sys.executable, "-m", "hackamore.testing.simulation.simulated_cli"]
    for asking in (program, [*program, str(script)]):
        version = subprocess.run(
            [*asking, "--version"], capture_output=True, text=True, timeout=patience(30), check=True
        )
        assert version.stdout == f"{VERSION} (Claude Code)\n"
    flags = ["--print", "--output-format", "stream-json", "--verbose"]
    done = subprocess.run(
        [*program, str(script), *flags], input="hello", capture_output=True, text=True, timeout=patience(30), check=True
    )
    assert '"result":"Hi."' in done.stdout
    wrong = subprocess.run(
        [*program, str(tmp_path / "never")], capture_output=True, text=True, timeout=patience(30), check=False
    )
    assert (wrong.returncode, "cannot be read" in wrong.stderr) == (2, True)


def test_a_step_behind_structured_output_is_explained() -> None:
    script = Script().user().calls("StructuredOutput", {"n": 3}).says("later")
    schema = {"type": "json_schema", "schema": {"type": "object"}}
    explained = r"says 'later'\n  \(a call of StructuredOutput with valid input ends the turn"
    with pytest.raises(ScriptError, match=explained), SimulatedCLI(script) as cli:
        answer = sync.run("go", Options(output_format=schema), transport=cli)
        assert answer.result.structured_output == {"n": 3}


@pytest.mark.parametrize("where", ["permission", "tool", "endless"])
def test_an_interrupt_may_come_anywhere_behind_a_call(where: str) -> None:
    began, go_on = threading.Event(), threading.Event()

    def hold(request: object = None) -> Allow:
        began.set()
        assert go_on.wait(patience(30))
        return Allow()

    @tool
    def wait() -> str:
        """Wait."""
        hold()
        return "done"

    name = "mcp__clock__wait" if where == "tool" else "Bash"
    given: dict[str, Any] = {"permission": {"command": "touch made"}, "tool": {}, "endless": {"command": "sleep 60"}}[
        where
    ]
    script = Script().user().calls(name, given, endless=where == "endless").interrupted().user().says("Next.")
    options = Options(
        mcp_servers={"clock": [wait]},
        allowed_tools=["mcp__clock__wait"],
        can_use_tool=None if where == "endless" else hold,
        permission_mode="bypassPermissions" if where == "endless" else None,
    )
    with SimulatedCLI(script) as cli, sync.Session(options, transport=cli) as session:
        turn = session.send("go")
        if where == "endless":
            messages = iter(turn)
            while next(messages).type != "assistant":
                pass
        else:
            assert began.wait(patience(30))
        session.interrupt()
        go_on.set()
        assert turn.result().terminal_reason == "aborted_tools"
        assert session.send("more").result().text == "Next."


def test_a_misspelt_event_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def hook(input: object, context: object) -> None:  # noqa: A002
        """Do nothing."""

    misspelt: Any = {"PreToolUs": hook}
    with (
        pytest.warns(match="UNKNOWN_HOOK_EVENT") as issued,
        caplog.at_level("WARNING", "hackamore"),
        SimulatedCLI(Script()) as cli,
        sync.Session(Options(hooks=misspelt), transport=cli) as session,
    ):
        assert [warning.code for warning in session.warnings] == ["UNKNOWN_HOOK_EVENT"]
    assert len(issued) == 1
    assert "UNKNOWN_HOOK_EVENT" not in caplog.text


@pytest.mark.parametrize("denies", [False, True])
def test_an_empty_output_is_not_any_output(*, denies: bool) -> None:
    script = (
        Script().user().calls("Bash", {"command": "true"}, result="").expect_hook("PreToolUse", output={}).says("Done.")
    )
    cli = SimulatedCLI(script)
    hooks: Any = {"PreToolUse": lambda given, context: HookOutput(permission_decision="deny") if denies else None}
    sync.run("go", Options(hooks=hooks), transport=cli, check=False)
    if denies:
        with pytest.raises(ScriptError, match="PreToolUse"):
            cli.check()
    else:
        cli.check()
