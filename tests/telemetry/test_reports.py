"""What the reports of one query or session become: every attribute, number and time, without a CLI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import msgspec
import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan

import hackamore
from hackamore import CLINotFoundError, HackamoreError, Options, ProcessError
from hackamore.errors import Diagnostic
from hackamore.messages import Message, from_data
from hackamore.options.observing import AttemptFacts, CallbackCall, CallbackEnd, Observation
from hackamore.permissions import MatchedAskRule, PermissionRequest
from hackamore.telemetry import fleets, pools, watch
from hackamore.telemetry.watch import Instruments
from tests.contract import shows
from tests.telemetry.collecting import Collected, attributes, id_of
from tests.telemetry.test_names import METRICS

AGENT = "invoke_agent claude-code"


@dataclass
class Subject:
    """A query or session that is only reported on."""

    kind: Literal["query", "session"] = "session"
    model: str | None = None
    options: Options = field(default_factory=Options)
    session_id: str | None = "s1"

    def warn(self, code: str, message: str, **context: object) -> None:
        raise AssertionError

    def end_turn(self, turn_id: str | None, error: HackamoreError) -> None:
        raise AssertionError


@dataclass
class Clock:
    """The time of telemetry: seconds since the epoch, which only a test moves."""

    seconds: float = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def time_ns(self) -> int:
        return int(self.seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(watch, "time", made)
    monkeypatch.setattr(pools, "time", made)
    return made


def said(message_id: str | None, *content: Any, model: str = "m", parent: str | None = None, **more: Any) -> Message:
    usage = {"usage": more.pop("usage")} if "usage" in more else {}
    stop = {"stop_reason": more.pop("stop")} if "stop" in more else {}
    message = {"id": message_id, "model": model, "role": "assistant", "content": content, **usage, **stop}
    return message_of({"type": "assistant", "message": message, "parent_tool_use_id": parent, "uuid": "u1", **more})


def called(call_id: str, name: str = "Bash", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": fields}


def outcome(call_id: str, content: Any = "ok", **more: Any) -> Message:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}
    return message_of({"type": "user", "message": {"role": "user", "content": [block]}})


def piece(parent: str | None = None, **event: Any) -> Message:
    return message_of({"type": "stream_event", "event": event, "parent_tool_use_id": parent, "session_id": "s1"})


def result(**more: Any) -> Message:
    whole = {"type": "result", "subtype": "success", "is_error": False, "session_id": "s1", "uuid": "u", **more}
    return message_of(whole)


def system(subtype: str, **more: Any) -> Message:
    return message_of({"type": "system", "subtype": subtype, "session_id": "s1", "uuid": "u", **more})


def message_of(data: dict[str, Any]) -> Message:
    message = from_data(data)
    assert isinstance(message, Message)
    return message


def begun(collected: Collected, content: bool = False, **more: Any) -> Observation:
    """An observation whose first turn has been sent and started."""
    found = collected.telemetry(content=content).observe(Subject(**more))
    found.prompt_sending("t1", "go")
    found.turn_changed("t1", "started", None)
    return found


def called_back(kind: str, call_id: str = "c1", **more: Any) -> CallbackCall:
    facts: dict[str, Any] = {"name": "", "event": "", "tool": "", "tool_use_id": None, "request": None, **more}
    return CallbackCall(call_id, kind, **facts)


def facts(span: ReadableSpan, *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in attributes(span).items() if name not in left_out}


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


@shows("telemetry.spans", "telemetry.content")
def test_a_response_has_the_numbers_of_its_last_pieces(collected: Collected, clock: Clock) -> None:
    observed = begun(collected, content=True)
    start = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 1}
    clock.seconds += 1
    opening = {"id": "m1", "model": "m", "usage": start}
    observed.messages_received([piece(type="message_start", message=opening)], ("t1",))
    clock.seconds += 1
    observed.messages_received([piece(type="content_block_delta", delta={"text": '"message_delta"'})], ("t1",))
    blocks = {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}
    observed.messages_received([said("m1", block, usage=start) for block in blocks], ("t1",))
    clock.seconds += 2
    more = {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 7}}
    observed.messages_received(
        [piece(type="message_delta", delta={"stop_reason": "end_turn"}, usage=more), piece(type="message_stop")],
        ("t1",),
    )
    clock.seconds += 4
    second = said(None, {"type": "text", "text": "again"}, model="n", usage={"input_tokens": 2, "output_tokens": 9})
    observed.messages_received([second], ("t1",))
    clock.seconds += 8
    observed.turn_changed("t1", "completed", None)
    common = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "s1",
        "hackamore.times.derived": True,
    }
    first, last = collected.one("chat m"), collected.one("chat n")
    assert facts(first, "gen_ai.output.messages") == {
        **common,
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m",
        "gen_ai.response.id": "m1",
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": 18,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.cache_creation.input_tokens": 3,
        "gen_ai.usage.output_tokens": 40,
        "gen_ai.usage.reasoning.output_tokens": 7,
    }
    assert msgspec.json.decode(attributes(first)["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "hello"}],
            "finish_reason": "end_turn",
        }
    ]
    assert facts(last, "gen_ai.output.messages") == {
        **common,
        "gen_ai.request.model": "n",
        "gen_ai.response.model": "n",
        "gen_ai.response.id": "u1",  # a message without an id of the response has its own
        "gen_ai.usage.input_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
    }
    assert msgspec.json.decode(attributes(last)["gen_ai.output.messages"])[0]["finish_reason"] == "unknown"
    second_ns = 10**9
    assert [(span.start_time, span.end_time) for span in (first, last)] == [
        (1_000 * second_ns, 1_004 * second_ns),
        (1_004 * second_ns, 1_008 * second_ns),
    ]
    assert facts(collected.one(AGENT), "gen_ai.input.messages") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.agent.name": "claude-code",
        "gen_ai.request.model": "m",  # the first that answered
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.cache_creation.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 7,  # without written tokens: those of one response are not final
        "hackamore.turn.id": "t1",
        "hackamore.turn.state": "completed",
        "hackamore.inference_calls": 2,
        "hackamore.tool_calls": 0,
    }
    assert collected.points("hackamore.turn.time_to_first_message") == [
        ({"gen_ai.agent.name": "claude-code"}, (1, 1.0))
    ]
    observed.ended(None, 0)  # no result has told the tokens: those of the responses are measured
    common = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}
    assert sorted(collected.points("gen_ai.client.token.usage"), key=str) == sorted(
        [
            ({**common, "gen_ai.request.model": model, "gen_ai.token.type": kind}, (1, amount))
            for model, kind, amount in (("m", "input", 18), ("m", "output", 40), ("n", "input", 2), ("n", "output", 9))
        ],
        key=str,
    )


def test_pieces_of_another_shape_and_synthetic_messages_are_no_response(collected: Collected, clock: Clock) -> None:
    observed = begun(collected)
    odd = (
        piece(type="message_start", message={"id": 5}),
        piece(type="message_start", message={"id": "", "model": "m"}),
        piece(type="message_start"),
        piece(type="message_delta", delta={"stop_reason": "end_turn"}),
        said("m1", {"type": "text", "text": "No key."}, model="<synthetic>"),
    )
    observed.messages_received(odd, ("t1",))
    observed.turn_changed("t1", "completed", None)
    assert collected.tree() == [AGENT]


@shows("telemetry.content")
@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("go", [{"type": "text", "content": "go"}]),
        (
            [{"type": "text", "text": "look"}, {"type": "image", "source": {"data": "c2VjcmV0"}}],
            [{"type": "text", "content": "look"}, {"type": "image"}],
        ),
        (
            [SimpleNamespace(type="text", text="look"), SimpleNamespace(type="document", source="c2VjcmV0"), object()],
            [{"type": "text", "content": "look"}, {"type": "document"}, {"type": "None"}],
        ),
    ],
)
def test_a_prompt_is_recorded_without_its_files(collected: Collected, prompt: Any, parts: Any) -> None:
    for content in (True, False):
        observed = collected.telemetry(content=content).observe(Subject())
        observed.prompt_sending("t1", prompt)
        observed.ended(None, 0)
    with_content, without = collected.named(AGENT)
    assert msgspec.json.decode(attributes(with_content)["gen_ai.input.messages"]) == [{"role": "user", "parts": parts}]
    assert "gen_ai.input.messages" not in attributes(without)


@shows("telemetry.content")
@pytest.mark.parametrize("content", [True, False])
def test_calls_of_every_kind_are_recorded_only_on_request(collected: Collected, content: bool, clock: Clock) -> None:
    observed = begun(collected, content=content)
    calls = [{**called(kind, kind, secret="s3cret"), "type": kind} for kind in ("tool_use", "server_tool_use")]
    calls.append({**called("mcp_tool_use", "mcp_tool_use", secret="s3cret"), "type": "mcp_tool_use"})
    observed.messages_received([said("m1", *calls, stop="tool_use")], ("t1",))
    clock.seconds += 2
    blocks = [{"type": "text", "text": "s3cret"}], [{"type": "web_search_result", "title": "s3cret"}]
    found = {"type": "web_search_tool_result", "tool_use_id": "server_tool_use", "content": blocks[1]}
    observed.messages_received([outcome("tool_use", blocks[0]), said("m1", found)], ("t1",))
    served = called_back("mcp", tool="price", tool_use_id="tool_use", request={"article": "s3cret"})
    observed.callback_started(served)
    observed.callback_ended(served, CallbackEnd("answered", {"mcp_response": {"result": {}}}, ""))
    decided = PermissionRequest(tool_name="Bash", input_raw=msgspec.Raw(b'{"secret":"s3cret"}'))
    asked = called_back("permission", "c2", tool="Bash", request=decided)
    observed.callback_started(asked)
    observed.callback_ended(asked, CallbackEnd("answered", {"behavior": "deny", "message": "s3cret"}, "", "deny"))
    observed.messages_received([result(result="s3cret", stop_reason="end_turn")], ("t1",))
    observed.turn_changed("t1", "completed", None)
    spans = {span.name.removeprefix("execute_tool "): attributes(span) for span in collected.spans}
    if not content:
        assert "s3cret" not in str([span.to_json() for span in collected.spans])
        return
    kinds = [call["type"] for call in calls]
    assert [spans[kind]["gen_ai.tool.call.arguments"] for kind in kinds] == ['{"secret":"s3cret"}'] * 3
    assert spans["tool_use"]["gen_ai.tool.call.result"] == "s3cret"
    assert msgspec.json.decode(spans["server_tool_use"]["gen_ai.tool.call.result"]) == blocks[1]
    assert spans["tools/call price"]["gen_ai.tool.call.arguments"] == '{"article":"s3cret"}'
    [message] = msgspec.json.decode(spans["chat m"]["gen_ai.output.messages"])
    assert message == {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": kind, "name": kind, "arguments": {"secret": "s3cret"}} for kind in kinds],
        "finish_reason": "tool_use",
    }
    [answer] = msgspec.json.decode(spans[AGENT]["gen_ai.output.messages"])
    expected = {"parts": [{"type": "text", "content": "s3cret"}], "finish_reason": "end_turn"}
    assert answer == {"role": "assistant", **expected}
    assert "s3cret" not in str(spans["hackamore.permission"])


@shows("telemetry.metrics")
def test_each_metric_has_its_number_and_attributes(collected: Collected, clock: Clock) -> None:
    observed = begun(collected, model="m")
    observed.launched()
    observed.request_sent("r1", "set_model")
    observed.request_sent("r2", "interrupt")
    clock.seconds += 0.5
    observed.request_ended("r1", None)
    clock.seconds += 0.5
    observed.request_ended("r2", HackamoreError("no"))
    observed.request_ended("unknown", None)
    observed.messages_received([said("m1", called("a"), called("b", "Read"))], ("t1",))
    clock.seconds += 2
    asked = called_back("permission", tool="Bash", tool_use_id="a")
    observed.callback_started(asked)
    clock.seconds += 4
    observed.callback_ended(asked, CallbackEnd("cancelled", None, ""))
    observed.messages_received([outcome("a", is_error=True), outcome("b"), outcome("b"), outcome("c")], ("t1",))
    observed.messages_received([said("m2", {"type": "text", "text": "done"})], ("t1",))
    used = {"m": {"inputTokens": 5, "outputTokens": 0, "cacheReadInputTokens": 1, "cacheCreationInputTokens": 2}}
    observed.messages_received([result(total_cost_usd=0.5, modelUsage=used)], ("t1",))
    observed.turn_changed("t1", "completed", None)
    observed.ended(None, 0)
    agent = {"gen_ai.agent.name": "claude-code"}
    tools = [{"gen_ai.tool.name": name, "gen_ai.tool.type": "extension", **agent} for name in ("Bash", "Read")]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m"}
    expected: dict[str, list[Any]] = {
        "hackamore.process.starts": [({}, 1)],
        "hackamore.control.duration": [
            ({"hackamore.operation": "set_model"}, (1, 0.5)),
            ({"hackamore.operation": "interrupt", "error.type": "HackamoreError"}, (1, 1.0)),
        ],
        "hackamore.turn.time_to_first_message": [(agent, (1, 1.0))],
        "hackamore.permission.wait": [({"gen_ai.tool.name": "Bash", "hackamore.decision": "none"}, (1, 4.0))],
        "gen_ai.execute_tool.duration": [({**tools[0], "error.type": "tool_error"}, (1, 6.0)), (tools[1], (1, 6.0))],
        "gen_ai.client.token.usage": [({**chat, "gen_ai.token.type": "input"}, (1, 8))],
        "hackamore.cost": [(agent, 0.5)],
        "gen_ai.invoke_agent.duration": [({"gen_ai.operation.name": "invoke_agent", **agent}, (1, 7.0))],
    }
    found = {name: collected.points(name) for name in expected}
    assert found == expected
    [bash] = collected.named("execute_tool Bash")
    assert facts(bash) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.id": "a",
        "error.type": "tool_error",
        **tools[0],
    }
    assert bash.status.description == "tool_error"
    assert attributes(collected.one(AGENT))["hackamore.tool_calls"] == 2
    assert attributes(collected.one(AGENT))["hackamore.cost.usd"] == 0.5


@shows("telemetry.metrics")
def test_each_measure_names_its_span(collected: Collected) -> None:
    """As exemplars, by which a dashboard finds the trace of a slow call or of a cost."""
    telemetry = collected.telemetry()
    with collected.tracer.start_as_current_span("caller") as caller:
        observed = telemetry.observe(Subject())
        observed.prompt_sending("t1", "go")
        run = telemetry.observe_run("f", 2)
        waiting = telemetry.observe_pool().waiting()
    observed.launched()
    observed.request_sent("r1", "set_model")
    observed.request_ended("r1", None)
    observed.messages_received([said("m1", called("a"))], ("t1",))
    asked = called_back("permission", tool="Bash", tool_use_id="a")
    observed.callback_started(asked)
    observed.callback_ended(asked, CallbackEnd("answered", {"behavior": "allow"}, "", "allow"))
    observed.messages_received([outcome("a")], ("t1",))
    used = {"m": {"inputTokens": 5, "outputTokens": 1}}
    observed.messages_received([result(total_cost_usd=0.5, modelUsage=used)], ("t1",))
    observed.turn_changed("t1", "completed", None)
    run.limit_changed(2)
    run.task_leased(1.5)
    run.attempt_ended(None)
    run.task_ended("succeeded", 2.5)
    run.ended(None)
    waiting.ended("s1", "ready", None)
    mine = id_of(caller)  # type: ignore[arg-type]
    turn, bash, fleet = (id_of(collected.one(name)) for name in (AGENT, "execute_tool Bash", "hackamore.fleet.run"))
    assert collected.exemplars() == {
        "hackamore.process.starts": {mine},
        "hackamore.control.duration": {mine},
        "hackamore.permission.wait": {mine},
        "hackamore.turn.time_to_first_message": {turn},
        "gen_ai.execute_tool.duration": {bash},
        "gen_ai.client.token.usage": {turn},
        "hackamore.cost": {turn},
        "gen_ai.invoke_agent.duration": {turn},
        "hackamore.fleet.limit": {fleet},
        "hackamore.fleet.task.wait": {fleet},
        "hackamore.fleet.attempts": {fleet},
        "hackamore.fleet.tasks": {fleet},
        "hackamore.fleet.task.duration": {fleet},
        "hackamore.pool.waiting": {mine},
        "hackamore.pool.wait.duration": {mine},
    }


@shows("telemetry.metrics", "telemetry.names")
def test_instruments_are_those_of_the_table(collected: Collected) -> None:
    instruments = vars(Instruments(collected.meters.get_meter("test")))
    for instrument in instruments.values():
        (instrument.add if hasattr(instrument, "add") else instrument.record)(1)
    found = {metric.name: metric for metric in collected.metrics()}
    assert len(instruments) == len(found) == len(METRICS)
    for metric in METRICS:
        one = found[metric.name]
        [point] = one.data.data_points
        kind = (
            "histogram"
            if hasattr(point, "explicit_bounds")
            else "counter"
            if one.data.is_monotonic  # type: ignore[union-attr]
            else "updowncounter"
        )
        assert (one.unit, one.description, kind) == (metric.unit, metric.meaning, metric.instrument)
        assert getattr(point, "explicit_bounds", ()) == metric.buckets


SHORT = (0.01, 81.92, 14, 2)
BUCKETS: dict[str, tuple[float, float, int, float]] = {
    "gen_ai.invoke_agent.duration": (0.1, 409.6, 13, 2),
    "gen_ai.execute_tool.duration": SHORT,
    "gen_ai.client.token.usage": (1, 67108864, 14, 4),
    "hackamore.turn.time_to_first_message": SHORT,
    "hackamore.permission.wait": SHORT,
    "hackamore.control.duration": SHORT,
    "hackamore.fleet.task.duration": (0.1, 13107.2, 18, 2),
    "hackamore.fleet.task.wait": (0.1, 13107.2, 18, 2),
    "hackamore.pool.wait.duration": SHORT,
}


def test_buckets_cover_what_is_measured() -> None:
    """Their boundaries are in stored data: queries over months need the same ones."""
    assert {
        metric.name: (
            *(metric.buckets[0], metric.buckets[-1], len(metric.buckets)),
            *{round(above / below, 9) for below, above in zip(metric.buckets, metric.buckets[1:], strict=False)},
        )
        for metric in METRICS
        if metric.instrument == "histogram"
    } == BUCKETS


@shows("telemetry.ends")
@pytest.mark.parametrize(
    ("state", "error", "more", "failure", "told"),
    [
        ("completed", None, {"terminal_reason": "completed"}, None, {"hackamore.terminal_reason": "completed"}),
        ("interrupted", None, {"is_error": True, "subtype": "error_during_execution"}, None, {}),
        (
            *("failed", None, {"is_error": True, "subtype": "error_max_turns", "terminal_reason": "max_turns"}),
            *("max_turns", {"hackamore.terminal_reason": "max_turns"}),
        ),
        ("failed", None, {"is_error": True, "subtype": "error_max_turns"}, "error_max_turns", {}),
        ("failed", None, {"is_error": True, "subtype": ""}, "error", {}),
        ("failed", None, {}, "error", {}),
        ("failed", None, None, "error", {}),
        ("failed", CLINotFoundError("no"), None, "CLINotFoundError", {}),
        ("failed", ProcessError(3, Diagnostic()), {"is_error": True}, "ProcessError", {"process.exit.code": 3}),
    ],
)
def test_the_end_of_a_turn_says_why(
    collected: Collected, state: str, error: Any, more: Any, failure: str | None, told: dict[str, Any]
) -> None:
    observed = begun(collected)
    if more is not None:
        observed.messages_received([result(**more)], ("t1",))
    observed.turn_changed("t1", "queued", None)
    observed.turn_changed("t1", state, error)
    observed.turn_changed("t1", state, error)
    turn = collected.one(AGENT)
    found = attributes(turn)
    assert (found["hackamore.turn.state"], found.get("error.type")) == (state, failure)
    kept = ("hackamore.terminal_reason", "process.exit.code")
    assert {name: found[name] for name in kept if name in found} == told
    assert (turn.status.status_code, turn.status.description) == (
        (trace.StatusCode.ERROR, failure) if failure else (trace.StatusCode.UNSET, None)
    )


@shows("telemetry.ends")
@pytest.mark.parametrize(
    ("error", "state", "failure"),
    [(None, "interrupted", None), (ProcessError(3, Diagnostic()), "failed", "ProcessError")],
)
def test_the_end_ends_every_span(
    collected: Collected, clock: Clock, error: Any, state: str, failure: str | None
) -> None:
    observed = begun(collected)
    usage = {"input_tokens": 3, "output_tokens": 2}
    observed.messages_received([said("m1", called("a"), called("b", "Task"), usage=usage)], ("t1",))
    inner = said("m2", called("c", "Task"), parent="b"), said("m3", called("d", "Read"), parent="c", model="n")
    observed.messages_received(inner, ("t1",))
    observed.messages_received([said("m4", {"type": "text", "text": "x"})], ())  # the CLI began a turn
    observed.messages_received([said("m5", called("e"), parent="unknown")], ())
    observed.callback_started(called_back("hook", event="Stop"))
    clock.seconds += 1
    observed.ended(error, 3 if error else None)
    first, second = collected.named(AGENT)
    for turn in (first, second):
        found = attributes(turn)
        assert (found["hackamore.turn.state"], found.get("error.type")) == (state, failure)
    for name in ("execute_tool Bash", "execute_tool Task", "execute_tool Read", "invoke_agent subagent"):
        assert {attributes(span).get("error.type") for span in collected.named(name)} == {"cancelled"}
    assert attributes(collected.one("hackamore.hook Stop"))["error.type"] == "cancelled"
    spent = {
        (point["gen_ai.request.model"], point["gen_ai.token.type"]): total
        for point, (_, total) in collected.points("gen_ai.client.token.usage")
    }
    assert spent == {("m", "input"): 3, ("m", "output"): 2}
    ended = {point.get("error.type") for point, _ in collected.points("gen_ai.invoke_agent.duration")}
    assert ended == {failure, "cancelled"}


@shows("telemetry.background")
@pytest.mark.parametrize(
    ("more", "state", "failure"),
    [
        ({}, "completed", None),
        ({"is_error": True, "terminal_reason": "api_error"}, "failed", "api_error"),
        ({"is_error": True, "terminal_reason": "aborted_tools"}, "interrupted", None),
    ],
)
def test_a_turn_of_the_cli_ends_with_its_result(
    collected: Collected, more: dict[str, Any], state: str, failure: str | None
) -> None:
    observed = begun(collected, session_id=None)
    observed.messages_received([result(total_cost_usd=1.0)], ("t1",))
    observed.turn_changed("t1", "completed", None)
    with collected.tracer.start_as_current_span("something else"):
        observed.messages_received([said("m1", {"type": "text", "text": "It has ended."})], ())
    observed.messages_received([result(total_cost_usd=1.25, **more)], ())
    first, background = collected.named(AGENT)
    found = attributes(background)
    assert (found["hackamore.background"], found["hackamore.turn.state"], found.get("error.type")) == (
        True,
        state,
        failure,
    )
    assert (found["hackamore.cost.usd"], found["hackamore.cost.total_usd"]) == (0.25, 1.25)
    assert "gen_ai.conversation.id" not in found
    assert parent(background) is None
    assert [link.context.span_id for link in background.links] == [id_of(first)]
    assert "hackamore.background" not in attributes(first)
    assert [count for _, (count, _) in collected.points("hackamore.turn.time_to_first_message")] == []
    observed.messages_received([said("m2", {"type": "text", "text": "More."})], ())  # another one
    observed.ended(None, 0)
    assert len(collected.named(AGENT)) == 3


def test_turns_that_are_answered_together_share_a_result(collected: Collected) -> None:
    observed = begun(collected)
    observed.prompt_sending("t2", "and this")
    together = ("gone", "t1", "t2")
    observed.messages_received([said("m1", {"type": "text", "text": "Both."})], together)
    observed.messages_received([result(total_cost_usd=0.5), result(total_cost_usd=0.75)], together)
    observed.turn_changed("t1", "completed", None)
    observed.turn_changed("t2", "completed", None)
    first, second = sorted(collected.named(AGENT), key=lambda span: str(attributes(span)["hackamore.turn.id"]))
    assert attributes(first)["hackamore.cost.usd"] == 0.75
    assert "hackamore.cost.usd" not in attributes(second)
    assert not first.links
    assert {link.context.span_id for link in second.links} == {id_of(first)}
    assert parent(collected.one("chat m")) == id_of(first)


@shows("telemetry.context")
@pytest.mark.parametrize("kind", ["query", "session"])
def test_a_turn_is_below_the_span_of_its_caller(collected: Collected, kind: Any) -> None:
    with collected.tracer.start_as_current_span("making"):
        observed = collected.telemetry(name="mine").observe(Subject(kind, session_id=None))
    with collected.tracer.start_as_current_span("starting"):
        variables = observed.launching()
    with collected.tracer.start_as_current_span("asking"):
        observed.prompt_sending("t1", "go")
    observed.ended(None, 0)
    turn = collected.one("invoke_agent mine")
    starting = turn if kind == "query" else collected.one("starting")
    assert parent(turn) == id_of(collected.one("making" if kind == "query" else "asking"))
    assert str(variables["TRACEPARENT"]).split("-")[2] == f"{id_of(starting):016x}"
    assert variables["TRACESTATE"] is None
    assert attributes(turn)["hackamore.turn.id"] == "t1"
    assert "hackamore.background" not in attributes(turn)
    assert attributes(turn)["gen_ai.agent.name"] == "mine"


class Server:
    """A server of this process."""


@pytest.mark.parametrize(
    ("name", "servers", "kind"),
    [
        ("mcp__shop__price", {"shop": [Server()]}, "function"),
        ("mcp__shop__price", {"shop": Server()}, "function"),
        ("mcp__shop__price", {"shop": {"type": "stdio", "command": "shop"}}, "extension"),
        ("mcp__other__price", {"shop": [Server()]}, "extension"),
        ("mcp__shop__price", "servers.json", "extension"),
        ("x__shop__price", {"shop": [Server()]}, "extension"),
    ],
)
def test_only_tools_of_this_process_are_functions(collected: Collected, name: str, servers: Any, kind: str) -> None:
    observed = begun(collected, options=SimpleNamespace(**{**OPTIONS, "mcp_servers": servers}))
    observed.messages_received([said("m1", called("a", name))], ("t1",))
    observed.ended(None, 0)
    assert attributes(collected.one(f"execute_tool {name}"))["gen_ai.tool.type"] == kind


OPTIONS: dict[str, Any] = {"agent": None, "env": {}, "inherit_env": True, "resume": None, "continue_conversation": None}


@shows("telemetry.spans")
@pytest.mark.parametrize(
    ("call", "name", "kind", "told"),
    [
        (
            called_back(
                "permission",
                tool="Bash",
                tool_use_id="a",
                request=PermissionRequest(
                    decision_reason_type="rule",
                    matched_ask_rule=MatchedAskRule(tool_name="Bash", rule_content="rm:*"),
                ),
            ),
            *("hackamore.permission", trace.SpanKind.INTERNAL),
            {
                "hackamore.decision.rule": "Bash(rm:*)",
                "hackamore.decision.reason": "rule",
                "hackamore.on_failure": "deny",
                "gen_ai.tool.name": "Bash",
                "gen_ai.tool.call.id": "a",
            },
        ),
        (
            called_back("permission", request=PermissionRequest(matched_ask_rule=MatchedAskRule(tool_name="Bash"))),
            *("hackamore.permission", trace.SpanKind.INTERNAL),
            {"hackamore.decision.rule": "Bash", "hackamore.on_failure": "deny"},
        ),
        (
            called_back("hook", event="Stop", on_failure="block"),
            *("hackamore.hook Stop", trace.SpanKind.INTERNAL),
            {"hackamore.hook.event": "Stop", "hackamore.on_failure": "block"},
        ),
        (
            called_back("mcp", tool="mcp__shop__price", request={"article": "tea"}),
            *("tools/call mcp__shop__price", trace.SpanKind.SERVER),
            {
                "gen_ai.operation.name": "execute_tool",
                "mcp.method.name": "tools/call",
                "gen_ai.tool.name": "mcp__shop__price",
            },
        ),
        (called_back("mcp"), "", None, {}),
        (called_back("dialog", tool="AskUserQuestion"), "", None, {}),
    ],
)
def test_a_callback_is_a_span_with_its_facts(
    collected: Collected, call: CallbackCall, name: str, kind: Any, told: dict[str, Any]
) -> None:
    observed = begun(collected)
    started = observed.callback_started(call)
    observed.callback_ended(call, CallbackEnd("cancelled", None, ""))
    observed.callback_ended(call, CallbackEnd("answered", None, ""))
    observed.ended(None, 0)
    found = [span for span in collected.spans if span.name not in (AGENT, "execute_tool Bash")]
    assert [(span.name, span.kind) for span in found] == ([(name, kind)] if name else [])
    assert (started is not None) == bool(name)
    for span in found:
        cancelled = {"hackamore.callback.outcome": "cancelled", "error.type": "callback_cancelled"}
        assert attributes(span) == {**told, **cancelled}


@shows("telemetry.context")
def test_a_callback_is_inside_of_its_call_or_agent(collected: Collected) -> None:
    observed = begun(collected)
    observed.prompt_sending("t2", "another")
    observed.turn_changed("t2", "started", None)
    observed.messages_received([said("m1", called("a"), called("b", "Task", subagent_type="finder"))], ("t1",))
    task = {"tool_use_id": "b", "task_id": "g1", "task_type": "local_agent", "subagent_type": "finder"}
    observed.messages_received([system("task_started", **task)], ("t1",))
    meta: dict[str, str] = {}
    in_agent = SimpleNamespace(agent_id="g1")
    calls = {
        "of the call": called_back("hook", "1", event="of the call", tool="Bash", tool_use_id="a", meta=meta),
        "of the call without its name": called_back("hook", "7", event="of the call without its name", tool_use_id="a"),
        "of the agent": called_back("hook", "2", event="of the agent", request=in_agent),
        "of nobody": called_back("hook", "3", event="of nobody", request=SimpleNamespace(agent_id="g2")),
        "of an early call": called_back(
            "hook", "4", event="of an early call", tool="Read", tool_use_id="c", request=in_agent
        ),
        "of an early call without a name": called_back(
            "hook", "5", event="of an early call without a name", tool_use_id="d"
        ),
    }
    inside: dict[str, int] = {}
    for name, call in calls.items():
        enter = observed.callback_started(call)
        assert enter is not None
        token: Any = enter()
        inside[name] = trace.get_current_span().get_span_context().span_id
        context.detach(token)
        observed.callback_ended(call, CallbackEnd("answered", {}, ""))
    observed.messages_received([system("task_notification", task_id="g1", tool_use_id="b", status="completed")], ())
    after = called_back("hook", "6", event="after the agent", request=in_agent)
    observed.callback_started(after)
    observed.ended(None, 0)
    first, second = (
        next(s for s in collected.named(AGENT) if attributes(s)["hackamore.turn.id"] == t) for t in ("t1", "t2")
    )
    bash, finder, read = (
        collected.one(name) for name in ("execute_tool Bash", "invoke_agent finder", "execute_tool Read")
    )
    above = {name: parent(collected.one(f"hackamore.hook {name}")) for name in (*calls, "after the agent")}
    assert above == {
        "of the call": id_of(bash),
        "of the call without its name": id_of(bash),
        "of the agent": id_of(finder),
        "of nobody": id_of(second),  # of the turn that runs
        "of an early call": id_of(read),
        "of an early call without a name": id_of(second),
        "after the agent": id_of(second),
    }
    assert (parent(bash), parent(read)) == (id_of(first), id_of(finder))
    assert inside == {name: id_of(collected.one(f"hackamore.hook {name}")) for name in calls}
    assert meta["traceparent"].split("-")[2] == f"{inside['of the call']:016x}"


def test_what_belongs_to_no_turn_is_inside_of_the_caller(collected: Collected) -> None:
    with collected.tracer.start_as_current_span("caller") as span:
        observed = collected.telemetry().observe(Subject())
    call = called_back("hook", event="SessionStart")
    observed.callback_started(call)
    observed.callback_ended(call, CallbackEnd("answered", {}, ""))
    observed.messages_received([said("m1", {"type": "text", "text": "x"}, parent="of an earlier process")], ())
    used = {"m": {"inputTokens": 5, "outputTokens": 1}}
    observed.messages_received([result(total_cost_usd=0.5, modelUsage=used)], ())
    observed.ended(None, 0)
    caller = id_of(span)  # type: ignore[arg-type]
    assert {parent(collected.one(name)) for name in ("hackamore.hook SessionStart", "invoke_agent subagent")} == {
        caller
    }
    exemplars = collected.exemplars()
    assert exemplars["hackamore.cost"] == exemplars["gen_ai.client.token.usage"] == {caller}
    assert [value for _, value in collected.points("hackamore.cost")] == [0.5]


@shows("telemetry.background")
@pytest.mark.parametrize(
    ("status", "failure"), [("completed", None), ("failed", "failed"), ("stopped", "stopped"), ("", "cancelled")]
)
def test_a_background_agent_ends_with_its_task(collected: Collected, status: str, failure: str | None) -> None:
    observed = begun(collected)
    observed.messages_received([said("m1", called("a", "Task", subagent_type="finder"))], ("t1",))
    task = {"tool_use_id": "a", "task_id": "g1", "task_type": "local_agent"}
    observed.messages_received([system("task_started", is_backgrounded=True, **task)], ("t1",))
    observed.messages_received([outcome("a", "It runs.")], ("t1",))
    observed.turn_changed("t1", "completed", None)
    observed.messages_received([said("m2", called("b", "Read"), parent="a")], ())
    usage = {"input_tokens": 3, "output_tokens": 2}
    observed.messages_received([outcome("b"), said("m3", parent="a", usage=usage)], ())
    observed.messages_received([system("task_notification", task_id="g1", tool_use_id="a", status=status)], ())
    finder = collected.one("invoke_agent finder")
    assert facts(finder) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.agent.name": "finder",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "hackamore.inference_calls": 2,
        "hackamore.tool_calls": 1,
        **({} if failure is None else {"error.type": failure}),
    }
    assert parent(finder) == id_of(collected.one("execute_tool Task"))
    assert attributes(collected.one("execute_tool Task")).get("error.type") is None
    assert attributes(collected.one("execute_tool Read"))["gen_ai.agent.name"] == "finder"


@pytest.mark.parametrize(("kind", "name"), [("finder", "finder"), (None, "subagent"), (7, "subagent")])
def test_an_agent_ends_with_its_call(collected: Collected, kind: object, name: str) -> None:
    observed = begun(collected)
    observed.messages_received([said("m1", called("a", "Task", subagent_type=kind))], ("t1",))
    observed.messages_received([said("m2", called("b", "Read"), parent="a")], ("t1",))
    observed.messages_received([outcome("b")], ("t1",))
    observed.messages_received([outcome("a")], ("t1",))
    observed.ended(None, 0)
    agent = collected.one(f"invoke_agent {name}")
    assert "error.type" not in attributes(agent)  # it was over before the session
    assert parent(agent) == id_of(collected.one("execute_tool Task"))
    assert attributes(collected.one("execute_tool Read"))["gen_ai.agent.name"] == name


@shows("telemetry.context")
@pytest.mark.parametrize("step", ["prepare", "finish", "verify"])
def test_a_step_of_an_attempt_is_current_until_it_ends(collected: Collected, step: Any) -> None:
    run = collected.telemetry().observe_run("f1", 3)
    spans = fleets.AttemptSpans(collected.tracer, AttemptFacts("task", 2, True), run.context())

    def now() -> int:
        return trace.get_current_span().get_span_context().span_id

    attempt = now()
    spans.step_ended("")  # none is open
    spans.step_started(step)
    inner = now()
    spans.step_ended("ValueError")
    assert now() == attempt
    spans.ended("waiting", "crash", "failed", "s1")
    run.ended(ValueError("no"))
    assert now() == 0
    name = "hackamore.fleet.verify" if step == "verify" else "hackamore.fleet.workspace"
    one = collected.one(name)
    assert (id_of(one), parent(one), one.status.description) == (inner, attempt, "ValueError")
    told = {} if step == "verify" else {"hackamore.fleet.workspace.step": step}
    assert attributes(one) == {**told, "error.type": "ValueError"}
    whole = collected.one("hackamore.fleet.attempt")
    assert (parent(whole), whole.status.description) == (id_of(collected.one("hackamore.fleet.run")), "failed")
    assert attributes(whole) == {
        "hackamore.fleet.task.id": "task",
        "hackamore.fleet.attempt.number": 2,
        "hackamore.fleet.attempt.resumed": True,
        "gen_ai.conversation.id": "s1",
        "hackamore.fleet.task.state": "waiting",
        "hackamore.fleet.attempt.cause": "crash",
        "error.type": "failed",
    }
    assert attributes(collected.one("hackamore.fleet.run")) == {
        "hackamore.fleet.id": "f1",
        "hackamore.fleet.concurrency": 3,
        "error.type": "ValueError",
    }


@shows("telemetry.fleet-metrics", "telemetry.pools")
def test_numbers_of_fleets_and_pools(collected: Collected, clock: Clock) -> None:
    telemetry = collected.telemetry()
    run, other = telemetry.observe_run("f1", 3), telemetry.observe_run("f2", 3)
    for limit in (3, 1, 2):
        run.limit_changed(limit)
    other.limit_changed(4)
    run.task_leased(1.5)
    run.attempt_ended("crash")
    run.attempt_ended(None)
    run.task_ended("succeeded", 2.5)
    pool = telemetry.observe_pool()
    waits = pool.waiting(), pool.waiting()
    assert collected.points("hackamore.fleet.limit") == [({}, 6)]
    assert collected.points("hackamore.pool.waiting") == [({}, 2)]
    clock.seconds += 3
    waits[0].ended("s1", "resumed", None)
    waits[1].ended(None, None, TimeoutError())
    pool.hibernated("idle")
    run.ended(None)
    expected: dict[str, list[Any]] = {
        "hackamore.fleet.limit": [({}, 4)],
        "hackamore.fleet.task.wait": [({}, (1, 1.5))],
        "hackamore.fleet.attempts": [
            ({"hackamore.fleet.attempt.cause": "crash"}, 1),
            ({"hackamore.fleet.attempt.cause": "none"}, 1),
        ],
        "hackamore.fleet.tasks": [({"hackamore.fleet.task.state": "succeeded"}, 1)],
        "hackamore.fleet.task.duration": [({"hackamore.fleet.task.state": "succeeded"}, (1, 2.5))],
        "hackamore.pool.waiting": [({}, 0)],
        "hackamore.pool.hibernations": [({"hackamore.pool.hibernation.reason": "idle"}, 1)],
        "hackamore.pool.wait.duration": [
            ({"hackamore.pool.session.source": "resumed"}, (1, 3.0)),
            ({"hackamore.pool.session.source": "none", "error.type": "TimeoutError"}, (1, 3.0)),
        ],
    }
    assert {name: collected.points(name) for name in expected} == expected
    other.ended(None)
    good, bad = collected.named("hackamore.pool.wait")
    assert attributes(good) == {"hackamore.pool.session.source": "resumed", "gen_ai.conversation.id": "s1"}
    assert attributes(bad) == {"hackamore.pool.session.source": "none", "error.type": "TimeoutError"}


@pytest.mark.parametrize(
    ("mine", "options", "expected"),
    [(None, None, "claude-code"), (None, "reviewer", "reviewer"), ("mine", None, "mine"), ("mine", "reviewer", "mine")],
)
def test_the_name_of_an_agent(collected: Collected, mine: str | None, options: str | None, expected: str) -> None:
    observed = collected.telemetry(name=mine).observe(Subject(options=Options(agent=options)))
    observed.prompt_sending("t1", "go")
    observed.ended(None, 0)
    assert attributes(collected.one(f"invoke_agent {expected}"))["gen_ai.agent.name"] == expected


def test_spans_and_metrics_name_the_library(collected: Collected) -> None:
    observed = begun(collected)
    observed.launched()
    observed.ended(None, 0)
    scope = collected.one(AGENT).instrumentation_scope
    assert scope is not None
    expected = ("hackamore", hackamore.__version__)
    assert (scope.name, scope.version) == expected
    data = collected.reader.get_metrics_data()
    assert data is not None
    scopes = [scope.scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    assert [(scope.name, scope.version) for scope in scopes] == [expected]


@pytest.mark.parametrize("resumed", [{"resume": "s1"}, {"continue_conversation": True}, {}])
def test_the_cost_of_a_resumed_conversation_is_not_that_of_its_first_turn(
    collected: Collected, resumed: dict[str, Any]
) -> None:
    observed = begun(collected, options=Options(**resumed))
    observed.messages_received([result(total_cost_usd=5.0)], ("t1",))
    observed.turn_changed("t1", "completed", None)
    found = attributes(collected.one(AGENT))
    assert found["hackamore.cost.total_usd"] == 5.0
    assert found.get("hackamore.cost.usd") == (None if resumed else 5.0)
    assert [value for _, value in collected.points("hackamore.cost")] == ([] if resumed else [5.0])


def test_a_turn_has_the_tokens_of_its_result(collected: Collected) -> None:
    observed = begun(collected)
    observed.messages_received([said("m1", usage={"input_tokens": 99, "output_tokens": 1})], ("t1",))
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 4}
    observed.messages_received([result(usage=usage)], ("t1",))
    observed.turn_changed("t1", "completed", None)
    found = attributes(collected.one(AGENT))
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (15, 4)
    observed.ended(None, 0)
    measured = [total for _, (_, total) in collected.points("gen_ai.client.token.usage")]
    assert sorted(measured) == [1, 99]  # the result names no models


@pytest.fixture(autouse=True)
def no_span_stays_current() -> Iterator[None]:
    yield
    assert not trace.get_current_span().get_span_context().is_valid
