"""Spans and metrics of the simulated CLI, on every shell."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan

import hackamore
from hackamore import Options
from hackamore.options.observing import Observation, Subject
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.support.session_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import Held, Running, each, first, got, raised, steps, texts
from tests.telemetry.collecting import Collected, attributes, id_of, place_of

MANY = 50


def script() -> Script:
    return (
        Script()
        .user("go")
        .calls("Bash", {"command": "rm -r cache"})
        .expect_permission("Bash", decision="deny")
        .calls("mcp__shop__price", {"article": "tea"})
        .subagent("find it", Script().calls("Read", {"file_path": "a"}).says("found"), kind="finder")
        .says("done")
    )


def agent(collected: Collected, **more: Any) -> Options:
    """Options with a hook, a permission callback and a tool, which open spans of their own."""

    def hook(value: Any, context: hackamore.HookContext) -> None:
        with collected.tracer.start_as_current_span("in the hook"):
            pass

    def decide(request: hackamore.PermissionRequest) -> hackamore.Allow | hackamore.Deny:
        return hackamore.Deny("no") if request.tool_name == "Bash" else hackamore.Allow()

    @hackamore.tool
    def price(article: str) -> str:
        """Return a price."""
        with collected.tracer.start_as_current_span("in the tool") as span:
            span.set_attribute("tenant", str(baggage.get_baggage("tenant")))
        return "two fifty"

    return Options(
        telemetry=more.pop("telemetry", collected.telemetry()),
        hooks={"PreToolUse": hackamore.HookMatcher("Bash", [hook])},
        can_use_tool=decide,
        mcp_servers={"shop": [price]},
        **more,
    )


@contextlib.contextmanager
def caller(collected: Collected, **entries: str) -> Any:
    """The caller's span and baggage."""
    around = context.get_current()
    for name, value in entries.items():
        around = baggage.set_baggage(name, value, around)
    token = context.attach(around)
    try:
        with collected.tracer.start_as_current_span("caller") as span:
            yield span
    finally:
        context.detach(token)


CHAT = "chat claude-opus-5-5"
TURN = (
    "invoke_agent claude-code",
    [
        CHAT,
        ("execute_tool Bash", [("hackamore.hook PreToolUse", ["in the hook"]), "hackamore.permission"]),
        CHAT,
        ("execute_tool mcp__shop__price", ["hackamore.permission", ("tools/call mcp__shop__price", ["in the tool"])]),
        CHAT,
        ("execute_tool Task", [("invoke_agent finder", [CHAT, "execute_tool Read"])]),
        CHAT,
    ],
)


@shows("telemetry.spans", "telemetry.context")
def test_the_tree_of_a_turn(shell: Shell, collected: Collected) -> None:
    async def query() -> None:
        with SimulatedCLI(script()) as cli, caller(collected, tenant="seven"):
            result = await shell.run("go", agent(collected), transport=cli)
            assert result.result is not None
            usages.append(result.result.usage)

    usages: list[Any] = []
    shell.play(query)
    assert collected.tree() == [("caller", [TURN])]
    turn = attributes(collected.one("invoke_agent claude-code"))
    usage = usages[0]
    assert turn.pop("hackamore.cost.usd") == turn.pop("hackamore.cost.total_usd") > 0
    assert len(turn.pop("hackamore.turn.id")) == 36
    assert turn == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.agent.name": "claude-code",
        "gen_ai.request.model": "claude-opus-5-5",
        "gen_ai.conversation.id": "51b00000-0000-4000-8000-000000000001",
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "hackamore.turn.state": "completed",
        "hackamore.terminal_reason": "completed",
        "hackamore.inference_calls": 4,
        "hackamore.tool_calls": 3,
    }
    permission, allowed = (attributes(span) for span in collected.named("hackamore.permission"))
    assert permission["hackamore.decision"] == "deny"
    assert allowed["hackamore.decision"] == "allow"
    hook = attributes(collected.one("hackamore.hook PreToolUse"))
    assert (hook["hackamore.hook.event"], hook["hackamore.on_failure"]) == ("PreToolUse", "continue")
    bash = collected.one("execute_tool Bash")
    assert attributes(bash)["error.type"] == "tool_error"
    assert bash.status.status_code is trace.StatusCode.ERROR
    tool = collected.one("execute_tool mcp__shop__price")
    assert attributes(tool)["gen_ai.tool.type"] == "function"
    served = collected.one("tools/call mcp__shop__price")
    assert served.kind is trace.SpanKind.SERVER
    assert attributes(served)["gen_ai.tool.call.id"] == attributes(tool)["gen_ai.tool.call.id"]
    assert attributes(collected.one("in the tool"))["tenant"] == "seven"  # the caller's baggage
    for chat in collected.named(CHAT):
        found = attributes(chat)
        assert chat.kind is trace.SpanKind.CLIENT
        assert found["hackamore.times.derived"] is True
        assert "gen_ai.usage.output_tokens" not in found  # not final
        assert found["gen_ai.usage.input_tokens"] > 0
    text = json.dumps([json.loads(span.to_json()) for span in collected.spans])
    for content in ("rm -r cache", "tea", "find it", "done", "two fifty"):
        assert content not in text, content
    for name in ("session.id", "user.id"):
        assert f'"{name}"' not in text


