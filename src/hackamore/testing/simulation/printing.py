"""The output of a simulated CLI on stdout: its frames, or one answer as text or JSON, by `--output-format`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from hackamore.testing.simulation.launch import Launch


class Printer:
    """Turns frames into the output of the format."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._frames: list[msgspec.Raw] = []
        self._rest = b""
        self._result: dict[str, Any] | None = None
        self._ended = False

    def printed(self, data: bytes, *, ended: bool) -> bytes:
        """Return the bytes to write after a part of the frames; `ended` says that no other part follows."""
        if self._launch.output_format == "stream-json":
            return data
        if self._ended:
            return b""
        self._ended = ended
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                frame = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError):  # a script may write anything
                continue
            if isinstance(frame, dict) and frame.get("type") == "result":
                self._result = frame
            self._frames.append(msgspec.Raw(line))
        return self._last() if ended else b""

    def _last(self) -> bytes:
        result = self._result
        if result is None:
            return b""
        if self._launch.output_format == "json":
            result.pop("model_usage_since_last_result", None)
            return msgspec.json.encode(self._frames if self._launch.verbose else result) + b"\n"
        text = _text_of(result, self._launch)
        end = "\n" if result.get("subtype") == "success" and not text.endswith("\n") else ""
        return f"{text}{end}".encode()


def _text_of(result: dict[str, Any], launch: Launch) -> str:
    if result.get("structured_output") is not None:
        return json.dumps(result["structured_output"], ensure_ascii=False, separators=(",", ":"))
    match result.get("subtype"):
        case "error_max_turns":
            return f"Error: Reached max turns ({launch.max_turns})"
        case "error_max_budget_usd":
            return f"Error: Exceeded USD budget ({(launch.other.get('max-budget-usd') or ['0'])[-1]})"
        case "error_max_structured_output_retries":
            return "Error: Failed to provide valid structured output after maximum retries"
        case "error_during_execution":
            return "Execution error"
        case _:
            return str(result.get("result", ""))
