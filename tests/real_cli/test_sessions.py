"""Sessions on the real CLI, with a scripted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.hooks import HookMatcher, HookOutput
from bridle.messages import UserMessage
from bridle.permissions import Allow, Deny
from bridle.protocol.session_states import Activity, Lifecycle, TurnState
from bridle.testing import Repeat, Reply, ScriptedModel, ToolCall
from bridle.tools import tool, tool_server
from tests.sessions.talking import Running, each, first, got, texts
from tests.support.leaks import alive

if TYPE_CHECKING:
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


def test_a_conversation_and_its_controls(shell: Shell, driving: Driving) -> None:
    async def scenario() -> None:
        with ScriptedModel("One.", "Two.", "Three.") as model:
            async with Running(shell, driving(model)) as session:
                assert session.server_info.commands
                assert await texts(await got(session.send("one"))) == ["One."]
                two, three = await got(session.send("two")), await got(session.send("three"))
                assert (await texts(two), await texts(three)) == (["Two."], ["Three."])
                await got(session.wait_idle())
                assert session.activity is Activity.IDLE
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
            assert (session.state, session.exit_code, session.warnings) == (Lifecycle.STOPPED, 0, [])

    shell.play(scenario)


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