def test_response_numbers_are_final_with_partial_messages(collected: Collected) -> None:
    with SimulatedCLI(script()) as cli:
        hackamore.sync.run("go", agent(collected, include_partial_messages=True), transport=cli)
    chats = [attributes(span) for span in collected.named(CHAT)]
    turn = attributes(collected.one("invoke_agent claude-code"))
    mine = [chat for chat in chats if "gen_ai.usage.output_tokens" in chat]
    assert len({chat["gen_ai.response.id"] for chat in chats}) == len(chats) == 5
    for kind in ("input_tokens", "output_tokens"):
        assert sum(chat[f"gen_ai.usage.{kind}"] for chat in mine) >= turn[f"gen_ai.usage.{kind}"]


@shows("telemetry.metrics")
def test_metrics_of_a_turn(shell: Shell, collected: Collected) -> None:
    async def scenario() -> None:
        with SimulatedCLI(script()) as cli:
            session = (hackamore.sync.Session if shell.blocking else hackamore.Session)(agent(collected), transport=cli)
            await got(session.start())
            turn = await got(session.send("go"))
            results.append(await got(turn.result()))
            await got(session.set_permission_mode("plan"))
            await got(session.stop())

    results: list[hackamore.ResultMessage] = []
    shell.play(scenario)
    [(_, (agents, seconds)), (subagent, _)] = sorted(
        collected.points("gen_ai.invoke_agent.duration"), key=lambda point: str(point[0]["gen_ai.agent.name"])
    )
    assert agents == 1
    assert seconds > 0
    assert subagent["gen_ai.agent.name"] == "finder"
    tools = {point["gen_ai.tool.name"]: point for point, _ in collected.points("gen_ai.execute_tool.duration")}
    assert set(tools) == {"Bash", "mcp__shop__price", "Read", "Task"}
    assert tools["Bash"]["error.type"] == "tool_error"
    spent = {point["gen_ai.token.type"]: total for point, (_, total) in collected.points("gen_ai.client.token.usage")}
    [usage] = results[0].model_usage.values()
    assert spent == {"input": usage.input_tokens, "output": usage.output_tokens}
    assert [count for _, (count, _) in collected.points("hackamore.turn.time_to_first_message")] == [1]
    waits = {point["hackamore.decision"] for point, _ in collected.points("hackamore.permission.wait")}
    assert waits == {"allow", "deny"}
    [(operation, (count, _))] = collected.points("hackamore.control.duration")
    assert (operation, count) == ({"hackamore.operation": "set_permission_mode"}, 1)
    assert collected.points("hackamore.process.starts") == [({}, 1)]
    [(_, cost)] = collected.points("hackamore.cost")
    assert cost == pytest.approx(results[0].total_cost_usd)


