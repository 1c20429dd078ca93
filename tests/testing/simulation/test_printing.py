"""The output of a one-shot in each format of `--output-format`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hackamore.testing.simulation.launch import Launch, parse_launch
from hackamore.testing.simulation.printing import Printer

FRAMES: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init"},
    {"type": "result", "subtype": "success", "result": "4", "model_usage_since_last_result": {}},
]


def printed(launch: Launch, *frames: dict[str, Any], before: bytes = b"") -> list[bytes]:
    """What is written after each byte of the frames, without what is empty."""
    printer = Printer(launch)
    data = before + b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
    parts = [printer.printed(data[place : place + 1], ended=False) for place in range(len(data))]
    return [part for part in (*parts, printer.printed(b"", ended=True), printer.printed(data, ended=True)) if part]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"subtype": "success", "result": "4"}, "4\n"),
        ({"subtype": "success", "result": "4\n"}, "4\n"),
        ({"subtype": "success"}, "\n"),
        ({"subtype": "success", "structured_output": {"n": [1, "é"]}}, '{"n":[1,"é"]}\n'),
        ({"subtype": "success", "is_error": True, "result": "API Error"}, "API Error\n"),
        ({"subtype": "error_max_turns"}, "Error: Reached max turns (3)"),
        ({"subtype": "error_max_budget_usd"}, "Error: Exceeded USD budget (0.50)"),
        (
            {"subtype": "error_max_structured_output_retries"},
            "Error: Failed to provide valid structured output after maximum retries",
        ),
        ({"subtype": "error_during_execution"}, "Execution error"),
    ],
)
def test_text(result: dict[str, Any], text: str) -> None:
    launch = parse_launch(["-p", "--max-turns", "3", "--max-budget-usd", "0.50"], {})
    found = Printer(launch).printed(json.dumps({"type": "result", **result}).encode() + b"\n", ended=True)
    assert found.decode() == text


def test_nothing_is_printed_before_the_end() -> None:
    assert printed(Launch(output_format="text"), *FRAMES) == [b"4\n"]
    assert printed(Launch(output_format="text"), FRAMES[0]) == []
    assert printed(Launch(output_format="text"), FRAMES[1], FRAMES[0], before=b"no JSON\n[]\n") == [b"4\n"]


def test_json_is_the_result_or_with_verbose_all_frames() -> None:
    [data] = printed(Launch(output_format="json"), *FRAMES)
    assert data.endswith(b"\n")
    assert json.loads(data) == {"type": "result", "subtype": "success", "result": "4"}
    [data] = printed(Launch(output_format="json", verbose=True), *FRAMES)
    assert json.loads(data) == FRAMES


def test_frames_are_passed_on_immediately() -> None:
    launch = Launch(output_format="stream-json")
    assert Printer(launch).printed(b"half a", ended=False) == b"half a"
