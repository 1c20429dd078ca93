"""Variables that the CLI gets: the trace context, and the switches of its own telemetry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import TraceState

import hackamore
from hackamore import Options, OptionsError
from hackamore.telemetry import environment as environment_of
from tests.contract import shows
from tests.support.session_fixtures import StandIn
from tests.support.shell import Shell
from tests.support.talking import Running, got, texts
from tests.telemetry.collecting import Collected, attributes, id_of, place_of

STALE = "00-11111111111111111111111111111111-1111111111111111-01"
EXPLICIT = "00-22222222222222222222222222222222-2222222222222222-01"


def environment(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def traceparent(span: trace.Span) -> str:
    found = span.get_span_context()
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"


@shows("telemetry.traceparent")
def test_a_session_gets_the_context_of_its_start(
    shell: Shell, collected: Collected, playing: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", STALE)
    monkeypatch.setenv("TRACESTATE", "stale=1")

    async def variables(**more: Any) -> dict[str, str]:
        async with Running(shell, playing(telemetry=collected.telemetry(), **more)) as session:
            return environment(session.pid)

    async def scenario() -> None:
        found = await variables()
        assert (found["TRACEPARENT"], found["TRACESTATE"]) == (STALE, "stale=1")  # no span, nothing to say
        token = context.attach(baggage.set_baggage("tenant", "seven"))
        with collected.tracer.start_as_current_span("caller") as span:
            found = await variables()
            assert found["TRACEPARENT"] == traceparent(span)
            assert "TRACESTATE" not in found
            assert found["BAGGAGE"] == "tenant=seven"
            found = await variables(env={"TRACEPARENT": EXPLICIT})
            assert found["TRACEPARENT"] == EXPLICIT
            found = await variables(env={"TRACEPARENT": None})
            assert "TRACEPARENT" not in found
        context.detach(token)

    shell.play(scenario)


@shows("telemetry.traceparent")
def test_a_query_gets_the_context_of_its_own_span(
    shell: Shell, collected: Collected, playing: StandIn, tmp_path: Path
) -> None:
    found: list[dict[str, str]] = []
    read = tmp_path / "read"
    text = json.dumps([["await_file", str(read)]])  # a process that has ended has no variables

    async def scenario() -> None:
        options = playing(telemetry=collected.telemetry(), can_use_tool=lambda request: hackamore.Allow())
        for prompt in (text, iter([text])):
            with collected.tracer.start_as_current_span("caller"):
                stream = shell.query(prompt, options)
            await stream.start()
            found.append(environment(stream.pid))
            read.touch()
            await stream.result()
            read.unlink()

    shell.play(scenario)
    turns = collected.named("invoke_agent claude-code")
    spans = [place_of(span) for span in turns]
    assert [variables["TRACEPARENT"].split("-")[1:3] for variables in found] == [
        [f"{span.trace_id:032x}", f"{span.span_id:016x}"] for span in spans
    ]
    callers = {id_of(span) for span in collected.named("caller")}
    assert {span.parent.span_id for span in turns if span.parent is not None} == callers


def test_the_state_of_a_trace_goes_along(collected: Collected, playing: StandIn) -> None:
    parent = trace.SpanContext(7, 8, True, trace.TraceFlags(1), TraceState([("vendor", "state")]))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    try:
        with hackamore.sync.Session(playing(telemetry=collected.telemetry())) as session:
            assert session.pid is not None
            found = environment(session.pid)
    finally:
        context.detach(token)
    assert found["TRACEPARENT"] == f"00-{7:032x}-{8:016x}-01"
    assert found["TRACESTATE"] == "vendor=state"


@shows("telemetry.cli")
def test_the_switches_of_the_cli(shell: Shell, collected: Collected, playing: StandIn) -> None:
    async def scenario() -> None:
        telemetry = collected.telemetry(cli=True)
        async with Running(shell, playing(telemetry=telemetry, env={"OTEL_LOGS_EXPORTER": "none"})) as session:
            found = environment(session.pid)
        assert found["CLAUDE_CODE_ENABLE_TELEMETRY"] == found["CLAUDE_CODE_ENHANCED_TELEMETRY_BETA"] == "1"
        assert found["OTEL_TRACES_EXPORTER"] == found["OTEL_METRICS_EXPORTER"] == "otlp"
        assert found["OTEL_LOGS_EXPORTER"] == "none"

    shell.play(scenario)


@shows("telemetry.cli")
def test_an_exporter_that_writes_into_the_protocol_is_refused(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = collected.telemetry(cli=True)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp, console")
    for refused in (
        Options(telemetry=telemetry),
        Options(telemetry=telemetry, inherit_env=["OTEL_TRACES_EXPORTER"]),
        Options(telemetry=telemetry, inherit_env=False, env={"OTEL_TRACES_EXPORTER": "console"}),
    ):
        for make in (hackamore.Session, hackamore.sync.Session, lambda options: hackamore.query("hello", options)):
            with pytest.raises(OptionsError, match="OTEL_TRACES_EXPORTER contains `console`") as caught:
                make(refused)
            assert caught.value.field == "env.OTEL_TRACES_EXPORTER"
    for allowed in (
        Options(telemetry=collected.telemetry()),
        Options(telemetry=telemetry, inherit_env=False),
        Options(telemetry=telemetry, env={"OTEL_TRACES_EXPORTER": "otlp"}),
        Options(telemetry=telemetry, env={"OTEL_TRACES_EXPORTER": None}),
    ):
        hackamore.Session(allowed)


def test_provider_and_name(shell: Shell, collected: Collected, playing: StandIn) -> None:
    async def scenario() -> None:
        telemetry = collected.telemetry(name="reviewer")
        options = playing(telemetry=telemetry, env={"CLAUDE_CODE_USE_BEDROCK": "1"})
        async with Running(shell, options) as session:
            await texts(await got(session.send("hello")))

    shell.play(scenario)
    assert attributes(collected.one("invoke_agent reviewer"))["gen_ai.provider.name"] == "aws.bedrock"


@shows("telemetry.content")
@pytest.mark.parametrize(
    ("setting", "captures"),
    [
        *(("true", True), (" True ", True), ("1", True), ("SPAN_ONLY", True), ("span_and_event", True)),
        *((None, False), ("", False), ("false", False), ("0", False), ("no", False), ("event_only", False)),
    ],
)
def test_the_variable_of_the_conventions_allows_content(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, captures: bool
) -> None:
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    if setting is not None:
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", setting)
    assert environment_of.captures_content() is captures


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "anthropic"),
        ({"CLAUDE_CODE_USE_BEDROCK": "0"}, "anthropic"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "aws.bedrock"),
        ({"CLAUDE_CODE_USE_BEDROCK": "", "CLAUDE_CODE_USE_VERTEX": "True"}, "gcp.vertex_ai"),
    ],
)
def test_the_provider_is_that_of_the_cli(
    collected: Collected, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    assert environment_of.provider(variables) == expected
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = hackamore.sync.query("hello", Options(telemetry=collected.telemetry(), cli_path="/missing/claude"))
    with pytest.raises(hackamore.CLINotFoundError):
        stream.result()
    assert attributes(collected.one("invoke_agent claude-code"))["gen_ai.provider.name"] == expected


@shows("telemetry.cli")
@pytest.mark.parametrize("signal", ["TRACES", "METRICS", "LOGS"])
@pytest.mark.parametrize(
    ("value", "refused"),
    [("console", True), ("otlp, Console ", True), ("otlp", False), ("", False), ("consoles,none", False)],
)
def test_the_console_is_refused_for_every_signal(signal: str, value: str, refused: bool) -> None:
    name = f"OTEL_{signal}_EXPORTER"
    if not refused:
        environment_of.check_exporters({name: value})
        return
    with pytest.raises(OptionsError) as caught:
        environment_of.check_exporters({name: value})
    assert caught.value.field == f"env.{name}"
    assert str(caught.value) == (
        f"`telemetry` has `cli=True`, and {name} contains `console`: the CLI would write telemetry into its standard output, "
        f"which carries the protocol. Set `Options(env={{'{name}': 'otlp'}})`."
    )


@shows("telemetry.cli")
def test_the_telemetry_of_the_cli_is_turned_on_without_changing_what_is_set() -> None:
    names = ("TRACES", "METRICS", "LOGS")
    on = {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1"}
    assert environment_of.switches({}) == {**on, **{f"OTEL_{name}_EXPORTER": "otlp" for name in names}}
    assert environment_of.switches({f"OTEL_{name}_EXPORTER": "" for name in names}) == on


@shows("telemetry.traceparent")
def test_a_context_of_the_options_is_not_mixed_with_another() -> None:
    around = trace.set_span_in_context(
        trace.NonRecordingSpan(trace.SpanContext(7, 8, True, trace.TraceFlags(1))), baggage.set_baggage("tenant", "7")
    )
    mine = f"00-{7:032x}-{8:016x}-01"
    found = environment_of.trace_context(around, Options())
    assert found == {"TRACEPARENT": mine, "TRACESTATE": None, "BAGGAGE": "tenant=7"}
    for given in ({"TRACEPARENT": EXPLICIT}, {"TRACEPARENT": None}):
        assert environment_of.trace_context(around, Options(env=given)) == {}
    assert environment_of.trace_context(around, Options(env={"TRACESTATE": "mine=1"})) == found
    assert environment_of.trace_context(baggage.set_baggage("tenant", "7"), Options()) == {}