@shows("telemetry.context")
def test_a_query_belongs_to_the_code_that_makes_it(shell: Shell, collected: Collected) -> None:
    played = Script().user("go").calls("Bash", {"command": "rm -r cache"}).expect_permission("Bash", decision="deny")
    tenants: list[object] = []

    def decide(request: hackamore.PermissionRequest) -> hackamore.Deny:
        tenants.append(baggage.get_baggage("tenant"))
        return hackamore.Deny("no")

    async def scenario() -> None:
        options = Options(telemetry=collected.telemetry(), can_use_tool=decide)
        with SimulatedCLI(played.says("done")) as cli:
            with caller(collected, tenant="seven"):
                stream: Any = (hackamore.sync.query if shell.blocking else hackamore.query)(
                    "go", options, transport=cli
                )
            if shell.blocking:  # behind the block of the caller
                list(stream)
            else:
                [_ async for _ in stream]

    shell.play(scenario)
    assert tenants == ["seven"]
    [(_, [(name, _)])] = collected.tree()
    assert name == "invoke_agent claude-code"


@shows("telemetry.background")
def test_turns_that_the_cli_starts(shell: Shell, collected: Collected) -> None:
    played = (
        Script()
        .user("go")
        .subagent("look", Script().calls("Read", {"file_path": "a"}).says("seen"), kind="finder", background=True)
        .says("It runs.")
        .task_ends()
        .says("It has ended.")
        .user("and now?")
        .says("Nothing.")
    )

    async def scenario() -> None:
        with SimulatedCLI(played) as cli:
            options = Options(telemetry=collected.telemetry())
            session = (hackamore.sync.Session if shell.blocking else hackamore.Session)(options, transport=cli)
            await got(session.start())
            with caller(collected):
                turn = await got(session.send("go"))
                await got(turn.result())
            await got(session.wait_idle())
            turn = await got(session.send("and now?"))
            await got(turn.result())
            await got(session.stop())

    shell.play(scenario)
    main, background, second = collected.named("invoke_agent claude-code")
    assert main.parent is not None
    assert background.parent is second.parent is None
    assert attributes(background)["hackamore.background"] is True
    [link] = background.links
    assert link.context.span_id == id_of(main)
    finder = collected.one("invoke_agent finder")
    assert finder.parent is not None
    assert finder.parent.span_id == id_of(collected.one("execute_tool Task"))
    assert attributes(finder)["hackamore.tool_calls"] == 1
    costs = [attributes(span)["hackamore.cost.usd"] for span in (main, background, second)]
    assert sum(costs) == pytest.approx(attributes(second)["hackamore.cost.total_usd"])


@shows("telemetry.background")
def test_turns_that_the_cli_starts_have_no_baggage_of_a_caller(shell: Shell, collected: Collected) -> None:
    bash: dict[str, Any] = {"command": "rm -r cache"}
    played = Script().user("go").calls("Bash", bash).expect_permission("Bash", decision="deny")
    played = played.subagent("look", Script().says("seen"), background=True).says("It runs.").task_ends()
    played = played.calls("Bash", bash).expect_permission("Bash", decision="deny").says("It has ended.")
    tenants: list[object] = []

    def decide(request: hackamore.PermissionRequest) -> hackamore.Deny:
        tenants.append(baggage.get_baggage("tenant"))
        return hackamore.Deny("no")

    async def scenario() -> None:
        with SimulatedCLI(played) as cli, caller(collected, tenant="seven"):
            options = Options(telemetry=collected.telemetry(), can_use_tool=decide)
            kind = hackamore.sync.Session if shell.blocking else hackamore.Session
            async with Held(kind(options, transport=cli)) as session:
                await got((await got(session.send("go"))).result())
                await got(session.wait_idle())

    shell.play(scenario)
    assert tenants == ["seven", None]


