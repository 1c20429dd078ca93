"""Runs on a simulated CLI: each stream is checked by the models of AG-UI and the rules of its client."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput

from hackamore import Budget, SessionPool, tool, tool_server
from hackamore.serving import agui
from hackamore.serving.agui import runs, service
from hackamore.serving.agui.asking import prompt_of
from hackamore.serving.agui.failures import Refused
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.serving.agui.calling import Answer, Client
from tests.serving.agui.conftest import Serve
from tests.serving.agui.verifying import Run
from tests.support.patience import patience

pytestmark = pytest.mark.anyio


@shows("agui.order")
async def test_texts_and_thoughts_stream(serve: Serve) -> None:
    script = Script().user("Hello").thinks("They greet me.").says("Good morning, Ada.", chunk=4)
    async with serve(script) as client:
        answer = await client.post("Hello")
    run = answer.run
    assert run.text == "Good morning, Ada."
    assert list(run.thoughts.values()) == ["They greet me."]
    assert len(run.of("TEXT_MESSAGE_CONTENT")) == 5
    assert run.outcome == {"type": "success"}
    assert answer.ids == list(range(1, len(run.events) + 1))
    assert answer.headers["content-type"] == "text/event-stream"


@shows("agui.order")
async def test_calls_have_their_arguments_and_results(serve: Serve) -> None:
    script = (
        Script()
        .user()
        .says("I look.")
        .calls("Bash", {"command": "ls"}, result="README.md")
        .calls("Bash", {"command": "false"}, error="Exit code 1", together=True)
        .says("Done.")
    )
    async with serve(script, pool={"options": {"permission_mode": "bypassPermissions"}}) as client:
        run = (await client.post()).run
    assert [json.loads(each) for each in run.arguments.values()] == [{"command": "ls"}, {"command": "false"}]
    assert list(run.results.values()) == ["README.md", "Exit code 1"]
    failed = [each.get("metadata") for each in run.of("TOOL_CALL_RESULT")]
    assert failed == [None, {"isError": True}]
    first, second = (each["parentMessageId"] for each in run.of("TOOL_CALL_START"))
    assert first == second
    assert run.text == "I look.Done."


@shows("agui.order")
@pytest.mark.parametrize("partial", [True, False], ids=["pieces", "whole messages"])
async def test_subagents_have_their_own_events(serve: Serve, partial: bool) -> None:
    inner = Script().calls("Bash", {"command": "ls"}, result="README.md").says("One file.")
    script = Script().user().subagent("Look around.", inner, description="look").says("It found one file.")
    options = {
        "permission_mode": "bypassPermissions",
        "forward_subagent_text": True,
        "include_partial_messages": partial,
    }
    async with serve(script, pool={"options": options}) as client:
        run = (await client.post()).run
    [started] = run.of("SUBAGENT_STARTED")
    agent = started["subagentRunId"]
    assert (started["name"], started["description"], started["parentToolCallId"]) == ("general-purpose", "look", agent)
    assert run.of("SUBAGENT_FINISHED") == [
        {"type": "SUBAGENT_FINISHED", "subagentRunId": agent, "outcome": {"type": "success"}}
    ]
    calls = {run.names[call]: owner for call, owner in run.owners.items() if call in run.names}
    assert calls == {"Task": None, "Bash": agent}
    assert {run.owners[name]: text for name, text in run.texts.items()} == {
        agent: "One file.",
        None: "It found one file.",
    }


async def test_a_thread_is_one_conversation(serve: Serve) -> None:
    script = Script().user("One").says("1").user("Two").says("2")
    async with serve(script) as client:
        assert (await client.post("One")).run.text == "1"
        given = client.given("Two")
        given["messages"] = [
            {"id": "a", "role": "user", "content": "One"},
            {"id": "b", "role": "assistant", "content": "1"},
            *given["messages"],
        ]
        assert (await client.request(given)).run.text == "2"
        assert (await client.post("One", thread="other")).run.text == "1"


async def test_the_context_and_pictures_are_in_the_prompt() -> None:
    given = RunAgentInput.model_validate(
        {
            "threadId": "t",
            "runId": "r",
            "messages": [
                {"id": "1", "role": "system", "content": "Obey."},
                {
                    "id": "2",
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look."},
                        {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
                        {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}},
                    ],
                },
            ],
            "context": [{"description": "page", "value": "Orders"}],
        }
    )
    assert prompt_of(given) == [
        {"type": "text", "text": "Look."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        {"type": "text", "text": "Context of the application:\n- page: Orders"},
    ]
    part: Any = given.messages[1].content
    part[1].type = "audio"
    with pytest.raises(Refused, match="audio"):
        prompt_of(given)


async def test_tokens_of_the_run_are_at_its_end(serve: Serve) -> None:
    async with serve(Script().user().says("Hi.")) as client:
        run = (await client.post()).run
    [usage] = run.end["usage"]
    assert usage["provider"] == "anthropic"
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"] > 0


@shows("agui.statuses")
async def test_a_failure_after_the_first_event_ends_the_run(serve: Serve) -> None:
    async with serve(Script().user().calls("Bash", {"command": "ls"}, result="x").api_error(500)) as client:
        run = (await client.post()).run
    assert (run.end["type"], run.end["code"]) == ("RUN_ERROR", "turn_failed")
    assert "Scripted" not in str(run.events)  # texts of errors are for the log


@shows("agui.statuses")
async def test_a_late_failure_before_the_first_event_ends_the_stream(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "OPEN_SECONDS", 0.01)
    async with serve(Script().user().slow(20).api_error(500)) as client:
        run = (await client.post()).run
    assert [each["type"] for each in run.events] == ["RUN_STARTED", "RUN_ERROR"]


@shows("agui.statuses")
@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        (Script().user().api_error(401), 401, "authentication_failed"),
        (Script().user().api_error(429), 429, "rate_limited"),
        (Script().user().api_error(500), 502, "turn_failed"),
        (Script().user().crash(3), 502, "session_failed"),
        (Script().crash(3), 503, "cli_unavailable"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_failure_before_the_first_event_has_a_status(
    serve: Serve, script: Script, status: int, code: str
) -> None:
    async with serve(script) as client:
        answer = await client.post()
    assert (answer.status, answer.code) == (status, code)


async def test_the_reset_of_a_limit_is_in_the_answer(serve: Serve) -> None:
    reset = datetime.now(UTC) + timedelta(seconds=600)
    async with serve(Script().user().usage_limited(reset).says("x")) as client:
        answer = await client.post()
    assert (answer.status, answer.code) == (429, "rate_limited")
    assert 500 < int(answer.headers["retry-after"]) <= 600


async def test_a_spent_budget_is_402(serve: Serve) -> None:
    budget = Budget(tokens=1)
    async with serve(Script().user().says("1").user().says("2"), pool={"options": {"budget": budget}}) as client:
        await client.post()
        answer = await client.post()
    assert (answer.status, answer.code) == (402, "budget_exceeded")


async def test_a_full_pool_is_429_and_a_held_conversation_409() -> None:
    with SimulatedCLI(Script().user().says("Hi."), per_session=True) as cli:
        async with SessionPool(transport=cli, warm=0, max_live=1, timeout=0.5) as pool:
            client = Client(agui.app(pool))
            async with pool.conversation(agui.thread_key(None, "t")):
                full = await client.post(thread="other")
                held = await client.post()
            assert (full.status, full.code, held.status, held.code) == (429, "pool_full", 409, "run_in_progress")
            assert (await client.post()).run.text == "Hi."
        stopped = await client.post()
    assert (stopped.status, stopped.code) == (503, "unavailable")


class Slow:
    """A script whose answer comes when the test says so: the tool of a server in this process waits."""

    def __init__(self, pieces: int = 1) -> None:
        self.called, self.go = anyio.Event(), anyio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            self.called.set()
            await self.go.wait()
            return "waited"

        self.options = {
            "mcp_servers": {"own": tool_server("own", [wait])},
            "permission_mode": "bypassPermissions",
        }
        self.script = (
            Script().user().says("Wait.").calls("mcp__own__wait").says("x" * pieces, chunk=1).user().says("Next.")
        )


async def test_one_run_of_a_thread_at_a_time(serve: Serve) -> None:
    slow = Slow()
    async with (
        serve(slow.script, pool={"options": slow.options}, max_runs=1) as client,
        anyio.create_task_group() as group,
    ):
        given, first = client.given(), Answer()
        group.start_soon(lambda: client.request(given, answer=first))
        await slow.called.wait()
        again = await client.post()
        assert (again.status, again.code) == (409, "run_in_progress")
        other = await client.post(thread="other")
        assert (other.status, other.code) == (429, "too_many_runs")
        assert int(other.headers["retry-after"]) >= 1
        slow.go.set()
        await first.until("RUN_FINISHED")
        assert (await client.request(given)).code == "run_in_progress"  # the same run is not sent twice
        assert (await client.post()).run.text == "Next."


@shows("agui.back")
async def test_a_client_that_leaves_stops_its_run(serve: Serve) -> None:
    script = Script().user().interrupted(after="I begin").user().says("Next.")
    async with serve(script) as client:
        gone, answer, given = anyio.Event(), Answer(), client.given()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.request(given, answer=answer, gone=gone))
            await answer.until("I begin")
            gone.set()
        assert not answer.complete
        while (again := await client.again(given["runId"], 0)).status != 200 or not again.complete:
            await anyio.lowlevel.checkpoint()
        assert again.run.outcome == {"type": "cancelled"}
        assert (await client.post()).run.text == "Next."


async def test_a_run_is_stopped_by_its_user(serve: Serve) -> None:
    script = Script().user().interrupted(after="I begin")
    async with serve(script, on_disconnect="continue") as client, anyio.create_task_group() as group:
        answer, given = Answer(), client.given()
        group.start_soon(lambda: client.request(given, answer=answer))
        await answer.until("I begin")
        stopped = await client.request(b"", method="DELETE", query=f"threadId=t&runId={given['runId']}")
        assert stopped.status == 202
        await answer.until("RUN_FINISHED")
    assert answer.run.outcome == {"type": "cancelled"}


@shows("agui.back")
async def test_a_client_comes_back_for_the_events_that_it_missed(serve: Serve) -> None:
    slow = Slow(40)
    pool = {"options": slow.options}
    async with serve(slow.script, pool=pool, on_disconnect="continue") as client, anyio.create_task_group() as group:
        gone, first, given = anyio.Event(), Answer(), client.given()
        group.start_soon(lambda: client.request(given, answer=first, gone=gone))
        await slow.called.wait()
        await first.until("TOOL_CALL_END")
        gone.set()
        slow.go.set()
        seen = first.ids[-1]
        rest = await client.again(given["runId"], seen)
        assert rest.ids == list(range(seen + 1, seen + 1 + len(rest.ids)))
        assert Run([*first.events, *rest.events]).text == "Wait." + "x" * 40
        posted = await client.request(given, last_event_id=str(seen))  # as clients of fetch come back
        assert posted.events == rest.events
        assert (await client.again(given["runId"], rest.ids[-1])).status == 204  # it has all: an EventSource stops
        assert (await client.again("another", 0)).code == "run_unknown"


async def test_the_newest_client_reads(serve: Serve) -> None:
    slow = Slow()
    async with serve(slow.script, pool={"options": slow.options}) as client, anyio.create_task_group() as group:
        first, second, given = Answer(), Answer(), client.given()
        group.start_soon(lambda: client.request(given, answer=first))
        await slow.called.wait()
        group.start_soon(lambda: client.again(given["runId"], 0, answer=second))
        await second.until("TOOL_CALL_START")
        slow.go.set()
        await second.until("RUN_FINISHED")
    assert first.complete
    assert "RUN_FINISHED" not in str(first.events)
    assert second.run.text == "Wait.x"


@shows("agui.back")
async def test_events_that_are_gone_are_reported(serve: Serve) -> None:
    slow = Slow(400)
    options = {"pool": {"options": slow.options}, "on_disconnect": "continue", "buffer_bytes": 4_000}
    async with serve(slow.script, **options) as client, anyio.create_task_group() as group:
        gone, first, given = anyio.Event(), Answer(), client.given()
        group.start_soon(lambda: client.request(given, answer=first, gone=gone))
        await slow.called.wait()
        gone.set()
        slow.go.set()
        while not (lost := await client.again(given["runId"], 1)).events or lost.events[0].get("code") != "events_lost":
            await anyio.lowlevel.checkpoint()
        Run([{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}, *lost.events])
        assert len(lost.events) == 1


@shows("agui.slow")
async def test_a_slow_client_gets_everything_and_holds_the_turn(serve: Serve) -> None:
    slow = Slow(500)
    slow.go.set()
    async with serve(slow.script, pool={"options": slow.options}, buffer_bytes=4_000) as client:
        taken, answer, given = anyio.Event(), Answer(), client.given()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.request(given, answer=answer, slow=taken))
            run = None
            while run is None or run._size <= 4_000:  # noqa: SLF001 - the memory that the client costs
                await anyio.lowlevel.checkpoint()
                run = client.app.runs.get("/t")
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
            assert run._size < 6_000  # noqa: SLF001
            taken.set()
    assert answer.run.text == "Wait." + "x" * 500


@shows("agui.slow")
async def test_a_client_that_takes_nothing_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "STALL_SECONDS", 0.05)
    slow = Slow(500)
    slow.go.set()
    options = {"pool": {"options": slow.options}, "buffer_bytes": 4_000, "on_disconnect": "continue"}
    async with serve(slow.script, **options) as client:
        never, given, answer = anyio.Event(), client.given(), Answer()
        await client.request(given, answer=answer, slow=never)
        assert not answer.complete
        run = client.app.runs["/t"]
        while not run.over:
            await anyio.lowlevel.checkpoint()
        again = await client.again(given["runId"], run.first)
        assert (again.status, again.events[-1]["type"]) == (200, "RUN_FINISHED")


async def test_heartbeats_keep_a_silent_stream_open(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 0.02)
    slow = Slow()
    async with serve(slow.script, pool={"options": slow.options}) as client:
        answer = Answer()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.request(client.given(), answer=answer))
            await answer.until("\n\n: \n\n")
            slow.go.set()
    assert answer.run.text == "Wait.x"


@shows("agui.bodies")
@pytest.mark.parametrize("policy", ["interrupt", "continue"])
async def test_clients_that_leave_at_random_moments(serve: Serve, policy: str) -> None:
    script = Script().user().says("Hm.").calls("Bash", {"command": "ls"}, result="x").says("y" * 15, chunk=1, delay=0.1)
    options = {"permission_mode": "bypassPermissions"}
    chance, seen = random.Random(7), Counter[tuple[int, bool]]()

    async def visit(client: Client, visitor: int) -> None:
        for number, most in enumerate([chance.randrange(20) for _ in range(8)]):
            thread = f"{visitor} {number}"
            gone, answer, given = anyio.Event(), Answer(), client.given(thread=thread)

            async def leave(
                most: int = most, gone: anyio.Event = gone, answer: Answer = answer, given: Any = given
            ) -> None:
                while not answer.complete and (answer.status != 200 or len(answer.events) < most):
                    await anyio.lowlevel.checkpoint()
                gone.set()

            async with anyio.create_task_group() as group:
                group.start_soon(leave)
                await client.request(given, answer=answer, gone=gone)
            seen[answer.status, answer.complete] += 1
            if answer.status == 200:
                rest = await client.again(given["runId"], answer.ids[-1] if answer.ids else 0, thread=thread)
                assert rest.status in (200, 204)
            while (run := client.app.runs.get(agui.thread_key(None, thread))) is not None and not run.over:
                await anyio.lowlevel.checkpoint()

    async with serve(script, pool={"options": options, "max_live": 3}, on_disconnect=policy) as client:
        with anyio.fail_after(patience(40)):
            async with anyio.create_task_group() as group:
                for number in range(5):
                    group.start_soon(visit, client, number)
            assert (await client.post(thread="last")).run.outcome == {"type": "success"}
    assert (client.app.active, client.app.requests) == (0, 0)
    assert seen[200, False] > 4, seen
