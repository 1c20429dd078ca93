"""The names of telemetry are those of the published conventions, and the guide lists all of them."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    gen_ai_attributes,
    mcp_attributes,
    process_attributes,
)

import hackamore
from hackamore import Options, OptionsError
from hackamore.telemetry import names
from tests.contract import shows

PROJECT = Path(__file__).resolve().parents[2]


GUIDE = (PROJECT / "docs/guides/production/observe.md").read_text()
METRICS = [value for value in vars(names).values() if isinstance(value, names.MetricName)]


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the tables below a heading of the guide."""
    text = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip("`") for cell in line.strip("| ").split(" | ")] for line in text.split("\n") if line[:3] == "| `"
    ]


def constants() -> set[str]:
    return {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str) and "." in value}


def attributes() -> set[str]:
    return {row[0] for row in rows("Attributes")}


def published(*modules: object) -> set[str]:
    return {value for module in modules for name, value in vars(module).items() if name.isupper()}


@shows("telemetry.names")
def test_attributes_are_those_of_the_conventions() -> None:
    release = re.search(r"`opentelemetry-semantic-conventions` (\S+) for", GUIDE)
    assert release is not None
    assert metadata.version("opentelemetry-semantic-conventions") >= release[1]
    known = published(gen_ai_attributes, mcp_attributes, error_attributes, process_attributes)
    ours = {name for name in attributes() if not name.startswith("hackamore.")}
    assert ours <= known, ours - known
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL} <= operations
    assert names.TOOLS_CALL in {value.value for value in mcp_attributes.McpMethodNameValues}
    providers = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    assert {"anthropic", "aws.bedrock", "gcp.vertex_ai"} <= providers


@shows("telemetry.names")
def test_metrics_are_those_of_the_conventions() -> None:
    conventions = tomllib.loads(Path(__file__).with_name("conventions.toml").read_text())
    commit = re.search(r"commit `(\w{12})` of `semantic-conventions-genai`", GUIDE)
    assert commit is not None
    assert conventions["commit"].startswith(commit[1])
    ours = {
        metric.name: {"instrument": metric.instrument, "unit": metric.unit}
        for metric in METRICS
        if not metric.name.startswith("hackamore.")
    }
    assert ours == conventions["metrics"]


@shows("telemetry.names")
def test_the_guide_lists_all_names() -> None:
    spans = {row[0].split(" ")[0] for row in rows("Spans")}
    assert {names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL, names.TOOLS_CALL} <= spans
    assert {name for name in constants() if name in spans} == {span for span in spans if "." in span}
    assert constants() - spans == attributes()
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.instrument} | `{metric.unit}` | {metric.meaning.rstrip('.')} |" in GUIDE


@shows("telemetry.light")
def test_opentelemetry_is_loaded_with_the_first_telemetry_only() -> None:
    code = (
        "import sys, hackamore\n"
        "def loaded(): return [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "hackamore.Options(); hackamore.Telemetry\n"
        "assert not loaded(), loaded()\n"
        "hackamore.Telemetry()\n"
        "assert loaded()\n"
        "assert not [name for name in loaded() if name.startswith('opentelemetry.sdk')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@shows("telemetry.light")
def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(OptionsError) as caught:
        hackamore.Telemetry()
    assert caught.value.field == "telemetry"
    assert str(caught.value) == (
        "`hackamore.Telemetry` needs the package opentelemetry-api, which is not installed. Install `hackamore[otel]`."
    )


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"`tracer_provider` must be an object with the method `get_tracer`"):
        hackamore.Telemetry("otlp")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`meter_provider` must be an object with the method `get_meter`"):
        hackamore.Telemetry(meter_provider=object)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`content` must be a bool or None, not str"):
        hackamore.Telemetry(content="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`cli` must be a bool, not int"):
        hackamore.Telemetry(cli=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`name` must not be empty"):
        hackamore.Telemetry(name="")
    with pytest.raises(OptionsError, match=r"`telemetry` must be an object with the method `observe`"):
        Options(telemetry=True)  # type: ignore[arg-type]
    assert repr(hackamore.Telemetry(name="reviewer")) == "Telemetry(content=None, cli=False, name='reviewer')"


def test_settings_can_be_sent_to_another_process_and_providers_cannot() -> None:
    telemetry = hackamore.Telemetry(content=True, cli=True, name="reviewer")
    telemetry.observe_run("a fleet", 4).ended(None)
    assert repr(pickle.loads(pickle.dumps(telemetry))) == repr(telemetry)
    for providers in ({"tracer_provider": TracerProvider()}, {"meter_provider": MeterProvider()}):
        with pytest.raises(TypeError, match="belongs to its process"):
            pickle.dumps(hackamore.Telemetry(**providers))


def test_a_provider_that_comes_later_gets_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = InMemoryMetricReader(), InMemoryMetricReader()
    providers = [MeterProvider([reader]) for reader in readers]
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: providers[0])
    telemetry, other = hackamore.Telemetry(), hackamore.Telemetry()
    for later in (False, True):
        if later:
            monkeypatch.setattr(metrics, "get_meter_provider", lambda: providers[1])
        for each in (telemetry, other, telemetry):
            each.observe_pool().hibernated("idle")
    for reader in readers:
        data = reader.get_metrics_data()
        assert data is not None
        [metric] = [
            found for all_of in data.resource_metrics for scope in all_of.scope_metrics for found in scope.metrics
        ]
        [point] = metric.data.data_points
        assert point.value == 3  # type: ignore[union-attr]