def test_a_task_that_is_over_leaves_nothing(collected: Collected) -> None:
    class Kept(hackamore.Telemetry):
        def observe(self, subject: Subject) -> Observation:
            kept.append(super().observe(subject))
            return kept[-1]

    kept: list[Observation] = []
    inner = Script().calls("Read", {"file_path": "a"}).says("seen")
    played = Script().user("go").subagent("look", inner, background=True).says("It runs.").task_ends().says("Over.")
    options = Options(telemetry=Kept(collected.provider, collected.meters))
    with SimulatedCLI(played) as cli, hackamore.sync.Session(options, transport=cli) as session:
        session.send("go").result()
        session.wait_idle()
        [watch] = kept
        assert {name for name, table in vars(watch).items() if isinstance(table, dict) and table} == set()


@shows("telemetry.ends")
def test_an_interrupt_ends_every_span(shell: Shell, collected: Collected) -> None:
    played = Script().user("go").calls("Read", {"file_path": "a"}).interrupted(after="I will").user("go on").says("ok")

    async def scenario() -> None:
        with SimulatedCLI(played) as cli:
            options = Options(telemetry=collected.telemetry())
            session = (hackamore.sync.Session if shell.blocking else hackamore.Session)(options, transport=cli)
            await got(session.start())
            turn = await got(session.send("go"))
            async for message in each(turn):
                if message.type == "user":
                    await got(session.interrupt())
            turn = await got(session.send("go on"))
            await got(turn.result())
            await got(session.stop())

    shell.play(scenario)
    stopped, went_on = collected.named("invoke_agent claude-code")
    assert attributes(stopped)["hackamore.turn.state"] == "interrupted"
    assert stopped.status.status_code is trace.StatusCode.UNSET
    assert attributes(went_on)["hackamore.turn.state"] == "completed"


@shows("telemetry.ends")
def test_the_end_of_a_turn_ends_subagents_without_a_result(
    shell: Shell, collected: Collected, playing: StandIn
) -> None:
    def says(key: str, block: dict[str, Any], parent: str | None) -> list[Any]:
        body = {"id": key, "model": "s", "role": "assistant", "content": [block]}
        return ["raw", json.dumps({"type": "assistant", "message": body, "parent_tool_use_id": parent}) + "\n"]

    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {}}
    frames = says("m1", task, None), says("m2", {"type": "text", "text": "I look."}, "t1")

    async def scenario() -> None:
        async with Running(shell, playing(telemetry=collected.telemetry())) as session:
            await texts(await got(session.send(steps(*frames, ["text", "Enough."]))))
            await texts(await got(session.send(steps(["text", "Next."]))))
            ended.extend(collected.named("invoke_agent subagent"))

    ended: list[ReadableSpan] = []
    shell.play(scenario)
    assert [attributes(span)["error.type"] for span in ended] == ["cancelled"]


@shows("telemetry.ends")
@pytest.mark.parametrize("end", [["exit", 3], ["die"]])
def test_a_crash_ends_every_span(shell: Shell, collected: Collected, playing: StandIn, end: list[Any]) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    says = {"type": "assistant", "message": {"id": "m1", "model": "s", "role": "assistant", "content": [call]}}
    request = {"tool_name": "Bash", "input": {}, "tool_use_id": "t1"}
    prompt = steps(["raw", json.dumps(says) + "\n"], ["ask_many", "can_use_tool", request, 1], end)

    async def scenario() -> None:
        options = playing(telemetry=collected.telemetry(), can_use_tool=lambda request: hackamore.Deny("no"))
        async with Running(shell, options) as session:
            turn = await got(session.send(prompt))
            await raised(lambda: texts(turn), hackamore.HackamoreError)
        await raised(lambda: shell.run(prompt, options), hackamore.HackamoreError)

    shell.play(scenario)
    turns = collected.named("invoke_agent claude-code")
    assert len(turns) == 2
    for turn in turns:
        found = attributes(turn)
        assert found["hackamore.turn.state"] == "failed"
        assert found["error.type"].endswith("Error")
        assert turn.status.status_code is trace.StatusCode.ERROR
    for tool in collected.named("execute_tool Bash"):
        assert attributes(tool)["error.type"] == "cancelled"


