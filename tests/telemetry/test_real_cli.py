"""The tree of a turn of the real CLI, and its own spans inside."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import hackamore
from hackamore import Options
from hackamore.testing import Script
from tests.contract import shows
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.telemetry.collecting import Collected, attributes, id_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import RealCLI

CHAT = "chat claude-opus-5-5"
LARGEST = 10_000_000


def script() -> Script:
    return (
        Script()
        .user("go")
        .calls("Bash", {"command": "echo $TRACEPARENT > trace.txt"})
        .calls("mcp__shop__price", {"article": "tea"})
        .subagent("find it", Script().calls("Bash", {"command": "echo x"}).says("found"), kind="general-purpose")
        .says("done")
    )


class Receiver:
    """Takes OTLP as JSON on the loopback interface."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.spans: list[dict[str, Any]] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            timeout = patience(10)

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", "0"))
                assert size <= LARGEST
                receiver.take(self.path, json.loads(self.rfile.read(size)))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()

    def take(self, path: str, body: dict[str, Any]) -> None:
        self.kinds.add(path.rpartition("/")[2])
        for resource in body.get("resourceSpans", ()):
            for scope in resource["scopeSpans"]:
                self.spans.extend(scope["spans"])


def agent(real_cli: RealCLI, collected: Collected, env: dict[str, str], **more: Any) -> Options:
    @hackamore.tool
    def price(article: str) -> str:
        """Return a price."""
        with collected.tracer.start_as_current_span("in the tool"):
            return "2.50"

    return Options(
        cli_path=real_cli.cli_path,
        cwd=real_cli.cwd,
        env=env,
        inherit_env=False,
        permission_mode="bypassPermissions",
        mcp_servers={"shop": [price]},
        hooks={"PreToolUse": lambda value, context: None},
        **more,
    )


@shows("telemetry.spans", "telemetry.traceparent")
def test_the_tree_of_a_turn(real_cli: RealCLI, collected: Collected, shell: Shell) -> None:
    async def scenario() -> None:
        with script().model() as model, collected.tracer.start_as_current_span("caller"):
            options = agent(real_cli, collected, real_cli.env(model), telemetry=collected.telemetry())
            answers.append(await shell.run("go", options))

    answers: list[hackamore.RunResult[Any]] = []
    shell.play(scenario)
    [answer] = answers
    assert answer.text == "done"
    hook = "hackamore.hook PreToolUse"
    subagent = ("invoke_agent general-purpose", [CHAT, ("execute_tool Bash", [hook])])
    [(name, [(turn, inside)])] = collected.tree()
    assert (name, turn) == ("caller", "invoke_agent claude-code")
    expected = [
        *[CHAT] * 4,
        ("execute_tool Bash", [hook]),
        ("execute_tool mcp__shop__price", [hook, ("tools/call mcp__shop__price", ["in the tool"])]),
        ("execute_tool Task", [hook, subagent]),
    ]
    # A hook of the CLI may come before the message of its tool call. So may the span of a tool: its name is that of the hook.
    found = [str(branch).replace("execute_tool Agent", "execute_tool Task") for branch in inside]
    assert sorted(found) == sorted(map(str, expected))
    turn_span = collected.one("invoke_agent claude-code")
    known = attributes(turn_span)
    assert answer.result.usage is not None
    assert known["gen_ai.usage.input_tokens"] == answer.result.usage.input_tokens == 40
    assert known["gen_ai.usage.output_tokens"] == answer.result.usage.output_tokens == 20
    assert known["gen_ai.conversation.id"] == answer.session_id
    ids = {message.message_id for message in answer.messages if isinstance(message, hackamore.AssistantMessage)}
    assert {attributes(span)["gen_ai.response.id"] for span in collected.named(CHAT)} == ids
    spent = {point["gen_ai.token.type"]: total for point, (_, total) in collected.points("gen_ai.client.token.usage")}
    assert spent == {"input": 60, "output": 30}  # six requests, two of them of the subagent
    # Bash sees the context of the turn.
    trace_id, span_id = (real_cli.cwd / "trace.txt").read_text().split("-")[1:3]
    assert int(trace_id, 16) == place_of(turn_span).trace_id
    assert int(span_id, 16) == id_of(turn_span)


@shows("telemetry.cli")
def test_spans_of_the_cli_join_the_trace(real_cli: RealCLI, collected: Collected) -> None:
    receiver = Receiver()
    with receiver.serving() as endpoint, script().model() as model, collected.tracer.start_as_current_span("caller"):
        env = {
            **real_cli.env(model),
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        }
        answer = hackamore.sync.run("go", agent(real_cli, collected, env, telemetry=collected.telemetry(cli=True)))
    assert answer.text == "done"
    assert receiver.kinds == {"traces", "metrics", "logs"}
    turn = collected.one("invoke_agent claude-code")
    trace_id = f"{place_of(turn).trace_id:032x}"
    assert {span["traceId"] for span in receiver.spans} == {trace_id}
    names = [span["name"] for span in receiver.spans]
    assert names.count("claude_code.llm_request") == 6
    assert names.count("claude_code.tool") == 4
    [interaction] = [span for span in receiver.spans if span["name"] == "claude_code.interaction"]
    assert int(interaction["parentSpanId"], 16) == id_of(turn)
    ours = {span["spanId"] for span in receiver.spans}
    assert all(span["parentSpanId"] in ours for span in receiver.spans if span is not interaction)


@shows("telemetry.ends")
def test_a_killed_cli_leaves_no_open_span(real_cli: RealCLI, collected: Collected) -> None:
    import os
    import signal

    played = (
        Script().user("go").calls("Bash", {"command": "true; sleep 60"}).interrupted()
    )  # a bare `sleep 60` is refused at once
    with played.model() as model:
        options = agent(real_cli, collected, real_cli.env(model), telemetry=collected.telemetry())
        with hackamore.sync.Session(options) as session:
            turn = session.send("go")
            try:
                for message in turn:
                    if message.type == "assistant" and session.pid is not None:
                        os.kill(session.pid, signal.SIGKILL)
            except hackamore.HackamoreError as error:
                failure = type(error).__name__
    found = attributes(collected.one("invoke_agent claude-code"))
    assert (found["hackamore.turn.state"], found["error.type"]) == ("failed", failure)
    assert found["process.exit.code"] == -9
    assert attributes(collected.one("execute_tool Bash"))["error.type"] == "cancelled"


def test_the_first_turn_after_a_resume_has_its_own_cost(real_cli: RealCLI, collected: Collected) -> None:
    played = Script().user("one").says("1").user("two").says("2")
    with played.model() as model:
        options = agent(real_cli, collected, real_cli.env(model), telemetry=collected.telemetry())
        first = hackamore.sync.run("one", options)
        second = hackamore.sync.run("two", options.replace(resume=first.session_id))
    assert [first.text, second.text] == ["1", "2"]
    costs = [attributes(span)["hackamore.cost.usd"] for span in collected.named("invoke_agent claude-code")]
    assert second.result is not None
    assert second.result.total_cost_usd is not None
    assert costs[1] > 0
    assert second.result.total_cost_usd == pytest.approx(sum(costs))
    assert [total for _, total in collected.points("hackamore.cost")] == [pytest.approx(sum(costs))]
    assert sum(total for _, (_, total) in collected.points("gen_ai.client.token.usage")) == 2 * 15