@shows("telemetry.ends")
def test_the_end_of_a_session_ends_subagents_inside_subagents(
    shell: Shell, collected: Collected, playing: StandIn
) -> None:
    def says(call: str, parent: str | None) -> list[Any]:
        block = {"type": "tool_use", "id": call, "name": "Task", "input": {}}
        body = {"id": f"m-{call}", "model": "s", "role": "assistant", "content": [block]}
        return ["raw", json.dumps({"type": "assistant", "message": body, "parent_tool_use_id": parent}) + "\n"]

    started = {
        "type": "system",
        "subtype": "task_started",
        "task_id": "a1",
        "tool_use_id": "t1",
        "task_type": "local_agent",
        "subagent_type": "outer",
        "is_backgrounded": True,
    }
    frames = says("t1", None), ["raw", json.dumps(started) + "\n"], says("t2", "t1"), says("t3", "t2")

    async def scenario() -> None:
        async with Running(shell, playing(telemetry=collected.telemetry())) as session:
            await texts(await got(session.send(steps(*frames, ["text", "It runs."]))))

    shell.play(scenario)
    calls = {attributes(span)["gen_ai.tool.call.id"]: id_of(span) for span in collected.named("execute_tool Task")}
    outer, inner = collected.one("invoke_agent outer"), collected.one("invoke_agent subagent")
    assert [span.parent and span.parent.span_id for span in (outer, inner)] == [calls["t1"], calls["t2"]]
    assert {attributes(span)["error.type"] for span in (outer, inner)} == {"cancelled"}


@shows("telemetry.ends")
def test_a_start_that_fails_is_a_failed_turn(shell: Shell, collected: Collected, playing: StandIn) -> None:
    async def scenario() -> None:
        for more in ({}, {"can_use_tool": lambda request: hackamore.Allow()}):
            options = playing(cli_path="/missing/claude", telemetry=collected.telemetry(), **more)
            await raised(lambda options=options: shell.run("go", options), hackamore.CLINotFoundError)

    shell.play(scenario)
    for span in collected.named("invoke_agent claude-code"):
        assert attributes(span)["error.type"] == "CLINotFoundError"
    assert len(collected.spans) == 2


@shows("telemetry.content")
def test_content_is_recorded_only_on_request(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    with SimulatedCLI(script(), per_session=True) as cli:
        hackamore.sync.run("go", agent(collected, telemetry=collected.telemetry(content=True)), transport=cli)
        turn = attributes(collected.one("invoke_agent claude-code"))
        assert json.loads(turn["gen_ai.input.messages"]) == [
            {"role": "user", "parts": [{"type": "text", "content": "go"}]}
        ]
        assert json.loads(turn["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "done"}]
        bash = attributes(collected.one("execute_tool Bash"))
        assert json.loads(bash["gen_ai.tool.call.arguments"]) == {"command": "rm -r cache"}
        assert bash["gen_ai.tool.call.result"] == "no"
        assert "two fifty" in attributes(collected.one("execute_tool mcp__shop__price"))["gen_ai.tool.call.result"]
        for setting, content, recorded in (
            *(("SPAN_ONLY", None, True), ("true", None, True), ("SPAN_ONLY", False, False)),
            *(("EVENT_ONLY", None, False), ("", True, True), ("", None, False)),
        ):
            monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", setting)
            other = Collected()
            options = agent(other, telemetry=other.telemetry(content=content))
            hackamore.sync.run("go", options, transport=cli)
            turn = attributes(other.one("invoke_agent claude-code"))
            assert ("gen_ai.input.messages" in turn) is recorded, (setting, content)


@shows("telemetry.many")
def test_many_sessions_at_once(shell: Shell, collected: Collected) -> None:
    with SimulatedCLI(script(), per_session=True) as cli:
        if shell.blocking:
            import threading

            def talk() -> None:
                with caller(collected):
                    hackamore.sync.run("go", agent(collected), transport=cli)

            threads = [threading.Thread(target=talk) for _ in range(MANY)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            import anyio

            async def converse() -> None:
                with caller(collected):
                    async with hackamore.Session(agent(collected), transport=cli) as session:
                        turn = await session.send("go")
                        await turn.result()

            async def scenario() -> None:
                async with anyio.create_task_group() as group:
                    for _ in range(MANY):
                        group.start_soon(converse)

            anyio.run(scenario, backend=shell.backend)
    assert len(collected.named("caller")) == MANY
    spans = collected.spans
    below: dict[int | None, list[ReadableSpan]] = {}
    for span in spans:
        below.setdefault(span.parent.span_id if span.parent is not None else None, []).append(span)

    def tree(above: int | None) -> list[Any]:
        found = []
        for span in below.get(above, ()):
            inner = tree(id_of(span))
            found.append((span.name, inner) if inner else span.name)
        return found

    # Responses may share a time with the tools that they call.
    assert [sorted(map(str, branch)) for _, [(_, branch)] in tree(None)] == [sorted(map(str, TURN[1]))] * MANY
    assert len({place_of(span).trace_id for span in spans}) == MANY


def test_without_an_sdk_nothing_happens(shell: Shell) -> None:
    collected = Collected()  # for the spans of the callbacks

    async def scenario() -> None:
        with SimulatedCLI(script()) as cli:
            options = agent(collected, telemetry=hackamore.Telemetry())
            assert (await shell.run("go", options, transport=cli)).text == "done"

    shell.play(scenario)
    assert sorted(span.name for span in collected.spans) == ["in the hook", "in the tool"]


def test_a_session_may_be_given_up_in_a_turn(shell: Shell, collected: Collected, playing: StandIn) -> None:
    async def scenario() -> None:
        prompt = steps(["text", "begun"], ["hang"])
        async with Running(shell, playing(telemetry=collected.telemetry())) as session:
            await first(await got(session.send(prompt)))

    shell.play(scenario)
    assert attributes(collected.one("invoke_agent claude-code"))["hackamore.turn.state"] == "interrupted"


@shows("telemetry.context")
def test_spans_in_other_kinds_of_servers(shell: Shell, collected: Collected) -> None:
    from mcp.server.mcpserver import MCPServer

    package = MCPServer("package")

    @package.tool()
    async def price(article: str) -> str:
        """Return a price."""
        with collected.tracer.start_as_current_span("in the package"):
            return "two fifty"

    def function(message: dict[str, Any]) -> dict[str, Any] | None:
        if "id" not in message:
            return None
        result: dict[str, Any] = {}
        if message["method"] == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "function", "version": "1"},
            }
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "price", "inputSchema": {"type": "object"}}]}
        elif message["method"] == "tools/call":
            with collected.tracer.start_as_current_span("in the function"):
                result = {"content": [{"type": "text", "text": "two fifty"}]}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    played = (
        Script()
        .user("go")
        .calls("mcp__package__price", {"article": "tea"})
        .calls("mcp__function__price", {"article": "tea"})
        .says("done")
    )

    async def scenario() -> None:
        with SimulatedCLI(played) as cli:
            options = Options(
                telemetry=collected.telemetry(),
                mcp_servers={"package": package, "function": function},
                can_use_tool=lambda request: hackamore.Allow(),
            )
            assert (await shell.run("go", options, transport=cli)).text == "done"

    shell.play(scenario)
    for kind in ("package", "function"):
        call = collected.one(f"tools/call mcp__{kind}__price")
        inside = collected.one(f"in the {kind}")
        assert inside.parent is not None
        assert inside.parent.span_id == id_of(call), kind
        assert attributes(collected.one(f"execute_tool mcp__{kind}__price"))["gen_ai.tool.type"] == "function"
